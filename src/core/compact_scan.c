/* SPDX-License-Identifier: MIT */
/*
 * The two scanners of a zone (reference: 3.11 steps 3, 6, 8; 3.7 capture).
 *
 * The migration scanner goes through the pageblocks from the bottom and empties, in each, the area
 * of the wanted order that takes the fewest moves; the free scanner finds room from the top. Where
 * they meet the zone is done. Pageblocks that are free as a whole are neither emptied nor filled.
 * For whole pageblocks room is first looked for in pageblocks that cannot become free, so that
 * filling them costs no block: those where a move was refused in this pass (a few are remembered),
 * and those that hold something fixed.
 *
 * The position of the migration scanner outlives the run, so that the next one goes on there; it
 * and the refused pageblocks are hints. Any number of threads may scan a zone at once: what they
 * take is theirs, and an area that two of them empty at the same time is given up by at least one.
 *
 * Bounded by the pageblocks of the zone, and by the caller's budget of pageblocks worked on.
 */
#include "core/compact_internal.h"

#include "core/block.h"
#include "core/pcp.h"

/* ---- pageblocks in order --------------------------------------------------------------------- */

uint32_t dk_zone_block_from(const struct deckle *d, const struct dk_zone *zone, uint32_t block,
                            const struct dk_span **span)
{
    uint32_t best = DK_NONE;
    DK_FOR_EACH_SPAN(d, zone, s) {
        uint32_t first = s->first_block > block ? s->first_block : block;
        if (first < s->first_block + s->nr_blocks && first < best) {
            best = first;
            *span = s;
        }
    }
    return best;
}

uint32_t dk_zone_block_down(const struct deckle *d, const struct dk_zone *zone, uint32_t block,
                            const struct dk_span **span)
{
    uint32_t best = DK_NONE;
    DK_FOR_EACH_SPAN(d, zone, s) {
        uint32_t last = s->first_block + s->nr_blocks - 1;
        last = last < block ? last : block;
        if (last >= s->first_block && (best == DK_NONE || last > best)) {
            best = last;
            *span = s;
        }
    }
    return best;
}

/* ---- the free scanner ------------------------------------------------------------------------ */

static void begin_free_scanner(struct dk_free_scanner *f, const struct dk_compaction *c,
                               struct dk_zone *zone)
{
    *f = (struct dk_free_scanner){.d = c->d, .zone = zone};
    f->use_stuck = c->order == DK_COMPACT_WHOLE || c->order >= DK_BLOCK_ORDER;
    f->any_type = c->priority == DK_COMPACT_SYNC_FULL;
    for (unsigned k = 0; k < DK_BLOCK_ORDER; k++)
        f->cursor[k] = f->stuck[k] = DK_NONE;
}

/* Room for blocks that move? Frames of the HighAtomic reserve are not, nor those of types that must
 * not be mixed, unless all else failed. */
static bool is_target(const struct dk_free_scanner *f, dk_word w, unsigned order)
{
    unsigned type = dk_w_type(w);
    return !(w & DK_W_SHUT) && dk_w_used(w) && dk_w_used(w) < DK_BLOCK_FRAMES &&
           dk_w_has_run(w, order) &&
           (type == DECKLE_MOVABLE || type == DECKLE_CMA ||
            (f->any_type && type < DECKLE_NR_PCP_TYPES));
}

static DK_NOINLINE bool is_stuck(const struct deckle *d, uint32_t block)
{
    struct dk_area_survey survey;
    dk_area_survey(d, block * DK_BLOCK_FRAMES, DK_BLOCK_ORDER, &survey);
    return survey.fixed;
}

/* Pageblocks that could not be emptied: a slot each, the later one wins. */
static dk_a32 *stuck_slot(struct dk_zone *zone, uint32_t block)
{
    return &zone->compact.stuck[block % DK_ARRAY_LEN(zone->compact.stuck)];
}

static bool is_remembered(struct dk_zone *zone, uint32_t block)
{
    return dk_a32_load_relaxed(stuck_slot(zone, block)) == block + 1;
}

static void forget_all(struct dk_zone *zone)
{
    for (unsigned i = 0; i < DK_ARRAY_LEN(zone->compact.stuck); i++)
        dk_a32_store_relaxed(&zone->compact.stuck[i], 0);
}

static DK_NOINLINE uint32_t take_from_remembered(struct dk_free_scanner *f, unsigned order,
                                                 uint32_t avoid)
{
    struct dk_take take = {.order = order};
    struct dk_call call = {f->d, f->zone, dk_stat_set(f->d, f->zone->number), &take, NULL};
    for (unsigned i = 0; i < DK_ARRAY_LEN(f->zone->compact.stuck); i++) {
        const struct dk_span *span = NULL;
        uint32_t block = dk_a32_load_relaxed(&f->zone->compact.stuck[i]) - 1, fi;
        if (block == DK_NONE || block == avoid ||
            dk_zone_block_from(f->d, f->zone, block, &span) != block ||
            !is_target(f, dk_load_relaxed(&f->d->words[block]), order))
            continue;
        if (dk_block_take(&call, span, block, &fi, 1))
            return fi;
    }
    return DK_NONE;
}

/* From *cursor down to `floor`. only_stuck: pageblocks that cannot be emptied. */
static uint32_t take_from(struct dk_free_scanner *f, uint32_t *cursor, unsigned order,
                          uint32_t floor, uint32_t avoid, bool only_stuck)
{
    struct dk_take take = {.order = order};
    struct dk_call call = {f->d, f->zone, dk_stat_set(f->d, f->zone->number), &take, NULL};
    while (*cursor) {
        const struct dk_span *span = NULL;
        uint32_t block = dk_zone_block_down(f->d, f->zone, *cursor - 1, &span), fi;
        if (block == DK_NONE || block < floor) {
            *cursor = 0;
            break;
        }
        f->scanned++;
        if (block != avoid && is_target(f, dk_load_relaxed(&f->d->words[block]), order) &&
            (!only_stuck || is_stuck(f->d, block)) &&
            dk_block_take(&call, span, block, &fi, 1)) {
            *cursor = block + 1; /* it may have more */
            return fi;
        }
        *cursor = block;
    }
    return DK_NONE;
}

uint32_t dk_free_scanner_take(struct dk_free_scanner *f, unsigned order, uint32_t avoid)
{
    uint32_t fi = DK_NONE;
    if (order >= DK_BLOCK_ORDER)
        return DK_NONE;
    if (f->use_stuck)
        fi = take_from_remembered(f, order, avoid);
    if (f->use_stuck && fi == DK_NONE)
        fi = take_from(f, &f->stuck[order], order, 0, avoid, true);
    return fi != DK_NONE ? fi : take_from(f, &f->cursor[order], order, f->floor, avoid, false);
}

/* ---- the migration scanner ------------------------------------------------------------------- */

struct scan {
    struct dk_compaction *c;
    struct dk_zone *zone;
    struct dk_free_scanner free;
};

/* Asynchronous direct compaction stays where it can expect success: in pageblocks of the
 * requester's type. */
static bool is_source(const struct dk_compaction *c, dk_word w)
{
    unsigned type = dk_w_type(w);
    if ((w & DK_W_SHUT) || !dk_w_used(w) || type == DECKLE_HIGHATOMIC)
        return false;
    if (c->priority != DK_COMPACT_ASYNC || !c->direct)
        return true;
    return c->type == DECKLE_MOVABLE ? type == DECKLE_MOVABLE || type == DECKLE_CMA
                                     : type == (unsigned)c->type;
}

/* May a block made in a pageblock of this type be kept for the request? (3.7) */
static bool may_capture(const struct dk_compaction *c, unsigned type)
{
    if (!c->capture || type >= DECKLE_NR_PCP_TYPES)
        return false;
    return c->order >= DK_BLOCK_ORDER || c->type == DECKLE_MOVABLE || type != DECKLE_MOVABLE;
}

/* The own CPU's caches without a word to anybody, the others' when the compaction may wait. */
static void drain_caches(const struct dk_compaction *c, struct dk_zone *zone)
{
    uint32_t cpu = dk_cpu(c->d);
    if (c->priority != DK_COMPACT_ASYNC)
        dk_pcp_drain_zone(c->d, zone, NULL);
    else if (cpu < c->d->nr_cpus)
        dk_pcp_drain_cpu(c->d, zone, cpu, NULL);
}

static enum dk_area_result empty(struct scan *s, const struct dk_span *span, uint32_t fi,
                                 unsigned order)
{
    struct dk_compaction *c = s->c;
    unsigned type = dk_w_type(dk_load_relaxed(&c->d->words[fi / DK_BLOCK_FRAMES]));
    bool hold = c->captured == DK_NONE && may_capture(c, type);
    enum dk_area_result result = dk_area_empty(c, s->zone, span, fi, order, &s->free, hold);
    if (result == DK_AREA_LOOSE) {
        drain_caches(c, s->zone);
        result = dk_area_empty(c, s->zone, span, fi, order, &s->free, hold);
    }
    if (result != DK_AREA_EMPTIED)
        return result;
    c->emptied++;
    if (hold) {
        c->captured = fi;
        dk_count(c->d, DK_EVENT_COMPACT_CAPTURED, 1);
    }
    return result;
}

/* The area of the pageblock that takes the fewest moves; DK_NONE if all hold something fixed. */
static DK_NOINLINE uint32_t best_area(const struct dk_compaction *c, uint32_t block, unsigned order)
{
    uint32_t first = block * DK_BLOCK_FRAMES, best = DK_NONE;
    unsigned fewest = DK_BLOCK_FRAMES + 1;
    for (uint32_t fi = first; fi < first + DK_BLOCK_FRAMES; fi += 1u << order) {
        struct dk_area_survey survey;
        dk_area_survey(c->d, fi, order, &survey);
        if (!survey.fixed && survey.movable + survey.loose < fewest) {
            fewest = survey.movable + survey.loose;
            best = fi;
        }
    }
    return best;
}

/* One pageblock, or the group that begins with it. */
static enum dk_area_result work_on(struct scan *s, const struct dk_span *span, uint32_t block)
{
    const struct dk_compaction *c = s->c;
    unsigned order = c->order == DK_COMPACT_WHOLE ? DK_BLOCK_ORDER : c->order;
    uint32_t area = block * DK_BLOCK_FRAMES;
    if (order > DK_BLOCK_ORDER) {
        uint32_t n = 1u << (order - DK_BLOCK_ORDER);
        if ((block & (n - 1)) || n > span->nr_blocks - (block - span->first_block))
            return DK_AREA_FAILED;
    } else if (order < DK_BLOCK_ORDER) {
        area = best_area(c, block, order);
    }
    return area == DK_NONE ? DK_AREA_FAILED : empty(s, span, area, order);
}

/* Is what was wanted there? Also when somebody else freed it. */
static bool is_finished(const struct scan *s)
{
    const struct dk_compaction *c = s->c;
    if (c->captured != DK_NONE)
        return true;
    return c->order != DK_COMPACT_WHOLE &&
           (dk_zone_suitable(c->d, s->zone, c->order) & ((1u << DECKLE_NR_PCP_TYPES) - 1));
}

/* Groups may begin with a pageblock that is free already. */
static bool worth_a_look(const struct dk_compaction *c, dk_word w)
{
    bool group = c->order != DK_COMPACT_WHOLE && c->order > DK_BLOCK_ORDER;
    return is_source(c, w) || (group && dk_w_is_groupable(w));
}

static enum dk_compact_result scan_zone(struct scan *s, uint32_t block)
{
    struct dk_compaction *c = s->c;
    const struct dk_span *span = NULL;
    uint64_t scanned = 0;
    enum dk_compact_result result = DK_COMPACT_FAILED;
    bool whole = c->order == DK_COMPACT_WHOLE || c->order == DK_BLOCK_ORDER;
    for (;; block++) {
        enum dk_area_result area;
        block = dk_zone_block_from(c->d, s->zone, block, &span);
        if (block == DK_NONE || !c->budget)
            break;
        scanned++;
        if (!worth_a_look(c, dk_load_relaxed(&c->d->words[block])) ||
            (whole && is_remembered(s->zone, block)))
            continue;
        c->budget--;
        s->free.floor = block + 1;
        area = work_on(s, span, block);
        if (area == DK_AREA_EMPTIED && is_finished(s)) {
            result = DK_COMPACT_SUCCESS;
            break;
        }
        if ((area == DK_AREA_FAILED || area == DK_AREA_LOOSE) && whole)
            dk_a32_store_relaxed(stuck_slot(s->zone, block), block + 1);
        if (area == DK_AREA_NO_TARGET) {
            block = DK_NONE; /* the scanners have met */
            break;
        }
    }
    if (block == DK_NONE)
        forget_all(s->zone);
    dk_a32_store_relaxed(&s->zone->compact.migrate_block, block == DK_NONE ? 0 : block);
    dk_count(c->d, DK_EVENT_COMPACT_MIGRATE_SCANNED, scanned);
    dk_count(c->d, DK_EVENT_COMPACT_FREE_SCANNED, s->free.scanned);
    return result;
}

enum dk_compact_result dk_compact_zone_run(struct dk_compaction *c, struct dk_zone *zone)
{
    struct scan s = {.c = c, .zone = zone};
    uint32_t from = dk_a32_load_relaxed(&zone->compact.migrate_block);
    if (c->priority == DK_COMPACT_SYNC_FULL && c->budget == UINT32_MAX)
        from = 0;
    begin_free_scanner(&s.free, c, zone);
    return scan_zone(&s, from);
}
