/* SPDX-License-Identifier: MIT */
/*
 * May this request take from this zone? The watermark test (reference: 3.3).
 *
 *   usable = free - (2^order - 1) - free HighAtomic (unless a reserve flag) - free CMA (unless CMA)
 *   limit  = mark + boost, lowered by the reserve flags, + lowmem_reserve
 *
 *   MIN_RESERVE                limit mark -= mark/2
 *   MIN_RESERVE + NON_BLOCK    and a further quarter of what is left
 *   OOM                        and a further half of what is left
 *   NO_WATERMARKS              no test
 *
 * It passes when usable > limit and, for an order above 0, a free run of that order exists in a
 * type the request may take from. Counts that are read while they change may contradict each other
 * (more HighAtomic frames than free ones): arithmetic saturates and the test then fails.
 *
 * How the marks themselves come about: watermark_setup.h.
 */
#ifndef DK_POLICY_WATERMARK_H
#define DK_POLICY_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>

#include <deckle/types.h>

#include "base/div64.h"
#include "policy/alloc_flags.h"

/* All in frames but the last three. */
struct dk_watermark_input {
    uint64_t free;            /* free in the zone, Isolate blocks left out */
    uint64_t free_highatomic; /* of them in HighAtomic blocks */
    uint64_t free_cma;        /* of them in CMA blocks */
    uint64_t mark;            /* the stored min, low or high */
    uint64_t boost;           /* of the zone, on top of every mark */
    uint64_t lowmem_reserve;  /* of the zone against requests up to this one's highest zone */
    uint32_t order;
    uint32_t alloc_flags; /* DK_ALLOC_… */
    uint32_t suitable;    /* bit per migratetype: is there a free run of >= order? For order > 0 */
};

/* Frames that are free but not for this request. */
static inline uint64_t dk_watermark_unusable(const struct dk_watermark_input *in)
{
    uint64_t unusable = (UINT64_C(1) << in->order) - 1;

    if (!(in->alloc_flags & DK_ALLOC_RESERVES))
        unusable += in->free_highatomic;
    if (!(in->alloc_flags & DK_ALLOC_CMA))
        unusable += in->free_cma;
    return unusable;
}

/*
 * The shortcut for order 0: true is final. It does not lower the mark for reserve flags, so false
 * only means that dk_watermark_ok has to say.
 */
static inline bool dk_watermark_fast_order0(const struct dk_watermark_input *in)
{
    uint64_t usable = dk_sub_sat64(in->free, dk_watermark_unusable(in));

    return usable > in->mark + in->boost + in->lowmem_reserve;
}

/* Migratetypes whose free runs count for a request with these flags, a bit each. */
uint32_t dk_watermark_types(uint32_t alloc_flags);

/*
 * The test. DECKLE_OK, or why not:
 *   DECKLE_ENOMEM       fewer free frames than asked for
 *   DECKLE_EWATERMARK   the free frames are below the limit or in reserves of others
 *   DECKLE_EFRAGMENTED  above the limit, but no run of the order
 */
int dk_watermark_verdict(const struct dk_watermark_input *in);

static inline bool dk_watermark_ok(const struct dk_watermark_input *in)
{
    return dk_watermark_verdict(in) == DECKLE_OK;
}

/*
 * The whole test of an allocation attempt: shortcut, full test and, for an order-0 MIN_RESERVE
 * request at min, once more without boost: a boost protects against fragmentation, not urgent
 * single frames. The result is that of dk_watermark_verdict.
 */
int dk_watermark_attempt(const struct dk_watermark_input *in);

/* Would it pass if `reclaimable` more frames were free? */
bool dk_watermark_ok_with(const struct dk_watermark_input *in, uint64_t reclaimable);

#endif
