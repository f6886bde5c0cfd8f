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
#include "core/client.h"
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
        dk_add_relaxed(&zone->counts[0].of[DK_COUNT_FREE], delta);
    bool folded = dk_cas(&set->free_delta, &expected, 0);
    if (folded != more)
        dk_add_relaxed(&zone->counts[0].of[DK_COUNT_FREE], folded ? delta : (dk_word)0 - delta);
}

static void add_free(struct dk_zone *zone, struct dk_pcp_set *set, dk_word n)
{
    dk_word delta = dk_add_relaxed(&set->free_delta, n) + n;
    dk_word threshold = dk_load_relaxed(&zone->stat_threshold);
    if (dk_unlikely(delta + threshold > 2 * threshold))
        fold_free(zone, set, delta);
}

/* Shared pools: blocks belong to epochs, which CPUs' shares know nothing of. */
static void count_free(const struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                       unsigned epoch, dk_word n)
{
    if (d->tags)
        dk_add_relaxed(&zone->counts[epoch].of[DK_COUNT_FREE], n);
    else
        add_free(zone, set, n);
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

/* Frames of the block if it has this type. */
static dk_word all_of_type(dk_word w, unsigned type)
{
    return dk_w_type(w) == type && !(w & DK_W_OFFLINE) ? DK_BLOCK_FRAMES : 0;
}

static void add_nonzero(dk_aword *counter, dk_word n)
{
    if (n)
        dk_add_relaxed(counter, n);
}

/* Types and isolation that have counters of their own. */
static bool is_special(dk_word from, dk_word to)
{
    return dk_w_type(from) >= DECKLE_NR_PCP_TYPES || dk_w_type(to) >= DECKLE_NR_PCP_TYPES ||
           ((from | to) & DK_W_ISOLATED);
}

static DK_NOINLINE void account_special(dk_aword *count, dk_word from, dk_word to)
{
    add_nonzero(&count[DK_COUNT_FREE_CMA],
                free_of_type(to, DECKLE_CMA) - free_of_type(from, DECKLE_CMA));
    add_nonzero(&count[DK_COUNT_FREE_HIGHATOMIC],
                free_of_type(to, DECKLE_HIGHATOMIC) - free_of_type(from, DECKLE_HIGHATOMIC));
    add_nonzero(&count[DK_COUNT_FREE_ISOLATED], shut_free(to) - shut_free(from));
    add_nonzero(&count[DK_COUNT_HIGHATOMIC],
                all_of_type(to, DECKLE_HIGHATOMIC) - all_of_type(from, DECKLE_HIGHATOMIC));
    add_nonzero(&count[DK_COUNT_CMA], all_of_type(to, DECKLE_CMA) - all_of_type(from, DECKLE_CMA));
}

DK_INLINE void account(const struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                       unsigned epoch, dk_word from, dk_word to)
{
    dk_word n = open_free(to) - open_free(from);
    if (n)
        count_free(d, zone, set, epoch, n);
    if (dk_unlikely(is_special(from, to)))
        account_special(zone->counts[epoch].of, from, to);
}

void dk_zone_account_in(const struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                        unsigned epoch, dk_word from, dk_word to)
{
    account(d, zone, set, epoch, from, to);
}

void dk_zone_account(struct dk_call *c, dk_word from, dk_word to)
{
    account(c->d, c->zone, c->set, dk_w_epoch(from), from, to);
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

uint64_t dk_zone_free_racy(const struct deckle *d, const struct dk_zone *zone)
{
    return not_negative(widen(dk_zone_count(d, zone, DK_COUNT_FREE)));
}

uint64_t dk_zone_free_exact(const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t sum = widen(dk_zone_count(d, zone, DK_COUNT_FREE));
    for (uint32_t cpu = 0; cpu < d->nr_cpus && !d->tags; cpu++)
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
    dk_zone_account(c, from, to);
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

static unsigned work_in_block(struct dk_call *c, const struct dk_span *span, uint32_t block,
                              const struct use *use, uint32_t *fis, unsigned want)
{
    struct deckle *d = c->d;
    unsigned order = c->take->order, n;
    dk_aword *word = &d->words[block];
    dk_word w = dk_load_seq(word), from, to;
    if (use->limit < DK_BLOCK_FRAMES && !dk_runs_below(c, block, use->limit))
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
    dk_zone_account(c, from, to);

    uint16_t offsets[DK_REFILL_MAX];
    bool rolled_back = false;
    unsigned got = dk_line_claim(dk_line(d, block), order, use->limit, offsets, n, &rolled_back);
    for (unsigned i = 0; i < got; i++)
        fis[i] = block * DK_BLOCK_FRAMES + offsets[i];
    dk_tag(d, order, fis, got);
    settle(c, span, block, from, to);
    if (got < n || rolled_back)
        dk_block_give(c, span, block, (n - got) << order);
    return got;
}

static unsigned take_from_block(struct dk_call *c, const struct dk_span *span, uint32_t block,
                                const struct use *use, uint32_t *fis, unsigned want)
{
    dk_intent_begin(c->intent, block);
    unsigned got = work_in_block(c, span, block, use, fis, want);
    dk_intent_end(c->intent);
    return got;
}

unsigned dk_block_take(struct dk_call *c, const struct dk_span *span, uint32_t block, uint32_t *fis,
                       unsigned want)
{
    unsigned type = dk_w_type(dk_load_seq(&c->d->words[block]));
    struct use use = {.expect = type, .become = type, .limit = DK_BLOCK_FRAMES};
    return take_from_block(c, span, block, &use, fis, want);
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
    dk_intent_begin(c->intent, block);
    dk_word w = dk_load_seq(word);
    while (span && (w & DK_W_OWNED)) {
        dk_word from = w, to = (w & ~DK_W_OWNED) + DK_W_VERSION_ONE;
        if (dk_cas(word, &w, to)) {
            dk_index_move(c->d, span, block, from, to);
            break;
        }
    }
    dk_intent_end(c->intent);
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
                           DK_BLOCK_FRAMES, dk_a32_load_relaxed(&d->sb->boost_factor))) {
        dk_store_relaxed(&zone->boost, (dk_word)next);
        dk_a32_store_relaxed(&zone->boosted, 1);
    }
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
    if (!n && dk_cma_first(flags, dk_zone_free_racy(c->d, c->zone),
                           dk_zone_count(c->d, c->zone, DK_COUNT_FREE_CMA)))
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

/* ---- entry points
 * ------------------------------------------------------------------------------ */

unsigned dk_zone_take(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                      const struct dk_take *take, uint32_t *fis, unsigned want, enum dk_short *why)
{
    struct dk_call c = {d, zone, set, take, NULL};
    unsigned n = 0;
    *why = DK_SHORT_CONTENDED;
    if (!dk_intent_open(d, &c.intent))
        return 0;
    for (unsigned tries = 0; tries < SEARCH_TRIES && *why == DK_SHORT_CONTENDED; tries++) {
        n = take->order > DK_BLOCK_ORDER ? dk_group_take(&c, fis, want) : search(&c, fis, want);
        if (n)
            *why = DK_SHORT_NONE;
        else if (dk_zone_was_empty(&c))
            *why = DK_SHORT_EMPTY;
    }
    dk_intent_close(c.intent);
    return n;
}

/* In a private pool there is such a block; what a shared one says may be damaged. */
static const struct dk_span *span_of_blocks(struct dk_call *c, uint32_t fi, unsigned order)
{
    const struct dk_span *span = dk_span_of_block(c->d, c->zone, fi / DK_BLOCK_FRAMES);
    uint32_t blocks = order > DK_BLOCK_ORDER ? 1u << (order - DK_BLOCK_ORDER) : 1;
    if (!c->d->tags ||
        (span && !(fi & ((1u << order) - 1)) &&
         fi / DK_BLOCK_FRAMES - span->first_block <= span->nr_blocks - blocks))
        return span;
    dk_bad_state(c->d, fi, order);
    return NULL;
}

/* Blocks of one order that lie in one pageblock. */
static void give_frames(struct dk_call *c, const struct dk_span *span, unsigned order,
                        const uint32_t *fis, unsigned n)
{
    uint32_t block = fis[0] / DK_BLOCK_FRAMES;
    if (!dk_intent_named(c, block)) {
        dk_block_abandon(c, span, block, order, fis, n);
        return;
    }
    dk_untag(c->d, order, fis, n);
    unsigned cleared = dk_line_release(dk_line(c->d, block), order, fis, n);
    if (cleared != n << order)
        dk_bad_state(c->d, fis[0], order);
    dk_block_give(c, span, block, cleared);
    dk_intent_end(c->intent);
}

void dk_zone_give(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned order,
                  const uint32_t *fis, unsigned n)
{
    struct dk_call c = {d, zone, set, NULL, NULL};
    dk_intent_open(d, &c.intent); /* without one a give goes another way (dk_block_abandon) */
    for (unsigned i = 0; i < n;) {
        uint32_t block = fis[i] / DK_BLOCK_FRAMES;
        const struct dk_span *span = span_of_blocks(&c, fis[i], order);
        if (!span) {
            i++;
            continue;
        }
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
        give_frames(&c, span, order, fis + first, i - first);
    }
    dk_intent_close(c.intent);
}

static bool span_has_run(const struct deckle *d, const struct dk_span *span, unsigned order,
                         unsigned type)
{
    if (order > DK_BLOCK_ORDER)
        return type < DK_PCP_TYPES && dk_index_root_shows(d, span, dk_group_class(order));
    unsigned runs = DK_BLOCK_ORDER - order + 1; /* classes begin with the largest run */
    return dk_index_roots_show(d, span, dk_class(type, DK_BLOCK_ORDER, false), runs) ||
           (type < DK_PCP_TYPES &&
            dk_index_roots_show(d, span, dk_class(type, DK_BLOCK_ORDER, true), runs));
}

bool dk_zone_has_run(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                     uint32_t types)
{
    DK_FOR_EACH_SPAN(d, zone, span)
        for (unsigned type = 0; type <= DECKLE_CMA; type++)
            if ((types >> type & 1) && span_has_run(d, span, order, type))
                return true;
    return false;
}

uint32_t dk_zone_suitable(const struct deckle *d, const struct dk_zone *zone, unsigned order)
{
    uint32_t types = 0;
    for (unsigned type = 0; type <= DECKLE_CMA; type++)
        if (dk_zone_has_run(d, zone, order, 1u << type))
            types |= 1u << type;
    return types;
}
