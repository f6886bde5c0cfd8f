/* SPDX-License-Identifier: MIT */
/*
 * The threads of a replay.
 *
 * In order. `turn` is the number of the operation that may run. Each thread waits until it is that
 * of its own next one and then passes it on. The wait, and the reading of the operation, lie before
 * the clock is started, so that only the call is measured; the caches it meets are those that the
 * thread before has left, as in the recording.
 *
 * Free-running. A thread plays its own operations one after the other. Two things make it wait,
 * both outside the measured time:
 *   - The slot has not had the steps (allocation, splits) that the operation needs.
 *   - It is too far ahead. What the trace holds at any moment fits the pool; what a thread
 * allocates before the others have come to their frees is on top of that. So an allocation waits
 * while the frames allocated in the file between the operation that is furthest behind and this one
 * exceed half of what the pool has beyond peak and reserves. Nobody waits for ever: of all
 * operations that have not run, look at the first in the file. Those before it in its thread have
 * run, so its thread is at it. What it needs lies before it in the file, so has run. And it is the
 * one furthest behind, so is never ahead. Hence one thread can always go on. Waiting is spinning
 * that soon yields the CPU, because threads may share it.
 *
 * Owners. Each frame of the pool has a byte: 0, or the thread that got it + 1. It is set after an
 * allocation and must have been 0; it is cleared before a free and must have been set.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench_clock.h"
#include "replay_threads.h"

#define SPINS        256u /* looks before the CPU is yielded */
#define YIELDS       64u  /* yields before a thread sleeps */
#define PAGE_BYTES   4096u
#define ZERO_SAMPLES 4u /* words of a frame that are looked at */

/* --- waiting --------------------------------------------------------------------------------- */

/* Once more round a waiting loop: look again soon, then let others run, then leave the CPU to them.
 */
static void relax(uint32_t *spins)
{
    const struct timespec pause = {.tv_nsec = 20000};

    if (++*spins % SPINS != 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    } else if (*spins < SPINS * YIELDS) {
        sched_yield();
    } else {
        nanosleep(&pause, NULL);
    }
}

static bool stopped(const struct replay_run *run)
{
    return atomic_load_explicit(&run->stop, memory_order_relaxed);
}

/* Each of these returns false when the run is stopped. */

/* Waits in the kernel. Asleep is set before turn is read, and turn is set before asleep is read: so
 * either the waiter sees its turn or who passes it on sees the sleeper. */
static void sleep_until_called(struct replay_worker *w, uint32_t op)
{
    atomic_store(&w->asleep, 1);
    if (atomic_load(&w->run->turn) != op && !atomic_load(&w->run->stop))
        syscall(SYS_futex, &w->asleep, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
    atomic_store(&w->asleep, 0);
}

static void call(struct replay_worker *w)
{
    if (!atomic_load(&w->asleep))
        return;
    atomic_store(&w->asleep, 0);
    syscall(SYS_futex, &w->asleep, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void replay_stop(struct replay_run *run)
{
    atomic_store(&run->stop, true);
    for (uint32_t i = 0; i < run->nr_workers; i++)
        call(&run->workers[i]);
}

static bool wait_turn(struct replay_worker *w, uint32_t op)
{
    struct replay_run *run = w->run;
    uint32_t spins = 0;

    while (atomic_load_explicit(&run->turn, memory_order_acquire) != op) {
        if (stopped(run))
            return false;
        if (++spins % run->spins == 0)
            sleep_until_called(w, op);
#if defined(__x86_64__)
        else
            __builtin_ia32_pause();
#endif
    }
    return !stopped(run);
}

static void pass_turn(struct replay_run *run, uint32_t next)
{
    atomic_store(&run->turn, next);
    if (next < run->plan->nr_ops)
        call(&run->workers[run->plan->ops[next].thread]);
}

static bool wait_steps(struct replay_worker *w, const struct replay_op *op)
{
    struct replay_run *run = w->run;
    uint32_t spins = 0;

    while (atomic_load_explicit(&run->slots[op->slot].steps, memory_order_acquire) < op->need) {
        w->counts.waits_block += spins == 0;
        if (stopped(run))
            return false;
        relax(&spins);
    }
    return !stopped(run);
}

static uint32_t furthest_behind(const struct replay_run *run)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < run->nr_workers; i++) {
        uint32_t at = atomic_load_explicit(&run->workers[i].at, memory_order_acquire);

        least = at < least ? at : least;
    }
    return least;
}

static bool too_far_ahead(const struct replay_worker *w, uint32_t index, const struct replay_op *op)
{
    const struct replay_op *ops = w->run->plan->ops;

    return w->slowest < index &&
           op->ahead + (UINT64_C(1) << op->order) - ops[w->slowest].ahead > w->run->slack;
}

static bool wait_memory(struct replay_worker *w, uint32_t index, const struct replay_op *op)
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

static void fault(struct replay_worker *w, const struct replay_op *op)
{
    if (w->counts.fault_line == 0 || op->line < w->counts.fault_line)
        w->counts.fault_line = op->line;
}

bool replay_inside(const struct replay_pool *pool, uint64_t pfn, unsigned int order)
{
    uint64_t at = pfn - pool->first_pfn;

    return at < pool->span && (UINT64_C(1) << order) <= pool->span - at &&
           (pfn & ((UINT64_C(1) << order) - 1)) == 0;
}

void replay_own(struct replay_worker *w, const struct replay_op *op, uint64_t pfn)
{
    struct replay_run *run = w->run;
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

static void disown(struct replay_worker *w, const struct replay_op *op, uint64_t pfn)
{
    struct replay_run *run = w->run;
    uint64_t at = pfn - run->pool->first_pfn, nr = UINT64_C(1) << op->order, bad = 0;

    for (uint64_t i = at; i < at + nr; i++)
        bad += atomic_exchange_explicit(&run->owners[i], 0, memory_order_relaxed) == 0;
    if (bad > 0) {
        w->counts.two_owners += bad;
        fault(w, op);
    }
    atomic_fetch_sub_explicit(&run->live, nr, memory_order_relaxed);
}

/* A few words of each frame must be zero where that was asked for; then they are written, so that
 * only zeroing can make them zero again. */
static void look_and_soil(struct replay_worker *w, const struct replay_op *op, uint64_t pfn)
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

static uint64_t net(const struct replay_worker *w, uint64_t ticks)
{
    return ticks > w->run->overhead ? ticks - w->run->overhead : 0;
}

static void note_failure(struct replay_worker *w, const struct replay_op *op, int64_t error)
{
    w->counts.failures[-error & 31]++;
    if (error != DECKLE_EINVAL && error != DECKLE_E2BIG &&
        (w->counts.failure_line == 0 || op->line < w->counts.failure_line))
        w->counts.failure_line = op->line;
}

/* The call, timed. A request for this node alone was made on a machine where that node had
 * everything, or whose kernel turned elsewhere itself; so does this, where there are several nodes.
 */
static int64_t timed_alloc(struct replay_worker *w, const struct replay_op *op, uint64_t *ticks)
{
    struct deckle *d = w->run->pool->d;
    uint64_t start = bench_clock_start();
    int64_t pfn = deckle_alloc(d, op->gfp, op->order);

    *ticks = net(w, bench_clock_stop() - start);
    if (pfn >= 0 || !(op->gfp & DECKLE_GFP_THISNODE) || w->run->pool->nodes == 1)
        return pfn;
    w->counts.left_node++;
    start = bench_clock_start();
    pfn = deckle_alloc(d, op->gfp & ~DECKLE_GFP_THISNODE, op->order);
    *ticks += net(w, bench_clock_stop() - start);
    return pfn;
}

static void play_alloc(struct replay_worker *w, const struct replay_op *op)
{
    struct replay_run *run = w->run;
    struct replay_live *slot = &run->slots[op->slot];
    uint64_t ticks;
    int64_t pfn = timed_alloc(w, op, &ticks);

    w->counts.allocs++;
    if (pfn < 0) {
        note_failure(w, op, pfn);
    } else if (!replay_inside(run->pool, (uint64_t)pfn, op->order)) {
        w->counts.two_owners++;
        fault(w, op);
        pfn = REPLAY_NO_FRAME;
    } else {
        histogram_add(w->allocs[op->order], ticks);
        replay_own(w, op, (uint64_t)pfn);
        if (run->pool->memory != NULL)
            look_and_soil(w, op, (uint64_t)pfn);
    }
    slot->pfn = pfn < 0 ? REPLAY_NO_FRAME : pfn;
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

static void play_free(struct replay_worker *w, const struct replay_op *op)
{
    struct replay_run *run = w->run;
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

static void play_split(struct replay_worker *w, const struct replay_op *op)
{
    struct replay_live *slot = &w->run->slots[op->slot];

    w->counts.splits++;
    if (slot->pfn >= 0 && deckle_split(w->run->pool->d, (uint64_t)slot->pfn + op->offset,
                                       op->old_order, op->order) != DECKLE_OK) {
        w->counts.refused++;
        fault(w, op);
    }
    atomic_fetch_add_explicit(&slot->steps, 1, memory_order_release);
}

static void play(struct replay_worker *w, const struct replay_op *op)
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

static void play_in_order(struct replay_worker *w)
{
    struct replay_run *run = w->run;

    for (uint32_t i = 0; i < w->column->nr; i++) {
        uint32_t index = w->column->index[i];

        __builtin_prefetch(&run->plan->ops[index]);
        if (!wait_turn(w, index))
            return;
        play(w, &run->plan->ops[index]);
        atomic_store_explicit(&w->done, i + 1, memory_order_relaxed);
        pass_turn(run, index + 1);
    }
}

static void play_freely(struct replay_worker *w)
{
    struct replay_run *run = w->run;

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

void *replay_thread(void *argument)
{
    struct replay_worker *w = argument;
    struct replay_run *run = w->run;
    cpu_set_t set;
    uint32_t spins = 0;

    CPU_ZERO(&set);
    CPU_SET(w->real_cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof(set), &set); /* a wish: any CPU is right */
    while (!atomic_load_explicit(&run->go, memory_order_acquire))
        relax(&spins);
    if (run->options->free_running)
        play_freely(w);
    else
        play_in_order(w);
    atomic_fetch_sub_explicit(&run->running, 1, memory_order_release);
    return NULL;
}
