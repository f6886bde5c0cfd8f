/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU caches with one thread that plays all CPUs: order of the stack, limits, statistics against a
 * count kept beside them, drains that are disturbed at their weak points, closed zones, sizes and the
 * budget, wrong hints, wrapping counts. Each for stacks and for cells, unless it is about one of them.
 *
 * What a second thread would do in the middle of a drain is done from the hooks that a drain calls: the
 * membarrier hook and the giving back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pcp_fixture.h"
#include "testing.h"

#define LIST0 0u                            /* order 0, Movable */
#define FRAMES (1u << 20)

static const enum dk_pcp_kind kinds[] = {DK_PCP_CELLS, DK_PCP_RSEQ};

#define FOR_EACH_KIND(kind)                                                                        \
    for (unsigned k_ = 0; k_ < 2; k_++)                                                            \
        for (enum dk_pcp_kind kind = kinds[k_]; kind && fixture_has(kind); kind = DK_PCP_NONE)

static struct dk_pcp_list_head *head_of(struct fixture *f, uint32_t cpu, unsigned list)
{
    return dk_pcp_head(&f->d, dk_set(&f->d, 0, cpu), list);
}

static struct dk_pcp_list_stat stat_of(struct fixture *f, uint32_t cpu, unsigned list)
{
    struct dk_pcp_list_stat s;
    dk_pcp_list_stat(&f->d, 0, cpu, list, &s);
    return s;
}

static uint64_t held(struct fixture *f)
{
    uint64_t frames = 0;
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++)
        for (unsigned list = 0; list < DK_PCP_LISTS; list++)
            frames += stat_of(f, cpu, list).held << (list / DK_PCP_TYPES);
    return frames;
}

/* pages_high is the sum of the highs and within the budget; no list holds more than its slots. */
static void assert_sizes(struct fixture *f)
{
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++) {
        uint64_t sum = 0;
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            struct dk_pcp_list_stat s = stat_of(f, cpu, list);
            assert_true(s.high <= s.capacity && s.held <= s.capacity);
            sum += (uint64_t)s.high << (list / DK_PCP_TYPES);
        }
        assert_int_equal(sum, dk_a32_load_relaxed(&dk_set(&f->d, 0, cpu)->pages_high));
        assert_true(sum <= dk_a32_load_relaxed(&f->zone.high_max));
    }
}

/* Take n frames out of the shared level and push them into the list of this CPU. */
static void fill(struct fixture *f, unsigned list, uint32_t *fis, unsigned n)
{
    assert_int_equal(fixture_take(f, list / DK_PCP_TYPES, fis, n), n);
    for (unsigned i = 0; i < n; i++)
        assert_true(dk_pcp_push(&f->d, 0, list, fis[i]));
}

static void set_high(struct fixture *f, uint32_t cpu, unsigned list, uint32_t high)
{
    struct dk_pcp_list_head *lh = head_of(f, cpu, list);
    struct dk_pcp_set *set = dk_set(&f->d, 0, cpu);
    unsigned order = list / DK_PCP_TYPES;
    uint32_t old = dk_pcp_high(lh);
    dk_a32_store_relaxed(&lh->high, (dk_a32_load_relaxed(&lh->high) & ~DK_HIGH_ENTRIES) | high);
    dk_a32_add_relaxed(&set->pages_high, (high << order) - (old << order));
}

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

struct tally {
    uint64_t allocs, frees, direct_allocs;
};

/* Blocks popped and pushed, as the lists and the sets have counted them. */
static void assert_tally(struct fixture *f, const struct tally *t)
{
    uint64_t pops = 0, pushes = 0;
    for (uint32_t cpu = 0; cpu < f->d.nr_cpus; cpu++) {
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            struct dk_pcp_list_stat s = stat_of(f, cpu, list);
            pops += s.pops;
            pushes += s.pushes;
        }
        for (unsigned order = 0; order <= 10; order++)
            pushes += dk_counter_read(&dk_set(&f->d, 0, cpu)->direct_frees[order]);
    }
    assert_int_equal(pops + t->direct_allocs, t->allocs);
    assert_int_equal(pushes, t->frees);
}

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
                assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, (uint32_t)(r >> 40) % 3, NULL), 0);
            if ((r >> 8) % 4099 == 0)
                assert_sizes(f);
            bool alloc = ((r >> 20) % 200 < 100) == ((i >> 12) % 2 == 0 || (r >> 30) % 3 == 0);
            if (alloc && n < MOST) {
                unsigned list = (unsigned)(r >> 48) % 5 ? LIST0 : (unsigned)(r >> 50) % DK_PCP_LISTS;
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

/* ---- drains ---------------------------------------------------------------------------------- */

static void drain_empties_what_is_there(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        uint64_t moved = 0, cached;
        for (uint32_t cpu = 0; cpu < 2; cpu++) {
            fixture_cpu(cpu);
            for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
                set_high(f, cpu, list, 3);
                fill(f, list, fis, 3);
            }
        }
        cached = held(f);
        assert_int_equal(cached, 2 * 3 * 3 * 2047);
        assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK); /* remote */
        assert_int_equal(moved, cached / 2);
        assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 1, &moved), DECKLE_OK); /* own */
        assert_int_equal(moved, cached);
        assert_int_equal(held(f), 0);
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        fill(f, LIST0, fis, 3); /* lists are open again */
        fixture_free(f);
    }
}

/* A list that is full to the slots, in several steps. */
static void drain_in_steps(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        uint64_t moved = 0;
        set_high(f, 0, LIST0, 512);
        for (unsigned i = 0; i < 8; i++)
            fill(f, LIST0, fis, 64);
        fixture_cpu(1);
        assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
        assert_int_equal(moved, 512);
        assert_int_equal(dk_a32_load_relaxed(&f->calls), 16);
        fixture_free(f);
    }
}

static unsigned depth; /* of hooks that do something only the first time */

#ifdef DK_HAVE_RSEQ
static unsigned membarriers;
static unsigned disturb; /* how many membarriers find the list changed */

/* An owner whose sequence was in flight when STOP was set and committed before the membarrier: its store
 * wrote over STOP. */
static int overlapping_commit(struct fixture *f)
{
    membarriers++;
    if (disturb) {
        struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
        dk_word head = dk_load_relaxed(&lh->head);
        disturb--;
        dk_store_relaxed(&lh->head, (head & ~DK_RSEQ_STOP) + DK_RSEQ_POP_ONE - 1);
    }
    return 0;
}

static void lost_stop_is_noticed(void **state)
{
    uint32_t fis[64];
    uint64_t moved = 0;
    (void)state;
    struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
    fill(f, LIST0, fis, 20);
    fixture_cpu(1);
    f->on_membarrier = overlapping_commit;
    membarriers = 0;
    disturb = 3; /* three pops, then peace */
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
    assert_int_equal(moved, 17);
    assert_int_equal(membarriers, 4);
    assert_int_equal(dk_counter_read(&f->sb.drain_retries), 3);
    assert_int_equal(stat_of(f, 0, LIST0).pops, 3);
    fixture_free(f);
}

static void endless_disturbance_is_contention(void **state)
{
    uint32_t fis[64];
    uint64_t moved = 0;
    (void)state;
    struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
    fill(f, LIST0, fis, 60);
    fixture_cpu(1);
    f->on_membarrier = overlapping_commit;
    disturb = 1000;
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_ECONTENDED);
    assert_int_equal(moved, 0);
    assert_false(dk_rseq_is_stopped(dk_load_relaxed(&head_of(f, 0, LIST0)->head)));
    disturb = 0;
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
    assert_int_equal(moved, 60 - DK_PCP_ROUNDS);
    fixture_free(f);
}

static int failing_membarrier(struct fixture *f)
{
    (void)f;
    return 1;
}

/* Nobody knows whether the owner is inside: the list stays stopped, works for nobody, loses nothing, and
 * the next drain repairs it. */
static void failed_membarrier(void **state)
{
    uint32_t fis[64], fi;
    uint64_t moved = 0;
    (void)state;
    struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
    fill(f, LIST0, fis, 20);
    fixture_cpu(1);
    f->on_membarrier = failing_membarrier;
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_EBACKING);
    assert_int_equal(moved, 0);
    fixture_cpu(0);
    assert_false(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, &fi, 1), 0);
    assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0), 1);
    assert_int_equal(fixture_take(f, 0, fis, 1), 1);
    assert_false(dk_pcp_push(&f->d, 0, LIST0, fis[0]));
    dk_pcp_free_slow(&f->d, &f->zone, LIST0, fis[0]);
    assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES - 20);
    f->on_membarrier = NULL;
    fixture_cpu(1);
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
    assert_int_equal(moved, 20);
    fixture_cpu(0);
    fill(f, LIST0, fis, 20);
    fixture_free(f);
}

static int count_membarriers(struct fixture *f)
{
    (void)f;
    membarriers++;
    return 0;
}

/* Opening a list raises its pops although nothing was popped, and nobody counts it: a drainer that saw the
 * list stopped before must not take it for unchanged. Stopping by force needs the membarrier even where
 * lists look empty: a push may be in flight. */
static void opening_changes_the_head(void **state)
{
    (void)state;
    struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
    struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
    dk_word before = dk_load_relaxed(&lh->head);
    f->on_membarrier = count_membarriers;
    membarriers = 0;
    dk_pcp_close(&f->d, &f->zone);
    dk_pcp_open(&f->d, &f->zone);
    assert_int_equal(membarriers, 2);
    dk_word after = dk_load_relaxed(&lh->head);
    assert_int_equal(dk_rseq_pops(after), dk_rseq_pops(before) + 1);
    assert_int_equal(dk_rseq_index(after), 0);
    assert_false(dk_rseq_is_stopped(after));
    assert_int_equal(stat_of(f, 0, LIST0).pops, 0);
    assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, NULL), DECKLE_OK);
    assert_int_equal(membarriers, 2); /* not for lists that are empty */
    fixture_free(f);
}

/* An empty list that was left stopped is opened by the next drain. */
static void stopped_empty_list_is_opened(void **state)
{
    uint32_t fis[1];
    (void)state;
    struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
    f->on_membarrier = failing_membarrier;
    dk_pcp_close(&f->d, &f->zone);
    dk_pcp_open(&f->d, &f->zone);
    assert_int_equal(fixture_take(f, 0, fis, 1), 1);
    assert_false(dk_pcp_push(&f->d, 0, LIST0, fis[0]));
    f->on_membarrier = NULL;
    assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, NULL), DECKLE_OK);
    assert_true(dk_pcp_push(&f->d, 0, LIST0, fis[0]));
    fixture_free(f);
}

/* While one drainer stands at its membarrier, another one empties and opens the list and the owner fills
 * it again to the same index; in the second case a third one stops it once more. */
static int second_drainer(struct fixture *f)
{
    uint32_t fis[20];
    uint64_t moved = 0;
    if (depth++)
        return 0;
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
    assert_int_equal(moved, 20);
    fixture_cpu(0);
    fill(f, LIST0, fis, 20);
    fixture_cpu(1);
    if (disturb)
        dk_or(&head_of(f, 0, LIST0)->head, DK_RSEQ_STOP);
    return 0;
}

static void unstop_and_restop_are_noticed(void **state)
{
    (void)state;
    for (disturb = 0; disturb < 2; disturb++) {
        struct fixture *f = fixture_make(DK_PCP_RSEQ, FRAMES, 2);
        uint32_t fis[20];
        uint64_t moved = 0;
        fill(f, LIST0, fis, 20);
        fixture_cpu(1);
        f->on_membarrier = second_drainer;
        depth = 0;
        assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
        assert_int_equal(moved, 20);
        assert_int_equal(dk_counter_read(&f->sb.drain_retries), 1);
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        assert_int_equal(stat_of(f, 0, LIST0).pops, 0);
        assert_int_equal(stat_of(f, 0, LIST0).pushes, 40);
        fixture_free(f);
    }
    disturb = 0;
}

#endif

/* A drainer stopped between two of its steps: the other one finishes, and its next CAS must fail. */
static void other_drainer_between_steps(struct fixture *f)
{
    uint32_t fis[64];
    uint64_t moved = 0;
    if (depth++)
        return;
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
    assert_int_equal(moved, 512 - 64);
    fixture_cpu(0);
    for (unsigned i = 0; i < 7; i++)
        fill(f, LIST0, fis, 64);
    fixture_cpu(1);
}

static void stalled_drainer_takes_nothing_twice(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64];
        uint64_t moved = 0;
        set_high(f, 0, LIST0, 512);
        for (unsigned i = 0; i < 8; i++)
            fill(f, LIST0, fis, 64);
        fixture_cpu(1);
        depth = 0;
        f->on_give = other_drainer_between_steps;
        assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
        assert_int_equal(moved, 512); /* the first 64, and what the owner filled in again */
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        assert_int_equal(stat_of(f, 0, LIST0).pops, 0);
        fixture_free(f);
    }
}

/* ---- emptiness (contract rule 6) ------------------------------------------------------------- */

static void versions_tell_activity(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint64_t cached, before = dk_pcp_versions(&f->d, &f->zone, &cached);
        uint32_t fis[1], fi;
        assert_int_equal(cached, 0);
        assert_int_equal(dk_pcp_versions(&f->d, &f->zone, &cached), before);
        for (unsigned list = 0; list < DK_PCP_LISTS; list += 5) {
            set_high(f, 0, list, 1);
            fill(f, list, fis, 1);
            dk_pcp_versions(&f->d, &f->zone, &cached);
            assert_int_equal(cached, 1u << (list / DK_PCP_TYPES));
            /* In and out again: empty at both readings, but not between them. */
            assert_true(dk_pcp_pop(&f->d, 0, list, &fi));
            assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, NULL), DECKLE_OK);
            uint64_t after = dk_pcp_versions(&f->d, &f->zone, &cached);
            assert_int_equal(cached, 0);
            assert_true(after != before);
            before = after;
        }
        fixture_free(f);
    }
}

/* Pushes while a drain of cells sweeps: at a cell behind it and at one before it. */
static uint32_t late[2];
static void push_behind_the_sweep(struct fixture *f)
{
    if (depth++)
        return;
    struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
    fixture_cpu(0);
    for (unsigned i = 0; i < 2; i++) {
        dk_store_relaxed(&lh->head, i ? 100 : 0);
        assert_true(dk_pcp_push(&f->d, 0, LIST0, late[i]));
    }
    fixture_cpu(1);
}

static void cells_pushed_behind_a_sweep_are_found(void **state)
{
    struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 2);
    uint32_t fis[64];
    uint64_t moved = 0, cached;
    (void)state;
    fill(f, LIST0, fis, 64);
    assert_int_equal(fixture_take(f, 0, late, 2), 2);
    fixture_cpu(1);
    depth = 0;
    f->on_give = push_behind_the_sweep;
    assert_int_equal(dk_pcp_drain_cpu(&f->d, &f->zone, 0, &moved), DECKLE_OK);
    assert_int_equal(moved, 66);
    dk_pcp_versions(&f->d, &f->zone, &cached);
    assert_int_equal(cached, 0);
    assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
    fixture_free(f);
}

/* A drain has marked the list and is past the cell: the push must change the mark before it is complete. */
static void push_answers_the_mark(void **state)
{
    static const uint32_t marks[] = {0, DK_LIVE | DK_LIVE_CLEAR, DK_LIVE_CLEAR};
    (void)state;
    for (unsigned bulk = 0; bulk < 2; bulk++) {
        for (unsigned i = 0; i < 3; i++) {
            struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 1);
            struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
            uint32_t fi, live, version = 7 * DK_LIVE_VERSION;
            assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
            dk_a32_store_relaxed(&lh->live, version | marks[i]);
            assert_true(bulk ? dk_pcp_push_bulk(&f->d, 0, LIST0, &fi, 1) == 1
                             : dk_pcp_push(&f->d, 0, LIST0, fi));
            live = dk_a32_load_relaxed(&lh->live);
            assert_int_equal(live, version + DK_LIVE_VERSION + DK_LIVE);
            fixture_free(f);
        }
    }
}

/* N frames, N CPUs: each frame can be had from each CPU, wherever it is cached. */
static void no_frame_is_out_of_reach(void **state)
{
    enum { CPUS = 8 };
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, 4096, CPUS);
        static uint32_t mine[4096];
        uint64_t direct = 0;
        dk_store_relaxed(&f->zone.low, 0);
        dk_store_relaxed(&f->zone.high, 0);
        for (uint32_t reader = 0; reader < CPUS; reader++) {
            unsigned n = 0;
            fixture_cpu(reader);
            while (n < 4096) {
                uint32_t fi = fixture_alloc(f, LIST0, &direct);
                if (fi == DK_NONE) {
                    uint64_t moved = 0;
                    assert_int_equal(dk_pcp_drain_zone(&f->d, &f->zone, &moved), DECKLE_OK);
                    assert_true(moved > 0);
                    continue;
                }
                mine[n++] = fi;
            }
            for (uint32_t i = 0; i < 4096; i++) { /* freed all over the CPUs */
                fixture_cpu(i % CPUS);
                fixture_release(f, LIST0, mine[i]);
            }
            assert_sizes(f);
        }
        fixture_free(f);
    }
}

/* ---- closed zones ---------------------------------------------------------------------------- */

static void closed_zone(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 2);
        uint32_t fis[64], fi;
        uint32_t high = stat_of(f, 0, LIST0).high;
        uint64_t cached;
        fill(f, LIST0, fis, 30);
        fill(f, dk_pcp_list(2, 1), fis, 4);
        fixture_cpu(1);
        dk_pcp_close(&f->d, &f->zone);
        assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        dk_pcp_versions(&f->d, &f->zone, &cached);
        assert_int_equal(cached, 0);
        for (uint32_t cpu = 0; cpu < 2; cpu++) {
            fixture_cpu(cpu);
            for (unsigned list = 0; list < DK_PCP_LISTS; list++)
                assert_int_equal(stat_of(f, cpu, list).high, 0);
            assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, cpu, LIST0), 1);
            assert_int_equal(fixture_take(f, 0, fis, 2), 2);
            assert_false(dk_pcp_push(&f->d, 0, LIST0, fis[0]));
            dk_pcp_put_surplus(&f->d, &f->zone, LIST0, fis + 1, 1);
            dk_pcp_free_slow(&f->d, &f->zone, LIST0, fis[0]);
            assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
        }
        dk_pcp_close(&f->d, &f->zone);
        dk_pcp_resize(&f->d, &f->zone);
        assert_int_equal(stat_of(f, 0, LIST0).high, 0); /* new sizes are for later */
        dk_pcp_open(&f->d, &f->zone);
        assert_int_equal(stat_of(f, 0, LIST0).high, 0); /* still closed once */
        dk_pcp_open(&f->d, &f->zone);
        assert_int_equal(stat_of(f, 0, LIST0).high, high);
        assert_int_equal(stat_of(f, 1, LIST0).high, high);
        fill(f, LIST0, fis, 10);
        assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
        assert_sizes(f);
        fixture_free(f);
    }
}

/* A push that had read the old high and completes after the zone was closed: its cell is filled, and
 * `live` tells it. */
static void late_push_into_a_closed_zone(void **state)
{
    struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 1);
    struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
    struct tally t = {0};
    uint32_t fi, high = dk_a32_load_relaxed(&lh->high);
    (void)state;
    dk_pcp_close(&f->d, &f->zone);
    assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
    t.direct_allocs = t.allocs = 1;
    /* dk_cells_push with the high it read before; it is 0 again when the push asks a second time. */
    dk_a32_store_relaxed(&lh->high, high);
    dk_aword *cells = dk_pcp_slots(lh);
    dk_word cell = 0, filled = dk_cell_filled(cell, fi);
    assert_true(dk_cas(&cells[0], &cell, filled));
    dk_a32_store_relaxed(&lh->high, 0);
    assert_false(dk_cells_push_ends(lh, &cells[0], filled));
    assert_false(dk_load_relaxed(&cells[0]) & DK_CELL_FULL);
    dk_pcp_free_slow(&f->d, &f->zone, LIST0, fi);
    t.frees = 1;
    assert_tally(f, &t);
    fixture_free(f);
}

/* The same, but the push has filled its cell before the zone was closed, and stands before `live`: the
 * closer finds the frame although the list does not look live. */
static void closing_finds_a_push_in_flight(void **state)
{
    struct fixture *f = fixture_make(DK_PCP_CELLS, FRAMES, 1);
    struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
    dk_aword *cells = dk_pcp_slots(lh);
    uint32_t fi;
    (void)state;
    assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
    dk_word cell = 0, filled = dk_cell_filled(cell, fi);
    assert_true(dk_cas(&cells[5], &cell, filled));
    dk_pcp_close(&f->d, &f->zone);
    assert_int_equal(dk_a32_load_relaxed(&f->shared_free), FRAMES);
    assert_true(dk_cells_push_ends(lh, &cells[5], filled)); /* the push took place, and a drain */
    fixture_free(f);
}

/* Who decided to let a list grow before the zone was closed finds another word there afterwards, even if
 * the zone is open again. */
static void closing_is_seen_by_who_lets_a_list_grow(void **state)
{
    (void)state;
    FOR_EACH_KIND(kind) {
        struct fixture *f = fixture_make(kind, FRAMES, 1);
        struct dk_pcp_list_head *lh = head_of(f, 0, LIST0);
        uint32_t before = dk_a32_load_relaxed(&lh->high);
        dk_pcp_close(&f->d, &f->zone);
        dk_pcp_open(&f->d, &f->zone);
        uint32_t after = dk_a32_load_relaxed(&lh->high);
        assert_int_equal(after & DK_HIGH_ENTRIES, before & DK_HIGH_ENTRIES);
        assert_true(after != before);
        fixture_free(f);
    }
}

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

/* Refills and frees far apart: a CPU that only allocates, one that only frees. Entries into the shared
 * level are batches. */
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
        dk_store_relaxed(&f->zone.free, low);
        assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, dk_pcp_list(3, 0)), 1);
        assert_int_equal(held(f), 0);
        assert_int_equal(dk_a32_load_relaxed(&dk_set(&f->d, 0, 0)->pages_high), 0);
        assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
        fixture_release(f, LIST0, fi);
        assert_int_equal(held(f), 0);

        /* Between the marks, coming from below: still nothing, or refill and drain would take turns. */
        dk_store_relaxed(&f->zone.free, (low + mark) / 2);
        assert_int_equal(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0), 1);
        assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
        fixture_release(f, LIST0, fi);
        assert_int_equal(held(f), 0);

        /* Above high: as before. */
        dk_store_relaxed(&f->zone.free, mark + 100000);
        assert_true(dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0) > 1);
        assert_true(stat_of(f, 0, LIST0).high >= high);
        assert_sizes(f);

        /* Between the marks, coming from above: lists shrink to their base as they are used. */
        for (unsigned i = 0; i < 10; i++)
            dk_pcp_refill_want(&f->d, &f->zone, 0, LIST0);
        assert_true(stat_of(f, 0, LIST0).high > high);
        for (unsigned i = 0; i < 3000; i++) {
            dk_store_relaxed(&f->zone.free, (low + mark) / 2);
            assert_int_equal(fixture_take(f, 0, &fi, 1), 1);
            fixture_release(f, LIST0, fi);
        }
        assert_int_equal(stat_of(f, 0, LIST0).high, high);
        assert_true(stat_of(f, 0, LIST0).held <= high);
        fixture_free(f);
    }
}

/* ---- hints ----------------------------------------------------------------------------------- */

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
            dk_store_relaxed(&lh->head, (dk_word)((r >> 8) % 4 ? (r >> 10) % 600 : r >> 3));
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
    dk_store_relaxed(&lh->head, 300);
    assert_false(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    assert_int_equal(dk_pcp_pop_bulk(&f->d, 0, LIST0, &fi, 1), 1);
    assert_int_equal(fi, fis[2]);
    assert_true(dk_pcp_pop(&f->d, 0, LIST0, &fi));
    assert_int_equal(fi, fis[1]);
    dk_store_relaxed(&lh->head, 0); /* too low: a push takes the hint along */
    assert_true(dk_pcp_push(&f->d, 0, LIST0, fis[1]));
    assert_int_equal(dk_load_relaxed(&lh->head), 2);
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
        cmocka_unit_test(lost_stop_is_noticed),
        cmocka_unit_test(endless_disturbance_is_contention),
        cmocka_unit_test(failed_membarrier),
        cmocka_unit_test(opening_changes_the_head),
        cmocka_unit_test(stopped_empty_list_is_opened),
        cmocka_unit_test(unstop_and_restop_are_noticed),
#endif
        cmocka_unit_test(drain_empties_what_is_there),
        cmocka_unit_test(drain_in_steps),
        cmocka_unit_test(stalled_drainer_takes_nothing_twice),
        cmocka_unit_test(versions_tell_activity),
        cmocka_unit_test(cells_pushed_behind_a_sweep_are_found),
        cmocka_unit_test(push_answers_the_mark),
        cmocka_unit_test(no_frame_is_out_of_reach),
        cmocka_unit_test(closed_zone),
        cmocka_unit_test(late_push_into_a_closed_zone),
        cmocka_unit_test(closing_finds_a_push_in_flight),
        cmocka_unit_test(closing_is_seen_by_who_lets_a_list_grow),
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
