/* SPDX-License-Identifier: MIT */
/*
 * Corners where two rules of the allocator meet: an address limit inside a pageblock, a place in a
 * CMA or an isolated block, damage found by a request that names its frames, the HighAtomic reserve
 * and the caches, switches that change while blocks live.
 */
#include "hazard.h"

static int64_t below(struct hazard_pool *h, uint32_t gfp, uint32_t order, uint64_t limit)
{
    struct deckle_request r = {
        .size = sizeof(r), .gfp = gfp, .order = order, .limit_pfn = limit};
    return deckle_alloc_request(h->d, &r);
}

/* ---- address limits -------------------------------------------------------------------------- */

/* Every limit, every order: what is given lies below, everything that fits is given, then it
 * fails. */
static void limits_hold_for_every_order(void **state)
{
    (void)state;
    static const uint64_t limits[] = {1, 3, 511, 512, 513, 700, 1023, 1024, 1500, 2047, 2048, 9999};
    for (unsigned order = 0; order <= 10; order++) {
        for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
            struct hazard_pool h;
            hazard_open_simple(&h, 0, 2048, DECKLE_FEATURE_NO_CACHES, false);
            uint64_t limit = limits[i], end = limit < 2048 ? limit : 2048, n = 0;
            int64_t pfn;
            while ((pfn = below(&h, n & 1 ? GFP_M : GFP_U, order, limit)) >= 0) {
                assert_true((uint64_t)pfn + (1ull << order) <= limit);
                n++;
            }
            assert_int_equal(n, end >> order);
            bool others_have = deckle_alloc(h.d, GFP_U, order) >= 0;
            assert_int_equal(pfn == DECKLE_ECONSTRAINED, others_have);
            hazard_close(&h);
        }
    }
}

/* A request that finds nothing below its limit leaves the block's type alone, and says so at
 * once. */
static void failure_below_a_limit_changes_nothing(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, DECKLE_FEATURE_NO_CACHES, false);
    for (uint64_t pfn = 0; pfn < 256; pfn++)
        assert_int_equal(deckle_alloc_at(h.d, GFP_M, pfn, 0), DECKLE_OK);
    assert_int_equal(below(&h, GFP_U, 0, 256), DECKLE_ECONSTRAINED);
    assert_int_equal(deckle_pageblock_type(h.d, 0), DECKLE_MOVABLE);
    assert_int_equal(below(&h, GFP_R, 3, 256), DECKLE_ECONSTRAINED);
    assert_int_equal(deckle_pageblock_type(h.d, 0), DECKLE_MOVABLE);
    assert_int_equal(deckle_free(h.d, 255, 0), DECKLE_OK);
    assert_int_equal(below(&h, GFP_U, 0, 256), 255);
    hazard_close(&h);
}

/* Bulk takes many at once from a block; those above the limit are not among them. */
static void limits_hold_for_bulk(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, 0, false);
    for (uint64_t limit = 1; limit < 1200; limit += 37) {
        uint64_t pfns[1200];
        struct deckle_request r = {.size = sizeof(r), .gfp = GFP_M, .limit_pfn = limit};
        memset(pfns, 0xff, sizeof(pfns));
        int64_t had = 0, n;
        while ((n = deckle_alloc_bulk_request(h.d, &r, pfns, 1200)) > had)
            had = n;
        assert_int_equal(had, limit);
        for (int64_t i = 0; i < had; i++)
            assert_true(pfns[i] < limit);
        assert_int_equal(deckle_free_bulk(h.d, pfns, (size_t)had), had);
        assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    }
    hazard_close(&h);
}

/* A section that begins inside a pageblock: the limit is a pfn, not a position in the block. */
static void limits_in_a_section_that_begins_anywhere(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 1000, 3000, 0, false);
    for (uint64_t n = 0; n < 77; n++) {
        int64_t pfn = below(&h, GFP_U, 0, 1077);
        assert_true(pfn >= 1000 && pfn < 1077);
    }
    assert_int_equal(below(&h, GFP_U, 0, 1077), DECKLE_ECONSTRAINED);
    assert_int_equal(below(&h, GFP_U, 0, 1000), DECKLE_ECONSTRAINED);
    assert_int_equal(below(&h, GFP_U, 0, 1078), 1077);
    hazard_close(&h);
}

/* ---- places ---------------------------------------------------------------------------------- */

static void cma_frames_stay_movable(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, 0, false);
    assert_int_equal(deckle_set_pageblock_type(h.d, 512, DECKLE_CMA), DECKLE_OK);
    assert_int_equal(deckle_alloc_contig(h.d, GFP_U, 7, 1, 512, 1024), 512);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 520, 3), DECKLE_OK);
    assert_int_equal(deckle_free_exact(h.d, 512, 7), DECKLE_OK);
    assert_int_equal(deckle_free(h.d, 520, 3), DECKLE_OK);
    /* Whatever lists they are in: nobody whose frames cannot move gets one. */
    for (unsigned order = 0; order <= 3; order++)
        for (unsigned n = 0; n < 200; n++)
            assert_int_not_equal(hazard_alloc(&h, n & 1 ? GFP_U : GFP_R, order) / 512, 1);
    hazard_close(&h);
}

static void places_in_isolated_blocks(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 8192, 0, false);
    assert_int_equal(deckle_set_pageblock_type(h.d, 2048, DECKLE_ISOLATE), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 2048, 4), DECKLE_OK);
    hazard_valid(&h);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 2048, 9), DECKLE_EBUSY);
    assert_int_equal(deckle_free(h.d, 2048, 4), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 2048, 9), DECKLE_OK);
    hazard_valid(&h);
    assert_int_equal(deckle_free(h.d, 2048, 9), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 2048, 10), DECKLE_OK);
    hazard_valid(&h);
    assert_int_equal(deckle_set_pageblock_type(h.d, 2048, DECKLE_MOVABLE), DECKLE_OK);
    assert_int_equal(deckle_free(h.d, 2048, 10), DECKLE_OK);
    assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    assert_int_equal(hazard_free_frames(&h), 8192);
    hazard_close(&h);
}

/* Whatever part of the place is in use: a refusal leaves the rest as free as it was. */
static void a_refused_place_changes_nothing(void **state)
{
    static const struct {
        uint32_t order, busy;
    } cases[] = {{10, 2048 + 512}, {10, 2048}, {9, 2048 + 100}, {8, 2048 + 255}, {7, 2048 + 64},
                 {6, 2048 + 63}};
    (void)state;
    for (unsigned kind = 0; kind < 2; kind++) {
        struct hazard_pool h;
        hazard_open_simple(&h, 0, 8192, kind ? DECKLE_FEATURE_NO_CACHES : 0, false);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            assert_int_equal(deckle_alloc_at(h.d, GFP_U, cases[i].busy, 0), DECKLE_OK);
            uint64_t free = hazard_free_frames(&h);
            assert_int_equal(deckle_alloc_at(h.d, GFP_U, 2048, cases[i].order), DECKLE_EBUSY);
            assert_int_equal(hazard_free_frames(&h), free);
            hazard_valid(&h);
            assert_int_equal(deckle_free(h.d, cases[i].busy, 0), DECKLE_OK);
            assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
            assert_int_equal(deckle_alloc_at(h.d, GFP_U, 2048, cases[i].order), DECKLE_OK);
            assert_int_equal(deckle_free(h.d, 2048, cases[i].order), DECKLE_OK);
            assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
        }
        hazard_close(&h);
    }
}

static void a_split_above_the_maximum_is_named(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, 0, false);
    uint64_t pfn = hazard_alloc(&h, GFP_U, 2);
    hazard_refused(&h, deckle_split(h.d, pfn, 11, 0), DECKLE_BAD_WRONG_ORDER);
    hazard_refused(&h, deckle_split(h.d, 9999, 11, 0), DECKLE_BAD_FOREIGN);
    hazard_refused(&h, deckle_split(h.d, pfn + 1, 0, 0), DECKLE_BAD_TAIL);
    assert_int_equal(deckle_split(h.d, pfn, 2, 3), DECKLE_EINVAL);
    assert_int_equal(deckle_split(h.d, pfn, 2, 2), DECKLE_OK);
    assert_int_equal(deckle_free(h.d, pfn, 2), DECKLE_OK);
    hazard_close(&h);
}

static void unknown_request_flags_are_refused(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, 0, false);
    struct deckle_request r = {.size = sizeof(r), .gfp = GFP_U, .flags = 1u << 31};
    assert_int_equal(deckle_alloc_request(h.d, &r), DECKLE_EINVAL);
    r.flags = DECKLE_REQ_NO_CACHE;
    assert_true(deckle_alloc_request(h.d, &r) >= 0);
    hazard_close(&h);
}

/* ---- damage ---------------------------------------------------------------------------------- */

/* The block that the damage is in is given to nobody, by whichever way it is asked for. */
static void damaged_frames_are_given_to_nobody(void **state)
{
    (void)state;
    for (unsigned way = 0; way < 4; way++) {
        struct hazard_pool h;
        hazard_open_simple(&h, 0, 2048, DECKLE_FEATURE_DESCRIPTORS | DECKLE_FEATURE_OWNER_TAGS,
                           true);
        assert_int_equal(deckle_set_debug(h.d, DECKLE_DEBUG_POISON), 0);
        uint64_t pfn = hazard_alloc(&h, GFP_U, 3);
        assert_int_equal(deckle_free(h.d, pfn, 3), DECKLE_OK);
        h.ram[(pfn + 2) * 4096 + 77] ^= 4;
        if (way)
            assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
        uint64_t array[1] = {DECKLE_NO_PFN};
        int64_t got = way == 0   ? deckle_alloc(h.d, GFP_U, 3)
                      : way == 1 ? deckle_alloc_at(h.d, GFP_U, pfn, 3)
                      : way == 2 ? deckle_alloc_contig(h.d, GFP_U, 13, 8, pfn, 0)
                                 : deckle_alloc_exact(h.d, GFP_U, 7);
        assert_int_equal(h.p.reports, 1);
        assert_int_equal(h.p.last.what, DECKLE_BAD_POISON);
        assert_int_equal(h.p.last.offset, 2 * 4096 + 77);
        assert_int_equal(h.p.last.value, DECKLE_POISON_BYTE ^ 4);
        assert_int_equal(h.p.last.single_bit, 1);
        if (way == 1)
            assert_int_equal(got, DECKLE_EBUSY);
        else
            assert_true(got >= 0 && ((uint64_t)got >= pfn + 8 || (uint64_t)got + 13 <= pfn));
        hazard_valid(&h);
        /* Every other frame can still be had; the damaged block never. */
        h.p.reports = 0;
        for (; deckle_alloc_bulk(h.d, GFP_U, array, 1) == 1; array[0] = DECKLE_NO_PFN)
            assert_true(array[0] < pfn || array[0] >= pfn + 8);
        assert_int_equal(h.p.reports, 0);
        hazard_close(&h);
    }
}

/* Damage in two places is no flipped bit, wherever it lies; the first place is told. */
static void two_bits_are_no_single_bit(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 512, 512, DECKLE_FEATURE_NO_CACHES, true);
    assert_int_equal(deckle_set_debug(h.d, DECKLE_DEBUG_POISON), 0);
    uint64_t pfn = hazard_alloc(&h, GFP_U, 0);
    assert_int_equal(deckle_free(h.d, pfn, 0), DECKLE_OK);
    unsigned char *page = hazard_map(&h, pfn);
    page[4095] ^= 1;
    page[0] ^= 128;
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, pfn, 0), DECKLE_EBUSY);
    assert_int_equal(h.p.last.offset, 0);
    assert_int_equal(h.p.last.single_bit, 0);
    pfn = hazard_alloc(&h, GFP_U, 0);
    assert_int_equal(deckle_free(h.d, pfn, 0), DECKLE_OK);
    page = hazard_map(&h, pfn);
    page[9] ^= 3;
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, pfn, 0), DECKLE_EBUSY);
    assert_int_equal(h.p.last.offset, 9);
    assert_int_equal(h.p.last.single_bit, 0);
    hazard_close(&h);
}

/* ---- switches -------------------------------------------------------------------------------- */

static bool is_zero(struct hazard_pool *h, uint64_t pfn, uint64_t nr)
{
    const unsigned char *page = hazard_map(h, pfn);
    for (size_t i = 0; i < nr * 4096; i++)
        if (page[i])
            return false;
    return true;
}

/* Switches change while blocks are live, in caches and free: ZERO always gives zeroes, nothing
 * untouched is reported, and frames that were written after a clearing free are cleared again. */
static void switches_change_under_live_blocks(void **state)
{
    (void)state;
    static const uint32_t sets[] = {0, DECKLE_DEBUG_POISON, DECKLE_DEBUG_ZERO_ON_FREE,
                                    DECKLE_DEBUG_ZERO_ON_ALLOC, DECKLE_DEBUG_STRICT,
                                    DECKLE_DEBUG_POISON | DECKLE_DEBUG_STRICT};
    uint64_t random = test_seed(), live[64], n = 0;
    unsigned orders[64];
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 2048, 0, true);
    memset(h.ram, 0x5b, 2048 * 4096);
    for (uint64_t step = test_effort(4000); step; step--) {
        if (!test_random_below(&random, 20))
            assert_true(deckle_set_debug(h.d, sets[test_random_below(&random, 6)]) >= 0);
        if (n < 64 && test_random_below(&random, 2)) {
            uint32_t gfp = test_random_below(&random, 2) ? GFP_U | DECKLE_GFP_ZERO : GFP_M;
            orders[n] = (unsigned)test_random_below(&random, 4);
            live[n] = hazard_alloc(&h, gfp, orders[n]);
            if (gfp & DECKLE_GFP_ZERO)
                assert_true(is_zero(&h, live[n], 1ull << orders[n]));
            memset(hazard_map(&h, live[n]), 0x5b, (size_t)4096 << orders[n]);
            n++;
        } else if (n) {
            uint64_t i = test_random_below(&random, n--);
            assert_int_equal(deckle_free(h.d, live[i], orders[i]), DECKLE_OK);
            live[i] = live[n];
            orders[i] = orders[n];
        }
        if (!test_random_below(&random, 50))
            assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    }
    assert_int_equal(h.p.reports, 0);
    hazard_close(&h);
}

static void zero_needs_a_map(void **state)
{
    (void)state;
    struct hazard_pool h;
    uint64_t array[2] = {DECKLE_NO_PFN, DECKLE_NO_PFN};
    hazard_open_simple(&h, 0, 2048, 0, false);
    uint32_t gfp = GFP_U | DECKLE_GFP_ZERO;
    assert_int_equal(deckle_alloc(h.d, gfp, 0), DECKLE_ENOTSUP);
    assert_int_equal(deckle_alloc_exact(h.d, gfp, 5), DECKLE_ENOTSUP);
    assert_int_equal(deckle_alloc_at(h.d, gfp, 0, 0), DECKLE_ENOTSUP);
    assert_int_equal(deckle_alloc_contig(h.d, gfp, 5, 1, 0, 0), DECKLE_ENOTSUP);
    assert_int_equal(deckle_alloc_bulk(h.d, gfp, array, 2), DECKLE_ENOTSUP);
    assert_int_equal(deckle_set_debug(h.d, DECKLE_DEBUG_POISON), DECKLE_ENOTSUP);
    assert_int_equal(deckle_set_debug(h.d, DECKLE_DEBUG_STRICT), 0);
    assert_int_equal(hazard_free_frames(&h), 2048);
    hazard_close(&h);
}

/* ---- reserves -------------------------------------------------------------------------------- */

/* The HighAtomic reserve serves urgent requests one block at a time: none of it ends in a list. */
static void the_highatomic_reserve_is_not_cached(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 65536, 0, false);
    uint32_t atomic = DECKLE_GFP_ATOMIC;
    /* Leave single frames everywhere and one whole block, which is the reserve. */
    for (uint64_t i = 0; i < 65536; i++)
        hazard_alloc(&h, GFP_U, 0);
    for (uint64_t pfn = 0; pfn < 65536 - 512; pfn += 2)
        assert_int_equal(deckle_free(h.d, pfn, 0), DECKLE_OK);
    for (uint64_t pfn = 65536 - 512; pfn < 65536; pfn++)
        assert_int_equal(deckle_free(h.d, pfn, 0), DECKLE_OK);
    assert_int_equal(deckle_drain_all(h.d), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(h.d, 65535, DECKLE_HIGHATOMIC), DECKLE_OK);
    int64_t pfn = deckle_alloc(h.d, atomic, 1);
    assert_int_equal(pfn / 512, 127);
    assert_true(deckle_alloc(h.d, GFP_U, 1) < 0);
    struct deckle_zone_stat z = hazard_zone(&h, 0);
    assert_int_equal(z.free_highatomic, 510);
    hazard_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_hold_for_every_order),
        cmocka_unit_test(failure_below_a_limit_changes_nothing),
        cmocka_unit_test(limits_hold_for_bulk),
        cmocka_unit_test(limits_in_a_section_that_begins_anywhere),
        cmocka_unit_test(cma_frames_stay_movable),
        cmocka_unit_test(places_in_isolated_blocks),
        cmocka_unit_test(a_refused_place_changes_nothing),
        cmocka_unit_test(a_split_above_the_maximum_is_named),
        cmocka_unit_test(unknown_request_flags_are_refused),
        cmocka_unit_test(damaged_frames_are_given_to_nobody),
        cmocka_unit_test(two_bits_are_no_single_bit),
        cmocka_unit_test(switches_change_under_live_blocks),
        cmocka_unit_test(zero_needs_a_map),
        cmocka_unit_test(the_highatomic_reserve_is_not_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
