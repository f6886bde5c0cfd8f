/* SPDX-License-Identifier: MIT */
/* Statistics of the benchmarks (bench_stats.h). */
#include "bench_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void bench_samples_add(struct bench_samples *samples, double value)
{
    if (samples->nr < BENCH_MAX_SAMPLES && value >= 0)
        samples->values[samples->nr++] = value;
}

double bench_samples_min(const struct bench_samples *samples)
{
    double least = NAN;

    for (unsigned i = 0; i < samples->nr; i++)
        if (i == 0 || samples->values[i] < least)
            least = samples->values[i];
    return least;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_samples_median(const struct bench_samples *samples)
{
    double sorted[BENCH_MAX_SAMPLES];
    unsigned nr = samples->nr;

    if (nr == 0)
        return NAN;
    memcpy(sorted, samples->values, nr * sizeof(sorted[0]));
    qsort(sorted, nr, sizeof(sorted[0]), compare_doubles);
    return nr % 2 != 0 ? sorted[nr / 2] : (sorted[nr / 2 - 1] + sorted[nr / 2]) / 2;
}

double bench_ratio(double value, double base)
{
    return base > 0 ? value / base : NAN;
}

uint64_t bench_scale_loops(uint64_t loops, double ticks, double target, uint64_t most)
{
    double wanted = ticks > 0 ? (double)loops * target / ticks : (double)most;

    if (wanted >= (double)most)
        return most;
    return wanted < 1 ? 1 : (uint64_t)wanted;
}

double bench_per_element(uint64_t ticks, uint64_t intervals, double overhead, uint64_t elements)
{
    double net = (double)ticks - (double)intervals * overhead;

    if (elements == 0)
        return NAN;
    return net > 0 ? net / (double)elements : 0;
}
