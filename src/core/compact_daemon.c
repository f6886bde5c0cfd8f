/* SPDX-License-Identifier: MIT */
/*
 * Background compaction of a node, in steps that an embedder's thread makes (reference: 3.11,
 * "Proactive").
 *
 *   asked for    by background reclaim when it went to sleep for an order above 0 or ended a boost,
 *                and for requests that cannot compact themselves: zones that suit and are not
 *                deferred, synchronous but light
 *   proactive    while nobody asks and background reclaim sleeps: begins when the node's score is
 *                above its start mark, ends below its stop mark; after a round that changed nothing
 *                it rests for 64 steps
 *
 * Waking as in kswapd.c.
 */
#include "core/compact_internal.h"
#include "core/node.h"

#define STEP_BUDGET 32u /* pageblocks */

static void raise_to(dk_a32 *word, uint32_t v)
{
    uint32_t now = dk_a32_load_relaxed(word);
    while (now < v && !dk_a32_cas(word, &now, v))
        continue;
}

void dk_wake_kcompactd(struct deckle *d, uint32_t node, unsigned order,
                       enum deckle_zone_type highest)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    struct dk_node_daemons *n = &d->sb->daemons[node];
    if (!order || !dk_can_compact(d) || !hooks->wake)
        return;
    raise_to(&n->kcompactd_order, order + 1);
    raise_to(&n->kcompactd_highest, (uint32_t)highest + 1);
    if (dk_a32_load_relaxed(&n->kcompactd_awake) || dk_a32_exchange(&n->kcompactd_awake, 1))
        return;
    dk_count(d, DK_EVENT_COMPACT_DAEMON_WAKE, 1);
    hooks->wake(hooks->ctx, node, DECKLE_KCOMPACTD);
}

static struct dk_compaction begin(struct deckle *d, struct deckle_task *task, unsigned order)
{
    return (struct dk_compaction){.d = d, .task = task, .order = order, .type = DECKLE_MOVABLE,
                                  .priority = DK_COMPACT_SYNC_LIGHT, .gfp = DECKLE_GFP_KERNEL,
                                  .budget = STEP_BUDGET, .captured = DK_NONE};
}

/* Zones up to the type, each until it has a block of the order. False: the budget is spent. */
static bool work_for(struct deckle *d, uint32_t node, struct deckle_task *task, unsigned order,
                     enum deckle_zone_type highest)
{
    struct dk_compaction c = begin(d, task, order);
    for (uint32_t type = 0; type <= (uint32_t)highest; type++) {
        struct dk_zone *zone = dk_node_zone(d, node, type);
        enum dk_compact_result result;
        if (!zone || !dk_zone_is_populated(zone) || dk_zone_suitable(d, zone, order) ||
            dk_zone_compact_deferred(d, zone, order) ||
            !dk_zone_compact_suitable(d, zone, order, highest))
            continue;
        result = dk_compact_zone_run(&c, zone);
        if (result == DK_COMPACT_SUCCESS)
            dk_zone_compact_note(zone, order, true);
        else if (c.budget)
            dk_zone_compact_note(zone, order, false);
        if (!c.budget)
            return false;
    }
    return true;
}

static int step_for_order(struct deckle *d, uint32_t node, struct deckle_task *task,
                          uint32_t asked)
{
    struct dk_node_daemons *n = &d->sb->daemons[node];
    uint32_t highest = dk_a32_load_relaxed(&n->kcompactd_highest), again;
    if (highest > DECKLE_NR_ZONE_TYPES)
        highest = DECKLE_NR_ZONE_TYPES;
    if (!work_for(d, node, task, asked - 1 <= d->max_order ? asked - 1 : d->max_order,
                  (enum deckle_zone_type)(highest ? highest - 1 : DECKLE_ZONE_MOVABLE)))
        return 1;
    again = asked;
    dk_a32_cas(&n->kcompactd_order, &again, 0);
    dk_a32_store_relaxed(&n->kcompactd_highest, 0);
    dk_a32_exchange(&n->kcompactd_awake, 0);
    if (!dk_a32_load_seq(&n->kcompactd_order))
        return 0;
    dk_a32_exchange(&n->kcompactd_awake, 1);
    return 1;
}

/* Is it time, by score? */
static bool proactive_is_due(struct deckle *d, struct dk_node_daemons *n, uint32_t node, int *score)
{
    unsigned p = dk_a32_load_relaxed(&d->sb->vm.compaction_proactiveness);
    uint32_t rest = dk_a32_load_relaxed(&n->proactive_rest);
    bool running = dk_a32_load_relaxed(&n->proactive);
    if (!p || dk_a32_load_relaxed(&n->kswapd_awake))
        return false;
    if (rest) {
        dk_a32_store_relaxed(&n->proactive_rest, rest - 1);
        return false;
    }
    *score = deckle_fragmentation_score(d, node);
    return *score > (int)(running ? dk_proactive_stop(p) : dk_proactive_start(p));
}

static int step_proactive(struct deckle *d, uint32_t node, struct deckle_task *task)
{
    struct dk_node_daemons *n = &d->sb->daemons[node];
    struct dk_compaction c = begin(d, task, DK_COMPACT_WHOLE);
    int before = 0;
    if (!proactive_is_due(d, n, node, &before)) {
        dk_a32_store_relaxed(&n->proactive, 0);
        return 0;
    }
    if (!dk_a32_exchange(&n->proactive, 1))
        dk_count(d, DK_EVENT_COMPACT_DAEMON_PROACTIVE, 1);
    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES && c.budget; type++) {
        struct dk_zone *zone = dk_node_zone(d, node, type);
        if (zone && dk_zone_is_populated(zone))
            dk_compact_zone_run(&c, zone);
    }
    if (!c.emptied && deckle_fragmentation_score(d, node) >= before) {
        dk_a32_store_relaxed(&n->proactive_rest, 1u << DK_COMPACT_DEFER_MOST);
        dk_a32_store_relaxed(&n->proactive, 0);
        return 0;
    }
    return 1;
}

int deckle_compact_step(struct deckle *d, uint32_t node, struct deckle_task *task)
{
    struct dk_reclaim_scope scope;
    uint32_t order;
    int result;
    if (!d || node >= d->sb->nr_nodes)
        return DECKLE_ENODEV;
    if (!dk_can_compact(d) || !dk_reclaim_enter(d, task ? task : dk_current_task(d), &scope))
        return 0;
    order = dk_a32_load_relaxed(&d->sb->daemons[node].kcompactd_order);
    result = order ? step_for_order(d, node, scope.task, order)
                   : step_proactive(d, node, scope.task);
    dk_reclaim_leave(d, &scope);
    return result;
}
