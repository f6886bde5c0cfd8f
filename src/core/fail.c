/* SPDX-License-Identifier: MIT */
/*
 * Failure (contract rule 6). The reason EMPTY, FRAGMENTED or WATERMARK is given only when two looks
 * at everything the request may use (roots of the index, cache lists, all zones) found nothing,
 * with equal versions; else the search is repeated, and after ATTEMPTS of them the answer is
 * CONTENDED.
 *
 * Requests of the cheap class (DECKLE_REQ_CHEAP) are for the storm of large requests that have a
 * small alternative: where single frames abound and no larger run is left, each of them would empty
 * all caches for nothing. So they look at the lists of their own order and above only: these may
 * hold a fitting block; smaller ones hold pieces. And a failure, once established, is remembered by
 * the sum of the versions that proved it: as long as the sum is the same nothing has come back, so
 * one look suffices (64-bit words only: others have too few bits for it).
 */
#include "core/alloc.h"
#include "core/pcp.h"
#include "core/pressure.h"

#define ATTEMPTS 4u

/* Lists that may hold a block for the request. */
static unsigned first_list_order(const struct dk_request *r)
{
    return r->ask.flags & DECKLE_REQ_CHEAP ? r->ask.order : 0;
}

static bool lists_empty(const struct dk_request *r, const struct dk_zone *zone, uint64_t *version)
{
    return dk_pcp_lists_empty(r->d, zone, first_list_order(r), version);
}

/* Nothing fits, in any zone the request may use, caches included? *version as in zone.h. */
static bool nothing_anywhere(struct dk_request *r, uint32_t alloc_flags, uint64_t *version)
{
    struct dk_zonelist_walk walk;
    struct dk_take take;
    dk_request_fill_take(r, alloc_flags, &take);
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        if (!lists_empty(r, zone, version))
            return false;
        /* A zone refused for its mark, not for want of blocks, may show some. */
        if (dk_request_below_limit(r, zone) && !dk_request_verdict(r, zone, alloc_flags, 0) &&
            !dk_zone_shows_nothing(r->d, zone, &take, version))
            return false;
    }
    return true;
}

bool dk_drain_eligible(struct dk_request *r)
{
    struct dk_zonelist_walk walk;
    bool all = true;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        uint64_t version = 0;
        if (!lists_empty(r, zone, &version) && dk_pcp_drain_zone(r->d, zone, NULL))
            all = false;
    }
    return all;
}

/* Free memory outside what the request allowed itself? */
static bool others_have(struct dk_request *r)
{
    struct dk_request wide = *r;
    struct dk_zonelist_walk walk;
    wide.ask.limit_pfn = 0;
    struct dk_zone *zone = dk_request_first_of_all(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk))
        if (!dk_request_verdict(&wide, zone, DK_ALLOC_WMARK_MIN, 0))
            return true;
    return false;
}

static int reason(struct dk_request *r, const struct dk_pass *p, bool proven)
{
    if (!proven)
        return DECKLE_ECONTENDED;
    if (dk_request_is_restricted(r) && others_have(r))
        return DECKLE_ECONSTRAINED;
    if (p->below_mark)
        return DECKLE_EWATERMARK;
    return p->fragmented ? DECKLE_EFRAGMENTED : DECKLE_ENOMEM;
}

int64_t dk_establish(struct dk_request *r, uint32_t alloc_flags)
{
    struct dk_pass p = {0};
    bool proven = false;
    for (unsigned attempt = 0; attempt <= ATTEMPTS && !proven; attempt++) {
        uint64_t before = 0, after = 0;
        p = (struct dk_pass){.alloc_flags = alloc_flags};
        bool nothing = attempt && nothing_anywhere(r, alloc_flags, &before);
        int64_t pfn = dk_request_pass(r, &p);
        if (pfn >= 0)
            return pfn;
        proven = nothing && !p.contended && nothing_anywhere(r, alloc_flags, &after) &&
                 before == after && r->epoch == dk_zonelist_epoch(r->d);
        if (!proven)
            dk_drain_eligible(r);
        dk_request_choose(r);
    }
    return reason(r, &p, proven);
}

/* ---- the cheap class -------- */

#define KEY_BITS 16u

/* What a failure is remembered for: everything that decides which blocks fit. */
static dk_word failure_key(const struct dk_request *r)
{
    return (dk_word)1 << 15 | (dk_word)r->ask.order << 8 | (dk_word)r->highest << 4 |
           (dk_word)r->type;
}

static bool remembers(const struct dk_request *r)
{
    return DK_WORD_BITS == 64 && !dk_request_is_restricted(r) && r->ask.order;
}

/* Versions of all that could hold a block, whatever the marks say; false: there may be one. */
static bool sum_versions(struct dk_request *r, uint32_t alloc_flags, uint64_t *version)
{
    struct dk_zonelist_walk walk;
    struct dk_take take;
    dk_request_fill_take(r, alloc_flags, &take);
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    *version = r->epoch;
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        if (!lists_empty(r, zone, version) ||
            !dk_zone_shows_nothing(r->d, zone, &take, version))
            return false;
    }
    return true;
}

static bool known_failure(struct dk_request *r, uint32_t alloc_flags)
{
    uint64_t version;
    dk_word known = dk_load_relaxed(&r->preferred->cheap_failure);
    return remembers(r) && (known & (((dk_word)1 << KEY_BITS) - 1)) == failure_key(r) &&
           sum_versions(r, alloc_flags, &version) &&
           (known >> KEY_BITS) == (dk_word)(version << KEY_BITS) >> KEY_BITS;
}

/* Two looks with the same sum, then it is a fact. */
static void remember_failure(struct dk_request *r, uint32_t alloc_flags)
{
    uint64_t first, second;
    if (remembers(r) && sum_versions(r, alloc_flags, &first) &&
        sum_versions(r, alloc_flags, &second) && first == second)
        dk_store_relaxed(&r->preferred->cheap_failure,
                         (dk_word)(first << KEY_BITS) | failure_key(r));
}

/* Low mark, as the first pass: what is cheap does not go to anybody's reserve. */
int64_t dk_cheap_path(struct dk_request *r)
{
    uint32_t flags = dk_request_first_flags(r) & ~(uint32_t)(DK_ALLOC_NOFRAGMENT | DK_ALLOC_KSWAPD);
    if (r->no_first_pass)
        return dk_fail(r->d, DECKLE_ECONSTRAINED);
    if (!known_failure(r, flags)) {
        int64_t pfn = dk_request_first_pass(r);
        if (pfn < 0)
            pfn = dk_establish(r, flags);
        if (pfn >= 0)
            return pfn;
        if (pfn != DECKLE_EFRAGMENTED) {
            dk_count(r->d, DK_EVENT_CHEAP_FAIL, 1);
            return dk_fail(r->d, (int)pfn);
        }
        remember_failure(r, flags);
    }
    dk_count(r->d, DK_EVENT_CHEAP_FAIL, 1);
    return dk_fail(r->d, DECKLE_EFRAGMENTED);
}
