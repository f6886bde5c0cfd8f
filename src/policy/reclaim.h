/* SPDX-License-Identifier: MIT */
/*
 * How much of a cache a round of reclaim looks at (reference: 3.11 steps 5 and 7).
 *
 *   priority   12 at first; a round looks at 1 of 2^priority of what can be freed, but at least at
 *              a cluster (32 frames): small caches are not passed over until the last round
 *   direct     rounds from 12 down to 0 until a cluster, or the block asked for, is free
 *   kswapd     one round a step; the priority falls by one when a round frees less than it was
 *              meant to, and starts anew when the node is balanced. 16 times 0 without progress:
 *              the node is hopeless until somebody else's reclaim succeeds
 */
#ifndef DK_POLICY_RECLAIM_H
#define DK_POLICY_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/div64.h"

#define DK_DEF_PRIORITY         12u
#define DK_SWAP_CLUSTER_MAX     32u
#define DK_SHRINK_BATCH_DEFAULT 128u
#define DK_KSWAPD_STEP_MOST     1024u /* frames that one step reclaims at most, about */
#define DK_KSWAPD_HOPELESS      16u   /* rounds */
#define DK_BOOST_PRIORITY_LEAST 10u   /* reclaim for a boost does not try harder than this */

/* Frames to look at of a cache with so many freeable ones. */
static inline uint64_t dk_scan_count(uint64_t freeable, unsigned priority)
{
    return dk_min64(freeable, dk_max64(freeable >> priority, DK_SWAP_CLUSTER_MAX));
}

/* Frames that a direct reclaim of this order wants to see free before it stops. */
static inline uint64_t dk_direct_target(unsigned order)
{
    return dk_max64(DK_SWAP_CLUSTER_MAX, UINT32_C(1) << order);
}

/* Does node reclaim pay? Only where there is more than a share of the node to gain (min_unmapped
 * and min_slab ratios, percent of the managed frames). */
static inline bool dk_node_reclaim_pays(uint64_t unmapped, uint64_t slab, uint64_t managed,
                                        unsigned min_unmapped_ratio, unsigned min_slab_ratio)
{
    const uint64_t most = UINT64_C(1) << 52; /* counts are a shrinker's word: let none overflow */

    return dk_min64(unmapped, most) * 100 > managed * min_unmapped_ratio ||
           dk_min64(slab, most) * 100 > managed * min_slab_ratio;
}

#endif
