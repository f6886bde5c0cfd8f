/* SPDX-License-Identifier: MIT */
/*
 * A shared pool for tests, with its clients in one process: the metadata are one piece of memory
 * that is mapped twice at different addresses, and each client has a handle of its own on one of
 * the two. Skips the test, visibly, where there are no shared pools. Include cmocka.h first.
 */
#ifndef DECKLE_TESTS_SUPPORT_SHARED_POOL_H
#define DECKLE_TESTS_SUPPORT_SHARED_POOL_H

#include <deckle.h>
#include <deckle/shared.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHARED_CLIENTS 6u

struct shared_pool;

struct shared_client {
    struct shared_pool *pool;
    void *memory; /* of the handle */
    struct deckle *d;
    uint32_t number;
    uint32_t cpu;     /* what the cpu hook says */
    unsigned reports; /* calls of the bad hook */
    enum deckle_bad last;
};

struct shared_pool {
    unsigned char *map[2];
    size_t size;
    uint64_t alive; /* bit per client number: what client_alive says */
    bool asks;      /* hosts have a client_alive hook */
    struct shared_client client[SHARED_CLIENTS];
};

static inline uint32_t shared_cpu(void *ctx)
{
    return ((struct shared_client *)ctx)->cpu;
}

static inline void shared_bad(void *ctx, const struct deckle_bad_report *report)
{
    struct shared_client *c = ctx;
    c->reports++;
    c->last = report->what;
}

static inline int shared_alive(void *ctx, uint32_t client, uint64_t identity)
{
    struct shared_client *c = ctx;
    (void)identity;
    return (int)(c->pool->alive >> client & 1);
}

static inline bool shared_is_possible(void)
{
    volatile size_t bytes = sizeof(void *); /* a compiler that knows would warn of what follows */
    return bytes >= 8;
}

/* Memory, init, ranges, online; not published. */
static inline struct deckle *shared_pool_make(struct shared_pool *p,
                                              const struct deckle_config *cfg)
{
    struct deckle *d;
    FILE *file = tmpfile();

    memset(p, 0, sizeof(*p));
    p->size = (deckle_metadata_size(cfg) + 4095) & ~(size_t)4095;
    assert_true(p->size > 0);
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), (off_t)p->size), 0);
    for (unsigned i = 0; i < 2; i++) {
        p->map[i] = mmap(NULL, p->size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        assert_true((void *)p->map[i] != MAP_FAILED);
    }
    fclose(file);
    assert_int_equal(deckle_init(p->map[0], p->size, cfg, NULL, &d), DECKLE_OK);
    for (uint32_t i = 0; i < cfg->nr_ranges; i++)
        assert_int_equal(deckle_add_range(d, &cfg->ranges[i]), DECKLE_OK);
    assert_int_equal(deckle_online(d), DECKLE_OK);
    return d;
}

/* A handle for client i; not registered. */
static inline int shared_attach(struct shared_pool *p, unsigned i, uint32_t flags,
                                const char **reason)
{
    struct shared_client *c = &p->client[i];
    struct deckle_host host = {
        .size = sizeof(host), .ctx = c, .cpu = shared_cpu, .bad = shared_bad};
    size_t size = (deckle_handle_size() + 63) & ~(size_t)63;

    c->pool = p;
    if (p->asks)
        host.client_alive = shared_alive;
    if (!c->memory)
        c->memory = aligned_alloc(64, size);
    memset(c->memory, 0, size);
    c->d = NULL;
    return deckle_attach(c->memory, size, p->map[i % 2], p->size, &host, flags, reason, &c->d);
}

static inline void shared_join(struct shared_pool *p, unsigned i)
{
    const char *reason = "";
    int err = shared_attach(p, i, 0, &reason);

    if (err)
        fail_msg("attach: %s (%s)", deckle_strerror(err), reason);
    assert_int_equal(deckle_register(p->client[i].d, 1000 + i, &p->client[i].number), DECKLE_OK);
    p->alive |= UINT64_C(1) << p->client[i].number;
}

static inline void shared_pool_end(struct shared_pool *p)
{
    for (unsigned i = 0; i < SHARED_CLIENTS; i++)
        free(p->client[i].memory);
    munmap(p->map[0], p->size);
    munmap(p->map[1], p->size);
}

#endif
