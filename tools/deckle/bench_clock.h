/* SPDX-License-Identifier: MIT */
/*
 * The clock of the benchmarks: the machine's cycle counter, read so that the work between start and
 * stop lies entirely between them.
 *
 * Start waits until everything before has finished, then reads, then holds back what follows; stop
 * waits for the work, reads, and holds back what follows. On x86 that is LFENCE RDTSC LFENCE and
 * RDTSCP LFENCE: CPUID would serialise too, but in a virtual machine it traps to the hypervisor.
 *
 * A "cycle" in all output is one tick of this counter: of the TSC on x86 (constant rate, not the
 * core's clock), of the generic timer on aarch64, a nanosecond elsewhere.
 */
#ifndef DECKLE_TOOLS_BENCH_CLOCK_H
#define DECKLE_TOOLS_BENCH_CLOCK_H

#include <stdint.h>

#if defined(__x86_64__)

static inline __attribute__((always_inline)) uint64_t bench_clock_start(void)
{
    uint32_t low, high;

    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

static inline __attribute__((always_inline)) uint64_t bench_clock_stop(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high) : : "rcx", "memory");
    return (uint64_t)high << 32 | low;
}

/* Not ordered against the work: what the kernel's own micro-benchmark uses. */
static inline __attribute__((always_inline)) uint64_t bench_clock_loose(void)
{
    uint32_t low, high;

    __asm__ volatile("rdtsc" : "=a"(low), "=d"(high) : : "memory");
    return (uint64_t)high << 32 | low;
}

#elif defined(__aarch64__)

static inline __attribute__((always_inline)) uint64_t bench_clock_start(void)
{
    uint64_t ticks;

    __asm__ volatile("dsb ish\n\tisb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    return ticks;
}

static inline __attribute__((always_inline)) uint64_t bench_clock_stop(void)
{
    return bench_clock_start();
}

static inline __attribute__((always_inline)) uint64_t bench_clock_loose(void)
{
    uint64_t ticks;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
    return ticks;
}

#else

uint64_t bench_clock_ns(void);

static inline uint64_t bench_clock_start(void)
{
    return bench_clock_ns();
}

static inline uint64_t bench_clock_stop(void)
{
    return bench_clock_ns();
}

static inline uint64_t bench_clock_loose(void)
{
    return bench_clock_ns();
}

#endif

/* Which counter this is, for people. */
const char *bench_clock_name(void);

/* Ticks per nanosecond, measured against CLOCK_MONOTONIC over about `milliseconds`. */
double bench_clock_calibrate(unsigned milliseconds);

/* Ticks between a start and a stop with nothing between them (minimum of many): subtracted where a
 * figure is the sum of many short intervals. */
double bench_clock_overhead(void);

#endif
