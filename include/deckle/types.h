/* SPDX-License-Identifier: MIT */
/*
 * Scalar types, enumerations and limits of Deckle's interface; no functions. Included by deckle.h.
 *
 * A frame is named by its pfn, a uint64_t on every machine. Functions that return a frame return
 * int64_t: the pfn when >= 0, one of the errors below when negative. Values are part of the binary
 * interface: none is ever renumbered or used again.
 */
#ifndef DECKLE_TYPES_H
#define DECKLE_TYPES_H

#include <stdint.h>

/* ---- errors --------------------------------------------------------------------------------- */

/* Results of int and int64_t functions. The values are Deckle's own, not those of <errno.h>. */
enum deckle_error {
    DECKLE_OK = 0,
    DECKLE_EINVAL = -1,       /* an argument, or a combination of them, is not legal */
    DECKLE_E2BIG = -2,        /* order or count above the maximum */
    DECKLE_ENODEV = -3,       /* no such node or zone */
    DECKLE_ECONSTRAINED = -4, /* node mask, THISNODE or address limit excludes the free memory */
    DECKLE_EWATERMARK = -5,   /* memory is free, but only below the mark this request may use */
    DECKLE_EFRAGMENTED = -6,  /* enough frames are free, but no run of them is long enough */
    DECKLE_ENOMEM = -7,       /* empty */
    DECKLE_ECONTENDED = -8,   /* other operations held what would fit; trying again makes sense */
    DECKLE_EEXIST = -9,       /* already there */
    DECKLE_ENOENT = -10,      /* not there */
    DECKLE_EBUSY = -11,       /* in use */
    DECKLE_ENOSPC = -12,      /* metadata area or table full */
    DECKLE_EVERSION = -13,    /* metadata of another version or word size */
    DECKLE_ECORRUPT = -14,    /* metadata contradicts itself */
    DECKLE_EBADFREE = -15,    /* a free that was refused */
    DECKLE_EOVERFLOW = -16,   /* a count would not fit */
    DECKLE_EPERM = -17,       /* not allowed to this caller */
    DECKLE_ENOTSUP = -18,     /* not available in this pool or build, or a hook is missing */
    DECKLE_EBACKING = -19     /* a hook of the host failed */
};

/* ---- zones ---------------------------------------------------------------------------------- */

/* Zones of a node, from the most to the least constrained. A request names the highest zone that it
 * may use and gets that one or a lower one. */
enum deckle_zone_type {
    DECKLE_ZONE_DMA = 0,
    DECKLE_ZONE_DMA32 = 1,
    DECKLE_ZONE_NORMAL = 2,
    DECKLE_ZONE_HIGHMEM = 3,
    DECKLE_ZONE_MOVABLE = 4, /* holds only what can be migrated or reclaimed */
    DECKLE_NR_ZONE_TYPES = 5
};

/* ---- migratetypes --------------------------------------------------------------------------- */

/* What a pageblock holds. The names are Linux's, the numbers are not: Movable, the type of every
 * block at first, is zero, so that zeroed metadata needs no writing. The first three have per-CPU
 * lists and fall back to one another. */
enum deckle_migratetype {
    DECKLE_MOVABLE = 0,
    DECKLE_UNMOVABLE = 1,
    DECKLE_RECLAIMABLE = 2,
    DECKLE_NR_PCP_TYPES = 3,
    DECKLE_HIGHATOMIC = 3, /* reserve of urgent requests of order > 0 */
    DECKLE_CMA = 4,        /* contiguous areas, lent to Movable requests */
    DECKLE_ISOLATE = 5,    /* not allocatable */
    DECKLE_NR_MIGRATETYPES = 6
};

/* ---- limits --------------------------------------------------------------------------------- */

#define DECKLE_MAX_ORDER_LIMIT   18u /* largest order that a pool can be configured for */
#define DECKLE_DEFAULT_MAX_ORDER 10u
#define DECKLE_PAGEBLOCK_ORDER   9u
#define DECKLE_PAGEBLOCK_PAGES   512u /* 1 << DECKLE_PAGEBLOCK_ORDER */

#endif
