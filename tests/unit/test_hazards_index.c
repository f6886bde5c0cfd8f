/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * Hazards of looking for blocks: every block of a large map is found, also where a level of the
 * index begins another word; nothing is found where nothing is; second copies of a frame are
 * noticed where they arrive; what the bits of a line say agrees with a slow count.
 */
#include "hazard.h"

#include "core/alloc.h"
#include "core/block.h"
#include "core/index.h"

/* ---- large maps ------------------------------------------------------------------------------ */

/* The first free block from any start below any limit, as a look at every W finds it. */
static void find_from_anywhere(const struct hazard_pool *h, uint64_t *random)
{
    const struct dk_span *span = &h->d->spans[0];
    uint32_t tree = dk_class(DECKLE_MOVABLE, 9, false);
    for (unsigned i = 0; i < 40; i++) {
        uint32_t start = (uint32_t)test_random_below(random, span->nr_blocks), item = start;
        uint32_t limit = 1 + (uint32_t)test_random_below(random, span->nr_blocks);
        while (item < limit &&
               dk_w_class(dk_load_relaxed(&h->d->words[span->first_block + item])) != tree)
            item++;
        assert_int_equal(dk_index_find(h->d, span, tree, start, limit),
                         item < limit ? item : DK_NONE);
    }
}

/* Take everything; then give back a few blocks anywhere: just those are found, and then nothing. */
static void find_what_was_freed(uint64_t blocks, unsigned order)
{
    uint64_t random = test_seed() ^ blocks, nr = blocks * 512, given[24];
    struct hazard_pool h;
    hazard_open_simple(&h, 0, nr, DECKLE_FEATURE_NO_CACHES, false);
    for (uint64_t b = 0; b < blocks; b++)
        assert_int_equal(deckle_alloc(h.d, GFP_M, 9) >= 0, 1);
    assert_int_equal(deckle_alloc(h.d, GFP_M, 0), DECKLE_ENOMEM);
    for (uint64_t b = 0; b < blocks && order < 9; b++)
        assert_int_equal(deckle_split(h.d, b * 512, 9, order), DECKLE_OK);
    for (uint64_t round = test_effort(60); round; round--) {
        unsigned n = 1 + (unsigned)test_random_below(&random, 24);
        for (unsigned i = 0; i < n; i++) {
            uint64_t pfn = test_random_below(&random, nr) & ~((1ull << order) - 1);
            /* Often at the end of a word of leaves, or of the level above. */
            if (test_random_below(&random, 2))
                pfn = test_random_below(&random, blocks / 32 + 1) * 32 * 512 % nr;
            given[i] = deckle_block_order(h.d, pfn) == (int)order ? pfn : UINT64_MAX;
            if (given[i] != UINT64_MAX)
                assert_int_equal(deckle_free(h.d, pfn, order), DECKLE_OK);
        }
        if (order == 9)
            find_from_anywhere(&h, &random);
        for (unsigned i = 0; i < n; i++) {
            if (given[i] == UINT64_MAX)
                continue;
            int64_t pfn = deckle_alloc(h.d, GFP_M, order);
            if (pfn < 0)
                fail_msg("%llu blocks: order %u is not found: %s", (unsigned long long)blocks,
                         order, deckle_error_name((int)pfn));
        }
        int64_t more = deckle_alloc(h.d, GFP_M, order);
        assert_int_equal(more, DECKLE_ENOMEM);
    }
    hazard_close(&h);
}

static void h029_every_block_of_a_large_map_is_found(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {8, 31, 32, 33, 63, 65, 300};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        find_what_was_freed(sizes[i], 9);
        find_what_was_freed(sizes[i], 3);
        find_what_was_freed(sizes[i], 0);
    }
    find_what_was_freed(1100, 9);
    find_what_was_freed(1100, 4);
}

/* One frame below a limit in each of many blocks: the search goes over words, and stops at the
 * limit. */
static void h027_limits_in_a_large_map(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 130 * 512, DECKLE_FEATURE_NO_CACHES, false);
    for (unsigned b = 0; b < 130; b++)
        assert_true(deckle_alloc(h.d, GFP_M, 9) >= 0);
    for (uint64_t b = 129; b > 0; b--) {
        struct deckle_request r = {
            .size = sizeof(r), .gfp = GFP_M, .order = 9, .limit_pfn = b * 512};
        assert_int_equal(deckle_free(h.d, b * 512, 9), DECKLE_OK);
        assert_int_equal(deckle_alloc_request(h.d, &r), DECKLE_ECONSTRAINED);
        r.limit_pfn += 511;
        assert_int_equal(deckle_alloc_request(h.d, &r), DECKLE_ECONSTRAINED);
        r.limit_pfn += 1;
        assert_int_equal(deckle_alloc_request(h.d, &r), b * 512);
    }
    hazard_close(&h);
}

/* Only unaligned neighbours are free: no block of the order above, and the reason is not
 * CONTENDED. */
static void h043_neighbours_are_no_block(void **state)
{
    (void)state;
    for (unsigned order = 1; order <= 10; order++) {
        struct hazard_pool h;
        uint64_t half = 1ull << (order - 1);
        hazard_open_simple(&h, 0, 4096, DECKLE_FEATURE_NO_CACHES, false);
        while (deckle_alloc(h.d, GFP_M, order - 1) >= 0)
            continue;
        for (uint64_t pfn = half; pfn + 2 * half < 4096; pfn += 4 * half) {
            assert_int_equal(deckle_free(h.d, pfn, order - 1), DECKLE_OK);
            assert_int_equal(deckle_free(h.d, pfn + half, order - 1), DECKLE_OK);
            assert_int_equal(deckle_alloc(h.d, GFP_M, order), DECKLE_EFRAGMENTED);
        }
        hazard_valid(&h);
        assert_true(deckle_alloc(h.d, GFP_M, order - 1) >= 0);
        hazard_close(&h);
    }
}

/* ---- bits ------------------------------------------------------------------------------------ */

static bool bit_of(const dk_aword *line, unsigned f)
{
    return dk_load_relaxed(&line[f / DK_WORD_BITS]) >> f % DK_WORD_BITS & 1;
}

static unsigned slow_run_code(const dk_aword *line, unsigned limit)
{
    for (unsigned order = 8;; order--) {
        for (unsigned f = 0; f + (1u << order) <= limit; f += 1u << order) {
            unsigned n = 0;
            while (n < 1u << order && !bit_of(line, f + n))
                n++;
            if (n == 1u << order)
                return 9 - order;
        }
        if (!order)
            return DK_RUN_NONE;
    }
}

static void h021_runs_agree_with_a_slow_count(void **state)
{
    (void)state;
    uint64_t random = test_seed();
    dk_aword line[DK_LINE_WORDS];
    for (uint64_t round = test_effort(20000); round; round--) {
        unsigned kind = (unsigned)test_random_below(&random, 4), used = 0;
        for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
            dk_word w = (dk_word)test_random(&random);
            dk_word mostly = w & (dk_word)test_random(&random) & (dk_word)test_random(&random);
            dk_store_relaxed(&line[i], kind == 0   ? w
                                       : kind == 1 ? (w & 1 ? ~(dk_word)0 : 0)
                                       : kind == 2 ? ~mostly
                                                   : (w & 3 ? 0 : mostly));
        }
        for (unsigned f = 0; f < 512; f++)
            used += bit_of(line, f);
        assert_int_equal(dk_line_used(line), used);
        assert_int_equal(dk_line_run_code(line), slow_run_code(line, 512));
        unsigned limit = (unsigned)test_random_below(&random, 513);
        assert_int_equal(dk_line_run_code_below(line, limit), slow_run_code(line, limit));
        /* Claims: aligned, free before, below the limit, as many as there are. */
        unsigned order = (unsigned)test_random_below(&random, 9), got;
        unsigned want = 1 + (unsigned)test_random_below(&random, 64);
        uint16_t out[64];
        bool rolled_back = false;
        uint32_t fis[64];
        dk_aword before[DK_LINE_WORDS];
        memcpy(before, line, sizeof(line));
        got = dk_line_claim(line, order, limit, out, want, &rolled_back);
        assert_false(rolled_back);
        for (unsigned i = 0; i < got; i++) {
            assert_int_equal(out[i] & ((1u << order) - 1), 0);
            assert_true(out[i] + (1u << order) <= limit && (!i || out[i] > out[i - 1]));
            for (unsigned f = out[i]; f < out[i] + (1u << order); f++)
                assert_false(bit_of(before, f));
            fis[i] = 512 * 7 + out[i];
        }
        assert_int_equal(dk_line_used(line), used + (got << order));
        if (got < want)
            assert_true(slow_run_code(line, limit) + order > 9);
        assert_int_equal(dk_line_release(line, order, fis, got), got << order);
        assert_memory_equal(line, before, sizeof(line));
    }
}

/* Frame f is bit f of a line and byte f of the states, whatever the order of bytes in a word. */
static void h137_metadata_has_one_image(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, DECKLE_FEATURE_NO_CACHES, false);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 0, 3), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(h.d, GFP_M, 16, 0), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(h.d, GFP_R | DECKLE_GFP_COMP, 64, 6), DECKLE_OK);
    assert_int_equal(deckle_alloc_at(h.d, GFP_U, 512, 9), DECKLE_OK);
    const dk_aword *line = dk_line(h.d, 0);
    dk_word w = dk_load_relaxed(&h.d->words[0]);
    for (unsigned f = 0; f < 512; f++)
        assert_int_equal(bit_of(line, f), f < 8 || f == 16 || (f >= 64 && f < 128));
    assert_int_equal((uint32_t)dk_load_relaxed(&line[0]), 0x000100ff);
    assert_true(dk_load_relaxed(&line[64 / DK_WORD_BITS]) == ~(dk_word)0);
    for (unsigned f = 0; f < 1024; f++)
        assert_int_equal(dk_a8_load_relaxed(&h.d->state[f]), f == 0     ? 0x04
                                                             : f == 16  ? 0x21
                                                             : f == 64  ? 0xc7
                                                             : f == 512 ? 0x0a
                                                                        : 0);
    assert_int_equal((uint32_t)(w & (DK_W_VERSION_ONE - 1)), 73u | 1u << 13);
    w = dk_load_relaxed(&h.d->words[1]);
    assert_int_equal((uint32_t)(w & (DK_W_VERSION_ONE - 1)), 512u | 10u << 13 | 1u << 18);
    assert_int_equal(dk_load_relaxed(&h.d->words[2]), 0);
    hazard_close(&h);
}

/* ---- second copies --------------------------------------------------------------------------- */

/* Both frees of a pair at the same instant have passed the state byte; the second copy is noticed
 * where it arrives: at the bits, or when it is given out while the first is. */
static void h047_second_copy_at_the_bits(void **state)
{
    (void)state;
    for (unsigned order = 0; order <= 8; order++) {
        struct hazard_pool h;
        hazard_open_simple(&h, 0, 4096, DECKLE_FEATURE_NO_CACHES, false);
        uint64_t keep = hazard_alloc(&h, GFP_U, 0), pfn = hazard_alloc(&h, GFP_U, order);
        assert_int_equal(deckle_free(h.d, pfn, order), DECKLE_OK);
        dk_free_block(h.d, 0, (uint32_t)pfn, order, DECKLE_UNMOVABLE);
        assert_int_equal(h.p.reports, 1);
        assert_int_equal(h.p.last.what, DECKLE_BAD_STATE);
        assert_int_equal(hazard_free_frames(&h), 4095);
        assert_int_equal(hazard_alloc(&h, GFP_U, 9) != hazard_alloc(&h, GFP_U, 9), 1);
        assert_int_equal(deckle_free(h.d, keep, 0), DECKLE_OK);
        free(h.p.memory); /* the blocks do not balance: validation would say so */
    }
}

static void h047_second_copy_in_a_list(void **state)
{
    (void)state;
    struct hazard_pool h;
    hazard_open_simple(&h, 0, 4096, 0, false);
    uint64_t pfn = hazard_alloc(&h, GFP_U, 0), n;
    assert_int_equal(deckle_free(h.d, pfn, 0), DECKLE_OK);
    dk_free_block(h.d, 0, (uint32_t)pfn, 0, DECKLE_UNMOVABLE);
    /* Nobody gets it a second time as long as the first owner has it. */
    for (n = 0; n < 100; n++) {
        uint64_t next = hazard_alloc(&h, GFP_U, 0);
        assert_true(next != pfn || !n);
    }
    assert_int_equal(h.p.reports, 1);
    assert_int_equal(h.p.last.what, DECKLE_BAD_STATE);
    assert_int_equal(h.p.last.pfn, pfn);
    free(h.p.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(h021_runs_agree_with_a_slow_count),
        cmocka_unit_test(h027_limits_in_a_large_map),
        cmocka_unit_test(h043_neighbours_are_no_block),
        cmocka_unit_test(h137_metadata_has_one_image),
        cmocka_unit_test(h047_second_copy_at_the_bits),
        cmocka_unit_test(h047_second_copy_in_a_list),
        cmocka_unit_test(h029_every_block_of_a_large_map_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
