/* SPDX-License-Identifier: MIT */
/*
 * Where the marks and reserves of a zone come from; recomputed when memory or a tunable changes
 * (reference: 3.3, tunables 3.15). All in frames unless a name says kbytes.
 *
 *   lowmem          sum over the zones an ordinary request can reach of max(0, managed - high)
 *   min_free_kbytes clamp(floor(sqrt(16 * lowmem in KiB)), 128, 262144), more if configured
 *   share           pages_min * managed / managed of all zones but HighMem and Movable
 *   min             share; HighMem and Movable: clamp(managed / 1024, 32, 128)
 *   gap             max(share / 4, managed * scale / 10000), scale 1 … 3000, default 10
 *   low, high, promo    min + gap, low + gap, high + gap
 *   lowmem_reserve[i][j > i]    managed of zones i+1 … j of the node / ratio[i]; 0 for ratio 0
 *   totalreserve    min(managed, largest lowmem_reserve + high)
 *   boost           += pageblock, at most max(pageblock, high * factor / 10000)
 *
 * One rule is Deckle's own. Linux never manages less than some MiB, a pool here may be one frame;
 * constants like 128 KiB or 32 frames would keep all of it back. So a mark's min never exceeds an
 * eighth of what it protects. That changes nothing from 1 MiB (min_free_kbytes) or 256 frames
 * (HighMem, Movable) upward.
 */
#ifndef DK_POLICY_WATERMARK_SETUP_H
#define DK_POLICY_WATERMARK_SETUP_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/types.h>

#define DK_MIN_FREE_KBYTES_LEAST 128u
#define DK_MIN_FREE_KBYTES_MOST  262144u
#define DK_SCALE_FACTOR_DEFAULT  10u /* watermark_scale_factor, of 10000 */
#define DK_SCALE_FACTOR_MOST     3000u
#define DK_BOOST_FACTOR_DEFAULT  15000u /* watermark_boost_factor, of 10000 */

struct dk_zone_marks {
    uint64_t min, low, high, promo;
};

/* lowmem_reserve_ratio by zone type; 0 = no reserve. */
extern const uint32_t dk_lowmem_reserve_ratio_default[DECKLE_NR_ZONE_TYPES];

/* A zone's part in lowmem. high is its mark before this computation, 0 at first. */
static inline uint64_t dk_lowmem_part(uint64_t managed, uint64_t high)
{
    return managed > high ? managed - high : 0;
}

/* HighMem and Movable: kernels cannot use them freely, their marks do not come from the share. */
static inline bool dk_zone_is_highmem_or_movable(enum deckle_zone_type zone)
{
    return zone == DECKLE_ZONE_HIGHMEM || zone == DECKLE_ZONE_MOVABLE;
}

/* The formula. page_shift is 10 … 30. */
uint64_t dk_min_free_kbytes(uint64_t lowmem_pages, unsigned page_shift);

/* The frames to keep free in all: the larger of formula and configured (0 = nothing configured).
 * Only the formula is held to an eighth of lowmem: what was configured was meant. */
uint64_t dk_pages_min(uint64_t configured_kbytes, uint64_t lowmem_pages, unsigned page_shift);

/* What a huge-page daemon would have kept free: pageblock * zones * 11, at most 5 % of lowmem. */
uint64_t dk_pages_min_hugepage(uint64_t pageblock_pages, unsigned nr_zones, uint64_t lowmem_pages);

/* The marks of one zone. lowmem_managed is the managed sum of all zones but HighMem and Movable. */
struct dk_zone_marks dk_zone_marks(enum deckle_zone_type zone, uint64_t managed,
                                   uint64_t lowmem_managed, uint64_t pages_min,
                                   unsigned scale_factor);

/* reserve[i][j]: what zone i of a node keeps from requests that may use zones up to j. */
void dk_lowmem_reserve(const uint64_t managed[DECKLE_NR_ZONE_TYPES],
                       const uint32_t ratio[DECKLE_NR_ZONE_TYPES],
                       uint64_t reserve[DECKLE_NR_ZONE_TYPES][DECKLE_NR_ZONE_TYPES]);

/* Frames of a zone that no ordinary request gets; reserve is its row of dk_lowmem_reserve. */
uint64_t dk_zone_totalreserve(const uint64_t reserve[DECKLE_NR_ZONE_TYPES], uint64_t high,
                              uint64_t managed);

/*
 * A fallback has taken a piece of a block: raise *boost. False and unchanged when boosting is off,
 * high is not set yet, or the zone manages fewer than four pageblocks. True also at the cap: the
 * caller then wakes background reclaim all the same.
 */
bool dk_watermark_boost(uint64_t *boost, uint64_t high, uint64_t managed, uint64_t pageblock_pages,
                        unsigned boost_factor);

#endif
