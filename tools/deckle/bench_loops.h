/* SPDX-License-Identifier: MIT */
/*
 * The loops that are timed, once for each allocator: written as one inline function each and
 * instantiated with the allocator's functions, so that every allocator is called directly and by
 * the same code.
 *
 * All return 0 or the negative error of the first call that failed (then nothing stays allocated).
 * pfns has room for nr frames, one more for batch_compat.
 */
#ifndef DECKLE_TOOLS_BENCH_LOOPS_H
#define DECKLE_TOOLS_BENCH_LOOPS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Ticks of the two halves, summed over all rounds. */
struct bench_split {
    uint64_t alloc, free;
};

/* Full batches on their way from one CPU to another. Either side keeps a copy of the other's
 * position and looks again only when it runs out: so a batch costs as few moved lines as a ring
 * permits. */
#define BENCH_RING_SLOTS 32u
#define BENCH_RING_BATCH 64u

struct bench_ring {
    _Alignas(64) atomic_uint_fast64_t filled; /* batches that were put in, for ever */
    uint64_t emptied_seen;                    /* the producer's copy */
    _Alignas(64) atomic_uint_fast64_t emptied;
    uint64_t filled_seen;
    _Alignas(64) atomic_int error; /* of either side: both stop */
    _Alignas(64) uint64_t slots[BENCH_RING_SLOTS][BENCH_RING_BATCH];
};

/* What the loops of one allocator need to know. */
struct bench_job {
    void *ctx; /* the allocator */
    uint32_t gfp, order;
    uint64_t *pfns;
    size_t nr;      /* blocks per round */
    uint64_t loops; /* rounds */
    char *memory;   /* touch: address of frame first_pfn */
    uint64_t first_pfn;
    unsigned page_shift;
    struct bench_ring *ring; /* produce, consume */
    uint64_t *random;        /* replace: state of the generator, not 0 */
};

struct bench_ops {
    /* loops times: allocate a block, free it. Not timed inside. */
    int (*pairs)(const struct bench_job *job);
    /* loops times: allocate nr blocks one by one, free them in the same order. Not timed inside. */
    int (*rounds)(const struct bench_job *job);
    /* The same, each half timed with ordered readings of the clock; overhead not subtracted. */
    int (*batch)(const struct bench_job *job, struct bench_split *split);
    /* The same with nr + 1 blocks and loose readings: the Linux kernel's alloc-odrX-N
     * micro-benchmark, whose loop runs one block too far. */
    int (*batch_compat)(const struct bench_job *job, struct bench_split *split);
    /* loops times: one bulk request for nr frames, then one bulk free. */
    int (*bulk)(const struct bench_job *job, struct bench_split *split);
    /* loops times: one bulk request for nr frames, freed one by one. */
    int (*bulk_singly)(const struct bench_job *job, struct bench_split *split);
    /* loops times: nr frames one by one, one byte written to each as it comes; then freed in
     * batches of 512. Not timed inside. */
    int (*touch)(const struct bench_job *job);
    /* loops times: nr blocks (at most BENCH_RING_BATCH) one by one into the next slot of the ring;
     * and the other side, which frees them one by one. Not timed inside. */
    int (*produce)(const struct bench_job *job);
    int (*consume)(const struct bench_job *job);
    /* The same, each batch by one bulk call. */
    int (*produce_bulk)(const struct bench_job *job);
    int (*consume_bulk)(const struct bench_job *job);
    /* pfns is a table of nr live blocks (a power of two), each of a random order up to
     * BENCH_REPLACE_ORDER: filled; loops times the block in a random place freed and another
     * allocated in its stead; emptied. Not timed inside. */
    int (*fill)(const struct bench_job *job);
    int (*replace)(const struct bench_job *job);
    int (*empty)(const struct bench_job *job);
    /* nr blocks one by one; and free them one by one. Not timed inside. */
    int (*take)(const struct bench_job *job);
    int (*give)(const struct bench_job *job);
};

#define BENCH_REPLACE_ORDER 3u

extern const struct bench_ops bench_floor_ops, bench_limit_ops, bench_thread_ops, bench_lock_ops,
    bench_deckle_ops, bench_peer_ops;

#endif
