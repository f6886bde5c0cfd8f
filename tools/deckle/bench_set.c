/* SPDX-License-Identifier: MIT */
/*
 * The allocators of a table, and the columns of their results. Each table gets fresh ones: what one
 * table leaves in caches and free lists does not reach the next.
 */
#include "bench.h"
#include "bench_peer.h"

#include <string.h>
#include <sys/mman.h>

struct lane_text {
    const char *name;
    unsigned show; /* besides minimum and median */
};

static const struct lane_text lane_texts[BENCH_NR_LANE_KINDS] = {
    [BENCH_LANE_FLOOR] = {"floor", 0},
    [BENCH_LANE_LIMIT] = {"limit", 0},
    [BENCH_LANE_LIMIT_SHARED] = {"limit-shared", 0},
    [BENCH_LANE_LOCK] = {"lock", 0},
    [BENCH_LANE_RSEQ] = {"deckle-rseq", BENCH_SHOW_NS | BENCH_SHOW_RATIO},
    [BENCH_LANE_CELLS] = {"deckle-cells", BENCH_SHOW_NS | BENCH_SHOW_RATIO},
    [BENCH_LANE_ZERO] = {"deckle-zeroed", BENCH_SHOW_NS},
    [BENCH_LANE_KERNEL] = {"kernel", BENCH_SHOW_NS},
    [BENCH_LANE_GLIBC] = {"glibc", BENCH_SHOW_RATIO},
    [BENCH_LANE_MIMALLOC] = {"mimalloc", BENCH_SHOW_RATIO},
    [BENCH_LANE_JEMALLOC] = {"jemalloc", BENCH_SHOW_RATIO},
    [BENCH_LANE_TCMALLOC] = {"tcmalloc", BENCH_SHOW_RATIO},
    [BENCH_LANE_MEMPOOL] = {"mempool", BENCH_SHOW_RATIO},
};

const char *bench_lane_name(enum bench_lane_kind kind)
{
    return lane_texts[kind].name;
}

const struct bench_lane *bench_set_lane(const struct bench_set *set, enum bench_lane_kind kind)
{
    for (unsigned i = 0; i < set->nr; i++)
        if (set->lanes[i].kind == kind)
            return &set->lanes[i];
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static int no_memory(const char *name)
{
    ui_error("bench: not enough memory for the references: %s", name);
    return UI_MISSING;
}

static int open_pool(const struct bench_wish *wish, struct bench_set *set, struct bench_lane *lane)
{
    struct bench_pool *pool = &set->pools[lane - set->lanes];
    uint32_t features = lane->kind == BENCH_LANE_CELLS ? DECKLE_FEATURE_CELLS : 0;
    int status = bench_pool_open(pool, wish->pool_bytes, features, wish->backing);

    if (status != 0)
        return status;
    lane->ops = &bench_deckle_ops;
    lane->ctx = pool->d;
    lane->memory = pool->memory;
    lane->first_pfn = pool->first_pfn;
    return 0;
}

static int open_lane(const struct bench *bench, const struct bench_wish *wish,
                     struct bench_set *set, struct bench_lane *lane)
{
    lane->name = bench_lane_name(lane->kind);
    lane->memory = set->memory;
    switch (lane->kind) {
    case BENCH_LANE_FLOOR:
        lane->ops = &bench_floor_ops;
        return 0;
    case BENCH_LANE_LIMIT:
    case BENCH_LANE_LIMIT_SHARED:
        lane->ops = bench_limit_has_rseq() ? &bench_limit_ops : &bench_thread_ops;
        lane->ctx = bench_limit_create(&wish->stock, bench->cpus, wish->nr_cpus,
                                       lane->kind == BENCH_LANE_LIMIT_SHARED);
        return lane->ctx != NULL ? 0 : no_memory(lane->name);
    case BENCH_LANE_LOCK:
        lane->ops = &bench_lock_ops;
        lane->ctx = bench_lock_create(&wish->stock, wish->nr_cpus);
        return lane->ctx != NULL ? 0 : no_memory(lane->name);
    case BENCH_LANE_RSEQ:
    case BENCH_LANE_CELLS:
        return open_pool(wish, set, lane);
    default: /* set up by the table */
        break;
    }
    return 0;
}

int bench_set_open(const struct bench *bench, const struct bench_wish *wish, struct bench_set *set)
{
    memset(set, 0, sizeof(*set));
    if (wish->backing != BENCH_BACKING_NONE) {
        set->memory_bytes = (size_t)bench_stock_frames(&wish->stock, wish->nr_cpus)
                            << BENCH_PAGE_SHIFT;
        set->memory = bench_map(set->memory_bytes, wish->backing);
        if (set->memory == NULL)
            return no_memory("memory");
    }
    for (unsigned kind = 0; kind < BENCH_NR_LANE_KINDS; kind++) {
        struct bench_lane *lane = &set->lanes[set->nr];
        int status;

        if ((wish->lanes & BENCH_LANE(kind)) == 0)
            continue;
        lane->kind = (enum bench_lane_kind)kind;
        set->nr++;
        status = open_lane(bench, wish, set, lane);
        if (status != 0) {
            bench_set_close(set);
            return status;
        }
    }
    return 0;
}

int bench_set_close(struct bench_set *set)
{
    int status = 0;

    for (unsigned i = 0; i < set->nr; i++) {
        struct bench_lane *lane = &set->lanes[i];

        if (lane->kind == BENCH_LANE_LIMIT || lane->kind == BENCH_LANE_LIMIT_SHARED)
            bench_limit_destroy(lane->ctx);
        else if (lane->kind == BENCH_LANE_LOCK)
            bench_lock_destroy(lane->ctx);
        else if (lane->peer != NULL)
            bench_peer_stop(lane->peer);
        else if (bench_pool_close(&set->pools[i], lane->name) != 0)
            status = UI_FAULT;
    }
    if (set->memory != NULL)
        munmap(set->memory, set->memory_bytes);
    memset(set, 0, sizeof(*set));
    return status;
}

void bench_set_note(const struct bench_set *set, struct bench_table *table)
{
    const struct bench_lane *lane = bench_set_lane(set, BENCH_LANE_RSEQ);

    if (bench_set_lane(set, BENCH_LANE_LIMIT) != NULL && !bench_limit_has_rseq())
        bench_table_note(table, "limit is a stack per thread: no restartable sequences here");
    if (lane != NULL && strcmp(deckle_cache_kind(lane->ctx), "rseq") != 0)
        bench_table_note(table, "deckle-rseq uses %s: no restartable sequences here",
                         deckle_cache_kind(lane->ctx));
}

/* ---- columns --------------------------------------------------------------------------------- */

struct bench_columns bench_add_lane_columns(struct bench_table *table, unsigned lanes)
{
    struct bench_columns columns;

    /* Kinds are in order: what a ratio is of has its column before. */
    enum bench_lane_kind base =
        (lanes & BENCH_LANE(BENCH_LANE_LIMIT)) != 0 ? BENCH_LANE_LIMIT : BENCH_LANE_LIMIT_SHARED;

    for (unsigned kind = 0; kind < BENCH_NR_LANE_KINDS; kind++) {
        struct bench_column column = {.name = lane_texts[kind].name,
                                      .kind = BENCH_COLUMN_CYCLES,
                                      .show = BENCH_SHOW_MEDIAN | lane_texts[kind].show,
                                      .ratio_to = -1};

        columns.of[kind] = -1;
        if ((lanes & BENCH_LANE(kind)) == 0)
            continue;
        if (kind > base)
            column.ratio_to = columns.of[base];
        columns.of[kind] = (int)bench_table_add_column(table, column);
    }
    return columns;
}
