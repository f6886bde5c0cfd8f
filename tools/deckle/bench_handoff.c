/* SPDX-License-Identifier: MIT */
/*
 * Table `handoff`: the shape of the Linux kernel's page_bench05. One CPU allocates batches of 64
 * blocks and puts them into a ring, the other takes them out and frees them: nothing that is freed
 * comes back to who allocated it but through what the CPUs share.
 *
 * Per block and side, the mean of the two; `floor` is the ring alone. The reference is
 * `limit-shared`: per-CPU stacks that exchange 64 entries with one stack under one lock. The cost
 * of a moved cache line decides everything here and differs from machine to machine, and on
 * virtual machines from minute to minute: only ratios of one run mean something.
 */
#include "bench.h"

#define HANDOFF_LANES                                                                              \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT_SHARED) |                          \
     BENCH_LANE(BENCH_LANE_LOCK) | BENCH_LANE(BENCH_LANE_RSEQ) | BENCH_LANE(BENCH_LANE_CELLS))
#define STOCK      16384u /* of each order and CPU, in the references */
#define POOL_BYTES (UINT64_C(4) << 30)

struct handoff_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned order, calls;
};

static struct handoff_table make_table(void)
{
    struct handoff_table t = {
        .table = bench_table_create("handoff", "handoff: one CPU allocates batches of 64, another "
                                               "frees them; cycles per block on each")};

    t.order = bench_table_add_column(
        t.table,
        (struct bench_column){.name = "order", .kind = BENCH_COLUMN_COUNT, .ratio_to = -1});
    t.calls = bench_table_add_column(
        t.table, (struct bench_column){.name = "calls", .kind = BENCH_COLUMN_TEXT, .ratio_to = -1});
    t.lanes = bench_add_lane_columns(t.table, HANDOFF_LANES);
    return t;
}

static unsigned measure(struct bench *bench, const struct bench_set *set,
                        const struct handoff_table *t, uint32_t order, bool bulk)
{
    struct bench_shape shape = {.kind = bulk ? BENCH_HANDOFF_BULK : BENCH_HANDOFF,
                                .threads = 2,
                                .gfp = DECKLE_GFP_ATOMIC | DECKLE_GFP_NOWARN,
                                .order = order,
                                .nr = BENCH_RING_BATCH};
    unsigned row = bench_table_add_row(t->table);
    struct bench_row lanes = bench_row_for(set, shape, t->table, row, &t->lanes);

    bench_table_set_count(t->table, row, t->order, order);
    bench_table_set_text(t->table, row, t->calls, bulk ? "bulk" : "single");
    bench_measure_row(bench, &lanes);
    return row;
}

static void set_goal(const struct handoff_table *t, unsigned row, const char *calls)
{
    double limit = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_LIMIT_SHARED]);
    double mine = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_RSEQ]);

    bench_table_goal(t->table, BENCH_AT_MOST, 1.5, bench_ratio(mine, limit),
                     "hand-off, %s calls / limit-shared", calls);
}

int bench_handoff(struct bench *bench)
{
    struct bench_wish wish = {.lanes = HANDOFF_LANES,
                              .nr_cpus = 2,
                              .stock = {.blocks = {STOCK, 0, 0, STOCK}},
                              .pool_bytes = POOL_BYTES,
                              .backing = BENCH_BACKING_NONE};
    struct handoff_table t = make_table();
    struct bench_set set;
    int status;

    if (bench->nr_cpus < 2) {
        bench_note_hop(bench, t.table); /* says that it is skipped */
        return bench_publish(bench, t.table);
    }
    status = bench_set_open(bench, &wish, &set);
    if (status != UI_OK) {
        bench_table_destroy(t.table);
        return status;
    }
    bench_set_note(&set, t.table);
    set_goal(&t, measure(bench, &set, &t, 0, false), "single");
    if (!ui_interrupted())
        set_goal(&t, measure(bench, &set, &t, 0, true), "bulk");
    if (!ui_interrupted())
        measure(bench, &set, &t, 3, false);
    bench_note_hop(bench, t.table);
    status = bench_publish(bench, t.table);
    return bench_set_close(&set) != UI_OK ? UI_FAULT : status;
}
