/* SPDX-License-Identifier: MIT */
/*
 * Table `bulk`: the shape of the Linux kernel's page_bench04: one request for `bulk` single frames
 * into an array of holes. Three tables: the request by itself, the bulk free by itself, and the
 * kernel module's own figure, a bulk request whose frames are freed one by one (there its first
 * row, "single", allocates one by one as well).
 */
#include "bench.h"

#define BULK_LANES                                                                                 \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) | BENCH_LANE(BENCH_LANE_LOCK) |   \
     BENCH_LANE(BENCH_LANE_RSEQ) | BENCH_LANE(BENCH_LANE_CELLS))
#define POOL_BYTES (UINT64_C(2) << 30)

static const unsigned bulk_sizes[] = {1, 2, 3, 4, 8, 16, 32, 64, 128};

#define NR_SIZES (sizeof(bulk_sizes) / sizeof(bulk_sizes[0]))

struct bulk_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned bulk;
};

static struct bulk_table make_table(const char *name, const char *caption)
{
    struct bulk_table t = {.table = bench_table_create(name, caption)};

    t.bulk = bench_table_add_column(
        t.table, (struct bench_column){.name = "bulk", .kind = BENCH_COLUMN_TEXT, .ratio_to = -1});
    t.lanes = bench_add_lane_columns(t.table, BULK_LANES);
    return t;
}

static unsigned add_row(const struct bulk_table *t, unsigned bulk)
{
    unsigned row = bench_table_add_row(t->table);
    char text[16];

    snprintf(text, sizeof(text), "%u", bulk);
    bench_table_set_text(t->table, row, t->bulk, bulk > 0 ? text : "single");
    return row;
}

static void measure_size(struct bench *bench, const struct bench_set *set, unsigned bulk,
                         const struct bulk_table t[3])
{
    struct bench_shape shape = {.kind = BENCH_BULK,
                                .threads = 1,
                                .gfp = DECKLE_GFP_ATOMIC | DECKLE_GFP_NORETRY,
                                .nr = bulk > 0 ? bulk : 1};
    unsigned singly = add_row(&t[2], bulk), row;
    struct bench_row lanes;

    if (bulk == 0) {
        shape.kind = BENCH_PAIRS;
        lanes = bench_row_for(set, shape, t[2].table, singly, &t[2].lanes);
        bench_measure_row(bench, &lanes);
        return;
    }
    row = add_row(&t[0], bulk);
    add_row(&t[1], bulk);
    lanes = bench_row_for(set, shape, t[0].table, row, &t[0].lanes);
    bench_row_second(&lanes, t[1].table);
    bench_measure_row(bench, &lanes);
    if (ui_interrupted())
        return;
    shape.kind = BENCH_BULK_SINGLY;
    lanes = bench_row_for(set, shape, t[2].table, singly, &t[2].lanes);
    bench_measure_row(bench, &lanes);
}

static void set_goal(const struct bulk_table *t, double bound)
{
    unsigned rseq = (unsigned)t->lanes.of[BENCH_LANE_RSEQ];

    for (unsigned row = 0; row < bench_table_rows(t->table); row++)
        if (bulk_sizes[row] == 64)
            bench_table_goal(t->table, BENCH_AT_MOST, bound, bench_table_min(t->table, row, rseq),
                             "bulk of 64, cycles per frame");
}

int bench_bulk(struct bench *bench)
{
    struct bench_wish wish = {.lanes = BULK_LANES,
                              .nr_cpus = 1,
                              .stock = {.blocks = {1024}},
                              .pool_bytes = POOL_BYTES,
                              .backing = BENCH_BACKING_NONE};
    struct bench_set set;
    struct bulk_table t[3];
    int status = bench_set_open(bench, &wish, &set);

    if (status != 0)
        return status;
    t[0] = make_table("bulk-alloc", "bulk: one request for `bulk` frames; cycles per frame");
    t[1] = make_table("bulk-free", "bulk: `bulk` frames freed by one call; cycles per frame");
    t[2] = make_table("bulk-singly", "bulk: one request for `bulk` frames, freed one by one; "
                                     "cycles per frame, both halves");
    bench_set_note(&set, t[0].table);
    measure_size(bench, &set, 0, t);
    for (unsigned i = 0; i < NR_SIZES && !ui_interrupted(); i++) {
        bench_progress(bench, i, NR_SIZES);
        measure_size(bench, &set, bulk_sizes[i], t);
    }
    set_goal(&t[0], 2);
    set_goal(&t[1], 3);
    for (unsigned i = 0; i < 3; i++)
        status |= bench_publish(bench, t[i].table);
    return bench_set_close(&set) != 0 ? UI_FAULT : status;
}
