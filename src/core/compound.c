/* SPDX-License-Identifier: MIT */
/*
 * References to blocks, and blocks divided.
 *
 * The descriptor of a block's head holds its reference count, 32 bits, in a word of its own; 0 =
 * not allocated. get and put are one CAS loop each, so that a count never leaves 1 … UINT32_MAX by
 * accident: get on 0 (the block is gone) or on UINT32_MAX, and put on 0 are refused and reported.
 * The put that makes it 0 frees the block: that transition happens once, so exactly one caller
 * frees.
 *
 * A put that drops the last reference goes through the ordinary free, which finds the count at 0
 * and lets it pass; deckle_free by order on a block with more than one reference is refused.
 */
#include "core/compound.h"

#include "core/alloc.h"
#include "core/check.h"
#include "core/client.h"
#include "core/zone.h"

#define COUNT_MAX ((dk_word)0xffffffffu)

void dk_descriptor_init(struct deckle *d, uint32_t fi)
{
    dk_store_release(&d->descriptors[fi], 1);
}

bool dk_descriptor_may_free(const struct deckle *d, uint32_t fi)
{
    return dk_load_acquire(&d->descriptors[fi]) <= 1;
}

void dk_descriptor_clear(struct deckle *d, uint32_t fi)
{
    dk_store_release(&d->descriptors[fi], 0);
}

/* The head that a reference by pfn means: any frame of a compound block, else only the head
 * itself. */
static int referenced_head(const struct deckle *d, uint64_t pfn, uint32_t *head,
                           enum deckle_bad *bad)
{
    uint32_t fi, zone;
    if (!d->descriptors)
        return DECKLE_ENOTSUP;
    *bad = DECKLE_BAD_FOREIGN;
    if (!dk_pfn_to_fi(d, pfn, &fi, &zone))
        return DECKLE_EBADFREE;
    *head = dk_head_of(d, fi);
    *bad = DECKLE_BAD_REFCOUNT;
    if (*head == DK_NONE)
        return DECKLE_EBADFREE;
    uint8_t s = dk_a8_load_relaxed(&d->state[*head]);
    *bad = DECKLE_BAD_TAIL;
    return *head == fi || (s & DK_STATE_COMPOUND) ? DECKLE_OK : DECKLE_EBADFREE;
}

static int refuse(struct deckle *d, enum deckle_bad what, uint64_t pfn, const void *caller)
{
    dk_report(d, what, pfn, 0, caller);
    return what == DECKLE_BAD_REFCOUNT ? DECKLE_EOVERFLOW : DECKLE_EBADFREE;
}

int deckle_get(struct deckle *d, uint64_t pfn)
{
    uint32_t head;
    enum deckle_bad bad;
    int err = referenced_head(d, pfn, &head, &bad);
    if (err == DECKLE_ENOTSUP)
        return err;
    if (err)
        return refuse(d, bad, pfn, DK_CALLER());
    dk_word n = dk_load_relaxed(&d->descriptors[head]);
    do {
        if (!n || n >= COUNT_MAX)
            return refuse(d, DECKLE_BAD_REFCOUNT, pfn, DK_CALLER());
    } while (!dk_cas(&d->descriptors[head], &n, n + 1));
    return DECKLE_OK;
}

int deckle_put(struct deckle *d, uint64_t pfn)
{
    uint32_t head;
    enum deckle_bad bad;
    int err = referenced_head(d, pfn, &head, &bad);
    if (err == DECKLE_ENOTSUP)
        return err;
    if (err)
        return refuse(d, bad, pfn, DK_CALLER());
    unsigned order = dk_state_order(dk_a8_load_relaxed(&d->state[head]));
    uint64_t head_pfn = 0;
    dk_fi_to_pfn(d, head, &head_pfn);
    dk_word n = dk_load_relaxed(&d->descriptors[head]);
    do {
        if (!n)
            return refuse(d, DECKLE_BAD_REFCOUNT, pfn, DK_CALLER());
    } while (!dk_cas(&d->descriptors[head], &n, n - 1));
    return n > 1 ? DECKLE_OK : dk_free(d, head_pfn, order, 0, DK_CALLER());
}

int64_t deckle_refcount(const struct deckle *d, uint64_t pfn)
{
    uint32_t head;
    enum deckle_bad bad;
    int err = referenced_head(d, pfn, &head, &bad);
    if (err)
        return err;
    return (int64_t)dk_load_relaxed(&d->descriptors[head]);
}

int deckle_block_order(const struct deckle *d, uint64_t pfn)
{
    uint32_t fi, zone;
    if (!dk_pfn_to_fi(d, pfn, &fi, &zone))
        return DECKLE_ENOENT;
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    if (s == DK_STATE_HOLE)
        return DECKLE_ENOENT;
    return dk_state_is_head(s) ? (int)dk_state_order(s) : DECKLE_EBADFREE;
}

int64_t deckle_block_head(const struct deckle *d, uint64_t pfn)
{
    uint32_t fi, zone, head;
    uint64_t head_pfn = 0;
    if (!dk_pfn_to_fi(d, pfn, &fi, &zone) || dk_a8_load_relaxed(&d->state[fi]) == DK_STATE_HOLE)
        return DECKLE_ENOENT;
    head = dk_head_of(d, fi);
    if (head == DK_NONE || !dk_fi_to_pfn(d, head, &head_pfn))
        return DECKLE_EBADFREE;
    return (int64_t)head_pfn;
}

/* ---- division ------------------------------------------------------------------------------- */

/* The new head is written after the pageblock below it has its bits: from then on it may be
 * freed. */
void dk_set_pieces(struct deckle *d, uint32_t fi, uint64_t from, uint64_t to, unsigned max_piece,
                   uint8_t like)
{
    for (uint64_t at = from; at < to;) {
        uint32_t head = (uint32_t)(fi + at);
        unsigned order = dk_piece_order(head, to - at, max_piece);
        if (order < DK_BLOCK_ORDER)
            dk_zone_split_whole(d, head);
        dk_a8_store_relaxed(&d->state[head], dk_state_make(order, dk_state_type(like), false));
        if (d->descriptors)
            dk_descriptor_init(d, head);
        if (d->owners)
            dk_a32_store_relaxed(&d->owners[head], dk_a32_load_relaxed(&d->owners[fi]));
        at += (uint64_t)1 << order;
    }
}

int deckle_split(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t new_order)
{
    uint32_t fi, zone;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (new_order > order)
        return DECKLE_EINVAL;
    if (!dk_pfn_to_fi(d, pfn, &fi, &zone)) {
        dk_report(d, DECKLE_BAD_FOREIGN, pfn, order, DK_CALLER());
        return DECKLE_EBADFREE;
    }
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    if (!dk_state_is_head(s) || dk_state_order(s) != order) {
        dk_report(d, dk_why_bad(d, pfn, order), pfn, order, DK_CALLER());
        return DECKLE_EBADFREE;
    }
    if (!dk_holds(d, fi)) {
        dk_report(d, DECKLE_BAD_OWNER, pfn, order, DK_CALLER());
        return DECKLE_EBADFREE;
    }
    if ((s & DK_STATE_COMPOUND) || (d->descriptors && !dk_descriptor_may_free(d, fi)))
        return DECKLE_EBUSY;
    dk_set_pieces(d, fi, 0, (uint64_t)1 << order, new_order, s);
    dk_counter_add(&d->sb->split_blocks, 1);
    return DECKLE_OK;
}
