/* SPDX-License-Identifier: MIT */
/*
 * Pools that deckle_create makes: addresses, alignment, hooks, reports, sanitizers, fork, memory
 * that may not be touched, and what is refused. Parts that this machine cannot show say so and are
 * skipped.
 *
 * ctest: timeout=120
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <deckle/linux.h>

#include "testing.h"

#if defined(__has_feature) /* clang says it this way */
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#define WIDE (sizeof(void *) >= 8) /* addresses for many GiB */

/* An emulator keeps tables of what it maps, so that much address space takes memory, and what the
 * process uses is not what the test uses. */
static bool emulated(void)
{
    return test_emulated();
}

static struct deckle *make(struct deckle_create_options o)
{
    struct deckle *d = NULL;
    const char *reason = NULL;
    int error;

    o.size = sizeof(o);
    o.reason = &reason;
    error = deckle_create(&o, &d);
    if (error)
        fail_msg("deckle_create: %s: %s", deckle_strerror(error), reason ? reason : "?");
    return d;
}

static void assert_valid(struct deckle *d)
{
    char why[256];
    int error = deckle_validate(d, why, sizeof(why));

    if (error)
        fail_msg("%s: %s", deckle_error_name(error), why);
}

static void move_to(int cpu)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void frames_and_addresses(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 10 << 20});
    uint64_t bytes = 0;
    unsigned char *base = deckle_base(d, &bytes);
    (void)state;

    assert_true(bytes == 10 << 20);
    int64_t first = deckle_pfn(d, base), last = deckle_pfn(d, base + bytes - 1);
    assert_true(first >= 0 && last - first == 2559);
    assert_ptr_equal(deckle_address(d, (uint64_t)first), base);
    assert_null(deckle_address(d, (uint64_t)first - 1));
    assert_null(deckle_address(d, (uint64_t)last + 1));
    assert_null(deckle_address(d, 0));
    assert_null(deckle_address(d, UINT64_MAX));
    assert_true(deckle_pfn(d, base - 1) == DECKLE_ENOENT);
    assert_true(deckle_pfn(d, base + bytes) == DECKLE_ENOENT);
    assert_true(deckle_pfn(d, NULL) == DECKLE_ENOENT);
    assert_true(deckle_pfn(NULL, base) == DECKLE_EINVAL);
    assert_null(deckle_address(NULL, 0));
    assert_null(deckle_base(NULL, &bytes));

    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 3);
    unsigned char *memory = deckle_address(d, (uint64_t)pfn);
    memset(memory, 0x5a, 8 * 4096);
    /* 129: an address with an offset names its frame */
    for (unsigned offset = 0; offset < 8 * 4096; offset += 256)
        assert_true(deckle_pfn(d, memory + offset) == pfn + offset / 4096);
    assert_int_equal(deckle_free(d, (uint64_t)deckle_pfn(d, memory + 256), 3), DECKLE_OK);
    assert_true(deckle_destroy(d) == 0);
    assert_true(deckle_destroy(NULL) == 0);
}

static void h021_addresses_have_the_alignment_of_blocks(void **state)
{
    static const unsigned max_orders[] = {0, 9, 12, 14};
    (void)state;

    for (unsigned i = 0; i < 4; i++) {
        for (unsigned shift = 12; shift <= (WIDE ? 16 : 12); shift += 2) {
            struct deckle *d = make((struct deckle_create_options){
                .frames = 40000, .max_order = max_orders[i], .page_shift = shift,
                .min_free_kbytes = UINT64_MAX, .flags = DECKLE_CREATE_RESERVE});
            for (unsigned order = 0; order <= deckle_max_order(d); order++) {
                for (unsigned n = 0; n < 3; n++) {
                    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, order);
                    if (pfn < 0)
                        break;
                    uintptr_t address = (uintptr_t)deckle_address(d, (uint64_t)pfn);
                    assert_true(address % ((uintptr_t)1 << (order + shift)) == 0);
                    assert_true((uint64_t)pfn % (UINT64_C(1) << order) == 0);
                }
            }
            assert_valid(d);
            deckle_exit(d, NULL); /* the blocks are left behind on purpose */
            deckle_destroy(d);
        }
    }
}

/* The same frames at two different addresses give the same ones, in the same order, to one CPU. */
static void h023_the_address_decides_nothing(void **state)
{
    cpu_set_t all;
    struct deckle_create_options o = {.frames = 5000, .max_order = 9,
                                      .features = DECKLE_FEATURE_NO_CACHES};
    struct deckle *a = make(o), *b = make(o);
    uint64_t random = test_seed();
    (void)state;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    move_to(sched_getcpu());
    int64_t first_a = deckle_pfn(a, deckle_base(a, NULL));
    int64_t first_b = deckle_pfn(b, deckle_base(b, NULL));
    assert_true(first_a != first_b);
    for (;;) {
        unsigned order = (unsigned)test_random_below(&random, 4);
        int64_t x = deckle_alloc(a, DECKLE_GFP_KERNEL, order);
        int64_t y = deckle_alloc(b, DECKLE_GFP_KERNEL, order);
        if (x < 0) {
            assert_true(x == y);
            break;
        }
        assert_true(x - first_a == y - first_b);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    deckle_exit(a, NULL);
    deckle_exit(b, NULL);
    deckle_destroy(a);
    deckle_destroy(b);
}

static void sizes_are_rounded_up(void **state)
{
    static const struct { uint64_t bytes; unsigned shift; uint64_t frames;
    } cases[] = {
        {1, 12, 1},     {4096, 12, 1}, {4097, 12, 2},
        {65537, 16, 2}, {1, 21, 1},    {(3 << 20) + 1, 21, 2},
    };
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct deckle_stat s = {.size = sizeof(s)};
        if (cases[i].shift > 16 && !WIDE)
            continue;
        struct deckle *d = make((struct deckle_create_options){.bytes = cases[i].bytes,
                                                               .page_shift = cases[i].shift});
        assert_int_equal(deckle_get_stat(d, &s), DECKLE_OK);
        assert_true(s.nr_frames == cases[i].frames);
        int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, 0);
        assert_true(pfn >= 0);
        unsigned char *memory = deckle_address(d, (uint64_t)pfn);
        memory[((size_t)1 << cases[i].shift) - 1] = 1;
        assert_int_equal(deckle_free(d, (uint64_t)pfn, 0), DECKLE_OK);
        assert_true(deckle_destroy(d) == 0);
    }
}

/* ---- what is refused ----------------------------------------------------------------------- */

static void h033_every_option_has_its_bounds(void **state)
{
    static const struct {
        struct deckle_create_options o;
        int error;
        const char *names;
    } cases[] = {
        {{.bytes = 0}, DECKLE_EINVAL, "bytes"},
        {{.bytes = 1, .frames = 1}, DECKLE_EINVAL, "bytes"},
        {{.bytes = UINT64_MAX}, DECKLE_E2BIG, "addresses"},
        {{.bytes = UINT64_MAX - 4094}, DECKLE_E2BIG, "addresses"},
        {{.bytes = UINT64_MAX, .pages = DECKLE_PAGES_1G}, DECKLE_E2BIG, "addresses"},
        {{.frames = UINT64_MAX}, DECKLE_E2BIG, "addresses"},
        {{.frames = UINT64_C(1) << 52}, DECKLE_E2BIG, "addresses"},
        {{.frames = (UINT64_C(1) << 32) + 1, .flags = DECKLE_CREATE_RESERVE}, DECKLE_E2BIG, ""},
        {{.bytes = 1, .page_shift = 9}, DECKLE_EINVAL, "page_shift"},
        {{.bytes = 1, .page_shift = 31}, DECKLE_EINVAL, "page_shift"},
        {{.bytes = 1, .max_order = 8}, DECKLE_EINVAL, "max_order"},
        {{.bytes = 1, .max_order = 19}, DECKLE_EINVAL, "max_order"},
        {{.bytes = 1, .pages = 5}, DECKLE_EINVAL, "pages"},
        {{.bytes = 1, .flags = 1u << 5}, DECKLE_EINVAL, "flags"},
        {{.bytes = 1, .features = 1u << 31}, DECKLE_EINVAL, "features"},
        {{.bytes = 1, .pcp_capacity = 1}, DECKLE_EINVAL, "pcp_capacity"},
        {{.bytes = 1, .flags = DECKLE_CREATE_RESERVE | DECKLE_CREATE_POPULATE},
         DECKLE_EINVAL,
         "RESERVE"},
    };
    struct deckle *d = (struct deckle *)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct deckle_create_options o = cases[i].o;
        const char *reason = NULL;

        o.size = sizeof(o);
        o.reason = &reason;
        int error = deckle_create(&o, &d);
        if (error != cases[i].error || !reason || !strstr(reason, cases[i].names))
            fail_msg("case %u: %s: %s", i, deckle_error_name(error), reason ? reason : "no reason");
        assert_ptr_equal(d, state);
    }
    struct deckle_create_options o = {.size = 4, .bytes = 1};
    assert_int_equal(deckle_create(&o, &d), DECKLE_EINVAL);
    assert_int_equal(deckle_create(NULL, &d), DECKLE_EINVAL);
    o.size = sizeof(o);
    assert_int_equal(deckle_create(&o, NULL), DECKLE_EINVAL);
}

static size_t mapped_bytes(void)
{
    char text[64] = {0};
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    return n > 0 ? (size_t)strtoull(text, NULL, 10) * 4096 : 0;
}

/* The kernel refuses memory: an ordinary error, and nothing stays mapped. */
static void h045_no_memory_is_an_ordinary_error(void **state)
{
    struct rlimit old, small;
    struct deckle_create_options o = {.size = sizeof(o), .bytes = WIDE ? 1 << 30 : 1 << 28};
    const char *reason = NULL;
    struct deckle *d = NULL;
    (void)state;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    if (emulated())
        skip();
    o.reason = &reason;
    assert_int_equal(getrlimit(RLIMIT_AS, &old), 0);
    size_t before = mapped_bytes();
    for (unsigned step = 0; step < 40; step++) { /* from no room at all to enough, in between too */
        small = old;
        small.rlim_cur = before + ((rlim_t)step << 25);
        assert_int_equal(setrlimit(RLIMIT_AS, &small), 0);
        int error = deckle_create(&o, &d);
        assert_int_equal(setrlimit(RLIMIT_AS, &old), 0);
        if (error) {
            assert_int_equal(error, DECKLE_EBACKING);
            assert_true(mapped_bytes() <= before + (1 << 20));
        } else {
            assert_true(deckle_destroy(d) == 0);
        }
    }
    assert_int_equal(deckle_create(&o, &d), DECKLE_OK);
    assert_true(deckle_destroy(d) == 0);
    assert_true(mapped_bytes() <= before + (1 << 20));
}

/* ---- 65: memory that nobody touches -------------------------------------------------------- */

static void h065_frames_without_access(void **state)
{
    struct deckle *d = make((struct deckle_create_options){
        .frames = 20000, .flags = DECKLE_CREATE_RESERVE, .min_free_kbytes = UINT64_MAX});
    uint64_t count = 0;
    int64_t pfn;
    (void)state;

    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, 0) == DECKLE_ENOTSUP);
    for (unsigned order = 0; order <= 10; order++) {
        assert_true((pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, order)) >= 0);
        assert_int_equal(deckle_free(d, (uint64_t)pfn, order), DECKLE_OK);
    }
    while ((pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0)) >= 0)
        count++;
    assert_true(count == 20000);
    uint64_t first = (uint64_t)deckle_pfn(d, deckle_base(d, NULL));
    for (uint64_t f = 0; f < 20000; f++)
        assert_int_equal(deckle_free(d, first + f, 0), DECKLE_OK);
    assert_valid(d);
    assert_true(deckle_destroy(d) == 0);
}

/* ---- 67: a small stack --------------------------------------------------------------------- */

static void *live_on_a_small_stack(void *arg)
{
    struct deckle *d = arg;
    uint64_t pfns[16];

    for (unsigned order = 0; order <= 10; order++) {
        int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, order);
        if (pfn < 0 || deckle_free(d, (uint64_t)pfn, order) ||
            !deckle_free(d, (uint64_t)pfn, order))
            return "allocation or free";
    }
    memset(pfns, 0xff, sizeof(pfns));
    if (deckle_alloc_bulk(d, DECKLE_GFP_KERNEL, pfns, 16) != 16 ||
        deckle_free_bulk(d, pfns, 16) != 16)
        return "bulk";
    if (deckle_drain_all(d) || deckle_validate(d, NULL, 0))
        return "drain or validation";
    return NULL;
}

static void h067_a_small_stack_is_enough(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 64 << 20,
                                                           .flags = DECKLE_CREATE_QUIET});
    pthread_attr_t attr;
    pthread_t thread;
    void *wrong = NULL;
    (void)state;

    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN), 0);
    if (pthread_create(&thread, &attr, live_on_a_small_stack, d)) {
        deckle_destroy(d);
        skip(); /* this C library needs more for itself */
    }
    pthread_join(thread, &wrong);
    if (wrong)
        fail_msg("%s", (char *)wrong);
    assert_true(deckle_destroy(d) == 0);
}

/* ---- reports ------------------------------------------------------------------------------- */

/* What call writes to standard error. */
static char *captured(void (*call)(void *ctx), void *ctx)
{
    static char text[65536];
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    size_t n;

    assert_non_null(file);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    call(ctx);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, sizeof(text) - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void free_wrongly(void *ctx)
{
    struct deckle *d = ctx;
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 3);

    errno = 77;
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 2), DECKLE_EBADFREE);
    assert_int_equal(errno, 77);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 3), DECKLE_OK);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 3), DECKLE_EBADFREE);
    assert_int_equal(deckle_free(d, 5, 0), DECKLE_EBADFREE);
}

static void free_wrongly_often(void *ctx)
{
    for (unsigned i = 0; i < 500; i++)
        assert_int_equal(deckle_free(ctx, 5, 0), DECKLE_EBADFREE);
}

static void end(void *ctx)
{
    deckle_destroy(ctx);
}

static void a_wrong_free_is_a_line(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 8 << 20});
    struct deckle_stat s = {.size = sizeof(s)};
    char *text = captured(free_wrongly, d);
    (void)state;

    assert_int_equal(lines(text), 3);
    assert_non_null(strstr(text, "deckle: bad free: frame 0x"));
    assert_non_null(strstr(text, "order 2 (wrong order, found order 3"));
    assert_non_null(strstr(text, "order 3 (double free"));
    assert_non_null(strstr(text, "frame 0x5, order 0 (foreign frame"));
    assert_non_null(strstr(text, "called from 0x"));
    text = captured(free_wrongly_often, d);
    assert_in_range(lines(text), 50, 122); /* 60 a minute, and a minute may end here */
    assert_int_equal(deckle_get_stat(d, &s), DECKLE_OK);
    assert_true(s.bad[DECKLE_BAD_FOREIGN] == 501); /* all are counted */
    assert_true(deckle_destroy(d) == 0);
}

static void what_is_left_is_said(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 8 << 20});
    char line[80];
    (void)state;

    for (unsigned i = 0; i < 40; i++)
        assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 1) >= 0);
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 9);
    snprintf(line, sizeof(line), "deckle: still allocated: frame 0x%llx, order 9\n",
             (unsigned long long)pfn);
    char *text = captured(end, d);
    assert_int_equal(lines(text), 17);
    assert_non_null(strstr(text, "order 1\n"));
    assert_non_null(strstr(text, "and more\n"));

    d = make((struct deckle_create_options){.bytes = 8 << 20});
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 9) >= 0);
    text = captured(end, d);
    assert_int_equal(lines(text), 1);
    d = make((struct deckle_create_options){.bytes = 8 << 20, .flags = DECKLE_CREATE_QUIET});
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 9) >= 0);
    free_wrongly(d);
    text = captured(end, d);
    assert_string_equal(text, "");
}

struct noted {
    unsigned reports, leaks;
    uint64_t leaked;
};

static void note_bad(void *ctx, const struct deckle_bad_report *report)
{
    assert_int_equal(report->size, sizeof(*report));
    ((struct noted *)ctx)->reports++;
}

static void note_leak(void *ctx, const struct deckle_allocated *block)
{
    ((struct noted *)ctx)->leaks++;
    ((struct noted *)ctx)->leaked += UINT64_C(1) << block->order;
}

static void hooks_of_the_caller(void **state)
{
    struct noted noted = {0};
    struct deckle *d = make((struct deckle_create_options){
        .bytes = 8 << 20, .bad = note_bad, .leak = note_leak, .ctx = &noted});
    (void)state;

    char *text = captured(free_wrongly, d);
    assert_string_equal(text, "");
    assert_int_equal(noted.reports, 3);
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 4) >= 0);
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 0) >= 0);
    assert_true(deckle_destroy(d) == 17);
    assert_true(noted.leaks == 2 && noted.leaked == 17);
}

/* ---- caches, CPUs, fork -------------------------------------------------------------------- */

/* The kind that this machine should have. */
static void kind_of_caches(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 8 << 20});
    struct deckle *cells = make((struct deckle_create_options){.bytes = 8 << 20,
                                                               .features = DECKLE_FEATURE_CELLS});
    struct deckle *none = make(
        (struct deckle_create_options){.bytes = 8 << 20, .features = DECKLE_FEATURE_NO_CACHES});
    (void)state;

    printf("caches here: %s\n", deckle_cache_kind(d));
    assert_true(!strcmp(deckle_cache_kind(d), "rseq") || !strcmp(deckle_cache_kind(d), "cells"));
    assert_string_equal(deckle_cache_kind(cells), "cells");
    assert_string_equal(deckle_cache_kind(none), "none");
    deckle_destroy(d);
    deckle_destroy(cells);
    deckle_destroy(none);
}

/* Frames given by each CPU the thread may run on, taken back on another. */
static void every_cpu_has_a_cache(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 64 << 20});
    cpu_set_t all;
    uint64_t held[64][8];
    unsigned cpus = 0;
    (void)state;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE && cpus < 64; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        move_to(cpu);
        for (unsigned i = 0; i < 8; i++) {
            int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);
            assert_true(pfn >= 0);
            held[cpus][i] = (uint64_t)pfn;
        }
        cpus++;
        for (unsigned i = 0; cpus > 1 && i < 8; i++)
            assert_int_equal(deckle_free(d, held[cpus - 2][i], 0), DECKLE_OK);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(deckle_free(d, held[cpus - 1][i], 0), DECKLE_OK);
    assert_int_equal(deckle_drain_all(d), DECKLE_OK);
    assert_valid(d);
    assert_true(deckle_destroy(d) == 0);
}

/* 77: parent and child go on with a copy each, of the pool and of the memory. */
static void h077_fork_makes_two_pools(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 8 << 20});
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);
    unsigned char *memory = deckle_address(d, (uint64_t)pfn);
    int status = -1;
    (void)state;

    memory[0] = 1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        memory[0] = 2;
        int bad = deckle_free(d, (uint64_t)pfn, 0) != DECKLE_OK;
        for (unsigned i = 0; i < 100; i++)
            bad |= deckle_alloc(d, DECKLE_GFP_KERNEL, 0) < 0;
        bad |= deckle_drain_all(d) != DECKLE_OK;
        bad |= deckle_validate(d, NULL, 0) != DECKLE_OK;
        bad |= deckle_exit(d, NULL) != 100;
        _exit(bad);
    }
    assert_true(waitpid(child, &status, 0) == child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(memory[0], 1);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 0), DECKLE_OK);
    assert_valid(d);
    assert_true(deckle_destroy(d) == 0);
}

/* ---- memory -------------------------------------------------------------------------------- */

static size_t resident_bytes(void)
{
    char text[64] = {0};
    int fd = open("/proc/self/statm", O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    char *at = text;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    strtoull(text, &at, 10);
    return (size_t)strtoull(at, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

static void memory_is_mapped_at_its_first_use(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip();
#endif
    if (emulated())
        skip();
    size_t before = resident_bytes();
    struct deckle *d = make((struct deckle_create_options){
        .bytes = WIDE ? UINT64_C(64) << 30 : 256 << 20});
    (void)state;

    assert_true(resident_bytes() < before + (4 << 20));
    assert_true(deckle_destroy(d) == 0);
    assert_true(resident_bytes() < before + (4 << 20));
    d = make((struct deckle_create_options){.bytes = 32 << 20, .flags = DECKLE_CREATE_POPULATE});
    assert_true(resident_bytes() >= before + (32 << 20));
    assert_true(deckle_destroy(d) == 0);
    assert_true(resident_bytes() < before + (8 << 20));
}

static void kinds_of_pages(void **state)
{
    static const uint32_t pages[] = {DECKLE_PAGES_SMALL, DECKLE_PAGES_THP, DECKLE_PAGES_2M,
                                     DECKLE_PAGES_1G};
    (void)state;

    for (unsigned i = 0; i < 4; i++) {
        const char *reason = NULL;
        struct deckle_create_options o = {.size = sizeof(o), .bytes = 3 << 20, .pages = pages[i],
                                          .reason = &reason};
        struct deckle_stat s = {.size = sizeof(s)};
        struct deckle *d = NULL;
        int error = deckle_create(&o, &d);

        /* 1 GiB is too much for the addresses of 32 bits */
        bool no_room = error == DECKLE_E2BIG && !WIDE;
        if ((error == DECKLE_EBACKING || no_room) && pages[i] >= DECKLE_PAGES_2M) {
            assert_non_null(reason);
            printf("no hugetlb pages of %s here: not shown\n",
                   pages[i] == DECKLE_PAGES_2M ? "2 MiB" : "1 GiB");
            continue;
        }
        assert_int_equal(error, DECKLE_OK);
        assert_int_equal(deckle_get_stat(d, &s), DECKLE_OK);
        assert_true(s.nr_frames == (pages[i] == DECKLE_PAGES_2M   ? 1024
                                    : pages[i] == DECKLE_PAGES_1G ? 262144
                                                                  : 768));
        int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 9);
        assert_true(pfn >= 0);
        memset(deckle_address(d, (uint64_t)pfn), 1, 2 << 20);
        assert_int_equal(deckle_free(d, (uint64_t)pfn, 9), DECKLE_OK);
        assert_true(deckle_destroy(d) == 0);
    }
}

static void nodes_of_the_machine(void **state)
{
    const char *reason = NULL;
    struct deckle_create_options o = {.size = sizeof(o), .bytes = (64 << 20) + 4096,
                                      .flags = DECKLE_CREATE_NUMA, .reason = &reason};
    struct deckle_stat s = {.size = sizeof(s)};
    struct deckle_zone_stat z = {.size = sizeof(z)};
    struct deckle *d = NULL;
    uint64_t frames = 0;
    int error = deckle_create(&o, &d);
    (void)state;

    if (error == DECKLE_ENOTSUP) {
        printf("no NUMA in this build or kernel: not shown\n");
        skip();
    }
    assert_int_equal(error, DECKLE_OK);
    assert_int_equal(deckle_get_stat(d, &s), DECKLE_OK);
    for (uint32_t i = 0; i < s.nr_zones; i++) {
        assert_int_equal(deckle_get_zone_stat(d, i, &z), DECKLE_OK);
        frames += z.present;
        printf("node %u: %llu frames\n", z.node, (unsigned long long)z.present);
    }
    assert_true(frames == (64 << 8) + 1);
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, 4);
    assert_true(pfn >= 0);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 4), DECKLE_OK);
    assert_true(deckle_destroy(d) == 0);
}

/* 119: more than 16 GiB in one range, most of it taken, alignment above 64 KiB, no hidden source.
 */
static void h119_large_ranges_and_alignments(void **state)
{
    struct deckle *d;
    uint64_t seen = 0, bytes;
    (void)state;

    if (!WIDE || emulated())
        skip();
    d = make((struct deckle_create_options){.bytes = UINT64_C(24) << 30, .max_order = 18,
                                            .flags = DECKLE_CREATE_RESERVE,
                                            .min_free_kbytes = UINT64_MAX});
    unsigned char *base = deckle_base(d, &bytes);
    assert_true((uintptr_t)base % (1 << 30) == 0);
    for (unsigned i = 0; i < 24; i++) {
        int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 18);
        assert_true(pfn >= 0);
        uint64_t gib = ((uintptr_t)deckle_address(d, (uint64_t)pfn) - (uintptr_t)base) >> 30;
        assert_true(gib < 24 && !(seen >> gib & 1));
        seen |= UINT64_C(1) << gib;
    }
    assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, 0) == DECKLE_ENOMEM);
    uint64_t first = (uint64_t)deckle_pfn(d, base);
    for (unsigned i = 17; i < 24; i++)
        assert_int_equal(deckle_free(d, first + ((uint64_t)i << 18), 18), DECKLE_OK);
    int64_t pfn = deckle_alloc_contig(d, DECKLE_GFP_KERNEL, (7 << 18) - 256, 256, 0, 0);
    assert_true(pfn >= 0 && pfn % 256 == 0);
    assert_int_equal(deckle_free_exact(d, (uint64_t)pfn, (7 << 18) - 256), DECKLE_OK);
    for (unsigned i = 0; i < 17; i++)
        assert_int_equal(deckle_free(d, first + ((uint64_t)i << 18), 18), DECKLE_OK);
    assert_true(deckle_destroy(d) == 0);
}

/* ---- 53: sanitizers ------------------------------------------------------------------------ */

/* After the pool is gone its addresses are ordinary memory for whoever maps them next. */
static void h053_nothing_stays_poisoned(void **state)
{
    struct deckle *d = make((struct deckle_create_options){.bytes = 8 << 20});
    uint64_t bytes;
    unsigned char *base = deckle_base(d, &bytes);
    (void)state;

    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 5);
    memset(deckle_address(d, (uint64_t)pfn), 1, 32 * 4096);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 5), DECKLE_OK);
    assert_true(deckle_destroy(d) == 0);
    unsigned char *again = mmap(base, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    assert_ptr_equal(again, base);
    for (uint64_t i = 0; i < bytes; i += 512)
        again[i] = 1;
    munmap(again, bytes);
}

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static void free_frames_are_poisoned_for_asan(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    struct deckle *d = make((struct deckle_create_options){.bytes = 8 << 20});
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 2);
    unsigned char *memory = deckle_address(d, (uint64_t)pfn);

    assert_null(__asan_region_is_poisoned(memory, 4 * 4096));
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 2), DECKLE_OK);
    assert_ptr_equal(__asan_region_is_poisoned(memory, 4 * 4096), memory);
    /* zeroing and poison go through the map hook, whatever the sanitizer thinks of the frame */
    assert_int_equal(deckle_set_debug(d, DECKLE_DEBUG_POISON), 0);
    pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 2);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 2), DECKLE_OK);
    pfn = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, 2);
    assert_int_equal(((unsigned char *)deckle_address(d, (uint64_t)pfn))[5000], 0);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 2), DECKLE_OK);
    assert_true(deckle_destroy(d) == 0);
#else
    skip(); /* built without AddressSanitizer */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_and_addresses),
        cmocka_unit_test(h021_addresses_have_the_alignment_of_blocks),
        cmocka_unit_test(h023_the_address_decides_nothing),
        cmocka_unit_test(sizes_are_rounded_up),
        cmocka_unit_test(h033_every_option_has_its_bounds),
        cmocka_unit_test(h045_no_memory_is_an_ordinary_error),
        cmocka_unit_test(h065_frames_without_access),
        cmocka_unit_test(h067_a_small_stack_is_enough),
        cmocka_unit_test(a_wrong_free_is_a_line),
        cmocka_unit_test(what_is_left_is_said),
        cmocka_unit_test(hooks_of_the_caller),
        cmocka_unit_test(kind_of_caches),
        cmocka_unit_test(every_cpu_has_a_cache),
        cmocka_unit_test(h077_fork_makes_two_pools),
        cmocka_unit_test(memory_is_mapped_at_its_first_use),
        cmocka_unit_test(kinds_of_pages),
        cmocka_unit_test(nodes_of_the_machine),
        cmocka_unit_test(h119_large_ranges_and_alignments),
        cmocka_unit_test(h053_nothing_stays_poisoned),
        cmocka_unit_test(free_frames_are_poisoned_for_asan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
