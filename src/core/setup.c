/* SPDX-License-Identifier: MIT */
/*
 * Making a pool in the caller's memory, looking at one from a handle, ending one.
 *
 * deckle_init writes the handle, the superblock, the zone table and the topology; all arrays stay
 * zero, which means fresh. A handle is filled from the superblock alone, so that deckle_init and a
 * later process that maps the same metadata go through the same checks.
 */
#include "core/setup.h"

#include "base/mem.h"
#include "base/rseq.h"
#include "core/config.h"
#include "core/fast.h"
#include "core/pcp.h"
#include "core/pressure.h"
#include "core/zonelist.h"

#include <deckle/shared.h>

/* ---- attach ------------------------------------------------------------------------------- */

static bool array_fits(const struct dk_superblock *sb, uint64_t at, uint64_t count, uint64_t size)
{
    return at >= sizeof *sb && at % DK_LINE_BYTES == 0 && at <= sb->total_bytes &&
           count * size <= sb->total_bytes - at;
}

static bool numbers_are_sane(const struct dk_superblock *sb)
{
    return sb->page_shift >= 10 && sb->page_shift <= 30 && sb->max_order >= DK_BLOCK_ORDER &&
           sb->max_order <= DECKLE_MAX_ORDER_LIMIT && sb->nr_cpus && sb->nr_nodes &&
           sb->nr_cpus <= DECKLE_MAX_CPUS && sb->nr_nodes <= DECKLE_MAX_NODES &&
           sb->kind <= DK_PCP_RSEQ &&
           sb->nr_trees == DK_GROUP_BASE + sb->max_order - DK_BLOCK_ORDER && sb->max_blocks &&
           sb->max_blocks <= DK_MAX_FRAMES >> DK_BLOCK_ORDER && sb->max_zones <= DECKLE_MAX_ZONES &&
           sb->nr_zones <= sb->max_zones && sb->next_block <= sb->max_blocks &&
           sb->next_index_word <= sb->index_capacity && sb->index_capacity <= (uint64_t)1 << 40 &&
           sb->slot_bytes <= (uint64_t)1 << 30 && sb->pcp_capacity <= 4096 &&
           sb->max_ranges <= (uint32_t)1 << 23 && sb->max_reservations <= (uint32_t)1 << 23 &&
           sb->max_sections <= (uint32_t)1 << 23 && sb->max_spans <= (uint32_t)1 << 23 &&
           (sb->features & DECKLE_FEATURE_SHARED
                ? sb->max_clients && sb->max_clients <= DECKLE_MAX_CLIENTS &&
                      sb->nr_intents == sb->max_clients * DK_INTENTS_PER_CLIENT &&
                      sb->kind != DK_PCP_RSEQ && DK_WORD_BITS == 64
                : !sb->max_clients && !sb->nr_intents);
}

/* Counts are below 2^40 and sizes below 2^22 here: no product overflows. */
static bool arrays_fit(const struct dk_superblock *sb)
{
    const struct dk_offsets *at = &sb->at;
    uint64_t blocks = sb->max_blocks, frames = blocks << DK_BLOCK_ORDER;
    uint64_t keys = sb->max_sections, nodes = sb->nr_nodes;

    return array_fits(sb, at->ranges, sb->max_ranges, sizeof(struct dk_range)) &&
           array_fits(sb, at->reservations, sb->max_reservations, sizeof(struct dk_reservation)) &&
           array_fits(sb, at->sections, keys, sizeof(struct dk_section)) &&
           array_fits(sb, at->by_pfn, keys, sizeof(struct dk_section_key)) &&
           array_fits(sb, at->by_fi, keys, sizeof(struct dk_section_key)) &&
           array_fits(sb, at->spans, sb->max_spans, sizeof(struct dk_span)) &&
           array_fits(sb, at->zones, sb->max_zones, sizeof(struct dk_zone)) &&
           array_fits(sb, at->zonelists, 4 * nodes, sizeof(struct dk_zonelist)) &&
           array_fits(sb, at->distances, nodes * nodes, 1) &&
           array_fits(sb, at->cpu_nodes, sb->nr_cpus, 1) &&
           array_fits(sb, at->pcp, (uint64_t)sb->max_zones * sb->nr_cpus, sb->slot_bytes) &&
           array_fits(sb, at->words, blocks, sizeof(dk_aword)) &&
           array_fits(sb, at->lines, blocks, DK_LINE_BYTES) &&
           array_fits(sb, at->index, sb->index_capacity, sizeof(dk_aword)) &&
           array_fits(sb, at->state, frames, 1) &&
           (!(sb->features & DECKLE_FEATURE_DESCRIPTORS) ||
            array_fits(sb, at->descriptors, frames, 8)) &&
           (!(sb->features & DECKLE_FEATURE_OWNER_TAGS) ||
            array_fits(sb, at->owners, frames, sizeof(dk_a32))) &&
           (!sb->max_clients ||
            (array_fits(sb, at->clients, sb->max_clients, sizeof(struct dk_client)) &&
             array_fits(sb, at->intents, sb->nr_intents, sizeof(dk_aword)) &&
             array_fits(sb, at->tags, frames, 1)));
}

static int check_superblock(const struct dk_superblock *sb, uint64_t bytes)
{
    if (bytes < sizeof *sb || sb->magic != DK_META_MAGIC)
        return DECKLE_ECORRUPT;
    if (sb->version != DK_META_VERSION || sb->word_bits != DK_WORD_BITS)
        return DECKLE_EVERSION;
    if (sb->total_bytes > bytes || !numbers_are_sane(sb) || !arrays_fit(sb))
        return DECKLE_ECORRUPT;
    const uint8_t *cpu_nodes = (const uint8_t *)sb + sb->at.cpu_nodes;
    for (uint32_t cpu = 0; cpu < sb->nr_cpus; cpu++)
        if (cpu_nodes[cpu] >= sb->nr_nodes)
            return DECKLE_ECORRUPT;
    return DECKLE_OK;
}

/* A copy of the host's hooks; a shorter struct is that of an older program, what it lacks is
 * absent. */
static int read_host(const struct deckle_host *host, struct deckle_host *out)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    if (!host)
        return DECKLE_OK;
    if (host->size < offsetof(struct deckle_host, cpu) || host->size > sizeof *out)
        return DECKLE_EINVAL;
    memcpy(out, host, host->size);
    out->size = sizeof *out;
    return DECKLE_OK;
}

static bool can_use_rseq(const struct deckle_host *host)
{
#ifdef DK_HAVE_RSEQ
    return host->rseq_usable && host->membarrier;
#else
    (void)host;
    return false;
#endif
}

static void point_at_arrays(struct deckle *d, struct dk_superblock *sb)
{
    unsigned char *base = (unsigned char *)sb;
    const struct dk_offsets *at = &sb->at;

    d->state = (void *)(base + at->state);
    d->pcp = base + at->pcp;
    d->words = (void *)(base + at->words);
    d->lines = (void *)(base + at->lines);
    d->index = (void *)(base + at->index);
    if (sb->features & DECKLE_FEATURE_DESCRIPTORS)
        d->descriptors = (void *)(base + at->descriptors);
    if (sb->features & DECKLE_FEATURE_OWNER_TAGS)
        d->owners = (void *)(base + at->owners);
    d->ranges = (void *)(base + at->ranges);
    d->reservations = (void *)(base + at->reservations);
    d->sections = (void *)(base + at->sections);
    d->by_pfn = (void *)(base + at->by_pfn);
    d->by_fi = (void *)(base + at->by_fi);
    d->spans = (void *)(base + at->spans);
    d->zones = (void *)(base + at->zones);
    d->zonelists = (void *)(base + at->zonelists);
    d->distances = base + at->distances;
    d->cpu_nodes = base + at->cpu_nodes;
}

int dk_handle_attach(struct deckle *d, struct dk_superblock *sb, uint64_t bytes,
                     const struct deckle_host *host)
{
    if ((uintptr_t)sb % DK_LINE_BYTES || (uintptr_t)d % _Alignof(struct deckle))
        return DECKLE_EINVAL;
    int error = check_superblock(sb, bytes);
    if (error)
        return error;
    memset(d, 0, sizeof *d);
    error = read_host(host, &d->host);
    if (error)
        return error;
    if (sb->kind == DK_PCP_RSEQ && !can_use_rseq(&d->host))
        return DECKLE_ENOTSUP;

    struct dk_pcp_shape shape = {sb->kind, sb->pcp_capacity, sb->max_order, sb->page_shift};
    size_t set_bytes = dk_pcp_set_bytes(&shape, d->list_off, d->slot_cap);
    if (set_bytes > sb->slot_bytes || set_bytes > UINT32_MAX)
        return DECKLE_ECORRUPT;
    d->sb = sb;
    point_at_arrays(d, sb);
    d->set_bytes = (uint32_t)set_bytes;
    d->nr_cpus = sb->nr_cpus;
    d->rseq_offset = sb->kind == DK_PCP_RSEQ ? d->host.rseq_offset : 0;
    d->kind = sb->kind;
    d->max_order = sb->max_order;
    d->main_zone = DK_NONE;
    d->cell_mine = DK_CELL_FULL;
    for (unsigned type = 0; type < DK_ARRAY_LEN(d->fast_zone); type++)
        dk_a32_store_relaxed(&d->fast_zone[type], DK_NONE);
    d->handle_magic = DK_HANDLE_MAGIC;
    dk_update_slow(d);
    return DECKLE_OK;
}

void dk_update_slow(struct deckle *d)
{
    const struct dk_superblock *sb = d->sb;
    uint32_t slow = dk_a32_load_relaxed(&d->slow) & DK_SLOW_DEBUG;

    slow |= dk_a32_load_relaxed(&sb->debug) ? DK_SLOW_DEBUG : 0;
    slow |= d->descriptors ? DK_SLOW_DESCRIPTORS : 0;
    slow |= d->owners ? DK_SLOW_OWNERS : 0;
    slow |= d->host.on_alloc || d->host.on_free ? DK_SLOW_HOOKS : 0;
    slow |= sb->nr_nodes > 1 ? DK_SLOW_NUMA : 0;
    slow |= dk_grouping(d) ? 0 : DK_SLOW_GROUPING;
    slow |= dk_hooks_restrict(d) ? DK_SLOW_TASK : 0;
    if (sb->features & DECKLE_FEATURE_SHARED)
        slow |= d->client ? DK_SLOW_SHARED : DK_SLOW_STRANGER;
    dk_a32_store_release(&d->slow, slow);
    dk_fast_update(d);
}

/* ---- init --------------------------------------------------------------------------------- */

static void write_numbers(struct dk_superblock *sb, const struct dk_plan *p)
{
    sb->magic = DK_META_MAGIC;
    sb->version = DK_META_VERSION;
    sb->word_bits = DK_WORD_BITS;
    sb->total_bytes = p->total_bytes;
    sb->features = p->rules.features;
    sb->page_shift = p->page_shift;
    sb->max_order = p->max_order;
    sb->nr_cpus = p->nr_cpus;
    sb->nr_nodes = p->rules.nr_nodes;
    sb->nr_trees = p->nr_trees;
    sb->pcp_capacity = p->pcp_capacity;
    sb->max_blocks = p->max_blocks;
    sb->max_ranges = p->max_ranges;
    sb->max_reservations = p->max_reservations;
    sb->max_sections = p->max_sections;
    sb->max_spans = p->max_spans;
    sb->max_zones = p->max_zones;
    sb->watermark_scale_factor = p->watermark_scale_factor;
    sb->no_watermarks = p->no_watermarks;
    sb->min_free_kbytes = p->min_free_kbytes;
    sb->dma_limit_pfn = p->rules.dma_limit_pfn;
    sb->dma32_limit_pfn = p->rules.dma32_limit_pfn;
    sb->index_capacity = p->index_capacity;
    sb->slot_bytes = p->set_bytes;
    sb->max_clients = p->max_clients;
    sb->nr_intents = p->max_clients * DK_INTENTS_PER_CLIENT;
    sb->at = p->at;
}

static void write_zones(struct dk_superblock *sb, const struct dk_plan *p)
{
    struct dk_zone *zones = (void *)((unsigned char *)sb + sb->at.zones);

    for (uint32_t node = 0; node < sb->nr_nodes; node++) {
        for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++) {
            if (!(p->zone_types[node] >> type & 1))
                continue;
            struct dk_zone *z = &zones[sb->nr_zones];
            z->node = node;
            z->type = type;
            z->number = sb->nr_zones++;
            sb->zone_of[node][type] = sb->nr_zones;
        }
    }
}

static void write_topology(struct dk_superblock *sb, const struct deckle_config *c)
{
    uint32_t n = sb->nr_nodes;
    uint8_t *distances = (uint8_t *)sb + sb->at.distances;
    uint8_t *cpu_nodes = (uint8_t *)sb + sb->at.cpu_nodes;

    for (uint32_t i = 0; i < n * n; i++)
        distances[i] = c->distances ? c->distances[i] : i % (n + 1) ? 20 : 10;
    if (c->cpu_nodes)
        memcpy(cpu_nodes, c->cpu_nodes, sb->nr_cpus);
}

static int choose_kind(uint32_t features, const struct deckle_host *host, uint32_t *kind)
{
    struct deckle_host h;
    int error = read_host(host, &h);

    if (error)
        return error;
    *kind = DK_PCP_CELLS;
    if (features & DECKLE_FEATURE_NO_CACHES)
        *kind = DK_PCP_NONE;
    else if (can_use_rseq(&h) && !(features & (DECKLE_FEATURE_CELLS | DECKLE_FEATURE_SHARED)))
        *kind = DK_PCP_RSEQ;
    return DECKLE_OK;
}

int deckle_init(void *mem, size_t mem_size, const struct deckle_config *cfg,
                const struct deckle_host *host, struct deckle **out)
{
    struct dk_plan plan = {0};
    int error;

    if (!mem || !out || (uintptr_t)mem % DK_LINE_BYTES)
        return DECKLE_EINVAL;
    error = dk_plan_config(cfg, &plan, NULL);
    if (error)
        return error;
    if (mem_size < DK_HANDLE_BYTES + plan.total_bytes)
        return DECKLE_ENOSPC;

    struct dk_superblock *sb = (void *)((unsigned char *)mem + DK_HANDLE_BYTES);
    uint32_t kind;
    error = choose_kind(plan.rules.features, host, &kind);
    if (error)
        return error;
    write_numbers(sb, &plan);
    sb->kind = kind;
    dk_tunables_init(sb);
    write_zones(sb, &plan);
    write_topology(sb, cfg);
    error = dk_handle_attach(mem, sb, plan.total_bytes, host);
    if (error)
        return error;
    dk_zonelists_rebuild(mem);
    *out = mem;
    return DECKLE_OK;
}
