/* SPDX-License-Identifier: MIT */
/* Retries of compaction; the rules are at the head of retry.h. */
#include "policy/retry.h"

bool dk_compact_again(struct dk_compact_retry *retry, unsigned order, enum dk_compact_result result,
                      bool enough)
{
    unsigned most = dk_order_costly(order) ? DK_COMPACT_RETRIES_MOST / 4 : DK_COMPACT_RETRIES_MOST;
    enum dk_compact_priority highest =
        dk_order_costly(order) ? DK_COMPACT_SYNC_LIGHT : DK_COMPACT_SYNC_FULL;

    if (order == 0)
        return false;
    if (result == DK_COMPACT_SKIPPED)
        return enough;
    if (result == DK_COMPACT_SUCCESS && retry->retries < most) {
        retry->retries++;
        return true;
    }
    if (retry->priority <= highest)
        return false;
    retry->priority = (enum dk_compact_priority)(retry->priority - 1);
    retry->retries = 0;
    return true;
}

bool dk_compact_deferred(struct dk_compact_deferral *deferral, unsigned order)
{
    if (deferral->failures == 0 || order < deferral->failed_order ||
        deferral->skipped >= 1u << deferral->failures)
        return false;
    deferral->skipped++;
    return true;
}

void dk_compact_note_failure(struct dk_compact_deferral *deferral, unsigned order)
{
    if (deferral->failures == 0 || order < deferral->failed_order)
        deferral->failed_order = order;
    if (deferral->failures < DK_COMPACT_DEFER_MOST)
        deferral->failures++;
    deferral->skipped = 0;
}

void dk_compact_note_success(struct dk_compact_deferral *deferral)
{
    *deferral = (struct dk_compact_deferral){0, 0, 0};
}

bool dk_compact_suitable(const struct dk_watermark_input *zone, uint64_t min, uint64_t low,
                         unsigned order, int fragmentation_index, int threshold)
{
    bool costly = dk_order_costly(order);
    struct dk_watermark_input single = *zone;

    /* Both ends of the migration need room: twice the block. */
    single.mark = (costly ? low : min) + (UINT64_C(2) << order);
    single.order = 0;
    single.alloc_flags = DK_ALLOC_CMA;
    if (!dk_watermark_ok(&single))
        return false;
    return !costly || fragmentation_index < 0 || fragmentation_index > threshold;
}

unsigned dk_proactive_stop(unsigned proactiveness)
{
    return proactiveness < 100 - DK_PROACTIVE_STOP_LEAST ? 100 - proactiveness
                                                         : DK_PROACTIVE_STOP_LEAST;
}

unsigned dk_proactive_start(unsigned proactiveness)
{
    unsigned start = dk_proactive_stop(proactiveness) + DK_PROACTIVE_START_DISTANCE;

    return start < 100 ? start : 100;
}
