/* SPDX-License-Identifier: MIT */
/*
 * Whole pageblocks, and groups of 2^j pageblocks for the orders above.
 *
 * A pageblock is taken as a whole by one CAS of W from "nothing used" to "WHOLE, all used"; its
 * bits stay clear. That state proves that no operation is in flight in the block (zone.c), so
 * nobody else touches the bits until WHOLE is dropped. Giving back is the reverse, with a new
 * version.
 *
 * A group is taken block by block in ascending order; if one is lost, those taken are given back.
 * Of two takers that overlap, one gets all of the smaller group or both lose to a third that got a
 * block, so somebody always succeeds. While a taker is half-way, its blocks are frames of an
 * unfinished operation in the sense of contract rule 6.
 *
 * The index shows a group (a tree per order) when all its blocks are free whole and of a cached
 * type; the types need not be equal, for a whole block may change its type when it is taken.
 */
#include "core/client.h"
#include "core/zone_internal.h"

#define GROUP_TRIES 64u

/* May a whole block change its type when it is taken? Only among the types that have lists. Asked
 * of the W that is replaced: the caller's look at the type may be older than a change of it. */
static bool may_become(dk_word w, uint32_t type)
{
    return type == DK_NONE || dk_w_type(w) == type ||
           (dk_w_type(w) < DECKLE_NR_PCP_TYPES && type < DECKLE_NR_PCP_TYPES);
}

bool dk_block_take_whole(struct dk_call *c, const struct dk_span *span, uint32_t block,
                         uint32_t type, bool isolated)
{
    dk_word shut = isolated ? DK_W_SHUT & ~DK_W_ISOLATED : DK_W_SHUT;
    dk_aword *word = &c->d->words[block];
    uint32_t first = block * DK_BLOCK_FRAMES;
    dk_intent_begin(c->intent, block);
    dk_word w = dk_load_seq(word), from, to;
    do {
        if (dk_w_used(w) || (w & shut) || !may_become(w, type)) {
            dk_intent_end(c->intent);
            return false;
        }
        from = w;
        to = dk_w_take_whole(w, type == DK_NONE ? dk_w_type(w) : type);
    } while (!dk_cas(word, &w, to));
    dk_tag(c->d, DK_BLOCK_ORDER, &first, 1);
    dk_zone_account(c, from, to);
    dk_index_move(c->d, span, block, from, to);
    dk_intent_end(c->intent);
    return true;
}

void dk_block_give_whole(struct dk_call *c, const struct dk_span *span, uint32_t block)
{
    dk_aword *word = &c->d->words[block];
    uint32_t first = block * DK_BLOCK_FRAMES;
    if (!dk_intent_named(c, block)) {
        dk_block_abandon(c, span, block, DK_BLOCK_ORDER, &first, 1);
        return;
    }
    dk_untag(c->d, DK_BLOCK_ORDER, &first, 1);
    dk_word w = dk_load_relaxed(word), from, to;
    do {
        from = w;
        to = dk_w_give_whole(w);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(c, from, to);
    dk_index_move(c->d, span, block, from, to);
    dk_intent_end(c->intent);
}

static bool take_group(struct dk_call *c, const struct dk_span *span, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (dk_block_take_whole(c, span, first + i, c->take->type, false))
            continue;
        while (i-- > 0)
            dk_block_give_whole(c, span, first + i);
        return false;
    }
    return true;
}

static unsigned take_groups_in(struct dk_call *c, const struct dk_window *w, uint32_t *fis,
                               unsigned want)
{
    unsigned shift = c->take->order - DK_BLOCK_ORDER, got = 0;
    uint32_t tree = dk_group_class(c->take->order), base = w->span->first_block >> shift;
    uint32_t start = ((w->span->first_block + w->first + (1u << shift) - 1) >> shift) - base;
    uint32_t limit = ((w->span->first_block + w->whole) >> shift) - base;
    for (unsigned tries = 0; tries < GROUP_TRIES && got < want; tries++) {
        uint32_t item = dk_index_find(c->d, w->span, tree, start, limit);
        if (item == DK_NONE)
            break;
        uint32_t first = (base + item) << shift;
        if (take_group(c, w->span, first, 1u << shift)) {
            fis[got++] = first * DK_BLOCK_FRAMES;
            tries = 0;
        } else {
            dk_index_repair(c->d, w->span, tree, item);
            start = item + 1;
        }
    }
    return got;
}

unsigned dk_group_take(struct dk_call *c, uint32_t *fis, unsigned want)
{
    unsigned got = 0;
    DK_FOR_EACH_WINDOW(c, w)
        if ((got = take_groups_in(c, &w, fis, want)))
            break;
    return got;
}
