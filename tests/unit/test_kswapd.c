/* SPDX-License-Identifier: MIT */
/*
 * Background reclaim and tunables on a scripted machine: who is woken when, what a step does, when
 * it ends, boosts and their end, defrag_mode; each tunable by its name, its bounds and its effect.
 */
#include "machine.h"

#define MIN_KBYTES 1600u /* min 400, low 500, high 600 frames */
#define PLAIN      (DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY)

static void open_at(struct machine *m, uint64_t cache, uint64_t free)
{
    machine_open(m, 8192, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    machine_fill_cache(m, cache);
    while (hazard_zone(&m->h, 0).free > free)
        assert_true(machine_alloc(m, DECKLE_GFP_ATOMIC, 0) >= 0);
    machine_start(m);
}

static unsigned steps(struct machine *m)
{
    unsigned n = 0;
    while (deckle_reclaim_step(m->d, 0, NULL) > 0)
        assert_true(++n < 1000);
    return n;
}

/* Above low nobody is woken; below it once, until the step says that it is done, at high. */
static void woken_below_low_until_high(void **state)
{
    struct machine m;
    (void)state;
    open_at(&m, 3000, 520);
    for (unsigned i = 0; i < 10; i++)
        machine_alloc(&m, DECKLE_GFP_KERNEL, 0);
    assert_string_equal(m.log, "");
    for (unsigned i = 0; i < 40; i++)
        machine_alloc(&m, DECKLE_GFP_KERNEL, 0);
    assert_string_equal(m.log, "w");
    assert_int_equal(m.wakes, 1);
    steps(&m);
    assert_true(hazard_zone(&m.h, 0).free > 600 && hazard_zone(&m.h, 0).free < 600 + 1024);
    assert_int_equal(machine_event(&m, "pageoutrun"), 1);
    assert_true(machine_event(&m, "pgsteal_kswapd") > 100);
    assert_int_equal(machine_event(&m, "allocstall"), 0);
    assert_int_equal(deckle_reclaim_step(m.d, 7, NULL), DECKLE_ENODEV);
    /* Again below low: again one wake. */
    machine_exhaust(&m, PLAIN & ~DECKLE_GFP_DIRECT_RECLAIM);
    assert_int_equal(m.wakes, 2);
    machine_close(&m);
}

/* A step frees a bounded number of frames. */
static void a_step_is_bounded(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 65536, 65536, DECKLE_FEATURE_NO_CACHES); /* min 16384 frames */
    machine_fill_cache(&m, 30000);
    machine_exhaust(&m, PLAIN);
    machine_start(&m);
    machine_alloc(&m, DECKLE_GFP_NOWAIT, 0);
    uint64_t before = hazard_zone(&m.h, 0).free;
    assert_int_equal(deckle_reclaim_step(m.d, 0, NULL), 1);
    assert_in_range(hazard_zone(&m.h, 0).free - before, 1, 1024 + 128);
    assert_true(steps(&m) > 4);
    assert_true(hazard_zone(&m.h, 0).free > hazard_zone(&m.h, 0).high);
    machine_close(&m);
}

/* Nothing can be reclaimed: it gives up, is not woken any more, and hopes again when a direct
 * reclaim succeeds. */
static void a_hopeless_node(void **state)
{
    struct machine m;
    (void)state;
    open_at(&m, 0, 420);
    assert_true(machine_alloc(&m, DECKLE_GFP_NOWAIT, 0) >= 0);
    assert_int_equal(m.wakes, 1);
    steps(&m);
    assert_int_equal(machine_event(&m, "deckle_kswapd_hopeless"), 1);
    machine_alloc(&m, DECKLE_GFP_NOWAIT, 0);
    assert_int_equal(m.wakes, 1);
    for (uint64_t i = 0; i < 64; i++)
        machine_cache(&m, MACHINE_BASE + i);
    while (machine_alloc(&m, DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY, 0) >= 0 && !m.scans)
        continue;
    machine_alloc(&m, DECKLE_GFP_NOWAIT, 0);
    assert_int_equal(m.wakes, 2);
    machine_close(&m);
}

/* Enough single frames, no large run: not more reclaim than a compaction needs, then that. */
static void large_orders_are_left_to_compaction(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 8192, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    for (uint64_t i = 0; i < m.nr; i++)
        assert_true(machine_alloc(&m, GFP_M | DECKLE_GFP_MEMALLOC, 0) >= 0);
    for (uint64_t i = 0; i < m.nr; i++) {
        if (i % 2)
            machine_free(&m, MACHINE_BASE + i);
        else if (i % 8 == 0)
            machine_cache(&m, MACHINE_BASE + i);
    }
    machine_start(&m);
    assert_int_equal(machine_alloc(&m, DECKLE_GFP_ATOMIC, 4), DECKLE_EFRAGMENTED);
    assert_string_equal(m.log, "wf");
    steps(&m);
    assert_string_equal(m.log, "wfsk");
    assert_true(machine_event(&m, "pgsteal_kswapd") < 200);
    while (deckle_compact_step(m.d, 0, NULL) > 0)
        continue;
    int64_t pfn = machine_alloc(&m, DECKLE_GFP_ATOMIC, 4);
    assert_true(pfn >= 0);
    machine_close(&m);
}

/* A fallback raises the marks; background reclaim frees that much, ends it, and compacts. */
static void a_boost_and_its_end(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 8192, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    machine_fill_cache(&m, 3000);
    while (machine_alloc(&m, GFP_M & ~DECKLE_GFP_DIRECT_RECLAIM, 0) >= 0)
        continue;
    /* Room for claims of partly used Movable pageblocks, none of it a whole one. */
    for (uint64_t i = 3072; i < 8192; i++)
        if (i % 512 < 400 && m.stamp[i])
            machine_free(&m, MACHINE_BASE + i);
    assert_int_equal(hazard_zone(&m.h, 0).boost, 0);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 0) >= 0); /* no background reclaim yet */
    assert_int_equal(hazard_zone(&m.h, 0).boost, 0);
    machine_start(&m);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE, 0) >= 0);
    assert_int_equal(hazard_zone(&m.h, 0).boost, 512);
    assert_string_equal(m.log, "w");
    steps(&m);
    assert_int_equal(hazard_zone(&m.h, 0).boost, 0);
    assert_true(machine_event(&m, "pgsteal_kswapd") >= 512);
    assert_string_equal(m.log, "wsk");
    /* Switched off, and without background reclaim, marks stay. */
    static const uint64_t off = 0;
    assert_int_equal(deckle_tunable_set(m.d, "watermark_boost_factor", &off, 1), DECKLE_OK);
    while (machine_alloc(&m, DECKLE_GFP_KERNEL & ~DECKLE_GFP_DIRECT_RECLAIM, 0) >= 0)
        assert_int_equal(hazard_zone(&m.h, 0).boost, 0);
    machine_close(&m);
}

/* defrag_mode: rather reclaim than put an unmovable frame into a Movable pageblock. */
static void defrag_mode_keeps_types_apart(void **state)
{
    (void)state;
    for (uint64_t mode = 0; mode < 2; mode++) {
        struct machine m;
        machine_open(&m, 8192, 0, DECKLE_FEATURE_NO_CACHES);
        assert_int_equal(deckle_tunable_set(m.d, "defrag_mode", &mode, 1), DECKLE_OK);
        for (uint64_t i = 0; i < m.nr; i++)
            assert_true(machine_alloc(&m, GFP_M, 0) >= 0);
        for (uint64_t i = 0; i < m.nr; i += 2)
            machine_free(&m, MACHINE_BASE + i);
        for (uint64_t i = 0; i < 512; i++) /* a whole pageblock can be reclaimed */
            if (m.stamp[i])
                machine_cache(&m, MACHINE_BASE + i);
        machine_start(&m);
        int64_t pfn = machine_alloc(&m, DECKLE_GFP_KERNEL, 0);
        assert_true(pfn >= 0);
        assert_int_equal(m.scans > 0, mode);
        assert_int_equal(machine_event(&m, "deckle_kswapd_wake"), mode);
        /* Nobody fails for it. */
        for (unsigned i = 0; i < 1000; i++)
            assert_true(machine_alloc(&m, DECKLE_GFP_ATOMIC, 0) >= 0);
        machine_close(&m);
    }
}

/* ---- tunables -------------------------------------------------------------------------------- */

static uint64_t tunable(struct machine *m, const char *name)
{
    uint64_t v[DECKLE_TUNABLE_MAX_VALUES];
    int n = deckle_tunable_get(m->d, name, v, DECKLE_TUNABLE_MAX_VALUES);
    if (n < 1)
        fail_msg("%s: %s", name, deckle_error_name(n));
    return v[0];
}

/* Every tunable reads as its initial value, takes its bounds, refuses what lies outside. */
static void tunables_have_names_and_bounds(void **state)
{
    struct machine m;
    struct deckle_tunable t = {.size = sizeof(t)};
    uint32_t n = 0;
    (void)state;
    machine_open(&m, 8192, 0, 0);
    for (; deckle_tunable_info(n, &t) == DECKLE_OK; n++) {
        uint64_t v[DECKLE_TUNABLE_MAX_VALUES] = {0}, w[DECKLE_TUNABLE_MAX_VALUES];
        assert_true(t.name && t.unit && t.what && t.nr_values <= DECKLE_TUNABLE_MAX_VALUES);
        if (t.flags & DECKLE_TUNABLE_WRITE_ONLY) {
            assert_int_equal(deckle_tunable_get(m.d, t.name, v, 5), DECKLE_ENOTSUP);
            continue;
        }
        assert_int_equal(deckle_tunable_get(m.d, t.name, v, 5), t.nr_values);
        assert_memory_equal(v, t.initial, t.nr_values * sizeof(v[0]));
        assert_int_equal(deckle_tunable_set(m.d, t.name, v, t.nr_values + 1), DECKLE_EINVAL);
        for (uint32_t i = 0; i < t.nr_values && t.max < UINT32_MAX; i++) {
            memcpy(w, v, sizeof(w));
            w[i] = t.max + 1;
            assert_int_equal(deckle_tunable_set(m.d, t.name, w, t.nr_values), DECKLE_EINVAL);
            w[i] = t.min - 1; /* 0 - 1 wraps: too large as well */
            assert_int_equal(deckle_tunable_set(m.d, t.name, w, t.nr_values), DECKLE_EINVAL);
            w[i] = t.max;
            assert_int_equal(deckle_tunable_set(m.d, t.name, w, t.nr_values), DECKLE_OK);
            assert_int_equal(deckle_tunable_get(m.d, t.name, w, 5), t.nr_values);
            assert_true(w[i] == t.max);
        }
        assert_int_equal(deckle_tunable_set(m.d, t.name, v, t.nr_values), DECKLE_OK);
    }
    assert_int_equal(n, 13);
    assert_int_equal(deckle_tunable_info(n, &t), DECKLE_ENOENT);
    assert_int_equal(deckle_tunable_get(m.d, "swappiness", NULL, 0), DECKLE_ENOENT);
    static const uint64_t one = 1, seven = 7, eight = 8;
    assert_int_equal(deckle_tunable_set(m.d, "swappiness", &one, 1), DECKLE_ENOENT);
    assert_int_equal(deckle_tunable_set(m.d, "percpu_pagelist_high_fraction", &seven, 1),
                     DECKLE_EINVAL);
    assert_int_equal(deckle_tunable_set(m.d, "percpu_pagelist_high_fraction", &eight, 1),
                     DECKLE_OK);
    assert_int_equal(deckle_tunable_set(m.d, "compact_memory", &one, 1), DECKLE_ENOTSUP);
    machine_close(&m);
}

/* Marks, reserves and caches follow at once. */
static void tunables_have_effect(void **state)
{
    struct machine m;
    uint64_t v, ratios[5] = {256, 256, 32, 0, 0};
    (void)state;
    machine_open(&m, 65536, MIN_KBYTES * 8, 0);
    assert_int_equal(hazard_zone(&m.h, 0).min, 3200);
    assert_true(tunable(&m, "min_free_kbytes") == 12800);
    v = 16384;
    assert_int_equal(deckle_tunable_set(m.d, "min_free_kbytes", &v, 1), DECKLE_OK);
    assert_int_equal(hazard_zone(&m.h, 0).min, 4096);
    v = 1000;
    assert_int_equal(deckle_tunable_set(m.d, "watermark_scale_factor", &v, 1), DECKLE_OK);
    assert_int_equal(hazard_zone(&m.h, 0).low, 4096 + 6553);
    machine_fill_cache(&m, 2000);
    machine_start(&m);
    v = 2;
    m.shrinker.flags = 0;
    assert_int_equal(deckle_tunable_set(m.d, "drop_caches", &v, 1), DECKLE_OK);
    assert_int_equal(m.scans, 0); /* only slab caches */
    v = 1;
    assert_int_equal(deckle_tunable_set(m.d, "drop_caches", &v, 1), DECKLE_OK);
    assert_true(m.cache_at == m.nr_cache);
    assert_int_equal(deckle_tunable_set(m.d, "compact_memory", &v, 1), DECKLE_OK);
    assert_int_equal(deckle_tunable_set(m.d, "lowmem_reserve_ratio", ratios, 5), DECKLE_OK);
    machine_close(&m);
}

/* Lower zones keep a share from those that could do with higher ones. */
static void lowmem_reserve_ratio_by_zone(void **state)
{
    static const struct deckle_range ranges[2] = {
        {.pfn = MACHINE_BASE, .nr = 4096, .zone = DECKLE_ZONE(DECKLE_ZONE_DMA32)},
        {.pfn = MACHINE_BASE + 4096, .nr = 40960, .zone = DECKLE_ZONE(DECKLE_ZONE_NORMAL)}};
    struct deckle_config cfg = hazard_config(ranges, 2);
    struct machine m;
    uint64_t ratios[5] = {256, 16, 32, 0, 0};
    (void)state;
    cfg.dma32_limit_pfn = MACHINE_BASE + 4096;
    cfg.min_free_kbytes = MIN_KBYTES;
    machine_open_with(&m, &cfg);
    assert_int_equal(hazard_zone(&m.h, 0).lowmem_reserve[DECKLE_ZONE_NORMAL], 160);
    assert_int_equal(deckle_tunable_set(m.d, "lowmem_reserve_ratio", ratios, 5), DECKLE_OK);
    assert_int_equal(hazard_zone(&m.h, 0).lowmem_reserve[DECKLE_ZONE_NORMAL], 2560);
    ratios[1] = 0;
    assert_int_equal(deckle_tunable_set(m.d, "lowmem_reserve_ratio", ratios, 5), DECKLE_OK);
    assert_int_equal(hazard_zone(&m.h, 0).lowmem_reserve[DECKLE_ZONE_NORMAL], 0);
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(woken_below_low_until_high),
        cmocka_unit_test(a_step_is_bounded),
        cmocka_unit_test(a_hopeless_node),
        cmocka_unit_test(large_orders_are_left_to_compaction),
        cmocka_unit_test(a_boost_and_its_end),
        cmocka_unit_test(defrag_mode_keeps_types_apart),
        cmocka_unit_test(tunables_have_names_and_bounds),
        cmocka_unit_test(tunables_have_effect),
        cmocka_unit_test(lowmem_reserve_ratio_by_zone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
