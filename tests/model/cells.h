/* SPDX-License-Identifier: MIT */
/*
 * The model of one per-CPU list as atomic cells (src/core/pcp_cells.c): pushes and pops by anybody,
 * the word `live` above the cells, drains, closing, and the shared level as a set of frames with a
 * version. The hint where the top is may be wrong in the library; here pushes and pops choose any
 * cell.
 */
#ifndef MODEL_CELLS_H
#define MODEL_CELLS_H

#include "checker.h"

enum cells_op { CL_NONE, CL_PUSH, CL_POP, CL_REFILL, CL_GIVE, CL_DRAIN, CL_CLOSE, CL_PROVE };

enum cells_bug {
    CL_BUG_PUSH_NO_LIVE = 1,   /* a push does not look at live */
    CL_BUG_PUSH_LIVE_EARLY,    /* it looks before its cell is full */
    CL_BUG_PUSH_IGNORES_CLEAR, /* LIVE is enough for it, CLEAR or not */
    CL_BUG_DRAIN_NO_MARK,      /* a drain does not set CLEAR */
    CL_BUG_DRAIN_STORE,        /* its last step does not compare */
    CL_BUG_NO_VERSION,         /* live has no version */
    CL_BUG_CLOSE_NO_LOOK, /* a push that makes a list live does not look whether it was closed */
    CL_BUG_CLOSE_GENTLE,  /* the closer leaves lists alone that are not live */
    CL_BUG_PROVE_ONCE,
    CL_BUG_PROVE_NO_VERSION
};

#define CL_THREADS 4
#define CL_OPS     4

struct cells_case {
    const char *name, *says;
    uint8_t rounds;
    uint8_t in_list, shared; /* masks of frames at first; frame f in cell f */
    uint8_t held[CL_THREADS];
    uint8_t threads;
    uint8_t script[CL_THREADS][CL_OPS];
    uint32_t limit;
};

extern const struct cells_case cells_cases[];
extern const unsigned cells_case_count;
extern const struct plant cells_plants[];
extern const unsigned cells_plant_count;
void cells_setup(const struct cells_case *c, enum cells_bug bug, struct model *m);

#endif
