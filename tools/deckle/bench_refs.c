/* SPDX-License-Identifier: MIT */
/*
 * The references `floor` and `lock` (bench_refs.h). Not inlined anywhere: the callers are in other
 * translation units.
 */
#include "bench_refs.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

uint64_t bench_stock_frames(const struct bench_stock *stock, unsigned nr_cpus)
{
    uint64_t frames = 0;

    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++)
        frames += ((uint64_t)stock->blocks[order] * nr_cpus) << order;
    return frames;
}

/* ---- floor ----------------------------------------------------------------------------------- */

int64_t bench_floor_alloc(void *unused, uint32_t gfp, uint32_t order)
{
    (void)unused;
    (void)gfp;
    return (int64_t)order;
}

int bench_floor_free(void *unused, uint64_t pfn, uint32_t order)
{
    (void)unused;
    (void)order;
    return (int)(pfn & 0);
}

int64_t bench_floor_alloc_bulk(void *unused, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    (void)unused;
    (void)gfp;
    (void)pfns;
    return (int64_t)nr;
}

size_t bench_floor_free_bulk(void *unused, const uint64_t *pfns, size_t nr)
{
    (void)unused;
    (void)pfns;
    return nr;
}

/* ---- lock ------------------------------------------------------------------------------------ */

struct lock_stack {
    uint64_t *entries;
    size_t count, room;
};

struct bench_lock {
    atomic_uint held;
    _Alignas(64) struct lock_stack stacks[BENCH_NR_ORDERS];
};

static void lock_acquire(struct bench_lock *lock)
{
    while (atomic_exchange_explicit(&lock->held, 1, memory_order_acquire) != 0)
        while (atomic_load_explicit(&lock->held, memory_order_relaxed) != 0)
            continue;
}

static void lock_release(struct bench_lock *lock)
{
    atomic_store_explicit(&lock->held, 0, memory_order_release);
}

int64_t bench_lock_alloc(void *ctx, uint32_t gfp, uint32_t order)
{
    struct bench_lock *lock = ctx;
    struct lock_stack *stack = &lock->stacks[order];
    int64_t pfn = -1;

    (void)gfp;
    lock_acquire(lock);
    if (stack->count > 0)
        pfn = (int64_t)stack->entries[--stack->count];
    lock_release(lock);
    return pfn;
}

int bench_lock_free(void *ctx, uint64_t pfn, uint32_t order)
{
    struct bench_lock *lock = ctx;
    struct lock_stack *stack = &lock->stacks[order];
    int result = -1;

    lock_acquire(lock);
    if (stack->count < stack->room) {
        stack->entries[stack->count++] = pfn;
        result = 0;
    }
    lock_release(lock);
    return result;
}

int64_t bench_lock_alloc_bulk(void *ctx, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    struct bench_lock *lock = ctx;
    struct lock_stack *stack = &lock->stacks[0];

    (void)gfp;
    lock_acquire(lock);
    if (nr > stack->count)
        nr = stack->count;
    stack->count -= nr;
    memcpy(pfns, stack->entries + stack->count, nr * sizeof(pfns[0]));
    lock_release(lock);
    return (int64_t)nr;
}

size_t bench_lock_free_bulk(void *ctx, const uint64_t *pfns, size_t nr)
{
    struct bench_lock *lock = ctx;
    struct lock_stack *stack = &lock->stacks[0];

    lock_acquire(lock);
    if (nr > stack->room - stack->count)
        nr = stack->room - stack->count;
    memcpy(stack->entries + stack->count, pfns, nr * sizeof(pfns[0]));
    stack->count += nr;
    lock_release(lock);
    return nr;
}

struct bench_lock *bench_lock_create(const struct bench_stock *stock, unsigned nr_cpus)
{
    struct bench_lock *lock = aligned_alloc(_Alignof(struct bench_lock), sizeof(*lock));
    uint64_t pfn = stock->first_pfn;

    if (lock == NULL)
        return NULL;
    memset(lock, 0, sizeof(*lock));
    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++) {
        struct lock_stack *stack = &lock->stacks[order];

        stack->room = (size_t)stock->blocks[order] * nr_cpus;
        stack->entries = malloc((stack->room + 1) * sizeof(stack->entries[0]));
        if (stack->entries == NULL) {
            bench_lock_destroy(lock);
            return NULL;
        }
        for (; stack->count < stack->room; pfn += UINT64_C(1) << order)
            stack->entries[stack->count++] = pfn;
    }
    return lock;
}

void bench_lock_destroy(struct bench_lock *lock)
{
    if (lock == NULL)
        return;
    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++)
        free(lock->stacks[order].entries);
    free(lock);
}
