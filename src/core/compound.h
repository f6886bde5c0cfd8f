/* SPDX-License-Identifier: MIT */
/* Page descriptors: one word a frame, only in pools that asked for them. Head of compound.c says
 * what. */
#ifndef DK_CORE_COMPOUND_H
#define DK_CORE_COMPOUND_H

#include "core/layout.h"

/* A block was given out: one reference. */
void dk_descriptor_init(struct deckle *d, uint32_t fi);
/* May it be freed by order? Only with at most the one reference of its allocation. */
bool dk_descriptor_may_free(const struct deckle *d, uint32_t fi);
void dk_descriptor_clear(struct deckle *d, uint32_t fi);

#endif
