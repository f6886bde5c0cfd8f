/* SPDX-License-Identifier: MIT */
/*
 * Marks, reserves, thresholds and cache sizes as pools get them, against the formulas worked out by
 * hand here; and what they mean for small pools.
 */
#include "guarded_check.h"
#include "testing.h"

#include "core/layout.h"

static uint64_t word(const dk_aword *w)
{
    return dk_load_relaxed(w);
}

/* 4 GiB of Normal: 1048576 frames; lowmem 4194304 KiB; sqrt(16 * 4194304) = 8192 KiB = 2048 frames.
 * min 2048; gap max(512, 1048576 * 10 / 10000 = 1048); batch 63; 2 CPUs. */
static void one_large_zone(void **state)
{
    struct deckle_range r = {.pfn = UINT64_C(1) << 20, .nr = UINT64_C(1) << 20};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    cfg.min_free_kbytes = 0;
    guarded_open(&g, &cfg);
    const struct dk_zone *z = &g.d->zones[0];
    assert_int_equal(z->type, DECKLE_ZONE_NORMAL);
    assert_true(word(&z->min) == 2048);
    assert_true(word(&z->low) == 3096);
    assert_true(word(&z->high) == 4144);
    assert_true(word(&z->promo) == 5192);
    assert_true(word(&z->boost) == 0);
    assert_true(word(&z->total_reserve) == 4144);
    /* 2 * fls(2) * (1 + fls(4 GiB / 128 MiB = 32)) = 2 * 2 * 7 = 28; 2 * 28 <= low - min: no drift
     * mark */
    assert_true(word(&z->stat_threshold) == 28);
    assert_true(word(&z->drift_mark) == 0);
    assert_int_equal(dk_a32_load_relaxed(&z->batch), 63);
    assert_int_equal(dk_a32_load_relaxed(&z->high_min), 3096 / 2);
    assert_int_equal(dk_a32_load_relaxed(&z->high_max), (1 << 20) / 8 / 2);
    assert_false(dk_a32_load_relaxed(&g.d->sb->grouping_off));
    guarded_close(&g);
}

/* DMA 4096, DMA32 1044480, Normal 3145728, Movable 1048576 frames: lowmem 4194304 frames = 16 GiB.
 * sqrt(16 * 16777216 KiB) = 16384 KiB = 4096 frames; shares 4, 1020, 3072; Movable clamp(1024, 32,
 * 128). */
static void shares_of_the_zones(void **state)
{
    struct deckle_range r[2] = {{.pfn = 0, .nr = UINT64_C(1) << 22},
                                {.pfn = UINT64_C(1) << 22, .nr = UINT64_C(1) << 20,
                                 .zone = DECKLE_ZONE(DECKLE_ZONE_MOVABLE)}};
    struct deckle_config cfg = plain_config(r, 2);
    const uint64_t min[4] = {4, 1020, 3072, 128}, gap[4] = {4, 1044, 3145, 1048};
    const uint64_t reserve[4][5] = {
        {0, 1044480 / 256, 4190208 / 256, 4190208 / 256, 5238784 / 256},
        {0, 0, 3145728 / 256, 3145728 / 256, 4194304 / 256},
        {0, 0, 0, 0, 1048576 / 32},
        {0, 0, 0, 0, 0},
    };
    struct guarded g;
    (void)state;

    if (DK_WORD_BITS == 32)
        skip();
    cfg.min_free_kbytes = 0;
    guarded_open(&g, &cfg);
    assert_int_equal(g.d->sb->nr_zones, 4);
    for (unsigned i = 0; i < 4; i++) {
        const struct dk_zone *z = &g.d->zones[i];
        assert_true(word(&z->min) == min[i]);
        assert_true(word(&z->low) == min[i] + gap[i]);
        assert_true(word(&z->high) == min[i] + 2 * gap[i]);
        for (unsigned j = 0; j < 5; j++)
            assert_true(word(&z->lowmem_reserve[j]) == reserve[i][j]);
        uint64_t total = reserve[i][4] + min[i] + 2 * gap[i];
        assert_true(word(&z->total_reserve) ==
                    (total < word(&z->managed) ? total : word(&z->managed)));
    }
    guarded_close(&g);
}

static void what_was_configured_counts(void **state)
{
    struct deckle_range r = {.pfn = UINT64_C(1) << 20, .nr = 100000};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    cfg.min_free_kbytes = 40000;
    cfg.watermark_scale_factor = 1000;
    guarded_open(&g, &cfg);
    assert_true(word(&g.d->zones[0].min) == 10000);
    assert_true(word(&g.d->zones[0].low) == 20000);
    guarded_close(&g);

    cfg.min_free_kbytes = UINT64_MAX; /* none at all */
    guarded_open(&g, &cfg);
    const struct dk_zone *z = &g.d->zones[0];
    assert_true(!word(&z->min) && !word(&z->low) && !word(&z->high) && !word(&z->promo));
    assert_true(!word(&z->total_reserve));
    assert_true(dk_a32_load_relaxed(&z->high_max) > 0);
    guarded_close(&g);
}

/* However small a pool is, its marks keep at most an eighth and a scale's gap from ordinary
 * requests. */
static void small_pools_are_not_eaten_by_their_marks(void **state)
{
    static uint8_t seen[8192];
    (void)state;

    for (uint64_t nr = 1; nr <= 8192; nr = nr < 64 ? nr + 1 : nr * 3 / 2) {
        struct deckle_range r = {.pfn = 1 << 20, .nr = nr};
        struct deckle_config cfg = plain_config(&r, 1);
        struct guarded g;

        cfg.min_free_kbytes = 0;
        guarded_open(&g, &cfg);
        uint64_t got = allocate_all(g.d, 1 << 20, seen, nr);
        if (got < nr - nr / 8 || got > nr)
            fail_msg("%llu of %llu frames could be had", (unsigned long long)got,
                     (unsigned long long)nr);
        /* Who may use all reserves gets the rest. */
        while (deckle_alloc(g.d, DECKLE_GFP_KERNEL | DECKLE_GFP_MEMALLOC, 0) >= 0)
            got++;
        assert_true(got == nr);
        assert_valid(g.d);
        guarded_close(&g);
    }
}

static void marks_follow_the_memory(void **state)
{
    struct deckle_range r[2] = {{.pfn = UINT64_C(1) << 20, .nr = 100000},
                                {.pfn = UINT64_C(1) << 21, .nr = 300000}};
    struct deckle_config cfg = plain_config(r, 2);
    struct guarded g;
    (void)state;

    cfg.min_free_kbytes = 0;
    guarded_init(&g, &cfg);
    const struct dk_zone *z = &g.d->zones[0];
    assert_true(word(&z->min) == 0 && word(&z->managed) == 0);
    assert_int_equal(deckle_add_range(g.d, &r[0]), DECKLE_OK);
    assert_int_equal(deckle_online(g.d), DECKLE_OK);
    uint64_t small = word(&z->min);
    assert_true(small > 0 && dk_pfn_load(&z->start_pfn) == r[0].pfn);
    assert_int_equal(deckle_add_range(g.d, &r[1]), DECKLE_OK);
    assert_int_equal(deckle_online(g.d), DECKLE_OK);
    assert_in_range(word(&z->min), small * 19 / 10, small * 21 / 10); /* as its root */
    assert_true(dk_pfn_load(&z->end_pfn) == r[1].pfn + r[1].nr);
    assert_int_equal(deckle_remove_range(g.d, r[0].pfn, r[0].nr), DECKLE_OK);
    assert_true(dk_pfn_load(&z->start_pfn) == r[1].pfn);
    assert_int_equal(deckle_remove_range(g.d, r[1].pfn, r[1].nr), DECKLE_OK);
    assert_true(word(&z->min) == 0 && word(&z->high) == 0 && word(&z->present) == 0);
    assert_true(dk_pfn_load(&z->end_pfn) == 0);
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 0) < 0);
    assert_valid(g.d);
    guarded_close(&g);
}

static void grouping_needs_a_pageblock_a_type(void **state)
{
    struct deckle_range r = {.pfn = 1 << 20, .nr = 6 * 512 - 1};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    assert_true(dk_a32_load_relaxed(&g.d->sb->grouping_off));
    assert_true(dk_a32_load_relaxed(&g.d->slow) & DK_SLOW_GROUPING);
    guarded_close(&g);
    r.nr++;
    guarded_open(&g, &cfg);
    assert_false(dk_a32_load_relaxed(&g.d->sb->grouping_off));
    assert_false(dk_a32_load_relaxed(&g.d->slow) & DK_SLOW_GROUPING);
    guarded_close(&g);
}

/* 64 CPUs on a zone so small that their deltas could hide a broken mark. */
static void many_cpus_on_a_small_zone(void **state)
{
    struct deckle_range r = {.pfn = 1 << 20, .nr = 20000};
    struct deckle_config cfg = plain_config(&r, 1);
    struct guarded g;
    (void)state;

    cfg.nr_cpus = 64;
    cfg.min_free_kbytes = 0;
    guarded_open(&g, &cfg);
    const struct dk_zone *z = &g.d->zones[0];
    /* 2 * fls(64) * (1 + fls(0)) = 14 */
    assert_true(word(&z->stat_threshold) == 14);
    assert_true(word(&z->drift_mark) == word(&z->high) + 64 * 14);
    guarded_close(&g);
}

/* The share of a cache is that of a CPU of the zone's node; without CPUs there, of all. */
static void caches_share_their_node(void **state)
{
    static const uint8_t cpu_nodes[4] = {0, 0, 2, 2};
    struct deckle_range r[3];
    struct deckle_config cfg = plain_config(r, 3);
    struct guarded g;
    (void)state;

    for (uint32_t i = 0; i < 3; i++)
        r[i] = (struct deckle_range){.pfn = (UINT64_C(1) << 20) + 100000 * (uint64_t)i, .nr = 80000,
                                     .node = DECKLE_NODE(i)};
    cfg.nr_nodes = 3;
    cfg.nr_cpus = 4;
    cfg.cpu_nodes = cpu_nodes;
    cfg.min_free_kbytes = 0;
    guarded_open(&g, &cfg);
    for (uint32_t i = 0; i < 3; i++) {
        const struct dk_zone *z = &g.d->zones[i];
        uint32_t cpus = i == 1 ? 4 : 2;
        uint64_t least = 4 * dk_a32_load_relaxed(&z->batch), high = word(&z->low) / cpus;
        assert_int_equal(z->node, i);
        assert_true(dk_a32_load_relaxed(&z->high_min) == (high > least ? high : least));
        assert_true(dk_a32_load_relaxed(&z->high_max) == 80000 / 8 / cpus);
    }
    guarded_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_large_zone),
        cmocka_unit_test(shares_of_the_zones),
        cmocka_unit_test(what_was_configured_counts),
        cmocka_unit_test(small_pools_are_not_eaten_by_their_marks),
        cmocka_unit_test(marks_follow_the_memory),
        cmocka_unit_test(grouping_needs_a_pageblock_a_type),
        cmocka_unit_test(many_cpus_on_a_small_zone),
        cmocka_unit_test(caches_share_their_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
