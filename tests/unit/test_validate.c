/* SPDX-License-Identifier: MIT */
/*
 * Validation finds what is wrong: a pool with one of everything, and a table of contradictions that
 * are planted in its metadata by hand, each undone before the next. For each the sentence must name
 * it. What is wrong with a pageblock must be found by looking at that pageblock alone, and not by
 * looking elsewhere; what is wrong with counters not at all by looking at pageblocks.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/blockinfo.h"
#include "core/check.h"
#include "core/index.h"
#include "core/pcp.h"
#include "core/stats.h"
#include "core/validate.h"
#include "core/walk.h"
#include "core/zonelist.h"
#include "pool.h"
#include "testing.h"

/* ---- the pool ------------------------------------------------------------------------------- */

#define FIRST_PFN   UINT64_C(0x403)
#define CMA_PFN     UINT64_C(0xb000)
#define MOVABLE_PFN UINT64_C(0x10000)
#define MOVABLE_NR  UINT64_C(0x1000)

/* Blocks with a role in what is planted. */
#define SINGLE     UINT64_C(0x2400) /* order 0 */
#define CACHED     UINT64_C(0x2401) /* order 0, in a cache */
#define CACHED_8   UINT64_C(0x2410) /* order 3, in a cache */
#define EIGHT      UINT64_C(0x2208) /* order 3, alone in its pageblock */
#define WHOLE      UINT64_C(0x1000) /* order 9 */
#define GROUP      UINT64_C(0x1800) /* order 11 */
#define RESERVED   UINT64_C(0x5010) /* 16 frames */
#define HIGHATOMIC UINT64_C(0x4001) /* order 0 in a HighAtomic pageblock */
#define CMA_BLOCK  UINT64_C(0xb040) /* order 0 in a CMA pageblock */
#define FREE       UINT64_C(0x7a00) /* a free pageblock */
#define ISOLATED   UINT64_C(0x10200)

static const struct deckle_range ranges[] = {
    {.pfn = FIRST_PFN, .nr = CMA_PFN - FIRST_PFN},
    {.pfn = CMA_PFN, .nr = 0x400, .flags = DECKLE_RANGE_CMA},
    {.pfn = MOVABLE_PFN, .nr = MOVABLE_NR, .zone = DECKLE_ZONE(DECKLE_ZONE_MOVABLE)},
};

static void alloc_at(struct test_pool *pool, uint64_t pfn, uint32_t order)
{
    assert_int_equal(deckle_alloc_at(pool->d, DECKLE_GFP_HIGHUSER_MOVABLE, pfn, order), DECKLE_OK);
}

static void open_pool(struct test_pool *pool, uint32_t features)
{
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = DECKLE_FEATURE_CELLS | features,
                                .nr_cpus = 2,
                                .max_order = 11,
                                .page_shift = test_page_shift(),
                                .ranges = ranges,
                                .nr_ranges = 3,
                                .grow_pages = 4096,
                                .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = UINT64_MAX,
                                .min_free_kbytes = UINT64_MAX};
    struct deckle *d;

    test_pool_init(pool, &cfg);
    d = pool->d;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(deckle_add_range(d, &ranges[i]), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(d, RESERVED, 16), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(d, RESERVED + 100, 1), DECKLE_OK);
    assert_int_equal(deckle_online(d), DECKLE_OK);
    alloc_at(pool, SINGLE, 0);
    alloc_at(pool, CACHED, 0);
    alloc_at(pool, CACHED_8, 3);
    alloc_at(pool, EIGHT, 3);
    alloc_at(pool, WHOLE, 9);
    alloc_at(pool, GROUP, 11);
    alloc_at(pool, HIGHATOMIC, 0);
    alloc_at(pool, CMA_BLOCK, 0);
    alloc_at(pool, ISOLATED + 0x10, 4);
    for (unsigned i = 0; i < 200; i++) {
        pool->cpu = i % 2;
        assert_true(deckle_alloc(d, DECKLE_GFP_KERNEL, i % 5) >= 0);
    }
    assert_int_equal(deckle_set_pageblock_type(d, HIGHATOMIC, DECKLE_HIGHATOMIC), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(d, ISOLATED, DECKLE_ISOLATE), DECKLE_OK);
    pool->cpu = 0;
    assert_int_equal(deckle_free(d, CACHED, 0), DECKLE_OK);
    assert_int_equal(deckle_free(d, CACHED_8, 3), DECKLE_OK);
}

static uint32_t fi_of(const struct deckle *d, uint64_t pfn)
{
    uint32_t fi, zone;

    assert_true(dk_pfn_to_fi(d, pfn, &fi, &zone));
    return fi;
}

static uint32_t block_of(const struct deckle *d, uint64_t pfn)
{
    return fi_of(d, pfn) / DK_BLOCK_FRAMES;
}

static dk_aword *word_of(const struct deckle *d, uint64_t pfn)
{
    return &d->words[block_of(d, pfn)];
}

static dk_a8 *state_of(const struct deckle *d, uint64_t pfn)
{
    return &d->state[fi_of(d, pfn)];
}

static struct dk_zone *normal_zone(const struct deckle *d)
{
    return &d->zones[dk_zone_number(d, 0, DECKLE_ZONE_NORMAL)];
}

static struct dk_zone *movable_zone(const struct deckle *d)
{
    return &d->zones[dk_zone_number(d, 0, DECKLE_ZONE_MOVABLE)];
}

static struct dk_span *span_of(const struct deckle *d, const struct dk_zone *zone)
{
    return &d->spans[dk_a32_load_relaxed(&zone->first_span) - 1];
}

/* ---- hands ---------------------------------------------------------------------------------- */

static void change_word(const struct deckle *d, uint64_t pfn, dk_word clear, dk_word set)
{
    dk_aword *word = word_of(d, pfn);

    dk_store_relaxed(word, (dk_load_relaxed(word) & ~clear) | set);
}

static void set_state(const struct deckle *d, uint64_t pfn, uint8_t state)
{
    dk_a8_store_relaxed(state_of(d, pfn), state);
}

static void set_bit(const struct deckle *d, uint64_t pfn, bool used)
{
    uint32_t fi = fi_of(d, pfn);
    dk_aword *word = &d->lines[fi / DK_WORD_BITS];
    dk_word bit = (dk_word)1 << fi % DK_WORD_BITS;

    if (used)
        dk_or(word, bit);
    else
        dk_and(word, ~bit);
}

/* A bit and the count of W together: only the frames can contradict. */
static void set_used(const struct deckle *d, uint64_t pfn, bool used)
{
    dk_aword *word = word_of(d, pfn);

    set_bit(d, pfn, used);
    dk_store_relaxed(word, used ? dk_load_relaxed(word) + 1 : dk_load_relaxed(word) - 1);
}

/* Flip what a tree shows of an item, in its leaf. */
static void flip_leaf(const struct deckle *d, const struct dk_span *span, uint32_t tree,
                      uint32_t item)
{
    bool root = dk_index_items(span, tree) <= DK_FANOUT;
    uint64_t word = span->index_word + (root ? tree : span->tree_word[tree] + item / DK_FANOUT);
    dk_aword *w = &d->index[word];

    dk_store_relaxed(w, dk_load_relaxed(w) ^ (dk_word)1 << item % DK_FANOUT);
}

/* The cell of a cache that holds the frame. */
static dk_aword *cell_of(const struct deckle *d, uint64_t pfn)
{
    const struct dk_pcp_set *set = dk_set(d, normal_zone(d)->number, 0);
    uintptr_t at = (uintptr_t)set + sizeof(*set), end = (uintptr_t)set + d->set_bytes;

    for (; at < end; at += sizeof(dk_aword)) {
        dk_aword *cell = (dk_aword *)at;

        if ((dk_load_relaxed(cell) & DK_CELL_FULL) &&
            dk_cell_frame(dk_load_relaxed(cell)) == fi_of(d, pfn))
            return cell;
    }
    fail_msg("no cache holds pfn %" PRIx64, pfn);
    return NULL;
}

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
    span_of(d, normal_zone(d))->levels = 0;
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
static struct dk_section *section_at(const struct deckle *d, uint64_t pfn)
{
    struct dk_section_view s;

    assert_true(dk_section_of_pfn(d, pfn, &s));
    return &d->sections[s.slot];
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

/* ---- counters -------------------------------------------------------------------------------- */

static void plant_free(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->free, 1);
}
static void plant_free_delta(struct deckle *d)
{
    dk_add_relaxed(&dk_set(d, normal_zone(d)->number, 1)->free_delta, (dk_word)-3);
}
static void plant_free_cma(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->free_cma, (dk_word)-1);
}
static void plant_free_highatomic(struct deckle *d)
{
    dk_add_relaxed(&normal_zone(d)->free_highatomic, 1);
}
static void plant_free_isolated(struct deckle *d)
{
    dk_store_relaxed(&movable_zone(d)->free_isolated, 0);
}
static void plant_highatomic(struct deckle *d)
{
    dk_store_relaxed(&normal_zone(d)->highatomic_frames, 1024);
}
static void plant_cma(struct deckle *d)
{
    dk_store_relaxed(&normal_zone(d)->cma, 512);
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

/* Who finds it: everybody; the whole validation only; also a look at the pageblock at pfn. */
enum finder { ALWAYS, WHOLE_ONLY, LOCAL };

static const struct plant {
    void (*plant)(struct deckle *d);
    const char *says;
    enum finder finder;
    uint64_t pfn;
} plants[] = {
    {plant_magic, "the superblock begins with", ALWAYS, 0},
    {plant_version, "version is 2, not in 1 ... 1", ALWAYS, 0},
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

    {plant_tail_state, "state byte 0x01 inside the block of order 3 at 5 frames", LOCAL, EIGHT},
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
    {plant_cached_state, "in a cache of order 0, but its state byte is 0x01", LOCAL, CACHED},
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

static void expect_found(int result, const char *sentence, const char *says, const char *how)
{
    if (result != DECKLE_ECORRUPT || !strstr(sentence, says))
        fail_msg("%s: want \"%s\", got %d \"%s\"", how, says, result, sentence);
    assert_null(strchr(sentence, '\n'));
}

static void check_plant(struct deckle *d, const struct plant *p)
{
    char why[256] = "";
    int result = deckle_validate(d, why, sizeof(why));

    expect_found(result, why, p->says, "validate");
    /* Far from it, where nothing is: node 0, zone Normal, fully free. */
    result = deckle_validate_range(d, 0x9000, 512, why, sizeof(why));
    if (p->finder == ALWAYS)
        expect_found(result, why, p->says, "elsewhere");
    if (p->finder == LOCAL) {
        result = deckle_validate_range(d, p->pfn, 1, why, sizeof(why));
        expect_found(result, why, p->says, "range");
    }
    if (p->finder == WHOLE_ONLY)
        assert_int_equal(result, DECKLE_OK);
}

static void check_all_plants(uint32_t features)
{
    struct test_pool pool;
    char why[256] = "";
    void *kept;

    open_pool(&pool, features);
    if (deckle_validate(pool.d, why, sizeof(why)))
        fail_msg("the pool itself: %s", why);
    if (deckle_validate_range(pool.d, 0, UINT64_MAX, why, sizeof(why)))
        fail_msg("the pool itself, as a range: %s", why);
    kept = malloc(pool.size);
    assert_non_null(kept);
    memcpy(kept, pool.memory, pool.size);
    for (size_t i = 0; i < sizeof(plants) / sizeof(plants[0]); i++) {
        plants[i].plant(pool.d);
        check_plant(pool.d, &plants[i]);
        memcpy(pool.memory, kept, pool.size);
        assert_int_equal(deckle_validate(pool.d, NULL, 0), DECKLE_OK);
    }
    free(kept);
    test_pool_free(&pool);
}

static void test_plants(void **state)
{
    (void)state;
    check_all_plants(DECKLE_FEATURE_DESCRIPTORS | DECKLE_FEATURE_OWNER_TAGS);
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
    plant_bit_set(pool.d);
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
        cmocka_unit_test(test_plants),       cmocka_unit_test(test_buffer),
        cmocka_unit_test(test_range_bounds), cmocka_unit_test(test_range_inside_group),
        cmocka_unit_test(test_empty_pools),  cmocka_unit_test(test_type_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
