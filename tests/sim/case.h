/* SPDX-License-Identifier: MIT */
/*
 * Cases for the simulated machine: a pool, how it looks at first, and what threads and handlers do
 * to it. A case is a row of a table (cases_*.c): to add some, add a file with a table and name it
 * in main.c; operations of one's own are functions like those of ops.c.
 *
 *     {.name = "block.claim-claim", .what = "two claims in one word", .pool = {.blocks = 2},
 *      .scene = OPS(FILL(1), ONLY(0, 0, 4)),
 *      .thread = {OPS(ALLOC_SHARED(0, M), FREE_LAST), OPS(ALLOC_SHARED(0, M))}},
 *
 * Judged for every case (oracle.c): no frame has two owners; a request that fails must have met an
 * instant at which nothing that fits lay outside unfinished operations, and says CONTENDED only if
 * somebody disturbed it; every operation ends within a bounded number of accesses; at the end
 * deckle_validate agrees, and what is free, cached and owned adds up; then everything is given back
 * and counted again. A case may add a judgement of its own.
 */
#ifndef DECKLE_TESTS_SIM_CASE_H
#define DECKLE_TESTS_SIM_CASE_H

#include <deckle.h>

#include "host/sim/sim.h"

#define SIM_ACTORS   (SIM_THREADS * SIM_DEPTH)
#define SIM_HELD     80u
#define SIM_BASE     200u /* owner of what nobody who runs holds */

struct sim_held {
    uint64_t pfn;
    unsigned order;
};

/* A thread, or a handler on top of it: who holds blocks. */
struct sim_actor {
    struct sim_held held[SIM_HELD];
    unsigned nr_held;
    uint64_t last_freed;
    int64_t result;   /* of the last operation */
    unsigned reports; /* of the bad hook that nobody expected */
};

struct sim_op {
    void (*run)(struct sim_actor *a, const struct sim_op *op);
    const char *name;
    uint64_t a, b, c;
};

struct sim_pool {
    unsigned blocks;
    uint32_t features;
    bool rseq;          /* stacks; else cells, or none with DECKLE_FEATURE_NO_CACHES */
    unsigned nr_cpus;   /* 0 = 2 */
    unsigned max_order; /* 0 = 11 */
    uint32_t debug;     /* DECKLE_DEBUG_… */
    unsigned second_range; /* block with which a second range begins, 0 = none */
};

struct sim_case {
    const char *name, *what;
    struct sim_pool pool;
    const struct sim_op *scene;               /* run beforehand, by nobody */
    const struct sim_op *thread[SIM_THREADS];
    uint32_t cpu[SIM_THREADS];                /* all 0: thread n runs on CPU n */
    bool one_cpu;                             /* all threads on CPU 0 */
    unsigned process[SIM_THREADS];
    const struct sim_op *handler;             /* runs on top of any access, at most twice */
    unsigned handlers;                        /* 0 = 1 */
    bool strong;      /* without late stores and early loads */
    bool migrate, kill;
    bool any_end;     /* validation and conservation at the end are the judgement's business */
    const char *(*judge)(void);
    unsigned bound;   /* bound of the long exhaustive search; 0 = 3 */
};

#define OPS(...) (const struct sim_op[]){__VA_ARGS__, {.run = NULL}}

extern struct deckle *sim_pool;
extern const struct sim_case *sim_now; /* the case that is loaded */
extern struct sim_actor sim_actor[SIM_ACTORS];
extern uint8_t *sim_owner;             /* of each frame: 0, actor + 1 or SIM_BASE */
extern uint64_t sim_frames;

/* ---- operations (ops.c) ---------------------------------------------------------------------- */

#define SIM_OP(name) void name(struct sim_actor *a, const struct sim_op *op)
SIM_OP(sim_op_alloc);      /* a order, b gfp, c: limit, or 1 = not from caches */
SIM_OP(sim_op_free);       /* a: 0 last, 1 first, 2 all */
SIM_OP(sim_op_free_at);    /* a pfn, b order: a block that the actor holds */
SIM_OP(sim_op_free_again); /* the block freed last, once more: must be refused */
SIM_OP(sim_op_race_free);  /* a pfn, b order of the base: of all who free it, one may */
SIM_OP(sim_op_drain);
SIM_OP(sim_op_drain_cpu);  /* a CPU */
SIM_OP(sim_op_bulk);       /* a how many, b gfp */
SIM_OP(sim_op_free_bulk);  /* all single frames */
SIM_OP(sim_op_exact);      /* a frames, b gfp */
SIM_OP(sim_op_at);         /* a pfn, b order */
SIM_OP(sim_op_contig);     /* a frames, b gfp */
SIM_OP(sim_op_split);      /* a new order: the first block that is larger */
SIM_OP(sim_op_type);       /* a block, b type, DECKLE_ISOLATE too. Set-up: by one thread only */
SIM_OP(sim_op_remove);     /* a block, b blocks: out of the pool and back. Set-up */
SIM_OP(sim_op_must);       /* the allocation before must have succeeded */

#define U DECKLE_GFP_KERNEL
#define M DECKLE_GFP_HIGHUSER_MOVABLE
#define R (DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE)

#define ALLOC(order, gfp)        {sim_op_alloc, "alloc", (order), (gfp), 0}
#define ALLOC_SHARED(order, gfp) {sim_op_alloc, "alloc shared", (order), (gfp), 1}
#define ALLOC_BELOW(order, gfp, limit) {sim_op_alloc, "alloc below", (order), (gfp), (limit)}
#define FREE_LAST                {sim_op_free, "free last", 0, 0, 0}
#define FREE_FIRST               {sim_op_free, "free first", 1, 0, 0}
#define FREE_ALL                 {sim_op_free, "free all", 2, 0, 0}
#define FREE_AT(pfn, order)      {sim_op_free_at, "free at", (pfn), (order), 0}
#define FREE_AGAIN               {sim_op_free_again, "free again", 0, 0, 0}
#define RACE_FREE(pfn, order)    {sim_op_race_free, "race to free", (pfn), (order), 0}
#define DRAIN                    {sim_op_drain, "drain all", 0, 0, 0}
#define DRAIN_CPU(cpu)           {sim_op_drain_cpu, "drain cpu", (cpu), 0, 0}
#define BULK(n, gfp)             {sim_op_bulk, "alloc bulk", (n), (gfp), 0}
#define FREE_BULK                {sim_op_free_bulk, "free bulk", 0, 0, 0}
#define EXACT(n, gfp)            {sim_op_exact, "alloc exact", (n), (gfp), 0}
#define AT(pfn, order)           {sim_op_at, "alloc at", (pfn), (order), 0}
#define CONTIG(n, gfp)           {sim_op_contig, "alloc contig", (n), (gfp), 0}
#define SPLIT(order)             {sim_op_split, "split to", (order), 0, 0}
#define TYPE(block, type)        {sim_op_type, "set type", (block), (type), 0}
#define REMOVE(block, n)         {sim_op_remove, "remove and add", (block), (n), 0}

/* Scenes: before the machine starts. */
SIM_OP(sim_scene_fill);  /* a first, b one after the last block (0 = end): allocated whole */
SIM_OP(sim_scene_only);  /* a block, b first, c one after the last frame: all else is taken */
SIM_OP(sim_scene_scatter); /* every second frame of them, at odd places, is taken */
SIM_OP(sim_scene_take);  /* a pfn, b order */
SIM_OP(sim_scene_hold);  /* a actor, b pfn, c order */
SIM_OP(sim_scene_cache); /* a CPU, b pfn, c order: a block in that CPU's list */
SIM_OP(sim_scene_settle); /* runs of all blocks as they are */

#define FILL(first)            {sim_scene_fill, "fill", (first), 0, 0}
#define FILL_TO(first, end)    {sim_scene_fill, "fill", (first), (end), 0}
#define ONLY(block, from, to)  {sim_scene_only, "only", (block), (from), (to)}
#define SCATTER(block, from, to) {sim_scene_scatter, "scatter", (block), (from), (to)}
#define TAKE(pfn, order)       {sim_scene_take, "take", (pfn), (order), 0}
#define HOLD(actor, pfn, order) {sim_scene_hold, "hold", (actor), (pfn), (order)}
#define CACHE(cpu, pfn, order) {sim_scene_cache, "cache", (cpu), (pfn), (order)}
#define SETTLE                 {sim_scene_settle, "settle", 0, 0, 0}

/* ---- for operations (world.c, oracle.c) ------------------------------------------------------ */

struct sim_actor *sim_me(void);
/* The actor got the block, or an error; calls are bracketed by sim_ask_begin and sim_ask_end. */
void sim_own(struct sim_actor *a, int64_t pfn, unsigned order);
/* The actor lets go of its block number i: before the call that frees it. */
struct sim_held sim_let_go(struct sim_actor *a, unsigned i);

/* A request for 2^order frames begins and ends: contract rule 6. limit: frames below it, 0 = all.
 * result: pfn or error. */
void sim_ask_begin(struct sim_actor *a, unsigned order, uint32_t gfp, uint64_t limit);
void sim_ask_end(struct sim_actor *a, int64_t result);
/* Any other operation: its blocks and lists are unfinished meanwhile. end: result of it; CONTENDED
 * must have a reason. */
void sim_work_begin(struct sim_actor *a);
void sim_work_end(struct sim_actor *a, int result);

/* world.c */
bool sim_case_load(const struct sim_case *c);
void sim_case_unload(void);

/* oracle.c */
void sim_oracle_load(void);
void sim_oracle_unload(void);
void sim_oracle_reset(void);
const char *sim_judge(void);

/* places.c: "W of block 3" */
void sim_place(char *buf, size_t size, const volatile void *p);
void sim_value(char *buf, size_t size, const volatile void *p, uint64_t value);
void sim_print_event(const struct sim_event *e);

#endif
