/* SPDX-License-Identifier: MIT */
/*
 * Counter drift (reference: 3.3). The free count of a zone is a shared number plus one delta per
 * CPU, and a CPU folds its delta when it exceeds
 *
 *   T = min(125, 2 * fls(cpus) * (1 + fls(managed in units of 128 MiB)))
 *
 * so the shared number is wrong by at most cpus * T. Where that exceeds low - min, a test could
 * pass although min is already broken: below the drift mark high + cpus * T the deltas must be
 * summed.
 */
#ifndef DK_POLICY_STAT_THRESHOLD_H
#define DK_POLICY_STAT_THRESHOLD_H

#include <stdint.h>

#define DK_STAT_THRESHOLD_MOST 125u

/* T, in frames. */
unsigned dk_stat_threshold(unsigned nr_cpus, uint64_t managed, unsigned page_shift);

/* The drift mark of a zone; 0 where the shared number is always good enough. */
uint64_t dk_drift_mark(unsigned nr_cpus, unsigned threshold, uint64_t min, uint64_t low,
                       uint64_t high);

#endif
