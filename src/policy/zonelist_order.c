/* SPDX-License-Identifier: MIT */
/* Order of nodes and zones; the rules are at the head of zonelist_order.h. */
#include "policy/zonelist_order.h"

struct candidate {
    uint64_t distance; /* with penalties */
    uint32_t load;
};

static bool better(struct candidate a, struct candidate b)
{
    return a.distance != b.distance ? a.distance < b.distance : a.load < b.load;
}

/* The best unused node with memory; nr_nodes if there is none. */
static unsigned next_best(unsigned node, unsigned nr_nodes, const struct dk_node_view *view,
                          const uint32_t *load)
{
    struct candidate best = {UINT64_MAX, UINT32_MAX};
    unsigned found = nr_nodes;

    if (view[node].has_memory && !view[node].used)
        return node;
    for (unsigned id = 0; id < nr_nodes; id++) {
        struct candidate this = {(uint64_t)view[id].distance + (id < node) + view[id].has_cpus,
                                 load[id]};

        if (view[id].has_memory && !view[id].used && better(this, best)) {
            best = this;
            found = id;
        }
    }
    return found;
}

unsigned dk_node_order(unsigned node, unsigned nr_nodes, struct dk_node_view *view, uint32_t *load,
                       uint16_t *order)
{
    uint32_t previous = view[node].distance;
    unsigned nr = 0;

    for (unsigned id = 0; id < nr_nodes; id++)
        view[id].used = false;
    for (;;) {
        unsigned id = next_best(node, nr_nodes, view, load);

        if (id == nr_nodes)
            return nr;
        view[id].used = true;
        if (view[id].distance != previous)
            load[id]++;
        previous = view[id].distance;
        order[nr++] = (uint16_t)id;
    }
}

unsigned dk_zonelist_nofallback(unsigned node, const uint8_t *populated, struct dk_zoneref *list)
{
    unsigned nr = 0;

    for (unsigned zone = DECKLE_NR_ZONE_TYPES; zone-- > 0;) {
        if ((populated[node] >> zone) & 1)
            list[nr++] = (struct dk_zoneref){(uint16_t)node, (uint8_t)zone};
    }
    return nr;
}

unsigned dk_zonelist_fallback(const uint16_t *order, unsigned nr_order, const uint8_t *populated,
                              struct dk_zoneref *list)
{
    unsigned nr = 0;

    for (unsigned i = 0; i < nr_order; i++)
        nr += dk_zonelist_nofallback(order[i], populated, list + nr);
    return nr;
}
