/* SPDX-License-Identifier: MIT */
/*
 * Nothing fits: what a search that found nothing may say of the shared level of its zone. EMPTY is
 * said only after all trees that could serve read empty twice with equal versions (index.c); a look
 * costs the roots, and the words along the ends of an address limit.
 */
#include "core/zone_internal.h"

static bool tree_empty(struct dk_call *c, uint32_t tree, uint64_t *version)
{
    bool group = tree >= DK_GROUP_BASE;
    unsigned shift = group ? c->take->order - DK_BLOCK_ORDER : 0;
    DK_FOR_EACH_WINDOW(c, w) {
        uint32_t base = w.span->first_block;
        uint32_t lo = ((base + w.first) >> shift) - (base >> shift);
        uint32_t hi = w.whole == w.span->nr_blocks ? UINT32_MAX
                                                   : ((base + w.whole) >> shift) - (base >> shift);
        if (!dk_index_empty(c->d, w.span, tree, lo, hi, version))
            return false;
    }
    return true;
}

/* The block that the address limit cuts: no run below the limit, and W unchanged, is as good as
 * empty. */
static bool cut_blocks_empty(struct dk_call *c, uint64_t *version)
{
    DK_FOR_EACH_WINDOW(c, w) {
        if (!w.partial)
            continue;
        uint32_t block = w.span->first_block + w.whole;
        dk_word v = dk_load_seq(&c->d->words[block]);
        *version += v;
        if (!(v & DK_W_SHUT) && dk_runs_below(c, block, w.partial))
            return false;
    }
    return true;
}

static bool type_fits(const struct dk_take *take, unsigned type)
{
    if (type == DECKLE_CMA)
        return take->flags & DK_ALLOC_CMA;
    if (type == DECKLE_HIGHATOMIC)
        return dk_alloc_highatomic_first(take->flags) || dk_alloc_highatomic_last(take->flags);
    return type == take->type || !(take->flags & DK_ALLOC_NOFRAGMENT);
}

/* Without a limit the roots say it. The trees of a type, largest run first, are neighbours. */
static bool roots_show_nothing(struct dk_call *c, uint64_t *version)
{
    unsigned order = c->take->order;
    DK_FOR_EACH_SPAN(c->d, c->zone, span) {
        if (order > DK_BLOCK_ORDER &&
            !dk_index_roots_empty(c->d, span, dk_group_class(order), 1, version))
            return false;
        for (unsigned type = 0; type <= DECKLE_CMA && order <= DK_BLOCK_ORDER; type++) {
            uint32_t tree = dk_class(type, DK_BLOCK_ORDER, false), nr = DK_RUNS - order;
            if (!type_fits(c->take, type))
                continue;
            if (!dk_index_roots_empty(c->d, span, tree, nr, version) ||
                (type < DK_PCP_TYPES &&
                 !dk_index_roots_empty(c->d, span, tree + DK_OWNED_BASE, nr, version)))
                return false;
        }
    }
    return true;
}

static bool nothing_shown(struct dk_call *c, uint64_t *version)
{
    unsigned order = c->take->order;
    if (!c->take->limit_pfn)
        return roots_show_nothing(c, version);
    if (order > DK_BLOCK_ORDER)
        return tree_empty(c, dk_group_class(order), version);
    for (unsigned type = 0; type <= DECKLE_CMA; type++) {
        for (unsigned run = order; type_fits(c->take, type) && run <= DK_BLOCK_ORDER; run++) {
            if (!tree_empty(c, dk_class(type, run, false), version))
                return false;
            if (type < DK_PCP_TYPES && !tree_empty(c, dk_class(type, run, true), version))
                return false;
        }
    }
    return order == DK_BLOCK_ORDER || cut_blocks_empty(c, version);
}

/* Contract rule 6: twice, with the same versions. */
bool dk_zone_was_empty(struct dk_call *c)
{
    uint64_t first = 0, second = 0;
    return nothing_shown(c, &first) && nothing_shown(c, &second) && first == second;
}

bool dk_zone_shows_nothing(struct deckle *d, struct dk_zone *zone, const struct dk_take *take,
                           uint64_t *version)
{
    struct dk_call c = {d, zone, NULL, take, NULL};
    return nothing_shown(&c, version);
}
