/* SPDX-License-Identifier: MIT */
/*
 * Modules beside the program that are opened when a table wants them, and copies of the library
 * among them: each with its own pools, called through pointers.
 */
#ifndef DECKLE_TOOLS_BENCH_MODULE_H
#define DECKLE_TOOLS_BENCH_MODULE_H

#include <deckle.h>
#include <deckle/linux.h>
#include <stdbool.h>

#include "bench_loops.h"

/* The module FILE in the folder of the running program; NULL if it is not there. Stays open. */
void *bench_module_open(const char *file);
/* false if it has no such symbol. to: a pointer to a function pointer. */
bool bench_module_find(void *module, const char *symbol, void *to);

/*
 * The state bytes of the first frames lie at the same offsets in their page as what the fast paths
 * read of the handle, which processors take for the same memory now and then, for a whole run: ten
 * cycles and more that would be put down to what is compared. So the first frames are set aside.
 */
#define BENCH_ASIDE 64u

/* A pool of a copy of the library, as the loops want it. */
struct bench_copy {
    struct deckle *d;
    int64_t (*alloc)(struct deckle *d, uint32_t gfp, uint32_t order);
    int (*release)(struct deckle *d, uint64_t pfn, uint32_t order);
    int64_t (*request)(struct deckle *d, const struct deckle_request *ask);
    uint64_t (*destroy)(struct deckle *d);
    struct deckle_request ask;   /* of bench_request_ops, without gfp and order */
    uint64_t aside[BENCH_ASIDE]; /* frames that were taken first and are kept */
    unsigned nr_aside;
};

/* Pairs and batches only: by deckle_alloc(), and by deckle_alloc_request(). */
extern const struct bench_ops bench_copy_ops, bench_request_ops;

/* name: of the copy, as in deckle-ablation-NAME.so. 0; or DECKLE_ENOENT (no such copy), or the
 * error of the pool. */
int bench_copy_open(struct bench_copy *copy, const char *name,
                    const struct deckle_create_options *options, uint32_t debug);
void bench_copy_close(struct bench_copy *copy);

#endif
