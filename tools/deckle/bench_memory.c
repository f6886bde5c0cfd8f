/* SPDX-License-Identifier: MIT */
/*
 * Table `memory`: what a pool costs in bytes. The metadata is mapped but only touched where
 * something is written, so the bytes that are really backed after creation stand beside the size.
 */
#include "bench.h"

#include <inttypes.h>

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

/* The size query and the pool itself must agree. */
static int check_size(const struct bench_pool *pool, const char *name)
{
    struct deckle_stat stat = {.size = sizeof(stat)};
    int error = deckle_get_stat(pool->d, &stat);

    if (error != DECKLE_OK) {
        ui_error("bench: memory: deckle_get_stat: %s", deckle_strerror(error));
        return UI_FAULT;
    }
    if (stat.metadata_bytes > pool->metadata_bytes) {
        ui_error("bench: memory: %s: the pool uses %" PRIu64 " bytes of metadata, the size query "
                 "said %zu",
                 name, stat.metadata_bytes, pool->metadata_bytes);
        return UI_FAULT;
    }
    return UI_OK;
}

static int measure(const struct bench *bench, const struct memory_pool *wish,
                   const struct memory_table *t)
{
    unsigned ids = bench->cpus[bench->nr_cpus - 1] + 1, row;
    struct bench_pool pool;
    int status = bench_pool_open(&pool, wish->bytes, wish->features, ids, BENCH_BACKING_NONE);

    if (status != UI_OK)
        return status;
    row = bench_table_add_row(t->table);
    bench_table_set_count(t->table, row, t->pool, wish->bytes);
    bench_table_set_text(t->table, row, t->features, wish->name);
    bench_table_set_count(t->table, row, t->metadata, pool.metadata_bytes);
    bench_table_set_number(t->table, row, t->per_frame,
                           (double)pool.metadata_bytes / (double)(wish->bytes >> BENCH_PAGE_SHIFT));
    bench_table_set_number(t->table, row, t->percent,
                           100.0 * (double)pool.metadata_bytes / (double)wish->bytes);
    bench_table_set_number(t->table, row, t->touched, (double)bench_pool_touched(&pool) / 1024);
    bench_table_set_number(t->table, row, t->create, pool.create_ns / 1000);
    status = check_size(&pool, wish->name);
    bench_pool_drop(&pool); /* validating 16 TiB would take minutes and measures nothing */
    return status;
}

int bench_memory(struct bench *bench)
{
    struct memory_table t = make_table();
    int status = UI_OK;

    for (size_t i = 0; i < NR_POOLS && status == UI_OK && !ui_interrupted(); i++) {
        bench_progress(bench, (unsigned)i, NR_POOLS);
        status = measure(bench, &pools[i], &t);
    }
    bench_table_note(t.table, "per CPU id below %u: lists of all orders are part of the metadata",
                     bench->cpus[bench->nr_cpus - 1] + 1);
    status |= bench_publish(bench, t.table);
    return status;
}
