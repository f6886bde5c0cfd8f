/* SPDX-License-Identifier: MIT */
/*
 * Bulk allocation and freeing of single frames (reference: 3.9).
 *
 * Frames come from the preferred node only, in strides of the cache list; when the list is empty a
 * batch is taken from the shared level straight into the array. The single-frame path serves when
 * just one frame is missing, when no zone of the preferred node is above low + the number asked
 * for, and when the bulk path got nothing. Bulk frames are ordinary single frames, each with its
 * own state byte.
 */
#include "core/alloc.h"
#include "core/client.h"
#include "core/pcp.h"
#include "core/prepare.h"
#include "policy/alloc_flags.h"
#include "policy/gfp.h"

/* The array: next hole, and how many frames of the leading part are filled. */
struct fill {
    uint64_t *pfns;
    size_t nr, at;
};

/* Move to the next hole. */
static bool next_hole(struct fill *f)
{
    while (f->at < f->nr && f->pfns[f->at] != DECKLE_NO_PFN)
        f->at++;
    return f->at < f->nr;
}

static size_t count_holes(const struct fill *f, size_t most)
{
    size_t holes = 0;
    for (size_t i = f->at; i < f->nr && holes < most; i++)
        holes += f->pfns[i] == DECKLE_NO_PFN;
    return holes;
}

/* Of the frames of a cache or the shared level, those that are simply free and in the main section
 * go out at once; the first other one ends it. Returns how many. */
static unsigned put_plain(const struct deckle *d, uint32_t gfp, unsigned type, const uint32_t *fis,
                          unsigned n, struct fill *f)
{
    /* Copies: a store to a state byte might change anything else, as far as the compiler knows. */
    const dk_word nr = dk_load_acquire(&d->main_nr);
    const uint64_t main_pfn = d->main_pfn;
    const uint32_t main_fi = d->main_fi;
    const uint8_t given = dk_state_make(0, type, gfp & DECKLE_GFP_COMP);
    dk_a8 *state = d->state;
    uint64_t *pfns = f->pfns;
    size_t at = f->at;
    unsigned i;
    for (i = 0; i < n; i++) {
        uint32_t rel = fis[i] - main_fi;
        if (dk_unlikely(rel >= nr || dk_a8_load_relaxed(&state[fis[i]])))
            break;
        dk_a8_store_relaxed(&state[fis[i]], given);
        while (pfns[at] != DECKLE_NO_PFN)
            at++;
        pfns[at++] = main_pfn + rel;
    }
    f->at = at;
    return i;
}

/* What the frames are given out for. */
struct purpose {
    uint32_t gfp, owner;
    unsigned type;
    bool plain; /* nothing to do but to set the state byte */
    const void *caller;
};

/* There are at least n holes. Returns how many frames went out: damaged ones do not. */
static unsigned put_frames(struct deckle *d, const struct purpose *p, const uint32_t *fis,
                           unsigned n, struct fill *f)
{
    unsigned out = 0;
    for (unsigned i = 0; i < n; i++) {
        if (p->plain) {
            unsigned put = put_plain(d, p->gfp, p->type, fis + i, n - i, f);
            out += put;
            i += put;
        }
        uint64_t pfn = 0;
        if (i == n || !dk_prepare_alloc(d, fis[i], 0, p->gfp, p->type, p->owner, p->caller))
            continue;
        dk_fi_to_pfn(d, fis[i], &pfn);
        next_hole(f);
        f->pfns[f->at++] = pfn;
        out++;
    }
    return out;
}

/* The zone of the preferred node that may give all of them. */
static struct dk_zone *bulk_zone(const struct dk_request *r, uint32_t flags, size_t missing)
{
    struct dk_zonelist_walk walk;
    for (struct dk_zone *z = dk_request_first_zone(r, &walk); z; z = dk_zonelist_next(r->d, &walk))
        if (z->node == r->preferred->node && !dk_request_verdict(r, z, flags, missing))
            return z;
    return NULL;
}

/* A stride of frames, from the list or the shared level. */
static unsigned stride(struct dk_request *r, struct dk_zone *zone, uint32_t flags, uint32_t *fis,
                       unsigned want)
{
    unsigned list = dk_pcp_list(0, r->type);
    unsigned n = r->cacheable ? dk_pcp_pop_bulk(r->d, zone->number, list, fis, want) : 0;
    if (n)
        return n;
    struct dk_pcp_set *set = dk_stat_set(r->d, zone->number);
    enum dk_short why;
    struct dk_take take;
    dk_request_fill_take(r, flags, &take);
    n = dk_zone_take(r->d, zone, set, &take, fis, want, &why);
    if (n) {
        dk_counter_add(&set->direct_allocs[0], n);
        dk_counter_add(&set->refills, 1);
        dk_counter_add(&set->refill_frames, n);
    }
    return n;
}

/* Not inlined: its array would lie under the slow path. */
static DK_NOINLINE bool fill_from(struct dk_request *r, struct dk_zone *zone, uint32_t flags,
                                  struct fill *f)
{
    struct purpose p = {.gfp = r->ask.gfp, .owner = r->ask.owner, .type = r->type,
                        .caller = r->caller};
    bool any = false;
    p.plain = !(dk_a32_load_relaxed(&r->d->slow) & DK_SLOW_FREE) && !(p.gfp & DECKLE_GFP_ZERO);
    while (next_hole(f)) {
        uint32_t fis[DK_REFILL_MAX];
        unsigned want = (unsigned)count_holes(f, DK_REFILL_MAX);
        unsigned n = stride(r, zone, flags, fis, want);
        if (!n)
            return any;
        dk_request_count_node(r, zone, put_frames(r->d, &p, fis, n, f));
        any = true;
    }
    return any;
}

int64_t deckle_alloc_bulk_request(struct deckle *d, const struct deckle_request *req,
                                  uint64_t *pfns, size_t nr)
{
    struct dk_request r;
    struct fill f = {pfns, nr, 0};
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (!nr)
        return 0;
    if (!pfns || !req || req->order || nr > INT32_MAX)
        return dk_fail(d, DECKLE_EINVAL);
    int err = dk_request_begin(d, req, DK_CALLER(), &r);
    if (err)
        return dk_fail(d, err);
    if (!next_hole(&f))
        return (int64_t)nr;
    uint32_t flags = DK_ALLOC_WMARK_LOW | dk_alloc_cma(r.type);
    struct dk_zone *zone = NULL;
    if (nr - f.at > 1) /* only leading entries are skipped for this test, as in the reference */
        zone = bulk_zone(&r, flags, nr - f.at);
    if (!zone || !fill_from(&r, zone, flags, &f)) {
        int64_t pfn = dk_request_alloc(&r);
        if (pfn >= 0)
            pfns[f.at] = (uint64_t)pfn;
    }
    next_hole(&f);
    return (int64_t)f.at;
}

/* What this CPU's list holds, for plain flags: no mark is looked at, as for a single frame. */
static void fill_from_list(struct deckle *d, uint32_t gfp, struct fill *f, const void *caller)
{
    unsigned place = dk_gfp_place(gfp), n, want;
    uint32_t zone = dk_a32_load_relaxed(&d->fast_zone[place & DK_PLACE_ZONE]);
    struct purpose p = {.gfp = gfp, .type = place >> 5, .plain = true, .caller = caller};
    if (!dk_gfp_is_plain(gfp) || (gfp & DECKLE_GFP_ZERO) || dk_a32_load_relaxed(&d->slow) ||
        zone == DK_NONE || d->kind == DK_PCP_NONE)
        return;
    do {
        uint32_t fis[DK_REFILL_MAX];
        want = next_hole(f) ? (unsigned)count_holes(f, DK_REFILL_MAX) : 0;
        n = want ? dk_pcp_pop_bulk(d, zone, dk_pcp_list(0, p.type), fis, want) : 0;
        put_frames(d, &p, fis, n, f);
    } while (n && n == want);
}

int64_t deckle_alloc_bulk(struct deckle *d, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    struct deckle_request ask = {.size = sizeof(ask), .gfp = gfp};
    struct fill f = {pfns, nr, 0};
    if (pfns && nr <= INT32_MAX) {
        fill_from_list(d, gfp, &f, DK_CALLER());
        if (f.at && !next_hole(&f))
            return (int64_t)nr;
    }
    return deckle_alloc_bulk_request(d, &ask, pfns, nr);
}

/* ---- free
 * ------------------------------------------------------------------------------------------ */

/* Frames of one list on their way there. */
struct gather {
    uint32_t zone;
    unsigned type, n;
    uint32_t fis[DK_REFILL_MAX];
};

static void flush(struct deckle *d, struct gather *g)
{
    unsigned list = dk_pcp_list(0, g->type), done = 0;
    while (done < g->n) {
        if (d->kind != DK_PCP_NONE)
            done += dk_pcp_push_bulk(d, g->zone, list, g->fis + done, g->n - done);
        /* Full: one frame through the slow path, which drains as the policy says. */
        if (done < g->n)
            dk_free_block(d, g->zone, g->fis[done++], 0, g->type);
    }
    g->n = 0;
}

/* Of pfns[0 … nr) the leading ones that are single frames of the main section and of the list that
 * is being gathered: state byte and list, as in deckle_free. Returns how many. */
static size_t gather_plain(const struct deckle *d, const uint64_t *pfns, size_t nr,
                           struct gather *g)
{
    const dk_word main_nr = dk_load_acquire(&d->main_nr);
    const uint64_t main_pfn = d->main_pfn;
    const uint32_t main_fi = d->main_fi;
    const uint8_t given = dk_state_make(0, g->type, false);
    dk_a8 *state = d->state;
    unsigned n = g->n;
    size_t i;
    if (dk_a32_load_relaxed(&d->slow) & DK_SLOW_FREE)
        return 0;
    for (i = 0; i < nr && n < DK_REFILL_MAX; i++) {
        uint64_t rel = pfns[i] - main_pfn;
        if (dk_unlikely(rel >= main_nr))
            break;
        uint32_t fi = (uint32_t)rel + main_fi;
        if ((dk_a8_load_relaxed(&state[fi]) & ~DK_STATE_COMPOUND) != given)
            break;
        dk_a8_store_relaxed(&state[fi], 0);
        g->fis[n++] = fi;
    }
    g->n = n;
    return i;
}

size_t deckle_free_bulk(struct deckle *d, const uint64_t *pfns, size_t nr)
{
    struct gather g = {.zone = d->main_zone};
    size_t freed = 0;
    for (size_t i = 0; pfns && i < nr && dk_may_change(d); i++) {
        uint32_t fi, zone;
        unsigned type;
        if (g.zone == d->main_zone) {
            size_t plain = gather_plain(d, pfns + i, nr - i, &g);
            freed += plain;
            i += plain;
        }
        if (g.n == DK_REFILL_MAX)
            flush(d, &g);
        if (i == nr)
            break;
        if (pfns[i] == DECKLE_NO_PFN ||
            dk_prepare_free(d, pfns[i], 0, 0, DK_CALLER(), &fi, &zone, &type))
            continue;
        if (g.n && (g.zone != zone || g.type != type))
            flush(d, &g);
        g.zone = zone;
        g.type = type;
        g.fis[g.n++] = fi;
        freed++;
    }
    flush(d, &g);
    return freed;
}
