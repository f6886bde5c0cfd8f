/* SPDX-License-Identifier: MIT */
/*
 * W, the one-word summary of a pageblock: pure functions on a value. The CAS loops that apply them
 * are in zone.c; nothing here touches memory, so every transition can be tested without a thread.
 *
 *   bits  0-9   used frames, 0 … 512: taken, reserved by a taker, or freed but not yet added
 *   bits 10-12  migratetype (enum deckle_migratetype; Isolate is a flag, so that the type survives)
 *   bits 13-16  9 - order of the largest free run, 10 = none. May be too large, never too small,
 *               but for operations that are not finished
 *   bits 17-21  flags
 *   then, where words have 64 bits, for shared pools (docs/design/shared.md):
 *   bit  22     QUARANTINE
 *   bits 23-24  epoch: in which of the zone's counters the block is counted
 *   from 25 or 22 on: version: advances with every give, undo, change of type and loss of the
 *               owner; the run is lowered only by a CAS against the version read before the scan.
 *               As a number W grows with every change (but for wrapping), so it can be summed like
 *               a version
 *
 * Zero is a fresh block: all free, Movable, run of order 9.
 */
#ifndef DK_CORE_BLOCKINFO_H
#define DK_CORE_BLOCKINFO_H

#include "core/layout.h"

#define DK_W_USED_MASK   ((dk_word)0x3ff)
#define DK_W_TYPE_SHIFT  10u
#define DK_W_TYPE_MASK   ((dk_word)7 << DK_W_TYPE_SHIFT)
#define DK_W_RUN_SHIFT   13u
#define DK_W_RUN_MASK    ((dk_word)15 << DK_W_RUN_SHIFT)
#define DK_W_OWNED       ((dk_word)1 << 17) /* a CPU has taken the block: others come last */
#define DK_W_WHOLE       ((dk_word)1 << 18) /* allocated as one block or more: bits are clear */
#define DK_W_ISOLATED    ((dk_word)1 << 19)
#define DK_W_OFFLINE     ((dk_word)1 << 20) /* no frame of it exists or may be given out */
#define DK_W_ZEROED      ((dk_word)1 << 21) /* its free frames are known to be zero */
#if DK_WORD_BITS == 64
#define DK_W_QUARANTINE  ((dk_word)1 << 22) /* to be counted again: no take */
#define DK_W_EPOCH_SHIFT 23u
#define DK_W_EPOCH       ((dk_word)(DK_EPOCHS - 1) << DK_W_EPOCH_SHIFT)
#define DK_W_VERSION_ONE ((dk_word)1 << 25)
#else /* no shared pools: the version needs its ten bits */
#define DK_W_QUARANTINE  ((dk_word)0)
#define DK_W_EPOCH_SHIFT 0u
#define DK_W_EPOCH       ((dk_word)0)
#define DK_W_VERSION_ONE ((dk_word)1 << 22)
#endif
#define DK_W_SHUT        (DK_W_WHOLE | DK_W_ISOLATED | DK_W_OFFLINE | DK_W_QUARANTINE)

#define DK_RUN_NONE 10u /* encoded */

static inline unsigned dk_w_used(dk_word w)
{
    return (unsigned)(w & DK_W_USED_MASK);
}
static inline unsigned dk_w_free(dk_word w)
{
    return DK_BLOCK_FRAMES - dk_w_used(w);
}
static inline unsigned dk_w_type(dk_word w)
{
    return (unsigned)((w & DK_W_TYPE_MASK) >> DK_W_TYPE_SHIFT);
}
static inline unsigned dk_w_run_code(dk_word w)
{
    return (unsigned)((w & DK_W_RUN_MASK) >> DK_W_RUN_SHIFT);
}
/* Can a run of this order be in the block, as far as W knows? */
static inline bool dk_w_has_run(dk_word w, unsigned order)
{
    return dk_w_run_code(w) + order <= DK_BLOCK_ORDER;
}
static inline dk_word dk_w_with_run_code(dk_word w, unsigned code)
{
    return (w & ~DK_W_RUN_MASK) | (dk_word)code << DK_W_RUN_SHIFT;
}
static inline dk_word dk_w_with_type(dk_word w, unsigned type)
{
    return ((w & ~DK_W_TYPE_MASK) | (dk_word)type << DK_W_TYPE_SHIFT) + DK_W_VERSION_ONE;
}
/* A taker keeps n frames for itself. Needs dk_w_free(w) >= n >= 1. A run of order 9 exists only
 * while nothing is used, so this is the one lowering that needs no scan. */
static inline dk_word dk_w_reserve(dk_word w, unsigned n)
{
    return dk_w_run_code(w) ? w + n : dk_w_with_run_code(w + n, 1);
}
/* n frames come back whose bits are clear; run_code is that of the largest run around them. A block
 * that becomes empty gives up its owner: it is worth more as a huge block. */
static inline dk_word dk_w_give(dk_word w, unsigned n, unsigned run_code)
{
    w = (w & ~DK_W_ZEROED) - n + DK_W_VERSION_ONE;
    if (!dk_w_used(w))
        return dk_w_with_run_code(w & ~DK_W_OWNED, 0);
    return run_code < dk_w_run_code(w) ? dk_w_with_run_code(w, run_code) : w;
}
static inline unsigned dk_w_epoch(dk_word w)
{
    return (unsigned)((w & DK_W_EPOCH) >> DK_W_EPOCH_SHIFT);
}
static inline dk_word dk_w_with_epoch(dk_word w, unsigned epoch)
{
    return ((w & ~DK_W_EPOCH) | ((dk_word)epoch << DK_W_EPOCH_SHIFT & DK_W_EPOCH)) +
           DK_W_VERSION_ONE;
}
static inline dk_word dk_w_quarantined(dk_word w)
{
    return (w | DK_W_QUARANTINE) + DK_W_VERSION_ONE;
}
/* What a recount found: so many frames of the block are held, the largest run has this code. A
 * block that is held as a whole stays so. */
static inline dk_word dk_w_recounted(dk_word w, unsigned used, unsigned run_code)
{
    w = (w & ~(DK_W_QUARANTINE | DK_W_OWNED | DK_W_ZEROED)) + DK_W_VERSION_ONE;
    if ((w & DK_W_WHOLE) && used)
        return w;
    w = (w & ~(DK_W_WHOLE | DK_W_USED_MASK)) | used;
    return dk_w_with_run_code(w, used ? run_code : 0);
}
/* Free as one block: no frame taken, so no operation is in flight either. */
static inline bool dk_w_is_free_whole(dk_word w)
{
    return !dk_w_used(w) && !(w & DK_W_SHUT);
}
static inline dk_word dk_w_take_whole(dk_word w, unsigned type)
{
    w = (w & ~(DK_W_USED_MASK | DK_W_TYPE_MASK | DK_W_OWNED)) | DK_BLOCK_FRAMES | DK_W_WHOLE |
        (dk_word)type << DK_W_TYPE_SHIFT;
    return dk_w_with_run_code(w, DK_RUN_NONE);
}
static inline dk_word dk_w_give_whole(dk_word w)
{
    w &= ~(DK_W_USED_MASK | DK_W_WHOLE | DK_W_ZEROED);
    return dk_w_with_run_code(w, 0) + DK_W_VERSION_ONE;
}

/*
 * The class of a block: which tree of the index shows it, DK_NONE if none does. By type and run
 * code for blocks that anybody may use, then by type and run code for owned blocks of the three
 * cached types.
 */
static inline uint32_t dk_w_class(dk_word w)
{
    unsigned run = dk_w_run_code(w), type = dk_w_type(w);
    if ((w & DK_W_SHUT) || dk_w_used(w) >= DK_BLOCK_FRAMES || run >= DK_RUN_NONE)
        return DK_NONE;
    uint32_t class = ((w & DK_W_OWNED) ? DK_OWNED_BASE : 0) + type * DK_RUNS + run;
    return class < DK_GROUP_BASE ? class : DK_NONE; /* damaged: no such type */
}
/* Class of blocks whose largest run has this order, 0 … 9. */
static inline uint32_t dk_class(unsigned type, unsigned order, bool owned)
{
    return (owned ? DK_OWNED_BASE : 0) + type * DK_RUNS + (DK_BLOCK_ORDER - order);
}
static inline uint32_t dk_group_class(unsigned order)
{
    return DK_GROUP_BASE + (order - DK_BLOCK_ORDER - 1);
}
/* May the block be part of a free group above a block's order? */
static inline bool dk_w_is_groupable(dk_word w)
{
    return dk_w_is_free_whole(w) && dk_w_type(w) < DECKLE_NR_PCP_TYPES;
}

#endif
