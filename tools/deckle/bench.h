/* SPDX-License-Identifier: MIT */
/*
 * `deckle bench`: what its parts share.
 *
 *   cmd_bench.c       arguments, order of the tables, machine, JSON file
 *   bench_<table>.c   one table each: which shapes, which columns, what to say below
 *   bench_gate.c      does this run count? the machine as JSON
 *   bench_set.c       the allocators of a table: references and pools of Deckle (bench_pool.c)
 *   bench_measure.c   one row: all allocators in turn, repetition by repetition
 *   bench_loops.c     the timed loops           bench_run.c    pinned threads
 *   bench_refs.c bench_limit.c  the references  bench_clock.c  the clock
 *   bench_table.c bench_stats.c results, text, JSON
 *
 * A table is a list of rows; a row is a shape measured for several allocators (lanes), whose
 * samples go to the cells of one or two tables.
 */
#ifndef DECKLE_TOOLS_BENCH_H
#define DECKLE_TOOLS_BENCH_H

#include <cjson/cJSON.h>
#include <deckle.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "bench_loops.h"
#include "bench_pool.h"
#include "bench_refs.h"
#include "bench_run.h"
#include "bench_table.h"
#include "ui.h"

#define BENCH_MAX_CPUS   1024u
#define BENCH_MAX_LANES  16u
#define BENCH_MAX_VALUES 2u

/* ---- the run --------------------------------------------------------------------------------- */

struct bench {
    bool quick;
    unsigned runs;        /* repetitions of each row */
    double target;        /* ticks that one measurement should last */
    uint64_t deadline_ns; /* of CLOCK_MONOTONIC; 0 = none */
    double ghz;           /* ticks per nanosecond */
    double overhead;      /* ticks of an empty interval */
    double floor;         /* ticks of a pair of floor on one CPU, from the gate */
    unsigned cpus[BENCH_MAX_CPUS];
    unsigned nr_cpus;
    struct bench_crew *crew;
    uint64_t **pfns; /* per CPU: room for most_blocks + 1 */
    struct bench_ring *ring;
    cJSON *tables; /* finished ones */
    struct ui_progress *progress;
    FILE *out;        /* of text */
    bool shared_cpus; /* the CPUs did not run at full speed together when last tried */
    bool gated;       /* the table being measured counts only past the gate */
    int status;       /* exit status so far */
};

/* Two threads and more share the machine with what moves lines between CPUs: measured, and said
 * below the table. Nothing with one CPU. */
void bench_note_hop(const struct bench *bench, struct bench_table *table);

/* --quick promises a time that a busy machine does not permit: from some point on do the least. */
bool bench_hurries(const struct bench *bench);

/* What of the table is done. */
void bench_progress(const struct bench *bench, unsigned done, unsigned total);

/* Print a finished table and keep its JSON, unless the run turns out not to count; destroys it.
 * Returns 0 or an exit status. */
int bench_publish(struct bench *bench, struct bench_table *table);

/* ---- the allocators -------------------------------------------------------------------------- */

enum bench_lane_kind {
    BENCH_LANE_FLOOR,
    BENCH_LANE_LIMIT,
    BENCH_LANE_LIMIT_SHARED,
    BENCH_LANE_LOCK,
    BENCH_LANE_RSEQ,  /* Deckle as it is by default: rseq where it is available */
    BENCH_LANE_CELLS, /* Deckle with DECKLE_FEATURE_CELLS */
    BENCH_LANE_ZERO,  /* the pool of RSEQ with DECKLE_GFP_ZERO; set up by the table that wants it */
    BENCH_LANE_KERNEL, /* the operating system; set up by the table that wants it */
    BENCH_LANE_GLIBC,  /* other people's allocators: bench_peer.h; set up by the table peers */
    BENCH_LANE_MIMALLOC,
    BENCH_LANE_JEMALLOC,
    BENCH_LANE_TCMALLOC,
    BENCH_LANE_MEMPOOL,
    BENCH_NR_LANE_KINDS
};

#define BENCH_LANE(kind) (1u << (kind))

struct bench_lane {
    enum bench_lane_kind kind;
    const char *name;
    const struct bench_ops *ops;
    void *ctx;
    uint32_t gfp; /* added to that of the shape */
    char *memory; /* address of frame first_pfn; NULL = cannot be touched */
    uint64_t first_pfn;
    struct bench_peer *peer; /* measured by another process; then ops and ctx are over there */
};

/* What a table wants of its allocators. */
struct bench_wish {
    unsigned lanes;             /* BENCH_LANE(…) */
    unsigned nr_cpus;           /* CPUs that will allocate */
    struct bench_stock stock;   /* blocks of a reference, per CPU */
    uint64_t pool_bytes;        /* of a pool of Deckle */
    enum bench_backing backing; /* of that pool */
};

struct bench_set {
    unsigned nr;
    struct bench_lane lanes[BENCH_MAX_LANES];
    struct bench_pool pools[BENCH_MAX_LANES]; /* of those that are Deckle's */
    char *memory;                             /* what the references touch; NULL = nothing */
    size_t memory_bytes;
};

/* 0, or an exit status after a message. */
int bench_set_open(const struct bench *bench, const struct bench_wish *wish, struct bench_set *set);
const struct bench_lane *bench_set_lane(const struct bench_set *set, enum bench_lane_kind kind);
/* Checks each pool (validation, nothing left allocated); 0 or 1 after a message. */
int bench_set_close(struct bench_set *set);
const char *bench_lane_name(enum bench_lane_kind kind);
/* Says below a table when a lane is not what its name says. */
void bench_set_note(const struct bench_set *set, struct bench_table *table);

/* ---- columns that tables have in common ------------------------------------------------------ */

struct bench_columns {
    int of[BENCH_NR_LANE_KINDS]; /* column of each lane, -1 = none */
};

/* Columns of cycles for the lanes in the set, ratios to limit. */
struct bench_columns bench_add_lane_columns(struct bench_table *table, unsigned lanes);

/* ---- does the run count? --------------------------------------------------------------------- */

/* A run counts only while `limit` costs at most 1.4 times `floor`: a slow reference flatters. Tries
 * a few times, with notes; false after a message. */
bool bench_gate(struct bench *bench);

/* The machine, the build and the command, for the JSON file. */
cJSON *bench_machine(const struct bench *bench, int argc, char **argv);

/* ---- a row ----------------------------------------------------------------------------------- */

enum bench_shape_kind {
    BENCH_PAIRS,        /* one value: ticks per pair */
    BENCH_ROUNDS,       /* one value: ticks per pair, nr blocks outstanding */
    BENCH_BATCH,        /* two values: ticks per allocation, per free */
    BENCH_BATCH_COMPAT, /* the same as the kernel's micro-benchmark would print them */
    BENCH_BULK,         /* two values: per frame of a bulk request, of a bulk free */
    BENCH_BULK_SINGLY,  /* one value: per frame of a bulk request and its single free */
    BENCH_TOUCH,        /* one value: ticks per page allocated, touched and freed */
    BENCH_HANDOFF,      /* one value: ticks per block; two threads, nr blocks a batch */
    BENCH_HANDOFF_BULK, /* the same with a bulk call for each batch */
    BENCH_REPLACE       /* one value: ticks per block replaced, nr live blocks */
};

struct bench_shape {
    enum bench_shape_kind kind;
    unsigned threads;
    uint32_t gfp, order;
    size_t nr;           /* blocks per round; 1 for PAIRS */
    uint64_t most_loops; /* rounds per measurement at most; 0 = no limit */
};

/* Where the values of a lane go. A table of NULL drops the value. */
struct bench_target {
    struct bench_table *table;
    unsigned row, column;
};

struct bench_row_lane {
    const struct bench_lane *lane;
    struct bench_target targets[BENCH_MAX_VALUES];
};

struct bench_row {
    struct bench_shape shape;
    unsigned nr;
    struct bench_row_lane lanes[BENCH_MAX_LANES];
};

/* Ticks per element of one run of the shape; 0 or the error of the allocator. */
int bench_run_shape(const struct bench *bench, const struct bench_lane *lane,
                    const struct bench_shape *shape, uint64_t loops,
                    double values[BENCH_MAX_VALUES], double *ticks);

/* Measure all lanes of the row, in turn within each repetition. A lane that fails is left out with
 * a note below its table. */
void bench_measure_row(struct bench *bench, const struct bench_row *row);

/* A row for the shape, with all lanes of the set; their first value goes to the row `row` of table.
 */
struct bench_row bench_row_for(const struct bench_set *set, struct bench_shape shape,
                               struct bench_table *table, unsigned row,
                               const struct bench_columns *columns);
/* The second value goes to the same place of another table. */
void bench_row_second(struct bench_row *row, struct bench_table *table);

/* ---- the tables ------------------------------------------------------------------------------ */

struct bench_table_def {
    const char *name, *summary;
    int (*run)(struct bench *bench); /* 0 or an exit status */
    bool timed;                      /* needs the check of limit against floor */
    bool extra;                      /* only when asked for by name */
};

int cmd_bench(int argc, char **argv);

int bench_pair(struct bench *bench);
int bench_batch(struct bench *bench);
int bench_parallel(struct bench *bench);
int bench_bulk(struct bench *bench);
int bench_fault(struct bench *bench);
int bench_memory(struct bench *bench);
int bench_handoff(struct bench *bench);
int bench_random(struct bench *bench);
int bench_fragment(struct bench *bench);
int bench_create(struct bench *bench);
int bench_peers(struct bench *bench);
int bench_ablation(struct bench *bench);

#endif
