/* SPDX-License-Identifier: MIT */
/*
 * Table `fault`: the shape of will-it-scale's page_fault1 for an allocator that lives in the
 * process: 32,768 frames of order 0 taken one by one, one byte written to each as it comes, all
 * freed in batches of 512. Beside it, in the same run, what the kernel does for the same pages: map
 * 128 MiB, write a byte to each page, unmap.
 *
 * The frames of Deckle are backed and have been touched before, as in a program that keeps its
 * memory; the lane "zeroed" clears every frame as it is given out, which is what the kernel's fault
 * must do. The references have such memory too. Threads share one pool; processes have a pool each.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_fault.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#define FAULT_LANES                                                                                \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) | BENCH_LANE(BENCH_LANE_LOCK) |   \
     BENCH_LANE(BENCH_LANE_RSEQ))
#define ALL_LANES  (FAULT_LANES | BENCH_LANE(BENCH_LANE_ZERO) | BENCH_LANE(BENCH_LANE_KERNEL))
#define SLACK      (UINT64_C(64) << 20) /* caches and watermarks of the pool */
#define QUICK_RUNS 3u
#define MOST_RUNS  7u

static const enum bench_backing backings[] = {BENCH_BACKING_4K, BENCH_BACKING_2M};

/* ---- the kernel ------------------------------------------------------------------------------ */

/* ctx: MADV_HUGEPAGE or MADV_NOHUGEPAGE. */
static int kernel_touch(const struct bench_job *job)
{
    const int *advice = job->ctx;
    size_t bytes = job->nr << job->page_shift;

    for (uint64_t i = job->loops; i > 0; i--) {
        char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (at == MAP_FAILED)
            return DECKLE_EBACKING;
        madvise(at, bytes, *advice);
        for (size_t offset = 0; offset < bytes; offset += (size_t)1 << job->page_shift)
            *(volatile char *)(at + offset) = 1;
        munmap(at, bytes);
    }
    return 0;
}

static const struct bench_ops kernel_ops = {.touch = kernel_touch};

/* ---- the allocators -------------------------------------------------------------------------- */

static void add_kernel(struct bench_set *set, enum bench_backing backing)
{
    static int huge = MADV_HUGEPAGE, small = MADV_NOHUGEPAGE;
    struct bench_lane *lane = &set->lanes[set->nr++];

    lane->kind = BENCH_LANE_KERNEL;
    lane->name = bench_lane_name(lane->kind);
    lane->ops = &kernel_ops;
    lane->ctx = backing == BENCH_BACKING_2M ? &huge : &small;
}

int bench_fault_open(const struct bench *bench, unsigned nr_tasks, enum bench_backing backing,
                     struct bench_set *set)
{
    struct bench_wish wish = {.lanes = FAULT_LANES,
                              .nr_cpus = nr_tasks,
                              .stock = {.blocks = {FAULT_PAGES}},
                              .pool_bytes = nr_tasks * FAULT_BYTES + SLACK,
                              .backing = backing};
    const struct bench_lane *deckle;
    struct bench_lane *zero;
    int status = bench_set_open(bench, &wish, set);

    if (status != UI_OK)
        return status;
    deckle = bench_set_lane(set, BENCH_LANE_RSEQ);
    zero = &set->lanes[set->nr++];
    *zero = *deckle;
    zero->kind = BENCH_LANE_ZERO;
    zero->name = bench_lane_name(zero->kind);
    zero->gfp = DECKLE_GFP_ZERO;
    add_kernel(set, backing);
    return UI_OK;
}

int bench_fault_close(struct bench_set *set)
{
    set->nr -= 2; /* zero and kernel own nothing */
    return bench_set_close(set);
}

/* ---- the table ------------------------------------------------------------------------------- */

struct fault_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned backing, tasks, gain, gain_4k, zeroed_gain;
    double kernel_4k[2][2]; /* ticks of the kernel for 4 KiB: [several tasks][processes] */
    double least_gain;      /* against those, on 2 MiB backing */
};

static struct fault_table make_table(void)
{
    struct bench_column text = {.kind = BENCH_COLUMN_TEXT, .ratio_to = -1};
    struct bench_column gain = {.kind = BENCH_COLUMN_NUMBER, .ratio_to = -1, .decimals = 1};
    struct fault_table t = {
        .least_gain = NAN,
        .table = bench_table_create("fault", "fault: 32,768 frames taken one by one and touched, "
                                             "then freed by 512; cycles per frame")};

    text.name = "backing";
    t.backing = bench_table_add_column(t.table, text);
    text.name = "tasks";
    t.tasks = bench_table_add_column(t.table, text);
    t.lanes = bench_add_lane_columns(t.table, ALL_LANES);
    gain.name = "gain";
    gain.key = "gain_same_backing";
    t.gain = bench_table_add_column(t.table, gain);
    gain.name = "of 4K";
    gain.key = "gain_4k_faults";
    t.gain_4k = bench_table_add_column(t.table, gain);
    gain.name = "zeroed";
    gain.key = "gain_zeroed";
    t.zeroed_gain = bench_table_add_column(t.table, gain);
    bench_table_note(t.table,
                     "gain: pages per second of deckle-rseq against the kernel with as many "
                     "tasks and this backing");
    bench_table_note(t.table, "of 4K: the same against the kernel's faults of 4 KiB; zeroed: of "
                              "deckle-zeroed, this backing");
    return t;
}

static struct bench_row make_row(const struct fault_table *t, const struct bench_set *set,
                                 enum bench_backing backing, unsigned tasks, bool processes)
{
    struct bench_shape shape = {.kind = BENCH_TOUCH,
                                .threads = tasks,
                                .gfp = DECKLE_GFP_HIGHUSER_MOVABLE,
                                .nr = FAULT_PAGES};
    unsigned row = bench_table_add_row(t->table);
    char text[32];

    bench_table_set_text(t->table, row, t->backing,
                         backing == BENCH_BACKING_2M ? "2 MiB" : "4 KiB");
    snprintf(text, sizeof(text), "%u %s%s", tasks, processes ? "process" : "thread",
             tasks == 1 ? "" : (processes ? "es" : "s"));
    bench_table_set_text(t->table, row, t->tasks, text);
    return bench_row_for(set, shape, t->table, row, &t->lanes);
}

static void set_gains(struct fault_table *t, enum bench_backing backing, bool several,
                      bool processes)
{
    unsigned row = bench_table_rows(t->table) - 1;
    double kernel = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_KERNEL]);
    double deckle = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_RSEQ]);
    double zeroed = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_ZERO]);

    if (backing == BENCH_BACKING_4K)
        t->kernel_4k[several][processes] = kernel;
    else
        t->least_gain = fmin(t->least_gain, bench_ratio(t->kernel_4k[several][processes], deckle));
    bench_table_set_number(t->table, row, t->gain, bench_ratio(kernel, deckle));
    bench_table_set_number(t->table, row, t->gain_4k,
                           bench_ratio(t->kernel_4k[several][processes], deckle));
    bench_table_set_number(t->table, row, t->zeroed_gain, bench_ratio(kernel, zeroed));
}

/* One row by threads, and with several tasks one by processes. */
static int measure_tasks(struct bench *bench, struct fault_table *t, enum bench_backing backing,
                         unsigned tasks)
{
    struct bench_set set;
    struct bench_row row;
    int status = bench_fault_open(bench, tasks, backing, &set);

    if (status != UI_OK)
        return status;
    row = make_row(t, &set, backing, tasks, false);
    bench_measure_row(bench, &row);
    set_gains(t, backing, tasks > 1, false);
    if (tasks > 1 && !ui_interrupted()) {
        row = make_row(t, &set, backing, tasks, true);
        status = bench_fault_processes(bench, &row, backing);
        set_gains(t, backing, true, true);
    }
    return bench_fault_close(&set) != UI_OK ? UI_FAULT : status;
}

/* ---- what the machine can do ----------------------------------------------------------------- */

static bool huge_pages_possible(void)
{
    FILE *from = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    char line[128] = "";
    bool possible =
        from != NULL && fgets(line, sizeof(line), from) != NULL && strstr(line, "[never]") == NULL;

    if (from != NULL)
        fclose(from);
    return possible;
}

static uint64_t available_bytes(void)
{
    FILE *from = fopen("/proc/meminfo", "r");
    char line[128];
    uint64_t kib = UINT64_MAX >> 10;

    while (from != NULL && fgets(line, sizeof(line), from) != NULL)
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            break;
    if (from != NULL)
        fclose(from);
    return kib << 10;
}

/* Memory of the allocators and the kernel's mapping, for each task; the threads' allocators stay
 * while processes make theirs. */
static bool memory_suffices(struct bench_table *table, unsigned tasks)
{
    uint64_t set = 2 * FAULT_BYTES + SLACK; /* of one task */
    uint64_t need = tasks * (2 * set + FAULT_BYTES) + SLACK, have = available_bytes();
    char needed[UI_NUMBER], available[UI_NUMBER];

    if (have / 10 * 9 >= need)
        return true;
    bench_table_note(table, "%u task%s: skipped: needs %s of memory, %s are available", tasks,
                     tasks == 1 ? "" : "s", ui_bytes(needed, need), ui_bytes(available, have));
    return false;
}

static int measure_backing(struct bench *bench, struct fault_table *t, unsigned index)
{
    int status = UI_OK;

    for (unsigned i = 0; i < 2 && status == UI_OK && !ui_interrupted(); i++) {
        unsigned tasks = i == 0 ? 1 : bench->nr_cpus;

        bench_progress(bench, 2 * index + i, 4);
        if (i == 1 && tasks == 1)
            break;
        if (memory_suffices(t->table, tasks))
            status = measure_tasks(bench, t, backings[index], tasks);
    }
    return status;
}

int bench_fault(struct bench *bench)
{
    struct bench mine = *bench;
    struct fault_table t = make_table();
    int status = UI_OK, published;

    /* A round of the kernel's takes 50 ms and more: few repetitions. */
    mine.runs = bench->quick ? QUICK_RUNS : bench->runs < MOST_RUNS ? bench->runs : MOST_RUNS;
    for (unsigned i = 0; i < 2 && status == UI_OK && !ui_interrupted(); i++) {
        if (backings[i] == BENCH_BACKING_2M && !huge_pages_possible()) {
            bench_table_note(t.table, "2 MiB backing: skipped: transparent huge pages are off");
            break;
        }
        status = measure_backing(&mine, &t, i);
    }
    bench_note_hop(bench, t.table);
    bench_table_goal(t.table, BENCH_AT_LEAST, 50, t.least_gain,
                     "faults per second on 2 MiB backing / the kernel's of 4 KiB (least of threads "
                     "and processes)");
    published = bench_publish(bench, t.table);
    return status != UI_OK ? status : published;
}
