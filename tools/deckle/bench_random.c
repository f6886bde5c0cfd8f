/* SPDX-License-Identifier: MIT */
/*
 * Tables `random-table` and `random-free`: blocks that come back in no order.
 *
 * random-table: each thread has a table of 65,536 live blocks of orders 0 to 3; again and again the
 * block in a random place is freed and one of a random order allocated in its stead. `floor` shows
 * what the generator and the cache misses on the table cost. The threads' tables are their own, so
 * that whatever is shared is the allocator's.
 *
 * random-free: all memory as order 0, by all threads; then shuffled as a whole and freed, each
 * thread its half: half of what a thread frees was the other's. Only the frees are timed. Hardly
 * two frees in a row meet in one line of bits; so nothing can be grouped, and every line comes from
 * another cache or from memory.
 */
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include "bench_clock.h"

#define RANDOM_LANES                                                                               \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) |                                 \
     BENCH_LANE(BENCH_LANE_LIMIT_SHARED) | BENCH_LANE(BENCH_LANE_LOCK) |                           \
     BENCH_LANE(BENCH_LANE_RSEQ) | BENCH_LANE(BENCH_LANE_CELLS))
#define LIVE       65536u
#define STOCK      20480u /* of each order and CPU: a fourth of LIVE and then some */
#define POOL_BYTES (UINT64_C(4) << 30)
#define FREE_ALL   (POOL_BYTES >> BENCH_PAGE_SHIFT)
#define FREE_RUNS  5u
#define ATTEMPTS   5u /* at starting together */

struct random_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned threads;
};

static struct random_table make_table(const char *name, const char *caption, unsigned lanes)
{
    struct random_table t = {.table = bench_table_create(name, caption)};

    t.threads = bench_table_add_column(
        t.table, (struct bench_column){
                     .name = "thr", .key = "threads", .kind = BENCH_COLUMN_COUNT, .ratio_to = -1});
    t.lanes = bench_add_lane_columns(t.table, lanes);
    return t;
}

/* ---- a table of live blocks ------------------------------------------------------------------ */

static void measure_table(struct bench *bench, const struct bench_set *set,
                          const struct random_table *t, unsigned threads)
{
    struct bench_shape shape = {
        .kind = BENCH_REPLACE, .threads = threads, .gfp = DECKLE_GFP_KERNEL, .nr = LIVE};
    unsigned row = bench_table_add_row(t->table);
    struct bench_row lanes = bench_row_for(set, shape, t->table, row, &t->lanes);
    double limit, mine;

    bench_table_set_count(t->table, row, t->threads, threads);
    bench_measure_row(bench, &lanes);
    limit = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_LIMIT]);
    mine = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_RSEQ]);
    if (threads == 2)
        bench_table_goal(t->table, BENCH_AT_MOST, 1.3, bench_ratio(mine, limit),
                         "random table, 2 threads / limit");
}

static int random_table(struct bench *bench)
{
    unsigned most = bench->nr_cpus > 1 ? 2 : 1;
    struct bench_wish wish = {.lanes = RANDOM_LANES,
                              .nr_cpus = most,
                              .stock = {.blocks = {STOCK, STOCK, STOCK, STOCK}},
                              .pool_bytes = POOL_BYTES,
                              .backing = BENCH_BACKING_NONE};
    struct random_table t;
    struct bench_set set;
    int status = bench_set_open(bench, &wish, &set);

    if (status != UI_OK)
        return status;
    t = make_table("random-table",
                   "random: a random one of 65,536 live blocks of orders 0-3 freed, another "
                   "allocated; cycles for both",
                   RANDOM_LANES);
    bench_set_note(&set, t.table);
    for (unsigned threads = 1; threads <= most && !ui_interrupted(); threads++)
        measure_table(bench, &set, &t, threads);
    bench_note_hop(bench, t.table);
    status = bench_publish(bench, t.table);
    return bench_set_close(&set) != UI_OK ? UI_FAULT : status;
}

/* ---- all memory ------------------------------------------------------------------------------ */

struct free_run {
    const struct bench_lane *lane;
    uint64_t *pfns; /* of all threads */
    size_t share;   /* of each */
    struct {
        _Alignas(64) uint64_t began, ticks;
        int error;
    } threads[2];
};

static struct bench_job job_of(const struct free_run *run, unsigned thread)
{
    return (struct bench_job){.ctx = run->lane->ctx,
                              .gfp = DECKLE_GFP_KERNEL | run->lane->gfp,
                              .pfns = run->pfns + thread * run->share,
                              .nr = run->share};
}

static void take_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct free_run *run = arg;
    struct bench_job job = job_of(run, thread);

    bench_barrier_wait(start);
    run->threads[thread].error = run->lane->ops->take(&job);
}

static void give_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct free_run *run = arg;
    struct bench_job job = job_of(run, thread);

    bench_barrier_wait(start);
    run->threads[thread].began = bench_clock_start();
    run->threads[thread].error = run->lane->ops->give(&job);
    run->threads[thread].ticks = bench_clock_stop() - run->threads[thread].began;
}

static void shuffle(uint64_t *pfns, size_t nr, uint64_t seed)
{
    for (size_t i = nr; i > 1; i--) {
        uint64_t kept = pfns[i - 1];
        size_t other;

        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        other = (size_t)((seed >> 32) * i >> 32);
        pfns[i - 1] = pfns[other];
        pfns[other] = kept;
    }
}

static bool together(const struct free_run *run, unsigned threads)
{
    uint64_t a = run->threads[0].began, b = run->threads[threads - 1].began;

    return (a > b ? a - b : b - a) <= run->threads[0].ticks / 20;
}

/* Ticks per free, NaN if the threads did not run together; or an error. */
static int free_all(const struct bench *bench, struct free_run *run, unsigned threads,
                    unsigned seed, double *ticks)
{
    *ticks = 0;
    bench_crew_run(bench->crew, threads, take_work, run);
    for (unsigned i = 0; i < threads; i++)
        if (run->threads[i].error != 0)
            return run->threads[i].error;
    shuffle(run->pfns, threads * run->share, UINT64_C(0x9e3779b97f4a7c15) + seed);
    bench_crew_run(bench->crew, threads, give_work, run);
    for (unsigned i = 0; i < threads; i++) {
        if (run->threads[i].error != 0)
            return run->threads[i].error;
        *ticks += (double)run->threads[i].ticks / (double)run->share / threads;
    }
    if (!together(run, threads))
        *ticks = NAN;
    return 0;
}

static void measure_free(const struct bench *bench, const struct bench_set *set,
                         const struct random_table *t, unsigned threads, uint64_t *pfns)
{
    /* A sixteenth stays free: below the watermarks a pool gives out its frames one by one. */
    size_t share = FREE_ALL / 16 * 15 / threads;
    unsigned row = bench_table_add_row(t->table), runs = bench->quick ? 2 : FREE_RUNS;

    bench_table_set_count(t->table, row, t->threads, threads);
    for (unsigned repeat = 0; repeat < runs; repeat++) {
        for (unsigned i = 0; i < set->nr && !ui_interrupted(); i++) {
            struct free_run run = {.lane = &set->lanes[i], .pfns = pfns, .share = share};
            double ticks = NAN;
            int error = 0;

            for (unsigned n = 0; n < ATTEMPTS && isnan(ticks) && error == 0; n++)
                error = free_all(bench, &run, threads, repeat, &ticks);
            if (error != 0)
                bench_table_note(t->table, "%s: not measured: %s", run.lane->name,
                                 deckle_strerror(error));
            bench_table_sample(t->table, row, (unsigned)t->lanes.of[run.lane->kind], ticks);
        }
    }
    if (threads == 2)
        bench_table_goal(t->table, BENCH_AT_MOST, 45,
                         bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_RSEQ]),
                         "all memory freed at random, 2 threads, cycles");
}

static int random_free(struct bench *bench)
{
    unsigned lanes = RANDOM_LANES & ~BENCH_LANE(BENCH_LANE_LIMIT);
    unsigned most = bench->nr_cpus > 1 ? 2 : 1;
    struct bench_wish wish = {.lanes = lanes,
                              .nr_cpus = most,
                              .stock = {.blocks = {FREE_ALL / most}},
                              .pool_bytes = POOL_BYTES,
                              .backing = BENCH_BACKING_NONE};
    uint64_t *pfns = bench_zalloc(FREE_ALL * sizeof(*pfns));
    struct random_table t;
    struct bench_set set;
    int status = bench_set_open(bench, &wish, &set);

    if (status != UI_OK) {
        free(pfns);
        return status;
    }
    t = make_table("random-free",
                   "random: all of 4 GiB as order 0, shuffled and freed; cycles per free", lanes);
    bench_set_note(&set, t.table);
    memset(pfns, 1, FREE_ALL * sizeof(*pfns)); /* the first use of a page is none of our business */
    for (unsigned threads = 1; threads <= most && !ui_interrupted(); threads++)
        measure_free(bench, &set, &t, threads, pfns);
    bench_note_hop(bench, t.table);
    status = bench_publish(bench, t.table);
    free(pfns);
    return bench_set_close(&set) != UI_OK ? UI_FAULT : status;
}

int bench_random(struct bench *bench)
{
    int status = random_table(bench);

    return status != UI_OK || ui_interrupted() ? status : random_free(bench);
}
