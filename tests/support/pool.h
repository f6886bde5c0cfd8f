/* SPDX-License-Identifier: MIT */
/*
 * A pool for tests: metadata from the C library, the calling CPU chosen by the test, every report
 * of the bad hook counted. Atomic cells, so that the same test runs on every machine.
 */
#ifndef DECKLE_TESTS_SUPPORT_POOL_H
#define DECKLE_TESTS_SUPPORT_POOL_H

#include <deckle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct test_pool {
    struct deckle *d;
    void *memory;
    size_t size;
    uint32_t cpu;                  /* what the cpu hook says */
    unsigned reports;              /* calls of the bad hook */
    struct deckle_bad_report last; /* the last of them */
};

static inline uint32_t test_pool_cpu(void *ctx)
{
    return ((struct test_pool *)ctx)->cpu;
}

static inline void test_pool_bad(void *ctx, const struct deckle_bad_report *report)
{
    struct test_pool *pool = ctx;

    pool->reports++;
    pool->last = *report;
}

/* Memory and deckle_init; the ranges of the configuration are not added. Ends the test on failure.
 */
static inline void test_pool_init(struct test_pool *pool, const struct deckle_config *cfg)
{
    struct deckle_host host = {.size = sizeof(host), .ctx = pool};
    const char *reason = NULL;
    int error;

    host.cpu = test_pool_cpu;
    host.bad = test_pool_bad;
    memset(pool, 0, sizeof(*pool));
    pool->size = deckle_metadata_size(cfg);
    if (!pool->size) {
        deckle_config_check(cfg, &reason);
        fprintf(stderr, "configuration refused: %s\n", reason ? reason : "?");
        exit(2);
    }
    pool->memory = aligned_alloc(4096, (pool->size + 4095) / 4096 * 4096);
    if (!pool->memory) {
        fprintf(stderr, "no memory for %zu bytes of metadata\n", pool->size);
        exit(2);
    }
    memset(pool->memory, 0, pool->size);
    error = deckle_init(pool->memory, pool->size, cfg, &host, &pool->d);
    if (error) {
        fprintf(stderr, "deckle_init: %s\n", deckle_strerror(error));
        exit(2);
    }
}

/* All of it: init, the ranges of cfg added, online. */
static inline void test_pool_open(struct test_pool *pool, const struct deckle_config *cfg)
{
    int error = DECKLE_OK;

    test_pool_init(pool, cfg);
    for (uint32_t i = 0; i < cfg->nr_ranges && !error; i++)
        error = deckle_add_range(pool->d, &cfg->ranges[i]);
    if (!error)
        error = deckle_online(pool->d);
    if (error) {
        fprintf(stderr, "adding ranges: %s\n", deckle_strerror(error));
        exit(2);
    }
}

static inline void test_pool_free(struct test_pool *pool)
{
    free(pool->memory);
    pool->memory = NULL;
    pool->d = NULL;
}

#endif
