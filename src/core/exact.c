/* SPDX-License-Identifier: MIT */
/*
 * Blocks of any length, and blocks at a given place. A length that is no power of two is kept as
 * pieces: the largest aligned blocks that add up to it, each with a head of its own. The pieces
 * follow from first pfn and length alone, so a free with another length meets a head that does not
 * fit and is refused before anything changed (a plain bitmap would not notice "allocate 5, free
 * 6").
 */
#include "core/alloc.h"
#include "core/blockinfo.h"
#include "core/check.h"
#include "core/client.h"
#include "core/pcp.h"
#include "core/prepare.h"
#include "core/section.h"
#include "policy/gfp.h"

int64_t deckle_alloc_exact(struct deckle *d, uint32_t gfp, uint64_t nr)
{
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (!nr)
        return dk_fail(d, DECKLE_EINVAL);
    if (nr > (uint64_t)1 << d->max_order)
        return dk_fail(d, DECKLE_E2BIG);
    unsigned order = nr > 1 ? dk_fls64(nr - 1) + 1 : 0;
    struct deckle_request ask = {.size = sizeof(ask), .gfp = gfp, .order = order};
    if (gfp & DECKLE_GFP_COMP)
        return dk_fail(d, DECKLE_EINVAL); /* a compound block is one block */
    int64_t pfn = deckle_alloc_request(d, &ask);
    uint64_t block = (uint64_t)1 << order;
    uint32_t fi, zone;
    if (pfn < 0 || nr == block || !dk_pfn_to_fi(d, (uint64_t)pfn, &fi, &zone))
        return pfn;
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    /* The tail's heads first: the first piece replaces the head that the others are copied from. */
    dk_set_pieces(d, fi, nr, block, d->max_order, s);
    dk_set_pieces(d, fi, 0, nr, d->max_order, s);
    for (uint64_t at = nr; at < block;) {
        unsigned piece = dk_piece_order(fi + at, block - at, d->max_order);
        dk_free(d, (uint64_t)pfn + at, piece, 0, DK_CALLER());
        at += (uint64_t)1 << piece;
    }
    return pfn;
}

/* Do the heads of [pfn, pfn+nr) say that it was allocated as just these pieces? */
static bool check_pieces(struct deckle *d, uint64_t pfn, uint64_t nr, const void *caller)
{
    for (uint64_t at = 0; at < nr;) {
        uint32_t fi, zone;
        unsigned order = dk_piece_order(pfn + at, nr - at, d->max_order);
        uint8_t s = dk_pfn_to_fi(d, pfn + at, &fi, &zone) ? dk_a8_load_relaxed(&d->state[fi]) : 0;
        if (!dk_state_is_head(s) || dk_state_order(s) != order) {
            dk_report(d, dk_why_bad(d, pfn + at, order), pfn + at, order, caller);
            return false;
        }
        if (!dk_holds(d, fi)) {
            dk_report(d, DECKLE_BAD_OWNER, pfn + at, order, caller);
            return false;
        }
        at += (uint64_t)1 << order;
    }
    return true;
}

int deckle_free_exact(struct deckle *d, uint64_t pfn, uint64_t nr)
{
    if (!nr || pfn >= DK_PFN_LIMIT || nr > DK_PFN_LIMIT - pfn)
        return DECKLE_EINVAL;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (!check_pieces(d, pfn, nr, DK_CALLER()))
        return DECKLE_EBADFREE;
    int result = DECKLE_OK;
    for (uint64_t at = 0; at < nr;) {
        unsigned order = dk_piece_order(pfn + at, nr - at, d->max_order);
        int err = dk_free(d, pfn + at, order, 0, DK_CALLER());
        if (err)
            result = err;
        at += (uint64_t)1 << order;
    }
    return result;
}

/* ---- at a given place
 * --------------------------------------------------------------------------- */

/* Take the pieces of [fi, fi+nr); all or nothing. *failed: first frame of the piece that was not
 * free. */
static int take_pieces(struct deckle *d, struct dk_zone *zone, uint32_t fi, uint64_t nr,
                       uint64_t *failed)
{
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    for (uint64_t at = 0; at < nr;) {
        uint32_t head = (uint32_t)(fi + at);
        unsigned order = dk_piece_order(head, nr - at, d->max_order);
        int err = dk_zone_take_at(d, zone, set, head, order, DK_NONE);
        if (err) {
            *failed = at;
            for (uint64_t back = 0; back < at;) {
                uint32_t done = (uint32_t)(fi + back);
                unsigned k = dk_piece_order(done, nr - back, d->max_order);
                dk_zone_give(d, zone, set, k, &done, 1);
                back += (uint64_t)1 << k;
            }
            return err;
        }
        at += (uint64_t)1 << order;
    }
    return DECKLE_OK;
}

/* The list that the piece goes to when it is freed. Frames of a CMA block are lent to Movable
 * requests only, whoever had them first. */
static unsigned list_type(const struct deckle *d, uint32_t fi, uint32_t gfp)
{
    unsigned block_type = dk_w_type(dk_load_relaxed(&d->words[fi / DK_BLOCK_FRAMES]));
    return block_type == DECKLE_CMA ? DECKLE_MOVABLE : dk_gfp_migratetype(gfp);
}

/* Give back the pieces of a range of which the one at `damaged` must not be given out: it stays
 * taken. */
static void give_up_pieces(struct deckle *d, struct dk_zone *zone, uint32_t fi, uint64_t nr,
                           uint64_t damaged, const void *caller)
{
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    for (uint64_t at = 0; at < nr;) {
        uint32_t head = (uint32_t)(fi + at);
        unsigned order = dk_piece_order(head, nr - at, d->max_order);
        uint64_t pfn = 0;
        if (at < damaged && dk_fi_to_pfn(d, head, &pfn))
            dk_free(d, pfn, order, 0, caller);
        else if (at > damaged)
            dk_zone_give(d, zone, set, order, &head, 1);
        at += (uint64_t)1 << order;
    }
}

/* All pieces are given out, or none. */
static bool prepare_pieces(struct deckle *d, struct dk_zone *zone, uint32_t fi, uint64_t nr,
                           uint32_t gfp, const void *caller)
{
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    for (uint64_t at = 0; at < nr;) {
        uint32_t head = (uint32_t)(fi + at);
        unsigned order = dk_piece_order(head, nr - at, d->max_order);
        dk_counter_add(&set->direct_allocs[order], 1);
        dk_counter_add(&set->refills, 1);
        dk_counter_add(&set->refill_frames, 1u << order);
        if (!dk_prepare_alloc(d, head, order, gfp, list_type(d, head, gfp), 0, caller)) {
            give_up_pieces(d, zone, fi, nr, at, caller);
            return false;
        }
        at += (uint64_t)1 << order;
    }
    return true;
}

static int check_flags(struct deckle *d, uint32_t gfp, unsigned order)
{
    int err = dk_may_change(d) ? dk_gfp_check(gfp, order, d->max_order) : DECKLE_EPERM;
    return err ? err : dk_prepare_check(d, gfp);
}

int deckle_alloc_at(struct deckle *d, uint32_t gfp, uint64_t pfn, uint32_t order)
{
    uint32_t fi, number;
    uint64_t failed;
    int err = check_flags(d, gfp, order);
    if (!err && (pfn & (((uint64_t)1 << order) - 1)))
        err = DECKLE_EINVAL;
    if (!err && (!dk_pfn_to_fi(d, pfn, &fi, &number) ||
                 dk_a8_load_relaxed(&d->state[fi]) == DK_STATE_HOLE))
        err = DECKLE_ENOENT;
    if (err)
        return dk_fail(d, err);
    struct dk_zone *zone = &d->zones[number];
    uint64_t nr = (uint64_t)1 << order;
    err = take_pieces(d, zone, fi, nr, &failed);
    if (err) {
        dk_pcp_drain_zone(d, zone, NULL);
        err = take_pieces(d, zone, fi, nr, &failed);
    }
    if (!err && !prepare_pieces(d, zone, fi, nr, gfp, DK_CALLER()))
        err = DECKLE_EBUSY; /* damaged: reported, and out of use from now on */
    return err ? dk_fail(d, err) : DECKLE_OK;
}

/* ---- contiguous ranges
 * ---------------------------------------------------------------------------- */

/* First frame at or after fi that is not free at the shared level, end if none. */
static uint64_t next_used(const struct deckle *d, uint64_t fi, uint64_t end)
{
    while (fi < end) {
        uint32_t block = (uint32_t)(fi / DK_BLOCK_FRAMES);
        dk_word w = dk_load_seq(&d->words[block]);
        if (w & DK_W_SHUT)
            return fi;
        if (!dk_w_used(w)) {
            fi = (uint64_t)(block + 1) * DK_BLOCK_FRAMES;
            continue;
        }
        unsigned bit = (unsigned)(fi % DK_WORD_BITS);
        dk_word used = dk_load_seq(&dk_line(d, block)[fi % DK_BLOCK_FRAMES / DK_WORD_BITS]) >> bit;
        if (used) {
            fi += dk_ctz(used);
            break;
        }
        fi += DK_WORD_BITS - bit;
    }
    return fi < end ? fi : end;
}

struct contig {
    struct deckle *d;
    uint64_t nr, align, min_pfn, max_pfn;
};

/* Search one section; pfn and fi differ by a constant there. */
static int64_t contig_in_section(const struct contig *c, const struct dk_section_view *s,
                                 uint32_t gfp, const void *caller)
{
    struct deckle *d = c->d;
    uint64_t last = s->pfn + s->nr, pfn = s->pfn > c->min_pfn ? s->pfn : c->min_pfn;
    if (c->max_pfn && last > c->max_pfn)
        last = c->max_pfn;
    pfn = dk_align_up(pfn, c->align);
    while (pfn < last && last - pfn >= c->nr) {
        uint64_t fi = s->first_fi + (pfn - s->pfn), failed;
        uint64_t used = next_used(d, fi, fi + c->nr);
        if (used < fi + c->nr) {
            pfn = dk_align_up(pfn + (used - fi) + 1, c->align);
            continue;
        }
        if (!take_pieces(d, &d->zones[s->zone], (uint32_t)fi, c->nr, &failed)) {
            if (prepare_pieces(d, &d->zones[s->zone], (uint32_t)fi, c->nr, gfp, caller))
                return (int64_t)pfn;
            failed = 0; /* a damaged frame, which is taken now */
        }
        pfn = dk_align_up(pfn + failed + 1, c->align);
    }
    return DECKLE_EFRAGMENTED;
}

static int64_t contig_search(const struct contig *c, uint32_t gfp, const void *caller)
{
    enum deckle_zone_type highest = dk_gfp_zone(gfp);
    struct dk_section_view s;
    for (uint64_t from = 0; dk_section_from(c->d, from, &s); from = s.pfn + s.nr) {
        if ((c->max_pfn && s.pfn >= c->max_pfn) || s.nr < c->nr || s.pfn + s.nr <= c->min_pfn ||
            c->d->zones[s.zone].type > highest)
            continue;
        int64_t pfn = contig_in_section(c, &s, gfp, caller);
        if (pfn >= 0)
            return pfn;
    }
    return DECKLE_EFRAGMENTED;
}

static int contig_reason(const struct contig *c)
{
    uint64_t free = 0;
    for (uint32_t z = 0; z < c->d->sb->nr_zones; z++)
        free += dk_zone_free_exact(c->d, &c->d->zones[z]);
    if (free < c->nr)
        return DECKLE_ENOMEM;
    return c->min_pfn || c->max_pfn ? DECKLE_ECONSTRAINED : DECKLE_EFRAGMENTED;
}

int64_t deckle_alloc_contig(struct deckle *d, uint32_t gfp, uint64_t nr, uint64_t align,
                            uint64_t min_pfn, uint64_t max_pfn)
{
    struct contig c = {d, nr, align ? align : 1, min_pfn, max_pfn};
    int err = check_flags(d, gfp, 0);
    if (!err && (!nr || nr > DK_PFN_LIMIT || !dk_is_power_of_two(c.align) ||
                 c.align > DK_PFN_LIMIT || min_pfn >= DK_PFN_LIMIT ||
                 (max_pfn && max_pfn <= min_pfn) || (gfp & DECKLE_GFP_COMP)))
        err = DECKLE_EINVAL;
    if (err)
        return dk_fail(d, err);
    int64_t pfn = contig_search(&c, gfp, DK_CALLER());
    if (pfn < 0) {
        deckle_drain_all(d);
        pfn = contig_search(&c, gfp, DK_CALLER());
    }
    return pfn >= 0 ? pfn : dk_fail(d, contig_reason(&c));
}
