/* SPDX-License-Identifier: MIT */
/*
 * What a wrong free was: looked up only after the state byte has refused it, so that the free path
 * pays for one compare. Bound: one byte read for each order.
 */
#include "core/check.h"

uint32_t dk_head_of(const struct deckle *d, uint32_t fi)
{
    for (unsigned order = 0; order <= d->max_order; order++) {
        uint32_t head = fi & ~(uint32_t)((1u << order) - 1);
        uint8_t s = dk_a8_load_relaxed(&d->state[head]);
        if (dk_state_is_head(s) && dk_state_order(s) >= order)
            return head;
    }
    return DK_NONE;
}

enum deckle_bad dk_why_bad(const struct deckle *d, uint64_t pfn, unsigned order)
{
    uint32_t fi, zone;
    if (!dk_pfn_to_fi(d, pfn, &fi, &zone))
        return DECKLE_BAD_FOREIGN;
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    if (s == DK_STATE_HOLE)
        return DECKLE_BAD_FOREIGN;
    if (s == DK_STATE_RESERVED)
        return DECKLE_BAD_RESERVED;
    if (order <= d->max_order && (pfn & ((1u << order) - 1)))
        return DECKLE_BAD_MISALIGNED;
    if (dk_state_is_head(s))
        return DECKLE_BAD_WRONG_ORDER;
    if (s)
        return DECKLE_BAD_STATE;
    return dk_head_of(d, fi) == DK_NONE ? DECKLE_BAD_DOUBLE_FREE : DECKLE_BAD_TAIL;
}

static void describe(const struct deckle *d, struct deckle_bad_report *r)
{
    uint32_t fi, zone, head;
    r->size = sizeof(*r);
    r->found_order = ~0u;
    if (!dk_pfn_to_fi(d, r->pfn, &fi, &zone))
        return;
    r->state = dk_a8_load_relaxed(&d->state[fi]);
    head = dk_head_of(d, fi);
    if (head == DK_NONE)
        return;
    r->found_order = dk_state_order(dk_a8_load_relaxed(&d->state[head]));
    if (d->owners)
        r->owner = dk_a32_load_relaxed(&d->owners[head]);
}

void dk_report_full(struct deckle *d, struct deckle_bad_report *r)
{
    describe(d, r);
    if ((unsigned)r->what < DK_ARRAY_LEN(d->sb->bad))
        dk_counter_add(&d->sb->bad[r->what], 1);
    if (d->host.bad)
        d->host.bad(d->host.ctx, r);
}

void dk_report(struct deckle *d, enum deckle_bad what, uint64_t pfn, unsigned order,
               const void *caller)
{
    struct deckle_bad_report r = {.what = what, .pfn = pfn, .order = order, .caller = caller};
    dk_report_full(d, &r);
}

void dk_bad_state(struct deckle *d, uint32_t fi, unsigned order)
{
    uint64_t pfn = 0;
    dk_fi_to_pfn(d, fi, &pfn);
    dk_report(d, DECKLE_BAD_STATE, pfn, order, DK_CALLER());
}
