/* SPDX-License-Identifier: MIT */
/*
 * deckle_online: from announced ranges to sections that can be allocated from.
 *
 *   Runs.    Ranges of a zone that follow one another (no range of another zone in between) and
 *            touch or share a pageblock become one section.
 *   Places.  A section gets whole groups of blocks. First choice is where it fits to a section that
 *            the zone has or had: memory that was removed and comes again gets its old place,
 *            closes gaps, and is one section with its neighbours. Then any place in the zone's
 *            spans that removed memory left. Else fresh blocks; the fresh sections of a zone share
 *            one new span. Places and all capacities are settled before anything is written, so
 *            that a failure leaves nothing behind.
 *   Edges.   Zero means free, so only what is not free is written: frames of the outermost blocks
 *            that belong to no range, gaps, reserved frames; then W of the blocks they lie in, of
 *            whole CMA blocks and of the blocks that fill up a group; and the index shows what
 *            these W say. Where memory was before, everything is written: all holes at first, then
 *            the frames of the ranges appear, in OFFLINE blocks by a new W, in blocks that others
 *            use by being given.
 *   Order.   Frames are reachable when their span is linked to the zone (fresh) or their W says so
 *            (used before). Ahead of that the section is live, so that whoever gets one can name
 *            it; counters of the zone come before too. Others allocate and free meanwhile.
 *
 * A block number never changes its zone: somebody may sleep with a reference to it for ever. For
 * the same reason W of a block that is used again goes on with the version it had.
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

/* Do two stretches of one zone belong into one section? The second begins behind the end of the
 * first, or in it. */
static bool joins(uint64_t end, uint64_t pfn)
{
    return pfn <= end || pfn >> DK_BLOCK_ORDER == (end - 1) >> DK_BLOCK_ORDER;
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
    while (++i < nr && !r[i].online && r[i].zone == run->zone && joins(end, r[i].pfn));
    run->frames = end - run->pfn;
    run->nr = i - run->first;
    *at = i;
    return true;
}

#define FOR_EACH_RUN(d, name)                                                                      \
    for (uint32_t at_ = 0, more_ = 1; more_;)                                                      \
        for (struct run name; (more_ = next_run(d, &at_, &name)) != 0;)

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

/* pfn 0 would have this frame index: what all frames of a section have in common (modulo 2^64). */
static uint64_t bias_of(uint64_t fi, uint64_t pfn)
{
    return fi - pfn;
}

/* A place that is asked about: blocks block … block + nr - 1, whole groups. */
struct place {
    uint32_t block, nr;
};

static bool overlaps(const struct place *p, uint32_t first, uint32_t end)
{
    return p->block < end && first < p->block + p->nr;
}

/* Is there a range between the run and a section that has another bias than they? It is enough to
 * look at the run's neighbour: what comes behind it was asked the same when the neighbour got its
 * place. */
static bool is_apart(const struct deckle *d, const struct run *run, const struct dk_section_view *s)
{
    const struct dk_range *r = &d->ranges[run->first];
    const struct dk_range *neighbour = s->pfn < run->pfn ? r - 1 : r + run->nr;
    struct dk_section_view v;

    if (neighbour->pfn - s->pfn < s->nr)
        return false;
    return !neighbour->online || !dk_section_of_pfn(d, neighbour->pfn, &v) ||
           bias_of(v.first_fi, v.pfn) != bias_of(s->first_fi, s->pfn);
}

/*
 * Does a section forbid the place? Its groups are its own; only what has the same bias may come in
 * between. Two stretches of the same bias that share a pageblock must become one section, which
 * they cannot around a range that is elsewhere. Returns the first block to try instead, 0 if not
 * forbidden.
 */
static uint32_t forbids(const struct deckle *d, const struct dk_section_view *s,
                        const struct run *run, const struct place *p, uint64_t bias)
{
    uint32_t first = dk_section_first_block(s), end = dk_section_end_block(s);
    uint32_t group = 1u << (d->max_order - DK_BLOCK_ORDER);

    if (bias != bias_of(s->first_fi, s->pfn)) {
        end = (end + group - 1) & ~(group - 1);
        return overlaps(p, first & ~(group - 1), end) ? end : 0;
    }
    uint64_t fi = run->pfn + bias;
    struct place exact = {(uint32_t)(fi >> DK_BLOCK_ORDER), 0};
    exact.nr = (uint32_t)((fi + run->frames - 1) >> DK_BLOCK_ORDER) + 1 - exact.block;
    return overlaps(&exact, first, end) && is_apart(d, run, s) ? p->block + group : 0;
}

/* Is the place taken by a section, or by a run that has its place already? 0, or as forbids(). */
static uint32_t is_taken(const struct deckle *d, const struct run *run, const struct place *p,
                         uint64_t bias)
{
    struct dk_section_view s;
    uint32_t next = 0;

    for (uint32_t n = 0; !next && dk_section_nth(d, n, &s); n++)
        next = forbids(d, &s, run, p, bias);
    FOR_EACH_RUN(d, other) {
        s = (struct dk_section_view){.pfn = other.pfn, .nr = other.frames};
        if (next || d->ranges[other.first].block == DK_NONE)
            continue;
        s.first_fi = run_first_fi(d, &other);
        next = forbids(d, &s, run, p, bias);
    }
    return next;
}

static bool is_in_span(const struct place *p, const struct dk_span *span)
{
    return p->block >= span->first_block && p->nr <= span->nr_blocks &&
           p->block - span->first_block <= span->nr_blocks - p->nr;
}

static uint64_t group_start(const struct deckle *d, uint64_t pfn)
{
    return dk_align_down(pfn, (uint64_t)1 << d->max_order);
}

/* The place where the run has this bias, DK_NONE if it is not free or not in the span. */
static uint32_t place_with(const struct deckle *d, const struct run *run,
                           const struct dk_span *span, uint64_t bias)
{
    uint64_t start = group_start(d, run->pfn) + bias;
    struct place p = {(uint32_t)(start >> DK_BLOCK_ORDER), run_blocks(d, run)};

    return start < DK_MAX_FRAMES && is_in_span(&p, span) && !is_taken(d, run, &p, bias) ? p.block
                                                                                       : DK_NONE;
}

/* Where it would go on with a section. */
static uint32_t place_beside(const struct deckle *d, const struct run *run,
                             const struct dk_section_view *s)
{
    if (s->zone != run->zone)
        return DK_NONE;
    return place_with(d, run, &d->spans[s->span], bias_of(s->first_fi, s->pfn));
}

/*
 * In a gap of a section; there no other place will do, since two sections must not contain the same
 * pfn. Or beside a section. Or where it was before: slots of sections keep what they held last.
 */
static uint32_t find_old_place(const struct deckle *d, const struct run *run)
{
    uint32_t block = DK_NONE;
    struct dk_section_view s;

    if (dk_section_of_pfn(d, run->pfn, &s))
        return place_beside(d, run, &s);
    for (uint32_t n = 0; block == DK_NONE && dk_section_nth(d, n, &s); n++)
        if (s.pfn < run->pfn ? joins(s.pfn + s.nr, run->pfn) : joins(run->pfn + run->frames, s.pfn))
            block = place_beside(d, run, &s);
    for (uint32_t slot = 0; block == DK_NONE && slot < d->sb->max_sections; slot++)
        if (dk_section_last_in(d, slot, &s) && s.pfn < run->pfn + run->frames &&
            run->pfn < s.pfn + s.nr)
            block = place_beside(d, run, &s);
    return block;
}

/* The first free place in the spans that the zone has. */
static uint32_t find_any_place(const struct deckle *d, const struct run *run)
{
    DK_FOR_EACH_SPAN(d, &d->zones[run->zone], span) {
        struct place p = {span->first_block, run_blocks(d, run)};
        while (is_in_span(&p, span)) {
            uint64_t first = (uint64_t)p.block << DK_BLOCK_ORDER;
            uint32_t next = is_taken(d, run, &p, bias_of(first, group_start(d, run->pfn)));
            if (!next)
                return p.block;
            p.block = next;
        }
    }
    return DK_NONE;
}

static uint32_t find_used_place(const struct deckle *d, const struct run *run)
{
    if (!dk_a32_load_relaxed(&d->zones[run->zone].first_span))
        return DK_NONE;
    uint32_t block = find_old_place(d, run);
    return block == DK_NONE ? find_any_place(d, run) : block;
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
        if (run.zone != zone || r->block != DK_NONE)
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
        sections++;
        if (run.frames > DK_MAX_FRAMES)
            return DECKLE_ENOSPC;
        d->ranges[run.first].block = find_used_place(d, &run);
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
    uint32_t opened;   /* block that build_used has opened, + 1 */
    uint64_t present, reserved, cma, free_cma;
};

static uint32_t fi_of(const struct build *b, uint64_t pfn)
{
    return b->first_fi + (uint32_t)(pfn - b->run->pfn);
}

static uint32_t first_block(const struct build *b)
{
    return b->first_fi >> DK_BLOCK_ORDER;
}
static uint32_t end_block(const struct build *b)
{
    return (uint32_t)((b->first_fi + b->run->frames - 1) >> DK_BLOCK_ORDER) + 1;
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

    close_group(b, place, first_block(b));
    close_group(b, end_block(b), place + run_blocks(b->d, b->run));
    for_each_edge(b, init_edge_blocks);
    init_cma_blocks(b);
}

/* ---- sections ----------------------------------------------------------------------------- */

static struct build begin_build(struct deckle *d, struct dk_span *span, const struct run *run)
{
    struct build b = {.d = d, .zone = &d->zones[run->zone], .span = span, .run = run,
                      .first_fi = run_first_fi(d, run)};

    for (uint32_t i = 0; i < run->nr; i++)
        b.present += d->ranges[run->first + i].nr;
    return b;
}

static struct dk_section_view section_of(const struct build *b)
{
    struct dk_section_view v = {.pfn = b->run->pfn, .nr = b->run->frames, .first_fi = b->first_fi,
                                .zone = b->zone->number,
                                .span = (uint32_t)(b->span - b->d->spans),
                                .flags = DECKLE_RANGE_ZEROED};

    for (uint32_t i = 0; i < b->run->nr; i++)
        v.flags &= b->d->ranges[b->run->first + i].flags;
    return v;
}

/* The section of the run goes live, as one with the sections beside it that have the same bias. */
static void join_section(const struct build *b)
{
    struct dk_section_view v = section_of(b), s;
    uint32_t drop[2], nr_drop = 0;

    for (uint32_t n = 0; nr_drop < 2 && dk_section_nth(b->d, n, &s); n++) {
        bool before = s.pfn < v.pfn;
        uint64_t end = dk_max64(s.pfn + s.nr, v.pfn + v.nr);

        if (s.span != v.span || bias_of(s.first_fi, s.pfn) != bias_of(v.first_fi, v.pfn) ||
            !(before ? joins(s.pfn + s.nr, v.pfn) : joins(v.pfn + v.nr, s.pfn)))
            continue;
        v.first_fi = before ? s.first_fi : v.first_fi;
        v.pfn = before ? s.pfn : v.pfn;
        v.nr = end - v.pfn;
        v.flags &= s.flags;
        drop[nr_drop++] = s.slot;
    }
    dk_section_change(b->d, &v, 1, drop, nr_drop);
}

static void count_frames(const struct build *b)
{
    dk_add_relaxed(&b->zone->present, (dk_word)b->present);
    dk_add_relaxed(&b->zone->reserved, (dk_word)b->reserved);
    dk_add_relaxed(&b->zone->managed, (dk_word)(b->present - b->reserved));
}

/* In a change of the section table; *free_slot as there. */
static void build_fresh(struct deckle *d, struct dk_span *span, const struct run *run,
                        uint32_t *free_slot)
{
    struct build b = begin_build(d, span, run);
    struct dk_section_view v = section_of(&b);

    for_each_edge(&b, mark_frames);
    init_fresh_words(&b);
    dk_section_add(d, &v, free_slot);
    count_frames(&b);
    dk_aword *count = b.zone->counts[0].of; /* shared pools are not published yet */
    dk_add_relaxed(&count[DK_COUNT_CMA], (dk_word)b.cma);
    dk_add_relaxed(&count[DK_COUNT_FREE_CMA], (dk_word)b.free_cma);
    dk_add_relaxed(&count[DK_COUNT_FREE], (dk_word)(b.present - b.reserved));
}

/* ---- where memory was before ------------------------------------------------------------- */

static bool is_offline(const struct build *b, uint32_t block)
{
    return dk_load_relaxed(&b->d->words[block]) & DK_W_OFFLINE;
}

/* Nobody but a finder that tests W looks at OFFLINE blocks: make all their frames holes, as those
 * of the run are in blocks that others use. */
static void fill_with_holes(struct build *b)
{
    for (uint32_t block = first_block(b); block < end_block(b); block++) {
        if (!is_offline(b, block))
            continue;
        set_bits(b->d, (uint64_t)block << DK_BLOCK_ORDER, DK_BLOCK_FRAMES);
        dk_state_fill(b->d, block << DK_BLOCK_ORDER, DK_BLOCK_FRAMES, DK_STATE_HOLE);
    }
}

/* Clear the bits of the frames that are to be free; W from OFFLINE to what the line says then. */
static void open_block(struct build *b, uint32_t block)
{
    struct deckle *d = b->d;
    uint32_t fi = block << DK_BLOCK_ORDER;
    dk_aword *word = &d->words[block];

    for (unsigned f = 0; f < DK_BLOCK_FRAMES; f++)
        if (dk_state_is_free(dk_a8_load_relaxed(&d->state[fi + f])))
            dk_and(&dk_line(d, block)[f / DK_WORD_BITS], ~((dk_word)1 << f % DK_WORD_BITS));
    dk_word said = word_of(b, block), from = dk_load_relaxed(word), to;
    do
        to = (from & ~(DK_W_VERSION_ONE - 1)) + DK_W_VERSION_ONE + said;
    while (!dk_cas(word, &from, to));
    dk_zone_account_in(d, b->zone, dk_stat_set(d, b->zone->number), 0, from, to);
    dk_index_move(d, b->span, block, from, to);
}

static bool has_reserved(const dk_a8 *state, uint64_t fi, uint64_t nr)
{
    for (uint64_t i = fi; i < fi + nr; i++)
        if (dk_a8_load_relaxed(&state[i]) == DK_STATE_RESERVED)
            return true;
    return false;
}

/* In a block that others use: give back those of the run's frames fi … end - 1 that are not
 * reserved, in aligned pieces. What others have of the block is no business of this. */
static void give_frames(struct build *b, uint64_t fi, uint64_t end)
{
    struct dk_pcp_set *set = dk_stat_set(b->d, b->zone->number);
    const dk_a8 *state = b->d->state;

    while (fi < end) {
        uint32_t first = (uint32_t)fi;
        unsigned order = 0;

        if (dk_a8_load_relaxed(&state[fi]) == DK_STATE_RESERVED) {
            fi++;
            continue;
        }
        while (order < DK_BLOCK_ORDER - 1 && !(fi >> order & 1) && fi + (2u << order) <= end &&
               !has_reserved(state, fi + (1u << order), 1u << order))
            order++;
        dk_zone_give(b->d, b->zone, set, order, &first, 1);
        fi += 1u << order;
    }
}

static void open_range(struct build *b, const struct dk_range *r)
{
    uint64_t fi = fi_of(b, r->pfn), end = fi + r->nr;

    while (fi < end) {
        uint32_t block = (uint32_t)(fi >> DK_BLOCK_ORDER);
        uint64_t stop = dk_min64(end, ((uint64_t)block + 1) << DK_BLOCK_ORDER);

        if (b->opened != block + 1 && is_offline(b, block)) {
            open_block(b, block);
            b->opened = block + 1; /* with all frames of all ranges that lie in it */
        } else if (b->opened != block + 1) {
            give_frames(b, fi, stop);
        }
        fi = stop;
    }
}

static void build_used(struct deckle *d, struct dk_span *span, const struct run *run)
{
    struct build b = begin_build(d, span, run);
    const struct dk_range *r = &d->ranges[run->first];

    fill_with_holes(&b);
    for (uint32_t i = 0; i < run->nr; i++) {
        dk_state_fill(d, fi_of(&b, r[i].pfn), r[i].nr, 0);
        reserved_edges(&b, &r[i], mark_frames);
    }
    join_section(&b);
    count_frames(&b);
    for (uint32_t i = 0; i < run->nr; i++)
        open_range(&b, &r[i]);
}

/* ---- spans -------------------------------------------------------------------------------- */

static void link_span(struct deckle *d, struct dk_zone *zone, uint32_t number)
{
    dk_a32 *link = &zone->first_span;

    while (dk_a32_load_relaxed(link))
        link = &d->spans[dk_a32_load_relaxed(link) - 1].next_in_zone;
    dk_a32_store_release(&d->sb->nr_spans, number + 1);
    dk_a32_exchange(link, number + 1);
}

/* A span for the runs of a zone that have fresh places, and these runs. */
static void build_span(struct deckle *d, uint32_t zone)
{
    struct dk_superblock *sb = d->sb;
    uint32_t number = dk_a32_load_relaxed(&sb->nr_spans), first = sb->next_block, end = first;
    uint32_t free_slot = 0;
    struct dk_span *span = &d->spans[number];

    FOR_EACH_RUN(d, run)
        if (run.zone == zone && d->ranges[run.first].block >= first)
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
    dk_section_begin(d);
    FOR_EACH_RUN(d, run)
        if (run.zone == zone && d->ranges[run.first].block >= first)
            build_fresh(d, span, &run, &free_slot);
    dk_section_end(d);
    link_span(d, &d->zones[zone], number);
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
    if (dk_a32_load_acquire(&d->sb->published))
        return DECKLE_ENOTSUP;
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
        if (block < fresh)
            build_used(d, dk_span_of_block(d, &d->zones[run.zone], block), &run);
    }
    for (uint32_t i = 0; i < d->sb->nr_ranges; i++)
        d->ranges[i].online = 1;
    forget_places(d);
    dk_memory_changed(d);
    return DECKLE_OK;
}
