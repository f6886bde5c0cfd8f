/* SPDX-License-Identifier: MIT */
/*
 * Threads that stay on one CPU each and start together, and what it costs to move a cache line
 * between two of them.
 */
#ifndef DECKLE_TOOLS_BENCH_RUN_H
#define DECKLE_TOOLS_BENCH_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A meeting point: all threads of a run leave it together. */
struct bench_barrier {
    _Alignas(64) atomic_uint arrived;
    unsigned expected;
};

void bench_barrier_wait(struct bench_barrier *barrier);

/* The CPU ids that this process may use; returns how many (0 only on an error of the system), at
 * most `most`. */
unsigned bench_allowed_cpus(unsigned *cpus, unsigned most);

struct bench_crew;

/* One thread for each CPU, bound to it. NULL with a message when that fails. */
struct bench_crew *bench_crew_create(const unsigned *cpus, unsigned nr_cpus);
void bench_crew_destroy(struct bench_crew *crew);

/* Each of the first nr_threads threads calls work once; returns when all have. work does what must
 * come before, meets the others at start, then measures. */
typedef void bench_work_fn(void *arg, unsigned thread, struct bench_barrier *start);
void bench_crew_run(struct bench_crew *crew, unsigned nr_threads, bench_work_fn *work, void *arg);

/* Ticks for a cache line to get from the first thread's CPU to the second's (minimum of several
 * runs; half a round trip). */
double bench_crew_hop(struct bench_crew *crew);

#endif
