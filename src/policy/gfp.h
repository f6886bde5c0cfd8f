/* SPDX-License-Identifier: MIT */
/*
 * What request flags say: legality, highest zone, migratetype, scopes (reference: request
 * flags, 3.1).
 *
 * Look-ups in constants, without a branch, so they vanish where the flags are constants. The fast
 * path has the answers to all three in one byte (dk_gfp_place):
 *
 *   highest zone    none -> Normal, DMA, DMA32, HIGHMEM -> HighMem, MOVABLE + HIGHMEM -> Movable;
 *                   MOVABLE with anything else changes nothing
 *   migratetype     neither -> Unmovable, MOVABLE -> Movable, RECLAIMABLE -> Reclaimable
 *   legality        flags on placement: a table of the 32 combinations of bits 0-4
 *
 * Illegal flags give the most constrained answer; callers refuse them before they ask.
 */
#ifndef DK_POLICY_GFP_H
#define DK_POLICY_GFP_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/gfp.h>
#include <deckle/types.h>

#define DK_NOFAIL_MAX_ORDER 1u

/*
 * Bit n: are the placement flags n = {RECLAIMABLE, MOVABLE, DMA32, HIGHMEM, DMA} legal together? At
 * most one zone modifier (n & 7 is 0, 1, 2 or 4: 0x17 in each byte) and not both migratetypes (the
 * highest byte is 0).
 */
#define DK_GFP_PLACEMENT_LEGAL UINT32_C(0x00171717)

/* Do the flags apart from placement leave no doubt of being legal? */
static inline bool dk_gfp_is_plain(uint32_t gfp)
{
    return !(gfp & (~DECKLE_GFP_ALL | DECKLE_GFP_NOFAIL));
}

/*
 * What the placement flags say, in one byte for the fast path: highest zone in bits 0-2,
 * migratetype in bits 5-6; DK_PLACE_ILLEGAL for the combinations that are not legal.
 */
#define DK_PLACE_ZONE    7u
#define DK_PLACE_TYPE    0x60u
#define DK_PLACE_ILLEGAL 7u

static inline unsigned dk_gfp_place(uint32_t gfp)
{
#define DK_PLACE_1(n)                                                                              \
    (DK_GFP_PLACEMENT_LEGAL >> (n) & 1 ? ((UINT32_C(0x01010302) >> ((n) & 7) * 4) & 7) +           \
                                             (((n) & 15) == 10) +                                  \
                                             ((0x61u >> ((n) >> 3) * 2 & 3) << 5)                  \
                                       : DK_PLACE_ILLEGAL)
#define DK_PLACE_4(n) DK_PLACE_1(n), DK_PLACE_1(n + 1), DK_PLACE_1(n + 2), DK_PLACE_1(n + 3)
    static const uint8_t place[32] = {
        DK_PLACE_4(0),  DK_PLACE_4(4),  DK_PLACE_4(8),  DK_PLACE_4(12),
        DK_PLACE_4(16), DK_PLACE_4(20), DK_PLACE_4(24), DK_PLACE_4(28),
    };
#undef DK_PLACE_4
#undef DK_PLACE_1
    return place[gfp & 31];
}

/* DECKLE_OK; DECKLE_E2BIG for an order above max_order; DECKLE_EINVAL for illegal flags. */
int dk_gfp_check(uint32_t gfp, unsigned order, unsigned max_order);

/* Which rule gfp with this order breaks, as static text; NULL if none. */
const char *dk_gfp_reason(uint32_t gfp, unsigned order, unsigned max_order);

/* The highest zone that the flags allow, before absent zones collapse (dk_zone_collapse). */
static inline enum deckle_zone_type dk_gfp_zone(uint32_t gfp)
{
    /* Four bits for each combination of {DMA32, HIGHMEM, DMA}; the illegal ones get the lowest
     * zone. */
    uint32_t zone = (UINT32_C(0x01010302) >> ((gfp & 7) * 4)) & 7;
    uint32_t movable_zone =
        (gfp & DECKLE_GFP_ZONEMASK) == (DECKLE_GFP_MOVABLE | DECKLE_GFP_HIGHMEM);

    return (enum deckle_zone_type)(zone + movable_zone);
}

/* The migratetype that the flags ask for. */
static inline enum deckle_migratetype dk_gfp_migratetype(uint32_t gfp)
{
    /* Two bits for each combination of {RECLAIMABLE, MOVABLE}. */
    return (enum deckle_migratetype)((UINT32_C(0x61) >> (((gfp >> 3) & 3) * 2)) & 3);
}

/* The same in a pool whose grouping by mobility is on or off (dk_grouping_enabled). */
static inline enum deckle_migratetype dk_gfp_migratetype_grouped(uint32_t gfp, bool grouping)
{
    return grouping ? dk_gfp_migratetype(gfp) : DECKLE_UNMOVABLE;
}

/* Scopes of the requesting task. */
#define DK_SCOPE_NOIO (1u << 0) /* reclaim must neither start I/O nor enter file systems */
#define DK_SCOPE_NOFS (1u << 1) /* reclaim must not enter file systems */
#define DK_SCOPE_PIN  (1u << 2) /* the frames will be pinned: they must not count as movable */

/* Global masks: while booting there is nobody who could reclaim, while suspending nothing may do
 * I/O. */
#define DK_GFP_MASK_BOOT    (DECKLE_GFP_ALL & ~(DECKLE_GFP_RECLAIM | DECKLE_GFP_IO | DECKLE_GFP_FS))
#define DK_GFP_MASK_SUSPEND (DECKLE_GFP_ALL & ~(DECKLE_GFP_IO | DECKLE_GFP_FS))

/*
 * The flags that remain in the task's scopes and under the global mask. Check the flags as the
 * caller gave them, before: a mask may take from a NOFAIL request the direct reclaim that it needs,
 * which is no mistake of the caller.
 */
static inline uint32_t dk_gfp_mask_scopes(uint32_t gfp, unsigned scopes, uint32_t global_mask)
{
    if (scopes & DK_SCOPE_NOIO)
        gfp &= ~(DECKLE_GFP_IO | DECKLE_GFP_FS);
    if (scopes & DK_SCOPE_NOFS)
        gfp &= ~DECKLE_GFP_FS;
    if (scopes & DK_SCOPE_PIN)
        gfp &= ~DECKLE_GFP_MOVABLE;
    return gfp & global_mask;
}

/* May the requester sleep and reclaim by itself? */
static inline bool dk_gfp_may_block(uint32_t gfp)
{
    return (gfp & DECKLE_GFP_DIRECT_RECLAIM) != 0;
}

#endif
