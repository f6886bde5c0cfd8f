/* SPDX-License-Identifier: MIT */
/* Marks and reserves of a zone; the formulas are at the head of watermark_setup.h. */
#include "policy/watermark_setup.h"

#include "base/div64.h"

/* A large reserve in the zones that little else can use, none above Normal. */
const uint32_t dk_lowmem_reserve_ratio_default[DECKLE_NR_ZONE_TYPES] = {
    [DECKLE_ZONE_DMA] = 256,   [DECKLE_ZONE_DMA32] = 256, [DECKLE_ZONE_NORMAL] = 32,
    [DECKLE_ZONE_HIGHMEM] = 0, [DECKLE_ZONE_MOVABLE] = 0,
};

#define OWN_MIN_LEAST 32u /* min of HighMem and Movable */
#define OWN_MIN_MOST  128u

uint64_t dk_min_free_kbytes(uint64_t lowmem_pages, unsigned page_shift)
{
    uint64_t lowmem_kbytes = dk_shl_sat64(lowmem_pages, page_shift - 10);
    uint64_t root = dk_sqrt64(dk_shl_sat64(lowmem_kbytes, 4));

    return dk_clamp64(root, DK_MIN_FREE_KBYTES_LEAST, DK_MIN_FREE_KBYTES_MOST);
}

uint64_t dk_pages_min(uint64_t configured_kbytes, uint64_t lowmem_pages, unsigned page_shift)
{
    uint64_t formula = dk_min_free_kbytes(lowmem_pages, page_shift) >> (page_shift - 10);

    formula = dk_min64(formula, lowmem_pages / 8);
    return dk_max64(formula, configured_kbytes >> (page_shift - 10));
}

uint64_t dk_pages_min_hugepage(uint64_t pageblock_pages, unsigned nr_zones, uint64_t lowmem_pages)
{
    /* A zone: two blocks free for the largest request, and one for each pair of the three types. */
    uint64_t wanted = pageblock_pages * nr_zones * (2 + 3 * 3);

    return dk_min64(wanted, dk_div64(lowmem_pages, 20));
}

struct dk_zone_marks dk_zone_marks(enum deckle_zone_type zone, uint64_t managed,
                                   uint64_t lowmem_managed, uint64_t pages_min,
                                   unsigned scale_factor)
{
    struct dk_zone_marks marks;
    uint64_t share = lowmem_managed ? dk_muldiv64(pages_min, managed, lowmem_managed) : 0;
    uint64_t gap = dk_max64(share / 4, dk_muldiv64(managed, scale_factor, 10000));

    if (dk_zone_is_highmem_or_movable(zone))
        marks.min = dk_min64(dk_clamp64(managed / 1024, OWN_MIN_LEAST, OWN_MIN_MOST), managed / 8);
    else
        marks.min = share;
    marks.low = dk_add_sat64(marks.min, gap);
    marks.high = dk_add_sat64(marks.low, gap);
    marks.promo = dk_add_sat64(marks.high, gap);
    return marks;
}

void dk_lowmem_reserve(const uint64_t managed[DECKLE_NR_ZONE_TYPES],
                       const uint32_t ratio[DECKLE_NR_ZONE_TYPES],
                       uint64_t reserve[DECKLE_NR_ZONE_TYPES][DECKLE_NR_ZONE_TYPES])
{
    for (unsigned i = 0; i < DECKLE_NR_ZONE_TYPES; i++) {
        bool none = ratio[i] == 0 || managed[i] == 0;
        uint64_t above = 0;

        for (unsigned j = 0; j < DECKLE_NR_ZONE_TYPES; j++) {
            if (j > i)
                above = dk_add_sat64(above, managed[j]);
            reserve[i][j] = j <= i || none ? 0 : dk_div64(above, ratio[i]);
        }
    }
}

uint64_t dk_zone_totalreserve(const uint64_t reserve[DECKLE_NR_ZONE_TYPES], uint64_t high,
                              uint64_t managed)
{
    uint64_t largest = 0;

    for (unsigned j = 0; j < DECKLE_NR_ZONE_TYPES; j++)
        largest = dk_max64(largest, reserve[j]);
    return dk_min64(dk_add_sat64(largest, high), managed);
}

bool dk_watermark_boost(uint64_t *boost, uint64_t high, uint64_t managed, uint64_t pageblock_pages,
                        unsigned boost_factor)
{
    uint64_t most = dk_muldiv64(high, boost_factor, 10000);

    if (most == 0 || managed < 4 * pageblock_pages)
        return false;
    most = dk_max64(most, pageblock_pages);
    *boost = dk_min64(dk_add_sat64(*boost, pageblock_pages), most);
    return true;
}
