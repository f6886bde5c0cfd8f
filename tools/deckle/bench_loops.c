/* SPDX-License-Identifier: MIT */
/*
 * The timed loops (bench_loops.h).
 *
 * The functions named loop_… take the allocator's calls as arguments and are always inlined into an
 * instance where these are constants: the compiler emits direct calls. What a loop does besides the
 * calls (an index, a test of the result, a store into the array) is the same for all allocators,
 * and the reference `floor` shows its cost.
 */
#include "bench_loops.h"

#include <deckle.h>
#include <stdbool.h>

#include "bench_clock.h"
#include "bench_module.h"
#include "bench_peer.h"
#include "bench_refs.h"

#define LOOP static inline __attribute__((always_inline))

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define FREE_BATCH 512u          /* what the kernel's unmap path frees at once */
#define BAD_COUNT  DECKLE_ENOMEM /* a bulk call that did less than it was asked for */

typedef int64_t alloc_fn(void *ctx, uint32_t gfp, uint32_t order);
typedef int free_fn(void *ctx, uint64_t pfn, uint32_t order);
typedef int64_t alloc_bulk_fn(void *ctx, uint32_t gfp, uint64_t *pfns, size_t nr);
typedef size_t free_bulk_fn(void *ctx, const uint64_t *pfns, size_t nr);

/* ---- Deckle behind the calls of the references ----------------------------------------------- */

LOOP int64_t call_deckle_alloc(void *d, uint32_t gfp, uint32_t order)
{
    return deckle_alloc(d, gfp, order);
}

LOOP int call_deckle_free(void *d, uint64_t pfn, uint32_t order)
{
    return deckle_free(d, pfn, order);
}

LOOP int64_t call_deckle_alloc_bulk(void *d, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    return deckle_alloc_bulk(d, gfp, pfns, nr);
}

LOOP size_t call_deckle_free_bulk(void *d, const uint64_t *pfns, size_t nr)
{
    return deckle_free_bulk(d, pfns, nr);
}

/* ---- a library's malloc and free; ctx: struct bench_peer_calls ---------------------------------
 */

LOOP int64_t call_peer_alloc(void *ctx, uint32_t gfp, uint32_t order)
{
    const struct bench_peer_calls *calls = ctx;
    void *block = calls->alloc((size_t)4096 << order);

    (void)gfp;
    return UNLIKELY(block == NULL) ? DECKLE_ENOMEM : (int64_t)(uintptr_t)block;
}

LOOP int call_peer_free(void *ctx, uint64_t block, uint32_t order)
{
    const struct bench_peer_calls *calls = ctx;

    (void)order;
    calls->release((void *)(uintptr_t)block);
    return 0;
}

LOOP int64_t call_peer_alloc_bulk(void *ctx, uint32_t gfp, uint64_t *blocks, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        int64_t block = call_peer_alloc(ctx, gfp, 0);

        if (UNLIKELY(block < 0))
            return (int64_t)i;
        blocks[i] = (uint64_t)block;
    }
    return (int64_t)nr;
}

LOOP size_t call_peer_free_bulk(void *ctx, const uint64_t *blocks, size_t nr)
{
    for (size_t i = 0; i < nr; i++)
        call_peer_free(ctx, blocks[i], 0);
    return nr;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* nr blocks one by one. On failure those already taken go back. */
LOOP int take(const struct bench_job *job, size_t nr, alloc_fn *alloc, free_fn *release)
{
    for (size_t i = 0; i < nr; i++) {
        int64_t pfn = alloc(job->ctx, job->gfp, job->order);

        if (UNLIKELY(pfn < 0)) {
            while (i > 0)
                release(job->ctx, job->pfns[--i], job->order);
            return (int)pfn;
        }
        job->pfns[i] = (uint64_t)pfn;
    }
    return 0;
}

/* All are attempted; the first error counts. */
LOOP int give(const struct bench_job *job, size_t nr, free_fn *release)
{
    int error = 0;

    for (size_t i = 0; i < nr; i++) {
        int result = release(job->ctx, job->pfns[i], job->order);

        if (UNLIKELY(result != 0) && error == 0)
            error = result;
    }
    return error;
}

/* Bulk requests fill holes: the array must consist of them. Outside the timed parts. */
LOOP void make_holes(const struct bench_job *job)
{
    for (size_t i = 0; i < job->nr; i++)
        job->pfns[i] = DECKLE_NO_PFN;
}

/* The result of a bulk request as an error; a short one goes back. */
LOOP int check_bulk(const struct bench_job *job, int64_t got, free_bulk_fn *free_bulk)
{
    if (UNLIKELY(got != (int64_t)job->nr)) {
        if (got > 0)
            free_bulk(job->ctx, job->pfns, (size_t)got);
        return got < 0 ? (int)got : BAD_COUNT;
    }
    return 0;
}

LOOP int take_bulk(const struct bench_job *job, alloc_bulk_fn *alloc_bulk, free_bulk_fn *free_bulk,
                   uint64_t *ticks)
{
    uint64_t start;
    int64_t got;

    make_holes(job);
    start = bench_clock_start();
    got = alloc_bulk(job->ctx, job->gfp, job->pfns, job->nr);
    *ticks += bench_clock_stop() - start;
    return check_bulk(job, got, free_bulk);
}

/* The holes belong to it: where frames are handed on, the array is a new one each time. */
LOOP int take_holes(const struct bench_job *job, alloc_bulk_fn *alloc_bulk, free_bulk_fn *free_bulk)
{
    make_holes(job);
    return check_bulk(job, alloc_bulk(job->ctx, job->gfp, job->pfns, job->nr), free_bulk);
}

/* ---- the loops ------------------------------------------------------------------------------- */

LOOP int loop_pairs(const struct bench_job *job, alloc_fn *alloc, free_fn *release)
{
    void *ctx = job->ctx;
    uint32_t gfp = job->gfp, order = job->order;

    for (uint64_t i = job->loops; i > 0; i--) {
        int64_t pfn = alloc(ctx, gfp, order);
        int result;

        if (UNLIKELY(pfn < 0))
            return (int)pfn;
        result = release(ctx, (uint64_t)pfn, order);
        if (UNLIKELY(result != 0))
            return result;
    }
    return 0;
}

LOOP int loop_rounds(const struct bench_job *job, alloc_fn *alloc, free_fn *release)
{
    int error = 0;

    for (uint64_t i = job->loops; i > 0 && error == 0; i--) {
        error = take(job, job->nr, alloc, release);
        if (error == 0)
            error = give(job, job->nr, release);
    }
    return error;
}

LOOP int loop_batch(const struct bench_job *job, struct bench_split *split, alloc_fn *alloc,
                    free_fn *release)
{
    int error = 0;

    for (uint64_t i = job->loops; i > 0 && error == 0; i--) {
        uint64_t start = bench_clock_start();

        error = take(job, job->nr, alloc, release);
        split->alloc += bench_clock_stop() - start;
        if (error != 0)
            break;
        start = bench_clock_start();
        error = give(job, job->nr, release);
        split->free += bench_clock_stop() - start;
    }
    return error;
}

LOOP int loop_batch_compat(const struct bench_job *job, struct bench_split *split, alloc_fn *alloc,
                           free_fn *release)
{
    int error = 0;

    for (uint64_t i = job->loops; i > 0 && error == 0; i--) {
        uint64_t start = bench_clock_loose();

        error = take(job, job->nr + 1, alloc, release);
        split->alloc += bench_clock_loose() - start;
        if (error != 0)
            break;
        start = bench_clock_loose();
        error = give(job, job->nr + 1, release);
        split->free += bench_clock_loose() - start;
    }
    return error;
}

LOOP int loop_bulk(const struct bench_job *job, struct bench_split *split,
                   alloc_bulk_fn *alloc_bulk, free_bulk_fn *free_bulk)
{
    for (uint64_t i = job->loops; i > 0; i--) {
        int error = take_bulk(job, alloc_bulk, free_bulk, &split->alloc);
        uint64_t start;
        size_t freed;

        if (error != 0)
            return error;
        start = bench_clock_start();
        freed = free_bulk(job->ctx, job->pfns, job->nr);
        split->free += bench_clock_stop() - start;
        if (UNLIKELY(freed != job->nr))
            return DECKLE_EBADFREE;
    }
    return 0;
}

LOOP int loop_bulk_singly(const struct bench_job *job, struct bench_split *split, free_fn *release,
                          alloc_bulk_fn *alloc_bulk, free_bulk_fn *free_bulk)
{
    int error = 0;

    for (uint64_t i = job->loops; i > 0 && error == 0; i--) {
        uint64_t start;

        error = take_bulk(job, alloc_bulk, free_bulk, &split->alloc);
        if (error != 0)
            break;
        start = bench_clock_start();
        error = give(job, job->nr, release);
        split->free += bench_clock_stop() - start;
    }
    return error;
}

LOOP int touch_all(const struct bench_job *job, alloc_fn *alloc, free_bulk_fn *free_bulk)
{
    for (size_t i = 0; i < job->nr; i++) {
        int64_t pfn = alloc(job->ctx, job->gfp, 0);
        uint64_t frame;

        if (UNLIKELY(pfn < 0)) {
            free_bulk(job->ctx, job->pfns, i);
            return (int)pfn;
        }
        job->pfns[i] = (uint64_t)pfn;
        frame = (uint64_t)pfn - job->first_pfn;
        *(volatile char *)(job->memory + (frame << job->page_shift)) = 1;
    }
    return 0;
}

LOOP int loop_touch(const struct bench_job *job, alloc_fn *alloc, free_bulk_fn *free_bulk)
{
    for (uint64_t i = job->loops; i > 0; i--) {
        int error = touch_all(job, alloc, free_bulk);

        if (error != 0)
            return error;
        for (size_t done = 0; done < job->nr; done += FREE_BATCH) {
            size_t nr = job->nr - done < FREE_BATCH ? job->nr - done : FREE_BATCH;

            if (UNLIKELY(free_bulk(job->ctx, job->pfns + done, nr) != nr))
                return DECKLE_EBADFREE;
        }
    }
    return 0;
}

/* ---- from one CPU to another ----------------------------------------------------------------- */

/* The slot to fill next; NULL: the other side has failed. */
LOOP uint64_t *ring_room(struct bench_ring *ring, uint64_t at)
{
    while (at - ring->emptied_seen == BENCH_RING_SLOTS) {
        ring->emptied_seen = atomic_load_explicit(&ring->emptied, memory_order_acquire);
        if (UNLIKELY(atomic_load_explicit(&ring->error, memory_order_relaxed) != 0))
            return NULL;
    }
    return ring->slots[at % BENCH_RING_SLOTS];
}

LOOP uint64_t *ring_next(struct bench_ring *ring, uint64_t at)
{
    while (at == ring->filled_seen) {
        ring->filled_seen = atomic_load_explicit(&ring->filled, memory_order_acquire);
        if (UNLIKELY(atomic_load_explicit(&ring->error, memory_order_relaxed) != 0))
            return NULL;
    }
    return ring->slots[at % BENCH_RING_SLOTS];
}

LOOP int ring_fail(struct bench_ring *ring, int error)
{
    atomic_store_explicit(&ring->error, error, memory_order_relaxed);
    return error;
}

LOOP int loop_produce(const struct bench_job *job, bool bulk, alloc_fn *alloc, free_fn *release,
                      alloc_bulk_fn *alloc_bulk, free_bulk_fn *free_bulk)
{
    struct bench_ring *ring = job->ring;
    struct bench_job batch = *job;
    uint64_t at = atomic_load_explicit(&ring->filled, memory_order_relaxed);

    for (uint64_t i = job->loops; i > 0; i--, at++) {
        int error = 0;

        batch.pfns = ring_room(ring, at);
        if (batch.pfns == NULL)
            return atomic_load_explicit(&ring->error, memory_order_relaxed);
        error = bulk ? take_holes(&batch, alloc_bulk, free_bulk)
                     : take(&batch, job->nr, alloc, release);
        if (UNLIKELY(error != 0))
            return ring_fail(ring, error);
        atomic_store_explicit(&ring->filled, at + 1, memory_order_release);
    }
    return 0;
}

LOOP int loop_consume(const struct bench_job *job, bool bulk, free_fn *release,
                      free_bulk_fn *free_bulk)
{
    struct bench_ring *ring = job->ring;
    struct bench_job batch = *job;
    uint64_t at = atomic_load_explicit(&ring->emptied, memory_order_relaxed);

    for (uint64_t i = job->loops; i > 0; i--, at++) {
        int error = 0;

        batch.pfns = ring_next(ring, at);
        if (batch.pfns == NULL)
            return atomic_load_explicit(&ring->error, memory_order_relaxed);
        if (bulk)
            error = free_bulk(job->ctx, batch.pfns, job->nr) == job->nr ? 0 : DECKLE_EBADFREE;
        else
            error = give(&batch, job->nr, release);
        if (UNLIKELY(error != 0))
            return ring_fail(ring, error);
        atomic_store_explicit(&ring->emptied, at + 1, memory_order_release);
    }
    return 0;
}

/* ---- a table of live blocks ------------------------------------------------------------------ */

/* An entry is pfn * 4 + order, or NO_ENTRY. */
#define ENTRY_BITS 2u
#define NO_ENTRY   UINT64_MAX

_Static_assert(BENCH_REPLACE_ORDER < 1u << ENTRY_BITS, "an order fits an entry");

LOOP uint64_t next_random(uint64_t state)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^ state << 17;
}

LOOP int take_entry(const struct bench_job *job, uint64_t *entry, uint64_t random, alloc_fn *alloc)
{
    uint32_t order = (uint32_t)(random >> 32) & BENCH_REPLACE_ORDER;
    int64_t pfn = alloc(job->ctx, job->gfp, order);

    *entry = UNLIKELY(pfn < 0) ? NO_ENTRY : (uint64_t)pfn << ENTRY_BITS | order;
    return UNLIKELY(pfn < 0) ? (int)pfn : 0;
}

LOOP int give_entry(const struct bench_job *job, uint64_t entry, free_fn *release)
{
    return release(job->ctx, entry >> ENTRY_BITS, (uint32_t)entry & BENCH_REPLACE_ORDER);
}

LOOP int loop_fill(const struct bench_job *job, alloc_fn *alloc)
{
    int error = 0;

    for (size_t i = 0; i < job->nr; i++)
        job->pfns[i] = NO_ENTRY;
    for (size_t i = 0; i < job->nr && error == 0; i++) {
        *job->random = next_random(*job->random);
        error = take_entry(job, &job->pfns[i], *job->random, alloc);
    }
    return error;
}

LOOP int loop_empty(const struct bench_job *job, free_fn *release)
{
    int error = 0;

    for (size_t i = 0; i < job->nr; i++) {
        int result = job->pfns[i] == NO_ENTRY ? 0 : give_entry(job, job->pfns[i], release);

        error = error == 0 ? result : error;
    }
    return error;
}

LOOP int loop_replace(const struct bench_job *job, alloc_fn *alloc, free_fn *release)
{
    uint64_t random = *job->random;
    int error = 0;

    for (uint64_t i = job->loops; i > 0 && error == 0; i--) {
        uint64_t *entry = &job->pfns[random & (job->nr - 1)];

        error = give_entry(job, *entry, release);
        if (UNLIKELY(error != 0))
            break;
        error = take_entry(job, entry, random, alloc);
        random = next_random(random);
    }
    *job->random = random;
    return error;
}

/* ---- instances ------------------------------------------------------------------------------- */

/* At the start of a line each, so that equal loops lie equally (bench_refs.h, BENCH_CALL). */
#define ALIGNED __attribute__((aligned(64)))

#define INSTANCE(name, alloc, release, alloc_bulk, free_bulk)                                      \
    ALIGNED static int name##_pairs(const struct bench_job *job)                                   \
    {                                                                                              \
        return loop_pairs(job, alloc, release);                                                    \
    }                                                                                              \
    ALIGNED static int name##_rounds(const struct bench_job *job)                                  \
    {                                                                                              \
        return loop_rounds(job, alloc, release);                                                   \
    }                                                                                              \
    ALIGNED static int name##_batch(const struct bench_job *job, struct bench_split *split)        \
    {                                                                                              \
        return loop_batch(job, split, alloc, release);                                             \
    }                                                                                              \
    ALIGNED static int name##_batch_compat(const struct bench_job *job, struct bench_split *split) \
    {                                                                                              \
        return loop_batch_compat(job, split, alloc, release);                                      \
    }                                                                                              \
    ALIGNED static int name##_bulk(const struct bench_job *job, struct bench_split *split)         \
    {                                                                                              \
        return loop_bulk(job, split, alloc_bulk, free_bulk);                                       \
    }                                                                                              \
    ALIGNED static int name##_bulk_singly(const struct bench_job *job, struct bench_split *split)  \
    {                                                                                              \
        return loop_bulk_singly(job, split, release, alloc_bulk, free_bulk);                       \
    }                                                                                              \
    ALIGNED static int name##_touch(const struct bench_job *job)                                   \
    {                                                                                              \
        return loop_touch(job, alloc, free_bulk);                                                  \
    }                                                                                              \
    ALIGNED static int name##_produce(const struct bench_job *job)                                 \
    {                                                                                              \
        return loop_produce(job, false, alloc, release, alloc_bulk, free_bulk);                    \
    }                                                                                              \
    ALIGNED static int name##_consume(const struct bench_job *job)                                 \
    {                                                                                              \
        return loop_consume(job, false, release, free_bulk);                                       \
    }                                                                                              \
    ALIGNED static int name##_produce_bulk(const struct bench_job *job)                            \
    {                                                                                              \
        return loop_produce(job, true, alloc, release, alloc_bulk, free_bulk);                     \
    }                                                                                              \
    ALIGNED static int name##_consume_bulk(const struct bench_job *job)                            \
    {                                                                                              \
        return loop_consume(job, true, release, free_bulk);                                        \
    }                                                                                              \
    ALIGNED static int name##_fill(const struct bench_job *job)                                    \
    {                                                                                              \
        return loop_fill(job, alloc);                                                              \
    }                                                                                              \
    ALIGNED static int name##_replace(const struct bench_job *job)                                 \
    {                                                                                              \
        return loop_replace(job, alloc, release);                                                  \
    }                                                                                              \
    ALIGNED static int name##_empty(const struct bench_job *job)                                   \
    {                                                                                              \
        return loop_empty(job, release);                                                           \
    }                                                                                              \
    ALIGNED static int name##_take(const struct bench_job *job)                                    \
    {                                                                                              \
        return take(job, job->nr, alloc, release);                                                 \
    }                                                                                              \
    ALIGNED static int name##_give(const struct bench_job *job)                                    \
    {                                                                                              \
        return give(job, job->nr, release);                                                        \
    }                                                                                              \
    const struct bench_ops bench_##name##_ops = {                                                  \
        .pairs = name##_pairs,                                                                     \
        .rounds = name##_rounds,                                                                   \
        .batch = name##_batch,                                                                     \
        .batch_compat = name##_batch_compat,                                                       \
        .bulk = name##_bulk,                                                                       \
        .bulk_singly = name##_bulk_singly,                                                         \
        .touch = name##_touch,                                                                     \
        .produce = name##_produce,                                                                 \
        .consume = name##_consume,                                                                 \
        .produce_bulk = name##_produce_bulk,                                                       \
        .consume_bulk = name##_consume_bulk,                                                       \
        .fill = name##_fill,                                                                       \
        .replace = name##_replace,                                                                 \
        .empty = name##_empty,                                                                     \
        .take = name##_take,                                                                       \
        .give = name##_give,                                                                       \
    }

INSTANCE(floor, bench_floor_alloc, bench_floor_free, bench_floor_alloc_bulk, bench_floor_free_bulk);
INSTANCE(limit, bench_limit_alloc, bench_limit_free, bench_limit_alloc_bulk, bench_limit_free_bulk);
INSTANCE(thread, bench_thread_alloc, bench_thread_free, bench_thread_alloc_bulk,
         bench_thread_free_bulk);
INSTANCE(lock, bench_lock_alloc, bench_lock_free, bench_lock_alloc_bulk, bench_lock_free_bulk);
INSTANCE(deckle, call_deckle_alloc, call_deckle_free, call_deckle_alloc_bulk,
         call_deckle_free_bulk);
INSTANCE(peer, call_peer_alloc, call_peer_free, call_peer_alloc_bulk, call_peer_free_bulk);

/* ---- copies of the library ------------------------------------------------------------------- */

LOOP int64_t call_copy_alloc(void *ctx, uint32_t gfp, uint32_t order)
{
    const struct bench_copy *copy = ctx;

    return copy->alloc(copy->d, gfp, order);
}

LOOP int64_t call_copy_request(void *ctx, uint32_t gfp, uint32_t order)
{
    struct bench_copy *copy = ctx;

    copy->ask.gfp = gfp;
    copy->ask.order = order;
    return copy->request(copy->d, &copy->ask);
}

LOOP int call_copy_free(void *ctx, uint64_t pfn, uint32_t order)
{
    const struct bench_copy *copy = ctx;

    return copy->release(copy->d, pfn, order);
}

#define COPY_INSTANCE(name, alloc)                                                                 \
    ALIGNED static int name##_pairs(const struct bench_job *job)                                   \
    {                                                                                              \
        return loop_pairs(job, alloc, call_copy_free);                                             \
    }                                                                                              \
    ALIGNED static int name##_rounds(const struct bench_job *job)                                  \
    {                                                                                              \
        return loop_rounds(job, alloc, call_copy_free);                                            \
    }                                                                                              \
    ALIGNED static int name##_batch(const struct bench_job *job, struct bench_split *split)        \
    {                                                                                              \
        return loop_batch(job, split, alloc, call_copy_free);                                      \
    }                                                                                              \
    const struct bench_ops bench_##name##_ops = {                                                  \
        .pairs = name##_pairs, .rounds = name##_rounds, .batch = name##_batch}

COPY_INSTANCE(copy, call_copy_alloc);
COPY_INSTANCE(request, call_copy_request);
