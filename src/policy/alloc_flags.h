/* SPDX-License-Identifier: MIT */
/*
 * Internal allocation flags: which mark a request is tested against, which reserves it may touch,
 * what it must not take. Derived from its gfp flags and its context (reference: 3.4; reserve
 * use 3.5).
 *
 *   fast path    low, + CMA for Movable, + KSWAPD as given, + NOFRAGMENT where the node has lower
 *                zones to go to first, + CPUSET where zones are tested one by one
 *   slow path    min + CPUSET; HIGH and KSWAPD as given
 *                  cannot sleep, not NOMEMALLOC:  NON_BLOCK; HIGHATOMIC if HIGH and order > 0
 *                  cannot sleep and HIGH:         no CPUSET
 *                  can sleep, real-time task:     MIN_RESERVE
 *   reserves     NOMEMALLOC none; MEMALLOC or a memalloc task (not in hard interrupts) all;
 *                an OOM victim in task context OOM
 */
#ifndef DK_POLICY_ALLOC_FLAGS_H
#define DK_POLICY_ALLOC_FLAGS_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/gfp.h>
#include <deckle/types.h>

/* The lowest two bits choose the mark. */
#define DK_ALLOC_WMARK_MIN     0u
#define DK_ALLOC_WMARK_LOW     1u
#define DK_ALLOC_WMARK_HIGH    2u
#define DK_ALLOC_WMARK_MASK    3u
#define DK_ALLOC_NO_WATERMARKS 0x004u /* no test at all */
#define DK_ALLOC_OOM           0x008u /* reserve of OOM victims */
#define DK_ALLOC_NON_BLOCK     0x010u /* the caller cannot sleep */
#define DK_ALLOC_MIN_RESERVE   0x020u /* half of min */
#define DK_ALLOC_CPUSET        0x040u /* test each zone's node against the cpuset */
#define DK_ALLOC_CMA           0x080u /* may take from CMA blocks */
#define DK_ALLOC_NOFRAGMENT    0x100u /* no part of another type's pageblock */
#define DK_ALLOC_HIGHATOMIC    0x200u /* may use and extend the HighAtomic reserve */
#define DK_ALLOC_KSWAPD        0x800u /* wake background reclaim */

/* Whoever has one of these is not stopped by the HighAtomic reserve in watermark tests. */
#define DK_ALLOC_RESERVES                                                                          \
    (DK_ALLOC_NON_BLOCK | DK_ALLOC_MIN_RESERVE | DK_ALLOC_HIGHATOMIC | DK_ALLOC_OOM)

/* Two flags are copied from gfp by a mask: same bit. */
_Static_assert(DK_ALLOC_MIN_RESERVE == DECKLE_GFP_HIGH, "MIN_RESERVE is the bit of HIGH");
_Static_assert(DK_ALLOC_KSWAPD == DECKLE_GFP_KSWAPD_RECLAIM, "KSWAPD is the bit of KSWAPD_RECLAIM");

enum dk_context {
    DK_CONTEXT_TASK,
    DK_CONTEXT_SOFTIRQ,  /* deferred work on top of a task */
    DK_CONTEXT_INTERRUPT /* hard interrupt, NMI, signal handler */
};

/* Who asks. Zero is an ordinary task. */
struct dk_requester {
    enum dk_context context;
    bool realtime;   /* scheduled real-time or deadline */
    bool memalloc;   /* is freeing memory: may ignore watermarks */
    bool oom_victim; /* is being killed to free memory */
};

/* What the fast path knows of the request's first choice. */
struct dk_first_choice {
    enum deckle_zone_type zone; /* type of the preferred zone */
    bool one_node;              /* the pool has a single node */
    bool node_has_dma32;        /* the preferred node has DMA32 frames */
    bool defrag_mode;           /* never mix types in a block on the first pass */
    bool cpuset_test;           /* cpusets exist and the node mask does not express this one */
};

static inline uint32_t dk_alloc_cma(enum deckle_migratetype type)
{
    return type == DECKLE_MOVABLE ? DK_ALLOC_CMA : 0;
}

/*
 * Should the first pass refuse parts of foreign blocks? Only a request that would otherwise take a
 * foreign block in Normal has a lower zone of the same node to go to. A single node always has.
 */
static inline uint32_t dk_alloc_nofragment(const struct dk_first_choice *first)
{
    bool lower_zone = first->one_node || first->node_has_dma32;
    bool wanted = first->defrag_mode || (first->zone == DECKLE_ZONE_NORMAL && lower_zone);

    return wanted ? DK_ALLOC_NOFRAGMENT : 0;
}

/* Flags of the first pass. */
static inline uint32_t dk_alloc_flags_fast(uint32_t gfp, enum deckle_migratetype type,
                                           const struct dk_first_choice *first)
{
    return DK_ALLOC_WMARK_LOW | (gfp & DECKLE_GFP_KSWAPD_RECLAIM) | dk_alloc_cma(type) |
           dk_alloc_nofragment(first) | (first->cpuset_test ? DK_ALLOC_CPUSET : 0);
}

/* Flags after the first pass failed. */
uint32_t dk_alloc_flags_slow(uint32_t gfp, unsigned order, enum deckle_migratetype type,
                             const struct dk_requester *who);

/* DK_ALLOC_NO_WATERMARKS, DK_ALLOC_OOM or 0: the reserves a requester may use while it retries. */
uint32_t dk_alloc_flags_reserve(uint32_t gfp, const struct dk_requester *who);

/* Flags of one more round: with reserves they replace all but KSWAPD and CMA. */
static inline uint32_t dk_alloc_flags_retry(uint32_t slow, uint32_t reserve,
                                            enum deckle_migratetype type)
{
    return reserve ? reserve | dk_alloc_cma(type) | (slow & DK_ALLOC_KSWAPD) : slow;
}

/* May that round ignore the node mask and cpuset of the request? */
static inline bool dk_alloc_any_node(uint32_t slow, uint32_t reserve)
{
    return !(slow & DK_ALLOC_CPUSET) || reserve;
}

/* HighAtomic blocks: first choice of this request; last resort; to be extended after its success.
 */
static inline bool dk_alloc_highatomic_first(uint32_t alloc_flags)
{
    return (alloc_flags & DK_ALLOC_HIGHATOMIC) != 0;
}
static inline bool dk_alloc_highatomic_last(uint32_t alloc_flags)
{
    return (alloc_flags & (DK_ALLOC_OOM | DK_ALLOC_NON_BLOCK)) != 0;
}

#endif
