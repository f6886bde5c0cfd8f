/* SPDX-License-Identifier: MIT */
/*
 * What the files of compaction share: compact.c (which zones, when), compact_scan.c (the two
 * scanners), compact_area.c (one area is emptied). Nobody else includes it.
 */
#ifndef DK_CORE_COMPACT_INTERNAL_H
#define DK_CORE_COMPACT_INTERNAL_H

#include "core/pressure.h"
#include "core/zone_internal.h"

/*
 * Where blocks are moved to: pageblocks from the top of the zone down, by order of the block that
 * is moved, since a pageblock without a run of order 3 may have single frames. None below `floor`,
 * which follows the migration scanner, but for pageblocks that cannot be emptied anyway, if
 * use_stuck says so: those first, wherever they lie.
 */
struct dk_free_scanner {
    struct deckle *d;
    struct dk_zone *zone;
    uint32_t floor;
    bool use_stuck, any_type;
    uint32_t cursor[DK_BLOCK_ORDER]; /* next pageblock + 1 to look at; 0 = none left */
    uint32_t stuck[DK_BLOCK_ORDER];  /* the same for those that cannot be emptied */
    uint64_t scanned;
};

/* A run of 2^order frames, taken and nobody's: its first frame; DK_NONE: there is no more. Never
 * from a pageblock that is free as a whole. `avoid`: the pageblock that is being emptied. */
uint32_t dk_free_scanner_take(struct dk_free_scanner *f, unsigned order, uint32_t avoid);

/* The pageblock of the zone at or above / below `block`, in the order of block numbers; DK_NONE at
 * the end. *span: the one that it lies in. */
uint32_t dk_zone_block_from(const struct deckle *d, const struct dk_zone *zone, uint32_t block,
                            const struct dk_span **span);
uint32_t dk_zone_block_down(const struct deckle *d, const struct dk_zone *zone, uint32_t block,
                            const struct dk_span **span);

/* What an area holds, as its state bytes say now. */
struct dk_area_survey {
    unsigned movable; /* frames in blocks that can be moved */
    unsigned loose;   /* frames in use that belong to no block: in caches, or on their way */
    bool fixed;       /* something that cannot be moved, or a block larger than the area */
};
void dk_area_survey(const struct deckle *d, uint32_t fi, unsigned order,
                    struct dk_area_survey *out);

enum dk_area_result {
    DK_AREA_EMPTIED,   /* all its frames are free, or held if that was asked */
    DK_AREA_FAILED,    /* something could not be moved or taken */
    DK_AREA_LOOSE,     /* nothing is left to move, but frames of it lie in caches */
    DK_AREA_NO_TARGET  /* nowhere to move to */
};

/*
 * Empty the aligned area of 2^order frames at fi (order up to max_order). hold: EMPTIED means that
 * the area is the caller's, as dk_zone_take would have given it; else its frames are free, for
 * whoever comes first.
 */
enum dk_area_result dk_area_empty(struct dk_compaction *c, struct dk_zone *zone,
                                  const struct dk_span *span, uint32_t fi, unsigned order,
                                  struct dk_free_scanner *f, bool hold);

#endif
