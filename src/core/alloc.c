/* SPDX-License-Identifier: MIT */
/*
 * The front of the allocator: which zone serves a request, and what happens when none does at once.
 *
 * Fast path (deckle_alloc): plain flags, one node, no run-time switch: pop a frame from this CPU's
 * list of the preferred zone and set its state byte. No watermark is looked at: what a cache holds
 * was tested when it was refilled, and caches hold nothing below the low mark.
 *
 * First pass: the zones of the zonelist from the preferred entry on; each is tested against its low
 * mark, then the list is popped, or a batch taken from the shared level (zone.c) whose surplus goes
 * to the list. Nodes over their dirty limit are left out for WRITE, and a node below its mark may
 * be reclaimed before it is left (3.3). Where NOFRAGMENT applies it is dropped when the search
 * would leave the local node or finds nothing. What comes after the first pass is slowpath.c.
 */
#include "core/alloc.h"

#include "core/ablation.h"
#include "core/blockinfo.h"
#include "core/client.h"
#include "core/pcp.h"
#include "core/prepare.h"
#include "core/pressure.h"
#include "policy/alloc_flags.h"
#include "policy/fallback.h"
#include "policy/gfp.h"
#include "policy/watermark.h"

int dk_fail(struct deckle *d, int error)
{
    unsigned n = (unsigned)-error;
    if (!dk_may_change(d))
        return error; /* not even counted: the metadata may be mapped for reading only */
    if (n < DK_ARRAY_LEN(d->sb->failures))
        dk_counter_add(&d->sb->failures[n], 1);
    return error;
}

/* ---- the request
 * ------------------------------------------------------------------------------ */

static bool node_exists(const struct deckle *d, uint32_t node)
{
    return node < d->sb->nr_nodes;
}

/* The first zone for the request without its restrictions. */
struct dk_zone *dk_request_first_of_all(const struct dk_request *r, struct dk_zonelist_walk *walk)
{
    return dk_zonelist_first(r->d, dk_zonelist(r->d, r->node, DK_ZONELIST_FALLBACK), r->highest, 0,
                             walk);
}

/* Would the request find a zone if it did not restrict itself? Then it is constrained. */
int dk_request_no_zone(const struct dk_request *r)
{
    struct dk_zonelist_walk walk;
    return dk_request_is_restricted(r) && dk_request_first_of_all(r, &walk) ? DECKLE_ECONSTRAINED
                                                                            : DECKLE_ENODEV;
}

/* At the start, and again when the lists were rebuilt under a request that is about to fail. */
bool dk_request_choose(struct dk_request *r)
{
    struct dk_zonelist_walk walk;
    r->epoch = dk_zonelist_epoch(r->d);
    r->list = dk_zonelist(r->d, r->node, r->ask.gfp & DECKLE_GFP_THISNODE ? DK_ZONELIST_NOFALLBACK
                                                                          : DK_ZONELIST_FALLBACK);
    struct dk_zone *first = dk_request_first_zone(r, &walk);
    if (first)
        r->preferred = first;
    return first;
}

/* Scopes and nodes of the task, if there is one to ask. Without a node of its own the request goes
 * to the slow path at once, where it may be allowed more. */
static void apply_task(struct dk_request *r)
{
    struct deckle *d = r->d;
    if (!r->ask.task && (dk_a32_load_relaxed(&d->slow) & DK_SLOW_TASK))
        r->ask.task = dk_current_task(d);
    r->nodes = r->ask.nodemask;
    if (dk_likely(!r->ask.task && !dk_a32_load_relaxed(&d->gfp_denied)))
        return;
    r->mems_cookie = dk_task_cookie(r->ask.task);
    r->ask.gfp = dk_task_gfp(d, r->ask.task, r->ask.gfp);
    if (!dk_task_nodes(r->ask.task, r->ask.gfp, r->ask.nodemask, true, &r->nodes)) {
        r->nodes = r->ask.nodemask;
        r->no_first_pass = true;
    }
}

int dk_request_begin(struct deckle *d, const struct deckle_request *ask, const void *caller,
                     struct dk_request *r)
{
    const uint32_t flags =
        DECKLE_REQ_INTERLEAVE | DECKLE_REQ_OOM | DECKLE_REQ_NO_CACHE | DECKLE_REQ_CHEAP;
    if (!ask || ask->size != sizeof(*ask) || (ask->flags & ~flags))
        return DECKLE_EINVAL;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    int err = dk_gfp_check(ask->gfp, ask->order, d->max_order);
    if (!err)
        err = dk_prepare_check(d, ask->gfp);
    if (err)
        return err;
    if (ask->node && !node_exists(d, ask->node - 1))
        return DECKLE_ENODEV;
    *r = (struct dk_request){.d = d, .ask = *ask, .caller = caller};
    apply_task(r);
    r->cpu = dk_pcp_cpu(d);
    r->node = ask->node ? ask->node - 1 : d->cpu_nodes[r->cpu < d->nr_cpus ? r->cpu : 0];
    r->highest = dk_gfp_zone(r->ask.gfp);
    r->type = dk_gfp_migratetype_grouped(r->ask.gfp, dk_grouping(d));
    r->cacheable = ask->order <= DK_PCP_MAX_ORDER && !ask->limit_pfn &&
                   !(ask->flags & DECKLE_REQ_NO_CACHE) && d->kind != DK_PCP_NONE;
    dk_request_choose(r);
    return r->preferred ? DECKLE_OK : dk_request_no_zone(r);
}

/* ---- watermarks
 * ------------------------------------------------------------------------------- */

static uint64_t mark_of(const struct dk_zone *zone, uint32_t alloc_flags)
{
    switch (alloc_flags & DK_ALLOC_WMARK_MASK) {
    case DK_ALLOC_WMARK_MIN:
        return dk_load_relaxed(&zone->min);
    case DK_ALLOC_WMARK_LOW:
        return dk_load_relaxed(&zone->low);
    default:
        return dk_load_relaxed(&zone->high);
    }
}

int dk_request_verdict(const struct dk_request *r, struct dk_zone *zone, uint32_t alloc_flags,
                       uint64_t more)
{
    struct dk_watermark_input in = {
        .free = dk_zone_free_racy(r->d, zone),
        .free_highatomic = dk_zone_count(r->d, zone, DK_COUNT_FREE_HIGHATOMIC),
        .free_cma = dk_zone_count(r->d, zone, DK_COUNT_FREE_CMA),
        .mark = mark_of(zone, alloc_flags) + more,
        .boost = dk_load_relaxed(&zone->boost),
        .lowmem_reserve = dk_load_relaxed(&zone->lowmem_reserve[r->highest]),
        .order = r->ask.order,
        .alloc_flags = alloc_flags,
    };
    if (alloc_flags & DK_ALLOC_NO_WATERMARKS)
        return DECKLE_OK;
    if (in.free < dk_load_relaxed(&zone->drift_mark))
        in.free = dk_zone_free_exact(r->d, zone);
    if (DK_MARK_SHORTCUT && !r->ask.order && dk_watermark_fast_order0(&in))
        return DECKLE_OK;
    in.suitable = UINT32_MAX; /* asked below, once the count has passed */
    int verdict = dk_watermark_attempt(&in);
    if (verdict) {
        /* It is final for the caller: it must not be due to counts that lie in CPUs' deltas. */
        in.free = dk_zone_free_exact(r->d, zone);
        verdict = dk_watermark_attempt(&in);
    }
    if (!verdict && r->ask.order &&
        !dk_zone_has_run(r->d, zone, r->ask.order, dk_watermark_types(alloc_flags)))
        verdict = DECKLE_EFRAGMENTED;
    return verdict;
}

/* ---- one zone
 * --------------------------------------------------------------------------------- */

void dk_request_count_node(const struct dk_request *r, const struct dk_zone *zone, uint32_t n)
{
    struct deckle *d = r->d;
    if (dk_unlikely(zone->node != r->preferred->node)) {
        dk_counter_add(&dk_stat_set(d, zone->number)->numa_miss, n);
        dk_counter_add(&dk_stat_set(d, r->preferred->number)->numa_foreign, n);
    }
    if (dk_unlikely(r->ask.flags & DECKLE_REQ_INTERLEAVE) && zone->node == r->node)
        dk_counter_add(&dk_stat_set(d, zone->number)->numa_interleave, n);
}

bool dk_request_finish(struct dk_request *r, struct dk_zone *zone, uint32_t fi)
{
    if (!dk_prepare_alloc(r->d, fi, r->ask.order, r->ask.gfp, r->type, r->ask.owner, r->caller))
        return false;
    dk_request_count_node(r, zone, 1);
    return true;
}

/* After a success with HIGHATOMIC the block of the frame joins the reserve. */
static void reserve_highatomic(struct dk_request *r, struct dk_zone *zone, uint32_t fi)
{
    uint32_t block = fi / DK_BLOCK_FRAMES;
    unsigned type = dk_w_type(dk_load_relaxed(&r->d->words[block]));
    if (dk_highatomic_may_reserve(dk_zone_count(r->d, zone, DK_COUNT_HIGHATOMIC),
                                  dk_load_relaxed(&zone->managed), (enum deckle_migratetype)type,
                                  DK_BLOCK_FRAMES))
        dk_zone_set_type(r->d, zone, block, DECKLE_HIGHATOMIC);
}

/* From the shared level: one block for the request, the surplus of a refill for its list. */
static bool take_shared(struct dk_request *r, struct dk_zone *zone, uint32_t alloc_flags,
                        uint32_t *fi, enum dk_short *why)
{
    struct deckle *d = r->d;
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    unsigned list = r->cacheable ? dk_pcp_list(r->ask.order, r->type) : 0, want = 1;
    uint32_t fis[DK_REFILL_MAX];
    struct dk_take take;
    dk_request_fill_take(r, alloc_flags, &take);
    /* Nothing of the HighAtomic reserve goes to a list, from where anybody would get it. */
    if (r->cacheable && r->cpu < d->nr_cpus && !(alloc_flags & DK_ALLOC_HIGHATOMIC))
        want = dk_pcp_refill_want(d, zone, r->cpu, list);
    unsigned n = dk_zone_take(d, zone, set, &take, fis, want, why);
    if (!n)
        return false;
    dk_counter_add(&set->direct_allocs[r->ask.order], 1);
    dk_counter_add(&set->refills, 1);
    dk_counter_add(&set->refill_frames, n << r->ask.order);
    if (n > 1)
        dk_pcp_put_surplus(d, zone, list, fis + 1, n - 1);
    if (alloc_flags & DK_ALLOC_HIGHATOMIC)
        reserve_highatomic(r, zone, fis[0]);
    *fi = fis[0];
    return true;
}

/* ---- passes over the zonelist
 * ------------------------------------------------------------------ */

static void note(struct dk_pass *p, int verdict)
{
    p->below_mark |= verdict == DECKLE_EWATERMARK;
    p->fragmented |= verdict == DECKLE_EFRAGMENTED;
}

/* A fallback has raised the zone's marks: background reclaim is to end that (3.3, boost). */
static void wake_for_boost(const struct dk_request *r, struct dk_zone *zone)
{
    if (!(r->ask.gfp & DECKLE_GFP_KSWAPD_RECLAIM) || (r->ask.flags & DECKLE_REQ_CHEAP) ||
        dk_task_context(r->ask.task) == DECKLE_CONTEXT_NMI)
        return;
    dk_a32_store_relaxed(&zone->boosted, 0);
    dk_wake_kswapd(r->d, zone, r->ask.gfp, 0, (enum deckle_zone_type)zone->type);
}

/* Dirty pages are spread over the nodes: one that has enough of them is left out (3.3). */
static bool over_dirty_limit(const struct dk_request *r, const struct dk_zone *zone)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(r->d);
    return hooks && hooks->dirty_ok && !hooks->dirty_ok(hooks->ctx, zone->node);
}

static bool try_zone(struct dk_request *r, struct dk_zone *zone, struct dk_pass *p, uint32_t *fi)
{
    enum dk_short why = DK_SHORT_NONE;
    /* The bulk form tries again where the fast path gave up: interrupted, or misled by a hint. */
    if (r->cacheable &&
        dk_pcp_pop_bulk(r->d, zone->number, dk_pcp_list(r->ask.order, r->type), fi, 1))
        return true;
    int verdict = dk_request_verdict(r, zone, p->alloc_flags, 0);
    if (dk_unlikely(verdict && dk_a32_load_relaxed(&r->d->sb->vm.zone_reclaim_mode)) &&
        dk_node_reclaim(r, zone))
        verdict = dk_request_verdict(r, zone, p->alloc_flags, 0);
    if (verdict) {
        note(p, verdict);
        return false;
    }
    if (take_shared(r, zone, p->alloc_flags, fi, &why)) {
        if (dk_unlikely(dk_a32_load_relaxed(&zone->boosted)))
            wake_for_boost(r, zone);
        return true;
    }
    p->contended |= why == DK_SHORT_CONTENDED;
    p->fragmented |= why == DK_SHORT_EMPTY;
    return false;
}

/* Zones in order; a block whose state is wrong is dropped and the zone asked again. */
int64_t dk_request_pass(struct dk_request *r, struct dk_pass *p)
{
    struct dk_zonelist_walk walk;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        uint32_t fi;
        uint64_t pfn = 0;
        if (!dk_request_below_limit(r, zone) ||
            (p->spread_dirty && (r->ask.gfp & DECKLE_GFP_WRITE) && over_dirty_limit(r, zone)))
            continue;
        /* Locality beats grouping: do not leave the node for the sake of NOFRAGMENT. */
        if ((p->alloc_flags & DK_ALLOC_NOFRAGMENT) && zone->node != r->preferred->node &&
            !dk_a32_load_relaxed(&r->d->sb->vm.defrag_mode))
            return -1;
        while (try_zone(r, zone, p, &fi)) {
            if (!dk_request_finish(r, zone, fi))
                continue;
            dk_fi_to_pfn(r->d, fi, &pfn);
            return (int64_t)pfn;
        }
    }
    return -1;
}

uint32_t dk_request_first_flags(const struct dk_request *r)
{
    const struct deckle *d = r->d;
    struct dk_first_choice first = {
        .zone = (enum deckle_zone_type)r->preferred->type,
        .one_node = d->sb->nr_nodes == 1,
        .node_has_dma32 = d->sb->zone_of[r->preferred->node][DECKLE_ZONE_DMA32] != 0,
        .defrag_mode = dk_a32_load_relaxed(&d->sb->vm.defrag_mode),
    };
    uint32_t flags = dk_alloc_flags_fast(r->ask.gfp, r->type, &first);
    return r->ask.order < DK_BLOCK_ORDER ? flags : flags & ~DK_ALLOC_NOFRAGMENT;
}

/* In defrag_mode NOFRAGMENT stands until the slow path gives it up. */
int64_t dk_request_first_pass(struct dk_request *r)
{
    struct dk_pass p = {.alloc_flags = dk_request_first_flags(r), .spread_dirty = true};
    int64_t pfn = dk_request_pass(r, &p);
    if (pfn >= 0 || !(p.alloc_flags & DK_ALLOC_NOFRAGMENT) ||
        dk_a32_load_relaxed(&r->d->sb->vm.defrag_mode))
        return pfn;
    p.alloc_flags &= ~DK_ALLOC_NOFRAGMENT;
    return dk_request_pass(r, &p);
}

/* ---- entry points
 * --------------------------------------------------------------------------------- */

int64_t dk_request_alloc(struct dk_request *r)
{
    if (dk_unlikely(r->ask.flags & DECKLE_REQ_CHEAP))
        return dk_cheap_path(r);
    int64_t pfn = dk_unlikely(r->no_first_pass) ? -1 : dk_request_first_pass(r);
    return dk_likely(pfn >= 0) ? pfn : dk_slow_path(r);
}

static DK_NOINLINE int64_t alloc_with(struct deckle *d, const struct deckle_request *ask,
                                      const void *caller)
{
    struct dk_request r;
    int err = dk_request_begin(d, ask, caller, &r);
    return err ? dk_fail(d, err) : dk_request_alloc(&r);
}

static DK_NOINLINE int64_t alloc_general(struct deckle *d, uint32_t gfp, uint32_t order,
                                         const void *caller)
{
    struct deckle_request ask = {.size = sizeof(ask), .gfp = gfp, .order = order};
    return alloc_with(d, &ask, caller);
}

/* A block popped on the fast path that is not simply free and in the main section: marked, of
 * another section, or corrupt. rel: from the first frame of the main section. */
static DK_NOINLINE int64_t finish_odd(struct deckle *d, uint32_t gfp, uint32_t order, uint32_t rel)
{
    uint32_t fi = rel + d->main_fi;
    uint64_t pfn = 0;
    if (!dk_prepare_alloc(d, fi, order, gfp, dk_gfp_migratetype(gfp), 0, DK_CALLER()))
        return alloc_general(d, gfp, order, DK_CALLER());
    dk_fi_to_pfn(d, fi, &pfn);
    return (int64_t)pfn;
}

/* Flags that are for the general path, and orders without a list. */
DK_INLINE bool is_fast(uint32_t gfp, uint32_t order)
{
    return dk_gfp_is_plain(gfp) && !(gfp & DECKLE_GFP_ZERO) && order <= DK_PCP_MAX_ORDER;
}

/* A popped block goes out. Inside the main section the frame index needs no further bound. */
DK_INLINE int64_t finish(struct deckle *d, uint32_t gfp, uint32_t order, uint32_t fi)
{
    _Static_assert(DECKLE_GFP_MOVABLE << 2 == 0x20 && DECKLE_GFP_RECLAIMABLE << 2 == 0x40,
                   "the state byte has the mobility flags at bits 5-6");
    uint32_t rel = fi - d->main_fi;
    uint32_t state = (gfp << 2 & DK_STATE_TYPE) + order + 1;
    dk_a8 *at = d->state + fi;
    if (dk_unlikely(rel >= dk_load_acquire(&d->main_nr) ||
                    (DK_CHECKS == DK_CHECKS_ALWAYS && dk_a8_load_relaxed(at))))
        return finish_odd(d, gfp, order, rel);
    if (gfp & DECKLE_GFP_COMP) {
        state |= DK_STATE_COMPOUND;
        dk_keep_branch(state);
    }
    if (DK_CHECKS == DK_CHECKS_ALWAYS)
        dk_a8_store_relaxed(at, (uint8_t)state);
    return (int64_t)(d->main_pfn + rel);
}

/* The fast path of pools with atomic cells, shared ones too; everything else is general. */
static DK_NOINLINE int64_t alloc_other(struct deckle *d, uint32_t gfp, uint32_t order)
{
    unsigned place = dk_gfp_place(gfp);
    uint32_t zone = dk_a32_load_relaxed(&d->fast_zone[place & DK_PLACE_ZONE]);
    if (dk_likely(d->kind == DK_PCP_CELLS && zone != DK_NONE && is_fast(gfp, order) &&
                  !(dk_a32_load_relaxed(&d->slow) & ~DK_SLOW_SHARED))) {
        uint32_t fi = dk_cells_pop(d, zone, dk_pcp_list(order, place >> 5));
        if (dk_likely(fi != DK_NONE))
            return finish(d, gfp, order, fi);
    }
    return alloc_general(d, gfp, order, DK_CALLER());
}

/*
 * Leaf code: every way out of it is a tail call, so that it saves no register. Not only for the
 * saving: with the stores of a prologue between them, the load of a state byte is guessed to come
 * before the store of it that alloc and free have just made, and the guess costs more than the rest
 * of the path.
 */
int64_t deckle_alloc(struct deckle *d, uint32_t gfp, uint32_t order)
{
    const dk_aword *row = d->fast_row[gfp & 31];
    uint32_t fi;
    dk_word list;
    if (dk_unlikely(!is_fast(gfp, order) || !(list = dk_load_relaxed(&row[order])) ||
                    !dk_stack_pop_from(d, list, &fi)))
        return alloc_other(d, gfp, order);
    return finish(d, gfp, order, fi);
}

int64_t deckle_alloc_request(struct deckle *d, const struct deckle_request *req)
{
    return alloc_with(d, req, DK_CALLER());
}

const char *deckle_gfp_reason(uint32_t gfp, uint32_t order, uint32_t max_order)
{
    return dk_gfp_reason(gfp, order, max_order);
}
