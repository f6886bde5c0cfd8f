/* SPDX-License-Identifier: MIT */
/*
 * Legality of request flags (reference 3.1): the order is within the maximum, every bit has a
 * meaning, at most one zone modifier and one migratetype, and NOFAIL only with direct reclaim and
 * order <= 1. Nothing that Linux accepts is refused.
 */
#include "policy/gfp.h"

#include <stddef.h>

struct rule {
    int error;
    const char *reason;
};

/* The first rule that the request breaks; its error is DECKLE_OK if there is none. */
static struct rule first_broken(uint32_t gfp, unsigned order, unsigned max_order)
{
    static const struct rule none = {DECKLE_OK, NULL};
    static const struct rule too_large = {DECKLE_E2BIG, "order above the pool's max_order"};
    static const struct rule unknown = {DECKLE_EINVAL, "bit without a meaning (bit 9 or above 27)"};
    static const struct rule zones = {DECKLE_EINVAL, "more than one of DMA, DMA32 and HIGHMEM"};
    static const struct rule types = {DECKLE_EINVAL, "MOVABLE together with RECLAIMABLE"};
    static const struct rule nofail = {DECKLE_EINVAL, "NOFAIL without DIRECT_RECLAIM"};
    static const struct rule nofail_order = {DECKLE_EINVAL, "NOFAIL with an order above 1"};
    uint32_t zone = gfp & (DECKLE_GFP_DMA | DECKLE_GFP_DMA32 | DECKLE_GFP_HIGHMEM);

    if (order > max_order)
        return too_large;
    if (gfp & ~DECKLE_GFP_ALL)
        return unknown;
    if (zone & (zone - 1))
        return zones;
    if ((gfp & DECKLE_GFP_MOVABLE_MASK) == DECKLE_GFP_MOVABLE_MASK)
        return types;
    if ((gfp & DECKLE_GFP_NOFAIL) && !(gfp & DECKLE_GFP_DIRECT_RECLAIM))
        return nofail;
    if ((gfp & DECKLE_GFP_NOFAIL) && order > DK_NOFAIL_MAX_ORDER)
        return nofail_order;
    return none;
}

int dk_gfp_check(uint32_t gfp, unsigned order, unsigned max_order)
{
    return first_broken(gfp, order, max_order).error;
}

const char *dk_gfp_reason(uint32_t gfp, unsigned order, unsigned max_order)
{
    return first_broken(gfp, order, max_order).reason;
}
