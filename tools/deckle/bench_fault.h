/* SPDX-License-Identifier: MIT */
/*
 * Parts of the table `fault`: the allocators of one task or of several that share them, and tasks
 * that are processes.
 */
#ifndef DECKLE_TOOLS_BENCH_FAULT_H
#define DECKLE_TOOLS_BENCH_FAULT_H

#include "bench.h"

#define FAULT_PAGES 32768u /* per task: 128 MiB */
#define FAULT_BYTES ((uint64_t)FAULT_PAGES << BENCH_PAGE_SHIFT)

/* The allocators, their memory backed and touched, for nr_tasks tasks of this process on cpus.
 * 0 or an exit status. */
int bench_fault_open(const struct bench *bench, unsigned nr_tasks, enum bench_backing backing,
                     struct bench_set *set);
int bench_fault_close(struct bench_set *set);

/* Measures the lanes of row by processes instead of threads, each with allocators and memory of its
 * own, one on each of the first nr_tasks CPUs. 0 or an exit status. */
int bench_fault_processes(const struct bench *bench, const struct bench_row *row,
                          enum bench_backing backing);

#endif
