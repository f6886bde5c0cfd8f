/* SPDX-License-Identifier: MIT */
/* What text.c and text_json.c share: which zones are printed, and the buffer in front of emit. */
#ifndef DK_CORE_TEXT_H
#define DK_CORE_TEXT_H

#include "base/format.h"
#include "core/layout.h"
#include "core/stats.h"

/* Pieces of this size reach the emit function. */
#define DK_TEXT_BUFFER 128u

/* The zone of a type on a node; NULL where the pool has none. */
const struct dk_zone *dk_text_zone(const struct deckle *d, uint32_t node, unsigned type);

/* The zones of the pool, node by node and in a node from DMA up. *position starts at 0; NULL at the
 * end. */
const struct dk_zone *dk_text_next_zone(const struct deckle *d, uint32_t *position,
                                        bool populated_only);

/* Thousandths as Linux's debugfs prints them: "0.333", "-1.000"; width is that of the integer part
 * of those that are not negative. */
void dk_text_thousandths(struct dk_text *t, int width, int thousandths);

#endif
