/* SPDX-License-Identifier: MIT */
/*
 * Validation of what is not per frame: the superblock and the handle first, since all other checks
 * read through them; then zones, spans, sections, ranges and reservations. Tables are short; each
 * is walked once, with at most a binary search per entry.
 */
#include "core/validate.h"

#include "core/config.h"
#include "core/index.h"
#include "core/stats.h"
#include "core/zonelist.h"

/* ---- superblock ---------------------------------------------------------------------------- */

static bool check_number(struct dk_check *c, const char *name, uint64_t value, uint64_t low,
                         uint64_t high)
{
    if (value >= low && value <= high)
        return true;
    return dk_bad_pool(c, "%s is %llu, not in %llu ... %llu", name, DK_LLU(value), DK_LLU(low),
                       DK_LLU(high));
}

static bool check_numbers(struct dk_check *c)
{
    const struct dk_superblock *sb = c->d->sb;

    if (sb->magic != DK_META_MAGIC)
        return dk_bad_pool(c, "the superblock begins with 0x%llx, not with 0x%llx",
                           DK_LLU(sb->magic), DK_LLU(DK_META_MAGIC));
    return check_number(c, "version", sb->version, DK_META_VERSION, DK_META_VERSION) &&
           check_number(c, "word_bits", sb->word_bits, DK_WORD_BITS, DK_WORD_BITS) &&
           check_number(c, "page_shift", sb->page_shift, 10, 30) &&
           check_number(c, "max_order", sb->max_order, DK_BLOCK_ORDER, DECKLE_MAX_ORDER_LIMIT) &&
           check_number(c, "nr_cpus", sb->nr_cpus, 1, DECKLE_MAX_CPUS) &&
           check_number(c, "nr_nodes", sb->nr_nodes, 1, DECKLE_MAX_NODES) &&
           check_number(c, "kind of caches", sb->kind, DK_PCP_NONE, DK_PCP_RSEQ) &&
           check_number(c, "nr_trees", sb->nr_trees, DK_GROUP_BASE + sb->max_order - DK_BLOCK_ORDER,
                        DK_GROUP_BASE + sb->max_order - DK_BLOCK_ORDER) &&
           check_number(c, "max_blocks", sb->max_blocks, 1, DK_MAX_FRAMES >> DK_BLOCK_ORDER) &&
           check_number(c, "max_zones", sb->max_zones, 1, DECKLE_MAX_ZONES) &&
           check_number(c, "nr_zones", sb->nr_zones, 1, sb->max_zones) &&
           check_number(c, "nr_ranges", sb->nr_ranges, 0, sb->max_ranges) &&
           check_number(c, "nr_reservations", sb->nr_reservations, 0, sb->max_reservations) &&
           check_number(c, "nr_spans", dk_a32_load_relaxed(&sb->nr_spans), 0, sb->max_spans) &&
           check_number(c, "nr_sections", dk_a32_load_relaxed(&sb->nr_sections), 0,
                        sb->max_sections) &&
           check_number(c, "next_block", sb->next_block, 0, sb->max_blocks) &&
           check_number(c, "index_capacity", sb->index_capacity, 0, (uint64_t)1 << 40) &&
           check_number(c, "next_index_word", sb->next_index_word, 0, sb->index_capacity);
}

/* The array lies behind the one before (that ends at *end) and inside the metadata, and the handle
 * knows where it is. */
static bool check_array(struct dk_check *c, const char *name, uint64_t at, uint64_t count,
                        uint64_t size, const void *address, uint64_t *end)
{
    const struct dk_superblock *sb = c->d->sb;
    uint64_t bytes = count * size; /* both are bounded: no overflow */

    if (at < *end || at % DK_LINE_BYTES || at > sb->total_bytes || bytes > sb->total_bytes - at)
        return dk_bad_pool(
            c,
            "the array of %s, %llu bytes at %llu, is not between %llu and the end of "
            "the metadata at %llu",
            name, DK_LLU(bytes), DK_LLU(at), DK_LLU(*end), DK_LLU(sb->total_bytes));
    if (address != (const unsigned char *)sb + at)
        return dk_bad_pool(c, "the handle does not point to the array of %s", name);
    *end = at + bytes;
    return true;
}

static bool check_arrays(struct dk_check *c)
{
    const struct deckle *d = c->d;
    const struct dk_superblock *sb = d->sb;
    const struct dk_offsets *at = &sb->at;
    uint64_t nodes = sb->nr_nodes, blocks = sb->max_blocks, frames = blocks << DK_BLOCK_ORDER;
    uint64_t end = sizeof(*sb);

    return check_array(c, "ranges", at->ranges, sb->max_ranges, sizeof(*d->ranges), d->ranges,
                       &end) &&
           check_array(c, "reservations", at->reservations, sb->max_reservations,
                       sizeof(*d->reservations), d->reservations, &end) &&
           check_array(c, "sections", at->sections, sb->max_sections, sizeof(*d->sections),
                       d->sections, &end) &&
           check_array(c, "sections by pfn", at->by_pfn, sb->max_sections, sizeof(*d->by_pfn),
                       d->by_pfn, &end) &&
           check_array(c, "sections by frame", at->by_fi, sb->max_sections, sizeof(*d->by_fi),
                       d->by_fi, &end) &&
           check_array(c, "spans", at->spans, sb->max_spans, sizeof(*d->spans), d->spans, &end) &&
           check_array(c, "zones", at->zones, sb->max_zones, sizeof(*d->zones), d->zones, &end) &&
           check_array(c, "zonelists", at->zonelists, 4 * nodes, sizeof(*d->zonelists),
                       d->zonelists, &end) &&
           check_array(c, "distances", at->distances, nodes * nodes, 1, d->distances, &end) &&
           check_array(c, "CPU nodes", at->cpu_nodes, sb->nr_cpus, 1, d->cpu_nodes, &end) &&
           check_array(c, "caches", at->pcp, (uint64_t)sb->max_zones * sb->nr_cpus, sb->slot_bytes,
                       d->pcp, &end) &&
           check_array(c, "block words", at->words, blocks, sizeof(dk_aword), d->words, &end) &&
           check_array(c, "lines", at->lines, blocks, DK_LINE_BYTES, d->lines, &end) &&
           check_array(c, "index words", at->index, sb->index_capacity, sizeof(dk_aword), d->index,
                       &end) &&
           check_array(c, "state bytes", at->state, frames, 1, d->state, &end) &&
           (!d->descriptors ||
            check_array(c, "descriptors", at->descriptors, frames, 8, d->descriptors, &end)) &&
           (!d->owners ||
            check_array(c, "owner tags", at->owners, frames, sizeof(dk_a32), d->owners, &end)) &&
           (!d->clients ||
            (check_array(c, "clients", at->clients, sb->max_clients, sizeof(*d->clients),
                         d->clients, &end) &&
             check_array(c, "intents", at->intents, sb->nr_intents, sizeof(dk_aword), d->intents,
                         &end) &&
             check_array(c, "client tags", at->tags, frames, 1, d->tags, &end)));
}

static bool check_handle(struct dk_check *c)
{
    const struct deckle *d = c->d;
    const struct dk_superblock *sb = d->sb;
    bool descriptors = sb->features & DECKLE_FEATURE_DESCRIPTORS;
    bool owners = sb->features & DECKLE_FEATURE_OWNER_TAGS;

    if (d->nr_cpus != sb->nr_cpus || d->max_order != sb->max_order || d->kind != sb->kind)
        return dk_bad_pool(
            c,
            "the handle knows %u CPUs, order %u and caches of kind %u, the superblock "
            "%u, %u and %u",
            d->nr_cpus, d->max_order, d->kind, sb->nr_cpus, sb->max_order, sb->kind);
    if (d->set_bytes > sb->slot_bytes || d->set_bytes < sizeof(struct dk_pcp_set))
        return dk_bad_pool(
            c,
            "a cache set has %u bytes in the handle, %llu in the superblock, at least "
            "%llu are needed",
            d->set_bytes, DK_LLU(sb->slot_bytes), DK_LLU(sizeof(struct dk_pcp_set)));
    if (descriptors != (d->descriptors != NULL) || owners != (d->owners != NULL))
        return dk_bad_pool(
            c,
            "the features 0x%x say %s descriptors and %s owner tags, the handle does "
            "not",
            sb->features, descriptors ? "with" : "without", owners ? "with" : "without");
    return true;
}

bool dk_check_superblock(struct dk_check *c)
{
    return check_numbers(c) && check_handle(c) && check_arrays(c);
}

/* ---- zones --------------------------------------------------------------------------------- */

static bool check_zone_table(struct dk_check *c)
{
    const struct dk_superblock *sb = c->d->sb;
    uint32_t named = 0;

    for (uint32_t i = 0; i < sb->nr_zones; i++) {
        const struct dk_zone *z = &c->d->zones[i];

        if (z->number != i || z->node >= sb->nr_nodes || z->type >= DECKLE_NR_ZONE_TYPES)
            return dk_bad_pool(c, "zone %u has number %u, node %u of %u and type %u of %u", i,
                               z->number, z->node, sb->nr_nodes, z->type,
                               (unsigned)DECKLE_NR_ZONE_TYPES);
        if (dk_zone_number(c->d, z->node, z->type) != i)
            return dk_bad_zone(c, z, "it is zone %u, but its place is taken by zone %u", i,
                               dk_zone_number(c->d, z->node, z->type));
    }
    for (uint32_t node = 0; node < DECKLE_MAX_NODES; node++)
        for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
            named += sb->zone_of[node][type] != 0;
    if (named != sb->nr_zones)
        return dk_bad_pool(c, "%u zones are named, %u exist", named, sb->nr_zones);
    for (uint32_t cpu = 0; cpu < sb->nr_cpus; cpu++)
        if (c->d->cpu_nodes[cpu] >= sb->nr_nodes)
            return dk_bad_pool(c, "CPU %u is on node %u of %u", cpu, c->d->cpu_nodes[cpu],
                               sb->nr_nodes);
    return true;
}

/* ---- spans --------------------------------------------------------------------------------- */

static bool check_span(struct dk_check *c, uint32_t number, uint32_t next_block,
                       uint64_t next_index_word)
{
    const struct dk_superblock *sb = c->d->sb;
    const struct dk_span *s = &c->d->spans[number];
    uint32_t group = 1u << (sb->max_order - DK_BLOCK_ORDER);

    if (s->zone >= sb->nr_zones)
        return dk_bad_pool(c, "span %u belongs to zone %u of %u", number, s->zone, sb->nr_zones);
    if (s->first_block < next_block || !s->nr_blocks || s->first_block > sb->next_block ||
        s->nr_blocks > sb->next_block - s->first_block)
        return dk_bad_pool(c, "span %u has %u pageblocks from %u on, not between %u and %u", number,
                           s->nr_blocks, s->first_block, next_block, sb->next_block);
    if (s->first_block % group || s->nr_blocks % group)
        return dk_bad_pool(c, "span %u has %u pageblocks from %u on, not whole groups of %u",
                           number, s->nr_blocks, s->first_block, group);
    if (!s->shape[0].levels || s->shape[0].levels > DK_MAX_LEVELS)
        return dk_bad_pool(c, "span %u has an index of %u levels, not 1 ... %u", number,
                           s->shape[0].levels, DK_MAX_LEVELS);
    if (s->index_word < next_index_word || s->index_word > sb->next_index_word ||
        s->index_words > sb->next_index_word - s->index_word ||
        s->index_words > dk_index_words(s->nr_blocks, sb->nr_trees))
        return dk_bad_pool(c, "span %u has %llu index words at %llu, not between %llu and %llu",
                           number, DK_LLU(s->index_words), DK_LLU(s->index_word),
                           DK_LLU(next_index_word), DK_LLU(sb->next_index_word));
    for (uint32_t tree = 0; tree < sb->nr_trees; tree++)
        if (s->tree_word[tree] < sb->nr_trees || s->tree_word[tree] > s->index_words ||
            (tree && s->tree_word[tree] < s->tree_word[tree - 1]))
            return dk_bad_pool(c, "span %u has tree %u at index word %u of %llu", number, tree,
                               s->tree_word[tree], DK_LLU(s->index_words));
    if (!dk_index_layout_is_right(c->d, s))
        return dk_bad_pool(c, "span %u has an index that is not laid out for its %u pageblocks",
                           number, s->nr_blocks);
    return true;
}

/* Each span hangs in the list of its zone, and in no other. */
static bool check_span_lists(struct dk_check *c, uint32_t nr_spans)
{
    const struct deckle *d = c->d;
    uint32_t seen = 0;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++) {
        const struct dk_zone *z = &d->zones[i];
        uint32_t number = dk_a32_load_relaxed(&z->first_span);

        while (number) {
            if (number > nr_spans || ++seen > nr_spans)
                return dk_bad_zone(c, z, "its list of spans %s, %u spans exist",
                                   number > nr_spans ? "names one too high" : "does not end",
                                   nr_spans);
            if (d->spans[number - 1].zone != i)
                return dk_bad_zone(c, z, "its list has span %u of zone %u", number - 1,
                                   d->spans[number - 1].zone);
            number = dk_a32_load_relaxed(&d->spans[number - 1].next_in_zone);
        }
    }
    if (seen != nr_spans)
        return dk_bad_pool(c, "%u spans are in the lists of zones, %u exist", seen, nr_spans);
    return true;
}

static bool check_spans(struct dk_check *c)
{
    uint32_t nr = dk_a32_load_relaxed(&c->d->sb->nr_spans);
    uint32_t next_block = 0;
    uint64_t next_index_word = 0;

    for (uint32_t i = 0; i < nr; i++) {
        const struct dk_span *s = &c->d->spans[i];

        if (!check_span(c, i, next_block, next_index_word))
            return false;
        next_block = s->first_block + s->nr_blocks;
        next_index_word = s->index_word + s->index_words;
    }
    return check_span_lists(c, nr);
}

/* ---- sections ------------------------------------------------------------------------------ */

/* Does the look-up by frame find this section at its frame? */
static bool is_found_at(const struct dk_check *c, const struct dk_section_view *s, uint64_t fi)
{
    struct dk_section_view there;

    return dk_section_of_fi(c->d, (uint32_t)fi, &there) && there.slot == s->slot;
}

/* A frame of the section's first or last group may be in another section only if both are what a
 * removal left of one: then pfn and frame index differ by the same. */
static bool may_share(const struct dk_check *c, const struct dk_section_view *s, uint64_t fi)
{
    struct dk_section_view there;

    return !dk_section_of_fi(c->d, (uint32_t)fi, &there) ||
           (there.span == s->span && there.pfn - there.first_fi == s->pfn - s->first_fi);
}

static bool section_fits(struct dk_check *c, const struct dk_section_view *s, uint64_t next_pfn)
{
    const struct dk_superblock *sb = c->d->sb;
    uint64_t group = (uint64_t)1 << sb->max_order;
    uint64_t first = dk_align_down(s->first_fi, group);
    uint64_t end = dk_align_up(s->first_fi + s->nr, group);
    const struct dk_span *span;

    if (s->pfn < next_pfn || s->pfn >= DK_PFN_LIMIT || s->nr > DK_PFN_LIMIT - s->pfn)
        return dk_bad_pool(
            c, "the section of %llu frames at pfn %llu is not between pfn %llu and %llu",
            DK_LLU(s->nr), DK_LLU(s->pfn), DK_LLU(next_pfn), DK_LLU(DK_PFN_LIMIT));
    if (s->span >= dk_a32_load_relaxed(&sb->nr_spans) || s->zone != c->d->spans[s->span].zone)
        return dk_bad_pool(c, "the section at pfn %llu says zone %u and span %u", DK_LLU(s->pfn),
                           s->zone, s->span);
    span = &c->d->spans[s->span];
    if (first < (uint64_t)span->first_block * DK_BLOCK_FRAMES ||
        end > ((uint64_t)span->first_block + span->nr_blocks) * DK_BLOCK_FRAMES)
        return dk_bad_pool(
            c,
            "the section at pfn %llu has frames %llu to %llu, outside the pageblocks "
            "of its span",
            DK_LLU(s->pfn), DK_LLU(s->first_fi), DK_LLU(s->first_fi + s->nr - 1));
    if ((s->pfn ^ s->first_fi) & (group - 1))
        return dk_bad_pool(c,
                           "the section at pfn %llu has frame %u first, which differs modulo %llu",
                           DK_LLU(s->pfn), s->first_fi, DK_LLU(group));
    if (!is_found_at(c, s, s->first_fi) || !is_found_at(c, s, s->first_fi + s->nr - 1))
        return dk_bad_pool(c, "the section at pfn %llu is not found by its frames", DK_LLU(s->pfn));
    if (!may_share(c, s, first) || !may_share(c, s, end - 1))
        return dk_bad_pool(c, "the section at pfn %llu shares a group of %llu frames with another",
                           DK_LLU(s->pfn), DK_LLU(group));
    return true;
}

bool dk_check_section(struct dk_check *c, const struct dk_section_view *s)
{
    if (s->span >= dk_a32_load_relaxed(&c->d->sb->nr_spans))
        return dk_bad_pool(c, "the section at pfn %llu says span %u", DK_LLU(s->pfn), s->span);
    return check_span(c, s->span, 0, 0) && section_fits(c, s, 0);
}

static bool check_sections(struct dk_check *c)
{
    const struct dk_superblock *sb = c->d->sb;
    uint32_t nr = dk_a32_load_relaxed(&sb->nr_sections);
    struct dk_section_view s;
    uint64_t next_pfn = 0;

    if (dk_a32_load_relaxed(&sb->section_epoch) & 1)
        return dk_bad_pool(c, "the section table is being changed");
    for (uint32_t n = 0; n < nr; n++) {
        if (!dk_section_nth(c->d, n, &s))
            return dk_bad_pool(c, "entry %u of %u sections leads to none", n, nr);
        if (!section_fits(c, &s, next_pfn))
            return false;
        next_pfn = s.pfn + s.nr;
    }
    return true;
}

/* What the handle knows of one section by itself. */
static bool check_main(struct dk_check *c)
{
    const struct deckle *d = c->d;
    uint64_t nr = dk_load_relaxed(&d->main_nr);
    struct dk_section_view s;

    if (!nr)
        return true;
    if (!dk_section_of_pfn(d, d->main_pfn, &s) || s.zone != d->main_zone ||
        s.first_fi + (d->main_pfn - s.pfn) != d->main_fi || nr > s.nr - (d->main_pfn - s.pfn))
        return dk_bad_pool(c, "the handle knows %llu frames at pfn %llu, which no section holds",
                           DK_LLU(nr), DK_LLU(d->main_pfn));
    return true;
}

/* ---- ranges -------------------------------------------------------------------------------- */

static bool check_ranges(struct dk_check *c)
{
    const struct dk_superblock *sb = c->d->sb;
    struct dk_section_view s;
    uint64_t next_pfn = 0;

    for (uint32_t i = 0; i < sb->nr_ranges; i++) {
        const struct dk_range *r = &c->d->ranges[i];

        if (r->pfn < next_pfn || !r->nr || r->pfn >= DK_PFN_LIMIT || r->nr > DK_PFN_LIMIT - r->pfn)
            return dk_bad_pool(c,
                               "range %u has %llu frames at pfn %llu, the one before ends at %llu",
                               i, DK_LLU(r->nr), DK_LLU(r->pfn), DK_LLU(next_pfn));
        if (r->zone >= sb->nr_zones)
            return dk_bad_pool(c, "range %u is in zone %u of %u", i, r->zone, sb->nr_zones);
        if (r->online && (!dk_section_of_pfn(c->d, r->pfn, &s) || s.zone != r->zone ||
                          r->nr > s.nr - (r->pfn - s.pfn)))
            return dk_bad_pool(c,
                               "range %u, %llu frames at pfn %llu in zone %u, is online but in no "
                               "section of it",
                               i, DK_LLU(r->nr), DK_LLU(r->pfn), r->zone);
        next_pfn = r->pfn + r->nr;
    }
    return true;
}

static bool check_reservations(struct dk_check *c)
{
    uint64_t next_pfn = 0;

    for (uint32_t i = 0; i < c->d->sb->nr_reservations; i++) {
        const struct dk_reservation *r = &c->d->reservations[i];

        if (r->pfn < next_pfn || !r->nr || r->pfn >= DK_PFN_LIMIT || r->nr > DK_PFN_LIMIT - r->pfn)
            return dk_bad_pool(c,
                               "reservation %u has %llu frames at pfn %llu, the one before ends "
                               "before %llu",
                               i, DK_LLU(r->nr), DK_LLU(r->pfn), DK_LLU(next_pfn));
        next_pfn = r->pfn + r->nr + 1; /* those that touch are one */
    }
    return true;
}

/* ---- zonelists ----------------------------------------------------------------------------- */

/* Entries of the current lists: zones with memory that exist once, and all of them in "fallback".
 */
static bool check_zonelist(struct dk_check *c, uint32_t node, enum dk_zonelist_kind kind)
{
    const struct dk_zonelist *list = dk_zonelist(c->d, node, kind);
    const struct dk_superblock *sb = c->d->sb;
    uint32_t nr = dk_a32_load_relaxed(&list->nr), populated = 0;

    for (uint32_t i = 0; i < sb->nr_zones; i++)
        populated += dk_zone_is_populated(&c->d->zones[i]) &&
                     (kind == DK_ZONELIST_FALLBACK || c->d->zones[i].node == node);
    if (nr != populated)
        return dk_bad_pool(c, "a zonelist of node %u has %u zones, %u have memory", node, nr,
                           populated);
    for (uint32_t i = 0; i < nr; i++) {
        uint32_t zone = dk_a32_load_relaxed(&list->zone[i]);

        if (zone >= sb->nr_zones || !dk_zone_is_populated(&c->d->zones[zone]) ||
            (kind == DK_ZONELIST_NOFALLBACK && c->d->zones[zone].node != node))
            return dk_bad_pool(c,
                               "a zonelist of node %u names zone %u of %u, which does not belong "
                               "there",
                               node, zone, sb->nr_zones);
        for (uint32_t k = 0; k < i; k++)
            if (dk_a32_load_relaxed(&list->zone[k]) == zone)
                return dk_bad_pool(c, "a zonelist of node %u names zone %u twice", node, zone);
    }
    return true;
}

static bool check_zonelists(struct dk_check *c)
{
    for (uint32_t node = 0; node < c->d->sb->nr_nodes; node++)
        if (!check_zonelist(c, node, DK_ZONELIST_FALLBACK) ||
            !check_zonelist(c, node, DK_ZONELIST_NOFALLBACK))
            return false;
    return true;
}

bool dk_check_tables(struct dk_check *c)
{
    return check_zone_table(c) && check_spans(c) && check_sections(c) && check_main(c) &&
           check_ranges(c) && check_reservations(c) && check_zonelists(c);
}
