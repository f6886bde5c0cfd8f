/* SPDX-License-Identifier: MIT */
/* Validation of superblock, tables and counters, and its arguments. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "plants.h"

/* ---- superblock and handle ------------------------------------------------------------------- */

static void plant_magic(struct deckle *d)
{
    d->sb->magic ^= 1;
}
static void plant_version(struct deckle *d)
{
    d->sb->version = DK_META_VERSION + 1;
}
static void plant_page_shift(struct deckle *d)
{
    d->sb->page_shift = 9;
}
static void plant_max_order(struct deckle *d)
{
    d->sb->max_order = 12;
}
static void plant_nr_cpus(struct deckle *d)
{
    d->sb->nr_cpus = 1;
}
static void plant_nr_ranges(struct deckle *d)
{
    d->sb->nr_ranges = d->sb->max_ranges + 1;
}
static void plant_next_block(struct deckle *d)
{
    d->sb->next_block = d->sb->max_blocks + 1;
}
static void plant_array_outside(struct deckle *d)
{
    d->sb->at.state = d->sb->total_bytes - 64;
}
static void plant_array_overlap(struct deckle *d)
{
    d->sb->at.lines = d->sb->at.words;
}
static void plant_array_shift(struct deckle *d)
{
    d->sb->at.index += 64;
}
static void plant_handle_pointer(struct deckle *d)
{
    d->spans++;
}
static void plant_features(struct deckle *d)
{
    d->sb->features ^= DECKLE_FEATURE_OWNER_TAGS;
}
static void plant_set_bytes(struct deckle *d)
{
    d->set_bytes = 64;
}

/* ---- tables --------------------------------------------------------------------------------- */

static void plant_zone_number(struct deckle *d)
{
    movable_zone(d)->number = 0;
}
static void plant_zone_place(struct deckle *d)
{
    d->sb->zone_of[0][DECKLE_ZONE_MOVABLE] = 1;
}
static void plant_zone_extra(struct deckle *d)
{
    d->sb->zone_of[3][0] = 1;
}
static void plant_cpu_node(struct deckle *d)
{
    ((uint8_t *)(uintptr_t)d->cpu_nodes)[1] = 9;
}
static void plant_span_group(struct deckle *d)
{
    span_of(d, normal_zone(d))->nr_blocks--;
}
static void plant_span_number(struct deckle *d)
{
    span_of(d, normal_zone(d))->zone = 99;
}
static void plant_span_levels(struct deckle *d)
{
    span_of(d, normal_zone(d))->shape[0].levels = 0;
}
static void plant_span_overlap(struct deckle *d)
{
    d->spans[1].first_block = 0;
}
static void plant_span_tree(struct deckle *d)
{
    span_of(d, normal_zone(d))->tree_word[5] = 0;
}
static void plant_span_index(struct deckle *d)
{
    span_of(d, normal_zone(d))->index_words += 4096;
}
static void plant_span_loop(struct deckle *d)
{
    struct dk_zone *z = normal_zone(d);

    dk_a32_store_relaxed(&span_of(d, z)->next_in_zone, dk_a32_load_relaxed(&z->first_span));
}
static void plant_span_zone(struct deckle *d)
{
    dk_a32_store_relaxed(&normal_zone(d)->first_span,
                         dk_a32_load_relaxed(&movable_zone(d)->first_span));
}
static void plant_span_lost(struct deckle *d)
{
    dk_a32_store_relaxed(&movable_zone(d)->first_span, 0);
}
static void plant_section_pfn(struct deckle *d)
{
    struct dk_section *s = section_at(d, MOVABLE_PFN);

    dk_pfn_store(&s->pfn, MOVABLE_PFN + 1);
}
static void plant_section_long(struct deckle *d)
{
    dk_a32_store_relaxed(&section_at(d, MOVABLE_PFN)->last, 0x20000);
}
static void plant_section_zone(struct deckle *d)
{
    dk_a32_store_relaxed(&section_at(d, MOVABLE_PFN)->zone, normal_zone(d)->number);
}
static void plant_section_overlap(struct deckle *d)
{
    dk_pfn_store(&section_at(d, MOVABLE_PFN)->pfn, 0x800);
}
static void plant_section_span(struct deckle *d)
{
    dk_a32_store_relaxed(&section_at(d, MOVABLE_PFN)->span, 77);
}
/* The Movable section becomes one in the other zone, behind its end but in the same group. */
static void plant_section_group(struct deckle *d)
{
    struct dk_section *s = section_at(d, MOVABLE_PFN);
    uint32_t fi = fi_of(d, CMA_PFN) + 0x400;

    dk_a32_store_relaxed(&s->span, 0);
    dk_a32_store_relaxed(&s->zone, normal_zone(d)->number);
    dk_a32_store_relaxed(&s->last, 511);
    dk_a32_store_relaxed(&s->first_fi, fi);
    dk_pfn_store(&s->pfn, MOVABLE_PFN + 0x400);
    dk_pfn_store(&d->by_pfn[1].key, MOVABLE_PFN + 0x400);
    dk_pfn_store(&d->by_fi[1].key, fi);
}
static void plant_section_key(struct deckle *d)
{
    dk_a32_store_relaxed(&d->by_pfn[1].slot, d->sb->max_sections);
}
static void plant_section_by_fi(struct deckle *d)
{
    dk_a32_store_relaxed(&d->by_fi[1].slot, dk_a32_load_relaxed(&d->by_fi[0].slot));
}
static void plant_section_epoch(struct deckle *d)
{
    dk_a32_add_relaxed(&d->sb->section_epoch, 1);
}
static void plant_main(struct deckle *d)
{
    d->main_pfn += 2048;
}
static void plant_range_overlap(struct deckle *d)
{
    d->ranges[1].pfn -= 512;
}
static void plant_range_zone(struct deckle *d)
{
    d->ranges[2].zone = normal_zone(d)->number;
}
static void plant_range_number(struct deckle *d)
{
    d->ranges[2].zone = 9;
}
static void plant_reservation(struct deckle *d)
{
    d->reservations[1].pfn = RESERVED + 16; /* touches the first: they should be one */
}

static struct dk_zonelist *zonelist(struct deckle *d)
{
    return (struct dk_zonelist *)(uintptr_t)dk_zonelist(d, 0, DK_ZONELIST_FALLBACK);
}
static void plant_zonelist_short(struct deckle *d)
{
    dk_a32_store_relaxed(&zonelist(d)->nr, 1);
}
static void plant_zonelist_number(struct deckle *d)
{
    dk_a32_store_relaxed(&zonelist(d)->zone[0], 7);
}
static void plant_zonelist_twice(struct deckle *d)
{
    dk_a32_store_relaxed(&zonelist(d)->zone[0], dk_a32_load_relaxed(&zonelist(d)->zone[1]));
}

/* ---- counters -------------------------------------------------------------------------------- */

static void plant_free(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->counts[0].of[DK_COUNT_FREE], 1);
}
static void plant_free_delta(struct deckle *d)
{
    dk_add_relaxed(&dk_set(d, normal_zone(d)->number, 1)->free_delta, (dk_word)-3);
}
static void plant_free_cma(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->counts[0].of[DK_COUNT_FREE_CMA], (dk_word)-1);
}
static void plant_free_highatomic(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->counts[0].of[DK_COUNT_FREE_HIGHATOMIC], 1);
}
static void plant_free_isolated(struct deckle *d)
{
    dk_store_relaxed(&movable_zone(d)->counts[0].of[DK_COUNT_FREE_ISOLATED], 0);
}
static void plant_highatomic(struct deckle *d)
{
    dk_store_relaxed(&normal_zone(d)->counts[0].of[DK_COUNT_HIGHATOMIC], 1024);
}
static void plant_cma(struct deckle *d)
{
    dk_store_relaxed(&normal_zone(d)->counts[0].of[DK_COUNT_CMA], 512);
}
static void plant_present(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->present, 1);
}
static void plant_reserved(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->reserved, 1);
}
static void plant_managed(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->managed, 1);
}
static void plant_start_pfn(struct deckle *d)
{
    dk_pfn_store(&normal_zone(d)->start_pfn, FIRST_PFN + 1);
}
static void plant_allocs(struct deckle *d)
{
    dk_counter_add(&dk_set(d, normal_zone(d)->number, 0)->direct_allocs[4], 1);
}
static void plant_frees(struct deckle *d)
{
    dk_counter_add(&dk_set(d, normal_zone(d)->number, 1)->direct_frees[0], 1);
}
static void plant_refilled(struct deckle *d)
{
    dk_counter_add(&dk_set(d, normal_zone(d)->number, 1)->refill_frames, 2);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct plant plants[] = {
    {plant_magic, "the superblock begins with", ALWAYS, 0},
    {plant_version, "version is 3, not in 2 ... 2", ALWAYS, 0},
    {plant_page_shift, "page_shift is 9, not in 10 ... 30", ALWAYS, 0},
    {plant_max_order, "nr_trees is", ALWAYS, 0},
    {plant_nr_cpus, "the handle knows 2 CPUs", ALWAYS, 0},
    {plant_nr_ranges, "nr_ranges is", ALWAYS, 0},
    {plant_next_block, "next_block is", ALWAYS, 0},
    {plant_array_outside, "the array of state bytes", ALWAYS, 0},
    {plant_array_overlap, "the array of lines", ALWAYS, 0},
    {plant_array_shift, "does not point to the array of index words", ALWAYS, 0},
    {plant_handle_pointer, "does not point to the array of spans", ALWAYS, 0},
    {plant_features, "owner tags, the handle does not", ALWAYS, 0},
    {plant_set_bytes, "a cache set has 64 bytes in the handle", ALWAYS, 0},

    {plant_zone_number, "has number 0", WHOLE_ONLY, 0},
    {plant_zone_place, "its place is taken by zone 0", WHOLE_ONLY, 0},
    {plant_zone_extra, "3 zones are named, 2 exist", WHOLE_ONLY, 0},
    {plant_cpu_node, "CPU 1 is on node 9 of 1", WHOLE_ONLY, 0},
    {plant_span_group, "not whole groups of 4", LOCAL, EIGHT},
    {plant_span_number, "span 0 belongs to zone 99 of 2", LOCAL, EIGHT},
    {plant_span_levels, "span 0 has an index of 0 levels", LOCAL, EIGHT},
    {plant_span_overlap, "span 1 has", WHOLE_ONLY, 0},
    {plant_span_tree, "has tree 5 at index word 0", LOCAL, EIGHT},
    {plant_span_index, "index words at", LOCAL, EIGHT},
    {plant_span_loop, "its list of spans does not end", WHOLE_ONLY, 0},
    {plant_span_zone, "its list has span 1 of zone 1", WHOLE_ONLY, 0},
    {plant_span_lost, "1 spans are in the lists of zones, 2 exist", WHOLE_ONLY, 0},
    {plant_section_pfn, "differs modulo 2048", LOCAL, MOVABLE_PFN + 1},
    {plant_section_long, "outside the pageblocks of its span", LOCAL, MOVABLE_PFN},
    {plant_section_zone, "says zone 0 and span 1", LOCAL, MOVABLE_PFN},
    {plant_section_overlap, "is not between pfn", WHOLE_ONLY, 0},
    {plant_section_span, "the section at pfn 65536 says", LOCAL, MOVABLE_PFN},
    {plant_section_group, "shares a group of 2048 frames", LOCAL, MOVABLE_PFN + 0x400},
    {plant_section_key, "entry 1 of 2 sections leads to none", WHOLE_ONLY, 0},
    {plant_section_by_fi, "is not found by its frames", LOCAL, MOVABLE_PFN},
    {plant_section_epoch, "the section table is being changed", WHOLE_ONLY, 0},
    {plant_main, "which no section holds", WHOLE_ONLY, 0},
    {plant_range_overlap, "range 1 has 1024 frames at pfn", WHOLE_ONLY, 0},
    {plant_range_zone, "is online but in no section of it", WHOLE_ONLY, 0},
    {plant_range_number, "range 2 is in zone 9 of 2", WHOLE_ONLY, 0},
    {plant_reservation, "reservation 1 has 1 frames", WHOLE_ONLY, 0},
    {plant_zonelist_short, "a zonelist of node 0 has 1 zones, 2 have memory", WHOLE_ONLY, 0},
    {plant_zonelist_number, "a zonelist of node 0 names zone 7 of 2", WHOLE_ONLY, 0},
    {plant_zonelist_twice, "a zonelist of node 0 names zone 0 twice", WHOLE_ONLY, 0},

    {plant_free, "the counter of free frames (with the CPUs' shares)", WHOLE_ONLY, 0},
    {plant_free_delta, "the counter of free frames (with the CPUs' shares)", WHOLE_ONLY, 0},
    {plant_free_cma, "the counter of free CMA frames says 1022, counted 1023", WHOLE_ONLY, 0},
    {plant_free_highatomic, "HighAtomic frames says 512, counted 511", WHOLE_ONLY, 0},
    {plant_free_isolated, "isolated frames says 0, counted 496", WHOLE_ONLY, 0},
    {plant_highatomic, "in HighAtomic pageblocks says 1024, counted 512", WHOLE_ONLY, 0},
    {plant_cma, "in CMA pageblocks says 512, counted 1024", WHOLE_ONLY, 0},
    {plant_present, "the counter of present frames", WHOLE_ONLY, 0},
    {plant_reserved, "the counter of reserved frames says 18, counted 17", WHOLE_ONLY, 0},
    {plant_managed, "the counter of managed frames", WHOLE_ONLY, 0},
    {plant_start_pfn, "it says pfn 1028 to", WHOLE_ONLY, 0},
    {plant_allocs, "frames were given out and", WHOLE_ONLY, 0},
    {plant_frees, "frames were given out and", WHOLE_ONLY, 0},
    {plant_refilled, "left the shared level and", WHOLE_ONLY, 0},
};

static void test_plants(void **state)
{
    (void)state;
    check_plants(plants, sizeof(plants) / sizeof(plants[0]));
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void test_buffer(void **state)
{
    struct test_pool pool;
    char why[300], piece[300];

    (void)state;
    open_pool(&pool, 0);
    memset(why, '#', sizeof(why));
    assert_int_equal(deckle_validate(pool.d, why, sizeof(why)), DECKLE_OK);
    assert_string_equal(why, "");
    set_bit(pool.d, EIGHT + 100, true);
    assert_int_equal(deckle_validate(pool.d, why, sizeof(why)), DECKLE_ECORRUPT);
    assert_non_null(strstr(why, "at pfn 8704 (node 0, zone Normal)"));
    for (size_t size = 1; size <= strlen(why) + 2; size++) {
        memset(piece, '#', sizeof(piece));
        assert_int_equal(deckle_validate(pool.d, piece, size), DECKLE_ECORRUPT);
        assert_int_equal(strlen(piece), size - 1 < strlen(why) ? size - 1 : strlen(why));
        assert_memory_equal(piece, why, strlen(piece));
        assert_int_equal(piece[size], '#');
    }
    assert_int_equal(deckle_validate(pool.d, NULL, 99), DECKLE_ECORRUPT);
    assert_int_equal(deckle_validate(pool.d, why, 0), DECKLE_ECORRUPT);
    assert_int_equal(deckle_validate(NULL, why, sizeof(why)), DECKLE_EINVAL);
    assert_int_equal(deckle_validate_range(NULL, 0, 1, why, sizeof(why)), DECKLE_EINVAL);
    test_pool_free(&pool);
}

/* Before memory is online, and after it was all given back, there is nothing to complain about. */
static void test_empty_pools(void **state)
{
    struct deckle_config cfg = {
        .size = sizeof(cfg), .nr_cpus = 1, .ranges = ranges, .nr_ranges = 3, .max_order = 9};
    struct test_pool pool;
    char why[256] = "";

    (void)state;
    test_pool_init(&pool, &cfg);
    assert_int_equal(deckle_validate(pool.d, why, sizeof(why)), DECKLE_OK);
    assert_int_equal(deckle_add_range(pool.d, &ranges[2]), DECKLE_OK);
    assert_int_equal(deckle_validate(pool.d, why, sizeof(why)), DECKLE_OK);
    assert_int_equal(deckle_online(pool.d), DECKLE_OK);
    if (deckle_validate(pool.d, why, sizeof(why)))
        fail_msg("%s", why);
    assert_int_equal(deckle_remove_range(pool.d, ranges[2].pfn, ranges[2].nr), DECKLE_OK);
    if (deckle_validate(pool.d, why, sizeof(why)))
        fail_msg("after removal: %s", why);
    test_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plants),
        cmocka_unit_test(test_buffer),
        cmocka_unit_test(test_empty_pools),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
