/* SPDX-License-Identifier: MIT */
/*
 * What the parts of deckle_validate share: validate.c (counters, caches, the public functions),
 * validate_table.c (superblock and tables), validate_block.c (pageblocks, frames, index).
 *
 * A check returns true when it found nothing. The first contradiction found is said in one sentence
 * and ends the validation. Nothing is read through a number that was not compared with its bound
 * before.
 */
#ifndef DK_CORE_VALIDATE_H
#define DK_CORE_VALIDATE_H

#include "base/format.h"
#include "core/layout.h"
#include "core/section.h"

struct dk_check {
    const struct deckle *d;
    struct dk_text text; /* the sentence */
};

/* Say what is wrong with the pool, a zone, a pageblock, a frame. All return false. */
bool dk_bad_pool(struct dk_check *c, const char *format, ...) DK_PRINTF(2, 3);
bool dk_bad_zone(struct dk_check *c, const struct dk_zone *zone, const char *format, ...)
    DK_PRINTF(3, 4);
bool dk_bad_block(struct dk_check *c, uint32_t block, const char *format, ...) DK_PRINTF(3, 4);
bool dk_bad_frame(struct dk_check *c, uint64_t fi, const char *format, ...) DK_PRINTF(3, 4);

/* Superblock, offsets and the handle: what everything else relies on. Constant time. */
bool dk_check_superblock(struct dk_check *c);
/* Zones, spans, sections, ranges, reservations, zonelists. Linear in their number (times log of
 * it). */
bool dk_check_tables(struct dk_check *c);
/* One section and its span, before its pageblocks are looked at. */
bool dk_check_section(struct dk_check *c, const struct dk_section_view *s);

/* A set of frames without memory for it: their number and the sum of a hash of each. Two ways to
 * find the same frames give the same pair, and different ones do not but by an accident of 2^-64.
 */
struct dk_frame_set {
    uint64_t nr, sum;
};

static inline void dk_frame_set_add(struct dk_frame_set *set, uint64_t fi)
{
    uint64_t h = (fi + 1) * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64's mixer */

    h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
    set->nr++;
    set->sum += h ^ (h >> 31);
}

/* What was counted in pageblocks; frames unless said. */
struct dk_tally {
    uint64_t free; /* outside isolated blocks */
    uint64_t free_cma, free_highatomic, free_isolated;
    uint64_t allocated; /* in blocks that have a head */
    uint64_t reserved, holes;
    struct dk_frame_set loose; /* used, but in no block and not reserved: must be in a cache */
    uint64_t highatomic_blocks, cma_blocks, open_blocks; /* pageblocks; open = not offline */
};

/* Shared pools: is the frame, or whole pageblock, that of a client that is dead or leaving? Then
 * nobody knows where it is, until somebody reaps. */
bool dk_is_orphan(const struct deckle *d, uint64_t fi);
/* Shared pools: does an unfinished operation name the pageblock, or does it wait for a recount? */
bool dk_is_unsettled(const struct deckle *d, uint32_t block);
/* Clients, slots, epoch. */
bool dk_check_sharing(struct dk_check *c);

/* Pageblocks first … end-1, all of section s; adds to *tally. */
bool dk_check_blocks(struct dk_check *c, const struct dk_section_view *s, uint32_t first,
                     uint32_t end, struct dk_tally *tally);

/* Are all frames of the block used, by their bits or as whole pageblocks? fi and order are in
 * bounds. */
bool dk_frames_used(const struct deckle *d, uint32_t fi, unsigned order);

#endif
