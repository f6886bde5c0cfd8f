/* SPDX-License-Identifier: MIT */
/*
 * One pageblock of the model: reserve, claim, settle, give, whole, split and isolate, as in
 * src/core/{block,zone,group,zone_set}.c. A load and the CAS that depends on nothing else are one
 * step, as in zone_index.c; the lowering CAS stands alone, because the scan lies between.
 *
 * t->block is the block; `held`, `attached`, `reserved` and `cleared` serve the properties only.
 */
#include "coroutine.h"
#include "zone.h"

static unsigned word_mask(unsigned word)
{
    return ((1u << zc->word_bits) - 1) << word * zc->word_bits;
}

static unsigned popcount(unsigned v)
{
    unsigned n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

/* As dk_line_run_code: the run of a whole block is said by W alone. */
static unsigned line_run(unsigned line)
{
    unsigned run = run_of(line);
    return run > zs.order && zs.order ? zs.order : run;
}

static void attach(struct thread *t)
{
    t->attached |= (uint8_t)(1u << t->block);
}
static void detach(struct thread *t)
{
    t->attached &= (uint8_t) ~(1u << t->block);
}

/* Read the line word by word into t->line. Runs under the pc of its caller's claim or give. */
static bool co_scan(struct world *s, struct thread *t, uint8_t *pc)
{
    CO_BEGIN(*pc);
    t->line = zs.all;
    for (t->i = 0; t->i < zc->words; t->i++) {
        CO_AT(*pc, 1);
        t->line = (uint8_t)((t->line & ~word_mask(t->i)) | (s->line[t->block] & word_mask(t->i)));
        model_say("scans word %u", t->i);
    }
    t->i = 0;
    CO_END(*pc);
}

/* ---- settle ---------------------------------------------------------------------------------- */

/* -> t->lowered, all zero when W had changed */
static void lower(struct world *s, struct thread *t)
{
    struct w *w = &s->W[t->block];
    if (zone_bug == BUG_LOWER_FRESH)
        t->before = *w;
    if (!w_same(*w, t->before))
        return;
    t->lowered = *w;
    t->lowered.run = (uint8_t)line_run(t->line);
    *w = t->lowered;
    attach(t);
    model_say("lowers the run of block %u to %u", t->block, t->lowered.run);
}

/* After lowering: a version that has wrapped may have let a stale scan through. */
static bool co_recheck(struct world *s, struct thread *t)
{
    struct w *w = &s->W[t->block];
    unsigned run;
    CO_BEGIN(t->pc_give);
    CO_CALL(t->pc_give, 1, co_scan(s, t, &t->pc_claim));
    CO_AT(t->pc_give, 2);
    run = line_run(t->line);
    if (run <= w->run || !w->used || ((w->flags & WHOLE) && zone_bug != BUG_RECHECK_WHOLE))
        CO_RETURN(t->pc_give);
    t->before = *w;
    w->run = (uint8_t)run;
    w->version = (uint8_t)((w->version + 1) & ((1u << zc->version_bits) - 1));
    model_say("raises the run of block %u to %u", t->block, run);
    begin_move(t, t->block, t->before, *w);
    CO_CALL(t->pc_give, 3, co_move(s, t));
    CO_END(t->pc_give);
}

/* A run of a whole block is not seen by a scan: a block without a used frame keeps it. */
static bool must_lower(const struct thread *t)
{
    if (!t->before.used && zone_bug != BUG_LOWER_UNUSED)
        return false;
    return line_run(t->line) < t->before.run && !t->before.flags;
}

/* t->from, t->to: what the operation did to W. */
static bool co_settle(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_settle);
    t->lowered = (struct w){0, 0, 0, 0};
    if (zone_bug != BUG_LOWER_FRESH) {
        CO_AT(t->pc_settle, 1);
        t->before = s->W[t->block];
        model_say("reads W of block %u", t->block);
    }
    CO_CALL(t->pc_settle, 2, co_scan(s, t, &t->pc_claim));
    if (zone_bug == BUG_LOWER_FRESH)
        t->before = s->W[t->block];
    if (must_lower(t)) {
        CO_AT(t->pc_settle, 4);
        lower(s, t);
    }
    begin_move(t, t->block, t->from, t->to);
    if (t->lowered.used && w_class(t->before) == w_class(t->to))
        t->m_to = t->lowered;
    CO_CALL(t->pc_settle, 5, co_move(s, t));
    if (!t->lowered.used)
        CO_RETURN(t->pc_settle);
    if (w_class(t->before) != w_class(t->to)) {
        begin_move(t, t->block, t->before, t->lowered);
        CO_CALL(t->pc_settle, 8, co_move(s, t));
    }
    if (zc->recheck && zone_bug != BUG_NO_RECHECK)
        CO_CALL(t->pc_settle, 9, co_recheck(s, t));
    CO_END(t->pc_settle);
}

/* ---- give ------------------------------------------------------------------------------------ */

enum { SCAN = 1, SHOW = 2, BARE = 4 };

/* dk_block_give of t->need frames whose bits are clear. */
static bool co_add(struct world *s, struct thread *t, unsigned how)
{
    struct w *w = &s->W[t->block];
    CO_BEGIN(t->pc_give);
    if (how & SCAN)
        CO_CALL(t->pc_give, 1, co_scan(s, t, &t->pc_claim));
    CO_AT(t->pc_give, 2);
    t->before = *w;
    *w = w_give(*w, t->need, how & BARE ? 0 : line_run(t->line));
    if (how & BARE)
        w->version = t->before.version;
    model_say("adds %u to block %u, run %u", t->need, t->block, w->run);
    t->reserved = t->cleared = 0;
    if (zc->plain)
        t->held[t->block] = 0;
    begin_move(t, t->block, t->before, *w);
    if (how & SHOW)
        CO_CALL(t->pc_give, 3, co_move(s, t));
    CO_END(t->pc_give);
}

static void clear_bits(struct world *s, struct thread *t, unsigned mask)
{
    s->line[t->block] &= (uint8_t)~mask;
    t->line = (uint8_t)((t->line & ~word_mask(t->i)) | (s->line[t->block] & word_mask(t->i)));
    model_say("clears bits %x of block %u", mask, t->block);
}

/* The frames `mask` of t->block, which the thread holds. */
bool co_give_part(struct world *s, struct thread *t, unsigned mask)
{
    bool first = zone_bug == BUG_ADD_BEFORE_CLEAR;
    CO_BEGIN(t->pc_part);
    attach(t);
    t->need = (uint8_t)(zc->plain ? mask : popcount(mask));
    t->line = s->line[t->block];
    if (zc->plain) {
        CO_CALL(t->pc_part, 1, co_add(s, t, SHOW));
        detach(t);
        CO_RETURN(t->pc_part);
    }
    if (zone_bug == BUG_GIVE_SCAN_EARLY)
        CO_CALL(t->pc_part, 2, co_scan(s, t, &t->pc_claim));
    if (first)
        CO_CALL(t->pc_part, 3, co_add(s, t, SCAN | SHOW));
    for (t->i = 0; t->i < zc->words; t->i++) {
        if (!(mask & word_mask(t->i)))
            continue;
        CO_AT(t->pc_part, 4);
        clear_bits(s, t, mask & word_mask(t->i));
        t->held[t->block] &= (uint8_t) ~(mask & word_mask(t->i));
        if (!first)
            t->cleared = (uint8_t)(t->cleared + popcount(mask & word_mask(t->i)));
    }
    if (zone_bug == BUG_GIVE_SCAN_EARLY || zone_bug == BUG_GIVE_OLD_WORDS)
        CO_CALL(t->pc_part, 5, co_add(s, t, SHOW));
    else if (!first)
        CO_CALL(t->pc_part, 6, co_add(s, t, SCAN | SHOW));
    detach(t);
    CO_END(t->pc_part);
}

/* What was reserved and is not claimed, t->need frames, goes back. */
static bool co_undo(struct world *s, struct thread *t)
{
    bool bare = zone_bug == BUG_UNDO_BARE || (zone_bug == BUG_ROLLBACK_UNSEEN && t->lost);
    unsigned show = zone_bug == BUG_UNDO_UNSEEN ? 0 : SHOW;
    return co_add(s, t, bare ? BARE | show : SCAN | show);
}

/* ---- claim ----------------------------------------------------------------------------------- */

static void claimed(struct thread *t, const struct world *s, unsigned mask)
{
    for (unsigned i = 0; i < zc->threads; i++)
        if ((s->th[i].held[t->block] & mask) ||
            (&s->th[i] != t && s->th[i].block == t->block && (s->th[i].got & mask)))
            model_forbid("a frame of block %u has two owners", t->block);
    t->got |= (uint8_t)mask;
    t->reserved = (uint8_t)(t->reserved - popcount(mask));
    model_say("claims bits %x of block %u", mask, t->block);
}

/* A free run of the order inside word t->i: one of them, or the lowest. */
static unsigned pick_in_word(const struct world *s, const struct thread *t, unsigned order)
{
    unsigned size = 1u << order, candidates[8], n = 0;
    for (unsigned f = t->i * zc->word_bits; f < (t->i + 1u) * zc->word_bits; f += size) {
        unsigned mask = ((1u << size) - 1) << f;
        if (!(s->line[t->block] & mask))
            candidates[n++] = mask;
    }
    if (!n)
        return 0;
    return candidates[zc->any_start ? model_choose(n) : 0];
}

static bool co_claim_in_words(struct world *s, struct thread *t, unsigned order)
{
    unsigned mask;
    CO_BEGIN(t->pc_claim);
    for (t->k = 0; t->k < zc->words; t->k++) {
        t->i = (uint8_t)((t->first + t->k) % zc->words);
        CO_AT(t->pc_claim, 2);
        mask = pick_in_word(s, t, order);
        if (mask) {
            s->line[t->block] |= (uint8_t)mask;
            claimed(t, s, mask);
            t->taken = 1;
            CO_RETURN(t->pc_claim);
        }
        model_say("finds nothing in word %u of block %u", t->i, t->block);
    }
    CO_END(t->pc_claim);
}

/* A run of several words: look, then take them in ascending order, or clear what was taken. */
static bool co_claim_words(struct world *s, struct thread *t, unsigned order)
{
    uint8_t *line = &s->line[t->block];
    unsigned n = (1u << order) / zc->word_bits;
    CO_BEGIN(t->pc_claim);
    for (t->first = 0; t->first < zc->words; t->first = (uint8_t)(t->first + n)) {
        for (t->k = 0; t->k < n; t->k++) {
            CO_AT(t->pc_claim, 3);
            if (*line & word_mask(t->first + t->k))
                break;
        }
        if (t->k < n)
            continue;
        for (t->k = 0; t->k < n; t->k++) {
            CO_AT(t->pc_claim, 4);
            if (*line & word_mask(t->first + t->k))
                break;
            *line |= (uint8_t)word_mask(t->first + t->k);
            claimed(t, s, word_mask(t->first + t->k));
        }
        if (t->k == n) {
            t->taken = 1;
            CO_RETURN(t->pc_claim);
        }
        model_say("lost word %u", t->first + t->k);
        t->lost = t->k > 0;
        while (t->k-- > 0) {
            CO_AT(t->pc_claim, 5);
            *line &= (uint8_t)~word_mask(t->first + t->k);
            t->got &= (uint8_t)~word_mask(t->first + t->k);
            t->reserved = (uint8_t)(t->reserved + zc->word_bits);
            model_say("clears word %u again", t->first + t->k);
        }
        if (t->lost)
            CO_RETURN(t->pc_claim);
    }
    CO_END(t->pc_claim);
}

static bool co_claim(struct world *s, struct thread *t, unsigned order)
{
    return 1u << order <= zc->word_bits ? co_claim_in_words(s, t, order)
                                        : co_claim_words(s, t, order);
}

/* ---- take ------------------------------------------------------------------------------------ */

enum { REFUSED, OVERSTATED, RESERVED };

static int reserve(struct world *s, struct thread *t, unsigned order)
{
    struct w *w = &s->W[t->block];
    t->taken = t->lost = t->got = 0;
    t->need = (uint8_t)(1u << order);
    t->from = t->to = *w;
    if (w->flags || w->run <= order) {
        model_say("block %u does not serve", t->block);
        return REFUSED;
    }
    if (zs.frames - w->used < t->need) {
        model_say("the run of block %u is overstated", t->block);
        return OVERSTATED;
    }
    t->to = *w = w_reserve(*w, t->need);
    if (zc->plain)
        t->held[t->block] = (uint8_t)(t->held[t->block] + t->need);
    else
        t->reserved = t->need;
    attach(t);
    model_say("reserves %u in block %u", t->need, t->block);
    t->first = (uint8_t)(zc->any_start ? model_choose(zc->words) : 0);
    return RESERVED;
}

bool co_take_part(struct world *s, struct thread *t, unsigned order)
{
    CO_BEGIN(t->pc_part);
    CO_AT(t->pc_part, 11);
    switch (reserve(s, t, order)) {
    case OVERSTATED:
        t->k = 1;
        break;
    case RESERVED:
        t->k = 2;
        break;
    default:
        CO_RETURN(t->pc_part);
    }
    if (t->k == 2 && zc->plain) {
        t->taken = 1;
        begin_move(t, t->block, t->from, t->to);
        CO_CALL(t->pc_part, 12, co_move(s, t));
        detach(t);
        CO_RETURN(t->pc_part);
    }
    if (t->k == 2)
        CO_CALL(t->pc_part, 13, co_claim(s, t, order));
    CO_CALL(t->pc_part, 14, co_settle(s, t));
    if (t->reserved)
        CO_CALL(t->pc_part, 15, co_undo(s, t));
    t->held[t->block] |= t->got;
    t->got = 0;
    detach(t);
    CO_END(t->pc_part);
}

/* ---- whole blocks ---------------------------------------------------------------------------- */

/* The simpler test that fails: W says free, or the bits are clear. */
static bool co_bits_clear(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_settle);
    CO_AT(t->pc_settle, 20);
    t->before = s->W[t->block];
    CO_CALL(t->pc_settle, 21, co_scan(s, t, &t->pc_claim));
    CO_END(t->pc_settle);
}

static void held_whole(struct world *s, struct thread *t)
{
    for (unsigned i = 0; i < zc->threads; i++)
        if (s->th[i].held[t->block] ||
            (s->th[i].block == t->block && (s->th[i].got || s->th[i].reserved || s->th[i].cleared)))
            model_forbid("block %u is taken whole while a frame of it is in use", t->block);
    t->held[t->block] = zc->plain ? (uint8_t)zs.frames : zs.all;
}

bool co_take_whole(struct world *s, struct thread *t)
{
    struct w *w = &s->W[t->block];
    bool free_whole;
    CO_BEGIN(t->pc_part);
    t->taken = 0;
    if (zone_bug == BUG_WHOLE_BY_BITS)
        CO_CALL(t->pc_part, 21, co_bits_clear(s, t));
    CO_AT(t->pc_part, 22);
    free_whole = zone_bug == BUG_WHOLE_BY_BITS ? !t->line && w_same(*w, t->before) : !w->used;
    if (!free_whole || w->flags) {
        model_say("block %u is not free whole", t->block);
        CO_RETURN(t->pc_part);
    }
    t->from = *w;
    w->used = (uint8_t)zs.frames;
    w->run = 0;
    w->flags |= WHOLE;
    t->to = *w;
    held_whole(s, t);
    attach(t);
    model_say("takes block %u whole", t->block);
    begin_move(t, t->block, t->from, t->to);
    CO_CALL(t->pc_part, 23, co_move(s, t));
    t->taken = 1;
    detach(t);
    CO_END(t->pc_part);
}

bool co_take_group(struct world *s, struct thread *t, unsigned order)
{
    unsigned n = 1u << (order - zs.order);
    CO_BEGIN(t->pc_group);
    for (t->g_i = 0; t->g_i < n; t->g_i++) {
        t->block = (uint8_t)(t->item * n + t->g_i);
        CO_CALL(t->pc_group, 1, co_take_whole(s, t));
        if (t->taken)
            continue;
        while (t->g_i-- > 0) {
            t->block = (uint8_t)(t->item * n + t->g_i);
            t->lost = 1;
            CO_CALL(t->pc_group, 2, co_give_whole(s, t));
        }
        t->taken = 0;
        CO_RETURN(t->pc_group);
    }
    CO_END(t->pc_group);
}

static bool co_look_early(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_child);
    CO_AT(t->pc_child, 8);
    t->m_others = 0;
    for (unsigned b = 0; b < zc->blocks; b++)
        t->m_others |= (uint8_t)(w_groupable(s->W[b]) << b);
    CO_END(t->pc_child);
}

bool co_give_whole(struct world *s, struct thread *t)
{
    struct w *w = &s->W[t->block];
    CO_BEGIN(t->pc_part);
    attach(t);
    if (zone_bug == BUG_GROUP_LOOK_EARLY)
        CO_CALL(t->pc_part, 31, co_look_early(s, t));
    CO_AT(t->pc_part, 32);
    t->before = *w;
    w->flags &= (uint8_t)~WHOLE;
    *w = w_give(*w, w->used, 0);
    t->held[t->block] = 0;
    model_say("gives block %u back whole", t->block);
    begin_move(t, t->block, t->before, *w);
    if (t->lost && zone_bug == BUG_GROUP_ROLLBACK_UNSEEN) /* the class only */
        t->m_from.flags = 0, t->m_from.used = 0, t->m_from.run = 0;
    CO_CALL(t->pc_part, 33, co_move(s, t));
    detach(t);
    CO_END(t->pc_part);
}

/* ---- split and isolation --------------------------------------------------------------------- */

static bool co_drop_whole(struct world *s, struct thread *t)
{
    struct w *w = &s->W[t->block];
    CO_BEGIN(t->pc_settle);
    CO_AT(t->pc_settle, 31);
    if (zone_bug != BUG_SPLIT_UNORDERED) {
        s->line[t->block] |= t->buffer;
        t->buffer = 0;
    }
    w->flags &= (uint8_t)~WHOLE;
    w->version++;
    s->splitting = 2;
    model_say("drops WHOLE of block %u", t->block);
    CO_END(t->pc_settle);
}

/* Stores of the bits go through the store buffer; the CAS that drops WHOLE waits for them. */
bool co_split(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_part);
    attach(t);
    s->splitting = 1;
    if (zone_bug == BUG_SPLIT_EARLY)
        CO_CALL(t->pc_part, 41, co_drop_whole(s, t));
    for (t->i = 0; t->i < zc->words; t->i++) {
        CO_AT(t->pc_part, 42);
        t->buffer |= (uint8_t)word_mask(t->i);
        model_say("stores word %u", t->i);
    }
    if (zone_bug != BUG_SPLIT_EARLY)
        CO_CALL(t->pc_part, 43, co_drop_whole(s, t));
    detach(t);
    CO_END(t->pc_part);
}

static bool change_flag(struct world *s, struct thread *t, unsigned kind)
{
    struct w *w = &s->W[t->block];
    t->from = *w;
    if (kind == OP_ISOLATE) {
        if (zone_bug == BUG_ISOLATE_STORE)
            *w = t->before;
        w->flags |= ISOLATED;
        w->version++;
    } else if (kind == OP_REJOIN) {
        if (w->flags & OFFLINE)
            return false;
        w->flags &= (uint8_t)~ISOLATED;
        w->version++;
    } else {
        bool unused =
            zone_bug == BUG_OFFLINE_BY_BITS ? !t->line && w_same(*w, t->before) : !w->used;
        if (!unused || !(w->flags & ISOLATED))
            return false;
        w->flags |= OFFLINE;
    }
    t->to = *w;
    return true;
}

bool co_flag(struct world *s, struct thread *t, unsigned kind)
{
    CO_BEGIN(t->pc_part);
    if (zone_bug == BUG_ISOLATE_STORE || zone_bug == BUG_OFFLINE_BY_BITS)
        CO_CALL(t->pc_part, 51, co_bits_clear(s, t));
    CO_AT(t->pc_part, 52);
    if (!change_flag(s, t, kind))
        CO_RETURN(t->pc_part);
    attach(t);
    model_say("flags of block %u: %u", t->block, t->to.flags);
    begin_move(t, t->block, t->from, t->to);
    CO_CALL(t->pc_part, 53, co_move(s, t));
    detach(t);
    CO_END(t->pc_part);
}
