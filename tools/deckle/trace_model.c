/* SPDX-License-Identifier: MIT */
/*
 * The model. Live blocks are in a hash table by first frame (open addressing, deletion by moving
 * back what follows). Which one holds a frame is found by trying each order's first frame. Whether
 * a larger free or allocation covers small live blocks is told by a second table, which counts
 * those of each chunk of 512 frames, so that the usual answer, no, costs one look-up a chunk.
 */
#include "trace_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ORDER 9u /* chunks are of 2^9 frames */

struct slot {
    uint64_t key_1; /* key + 1, 0 = empty */
    uint64_t value;
};

struct table {
    struct slot *at;
    size_t nr, room; /* room is a power of two, or 0 */
};

struct trace_model {
    struct table runs;   /* first pfn -> order | unit << 8 | pieces << 16 | cpu << 32 */
    struct table chunks; /* pfn >> CHUNK_ORDER -> number of runs below that order in it */
    uint64_t runs_of_order[TRACE_NR_ORDERS];
    struct trace_totals totals;
};

/* --- tables ---------------------------------------------------------------------------------- */

static size_t home(const struct table *t, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 16) & (t->room - 1);
}

static struct slot *table_find(const struct table *t, uint64_t key)
{
    if (t->room == 0)
        return NULL;
    for (size_t i = home(t, key);; i = (i + 1) & (t->room - 1)) {
        if (t->at[i].key_1 == key + 1)
            return &t->at[i];
        if (t->at[i].key_1 == 0)
            return NULL;
    }
}

static void table_put(struct table *t, uint64_t key, uint64_t value)
{
    size_t i = home(t, key);

    while (t->at[i].key_1 != 0)
        i = (i + 1) & (t->room - 1);
    t->at[i] = (struct slot){key + 1, value};
    t->nr++;
}

static bool table_reserve(struct table *t, size_t more)
{
    struct table grown = {NULL, 0, t->room > 0 ? t->room : 1024};

    while (grown.room / 4 * 3 < t->nr + more)
        grown.room *= 2;
    if (grown.room == t->room)
        return true;
    grown.at = calloc(grown.room, sizeof(*grown.at));
    if (grown.at == NULL)
        return false;
    for (size_t i = 0; i < t->room; i++)
        if (t->at[i].key_1 != 0)
            table_put(&grown, t->at[i].key_1 - 1, t->at[i].value);
    free(t->at);
    *t = grown;
    return true;
}

static void table_remove(struct table *t, struct slot *slot)
{
    size_t hole = (size_t)(slot - t->at), i = hole;

    for (;;) {
        size_t from;

        i = (i + 1) & (t->room - 1);
        if (t->at[i].key_1 == 0)
            break;
        from = home(t, t->at[i].key_1 - 1);
        /* It may move into the hole unless its home lies behind the hole. */
        if (((i - from) & (t->room - 1)) >= ((i - hole) & (t->room - 1))) {
            t->at[hole] = t->at[i];
            hole = i;
        }
    }
    t->at[hole].key_1 = 0;
    t->nr--;
}

/* --- live runs ---------------------------------------------------------------------------------
 *
 * An entry is a run: frames of an aligned block of some order, all of them live as blocks of a unit
 * order. A block that was never split is a run of one unit. Splitting a block changes its unit and
 * nothing else, so that a damaged trace cannot make a million entries out of one line.
 */

struct run {
    uint64_t pfn;
    uint8_t order, unit;
    bool pieces;  /* units are pieces of a block that was split */
    uint32_t cpu; /* that allocated it */
};

static struct run run_of(const struct slot *s)
{
    struct run r = {s->key_1 - 1, (uint8_t)s->value, (uint8_t)(s->value >> 8),
                    (s->value >> 16 & 1) != 0, (uint32_t)(s->value >> 32)};

    return r;
}

static uint64_t frames_of(unsigned int order)
{
    return UINT64_C(1) << order;
}

static bool add_run(struct trace_model *m, const struct run *r)
{
    uint64_t units = frames_of(r->order - r->unit);
    struct slot *chunk;

    if (!table_reserve(&m->runs, 1) || !table_reserve(&m->chunks, 1))
        return false;
    table_put(&m->runs, r->pfn,
              (uint64_t)r->order | (uint64_t)r->unit << 8 | (uint64_t)r->pieces << 16 |
                  (uint64_t)r->cpu << 32);
    m->runs_of_order[r->order]++;
    if (r->order < CHUNK_ORDER) {
        chunk = table_find(&m->chunks, r->pfn >> CHUNK_ORDER);
        if (chunk != NULL)
            chunk->value++;
        else
            table_put(&m->chunks, r->pfn >> CHUNK_ORDER, 1);
    }
    m->totals.live_blocks += units;
    m->totals.live_by_order[r->unit] += units;
    m->totals.live_frames += frames_of(r->order);
    return true;
}

static void remove_run(struct trace_model *m, const struct run *r)
{
    uint64_t units = frames_of(r->order - r->unit);
    struct slot *chunk;

    if (r->order < CHUNK_ORDER) {
        chunk = table_find(&m->chunks, r->pfn >> CHUNK_ORDER);
        if (--chunk->value == 0)
            table_remove(&m->chunks, chunk);
    }
    m->runs_of_order[r->order]--;
    m->totals.live_blocks -= units;
    m->totals.live_by_order[r->unit] -= units;
    m->totals.live_frames -= frames_of(r->order);
    table_remove(&m->runs, table_find(&m->runs, r->pfn));
}

/* The run of at least this order that holds pfn. */
static bool find_run(const struct trace_model *m, uint64_t pfn, uint8_t order, struct run *run)
{
    for (unsigned int o = order; o < TRACE_NR_ORDERS; o++) {
        const struct slot *s;

        if (m->runs_of_order[o] == 0)
            continue;
        s = table_find(&m->runs, pfn & ~(frames_of(o) - 1));
        if (s == NULL)
            continue;
        *run = run_of(s);
        if (run->order == o)
            return true;
    }
    return false;
}

/* Takes the block out of the run, which falls into at most one run for each order between. */
static bool carve(struct trace_model *m, const struct run *run, uint64_t pfn, uint8_t order)
{
    struct run rest = *run;

    remove_run(m, run);
    for (rest.order = order; rest.order < run->order; rest.order++) {
        rest.pfn = (pfn & ~(frames_of(rest.order) - 1)) ^ frames_of(rest.order);
        if (!add_run(m, &rest))
            return false;
    }
    return true;
}

/* Ends the live blocks that begin inside the frames; returns how many, and adds up their frames. */
static uint64_t end_inside(struct trace_model *m, uint64_t pfn, uint8_t order, uint64_t *frames)
{
    uint64_t end = pfn + frames_of(order), ended = 0;

    while (pfn < end) {
        uint64_t next = ((pfn >> CHUNK_ORDER) + 1) << CHUNK_ORDER;

        if (next > end)
            next = end;
        /* Runs too large to be counted in a chunk begin at its first frame. */
        if (table_find(&m->runs, pfn) == NULL && table_find(&m->chunks, pfn >> CHUNK_ORDER) == NULL)
            pfn = next;
        for (; pfn < next; pfn++) {
            const struct slot *s = table_find(&m->runs, pfn);
            struct run run;

            if (s == NULL)
                continue;
            run = run_of(s);
            *frames += frames_of(run.order);
            ended += frames_of(run.order - run.unit);
            remove_run(m, &run);
        }
    }
    return ended;
}

/* --- events ---------------------------------------------------------------------------------- */

/* Blocks lie at multiples of their size, or nothing could be found; others are rounded down. */
static uint64_t block_start(struct trace_model *m, const struct trace_event *e)
{
    uint64_t mask = frames_of(e->order) - 1;

    if ((e->pfn & mask) != 0)
        m->totals.misaligned++;
    if ((e->pfn | mask) > m->totals.highest_pfn)
        m->totals.highest_pfn = e->pfn | mask;
    return e->pfn & ~mask;
}

/* Ends what is live of the frames of an allocation: frees that the trace does not show. */
static bool end_lost(struct trace_model *m, uint64_t pfn, uint8_t order, uint64_t *ended)
{
    struct run run;

    if (!find_run(m, pfn, order, &run)) {
        *ended = end_inside(m, pfn, order, &m->totals.lost_frames);
        return true;
    }
    if (order < run.unit)
        order = run.unit;
    *ended = frames_of(order - run.unit);
    m->totals.lost_frames += frames_of(order);
    return carve(m, &run, pfn & ~(frames_of(order) - 1), order);
}

static bool take_alloc(struct trace_model *m, const struct trace_event *e,
                       struct trace_step_detail *d)
{
    struct trace_totals *t = &m->totals;
    struct run run = {block_start(m, e), e->order, e->order, false, e->cpu};

    if (!end_lost(m, run.pfn, e->order, &d->ended) || !add_run(m, &run))
        return false;
    d->step = d->ended > 0 ? TRACE_STEP_ALLOC_DOUBLE : TRACE_STEP_ALLOC;
    t->double_allocs += d->ended > 0;
    t->allocs++;
    t->alloc_frames += frames_of(e->order);
    t->allocs_by_order[e->order]++;
    if (t->live_frames > t->peak_frames) {
        t->peak_frames = t->live_frames;
        t->peak_line = e->line;
        memcpy(t->peak_by_order, t->live_by_order, sizeof(t->peak_by_order));
    }
    return true;
}

/* A free inside a run, by how its order compares with the run's unit. */
static bool free_in_run(struct trace_model *m, const struct run *run, const struct trace_event *e,
                        uint64_t pfn, struct trace_step_detail *d)
{
    struct trace_totals *t = &m->totals;
    struct run unit = *run;

    t->remote_frees += run->cpu != e->cpu;
    if (e->order > run->unit) {
        d->step = TRACE_STEP_FREE_SEVERAL;
        d->ended = frames_of(e->order - run->unit);
        t->several_frees++;
        return carve(m, run, pfn, e->order);
    }
    d->alloc_cpu = run->cpu;
    d->block_order = run->unit;
    d->block_pfn = pfn & ~(frames_of(run->unit) - 1);
    if (e->order == run->unit) {
        d->step = TRACE_STEP_FREE;
        t->piece_frees += run->pieces;
        return carve(m, run, pfn, e->order);
    }
    d->step = TRACE_STEP_FREE_SPLIT;
    t->split_blocks += !run->pieces;
    t->piece_frees++;
    if (!carve(m, run, d->block_pfn, run->unit))
        return false;
    unit.pfn = d->block_pfn;
    unit.order = run->unit;
    unit.unit = e->order;
    unit.pieces = true;
    return add_run(m, &unit) && carve(m, &unit, pfn, e->order);
}

static bool take_free(struct trace_model *m, const struct trace_event *e,
                      struct trace_step_detail *d)
{
    struct trace_totals *t = &m->totals;
    uint64_t pfn = block_start(m, e), frames = 0;
    struct run run;

    t->frees++;
    t->free_frames += frames_of(e->order);
    t->frees_by_order[e->order]++;
    if (find_run(m, pfn, e->order, &run))
        return free_in_run(m, &run, e, pfn, d);
    d->ended = end_inside(m, pfn, e->order, &frames);
    if (d->ended > 0) {
        d->step = TRACE_STEP_FREE_SEVERAL;
        t->several_frees++;
    } else {
        d->step = TRACE_STEP_FREE_ADOPTED;
        t->adopted_frees++;
    }
    t->adopted_frames += frames_of(e->order) - frames;
    return true;
}

static void take_shared(struct trace_shared *s, const struct trace_event *e)
{
    s->recorded = true;
    s->events += e->events;
    s->frames += e->frames;
    s->bursts += e->burst_start;
}

bool trace_model_event(struct trace_model *m, const struct trace_event *event,
                       struct trace_step_detail *detail)
{
    struct trace_step_detail own, *d = detail != NULL ? detail : &own;

    memset(d, 0, sizeof(*d));
    switch (event->type) {
    case TRACE_ALLOC:
        return take_alloc(m, event, d);
    case TRACE_FREE:
        return take_free(m, event, d);
    case TRACE_ALLOC_FAILED:
        m->totals.failed++;
        return true;
    case TRACE_ZONE_LOCKED:
        take_shared(&m->totals.refill, event);
        return true;
    case TRACE_PCPU_DRAIN:
        take_shared(&m->totals.drain, event);
        return true;
    case TRACE_EXTFRAG:
        m->totals.fallbacks++;
        m->totals.fallbacks_whole += event->fallback_order >= CHUNK_ORDER;
        return true;
    default:
        return true;
    }
}

const struct trace_totals *trace_model_totals(const struct trace_model *m)
{
    return &m->totals;
}

struct trace_model *trace_model_new(void)
{
    return calloc(1, sizeof(struct trace_model));
}

void trace_model_free(struct trace_model *m)
{
    if (m == NULL)
        return;
    free(m->runs.at);
    free(m->chunks.at);
    free(m);
}
