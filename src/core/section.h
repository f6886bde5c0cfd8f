/* SPDX-License-Identifier: MIT */
/*
 * The section table: which pfns the pool has, and where their frames are in the arrays. Readers are
 * lock-free and never wait for set-up; the protocol is at the head of section.c. The lookups that
 * everybody uses (dk_pfn_to_fi, dk_fi_to_pfn, dk_zone_of_block) are declared in layout.h.
 */
#ifndef DK_CORE_SECTION_H
#define DK_CORE_SECTION_H

#include "core/layout.h"

/* A copy of a live section. */
struct dk_section_view {
    uint64_t pfn;
    uint64_t nr;       /* frames, at least 1 */
    uint32_t first_fi;
    uint32_t zone;
    uint32_t span;
    uint32_t flags;    /* DECKLE_RANGE_… that hold for every frame of it */
    uint32_t slot;
};

static inline uint32_t dk_section_first_block(const struct dk_section_view *s)
{
    return s->first_fi >> DK_BLOCK_ORDER;
}
/* One past the last block that the section touches. */
static inline uint32_t dk_section_end_block(const struct dk_section_view *s)
{
    return (uint32_t)((s->first_fi + s->nr - 1) >> DK_BLOCK_ORDER) + 1;
}

/* The n-th section in pfn order; false when there are no more. For set-up and quiescent pools:
 * while sections change, one may be seen twice or not at all. */
bool dk_section_nth(const struct deckle *d, uint32_t n, struct dk_section_view *out);

/* The section with the lowest first pfn at or above pfn. Iterated with pfn = s.pfn + s.nr of the
 * last one it visits, in pfn order and while sections change, every frame that is in the pool
 * throughout. */
bool dk_section_from(const struct deckle *d, uint64_t pfn, struct dk_section_view *out);

/* The section that contains pfn, or frame index fi. */
bool dk_section_of_pfn(const struct deckle *d, uint64_t pfn, struct dk_section_view *out);
bool dk_section_of_fi(const struct deckle *d, uint32_t fi, struct dk_section_view *out);

/* A section that has a frame in fi … last. Quiescent. */
bool dk_section_inside(const struct deckle *d, uint32_t fi, uint32_t last,
                       struct dk_section_view *out);

/* Set-up: the section that a slot holds or, if it is free, held last; false if it never held one.
 * */
bool dk_section_last_in(const struct deckle *d, uint32_t slot, struct dk_section_view *out);

/*
 * Change the table, set-up: first all sections of `add` go live, then the slots in `drop` end. In
 * between a pfn may be in two sections, which must then agree on its frame index. The caller has
 * made sure that there are slots for all of `add`. Sets the slots in `add`.
 */
void dk_section_change(struct deckle *d, struct dk_section_view *add, uint32_t nr_add,
                       const uint32_t *drop, uint32_t nr_drop);

/* The same for many new sections, none ending: each is live when it was added. *free_slot is 0 at
 * first. */
void dk_section_begin(struct deckle *d);
void dk_section_add(struct deckle *d, struct dk_section_view *v, uint32_t *free_slot);
void dk_section_end(struct deckle *d);

/* After a change: choose (the first time) or correct the section that the handle knows by itself.
 * */
void dk_section_update_main(struct deckle *d);

#endif
