/* SPDX-License-Identifier: MIT */
/*
 * For the tests of validation: a pool with one of everything, hands that change its metadata, and a
 * check that goes through a table of contradictions. Each is planted and undone before the next;
 * the sentence must name it. What is wrong with a pageblock must be found by looking at that
 * pageblock alone, and not by looking elsewhere; what is wrong with counters not at all by looking
 * at pageblocks.
 *
 * Include after cmocka.h. Not every test uses every hand.
 */
#ifndef DECKLE_TESTS_SUPPORT_PLANTS_H
#define DECKLE_TESTS_SUPPORT_PLANTS_H

#include "core/blockinfo.h"
#include "core/check.h"
#include "core/index.h"
#include "core/pcp.h"
#include "core/section.h"
#include "core/stats.h"
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

static inline void alloc_at(struct test_pool *pool, uint64_t pfn, uint32_t order)
{
    assert_int_equal(deckle_alloc_at(pool->d, DECKLE_GFP_HIGHUSER_MOVABLE, pfn, order), DECKLE_OK);
}

static inline void open_pool(struct test_pool *pool, uint32_t features)
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

static inline uint32_t fi_of(const struct deckle *d, uint64_t pfn)
{
    uint32_t fi, zone;

    assert_true(dk_pfn_to_fi(d, pfn, &fi, &zone));
    return fi;
}

static inline uint32_t block_of(const struct deckle *d, uint64_t pfn)
{
    return fi_of(d, pfn) / DK_BLOCK_FRAMES;
}

static inline dk_aword *word_of(const struct deckle *d, uint64_t pfn)
{
    return &d->words[block_of(d, pfn)];
}

static inline dk_a8 *state_of(const struct deckle *d, uint64_t pfn)
{
    return &d->state[fi_of(d, pfn)];
}

static inline struct dk_zone *normal_zone(const struct deckle *d)
{
    return &d->zones[dk_zone_number(d, 0, DECKLE_ZONE_NORMAL)];
}

static inline struct dk_zone *movable_zone(const struct deckle *d)
{
    return &d->zones[dk_zone_number(d, 0, DECKLE_ZONE_MOVABLE)];
}

static inline struct dk_span *span_of(const struct deckle *d, const struct dk_zone *zone)
{
    return &d->spans[dk_a32_load_relaxed(&zone->first_span) - 1];
}

/* ---- hands ---------------------------------------------------------------------------------- */

static inline void change_word(const struct deckle *d, uint64_t pfn, dk_word clear, dk_word set)
{
    dk_aword *word = word_of(d, pfn);

    dk_store_relaxed(word, (dk_load_relaxed(word) & ~clear) | set);
}

static inline void set_state(const struct deckle *d, uint64_t pfn, uint8_t state)
{
    dk_a8_store_relaxed(state_of(d, pfn), state);
}

static inline void set_bit(const struct deckle *d, uint64_t pfn, bool used)
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
static inline void set_used(const struct deckle *d, uint64_t pfn, bool used)
{
    dk_aword *word = word_of(d, pfn);

    set_bit(d, pfn, used);
    dk_store_relaxed(word, used ? dk_load_relaxed(word) + 1 : dk_load_relaxed(word) - 1);
}

/* Flip what a tree shows of an item, in its leaf. */
static inline void flip_leaf(const struct deckle *d, const struct dk_span *span, uint32_t tree,
                             uint32_t item)
{
    bool root = dk_index_items(span, tree) <= DK_FANOUT;
    uint64_t word = span->index_word + (root ? tree : span->tree_word[tree] + item / DK_FANOUT);
    dk_aword *w = &d->index[word];

    dk_store_relaxed(w, dk_load_relaxed(w) ^ (dk_word)1 << item % DK_FANOUT);
}

/* The cell of a cache that holds the frame. */
static inline dk_aword *cell_of(const struct deckle *d, uint64_t pfn)
{
    const struct dk_pcp_set *set = dk_set(d, normal_zone(d)->number, 0);

    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, set, list));

        for (uint32_t i = 0; i < d->slot_cap[list]; i++) {
            dk_word cell = dk_load_relaxed(&cells[i]);

            if ((cell & DK_CELL_FULL) && dk_cell_frame(cell) == fi_of(d, pfn))
                return &cells[i];
        }
    }
    fail_msg("no cache holds pfn %" PRIx64, pfn);
    return NULL;
}
static inline struct dk_section *section_at(const struct deckle *d, uint64_t pfn)
{
    struct dk_section_view s;

    assert_true(dk_section_of_pfn(d, pfn, &s));
    return &d->sections[s.slot];
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Who finds it: everybody; the whole validation only; also a look at the pageblock at pfn. */
enum finder { ALWAYS, WHOLE_ONLY, LOCAL };

struct plant {
    void (*plant)(struct deckle *d);
    const char *says;
    enum finder finder;
    uint64_t pfn;
};

static inline void expect_found(int result, const char *sentence, const char *says, const char *how)
{
    if (result != DECKLE_ECORRUPT || !strstr(sentence, says))
        fail_msg("%s: want \"%s\", got %d \"%s\"", how, says, result, sentence);
    assert_null(strchr(sentence, '\n'));
}

static inline void check_plant(struct deckle *d, const struct plant *p)
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

static inline void check_plants(const struct plant *plants, size_t nr)
{
    struct test_pool pool;
    char why[256] = "";
    void *kept;

    open_pool(&pool, DECKLE_FEATURE_DESCRIPTORS | DECKLE_FEATURE_OWNER_TAGS);
    if (deckle_validate(pool.d, why, sizeof(why)))
        fail_msg("the pool itself: %s", why);
    if (deckle_validate_range(pool.d, 0, UINT64_MAX, why, sizeof(why)))
        fail_msg("the pool itself, as a range: %s", why);
    kept = malloc(pool.size);
    assert_non_null(kept);
    memcpy(kept, pool.memory, pool.size);
    for (size_t i = 0; i < nr; i++) {
        plants[i].plant(pool.d);
        check_plant(pool.d, &plants[i]);
        memcpy(pool.memory, kept, pool.size);
        assert_int_equal(deckle_validate(pool.d, NULL, 0), DECKLE_OK);
    }
    free(kept);
    test_pool_free(&pool);
}

#endif
