/* SPDX-License-Identifier: MIT */
/*
 * How large the lists of the per-CPU caches are: policy/pcp_size.h applied to each list, and the
 * budget that the lists of one CPU share.
 *
 * A list has a capacity (slots), a size (`high`, entries), and a base size that it starts from and
 * shrinks to. `high << order` of all lists of a set adds up to pages_high, at most zone->high_max:
 * so much may the caches of one CPU hold, whatever the orders. A list that grows reserves its
 * frames there first; when nothing is left, lists that nobody has used for a while lose theirs.
 *
 * All of this runs in slow paths of several threads at once, on figures that may be stale. Only
 * three things are exact: pages_high is never below the sum of the highs (in shared pools but for a
 * moment after a reaping), never above the budget, and a list of a closed zone has high 0. The last
 * needs care: a thread may have decided to let a list grow before the zone was closed. The upper
 * half of `high` counts closings, so its CAS fails; and who reads `high` after the closing sees
 * zone->stopped, which was set before.
 */
#include "core/pcp_internal.h"

#include "base/div64.h"

/* ---- the layout of a set --------------------------------------------------------------------- */

/* Large blocks are few: their lists are shorter. With the default of 512 they have room for 256
 * blocks of order 4 to 8 and 64 above, and for what a refill brings on top: a list that is just too
 * short for what comes back would drain and refill in turns. */
static uint32_t capacity_of(const struct dk_pcp_shape *shape, unsigned order)
{
    if (shape->kind == DK_PCP_NONE || order > shape->max_order)
        return 0;
    if (order <= 3)
        return shape->capacity;
    return shape->capacity * 5 / (order <= 8 ? 8 : 32);
}

size_t dk_pcp_set_bytes(const struct dk_pcp_shape *shape, uint32_t list_off[DK_PCP_LISTS],
                        uint32_t slot_cap[DK_PCP_LISTS])
{
    size_t slot = shape->kind == DK_PCP_RSEQ ? sizeof(uint32_t) : sizeof(dk_aword);
    size_t end = sizeof(struct dk_pcp_set);

    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        uint32_t capacity = capacity_of(shape, dk_list_order(list));
        list_off[list] = (uint32_t)end;
        slot_cap[list] = capacity;
        end += DK_LINE_BYTES + (size_t)dk_align_up(capacity * slot, DK_LINE_BYTES);
    }
    return end;
}

/* ---- high and the budget --------------------------------------------------------------------- */

static uint32_t budget_left(const struct dk_zone *zone, const struct dk_pcp_set *set)
{
    uint32_t used = dk_a32_load_relaxed(&set->pages_high);
    uint32_t budget = dk_a32_load_relaxed(&zone->high_max);
    return used < budget ? budget - used : 0;
}

static bool reserve(const struct dk_zone *zone, struct dk_pcp_set *set, uint32_t frames)
{
    uint32_t budget = dk_a32_load_relaxed(&zone->high_max);
    uint32_t used = dk_a32_load_relaxed(&set->pages_high);
    do {
        if (used > budget || frames > budget - used)
            return false;
    } while (!dk_a32_cas(&set->pages_high, &used, used + frames));
    return true;
}

/* Not below 0: a reaper may have taken for lost what was reserved and not yet in a list. */
static void unreserve(struct dk_pcp_set *set, uint32_t frames)
{
    uint32_t used = dk_a32_load_relaxed(&set->pages_high);
    while (!dk_a32_cas(&set->pages_high, &used, used > frames ? used - frames : 0))
        continue;
}

void dk_pcp_recount_high(const struct deckle *d, struct dk_pcp_set *set)
{
    uint32_t used = dk_a32_load_seq(&set->pages_high), sum = 0;
    for (unsigned list = 0; list < DK_PCP_LISTS; list++)
        sum += dk_pcp_high(dk_pcp_head(d, set, list)) << dk_list_order(list);
    if (used > sum)
        dk_a32_cas(&set->pages_high, &used, sum);
}

/* Set high of a list to `entries`, or leave it as it is: no budget, zone closed, somebody else was
 * faster. */
static void set_high(const struct deckle *d, const struct dk_zone *zone, struct dk_pcp_set *set,
                     unsigned list, uint32_t entries)
{
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    unsigned order = dk_list_order(list);
    uint32_t word = dk_a32_load_seq(&lh->high), old = word & DK_HIGH_ENTRIES;
    uint32_t grow = entries > old ? (entries - old) << order : 0;

    if (entries == old || (grow && dk_a32_load_seq(&zone->stopped)))
        return;
    if (grow && !reserve(zone, set, grow))
        return;
    if (!dk_a32_cas(&lh->high, &word, (word & ~DK_HIGH_ENTRIES) | entries))
        unreserve(set, grow);
    else if (entries < old)
        unreserve(set, (old - entries) << order);
}

void dk_pcp_shut_list(const struct deckle *d, struct dk_pcp_set *set, unsigned list)
{
    dk_a32 *high = &dk_pcp_head(d, set, list)->high;
    uint32_t word = dk_a32_load_relaxed(high);
    while (!dk_a32_cas(high, &word, (word & ~DK_HIGH_ENTRIES) + DK_HIGH_CLOSING))
        continue;
    unreserve(set, (word & DK_HIGH_ENTRIES) << dk_list_order(list));
}

void dk_pcp_rest_set(const struct deckle *d, const struct dk_zone *zone, struct dk_pcp_set *set)
{
    for (unsigned list = 0; list < DK_PCP_LISTS; list++)
        set_high(d, zone, set, list, dk_a32_load_relaxed(&dk_pcp_head(d, set, list)->high_base));
}

/* ---- what a list has seen -------------------------------------------------------------------- */

#define SEEN_IDLE 0x8000u /* nothing had happened when sizes were compared last */

/* A short picture of a list: 16 bits of its pops (cells have none), entries. */
static uint32_t picture(const struct deckle *d, const struct dk_pcp_list_head *lh)
{
    uint32_t pops = d->kind == DK_PCP_RSEQ ? (uint32_t)(dk_load_relaxed(&lh->head) >> 16) : 0;
    return pops << 16 | dk_pcp_count_racy(d, lh);
}

/* Lists that nobody has used between two visits lose what they may hold, and what they hold. */
static void rob_the_idle(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                         unsigned except)
{
    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
        uint32_t now, seen = dk_a32_load_relaxed(&lh->seen);
        if (list == except || !dk_pcp_high(lh))
            continue;
        now = picture(d, lh);
        if (seen != (now | SEEN_IDLE)) {
            dk_a32_store_relaxed(&lh->seen, now | SEEN_IDLE);
            continue;
        }
        set_high(d, zone, set, list, 0);
        dk_pcp_drain_own(d, zone, list, d->slot_cap[list]);
    }
}

/* ---- policy ---------------------------------------------------------------------------------- */

static enum dk_pcp_mode mode_now(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set)
{
    dk_word boost = dk_load_relaxed(&zone->boost);
    dk_word low = dk_load_relaxed(&zone->low) + boost, high = dk_load_relaxed(&zone->high) + boost;
    enum dk_pcp_mode was = (enum dk_pcp_mode)dk_a32_load_relaxed(&set->pcp_mode);
    enum dk_pcp_mode mode = dk_pcp_mode_next(was, dk_zone_free_racy(d, zone), low, high);

    if (mode == was)
        return mode;
    dk_a32_store_relaxed(&set->pcp_mode, mode);
    if (mode == DK_PCP_EMPTY) {
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            set_high(d, zone, set, list, 0);
            dk_pcp_drain_own(d, zone, list, d->slot_cap[list]);
        }
    } else if (was == DK_PCP_EMPTY) {
        dk_pcp_rest_set(d, zone, set);
    }
    return mode;
}

/* The list as the policy sees it: frames instead of entries, its own share of the budget as
 * high_max. A list without a size may begin with one entry. */
static struct dk_pcp_state load_state(const struct deckle *d, const struct dk_zone *zone,
                                      const struct dk_pcp_set *set, unsigned list)
{
    const struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    unsigned order = dk_list_order(list);
    uint32_t least = dk_a32_load_relaxed(&lh->high_base), left = budget_left(zone, set);
    uint64_t frames = (uint64_t)d->slot_cap[list] * (1u << order);
    struct dk_pcp_state s = {0};

    s.high = dk_pcp_high(lh) << order;
    s.high_max = (uint32_t)dk_min64(frames, (uint64_t)s.high + left);
    s.high_min = (uint32_t)dk_min64((uint64_t)(least ? least : 1) << order, s.high_max);
    s.batch = dk_a32_load_relaxed(&zone->batch);
    s.free_count = dk_a32_load_relaxed(&lh->free_count);
    s.alloc_factor = dk_a32_load_relaxed(&lh->alloc_factor);
    if (s.alloc_factor > DK_PCP_BATCH_SCALE_MOST) /* shared metadata that are damaged */
        s.alloc_factor = DK_PCP_BATCH_SCALE_MOST;
    return s;
}

static void store_state(const struct deckle *d, const struct dk_zone *zone, struct dk_pcp_set *set,
                        unsigned list, const struct dk_pcp_state *s)
{
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    set_high(d, zone, set, list, dk_pcp_list_high(dk_list_order(list), s->high, d->slot_cap[list]));
    dk_a32_store_relaxed(&lh->free_count, s->free_count);
    dk_a32_store_relaxed(&lh->alloc_factor, s->alloc_factor);
}

/* Tell the policy what the fast paths did since it was asked last; once, or frees of long ago would
 * keep a list that only allocates from ever growing. */
static void note(const struct deckle *d, struct dk_pcp_list_head *lh, unsigned order,
                 struct dk_pcp_state *s)
{
    uint32_t now = picture(d, lh), seen = dk_a32_load_relaxed(&lh->seen);
    uint32_t pops = ((now >> 16) - (seen >> 16)) & 0xffff;
    uint32_t pushes = pops + (now & 0x7fff) - (seen & 0x7fff);
    if (pops)
        dk_pcp_note_allocs(s, pops);
    if (pushes <= 0xffff)
        dk_pcp_note_frees(s, order, pushes);
    dk_a32_store_relaxed(&lh->seen, now);
}

static bool list_usable(const struct deckle *d, const struct dk_zone *zone, uint32_t cpu,
                        unsigned list)
{
    if (cpu >= d->nr_cpus || d->kind == DK_PCP_NONE || !d->slot_cap[list] ||
        dk_a32_load_relaxed(&zone->stopped))
        return false;
#ifdef DK_HAVE_RSEQ
    if (d->kind == DK_PCP_RSEQ)
        return !dk_rseq_is_stopped(
            dk_load_relaxed(&dk_pcp_head(d, dk_set(d, zone->number, cpu), list)->head));
#endif
    return true;
}

unsigned dk_pcp_refill_want(struct deckle *d, struct dk_zone *zone, uint32_t cpu, unsigned list)
{
    unsigned order = dk_list_order(list);
    if (!list_usable(d, zone, cpu, list) || !dk_a32_load_relaxed(&zone->high_max))
        return 1;
    struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    enum dk_pcp_mode mode = mode_now(d, zone, set);
    if (mode == DK_PCP_EMPTY)
        return 1;

    if (mode == DK_PCP_GROW && budget_left(zone, set) < (2u << order))
        rob_the_idle(d, zone, set, list);
    uint32_t count = dk_pcp_count_racy(d, lh);
    struct dk_pcp_state s = load_state(d, zone, set, list);
    note(d, lh, order, &s);
    uint32_t want = dk_pcp_refill(&s, order, count << order, mode);
    store_state(d, zone, set, list, &s);

    uint32_t high = dk_pcp_high(lh), room = high > count ? high - count : 0;
    want = want < dk_pcp_step(order) ? want : dk_pcp_step(order);
    return want <= room ? want : room + 1;
}

/* A free found the list full. true: there is room now. */
bool dk_pcp_make_room(struct deckle *d, struct dk_zone *zone, uint32_t cpu, unsigned list)
{
    unsigned order = dk_list_order(list);
    if (!list_usable(d, zone, cpu, list) || !dk_a32_load_relaxed(&zone->high_max))
        return false;
    struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    struct dk_pcp_pressure pressure = {.mode = mode_now(d, zone, set), .slice_large = true};
    if (pressure.mode == DK_PCP_EMPTY)
        return false;
    /* Robbed of its size, or never given one: take it from lists that are idle now. */
    if (pressure.mode == DK_PCP_GROW && !dk_pcp_high(lh) && budget_left(zone, set) < (2u << order))
        rob_the_idle(d, zone, set, list);

    uint32_t count = dk_pcp_count_racy(d, lh);
    if (count < dk_pcp_high(lh))
        return true;
    struct dk_pcp_state s = load_state(d, zone, set, list);
    note(d, lh, order, &s);
    uint32_t frames = dk_pcp_free(&s, order, (count + 1) << order, &pressure);
    store_state(d, zone, set, list, &s);
    dk_pcp_drain_own(d, zone, list, (frames + (1u << order) - 1) >> order);
    dk_a32_store_relaxed(&lh->seen, picture(d, lh));
    return true;
}

void dk_pcp_mark_seen(const struct deckle *d, struct dk_pcp_list_head *lh)
{
    dk_a32_store_relaxed(&lh->seen, picture(d, lh));
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* CPUs that share the zone: those of its node, or all if it has none. */
static uint32_t cpus_of(const struct deckle *d, const struct dk_zone *zone)
{
    uint32_t n = 0;
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        n += d->cpu_nodes[cpu] == zone->node;
    return n ? n : d->nr_cpus;
}

/* Base sizes: an eighth of high_min each, together at most the budget, small orders first. */
static void set_bases(const struct deckle *d, const struct dk_zone *zone, struct dk_pcp_set *set)
{
    uint32_t left = dk_a32_load_relaxed(&zone->high_max);
    uint32_t share = dk_a32_load_relaxed(&zone->high_min) / 8;
    if (share < dk_a32_load_relaxed(&zone->batch))
        share = dk_a32_load_relaxed(&zone->batch);
    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        unsigned order = dk_list_order(list);
        uint32_t base = dk_pcp_list_high(order, dk_min64(share, left), d->slot_cap[list]);
        dk_a32_store_relaxed(&dk_pcp_head(d, set, list)->high_base, base);
        left -= base << order;
    }
}

void dk_pcp_resize(struct deckle *d, struct dk_zone *zone)
{
    uint64_t managed = dk_load_relaxed(&zone->managed);
    uint32_t cpus = cpus_of(d, zone), batch = dk_pcp_batch(managed, d->sb->page_shift);
    uint32_t fraction = dk_a32_load_relaxed(&d->sb->vm.percpu_pagelist_high_fraction);
    struct dk_pcp_state s =
        dk_pcp_state_make(managed, dk_load_relaxed(&zone->low), cpus, batch, fraction);

    /* The formula's floor of four batches can be more than the zone has to give. */
    uint64_t share = dk_div64(managed / DK_PCP_FRACTION_LEAST, cpus);
    if (share < batch)
        share = 0;
    s.high_max = (uint32_t)dk_min64(s.high_max, share);
    s.high_min = (uint32_t)dk_min64(s.high_min, share);
    dk_a32_store_relaxed(&zone->batch, batch);
    dk_a32_store_relaxed(&zone->high_min, s.high_min);
    dk_a32_store_relaxed(&zone->high_max, s.high_max);
    if (d->kind == DK_PCP_NONE)
        return;
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
        set_bases(d, zone, set);
        for (unsigned list = 0; list < DK_PCP_LISTS; list++)
            set_high(d, zone, set, list, 0);
        dk_pcp_rest_set(d, zone, set);
    }
}
