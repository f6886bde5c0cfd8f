/* SPDX-License-Identifier: MIT */
/* The parts of the tables of fragmented memory that run in processes of their own. */
#ifndef DECKLE_TOOLS_BENCH_FRAGMENT_H
#define DECKLE_TOOLS_BENCH_FRAGMENT_H

#include "bench.h"
#include "bench_child.h"

struct fragment_wish {
    uint64_t bytes;
    unsigned order;
    unsigned runs;
    unsigned cpus[2]; /* the one that asks, and another */
    double overhead;  /* of the clock */
};

/* Ticks per call. */
struct fragment_figures {
    struct bench_samples success, failure;
    struct bench_samples draining; /* a failure while another CPU's cache holds a frame */
    struct bench_samples again;    /* the failure after that */
    double barriers, drain_barriers, again_barriers; /* membarrier calls per failure */
};

/* struct fragment_wish, struct fragment_figures. */
bench_child_fn bench_fragment_requests;

struct order3_figures {
    uint64_t blocks;
    double mean, high, worst; /* high: 99.99 % are not above */
};

/* wish.order: what the half is freed in. */
bench_child_fn bench_fragment_order3;

/* xorshift64; *state must not be 0. */
uint64_t bench_xorshift(uint64_t *state);

#endif
