/* SPDX-License-Identifier: MIT */
/* The pool of a case and its scene; threads and handlers that follow their lists of operations. */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct deckle *sim_pool;
const struct sim_case *sim_now;
struct sim_actor sim_actor[SIM_ACTORS];
uint8_t *sim_owner;
uint64_t sim_frames;

static struct sim_actor actor_at_start[SIM_ACTORS];
static uint8_t *owner_at_start;
static unsigned char *memory, *plain_at_start;
static size_t memory_size, plain_size;
static uint32_t scene_cpu;

/* ---- hooks ----------------------------------------------------------------------------------- */

static uint32_t cpu_hook(void *ctx)
{
    (void)ctx;
    if (!sim_running())
        return scene_cpu;
    sim_hook("cpu hook");
    return sim_cpu();
}

static int membarrier_hook(void *ctx)
{
    (void)ctx;
    sim_membarrier();
    return 0;
}

static void bad_hook(void *ctx, const struct deckle_bad_report *r)
{
    (void)ctx;
    sim_me()->reports++;
    sim_hook(deckle_bad_name(r->what));
}

/* ---- the pool -------------------------------------------------------------------------------- */

static const char *make_pool(const struct sim_pool *p)
{
    uint64_t first = p->second_range ? p->second_range : p->blocks;
    struct deckle_range range[2] = {{.pfn = 0, .nr = first * 512},
                                    {.pfn = first * 512, .nr = (p->blocks - first) * 512}};
    uint32_t nr_ranges = p->second_range ? 2 : 1;
    struct deckle_config cfg = {.size = sizeof(cfg), .features = p->features,
                                .nr_cpus = p->nr_cpus ? p->nr_cpus : 2, .ranges = range,
                                .nr_ranges = nr_ranges, .pcp_capacity = 16,
                                .max_order = p->max_order ? p->max_order : 11,
                                .min_free_kbytes = UINT64_MAX, .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = UINT64_MAX};
    struct deckle_host host = {.size = sizeof(host), .cpu = cpu_hook, .bad = bad_hook,
                               .membarrier = membarrier_hook, .rseq_usable = p->rseq};
    if (!p->rseq)
        cfg.features |= DECKLE_FEATURE_CELLS;
    memory_size = (deckle_metadata_size(&cfg) + 4095) & ~(size_t)4095;
    memory = aligned_alloc(4096, memory_size);
    if (!memory)
        return "no memory for the pool";
    memset(memory, 0, memory_size);
    if (deckle_init(memory, memory_size, &cfg, &host, &sim_pool) ||
        deckle_add_range(sim_pool, &range[0]) ||
        (nr_ranges > 1 && deckle_add_range(sim_pool, &range[1])) || deckle_online(sim_pool))
        return "the pool cannot be made";
    if (p->debug && deckle_set_debug(sim_pool, p->debug) < 0)
        return "the switches cannot be set";
    const char *want = p->rseq                                      ? "rseq"
                       : p->features & DECKLE_FEATURE_NO_CACHES ? "none"
                                                                : "cells";
    return strcmp(deckle_cache_kind(sim_pool), want) ? "another kind of caches than asked for"
                                                     : NULL;
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static void must(bool ok, const struct sim_op *op)
{
    if (!ok) {
        fprintf(stderr, "case %s: the scene fails at %s(%llu, %llu, %llu)\n", sim_now->name,
                op->name, (unsigned long long)op->a, (unsigned long long)op->b,
                (unsigned long long)op->c);
        exit(2);
    }
}

static bool take_at(uint64_t pfn, unsigned order, uint8_t owner)
{
    if (deckle_alloc_at(sim_pool, U, pfn, order))
        return false;
    memset(sim_owner + pfn, owner, 1ull << order);
    return true;
}

SIM_OP(sim_scene_fill)
{
    uint64_t end = op->b ? op->b : sim_frames / 512;
    (void)a;
    for (uint64_t b = op->a; b < end; b++)
        must(take_at(b * 512, 9, SIM_BASE), op);
}

SIM_OP(sim_scene_take)
{
    (void)a;
    must(take_at(op->a, (unsigned)op->b, SIM_BASE), op);
}

/* Largest aligned pieces of what is free outside of the frames. */
SIM_OP(sim_scene_only)
{
    uint64_t base = op->a * 512;
    (void)a;
    for (uint64_t f = 0; f < 512;) {
        unsigned order = 8;
        if ((f >= op->b && f < op->c) || sim_owner[base + f]) {
            f++;
            continue;
        }
        while (f & ((1u << order) - 1) || (f < op->b && f + (1u << order) > op->b))
            order--;
        for (uint64_t p = f; order && p < f + (1u << order); p++)
            if (sim_owner[base + p])
                order--, p = f;
        must(take_at(base + f, order, SIM_BASE), op);
        f += 1u << order;
    }
}

SIM_OP(sim_scene_scatter)
{
    (void)a;
    for (uint64_t f = op->b | 1; f < op->c; f += 2)
        must(take_at(op->a * 512 + f, 0, SIM_BASE), op);
}

SIM_OP(sim_scene_hold)
{
    struct sim_actor *holder = &sim_actor[op->a];
    (void)a;
    must(take_at(op->b, (unsigned)op->c, (uint8_t)(op->a + 1)), op);
    must(holder->nr_held < SIM_HELD, op);
    holder->held[holder->nr_held++] = (struct sim_held){op->b, (unsigned)op->c};
}

SIM_OP(sim_scene_cache)
{
    (void)a;
    must(take_at(op->b, (unsigned)op->c, 0), op);
    scene_cpu = (uint32_t)op->a;
    must(!deckle_free(sim_pool, op->b, (uint32_t)op->c), op);
    scene_cpu = UINT32_MAX;
}

/* Blocks at a place leave the run overstated; requests that fail put it right. */
SIM_OP(sim_scene_settle)
{
    struct deckle_request r = {.size = sizeof(r), .gfp = M, .flags = DECKLE_REQ_NO_CACHE};
    (void)a, (void)op;
    for (unsigned order = 10; order-- > 0;) {
        r.order = order;
        int64_t pfn = deckle_alloc_request(sim_pool, &r);
        if (pfn >= 0) {
            deckle_free(sim_pool, (uint64_t)pfn, order);
            deckle_drain_all(sim_pool);
            return;
        }
    }
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void follow(struct sim_actor *a, const struct sim_op *op)
{
    for (; op->run; op++) {
        if (op->run != sim_op_must)
            sim_op_begin("%s(%llu, %llu)", op->name, (unsigned long long)op->a,
                         (unsigned long long)op->c);
        op->run(a, op);
        if (op->run != sim_op_must)
            sim_op_end("%s = %lld", op->name, (long long)a->result);
    }
}

static void thread_life(unsigned thread)
{
    follow(&sim_actor[thread], sim_now->thread[thread]);
}

static void handler_life(unsigned thread, unsigned depth)
{
    follow(&sim_actor[depth * SIM_THREADS + thread], sim_now->handler);
}

/* Outside of runs it is actor 0. */
struct sim_actor *sim_me(void)
{
    return &sim_actor[!sim_running() ? 0 : sim_depth() * SIM_THREADS + sim_self()];
}

static void reset(void)
{
    memcpy(sim_actor, actor_at_start, sizeof(sim_actor));
    memcpy(sim_owner, owner_at_start, sim_frames);
    if (plain_size)
        memcpy(memory, plain_at_start, plain_size);
    sim_oracle_reset();
}

/* Does somebody change tables that are not made of atomics? */
static bool uses_setup(const struct sim_case *c)
{
    for (unsigned t = 0; t < SIM_THREADS; t++)
        for (const struct sim_op *op = c->thread[t]; op && op->run; op++)
            if (op->run == sim_op_remove)
                return true;
    return false;
}

static void save_start(const struct sim_case *c)
{
    memcpy(actor_at_start, sim_actor, sizeof(sim_actor));
    memcpy(owner_at_start, sim_owner, sim_frames);
    plain_size = uses_setup(c) ? memory_size : 0;
    plain_at_start = malloc(memory_size);
    if (plain_at_start)
        memcpy(plain_at_start, memory, memory_size);
}

static bool load_program(const struct sim_case *c)
{
    struct sim_program program = {.nr_cpus = (c->pool.nr_cpus ? c->pool.nr_cpus : 2) + 1,
                                  .weak = !c->strong,
                                  .migrate = c->migrate,
                                  .kill = c->kill,
                                  .step_limit = 200000,
                                  .memory = memory,
                                  .memory_size = memory_size,
                                  .reset = reset,
                                  .thread = thread_life,
                                  .handler = handler_life,
                                  .judge = sim_judge};
    if (c->handler)
        program.handlers = c->handlers ? c->handlers : 1;
    while (program.nr_threads < SIM_THREADS && c->thread[program.nr_threads]) {
        unsigned t = program.nr_threads++;
        program.cpu[t] = c->one_cpu ? 0 : c->cpu[0] | c->cpu[1] | c->cpu[2] ? c->cpu[t] : t;
        program.process[t] = c->process[t];
    }
    return sim_load(&program);
}

bool sim_case_load(const struct sim_case *c)
{
    sim_now = c;
    sim_frames = c->pool.blocks * 512ull;
    sim_owner = calloc(1, sim_frames);
    owner_at_start = malloc(sim_frames);
    memset(sim_actor, 0, sizeof(sim_actor));
    scene_cpu = UINT32_MAX;
    const char *bad = make_pool(&c->pool);
    if (bad || !sim_owner || !owner_at_start) {
        fprintf(stderr, "case %s: %s\n", c->name, bad ? bad : "no memory");
        return false;
    }
    for (const struct sim_op *op = c->scene; op && op->run; op++)
        op->run(NULL, op);
    char text[300];
    if (deckle_validate(sim_pool, text, sizeof(text))) {
        fprintf(stderr, "case %s: the scene does not validate: %s\n", c->name, text);
        return false;
    }
    save_start(c);
    sim_oracle_load();
    return plain_at_start && load_program(c);
}

void sim_case_unload(void)
{
    sim_unload();
    sim_oracle_unload();
    free(memory);
    free(plain_at_start);
    free(sim_owner);
    free(owner_at_start);
    sim_now = NULL;
}
