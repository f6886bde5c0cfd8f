/* SPDX-License-Identifier: MIT */
/*
 * The part of cmocka's interface that Deckle's tests use, for targets on which Debian has no cmocka
 * (cross builds for s390x, mips and aarch64, and -m32). Native builds use the real library; a test
 * that needs more than this does not compile here, so the two cannot drift apart unseen.
 *
 * Include <stdarg.h>, <stddef.h>, <setjmp.h> and <stdint.h> first, as with the real header.
 */
#ifndef DECKLE_TESTS_CMOCKA_H
#define DECKLE_TESTS_CMOCKA_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uintmax_t LargestIntegralType;
typedef int (*CMFixtureFunction)(void **state);
typedef void (*CMUnitTestFunction)(void **state);

struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func;
    CMFixtureFunction teardown_func;
    void *initial_state;
};

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_unit_test_prestate(f, state) {#f, f, NULL, NULL, state}
#define cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, state)                        \
    {#f, f, setup, teardown, state}

/* How one test ends early: setjmp's value is one of these. */
enum { CM_FAILED_ = 1, CM_SKIPPED_ = 2 };

__attribute__((weak)) jmp_buf cm_end_; /* weak: one for all sources of an executable */

static inline _Noreturn void cm_leave_(int how)
{
    fflush(stdout);
    longjmp(cm_end_, how);
}

static inline _Noreturn void cm_fail_at_(const char *file, int line)
{
    fprintf(stderr, "%s:%d: error: Failure!\n", file, line);
    cm_leave_(CM_FAILED_);
}

static inline _Noreturn void cm_skip_at_(const char *file, int line)
{
    printf("%s:%d: Skipped!\n", file, line);
    cm_leave_(CM_SKIPPED_);
}

#define fail() cm_fail_at_(__FILE__, __LINE__)
#define skip() cm_skip_at_(__FILE__, __LINE__)
#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)

#define fail_msg(...)                                                                              \
    do {                                                                                           \
        fprintf(stderr, __VA_ARGS__);                                                              \
        fputc('\n', stderr);                                                                       \
        fail();                                                                                    \
    } while (0)

static inline void cm_true_(bool holds, const char *text, const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%s\n", text);
        cm_fail_at_(file, line);
    }
}

static inline void cm_compare_(uintmax_t a, uintmax_t b, bool holds, const char *relation,
                               const char *file, int line)
{
    if (!holds) {
        fprintf(stderr, "%#" PRIxMAX " %s %#" PRIxMAX " does not hold\n", a, relation, b);
        cm_fail_at_(file, line);
    }
}

static inline void cm_strings_(const char *a, const char *b, bool want_equal, const char *file,
                               int line)
{
    if ((strcmp(a, b) == 0) != want_equal) {
        fprintf(stderr, "\"%s\" %s \"%s\"\n", a, want_equal ? "!=" : "==", b);
        cm_fail_at_(file, line);
    }
}

static inline void cm_memory_(const void *a, const void *b, size_t size, bool want_equal,
                              const char *file, int line)
{
    const unsigned char *x = (const unsigned char *)a;
    const unsigned char *y = (const unsigned char *)b;
    size_t i;

    for (i = 0; i < size && x[i] == y[i]; i++)
        continue;
    if ((i == size) == want_equal)
        return;
    if (want_equal)
        fprintf(stderr, "difference at offset %zu: 0x%02x 0x%02x\n", i, x[i], y[i]);
    else
        fprintf(stderr, "%zu bytes are equal\n", size);
    cm_fail_at_(file, line);
}

#define CM_COMPARE_(a, relation, b)                                                                \
    cm_compare_((uintmax_t)(a), (uintmax_t)(b), (uintmax_t)(a) relation(uintmax_t)(b), #relation,  \
                __FILE__, __LINE__)

#define assert_true(c) cm_true_(!!(c), #c, __FILE__, __LINE__)
#define assert_false(c) cm_true_(!(c), "!(" #c ")", __FILE__, __LINE__)
#define assert_null(c) cm_true_((c) == NULL, #c " == NULL", __FILE__, __LINE__)
#define assert_non_null(c) cm_true_((c) != NULL, #c " != NULL", __FILE__, __LINE__)
#define assert_int_equal(a, b) cm_ints_((uintmax_t)(a), (uintmax_t)(b), true, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                                 \
    cm_ints_((uintmax_t)(a), (uintmax_t)(b), false, __FILE__, __LINE__)
#define assert_ptr_equal(a, b) cm_ints_((uintptr_t)(a), (uintptr_t)(b), true, __FILE__, __LINE__)
#define assert_ptr_not_equal(a, b)                                                                 \
    cm_ints_((uintptr_t)(a), (uintptr_t)(b), false, __FILE__, __LINE__)
#define assert_return_code(rc, error)                                                              \
    cm_true_((intmax_t)(rc) >= 0, #rc " >= 0", __FILE__, __LINE__)
#define assert_string_equal(a, b) cm_strings_(a, b, true, __FILE__, __LINE__)
#define assert_string_not_equal(a, b) cm_strings_(a, b, false, __FILE__, __LINE__)
#define assert_memory_equal(a, b, size) cm_memory_(a, b, size, true, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, size) cm_memory_(a, b, size, false, __FILE__, __LINE__)
#define assert_in_range(value, low, high)                                                          \
    cm_range_((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high), true, __FILE__, __LINE__)
#define assert_not_in_range(value, low, high)                                                      \
    cm_range_((uintmax_t)(value), (uintmax_t)(low), (uintmax_t)(high), false, __FILE__, __LINE__)

static inline void cm_ints_(uintmax_t a, uintmax_t b, bool want_equal, const char *file, int line)
{
    cm_compare_(a, b, (a == b) == want_equal, want_equal ? "==" : "!=", file, line);
}

static inline void cm_range_(uintmax_t value, uintmax_t low, uintmax_t high, bool want_inside,
                             const char *file, int line)
{
    if ((low <= value && value <= high) != want_inside) {
        fprintf(stderr, "%" PRIuMAX " is %s [%" PRIuMAX ", %" PRIuMAX "]\n", value,
                want_inside ? "not in" : "in", low, high);
        cm_fail_at_(file, line);
    }
}

/* Runs F under setjmp: 0, CM_FAILED_ or CM_SKIPPED_. */
static inline int cm_guard_(CMUnitTestFunction f, void **state)
{
    int how = setjmp(cm_end_);

    if (how == 0)
        f(state);
    return how;
}

static inline int cm_run_one_(const struct CMUnitTest *test, void *group_state)
{
    void *state = test->initial_state != NULL ? test->initial_state : group_state;
    int how;

    printf("[ RUN      ] %s\n", test->name);
    fflush(stdout);
    if (test->setup_func != NULL && test->setup_func(&state) != 0)
        how = CM_FAILED_;
    else
        how = cm_guard_(test->test_func, &state);
    if (test->teardown_func != NULL && test->teardown_func(&state) != 0)
        how = CM_FAILED_;
    printf("[  %s ] %s\n", how == 0 ? "     OK" : how == CM_SKIPPED_ ? "SKIPPED" : "FAILED ",
           test->name);
    fflush(stdout);
    return how;
}

static inline int cm_run_group_(const char *group, const struct CMUnitTest *tests, size_t count,
                                CMFixtureFunction setup, CMFixtureFunction teardown)
{
    void *state = NULL;
    int failed = 0;

    printf("[==========] %s: Running %zu test(s).\n", group, count);
    if (setup != NULL && setup(&state) != 0) {
        fprintf(stderr, "[  FAILED  ] GROUP SETUP\n");
        return 1;
    }
    for (size_t i = 0; i < count; i++)
        failed += cm_run_one_(&tests[i], state) == CM_FAILED_;
    if (teardown != NULL && teardown(&state) != 0) {
        fprintf(stderr, "[  FAILED  ] GROUP TEARDOWN\n");
        failed++;
    }
    printf("[==========] %zu test(s) run, %d failed.\n", count, failed);
    return failed;
}

#define cmocka_run_group_tests(tests, setup, teardown)                                             \
    cm_run_group_(#tests, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown)                                  \
    cm_run_group_(name, tests, sizeof(tests) / sizeof((tests)[0]), setup, teardown)

#endif
