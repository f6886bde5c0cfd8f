/* SPDX-License-Identifier: MIT */
/*
 * Who acts in test_kill.c, on one shared pool, and what they can do: clients that are coroutines
 * and can be left before any access to shared memory. Only that file includes it.
 */
#ifndef DECKLE_TESTS_INTERLEAVE_VICTIMS_H
#define DECKLE_TESTS_INTERLEAVE_VICTIMS_H

#include "point.h"

#include "base/rseq.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ucontext.h>
#include <cmocka.h>

#include "shared_pool.h"
#include "testing.h"

#define BLOCKS   8u
#define FRAMES   (BLOCKS * 512u)
#define ACTORS   5u
#define MOST_GOT 96u
#define NEVER    UINT64_MAX

enum who { A, B, L, R, Q };

struct block {
    uint64_t pfn;
    unsigned order;
};

struct actor {
    ucontext_t context;
    unsigned char *stack;
    void (*op)(struct actor *);
    bool finished;
    uint64_t points, stop_at;
    uint64_t steps; /* accesses of the longest call */
    struct block held[MOST_GOT];
    unsigned nr_held;
    int result;
    bool failed;
};

static struct shared_pool shared;
static struct actor actors[ACTORS], actors_at_start[ACTORS];
static unsigned char *snapshot, *handles;
static size_t handle_size;
static uint8_t owner[FRAMES], owner_at_start[FRAMES]; /* actor + 1, 0 = free */
static struct actor *running;
static ucontext_t scheduler;
static uint64_t random_state;
static bool shuffle;
static const char *fault;
static char message[500];

/* ---- running --------------------------------------------------------------------------------- */

void dk_test_point(const volatile void *address, int kind)
{
    struct actor *a = running;
    (void)address, (void)kind;
    if (!a)
        return;
    bool leave = shuffle ? !test_random_below(&random_state, 10) : a->points == a->stop_at;
    a->points++;
    if (leave)
        swapcontext(&a->context, &scheduler);
}

/* Shared pools have no stacks; the core has them all the same, except on 32-bit machines. */
uint32_t dk_sim_rseq_begin(void);
void dk_sim_rseq_end(void);
bool dk_sim_rseq_commit(dk_aword *head, dk_word value);
uint32_t dk_sim_cpu_id(void);

uint32_t dk_sim_rseq_begin(void)
{
    return 0;
}
void dk_sim_rseq_end(void)
{
}
bool dk_sim_rseq_commit(dk_aword *head, dk_word value)
{
    (void)head, (void)value;
    return false;
}
uint32_t dk_sim_cpu_id(void)
{
    return 0;
}

static unsigned index_of(const struct actor *a)
{
    return (unsigned)(a - actors);
}
static struct deckle *handle_of(const struct actor *a)
{
    return shared.client[index_of(a)].d;
}
static uint32_t number_of(enum who who)
{
    return shared.client[who].number;
}

static void play(void)
{
    struct actor *a = running;
    a->op(a);
    a->finished = true;
    swapcontext(&a->context, &scheduler);
}

static void begin(enum who who, void (*op)(struct actor *), uint64_t stop_at)
{
    struct actor *a = &actors[who];
    a->op = op;
    a->finished = false;
    a->points = 0;
    a->stop_at = stop_at;
    getcontext(&a->context);
    a->context.uc_stack.ss_sp = a->stack;
    a->context.uc_stack.ss_size = 256 * 1024;
    a->context.uc_link = NULL;
    makecontext(&a->context, play, 0);
}

static void go(enum who who)
{
    running = &actors[who];
    swapcontext(&scheduler, &actors[who].context);
    running = NULL;
}

static void run(enum who who, void (*op)(struct actor *))
{
    begin(who, op, NEVER);
    go(who);
}

/* ---- operations ------------------------------------------------------------------------------ */

static void complain_of(const char *what, uint64_t pfn)
{
    if (!fault)
        snprintf(message, sizeof(message), "%s (pfn %llu)", what, (unsigned long long)pfn);
    fault = message;
}

static void own(struct actor *a, int64_t pfn, unsigned order)
{
    a->failed = pfn < 0;
    if (pfn < 0)
        return;
    if ((uint64_t)pfn + (1ull << order) > FRAMES || a->nr_held == MOST_GOT) {
        complain_of("no such frame", (uint64_t)pfn);
        return;
    }
    for (uint64_t p = (uint64_t)pfn; p < (uint64_t)pfn + (1ull << order); p++) {
        if (owner[p])
            complain_of("a frame with two owners", p);
        owner[p] = (uint8_t)(index_of(a) + 1);
    }
    a->held[a->nr_held++] = (struct block){(uint64_t)pfn, order};
}

static void give(struct actor *a, unsigned i)
{
    struct block b = a->held[i];
    a->held[i] = a->held[--a->nr_held];
    memset(owner + b.pfn, 0, 1ull << b.order);
    if (deckle_free(handle_of(a), b.pfn, b.order))
        complain_of("a free was refused", b.pfn);
}

#define GFP_U DECKLE_GFP_KERNEL
#define GFP_M DECKLE_GFP_HIGHUSER_MOVABLE

static void take(struct actor *a, uint32_t gfp, unsigned order)
{
    own(a, deckle_alloc(handle_of(a), gfp, order), order);
}
static void take_past(struct actor *a, uint32_t gfp, unsigned order)
{
    struct deckle_request r = {
        .size = sizeof(r), .gfp = gfp, .order = order, .flags = DECKLE_REQ_NO_CACHE};
    own(a, deckle_alloc_request(handle_of(a), &r), order);
}

static void take0(struct actor *a)
{
    take(a, GFP_U, 0);
}
static void take0m(struct actor *a)
{
    take(a, GFP_M, 0);
}
static void take3(struct actor *a)
{
    take(a, GFP_U, 3);
}
static void take0_past(struct actor *a)
{
    take_past(a, GFP_M, 0);
}
static void take1_past(struct actor *a)
{
    take_past(a, GFP_U, 1);
}
static void take7(struct actor *a)
{
    take_past(a, GFP_M, 7);
}
static void take8(struct actor *a)
{
    take_past(a, GFP_U, 8);
}
static void take9(struct actor *a)
{
    take(a, GFP_M, 9);
}
static void take9_past(struct actor *a)
{
    take_past(a, GFP_U, 9);
}
static void take10(struct actor *a)
{
    take(a, GFP_U, 10);
}
static void take11(struct actor *a)
{
    take(a, GFP_M, 11);
}

static void give_first(struct actor *a)
{
    if (a->nr_held)
        give(a, 0);
}
static void give_all(struct actor *a)
{
    while (a->nr_held)
        give(a, a->nr_held - 1);
}
static void drain(struct actor *a)
{
    deckle_drain_all(handle_of(a));
}
static void give_drain(struct actor *a)
{
    give_all(a);
    drain(a);
}

static void bulk(struct actor *a)
{
    uint64_t pfns[20];
    memset(pfns, 0xff, sizeof(pfns));
    int64_t n = deckle_alloc_bulk(handle_of(a), GFP_M, pfns, 20);
    for (int64_t i = 0; i < n; i++)
        own(a, (int64_t)pfns[i], 0);
}

static void give_bulk(struct actor *a)
{
    uint64_t pfns[MOST_GOT];
    unsigned n = 0;
    for (unsigned i = 0; i < a->nr_held;) {
        if (a->held[i].order) {
            i++;
            continue;
        }
        pfns[n++] = a->held[i].pfn;
        owner[a->held[i].pfn] = 0;
        a->held[i] = a->held[--a->nr_held];
    }
    if (deckle_free_bulk(handle_of(a), pfns, n) != n)
        complain_of("a bulk free was refused", pfns[0]);
}

/* The CPU leaves the block that it works in, which has frames left. */
static void change_blocks(struct actor *a)
{
    take8(a);
    take7(a);
    take8(a);
}

static void exact(struct actor *a)
{
    int64_t pfn = deckle_alloc_exact(handle_of(a), GFP_U, 5);
    own(a, pfn, 2);
    if (pfn >= 0)
        own(a, pfn + 4, 0);
}
static void exact_large(struct actor *a)
{
    int64_t pfn = deckle_alloc_exact(handle_of(a), GFP_U, 515);
    own(a, pfn, 9);
    if (pfn < 0)
        return;
    own(a, pfn + 512, 1);
    own(a, pfn + 514, 0);
}
static void contig(struct actor *a)
{
    int64_t pfn = deckle_alloc_contig(handle_of(a), GFP_M, 6, 2, 0, 0);
    own(a, pfn, 1);
    if (pfn < 0)
        return;
    if (pfn & 2) {
        own(a, pfn + 2, 2);
    } else {
        a->held[a->nr_held - 1].order = 2;
        memset(owner + pfn + 2, (int)(index_of(a) + 1), 2);
        own(a, pfn + 4, 1);
    }
}
static void at_two(struct actor *a)
{
    if (deckle_alloc_at(handle_of(a), GFP_U, 2, 1) == DECKLE_OK)
        own(a, 2, 1);
}

/* Divide the first block that is large enough. */
static void divide(struct actor *a, unsigned by)
{
    for (unsigned i = 0; i < a->nr_held; i++) {
        struct block b = a->held[i];
        if (b.order < by || a->nr_held + (1u << by) > MOST_GOT)
            continue;
        if (deckle_split(handle_of(a), b.pfn, b.order, b.order - by))
            complain_of("a division was refused", b.pfn);
        a->held[i] = a->held[--a->nr_held];
        for (unsigned k = 0; k < 1u << by; k++)
            a->held[a->nr_held++] =
                (struct block){b.pfn + k * (1ull << (b.order - by)), b.order - by};
        return;
    }
}
static void split(struct actor *a)
{
    divide(a, 3);
}
static void split_ten(struct actor *a)
{
    take_past(a, GFP_U, 10);
    divide(a, 4);
}

static void isolate(struct actor *a)
{
    deckle_set_pageblock_type(handle_of(a), 0, DECKLE_ISOLATE);
    deckle_set_pageblock_type(handle_of(a), 0, DECKLE_MOVABLE);
}
static void retype(struct actor *a)
{
    deckle_set_pageblock_type(handle_of(a), 0, DECKLE_CMA);
    deckle_set_pageblock_type(handle_of(a), 0, DECKLE_MOVABLE);
    deckle_set_pageblock_type(handle_of(a), 3584, DECKLE_RECLAIMABLE);
    deckle_set_pageblock_type(handle_of(a), 3584, DECKLE_MOVABLE);
}

/* To L, who takes it for its own when the call says so. */
static void transfer(struct actor *a)
{
    if (!a->nr_held)
        return;
    struct block b = a->held[a->nr_held - 1];
    a->result = deckle_transfer(handle_of(a), b.pfn, b.order, number_of(L));
    if (a->result) {
        complain_of("a transfer was refused", b.pfn);
        return;
    }
    a->nr_held--;
    memset(owner + b.pfn, L + 1, 1ull << b.order);
    actors[L].held[actors[L].nr_held++] = b;
}

static void leave(struct actor *a)
{
    for (unsigned i = 0; i < a->nr_held; i++)
        memset(owner + a->held[i].pfn, 0, 1ull << a->held[i].order);
    a->nr_held = 0;
    int64_t n = deckle_detach(handle_of(a));
    if (n < 0)
        complain_of("a client could not leave", 0);
}

#define NAMED(op)                                                                                  \
    {                                                                                              \
#op, op                                                                                    \
    }
static const struct named_op {
    const char *name;
    void (*fn)(struct actor *);
} ops[] = {NAMED(take0),         NAMED(take0m),      NAMED(take3),     NAMED(take0_past),
           NAMED(take1_past),    NAMED(take7),       NAMED(take8),     NAMED(take9),
           NAMED(take9_past),    NAMED(take10),      NAMED(take11),    NAMED(bulk),
           NAMED(exact),         NAMED(exact_large), NAMED(contig),    NAMED(at_two),
           NAMED(change_blocks), NAMED(split),       NAMED(split_ten), NAMED(give_first),
           NAMED(give_all),      NAMED(give_bulk),   NAMED(drain),     NAMED(give_drain),
           NAMED(transfer),      NAMED(leave),       NAMED(isolate),   NAMED(retype)};
#define NR_OPS    (sizeof(ops) / sizeof(ops[0]))
#define DRAIN     22u /* its place */
#define NR_COMMON 25u /* what anybody may do at any time */

#endif
