/* SPDX-License-Identifier: MIT */
/* Request flags: bit numbers, combinations, legality, zone, migratetype, scopes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy/gfp.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void test_bit_numbers(void **state)
{
    static const struct {
        uint32_t flag;
        unsigned bit;
    } rows[] = {
        {DECKLE_GFP_DMA, 0},
        {DECKLE_GFP_HIGHMEM, 1},
        {DECKLE_GFP_DMA32, 2},
        {DECKLE_GFP_MOVABLE, 3},
        {DECKLE_GFP_RECLAIMABLE, 4},
        {DECKLE_GFP_HIGH, 5},
        {DECKLE_GFP_IO, 6},
        {DECKLE_GFP_FS, 7},
        {DECKLE_GFP_ZERO, 8},
        {DECKLE_GFP_DIRECT_RECLAIM, 10},
        {DECKLE_GFP_KSWAPD_RECLAIM, 11},
        {DECKLE_GFP_WRITE, 12},
        {DECKLE_GFP_NOWARN, 13},
        {DECKLE_GFP_RETRY_MAYFAIL, 14},
        {DECKLE_GFP_NOFAIL, 15},
        {DECKLE_GFP_NORETRY, 16},
        {DECKLE_GFP_MEMALLOC, 17},
        {DECKLE_GFP_COMP, 18},
        {DECKLE_GFP_NOMEMALLOC, 19},
        {DECKLE_GFP_HARDWALL, 20},
        {DECKLE_GFP_THISNODE, 21},
        {DECKLE_GFP_ACCOUNT, 22},
        {DECKLE_GFP_ZEROTAGS, 23},
        {DECKLE_GFP_SKIP_ZERO, 24},
        {DECKLE_GFP_SKIP_KASAN, 25},
        {DECKLE_GFP_NOLOCKDEP, 26},
        {DECKLE_GFP_NO_OBJ_EXT, 27},
    };
    uint32_t all = 0;
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(rows[i].flag, UINT32_C(1) << rows[i].bit);
        all |= rows[i].flag;
    }
    assert_int_equal(all, DECKLE_GFP_ALL);
}

static void test_combinations(void **state)
{
    static const struct {
        uint32_t gfp, want;
    } rows[] = {
        {DECKLE_GFP_ATOMIC, 0x820},
        {DECKLE_GFP_KERNEL, 0xcc0},
        {DECKLE_GFP_KERNEL_ACCOUNT, 0x400cc0},
        {DECKLE_GFP_NOWAIT, 0x2800},
        {DECKLE_GFP_NOIO, 0xc00},
        {DECKLE_GFP_NOFS, 0xc40},
        {DECKLE_GFP_USER, 0x100cc0},
        {DECKLE_GFP_HIGHUSER, 0x100cc2},
        {DECKLE_GFP_HIGHUSER_MOVABLE, 0x2100cca},
        {DECKLE_GFP_TRANSHUGE_LIGHT, 0x21c20ca},
        {DECKLE_GFP_TRANSHUGE, 0x21c24ca},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(rows[i].gfp, rows[i].want);
        assert_int_equal(dk_gfp_check(rows[i].gfp, 0, 10), DECKLE_OK);
        assert_true(dk_gfp_is_plain(rows[i].gfp));
        assert_true(dk_gfp_place(rows[i].gfp) != DK_PLACE_ILLEGAL);
    }
}

static void test_check(void **state)
{
    static const struct {
        uint32_t gfp;
        unsigned order, max_order;
        int want;
        const char *word; /* must be in the reason */
    } rows[] = {
        {0, 0, 10, DECKLE_OK, NULL},
        {0, 10, 10, DECKLE_OK, NULL},
        {0, 0, 0, DECKLE_OK, NULL},
        {0, 11, 10, DECKLE_E2BIG, "order"},
        {0, 1, 0, DECKLE_E2BIG, "order"},
        {0, UINT32_MAX, 18, DECKLE_E2BIG, "order"},
        {DECKLE_GFP_DMA | DECKLE_GFP_DMA32, 11, 10, DECKLE_E2BIG, "order"},
        {UINT32_C(1) << 9, 0, 10, DECKLE_EINVAL, "bit"},
        {UINT32_C(1) << 28, 0, 10, DECKLE_EINVAL, "bit"},
        {UINT32_C(1) << 31, 0, 10, DECKLE_EINVAL, "bit"},
        {DECKLE_GFP_DMA | DECKLE_GFP_DMA32, 0, 10, DECKLE_EINVAL, "DMA32"},
        {DECKLE_GFP_DMA | DECKLE_GFP_HIGHMEM, 0, 10, DECKLE_EINVAL, "HIGHMEM"},
        {DECKLE_GFP_DMA32 | DECKLE_GFP_HIGHMEM, 0, 10, DECKLE_EINVAL, "HIGHMEM"},
        {DECKLE_GFP_DMA | DECKLE_GFP_DMA32 | DECKLE_GFP_HIGHMEM, 0, 10, DECKLE_EINVAL, "DMA"},
        {DECKLE_GFP_DMA | DECKLE_GFP_MOVABLE, 0, 10, DECKLE_OK, NULL},
        {DECKLE_GFP_DMA32 | DECKLE_GFP_RECLAIMABLE, 0, 10, DECKLE_OK, NULL},
        {DECKLE_GFP_MOVABLE | DECKLE_GFP_RECLAIMABLE, 0, 10, DECKLE_EINVAL, "RECLAIMABLE"},
        {DECKLE_GFP_NOFAIL, 0, 10, DECKLE_EINVAL, "DIRECT_RECLAIM"},
        {DECKLE_GFP_NOFAIL | DECKLE_GFP_KSWAPD_RECLAIM, 0, 10, DECKLE_EINVAL, "DIRECT_RECLAIM"},
        {DECKLE_GFP_NOFAIL | DECKLE_GFP_DIRECT_RECLAIM, 0, 10, DECKLE_OK, NULL},
        {DECKLE_GFP_NOFAIL | DECKLE_GFP_KERNEL, 1, 10, DECKLE_OK, NULL},
        {DECKLE_GFP_NOFAIL | DECKLE_GFP_KERNEL, 2, 10, DECKLE_EINVAL, "above 1"},
        {DECKLE_GFP_MEMALLOC | DECKLE_GFP_NOMEMALLOC, 3, 10, DECKLE_OK, NULL},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *reason = dk_gfp_reason(rows[i].gfp, rows[i].order, rows[i].max_order);

        assert_int_equal(dk_gfp_check(rows[i].gfp, rows[i].order, rows[i].max_order), rows[i].want);
        if (rows[i].word) {
            assert_non_null(reason);
            assert_non_null(strstr(reason, rows[i].word));
        } else {
            assert_null(reason);
        }
    }
}

/* The one byte of the fast path says what the functions say, for every placement. */
static void test_place(void **state)
{
    (void)state;

    for (uint32_t gfp = 0; gfp < 32; gfp++) {
        unsigned place = dk_gfp_place(gfp);

        assert_int_equal(place != DK_PLACE_ILLEGAL, dk_gfp_check(gfp, 0, 10) == DECKLE_OK);
        assert_int_equal(dk_gfp_place(gfp | ~UINT32_C(31)), place);
        if (place != DK_PLACE_ILLEGAL) {
            assert_int_equal(place & DK_PLACE_ZONE, dk_gfp_zone(gfp));
            assert_int_equal((place & DK_PLACE_TYPE) >> 5, dk_gfp_migratetype(gfp));
            assert_int_equal(place & ~(DK_PLACE_ZONE | DK_PLACE_TYPE), 0);
        }
    }
}

/* The quick tests must never accept what the check refuses, and doubt only NOFAIL without need. */
static void test_plainly_legal(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(200000); n; n--) {
        uint32_t gfp = (uint32_t)(test_random(&seed) & test_random(&seed));
        unsigned max_order = (unsigned)test_random_below(&seed, 19);
        unsigned order = (unsigned)test_random_below(&seed, 20);
        bool legal = dk_gfp_check(gfp, order, max_order) == DECKLE_OK;
        bool quick = dk_gfp_is_plain(gfp) && dk_gfp_place(gfp) != DK_PLACE_ILLEGAL &&
                     order <= max_order;

        if (gfp & DECKLE_GFP_NOFAIL)
            assert_false(quick);
        else
            assert_int_equal(quick, legal);
    }
}

static void test_zone(void **state)
{
    static const struct {
        uint32_t gfp;
        enum deckle_zone_type want;
    } rows[] = {
        {0, DECKLE_ZONE_NORMAL},
        {DECKLE_GFP_KERNEL, DECKLE_ZONE_NORMAL},
        {DECKLE_GFP_DMA, DECKLE_ZONE_DMA},
        {DECKLE_GFP_DMA32, DECKLE_ZONE_DMA32},
        {DECKLE_GFP_HIGHMEM, DECKLE_ZONE_HIGHMEM},
        {DECKLE_GFP_MOVABLE, DECKLE_ZONE_NORMAL},
        {DECKLE_GFP_MOVABLE | DECKLE_GFP_HIGHMEM, DECKLE_ZONE_MOVABLE},
        {DECKLE_GFP_MOVABLE | DECKLE_GFP_DMA, DECKLE_ZONE_DMA},
        {DECKLE_GFP_MOVABLE | DECKLE_GFP_DMA32, DECKLE_ZONE_DMA32},
        {DECKLE_GFP_RECLAIMABLE | DECKLE_GFP_HIGHMEM, DECKLE_ZONE_HIGHMEM},
        {DECKLE_GFP_HIGHUSER, DECKLE_ZONE_HIGHMEM},
        {DECKLE_GFP_HIGHUSER_MOVABLE, DECKLE_ZONE_MOVABLE},
        /* illegal ones: the lowest zone named */
        {DECKLE_GFP_DMA | DECKLE_GFP_HIGHMEM, DECKLE_ZONE_DMA},
        {DECKLE_GFP_DMA | DECKLE_GFP_HIGHMEM | DECKLE_GFP_MOVABLE, DECKLE_ZONE_DMA},
        {DECKLE_GFP_DMA32 | DECKLE_GFP_HIGHMEM | DECKLE_GFP_MOVABLE, DECKLE_ZONE_DMA32},
        {DECKLE_GFP_DMA | DECKLE_GFP_DMA32, DECKLE_ZONE_DMA},
        {DECKLE_GFP_ZONEMASK, DECKLE_ZONE_DMA},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(dk_gfp_zone(rows[i].gfp), rows[i].want);
        assert_int_equal(dk_gfp_zone(rows[i].gfp | ~DECKLE_GFP_ZONEMASK), rows[i].want);
    }
}

static void test_migratetype(void **state)
{
    static const struct {
        uint32_t gfp;
        enum deckle_migratetype want;
    } rows[] = {
        {0, DECKLE_UNMOVABLE},
        {DECKLE_GFP_KERNEL, DECKLE_UNMOVABLE},
        {DECKLE_GFP_MOVABLE, DECKLE_MOVABLE},
        {DECKLE_GFP_HIGHUSER_MOVABLE, DECKLE_MOVABLE},
        {DECKLE_GFP_RECLAIMABLE, DECKLE_RECLAIMABLE},
        {~DECKLE_GFP_MOVABLE_MASK, DECKLE_UNMOVABLE},
        {~DECKLE_GFP_RECLAIMABLE, DECKLE_MOVABLE},
        {~DECKLE_GFP_MOVABLE, DECKLE_RECLAIMABLE},
        {DECKLE_GFP_MOVABLE_MASK, DECKLE_UNMOVABLE}, /* illegal */
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(dk_gfp_migratetype(rows[i].gfp), rows[i].want);
        assert_int_equal(dk_gfp_migratetype_grouped(rows[i].gfp, true), rows[i].want);
        assert_int_equal(dk_gfp_migratetype_grouped(rows[i].gfp, false), DECKLE_UNMOVABLE);
    }
}

static void test_scopes(void **state)
{
    const uint32_t user = DECKLE_GFP_HIGHUSER_MOVABLE;
    static const uint32_t io_fs = DECKLE_GFP_IO | DECKLE_GFP_FS;
    (void)state;

    assert_int_equal(dk_gfp_mask_scopes(user, 0, DECKLE_GFP_ALL), user);
    assert_int_equal(dk_gfp_mask_scopes(user, DK_SCOPE_NOIO, DECKLE_GFP_ALL), user & ~io_fs);
    assert_int_equal(dk_gfp_mask_scopes(user, DK_SCOPE_NOFS, DECKLE_GFP_ALL),
                     user & ~DECKLE_GFP_FS);
    assert_int_equal(dk_gfp_mask_scopes(user, DK_SCOPE_PIN, DECKLE_GFP_ALL),
                     user & ~DECKLE_GFP_MOVABLE);
    assert_int_equal(
        dk_gfp_mask_scopes(user, DK_SCOPE_NOIO | DK_SCOPE_NOFS | DK_SCOPE_PIN, DECKLE_GFP_ALL),
        user & ~(io_fs | DECKLE_GFP_MOVABLE));
    assert_int_equal(dk_gfp_mask_scopes(user, 0, DK_GFP_MASK_BOOT),
                     user & ~(io_fs | DECKLE_GFP_RECLAIM));
    assert_int_equal(dk_gfp_mask_scopes(user, 0, DK_GFP_MASK_SUSPEND), user & ~io_fs);
    assert_int_equal(dk_gfp_mask_scopes(user, 0, 0), 0);
    /* A pinned user page leaves the Movable zone. */
    assert_int_equal(dk_gfp_zone(dk_gfp_mask_scopes(user, DK_SCOPE_PIN, DECKLE_GFP_ALL)),
                     DECKLE_ZONE_HIGHMEM);
    assert_true(dk_gfp_may_block(DECKLE_GFP_KERNEL));
    assert_false(dk_gfp_may_block(DECKLE_GFP_ATOMIC));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bit_numbers), cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_check),       cmocka_unit_test(test_place),
        cmocka_unit_test(test_plainly_legal),
        cmocka_unit_test(test_zone),        cmocka_unit_test(test_migratetype),
        cmocka_unit_test(test_scopes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
