/* SPDX-License-Identifier: MIT */
/*
 * Zonelists: in which order a request looks at the zones. Every node has two, "fallback" (all
 * nodes, nearest first) and "no fallback" (its own zones only, for THISNODE); inside a node from
 * the highest zone type down; only populated zones (reference: 3.2). The order of the nodes is
 * policy/zonelist_order.h.
 *
 * Lists are rebuilt when memory comes or goes, while others allocate. There are two copies: set-up
 * fills the one that is not current and then advances the epoch, whose lowest bit says which is. A
 * reader that overlaps one rebuild walks a whole list, old or new; only after two of them may it
 * meet entries of both. So whoever is about to fail compares dk_zonelist_epoch() with the value at
 * its start, and searches again if it moved; a set-up stopped half-way leaves the current copy
 * alone and delays nobody.
 *
 * The walk is a function of its own, small and inline, so that its cost can be measured by leaving
 * it out.
 */
#ifndef DK_CORE_ZONELIST_H
#define DK_CORE_ZONELIST_H

#include "core/ablation.h"
#include "core/layout.h"

#if DK_WALK_IS_INLINE
#define DK_WALK DK_INLINE
#else
#define DK_WALK static DK_NOINLINE __attribute__((unused))
#endif

enum dk_zonelist_kind { DK_ZONELIST_FALLBACK, DK_ZONELIST_NOFALLBACK };

struct dk_zonelist_walk {
    const struct dk_zonelist *list;
    uint64_t nodemask; /* bit per node id */
    uint32_t highest;  /* enum deckle_zone_type */
    uint32_t next;
    uint32_t nr;
};

static inline uint32_t dk_zonelist_epoch(const struct deckle *d)
{
    return dk_a32_load_acquire(&d->sb->zonelist_epoch);
}

/* node must be below nr_nodes. */
DK_INLINE const struct dk_zonelist *dk_zonelist(const struct deckle *d, uint32_t node,
                                                enum dk_zonelist_kind kind)
{
    uint32_t copy = dk_zonelist_epoch(d) & 1;

    return &d->zonelists[((size_t)copy * d->sb->nr_nodes + node) * 2 + (unsigned)kind];
}

/* The next zone that fits, NULL at the end. */
DK_WALK struct dk_zone *dk_zonelist_next(const struct deckle *d, struct dk_zonelist_walk *w)
{
    while (w->next < w->nr) {
        uint32_t number = dk_a32_load_relaxed(&w->list->zone[w->next++]);

        if (dk_unlikely(number >= d->sb->nr_zones))
            continue;
        struct dk_zone *zone = &d->zones[number];
        if (zone->type <= w->highest && (w->nodemask >> zone->node & 1))
            return zone;
    }
    return NULL;
}

/*
 * Begin a walk; returns the preferred zone: the first whose type is at most `highest` and whose
 * node is in the mask (bit per node id; 0 = all). NULL: no zone fits.
 */
DK_WALK struct dk_zone *dk_zonelist_first(const struct deckle *d, const struct dk_zonelist *list,
                                          uint32_t highest, uint64_t nodemask,
                                          struct dk_zonelist_walk *w)
{
    uint32_t nr = dk_a32_load_acquire(&list->nr);

    w->list = list;
    w->nodemask = nodemask ? nodemask : UINT64_MAX;
    w->highest = highest;
    w->next = 0;
    w->nr = nr < DECKLE_MAX_ZONES ? nr : DECKLE_MAX_ZONES;
    return dk_zonelist_next(d, w);
}

/* The handle's fast_zone, from the current lists. */
void dk_zonelists_follow(struct deckle *d);

/* Set-up: all lists anew, from the zones that are populated now, and the handle's fast_zone. */
void dk_zonelists_rebuild(struct deckle *d);

#endif
