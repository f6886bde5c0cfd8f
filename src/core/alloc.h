/* SPDX-License-Identifier: MIT */
/*
 * The front, for the rest of the core: one request, one free, with the caller's address for
 * reports.
 */
#ifndef DK_CORE_ALLOC_H
#define DK_CORE_ALLOC_H

#include "core/layout.h"
#include "core/zone.h"
#include "core/zonelist.h"

/* A request on its way: what was asked and what follows from it. */
struct dk_request {
    struct deckle *d;
    struct deckle_request ask;
    const void *caller;
    enum deckle_migratetype type;
    enum deckle_zone_type highest;
    uint32_t node;            /* whose zonelist */
    uint32_t cpu;             /* where the request began; >= nr_cpus: no caches */
    struct dk_zone *preferred;
    const struct dk_zonelist *list;
    uint32_t epoch;           /* of the zonelists, when the request began */
    bool cacheable;           /* order and conditions allow the per-CPU caches */
    bool no_first_pass;       /* the task's own nodes and the request's have none in common */
    uint32_t mems_cookie;     /* of the task, when its nodes were read */
    uint64_t nodes;           /* mask in effect: the request's and the task's; 0 = all */
};

/* One walk over the zones: how, and what it has seen when it found nothing. */
struct dk_pass {
    uint32_t alloc_flags;
    bool spread_dirty; /* heed dirty limits: the first pass */
    bool below_mark;   /* a zone had frames, below the mark */
    bool fragmented;   /* a zone had frames above the mark, but no run */
    bool contended;
};

/* The preferred zone of the request; dk_zonelist_next goes on from there. */
static inline struct dk_zone *dk_request_first_zone(const struct dk_request *r,
                                                    struct dk_zonelist_walk *walk)
{
    return dk_zonelist_first(r->d, r->list, r->highest, r->nodes, walk);
}

/* Check and complete a request: DECKLE_OK, or EINVAL, E2BIG, ENODEV, ECONSTRAINED, ENOTSUP. */
int dk_request_begin(struct deckle *d, const struct deckle_request *ask, const void *caller,
                     struct dk_request *r);

/* Does it exclude zones that others like it may use? */
static inline bool dk_request_is_restricted(const struct dk_request *r)
{
    return r->nodes || r->ask.limit_pfn || (r->ask.gfp & DECKLE_GFP_THISNODE);
}
static inline bool dk_request_below_limit(const struct dk_request *r, const struct dk_zone *zone)
{
    return !r->ask.limit_pfn || dk_pfn_load(&zone->start_pfn) < r->ask.limit_pfn;
}
/* The first zone that it could use without restrictions. */
struct dk_zone *dk_request_first_of_all(const struct dk_request *r, struct dk_zonelist_walk *walk);
/* Why it has no zone at all: ECONSTRAINED or ENODEV. */
int dk_request_no_zone(const struct dk_request *r);
/* Its zonelist and preferred zone anew, from gfp and nodes; false: no zone, preferred as before. */
bool dk_request_choose(struct dk_request *r);
/* One pass: pfn, or negative. */
int64_t dk_request_pass(struct dk_request *r, struct dk_pass *p);
int64_t dk_request_first_pass(struct dk_request *r);
uint32_t dk_request_first_flags(const struct dk_request *r);

/* A block for it: pfn or error; failures are counted. */
int64_t dk_request_alloc(struct dk_request *r);

/* May the request take n frames more from this zone? DECKLE_OK or the verdict of
 * policy/watermark.h. */
int dk_request_verdict(const struct dk_request *r, struct dk_zone *zone, uint32_t alloc_flags,
                       uint64_t more);

/* A block of the zone that nobody else knows is given out: state, switches, statistics of nodes. */
bool dk_request_finish(struct dk_request *r, struct dk_zone *zone, uint32_t fi);

/* n blocks of the zone went to the request: statistics of nodes. */
void dk_request_count_node(const struct dk_request *r, const struct dk_zone *zone, uint32_t n);

static inline void dk_request_fill_take(const struct dk_request *r, uint32_t alloc_flags,
                                        struct dk_take *take)
{
    *take = (struct dk_take){.order = r->ask.order,
                             .type = r->type,
                             .flags = alloc_flags,
                             .cpu = r->cpu,
                             .limit_pfn = r->ask.limit_pfn};
}

/* deckle_free with everything: owner 0 = not said. */
int dk_free(struct deckle *d, uint64_t pfn, unsigned order, uint32_t owner, const void *caller);

/* A block that is nobody's any more (state free) back to its list or the shared level. */
void dk_free_block(struct deckle *d, uint32_t zone, uint32_t fi, unsigned order, unsigned pcp_type);

/* The allocated frames [from, to) of the block at fi become blocks of their own, as large as
 * alignment and max_piece allow, each with state, owner and reference like the block's head. */
void dk_set_pieces(struct deckle *d, uint32_t fi, uint64_t from, uint64_t to, unsigned max_piece,
                   uint8_t like);

/* Order of the piece that starts at frame n of something aligned, when `left` frames are left. */
static inline unsigned dk_piece_order(uint64_t n, uint64_t left, unsigned max)
{
    unsigned order = dk_fls64(left);
    if (order > max)
        order = max;
    while (n & (((uint64_t)1 << order) - 1))
        order--;
    return order;
}

/* Count a failure by its reason and return it. */
int dk_fail(struct deckle *d, int error);

#endif
