/* SPDX-License-Identifier: MIT */
/*
 * A pool of Deckle for a benchmark: metadata and, where frames are to be touched, memory mapped
 * here, so that size and backing are known exactly.
 */
#ifndef DECKLE_TOOLS_BENCH_POOL_H
#define DECKLE_TOOLS_BENCH_POOL_H

#include <deckle.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum bench_backing {
    BENCH_BACKING_NONE, /* frames are numbers only */
    BENCH_BACKING_4K,   /* memory in 4 KiB pages, all touched before */
    BENCH_BACKING_2M    /* memory in transparent huge pages, all touched before */
};

#define BENCH_PAGE_SHIFT 12u

/* Where pools begin: above DMA32, so that a pool is one zone NORMAL. */
#define BENCH_FIRST_PFN (UINT64_C(1) << (32 - BENCH_PAGE_SHIFT))

struct bench_pool {
    struct deckle *d;
    void *metadata;
    size_t metadata_bytes;
    char *memory; /* of frame first_pfn; NULL = none */
    size_t memory_bytes;
    uint64_t first_pfn;
    double create_ns; /* what init, add_range and online took */
    uint64_t bad;     /* refused frees and corruption reported */
};

/* 0, or an exit status after a message. nr_cpus: CPU ids below it have caches. */
int bench_pool_open(struct bench_pool *pool, uint64_t bytes, uint32_t features, unsigned nr_cpus,
                    enum bench_backing backing);

/* Validates, drains, looks for what is still allocated. 0, or 1 after a message that begins with
 * name. */
int bench_pool_close(struct bench_pool *pool, const char *name);

/* The same without looking at anything. */
void bench_pool_drop(struct bench_pool *pool);

/* Bytes of the metadata that are backed by memory. */
uint64_t bench_pool_touched(const struct bench_pool *pool);

/* Memory of this backing, aligned to 2 MiB; NULL when there is none. Freed by munmap. */
char *bench_pool_map(size_t bytes, enum bench_backing backing);

#endif
