/* SPDX-License-Identifier: MIT */
/* Retry decisions: tables, and the length of the loops they allow. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/retry.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_compact_first(void **state)
{
    static const struct {
        uint32_t gfp;
        unsigned order;
        enum deckle_migratetype type;
        bool can_compact;
        uint32_t reserve;
        bool want;
    } rows[] = {
        {DECKLE_GFP_KERNEL, 0, DECKLE_UNMOVABLE, true, 0, false},
        {DECKLE_GFP_KERNEL, 1, DECKLE_UNMOVABLE, true, 0, true},
        {DECKLE_GFP_KERNEL, 3, DECKLE_RECLAIMABLE, true, 0, true},
        {DECKLE_GFP_KERNEL, 3, DECKLE_MOVABLE, true, 0, false},
        {DECKLE_GFP_KERNEL, 4, DECKLE_MOVABLE, true, 0, true},
        {DECKLE_GFP_KERNEL, 4, DECKLE_MOVABLE, false, 0, false},
        {DECKLE_GFP_KERNEL, 4, DECKLE_MOVABLE, true, DK_ALLOC_NO_WATERMARKS, false},
        {DECKLE_GFP_KERNEL, 4, DECKLE_MOVABLE, true, DK_ALLOC_OOM, false},
        {DECKLE_GFP_ATOMIC, 4, DECKLE_UNMOVABLE, true, 0, false},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_compact_first(rows[i].gfp, rows[i].order, rows[i].type,
                                          rows[i].can_compact, rows[i].reserve),
                         rows[i].want);
}

static void test_giving_up(void **state)
{
    const uint32_t once = DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY;
    const uint32_t hard = DECKLE_GFP_KERNEL | DECKLE_GFP_RETRY_MAYFAIL;
    (void)state;

    assert_true(dk_give_up_after_first_compaction(once, 4, DK_COMPACT_SKIPPED));
    assert_true(dk_give_up_after_first_compaction(once, 4, DK_COMPACT_DEFERRED));
    assert_false(dk_give_up_after_first_compaction(once, 4, DK_COMPACT_FAILED));
    assert_false(dk_give_up_after_first_compaction(once, 4, DK_COMPACT_SUCCESS));
    assert_true(
        dk_give_up_after_first_compaction(once | DECKLE_GFP_THISNODE, 4, DK_COMPACT_FAILED));
    assert_false(dk_give_up_after_first_compaction(once, 3, DK_COMPACT_SKIPPED));
    assert_false(dk_give_up_after_first_compaction(hard, 4, DK_COMPACT_SKIPPED));

    assert_true(dk_give_up_after_round(once, 0, true));
    assert_false(dk_give_up_after_round(DECKLE_GFP_KERNEL, 3, false));
    assert_true(dk_give_up_after_round(DECKLE_GFP_KERNEL, 4, true));
    assert_false(dk_give_up_after_round(hard, 4, true));
    assert_true(dk_give_up_after_round(hard, 4, false));
    assert_true(dk_give_up_after_round(hard | DECKLE_GFP_NORETRY, 4, true));
}

static void test_reclaim_rounds(void **state)
{
    unsigned rounds = 0, turns = 0;
    (void)state;

    assert_int_equal(dk_reclaim_rounds(7, 0, true), 0);
    assert_int_equal(dk_reclaim_rounds(7, 3, true), 0);
    assert_int_equal(dk_reclaim_rounds(7, 4, true), 8);
    assert_int_equal(dk_reclaim_rounds(7, 0, false), 8);
    assert_true(dk_reclaim_again(0, true));
    assert_true(dk_reclaim_again(16, true));
    assert_false(dk_reclaim_again(17, true));
    assert_false(dk_reclaim_again(0, false));

    do {
        rounds = dk_reclaim_rounds(rounds, 9, true); /* costly: progress does not help */
        turns++;
    } while (dk_reclaim_again(rounds, true));
    assert_int_equal(turns, 17);
}

/* How many compactions a request gets when each ends like this. */
static unsigned compactions(unsigned order, enum dk_compact_priority from,
                            enum dk_compact_result result)
{
    struct dk_compact_retry retry = {from, 0};
    unsigned n = 1;

    while (dk_compact_again(&retry, order, result, false))
        assert_true(++n < 1000);
    return n;
}

static void test_compact_again(void **state)
{
    struct dk_compact_retry retry = {DK_COMPACT_SYNC_LIGHT, 0};
    (void)state;

    assert_false(dk_compact_again(&retry, 0, DK_COMPACT_SUCCESS, true));
    assert_true(dk_compact_again(&retry, 1, DK_COMPACT_SKIPPED, true));
    assert_false(dk_compact_again(&retry, 1, DK_COMPACT_SKIPPED, false));
    assert_int_equal(retry.priority, DK_COMPACT_SYNC_LIGHT);
    assert_int_equal(retry.retries, 0);

    assert_true(dk_compact_again(&retry, 3, DK_COMPACT_SUCCESS, false));
    assert_int_equal(retry.retries, 1);
    assert_true(dk_compact_again(&retry, 3, DK_COMPACT_FAILED, false));
    assert_int_equal(retry.priority, DK_COMPACT_SYNC_FULL);
    assert_int_equal(retry.retries, 0);
    assert_false(dk_compact_again(&retry, 3, DK_COMPACT_FAILED, false));
    assert_false(dk_compact_again(&retry, 3, DK_COMPACT_DEFERRED, false));

    assert_int_equal(compactions(3, DK_COMPACT_SYNC_LIGHT, DK_COMPACT_FAILED), 2);
    assert_int_equal(compactions(4, DK_COMPACT_SYNC_LIGHT, DK_COMPACT_FAILED), 1);
    assert_int_equal(compactions(4, DK_COMPACT_ASYNC, DK_COMPACT_FAILED), 2);
    assert_int_equal(compactions(3, DK_COMPACT_ASYNC, DK_COMPACT_DEFERRED), 3);
    /* 16 lost blocks at sync light, one step up, 16 more at sync full */
    assert_int_equal(compactions(3, DK_COMPACT_SYNC_LIGHT, DK_COMPACT_SUCCESS), 34);
    assert_int_equal(compactions(4, DK_COMPACT_SYNC_LIGHT, DK_COMPACT_SUCCESS), 5);
}

static unsigned skips(struct dk_compact_deferral *deferral, unsigned order)
{
    unsigned n = 0;

    while (dk_compact_deferred(deferral, order))
        assert_true(++n < 1000);
    return n;
}

static void test_deferral(void **state)
{
    static const unsigned want[] = {2, 4, 8, 16, 32, 64, 64, 64};
    struct dk_compact_deferral deferral = {0, 0, 0};
    (void)state;

    assert_int_equal(skips(&deferral, 9), 0);
    for (size_t k = 0; k < COUNT(want); k++) {
        dk_compact_note_failure(&deferral, 9);
        assert_int_equal(skips(&deferral, 8), 0); /* smaller orders have not failed */
        assert_int_equal(skips(&deferral, 9), want[k]);
        assert_int_equal(skips(&deferral, 9), 0); /* until the next failure */
    }
    dk_compact_note_failure(&deferral, 4);
    assert_int_equal(deferral.failed_order, 4);
    dk_compact_note_failure(&deferral, 9);
    assert_int_equal(deferral.failed_order, 4);
    assert_int_equal(skips(&deferral, 4), 64);
    dk_compact_note_success(&deferral);
    assert_int_equal(skips(&deferral, 4), 0);
    dk_compact_note_failure(&deferral, 7);
    assert_int_equal(skips(&deferral, 6), 0);
    assert_int_equal(skips(&deferral, 10), 2);
}

static void test_suitable(void **state)
{
    /* min 100, low 200; order 3 needs 16 more than min, order 9 1024 more than low */
    static const struct {
        uint64_t free, free_cma, free_highatomic;
        unsigned order;
        int index;
        bool want;
    } rows[] = {
        {117, 0, 0, 3, 0, true},     {116, 0, 0, 3, 0, false},
        {117, 117, 0, 3, 0, true}, /* CMA counts */
        {117, 0, 1, 3, 0, false},  /* HighAtomic does not */
        {117, 0, 0, 3, 400, true}, /* no index needed */
        {1225, 0, 0, 9, 501, true},  {1224, 0, 0, 9, 501, false},
        {1225, 0, 0, 9, 500, false}, {1225, 0, 0, 9, 0, false},
        {1225, 0, 0, 9, -1, true},   {1225, 0, 0, 9, -1000, true},
        {103, 0, 0, 0, 0, true},     {102, 0, 0, 0, 0, false},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        /* order, flags and suitable are those of the request: not asked */
        struct dk_watermark_input zone = {.free = rows[i].free,
                                          .free_cma = rows[i].free_cma,
                                          .free_highatomic = rows[i].free_highatomic,
                                          .mark = 99999,
                                          .order = rows[i].order,
                                          .alloc_flags = DK_ALLOC_HIGHATOMIC};

        if (dk_compact_suitable(&zone, 100, 200, rows[i].order, rows[i].index, 500) != rows[i].want)
            fail_msg("row %u", (unsigned)i);
        zone.boost = 1;
        zone.lowmem_reserve = 1;
        zone.free += 2;
        assert_int_equal(dk_compact_suitable(&zone, 100, 200, rows[i].order, rows[i].index, 500),
                         rows[i].want);
    }
}

static void test_proactive(void **state)
{
    static const struct {
        unsigned proactiveness, stop, start;
    } rows[] = {{20, 80, 90}, {0, 100, 100}, {5, 95, 100}, {10, 90, 100},
                {94, 6, 16},  {95, 5, 15},   {96, 5, 15},  {100, 5, 15}};
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(dk_proactive_stop(rows[i].proactiveness), rows[i].stop);
        assert_int_equal(dk_proactive_start(rows[i].proactiveness), rows[i].start);
    }
}

static void test_oom(void **state)
{
    const uint32_t kernel = DECKLE_GFP_KERNEL;
    (void)state;

    assert_true(dk_oom_kill_allowed(kernel, 0, DECKLE_ZONE_NORMAL, false, false));
    assert_true(dk_oom_kill_allowed(kernel, 3, DECKLE_ZONE_MOVABLE, false, false));
    assert_false(dk_oom_kill_allowed(kernel, 4, DECKLE_ZONE_NORMAL, false, false));
    assert_false(dk_oom_kill_allowed(kernel, 0, DECKLE_ZONE_DMA32, false, false));
    assert_false(dk_oom_kill_allowed(kernel, 0, DECKLE_ZONE_NORMAL, true, false));
    assert_false(dk_oom_kill_allowed(kernel, 0, DECKLE_ZONE_NORMAL, false, true));
    assert_false(dk_oom_kill_allowed(kernel | DECKLE_GFP_RETRY_MAYFAIL, 0, DECKLE_ZONE_NORMAL,
                                     false, false));
    assert_false(
        dk_oom_kill_allowed(kernel | DECKLE_GFP_THISNODE, 0, DECKLE_ZONE_NORMAL, false, false));

    assert_true(dk_oom_victim_gives_up(kernel, DK_ALLOC_OOM, true));
    assert_true(dk_oom_victim_gives_up(kernel | DECKLE_GFP_NOMEMALLOC, 0, true));
    assert_false(dk_oom_victim_gives_up(kernel, 0, true));
    assert_false(dk_oom_victim_gives_up(kernel, DK_ALLOC_OOM, false));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compact_first),  cmocka_unit_test(test_giving_up),
        cmocka_unit_test(test_reclaim_rounds), cmocka_unit_test(test_compact_again),
        cmocka_unit_test(test_deferral),       cmocka_unit_test(test_suitable),
        cmocka_unit_test(test_proactive),      cmocka_unit_test(test_oom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
