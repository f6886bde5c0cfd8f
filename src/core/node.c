/* SPDX-License-Identifier: MIT */
/* Nodes: see node.h. */
#include "core/node.h"

uint32_t dk_node_cpus(const struct deckle *d, uint32_t node)
{
    uint32_t n = 0;

    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        n += d->cpu_nodes[cpu] == node;
    return n;
}

uint64_t dk_node_managed(const struct deckle *d, uint32_t node)
{
    uint64_t sum = 0;

    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++) {
        const struct dk_zone *zone = dk_node_zone(d, node, type);
        sum += zone ? dk_load_relaxed(&zone->managed) : 0;
    }
    return sum;
}

uint64_t dk_nodes_with_memory(const struct deckle *d)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        if (dk_zone_is_populated(&d->zones[i]))
            mask |= (uint64_t)1 << d->zones[i].node;
    return mask;
}

uint64_t dk_nodes_with_cpus(const struct deckle *d)
{
    uint64_t mask = 0;

    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        mask |= (uint64_t)1 << d->cpu_nodes[cpu];
    return mask;
}
