/* SPDX-License-Identifier: MIT */
/* Allocation flags of the slow path; the rules are at the head of alloc_flags.h. */
#include "policy/alloc_flags.h"

uint32_t dk_alloc_flags_slow(uint32_t gfp, unsigned order, enum deckle_migratetype type,
                             const struct dk_requester *who)
{
    uint32_t flags = DK_ALLOC_WMARK_MIN | DK_ALLOC_CPUSET | dk_alloc_cma(type) |
                     (gfp & (DECKLE_GFP_HIGH | DECKLE_GFP_KSWAPD_RECLAIM));

    if (gfp & DECKLE_GFP_DIRECT_RECLAIM) {
        if (who->realtime && who->context == DK_CONTEXT_TASK)
            flags |= DK_ALLOC_MIN_RESERVE;
        return flags;
    }
    if (!(gfp & DECKLE_GFP_NOMEMALLOC)) {
        flags |= DK_ALLOC_NON_BLOCK;
        if (order > 0 && (gfp & DECKLE_GFP_HIGH))
            flags |= DK_ALLOC_HIGHATOMIC;
    }
    if (gfp & DECKLE_GFP_HIGH)
        flags &= ~DK_ALLOC_CPUSET;
    return flags;
}

uint32_t dk_alloc_flags_reserve(uint32_t gfp, const struct dk_requester *who)
{
    if (gfp & DECKLE_GFP_NOMEMALLOC)
        return 0;
    if (gfp & DECKLE_GFP_MEMALLOC)
        return DK_ALLOC_NO_WATERMARKS;
    if (who->context == DK_CONTEXT_INTERRUPT)
        return 0; /* the interrupted task's rights are not the interrupt's */
    if (who->memalloc)
        return DK_ALLOC_NO_WATERMARKS;
    return who->oom_victim && who->context == DK_CONTEXT_TASK ? DK_ALLOC_OOM : 0;
}
