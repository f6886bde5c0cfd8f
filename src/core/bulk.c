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

static void put_frame(struct dk_request *r, struct dk_zone *zone, uint32_t fi, struct fill *f)
{
    uint64_t pfn = 0;
    if (!dk_request_finish(r, zone, fi))
        return;
    dk_fi_to_pfn(r->d, fi, &pfn);
    next_hole(f);
    f->pfns[f->at++] = pfn;
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

static bool fill_from(struct dk_request *r, struct dk_zone *zone, uint32_t flags, struct fill *f)
{
    bool any = false;
    while (next_hole(f)) {
        uint32_t fis[DK_REFILL_MAX];
        unsigned want = (unsigned)count_holes(f, DK_REFILL_MAX);
        unsigned n = stride(r, zone, flags, fis, want);
        if (!n)
            return any;
        for (unsigned i = 0; i < n; i++)
            put_frame(r, zone, fis[i], f);
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

int64_t deckle_alloc_bulk(struct deckle *d, uint32_t gfp, uint64_t *pfns, size_t nr)
{
    struct deckle_request ask = {.size = sizeof(ask), .gfp = gfp};
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

size_t deckle_free_bulk(struct deckle *d, const uint64_t *pfns, size_t nr)
{
    struct gather g = {0};
    size_t freed = 0;
    for (size_t i = 0; pfns && i < nr && dk_may_change(d); i++) {
        uint32_t fi, zone;
        unsigned type;
        if (pfns[i] == DECKLE_NO_PFN ||
            dk_prepare_free(d, pfns[i], 0, 0, DK_CALLER(), &fi, &zone, &type))
            continue;
        if (g.n && (g.zone != zone || g.type != type || g.n == DK_REFILL_MAX))
            flush(d, &g);
        g.zone = zone;
        g.type = type;
        g.fis[g.n++] = fi;
        freed++;
    }
    flush(d, &g);
    return freed;
}
