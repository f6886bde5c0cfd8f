/* SPDX-License-Identifier: MIT */
/*
 * A pool whose users are all dead, perhaps with the machine: every page of the metadata may be as
 * old as the publication of the pool, or of any time after it, each for itself. What set-up wrote
 * (superblock, ranges, reservations, sections, spans, zone numbers, zonelists) does not change
 * after publication and is checked by deckle_attach; everything else can be built from it and is:
 * since nobody lives, nobody holds anything, so all frames are free but holes and reserved ones.
 * Only the types of pageblocks, and isolation, are taken over from W where it makes sense.
 *
 * Until it is done the pool says so and others cannot attach; a recovery that is cut off is begun
 * again. Linear in the memory; exclusive.
 */
#include "base/div64.h"
#include "base/mem.h"
#include "core/block.h"
#include "core/client.h"
#include "core/index.h"
#include "core/pcp.h"
#include "core/section.h"
#include "core/setup.h"
#include "core/zone_internal.h"
#include "core/zonelist.h"

#include <deckle/shared.h>

struct recovery {
    struct deckle *d;
    struct deckle_recover_report report;
    uint64_t present, reserved;
    uint32_t isolated;
};

/* ---- clients, slots, cells ------------------------------------------------------------------- */

static bool somebody_lives(const struct deckle *d)
{
    for (uint32_t n = 1; n <= d->sb->max_clients && d->host.client_alive; n++) {
        uint64_t identity = dk_load_relaxed(&dk_client_at(d, n)->identity);
        if (identity && d->host.client_alive(d->host.ctx, n, identity))
            return true;
    }
    return false;
}

static void forget_clients(struct recovery *v)
{
    struct deckle *d = v->d;
    for (uint32_t n = 1; n <= d->sb->max_clients; n++) {
        struct dk_client *c = dk_client_at(d, n);
        v->report.clients += dk_load_relaxed(&c->identity) != 0;
        dk_store_relaxed(&c->word, dk_load_relaxed(&c->word) & ~DK_CLIENT_STATE);
        dk_store_relaxed(&c->identity, 0);
    }
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        v->report.operations += dk_load_relaxed(&d->intents[i]) != 0;
        dk_store_relaxed(&d->intents[i], 0);
    }
    dk_a32_store_relaxed(&d->sb->reaper, 0);
}

static void count_cell(void *ctx, dk_aword *cell, const struct dk_zone *zone, unsigned list)
{
    struct recovery *v = ctx;
    (void)zone;
    if (dk_load_relaxed(cell) & DK_CELL_FULL)
        v->report.cached += (uint64_t)1 << list / DK_PCP_TYPES;
}

/* Sets are plain memory here; sizes of the lists are set again with the marks. */
static void empty_caches(struct recovery *v)
{
    struct deckle *d = v->d;
    dk_cells_for_each(d, count_cell, v);
    for (uint32_t z = 0; z < d->sb->nr_zones; z++)
        for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
            memset((void *)dk_set(d, z, cpu), 0, d->set_bytes);
}

/* ---- frames ---------------------------------------------------------------------------------- */

static bool is_in_range(const struct deckle *d, uint64_t pfn, uint32_t zone)
{
    uint32_t i = dk_range_above(d, pfn);
    return i < d->sb->nr_ranges && d->ranges[i].pfn <= pfn && d->ranges[i].zone == zone &&
           d->ranges[i].online;
}

static bool is_reserved(const struct deckle *d, uint64_t pfn)
{
    uint32_t low = 0, high = d->sb->nr_reservations;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (d->reservations[mid].pfn + d->reservations[mid].nr <= pfn)
            low = mid + 1;
        else
            high = mid;
    }
    return low < d->sb->nr_reservations && d->reservations[low].pfn <= pfn;
}

/* What the state byte must be, pfn being what the frame's section would make of it. */
static uint8_t state_of(const struct recovery *v, const struct dk_section_view *s, uint64_t fi)
{
    uint64_t pfn = s->pfn + (fi - s->first_fi);
    if (fi - s->first_fi >= s->nr || !is_in_range(v->d, pfn, s->zone))
        return DK_STATE_HOLE;
    /* The last index has no number of its own: DK_NONE. */
    return is_reserved(v->d, pfn) || fi == DK_NONE ? DK_STATE_RESERVED : 0;
}

static void rebuild_frames(struct recovery *v, const struct dk_section_view *s, uint32_t block,
                           dk_word line[DK_LINE_WORDS])
{
    struct deckle *d = v->d;
    uint64_t first = (uint64_t)block * DK_BLOCK_FRAMES;
    for (unsigned i = 0; i < DK_BLOCK_FRAMES; i++) {
        uint64_t fi = first + i;
        uint8_t state = state_of(v, s, fi), was = dk_a8_load_relaxed(&d->state[fi]);
        v->report.frames += dk_state_is_head(was) ? (uint64_t)1 << dk_state_order(was) : 0;
        v->report.state_bytes += was != state && !dk_state_is_head(was) && !dk_state_is_free(was);
        v->report.state_bytes += was != state && state != 0;
        v->present += state != DK_STATE_HOLE;
        v->reserved += state == DK_STATE_RESERVED;
        if (was != state)
            dk_a8_store_relaxed(&d->state[fi], state);
        if (dk_a8_load_relaxed(&d->tags[fi]))
            dk_a8_store_relaxed(&d->tags[fi], 0);
        if (d->owners && dk_a32_load_relaxed(&d->owners[fi]))
            dk_a32_store_relaxed(&d->owners[fi], 0);
        if (state)
            line[i / DK_WORD_BITS] |= (dk_word)1 << i % DK_WORD_BITS;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* A W of zero is a fresh block, or a page that was lost; what set-up said of it holds for both. */
static unsigned type_of(const struct recovery *v, const struct dk_section_view *s, uint32_t block,
                        dk_word was)
{
    uint64_t fi = (uint64_t)block * DK_BLOCK_FRAMES, pfn = s->pfn + (fi - s->first_fi);
    if (was)
        return dk_w_type(was) <= DECKLE_CMA ? dk_w_type(was) : DECKLE_MOVABLE;
    uint32_t i = dk_range_above(v->d, pfn);
    if (i == v->d->sb->nr_ranges || !(v->d->ranges[i].flags & DECKLE_RANGE_CMA) ||
        v->d->ranges[i].pfn > pfn ||
        v->d->ranges[i].pfn + v->d->ranges[i].nr < pfn + DK_BLOCK_FRAMES)
        return DECKLE_MOVABLE;
    return DECKLE_CMA;
}

/* Did the index show the block as what its W said? */
static bool was_shown(const struct deckle *d, const struct dk_span *span, uint32_t block)
{
    uint32_t class = dk_w_class(dk_load_relaxed(&d->words[block]));
    return class == DK_NONE || dk_index_has(d, span, class, block - span->first_block);
}

static void rebuild_block(struct recovery *v, const struct dk_section_view *s, uint32_t block)
{
    struct deckle *d = v->d;
    dk_word line[DK_LINE_WORDS] = {0}, was = dk_load_relaxed(&d->words[block]), w;
    unsigned used = 0;
    rebuild_frames(v, s, block, line);
    for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
        dk_store_relaxed(&dk_line(d, block)[i], line[i]);
        used += dk_popcount(line[i]);
    }
    w = used | (dk_word)type_of(v, s, block, was) << DK_W_TYPE_SHIFT |
        (was & (DK_W_OFFLINE | DK_W_ISOLATED) & ~DK_W_OFFLINE);
    w = dk_w_with_run_code(w, used ? dk_line_run_code(dk_line(d, block)) : 0);
    v->report.blocks += ((was ^ w) & (DK_W_VERSION_ONE - 1) & ~DK_W_EPOCH) != 0;
    v->isolated += (w & DK_W_ISOLATED) != 0;
    dk_store_relaxed(&d->words[block], w);
}

/* Blocks of a span that no section touches are offline. */
static void rebuild_span(struct recovery *v, const struct dk_span *span)
{
    struct deckle *d = v->d;
    for (uint32_t block = span->first_block; block < span->first_block + span->nr_blocks; block++) {
        struct dk_section_view s;
        uint32_t first = block * DK_BLOCK_FRAMES;
        v->report.index += !was_shown(d, span, block);
        bool there = dk_section_of_fi(d, first, &s) ||
                     dk_section_of_fi(d, first + DK_BLOCK_FRAMES - 1, &s) ||
                     dk_section_inside(d, first, first + DK_BLOCK_FRAMES - 1, &s);
        if (there)
            rebuild_block(v, &s, block);
        else
            dk_store_relaxed(&d->words[block], DK_W_OFFLINE);
    }
}

/* ---- index and counters ---------------------------------------------------------------------- */

static void rebuild_index(struct recovery *v, struct dk_span *span)
{
    struct deckle *d = v->d;
    for (uint64_t i = 0; i < span->index_words; i++)
        dk_store_relaxed(&d->index[span->index_word + i], 0);
    dk_index_init_span(d, span);
    for (uint32_t b = 0; b < span->nr_blocks; b++) {
        dk_word w = dk_load_relaxed(&d->words[span->first_block + b]);
        dk_index_move(d, span, span->first_block + b, 0, w);
    }
}

static void set_number(struct recovery *v, dk_aword *number, uint64_t value)
{
    v->report.counters += dk_load_relaxed(number) != (dk_word)value;
    dk_store_relaxed(number, (dk_word)value);
}

/* The sums that the counters must be, into one of the places for them. */
static void sum_up(const struct deckle *d, struct dk_zone *zone, unsigned epoch)
{
    memset(&zone->counts[epoch], 0, sizeof zone->counts[epoch]);
    DK_FOR_EACH_SPAN(d, zone, span)
    for (uint32_t b = 0; b < span->nr_blocks; b++)
        dk_zone_account_in(d, zone, dk_set(d, zone->number, 0), epoch, DK_W_OFFLINE,
                           dk_load_relaxed(&d->words[span->first_block + b]));
}

/* Did they agree with the words as they were found? */
static void compare_counters(struct recovery *v, struct dk_zone *zone)
{
    unsigned unused = (dk_a32_load_relaxed(&v->d->sb->epoch) + 1) % DK_EPOCHS;
    sum_up(v->d, zone, unused);
    for (unsigned i = 0; i < DK_NR_COUNTS; i++)
        v->report.counters += dk_load_relaxed(&zone->counts[unused].of[i]) !=
                              dk_zone_count(v->d, zone, (enum dk_count)i);
}

static void rebuild_zone(struct recovery *v, struct dk_zone *zone)
{
    struct deckle *d = v->d;
    v->present = v->reserved = v->isolated = 0;
    compare_counters(v, zone);
    DK_FOR_EACH_SPAN(d, zone, span)
    rebuild_span(v, span);
    DK_FOR_EACH_SPAN(d, zone, span)
    rebuild_index(v, span);
    sum_up(d, zone, 0);
    set_number(v, &zone->present, v->present);
    set_number(v, &zone->reserved, v->reserved);
    set_number(v, &zone->managed, v->present - v->reserved);
    dk_a32_store_relaxed(&zone->stopped, v->isolated);
}

/* ---- together -------------------------------------------------------------------------------- */

int deckle_recover(struct deckle *d, struct deckle_recover_report *report)
{
    struct recovery v = {.d = d};
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients || d->client ||
        (report && report->size < sizeof *report))
        return DECKLE_EINVAL;
    if (d->read_only)
        return DECKLE_EPERM;
    if (somebody_lives(d))
        return DECKLE_EBUSY;
    dk_a32_exchange(&d->sb->published, DK_BEING_RECOVERED);
    forget_clients(&v);
    empty_caches(&v);
    for (uint32_t z = 0; z < d->sb->nr_zones; z++)
        rebuild_zone(&v, &d->zones[z]);
    dk_a32_store_relaxed(&d->sb->epoch, 0);
    dk_a32_store_relaxed(&d->sb->epoch_settled, 0);
    dk_a32_store_relaxed(&d->sb->counts_wrong, 0);
    dk_a32_store_relaxed(&d->sb->abandoned, 0);
    dk_a32_store_relaxed(&d->sb->deaths, 0);
    dk_memory_changed(d);
    dk_a32_exchange(&d->sb->published, DK_PUBLISHED);
    if (report) {
        v.report.size = report->size;
        *report = v.report;
    }
    return DECKLE_OK;
}
