/* SPDX-License-Identifier: MIT */
/*
 * The fast paths of the per-CPU caches. Only pcp.h includes this file. What may happen to a list
 * meanwhile, and why these few instructions are right, is at the head of pcp_rseq.c and
 * pcp_cells.c.
 */
#ifndef DK_CORE_PCP_INLINE_H
#define DK_CORE_PCP_INLINE_H

#include "base/rseq.h"
#include "core/pcp.h"

/* A thread that is interrupted in each of so many attempts takes the slow path. */
#define DK_PCP_TRIES 1000u

/* The CPU of this thread as the kernel shows it to the thread, if the host says that it does; else
 * DK_NONE. */
DK_INLINE uint32_t dk_pcp_known_cpu(const struct deckle *d)
{
#ifdef DK_HAVE_RSEQ
    if (dk_likely(d->host.rseq_usable)) {
        uint32_t cpu = dk_rseq_cpu_id(d->host.rseq_offset);
        if (dk_likely(cpu <= INT32_MAX)) /* negative: the thread is not registered */
            return cpu;
    }
#endif
    (void)d;
    return DK_NONE;
}

/* The CPU of this thread, in any way. At or above nr_cpus: no caches for this call. */
DK_INLINE uint32_t dk_pcp_cpu(const struct deckle *d)
{
    uint32_t cpu = dk_pcp_known_cpu(d);
    return cpu != DK_NONE ? cpu : dk_cpu(d);
}

DK_INLINE struct dk_pcp_list_head *dk_pcp_head(const struct deckle *d, const struct dk_pcp_set *set,
                                               unsigned list)
{
    return (struct dk_pcp_list_head *)((uintptr_t)set + d->list_off[list]);
}
DK_INLINE void *dk_pcp_slots(const struct dk_pcp_list_head *lh)
{
    return (void *)((uintptr_t)lh + DK_LINE_BYTES);
}

#define DK_HIGH_ENTRIES 0xffffu /* of dk_pcp_list_head.high */
#define DK_HIGH_CLOSING 0x10000u

/* ---- stacks ---------------------------------------------------------------------------------- */

#ifdef DK_HAVE_RSEQ
_Static_assert(offsetof(struct dk_pcp_list_head, head) == offsetof(struct dk_rseq_stack, head),
               "a list begins as a stack");
_Static_assert(offsetof(struct dk_pcp_list_head, high) == offsetof(struct dk_rseq_stack, high) &&
                   offsetof(struct dk_rseq_stack, high) == 8 && DK_RSEQ_SLOTS == DK_LINE_BYTES,
               "the sequences have these offsets in their instructions");

/* list: address of CPU 0's list. */
DK_INLINE struct dk_rseq_at dk_stack_from(const struct deckle *d, dk_word list)
{
    return (struct dk_rseq_at){
        .rseq_offset = &d->rseq_offset,
        .nr_cpus = &d->nr_cpus,
        .stride = &d->set_bytes,
        .base = (unsigned char *)(uintptr_t)list,
    };
}

DK_INLINE struct dk_rseq_at dk_stack_at(const struct deckle *d, uint32_t zone, unsigned list)
{
    return dk_stack_from(d, (uintptr_t)dk_pcp_head(d, dk_set(d, zone, 0), list));
}

/* An interrupted sequence is not repeated here: the slow paths do. */
DK_INLINE bool dk_stack_pop_from(const struct deckle *d, dk_word list, uint32_t *fi)
{
    struct dk_rseq_at at = dk_stack_from(d, list);
    return dk_likely(dk_rseq_pop(&at, fi));
}

DK_INLINE bool dk_stack_push_to(const struct deckle *d, dk_word list, uint32_t fi)
{
    struct dk_rseq_at at = dk_stack_from(d, list);
    return dk_likely(dk_rseq_push(&at, fi));
}

DK_INLINE bool dk_stack_pop(const struct deckle *d, uint32_t zone, unsigned list, uint32_t *fi)
{
    struct dk_rseq_at at = dk_stack_at(d, zone, list);
    return dk_likely(dk_rseq_pop(&at, fi));
}

DK_INLINE bool dk_stack_push(const struct deckle *d, uint32_t zone, unsigned list, uint32_t fi)
{
    struct dk_rseq_at at = dk_stack_at(d, zone, list);
    return dk_likely(dk_rseq_push(&at, fi));
}
#else
/* No pool has stacks here, so the tables of the fast paths are 0. */
DK_INLINE bool dk_stack_pop_from(const struct deckle *d, dk_word list, uint32_t *fi)
{
    (void)d, (void)list, *fi = DK_NONE;
    return false;
}

DK_INLINE bool dk_stack_push_to(const struct deckle *d, dk_word list, uint32_t fi)
{
    (void)d, (void)list, (void)fi;
    return false;
}

DK_INLINE bool dk_stack_pop(const struct deckle *d, uint32_t zone, unsigned list, uint32_t *fi)
{
    (void)d, (void)zone, (void)list, *fi = DK_NONE;
    return false;
}

DK_INLINE bool dk_stack_push(const struct deckle *d, uint32_t zone, unsigned list, uint32_t fi)
{
    (void)d, (void)zone, (void)list, (void)fi;
    return false;
}
#endif

/* ---- cells ----------------------------------------------------------------------------------- */

/* A cell: the frame (0 when empty), on 64-bit machines the client whose frame it is and, while
 * another one takes it over, from whom (shared pools, pcp_cells.c), the phase, and whether it is
 * full. The phase counts the pushes into this cell and stays when it is emptied. */
#if DK_WORD_BITS == 64
#define DK_CELL_FRAME_BITS  32u
#define DK_CELL_PHASE_SHIFT 48u
#define DK_CELL_WHOSE       ((dk_word)0xffff << 32) /* client: bits 32-39, from: 40-47 */
#else
#define DK_CELL_FRAME_BITS  22u
#define DK_CELL_PHASE_SHIFT 22u
#define DK_CELL_WHOSE       ((dk_word)0)
#endif
#define DK_CELL_PHASE_BITS (DK_WORD_BITS - 1 - DK_CELL_PHASE_SHIFT)
#define DK_CELL_FULL       ((dk_word)1 << (DK_WORD_BITS - 1))
#define DK_CELL_PHASE_ONE  ((dk_word)1 << DK_CELL_PHASE_SHIFT)
#define DK_CELL_PHASE      (DK_CELL_FULL - DK_CELL_PHASE_ONE)

static inline uint32_t dk_cell_frame(dk_word cell)
{
    return (uint32_t)(cell & (((dk_word)1 << DK_CELL_FRAME_BITS) - 1));
}
static inline uint32_t dk_cell_client(dk_word cell)
{
    return (uint32_t)(((cell & DK_CELL_WHOSE) >> (DK_WORD_BITS / 2)) & 0xff);
}
static inline uint32_t dk_cell_from(dk_word cell)
{
    return (uint32_t)(((cell & DK_CELL_WHOSE) >> (DK_WORD_BITS / 2)) >> 8);
}
static inline dk_word dk_cell_with_whose(dk_word cell, uint32_t client, uint32_t from)
{
    return (cell & ~DK_CELL_WHOSE) |
           (((dk_word)(client | from << 8) << (DK_WORD_BITS / 2)) & DK_CELL_WHOSE);
}
/* Full, of the client that mine (deckle.cell_mine) names, and not in transit. */
static inline bool dk_cell_is(dk_word cell, dk_word mine)
{
    return (cell & (DK_CELL_FULL | DK_CELL_WHOSE)) == mine;
}
static inline dk_word dk_cell_emptied(dk_word cell)
{
    return cell & DK_CELL_PHASE;
}
/* what: deckle.cell_mine and the frame. */
static inline dk_word dk_cell_filled_with(dk_word cell, dk_word what)
{
    return ((cell + DK_CELL_PHASE_ONE) & DK_CELL_PHASE) | what;
}
static inline dk_word dk_cell_filled(dk_word cell, uint32_t fi)
{
    return dk_cell_filled_with(cell, DK_CELL_FULL | fi);
}

/*
 * The hint (dk_pcp_list_head.head): the cell used last and what was left there. So its number gives
 * the top, and who goes on at this cell knows its value without reading it: a CAS that expects what
 * the last CAS left need not wait for it, while a load guesses that nothing is under way, and the
 * guess is dear when it is wrong. With 64 bits the number stands where the client stands in a cell;
 * with 32 there is no room, and the hint is the top alone.
 */
#define DK_HINT_SHIFT 32u
#define DK_HINT_NR    0xffffu

static inline dk_word dk_hint_make(uint32_t nr, dk_word cell)
{
#if DK_WORD_BITS == 64
    return (cell & ~((dk_word)DK_HINT_NR << DK_HINT_SHIFT)) | (dk_word)nr << DK_HINT_SHIFT;
#else
    return nr + (cell >> (DK_WORD_BITS - 1));
#endif
}
/* Entries below the top. May be anything. */
static inline uint32_t dk_hint_top(dk_word hint)
{
#if DK_WORD_BITS == 64
    return (uint32_t)(hint >> DK_HINT_SHIFT & DK_HINT_NR) + (uint32_t)(hint >> 63);
#else
    return hint;
#endif
}

/* How far from the hint the fast paths look. */
#define DK_CELL_PROBES 4u

/* dk_pcp_list_head.live of a list of cells. */
#define DK_LIVE         1u /* pushes may have been completed that nobody has popped */
#define DK_LIVE_CLEAR   2u /* somebody is about to find the list empty */
#define DK_LIVE_VERSION 4u

/* pcp_cells.c. Not inline: two locked operations are far more than a call. pop: DK_NONE = failed.
 */
uint32_t dk_cells_pop(const struct deckle *d, uint32_t zone, unsigned list);
bool dk_cells_push(const struct deckle *d, uint32_t zone, unsigned list, uint32_t fi);

/* ---- either ---------------------------------------------------------------------------------- */

DK_INLINE bool dk_pcp_pop(struct deckle *d, uint32_t zone, unsigned list, uint32_t *fi)
{
    if (dk_likely(d->kind == DK_PCP_RSEQ))
        return dk_stack_pop(d, zone, list, fi);
    if (d->kind != DK_PCP_CELLS)
        return false;
    *fi = dk_cells_pop(d, zone, list);
    return *fi != DK_NONE;
}

DK_INLINE bool dk_pcp_push(struct deckle *d, uint32_t zone, unsigned list, uint32_t fi)
{
    if (dk_likely(d->kind == DK_PCP_RSEQ))
        return dk_stack_push(d, zone, list, fi);
    return d->kind == DK_PCP_CELLS && dk_cells_push(d, zone, list, fi);
}

#endif
