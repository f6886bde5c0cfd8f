/* SPDX-License-Identifier: MIT */
/*
 * A trace becomes operations (replay.h). For each frame of the trace that is live we know the slot
 * and the order of the piece it lies in; frames are kept in chunks of 512, found by hashing.
 *
 * What a trace leaves out is filled in so that every frame that Deckle gives out comes back:
 *   - a free of frames that are not live is that of a block from before the recording: a slot that
 *     the run allocates before it begins;
 *   - a free of part of a block is preceded by a split of the block into parts of that size;
 *   - a free of more than one block becomes a free of each, the gaps between are blocks from
 * before;
 *   - an allocation of live frames is preceded by the frees that the trace does not show.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define CHUNK 512u

struct frame {
    uint32_t slot; /* 0 = not live */
    uint8_t unit;  /* order of the piece */
};

struct chunk {
    uint64_t number; /* pfn / CHUNK */
    struct frame frames[CHUNK];
};

struct replay_frames {
    struct chunk **at; /* open addressing; room is a power of two */
    size_t nr, room;
    struct chunk *last; /* found last */
};

/* --- frames ---------------------------------------------------------------------------------- */

static size_t place_of(const struct replay_frames *f, uint64_t number)
{
    size_t i = (size_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (f->room - 1);

    while (f->at[i] != NULL && f->at[i]->number != number)
        i = (i + 1) & (f->room - 1);
    return i;
}

static bool grow_frames(struct replay_frames *f)
{
    struct replay_frames grown = {.nr = f->nr, .room = f->room > 0 ? f->room * 2 : 1024};

    grown.at = calloc(grown.room, sizeof(struct chunk *));
    if (grown.at == NULL)
        return false;
    for (size_t i = 0; i < f->room; i++)
        if (f->at[i] != NULL)
            grown.at[place_of(&grown, f->at[i]->number)] = f->at[i];
    free(f->at);
    *f = grown;
    return true;
}

/* What is known of a frame; NULL when memory runs out. */
static struct frame *frame_of(struct replay_plan *p, uint64_t pfn)
{
    struct replay_frames *f = p->frames;
    size_t i;

    if (f->last != NULL && f->last->number == pfn / CHUNK)
        return &f->last->frames[pfn % CHUNK];
    if ((f->nr + 1) * 2 > f->room && !grow_frames(f))
        return NULL;
    i = place_of(f, pfn / CHUNK);
    if (f->at[i] == NULL) {
        if (f->nr == REPLAY_MAX_FRAMES / CHUNK)
            return NULL;
        f->at[i] = calloc(1, sizeof(struct chunk));
        if (f->at[i] == NULL)
            return NULL;
        f->at[i]->number = pfn / CHUNK;
        f->nr++;
    }
    f->last = f->at[i];
    return &f->last->frames[pfn % CHUNK];
}

static bool mark(struct replay_plan *p, uint64_t pfn, unsigned int order, uint32_t slot,
                 unsigned int unit)
{
    for (uint64_t end = pfn + (UINT64_C(1) << order); pfn < end; pfn++) {
        struct frame *f = frame_of(p, pfn);

        if (f == NULL)
            return false;
        f->slot = slot;
        f->unit = (uint8_t)unit;
    }
    return true;
}

/* --- operations ------------------------------------------------------------------------------ */

static void *grown(void *array, uint32_t *room, size_t size)
{
    uint32_t more = *room > 0 ? *room * 2 : 4096;
    void *larger = realloc(array, more * size);

    if (larger != NULL)
        *room = more;
    return larger;
}

static bool add_op(struct replay_plan *p, const struct replay_op *op)
{
    if (p->nr_ops == REPLAY_MAX_OPS)
        return false;
    if (p->nr_ops == p->room_ops) {
        struct replay_op *ops = grown(p->ops, &p->room_ops, sizeof(*ops));

        if (ops == NULL)
            return false;
        p->ops = ops;
    }
    p->ops[p->nr_ops] = *op;
    p->ops[p->nr_ops].ahead = p->allocated;
    p->ops[p->nr_ops].line = p->line;
    p->nr_ops++;
    return true;
}

static uint32_t add_slot(struct replay_plan *p, uint64_t base, unsigned int order, uint32_t cpu,
                         bool adopted)
{
    if (p->nr_slots == p->room_slots) {
        struct replay_slot *slots = grown(p->slots, &p->room_slots, sizeof(*slots));

        if (slots == NULL)
            return 0;
        p->slots = slots;
    }
    p->slots[p->nr_slots] = (struct replay_slot){.base = base,
                                                 .order = (uint8_t)order,
                                                 .cpu = (uint16_t)cpu,
                                                 .adopted = adopted,
                                                 .steps = 1};
    if (order > p->max_order)
        p->max_order = order;
    p->counts.adopted_blocks += adopted;
    p->counts.adopted_frames += adopted ? UINT64_C(1) << order : 0;
    return p->nr_slots++;
}

static void note_peak(struct replay_plan *p)
{
    int64_t now = (int64_t)p->live - (int64_t)p->adopted_freed;

    if (now > p->least_adopted_peak)
        p->least_adopted_peak = now;
}

/* Frees the piece of the slot that begins at pfn. */
static bool add_free(struct replay_plan *p, const struct trace_event *e, uint32_t slot,
                     uint64_t pfn, unsigned int order, unsigned int flags)
{
    const struct replay_slot *s = &p->slots[slot];
    struct replay_op op = {.slot = slot,
                           .offset = (uint32_t)(pfn - s->base),
                           .need = s->steps,
                           .cpu = (uint16_t)e->cpu,
                           .kind = REPLAY_FREE,
                           .order = (uint8_t)order,
                           .flags = (uint8_t)flags};

    if (s->adopted) {
        op.flags |= REPLAY_ADOPTED;
        p->adopted_freed += UINT64_C(1) << order;
    } else {
        op.flags |= s->cpu != e->cpu ? REPLAY_REMOTE : 0;
        op.flags |= order != s->order ? REPLAY_PIECE : 0;
        p->live -= UINT64_C(1) << order;
    }
    return add_op(p, &op) && mark(p, pfn, order, 0, 0);
}

/* Divides the piece of the slot that holds pfn into pieces of the event's order. */
static bool add_split(struct replay_plan *p, const struct trace_event *e, uint32_t slot,
                      uint64_t pfn, unsigned int unit)
{
    struct replay_slot *s = &p->slots[slot];
    uint64_t piece = pfn & ~((UINT64_C(1) << unit) - 1);
    struct replay_op op = {.slot = slot,
                           .offset = (uint32_t)(piece - s->base),
                           .need = s->steps++,
                           .cpu = (uint16_t)e->cpu,
                           .kind = REPLAY_SPLIT,
                           .order = e->order,
                           .old_order = (uint8_t)unit};

    /* Linux dissolves a compound block before it frees the pieces; Deckle divides plain ones. */
    p->counts.dissolved += (p->ops[s->op].gfp & DECKLE_GFP_COMP) != 0 && !s->adopted;
    if (!s->adopted)
        p->ops[s->op].gfp &= ~DECKLE_GFP_COMP;
    return add_op(p, &op) && mark(p, piece, unit, slot, e->order);
}

/* --- events ---------------------------------------------------------------------------------- */

/* The type of a migratetype of Linux as the gfp flags say it: 0 Unmovable, 1 Movable, 2
 * Reclaimable. */
static unsigned int type_of(uint32_t gfp)
{
    return gfp & DECKLE_GFP_MOVABLE ? 1 : gfp & DECKLE_GFP_RECLAIMABLE ? 2 : 0;
}

static uint32_t request_flags(struct replay_plan *p, const struct trace_event *e)
{
    const uint32_t zones = DECKLE_GFP_DMA | DECKLE_GFP_DMA32;
    uint32_t gfp = e->gfp & DECKLE_GFP_ALL;
    const char *why;

    p->counts.unknown_bits += gfp != e->gfp;
    p->counts.zone_bits += (gfp & zones) != 0;
    p->counts.type_differs += type_of(gfp) != e->migratetype;
    gfp &= ~zones;
    if (!p->keep_zero)
        gfp &= ~DECKLE_GFP_ZERO;
    why = deckle_gfp_reason(gfp, e->order, DECKLE_MAX_ORDER_LIMIT);
    if (why != NULL && p->counts.illegal++ == 0) {
        p->counts.illegal_why = why;
        p->counts.illegal_line = p->line;
    }
    return gfp;
}

/* Frees whatever is live of the frames of an allocation. */
static bool free_lost(struct replay_plan *p, const struct trace_event *e, uint64_t pfn)
{
    for (uint64_t end = pfn + (UINT64_C(1) << e->order); pfn < end; pfn++) {
        struct frame *f = frame_of(p, pfn);

        if (f == NULL)
            return false;
        if (f->slot != 0 &&
            !add_free(p, e, f->slot, pfn & ~((UINT64_C(1) << f->unit) - 1), f->unit, REPLAY_LOST))
            return false;
    }
    return true;
}

static bool plan_alloc(struct replay_plan *p, const struct trace_event *e, uint64_t pfn)
{
    struct replay_op op = {.cpu = (uint16_t)e->cpu, .kind = REPLAY_ALLOC, .order = e->order};

    if (!free_lost(p, e, pfn))
        return false;
    op.gfp = request_flags(p, e);
    op.slot = add_slot(p, pfn, e->order, e->cpu, false);
    p->slots[op.slot].op = p->nr_ops;
    if (op.slot == 0 || !add_op(p, &op) || !mark(p, pfn, e->order, op.slot, e->order))
        return false;
    p->allocated += UINT64_C(1) << e->order;
    p->live += UINT64_C(1) << e->order;
    note_peak(p);
    return true;
}

/* The largest block of frames that are not live, from pfn on and before end. 0: memory ran out. */
static unsigned int dead_order(struct replay_plan *p, uint64_t pfn, uint64_t end, bool *failed)
{
    unsigned int order = 0;

    for (uint64_t next = pfn + 1; order < TRACE_MAX_ORDER && (pfn >> order & 1) == 0; order++)
        for (; next < pfn + (UINT64_C(2) << order); next++) {
            const struct frame *f = next < end ? frame_of(p, next) : NULL;

            *failed |= f == NULL && next < end;
            if (f == NULL || f->slot != 0)
                return order;
        }
    return order;
}

static bool free_each(struct replay_plan *p, const struct trace_event *e, uint64_t pfn)
{
    uint64_t end = pfn + (UINT64_C(1) << e->order), first = pfn;
    bool failed = false;

    while (pfn < end) {
        const struct frame *f = frame_of(p, pfn);
        unsigned int order, flags;
        uint32_t slot;

        if (f == NULL)
            return false;
        slot = f->slot;
        order = slot != 0 ? f->unit : dead_order(p, pfn, end, &failed);
        if (slot == 0)
            slot = add_slot(p, pfn, order, e->cpu, true);
        flags = pfn > first || order < e->order ? REPLAY_SEVERAL : 0;
        if (failed || slot == 0 || !add_free(p, e, slot, pfn, order, flags))
            return false;
        pfn += UINT64_C(1) << order;
    }
    return true;
}

static bool plan_free(struct replay_plan *p, const struct trace_event *e, uint64_t pfn)
{
    const struct frame *f = frame_of(p, pfn);
    uint32_t slot;

    if (f == NULL)
        return false;
    slot = f->slot;
    if (slot == 0 || f->unit < e->order)
        return free_each(p, e, pfn);
    if (f->unit > e->order && !add_split(p, e, slot, pfn, f->unit))
        return false;
    return add_free(p, e, slot, pfn, e->order, 0);
}

bool replay_plan_event(struct replay_plan *p, const struct trace_event *e, const char **why)
{
    uint32_t began = p->nr_ops;
    uint64_t pfn = e->pfn & ~((UINT64_C(1) << e->order) - 1);
    bool done = true;

    if (!trace_changes_state(e->type))
        return true;
    p->line = e->line < UINT32_MAX ? (uint32_t)e->line : UINT32_MAX;
    p->counts.events++;
    p->counts.misplaced += pfn != e->pfn;
    done = e->type == TRACE_ALLOC ? plan_alloc(p, e, pfn) : plan_free(p, e, pfn);
    if (done)
        p->ops[began].first = true;
    else if (p->nr_ops == REPLAY_MAX_OPS)
        *why = "more than 2^30 operations";
    else if (p->frames->nr == REPLAY_MAX_FRAMES / CHUNK)
        *why = "blocks in more than 1 TiB of memory";
    else
        *why = "not enough memory for its events";
    return done;
}

/* --- life ------------------------------------------------------------------------------------ */

bool replay_plan_init(struct replay_plan *p, bool keep_zero)
{
    memset(p, 0, sizeof(*p));
    p->keep_zero = keep_zero;
    p->frames = calloc(1, sizeof(*p->frames));
    if (p->frames == NULL)
        return false;
    p->room_slots = 4096;
    p->nr_slots = 1;
    p->slots = calloc(p->room_slots, sizeof(*p->slots));
    return p->slots != NULL;
}

static int by_size_then_frame(const void *a, const void *b)
{
    const struct replay_adopted *x = a, *y = b;

    if (x->order != y->order)
        return x->order > y->order ? -1 : 1;
    return x->base < y->base ? -1 : x->base > y->base;
}

static bool list_adopted(struct replay_plan *p)
{
    p->adopted = malloc((p->counts.adopted_blocks + 1) * sizeof(*p->adopted));
    if (p->adopted == NULL)
        return false;
    for (uint32_t s = 1; s < p->nr_slots; s++)
        if (p->slots[s].adopted)
            p->adopted[p->nr_adopted++] =
                (struct replay_adopted){p->slots[s].base, s, p->slots[s].order};
    qsort(p->adopted, p->nr_adopted, sizeof(*p->adopted), by_size_then_frame);
    return true;
}

static bool list_columns(struct replay_plan *p)
{
    uint32_t *of_cpu = calloc(TRACE_MAX_CPUS, sizeof(*of_cpu));

    p->columns = calloc(TRACE_MAX_CPUS, sizeof(*p->columns));
    if (of_cpu == NULL || p->columns == NULL) {
        free(of_cpu);
        return false;
    }
    for (uint32_t i = 0; i < p->nr_ops; i++)
        of_cpu[p->ops[i].cpu]++;
    for (uint32_t cpu = 0; cpu < TRACE_MAX_CPUS; cpu++) {
        struct replay_column *c = &p->columns[p->nr_columns];

        if (of_cpu[cpu] == 0)
            continue;
        c->cpu = cpu;
        c->index = malloc(of_cpu[cpu] * sizeof(*c->index));
        if (c->index == NULL) {
            free(of_cpu);
            return false;
        }
        of_cpu[cpu] = p->nr_columns++;
    }
    for (uint32_t i = 0; i < p->nr_ops; i++) {
        struct replay_op *op = &p->ops[i];
        struct replay_column *c = &p->columns[of_cpu[op->cpu]];

        op->thread = (uint16_t)of_cpu[op->cpu];
        c->index[c->nr++] = i;
    }
    free(of_cpu);
    return true;
}

static void free_frames(struct replay_plan *p)
{
    if (p->frames == NULL)
        return;
    for (size_t i = 0; i < p->frames->room; i++)
        free(p->frames->at[i]);
    free(p->frames->at);
    free(p->frames);
    p->frames = NULL;
}

bool replay_plan_finish(struct replay_plan *p)
{
    free_frames(p);
    p->counts.peak_frames = (uint64_t)((int64_t)p->counts.adopted_frames + p->least_adopted_peak);
    if (p->max_order > DECKLE_MAX_ORDER_LIMIT)
        p->max_order = DECKLE_MAX_ORDER_LIMIT;
    return list_adopted(p) && list_columns(p);
}

void replay_plan_free(struct replay_plan *p)
{
    free_frames(p);
    for (uint32_t c = 0; c < p->nr_columns; c++)
        free(p->columns[c].index);
    free(p->columns);
    free(p->adopted);
    free(p->slots);
    free(p->ops);
    memset(p, 0, sizeof(*p));
}
