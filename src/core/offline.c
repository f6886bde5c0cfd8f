/* SPDX-License-Identifier: MIT */
/*
 * Taking frames out of use while the pool lives: deckle_reserve_range for frames that are online,
 * deckle_remove_range.
 *
 * Both first take every frame concerned out of the shared level, as an allocation would, piece by
 * piece: whole pageblocks where nothing is used, else aligned runs. The caches of the zones are
 * closed and drained meanwhile, so a frame that cannot be taken is in use, and all that was taken
 * goes back. Who wants to win against others that allocate from the same blocks isolates them first
 * and waits until they are free. What is taken is nobody else's; so what follows cannot fail:
 *
 *   reserve   state RESERVED, bits stay set.
 *   remove    state HOLE; the section shrinks, splits or ends; blocks without a frame left go
 *             OFFLINE. Two parts that share a pageblock stay one section with a gap (layout.h).
 */
#include "base/div64.h"
#include "base/mem.h"
#include "core/blockinfo.h"
#include "core/config.h"
#include "core/index.h"
#include "core/pcp.h"
#include "core/section.h"
#include "core/setup.h"
#include "core/zone.h"
#include "core/zone_internal.h"

/* Frames of one section. */
struct stretch {
    struct deckle *d;
    struct dk_zone *zone;
    struct dk_pcp_set *set;
    uint64_t fi, end;
};

static struct stretch open_stretch(struct deckle *d, uint64_t pfn, uint64_t nr)
{
    struct dk_section_view v;
    struct stretch s = {.d = d};

    if (dk_section_of_pfn(d, pfn, &v)) {
        s.zone = &d->zones[v.zone];
        s.set = dk_stat_set(d, v.zone);
        s.fi = v.first_fi + (pfn - v.pfn);
        s.end = s.fi + nr;
    }
    return s;
}

/* ---- pieces ------------------------------------------------------------------------------- */

static uint8_t state_of(const struct stretch *s, uint64_t fi)
{
    return dk_a8_load_relaxed(&s->d->state[fi]);
}

static bool is_out_of_use(uint8_t state)
{
    return state == DK_STATE_HOLE || state == DK_STATE_RESERVED;
}

static bool is_block_start(const struct stretch *s, uint64_t fi)
{
    return fi % DK_BLOCK_FRAMES == 0 && s->end - fi >= DK_BLOCK_FRAMES;
}

/* The next piece at or behind *fi: its order, *fi moves to its start. False at the end. whole: may
 * the pageblock with this W be one piece? */
static bool next_piece(const struct stretch *s, uint64_t *fi, bool (*whole)(dk_word w),
                       unsigned *order)
{
    while (*fi < s->end && is_out_of_use(state_of(s, *fi)))
        ++*fi;
    if (*fi == s->end)
        return false;
    if (is_block_start(s, *fi) && whole(dk_load_seq(&s->d->words[*fi >> DK_BLOCK_ORDER]))) {
        *order = DK_BLOCK_ORDER;
        return true;
    }
    uint64_t stop = dk_min64(s->end, dk_align_down(*fi, DK_BLOCK_FRAMES) + DK_BLOCK_FRAMES);
    uint64_t end = *fi + 1;
    while (end < stop && !is_out_of_use(state_of(s, end)))
        end++;
    *order = dk_ctz((dk_word)*fi | DK_BLOCK_FRAMES / 2);
    while ((uint64_t)1 << *order > end - *fi)
        --*order;
    return true;
}

static bool is_unused(dk_word w)
{
    return !dk_w_used(w) && !(w & DK_W_OFFLINE);
}

static bool is_whole(dk_word w)
{
    return (w & DK_W_WHOLE) != 0;
}

/* Take all frames in use by nobody; returns where that ended: s->end, or the first piece not free.
 * */
static uint64_t take_pieces(const struct stretch *s)
{
    uint64_t fi = s->fi;
    unsigned order;

    for (; next_piece(s, &fi, is_unused, &order); fi += (uint64_t)1 << order) {
        if (dk_state_is_head(state_of(s, fi)) ||
            dk_zone_take_at(s->d, s->zone, s->set, (uint32_t)fi, order, DK_NONE))
            return fi;
    }
    return s->end;
}

/* Give back what take_pieces took. */
static void give_pieces(const struct stretch *s)
{
    uint64_t fi = s->fi;
    unsigned order;

    for (; next_piece(s, &fi, is_whole, &order); fi += (uint64_t)1 << order) {
        uint32_t first = (uint32_t)fi;
        dk_zone_give(s->d, s->zone, s->set, order, &first, 1);
    }
}

/* ---- all or nothing ----------------------------------------------------------------------- */

/* Ranges first … that meet [pfn, end), and those of their frames that lie in it. */
#define FOR_EACH_RANGE_IN(d, pfn, stop, r)                                                         \
    for (struct dk_range *r = &(d)->ranges[dk_range_above(d, pfn)];                                \
         r < &(d)->ranges[(d)->sb->nr_ranges] && r->pfn < (stop); r++)                             \
        if (r->online)

static struct stretch part_of(struct deckle *d, const struct dk_range *r, uint64_t pfn,
                              uint64_t end)
{
    uint64_t first = dk_max64(r->pfn, pfn), stop = dk_min64(r->pfn + r->nr, end);
    return open_stretch(d, first, stop - first);
}

static void close_caches(struct deckle *d, uint64_t pfn, uint64_t end)
{
    if (d->kind == DK_PCP_NONE)
        return;
    FOR_EACH_RANGE_IN(d, pfn, end, r) {
        dk_pcp_close(d, &d->zones[r->zone]);
        dk_pcp_drain_zone(d, &d->zones[r->zone], NULL);
    }
}

static void open_caches(struct deckle *d, uint64_t pfn, uint64_t end)
{
    if (d->kind == DK_PCP_NONE)
        return;
    FOR_EACH_RANGE_IN(d, pfn, end, r)
        dk_pcp_open(d, &d->zones[r->zone]);
}

/* Take all frames of [pfn, end) that are online and neither holes nor reserved. */
static int take_all(struct deckle *d, uint64_t pfn, uint64_t end)
{
    FOR_EACH_RANGE_IN(d, pfn, end, r) {
        struct stretch s = part_of(d, r, pfn, end);
        uint64_t reached = take_pieces(&s);

        if (reached == s.end)
            continue;
        s.end = reached;
        give_pieces(&s);
        FOR_EACH_RANGE_IN(d, pfn, r->pfn, before) {
            struct stretch b = part_of(d, before, pfn, r->pfn);
            give_pieces(&b);
        }
        return DECKLE_EBUSY;
    }
    return DECKLE_OK;
}

/* ---- reserve ------------------------------------------------------------------------------ */

static void reserve_stretch(struct stretch *s)
{
    dk_word frames = 0;
    uint64_t fi = s->fi;
    unsigned order;

    for (; next_piece(s, &fi, is_whole, &order); fi += (uint64_t)1 << order) {
        dk_zone_split_whole(s->d, (uint32_t)fi);
        dk_state_fill(s->d, (uint32_t)fi, (uint64_t)1 << order, DK_STATE_RESERVED);
        frames += (dk_word)1 << order;
    }
    dk_add_relaxed(&s->zone->reserved, frames);
    dk_add_relaxed(&s->zone->managed, (dk_word)0 - frames);
}

static void make_reserved(struct deckle *d, uint64_t pfn, uint64_t end)
{
    FOR_EACH_RANGE_IN(d, pfn, end, r) {
        struct stretch s = part_of(d, r, pfn, end);
        reserve_stretch(&s);
    }
}

int deckle_reserve_range(struct deckle *d, uint64_t pfn, uint64_t nr)
{
    if (!d || !nr || pfn >= DK_PFN_LIMIT || nr > DK_PFN_LIMIT - pfn)
        return DECKLE_EINVAL;
    if (dk_a32_load_acquire(&d->sb->published))
        return DECKLE_ENOTSUP;
    if (!dk_reservation_fits(d, pfn, nr))
        return DECKLE_ENOSPC;
    uint64_t end = pfn + nr;
    close_caches(d, pfn, end);
    int error = take_all(d, pfn, end);
    if (!error)
        make_reserved(d, pfn, end);
    open_caches(d, pfn, end);
    if (!error) {
        dk_reservation_add(d, pfn, nr);
        dk_memory_changed(d);
    }
    return error;
}

/* ---- remove ------------------------------------------------------------------------------- */

/* Nobody has a frame of the block any more. */
static void make_offline(const struct stretch *s, uint32_t block)
{
    struct deckle *d = s->d;
    dk_aword *word = &d->words[block];
    dk_word from = dk_load_relaxed(word), to;

    do
        to = (from & ~(DK_W_VERSION_ONE - 1)) + DK_W_VERSION_ONE + DK_W_OFFLINE;
    while (!dk_cas(word, &from, to));
    dk_zone_account_in(d, s->zone, s->set, 0, from, to);
    dk_index_move(d, dk_span_of_block(d, s->zone, block), block, from, to);
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        dk_store_relaxed(&dk_line(d, block)[i], 0);
}

/* Does a section have frames in the block? */
static bool is_block_in_use(const struct deckle *d, uint32_t block)
{
    struct dk_section_view v;

    for (uint32_t n = 0; dk_section_nth(d, n, &v); n++)
        if (block >= dk_section_first_block(&v) && block < dk_section_end_block(&v))
            return true;
    return false;
}

/* End of the last range before r, and start of the first behind, that are online and in the
 * section. */
static void find_neighbours(const struct deckle *d, const struct dk_range *r,
                            const struct dk_section_view *v, uint64_t *before, uint64_t *after)
{
    const struct dk_range *first = d->ranges, *end = d->ranges + d->sb->nr_ranges, *i;

    *before = v->pfn;
    for (i = r; i-- > first && i->pfn >= v->pfn;) {
        if (i->online) {
            *before = i->pfn + i->nr;
            break;
        }
    }
    *after = v->pfn + v->nr;
    for (i = r + 1; i < end && i->pfn < v->pfn + v->nr; i++) {
        if (i->online) {
            *after = i->pfn;
            break;
        }
    }
}

/* Cut the frames of r, which is not online any more, out of its section. */
static void cut_section(struct deckle *d, const struct dk_range *r)
{
    struct dk_section_view v, rest[2];
    uint64_t before, after, end;
    uint32_t nr = 0;

    if (!dk_section_of_pfn(d, r->pfn, &v))
        return;
    end = v.pfn + v.nr;
    find_neighbours(d, r, &v, &before, &after);
    if (before > v.pfn && after < end &&
        (before - 1) >> DK_BLOCK_ORDER == after >> DK_BLOCK_ORDER)
        return;
    if (before > v.pfn) {
        rest[nr] = v;
        rest[nr++].nr = before - v.pfn;
    }
    if (after < end) {
        rest[nr] = v;
        rest[nr].pfn = after;
        rest[nr].nr = end - after;
        rest[nr++].first_fi = v.first_fi + (uint32_t)(after - v.pfn);
    }
    dk_section_change(d, rest, nr, &v.slot, 1);
}

static void make_hole(struct deckle *d, struct dk_range *r)
{
    struct stretch s = open_stretch(d, r->pfn, r->nr);
    dk_word reserved = 0;

    for (uint64_t fi = s.fi; fi < s.end; fi++)
        reserved += state_of(&s, fi) == DK_STATE_RESERVED;
    dk_state_fill(d, (uint32_t)s.fi, r->nr, DK_STATE_HOLE);
    dk_add_relaxed(&s.zone->managed, reserved - (dk_word)r->nr);
    dk_add_relaxed(&s.zone->reserved, (dk_word)0 - reserved);
    dk_add_relaxed(&s.zone->present, (dk_word)0 - (dk_word)r->nr);
    r->online = 0;
    cut_section(d, r);
    uint32_t end = (uint32_t)((s.end - 1) >> DK_BLOCK_ORDER) + 1;
    for (uint32_t block = (uint32_t)(s.fi >> DK_BLOCK_ORDER); block < end; block++)
        if (!is_block_in_use(d, block))
            make_offline(&s, block);
}

/* Are [pfn, end) whole ranges, one after the other? */
static bool are_whole_ranges(const struct deckle *d, uint64_t pfn, uint64_t end)
{
    for (uint32_t i = dk_range_above(d, pfn); i < d->sb->nr_ranges && pfn < end; i++) {
        if (d->ranges[i].pfn != pfn)
            return false;
        pfn += d->ranges[i].nr;
    }
    return pfn == end;
}

static void forget_ranges(struct deckle *d, uint64_t pfn, uint64_t end)
{
    struct dk_superblock *sb = d->sb;
    uint32_t first = dk_range_above(d, pfn), stop = dk_range_above(d, end);

    memmove(&d->ranges[first], &d->ranges[stop], (sb->nr_ranges - stop) * sizeof *d->ranges);
    sb->nr_ranges -= stop - first;
}

int deckle_remove_range(struct deckle *d, uint64_t pfn, uint64_t nr)
{
    if (!d || !nr || pfn >= DK_PFN_LIMIT || nr > DK_PFN_LIMIT - pfn)
        return DECKLE_EINVAL;
    if (dk_a32_load_acquire(&d->sb->published))
        return DECKLE_ENOTSUP;
    uint64_t end = pfn + nr;
    if (!are_whole_ranges(d, pfn, end))
        return DECKLE_ENOENT;
    close_caches(d, pfn, end);
    int error = take_all(d, pfn, end);
    open_caches(d, pfn, end);
    if (error)
        return error;
    FOR_EACH_RANGE_IN(d, pfn, end, r)
        make_hole(d, r);
    forget_ranges(d, pfn, end);
    dk_memory_changed(d);
    return DECKLE_OK;
}
