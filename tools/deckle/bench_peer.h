/* SPDX-License-Identifier: MIT */
/*
 * Other people's allocators, as far as they are installed: general ones (mimalloc, jemalloc,
 * gperftools' tcmalloc, the C library's own) and DPDK's rte_mempool. Each lives in a process of its
 * own, which opens its library by dlopen() and measures what it is told with the same loops; so it
 * meets neither Deckle's memory nor another one's threads, and nobody's malloc is replaced.
 *
 * They are asked for the bytes of a block, not for an address that is a multiple of them: what
 * Deckle promises there is dear for most of them. Blocks are not touched.
 */
#ifndef DECKLE_TOOLS_BENCH_PEER_H
#define DECKLE_TOOLS_BENCH_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"

/* What a loop calls. mempool has blocks of one size. */
struct bench_peer_calls {
    void *(*alloc)(size_t bytes);
    void (*release)(void *block);
};

#define BENCH_PEER_BLOCKS 300000u /* of a mempool */

/* ---- in the process that compares ------------------------------------------------------------ */

struct bench_peer;

/* NULL with *why (a sentence in a static buffer) when the library is not there. */
struct bench_peer *bench_peer_start(enum bench_lane_kind kind, const char **why);
void bench_peer_stop(struct bench_peer *peer);

/* bench_run_shape() over there. */
int bench_peer_run(struct bench_peer *peer, const struct bench *bench,
                   const struct bench_shape *shape, uint64_t loops, double values[BENCH_MAX_VALUES],
                   double *ticks);

/* ---- in the process of the peer -------------------------------------------------------------- */

/* Opens the library of this lane; false with a sentence in why. */
bool bench_peer_open(const char *lane, struct bench_peer_calls *calls, char *why, size_t size);

/* Answers requests on standard input until it ends. Returns an exit status. */
int bench_peer_serve(struct bench *bench, const char *lane);

#endif
