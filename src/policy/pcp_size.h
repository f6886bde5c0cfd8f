/* SPDX-License-Identifier: MIT */
/*
 * How much a per-CPU cache holds, fetches and gives back (reference: 3.8; growth and shrinking
 * under pressure are the design's own hysteresis). Counts are frames; a cache may be one list or
 * all of them.
 *
 *   batch      b = max(min(managed / 1024, 1 MiB / page size) / 4, 1);
 *              power of two at or below b + b/2, minus 1, at least 1: 63 in large zones of 4 KiB
 * frames high_min   max(low / cpus, 4 * batch);  high_max  max(managed / 8 / cpus, 4 * batch) with
 * a configured fraction F >= 8 both max(managed / F / cpus, 4 * batch): no tuning
 *
 *   refill     order 0: batch << alloc_factor, at most max(high - count - batch, batch); unlimited
 * ones raise alloc_factor (most 5). order > 0: batch >> order, at least 2. high grows by as much
 *   free       free_count gathers the frames freed in a row; alloc_factor halves, as free_count
 * does at each allocation. At count >= limit drain clamp(free_count, batch, limit - batch) limit
 * high; 4 * batch while the zone is being reclaimed; the first full drain raises high to free_count
 * + batch burst      frees of orders 1-3 in a row after a batch of frees: drain up to 32 batches at
 * once decay      from time to time high falls by 1/8 towards high_min
 *
 * Pressure, from the zone's free frames:
 *
 *            free > high           free <= high             free <= low
 *     GROW ---------------- SHRINK ---------------- EMPTY        high may grow
 *                             high falls to high_min             holds nothing, fetches one block
 *
 * EMPTY is left for GROW only, not for SHRINK. Otherwise what the caches gave back would lift the
 * zone above low, the caches would fetch it again, and refill and drain would take turns around
 * low.
 *
 * Orders above those that Linux caches follow the same formulas; there "at least 2" can be much, so
 * a refill never brings a surplus that high does not allow to keep.
 */
#ifndef DK_POLICY_PCP_SIZE_H
#define DK_POLICY_PCP_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#define DK_PCP_BATCH_SCALE_MOST 5u /* alloc_factor; a drain moves at most batch << this */
#define DK_PCP_FRACTION_LEAST   8u /* the largest share of a zone: 1/8 over all its CPUs */
#define DK_PCP_BURST_ORDER_MOST 3u /* orders above are few and large: not part of a burst */
#define DK_PCP_HIGH_MOST        (UINT32_C(1) << 28) /* keeps all sums here below 2^32 */

struct dk_pcp_state {
    uint32_t high;               /* frames that may be held now: high_min … high_max */
    uint32_t high_min, high_max; /* equal: no tuning. Both 0: disabled */
    uint32_t batch;              /* frames of a small refill or drain, at least 1 */
    uint32_t free_count;         /* frames freed in a row, halved by each allocation */
    uint32_t alloc_factor;       /* refills in a row, halved by each free: 0 … 5 */
    bool prev_free_high_order;   /* the last free was of order 1 … 3 */
};

enum dk_pcp_mode { DK_PCP_GROW, DK_PCP_SHRINK, DK_PCP_EMPTY };

struct dk_pcp_pressure {
    enum dk_pcp_mode mode;
    bool reclaim_active; /* the zone is being reclaimed */
    bool slice_large;    /* dk_pcp_slice_large */
};

/* ---- sizes ---------------------------------------------------------------------------------- */

uint32_t dk_pcp_batch(uint64_t managed, unsigned page_shift);

/* State of a fresh cache: high = high_min, nothing counted. low is the zone's mark without boost,
 * nr_cpus the CPUs of its node, or all if it has none (0 is taken as 1), fraction 0 or >= 8. */
struct dk_pcp_state dk_pcp_state_make(uint64_t managed, uint64_t low, unsigned nr_cpus,
                                      uint32_t batch, uint32_t fraction);

/* New limits, after marks or CPUs changed: tuning keeps what it has learnt, within the new limits.
 */
void dk_pcp_state_resize(struct dk_pcp_state *s, const struct dk_pcp_state *fresh);

/* Does the CPU's share of its data cache hold more than three batches? */
static inline bool dk_pcp_slice_large(uint64_t slice_bytes, unsigned page_shift, uint32_t batch)
{
    return slice_bytes >> page_shift > (uint64_t)3 * batch;
}

/* ---- pressure ------------------------------------------------------------------------------- */

/* The mode of the zone's caches now that this many frames are free; low and high with boost. */
static inline enum dk_pcp_mode dk_pcp_mode_next(enum dk_pcp_mode mode, uint64_t free, uint64_t low,
                                                uint64_t high)
{
    if (free > high)
        return DK_PCP_GROW;
    if (free <= low)
        return DK_PCP_EMPTY;
    return mode == DK_PCP_GROW ? DK_PCP_SHRINK : mode;
}

/* Frames the cache may hold in this mode. */
static inline uint32_t dk_pcp_hold(const struct dk_pcp_state *s, enum dk_pcp_mode mode)
{
    if (mode == DK_PCP_EMPTY)
        return 0;
    return mode == DK_PCP_SHRINK ? s->high_min : s->high;
}

/* Entries that a list of this order with room for capacity may hold out of high_pages frames. */
static inline unsigned dk_pcp_list_high(unsigned order, uint64_t high_pages, unsigned capacity)
{
    uint64_t entries = high_pages >> order;

    return entries < capacity ? (unsigned)entries : capacity;
}

/* ---- what happened since the policy was asked last ------------------------------------------ */

/* nr allocations were served from the cache. */
static inline void dk_pcp_note_allocs(struct dk_pcp_state *s, uint32_t nr)
{
    s->free_count = nr < 32 ? s->free_count >> nr : 0;
}

/* nr blocks were freed into the cache without a question (dk_pcp_free counts its own block). */
void dk_pcp_note_frees(struct dk_pcp_state *s, unsigned order, uint32_t nr);

/* ---- decisions ------------------------------------------------------------------------------ */

/* An allocation found no block of this order; the cache holds count frames in all. How many blocks
 * to fetch, the one asked for included; at least 1. */
uint32_t dk_pcp_refill(struct dk_pcp_state *s, unsigned order, uint32_t count,
                       enum dk_pcp_mode mode);

/* A block of this order was freed into the cache, which holds count frames with it. How many frames
 * to give back now: 0 … count, whole blocks that contain the last of them included. */
uint32_t dk_pcp_free(struct dk_pcp_state *s, unsigned order, uint32_t count,
                     const struct dk_pcp_pressure *pressure);

/* Time has passed. *drain: frames to give back now, at most 32 batches. True if there is more to
 * decay: ask again at the next interval. */
bool dk_pcp_decay(struct dk_pcp_state *s, uint32_t count, enum dk_pcp_mode mode, uint32_t *drain);

#endif
