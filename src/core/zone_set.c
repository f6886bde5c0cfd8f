/* SPDX-License-Identifier: MIT */
/*
 * The shared level for those who name the frames: a block at a given place, a whole block that will
 * be freed in pieces, types of pageblocks, isolation, first publication. Protocols as in zone.c.
 */
#include "core/client.h"
#include "core/zone_internal.h"

static int work_at(struct dk_call *c, uint32_t fi, unsigned order)
{
    struct deckle *d = c->d;
    uint32_t block = fi / DK_BLOCK_FRAMES;
    const struct dk_span *span = dk_span_of_block(d, c->zone, block);
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from, to;
    do {
        if ((w & (DK_W_SHUT & ~DK_W_ISOLATED)) || dk_w_free(w) < 1u << order)
            return DECKLE_EBUSY;
        from = w;
        to = dk_w_reserve(w, 1u << order);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(c, from, to);
    dk_index_move(d, span, block, from, to);
    bool rolled_back = false;
    if (dk_line_claim_at(dk_line(d, block), fi % DK_BLOCK_FRAMES, order, &rolled_back)) {
        dk_tag(d, order, &fi, 1);
        return DECKLE_OK;
    }
    dk_block_give(c, span, block, 1u << order);
    return DECKLE_EBUSY;
}

static int take_frames_at(struct dk_call *c, uint32_t fi, unsigned order)
{
    dk_intent_begin(c->intent, fi / DK_BLOCK_FRAMES);
    int err = work_at(c, fi, order);
    dk_intent_end(c->intent);
    return err;
}

static int take_blocks_at(struct dk_call *c, uint32_t first, uint32_t n, uint32_t type)
{
    const struct dk_span *span = dk_span_of_block(c->d, c->zone, first);
    if (!span || n > span->nr_blocks - (first - span->first_block))
        return DECKLE_EBUSY;
    for (uint32_t i = 0; i < n; i++) {
        if (dk_block_take_whole(c, span, first + i, type, true))
            continue;
        while (i-- > 0)
            dk_block_give_whole(c, span, first + i);
        return DECKLE_EBUSY;
    }
    return DECKLE_OK;
}

int dk_zone_take_at(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, uint32_t fi,
                    unsigned order, uint32_t type)
{
    struct dk_call c = {d, zone, set, NULL, NULL};
    if (!dk_intent_open(d, &c.intent))
        return DECKLE_ECONTENDED;
    int err = order < DK_BLOCK_ORDER
                  ? take_frames_at(&c, fi, order)
                  : take_blocks_at(&c, fi / DK_BLOCK_FRAMES, 1u << (order - DK_BLOCK_ORDER), type);
    dk_intent_close(c.intent);
    return err;
}

/* All tags and bits first, then WHOLE off: only after that may pieces be freed, and the frees are
 * made by the owner or by those it tells, so they come after. No intent: if the owner dies half-way
 * the block is still whole and its own, and its reaper clears what was set (reap.c). */
void dk_zone_split_whole(struct deckle *d, uint32_t fi)
{
    uint32_t block = fi / DK_BLOCK_FRAMES;
    dk_aword *line = dk_line(d, block), *word = &d->words[block];
    dk_word w = dk_load_seq(word);
    if (!(w & DK_W_WHOLE))
        return;
    uint32_t first = block * DK_BLOCK_FRAMES;
    dk_tag(d, DK_BLOCK_ORDER - 1, &first, 1);
    first += DK_BLOCK_FRAMES / 2;
    dk_tag(d, DK_BLOCK_ORDER - 1, &first, 1);
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        dk_store_release(&line[i], ~(dk_word)0);
    while (!dk_cas(word, &w, (w & ~DK_W_WHOLE) + DK_W_VERSION_ONE))
        ;
}

bool dk_zone_set_type(struct deckle *d, struct dk_zone *zone, uint32_t block, unsigned type)
{
    struct dk_call c = {d, zone, dk_stat_set(d, zone->number), NULL, NULL};
    const struct dk_span *span = dk_span_of_block(d, zone, block);
    dk_aword *word = &d->words[block];
    dk_word from, to;
    if (!span || !dk_intent_open(d, &c.intent))
        return false;
    dk_intent_begin(c.intent, block);
    dk_word w = dk_load_seq(word);
    do {
        if (w & DK_W_OFFLINE) {
            dk_intent_close(c.intent);
            return false;
        }
        from = w;
        to = dk_w_with_type(w & ~DK_W_OWNED, type);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(&c, from, to);
    dk_index_move(d, span, block, from, to);
    dk_intent_close(c.intent);
    return true;
}

bool dk_zone_isolate(struct deckle *d, struct dk_zone *zone, uint32_t block, bool isolate)
{
    struct dk_call c = {d, zone, dk_stat_set(d, zone->number), NULL, NULL};
    const struct dk_span *span = dk_span_of_block(d, zone, block);
    dk_aword *word = &d->words[block];
    dk_word from, to;
    if (!span || !dk_intent_open(d, &c.intent))
        return false;
    dk_intent_begin(c.intent, block);
    dk_word w = dk_load_seq(word);
    do {
        if ((w & DK_W_OFFLINE) || isolate == ((w & DK_W_ISOLATED) != 0)) {
            dk_intent_close(c.intent);
            return false;
        }
        from = w;
        to = (w ^ DK_W_ISOLATED) + DK_W_VERSION_ONE;
    } while (!dk_cas(word, &w, to));
    dk_zone_account(&c, from, to);
    dk_index_move(d, span, block, from, to);
    dk_intent_close(c.intent);
    return true;
}

void dk_zone_init_block(struct deckle *d, struct dk_span *span, uint32_t block, dk_word w)
{
    dk_store_release(&d->words[block], w);
    dk_index_move(d, span, block, 0, w);
}
