/* SPDX-License-Identifier: MIT */
/*
 * Table `create`: how long deckle_create() takes for pools from 4 GiB to 16 TiB, and how much of
 * their metadata it touches. Metadata is mapped lazily, so neither should grow with the pool beyond
 * the number of CPUs and of edges of its range. Each creation has a process of its own.
 */
#include "bench.h"
#include "bench_child.h"

#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

static const uint64_t sizes[] = {4 * GIB, 64 * GIB, TIB, 16 * TIB};

#define NR_SIZES (sizeof(sizes) / sizeof(sizes[0]))

struct create_figures {
    uint64_t metadata, touched;
    double ns;
};

struct create_table {
    struct bench_table *table;
    unsigned pool, time, touched, metadata;
};

static int child(const void *wish, void *to)
{
    struct create_figures *figures = to;
    struct bench_pool pool;
    int status = bench_pool_open(&pool, *(const uint64_t *)wish, 0, BENCH_BACKING_NONE);

    if (status != UI_OK)
        return status;
    figures->metadata = pool.metadata_bytes;
    figures->touched = bench_pool_touched(&pool);
    figures->ns = pool.create_ns;
    return UI_OK;
}

static struct create_table make_table(void)
{
    struct bench_column column = {.ratio_to = -1, .kind = BENCH_COLUMN_BYTES};
    struct create_table t = {
        .table =
            bench_table_create("create", "create: deckle_create() in a new process; cycles for the "
                                         "call, metadata that it touches")};

    column.name = "pool";
    column.key = "pool_bytes";
    t.pool = bench_table_add_column(t.table, column);
    t.time = bench_table_add_column(
        t.table, (struct bench_column){.name = "create",
                                       .kind = BENCH_COLUMN_CYCLES,
                                       .ratio_to = -1,
                                       .show = BENCH_SHOW_MEDIAN | BENCH_SHOW_NS});
    column.name = "touched";
    column.key = "touched_bytes";
    t.touched = bench_table_add_column(t.table, column);
    column.name = "of metadata";
    column.key = "metadata_bytes";
    t.metadata = bench_table_add_column(t.table, column);
    return t;
}

static int measure(const struct bench *bench, const struct create_table *t, uint64_t bytes)
{
    struct create_figures figures = {0, 0, 0};
    unsigned row = bench_table_add_row(t->table);
    char text[UI_NUMBER];

    bench_table_set_count(t->table, row, t->pool, bytes);
    for (unsigned run = 0; run < bench->runs && !ui_interrupted(); run++) {
        int status = bench_child_run("create", child, &bytes, &figures, sizeof(figures));

        if (status == UI_MISSING) { /* the child has said why */
            bench_table_note(t->table, "%s: skipped: the system does not give the addresses",
                             ui_bytes(text, bytes));
            return UI_OK;
        }
        if (status != UI_OK)
            return status;
        bench_table_sample(t->table, row, t->time, figures.ns * bench->ghz);
    }
    bench_table_set_count(t->table, row, t->touched, figures.touched);
    bench_table_set_count(t->table, row, t->metadata, figures.metadata);
    if (bytes == 16 * TIB) {
        bench_table_goal(t->table, BENCH_AT_MOST, 1,
                         bench_table_min(t->table, row, t->time) / bench->ghz / 1e6,
                         "16 TiB created, ms");
        bench_table_goal(t->table, BENCH_AT_MOST, 1, (double)figures.touched / (1 << 20),
                         "16 TiB created, MiB touched");
    }
    return UI_OK;
}

int bench_create(struct bench *bench)
{
    struct create_table t = make_table();
    int status = UI_OK, published;

    for (size_t i = 0; i < NR_SIZES && status == UI_OK && !ui_interrupted(); i++) {
        bench_progress(bench, (unsigned)i, NR_SIZES);
        status = measure(bench, &t, sizes[i]);
    }
    published = bench_publish(bench, t.table);
    return status != UI_OK ? status : published;
}
