/* SPDX-License-Identifier: MIT */
/*
 * See cells.h. In every state each frame is in one place; when LIVE is clear, every full cell
 * belongs to a push that is not complete; once the closer has finished, so it does whatever live
 * says. From every state each thread alone finishes, and a newcomer who drains alone leaves nothing
 * but frames of unfinished pushes. A proof of emptiness that succeeds saw an instant with no frame,
 * but those of unfinished operations.
 */
#include "cells.h"

#include <stdio.h>
#include <string.h>

#include "coroutine.h"

#define CELLS       2
#define ALONE_STEPS 200u

struct cell {
    uint8_t frame, phase; /* frame 0 = empty; frames count from 1 */
};
struct live {
    uint8_t live, clear, version;
};

struct thread {
    uint8_t op, pc, pc_part, i, round, frame, pushing, held, hands, full, quiet, result;
    uint8_t pass, version[2];
    struct cell filled;
    struct live seen;
};

struct state {
    struct cell cell[CELLS];
    struct live live;
    uint8_t high, closed;
    uint8_t shared, shared_version;
    struct thread t[CL_THREADS + 1]; /* the one after the last is the prober */
};

static const struct cells_case *cc;
static enum cells_bug bug;

static uint8_t bit(unsigned frame)
{
    return (uint8_t)(1u << (frame - 1));
}
static bool same_cell(struct cell a, struct cell b)
{
    return a.frame == b.frame && a.phase == b.phase;
}
static bool same_live(struct live a, struct live b)
{
    return a.live == b.live && a.clear == b.clear && a.version == b.version;
}
static void advance(struct live *l)
{
    if (bug != CL_BUG_NO_VERSION)
        l->version++;
}

/* ---- push and pop ---------------------------------------------------------------------------- */

/* A cell with a frame, or without one: any of them. CELLS if there is none. */
static unsigned choose_cell(const struct state *s, bool full)
{
    unsigned fit[CELLS], n = 0;
    for (unsigned i = 0; i < CELLS; i++)
        if ((s->cell[i].frame != 0) == full)
            fit[n++] = i;
    return n ? fit[model_choose(n)] : CELLS;
}

static bool needs_announcement(struct live l)
{
    if (bug == CL_BUG_PUSH_NO_LIVE)
        return false;
    return !l.live || (l.clear && bug != CL_BUG_PUSH_IGNORES_CLEAR);
}

static bool fill(struct state *s, struct thread *t)
{
    unsigned i = choose_cell(s, false);
    if (i == CELLS)
        return false;
    t->i = (uint8_t)i;
    t->filled = s->cell[i] = (struct cell){t->frame, (uint8_t)(s->cell[i].phase + 1)};
    t->held &= (uint8_t)~bit(t->frame);
    t->pushing = 1;
    model_say("fills cell %u with frame %u", i, t->frame);
    return true;
}

/* The list was closed meanwhile: back with the frame, unless somebody has popped it. */
static void take_back(struct state *s, struct thread *t)
{
    if (same_cell(s->cell[t->i], t->filled)) {
        s->cell[t->i].frame = 0;
        t->held |= bit(t->frame);
        model_say("takes frame %u back", t->frame);
    }
}

static bool announce(struct state *s, struct thread *t)
{
    if (!same_live(s->live, t->seen)) {
        t->seen = s->live;
        return false;
    }
    s->live.live = 1;
    s->live.clear = 0;
    advance(&s->live);
    model_say("makes the list live");
    return true;
}

static bool co_push(struct state *s, struct thread *t)
{
    CO_BEGIN(t->pc_part);
    CO_AT(t->pc_part, 1);
    if (!s->high)
        CO_RETURN(t->pc_part);
    if (bug == CL_BUG_PUSH_LIVE_EARLY) {
        CO_AT(t->pc_part, 2);
        t->seen = s->live;
    }
    CO_AT(t->pc_part, 3);
    if (!fill(s, t))
        CO_RETURN(t->pc_part);
    if (bug != CL_BUG_PUSH_LIVE_EARLY) {
        CO_AT(t->pc_part, 4);
        t->seen = s->live;
        model_say("reads live");
    }
    while (needs_announcement(t->seen)) {
        if (bug != CL_BUG_CLOSE_NO_LOOK) {
            CO_AT(t->pc_part, 5);
            if (!s->high) {
                CO_AT(t->pc_part, 6);
                take_back(s, t);
                break;
            }
        }
        CO_AT(t->pc_part, 7);
        if (announce(s, t))
            break;
    }
    t->pushing = 0;
    CO_END(t->pc_part);
}

static bool co_pop(struct state *s, struct thread *t)
{
    unsigned i;
    CO_BEGIN(t->pc_part);
    CO_AT(t->pc_part, 11);
    i = choose_cell(s, true);
    if (i < CELLS) {
        t->held |= bit(s->cell[i].frame);
        model_say("pops frame %u", s->cell[i].frame);
        s->cell[i].frame = 0;
    }
    CO_END(t->pc_part);
}

static uint8_t lowest_frame(unsigned mask)
{
    for (unsigned f = 1; f <= 8; f++)
        if (mask & bit(f))
            return (uint8_t)f;
    return 0;
}

static bool co_refill(struct state *s, struct thread *t)
{
    CO_BEGIN(t->pc);
    CO_AT(t->pc, 1);
    t->frame = lowest_frame(s->shared);
    if (!t->frame)
        CO_RETURN(t->pc);
    s->shared &= (uint8_t)~bit(t->frame);
    t->held |= bit(t->frame);
    model_say("takes frame %u from the shared level", t->frame);
    CO_CALL(t->pc, 2, co_push(s, t));
    CO_END(t->pc);
}

/* What the thread holds goes to the shared level past the list. */
static bool co_give(struct state *s, struct thread *t)
{
    CO_BEGIN(t->pc);
    CO_AT(t->pc, 1);
    s->shared |= t->held;
    s->shared_version++;
    model_say("gives frames %x to the shared level", t->held);
    t->held = 0;
    CO_END(t->pc);
}

/* ---- drain ----------------------------------------------------------------------------------- */

/* -> t->full: something was there. */
static bool co_sweep(struct state *s, struct thread *t)
{
    CO_BEGIN(t->pc_part);
    t->full = 0;
    for (t->i = 0; t->i < CELLS; t->i++) {
        CO_AT(t->pc_part, 21);
        if (!s->cell[t->i].frame)
            continue;
        t->hands |= bit(s->cell[t->i].frame);
        t->full = 1;
        model_say("sweeps frame %u", s->cell[t->i].frame);
        s->cell[t->i].frame = 0;
    }
    if (t->hands) {
        CO_AT(t->pc_part, 22);
        s->shared |= t->hands;
        s->shared_version++;
        t->hands = 0;
        model_say("gives what it has to the shared level");
    }
    CO_END(t->pc_part);
}

static bool mark(struct state *s, struct thread *t)
{
    if (!same_live(s->live, t->seen))
        return false;
    s->live.live = 1;
    if (bug != CL_BUG_DRAIN_NO_MARK)
        s->live.clear = 1;
    if (bug != CL_BUG_DRAIN_NO_MARK)
        advance(&s->live);
    t->seen = s->live;
    model_say("marks the list");
    return true;
}

static bool co_drain(struct state *s, struct thread *t, bool force)
{
    CO_BEGIN(t->pc);
    for (t->round = 0; t->round < cc->rounds; t->round++) {
        CO_AT(t->pc, 31);
        t->seen = s->live;
        if (!t->seen.live && !force) {
            model_say("finds the list not live");
            t->result = 1;
            CO_RETURN(t->pc);
        }
        CO_AT(t->pc, 32);
        if (!mark(s, t))
            continue;
        do {
            CO_CALL(t->pc, 33, co_sweep(s, t));
        } while (t->full && ++t->round < cc->rounds);
        if (t->round >= cc->rounds)
            break;
        CO_AT(t->pc, 34);
        if (same_live(s->live, t->seen) || bug == CL_BUG_DRAIN_STORE) {
            s->live.live = s->live.clear = 0;
            model_say("finds the list empty");
            t->result = 1;
            CO_RETURN(t->pc);
        }
    }
    CO_END(t->pc);
}

static bool co_close(struct state *s, struct thread *t)
{
    CO_BEGIN(t->quiet);
    CO_AT(t->quiet, 41);
    s->high = 0;
    model_say("closes the list");
    CO_CALL(t->quiet, 42, co_drain(s, t, bug != CL_BUG_CLOSE_GENTLE));
    s->closed = t->result;
    CO_END(t->quiet);
}

/* ---- rule 6 ---------------------------------------------------------------------------------- */

/* Frames of complete pushes: what a proof of emptiness must not overlook. */
static unsigned settled(const struct state *s)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < CELLS; i++)
        if (s->cell[i].frame)
            mask |= bit(s->cell[i].frame);
    for (unsigned k = 0; k < cc->threads; k++)
        if (s->t[k].pushing && same_cell(s->cell[s->t[k].i], s->t[k].filled))
            mask &= ~(unsigned)bit(s->t[k].frame);
    return mask;
}

static bool nothing_there(const struct state *s)
{
    return !settled(s) && !s->shared;
}

static bool co_prove(struct state *s, struct thread *t)
{
    unsigned passes = bug == CL_BUG_PROVE_ONCE ? 1 : 2;
    bool compare = bug != CL_BUG_PROVE_NO_VERSION;
    CO_BEGIN(t->pc);
    for (t->pass = 0; t->pass < passes; t->pass++) {
        CO_AT(t->pc, 51);
        if (s->live.live || (compare && t->pass && t->version[0] != s->live.version))
            CO_RETURN(t->pc);
        t->version[0] = s->live.version;
        t->quiet |= nothing_there(s);
        CO_AT(t->pc, 52);
        if (s->shared || (compare && t->pass && t->version[1] != s->shared_version))
            CO_RETURN(t->pc);
        t->version[1] = s->shared_version;
        t->quiet |= nothing_there(s);
    }
    if (!t->quiet)
        model_forbid("EMPTY was said while a frame was there at every instant of the call");
    CO_END(t->pc);
}

/* ---- the model ------------------------------------------------------------------------------- */

static bool run_op(struct state *s, struct thread *t, unsigned kind)
{
    switch (kind) {
    case CL_PUSH:
        if (!t->frame)
            t->frame = lowest_frame(t->held);
        return !t->frame || co_push(s, t);
    case CL_POP:
        return co_pop(s, t);
    case CL_REFILL:
        return co_refill(s, t);
    case CL_GIVE:
        return co_give(s, t);
    case CL_DRAIN:
        return co_drain(s, t, false);
    case CL_CLOSE:
        return co_close(s, t);
    default:
        return co_prove(s, t);
    }
}

static void thread_step(struct state *s, struct thread *t, unsigned kind)
{
    /* The first stop lies before any access. */
    bool begun = t->pc || t->pc_part || (kind == CL_CLOSE && t->quiet);
    if (run_op(s, t, kind) || (!begun && run_op(s, t, kind))) {
        struct thread next = {.op = (uint8_t)(t->op + 1), .held = t->held};
        *t = next;
    }
}

static bool step(void *state, unsigned mover)
{
    struct state *s = state;
    struct thread *t = &s->t[mover];
    unsigned kind = t->op < CL_OPS ? cc->script[mover][t->op] : CL_NONE;
    if (kind == CL_NONE)
        return false;
    thread_step(s, t, kind);
    for (unsigned i = 0; i < cc->threads; i++)
        if (s->t[i].pc && cc->script[i][s->t[i].op] == CL_PROVE)
            s->t[i].quiet |= nothing_there(s);
    return true;
}

static void check(const void *state)
{
    const struct state *s = state;
    unsigned all = s->shared, every = cc->in_list | cc->shared;
    for (unsigned i = 0; i < cc->threads; i++) {
        unsigned own = s->t[i].held | s->t[i].hands;
        every |= cc->held[i];
        if (all & own)
            model_forbid("a frame is in two places");
        all |= own;
    }
    for (unsigned i = 0; i < CELLS; i++) {
        if (!s->cell[i].frame)
            continue;
        if (all & bit(s->cell[i].frame))
            model_forbid("frame %u is in a cell and elsewhere", s->cell[i].frame);
        all |= bit(s->cell[i].frame);
    }
    if (all != every)
        model_forbid("a frame is lost");
    if (!s->live.live && settled(s))
        model_forbid("the list is not live, but a completed push is in it");
    if (s->closed && settled(s))
        model_forbid("a push into a closed list was completed");
}

static void alone(const void *state, unsigned last)
{
    static struct state apart;
    struct thread *prober = &apart.t[CL_THREADS];
    unsigned steps;
    for (unsigned i = 0; i < cc->threads; i++) {
        const struct thread *t = &((const struct state *)state)->t[i];
        unsigned kind = t->op < CL_OPS ? cc->script[i][t->op] : CL_NONE;
        if (i == last || kind == CL_NONE || kind == CL_PROVE)
            continue;
        apart = *(const struct state *)state;
        for (steps = 0; apart.t[i].op == t->op; steps++) {
            if (steps == ALONE_STEPS) {
                model_forbid("thread %u alone does not finish", i);
                return;
            }
            thread_step(&apart, &apart.t[i], kind);
        }
    }
    apart = *(const struct state *)state;
    for (steps = 0; !prober->op && steps < ALONE_STEPS; steps++)
        thread_step(&apart, prober, CL_DRAIN);
    if (!prober->op)
        model_forbid("a newcomer alone cannot drain");
    else if (settled(&apart))
        model_forbid("a newcomer alone leaves completed pushes in the list");
}

static void init(void *state)
{
    struct state *s = state;
    memset(s, 0, sizeof *s);
    for (unsigned i = 0; i < CELLS; i++)
        if (cc->in_list >> i & 1)
            s->cell[i] = (struct cell){(uint8_t)(i + 1), 1};
    s->live.live = cc->in_list != 0;
    s->high = 1;
    s->shared = cc->shared;
    for (unsigned i = 0; i < cc->threads; i++)
        s->t[i].held = cc->held[i];
}

static void print(const void *state)
{
    const struct state *s = state;
    printf("    cells");
    for (unsigned i = 0; i < CELLS; i++)
        printf(" %u.%u", s->cell[i].frame, s->cell[i].phase);
    printf(", live %u%s.%u%s, shared %x, held", s->live.live, s->live.clear ? "c" : "",
           s->live.version, s->high ? "" : " closing", s->shared);
    for (unsigned i = 0; i < cc->threads; i++)
        printf(" %x", s->t[i].held | s->t[i].hands);
    printf("\n");
}

void cells_setup(const struct cells_case *c, enum cells_bug b, struct model *m)
{
    cc = c;
    bug = b;
    *m = (struct model){.size = sizeof(struct state),
                        .movers = c->threads,
                        .acyclic = true,
                        .limit = c->limit,
                        .init = init,
                        .step = step,
                        .check = check,
                        .alone = alone,
                        .print = print};
}

const struct cells_case cells_cases[] = {
    {"cells.drain", "pushes, pops and two drains", .rounds = 2, .in_list = 1, .held = {2, 4},
     .threads = 4, .script = {{CL_PUSH, CL_POP}, {CL_PUSH, CL_POP}, {CL_DRAIN}, {CL_DRAIN}},
     .limit = 6000000},
    {"cells.close", "closed while pushes run", .rounds = 3, .held = {1, 2}, .threads = 4,
     .script = {{CL_PUSH, CL_PUSH}, {CL_PUSH}, {CL_CLOSE}, {CL_DRAIN}}, .limit = 6000000},
    {"cells.prove", "rule 6 over list and shared level", .rounds = 2, .shared = 3, .threads = 4,
     .script =
         {{CL_REFILL, CL_REFILL}, {CL_REFILL, CL_POP, CL_GIVE, CL_REFILL}, {CL_DRAIN}, {CL_PROVE}},
     .limit = 6000000},
};
const unsigned cells_case_count = sizeof cells_cases / sizeof cells_cases[0];

const struct plant cells_plants[] = {
    {CL_BUG_PUSH_NO_LIVE, "push does not look at live", "cells.drain", true},
    {CL_BUG_PUSH_LIVE_EARLY, "push looks at live before its cell is full", "cells.drain", true},
    {CL_BUG_PUSH_IGNORES_CLEAR, "push ignores CLEAR", "cells.drain", true},
    {CL_BUG_DRAIN_NO_MARK, "drain without a mark", "cells.drain", true},
    {CL_BUG_DRAIN_STORE, "drain clears live without comparing", "cells.drain", true},
    {CL_BUG_NO_VERSION, "live without a version", "cells.drain", true},
    {CL_BUG_CLOSE_NO_LOOK, "push does not look whether the list was closed", "cells.close", true},
    {CL_BUG_CLOSE_GENTLE, "closer leaves lists alone that are not live", "cells.close", true},
    {CL_BUG_PROVE_ONCE, "live and roots read once", "cells.prove", true},
    {CL_BUG_PROVE_NO_VERSION, "live and roots read twice, no versions", "cells.prove", true},
};
const unsigned cells_plant_count = sizeof cells_plants / sizeof cells_plants[0];
