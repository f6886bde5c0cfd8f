/* SPDX-License-Identifier: MIT */
/*
 * From a configuration to the layout of the metadata: one computation that the size query and
 * deckle_init share. Pure.
 */
#ifndef DK_CORE_CONFIG_H
#define DK_CORE_CONFIG_H

#include "core/layout.h"

/* The handle lies in front of the superblock. A page of its own, so that the offsets of arrays,
 * multiples of 4096, are addresses that are multiples of it when the caller's memory begins on a
 * page. */
#define DK_HANDLE_BYTES (((sizeof(struct deckle)) + 4095u) & ~(size_t)4095u)

/* Most pieces that a range is divided into: below, between and above the limits of DMA and DMA32.
 * */
#define DK_MAX_PIECES 3u

/* A part of a range that lies in one zone. */
struct dk_piece {
    uint64_t pfn, nr;
    uint32_t node;
    uint32_t type; /* enum deckle_zone_type */
};

/* Operations on the shared level of a shared pool that can be under way at once, for each client
 * that it may have; all clients use the slots of all. */
#define DK_INTENTS_PER_CLIENT 64u

/* What decides where a range belongs. */
struct dk_range_rules {
    uint64_t dma_limit_pfn, dma32_limit_pfn; /* first pfn above the zone; 0 = no such zone */
    uint32_t nr_nodes;
    uint32_t features;
};

/* Check a range and divide it at the zone limits. Returns the number of pieces, or DECKLE_EINVAL
 * with *reason (may be NULL) set. */
int dk_divide_range(const struct dk_range_rules *rules, const struct deckle_range *range,
                    struct dk_piece pieces[DK_MAX_PIECES], const char **reason);

/* Frames, a multiple of 2^max_order, that the arrays keep for a section: whole groups around it. */
static inline uint64_t dk_groups_around(uint64_t pfn, uint64_t nr, unsigned max_order)
{
    uint64_t group = (uint64_t)1 << max_order;
    return dk_align_up(pfn + nr, group) - dk_align_down(pfn, group);
}

/* What follows from a configuration. Small enough for the stack. */
struct dk_plan {
    struct dk_range_rules rules;
    uint32_t page_shift, max_order, nr_cpus, pcp_capacity;
    uint32_t watermark_scale_factor, no_watermarks;
    uint64_t min_free_kbytes;
    uint32_t nr_trees, max_blocks, max_ranges, max_reservations, max_sections, max_spans, max_zones;
    uint32_t max_clients;    /* 0 = not shared */
    uint64_t index_capacity; /* words */
    uint64_t set_bytes;      /* of a cache set, the larger kind */
    uint64_t total_bytes;    /* metadata, handle not included */
    struct dk_offsets at;
    uint8_t zone_types[DECKLE_MAX_NODES]; /* bit per enum deckle_zone_type that the node can have */
};

/* DECKLE_OK, or DECKLE_EINVAL / E2BIG / ENOTSUP with *reason (may be NULL) set to a sentence that
 * names field and bounds. */
int dk_plan_config(const struct deckle_config *cfg, struct dk_plan *plan, const char **reason);

/* A copy of cfg in the form this version knows; DECKLE_EINVAL when its size says otherwise. */
int dk_config_read(const struct deckle_config *cfg, struct deckle_config *out,
                   const char **reason);

#endif
