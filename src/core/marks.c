/* SPDX-License-Identifier: MIT */
/*
 * Numbers of the zones that follow from how many frames they manage: watermarks, lowmem_reserve,
 * the reserve in all, when CPUs fold their counts, sizes of the caches. The formulas are in
 * src/policy; this file feeds them and stores what they say. Runs whenever memory comes or goes.
 *
 * A pool made with min_free_kbytes = ~0 has no marks and no reserves: every frame can be given out,
 * to anybody. Pools too small for the constants of the formulas are looked after in
 * watermark_setup.h.
 */
#include "base/div64.h"
#include "core/node.h"
#include "core/pcp.h"
#include "core/setup.h"
#include "core/zonelist.h"
#include "policy/fallback.h"
#include "policy/pcp_size.h"
#include "policy/stat_threshold.h"
#include "policy/watermark_setup.h"

static uint64_t managed_of(const struct dk_zone *zone)
{
    return dk_load_relaxed(&zone->managed);
}

/* What an ordinary request can reach: all zones up to Normal, since every list leads to all nodes.
 * */
static uint64_t lowmem_pages(const struct deckle *d)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        if (d->zones[i].type <= DECKLE_ZONE_NORMAL)
            sum += dk_lowmem_part(managed_of(&d->zones[i]), dk_load_relaxed(&d->zones[i].high));
    return sum;
}

/* Managed frames of all zones but HighMem and Movable. */
static uint64_t lowmem_managed(const struct deckle *d)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        if (!dk_zone_is_highmem_or_movable((enum deckle_zone_type)d->zones[i].type))
            sum += managed_of(&d->zones[i]);
    return sum;
}

static void store_marks(struct dk_zone *zone, const struct dk_zone_marks *marks)
{
    /* high first and min last, so that a test that reads both never finds min above high for long.
     * */
    dk_store_relaxed(&zone->promo, (dk_word)marks->promo);
    dk_store_relaxed(&zone->high, (dk_word)marks->high);
    dk_store_relaxed(&zone->low, (dk_word)marks->low);
    dk_store_relaxed(&zone->min, (dk_word)marks->min);
    dk_store_relaxed(&zone->boost, 0);
}

static void update_watermarks(struct deckle *d)
{
    const struct dk_superblock *sb = d->sb;
    uint64_t pages_min = dk_pages_min(sb->min_free_kbytes, lowmem_pages(d), sb->page_shift);
    uint64_t lowmem = lowmem_managed(d);

    for (uint32_t i = 0; i < sb->nr_zones; i++) {
        struct dk_zone *zone = &d->zones[i];
        struct dk_zone_marks marks = {0};

        if (!sb->no_watermarks && managed_of(zone))
            marks = dk_zone_marks((enum deckle_zone_type)zone->type, managed_of(zone), lowmem,
                                  pages_min, sb->watermark_scale_factor);
        store_marks(zone, &marks);
    }
}

static void update_reserves(struct deckle *d, uint32_t node)
{
    uint64_t managed[DECKLE_NR_ZONE_TYPES] = {0};
    uint64_t reserve[DECKLE_NR_ZONE_TYPES][DECKLE_NR_ZONE_TYPES] = {{0}};
    uint32_t ratio[DECKLE_NR_ZONE_TYPES];
    struct dk_zone *zone;

    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        if ((zone = dk_node_zone(d, node, type)))
            managed[type] = managed_of(zone);
    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        ratio[type] = dk_a32_load_relaxed(&d->sb->vm.lowmem_reserve_ratio[type]);
    if (!d->sb->no_watermarks)
        dk_lowmem_reserve(managed, ratio, reserve);
    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++) {
        if (!(zone = dk_node_zone(d, node, type)))
            continue;
        for (uint32_t upto = 0; upto < DECKLE_NR_ZONE_TYPES; upto++)
            dk_store_relaxed(&zone->lowmem_reserve[upto], (dk_word)reserve[type][upto]);
        uint64_t total = dk_zone_totalreserve(reserve[type], dk_load_relaxed(&zone->high),
                                              managed[type]);
        dk_store_relaxed(&zone->total_reserve, (dk_word)total);
    }
}

static void update_drift(struct deckle *d, struct dk_zone *zone)
{
    unsigned threshold = dk_stat_threshold(d->nr_cpus, managed_of(zone), d->sb->page_shift);
    uint64_t mark = dk_drift_mark(d->nr_cpus, threshold, dk_load_relaxed(&zone->min),
                                  dk_load_relaxed(&zone->low), dk_load_relaxed(&zone->high));

    dk_store_relaxed(&zone->stat_threshold, threshold);
    dk_store_relaxed(&zone->drift_mark, (dk_word)mark);
}

static void update_caches(struct deckle *d, struct dk_zone *zone)
{
    uint64_t managed = managed_of(zone);
    uint32_t cpus = dk_node_cpus(d, zone->node);
    uint32_t batch = dk_pcp_batch(managed, d->sb->page_shift);
    uint32_t fraction = dk_a32_load_relaxed(&d->sb->vm.percpu_pagelist_high_fraction);
    struct dk_pcp_state state = dk_pcp_state_make(managed, dk_load_relaxed(&zone->low),
                                                  cpus ? cpus : d->nr_cpus, batch, fraction);

    dk_a32_store_relaxed(&zone->batch, state.batch);
    dk_a32_store_relaxed(&zone->high_min, managed ? state.high_min : 0);
    dk_a32_store_relaxed(&zone->high_max, managed ? state.high_max : 0);
    if (d->kind != DK_PCP_NONE)
        dk_pcp_resize(d, zone);
}

static void update_grouping(struct deckle *d)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        total += managed_of(&d->zones[i]);
    dk_a32_store_release(&d->sb->grouping_off, !dk_grouping_enabled(total, DK_BLOCK_FRAMES));
    dk_update_slow(d);
}

void dk_update_marks(struct deckle *d)
{
    update_watermarks(d);
    for (uint32_t node = 0; node < d->sb->nr_nodes; node++)
        update_reserves(d, node);
    for (uint32_t i = 0; i < d->sb->nr_zones; i++) {
        update_drift(d, &d->zones[i]);
        update_caches(d, &d->zones[i]);
    }
    update_grouping(d);
}
