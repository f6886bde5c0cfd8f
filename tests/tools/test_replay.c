/* SPDX-License-Identifier: MIT */
/*
 * Plans and runs of small made-up traces: what each kind of event becomes, what is counted, that
 * runs in order and free-running do the same, and that a run finds what it is there to find: memory
 * that is too small, and a pool that gives a frame twice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "replay_threads.h"
#include "testing.h"
#include "ui.h"

/* --- traces ---------------------------------------------------------------------------------- */

struct sketch {
    struct replay_plan plan;
    uint64_t line;
};

static void begin(struct sketch *s)
{
    memset(s, 0, sizeof(*s));
    assert_true(replay_plan_init(&s->plan, false));
}

static void event(struct sketch *s, enum trace_type type, uint32_t cpu, uint64_t pfn,
                  unsigned int order, uint32_t gfp)
{
    struct trace_event e = {.type = (uint8_t)type,
                            .cpu = cpu,
                            .pfn = pfn,
                            .order = (uint8_t)order,
                            .gfp = gfp,
                            .migratetype = gfp & DECKLE_GFP_MOVABLE ? 1 : 0,
                            .line = ++s->line,
                            .events = 1};
    const char *why = NULL;

    assert_true(replay_plan_event(&s->plan, &e, &why));
    assert_null(why);
}

static void alloc(struct sketch *s, uint32_t cpu, uint64_t pfn, unsigned int order)
{
    event(s, TRACE_ALLOC, cpu, pfn, order, DECKLE_GFP_KERNEL);
}

static void release(struct sketch *s, uint32_t cpu, uint64_t pfn, unsigned int order)
{
    event(s, TRACE_FREE, cpu, pfn, order, 0);
}

static void end(struct sketch *s)
{
    assert_true(replay_plan_finish(&s->plan));
}

static void expect_op(const struct sketch *s, uint32_t n, enum replay_kind kind, uint32_t slot,
                      uint32_t offset, unsigned int order, unsigned int flags)
{
    const struct replay_op *op = &s->plan.ops[n];

    assert_true(n < s->plan.nr_ops);
    assert_int_equal(op->kind, kind);
    assert_int_equal(op->slot, slot);
    assert_int_equal(op->offset, offset);
    assert_int_equal(op->order, order);
    assert_int_equal(op->flags, flags);
}

/* Runs the plan and hands out what came of it; the pool is closed. */
static int play(struct sketch *s, const struct replay_options *options,
                struct replay_result *result)
{
    struct replay_options with = *options;
    struct replay_pool pool;
    int status;

    with.nodes = with.nodes > 0 ? with.nodes : 1;
    with.repeat = with.repeat > 0 ? with.repeat : 1;
    status = replay_pool_open(&pool, &with, s->plan.counts.peak_frames, s->plan.max_order,
                              s->plan.nr_columns);
    if (status != UI_OK)
        return status;
    status = replay_run(&s->plan, &pool, &with, "test", result);
    if (atomic_load(&pool.bad) > 0)
        status = UI_FAULT;
    replay_pool_close(&pool);
    return status;
}

static bool clean(const struct replay_result *r)
{
    const struct replay_counts *c = &r->counts;
    uint64_t failed = 0;

    for (int e = 0; e < 32; e++)
        failed += c->failures[e];
    if (r->invalid[0] != '\0')
        printf("%s\n", r->invalid);
    return failed == 0 && c->refused == 0 && c->two_owners == 0 && c->not_zero == 0 &&
           c->nothing_to_free == 0 && r->adopt_failures == 0 && r->invalid[0] == '\0';
}

/* In order and free-running, with both kinds of caches, on one node and on three: always clean. */
static void play_all_ways(struct sketch *s, struct replay_result *last)
{
    for (unsigned int way = 0; way < 8; way++) {
        struct replay_options options = {
            .free_running = way & 1, .cells = way & 2, .nodes = way & 4 ? 3 : 1, .repeat = 2};

        assert_int_equal(play(s, &options, last), UI_OK);
        assert_true(clean(last));
        assert_int_equal(last->rounds, 2);
        assert_int_equal(last->counts.events, 2 * s->plan.counts.events);
    }
}

/* --- plans ----------------------------------------------------------------------------------- */

static void plain_and_remote(void **state)
{
    static struct replay_result result;
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0x1000, 0);
    alloc(&s, 1, 0x2008, 3);
    release(&s, 1, 0x1000, 0);
    alloc(&s, 0, 0x1000, 0); /* the same frame again: another slot */
    release(&s, 1, 0x2008, 3);
    end(&s);
    assert_int_equal(s.plan.nr_ops, 5);
    expect_op(&s, 0, REPLAY_ALLOC, 1, 0, 0, 0);
    expect_op(&s, 1, REPLAY_ALLOC, 2, 0, 3, 0);
    expect_op(&s, 2, REPLAY_FREE, 1, 0, 0, REPLAY_REMOTE);
    expect_op(&s, 3, REPLAY_ALLOC, 3, 0, 0, 0);
    expect_op(&s, 4, REPLAY_FREE, 2, 0, 3, 0);
    assert_int_equal(s.plan.ops[3].ahead, 9);
    assert_int_equal(s.plan.counts.peak_frames, 9);
    assert_int_equal(s.plan.nr_columns, 2);
    assert_int_equal(s.plan.columns[0].nr, 2);
    assert_int_equal(s.plan.columns[1].nr, 3);
    play_all_ways(&s, &result);
    assert_int_equal(result.counts.remote, 2);
    assert_int_equal(result.live_frames, 1);
    assert_int_equal(result.live_blocks, 1);
    replay_plan_free(&s.plan);
}

static void adopted(void **state)
{
    static struct replay_result result;
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0x100, 0);
    release(&s, 0, 0x3000, 1); /* nobody has seen it come */
    alloc(&s, 0, 0x3000, 0);
    release(&s, 1, 0x200, 9);
    release(&s, 1, 0x300, 0); /* and once more: another block from before */
    end(&s);
    assert_int_equal(s.plan.counts.adopted_blocks, 3);
    assert_int_equal(s.plan.counts.adopted_frames, 2 + 512 + 1);
    /* All adopted ones at first, and one frame more. */
    assert_int_equal(s.plan.counts.peak_frames, 515 + 1);
    assert_int_equal(s.plan.adopted[0].order, 9);
    assert_int_equal(s.plan.adopted[1].order, 1);
    assert_int_equal(s.plan.adopted[2].order, 0);
    expect_op(&s, 1, REPLAY_FREE, 2, 0, 1, REPLAY_ADOPTED);
    play_all_ways(&s, &result);
    assert_int_equal(result.counts.adopted, 2 * 3);
    assert_int_equal(result.live_frames, 2);
    replay_plan_free(&s.plan);
}

static void pieces(void **state)
{
    static struct replay_result result;
    struct sketch s;

    (void)state;
    begin(&s);
    event(&s, TRACE_ALLOC, 0, 0x200, 9, DECKLE_GFP_KERNEL | DECKLE_GFP_COMP);
    release(&s, 1, 0x208, 3); /* split into blocks of 8 */
    release(&s, 0, 0x210, 3);
    release(&s, 0, 0x21a, 1); /* one of them split into pairs */
    release(&s, 1, 0x218, 1);
    end(&s);
    assert_int_equal(s.plan.nr_ops, 7);
    expect_op(&s, 1, REPLAY_SPLIT, 1, 0, 3, 0);
    assert_int_equal(s.plan.ops[1].old_order, 9);
    expect_op(&s, 2, REPLAY_FREE, 1, 8, 3, REPLAY_REMOTE | REPLAY_PIECE);
    expect_op(&s, 3, REPLAY_FREE, 1, 0x10, 3, REPLAY_PIECE);
    expect_op(&s, 4, REPLAY_SPLIT, 1, 0x18, 1, 0);
    assert_int_equal(s.plan.ops[4].old_order, 3);
    expect_op(&s, 5, REPLAY_FREE, 1, 0x1a, 1, REPLAY_PIECE);
    assert_int_equal(s.plan.ops[0].need, 0);
    assert_int_equal(s.plan.ops[1].need, 1);
    assert_int_equal(s.plan.ops[3].need, 2);
    assert_int_equal(s.plan.ops[6].need, 3);
    assert_int_equal(s.plan.counts.dissolved, 1);
    assert_int_equal(s.plan.ops[0].gfp & DECKLE_GFP_COMP, 0);
    play_all_ways(&s, &result);
    assert_int_equal(result.counts.splits, 2 * 2);
    assert_int_equal(result.counts.pieces, 2 * 4);
    assert_int_equal(result.live_frames, 512 - 8 - 8 - 4);
    replay_plan_free(&s.plan);
}

static void several_at_once(void **state)
{
    static struct replay_result result;
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0x40, 1);
    alloc(&s, 0, 0x44, 0);
    release(&s, 0, 0x40, 3); /* 2 live, 2 not, 1 live, 1 + 2 not */
    end(&s);
    assert_int_equal(s.plan.nr_ops, 2 + 5);
    expect_op(&s, 2, REPLAY_FREE, 1, 0, 1, REPLAY_SEVERAL);
    expect_op(&s, 3, REPLAY_FREE, 3, 0, 1, REPLAY_SEVERAL | REPLAY_ADOPTED);
    expect_op(&s, 4, REPLAY_FREE, 2, 0, 0, REPLAY_SEVERAL);
    expect_op(&s, 5, REPLAY_FREE, 4, 0, 0, REPLAY_SEVERAL | REPLAY_ADOPTED);
    expect_op(&s, 6, REPLAY_FREE, 5, 0, 1, REPLAY_SEVERAL | REPLAY_ADOPTED);
    assert_true(s.plan.ops[2].first && !s.plan.ops[3].first);
    play_all_ways(&s, &result);
    assert_int_equal(result.counts.several, 2 * 5);
    assert_int_equal(result.live_frames, 0);
    replay_plan_free(&s.plan);
}

static void allocated_twice(void **state)
{
    static struct replay_result result;
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0x80, 2);
    alloc(&s, 1, 0x82, 0); /* inside: the whole block must have been freed */
    alloc(&s, 0, 0x90, 0);
    alloc(&s, 0, 0x91, 0);
    alloc(&s, 0, 0x90, 2); /* around: both of them */
    end(&s);
    assert_int_equal(s.plan.nr_ops, 5 + 3);
    expect_op(&s, 1, REPLAY_FREE, 1, 0, 2, REPLAY_LOST | REPLAY_REMOTE);
    expect_op(&s, 5, REPLAY_FREE, 3, 0, 0, REPLAY_LOST);
    expect_op(&s, 6, REPLAY_FREE, 4, 0, 0, REPLAY_LOST);
    assert_int_equal(s.plan.counts.peak_frames, 5);
    play_all_ways(&s, &result);
    assert_int_equal(result.counts.lost, 2 * 3);
    assert_int_equal(result.live_frames, 5);
    replay_plan_free(&s.plan);
}

static void request_flags(void **state)
{
    static struct replay_result result;
    struct replay_options options = {0};
    struct sketch s;

    (void)state;
    begin(&s);
    event(&s, TRACE_ALLOC, 0, 1, 0, DECKLE_GFP_KERNEL | DECKLE_GFP_DMA32 | DECKLE_GFP_ZERO);
    event(&s, TRACE_ALLOC, 0, 2, 0, DECKLE_GFP_KERNEL | UINT32_C(1) << 9);
    event(&s, TRACE_ALLOC, 0, 3, 0, DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE); /* says type 0 */
    event(&s, TRACE_ALLOC, 0, 4, 0, DECKLE_GFP_NOFAIL); /* illegal: cannot reclaim */
    event(&s, TRACE_ALLOC, 0, 5, 0, DECKLE_GFP_KERNEL | DECKLE_GFP_NOFAIL);
    alloc(&s, 0, 0x1003, 2); /* misplaced */
    release(&s, 0, 4, 0);    /* there is nothing to free */
    end(&s);
    assert_int_equal(s.plan.counts.zone_bits, 1);
    assert_int_equal(s.plan.counts.unknown_bits, 1);
    assert_int_equal(s.plan.counts.type_differs, 1);
    assert_int_equal(s.plan.counts.illegal, 1);
    assert_string_equal(s.plan.counts.illegal_why, "NOFAIL without DIRECT_RECLAIM");
    assert_int_equal(s.plan.counts.illegal_line, 4);
    assert_int_equal(s.plan.counts.misplaced, 1);
    assert_int_equal(s.plan.ops[0].gfp, DECKLE_GFP_KERNEL);
    assert_int_equal(play(&s, &options, &result), UI_OK);
    assert_int_equal(result.counts.failures[-DECKLE_EINVAL], 1);
    assert_int_equal(result.counts.nothing_to_free, 1);
    assert_int_equal(result.counts.refused, 0);
    assert_int_equal(result.live_frames, 4 + 4);
    replay_plan_free(&s.plan);
}

static void large_orders(void **state)
{
    static struct replay_result result;
    struct replay_options options = {0};
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0, 12);
    alloc(&s, 1, UINT64_C(1) << 40, 20); /* more than a pool can */
    release(&s, 0, UINT64_C(1) << 40, 20);
    release(&s, 1, 0, 12);
    end(&s);
    assert_int_equal(s.plan.max_order, DECKLE_MAX_ORDER_LIMIT);
    assert_int_equal(s.plan.counts.illegal, 1);
    assert_int_equal(play(&s, &options, &result), UI_OK);
    assert_int_equal(result.counts.failures[-DECKLE_E2BIG], 1);
    assert_int_equal(result.counts.nothing_to_free, 1);
    assert_int_equal(result.allocs[12].count, 1);
    assert_int_equal(result.live_frames, 0);
    replay_plan_free(&s.plan);
}

/* --- runs ------------------------------------------------------------------------------------ */

/* Blocks go round four CPUs: each frees what the one before allocated. */
static void many_threads(void **state)
{
    static struct replay_result result;
    struct sketch s;
    uint64_t random = test_seed(), nr = test_effort(2500);
    uint64_t *pfns = calloc(nr, sizeof(*pfns));
    unsigned int *orders = calloc(nr, sizeof(*orders));

    (void)state;
    begin(&s);
    for (uint64_t i = 0; i < nr; i++) {
        orders[i] =
            test_random_below(&random, 10) ? 0 : (unsigned int)test_random_below(&random, 6);
        pfns[i] = i * 64;
        alloc(&s, (uint32_t)(i % 7), pfns[i], orders[i]);
        if (i >= 50)
            release(&s, (uint32_t)(i + 1) % 7, pfns[i - 50], orders[i - 50]);
    }
    end(&s);
    free(pfns);
    free(orders);
    play_all_ways(&s, &result);
    assert_int_equal(result.threads, 7);
    assert_int_equal(result.live_blocks, nr < 50 ? nr : 50);
    replay_plan_free(&s.plan);
}

/* A thread that only allocates and one that only frees: without a bound the first would take all.
 */
static void runs_ahead_no_further_than_the_memory(void **state)
{
    static struct replay_result result;
    struct replay_options options = {.free_running = true};
    struct sketch s;

    (void)state;
    begin(&s);
    for (uint64_t i = 0; i < 10000; i++) {
        alloc(&s, 0, i * 8, 3);
        if (i >= 1000)
            release(&s, 1, (i - 1000) * 8, 3);
    }
    end(&s);
    assert_int_equal(s.plan.counts.peak_frames, 1001 * 8);
    for (unsigned int i = 0; i < 3; i++) {
        assert_int_equal(play(&s, &options, &result), UI_OK);
        assert_true(clean(&result));
        assert_in_range(result.counts.peak_frames, 1, 1001 * 8 + 1001 * 8 / 10 / 2 + 8);
    }
    replay_plan_free(&s.plan);
}

/* Whatever the events, sensible or not: the plan agrees with the model of traces, and runs are
 * clean. */
static void random_traces(void **state)
{
    static struct replay_result result;
    uint64_t random = test_seed(), nr = test_effort(40);

    (void)state;
    for (uint64_t n = 0; n < nr; n++) {
        struct trace_model *model = trace_model_new();
        struct replay_options options = {.free_running = n & 1,
                                         .cells = n & 2,
                                         .nodes = n & 4 ? 2 : 1,
                                         .size_bytes = UINT64_C(8) << 30, /* never fragmented */
                                         .repeat = 1 + (uint32_t)(n % 3)};
        unsigned int most = 1 + (unsigned int)test_random_below(&random, 11);
        struct sketch s;

        begin(&s);
        for (unsigned int i = 0; i < 400; i++) {
            bool takes = test_random_below(&random, 2);
            unsigned int order = (unsigned int)test_random_below(&random, most);
            struct trace_event e = {.type = takes ? TRACE_ALLOC : TRACE_FREE,
                                    .cpu = (uint32_t)test_random_below(&random, 3) * 5,
                                    .pfn = test_random_below(&random, 4096) >> order << order,
                                    .order = (uint8_t)order,
                                    .gfp = takes ? DECKLE_GFP_KERNEL : 0,
                                    .events = 1,
                                    .line = i + 1};
            const char *why = NULL;

            assert_true(replay_plan_event(&s.plan, &e, &why));
            assert_true(trace_model_event(model, &e, NULL));
        }
        end(&s);
        assert_int_equal(play(&s, &options, &result), UI_OK);
        assert_true(clean(&result));
        assert_int_equal(result.live_frames, trace_model_totals(model)->live_frames);
        assert_int_equal(s.plan.counts.adopted_frames, trace_model_totals(model)->adopted_frames);
        assert_true(s.plan.counts.peak_frames >= trace_model_totals(model)->peak_frames);
        if (!options.free_running)
            assert_int_equal(result.counts.peak_frames, s.plan.counts.peak_frames);
        trace_model_free(model);
        replay_plan_free(&s.plan);
    }
}

static void zeroed(void **state)
{
    static struct replay_result result;
    struct replay_options options = {.zero = true, .nodes = 2};
    struct sketch s;

    (void)state;
    begin(&s);
    s.plan.keep_zero = true;
    for (uint64_t i = 0; i < 3000; i++) {
        event(&s, TRACE_ALLOC, i % 2, i * 4, i % 3,
              DECKLE_GFP_KERNEL | (i % 2 ? DECKLE_GFP_ZERO : 0));
        if (i >= 20)
            release(&s, (i + 1) % 2, (i - 20) * 4, (unsigned int)((i - 20) % 3));
    }
    end(&s);
    assert_true((s.plan.ops[1].gfp & DECKLE_GFP_ZERO) != 0);
    assert_int_equal(play(&s, &options, &result), UI_OK);
    assert_true(clean(&result));
    replay_plan_free(&s.plan);
}

static void too_small(void **state)
{
    static struct replay_result result;
    struct replay_options options = {.size_bytes = 100 * 4096};
    struct sketch s;

    (void)state;
    begin(&s);
    for (uint64_t i = 0; i < 200; i++)
        alloc(&s, 0, i, 0);
    for (uint64_t i = 0; i < 200; i++)
        release(&s, 0, i, 0);
    end(&s);
    assert_int_equal(play(&s, &options, &result), UI_OK);
    assert_false(clean(&result));
    assert_in_range(result.counts.failures[-DECKLE_EWATERMARK] +
                        result.counts.failures[-DECKLE_ENOMEM],
                    100, 120);
    assert_in_range(result.counts.failure_line, 81, 101);
    assert_int_equal(result.counts.nothing_to_free, 200 - result.allocs[0].count);
    assert_string_equal(result.invalid, "");
    replay_plan_free(&s.plan);
}

/* A plan with operations that no trace can become. */
static void wrong_frees_are_found(void **state)
{
    static struct replay_result result;
    struct replay_options options = {0};
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0x10, 0);
    alloc(&s, 0, 0x20, 2);
    alloc(&s, 0, 0x30, 0);
    release(&s, 0, 0x10, 0);
    release(&s, 0, 0x20, 2);
    release(&s, 0, 0x30, 0);
    end(&s);
    s.plan.ops[4].order = 1; /* half of the block */
    s.plan.ops[5].slot = 1;  /* for the second time */
    assert_int_equal(play(&s, &options, &result), UI_FAULT);
    assert_int_equal(result.counts.refused, 2);
    assert_int_equal(result.counts.two_owners, 1);
    assert_int_equal(result.counts.fault_line, 5);
    assert_non_null(strstr(result.invalid, "that nobody holds"));
    replay_plan_free(&s.plan);
}

static void second_owners_are_found(void **state)
{
    struct replay_pool pool = {.first_pfn = 0x100, .span = 0x100};
    _Atomic uint8_t owners[0x100] = {0};
    struct replay_run run = {.pool = &pool, .owners = owners};
    struct replay_worker w = {.run = &run};
    struct replay_op op = {.order = 3, .line = 7};

    (void)state;
    replay_own(&w, &op, 0x108);
    assert_int_equal(w.counts.two_owners, 0);
    assert_int_equal(w.counts.peak_frames, 8);
    op.order = 0;
    replay_own(&w, &op, 0x110);
    assert_int_equal(w.counts.two_owners, 0);
    replay_own(&w, &op, 0x10f);
    assert_int_equal(w.counts.two_owners, 1);
    assert_int_equal(w.counts.fault_line, 7);

    assert_true(replay_inside(&pool, 0x100, 8));
    assert_true(replay_inside(&pool, 0x1ff, 0));
    assert_false(replay_inside(&pool, 0x200, 0));
    assert_false(replay_inside(&pool, 0xff, 0));
    assert_false(replay_inside(&pool, 0x101, 1)); /* not aligned */
    assert_false(replay_inside(&pool, 0x100, 9)); /* sticks out */
}

/* Frames that are neither given out nor free in the end: here those of an isolated pageblock. */
static void lost_memory_is_found(void **state)
{
    static struct replay_result result;
    struct replay_options options = {.nodes = 1, .repeat = 1};
    struct replay_pool pool;
    struct sketch s;

    (void)state;
    begin(&s);
    alloc(&s, 0, 0x10, 0);
    end(&s);
    assert_int_equal(replay_pool_open(&pool, &options, 1, 0, 1), UI_OK);
    assert_int_equal(deckle_set_pageblock_type(pool.d, pool.first_pfn + 1024, DECKLE_ISOLATE),
                     DECKLE_OK);
    assert_int_equal(replay_run(&s.plan, &pool, &options, "test", &result), UI_OK);
    assert_non_null(strstr(result.invalid, "3584 of 4096 frames are free"));
    replay_pool_close(&pool);
    replay_plan_free(&s.plan);
}

/* Trips to the shared level: of all rounds, without those for the blocks from before the recording.
 */
static void traffic_is_of_all_rounds(void **state)
{
    static struct replay_result result;
    uint64_t trips = 0;
    struct sketch s;

    (void)state;
    begin(&s);
    for (uint64_t i = 0; i < 1000; i++)
        alloc(&s, 0, i, 0);
    for (uint64_t i = 0; i < 600; i++)
        release(&s, 0, 2000 + i, 0);
    end(&s);
    for (uint32_t rounds = 1; rounds <= 3; rounds++) {
        struct replay_options options = {.repeat = rounds};
        const struct replay_zones *z = &result.after;

        assert_int_equal(play(&s, &options, &result), UI_OK);
        assert_true(clean(&result));
        assert_in_range(z->refill_frames, rounds * 1000, rounds * 1000 + rounds * 512);
        trips = rounds == 1 ? z->refills : trips;
        /* A round may find the caches smaller than the first did, and then takes more trips. */
        assert_in_range(z->refills, rounds * trips - trips / 2, rounds * 1000);
        assert_true(trips >= 1000 / 64);
        assert_in_range(z->drain_frames, 1, rounds * (600 + 512));
        if (rounds == 1)
            assert_int_equal(z->refill_frames + 600,
                             z->drain_frames + z->cached + result.live_frames);
    }
    replay_plan_free(&s.plan);
}

static void figures(void **state)
{
    struct replay_zones z = {.free = 1024 + 512 + 3 * 8 + 16, .blocks = {16, 0, 0, 3}};

    (void)state;
    z.blocks[9] = 1;
    z.blocks[10] = 1;
    assert_int_equal(replay_free_huge(&z), 3);
    assert_int_equal(replay_unusable(&z, 0), 0);
    assert_int_equal(replay_unusable(&z, 1), 16 * 10000 / 1576);
    assert_int_equal(replay_unusable(&z, 4), 40 * 10000 / 1576);
    assert_int_equal(replay_unusable(&z, 10), 552 * 10000 / 1576);
    assert_int_equal(replay_unusable(&z, 11), 10000);
    memset(&z, 0, sizeof(z));
    assert_int_equal(replay_unusable(&z, 3), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_remote),
        cmocka_unit_test(adopted),
        cmocka_unit_test(pieces),
        cmocka_unit_test(several_at_once),
        cmocka_unit_test(allocated_twice),
        cmocka_unit_test(request_flags),
        cmocka_unit_test(large_orders),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(runs_ahead_no_further_than_the_memory),
        cmocka_unit_test(random_traces),
        cmocka_unit_test(zeroed),
        cmocka_unit_test(too_small),
        cmocka_unit_test(wrong_frees_are_found),
        cmocka_unit_test(second_owners_are_found),
        cmocka_unit_test(lost_memory_is_found),
        cmocka_unit_test(traffic_is_of_all_rounds),
        cmocka_unit_test(figures)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
