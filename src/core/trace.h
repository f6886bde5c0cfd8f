/* SPDX-License-Identifier: MIT */
/*
 * Where the events of the kernel's kmem, vmscan and compaction tracepoints happen, by their names.
 * Each is an empty inline function: what wants to see an event gives it a body, and where nobody
 * does it costs nothing.
 */
#ifndef DK_CORE_TRACE_H
#define DK_CORE_TRACE_H

#include "core/layout.h"

#define DK_TRACE_NOTHING(d) ((void)(d))

static inline void dk_trace_mm_vmscan_wakeup_kswapd(const struct deckle *d, uint32_t node,
                                                    unsigned zone, unsigned order, uint32_t gfp)
{
    DK_TRACE_NOTHING(d), (void)node, (void)zone, (void)order, (void)gfp;
}
static inline void dk_trace_mm_vmscan_direct_reclaim_begin(const struct deckle *d, unsigned order,
                                                           uint32_t gfp)
{
    DK_TRACE_NOTHING(d), (void)order, (void)gfp;
}
static inline void dk_trace_mm_vmscan_direct_reclaim_end(const struct deckle *d, uint64_t reclaimed)
{
    DK_TRACE_NOTHING(d), (void)reclaimed;
}
static inline void dk_trace_mm_compaction_try_to_compact_pages(const struct deckle *d,
                                                               unsigned order, uint32_t gfp,
                                                               unsigned priority)
{
    DK_TRACE_NOTHING(d), (void)order, (void)gfp, (void)priority;
}
static inline void dk_trace_mm_compaction_end(const struct deckle *d, uint32_t zone, unsigned order,
                                              unsigned result)
{
    DK_TRACE_NOTHING(d), (void)zone, (void)order, (void)result;
}
static inline void dk_trace_mm_compaction_migratepages(const struct deckle *d, uint64_t from,
                                                       uint64_t to, unsigned order, int result)
{
    DK_TRACE_NOTHING(d), (void)from, (void)to, (void)order, (void)result;
}

#endif
