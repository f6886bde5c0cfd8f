/* SPDX-License-Identifier: MIT */
/*
 * Which NUMA counters an allocation moves (reference: 3.14).
 *
 *   P node of the preferred zone, Z node of the zone that served, C node of the CPU, I node that an
 *   interleaving policy had chosen
 *
 *   Z = P   hit on the serving zone          Z = C   local on the serving zone
 *   else    miss on the serving zone,        else    other on the serving zone
 *           foreign on the preferred one     Z = I   interleave on the serving zone as well
 *
 * So in each zone hit + miss = local + other = its allocations, and over all zones miss = foreign.
 */
#ifndef DK_POLICY_NUMA_STAT_H
#define DK_POLICY_NUMA_STAT_H

#include <stdint.h>

/* In the order of /proc/vmstat. */
enum dk_numa_item {
    DK_NUMA_HIT,
    DK_NUMA_MISS,
    DK_NUMA_FOREIGN,
    DK_NUMA_INTERLEAVE,
    DK_NUMA_LOCAL,
    DK_NUMA_OTHER,
    DK_NR_NUMA_ITEMS
};

#define DK_NUMA_BIT(item) (1u << (item))
#define DK_NO_NODE        UINT32_MAX /* no interleaving policy; a CPU without a node */

/* Counters to raise by one, as sets of DK_NUMA_BIT. */
struct dk_numa_bumps {
    uint8_t serving;
    uint8_t preferred;
};

static inline struct dk_numa_bumps dk_numa_account(uint32_t preferred, uint32_t serving,
                                                   uint32_t cpu, uint32_t interleave)
{
    struct dk_numa_bumps bumps;
    unsigned on_serving = DK_NUMA_BIT(serving == preferred ? DK_NUMA_HIT : DK_NUMA_MISS) |
                          DK_NUMA_BIT(serving == cpu ? DK_NUMA_LOCAL : DK_NUMA_OTHER);

    if (serving == interleave)
        on_serving |= DK_NUMA_BIT(DK_NUMA_INTERLEAVE);
    bumps.serving = (uint8_t)on_serving;
    bumps.preferred = (uint8_t)(serving == preferred ? 0u : DK_NUMA_BIT(DK_NUMA_FOREIGN));
    return bumps;
}

#endif
