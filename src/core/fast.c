/* SPDX-License-Identifier: MIT */
/*
 * The tables of the fast paths. Only pools with stacks have them: with atomic cells a call more
 * does not matter.
 *
 * Each entry is one word and right by itself, so readers need no agreement between them: one that
 * still sees an older table acts as a request that began before the change. main_list is written
 * before fast_nr is first set, and never changes afterwards: the main section keeps its zone.
 */
#include "core/fast.h"

#include "policy/gfp.h"

static dk_word list_of_cpu0(const struct deckle *d, uint32_t zone, unsigned order, unsigned type)
{
    return (uintptr_t)dk_set(d, zone, 0) + d->list_off[dk_pcp_list(order, type)];
}

/* All 0 while anything at all asks for the general path. */
static void fill_row(struct deckle *d, unsigned zone_type, unsigned type)
{
    uint32_t zone = dk_a32_load_relaxed(&d->fast_zone[zone_type]);
    bool open = d->kind == DK_PCP_RSEQ && zone != DK_NONE && !dk_a32_load_relaxed(&d->slow);
    dk_aword *row = d->fast_list[zone_type * DK_PCP_TYPES + type];

    for (unsigned order = 0; order <= DK_PCP_MAX_ORDER; order++)
        dk_store_release(&row[order], open ? list_of_cpu0(d, zone, order, type) : 0);
}

static void name_rows(struct deckle *d)
{
    for (unsigned flags = 0; flags < DK_ARRAY_LEN(d->fast_row); flags++) {
        unsigned place = dk_gfp_place(flags), row = DK_FAST_ROWS - 1;

        if (place != DK_PLACE_ILLEGAL)
            row = (place & DK_PLACE_ZONE) * DK_PCP_TYPES + (place >> 5);
        d->fast_row[flags] = d->fast_list[row];
    }
}

static void fill_main(struct deckle *d)
{
    bool open = d->kind == DK_PCP_RSEQ && d->main_zone != DK_NONE &&
                !(dk_a32_load_relaxed(&d->slow) & DK_SLOW_FREE);

    for (unsigned type = 0; type < DK_PCP_TYPES && open; type++)
        for (unsigned order = 0; order <= DK_PCP_MAX_ORDER; order++)
            dk_store_release(&d->main_list[type][order],
                             list_of_cpu0(d, d->main_zone, order, type));
    dk_store_release(&d->fast_nr, open ? dk_load_relaxed(&d->main_nr) : 0);
}

void dk_fast_update(struct deckle *d)
{
    if (!d->fast_row[0]) /* once: requests read it */
        name_rows(d);
    for (unsigned zone_type = 0; zone_type < DECKLE_NR_ZONE_TYPES; zone_type++)
        for (unsigned type = 0; type < DK_PCP_TYPES; type++)
            fill_row(d, zone_type, type);
    fill_main(d);
}
