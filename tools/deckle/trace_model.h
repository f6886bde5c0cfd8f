/* SPDX-License-Identifier: MIT */
/*
 * What a list of page events means: which blocks are live, how much memory they take at most, and
 * what the kernel that recorded them did in its shared level. Pure: no I/O, no clock, one event
 * after another in, figures out. A replay asks it for each event what kind of step that is.
 *
 * A block is live from its mm_page_alloc to its mm_page_free. Frames allocated before the recording
 * are not known; their free is "adopted": the frames belong to nobody here and only the free is
 * seen. Blocks of one frame or more are kept by their first frame; cost amortised O(orders) an
 * event, 32 bytes of memory for each live block.
 */
#ifndef DECKLE_TOOLS_TRACE_MODEL_H
#define DECKLE_TOOLS_TRACE_MODEL_H

#include "trace.h"

/* What an event is in the light of those before it. */
enum trace_step {
    TRACE_STEP_NONE,         /* changes nothing (also TRACE_ALLOC_FAILED) */
    TRACE_STEP_ALLOC,        /* a block becomes live */
    TRACE_STEP_ALLOC_DOUBLE, /* the same, but some of its frames were live: their frees are missing
                                in the trace, and their blocks end here */
    TRACE_STEP_FREE,         /* a whole live block, or a piece of one that has been split */
    TRACE_STEP_FREE_SPLIT, /* the first piece of a live block: all of it is to be split into blocks
                              of the event's order before the piece is freed */
    TRACE_STEP_FREE_SEVERAL, /* covers more than one live block; all of them end */
    TRACE_STEP_FREE_ADOPTED  /* none of its frames are live */
};

struct trace_step_detail {
    enum trace_step step;
    /* FREE, FREE_SPLIT: the live block that holds the frames, as it was before, and the CPU that
     * allocated it. */
    uint64_t block_pfn;
    uint8_t block_order;
    uint32_t alloc_cpu;
    uint64_t ended; /* ALLOC_DOUBLE, FREE_SEVERAL: live blocks that end */
};

/* The shared level of the kernel's allocator, as far as it was recorded. */
struct trace_shared {
    bool recorded;   /* the trace has such events */
    uint64_t events; /* lines of the kernel */
    uint64_t frames;
    uint64_t bursts; /* runs of such events on one CPU: entries into the shared level */
};

struct trace_totals {
    uint64_t allocs, frees, failed; /* events */
    uint64_t alloc_frames, free_frames;
    uint64_t allocs_by_order[TRACE_NR_ORDERS];
    uint64_t frees_by_order[TRACE_NR_ORDERS];

    uint64_t live_frames, live_blocks;       /* now */
    uint64_t live_by_order[TRACE_NR_ORDERS]; /* blocks */
    uint64_t peak_frames;                    /* most live frames at any moment */
    uint64_t peak_line;                      /* of the event that reached it first */
    uint64_t peak_by_order[TRACE_NR_ORDERS]; /* blocks live at that moment */
    uint64_t highest_pfn;                    /* of all frames named by allocs and frees */

    uint64_t adopted_frees, adopted_frames;
    uint64_t split_blocks;  /* live blocks freed in pieces */
    uint64_t piece_frees;   /* frees of such pieces */
    uint64_t several_frees; /* FREE_SEVERAL */
    uint64_t double_allocs; /* ALLOC_DOUBLE */
    uint64_t lost_frames;   /* live frames that ended so */
    uint64_t misaligned;    /* allocs and frees whose pfn is no multiple of their size */
    uint64_t remote_frees;  /* whole blocks and pieces freed by another CPU than allocated them */

    struct trace_shared refill; /* mm_page_alloc_zone_locked */
    struct trace_shared drain;  /* mm_page_pcpu_drain */
    uint64_t fallbacks;         /* mm_page_alloc_extfrag */
    uint64_t fallbacks_whole;   /* … that took a block of order 9 or more */
};

struct trace_model;

/* NULL when memory runs out. */
struct trace_model *trace_model_new(void);
void trace_model_free(struct trace_model *m);

/* Takes the next event. detail may be NULL. False when memory ran out; the model is then unusable.
 */
bool trace_model_event(struct trace_model *m, const struct trace_event *event,
                       struct trace_step_detail *detail);

const struct trace_totals *trace_model_totals(const struct trace_model *m);

/* --- a whole trace in memory ----------------------------------------------------------------- */

/* The events that change state, in the order of the trace, and the same for each CPU that has any.
 */
struct trace_cpu_events {
    uint32_t cpu;
    uint32_t nr;
    uint32_t *index; /* into events, ascending */
};

struct trace_list {
    struct trace_event *events; /* TRACE_ALLOC and TRACE_FREE alone */
    uint32_t nr, room;
    struct trace_cpu_events *cpus; /* ascending by CPU; set by trace_list_order */
    uint32_t nr_cpus;
};

#define TRACE_LIST_MAX UINT32_C(0x7fffffff)

/* Adds an event if it changes state. False when memory or the maximum is exhausted. */
bool trace_list_add(struct trace_list *list, const struct trace_event *event);
/* Fills cpus. False when memory runs out. */
bool trace_list_order(struct trace_list *list);
void trace_list_free(struct trace_list *list);

/*
 * Reads all of an open trace: events that change state into list, everything through the model.
 * list or model may be NULL. more is asked now and then with the context whether to go on, and may
 * be NULL. Returns TRACE_END, TRACE_ERROR with message set (TRACE_MESSAGE * 2 bytes), or
 * TRACE_EVENT if more said no.
 */
enum trace_status trace_read_all(struct trace *t, struct trace_list *list,
                                 struct trace_model *model, bool (*more)(void *context),
                                 void *context, char *message);

#endif
