/* SPDX-License-Identifier: MIT */
/*
 * The index with words of four children, so that a few blocks make three levels. A program of its
 * own: everything is compiled with the smaller fan-out.
 */
#include "case.h"

#define WIDE {.blocks = 20, .features = DECKLE_FEATURE_NO_CACHES, .max_order = 10}

extern const struct sim_case sim_cases_narrow[];
const struct sim_case sim_cases_narrow[] = {
    {.name = "narrow.set-clear",
     .what = "a block of the last leaf comes and goes, the rest of the tree is empty",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 17), HOLD(0, 17 * 512, 9), FILL(18)),
     .thread = {OPS(FREE_LAST, ALLOC(9, U)), OPS(ALLOC(9, M), FREE_LAST)}},
    {.name = "narrow.set-set",
     .what = "two setters of one leaf, one of them stopped half-way up",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 16), HOLD(0, 16 * 512, 9), HOLD(1, 17 * 512, 9), FILL(18)),
     .thread = {OPS(FREE_LAST), OPS(FREE_LAST, ALLOC(9, U)), OPS(ALLOC(9, M))}},
    {.name = "narrow.clear-clear",
     .what = "the last two blocks of a subtree are taken at once",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 16), FILL(18)),
     .thread = {OPS(ALLOC(9, U), FREE_LAST), OPS(ALLOC(9, M), FREE_LAST)}},
    {.name = "narrow.clear-set-clear",
     .what = "a clearer that slept through a set and another's mark",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 16), FILL(17)),
     .thread = {OPS(ALLOC(9, U)), OPS(ALLOC(9, M), FREE_LAST, ALLOC(9, M), FREE_LAST),
                OPS(ALLOC(9, R))}},
    {.name = "narrow.subtrees",
     .what = "blocks of different subtrees",
     .pool = WIDE,
     .scene = OPS(FILL_TO(1, 8), HOLD(0, 8 * 512, 9), FILL_TO(9, 19), HOLD(1, 19 * 512, 9)),
     .thread = {OPS(FREE_LAST, ALLOC(9, M)), OPS(FREE_LAST, ALLOC(9, U), ALLOC(9, U))}},
    {.name = "narrow.classes",
     .what = "a block moves between the trees of its runs",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 18), HOLD(0, 18 * 512, 0), HOLD(1, 18 * 512 + 1, 0),
                  ONLY(18, 0, 2), FILL(19), SETTLE),
     .thread = {OPS(FREE_LAST, ALLOC(1, M)), OPS(FREE_LAST, ALLOC(0, U))}},
    {.name = "narrow.types",
     .what = "a block moves between types, the tree of each has three levels",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 18), ONLY(18, 0, 4), FILL(19), SETTLE),
     .thread = {OPS(ALLOC(0, U), FREE_LAST), OPS(ALLOC(0, R), FREE_LAST), OPS(ALLOC(1, M))}},
    {.name = "narrow.groups",
     .what = "groups of two blocks, their tree has two levels",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 16), HOLD(0, 16 * 512, 9), HOLD(1, 17 * 512, 9), FILL(18)),
     .thread = {OPS(FREE_LAST, ALLOC(10, M)), OPS(FREE_LAST, ALLOC(9, U), FREE_LAST)}},
    {.name = "narrow.empty",
     .what = "the proof that nothing is there, over three levels",
     .pool = WIDE,
     .scene = OPS(FILL_TO(0, 16), HOLD(0, 16 * 512, 9), FILL(17)),
     .thread = {OPS(FREE_LAST, ALLOC(9, M)), OPS(ALLOC(9, U), FREE_LAST), OPS(ALLOC(9, R))}},
    {.name = NULL},
};
