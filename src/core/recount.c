/* SPDX-License-Identifier: MIT */
/*
 * What a dead client leaves half-done in a pageblock: frames of the line that are claimed and not
 * tagged, or untagged and not yet cleared; a count of W that includes reservations nobody will
 * claim, or frames whose bits are clear; a run that was not raised; an index that does not show the
 * block. Nobody can tell from W how much of it was whose. So the block is closed to takers
 * (QUARANTINE) and counted again:
 *
 *   1. no live intent names the block
 *   2. w = W. For each set bit: is the frame held, by a tag or as a hole or reserved?
 *   3. no live intent names the block
 *   4. clear the bits of frames that are not held, scan the runs
 *   5. CAS W from w to what was found; else again from 1
 *   6. the index
 *
 * Why it is right. Takers reserve by a CAS of W, after they have named the block: one that did so
 * before the block was closed has its slot still at 1, or is done; later ones fail. So from 1 on
 * nobody sets bits. Givers clear tags, then bits, then change W. One that was done before 2 is seen
 * entirely. One whose CAS of W comes between 2 and 5 makes 5 fail. One that began before 3 and has
 * not reached its CAS is seen at 3. One that begins after 3 clears tags and bits of frames that
 * were counted as held, and subtracts them itself, from the new count. So at 5 the frames found not
 * to be held are those that belong to nobody; clearing the bit of one that a giver has cleared
 * meanwhile does nothing, because no taker can have it again.
 *
 * Recounting is an operation like others: it has an intent of its own, so a reaper that dies in it
 * leaves the block to the next one. Repeating any step does no harm.
 *
 * Without intent. A give that finds no free slot must neither fail nor touch the bits: a recount
 * would take its frames for nobody's. It closes the block, takes the tags off its frames, and
 * changes W once more, so that a recount that has seen the tags starts again. Then they are
 * nobody's in fact. That takes more operations in flight than there are slots (64 for each
 * client that the pool may have).
 */
#include "core/recount.h"

#include "core/client.h"

#define RECOUNT_TRIES 16u

/* ---- closing --------------------------------------------------------------------------------- */

void dk_block_quarantine(struct deckle *d, const struct dk_span *span, uint32_t block)
{
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from;
    do
        from = w;
    while (!dk_cas(word, &w, dk_w_quarantined(w)));
    dk_index_move(d, span, block, from, dk_w_quarantined(from));
}

void dk_block_abandon(struct dk_call *c, const struct dk_span *span, uint32_t block, unsigned order,
                      const uint32_t *fis, unsigned n)
{
    dk_a32_store_release(&c->d->sb->abandoned, 1);
    dk_block_quarantine(c->d, span, block);
    dk_untag(c->d, order, fis, n);
    dk_block_quarantine(c->d, span, block);
}

/* ---- live intents ---------------------------------------------------------------------------- */

bool dk_intents_dead(const struct deckle *d, uint32_t client, uint32_t self)
{
    return client == self || !dk_client_is(d, client, DK_CLIENT_LIVE);
}

static bool is_named_live(const struct deckle *d, uint32_t block, uint32_t self,
                          const dk_aword *mine)
{
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_seq(&d->intents[i]);
        if (slot && dk_intent_block(slot) == block && &d->intents[i] != mine &&
            !dk_intents_dead(d, dk_intent_client(slot), self))
            return true;
    }
    return false;
}

struct dk_span *dk_span_of_any(const struct deckle *d, uint32_t block, struct dk_zone **zone)
{
    uint32_t number = block < d->sb->next_block ? dk_zone_of_block(d, block) : DK_NONE;
    if (number >= d->sb->nr_zones)
        return NULL;
    *zone = &d->zones[number];
    return dk_span_of_block(d, *zone, block);
}

/* ---- counting -------------------------------------------------------------------------------- */

static bool is_held(const struct deckle *d, uint32_t fi)
{
    uint8_t state = dk_a8_load_relaxed(&d->state[fi]);
    return dk_a8_load_acquire(&d->tags[fi]) || state == DK_STATE_HOLE || state == DK_STATE_RESERVED;
}

/* Bits of frames of the line that are set and held. */
static dk_word held_in_word(const struct deckle *d, uint32_t block, unsigned i)
{
    dk_word bits = dk_load_seq(&dk_line(d, block)[i]), held = 0;
    for (; bits; bits &= bits - 1) {
        unsigned bit = dk_ctz(bits);
        if (is_held(d, block * DK_BLOCK_FRAMES + i * DK_WORD_BITS + bit))
            held |= (dk_word)1 << bit;
    }
    return held;
}

static unsigned clear_lost(const struct deckle *d, uint32_t block,
                           const dk_word held[DK_LINE_WORDS])
{
    unsigned used = 0;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
        dk_and(&dk_line(d, block)[i], held[i]);
        used += dk_popcount(held[i]);
    }
    return used;
}

/* Steps 1 to 6, once. */
static bool count_once(struct dk_call *c, const struct dk_span *span, uint32_t block, uint32_t self)
{
    struct deckle *d = c->d;
    dk_word held[DK_LINE_WORDS], w, to;
    unsigned used = 0, code = DK_RUN_NONE;

    if (is_named_live(d, block, self, c->intent))
        return false;
    w = dk_load_seq(&d->words[block]);
    if (!(w & DK_W_QUARANTINE))
        return true;
    if (w & DK_W_WHOLE)
        used = dk_a8_load_acquire(&d->tags[block * DK_BLOCK_FRAMES]) ? DK_BLOCK_FRAMES : 0;
    for (unsigned i = 0; i < DK_LINE_WORDS && !(w & DK_W_WHOLE); i++)
        held[i] = held_in_word(d, block, i);
    if (is_named_live(d, block, self, c->intent))
        return false;
    if (!(w & DK_W_WHOLE)) {
        used = clear_lost(d, block, held);
        code = dk_line_run_code(dk_line(d, block));
    }
    to = dk_w_recounted(w, used, code);
    if (!dk_cas(&d->words[block], &w, to))
        return false;
    dk_zone_account(c, w, to);
    dk_index_move(d, span, block, w, to);
    return true;
}

bool dk_block_recount(struct deckle *d, uint32_t block, uint32_t self)
{
    struct dk_call c = {.d = d};
    struct dk_span *span = dk_span_of_any(d, block, &c.zone);
    bool done = false;
    if (!span)
        return true;
    c.set = dk_stat_set(d, c.zone->number);
    if (!dk_intent_open(d, &c.intent))
        return false;
    dk_intent_begin(c.intent, block);
    for (unsigned tries = 0; tries < RECOUNT_TRIES && !done; tries++)
        done = count_once(&c, span, block, self);
    dk_intent_close(c.intent);
    return done;
}
