/* SPDX-License-Identifier: MIT */
/*
 * The layout of a pool's metadata, from its configuration.
 *
 * Blocks. A section takes the whole groups of 2^(max_order-9) blocks that it touches, so that a
 * frame index and its pfn agree modulo 2^max_order and no group belongs to two sections. Every
 * configured range is counted as a section of its own, so ranges may be added and brought online in
 * any order and grouping. grow_pages adds its blocks and, for each of grow_ranges, two groups for
 * the ends.
 *
 * Zones are those that the configured ranges produce, in the order of node and type; with
 * grow_pages also Normal and Movable of every node. Each has a cache set for every CPU.
 *
 * Index words. A span of n blocks needs f(n) = dk_index_words(n). Ranges that share a span need at
 * most a 31st more than alone (a further level has one word for every 32 below it) and a few words
 * for every level of every tree, which each further range brings along.
 *
 * Arithmetic is in 64 bits and cannot overflow: every count is bounded before it is multiplied
 * (blocks by 2^23, ranges by 2^21, zones by 320, CPUs by 4096, bytes of a cache set by 2^22). Only
 * the total is compared with what a pointer of this machine can reach.
 */
#include "core/config.h"

#include "base/div64.h"
#include "base/mem.h"
#include "core/index.h"
#include "core/pcp.h"

#include <deckle/shared.h>

#define MAX_CONFIG_RANGES ((uint32_t)1 << 20)
#define DEFAULT_GROW      16u
/* Reservations that fit in any pool: firmware maps have a few dozen. */
#define LEAST_RESERVATIONS 64u

#define KNOWN_FEATURES                                                                             \
    (DECKLE_FEATURE_CELLS | DECKLE_FEATURE_DESCRIPTORS | DECKLE_FEATURE_OWNER_TAGS |               \
     DECKLE_FEATURE_NO_CACHES | DECKLE_FEATURE_HIGHMEM | DECKLE_FEATURE_SHARED)
#define KNOWN_RANGE_FLAGS (DECKLE_RANGE_CMA | DECKLE_RANGE_ZEROED)

static int refuse(int error, const char **reason, const char *why)
{
    if (reason)
        *reason = why;
    return error;
}

int dk_config_read(const struct deckle_config *cfg, struct deckle_config *out, const char **reason)
{
    if (!cfg)
        return refuse(DECKLE_EINVAL, reason, "the configuration must not be NULL");
    if (cfg->size < sizeof *cfg)
        return refuse(DECKLE_EINVAL, reason, "size must be sizeof(struct deckle_config)");

    /* A later, longer form is as good if it asks for nothing that this version does not know. */
    const unsigned char *bytes = (const unsigned char *)cfg;
    for (uint32_t i = sizeof *cfg; i < cfg->size; i++)
        if (bytes[i])
            return refuse(
                DECKLE_EINVAL, reason,
                "size says that the configuration is of a later version, and a field that "
                "this version does not know is not zero");
    memcpy(out, cfg, sizeof *out);
    out->size = sizeof *out;
    return DECKLE_OK;
}

/* ---- ranges ------------------------------------------------------------------------------- */

static int check_range(const struct dk_range_rules *rules, const struct deckle_range *r,
                       const char **reason)
{
    if (!r->nr)
        return refuse(DECKLE_EINVAL, reason, "range.nr must be at least 1");
    if (r->pfn >= DK_PFN_LIMIT || r->nr > DK_PFN_LIMIT - r->pfn)
        return refuse(DECKLE_EINVAL, reason, "range.pfn + range.nr must be at most 2^52");
    if (r->node > rules->nr_nodes)
        return refuse(DECKLE_EINVAL, reason,
                      "range.node must be 0 or DECKLE_NODE(id) with an id below nr_nodes");
    if (r->zone > DECKLE_NR_ZONE_TYPES)
        return refuse(DECKLE_EINVAL, reason,
                      "range.zone must be 0 or DECKLE_ZONE(type) with a type of enum "
                      "deckle_zone_type");
    if (r->zone == DECKLE_ZONE(DECKLE_ZONE_HIGHMEM) && !(rules->features & DECKLE_FEATURE_HIGHMEM))
        return refuse(DECKLE_EINVAL, reason,
                      "range.zone HIGHMEM needs DECKLE_FEATURE_HIGHMEM in the features");
    if (r->flags & ~KNOWN_RANGE_FLAGS)
        return refuse(DECKLE_EINVAL, reason, "range.flags has bits other than DECKLE_RANGE_…");

    uint64_t end = r->pfn + r->nr;
    if ((r->zone == DECKLE_ZONE(DECKLE_ZONE_DMA) && end > rules->dma_limit_pfn) ||
        (r->zone == DECKLE_ZONE(DECKLE_ZONE_DMA32) && end > rules->dma32_limit_pfn))
        return refuse(DECKLE_EINVAL, reason,
                      "a range of zone DMA or DMA32 must end at or below the limit of that zone");
    return DECKLE_OK;
}

int dk_divide_range(const struct dk_range_rules *rules, const struct deckle_range *range,
                    struct dk_piece pieces[DK_MAX_PIECES], const char **reason)
{
    int error = check_range(rules, range, reason);
    if (error)
        return error;

    uint32_t node = range->node ? range->node - 1 : 0;
    if (range->zone) {
        pieces[0] = (struct dk_piece){range->pfn, range->nr, node, range->zone - 1};
        return 1;
    }
    const uint64_t limits[DK_MAX_PIECES] = {rules->dma_limit_pfn, rules->dma32_limit_pfn,
                                            DK_PFN_LIMIT};
    uint64_t pfn = range->pfn, end = range->pfn + range->nr;
    int n = 0;
    for (uint32_t type = 0; type < DK_MAX_PIECES && pfn < end; type++) {
        if (pfn >= limits[type])
            continue;
        uint64_t stop = dk_min64(end, limits[type]);
        pieces[n++] = (struct dk_piece){pfn, stop - pfn, node, type};
        pfn = stop;
    }
    return n;
}

/* ---- checks of single fields --------------------------------------------------------------- */

static int plan_numbers(const struct deckle_config *c, struct dk_plan *p,
                        const char **reason)
{
    p->rules.features = c->features;
    p->page_shift = c->page_shift ? c->page_shift : 12;
    p->max_order = c->max_order ? c->max_order : DECKLE_DEFAULT_MAX_ORDER;
    p->nr_cpus = c->nr_cpus;
    p->rules.nr_nodes = c->nr_nodes ? c->nr_nodes : 1;
    p->watermark_scale_factor = c->watermark_scale_factor ? c->watermark_scale_factor : 10;
    p->pcp_capacity = c->pcp_capacity ? c->pcp_capacity : 512;
    p->no_watermarks = c->min_free_kbytes == UINT64_MAX;
    p->min_free_kbytes = p->no_watermarks ? 0 : c->min_free_kbytes;
    p->nr_trees = DK_GROUP_BASE + p->max_order - DK_BLOCK_ORDER;

    if (c->features & ~KNOWN_FEATURES)
        return refuse(DECKLE_EINVAL, reason, "features has bits other than DECKLE_FEATURE_…");
    if (p->page_shift < 10 || p->page_shift > 30)
        return refuse(DECKLE_EINVAL, reason, "page_shift must be 0 (12) or 10 to 30");
    if (p->max_order < DK_BLOCK_ORDER || p->max_order > DECKLE_MAX_ORDER_LIMIT)
        return refuse(DECKLE_EINVAL, reason, "max_order must be 0 (10) or 9 to 18");
    if (!p->nr_cpus || p->nr_cpus > DECKLE_MAX_CPUS)
        return refuse(DECKLE_EINVAL, reason, "nr_cpus must be 1 to 4096");
    if (p->rules.nr_nodes > DECKLE_MAX_NODES)
        return refuse(DECKLE_EINVAL, reason, "nr_nodes must be 0 (1) or 1 to 64");
    if (p->watermark_scale_factor > 3000)
        return refuse(DECKLE_EINVAL, reason, "watermark_scale_factor must be 0 (10) or 1 to 3000");
    if (p->pcp_capacity < 16 || p->pcp_capacity > 4096)
        return refuse(DECKLE_EINVAL, reason, "pcp_capacity must be 0 (512) or 16 to 4096");
    if (p->min_free_kbytes > UINT64_MAX >> 10)
        return refuse(DECKLE_EINVAL, reason,
                      "min_free_kbytes must be below 2^54, or ~0 for no watermarks");
    return DECKLE_OK;
}

/* First pfn above a zone that begins at address 0; 0 when the zone does not exist. */
static uint64_t zone_limit(uint64_t configured, unsigned bytes_shift, unsigned page_shift)
{
    if (configured == UINT64_MAX)
        return 0;
    if (configured)
        return dk_min64(configured, DK_PFN_LIMIT);
    return bytes_shift > page_shift ? (uint64_t)1 << (bytes_shift - page_shift) : 0;
}

static int plan_limits(const struct deckle_config *c, struct dk_plan *p, const char **reason)
{
    p->rules.dma_limit_pfn = zone_limit(c->dma_limit_pfn, 24, p->page_shift);
    p->rules.dma32_limit_pfn = zone_limit(c->dma32_limit_pfn, 32, p->page_shift);
    if (p->rules.dma32_limit_pfn && p->rules.dma32_limit_pfn < p->rules.dma_limit_pfn)
        return refuse(DECKLE_EINVAL, reason,
                      "dma32_limit_pfn must not be below dma_limit_pfn (their defaults are 16 MiB "
                      "and 4 GiB in frames; ~0 = no such zone)");
    return DECKLE_OK;
}

static int plan_sharing(const struct deckle_config *c, struct dk_plan *p, const char **reason)
{
    if (!(c->features & DECKLE_FEATURE_SHARED))
        return c->max_clients ? refuse(DECKLE_EINVAL, reason,
                                       "max_clients needs DECKLE_FEATURE_SHARED in the features")
                              : DECKLE_OK;
    if (DK_WORD_BITS < 64)
        return refuse(DECKLE_ENOTSUP, reason,
                      "features has DECKLE_FEATURE_SHARED, which needs 64-bit words");
    if (c->features & DECKLE_FEATURE_DESCRIPTORS)
        return refuse(DECKLE_EINVAL, reason,
                      "features has DECKLE_FEATURE_SHARED with DECKLE_FEATURE_DESCRIPTORS: shared "
                      "pools count no references");
    if (c->max_clients > DECKLE_MAX_CLIENTS)
        return refuse(DECKLE_EINVAL, reason, "max_clients must be 0 (64) or 1 to 255");
    p->max_clients = c->max_clients ? c->max_clients : DECKLE_DEFAULT_CLIENTS;
    return DECKLE_OK;
}

static int check_topology(const struct deckle_config *c, const struct dk_plan *p,
                          const char **reason)
{
    uint32_t n = p->rules.nr_nodes;

    for (uint32_t cpu = 0; c->cpu_nodes && cpu < p->nr_cpus; cpu++)
        if (c->cpu_nodes[cpu] >= n)
            return refuse(DECKLE_EINVAL, reason, "every entry of cpu_nodes must be below nr_nodes");
    for (uint32_t i = 0; c->distances && i < n * n; i++)
        if (c->distances[i] < 10 || (i % (n + 1) == 0 && c->distances[i] != 10))
            return refuse(DECKLE_EINVAL, reason,
                          "distances must be at least 10, and 10 from a node to itself");
    return DECKLE_OK;
}

/* ---- capacity ------------------------------------------------------------------------------ */

struct capacity {
    uint64_t blocks;
    uint64_t pieces;
    uint64_t index_words; /* of spans made of one piece each */
};

static int count_ranges(const struct deckle_config *c, struct dk_plan *p,
                        struct capacity *cap, const char **reason)
{
    struct dk_piece pieces[DK_MAX_PIECES];

    for (uint32_t i = 0; i < c->nr_ranges; i++) {
        int n = dk_divide_range(&p->rules, &c->ranges[i], pieces, reason);
        if (n < 0)
            return n;
        for (int k = 0; k < n; k++) {
            uint64_t frames = dk_groups_around(pieces[k].pfn, pieces[k].nr, p->max_order);
            uint32_t blocks = (uint32_t)(dk_min64(frames, 2 * DK_MAX_FRAMES) >> DK_BLOCK_ORDER);
            cap->blocks += blocks;
            cap->pieces++;
            if (cap->blocks > DK_MAX_FRAMES >> DK_BLOCK_ORDER)
                return refuse(DECKLE_E2BIG, reason,
                              "the ranges, each rounded to multiples of 2^max_order frames, exceed "
                              "2^32 frames (2^22 where a word has 32 bits)");
            cap->index_words += dk_index_words(blocks, p->nr_trees);
            p->zone_types[pieces[k].node] |= (uint8_t)(1u << pieces[k].type);
        }
    }
    return DECKLE_OK;
}

static int count_growth(const struct deckle_config *c, struct dk_plan *p,
                        struct capacity *cap, uint32_t grow_ranges, const char **reason)
{
    if (!c->grow_pages)
        return DECKLE_OK;

    uint64_t group = (uint64_t)1 << (p->max_order - DK_BLOCK_ORDER);
    uint64_t most = DK_MAX_FRAMES >> DK_BLOCK_ORDER;
    uint64_t ends = 2 * group * (uint64_t)grow_ranges;
    uint64_t blocks = dk_min64(c->grow_pages >> DK_BLOCK_ORDER, most) + ends;

    if (blocks > most - cap->blocks)
        return refuse(DECKLE_E2BIG, reason,
                      "ranges and grow_pages (with 2^(max_order+1) frames for each of grow_ranges) "
                      "exceed 2^32 frames (2^22 where a word has 32 bits)");
    cap->blocks += blocks;
    cap->index_words += dk_index_words((uint32_t)blocks, p->nr_trees) +
                        grow_ranges * dk_index_words((uint32_t)(2 * group), p->nr_trees);
    for (uint32_t node = 0; node < p->rules.nr_nodes; node++)
        p->zone_types[node] |= 1u << DECKLE_ZONE_NORMAL | 1u << DECKLE_ZONE_MOVABLE;
    return DECKLE_OK;
}

static int plan_capacity(const struct deckle_config *c, struct dk_plan *p,
                         const char **reason)
{
    uint32_t grow_ranges = c->grow_ranges ? c->grow_ranges : DEFAULT_GROW;
    struct capacity cap = {0};

    if (c->nr_ranges > MAX_CONFIG_RANGES || grow_ranges > MAX_CONFIG_RANGES)
        return refuse(DECKLE_E2BIG, reason, "nr_ranges and grow_ranges must be at most 2^20");
    if (c->nr_ranges && !c->ranges)
        return refuse(DECKLE_EINVAL, reason, "ranges must not be NULL when nr_ranges is not 0");
    if (!c->nr_ranges && !c->grow_pages)
        return refuse(DECKLE_EINVAL, reason,
                      "nr_ranges and grow_pages must not both be 0: the pool could hold nothing");

    int error = count_ranges(c, p, &cap, reason);
    if (!error)
        error = count_growth(c, p, &cap, grow_ranges, reason);
    if (error)
        return error;

    uint64_t ranges = cap.pieces + (uint64_t)grow_ranges * DK_MAX_PIECES;
    p->max_blocks = (uint32_t)cap.blocks;
    p->max_ranges = (uint32_t)ranges;
    p->max_reservations = LEAST_RESERVATIONS + c->nr_ranges + grow_ranges;
    p->max_sections = (uint32_t)ranges + 2; /* a removal holds the halves beside the whole */
    p->max_spans = (uint32_t)ranges;
    /* A span's words begin on a line of their own. */
    p->index_capacity = cap.index_words + ranges * DK_LINE_WORDS;
    if (ranges > 1)
        p->index_capacity += cap.index_words / 31 + ranges * p->nr_trees;
    for (uint32_t node = 0; node < p->rules.nr_nodes; node++)
        for (uint32_t types = p->zone_types[node]; types; types &= types - 1)
            p->max_zones++;
    return DECKLE_OK;
}

/* ---- offsets ------------------------------------------------------------------------------- */

/* Small arrays share pages; big ones begin on a page, so that what is never used is never mapped.
 * */
static uint64_t place(uint64_t *end, uint64_t count, uint64_t size)
{
    uint64_t bytes = count * size;
    uint64_t at = dk_align_up(*end, bytes >= 32768 ? 4096 : DK_LINE_BYTES);

    *end = at + bytes;
    return at;
}

/*
 * The state bytes of a large pool begin half a page from where the handle begins. A processor takes
 * a load to depend on a store whose address agrees in the low twelve bits: if both began on a page,
 * the byte that one call stores for a frame of a low number would hold up the next call's loads of
 * the handle, by more than all the rest of a pair costs.
 */
static uint64_t place_states(uint64_t *end, uint64_t frames)
{
    uint64_t skew = frames >= 32768 ? 2048 : 0;

    return place(end, frames + skew, 1) + skew;
}

/* The kind is decided by the host's hooks, which the size query does not know: room for either. */
static void plan_caches(struct dk_plan *p)
{
    uint32_t off[DK_PCP_LISTS], cap[DK_PCP_LISTS];
    struct dk_pcp_shape shape = {DK_PCP_NONE, p->pcp_capacity, p->max_order, p->page_shift};

    if (p->rules.features & DECKLE_FEATURE_NO_CACHES) {
        p->set_bytes = dk_pcp_set_bytes(&shape, off, cap);
        return;
    }
    shape.kind = DK_PCP_CELLS;
    p->set_bytes = dk_pcp_set_bytes(&shape, off, cap);
    shape.kind = DK_PCP_RSEQ;
    p->set_bytes = dk_max64(p->set_bytes, dk_pcp_set_bytes(&shape, off, cap));
}

static void plan_offsets(struct dk_plan *p)
{
    uint64_t end = sizeof(struct dk_superblock), blocks = p->max_blocks,
             frames = blocks << DK_BLOCK_ORDER;

    p->at.ranges = place(&end, p->max_ranges, sizeof(struct dk_range));
    p->at.reservations = place(&end, p->max_reservations, sizeof(struct dk_reservation));
    p->at.sections = place(&end, p->max_sections, sizeof(struct dk_section));
    p->at.by_pfn = place(&end, p->max_sections, sizeof(struct dk_section_key));
    p->at.by_fi = place(&end, p->max_sections, sizeof(struct dk_section_key));
    p->at.spans = place(&end, p->max_spans, sizeof(struct dk_span));
    p->at.zones = place(&end, p->max_zones, sizeof(struct dk_zone));
    p->at.zonelists = place(&end, 4 * (uint64_t)p->rules.nr_nodes, sizeof(struct dk_zonelist));
    p->at.distances = place(&end, (uint64_t)p->rules.nr_nodes * p->rules.nr_nodes, 1);
    p->at.cpu_nodes = place(&end, p->nr_cpus, 1);
    p->at.pcp = place(&end, (uint64_t)p->max_zones * p->nr_cpus, p->set_bytes);
    p->at.words = place(&end, blocks, sizeof(dk_aword));
    p->at.lines = place(&end, blocks, DK_LINE_BYTES);
    p->at.index = place(&end, p->index_capacity, sizeof(dk_aword));
    p->at.state = place_states(&end, frames);
    if (p->rules.features & DECKLE_FEATURE_DESCRIPTORS)
        p->at.descriptors = place(&end, frames, 8);
    if (p->rules.features & DECKLE_FEATURE_OWNER_TAGS)
        p->at.owners = place(&end, frames, sizeof(dk_a32));
    if (p->max_clients) {
        p->at.clients = place(&end, p->max_clients, sizeof(struct dk_client));
        p->at.intents = place(&end, (uint64_t)p->max_clients * DK_INTENTS_PER_CLIENT,
                              sizeof(dk_aword));
        p->at.tags = place(&end, frames, 1);
    }
    p->total_bytes = dk_align_up(end, 4096);
}

int dk_plan_config(const struct deckle_config *cfg, struct dk_plan *p, const char **reason)
{
    struct deckle_config c;
    int error = dk_config_read(cfg, &c, reason);

    if (!error)
        error = plan_numbers(&c, p, reason);
    if (!error)
        error = plan_limits(&c, p, reason);
    if (!error)
        error = plan_sharing(&c, p, reason);
    if (!error)
        error = check_topology(&c, p, reason);
    if (!error)
        error = plan_capacity(&c, p, reason);
    if (error)
        return error;

    plan_caches(p);
    plan_offsets(p);
    if (p->total_bytes > SIZE_MAX / 2 - DK_HANDLE_BYTES)
        return refuse(DECKLE_E2BIG, reason,
                      "the metadata of these ranges, zones and CPUs does not fit the address space "
                      "of this machine");
    return DECKLE_OK;
}

int deckle_config_check(const struct deckle_config *cfg, const char **reason)
{
    struct dk_plan plan = {0};

    if (reason)
        *reason = NULL;
    return dk_plan_config(cfg, &plan, reason);
}

size_t deckle_metadata_size(const struct deckle_config *cfg)
{
    struct dk_plan plan = {0};

    if (dk_plan_config(cfg, &plan, NULL))
        return 0;
    return DK_HANDLE_BYTES + (size_t)plan.total_bytes;
}
