/* SPDX-License-Identifier: MIT */
/* Allocation flags derived from request flags and context. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/alloc_flags.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct dk_requester task = {DK_CONTEXT_TASK, false, false, false};

static void test_numbers(void **state)
{
    (void)state;
    assert_int_equal(DK_ALLOC_WMARK_MIN, 0);
    assert_int_equal(DK_ALLOC_WMARK_LOW, 1);
    assert_int_equal(DK_ALLOC_WMARK_HIGH, 2);
    assert_int_equal(DK_ALLOC_NO_WATERMARKS, 4);
    assert_int_equal(DK_ALLOC_OOM, 8);
    assert_int_equal(DK_ALLOC_NON_BLOCK, 0x10);
    assert_int_equal(DK_ALLOC_MIN_RESERVE, 0x20);
    assert_int_equal(DK_ALLOC_CPUSET, 0x40);
    assert_int_equal(DK_ALLOC_CMA, 0x80);
    assert_int_equal(DK_ALLOC_NOFRAGMENT, 0x100);
    assert_int_equal(DK_ALLOC_HIGHATOMIC, 0x200);
    assert_int_equal(DK_ALLOC_KSWAPD, 0x800);
    assert_int_equal(DK_ALLOC_RESERVES, 0x238);
}

static void test_fast(void **state)
{
    static const struct dk_first_choice normal_single = {DECKLE_ZONE_NORMAL, true, false, false,
                                                         false};
    static const struct dk_first_choice normal_dma32 = {DECKLE_ZONE_NORMAL, false, true, false,
                                                        false};
    static const struct dk_first_choice normal_alone = {DECKLE_ZONE_NORMAL, false, false, false,
                                                        false};
    static const struct dk_first_choice dma32 = {DECKLE_ZONE_DMA32, true, true, false, false};
    static const struct dk_first_choice movable = {DECKLE_ZONE_MOVABLE, true, true, false, false};
    static const struct dk_first_choice defrag = {DECKLE_ZONE_DMA32, false, false, true, false};
    static const struct dk_first_choice cpuset = {DECKLE_ZONE_DMA32, true, false, false, true};
    static const struct {
        uint32_t gfp;
        enum deckle_migratetype type;
        const struct dk_first_choice *first;
        uint32_t want;
    } rows[] = {
        {0, DECKLE_UNMOVABLE, &dma32, 0x001},
        {DECKLE_GFP_KERNEL, DECKLE_UNMOVABLE, &dma32, 0x801},
        {DECKLE_GFP_KERNEL, DECKLE_UNMOVABLE, &normal_single, 0x901},
        {DECKLE_GFP_KERNEL, DECKLE_UNMOVABLE, &normal_dma32, 0x901},
        {DECKLE_GFP_KERNEL, DECKLE_UNMOVABLE, &normal_alone, 0x801},
        {DECKLE_GFP_HIGHUSER_MOVABLE, DECKLE_MOVABLE, &movable, 0x881},
        {DECKLE_GFP_HIGHUSER_MOVABLE, DECKLE_MOVABLE, &normal_single, 0x981},
        {DECKLE_GFP_TRANSHUGE_LIGHT, DECKLE_MOVABLE, &movable, 0x081},
        {DECKLE_GFP_KERNEL, DECKLE_RECLAIMABLE, &defrag, 0x901},
        {DECKLE_GFP_KERNEL, DECKLE_UNMOVABLE, &cpuset, 0x841},
        /* HIGH gives nothing on the first pass. */
        {DECKLE_GFP_ATOMIC, DECKLE_UNMOVABLE, &dma32, 0x801},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_alloc_flags_fast(rows[i].gfp, rows[i].type, rows[i].first),
                         rows[i].want);
}

static void test_slow(void **state)
{
    static const struct dk_requester realtime = {DK_CONTEXT_TASK, true, false, false};
    static const struct dk_requester softirq = {DK_CONTEXT_SOFTIRQ, true, false, false};
    static const struct {
        uint32_t gfp;
        unsigned order;
        enum deckle_migratetype type;
        const struct dk_requester *who;
        uint32_t want;
    } rows[] = {
        {DECKLE_GFP_KERNEL, 0, DECKLE_UNMOVABLE, &task, 0x840},
        {DECKLE_GFP_KERNEL, 5, DECKLE_RECLAIMABLE, &task, 0x840},
        {DECKLE_GFP_HIGHUSER_MOVABLE, 0, DECKLE_MOVABLE, &task, 0x8c0},
        {DECKLE_GFP_KERNEL | DECKLE_GFP_HIGH, 3, DECKLE_UNMOVABLE, &task, 0x860},
        {DECKLE_GFP_ATOMIC, 0, DECKLE_UNMOVABLE, &task, 0x830},
        {DECKLE_GFP_ATOMIC, 1, DECKLE_UNMOVABLE, &task, 0xa30},
        {DECKLE_GFP_NOWAIT, 0, DECKLE_UNMOVABLE, &task, 0x850},
        {DECKLE_GFP_NOWAIT, 4, DECKLE_UNMOVABLE, &task, 0x850},
        {DECKLE_GFP_ATOMIC | DECKLE_GFP_NOMEMALLOC, 1, DECKLE_UNMOVABLE, &task, 0x820},
        {DECKLE_GFP_NOWAIT | DECKLE_GFP_NOMEMALLOC, 1, DECKLE_UNMOVABLE, &task, 0x840},
        {0, 0, DECKLE_UNMOVABLE, &task, 0x050},
        {DECKLE_GFP_KERNEL, 0, DECKLE_UNMOVABLE, &realtime, 0x860},
        {DECKLE_GFP_KERNEL, 0, DECKLE_UNMOVABLE, &softirq, 0x840},
        {DECKLE_GFP_NOWAIT, 0, DECKLE_UNMOVABLE, &realtime, 0x850},
        {DECKLE_GFP_TRANSHUGE_LIGHT, 9, DECKLE_MOVABLE, &task, 0x0c0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_alloc_flags_slow(rows[i].gfp, rows[i].order, rows[i].type, rows[i].who),
                         rows[i].want);
}

static void test_reserve(void **state)
{
    static const struct {
        uint32_t gfp;
        struct dk_requester who; /* context, realtime, memalloc, oom_victim */
        uint32_t want;
    } rows[] = {
        {DECKLE_GFP_KERNEL, {DK_CONTEXT_TASK, false, false, false}, 0},
        {DECKLE_GFP_MEMALLOC, {DK_CONTEXT_TASK, false, false, false}, 4},
        {DECKLE_GFP_MEMALLOC, {DK_CONTEXT_INTERRUPT, false, false, false}, 4},
        {DECKLE_GFP_MEMALLOC | DECKLE_GFP_NOMEMALLOC, {DK_CONTEXT_TASK, false, true, true}, 0},
        {DECKLE_GFP_NOMEMALLOC, {DK_CONTEXT_TASK, false, true, true}, 0},
        {0, {DK_CONTEXT_TASK, false, true, false}, 4},
        {0, {DK_CONTEXT_SOFTIRQ, false, true, false}, 4},
        {0, {DK_CONTEXT_INTERRUPT, false, true, false}, 0},
        {0, {DK_CONTEXT_TASK, false, true, true}, 4},
        {0, {DK_CONTEXT_TASK, false, false, true}, 8},
        {0, {DK_CONTEXT_SOFTIRQ, false, false, true}, 0},
        {0, {DK_CONTEXT_INTERRUPT, false, false, true}, 0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_alloc_flags_reserve(rows[i].gfp, &rows[i].who), rows[i].want);
}

static void test_retry(void **state)
{
    (void)state;

    assert_int_equal(dk_alloc_flags_retry(0x860, 0, DECKLE_UNMOVABLE), 0x860);
    assert_int_equal(dk_alloc_flags_retry(0x860, 4, DECKLE_UNMOVABLE), 0x804);
    assert_int_equal(dk_alloc_flags_retry(0x8c0, 8, DECKLE_MOVABLE), 0x888);
    assert_int_equal(dk_alloc_flags_retry(0x040, 8, DECKLE_RECLAIMABLE), 0x008);
    assert_false(dk_alloc_any_node(0x840, 0));
    assert_true(dk_alloc_any_node(0x830, 0));
    assert_true(dk_alloc_any_node(0x840, 4));
}

static void test_highatomic_use(void **state)
{
    (void)state;

    assert_true(dk_alloc_highatomic_first(DK_ALLOC_HIGHATOMIC | DK_ALLOC_NON_BLOCK));
    assert_false(dk_alloc_highatomic_first(DK_ALLOC_NON_BLOCK));
    assert_true(dk_alloc_highatomic_last(DK_ALLOC_NON_BLOCK));
    assert_true(dk_alloc_highatomic_last(DK_ALLOC_OOM));
    assert_false(dk_alloc_highatomic_last(DK_ALLOC_MIN_RESERVE | DK_ALLOC_HIGHATOMIC));
}

/* Whatever is asked: a caller that can sleep never gets NON_BLOCK or HIGHATOMIC, and the mark is
 * min. */
static void test_slow_random(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(100000); n; n--) {
        uint32_t gfp = (uint32_t)test_random(&seed) & DECKLE_GFP_ALL;
        unsigned order = (unsigned)test_random_below(&seed, 19);
        struct dk_requester who = {(enum dk_context)test_random_below(&seed, 3),
                                   test_random(&seed) & 1, test_random(&seed) & 1,
                                   test_random(&seed) & 1};
        enum deckle_migratetype type = (enum deckle_migratetype)test_random_below(&seed, 3);
        uint32_t flags = dk_alloc_flags_slow(gfp, order, type, &who);

        assert_int_equal(flags & DK_ALLOC_WMARK_MASK, DK_ALLOC_WMARK_MIN);
        assert_int_equal(flags & (DK_ALLOC_NO_WATERMARKS | DK_ALLOC_NOFRAGMENT | DK_ALLOC_OOM), 0);
        assert_int_equal((flags & DK_ALLOC_CMA) != 0, type == DECKLE_MOVABLE);
        if (gfp & (DECKLE_GFP_DIRECT_RECLAIM | DECKLE_GFP_NOMEMALLOC))
            assert_int_equal(flags & (DK_ALLOC_NON_BLOCK | DK_ALLOC_HIGHATOMIC), 0);
        if (flags & DK_ALLOC_HIGHATOMIC)
            assert_true(order > 0 && (flags & DK_ALLOC_MIN_RESERVE));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),     cmocka_unit_test(test_fast),
        cmocka_unit_test(test_slow),        cmocka_unit_test(test_reserve),
        cmocka_unit_test(test_retry),       cmocka_unit_test(test_highatomic_use),
        cmocka_unit_test(test_slow_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
