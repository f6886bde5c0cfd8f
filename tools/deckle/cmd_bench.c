/* SPDX-License-Identifier: MIT */
/* deckle bench: measures the allocator; see bench.h for the parts and docs/performance.md for the
 * method. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "bench_clock.h"
#include "bench_peer.h"
#include "bench_report.h"
#include "json_out.h"

#define SCHEMA_VERSION 1u
#define QUICK_NS       UINT64_C(10000000000)
#define MOST_BLOCKS    131072u /* of any shape */

static const struct bench_table_def tables[] = {
    {"pair", "a block allocated and freed: orders 0-10, 1 and 2 threads, 1 and 256 outstanding",
     bench_pair, true, false},
    {"batch", "alloc-odrX-N and free-odrX-N: N blocks one by one, N = 1 ... 131072, orders 0-4",
     bench_batch, true, false},
    {"parallel", "page_bench03: pairs on 1 ... all CPUs at once, orders 0-5", bench_parallel, true,
     false},
    {"bulk", "page_bench04: requests for 1 ... 128 frames at once", bench_bulk, true, false},
    {"handoff", "page_bench05: one CPU allocates, another frees", bench_handoff, true, false},
    {"random", "64k live blocks of orders 0-3 replaced at random; all memory freed at random",
     bench_random, true, false},
    {"fragment", "huge blocks kept, requests that succeed and fail in fragmented memory",
     bench_fragment, true, false},
    {"fault", "page_fault1: frames taken and touched, beside the kernel's page faults", bench_fault,
     true, false},
    {"memory", "bytes of metadata per frame", bench_memory, false, false},
    {"create", "time and memory that it takes to make a pool of 4 GiB ... 16 TiB", bench_create,
     false, false},
    {"ablation", "what each part of the design is worth: copies of the library without it",
     bench_ablation, true, false},
    {"peers", "other allocators that are installed, in processes of their own (--peers)",
     bench_peers, true, true},
};

#define NR_TABLES (sizeof(tables) / sizeof(tables[0]))

struct bench_arguments {
    bool wanted[NR_TABLES];
    bool quick, list, help, peers;
    const char *json, *page, *data;
    const char *serve; /* lane of the peer that this process is */
    uint64_t runs;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static void print_tables(FILE *to)
{
    struct ui_table *list = ui_table_new("ll");

    for (size_t i = 0; i < NR_TABLES; i++)
        ui_table_row(list, tables[i].name, tables[i].summary);
    ui_table_print(list, to, 2, false);
    ui_table_free(list);
}

static void print_help(void)
{
    printf("Usage: deckle bench [OPTION]... [TABLE]...\n"
           "Measure Deckle beside its references (floor, limit, lock); all tables by default.\n\n"
           "Tables:\n");
    print_tables(stdout);
    printf("\nOptions:\n"
           "  --quick      fewer repetitions and sizes; under 20 s in all\n"
           "  --runs N     repetitions of each row, 1 to 64\n"
           "  --peers      also other allocators that are installed\n"
           "  --json FILE  also write all figures as JSON ('-': standard output)\n"
           "  --page FILE  also write goals and main tables as Markdown\n"
           "  --data DIR   also write each table as columns for plots, DIR/TABLE.dat\n"
           "  --list       list the tables\n"
           "  --help       print this\n\n"
           "Figures are minimum and median of the repetitions, in ticks of the CPU's cycle\n"
           "counter. A run in which limit costs more than 1.4 times floor is refused.\n");
}

static bool choose_table(struct bench_arguments *arguments, const char *name)
{
    for (size_t i = 0; i < NR_TABLES; i++) {
        if (strcmp(tables[i].name, name) == 0) {
            arguments->wanted[i] = true;
            return true;
        }
    }
    ui_error("bench: there is no table \"%s\"; the tables are:", name);
    print_tables(stderr);
    return false;
}

static int parse_arguments(int argc, char **argv, struct bench_arguments *arguments)
{
    static const struct option options[] = {{"quick", no_argument, NULL, 'q'},
                                            {"runs", required_argument, NULL, 'r'},
                                            {"json", required_argument, NULL, 'j'},
                                            {"list", no_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {"peers", no_argument, NULL, 'p'},
                                            {"page", required_argument, NULL, 'P'},
                                            {"data", required_argument, NULL, 'd'},
                                            {"serve-peer", required_argument, NULL, 'S'},
                                            {NULL, 0, NULL, 0}};
    int option;

    memset(arguments, 0, sizeof(*arguments));
    optind = 1;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        if (option == 'q')
            arguments->quick = true;
        else if (option == 'j')
            arguments->json = optarg;
        else if (option == 'p')
            arguments->peers = true;
        else if (option == 'S')
            arguments->serve = optarg;
        else if (option == 'P')
            arguments->page = optarg;
        else if (option == 'd')
            arguments->data = optarg;
        else if (option == 'l')
            arguments->list = true;
        else if (option == 'h')
            arguments->help = true;
        else if (option != 'r' ||
                 !ui_option_u64("--runs", optarg, 1, BENCH_MAX_SAMPLES, &arguments->runs))
            return ui_usage("bench");
    }
    for (int i = optind; i < argc; i++)
        if (!choose_table(arguments, argv[i]))
            return UI_BAD_INPUT;
    for (size_t i = 0; i < NR_TABLES; i++)
        if ((optind == argc && !tables[i].extra) ||
            (arguments->peers && tables[i].run == bench_peers))
            arguments->wanted[i] = true;
    return UI_OK;
}

/* ---- what tables call ------------------------------------------------------------------------ */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool bench_hurries(const struct bench *bench)
{
    return bench->deadline_ns != 0 && now_ns() > bench->deadline_ns;
}

void bench_progress(const struct bench *bench, unsigned done, unsigned total)
{
    ui_progress_show(bench->progress, done, total);
}

void bench_note_hop(const struct bench *bench, struct bench_table *table)
{
    double ticks;

    if (bench->nr_cpus < 2) {
        bench_table_note(table, "two CPUs: skipped, this process may use CPU %u only",
                         bench->cpus[0]);
        return;
    }
    if (ui_interrupted())
        return;
    if (bench->shared_cpus)
        bench_table_note(table,
                         "the CPUs are shared with others or with each other: floor is slower "
                         "on all of them at once than on one");
    ticks = bench_crew_hop(bench->crew);
    bench_table_note(table, "a cache line takes %.0f cycles (%.0f ns) from CPU %u to CPU %u", ticks,
                     ticks / bench->ghz, bench->cpus[0], bench->cpus[1]);
}

int bench_publish(struct bench *bench, struct bench_table *table)
{
    int status = UI_OK;

    ui_progress_end(bench->progress);
    if (bench->gated && !ui_interrupted() && !bench_gate(bench))
        status = UI_MISSING; /* a quiet machine */
    if (status == UI_OK) {
        bench_table_print(table, bench->out, bench->ghz);
        fflush(bench->out);
        cJSON_AddItemToArray(bench->tables, bench_table_json(table, bench->ghz));
    }
    bench_table_destroy(table);
    return status;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void set_effort(struct bench *bench, const struct bench_arguments *arguments)
{
    double milliseconds = arguments->quick ? 0.4 : 1;

    bench->quick = arguments->quick;
    bench->runs = arguments->quick ? 5 : 11;
    bench->deadline_ns = arguments->quick ? now_ns() + QUICK_NS : 0;
    if (arguments->runs > 0)
        bench->runs = (unsigned)arguments->runs;
    bench->ghz = bench_clock_calibrate(arguments->quick ? 20 : 100);
    bench->overhead = bench_clock_overhead();
    bench->target = milliseconds * 1e6 * bench->ghz;
}

/* Better now than after a minute of measuring. */
static bool can_write(const char *path)
{
    FILE *file;

    if (path == NULL || strcmp(path, "-") == 0)
        return true;
    file = fopen(path, "a");
    if (file == NULL) {
        ui_error("bench: cannot write \"%s\": %s", path, strerror(errno));
        return false;
    }
    fclose(file);
    return true;
}

static bool is_folder(const char *path)
{
    struct stat what;

    if (path == NULL || (stat(path, &what) == 0 && S_ISDIR(what.st_mode)))
        return true;
    ui_error("bench: there is no folder \"%s\"", path);
    return false;
}

static int start(struct bench *bench, const struct bench_arguments *arguments)
{
    memset(bench, 0, sizeof(*bench));
    /* Text and JSON do not mix. */
    bench->out = arguments->json != NULL && strcmp(arguments->json, "-") == 0 ? stderr : stdout;
    bench->nr_cpus = bench_allowed_cpus(bench->cpus, BENCH_MAX_CPUS);
    if (bench->nr_cpus == 0) {
        ui_error("bench: the system does not say which CPUs this process may use");
        return UI_MISSING;
    }
    set_effort(bench, arguments);
    bench->pfns = bench_zalloc(bench->nr_cpus * sizeof(*bench->pfns));
    for (unsigned i = 0; i < bench->nr_cpus; i++)
        bench->pfns[i] = bench_zalloc((MOST_BLOCKS + 1) * sizeof(**bench->pfns));
    bench->ring = aligned_alloc(_Alignof(struct bench_ring), sizeof(*bench->ring));
    if (bench->ring == NULL) {
        ui_error("bench: no memory for %zu bytes", sizeof(*bench->ring));
        return UI_MISSING;
    }
    bench->crew = bench_crew_create(bench->cpus, bench->nr_cpus);
    if (bench->crew == NULL)
        return UI_MISSING;
    bench->tables = cJSON_CreateArray();
    return UI_OK;
}

static void finish(struct bench *bench)
{
    bench_crew_destroy(bench->crew);
    for (unsigned i = 0; i < bench->nr_cpus && bench->pfns != NULL; i++)
        free(bench->pfns[i]);
    free(bench->pfns);
    free(bench->ring);
    cJSON_Delete(bench->tables);
}

static int run_table(struct bench *bench, const struct bench_table_def *table)
{
    struct ui_progress progress;
    int status;

    bench->gated = table->timed;
    if (table->timed && !bench_gate(bench))
        return ui_interrupted() ? UI_OK : UI_MISSING; /* a quiet machine */
    bench->progress = &progress;
    ui_progress_start(&progress, table->name);
    status = table->run(bench);
    ui_progress_end(&progress);
    return status;
}

/* One that is refused, or for which something is missing, does not keep the others from being
 * measured. */
static int run_tables(struct bench *bench, const struct bench_arguments *arguments)
{
    int worst = UI_OK;

    for (size_t i = 0; i < NR_TABLES && !ui_interrupted(); i++) {
        int status = arguments->wanted[i] ? run_table(bench, &tables[i]) : UI_OK;

        if (status != UI_OK && worst != UI_FAULT)
            worst = status;
        if (worst == UI_FAULT)
            break;
    }
    return worst;
}

/* JSON, page and data, as far as they are asked for. */
static int write_files(struct bench *bench, const struct bench_arguments *arguments, int argc,
                       char **argv)
{
    cJSON *document = json_document("bench", SCHEMA_VERSION);
    bool written = true;

    cJSON_AddBoolToObject(document, "complete", bench->status == UI_OK);
    cJSON_AddBoolToObject(document, "quick", bench->quick);
    cJSON_AddNumberToObject(document, "runs", bench->runs);
    cJSON_AddItemToObject(document, "machine", bench_machine(bench, argc, argv));
    cJSON_AddItemToObject(document, "tables", bench->tables);
    bench->tables = NULL;
    if (arguments->json != NULL)
        written = json_write(document, arguments->json);
    if (arguments->page != NULL)
        written = bench_write_page(document, arguments->page) && written;
    if (arguments->data != NULL)
        written = bench_write_data(document, arguments->data) && written;
    cJSON_Delete(document);
    return written ? UI_OK : UI_FAULT;
}

int cmd_bench(int argc, char **argv)
{
    struct bench_arguments arguments;
    static struct bench bench;
    int status = parse_arguments(argc, argv, &arguments);

    if (status != UI_OK)
        return status;
    if (arguments.help) {
        print_help();
        return UI_OK;
    }
    if (arguments.list) {
        print_tables(stdout);
        return UI_OK;
    }
    if (arguments.serve != NULL) {
        status = start(&bench, &arguments);
        return status != UI_OK ? status : bench_peer_serve(&bench, arguments.serve);
    }
    if (!can_write(arguments.json) || !can_write(arguments.page) || !is_folder(arguments.data))
        return UI_BAD_INPUT;
    ui_catch_interrupt();
    status = start(&bench, &arguments);
    if (status == UI_OK)
        status = run_tables(&bench, &arguments);
    if (ui_interrupted() && status == UI_OK)
        status = UI_INTERRUPTED;
    bench.status = status;
    if (bench.tables != NULL) {
        int written = write_files(&bench, &arguments, argc, argv);

        status = status == UI_OK ? written : status;
    }
    finish(&bench);
    return status;
}
