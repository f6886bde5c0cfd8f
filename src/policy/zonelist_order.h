/* SPDX-License-Identifier: MIT */
/*
 * In which order a request looks at nodes and zones (reference: 3.2).
 *
 *   nodes    the node itself if it has memory, then ever the unused node with memory that is best
 * by distance + 1 if its id is lower than ours + 1 if it has CPUs, then by load, then by id. If its
 * distance differs from that of the node chosen before (of ours, at first), its load rises by one:
 * nodes at equal distance take turns at being first for different requesters zones    node by node,
 * inside a node from the highest populated zone down ("fallback"); or those of one node alone ("no
 * fallback", for THISNODE)
 *
 * The kernel folds distance and load into one key, (distance …) * MAX_NODES + load. A load never
 * reaches the number of nodes, so comparing the two in turn is the same order without a product.
 */
#ifndef DK_POLICY_ZONELIST_ORDER_H
#define DK_POLICY_ZONELIST_ORDER_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/types.h>

/* A node as one requester sees it. */
struct dk_node_view {
    uint32_t distance; /* from the requester's node */
    bool has_memory;
    bool has_cpus;
    bool used; /* scratch of dk_node_order */
};

struct dk_zoneref {
    uint16_t node;
    uint8_t zone; /* enum deckle_zone_type */
};

/*
 * The nodes with memory, best first, for a requester on `node`; view[nr_nodes] by node id.
 * load[nr_nodes] is kept over the calls for all nodes of a pool: zero before the first. Returns how
 * many ids were written to order[nr_nodes]. Quadratic in nr_nodes.
 */
unsigned dk_node_order(unsigned node, unsigned nr_nodes, struct dk_node_view *view, uint32_t *load,
                       uint16_t *order);

/*
 * The list that follows from it: populated[id] has bit z set where zone z of node id has frames.
 * Writes at most nr_order * DECKLE_NR_ZONE_TYPES entries; returns how many.
 */
unsigned dk_zonelist_fallback(const uint16_t *order, unsigned nr_order, const uint8_t *populated,
                              struct dk_zoneref *list);

/* The zones of one node alone. */
unsigned dk_zonelist_nofallback(unsigned node, const uint8_t *populated, struct dk_zoneref *list);

/* The highest zone at or below `zone` among the existing (bit per zone), -1 if there is none. */
static inline int dk_zone_collapse(enum deckle_zone_type zone, uint32_t existing)
{
    int z = (int)zone;

    while (z >= 0 && !((existing >> z) & 1))
        z--;
    return z;
}

#endif
