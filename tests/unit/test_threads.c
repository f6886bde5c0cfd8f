/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * Eight threads on few CPUs allocate and free everything the interface offers. Each frame has a
 * stamp that says who owns it: a frame with two owners is seen at once. Blocks change hands through
 * a table, so frames are freed on other CPUs than they came from; threads change CPUs at random;
 * caches are drained from outside. At the end everything is freed, the pool must validate and be as
 * full as it was.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include <deckle.h>

#include "testing.h"

#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && defined(__x86_64__)
#include <sys/rseq.h>
#define HAVE_RSEQ 1
#endif
#endif

#define THREADS 8u
#define NR      (48u * 512u)
#define TABLE   512u

enum { MEMBARRIER_EXPEDITED_RSEQ = 1 << 7, MEMBARRIER_REGISTER_RSEQ = 1 << 8 };

static struct deckle *pool;
static _Atomic uint32_t stamp[NR];
static _Atomic uint64_t table[TABLE]; /* (pfn << 8 | order) + 1, 0 = empty */
static _Atomic uint32_t faults;
static _Atomic uint32_t bad_reports;
static uint64_t seed;
static uint64_t steps;

static uint32_t cpu_hook(void *ctx)
{
    (void)ctx;
    int cpu = sched_getcpu();
    return cpu < 0 ? 0 : (uint32_t)cpu;
}

static int membarrier_hook(void *ctx)
{
    (void)ctx;
    return (int)syscall(SYS_membarrier, MEMBARRIER_EXPEDITED_RSEQ, 0, 0);
}

static void bad_hook(void *ctx, const struct deckle_bad_report *r)
{
    (void)ctx;
    if (!atomic_fetch_add(&bad_reports, 1))
        printf("bad: %s pfn 0x%llx order %u state 0x%x\n", deckle_bad_name(r->what),
               (unsigned long long)r->pfn, r->order, r->state);
}

static void own(uint64_t pfn, uint64_t nr, uint32_t who)
{
    for (uint64_t p = pfn; p < pfn + nr; p++) {
        uint32_t nobody = 0;
        if (!atomic_compare_exchange_strong(&stamp[p], &nobody, who) &&
            !atomic_fetch_add(&faults, 1))
            printf("frame 0x%llx of block 0x%llx+%llu given to %u belongs to %u\n",
                   (unsigned long long)p, (unsigned long long)pfn, (unsigned long long)nr, who,
                   nobody);
    }
}

static void disown(uint64_t pfn, uint64_t nr)
{
    for (uint64_t p = pfn; p < pfn + nr; p++)
        atomic_store(&stamp[p], 0);
}

static void release(uint64_t entry)
{
    uint64_t pfn = (entry - 1) >> 8;
    unsigned order = (unsigned)((entry - 1) & 0xff);
    disown(pfn, 1ull << order);
    if (deckle_free(pool, pfn, order))
        atomic_fetch_add(&faults, 1);
}

/* Put a block into a random place and free what was there. */
static void swap_in(uint64_t *random, uint64_t pfn, unsigned order)
{
    uint64_t old =
        atomic_exchange(&table[test_random_below(random, TABLE)], (pfn << 8 | order) + 1);
    if (old)
        release(old);
}

static void one_block(uint64_t *random, uint32_t who)
{
    static const uint32_t gfps[] = {DECKLE_GFP_KERNEL, DECKLE_GFP_HIGHUSER_MOVABLE,
                                    DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE};
    unsigned order = test_random_below(random, 3) ? 0 : (unsigned)test_random_below(random, 11);
    int64_t pfn = deckle_alloc(pool, gfps[test_random_below(random, 3)], order);
    if (pfn < 0) {
        uint64_t old = atomic_exchange(&table[test_random_below(random, TABLE)], 0);
        if (old)
            release(old);
        return;
    }
    own((uint64_t)pfn, 1ull << order, who);
    swap_in(random, (uint64_t)pfn, order);
}

static void bulk(uint64_t *random, uint32_t who)
{
    uint64_t pfns[100];
    size_t n = 1 + test_random_below(random, 100);
    memset(pfns, 0xff, sizeof(pfns));
    int64_t got = deckle_alloc_bulk(pool, DECKLE_GFP_KERNEL, pfns, n);
    for (int64_t i = 0; i < got; i++)
        own(pfns[i], 1, who);
    for (int64_t i = 0; i < got; i++)
        disown(pfns[i], 1);
    if (got > 0 && deckle_free_bulk(pool, pfns, (size_t)got) != (size_t)got)
        atomic_fetch_add(&faults, 1);
}

static void exact(uint64_t *random, uint32_t who)
{
    uint64_t nr = 1 + test_random_below(random, 1024);
    int64_t pfn = deckle_alloc_exact(pool, DECKLE_GFP_KERNEL, nr);
    if (pfn < 0)
        return;
    own((uint64_t)pfn, nr, who);
    disown((uint64_t)pfn, nr);
    if (deckle_free_exact(pool, (uint64_t)pfn, nr))
        atomic_fetch_add(&faults, 1);
}

static void split(uint64_t *random, uint32_t who)
{
    unsigned order = 1 + (unsigned)test_random_below(random, 10);
    int64_t pfn = deckle_alloc(pool, DECKLE_GFP_KERNEL, order);
    unsigned to = (unsigned)test_random_below(random, order);
    if (pfn < 0)
        return;
    own((uint64_t)pfn, 1ull << order, who);
    if (deckle_split(pool, (uint64_t)pfn, order, to))
        atomic_fetch_add(&faults, 1);
    for (uint64_t at = 0; at < 1ull << order; at += 1ull << to)
        swap_in(random, (uint64_t)pfn + at, to);
}

static cpu_set_t allowed; /* CPUs of the process, asked before a thread pins itself */

static void ask_allowed(void)
{
    sched_getaffinity(getpid(), sizeof(allowed), &allowed);
}

static void change_cpu(uint64_t *random)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    cpu_set_t all, one;

    pthread_once(&once, ask_allowed);
    all = allowed;
    int cpu = (int)test_random_below(random, 2);
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (CPU_COUNT(&all) < 2 || !CPU_ISSET(cpu, &all))
        return;
    pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static void *work(void *argument)
{
    uint32_t who = (uint32_t)(uintptr_t)argument;
    uint64_t random = seed + who * 0x10001ull;
    for (uint64_t i = 0; i < steps && !atomic_load(&faults); i++) {
        uint64_t what = test_random_below(&random, 1000);
        if (what < 900)
            one_block(&random, who);
        else if (what < 930)
            bulk(&random, who);
        else if (what < 960)
            exact(&random, who);
        else if (what < 985)
            split(&random, who);
        else if (what < 990)
            deckle_drain_all(pool);
        else
            change_cpu(&random);
    }
    return NULL;
}

static void stress(const char *kind, uint32_t features, uint32_t nr_cpus)
{
    struct deckle_range range = {.pfn = 0, .nr = NR};
    struct deckle_config cfg = {.size = sizeof(cfg), .features = features, .nr_cpus = nr_cpus,
                                .ranges = &range, .nr_ranges = 1};
    struct deckle_host host = {.size = sizeof(host), .cpu = cpu_hook, .bad = bad_hook};
    char text[512] = "";
#ifdef HAVE_RSEQ
    if (__rseq_size && !syscall(SYS_membarrier, MEMBARRIER_REGISTER_RSEQ, 0, 0)) {
        host.membarrier = membarrier_hook;
        host.rseq_offset = __rseq_offset;
        host.rseq_usable = 1;
    }
#else
    (void)membarrier_hook;
#endif
    size_t size = (deckle_metadata_size(&cfg) + 4095) & ~(size_t)4095;
    void *memory = aligned_alloc(4096, size);
    memset(memory, 0, size);
    assert_int_equal(deckle_init(memory, size, &cfg, &host, &pool), DECKLE_OK);
    assert_int_equal(deckle_add_range(pool, &range), DECKLE_OK);
    assert_int_equal(deckle_online(pool), DECKLE_OK);
    if (strcmp(kind, deckle_cache_kind(pool))) {
        printf("caches of kind %s cannot be used here: skipped\n", kind);
        free(memory);
        skip();
    }
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++)
        pthread_create(&threads[t], NULL, work, (void *)(t + 1));
    for (uint32_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (uint32_t i = 0; i < TABLE; i++) {
        uint64_t entry = atomic_exchange(&table[i], 0);
        if (entry)
            release(entry);
    }
    assert_int_equal(faults, 0);
    assert_int_equal(bad_reports, 0);
    if (deckle_validate(pool, text, sizeof(text)))
        fail_msg("before draining: %s", text);
    assert_int_equal(deckle_drain_all(pool), DECKLE_OK);
    if (deckle_validate(pool, text, sizeof(text)))
        fail_msg("after draining: %s", text);
    struct deckle_zone_stat z = {.size = sizeof(z)};
    struct deckle_stat s = {.size = sizeof(s)};
    uint64_t free_frames = 0;
    deckle_get_stat(pool, &s);
    for (uint32_t i = 0; i < s.nr_zones; i++) {
        deckle_get_zone_stat(pool, i, &z);
        free_frames += z.free;
    }
    assert_int_equal(free_frames, NR);
    assert_int_equal(deckle_exit(pool, NULL), 0);
    free(memory);
}

static void rseq_stacks(void **state)
{
    (void)state;
    stress("rseq", 0, 4);
}
static void rseq_stacks_one_cpu_without(void **state)
{
    (void)state;
    stress("rseq", 0, 1);
}
static void cells(void **state)
{
    (void)state;
    stress("cells", DECKLE_FEATURE_CELLS, 4);
}
static void no_caches(void **state)
{
    (void)state;
    stress("none", DECKLE_FEATURE_NO_CACHES, 4);
}

int main(void)
{
    seed = test_seed();
    steps = test_effort(60000);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rseq_stacks), cmocka_unit_test(rseq_stacks_one_cpu_without),
        cmocka_unit_test(cells), cmocka_unit_test(no_caches)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
