/* SPDX-License-Identifier: MIT */
/* How far per-CPU counts may drift; the formula is at the head of stat_threshold.h. */
#include "policy/stat_threshold.h"

#include "base/div64.h"

#define UNIT_SHIFT 27u /* 128 MiB */

unsigned dk_stat_threshold(unsigned nr_cpus, uint64_t managed, unsigned page_shift)
{
    uint64_t units = page_shift < UNIT_SHIFT ? managed >> (UNIT_SHIFT - page_shift)
                                             : dk_shl_sat64(managed, page_shift - UNIT_SHIFT);
    unsigned threshold = 2 * dk_bit_width64(nr_cpus) * (1 + dk_bit_width64(units));

    return threshold < DK_STAT_THRESHOLD_MOST ? threshold : DK_STAT_THRESHOLD_MOST;
}

uint64_t dk_drift_mark(unsigned nr_cpus, unsigned threshold, uint64_t min, uint64_t low,
                       uint64_t high)
{
    uint64_t drift = (uint64_t)nr_cpus * threshold;

    return drift > low - min ? dk_add_sat64(high, drift) : 0;
}
