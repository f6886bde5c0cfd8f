/* SPDX-License-Identifier: MIT */
/* Which foreign run to take; the rules are at the head of fallback.h. */
#include "policy/fallback.h"

/* The first type to fall back to that has a run of just this order. */
static bool type_with_run(const uint32_t orders[DECKLE_NR_PCP_TYPES], enum deckle_migratetype type,
                          unsigned order, enum deckle_migratetype *found)
{
    for (unsigned nth = 0; nth < DK_NR_FALLBACKS; nth++) {
        *found = dk_fallback_type(type, nth);
        if ((orders[*found] >> order) & 1)
            return true;
    }
    return false;
}

struct dk_fallback_pick dk_claim_pick(const uint32_t orders[DECKLE_NR_PCP_TYPES],
                                      enum deckle_migratetype type, unsigned from,
                                      unsigned min_order, bool grouping, unsigned pageblock_order)
{
    struct dk_fallback_pick pick = {false, false, 0, type};

    for (unsigned order = from + 1; order-- > min_order;) {
        if (!type_with_run(orders, type, order, &pick.type))
            continue;
        pick.found = dk_claimable(order, type, grouping, pageblock_order);
        pick.whole = pick.found && order >= pageblock_order;
        pick.order = order;
        break;
    }
    return pick;
}

struct dk_fallback_pick dk_steal_pick(const uint32_t orders[DECKLE_NR_PCP_TYPES],
                                      enum deckle_migratetype type, unsigned order,
                                      unsigned max_order)
{
    struct dk_fallback_pick pick = {false, false, 0, type};

    for (; order <= max_order && !pick.found; order++) {
        pick.found = type_with_run(orders, type, order, &pick.type);
        pick.order = order;
    }
    return pick;
}

uint64_t dk_highatomic_limit(uint64_t managed, uint64_t pageblock_pages)
{
    uint64_t percent = dk_div64(managed, 100);
    uint64_t blocks = dk_div64(dk_add_sat64(percent, pageblock_pages - 1), pageblock_pages);

    return percent < pageblock_pages ? 0 : blocks * pageblock_pages;
}

bool dk_highatomic_may_reserve(uint64_t reserved, uint64_t managed,
                               enum deckle_migratetype block_type, uint64_t pageblock_pages)
{
    return dk_migratetype_mergeable(block_type) &&
           reserved < dk_highatomic_limit(managed, pageblock_pages);
}
