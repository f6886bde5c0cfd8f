/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU caches under threads: more threads than CPUs, moved between CPUs at random, interrupted
 * by signals whose handler allocates and frees, with drains of any CPU's lists at any time and a
 * zone that is closed and opened. Every frame carries the stamp of its owner: two owners, a lost
 * frame, a frame that cannot be reached although enough are free, or a wrong count is a fault. Both
 * kinds of caches; the stacks with the struct rseq that libc registered, or skipped where there is
 * none.
 *
 * Sanitizers see nothing of the sequences: the stamps are the check.
 *
 * ctest: timeout=120 labels=threads
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<sys/rseq.h>) && __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#include <sys/rseq.h>
#define HAVE_LIBC_RSEQ 1
#endif
#endif

#include "pcp_fixture.h"
#include "testing.h"

#define THREADS 8u
#define MINE    150u /* blocks that a thread holds at most, and frames */
#define FRAMES  (THREADS * (MINE + 2 * DK_REFILL_MAX) + 1024)

struct worker {
    pthread_t thread;
    unsigned id;
    uint64_t seed;
    uint64_t allocs, frees, direct, failed, drains, contended;
    /* what the signal handler did, apart so that it does not race with what it interrupts */
    uint64_t more_allocs, more_frees, more_direct;
    volatile sig_atomic_t in_handler;
    _Atomic int started;
};

static struct fixture *f;
static struct worker workers[THREADS];
static dk_a8 owner[FRAMES]; /* 1 + worker, 0 = nobody */
static dk_a32 stop_now;
static int cpu_ids[2];
static __thread struct worker *self;

static void stamp(struct worker *w, uint32_t fi, unsigned order, bool take)
{
    uint8_t me = (uint8_t)(w->id + 1);
    for (uint32_t i = fi; i < fi + (1u << order); i++) {
        if (dk_a8_exchange(&owner[i], take ? me : 0) != (take ? 0 : me))
            fixture_fault(take ? "given out while somebody has it" : "lost its owner", i);
    }
}

/* Order 0 must not fail: the threads together never hold so much. */
static uint32_t allocate(struct worker *w, unsigned list, uint64_t *direct)
{
    for (unsigned tries = 0; tries < 100000; tries++) {
        uint64_t moved = 0;
        uint32_t fi = fixture_alloc(f, list, direct);
        if (fi != DK_NONE) {
            stamp(w, fi, list / DK_PCP_TYPES, true);
            return fi;
        }
        if (list / DK_PCP_TYPES && tries)
            return DK_NONE;
        int r = dk_pcp_drain_zone(&f->d, &f->zone, &moved);
        if (r == DECKLE_ECONTENDED)
            w->contended++;
        else if (r)
            fixture_fault("a drain failed", (uint32_t)-r);
    }
    fixture_fault("cannot be reached: an order-0 allocation failed for good", 0);
}

static void release(struct worker *w, unsigned list, uint32_t fi)
{
    stamp(w, fi, list / DK_PCP_TYPES, false);
    fixture_release(f, list, fi);
}

static void on_signal(int number)
{
    struct worker *w = self;
    (void)number;
    if (!w || w->in_handler)
        return;
    w->in_handler = 1;
    uint32_t fi = allocate(w, 0, &w->more_direct);
    release(w, 0, fi);
    w->more_allocs++;
    w->more_frees++;
    w->in_handler = 0;
}

static void move_somewhere(uint64_t random)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (random % 3 != 0)
        CPU_SET(cpu_ids[0], &set);
    if (random % 3 != 1)
        CPU_SET(cpu_ids[1], &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* Only worker 0: closing is set-up. Nothing may be cached while the zone is closed. */
static void close_for_a_while(void)
{
    uint64_t cached;
    dk_pcp_close(&f->d, &f->zone);
    for (unsigned i = 0; i < 20; i++) {
        dk_pcp_versions(&f->d, &f->zone, &cached);
        if (cached)
            fixture_fault("cached in a closed zone", (uint32_t)cached);
        sched_yield();
    }
    dk_pcp_open(&f->d, &f->zone);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct { uint32_t fi; unsigned list; } mine[MINE];
    unsigned n = 0, frames = 0;

    self = w;
    w->started = 1;
    while (!dk_a32_load_relaxed(&stop_now)) {
        uint64_t r = test_random(&w->seed);
        if (r % 512 == 0)
            move_somewhere(r >> 32);
        if ((r >> 9) % 2048 == 0) {
            w->drains++;
            dk_pcp_drain_cpu(&f->d, &f->zone, (uint32_t)cpu_ids[(r >> 40) % 2], NULL);
        }
        if (w->id == 0 && (r >> 20) % 16384 == 0)
            close_for_a_while();
        bool alloc = (r >> 40) % 16 < ((r >> 50) % 2 ? 9 : 7);
        if (alloc && n < MINE && frames + 8 <= MINE) {
            unsigned list = (r >> 44) % 8 ? (unsigned)(r >> 52) % 2 : (unsigned)(r >> 52) % 12;
            uint32_t fi = allocate(w, list, &w->direct);
            if (fi == DK_NONE) {
                w->failed++;
                continue;
            }
            w->allocs++;
            frames += 1u << (list / DK_PCP_TYPES);
            mine[n].fi = fi;
            mine[n++].list = list;
        } else if (!alloc && n) {
            unsigned at = (unsigned)(r >> 32) % n;
            release(w, mine[at].list, mine[at].fi);
            w->frees++;
            frames -= 1u << (mine[at].list / DK_PCP_TYPES);
            mine[at] = mine[--n];
        }
    }
    while (n) {
        n--;
        release(w, mine[n].list, mine[n].fi);
        w->frees++;
    }
    return NULL;
}

/* All frames are back, each once, and the counts are those of the workers. */
static void check_the_end(void)
{
    uint64_t allocs = 0, frees = 0, direct = 0, pops = 0, pushes = 0;
    for (unsigned i = 0; i < THREADS; i++) {
        allocs += workers[i].allocs + workers[i].more_allocs;
        frees += workers[i].frees + workers[i].more_frees;
        direct += workers[i].direct + workers[i].more_direct;
    }
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++) {
        uint32_t sizes = 0;
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            struct dk_pcp_list_stat s;
            dk_pcp_list_stat(&f->d, 0, cpu, list, &s);
            pops += s.pops;
            pushes += s.pushes;
            sizes += s.high << (list / DK_PCP_TYPES);
            assert_true(s.held <= s.capacity);
        }
        for (unsigned order = 0; order <= 10; order++)
            pushes += dk_counter_read(&dk_set(&f->d, 0, cpu)->direct_frees[order]);
        assert_int_equal(sizes, dk_a32_load_relaxed(&dk_set(&f->d, 0, cpu)->pages_high));
    }
    assert_int_equal(allocs, frees);
    assert_int_equal(pops + direct, allocs);
    assert_int_equal(pushes, frees);
    assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, NULL), DECKLE_OK);
    assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
    for (uint32_t fi = 0; fi < FRAMES; fi++)
        assert_int_equal(dk_a8_load_relaxed(&f->out[fi]), 0);
}

static uint32_t real_cpu(void *ctx)
{
    int cpu = sched_getcpu();
    (void)ctx;
    return cpu < 0 ? 0 : (uint32_t)cpu;
}

#ifdef HAVE_LIBC_RSEQ
static int real_membarrier(void *ctx)
{
    (void)ctx;
    return (int)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0);
}
#endif

/* Point the fixture at the real machine; false where it has no restartable sequences. */
static bool use_real_cpus(enum dk_pcp_kind kind)
{
    f->d.host.cpu = real_cpu;
    f->d.host.rseq_usable = 0;
    if (kind != DK_PCP_RSEQ)
        return true;
#ifdef HAVE_LIBC_RSEQ
    if (!__rseq_size ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0))
        return false;
    f->d.rseq_offset = f->d.host.rseq_offset = __rseq_offset;
    f->d.host.rseq_usable = 1;
    f->d.host.membarrier = real_membarrier;
    return true;
#else
    return false;
#endif
}

/* Lists as large as in a big zone, so that they could swallow all there is. */
static void use_large_lists(void)
{
    dk_store_relaxed(&f->zone.managed, 1u << 20);
    dk_store_relaxed(&f->zone.low, 0);
    dk_store_relaxed(&f->zone.high, 0);
    dk_pcp_resize(&f->d, &f->zone);
}

static void interrupt_them(uint64_t milliseconds, uint64_t *seed)
{
    struct timespec nap = {0, 1000000};
    for (uint64_t i = 0; i < milliseconds; i++) {
        nanosleep(&nap, NULL);
        struct worker *w = &workers[test_random_below(seed, THREADS)];
        if (w->started)
            pthread_kill(w->thread, SIGUSR1);
    }
}

static void run(enum dk_pcp_kind kind)
{
    uint64_t seed = test_seed(), duration = test_effort(2500);
    struct sigaction action = {.sa_handler = on_signal};

    f = fixture_make(kind, FRAMES, (uint32_t)cpu_ids[1] + 1);
    if (!use_real_cpus(kind)) {
        print_message("skipped: no struct rseq registered by libc, or no membarrier for it\n");
        fixture_free(f);
        skip();
    }
    use_large_lists();
    sigaction(SIGUSR1, &action, NULL);
    memset(workers, 0, sizeof workers);
    dk_a32_store_relaxed(&stop_now, 0);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i].id = i;
        workers[i].seed = test_random(&seed);
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    interrupt_them(duration < 9000 ? duration : 9000, &seed);
    dk_a32_store_relaxed(&stop_now, 1);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(workers[i].thread, NULL);
    check_the_end();
    struct worker sum = {0};
    for (unsigned i = 0; i < THREADS; i++) {
        sum.allocs += workers[i].allocs;
        sum.more_allocs += workers[i].more_allocs;
        sum.drains += workers[i].drains;
        sum.contended += workers[i].contended;
    }
    print_message("%llu allocations, %llu in handlers, %llu drains, ",
                  (unsigned long long)sum.allocs, (unsigned long long)sum.more_allocs,
                  (unsigned long long)sum.drains);
    print_message("%llu rounds disturbed, %llu contended\n",
                  (unsigned long long)dk_counter_read(&f->sb.drain_retries),
                  (unsigned long long)sum.contended);
    fixture_free(f);
}

static void threads_on_cells(void **state)
{
    (void)state;
    run(DK_PCP_CELLS);
}

static void threads_on_stacks(void **state)
{
    (void)state;
    if (!fixture_has(DK_PCP_RSEQ))
        skip();
    run(DK_PCP_RSEQ);
}

/* The first two CPUs that we may use, or the same twice. */
static void find_cpus(void)
{
    cpu_set_t set;
    int found = 0;
    sched_getaffinity(0, sizeof set, &set);
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpu_ids[found++] = cpu;
    if (found == 1)
        cpu_ids[1] = cpu_ids[0];
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_on_cells),
        cmocka_unit_test(threads_on_stacks),
    };
    find_cpus();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
