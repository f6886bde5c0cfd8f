/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * The Linux host's background threads: they reclaim and compact what users leave them, end with the
 * pool, and do not exist in a forked child.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <deckle/linux.h>
#include <deckle/pressure.h>

#include "hazard.h"

#define FRAMES 16384u

/* Frames of users behind one lock; all can be moved, those of the cache can be given up. */
struct users {
    struct deckle *d;
    pthread_mutex_t lock;
    uint64_t base;
    uint8_t has[FRAMES];      /* 1 = a user's, 2 = of the cache */
    uint64_t cached, moved, dropped;
    uint32_t hand;
};

static struct users u;

static uint64_t count(void *ctx, const struct deckle_shrink *shrink)
{
    (void)ctx, (void)shrink;
    pthread_mutex_lock(&u.lock);
    uint64_t n = u.cached;
    pthread_mutex_unlock(&u.lock);
    return n;
}

static int64_t scan(void *ctx, const struct deckle_shrink *shrink)
{
    int64_t freed = 0;
    (void)ctx;
    for (uint64_t looked = 0; looked < FRAMES && freed < (int64_t)shrink->nr_to_scan; looked++) {
        pthread_mutex_lock(&u.lock);
        uint32_t i = u.hand++ % FRAMES;
        bool mine = u.has[i] == 2;
        if (mine) {
            u.has[i] = 0;
            u.cached--;
            u.dropped++;
        }
        pthread_mutex_unlock(&u.lock);
        if (mine) {
            assert_int_equal(deckle_free(u.d, u.base + i, 0), DECKLE_OK);
            freed++;
        }
    }
    return freed;
}

static int migrate(void *ctx, const struct deckle_migration *move)
{
    int result = DECKLE_EBUSY;
    (void)ctx;
    pthread_mutex_lock(&u.lock);
    uint64_t from = move->from - u.base, to = move->to - u.base;
    if (u.has[from] && !move->order) {
        u.has[to] = u.has[from];
        u.has[from] = 0;
        u.moved++;
        result = DECKLE_OK;
    }
    pthread_mutex_unlock(&u.lock);
    return result;
}

static const struct deckle_shrinker shrinker = {
    .size = sizeof(shrinker), .count = count, .scan = scan};
static const struct deckle_pressure_hooks hooks = {.size = sizeof(hooks), .migrate = migrate};

static bool take(uint8_t as, uint32_t gfp)
{
    int64_t pfn = deckle_alloc(u.d, gfp | DECKLE_GFP_NOWARN, 0);
    if (pfn < 0)
        return false;
    pthread_mutex_lock(&u.lock);
    u.has[(uint64_t)pfn - u.base] = as;
    u.cached += as == 2;
    pthread_mutex_unlock(&u.lock);
    return true;
}

static struct deckle_zone_stat zone(void)
{
    struct deckle_zone_stat z = {.size = sizeof(z)};
    assert_int_equal(deckle_get_zone_stat(u.d, 0, &z), DECKLE_OK);
    return z;
}

static void create(uint32_t flags)
{
    struct deckle_create_options o = {.size = sizeof(o), .frames = FRAMES, .pressure = &hooks,
                                      .flags = flags | DECKLE_CREATE_RESERVE |
                                               DECKLE_CREATE_QUIET,
                                      .min_free_kbytes = 4096};
    memset(&u, 0, sizeof(u));
    pthread_mutex_init(&u.lock, NULL);
    int error = deckle_create(&o, &u.d);
    if (error)
        fail_msg("deckle_create: %s", deckle_error_name(error));
    u.base = (uint64_t)(uintptr_t)deckle_base(u.d, NULL) >> 12;
    assert_int_equal(deckle_register_shrinker(u.d, &shrinker), DECKLE_OK);
}

static void destroy(void)
{
    char text[400] = "";
    assert_int_equal(deckle_unregister_shrinker(u.d, &shrinker), DECKLE_OK);
    for (uint32_t i = 0; i < FRAMES; i++)
        if (u.has[i])
            assert_int_equal(deckle_free(u.d, u.base + i, 0), DECKLE_OK);
    if (deckle_validate(u.d, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(deckle_destroy(u.d), 0);
}

static bool within_seconds(unsigned seconds, bool (*condition)(void))
{
    for (unsigned i = 0; i < seconds * 100; i++) {
        if (condition())
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    return false;
}

/* Up to high, once; what was taken at the same time may have brought it down again, but not below
 * low, where the thread would have been woken. */
static bool reclaimed(void)
{
    struct deckle_zone_stat z = zone();
    pthread_mutex_lock(&u.lock);
    bool dropped = u.dropped > 0;
    pthread_mutex_unlock(&u.lock);
    return dropped && z.free > z.low;
}

/* The threads must be at rest before anybody counts. */
static void quiesce(void)
{
    while (deckle_unregister_shrinker(u.d, &shrinker) == DECKLE_EBUSY)
        continue;
    deckle_set_pressure_hooks(u.d, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    pthread_mutex_lock(&u.lock); /* what they did under it is seen from here on */
    pthread_mutex_unlock(&u.lock);
    assert_int_equal(deckle_register_shrinker(u.d, &shrinker), DECKLE_OK);
}

static void kswapd_reclaims(void **state)
{
    (void)state;
    create(DECKLE_CREATE_BACKGROUND);
    for (unsigned i = 0; i < 8000; i++)
        assert_true(take(2, GFP_M));
    while (zone().free > zone().low)
        assert_true(take(1, DECKLE_GFP_NOWAIT | DECKLE_GFP_MOVABLE | DECKLE_GFP_HIGHMEM));
    for (unsigned i = 0; i < 500; i++) /* what lies in lists is given out without a look at marks */
        take(1, DECKLE_GFP_NOWAIT | DECKLE_GFP_MOVABLE | DECKLE_GFP_HIGHMEM);
    assert_true(within_seconds(20, reclaimed));
    quiesce();
    destroy();
}

static bool little_fragmentation(void)
{
    return deckle_fragmentation_score(u.d, 0) < 30;
}

static void kcompactd_compacts(void **state)
{
    static const uint64_t all = 100;
    (void)state;
    create(DECKLE_CREATE_BACKGROUND);
    uint64_t taken = 0;
    while (zone().free > zone().high + 100 && take(1, GFP_M))
        taken++;
    for (uint32_t i = 0; i < FRAMES; i += 2) {
        pthread_mutex_lock(&u.lock);
        bool has = u.has[i];
        u.has[i] = 0;
        pthread_mutex_unlock(&u.lock);
        if (has)
            deckle_free(u.d, u.base + i, 0);
    }
    assert_int_equal(deckle_tunable_set(u.d, "compaction_proactiveness", &all, 1), DECKLE_OK);
    assert_true(within_seconds(30, little_fragmentation));
    quiesce();
    assert_true(u.moved > 100);
    destroy();
}

/* The thread's task: scopes, and no recursion without a hook of the user's. */
static void the_threads_own_task(void **state)
{
    (void)state;
    create(0);
    struct deckle_task *task = deckle_current_task();
    assert_int_equal(task->flags, 0);
    uint32_t was = deckle_memalloc_noreclaim_save(task);
    while (take(1, DECKLE_GFP_KERNEL))
        continue;
    assert_int_equal(zone().free, 0); /* all reserves */
    deckle_memalloc_noreclaim_restore(task, was);
    assert_int_equal(task->flags, 0);
    destroy();
}

/* In the child the threads do not exist; ending the pool there waits for nobody. */
static void fork_leaves_the_threads_behind(void **state)
{
    int status = -1;
    (void)state;
    create(DECKLE_CREATE_BACKGROUND);
    assert_true(take(1, GFP_M));
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        take(1, GFP_M);
        deckle_destroy(u.d);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    quiesce();
    destroy();
}

static void pressure_is_checked(void **state)
{
    struct deckle_pressure_hooks wrong = hooks;
    const char *reason = NULL;
    struct deckle *d = NULL;
    struct deckle_create_options o = {.size = sizeof(o), .frames = 1, .pressure = &wrong,
                                      .reason = &reason};
    (void)state;
    wrong.size = 3;
    assert_int_equal(deckle_create(&o, &d), DECKLE_EINVAL);
    assert_non_null(strstr(reason, "pressure"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kswapd_reclaims),
        cmocka_unit_test(kcompactd_compacts),
        cmocka_unit_test(the_threads_own_task),
        cmocka_unit_test(fork_leaves_the_threads_behind),
        cmocka_unit_test(pressure_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
