/* SPDX-License-Identifier: MIT */
/*
 * Figures of a zone, each derived from the one place where it is counted (stats.c says which).
 * Text, JSON, the public structs and validation all read them here. Relaxed loads; exact when the
 * pool is quiet, else each is exact at some instant of the call unless said.
 */
#ifndef DK_CORE_STATS_H
#define DK_CORE_STATS_H

#include "base/div64.h"
#include "core/layout.h"

#define DK_ANY_TYPE  DECKLE_NR_MIGRATETYPES
#define DK_NR_ORDERS (DECKLE_MAX_ORDER_LIMIT + 1)

/* DK_NONE where the pool has no such zone. */
static inline uint32_t dk_zone_number(const struct deckle *d, uint32_t node, unsigned type)
{
    return d->sb->zone_of[node][type] - 1u; /* 0 - 1 = DK_NONE */
}
static inline uint32_t dk_cpu_node(const struct deckle *d, uint32_t cpu)
{
    return d->cpu_nodes[cpu];
}
static inline bool dk_zone_is_populated(const struct dk_zone *zone)
{
    return dk_load_relaxed(&zone->present) != 0;
}
static inline uint64_t dk_zone_spanned(const struct dk_zone *zone)
{
    return dk_sub_sat64(dk_pfn_load(&zone->end_pfn), dk_pfn_load(&zone->start_pfn));
}
/* Is the zone type one of this pool's columns? HighMem is there only if it was configured. */
static inline bool dk_zone_type_shown(const struct deckle *d, unsigned type)
{
    return type != DECKLE_ZONE_HIGHMEM || (d->sb->features & DECKLE_FEATURE_HIGHMEM);
}

/* Blocks given out and taken back by order, on every CPU; by any path. */
void dk_zone_flow(const struct deckle *d, const struct dk_zone *zone, uint64_t allocs[DK_NR_ORDERS],
                  uint64_t frees[DK_NR_ORDERS]);

struct dk_numa_stat {
    uint64_t hit, miss, foreign, local, other, interleave;
};
void dk_zone_numa(const struct deckle *d, const struct dk_zone *zone, struct dk_numa_stat *out);

/* Traffic between caches and the shared level. */
struct dk_traffic_stat {
    uint64_t refills, refill_frames, drains, drain_frames, direct_allocs, direct_frees;
};
void dk_zone_traffic(const struct deckle *d, const struct dk_zone *zone,
                     struct dk_traffic_stat *out);

/* Frames that the caches of one CPU, or of all, hold of a zone. */
uint64_t dk_cpu_cached(const struct deckle *d, const struct dk_zone *zone, uint32_t cpu);
uint64_t dk_zone_cached(const struct deckle *d, const struct dk_zone *zone);

/* Free blocks by order, of one migratetype (Isolate: isolated blocks) or DK_ANY_TYPE. Linear. */
void dk_zone_free_blocks(const struct deckle *d, const struct dk_zone *zone, unsigned type,
                         uint64_t blocks[DK_NR_ORDERS]);

/* Pageblocks by migratetype; those that are offline count nowhere. Linear in the pageblocks. */
void dk_zone_pageblocks(const struct deckle *d, const struct dk_zone *zone,
                        uint64_t blocks[DECKLE_NR_MIGRATETYPES]);

/* Frames of the pool: present, reserved ones included. */
uint64_t dk_pool_frames(const struct deckle *d);
/* Bytes of the caller's memory in use: handle and metadata. */
uint64_t dk_metadata_bytes(const struct deckle *d);

/* "DMA", "DMA32", "Normal", "HighMem", "Movable"; "Unmovable", …, "Isolate". */
const char *dk_zone_type_name(unsigned type);
const char *dk_migratetype_name(unsigned type);

#endif
