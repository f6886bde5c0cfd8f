/* SPDX-License-Identifier: MIT */
/*
 * The histogram: its buckets tile the 64-bit numbers and are narrow enough; quantiles against a
 * sorted array; merging against adding.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "histogram.h"
#include "testing.h"

static void buckets_tile_all_numbers(void **state)
{
    (void)state;
    assert_int_equal(histogram_lowest(0), 0);
    for (unsigned int b = 0; b < HISTOGRAM_BUCKETS; b++) {
        uint64_t low = histogram_lowest(b), high = histogram_highest(b);

        assert_true(low <= high);
        assert_int_equal(histogram_bucket(low), b);
        assert_int_equal(histogram_bucket(high), b);
        if (b + 1 < HISTOGRAM_BUCKETS) {
            assert_int_equal(histogram_lowest(b + 1), high + 1);
            assert_int_equal(histogram_bucket(high + 1), b + 1);
        }
        /* high - low + 1 <= low / 32, and one value a bucket below 64. */
        if (low < HISTOGRAM_EXACT)
            assert_int_equal(low, high);
        else
            assert_true((high - low) < low / 32);
    }
    assert_true(histogram_highest(HISTOGRAM_BUCKETS - 1) == UINT64_MAX);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Values of every magnitude up to 2^63. */
static uint64_t some_value(uint64_t *random)
{
    return test_random(random) >> (1 + test_random_below(random, 63));
}

static void check_quantiles(const struct histogram *h, const uint64_t *sorted, size_t n)
{
    static const uint64_t parts[] = {0, 1, 250, 500, 750, 990, 999, 1000};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t rank = (size_t)((n * parts[i] + 999) / 1000);
        uint64_t want = sorted[rank > 0 ? rank - 1 : 0];
        uint64_t got = histogram_quantile(h, parts[i], 1000);
        uint64_t off = got > want ? got - want : want - got;

        if (want < HISTOGRAM_EXACT)
            assert_int_equal(got, want);
        else
            assert_true(off <= want / 64 + 1 && off < want / 32);
    }
}

static void quantiles_are_close(void **state)
{
    uint64_t random = test_seed();
    uint64_t values[3000];

    (void)state;
    for (unsigned int round = 0; round < 40; round++) {
        size_t n = 1 + test_random_below(&random, 3000);
        struct histogram h = {0};

        for (size_t i = 0; i < n; i++) {
            values[i] = round % 2 ? some_value(&random) : 100 + test_random_below(&random, 900);
            histogram_add(&h, values[i]);
        }
        qsort(values, n, sizeof(values[0]), compare);
        assert_int_equal(h.count, n);
        assert_true(h.least == values[0] && h.most == values[n - 1]);
        assert_true(histogram_quantile(&h, 1, 1) <= h.most);
        check_quantiles(&h, values, n);
    }
}

static void merging_is_adding(void **state)
{
    uint64_t random = test_seed();
    static struct histogram parts[4], merged, whole, empty;

    (void)state;
    memset(parts, 0, sizeof(parts));
    memset(&merged, 0, sizeof(merged));
    memset(&whole, 0, sizeof(whole));
    for (unsigned int i = 0; i < 10000; i++) {
        uint64_t value = some_value(&random);

        histogram_add(&parts[test_random_below(&random, 3)], value);
        histogram_add(&whole, value);
    }
    for (unsigned int p = 0; p < 4; p++) /* the last one is empty */
        histogram_merge(&merged, &parts[p]);
    assert_memory_equal(&merged, &whole, sizeof(whole));
    histogram_merge(&merged, &empty);
    assert_memory_equal(&merged, &whole, sizeof(whole));
}

static void extremes(void **state)
{
    struct histogram h = {0};

    (void)state;
    assert_int_equal(histogram_quantile(&h, 1, 2), 0);
    histogram_add(&h, UINT64_MAX);
    assert_true(histogram_quantile(&h, 1, 2) == UINT64_MAX); /* never beyond what was seen */
    histogram_add(&h, 0);
    assert_int_equal(histogram_quantile(&h, 0, 1), 0);
    assert_int_equal(histogram_quantile(&h, 1, 2), 0);
    assert_true(h.most == UINT64_MAX && h.least == 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_tile_all_numbers), cmocka_unit_test(quantiles_are_close),
        cmocka_unit_test(merging_is_adding), cmocka_unit_test(extremes)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
