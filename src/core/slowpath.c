/* SPDX-License-Identifier: MIT */
/*
 * The slow path: what is done, and in which order, when the first pass found nothing (reference:
 * 3.11; the number behind each rule is its step there). One function a rule.
 *
 *   1  cookies, precise flags, nodes and preferred zone       begin
 *   2  wake background reclaim; once at min                    wake, try
 *   3  asynchronous compaction for costly and unmovable        compact_first
 *   4  the loop: cookies, wake, reserves, try; who cannot
 *      reclaim or does already fails here                      use_reserves, may_reclaim
 *   5  direct reclaim; a HighAtomic block, the caches          reclaim
 *   6  direct compaction; who gives up now                     compact
 *   7  reclaim again?                                          reclaim_again
 *   8  compact again?                                          compact_again
 *   9  OOM                                                     oom
 *  10  failing; NOFAIL does not                                nopage
 *
 * What the policy says in numbers is policy/retry.h. A pool in which nobody can reclaim (no hooks,
 * no shrinker) runs through with nothing to do; a NOFAIL request fails there like any other, for
 * nobody could end its wait.
 *
 * What needs room on the stack is not inlined: compaction lies on top of this.
 *
 * Bounded: every way back to the loop needs progress of reclaim or compaction, of which there are
 * at most ROUNDS_MOST rounds, or a change of cookies; but for NOFAIL.
 */
#include "core/alloc.h"
#include "core/node.h"
#include "core/pcp.h"
#include "core/pressure.h"
#include "core/trace.h"
#include "policy/gfp.h"
#include "policy/watermark.h"

/* Rounds in which reclaim says that it progressed and nothing came of it: somebody else is always
 * faster, or a shrinker counts what it does not free. */
#define ROUNDS_MOST 1024u

enum step { RESTART, RETRY, FAIL, DONE };

struct slow {
    struct dk_request *r;
    uint32_t flags;   /* precise flags */
    uint32_t reserve; /* DK_ALLOC_NO_WATERMARKS, DK_ALLOC_OOM or 0 */
    uint32_t now;     /* flags of this round */
    struct dk_requester who;
    bool can_compact;
    unsigned rounds;  /* of reclaim without progress */
    unsigned all_rounds;
    struct dk_compact_retry compact;
    enum dk_compact_result compacted;
    bool progressed;
    int64_t pfn;
};

static bool wants(const struct slow *s, uint32_t gfp)
{
    return (s->r->ask.gfp & gfp) == gfp;
}

static bool try(struct slow *s, uint32_t flags)
{
    struct dk_pass p = {.alloc_flags = flags};
    s->pfn = dk_request_pass(s->r, &p);
    if (s->pfn >= 0 && (flags & DK_ALLOC_NO_WATERMARKS))
        dk_count(s->r->d, DK_EVENT_PFMEMALLOC, 1);
    return s->pfn >= 0;
}

/* Can anybody free memory in this pool but the users by themselves? */
static bool somebody_reclaims(const struct deckle *d)
{
    return dk_hooks(d) || dk_a32_load_relaxed(&d->nr_shrinkers);
}

/* ---- step 1 -------- */

/* Nodes for these flags: the caller's mask, and the task's set where CPUSET is to be tested. */
static bool choose_nodes(struct slow *s, uint32_t flags)
{
    struct dk_request *r = s->r;
    r->nodes = r->ask.nodemask;
    if ((flags & DK_ALLOC_CPUSET) &&
        !dk_task_nodes(r->ask.task, r->ask.gfp, r->ask.nodemask, false, &r->nodes))
        return false;
    return dk_request_choose(r);
}

static bool begin(struct slow *s)
{
    struct dk_request *r = s->r;
    if (!r->ask.task)
        r->ask.task = dk_current_task(r->d);
    r->mems_cookie = dk_task_cookie(r->ask.task);
    r->ask.gfp = dk_task_gfp(r->d, r->ask.task, r->ask.gfp);
    r->highest = dk_gfp_zone(r->ask.gfp);
    r->type = dk_gfp_migratetype_grouped(r->ask.gfp, dk_grouping(r->d));
    s->who = dk_task_requester(r->ask.task, r->ask.flags & DECKLE_REQ_OOM);
    s->flags = dk_alloc_flags_slow(r->ask.gfp, r->ask.order, r->type, &s->who);
    if (dk_a32_load_relaxed(&r->d->sb->vm.defrag_mode) && r->ask.order < DK_BLOCK_ORDER)
        s->flags |= DK_ALLOC_NOFRAGMENT;
    s->now = s->flags;
    s->reserve = dk_alloc_flags_reserve(r->ask.gfp, &s->who);
    s->can_compact = r->ask.order > 0 && dk_can_compact(r->d);
    s->compact = (struct dk_compact_retry){DK_COMPACT_SYNC_LIGHT, 0};
    s->rounds = 0;
    return choose_nodes(s, s->flags);
}

/* Were the zonelists or the task's nodes changed under the request? */
static bool cookies_changed(const struct slow *s)
{
    const struct dk_request *r = s->r;
    return r->epoch != dk_zonelist_epoch(r->d) || r->mems_cookie != dk_task_cookie(r->ask.task);
}

/* ---- steps 2 and 3 -------- */

static void wake(struct slow *s)
{
    if (s->flags & DK_ALLOC_KSWAPD)
        dk_wake_all_kswapds(s->r);
}

static bool direct_compact(struct slow *s, enum dk_compact_priority priority, uint32_t flags)
{
    s->compacted = dk_direct_compact(s->r, priority, flags, &s->pfn);
    if (s->pfn >= 0)
        return true;
    return s->compacted != DK_COMPACT_SKIPPED && s->compacted != DK_COMPACT_DEFERRED &&
           try(s, flags);
}

static enum step compact_first(struct slow *s)
{
    struct dk_request *r = s->r;
    uint32_t gfp = r->ask.gfp;
    unsigned order = r->ask.order;
    if (!dk_compact_first(gfp, order, r->type, s->can_compact, s->reserve))
        return RETRY;
    if (direct_compact(s, DK_COMPACT_ASYNC, s->flags))
        return DONE;
    if (dk_give_up_after_first_compaction(gfp, order, s->compacted))
        return FAIL;
    if (dk_order_costly(order) && (gfp & DECKLE_GFP_NORETRY))
        s->compact.priority = DK_COMPACT_ASYNC;
    return RETRY;
}

/* ---- step 4 -------- */

/* Reserve flags; without CPUSET, or with them, the node mask is not heeded. */
static bool use_reserves(struct slow *s)
{
    struct dk_request *r = s->r;
    s->reserve = dk_alloc_flags_reserve(r->ask.gfp, &s->who);
    s->now = dk_alloc_flags_retry(s->flags, s->reserve, r->type);
    if (!dk_alloc_any_node(s->flags, s->reserve))
        return try(s, s->now);
    r->nodes = 0;
    dk_request_choose(r);
    return try(s, s->now);
}

static bool may_reclaim(const struct slow *s)
{
    return wants(s, DECKLE_GFP_DIRECT_RECLAIM) &&
           !(dk_task_flags(s->r->ask.task) & (DECKLE_TASK_RECLAIM | DECKLE_TASK_MEMALLOC));
}

/* ---- steps 5 and 6 -------- */

static bool reclaim(struct slow *s)
{
    s->progressed = dk_direct_reclaim(s->r) != 0;
    if (!s->progressed)
        return false;
    if (try(s, s->now))
        return true;
    /* What was freed may lie in the HighAtomic reserve or in caches. */
    dk_highatomic_release(s->r, false);
    dk_drain_eligible(s->r);
    return try(s, s->now);
}

static bool compact(struct slow *s)
{
    s->compacted = DK_COMPACT_SKIPPED;
    return s->can_compact && direct_compact(s, s->compact.priority, s->now);
}

/* ---- steps 7 and 8 -------- */

/* Could the request pass at min in this zone if all that is reclaimable were free? */
static DK_NOINLINE bool zone_could_pass(struct slow *s, struct dk_zone *zone)
{
    struct dk_request *r = s->r;
    struct dk_shrink_call call = {.d = r->d, .task = r->ask.task, .gfp = r->ask.gfp,
                                  .order = r->ask.order, .highest = r->highest};
    struct dk_watermark_input in = {
        .free = dk_zone_free_exact(r->d, zone),
        .free_highatomic = dk_zone_count(r->d, zone, DK_COUNT_FREE_HIGHATOMIC),
        .free_cma = dk_zone_count(r->d, zone, DK_COUNT_FREE_CMA),
        .mark = dk_load_relaxed(&zone->min),
        .boost = dk_load_relaxed(&zone->boost),
        .lowmem_reserve = dk_load_relaxed(&zone->lowmem_reserve[r->highest]),
        .order = r->ask.order,
        .alloc_flags = s->now,
        .suitable = r->ask.order ? dk_zone_suitable(r->d, zone, r->ask.order) : 0,
    };
    return dk_watermark_ok_with(&in, dk_reclaimable(&call, zone->node, 0));
}

static bool some_zone_could_pass(struct slow *s)
{
    struct dk_zonelist_walk walk;
    struct dk_zone *zone = dk_request_first_zone(s->r, &walk);
    for (; zone; zone = dk_zonelist_next(s->r->d, &walk))
        if (dk_request_below_limit(s->r, zone) && zone_could_pass(s, zone))
            return true;
    return false;
}

static bool reclaim_again(struct slow *s)
{
    struct dk_request *r = s->r;
    bool progressed = s->progressed && s->all_rounds++ < ROUNDS_MOST;
    s->rounds = dk_reclaim_rounds(s->rounds, r->ask.order, progressed);
    if (somebody_reclaims(r->d) && s->rounds <= DK_RECLAIM_ROUNDS_MOST &&
        dk_reclaim_again(s->rounds, some_zone_could_pass(s))) {
        if (!progressed)
            dk_wait(r->d, DECKLE_WAIT_RECLAIM, DK_TICK_NS);
        return true;
    }
    return dk_highatomic_release(r, true);
}

/* Would a compaction that was skipped find enough room if all that is reclaimable were free? Orders
 * above 0. */
static DK_NOINLINE bool enough_to_compact(struct slow *s)
{
    struct dk_request *r = s->r;
    struct dk_zonelist_walk walk;
    struct dk_shrink_call call = {.d = r->d, .task = r->ask.task, .gfp = r->ask.gfp,
                                  .order = r->ask.order, .highest = r->highest};
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        struct dk_watermark_input in = {
            .free = dk_zone_free_exact(r->d, zone) +
                    dk_div64(dk_reclaimable(&call, zone->node, 0), r->ask.order),
            .free_highatomic = dk_zone_count(r->d, zone, DK_COUNT_FREE_HIGHATOMIC),
            .boost = dk_load_relaxed(&zone->boost),
            .lowmem_reserve = dk_load_relaxed(&zone->lowmem_reserve[r->highest]),
        };
        if (dk_compact_suitable(&in, dk_load_relaxed(&zone->min), dk_load_relaxed(&zone->low),
                                r->ask.order, 0, -1))
            return true;
    }
    return false;
}

static bool compact_again(struct slow *s)
{
    bool skipped = s->compacted == DK_COMPACT_SKIPPED;
    return s->progressed && s->can_compact && s->all_rounds < ROUNDS_MOST &&
           dk_compact_again(&s->compact, s->r->ask.order, s->compacted,
                            skipped && enough_to_compact(s));
}

/* defrag_mode: all that could have kept types apart was done. */
static bool allow_fragmenting(struct slow *s)
{
    if (!(s->flags & DK_ALLOC_NOFRAGMENT))
        return false;
    s->flags &= ~DK_ALLOC_NOFRAGMENT;
    return true;
}

/* ---- steps 9 and 10 -------- */

/* Inside the cpuset, then outside. */
static bool try_beyond_cpuset(struct slow *s, uint32_t flags)
{
    uint32_t cma = dk_alloc_cma(s->r->type);
    choose_nodes(s, DK_ALLOC_CPUSET);
    if (try(s, flags | cma | DK_ALLOC_CPUSET))
        return true;
    s->r->nodes = 0;
    dk_request_choose(s->r);
    return try(s, flags | cma);
}

/* Holding the lock, nobody else being killed: somebody's memory may just have come. */
static bool try_at_high(struct slow *s)
{
    struct dk_request *r = s->r;
    uint32_t gfp = r->ask.gfp;
    bool got;
    r->ask.gfp = (gfp | DECKLE_GFP_HARDWALL) & ~DECKLE_GFP_DIRECT_RECLAIM;
    got = choose_nodes(s, DK_ALLOC_CPUSET) && try(s, DK_ALLOC_WMARK_HIGH | DK_ALLOC_CPUSET);
    r->ask.gfp = gfp;
    return got;
}

static bool kill_allowed(const struct slow *s)
{
    const struct dk_request *r = s->r;
    const uint32_t io = DECKLE_GFP_IO | DECKLE_GFP_FS;
    bool suspending = dk_a32_load_relaxed(&r->d->gfp_denied) & io;
    return dk_oom_kill_allowed(r->ask.gfp, r->ask.order, r->highest,
                               dk_task_flags(r->ask.task) & DECKLE_TASK_DUMPING, suspending);
}

static DK_NOINLINE bool kill_somebody(struct slow *s)
{
    struct dk_request *r = s->r;
    const struct deckle_pressure_hooks *hooks = dk_hooks(r->d);
    struct dk_reclaim_scope scope;
    struct deckle_oom oom = {.size = sizeof(oom), .gfp = r->ask.gfp, .order = r->ask.order,
                             .node = r->preferred->node, .nodemask = r->nodes, .d = r->d};
    int killed;
    if (!hooks || !hooks->oom || !dk_reclaim_enter(r->d, r->ask.task, &scope))
        return false;
    oom.task = scope.task;
    killed = hooks->oom(hooks->ctx, &oom);
    dk_reclaim_leave(r->d, &scope);
    if (killed > 0)
        dk_count(r->d, DK_EVENT_OOM_KILL, 1);
    return killed > 0;
}

static enum step oom_locked(struct slow *s)
{
    bool nofail = wants(s, DECKLE_GFP_NOFAIL), killed;
    if (try_at_high(s))
        return DONE;
    killed = kill_allowed(s) && kill_somebody(s);
    if (nofail && try_beyond_cpuset(s, DK_ALLOC_NO_WATERMARKS))
        return DONE;
    return killed || nofail ? RETRY : FAIL;
}

/* One thread at a time; who comes second waits a tick for what the first one frees. */
static enum step oom(struct slow *s)
{
    struct dk_request *r = s->r;
    const struct deckle_pressure_hooks *hooks = dk_hooks(r->d);
    enum step next = FAIL;
    uint32_t unlocked = 0;
    if ((!hooks || !hooks->oom) && !(wants(s, DECKLE_GFP_NOFAIL) && somebody_reclaims(r->d)))
        return FAIL;
    if (!dk_a32_cas(&r->d->oom_lock, &unlocked, 1)) {
        dk_wait(r->d, DECKLE_WAIT_OOM, DK_TICK_NS);
        s->rounds = 0;
        return ++s->all_rounds < ROUNDS_MOST || wants(s, DECKLE_GFP_NOFAIL) ? RETRY : FAIL;
    }
    next = oom_locked(s);
    dk_a32_store_release(&r->d->oom_lock, 0);
    if (next == DONE)
        return DONE;
    if (dk_oom_victim_gives_up(r->ask.gfp, s->now, s->who.oom_victim))
        return FAIL;
    if (next == RETRY) {
        s->rounds = 0;
        dk_wait(r->d, DECKLE_WAIT_OOM, DK_TICK_NS);
    }
    return next;
}

static enum step nopage(struct slow *s)
{
    struct dk_request *r = s->r;
    if (cookies_changed(s))
        return RESTART;
    if (wants(s, DECKLE_GFP_NOFAIL | DECKLE_GFP_DIRECT_RECLAIM) && somebody_reclaims(r->d)) {
        if (try_beyond_cpuset(s, DK_ALLOC_MIN_RESERVE))
            return DONE;
        dk_count(r->d, DK_EVENT_NOFAIL_WAIT, 1);
        dk_wait(r->d, DECKLE_WAIT_NOFAIL, DK_TICK_NS);
        return RETRY;
    }
    s->pfn = dk_establish(r, s->now);
    return s->pfn >= 0 ? DONE : FAIL;
}

/* ---- the order of things -------- */

static enum step first_steps(struct slow *s)
{
    wake(s);
    if (try(s, s->flags))
        return DONE;
    return compact_first(s);
}

static enum step one_round(struct slow *s)
{
    const struct dk_request *r = s->r;
    if (cookies_changed(s))
        return RESTART;
    choose_nodes(s, s->flags); /* the end of the round before may have tried elsewhere */
    wake(s);
    if (use_reserves(s))
        return DONE;
    if (!may_reclaim(s))
        return FAIL;
    if (reclaim(s) || compact(s))
        return DONE;
    if (dk_give_up_after_round(r->ask.gfp, r->ask.order, s->can_compact))
        return FAIL;
    if (reclaim_again(s) || compact_again(s) || allow_fragmenting(s))
        return RETRY;
    return cookies_changed(s) ? RESTART : oom(s);
}

int64_t dk_slow_path(struct dk_request *r)
{
    struct slow s = {.r = r, .pfn = -1};
    enum step next = RESTART;
    while (next != DONE) {
        if (next == RESTART) {
            if (!begin(&s)) {
                s.pfn = dk_request_no_zone(r);
                break;
            }
            next = first_steps(&s);
        } else {
            next = one_round(&s);
        }
        if (next == FAIL && allow_fragmenting(&s))
            next = RETRY; /* nobody fails for tidiness */
        if (next == FAIL && (next = nopage(&s)) == FAIL)
            break;
    }
    if (s.pfn >= 0)
        return s.pfn;
    dk_report_failure(r, (int)s.pfn);
    return dk_fail(r->d, (int)s.pfn);
}
