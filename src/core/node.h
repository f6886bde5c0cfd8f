/* SPDX-License-Identifier: MIT */
/*
 * Nodes: which CPUs and zones they have, how far they are from one another. A node may be without
 * memory, without CPUs, or both; ids need not be contiguous in use, only below nr_nodes.
 */
#ifndef DK_CORE_NODE_H
#define DK_CORE_NODE_H

#include "core/layout.h"

/* Node of a CPU; CPUs beyond the configured number count as node 0. */
static inline uint32_t dk_node_of_cpu(const struct deckle *d, uint32_t cpu)
{
    return cpu < d->nr_cpus ? d->cpu_nodes[cpu] : 0;
}

static inline uint32_t dk_node_distance(const struct deckle *d, uint32_t from, uint32_t to)
{
    return d->distances[(size_t)from * d->sb->nr_nodes + to];
}

/* The zone of this type on the node, NULL if the pool was made without. */
static inline struct dk_zone *dk_node_zone(const struct deckle *d, uint32_t node, uint32_t type)
{
    uint32_t number = d->sb->zone_of[node][type];

    return number ? &d->zones[number - 1] : NULL;
}

static inline bool dk_zone_is_populated(const struct dk_zone *zone)
{
    return dk_load_relaxed(&zone->present) != 0;
}

/* Configured CPUs on the node. Linear in the CPUs. */
uint32_t dk_node_cpus(const struct deckle *d, uint32_t node);

/* Frames of the node's zones that can be given out: 0 = without memory. */
uint64_t dk_node_managed(const struct deckle *d, uint32_t node);

/* Nodes with memory, with CPUs: bit per node id. */
uint64_t dk_nodes_with_memory(const struct deckle *d);
uint64_t dk_nodes_with_cpus(const struct deckle *d);

#endif
