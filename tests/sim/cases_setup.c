/* SPDX-License-Identifier: MIT */
/* Isolation, types and memory that goes and comes back, against all that allocate. */
#include "case.h"

#include "core/pcp.h"

#define ISOLATE(b)  TYPE((b), DECKLE_ISOLATE)
#define RELEASE(b)  TYPE((b), DECKLE_MOVABLE)

#define BOTH(case_name, ...)                                                                       \
    {.name = "stack." case_name, .pool = {.blocks = 8, .rseq = true, .max_order = 10},             \
     __VA_ARGS__},                                                                                 \
    {.name = "cells." case_name, .pool = {.blocks = 8, .max_order = 10}, __VA_ARGS__}

static void count(void *ctx, uint32_t fi, unsigned order)
{
    (void)fi;
    *(uint64_t *)ctx += 1ull << order;
}

/* The zone is closed at the end: no free may have ended in a cache. */
static const char *caches_are_empty(void)
{
    uint64_t cached = 0;
    dk_pcp_for_each(sim_pool, &sim_pool->zones[sim_pool->main_zone], count, &cached);
    return cached ? "frames in the caches of a closed zone" : NULL;
}

extern const struct sim_case sim_cases_setup[];
const struct sim_case sim_cases_setup[] = {
    BOTH("isolate-free", .what = "frees against isolation: none ends in a cache",
         .scene = OPS(FILL(1), HOLD(1, 0, 0), HOLD(1, 1, 0), ONLY(0, 0, 2)),
         .thread = {OPS(ISOLATE(0), RELEASE(0)), OPS(FREE_LAST, FREE_LAST)}, .bound = 2),
    BOTH("isolate-stay", .what = "a free against isolation that lasts",
         .scene = OPS(FILL(1), HOLD(1, 0, 0), ONLY(0, 0, 1)),
         .thread = {OPS(ISOLATE(0)), OPS(FREE_LAST)}, .judge = caches_are_empty, .bound = 2),
    BOTH("isolate-alloc", .what = "requests against isolation",
         .scene = OPS(FILL(1), CACHE(1, 0, 0), ONLY(0, 0, 4), SETTLE),
         .thread = {OPS(ISOLATE(0), RELEASE(0)), OPS(ALLOC(0, U), ALLOC(1, M), FREE_ALL)},
         .bound = 2),
    BOTH("isolate-refill", .what = "a refill against the closing of the lists",
         .scene = OPS(FILL(1), ONLY(0, 0, 8), SETTLE),
         .thread = {OPS(ISOLATE(0)), OPS(ALLOC(0, M), FREE_LAST)}, .bound = 2),
    BOTH("isolate-whole", .what = "a block taken whole against isolation",
         .scene = OPS(FILL(1)),
         .thread = {OPS(ISOLATE(0), RELEASE(0)), OPS(ALLOC(9, M), FREE_LAST)}, .bound = 2),
    {.name = "setup.type-claim",
     .what = "a change of type against claims and frees",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES, .max_order = 10},
     .scene = OPS(FILL(1), HOLD(1, 1, 0), ONLY(0, 0, 4), SETTLE),
     .thread = {OPS(TYPE(0, DECKLE_UNMOVABLE), TYPE(0, DECKLE_RECLAIMABLE)),
                OPS(FREE_LAST, ALLOC(1, M), FREE_LAST)}},
    {.name = "setup.type-whole",
     .what = "a change of type against a block taken whole and a group",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES},
     .scene = OPS(FILL(2)),
     .thread = {OPS(TYPE(0, DECKLE_UNMOVABLE)), OPS(ALLOC(9, R), FREE_LAST), OPS(ALLOC(10, M))}},
    {.name = "setup.isolate-shared",
     .what = "isolation against takes and gives of the shared level",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES, .max_order = 10},
     .scene = OPS(FILL(1), HOLD(1, 1, 0), ONLY(0, 0, 4), SETTLE),
     .thread = {OPS(ISOLATE(0), RELEASE(0)), OPS(FREE_LAST, ALLOC(1, M), FREE_LAST)}},
    {.name = "setup.isolate-group",
     .what = "isolation of a block of a group that is being taken",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES},
     .scene = OPS(FILL(2)),
     .thread = {OPS(ISOLATE(1), RELEASE(1)), OPS(ALLOC(10, M), FREE_LAST), OPS(ALLOC(9, M))}},
    {.name = "setup.offline",
     .what = "memory is removed while others allocate and free in it",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES, .second_range = 6},
     .scene = OPS(FILL_TO(0, 6), TAKE(3072, 8), TAKE(3584, 8), HOLD(1, 3328, 0)),
     .thread = {OPS(REMOVE(6, 2)), OPS(FREE_LAST, ALLOC(0, M), FREE_LAST)},
     .strong = true, .bound = 2},
    {.name = "setup.offline-free",
     .what = "memory that is free is removed, against requests for it",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES, .second_range = 6},
     .scene = OPS(FILL_TO(0, 6)),
     .thread = {OPS(REMOVE(6, 2)), OPS(ALLOC(9, M), ALLOC(0, M), FREE_ALL)},
     .strong = true, .bound = 2},
    {.name = "setup.contig",
     .what = "a contiguous range is looked for while frames come and go",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES, .max_order = 10},
     .scene = OPS(FILL(1), HOLD(1, 3, 0), ONLY(0, 0, 8)),
     .thread = {OPS(CONTIG(6, U), FREE_ALL), OPS(FREE_LAST, ALLOC(0, M), FREE_LAST)}},
    {.name = NULL},
};
