/* SPDX-License-Identifier: MIT */
/*
 * Set-up at work while threads allocate and free: ranges come and go, frames are reserved, lists
 * are rebuilt. Every frame that is given out is stamped with its holder, and must belong to a range
 * that is there; at the end everything adds up. With both kinds of caches, and without.
 *
 * ctest: timeout=300 labels=threads
 */
#include "guarded_check.h"
#include "testing.h"

#include <pthread.h>
#include <sched.h>

#include "core/layout.h"
#include "host/linux/hosted.h"

enum { WORKERS = 4, SLOTS = 12, SLOT_FRAMES = 1536, HELD = 48 };

#define FRAMES (SLOTS * SLOT_FRAMES)

struct world {
    struct guarded g;
    struct hosted host; /* where hooks of the Linux host find what they need */
    dk_a8 stamp[FRAMES];
    dk_a8 there[SLOTS]; /* may frames of the range be given out? */
    dk_a32 stop, started;
    uint64_t rounds[WORKERS];
};

static struct world w;

struct worker {
    uint8_t id;
    uint64_t random;
    const char *wrong;
};

static bool is_base(unsigned slot)
{
    return slot % 4 == 0;
}

static struct deckle_range slot_range(unsigned slot)
{
    return (struct deckle_range){.pfn = 300 + SLOT_FRAMES * (uint64_t)slot, .nr = SLOT_FRAMES,
                                 .node = DECKLE_NODE(slot / 6)};
}

/* ---- workers ------------------------------------------------------------------------------- */

/* Mark the frames as the worker's; false if one is somebody's or may not be given out. */
static bool stamp(const struct worker *k, uint64_t pfn, unsigned order)
{
    bool good = true;

    for (uint64_t f = pfn - 300; f < pfn - 300 + (UINT64_C(1) << order); f++) {
        if (f >= FRAMES)
            return false;
        good &= dk_a8_load_acquire(&w.there[f / SLOT_FRAMES]) != 0;
        good &= dk_a8_exchange(&w.stamp[f], k->id) == 0;
    }
    return good;
}

static bool unstamp(const struct worker *k, uint64_t pfn, unsigned order)
{
    bool good = true;

    for (uint64_t f = pfn - 300; f < pfn - 300 + (UINT64_C(1) << order); f++)
        good &= dk_a8_exchange(&w.stamp[f], 0) == k->id;
    return good;
}

static void *work(void *arg)
{
    struct worker *k = arg;
    struct { uint64_t pfn; unsigned order; bool held; } block[HELD] = {{0}};
    uint64_t rounds = 0;

    dk_a32_add_relaxed(&w.started, 1);
    while (!k->wrong && (!dk_a32_load_relaxed(&w.stop) || rounds < 100)) {
        unsigned i = (unsigned)test_random_below(&k->random, HELD);

        rounds++;
        if (block[i].held) {
            block[i].held = false;
            if (!unstamp(k, block[i].pfn, block[i].order))
                k->wrong = "a block had two owners when it was freed";
            else if (deckle_free(w.g.d, block[i].pfn, block[i].order))
                k->wrong = "a good free was refused";
            continue;
        }
        unsigned order =
            (unsigned)test_random_below(&k->random, test_random_below(&k->random, 8) ? 2 : 10);
        int64_t pfn = deckle_alloc(w.g.d, DECKLE_GFP_HIGHUSER_MOVABLE, order);
        if (pfn < 0)
            continue;
        block[i].pfn = (uint64_t)pfn;
        block[i].order = order;
        block[i].held = true;
        if (!stamp(k, (uint64_t)pfn, order))
            k->wrong = "a frame was given out that is not there, or twice";
    }
    for (unsigned i = 0; i < HELD; i++)
        if (block[i].held && (!unstamp(k, block[i].pfn, block[i].order) ||
                              deckle_free(w.g.d, block[i].pfn, block[i].order)))
            k->wrong = "a block could not be given back";
    w.rounds[k->id - 1] = rounds;
    return NULL;
}

/* ---- set-up -------------------------------------------------------------------------------- */

struct counts {
    unsigned removed, busy, reserved;
};

static void change_something(uint64_t *random, struct counts *n)
{
    unsigned slot = (unsigned)test_random_below(random, SLOTS);
    struct deckle_range r = slot_range(slot);

    if (is_base(slot)) {
        uint64_t pfn = r.pfn + test_random_below(random, SLOT_FRAMES);
        if (test_random_below(random, 40) || n->reserved >= 20)
            return;
        int error = deckle_reserve_range(w.g.d, pfn, 1);
        assert_true(error == DECKLE_OK || error == DECKLE_EBUSY);
        n->reserved += error == DECKLE_OK;
        return;
    }
    if (!dk_a8_load_relaxed(&w.there[slot])) {
        assert_int_equal(deckle_add_range(w.g.d, &r), DECKLE_OK);
        dk_a8_store_release(&w.there[slot], 1);
        assert_int_equal(deckle_online(w.g.d), DECKLE_OK);
        return;
    }
    int error = deckle_remove_range(w.g.d, r.pfn, r.nr);
    assert_true(error == DECKLE_OK || error == DECKLE_EBUSY);
    if (!error)
        dk_a8_store_release(&w.there[slot], 0);
    n->removed += !error;
    n->busy += error != 0;
}

static void open_world(uint32_t features, bool rseq)
{
    static struct deckle_range r[SLOTS];
    struct deckle_host host;
    const char *reason = "";

    memset(&w, 0, sizeof(w));
    for (unsigned i = 0; i < SLOTS; i++) {
        r[i] = slot_range(i);
        dk_a8_store_relaxed(&w.there[i], 1);
    }
    struct deckle_config cfg = plain_config(r, SLOTS);
    cfg.nr_nodes = 2;
    cfg.nr_cpus = 8;
    cfg.max_order = 10;
    cfg.dma_limit_pfn = UINT64_MAX;
    cfg.features = features;
    w.host.flags = DECKLE_CREATE_RESERVE;
    hosted_hooks(&w.host, &host);
    host.rseq_usable = host.rseq_usable && rseq;
    assert_int_equal(deckle_config_check(&cfg, &reason), DECKLE_OK);
    guarded_map(&w.g, deckle_metadata_size(&cfg));
    assert_int_equal(deckle_init(w.g.memory, w.g.size, &cfg, &host, &w.g.d), DECKLE_OK);
    for (unsigned i = 0; i < SLOTS; i++)
        assert_int_equal(deckle_add_range(w.g.d, &r[i]), DECKLE_OK);
    assert_int_equal(deckle_online(w.g.d), DECKLE_OK);
}

static void live(uint32_t features, bool rseq)
{
    struct worker workers[WORKERS];
    pthread_t threads[WORKERS];
    struct counts n = {0};
    uint64_t random = test_seed(), frames = 0, rounds = 0;

    open_world(features, rseq);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = (struct worker){.id = (uint8_t)(i + 1), .random = random + i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    while (dk_a32_load_relaxed(&w.started) < WORKERS)
        sched_yield();
    for (uint64_t i = test_effort(4000); i > 0; i--)
        change_something(&random, &n);
    dk_a32_store_relaxed(&w.stop, 1);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < WORKERS; i++) {
        rounds += w.rounds[i];
        if (workers[i].wrong)
            fail_msg("%s", workers[i].wrong);
    }
    assert_int_equal(deckle_drain_all(w.g.d), DECKLE_OK);
    assert_valid(w.g.d);
    for (unsigned i = 0; i < SLOTS; i++)
        frames += dk_a8_load_relaxed(&w.there[i]) ? SLOT_FRAMES : 0;
    assert_true(sum_free(w.g.d) == frames - n.reserved);
    printf("%s: %u removals, %u refused, %u frames reserved, %llu allocations and frees\n",
           deckle_cache_kind(w.g.d), n.removed, n.busy, n.reserved, (unsigned long long)rounds);
    guarded_close(&w.g);
}

static void with_cells(void **state)
{
    (void)state;
    live(DECKLE_FEATURE_CELLS, false);
}

static void with_stacks(void **state)
{
    struct deckle_host host;
    struct hosted hosted = {0};
    (void)state;

    hosted_hooks(&hosted, &host);
    if (!host.rseq_usable) {
        printf("no restartable sequences here: not shown\n");
        skip();
    }
    live(0, true);
}

static void without_caches(void **state)
{
    (void)state;
    live(DECKLE_FEATURE_NO_CACHES, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_cells),
        cmocka_unit_test(with_stacks),
        cmocka_unit_test(without_caches),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
