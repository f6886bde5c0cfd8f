/* SPDX-License-Identifier: MIT */
/*
 * Memory that comes and goes while a pool lives: ranges added, brought online, reserved, removed
 * and added again at random, against one entry a frame.
 *
 * ctest: timeout=120
 */
#include "guarded_check.h"
#include "testing.h"

#include "core/blockinfo.h"

#define WINDOW 16384u /* frames that the ranges lie in */

static uint64_t seed;

/* ---- growing and shrinking at random ------------------------------------------------------- */

enum { SLOTS = 12 };

struct life {
    struct guarded g;
    struct { uint64_t pfn, nr; bool added, online; uint32_t zone; } slot[SLOTS];
    uint8_t reserved[WINDOW], held[WINDOW];
    uint64_t nr_reservations;
    bool mixed_blocks; /* zones meet inside a pageblock */
};

static bool is_online(const struct life *l, uint64_t f)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (l->slot[i].online && f - l->slot[i].pfn < l->slot[i].nr)
            return true;
    return false;
}

static bool any_held(const struct life *l, uint64_t pfn, uint64_t nr)
{
    for (uint64_t f = pfn; f < pfn + nr; f++)
        if (l->held[f])
            return true;
    return false;
}

static void toggle_slot(struct life *l, unsigned i, uint64_t *random)
{
    if (!l->slot[i].added) {
        struct deckle_range r = {
            .pfn = l->slot[i].pfn, .nr = l->slot[i].nr, .zone = l->slot[i].zone};
        r.flags = test_random_below(random, 4) ? 0 : DECKLE_RANGE_CMA;
        int error = deckle_add_range(l->g.d, &r);
        if (l->mixed_blocks && error == DECKLE_EINVAL)
            return; /* see later_zone_in_a_gap */
        assert_int_equal(error, DECKLE_OK);
        l->slot[i].added = true;
        return;
    }
    bool busy = l->slot[i].online && any_held(l, l->slot[i].pfn, l->slot[i].nr);
    assert_int_equal(deckle_remove_range(l->g.d, l->slot[i].pfn, l->slot[i].nr),
                     busy ? DECKLE_EBUSY : DECKLE_OK);
    if (!busy)
        l->slot[i].added = l->slot[i].online = false;
}

static void bring_online(struct life *l)
{
    bool news = false;

    for (unsigned i = 0; i < SLOTS; i++)
        news |= l->slot[i].added && !l->slot[i].online;
    assert_int_equal(deckle_online(l->g.d), news ? DECKLE_OK : DECKLE_EINVAL);
    for (unsigned i = 0; i < SLOTS; i++)
        l->slot[i].online |= l->slot[i].added;
}

static void reserve_some(struct life *l, uint64_t *random)
{
    uint64_t pfn = test_random_below(random, WINDOW - 600), nr = 1 + test_random_below(random, 600);
    bool busy = any_held(l, pfn, nr);
    int error = deckle_reserve_range(l->g.d, pfn, nr);

    assert_int_equal(error, busy ? DECKLE_EBUSY : DECKLE_OK);
    if (!busy)
        memset(&l->reserved[pfn], 1, nr);
}

static void hold_or_let_go(struct life *l, uint64_t *random)
{
    for (unsigned n = 0; n < 20; n++) {
        uint64_t f = test_random_below(random, WINDOW);
        if (l->held[f]) {
            assert_int_equal(deckle_free(l->g.d, f, 0), DECKLE_OK);
            l->held[f] = 0;
            continue;
        }
        int64_t pfn = deckle_alloc(l->g.d, DECKLE_GFP_HIGHUSER_MOVABLE, 0);
        if (pfn < 0)
            continue;
        assert_true(is_online(l, (uint64_t)pfn) && !l->reserved[pfn] && !l->held[pfn]);
        l->held[pfn] = 1;
    }
}

static void free_all(struct life *l)
{
    for (uint64_t f = 0; f < WINDOW; f++) {
        if (l->held[f])
            assert_int_equal(deckle_free(l->g.d, f, 0), DECKLE_OK);
        l->held[f] = 0;
    }
}

static void check_life(struct life *l)
{
    uint64_t free = 0;

    for (uint64_t f = 0; f < WINDOW; f++)
        free += is_online(l, f) && !l->reserved[f] && !l->held[f];
    assert_true(sum_free(l->g.d) == free);
    assert_valid(l->g.d);
}

/* Ranges come, go and come again, with neighbours in the same pageblock, of the same zone and of
 * another; frames are held and reserved meanwhile. */
static void random_lives(void **state)
{
    static struct life l;
    uint64_t random = seed;
    (void)state;

    for (uint64_t round = 0; round < test_effort(25); round++) {
        struct deckle_range all[SLOTS];
        uint64_t at = test_random_below(&random, 300);

        memset(&l, 0, sizeof(l));
        l.mixed_blocks = round % 2;
        for (unsigned i = 0; i < SLOTS; i++) {
            l.slot[i].pfn = at;
            l.slot[i].nr =
                1 + test_random_below(&random, test_random_below(&random, 2) ? 100 : 1400);
            if (l.mixed_blocks ? test_random_below(&random, 2) : at / 4096 % 2)
                l.slot[i].zone = DECKLE_ZONE(DECKLE_ZONE_MOVABLE);
            at += l.slot[i].nr +
                  (test_random_below(&random, 2) ? test_random_below(&random, 400) : 0);
            if (!l.mixed_blocks && (at / 4096) % 2 != (l.slot[i].pfn / 4096) % 2)
                at = (at + 511) / 512 * 512;
            all[i] = (struct deckle_range){.pfn = l.slot[i].pfn, .nr = l.slot[i].nr,
                                           .zone = l.slot[i].zone};
        }
        struct deckle_config cfg = plain_config(all, SLOTS);
        cfg.max_order = 9 + (uint32_t)(round % 3);
        cfg.grow_pages = 32768;
        cfg.dma_limit_pfn = UINT64_MAX;
        guarded_init(&l.g, &cfg);
        for (unsigned step = 0; step < 150; step++) {
            uint64_t what = test_random_below(&random, 10);
            if (what < 4)
                toggle_slot(&l, (unsigned)test_random_below(&random, SLOTS), &random);
            else if (what < 6)
                bring_online(&l);
            else if (what < 9)
                hold_or_let_go(&l, &random);
            else if (step % 3 == 0 && l.nr_reservations++ < 3)
                reserve_some(&l, &random);
            else
                free_all(&l);
            check_life(&l);
        }
        guarded_close(&l.g);
    }
}

/* A hole that removal left in a pageblock can be filled by the same zone only. */
static void later_zone_in_a_gap(void **state)
{
    struct deckle_range r[3] = {
        {.pfn = 0, .nr = 100}, {.pfn = 100, .nr = 100}, {.pfn = 200, .nr = 100}};
    struct deckle_range movable = {.pfn = 120, .nr = 10, .zone = DECKLE_ZONE(DECKLE_ZONE_MOVABLE)};
    struct deckle_config cfg = plain_config(r, 3);
    struct guarded g;
    (void)state;

    cfg.grow_pages = 1;
    guarded_open(&g, &cfg);
    assert_int_equal(deckle_remove_range(g.d, 100, 100), DECKLE_OK);
    assert_valid(g.d);
    ASSERT_REFUSED(&g, DECKLE_EINVAL, deckle_add_range(g.d, &movable));
    movable.zone = 0;
    assert_int_equal(deckle_add_range(g.d, &movable), DECKLE_OK);
    assert_int_equal(deckle_online(g.d), DECKLE_OK);
    assert_true(sum_free(g.d) == 210);
    assert_valid(g.d);
    guarded_close(&g);
}

/* Version of the pageblock of a frame that is there. */
static dk_word version_of(const struct deckle *d, uint64_t pfn)
{
    uint32_t fi = 0, zone;

    assert_true(dk_pfn_to_fi(d, pfn, &fi, &zone));
    return dk_load_relaxed(&d->words[fi / DK_BLOCK_FRAMES]) / DK_W_VERSION_ONE;
}

/* The same memory taken out and put in again needs no more metadata each time. Its pageblocks go on
 * with the versions they had: somebody may have slept since then with one of their words in hand.
 * */
static void memory_that_comes_again_fits(void **state)
{
    struct deckle_range r[3] = {
        {.pfn = 0, .nr = 5000}, {.pfn = 5000, .nr = 5000}, {.pfn = 10000, .nr = 777}};
    struct deckle_config cfg = plain_config(r, 3);
    uint64_t random = seed;
    struct guarded g;
    (void)state;

    guarded_open(&g, &cfg);
    for (unsigned i = 0; i < 100; i++) {
        const struct deckle_range *one = &r[test_random_below(&random, 3)];
        dk_word version = version_of(g.d, one->pfn + 700);
        assert_int_equal(deckle_remove_range(g.d, one->pfn, one->nr), DECKLE_OK);
        assert_true(sum_free(g.d) == 10777 - one->nr);
        assert_valid(g.d);
        assert_int_equal(deckle_add_range(g.d, one), DECKLE_OK);
        assert_int_equal(deckle_online(g.d), DECKLE_OK);
        assert_true(version_of(g.d, one->pfn + 700) > version);
        assert_true(sum_free(g.d) == 10777);
        assert_valid(g.d);
    }
    guarded_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives),
        cmocka_unit_test(later_zone_in_a_gap),
        cmocka_unit_test(memory_that_comes_again_fits),
    };

    seed = test_seed();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
