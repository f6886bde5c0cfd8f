/* SPDX-License-Identifier: MIT */
/* Sizes of per-CPU caches; the formulas are at the head of pcp_size.h. */
#include "policy/pcp_size.h"

#include "base/div64.h"

static uint32_t min32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t max32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* value in [low, high]; high wins where low > high. */
static uint32_t clamp32(uint32_t value, uint32_t low, uint32_t high)
{
    return min32(max32(value, low), high);
}

/* high - by, not below high_min. */
static uint32_t fallen(const struct dk_pcp_state *s, uint32_t by)
{
    return s->high > by ? max32(s->high - by, s->high_min) : s->high_min;
}

/* The most that one drain moves. */
static uint32_t large_batch(const struct dk_pcp_state *s)
{
    return s->batch << DK_PCP_BATCH_SCALE_MOST;
}

static bool counts_for_burst(unsigned order)
{
    return order > 0 && order <= DK_PCP_BURST_ORDER_MOST;
}

uint32_t dk_pcp_batch(uint64_t managed, unsigned page_shift)
{
    uint64_t mebibyte = page_shift < 20 ? UINT64_C(1) << (20 - page_shift) : 0;
    uint64_t b = dk_max64(dk_min64(managed / 1024, mebibyte) / 4, 1);
    uint32_t power = UINT32_C(1) << (dk_bit_width64(b + b / 2) - 1);

    return max32(power - 1, 1);
}

struct dk_pcp_state dk_pcp_state_make(uint64_t managed, uint64_t low, unsigned nr_cpus,
                                      uint32_t batch, uint32_t fraction)
{
    uint64_t cpus = nr_cpus ? nr_cpus : 1;
    uint64_t largest = dk_div64(managed, fraction ? fraction : DK_PCP_FRACTION_LEAST);
    uint64_t smallest = fraction ? largest : low;
    uint64_t least = (uint64_t)4 * batch;
    struct dk_pcp_state s = {0};

    s.batch = batch;
    s.high_min = (uint32_t)dk_clamp64(dk_div64(smallest, cpus), least, DK_PCP_HIGH_MOST);
    s.high_max = (uint32_t)dk_clamp64(dk_div64(largest, cpus), least, DK_PCP_HIGH_MOST);
    s.high_max = max32(s.high_max, s.high_min);
    s.high = s.high_min;
    return s;
}

void dk_pcp_state_resize(struct dk_pcp_state *s, const struct dk_pcp_state *fresh)
{
    s->batch = fresh->batch;
    s->high_min = fresh->high_min;
    s->high_max = fresh->high_max;
    s->high = clamp32(s->high, s->high_min, s->high_max);
}

/* free_count after nr more blocks: each counts whole, while it is below the limit before. */
static void count_frees(struct dk_pcp_state *s, unsigned order, uint32_t nr)
{
    uint32_t limit = large_batch(s);
    uint32_t needed;

    if (s->free_count >= limit)
        return;
    needed = ((limit - s->free_count - 1) >> order) + 1;
    s->free_count += min32(needed, nr) << order;
}

void dk_pcp_note_frees(struct dk_pcp_state *s, unsigned order, uint32_t nr)
{
    if (nr == 0)
        return;
    s->alloc_factor = nr < 32 ? s->alloc_factor >> nr : 0;
    s->prev_free_high_order = counts_for_burst(order);
    count_frees(s, order, nr);
}

uint32_t dk_pcp_refill(struct dk_pcp_state *s, unsigned order, uint32_t count,
                       enum dk_pcp_mode mode)
{
    uint32_t frames = order ? s->batch : s->batch << s->alloc_factor;
    uint32_t blocks = order && s->batch > 1 ? max32(s->batch >> order, 2) : 1;
    uint32_t room;

    s->high = clamp32(s->high, s->high_min, s->high_max);
    if (mode == DK_PCP_EMPTY)
        s->high = s->high_min;
    if (mode == DK_PCP_EMPTY || s->high < s->batch)
        return 1;

    if (mode == DK_PCP_GROW)
        s->high = min32(s->high + max32(frames, blocks << order), s->high_max);
    if (order)
        return min32(blocks, 1 + (s->high >> order));

    room = s->high > count + s->batch ? s->high - count - s->batch : 0;
    room = max32(room, s->batch);
    if (frames <= room && s->alloc_factor < DK_PCP_BATCH_SCALE_MOST)
        s->alloc_factor++;
    return min32(frames, room);
}

/* The count from which on frames are given back; moves high. */
static uint32_t drain_limit(struct dk_pcp_state *s, uint32_t count,
                            const struct dk_pcp_pressure *pressure)
{
    uint32_t high = s->high;
    uint32_t freed = max32(s->free_count, s->batch);

    if (pressure->reclaim_active) {
        s->high = fallen(s, freed);
        return min32(4 * s->batch, s->high);
    }
    if (s->high_min == s->high_max)
        return high;
    if (pressure->mode == DK_PCP_SHRINK) {
        s->high = fallen(s, freed);
        return max32(count, s->high_min); /* from high_min on each free drains */
    }
    if (count >= high && high < s->free_count + s->batch)
        s->high = clamp32(s->free_count + s->batch, s->high_min, s->high_max);
    return high;
}

uint32_t dk_pcp_free(struct dk_pcp_state *s, unsigned order, uint32_t count,
                     const struct dk_pcp_pressure *pressure)
{
    bool burst = counts_for_burst(order) && s->prev_free_high_order && s->free_count >= s->batch &&
                 (!pressure->slice_large || count >= s->batch);
    uint32_t limit;

    dk_pcp_note_frees(s, order, 1);
    s->high = clamp32(s->high, s->high_min, s->high_max);
    if (pressure->mode == DK_PCP_EMPTY || s->high < s->batch) {
        s->high = s->high_min;
        return count;
    }
    if (burst) {
        s->high = fallen(s, large_batch(s));
        return min32(count, large_batch(s));
    }
    limit = drain_limit(s, count, pressure);
    if (count < limit)
        return 0;
    return min32(count, max32(clamp32(s->free_count, s->batch, limit - s->batch), 1));
}

bool dk_pcp_decay(struct dk_pcp_state *s, uint32_t count, enum dk_pcp_mode mode, uint32_t *drain)
{
    uint32_t largest = large_batch(s);
    uint32_t keep = count > largest ? count - largest : 0; /* one drain leaves at least these */
    uint32_t hold;

    s->high = clamp32(s->high, s->high_min, s->high_max);
    if (mode == DK_PCP_EMPTY)
        s->high = s->high_min;
    else
        s->high = max32(fallen(s, max32(s->high / 8, 1)), min32(keep, s->high));
    hold = mode == DK_PCP_EMPTY ? 0 : s->high;
    *drain = count > hold ? min32(count - hold, largest) : 0;
    return s->high > s->high_min || count - *drain > hold;
}
