/* SPDX-License-Identifier: MIT */
/*
 * The free path. The state byte of the frame must say "head of a block of this order": one byte refuses
 * double, tail, wrong-order, reserved and foreign frees, and names the list the block goes to, so that
 * neither W nor a descriptor is read. A misaligned pfn cannot head a block. Then the byte is set to free
 * and the frame pushed; only a full list or a STOP leads to the slow path.
 *
 * Order of the two: the byte is cleared before the push, so whoever pops the frame finds it clear. On one
 * CPU program order is enough; another CPU sees the frame only through a drain, which has a full barrier
 * between (pcp_rseq.c: membarrier; pcp_cells.c: the CAS).
 */
#include "core/alloc.h"
#include "core/check.h"
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

int dk_free(struct deckle *d, uint64_t pfn, unsigned order, uint32_t owner, const void *caller)
{
    uint32_t fi, zone;
    unsigned pcp_type;
    int err = dk_prepare_free(d, pfn, order, owner, caller, &fi, &zone, &pcp_type);
    if (!err)
        dk_free_block(d, zone, fi, order, pcp_type);
    return err;
}

static DK_NOINLINE int free_general(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t owner,
                                    const void *caller)
{
    return dk_free(d, pfn, order, owner, caller);
}

int deckle_free(struct deckle *d, uint64_t pfn, uint32_t order)
{
    uint32_t fi, zone;
    if (dk_unlikely((dk_a32_load_relaxed(&d->slow) & DK_SLOW_FREE) || order > DK_PCP_MAX_ORDER ||
                    !dk_pfn_to_fi(d, pfn, &fi, &zone)))
        return free_general(d, pfn, order, 0, DK_CALLER());
    uint8_t s = dk_a8_load_relaxed(&d->state[fi]);
    if (dk_unlikely((s & DK_STATE_ORDER) != order + 1))
        return free_general(d, pfn, order, 0, DK_CALLER());
    dk_a8_store_relaxed(&d->state[fi], 0);
    unsigned list = dk_pcp_list(order, dk_state_type(s));
    if (dk_unlikely(!dk_pcp_push(d, zone, list, fi)))
        dk_free_block(d, zone, fi, order, dk_state_type(s));
    return DECKLE_OK;
}

int deckle_free_owned(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t owner)
{
    return free_general(d, pfn, order, owner, DK_CALLER());
}
