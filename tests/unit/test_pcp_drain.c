/* SPDX-License-Identifier: MIT */
/*
 * Drains of the per-CPU caches, disturbed at their weak points; that empty is empty (contract
 * rule 6); closed zones. What a second thread would do in the middle of a drain is done from the
 * hooks that a drain calls: the membarrier hook and the giving back. Each for stacks and for cells,
 * unless it is about one of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pcp_fixture.h"
#include "pcp_checks.h"

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

/* An owner whose sequence was in flight when STOP was set and committed before the membarrier: its
 * store wrote over STOP. */
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

/* Nobody knows whether the owner is inside: the list stays stopped, works for nobody, loses
 * nothing, and the next drain repairs it. */
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

/* Opening a list raises its pops although nothing was popped, and nobody counts it: a drainer that
 * saw the list stopped before must not take it for unchanged. Stopping by force needs the
 * membarrier even where lists look empty: a push may be in flight. */
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

/* While one drainer stands at its membarrier, another one empties and opens the list and the owner
 * fills it again to the same index; in the second case a third one stops it once more. */
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

/* A drainer stopped between two of its steps: the other one finishes, and its next CAS must fail.
 */
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
        dk_store_relaxed(&lh->head, dk_hint_make(i ? 100 : 0, 0));
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

/* A drain has marked the list and is past the cell: the push must change the mark before it is
 * complete. */
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

/* A push that had read the old high and completes after the zone was closed: its cell is filled,
 * and `live` tells it. */
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
    /* dk_cells_push with the high it read before; it is 0 again when the push asks a second time.
     */
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

/* The same, but the push has filled its cell before the zone was closed, and stands before `live`:
 * the closer finds the frame although the list does not look live. */
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

/* Who decided to let a list grow before the zone was closed finds another word there afterwards,
 * even if the zone is open again. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
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
#ifdef DK_HAVE_RSEQ
        cmocka_unit_test(lost_stop_is_noticed),
        cmocka_unit_test(endless_disturbance_is_contention),
        cmocka_unit_test(failed_membarrier),
        cmocka_unit_test(opening_changes_the_head),
        cmocka_unit_test(stopped_empty_list_is_opened),
        cmocka_unit_test(unstop_and_restop_are_noticed),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
