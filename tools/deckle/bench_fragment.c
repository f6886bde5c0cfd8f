/* SPDX-License-Identifier: MIT */
/*
 * Tables `fragment-kept`, `fragment-requests` and `fragment-order3`: fragmented memory.
 *
 * fragment-kept is the fragmentation test of the LLFree authors: 90 % of 4 GiB taken as single
 * frames, a random half of them freed, then 100 times a random tenth of what is live freed and as
 * much allocated. The figure is how many whole pageblocks are free, of those that the free frames
 * would make up if they lay together.
 *
 * The other two run in processes of their own (bench_fragment_child.c), because their pools are
 * large: requests that succeed and fail while nearly all free memory is in pieces that are too
 * small, with empty caches; and every order-3 block that a half-full zone has.
 */
#include "bench_fragment.h"

#include <stdlib.h>

#include "bench_clock.h"

#define KEPT_BYTES  (UINT64_C(4) << 30)
#define KEPT_ROUNDS 100u
#define KEPT_STEP   10u /* rounds between two looks */
#define BLOCK_ORDER DECKLE_PAGEBLOCK_ORDER

/* ---- what is kept ---------------------------------------------------------------------------- */

struct kept_thread {
    _Alignas(64) uint64_t random;
    uint64_t *live; /* frames, the order is of no meaning */
    size_t nr;
    int error;
};

struct kept_run {
    struct deckle *d;
    struct kept_thread threads[2];
};

uint64_t bench_xorshift(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* nr random ones of the live frames are moved to the end. */
static void choose(struct kept_thread *t, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        size_t last = t->nr - 1 - i;
        size_t other = (size_t)((bench_xorshift(&t->random) >> 32) * (last + 1) >> 32);
        uint64_t kept = t->live[last];

        t->live[last] = t->live[other];
        t->live[other] = kept;
    }
}

static void drop(struct kept_run *run, struct kept_thread *t, size_t nr)
{
    choose(t, nr);
    for (; nr > 0 && t->error == 0; nr--)
        t->error = deckle_free(run->d, t->live[--t->nr], 0);
}

static void grow(struct kept_run *run, struct kept_thread *t, size_t nr)
{
    for (; nr > 0 && t->error == 0; nr--) {
        int64_t pfn = deckle_alloc(run->d, DECKLE_GFP_HIGHUSER_MOVABLE, 0);

        if (pfn < 0)
            t->error = (int)pfn;
        else
            t->live[t->nr++] = (uint64_t)pfn;
    }
}

static void fill_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct kept_run *run = arg;
    struct kept_thread *t = &run->threads[thread];
    size_t nr = t->nr;

    t->nr = 0;
    bench_barrier_wait(start);
    grow(run, t, nr);
    drop(run, t, nr / 2);
}

static void round_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct kept_run *run = arg;
    struct kept_thread *t = &run->threads[thread];
    size_t nr = t->nr / 10;

    bench_barrier_wait(start);
    drop(run, t, nr);
    grow(run, t, nr);
}

static void free_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct kept_run *run = arg;
    struct kept_thread *t = &run->threads[thread];

    bench_barrier_wait(start);
    t->error = 0; /* an earlier one has been said */
    drop(run, t, t->nr);
}

/* Percent of the huge blocks that the free frames could be. */
static double kept(struct deckle *d)
{
    struct deckle_stat all = {.size = sizeof(all)};
    uint64_t huge = 0, frames = 0;

    deckle_drain_all(d);
    deckle_get_stat(d, &all);
    for (uint32_t i = 0; i < all.nr_zones; i++) {
        struct deckle_zone_stat zone = {.size = sizeof(zone)};

        deckle_get_zone_stat(d, i, &zone);
        frames += zone.free;
        for (uint32_t order = BLOCK_ORDER; order <= DECKLE_MAX_ORDER_LIMIT; order++)
            huge += zone.free_blocks[order] << (order - BLOCK_ORDER);
    }
    return 100 * (double)huge / (double)(frames >> BLOCK_ORDER);
}

struct kept_table {
    struct bench_table *table;
    unsigned threads, round, kept;
};

static void add_kept(const struct kept_table *t, unsigned threads, unsigned round, double percent)
{
    unsigned row = bench_table_add_row(t->table);

    bench_table_set_count(t->table, row, t->threads, threads);
    bench_table_set_count(t->table, row, t->round, round);
    bench_table_set_number(t->table, row, t->kept, percent);
    if (round == KEPT_ROUNDS)
        bench_table_goal(t->table, BENCH_AT_LEAST, 97, percent,
                         "huge blocks kept of those possible, %u thread%s, %%", threads,
                         threads == 1 ? "" : "s");
}

static int kept_rounds(const struct bench *bench, const struct kept_table *t, struct kept_run *run,
                       unsigned threads)
{
    bench_crew_run(bench->crew, threads, fill_work, run);
    for (unsigned round = 0; round <= KEPT_ROUNDS && !ui_interrupted(); round++) {
        for (unsigned i = 0; i < threads; i++) {
            if (run->threads[i].error != 0) {
                bench_table_note(t->table, "%u threads, round %u: %s", threads, round,
                                 deckle_strerror(run->threads[i].error));
                return UI_FAULT;
            }
        }
        if (round % KEPT_STEP == 0)
            add_kept(t, threads, round, kept(run->d));
        if (round < KEPT_ROUNDS)
            bench_crew_run(bench->crew, threads, round_work, run);
    }
    return UI_OK;
}

static int measure_kept(const struct bench *bench, const struct kept_table *t, unsigned threads)
{
    size_t share = (size_t)(KEPT_BYTES >> BENCH_PAGE_SHIFT) / 10 * 9 / threads;
    struct kept_run run = {.d = NULL};
    struct bench_pool pool;
    int status = bench_pool_open(&pool, KEPT_BYTES, 0, BENCH_BACKING_NONE), closed;

    if (status != UI_OK)
        return status;
    run.d = pool.d;
    for (unsigned i = 0; i < threads; i++) {
        run.threads[i].nr = share;
        run.threads[i].live = bench_zalloc(share * sizeof(uint64_t));
        run.threads[i].random = UINT64_C(0x2545f4914f6cdd1d) * (i + 1);
    }
    status = kept_rounds(bench, t, &run, threads);
    bench_crew_run(bench->crew, threads, free_work, &run);
    for (unsigned i = 0; i < threads; i++)
        free(run.threads[i].live);
    closed = bench_pool_close(&pool, "fragment");
    return status != UI_OK ? status : closed;
}

static int fragment_kept(struct bench *bench)
{
    struct bench_column count = {.kind = BENCH_COLUMN_COUNT, .ratio_to = -1};
    unsigned most = bench->nr_cpus > 1 ? 2 : 1;
    int status = UI_OK, published;
    struct kept_table t = {
        .table = bench_table_create("fragment-kept",
                                    "fragment: huge blocks that are free, in percent of those "
                                    "possible, while single frames come and go")};

    count.name = "thr";
    count.key = "threads";
    t.threads = bench_table_add_column(t.table, count);
    count.name = "round";
    count.key = NULL;
    t.round = bench_table_add_column(t.table, count);
    t.kept = bench_table_add_column(t.table, (struct bench_column){.name = "kept %",
                                                                   .key = "kept_percent",
                                                                   .kind = BENCH_COLUMN_NUMBER,
                                                                   .decimals = 1,
                                                                   .ratio_to = -1});
    for (unsigned threads = 1; threads <= most && status == UI_OK && !ui_interrupted(); threads++)
        status = measure_kept(bench, &t, threads);
    published = bench_publish(bench, t.table);
    return status != UI_OK ? status : published;
}

/* ---- requests in fragmented memory ----------------------------------------------------------- */

#define GIB (UINT64_C(1) << 30)

struct request_table {
    struct bench_table *table;
    unsigned pool, order, what, cycles, barriers;
};

static struct request_table make_requests(void)
{
    struct bench_column cycles = {.name = "cycles",
                                  .kind = BENCH_COLUMN_CYCLES,
                                  .show = BENCH_SHOW_MEDIAN | BENCH_SHOW_NS,
                                  .ratio_to = -1};
    struct request_table t = {
        .table = bench_table_create("fragment-requests",
                                    "fragment: requests while all free memory but a few blocks is "
                                    "in pieces of half the size; cycles per call")};

    t.pool = bench_table_add_column(t.table, (struct bench_column){.name = "pool",
                                                                   .key = "pool_bytes",
                                                                   .kind = BENCH_COLUMN_BYTES,
                                                                   .ratio_to = -1});
    t.order = bench_table_add_column(
        t.table,
        (struct bench_column){.name = "order", .kind = BENCH_COLUMN_COUNT, .ratio_to = -1});
    t.what = bench_table_add_column(
        t.table, (struct bench_column){.name = "what", .kind = BENCH_COLUMN_TEXT, .ratio_to = -1});
    t.cycles = bench_table_add_column(t.table, cycles);
    t.barriers = bench_table_add_column(t.table, (struct bench_column){.name = "membarriers",
                                                                       .kind = BENCH_COLUMN_NUMBER,
                                                                       .decimals = 2,
                                                                       .ratio_to = -1});
    return t;
}

static void add_request(const struct request_table *t, const struct fragment_wish *wish,
                        const char *what, const struct bench_samples *samples, double barriers)
{
    unsigned row = bench_table_add_row(t->table);

    bench_table_set_count(t->table, row, t->pool, wish->bytes);
    bench_table_set_count(t->table, row, t->order, wish->order);
    bench_table_set_text(t->table, row, t->what, what);
    for (unsigned i = 0; i < samples->nr; i++)
        bench_table_sample(t->table, row, t->cycles, samples->values[i]);
    bench_table_set_number(t->table, row, t->barriers, barriers);
}

/* What goals are about, over all rows. */
struct request_worst {
    struct bench_worst cycles, growth, barriers, again;
    double first; /* of the smallest pool, this order */
};

static void judge_requests(struct request_worst *worst, const struct fragment_wish *wish,
                           const struct fragment_figures *figures, bool smallest)
{
    double fails = bench_samples_min(&figures->failure);
    char text[UI_NUMBER];

    ui_bytes(text, wish->bytes);
    if (smallest)
        worst->first = fails;
    bench_worst_add(&worst->cycles, fails, "order %u, %s", wish->order, text);
    bench_worst_add(&worst->growth, bench_ratio(fails, worst->first), "order %u, %s", wish->order,
                    text);
    if (figures->draining.nr > 0) {
        bench_worst_add(&worst->barriers, figures->drain_barriers, "order %u, %s", wish->order,
                        text);
        bench_worst_add(&worst->again, figures->barriers + figures->again_barriers, "order %u, %s",
                        wish->order, text);
    }
}

static void set_request_goals(const struct request_table *t, const struct request_worst *worst)
{
    bench_table_goal(t->table, BENCH_AT_MOST, 500, worst->cycles.value,
                     "a failing request, caches empty, cycles (worst: %s)", worst->cycles.where);
    bench_table_goal(t->table, BENCH_AT_MOST, 1.25, worst->growth.value,
                     "the same / that of 4 GiB (worst: %s)", worst->growth.where);
    bench_table_goal(t->table, BENCH_AT_MOST, 1, worst->barriers.value,
                     "membarriers of a failure while one other cache holds something");
    bench_table_goal(t->table, BENCH_AT_MOST, 0, worst->again.value,
                     "membarriers of the failures after it, and with empty caches");
}

static int measure_requests(const struct bench *bench, const struct request_table *t,
                            uint64_t bytes, unsigned order, bool smallest,
                            struct request_worst *worst)
{
    struct fragment_wish wish = {.bytes = bytes,
                                 .order = order,
                                 .runs = bench->runs,
                                 .cpus = {bench->cpus[0], bench->cpus[bench->nr_cpus - 1]}};
    struct fragment_figures figures;
    char text[UI_NUMBER];
    int status =
        bench_child_run("fragment", bench_fragment_requests, &wish, &figures, sizeof(figures));

    if (status == UI_MISSING) {
        bench_table_note(t->table, "%s: skipped: the system does not give the addresses",
                         ui_bytes(text, bytes));
        return UI_OK;
    }
    if (status != UI_OK)
        return status;
    add_request(t, &wish, "succeeds", &figures.success, NAN);
    add_request(t, &wish, "fails", &figures.failure, figures.barriers);
    if (bench->nr_cpus > 1) {
        add_request(t, &wish, "fails, drains one", &figures.draining, figures.drain_barriers);
        add_request(t, &wish, "fails after that", &figures.again, figures.again_barriers);
    }
    judge_requests(worst, &wish, &figures, smallest);
    return UI_OK;
}

static int fragment_requests(struct bench *bench)
{
    static const uint64_t sizes[] = {4 * GIB, 64 * GIB, 16384 * GIB};
    static const unsigned orders[] = {3, 6};
    struct request_table t = make_requests();
    struct request_worst worst = {.cycles = BENCH_WORST,
                                  .growth = BENCH_WORST,
                                  .barriers = BENCH_WORST,
                                  .again = BENCH_WORST,
                                  .first = NAN};
    int status = UI_OK, published;

    for (unsigned i = 0; i < 6 && status == UI_OK && !ui_interrupted(); i++) {
        bench_progress(bench, i, 6);
        status = measure_requests(bench, &t, sizes[i % 3], orders[i / 3], i % 3 == 0, &worst);
    }
    bench_table_note(t.table,
                     "fails, drains one: the other CPU's cache holds one frame, which must be "
                     "looked at first");
    set_request_goals(&t, &worst);
    published = bench_publish(bench, t.table);
    return status != UI_OK ? status : published;
}

/* ---- every order-3 block of a half-full zone ------------------------------------------------- */

struct order3_table {
    struct bench_table *table;
    unsigned pool, freed, blocks, mean, high, worst;
};

static struct order3_table make_order3(void)
{
    struct bench_column number = {.kind = BENCH_COLUMN_NUMBER, .decimals = 0, .ratio_to = -1};
    struct order3_table t = {
        .table = bench_table_create("fragment-order3", "fragment: all order-3 blocks out of a zone "
                                                       "of which a random half is free; cycles")};

    t.pool = bench_table_add_column(t.table, (struct bench_column){.name = "pool",
                                                                   .key = "pool_bytes",
                                                                   .kind = BENCH_COLUMN_BYTES,
                                                                   .ratio_to = -1});
    t.freed = bench_table_add_column(
        t.table,
        (struct bench_column){.name = "freed by", .kind = BENCH_COLUMN_TEXT, .ratio_to = -1});
    t.blocks = bench_table_add_column(
        t.table,
        (struct bench_column){.name = "blocks", .kind = BENCH_COLUMN_COUNT, .ratio_to = -1});
    number.name = "mean";
    t.mean = bench_table_add_column(t.table, number);
    number.name = "99.99 %";
    number.key = "percentile_99_99";
    t.high = bench_table_add_column(t.table, number);
    number.name = "worst";
    number.key = NULL;
    t.worst = bench_table_add_column(t.table, number);
    return t;
}

/* The least of each figure over a few processes: what disturbs makes them larger. */
static int measure_order3(const struct bench *bench, const struct order3_table *t, uint64_t bytes,
                          unsigned order)
{
    struct fragment_wish wish = {
        .bytes = bytes, .order = order, .cpus = {bench->cpus[0]}, .overhead = bench->overhead};
    struct order3_figures least = {.mean = INFINITY, .high = INFINITY, .worst = INFINITY};
    unsigned row = bench_table_add_row(t->table), runs = bench->quick ? 1 : 5;
    const char *freed = order == 0 ? "frames" : "order-3 blocks";

    bench_table_set_count(t->table, row, t->pool, bytes);
    bench_table_set_text(t->table, row, t->freed, freed);
    for (unsigned run = 0; run < runs && !ui_interrupted(); run++) {
        struct order3_figures figures;
        int status =
            bench_child_run("fragment", bench_fragment_order3, &wish, &figures, sizeof(figures));

        if (status != UI_OK)
            return status;
        least.blocks = figures.blocks;
        least.mean = fmin(least.mean, figures.mean);
        least.high = fmin(least.high, figures.high);
        least.worst = fmin(least.worst, figures.worst);
    }
    bench_table_set_count(t->table, row, t->blocks, least.blocks);
    bench_table_set_number(t->table, row, t->mean, least.mean);
    bench_table_set_number(t->table, row, t->high, least.high);
    bench_table_set_number(t->table, row, t->worst, least.worst);
    bench_table_goal(t->table, BENCH_AT_MOST, 150, least.mean, "half freed by %s: mean, cycles",
                     freed);
    bench_table_goal(t->table, BENCH_AT_MOST, 3000, least.high,
                     "half freed by %s: 99.99 %%, cycles", freed);
    return UI_OK;
}

static int fragment_order3(struct bench *bench)
{
    struct order3_table t = make_order3();
    int status = measure_order3(bench, &t, (bench->quick ? 16 : 64) * GIB, 0), published;

    if (status == UI_OK && !ui_interrupted())
        status = measure_order3(bench, &t, 16 * GIB, 3);
    bench_table_note(t.table, "mean: over one measurement of all; the others: each call timed by "
                              "itself");
    published = bench_publish(bench, t.table);
    return status != UI_OK ? status : published;
}

int bench_fragment(struct bench *bench)
{
    int (*const parts[])(struct bench *) = {fragment_kept, fragment_requests, fragment_order3};
    int status = UI_OK;

    for (unsigned i = 0; i < 3 && status == UI_OK && !ui_interrupted(); i++)
        status = parts[i](bench);
    return status;
}
