/* SPDX-License-Identifier: MIT */
/* Flag names and bits: against a table of Linux 6.12's numbers, and forth and back for all sets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <deckle/gfp.h>

#include "testing.h"
#include "trace_gfp.h"

static unsigned int unknown_calls;

static void unknown(void *context, const char *text, size_t length)
{
    (void)context;
    (void)text;
    (void)length;
    unknown_calls++;
}

static uint32_t parse(const char *text)
{
    uint32_t gfp = 1;

    trace_gfp_parse(text, strlen(text), &gfp, unknown, NULL);
    return gfp;
}

static void test_names(void **state)
{
    static const struct {
        const char *text;
        uint32_t gfp;
        unsigned int unknown;
    } cases[] = {
        {"none", 0, 0},
        {"", 0, 0},
        {"__GFP_DMA", 1u << 0, 0},
        {"__GFP_HIGHMEM", 1u << 1, 0},
        {"__GFP_DMA32", 1u << 2, 0},
        {"__GFP_MOVABLE", 1u << 3, 0},
        {"__GFP_RECLAIMABLE", 1u << 4, 0},
        {"__GFP_HIGH", 1u << 5, 0},
        {"__GFP_IO", 1u << 6, 0},
        {"__GFP_FS", 1u << 7, 0},
        {"__GFP_ZERO", 1u << 8, 0},
        {"__GFP_DIRECT_RECLAIM", 1u << 10, 0},
        {"__GFP_KSWAPD_RECLAIM", 1u << 11, 0},
        {"__GFP_WRITE", 1u << 12, 0},
        {"__GFP_NOWARN", 1u << 13, 0},
        {"__GFP_RETRY_MAYFAIL", 1u << 14, 0},
        {"__GFP_NOFAIL", 1u << 15, 0},
        {"__GFP_NORETRY", 1u << 16, 0},
        {"__GFP_MEMALLOC", 1u << 17, 0},
        {"__GFP_COMP", 1u << 18, 0},
        {"__GFP_NOMEMALLOC", 1u << 19, 0},
        {"__GFP_HARDWALL", 1u << 20, 0},
        {"__GFP_THISNODE", 1u << 21, 0},
        {"__GFP_ACCOUNT", 1u << 22, 0},
        {"__GFP_ZEROTAGS", 1u << 23, 0},
        {"GFP_KERNEL", 0xcc0, 0},
        {"GFP_KERNEL_ACCOUNT", 0x400cc0, 0},
        {"GFP_ATOMIC", 0x820, 0},
        {"GFP_NOWAIT", 0x2800, 0},
        {"GFP_NOIO", 0xc00, 0},
        {"GFP_NOFS", 0xc40, 0},
        {"GFP_USER", 0x100cc0, 0},
        {"GFP_HIGHUSER", 0x100cc2, 0},
        {"GFP_NOFS|__GFP_NOFAIL|__GFP_COMP|__GFP_HARDWALL", 0x148c40, 0},
        {"__GFP_RECLAIM", 0xc00, 0},
        {"0x148c40", 0x148c40, 0},
        {"00148c40", 0x148c40, 0},
        {"GFP_KERNEL|0x100", 0xdc0, 0},
        {"__GFP_REPEAT", 1u << 14, 0},
        {"__GFP_COLD|__GFP_NOTRACK|__GFP_OTHER_NODE", 0, 0},
        {"GFP_KERNEL|__GFP_NEW", 0xcc0, 1},
        {"GFP_KERNE", 0, 1},
        {"GFP_KERNELS", 0, 1},
        {"0x200", 0, 1},
        {"0xffffffffffffffff", DECKLE_GFP_ALL, 1},
        {"0x11112222333344445", 0, 1},
        {"0x", 0, 1},
        {"|", 0, 1},
        {"||GFP_KERNEL", 0xcc0, 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t got;

        unknown_calls = 0;
        got = parse(cases[i].text);
        if (got != cases[i].gfp || unknown_calls != cases[i].unknown)
            fail_msg("\"%s\": 0x%x with %u unknown, want 0x%x with %u", cases[i].text, got,
                     unknown_calls, cases[i].gfp, cases[i].unknown);
    }
}

/* Only length bytes of the text count. */
static void test_length(void **state)
{
    uint32_t gfp;

    (void)state;
    trace_gfp_parse("GFP_KERNEL_ACCOUNT", 10, &gfp, NULL, NULL);
    assert_int_equal(gfp, DECKLE_GFP_KERNEL);
    trace_gfp_parse("GFP_KERNEL|__GFP_ZERO", 11, &gfp, NULL, NULL);
    assert_int_equal(gfp, DECKLE_GFP_KERNEL);
}

static void test_there_and_back(void **state)
{
    uint64_t seed = test_seed();
    char text[TRACE_GFP_TEXT], again[TRACE_GFP_TEXT];

    (void)state;
    for (uint64_t i = 0; i < test_effort(200000); i++) {
        uint32_t gfp = (uint32_t)test_random(&seed);

        if (i < 32)
            gfp = 1u << i;
        else if ((i & 1) != 0)
            gfp &= (uint32_t)test_random(&seed);
        gfp &= DECKLE_GFP_ALL;
        trace_gfp_format(gfp, text);
        unknown_calls = 0;
        if (parse(text) != gfp || unknown_calls != 0)
            fail_msg("0x%x prints as %s, which reads as 0x%x", gfp, text, parse(text));
        trace_gfp_format(parse(text), again);
        assert_string_equal(text, again);
    }
    trace_gfp_format(UINT32_MAX, text);
    assert_non_null(strstr(text, "|0xf0000200"));
}

static void test_spelling(void **state)
{
    char text[TRACE_GFP_TEXT];

    (void)state;
    trace_gfp_format(0, text);
    assert_string_equal(text, "none");
    trace_gfp_format(DECKLE_GFP_HIGHUSER_MOVABLE | DECKLE_GFP_ZERO | DECKLE_GFP_COMP, text);
    assert_string_equal(text, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP");
    trace_gfp_format(DECKLE_GFP_KERNEL_ACCOUNT, text);
    assert_string_equal(text, "GFP_KERNEL_ACCOUNT");
    trace_gfp_format(DECKLE_GFP_TRANSHUGE, text);
    assert_string_equal(text, "GFP_TRANSHUGE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_length),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_spelling),
    };

    return cmocka_run_group_tests_name("trace_gfp", tests, NULL, NULL);
}
