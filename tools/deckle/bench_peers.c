/* SPDX-License-Identifier: MIT */
/*
 * Tables `peers-…`: Deckle beside other people's allocators (bench_peer.h), measured in turn with
 * them by the same loops: pairs by order on one CPU and two, batches, the table of live blocks
 * replaced at random, the hand-off. Peers that are not installed are said below the first table.
 */
#include "bench_peer.h"

#include <math.h>
#include <string.h>

#define OWN_LANES                                                                                  \
    (BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT) |                                 \
     BENCH_LANE(BENCH_LANE_LIMIT_SHARED) | BENCH_LANE(BENCH_LANE_RSEQ))
#define FIRST_PEER BENCH_LANE_GLIBC
#define LAST_PEER  BENCH_LANE_MEMPOOL
#define POOL_BYTES (UINT64_C(6) << 30)
#define LIVE       65536u
#define STOCK      20480u

struct peers_table {
    struct bench_table *table;
    struct bench_columns lanes;
    unsigned what;
};

/* The lanes that exist, and what others are missing: the notes of the first table. */
struct peers {
    struct bench_set set;
    unsigned lanes; /* BENCH_LANE(…) */
    unsigned most_threads;
};

static int open_peers(const struct bench *bench, struct peers *p, struct bench_table *first)
{
    struct bench_wish wish = {
        .lanes = OWN_LANES,
        .nr_cpus = bench->nr_cpus > 1 ? 2 : 1,
        .stock = {.blocks = {STOCK, STOCK, STOCK, STOCK, 16, 16, 16, 16, 16, 16, 16}},
        .pool_bytes = POOL_BYTES,
        .backing = BENCH_BACKING_NONE};
    int status = bench_set_open(bench, &wish, &p->set);

    if (status != UI_OK)
        return status;
    p->lanes = OWN_LANES;
    p->most_threads = wish.nr_cpus;
    for (unsigned kind = FIRST_PEER; kind <= LAST_PEER; kind++) {
        struct bench_lane *lane = &p->set.lanes[p->set.nr];
        const char *why;

        lane->kind = (enum bench_lane_kind)kind;
        lane->name = bench_lane_name(lane->kind);
        lane->peer = bench_peer_start(lane->kind, &why);
        if (lane->peer == NULL) {
            bench_table_note(first, "%s: left out: %s", lane->name, why);
            continue;
        }
        p->lanes |= BENCH_LANE(kind);
        p->set.nr++;
    }
    return UI_OK;
}

static struct bench_table *make_table(const char *name, const char *caption)
{
    return bench_table_create(name, caption);
}

static struct peers_table add_columns(struct bench_table *table, const char *what, unsigned lanes)
{
    struct peers_table t = {.table = table};

    t.what = bench_table_add_column(
        table, (struct bench_column){.name = what, .kind = BENCH_COLUMN_TEXT, .ratio_to = -1});
    t.lanes = bench_add_lane_columns(table, lanes);
    return t;
}

/* Deckle against the fastest of the general allocators in this row. */
static double against_mallocs(const struct peers_table *t, unsigned row)
{
    double fastest = NAN, mine;

    for (unsigned kind = FIRST_PEER; kind < BENCH_LANE_MEMPOOL; kind++)
        if (t->lanes.of[kind] >= 0)
            fastest = fmin(fastest, bench_table_min(t->table, row, (unsigned)t->lanes.of[kind]));
    mine = bench_table_min(t->table, row, (unsigned)t->lanes.of[BENCH_LANE_RSEQ]);
    return bench_ratio(mine, fastest);
}

/* DPDK's pool has blocks of one size, and fewer of them than a large batch wants. */
static struct bench_row row_for(const struct peers *p, const struct peers_table *t,
                                struct bench_shape shape, const char *what)
{
    unsigned row = bench_table_add_row(t->table);
    struct bench_row all, some;

    bench_table_set_text(t->table, row, t->what, what);
    all = bench_row_for(&p->set, shape, t->table, row, &t->lanes);
    some = all;
    some.nr = 0;
    for (unsigned i = 0; i < all.nr; i++)
        if (all.lanes[i].lane->kind != BENCH_LANE_MEMPOOL || shape.order == 0)
            some.lanes[some.nr++] = all.lanes[i];
    return some;
}

/* ---- the shapes ------------------------------------------------------------------------------ */

static void measure_pairs(struct bench *bench, const struct peers *p, const struct peers_table *t)
{
    static const uint32_t orders[] = {0, 3, 4, 9, 10};

    for (unsigned i = 0; i < 5 && !ui_interrupted(); i++) {
        for (unsigned threads = 1; threads <= p->most_threads && !ui_interrupted(); threads++) {
            struct bench_shape shape = {.kind = BENCH_PAIRS,
                                        .threads = threads,
                                        .gfp = DECKLE_GFP_KERNEL,
                                        .order = orders[i],
                                        .nr = 1};
            struct bench_row row;
            char what[32];

            snprintf(what, sizeof(what), "order %u, %u CPU%s", orders[i], threads,
                     threads == 1 ? "" : "s");
            row = row_for(p, t, shape, what);
            bench_measure_row(bench, &row);
        }
    }
    bench_table_goal(t->table, BENCH_AT_MOST, 1, against_mallocs(t, 0),
                     "order-0 pair / that of the fastest malloc");
}

static void measure_batches(struct bench *bench, const struct peers *p,
                            const struct peers_table halves[2])
{
    static const size_t sizes[] = {64, 1024, 16384};

    for (unsigned i = 0; i < 3 && !ui_interrupted(); i++) {
        struct bench_shape shape = {
            .kind = BENCH_BATCH, .threads = 1, .gfp = DECKLE_GFP_KERNEL, .nr = sizes[i]};
        struct bench_row row;
        char what[32];

        snprintf(what, sizeof(what), "N = %zu", sizes[i]);
        row = row_for(p, &halves[0], shape, what);
        bench_table_set_text(halves[1].table, bench_table_add_row(halves[1].table), halves[1].what,
                             what);
        bench_row_second(&row, halves[1].table);
        bench_measure_row(bench, &row);
    }
}

static void measure_random(struct bench *bench, const struct peers *p, const struct peers_table *t)
{
    for (unsigned threads = 1; threads <= p->most_threads && !ui_interrupted(); threads++) {
        struct bench_shape shape = {
            .kind = BENCH_REPLACE, .threads = threads, .gfp = DECKLE_GFP_KERNEL, .nr = LIVE};
        struct bench_row row =
            row_for(p, t, shape, threads == 1 ? "orders 0-3, 1 CPU" : "orders 0-3, 2 CPUs");

        bench_measure_row(bench, &row);
    }
    if (p->most_threads > 1 && !ui_interrupted()) {
        struct bench_shape shape = {
            .kind = BENCH_HANDOFF, .threads = 2, .gfp = DECKLE_GFP_KERNEL, .nr = BENCH_RING_BATCH};
        struct bench_row row = row_for(p, t, shape, "hand-off, order 0");

        bench_measure_row(bench, &row);
        bench_table_goal(t->table, BENCH_AT_MOST, 1,
                         against_mallocs(t, bench_table_rows(t->table) - 1),
                         "hand-off / that of the fastest malloc");
    }
    bench_table_note(t->table, "mempool: blocks of one size");
    bench_note_hop(bench, t->table);
}

int bench_peers(struct bench *bench)
{
    struct bench_table *pairs =
        make_table("peers-pair", "peers: a block allocated and freed; cycles per pair");
    struct peers_table t[4];
    struct peers p;
    int status = open_peers(bench, &p, pairs);

    if (status != UI_OK) {
        bench_table_destroy(pairs);
        return status;
    }
    t[0] = add_columns(pairs, "pairs", p.lanes & ~BENCH_LANE(BENCH_LANE_LIMIT_SHARED));
    t[1] = add_columns(make_table("peers-batch-alloc", "peers: N blocks of order 0 one by one; "
                                                       "cycles per block, the alloc half"),
                       "batch", p.lanes & ~BENCH_LANE(BENCH_LANE_LIMIT));
    t[2] = add_columns(make_table("peers-batch-free", "peers: N blocks of order 0 one by one; "
                                                      "cycles per block, the free half"),
                       "batch", p.lanes & ~BENCH_LANE(BENCH_LANE_LIMIT));
    t[3] = add_columns(make_table("peers-mixed", "peers: one of 65,536 live blocks replaced at "
                                                 "random, cycles for both calls; hand-off, cycles "
                                                 "per block on each side"),
                       "shape", p.lanes & ~BENCH_LANE(BENCH_LANE_LIMIT));
    bench_progress(bench, 0, 3);
    measure_pairs(bench, &p, &t[0]);
    bench_progress(bench, 1, 3);
    measure_batches(bench, &p, &t[1]);
    bench_progress(bench, 2, 3);
    measure_random(bench, &p, &t[3]);
    for (unsigned i = 0; i < 4; i++)
        status |= bench_publish(bench, t[i].table);
    return bench_set_close(&p.set) != UI_OK ? UI_FAULT : status;
}
