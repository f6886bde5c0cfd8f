/* SPDX-License-Identifier: MIT */
/*
 * Who acts in test_interleave.c, on what, and what they can do: coroutines that can be left before
 * any access to shared memory, the simulated restartable sequences, operations, scripts of them,
 * and the pools they find at first. Only that file includes it.
 */
#ifndef DECKLE_TESTS_INTERLEAVE_ACTORS_H
#define DECKLE_TESTS_INTERLEAVE_ACTORS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>

#include <deckle.h>

#include "point.h"

#include "base/rseq.h"
#include "testing.h"

#define MOST_FRAMES (40u * 512u)
#define ACTORS   3u
#define MOST_GOT 64u
#define NEVER    UINT64_MAX

/* ---- actors ---------------------------------------------------------------------------------- */

struct block {
    uint64_t pfn;
    unsigned order;
};

struct actor {
    ucontext_t context;
    unsigned char *stack;
    void (*const *script)(struct actor *); /* operations, NULL at the end */
    uint32_t cpu;
    bool finished;
    bool restarted;     /* its restartable sequence is dead */
    unsigned sequence;  /* accesses since a sequence began + 1, 0 = not in one */
    uint32_t *undo;     /* where a dead sequence has stored, and what was there */
    uint32_t undo_value;
    uint64_t points;    /* accesses so far */
    uint64_t stop_at;   /* leave it before this one */
    struct block held[MOST_GOT];
    unsigned nr_held;
    bool failed;        /* the last allocation failed */
    unsigned asked;     /* its order */
};

static struct actor actors[ACTORS];
static struct actor *running; /* NULL: the test itself */
static ucontext_t scheduler;
static struct deckle *pool;
static unsigned char *memory, *snapshot;
static size_t memory_size;
static uint32_t nr_frames;
static uint8_t owner[MOST_FRAMES];          /* actor + 1, BASE, 0 = free */
static uint8_t owner_at_start[MOST_FRAMES];
static unsigned faults, reports;
static uint64_t random_state;
static bool shuffle;
static bool cma_stays; /* somebody runs to_cma */

static void to_cma(struct actor *a);

#define BASE 100u /* owner: allocated before the actors began */

enum { LOAD, STORE }; /* kinds of accesses, as in base/atomic.h */

/*
 * A sequence that was restarted would not execute the stores to slots that still follow in its C
 * form: what they overwrite is put back before anybody else runs. A push loads twice, then stores.
 */
static void follow_sequence(struct actor *a, int kind)
{
    if (a->undo)
        *a->undo = a->undo_value;
    a->undo = NULL;
    if (a->sequence && (a->sequence++ <= 2) != (kind == LOAD))
        a->sequence = 0;
}

void dk_test_point(const volatile void *address, int kind)
{
    struct actor *a = running;
    if (!a)
        return;
    follow_sequence(a, kind);
    bool leave = shuffle ? !test_random_below(&random_state, 12) : a->points == a->stop_at;
    a->points++;
    if (leave)
        swapcontext(&a->context, &scheduler);
    if (a->sequence && a->restarted && kind == STORE) {
        a->undo = (uint32_t *)(uintptr_t)address;
        a->undo_value = *a->undo;
    }
}

/* For machines without sequences, where base/rseq.h does not declare them. */
uint32_t dk_sim_cpu_id(void);
uint32_t dk_sim_rseq_begin(void);
void dk_sim_rseq_end(void);
bool dk_sim_rseq_commit(dk_aword *head, dk_word value);

uint32_t dk_sim_cpu_id(void)
{
    return running ? running->cpu : 0;
}

uint32_t dk_sim_rseq_begin(void)
{
    if (running) {
        running->restarted = false;
        running->sequence = 1;
    }
    return dk_sim_cpu_id();
}

void dk_sim_rseq_end(void)
{
    if (running)
        running->sequence = 0;
}

bool dk_sim_rseq_commit(dk_aword *head, dk_word value)
{
    dk_test_point(head, STORE);
    dk_sim_rseq_end();
    if (running && running->restarted)
        return false;
    atomic_store(head, value);
    return true;
}

static uint32_t cpu_hook(void *ctx)
{
    (void)ctx;
    return dk_sim_cpu_id();
}

static int membarrier_hook(void *ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < ACTORS; i++)
        if (&actors[i] != running)
            actors[i].restarted = true;
    return 0;
}

static void bad_hook(void *ctx, const struct deckle_bad_report *r)
{
    (void)ctx;
    if (!reports++)
        printf("bad: %s pfn %llu order %u\n", deckle_bad_name(r->what), (unsigned long long)r->pfn,
               r->order);
}

/* makecontext passes ints; the actor is whoever runs. */
static void play_script(void)
{
    struct actor *a = running;
    for (unsigned i = 0; a->script[i]; i++)
        a->script[i](a);
    a->finished = true;
    swapcontext(&a->context, &scheduler);
}

static void actor_begin(unsigned i, void (*const *script)(struct actor *), uint32_t cpu)
{
    struct actor *a = &actors[i];
    cma_stays |= *script == to_cma;
    a->script = script;
    a->cpu = cpu;
    a->finished = a->restarted = a->failed = false;
    a->points = a->sequence = 0;
    a->undo = NULL;
    a->stop_at = NEVER;
    getcontext(&a->context);
    a->context.uc_stack.ss_sp = a->stack;
    a->context.uc_stack.ss_size = 256 * 1024;
    a->context.uc_link = NULL;
    makecontext(&a->context, play_script, 0);
}

/* Let the actor run until it stops; whoever else was in a sequence on its CPU is restarted. */
static void actor_run(unsigned i)
{
    for (unsigned j = 0; j < ACTORS; j++)
        if (j != i && actors[j].cpu == actors[i].cpu)
            actors[j].restarted = true;
    running = &actors[i];
    swapcontext(&scheduler, &actors[i].context);
    running = NULL;
}

/* ---- operations ------------------------------------------------------------------------------ */

static void own(struct actor *a, int64_t pfn, unsigned order)
{
    uint8_t me = (uint8_t)(a - actors + 1);
    a->failed = pfn < 0;
    a->asked = order;
    if (pfn < 0)
        return;
    if ((uint64_t)pfn + (1ull << order) > nr_frames || a->nr_held == MOST_GOT) {
        faults++;
        return;
    }
    for (uint64_t p = (uint64_t)pfn; p < (uint64_t)pfn + (1ull << order); p++) {
        if (owner[p] && !faults++)
            printf("frame %llu of the block of order %u given to %u belongs to %u\n",
                   (unsigned long long)p, order, me, owner[p]);
        owner[p] = me;
    }
    a->held[a->nr_held++] = (struct block){(uint64_t)pfn, order};
}

static void free_block(struct actor *a, unsigned i)
{
    struct block b = a->held[i];
    a->held[i] = a->held[--a->nr_held];
    memset(owner + b.pfn, 0, 1ull << b.order);
    if (deckle_free(pool, b.pfn, b.order) && !faults++)
        printf("free of %llu order %u refused\n", (unsigned long long)b.pfn, b.order);
}

static void take(struct actor *a, uint32_t gfp, unsigned order)
{
    own(a, deckle_alloc(pool, gfp, order), order);
}

static void take_past(struct actor *a, uint32_t gfp, unsigned order, uint64_t limit)
{
    struct deckle_request r = {.size = sizeof(r), .gfp = gfp, .order = order, .limit_pfn = limit,
                               .flags = DECKLE_REQ_NO_CACHE};
    own(a, deckle_alloc_request(pool, &r), order);
}

#define GFP_U DECKLE_GFP_KERNEL
#define GFP_M DECKLE_GFP_HIGHUSER_MOVABLE

static void take0(struct actor *a) { take(a, GFP_U, 0); }
static void take0m(struct actor *a) { take(a, GFP_M, 0); }
static void take0_shared(struct actor *a) { take_past(a, GFP_U, 0, 0); }
static void take1(struct actor *a) { take(a, GFP_U, 1); }
static void take0m_shared(struct actor *a) { take_past(a, GFP_M, 0, 0); }
static void take1_shared(struct actor *a) { take_past(a, GFP_M, 1, 0); }
static void take3(struct actor *a) { take(a, GFP_U, 3); }
static void take7(struct actor *a) { take_past(a, GFP_M, 7, 0); }
static void take8(struct actor *a) { take_past(a, GFP_U, 8, 0); }
static void take9(struct actor *a) { take(a, GFP_M, 9); }
static void take9_shared(struct actor *a) { take_past(a, GFP_U, 9, 0); }
static void take10(struct actor *a) { take_past(a, GFP_U, 10, 0); }
static void take11(struct actor *a) { take(a, GFP_M, 11); }
static void take_limit(struct actor *a) { take_past(a, GFP_U, 1, 700); }

static void give_first(struct actor *a)
{
    if (a->nr_held)
        free_block(a, 0);
}

static void give_last(struct actor *a)
{
    if (a->nr_held)
        free_block(a, a->nr_held - 1);
}

static void give_all(struct actor *a)
{
    while (a->nr_held)
        free_block(a, a->nr_held - 1);
}

static void drain(struct actor *a)
{
    (void)a;
    deckle_drain_all(pool);
}

static void bulk(struct actor *a)
{
    uint64_t pfns[6];
    memset(pfns, 0xff, sizeof(pfns));
    int64_t n = deckle_alloc_bulk(pool, GFP_M, pfns, 6);
    for (int64_t i = 0; i < n; i++)
        own(a, (int64_t)pfns[i], 0);
    a->failed = n <= 0;
    a->asked = 0;
}

static void exact(struct actor *a)
{
    int64_t pfn = deckle_alloc_exact(pool, GFP_U, 5);
    own(a, pfn, 2);
    if (pfn >= 0)
        own(a, pfn + 4, 0);
    a->asked = 3;
}

static void at_two(struct actor *a)
{
    if (deckle_alloc_at(pool, GFP_U, 2, 1) == DECKLE_OK)
        own(a, 2, 1);
}

static void at_half(struct actor *a)
{
    if (deckle_alloc_at(pool, GFP_U, 0, 8) == DECKLE_OK)
        own(a, 0, 8);
}

static void at_block(struct actor *a)
{
    if (deckle_alloc_at(pool, GFP_U, 0, 9) == DECKLE_OK)
        own(a, 0, 9);
}

/* Divide the first block that is large enough. */
static void split(struct actor *a)
{
    for (unsigned i = 0; i < a->nr_held; i++) {
        struct block b = a->held[i];
        if (b.order < 3 || a->nr_held + 8 > MOST_GOT)
            continue;
        if (deckle_split(pool, b.pfn, b.order, b.order - 3))
            faults++;
        a->held[i] = a->held[--a->nr_held];
        for (unsigned k = 0; k < 8; k++)
            a->held[a->nr_held++] =
                (struct block){b.pfn + k * (1ull << (b.order - 3)), b.order - 3};
        return;
    }
}

/* Set-up: one actor at most does it. */
static void isolate(struct actor *a)
{
    (void)a;
    deckle_set_pageblock_type(pool, 0, DECKLE_ISOLATE);
    deckle_set_pageblock_type(pool, 0, DECKLE_UNMOVABLE);
}

static void retype(struct actor *a)
{
    (void)a;
    deckle_set_pageblock_type(pool, 0, DECKLE_RECLAIMABLE);
    deckle_set_pageblock_type(pool, 0, DECKLE_MOVABLE);
}

/* Unlike the two above it stays: no request of another type may undo it. */
static void to_cma(struct actor *a)
{
    (void)a;
    deckle_set_pageblock_type(pool, 0, DECKLE_CMA);
}

typedef void (*op_fn)(struct actor *);

#define NAMED(op) {#op, op}
static const struct named_op {
    const char *name;
    op_fn fn;
} ops[] = {
    NAMED(take0), NAMED(take0m), NAMED(take0_shared), NAMED(take1), NAMED(take1_shared),
    NAMED(take3), NAMED(take7), NAMED(take8), NAMED(take9), NAMED(take9_shared), NAMED(take10),
    NAMED(take11), NAMED(take_limit), NAMED(give_first), NAMED(give_last), NAMED(give_all),
    NAMED(drain), NAMED(bulk), NAMED(exact), NAMED(at_two), NAMED(at_half), NAMED(at_block),
    NAMED(split),    NAMED(isolate), NAMED(retype), NAMED(to_cma)};
#define NR_OPS   (sizeof(ops) / sizeof(ops[0]))
#define NR_SETUP 3u /* the last ones */

/* Sequences that restore what they found: where only a version tells the difference. */
static const op_fn give_take_twice[] = {give_last, take1_shared, give_last, take1_shared, NULL};
static const op_fn take_give_twice[] = {take1_shared, give_last, take1_shared, give_last, NULL};
static const op_fn take_give_drain[] = {take0, give_last, drain, take0, give_last, NULL};
static const op_fn give_two[] = {give_last, give_last, NULL};
static const op_fn whole_twice[] = {take9_shared, give_last, take9_shared, give_last, NULL};
static const op_fn take_many[] = {take0_shared, take0_shared, take1_shared, give_last, NULL};
static const op_fn give_drain[] = {give_all, drain, NULL};
/* W is as before, but for the version; another pair is free. */
static const op_fn swap_pair[] = {give_last, give_last, take0m_shared, take0m_shared, NULL};
/* Between the second reservation and its end the run is overstated; then the block is free
 * again. */
static const op_fn nine_then_zero[] = {take9_shared, take0_shared, NULL};
static const op_fn halves[] = {take8, take8, give_all, NULL};

struct script {
    const char *name;
    op_fn ops[6];
};

static struct script scripts[NR_OPS + 10];
static unsigned nr_scripts;

static void add_script(const char *name, const op_fn *fns)
{
    struct script *s = &scripts[nr_scripts++];
    s->name = name;
    for (unsigned i = 0; fns[i]; i++)
        s->ops[i] = fns[i];
}

#define LISTED(script) {#script, script}
static const struct {
    const char *name;
    const op_fn *fns;
} sequences[] = {LISTED(give_take_twice), LISTED(take_give_twice), LISTED(take_give_drain),
                 LISTED(give_two),        LISTED(whole_twice),     LISTED(take_many),
                 LISTED(give_drain),      LISTED(swap_pair),       LISTED(halves),
                 LISTED(nine_then_zero)};

static void make_scripts(void)
{
    for (unsigned i = 0; i < NR_OPS; i++) {
        const op_fn one[2] = {ops[i].fn, NULL};
        add_script(ops[i].name, one);
    }
    for (unsigned i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
        add_script(sequences[i].name, sequences[i].fns);
}

static bool is_setup(unsigned script)
{
    return script >= NR_OPS - NR_SETUP && script < NR_OPS;
}

/* ---- pools ----------------------------------------------------------------------------------- */

/* How the pool looks when the actors begin. */
enum scene { FRESH, TIGHT, PAIRS, WHOLES, CACHED, EMPTY, ONE, SINGLES, FULL, SCENES };
static const char *const scene_names[] = {"fresh",  "tight", "pairs", "wholes",
                                          "cached", "empty", "one",   "singles", "full"};

static void make_pool(uint32_t blocks, uint32_t features, bool rseq)
{
    nr_frames = blocks * 512;
    struct deckle_range range = {.pfn = 0, .nr = nr_frames};
    struct deckle_config cfg = {.size = sizeof(cfg), .features = features, .nr_cpus = 2,
                                .ranges = &range, .nr_ranges = 1, .pcp_capacity = 16,
                                .max_order = 11, .min_free_kbytes = UINT64_MAX,
                                .dma_limit_pfn = UINT64_MAX, .dma32_limit_pfn = UINT64_MAX};
    struct deckle_host host = {.size = sizeof(host), .cpu = cpu_hook, .bad = bad_hook,
                               .membarrier = membarrier_hook, .rseq_usable = rseq};
    memory_size = (deckle_metadata_size(&cfg) + 4095) & ~(size_t)4095;
    memory = aligned_alloc(4096, memory_size);
    snapshot = malloc(memory_size);
    memset(memory, 0, memory_size);
    assert_int_equal(deckle_init(memory, memory_size, &cfg, &host, &pool), DECKLE_OK);
    assert_int_equal(deckle_add_range(pool, &range), DECKLE_OK);
    assert_int_equal(deckle_online(pool), DECKLE_OK);
}

/* Frames that belong to nobody who runs. */
static void base_at(uint64_t pfn, unsigned order)
{
    assert_int_equal(deckle_alloc_at(pool, GFP_U, pfn, order), DECKLE_OK);
    memset(owner + pfn, BASE, 1ull << order);
}

static void hold_at(struct actor *a, uint64_t pfn, unsigned order)
{
    assert_int_equal(deckle_alloc_at(pool, GFP_U, pfn, order), DECKLE_OK);
    own(a, (int64_t)pfn, order);
}

/* All of the pool but these first blocks is in use. */
static void fill_above(unsigned blocks)
{
    for (unsigned b = blocks; b < nr_frames / 512; b++)
        base_at(b * 512ull, 9);
}

static void make_scene(enum scene scene)
{
    switch (scene) {
    case TIGHT: /* one block, half in use; each actor holds two halves of pairs */
        fill_above(1);
        base_at(256, 8);
        base_at(8, 3);
        for (unsigned i = 0; i < ACTORS; i++) {
            hold_at(&actors[i], 16 + 4 * i, 0);
            hold_at(&actors[i], 17 + 4 * i, 0);
        }
        break;
    case PAIRS: /* free: single frames and one pair; buddies belong to different actors */
        fill_above(1);
        for (uint64_t pfn = 0; pfn < 512; pfn += 2) {
            if (pfn >= 12)
                base_at(pfn, 1);
        }
        base_at(4, 2);
        base_at(9, 0);
        base_at(11, 0);
        hold_at(&actors[0], 0, 0);
        hold_at(&actors[1], 1, 0);
        hold_at(&actors[2], 8, 0);
        break;
    case WHOLES: /* whole blocks and what completes them */
        fill_above(4);
        hold_at(&actors[0], 0, 9);
        hold_at(&actors[1], 512, 8);
        hold_at(&actors[2], 768, 8);
        hold_at(&actors[0], 1024, 7);
        break;
    case CACHED: /* the last free frames lie in caches */
        fill_above(1);
        for (uint64_t pfn = 0; pfn < 512; pfn += 8)
            base_at(pfn, 3);
        for (uint64_t pfn = 0; pfn < 24; pfn += 8) {
            assert_int_equal(deckle_split(pool, pfn, 3, 0), DECKLE_OK);
            for (uint64_t p = pfn; p < pfn + 8; p++) {
                memset(owner + p, 0, 1);
                actors[0].cpu = pfn == 8;
                running = &actors[0]; /* for the CPU */
                actors[0].stop_at = NEVER;
                deckle_free(pool, p, 0);
                running = NULL;
            }
        }
        break;
    case EMPTY: /* nothing is free */
        fill_above(0);
        for (unsigned i = 0; i < ACTORS; i++) {
            assert_int_equal(deckle_free(pool, i * 512ull, 9), DECKLE_OK);
            assert_int_equal(deckle_drain_all(pool), DECKLE_OK);
            memset(owner + i * 512ull, 0, 512);
            hold_at(&actors[i], i * 512ull, 9);
        }
        break;
    case ONE: /* a single free block */
        fill_above(1);
        break;
    case SINGLES: /* free: four single frames, then a pair; actor 1 holds another pair in halves */
        fill_above(1);
        for (uint64_t pfn = 0; pfn < 512; pfn++) {
            bool single = pfn < 8 && !(pfn & 1), held = pfn >= 20 && pfn < 24;
            if (!single && !held && pfn != 10 && pfn != 11)
                base_at(pfn, 0);
        }
        hold_at(&actors[0], 22, 0);
        hold_at(&actors[0], 23, 0);
        hold_at(&actors[1], 20, 0);
        hold_at(&actors[1], 21, 0);
        /* Blocks at a place leave the run overstated; a request puts it right. */
        take0m_shared(&actors[2]);
        give_all(&actors[2]);
        assert_int_equal(deckle_drain_all(pool), DECKLE_OK);
        break;
    case FULL: /* nothing is free; the actors hold pairs of one block, in halves */
        fill_above(1);
        for (uint64_t pfn = 8; pfn < 512; pfn += 8)
            base_at(pfn, 3);
        for (uint64_t pfn = 6; pfn < 8; pfn++)
            base_at(pfn, 0);
        for (unsigned i = 0; i < ACTORS; i++) {
            hold_at(&actors[i], 2 * i, 0);
            hold_at(&actors[i], 2 * i + 1, 0);
        }
        break;
    default: /* FRESH: all is free */
        break;
    }
}

#endif
