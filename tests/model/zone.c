/* SPDX-License-Identifier: MIT */
/*
 * The model of the shared level: operations, and what must hold.
 *
 * In every state:
 *   - no frame has two owners, and W counts exactly the frames that are in somebody's hands,
 * reserved, or cleared but not added;
 *   - clear bits = free count + reserved + cleared;
 *   - a block on which no unfinished operation works has a run in W that is not too small, and the
 * index shows it under its class in the leaf and in every word above; the same for groups of such
 * blocks;
 *   - each thread alone finishes its operation in a bounded number of steps, and a newcomer alone
 * finds what fits, unless all of it belongs to unfinished operations of others. When a search says
 * EMPTY: at some instant since it began nothing that fits lay outside unfinished operations.
 */
#include "zone.h"

#include <stdio.h>
#include <string.h>

#include "coroutine.h"

#define ALONE_STEPS 600u

const struct zone_case *zc;
enum zone_bug zone_bug;
struct shape zs;

static size_t state_size(void)
{
    return offsetof(struct world, th) + zc->threads * sizeof(struct thread);
}

/* ---- values ---------------------------------------------------------------------------------- */

unsigned run_of(unsigned line)
{
    for (unsigned order = zs.order + 1; order-- > 0;) {
        unsigned size = 1u << order, mask = (1u << size) - 1;
        for (unsigned f = 0; f < zs.frames; f += size)
            if (!(line >> f & mask))
                return order + 1;
    }
    return 0;
}

bool w_same(struct w a, struct w b)
{
    return a.used == b.used && a.run == b.run && a.flags == b.flags && a.version == b.version;
}

unsigned w_class(struct w w)
{
    return w.flags || w.used >= zs.frames || !w.run ? NOTHING : w.run - 1u;
}

bool w_groupable(struct w w)
{
    return !w.used && !w.flags;
}

static struct w plain_run(struct w w)
{
    w.run = 0;
    while (w.run <= zs.order && 1u << w.run <= zs.frames - w.used)
        w.run++;
    return w;
}

struct w w_reserve(struct w w, unsigned n)
{
    w.used = (uint8_t)(w.used + n);
    if (zc->plain)
        return plain_run(w);
    if (w.run > zs.order)
        w.run = (uint8_t)zs.order;
    return w;
}

struct w w_give(struct w w, unsigned n, unsigned run)
{
    w.used = (uint8_t)(w.used - n);
    if (zone_bug != BUG_GIVE_NO_VERSION)
        w.version = (uint8_t)((w.version + 1) & ((1u << zc->version_bits) - 1));
    if (!w.used)
        run = zs.order + 1;
    if (run > w.run)
        w.run = (uint8_t)run;
    return zc->plain ? plain_run(w) : w;
}

uint16_t *index_word(struct world *s, unsigned tree, unsigned level, unsigned child)
{
    return &s->tree[tree][zs.tree[tree].offset[level] + child / zc->fanout];
}

/* ---- operations ------------------------------------------------------------------------------ */

static bool co_candidate(struct world *s, struct thread *t, unsigned order)
{
    t->block = order > zs.order ? t->block : t->item;
    if (order < zs.order)
        return co_take_part(s, t, order);
    return order == zs.order ? co_take_whole(s, t) : co_take_group(s, t, order);
}

static bool co_take(struct world *s, struct thread *t, unsigned order)
{
    unsigned last = order > zs.order ? order : zs.order;
    CO_BEGIN(t->pc_take);
    for (t->tries = 0; t->tries < zc->tries; t->tries++) {
        for (t->tree = (uint8_t)order; t->tree <= last; t->tree++) {
            for (t->start = 0;; t->start = (uint8_t)(t->item + 1)) {
                t->item = t->start ? NOTHING : 0;
                if (zc->fanout)
                    CO_CALL(t->pc_take, 1, co_find(s, t));
                if (t->item == NOTHING)
                    break;
                CO_CALL(t->pc_take, 2, co_candidate(s, t, order));
                if (t->taken) {
                    t->result = RES_TAKEN;
                    CO_RETURN(t->pc_take);
                }
                if (!zc->fanout)
                    break;
                CO_CALL(t->pc_take, 3, co_repair(s, t));
            }
        }
        if (!zc->fanout)
            break;
        CO_CALL(t->pc_take, 4, co_was_empty(s, t, order));
        if (!t->shown) {
            t->result = RES_EMPTY;
            CO_RETURN(t->pc_take);
        }
    }
    t->result = RES_CONTENDED;
    CO_END(t->pc_take);
}

static bool co_take_at(struct world *s, struct thread *t, unsigned block)
{
    CO_BEGIN(t->pc_take);
    t->block = (uint8_t)block;
    CO_CALL(t->pc_take, 1, co_take_part(s, t, 0));
    t->result = t->taken ? RES_TAKEN : RES_CONTENDED;
    CO_END(t->pc_take);
}

static bool co_prove(struct world *s, struct thread *t, unsigned order)
{
    CO_BEGIN(t->pc_take);
    CO_CALL(t->pc_take, 1, co_was_empty(s, t, order));
    t->result = t->shown ? RES_CONTENDED : RES_EMPTY;
    CO_END(t->pc_take);
}

static bool co_give(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_take);
    for (t->item = 0; t->item < zc->blocks; t->item++) {
        t->block = t->item;
        t->mask = t->held[t->block];
        if (!t->mask)
            continue;
        if (s->W[t->block].flags & WHOLE)
            CO_CALL(t->pc_take, 1, co_give_whole(s, t));
        else
            CO_CALL(t->pc_take, 2, co_give_part(s, t, t->mask));
    }
    CO_END(t->pc_take);
}

/* The frames of a split block that another thread has been told to free. */
static void take_over(struct world *s, struct thread *t, unsigned mask)
{
    for (unsigned i = 0; i < zc->threads; i++)
        s->th[i].held[0] &= (uint8_t)~mask;
    t->held[0] |= (uint8_t)mask;
    t->block = 0;
}

static bool co_op(struct world *s, struct thread *t, struct op op)
{
    switch (op.kind) {
    case OP_TAKE:
        return co_take(s, t, op.arg);
    case OP_TAKE_AT:
        return co_take_at(s, t, op.arg);
    case OP_PROVE:
        return co_prove(s, t, op.arg);
    case OP_GIVE:
        return co_give(s, t);
    case OP_GIVE_PART:
        if (!t->pc)
            take_over(s, t, op.arg);
        return co_give_part(s, t, op.arg);
    case OP_SPLIT:
        return co_split(s, t);
    default:
        t->block = op.arg;
        return co_flag(s, t, op.kind);
    }
}

static bool can_begin(const struct world *s, const struct thread *t, struct op op)
{
    switch (op.kind) {
    case OP_GIVE_PART:
        return s->splitting == 2;
    case OP_SPLIT:
        return t->held[0] == zs.all && (s->W[0].flags & WHOLE);
    default:
        return op.kind != OP_NONE;
    }
}

/* ---- rule 6 ---------------------------------------------------------------------------------- */

static unsigned attached_by_others(const struct world *s, const struct thread *self)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < zc->threads; i++)
        if (&s->th[i] != self)
            mask |= s->th[i].attached;
    return mask;
}

static bool block_fits(const struct world *s, unsigned b, unsigned order)
{
    struct w w = s->W[b];
    if (order >= zs.order)
        return w_groupable(w);
    if (w.flags || zs.frames - w.used < 1u << order)
        return false;
    return zc->plain ? w.run > order : run_of(s->line[b]) > order;
}

/* Does something that fits lie outside unfinished operations of other threads? */
static bool something_fits(const struct world *s, const struct thread *self, unsigned order)
{
    unsigned busy = attached_by_others(s, self),
             n = order > zs.order ? 1u << (order - zs.order) : 1;
    for (unsigned b = 0; b + n <= zc->blocks; b += n) {
        unsigned i = 0;
        while (i < n && !(busy >> (b + i) & 1) && block_fits(s, b + i, order))
            i++;
        if (i == n)
            return true;
    }
    return false;
}

static bool may_say_empty(struct op op)
{
    return zc->fanout && (op.kind == OP_TAKE || op.kind == OP_PROVE);
}

static void watch(struct world *s)
{
    for (unsigned i = 0; i < zc->threads; i++) {
        struct thread *t = &s->th[i];
        struct op op = zc->script[i][t->op];
        if (t->pc && may_say_empty(op) && !t->attached && !something_fits(s, t, op.arg))
            t->empty_instant = 1;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void finish(struct thread *t, struct op op)
{
    struct thread next;
    if (may_say_empty(op) && t->result == RES_EMPTY && !t->empty_instant)
        model_forbid("EMPTY was said while something fitted at every instant of the call");
    if (t->attached || t->reserved || t->cleared || t->got)
        model_forbid("the model forgot something at the end of an operation");
    memset(&next, 0, sizeof next);
    next.op = (uint8_t)(t->op + 1);
    next.buffer = t->buffer;
    memcpy(next.held, t->held, sizeof next.held);
    *t = next;
}

/* Whether a scanned line is used after the scan's caller has ended: by planted bugs only. */
static bool keeps_line(void)
{
    return zone_bug == BUG_GIVE_SCAN_EARLY || zone_bug == BUG_GIVE_OLD_WORDS ||
           zone_bug == BUG_WHOLE_BY_BITS || zone_bug == BUG_OFFLINE_BY_BITS ||
           zone_bug == BUG_ISOLATE_STORE;
}

/* Forget what will not be read again, so that states that differ in nothing else are one state. */
static void tidy(struct thread *t)
{
    static const struct w none;
    if (!t->pc_index)
        t->x_tree = t->x_child = t->x_level = t->x_tries = t->x_early = 0,
        t->x_word = t->x_ahead = 0;
    if (!t->pc_child)
        t->x_i = t->x_full = t->m_i = 0;
    if (!t->pc_move)
        t->m_block = t->m_j = 0, t->m_from = t->m_to = none;
    if (!t->pc_find)
        t->f_level = t->f_pos = t->f_within = t->f_descended = t->pass = t->shown = t->sum[0] =
            t->sum[1] = 0;
    if (!t->pc_claim)
        t->k = t->first = 0;
    if (!t->pc_claim && t->pc_part != 4 && t->pc_part != 42)
        t->i = 0;
    if (!t->pc_settle && !t->pc_give && !keeps_line())
        t->line = 0, t->before = t->lowered = none;
    if (!t->pc_part)
        t->need = t->mask = t->line = t->taken = t->lost = 0, t->from = t->to = t->before = none;
    if (!t->pc_part && !t->pc_group)
        t->block = 0;
}

/* One step of an operation: the first only begins it. */
static void advance(struct world *s, struct thread *t, struct op op)
{
    if (!t->pc && may_say_empty(op) && !t->empty_instant)
        t->empty_instant = !something_fits(s, t, op.arg);
    bool done = co_op(s, t, op);
    t->pc = 1;
    tidy(t);
    if (done)
        finish(t, op);
}

static bool begun_or_can(const struct world *s, unsigned i)
{
    const struct thread *t = &s->th[i];
    return t->op < MAX_OPS && (t->pc || can_begin(s, t, zc->script[i][t->op]));
}

static bool flush(struct world *s, struct thread *t)
{
    unsigned bits = t->buffer;
    if (!bits)
        return false;
    unsigned mask = (1u << zc->word_bits) - 1;
    while (!(bits & mask))
        mask <<= zc->word_bits;
    s->line[t->block] |= (uint8_t)(bits & mask);
    t->buffer &= (uint8_t)~mask;
    model_say("a store reaches memory");
    return true;
}

static bool step(void *state, unsigned mover)
{
    struct world *s = state;
    if (mover >= zc->threads)
        return flush(s, &s->th[mover - zc->threads]);
    if (!begun_or_can(s, mover))
        return false;
    struct thread *t = &s->th[mover];
    /* Private work up to the first access is no step: take the first access at once. */
    if (!t->pc)
        advance(s, t, zc->script[mover][t->op]);
    if (t->pc)
        advance(s, t, zc->script[mover][t->op]);
    watch(s);
    return true;
}

/* ---- properties ------------------------------------------------------------------------------ */

static bool shown(struct world *s, unsigned tree, unsigned item)
{
    for (unsigned level = 0; level < zs.tree[tree].levels; level++, item /= zc->fanout)
        if (!(*index_word(s, tree, level, item) & index_bit(item)))
            return false;
    return true;
}

static unsigned bits_in(unsigned v)
{
    unsigned n = 0;
    for (; v; v &= v - 1)
        n++;
    return n;
}

static void check_count(const struct world *s, unsigned b)
{
    struct w w = s->W[b];
    unsigned held = 0, in_flight = 0, all = 0;
    for (unsigned i = 0; i < zc->threads; i++) {
        const struct thread *t = &s->th[i];
        if (!zc->plain && (all & t->held[b]))
            model_forbid("a frame of block %u has two owners", b);
        all |= t->held[b];
        held += zc->plain ? t->held[b] : bits_in(t->held[b]);
        if (t->block == b) {
            held += bits_in(t->got);
            in_flight += t->reserved + (unsigned)t->cleared;
        }
    }
    if (zc->shut >> b & 1)
        return;
    if (w.used != held + in_flight)
        model_forbid("block %u counts %u used, %u are", b, w.used, held + in_flight);
    if (!zc->plain && !(w.flags & WHOLE) &&
        zs.frames - bits_in(s->line[b]) != zs.frames - w.used + in_flight)
        model_forbid("block %u has %u clear bits, %u free and %u in flight", b,
                     zs.frames - bits_in(s->line[b]), zs.frames - w.used, in_flight);
    if ((w.flags & WHOLE) && w.run)
        model_forbid("block %u is taken whole, but W shows a run", b);
    if ((w.flags & OFFLINE) && w.used)
        model_forbid("block %u is offline with frames in use", b);
}

static void check_shown(struct world *s, unsigned b)
{
    struct w w = s->W[b];
    unsigned run = zc->plain ? w.run : run_of(s->line[b]);
    if (!w.used)
        run = zs.order + 1;
    else if (run > zs.order)
        run = zs.order;
    if (!(w.flags & WHOLE) && w.run < run)
        model_forbid("block %u: run %u in W, %u in the bits, and nobody works on it", b, w.run,
                     run);
    if (zc->fanout && w_class(w) != NOTHING && !shown(s, w_class(w), b))
        model_forbid("block %u of class %u is hidden", b, w_class(w));
}

static void check_groups(struct world *s, unsigned busy)
{
    for (unsigned j = 1; j <= zc->groups; j++)
        for (unsigned g = 0; g < zs.tree[zs.order + j].items; g++) {
            bool whole = true;
            for (unsigned b = g << j; b < (g + 1) << j; b++)
                whole = whole && w_groupable(s->W[b]) && !(busy >> b & 1);
            if (whole && !shown(s, zs.order + j, g))
                model_forbid("group %u of %u free blocks is hidden", g, 1u << j);
        }
}

static void check(const void *state)
{
    struct world *s = (struct world *)(uintptr_t)state;
    unsigned busy = attached_by_others(s, NULL);
    for (unsigned b = 0; b < zc->blocks; b++) {
        check_count(s, b);
        if (!(busy >> b & 1))
            check_shown(s, b);
    }
    if (zc->fanout)
        check_groups(s, busy);
}

static struct world apart; /* where threads run alone */

static void run_alone(const struct world *s, unsigned i)
{
    memcpy(&apart, s, state_size());
    struct thread *t = &apart.th[i];
    unsigned op = t->op, steps = 0;
    for (; t->op == op; steps++) {
        if (steps == ALONE_STEPS) {
            model_forbid("thread %u alone does not finish", i);
            return;
        }
        t->empty_instant = 1; /* the same run is explored with rule 6 watched */
        advance(&apart, t, zc->script[i][op]);
    }
}

static void probe(const struct world *s, unsigned order)
{
    unsigned steps = 0;
    struct op op = {OP_TAKE, (uint8_t)order};
    memcpy(&apart, s, state_size());
    struct thread *t = &apart.th[zc->threads];
    memset(t, 0, sizeof *t);
    bool fits = something_fits(&apart, t, order);
    while (!co_op(&apart, t, op))
        if (steps++ == ALONE_STEPS) {
            model_forbid("a newcomer alone does not finish (order %u)", order);
            return;
        }
    if (t->result == RES_TAKEN || !fits)
        return;
    model_forbid("a newcomer alone finds nothing of order %u: hidden behind a stopped thread",
                 order);
}

static void alone(const void *state, unsigned last)
{
    const struct world *s = state;
    for (unsigned i = 0; i < zc->threads; i++)
        if (i != last && begun_or_can(s, i))
            run_alone(s, i);
    for (unsigned i = 0; i < 3; i++)
        if (zc->probe[i])
            probe(s, zc->probe[i] - 1u);
}

/* ---- the start ------------------------------------------------------------------------------- */

static struct tree_shape shape_of(unsigned items)
{
    struct tree_shape t = {.items = (uint8_t)items};
    unsigned n = items, offset = 0;
    do {
        t.count[t.levels] = (uint8_t)n;
        t.offset[t.levels++] = (uint8_t)offset;
        n = (n + zc->fanout - 1) / zc->fanout;
        offset += n;
    } while (n > 1);
    return t;
}

static void start_block(struct world *s, unsigned b)
{
    struct w *w = &s->W[b];
    unsigned used = 0;
    w->run = (uint8_t)(zs.order + 1);
    if (zc->shut >> b & 1)
        w->flags = OFFLINE;
    for (unsigned i = 0; i < zc->threads; i++) {
        s->th[i].held[b] = zc->held[i][b];
        used += zc->plain ? zc->held[i][b] : bits_in(zc->held[i][b]);
        if (zc->whole[i] >> b & 1)
            w->flags |= WHOLE;
        else if (!zc->plain)
            s->line[b] |= zc->held[i][b];
    }
    w->used = (uint8_t)used;
    if (w->flags & WHOLE)
        w->run = 0;
    else if (zc->plain)
        *w = plain_run(*w);
    else if (used)
        w->run = (uint8_t)run_of(s->line[b]);
}

static void show(struct world *s, unsigned tree, unsigned item)
{
    for (unsigned level = 0; level < zs.tree[tree].levels; level++, item /= zc->fanout)
        *index_word(s, tree, level, item) |= (uint16_t)index_bit(item);
}

static void init(void *state)
{
    struct world *s = state;
    memset(s, 0, state_size());
    for (unsigned b = 0; b < zc->blocks; b++) {
        start_block(s, b);
        if (zc->fanout && w_class(s->W[b]) != NOTHING)
            show(s, w_class(s->W[b]), b);
    }
    for (unsigned j = 1; j <= zc->groups; j++)
        for (unsigned g = 0; g < zs.tree[zs.order + j].items; g++) {
            bool whole = true;
            for (unsigned b = g << j; b < (g + 1) << j; b++)
                whole = whole && w_groupable(s->W[b]);
            if (whole)
                show(s, zs.order + j, g);
        }
}

static void print(const void *state)
{
    const struct world *s = state;
    printf("    ");
    for (unsigned b = 0; b < zc->blocks; b++)
        printf("[%u bits %02x used %u run %u%s%s%s v%u] ", b, s->line[b], s->W[b].used, s->W[b].run,
               s->W[b].flags & WHOLE ? " whole" : "", s->W[b].flags & ISOLATED ? " isolated" : "",
               s->W[b].flags & OFFLINE ? " offline" : "", s->W[b].version);
    for (unsigned k = 0; zc->fanout && k < zs.trees; k++) {
        const struct tree_shape *t = &zs.tree[k];
        printf(" tree %u:", k);
        for (unsigned i = 0; i <= t->offset[t->levels - 1]; i++)
            printf(" %x%s.%u", s->tree[k][i] & IX_CHILDREN, s->tree[k][i] & IX_CLEARING ? "c" : "",
                   s->tree[k][i] / IX_VERSION);
    }
    printf("\n");
}

void zone_setup(const struct zone_case *c, enum zone_bug bug, struct model *m)
{
    zc = c;
    zone_bug = bug;
    memset(&zs, 0, sizeof zs);
    zs.frames = (unsigned)c->word_bits * c->words;
    while (1u << (zs.order + 1) <= zs.frames)
        zs.order++;
    zs.all = (uint8_t)((1u << zs.frames) - 1);
    zs.trees = zs.order + 1 + c->groups;
    for (unsigned k = 0; c->fanout && k < zs.trees; k++)
        zs.tree[k] = shape_of(k > zs.order ? (unsigned)c->blocks >> (k - zs.order) : c->blocks);
    *m = (struct model){.size = state_size(),
                        .movers = 2u * c->threads,
                        .acyclic = c->acyclic,
                        .limit = c->limit,
                        .init = init,
                        .step = step,
                        .check = check,
                        .alone = alone,
                        .print = print};
}
