/* SPDX-License-Identifier: MIT */
/*
 * A machine goes down: each page of a pool's metadata is left as it was at some time between the
 * making of the pool and the end, each of another time. Recovery makes a sound pool of every such
 * mixture. And: pages that read as zeroes, and files cut off, are recovered or refused, and never
 * taken for sound when they are not.
 *
 * ctest: timeout=120
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <deckle/linux.h>

#include "testing.h"

#define PAGE      4096u
#define NR_FRAMES 4096u
#define NR_TIMES  6u /* looks at the file: when it was made, and then while it was used */

static int fd;
static size_t head, length;
static unsigned char *images[NR_TIMES], *mixed;
static char why[256];

static struct deckle_open_options by_fd(void)
{
    return (struct deckle_open_options){.size = sizeof(struct deckle_open_options), .fd = fd,
                                        .flags = DECKLE_OPEN_QUIET, .why = why,
                                        .why_size = sizeof(why)};
}

/* A client that allocates and frees at random and ends without leaving. */
static void use_and_die(uint64_t random)
{
    struct deckle_open_options o = by_fd();
    uint32_t orders[256], nr = 0;
    int64_t pfns[256];
    struct deckle *d;
    int status;
    pid_t pid = fork();

    if (pid) {
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        return;
    }
    if (deckle_open_shared(&o, &d))
        _exit(1);
    for (unsigned i = 0; i < 3000; i++) {
        if (nr < 256 && test_random_below(&random, 2)) {
            orders[nr] = (uint32_t)test_random_below(&random, 11);
            pfns[nr] = deckle_alloc(d, i % 3 ? DECKLE_GFP_KERNEL : DECKLE_GFP_HIGHUSER_MOVABLE,
                                    orders[nr]);
            nr += pfns[nr] >= 0;
        } else if (nr) {
            nr--;
            if (deckle_free(d, (uint64_t)pfns[nr], orders[nr]))
                _exit(1);
        }
    }
    _exit(0);
}

static int make_images(void **state)
{
    struct deckle_shared_options o = {.size = sizeof(o), .frames = NR_FRAMES, .max_clients = 16,
                                      .pcp_capacity = 16, .why = why, .why_size = sizeof(why)};
    uint64_t random = test_seed(), field;
    struct stat st;
    int error;

    (void)state;
    fd = o.fd = memfd_create("pool", MFD_CLOEXEC);
    error = deckle_create_shared(&o, NULL);
    if (error == DECKLE_ENOTSUP) {
        printf("no shared pools here: %s\n", why);
        exit(TEST_SKIPPED);
    }
    if (error || fstat(fd, &st) || pread(fd, &field, sizeof(field), 40) != sizeof(field))
        return -1;
    length = (size_t)st.st_size;
    head = (PAGE + (size_t)field + PAGE - 1) / PAGE * PAGE;
    mixed = malloc(head);
    for (unsigned i = 0; i < NR_TIMES; i++) {
        images[i] = malloc(head);
        if (!images[i] || pread(fd, images[i], head, 0) != (ssize_t)head)
            return -1;
        use_and_die(test_random(&random));
    }
    return 0;
}

static int free_images(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NR_TIMES; i++)
        free(images[i]);
    free(mixed);
    return close(fd);
}

static void write_file(const unsigned char *image, size_t size)
{
    size_t n = head < size ? head : size;

    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, image, n, 0), (ssize_t)n);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
}

/* All is free, and can be had as the largest blocks there are. */
static void assert_recovered(void)
{
    struct deckle_open_options o = by_fd();
    int64_t pfns[NR_FRAMES / 1024];
    char text[256];
    struct deckle *d;
    int error = deckle_open_shared(&o, &d);

    if (error)
        fail_msg("%s: %s", deckle_error_name(error), why);
    if (deckle_validate(d, text, sizeof(text)))
        fail_msg("%s", text);
    for (unsigned i = 0; i < NR_FRAMES / 1024; i++) {
        pfns[i] = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_HIGH, 10);
        if (pfns[i] < 0 && i < NR_FRAMES / 1024 - 1)
            fail_msg("block %u: %s", i, deckle_error_name((int)pfns[i]));
    }
    for (unsigned i = 0; i < NR_FRAMES / 1024; i++)
        if (pfns[i] >= 0)
            assert_int_equal(deckle_free(d, (uint64_t)pfns[i], 10), 0);
    if (deckle_validate(d, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(deckle_destroy(d), 0);
}

static void test_mixtures(void **state)
{
    uint64_t random = test_seed(), n = test_effort(3000);

    (void)state;
    for (uint64_t i = 0; i < n; i++) {
        struct deckle_open_options o = by_fd();
        int error;

        memcpy(mixed, images[0], PAGE);
        for (size_t at = PAGE; at < head; at += PAGE)
            memcpy(mixed + at, images[test_random_below(&random, NR_TIMES)] + at, PAGE);
        write_file(mixed, length);
        error = deckle_recover_file(&o, NULL);
        if (error)
            fail_msg("mixture %u: %s: %s", (unsigned)i, deckle_error_name(error), why);
        assert_recovered();
    }
}

static void test_zeroes(void **state)
{
    struct deckle_open_options o = by_fd();
    unsigned recovered = 0, refused = 0;

    (void)state;
    for (size_t at = 0; at < head; at += PAGE) {
        memcpy(mixed, images[NR_TIMES - 1], head);
        memset(mixed + at, 0, PAGE);
        write_file(mixed, length);
        if (deckle_recover_file(&o, NULL)) {
            assert_true(strlen(why) > 10);
            refused++;
        } else {
            assert_recovered();
            recovered++;
        }
    }
    printf("of %zu pages, each zeroed: %u recovered, %u refused\n", head / PAGE, recovered,
           refused);
    assert_true(recovered > head / PAGE / 2);
}

static void test_lengths(void **state)
{
    struct deckle_open_options o = by_fd();
    unsigned recovered = 0, refused = 0;

    (void)state;
    for (size_t size = 0; size <= head + PAGE; size += PAGE / 2) {
        struct stat st;

        write_file(images[NR_TIMES - 1], size);
        if (deckle_recover_file(&o, NULL)) {
            assert_int_equal(fstat(fd, &st), 0);
            assert_int_equal(st.st_size, size);
            refused++;
        } else {
            assert_recovered();
            recovered++;
        }
    }
    printf("cut off at %u lengths: %u recovered, %u refused\n", recovered + refused, recovered,
           refused);
    assert_true(recovered > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixtures),
        cmocka_unit_test(test_zeroes),
        cmocka_unit_test(test_lengths),
    };

    return cmocka_run_group_tests(tests, make_images, free_images);
}
