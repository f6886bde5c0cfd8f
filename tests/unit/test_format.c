/* SPDX-License-Identifier: MIT */
/* The freestanding formatter against the C library's: base/format.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/format.h"
#include "testing.h"

/* Both formatters on the same arguments. The buffers differ in nothing but who wrote them. */
#define SAME(...)                                                                                  \
    do {                                                                                           \
        char ours[256], theirs[256];                                                               \
        struct dk_text t;                                                                          \
        memset(ours, '#', sizeof(ours));                                                           \
        dk_text_begin(&t, ours, sizeof(ours), NULL, NULL);                                         \
        dk_text_printf(&t, __VA_ARGS__);                                                           \
        snprintf(theirs, sizeof(theirs), __VA_ARGS__);                                             \
        assert_string_equal(ours, theirs);                                                         \
        assert_int_equal(t.len, strlen(theirs));                                                   \
        assert_int_equal(t.lost, 0);                                                               \
    } while (0)

static void test_plain(void **state)
{
    (void)state;
    SAME("%s", "");
    SAME("no directive");
    SAME("100%%");
    SAME("%d|%d|%d", 0, 7, -7);
    SAME("%i", -2147483647 - 1);
    SAME("%u|%x|%x", 4294967295u, 4294967295u, 0u);
    SAME("%lu|%ld|%lx", ~0ul, -1l, 0xabcdeful);
    SAME("%llu|%lld|%llx", ~0ull, -9223372036854775807ll - 1, 0x123456789abcdefull);
    SAME("%zu|%zx", SIZE_MAX, (size_t)0xbeef);
    SAME("%c%c%c", 'a', '%', 'z');
    SAME("%s and %s", "one", "two");
}

static void test_fields(void **state)
{
    (void)state;
    SAME("%6d|%-6d|%06d|%3d", 42, 42, 42, 12345);
    SAME("%6d|%-6d|%06d|%03d", -42, -42, -42, -12345);
    SAME("%12s|%-12s|%2s", "Movable", "Movable", "Movable");
    SAME("%-43s |", "Free pages count per migrate type at order");
    SAME("%5c|%-5c|", 'x', 'x');
    SAME("%*d|%-*d|%*d", 8, 1, 8, 2, -8, 3);
    SAME("%d.%03d %2d.%03d", 0, 5, -1, 0);
    SAME("%8.5u|%-8.5u|%.0u|%.0u|%.3u", 42u, 42u, 0u, 5u, 12345u);
    SAME("%8.5d|%.3d|%.*d", -42, -7, 4, 99);
    SAME("%.3s|%.10s|%8.2s|%-8.2s|%.*s", "abcdef", "abc", "xyz", "xyz", 2, "hello");
    SAME("%.*s|%.*d", -1, "all of it", -1, 12);
    SAME("%08x|%-8x|%8x", 0xbeefu, 0xbeefu, 0xbeefu);
    SAME("Node %4d, zone %8s, type %12s ", 3, "DMA32", "Reclaimable");
}

/* Without a NUL in reach: the precision bounds what is read. */
static void test_string_without_end(void **state)
{
    char unended[3] = {'a', 'b', 'c'};

    (void)state;
    SAME("%.3s", unended);
}

/* What is no directive appears as it stands; the format is a variable so that no compiler objects.
 */
static void test_unknown_is_literal(void **state)
{
    static const char *const rows[] = {"%q", "%5.2f", "end %", "%l", "%-0", "%llk %"};
    char buf[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *volatile format = rows[i];
        struct dk_text t;

        dk_text_begin(&t, buf, sizeof(buf), NULL, NULL);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
        dk_text_printf(&t, format);
#pragma GCC diagnostic pop
        assert_string_equal(buf, rows[i]);
    }
}

/* Random numbers of random widths through every flag, against the C library. */
static void test_random_numbers(void **state)
{
    uint64_t seed = test_seed();

    (void)state;
    for (uint64_t i = 0; i < test_effort(20000); i++) {
        uint64_t value = test_random(&seed) >> test_random_below(&seed, 64);
        int width = (int)test_random_below(&seed, 30) - 5;
        int precision = (int)test_random_below(&seed, 25) - 2;
        long long both = (long long)value * (test_random(&seed) & 1 ? 1 : -1);

        SAME("%*llu|%-*llu|%0*llu", width, DK_LLU(value), width, DK_LLU(value), width,
             DK_LLU(value));
        SAME("%*lld|%0*lld|%*.*lld", width, both, width, both, width, precision, both);
        SAME("%*llx|%*.*llx", width, DK_LLU(value), width, precision, DK_LLU(value));
        SAME("%d|%x", (int)value, (unsigned)value);
    }
}

/* A buffer without emit keeps the beginning, ends with a NUL at every size and counts the rest. */
static void test_truncation(void **state)
{
    static const char text[] = "node 0, zone Normal: 42";
    char buf[sizeof(text) + 8];

    (void)state;
    for (size_t size = 1; size < sizeof(buf) - 1; size++) {
        size_t kept = size - 1 < sizeof(text) - 1 ? size - 1 : sizeof(text) - 1;
        struct dk_text t;

        memset(buf, '#', sizeof(buf));
        dk_text_begin(&t, buf, size, NULL, NULL);
        assert_string_equal(buf, "");
        dk_text_printf(&t, "node %d, zone %s: %u", 0, "Normal", 42u);
        assert_int_equal(strlen(buf), kept);
        assert_memory_equal(buf, text, kept);
        assert_int_equal(t.lost, sizeof(text) - 1 - kept);
        assert_int_equal(buf[size], '#');
        dk_text_end(&t);
        assert_int_equal(strlen(buf), kept);
    }
}

static void test_no_buffer(void **state)
{
    struct dk_text t;

    (void)state;
    dk_text_begin(&t, NULL, 0, NULL, NULL);
    dk_text_printf(&t, "%s %d", "gone", 1);
    dk_text_end(&t);
    assert_int_equal(t.lost, 6);
}

struct collector {
    char text[512];
    size_t len;
    size_t pieces;
    size_t largest;
};

static void collect(void *ctx, const char *text, size_t len)
{
    struct collector *c = ctx;

    assert_in_range(len, 1, sizeof(c->text) - c->len - 1);
    memcpy(c->text + c->len, text, len);
    c->len += len;
    c->text[c->len] = '\0';
    c->pieces++;
    if (len > c->largest)
        c->largest = len;
}

/* With emit, the pieces put together are the text, whatever the size of the buffer. */
static void test_emit(void **state)
{
    static const char want[] = "Node 0, zone      DMA      1      2 and a word\n";

    (void)state;
    for (size_t size = 1; size <= sizeof(want) + 2; size++) {
        struct collector c = {.len = 0};
        char buf[sizeof(want) + 2];
        struct dk_text t;

        dk_text_begin(&t, buf, size, collect, &c);
        dk_text_printf(&t, "Node %d, zone %8s ", 0, "DMA");
        dk_text_printf(&t, "%6lu %6lu ", 1ul, 2ul);
        dk_text_puts(&t, "and ");
        dk_text_put(&t, "a word\n!", 7);
        dk_text_end(&t);
        dk_text_end(&t); /* has nothing to hand on any more */
        assert_string_equal(c.text, want);
        assert_int_equal(c.pieces, (sizeof(want) - 1 + size - 1) / size);
        assert_in_range(c.largest, 1, size);
        assert_int_equal(t.lost, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_string_without_end),
        cmocka_unit_test(test_unknown_is_literal),
        cmocka_unit_test(test_random_numbers),
        cmocka_unit_test(test_truncation),
        cmocka_unit_test(test_no_buffer),
        cmocka_unit_test(test_emit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
