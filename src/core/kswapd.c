/* SPDX-License-Identifier: MIT */
/*
 * Background reclaim of a node, in steps that an embedder's thread makes (reference: 3.11 step 2,
 * 3.3 marks and boost).
 *
 *   woken     by requests below their mark, for an order and up to a zone type; the node remembers
 *             the largest of each. Not when it is balanced already, nor when it is hopeless: then
 *             background compaction is asked, for requests that cannot compact themselves
 *   boost     first as many frames as the boost says, lightly and without I/O; then the boost ends,
 *             also when they could not be had, and background compaction follows
 *   balanced  some zone up to the type passes at high for the order. An order above 0 becomes 0
 *             when enough was reclaimed for a compaction (2 * 2^order): the rest is its work
 *   hopeless  16 times no progress at the highest priority: the node sleeps until a direct reclaim
 *             succeeds
 *
 * Waking. The waker writes order and type, then exchanges "awake"; only who found it 0 calls the
 * hook. The step clears "awake", then looks again; so a wake between its last look and the clearing
 * is seen by one of the two.
 */
#include "policy/reclaim.h"

#include "core/alloc.h"
#include "core/node.h"
#include "core/pressure.h"
#include "core/trace.h"
#include "policy/watermark.h"

static void raise_to(dk_a32 *word, uint32_t v)
{
    uint32_t now = dk_a32_load_relaxed(word);
    while (now < v && !dk_a32_cas(word, &now, v))
        continue;
}

/* ---- balance --------------------------------------------------------------------------------- */

static bool zone_is_balanced(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                             enum deckle_zone_type highest)
{
    struct dk_watermark_input in = {
        .free = dk_zone_free_exact(d, zone),
        .free_highatomic = dk_zone_count(d, zone, DK_COUNT_FREE_HIGHATOMIC),
        .free_cma = dk_zone_count(d, zone, DK_COUNT_FREE_CMA),
        .mark = dk_load_relaxed(&zone->high),
        .boost = dk_load_relaxed(&zone->boost),
        .lowmem_reserve = dk_load_relaxed(&zone->lowmem_reserve[highest]),
        .order = order,
        .suitable = order ? dk_zone_suitable(d, zone, order) : 0,
    };
    return dk_watermark_ok(&in);
}

#define FOR_EACH_ZONE_OF(d, node, highest, zone)                                                   \
    for (uint32_t type_ = 0; type_ <= (uint32_t)(highest); type_++)                                \
        for (struct dk_zone *zone = dk_node_zone(d, node, type_);                                  \
             zone && dk_zone_is_populated(zone); zone = NULL)

/* A node without memory is balanced. */
static bool is_balanced(const struct deckle *d, uint32_t node, unsigned order,
                        enum deckle_zone_type highest)
{
    bool any = false;
    FOR_EACH_ZONE_OF(d, node, highest, zone) {
        any = true;
        if (zone_is_balanced(d, zone, order, highest))
            return true;
    }
    return !any;
}

static uint64_t boost_of(const struct deckle *d, uint32_t node, enum deckle_zone_type highest)
{
    uint64_t sum = 0;
    FOR_EACH_ZONE_OF(d, node, highest, zone)
        sum += dk_load_relaxed(&zone->boost);
    return sum;
}

/* Frames that the zones lack of their high marks. */
static uint64_t shortage(const struct deckle *d, uint32_t node, enum deckle_zone_type highest)
{
    uint64_t sum = 0;
    FOR_EACH_ZONE_OF(d, node, highest, zone)
        sum += dk_sub_sat64(dk_load_relaxed(&zone->high), dk_zone_free_exact(d, zone));
    return dk_clamp64(sum, DK_SWAP_CLUSTER_MAX, DK_KSWAPD_STEP_MOST);
}

/* ---- waking ---------------------------------------------------------------------------------- */

void dk_wake_kswapd(struct deckle *d, const struct dk_zone *zone, uint32_t gfp, unsigned order,
                    enum deckle_zone_type highest)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    struct dk_node_daemons *n = &d->sb->daemons[zone->node];
    if (!hooks || !hooks->wake)
        return;
    raise_to(&n->kswapd_order, order);
    raise_to(&n->kswapd_highest, (uint32_t)highest + 1);
    if (dk_a32_load_relaxed(&n->kswapd_awake))
        return;
    if (dk_a32_load_relaxed(&n->kswapd_failures) >= DK_KSWAPD_HOPELESS ||
        (is_balanced(d, zone->node, order, highest) && !boost_of(d, zone->node, highest))) {
        if (!(gfp & DECKLE_GFP_DIRECT_RECLAIM))
            dk_wake_kcompactd(d, zone->node, order, highest);
        return;
    }
    if (dk_a32_exchange(&n->kswapd_awake, 1))
        return;
    dk_count(d, DK_EVENT_KSWAPD_WAKE, 1);
    dk_trace_mm_vmscan_wakeup_kswapd(d, zone->node, highest, order, gfp);
    hooks->wake(hooks->ctx, zone->node, DECKLE_KSWAPD);
}

/* Each node of the list once: zones of a node are neighbours in it. In defrag_mode whole blocks are
 * what must not run out. */
void dk_wake_all_kswapds(struct dk_request *r)
{
    struct deckle *d = r->d;
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    struct dk_zonelist_walk walk;
    uint32_t last = DK_NONE;
    unsigned order = r->ask.order;
    if (!hooks || !hooks->wake || dk_task_context(r->ask.task) == DECKLE_CONTEXT_NMI)
        return;
    if (dk_a32_load_relaxed(&d->sb->vm.defrag_mode) && order < DK_BLOCK_ORDER)
        order = DK_BLOCK_ORDER;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(d, &walk)) {
        if (zone->node != last)
            dk_wake_kswapd(d, zone, r->ask.gfp, order, r->highest);
        last = zone->node;
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

struct work {
    struct deckle *d;
    uint32_t node;
    struct dk_node_daemons *n;
    unsigned order;
    enum deckle_zone_type highest;
    struct dk_shrink_call call;
};

static void read_work(struct work *w)
{
    uint32_t highest = dk_a32_load_relaxed(&w->n->kswapd_highest);
    w->order = dk_a32_load_relaxed(&w->n->kswapd_order);
    if (w->order > w->d->max_order)
        w->order = w->d->max_order;
    w->highest = highest && highest <= DECKLE_NR_ZONE_TYPES ? (enum deckle_zone_type)(highest - 1)
                                                            : DECKLE_ZONE_MOVABLE;
    /* What was reclaimed suffices for a compaction: the rest is not a matter of more frames. */
    if (w->order && dk_a32_load_relaxed(&w->n->kswapd_reclaimed) >= UINT32_C(2) << w->order)
        w->order = 0;
}

static bool has_work(const struct work *w)
{
    return boost_of(w->d, w->node, w->highest) ||
           !is_balanced(w->d, w->node, w->order, w->highest);
}

/* The node is done, or hopeless: 0, or 1 if it was woken again meanwhile. */
static int go_to_sleep(struct work *w, bool hopeless)
{
    struct dk_node_daemons *n = w->n;
    uint32_t order = dk_a32_load_relaxed(&n->kswapd_order);
    dk_a32_exchange(&n->kswapd_awake, 0);
    if (!hopeless) {
        read_work(w);
        if (has_work(w)) {
            dk_a32_exchange(&n->kswapd_awake, 1);
            return 1;
        }
    }
    if (order)
        dk_wake_kcompactd(w->d, w->node, order, w->highest);
    dk_a32_cas(&n->kswapd_order, &order, 0);
    dk_a32_store_relaxed(&n->kswapd_highest, 0);
    dk_a32_store_relaxed(&n->kswapd_priority, 0);
    dk_a32_store_relaxed(&n->kswapd_reclaimed, 0);
    return 0;
}

/* `by` frames less, of the zones together. */
static void lower_boosts(const struct work *w, uint64_t by)
{
    FOR_EACH_ZONE_OF(w->d, w->node, w->highest, zone) {
        dk_word boost = dk_load_relaxed(&zone->boost), part;
        do
            part = (dk_word)dk_min64(boost, by);
        while (part && !dk_cas(&zone->boost, &boost, boost - part));
        by -= part;
    }
}

static uint64_t shrink(struct work *w, unsigned priority, uint64_t target)
{
    uint64_t freed = dk_shrink_node(&w->call, w->node, priority, target);
    dk_count(w->d, DK_EVENT_PGSCAN_KSWAPD, w->call.scanned);
    dk_count(w->d, DK_EVENT_PGSTEAL_KSWAPD, freed);
    w->call.scanned = 0;
    dk_a32_add_relaxed(&w->n->kswapd_reclaimed, (uint32_t)dk_min64(freed, UINT16_MAX));
    return freed;
}

static void end_boost(struct work *w, uint64_t boost)
{
    uint64_t target = dk_min64(boost, DK_KSWAPD_STEP_MOST), freed = 0;
    unsigned priority = DK_DEF_PRIORITY;
    w->call.deny = DECKLE_SHRINKER_IO;
    while (priority >= DK_BOOST_PRIORITY_LEAST && freed < target) {
        uint64_t n = shrink(w, priority, target - freed);
        freed += n;
        priority -= !n; /* not harder while it works */
    }
    w->call.deny = 0;
    lower_boosts(w, freed < target ? boost : freed);
    if (!boost_of(w->d, w->node, w->highest))
        dk_wake_kcompactd(w->d, w->node, DK_BLOCK_ORDER, w->highest);
}

/* One round at the node's priority. False: hopeless. */
static bool balance(struct work *w)
{
    struct dk_node_daemons *n = w->n;
    uint32_t priority = dk_a32_load_relaxed(&n->kswapd_priority);
    uint64_t target = shortage(w->d, w->node, w->highest), freed;
    if (!priority || priority > DK_DEF_PRIORITY + 1) {
        priority = DK_DEF_PRIORITY + 1;
        dk_count(w->d, DK_EVENT_PAGEOUTRUN, 1);
    }
    if (w->order)
        target = dk_max64(target, dk_min64(UINT32_C(2) << w->order, DK_KSWAPD_STEP_MOST));
    freed = shrink(w, priority - 1, target);
    if (freed)
        dk_a32_store_relaxed(&n->kswapd_failures, 0);
    else if (priority == 1 && dk_a32_add_relaxed(&n->kswapd_failures, 1) + 1 >= DK_KSWAPD_HOPELESS)
        return false;
    if (freed < target)
        priority--;
    dk_a32_store_relaxed(&n->kswapd_priority, priority ? priority : DK_DEF_PRIORITY + 1);
    return true;
}

static int step(struct work *w)
{
    uint64_t boost = boost_of(w->d, w->node, w->highest);
    if (boost)
        end_boost(w, boost);
    if (is_balanced(w->d, w->node, w->order, w->highest))
        return go_to_sleep(w, false);
    if (dk_a32_load_relaxed(&w->n->kswapd_failures) < DK_KSWAPD_HOPELESS && balance(w)) {
        read_work(w);
        return has_work(w) ? 1 : go_to_sleep(w, false);
    }
    dk_count(w->d, DK_EVENT_KSWAPD_HOPELESS, 1);
    return go_to_sleep(w, true);
}

int deckle_reclaim_step(struct deckle *d, uint32_t node, struct deckle_task *task)
{
    struct dk_reclaim_scope scope;
    struct work w = {.d = d, .node = node};
    int result;
    if (!d || node >= d->sb->nr_nodes)
        return DECKLE_ENODEV;
    if (!dk_reclaim_enter(d, task ? task : dk_current_task(d), &scope))
        return 0;
    w.n = &d->sb->daemons[node];
    read_work(&w);
    w.call = (struct dk_shrink_call){.d = d, .task = scope.task, .gfp = DECKLE_GFP_KERNEL,
                                     .order = w.order, .highest = w.highest};
    result = step(&w);
    dk_reclaim_leave(d, &scope);
    return result;
}
