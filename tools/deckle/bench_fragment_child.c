/* SPDX-License-Identifier: MIT */
/*
 * Requests in fragmented memory (bench_fragment.h): how the state is made, and what is timed.
 *
 * Frames are taken in bulk until none is left, or until PART is taken where the pool is larger:
 * then the rest is first taken in blocks of the largest order (2^18 frames; one state byte each, so
 * that this touches little), and PART given back from everywhere in it. Then all frames are freed
 * but the first of each aligned run of the order: the largest run that is left is half of it. To
 * have a few that fit, one run in every EVERY-th pageblock is freed entirely.
 *
 * All by one thread, which moves itself to the other CPU to leave a frame in its cache.
 */
#include "bench_fragment.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <deckle/linux.h>

#include "bench_clock.h"

#define GIB        (UINT64_C(1) << 30)
#define PART       (64 * GIB) /* that is fragmented of a larger pool */
#define HUGE_ORDER 18u
#define EVERY      4u   /* pageblocks, of which one has a run that fits */
#define FITTING    128u /* requests that succeed, per sample */
#define FAILING    200u
#define PASSES     4u /* over all order-3 blocks: the fastest counts */

/* ---- taking everything ----------------------------------------------------------------------- */

struct frames {
    uint64_t *pfns;
    size_t nr, room;
};

static void note_frame(struct frames *f, uint64_t pfn)
{
    if (f->nr == f->room) {
        f->room = f->room > 0 ? 2 * f->room : 1 << 20;
        f->pfns = realloc(f->pfns, f->room * sizeof(*f->pfns));
        if (f->pfns == NULL) {
            ui_error("bench: fragment: no memory for the list of frames");
            exit(UI_MISSING);
        }
    }
    f->pfns[f->nr++] = pfn;
}

/* The pool in blocks of the largest order, of which PART goes back at once. */
static void take_most(struct deckle *d, uint64_t bytes)
{
    uint64_t blocks = bytes >> (BENCH_PAGE_SHIFT + HUGE_ORDER), back = PART >> 30, freed = 0;
    struct frames taken = {NULL, 0, 0};
    int64_t pfn;

    while ((pfn = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_MEMALLOC, HUGE_ORDER)) >= 0)
        note_frame(&taken, (uint64_t)pfn);
    for (size_t i = 0; i < taken.nr && freed < back; i += (size_t)(blocks / back), freed++)
        deckle_free(d, taken.pfns[i], HUGE_ORDER);
    free(taken.pfns);
}

/* Blocks of this order until there are no more, in the order in which they came. */
static void take_all(struct deckle *d, unsigned order, struct frames *f)
{
    uint32_t gfp = DECKLE_GFP_HIGHUSER_MOVABLE | DECKLE_GFP_MEMALLOC;
    int64_t pfn;

    while ((pfn = deckle_alloc(d, gfp, order)) >= 0)
        note_frame(f, (uint64_t)pfn);
}

static int open_pool(const struct fragment_wish *wish, struct bench_pool *pool)
{
    struct deckle_create_options more = {.max_order = HUGE_ORDER};

    bench_bind(wish->cpus[0]);
    return bench_pool_open_with(pool, wish->bytes, 0, BENCH_BACKING_NONE, &more);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* All frames go but the first of each run; where a block is to have one that fits, the first run
 * goes whole. */
static void fragment(struct deckle *d, const struct frames *f, unsigned order)
{
    uint64_t mask = (UINT64_C(1) << order) - 1;

    for (size_t i = 0; i < f->nr; i++) {
        uint64_t pfn = f->pfns[i], block = pfn >> DECKLE_PAGEBLOCK_ORDER;
        bool fits = block % EVERY == 0 && (pfn & (DECKLE_PAGEBLOCK_PAGES - 1)) <= mask;

        if ((pfn & mask) != 0 || fits)
            deckle_free(d, pfn, 0);
    }
    deckle_drain_all(d);
}

static uint64_t membarriers(struct deckle *d)
{
    struct deckle_stat stat = {.size = sizeof(stat)};

    deckle_get_stat(d, &stat);
    return stat.remote_drains + stat.drain_retries;
}

/* Nothing but what fits is left. The requests are Movable, as the frames were. */
static int64_t request(struct deckle *d, unsigned order)
{
    return deckle_alloc(d, DECKLE_GFP_HIGHUSER_MOVABLE | DECKLE_GFP_NOWARN, order);
}

static void time_success(struct deckle *d, const struct fragment_wish *wish,
                         struct bench_samples *samples)
{
    uint64_t pfns[FITTING];

    for (unsigned run = 0; run < wish->runs; run++) {
        unsigned nr = 0;
        uint64_t ticks;

        deckle_drain_all(d);
        ticks = bench_clock_start();
        for (; nr < FITTING; nr++) {
            int64_t pfn = request(d, wish->order);

            if (pfn < 0)
                break;
            pfns[nr] = (uint64_t)pfn;
        }
        ticks = bench_clock_stop() - ticks;
        if (nr == FITTING && run > 0) /* the first warms up */
            bench_samples_add(samples, (double)ticks / nr);
        while (nr > 0)
            deckle_free(d, pfns[--nr], wish->order);
    }
}

/* The blocks that fit are taken for good. */
static void exhaust(struct deckle *d, unsigned order)
{
    while (request(d, order) >= 0)
        continue;
    deckle_drain_all(d);
}

static bool time_failures(struct deckle *d, const struct fragment_wish *wish,
                          struct fragment_figures *figures)
{
    uint64_t before = membarriers(d), calls = 0;

    for (unsigned run = 0; run < wish->runs; run++) {
        uint64_t ticks = bench_clock_start();

        for (unsigned i = 0; i < FAILING; i++)
            if (request(d, wish->order) >= 0)
                return false;
        bench_samples_add(&figures->failure, (double)(bench_clock_stop() - ticks) / FAILING);
        calls += FAILING;
    }
    figures->barriers = (double)(membarriers(d) - before) / (double)calls;
    return true;
}

/* One failure; its ticks and membarriers are added. */
static bool one_failure(struct deckle *d, unsigned order, struct bench_samples *samples,
                        double *barriers)
{
    uint64_t before = membarriers(d), ticks = bench_clock_start();
    bool failed = request(d, order) < 0;

    bench_samples_add(samples, (double)(bench_clock_stop() - ticks));
    *barriers += (double)(membarriers(d) - before);
    return failed;
}

/* The other CPU frees a frame that makes no run: it stays in that CPU's cache. */
static bool time_draining(struct deckle *d, const struct fragment_wish *wish,
                          struct fragment_figures *figures)
{
    if (wish->cpus[1] == wish->cpus[0])
        return true;
    for (unsigned run = 0; run < wish->runs; run++) {
        int64_t pfn;
        bool failed;

        bench_bind(wish->cpus[1]);
        pfn = deckle_alloc(d, DECKLE_GFP_HIGHUSER_MOVABLE, 0);
        if (pfn < 0)
            return false;
        deckle_drain_all(d);
        deckle_free(d, (uint64_t)pfn, 0);
        bench_bind(wish->cpus[0]);
        failed = one_failure(d, wish->order, &figures->draining, &figures->drain_barriers) &&
                 one_failure(d, wish->order, &figures->again, &figures->again_barriers);
        if (!failed)
            return false;
    }
    figures->drain_barriers /= wish->runs;
    figures->again_barriers /= wish->runs;
    return true;
}

int bench_fragment_requests(const void *wished, void *to)
{
    const struct fragment_wish *wish = wished;
    struct fragment_figures *figures = to;
    struct frames frames = {NULL, 0, 0};
    struct bench_pool pool;
    int status = open_pool(wish, &pool);

    memset(figures, 0, sizeof(*figures));
    if (status != UI_OK)
        return status;
    if (wish->bytes > PART)
        take_most(pool.d, wish->bytes);
    take_all(pool.d, 0, &frames);
    fragment(pool.d, &frames, wish->order);
    time_success(pool.d, wish, &figures->success);
    exhaust(pool.d, wish->order);
    if (!time_failures(pool.d, wish, figures) || !time_draining(pool.d, wish, figures)) {
        ui_error("bench: fragment: a request of order %u succeeded that should fail", wish->order);
        return UI_FAULT;
    }
    return pool.bad > 0 ? UI_FAULT : UI_OK;
}

/* ---- every order-3 block --------------------------------------------------------------------- */

static int compare_ticks(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Order-3 blocks until there are none; each timed by itself if ticks is given. */
static uint64_t take_order3(struct deckle *d, struct frames *taken, struct frames *ticks)
{
    uint64_t began = bench_clock_start(), all;
    int64_t pfn;

    taken->nr = 0;
    for (;;) {
        uint64_t start = ticks != NULL ? bench_clock_start() : 0;

        pfn = deckle_alloc(d, DECKLE_GFP_HIGHUSER_MOVABLE, 3);
        if (pfn < 0)
            break;
        if (ticks != NULL)
            note_frame(ticks, bench_clock_stop() - start);
        note_frame(taken, (uint64_t)pfn);
    }
    all = bench_clock_stop() - began;
    for (size_t i = 0; i < taken->nr; i++)
        deckle_free(d, taken->pfns[i], 3);
    deckle_drain_all(d);
    return all;
}

static void free_random_half(struct deckle *d, const struct frames *f, unsigned order)
{
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15);

    for (size_t i = 0; i < f->nr; i++)
        if (bench_xorshift(&random) >> 63 != 0)
            deckle_free(d, f->pfns[i], order);
    deckle_drain_all(d);
}

int bench_fragment_order3(const void *wished, void *to)
{
    const struct fragment_wish *wish = wished;
    struct order3_figures *figures = to;
    struct frames frames = {NULL, 0, 0}, taken = {NULL, 0, 0}, ticks = {NULL, 0, 0};
    struct bench_pool pool;
    int status = open_pool(wish, &pool);
    uint64_t all = UINT64_MAX;

    if (status != UI_OK)
        return status;
    take_all(pool.d, wish->order, &frames);
    free_random_half(pool.d, &frames, wish->order);
    take_order3(pool.d, &taken, &ticks); /* warms up, and makes room in the lists */
    for (unsigned pass = 0; pass < PASSES; pass++) {
        uint64_t ticks_of_all = take_order3(pool.d, &taken, NULL);

        all = ticks_of_all < all ? ticks_of_all : all;
    }
    ticks.nr = 0;
    take_order3(pool.d, &taken, &ticks);
    if (ticks.nr == 0) {
        ui_error("bench: fragment: no block of order 3 was free");
        return UI_FAULT;
    }
    qsort(ticks.pfns, ticks.nr, sizeof(ticks.pfns[0]), compare_ticks);
    figures->blocks = ticks.nr;
    figures->mean = (double)all / (double)ticks.nr; /* one failure included */
    figures->high = (double)ticks.pfns[ticks.nr - 1 - ticks.nr / 10000] - wish->overhead;
    figures->worst = (double)ticks.pfns[ticks.nr - 1] - wish->overhead;
    return pool.bad > 0 ? UI_FAULT : UI_OK;
}
