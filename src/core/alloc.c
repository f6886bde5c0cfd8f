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
 * to the list. Where NOFRAGMENT applies it is dropped when the search would leave the local node or
 * finds nothing. Second pass: min instead of low, and the reserves the request may use. Third: the
 * same after the caches of all CPUs were drained. Reclaim and compaction join here.
 *
 * Failure (contract rule 6). The reason EMPTY or FRAGMENTED is given only when two looks at
 * everything the request may use (roots of the index, cache lists, all zones) found nothing, with
 * equal versions; else the search is repeated, and after ATTEMPTS of them the answer is CONTENDED.
 */
#include "core/alloc.h"

#include "core/ablation.h"
#include "core/blockinfo.h"
#include "core/client.h"
#include "core/pcp.h"
#include "core/prepare.h"
#include "policy/alloc_flags.h"
#include "policy/fallback.h"
#include "policy/gfp.h"
#include "policy/watermark.h"

#define ATTEMPTS 4u

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

static bool is_restricted(const struct dk_request *r)
{
    return r->ask.nodemask || r->ask.limit_pfn || (r->ask.gfp & DECKLE_GFP_THISNODE);
}

/* The first zone for the request without its restrictions. */
static struct dk_zone *first_of_all(const struct dk_request *r, struct dk_zonelist_walk *walk)
{
    return dk_zonelist_first(r->d, dk_zonelist(r->d, r->node, DK_ZONELIST_FALLBACK), r->highest, 0,
                             walk);
}

/* Would the request find a zone if it did not restrict itself? Then it is constrained. */
static int no_zone_reason(const struct dk_request *r)
{
    struct dk_zonelist_walk walk;
    return is_restricted(r) && first_of_all(r, &walk) ? DECKLE_ECONSTRAINED : DECKLE_ENODEV;
}

/* At the start, and again when the lists were rebuilt under a request that is about to fail. */
static void choose_zonelist(struct dk_request *r)
{
    struct dk_zonelist_walk walk;
    r->epoch = dk_zonelist_epoch(r->d);
    r->list = dk_zonelist(r->d, r->node, r->ask.gfp & DECKLE_GFP_THISNODE ? DK_ZONELIST_NOFALLBACK
                                                                          : DK_ZONELIST_FALLBACK);
    struct dk_zone *first = dk_request_first_zone(r, &walk);
    if (first)
        r->preferred = first;
}

int dk_request_begin(struct deckle *d, const struct deckle_request *ask, const void *caller,
                     struct dk_request *r)
{
    const uint32_t flags = DECKLE_REQ_INTERLEAVE | DECKLE_REQ_OOM | DECKLE_REQ_NO_CACHE;
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
    r->cpu = dk_pcp_cpu(d);
    r->node = ask->node ? ask->node - 1 : d->cpu_nodes[r->cpu < d->nr_cpus ? r->cpu : 0];
    r->highest = dk_gfp_zone(ask->gfp);
    r->type = dk_gfp_migratetype_grouped(ask->gfp, dk_grouping(d));
    r->cacheable = ask->order <= DK_PCP_MAX_ORDER && !ask->limit_pfn &&
                   !(ask->flags & DECKLE_REQ_NO_CACHE) && d->kind != DK_PCP_NONE;
    choose_zonelist(r);
    return r->preferred ? DECKLE_OK : no_zone_reason(r);
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
    if (r->ask.order)
        in.suitable = dk_zone_suitable(r->d, zone, r->ask.order);
    int verdict = dk_watermark_attempt(&in);
    if (!verdict || in.free == dk_zone_free_exact(r->d, zone))
        return verdict;
    /* A refusal is final for the caller: it must not be due to counts that lie in CPUs' deltas. */
    in.free = dk_zone_free_exact(r->d, zone);
    return dk_watermark_attempt(&in);
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

/* What a pass that found nothing has seen. */
struct pass {
    uint32_t alloc_flags;
    bool below_mark;  /* a zone had frames, below the mark */
    bool fragmented;  /* a zone had frames above the mark, but no run */
    bool contended;
    struct dk_zone *zone; /* success: where */
};

static bool zone_below_limit(const struct dk_request *r, const struct dk_zone *zone)
{
    return !r->ask.limit_pfn || dk_pfn_load(&zone->start_pfn) < r->ask.limit_pfn;
}

static void note(struct pass *p, int verdict)
{
    p->below_mark |= verdict == DECKLE_EWATERMARK;
    p->fragmented |= verdict == DECKLE_EFRAGMENTED;
}

static bool try_zone(struct dk_request *r, struct dk_zone *zone, struct pass *p, uint32_t *fi)
{
    enum dk_short why = DK_SHORT_NONE;
    /* The bulk form tries again where the fast path gave up: interrupted, or misled by a hint. */
    if (r->cacheable &&
        dk_pcp_pop_bulk(r->d, zone->number, dk_pcp_list(r->ask.order, r->type), fi, 1))
        return true;
    int verdict = dk_request_verdict(r, zone, p->alloc_flags, 0);
    if (verdict) {
        note(p, verdict);
        return false;
    }
    if (take_shared(r, zone, p->alloc_flags, fi, &why))
        return true;
    p->contended |= why == DK_SHORT_CONTENDED;
    p->fragmented |= why == DK_SHORT_EMPTY;
    return false;
}

/* Zones in order; a block whose state is wrong is dropped and the zone asked again. */
static int64_t run_pass(struct dk_request *r, struct pass *p)
{
    struct dk_zonelist_walk walk;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        uint32_t fi;
        uint64_t pfn = 0;
        if (!zone_below_limit(r, zone))
            continue;
        /* Locality beats grouping: do not leave the node for the sake of NOFRAGMENT. */
        if ((p->alloc_flags & DK_ALLOC_NOFRAGMENT) && zone->node != r->preferred->node)
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

static uint32_t first_flags(const struct dk_request *r)
{
    const struct deckle *d = r->d;
    struct dk_first_choice first = {
        .zone = (enum deckle_zone_type)r->preferred->type,
        .one_node = d->sb->nr_nodes == 1,
        .node_has_dma32 = d->sb->zone_of[r->preferred->node][DECKLE_ZONE_DMA32] != 0,
    };
    uint32_t flags = dk_alloc_flags_fast(r->ask.gfp, r->type, &first);
    return r->ask.order < DK_BLOCK_ORDER ? flags : flags & ~DK_ALLOC_NOFRAGMENT;
}

static int64_t first_pass(struct dk_request *r)
{
    struct pass p = {.alloc_flags = first_flags(r)};
    int64_t pfn = run_pass(r, &p);
    if (pfn >= 0 || !(p.alloc_flags & DK_ALLOC_NOFRAGMENT))
        return pfn;
    p.alloc_flags &= ~DK_ALLOC_NOFRAGMENT;
    return run_pass(r, &p);
}

/* ---- failure
 * ------------------------------------------------------------------------------------ */

/* Nothing fits, in any zone the request may use, caches included? *version as in zone.h. */
static bool nothing_anywhere(struct dk_request *r, uint32_t alloc_flags, uint64_t *version)
{
    struct dk_zonelist_walk walk;
    struct dk_take take;
    dk_request_fill_take(r, alloc_flags, &take);
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        uint64_t cached = 0;
        *version += dk_pcp_versions(r->d, zone, &cached);
        if (cached)
            return false;
        /* A zone refused for its mark, not for want of blocks, may show some. */
        if (zone_below_limit(r, zone) && !dk_request_verdict(r, zone, alloc_flags, 0) &&
            !dk_zone_shows_nothing(r->d, zone, &take, version))
            return false;
    }
    return true;
}

static bool drain_eligible(struct dk_request *r)
{
    struct dk_zonelist_walk walk;
    bool all = true;
    struct dk_zone *zone = dk_request_first_zone(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk)) {
        uint64_t cached = 0;
        dk_pcp_versions(r->d, zone, &cached);
        if (cached && dk_pcp_drain_zone(r->d, zone, NULL))
            all = false;
    }
    return all;
}

/* Free memory outside what the request allowed itself? */
static bool others_have(struct dk_request *r)
{
    struct dk_request wide = *r;
    struct dk_zonelist_walk walk;
    wide.ask.limit_pfn = 0;
    struct dk_zone *zone = first_of_all(r, &walk);
    for (; zone; zone = dk_zonelist_next(r->d, &walk))
        if (!dk_request_verdict(&wide, zone, DK_ALLOC_WMARK_MIN, 0))
            return true;
    return false;
}

static int reason(struct dk_request *r, const struct pass *p, bool proven)
{
    if (!proven)
        return DECKLE_ECONTENDED;
    if (is_restricted(r) && others_have(r))
        return DECKLE_ECONSTRAINED;
    if (p->below_mark)
        return DECKLE_EWATERMARK;
    return p->fragmented ? DECKLE_EFRAGMENTED : DECKLE_ENOMEM;
}

static uint32_t second_flags(const struct dk_request *r)
{
    struct dk_requester who = {.oom_victim = r->ask.flags & DECKLE_REQ_OOM};
    uint32_t slow = dk_alloc_flags_slow(r->ask.gfp, r->ask.order, r->type, &who);
    uint32_t reserve = dk_alloc_flags_reserve(r->ask.gfp, &who);
    return dk_alloc_flags_retry(slow | dk_alloc_cma(r->type), reserve, r->type);
}

static int64_t slow_path(struct dk_request *r)
{
    struct pass p = {0};
    bool proven = false;
    for (unsigned attempt = 0; attempt <= ATTEMPTS && !proven; attempt++) {
        uint64_t before = 0, after = 0;
        p = (struct pass){.alloc_flags = second_flags(r)};
        bool nothing = attempt && nothing_anywhere(r, p.alloc_flags, &before);
        int64_t pfn = run_pass(r, &p);
        if (pfn >= 0)
            return pfn;
        proven = nothing && !p.contended && nothing_anywhere(r, p.alloc_flags, &after) &&
                 before == after && r->epoch == dk_zonelist_epoch(r->d);
        if (!proven)
            drain_eligible(r);
        choose_zonelist(r);
    }
    return dk_fail(r->d, reason(r, &p, proven));
}

/* ---- entry points
 * --------------------------------------------------------------------------------- */

int64_t dk_request_alloc(struct dk_request *r)
{
    int64_t pfn = first_pass(r);
    return dk_likely(pfn >= 0) ? pfn : slow_path(r);
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
