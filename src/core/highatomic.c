/* SPDX-License-Identifier: MIT */
/*
 * The HighAtomic reserve shrinks (reference: 3.5): a block of it that has free frames becomes the
 * requester's type. Growing is in alloc.c, after a success with HIGHATOMIC.
 *
 * The block is looked up in the index, as a request would; W decides. Two threads may give back the
 * same block at once, which changes its type twice; or two blocks where one was meant: the reserve
 * is a preference, its counters stay exact.
 */
#include "core/alloc.h"
#include "core/index.h"
#include "core/pressure.h"
#include "core/zone_internal.h"
#include "policy/fallback.h"

static bool release_shown(struct deckle *d, struct dk_zone *zone, const struct dk_span *span,
                          uint32_t tree, unsigned type)
{
    uint32_t start = 0, item;
    while ((item = dk_index_find(d, span, tree, start, span->nr_blocks)) != DK_NONE) {
        uint32_t block = span->first_block + item;
        dk_word w = dk_load_seq(&d->words[block]);
        if (dk_w_type(w) == DECKLE_HIGHATOMIC && !(w & DK_W_SHUT) &&
            dk_zone_set_type(d, zone, block, type)) {
            dk_count(d, DK_EVENT_HIGHATOMIC_RELEASE, 1);
            return true;
        }
        dk_index_repair(d, span, tree, item);
        start = item + 1;
    }
    return false;
}

static bool release_in(struct deckle *d, struct dk_zone *zone, unsigned type)
{
    DK_FOR_EACH_SPAN(d, zone, span)
        for (unsigned run = DK_BLOCK_ORDER + 1; run-- > 0;) {
            uint32_t tree = dk_class(DECKLE_HIGHATOMIC, run, false);
            if (dk_index_root_shows(d, span, tree) && release_shown(d, zone, span, tree, type))
                return true;
        }
    return false;
}

bool dk_highatomic_release(struct dk_request *r, bool force)
{
    struct dk_zonelist_walk walk;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk))
        if (dk_highatomic_may_release(dk_zone_count(r->d, zone, DK_COUNT_HIGHATOMIC),
                                      DK_BLOCK_FRAMES, force) &&
            release_in(r->d, zone, r->type))
            return true;
    return false;
}
