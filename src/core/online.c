/* SPDX-License-Identifier: MIT */
/*
 * deckle_online: from announced ranges to sections that can be allocated from.
 *
 *   Runs.    Ranges of a zone that follow one another (no range of another zone in between) and touch or
 *            share a pageblock become one section. A range that lies in a gap of a live section was taken
 *            out of it before: its frames are given back where they were.
 *   Places.  A section gets whole groups of blocks: where memory of the same zone was removed from one of
 *            its spans if that fits, else fresh ones. The fresh sections of a zone share one new span.
 *            Places and all capacities are settled before anything is written, so that a failure leaves
 *            nothing behind.
 *   Edges.   Zero means free, so only what is not free is written: frames of the outermost blocks that
 *            belong to no range, gaps, reserved frames; then W of the blocks they lie in, of whole CMA
 *            blocks and of the blocks that fill up a group; and the index shows what these W say.
 *   Order.   Frames are reachable when their span is linked to the zone (fresh) or their W says so (used
 *            again). Before that the section is live, so that whoever gets one can name it; counters of the
 *            zone come before too. Others allocate and free meanwhile.
 *
 * A block number never changes its zone: somebody may sleep with a reference to it for ever. For the same
 * reason W of a block that is used again goes on with the version it had.
 */
#include "base/div64.h"
#include "core/block.h"
#include "core/blockinfo.h"
#include "core/config.h"
#include "core/index.h"
#include "core/section.h"
#include "core/setup.h"
#include "core/zone.h"
#include "core/zone_internal.h"
#include "core/zonelist.h"

/* ---- runs --------------------------------------------------------------------------------- */

/* Ranges first … first + nr - 1, none of them online. */
struct run {
    uint64_t pfn, frames; /* from the first frame to the last, gaps included */
    uint32_t first, nr;
    uint32_t zone;
};

static bool continues(const struct dk_range *r, uint64_t end)
{
    return r->pfn == end || r->pfn >> DK_BLOCK_ORDER == (end - 1) >> DK_BLOCK_ORDER;
}

/* The run that begins at or after range *at, which moves behind it. */
static bool next_run(const struct deckle *d, uint32_t *at, struct run *run)
{
    uint32_t i = *at, nr = d->sb->nr_ranges;
    const struct dk_range *r = d->ranges;

    while (i < nr && r[i].online)
        i++;
    if (i == nr)
        return false;
    *run = (struct run){.pfn = r[i].pfn, .first = i, .zone = r[i].zone};
    uint64_t end = run->pfn;
    do
        end = r[i].pfn + r[i].nr;
    while (++i < nr && !r[i].online && r[i].zone == run->zone && continues(&r[i], end));
    run->frames = end - run->pfn;
    run->nr = i - run->first;
    *at = i;
    return true;
}

#define FOR_EACH_RUN(d, run)                                                                       \
    for (uint32_t at_ = 0, more_ = 1; more_;)                                                      \
        for (struct run run; (more_ = next_run(d, &at_, &run)) != 0;)

/* Inside a live section? To be asked before sections of this online go live. */
static bool is_in_gap(const struct deckle *d, const struct run *run)
{
    struct dk_section_view s;
    return dk_section_of_pfn(d, run->pfn, &s);
}

/* Blocks of the groups around frames. */
static uint32_t group_blocks(const struct deckle *d, uint64_t pfn, uint64_t frames)
{
    return (uint32_t)(dk_groups_around(pfn, frames, d->max_order) >> DK_BLOCK_ORDER);
}

static uint32_t run_blocks(const struct deckle *d, const struct run *run)
{
    return group_blocks(d, run->pfn, run->frames);
}

static uint32_t run_first_fi(const struct deckle *d, const struct run *run)
{
    uint64_t group = (uint64_t)1 << d->max_order;
    return (d->ranges[run->first].block << DK_BLOCK_ORDER) + (uint32_t)(run->pfn & (group - 1));
}

/* ---- places ------------------------------------------------------------------------------- */

/* Does [block, block + nr) meet [first, first + count)? Then *block moves behind it. */
static bool step_over(uint32_t *block, uint32_t nr, uint32_t first, uint32_t count)
{
    if (*block >= first + count || first >= *block + nr)
        return false;
    *block = first + count;
    return true;
}

/* Is the place taken by a section, or by a run that has its place already? */
static bool is_taken(const struct deckle *d, uint32_t *block, uint32_t nr)
{
    uint32_t group = 1u << (d->max_order - DK_BLOCK_ORDER);
    struct dk_section_view s;

    for (uint32_t n = 0; dk_section_nth(d, n, &s); n++) {
        uint32_t first = dk_section_first_block(&s) & ~(group - 1);
        if (step_over(block, nr, first, group_blocks(d, s.pfn, s.nr)))
            return true;
    }
    FOR_EACH_RUN(d, run)
        if (d->ranges[run.first].block != DK_NONE &&
            step_over(block, nr, d->ranges[run.first].block, run_blocks(d, &run)))
            return true;
    return false;
}

/* First block of a place for nr blocks in the spans that the zone has, DK_NONE if there is none. */
static uint32_t find_used_place(const struct deckle *d, uint32_t zone, uint32_t nr)
{
    DK_FOR_EACH_SPAN(d, &d->zones[zone], span) {
        uint32_t block = span->first_block, end = span->first_block + span->nr_blocks;
        while (block + nr <= end && is_taken(d, &block, nr))
            ;
        if (block + nr <= end)
            return block;
    }
    return DK_NONE;
}

static uint64_t align_words(uint64_t word)
{
    return dk_align_up(word, DK_LINE_WORDS);
}

/* Places in a new span at the end for the runs of a zone that have none; false: no room. */
static bool place_fresh(const struct deckle *d, uint32_t zone, uint32_t *next_block,
                        uint64_t *next_word, uint32_t *nr_spans)
{
    const struct dk_superblock *sb = d->sb;
    uint32_t first = *next_block;

    FOR_EACH_RUN(d, run) {
        struct dk_range *r = &d->ranges[run.first];
        if (run.zone != zone || r->block != DK_NONE || is_in_gap(d, &run))
            continue;
        uint32_t nr = run_blocks(d, &run);
        if (nr > sb->max_blocks - *next_block)
            return false;
        r->block = *next_block;
        *next_block += nr;
    }
    if (*next_block == first)
        return true;
    *next_word = align_words(*next_word) + dk_index_words(*next_block - first, sb->nr_trees);
    return *next_word <= sb->index_capacity && ++*nr_spans <= sb->max_spans;
}

static int place_runs(const struct deckle *d)
{
    const struct dk_superblock *sb = d->sb;
    uint32_t sections = dk_a32_load_relaxed(&sb->nr_sections), runs = 0;
    uint32_t next_block = sb->next_block, nr_spans = dk_a32_load_relaxed(&sb->nr_spans);
    uint64_t next_word = sb->next_index_word;

    FOR_EACH_RUN(d, run) {
        runs++;
        if (is_in_gap(d, &run))
            continue;
        sections++;
        if (run.frames <= DK_MAX_FRAMES)
            d->ranges[run.first].block = find_used_place(d, run.zone, run_blocks(d, &run));
        else
            return DECKLE_ENOSPC;
    }
    if (!runs)
        return DECKLE_EINVAL;
    if (sections > sb->max_sections)
        return DECKLE_ENOSPC;
    for (uint32_t zone = 0; zone < sb->nr_zones; zone++)
        if (!place_fresh(d, zone, &next_block, &next_word, &nr_spans))
            return DECKLE_ENOSPC;
    return DECKLE_OK;
}

static void forget_places(const struct deckle *d)
{
    for (uint32_t i = 0; i < d->sb->nr_ranges; i++)
        d->ranges[i].block = DK_NONE;
}

/* ---- edges -------------------------------------------------------------------------------- */

/* A section that is being made. */
struct build {
    struct deckle *d;
    struct dk_zone *zone;
    struct dk_span *span;
    const struct run *run;
    uint32_t first_fi;
    bool fresh;        /* its blocks were never used */
    uint64_t present, reserved, cma, free_cma;
};

static uint32_t fi_of(const struct build *b, uint64_t pfn)
{
    return b->first_fi + (uint32_t)(pfn - b->run->pfn);
}

void dk_state_fill(struct deckle *d, uint32_t fi, uint64_t nr, uint8_t state)
{
    for (uint64_t i = 0; i < nr; i++)
        dk_a8_store_relaxed(&d->state[fi + i], state);
}

static void set_bits(struct deckle *d, uint64_t fi, uint64_t nr)
{
    while (nr) {
        unsigned bit = (unsigned)(fi % DK_WORD_BITS);
        unsigned n = (unsigned)dk_min64(nr, DK_WORD_BITS - bit);
        dk_or(&d->lines[fi / DK_WORD_BITS], dk_mask(n) << bit);
        fi += n;
        nr -= n;
    }
}

/* Something to do with a stretch of frames that are not to be given out. */
typedef void edge_fn(struct build *b, uint64_t fi, uint64_t nr, uint8_t state);

static void reserved_edges(struct build *b, const struct dk_range *r, edge_fn *fn)
{
    const struct dk_superblock *sb = b->d->sb;

    for (uint32_t i = 0; i < sb->nr_reservations; i++) {
        const struct dk_reservation *v = &b->d->reservations[i];
        uint64_t first = dk_max64(v->pfn, r->pfn), end = dk_min64(v->pfn + v->nr, r->pfn + r->nr);
        if (first < end)
            fn(b, fi_of(b, first), end - first, DK_STATE_RESERVED);
    }
    /* The last index has no number of its own: DK_NONE. */
    if ((uint64_t)fi_of(b, r->pfn) + r->nr - 1 == DK_NONE)
        fn(b, DK_NONE, 1, DK_STATE_RESERVED);
}

static void for_each_edge(struct build *b, edge_fn *fn)
{
    uint64_t block = DK_BLOCK_FRAMES, from = dk_align_down(b->first_fi, block);
    const struct dk_range *r = &b->d->ranges[b->run->first];

    for (uint32_t i = 0; i < b->run->nr; i++, r++) {
        uint64_t fi = fi_of(b, r->pfn);
        if (fi > from)
            fn(b, from, fi - from, DK_STATE_HOLE);
        reserved_edges(b, r, fn);
        from = fi + r->nr;
    }
    if (from % block)
        fn(b, from, block - from % block, DK_STATE_HOLE);
}

static void mark_frames(struct build *b, uint64_t fi, uint64_t nr, uint8_t state)
{
    if (state == DK_STATE_RESERVED && dk_a8_load_relaxed(&b->d->state[fi]) != DK_STATE_RESERVED)
        b->reserved += nr;
    set_bits(b->d, fi, nr);
    dk_state_fill(b->d, (uint32_t)fi, nr, state);
}

/* ---- words -------------------------------------------------------------------------------- */

static bool is_cma_block(const struct build *b, uint32_t block)
{
    const struct dk_range *r = &b->d->ranges[b->run->first];
    uint64_t fi = (uint64_t)block << DK_BLOCK_ORDER;

    for (uint32_t i = 0; i < b->run->nr; i++, r++) {
        uint64_t first = fi_of(b, r->pfn);
        if ((r->flags & DECKLE_RANGE_CMA) && fi >= first && fi + DK_BLOCK_FRAMES <= first + r->nr)
            return true;
    }
    return false;
}

/* What W has to say of a block, version apart. */
static dk_word word_of(const struct build *b, uint32_t block)
{
    unsigned used = dk_line_used(dk_line(b->d, block));
    unsigned code = used ? dk_line_run_code(dk_line(b->d, block)) : 0;
    dk_word type = is_cma_block(b, block) ? DECKLE_CMA : DECKLE_MOVABLE;

    return dk_w_with_run_code(used | type << DK_W_TYPE_SHIFT, code);
}

static void init_fresh_block(struct build *b, uint32_t block)
{
    dk_word w = word_of(b, block);

    if (!w || dk_load_relaxed(&b->d->words[block]))
        return;
    if (dk_w_type(w) == DECKLE_CMA) {
        b->cma += DK_BLOCK_FRAMES;
        b->free_cma += dk_w_free(w);
    }
    dk_zone_init_block(b->d, b->span, block, w);
}

static void init_edge_blocks(struct build *b, uint64_t fi, uint64_t nr, uint8_t state)
{
    (void)state;
    for (uint64_t block = fi >> DK_BLOCK_ORDER; block << DK_BLOCK_ORDER < fi + nr; block++)
        init_fresh_block(b, (uint32_t)block);
}

static void init_cma_blocks(struct build *b)
{
    const struct dk_range *r = &b->d->ranges[b->run->first];

    for (uint32_t i = 0; i < b->run->nr; i++, r++)
        if (r->flags & DECKLE_RANGE_CMA)
            init_edge_blocks(b, fi_of(b, r->pfn), r->nr, 0);
}

/* Blocks of the groups outside the section, in a fresh place. */
static void close_group(struct build *b, uint32_t first, uint32_t end)
{
    for (uint32_t block = first; block < end; block++)
        dk_zone_init_block(b->d, b->span, block, DK_W_OFFLINE);
}

static void init_fresh_words(struct build *b)
{
    uint32_t place = b->d->ranges[b->run->first].block;
    uint32_t end = (uint32_t)((b->first_fi + b->run->frames - 1) >> DK_BLOCK_ORDER) + 1;

    close_group(b, place, b->first_fi >> DK_BLOCK_ORDER);
    close_group(b, end, place + run_blocks(b->d, b->run));
    for_each_edge(b, init_edge_blocks);
    init_cma_blocks(b);
}

/* Blocks that were used before: nobody but a finder that tests W looks at them while they are OFFLINE. */
static void clear_used_place(struct build *b)
{
    uint64_t first = dk_align_down(b->first_fi, DK_BLOCK_FRAMES);
    uint64_t end = dk_align_up(b->first_fi + b->run->frames, DK_BLOCK_FRAMES);

    for (uint64_t i = first / DK_WORD_BITS; i < end / DK_WORD_BITS; i++)
        dk_store_relaxed(&b->d->lines[i], 0);
    dk_state_fill(b->d, (uint32_t)first, end - first, 0);
}

static void open_used_place(struct build *b)
{
    uint32_t end = (uint32_t)((b->first_fi + b->run->frames - 1) >> DK_BLOCK_ORDER) + 1;
    struct dk_pcp_set *set = dk_stat_set(b->d, b->zone->number);

    for (uint32_t block = b->first_fi >> DK_BLOCK_ORDER; block < end; block++) {
        dk_aword *word = &b->d->words[block];
        dk_word said = word_of(b, block), from = dk_load_relaxed(word), to;
        do
            to = (from & ~(DK_W_VERSION_ONE - 1)) + DK_W_VERSION_ONE + said;
        while (!dk_cas(word, &from, to));
        if (dk_w_type(to) == DECKLE_CMA)
            dk_add_relaxed(&b->zone->cma, DK_BLOCK_FRAMES);
        dk_zone_account(b->zone, set, from, to);
        dk_index_move(b->d, b->span, block, from, to);
    }
}

/* ---- sections ----------------------------------------------------------------------------- */

static struct build begin_build(struct deckle *d, struct dk_span *span, const struct run *run,
                                bool fresh)
{
    struct build b = {.d = d, .zone = &d->zones[run->zone], .span = span, .run = run,
                      .fresh = fresh, .first_fi = run_first_fi(d, run)};

    for (uint32_t i = 0; i < run->nr; i++)
        b.present += d->ranges[run->first + i].nr;
    return b;
}

static void add_section(const struct build *b)
{
    struct dk_section_view v = {.pfn = b->run->pfn, .nr = b->run->frames, .first_fi = b->first_fi,
                                .zone = b->zone->number,
                                .span = (uint32_t)(b->span - b->d->spans),
                                .flags = DECKLE_RANGE_ZEROED};

    for (uint32_t i = 0; i < b->run->nr; i++)
        v.flags &= b->d->ranges[b->run->first + i].flags;
    dk_section_change(b->d, &v, 1, NULL, 0);
}

static void count_frames(const struct build *b)
{
    dk_add_relaxed(&b->zone->present, (dk_word)b->present);
    dk_add_relaxed(&b->zone->reserved, (dk_word)b->reserved);
    dk_add_relaxed(&b->zone->managed, (dk_word)(b->present - b->reserved));
}

static void build_section(struct deckle *d, struct dk_span *span, const struct run *run, bool fresh)
{
    struct build b = begin_build(d, span, run, fresh);

    if (!fresh)
        clear_used_place(&b);
    for_each_edge(&b, mark_frames);
    if (fresh)
        init_fresh_words(&b);
    add_section(&b);
    count_frames(&b);
    if (!fresh) {
        open_used_place(&b);
        return;
    }
    dk_add_relaxed(&b.zone->cma, (dk_word)b.cma);
    dk_add_relaxed(&b.zone->free_cma, (dk_word)b.free_cma);
    dk_add_relaxed(&b.zone->free, (dk_word)(b.present - b.reserved));
}

static void link_span(struct deckle *d, struct dk_zone *zone, uint32_t number)
{
    dk_a32 *link = &zone->first_span;

    while (dk_a32_load_relaxed(link))
        link = &d->spans[dk_a32_load_relaxed(link) - 1].next_in_zone;
    dk_a32_store_release(&d->sb->nr_spans, number + 1);
    dk_a32_exchange(link, number + 1);
}

/* Runs in a gap have no place. */
static bool is_placed_from(const struct deckle *d, const struct run *run, uint32_t block)
{
    uint32_t place = d->ranges[run->first].block;
    return place != DK_NONE && place >= block;
}

/* A span for the runs of a zone that have fresh places, and these runs. */
static void build_span(struct deckle *d, uint32_t zone)
{
    struct dk_superblock *sb = d->sb;
    uint32_t number = dk_a32_load_relaxed(&sb->nr_spans), first = sb->next_block, end = first;
    struct dk_span *span = &d->spans[number];

    FOR_EACH_RUN(d, run)
        if (run.zone == zone && is_placed_from(d, &run, first))
            end += run_blocks(d, &run);
    if (end == first)
        return;
    span->zone = zone;
    span->first_block = first;
    span->nr_blocks = end - first;
    span->index_word = align_words(sb->next_index_word);
    dk_index_init_span(d, span);
    sb->next_block = end;
    sb->next_index_word = span->index_word + dk_index_words(span->nr_blocks, sb->nr_trees);
    FOR_EACH_RUN(d, run)
        if (run.zone == zone && is_placed_from(d, &run, first))
            build_section(d, span, &run, true);
    link_span(d, &d->zones[zone], number);
}

/* ---- gaps --------------------------------------------------------------------------------- */

/* Give back frames of a live section that were holes, in aligned pieces: all inside one pageblock. */
static void give_frames(struct build *b, uint64_t fi, uint64_t nr)
{
    struct dk_pcp_set *set = dk_stat_set(b->d, b->zone->number);

    while (nr) {
        unsigned order = dk_ctz((dk_word)fi | DK_BLOCK_FRAMES / 2);
        while ((uint64_t)1 << order > nr)
            order--;
        uint32_t first = (uint32_t)fi;
        dk_zone_give(b->d, b->zone, set, order, &first, 1);
        fi += (uint64_t)1 << order;
        nr -= (uint64_t)1 << order;
    }
}

static void give_unreserved(struct build *b, uint64_t fi, uint64_t nr)
{
    const dk_a8 *state = b->d->state;
    uint64_t end = fi + nr;

    while (fi < end) {
        uint64_t first = fi;
        while (fi < end && dk_a8_load_relaxed(&state[fi]) != DK_STATE_RESERVED)
            fi++;
        give_frames(b, first, fi - first);
        while (fi < end && dk_a8_load_relaxed(&state[fi]) == DK_STATE_RESERVED)
            fi++;
    }
}

static void fill_gap(struct deckle *d, const struct run *run)
{
    struct dk_section_view s;

    if (!dk_section_of_pfn(d, run->pfn, &s))
        return;
    struct build b = begin_build(d, &d->spans[s.span], run, false);
    b.first_fi = s.first_fi + (uint32_t)(run->pfn - s.pfn);
    const struct dk_range *r = &d->ranges[run->first];
    for (uint32_t i = 0; i < run->nr; i++) {
        dk_state_fill(d, fi_of(&b, r[i].pfn), r[i].nr, 0);
        reserved_edges(&b, &r[i], mark_frames);
    }
    count_frames(&b);
    for (uint32_t i = 0; i < run->nr; i++)
        give_unreserved(&b, fi_of(&b, r[i].pfn), r[i].nr);
}

/* ---- online ------------------------------------------------------------------------------- */

static void update_bounds(struct deckle *d)
{
    struct dk_section_view s;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++) {
        uint64_t start = UINT64_MAX, end = 0;
        for (uint32_t n = 0; dk_section_nth(d, n, &s); n++) {
            if (s.zone != i)
                continue;
            start = dk_min64(start, s.pfn);
            end = dk_max64(end, s.pfn + s.nr);
        }
        dk_pfn_store(&d->zones[i].start_pfn, end ? start : 0);
        dk_pfn_store(&d->zones[i].end_pfn, end);
    }
}

void dk_memory_changed(struct deckle *d)
{
    update_bounds(d);
    dk_update_marks(d);
    dk_zonelists_rebuild(d);
    dk_section_update_main(d);
}

int deckle_online(struct deckle *d)
{
    if (!d)
        return DECKLE_EINVAL;
    int error = place_runs(d);
    if (error) {
        forget_places(d);
        return error;
    }
    uint32_t fresh = d->sb->next_block;
    for (uint32_t zone = 0; zone < d->sb->nr_zones; zone++)
        build_span(d, zone);
    FOR_EACH_RUN(d, run) {
        uint32_t block = d->ranges[run.first].block;
        if (block == DK_NONE)
            fill_gap(d, &run);
        else if (block < fresh)
            build_section(d, dk_span_of_block(d, &d->zones[run.zone], block), &run, false);
    }
    for (uint32_t i = 0; i < d->sb->nr_ranges; i++)
        d->ranges[i].online = 1;
    forget_places(d);
    dk_memory_changed(d);
    return DECKLE_OK;
}
