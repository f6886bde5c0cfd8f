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

#include <stddef.h>
#include <stdint.h>

/* Ticks of the two halves, summed over all rounds. */
struct bench_split {
    uint64_t alloc, free;
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
};

extern const struct bench_ops bench_floor_ops, bench_limit_ops, bench_thread_ops, bench_lock_ops,
    bench_deckle_ops;

#endif
