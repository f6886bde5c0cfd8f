/* SPDX-License-Identifier: MIT */
/*
 * Memory of the simulated machine: what base/atomic.h becomes (hooks.h). The model is told in
 * sim.h. Memory itself always holds what has become visible; beside it are each thread's buffered
 * stores, the last changes (what an early load may still see), and the undo log that takes a run
 * back in time proportional to what it wrote.
 */
#include "host/sim/internal.h"

#include "base/rseq.h"

#include <stdlib.h>
#include <string.h>

void (*sim_on_change)(const volatile void *p);
void (*sim_on_event)(const struct sim_event *e);

static inline uint64_t peek(const volatile void *p, unsigned size)
{
    switch (size) {
    case 1:
        return *(const volatile uint8_t *)p;
    case 4:
        return *(const volatile uint32_t *)p;
    default:
        return *(const volatile uint64_t *)p;
    }
}

static inline void poke(volatile void *p, unsigned size, uint64_t v)
{
    switch (size) {
    case 1:
        *(volatile uint8_t *)p = (uint8_t)v;
        break;
    case 4:
        *(volatile uint32_t *)p = (uint32_t)v;
        break;
    default:
        *(volatile uint64_t *)p = v;
    }
}

static inline size_t offset_of(const volatile void *p)
{
    return (size_t)((uintptr_t)p - (uintptr_t)sim.program.memory);
}

static void log_undo(volatile void *p, unsigned size, uint64_t old)
{
    if (sim.nr_undo == sim.undo_size) {
        sim.undo_size = sim.undo_size ? 2 * sim.undo_size : 4096;
        sim.undo = realloc(sim.undo, sim.undo_size * sizeof(*sim.undo));
        if (!sim.undo)
            abort();
    }
    sim.undo[sim.nr_undo++] = (struct sim_undo){p, old, size};
}

void sim_restore(void)
{
    while (sim.nr_undo) {
        const struct sim_undo *u = &sim.undo[--sim.nr_undo];
        poke(u->p, u->size, u->old);
    }
}

void sim_memory_begin(void)
{
    sim.now = SIM_PAST;
    for (unsigned i = 0; i < SIM_PAST; i++)
        sim.past[i].p = NULL;
}

/* A store becomes visible. */
static void change(volatile void *p, unsigned size, uint64_t v, unsigned writer)
{
    uint64_t old = peek(p, size);
    if (old == v)
        return;
    if (!sim.program.memory) { /* scenes are made before a program is loaded */
        poke(p, size, v);
        return;
    }
    uint64_t place = offset_of(p);
    sim.state ^= sim_mix(place, old) ^ sim_mix(place, v);
    log_undo(p, size, old);
    poke(p, size, v);
    sim.past[++sim.now % SIM_PAST] = (struct sim_change){p, old, writer};
    if (sim_on_change)
        sim_on_change(p);
}

/* ---- who uses what --------------------------------------------------------------------------- */

/*
 * Does the access take part in what others do? Two threads, or a thread and a handler, one of which
 * writes. A place is known by its first byte; what is learned in one run holds for all.
 */
bool sim_shared(struct sim_thread *t, enum sim_access kind, const volatile void *p)
{
    size_t place = offset_of(p);
    if (place >= sim.program.memory_size) {
        sim_fail("access outside of the shared memory: %p", (void *)(uintptr_t)p);
        return false;
    }
    unsigned user = 1u << (t->number + (t->depth ? SIM_THREADS : 0));
    unsigned now = sim.users[place], then = now | (kind == SIM_LOAD ? user : user << 8 | user);
    if (then != now) {
        sim.users[place] = (uint16_t)then;
        sim.users_grew = true;
    }
    return (then >> 8) && (then & 0xff & ((then & 0xff) - 1));
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* May buffered store n leave before those in front of it? */
unsigned sim_flushable(const struct sim_thread *t, unsigned n)
{
    if (n >= t->nr_buffered || (t->buffer[n].release && n))
        return 0;
    for (unsigned i = 0; i < n; i++)
        if (t->buffer[i].p == t->buffer[n].p)
            return 0;
    return 1;
}

void sim_flush(struct sim_thread *t, unsigned n)
{
    struct sim_store s = t->buffer[n];
    memmove(&t->buffer[n], &t->buffer[n + 1], (--t->nr_buffered - n) * sizeof(s));
    change(s.p, s.size, s.value, t->number);
}

void sim_drain(struct sim_thread *t)
{
    while (t->nr_buffered)
        sim_flush(t, 0);
}

/* Stores to this place become visible, and what they have to wait for. */
static void drain_place(struct sim_thread *t, const volatile void *p)
{
    unsigned last = 0;
    bool all = false;
    for (unsigned i = 0; i < t->nr_buffered; i++) {
        if (t->buffer[i].p == p) {
            last = i + 1;
            all |= t->buffer[i].release;
        }
    }
    for (unsigned i = 0; i < last;) {
        if (all || t->buffer[i].p == p) {
            sim_flush(t, i);
            last--;
        } else {
            i++;
        }
    }
}

static const struct sim_store *own_store(const struct sim_thread *t, const volatile void *p)
{
    for (unsigned n = t->nr_buffered; n-- > 0;)
        if (t->buffer[n].p == p)
            return &t->buffer[n];
    return NULL;
}

/* ---- early loads ----------------------------------------------------------------------------- */

void sim_sync(struct sim_thread *t)
{
    t->synced = sim.now;
    t->nr_seen = 0;
}

static uint64_t seen_at(const struct sim_thread *t, const volatile void *p)
{
    for (unsigned i = 0; i < t->nr_seen; i++)
        if (t->seen[i].p == p)
            return t->seen[i].time;
    return 0;
}

static void see(struct sim_thread *t, const volatile void *p, uint64_t time)
{
    for (unsigned i = 0; i < t->nr_seen; i++) {
        if (t->seen[i].p == p) {
            t->seen[i].time = time;
            return;
        }
    }
    if (t->nr_seen == SIM_SEEN) { /* full: forget by knowing everything */
        sim_sync(t);
        return;
    }
    t->seen[t->nr_seen].p = p;
    t->seen[t->nr_seen++].time = time;
}

/* Changes of the place that the load may precede, latest first; at most 2. */
static unsigned earlier(const struct sim_thread *t, const volatile void *p, uint64_t at[2])
{
    uint64_t bound = seen_at(t, p);
    unsigned n = 0;
    if (bound < t->synced)
        bound = t->synced;
    if (bound + SIM_PAST < sim.now)
        bound = sim.now - SIM_PAST;
    for (uint64_t time = sim.now; time > bound && n < 2; time--) {
        const struct sim_change *c = &sim.past[time % SIM_PAST];
        if (c->p != p)
            continue;
        if (c->writer == t->number)
            break;
        at[n++] = time;
    }
    return n;
}

static uint64_t load_some(struct sim_thread *t, uint32_t step, const volatile void *p,
                          unsigned size, enum dk_sim_order order)
{
    uint64_t at[2], value = peek(p, size), time = sim.now;
    if (t->synced != sim.now) {
        unsigned n = earlier(t, p, at);
        unsigned which = n ? sim_choose(t, step, 's', n) : 0;
        if (which) {
            time = at[which - 1] - 1;
            value = sim.past[at[which - 1] % SIM_PAST].old;
        }
        if (order == DK_SIM_relaxed)
            see(t, p, time);
    }
    if (order != DK_SIM_relaxed && time > t->synced) {
        t->synced = time;
        t->nr_seen = 0;
    }
    return value;
}

/* ---- what base/atomic.h calls ---------------------------------------------------------------- */

static void tell(struct sim_thread *t, uint32_t step, enum sim_access kind, unsigned order,
                 const volatile void *p, unsigned size, uint64_t old, uint64_t new,
                 const char *note)
{
    sim.trace = sim_mix(sim.trace ^ (t->number | t->depth << 3 | (unsigned)kind << 5),
                        new ^ offset_of(p) << 20);
    if (sim_on_event) {
        struct sim_event e = {t->number, t->depth, t->cpu, step, kind, order, p, size, old, new,
                              note};
        sim_on_event(&e);
    }
}

uint64_t dk_sim_load(const volatile void *p, unsigned size, enum dk_sim_order order)
{
    struct sim_thread *t = sim.running;
    if (!t)
        return peek(p, size);
    if (t->in_sequence && t->sequence_dead)
        return peek(p, size);
    uint32_t step = sim_point(t, SIM_LOAD, p);
    const struct sim_store *own = t->nr_buffered ? own_store(t, p) : NULL;
    uint64_t value = own ? own->value
                     : sim.program.weak ? load_some(t, step, p, size, order)
                                        : peek(p, size);
    tell(t, step, SIM_LOAD, order, p, size, value, value, own ? "own buffer" : NULL);
    return value;
}

static void store_now(struct sim_thread *t, volatile void *p, unsigned size, uint64_t v,
                      enum dk_sim_order order)
{
    if (order == DK_SIM_release)
        sim_drain(t);
    change(p, size, v, t->number);
}

void dk_sim_store(volatile void *p, unsigned size, uint64_t v, enum dk_sim_order order)
{
    struct sim_thread *t = sim.running;
    if (!t) {
        change(p, size, v, SIM_THREADS);
        return;
    }
    if (t->in_sequence && t->sequence_dead)
        return;
    uint32_t step = sim_point(t, SIM_STORE, p);
    if (t->in_sequence && t->sequence_dead)
        return;
    uint64_t old = sim_on_event ? peek(p, size) : 0;
    bool later = sim.program.weak && t->nr_buffered < SIM_BUFFER &&
                 ((t->nr_buffered && own_store(t, p)) || sim_choose(t, step, 'h', 1));
    if (later)
        t->buffer[t->nr_buffered++] = (struct sim_store){p, v, size, order == DK_SIM_release};
    else {
        drain_place(t, p);
        store_now(t, p, size, v, order);
    }
    tell(t, step, SIM_STORE, order, p, size, old, v, later ? "buffered" : NULL);
}

static void begin_update(struct sim_thread *t, const volatile void *p, enum dk_sim_order order)
{
    if (order != DK_SIM_relaxed) {
        sim_drain(t);
        sim_sync(t);
        return;
    }
    drain_place(t, p);
}

bool dk_sim_cas(volatile void *p, unsigned size, void *expected, uint64_t desired)
{
    struct sim_thread *t = sim.running;
    uint64_t want = peek(expected, size), old;
    if (!t) {
        old = peek(p, size);
        poke(expected, size, old);
        if (old == want)
            change(p, size, desired, SIM_THREADS);
        return old == want;
    }
    uint32_t step = sim_point(t, SIM_UPDATE, p);
    begin_update(t, p, DK_SIM_seq_cst);
    old = peek(p, size);
    if (old != want) {
        poke(expected, size, old);
        tell(t, step, SIM_UPDATE, SIM_CAS_FAILED, p, size, old, old, NULL);
        return false;
    }
    change(p, size, desired, t->number);
    sim_sync(t);
    tell(t, step, SIM_UPDATE, DK_SIM_seq_cst, p, size, old, desired, NULL);
    return true;
}

static uint64_t updated(enum dk_sim_update op, uint64_t old, uint64_t v)
{
    switch (op) {
    case DK_SIM_exchange:
        return v;
    case DK_SIM_fetch_or:
        return old | v;
    case DK_SIM_fetch_and:
        return old & v;
    default:
        return old + v;
    }
}

uint64_t dk_sim_rmw(volatile void *p, unsigned size, enum dk_sim_update op, uint64_t v,
                    enum dk_sim_order order)
{
    struct sim_thread *t = sim.running;
    uint64_t old, new;
    uint32_t step = 0;
    if (t) {
        step = sim_point(t, SIM_UPDATE, p);
        begin_update(t, p, order);
    }
    old = peek(p, size);
    new = updated(op, old, v);
    if (size < 8)
        new &= ((uint64_t)1 << 8 * size) - 1;
    change(p, size, new, t ? t->number : SIM_THREADS);
    if (t) {
        if (order != DK_SIM_relaxed)
            sim_sync(t);
        tell(t, step, SIM_UPDATE, order, p, size, old, new, NULL);
    }
    return old;
}

void dk_sim_fence(void)
{
    struct sim_thread *t = sim.running;
    if (!t)
        return;
    uint32_t step = sim_point(t, SIM_FENCE, NULL);
    sim_drain(t);
    sim_sync(t);
    tell(t, step, SIM_FENCE, DK_SIM_seq_cst, sim.program.memory, 0, 0, 0, NULL);
}

/* ---- what base/rseq.h calls ------------------------------------------------------------------ */

#ifdef DK_HAVE_RSEQ
/* The commit of a sequence: the question whether it lives and the store are one instant. */
bool dk_sim_rseq_commit(dk_aword *head, dk_word value)
{
    struct sim_thread *t = sim.running;
    const unsigned size = sizeof(*head);
    if (!t) {
        change(head, size, value, SIM_THREADS);
        return true;
    }
    uint32_t step = 0;
    if (!t->sequence_dead)
        step = sim_point(t, SIM_STORE, head);
    t->in_sequence = false;
    if (t->sequence_dead)
        return false;
    uint64_t old = peek(head, size);
    bool later = sim.program.weak && t->nr_buffered < SIM_BUFFER &&
                 ((t->nr_buffered && own_store(t, head)) || sim_choose(t, step, 'h', 1));
    if (later)
        t->buffer[t->nr_buffered++] = (struct sim_store){head, value, size, false};
    else {
        drain_place(t, head);
        change(head, size, value, t->number);
    }
    tell(t, step, SIM_STORE, DK_SIM_relaxed, head, size, old, value,
         later ? "commit, buffered" : "commit");
    return true;
}
#endif
