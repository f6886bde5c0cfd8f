/* SPDX-License-Identifier: MIT */
/*
 * deckle pack and deckle unpack. Both read whatever trace_open reads and write either form, through
 * a file beside the output that takes its name when it is complete: a failed or interrupted run
 * leaves nothing behind.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json_out.h"
#include "packed.h"
#include "trace.h"
#include "trace_model.h"
#include "trace_report.h"
#include "ui.h"

int cmd_pack(int argc, char **argv);
int cmd_unpack(int argc, char **argv);

struct job {
    const char *command;
    const char *in, *out, *name;
    bool text, json, quiet;
    uint64_t tick_ns;
    struct trace_options trace;

    char *partial; /* name of the file beside the output, NULL for standard output */
    FILE *to;
    struct packed_writer *writer; /* NULL for text, and before the first event */
    struct trace_model *model;
    uint64_t out_bytes;
};

/* --- the output file ------------------------------------------------------------------------- */

static bool open_output(struct job *j)
{
    size_t size;

    if (strcmp(j->out, "-") == 0) {
        j->to = stdout;
        if (!j->text && isatty(STDOUT_FILENO)) {
            ui_error("packed data are not written to a terminal; give -o FILE");
            return false;
        }
        return true;
    }
    size = strlen(j->out) + sizeof(".partial");
    j->partial = malloc(size);
    if (j->partial == NULL) {
        ui_error("not enough memory");
        return false;
    }
    snprintf(j->partial, size, "%s.partial", j->out);
    j->to = fopen(j->partial, "wb");
    if (j->to == NULL)
        ui_error_at(j->partial, 0, "cannot be written: %s", strerror(errno));
    return j->to != NULL;
}

/* Closes; gives the file its name when the run went well, else removes it. */
static bool close_output(struct job *j, bool well)
{
    if (j->to == NULL)
        return well;
    if (j->partial == NULL)
        return well && fflush(j->to) == 0;
    if (fclose(j->to) != 0 && well) {
        ui_error_at(j->partial, 0, "cannot be written: %s", strerror(errno));
        well = false;
    }
    if (well && rename(j->partial, j->out) != 0) {
        ui_error_at(j->out, 0, "cannot be replaced: %s", strerror(errno));
        well = false;
    }
    if (!well)
        remove(j->partial);
    return well;
}

/* --- the work -------------------------------------------------------------------------------- */

static void print_left_out(void *context, const char *message)
{
    uint32_t *said = context;

    if ((*said)++ < 10)
        ui_warn("%s", message);
}

/* Begins the output. With the first event, because text may name its source in its heading. */
static bool begin_output(struct job *j, struct trace *t)
{
    const char *source = j->name != NULL ? j->name : trace_facts(t)->source;

    if (j->text) {
        trace_print_heading(j->to, trace_facts(t));
        return true;
    }
    j->writer = packed_writer_new(j->to, source, (uint32_t)j->tick_ns);
    return j->writer != NULL;
}

static bool write_event(struct job *j, struct trace *t, const struct trace_event *event)
{
    if (!trace_model_event(j->model, event, NULL))
        return false;
    if (!j->text)
        return packed_write(j->writer, event);
    if (event->type != TRACE_FREE_BATCHED)
        trace_print_event(j->to, event, trace_facts(t)->ticks);
    return true;
}

/* Hands all events on. UI_OK, or the exit status after a message. */
static int copy_events(struct job *j, struct trace *t)
{
    struct ui_progress progress;
    struct trace_event event;
    enum trace_status status;
    uint64_t done, total;
    uint32_t n = 0;

    ui_progress_start(&progress, j->command);
    while ((status = trace_next(t, &event)) == TRACE_EVENT) {
        if ((n == 0 && !begin_output(j, t)) || !write_event(j, t, &event)) {
            ui_progress_end(&progress);
            ui_error_at(j->in, 0, "%s",
                        j->writer != NULL && packed_writer_why(j->writer)[0] != '\0'
                            ? packed_writer_why(j->writer)
                            : "not enough memory");
            return UI_BAD_INPUT;
        }
        if (++n % 4096 == 0) {
            if (ui_interrupted())
                break;
            trace_progress(t, &done, &total);
            ui_progress_show(&progress, done, total);
        }
    }
    ui_progress_end(&progress);
    if (status == TRACE_ERROR)
        ui_error("%s", trace_message(t));
    return status == TRACE_END ? UI_OK : status == TRACE_ERROR ? UI_BAD_INPUT : UI_INTERRUPTED;
}

static bool finish_output(struct job *j, struct trace *t)
{
    if (j->text) {
        if (ferror(j->to) == 0)
            return true;
        ui_error_at(j->out, 0, "cannot be written: no space left or an error of the device");
        return false;
    }
    if ((j->writer == NULL && !begin_output(j, t)) || !packed_finish(j->writer, trace_facts(t))) {
        ui_error_at(j->out, 0, "%s",
                    j->writer != NULL ? packed_writer_why(j->writer) : "not enough memory");
        return false;
    }
    j->out_bytes = packed_writer_bytes(j->writer);
    return true;
}

static void report(const struct job *j, struct trace *t)
{
    const struct trace_facts *facts = trace_facts(t);
    const struct trace_totals *totals = trace_model_totals(j->model);
    char a[UI_NUMBER], b[UI_NUMBER];

    trace_warn(facts);
    if (j->json) {
        cJSON *document = json_document(j->command, 1);

        trace_json_facts(document, facts, totals);
        cJSON_AddStringToObject(document, "output", j->out);
        if (j->writer != NULL)
            json_add_u64(document, "output_bytes", j->out_bytes);
        json_write(document, "-");
        cJSON_Delete(document);
    } else if (!j->quiet && j->partial != NULL) {
        trace_print_facts(stdout, facts, totals);
        if (j->writer != NULL)
            printf("%s: %s, of %s\n", j->out, ui_bytes(a, j->out_bytes),
                   ui_bytes(b, facts->file_bytes));
    }
}

static int run(struct job *j)
{
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open(j->in, &j->trace, message);
    int status = UI_BAD_INPUT;

    if (t == NULL) {
        ui_error("%s", message);
        return UI_BAD_INPUT;
    }
    ui_catch_interrupt();
    if (open_output(j)) {
        j->model = trace_model_new();
        if (j->model != NULL)
            status = copy_events(j, t);
        else
            ui_error("not enough memory");
    }
    if (status == UI_OK && !finish_output(j, t))
        status = UI_FAULT;
    if (!close_output(j, status == UI_OK) && status == UI_OK)
        status = UI_FAULT;
    if (status == UI_OK)
        report(j, t);
    else if (status == UI_INTERRUPTED)
        ui_error("interrupted; nothing was written");
    packed_writer_free(j->writer);
    trace_model_free(j->model);
    trace_close(t);
    free(j->partial);
    return status;
}

/* --- options --------------------------------------------------------------------------------- */

static void help(bool text)
{
    if (text)
        puts("Usage: deckle unpack [OPTION]... FILE [-o OUT]\n"
             "Print a packed trace (or any other that deckle reads) as ftrace text, to standard\n"
             "output or OUT. Single frames of refills and drains, which a packed trace sums up, "
             "are\n"
             "printed as deckle_burst events; deckle reads them back.\n");
    else
        puts("Usage: deckle pack [OPTION]... FILE -o OUT\n"
             "Write the kmem page events of FILE in Deckle's packed form. FILE is text of ftrace,\n"
             "trace-cmd report or perf script, plain, .xz or .gz, or packed; \"-\" is standard "
             "input.\n");
    puts("  -o, --output OUT   file to write; \"-\" is standard output");
    if (!text)
        puts("      --text         write ftrace text instead, as deckle unpack does\n"
             "      --name NAME    name of the recording, kept in OUT (default: FILE's)\n"
             "      --tick NS      round times down to multiples of NS nanoseconds\n"
             "                     (default: exact)");
    puts("      --pfn-base N   10 or 16: what a pfn without 0x is (default: decided by the\n"
         "                     first 64 KiB)\n"
         "  -k, --keep-going   leave out lines that cannot be understood\n"
         "      --json         print the summary as JSON\n"
         "  -q, --quiet        print no summary\n"
         "      --help         print this");
}

enum { OPTION_TEXT = 256, OPTION_NAME, OPTION_TICK, OPTION_PFN_BASE, OPTION_JSON, OPTION_HELP };

static const struct option options[] = {
    {"output", required_argument, NULL, 'o'},
    {"text", no_argument, NULL, OPTION_TEXT},
    {"name", required_argument, NULL, OPTION_NAME},
    {"tick", required_argument, NULL, OPTION_TICK},
    {"pfn-base", required_argument, NULL, OPTION_PFN_BASE},
    {"keep-going", no_argument, NULL, 'k'},
    {"json", no_argument, NULL, OPTION_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, OPTION_HELP},
    {NULL, 0, NULL, 0},
};

static bool take_option(struct job *j, int option)
{
    uint64_t number;

    switch (option) {
    case 'o':
        j->out = optarg;
        return true;
    case 'k':
        j->trace.keep_going = true;
        return true;
    case 'q':
        j->quiet = true;
        return true;
    case OPTION_TEXT:
        j->text = true;
        return true;
    case OPTION_NAME:
        j->name = optarg;
        if (strcspn(optarg, "\r\n") == strlen(optarg) && strlen(optarg) < TRACE_NAME)
            return true;
        ui_error("option --name: want one line of at most %u bytes", TRACE_NAME - 1);
        return false;
    case OPTION_TICK:
        return ui_option_u64("--tick", optarg, 1, PACKED_MAX_TICK, &j->tick_ns);
    case OPTION_PFN_BASE:
        if (!ui_option_u64("--pfn-base", optarg, 10, 16, &number))
            return false;
        j->trace.pfn_base = (uint32_t)number;
        if (number == 10 || number == 16)
            return true;
        ui_error("option --pfn-base: want 10 or 16");
        return false;
    case OPTION_JSON:
        j->json = true;
        return true;
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

static int run_with(struct job *j, int argc, char **argv)
{
    uint32_t left_out = 0;
    char name[32];
    int option;

    snprintf(name, sizeof(name), "deckle");
    argv[0] = name; /* for the messages of getopt_long */
    j->trace.left_out = print_left_out;
    j->trace.context = &left_out;
    while ((option = getopt_long(argc, argv, "o:kq", options, NULL)) != -1) {
        if (option == OPTION_HELP) {
            help(j->text);
            return UI_OK;
        }
        if (!take_option(j, option))
            return ui_usage(j->command);
    }
    if (argc - optind != 1) {
        ui_error(argc == optind ? "no input; give one FILE, or - for standard input"
                                : "more than one input; give one FILE");
        return ui_usage(j->command);
    }
    j->in = argv[optind];
    if (j->out == NULL) {
        if (!j->text) {
            ui_error("no output; give -o OUT, or -o - for standard output");
            return ui_usage(j->command);
        }
        j->out = "-";
    }
    if (j->json && strcmp(j->out, "-") == 0) {
        ui_error("--json prints to standard output; give -o OUT");
        return ui_usage(j->command);
    }
    return run(j);
}

int cmd_pack(int argc, char **argv)
{
    struct job j = {.command = "pack"};

    return run_with(&j, argc, argv);
}

int cmd_unpack(int argc, char **argv)
{
    struct job j = {.command = "unpack", .text = true};

    return run_with(&j, argc, argv);
}
