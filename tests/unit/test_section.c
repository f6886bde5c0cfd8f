/* SPDX-License-Identifier: MIT */
/*
 * The section table: from pfn to frame index and back, with the table at rest, in the middle of a
 * change that never ends, and changing all the time under other threads.
 *
 * ctest: timeout=120
 */
#include "guarded_check.h"
#include "testing.h"

#include <pthread.h>

#include "core/layout.h"
#include "core/section.h"

static const struct deckle_range ranges[] = {
    {.pfn = 0, .nr = 1},           {.pfn = 3, .nr = 500},           {.pfn = 503, .nr = 20},
    {.pfn = 2000, .nr = 5000},     {.pfn = 8000, .nr = 777, .node = DECKLE_NODE(1)},
    {.pfn = 8777, .nr = 100},      {.pfn = 1u << 20, .nr = 3000},
    {.pfn = UINT64_C(1) << 40, .nr = 1000, .node = DECKLE_NODE(1)},
    {.pfn = (UINT64_C(1) << 52) - 300, .nr = 300},
};
#define NR_RANGES (sizeof(ranges) / sizeof(ranges[0]))

static void open_pool(struct guarded *g)
{
    struct deckle_config cfg = plain_config(ranges, NR_RANGES);

    cfg.nr_nodes = 2;
    cfg.max_order = 11;
    guarded_open(g, &cfg);
}

static bool exists(uint64_t pfn)
{
    for (unsigned i = 0; i < NR_RANGES; i++)
        if (pfn - ranges[i].pfn < ranges[i].nr)
            return true;
    return false;
}

/* Is the pfn found exactly if it exists (a gap inside a section counts as found, as a hole), and do
 * index and pfn agree both ways and modulo the largest block? */
static void check_pfn(const struct deckle *d, uint64_t pfn, bool there)
{
    uint32_t fi = 0, zone = 0;
    uint64_t back = 0;
    bool found = dk_pfn_to_fi(d, pfn, &fi, &zone);

    if (found && !there)
        assert_int_equal(dk_a8_load_relaxed(&d->state[fi]), DK_STATE_HOLE);
    else
        assert_int_equal(found, there);
    if (!found)
        return;
    assert_true(dk_fi_to_pfn(d, fi, &back) && back == pfn);
    assert_true(((pfn ^ fi) & 2047) == 0);
    assert_int_equal(dk_zone_of_block(d, fi / DK_BLOCK_FRAMES), zone);
    assert_true(d->zones[zone].number == zone);
}

static void check_all(const struct deckle *d)
{
    for (uint64_t pfn = 0; pfn < 10000; pfn++)
        check_pfn(d, pfn, exists(pfn));
    for (unsigned i = 0; i < NR_RANGES; i++) {
        uint64_t first = ranges[i].pfn, last = first + ranges[i].nr - 1;
        check_pfn(d, first, true);
        check_pfn(d, last, true);
        check_pfn(d, last + 1, exists(last + 1));
        if (first)
            check_pfn(d, first - 1, exists(first - 1));
    }
    check_pfn(d, UINT64_MAX, false);
    check_pfn(d, UINT64_C(1) << 63, false);
}

static void every_frame_is_found(void **state)
{
    struct guarded g;
    struct dk_section_view s;
    uint64_t frames = 0, next = 0;
    (void)state;

    open_pool(&g);
    check_all(g.d);
    for (uint32_t n = 0; dk_section_nth(g.d, n, &s); n++) {
        struct dk_section_view same;
        assert_true(s.pfn >= next);
        assert_true(dk_section_from(g.d, next, &same) && same.slot == s.slot);
        next = s.pfn + s.nr;
        frames += s.nr;
    }
    assert_false(dk_section_from(g.d, next, &s));
    assert_int_equal(dk_a32_load_relaxed(&g.d->sb->nr_sections), 8);
    assert_true(frames == 523 + 5000 + 777 + 100 + 3000 + 1000 + 300);
    guarded_close(&g);
}

/* Set-up is stopped for ever in the middle of rewriting the keys. */
static void h071_a_stopped_set_up_delays_no_lookup(void **state)
{
    struct guarded g;
    struct dk_section_view s;
    uint64_t random = test_seed();
    (void)state;

    open_pool(&g);
    struct dk_superblock *sb = g.d->sb;
    dk_a32_store_relaxed(&sb->section_epoch, dk_a32_load_relaxed(&sb->section_epoch) + 1);
    for (unsigned round = 0; round < 20; round++) {
        for (unsigned i = 0; i < sb->max_sections; i++) {
            dk_pfn_store(&g.d->by_pfn[i].key, test_random(&random) >> (round % 60));
            dk_a32_store_relaxed(&g.d->by_pfn[i].slot,
                                 (uint32_t)test_random(&random) >> (round % 31));
            dk_pfn_store(&g.d->by_fi[i].key, test_random(&random) >> (round % 60));
            dk_a32_store_relaxed(&g.d->by_fi[i].slot,
                                 (uint32_t)test_random(&random) >> (round % 31));
        }
        dk_a32_store_relaxed(&sb->nr_sections, (uint32_t)test_random_below(&random, 8));
        check_all(g.d);
        uint64_t frames = 0;
        for (uint64_t next = 0; dk_section_from(g.d, next, &s); next = s.pfn + s.nr)
            frames += s.nr;
        assert_true(frames == 523 + 5000 + 777 + 100 + 3000 + 1000 + 300);
    }
    int64_t pfn = deckle_alloc(g.d, DECKLE_GFP_KERNEL, 3);
    assert_true(pfn >= 0);
    assert_int_equal(deckle_free(g.d, (uint64_t)pfn, 3), DECKLE_OK);
    guarded_close(&g);
}

/* ---- threads ------------------------------------------------------------------------------- */

enum { READERS = 3, PIECES = 16 };

struct reading {
    struct guarded g;
    dk_a32 stop;
    dk_a32 rounds[READERS];
};

struct reader {
    struct reading *all;
    unsigned number;
};

/* Pieces 0, 5, 10 and 15 stay; all others come and go. */
static bool stays(unsigned piece)
{
    return piece % 5 == 0;
}

static uint64_t piece_pfn(unsigned piece)
{
    return 5000 + 700 * (uint64_t)piece;
}

static void *read_all_the_time(void *arg)
{
    struct reader *r = arg;
    const struct deckle *d = r->all->g.d;

    while (!dk_a32_load_relaxed(&r->all->stop)) {
        for (unsigned piece = 0; piece < PIECES; piece++) {
            uint32_t fi, zone;
            uint64_t pfn = piece_pfn(piece) + 13 * r->number, back;
            struct dk_section_view s;

            if (!stays(piece)) {
                dk_pfn_to_fi(d, pfn, &fi, &zone); /* may be there or not */
                continue;
            }
            if (!dk_pfn_to_fi(d, pfn, &fi, &zone) || !dk_fi_to_pfn(d, fi, &back) || back != pfn ||
                !dk_section_of_pfn(d, pfn, &s) || !dk_section_from(d, 0, &s) || s.pfn != 5000)
                return "a frame that stays was not found";
        }
        dk_a32_add_relaxed(&r->all->rounds[r->number], 1);
    }
    return NULL;
}

static void change_all_the_time(struct deckle *d, uint64_t *random, uint64_t changes)
{
    bool there[PIECES];

    memset(there, 1, sizeof(there));
    for (uint64_t n = 0; n < changes; n++) {
        unsigned piece = (unsigned)test_random_below(random, PIECES);
        struct deckle_range r = {.pfn = piece_pfn(piece), .nr = 700};

        if (stays(piece))
            continue;
        if (there[piece]) {
            assert_int_equal(deckle_remove_range(d, r.pfn, r.nr), DECKLE_OK);
        } else {
            assert_int_equal(deckle_add_range(d, &r), DECKLE_OK);
            assert_int_equal(deckle_online(d), DECKLE_OK);
        }
        there[piece] = !there[piece];
    }
}

static void lookups_while_sections_split_and_merge(void **state)
{
    static struct reading all;
    struct deckle_range r[PIECES];
    struct reader readers[READERS];
    pthread_t threads[READERS];
    uint64_t random = test_seed();
    const char *wrong[READERS];
    (void)state;

    for (unsigned i = 0; i < PIECES; i++)
        r[i] = (struct deckle_range){.pfn = piece_pfn(i), .nr = 700};
    struct deckle_config cfg = plain_config(r, PIECES);
    cfg.dma_limit_pfn = UINT64_MAX;
    cfg.grow_pages = 20000;
    guarded_open(&all.g, &cfg);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){&all, i};
        assert_int_equal(pthread_create(&threads[i], NULL, read_all_the_time, &readers[i]), 0);
    }
    change_all_the_time(all.g.d, &random, test_effort(3000));
    for (unsigned i = 0; i < READERS; i++)
        while (!dk_a32_load_relaxed(&all.rounds[i]))
            usleep(1000);
    dk_a32_store_relaxed(&all.stop, 1);
    for (unsigned i = 0; i < READERS; i++)
        pthread_join(threads[i], (void **)&wrong[i]);
    for (unsigned i = 0; i < READERS; i++)
        if (wrong[i])
            fail_msg("%s", wrong[i]);
    assert_valid(all.g.d);
    guarded_close(&all.g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_frame_is_found),
        cmocka_unit_test(h071_a_stopped_set_up_delays_no_lookup),
        cmocka_unit_test(lookups_while_sections_split_and_merge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
