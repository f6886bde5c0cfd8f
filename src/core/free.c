/* SPDX-License-Identifier: MIT */
/*
 * The free path. The state byte of the frame must say "head of a block of this order": one byte
 * refuses double, tail, wrong-order, reserved and foreign frees, and names the list the block goes
 * to, so that neither W nor a descriptor is read. A misaligned pfn cannot head a block. Then the
 * byte is set to free and the frame pushed; only a full list or a STOP leads to the slow path.
 *
 * Order of the two: the byte is cleared before the push, so whoever pops the frame finds it clear.
 * On one CPU program order is enough; another CPU sees the frame only through a drain, which has a
 * full barrier between (pcp_rseq.c: membarrier; pcp_cells.c: the CAS).
 */
#include "core/ablation.h"
#include "core/alloc.h"
#include "core/check.h"
#include "core/client.h"
#include "core/pcp.h"
#include "core/prepare.h"

void dk_free_block(struct deckle *d, uint32_t zone, uint32_t fi, unsigned order, unsigned pcp_type)
{
    if (order <= DK_PCP_MAX_ORDER && d->kind != DK_PCP_NONE) {
        unsigned list = dk_pcp_list(order, pcp_type);
        if (!dk_pcp_push(d, zone, list, fi))
            dk_pcp_free_slow(d, &d->zones[zone], list, fi);
        return;
    }
    struct dk_pcp_set *set = dk_stat_set(d, zone);
    dk_counter_add(&set->direct_frees[order], 1);
    dk_counter_add(&set->drains, 1);
    dk_counter_add(&set->drain_frames, 1u << order);
    dk_zone_give(d, &d->zones[zone], set, order, &fi, 1);
}

/* The list is full or stopped; the state byte is free already. */
static DK_NOINLINE int free_past_list(struct deckle *d, uint32_t fi, uint32_t list)
{
    dk_free_block(d, d->main_zone, fi, list / DK_PCP_TYPES, list % DK_PCP_TYPES);
    return DECKLE_OK;
}

int dk_free(struct deckle *d, uint64_t pfn, unsigned order, uint32_t owner, const void *caller)
{
    uint32_t fi, zone;
    unsigned pcp_type;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    int err = dk_prepare_free(d, pfn, order, owner, caller, &fi, &zone, &pcp_type);
    if (!err)
        dk_free_block(d, zone, fi, order, pcp_type);
    return err;
}

/* The state byte of a block of this order and type. */
DK_INLINE bool is_given(uint8_t s, uint32_t order, unsigned type)
{
    return s == (uint8_t)(dk_state_make(0, type, false) + order);
}

/* The block, whose state byte was s, goes to the list of this type in the main section's zone. */
DK_INLINE int push(struct deckle *d, uint32_t fi, uint32_t order, unsigned type)
{
    if (DK_CHECKS == DK_CHECKS_ALWAYS)
        dk_a8_store_relaxed(&d->state[fi], 0);
    const dk_aword *row = d->main_list[type];
    if (dk_likely(dk_stack_push_to(d, dk_load_relaxed(&row[(size_t)order]), fi)))
        return DECKLE_OK;
    return free_past_list(d, fi, dk_pcp_list(order, type));
}

/* Other sections, orders without a list, run-time switches, no caches, and what is wrong. */
static DK_NOINLINE int free_general(struct deckle *d, uint64_t pfn, uint32_t order)
{
    return dk_free(d, pfn, order, 0, DK_CALLER());
}

/* Frees of shared pools come here, whose frames must be the client's own; the rest is general. */
static DK_NOINLINE int free_shared(struct deckle *d, uint64_t pfn, uint32_t order)
{
    uint64_t rel = pfn - d->main_pfn;
    uint32_t fi = (uint32_t)rel + d->main_fi, slow = DK_SLOW_FREE & ~DK_SLOW_SHARED;
    if (!d->tags || d->kind != DK_PCP_CELLS || (dk_a32_load_relaxed(&d->slow) & slow) ||
        order > DK_PCP_MAX_ORDER || rel >= dk_load_acquire(&d->main_nr) || !dk_holds(d, fi))
        return free_general(d, pfn, order);
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    if (!dk_state_is_head(s) || dk_state_order(s) != order)
        return free_general(d, pfn, order);
    unsigned list = dk_pcp_list(order, dk_state_type(s));
    dk_a8_store_relaxed(&d->state[fi], 0);
    if (dk_likely(dk_cells_push(d, d->main_zone, list, fi)))
        return DECKLE_OK;
    return free_past_list(d, fi, list);
}

/* Atomic cells; with stacks, blocks that are reclaimable or compound. */
static DK_NOINLINE int free_other(struct deckle *d, uint64_t pfn, uint32_t order)
{
    uint64_t rel = pfn - d->main_pfn;
    uint32_t fi = (uint32_t)rel + d->main_fi;
    if (d->kind == DK_PCP_NONE || (dk_a32_load_relaxed(&d->slow) & DK_SLOW_FREE) ||
        order > DK_PCP_MAX_ORDER || rel >= dk_load_acquire(&d->main_nr))
        return free_shared(d, pfn, order);
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    if (!dk_state_is_head(s) || dk_state_order(s) != order)
        return free_shared(d, pfn, order);
    unsigned list = dk_pcp_list(order, dk_state_type(s));
    dk_a8_store_relaxed(&d->state[fi], 0);
    if (dk_likely(dk_pcp_push(d, d->main_zone, list, fi)))
        return DECKLE_OK;
    return free_past_list(d, fi, list);
}

/*
 * Leaf code, as deckle_alloc. What the byte may say is asked by a chain of predicted branches:
 * computed from the byte, the address of the list would wait for the byte, which alloc has only
 * just stored (11 of 25 cycles of a pair).
 */
int deckle_free(struct deckle *d, uint64_t pfn, uint32_t order)
{
    uint64_t rel = pfn - d->main_pfn;
    uint32_t fi = (uint32_t)rel + d->main_fi;
    if (dk_unlikely(rel >= dk_load_acquire(&d->fast_nr) || order > DK_PCP_MAX_ORDER))
        return free_other(d, pfn, order);
    uint8_t s = DK_CHECKS == DK_CHECKS_ALWAYS ? dk_a8_load_relaxed(&d->state[fi])
                                              : dk_state_make(order, DECKLE_UNMOVABLE, false);
    if (dk_likely(is_given(s, order, DECKLE_UNMOVABLE)))
        return push(d, fi, order, DECKLE_UNMOVABLE);
    if (dk_likely(is_given(s, order, DECKLE_MOVABLE)))
        return push(d, fi, order, DECKLE_MOVABLE);
    return free_other(d, pfn, order);
}

int deckle_free_owned(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t owner)
{
    return dk_free(d, pfn, order, owner, DK_CALLER());
}
