/* SPDX-License-Identifier: MIT */
/*
 * The section table. A few sections hold all memory of a pool, so a lookup is a binary search over
 * less than a dozen keys, and the handle knows the largest section by itself (dk_pfn_to_fi in
 * layout.h).
 *
 * Set-up may change the table at any time, and may be stopped in the middle of it for ever; lookups
 * neither wait nor go wrong:
 *
 *   Slots.  A section never moves and never changes: it is written into a free slot, whose version
 *     goes from odd to even when it is complete and to odd again when it ends. A reader takes what
 *     it read only if the version was even before and the same after. A frame that somebody holds
 *     is in a section that went live before the frame was given out and ends after it came back, so
 *     its slot stands still.
 *   Keys.   Two arrays of the live slots, sorted by pfn and by frame index. They are hints: a hit
 *     is decided by the slot. While they are rewritten a search may miss.
 *   Epoch.  Odd from before the first store to after the last, and advanced by two between "all new
 *     sections are live" and "the first old one ends". A search that missed says "not there" only
 *     if the epoch was even before and is unchanged after; then no key moved in between. Otherwise
 *     the reader looks at all slots, and believes a miss if the epoch did not move meanwhile: in
 *     each of the two phases a pfn that is in the pool is in a slot that stands still for the whole
 *     phase. If the epoch did move, set-up has made progress and the reader looks again. A writer
 *     that is stopped makes the epoch stand still, so one look is enough: nobody is delayed.
 *
 * Bounds: O(log sections); O(slots) while set-up is at work.
 */
#include "core/section.h"

#include "core/fast.h"
/* ---- slots -------------------------------------------------------------------------------- */

static bool read_slot(const struct deckle *d, uint32_t slot, struct dk_section_view *out)
{
    if (slot >= d->sb->max_sections)
        return false;
    const struct dk_section *s = &d->sections[slot];
    uint32_t version = dk_a32_load_acquire(&s->version);

    out->pfn = dk_pfn_load(&s->pfn);
    out->nr = (uint64_t)dk_a32_load_acquire(&s->last) + 1;
    out->first_fi = dk_a32_load_acquire(&s->first_fi);
    out->zone = dk_a32_load_acquire(&s->zone);
    out->span = dk_a32_load_acquire(&s->span);
    out->flags = dk_a32_load_acquire(&s->flags);
    out->slot = slot;
    return version && !(version & 1) && dk_a32_load_relaxed(&s->version) == version;
}

/* Versions: 0 = never used, odd = free or being written, even = live. */
static bool slot_is_free(const struct dk_section *s)
{
    uint32_t version = dk_a32_load_relaxed(&s->version);
    return !version || (version & 1);
}

static void write_slot(struct dk_section *s, const struct dk_section_view *v)
{
    uint32_t version = dk_a32_load_relaxed(&s->version) | 1;

    dk_a32_exchange(&s->version, version);
    dk_pfn_store(&s->pfn, v->pfn);
    dk_a32_store_release(&s->last, (uint32_t)(v->nr - 1));
    dk_a32_store_release(&s->first_fi, v->first_fi);
    dk_a32_store_release(&s->zone, v->zone);
    dk_a32_store_release(&s->span, v->span);
    dk_a32_store_release(&s->flags, v->flags);
    dk_a32_exchange(&s->version, version + 1);
}

/* ---- search -------------------------------------------------------------------------------- */

static bool contains(const struct dk_section_view *v, uint64_t key, bool by_fi)
{
    return key - (by_fi ? v->first_fi : v->pfn) < v->nr;
}

/* How many keys are at or below key. */
static uint32_t keys_up_to(const struct deckle *d, const struct dk_section_key *keys, uint64_t key)
{
    uint32_t low = 0, high = dk_a32_load_acquire(&d->sb->nr_sections);

    if (high > d->sb->max_sections)
        return 0;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (dk_pfn_load(&keys[mid].key) <= key)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* Through the sorted keys; false may mean that they are being rewritten. */
static bool search_keys(const struct deckle *d, uint64_t key, bool by_fi,
                        struct dk_section_view *out)
{
    const struct dk_section_key *keys = by_fi ? d->by_fi : d->by_pfn;
    uint32_t n = keys_up_to(d, keys, key);

    return n && read_slot(d, dk_a32_load_acquire(&keys[n - 1].slot), out) &&
           contains(out, key, by_fi);
}

static bool search_slots(const struct deckle *d, uint64_t key, bool by_fi,
                         struct dk_section_view *out)
{
    for (uint32_t slot = 0; slot < d->sb->max_sections; slot++)
        if (read_slot(d, slot, out) && contains(out, key, by_fi))
            return true;
    return false;
}

/*
 * After a look that began in `epoch` found nothing: is that final? If not, *epoch is where the next
 * look begins, at all slots if *all. The first look is at the keys, which are right only in an even
 * epoch.
 */
static bool miss_is_final(const struct deckle *d, uint32_t *epoch, bool *all)
{
    uint32_t before = *epoch;

    *epoch = dk_a32_load_acquire(&d->sb->section_epoch);
    if (*epoch == before && (*all || !(before & 1)))
        return true;
    *all = true;
    return false;
}

static bool find(const struct deckle *d, uint64_t key, bool by_fi, struct dk_section_view *out)
{
    uint32_t epoch = dk_a32_load_acquire(&d->sb->section_epoch);
    bool all = false;

    do {
        if (all ? search_slots(d, key, by_fi, out) : search_keys(d, key, by_fi, out))
            return true;
    } while (!miss_is_final(d, &epoch, &all));
    return false;
}

bool dk_section_of_pfn(const struct deckle *d, uint64_t pfn, struct dk_section_view *out)
{
    return find(d, pfn, false, out);
}

bool dk_section_of_fi(const struct deckle *d, uint32_t fi, struct dk_section_view *out)
{
    return find(d, fi, true, out);
}

bool dk_section_last_in(const struct deckle *d, uint32_t slot, struct dk_section_view *out)
{
    read_slot(d, slot, out);
    return slot < d->sb->max_sections && dk_a32_load_relaxed(&d->sections[slot].version);
}

bool dk_section_nth(const struct deckle *d, uint32_t n, struct dk_section_view *out)
{
    if (n >= dk_a32_load_acquire(&d->sb->nr_sections) || n >= d->sb->max_sections)
        return false;
    return read_slot(d, dk_a32_load_acquire(&d->by_pfn[n].slot), out);
}

bool dk_section_inside(const struct deckle *d, uint32_t fi, uint32_t last,
                       struct dk_section_view *out)
{
    for (uint32_t n = 0; dk_section_nth(d, n, out); n++)
        if (out->first_fi <= last && out->first_fi + (out->nr - 1) >= fi)
            return true;
    return false;
}

static bool next_by_keys(const struct deckle *d, uint64_t pfn, struct dk_section_view *out)
{
    uint32_t i = pfn ? keys_up_to(d, d->by_pfn, pfn - 1) : 0;

    return dk_section_nth(d, i, out) && out->pfn >= pfn;
}

static bool next_by_slots(const struct deckle *d, uint64_t pfn, struct dk_section_view *out)
{
    struct dk_section_view v;
    bool found = false;

    for (uint32_t slot = 0; slot < d->sb->max_sections; slot++) {
        if (!read_slot(d, slot, &v) || v.pfn < pfn || (found && v.pfn > out->pfn))
            continue;
        *out = v;
        found = true;
    }
    return found;
}

/* Unlike a lookup by frame, a hit among the keys may be the wrong section while they are rewritten:
 * the epoch has to agree with it, too. */
bool dk_section_from(const struct deckle *d, uint64_t pfn, struct dk_section_view *out)
{
    uint32_t epoch = dk_a32_load_acquire(&d->sb->section_epoch);
    bool all = false, found;

    do
        found = all ? next_by_slots(d, pfn, out) : next_by_keys(d, pfn, out);
    while (!miss_is_final(d, &epoch, &all));
    return found;
}

bool dk_pfn_to_fi_slow(const struct deckle *d, uint64_t pfn, uint32_t *fi, uint32_t *zone)
{
    struct dk_section_view s;

    if (!find(d, pfn, false, &s))
        return false;
    *fi = s.first_fi + (uint32_t)(pfn - s.pfn);
    *zone = s.zone;
    return true;
}

bool dk_fi_to_pfn_slow(const struct deckle *d, uint32_t fi, uint64_t *pfn)
{
    struct dk_section_view s;

    if (!find(d, fi, true, &s))
        return false;
    *pfn = s.pfn + (fi - s.first_fi);
    return true;
}

/* By the span, which keeps its zone for ever; also blocks that no section touches have one. */
uint32_t dk_zone_of_block(const struct deckle *d, uint32_t block)
{
    uint32_t nr = dk_a32_load_acquire(&d->sb->nr_spans);

    for (uint32_t i = 0; i < nr && i < d->sb->max_spans; i++)
        if (block - d->spans[i].first_block < d->spans[i].nr_blocks)
            return d->spans[i].zone;
    return DK_NONE;
}

/* ---- change -------------------------------------------------------------------------------- */

static void move_key(struct dk_section_key *to, uint64_t key, uint32_t slot)
{
    dk_pfn_store(&to->key, key);
    dk_a32_store_release(&to->slot, slot);
}

/* Shell sort: in place, iterative, and close to linear for what is nearly sorted, as slots are. */
static void sort_keys(struct dk_section_key *keys, uint32_t nr)
{
    for (uint32_t gap = nr / 2; gap; gap /= 2) {
        for (uint32_t i = gap; i < nr; i++) {
            uint64_t key = dk_pfn_load(&keys[i].key);
            uint32_t slot = dk_a32_load_relaxed(&keys[i].slot), k = i;
            for (; k >= gap && dk_pfn_load(&keys[k - gap].key) > key; k -= gap)
                move_key(&keys[k], dk_pfn_load(&keys[k - gap].key),
                         dk_a32_load_relaxed(&keys[k - gap].slot));
            move_key(&keys[k], key, slot);
        }
    }
}

static uint32_t rewrite_keys(struct deckle *d)
{
    struct dk_section_view v;
    uint32_t nr = 0;

    for (uint32_t slot = 0; slot < d->sb->max_sections; slot++) {
        if (!read_slot(d, slot, &v))
            continue;
        move_key(&d->by_pfn[nr], v.pfn, slot);
        move_key(&d->by_fi[nr], v.first_fi, slot);
        nr++;
    }
    sort_keys(d->by_pfn, nr);
    sort_keys(d->by_fi, nr);
    return nr;
}

void dk_section_begin(struct deckle *d)
{
    dk_a32_exchange(&d->sb->section_epoch, dk_a32_load_relaxed(&d->sb->section_epoch) + 1);
}

void dk_section_add(struct deckle *d, struct dk_section_view *v, uint32_t *free_slot)
{
    while (!slot_is_free(&d->sections[*free_slot]))
        ++*free_slot;
    v->slot = *free_slot;
    write_slot(&d->sections[v->slot], v);
}

void dk_section_end(struct deckle *d)
{
    dk_a32_store_release(&d->sb->nr_sections, rewrite_keys(d));
    dk_a32_exchange(&d->sb->section_epoch, dk_a32_load_relaxed(&d->sb->section_epoch) + 1);
}

void dk_section_change(struct deckle *d, struct dk_section_view *add, uint32_t nr_add,
                       const uint32_t *drop, uint32_t nr_drop)
{
    uint32_t free_slot = 0;

    dk_section_begin(d);
    for (uint32_t i = 0; i < nr_add; i++)
        dk_section_add(d, &add[i], &free_slot);
    dk_a32_exchange(&d->sb->section_epoch, dk_a32_load_relaxed(&d->sb->section_epoch) + 2);
    for (uint32_t i = 0; i < nr_drop; i++)
        dk_a32_exchange(&d->sections[drop[i]].version,
                        dk_a32_load_relaxed(&d->sections[drop[i]].version) + 1);
    dk_section_end(d);
}

/*
 * The handle's own section is the largest of the first online and keeps its place: a reader that
 * has read main_nr may still use the other fields much later. What is left of it from its first
 * frame on counts.
 */
void dk_section_update_main(struct deckle *d)
{
    struct dk_section_view v, best = {0};

    if (d->main_zone == DK_NONE) {
        for (uint32_t n = 0; dk_section_nth(d, n, &v); n++)
            if (v.nr > best.nr)
                best = v;
        if (!best.nr)
            return;
        d->main_pfn = best.pfn;
        d->main_fi = best.first_fi;
        d->main_zone = best.zone;
        dk_store_release(&d->main_nr, (dk_word)best.nr);
        dk_fast_update(d);
        return;
    }
    dk_word nr = 0;
    if (dk_section_of_pfn(d, d->main_pfn, &v) && v.zone == d->main_zone &&
        v.first_fi + (d->main_pfn - v.pfn) == d->main_fi)
        nr = (dk_word)(v.nr - (d->main_pfn - v.pfn));
    dk_store_release(&d->main_nr, nr);
    dk_fast_update(d);
}
