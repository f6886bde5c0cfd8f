/* SPDX-License-Identifier: MIT */
/* Rebuilding the zonelists; what readers rely on is at the head of zonelist.h. */
#include "core/zonelist.h"

#include "core/fast.h"
#include "core/node.h"
#include "policy/zonelist_order.h"

/* Bit per zone type with frames, by node. */
static void note_populated(const struct deckle *d, uint8_t populated[DECKLE_MAX_NODES])
{
    for (uint32_t node = 0; node < d->sb->nr_nodes; node++)
        populated[node] = 0;
    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        if (dk_zone_is_populated(&d->zones[i]))
            populated[d->zones[i].node] |= (uint8_t)(1u << d->zones[i].type);
}

/* The zones of a node behind what the list has, from the highest type down. */
static uint32_t append_node(const struct deckle *d, struct dk_zonelist *list, uint32_t nr,
                            uint32_t node, const uint8_t *populated)
{
    struct dk_zoneref refs[DECKLE_NR_ZONE_TYPES];
    unsigned n = dk_zonelist_nofallback(node, populated, refs);

    for (unsigned i = 0; i < n; i++)
        dk_a32_store_relaxed(&list->zone[nr + i], d->sb->zone_of[node][refs[i].zone] - 1);
    return nr + n;
}

static void build_fallback(const struct deckle *d, uint32_t node, const uint8_t *populated,
                           struct dk_zonelist *list)
{
    struct dk_superblock *sb = d->sb;
    uint16_t order[DECKLE_MAX_NODES];
    uint32_t nr = 0;

    for (uint32_t id = 0; id < sb->nr_nodes; id++)
        sb->node_view[id].distance = dk_node_distance(d, node, id);
    unsigned nodes = dk_node_order(node, sb->nr_nodes, sb->node_view, sb->node_load, order);
    for (unsigned i = 0; i < nodes; i++)
        nr = append_node(d, list, nr, order[i], populated);
    dk_a32_store_release(&list->nr, nr);
}

static void build_lists(const struct deckle *d, struct dk_zonelist *copy)
{
    struct dk_superblock *sb = d->sb;
    uint8_t populated[DECKLE_MAX_NODES];
    uint64_t cpus = dk_nodes_with_cpus(d);

    note_populated(d, populated);
    for (uint32_t node = 0; node < sb->nr_nodes; node++) {
        sb->node_view[node].has_memory = populated[node] != 0;
        sb->node_view[node].has_cpus = cpus >> node & 1;
        sb->node_load[node] = 0;
    }
    for (uint32_t node = 0; node < sb->nr_nodes; node++) {
        struct dk_zonelist *lists = &copy[2 * (size_t)node];
        build_fallback(d, node, populated, &lists[DK_ZONELIST_FALLBACK]);
        uint32_t nr = append_node(d, &lists[DK_ZONELIST_NOFALLBACK], 0, node, populated);
        dk_a32_store_release(&lists[DK_ZONELIST_NOFALLBACK].nr, nr);
    }
}

/* On a pool of one node the preferred zone depends on the request's highest zone alone. */
void dk_zonelists_follow(struct deckle *d)
{
    for (uint32_t type = 0; type < DK_ARRAY_LEN(d->fast_zone); type++) {
        struct dk_zonelist_walk walk;
        const struct dk_zone *zone = NULL;

        if (d->sb->nr_nodes == 1 && type < DECKLE_NR_ZONE_TYPES)
            zone = dk_zonelist_first(d, dk_zonelist(d, 0, DK_ZONELIST_FALLBACK), type, 0, &walk);
        dk_a32_store_release(&d->fast_zone[type], zone ? zone->number : DK_NONE);
    }
    dk_fast_update(d);
}

void dk_zonelists_rebuild(struct deckle *d)
{
    uint32_t epoch = dk_zonelist_epoch(d) + 1;

    build_lists(d, &d->zonelists[(size_t)(epoch & 1) * d->sb->nr_nodes * 2]);
    dk_a32_exchange(&d->sb->zonelist_epoch, epoch);
    dk_zonelists_follow(d);
}
