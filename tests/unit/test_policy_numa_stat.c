/* SPDX-License-Identifier: MIT */
/* NUMA counters of one allocation, and the sums they must keep. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "policy/numa_stat.h"
#include "testing.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#define HIT   DK_NUMA_BIT(DK_NUMA_HIT)
#define MISS  DK_NUMA_BIT(DK_NUMA_MISS)
#define FOR   DK_NUMA_BIT(DK_NUMA_FOREIGN)
#define INTER DK_NUMA_BIT(DK_NUMA_INTERLEAVE)
#define LOCAL DK_NUMA_BIT(DK_NUMA_LOCAL)
#define OTHER DK_NUMA_BIT(DK_NUMA_OTHER)

static void test_rows(void **state)
{
    static const struct {
        uint32_t preferred, serving, cpu, interleave;
        unsigned on_serving, on_preferred;
    } rows[] = {
        {0, 0, 0, DK_NO_NODE, HIT | LOCAL, 0},
        {0, 0, 1, DK_NO_NODE, HIT | OTHER, 0},
        {0, 1, 0, DK_NO_NODE, MISS | OTHER, FOR},
        {0, 1, 1, DK_NO_NODE, MISS | LOCAL, FOR},
        {0, 1, 2, DK_NO_NODE, MISS | OTHER, FOR},
        {1, 1, 0, 1, HIT | OTHER | INTER, 0},
        {1, 1, 1, 1, HIT | LOCAL | INTER, 0},
        {1, 2, 1, 1, MISS | OTHER, FOR},
        {63, 63, DK_NO_NODE, DK_NO_NODE, HIT | OTHER, 0},
    };
    (void)state;

    for (size_t i = 0; i < COUNT(rows); i++) {
        struct dk_numa_bumps b =
            dk_numa_account(rows[i].preferred, rows[i].serving, rows[i].cpu, rows[i].interleave);

        assert_int_equal(b.serving, rows[i].on_serving);
        assert_int_equal(b.preferred, rows[i].on_preferred);
    }
}

static void bump(uint64_t counters[DK_NR_NUMA_ITEMS], unsigned set)
{
    for (unsigned item = 0; item < DK_NR_NUMA_ITEMS; item++)
        counters[item] += (set >> item) & 1;
}

static void test_sums(void **state)
{
    uint64_t seed = test_seed();
    uint64_t counters[4][DK_NR_NUMA_ITEMS] = {{0}};
    uint64_t served[4] = {0}, misses = 0, foreigns = 0, interleaved = 0, wanted = 0;
    (void)state;

    for (uint64_t n = test_effort(50000); n; n--) {
        uint32_t preferred = (uint32_t)test_random_below(&seed, 4);
        uint32_t serving = (uint32_t)test_random_below(&seed, 4);
        uint32_t cpu = (uint32_t)test_random_below(&seed, 4);
        uint32_t chosen = test_random(&seed) & 1 ? preferred : DK_NO_NODE;
        struct dk_numa_bumps b = dk_numa_account(preferred, serving, cpu, chosen);

        bump(counters[serving], b.serving);
        bump(counters[preferred], b.preferred);
        served[serving]++;
        wanted += chosen == serving;
    }
    for (unsigned node = 0; node < 4; node++) {
        const uint64_t *c = counters[node];

        assert_int_equal(c[DK_NUMA_HIT] + c[DK_NUMA_MISS], served[node]);
        assert_int_equal(c[DK_NUMA_LOCAL] + c[DK_NUMA_OTHER], served[node]);
        misses += c[DK_NUMA_MISS];
        foreigns += c[DK_NUMA_FOREIGN];
        interleaved += c[DK_NUMA_INTERLEAVE];
    }
    assert_int_equal(misses, foreigns);
    assert_int_equal(interleaved, wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
