/* SPDX-License-Identifier: MIT */
/*
 * Table `ablation`: what each part of the design is worth. Two pools in turn, one as it is and one
 * without the part: by a copy of the library that was compiled without it (src/core/ablation.h,
 * target deckle_ablations), by an option of the pool, or by another form of the same request. Both
 * are copies that are called through pointers, so that the difference is that of the part.
 *
 * Beside it, what the authors of the same change to Linux measured for theirs, in cycles of their
 * machines: the shapes are alike, the allocators around them are not.
 */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "bench_module.h"

#define POOL_BYTES   (UINT64_C(6) << 30)
#define BACKED_BYTES (UINT64_C(64) << 20)

/* How a pool differs from the default. */
struct variant {
    const char *copy; /* NULL = none: the library as it is */
    uint32_t features, debug, capacity;
    bool request;      /* by deckle_alloc_request */
    uint64_t nodemask; /* of the request */
};

struct ablation {
    const char *part, *shape_name;
    struct bench_shape shape;
    struct variant with, without;
    unsigned value; /* of a batch: 0 alloc, 1 free */
    const char *reported;
};

#define PAIR(o, t)                                                                                 \
    {                                                                                              \
        .kind = BENCH_PAIRS, .threads = t, .gfp = DECKLE_GFP_KERNEL, .order = o, .nr = 1           \
    }
#define ROUNDS(o, t, n)                                                                            \
    {                                                                                              \
        .kind = BENCH_ROUNDS, .threads = t, .gfp = DECKLE_GFP_KERNEL, .order = o, .nr = n          \
    }
#define BATCH(o, n)                                                                                \
    {                                                                                              \
        .kind = BENCH_BATCH, .threads = 1, .gfp = DECKLE_GFP_KERNEL, .order = o, .nr = n           \
    }
#define UNCACHED DECKLE_FEATURE_NO_CACHES
#define OFF                                                                                        \
    {                                                                                              \
        .copy = "unchecked"                                                                        \
    }
#define FULL (DECKLE_DEBUG_STRICT | DECKLE_DEBUG_POISON)

static const struct ablation ablations[] = {
    {"table of preferred lists",
     "pair, order 0",
     PAIR(0, 1),
     {0},
     {.request = true},
     0,
     "preferred zone found once: 364 -> 359"},
    {"inline zonelist walk",
     "pair, order 0, general path",
     PAIR(0, 1),
     {.request = true},
     {.copy = "walk", .request = true},
     0,
     "alloc 412 -> 382"},
    {"watermark shortcut",
     "pair, order 0, no caches",
     PAIR(0, 1),
     {.features = UNCACHED},
     {.copy = "mark", .features = UNCACHED},
     0,
     "alloc 380 -> 364"},
    {"node mask in the request",
     "pair, order 0, general path",
     PAIR(0, 1),
     {.request = true, .nodemask = 1},
     {.request = true},
     0,
     "cpuset branch: nothing, at most 1.9 %"},
    {"per-CPU caches",
     "pair, order 0",
     PAIR(0, 1),
     {0},
     {.features = UNCACHED},
     0,
     "order 0 on 8 CPUs 399, order 3 (none) 9,589"},
    {"per-CPU caches",
     "pair, order 0, 2 CPUs",
     PAIR(0, 2),
     {0},
     {.features = UNCACHED},
     0,
     "see above"},
    {"caches above order 0",
     "pair, order 3",
     PAIR(3, 1),
     {0},
     {.copy = "order0"},
     0,
     "netperf +1.9 ... +4.9 %"},
    {"caches above order 0",
     "pair, order 3, 2 CPUs",
     PAIR(3, 2),
     {0},
     {.copy = "order0"},
     0,
     "see above"},
    {"caches above order 3",
     "pair, order 4",
     PAIR(4, 1),
     {0},
     {.copy = "order3"},
     0,
     "orders 0-3 and 9 only"},
    {"caches above order 3",
     "pair, order 9, 2 CPUs",
     PAIR(9, 2),
     {0},
     {.copy = "order3"},
     0,
     "orders 0-3 and 9 only"},
    {"word-wise refill",
     "16384 of order 0, alloc",
     BATCH(0, 16384),
     {0},
     {.copy = "words"},
     0,
     "bulk of 64 per page: 199 -> 110"},
    {"grouped drains",
     "16384 of order 0, free",
     BATCH(0, 16384),
     {0},
     {.copy = "groups"},
     1,
     "not done there"},
    {"a batch beyond every batch",
     "2048 of order 0, alloc",
     BATCH(0, 2048),
     {.capacity = 4096},
     {0},
     0,
     "zone lock never taken: +8 % faults"},
    {"a batch beyond every batch",
     "2048 of order 0, free",
     BATCH(0, 2048),
     {.capacity = 4096},
     {0},
     1,
     "see above"},
    {"checks deferred to refill",
     "pair, order 0",
     PAIR(0, 1),
     {.copy = "deferred"},
     OFF,
     0,
     "deferred: alloc 344 -> 317, free -5 %"},
    {"checks deferred to refill",
     "16384 of order 0, alloc",
     BATCH(0, 16384),
     {.copy = "deferred"},
     OFF,
     0,
     "deferred: free +3 ... +5 %"},
    {"checks always (default)", "pair, order 0", PAIR(0, 1), {0}, OFF, 0, "dropped in 6.4"},
    {"checks always (default)",
     "16384 of order 0, alloc",
     BATCH(0, 16384),
     {0},
     OFF,
     0,
     "dropped in 6.4"},
    {"checks strict",
     "pair, order 0",
     PAIR(0, 1),
     {.debug = DECKLE_DEBUG_STRICT},
     OFF,
     0,
     "none alike"},
    {"checks full (poison too)",
     "pair, order 0",
     PAIR(0, 1),
     {.debug = FULL},
     OFF,
     0,
     "debug_pagealloc"},
    {"statistics",
     "pair, order 0",
     PAIR(0, 1),
     {0},
     {.copy = "counters"},
     0,
     "185 -> 176; 537 -> 342 on 88 threads"},
    {"statistics",
     "16384 of order 0, alloc",
     BATCH(0, 16384),
     {0},
     {.copy = "counters"},
     0,
     "see above"},
    {"statistics",
     "pair, order 0, no caches",
     PAIR(0, 1),
     {.features = UNCACHED},
     {.copy = "counters", .features = UNCACHED},
     0,
     "see above"},
};

#define NR_ABLATIONS (sizeof(ablations) / sizeof(ablations[0]))

struct ablation_table {
    struct bench_table *table;
    unsigned part, shape, with, without, worth, percent, reported;
};

static unsigned add_column(struct bench_table *table, const char *name, const char *key,
                           enum bench_column_kind kind)
{
    return bench_table_add_column(table, (struct bench_column){.name = name,
                                                               .key = key,
                                                               .kind = kind,
                                                               .show = BENCH_SHOW_MEDIAN,
                                                               .decimals = 1,
                                                               .ratio_to = -1});
}

static struct ablation_table make_table(void)
{
    struct ablation_table t = {.table = bench_table_create(
                                   "ablation", "ablation: each part of the design present and left "
                                               "out; cycles per pair or block")};

    t.part = add_column(t.table, "part", NULL, BENCH_COLUMN_TEXT);
    t.shape = add_column(t.table, "shape", NULL, BENCH_COLUMN_TEXT);
    t.with = add_column(t.table, "with", NULL, BENCH_COLUMN_CYCLES);
    t.without = add_column(t.table, "without", NULL, BENCH_COLUMN_CYCLES);
    t.worth = add_column(t.table, "worth", "worth_cycles", BENCH_COLUMN_NUMBER);
    t.percent = add_column(t.table, "%", "worth_percent", BENCH_COLUMN_NUMBER);
    t.reported = add_column(t.table, "reported for Linux", "reported", BENCH_COLUMN_TEXT);
    bench_table_note(t.table,
                     "worth: cycles saved by the part, of those without it; negative: what "
                     "it costs");
    return t;
}

static int open_variant(const struct variant *v, struct bench_copy *copy, struct bench_lane *lane,
                        const char *name)
{
    bool backed = (v->debug & DECKLE_DEBUG_POISON) != 0;
    struct deckle_create_options options = {.size = sizeof(options),
                                            .flags = backed ? DECKLE_CREATE_POPULATE
                                                            : DECKLE_CREATE_RESERVE,
                                            .bytes = backed ? BACKED_BYTES : POOL_BYTES,
                                            .page_shift = BENCH_PAGE_SHIFT,
                                            .features = v->features,
                                            .pcp_capacity = v->capacity};
    int error = bench_copy_open(copy, v->copy != NULL ? v->copy : "none", &options, v->debug);

    copy->ask.nodemask = v->nodemask;
    *lane = (struct bench_lane){.kind = BENCH_LANE_RSEQ,
                                .name = name,
                                .ops = v->request ? &bench_request_ops : &bench_copy_ops,
                                .ctx = copy};
    return error;
}

static void set_worth(const struct ablation_table *t, unsigned row)
{
    double with = bench_table_min(t->table, row, t->with);
    double without = bench_table_min(t->table, row, t->without);

    bench_table_set_number(t->table, row, t->worth, without - with);
    bench_table_set_number(t->table, row, t->percent, 100 * bench_ratio(without - with, without));
}

static void measure(struct bench *bench, const struct ablation_table *t, const struct ablation *a)
{
    struct bench_row row = {.shape = a->shape, .nr = 2};
    struct bench_copy copies[2] = {{0}, {0}};
    struct bench_lane lanes[2];
    unsigned at = bench_table_add_row(t->table);
    int error = open_variant(&a->with, &copies[0], &lanes[0], "with");

    bench_table_set_text(t->table, at, t->part, a->part);
    bench_table_set_text(t->table, at, t->shape, a->shape_name);
    bench_table_set_text(t->table, at, t->reported, a->reported);
    if (error == DECKLE_OK)
        error = open_variant(&a->without, &copies[1], &lanes[1], "without");
    for (unsigned i = 0; i < 2; i++) {
        row.lanes[i].lane = &lanes[i];
        row.lanes[i].targets[a->value] =
            (struct bench_target){t->table, at, i == 0 ? t->with : t->without};
    }
    if (error == DECKLE_OK)
        bench_measure_row(bench, &row);
    else
        bench_table_note(t->table, "%s: not measured: %s", a->part, deckle_strerror(error));
    set_worth(t, at);
    bench_copy_close(&copies[0]);
    bench_copy_close(&copies[1]);
}

int bench_ablation(struct bench *bench)
{
    struct ablation_table t = make_table();

    if (bench_module_open("deckle-ablation-none.so") == NULL) {
        bench_table_note(t.table, "left out: there are no copies of the library beside the program "
                                  "(build the target deckle_ablations)");
        return bench_publish(bench, t.table);
    }
    for (unsigned i = 0; i < NR_ABLATIONS && !ui_interrupted(); i++) {
        bench_progress(bench, i, NR_ABLATIONS);
        if (ablations[i].shape.threads <= bench->nr_cpus)
            measure(bench, &t, &ablations[i]);
    }
    bench_note_hop(bench, t.table);
    return bench_publish(bench, t.table);
}
