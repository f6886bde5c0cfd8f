/* SPDX-License-Identifier: MIT */
/*
 * Compaction against those who own, free and allocate: the compactor takes an area, the hook moves
 * what is in it. The hook is one step here, as under the lock of the users; the lock also orders
 * what a machine could do late or early around it, so the machine is a strong one.
 */
#include "case.h"

#include <deckle/pressure.h>
#include <string.h>

/* Whoever has the block has the new one from now on; what nobody has is not moved. */
static int migrate(void *ctx, const struct deckle_migration *m)
{
    (void)ctx;
    sim_hook("migrate");
    for (unsigned i = 0; i < SIM_ACTORS; i++) {
        struct sim_actor *a = &sim_actor[i];
        for (unsigned k = 0; k < a->nr_held; k++) {
            if (a->held[k].pfn != m->from || a->held[k].order != m->order)
                continue;
            for (uint64_t f = 0; f < 1ull << m->order; f++) {
                if (sim_owner[m->to + f])
                    sim_fail("frame %llu is a target and owned by %u",
                             (unsigned long long)(m->to + f), sim_owner[m->to + f]);
                sim_owner[m->to + f] = (uint8_t)(i + 1);
                sim_owner[m->from + f] = 0;
            }
            a->held[k].pfn = m->to;
            return DECKLE_OK;
        }
    }
    return DECKLE_EBUSY;
}

static const struct deckle_pressure_hooks hooks = {.size = sizeof(hooks), .migrate = migrate};

static SIM_OP(set_hooks)
{
    (void)a, (void)op;
    deckle_set_pressure_hooks(sim_pool, &hooks);
}

/* An actor has a block that can be moved. */
static SIM_OP(hold_movable)
{
    struct sim_actor *holder = &sim_actor[op->a];
    (void)a;
    if (deckle_alloc_at(sim_pool, M, op->b, (uint32_t)op->c))
        sim_fail("the scene fails at block %llu", (unsigned long long)op->b);
    memset(sim_owner + op->b, (int)op->a + 1, 1ull << op->c);
    holder->held[holder->nr_held++] = (struct sim_held){op->b, (unsigned)op->c};
}

static SIM_OP(compact)
{
    (void)op;
    sim_work_begin(a);
    a->result = deckle_compact_node(sim_pool, 0, NULL);
    sim_work_end(a, 0);
}

#define HOOKS                     {set_hooks, "hooks", 0, 0, 0}
#define MOVABLE(actor, pfn, order) {hold_movable, "hold movable", (actor), (pfn), (order)}
#define COMPACT                   {compact, "compact", 0, 0, 0}

/* One round: with more of them a schedule has more choices than the machine keeps. */
#define ONCE (M | DECKLE_GFP_NORETRY)

#define POOL {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES, .max_order = 10}

extern const struct sim_case sim_cases_pressure[];
const struct sim_case sim_cases_pressure[] = {
    {.name = "compact.free", .what = "an area is emptied while the owner frees what is in it",
     .pool = POOL,
     .scene = OPS(FILL(2), MOVABLE(1, 1, 0), SCATTER(1, 0, 12), ONLY(1, 0, 12),
                  ONLY(0, 0, 2), SETTLE, HOOKS),
     .thread = {OPS(ALLOC(1, ONCE)), OPS(FREE_LAST)},
     .strong = true, .bound = 2},
    {.name = "compact.alloc", .what = "single frames are taken where an area is emptied",
     .pool = POOL,
     .scene = OPS(FILL(2), MOVABLE(1, 1, 0), SCATTER(1, 0, 12), ONLY(1, 0, 12),
                  ONLY(0, 0, 2), SETTLE, HOOKS),
     .thread = {OPS(ALLOC(1, ONCE), FREE_LAST), OPS(ALLOC(0, M), FREE_FIRST)},
     .strong = true, .bound = 2},
    {.name = "compact.compact", .what = "two requests empty the same area",
     .pool = POOL,
     .scene = OPS(FILL(2), MOVABLE(2, 1, 0), SCATTER(1, 0, 12), ONLY(1, 0, 12),
                  ONLY(0, 0, 2), SETTLE, HOOKS),
     .thread = {OPS(ALLOC(1, ONCE), FREE_LAST), OPS(ALLOC(1, ONCE), FREE_LAST)},
     .strong = true, .bound = 2},
    {.name = "compact.whole", .what = "a whole pageblock is made of pieces while one is freed",
     .pool = POOL,
     .scene = OPS(FILL(2), MOVABLE(1, 0, 8), MOVABLE(1, 256, 0), ONLY(1, 0, 258), SETTLE, HOOKS),
     .thread = {OPS(COMPACT, ALLOC(9, ONCE), FREE_LAST), OPS(FREE_LAST, ALLOC(0, ONCE))},
     .strong = true, .bound = 2},
    {.name = "compact.zone", .what = "a zone is compacted while frames come and go",
     .pool = POOL,
     .scene = OPS(FILL(2), MOVABLE(1, 3, 0), ONLY(1, 0, 4), SETTLE, HOOKS),
     .thread = {OPS(COMPACT), OPS(FREE_LAST, ALLOC(0, M), ALLOC(9, ONCE))},
     .strong = true, .bound = 2},
    {.name = NULL},
};
