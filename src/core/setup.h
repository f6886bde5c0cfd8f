/* SPDX-License-Identifier: MIT */
/*
 * Making and attaching pools: setup.c. What the other set-up files share.
 */
#ifndef DK_CORE_SETUP_H
#define DK_CORE_SETUP_H

#include "core/layout.h"

#define DK_HANDLE_MAGIC UINT64_C(0x6465636b6c652e68)

/*
 * Fill a handle that looks at the metadata at sb, of which `bytes` can be read. Nothing in it is
 * believed before it was checked: DECKLE_EVERSION (another version or word size), DECKLE_ECORRUPT
 * (no pool, or an array outside it), DECKLE_EINVAL (alignment, host), DECKLE_ENOTSUP (caches of a
 * kind that this host cannot use).
 */
int dk_handle_attach(struct deckle *d, struct dk_superblock *sb, uint64_t bytes,
                     const struct deckle_host *host);

/* DK_SLOW_… of the pool as it is now; for whoever changed what they depend on. */
void dk_update_slow(struct deckle *d);

/* online.c: set the state bytes of nr frames from fi on. */
void dk_state_fill(struct deckle *d, uint32_t fi, uint64_t nr, uint8_t state);

/* online.c: sections and the frames counted in the zones have changed: bounds, marks, zonelists and
 * the handle follow. */
void dk_memory_changed(struct deckle *d);

/* marks.c: watermarks, reserves, thresholds and cache sizes of all zones, from their managed
 * frames. */
void dk_update_marks(struct deckle *d);

/* range.c: the first range that ends above pfn; nr_ranges if there is none. */
uint32_t dk_range_above(const struct deckle *d, uint64_t pfn);

/* range.c: is there room for this reservation, and add it, merging those that touch. */
bool dk_reservation_fits(const struct deckle *d, uint64_t pfn, uint64_t nr);
void dk_reservation_add(struct deckle *d, uint64_t pfn, uint64_t nr);

#endif
