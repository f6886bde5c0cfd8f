/* SPDX-License-Identifier: MIT */
/* Fallback order, claim, steal, CMA balance, the HighAtomic reserve, grouping. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/fallback.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define MOV        DECKLE_MOVABLE
#define UNM        DECKLE_UNMOVABLE
#define REC        DECKLE_RECLAIMABLE
#define BIT(order) (UINT32_C(1) << (order))
#define P          512u

static void test_order_of_types(void **state)
{
    (void)state;

    assert_int_equal(dk_fallback_type(UNM, 0), REC);
    assert_int_equal(dk_fallback_type(UNM, 1), MOV);
    assert_int_equal(dk_fallback_type(MOV, 0), REC);
    assert_int_equal(dk_fallback_type(MOV, 1), UNM);
    assert_int_equal(dk_fallback_type(REC, 0), UNM);
    assert_int_equal(dk_fallback_type(REC, 1), MOV);

    for (unsigned a = 0; a < DECKLE_NR_MIGRATETYPES; a++) {
        assert_int_equal(dk_migratetype_mergeable((enum deckle_migratetype)a), a <= 2);
        for (unsigned b = 0; b < DECKLE_NR_MIGRATETYPES; b++)
            assert_int_equal(
                dk_migratetypes_merge((enum deckle_migratetype)a, (enum deckle_migratetype)b),
                a == b || (a <= 2 && b <= 2));
    }
}

static void test_grouping(void **state)
{
    (void)state;

    assert_true(dk_grouping_enabled(3072, P)); /* 6 blocks */
    assert_false(dk_grouping_enabled(3071, P));
    assert_false(dk_grouping_enabled(0, P));
    assert_true(dk_grouping_enabled(UINT64_MAX, P));
}

static void test_cma_first(void **state)
{
    (void)state;

    assert_true(dk_cma_first(DK_ALLOC_CMA, 100, 51));
    assert_false(dk_cma_first(DK_ALLOC_CMA, 100, 50));
    assert_true(dk_cma_first(DK_ALLOC_CMA, 101, 51)); /* 101/2 = 50 */
    assert_false(dk_cma_first(DK_ALLOC_CMA, 101, 50));
    assert_true(dk_cma_first(DK_ALLOC_CMA, 1, 1));
    assert_false(dk_cma_first(DK_ALLOC_CMA, 0, 0));
    assert_false(dk_cma_first(0, 100, 100));
}

static void test_claimable(void **state)
{
    static const struct {
        unsigned run_order;
        enum deckle_migratetype type;
        bool grouping, want;
    } rows[] = {
        {9, MOV, true, true},  {10, MOV, true, true}, {4, MOV, true, true}, /* 9 / 2 */
        {3, MOV, true, false}, {0, MOV, true, false}, {3, MOV, false, true},
        {0, UNM, true, true},  {0, REC, true, true},  {0, UNM, false, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_claimable(rows[i].run_order, rows[i].type, rows[i].grouping, 9),
                         rows[i].want);

    assert_int_equal(dk_claim_min_order(3, 0, 9), 3);
    assert_int_equal(dk_claim_min_order(3, DK_ALLOC_NOFRAGMENT, 9), 9);
    assert_int_equal(dk_claim_min_order(9, DK_ALLOC_NOFRAGMENT, 9), 9);
    assert_int_equal(dk_claim_min_order(10, DK_ALLOC_NOFRAGMENT, 9), 10);
    assert_int_equal(dk_claim_min_order(0, ~DK_ALLOC_NOFRAGMENT, 9), 0);
}

static void test_claim_block(void **state)
{
    static const struct {
        enum deckle_migratetype type, block_type;
        uint64_t free, movable, alike;
        bool claim;
    } rows[] = {
        /* Movable asks: movable frames are alike, whatever the block is */
        {MOV, UNM, 100, 200, 200, true},
        {MOV, UNM, 100, 155, 155, false},
        {MOV, UNM, 100, 156, 156, true}, /* 256 = P/2 */
        {MOV, REC, 256, 0, 0, true},
        {MOV, REC, 255, 0, 0, false},
        /* Unmovable or Reclaimable asks for a Movable block: what is neither free nor movable */
        {UNM, MOV, 10, 256, 246, true},
        {UNM, MOV, 10, 257, 245, false},
        {REC, MOV, 512, 0, 0, true},
        {REC, MOV, 0, 512, 0, false},
        {UNM, MOV, 0, 0, 512, true},
        /* for each other's blocks only free frames count */
        {UNM, REC, 255, 100, 0, false},
        {REC, UNM, 256, 0, 0, true},
        /* counted while frames move: never below zero */
        {UNM, MOV, 300, 300, 0, true},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t alike =
            dk_claim_alike(rows[i].type, rows[i].block_type, rows[i].free, rows[i].movable, P);

        assert_int_equal(alike, rows[i].alike);
        assert_int_equal(dk_claim_block(rows[i].free, alike, P, true), rows[i].claim);
        assert_true(dk_claim_block(rows[i].free, alike, P, false));
    }
}

static void test_claim_pick(void **state)
{
    static const struct {
        uint32_t orders[3]; /* of Movable, Unmovable, Reclaimable */
        enum deckle_migratetype type;
        unsigned from, min_order;
        bool grouping;
        struct dk_fallback_pick want;
    } rows[] = {
        {{0, 0, 0}, UNM, 10, 0, true, {false, false, 0, MOV}},
        /* the largest run wins over the order of types */
        {{BIT(10), 0, BIT(5)}, UNM, 10, 0, true, {true, true, 10, MOV}},
        /* the order of types decides within an order */
        {{BIT(5), 0, BIT(5)}, UNM, 10, 0, true, {true, false, 5, REC}},
        {{0, BIT(6), BIT(6)}, MOV, 10, 0, true, {true, false, 6, REC}},
        {{BIT(7), BIT(7), 0}, REC, 10, 0, true, {true, false, 7, UNM}},
        /* own runs are not looked at */
        {{0, BIT(8), 0}, UNM, 10, 0, true, {false, false, 0, MOV}},
        /* not below the request, not above from */
        {{BIT(2), 0, 0}, UNM, 10, 3, true, {false, false, 0, MOV}},
        {{BIT(3), 0, 0}, UNM, 10, 3, true, {true, false, 3, MOV}},
        {{BIT(9) | BIT(4), 0, 0}, UNM, 8, 0, true, {true, false, 4, MOV}},
        {{BIT(9), 0, 0}, UNM, 9, 9, true, {true, true, 9, MOV}},
        {{BIT(8), 0, 0}, UNM, 10, 9, true, {false, false, 0, MOV}},
        /* Movable gives up at the first run that is too small to claim for */
        {{0, BIT(3), 0}, MOV, 10, 0, true, {false, false, 0, MOV}},
        {{0, BIT(4) | BIT(3), 0}, MOV, 10, 0, true, {true, false, 4, UNM}},
        {{0, BIT(4) | BIT(3), 0}, MOV, 3, 0, true, {false, false, 0, MOV}},
        {{0, BIT(3), 0}, MOV, 10, 0, false, {true, false, 3, UNM}},
        /* after order 0 there is nothing more */
        {{BIT(0), 0, 0}, UNM, 0, 0, true, {true, false, 0, MOV}},
        {{BIT(0), 0, 0}, UNM, 0u - 1u, 0, true, {false, false, 0, MOV}},
        {{BIT(18), 0, 0}, REC, 18, 11, true, {true, true, 18, MOV}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dk_fallback_pick pick =
            dk_claim_pick(rows[i].orders, rows[i].type, rows[i].from, rows[i].min_order,
                          rows[i].grouping, DECKLE_PAGEBLOCK_ORDER);

        if (pick.found != rows[i].want.found)
            fail_msg("row %u: found %d", (unsigned)i, pick.found);
        assert_int_equal(pick.whole, rows[i].want.whole);
        if (!pick.found)
            continue;
        assert_int_equal(pick.order, rows[i].want.order);
        assert_int_equal(pick.type, rows[i].want.type);
    }
}

static void test_steal_pick(void **state)
{
    static const struct {
        uint32_t orders[3];
        enum deckle_migratetype type;
        unsigned order;
        struct dk_fallback_pick want;
    } rows[] = {
        {{0, 0, 0}, MOV, 0, {false, false, 0, MOV}},
        {{0, BIT(2) | BIT(5), BIT(3)}, MOV, 0, {true, false, 2, UNM}},
        {{0, BIT(2) | BIT(5), BIT(3)}, MOV, 3, {true, false, 3, REC}},
        {{0, BIT(2) | BIT(5), BIT(3)}, MOV, 4, {true, false, 5, UNM}},
        {{0, BIT(2) | BIT(5), BIT(3)}, MOV, 6, {false, false, 0, MOV}},
        {{BIT(0), BIT(0), BIT(0)}, REC, 0, {true, false, 0, UNM}},
        {{BIT(10), 0, 0}, UNM, 10, {true, false, 10, MOV}},
        {{BIT(11), 0, 0}, UNM, 10, {false, false, 0, MOV}}, /* above max_order */
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dk_fallback_pick pick =
            dk_steal_pick(rows[i].orders, rows[i].type, rows[i].order, 10);

        assert_int_equal(pick.found, rows[i].want.found);
        assert_false(pick.whole);
        if (!pick.found)
            continue;
        assert_int_equal(pick.order, rows[i].want.order);
        assert_int_equal(pick.type, rows[i].want.type);
    }
}

/* Claiming step by step visits every foreign run from the top that may be claimed, each once. */
static void test_picks_random(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(50000); n; n--) {
        uint32_t orders[3], seen = 0, foreign = 0;
        enum deckle_migratetype type = (enum deckle_migratetype)test_random_below(&seed, 3);
        unsigned min_order = (unsigned)test_random_below(&seed, 12);
        bool grouping = test_random_below(&seed, 4) != 0;
        unsigned from = 10;
        struct dk_fallback_pick pick;

        for (unsigned t = 0; t < 3; t++) {
            orders[t] = (uint32_t)(test_random(&seed) & test_random(&seed)) & 0x7ff;
            foreign |= t != (unsigned)type ? orders[t] : 0;
        }
        for (;; from = pick.order - 1) {
            pick = dk_claim_pick(orders, type, from, min_order, grouping, 9);
            if (!pick.found)
                break;
            assert_true(pick.type != type && ((orders[pick.type] >> pick.order) & 1));
            assert_false(seen & BIT(pick.order));
            seen |= BIT(pick.order);
        }
        if (type == MOV && grouping)
            foreign &= ~UINT32_C(0xf); /* orders 0-3 end the search */
        assert_int_equal(seen, foreign & ~(BIT(min_order) - 1));

        pick = dk_steal_pick(orders, type, min_order, 10);
        foreign = 0;
        for (unsigned t = 0; t < 3; t++)
            foreign |= t != (unsigned)type ? orders[t] : 0;
        foreign &= ~(BIT(min_order) - 1);
        assert_int_equal(pick.found, foreign != 0);
        if (pick.found)
            assert_int_equal(foreign & (BIT(pick.order + 1) - 1), BIT(pick.order));
    }
}

static void test_stage(void **state)
{
    (void)state;

    assert_int_equal(dk_stage_after(DK_STAGE_NORMAL), DK_STAGE_NORMAL);
    assert_int_equal(dk_stage_after(DK_STAGE_CMA), DK_STAGE_CMA);
    assert_int_equal(dk_stage_after(DK_STAGE_CLAIM), DK_STAGE_NORMAL);
    assert_int_equal(dk_stage_after(DK_STAGE_STEAL), DK_STAGE_STEAL);
}

static void test_highatomic(void **state)
{
    (void)state;

    assert_int_equal(dk_highatomic_limit(0, P), 0);
    assert_int_equal(dk_highatomic_limit(51199, P), 0);     /* 1 % is 511 */
    assert_int_equal(dk_highatomic_limit(51200, P), 512);   /* exactly a block */
    assert_int_equal(dk_highatomic_limit(51300, P), 1024);  /* 513: two blocks */
    assert_int_equal(dk_highatomic_limit(262144, P), 3072); /* 2621 of 1 GiB: 6 blocks */

    assert_true(dk_highatomic_may_reserve(0, 51200, MOV, P));
    assert_false(dk_highatomic_may_reserve(512, 51200, MOV, P));
    assert_true(dk_highatomic_may_reserve(512, 51300, UNM, P));
    assert_true(dk_highatomic_may_reserve(512, 51300, REC, P));
    assert_false(dk_highatomic_may_reserve(512, 51300, DECKLE_HIGHATOMIC, P));
    assert_false(dk_highatomic_may_reserve(512, 51300, DECKLE_CMA, P));
    assert_false(dk_highatomic_may_reserve(512, 51300, DECKLE_ISOLATE, P));
    assert_false(dk_highatomic_may_reserve(0, 51199, MOV, P));

    assert_false(dk_highatomic_may_release(0, P, false));
    assert_false(dk_highatomic_may_release(512, P, false));
    assert_true(dk_highatomic_may_release(1024, P, false));
    assert_false(dk_highatomic_may_release(0, P, true));
    assert_true(dk_highatomic_may_release(512, P, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_of_types), cmocka_unit_test(test_grouping),
        cmocka_unit_test(test_cma_first),      cmocka_unit_test(test_claimable),
        cmocka_unit_test(test_claim_block),    cmocka_unit_test(test_claim_pick),
        cmocka_unit_test(test_steal_pick),     cmocka_unit_test(test_picks_random),
        cmocka_unit_test(test_stage),          cmocka_unit_test(test_highatomic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
