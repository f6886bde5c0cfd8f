/* SPDX-License-Identifier: MIT */
/*
 * Bit arithmetic on machine words: first set bit, population count, aligned runs. Pure. Compilers
 * turn the builtins into instructions or into inline code: -ffreestanding builds for machines
 * without the instruction would call libgcc, so those get the portable forms.
 */
#ifndef DK_BASE_BITS_H
#define DK_BASE_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

#if defined(__x86_64__) || defined(__i386__) || defined(__aarch64__) || defined(__s390x__)
#define DK_HAVE_CTZ 1
#endif
#if defined(__POPCNT__) || defined(__aarch64__)
#define DK_HAVE_POPCNT 1
#endif

/* Index of the lowest set bit; w must not be 0. */
static inline unsigned dk_ctz(dk_word w)
{
#ifdef DK_HAVE_CTZ
    return (unsigned)(DK_WORD_BITS == 64 ? __builtin_ctzll(w) : __builtin_ctz((unsigned)w));
#else
    unsigned n = 0;
    for (unsigned s = DK_WORD_BITS / 2; s; s /= 2) {
        if (!(w << (DK_WORD_BITS - s))) {
            w >>= s;
            n += s;
        }
    }
    return n;
#endif
}

/* Index of the highest set bit of a 64-bit value; v must not be 0. */
static inline unsigned dk_fls64(uint64_t v)
{
    unsigned n = 0;
    for (unsigned s = 32; s; s /= 2) {
        if (v >> s) {
            v >>= s;
            n += s;
        }
    }
    return n;
}

static inline unsigned dk_popcount(dk_word w)
{
#ifdef DK_HAVE_POPCNT
    return (unsigned)(DK_WORD_BITS == 64 ? __builtin_popcountll(w)
                                         : __builtin_popcount((unsigned)w));
#else
    w = w - ((w >> 1) & (dk_word)0x5555555555555555ull);
    w = (w & (dk_word)0x3333333333333333ull) + ((w >> 2) & (dk_word)0x3333333333333333ull);
    w = (w + (w >> 4)) & (dk_word)0x0f0f0f0f0f0f0f0full;
    return (unsigned)((dk_word)(w * (dk_word)0x0101010101010101ull) >> (DK_WORD_BITS - 8));
#endif
}

/* n low bits set, n <= DK_WORD_BITS. */
static inline dk_word dk_mask(unsigned n)
{
    return n >= DK_WORD_BITS ? ~(dk_word)0 : ((dk_word)1 << n) - 1;
}

/* Every 2^order-th bit, from bit 0; order <= log2 of the word's bits. */
static inline dk_word dk_aligned_starts(unsigned order)
{
    static const uint64_t starts[7] = {
        ~0ull,
        0x5555555555555555ull,
        0x1111111111111111ull,
        0x0101010101010101ull,
        0x0001000100010001ull,
        0x0000000100000001ull,
        0x0000000000000001ull,
    };
    return (dk_word)starts[order];
}

/*
 * Of the set bits of w keep those that start an aligned run of 2^order set bits (order < log2 of
 * the word's bits): shift-and folds the run onto its first bit, the constant keeps aligned starts.
 */
static inline dk_word dk_run_starts(dk_word w, unsigned order)
{
    for (unsigned k = 0; k < order; k++)
        w &= w >> (1u << k);
    return w & dk_aligned_starts(order);
}

static inline uint64_t dk_align_down(uint64_t v, uint64_t power)
{
    return v & ~(power - 1);
}

static inline uint64_t dk_align_up(uint64_t v, uint64_t power)
{
    return (v + power - 1) & ~(power - 1);
}

static inline bool dk_is_power_of_two(uint64_t v)
{
    return v && !(v & (v - 1));
}

#endif
