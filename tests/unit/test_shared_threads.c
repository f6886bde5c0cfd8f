/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 labels=threads;effort */
/*
 * Shared pools under threads: clients that allocate, free, give blocks away and drain each other's
 * caches, while others come, take, stop for good and are reaped. At the end all is there again.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "shared_pool.h"
#include "testing.h"

#define GFP_U   DECKLE_GFP_KERNEL
#define GFP_M   DECKLE_GFP_HIGHUSER_MOVABLE
#define WORKERS 3u
#define MOST    40u

static const struct deckle_range range = {.pfn = 0, .nr = 24 * 512};
static struct shared_pool pool;
static uint64_t rounds, seed;
static _Atomic unsigned faults, working, reaped;

struct worker {
    unsigned client, number;
    uint64_t random;
    uint64_t pfn[MOST];
    unsigned order[MOST], nr;
};

static void drop(struct worker *w, unsigned i)
{
    if (deckle_free(pool.client[w->client].d, w->pfn[i], w->order[i]))
        faults++;
    w->nr--;
    w->pfn[i] = w->pfn[w->nr];
    w->order[i] = w->order[w->nr];
}

static void step(struct worker *w)
{
    struct deckle *d = pool.client[w->client].d;
    uint64_t r = test_random(&w->random);
    unsigned order = (unsigned)((r >> 8) % 24 < 14 ? 0 : (r >> 16) % 11);
    if ((r & 7) < 4 && w->nr < MOST) {
        int64_t pfn = deckle_alloc(d, r & 16 ? GFP_M : GFP_U, order);
        if (pfn < 0)
            return;
        w->pfn[w->nr] = (uint64_t)pfn;
        w->order[w->nr++] = order;
    } else if ((r & 7) < 7 && w->nr) {
        drop(w, (unsigned)(r >> 32) % w->nr);
    } else if ((r >> 40) % 64 == 0) {
        deckle_drain_all(d);
    }
}

/* Two threads a client. */
static void *work(void *arg)
{
    struct worker *w = arg;
    for (uint64_t i = 0; i < rounds; i++)
        step(w);
    while (w->nr)
        drop(w, 0);
    working--;
    return NULL;
}

/* A client that takes, gives something to the first one, and is never heard of again. */
static void visit(struct worker *w)
{
    struct shared_client *c = &pool.client[w->client];
    if (shared_attach(&pool, w->client, 0, NULL) || deckle_register(c->d, 5, &c->number)) {
        faults++;
        return;
    }
    w->nr = 0;
    for (unsigned i = 0; i < 60; i++)
        step(w);
    if (w->nr && deckle_transfer(c->d, w->pfn[0], w->order[0], 1)) {
        faults++;
    } else if (w->nr && deckle_free(pool.client[0].d, w->pfn[0], w->order[0])) {
        faults++; /* the first one has been told */
    }
}

static void *visit_and_die(void *arg)
{
    struct worker *w = arg;
    do { /* at least once, should the others be done already */
        struct deckle_reap_report report = {.size = sizeof(report)};
        int err;
        visit(w);
        do
            err = deckle_reap(pool.client[0].d, pool.client[w->client].number, &report);
        while (err == DECKLE_EBUSY || err == DECKLE_ECONTENDED);
        if (err)
            faults++;
        reaped++;
    } while (working);
    return NULL;
}

static void many(uint32_t features)
{
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = DECKLE_FEATURE_SHARED | features,
                                .nr_cpus = 2,
                                .ranges = &range,
                                .nr_ranges = 1,
                                .pcp_capacity = 32,
                                .min_free_kbytes = UINT64_MAX,
                                .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = UINT64_MAX};
    pthread_t threads[2 * WORKERS + 2];
    static struct worker workers[2 * WORKERS + 2];
    char text[300];
    assert_int_equal(deckle_publish(shared_pool_make(&pool, &cfg)), DECKLE_OK);
    for (unsigned i = 0; i < WORKERS; i++) {
        shared_join(&pool, i);
        pool.client[i].cpu = i & 1;
    }
    working = 2 * WORKERS;
    for (unsigned i = 0; i < 2 * WORKERS + 2; i++) {
        bool visitor = i >= 2 * WORKERS;
        workers[i] = (struct worker){.client = visitor ? i - WORKERS : i / 2, .random = seed + i};
        assert_int_equal(
            pthread_create(&threads[i], NULL, visitor ? visit_and_die : work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < 2 * WORKERS + 2; i++)
        pthread_join(threads[i], NULL);
    printf("%u clients reaped\n", reaped);
    assert_int_equal(faults, 0);
    assert_true(reaped > 0);
    if (deckle_validate(pool.client[0].d, text, sizeof(text)))
        fail_msg("%s", text);
    for (unsigned i = 1; i < WORKERS; i++)
        assert_int_equal(deckle_detach(pool.client[i].d), 0);
    assert_int_equal(deckle_drain_all(pool.client[0].d), DECKLE_OK);
    for (uint64_t pfn = 0; pfn < range.nr; pfn += 1024)
        assert_true(deckle_alloc(pool.client[0].d, GFP_U, 10) >= 0);
    assert_int_equal(pool.client[0].reports, 0);
    shared_pool_end(&pool);
}

static void with_caches(void **state)
{
    (void)state;
    many(0);
}

static void without_caches(void **state)
{
    (void)state;
    many(DECKLE_FEATURE_NO_CACHES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(with_caches),
                                       cmocka_unit_test(without_caches)};
    if (!shared_is_possible()) {
        printf("skipped: shared pools need 64-bit words\n");
        return TEST_SKIPPED;
    }
    seed = test_seed();
    rounds = test_effort(400000);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
