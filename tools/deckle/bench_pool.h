/* SPDX-License-Identifier: MIT */
/*
 * A pool of Deckle for a benchmark, made by deckle_create as a user would, with frames that are
 * addresses only or memory of a known backing.
 */
#ifndef DECKLE_TOOLS_BENCH_POOL_H
#define DECKLE_TOOLS_BENCH_POOL_H

#include <deckle.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_backing {
    BENCH_BACKING_NONE, /* addresses only: frames cannot be touched */
    BENCH_BACKING_4K,   /* memory in 4 KiB pages, all touched before */
    BENCH_BACKING_2M    /* memory in transparent huge pages, all touched before */
};

#define BENCH_PAGE_SHIFT 12u

struct bench_pool {
    struct deckle *d;
    char *memory; /* of frame first_pfn; NULL = none */
    uint64_t first_pfn;
    uint64_t metadata_bytes;
    double create_ns;
    uint64_t bad; /* refused frees and corruption reported */
};

/* 0, or an exit status after a message. The pool stays where it is until it is closed. */
int bench_pool_open(struct bench_pool *pool, uint64_t bytes, uint32_t features,
                    enum bench_backing backing);

/* The same with further options of deckle_create; bytes, features, pages, bad and ctx are set here.
 */
struct deckle_create_options;
int bench_pool_open_with(struct bench_pool *pool, uint64_t bytes, uint32_t features,
                         enum bench_backing backing, const struct deckle_create_options *more);

/* Validates, looks for what is still allocated. 0, or 1 after a message that begins with name. */
int bench_pool_close(struct bench_pool *pool, const char *name);

/* Bytes of the metadata that are backed by memory. */
uint64_t bench_pool_touched(const struct bench_pool *pool);

/* Memory of this backing, for references; NULL when there is none. Freed by munmap. */
char *bench_map(size_t bytes, enum bench_backing backing);

#endif
