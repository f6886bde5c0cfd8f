/* SPDX-License-Identifier: MIT */
/*
 * Shrinkers, and reclaim by whoever needs the frames (reference: 3.11 step 5; node reclaim 3.3).
 *
 * Registering. A slot has an owner, the shrinker while it may be called, and the number of calls
 * that are running. A caller counts itself first and then looks whether the shrinker is still
 * there; unregistering takes it away first and then looks at the count: one of the two sees the
 * other (seq_cst), so a shrinker that was unregistered with DECKLE_OK is never called again. Nobody
 * waits: while a call runs the slot keeps its owner and unregistering says EBUSY.
 *
 * Reclaiming. Any number of threads at once; nothing is shared but the slots. What a shrinker says
 * it freed is believed for deciding whether to go on; whether a block can be had is asked of the
 * zones.
 */
#include "policy/reclaim.h"

#include "core/alloc.h"
#include "core/node.h"
#include "core/pressure.h"
#include "core/trace.h"

/* ---- registering ----------------------------------------------------------------------------- */

static dk_word address(const struct deckle_shrinker *shrinker)
{
    return (dk_word)(uintptr_t)shrinker;
}

static struct dk_shrinker_slot *slot_of(struct deckle *d, const struct deckle_shrinker *shrinker)
{
    for (uint32_t i = 0; i < DECKLE_MAX_SHRINKERS; i++)
        if (dk_load_acquire(&d->shrinkers[i].owner) == address(shrinker))
            return &d->shrinkers[i];
    return NULL;
}

static void raise_count(struct deckle *d, uint32_t slots)
{
    uint32_t n = dk_a32_load_relaxed(&d->nr_shrinkers);
    while (n < slots && !dk_a32_cas(&d->nr_shrinkers, &n, slots))
        continue;
}

int deckle_register_shrinker(struct deckle *d, const struct deckle_shrinker *shrinker)
{
    if (!d || !shrinker || shrinker->size != sizeof(*shrinker) || !shrinker->count ||
        !shrinker->scan)
        return DECKLE_EINVAL;
    if (slot_of(d, shrinker))
        return DECKLE_EEXIST;
    for (uint32_t i = 0; i < DECKLE_MAX_SHRINKERS; i++) {
        dk_word free = 0;
        if (!dk_cas(&d->shrinkers[i].owner, &free, address(shrinker)))
            continue;
        dk_exchange(&d->shrinkers[i].shrinker, address(shrinker));
        raise_count(d, i + 1);
        return DECKLE_OK;
    }
    return DECKLE_ENOSPC;
}

int deckle_unregister_shrinker(struct deckle *d, const struct deckle_shrinker *shrinker)
{
    struct dk_shrinker_slot *slot = d && shrinker ? slot_of(d, shrinker) : NULL;
    dk_word owner = address(shrinker);
    if (!slot)
        return DECKLE_ENOENT;
    dk_exchange(&slot->shrinker, 0);
    if (dk_load_seq(&slot->users))
        return DECKLE_EBUSY;
    return dk_cas(&slot->owner, &owner, 0) ? DECKLE_OK : DECKLE_ENOENT;
}

/* By CAS: an atomic add that orders what is before and behind it. */
static void change_users(struct dk_shrinker_slot *slot, dk_word by)
{
    dk_word users = dk_load_relaxed(&slot->users);
    while (!dk_cas(&slot->users, &users, users + by))
        continue;
}

static const struct deckle_shrinker *get(struct dk_shrinker_slot *slot)
{
    dk_word found;
    if (!dk_load_relaxed(&slot->shrinker))
        return NULL;
    change_users(slot, 1);
    found = dk_load_seq(&slot->shrinker);
    if (!found)
        change_users(slot, (dk_word)-1);
    return (const struct deckle_shrinker *)(uintptr_t)found;
}

static void put(struct dk_shrinker_slot *slot)
{
    change_users(slot, (dk_word)-1);
}

/* ---- calling --------------------------------------------------------------------------------- */

static bool may_call(const struct dk_shrink_call *call, const struct deckle_shrinker *s)
{
    return !(s->flags & call->deny) && (!call->only_slab || (s->flags & DECKLE_SHRINKER_SLAB)) &&
           (!(s->flags & DECKLE_SHRINKER_IO) || (call->gfp & DECKLE_GFP_IO)) &&
           (!(s->flags & DECKLE_SHRINKER_FS) || (call->gfp & DECKLE_GFP_FS));
}

static struct deckle_shrink terms(const struct dk_shrink_call *call, uint32_t node,
                                  unsigned priority)
{
    return (struct deckle_shrink){.size = sizeof(struct deckle_shrink), .gfp = call->gfp,
                                  .order = call->order, .node = node, .zone = call->highest,
                                  .priority = priority, .d = call->d, .task = call->task};
}

uint64_t dk_reclaimable(const struct dk_shrink_call *call, uint32_t node, uint32_t deny)
{
    struct dk_shrink_call c = *call;
    uint32_t n = dk_a32_load_relaxed(&c.d->nr_shrinkers);
    struct deckle_shrink shrink = terms(call, node, 0);
    uint64_t sum = 0;
    c.deny |= deny;
    for (uint32_t i = 0; i < n; i++) {
        const struct deckle_shrinker *s = get(&c.d->shrinkers[i]);
        if (!s)
            continue;
        if (may_call(&c, s))
            sum = dk_add_sat64(sum, s->count(s->ctx, &shrink));
        put(&c.d->shrinkers[i]);
    }
    return sum;
}

/* One shrinker: its share for this priority, batch by batch. Frames freed. */
static uint64_t shrink_one(struct dk_shrink_call *call, const struct deckle_shrinker *s,
                           uint32_t node, unsigned priority, uint64_t target)
{
    struct deckle_shrink shrink = terms(call, node, priority);
    uint64_t batch = s->batch ? s->batch : DK_SHRINK_BATCH_DEFAULT;
    uint64_t left = dk_scan_count(s->count(s->ctx, &shrink), priority), freed = 0;
    while (left && freed < target) {
        int64_t n;
        shrink.nr_to_scan = dk_min64(left, batch);
        n = s->scan(s->ctx, &shrink);
        call->scanned += shrink.nr_to_scan;
        if (n < 0)
            break;
        freed = dk_add_sat64(freed, (uint64_t)n);
        left -= shrink.nr_to_scan;
    }
    return freed;
}

/* Each round begins with another shrinker, so that the first one is not alone in bearing it. */
uint64_t dk_shrink_node(struct dk_shrink_call *call, uint32_t node, unsigned priority,
                        uint64_t target)
{
    struct deckle *d = call->d;
    uint32_t n = dk_a32_load_relaxed(&d->nr_shrinkers);
    uint64_t freed = 0;
    for (uint32_t i = 0; i < n && freed < target; i++) {
        struct dk_shrinker_slot *slot = &d->shrinkers[(i + priority) % n];
        const struct deckle_shrinker *s = get(slot);
        if (!s)
            continue;
        if (may_call(call, s))
            freed += shrink_one(call, s, node, priority, target - freed);
        put(slot);
    }
    return freed;
}

/* ---- direct reclaim -------------------------------------------------------------------------- */

/* One round over the nodes of the request's zones, each once: a node's zones are neighbours. */
static uint64_t shrink_zones(struct dk_request *r, struct dk_shrink_call *call, unsigned priority,
                             uint64_t target)
{
    struct dk_zonelist_walk walk;
    uint32_t last = DK_NONE;
    uint64_t freed = 0;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone && freed < target; zone = dk_zonelist_next(r->d, &walk)) {
        if (zone->node == last)
            continue;
        last = zone->node;
        freed += dk_shrink_node(call, zone->node, priority, target - freed);
    }
    return freed;
}

/* Progress anywhere gives a node's background reclaim new hope. */
static void encourage(struct deckle *d)
{
    for (uint32_t node = 0; node < d->sb->nr_nodes; node++)
        dk_a32_store_relaxed(&d->sb->daemons[node].kswapd_failures, 0);
}

uint64_t dk_direct_reclaim(struct dk_request *r)
{
    struct deckle *d = r->d;
    struct dk_reclaim_scope scope;
    struct dk_shrink_call call = {.d = d, .gfp = r->ask.gfp, .order = r->ask.order,
                                  .highest = r->highest};
    uint64_t target = dk_direct_target(r->ask.order), freed = 0;

    if (!dk_a32_load_relaxed(&d->nr_shrinkers) || !dk_reclaim_enter(d, r->ask.task, &scope))
        return 0;
    call.task = scope.task;
    dk_count(d, DK_EVENT_ALLOCSTALL, 1);
    dk_trace_mm_vmscan_direct_reclaim_begin(d, r->ask.order, r->ask.gfp);
    for (unsigned priority = DK_DEF_PRIORITY + 1; priority-- > 0 && freed < target;)
        freed += shrink_zones(r, &call, priority, target - freed);
    dk_reclaim_leave(d, &scope);
    dk_count(d, DK_EVENT_PGSCAN_DIRECT, call.scanned);
    dk_count(d, DK_EVENT_PGSTEAL_DIRECT, freed);
    dk_trace_mm_vmscan_direct_reclaim_end(d, freed);
    if (freed)
        encourage(d);
    return freed;
}

/* ---- node reclaim ---------------------------------------------------------------------------- */

#define RECLAIM_DISTANCE 30u
#define MODE_WRITE       2u
#define MODE_UNMAP       4u
#define NODE_PRIORITY    4u

/* The requester's node, or one that nobody else is near enough to use. */
static bool node_allows_reclaim(const struct dk_request *r, uint32_t node)
{
    const struct deckle *d = r->d;
    bool has_cpus = dk_node_cpus(d, node) > 0;
    return dk_node_distance(d, r->node, node) <= RECLAIM_DISTANCE &&
           (!has_cpus || node == d->cpu_nodes[r->cpu < d->nr_cpus ? r->cpu : 0]);
}

static bool pays(const struct dk_shrink_call *call, uint32_t node)
{
    const struct dk_tunables *vm = &call->d->sb->vm;
    uint64_t all = dk_reclaimable(call, node, 0);
    uint64_t unmapped = dk_reclaimable(call, node, DECKLE_SHRINKER_SLAB);
    return dk_node_reclaim_pays(unmapped, dk_sub_sat64(all, unmapped),
                                dk_node_managed(call->d, node),
                                dk_a32_load_relaxed(&vm->min_unmapped_ratio),
                                dk_a32_load_relaxed(&vm->min_slab_ratio));
}

bool dk_node_reclaim(struct dk_request *r, struct dk_zone *zone)
{
    struct deckle *d = r->d;
    uint32_t mode = dk_a32_load_relaxed(&d->sb->vm.zone_reclaim_mode);
    struct deckle_task *task = r->ask.task ? r->ask.task : dk_current_task(d);
    struct dk_shrink_call call = {.d = d, .gfp = r->ask.gfp, .order = r->ask.order,
                                  .highest = r->highest};
    struct dk_reclaim_scope scope;
    uint64_t target = dk_direct_target(r->ask.order), freed = 0;

    call.deny = (mode & MODE_WRITE ? 0 : DECKLE_SHRINKER_IO) |
                (mode & MODE_UNMAP ? 0 : DECKLE_SHRINKER_UNMAP);
    if (!dk_a32_load_relaxed(&d->nr_shrinkers) || (r->ask.flags & DECKLE_REQ_CHEAP) ||
        !(dk_task_gfp(d, task, r->ask.gfp) & DECKLE_GFP_DIRECT_RECLAIM) ||
        (dk_task_flags(task) & DECKLE_TASK_MEMALLOC) || !node_allows_reclaim(r, zone->node) ||
        !dk_reclaim_enter(d, task, &scope))
        return false;
    call.task = scope.task;
    if (pays(&call, zone->node))
        for (unsigned priority = NODE_PRIORITY + 1; priority-- > 0 && freed < target;)
            freed += dk_shrink_node(&call, zone->node, priority, target - freed);
    dk_reclaim_leave(d, &scope);
    dk_count(d, freed < target ? DK_EVENT_ZONE_RECLAIM_FAILED : DK_EVENT_ZONE_RECLAIM_SUCCESS, 1);
    return freed > 0;
}
