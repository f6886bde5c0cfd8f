/* SPDX-License-Identifier: MIT */
/* ctest: timeout=180 */
/*
 * Threads under pressure: memory is full, but a cache can be given up and all of it can be moved.
 * Users that may reclaim never fail, users that must not fail do not, no frame has two owners, and
 * in the end everything is there again.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sched.h>

#include "machine.h"

#define THREADS 3u
#define FRAMES  16384u
#define HELD    200u /* frames that a thread holds at most */

enum { NOBODY, CACHED, USED };

/* What each frame is to its users, by the lock under which they free and hooks move. */
struct town {
    struct test_pool p;
    struct deckle *d;
    pthread_mutex_t lock;
    uint8_t is[FRAMES];
    uint32_t hand, cached;
    atomic_bool stop;
    atomic_ulong moves, drops, kills, huge, failed;
};

static struct town town;
static _Thread_local struct deckle_task own_task = {.size = sizeof(struct deckle_task)};
static _Thread_local uint32_t own_cpu;

static struct deckle_task *task(void *ctx)
{
    (void)ctx;
    return &own_task;
}

static uint32_t cpu(void *ctx)
{
    (void)ctx;
    return own_cpu;
}

static void wait(void *ctx, enum deckle_wait why, uint64_t ns)
{
    (void)ctx, (void)why, (void)ns;
    sched_yield();
}

static void wake(void *ctx, uint32_t node, enum deckle_daemon daemon)
{
    (void)ctx, (void)node, (void)daemon;
}

static void become(uint64_t pfn, uint8_t from, uint8_t to)
{
    pthread_mutex_lock(&town.lock);
    assert_int_equal(town.is[pfn - MACHINE_BASE], from);
    town.is[pfn - MACHINE_BASE] = to;
    town.cached += to == CACHED;
    pthread_mutex_unlock(&town.lock);
}

/* The next frame of the cache is nobody's now. */
static bool drop_one(void)
{
    bool found = false;
    uint32_t i = 0;
    pthread_mutex_lock(&town.lock);
    for (uint32_t n = 0; n < FRAMES && town.cached && !found; n++) {
        i = town.hand++ % FRAMES;
        found = town.is[i] == CACHED;
    }
    if (found) {
        town.is[i] = NOBODY;
        town.cached--;
    }
    pthread_mutex_unlock(&town.lock);
    if (found)
        assert_int_equal(deckle_free(town.d, MACHINE_BASE + i, 0), DECKLE_OK);
    return found;
}

static uint64_t count(void *ctx, const struct deckle_shrink *shrink)
{
    (void)ctx, (void)shrink;
    pthread_mutex_lock(&town.lock);
    uint32_t n = town.cached;
    pthread_mutex_unlock(&town.lock);
    return n;
}

static int64_t scan(void *ctx, const struct deckle_shrink *shrink)
{
    int64_t n = 0;
    (void)ctx;
    /* Shrinkers allocate too. */
    int64_t pfn = deckle_alloc(town.d, DECKLE_GFP_KERNEL | DECKLE_GFP_NOWARN, 0);
    if (pfn >= 0)
        assert_int_equal(deckle_free(town.d, (uint64_t)pfn, 0), DECKLE_OK);
    while ((uint64_t)n < shrink->nr_to_scan && drop_one())
        n++;
    atomic_fetch_add(&town.drops, (unsigned long)n);
    return n;
}

static int oom(void *ctx, const struct deckle_oom *info)
{
    (void)ctx, (void)info;
    atomic_fetch_add(&town.kills, 1);
    return drop_one();
}

static int migrate(void *ctx, const struct deckle_migration *move)
{
    uint64_t from = move->from - MACHINE_BASE, to = move->to - MACHINE_BASE;
    int result = DECKLE_EBUSY;
    (void)ctx;
    pthread_mutex_lock(&town.lock);
    if (town.is[from] == CACHED && !move->order) {
        assert_int_equal(town.is[to], NOBODY);
        town.is[to] = CACHED;
        town.is[from] = NOBODY;
        atomic_fetch_add(&town.moves, 1);
        result = DECKLE_OK;
    }
    pthread_mutex_unlock(&town.lock);
    return result;
}

static void grow_cache(unsigned n)
{
    while (n--) {
        int64_t pfn = deckle_alloc(town.d, (GFP_M | DECKLE_GFP_NOWARN) & ~DECKLE_GFP_DIRECT_RECLAIM,
                                   0);
        if (pfn < 0)
            return;
        become((uint64_t)pfn, NOBODY, CACHED);
    }
}

static void huge(void)
{
    int64_t pfn = deckle_alloc(town.d, GFP_M | DECKLE_GFP_RETRY_MAYFAIL | DECKLE_GFP_NOWARN, 9);
    if (pfn < 0)
        return;
    atomic_fetch_add(&town.huge, 1);
    for (uint64_t i = 0; i < 512; i++)
        become((uint64_t)pfn + i, NOBODY, USED);
    for (uint64_t i = 0; i < 512; i++)
        become((uint64_t)pfn + i, USED, NOBODY);
    assert_int_equal(deckle_free(town.d, (uint64_t)pfn, 9), DECKLE_OK);
}

static void *live(void *arg)
{
    uint64_t random = test_environment_number("DECKLE_TEST_SEED", 1) + (uintptr_t)arg;
    uint64_t held[HELD];
    unsigned nr = 0;
    own_cpu = (uint32_t)(uintptr_t)arg;
    for (uint64_t n = 0; n < test_effort(60000); n++) {
        static const uint32_t gfps[] = {DECKLE_GFP_KERNEL, GFP_R,
                                        DECKLE_GFP_KERNEL | DECKLE_GFP_NOFAIL};
        uint32_t gfp = gfps[test_random_below(&random, 3)];
        if (nr == HELD || (nr && test_random_below(&random, 2))) {
            uint64_t pfn = held[--nr];
            become(pfn, USED, NOBODY);
            assert_int_equal(deckle_free(town.d, pfn, 0), DECKLE_OK);
            continue;
        }
        int64_t pfn = deckle_alloc(town.d, gfp, 0);
        if (pfn < 0) {
            printf("%s\n", deckle_error_name((int)pfn));
            atomic_fetch_add(&town.failed, 1);
            continue;
        }
        become((uint64_t)pfn, NOBODY, USED);
        held[nr++] = (uint64_t)pfn;
        grow_cache(2);
        if (n % 512 == 0)
            huge();
    }
    while (nr) {
        become(held[--nr], USED, NOBODY);
        assert_int_equal(deckle_free(town.d, held[nr], 0), DECKLE_OK);
    }
    return NULL;
}

static void *work_in_the_background(void *arg)
{
    (void)arg;
    while (!atomic_load(&town.stop)) {
        deckle_reclaim_step(town.d, 0, NULL);
        deckle_compact_step(town.d, 0, NULL);
        sched_yield();
    }
    return NULL;
}

static void open_town(uint32_t features)
{
    static const struct deckle_range range = {.pfn = MACHINE_BASE, .nr = FRAMES};
    struct deckle_config cfg = hazard_config(&range, 1);
    struct deckle_host host = {.size = sizeof(host), .ctx = &town.p, .cpu = cpu,
                               .bad = test_pool_bad};
    cfg.nr_cpus = THREADS;
    cfg.features = features;
    cfg.min_free_kbytes = 2000;
    memset(&town, 0, sizeof(town));
    pthread_mutex_init(&town.lock, NULL);
    town.p.size = (deckle_metadata_size(&cfg) + 4095) & ~(size_t)4095;
    town.p.memory = aligned_alloc(4096, town.p.size);
    assert_non_null(town.p.memory);
    memset(town.p.memory, 0, town.p.size);
    assert_int_equal(deckle_init(town.p.memory, town.p.size, &cfg, &host, &town.d), DECKLE_OK);
    assert_int_equal(deckle_add_range(town.d, &range), DECKLE_OK);
    assert_int_equal(deckle_online(town.d), DECKLE_OK);
}

static void life_under_pressure(uint32_t features)
{
    static const struct deckle_shrinker shrinker = {
        .size = sizeof(shrinker), .count = count, .scan = scan};
    static const struct deckle_pressure_hooks hooks = {
        .size = sizeof(hooks), .task = task, .wait = wait, .wake = wake, .oom = oom,
        .migrate = migrate};
    pthread_t threads[THREADS], background;
    char text[400] = "";
    open_town(features);
    assert_int_equal(deckle_set_pressure_hooks(town.d, &hooks), DECKLE_OK);
    assert_int_equal(deckle_register_shrinker(town.d, &shrinker), DECKLE_OK);
    grow_cache(FRAMES);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, live, (void *)i);
    pthread_create(&background, NULL, work_in_the_background, NULL);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&town.stop, true);
    pthread_join(background, NULL);
    printf("%lu dropped, %lu moved, %lu huge blocks, %lu killed\n", atomic_load(&town.drops),
           atomic_load(&town.moves), atomic_load(&town.huge), atomic_load(&town.kills));
    assert_int_equal(atomic_load(&town.failed), 0);
    if (!atomic_load(&town.moves)) /* by chance everybody was served without */
        deckle_compact_node(town.d, 0, NULL);
    assert_true(atomic_load(&town.drops) > 0 && atomic_load(&town.moves) > 0);
    while (drop_one())
        continue;
    assert_int_equal(deckle_unregister_shrinker(town.d, &shrinker), DECKLE_OK);
    assert_int_equal(deckle_set_pressure_hooks(town.d, NULL), DECKLE_OK);
    assert_int_equal(deckle_drain_all(town.d), DECKLE_OK);
    if (deckle_validate(town.d, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(town.p.reports, 0);
    assert_true(deckle_alloc_contig(town.d, GFP_M, FRAMES, 1, 0, 0) >= 0);
    test_pool_free(&town.p);
}

static void with_cells(void **state)
{
    (void)state;
    life_under_pressure(0);
}

static void without_caches(void **state)
{
    (void)state;
    life_under_pressure(DECKLE_FEATURE_NO_CACHES);
}

static void with_tags_and_references(void **state)
{
    (void)state;
    life_under_pressure(DECKLE_FEATURE_OWNER_TAGS | DECKLE_FEATURE_DESCRIPTORS);
}

int main(void)
{
    test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_cells),
        cmocka_unit_test(without_caches),
        cmocka_unit_test(with_tags_and_references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
