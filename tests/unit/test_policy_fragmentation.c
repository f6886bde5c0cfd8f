/* SPDX-License-Identifier: MIT */
/* Fragmentation figures: values worked out by hand, bounds, sums that do not fit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/fragmentation.h"
#include "testing.h"

#define COUNT(a)  (sizeof(a) / sizeof((a)[0]))
#define NR_ORDERS 11u

static void test_rows(void **state)
{
    static const struct {
        uint64_t blocks[NR_ORDERS];
        unsigned order;
        int index;
        unsigned unusable, percent;
    } rows[] = {
        {{0}, 0, 0, 1000, 0},
        {{0}, 9, 0, 1000, 0},
        {{1}, 0, -1000, 0, 0},
        /* one frame for order 3: 1000 - (1000 + 125) */
        {{1}, 3, -125, 1000, 100},
        /* 1000 single frames for order 3: 1000 - (1000 + 125000) / 1000 */
        {{1000}, 3, 874, 1000, 100},
        /* 8 single frames for order 3: 1000 - (1000 + 1000) / 8 */
        {{8}, 3, 750, 1000, 100},
        /* one block of half the order: 1000 - (1000 + 500) / 1 */
        {{0, 0, 1}, 3, -500, 1000, 100},
        /* two of them: 1000 - (1000 + 1000) / 2 */
        {{0, 0, 2}, 3, 0, 1000, 100},
        /* 100 of them: 1000 - (1000 + 50000) / 100 */
        {{0, 0, 100}, 3, 490, 1000, 100},
        /* 10 + 5*2 + 2*4 + 1*8 = 36 frames, 8 of them in the block of order 3 */
        {{10, 5, 2, 1}, 3, -1000, 777, 77}, /* 28/36 */
        {{10, 5, 2, 1}, 2, -1000, 555, 55}, /* 20/36 */
        {{10, 5, 2, 1}, 1, -1000, 277, 27}, /* 10/36 */
        {{10, 5, 2, 1}, 0, -1000, 0, 0},
        /* order 4: 1000 - (1000 + 36000/16 = 2250) / 18 = 1000 - 180 */
        {{10, 5, 2, 1}, 4, 820, 1000, 100},
        /* all in the largest blocks */
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 10, -1000, 0, 0},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 9, -1000, 0, 0},
        /* an order that no list has: 1000 - (1000 + 5*1024*1000/2048 = 2500) / 5 */
        {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5}, 11, 300, 1000, 100},
        {{1}, 18, 0, 1000, 100}, /* 1000 / 2^18 rounds to 0 */
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dk_free_summary free = dk_free_summarise(rows[i].blocks, NR_ORDERS, rows[i].order);

        if (dk_fragmentation_index(&free) != rows[i].index)
            fail_msg("row %u: index %d", (unsigned)i, dk_fragmentation_index(&free));
        assert_int_equal(dk_unusable_index(&free), rows[i].unusable);
        assert_int_equal(dk_extfrag_percent(&free), rows[i].percent);
    }
}

static void test_summary(void **state)
{
    static const uint64_t blocks[NR_ORDERS] = {3, 0, 5, 0, 0, 0, 0, 0, 0, 1, 2};
    static const uint64_t endless[NR_ORDERS] = {UINT64_MAX, UINT64_MAX, 0, 0, 0,         0,
                                                0,          0,          0, 0, UINT64_MAX};
    struct dk_free_summary sum = dk_free_summarise(blocks, NR_ORDERS, 9);
    (void)state;

    assert_int_equal(sum.frames, 3 + 20 + 512 + 2048);
    assert_int_equal(sum.blocks, 11);
    assert_int_equal(sum.suitable, 2560);
    assert_int_equal(sum.order, 9);
    sum = dk_free_summarise(blocks, 0, 0);
    assert_int_equal(sum.frames + sum.blocks + sum.suitable, 0);

    /* Nonsense counts give a figure within bounds. */
    sum = dk_free_summarise(endless, NR_ORDERS, 10);
    assert_int_equal(sum.frames, UINT64_MAX);
    assert_int_equal(dk_fragmentation_index(&sum), -1000);
    assert_int_equal(dk_unusable_index(&sum), 0);
    sum = dk_free_summarise(endless, NR_ORDERS, 11);
    assert_int_equal(dk_unusable_index(&sum), 1000);
    assert_int_equal(dk_extfrag_percent(&sum), 100);
    assert_in_range(dk_fragmentation_index(&sum), 0, 1000);
}

/* 2^40 blocks of order 3 for order 4: 1000 - (1000 + 2^43 * 1000 / 16) / 2^40 = 1000 - 500. */
static void test_large(void **state)
{
    uint64_t blocks[NR_ORDERS] = {0, 0, 0, UINT64_C(1) << 40};
    struct dk_free_summary sum = dk_free_summarise(blocks, NR_ORDERS, 4);
    (void)state;

    assert_int_equal(dk_fragmentation_index(&sum), 500);
    blocks[3] = 0;
    blocks[0] = (UINT64_C(1) << 60) - 1; /* times 1000 does not fit */
    sum = dk_free_summarise(blocks, NR_ORDERS, 10);
    assert_int_equal(dk_fragmentation_index(&sum), 1000);
    assert_int_equal(dk_unusable_index(&sum), 1000);
}

static void test_bounds_random(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(50000); n; n--) {
        uint64_t blocks[NR_ORDERS], below = 0, all = 0;
        unsigned width = 1 + (unsigned)test_random_below(&seed, 40), last = 0;

        for (unsigned o = 0; o < NR_ORDERS; o++) {
            blocks[o] = test_random_below(&seed, UINT64_C(1) << width);
            all += blocks[o] << o;
        }
        for (unsigned order = 0; order < NR_ORDERS; order++) {
            struct dk_free_summary free = dk_free_summarise(blocks, NR_ORDERS, order);
            unsigned unusable = dk_unusable_index(&free);
            int index = dk_fragmentation_index(&free);

            assert_int_equal(free.frames, all);
            assert_int_equal(free.frames - free.suitable, below);
            if (all)
                assert_int_equal(unusable, below * 1000 / all);
            assert_true(unusable >= last && unusable <= 1000); /* never better for larger orders */
            assert_true(dk_extfrag_percent(&free) == (all ? unusable / 10 : 0));
            assert_true(index >= -1000 && index <= 1000);
            assert_int_equal(index == -1000, free.suitable > 0);
            last = unusable;
            below += blocks[order] << order;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_summary),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_bounds_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
