/* SPDX-License-Identifier: MIT */
/*
 * The reference `limit` (bench_refs.h): per CPU and order one array stack, entered by restartable
 * sequences or, without them, owned by a thread.
 *
 * All stacks of one order lie `cpu_stride` apart and those of one CPU `order_stride`, so that the
 * place of a stack is two multiplications. Every stack has room for all blocks of its order: frees
 * may all come to one CPU.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_refs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench_rseq.h"

#define LIMIT_EXCHANGE    64u  /* entries that move between a CPU's stack and the shared one */
#define LIMIT_SHARED_HIGH 512u /* what a CPU's stack holds then */
#define LIMIT_EMPTY       (-1) /* a frame that is not there; any negative number serves */

struct limit_stack {
    uint64_t count;
    uint64_t entries[];
};

struct bench_limit {
    char *stacks; /* of CPU c and order o: at c * cpu_stride + o * order_stride */
    char *shared; /* of order o: at o * order_stride; NULL = none */
    uint64_t cpu_stride, order_stride;
    int64_t rseq_offset;
    uint64_t high; /* what a CPU's stack may hold */
    size_t stacks_bytes, shared_bytes;
    _Alignas(64) atomic_uint lock; /* of all shared stacks */
};

static _Thread_local unsigned limit_cpu;

static struct limit_stack *limit_stack_at(char *base, uint64_t offset)
{
    return (struct limit_stack *)(void *)(base + offset);
}

/* ---- the shared stock ------------------------------------------------------------------------ */

static void limit_acquire(struct bench_limit *limit)
{
    while (atomic_exchange_explicit(&limit->lock, 1, memory_order_acquire) != 0)
        while (atomic_load_explicit(&limit->lock, memory_order_relaxed) != 0)
            continue;
}

static void limit_release(struct bench_limit *limit)
{
    atomic_store_explicit(&limit->lock, 0, memory_order_release);
}

/* All nr entries or, with partly, as many as there are. */
static size_t limit_take(struct bench_limit *limit, uint32_t order, uint64_t *entries, size_t nr,
                         bool partly)
{
    struct limit_stack *from;

    if (limit->shared == NULL)
        return 0;
    from = limit_stack_at(limit->shared, order * limit->order_stride);
    limit_acquire(limit);
    if (nr > from->count)
        nr = partly ? from->count : 0;
    from->count -= nr;
    memcpy(entries, &from->entries[from->count], nr * sizeof(entries[0]));
    limit_release(limit);
    return nr;
}

static size_t limit_give(struct bench_limit *limit, uint32_t order, const uint64_t *entries,
                         size_t nr)
{
    struct limit_stack *to;

    if (limit->shared == NULL)
        return 0;
    to = limit_stack_at(limit->shared, order * limit->order_stride);
    limit_acquire(limit);
    memcpy(&to->entries[to->count], entries, nr * sizeof(entries[0]));
    to->count += nr;
    limit_release(limit);
    return nr;
}

/* ---- one attempt on one CPU's stack ---------------------------------------------------------- */

enum limit_result { LIMIT_DONE, LIMIT_AGAIN, LIMIT_END };

#define LIMIT_INLINE static inline __attribute__((always_inline))

#if BENCH_HAVE_RSEQ
LIMIT_INLINE struct bench_rseq_stacks limit_stacks(const struct bench_limit *limit, uint32_t order)
{
    struct bench_rseq_stacks stacks = {.base = limit->stacks + order * limit->order_stride,
                                       .stride = limit->cpu_stride,
                                       .offset = limit->rseq_offset};

    return stacks;
}
#endif

LIMIT_INLINE struct limit_stack *limit_mine(const struct bench_limit *limit, uint32_t order)
{
    return limit_stack_at(limit->stacks,
                          limit_cpu * limit->cpu_stride + order * limit->order_stride);
}

LIMIT_INLINE enum limit_result limit_pop(struct bench_limit *limit, uint32_t order,
                                         uint64_t *entries, size_t nr, bool rseq)
{
    struct limit_stack *stack;

#if BENCH_HAVE_RSEQ
    if (rseq) {
        struct bench_rseq_stacks stacks = limit_stacks(limit, order);

        return (enum limit_result)(nr == 1 ? bench_rseq_pop(&stacks, entries)
                                           : bench_rseq_pop_bulk(&stacks, entries, nr));
    }
#endif
    (void)rseq;
    stack = limit_mine(limit, order);
    if (stack->count < nr)
        return LIMIT_END;
    stack->count -= nr;
    memcpy(entries, &stack->entries[stack->count], nr * sizeof(entries[0]));
    return LIMIT_DONE;
}

LIMIT_INLINE enum limit_result limit_push(struct bench_limit *limit, uint32_t order,
                                          const uint64_t *entries, size_t nr, bool rseq)
{
    struct limit_stack *stack;

#if BENCH_HAVE_RSEQ
    if (rseq) {
        struct bench_rseq_stacks stacks = limit_stacks(limit, order);

        return (enum limit_result)(nr == 1
                                       ? bench_rseq_push(&stacks, entries[0], limit->high)
                                       : bench_rseq_push_bulk(&stacks, entries, nr, limit->high));
    }
#endif
    (void)rseq;
    stack = limit_mine(limit, order);
    if (stack->count + nr > limit->high)
        return LIMIT_END;
    memcpy(&stack->entries[stack->count], entries, nr * sizeof(entries[0]));
    stack->count += nr;
    return LIMIT_DONE;
}

/* ---- the calls ------------------------------------------------------------------------------- */

static __attribute__((noinline)) int64_t limit_refill(struct bench_limit *limit, uint32_t order,
                                                      bool rseq)
{
    uint64_t taken[LIMIT_EXCHANGE];
    size_t nr = limit_take(limit, order, taken, LIMIT_EXCHANGE, true);
    enum limit_result result = LIMIT_AGAIN;

    if (nr == 0)
        return LIMIT_EMPTY;
    nr--;
    while (nr > 0 && result == LIMIT_AGAIN)
        result = limit_push(limit, order, taken, nr, rseq);
    if (nr > 0 && result == LIMIT_END) /* moved to a CPU whose stack is full */
        limit_give(limit, order, taken, nr);
    return (int64_t)taken[nr];
}

static __attribute__((noinline)) int limit_spill(struct bench_limit *limit, uint64_t pfn,
                                                 uint32_t order, bool rseq)
{
    uint64_t given[LIMIT_EXCHANGE];
    enum limit_result result = LIMIT_AGAIN;
    size_t nr = 1;

    given[0] = pfn;
    while (result == LIMIT_AGAIN)
        result = limit_pop(limit, order, given + 1, LIMIT_EXCHANGE - 1, rseq);
    if (result == LIMIT_DONE)
        nr = LIMIT_EXCHANGE;
    return limit_give(limit, order, given, nr) == nr ? 0 : -1;
}

LIMIT_INLINE int64_t limit_alloc(struct bench_limit *limit, uint32_t order, bool rseq)
{
    uint64_t pfn;
    enum limit_result result;

    do
        result = limit_pop(limit, order, &pfn, 1, rseq);
    while (__builtin_expect(result == LIMIT_AGAIN, 0));
    if (__builtin_expect(result == LIMIT_DONE, 1))
        return (int64_t)pfn;
    return limit_refill(limit, order, rseq);
}

LIMIT_INLINE int limit_free(struct bench_limit *limit, uint64_t pfn, uint32_t order, bool rseq)
{
    enum limit_result result;

    do
        result = limit_push(limit, order, &pfn, 1, rseq);
    while (__builtin_expect(result == LIMIT_AGAIN, 0));
    if (__builtin_expect(result == LIMIT_DONE, 1))
        return 0;
    return limit_spill(limit, pfn, order, rseq);
}

LIMIT_INLINE int64_t limit_alloc_bulk(struct bench_limit *limit, uint64_t *pfns, size_t nr,
                                      bool rseq)
{
    enum limit_result result;

    do
        result = limit_pop(limit, 0, pfns, nr, rseq);
    while (result == LIMIT_AGAIN);
    if (result == LIMIT_DONE)
        return (int64_t)nr;
    return (int64_t)limit_take(limit, 0, pfns, nr, false);
}

LIMIT_INLINE size_t limit_free_bulk(struct bench_limit *limit, const uint64_t *pfns, size_t nr,
                                    bool rseq)
{
    enum limit_result result;

    do
        result = limit_push(limit, 0, pfns, nr, rseq);
    while (result == LIMIT_AGAIN);
    if (result == LIMIT_DONE)
        return nr;
    return limit_give(limit, 0, pfns, nr);
}

int64_t bench_limit_alloc(void *limit, uint32_t gfp, uint32_t order)
{
    (void)gfp;
    return limit_alloc(limit, order, true);
}

int bench_limit_free(void *limit, uint64_t pfn, uint32_t order)
{
    return limit_free(limit, pfn, order, true);
}

int64_t bench_limit_alloc_bulk(void *limit, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    (void)gfp;
    return limit_alloc_bulk(limit, pfns, nr, true);
}

size_t bench_limit_free_bulk(void *limit, const uint64_t *pfns, size_t nr)
{
    return limit_free_bulk(limit, pfns, nr, true);
}

int64_t bench_thread_alloc(void *limit, uint32_t gfp, uint32_t order)
{
    (void)gfp;
    return limit_alloc(limit, order, false);
}

int bench_thread_free(void *limit, uint64_t pfn, uint32_t order)
{
    return limit_free(limit, pfn, order, false);
}

int64_t bench_thread_alloc_bulk(void *limit, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    (void)gfp;
    return limit_alloc_bulk(limit, pfns, nr, false);
}

size_t bench_thread_free_bulk(void *limit, const uint64_t *pfns, size_t nr)
{
    return limit_free_bulk(limit, pfns, nr, false);
}

/* ---- life ------------------------------------------------------------------------------------ */

bool bench_limit_has_rseq(void)
{
#if BENCH_HAVE_RSEQ
    return __rseq_size > 0;
#else
    return false;
#endif
}

void bench_limit_attach(unsigned cpu)
{
    limit_cpu = cpu;
}

/* Blocks of each order to the stacks: of each CPU in turn, or all to the shared ones. */
static void limit_fill(struct bench_limit *limit, const struct bench_stock *stock,
                       const unsigned *cpus, unsigned nr_cpus)
{
    uint64_t pfn = stock->first_pfn;

    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++) {
        for (unsigned i = 0; i < nr_cpus; i++) {
            uint64_t cpu_offset = limit->shared != NULL ? 0 : cpus[i] * limit->cpu_stride;
            char *base = limit->shared != NULL ? limit->shared : limit->stacks;
            struct limit_stack *stack =
                limit_stack_at(base, cpu_offset + order * limit->order_stride);

            for (uint32_t block = 0; block < stock->blocks[order]; block++) {
                stack->entries[stack->count++] = pfn;
                pfn += UINT64_C(1) << order;
            }
        }
    }
}

static void *limit_map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

struct bench_limit *bench_limit_create(const struct bench_stock *stock, const unsigned *cpus,
                                       unsigned nr_cpus, bool shared)
{
    struct bench_limit *limit = aligned_alloc(_Alignof(struct bench_limit), sizeof(*limit));
    uint32_t most = 0;
    unsigned highest = 0;

    if (limit == NULL)
        return NULL;
    memset(limit, 0, sizeof(*limit));
    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++)
        most = stock->blocks[order] > most ? stock->blocks[order] : most;
    for (unsigned i = 0; i < nr_cpus; i++)
        highest = cpus[i] > highest ? cpus[i] : highest;

    limit->high = shared ? LIMIT_SHARED_HIGH : (uint64_t)most * nr_cpus;
    limit->order_stride = ((uint64_t)most * nr_cpus + 1) * sizeof(uint64_t);
    /* Odd multiples of a line keep the counts of the orders out of one set of the L1 cache. */
    limit->order_stride = ((limit->order_stride + 63) / 64 | 1) * 64;
    limit->cpu_stride = (limit->order_stride * BENCH_NR_ORDERS + 4095) / 4096 * 4096;
    limit->stacks_bytes = limit->cpu_stride * (highest + 1);
    limit->shared_bytes = shared ? limit->cpu_stride : 0;
#if BENCH_HAVE_RSEQ
    limit->rseq_offset = __rseq_offset;
#endif
    limit->stacks = limit_map(limit->stacks_bytes);
    if (shared)
        limit->shared = limit_map(limit->shared_bytes);
    if (limit->stacks == NULL || (shared && limit->shared == NULL)) {
        bench_limit_destroy(limit);
        return NULL;
    }
    limit_fill(limit, stock, cpus, nr_cpus);
    return limit;
}

void bench_limit_destroy(struct bench_limit *limit)
{
    if (limit == NULL)
        return;
    if (limit->stacks != NULL)
        munmap(limit->stacks, limit->stacks_bytes);
    if (limit->shared != NULL)
        munmap(limit->shared, limit->shared_bytes);
    free(limit);
}
