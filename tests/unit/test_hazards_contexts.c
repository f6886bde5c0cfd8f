/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * Hazards of who calls when and where: signal handlers in the middle of the allocator, caches that
 * keep what others need, frames that only travel from one thread to another, memory that is mapped
 * elsewhere.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>

#include <deckle/linux.h>

#include "hazard.h"

/* A pool of the Linux host: real CPUs, restartable sequences where there are any. */
static struct deckle *real_pool(uint64_t frames, uint32_t features)
{
    struct deckle *d;
    struct deckle_create_options options = {.size = sizeof(options),
                                            .flags = DECKLE_CREATE_RESERVE | DECKLE_CREATE_QUIET,
                                            .frames = frames,
                                            .features = features,
                                            .min_free_kbytes = UINT64_MAX};
    int error = deckle_create(&options, &d);
    if (error)
        fail_msg("deckle_create: %s", deckle_error_name(error));
    return d;
}

/* All of it can be had as one again. */
static void whole_again(struct deckle *d, uint64_t frames)
{
    char text[400] = "";
    if (deckle_validate(d, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(deckle_drain_all(d), DECKLE_OK);
    assert_true(deckle_alloc_contig(d, GFP_M, frames, 1, 0, 0) >= 0);
    deckle_destroy(d);
}

/* ---- signals --------------------------------------------------------------------------------- */

static struct deckle *signal_pool;
static volatile sig_atomic_t hits, signal_faults;

/* Allocates and frees whatever the interrupted code was doing; what it took it gives back. */
static void on_alarm(int number)
{
    (void)number;
    int64_t single = deckle_alloc(signal_pool, GFP_U, 0);
    int64_t block = deckle_alloc(signal_pool, GFP_M, (uint32_t)(hits % 11));
    if (hits % 16 == 0)
        deckle_drain_all(signal_pool);
    if (single >= 0 && deckle_free(signal_pool, (uint64_t)single, 0))
        signal_faults++;
    if (block >= 0 && deckle_free(signal_pool, (uint64_t)block, (uint32_t)(hits % 11)))
        signal_faults++;
    if (single == DECKLE_ENOMEM || (single >= 0 && single == block))
        signal_faults++;
    hits++;
}

static void alarms(bool on)
{
    struct itimerval every = {{0, on ? 100 : 0}, {0, on ? 100 : 0}};
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

/* The interrupted code: all ways in and out, over and over. */
static void one_round(struct deckle *d, uint64_t *random)
{
    uint64_t pfns[40];
    unsigned order = (unsigned)test_random_below(random, 10);
    int64_t a = deckle_alloc(d, GFP_U, 0), b = deckle_alloc(d, GFP_M, order);
    int64_t c = deckle_alloc_exact(d, GFP_U, 13);
    memset(pfns, 0xff, sizeof(pfns));
    int64_t n = deckle_alloc_bulk(d, GFP_U, pfns, 40);
    if (a >= 0)
        assert_int_equal(deckle_free(d, (uint64_t)a, 0), DECKLE_OK);
    if (b >= 0)
        assert_int_equal(deckle_free(d, (uint64_t)b, order), DECKLE_OK);
    if (c >= 0)
        assert_int_equal(deckle_free_exact(d, (uint64_t)c, 13), DECKLE_OK);
    if (n > 0)
        assert_int_equal(deckle_free_bulk(d, pfns, (size_t)n), n);
    if (!test_random_below(random, 30))
        deckle_drain_all(d);
}

static void interrupted(uint32_t features, const char *kind)
{
    uint64_t random = test_seed();
    signal_pool = real_pool(8192, features);
    if (strcmp(deckle_cache_kind(signal_pool), kind)) {
        printf("caches of kind %s cannot be used here: skipped\n", kind);
        deckle_destroy(signal_pool);
        skip();
    }
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART}, old;
    sigaction(SIGALRM, &action, &old);
    hits = signal_faults = 0;
    alarms(true);
    int want = (int)test_effort(4000);
    for (uint64_t rounds = 0; hits < want && rounds < test_effort(3000000); rounds++)
        one_round(signal_pool, &random);
    alarms(false);
    sigaction(SIGALRM, &old, NULL);
    printf("%d signals\n", (int)hits);
    assert_int_equal(signal_faults, 0);
    assert_true(hits >= want / 4);
    whole_again(signal_pool, 8192);
}

static void h069_reentry_from_signal_cells(void **state)
{
    (void)state;
    interrupted(DECKLE_FEATURE_CELLS, "cells");
}
static void h069_reentry_from_signal_rseq(void **state)
{
    (void)state;
    interrupted(0, "rseq");
}
static void h069_reentry_from_signal_no_caches(void **state)
{
    (void)state;
    interrupted(DECKLE_FEATURE_NO_CACHES, "none");
}

/* ---- caches ---------------------------------------------------------------------------------- */

/* N frames and N CPUs: whatever the caches of the others keep, any CPU gets all of it. */
static void h079_n_frames_n_cpus(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 32, 300, 4096};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct hazard_pool h;
        struct deckle_range range = {.pfn = 0, .nr = sizes[i]};
        struct deckle_config cfg = hazard_config(&range, 1);
        cfg.nr_cpus = 32;
        hazard_open(&h, &cfg, false);
        static uint64_t pfns[4096];
        for (uint32_t cpu = 0; cpu <= 32; cpu += 8) { /* the last has no caches */
            for (uint32_t n = 0; n < sizes[i]; n++) {
                h.p.cpu = (cpu + n) % 32;
                pfns[n] = hazard_alloc(&h, n & 1 ? GFP_U : GFP_M, 0);
            }
            for (uint32_t n = 0; n < sizes[i]; n++) {
                h.p.cpu = (cpu + n * 7) % 32;
                assert_int_equal(deckle_free(h.d, pfns[n], 0), DECKLE_OK);
            }
            h.p.cpu = cpu;
            for (uint32_t n = 0; n < sizes[i]; n++)
                pfns[n] = hazard_alloc(&h, GFP_R, 0);
            assert_int_equal(deckle_alloc(h.d, GFP_R, 0), DECKLE_ENOMEM);
            for (uint32_t n = 0; n < sizes[i]; n++)
                assert_int_equal(deckle_free(h.d, pfns[n], 0), DECKLE_OK);
        }
        hazard_close(&h);
    }
}

/* Lists of every order, type and CPU are filled; a drain leaves the pool as if nobody had used
 * it. */
static void h081_drain_reaches_everything(void **state)
{
    (void)state;
    static const uint32_t gfps[] = {GFP_U, GFP_M, GFP_R};
    struct hazard_pool h;
    struct deckle_range range = {.pfn = 0, .nr = 65536};
    struct deckle_config cfg = hazard_config(&range, 1);
    cfg.nr_cpus = 4;
    hazard_open(&h, &cfg, false);
    uint64_t cached = 0;
    for (unsigned round = 0; round < 3; round++) {
        for (h.p.cpu = 0; h.p.cpu < 4; h.p.cpu++) {
            for (unsigned order = 0; order <= 10; order++) {
                for (unsigned type = 0; type < 3; type++) {
                    uint64_t pfns[6];
                    for (unsigned n = 0; n < 6; n++)
                        pfns[n] = hazard_alloc(&h, gfps[type], order);
                    for (unsigned n = 0; n < 6; n++)
                        assert_int_equal(deckle_free(h.d, pfns[n], order), DECKLE_OK);
                }
            }
        }
        cached += hazard_zone(&h, 0).cached;
        h.p.cpu = round;
        if (round)
            assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
        else
            for (uint32_t cpu = 0; cpu < 4; cpu++)
                assert_int_equal(deckle_drain_cpu(h.d, cpu), DECKLE_OK);
        struct deckle_zone_stat z = hazard_zone(&h, 0);
        assert_int_equal(z.cached, 0);
        assert_int_equal(z.free, 65536);
        assert_int_equal(z.free_blocks[10], 64);
    }
    assert_true(cached > 0);
    hazard_close(&h);
}

/* ---- one thread allocates, another frees ----------------------------------------------------- */

#define RING 4096u

static struct deckle *ring_pool;
static _Atomic uint64_t ring[RING]; /* pfn + 1 */
static uint64_t ring_frames;
static _Atomic unsigned ring_faults;

static void *consume(void *argument)
{
    (void)argument;
    for (uint64_t n = 0; n < ring_frames; n++) {
        uint64_t pfn;
        while (!(pfn = atomic_exchange_explicit(&ring[n % RING], 0, memory_order_acquire)))
            sched_yield();
        if (deckle_free(ring_pool, pfn - 1, 0))
            atomic_fetch_add(&ring_faults, 1);
    }
    return NULL;
}

/* 10^7 frames travel; a pool of little more than the ring holds at any time is enough for ever. */
static void h083_producer_consumer_stays_flat(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        pthread_t thread;
        ring_pool = real_pool(16384, kind ? DECKLE_FEATURE_CELLS : 0);
        ring_frames = test_effort(kind ? 1000000 : 10000000);
        assert_int_equal(pthread_create(&thread, NULL, consume, NULL), 0);
        for (uint64_t n = 0; n < ring_frames; n++) {
            int64_t pfn = deckle_alloc(ring_pool, GFP_U, 0);
            if (pfn < 0) {
                atomic_fetch_add(&ring_faults, 1);
                pfn = 0;
            }
            while (atomic_load_explicit(&ring[n % RING], memory_order_relaxed))
                sched_yield();
            atomic_store_explicit(&ring[n % RING], (uint64_t)pfn + 1, memory_order_release);
        }
        pthread_join(thread, NULL);
        assert_int_equal(ring_faults, 0);
        whole_again(ring_pool, 16384);
    }
}

/* ---- mappings -------------------------------------------------------------------------------- */

struct window {
    struct test_pool p;
    unsigned char *ram;
    int mapped;
};

/* Frame n lies where frame nr-1-n would be, and is mapped only between map and unmap. */
static void *window_map(void *ctx, uint64_t pfn)
{
    struct window *w = ctx;
    unsigned char *page = w->ram + (1023 - pfn) * 4096;
    w->mapped++;
    return mprotect(page, 4096, PROT_READ | PROT_WRITE) ? NULL : page;
}

static void window_unmap(void *ctx, uint64_t pfn, void *address)
{
    struct window *w = ctx;
    w->mapped--;
    if (address != w->ram + (1023 - pfn) * 4096 || mprotect(address, 4096, PROT_NONE))
        w->mapped += 1000;
}

static void h135_clearing_goes_through_the_map(void **state)
{
    (void)state;
    struct window w = {0};
    struct deckle_range range = {.pfn = 0, .nr = 1024};
    struct deckle_config cfg = hazard_config(&range, 1);
    struct deckle_host host = {.size = sizeof(host), .ctx = &w, .cpu = test_pool_cpu,
                               .bad = test_pool_bad, .map = window_map, .unmap = window_unmap};
    w.ram = mmap(NULL, 1024 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(w.ram != MAP_FAILED);
    memset(w.ram, 0x77, 1024 * 4096);
    assert_int_equal(mprotect(w.ram, 1024 * 4096, PROT_NONE), 0);
    size_t size = (deckle_metadata_size(&cfg) + 4095) & ~(size_t)4095;
    w.p.memory = aligned_alloc(4096, size);
    memset(w.p.memory, 0, size);
    assert_int_equal(deckle_init(w.p.memory, size, &cfg, &host, &w.p.d), DECKLE_OK);
    assert_int_equal(deckle_add_range(w.p.d, &range), DECKLE_OK);
    assert_int_equal(deckle_online(w.p.d), DECKLE_OK);
    int64_t pfn = deckle_alloc(w.p.d, GFP_U | DECKLE_GFP_ZERO, 2);
    int64_t other = deckle_alloc(w.p.d, GFP_U, 2);
    assert_int_equal(deckle_set_debug(w.p.d, DECKLE_DEBUG_POISON), 0);
    assert_int_equal(deckle_free(w.p.d, (uint64_t)other, 2), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(w.p.d, GFP_U, 512, 9), DECKLE_OK);
    assert_int_equal(w.mapped, 0);
    assert_int_equal(w.p.reports, 0);
    assert_int_equal(mprotect(w.ram, 1024 * 4096, PROT_READ), 0);
    for (int64_t n = 0; n < 1024; n++) {
        int want = n >= pfn && n < pfn + 4       ? 0
                   : n >= other && n < other + 4 ? (int)DECKLE_POISON_BYTE
                                                 : 0x77;
        assert_int_equal(w.ram[(1023 - n) * 4096], want);
        assert_int_equal(w.ram[(1023 - n) * 4096 + 4095], want);
    }
    munmap(w.ram, 1024 * 4096);
    free(w.p.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h069_reentry_from_signal_no_caches),
        cmocka_unit_test(h069_reentry_from_signal_cells),
        cmocka_unit_test(h069_reentry_from_signal_rseq),
        cmocka_unit_test(h079_n_frames_n_cpus),
        cmocka_unit_test(h081_drain_reaches_everything),
        cmocka_unit_test(h083_producer_consumer_stays_flat),
        cmocka_unit_test(h135_clearing_goes_through_the_map),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
