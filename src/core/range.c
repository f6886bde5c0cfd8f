/* SPDX-License-Identifier: MIT */
/*
 * Announcing frames and recording reservations: two short tables, sorted by pfn, that only set-up
 * touches. A reservation is a union: order, number and overlaps of the calls do not matter, and
 * frames that do not exist may be named; it holds for memory that is added later, too.
 */
#include "base/div64.h"
#include "base/mem.h"
#include "core/config.h"
#include "core/section.h"
#include "core/setup.h"

int deckle_range_of_bytes(uint64_t address, uint64_t bytes, uint32_t page_shift,
                          struct deckle_range *range)
{
    uint32_t shift = page_shift ? page_shift : 12;

    if (!range || shift < 10 || shift > 30)
        return DECKLE_EINVAL;
    uint64_t within = address & (((uint64_t)1 << shift) - 1);
    uint64_t first = (address >> shift) + (within != 0);
    uint64_t end = bytes > UINT64_MAX - address ? (uint64_t)1 << (64 - shift)
                                                : (address + bytes) >> shift;
    range->pfn = first;
    range->nr = dk_sub_sat64(end, first);
    return DECKLE_OK;
}

uint32_t dk_range_above(const struct deckle *d, uint64_t pfn)
{
    uint32_t low = 0, high = d->sb->nr_ranges;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (d->ranges[mid].pfn + d->ranges[mid].nr <= pfn)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* A hole in a pageblock of another zone cannot be filled: what a removal leaves there keeps its
 * section. */
static bool lies_in_section_of_other_zone(const struct deckle *d, const struct dk_piece *p,
                                          uint32_t zone)
{
    struct dk_section_view s;
    return dk_section_of_pfn(d, p->pfn, &s) && s.zone != zone;
}

static void insert_range(struct deckle *d, const struct dk_piece *p, uint32_t zone, uint32_t flags)
{
    uint32_t at = dk_range_above(d, p->pfn);
    struct dk_range *r = &d->ranges[at];

    memmove(r + 1, r, (d->sb->nr_ranges - at) * sizeof *r);
    *r = (struct dk_range){.pfn = p->pfn, .nr = p->nr, .zone = zone, .flags = flags,
                           .block = DK_NONE};
    d->sb->nr_ranges++;
}

int deckle_add_range(struct deckle *d, const struct deckle_range *range)
{
    struct dk_piece pieces[DK_MAX_PIECES];

    if (!d || !range)
        return DECKLE_EINVAL;
    if (dk_a32_load_acquire(&d->sb->published))
        return DECKLE_ENOTSUP;
    struct dk_superblock *sb = d->sb;
    const struct dk_range_rules rules = {sb->dma_limit_pfn, sb->dma32_limit_pfn, sb->nr_nodes,
                                         sb->features};
    int n = dk_divide_range(&rules, range, pieces, NULL);
    if (n < 0)
        return n;
    uint32_t at = dk_range_above(d, range->pfn);
    if (at < sb->nr_ranges && d->ranges[at].pfn < range->pfn + range->nr)
        return DECKLE_EEXIST;
    if ((uint32_t)n > sb->max_ranges - sb->nr_ranges)
        return DECKLE_ENOSPC;
    for (int i = 0; i < n; i++) {
        uint32_t zone = sb->zone_of[pieces[i].node][pieces[i].type];
        if (!zone)
            return DECKLE_ENOSPC;
        if (lies_in_section_of_other_zone(d, &pieces[i], zone - 1))
            return DECKLE_EINVAL;
    }
    for (int i = 0; i < n; i++)
        insert_range(d, &pieces[i], sb->zone_of[pieces[i].node][pieces[i].type] - 1, range->flags);
    return DECKLE_OK;
}

/* The reservations that touch or overlap [pfn, pfn + nr): first … end - 1. */
static void find_touching(const struct deckle *d, uint64_t pfn, uint64_t nr, uint32_t *first,
                          uint32_t *end)
{
    const struct dk_reservation *v = d->reservations;

    *first = 0;
    while (*first < d->sb->nr_reservations && v[*first].pfn + v[*first].nr < pfn)
        ++*first;
    *end = *first;
    while (*end < d->sb->nr_reservations && v[*end].pfn <= pfn + nr)
        ++*end;
}

bool dk_reservation_fits(const struct deckle *d, uint64_t pfn, uint64_t nr)
{
    uint32_t first, end;

    find_touching(d, pfn, nr, &first, &end);
    return first < end || d->sb->nr_reservations < d->sb->max_reservations;
}

void dk_reservation_add(struct deckle *d, uint64_t pfn, uint64_t nr)
{
    struct dk_superblock *sb = d->sb;
    struct dk_reservation *v = d->reservations;
    uint64_t stop = pfn + nr;
    uint32_t first, end;

    find_touching(d, pfn, nr, &first, &end);
    if (first < end) {
        pfn = dk_min64(pfn, v[first].pfn);
        stop = dk_max64(stop, v[end - 1].pfn + v[end - 1].nr);
    }
    memmove(&v[first + 1], &v[end], (sb->nr_reservations - end) * sizeof *v);
    v[first] = (struct dk_reservation){pfn, stop - pfn};
    sb->nr_reservations = sb->nr_reservations - (end - first) + 1;
}
