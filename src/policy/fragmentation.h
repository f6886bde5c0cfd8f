/* SPDX-License-Identifier: MIT */
/*
 * How usable is the free memory of a zone for requests of one order? Three figures from the number
 * of free blocks of each order (reference: 3.14). All in integers, rounded down.
 *
 *   fragmentation index   -1000 if a block of the order is free; 0 if no block is free at all; else
 *                         1000 - (1000 + free * 1000 / 2^order) / free_blocks.
 *                         Of a failing request: towards 0 it failed for lack of memory, towards
 * 1000 because memory is in pieces. Few large pieces can make it negative unusable index 1000 *
 * (free - frames in blocks of the order or above) / free; 1000 if nothing is free extfrag percent
 * the same of 100; 0 if nothing is free
 */
#ifndef DK_POLICY_FRAGMENTATION_H
#define DK_POLICY_FRAGMENTATION_H

#include <stdint.h>

#define DK_FRAGMENTATION_SUITABLE    (-1000) /* the request would not fail for its order */
#define DK_EXTFRAG_THRESHOLD_DEFAULT 500     /* above: compaction helps more than reclaim */

/* What the figures are made of; sums stop at UINT64_MAX. */
struct dk_free_summary {
    uint64_t frames;   /* free in all */
    uint64_t blocks;   /* free blocks in all */
    uint64_t suitable; /* frames in blocks of the order or above */
    unsigned order;
};

/* blocks[o]: number of free blocks of order o < nr_orders; order may be at or above nr_orders. */
struct dk_free_summary dk_free_summarise(const uint64_t *blocks, unsigned nr_orders,
                                         unsigned order);

int dk_fragmentation_index(const struct dk_free_summary *free);
unsigned dk_unusable_index(const struct dk_free_summary *free);
unsigned dk_extfrag_percent(const struct dk_free_summary *free);

#endif
