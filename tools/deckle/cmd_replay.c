/* SPDX-License-Identifier: MIT */
/* deckle replay: options, and one replay after another; see replay.h. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "replay.h"
#include "trace_report.h"
#include "ui.h"

#define ASK_EVERY   4096u
#define MOST_REPEAT 1000000u

int cmd_replay(int argc, char **argv);

struct job {
    struct replay_options options;
    const char *json;
    FILE *out; /* for people; NULL where JSON goes to standard output */
    cJSON *runs;
    bool quiet;
};

/* One file on its way. */
struct replay {
    struct trace *trace;
    struct trace_model *model;
    struct replay_plan plan;
    struct replay_pool pool;
    struct replay_result result;
};

/* --- one file -------------------------------------------------------------------------------- */

static void print_left_out(void *context, const char *message)
{
    (void)context;
    ui_warn("%s", message);
}

/* Reads the whole trace into the plan. */
static int read_plan(struct replay *r, const char *path)
{
    struct ui_progress progress;
    enum trace_status status;
    struct trace_event event;
    const char *why = "not enough memory";
    uint64_t done, total;
    uint32_t n = 0;

    ui_progress_start(&progress, "reading");
    while ((status = trace_next(r->trace, &event)) == TRACE_EVENT) {
        if (!trace_model_event(r->model, &event, NULL) ||
            !replay_plan_event(&r->plan, &event, &why))
            break;
        if (++n % ASK_EVERY == 0) {
            if (ui_interrupted()) {
                ui_progress_end(&progress);
                return UI_INTERRUPTED;
            }
            trace_progress(r->trace, &done, &total);
            ui_progress_show(&progress, done, total);
        }
    }
    ui_progress_end(&progress);
    if (status == TRACE_ERROR)
        ui_error("%s", trace_message(r->trace));
    else if (status == TRACE_EVENT || !replay_plan_finish(&r->plan))
        ui_error_at(path, status == TRACE_EVENT ? event.line : 0, "%s", why);
    else if (r->plan.counts.events == 0)
        ui_error_at(path, 0, "has no mm_page_alloc and no mm_page_free events");
    else
        return UI_OK;
    return UI_BAD_INPUT;
}

static void report(struct job *j, struct replay *r)
{
    const struct replay_report view = {trace_facts(r->trace),
                                       trace_model_totals(r->model),
                                       &r->plan,
                                       &r->pool,
                                       &j->options,
                                       &r->result};

    trace_warn(view.facts);
    if (j->out != NULL)
        replay_print(j->out, &view);
    if (j->runs != NULL)
        cJSON_AddItemToArray(j->runs, replay_json(&view));
}

static int play(struct job *j, struct replay *r)
{
    int status = replay_pool_open(&r->pool, &j->options, r->plan.counts.peak_frames,
                                  r->plan.max_order, r->plan.nr_columns);

    if (status != UI_OK)
        return status;
    status = replay_run(&r->plan, &r->pool, &j->options, trace_facts(r->trace)->source, &r->result);
    if (status == UI_OK || status == UI_INTERRUPTED) {
        const struct replay_report view = {
            .plan = &r->plan, .pool = &r->pool, .result = &r->result};

        report(j, r);
        if (replay_faulty(&view))
            status = UI_FAULT;
    }
    replay_pool_close(&r->pool);
    return status;
}

static int replay_file(struct job *j, const char *path)
{
    struct replay *r = calloc(1, sizeof(*r));
    char message[TRACE_MESSAGE];
    int status = UI_MISSING;

    if (r == NULL || (r->model = trace_model_new()) == NULL ||
        !replay_plan_init(&r->plan, j->options.zero)) {
        ui_error("not enough memory");
    } else if ((r->trace = trace_open(path, &j->options.trace, message)) == NULL) {
        ui_error("%s", message);
        status = UI_BAD_INPUT;
    } else {
        status = read_plan(r, path);
        if (status == UI_OK)
            status = play(j, r);
    }
    if (r != NULL) {
        replay_plan_free(&r->plan);
        trace_model_free(r->model);
        trace_close(r->trace);
    }
    free(r);
    return status;
}

static int replay_files(struct job *j, char **paths, int nr)
{
    int worst = UI_OK;

    for (int i = 0; i < nr; i++) {
        int status;

        if (i > 0 && j->out != NULL)
            fprintf(j->out, "\n");
        status = replay_file(j, paths[i]);
        if (status == UI_INTERRUPTED || ui_interrupted())
            return status == UI_FAULT ? UI_FAULT : UI_INTERRUPTED;
        /* A fault is what the caller must hear of first. */
        if (worst != UI_FAULT && status != UI_OK)
            worst = status;
    }
    return worst;
}

/* --- options --------------------------------------------------------------------------------- */

static void help(void)
{
    puts(
        "Usage: deckle replay [OPTION]... FILE...\n"
        "Play a recorded Linux kernel's page events through a pool of Deckle, one thread for each\n"
        "CPU of the recording, and tell what happened. FILE is text of ftrace, trace-cmd report "
        "or\n"
        "perf script, plain, .xz or .gz, or packed; \"-\" is standard input. Each FILE gets a "
        "pool\n"
        "of its own.\n");
    puts("      --free-running  each thread plays its own events without waiting for the order of\n"
         "                      the file; only for blocks and memory that others have yet to "
         "provide\n"
         "      --size BYTES    memory of the pool (default: 1.1 times the most that is live at\n"
         "                      once, and the reserves); K, M, G, T are understood\n"
         "      --nodes N       spread memory and CPUs over N nodes (default 1)\n"
         "      --repeat N      play the trace N times on the same pool (default 1)\n"
         "      --zero          back the frames with memory and zero those that were asked for so\n"
         "      --cells         per-CPU caches of atomic cells instead of restartable sequences\n"
         "      --json FILE     also write everything as JSON; \"-\" is standard output, which "
         "then\n"
         "                      gets nothing else\n"
         "      --pfn-base N    10 or 16: what a pfn without 0x is (default: decided by the first\n"
         "                      64 KiB)\n"
         "  -k, --keep-going    leave out lines that cannot be understood\n"
         "  -q, --quiet         print nothing but errors\n"
         "      --help          print this\n\n"
         "Exit status: 0 all was right; 1 an allocation failed that Linux served, a free was "
         "refused\n"
         "or a check found a fault; 2 a bad file or option; 130 interrupted.");
}

enum {
    OPTION_FREE = 256,
    OPTION_SIZE,
    OPTION_NODES,
    OPTION_REPEAT,
    OPTION_ZERO,
    OPTION_CELLS,
    OPTION_JSON,
    OPTION_PFN_BASE,
    OPTION_HELP
};

static const struct option options[] = {
    {"free-running", no_argument, NULL, OPTION_FREE},
    {"size", required_argument, NULL, OPTION_SIZE},
    {"nodes", required_argument, NULL, OPTION_NODES},
    {"repeat", required_argument, NULL, OPTION_REPEAT},
    {"zero", no_argument, NULL, OPTION_ZERO},
    {"cells", no_argument, NULL, OPTION_CELLS},
    {"json", required_argument, NULL, OPTION_JSON},
    {"pfn-base", required_argument, NULL, OPTION_PFN_BASE},
    {"keep-going", no_argument, NULL, 'k'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool take_number(const char *option, uint64_t min, uint64_t max, uint32_t *value)
{
    uint64_t number;

    if (!ui_option_u64(option, optarg, min, max, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool take_option(struct job *j, int option)
{
    struct replay_options *o = &j->options;

    switch (option) {
    case OPTION_FREE:
        return o->free_running = true;
    case OPTION_SIZE:
        return ui_option_bytes("--size", optarg, 4096, UINT64_C(1) << 43, &o->size_bytes);
    case OPTION_NODES:
        return take_number("--nodes", 1, DECKLE_MAX_NODES, &o->nodes);
    case OPTION_REPEAT:
        return take_number("--repeat", 1, MOST_REPEAT, &o->repeat);
    case OPTION_ZERO:
        return o->zero = true;
    case OPTION_CELLS:
        return o->cells = true;
    case OPTION_JSON:
        j->json = optarg;
        return true;
    case OPTION_PFN_BASE:
        if (!take_number("--pfn-base", 10, 16, &o->trace.pfn_base))
            return false;
        if (o->trace.pfn_base == 10 || o->trace.pfn_base == 16)
            return true;
        ui_error("option --pfn-base: want 10 or 16");
        return false;
    case 'k':
        return o->trace.keep_going = true;
    case 'q':
        return j->quiet = true;
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

/* Said before the work rather than after it. */
static bool can_write(const char *path)
{
    FILE *f;

    if (path == NULL || strcmp(path, "-") == 0)
        return true;
    f = fopen(path, "a");
    if (f == NULL || fclose(f) != 0) {
        ui_error("%s: cannot be written: %s", path, strerror(errno));
        return false;
    }
    return true;
}

static int run(struct job *j, char **paths, int nr)
{
    cJSON *document = NULL;
    int status;

    if (j->json != NULL) {
        document = json_document("replay", 1);
        j->runs = cJSON_AddArrayToObject(document, "runs");
    }
    j->out = j->quiet || (j->json != NULL && strcmp(j->json, "-") == 0) ? NULL : stdout;
    ui_catch_interrupt();
    status = replay_files(j, paths, nr);
    if (j->json != NULL && !json_write(document, j->json) && status == UI_OK)
        status = UI_FAULT;
    cJSON_Delete(document);
    return status;
}

int cmd_replay(int argc, char **argv)
{
    struct job j = {.options = {.nodes = 1, .repeat = 1}};
    char name[] = "deckle";
    int option;

    argv[0] = name; /* for the messages of getopt_long */
    j.options.trace.left_out = print_left_out;
    while ((option = getopt_long(argc, argv, "kq", options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            help();
            return UI_OK;
        }
        if (!take_option(&j, option))
            return ui_usage("replay");
    }
    if (optind == argc) {
        ui_error("no input; give one or more FILEs, or - for standard input");
        return ui_usage("replay");
    }
    if (!can_write(j.json))
        return UI_BAD_INPUT;
    return run(&j, argv + optind, argc - optind);
}
