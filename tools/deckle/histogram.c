/* SPDX-License-Identifier: MIT */
/* See histogram.h. Bucket of a value with highest bit e >= 6: 64 + (e - 6) * 32 + the next 5 bits.
 */
#include "histogram.h"

#define SUB (1u << HISTOGRAM_SUB_BITS)

static unsigned int highest_bit(uint64_t value)
{
    return 63u - (unsigned int)__builtin_clzll(value);
}

unsigned int histogram_bucket(uint64_t value)
{
    unsigned int shift;

    if (value < HISTOGRAM_EXACT)
        return (unsigned int)value;
    shift = highest_bit(value) - HISTOGRAM_SUB_BITS;
    return shift * SUB + (unsigned int)(value >> shift);
}

uint64_t histogram_lowest(unsigned int bucket)
{
    unsigned int shift;

    if (bucket < HISTOGRAM_EXACT)
        return bucket;
    shift = bucket / SUB - 1;
    return (uint64_t)(SUB + bucket % SUB) << shift;
}

uint64_t histogram_highest(unsigned int bucket)
{
    return bucket + 1 < HISTOGRAM_BUCKETS ? histogram_lowest(bucket + 1) - 1 : UINT64_MAX;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    if (h->count == 0 || value < h->least)
        h->least = value;
    if (value > h->most)
        h->most = value;
    h->count++;
    h->sum += value;
    h->buckets[histogram_bucket(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
    if (from->count == 0)
        return;
    if (into->count == 0 || from->least < into->least)
        into->least = from->least;
    if (from->most > into->most)
        into->most = from->most;
    into->count += from->count;
    into->sum += from->sum;
    for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++)
        into->buckets[b] += from->buckets[b];
}

/* How many values make up the share, rounded up, without overflow: count = q * whole + r. */
static uint64_t rank_of(uint64_t count, uint64_t part, uint64_t whole)
{
    uint64_t q = count / whole, r = count % whole;

    return q * part + (r * part + whole - 1) / whole;
}

static uint64_t clamp(const struct histogram *h, uint64_t value)
{
    return value < h->least ? h->least : value > h->most ? h->most : value;
}

uint64_t histogram_quantile(const struct histogram *h, uint64_t part, uint64_t whole)
{
    uint64_t rank = rank_of(h->count, part, whole), seen = 0;

    if (h->count == 0)
        return 0;
    for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++) {
        seen += h->buckets[b];
        if (seen > 0 && seen >= rank) {
            uint64_t low = histogram_lowest(b);

            return clamp(h, low + (histogram_highest(b) - low) / 2);
        }
    }
    return h->most;
}
