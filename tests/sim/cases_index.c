/* SPDX-License-Identifier: MIT */
/* The index, with words of the usual size: more than one word of leaves. */
#include "case.h"

extern const struct sim_case sim_cases_index[];
const struct sim_case sim_cases_index[] = {
    {.name = "index.two-words",
     .what = "blocks of two leaves appear and disappear",
     .pool = {.blocks = 40, .features = DECKLE_FEATURE_NO_CACHES},
     .scene = OPS(FILL_TO(1, 33), FILL(34), HOLD(1, 33 * 512, 9)),
     .thread = {OPS(ALLOC(9, M), FREE_LAST), OPS(FREE_LAST, ALLOC(9, U))}},
    {.name = "index.leaf-behind",
     .what = "a setter stopped below the root hides nothing of others",
     .pool = {.blocks = 40, .features = DECKLE_FEATURE_NO_CACHES},
     .scene = OPS(FILL_TO(0, 33), HOLD(0, 33 * 512, 9), HOLD(1, 34 * 512, 9), FILL(35)),
     .thread = {OPS(FREE_LAST), OPS(FREE_LAST, ALLOC(9, M)), OPS(ALLOC(9, U))}},
    {.name = "index.mark-left",
     .what = "two finders clear the bit of a block that goes and comes back",
     .pool = {.blocks = 8, .features = DECKLE_FEATURE_NO_CACHES},
     .scene = OPS(FILL(1)),
     .strong = true,
     .thread = {OPS(ALLOC(9, M), FREE_LAST), OPS(ALLOC(9, M)), OPS(ALLOC(9, M))}},
    {.name = NULL},
};
