/* SPDX-License-Identifier: MIT */
/*
 * Try again or give up? The decisions of the slow path that are plain numbers (reference: 3.11).
 * What is done between them (wake, reclaim, compact, drain) is the caller's.
 *
 *   costly      order > 3: such requests fail rather than cost much
 *   compaction  before reclaim, asynchronously: for costly orders, and for order > 0 unless Movable
 *   reclaim     rounds without progress <= 16 (every round of a costly order counts), while some
 * zone would pass at min if all that is reclaimable were free compaction  again when it was skipped
 * and enough is reclaimable; when it succeeded but the block was lost, up to 16 times (costly 4);
 * else with a higher priority, if there is one: async -> sync light -> sync full (costly: sync
 * light) deferral    after k failures (at most 6 count) the next 2^k attempts of that order and
 * above are skipped suitable    a zone where an order-0 request would pass at min (costly: low) + 2
 * * 2^order, CMA allowed; costly orders also need a fragmentation index < 0 or > threshold
 *   proactive   starts at a score above min(100, stop + 10), stops below stop = max(5, 100 - p)
 */
#ifndef DK_POLICY_RETRY_H
#define DK_POLICY_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/gfp.h>
#include <deckle/types.h>

#include "policy/watermark.h"

#define DK_COSTLY_ORDER             3u
#define DK_RECLAIM_ROUNDS_MOST      16u
#define DK_COMPACT_RETRIES_MOST     16u
#define DK_COMPACT_DEFER_MOST       6u
#define DK_PROACTIVENESS_DEFAULT    20u
#define DK_PROACTIVE_STOP_LEAST     5u
#define DK_PROACTIVE_START_DISTANCE 10u

static inline bool dk_order_costly(unsigned order)
{
    return order > DK_COSTLY_ORDER;
}

/* ---- what to do at all ---------------------------------------------------------------------- */

/* Compact before the first reclaim? reserve: dk_alloc_flags_reserve of the request, whose owner is
 * freeing memory itself and must not wait. */
static inline bool dk_compact_first(uint32_t gfp, unsigned order, enum deckle_migratetype type,
                                    bool can_compact, uint32_t reserve)
{
    return (gfp & DECKLE_GFP_DIRECT_RECLAIM) && can_compact && !reserve &&
           (dk_order_costly(order) || (order > 0 && type != DECKLE_MOVABLE));
}

enum dk_compact_result {
    DK_COMPACT_SKIPPED,  /* too little free memory to work with */
    DK_COMPACT_DEFERRED, /* failed too often lately */
    DK_COMPACT_FAILED,   /* went through without making a block */
    DK_COMPACT_SUCCESS   /* made a block, which somebody may have taken */
};

/* After that first compaction: is this request of the kind that leaves it at that? */
static inline bool dk_give_up_after_first_compaction(uint32_t gfp, unsigned order,
                                                     enum dk_compact_result result)
{
    return dk_order_costly(order) && (gfp & DECKLE_GFP_NORETRY) &&
           (result == DK_COMPACT_SKIPPED || result == DK_COMPACT_DEFERRED ||
            (gfp & DECKLE_GFP_THISNODE));
}

/* After one round of reclaim and compaction: does the request go on trying? */
static inline bool dk_give_up_after_round(uint32_t gfp, unsigned order, bool can_compact)
{
    return (gfp & DECKLE_GFP_NORETRY) ||
           (dk_order_costly(order) && (!can_compact || !(gfp & DECKLE_GFP_RETRY_MAYFAIL)));
}

/* ---- reclaim -------------------------------------------------------------------------------- */

/* The number of rounds without progress, after one more. */
static inline unsigned dk_reclaim_rounds(unsigned rounds, unsigned order, bool progressed)
{
    return progressed && !dk_order_costly(order) ? 0 : rounds + 1;
}

/* could_pass: dk_watermark_ok_with(min, all that is reclaimable) of some zone. */
static inline bool dk_reclaim_again(unsigned rounds, bool could_pass)
{
    return rounds <= DK_RECLAIM_ROUNDS_MOST && could_pass;
}

/* ---- compaction ----------------------------------------------------------------------------- */

enum dk_compact_priority { DK_COMPACT_SYNC_FULL, DK_COMPACT_SYNC_LIGHT, DK_COMPACT_ASYNC };

/* One request's compactions; begin with {DK_COMPACT_SYNC_LIGHT, 0}, or ASYNC for costly NORETRY. */
struct dk_compact_retry {
    enum dk_compact_priority priority; /* of the next attempt */
    unsigned retries;                  /* blocks made and lost at this priority */
};

/* Another compaction, after one with this result? Raises the priority where that is due. enough:
 * the reclaimable memory would do for a compaction that was skipped. */
bool dk_compact_again(struct dk_compact_retry *retry, unsigned order, enum dk_compact_result result,
                      bool enough);

/* A zone's memory of failures. Zero: none. */
struct dk_compact_deferral {
    unsigned failures;     /* in a row, at most DK_COMPACT_DEFER_MOST */
    unsigned skipped;      /* attempts skipped since the last one */
    unsigned failed_order; /* smallest order that failed */
};

/* Is this attempt to be skipped? Counts it if so. */
bool dk_compact_deferred(struct dk_compact_deferral *deferral, unsigned order);
void dk_compact_note_failure(struct dk_compact_deferral *deferral, unsigned order);
void dk_compact_note_success(struct dk_compact_deferral *deferral);

/* Can compaction work in this zone? zone: its counts, boost and reserve; min and low: its marks. */
bool dk_compact_suitable(const struct dk_watermark_input *zone, uint64_t min, uint64_t low,
                         unsigned order, int fragmentation_index, int threshold);

/* Scores (0 … 100) at which proactive compaction stops and starts; proactiveness 0 … 100, 0 = off.
 */
unsigned dk_proactive_stop(unsigned proactiveness);
unsigned dk_proactive_start(unsigned proactiveness);

/* ---- the end -------------------------------------------------------------------------------- */

/* May somebody be killed for this request? The host knows of core dumps and suspend. */
static inline bool dk_oom_kill_allowed(uint32_t gfp, unsigned order, enum deckle_zone_type highest,
                                       bool dumping_core, bool suspending)
{
    return !dumping_core && !suspending && !dk_order_costly(order) &&
           highest >= DECKLE_ZONE_NORMAL &&
           !(gfp & (DECKLE_GFP_RETRY_MAYFAIL | DECKLE_GFP_THISNODE));
}

/* Has a victim had all that victims can get? */
static inline bool dk_oom_victim_gives_up(uint32_t gfp, uint32_t alloc_flags, bool victim)
{
    return victim && ((alloc_flags & DK_ALLOC_OOM) || (gfp & DECKLE_GFP_NOMEMALLOC));
}

#endif
