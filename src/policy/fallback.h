/* SPDX-License-Identifier: MIT */
/*
 * Whose pageblock a request may enter when its own type has nothing left, and on what terms
 * (reference: 3.6; HighAtomic reserve 3.5; merging 3.7). P = frames of a pageblock.
 *
 *   order of types   Unmovable -> Reclaimable, Movable;  Movable -> Reclaimable, Unmovable;
 *                    Reclaimable -> Unmovable, Movable.  HighAtomic, CMA, Isolate are never
 * fallbacks CMA              Movable with CMA allowed: before the own type while free CMA > free /
 * 2, else after claim            from the largest run down to the order (to a pageblock under
 * NOFRAGMENT), first type with a run of just that order. Give up where a run is not claimable:
 * claimable are runs of at least pageblock_order / 2, any run for Unmovable and Reclaimable, and
 * all with grouping off. A run of whole blocks is converted. Else convert the block if free + alike
 * >= P / 2, or look on at smaller runs steal            not under NOFRAGMENT: from the order up,
 * first type; the rest keeps its type stage            the stage that served last is tried first by
 * the next block of the same refill; a claim leaves runs of the own type behind, so it starts over
 */
#ifndef DK_POLICY_FALLBACK_H
#define DK_POLICY_FALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/types.h>

#include "base/div64.h"
#include "policy/alloc_flags.h"

#define DK_NR_FALLBACKS 2u /* of each type that has any */

/* Does the type have per-CPU lists and fallbacks, and merge with others of its kind? */
static inline bool dk_migratetype_mergeable(enum deckle_migratetype type)
{
    return (unsigned)type < DECKLE_NR_PCP_TYPES;
}

/* The nth (0, 1) type to fall back to; type must be mergeable. */
static inline enum deckle_migratetype dk_fallback_type(enum deckle_migratetype type, unsigned nth)
{
    /* Two bits each: Movable {2, 1}, Unmovable {2, 0}, Reclaimable {1, 0}; nth 0 is the lower pair.
     */
    return (enum deckle_migratetype)((UINT32_C(0x126) >> ((unsigned)type * 4 + nth * 2)) & 3);
}

/* May blocks of these types be one free run from pageblock_order up? Smaller runs lie in one block.
 */
static inline bool dk_migratetypes_merge(enum deckle_migratetype a, enum deckle_migratetype b)
{
    return a == b || (dk_migratetype_mergeable(a) && dk_migratetype_mergeable(b));
}

/* Are there enough frames for grouping by mobility: a pageblock for each type? */
static inline bool dk_grouping_enabled(uint64_t total_pages, uint64_t pageblock_pages)
{
    return total_pages >= pageblock_pages * DECKLE_NR_MIGRATETYPES;
}

/* Does a request take from CMA blocks before its own type? */
static inline bool dk_cma_first(uint32_t alloc_flags, uint64_t free, uint64_t free_cma)
{
    return (alloc_flags & DK_ALLOC_CMA) && free_cma > free / 2;
}

/* ---- claim and steal ------------------------------------------------------------------------ */

/* Smallest run that claiming looks at. */
static inline unsigned dk_claim_min_order(unsigned order, uint32_t alloc_flags,
                                          unsigned pageblock_order)
{
    return (alloc_flags & DK_ALLOC_NOFRAGMENT) && order < pageblock_order ? pageblock_order : order;
}

/* May a run of this order be grounds to claim its block? */
static inline bool dk_claimable(unsigned run_order, enum deckle_migratetype type, bool grouping,
                                unsigned pageblock_order)
{
    return run_order >= pageblock_order / 2 || type != DECKLE_MOVABLE || !grouping;
}

/*
 * Frames of a foreign block, apart from the free ones, that suit the requester's type. For Movable:
 * the movable ones. For others in a Movable block: what is in use and not movable; in a block of
 * another type they cannot be told apart: none.
 */
static inline uint64_t dk_claim_alike(enum deckle_migratetype type,
                                      enum deckle_migratetype block_type, uint64_t free,
                                      uint64_t movable, uint64_t pageblock_pages)
{
    if (type == DECKLE_MOVABLE)
        return movable;
    return block_type == DECKLE_MOVABLE ? dk_sub_sat64(pageblock_pages, free + movable) : 0;
}

/* Is the block so empty, or so alike, that it should change its type? */
static inline bool dk_claim_block(uint64_t free, uint64_t alike, uint64_t pageblock_pages,
                                  bool grouping)
{
    return free + alike >= pageblock_pages / 2 || !grouping;
}

struct dk_fallback_pick {
    bool found; /* else the rest says nothing */
    bool whole; /* claim: the run is one or more whole blocks, take them all; no count, no boost */
    unsigned order;
    enum deckle_migratetype type;
};

/*
 * The next run to claim for a request of a mergeable type. orders[t] has bit o set where type t has
 * a free run whose largest order is o. from is the largest order still to be looked at: max_order
 * at first, the picked order - 1 after a block turned out not to be worth it. Nothing is found
 * below min_order (see dk_claim_min_order), and from the first run on that is not claimable.
 */
struct dk_fallback_pick dk_claim_pick(const uint32_t orders[DECKLE_NR_PCP_TYPES],
                                      enum deckle_migratetype type, unsigned from,
                                      unsigned min_order, bool grouping, unsigned pageblock_order);

/* The run to steal from: the smallest that fits. Not for NOFRAGMENT requests. */
struct dk_fallback_pick dk_steal_pick(const uint32_t orders[DECKLE_NR_PCP_TYPES],
                                      enum deckle_migratetype type, unsigned order,
                                      unsigned max_order);

/* ---- stages of a refill --------------------------------------------------------------------- */

enum dk_take_stage {
    DK_STAGE_NORMAL, /* own type */
    DK_STAGE_CMA,
    DK_STAGE_CLAIM,
    DK_STAGE_STEAL
};

/* Where the next block of the same refill starts, after this stage served. */
static inline enum dk_take_stage dk_stage_after(enum dk_take_stage served)
{
    return served == DK_STAGE_CLAIM ? DK_STAGE_NORMAL : served;
}

/* ---- the HighAtomic reserve ----------------------------------------------------------------- */

/* Frames that the reserve of a zone may have: 1 % rounded up to blocks, none if 1 % is less than
 * one. */
uint64_t dk_highatomic_limit(uint64_t managed, uint64_t pageblock_pages);

/* After a HighAtomic request got a frame of this block: does the block join the reserve? */
bool dk_highatomic_may_reserve(uint64_t reserved, uint64_t managed,
                               enum deckle_migratetype block_type, uint64_t pageblock_pages);

/* May a block leave the reserve? Without force one block stays. */
static inline bool dk_highatomic_may_release(uint64_t reserved, uint64_t pageblock_pages,
                                             bool force)
{
    return force ? reserved > 0 : reserved > pageblock_pages;
}

#endif
