/* SPDX-License-Identifier: MIT */
/*
 * The threads of a replay.
 *
 * In order. `turn` is the number of the operation that may run. Each thread waits until it is that of
 * its own next one and then passes it on. The wait, and the reading of the operation, lie before the
 * clock is started, so that only the call is measured; the caches it meets are those that the thread
 * before has left, as in the recording.
 *
 * Free-running. A thread plays its own operations one after the other. Two things make it wait, both
 * outside the measured time:
 *   - The slot has not had the steps (allocation, splits) that the operation needs.
 *   - It is too far ahead. What the trace holds at any moment fits the pool; what a thread allocates
 *     before the others have come to their frees is on top of that. So an allocation waits while the
 *     frames allocated in the file between the operation that is furthest behind and this one exceed
 *     half of what the pool has beyond peak and reserves.
 * Nobody waits for ever: of all operations that have not run, look at the first in the file. Those
 * before it in its thread have run, so its thread is at it. What it needs lies before it in the file,
 * so has run. And it is the one furthest behind, so is never ahead. Hence one thread can always go on.
 * Waiting is spinning that soon yields the CPU, because threads may share it.
 *
 * Owners. Each frame of the pool has a byte: 0, or the thread that got it + 1. It is set after an
 * allocation and must have been 0; it is cleared before a free and must have been set.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_clock.h"
#include "replay.h"
#include "ui.h"

#define LINE          64u
#define SPINS         256u /* looks before the CPU is yielded */
#define STACK_BYTES   (256u * 1024u)
#define POLL_NS       2000000
#define ADOPTED_GFP   DECKLE_GFP_HIGHUSER_MOVABLE
#define NO_FRAME      INT64_C(-1)
#define PAGE_BYTES    4096u
#define ZERO_SAMPLES  4u /* words of a frame that are looked at */

/* Where a block of the trace lies, and how many steps it has done. */
struct live_slot {
    int64_t pfn; /* written before steps becomes 1, then constant until the next round */
    _Atomic uint32_t steps;
};

struct run;

struct worker {
    _Alignas(LINE) _Atomic uint32_t at; /* operation it is at; UINT32_MAX when it is through */
    _Atomic uint32_t done;              /* operations of this round */
    _Alignas(LINE) struct run *run;
    const struct replay_column *column;
    uint32_t number, real_cpu;
    uint32_t slowest; /* what the furthest behind was when last looked */
    uint64_t overhead;
    struct replay_counts counts;
    struct histogram *allocs[REPLAY_NR_ORDERS], *frees[REPLAY_NR_ORDERS];
    pthread_t thread;
};

struct run {
    _Alignas(LINE) _Atomic uint32_t turn;
    _Alignas(LINE) _Atomic uint64_t live; /* frames */
    _Alignas(LINE) _Atomic bool go;
    _Atomic bool stop;
    _Atomic uint32_t running;
    const struct replay_plan *plan;
    struct replay_pool *pool;
    const struct replay_options *options;
    const char *name;
    uint64_t slack; /* frames that a free-running thread may be ahead */
    struct live_slot *slots;
    _Atomic uint8_t *owners;
    struct worker *workers;
    uint32_t nr_workers;
};

/* --- waiting --------------------------------------------------------------------------------- */

static void relax(uint32_t *spins)
{
    if (++*spins % SPINS == 0) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static bool stopped(const struct run *run)
{
    return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

/* Each of these returns false when the run is stopped. */

static bool wait_turn(struct run *run, uint32_t op)
{
    uint32_t spins = 0;

    while (atomic_load_explicit(&run->turn, memory_order_acquire) != op) {
        if (stopped(run))
            return false;
        relax(&spins);
    }
    return !stopped(run);
}

static bool wait_steps(struct worker *w, const struct replay_op *op)
{
    struct run *run = w->run;
    uint32_t spins = 0;

    while (atomic_load_explicit(&run->slots[op->slot].steps, memory_order_acquire) < op->need) {
        w->counts.waits_block += spins == 0;
        if (stopped(run))
            return false;
        relax(&spins);
    }
    return !stopped(run);
}

static uint32_t furthest_behind(const struct run *run)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < run->nr_workers; i++) {
        uint32_t at = atomic_load_explicit(&run->workers[i].at, memory_order_acquire);

        least = at < least ? at : least;
    }
    return least;
}

static bool too_far_ahead(const struct worker *w, uint32_t index, const struct replay_op *op)
{
    const struct replay_op *ops = w->run->plan->ops;

    return w->slowest < index &&
           op->ahead + (UINT64_C(1) << op->order) - ops[w->slowest].ahead > w->run->slack;
}

static bool wait_memory(struct worker *w, uint32_t index, const struct replay_op *op)
{
    uint32_t spins = 0;

    while (too_far_ahead(w, index, op)) {
        w->slowest = furthest_behind(w->run);
        if (!too_far_ahead(w, index, op))
            break;
        w->counts.waits_memory += spins == 0;
        if (stopped(w->run))
            return false;
        relax(&spins);
    }
    return !stopped(w->run);
}

/* --- checks outside the measured time -------------------------------------------------------- */

static void fault(struct worker *w, const struct replay_op *op)
{
    if (w->counts.fault_line == 0 || op->line < w->counts.fault_line)
        w->counts.fault_line = op->line;
}

static bool inside(const struct replay_pool *pool, uint64_t pfn, unsigned int order)
{
    uint64_t at = pfn - pool->first_pfn;

    return at < pool->span && (UINT64_C(1) << order) <= pool->span - at &&
           (pfn & ((UINT64_C(1) << order) - 1)) == 0;
}

static void own(struct worker *w, const struct replay_op *op, uint64_t pfn)
{
    struct run *run = w->run;
    uint64_t at = pfn - run->pool->first_pfn, nr = UINT64_C(1) << op->order, live, bad = 0;
    uint8_t me = (uint8_t)(w->number % 255 + 1);

    for (uint64_t i = at; i < at + nr; i++)
        bad += atomic_exchange_explicit(&run->owners[i], me, memory_order_relaxed) != 0;
    if (bad > 0) {
        w->counts.two_owners += bad;
        fault(w, op);
    }
    live = atomic_fetch_add_explicit(&run->live, nr, memory_order_relaxed) + nr;
    if (live > w->counts.peak_frames)
        w->counts.peak_frames = live;
}

static void disown(struct worker *w, const struct replay_op *op, uint64_t pfn)
{
    struct run *run = w->run;
    uint64_t at = pfn - run->pool->first_pfn, nr = UINT64_C(1) << op->order, bad = 0;

    for (uint64_t i = at; i < at + nr; i++)
        bad += atomic_exchange_explicit(&run->owners[i], 0, memory_order_relaxed) == 0;
    if (bad > 0) {
        w->counts.two_owners += bad;
        fault(w, op);
    }
    atomic_fetch_sub_explicit(&run->live, nr, memory_order_relaxed);
}

/* A few words of each frame must be zero where that was asked for; then they are written, so that only
 * zeroing can make them zero again. */
static void look_and_soil(struct worker *w, const struct replay_op *op, uint64_t pfn)
{
    const struct replay_pool *pool = w->run->pool;
    bool zero = (op->gfp & DECKLE_GFP_ZERO) != 0;
    uint64_t bad = 0;

    for (uint64_t p = pfn; p < pfn + (UINT64_C(1) << op->order); p++) {
        volatile uint64_t *words =
            (volatile uint64_t *)(void *)(pool->memory + (p - pool->first_pfn) * PAGE_BYTES);
        bool all = true;

        for (unsigned int s = 0; s < ZERO_SAMPLES; s++) {
            volatile uint64_t *word = &words[s * (PAGE_BYTES / 8 - 1) / (ZERO_SAMPLES - 1)];

            all = all && *word == 0;
            *word = UINT64_MAX;
        }
        bad += zero && !all;
    }
    if (bad > 0) {
        w->counts.not_zero += bad;
        fault(w, op);
    }
}

/* --- operations ------------------------------------------------------------------------------ */

static uint64_t net(const struct worker *w, uint64_t ticks)
{
    return ticks > w->overhead ? ticks - w->overhead : 0;
}

static void note_failure(struct worker *w, const struct replay_op *op, int64_t error)
{
    w->counts.failures[-error & 31]++;
    if (error != DECKLE_EINVAL && error != DECKLE_E2BIG &&
        (w->counts.failure_line == 0 || op->line < w->counts.failure_line))
        w->counts.failure_line = op->line;
}

static void play_alloc(struct worker *w, const struct replay_op *op)
{
    struct run *run = w->run;
    struct live_slot *slot = &run->slots[op->slot];
    struct deckle *d = run->pool->d;
    uint64_t start = bench_clock_start();
    int64_t pfn = deckle_alloc(d, op->gfp, op->order);
    uint64_t ticks = bench_clock_stop() - start;

    w->counts.allocs++;
    if (pfn < 0) {
        note_failure(w, op, pfn);
    } else if (!inside(run->pool, (uint64_t)pfn, op->order)) {
        w->counts.two_owners++;
        fault(w, op);
        pfn = NO_FRAME;
    } else {
        histogram_add(w->allocs[op->order], net(w, ticks));
        own(w, op, (uint64_t)pfn);
        if (run->pool->memory != NULL)
            look_and_soil(w, op, (uint64_t)pfn);
    }
    slot->pfn = pfn < 0 ? NO_FRAME : pfn;
    atomic_store_explicit(&slot->steps, 1, memory_order_release);
}

static void count_free(struct replay_counts *c, const struct replay_op *op)
{
    c->frees++;
    c->remote += (op->flags & REPLAY_REMOTE) != 0;
    c->adopted += (op->flags & REPLAY_ADOPTED) != 0;
    c->pieces += (op->flags & REPLAY_PIECE) != 0;
    c->several += (op->flags & REPLAY_SEVERAL) != 0;
    c->lost += (op->flags & REPLAY_LOST) != 0;
}

static void play_free(struct worker *w, const struct replay_op *op)
{
    struct run *run = w->run;
    struct deckle *d = run->pool->d;
    int64_t base = run->slots[op->slot].pfn;
    uint64_t pfn = (uint64_t)base + op->offset, start, ticks;
    int error;

    count_free(&w->counts, op);
    if (base < 0) {
        w->counts.nothing_to_free++;
        return;
    }
    disown(w, op, pfn);
    start = bench_clock_start();
    error = deckle_free(d, pfn, op->order);
    ticks = bench_clock_stop() - start;
    histogram_add(w->frees[op->order], net(w, ticks));
    if (error != DECKLE_OK) {
        w->counts.refused++;
        fault(w, op);
    }
}

static void play_split(struct worker *w, const struct replay_op *op)
{
    struct live_slot *slot = &w->run->slots[op->slot];

    w->counts.splits++;
    if (slot->pfn >= 0 && deckle_split(w->run->pool->d, (uint64_t)slot->pfn + op->offset,
                                       op->old_order, op->order) != DECKLE_OK) {
        w->counts.refused++;
        fault(w, op);
    }
    atomic_fetch_add_explicit(&slot->steps, 1, memory_order_release);
}

static void play(struct worker *w, const struct replay_op *op)
{
    w->counts.events += op->first;
    switch (op->kind) {
    case REPLAY_ALLOC:
        play_alloc(w, op);
        return;
    case REPLAY_FREE:
        play_free(w, op);
        return;
    default:
        play_split(w, op);
        return;
    }
}

/* --- threads --------------------------------------------------------------------------------- */

static void play_in_order(struct worker *w)
{
    struct run *run = w->run;

    for (uint32_t i = 0; i < w->column->nr; i++) {
        uint32_t index = w->column->index[i];

        __builtin_prefetch(&run->plan->ops[index]);
        if (!wait_turn(run, index))
            return;
        play(w, &run->plan->ops[index]);
        atomic_store_explicit(&w->done, i + 1, memory_order_relaxed);
        atomic_store_explicit(&run->turn, index + 1, memory_order_release);
    }
}

static void play_freely(struct worker *w)
{
    struct run *run = w->run;

    for (uint32_t i = 0; i < w->column->nr; i++) {
        uint32_t index = w->column->index[i];
        const struct replay_op *op = &run->plan->ops[index];

        atomic_store_explicit(&w->at, index, memory_order_release);
        if (op->kind == REPLAY_ALLOC ? !wait_memory(w, index, op) : !wait_steps(w, op))
            break;
        play(w, op);
        atomic_store_explicit(&w->done, i + 1, memory_order_relaxed);
    }
    atomic_store_explicit(&w->at, UINT32_MAX, memory_order_release);
}

static void *worker_main(void *argument)
{
    struct worker *w = argument;
    struct run *run = w->run;
    cpu_set_t set;
    uint32_t spins = 0;

    CPU_ZERO(&set);
    CPU_SET(w->real_cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set); /* a wish: any CPU is right */
    w->overhead = (uint64_t)bench_clock_overhead();
    while (!atomic_load_explicit(&run->go, memory_order_acquire))
        relax(&spins);
    if (run->options->free_running)
        play_freely(w);
    else
        play_in_order(w);
    atomic_fetch_sub_explicit(&run->running, 1, memory_order_release);
    return NULL;
}

static void watch(struct run *run, uint32_t round)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    struct ui_progress progress;

    ui_progress_start(&progress, run->name);
    while (atomic_load_explicit(&run->running, memory_order_acquire) > 0) {
        uint64_t done = (uint64_t)round * run->plan->nr_ops;

        nanosleep(&pause, NULL);
        if (ui_interrupted())
            atomic_store(&run->stop, true);
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

static void ready(struct run *run)
{
    atomic_store(&run->turn, 0);
    atomic_store(&run->go, false);
    atomic_store(&run->running, run->nr_workers);
    for (uint32_t i = 0; i < run->nr_workers; i++) {
        struct worker *w = &run->workers[i];

        atomic_store(&w->done, 0);
        atomic_store(&w->at, w->column->index[0]);
        w->slowest = 0;
    }
}

/* One pass over the trace. */
static int play_round(struct run *run, uint32_t round, struct replay_result *result)
{
    pthread_attr_t attributes;
    uint32_t started = 0;
    uint64_t began;
    int error = 0;

    ready(run);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    while (started < run->nr_workers && error == 0) {
        struct worker *w = &run->workers[started];

        error = pthread_create(&w->thread, &attributes, worker_main, w);
        started += error == 0;
    }
    pthread_attr_destroy(&attributes);
    if (error != 0)
        atomic_store(&run->stop, true);
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

/* Allocates the blocks from before the recording, past the caches, so that the trace finds them empty. */
static void adopt(struct run *run, struct replay_result *result)
{
    const struct replay_plan *plan = run->plan;
    struct worker *w = &run->workers[0];

    for (uint32_t i = 0; i < plan->nr_adopted; i++) {
        const struct replay_adopted *a = &plan->adopted[i];
        struct live_slot *slot = &run->slots[a->slot];
        struct deckle_request ask = {.size = sizeof(ask),
                                     .gfp = ADOPTED_GFP,
                                     .order = a->order,
                                     .node = DECKLE_NODE(i % run->pool->nodes),
                                     .flags = DECKLE_REQ_NO_CACHE};
        int64_t pfn = deckle_alloc_request(run->pool->d, &ask);
        struct replay_op op = {.order = a->order};

        slot->pfn = pfn < 0 ? NO_FRAME : pfn;
        atomic_store(&slot->steps, 1);
        if (pfn < 0)
            result->adopt_failures++;
        else if (inside(run->pool, (uint64_t)pfn, a->order))
            own(w, &op, (uint64_t)pfn);
    }
}

struct leftovers {
    struct run *run;
    struct deckle_allocated *blocks;
    uint64_t nr, room, frames, unowned;
    bool failed;
};

static void take_leftover(void *context, const struct deckle_allocated *block)
{
    struct leftovers *l = context;
    struct run *run = l->run;
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
    if (!inside(run->pool, block->pfn, block->order)) {
        l->unowned += nr;
        return;
    }
    for (uint64_t i = at; i < at + nr; i++)
        l->unowned += atomic_exchange_explicit(&run->owners[i], 0, memory_order_relaxed) == 0;
}

/* The first contradiction between what Deckle says is allocated and what the threads hold. */
static void compare_owners(struct run *run, const struct leftovers *l, struct replay_result *result)
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

static void note_invalid(struct run *run, struct replay_result *result)
{
    char why[sizeof(result->invalid)];

    if (deckle_validate(run->pool->d, why, sizeof(why)) != DECKLE_OK && result->invalid[0] == '\0')
        memcpy(result->invalid, why, sizeof(why));
}

/* After a round: what is still live is compared and freed, then everything must be free. */
static void clean_up(struct run *run, struct replay_result *result)
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
static void take_figures(struct run *run, const struct replay_zones *before,
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

static int play_rounds(struct run *run, struct replay_result *result)
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

    if (nr > SIZE_MAX / size - 1 || posix_memalign(&at, LINE, (nr + 1) * size) != 0)
        return NULL;
    return memset(at, 0, (nr + 1) * size);
}

/* Histograms for the orders that the thread has. */
static bool add_histograms(struct run *run, struct worker *w)
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

static bool make_run(struct run *run)
{
    const struct replay_plan *plan = run->plan;
    const struct replay_pool *pool = run->pool;
    uint64_t spare = plan->counts.peak_frames + pool->reserves;

    run->slack = pool->managed > spare ? (pool->managed - spare) / 2 : 0;
    run->nr_workers = plan->nr_columns;
    run->slots = zeroed(plan->nr_slots, sizeof(*run->slots));
    run->owners = zeroed(pool->span, sizeof(*run->owners));
    run->workers = zeroed(run->nr_workers, sizeof(*run->workers));
    if (run->slots == NULL || run->owners == NULL || run->workers == NULL)
        return false;
    for (uint32_t i = 0; i < run->nr_workers; i++) {
        struct worker *w = &run->workers[i];

        w->run = run;
        w->column = &plan->columns[i];
        w->number = i;
        w->real_cpu = pool->cpus[i % pool->nr_cpus];
        if (!add_histograms(run, w))
            return false;
    }
    return true;
}

static void free_run(struct run *run)
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

static void gather(const struct run *run, struct replay_result *result)
{
    for (uint32_t i = 0; i < run->nr_workers; i++) {
        const struct worker *w = &run->workers[i];

        add_counts(&result->counts, &w->counts);
        for (uint32_t o = 0; o < REPLAY_NR_ORDERS; o++) {
            if (w->allocs[o] != NULL)
                histogram_merge(&result->allocs[o], w->allocs[o]);
            if (w->frees[o] != NULL)
                histogram_merge(&result->frees[o], w->frees[o]);
        }
    }
}

int replay_run(const struct replay_plan *plan, struct replay_pool *pool,
               const struct replay_options *options, const char *name,
               struct replay_result *result)
{
    struct run run = {.plan = plan, .pool = pool, .options = options, .name = name};
    int status = UI_MISSING;

    memset(result, 0, sizeof(*result));
    result->threads = plan->nr_columns;
    result->ticks_per_ns = bench_clock_calibrate(20);
    result->clock_ticks = bench_clock_overhead();
    if (make_run(&run)) {
        status = play_rounds(&run, result);
        gather(&run, result);
    } else {
        ui_error("replay: not enough memory for %" PRIu32 " operations", plan->nr_ops);
    }
    free_run(&run);
    return status;
}
