/* SPDX-License-Identifier: MIT */
/* The watermark test; the formula is at the head of watermark.h. */
#include "policy/watermark.h"

/* The mark that this request has to respect, lowmem_reserve left out. */
static uint64_t lowered_mark(const struct dk_watermark_input *in)
{
    uint64_t mark = in->mark + in->boost;

    if (in->alloc_flags & DK_ALLOC_MIN_RESERVE) {
        mark -= mark / 2;
        if (in->alloc_flags & DK_ALLOC_NON_BLOCK)
            mark -= mark / 4;
    }
    if (in->alloc_flags & DK_ALLOC_OOM)
        mark -= mark / 2;
    return mark;
}

uint32_t dk_watermark_types(uint32_t alloc_flags)
{
    uint32_t types = (UINT32_C(1) << DECKLE_NR_PCP_TYPES) - 1;

    if (alloc_flags & DK_ALLOC_CMA)
        types |= UINT32_C(1) << DECKLE_CMA;
    if (alloc_flags & (DK_ALLOC_HIGHATOMIC | DK_ALLOC_OOM))
        types |= UINT32_C(1) << DECKLE_HIGHATOMIC;
    return types;
}

int dk_watermark_verdict(const struct dk_watermark_input *in)
{
    uint64_t unusable = dk_watermark_unusable(in);

    if (in->alloc_flags & DK_ALLOC_NO_WATERMARKS)
        return DECKLE_OK;
    if (in->free >> in->order == 0)
        return DECKLE_ENOMEM;
    if (in->free <= unusable || in->free - unusable <= lowered_mark(in) + in->lowmem_reserve)
        return DECKLE_EWATERMARK;
    if (in->order > 0 && !(in->suitable & dk_watermark_types(in->alloc_flags)))
        return DECKLE_EFRAGMENTED;
    return DECKLE_OK;
}

int dk_watermark_attempt(const struct dk_watermark_input *in)
{
    struct dk_watermark_input plain;
    int verdict;

    if (in->order == 0 && dk_watermark_fast_order0(in))
        return DECKLE_OK;
    verdict = dk_watermark_verdict(in);
    if (verdict == DECKLE_OK || in->order > 0 || in->boost == 0 ||
        !(in->alloc_flags & DK_ALLOC_MIN_RESERVE) ||
        (in->alloc_flags & DK_ALLOC_WMARK_MASK) != DK_ALLOC_WMARK_MIN)
        return verdict;

    plain = *in;
    plain.boost = 0;
    return dk_watermark_verdict(&plain);
}

bool dk_watermark_ok_with(const struct dk_watermark_input *in, uint64_t reclaimable)
{
    struct dk_watermark_input more = *in;

    more.free = dk_add_sat64(in->free, reclaimable);
    return dk_watermark_ok(&more);
}
