/* SPDX-License-Identifier: MIT */
/*
 * What the core can be compiled without, one thing at a time, to see what each is worth: the table
 * `ablation` of deckle bench measures copies of the library that were built with one of these set
 * to 0. Nothing else sets them. What is left out changes no result of a correct program, but for
 * DK_CHECKS, without which wrong frees go unnoticed.
 *
 * Two more are where they belong: DK_PCP_MAX_ORDER (layout.h), the largest order that has lists,
 * and DK_COUNTERS (base/atomic.h), statistics.
 */
#ifndef DK_CORE_ABLATION_H
#define DK_CORE_ABLATION_H

/* The walk over the zonelist is inline (zonelist.h). */
#ifndef DK_WALK_IS_INLINE
#define DK_WALK_IS_INLINE 1
#endif

/* Order-0 requests ask the zone's free count first, and the full rule only if that is not enough
 * (alloc.c). */
#ifndef DK_MARK_SHORTCUT
#define DK_MARK_SHORTCUT 1
#endif

/* A refill claims what it wants of a word by one CAS (block.c), else frame by frame. */
#ifndef DK_CLAIMS_WORDS
#define DK_CLAIMS_WORDS 1
#endif

/* A drain gives back neighbours in one pageblock together (zone.c). */
#ifndef DK_DRAINS_GROUPS
#define DK_DRAINS_GROUPS 1
#endif

/* When the state byte is looked at and written: never, when a frame enters or leaves the caches
 * (as Linux 4.7 did), at every allocation and free. */
#define DK_CHECKS_NEVER    0
#define DK_CHECKS_DEFERRED 1
#define DK_CHECKS_ALWAYS   2
#ifndef DK_CHECKS
#define DK_CHECKS DK_CHECKS_ALWAYS
#endif

#endif
