/* SPDX-License-Identifier: MIT */
/* Figures of external fragmentation; the formulas are at the head of fragmentation.h. */
#include "policy/fragmentation.h"

#include "base/div64.h"

struct dk_free_summary dk_free_summarise(const uint64_t *blocks, unsigned nr_orders, unsigned order)
{
    struct dk_free_summary sum = {0, 0, 0, order};

    for (unsigned o = 0; o < nr_orders; o++) {
        uint64_t frames = dk_shl_sat64(blocks[o], o);

        sum.blocks = dk_add_sat64(sum.blocks, blocks[o]);
        sum.frames = dk_add_sat64(sum.frames, frames);
        if (o >= order)
            sum.suitable = dk_add_sat64(sum.suitable, frames);
    }
    return sum;
}

/* floor(frames * 1000 / 2^order): whole blocks and the rest apart, so that neither overflows. */
static uint64_t thousandths_of_blocks(uint64_t frames, unsigned order)
{
    uint64_t rest = frames & ((UINT64_C(1) << order) - 1);

    return dk_muldiv64(frames >> order, 1000, 1) + (rest * 1000 >> order);
}

int dk_fragmentation_index(const struct dk_free_summary *free)
{
    uint64_t pieces;

    if (free->blocks == 0)
        return 0;
    if (free->suitable > 0)
        return DK_FRAGMENTATION_SUITABLE;
    pieces = dk_add_sat64(1000, thousandths_of_blocks(free->frames, free->order));
    return 1000 - (int)dk_div64(pieces, free->blocks);
}

unsigned dk_unusable_index(const struct dk_free_summary *free)
{
    if (free->frames == 0)
        return 1000;
    return (unsigned)dk_muldiv64(free->frames - free->suitable, 1000, free->frames);
}

unsigned dk_extfrag_percent(const struct dk_free_summary *free)
{
    if (free->frames == 0)
        return 0;
    return (unsigned)dk_muldiv64(free->frames - free->suitable, 100, free->frames);
}
