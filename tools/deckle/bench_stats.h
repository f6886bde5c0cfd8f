/* SPDX-License-Identifier: MIT */
/*
 * Samples of one figure and what is said about them. The minimum is the figure (everything that
 * disturbs a measurement makes it longer), the median says how typical it is. Pure; no timing here.
 */
#ifndef DECKLE_TOOLS_BENCH_STATS_H
#define DECKLE_TOOLS_BENCH_STATS_H

#include <stdbool.h>
#include <stdint.h>

#define BENCH_MAX_SAMPLES 64u

struct bench_samples {
    unsigned nr;
    double values[BENCH_MAX_SAMPLES];
};

/* A full set keeps its first BENCH_MAX_SAMPLES and drops the rest; so do NaN and negative values.
 */
void bench_samples_add(struct bench_samples *samples, double value);

/* NaN without a sample. The median of an even number is the mean of the middle two. */
double bench_samples_min(const struct bench_samples *samples);
double bench_samples_median(const struct bench_samples *samples);

/* value / base; NaN where that has no meaning (a base of zero, NaN). */
double bench_ratio(double value, double base);

/* How many loops last about target ticks, if `loops` took `ticks`; within [1, most]. */
uint64_t bench_scale_loops(uint64_t loops, double ticks, double target, uint64_t most);

/* Ticks per element of `elements` in `intervals` timed intervals that each cost `overhead`; never
 * below zero. */
double bench_per_element(uint64_t ticks, uint64_t intervals, double overhead, uint64_t elements);

#endif
