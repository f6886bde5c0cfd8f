/* SPDX-License-Identifier: MIT */
/*
 * Table `memory`: what a pool costs in bytes. The metadata is mapped but only touched where
 * something is written, so the bytes that are really backed after creation stand beside the size.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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

/* In a process of its own, which just ends: closing a pool reads all of its metadata, and that of
 * 16 TiB takes seconds. */
static _Noreturn void child(const struct memory_pool *wish, int to)
{
    struct memory_figures figures;
    struct bench_pool pool;
    int status = bench_pool_open(&pool, wish->bytes, wish->features, BENCH_BACKING_NONE);

    if (status == UI_OK) {
        figures.metadata = pool.metadata_bytes;
        figures.touched = bench_pool_touched(&pool);
        figures.create_ns = pool.create_ns;
        if (write(to, &figures, sizeof(figures)) != (ssize_t)sizeof(figures))
            status = UI_FAULT;
    }
    _exit(status);
}

static int ask_child(const struct memory_pool *wish, struct memory_figures *figures)
{
    int ends[2], status = 0;
    pid_t pid = -1;
    bool complete;

    if (pipe(ends) == 0) {
        fflush(NULL);
        pid = fork();
    }
    if (pid < 0) {
        ui_error("bench: memory: cannot make a process: %s", strerror(errno));
        return UI_MISSING;
    }
    if (pid == 0)
        child(wish, ends[1]);
    close(ends[1]);
    complete = read(ends[0], figures, sizeof(*figures)) == (ssize_t)sizeof(*figures);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) != UI_OK)
        return WEXITSTATUS(status);
    return complete ? UI_OK : UI_FAULT;
}

static int measure(const struct memory_pool *wish, const struct memory_table *t)
{
    double bytes = (double)wish->bytes, frames = bytes / (1u << BENCH_PAGE_SHIFT);
    struct memory_figures figures;
    int status = ask_child(wish, &figures);
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
