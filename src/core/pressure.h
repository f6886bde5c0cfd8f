/* SPDX-License-Identifier: MIT */
/*
 * What the files of the slow path share: slowpath.c (the order of things), fail.c (failures that
 * are established), reclaim.c and kswapd.c (shrinkers), compact.c and its helpers (moving blocks),
 * tunables.c, failure.c (reports).
 *
 * Everything that calls a hook or a shrinker does it with nothing held. What is remembered between
 * calls is words that several threads change at once; each is a hint, or changed by one CAS.
 */
#ifndef DK_CORE_PRESSURE_H
#define DK_CORE_PRESSURE_H

#include <deckle/pressure.h>

#include "core/layout.h"
#include "policy/alloc_flags.h"
#include "policy/retry.h"

struct dk_request;

/* ---- hooks ---------------------------------------------------------------------------------- */

/* NULL: none. Load once a call: they may be replaced meanwhile. */
static inline const struct deckle_pressure_hooks *dk_hooks(const struct deckle *d)
{
    return (const struct deckle_pressure_hooks *)(uintptr_t)dk_load_acquire(&d->hooks);
}

static inline bool dk_hooks_restrict(const struct deckle *d)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    return hooks && hooks->task && (hooks->flags & DECKLE_HOOKS_RESTRICT);
}

/* Not in pools that processes share: an area that is being emptied belongs to no intent, so nobody
 * could give it back if its compactor died. */
static inline bool dk_can_compact(const struct deckle *d)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    return hooks && hooks->migrate && !d->intents;
}

static inline struct deckle_task *dk_current_task(const struct deckle *d)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    return hooks && hooks->task ? hooks->task(hooks->ctx) : NULL;
}

static inline void dk_count(const struct deckle *d, enum dk_event event, uint64_t n)
{
    dk_counter_add(&d->sb->events[event], (uint32_t)n);
}

/* Let others run for about this long. */
void dk_wait(const struct deckle *d, enum deckle_wait why, uint64_t ns);

#define DK_TICK_NS UINT64_C(1000000)

/* ---- tasks (task.c) -------------------------------------------------------------------------- */

/* NULL = unrestricted, in task context. */
static inline uint32_t dk_task_flags(const struct deckle_task *task)
{
    return task ? task->flags : 0;
}
static inline uint32_t dk_task_context(const struct deckle_task *task)
{
    return task ? task->context : DECKLE_CONTEXT_TASK;
}
uint32_t dk_task_cookie(const struct deckle_task *task);
struct dk_requester dk_task_requester(const struct deckle_task *task, bool oom_victim);

/* The flags of a request of this task: its scopes, its context and the global mask take some. */
uint32_t dk_task_gfp(const struct deckle *d, const struct deckle_task *task, uint32_t gfp);

/* Nodes that a request may use by its own mask and the task's sets; 0 = all. False: none. hardwall:
 * as if with HARDWALL (the first pass). */
bool dk_task_nodes(const struct deckle_task *task, uint32_t gfp, uint64_t nodemask, bool hardwall,
                   uint64_t *nodes);

/*
 * The task begins to free memory for itself: its further requests use all reserves and do not come
 * here. False: it does already, or it has no task to say so in and too many others of that kind
 * are under way. anonymous: a task for those without.
 */
struct dk_reclaim_scope {
    struct deckle_task *task;
    struct deckle_task anonymous;
};
bool dk_reclaim_enter(struct deckle *d, struct deckle_task *task, struct dk_reclaim_scope *scope);
void dk_reclaim_leave(struct deckle *d, struct dk_reclaim_scope *scope);

/* ---- slow path ------------------------------------------------------------------------------- */

/* slowpath.c: the first pass found nothing. Pfn or error; failures are counted and reported. */
int64_t dk_slow_path(struct dk_request *r);

/* fail.c: one more search that ends with a block or with a reason that is true of an instant. */
int64_t dk_establish(struct dk_request *r, uint32_t alloc_flags);
/* The same for requests that must cost nothing. Pfn or error. */
int64_t dk_cheap_path(struct dk_request *r);
/* Give back what the caches hold of the zones that the request may use. */
bool dk_drain_eligible(struct dk_request *r);

/* failure.c: tell the host, unless it was told a moment ago. */
void dk_report_failure(struct dk_request *r, int error);

/* ---- reclaim --------------------------------------------------------------------------------- */

/* For whom shrinkers are called. */
struct dk_shrink_call {
    struct deckle *d;
    struct deckle_task *task;
    uint32_t gfp, order;
    enum deckle_zone_type highest;
    uint32_t deny;      /* DECKLE_SHRINKER_… that must not be called */
    bool only_slab;     /* none but DECKLE_SHRINKER_SLAB */
    uint64_t scanned;   /* += frames looked at */
};

/* Frames that the shrinkers could free on this node; deny as in the call. */
uint64_t dk_reclaimable(const struct dk_shrink_call *call, uint32_t node, uint32_t deny);

/* One round over the shrinkers for a node: scan a share that grows as priority falls, until target
 * frames are free. Returns how many. */
uint64_t dk_shrink_node(struct dk_shrink_call *call, uint32_t node, unsigned priority,
                        uint64_t target);

/* Direct reclaim of a request in the zones that it may use; frames freed. */
uint64_t dk_direct_reclaim(struct dk_request *r);

/* The preferred zone's node is below its mark: reclaim there before the request leaves it. True: it
 * may have helped. */
bool dk_node_reclaim(struct dk_request *r, struct dk_zone *zone);

/* kswapd.c: the request goes to background reclaim, on every node of its list; on one zone's. */
void dk_wake_all_kswapds(struct dk_request *r);
void dk_wake_kswapd(struct deckle *d, const struct dk_zone *zone, uint32_t gfp, unsigned order,
                    enum deckle_zone_type highest);

/* highatomic.c: a block of the reserve becomes the requester's type. force: also the last one. True
 * if one did. */
bool dk_highatomic_release(struct dk_request *r, bool force);

/* ---- compaction ------------------------------------------------------------------------------ */

struct dk_compaction {
    struct deckle *d;
    struct deckle_task *task;
    unsigned order;      /* of the block wanted; DK_COMPACT_WHOLE = all whole pageblocks */
    enum deckle_migratetype type;
    enum dk_compact_priority priority;
    uint32_t gfp;
    bool direct;         /* for a request, not in the background */
    bool capture;        /* a block of the order is wanted: keep the first */
    uint32_t budget;     /* pageblocks that may still be evacuated */
    uint32_t captured;   /* frame index of the block that was kept; DK_NONE */
    uint32_t emptied;    /* areas that were emptied */
};
#define DK_COMPACT_WHOLE UINT32_MAX

/* One zone, from where the scanners stand until they meet, a block is made or the budget is spent
 * (FAILED then, with budget 0). */
enum dk_compact_result dk_compact_zone_run(struct dk_compaction *c, struct dk_zone *zone);

/* Can compaction help in this zone? (policy/retry.h) */
bool dk_zone_compact_suitable(const struct deckle *d, struct dk_zone *zone, unsigned order,
                              enum deckle_zone_type highest);

/* Direct compaction of a request: all zones it may use. *pfn >= 0: a block was captured, and is
 * allocated to it. */
enum dk_compact_result dk_direct_compact(struct dk_request *r, enum dk_compact_priority priority,
                                         uint32_t alloc_flags, int64_t *pfn);

/* A zone's deferral: is this attempt left out; what came of it. */
bool dk_zone_compact_deferred(struct deckle *d, struct dk_zone *zone, unsigned order);
void dk_zone_compact_note(struct dk_zone *zone, unsigned order, bool success);

/* compact_daemon.c */
void dk_wake_kcompactd(struct deckle *d, uint32_t node, unsigned order,
                       enum deckle_zone_type highest);

/* ---- tunables -------------------------------------------------------------------------------- */

void dk_tunables_init(struct dk_superblock *sb);
/* The boost that holds: none without background reclaim, which alone ends it. */
void dk_update_boost_factor(struct deckle *d);

#endif
