/* SPDX-License-Identifier: MIT */
/*
 * Rate and overhead of the benchmarks' clock (bench_clock.h).
 *
 * The rate comes from two pairs of readings, counter and CLOCK_MONOTONIC. The two clocks of a pair
 * cannot be read at one instant; a pair is taken as the tightest of many (counter readings before
 * and after the system's), so that an interrupt in between does not count.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_clock.h"

#include <time.h>

struct clock_pair {
    uint64_t ticks, ns;
};

static uint64_t monotonic_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if !defined(__x86_64__) && !defined(__aarch64__)
uint64_t bench_clock_ns(void)
{
    return monotonic_ns();
}
#endif

static struct clock_pair tightest_pair(void)
{
    struct clock_pair best = {0, 0};
    uint64_t gap = UINT64_MAX;

    for (int i = 0; i < 100; i++) {
        uint64_t before = bench_clock_start();
        uint64_t ns = monotonic_ns();
        uint64_t after = bench_clock_stop();

        if (after - before < gap) {
            gap = after - before;
            best.ticks = before + gap / 2;
            best.ns = ns;
        }
    }
    return best;
}

const char *bench_clock_name(void)
{
#if defined(__x86_64__)
    return "TSC";
#elif defined(__aarch64__)
    return "CNTVCT";
#else
    return "CLOCK_MONOTONIC";
#endif
}

double bench_clock_calibrate(unsigned milliseconds)
{
    struct timespec pause = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    struct clock_pair first = tightest_pair(), last;

    nanosleep(&pause, NULL);
    last = tightest_pair();
    return (double)(last.ticks - first.ticks) / (double)(last.ns - first.ns);
}

double bench_clock_overhead(void)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < 10000; i++) {
        uint64_t start = bench_clock_start();
        uint64_t ticks = bench_clock_stop() - start;

        if (ticks < least)
            least = ticks;
    }
    return (double)least;
}
