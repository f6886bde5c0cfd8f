/* SPDX-License-Identifier: MIT */
/*
 * Shared pools: taking over frames that another client has in a cell of the caches. B meets
 * {f, A}:
 *
 *   1. the cell becomes {f, B, from A} by CAS: in transit, which everybody but B and reapers leaves
 *      alone
 *   2. for each frame of the block: CAS its tag from A to B; only frames that are won are B's
 *   3. the cell becomes empty, and then what was won is given back
 *
 * A cannot have these frames, because its cell was full. Who competes for the tags are reapers: of
 * A, or of B when B is dead. A reaper R that meets a cell in transit makes it {f, R, from A} and
 * does 2 and 3 itself; each frame goes to whoever won its tag. So that step 2 means the same A
 * throughout, B holds an intent "from A" from before 1 to after 2, and the number A is not used
 * again before it ends. And frames of a cell in transit are given to nobody before the cell is
 * empty: else A, alive, could get one again, and a reaper of B would find A's tag on a frame of the
 * cell and take it for one that was in it.
 */
#include "core/client.h"
#include "core/intent.h"
#include "core/check.h"
#include "core/pcp_internal.h"

/* The parts of a block that have a tag of their own: frames, or whole pageblocks. */
static unsigned part_order(unsigned order)
{
    return order < DK_BLOCK_ORDER ? 0 : DK_BLOCK_ORDER;
}

#define MOST_PARTS (1u << (DK_BLOCK_ORDER - 1))

/* Step 2. A bit in won for each part; returns how many. */
static unsigned win_tags(struct deckle *d, uint32_t fi, unsigned order, uint32_t from,
                         uint64_t won[MOST_PARTS / 64])
{
    unsigned step = part_order(order), parts = 1u << (order - step), n = 0;
    for (unsigned i = 0; i < MOST_PARTS / 64; i++)
        won[i] = 0;
    for (unsigned i = 0; i < parts; i++) {
        uint8_t tag = (uint8_t)from;
        if (dk_a8_cas(&d->tags[fi + (i << step)], &tag, (uint8_t)d->client)) {
            won[i / 64] |= (uint64_t)1 << i % 64;
            n++;
        }
    }
    return n;
}

/* What was won of a block, but not all of it. */
static void give_parts(struct deckle *d, struct dk_zone *zone, uint32_t fi, unsigned order,
                       const uint64_t won[MOST_PARTS / 64])
{
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    unsigned step = part_order(order);
    for (unsigned i = 0; i < 1u << (order - step); i++) {
        uint32_t part = fi + (i << step);
        if (won[i / 64] >> i % 64 & 1)
            dk_zone_give(d, zone, set, step, &part, 1);
    }
}

bool dk_cell_is_sound(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                      dk_word cell)
{
    uint32_t fi = dk_cell_frame(cell), block = fi / DK_BLOCK_FRAMES;
    return dk_client_at(d, dk_cell_client(cell)) && order <= d->max_order &&
           !(fi & ((1u << order) - 1)) && block < d->sb->next_block &&
           dk_zone_of_block(d, block) == zone->number;
}

uint64_t dk_cells_finish_transit(struct deckle *d, struct dk_zone *zone, unsigned list,
                                 dk_aword *at, dk_word transit, dk_aword *intent)
{
    unsigned order = dk_list_order(list), step = part_order(order);
    uint32_t fi = dk_cell_frame(transit);
    uint64_t won[MOST_PARTS / 64];
    unsigned n = win_tags(d, fi, order, dk_cell_from(transit), won);

    dk_cas(at, &transit, dk_cell_emptied(transit));
    dk_intent_close(intent);
    if (n == 1u << (order - step))
        dk_pcp_give(d, zone, list, &fi, 1);
    else
        give_parts(d, zone, fi, order, won);
    return (uint64_t)n << step;
}

bool dk_cells_steal(struct deckle *d, struct dk_zone *zone, struct dk_pcp_list_head *lh,
                    unsigned list, dk_aword *at, dk_word cell, uint64_t *moved)
{
    uint32_t from = dk_cell_client(cell);
    dk_aword *intent;

    if (dk_cell_from(cell))
        return true; /* in somebody's hands */
    if (!d->tags || !dk_cell_is_sound(d, zone, dk_list_order(list), cell)) {
        if (dk_cas(at, &cell, dk_cell_emptied(cell)))
            dk_bad_state(d, dk_cell_frame(cell), dk_list_order(list));
        return true;
    }
    if (!dk_intent_open_for(d, &intent, from))
        return false;
    dk_word transit = dk_cell_with_whose(cell, d->client, from);
    if (!dk_cas(at, &cell, transit)) {
        dk_intent_close(intent);
        return true; /* popped; if it was filled again, that push is somebody else's to find */
    }
    dk_counter_add(&lh->drained, 1);
    *moved += dk_cells_finish_transit(d, zone, list, at, transit, intent);
    return true;
}
