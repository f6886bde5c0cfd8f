/* SPDX-License-Identifier: MIT */
/*
 * The model of a trace: each kind of step by hand, then random events against an oracle that keeps
 * one entry for each frame: which block it belongs to.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "trace_model.h"

static struct trace_event event(uint8_t type, uint64_t pfn, uint8_t order, uint32_t cpu)
{
    struct trace_event e;

    memset(&e, 0, sizeof(e));
    e.type = type;
    e.pfn = pfn;
    e.order = order;
    e.cpu = cpu;
    e.events = 1;
    e.frames = 1u << order;
    return e;
}

static struct trace_step_detail step(struct trace_model *m, uint8_t type, uint64_t pfn,
                                     uint8_t order, uint32_t cpu)
{
    struct trace_event e = event(type, pfn, order, cpu);
    struct trace_step_detail d;

    assert_true(trace_model_event(m, &e, &d));
    return d;
}

/* --- by hand --------------------------------------------------------------------------------- */

static void test_pair(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);
    struct trace_step_detail d;

    (void)state;
    assert_int_equal(step(m, TRACE_ALLOC, 0, 0, 1).step, TRACE_STEP_ALLOC); /* frame 0 is a frame */
    assert_int_equal(step(m, TRACE_ALLOC, 8, 3, 1).step, TRACE_STEP_ALLOC);
    assert_int_equal(t->live_frames, 9);
    assert_int_equal(t->live_blocks, 2);
    assert_int_equal(t->peak_frames, 9);
    d = step(m, TRACE_FREE, 8, 3, 2);
    assert_int_equal(d.step, TRACE_STEP_FREE);
    assert_int_equal(d.block_pfn, 8);
    assert_int_equal(d.block_order, 3);
    assert_int_equal(d.alloc_cpu, 1);
    assert_int_equal(step(m, TRACE_FREE, 0, 0, 1).step, TRACE_STEP_FREE);
    assert_int_equal(t->live_frames, 0);
    assert_int_equal(t->remote_frees, 1);
    assert_int_equal(t->peak_by_order[0], 1);
    assert_int_equal(t->peak_by_order[3], 1);
    assert_int_equal(t->highest_pfn, 15);
    trace_model_free(m);
}

static void test_adopted(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);

    (void)state;
    step(m, TRACE_ALLOC, 7, 0, 0);
    assert_int_equal(step(m, TRACE_FREE, 8, 3, 0).step, TRACE_STEP_FREE_ADOPTED);
    assert_int_equal(step(m, TRACE_FREE, 8, 3, 0).step, TRACE_STEP_FREE_ADOPTED);
    assert_int_equal(t->adopted_frees, 2);
    assert_int_equal(t->adopted_frames, 16);
    assert_int_equal(t->live_frames, 1);
    trace_model_free(m);
}

static void test_pieces(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);
    struct trace_step_detail d;

    (void)state;
    step(m, TRACE_ALLOC, 512, 9, 3);
    d = step(m, TRACE_FREE, 600, 0, 0);
    assert_int_equal(d.step, TRACE_STEP_FREE_SPLIT);
    assert_int_equal(d.block_pfn, 512);
    assert_int_equal(d.block_order, 9);
    assert_int_equal(d.alloc_cpu, 3);
    assert_int_equal(t->live_blocks, 511);
    assert_int_equal(t->live_by_order[0], 511);
    assert_int_equal(t->live_by_order[9], 0);
    for (uint64_t pfn = 512; pfn < 1024; pfn++) {
        if (pfn == 600)
            continue;
        d = step(m, TRACE_FREE, pfn, 0, 0);
        assert_int_equal(d.step, TRACE_STEP_FREE);
        assert_int_equal(d.block_pfn, pfn);
        assert_int_equal(d.block_order, 0);
    }
    assert_int_equal(t->split_blocks, 1);
    assert_int_equal(t->piece_frees, 512);
    assert_int_equal(t->live_frames, 0);
    trace_model_free(m);
}

/* A piece is split again; then pieces come back together. */
static void test_pieces_of_pieces(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);
    struct trace_step_detail d;

    (void)state;
    step(m, TRACE_ALLOC, 0, 9, 0);
    assert_int_equal(step(m, TRACE_FREE, 16, 4, 0).step, TRACE_STEP_FREE_SPLIT);
    d = step(m, TRACE_FREE, 33, 0, 0);
    assert_int_equal(d.step, TRACE_STEP_FREE_SPLIT);
    assert_int_equal(d.block_pfn, 32);
    assert_int_equal(d.block_order, 4);
    assert_int_equal(t->split_blocks, 1); /* one block of the recording, split twice */
    assert_int_equal(t->live_by_order[4], 30);
    assert_int_equal(t->live_by_order[0], 15);
    d = step(m, TRACE_FREE, 256, 8, 0);
    assert_int_equal(d.step, TRACE_STEP_FREE_SEVERAL);
    assert_int_equal(d.ended, 16);
    d = step(m, TRACE_FREE, 0, 9, 0); /* what is left, with holes */
    assert_int_equal(d.step, TRACE_STEP_FREE_SEVERAL);
    assert_int_equal(d.ended, 14 + 15);
    assert_int_equal(t->adopted_frames, 16 + 1 + 256);
    assert_int_equal(t->live_frames, 0);
    assert_int_equal(t->live_blocks, 0);
    assert_int_equal(step(m, TRACE_FREE, 0, 9, 0).step, TRACE_STEP_FREE_ADOPTED);
    trace_model_free(m);
}

static void test_double(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);
    struct trace_step_detail d;

    (void)state;
    step(m, TRACE_ALLOC, 4, 2, 0);
    d = step(m, TRACE_ALLOC, 4, 2, 0); /* the same block */
    assert_int_equal(d.step, TRACE_STEP_ALLOC_DOUBLE);
    assert_int_equal(d.ended, 1);
    assert_int_equal(t->live_frames, 4);
    d = step(m, TRACE_ALLOC, 6, 0, 0); /* inside it */
    assert_int_equal(d.step, TRACE_STEP_ALLOC_DOUBLE);
    assert_int_equal(t->live_frames, 1);
    step(m, TRACE_ALLOC, 1, 0, 0);
    d = step(m, TRACE_ALLOC, 0, 3, 0); /* over both */
    assert_int_equal(d.step, TRACE_STEP_ALLOC_DOUBLE);
    assert_int_equal(d.ended, 2);
    assert_int_equal(t->live_frames, 8);
    assert_int_equal(t->double_allocs, 3);
    assert_int_equal(t->lost_frames, 4 + 4 + 2);
    trace_model_free(m);
}

static void test_misaligned(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);

    (void)state;
    step(m, TRACE_ALLOC, 5, 2, 0);
    assert_int_equal(t->misaligned, 1);
    assert_int_equal(step(m, TRACE_FREE, 4, 2, 0).step, TRACE_STEP_FREE);
    assert_int_equal(t->misaligned, 1);
    trace_model_free(m);
}

/* Huge blocks at the end of the range, split to the smallest pieces, cost what small ones do. */
static void test_huge(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);
    uint64_t size = UINT64_C(1) << TRACE_MAX_ORDER;

    (void)state;
    for (uint64_t i = 1; i <= 2000; i++) {
        uint64_t pfn = TRACE_MAX_PFN - i * size;

        step(m, TRACE_ALLOC, pfn, TRACE_MAX_ORDER, 0);
        assert_int_equal(step(m, TRACE_FREE, pfn + i, 0, 0).step, TRACE_STEP_FREE_SPLIT);
    }
    assert_int_equal(t->live_frames, 2000 * (size - 1));
    assert_int_equal(t->live_blocks, 2000 * (size - 1));
    assert_int_equal(t->highest_pfn, TRACE_MAX_PFN - 1);
    trace_model_free(m);
}

static void test_shared(void **state)
{
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);
    struct trace_event e = event(TRACE_ZONE_LOCKED, 0, 3, 0);

    (void)state;
    assert_false(t->refill.recorded);
    assert_false(t->drain.recorded);
    e.burst_start = true;
    assert_true(trace_model_event(m, &e, NULL));
    e.burst_start = false;
    e.events = 5;
    e.frames = 40;
    assert_true(trace_model_event(m, &e, NULL));
    assert_true(t->refill.recorded);
    assert_int_equal(t->refill.events, 6);
    assert_int_equal(t->refill.frames, 48);
    assert_int_equal(t->refill.bursts, 1);
    assert_false(t->drain.recorded);
    e = event(TRACE_EXTFRAG, 0, 0, 0);
    e.fallback_order = 8;
    assert_true(trace_model_event(m, &e, NULL));
    e.fallback_order = 9;
    assert_true(trace_model_event(m, &e, NULL));
    assert_int_equal(t->fallbacks, 2);
    assert_int_equal(t->fallbacks_whole, 1);
    assert_int_equal(step(m, TRACE_ALLOC_FAILED, 0, 9, 0).step, TRACE_STEP_NONE);
    assert_int_equal(t->failed, 1);
    assert_int_equal(t->allocs, 0);
    trace_model_free(m);
}

/* --- random, against an oracle --------------------------------------------------------------- */

#define FRAMES 4096u

struct frame {
    uint32_t block; /* 0 = not live, else a number of its block */
    uint8_t order;  /* of the block */
};

static struct frame frames[FRAMES];
static uint32_t last_block;

static unsigned int blocks_in(uint64_t pfn, uint8_t order, uint64_t *live)
{
    unsigned int n = 0;
    uint32_t block = 0;

    *live = 0;
    for (uint64_t f = pfn; f < pfn + (1u << order); f++) {
        *live += frames[f].block != 0;
        n += frames[f].block != 0 && frames[f].block != block;
        block = frames[f].block;
    }
    return n;
}

static void put(uint64_t pfn, uint8_t order, uint32_t block)
{
    for (uint64_t f = pfn; f < pfn + (1u << order); f++) {
        frames[f].block = block;
        frames[f].order = order;
    }
}

static void end_block(uint64_t pfn)
{
    uint8_t order = frames[pfn].order;

    put(pfn & ~(uint64_t)((1u << order) - 1), order, 0);
}

static enum trace_step oracle_alloc(uint64_t pfn, uint8_t order)
{
    uint64_t live;
    bool any = blocks_in(pfn, order, &live) > 0;

    for (uint64_t f = pfn; f < pfn + (1u << order); f++)
        if (frames[f].block != 0)
            end_block(f);
    put(pfn, order, ++last_block);
    return any ? TRACE_STEP_ALLOC_DOUBLE : TRACE_STEP_ALLOC;
}

static enum trace_step oracle_free(uint64_t pfn, uint8_t order)
{
    struct frame first = frames[pfn];
    uint64_t live, start = pfn & ~(uint64_t)((1u << first.order) - 1);

    if (blocks_in(pfn, order, &live) == 0)
        return TRACE_STEP_FREE_ADOPTED;
    if (first.block == 0 || first.order < order) {
        put(pfn, order, 0);
        return TRACE_STEP_FREE_SEVERAL;
    }
    for (uint64_t f = start; first.order > order && f < start + (1u << first.order);
         f += 1u << order)
        put(f, order, ++last_block);
    put(pfn, order, 0);
    return first.order > order ? TRACE_STEP_FREE_SPLIT : TRACE_STEP_FREE;
}

static void check_totals(const struct trace_totals *t)
{
    uint64_t by_order[TRACE_NR_ORDERS] = {0}, live = 0;

    for (unsigned int f = 0; f < FRAMES; f++) {
        live += frames[f].block != 0;
        by_order[frames[f].order] += frames[f].block != 0;
    }
    assert_int_equal(t->live_frames, live);
    for (unsigned int o = 0; o < TRACE_NR_ORDERS; o++)
        assert_int_equal(t->live_by_order[o] << o, by_order[o]);
}

static void test_against_oracle(void **state)
{
    uint64_t seed = test_seed(), peak = 0;
    struct trace_model *m = trace_model_new();
    const struct trace_totals *t = trace_model_totals(m);

    (void)state;
    for (uint64_t i = 0; i < test_effort(200000); i++) {
        uint8_t order = (uint8_t)(test_random_below(&seed, 4) == 0 ? test_random_below(&seed, 13)
                                                                   : test_random_below(&seed, 4));
        uint64_t pfn = test_random_below(&seed, FRAMES) & ~(uint64_t)((1u << order) - 1);
        bool alloc = test_random_below(&seed, 2) == 0;
        enum trace_step want = alloc ? oracle_alloc(pfn, order) : oracle_free(pfn, order);
        struct trace_step_detail d = step(m, alloc ? TRACE_ALLOC : TRACE_FREE, pfn, order, 0);

        if (d.step != want)
            fail_msg("step %" PRIu64 ": %s of %" PRIu64 " order %u is %d, want %d", i,
                     alloc ? "alloc" : "free", pfn, order, (int)d.step, (int)want);
        if (i % 64 == 0)
            check_totals(t);
        if (t->live_frames > peak)
            peak = t->live_frames;
    }
    check_totals(t);
    assert_int_equal(t->peak_frames, peak);
    assert_true(t->double_allocs > 0 && t->several_frees > 0 && t->split_blocks > 0);
    assert_int_equal(t->live_frames,
                     t->alloc_frames - t->lost_frames - (t->free_frames - t->adopted_frames));
    trace_model_free(m);
}

/* --- lists ----------------------------------------------------------------------------------- */

static void test_list(void **state)
{
    uint64_t seed = test_seed();
    struct trace_list list = {0};
    uint32_t changing = 0, seen = 0;

    (void)state;
    for (unsigned int i = 0; i < 10000; i++) {
        static const uint32_t cpus[] = {0, 1, 7, TRACE_MAX_CPUS - 1};
        struct trace_event e = event((uint8_t)test_random_below(&seed, TRACE_NR_TYPES), i, 0,
                                     cpus[test_random_below(&seed, 4)]);

        changing += e.type == TRACE_ALLOC || e.type == TRACE_FREE;
        assert_true(trace_list_add(&list, &e));
    }
    assert_int_equal(list.nr, changing);
    assert_true(trace_list_order(&list));
    assert_int_equal(list.nr_cpus, 4);
    for (uint32_t c = 0; c < list.nr_cpus; c++) {
        const struct trace_cpu_events *of = &list.cpus[c];

        assert_true(c == 0 || of->cpu > list.cpus[c - 1].cpu);
        for (uint32_t i = 0; i < of->nr; i++) {
            assert_int_equal(list.events[of->index[i]].cpu, of->cpu);
            assert_true(i == 0 || of->index[i] > of->index[i - 1]);
        }
        seen += of->nr;
    }
    assert_int_equal(seen, list.nr);
    trace_list_free(&list);
    assert_true(trace_list_order(&list)); /* of nothing */
    assert_int_equal(list.nr_cpus, 0);
    trace_list_free(&list);
}

static bool stop(void *context)
{
    return ++*(unsigned int *)context < 3;
}

static void test_stop(void **state)
{
    char *text = NULL, message[TRACE_MESSAGE * 2];
    size_t size = 0;
    unsigned int calls = 0;
    struct trace_list list = {0};
    struct trace *t;

    (void)state;
    text = malloc(20000 * 64);
    assert_non_null(text);
    for (unsigned int i = 0; i < 20000; i++)
        size += (size_t)sprintf(text + size, "x-1 [000] 1.0: mm_page_free: pfn=%u order=0\n", i);
    t = trace_open_memory(text, size, "x", NULL, message);
    assert_non_null(t);
    assert_int_equal(trace_read_all(t, &list, NULL, stop, &calls, message), TRACE_EVENT);
    assert_int_equal(calls, 3);
    assert_true(list.nr > 0 && list.nr < 20000);
    trace_list_free(&list);
    trace_close(t);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pair),           cmocka_unit_test(test_adopted),
        cmocka_unit_test(test_pieces),         cmocka_unit_test(test_pieces_of_pieces),
        cmocka_unit_test(test_double),         cmocka_unit_test(test_misaligned),
        cmocka_unit_test(test_huge),           cmocka_unit_test(test_shared),
        cmocka_unit_test(test_against_oracle), cmocka_unit_test(test_list),
        cmocka_unit_test(test_stop),
    };

    return cmocka_run_group_tests_name("trace_model", tests, NULL, NULL);
}
