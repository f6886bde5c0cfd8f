/* SPDX-License-Identifier: MIT */
/* The watermark test: one table row per rule, both sides of each limit, then properties. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/watermark.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define MIN       DK_ALLOC_WMARK_MIN
#define CMA       DK_ALLOC_CMA
#define HALF      DK_ALLOC_MIN_RESERVE
#define NONB      DK_ALLOC_NON_BLOCK
#define HIAT      DK_ALLOC_HIGHATOMIC
#define OOM       DK_ALLOC_OOM
#define ALL       0x3fu
#define BIT(type) (1u << (type))

static const int ok = DECKLE_OK;
static const int empty = DECKLE_ENOMEM;
static const int mark = DECKLE_EWATERMARK;
static const int frag = DECKLE_EFRAGMENTED;

struct row {
    struct dk_watermark_input
        in; /* free, highatomic, cma, mark, boost, lowmem, order, flags, suit */
    const int *verdict;
};

static void check(const struct row *rows, size_t nr)
{
    for (size_t i = 0; i < nr; i++) {
        int verdict = dk_watermark_verdict(&rows[i].in);

        if (verdict != *rows[i].verdict)
            fail_msg("row %u: verdict %d, want %d", (unsigned)i, verdict, *rows[i].verdict);
        assert_int_equal(dk_watermark_ok(&rows[i].in), *rows[i].verdict == DECKLE_OK);
    }
}

static void test_order0(void **state)
{
    static const struct row rows[] = {
        {{0, 0, 0, 0, 0, 0, 0, MIN, 0}, &empty},
        {{1, 0, 0, 0, 0, 0, 0, MIN, 0}, &ok},
        {{101, 0, 0, 100, 0, 0, 0, MIN, 0}, &ok},
        {{100, 0, 0, 100, 0, 0, 0, MIN, 0}, &mark},
        {{111, 0, 0, 100, 10, 0, 0, MIN, 0}, &ok},
        {{110, 0, 0, 100, 10, 0, 0, MIN, 0}, &mark},
        {{116, 0, 0, 100, 10, 5, 0, MIN, 0}, &ok},
        {{115, 0, 0, 100, 10, 5, 0, MIN, 0}, &mark},
        /* HighAtomic frames count only with a reserve flag, CMA frames only with CMA. */
        {{121, 20, 0, 100, 0, 0, 0, MIN, 0}, &ok},
        {{120, 20, 0, 100, 0, 0, 0, MIN, 0}, &mark},
        {{120, 20, 0, 100, 0, 0, 0, NONB, 0}, &ok},
        {{120, 0, 20, 100, 0, 0, 0, MIN, 0}, &mark},
        {{120, 0, 20, 100, 0, 0, 0, CMA, 0}, &ok},
        {{120, 0, 20, 100, 0, 0, 0, NONB, 0}, &mark},
        {{140, 20, 20, 100, 0, 0, 0, MIN, 0}, &mark},
        {{141, 20, 20, 100, 0, 0, 0, MIN, 0}, &ok},
        /* Reads that contradict each other. */
        {{5, 100, 0, 0, 0, 0, 0, MIN, 0}, &mark},
        {{5, 5, 0, 0, 0, 0, 0, MIN, 0}, &mark},
    };
    (void)state;
    check(rows, COUNT(rows));
}

static void test_reserve_flags(void **state)
{
    static const struct row rows[] = {
        /* mark 100: half is 50, 3/8 is 38 (50 - 50/4), OOM half, all three 19 */
        {{51, 0, 0, 100, 0, 0, 0, HALF, 0}, &ok},
        {{50, 0, 0, 100, 0, 0, 0, HALF, 0}, &mark},
        {{39, 0, 0, 100, 0, 0, 0, HALF | NONB, 0}, &ok},
        {{38, 0, 0, 100, 0, 0, 0, HALF | NONB, 0}, &mark},
        {{100, 0, 0, 100, 0, 0, 0, NONB, 0}, &mark},
        {{101, 0, 0, 100, 0, 0, 0, NONB, 0}, &ok},
        {{51, 0, 0, 100, 0, 0, 0, OOM, 0}, &ok},
        {{50, 0, 0, 100, 0, 0, 0, OOM, 0}, &mark},
        {{26, 0, 0, 100, 0, 0, 0, OOM | HALF, 0}, &ok},
        {{25, 0, 0, 100, 0, 0, 0, OOM | HALF, 0}, &mark},
        {{20, 0, 0, 100, 0, 0, 0, OOM | HALF | NONB, 0}, &ok},
        {{19, 0, 0, 100, 0, 0, 0, OOM | HALF | NONB, 0}, &mark},
        /* odd marks round up: 5 -> 3, 3 -> 3 (3/4 is 0), 7 -> 4 */
        {{4, 0, 0, 5, 0, 0, 0, HALF, 0}, &ok},
        {{3, 0, 0, 5, 0, 0, 0, HALF, 0}, &mark},
        {{3, 0, 0, 5, 0, 0, 0, HALF | NONB, 0}, &mark},
        {{4, 0, 0, 7, 0, 0, 0, OOM, 0}, &mark},
        {{5, 0, 0, 7, 0, 0, 0, OOM, 0}, &ok},
        /* the boost is halved with the mark, lowmem_reserve never is */
        {{76, 0, 0, 100, 50, 0, 0, HALF, 0}, &ok},
        {{75, 0, 0, 100, 50, 0, 0, HALF, 0}, &mark},
        {{91, 0, 0, 100, 0, 40, 0, HALF, 0}, &ok},
        {{90, 0, 0, 100, 0, 40, 0, HALF, 0}, &mark},
        {{0, 0, 0, 100, 0, 40, 0, DK_ALLOC_NO_WATERMARKS, 0}, &ok},
        {{0, 0, 0, 100, 0, 40, 9, DK_ALLOC_NO_WATERMARKS, 0}, &ok},
    };
    (void)state;
    check(rows, COUNT(rows));
}

static void test_high_order(void **state)
{
    static const struct row rows[] = {
        {{108, 0, 0, 100, 0, 0, 3, MIN, ALL}, &ok}, /* 108 - 7 = 101 */
        {{107, 0, 0, 100, 0, 0, 3, MIN, ALL}, &mark},
        {{7, 0, 0, 0, 0, 0, 3, MIN, ALL}, &empty},
        {{8, 0, 0, 0, 0, 0, 3, MIN, ALL}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, MIN, 0}, &frag},
        {{1000, 0, 0, 100, 0, 0, 3, MIN, BIT(DECKLE_MOVABLE)}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, MIN, BIT(DECKLE_UNMOVABLE)}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, MIN, BIT(DECKLE_RECLAIMABLE)}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, MIN, BIT(DECKLE_CMA)}, &frag},
        {{1000, 0, 0, 100, 0, 0, 3, CMA, BIT(DECKLE_CMA)}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, MIN, BIT(DECKLE_HIGHATOMIC)}, &frag},
        {{1000, 0, 0, 100, 0, 0, 3, HALF | NONB, BIT(DECKLE_HIGHATOMIC)}, &frag},
        {{1000, 0, 0, 100, 0, 0, 3, HIAT, BIT(DECKLE_HIGHATOMIC)}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, OOM, BIT(DECKLE_HIGHATOMIC)}, &ok},
        {{1000, 0, 0, 100, 0, 0, 3, OOM | CMA | HIAT, BIT(DECKLE_ISOLATE)}, &frag},
        {{1u << 19, 0, 0, 0, 0, 0, 18, MIN, ALL}, &ok},
        {{(1u << 18) - 1, 0, 0, 0, 0, 0, 18, MIN, ALL}, &empty},
        /* order 0 never asks for runs */
        {{1000, 0, 0, 100, 0, 0, 0, MIN, 0}, &ok},
    };
    (void)state;
    check(rows, COUNT(rows));
}

static void test_attempt(void **state)
{
    static const struct row rows[] = {
        /* 60 frames, min 100, boost 200: half of 300 is 150; without boost 50 */
        {{60, 0, 0, 100, 200, 0, 0, HALF, 0}, &ok},
        {{50, 0, 0, 100, 200, 0, 0, HALF, 0}, &mark},
        {{60, 0, 0, 100, 200, 0, 0, MIN, 0}, &mark},                       /* not urgent */
        {{60, 0, 0, 100, 200, 0, 0, HALF | DK_ALLOC_WMARK_LOW, 0}, &mark}, /* not at min */
        {{60, 0, 0, 100, 200, 0, 1, HALF, ALL}, &mark},                    /* not order 0 */
        {{151, 0, 0, 100, 200, 0, 0, HALF, 0}, &ok},
        {{301, 0, 0, 100, 200, 0, 0, MIN, 0}, &ok},
        {{300, 0, 0, 100, 200, 0, 0, MIN, 0}, &mark},
        {{0, 0, 0, 100, 200, 0, 0, HALF, 0}, &empty},
        {{1000, 0, 0, 100, 200, 0, 3, MIN, 0}, &frag}, /* the shortcut is for order 0 */
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_watermark_attempt(&rows[i].in), *rows[i].verdict);
}

static void test_with_reclaimable(void **state)
{
    static const struct dk_watermark_input in = {50, 0, 0, 100, 0, 0, 0, MIN, 0};
    static const struct dk_watermark_input large = {50, 0, 0, 100, 0, 0, 4, MIN, 0};
    (void)state;

    assert_false(dk_watermark_ok_with(&in, 50));
    assert_true(dk_watermark_ok_with(&in, 51));
    assert_true(dk_watermark_ok_with(&in, UINT64_MAX));
    assert_false(dk_watermark_ok_with(&large, 1000)); /* reclaim of singles makes no run */
}

static struct dk_watermark_input random_input(uint64_t *seed)
{
    static const uint32_t flags[] = {DK_ALLOC_OOM, DK_ALLOC_NON_BLOCK,  DK_ALLOC_MIN_RESERVE,
                                     DK_ALLOC_CMA, DK_ALLOC_HIGHATOMIC, DK_ALLOC_CPUSET};
    struct dk_watermark_input in = {0};

    in.free = test_random_below(seed, 4000);
    in.free_highatomic = test_random_below(seed, in.free + 1) / 2;
    in.free_cma = test_random_below(seed, in.free + 1) / 2;
    in.mark = test_random_below(seed, 2000);
    in.boost = test_random_below(seed, 2) * test_random_below(seed, 1000);
    in.lowmem_reserve = test_random_below(seed, 2) * test_random_below(seed, 1000);
    in.order = (uint32_t)test_random_below(seed, 19) * (uint32_t)test_random_below(seed, 2);
    in.suitable = (uint32_t)test_random_below(seed, 64);
    for (size_t i = 0; i < COUNT(flags); i++)
        in.alloc_flags |= test_random(seed) & 1 ? flags[i] : 0;
    return in;
}

/* The formula of the reference once more, in signed numbers and step by step. */
static bool formula(const struct dk_watermark_input *in)
{
    int64_t usable = (int64_t)in->free - ((1 << in->order) - 1);
    int64_t min = (int64_t)(in->mark + in->boost);
    uint32_t types = BIT(DECKLE_MOVABLE) | BIT(DECKLE_UNMOVABLE) | BIT(DECKLE_RECLAIMABLE);
    bool half = in->alloc_flags & HALF, nonblock = in->alloc_flags & NONB;
    bool oom = in->alloc_flags & OOM, highatomic = in->alloc_flags & HIAT;

    if (!half && !nonblock && !oom && !highatomic)
        usable -= (int64_t)in->free_highatomic;
    if (!(in->alloc_flags & CMA))
        usable -= (int64_t)in->free_cma;
    if (half)
        min = min - min / 2;
    if (half && nonblock)
        min = min - min / 4;
    if (oom)
        min = min - min / 2;
    if (usable <= min + (int64_t)in->lowmem_reserve)
        return false;
    types |= in->alloc_flags & CMA ? BIT(DECKLE_CMA) : 0;
    types |= highatomic || oom ? BIT(DECKLE_HIGHATOMIC) : 0;
    return in->order == 0 || (in->suitable & types);
}

static void test_random_inputs(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(200000); n; n--) {
        struct dk_watermark_input in = random_input(&seed), other;
        bool passes = dk_watermark_ok(&in);

        assert_int_equal(passes, formula(&in));
        if (in.order == 0 && dk_watermark_fast_order0(&in))
            assert_true(passes); /* the shortcut never says more than the test */
        if (passes)
            assert_int_equal(dk_watermark_attempt(&in), DECKLE_OK);

        other = in; /* more free frames, or a lower mark, never hurt */
        other.free += test_random_below(&seed, 500);
        other.mark -= test_random_below(&seed, other.mark + 1);
        other.alloc_flags |= OOM;
        if (passes)
            assert_true(dk_watermark_ok(&other));
        assert_int_equal(dk_watermark_ok_with(&in, 77),
                         dk_watermark_ok(&(struct dk_watermark_input){
                             in.free + 77, in.free_highatomic, in.free_cma, in.mark, in.boost,
                             in.lowmem_reserve, in.order, in.alloc_flags, in.suitable}));
    }
}

/* Without reserve flags the shortcut and the full test agree. */
static void test_shortcut_is_exact(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(100000); n; n--) {
        struct dk_watermark_input in = random_input(&seed);

        in.order = 0;
        in.alloc_flags &= CMA;
        assert_int_equal(dk_watermark_fast_order0(&in), dk_watermark_ok(&in));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order0),
        cmocka_unit_test(test_reserve_flags),
        cmocka_unit_test(test_high_order),
        cmocka_unit_test(test_attempt),
        cmocka_unit_test(test_with_reclaimable),
        cmocka_unit_test(test_random_inputs),
        cmocka_unit_test(test_shortcut_is_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
