/* SPDX-License-Identifier: MIT */
/*
 * Figures of the pool. Nothing is counted twice, so most figures are derived:
 *
 *   allocations of an order   what the cache lists of that order were popped, on all CPUs, and the
 * blocks that went past them (direct_allocs) frees of an order         the same with pushes and
 * direct_frees NUMA                      let A be the zone's allocations of all orders, A(C) those
 * made on CPU C. miss and foreign are counted where they happen, which is off the fast path. hit =
 * A - miss. local = sum of A(C) over the CPUs of the zone's node, other = A - local. free blocks
 * the bits (walk.h) cached frames             the headers of the lists
 *
 * A difference that other CPUs make negative for a moment is shown as 0.
 */
#include "core/stats.h"

#include "base/div64.h"
#include "base/mem.h"
#include "core/config.h"
#include "core/pcp.h"
#include "core/section.h"
#include "core/walk.h"
#include "core/zone.h"

void dk_zone_flow(const struct deckle *d, const struct dk_zone *zone, uint64_t allocs[DK_NR_ORDERS],
                  uint64_t frees[DK_NR_ORDERS])
{
    struct dk_pcp_list_stat stat;

    memset(allocs, 0, DK_NR_ORDERS * sizeof(allocs[0]));
    memset(frees, 0, DK_NR_ORDERS * sizeof(frees[0]));
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);

        for (unsigned order = 0; order < DK_NR_ORDERS; order++) {
            allocs[order] += dk_counter_read(&set->direct_allocs[order]);
            frees[order] += dk_counter_read(&set->direct_frees[order]);
        }
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            dk_pcp_list_stat(d, zone->number, cpu, list, &stat);
            allocs[list / DK_PCP_TYPES] += stat.pops;
            frees[list / DK_PCP_TYPES] += stat.pushes;
        }
    }
}

static uint64_t allocs_on_cpu(const struct deckle *d, const struct dk_zone *zone, uint32_t cpu)
{
    const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
    struct dk_pcp_list_stat stat;
    uint64_t sum = 0;

    for (unsigned order = 0; order < DK_NR_ORDERS; order++)
        sum += dk_counter_read(&set->direct_allocs[order]);
    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        dk_pcp_list_stat(d, zone->number, cpu, list, &stat);
        sum += stat.pops;
    }
    return sum;
}

void dk_zone_numa(const struct deckle *d, const struct dk_zone *zone, struct dk_numa_stat *out)
{
    uint64_t all = 0;

    *out = (struct dk_numa_stat){0};
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
        uint64_t here = allocs_on_cpu(d, zone, cpu);

        all += here;
        if (dk_cpu_node(d, cpu) == zone->node)
            out->local += here;
        out->miss += dk_counter_read(&set->numa_miss);
        out->foreign += dk_counter_read(&set->numa_foreign);
        out->interleave += dk_counter_read(&set->numa_interleave);
    }
    out->hit = dk_sub_sat64(all, out->miss);
    out->other = all - out->local;
}

void dk_zone_traffic(const struct deckle *d, const struct dk_zone *zone,
                     struct dk_traffic_stat *out)
{
    *out = (struct dk_traffic_stat){0};
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);

        out->refills += dk_counter_read(&set->refills);
        out->refill_frames += dk_counter_read(&set->refill_frames);
        out->drains += dk_counter_read(&set->drains);
        out->drain_frames += dk_counter_read(&set->drain_frames);
        for (unsigned order = 0; order < DK_NR_ORDERS; order++) {
            out->direct_allocs += dk_counter_read(&set->direct_allocs[order]);
            out->direct_frees += dk_counter_read(&set->direct_frees[order]);
        }
    }
}

uint64_t dk_cpu_cached(const struct deckle *d, const struct dk_zone *zone, uint32_t cpu)
{
    uint64_t frames = 0;

    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        struct dk_pcp_list_stat stat;

        dk_pcp_list_stat(d, zone->number, cpu, list, &stat);
        frames += stat.held << (list / DK_PCP_TYPES);
    }
    return frames;
}

uint64_t dk_zone_cached(const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t frames = 0;

    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        frames += dk_cpu_cached(d, zone, cpu);
    return frames;
}

void dk_zone_free_blocks(const struct deckle *d, const struct dk_zone *zone, unsigned type,
                         uint64_t blocks[DK_NR_ORDERS])
{
    struct dk_free_walk walk;
    struct dk_free_block block;

    memset(blocks, 0, DK_NR_ORDERS * sizeof(blocks[0]));
    dk_free_walk_begin(&walk, d, zone->number);
    while (dk_free_walk_next(&walk, &block))
        if (type == DK_ANY_TYPE || type == block.type)
            blocks[block.order]++;
}

void dk_zone_pageblocks(const struct deckle *d, const struct dk_zone *zone,
                        uint64_t blocks[DECKLE_NR_MIGRATETYPES])
{
    struct dk_section_view s;

    memset(blocks, 0, DECKLE_NR_MIGRATETYPES * sizeof(blocks[0]));
    for (uint64_t pfn = 0; dk_section_from(d, pfn, &s); pfn = s.pfn + s.nr) {
        if (s.zone != zone->number)
            continue;
        for (uint32_t b = dk_section_first_block(&s); b < dk_section_end_block(&s); b++) {
            dk_word w = dk_load_relaxed(&d->words[b]);
            unsigned type = dk_w_shown_type(w);

            if (!(w & DK_W_OFFLINE) && type < DECKLE_NR_MIGRATETYPES)
                blocks[type]++;
        }
    }
}

uint64_t dk_pool_frames(const struct deckle *d)
{
    uint64_t frames = 0;

    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        frames += dk_load_relaxed(&d->zones[i].present);
    return frames;
}

uint64_t dk_metadata_bytes(const struct deckle *d)
{
    return DK_HANDLE_BYTES + d->sb->total_bytes;
}

const char *dk_zone_type_name(unsigned type)
{
    static const char *const names[] = {"DMA", "DMA32", "Normal", "HighMem", "Movable"};

    return type < DK_ARRAY_LEN(names) ? names[type] : "?";
}

const char *dk_migratetype_name(unsigned type)
{
    static const char *const names[] = {"Movable",    "Unmovable", "Reclaimable",
                                        "HighAtomic", "CMA",       "Isolate"};

    return type < DK_ARRAY_LEN(names) ? names[type] : "?";
}

/* ---- the public structs -------------------------------------------------------------------- */

/* Sizes of the first published version. A caller built against it is served for ever; one built
 * against a longer struct than this library's finds zeroes behind what the library knows. */
#define STAT_SIZE_1      sizeof(struct deckle_stat)
#define ZONE_STAT_SIZE_1 sizeof(struct deckle_zone_stat)

static void clear_keeping_size(void *out, uint32_t size)
{
    memset((unsigned char *)out + sizeof(size), 0, size - sizeof(size));
}

int deckle_get_stat(const struct deckle *d, struct deckle_stat *out)
{
    const struct dk_superblock *sb;

    if (!d || !out || out->size < STAT_SIZE_1)
        return DECKLE_EINVAL;
    sb = d->sb;
    clear_keeping_size(out, out->size);
    out->nr_zones = sb->nr_zones;
    for (unsigned i = 0; i < DK_ARRAY_LEN(out->failures); i++)
        out->failures[i] = dk_counter_read(&sb->failures[i]);
    for (unsigned i = 0; i < DK_ARRAY_LEN(out->bad); i++)
        out->bad[i] = dk_counter_read(&sb->bad[i]);
    out->split_blocks = dk_counter_read(&sb->split_blocks);
    out->remote_drains = dk_counter_read(&sb->remote_drains);
    out->drain_retries = dk_counter_read(&sb->drain_retries);
    out->metadata_bytes = dk_metadata_bytes(d);
    out->nr_frames = dk_pool_frames(d);
    return DECKLE_OK;
}

/* What the zone itself keeps. */
static void fill_from_zone(const struct deckle *d, const struct dk_zone *z,
                           struct deckle_zone_stat *out)
{
    out->node = z->node;
    out->type = (enum deckle_zone_type)z->type;
    out->populated = dk_zone_is_populated(z);
    out->start_pfn = dk_pfn_load(&z->start_pfn);
    out->spanned = dk_zone_spanned(z);
    out->present = dk_load_relaxed(&z->present);
    out->managed = dk_load_relaxed(&z->managed);
    out->reserved = dk_load_relaxed(&z->reserved);
    out->cma = dk_zone_count(d, z, DK_COUNT_CMA);
    out->free = dk_zone_free_exact(d, z);
    out->free_cma = dk_zone_count(d, z, DK_COUNT_FREE_CMA);
    out->free_highatomic = dk_zone_count(d, z, DK_COUNT_FREE_HIGHATOMIC);
    out->free_isolated = dk_zone_count(d, z, DK_COUNT_FREE_ISOLATED);
    out->min = dk_load_relaxed(&z->min);
    out->low = dk_load_relaxed(&z->low);
    out->high = dk_load_relaxed(&z->high);
    out->promo = dk_load_relaxed(&z->promo);
    out->boost = dk_load_relaxed(&z->boost);
    for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        out->lowmem_reserve[type] = dk_load_relaxed(&z->lowmem_reserve[type]);
    out->fallback_claims = dk_counter_read(&z->claims);
    out->fallback_steals = dk_counter_read(&z->steals);
}

static void fill_numa(const struct deckle *d, const struct dk_zone *z, struct deckle_zone_stat *out)
{
    struct dk_numa_stat numa;

    dk_zone_numa(d, z, &numa);
    out->numa_hit = numa.hit;
    out->numa_miss = numa.miss;
    out->numa_foreign = numa.foreign;
    out->numa_local = numa.local;
    out->numa_other = numa.other;
    out->numa_interleave = numa.interleave;
}

static void fill_traffic(const struct deckle *d, const struct dk_zone *z,
                         struct deckle_zone_stat *out)
{
    struct dk_traffic_stat traffic;

    dk_zone_traffic(d, z, &traffic);
    out->refills = traffic.refills;
    out->refill_frames = traffic.refill_frames;
    out->drains = traffic.drains;
    out->drain_frames = traffic.drain_frames;
    out->direct_allocs = traffic.direct_allocs;
    out->direct_frees = traffic.direct_frees;
}

int deckle_get_zone_stat(const struct deckle *d, uint32_t zone, struct deckle_zone_stat *out)
{
    const struct dk_zone *z;

    if (!d || !out || out->size < ZONE_STAT_SIZE_1)
        return DECKLE_EINVAL;
    if (zone >= d->sb->nr_zones)
        return DECKLE_ENODEV;
    z = &d->zones[zone];
    clear_keeping_size(out, out->size);
    fill_from_zone(d, z, out);
    fill_numa(d, z, out);
    fill_traffic(d, z, out);
    out->cached = dk_zone_cached(d, z);
    dk_zone_flow(d, z, out->allocs, out->frees);
    dk_zone_free_blocks(d, z, DK_ANY_TYPE, out->free_blocks);
    return DECKLE_OK;
}
