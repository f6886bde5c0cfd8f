/* SPDX-License-Identifier: MIT */
/*
 * A run: what surrounds the threads (replay_threads.c). Each round
 *
 *   - allocates the blocks from before the recording,
 *   - starts a thread for each CPU of the trace and shows how far they are,
 *   - takes the figures, drains the caches and compares what Deckle says is allocated with what the
 *     threads hold,
 *   - frees what the trace has left and wants everything to be free again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_clock.h"
#include "replay_threads.h"
#include "ui.h"

#define STACK_BYTES (256u * 1024u)
#define POLL_NS     2000000
/* Looks before a thread sleeps until its turn: some 20 us where it has a CPU of its own. */
#define SPINS_ALONE  1000u
#define SPINS_SHARED 20u
#define ADOPTED_GFP  DECKLE_GFP_HIGHUSER_MOVABLE

/* --- a round --------------------------------------------------------------------------------- */

static void watch(struct replay_run *run, uint32_t round)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    struct ui_progress progress;

    ui_progress_start(&progress, run->name);
    while (atomic_load_explicit(&run->running, memory_order_acquire) > 0) {
        uint64_t done = (uint64_t)round * run->plan->nr_ops;

        nanosleep(&pause, NULL);
        if (ui_interrupted())
            replay_stop(run);
        for (uint32_t i = 0; i < run->nr_workers; i++)
            done += atomic_load_explicit(&run->workers[i].done, memory_order_relaxed);
        ui_progress_show(&progress, done, (uint64_t)run->plan->nr_ops * run->options->repeat);
    }
    ui_progress_end(&progress);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void ready(struct replay_run *run)
{
    atomic_store(&run->turn, 0);
    atomic_store(&run->go, false);
    atomic_store(&run->running, run->nr_workers);
    for (uint32_t i = 0; i < run->nr_workers; i++) {
        struct replay_worker *w = &run->workers[i];

        atomic_store(&w->done, 0);
        atomic_store(&w->at, w->column->index[0]);
        w->slowest = 0;
    }
}

/* One pass over the trace. */
static int play_round(struct replay_run *run, uint32_t round, struct replay_result *result)
{
    pthread_attr_t attributes;
    uint32_t started = 0;
    uint64_t began;
    int error = 0;

    ready(run);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (started < run->nr_workers && error == 0) {
        struct replay_worker *w = &run->workers[started];

        error = pthread_create(&w->thread, &attributes, replay_thread, w);
        started += error == 0;
    }
    pthread_attr_destroy(&attributes);
    if (error != 0)
        replay_stop(run);
    began = now_ns();
    atomic_store_explicit(&run->go, true, memory_order_release);
    if (error == 0)
        watch(run, round);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(run->workers[i].thread, NULL);
    result->elapsed_ns += now_ns() - began;
    if (error == 0)
        return UI_OK;
    ui_error("replay: cannot start %" PRIu32 " threads: %s", run->nr_workers, strerror(error));
    return UI_MISSING;
}

/* --- before and after ------------------------------------------------------------------------ */

/* Allocates the blocks from before the recording, past the caches, so that the trace finds them
 * empty. */
static void adopt(struct replay_run *run, struct replay_result *result)
{
    const struct replay_plan *plan = run->plan;
    struct replay_worker *w = &run->workers[0];

    for (uint32_t i = 0; i < plan->nr_adopted; i++) {
        const struct replay_adopted *a = &plan->adopted[i];
        struct replay_live *slot = &run->slots[a->slot];
        struct deckle_request ask = {.size = sizeof(ask),
                                     .gfp = ADOPTED_GFP,
                                     .order = a->order,
                                     .node = DECKLE_NODE(i % run->pool->nodes),
                                     .flags = DECKLE_REQ_NO_CACHE};
        int64_t pfn = deckle_alloc_request(run->pool->d, &ask);
        struct replay_op op = {.order = a->order};

        slot->pfn = pfn < 0 ? REPLAY_NO_FRAME : pfn;
        atomic_store(&slot->steps, 1);
        if (pfn < 0)
            result->adopt_failures++;
        else if (replay_inside(run->pool, (uint64_t)pfn, a->order))
            replay_own(w, &op, (uint64_t)pfn);
    }
}

struct leftovers {
    struct replay_run *run;
    struct deckle_allocated *blocks;
    uint64_t nr, room, frames, unowned;
    bool failed;
};

static void take_leftover(void *context, const struct deckle_allocated *block)
{
    struct leftovers *l = context;
    struct replay_run *run = l->run;
    uint64_t nr = UINT64_C(1) << block->order, at = block->pfn - run->pool->first_pfn;

    if (l->nr == l->room) {
        uint64_t room = l->room > 0 ? l->room * 2 : 1024;
        struct deckle_allocated *blocks = realloc(l->blocks, room * sizeof(*blocks));

        l->failed |= blocks == NULL;
        if (blocks == NULL)
            return;
        l->blocks = blocks;
        l->room = room;
    }
    l->blocks[l->nr++] = *block;
    l->frames += nr;
    if (!replay_inside(run->pool, block->pfn, block->order)) {
        l->unowned += nr;
        return;
    }
    for (uint64_t i = at; i < at + nr; i++)
        l->unowned += atomic_exchange_explicit(&run->owners[i], 0, memory_order_relaxed) == 0;
}

/* The first contradiction between what Deckle says is allocated and what the threads hold. */
static void compare_owners(struct replay_run *run, const struct leftovers *l,
                           struct replay_result *result)
{
    uint64_t held = atomic_load(&run->live);

    if (l->failed)
        snprintf(result->invalid, sizeof(result->invalid), "not enough memory to check");
    else if (l->unowned > 0)
        snprintf(result->invalid, sizeof(result->invalid),
                 "%" PRIu64 " frames are allocated that nobody holds", l->unowned);
    else if (l->frames != held)
        snprintf(result->invalid, sizeof(result->invalid),
                 "%" PRIu64 " frames are held, %" PRIu64 " allocated", held, l->frames);
}

static void note_invalid(struct replay_run *run, struct replay_result *result)
{
    char why[sizeof(result->invalid)];

    if (deckle_validate(run->pool->d, why, sizeof(why)) != DECKLE_OK && result->invalid[0] == '\0')
        memcpy(result->invalid, why, sizeof(why));
}

/* After a round: what is still live is compared and freed, then everything must be free. */
static void clean_up(struct replay_run *run, struct replay_result *result)
{
    struct leftovers l = {.run = run};
    struct replay_zones zones;

    note_invalid(run, result);
    deckle_for_each_allocated(run->pool->d, take_leftover, &l);
    if (result->invalid[0] == '\0')
        compare_owners(run, &l, result);
    result->live_blocks = l.nr;
    result->live_frames = l.frames;
    for (uint64_t i = 0; i < l.nr; i++)
        if (deckle_free(run->pool->d, l.blocks[i].pfn, l.blocks[i].order) != DECKLE_OK)
            run->workers[0].counts.refused++;
    free(l.blocks);
    atomic_store(&run->live, 0);
    deckle_drain_all(run->pool->d);
    note_invalid(run, result);
    replay_pool_zones(run->pool, &zones);
    if (zones.free != zones.managed && result->invalid[0] == '\0')
        snprintf(result->invalid, sizeof(result->invalid),
                 "everything was freed, but %" PRIu64 " of %" PRIu64 " frames are free", zones.free,
                 zones.managed);
    for (uint32_t s = 0; s < run->plan->nr_slots; s++)
        atomic_store_explicit(&run->slots[s].steps, 0, memory_order_relaxed);
}

/* Traffic of a round on top of that of the rounds before; what is free as it is now. */
static void take_figures(struct replay_run *run, const struct replay_zones *before,
                         struct replay_result *result)
{
    struct replay_zones now, *after = &result->after;

    replay_pool_zones(run->pool, &now);
    now.refills += after->refills - before->refills;
    now.refill_frames += after->refill_frames - before->refill_frames;
    now.drains += after->drains - before->drains;
    now.drain_frames += after->drain_frames - before->drain_frames;
    now.claims += after->claims - before->claims;
    now.steals += after->steals - before->steals;
    *after = now;
    deckle_drain_all(run->pool->d);
    replay_pool_zones(run->pool, &result->drained);
}

static int play_rounds(struct replay_run *run, struct replay_result *result)
{
    int status = UI_OK;

    for (uint32_t round = 0; round < run->options->repeat && status == UI_OK; round++) {
        struct replay_zones before;

        adopt(run, result);
        replay_pool_zones(run->pool, &before);
        if (round == 0)
            result->before = before;
        status = play_round(run, round, result);
        if (status != UI_OK)
            break;
        take_figures(run, &before, result);
        clean_up(run, result);
        if (atomic_load(&run->stop))
            status = UI_INTERRUPTED;
        else
            result->rounds++;
        if (result->invalid[0] != '\0')
            break;
    }
    result->interrupted = status == UI_INTERRUPTED;
    return status;
}

/* --- making a run ---------------------------------------------------------------------------- */

static void *zeroed(size_t nr, size_t size)
{
    void *at = NULL;

    if (nr > SIZE_MAX / size - 1 || posix_memalign(&at, REPLAY_LINE, (nr + 1) * size) != 0)
        return NULL;
    return memset(at, 0, (nr + 1) * size);
}

/* Histograms for the orders that the thread has. */
static bool add_histograms(struct replay_run *run, struct replay_worker *w)
{
    for (uint32_t i = 0; i < w->column->nr; i++) {
        const struct replay_op *op = &run->plan->ops[w->column->index[i]];
        struct histogram **of;

        if (op->kind == REPLAY_SPLIT || op->order >= REPLAY_NR_ORDERS)
            continue;
        of = op->kind == REPLAY_ALLOC ? &w->allocs[op->order] : &w->frees[op->order];
        if (*of == NULL)
            *of = zeroed(1, sizeof(**of));
        if (*of == NULL)
            return false;
    }
    return true;
}

static bool make_run(struct replay_run *run)
{
    const struct replay_plan *plan = run->plan;
    const struct replay_pool *pool = run->pool;
    uint64_t spare = plan->counts.peak_frames + pool->reserves;

    run->slack = pool->managed > spare ? (pool->managed - spare) / 2 : 0;
    run->nr_workers = plan->nr_columns;
    run->spins = plan->nr_columns > pool->nr_cpus ? SPINS_SHARED : SPINS_ALONE;
    run->slots = zeroed(plan->nr_slots, sizeof(*run->slots));
    run->owners = calloc(pool->span, sizeof(*run->owners)); /* large, and touched only in part */
    run->workers = zeroed(run->nr_workers, sizeof(*run->workers));
    if (run->slots == NULL || run->owners == NULL || run->workers == NULL)
        return false;
    for (uint32_t i = 0; i < run->nr_workers; i++) {
        struct replay_worker *w = &run->workers[i];

        w->run = run;
        w->column = &plan->columns[i];
        w->number = i;
        w->real_cpu = pool->cpus[i % pool->nr_cpus];
        if (!add_histograms(run, w))
            return false;
    }
    return true;
}

static void free_run(struct replay_run *run)
{
    for (uint32_t i = 0; run->workers != NULL && i < run->nr_workers; i++)
        for (uint32_t o = 0; o < REPLAY_NR_ORDERS; o++) {
            free(run->workers[i].allocs[o]);
            free(run->workers[i].frees[o]);
        }
    free(run->workers);
    free((void *)run->owners);
    free(run->slots);
}

static void add_counts(struct replay_counts *sum, const struct replay_counts *c)
{
    sum->events += c->events;
    sum->allocs += c->allocs;
    sum->frees += c->frees;
    sum->splits += c->splits;
    sum->remote += c->remote;
    sum->adopted += c->adopted;
    sum->pieces += c->pieces;
    sum->several += c->several;
    sum->lost += c->lost;
    for (unsigned int i = 0; i < 32; i++)
        sum->failures[i] += c->failures[i];
    sum->left_node += c->left_node;
    sum->nothing_to_free += c->nothing_to_free;
    sum->refused += c->refused;
    sum->two_owners += c->two_owners;
    sum->not_zero += c->not_zero;
    sum->waits_block += c->waits_block;
    sum->waits_memory += c->waits_memory;
    if (c->peak_frames > sum->peak_frames)
        sum->peak_frames = c->peak_frames;
    if (c->fault_line > 0 && (sum->fault_line == 0 || c->fault_line < sum->fault_line))
        sum->fault_line = c->fault_line;
    if (c->failure_line > 0 && (sum->failure_line == 0 || c->failure_line < sum->failure_line))
        sum->failure_line = c->failure_line;
}

static void gather(const struct replay_run *run, struct replay_result *result)
{
    for (uint32_t i = 0; i < run->nr_workers; i++) {
        const struct replay_worker *w = &run->workers[i];

        add_counts(&result->counts, &w->counts);
        for (uint32_t o = 0; o < REPLAY_NR_ORDERS; o++) {
            if (w->allocs[o] != NULL)
                histogram_merge(&result->allocs[o], w->allocs[o]);
            if (w->frees[o] != NULL)
                histogram_merge(&result->frees[o], w->frees[o]);
        }
    }
}

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Ticks between a start and a stop with nothing between. The counter may advance in steps that are
 * longer than that, so the mean of many says more than the least; interrupted ones are left out. */
static double clock_cost(void)
{
    enum { SAMPLES = 4000, KEPT = SAMPLES / 10 * 9 };
    uint64_t ticks[SAMPLES], sum = 0;

    for (unsigned int i = 0; i < SAMPLES; i++) {
        uint64_t start = bench_clock_start();

        ticks[i] = bench_clock_stop() - start;
    }
    qsort(ticks, SAMPLES, sizeof(ticks[0]), by_value);
    for (unsigned int i = 0; i < KEPT; i++)
        sum += ticks[i];
    return (double)sum / KEPT;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Some virtual machines and processors advance the counter in steps of many ticks. */
static uint64_t clock_step(void)
{
    uint64_t step = 0, before = bench_clock_start();

    for (unsigned int i = 0; i < 2000; i++) {
        uint64_t now = bench_clock_start();

        step = greatest_divisor(step, now - before);
        before = now;
    }
    return step > 0 ? step : 1;
}

int replay_run(const struct replay_plan *plan, struct replay_pool *pool,
               const struct replay_options *options, const char *name, struct replay_result *result)
{
    struct replay_run run = {.plan = plan, .pool = pool, .options = options, .name = name};
    int status = UI_MISSING;

    memset(result, 0, sizeof(*result));
    result->threads = plan->nr_columns;
    result->ticks_per_ns = bench_clock_calibrate(20);
    result->clock_ticks = clock_cost();
    run.overhead = (uint64_t)(result->clock_ticks + 0.5);
    result->clock_step = clock_step();
    if (make_run(&run)) {
        status = play_rounds(&run, result);
        gather(&run, result);
    } else {
        ui_error("replay: not enough memory for %" PRIu32 " operations", plan->nr_ops);
    }
    free_run(&run);
    return status;
}
