/* SPDX-License-Identifier: MIT */
/*
 * Feeding in the memory map: add_range, reserve_range, online, remove_range against one entry a
 * frame. Names h… are rows of the list of what went wrong in other allocators; each test covers the
 * row's kind.
 *
 * ctest: timeout=120
 */
#include "guarded_check.h"
#include "testing.h"

#define WINDOW 16384u /* frames that the random maps lie in */

static uint64_t seed;

/* ---- 1 to 7: reservations ------------------------------------------------------------------ */

enum { ABSENT, USABLE, TAKEN };

struct map {
    struct deckle_range usable[8];
    uint32_t nr_usable;
    struct { uint64_t pfn, nr; } reserved[12];
    uint32_t nr_reserved;
    uint8_t frame[WINDOW];
};

static void random_map(struct map *m, uint64_t *random, uint64_t base)
{
    uint64_t at = test_random_below(random, 700);

    memset(m, 0, sizeof(*m));
    while (m->nr_usable < 8 && at < WINDOW - 3000) {
        uint64_t nr = 1 + test_random_below(random, test_random_below(random, 3) ? 1500 : 20);
        m->usable[m->nr_usable++] = (struct deckle_range){.pfn = base + at, .nr = nr};
        memset(&m->frame[at], USABLE, nr);
        at += nr + (test_random_below(random, 3) ? test_random_below(random, 1500) : 0);
    }
    m->nr_reserved = (uint32_t)test_random_below(random, 13);
    for (uint32_t i = 0; i < m->nr_reserved; i++) {
        uint64_t pfn = test_random_below(random, WINDOW - 1);
        uint64_t nr = 1 + test_random_below(random, test_random_below(random, 2) ? 3 : 2000);
        m->reserved[i].pfn = base + pfn;
        m->reserved[i].nr = nr;
        for (uint64_t f = pfn; f < pfn + nr && f < WINDOW; f++)
            if (m->frame[f] == USABLE)
                m->frame[f] = TAKEN;
    }
}

static void shuffle_ranges(struct deckle_range *r, uint32_t nr, uint64_t *random)
{
    for (uint32_t i = nr; i > 1; i--) {
        uint32_t k = (uint32_t)test_random_below(random, i);
        struct deckle_range t = r[k];
        r[k] = r[i - 1];
        r[i - 1] = t;
    }
}

/* Reservations in any number, before, between and after the ranges, overlapping, outside: what is
 * given out is the set difference. */
static void h001_reservation_is_set_subtraction(void **state)
{
    static uint8_t seen[WINDOW];
    static struct map m;
    uint64_t random = seed;
    (void)state;

    for (uint64_t round = 0; round < test_effort(120); round++) {
        uint64_t base = round % 3 ? test_random_below(&random, 1u << 20) : 0;
        struct guarded g;
        uint64_t usable = 0, taken = 0;

        random_map(&m, &random, base);
        struct deckle_config cfg = plain_config(m.usable, m.nr_usable);
        cfg.max_order = 9 + (uint32_t)test_random_below(&random, 3);
        guarded_init(&g, &cfg);
        shuffle_ranges(m.usable, m.nr_usable, &random);
        for (uint32_t i = 0, k = 0; i < m.nr_usable || k < m.nr_reserved;) {
            if (k < m.nr_reserved && (i == m.nr_usable || test_random_below(&random, 2))) {
                assert_int_equal(deckle_reserve_range(g.d, m.reserved[k].pfn, m.reserved[k].nr),
                                 DECKLE_OK);
                k++;
            } else {
                assert_int_equal(deckle_add_range(g.d, &m.usable[i]), DECKLE_OK);
                i++;
            }
        }
        assert_int_equal(deckle_online(g.d), DECKLE_OK);
        assert_valid(g.d);
        for (uint64_t f = 0; f < WINDOW; f++) {
            usable += m.frame[f] == USABLE;
            taken += m.frame[f] == TAKEN;
        }
        assert_true(sum_free(g.d) == usable);
        assert_true(allocate_all(g.d, base, seen, WINDOW) == usable);
        for (uint64_t f = 0; f < WINDOW; f++)
            assert_int_equal(seen[f], m.frame[f] == USABLE);
        assert_valid(g.d);
        for (uint64_t f = 0; f < WINDOW; f++)
            if (m.frame[f] == TAKEN)
                assert_int_equal(deckle_free(g.d, base + f, 0), DECKLE_EBADFREE);
        assert_true(g.reports == taken);
        assert_true(!taken || g.last.what == DECKLE_BAD_RESERVED);
        guarded_close(&g);
    }
}

/* Regions in bytes: no frame that is only partly inside is taken in. */
static void h005_regions_round_inwards(void **state)
{
    static const struct { uint64_t address, bytes; uint32_t shift; uint64_t pfn, nr; } cases[] = {
        {0x1001, 0x1fff, 0, 2, 1},          {0x1001, 0x1ffe, 12, 2, 0},
        {0x0fff, 0x2003, 12, 1, 2},         {0, 4096, 12, 0, 1},
        {0, 4095, 12, 0, 0},                {1, 4096, 12, 1, 0},
        {0x1000, 0, 12, 1, 0},              {0x1fff, 1, 12, 2, 0},
        {0x10000, 0x20001, 16, 1, 2},       {0xffff, 0x20001, 16, 1, 2},
        {UINT64_MAX - 4095, 4095, 12, (UINT64_C(1) << 52) - 1, 0},
        {UINT64_MAX - 4095, 4096, 12, (UINT64_C(1) << 52) - 1, 1},
        {UINT64_MAX - 4095, UINT64_MAX, 12, (UINT64_C(1) << 52) - 1, 1},
        {UINT64_MAX, 1, 12, UINT64_C(1) << 52, 0},
        {0, UINT64_MAX, 12, 0, (UINT64_C(1) << 52) - 1},
        {1, UINT64_MAX, 12, 1, (UINT64_C(1) << 52) - 1},
    };
    struct deckle_range r = {0};
    uint64_t random = seed;
    (void)state;

    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        r.nr = 77;
        assert_int_equal(
            deckle_range_of_bytes(cases[i].address, cases[i].bytes, cases[i].shift, &r), DECKLE_OK);
        if (r.nr != cases[i].nr || (r.nr && r.pfn != cases[i].pfn))
            fail_msg("case %u: %llu frames at %llu", i, (unsigned long long)r.nr,
                     (unsigned long long)r.pfn);
    }
    for (unsigned i = 0; i < 10000; i++) { /* what is inside is inside, and one frame more is not */
        uint32_t shift = 10 + (uint32_t)test_random_below(&random, 21);
        uint64_t address = test_random(&random) >> 8, bytes = test_random(&random) >> (8 + i % 50);
        assert_int_equal(deckle_range_of_bytes(address, bytes, shift, &r), DECKLE_OK);
        if (!r.nr)
            continue;
        assert_true(r.pfn << shift >= address);
        assert_true((r.pfn + r.nr) << shift <= address + bytes);
        assert_true((r.pfn - 1) << shift < address || r.pfn == 0);
        assert_true((r.pfn + r.nr + 1) << shift > address + bytes);
    }
    assert_int_equal(deckle_range_of_bytes(0, 1, 9, &r), DECKLE_EINVAL);
    assert_int_equal(deckle_range_of_bytes(0, 1, 31, &r), DECKLE_EINVAL);
    assert_int_equal(deckle_range_of_bytes(0, 1, 12, NULL), DECKLE_EINVAL);
}

/* A reservation holds for frames that come later, and for those that come again. */
static void h007_reservations_outlast_the_memory(void **state)
{
    struct deckle_range r = {.pfn = 4096, .nr = 4096};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    guarded_init(&g, &cfg);
    assert_int_equal(deckle_reserve_range(g.d, 0, 5000), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(g.d, 8000, 100000), DECKLE_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(deckle_add_range(g.d, &r), DECKLE_OK);
        assert_int_equal(deckle_online(g.d), DECKLE_OK);
        assert_valid(g.d);
        assert_true(sum_free(g.d) == 3000);
        assert_int_equal(deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, 4999, 0), DECKLE_EBUSY);
        assert_int_equal(deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, 5000, 0), DECKLE_OK);
        assert_int_equal(deckle_remove_range(g.d, 4096, 4096), DECKLE_EBUSY);
        assert_int_equal(deckle_free(g.d, 5000, 0), DECKLE_OK);
        assert_int_equal(deckle_remove_range(g.d, 4096, 4096), DECKLE_OK);
        assert_valid(g.d);
        assert_true(sum_free(g.d) == 0);
    }
    guarded_close(&g);
}

/* ---- 3: order of the ranges ---------------------------------------------------------------- */

static void assert_same_pools(struct deckle *a, struct deckle *b)
{
    for (;;) {
        int64_t x = deckle_alloc(a, DECKLE_GFP_KERNEL, 2);
        assert_true(x == deckle_alloc(b, DECKLE_GFP_KERNEL, 2));
        if (x < 0)
            break;
    }
}

static void h003_all_orders_of_ranges_are_the_same(void **state)
{
    const struct deckle_range sorted[5] = {
        {.pfn = 0, .nr = 1},       {.pfn = 1, .nr = 700},      {.pfn = 1000, .nr = 24},
        {.pfn = 4000, .nr = 5000}, {.pfn = 20000, .nr = 1537},
    };
    struct deckle_config cfg = plain_config(sorted, 5);
    struct guarded first;
    (void)state;

    guarded_open(&first, &cfg);
    assert_true(sum_free(first.d) == 1 + 700 + 24 + 5000 + 1537);
    for (unsigned n = 0; n < 120; n++) {
        struct deckle_range left[5], order[5];
        struct guarded g, same;
        unsigned code = n;

        memcpy(left, sorted, sizeof(left));
        for (unsigned i = 0; i < 5; i++) {
            unsigned k = code % (5 - i);
            code /= 5 - i;
            order[i] = left[k];
            memmove(&left[k], &left[k + 1], (4 - i - k) * sizeof(left[0]));
        }
        cfg.ranges = order;
        guarded_open(&g, &cfg);
        assert_valid(g.d);
        assert_true(sum_free(g.d) == sum_free(first.d));
        cfg.ranges = sorted;
        guarded_open(&same, &cfg);
        assert_same_pools(g.d, same.d);
        guarded_close(&same);
        guarded_close(&g);
    }
    guarded_close(&first);
}

static void h003_a_frame_is_added_once(void **state)
{
    const struct deckle_range r[2] = {{.pfn = 100, .nr = 50}, {.pfn = 150, .nr = 50}};
    const struct deckle_range again[] = {
        {.pfn = 100, .nr = 50},
        {.pfn = 149, .nr = 2},
        {.pfn = 0, .nr = 101},
        {.pfn = 199, .nr = 1},
        {.pfn = 0, .nr = 1000},
        {.pfn = 120, .nr = 1},
        {.pfn = 100, .nr = 50, .zone = DECKLE_ZONE(4)},
    };
    struct deckle_config cfg = plain_config(r, 2);
    struct guarded g;
    (void)state;

    cfg.grow_pages = 4096;
    guarded_init(&g, &cfg);
    assert_int_equal(deckle_add_range(g.d, &r[1]), DECKLE_OK);
    assert_int_equal(deckle_add_range(g.d, &r[0]), DECKLE_OK);
    for (int online = 0; online < 2; online++) {
        for (unsigned i = 0; i < sizeof(again) / sizeof(again[0]); i++)
            ASSERT_REFUSED(&g, DECKLE_EEXIST, deckle_add_range(g.d, &again[i]));
        if (!online)
            assert_int_equal(deckle_online(g.d), DECKLE_OK);
    }
    ASSERT_REFUSED(&g, DECKLE_EINVAL, deckle_online(g.d));
    assert_valid(g.d);
    assert_true(sum_free(g.d) == 100);
    guarded_close(&g);
}

/* ---- 9 to 19 --------------------------------------------------------------------------------- */

/* The metadata may lie in the memory that it describes: reserved, it is never given out, and
 * writing to every frame that is given out does not touch it. */
static void h009_metadata_inside_the_memory(void **state)
{
    enum { FRAMES = 4096 };
    unsigned char *memory = mmap(NULL, FRAMES * 4096ul, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t base = (uintptr_t)memory >> 12;
    struct deckle_range r = {.pfn = base, .nr = FRAMES};
    struct deckle_config cfg = plain_config(&r, 1);
    size_t size = deckle_metadata_size(&cfg), at = 1000 * 4096;
    struct deckle *d;
    uint64_t count = 0;
    int64_t pfn;
    (void)state;

    assert_ptr_not_equal(memory, MAP_FAILED);
    assert_int_equal(deckle_init(memory + at, size, &cfg, NULL, &d), DECKLE_OK);
    assert_int_equal(deckle_add_range(d, &r), DECKLE_OK);
    uint64_t first = base + at / 4096, nr = (size + 4095) / 4096;
    assert_int_equal(deckle_reserve_range(d, first, nr), DECKLE_OK);
    assert_int_equal(deckle_online(d), DECKLE_OK);
    while ((pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0)) >= 0) {
        assert_false((uint64_t)pfn - first < nr);
        memset((void *)((uintptr_t)pfn << 12), 0xff, 4096);
        count++;
    }
    assert_true(count == FRAMES - nr);
    assert_valid(d);
    munmap(memory, FRAMES * 4096ul);
}

static void count_run(void *ctx, uint64_t pfn, uint64_t nr)
{
    uint64_t *sum = ctx;

    (void)pfn;
    sum[0]++;
    sum[1] += nr;
}

/* Any number of frames at any offset: every one can be had, once. */
static void h011_any_size_at_any_offset(void **state)
{
    static uint8_t seen[4 * 1024];
    uint64_t random = seed, rounds = test_effort(1500);
    (void)state;

    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t nr = i < 70 ? i + 1 : 1 + test_random_below(&random, sizeof(seen) - 1);
        uint64_t pfn = i % 5 ? test_random_below(&random, 5000) : i % 1024;
        struct deckle_range r = {.pfn = pfn, .nr = nr};
        struct deckle_config cfg = plain_config(&r, 1);
        uint64_t runs[2] = {0};
        struct guarded g;

        cfg.max_order = i % 2 ? 10 : 9;
        guarded_open(&g, &cfg);
        assert_true(sum_free(g.d) == nr);
        deckle_for_each_free(g.d, count_run, runs);
        assert_true(runs[0] == 1 && runs[1] == nr);
        assert_valid(g.d);
        if (i % 4 == 0) {
            assert_true(allocate_all(g.d, pfn, seen, nr) == nr);
            assert_valid(g.d);
        }
        guarded_close(&g);
    }
}

static void h013_one_frame_is_a_pool(void **state)
{
    const uint64_t at[] = {
        0, 1, 511, 512, 4095, 4096, (1u << 20) - 1, 1u << 20, (UINT64_C(1) << 52) - 1};
    (void)state;

    for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
        for (unsigned marks = 0; marks < 2; marks++) {
            struct deckle_range r = {.pfn = at[i], .nr = 1};
            struct deckle_config cfg = plain_config(&r, 1);
            struct guarded g;

            cfg.min_free_kbytes = marks ? 0 : UINT64_MAX;
            guarded_open(&g, &cfg);
            for (int times = 0; times < 3; times++) {
                assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 0) == (int64_t)at[i]);
                assert_int_equal(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 0), DECKLE_ENOMEM);
                assert_valid(g.d);
                assert_int_equal(deckle_free(g.d, at[i], 0), DECKLE_OK);
            }
            assert_int_equal(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 1), DECKLE_ENOMEM);
            guarded_close(&g);
        }
    }
}

/* Ranges that touch are one: blocks form across the seam. */
static void h013_adjacent_ranges_merge(void **state)
{
    struct deckle_range r[8];
    struct deckle_config cfg = plain_config(r, 8);
    struct guarded g;
    (void)state;

    for (unsigned i = 0; i < 8; i++)
        r[i] = (struct deckle_range){.pfn = 1024 + 128 * i, .nr = 128};
    cfg.max_order = 10;
    guarded_open(&g, &cfg);
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 10) == 1024);
    assert_int_equal(deckle_free(g.d, 1024, 10), DECKLE_OK);
    assert_valid(g.d);
    guarded_close(&g);
}

static void h015_exhaustion_has_no_second_source(void **state)
{
    static uint8_t seen[6000];
    struct deckle_range r = {.pfn = 777, .nr = 6000};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    assert_true(allocate_all(g.d, 777, seen, 6000) == 6000);
    for (unsigned order = 0; order <= 9; order++)
        assert_int_equal(deckle_alloc(g.d, DECKLE_GFP_KERNEL, order), DECKLE_ENOMEM);
    for (uint64_t f = 0; f < 6000; f++)
        assert_int_equal(deckle_free(g.d, 777 + f, 0), DECKLE_OK);
    assert_true(allocate_all(g.d, 777, seen, 6000) == 6000);
    guarded_close(&g);
}

static void h017_free_runs_are_merged(void **state)
{
    struct deckle_range r[2] = {{.pfn = 0, .nr = 3000}, {.pfn = 3000, .nr = 9288}};
    struct deckle_config cfg = plain_config(r, 2);
    uint64_t random = seed;
    (void)state;

    cfg.features = DECKLE_FEATURE_NO_CACHES;
    cfg.dma_limit_pfn = 4000; /* the seams of ranges and zones do not show */
    for (unsigned n = 0; n < 60; n++) {
        uint64_t runs[2] = {0};
        struct guarded g;

        guarded_open(&g, &cfg);
        for (unsigned i = 0; i < n; i++) {
            uint64_t pfn = test_random_below(&random, 12288);
            int error = deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, pfn, 0);
            assert_true(error == DECKLE_OK || error == DECKLE_EBUSY);
        }
        deckle_for_each_free(g.d, count_run, runs);
        assert_in_range(runs[0], 1, n + 1);
        assert_true(runs[1] == sum_free(g.d));
        guarded_close(&g);
    }
}

static void h019_later_zones_are_equal(void **state)
{
    static uint8_t seen[24576];
    struct deckle_range r = {.pfn = 0, .nr = 24576};
    struct deckle_config cfg = plain_config(&r, 1);
    struct deckle_zone_stat z = {.size = sizeof(z)};
    struct guarded g;
    (void)state;

    cfg.dma_limit_pfn = 8192 + 77;
    cfg.dma32_limit_pfn = 16384 + 300;
    guarded_open(&g, &cfg);
    const uint64_t sizes[3] = {8269, 16684 - 8269, 24576 - 16684};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(deckle_get_zone_stat(g.d, i, &z), DECKLE_OK);
        assert_true(z.present == sizes[i] && z.managed == sizes[i] && z.free == sizes[i]);
    }
    assert_true(allocate_all(g.d, 0, seen, 24576) == 24576);
    assert_valid(g.d);
    guarded_close(&g);
}

/* ---- 61, 107 --------------------------------------------------------------------------------- */

/* A limit that cuts a range at 2.5 GiB of 3 leaves each side its own large blocks: none crosses it,
 * and every one that fits can be had. */
static void h107_division_keeps_large_blocks_whole(void **state)
{
    struct deckle_range r = {.pfn = 0, .nr = 3 << 18};
    struct deckle_config cfg = plain_config(&r, 1);
    uint64_t limit = 5 << 17; /* 2.5 GiB */
    struct guarded g;
    (void)state;

    if (sizeof(void *) < 8)
        skip();
    cfg.max_order = 18;
    cfg.dma_limit_pfn = UINT64_MAX;
    cfg.dma32_limit_pfn = limit;
    guarded_open(&g, &cfg);
    for (unsigned order = 18; order >= 9; order--) {
        uint64_t nr = 0, fits = (limit >> order) +
                                (((3 << 18) >> order) - ((limit + (1u << order) - 1) >> order));
        int64_t pfn;
        while ((pfn = deckle_alloc(g.d, DECKLE_GFP_KERNEL, order)) >= 0) {
            uint64_t end = (uint64_t)pfn + (UINT64_C(1) << order);
            assert_true((uint64_t)pfn >= limit || end <= limit);
            assert_true((uint64_t)pfn % (UINT64_C(1) << order) == 0);
            nr++;
        }
        assert_true(nr == fits);
        for (uint64_t f = 0; f < 3 << 18; f += UINT64_C(1) << order)
            if (deckle_block_order(g.d, f) == (int)order)
                assert_int_equal(deckle_free(g.d, f, order), DECKLE_OK);
    }
    assert_valid(g.d);
    guarded_close(&g);
}

/* All memory that a pool ever has is what the size query said: not one byte from the C library. */
static void h061_the_allocator_allocates_nothing(void **state)
{
    static uint8_t seen[3000];
    struct deckle_range r = {.pfn = 9, .nr = 3000};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    guarded_init(&g, &cfg);
    void *before = sbrk(0);
    assert_int_equal(deckle_add_range(g.d, &r), DECKLE_OK);
    assert_int_equal(deckle_online(g.d), DECKLE_OK);
    assert_true(allocate_all(g.d, 9, seen, 3000) == 3000);
    for (uint64_t f = 9; f < 3009; f++)
        assert_int_equal(deckle_free(g.d, f, 0), DECKLE_OK);
    assert_int_equal(deckle_drain_all(g.d), DECKLE_OK);
    assert_int_equal(deckle_validate(g.d, NULL, 0), DECKLE_OK);
    assert_int_equal(deckle_remove_range(g.d, 9, 3000), DECKLE_OK);
    assert_true(deckle_exit(g.d, NULL) == 0);
    assert_ptr_equal(sbrk(0), before);
    guarded_close(&g);
}

/* ---- 41: failing calls --------------------------------------------------------------------- */

static void h041_refused_calls_change_nothing(void **state)
{
    struct deckle_range r[2] = {{.pfn = 1000, .nr = 3000}, {.pfn = 9000, .nr = 100}};
    const struct deckle_range wrong[] = {
        {.pfn = 0, .nr = 0},
        {.pfn = UINT64_C(1) << 52, .nr = 1},
        {.pfn = (UINT64_C(1) << 52) - 1, .nr = 2},
        {.pfn = 1, .nr = UINT64_MAX},
        {.pfn = 0, .nr = 1, .node = DECKLE_NODE(1)},
        {.pfn = 0, .nr = 1, .node = UINT32_MAX},
        {.pfn = 0, .nr = 1, .zone = 6},
        {.pfn = 0, .nr = 1, .zone = DECKLE_ZONE(DECKLE_ZONE_HIGHMEM)},
        {.pfn = 4095, .nr = 2, .zone = DECKLE_ZONE(DECKLE_ZONE_DMA)},
        {.pfn = 0, .nr = 1, .flags = 4},
    };
    struct deckle_config cfg = plain_config(r, 2);
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        ASSERT_REFUSED(&g, DECKLE_EINVAL, deckle_add_range(g.d, &wrong[i]));
    struct deckle_range other = {.pfn = UINT64_C(1) << 30,
                                 .nr = 1}; /* Normal, which it was made without */
    ASSERT_REFUSED(&g, DECKLE_ENOSPC, deckle_add_range(g.d, &other));
    ASSERT_REFUSED(&g, DECKLE_EINVAL, deckle_reserve_range(g.d, 5, 0));
    ASSERT_REFUSED(&g, DECKLE_EINVAL, deckle_reserve_range(g.d, 5, UINT64_MAX));
    ASSERT_REFUSED(&g, DECKLE_ENOENT, deckle_remove_range(g.d, 1000, 2999));
    ASSERT_REFUSED(&g, DECKLE_ENOENT, deckle_remove_range(g.d, 1001, 2999));
    ASSERT_REFUSED(&g, DECKLE_ENOENT, deckle_remove_range(g.d, 1000, 8100));
    ASSERT_REFUSED(&g, DECKLE_ENOENT, deckle_remove_range(g.d, 0, 1));
    assert_int_equal(deckle_add_range(NULL, r), DECKLE_EINVAL);
    assert_int_equal(deckle_add_range(g.d, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_reserve_range(NULL, 1, 1), DECKLE_EINVAL);
    assert_int_equal(deckle_remove_range(NULL, 1, 1), DECKLE_EINVAL);
    assert_int_equal(deckle_online(NULL), DECKLE_EINVAL);
    assert_valid(g.d);

    /* More than the metadata was made for: the call that finds out leaves the range announced. */
    struct deckle_range big = {.pfn = 20000, .nr = 100000};
    assert_int_equal(deckle_add_range(g.d, &big), DECKLE_OK);
    ASSERT_REFUSED(&g, DECKLE_ENOSPC, deckle_online(g.d));
    assert_int_equal(deckle_remove_range(g.d, 20000, 100000), DECKLE_OK);
    assert_valid(g.d);
    guarded_close(&g);
}

/* What is busy stays: same free runs, same blocks, same counters. */
struct picture {
    uint64_t runs[64][2];
    uint64_t nr;
};

static void draw_run(void *ctx, uint64_t pfn, uint64_t nr)
{
    struct picture *p = ctx;

    assert_true(p->nr < 64);
    p->runs[p->nr][0] = pfn;
    p->runs[p->nr++][1] = nr;
}

static void h041_a_busy_frame_stops_everything(void **state)
{
    struct deckle_range r[3] = {{.pfn = 500, .nr = 3000},
                                {.pfn = 3500, .nr = 2000, .node = DECKLE_NODE(1)},
                                {.pfn = 5500, .nr = 1000}};
    struct deckle_config cfg = plain_config(r, 3);
    uint64_t random = seed;
    (void)state;

    cfg.nr_nodes = 2;
    for (unsigned i = 0; i < 40; i++) {
        static struct picture before, after;
        uint64_t busy = 500 + test_random_below(&random, 6000);
        struct guarded g;

        guarded_open(&g, &cfg);
        assert_int_equal(deckle_reserve_range(g.d, 1000, 700), DECKLE_OK);
        if (busy - 1000 < 700)
            busy = 1700;
        assert_int_equal(deckle_alloc_at(g.d, DECKLE_GFP_KERNEL, busy, 0), DECKLE_OK);
        memset(&before, 0, sizeof(before));
        memset(&after, 0, sizeof(after));
        deckle_for_each_free(g.d, draw_run, &before);
        uint64_t free = sum_free(g.d);
        assert_int_equal(deckle_remove_range(g.d, 500, 6000), DECKLE_EBUSY);
        assert_int_equal(deckle_reserve_range(g.d, 0, 100000), DECKLE_EBUSY);
        assert_valid(g.d);
        deckle_for_each_free(g.d, draw_run, &after);
        assert_memory_equal(&before, &after, sizeof(before));
        assert_true(sum_free(g.d) == free);
        assert_int_equal(deckle_free(g.d, busy, 0), DECKLE_OK);
        assert_int_equal(deckle_remove_range(g.d, 500, 6000), DECKLE_OK);
        assert_true(sum_free(g.d) == 0);
        assert_valid(g.d);
        assert_int_equal(deckle_free(g.d, busy, 0), DECKLE_EBADFREE);
        assert_int_equal(g.last.what, DECKLE_BAD_FOREIGN);
        guarded_close(&g);
    }
}

/* ---- CMA ----------------------------------------------------------------------------------- */

static void whole_blocks_of_a_cma_range_are_cma(void **state)
{
    struct deckle_range r[2] = {{.pfn = 0, .nr = 1000},
                                {.pfn = 1000, .nr = 3000, .flags = DECKLE_RANGE_CMA}};
    struct deckle_config cfg = plain_config(r, 2);
    struct deckle_zone_stat z = {.size = sizeof(z)};
    struct guarded g;
    (void)state;

    guarded_init(&g, &cfg);
    assert_int_equal(deckle_add_range(g.d, &r[0]), DECKLE_OK);
    assert_int_equal(deckle_add_range(g.d, &r[1]), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(g.d, 1500, 40), DECKLE_OK);
    assert_int_equal(deckle_online(g.d), DECKLE_OK);
    assert_int_equal(deckle_get_zone_stat(g.d, 0, &z), DECKLE_OK);
    assert_true(z.cma == 5 * 512);             /* 1024 … 3583 */
    assert_true(z.free_cma == 5 * 512 - 40);
    assert_int_equal(deckle_pageblock_type(g.d, 1023), DECKLE_MOVABLE);
    assert_int_equal(deckle_pageblock_type(g.d, 1024), DECKLE_CMA);
    assert_int_equal(deckle_pageblock_type(g.d, 3583), DECKLE_CMA);
    assert_int_equal(deckle_pageblock_type(g.d, 3584), DECKLE_MOVABLE);
    assert_valid(g.d);
    guarded_close(&g);
}

/* ---- the end ------------------------------------------------------------------------------- */

struct leaks {
    uint64_t calls, frames, last;
};

static struct leaks leaks;

static void note_leak(void *ctx, const struct deckle_allocated *block)
{
    (void)ctx;
    assert_true(!leaks.calls || block->pfn > leaks.last);
    leaks.last = block->pfn;
    leaks.calls++;
    leaks.frames += UINT64_C(1) << block->order;
}

static void exit_reports_what_is_left(void **state)
{
    struct deckle_range r = {.pfn = 300, .nr = 20000};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    for (unsigned order = 0; order <= 9; order++) {
        int64_t keep = deckle_alloc(g.d, DECKLE_GFP_KERNEL, order);
        int64_t back = deckle_alloc(g.d, DECKLE_GFP_KERNEL, order);
        assert_true(keep >= 0 && back >= 0);
        assert_int_equal(deckle_free(g.d, (uint64_t)back, order), DECKLE_OK);
    }
    assert_true(deckle_exit(g.d, note_leak) == 1023);
    assert_true(leaks.calls == 10 && leaks.frames == 1023);
    assert_true(deckle_exit(g.d, NULL) == 0);
    guarded_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h001_reservation_is_set_subtraction),
        cmocka_unit_test(h003_all_orders_of_ranges_are_the_same),
        cmocka_unit_test(h003_a_frame_is_added_once),
        cmocka_unit_test(h005_regions_round_inwards),
        cmocka_unit_test(h007_reservations_outlast_the_memory),
        cmocka_unit_test(h009_metadata_inside_the_memory),
        cmocka_unit_test(h011_any_size_at_any_offset),
        cmocka_unit_test(h013_one_frame_is_a_pool),
        cmocka_unit_test(h013_adjacent_ranges_merge),
        cmocka_unit_test(h015_exhaustion_has_no_second_source),
        cmocka_unit_test(h017_free_runs_are_merged),
        cmocka_unit_test(h019_later_zones_are_equal),
        cmocka_unit_test(h061_the_allocator_allocates_nothing),
        cmocka_unit_test(h107_division_keeps_large_blocks_whole),
        cmocka_unit_test(h041_refused_calls_change_nothing),
        cmocka_unit_test(h041_a_busy_frame_stops_everything),
        cmocka_unit_test(whole_blocks_of_a_cma_range_are_cma),
        cmocka_unit_test(exit_reports_what_is_left),
    };

    seed = test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
