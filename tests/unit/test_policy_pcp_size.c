/* SPDX-License-Identifier: MIT */
/* Sizes of per-CPU caches: formulas, sequences worked out by hand, pressure, long random runs. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/pcp_size.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct dk_pcp_pressure calm = {DK_PCP_GROW, false, false};
static const struct dk_pcp_pressure calm_large_slice = {DK_PCP_GROW, false, true};
static const struct dk_pcp_pressure shrinking = {DK_PCP_SHRINK, false, false};
static const struct dk_pcp_pressure emptied = {DK_PCP_EMPTY, false, false};
static const struct dk_pcp_pressure reclaiming = {DK_PCP_GROW, true, false};

/* batch 63, limits as on a zone of 8 GiB on 2 CPUs or so */
static struct dk_pcp_state big(uint32_t high)
{
    struct dk_pcp_state s = {high, 252, 10000, 63, 0, 0, false};

    return s;
}

static void test_batch(void **state)
{
    static const struct {
        uint64_t managed;
        unsigned page_shift;
        uint32_t want;
    } rows[] = {
        {0, 12, 1},
        {1, 12, 1},
        {4096, 12, 1},    /* 4/4 = 1: 1 + 0 -> 1 - 1, at least 1 */
        {12287, 12, 1},   /* 11/4 = 2: 2 + 1 = 3 -> 2 - 1 */
        {12288, 12, 3},   /* 12/4 = 3: 3 + 1 = 4 -> 4 - 1 */
        {32768, 12, 7},   /* 8 + 4 = 12 -> 8 - 1 */
        {175000, 12, 31}, /* 170/4 = 42: 42 + 21 = 63 -> 32 - 1 */
        {180000, 12, 63}, /* 175/4 = 43: 43 + 21 = 64 -> 64 - 1 */
        {262144, 12, 63}, /* 64 + 32 = 96 -> 64 - 1 */
        {UINT64_MAX, 12, 63},
        {UINT64_MAX, 14, 15}, /* 64 frames in 1 MiB: 16 + 8 = 24 -> 16 - 1 */
        {UINT64_MAX, 16, 3},  /* 16 frames: 4 + 2 = 6 -> 4 - 1 */
        {UINT64_MAX, 10, 255},
        {UINT64_MAX, 20, 1},
        {UINT64_MAX, 21, 1},
        {UINT64_MAX, 30, 1},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        if (dk_pcp_batch(rows[i].managed, rows[i].page_shift) != rows[i].want)
            fail_msg("row %u: %u", (unsigned)i, dk_pcp_batch(rows[i].managed, rows[i].page_shift));
}

static void test_state_make(void **state)
{
    static const struct {
        uint64_t managed, low;
        unsigned nr_cpus;
        uint32_t batch, fraction, high_min, high_max;
    } rows[] = {
        {262144, 1286, 2, 63, 0, 643, 16384}, /* 1 GiB: low/2, 1/8 over 2 CPUs */
        {262144, 1286, 8, 63, 0, 252, 4096},  /* 160: at least 4 batches */
        {262144, 1286, 0, 63, 0, 1286, 32768},
        {262144, 1286, 2, 63, 8, 16384, 16384},
        {262144, 1286, 2, 63, 100, 1310, 1310},
        {262144, 1286, 64, 63, 1000, 252, 252},
        {1, 0, 1, 1, 0, 4, 4},
        {0, 0, 4096, 1, 0, 4, 4},
        {1000, 900, 1, 1, 0, 900, 900}, /* high_max 125 is below high_min */
        {UINT64_MAX, UINT64_MAX, 1, 63, 0, DK_PCP_HIGH_MOST, DK_PCP_HIGH_MOST},
    };
    struct dk_pcp_state s, fresh;
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        s = dk_pcp_state_make(rows[i].managed, rows[i].low, rows[i].nr_cpus, rows[i].batch,
                              rows[i].fraction);
        assert_int_equal(s.high_min, rows[i].high_min);
        assert_int_equal(s.high_max, rows[i].high_max);
        assert_int_equal(s.high, s.high_min);
        assert_int_equal(s.batch, rows[i].batch);
        assert_int_equal(s.free_count + s.alloc_factor + s.prev_free_high_order, 0);
    }

    s = big(5000);
    s.free_count = 9;
    fresh = dk_pcp_state_make(262144, 1286, 8, 31, 0);
    dk_pcp_state_resize(&s, &fresh);
    assert_int_equal(s.batch, 31);
    assert_int_equal(s.high, 4096); /* down to the new most */
    assert_int_equal(s.free_count, 9);
    s.high = 0;
    dk_pcp_state_resize(&s, &fresh);
    assert_int_equal(s.high, 160); /* 1286 / 8 */

    assert_true(dk_pcp_slice_large(190 * 4096, 12, 63)); /* 190 > 189 */
    assert_false(dk_pcp_slice_large(190 * 4096 - 1, 12, 63));
    assert_false(dk_pcp_slice_large(0, 12, 63));
}

/* Refill after refill without a free doubles up to 32 batches, and high grows along. */
static void test_refill_order0(void **state)
{
    static const struct {
        uint32_t want, high, alloc_factor;
    } rows[] = {
        {63, 315, 1},    {126, 441, 2},   {252, 693, 3},   {504, 1197, 4},   {1008, 2205, 5},
        {2016, 4221, 5}, {2016, 6237, 5}, {2016, 8253, 5}, {2016, 10000, 5}, {2016, 10000, 5},
    };
    struct dk_pcp_state s = big(252);
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_GROW), rows[i].want);
        assert_int_equal(s.high, rows[i].high);
        assert_int_equal(s.alloc_factor, rows[i].alloc_factor);
    }
}

static void test_refill_limits(void **state)
{
    struct dk_pcp_state s = big(252);
    (void)state;

    /* Other lists hold 300 of 315: room for a batch only, and the factor does not rise. */
    s.alloc_factor = 1;
    assert_int_equal(dk_pcp_refill(&s, 0, 300, DK_PCP_GROW), 63);
    assert_int_equal(s.high, 378); /* it grew by 126 all the same */
    assert_int_equal(s.alloc_factor, 1);

    s = big(252);
    s.alloc_factor = 2;
    assert_int_equal(dk_pcp_refill(&s, 0, 100, DK_PCP_GROW), 252); /* 504 - 100 - 63 = 341 */
    assert_int_equal(s.alloc_factor, 3);

    s = big(252);
    s.alloc_factor = 2;
    assert_int_equal(dk_pcp_refill(&s, 0, 250, DK_PCP_GROW), 191); /* 504 - 250 - 63 */
    assert_int_equal(s.alloc_factor, 2);

    /* Just enough room, 315 - 189 - 63 = 63, is not a limit. */
    s = big(252);
    assert_int_equal(dk_pcp_refill(&s, 0, 189, DK_PCP_GROW), 63);
    assert_int_equal(s.alloc_factor, 1);

    /* No growth while shrinking: 252 - 0 - 63 = 189. */
    s = big(252);
    s.alloc_factor = 5;
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_SHRINK), 189);
    assert_int_equal(s.high, 252);
    assert_int_equal(s.alloc_factor, 5);

    /* Fixed by configuration: no growth either. */
    s = big(252);
    s.high_max = 252;
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_GROW), 63);
    assert_int_equal(s.high, 252);

    /* Disabled: nothing to keep. */
    s = (struct dk_pcp_state){0, 0, 0, 1, 0, 0, false};
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_GROW), 1);
    assert_int_equal(dk_pcp_refill(&s, 4, 0, DK_PCP_GROW), 1);
    assert_int_equal(s.high, 0);

    /* A cache of just one batch is not disabled. */
    s = (struct dk_pcp_state){63, 63, 63, 63, 0, 0, false};
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_GROW), 63);
    assert_int_equal(dk_pcp_free(&s, 0, 62, &calm), 0);
    assert_int_equal(dk_pcp_free(&s, 0, 63, &calm), 1);

    /* high outside its limits is brought back first. */
    s = big(1);
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_SHRINK), 63);
    assert_int_equal(s.high, 252);
    s = big(20000);
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_SHRINK), 63);
    assert_int_equal(s.high, 10000);

    /* The smallest batch. */
    s = (struct dk_pcp_state){4, 4, 100, 1, 0, 0, false};
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_GROW), 1);
    assert_int_equal(dk_pcp_refill(&s, 0, 0, DK_PCP_GROW), 2);
    assert_int_equal(dk_pcp_refill(&s, 3, 0, DK_PCP_GROW), 1);
}

static void test_refill_high_orders(void **state)
{
    static const struct {
        unsigned order;
        uint32_t high_max, want, high;
        enum dk_pcp_mode mode;
    } rows[] = {
        {1, 10000, 31, 315, DK_PCP_GROW},   {2, 10000, 15, 315, DK_PCP_GROW},
        {3, 10000, 7, 315, DK_PCP_GROW},    {4, 10000, 3, 315, DK_PCP_GROW},
        {5, 10000, 2, 316, DK_PCP_GROW}, /* at least 2: 64 frames */
        {9, 10000, 2, 1276, DK_PCP_GROW},   {10, 10000, 2, 2300, DK_PCP_GROW},
        {10, 1024, 2, 1024, DK_PCP_GROW}, /* one block may stay */
        {10, 1023, 1, 1023, DK_PCP_GROW}, /* none may: fetch what was asked for */
        {18, 10000, 1, 10000, DK_PCP_GROW}, {3, 10000, 7, 252, DK_PCP_SHRINK},
        {7, 10000, 2, 252, DK_PCP_SHRINK},  {8, 10000, 1, 252, DK_PCP_SHRINK},
        {3, 10000, 1, 252, DK_PCP_EMPTY},   {0, 10000, 1, 252, DK_PCP_EMPTY},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dk_pcp_state s = big(252);

        s.high_max = rows[i].high_max;
        assert_int_equal(dk_pcp_refill(&s, rows[i].order, 0, rows[i].mode), rows[i].want);
        assert_int_equal(s.high, rows[i].high);
        assert_int_equal(s.alloc_factor, 0);
    }
}

static void test_notes(void **state)
{
    struct dk_pcp_state s = big(252);
    (void)state;

    s.free_count = 100;
    dk_pcp_note_allocs(&s, 0);
    assert_int_equal(s.free_count, 100);
    dk_pcp_note_allocs(&s, 1);
    assert_int_equal(s.free_count, 50);
    dk_pcp_note_allocs(&s, 3);
    assert_int_equal(s.free_count, 6);
    dk_pcp_note_allocs(&s, 32);
    assert_int_equal(s.free_count, 0);
    s.free_count = 100;
    dk_pcp_note_allocs(&s, UINT32_MAX);
    assert_int_equal(s.free_count, 0);

    s.alloc_factor = 5;
    dk_pcp_note_frees(&s, 0, 32);
    assert_int_equal(s.alloc_factor, 0);
    s.free_count = 0;
    s.alloc_factor = 5;
    dk_pcp_note_frees(&s, 0, 0);
    assert_int_equal(s.alloc_factor, 5);
    dk_pcp_note_frees(&s, 0, 1);
    assert_int_equal(s.alloc_factor, 2);
    assert_int_equal(s.free_count, 1);
    dk_pcp_note_frees(&s, 3, 2);
    assert_int_equal(s.alloc_factor, 0);
    assert_int_equal(s.free_count, 17);
    assert_true(s.prev_free_high_order);
    dk_pcp_note_frees(&s, 4, 1); /* not an order of bursts */
    assert_false(s.prev_free_high_order);
    assert_int_equal(s.free_count, 33);
    dk_pcp_note_frees(&s, 0, UINT32_MAX);
    assert_int_equal(s.free_count, 2016); /* 63 << 5 */
    s.free_count = 2015;
    dk_pcp_note_frees(&s, 10, 5);
    assert_int_equal(s.free_count, 3039); /* the one that crosses counts whole */
    dk_pcp_note_frees(&s, 10, 5);
    assert_int_equal(s.free_count, 3039);
}

/* Frees at once are frees one by one. */
static void test_notes_add_up(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(20000); n; n--) {
        struct dk_pcp_state one = big(252), many;
        unsigned order = (unsigned)test_random_below(&seed, 12);
        uint32_t nr = (uint32_t)test_random_below(&seed, 3000);

        one.alloc_factor = (uint32_t)test_random_below(&seed, 6);
        one.free_count = (uint32_t)test_random_below(&seed, 2500);
        many = one;
        dk_pcp_note_frees(&many, order, nr);
        for (uint32_t i = 0; i < nr; i++)
            dk_pcp_note_frees(&one, order, 1);
        assert_int_equal(many.free_count, one.free_count);
        assert_int_equal(many.alloc_factor, one.alloc_factor);
        assert_int_equal(many.prev_free_high_order, one.prev_free_high_order);

        dk_pcp_note_allocs(&many, nr);
        for (uint32_t i = 0; i < nr; i++)
            dk_pcp_note_allocs(&one, 1);
        assert_int_equal(many.free_count, one.free_count);
    }
}

/* Frees in a row: the first full drain takes 189 and raises high to 315, and so on. */
static void test_free_in_a_row(void **state)
{
    struct dk_pcp_state s = big(252);
    uint32_t count = 0, drain = 0;
    (void)state;

    while (!drain)
        drain = dk_pcp_free(&s, 0, ++count, &calm);
    assert_int_equal(count, 252);
    assert_int_equal(drain, 189); /* clamp(252, 63, 252 - 63) */
    assert_int_equal(s.high, 315);

    for (count -= drain, drain = 0; !drain;)
        drain = dk_pcp_free(&s, 0, ++count, &calm);
    assert_int_equal(count, 315);
    assert_int_equal(s.free_count, 504);
    assert_int_equal(drain, 252); /* 315 - 63 */
    assert_int_equal(s.high, 567);

    for (count -= drain, drain = 0; !drain;)
        drain = dk_pcp_free(&s, 0, ++count, &calm);
    assert_int_equal(count, 567);
    assert_int_equal(s.free_count, 1008);
    assert_int_equal(drain, 504);
    assert_int_equal(s.high, 1071);
}

static void test_free_rules(void **state)
{
    struct dk_pcp_state s = big(252);
    (void)state;

    /* A few frees between allocations: a batch is enough. */
    assert_int_equal(dk_pcp_free(&s, 0, 251, &calm), 0);
    assert_int_equal(dk_pcp_free(&s, 0, 252, &calm), 63);
    assert_int_equal(s.high, 252); /* 2 + 63 fit */

    /* Fixed by configuration: high stays. */
    s = big(252);
    s.high_max = 252;
    s.free_count = 1000;
    assert_int_equal(dk_pcp_free(&s, 0, 252, &calm), 189);
    assert_int_equal(s.high, 252);
    assert_int_equal(dk_pcp_free(&s, 0, 252, &shrinking), 189);
    assert_int_equal(s.high, 252);

    /* Shrinking: each free drains from high_min on; high falls by a batch or what was freed. */
    s = big(1000);
    assert_int_equal(dk_pcp_free(&s, 0, 251, &shrinking), 0);
    assert_int_equal(s.high, 937);
    assert_int_equal(dk_pcp_free(&s, 0, 252, &shrinking), 63);
    assert_int_equal(s.high, 874);
    s.free_count = 499;
    assert_int_equal(dk_pcp_free(&s, 0, 900, &shrinking), 500);
    assert_int_equal(s.high, 374);
    assert_int_equal(dk_pcp_free(&s, 0, 900, &shrinking), 501);
    assert_int_equal(s.high, 252);

    /* Reclaim: four batches at most. */
    s = big(1000);
    assert_int_equal(dk_pcp_free(&s, 0, 251, &reclaiming), 0);
    assert_int_equal(s.high, 937);
    assert_int_equal(dk_pcp_free(&s, 0, 252, &reclaiming), 63);
    assert_int_equal(s.high, 874);
    s.free_count = 5000;
    assert_int_equal(dk_pcp_free(&s, 0, 252, &reclaiming), 189);
    assert_int_equal(s.high, 252);

    /* Empty: everything, and high starts over. */
    s = big(1000);
    assert_int_equal(dk_pcp_free(&s, 0, 1, &emptied), 1);
    assert_int_equal(dk_pcp_free(&s, 3, 777, &emptied), 777);
    assert_int_equal(s.high, 252);

    /* Disabled. */
    s = (struct dk_pcp_state){0, 0, 0, 1, 0, 0, false};
    assert_int_equal(dk_pcp_free(&s, 0, 1, &calm), 1);
    assert_int_equal(dk_pcp_free(&s, 5, 32, &calm), 32);
}

static void test_burst(void **state)
{
    struct dk_pcp_state s = big(5000);
    (void)state;

    /* 8 + 8 + … frames of order 3: from the ninth on a batch has been freed in a row. */
    for (uint32_t count = 8; count <= 64; count += 8)
        assert_int_equal(dk_pcp_free(&s, 3, count, &calm), 0);
    assert_int_equal(s.free_count, 64);
    assert_int_equal(dk_pcp_free(&s, 3, 72, &calm), 72);
    assert_int_equal(s.high, 2984); /* 5000 - 2016 */
    assert_int_equal(dk_pcp_free(&s, 1, 3000, &calm), 2016);
    assert_int_equal(s.high, 968);
    assert_int_equal(dk_pcp_free(&s, 2, 4, &calm), 4);
    assert_int_equal(s.high, 252); /* not under high_min */

    /* An order-0 free ends it; so does one of an order above 3. */
    assert_int_equal(dk_pcp_free(&s, 0, 100, &calm), 0);
    assert_int_equal(dk_pcp_free(&s, 3, 100, &calm), 0);
    assert_int_equal(dk_pcp_free(&s, 3, 100, &calm), 100);
    assert_int_equal(dk_pcp_free(&s, 4, 100, &calm), 0);
    assert_int_equal(dk_pcp_free(&s, 3, 100, &calm), 0);

    /* With a large slice of cache, small counts may stay. */
    assert_int_equal(dk_pcp_free(&s, 3, 62, &calm_large_slice), 0);
    assert_int_equal(dk_pcp_free(&s, 3, 63, &calm_large_slice), 63);

    /* A batch exactly is enough. */
    s.free_count = 63;
    assert_int_equal(dk_pcp_free(&s, 3, 100, &calm), 100);
    s.free_count = 62;
    assert_int_equal(dk_pcp_free(&s, 3, 100, &calm), 0);

    /* Enough allocations in between: no longer in a row. */
    dk_pcp_note_allocs(&s, 8);
    assert_int_equal(dk_pcp_free(&s, 3, 100, &calm), 0);
}

static void test_decay(void **state)
{
    struct dk_pcp_state s = big(1000);
    uint32_t drain;
    (void)state;

    assert_true(dk_pcp_decay(&s, 900, DK_PCP_GROW, &drain));
    assert_int_equal(s.high, 875);
    assert_int_equal(drain, 25);
    assert_true(dk_pcp_decay(&s, 0, DK_PCP_GROW, &drain));
    assert_int_equal(s.high, 766); /* 875 - 109 */
    assert_int_equal(drain, 0);

    /* One drain moves at most 2016, and high does not fall below what it leaves. */
    s = big(9000);
    assert_true(dk_pcp_decay(&s, 10000, DK_PCP_GROW, &drain));
    assert_int_equal(s.high, 7984);
    assert_int_equal(drain, 2016);
    s = big(9000);
    assert_true(dk_pcp_decay(&s, 20000, DK_PCP_GROW, &drain));
    assert_int_equal(s.high, 9000);
    assert_int_equal(drain, 2016);

    s = big(252);
    assert_false(dk_pcp_decay(&s, 252, DK_PCP_GROW, &drain));
    assert_int_equal(drain, 0);
    assert_false(dk_pcp_decay(&s, 300, DK_PCP_GROW, &drain));
    assert_int_equal(drain, 48);

    s = big(9000);
    assert_true(dk_pcp_decay(&s, 5000, DK_PCP_EMPTY, &drain));
    assert_int_equal(drain, 2016);
    assert_int_equal(s.high, 252);
    assert_false(dk_pcp_decay(&s, 100, DK_PCP_EMPTY, &drain));
    assert_int_equal(drain, 100);

    /* It gets there from everywhere, the last steps one by one. */
    for (uint32_t high = 252; high <= 10000; high += 7) {
        unsigned rounds = 0;

        s = big(high);
        while (dk_pcp_decay(&s, 0, DK_PCP_GROW, &drain))
            assert_true(++rounds < 100);
        assert_int_equal(s.high, 252);
    }
    s = (struct dk_pcp_state){7, 4, 100, 1, 0, 0, false};
    assert_true(dk_pcp_decay(&s, 0, DK_PCP_GROW, &drain));
    assert_int_equal(s.high, 6);
}

static void test_mode(void **state)
{
    static const struct {
        enum dk_pcp_mode mode;
        uint64_t free;
        enum dk_pcp_mode want;
    } rows[] = {
        /* low 100, high 200 */
        {DK_PCP_GROW, 201, DK_PCP_GROW},   {DK_PCP_GROW, 200, DK_PCP_SHRINK},
        {DK_PCP_GROW, 101, DK_PCP_SHRINK}, {DK_PCP_GROW, 100, DK_PCP_EMPTY},
        {DK_PCP_SHRINK, 201, DK_PCP_GROW}, {DK_PCP_SHRINK, 150, DK_PCP_SHRINK},
        {DK_PCP_SHRINK, 0, DK_PCP_EMPTY},  {DK_PCP_EMPTY, 100, DK_PCP_EMPTY},
        {DK_PCP_EMPTY, 101, DK_PCP_EMPTY}, {DK_PCP_EMPTY, 200, DK_PCP_EMPTY},
        {DK_PCP_EMPTY, 201, DK_PCP_GROW},  {DK_PCP_EMPTY, UINT64_MAX, DK_PCP_GROW},
    };
    struct dk_pcp_state s = big(1000);
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_pcp_mode_next(rows[i].mode, rows[i].free, 100, 200), rows[i].want);

    /* Without watermarks one free frame is enough to grow. */
    assert_int_equal(dk_pcp_mode_next(DK_PCP_EMPTY, 1, 0, 0), DK_PCP_GROW);
    assert_int_equal(dk_pcp_mode_next(DK_PCP_GROW, 0, 0, 0), DK_PCP_EMPTY);

    assert_int_equal(dk_pcp_hold(&s, DK_PCP_GROW), 1000);
    assert_int_equal(dk_pcp_hold(&s, DK_PCP_SHRINK), 252);
    assert_int_equal(dk_pcp_hold(&s, DK_PCP_EMPTY), 0);

    assert_int_equal(dk_pcp_list_high(0, 1000, 512), 512);
    assert_int_equal(dk_pcp_list_high(0, 511, 512), 511);
    assert_int_equal(dk_pcp_list_high(9, 1023, 16), 1);
    assert_int_equal(dk_pcp_list_high(9, 511, 16), 0);
    assert_int_equal(dk_pcp_list_high(3, 0, 16), 0);
    assert_int_equal(dk_pcp_list_high(3, UINT64_MAX, 16), 16);
    assert_int_equal(dk_pcp_list_high(3, UINT64_MAX, 0), 0);
}

/* A zone, one cache in front of it and one user; used + count + free never changes. */
struct world {
    struct dk_pcp_state s;
    struct dk_pcp_pressure pressure;
    bool remembers; /* false: the mode follows the free count alone, without hysteresis */
    uint64_t low, high;
    uint64_t free, used;
    uint32_t count;
    unsigned leaves_empty, refills_when_empty;
};

static void world_pressure(struct world *w)
{
    enum dk_pcp_mode before = w->remembers ? w->pressure.mode : DK_PCP_GROW;
    enum dk_pcp_mode mode = dk_pcp_mode_next(before, w->free, w->low, w->high);

    w->leaves_empty += w->pressure.mode == DK_PCP_EMPTY && mode != DK_PCP_EMPTY;
    w->pressure.mode = mode;
}

static void world_alloc(struct world *w)
{
    if (w->count == 0) {
        uint32_t refill = dk_pcp_refill(&w->s, 0, 0, w->pressure.mode);

        if (refill > w->free)
            refill = (uint32_t)w->free;
        w->refills_when_empty += w->pressure.mode == DK_PCP_EMPTY && refill > 1;
        w->free -= refill;
        w->count += refill;
    }
    if (w->count) {
        w->count--;
        w->used++;
    }
    dk_pcp_note_allocs(&w->s, 1);
    world_pressure(w);
}

static void world_free(struct world *w)
{
    uint32_t drain;

    w->used--;
    drain = dk_pcp_free(&w->s, 0, ++w->count, &w->pressure);
    assert_true(drain <= w->count);
    w->count -= drain;
    w->free += drain;
    world_pressure(w);
}

/* The user takes until the zone is close to low, then frees 100 and takes 100 in turns. */
static struct world world_under_pressure(bool remembers)
{
    struct world w = {.low = 1286, .high = 1548, .free = 20000, .remembers = remembers};
    unsigned turns;

    w.s = big(252);
    while (w.used + w.low + 50 < 20000)
        world_alloc(&w);
    for (turns = 0; turns < 500; turns++) {
        for (unsigned i = 0; i < 100; i++)
            world_free(&w);
        for (unsigned i = 0; i < 100; i++)
            world_alloc(&w);
        assert_int_equal(w.free + w.used + w.count, 20000);
    }
    return w;
}

/* Around low the cache comes to rest and stays empty; without the hysteresis it takes turns. */
static void test_no_turns_around_low(void **state)
{
    struct world w = world_under_pressure(true);
    (void)state;

    assert_int_equal(w.pressure.mode, DK_PCP_EMPTY);
    assert_int_equal(w.count, 0);
    assert_int_equal(w.refills_when_empty, 0);
    assert_int_equal(w.leaves_empty, 0);

    while (w.used) /* all comes back: above high the cache grows again, once */
        world_free(&w);
    assert_int_equal(w.pressure.mode, DK_PCP_GROW);
    assert_int_equal(w.leaves_empty, 1);
    assert_true(w.count > 0 && w.count < w.s.high);
    assert_true(dk_pcp_refill(&w.s, 0, 0, w.pressure.mode) > 1);

    w = world_under_pressure(false);
    assert_true(w.leaves_empty > 100);
}

/* Whatever happens: limits hold, a drain never exceeds what is held, a refill is bounded. */
static void test_random_life(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t life = test_effort(300); life; life--) {
        unsigned page_shift = 12 + 2 * (unsigned)test_random_below(&seed, 3);
        uint64_t managed = test_random(&seed) >> (20 + test_random_below(&seed, 40));
        uint32_t batch = dk_pcp_batch(managed, page_shift);
        struct dk_pcp_state s = dk_pcp_state_make(
            managed, managed / 100, 1 + (unsigned)test_random_below(&seed, 16), batch, 0);
        uint32_t count = 0;

        assert_true(s.high_min >= 4 * batch && s.high_min <= s.high_max);
        for (unsigned step = 0; step < 2000; step++) {
            unsigned order = (unsigned)test_random_below(&seed, 11);
            struct dk_pcp_pressure p = {(enum dk_pcp_mode)test_random_below(&seed, 3),
                                        test_random_below(&seed, 8) == 0, test_random(&seed) & 1};
            uint32_t frames = UINT32_C(1) << order, moved;

            switch (test_random_below(&seed, 4)) {
            case 0:
                moved = dk_pcp_refill(&s, order, count, p.mode);
                assert_true(moved >= 1);
                assert_true(moved <= batch << DK_PCP_BATCH_SCALE_MOST);
                assert_true(((uint64_t)(moved - 1) << order) <= s.high);
                assert_true(p.mode != DK_PCP_EMPTY || moved == 1);
                count += (moved - 1) << order;
                dk_pcp_note_allocs(&s, 1);
                break;
            case 1:
                dk_pcp_note_allocs(&s, (uint32_t)test_random_below(&seed, 4));
                break;
            case 2:
                count += frames;
                moved = dk_pcp_free(&s, order, count, &p);
                assert_true(moved <= count);
                if (p.mode == DK_PCP_EMPTY)
                    assert_int_equal(moved, count);
                else if (count > s.high_max)
                    assert_true(moved > 0);
                count -= moved;
                break;
            default:
                dk_pcp_decay(&s, count, p.mode, &moved);
                assert_true(moved <= count);
                assert_true(moved <= batch << DK_PCP_BATCH_SCALE_MOST);
                count -= moved;
            }
            assert_true(s.high >= s.high_min && s.high <= s.high_max);
            assert_true(s.alloc_factor <= DK_PCP_BATCH_SCALE_MOST);
            assert_true(s.free_count < (batch << DK_PCP_BATCH_SCALE_MOST) + (1u << 10));
            if (count > UINT32_C(1) << 30)
                count = 0;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch),
        cmocka_unit_test(test_state_make),
        cmocka_unit_test(test_refill_order0),
        cmocka_unit_test(test_refill_limits),
        cmocka_unit_test(test_refill_high_orders),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_notes_add_up),
        cmocka_unit_test(test_free_in_a_row),
        cmocka_unit_test(test_free_rules),
        cmocka_unit_test(test_burst),
        cmocka_unit_test(test_decay),
        cmocka_unit_test(test_mode),
        cmocka_unit_test(test_no_turns_around_low),
        cmocka_unit_test(test_random_life),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
