/* SPDX-License-Identifier: MIT */
/*
 * Division of 64-bit numbers, and what is built on it: product over divisor, square root,
 * saturating and clamped arithmetic. Pure.
 *
 * On 32-bit machines compilers turn a 64-bit / or % into a call of libgcc, which a freestanding
 * build does not have. There the quotient is found by shift and subtract, one bit a step: at most
 * 64 steps, for set-up and statistics only. Operands of 32 bits take the machine's own division.
 */
#ifndef DK_BASE_DIV64_H
#define DK_BASE_DIV64_H

#include <stdint.h>

static inline uint64_t dk_min64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t dk_max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* value moved into [low, high]; high wins where low > high. */
static inline uint64_t dk_clamp64(uint64_t value, uint64_t low, uint64_t high)
{
    return dk_min64(dk_max64(value, low), high);
}

/* a + b, UINT64_MAX where that does not fit. */
static inline uint64_t dk_add_sat64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* a - b, 0 where that is negative. */
static inline uint64_t dk_sub_sat64(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* value << shift (shift < 64), UINT64_MAX where bits would be lost. */
static inline uint64_t dk_shl_sat64(uint64_t value, unsigned shift)
{
    return value > UINT64_MAX >> shift ? UINT64_MAX : value << shift;
}

/* Bits needed to write value: 0 for 0, else 1 + the index of its highest set bit. */
static inline unsigned dk_bit_width64(uint64_t value)
{
    unsigned width = 0;

    for (unsigned step = 32; step; step /= 2) {
        if (value >> step) {
            value >>= step;
            width += step;
        }
    }
    return width + (unsigned)value;
}

/*
 * floor(dividend / divisor); the rest goes to *rest. The divisor must not be 0. Compiled on every
 * machine, so that the tests of a 64-bit machine compare it with the native division.
 */
static inline uint64_t dk_div64_by_steps(uint64_t dividend, uint64_t divisor, uint64_t *rest)
{
    uint64_t quotient = 0;
    unsigned shift;

    if (dividend < divisor) {
        *rest = dividend;
        return 0;
    }
    shift = dk_bit_width64(dividend) - dk_bit_width64(divisor);
    divisor <<= shift;
    for (;;) {
        quotient <<= 1;
        if (dividend >= divisor) {
            dividend -= divisor;
            quotient |= 1;
        }
        if (shift-- == 0)
            break;
        divisor >>= 1;
    }
    *rest = dividend;
    return quotient;
}

static inline uint64_t dk_divmod64(uint64_t dividend, uint64_t divisor, uint64_t *rest)
{
#if UINTPTR_MAX > UINT32_MAX
    *rest = dividend % divisor;
    return dividend / divisor;
#else
    if ((dividend | divisor) <= UINT32_MAX) {
        *rest = (uint32_t)dividend % (uint32_t)divisor;
        return (uint32_t)dividend / (uint32_t)divisor;
    }
    return dk_div64_by_steps(dividend, divisor, rest);
#endif
}

static inline uint64_t dk_div64(uint64_t dividend, uint64_t divisor)
{
    uint64_t rest;

    return dk_divmod64(dividend, divisor, &rest);
}

static inline uint64_t dk_mod64(uint64_t dividend, uint64_t divisor)
{
    uint64_t rest;

    dk_divmod64(dividend, divisor, &rest);
    return rest;
}

/*
 * floor(a * b / divisor) as if the product were unbounded, UINT64_MAX where the quotient does not
 * fit. The divisor must not be 0. Walks the bits of a from the top and keeps b's part as quotient
 * and rest of the divisor, so that no intermediate value is larger than the result or the divisor.
 */
static inline uint64_t dk_muldiv64(uint64_t a, uint64_t b, uint64_t divisor)
{
    uint64_t quotient = 0;
    uint64_t rest = 0;
    uint64_t b_rest;
    uint64_t b_quotient;

    if ((a | b) <= UINT32_MAX)
        return dk_div64(a * b, divisor);

    b_quotient = dk_divmod64(b, divisor, &b_rest);
    for (unsigned bit = dk_bit_width64(a); bit-- > 0;) {
        uint64_t carry = rest >= divisor - rest;

        rest = carry ? rest - (divisor - rest) : rest + rest;
        quotient = dk_add_sat64(dk_shl_sat64(quotient, 1), carry);
        if ((a >> bit) & 1) {
            carry = b_rest >= divisor - rest;
            rest = carry ? b_rest - (divisor - rest) : rest + b_rest;
            quotient = dk_add_sat64(quotient, dk_add_sat64(b_quotient, carry));
        }
    }
    return quotient;
}

/* floor(sqrt(value)), one bit a step from the top. */
static inline uint32_t dk_sqrt64(uint64_t value)
{
    uint64_t root = 0;

    for (uint64_t bit = UINT64_C(1) << 62; bit; bit >>= 2) {
        if (value >= root + bit) {
            value -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    return (uint32_t)root;
}

#endif
