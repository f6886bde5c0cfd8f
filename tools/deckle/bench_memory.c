/* SPDX-License-Identifier: MIT */
/*
 * Table `memory`: what a pool costs in bytes. The metadata is mapped but only touched where
 * something is written, so the bytes that are really backed after creation stand beside the size.
 */
#include "bench.h"
#include "bench_child.h"

struct memory_pool {
    uint64_t bytes;
    uint32_t features;
    const char *name;
};

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

static const struct memory_pool pools[] = {
    {64 * MIB, 0, "default"},
    {GIB, 0, "default"},
    {16 * GIB, 0, "default"},
    {16 * GIB, DECKLE_FEATURE_CELLS, "cells"},
    {16 * GIB, DECKLE_FEATURE_NO_CACHES, "no caches"},
    {16 * GIB, DECKLE_FEATURE_OWNER_TAGS, "owner tags"},
    {16 * GIB, DECKLE_FEATURE_DESCRIPTORS, "descriptors"},
    {16 * GIB, DECKLE_FEATURE_DESCRIPTORS | DECKLE_FEATURE_OWNER_TAGS, "descriptors, tags"},
    {TIB, 0, "default"},
    {16 * TIB, 0, "default"},
};

#define NR_POOLS (sizeof(pools) / sizeof(pools[0]))

struct memory_table {
    struct bench_table *table;
    unsigned pool, features, metadata, per_frame, percent, touched, create;
};

static unsigned add_column(struct bench_table *table, const char *name, const char *key,
                           enum bench_column_kind kind, unsigned decimals)
{
    struct bench_column column = {
        .name = name, .kind = kind, .ratio_to = -1, .decimals = decimals, .key = key};

    return bench_table_add_column(table, column);
}

static struct memory_table make_table(void)
{
    struct memory_table t = {
        .table = bench_table_create(
            "memory",
            "memory: metadata of a pool of 4 KiB frames; what its creation touches, and takes")};

    t.pool = add_column(t.table, "pool", "pool_bytes", BENCH_COLUMN_BYTES, 0);
    t.features = add_column(t.table, "features", "features", BENCH_COLUMN_TEXT, 0);
    t.metadata = add_column(t.table, "metadata", "metadata_bytes", BENCH_COLUMN_BYTES, 0);
    t.per_frame = add_column(t.table, "per frame", "bytes_per_frame", BENCH_COLUMN_NUMBER, 3);
    t.percent = add_column(t.table, "% of pool", "percent", BENCH_COLUMN_NUMBER, 4);
    t.touched = add_column(t.table, "KiB touched", "touched_kib", BENCH_COLUMN_NUMBER, 0);
    t.create = add_column(t.table, "us to create", "create_us", BENCH_COLUMN_NUMBER, 0);
    return t;
}

/* Bytes that the lists of one more CPU add, from the size query. */
static uint64_t bytes_per_cpu(void)
{
    struct deckle_range range = {.pfn = 1, .nr = (16 * GIB) >> BENCH_PAGE_SHIFT};
    struct deckle_config cfg = {.size = sizeof(cfg), .ranges = &range, .nr_ranges = 1};
    size_t few, many;

    cfg.dma_limit_pfn = cfg.dma32_limit_pfn = UINT64_MAX; /* one zone, as deckle_create makes */
    cfg.nr_cpus = 64;
    few = deckle_metadata_size(&cfg);
    cfg.nr_cpus = 128;
    many = deckle_metadata_size(&cfg);
    return (many - few) / 64;
}

struct memory_figures {
    uint64_t metadata, touched;
    double create_ns;
};

static int child(const void *wished, void *to)
{
    const struct memory_pool *wish = wished;
    struct memory_figures *figures = to;
    struct bench_pool pool;
    int status = bench_pool_open(&pool, wish->bytes, wish->features, BENCH_BACKING_NONE);

    if (status != UI_OK)
        return status;
    figures->metadata = pool.metadata_bytes;
    figures->touched = bench_pool_touched(&pool);
    figures->create_ns = pool.create_ns;
    return UI_OK;
}

static void set_goal(const struct memory_pool *wish, const struct memory_table *t, double percent)
{
    if (wish->bytes == 16 * GIB && wish->features == 0)
        bench_table_goal(t->table, BENCH_AT_MOST, 0.03, percent,
                         "default pool of 16 GiB, %% of it");
}

static int measure(const struct memory_pool *wish, const struct memory_table *t)
{
    double bytes = (double)wish->bytes, frames = bytes / (1u << BENCH_PAGE_SHIFT);
    struct memory_figures figures;
    int status = bench_child_run("memory", child, wish, &figures, sizeof(figures));
    char text[UI_NUMBER];
    unsigned row;

    if (status == UI_MISSING) { /* the child has said why */
        bench_table_note(t->table, "%s, %s: skipped: the system does not give the addresses",
                         ui_bytes(text, wish->bytes), wish->name);
        return UI_OK;
    }
    if (status != UI_OK)
        return status;
    row = bench_table_add_row(t->table);
    bench_table_set_count(t->table, row, t->pool, wish->bytes);
    bench_table_set_text(t->table, row, t->features, wish->name);
    bench_table_set_count(t->table, row, t->metadata, figures.metadata);
    bench_table_set_number(t->table, row, t->per_frame, (double)figures.metadata / frames);
    bench_table_set_number(t->table, row, t->percent, 100 * (double)figures.metadata / bytes);
    set_goal(wish, t, 100 * (double)figures.metadata / bytes);
    bench_table_set_number(t->table, row, t->touched, (double)figures.touched / 1024);
    bench_table_set_number(t->table, row, t->create, figures.create_ns / 1000);
    return UI_OK;
}

int bench_memory(struct bench *bench)
{
    struct memory_table t = make_table();
    int status = UI_OK, published;
    char text[UI_NUMBER];

    for (size_t i = 0; i < NR_POOLS && status == UI_OK && !ui_interrupted(); i++) {
        bench_progress(bench, (unsigned)i, NR_POOLS);
        status = measure(&pools[i], &t);
    }
    bench_table_note(t.table, "the lists of each CPU are %s of it",
                     ui_bytes(text, bytes_per_cpu()));
    published = bench_publish(bench, t.table);
    return status != UI_OK ? status : published;
}
