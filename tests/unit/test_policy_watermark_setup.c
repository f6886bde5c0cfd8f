/* SPDX-License-Identifier: MIT */
/* Marks, reserves, boost and drift: values worked out by hand, and properties. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy/stat_threshold.h"
#include "policy/watermark_setup.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define DMA     DECKLE_ZONE_DMA
#define DMA32   DECKLE_ZONE_DMA32
#define NORMAL  DECKLE_ZONE_NORMAL
#define HIGHMEM DECKLE_ZONE_HIGHMEM
#define MOVABLE DECKLE_ZONE_MOVABLE

static void test_min_free_kbytes(void **state)
{
    static const struct {
        uint64_t lowmem_pages;
        unsigned page_shift;
        uint64_t want;
    } rows[] = {
        /* sqrt(16 * KiB): 16 MiB -> 512, 64 MiB -> 1024, 1 GiB -> 4096, 16 GiB -> 16384 */
        {0, 12, 128},
        {1, 12, 128},
        {256, 12, 128},                  /* 1 MiB: 128 */
        {260, 12, 128},                  /* 1040 KiB: 128.99 */
        {261, 12, 129},                  /* 1044 KiB: 129.2 */
        {4096, 12, 512},                 /* 16 MiB */
        {16384, 12, 1024},               /* 64 MiB */
        {262144, 12, 4096},              /* 1 GiB */
        {4194304, 12, 16384},            /* 16 GiB */
        {1u << 30, 12, 262144},          /* 4 TiB: exactly the most */
        {(1u << 30) - 1, 12, 262143},    /* just below */
        {UINT64_C(1) << 40, 12, 262144}, /* 4 PiB: capped */
        {UINT64_MAX, 30, 262144},
        {UINT64_MAX, 10, 262144},
        {65536, 14, 4096}, /* 1 GiB in 16 KiB frames */
        {16384, 16, 4096}, /* 1 GiB in 64 KiB frames */
        {1, 30, 4096},
        {1024, 10, 128},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_min_free_kbytes(rows[i].lowmem_pages, rows[i].page_shift),
                         rows[i].want);
}

static void test_pages_min(void **state)
{
    static const struct {
        uint64_t configured_kbytes, lowmem_pages;
        unsigned page_shift;
        uint64_t want;
    } rows[] = {
        {0, 262144, 12, 1024},    /* 4096 KiB */
        {2048, 262144, 12, 1024}, /* configured less: the formula */
        {8192, 262144, 12, 2048}, /* configured more */
        {0, 16384, 16, 64},
        {0, 256, 12, 32}, /* the least that Linux would keep: an eighth of 1 MiB */
        {0, 255, 12, 31}, /* smaller pools keep an eighth */
        {0, 8, 12, 1},
        {0, 7, 12, 0},
        {0, 1, 12, 0},
        {0, 0, 12, 0},
        {128, 1, 12, 32}, /* configured is meant */
        {0, 4, 30, 0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(
            dk_pages_min(rows[i].configured_kbytes, rows[i].lowmem_pages, rows[i].page_shift),
            rows[i].want);

    assert_int_equal(dk_lowmem_part(100, 30), 70);
    assert_int_equal(dk_lowmem_part(30, 100), 0);
    assert_int_equal(dk_lowmem_part(30, 30), 0);
    assert_int_equal(dk_pages_min_hugepage(512, 3, 4194304), 16896); /* 512 * 3 * 11 */
    assert_int_equal(dk_pages_min_hugepage(512, 3, 262144), 13107);  /* 5 % of 1 GiB */
    assert_int_equal(dk_pages_min_hugepage(512, 0, 262144), 0);
}

static void test_marks(void **state)
{
    static const struct {
        enum deckle_zone_type zone;
        uint64_t managed, lowmem_managed, pages_min;
        unsigned scale;
        struct dk_zone_marks want;
    } rows[] = {
        /* One zone of 1 GiB: share 1024, gap max(256, 262) */
        {NORMAL, 262144, 262144, 1024, 10, {1024, 1286, 1548, 1810}},
        /* 4000 of 262144 frames: share 15 (15.6), gap max(3, 4) */
        {DMA, 4000, 262144, 1024, 10, {15, 19, 23, 27}},
        /* scale 3000 = 30 % */
        {NORMAL, 10000, 10000, 100, 3000, {100, 3100, 6100, 9100}},
        /* large enough to tell 10000 from its neighbours */
        {NORMAL, 100000000, 100000000, 1000, 10, {1000, 101000, 201000, 301000}},
        /* share/4 wins */
        {DMA32, 10000, 20000, 1000, 1, {500, 625, 750, 875}},
        /* HighMem and Movable: own min, gap still from the share */
        {HIGHMEM, 65536, 65536, 1000, 10, {64, 314, 564, 814}},
        {MOVABLE, 65536, 65536, 1000, 10, {64, 314, 564, 814}},
        {MOVABLE, 1024, 65536, 64, 10, {32, 33, 34, 35}}, /* share 1, gap max(0, 1), least 32 */
        {MOVABLE, 1048576, 65536, 64, 10, {128, 1176, 2224, 3272}}, /* most 128, gap 1048 */
        {MOVABLE, 256, 65536, 64, 10, {32, 32, 32, 32}},
        {MOVABLE, 255, 65536, 64, 10, {31, 31, 31, 31}}, /* an eighth */
        {MOVABLE, 1, 0, 64, 10, {0, 0, 0, 0}},
        {MOVABLE, 65536, 0, 64, 10, {64, 129, 194, 259}}, /* no lowmem: no share */
        {NORMAL, 0, 0, 1024, 10, {0, 0, 0, 0}},
        {NORMAL, 0, 1000, 1024, 10, {0, 0, 0, 0}},
        {NORMAL, 1, 1, 0, 10, {0, 0, 0, 0}},
        /* products beyond 64 bits: 2^50 frames, a quarter of it to keep free */
        {NORMAL,
         UINT64_C(1) << 50,
         UINT64_C(1) << 50,
         UINT64_C(1) << 48,
         10,
         {UINT64_C(1) << 48, 5 * (UINT64_C(1) << 46), 6 * (UINT64_C(1) << 46),
          7 * (UINT64_C(1) << 46)}},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dk_zone_marks marks =
            dk_zone_marks(rows[i].zone, rows[i].managed, rows[i].lowmem_managed, rows[i].pages_min,
                          rows[i].scale);

        if (memcmp(&marks, &rows[i].want, sizeof(marks)) != 0)
            fail_msg("row %u: min %u low %u high %u promo %u", (unsigned)i, (unsigned)marks.min,
                     (unsigned)marks.low, (unsigned)marks.high, (unsigned)marks.promo);
    }
}

/* The shares of all zones add up to pages_min, but for one frame lost in rounding per zone. */
static void test_marks_random(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(50000); n; n--) {
        uint64_t managed[3], sum = 0, of_min = 0;
        uint64_t bits = 1 + test_random_below(&seed, 50);
        uint64_t pages_min;
        unsigned scale = 1 + (unsigned)test_random_below(&seed, DK_SCALE_FACTOR_MOST);

        for (unsigned z = 0; z < 3; z++)
            sum += managed[z] = test_random_below(&seed, UINT64_C(1) << bits);
        pages_min = test_random_below(&seed, sum / 8 + 1);
        for (unsigned z = 0; z < 3; z++) {
            struct dk_zone_marks m =
                dk_zone_marks((enum deckle_zone_type)z, managed[z], sum, pages_min, scale);

            assert_true(m.min <= m.low && m.low <= m.high && m.high <= m.promo);
            assert_int_equal(m.high - m.low, m.low - m.min);
            assert_int_equal(m.promo - m.high, m.low - m.min);
            assert_true(m.low - m.min >= m.min / 4);
            assert_true((m.low - m.min) >= managed[z] / 10000 * scale);
            assert_true(m.min <= managed[z] / 8 + 1);
            of_min += m.min;
        }
        assert_true(of_min <= pages_min && of_min + 3 > pages_min);
    }
}

static void test_lowmem_reserve(void **state)
{
    /* DMA 16 MiB less holes, DMA32 just under 3 GiB, Normal 13 GiB, no HighMem, Movable 1 GiB. */
    static const uint64_t managed[] = {3840, 780000, 3400000, 0, 262144};
    static const uint64_t row_and_more[] = {1, 5, 4, 3, 2, 999};
    uint64_t reserve[5][5];
    static const uint64_t want[5][5] = {
        {0, 780000 / 256, 4180000 / 256, 4180000 / 256, 4442144 / 256},
        {0, 0, 3400000 / 256, 3400000 / 256, 3662144 / 256},
        {0, 0, 0, 0, 262144 / 32},
        {0, 0, 0, 0, 0},
        {0, 0, 0, 0, 0},
    };
    static const uint32_t ratio[] = {1, 0, 7, 9, 5};
    static const uint64_t few[] = {10, 20, 30, 0, 50};
    static const uint64_t want_few[5][5] = {
        {0, 20, 50, 50, 100}, {0, 0, 0, 0, 0}, /* ratio 0 */
        {0, 0, 0, 0, 50 / 7}, {0, 0, 0, 0, 0}, /* empty zone */
        {0, 0, 0, 0, 0},
    };
    (void)state;

    dk_lowmem_reserve(managed, dk_lowmem_reserve_ratio_default, reserve);
    assert_memory_equal(reserve, want, sizeof(want));
    assert_int_equal(reserve[0][2], 16328);
    assert_int_equal(reserve[2][4], 8192);
    dk_lowmem_reserve(few, ratio, reserve);
    assert_memory_equal(reserve, want_few, sizeof(want_few));

    assert_int_equal(dk_zone_totalreserve(want[0], 50, 3840), 3840);
    assert_int_equal(dk_zone_totalreserve(want[2], 1548, 3400000), 9740);
    assert_int_equal(dk_zone_totalreserve(want[3], 0, 0), 0);
    assert_int_equal(dk_zone_totalreserve(row_and_more, 10, 1000), 15);
    assert_int_equal(dk_zone_totalreserve(want_few[0], UINT64_MAX, 10), 10);
}

static void test_boost(void **state)
{
    static const struct {
        uint64_t before, high, managed;
        unsigned factor;
        bool want;
        uint64_t after;
    } rows[] = {
        {0, 1548, 262144, 15000, true, 512},
        {512, 1548, 262144, 15000, true, 1024},
        {2048, 1548, 262144, 15000, true, 2322}, /* 1548 * 1.5 */
        {2322, 1548, 262144, 15000, true, 2322},
        {14800, 10000, 262144, 15000, true, 15000},
        {0, 100, 262144, 15000, true, 512}, /* cap 150: raised to one block */
        {512, 100, 262144, 15000, true, 512},
        {7, 1548, 262144, 0, false, 7},  /* switched off */
        {7, 0, 262144, 15000, false, 7}, /* high not set */
        {0, 1548, 2048, 15000, true, 512},
        {7, 1548, 2047, 15000, false, 7}, /* fewer than four blocks */
        {0, UINT64_C(1) << 51, UINT64_C(1) << 52, 15000, true, 512},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        uint64_t boost = rows[i].before;

        assert_int_equal(
            dk_watermark_boost(&boost, rows[i].high, rows[i].managed, 512, rows[i].factor),
            rows[i].want);
        assert_int_equal(boost, rows[i].after);
    }
}

static void test_stat_threshold(void **state)
{
    static const struct {
        unsigned nr_cpus;
        uint64_t managed;
        unsigned page_shift, want;
    } rows[] = {
        {1, 0, 12, 2},          /* 2 * 1 * (1 + 0) */
        {1, 32767, 12, 2},      /* just under 128 MiB */
        {1, 32768, 12, 4},      /* 128 MiB: fls(1) = 1 */
        {2, 262144, 12, 20},    /* 1 GiB: 8 units, fls 4: 2 * 2 * 5 */
        {8, 262144, 12, 40},    /* fls(8) = 4 */
        {8, 65536, 14, 40},     /* the same memory */
        {64, 4194304, 12, 125}, /* 16 GiB: 128 units, fls 8: 2 * 7 * 9 = 126, capped */
        {63, 4194304, 12, 108}, /* fls(63) = 6 */
        {0, 4194304, 12, 0},
        {1, 1, 27, 4},
        {1, 1, 30, 10}, /* 1 GiB: 8 units */
        {4096, UINT64_MAX, 30, 125},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++)
        assert_int_equal(dk_stat_threshold(rows[i].nr_cpus, rows[i].managed, rows[i].page_shift),
                         rows[i].want);

    assert_int_equal(dk_drift_mark(8, 40, 1024, 1286, 1548), 1868); /* 320 > 262 */
    assert_int_equal(dk_drift_mark(8, 40, 1024, 1344, 1664), 0);    /* 320 = 320 */
    assert_int_equal(dk_drift_mark(8, 40, 1024, 1343, 1662), 1982);
    assert_int_equal(dk_drift_mark(0, 40, 0, 0, 0), 0);
    assert_int_equal(dk_drift_mark(1, 2, 0, 0, 0), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_min_free_kbytes), cmocka_unit_test(test_pages_min),
        cmocka_unit_test(test_marks),           cmocka_unit_test(test_marks_random),
        cmocka_unit_test(test_lowmem_reserve),  cmocka_unit_test(test_boost),
        cmocka_unit_test(test_stat_threshold),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
