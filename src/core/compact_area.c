/* SPDX-License-Identifier: MIT */
/*
 * Emptying one area: an aligned stretch of 2^order frames, inside a pageblock or of whole ones.
 *
 * Who owns what, at every instant:
 *
 *   1  The free frames of the area are taken by the compactor, as an allocation takes them (reserve
 *      in W, set the bits). Nobody else can get them now, so the area only gets emptier.
 *   2  Each block in the area that was given out as Movable is moved. The new block is taken from
 *      elsewhere and made a complete allocation before the hook sees it: order, Movable, compound
 *      mark, owner tag, one reference. While the hook runs the old block is its user's and the new
 *      one is the compactor's, until the hook lets the user know it.
 *   3  The hook says OK: the new block is the user's (who may have freed it already), the old one
 *      is the compactor's, who clears its state byte but keeps its bits: it is taken, like those of
 *      step 1. The hook says anything else: the old block is whose it was, the new one goes back.
 *   4  All frames of the area are taken: it is a block like one that came from dk_zone_take, the
 *      captured block of the reference. Nobody could have taken a part of it meanwhile, which is
 *      why it is made this way and not by freeing and hoping. Else what was taken goes back.
 *
 * Races with the owner. Between the look at the state byte and the hook's decision the block may be
 * freed, and given out again to anybody: only the hook knows, under its own lock, whether its user
 * has it now, and says BUSY if not. That is why what the compactor saw (order, owner, compound) is
 * told to the hook: it must be what the hook's own books say. A wrong OK is found when the old
 * block is cleared: its state byte does not say "head of this order", which is a bad free.
 *
 * A thread that is stopped in the middle withholds the area and one block, nothing else; allocation
 * goes on everywhere else, and in the area's pageblock too.
 */
#include "core/alloc.h"
#include "core/check.h"
#include "core/compact_internal.h"
#include "core/compound.h"
#include "core/prepare.h"
#include "core/trace.h"

/* An area inside one pageblock that is being emptied. */
struct area {
    struct dk_compaction *c;
    struct dk_zone *zone;
    const struct dk_span *span;
    uint32_t block;
    unsigned first, nr;           /* frames of the pageblock */
    dk_word held[DK_LINE_WORDS];  /* bits of frames that are the compactor's */
};

void dk_area_survey(const struct deckle *d, uint32_t fi, unsigned order, struct dk_area_survey *out)
{
    const dk_aword *line = dk_line(d, fi / DK_BLOCK_FRAMES);
    unsigned first = fi % DK_BLOCK_FRAMES, nr = 1u << order, step;
    *out = (struct dk_area_survey){0, 0, false};
    for (unsigned i = 0; i < nr; i += step) {
        uint8_t s = dk_a8_load_relaxed(&d->state[fi + i]);
        unsigned frame = first + i;
        step = 1;
        if (dk_state_is_head(s)) {
            step = 1u << dk_state_order(s);
            out->movable += step;
            out->fixed |= dk_state_type(s) != DECKLE_MOVABLE || dk_state_order(s) >= order;
        } else if (!dk_state_is_free(s)) {
            out->fixed = true; /* a hole, or reserved */
        } else {
            dk_word bits = dk_load_relaxed(&line[frame / DK_WORD_BITS]);
            out->loose += (unsigned)(bits >> frame % DK_WORD_BITS & 1);
        }
    }
    if (out->loose == nr && dk_head_of(d, fi) != DK_NONE)
        out->fixed = true; /* inside a larger block */
}

/* ---- taking and giving ----------------------------------------------------------------------- */

static dk_word mask_of_word(const struct area *a, unsigned word)
{
    unsigned start = word * DK_WORD_BITS, end = a->first + a->nr;
    dk_word mask = ~(dk_word)0;
    if (start + DK_WORD_BITS <= a->first || start >= end)
        return 0;
    if (a->first > start)
        mask &= ~dk_mask(a->first - start);
    return end < start + DK_WORD_BITS ? mask & dk_mask(end - start) : mask;
}

static unsigned held_frames(const struct area *a)
{
    unsigned n = 0;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        n += dk_popcount(a->held[i]);
    return n;
}

static void note_held(struct area *a, unsigned frame, unsigned nr)
{
    for (unsigned i = frame; i < frame + nr; i++)
        a->held[i / DK_WORD_BITS] |= (dk_word)1 << i % DK_WORD_BITS;
}

static struct dk_call call_of(const struct area *a)
{
    struct deckle *d = a->c->d;
    return (struct dk_call){d, a->zone, dk_stat_set(d, a->zone->number), NULL, NULL};
}

/* Bits that are clear now, in the area. */
static unsigned clear_bits(const struct area *a, dk_word masks[DK_LINE_WORDS])
{
    const dk_aword *line = dk_line(a->c->d, a->block);
    unsigned n = 0;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
        masks[i] = ~dk_load_seq(&line[i]) & mask_of_word(a, i);
        n += dk_popcount(masks[i]);
    }
    return n;
}

static bool reserve(struct dk_call *call, const struct area *a, unsigned n)
{
    dk_aword *word = &call->d->words[a->block];
    dk_word w = dk_load_seq(word), from, to;
    do {
        if ((w & DK_W_SHUT) || dk_w_free(w) < n)
            return false;
        from = w;
        to = dk_w_reserve(w, n);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(call, from, to);
    dk_index_move(call->d, a->span, a->block, from, to);
    return true;
}

/* Take the free frames of the area, as many as there are at this moment. */
static void hold_free(struct area *a)
{
    struct dk_call call = call_of(a);
    dk_aword *line = dk_line(call.d, a->block);
    dk_word masks[DK_LINE_WORDS];
    unsigned n = clear_bits(a, masks), got = 0;
    if (!n || !reserve(&call, a, n))
        return;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
        if (!masks[i])
            continue;
        dk_word mine = masks[i] & ~dk_or(&line[i], masks[i]);
        a->held[i] |= mine;
        got += dk_popcount(mine);
    }
    if (got < n)
        dk_block_give(&call, a->span, a->block, n - got);
}

static void give_held(struct area *a)
{
    struct dk_call call = call_of(a);
    dk_aword *line = dk_line(call.d, a->block);
    unsigned n = held_frames(a);
    if (!n)
        return;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        if (a->held[i])
            dk_and(&line[i], ~a->held[i]);
    dk_block_give(&call, a->span, a->block, n);
}

/* All frames of the pageblock are held: it becomes one whole block. Nothing else is in flight in it
 * (all bits set, all frames used), so WHOLE first and the bits after it. */
static bool make_whole(struct area *a)
{
    struct deckle *d = a->c->d;
    dk_aword *word = &d->words[a->block], *line = dk_line(d, a->block);
    dk_word w = dk_load_seq(word), from, to;
    do {
        if ((w & DK_W_SHUT) || dk_w_type(w) >= DECKLE_NR_PCP_TYPES)
            return false;
        from = w;
        to = dk_w_take_whole(w, a->c->type) + DK_W_VERSION_ONE;
    } while (!dk_cas(word, &w, to));
    dk_index_move(d, a->span, a->block, from, to);
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        dk_store_release(&line[i], 0);
    return true;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static enum deckle_migrate_mode mode_of(enum dk_compact_priority priority)
{
    return priority == DK_COMPACT_ASYNC        ? DECKLE_MIGRATE_ASYNC
           : priority == DK_COMPACT_SYNC_LIGHT ? DECKLE_MIGRATE_SYNC_LIGHT
                                               : DECKLE_MIGRATE_SYNC;
}

static void count_block(const struct area *a, unsigned order, bool taken)
{
    struct dk_pcp_set *set = dk_stat_set(a->c->d, a->zone->number);
    dk_counter_add(taken ? &set->direct_allocs[order] : &set->direct_frees[order], 1);
    dk_counter_add(taken ? &set->refills : &set->drains, 1);
    dk_counter_add(taken ? &set->refill_frames : &set->drain_frames, 1u << order);
}

/* The new block back to where it came from; it is nobody's. */
static void return_target(struct area *a, uint32_t to, unsigned order)
{
    struct deckle *d = a->c->d;
    dk_zone_give(d, a->zone, dk_stat_set(d, a->zone->number), order, &to, 1);
}

/* The new block, complete but for its contents. False: not usable; it is reported and stays out of
 * use. */
static bool prepare_target(struct area *a, uint32_t from, uint32_t to, uint8_t s)
{
    struct deckle *d = a->c->d;
    uint32_t owner = d->owners ? dk_a32_load_relaxed(&d->owners[from]) : 0;
    if (dk_prepare_alloc(d, to, dk_state_order(s), s & DK_STATE_COMPOUND ? DECKLE_GFP_COMP : 0,
                         DECKLE_MOVABLE, owner, NULL))
        return true;
    count_block(a, dk_state_order(s), true);
    return false;
}

static DK_NOINLINE int call_hook(struct area *a, uint32_t from, uint32_t to, uint8_t s)
{
    struct deckle *d = a->c->d;
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    struct deckle_migration m = {.size = sizeof(m), .order = dk_state_order(s),
                                 .mode = mode_of(a->c->priority),
                                 .owner = d->owners ? dk_a32_load_relaxed(&d->owners[to]) : 0,
                                 .compound = (s & DK_STATE_COMPOUND) != 0, .node = a->zone->node,
                                 .d = d, .task = a->c->task};
    int result;
    if (!hooks || !hooks->migrate || !dk_fi_to_pfn(d, from, &m.from) ||
        !dk_fi_to_pfn(d, to, &m.to))
        return DECKLE_EBUSY;
    result = hooks->migrate(hooks->ctx, &m);
    dk_trace_mm_compaction_migratepages(d, m.from, m.to, m.order, result);
    return result;
}

/* Step 3 for OK: the old block is ours. */
static bool retire(struct area *a, uint32_t from, unsigned order)
{
    struct deckle *d = a->c->d;
    uint64_t pfn = 0;
    uint32_t fi, zone;
    unsigned type;
    if (!dk_fi_to_pfn(d, from, &pfn) ||
        dk_prepare_free(d, pfn, order, 0, NULL, &fi, &zone, &type))
        return false;
    count_block(a, order, false);
    note_held(a, from % DK_BLOCK_FRAMES, 1u << order);
    return true;
}

/* Undo of prepare_target. */
static void unprepare(struct area *a, uint32_t to, unsigned order)
{
    struct deckle *d = a->c->d;
    uint64_t pfn = 0;
    uint32_t fi, zone;
    unsigned type;
    if (dk_fi_to_pfn(d, to, &pfn) && !dk_prepare_free(d, pfn, order, 0, NULL, &fi, &zone, &type))
        return_target(a, to, order);
}

static enum dk_area_result move_block(struct area *a, uint32_t from, uint8_t s,
                                      struct dk_free_scanner *f)
{
    struct deckle *d = a->c->d;
    unsigned order = dk_state_order(s);
    uint32_t to;
    if (d->descriptors && !dk_descriptor_may_free(d, from))
        return DK_AREA_FAILED; /* others hold references */
    to = dk_free_scanner_take(f, order, a->block);
    if (to == DK_NONE)
        return DK_AREA_NO_TARGET;
    dk_count(d, DK_EVENT_COMPACT_ISOLATED, 1u << order);
    if (!prepare_target(a, from, to, s))
        return DK_AREA_FAILED;
    if (call_hook(a, from, to, s)) {
        dk_count(d, DK_EVENT_PGMIGRATE_FAIL, 1u << order);
        unprepare(a, to, order);
        return DK_AREA_FAILED;
    }
    dk_count(d, DK_EVENT_PGMIGRATE_SUCCESS, 1u << order);
    count_block(a, order, true);
    return retire(a, from, order) ? DK_AREA_EMPTIED : DK_AREA_FAILED;
}

static DK_NOINLINE enum dk_area_result move_all(struct area *a, struct dk_free_scanner *f)
{
    const struct deckle *d = a->c->d;
    uint32_t fi = a->block * DK_BLOCK_FRAMES + a->first;
    unsigned step;
    for (unsigned i = 0; i < a->nr; i += step) {
        uint8_t s = dk_a8_load_relaxed(&d->state[fi + i]);
        enum dk_area_result result;
        step = 1;
        if (!dk_state_is_head(s))
            continue;
        step = 1u << dk_state_order(s);
        if (dk_state_type(s) != DECKLE_MOVABLE || step > a->nr - i)
            return DK_AREA_FAILED;
        if ((result = move_block(a, fi + i, s, f)) != DK_AREA_EMPTIED)
            return result;
    }
    return DK_AREA_EMPTIED;
}

/* ---- the area -------------------------------------------------------------------------------- */

static enum dk_area_result empty_in_block(struct area *a, struct dk_free_scanner *f)
{
    enum dk_area_result result;
    hold_free(a);
    result = move_all(a, f);
    if (result != DK_AREA_EMPTIED)
        return result;
    if (held_frames(a) < a->nr)
        hold_free(a); /* what its users freed meanwhile */
    return held_frames(a) == a->nr ? DK_AREA_EMPTIED : DK_AREA_LOOSE;
}

static enum dk_area_result empty_part(struct dk_compaction *c, struct dk_zone *zone,
                                      const struct dk_span *span, uint32_t fi, unsigned order,
                                      struct dk_free_scanner *f, bool hold)
{
    struct area a = {.c = c, .zone = zone, .span = span, .block = fi / DK_BLOCK_FRAMES,
                     .first = fi % DK_BLOCK_FRAMES, .nr = 1u << order};
    struct dk_area_survey survey;
    enum dk_area_result result;
    dk_area_survey(c->d, fi, order, &survey);
    if (survey.fixed)
        return DK_AREA_FAILED;
    result = empty_in_block(&a, f);
    if (result == DK_AREA_EMPTIED && hold && (order < DK_BLOCK_ORDER || make_whole(&a)))
        return DK_AREA_EMPTIED;
    give_held(&a);
    return result == DK_AREA_EMPTIED && hold ? DK_AREA_FAILED : result;
}

/* A pageblock of a group, held as a whole. */
static enum dk_area_result take_pageblock(struct dk_compaction *c, struct dk_zone *zone,
                                          const struct dk_span *span, uint32_t block,
                                          struct dk_free_scanner *f)
{
    struct dk_call call = {c->d, zone, dk_stat_set(c->d, zone->number), NULL, NULL};
    if (dk_block_take_whole(&call, span, block, c->type, false))
        return DK_AREA_EMPTIED;
    return empty_part(c, zone, span, block * DK_BLOCK_FRAMES, DK_BLOCK_ORDER, f, true);
}

static DK_NOINLINE enum dk_area_result empty_group(struct dk_compaction *c, struct dk_zone *zone,
                                                   const struct dk_span *span, uint32_t fi,
                                                   unsigned order, struct dk_free_scanner *f,
                                                   bool hold)
{
    struct dk_call call = {c->d, zone, dk_stat_set(c->d, zone->number), NULL, NULL};
    uint32_t first = fi / DK_BLOCK_FRAMES, n = 1u << (order - DK_BLOCK_ORDER), i;
    enum dk_area_result result = DK_AREA_EMPTIED;
    for (i = 0; i < n && result == DK_AREA_EMPTIED; i++)
        result = take_pageblock(c, zone, span, first + i, f);
    if (result == DK_AREA_EMPTIED && hold)
        return result;
    for (uint32_t got = result == DK_AREA_EMPTIED ? n : i - 1; got-- > 0;)
        dk_block_give_whole(&call, span, first + got);
    return result;
}

enum dk_area_result dk_area_empty(struct dk_compaction *c, struct dk_zone *zone,
                                  const struct dk_span *span, uint32_t fi, unsigned order,
                                  struct dk_free_scanner *f, bool hold)
{
    return order > DK_BLOCK_ORDER ? empty_group(c, zone, span, fi, order, f, hold)
                                  : empty_part(c, zone, span, fi, order, f, hold);
}
