/* SPDX-License-Identifier: MIT */
/* Reports of wrong frees and contradictions: counted, and told to the host's bad hook. */
#ifndef DK_CORE_CHECK_H
#define DK_CORE_CHECK_H

#include "core/layout.h"

/* Fill in what the metadata knows about pfn, count and report it. Called with nothing held. */
void dk_report(struct deckle *d, enum deckle_bad what, uint64_t pfn, unsigned order,
               const void *caller);

/* The same with the fields that only the caller knows filled in: what, pfn, order, caller, and for
 * POISON offset, value, single_bit. */
void dk_report_full(struct deckle *d, struct deckle_bad_report *report);

/* The same for a frame index whose state contradicts the metadata. */
void dk_bad_state(struct deckle *d, uint32_t fi, unsigned order);

/* Why a free of (pfn, order) is wrong, given that its state byte does not say "head of this
 * order". */
enum deckle_bad dk_why_bad(const struct deckle *d, uint64_t pfn, unsigned order);

/* Head of the allocated block that contains fi, DK_NONE if there is none. */
uint32_t dk_head_of(const struct deckle *d, uint32_t fi);

#endif
