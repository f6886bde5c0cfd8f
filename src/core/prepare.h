/* SPDX-License-Identifier: MIT */
/*
 * What is done to a block beside finding it: between cache and caller on allocation, between caller
 * and cache on a free. The plain fast paths do only the state byte; everything else (run-time
 * switches, descriptors, owner tags, ZERO, hooks) is here, behind one test of deckle.slow.
 */
#ifndef DK_CORE_PREPARE_H
#define DK_CORE_PREPARE_H

#include "core/layout.h"

/*
 * The block at fi, which nobody else knows, becomes allocated. False: it must not be given out (its
 * state byte was not 0, or its poison was damaged); it has been reported and stays out of use.
 */
bool dk_prepare_alloc(struct deckle *d, uint32_t fi, unsigned order, uint32_t gfp,
                      unsigned pcp_type, uint32_t owner, const void *caller);

/* Why a request cannot be prepared in this pool (ZERO without map hook): DECKLE_OK or ENOTSUP. */
int dk_prepare_check(const struct deckle *d, uint32_t gfp);

/*
 * A block given back by its user: all checks, then state 0, poison, zero, hooks. DECKLE_OK: the
 * block at *fi of *zone is now nobody's and *pcp_type says which list it belongs to.
 * DECKLE_EBADFREE: refused and reported; nothing changed. owner 0 = not said.
 */
int dk_prepare_free(struct deckle *d, uint64_t pfn, unsigned order, uint32_t owner,
                    const void *caller, uint32_t *fi, uint32_t *zone, unsigned *pcp_type);

#endif
