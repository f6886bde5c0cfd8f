/* SPDX-License-Identifier: MIT */
/*
 * deckle replay: a recorded kernel's page events played through a pool by real threads.
 *
 *     trace --plan--> operations --run--> results --report--> text, JSON
 *
 * plan    The trace is read once and turned into operations on *slots*. A slot is a block of the
 *         trace from its allocation to the free of its last frame; the run keeps in it where the
 *         block really lies. Whatever has to be looked up in the trace's own frames is looked up
 * here, so that the run does nothing between two calls of Deckle but read its next operation. pool
 * The memory: frames that need not exist, in one zone a node, sized after the peak. run     One
 * thread a CPU of the trace. Events are played in the order of the file, handed on from thread to
 * thread, or free-running, where an operation waits only for what it needs. Outside the measured
 * time a byte a frame checks that no frame has two owners.
 *
 * This header is shared by those parts, in that order.
 */
#ifndef DECKLE_TOOLS_REPLAY_H
#define DECKLE_TOOLS_REPLAY_H

#include <cjson/cJSON.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <deckle.h>

#include "histogram.h"
#include "trace.h"
#include "trace_model.h"

#define REPLAY_NR_ORDERS (DECKLE_MAX_ORDER_LIMIT + 1u)

/* --- options --------------------------------------------------------------------------------- */

struct replay_options {
    bool free_running, zero, cells;
    uint32_t nodes, repeat;
    uint64_t size_bytes; /* 0 = after the peak */
    struct trace_options trace;
};

/* --- plan ------------------------------------------------------------------------------------ */

enum replay_kind { REPLAY_ALLOC, REPLAY_FREE, REPLAY_SPLIT };

/* Why an operation is there; bits of replay_op.flags. */
#define REPLAY_REMOTE  (1u << 0) /* frees what another CPU of the trace allocated */
#define REPLAY_ADOPTED (1u << 1) /* frees a block from before the recording */
#define REPLAY_PIECE   (1u << 2) /* frees a piece of a block that was split */
#define REPLAY_SEVERAL (1u << 3) /* one of several frees that were one event */
#define REPLAY_LOST    (1u << 4) /* a free that the trace does not show */

struct replay_op {
    uint64_t ahead; /* frames allocated by all operations before */
    uint32_t slot;
    uint32_t offset; /* of the frames in the slot's block */
    uint32_t need;   /* steps (its allocation, and each split) that the slot must have done */
    uint32_t gfp;
    uint32_t line;   /* of the trace, for messages; saturates */
    uint16_t cpu;    /* of the trace */
    uint16_t thread; /* number of its column; once the plan is finished */
    uint8_t kind, flags;
    uint8_t order;     /* of what is allocated, freed, or of the pieces */
    uint8_t old_order; /* SPLIT: of what is divided */
    bool first;        /* of its event */
};

/* The operations of one CPU of the trace, ascending. */
struct replay_column {
    uint32_t cpu, nr;
    uint32_t *index;
};

struct replay_slot {
    uint64_t base; /* first frame in the trace */
    uint8_t order;
    uint16_t cpu; /* that allocated it */
    bool adopted;
    uint32_t op;    /* that allocates it, unless adopted */
    uint32_t steps; /* while planning: steps so far */
};

/* A block from before the recording: the run allocates it before it begins. */
struct replay_adopted {
    uint64_t base;
    uint32_t slot;
    uint8_t order;
};

/* What was counted while planning; a run counts what it really did. */
struct replay_plan_counts {
    uint64_t events;       /* allocations and frees of the trace */
    uint64_t unknown_bits; /* requests with gfp bits that Deckle does not know; they are dropped */
    uint64_t zone_bits;    /* requests for DMA or DMA32 memory; any memory serves */
    uint64_t type_differs; /* requests whose migratetype is not the one that their gfp means */
    uint64_t illegal;      /* requests that Deckle refuses whatever the memory */
    const char *illegal_why; /* of the first */
    uint32_t illegal_line;
    uint64_t misplaced; /* events whose pfn is no multiple of their size; rounded down */
    uint64_t dissolved; /* compound blocks that are split later: allocated as plain ones */
    uint64_t adopted_blocks, adopted_frames;
    uint64_t peak_frames; /* most frames live at any moment, the adopted ones included */
};

struct replay_plan {
    struct replay_op *ops;
    uint32_t nr_ops, room_ops;
    struct replay_slot *slots;
    uint32_t nr_slots, room_slots;  /* slot 0 is none */
    struct replay_adopted *adopted; /* largest first, then by frame */
    uint32_t nr_adopted;
    struct replay_column *columns; /* ascending by CPU */
    uint32_t nr_columns;
    uint32_t max_order; /* largest of any operation, at most DECKLE_MAX_ORDER_LIMIT */
    bool keep_zero;     /* requests keep DECKLE_GFP_ZERO */
    struct replay_plan_counts counts;

    /* While planning. */
    struct replay_frames *frames;
    uint64_t live, adopted_freed;
    int64_t least_adopted_peak; /* most of live - adopted_freed */
    uint64_t allocated;         /* frames of all allocations so far */
    uint32_t line;
};

/* The plan of an empty trace; false when memory runs out. */
bool replay_plan_init(struct replay_plan *p, bool keep_zero);
/* Takes the next event. False when memory runs out or the trace exceeds REPLAY_MAX_OPS or
 * REPLAY_MAX_FRAMES; *why says which. */
bool replay_plan_event(struct replay_plan *p, const struct trace_event *e, const char **why);
/* After the last event: columns and adopted. */
bool replay_plan_finish(struct replay_plan *p);
void replay_plan_free(struct replay_plan *p);

#define REPLAY_MAX_OPS UINT32_C(0x40000000)
#define REPLAY_MAX_FRAMES                                                                          \
    (UINT64_C(1) << 28) /* different frames of the trace, in blocks of 512                         \
                         */

/* --- pool ------------------------------------------------------------------------------------ */

struct replay_pool {
    struct deckle *d;
    void *metadata;
    size_t metadata_bytes;
    char *memory; /* of the frames, NULL unless they are zeroed */
    size_t memory_bytes;
    uint32_t nodes, max_order, nr_zones;
    uint64_t least_frames;      /* of a node, unless a size was given */
    uint64_t managed;           /* frames */
    uint64_t reserves;          /* of them: what ordinary requests do not get */
    uint64_t first_pfn, stride; /* node n: [first + n * stride, … + its share) */
    uint64_t span;              /* nodes * stride: frames from first_pfn on */
    _Atomic uint64_t bad;       /* refused frees and corruption reported by the bad hook */
    uint32_t *cpus;             /* real CPUs that are used, a thread takes them in turn */
    uint32_t nr_cpus;
    uint8_t *cpu_nodes; /* node of each CPU id of the pool */
    uint32_t nr_cpu_ids;
};

/* Makes the pool. frames 0: 1.1 times peak and the reserves. UI_OK or an exit status after a
 * message.
 */
int replay_pool_open(struct replay_pool *pool, const struct replay_options *options,
                     uint64_t peak_frames, uint32_t max_order, uint32_t nr_threads);
void replay_pool_close(struct replay_pool *pool);

/* Sums over all zones. */
struct replay_zones {
    uint64_t free, cached, managed, high;
    uint64_t refills, refill_frames, drains, drain_frames, claims, steals;
    uint64_t blocks[REPLAY_NR_ORDERS]; /* free blocks by order */
};

void replay_pool_zones(const struct replay_pool *pool, struct replay_zones *zones);

/* --- run ------------------------------------------------------------------------------------- */

struct replay_counts {
    uint64_t events; /* played */
    uint64_t allocs, frees, splits;
    uint64_t remote, adopted, pieces, several, lost; /* frees, by why they are there */
    uint64_t failures[32];                           /* allocations, by -error */
    uint64_t left_node;       /* requests for one node alone that another node served, or none */
    uint64_t nothing_to_free; /* frees of blocks whose allocation failed */
    uint64_t refused;         /* frees and splits that Deckle refused */
    uint64_t two_owners;      /* frames given out while somebody had them, or outside the pool */
    uint64_t not_zero;        /* frames asked for zeroed that were not */
    uint64_t waits_block;     /* free-running: waited for another thread's allocation or split */
    uint64_t waits_memory;    /* free-running: waited because too far ahead of the others */
    uint64_t peak_frames;     /* most frames live at any moment */
    uint32_t fault_line;      /* trace line of the first fault, 0 = none */
    uint32_t failure_line;    /* … of the first failed allocation that is legal */
};

/* Everything the report says. */
struct replay_result {
    struct replay_counts counts;
    uint32_t rounds; /* completed */
    uint32_t threads;
    uint64_t elapsed_ns; /* of all rounds */
    double ticks_per_ns;
    double clock_ticks;  /* cost of reading the clock, subtracted from each time */
    uint64_t clock_step; /* ticks in which the clock advances: all times are multiples */
    struct histogram allocs[REPLAY_NR_ORDERS], frees[REPLAY_NR_ORDERS]; /* ticks */
    struct replay_zones before, after; /* traffic: at the ends of what was measured */
    struct replay_zones drained;       /* after, once the caches have been drained */
    uint64_t live_frames, live_blocks; /* at the end of the trace */
    uint64_t adopt_failures;           /* adopted blocks for which there was no memory */
    char invalid[512];                 /* first fault that a check at the end found, "" = none */
    bool interrupted;
};

/* Plays the plan options->repeat times. UI_OK, UI_FAULT, UI_MISSING or UI_INTERRUPTED; where the
 * last is no fault, what was done is in result. */
int replay_run(const struct replay_plan *plan, struct replay_pool *pool,
               const struct replay_options *options, const char *name,
               struct replay_result *result);

/* --- report ---------------------------------------------------------------------------------- */

struct replay_report {
    const struct trace_facts *facts;
    const struct trace_totals *totals;
    const struct replay_plan *plan;
    const struct replay_pool *pool;
    const struct replay_options *options;
    const struct replay_result *result;
};

void replay_print(FILE *to, const struct replay_report *r);
/* The run as an object of the array "runs". NULL when memory runs out. */
cJSON *replay_json(const struct replay_report *r);

/* Failed allocations that memory is to blame for: not those that are illegal. */
uint64_t replay_failures(const struct replay_report *r);
/* Did anything go wrong that should not? Then the exit status is UI_FAULT. */
bool replay_faulty(const struct replay_report *r);

/* Free memory in blocks too small for an order, in ten-thousandths of all of it; 0 of nothing. */
uint32_t replay_unusable(const struct replay_zones *zones, uint32_t order);
/* Free blocks of 512 frames, counting those in larger ones. */
uint64_t replay_free_huge(const struct replay_zones *zones);

/* The times of all orders in one. */
void replay_merge_orders(struct histogram *into, const struct histogram of[REPLAY_NR_ORDERS]);

#endif
