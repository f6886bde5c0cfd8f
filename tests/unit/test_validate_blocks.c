/* SPDX-License-Identifier: MIT */
/* Validation of pageblocks, frames, index and caches, and of parts of a pool. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "plants.h"

/* ---- pageblocks ------------------------------------------------------------------------------ */

static void plant_bit_set(struct deckle *d)
{
    set_bit(d, EIGHT + 100, true);
}
static void plant_used_count(struct deckle *d)
{
    change_word(d, EIGHT, DK_W_USED_MASK, 12);
}
static void plant_used_excess(struct deckle *d)
{
    change_word(d, EIGHT, DK_W_USED_MASK, 600);
}
static void plant_type(struct deckle *d)
{
    change_word(d, EIGHT, DK_W_TYPE_MASK, (dk_word)6 << DK_W_TYPE_SHIFT);
}
static void plant_run_code(struct deckle *d)
{
    change_word(d, EIGHT, DK_W_RUN_MASK, (dk_word)12 << DK_W_RUN_SHIFT);
}
static void plant_run_hidden(struct deckle *d)
{
    change_word(d, EIGHT, DK_W_RUN_MASK, (dk_word)4 << DK_W_RUN_SHIFT);
}
static void plant_run_hidden_free(struct deckle *d)
{
    change_word(d, FREE, DK_W_RUN_MASK, (dk_word)1 << DK_W_RUN_SHIFT);
}
static void plant_run_whole(struct deckle *d)
{
    change_word(d, EIGHT, DK_W_RUN_MASK, 0);
}
static void plant_owned_type(struct deckle *d)
{
    change_word(d, CMA_BLOCK, 0, DK_W_OWNED);
}
static void plant_owned_free(struct deckle *d)
{
    change_word(d, FREE, 0, DK_W_OWNED);
}
static void plant_whole_bits(struct deckle *d)
{
    set_bit(d, WHOLE + 7, true);
}
static void plant_whole_used(struct deckle *d)
{
    change_word(d, WHOLE, DK_W_USED_MASK, 511);
}
static void plant_whole_run(struct deckle *d)
{
    change_word(d, WHOLE, DK_W_RUN_MASK, 0);
}
static void plant_whole_owned(struct deckle *d)
{
    change_word(d, WHOLE, 0, DK_W_OWNED);
}
static void plant_not_offline(struct deckle *d)
{
    /* The last pageblock of a group of which a section has less. */
    uint32_t last = span_of(d, normal_zone(d))->first_block;

    dk_store_relaxed(&d->words[last], dk_load_relaxed(&d->words[last]) & ~DK_W_OFFLINE);
}
static void plant_index_class(struct deckle *d)
{
    const struct dk_span *span = span_of(d, normal_zone(d));
    uint32_t block = block_of(d, EIGHT);

    flip_leaf(d, span, dk_w_class(dk_load_relaxed(&d->words[block])), block - span->first_block);
}
static void plant_index_free(struct deckle *d)
{
    const struct dk_span *span = span_of(d, normal_zone(d));

    flip_leaf(d, span, 0, block_of(d, FREE) - span->first_block);
}
static void plant_index_root(struct deckle *d)
{
    const struct dk_span *span = span_of(d, normal_zone(d));
    uint32_t item = block_of(d, FREE) - span->first_block;
    dk_aword *root = &d->index[span->index_word];

    dk_store_relaxed(root, dk_load_relaxed(root) ^ (dk_word)1 << item / DK_FANOUT);
}
static void plant_index_group(struct deckle *d)
{
    const struct dk_span *span = span_of(d, normal_zone(d));

    flip_leaf(d, span, dk_group_class(11), (block_of(d, FREE) >> 2) - (span->first_block >> 2));
}

/* ---- frames ---------------------------------------------------------------------------------- */

static void plant_tail_state(struct deckle *d)
{
    set_state(d, EIGHT + 5, dk_state_make(0, 0, false));
}
static void plant_tail_free(struct deckle *d)
{
    set_used(d, EIGHT + 5, false);
}
static void plant_head_free(struct deckle *d)
{
    set_state(d, FREE + 3, dk_state_make(0, 0, false));
}
static void plant_head_order(struct deckle *d)
{
    set_state(d, HIGHATOMIC, dk_state_make(14, 0, false));
}
static void plant_head_misaligned(struct deckle *d)
{
    set_used(d, EIGHT + 17, true);
    set_state(d, EIGHT + 17, dk_state_make(2, 0, false));
}
static void plant_head_end(struct deckle *d)
{
    /* The last pageblock of the Movable zone becomes one of order 11 that is not all there. */
    dk_a32_store_relaxed(&section_at(d, MOVABLE_PFN)->last, (uint32_t)MOVABLE_NR - 513);
    d->ranges[2].nr -= 512;
    dk_pfn_store(&movable_zone(d)->end_pfn, MOVABLE_PFN + MOVABLE_NR - 512);
    set_state(d, MOVABLE_PFN + 0x800, dk_state_make(11, 0, false));
    for (uint64_t pfn = MOVABLE_PFN + 0x800; pfn < MOVABLE_PFN + 0xe00; pfn += 512)
        dk_store_relaxed(word_of(d, pfn), dk_w_take_whole(0, DECKLE_MOVABLE));
}
static void plant_head_type(struct deckle *d)
{
    set_state(d, SINGLE, dk_state_make(0, 3, false));
}
static void plant_state_meaningless(struct deckle *d)
{
    set_state(d, SINGLE, 0x1d);
}
static void plant_head_in_whole(struct deckle *d)
{
    set_state(d, WHOLE, dk_state_make(8, 0, false));
}
static void plant_head_divided(struct deckle *d)
{
    /* Bits instead of WHOLE below an order-9 head. */
    change_word(d, WHOLE, DK_W_WHOLE, 0);
    for (uint64_t pfn = WHOLE; pfn < WHOLE + 512; pfn++)
        set_bit(d, pfn, true);
}
static void plant_group_divided(struct deckle *d)
{
    change_word(d, GROUP + 512, DK_W_WHOLE, 0);
    for (uint64_t pfn = GROUP + 512; pfn < GROUP + 1024; pfn++)
        set_bit(d, pfn, true);
}
static void plant_hole_in_free(struct deckle *d)
{
    set_state(d, FREE + 9, DK_STATE_HOLE);
}
static void plant_reserved_free(struct deckle *d)
{
    set_used(d, RESERVED + 3, false);
}
static void plant_edge_state(struct deckle *d)
{
    /* The frame before the first one of the section. */
    dk_a8_store_relaxed(&d->state[fi_of(d, FIRST_PFN) - 1], 0);
}
static void plant_lost_block(struct deckle *d)
{
    set_state(d, EIGHT, 0);
    if (d->descriptors)
        dk_store_relaxed(&d->descriptors[fi_of(d, EIGHT)], 0);
}
static void plant_lost_group(struct deckle *d)
{
    set_state(d, GROUP, 0);
    if (d->descriptors)
        dk_store_relaxed(&d->descriptors[fi_of(d, GROUP)], 0);
}
static void plant_references(struct deckle *d)
{
    dk_store_relaxed(&d->descriptors[fi_of(d, FREE)], 1);
}
static void plant_owner(struct deckle *d)
{
    dk_a32_store_relaxed(&d->owners[fi_of(d, FREE)], 77);
}

/* ---- caches ---------------------------------------------------------------------------------- */

static void plant_cached_free(struct deckle *d)
{
    set_used(d, CACHED, false);
}
static void plant_cached_state(struct deckle *d)
{
    set_state(d, CACHED, dk_state_make(0, 0, false));
}
static void plant_cached_tail(struct deckle *d)
{
    set_state(d, SINGLE, dk_state_make(1, 0, false));
}
static void plant_cached_foreign(struct deckle *d)
{
    dk_aword *cell = cell_of(d, CACHED);

    dk_store_relaxed(cell, dk_cell_filled(dk_load_relaxed(cell), fi_of(d, MOVABLE_PFN)));
}
static void plant_cached_twice(struct deckle *d)
{
    dk_aword *cell = cell_of(d, CACHED) + 1;

    dk_store_relaxed(cell, dk_cell_filled(dk_load_relaxed(cell), fi_of(d, CACHED)));
}
static void plant_cached_lost(struct deckle *d)
{
    dk_aword *cell = cell_of(d, CACHED);

    dk_store_relaxed(cell, dk_load_relaxed(cell) & ~DK_CELL_FULL);
}
static void plant_cached_misaligned(struct deckle *d)
{
    dk_aword *cell = cell_of(d, CACHED_8);

    dk_store_relaxed(cell, dk_cell_filled(dk_load_relaxed(cell), fi_of(d, CACHED_8) + 1));
}
static void plant_cached_whole(struct deckle *d)
{
    change_word(d, CACHED, 0, DK_W_WHOLE);
}
static void plant_cached_capacity(struct deckle *d)
{
    d->slot_cap[dk_pcp_list(0, DECKLE_MOVABLE)] = 0;
}
/* One frame is lost and another one cached twice: the numbers agree. */
static void plant_cached_other(struct deckle *d)
{
    dk_aword *cell = cell_of(d, CACHED);
    dk_word filled = dk_cell_filled(dk_load_relaxed(cell), fi_of(d, SINGLE));

    set_state(d, SINGLE, 0);
    dk_store_relaxed(&d->descriptors[fi_of(d, SINGLE)], 0);
    dk_store_relaxed(cell, filled);
    dk_store_relaxed(cell + 1, filled);
}
static void plant_current_block(struct deckle *d)
{
    dk_a32_store_relaxed(&dk_set(d, normal_zone(d)->number, 1)->current_block[0][1], 0x10000);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct plant plants[] = {
    {plant_bit_set, "W counts 8 used frames, its line has 9 bits set", LOCAL, EIGHT},
    {plant_used_count, "W counts 12 used frames, its line has 8 bits set", LOCAL, EIGHT},
    {plant_used_excess, "W counts 600 used frames of 512", LOCAL, EIGHT},
    {plant_type, "W has migratetype 6, the last one is 4", LOCAL, EIGHT},
    {plant_run_code, "W has run code 12, the last one is 10", LOCAL, EIGHT},
    {plant_run_hidden, "is said to be of order 5, but one of order 8 is there", LOCAL, EIGHT},
    {plant_run_hidden_free, "is said to be of order 8, but one of order 9", LOCAL, FREE},
    {plant_run_whole, "W says a run of order 9, but 8 frames are used", LOCAL, EIGHT},
    {plant_owned_type, "blocks of type CMA have no owner", LOCAL, CMA_BLOCK},
    {plant_owned_free, "a free block has no owner", LOCAL, FREE},
    {plant_whole_bits, "allocated as a whole, but its line has 1 bits set", LOCAL, WHOLE},
    {plant_whole_used, "allocated as a whole, but W counts 511", LOCAL, WHOLE},
    {plant_whole_run, "allocated as a whole, but W says a free run of order 9", LOCAL, WHOLE},
    {plant_whole_owned, "allocated as a whole, but also owned by a CPU", LOCAL, WHOLE},
    {plant_not_offline, "pageblocks are not offline, but sections have", WHOLE_ONLY, 0},
    {plant_index_class, "the index does not show it as Movable with a run of order 8", LOCAL,
     EIGHT},
    {plant_index_free, "the index does not show it as Movable with a run of order 9", LOCAL, FREE},
    {plant_index_root, "the index does not show it", LOCAL, FREE},
    {plant_index_group, "does not show the free group of order 11", WHOLE_ONLY, 0},

    {plant_tail_state, "state byte 0x21 inside the block of order 3 at 5 frames", LOCAL, EIGHT},
    {plant_tail_free, "free, but inside the block of order 3 at 5 frames", LOCAL, EIGHT},
    {plant_head_free, "head of a block of order 0, but the frame is free", LOCAL, FREE},
    {plant_head_order, "head of a block of order 14, the largest is 11", LOCAL, HIGHATOMIC},
    {plant_head_misaligned, "head of a block of order 2, but not a multiple of 4", LOCAL, EIGHT},
    {plant_head_end, "but memory ends 1536 frames after it", LOCAL, MOVABLE_PFN + 0x800},
    {plant_head_type, "names cache type 3 of 3", LOCAL, SINGLE},
    {plant_state_meaningless, "its state byte 0x1d means nothing", LOCAL, SINGLE},
    {plant_head_in_whole, "order 8 in a pageblock that is allocated as a whole", LOCAL, WHOLE},
    {plant_head_divided, "order 9 in a pageblock that is divided", LOCAL, WHOLE},
    {plant_group_divided, "divided, but part of the block of order 11", LOCAL, GROUP + 512},
    {plant_hole_in_free, "a hole, but its bit is clear", LOCAL, FREE},
    {plant_reserved_free, "reserved, but its bit is clear", LOCAL, RESERVED},
    {plant_edge_state, "lies outside the section", LOCAL, FIRST_PFN},
    {plant_lost_block, "8 used frames are neither allocated nor reserved", LOCAL, EIGHT},
    {plant_lost_group, "512 used frames are neither allocated nor reserved", LOCAL, GROUP},
    {plant_references, "not allocated, but with 1 references", LOCAL, FREE},
    {plant_owner, "not allocated, but with the owner tag 77", LOCAL, FREE},

    {plant_cached_free, "in a cache of order 0, but not all of it is marked used", LOCAL, CACHED},
    {plant_cached_state, "in a cache of order 0, but its state byte is 0x21", LOCAL, CACHED},
    {plant_cached_tail, "in a cache of order 0, but part of an allocated block", LOCAL, CACHED},
    {plant_cached_foreign, "which is not of this zone", LOCAL, CACHED},
    {plant_cached_misaligned, "in a cache of order 3, but not a multiple of 8", LOCAL, CACHED},
    {plant_cached_whole, "in a cache of order 0, but its pageblock is allocated as a whole", LOCAL,
     CACHED},
    {plant_cached_capacity, "the cache list of order 0 and type 0 on CPU 0 holds", WHOLE_ONLY, 0},
    {plant_cached_twice, "9 used frames are neither allocated nor reserved, but the caches hold 10",
     LOCAL, CACHED},
    {plant_cached_lost, "9 used frames are neither allocated nor reserved, but the caches hold 8",
     LOCAL, CACHED},
    {plant_cached_other,
     "10 used frames are neither allocated nor reserved, but the caches hold 10, not the same",
     LOCAL, CACHED},
    {plant_current_block, "CPU 1 owns pageblock 65535 of", WHOLE_ONLY, 0},
};

static void test_plants(void **state)
{
    (void)state;
    check_plants(plants, sizeof(plants) / sizeof(plants[0]));
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Ranges without frames, cut ranges, the end of what a pfn can be. */
static void test_range_bounds(void **state)
{
    struct test_pool pool;
    char why[256];

    (void)state;
    open_pool(&pool, 0);
    plant_bit_set(pool.d); /* in the pageblock from 0x2200 to 0x2400 */
    assert_int_equal(deckle_validate_range(pool.d, 0x2200, 0, why, sizeof(why)), DECKLE_OK);
    assert_int_equal(deckle_validate_range(pool.d, 0x2000, 0x200, why, sizeof(why)), DECKLE_OK);
    assert_int_equal(deckle_validate_range(pool.d, 0x2000, 0x201, why, sizeof(why)),
                     DECKLE_ECORRUPT);
    assert_int_equal(deckle_validate_range(pool.d, 0x23ff, 1, why, sizeof(why)), DECKLE_ECORRUPT);
    assert_int_equal(deckle_validate_range(pool.d, 0x2400, UINT64_MAX, why, sizeof(why)),
                     DECKLE_OK);
    assert_int_equal(deckle_validate_range(pool.d, 0, UINT64_MAX, why, sizeof(why)),
                     DECKLE_ECORRUPT);
    assert_int_equal(deckle_validate_range(pool.d, 0, FIRST_PFN, why, sizeof(why)), DECKLE_OK);
    assert_int_equal(deckle_validate_range(pool.d, UINT64_MAX, 1, why, sizeof(why)), DECKLE_OK);
    assert_int_equal(deckle_validate_range(pool.d, 0xc000, 0x4000, why, sizeof(why)), DECKLE_OK);
    test_pool_free(&pool);
}

/* An allocated block of several pageblocks, looked at in parts; and one in a cache. */
static void test_range_inside_group(void **state)
{
    struct test_pool pool;
    char why[256] = "";

    (void)state;
    open_pool(&pool, 0);
    for (uint64_t pfn = GROUP - 512; pfn < GROUP + 2048 + 512; pfn += 512)
        for (uint64_t nr = 1; nr <= 2049; nr += 512)
            if (deckle_validate_range(pool.d, pfn, nr, why, sizeof(why)))
                fail_msg("%" PRIu64 " frames at pfn %" PRIu64 ": %s", nr, pfn, why);
    test_pool_free(&pool);
}

/* Types that change, and memory that goes with a type it was not given. */
static void test_type_changes(void **state)
{
    struct test_pool pool;
    char why[256] = "";

    (void)state;
    open_pool(&pool, 0);
    for (unsigned type = 0; type <= DECKLE_CMA; type++) {
        static const uint64_t at[] = {WHOLE, GROUP, CMA_BLOCK, FREE, ISOLATED, FIRST_PFN, EIGHT};

        for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
            assert_int_equal(
                deckle_set_pageblock_type(pool.d, at[i], (enum deckle_migratetype)type), DECKLE_OK);
        if (deckle_validate(pool.d, why, sizeof(why)))
            fail_msg("type %u: %s", type, why);
    }
    assert_int_equal(deckle_free(pool.d, CMA_BLOCK, 0), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(pool.d, CMA_PFN, DECKLE_UNMOVABLE), DECKLE_OK);
    assert_int_equal(deckle_remove_range(pool.d, CMA_PFN, 0x400), DECKLE_OK);
    if (deckle_validate(pool.d, why, sizeof(why)))
        fail_msg("after removal: %s", why);
    test_pool_free(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plants),
        cmocka_unit_test(test_range_bounds),
        cmocka_unit_test(test_range_inside_group),
        cmocka_unit_test(test_type_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
