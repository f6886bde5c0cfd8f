/* SPDX-License-Identifier: MIT */
/*
 * The model of one per-CPU list as a stack entered by restartable sequences (src/core/pcp_rseq.c):
 * the owner CPU with its store buffer, drainers on other CPUs, and the shared level as a set of
 * frames with a version.
 *
 * The owner's stores go to memory later and, where their order is not forced by anything, in any
 * order; its loads see its own stores. A membarrier is one step: it empties the buffer and restarts
 * the sequence. Left out: folding the pop count, which needs 2^46 pops.
 */
#ifndef MODEL_RSEQ_H
#define MODEL_RSEQ_H

#include "checker.h"

enum rseq_op { RQ_NONE, RQ_PUSH, RQ_POP, RQ_REFILL, RQ_DRAIN, RQ_OPEN, RQ_PROVE };

enum rseq_bug {
    RQ_BUG_NO_MEMBARRIER = 1, /* STOP, and on */
    RQ_BUG_NO_COMPARE,        /* the head after the membarrier is taken as it is */
    RQ_BUG_TRUST,             /* who meets STOP set by another does not call membarrier himself */
    RQ_BUG_OPEN_NO_POPS,      /* un-stop leaves the pop count */
    RQ_BUG_OPEN_STORE,        /* un-stop is a plain store */
    RQ_BUG_POP_NO_COUNT,      /* a pop leaves the pop count */
    RQ_BUG_COMMIT_EARLY,      /* push stores the head before the slot */
    RQ_BUG_NO_STOP_TEST,      /* pop does not look at STOP */
    RQ_BUG_READ_SLOTS_EARLY,  /* the drainer reads the slots before the membarrier */
    RQ_BUG_PROVE_ONCE         /* one look at head and shared level */
};

#define RQ_DRAINERS 3
#define RQ_OPS      6

struct rseq_case {
    const char *name, *says;
    uint8_t step;    /* frames that a drainer takes at once */
    uint8_t rounds;  /* of a drain before CONTENDED */
    uint8_t in_list; /* frames 1 … n are in the list at first, the last on top */
    uint8_t held;    /* mask of frames in the owner's hands */
    uint8_t shared;  /* and in the shared level */
    uint8_t owner[RQ_OPS];
    uint8_t drainers;
    uint8_t drainer[RQ_DRAINERS][2];
    uint32_t limit;
};

extern const struct rseq_case rseq_cases[];
extern const unsigned rseq_case_count;
extern const struct plant rseq_plants[];
extern const unsigned rseq_plant_count;
void rseq_setup(const struct rseq_case *c, enum rseq_bug bug, struct model *m);

#endif
