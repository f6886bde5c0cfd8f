/* SPDX-License-Identifier: MIT */
/*
 * Take and give inside pageblocks (orders 0 to 9), and the order in which blocks are chosen.
 *
 * Protocol of one block. Invariant, at every instant:
 *
 *     clear bits = free count of W + reserved but not yet claimed + cleared but not yet added
 *
 *  Take   1. reserve: CAS W used += n           (partner: every other CAS on W)
 *         2. claim n frames in the bits         (dk_line_claim; they exist by the invariant, though
 *                                                maybe not as runs of the order: then the rest is
 *                                                undone)
 *         3. settle: read W, scan the line, CAS exactly that W to the lower run
 *  Give   1. clear the bits                     2. scan the line
 *         3. CAS W used -= n, run = max(run, scanned), version + 1
 *  Undo   is a give of frames that were never claimed.
 *
 *  The run is never too small but for unfinished operations. It is lowered only in "settle",
 *  against the W that was read before the scan: every give that had finished before that read had
 *  its bits scanned; one that finishes after it advances the version and the CAS fails; one that is
 *  not finished will raise the run by its own scan, made after its bits were cleared. Two gives
 *  that complete one run both scan after they cleared, with seq_cst operations, so the later one
 *  sees the whole run. Without the version, "take, give, take, give" between read and CAS restores
 *  W and hides a pair for ever.
 *  With 32-bit words the version has 10 bits; a lowering that slept through a multiple of 1024
 *  gives is undone by the scan after it ("recheck").
 *
 *  A full free count (used == 0) proves that nothing is reserved or half-cleared, so taking the
 *  block as a whole is one CAS from that state (group.c). A run of order 9 is said exactly when
 *  used == 0.
 *
 * After every CAS that changed the class of W, whoever made it shows the block in its new tree and
 * hides it in the old one (index.c). A give that did not change it looks whether the block is
 * shown: who changed it may be stopped before he showed it, and must not withhold other people's
 * frames. A take makes two CASes; it shows the result of the last one only: until then the block is
 * part of the unfinished take.
 *
 * Choice. Fullest first, which is measured by the largest run: among the blocks that have a run of
 * the order, those with the smallest run. A CPU takes a block to itself (OWNED), works in it until
 * it has no fitting run, and finds other CPUs' blocks only when nothing else serves: so two CPUs do
 * not write one line. Then CMA, then other migratetypes: claim, steal (policy/fallback.h),
 * HighAtomic last.
 *
 * Failure. EMPTY is said only after all trees that could serve read empty twice with equal
 * versions.
 */
#include "core/zone_internal.h"

#include "core/ablation.h"
#include "core/check.h"
#include "policy/fallback.h"
#include "policy/watermark_setup.h"

#define SEARCH_TRIES  8u  /* whole searches before CONTENDED */
#define REPAIR_TRIES  64u /* candidates of one tree that turned out not to fit */

/* ---- counters ------------------------------------------------------------------------------- */

/*
 * The CPU's share goes to the zone. Two steps, and whoever is stopped between them must not make
 * the zone look emptier than it is: others would be refused for a mark although frames are free
 * that have nothing to do with him. So what is added goes to the zone first, and what is taken out
 * of the share. If the share has changed meanwhile, who changed it folds.
 */
static void fold_free(struct dk_zone *zone, struct dk_pcp_set *set, dk_word delta)
{
    bool more = !(delta >> (DK_WORD_BITS - 1));
    dk_word expected = delta;
    if (more)
        dk_add_relaxed(&zone->free, delta);
    bool folded = dk_cas(&set->free_delta, &expected, 0);
    if (folded != more)
        dk_add_relaxed(&zone->free, folded ? delta : (dk_word)0 - delta);
}

static void add_free(struct dk_zone *zone, struct dk_pcp_set *set, dk_word n)
{
    dk_word delta = dk_add_relaxed(&set->free_delta, n) + n;
    dk_word threshold = dk_load_relaxed(&zone->stat_threshold);
    if (dk_unlikely(delta + threshold > 2 * threshold))
        fold_free(zone, set, delta);
}

static dk_word open_free(dk_word w)
{
    return w & (DK_W_OFFLINE | DK_W_ISOLATED) ? 0 : dk_w_free(w);
}

static dk_word shut_free(dk_word w)
{
    return w & DK_W_ISOLATED ? dk_w_free(w) : 0;
}

static dk_word free_of_type(dk_word w, unsigned type)
{
    return dk_w_type(w) == type ? open_free(w) : 0;
}

void dk_zone_account(struct dk_zone *zone, struct dk_pcp_set *set, dk_word from, dk_word to)
{
    dk_word n = open_free(to) - open_free(from);
    if (n)
        add_free(zone, set, n);
    if (dk_likely(dk_w_type(from) < DECKLE_NR_PCP_TYPES && dk_w_type(to) < DECKLE_NR_PCP_TYPES &&
                  !((from | to) & DK_W_ISOLATED)))
        return;
    dk_word cma = free_of_type(to, DECKLE_CMA) - free_of_type(from, DECKLE_CMA);
    if (cma)
        dk_add_relaxed(&zone->free_cma, cma);
    dk_word ha = free_of_type(to, DECKLE_HIGHATOMIC) - free_of_type(from, DECKLE_HIGHATOMIC);
    if (ha)
        dk_add_relaxed(&zone->free_highatomic, ha);
    dk_word isolated = shut_free(to) - shut_free(from);
    if (isolated)
        dk_add_relaxed(&zone->free_isolated, isolated);
    dk_word blocks = (dk_word)(dk_w_type(to) == DECKLE_HIGHATOMIC) -
                     (dk_word)(dk_w_type(from) == DECKLE_HIGHATOMIC);
    if (blocks)
        dk_add_relaxed(&zone->highatomic_frames, blocks * DK_BLOCK_FRAMES);
}

static uint64_t not_negative(uint64_t n)
{
    return n >> 63 ? 0 : n;
}

/* Deltas are two's complement words; widen by sign. */
static uint64_t widen(dk_word v)
{
    return DK_WORD_BITS == 64 ? v : (uint64_t)(int64_t)(int32_t)(uint32_t)v;
}

uint64_t dk_zone_free_racy(const struct dk_zone *zone)
{
    return not_negative(widen(dk_load_relaxed(&zone->free)));
}

uint64_t dk_zone_free_exact(const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t sum = widen(dk_load_relaxed(&zone->free));
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        sum += widen(dk_load_relaxed(&dk_set(d, zone->number, cpu)->free_delta));
    return not_negative(sum);
}

/* ---- one block ------------------------------------------------------------------------------- */

struct dk_span *dk_span_of_block(const struct deckle *d, const struct dk_zone *zone, uint32_t block)
{
    DK_FOR_EACH_SPAN(d, zone, span)
        if (block - span->first_block < span->nr_blocks)
            return span;
    return NULL;
}

static void recheck_after_lowering(struct dk_call *c, const struct dk_span *span, uint32_t block)
{
    dk_aword *word = &c->d->words[block];
    unsigned code = dk_line_run_code(dk_line(c->d, block));
    dk_word w = dk_load_seq(word);
    while (code < dk_w_run_code(w) && dk_w_used(w) && !(w & DK_W_WHOLE)) {
        dk_word raised = dk_w_with_run_code(w, code) + DK_W_VERSION_ONE;
        dk_word from = w;
        if (dk_cas(word, &w, raised)) {
            dk_index_move(c->d, span, block, from, raised);
            return;
        }
    }
}

/* The end of an operation that changed W from `from` to `to` and may have used up the largest run:
 * lower the run, then show the block where it belongs. A caller without a frame of the block may
 * find it free again; a scan does not see the run of order 9, so that is left alone. */
static void settle(struct dk_call *c, const struct dk_span *span, uint32_t block, dk_word from,
                   dk_word to)
{
    dk_aword *word = &c->d->words[block];
    dk_word w = dk_load_seq(word);
    unsigned code = dk_line_run_code(dk_line(c->d, block));
    dk_word before = w, lowered = dk_w_with_run_code(w, code);
    if (code <= dk_w_run_code(w) || !dk_w_used(w) || (w & DK_W_SHUT) ||
        !dk_cas(word, &w, lowered)) {
        dk_index_move(c->d, span, block, from, to);
        return;
    }
    if (dk_w_class(before) == dk_w_class(to)) {
        dk_index_move(c->d, span, block, from, lowered);
    } else {
        dk_index_move(c->d, span, block, from, to);
        dk_index_move(c->d, span, block, before, lowered);
    }
    if (DK_WORD_BITS == 32)
        recheck_after_lowering(c, span, block);
}

void dk_block_give(struct dk_call *c, const struct dk_span *span, uint32_t block, unsigned n)
{
    dk_aword *word = &c->d->words[block];
    unsigned code = dk_line_run_code(dk_line(c->d, block));
    dk_word w = dk_load_relaxed(word), from, to;
    do {
        from = w;
        to = dk_w_give(w, n, code);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(c->zone, c->set, from, to);
    if (n && dk_w_class(from) == dk_w_class(to))
        dk_index_show(c->d, span, block, to);
    else
        dk_index_move(c->d, span, block, from, to);
}

/* How a block may be used by this take. */
struct use {
    unsigned expect;  /* its type must be this */
    unsigned become;  /* and becomes this */
    bool own;         /* the CPU takes it to itself */
    bool claim;       /* it is another type's block in use: the claim rule decides */
    unsigned limit;   /* frames of it that may be used */
    bool unowned;     /* found as nobody's own: it must still be, or two CPUs start in one block */
};

/* Frames of a block that were given out as Movable. */
static unsigned movable_frames(const struct deckle *d, uint32_t block)
{
    const dk_a8 *state = d->state + (size_t)block * DK_BLOCK_FRAMES;
    unsigned movable = 0, step;
    for (unsigned f = 0; f < DK_BLOCK_FRAMES; f += step) {
        uint8_t s = dk_a8_load_relaxed(&state[f]);
        step = dk_state_is_head(s) ? 1u << dk_state_order(s) : 1;
        if (dk_state_is_head(s) && dk_state_type(s) == DECKLE_MOVABLE)
            movable += step;
    }
    return movable;
}

/* May a foreign block that is partly used be claimed? (policy/fallback.h) */
static bool may_claim(struct dk_call *c, uint32_t block, dk_word w, const struct use *use)
{
    if (!use->claim)
        return true;
    uint64_t alike = dk_claim_alike((enum deckle_migratetype)use->become,
                                    (enum deckle_migratetype)use->expect, dk_w_free(w),
                                    movable_frames(c->d, block), DK_BLOCK_FRAMES);
    return dk_claim_block(dk_w_free(w), alike, DK_BLOCK_FRAMES, dk_grouping(c->d));
}

static dk_word reserved(dk_word w, unsigned n, const struct use *use)
{
    w = dk_w_reserve(w, n);
    if (use->become != use->expect)
        w = dk_w_with_type(w, use->become);
    return use->own ? w | DK_W_OWNED : w;
}

/* Does a block that the address limit cuts have a run below it? Asked before anything is reserved:
 * a reservation that is undone advances the version, and may have changed the type, for nothing. */
static bool runs_below(const struct dk_call *c, uint32_t block, unsigned limit)
{
    return dk_line_run_code_below(dk_line(c->d, block), limit) + c->take->order <= DK_BLOCK_ORDER;
}

static unsigned take_from_block(struct dk_call *c, const struct dk_span *span, uint32_t block,
                                const struct use *use, uint32_t *fis, unsigned want)
{
    struct deckle *d = c->d;
    unsigned order = c->take->order, n;
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from, to;
    if (use->limit < DK_BLOCK_FRAMES && !runs_below(c, block, use->limit))
        return 0;
    do {
        if ((w & (use->unowned ? DK_W_SHUT | DK_W_OWNED : DK_W_SHUT)) ||
            dk_w_type(w) != use->expect || !dk_w_has_run(w, order) || !may_claim(c, block, w, use))
            return 0;
        n = dk_w_free(w) >> order;
        if (n > want)
            n = want;
        if (!n) { /* the run is overstated: let W say so */
            settle(c, span, block, w, w);
            return 0;
        }
        from = w;
        to = reserved(w, n << order, use);
    } while (!dk_cas(word, &w, to));
    dk_zone_account(c->zone, c->set, from, to);

    uint16_t offsets[DK_REFILL_MAX];
    bool rolled_back = false;
    unsigned got = dk_line_claim(dk_line(d, block), order, use->limit, offsets, n, &rolled_back);
    for (unsigned i = 0; i < got; i++)
        fis[i] = block * DK_BLOCK_FRAMES + offsets[i];
    settle(c, span, block, from, to);
    if (got < n || rolled_back)
        dk_block_give(c, span, block, (n - got) << order);
    return got;
}

/* ---- the CPU's own blocks
 * --------------------------------------------------------------------- */

static dk_a32 *current_block(struct dk_call *c)
{
    if (c->take->cpu >= c->d->nr_cpus)
        return NULL;
    return &dk_set(c->d, c->zone->number, c->take->cpu)
                ->current_block[c->take->type][c->take->order > 3];
}

static void disown(struct dk_call *c, uint32_t block)
{
    struct dk_span *span = dk_span_of_block(c->d, c->zone, block);
    dk_aword *word = &c->d->words[block];
    dk_word w = dk_load_seq(word);
    while (span && (w & DK_W_OWNED)) {
        dk_word from = w, to = (w & ~DK_W_OWNED) + DK_W_VERSION_ONE;
        if (dk_cas(word, &w, to)) {
            dk_index_move(c->d, span, block, from, to);
            return;
        }
    }
}

static unsigned take_from_current(struct dk_call *c, uint32_t *fis, unsigned want)
{
    dk_a32 *current = current_block(c);
    uint32_t block = current ? dk_a32_load_relaxed(current) : 0;
    if (!block-- || block >= c->d->sb->max_blocks)
        return 0;
    struct dk_span *span = dk_span_of_block(c->d, c->zone, block);
    if (!span || !(dk_load_relaxed(&c->d->words[block]) & DK_W_OWNED))
        return 0;
    struct use use = {.expect = c->take->type, .become = c->take->type, .own = true,
                      .limit = DK_BLOCK_FRAMES};
    return take_from_block(c, span, block, &use, fis, want);
}

/* The CPU works in this block from now on and leaves the one it had. */
static void make_current(struct dk_call *c, uint32_t block)
{
    dk_a32 *current = current_block(c);
    uint32_t old = dk_a32_exchange(current, block + 1);
    if (old && old - 1 != block && old - 1 < c->d->sb->max_blocks)
        disown(c, old - 1);
}

/* ---- search
 * ----------------------------------------------------------------------------------- */

static bool next_section_window(const struct dk_call *c, struct dk_window *w)
{
    struct dk_section_view v;
    uint64_t limit = c->take->limit_pfn;
    while (dk_section_from(c->d, w->next, &v) && v.pfn < limit) {
        w->next = v.pfn + v.nr;
        if (v.zone != c->zone->number)
            continue;
        w->span = &c->d->spans[v.span];
        bool cut = v.pfn + v.nr > limit;
        uint64_t end = v.first_fi + (cut ? limit - v.pfn : v.nr + DK_BLOCK_FRAMES - 1);
        w->first = dk_section_first_block(&v) - w->span->first_block;
        w->whole = (uint32_t)(end / DK_BLOCK_FRAMES) - w->span->first_block;
        w->partial = cut ? (unsigned)(end % DK_BLOCK_FRAMES) : 0;
        return true;
    }
    return false;
}

bool dk_window_next(const struct dk_call *c, struct dk_window *w)
{
    if (c->take->limit_pfn)
        return next_section_window(c, w);
    w->span = dk_span_at(c->d, dk_a32_load_acquire(w->span ? &w->span->next_in_zone
                                                           : &c->zone->first_span));
    w->whole = w->span ? w->span->nr_blocks : 0;
    return w->span;
}

static unsigned take_candidate(struct dk_call *c, const struct dk_span *span, uint32_t item,
                               const struct use *use, uint32_t *fis, unsigned want)
{
    uint32_t block = span->first_block + item;
    if (c->take->order < DK_BLOCK_ORDER) {
        unsigned n = take_from_block(c, span, block, use, fis, want);
        if (n && use->own)
            make_current(c, block);
        return n;
    }
    if (use->limit < DK_BLOCK_FRAMES ||
        dk_w_type(dk_load_seq(&c->d->words[block])) != use->expect ||
        !dk_block_take_whole(c, span, block, use->become, false))
        return 0;
    fis[0] = block * DK_BLOCK_FRAMES;
    return 1;
}

static unsigned take_from_window(struct dk_call *c, const struct dk_window *w, uint32_t tree,
                                 struct use use, uint32_t *fis, unsigned want)
{
    uint32_t start = w->first, limit = w->whole + (w->partial != 0);
    unsigned got = 0;
    for (unsigned tries = 0; tries < REPAIR_TRIES; tries++) {
        uint32_t item = dk_index_find(c->d, w->span, tree, start, limit);
        if (item == DK_NONE)
            break;
        use.unowned = tree < DK_OWNED_BASE;
        use.limit = item < w->whole ? DK_BLOCK_FRAMES : w->partial;
        unsigned n = take_candidate(c, w->span, item, &use, fis + got, want - got);
        got += n;
        if (got == want || (n && c->take->order < DK_BLOCK_ORDER))
            break;
        if (n) {
            tries = 0;
        } else {
            dk_index_repair(c->d, w->span, tree, item);
            start = item + 1;
        }
    }
    return got;
}

/* Take from the blocks that one tree shows. */
static unsigned take_from_tree(struct dk_call *c, uint32_t tree, struct use use, uint32_t *fis,
                               unsigned want)
{
    DK_FOR_EACH_WINDOW(c, w) {
        if (!dk_index_root_shows(c->d, w.span, tree))
            continue;
        unsigned n = take_from_window(c, &w, tree, use, fis, want);
        if (n)
            return n;
    }
    return 0;
}

/* Blocks of one type with a run of at least the order, smallest run first. */
static unsigned take_from_type(struct dk_call *c, struct use use, bool owned, uint32_t *fis,
                               unsigned want)
{
    for (unsigned run = c->take->order; run <= DK_BLOCK_ORDER; run++) {
        unsigned n = take_from_tree(c, dk_class(use.expect, run, owned), use, fis, want);
        if (n)
            return n;
    }
    return 0;
}

static void boost(const struct deckle *d, struct dk_zone *zone)
{
    uint64_t next = dk_load_relaxed(&zone->boost);
    if (dk_watermark_boost(&next, dk_load_relaxed(&zone->high), dk_load_relaxed(&zone->managed),
                           DK_BLOCK_FRAMES, d->sb->boost_factor))
        dk_store_relaxed(&zone->boost, (dk_word)next);
}

/* For the policy of fallbacks: bit o of orders[t] = some block of type t has its largest run
 * there. */
static void runs_by_type(struct dk_call *c, uint32_t orders[DK_PCP_TYPES])
{
    for (unsigned type = 0; type < DK_PCP_TYPES; type++) {
        orders[type] = 0;
        DK_FOR_EACH_SPAN(c->d, c->zone, span)
            for (unsigned run = 0; run <= DK_BLOCK_ORDER; run++)
                if (dk_index_root_shows(c->d, span, dk_class(type, run, false)) ||
                    dk_index_root_shows(c->d, span, dk_class(type, run, true)))
                    orders[type] |= 1u << run;
    }
}

static unsigned take_picked(struct dk_call *c, struct dk_fallback_pick pick, struct use use,
                            uint32_t *fis, unsigned want)
{
    unsigned n = take_from_tree(c, dk_class(use.expect, pick.order, false), use, fis, want);
    if (!n && pick.order < DK_BLOCK_ORDER)
        n = take_from_tree(c, dk_class(use.expect, pick.order, true), use, fis, want);
    return n;
}

static bool may_own(const struct dk_call *c)
{
    return c->take->cpu < c->d->nr_cpus && c->take->order < DK_BLOCK_ORDER && !c->take->limit_pfn;
}

/* Claim: the block changes its type. Runs below `lowest` are no grounds for it. */
static unsigned take_by_claim(struct dk_call *c, unsigned lowest, uint32_t *fis, unsigned want)
{
    enum deckle_migratetype type = (enum deckle_migratetype)c->take->type;
    uint32_t orders[DK_PCP_TYPES];
    runs_by_type(c, orders);
    for (unsigned from = DK_BLOCK_ORDER;; from--) {
        struct dk_fallback_pick pick =
            dk_claim_pick(orders, type, from, lowest, dk_grouping(c->d), DK_BLOCK_ORDER);
        if (!pick.found)
            return 0;
        struct use use = {.expect = pick.type, .become = type, .own = may_own(c),
                          .claim = !pick.whole, .limit = DK_BLOCK_FRAMES};
        unsigned n = take_picked(c, pick, use, fis, want);
        if (n) {
            dk_counter_add(&c->zone->claims, 1);
            if (!pick.whole)
                boost(c->d, c->zone);
            return n;
        }
        from = pick.order;
        if (from <= lowest)
            return 0;
    }
}

/* Steal: a part of another type's block, which keeps its type. */
static unsigned take_by_steal(struct dk_call *c, uint32_t *fis, unsigned want)
{
    enum deckle_migratetype type = (enum deckle_migratetype)c->take->type;
    uint32_t orders[DK_PCP_TYPES];
    runs_by_type(c, orders);
    for (;;) {
        struct dk_fallback_pick pick =
            dk_steal_pick(orders, type, c->take->order, DK_BLOCK_ORDER);
        if (!pick.found)
            return 0;
        struct use use = {.expect = pick.type, .become = pick.type, .limit = DK_BLOCK_FRAMES};
        unsigned n = take_picked(c, pick, use, fis, want);
        if (n) {
            dk_counter_add(&c->zone->steals, 1);
            return n;
        }
        orders[pick.type] &= ~(1u << pick.order);
    }
}

static unsigned take_special(struct dk_call *c, unsigned type, uint32_t *fis, unsigned want)
{
    struct use use = {.expect = type, .become = type, .limit = DK_BLOCK_FRAMES};
    return take_from_type(c, use, false, fis, want);
}

static unsigned take_own_type(struct dk_call *c, uint32_t *fis, unsigned want)
{
    unsigned type = c->take->type, n;
    struct use use = {.expect = type, .become = type, .own = may_own(c), .limit = DK_BLOCK_FRAMES};
    if (use.own && (n = take_from_current(c, fis, want)))
        return n;
    return take_from_type(c, use, false, fis, want);
}

/* From blocks of the own type that other CPUs have taken to themselves. */
static unsigned take_theirs(struct dk_call *c, uint32_t *fis, unsigned want)
{
    unsigned type = c->take->type;
    struct use use = {.expect = type, .become = type, .limit = DK_BLOCK_FRAMES};
    return take_from_type(c, use, true, fis, want);
}

/* A CPU that can have a whole block of another type for its own does not write into another
 * CPU's. */
static unsigned take_by_fallback(struct dk_call *c, uint32_t *fis, unsigned want)
{
    unsigned lowest = dk_claim_min_order(c->take->order, c->take->flags, DK_BLOCK_ORDER), n = 0;
    if (may_own(c))
        n = take_by_claim(c, DK_BLOCK_ORDER, fis, want);
    if (!n)
        n = take_theirs(c, fis, want);
    return n ? n : take_by_claim(c, lowest, fis, want);
}

/* One pass over everything that could serve. */
static unsigned search(struct dk_call *c, uint32_t *fis, unsigned want)
{
    uint32_t flags = c->take->flags;
    unsigned n = 0;
    if (dk_alloc_highatomic_first(flags))
        n = take_special(c, DECKLE_HIGHATOMIC, fis, want);
    if (!n && dk_cma_first(flags, dk_zone_free_racy(c->zone), dk_load_relaxed(&c->zone->free_cma)))
        n = take_special(c, DECKLE_CMA, fis, want);
    if (!n)
        n = take_own_type(c, fis, want);
    if (!n && (flags & DK_ALLOC_CMA))
        n = take_special(c, DECKLE_CMA, fis, want);
    if (!n)
        n = take_by_fallback(c, fis, want);
    if (!n && !(flags & DK_ALLOC_NOFRAGMENT))
        n = take_by_steal(c, fis, want);
    if (!n && dk_alloc_highatomic_last(flags))
        n = take_special(c, DECKLE_HIGHATOMIC, fis, want);
    return n;
}

/* ---- failure
 * ---------------------------------------------------------------------------------- */

static bool tree_empty(struct dk_call *c, uint32_t tree, uint64_t *version)
{
    bool group = tree >= DK_GROUP_BASE;
    unsigned shift = group ? c->take->order - DK_BLOCK_ORDER : 0;
    DK_FOR_EACH_WINDOW(c, w) {
        uint32_t base = w.span->first_block;
        uint32_t lo = ((base + w.first) >> shift) - (base >> shift);
        uint32_t hi = w.whole == w.span->nr_blocks ? UINT32_MAX
                                                   : ((base + w.whole) >> shift) - (base >> shift);
        if (!dk_index_empty(c->d, w.span, tree, lo, hi, version))
            return false;
    }
    return true;
}

/* The block that the address limit cuts: no run below the limit, and W unchanged, is as good as
 * empty. */
static bool cut_blocks_empty(struct dk_call *c, uint64_t *version)
{
    DK_FOR_EACH_WINDOW(c, w) {
        if (!w.partial)
            continue;
        uint32_t block = w.span->first_block + w.whole;
        dk_word v = dk_load_seq(&c->d->words[block]);
        *version += v;
        if (!(v & DK_W_SHUT) && runs_below(c, block, w.partial))
            return false;
    }
    return true;
}

static bool type_fits(const struct dk_take *take, unsigned type)
{
    if (type == DECKLE_CMA)
        return take->flags & DK_ALLOC_CMA;
    if (type == DECKLE_HIGHATOMIC)
        return dk_alloc_highatomic_first(take->flags) || dk_alloc_highatomic_last(take->flags);
    return type == take->type || !(take->flags & DK_ALLOC_NOFRAGMENT);
}

static bool nothing_shown(struct dk_call *c, uint64_t *version)
{
    unsigned order = c->take->order;
    if (order > DK_BLOCK_ORDER)
        return tree_empty(c, dk_group_class(order), version);
    for (unsigned type = 0; type <= DECKLE_CMA; type++) {
        for (unsigned run = order; type_fits(c->take, type) && run <= DK_BLOCK_ORDER; run++) {
            if (!tree_empty(c, dk_class(type, run, false), version))
                return false;
            if (type < DK_PCP_TYPES && !tree_empty(c, dk_class(type, run, true), version))
                return false;
        }
    }
    return !c->take->limit_pfn || order == DK_BLOCK_ORDER || cut_blocks_empty(c, version);
}

/* Contract rule 6: twice, with the same versions. */
static bool was_empty(struct dk_call *c)
{
    uint64_t first = 0, second = 0;
    return nothing_shown(c, &first) && nothing_shown(c, &second) && first == second;
}

/* ---- entry points
 * ------------------------------------------------------------------------------ */

unsigned dk_zone_take(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                      const struct dk_take *take, uint32_t *fis, unsigned want, enum dk_short *why)
{
    struct dk_call c = {d, zone, set, take};
    for (unsigned tries = 0; tries < SEARCH_TRIES; tries++) {
        unsigned n = take->order > DK_BLOCK_ORDER ? dk_group_take(&c, fis, want)
                                                  : search(&c, fis, want);
        if (n) {
            *why = DK_SHORT_NONE;
            return n;
        }
        if (was_empty(&c)) {
            *why = DK_SHORT_EMPTY;
            return 0;
        }
    }
    *why = DK_SHORT_CONTENDED;
    return 0;
}

bool dk_zone_shows_nothing(struct deckle *d, struct dk_zone *zone, const struct dk_take *take,
                           uint64_t *version)
{
    struct dk_call c = {d, zone, NULL, take};
    return nothing_shown(&c, version);
}

void dk_zone_give(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned order,
                  const uint32_t *fis, unsigned n)
{
    struct dk_call c = {d, zone, set, NULL};
    for (unsigned i = 0; i < n;) {
        uint32_t block = fis[i] / DK_BLOCK_FRAMES;
        const struct dk_span *span = dk_span_of_block(d, zone, block);
        if (order >= DK_BLOCK_ORDER) {
            for (uint32_t b = block; b < block + (1u << (order - DK_BLOCK_ORDER)); b++)
                dk_block_give_whole(&c, span, b);
            i++;
            continue;
        }
        unsigned first = i;
        do
            i++;
        while (DK_DRAINS_GROUPS && i < n && fis[i] / DK_BLOCK_FRAMES == block);
        unsigned cleared = dk_line_release(dk_line(d, block), order, fis + first, i - first);
        if (cleared != (i - first) << order)
            dk_bad_state(d, fis[first], order);
        dk_block_give(&c, span, block, cleared);
    }
}

uint32_t dk_zone_suitable(const struct deckle *d, const struct dk_zone *zone, unsigned order)
{
    uint32_t types = 0;
    DK_FOR_EACH_SPAN(d, zone, span) {
        if (order > DK_BLOCK_ORDER) {
            if (dk_index_root_shows(d, span, dk_group_class(order)))
                types |= 1u << DECKLE_UNMOVABLE | 1u << DECKLE_MOVABLE | 1u << DECKLE_RECLAIMABLE;
            continue;
        }
        for (unsigned type = 0; type <= DECKLE_CMA; type++)
            for (unsigned run = order; run <= DK_BLOCK_ORDER && !(types >> type & 1); run++)
                if (dk_index_root_shows(d, span, dk_class(type, run, false)) ||
                    (type < DK_PCP_TYPES &&
                     dk_index_root_shows(d, span, dk_class(type, run, true))))
                    types |= 1u << type;
    }
    return types;
}
