/* SPDX-License-Identifier: MIT */
/*
 * A log-linear histogram of 64-bit values: each octave (values with the same highest bit) is
 * divided into 32 buckets of equal width, values below 64 have a bucket each. A bucket is never
 * wider than 1/32 of the values in it, and its middle stands for all of them, so that a quantile is
 * off by at most 1/64 of itself; minimum, maximum, number and sum are exact. 15 KiB; adding costs a
 * few instructions and one cache line.
 *
 * One thread adds to a histogram; histograms of several threads are merged afterwards, which gives
 * the same as if one had seen all values.
 */
#ifndef DECKLE_TOOLS_HISTOGRAM_H
#define DECKLE_TOOLS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS 5u                                  /* 2^5 buckets an octave */
#define HISTOGRAM_EXACT    (UINT64_C(2) << HISTOGRAM_SUB_BITS) /* values below are kept exactly */
#define HISTOGRAM_BUCKETS                                                                          \
    ((unsigned int)HISTOGRAM_EXACT + (63u - HISTOGRAM_SUB_BITS) * (1u << HISTOGRAM_SUB_BITS))

/* All zero is an empty histogram. */
struct histogram {
    uint64_t count, sum; /* sum wraps at 2^64 */
    uint64_t least;      /* of the values; says nothing where count is 0 */
    uint64_t most;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);

/* Adds what is in from to into. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The value that a share of part of whole (part <= whole, whole > 0) of all values do not exceed,
 * as its bucket's middle; between least and most; 0 of an empty histogram. part 0 is the least
 * value. */
uint64_t histogram_quantile(const struct histogram *h, uint64_t part, uint64_t whole);

/* The bucket of a value, and the lowest and highest value of a bucket (below HISTOGRAM_BUCKETS). */
unsigned int histogram_bucket(uint64_t value);
uint64_t histogram_lowest(unsigned int bucket);
uint64_t histogram_highest(unsigned int bucket);

#endif
