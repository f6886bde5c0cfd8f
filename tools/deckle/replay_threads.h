/* SPDX-License-Identifier: MIT */
/*
 * What the two halves of a run share: the threads (replay_threads.c) and what surrounds them
 * (replay_run.c).
 */
#ifndef DECKLE_TOOLS_REPLAY_THREADS_H
#define DECKLE_TOOLS_REPLAY_THREADS_H

#include <pthread.h>

#include "replay.h"

#define REPLAY_LINE     64u         /* bytes that are kept apart from what others write */
#define REPLAY_NO_FRAME INT64_C(-1) /* no block: the allocation failed */

/* Where a block of the trace lies, and how many steps it has done. */
struct replay_live {
    int64_t pfn; /* written before steps becomes 1, then constant until the next round */
    _Atomic uint32_t steps;
};

struct replay_run;

struct replay_worker {
    _Alignas(
        REPLAY_LINE) _Atomic uint32_t at; /* operation it is at; UINT32_MAX when it is through */
    _Atomic uint32_t done;                /* operations of this round */
    _Atomic uint32_t asleep;              /* it waits for its turn in the kernel */
    _Alignas(REPLAY_LINE) struct replay_run *run;
    const struct replay_column *column;
    uint32_t number, real_cpu;
    uint32_t slowest; /* what the furthest behind was when last looked */
    struct replay_counts counts;
    struct histogram *allocs[REPLAY_NR_ORDERS], *frees[REPLAY_NR_ORDERS];
    pthread_t thread;
};

struct replay_run {
    _Alignas(REPLAY_LINE) _Atomic uint32_t turn;
    _Alignas(REPLAY_LINE) _Atomic uint64_t live; /* frames */
    _Alignas(REPLAY_LINE) _Atomic bool go;
    _Atomic bool stop;
    _Atomic uint32_t running;
    const struct replay_plan *plan;
    struct replay_pool *pool;
    const struct replay_options *options;
    const char *name;
    uint32_t spins;    /* looks at the turn before a thread sleeps */
    uint64_t overhead; /* ticks of reading the clock */
    uint64_t slack;    /* frames that a free-running thread may be ahead */
    struct replay_live *slots;
    _Atomic uint8_t *owners;
    struct replay_worker *workers;
    uint32_t nr_workers;
};

/* A thread's life: waits for run->go, plays its operations, counts itself out of run->running. */
void *replay_thread(void *worker);
/* Ends the run early: every thread stops before its next operation. May be called again. */
void replay_stop(struct replay_run *run);

/* Does the block lie in the pool, aligned? */
bool replay_inside(const struct replay_pool *pool, uint64_t pfn, unsigned int order);
/* The frames of op->order from pfn on have been given to this thread. */
void replay_own(struct replay_worker *w, const struct replay_op *op, uint64_t pfn);

#endif
