/* SPDX-License-Identifier: MIT */
/*
 * What Deckle is compared with in every run. Each reference has the calls of the library, in a
 * translation unit of its own, so that it pays for real calls as a user of the library does:
 *
 *   floor   functions that return their argument: the cost of the loop and of the calls alone
 *   limit   one array stack of frame numbers per CPU and order, entered by a restartable sequence:
 *           no checks, no coalescing, no statistics. What a per-CPU cache can cost at the least.
 *           With a shared stock, a CPU's stack holds at most 512 and exchanges 64 at a time with
 * one stack under one lock, as any allocator must whose memory is to be usable on every CPU. lock
 * one array stack per order, all under one spin lock
 *
 * Where restartable sequences are missing (not x86-64, no glibc 2.35, switched off) the calls
 * bench_thread_* stand in for bench_limit_*: the same stacks, each owned by a pinned thread.
 *
 * A reference deals in numbers only; it never touches a frame.
 */
#ifndef DECKLE_TOOLS_BENCH_REFS_H
#define DECKLE_TOOLS_BENCH_REFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_NR_ORDERS 11u /* orders 0 … 10 */

/* Blocks that a reference owns at the start: blocks[o] of order o for every CPU, numbered from
 * first_pfn upwards, orders in turn. */
struct bench_stock {
    uint64_t first_pfn;
    uint32_t blocks[BENCH_NR_ORDERS];
};

struct bench_limit;
struct bench_lock;

/* Frames that a stock covers for nr_cpus CPUs. */
uint64_t bench_stock_frames(const struct bench_stock *stock, unsigned nr_cpus);

/* Whether restartable sequences can be used by threads of this process. */
bool bench_limit_has_rseq(void);

/* cpus: ids of the CPUs that will be used. shared: see above. NULL when there is no memory. */
struct bench_limit *bench_limit_create(const struct bench_stock *stock, const unsigned *cpus,
                                       unsigned nr_cpus, bool shared);
void bench_limit_destroy(struct bench_limit *limit);

/* For bench_thread_*: the calling thread owns the stacks of this CPU id from now on. */
void bench_limit_attach(unsigned cpu);

struct bench_lock *bench_lock_create(const struct bench_stock *stock, unsigned nr_cpus);
void bench_lock_destroy(struct bench_lock *lock);

/* The calls. Results as those of the library: a frame or a negative error, 0, a number of frames.
 * Their place in memory is fixed modulo 32 bytes: branch predictors make a difference of one core
 * cycle between placements of the very same code. */
#define BENCH_CALL __attribute__((aligned(32)))

BENCH_CALL int64_t bench_floor_alloc(void *unused, uint32_t gfp, uint32_t order);
BENCH_CALL int bench_floor_free(void *unused, uint64_t pfn, uint32_t order);
BENCH_CALL int64_t bench_floor_alloc_bulk(void *unused, uint32_t gfp, uint64_t *pfns, size_t nr);
BENCH_CALL size_t bench_floor_free_bulk(void *unused, const uint64_t *pfns, size_t nr);

BENCH_CALL int64_t bench_limit_alloc(void *limit, uint32_t gfp, uint32_t order);
BENCH_CALL int bench_limit_free(void *limit, uint64_t pfn, uint32_t order);
BENCH_CALL int64_t bench_limit_alloc_bulk(void *limit, uint32_t gfp, uint64_t *pfns, size_t nr);
BENCH_CALL size_t bench_limit_free_bulk(void *limit, const uint64_t *pfns, size_t nr);

BENCH_CALL int64_t bench_thread_alloc(void *limit, uint32_t gfp, uint32_t order);
BENCH_CALL int bench_thread_free(void *limit, uint64_t pfn, uint32_t order);
BENCH_CALL int64_t bench_thread_alloc_bulk(void *limit, uint32_t gfp, uint64_t *pfns, size_t nr);
BENCH_CALL size_t bench_thread_free_bulk(void *limit, const uint64_t *pfns, size_t nr);

BENCH_CALL int64_t bench_lock_alloc(void *lock, uint32_t gfp, uint32_t order);
BENCH_CALL int bench_lock_free(void *lock, uint64_t pfn, uint32_t order);
BENCH_CALL int64_t bench_lock_alloc_bulk(void *lock, uint32_t gfp, uint64_t *pfns, size_t nr);
BENCH_CALL size_t bench_lock_free_bulk(void *lock, const uint64_t *pfns, size_t nr);

#endif
