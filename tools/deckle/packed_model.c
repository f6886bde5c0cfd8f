/* SPDX-License-Identifier: MIT */
/*
 * The model; see packed_model.h. Three structures:
 *   blocks  open addressing over pfns: is the block live (then: allocation number) or free (then: a
 *           stamp that only the newest free of this pfn has), and its last migratetype
 *   stacks  per CPU, order and migratetype: {pfn, stamp}; an entry holds as long as the stamp is
 * the block's. Stale ones go when they reach the top or when a full stack is tidied, so a stack is
 * at most twice as large as the number of blocks that are really on it window  ring of the last
 * allocations' pfns by number
 */
#include "packed_model.h"

#include <stdlib.h>
#include <string.h>

#define NR_MIGRATETYPES (TRACE_MAX_MIGRATETYPE + 1u)
#define MOVABLE         1u /* what a block that was never allocated here probably is */

struct block {
    uint64_t pfn_1; /* pfn + 1, 0 = empty slot */
    uint64_t mark;  /* allocation number if live, stamp if free */
    uint8_t migratetype;
    bool live;
};

struct entry {
    uint64_t pfn, stamp;
};

struct stack {
    struct entry *at;
    size_t nr, room;
};

struct cpu {
    struct stack stacks[TRACE_NR_ORDERS][NR_MIGRATETYPES];
    uint64_t next_alloc[TRACE_NR_ORDERS];
    uint64_t next_number;
    uint64_t next_free;
};

struct packed_model {
    struct cpu *cpus[TRACE_MAX_CPUS];
    struct block *blocks;
    size_t nr_blocks, room_blocks; /* room is a power of two */
    uint64_t *window;
    size_t room_window; /* a power of two up to PACKED_WINDOW */
    uint64_t allocs, frees;
    uint64_t memory, max_memory;
    bool failed;
};

/* realloc that counts; NULL and failed beyond the limit. */
static void *resize(struct packed_model *m, void *old, size_t old_nr, size_t nr, size_t size)
{
    uint64_t more = (uint64_t)(nr - old_nr) * size;
    void *grown = NULL;

    if (more <= m->max_memory && m->memory <= m->max_memory - more)
        grown = realloc(old, nr * size);
    if (grown == NULL) {
        m->failed = true;
        return NULL;
    }
    m->memory += more;
    return grown;
}

struct packed_model *packed_model_new(uint64_t max_memory)
{
    struct packed_model *m = calloc(1, sizeof(*m));

    if (m != NULL)
        m->max_memory = max_memory;
    return m;
}

void packed_model_free(struct packed_model *m)
{
    if (m == NULL)
        return;
    for (unsigned int c = 0; c < TRACE_MAX_CPUS; c++) {
        if (m->cpus[c] == NULL)
            continue;
        for (unsigned int order = 0; order < TRACE_NR_ORDERS; order++)
            for (unsigned int type = 0; type < NR_MIGRATETYPES; type++)
                free(m->cpus[c]->stacks[order][type].at);
        free(m->cpus[c]);
    }
    free(m->blocks);
    free(m->window);
    free(m);
}

bool packed_model_failed(const struct packed_model *m)
{
    return m->failed;
}

static struct cpu *cpu_of(struct packed_model *m, uint32_t cpu)
{
    if (m->cpus[cpu] == NULL) {
        m->cpus[cpu] = resize(m, NULL, 0, 1, sizeof(struct cpu));
        if (m->cpus[cpu] != NULL)
            memset(m->cpus[cpu], 0, sizeof(struct cpu));
    }
    return m->cpus[cpu];
}

/* --- blocks ---------------------------------------------------------------------------------- */

static size_t slot_of(const struct block *blocks, size_t room, uint64_t pfn)
{
    size_t i = (size_t)((pfn * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (room - 1);

    while (blocks[i].pfn_1 != 0 && blocks[i].pfn_1 != pfn + 1)
        i = (i + 1) & (room - 1);
    return i;
}

static struct block *find(struct packed_model *m, uint64_t pfn)
{
    struct block *b;

    if (m->room_blocks == 0)
        return NULL;
    b = &m->blocks[slot_of(m->blocks, m->room_blocks, pfn)];
    return b->pfn_1 != 0 ? b : NULL;
}

static bool grow_blocks(struct packed_model *m)
{
    size_t room = m->room_blocks > 0 ? m->room_blocks * 2 : 1024;
    struct block *grown = resize(m, NULL, 0, room, sizeof(*grown));

    if (grown == NULL)
        return false;
    memset(grown, 0, room * sizeof(*grown));
    for (size_t i = 0; i < m->room_blocks; i++)
        if (m->blocks[i].pfn_1 != 0)
            grown[slot_of(grown, room, m->blocks[i].pfn_1 - 1)] = m->blocks[i];
    m->memory -= (uint64_t)m->room_blocks * sizeof(*grown);
    free(m->blocks);
    m->blocks = grown;
    m->room_blocks = room;
    return true;
}

static struct block *find_or_add(struct packed_model *m, uint64_t pfn)
{
    struct block *b = find(m, pfn);

    if (b != NULL)
        return b;
    if (m->nr_blocks >= m->room_blocks / 4 * 3 && !grow_blocks(m))
        return NULL;
    b = &m->blocks[slot_of(m->blocks, m->room_blocks, pfn)];
    b->pfn_1 = pfn + 1;
    b->migratetype = MOVABLE;
    m->nr_blocks++;
    return b;
}

/* --- stacks ---------------------------------------------------------------------------------- */

static bool holds(struct packed_model *m, const struct entry *e)
{
    const struct block *b = find(m, e->pfn);

    return b != NULL && !b->live && b->mark == e->stamp;
}

static bool push(struct packed_model *m, struct stack *s, uint64_t pfn, uint64_t stamp)
{
    if (s->nr == s->room) {
        size_t kept = 0;

        for (size_t i = 0; i < s->nr; i++)
            if (holds(m, &s->at[i]))
                s->at[kept++] = s->at[i];
        s->nr = kept;
        if (kept >= s->room / 2) {
            size_t room = s->room > 0 ? s->room * 2 : 16;
            struct entry *grown = resize(m, s->at, s->room, room, sizeof(*grown));

            if (grown == NULL)
                return false;
            s->at = grown;
            s->room = room;
        }
    }
    s->at[s->nr++] = (struct entry){pfn, stamp};
    return true;
}

bool packed_model_guess(struct packed_model *m, uint32_t cpu, uint8_t order, uint8_t migratetype,
                        uint64_t *pfn)
{
    struct cpu *c = cpu_of(m, cpu);
    struct stack *s;

    if (c == NULL)
        return false;
    s = &c->stacks[order][migratetype];
    while (s->nr > 0 && !holds(m, &s->at[s->nr - 1]))
        s->nr--;
    if (s->nr == 0)
        return false;
    *pfn = s->at[s->nr - 1].pfn;
    return true;
}

/* --- numbers --------------------------------------------------------------------------------- */

static bool in_window(const struct packed_model *m, uint64_t number)
{
    return number < m->allocs && m->allocs - number <= PACKED_WINDOW;
}

bool packed_model_number(struct packed_model *m, uint64_t pfn, uint64_t *number)
{
    const struct block *b = find(m, pfn);

    if (b == NULL || !b->live || !in_window(m, b->mark))
        return false;
    *number = b->mark;
    return true;
}

bool packed_model_block(struct packed_model *m, uint64_t number, uint64_t *pfn)
{
    const struct block *b;

    if (!in_window(m, number))
        return false;
    *pfn = m->window[number & (m->room_window - 1)];
    b = find(m, *pfn);
    return b != NULL && b->live && b->mark == number;
}

/* While the ring grows, nothing has been overwritten: numbers are below its size. */
static bool remember(struct packed_model *m, uint64_t pfn)
{
    if (m->allocs == m->room_window && m->room_window < PACKED_WINDOW) {
        size_t room = m->room_window > 0 ? m->room_window * 2 : 1024;
        uint64_t *grown = resize(m, m->window, m->room_window, room, sizeof(*grown));

        if (grown == NULL)
            return false;
        m->window = grown;
        m->room_window = room;
    }
    m->window[m->allocs & (m->room_window - 1)] = pfn;
    return true;
}

uint64_t packed_model_next_alloc(struct packed_model *m, uint32_t cpu, uint8_t order)
{
    struct cpu *c = cpu_of(m, cpu);

    return c != NULL ? c->next_alloc[order] : 0;
}

uint64_t packed_model_next_number(struct packed_model *m, uint32_t cpu)
{
    struct cpu *c = cpu_of(m, cpu);

    return c != NULL ? c->next_number : 0;
}

uint64_t packed_model_next_free(struct packed_model *m, uint32_t cpu)
{
    struct cpu *c = cpu_of(m, cpu);

    return c != NULL ? c->next_free : 0;
}

/* --- events ---------------------------------------------------------------------------------- */

bool packed_model_alloc(struct packed_model *m, uint32_t cpu, uint8_t order, uint8_t migratetype,
                        uint64_t pfn)
{
    struct cpu *c = cpu_of(m, cpu);
    struct block *b = find_or_add(m, pfn);

    if (c == NULL || b == NULL || !remember(m, pfn))
        return false;
    b->live = true;
    b->mark = m->allocs++;
    b->migratetype = migratetype;
    c->next_alloc[order] = pfn + (UINT64_C(1) << order);
    return true;
}

bool packed_model_freed(struct packed_model *m, uint32_t cpu, uint8_t order, uint64_t pfn,
                        bool named, uint64_t number)
{
    struct cpu *c = cpu_of(m, cpu);
    struct block *b = find_or_add(m, pfn);

    if (c == NULL || b == NULL)
        return false;
    b->live = false;
    b->mark = m->frees++;
    if (named)
        c->next_number = number + 1;
    else
        c->next_free = pfn + 1;
    return push(m, &c->stacks[order][b->migratetype], pfn, b->mark);
}
