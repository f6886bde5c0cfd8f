/* SPDX-License-Identifier: MIT */
/*
 * See rseq.h. Movers: the owner, the drainers, the owner's store buffer.
 *
 * In every state no frame is in two places, and when the buffer is empty none is missing. From
 * every state the owner alone finishes its operation, and a newcomer who drains alone gets every
 * frame of the list, whoever has stopped where. A proof of emptiness that succeeds saw an instant
 * with no frame in list and shared level.
 */
#include "rseq.h"

#include <stdio.h>
#include <string.h>

#include "coroutine.h"

#define SLOTS       4
#define BUFFER      4
#define ALONE_STEPS 100u

struct head {
    uint8_t index, pops, stop;
};

struct store {
    uint8_t is_head, slot, frame; /* slot[slot] = frame, or the head */
    struct head head;
};

struct owner {
    uint8_t op, pc, frame, aborted, held;
    struct head seen;
};

struct drainer {
    uint8_t op, pc, pc_round, round, foreign, n, taken, hands, pass, quiet, failed;
    struct head seen, first;
    uint8_t version;
};

struct state {
    struct head head;
    uint8_t slot[SLOTS];
    uint8_t shared, shared_version;
    uint8_t stores;
    struct store store[BUFFER];
    struct owner o;
    struct drainer d[RQ_DRAINERS + 1]; /* the one after the last is the prober */
};

static const struct rseq_case *rc;
static enum rseq_bug bug;

static bool same(struct head a, struct head b)
{
    return a.index == b.index && a.pops == b.pops && a.stop == b.stop;
}
static uint8_t bit(unsigned frame)
{
    return (uint8_t)(1u << (frame - 1));
}

/* ---- the store buffer ------------------------------------------------------------------------ */

static struct head own_head(const struct state *s)
{
    for (unsigned i = s->stores; i-- > 0;)
        if (s->store[i].is_head)
            return s->store[i].head;
    return s->head;
}

static uint8_t own_slot(const struct state *s, unsigned slot)
{
    for (unsigned i = s->stores; i-- > 0;)
        if (!s->store[i].is_head && s->store[i].slot == slot)
            return s->store[i].frame;
    return s->slot[slot];
}

static void put_store(struct state *s, struct store st)
{
    s->store[s->stores++] = st;
}

static bool same_place(const struct store *a, const struct store *b)
{
    return a->is_head == b->is_head && (a->is_head || a->slot == b->slot);
}

/* Entry i may go to memory unless an older one writes the same place. */
static bool may_commit(const struct state *s, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (same_place(&s->store[k], &s->store[i]))
            return false;
    return true;
}

static void commit(struct state *s, unsigned i)
{
    struct store st = s->store[i];
    if (st.is_head)
        s->head = st.head;
    else
        s->slot[st.slot] = st.frame;
    s->stores--;
    memmove(&s->store[i], &s->store[i + 1], (s->stores - i) * sizeof st);
    memset(&s->store[s->stores], 0, sizeof st);
}

static bool flush_one(struct state *s)
{
    unsigned ready[BUFFER], n = 0;
    for (unsigned i = 0; i < s->stores; i++)
        if (may_commit(s, i))
            ready[n++] = i;
    if (!n)
        return false;
    commit(s, ready[model_choose(n)]);
    model_say("a store of the owner reaches memory");
    return true;
}

static void membarrier(struct state *s)
{
    while (s->stores)
        commit(s, 0);
    if (s->o.pc > 1)
        s->o.pc = 1;
}

/* ---- the owner ------------------------------------------------------------------------------- */

static bool store_head(struct state *s, int index, int pops)
{
    struct head h = s->o.seen;
    if (s->stores == BUFFER)
        return false;
    h.index = (uint8_t)(h.index + index);
    if (bug != RQ_BUG_POP_NO_COUNT)
        h.pops = (uint8_t)(h.pops + pops);
    put_store(s, (struct store){.is_head = 1, .head = h});
    return true;
}

static bool store_slot(struct state *s)
{
    if (s->stores == BUFFER)
        return false;
    put_store(s, (struct store){.slot = s->o.seen.index, .frame = s->o.frame});
    return true;
}

static void end_op(struct owner *o)
{
    struct owner next = {.op = (uint8_t)(o->op + 1), .held = o->held};
    *o = next;
}

/* The sequence of a pop; pc 1: load the head. A full store buffer makes the owner wait. */
static bool pop_step(struct state *s)
{
    struct owner *o = &s->o;
    switch (o->pc) {
    case 1:
        o->seen = own_head(s);
        if (!o->seen.index || (o->seen.stop && bug != RQ_BUG_NO_STOP_TEST)) {
            model_say("cannot pop");
            end_op(o);
            return true;
        }
        o->pc = 2;
        model_say("pop loads the head");
        return true;
    case 2:
        o->frame = own_slot(s, o->seen.index - 1u);
        o->pc = 3;
        model_say("pop loads frame %u", o->frame);
        return true;
    default:
        if (!store_head(s, -1, 1))
            return false;
        if (o->held & bit(o->frame))
            model_forbid("the owner pops frame %u that it holds", o->frame);
        o->held |= bit(o->frame);
        model_say("pop commits");
        end_op(o);
        return true;
    }
}

static bool push_step(struct state *s)
{
    struct owner *o = &s->o;
    bool early = bug == RQ_BUG_COMMIT_EARLY;
    switch (o->pc) {
    case 1:
        o->seen = own_head(s);
        if (o->seen.stop || o->seen.index == SLOTS) {
            model_say("cannot push");
            end_op(o);
            return true;
        }
        o->pc = 2;
        model_say("push loads the head");
        return true;
    case 2:
        if (!(early ? store_head(s, 1, 0) : store_slot(s)))
            return false;
        o->pc = 3;
        model_say("push stores");
        return true;
    default:
        if (!(early ? store_slot(s) : store_head(s, 1, 0)))
            return false;
        o->held &= (uint8_t)~bit(o->frame);
        model_say("push of frame %u commits", o->frame);
        end_op(o);
        return true;
    }
}

static uint8_t lowest_frame(unsigned mask)
{
    for (unsigned f = 1; f <= 8; f++)
        if (mask & bit(f))
            return (uint8_t)f;
    return 0;
}

/* Before the sequence: the frame to push, of the owner's hands or of the shared level. */
static bool fetch(struct state *s, unsigned kind)
{
    struct owner *o = &s->o;
    if (kind == RQ_REFILL) {
        uint8_t f = lowest_frame(s->shared);
        if (f) {
            s->shared &= (uint8_t)~bit(f);
            o->held |= bit(f);
            o->frame = f;
            model_say("takes frame %u from the shared level", f);
        }
    } else {
        o->frame = lowest_frame(o->held);
    }
    if (!o->frame)
        end_op(o);
    else
        o->pc = 1;
    return true;
}

static bool owner_step(struct state *s)
{
    struct owner *o = &s->o;
    unsigned kind = o->op < RQ_OPS ? rc->owner[o->op] : RQ_NONE;
    if (kind == RQ_NONE)
        return false;
    if (o->pc > 1 && !o->aborted && model_choose(2)) {
        o->pc = 1;
        o->aborted = 1;
        memset(&o->seen, 0, sizeof o->seen);
        model_say("is interrupted");
        return true;
    }
    if (kind == RQ_POP) {
        o->pc = o->pc ? o->pc : 1;
        return pop_step(s);
    }
    return o->pc ? push_step(s) : fetch(s, kind);
}

/* ---- drainers -------------------------------------------------------------------------------- */

static bool co_become_exclusive(struct state *s, struct drainer *d)
{
    CO_BEGIN(d->pc_round);
    d->failed = 0;
    CO_AT(d->pc_round, 1);
    if (!s->head.index && !s->head.stop) {
        d->quiet = 1; /* empty at this instant: nothing to do */
        model_say("finds the list empty");
        CO_RETURN(d->pc_round);
    }
    CO_AT(d->pc_round, 2);
    d->foreign = s->head.stop;
    s->head.stop = 1;
    d->seen = s->head;
    model_say("sets STOP, sees index %u pops %u", d->seen.index, d->seen.pops);
    if (bug == RQ_BUG_NO_MEMBARRIER || (bug == RQ_BUG_TRUST && d->foreign))
        CO_RETURN(d->pc_round);
    if (bug == RQ_BUG_READ_SLOTS_EARLY) {
        CO_AT(d->pc_round, 3);
        d->taken = 0;
        for (unsigned i = 0; i < rc->step && i < d->seen.index; i++)
            d->taken |= bit(s->slot[d->seen.index - 1u - i]);
    }
    CO_AT(d->pc_round, 4);
    membarrier(s);
    model_say("membarrier");
    CO_AT(d->pc_round, 5);
    d->failed = !same(s->head, d->seen) && bug != RQ_BUG_NO_COMPARE;
    if (bug == RQ_BUG_NO_COMPARE)
        d->seen = s->head;
    model_say(d->failed ? "finds the head changed" : "is exclusive");
    CO_END(d->pc_round);
}

static bool change(struct state *s, struct drainer *d, unsigned index, unsigned pops, unsigned stop)
{
    bool plain = !stop && bug == RQ_BUG_OPEN_STORE;
    if (!same(s->head, d->seen) && !plain) {
        model_say("finds that somebody was faster");
        return false;
    }
    d->seen = (struct head){(uint8_t)index, (uint8_t)(d->seen.pops + pops), (uint8_t)stop};
    s->head = d->seen;
    return true;
}

/* Take one step of frames and give them to the shared level. */
static bool co_take_step(struct state *s, struct drainer *d)
{
    CO_BEGIN(d->pc_round);
    d->n = d->seen.index < rc->step ? d->seen.index : rc->step;
    if (bug != RQ_BUG_READ_SLOTS_EARLY)
        d->taken = 0;
    for (d->pass = 0; d->pass < d->n && bug != RQ_BUG_READ_SLOTS_EARLY; d->pass++) {
        CO_AT(d->pc_round, 11);
        unsigned f = s->slot[d->seen.index - d->n + d->pass];
        d->taken |= f ? bit(f) : 0;
        model_say("reads frame %u", f);
    }
    CO_AT(d->pc_round, 12);
    d->failed = !change(s, d, d->seen.index - (unsigned)d->n, d->n, 1);
    if (d->failed)
        CO_RETURN(d->pc_round);
    d->hands = d->taken;
    d->taken = 0;
    model_say("takes frames %x", d->hands);
    CO_AT(d->pc_round, 13);
    s->shared |= d->hands;
    s->shared_version++;
    d->hands = 0;
    model_say("gives them to the shared level");
    CO_END(d->pc_round);
}

/* take: else the list is opened again as it is, with what it holds. */
static bool co_drain(struct state *s, struct drainer *d, bool take)
{
    CO_BEGIN(d->pc);
    for (d->round = 0; d->round < rc->rounds; d->round++) {
        CO_CALL(d->pc, 1, co_become_exclusive(s, d));
        if (d->quiet)
            CO_RETURN(d->pc);
        if (d->failed)
            continue;
        while (take && d->seen.index && !d->failed)
            CO_CALL(d->pc, 2, co_take_step(s, d));
        if (d->failed)
            continue;
        CO_AT(d->pc, 3);
        if (change(s, d, d->seen.index, bug != RQ_BUG_OPEN_NO_POPS, 0)) {
            model_say("opens the list");
            CO_RETURN(d->pc);
        }
    }
    CO_END(d->pc);
}

static bool nothing_there(const struct state *s)
{
    return !s->head.index && !s->shared;
}

/* Contract rule 6 over two places: both read empty, twice, with the same versions. */
static bool co_prove(struct state *s, struct drainer *d)
{
    unsigned passes = bug == RQ_BUG_PROVE_ONCE ? 1 : 2;
    CO_BEGIN(d->pc);
    for (d->pass = 0; d->pass < passes; d->pass++) {
        CO_AT(d->pc, 11);
        if (s->head.index || (d->pass && d->first.pops != s->head.pops))
            CO_RETURN(d->pc);
        d->first = s->head;
        d->quiet |= nothing_there(s);
        CO_AT(d->pc, 12);
        if (s->shared || (d->pass && d->version != s->shared_version))
            CO_RETURN(d->pc);
        d->version = s->shared_version;
        d->quiet |= nothing_there(s);
    }
    if (!d->quiet)
        model_forbid("EMPTY was said while a frame was there at every instant of the call");
    CO_END(d->pc);
}

static bool run_op(struct state *s, struct drainer *d, unsigned kind)
{
    if (kind == RQ_PROVE)
        return co_prove(s, d);
    return co_drain(s, d, kind == RQ_DRAIN);
}

static bool drainer_step(struct state *s, struct drainer *d, unsigned kind)
{
    if (kind == RQ_NONE)
        return false;
    /* The first stop lies before any access. */
    bool begun = d->pc != 0;
    bool done = run_op(s, d, kind) || (!begun && run_op(s, d, kind));
    if (done) {
        struct drainer next = {.op = (uint8_t)(d->op + 1)};
        *d = next;
    }
    return true;
}

/* ---- the model ------------------------------------------------------------------------------- */

static bool step(void *state, unsigned mover)
{
    struct state *s = state;
    bool moved;
    if (mover == 0) {
        moved = owner_step(s);
    } else if (mover <= rc->drainers) {
        struct drainer *d = &s->d[mover - 1];
        moved = drainer_step(s, d, d->op < 2 ? rc->drainer[mover - 1][d->op] : RQ_NONE);
    } else {
        moved = flush_one(s);
    }
    for (unsigned i = 0; moved && i < rc->drainers; i++)
        if (s->d[i].pc && rc->drainer[i][s->d[i].op] == RQ_PROVE)
            s->d[i].quiet |= nothing_there(s);
    return moved;
}

static unsigned in_list(const struct state *s)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < s->head.index; i++) {
        unsigned f = s->slot[i];
        if (!f || (mask & bit(f)))
            model_forbid("slot %u of the list is wrong", i);
        mask |= f ? bit(f) : 0u;
    }
    return mask;
}

static void check(const void *state)
{
    const struct state *s = state;
    unsigned all = s->o.held;
    if (all & s->shared)
        model_forbid("a frame is in the owner's hands and in the shared level");
    all |= s->shared;
    for (unsigned i = 0; i < rc->drainers; i++) {
        if (all & s->d[i].hands)
            model_forbid("a frame is in two places");
        all |= s->d[i].hands;
    }
    if (s->stores)
        return;
    unsigned list = in_list(s);
    if (all & list)
        model_forbid("a frame is in the list and in somebody's hands");
    unsigned every = ((1u << rc->in_list) - 1) | rc->held | rc->shared;
    if ((all | list) != every)
        model_forbid("a frame is lost");
}

static void alone(const void *state, unsigned last)
{
    static struct state apart;
    struct owner *o = &apart.o;
    struct drainer *d = &apart.d[RQ_DRAINERS];
    unsigned steps = 0, left;
    (void)last;
    apart = *(const struct state *)state;
    for (unsigned op = o->op; o->op == op && op < RQ_OPS && rc->owner[op]; steps++) {
        while (apart.stores)
            commit(&apart, 0);
        if (steps == ALONE_STEPS) {
            model_forbid("the owner alone does not finish");
            return;
        }
        owner_step(&apart);
    }
    apart = *(const struct state *)state;
    for (steps = 0; !d->op; steps++) {
        if (steps == ALONE_STEPS) {
            model_forbid("a newcomer alone cannot drain");
            return;
        }
        drainer_step(&apart, d, RQ_DRAIN);
    }
    left = apart.head.index;
    if (left)
        model_forbid("a newcomer alone leaves %u frames in the list", left);
}

static void init(void *state)
{
    struct state *s = state;
    memset(s, 0, sizeof *s);
    for (unsigned i = 0; i < rc->in_list; i++)
        s->slot[i] = (uint8_t)(i + 1);
    s->head.index = rc->in_list;
    s->o.held = rc->held;
    s->shared = rc->shared;
}

static void print(const void *state)
{
    const struct state *s = state;
    printf("    head {%u pops %u%s} slots %u %u %u %u, buffered %u, owner %x, shared %x, drainers",
           s->head.index, s->head.pops, s->head.stop ? " STOP" : "", s->slot[0], s->slot[1],
           s->slot[2], s->slot[3], s->stores, s->o.held, s->shared);
    for (unsigned i = 0; i < rc->drainers; i++)
        printf(" %x", s->d[i].hands);
    printf("\n");
}

void rseq_setup(const struct rseq_case *c, enum rseq_bug b, struct model *m)
{
    rc = c;
    bug = b;
    *m = (struct model){.size = sizeof(struct state),
                        .movers = 2u + c->drainers,
                        .acyclic = true,
                        .limit = c->limit,
                        .init = init,
                        .step = step,
                        .check = check,
                        .alone = alone,
                        .print = print};
}

const struct rseq_case rseq_cases[] = {
    {"rseq.two", "two drainers against pops and pushes", .step = 1, .rounds = 2, .in_list = 2,
     .held = 4, .owner = {RQ_POP, RQ_PUSH, RQ_POP, RQ_PUSH}, .drainers = 2,
     .drainer = {{RQ_DRAIN}, {RQ_DRAIN}}, .limit = 6000000},
    {"rseq.open", "three drainers, two of whom open the list with what it holds", .step = 1,
     .rounds = 2, .in_list = 1, .owner = {RQ_POP, RQ_PUSH}, .drainers = 3,
     .drainer = {{RQ_OPEN}, {RQ_DRAIN}, {RQ_OPEN}}, .limit = 6000000},
    {"rseq.prove", "the proof of emptiness over list and shared level", .step = 1, .rounds = 2,
     .in_list = 1, .shared = 2, .owner = {RQ_REFILL, RQ_POP, RQ_REFILL, RQ_POP}, .drainers = 2,
     .drainer = {{RQ_DRAIN, RQ_DRAIN}, {RQ_PROVE}}, .limit = 6000000},
    {"long.rseq", "three drainers, steps of two", .step = 2, .rounds = 2, .in_list = 3,
     .owner = {RQ_POP, RQ_PUSH, RQ_POP}, .drainers = 3,
     .drainer = {{RQ_DRAIN}, {RQ_DRAIN}, {RQ_DRAIN}}, .limit = 6000000},
};
const unsigned rseq_case_count = sizeof rseq_cases / sizeof rseq_cases[0];

const struct plant rseq_plants[] = {
    {RQ_BUG_NO_MEMBARRIER, "STOP without membarrier", "rseq.two", true},
    {RQ_BUG_NO_COMPARE, "the head not compared after the membarrier", "rseq.two", true},
    {RQ_BUG_TRUST, "a drainer that trusts a foreign STOP", "rseq.two", true},
    {RQ_BUG_OPEN_NO_POPS, "un-stop without pops + 1, frames left", "rseq.open", true},
    {RQ_BUG_OPEN_NO_POPS, "un-stop without pops + 1, only when empty", "rseq.two", false},
    {RQ_BUG_OPEN_STORE, "un-stop by a plain store", "rseq.two", true},
    {RQ_BUG_POP_NO_COUNT, "pops not counted", "rseq.two", true},
    {RQ_BUG_COMMIT_EARLY, "push commits before the slot is written", "rseq.two", true},
    {RQ_BUG_NO_STOP_TEST, "pop does not look at STOP", "rseq.two", true},
    {RQ_BUG_READ_SLOTS_EARLY, "slots read before the membarrier", "rseq.two", true},
    {RQ_BUG_PROVE_ONCE, "cache header and roots read once", "rseq.prove", true},
};
const unsigned rseq_plant_count = sizeof rseq_plants / sizeof rseq_plants[0];
