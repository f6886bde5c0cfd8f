/* SPDX-License-Identifier: MIT */
/*
 * Table `pair`: allocate a block, free it; every order, alone and on two CPUs, with nothing and
 * with 256 blocks outstanding (then: 256 allocated one by one, freed in the same order).
 *
 * With nothing outstanding a cache serves every request; 256 outstanding of the larger orders
 * exceed what a cache holds, so that the shared level is part of the figure. Frames are only
 * numbers here: 2 x 256 blocks of order 10 are 2 GiB of them.
 */
#include "bench.h"

#define PAIR_LANES                                                                                 \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) | BENCH_LANE(BENCH_LANE_LOCK) |   \
     BENCH_LANE(BENCH_LANE_RSEQ) | BENCH_LANE(BENCH_LANE_CELLS))
#define POOL_BYTES  (UINT64_C(6) << 30)
#define OUTSTANDING 256u

struct pair_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned order, out, threads, rseq_scaling, cells_scaling;
};

static struct pair_table make_table(void)
{
    struct bench_column count = {.kind = BENCH_COLUMN_COUNT, .ratio_to = -1};
    struct bench_column scaling = {.kind = BENCH_COLUMN_NUMBER, .ratio_to = -1, .decimals = 2};
    struct pair_table t = {
        .table = bench_table_create(
            "pair", "pair: allocate and free a block, `out` blocks outstanding per thread; "
                    "cycles per pair")};

    count.name = "order";
    t.order = bench_table_add_column(t.table, count);
    count.name = "out";
    count.key = "outstanding";
    t.out = bench_table_add_column(t.table, count);
    count.name = "thr";
    count.key = "threads";
    t.threads = bench_table_add_column(t.table, count);
    t.lanes = bench_add_lane_columns(t.table, PAIR_LANES);
    scaling.name = "rseq x1";
    scaling.key = "scaling_rseq";
    t.rseq_scaling = bench_table_add_column(t.table, scaling);
    scaling.name = "cells x1";
    scaling.key = "scaling_cells";
    t.cells_scaling = bench_table_add_column(t.table, scaling);
    return t;
}

static unsigned add_row(const struct pair_table *t, const struct bench_shape *shape)
{
    unsigned row = bench_table_add_row(t->table);

    bench_table_set_count(t->table, row, t->order, shape->order);
    bench_table_set_count(t->table, row, t->out, shape->nr);
    bench_table_set_count(t->table, row, t->threads, shape->threads);
    return row;
}

/* Pairs per second of two threads against those of one, whose row is the one before. */
static void set_scaling(const struct pair_table *t, unsigned row, enum bench_lane_kind kind,
                        unsigned column)
{
    unsigned cycles = (unsigned)t->lanes.of[kind];
    double one = bench_table_min(t->table, row - 1, cycles);

    bench_table_set_number(t->table, row, column,
                           2 * bench_ratio(one, bench_table_min(t->table, row, cycles)));
}

static void measure(struct bench *bench, const struct bench_set *set, const struct pair_table *t)
{
    unsigned most_threads = bench->nr_cpus > 1 ? 2 : 1, done = 0;

    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++) {
        for (unsigned many = 0; many < 2; many++) {
            for (unsigned threads = 1; threads <= most_threads; threads++) {
                struct bench_shape shape = {.kind = many ? BENCH_ROUNDS : BENCH_PAIRS,
                                            .threads = threads,
                                            .gfp = DECKLE_GFP_KERNEL,
                                            .order = order,
                                            .nr = many ? OUTSTANDING : 1};
                unsigned row = add_row(t, &shape);
                struct bench_row lanes = bench_row_for(set, shape, t->table, row, &t->lanes);

                bench_progress(bench, done++, BENCH_NR_ORDERS * 2 * most_threads);
                bench_measure_row(bench, &lanes);
                if (ui_interrupted())
                    return;
                if (threads == 2) {
                    set_scaling(t, row, BENCH_LANE_RSEQ, t->rseq_scaling);
                    set_scaling(t, row, BENCH_LANE_CELLS, t->cells_scaling);
                }
            }
        }
    }
}

static void set_goals(const struct pair_table *t, unsigned most_threads)
{
    unsigned limit = (unsigned)t->lanes.of[BENCH_LANE_LIMIT];
    unsigned rseq = (unsigned)t->lanes.of[BENCH_LANE_RSEQ];
    unsigned cells = (unsigned)t->lanes.of[BENCH_LANE_CELLS];
    struct bench_worst order = BENCH_WORST, two = BENCH_WORST;
    double first = bench_table_min(t->table, 0, rseq);

    for (unsigned row = 0; row < bench_table_rows(t->table); row++) {
        unsigned of = row / (2 * most_threads), many = row / most_threads % 2;
        double mine = bench_table_min(t->table, row, rseq);

        if (row % most_threads == 1)
            bench_worst_add(&two, bench_ratio(mine, bench_table_min(t->table, row - 1, rseq)),
                            "order %u, %u outstanding", of, many ? OUTSTANDING : 1);
        else if (!many)
            bench_worst_add(&order, bench_ratio(mine, first), "order %u", of);
    }
    bench_table_goal(t->table, BENCH_AT_MOST, 1.25,
                     bench_ratio(first, bench_table_min(t->table, 0, limit)),
                     "order-0 pair / limit");
    bench_table_goal(t->table, BENCH_AT_MOST, 1.2, order.value,
                     "pair of any order / order-0 pair (worst: %s)", order.where);
    bench_table_goal(t->table, BENCH_AT_MOST, 40, bench_table_min(t->table, 0, cells),
                     "order-0 pair through cells, cycles");
    bench_table_goal(t->table, BENCH_AT_MOST, 1.05, two.value, "two CPUs / one CPU (worst: %s)",
                     two.where);
}

int bench_pair(struct bench *bench)
{
    struct bench_wish wish = {.lanes = PAIR_LANES,
                              .nr_cpus = bench->nr_cpus > 1 ? 2 : 1,
                              .pool_bytes = POOL_BYTES,
                              .backing = BENCH_BACKING_NONE};
    struct bench_set set;
    struct pair_table t;
    int status;

    for (uint32_t order = 0; order < BENCH_NR_ORDERS; order++)
        wish.stock.blocks[order] = OUTSTANDING;
    status = bench_set_open(bench, &wish, &set);
    if (status != 0)
        return status;
    t = make_table();
    bench_set_note(&set, t.table);
    bench_table_note(t.table, "x1: pairs per second of two threads against one thread");
    measure(bench, &set, &t);
    bench_note_hop(bench, t.table);
    set_goals(&t, wish.nr_cpus);
    status = bench_publish(bench, t.table);
    return bench_set_close(&set) != 0 ? UI_FAULT : status;
}
