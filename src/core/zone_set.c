/* SPDX-License-Identifier: MIT */
/*
 * The shared level for those who name the frames: a block at a given place, a whole block that will
 * be freed in pieces, types of pageblocks, isolation, first publication. Protocols as in zone.c.
 */
#include "core/zone_internal.h"

static int take_frames_at(struct dk_call *c, uint32_t fi, unsigned order)
{
    struct deckle *d = c->d;
    uint32_t block = fi / DK_BLOCK_FRAMES;
    const struct dk_span *span = dk_span_of_block(d, c->zone, block);
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from, to;
    do {
        if ((w & (DK_W_WHOLE | DK_W_OFFLINE)) || dk_w_free(w) < 1u << order)
            return DECKLE_EBUSY;
        from = w;
        to = dk_w_reserve(w, 1u << order);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(c->zone, c->set, from, to);
    dk_index_move(d, span, block, from, to);
    bool rolled_back = false;
    if (dk_line_claim_at(dk_line(d, block), fi % DK_BLOCK_FRAMES, order, &rolled_back))
        return DECKLE_OK;
    dk_block_give(c, span, block, 1u << order);
    return DECKLE_EBUSY;
}

int dk_zone_take_at(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, uint32_t fi,
                    unsigned order, uint32_t type)
{
    struct dk_call c = {d, zone, set, NULL};
    if (order < DK_BLOCK_ORDER)
        return take_frames_at(&c, fi, order);
    uint32_t first = fi / DK_BLOCK_FRAMES, n = 1u << (order - DK_BLOCK_ORDER);
    const struct dk_span *span = dk_span_of_block(d, zone, first);
    if (!span || n > span->nr_blocks - (first - span->first_block))
        return DECKLE_EBUSY;
    for (uint32_t i = 0; i < n; i++) {
        if (dk_block_take_whole(&c, span, first + i, type, true))
            continue;
        while (i-- > 0)
            dk_block_give_whole(&c, span, first + i);
        return DECKLE_EBUSY;
    }
    return DECKLE_OK;
}

/* All bits first, then WHOLE off: only after that may pieces be freed, and the frees are made by
 * the owner or by those it tells, so they come after. */
void dk_zone_split_whole(struct deckle *d, uint32_t fi)
{
    uint32_t block = fi / DK_BLOCK_FRAMES;
    dk_aword *line = dk_line(d, block), *word = &d->words[block];
    dk_word w = dk_load_seq(word);
    if (!(w & DK_W_WHOLE))
        return;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        dk_store_release(&line[i], ~(dk_word)0);
    while (!dk_cas(word, &w, (w & ~DK_W_WHOLE) + DK_W_VERSION_ONE))
        ;
}

/* Frames of CMA pageblocks, holes among them included, as online.c counts them. */
static void count_cma(struct dk_zone *zone, dk_word from, dk_word to)
{
    dk_word blocks = (dk_word)(dk_w_type(to) == DECKLE_CMA) -
                     (dk_word)(dk_w_type(from) == DECKLE_CMA);
    if (blocks)
        dk_add_relaxed(&zone->cma, blocks * DK_BLOCK_FRAMES);
}

bool dk_zone_set_type(struct deckle *d, struct dk_zone *zone, uint32_t block, unsigned type)
{
    const struct dk_span *span = dk_span_of_block(d, zone, block);
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from, to;
    do {
        if (!span || (w & DK_W_OFFLINE))
            return false;
        from = w;
        to = dk_w_with_type(w & ~DK_W_OWNED, type);
    } while (!dk_cas(word, &w, to));
    count_cma(zone, from, to);
    dk_zone_account(zone, dk_stat_set(d, zone->number), from, to);
    dk_index_move(d, span, block, from, to);
    return true;
}

bool dk_zone_isolate(struct deckle *d, struct dk_zone *zone, uint32_t block, bool isolate)
{
    const struct dk_span *span = dk_span_of_block(d, zone, block);
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from, to;
    do {
        if (!span || (w & DK_W_OFFLINE) || isolate == ((w & DK_W_ISOLATED) != 0))
            return false;
        from = w;
        to = (w ^ DK_W_ISOLATED) + DK_W_VERSION_ONE;
    } while (!dk_cas(word, &w, to));
    dk_zone_account(zone, dk_stat_set(d, zone->number), from, to);
    dk_index_move(d, span, block, from, to);
    return true;
}

void dk_zone_init_block(struct deckle *d, struct dk_span *span, uint32_t block, dk_word w)
{
    dk_store_release(&d->words[block], w);
    dk_index_move(d, span, block, 0, w);
}
