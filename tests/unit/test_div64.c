/* SPDX-License-Identifier: MIT */
/* 64-bit division without libgcc, product over divisor, square root: base/div64.h. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/div64.h"
#include "testing.h"

/* A random number of a random width, so that small and large ones are equally likely. */
static uint64_t random_width(uint64_t *state)
{
    uint64_t value = test_random(state);

    return value >> test_random_below(state, 64);
}

struct wide {
    uint64_t high, low;
};

/* The full product of two 64-bit numbers, by schoolbook on 32-bit limbs. */
static struct wide wide_product(uint64_t a, uint64_t b)
{
    uint64_t a0 = a & UINT32_MAX, a1 = a >> 32;
    uint64_t b0 = b & UINT32_MAX, b1 = b >> 32;
    uint64_t low = a0 * b0;
    uint64_t middle = a1 * b0 + (low >> 32);
    uint64_t other = a0 * b1 + (middle & UINT32_MAX);
    struct wide w = {a1 * b1 + (middle >> 32) + (other >> 32), other << 32 | (low & UINT32_MAX)};

    return w;
}

static int wide_compare(struct wide x, struct wide y)
{
    if (x.high != y.high)
        return x.high < y.high ? -1 : 1;
    return x.low < y.low ? -1 : x.low > y.low;
}

static void test_division_edges(void **state)
{
    static const struct {
        uint64_t dividend, divisor, quotient, rest;
    } rows[] = {
        {0, 1, 0, 0},
        {0, UINT64_MAX, 0, 0},
        {1, 1, 1, 0},
        {7, 2, 3, 1},
        {UINT32_MAX, UINT32_MAX, 1, 0},
        {UINT64_C(1) << 32, UINT32_MAX, 1, 1},
        {UINT64_MAX, 1, UINT64_MAX, 0},
        {UINT64_MAX, 2, UINT64_MAX >> 1, 1},
        {UINT64_MAX, UINT64_MAX, 1, 0},
        {UINT64_MAX - 1, UINT64_MAX, 0, UINT64_MAX - 1},
        {UINT64_MAX, UINT64_C(1) << 63, 1, UINT64_MAX >> 1},
        {UINT64_C(1000000000000), 4096, 244140625, 0},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t rest = 99;

        assert_int_equal(dk_div64(rows[i].dividend, rows[i].divisor), rows[i].quotient);
        assert_int_equal(dk_mod64(rows[i].dividend, rows[i].divisor), rows[i].rest);
        assert_int_equal(dk_div64_by_steps(rows[i].dividend, rows[i].divisor, &rest),
                         rows[i].quotient);
        assert_int_equal(rest, rows[i].rest);
    }
}

static void test_division_random(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(200000); n; n--) {
        uint64_t dividend = random_width(&seed);
        uint64_t divisor = random_width(&seed) | 1;
        uint64_t rest;
        uint64_t quotient = dk_div64_by_steps(dividend, divisor, &rest);

        assert_int_equal(quotient, dividend / divisor);
        assert_int_equal(rest, dividend % divisor);
        assert_int_equal(dk_div64(dividend, divisor), quotient);
        assert_int_equal(dk_mod64(dividend, divisor), rest);
    }
}

static void test_muldiv_edges(void **state)
{
    static const struct {
        uint64_t a, b, divisor, want;
    } rows[] = {
        {0, 0, 1, 0},
        {0, UINT64_MAX, 1, 0},
        {6, 7, 4, 10},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX},
        {UINT64_MAX, 3, 4, UINT64_C(0xbfffffffffffffff)},
        {UINT64_MAX, 2, 1, UINT64_MAX},
        {UINT64_C(1) << 63, 2, UINT64_MAX, 1},
        {UINT64_C(1) << 40, UINT64_C(1) << 40, UINT64_C(1) << 50, UINT64_C(1) << 30},
        {UINT64_C(1) << 40, UINT64_C(1) << 40, UINT64_C(1) << 16, UINT64_MAX},
        {UINT64_C(1) << 40, UINT64_C(1) << 40, UINT64_C(1) << 17, UINT64_C(1) << 63},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(dk_muldiv64(rows[i].a, rows[i].b, rows[i].divisor), rows[i].want);
        assert_int_equal(dk_muldiv64(rows[i].b, rows[i].a, rows[i].divisor), rows[i].want);
    }
}

/* q = floor(ab/d) is the only number with q*d <= ab and ab - q*d < d. */
static void test_muldiv_random(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(100000); n; n--) {
        uint64_t a = random_width(&seed), b = random_width(&seed);
        uint64_t divisor = random_width(&seed) | 1;
        uint64_t quotient = dk_muldiv64(a, b, divisor);
        struct wide product = wide_product(a, b);
        struct wide below = wide_product(quotient, divisor);
        struct wide above = below;

        assert_true(wide_compare(below, product) <= 0);
        if (product.high >= divisor) { /* the quotient has more than 64 bits */
            assert_int_equal(quotient, UINT64_MAX);
            continue;
        }
        above.low += divisor;
        above.high += above.low < divisor;
        assert_true(wide_compare(product, above) < 0);
    }
}

static void test_sqrt(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    assert_int_equal(dk_sqrt64(0), 0);
    assert_int_equal(dk_sqrt64(1), 1);
    assert_int_equal(dk_sqrt64(3), 1);
    assert_int_equal(dk_sqrt64(4), 2);
    assert_int_equal(dk_sqrt64(UINT64_MAX), UINT32_MAX);
    assert_int_equal(dk_sqrt64(UINT64_C(0xfffffffe00000001)), UINT32_MAX);
    assert_int_equal(dk_sqrt64(UINT64_C(0xfffffffe00000000)), UINT32_MAX - 1);
    for (uint64_t n = test_effort(200000); n; n--) {
        uint64_t value = random_width(&seed);
        uint64_t root = dk_sqrt64(value);

        assert_true(root * root <= value);
        assert_true(root == UINT32_MAX || (root + 1) * (root + 1) > value);
    }
}

static void test_small_helpers(void **state)
{
    (void)state;

    assert_int_equal(dk_bit_width64(0), 0);
    for (unsigned bit = 0; bit < 64; bit++) {
        assert_int_equal(dk_bit_width64(UINT64_C(1) << bit), bit + 1);
        assert_int_equal(dk_bit_width64((UINT64_C(1) << bit) | 1), bit + 1);
        assert_int_equal(dk_bit_width64(UINT64_MAX >> bit), 64 - bit);
    }
    assert_int_equal(dk_add_sat64(UINT64_MAX - 1, 1), UINT64_MAX);
    assert_int_equal(dk_add_sat64(UINT64_MAX, 1), UINT64_MAX);
    assert_int_equal(dk_add_sat64(2, 3), 5);
    assert_int_equal(dk_sub_sat64(3, 2), 1);
    assert_int_equal(dk_sub_sat64(2, 3), 0);
    assert_int_equal(dk_shl_sat64(1, 63), UINT64_C(1) << 63);
    assert_int_equal(dk_shl_sat64(2, 63), UINT64_MAX);
    assert_int_equal(dk_shl_sat64(UINT64_MAX, 0), UINT64_MAX);
    assert_int_equal(dk_shl_sat64(0, 63), 0);
    assert_int_equal(dk_clamp64(5, 1, 9), 5);
    assert_int_equal(dk_clamp64(0, 1, 9), 1);
    assert_int_equal(dk_clamp64(10, 1, 9), 9);
    assert_int_equal(dk_clamp64(5, 9, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_division_edges), cmocka_unit_test(test_division_random),
        cmocka_unit_test(test_muldiv_edges),   cmocka_unit_test(test_muldiv_random),
        cmocka_unit_test(test_sqrt),           cmocka_unit_test(test_small_helpers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
