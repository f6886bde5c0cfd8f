/* SPDX-License-Identifier: MIT */
/* See checker.h. Records are in order of discovery; the table of hashes holds their numbers. */
#include "checker.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct record {
    uint64_t hash[2];
    uint32_t parent;
    uint8_t mover, choice;
};

/* States waiting for their turn, in two generations. */
struct queue {
    unsigned char *bytes;
    size_t count, room;
};

static struct {
    const struct model *m;
    struct record *records;
    uint32_t count, room;
    uint32_t *table; /* record + 1 */
    uint32_t table_size;
    struct queue now, next;
    uint32_t *edges; /* for each record in turn: number of successors, then the successors */
    size_t edge_count, edge_room;
    struct outcome *out;
    unsigned choice, choices;
    struct record last; /* the step that was forbidden, or led to what is */
    bool talk, forbidden;
} x;

static void *grow(void *p, size_t count, size_t size)
{
    void *q = realloc(p, count * size);
    if (!q) {
        fprintf(stderr, "model: out of memory for %zu bytes\n", count * size);
        exit(2);
    }
    return q;
}

unsigned model_choose(unsigned n)
{
    x.choices = n ? n : 1;
    return x.choice < x.choices ? x.choice : 0;
}

void model_forbid(const char *format, ...)
{
    va_list args;
    if (x.forbidden)
        return;
    x.forbidden = true;
    va_start(args, format);
    vsnprintf(x.out->message, sizeof x.out->message, format, args);
    va_end(args);
}

void model_say(const char *format, ...)
{
    va_list args;
    if (!x.talk)
        return;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("; ");
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= 0xd6e8feb86659fd93u;
    h ^= h >> 29;
    return h;
}

static void hash_state(const unsigned char *p, size_t n, uint64_t h[2])
{
    h[0] = 0x9e3779b97f4a7c15u;
    h[1] = 0xc2b2ae3d27d4eb4fu;
    while (n) {
        uint64_t v = 0;
        size_t k = n < 8 ? n : 8;
        memcpy(&v, p, k);
        h[0] = (h[0] ^ v) * 0x9fb21c651e98df25u;
        h[0] ^= h[0] >> 35;
        h[1] = (h[1] + v) * 0xa0761d6478bd642fu;
        h[1] ^= h[1] >> 31;
        p += k;
        n -= k;
    }
    h[0] = mix(h[0]);
    h[1] = mix(h[1]);
}

static void enlarge_table(void)
{
    x.table_size = x.table_size ? 2 * x.table_size : 1u << 12;
    free(x.table);
    x.table = grow(NULL, x.table_size, sizeof *x.table);
    memset(x.table, 0, x.table_size * sizeof *x.table);
    for (uint32_t i = 0; i < x.count; i++) {
        uint32_t at = (uint32_t)x.records[i].hash[0] & (x.table_size - 1);
        while (x.table[at])
            at = (at + 1) & (x.table_size - 1);
        x.table[at] = i + 1;
    }
}

/* The record of this state; *fresh when it was not known. */
static uint32_t intern(const void *state, uint32_t parent, unsigned mover, bool *fresh)
{
    uint64_t h[2];
    hash_state(state, x.m->size, h);
    if (2 * (uint64_t)x.count >= x.table_size)
        enlarge_table();
    uint32_t at = (uint32_t)h[0] & (x.table_size - 1);
    for (; x.table[at]; at = (at + 1) & (x.table_size - 1)) {
        const struct record *r = &x.records[x.table[at] - 1];
        if (r->hash[0] == h[0] && r->hash[1] == h[1]) {
            *fresh = false;
            return x.table[at] - 1;
        }
    }
    if (x.count == x.room) {
        x.room = x.room ? 2 * x.room : 1u << 12;
        x.records = grow(x.records, x.room, sizeof *x.records);
    }
    x.records[x.count] = (struct record){{h[0], h[1]}, parent, (uint8_t)mover, (uint8_t)x.choice};
    x.table[at] = x.count + 1;
    *fresh = true;
    return x.count++;
}

static void enqueue(struct queue *q, const void *state)
{
    if (q->count == q->room) {
        q->room = q->room ? 2 * q->room : 256;
        q->bytes = grow(q->bytes, q->room, x.m->size);
    }
    memcpy(q->bytes + q->count++ * x.m->size, state, x.m->size);
}

static void add_edge(uint32_t v)
{
    if (x.edge_count == x.edge_room) {
        x.edge_room = x.edge_room ? 2 * x.edge_room : 1u << 14;
        x.edges = grow(x.edges, x.edge_room, sizeof *x.edges);
    }
    x.edges[x.edge_count++] = v;
}

static void examine(const void *state, unsigned last)
{
    if (!x.forbidden)
        x.m->check(state);
    if (!x.forbidden && x.m->alone)
        x.m->alone(state, last);
}

/* All successors of one state; false when one of them is forbidden. */
static bool expand(uint32_t number, const void *state, void *scratch)
{
    size_t head = x.edge_count;
    if (x.m->acyclic)
        add_edge(0);
    for (unsigned mover = 0; mover < x.m->movers; mover++) {
        x.choice = 0;
        do {
            bool fresh;
            memcpy(scratch, state, x.m->size);
            x.choices = 1;
            if (!x.m->step(scratch, mover))
                break;
            x.out->steps++;
            unsigned choices = x.choices;
            uint32_t to = intern(scratch, number, mover, &fresh);
            if (x.m->acyclic) {
                add_edge(to);
                x.edges[head]++;
            }
            if (fresh) {
                unsigned first_choice = x.choice;
                x.choice = 0;
                examine(scratch, first_choice ? x.m->movers : mover);
                x.choice = first_choice;
                enqueue(&x.next, scratch);
            }
            if (x.forbidden) {
                x.last = (struct record){{0, 0}, number, (uint8_t)mover, (uint8_t)x.choice};
                x.out->depth++;
                return false;
            }
            x.choices = choices;
        } while (++x.choice < x.choices);
    }
    return true;
}

/* Kahn: remove states without predecessors until none is left; what stays is on or behind a cycle.
 */
static void look_for_cycle(void)
{
    uint32_t *in = grow(NULL, x.count, sizeof *in), *todo = grow(NULL, x.count, sizeof *todo);
    size_t *at = grow(NULL, x.count, sizeof *at);
    uint32_t head = 0, tail = 0;
    memset(in, 0, x.count * sizeof *in);
    size_t e = 0;
    for (uint32_t i = 0; i < x.count; i++) {
        at[i] = e;
        for (uint32_t k = 1; k <= x.edges[e]; k++)
            in[x.edges[e + k]]++;
        e += x.edges[e] + 1;
    }
    for (uint32_t i = 0; i < x.count; i++)
        if (!in[i])
            todo[tail++] = i;
    while (head < tail) {
        size_t list = at[todo[head++]];
        for (uint32_t k = 1; k <= x.edges[list]; k++)
            if (!--in[x.edges[list + k]])
                todo[tail++] = x.edges[list + k];
    }
    if (tail < x.count)
        model_forbid("a cycle: %u states can be repeated without end", x.count - tail);
    free(in);
    free(todo);
    free(at);
}

static void print_step(unsigned char *state, const struct record *r)
{
    x.choice = r->choice;
    printf("  %u: ", r->mover);
    x.m->step(state, r->mover);
    printf("\n");
    x.m->print(state);
}

static void print_trace(void)
{
    uint32_t *path = grow(NULL, x.out->depth + 1, sizeof *path), n = 0;
    unsigned char *state = grow(NULL, 1, x.m->size);
    for (uint32_t i = x.last.parent; i; i = x.records[i].parent)
        path[n++] = i;
    x.m->init(state);
    x.m->print(state);
    x.talk = true;
    while (n--)
        print_step(state, &x.records[path[n]]);
    if (x.out->depth)
        print_step(state, &x.last);
    x.talk = false;
    printf("  forbidden: %s\n", x.out->message);
    free(path);
    free(state);
}

static void explore(unsigned char *state, unsigned char *scratch)
{
    bool fresh;
    uint32_t number = 0;
    x.m->init(state);
    intern(state, 0, 0, &fresh);
    examine(state, x.m->movers);
    enqueue(&x.next, state);
    while (!x.forbidden && x.next.count) {
        struct queue done = x.now;
        x.now = x.next;
        x.next = done;
        x.next.count = 0;
        for (size_t i = 0; i < x.now.count; i++) {
            memcpy(state, x.now.bytes + i * x.m->size, x.m->size);
            if (!expand(number++, state, scratch))
                return;
            if (x.count > x.m->limit) {
                x.out->full = true;
                return;
            }
        }
        x.out->depth += x.next.count != 0;
    }
}

void model_explore(const struct model *m, struct outcome *out, bool trace)
{
    unsigned char *state = grow(NULL, 1, m->size), *scratch = grow(NULL, 1, m->size);
    memset(out, 0, sizeof *out);
    memset(&x, 0, sizeof x);
    x.m = m;
    x.out = out;
    explore(state, scratch);
    out->states = x.count;
    if (x.forbidden && trace)
        print_trace();
    if (!x.forbidden && !out->full && m->acyclic)
        look_for_cycle();
    out->found = x.forbidden;
    free(state);
    free(scratch);
    free(x.records);
    free(x.table);
    free(x.now.bytes);
    free(x.next.bytes);
    free(x.edges);
}
