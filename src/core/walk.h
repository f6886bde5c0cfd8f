/* SPDX-License-Identifier: MIT */
/*
 * Walks over the frames of a pool in pfn order: free blocks as buddyinfo counts them, and heads of
 * allocated blocks. Read only, iterative, a few words of state; linear in the pageblocks, and in
 * the frames of those that are partly used.
 *
 * A free block here is what the buddy system would list: an aligned run of 2^order free frames that
 * is part of no larger one. Below a pageblock the line's bits decide. Pageblocks that are free as a
 * whole merge, up to the pool's max_order, where the allocator itself would hand them out as one
 * block (dk_w_is_groupable): never with isolated, CMA or HighAtomic blocks, and never across
 * sections, whose frames are not neighbours.
 *
 * On a running pool each pageblock is seen at one instant, not all at the same one.
 */
#ifndef DK_CORE_WALK_H
#define DK_CORE_WALK_H

#include "core/blockinfo.h"
#include "core/layout.h"

struct dk_free_block {
    uint32_t fi;
    uint32_t order;
    uint32_t type; /* enum deckle_migratetype of its first pageblock; Isolate if isolated */
};

struct dk_free_walk {
    const struct deckle *d;
    uint32_t zone;       /* zone number, DK_NONE = all */
    uint64_t next_pfn;   /* where the next section is looked for */
    uint32_t block, end; /* pageblocks of the current section that are left */
    uint32_t offset;     /* frames of `block` seen already */
    uint32_t type;
    uint64_t fi, run_end; /* what is left of the current run of free frames */
};

void dk_free_walk_begin(struct dk_free_walk *w, const struct deckle *d, uint32_t zone);
bool dk_free_walk_next(struct dk_free_walk *w, struct dk_free_block *out);

/* First frame at or after `from` (0 … 512) of a line whose bit is `used`; 512 if there is none. */
unsigned dk_line_next(const dk_aword *line, unsigned from, bool used);

/* Migratetype as users see it: Isolate while the block is isolated. */
static inline unsigned dk_w_shown_type(dk_word w)
{
    return w & DK_W_ISOLATED ? (unsigned)DECKLE_ISOLATE : dk_w_type(w);
}

#endif
