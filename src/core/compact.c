/* SPDX-License-Identifier: MIT */
/*
 * Compaction: for which zones it is tried, and for whom (reference: 3.11, "Compaction suitability",
 * deferral, proactive; scores 3.14). How a zone is compacted is compact_scan.c.
 *
 * Deferral of a zone is one packed word {failures, skipped, order}, changed by CAS.
 */
#include "base/div64.h"
#include "core/alloc.h"
#include "core/compact_internal.h"
#include "core/stats.h"
#include "core/trace.h"
#include "policy/fragmentation.h"
#include "policy/watermark.h"

/* ---- deferral -------------------------------------------------------------------------------- */

static struct dk_compact_deferral unpack(uint32_t word)
{
    return (struct dk_compact_deferral){word & 0xff, word >> 8 & 0xfff, word >> 24};
}

static uint32_t pack(const struct dk_compact_deferral *d)
{
    return d->failures | d->skipped << 8 | d->failed_order << 24;
}

bool dk_zone_compact_deferred(struct deckle *d, struct dk_zone *zone, unsigned order)
{
    uint32_t word = dk_a32_load_relaxed(&zone->compact.deferral);
    struct dk_compact_deferral deferral;
    bool deferred;
    do {
        deferral = unpack(word);
        deferred = dk_compact_deferred(&deferral, order);
    } while (deferred && !dk_a32_cas(&zone->compact.deferral, &word, pack(&deferral)));
    if (deferred)
        dk_count(d, DK_EVENT_COMPACT_DEFERRED, 1);
    return deferred;
}

void dk_zone_compact_note(struct dk_zone *zone, unsigned order, bool success)
{
    uint32_t word = dk_a32_load_relaxed(&zone->compact.deferral);
    struct dk_compact_deferral deferral;
    do {
        deferral = unpack(word);
        if (success)
            dk_compact_note_success(&deferral);
        else
            dk_compact_note_failure(&deferral, order);
    } while (pack(&deferral) != word &&
             !dk_a32_cas(&zone->compact.deferral, &word, pack(&deferral)));
}

/* ---- suitability ----------------------------------------------------------------------------- */

static int index_of(const struct deckle *d, const struct dk_zone *zone, unsigned order)
{
    uint64_t blocks[DK_NR_ORDERS];
    dk_zone_free_blocks(d, zone, DK_ANY_TYPE, blocks);
    struct dk_free_summary free = dk_free_summarise(blocks, d->max_order + 1, order);
    return dk_fragmentation_index(&free);
}

/* The fragmentation index, which is linear in the zone, only where it decides. */
bool dk_zone_compact_suitable(const struct deckle *d, struct dk_zone *zone, unsigned order,
                              enum deckle_zone_type highest)
{
    int threshold = (int)dk_a32_load_relaxed(&d->sb->vm.extfrag_threshold);
    struct dk_watermark_input in = {
        .free = dk_zone_free_exact(d, zone),
        .free_highatomic = dk_zone_count(d, zone, DK_COUNT_FREE_HIGHATOMIC),
        .free_cma = dk_zone_count(d, zone, DK_COUNT_FREE_CMA),
        .boost = dk_load_relaxed(&zone->boost),
        .lowmem_reserve = dk_load_relaxed(&zone->lowmem_reserve[highest]),
    };
    uint64_t min = dk_load_relaxed(&zone->min), low = dk_load_relaxed(&zone->low);
    if (!dk_compact_suitable(&in, min, low, order, -1, threshold))
        return false;
    return !dk_order_costly(order) ||
           dk_compact_suitable(&in, min, low, order, index_of(d, zone, order), threshold);
}

/* ---- for a request --------------------------------------------------------------------------- */

/* The captured block becomes the request's. */
static DK_NOINLINE int64_t give_captured(struct dk_request *r, struct dk_zone *zone, uint32_t fi)
{
    struct dk_pcp_set *set = dk_stat_set(r->d, zone->number);
    uint64_t pfn = 0;
    dk_counter_add(&set->direct_allocs[r->ask.order], 1);
    dk_counter_add(&set->refills, 1);
    dk_counter_add(&set->refill_frames, 1u << r->ask.order);
    if (!dk_request_finish(r, zone, fi) || !dk_fi_to_pfn(r->d, fi, &pfn))
        return -1;
    return (int64_t)pfn;
}

/* One zone of the request's list. */
static enum dk_compact_result compact_one(struct dk_request *r, struct dk_zone *zone,
                                          struct dk_compaction *c, int64_t *pfn)
{
    enum dk_compact_result result;
    if (c->priority != DK_COMPACT_SYNC_FULL && dk_zone_compact_deferred(r->d, zone, r->ask.order))
        return DK_COMPACT_DEFERRED;
    if (!dk_zone_compact_suitable(r->d, zone, r->ask.order, r->highest))
        return DK_COMPACT_SKIPPED;
    c->captured = DK_NONE;
    c->budget = UINT32_MAX - 1;
    result = dk_compact_zone_run(c, zone);
    dk_trace_mm_compaction_end(r->d, zone->number, r->ask.order, result);
    if (c->captured != DK_NONE)
        *pfn = give_captured(r, zone, c->captured);
    if (result == DK_COMPACT_SUCCESS || c->priority != DK_COMPACT_ASYNC)
        dk_zone_compact_note(zone, r->ask.order, result == DK_COMPACT_SUCCESS);
    return result;
}

static void count_result(const struct dk_request *r, enum dk_compact_result result)
{
    if (result == DK_COMPACT_SKIPPED || result == DK_COMPACT_DEFERRED)
        return;
    dk_count(r->d, DK_EVENT_COMPACT_STALL, 1);
    dk_count(r->d, result == DK_COMPACT_SUCCESS ? DK_EVENT_COMPACT_SUCCESS : DK_EVENT_COMPACT_FAIL,
             1);
}

enum dk_compact_result dk_direct_compact(struct dk_request *r, enum dk_compact_priority priority,
                                         uint32_t alloc_flags, int64_t *pfn)
{
    enum dk_compact_result best = DK_COMPACT_SKIPPED, result;
    struct dk_reclaim_scope scope;
    struct dk_zonelist_walk walk;
    struct dk_compaction c = {.d = r->d, .order = r->ask.order, .type = r->type,
                              .priority = priority, .gfp = r->ask.gfp, .direct = true,
                              .capture = !r->ask.limit_pfn};
    (void)alloc_flags;
    *pfn = -1;
    /* Who must not do I/O cannot wait for the owners of what is moved. */
    if (!(r->ask.gfp & DECKLE_GFP_IO) || !dk_reclaim_enter(r->d, r->ask.task, &scope))
        return DK_COMPACT_SKIPPED;
    c.task = scope.task;
    dk_trace_mm_compaction_try_to_compact_pages(r->d, r->ask.order, r->ask.gfp, priority);
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone && *pfn < 0; zone = dk_zonelist_next(r->d, &walk)) {
        if (!dk_request_below_limit(r, zone))
            continue;
        result = compact_one(r, zone, &c, pfn);
        best = result > best ? result : best;
        if (result == DK_COMPACT_SUCCESS)
            break;
    }
    dk_reclaim_leave(r->d, &scope);
    count_result(r, best);
    return best;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int64_t compact_all(struct deckle *d, struct dk_zone *zone, struct deckle_task *task)
{
    struct dk_reclaim_scope scope;
    struct dk_compaction c = {.d = d, .order = DK_COMPACT_WHOLE, .type = DECKLE_MOVABLE,
                              .priority = DK_COMPACT_SYNC_FULL, .gfp = DECKLE_GFP_KERNEL,
                              .budget = UINT32_MAX, .captured = DK_NONE};
    if (!dk_can_compact(d))
        return DECKLE_ENOTSUP;
    if (!dk_reclaim_enter(d, task ? task : dk_current_task(d), &scope))
        return DECKLE_EBUSY;
    c.task = scope.task;
    dk_compact_zone_run(&c, zone);
    dk_reclaim_leave(d, &scope);
    return c.emptied;
}

int64_t deckle_compact_zone(struct deckle *d, uint32_t zone, struct deckle_task *task)
{
    if (!d || zone >= d->sb->nr_zones)
        return DECKLE_ENODEV;
    return compact_all(d, &d->zones[zone], task);
}

int64_t deckle_compact_node(struct deckle *d, uint32_t node, struct deckle_task *task)
{
    int64_t sum = 0;
    if (!d || node >= d->sb->nr_nodes)
        return DECKLE_ENODEV;
    for (uint32_t i = 0; i < d->sb->nr_zones; i++) {
        int64_t n = d->zones[i].node == node ? compact_all(d, &d->zones[i], task) : 0;
        if (n < 0)
            return n;
        sum += n;
    }
    return sum;
}

/* ---- score ----------------------------------------------------------------------------------- */

static uint64_t zone_score(const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t blocks[DK_NR_ORDERS];
    dk_zone_free_blocks(d, zone, DK_ANY_TYPE, blocks);
    struct dk_free_summary free = dk_free_summarise(blocks, d->max_order + 1, DK_BLOCK_ORDER);
    return dk_extfrag_percent(&free);
}

int deckle_fragmentation_score(const struct deckle *d, uint32_t node)
{
    uint64_t sum = 0, present = 0;
    if (!d || node >= d->sb->nr_nodes)
        return DECKLE_ENODEV;
    for (uint32_t i = 0; i < d->sb->nr_zones; i++) {
        const struct dk_zone *zone = &d->zones[i];
        uint64_t frames = dk_load_relaxed(&zone->present);
        if (zone->node != node || !frames)
            continue;
        sum += frames * zone_score(d, zone);
        present += frames;
    }
    return present ? (int)dk_div64(sum, present) : 0;
}
