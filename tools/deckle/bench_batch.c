/* SPDX-License-Identifier: MIT */
/*
 * Table `batch`: N blocks allocated one by one, then freed in the same order, each half timed by
 * itself: the shape behind the kernel's alloc-odrX-N and free-odrX-N figures.
 *
 * The corrected figures use ordered clock readings and subtract their overhead. For small N they
 * contain the latency of a pipeline that has just been emptied; `floor` shows how much. The column
 * "mmtests" is what that suite's script would have printed: N + 1 blocks, divided by N, clock
 * readings neither ordered nor subtracted. Linux results of that kind compare with this column
 * only.
 */
#include "bench.h"

#define BATCH_LANES                                                                                \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) |                                 \
     BENCH_LANE(BENCH_LANE_LIMIT_SHARED) | BENCH_LANE(BENCH_LANE_LOCK) |                           \
     BENCH_LANE(BENCH_LANE_RSEQ))
#define ORDERS     5u
#define MOST       131072u
#define POOL_BYTES (UINT64_C(10) << 30) /* 131073 blocks of order 4 are 8 GiB */

struct batch_half {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned n, compat;
};

static struct batch_half make_half(const char *what, uint32_t order, unsigned lanes)
{
    char name[64], caption[160];
    struct batch_half half;

    snprintf(name, sizeof(name), "batch-%s-odr%u", what, order);
    snprintf(caption, sizeof(caption),
             "%s-odr%u-N: N blocks of order %u one by one; cycles per block, the %s half", what,
             order, order, what);
    half.table = bench_table_create(name, caption);
    half.n = bench_table_add_column(
        half.table,
        (struct bench_column){.name = "N", .key = "n", .kind = BENCH_COLUMN_COUNT, .ratio_to = -1});
    half.lanes = bench_add_lane_columns(half.table, lanes);
    half.compat = bench_table_add_column(
        half.table,
        (struct bench_column){.name = "mmtests", .kind = BENCH_COLUMN_CYCLES, .ratio_to = -1});
    return half;
}

static void measure_n(struct bench *bench, const struct bench_set *set, uint32_t order, size_t n,
                      struct batch_half halves[2])
{
    struct bench_shape shape = {.kind = BENCH_BATCH,
                                .threads = 1,
                                .gfp = DECKLE_GFP_KERNEL | DECKLE_GFP_NOWARN,
                                .order = order,
                                .nr = n};
    unsigned row = bench_table_add_row(halves[0].table);
    struct bench_row lanes, compat = {.nr = 1};

    bench_table_add_row(halves[1].table);
    for (unsigned i = 0; i < 2; i++)
        bench_table_set_count(halves[i].table, row, halves[i].n, n);
    lanes = bench_row_for(set, shape, halves[0].table, row, &halves[0].lanes);
    bench_row_second(&lanes, halves[1].table);
    bench_measure_row(bench, &lanes);

    compat.shape = shape;
    compat.shape.kind = BENCH_BATCH_COMPAT;
    compat.lanes[0].lane = bench_set_lane(set, BENCH_LANE_RSEQ);
    compat.lanes[0].targets[0] = (struct bench_target){halves[0].table, row, halves[0].compat};
    compat.lanes[0].targets[1] = (struct bench_target){halves[1].table, row, halves[1].compat};
    if (!ui_interrupted())
        bench_measure_row(bench, &compat);
}

/* With --quick fewer sizes: those that goals name are among them. */
static size_t next_n(const struct bench *bench, size_t n)
{
    bool wide = n == 64 || n == 1024;

    return bench->quick ? (wide ? 16 : 8) * n : 2 * n;
}

static double min_at(const struct batch_half *half, const size_t *sizes, size_t n,
                     enum bench_lane_kind kind)
{
    for (unsigned row = 0; row < bench_table_rows(half->table); row++)
        if (sizes[row] == n)
            return bench_table_min(half->table, row, (unsigned)half->lanes.of[kind]);
    return NAN;
}

/* alloc and free have different bounds. */
static void set_goals(const struct batch_half *half, const size_t *sizes, double bound)
{
    double cached = min_at(half, sizes, 64, BENCH_LANE_RSEQ);
    double most = min_at(half, sizes, 131072, BENCH_LANE_RSEQ);

    bench_table_goal(half->table, BENCH_AT_MOST, 2,
                     bench_ratio(cached, min_at(half, sizes, 64, BENCH_LANE_LIMIT)),
                     "N = 64 / limit");
    bench_table_goal(half->table, BENCH_AT_MOST, bound, min_at(half, sizes, 16384, BENCH_LANE_RSEQ),
                     "N = 16384, cycles");
    bench_table_goal(half->table, BENCH_AT_MOST, bound, most, "N = 131072, cycles");
    bench_table_goal(half->table, BENCH_AT_MOST, 1.5,
                     bench_ratio(most, min_at(half, sizes, 1024, BENCH_LANE_RSEQ)),
                     "N = 131072 / N = 1024");
}

static int batch_order(struct bench *bench, uint32_t order)
{
    unsigned lanes = BATCH_LANES | (order == 0 ? BENCH_LANE(BENCH_LANE_CELLS) : 0);
    struct bench_wish wish = {
        .lanes = lanes, .nr_cpus = 1, .pool_bytes = POOL_BYTES, .backing = BENCH_BACKING_NONE};
    struct batch_half halves[2];
    size_t sizes[32];
    struct bench_set set;
    int status;

    wish.stock.blocks[order] = MOST + 1;
    status = bench_set_open(bench, &wish, &set);
    if (status != 0)
        return status;
    halves[0] = make_half("alloc", order, lanes);
    halves[1] = make_half("free", order, lanes);
    bench_set_note(&set, halves[0].table);
    for (size_t n = 1; n <= MOST && !ui_interrupted(); n = next_n(bench, n)) {
        bench_progress(bench, order, ORDERS);
        sizes[bench_table_rows(halves[0].table)] = n;
        measure_n(bench, &set, order, n, halves);
    }
    if (order == 0) {
        set_goals(&halves[0], sizes, 7);
        set_goals(&halves[1], sizes, 8);
    }
    status = bench_publish(bench, halves[0].table);
    status |= bench_publish(bench, halves[1].table);
    return bench_set_close(&set) != 0 ? UI_FAULT : status;
}

int bench_batch(struct bench *bench)
{
    int status = 0;

    for (uint32_t order = 0; order < ORDERS && !ui_interrupted() && status == 0; order++)
        if (!bench->quick || order == 0 || order == 3)
            status = batch_order(bench, order);
    return status;
}
