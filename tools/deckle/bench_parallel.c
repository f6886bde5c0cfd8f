/* SPDX-License-Identifier: MIT */
/*
 * Table `parallel`: the shape of the Linux kernel's page_bench03. Every CPU does 100,000 pairs with
 * nothing outstanding; the figure is the mean over the CPUs. It is the probe of the kernel's zone
 * lock: a design that shares anything on this path shows it here.
 */
#include "bench.h"

#define PARALLEL_LANES                                                                             \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) | BENCH_LANE(BENCH_LANE_LOCK) |   \
     BENCH_LANE(BENCH_LANE_RSEQ) | BENCH_LANE(BENCH_LANE_CELLS))
#define PAIRS        100000u
#define ORDERS       6u
#define BLOCKS       16u /* of each order for each CPU, in the references */
#define POOL_PER_CPU (UINT64_C(256) << 20)
#define POOL_LEAST   (UINT64_C(2) << 30)

struct parallel_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned order, cpus, scaling;
};

static struct parallel_table make_table(void)
{
    struct bench_column count = {.kind = BENCH_COLUMN_COUNT, .ratio_to = -1};
    struct parallel_table t = {
        .table = bench_table_create("parallel",
                                    "parallel: 100,000 pairs on each of `cpus` CPUs at once; "
                                    "cycles per pair, mean of the CPUs")};

    count.name = "order";
    t.order = bench_table_add_column(t.table, count);
    count.name = "cpus";
    t.cpus = bench_table_add_column(t.table, count);
    t.lanes = bench_add_lane_columns(t.table, PARALLEL_LANES);
    t.scaling = bench_table_add_column(t.table, (struct bench_column){.name = "rseq x1",
                                                                      .key = "scaling_rseq",
                                                                      .kind = BENCH_COLUMN_NUMBER,
                                                                      .ratio_to = -1,
                                                                      .decimals = 2});
    return t;
}

/* 1, 2, 3, 4, then every step of about a quarter; always the last. */
static unsigned next_cpus(unsigned cpus, unsigned all)
{
    unsigned next = cpus < 4 ? cpus + 1 : cpus + cpus / 4;

    return cpus < all && next > all ? all : next;
}

static void measure_order(struct bench *bench, const struct bench_set *set,
                          const struct parallel_table *t, uint32_t order)
{
    double one = 0;

    for (unsigned cpus = 1; cpus <= bench->nr_cpus; cpus = next_cpus(cpus, bench->nr_cpus)) {
        struct bench_shape shape = {.kind = BENCH_PAIRS,
                                    .threads = cpus,
                                    .gfp = DECKLE_GFP_ATOMIC | DECKLE_GFP_NOWARN,
                                    .order = order,
                                    .nr = 1,
                                    .most_loops = PAIRS};
        unsigned row = bench_table_add_row(t->table);
        struct bench_row lanes = bench_row_for(set, shape, t->table, row, &t->lanes);
        double least;

        bench_table_set_count(t->table, row, t->order, order);
        bench_table_set_count(t->table, row, t->cpus, cpus);
        bench_measure_row(bench, &lanes);
        if (ui_interrupted())
            return;
        least = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_RSEQ]);
        if (cpus == 1)
            one = least;
        bench_table_set_number(t->table, row, t->scaling, cpus * bench_ratio(one, least));
    }
}

int bench_parallel(struct bench *bench)
{
    struct bench_wish wish = {.lanes = PARALLEL_LANES,
                              .nr_cpus = bench->nr_cpus,
                              .pool_bytes = bench->nr_cpus * POOL_PER_CPU,
                              .backing = BENCH_BACKING_NONE};
    struct bench_set set;
    struct parallel_table t;
    int status;

    if (wish.pool_bytes < POOL_LEAST)
        wish.pool_bytes = POOL_LEAST;
    for (uint32_t order = 0; order < ORDERS; order++)
        wish.stock.blocks[order] = BLOCKS;
    status = bench_set_open(bench, &wish, &set);
    if (status != 0)
        return status;
    t = make_table();
    bench_set_note(&set, t.table);
    bench_table_note(t.table, "x1: pairs per second of all CPUs against one CPU");
    for (uint32_t order = 0; order < ORDERS && !ui_interrupted(); order++) {
        bench_progress(bench, order, ORDERS);
        measure_order(bench, &set, &t, order);
    }
    bench_note_hop(bench, t.table);
    status = bench_publish(bench, t.table);
    return bench_set_close(&set) != 0 ? UI_FAULT : status;
}
