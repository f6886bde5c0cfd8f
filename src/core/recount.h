/* SPDX-License-Identifier: MIT */
/* Pageblocks of shared pools that must be counted again: see recount.c. */
#ifndef DK_CORE_RECOUNT_H
#define DK_CORE_RECOUNT_H

#include "core/zone_internal.h"

/* Count a block that is in quarantine again. `self`: a client whose intents count as dead though
 * its word does not say so (one that leaves), 0 = none. false: live intents name the block, or no
 * slot is free; it stays closed. */
bool dk_block_recount(struct deckle *d, uint32_t block, uint32_t self);

/* Are the intents of this client nobody's any more? */
bool dk_intents_dead(const struct deckle *d, uint32_t client, uint32_t self);

/* The span of a block that a slot or another shared word names; NULL if there is no such block. */
struct dk_span *dk_span_of_any(const struct deckle *d, uint32_t block, struct dk_zone **zone);

#endif
