/* SPDX-License-Identifier: MIT */
/*
 * deckle_validate: everything is counted again from the metadata and compared. In this order, each
 * relying on the one before: superblock, tables, caches, pageblocks section by section, then the
 * counters of each zone. Linear in the memory (one look at each state byte), no memory but the
 * stack, iterative.
 *
 * Identities that must hold in a quiet pool:
 *
 *   bits of a pageblock          used frames of W; a block allocated as a whole has none set
 *   used frames of a zone        in allocated blocks + in caches + reserved + holes
 *   free counter + CPUs' deltas  free frames outside isolated pageblocks; CMA, HighAtomic, Isolate
 * apart allocations - frees          frames in allocated blocks. In frames, for a block may be
 * divided, and be freed in pieces, between the two
 */
#include "core/validate.h"

#include "core/blockinfo.h"
#include "core/check.h"
#include "core/pcp.h"
#include "core/stats.h"

/* ---- the sentence -------------------------------------------------------------------------- */

bool dk_bad_pool(struct dk_check *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    dk_text_vprintf(&c->text, format, args);
    va_end(args);
    return false;
}

bool dk_bad_zone(struct dk_check *c, const struct dk_zone *zone, const char *format, ...)
{
    va_list args;

    dk_text_printf(&c->text, "node %u, zone %s: ", zone->node, dk_zone_type_name(zone->type));
    va_start(args, format);
    dk_text_vprintf(&c->text, format, args);
    va_end(args);
    return false;
}

/* Where a frame or pageblock is, as far as the tables know. */
static void say_place(struct dk_check *c, uint64_t fi)
{
    uint32_t zone = dk_zone_of_block(c->d, (uint32_t)(fi / DK_BLOCK_FRAMES));
    uint64_t pfn;

    if (dk_fi_to_pfn(c->d, (uint32_t)fi, &pfn))
        dk_text_printf(&c->text, " at pfn %llu", DK_LLU(pfn));
    if (zone < c->d->sb->nr_zones)
        dk_text_printf(&c->text, " (node %u, zone %s)", c->d->zones[zone].node,
                       dk_zone_type_name(c->d->zones[zone].type));
    dk_text_puts(&c->text, ": ");
}

bool dk_bad_block(struct dk_check *c, uint32_t block, const char *format, ...)
{
    va_list args;

    dk_text_printf(&c->text, "pageblock %u", block);
    say_place(c, (uint64_t)block * DK_BLOCK_FRAMES);
    va_start(args, format);
    dk_text_vprintf(&c->text, format, args);
    va_end(args);
    return false;
}

bool dk_bad_frame(struct dk_check *c, uint64_t fi, const char *format, ...)
{
    va_list args;

    dk_text_printf(&c->text, "frame %llu", DK_LLU(fi));
    say_place(c, fi);
    va_start(args, format);
    dk_text_vprintf(&c->text, format, args);
    va_end(args);
    return false;
}

/* ---- caches -------------------------------------------------------------------------------- */

/* Entries of a zone's caches that lie in pageblocks first … end-1. */
struct cache_walk {
    struct dk_check *check;
    const struct dk_zone *zone;
    uint32_t first, end;
    struct dk_frame_set frames;
    bool ok;
};

static bool check_entry(struct dk_check *c, const struct dk_zone *zone, uint32_t fi, unsigned order)
{
    const struct deckle *d = c->d;
    uint64_t frames = (uint64_t)1 << order;
    struct dk_section_view s;

    if (order > d->max_order || !dk_section_of_fi(d, fi, &s) || s.zone != zone->number ||
        fi + frames > s.first_fi + s.nr)
        return dk_bad_zone(c, zone, "a cache of order %u holds frame %u, which is not of this zone",
                           order, fi);
    if (fi & (frames - 1))
        return dk_bad_frame(c, fi, "in a cache of order %u, but not a multiple of %llu", order,
                            DK_LLU(frames));
    if (!dk_frames_used(d, fi, order))
        return dk_bad_frame(c, fi, "in a cache of order %u, but not all of it is marked used",
                            order);
    if ((order >= DK_BLOCK_ORDER) !=
        ((dk_load_relaxed(&d->words[fi / DK_BLOCK_FRAMES]) & DK_W_WHOLE) != 0))
        return dk_bad_frame(c, fi, "in a cache of order %u, but its pageblock is %s", order,
                            order >= DK_BLOCK_ORDER ? "divided" : "allocated as a whole");
    for (uint64_t f = fi; f < fi + frames; f++)
        if (!dk_state_is_free(dk_a8_load_relaxed(&d->state[f])))
            return dk_bad_frame(c, f, "in a cache of order %u, but its state byte is 0x%02x", order,
                                dk_a8_load_relaxed(&d->state[f]));
    if (dk_head_of(d, fi) != DK_NONE)
        return dk_bad_frame(c, fi, "in a cache of order %u, but part of an allocated block", order);
    return true;
}

static void visit_entry(void *ctx, uint32_t fi, unsigned order)
{
    struct cache_walk *walk = ctx;
    uint64_t first = (uint64_t)walk->first * DK_BLOCK_FRAMES;
    uint64_t end = (uint64_t)walk->end * DK_BLOCK_FRAMES;

    if (!walk->ok)
        return;
    if (fi / DK_BLOCK_FRAMES < walk->check->d->sb->max_blocks && dk_is_orphan(walk->check->d, fi))
        return;
    walk->ok = check_entry(walk->check, walk->zone, fi, order);
    for (uint64_t f = fi; walk->ok && f < fi + ((uint64_t)1 << order); f++)
        if (f >= first && f < end)
            dk_frame_set_add(&walk->frames, f);
}

static bool check_caches(struct dk_check *c, const struct dk_zone *zone, uint32_t first,
                         uint32_t end, struct dk_frame_set *frames)
{
    struct cache_walk walk = {c, zone, first, end, {0, 0}, true};

    dk_pcp_for_each(c->d, zone, visit_entry, &walk);
    *frames = walk.frames;
    return walk.ok;
}

/* Frames given out and taken back. */
struct flow {
    uint64_t allocs, frees;
};

/* Sizes of the lists of one CPU, what it says it owns, and what it counted. */
static bool check_cache_set(struct dk_check *c, const struct dk_zone *zone, uint32_t cpu,
                            struct flow *flow)
{
    const struct deckle *d = c->d;
    const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);

    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        struct dk_pcp_list_stat stat;

        dk_pcp_list_stat(d, zone->number, cpu, list, &stat);
        if (stat.held > stat.capacity || stat.high > stat.capacity)
            return dk_bad_zone(c, zone,
                               "the cache list of order %u and type %u on CPU %u holds %llu "
                               "entries up to %u, it has room for %u",
                               list / DK_PCP_TYPES, list % DK_PCP_TYPES, cpu, DK_LLU(stat.held),
                               stat.high, stat.capacity);
        flow->allocs += stat.pops << (list / DK_PCP_TYPES);
        flow->frees += stat.pushes << (list / DK_PCP_TYPES);
    }
    for (unsigned order = 0; order < DK_NR_ORDERS; order++) {
        flow->allocs += dk_counter_read(&set->direct_allocs[order]) << order;
        flow->frees += dk_counter_read(&set->direct_frees[order]) << order;
    }
    for (unsigned type = 0; type < DK_PCP_TYPES; type++)
        for (unsigned i = 0; i < 2; i++)
            if (dk_a32_load_relaxed(&set->current_block[type][i]) > d->sb->next_block)
                return dk_bad_zone(c, zone, "CPU %u owns pageblock %u of %u", cpu,
                                   dk_a32_load_relaxed(&set->current_block[type][i]) - 1,
                                   d->sb->next_block);
    return true;
}

/* ---- counters ------------------------------------------------------------------------------ */

/* Counters are words and may be differences: equal modulo 2^word is equal. */
static bool check_counter(struct dk_check *c, const struct dk_zone *zone, const char *name,
                          dk_word counter, uint64_t counted)
{
    if (counter == (dk_word)counted)
        return true;
    return dk_bad_zone(c, zone, "the counter of %s says %llu, counted %llu", name, DK_LLU(counter),
                       DK_LLU(counted));
}

static dk_word free_with_deltas(const struct deckle *d, const struct dk_zone *zone)
{
    dk_word sum = dk_zone_count(d, zone, DK_COUNT_FREE);

    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        sum += dk_load_relaxed(&dk_set(d, zone->number, cpu)->free_delta);
    return sum;
}

static bool check_count(struct dk_check *c, const struct dk_zone *z, const char *name,
                        enum dk_count which, uint64_t counted)
{
    return check_counter(c, z, name, dk_zone_count(c->d, z, which), counted);
}

/* What follows W; not while somebody who died may have left it wrong. */
static bool check_counts(struct dk_check *c, const struct dk_zone *z, const struct dk_tally *t)
{
    if (c->d->tags && dk_a32_load_relaxed(&c->d->sb->counts_wrong))
        return true;
    return check_counter(c, z, "free frames (with the CPUs' shares)", free_with_deltas(c->d, z),
                         t->free) &&
           check_count(c, z, "free CMA frames", DK_COUNT_FREE_CMA, t->free_cma) &&
           check_count(c, z, "free HighAtomic frames", DK_COUNT_FREE_HIGHATOMIC,
                       t->free_highatomic) &&
           check_count(c, z, "free isolated frames", DK_COUNT_FREE_ISOLATED, t->free_isolated) &&
           check_count(c, z, "frames in HighAtomic pageblocks", DK_COUNT_HIGHATOMIC,
                       t->highatomic_blocks * DK_BLOCK_FRAMES) &&
           check_count(c, z, "frames in CMA pageblocks", DK_COUNT_CMA,
                       t->cma_blocks * DK_BLOCK_FRAMES);
}

static bool check_counters(struct dk_check *c, const struct dk_zone *z, const struct dk_tally *t,
                           uint64_t present)
{
    return check_counts(c, z, t) &&
           check_counter(c, z, "present frames", dk_load_relaxed(&z->present), present) &&
           check_counter(c, z, "reserved frames", dk_load_relaxed(&z->reserved), t->reserved) &&
           check_counter(c, z, "managed frames", dk_load_relaxed(&z->managed),
                         present - t->reserved);
}

/* Frames given out minus frames taken back are the frames in allocated blocks; those that left the
 * shared level and did not come back are these and the cached ones. */
static bool check_flow(struct dk_check *c, const struct dk_zone *z, const struct dk_tally *t,
                       const struct flow *flow)
{
    struct dk_traffic_stat traffic;

    if (c->d->tags && dk_a32_load_relaxed(&c->d->sb->deaths))
        return true; /* what the dead were about to count, nobody knows */
    if (flow->allocs - flow->frees != t->allocated)
        return dk_bad_zone(c, z,
                           "%llu frames were given out and %llu came back, but %llu are allocated",
                           DK_LLU(flow->allocs), DK_LLU(flow->frees), DK_LLU(t->allocated));
    dk_zone_traffic(c->d, z, &traffic);
    if (traffic.refill_frames - traffic.drain_frames != t->allocated + t->loose.nr)
        return dk_bad_zone(c, z,
                           "%llu frames left the shared level and %llu came back, but %llu are "
                           "allocated and %llu cached",
                           DK_LLU(traffic.refill_frames), DK_LLU(traffic.drain_frames),
                           DK_LLU(t->allocated), DK_LLU(t->loose.nr));
    return true;
}

/* ---- a zone -------------------------------------------------------------------------------- */

/* All sections of the zone; *open_blocks: pageblocks of them that are not offline. */
static bool check_zone_sections(struct dk_check *c, const struct dk_zone *zone,
                                struct dk_tally *tally, uint64_t *present)
{
    const struct deckle *d = c->d;
    struct dk_section_view s;

    *present = 0;
    for (uint32_t n = 0; dk_section_nth(d, n, &s); n++) {
        uint64_t frames =
            (uint64_t)(dk_section_end_block(&s) - dk_section_first_block(&s)) * DK_BLOCK_FRAMES;

        if (s.zone != zone->number)
            continue;
        if (!dk_check_blocks(c, &s, dk_section_first_block(&s), dk_section_end_block(&s), tally))
            return false;
        *present += frames;
    }
    *present -= tally->holes;
    return true;
}

/* Pageblocks that no section touches are offline. */
static bool check_zone_rest(struct dk_check *c, const struct dk_zone *zone,
                            const struct dk_tally *tally)
{
    const struct deckle *d = c->d;
    uint32_t number = dk_a32_load_relaxed(&zone->first_span);
    uint64_t open = 0;

    while (number) {
        const struct dk_span *span = &d->spans[number - 1];

        for (uint32_t b = 0; b < span->nr_blocks; b++)
            open += !(dk_load_relaxed(&d->words[span->first_block + b]) & DK_W_OFFLINE);
        number = dk_a32_load_relaxed(&span->next_in_zone);
    }
    if (open != tally->open_blocks)
        return dk_bad_zone(c, zone, "%llu pageblocks are not offline, but sections have %llu",
                           DK_LLU(open), DK_LLU(tally->open_blocks));
    return true;
}

static bool check_zone_span(struct dk_check *c, const struct dk_zone *zone)
{
    uint64_t start = 0, end = 0;
    struct dk_section_view s;

    for (uint32_t n = 0; dk_section_nth(c->d, n, &s); n++) {
        if (s.zone != zone->number)
            continue;
        start = end ? start : s.pfn;
        end = s.pfn + s.nr;
    }
    if (dk_pfn_load(&zone->start_pfn) == start && dk_pfn_load(&zone->end_pfn) == end)
        return true;
    return dk_bad_zone(c, zone, "it says pfn %llu to %llu, its sections cover %llu to %llu",
                       DK_LLU(dk_pfn_load(&zone->start_pfn)), DK_LLU(dk_pfn_load(&zone->end_pfn)),
                       DK_LLU(start), DK_LLU(end));
}

/* Pageblocks of a section, and what the caches hold of them. */
static bool check_with_caches(struct dk_check *c, const struct dk_section_view *s, uint32_t first,
                              uint32_t end, struct dk_tally *tally, struct dk_frame_set *cached)
{
    *tally = (struct dk_tally){0};
    return check_caches(c, &c->d->zones[s->zone], first, end, cached) &&
           dk_check_blocks(c, s, first, end, tally);
}

static bool is_same_set(const struct dk_frame_set *a, const struct dk_frame_set *b)
{
    return a->nr == b->nr && a->sum == b->sum;
}

/* Among pageblocks first ... end-1 of the section the used frames that belong to nobody are not
 * those of the caches: halve until one pageblock is left, and name it. Twice the work of one look
 * in all. */
static bool name_loose_block(struct dk_check *c, const struct dk_section_view *s, uint32_t first,
                             uint32_t end)
{
    struct dk_tally tally;
    struct dk_frame_set cached;

    while (end - first > 1) {
        uint32_t middle = first + (end - first) / 2;

        if (!check_with_caches(c, s, first, middle, &tally, &cached))
            return false;
        if (is_same_set(&tally.loose, &cached))
            first = middle;
        else
            end = middle;
    }
    if (!check_with_caches(c, s, first, end, &tally, &cached))
        return false;
    return dk_bad_block(
        c, first, "%llu used frames are neither allocated nor reserved, but the caches hold %llu%s",
        DK_LLU(tally.loose.nr), DK_LLU(cached.nr),
        tally.loose.nr == cached.nr ? ", not the same" : "");
}

/* Used frames that belong to nobody are those in caches. */
static bool check_loose(struct dk_check *c, const struct dk_section_view *s, uint32_t first,
                        uint32_t end)
{
    struct dk_tally tally;
    struct dk_frame_set cached;

    if (!check_with_caches(c, s, first, end, &tally, &cached))
        return false;
    return is_same_set(&tally.loose, &cached) || name_loose_block(c, s, first, end);
}

/* The same after the zone as a whole did not agree: in which section? */
static bool name_loose_section(struct dk_check *c, const struct dk_zone *zone)
{
    struct dk_section_view s;

    for (uint32_t n = 0; dk_section_nth(c->d, n, &s); n++)
        if (s.zone == zone->number &&
            !check_loose(c, &s, dk_section_first_block(&s), dk_section_end_block(&s)))
            return false;
    return dk_bad_zone(c, zone,
                       "its caches do not hold the frames that they held a moment ago: the "
                       "pool is not quiet");
}

static bool check_zone(struct dk_check *c, const struct dk_zone *zone)
{
    struct dk_tally tally = {0};
    struct dk_frame_set cached;
    struct flow flow = {0, 0};
    uint64_t present;

    if (!check_zone_span(c, zone))
        return false;
    for (uint32_t cpu = 0; cpu < c->d->nr_cpus; cpu++)
        if (!check_cache_set(c, zone, cpu, &flow))
            return false;
    if (!check_caches(c, zone, 0, DK_NONE, &cached) ||
        !check_zone_sections(c, zone, &tally, &present))
        return false;
    if (!is_same_set(&tally.loose, &cached))
        return name_loose_section(c, zone);
    return check_zone_rest(c, zone, &tally) && check_counters(c, zone, &tally, present) &&
           check_flow(c, zone, &tally, &flow);
}

/* ---- public -------------------------------------------------------------------------------- */

static void begin(struct dk_check *c, const struct deckle *d, char *buf, size_t buf_size)
{
    c->d = d;
    dk_text_begin(&c->text, buf, buf ? buf_size : 0, NULL, NULL);
}

static bool check_pool(struct dk_check *c)
{
    if (!dk_check_superblock(c) || !dk_check_tables(c) || !dk_check_sharing(c))
        return false;
    for (uint32_t i = 0; i < c->d->sb->nr_zones; i++)
        if (!check_zone(c, &c->d->zones[i]))
            return false;
    return true;
}

int deckle_validate(const struct deckle *d, char *buf, size_t buf_size)
{
    struct dk_check c;

    if (!d)
        return DECKLE_EINVAL;
    begin(&c, d, buf, buf_size);
    return check_pool(&c) ? DECKLE_OK : DECKLE_ECORRUPT;
}

/* The pageblocks of one section that [pfn, end_pfn) touches. */
static bool check_part(struct dk_check *c, const struct dk_section_view *s, uint64_t pfn,
                       uint64_t end_pfn)
{
    uint64_t skip = pfn > s->pfn ? pfn - s->pfn : 0;
    uint64_t last = dk_min64(end_pfn - s->pfn, s->nr) - 1;
    uint32_t first = (uint32_t)((s->first_fi + skip) / DK_BLOCK_FRAMES);
    uint32_t end = (uint32_t)((s->first_fi + last) / DK_BLOCK_FRAMES) + 1;

    return dk_check_section(c, s) && check_loose(c, s, first, end);
}

static bool check_range(struct dk_check *c, uint64_t pfn, uint64_t end_pfn)
{
    struct dk_section_view s;
    bool more;

    if (!dk_check_superblock(c))
        return false;
    more = dk_section_of_pfn(c->d, pfn, &s) || dk_section_from(c->d, pfn, &s);
    for (; more && s.pfn < end_pfn; more = dk_section_from(c->d, s.pfn + s.nr, &s))
        if (!check_part(c, &s, pfn, end_pfn))
            return false;
    return true;
}

int deckle_validate_range(const struct deckle *d, uint64_t pfn, uint64_t nr, char *buf,
                          size_t buf_size)
{
    struct dk_check c;

    if (!d)
        return DECKLE_EINVAL;
    begin(&c, d, buf, buf_size);
    if (pfn >= DK_PFN_LIMIT || !nr)
        return DECKLE_OK; /* there are no such frames */
    return check_range(&c, pfn, pfn + dk_min64(nr, DK_PFN_LIMIT - pfn)) ? DECKLE_OK
                                                                        : DECKLE_ECORRUPT;
}
