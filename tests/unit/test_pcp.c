/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU caches with one thread that plays all CPUs: order of the stack, limits, statistics
 * against a count kept beside them, sizes and the budget, wrong hints, wrapping counts. Each for
 * stacks and for cells, unless it is about one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pcp_fixture.h"
#include "pcp_checks.h"
#include "testing.h"

/* ---- layout ---------------------------------------------------------------------------------- */

static void layout(void **state)
{
    static const uint32_t capacities[] = {16, 100, 512, 4096};
    (void)state;
    for (unsigned kind = DK_PCP_NONE; kind <= DK_PCP_RSEQ; kind++) {
        for (unsigned c = 0; c < 4; c++) {
            uint32_t off[DK_PCP_LISTS], cap[DK_PCP_LISTS];
            struct dk_pcp_shape shape = {kind, capacities[c], 9, 12};
            size_t slot = kind == DK_PCP_RSEQ ? 4 : sizeof(dk_aword);
            size_t bytes = dk_pcp_set_bytes(&shape, off, cap), end = sizeof(struct dk_pcp_set);
            for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
                unsigned order = list / DK_PCP_TYPES;
                assert_int_equal(off[list] % 64, 0);
                assert_true(off[list] >= end);
                end = off[list] + 64 + cap[list] * slot;
                assert_true(cap[list] <= 4096); /* the index has 15 bits, and STOP must exceed it */
                if (kind == DK_PCP_NONE || order == 10)
                    assert_int_equal(cap[list], 0);
                else if (order <= 3)
                    assert_int_equal(cap[list], capacities[c]);
                else
                    assert_true(cap[list] && cap[list] < capacities[c]);
            }
            assert_true(end <= bytes && bytes - end < 64);
        }
    }
}

/* ---- stack ----------------------------------------------------------------------------------- */

static void last_in_first_out(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[40], out[64], fi;
        fill(f, LIST0, fis, 40);
        for (unsigned i = 40; i-- > 30;) {
            assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
            assert_int_equal(fi, fis[i]);
        }
        assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, out, 10), 10);
        for (unsigned i = 0; i < 10; i++)
            assert_int_equal(out[i], fis[29 - i]);
        assert_int_equal(dk_pcp_push_bulk(&f->d, 0, LIST0, fis + 20, 20), 20);
        assert_int_equal(stat_of(f, 0, LIST0).held, 40);
        assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, out, 64), 40);
        for (unsigned i = 0; i < 40; i++)
            assert_int_equal(out[i], fis[39 - i]);
        assert_false(dk_pcp_pop(&f->d, 0, LIST0, &fi));
        assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, out, 1), 0);
        fixture_free(f);
    }
}

/* The first frame of a surplus is the next to be popped, as single allocations would go upwards. */
static void surplus_comes_in_order(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 1);
        uint32_t fis[64], fi;
        assert_int_equal(fixture_take(f, 0, fis, 64), 64);
        dk_pcp_put_surplus(&f->d, &f->zone, LIST0, fis, 64);
        for (unsigned i = 0; i < 64; i++) {
            assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
            assert_int_equal(fi, fis[i]);
        }
        set_high(f, 0, LIST0, 10); /* does not fit: the rest goes back */
        dk_pcp_put_surplus(&f->d, &f->zone, LIST0, fis, 64);
        assert_int_equal(stat_of(f, 0, LIST0).held, 10);
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES - 10);
        fixture_free(f);
    }
}

static void limits(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        set_high(f, 0, LIST0, 5);
        fill(f, LIST0, fis, 5);
        assert_int_equal(fixture_take(f, 0, fis, 8), 8);
        assert_false(dk_pcp_push(&f->d, 0, LIST0, fis[0]));
        assert_int_equal(dk_pcp_push_bulk(&f->d, 0, LIST0, fis, 8), 0);
        set_high(f, 0, LIST0, 8);
        assert_int_equal(dk_pcp_push_bulk(&f->d, 0, LIST0, fis, 8), 3);
        fixture_cpu(1); /* its list is another one */
        assert_int_equal(dk_pcp_push_bulk(&f->d, 0, LIST0, fis + 3, 5), 5);
        assert_int_equal(stat_of(f, 0, LIST0).held, 8);
        assert_int_equal(stat_of(f, 1, LIST0).held, 5);
        fixture_free(f);
    }
}

static void cpus_beyond_the_configured(void **state)
{
    static const uint32_t cpus[] = {2, 3, 4096, 0x7fffffff, 0xfffffffe, 0xffffffff};
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        fill(f, LIST0, fis, 20);
        for (unsigned i = 0; i < sizeof cpus / sizeof *cpus; i++) {
            uint32_t fi = fis[0];
            fixture_cpu(cpus[i]);
            assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, dk_pcp_cpu(&f->d), LIST0), 1);
            assert_false(dk_pcp_pop(&f->d, 0, LIST0, &fi));
            assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, &fi, 1), 0);
            assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
            assert_false(dk_pcp_push(&f->d, 0, LIST0, fi));
            dk_pcp_free_slow(&f->d, &f->zone, LIST0, fi);
            assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES - 20);
        }
        assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, NULL), DECKLE_OK);
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        fixture_free(f);
    }
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void random_operations(void **state)
{
    uint64_t seed = test_seed();
    (void)state;
    FOR_EACH_KIND(kind) {
        enum { MOST = 3000 };
        struct fixture *f = fixture_make(kind, FRAMES, 3);
        static struct { uint32_t fi; unsigned list; } mine[MOST];
        struct tally t = {0};
        uint64_t out = 0;
        unsigned n = 0;
        for (uint64_t i = 0, end = test_effort(200000); i < end; i++) {
            uint64_t r = test_random(&seed);
            if (r % 16 == 0)
                fixture_cpu((uint32_t)(r >> 32) % 4);
            if ((r >> 8) % 997 == 0)
                dk_pcp_drain_cpu(&f->d, &f->zone, (uint32_t)(r >> 40) % 3, NULL);
            if ((r >> 8) % 4099 == 0)
                assert_sizes(f);
            bool alloc = ((r >> 20) % 200 < 100) == ((i >> 12) % 2 == 0 || (r >> 30) % 3 == 0);
            if (alloc && n < MOST) {
                unsigned any = (unsigned)(r >> 50) % DK_PCP_LISTS;
                unsigned list = (unsigned)(r >> 48) % 5 ? LIST0 : any;
                uint32_t fi = fixture_alloc(f, list, &t.direct_allocs);
                if (fi == DK_NONE)
                    continue;
                t.allocs++;
                out += 1u << (list / DK_PCP_TYPES);
                mine[n].fi = fi;
                mine[n++].list = list;
            } else if (!alloc && n) {
                unsigned at = (unsigned)(r >> 32) % n;
                out -= 1u << (mine[at].list / DK_PCP_TYPES);
                t.frees++;
                fixture_release(f, mine[at].list, mine[at].fi);
                mine[at] = mine[--n];
            }
        }
        assert_tally(f, &t);
        assert_sizes(f);
        assert_int_equal(held(f) + out, FRAMES - dk_a32_load_relaxed(&f->shared_free));
        while (n) {
            n--;
            fixture_release(f, mine[n].list, mine[n].fi);
            t.frees++;
        }
        uint64_t cached = held(f), moved = 0;
        assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, &moved), DECKLE_OK);
        assert_int_equal(moved, cached);
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        assert_tally(f, &t);
        fixture_free(f);
    }
}

static void phases_wrap(void **state)
{
    struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 1);
    uint32_t fis[1], fi = 0;
    uint64_t pairs = ((uint64_t)1 << DK_CELL_PHASE_BITS) * 2 + 5;
    (void)state;
    fill(f, LIST0, fis, 1);
    for (uint64_t i = 0; i < pairs; i++) {
        assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
        assert_true(dk_pcp_push(&f->d, 0, LIST0, fi));
    }
    assert_int_equal(stat_of(f, 0, LIST0).pops, pairs);
    assert_int_equal(stat_of(f, 0, LIST0).pushes, pairs + 1);
    fixture_free(f);
}

#ifdef DK_HAVE_RSEQ
/* The count of pops runs full: a pop fails, the slow path folds, and nothing is counted wrong. */
static void pops_are_folded(void **state)
{
    const uint64_t full = ((uint64_t)1 << 47) - 3;
    struct tally t = {0};
    uint32_t fis[10], fi;
    (void)state;
    struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 1);
    struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
    dk_store_relaxed(&lh->head, (dk_word)(full << 16));
    fill(f, LIST0, fis, 10);
    t.frees = 10 + full;
    t.allocs = full;
    assert_tally(f, &t);
    for (t.allocs = full; dk_pcp_pop(&f->d, 0, LIST0, &fi); t.allocs++)
        continue;
    assert_int_equal(t.allocs, full + 2);
    assert_tally(f, &t);
    assert_int_equal(stat_of(f, 0, LIST0).held, 8); /* not empty, yet a pop failed */
    assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, fis, 4), 4);
    t.allocs += 4;
    assert_tally(f, &t);
    assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    t.allocs++;
    assert_tally(f, &t);
    assert_int_equal(stat_of(f, 0, LIST0).held, 3);
    fixture_free(f);
}

/* The same when a drain takes the last of the room. */
static void drains_wrap_pops(void **state)
{
    struct tally t = {0};
    uint32_t fis[10], fi;
    (void)state;
    for (uint64_t room = 1; room < 14; room++) {
        const uint64_t full = ((uint64_t)1 << 47) - room;
        struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
        struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
        dk_store_relaxed(&lh->head, (dk_word)(full << 16));
        fill(f, LIST0, fis, 10);
        fixture_cpu(1);
        assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, NULL), DECKLE_OK);
        t = (struct tally){.allocs = full, .frees = full + 10};
        assert_tally(f, &t);
        fixture_cpu(0);
        fill(f, LIST0, fis, 2);
        assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, &fi, 1), 1);
        t = (struct tally){.allocs = full + 1, .frees = full + 12};
        assert_tally(f, &t);
        fixture_free(f);
    }
}

#endif

/* ---- sizes ----------------------------------------------------------------------------------- */

static void small_zones_cache_nothing(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        for (uint32_t nr = 1; nr < 64; nr++) {
            struct fixture *f = fixture_make(kind, nr, 8);
            uint32_t fi;
            assert_int_equal(dk_a32_load_relaxed(&f->zone.high_max), 0);
            for (unsigned list = 0; list < DK_PCP_LISTS; list++)
                assert_int_equal(stat_of(f, 0, list).high, 0);
            assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0), 1);
            assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
            fixture_release(f, LIST0, fi);
            assert_int_equal(dk_a32_load_relaxed(&f->shared_free), nr);
            fixture_free(f);
        }
    }
}

/* A share that is less than a batch is no share. */
static void small_shares_cache_nothing(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, 65536, 600); /* 13 frames a CPU, batch 15 */
        assert_int_equal(dk_a32_load_relaxed(&f->zone.batch), 15);
        assert_int_equal(dk_a32_load_relaxed(&f->zone.high_max), 0);
        assert_int_equal(stat_of(f, 599, LIST0).high, 0);
        fixture_free(f);
        f = fixture_make(kind, 65536, 500);
        assert_int_equal(dk_a32_load_relaxed(&f->zone.high_max), 16);
        assert_true(stat_of(f, 499, LIST0).high > 0);
        fixture_free(f);
    }
}

/* What all CPUs may cache together is at most an eighth of the zone, at every size. */
static void caches_are_bounded(void **state)
{
    uint64_t seed = test_seed();
    (void)state;
    FOR_EACH_KIND(kind) {
        for (uint32_t nr = 100; nr < 1500000; nr = nr * 5 / 3) {
            uint32_t cpus = 1 + (uint32_t)test_random_below(&seed, 16);
            struct fixture *f = fixture_make(kind, nr, cpus);
            uint64_t direct = 0;
            assert_true((uint64_t)dk_a32_load_relaxed(&f->zone.high_max) * cpus <= nr / 8);
            for (unsigned i = 0; i < 20000; i++) {
                uint64_t r = test_random(&seed);
                unsigned list = (unsigned)(r % DK_PCP_LISTS);
                fixture_cpu((uint32_t)(r >> 8) % cpus);
                uint32_t fi = fixture_alloc(f, list, &direct);
                fixture_cpu((uint32_t)(r >> 20) % cpus);
                if (fi != DK_NONE)
                    fixture_release(f, list, fi);
            }
            assert_sizes(f);
            assert_true(held(f) <= nr / 8);
            fixture_free(f);
        }
    }
}

/* After warming up, as many blocks as a benchmark keeps outstanding stay in the list. */
static void warm_lists_hold_what_is_outstanding(void **state)
{
    static const struct { unsigned order, outstanding; } cases[] = {
        {0, 1}, {0, 256}, {0, 500}, {1, 256}, {3, 256}, {4, 256}, {6, 200}, {8, 60}, {9, 1},
        {9, 64}, {10, 1}, {10, 32}, {10, 60},
    };
    (void)state;
    FOR_EACH_KIND(kind) {
        for (unsigned c = 0; c < sizeof cases / sizeof *cases; c++) {
            struct fixture *f = fixture_make(kind, FRAMES, 2); /* 4 GiB */
            unsigned list = dk_pcp_list(cases[c].order, DECKLE_UNMOVABLE);
            uint32_t fis[512], calls = 0;
            uint64_t direct = 0;
            for (unsigned round = 0; round < 12; round++) {
                calls = dk_a32_load_relaxed(&f->calls);
                for (unsigned i = 0; i < cases[c].outstanding; i++)
                    fis[i] = fixture_alloc(f, list, &direct);
                for (unsigned i = 0; i < cases[c].outstanding; i++)
                    fixture_release(f, list, fis[i]);
            }
            if (dk_a32_load_relaxed(&f->calls) != calls)
                print_message("order %u, %u outstanding, high %u\n", cases[c].order,
                              cases[c].outstanding, stat_of(f, 0, list).high);
            assert_int_equal(dk_a32_load_relaxed(&f->calls), calls);
            assert_sizes(f);
            fixture_free(f);
        }
    }
}

/* The budget is used up by lists that nobody uses any more: a list that grows gets their share. */
static void idle_lists_are_robbed(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, 1u << 18, 2); /* budget: 16384 frames a CPU */
        uint32_t fis[64];
        uint64_t direct = 0;
        for (unsigned phase = 0; phase < 4; phase++) {
            unsigned list = dk_pcp_list(9, phase % 2), calls = 0;
            for (unsigned round = 0; round < 40; round++) {
                calls = dk_a32_load_relaxed(&f->calls);
                for (unsigned i = 0; i < 24; i++)
                    fis[i] = fixture_alloc(f, list, &direct);
                for (unsigned i = 0; i < 24; i++)
                    fixture_release(f, list, fis[i]);
                assert_sizes(f);
            }
            assert_int_equal(dk_a32_load_relaxed(&f->calls), calls);
        }
        fixture_free(f);
    }
}

/* Refills and frees far apart: a CPU that only allocates, one that only frees. Entries into the
 * shared level are batches. */
static void hand_off_goes_in_batches(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        uint64_t direct = 0;
        for (unsigned i = 0; i < 1000; i++) {
            fixture_cpu(0);
            for (unsigned k = 0; k < 64; k++)
                fis[k] = fixture_alloc(f, LIST0, &direct);
            fixture_cpu(1);
            for (unsigned k = 0; k < 64; k++)
                fixture_release(f, LIST0, fis[k]);
        }
        assert_true(dk_a32_load_relaxed(&f->calls) < 3 * 1000);
        fixture_free(f);
    }
}

static void pressure(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 1);
        uint32_t fis[64], fi, high = stat_of(f, 0, LIST0).high;
        dk_word low = dk_load_relaxed(&f->zone.low), mark = dk_load_relaxed(&f->zone.high);
        fill(f, LIST0, fis, 60);
        fill(f, dk_pcp_list(1, 2), fis, 10);

        /* At low: the lists hold nothing, each free goes through, one block a refill. */
        dk_store_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], low);
        assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, dk_pcp_list(3, 0)), 1);
        assert_int_equal(held(f), 0);
        assert_int_equal(dk_a32_load_relaxed(&dk_set(&f->d, 0, 0)->pages_high), 0);
        assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
        fixture_release(f, LIST0, fi);
        assert_int_equal(held(f), 0);

        /* Between the marks, coming from below: still nothing, or refill and drain would take
         * turns. */
        dk_store_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], (low + mark) / 2);
        assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0), 1);
        assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
        fixture_release(f, LIST0, fi);
        assert_int_equal(held(f), 0);

        /* Above high: as before. */
        dk_store_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], mark + 100000);
        assert_true(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0) > 1);
        assert_true(stat_of(f, 0, LIST0).high >= high);
        assert_sizes(f);

        /* Between the marks, coming from above: lists shrink to their base as they are used. */
        for (unsigned i = 0; i < 10; i++)
            dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0);
        assert_true(stat_of(f, 0, LIST0).high > high);
        for (unsigned i = 0; i < 3000; i++) {
            dk_store_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], (low + mark) / 2);
            assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
            fixture_release(f, LIST0, fi);
        }
        assert_int_equal(stat_of(f, 0, LIST0).high, high);
        assert_true(stat_of(f, 0, LIST0).held <= high);
        fixture_free(f);
    }
}

/* ---- hints ----------------------------------------------------------------------------------- */

/* Near the truth, with a value that is not; or anything. */
static dk_word any_hint(uint64_t r)
{
    if ((r >> 8) % 4)
        return dk_hint_make((uint32_t)(r >> 10) % 600, (dk_word)(r >> 20));
    return (dk_word)(r >> 3);
}

/* Whatever the hint says, no frame is lost or given twice, and lists stay usable. */
static void wrong_hints(void **state)
{
    uint64_t seed = test_seed();
    struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 2);
    static uint32_t mine[2000];
    struct tally t = {0};
    unsigned n = 0;
    (void)state;
    for (uint64_t i = 0, end = test_effort(100000); i < end; i++) {
        uint64_t r = test_random(&seed);
        struct dk_pcp_list_head *lh = head_of(f, (uint32_t)(r >> 40) % 2, LIST0);
        if (r % 8 == 0)
            dk_store_relaxed(&lh->head, any_hint(r));
        fixture_cpu((uint32_t)(r >> 41) % 2);
        if (((r >> 20) & 1) && n < 2000) {
            uint32_t fi = fixture_alloc(f, LIST0, &t.direct_allocs);
            assert_true(fi != DK_NONE);
            if (dk_a8_exchange(&f->out[fi], 2) != 1)
                fixture_fault("given out twice", fi);
            mine[n++] = fi;
            t.allocs++;
        } else if (n) {
            unsigned at = (unsigned)(r >> 24) % n;
            uint32_t fi = mine[at];
            mine[at] = mine[--n];
            dk_a8_store_relaxed(&f->out[fi], 1);
            fixture_release(f, LIST0, fi);
            t.frees++;
        }
    }
    assert_tally(f, &t);
    assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, NULL), DECKLE_OK);
    assert_int_equal(held(f), 0);
    assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES - n);
    fixture_free(f);
}

/* A hint far above the only frame: the slow path finds it and sets the hint right. */
static void hint_is_repaired(void **state)
{
    struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 1);
    struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
    uint32_t fis[3], fi;
    (void)state;
    fill(f, LIST0, fis, 3);
    dk_store_relaxed(&lh->head, dk_hint_make(300, 0));
    assert_false(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, &fi, 1), 1);
    assert_int_equal(fi, fis[2]);
    assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    assert_int_equal(fi, fis[1]);
    dk_store_relaxed(&lh->head, 0); /* too low: a push takes the hint along */
    assert_true(dk_pcp_push(&f->d, 0, LIST0, fis[1]));
    assert_int_equal(dk_hint_top(dk_load_relaxed(&lh->head)), 2);
    fixture_free(f);
}

/* ---- no caches ------------------------------------------------------------------------------- */

static void no_caches(void **state)
{
    struct fixture *f = fixture_make(DK_PCP_NONE, FRAMES, 2);
    uint64_t cached, moved = 0;
    uint32_t fi;
    (void)state;
    assert_false(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0), 1);
    assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
    assert_false(dk_pcp_push(&f->d, 0, LIST0, fi));
    dk_pcp_free_slow(&f->d, &f->zone, LIST0, fi);
    assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
    dk_pcp_versions(&f->d, &f->zone, &cached);
    assert_int_equal(cached, 0);
    dk_pcp_close(&f->d, &f->zone);
    dk_pcp_open(&f->d, &f->zone);
    assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, &moved), DECKLE_OK);
    assert_int_equal(moved, 0);
    fixture_free(f);
}

static unsigned entries;
static void count_entry(void *ctx, uint32_t fi, unsigned order)
{
    struct fixture *f = ctx;
    assert_int_equal(fi % (1u << order), 0);
    assert_int_equal(dk_a8_exchange(&f->out[fi], 3), 1);
    entries++;
}

static void every_entry_is_shown_once(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        for (uint32_t cpu = 0; cpu < 2; cpu++) {
            fixture_cpu(cpu);
            for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
                set_high(f, cpu, list, 2);
                fill(f, list, fis, 2);
            }
        }
        entries = 0;
        dk_pcp_for_each(&f->d, &f->zone, count_entry, f);
        assert_int_equal(entries, 2 * 2 * DK_PCP_LISTS);
        fixture_free(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(last_in_first_out),
        cmocka_unit_test(surplus_comes_in_order),
        cmocka_unit_test(limits),
        cmocka_unit_test(cpus_beyond_the_configured),
        cmocka_unit_test(random_operations),
        cmocka_unit_test(phases_wrap),
#ifdef DK_HAVE_RSEQ
        cmocka_unit_test(pops_are_folded),
        cmocka_unit_test(drains_wrap_pops),
#endif
        cmocka_unit_test(small_zones_cache_nothing),
        cmocka_unit_test(small_shares_cache_nothing),
        cmocka_unit_test(caches_are_bounded),
        cmocka_unit_test(warm_lists_hold_what_is_outstanding),
        cmocka_unit_test(idle_lists_are_robbed),
        cmocka_unit_test(hand_off_goes_in_batches),
        cmocka_unit_test(pressure),
        cmocka_unit_test(wrong_hints),
        cmocka_unit_test(hint_is_repaired),
        cmocka_unit_test(no_caches),
        cmocka_unit_test(every_entry_is_shown_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
