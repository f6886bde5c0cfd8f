/* SPDX-License-Identifier: MIT */
/*
 * Lists of the caches follow what is asked of them: trips to the shared level per frame must not
 * depend on what other lists, or this one long ago, were used for. Counted, not timed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <deckle/linux.h>

#include "testing.h"

#define MANY 1000u
#define SOME 600u

static struct deckle *open_pool(uint32_t features)
{
    struct deckle_create_options o = {.size = sizeof(o),
                                      .frames = 4096,
                                      .flags = DECKLE_CREATE_RESERVE,
                                      .features = features};
    struct deckle *d = NULL;
    assert_int_equal(deckle_create(&o, &d), DECKLE_OK);
    return d;
}

struct trips {
    uint64_t refills, drains;
};

static struct trips trips(const struct deckle *d)
{
    struct deckle_stat s = {.size = sizeof(s)};
    struct trips t = {0, 0};
    deckle_get_stat(d, &s);
    for (uint32_t i = 0; i < s.nr_zones; i++) {
        struct deckle_zone_stat z = {.size = sizeof(z)};
        deckle_get_zone_stat(d, i, &z);
        t.refills += z.refills;
        t.drains += z.drains;
    }
    return t;
}

/* Threads may be moved between CPUs: so few trips more than on one CPU are right. */
static void round_of(struct deckle *d, const char *when)
{
    static int64_t movable[SOME], kernel[MANY];
    struct deckle_request past = {.size = sizeof(past),
                                  .gfp = DECKLE_GFP_HIGHUSER_MOVABLE,
                                  .flags = DECKLE_REQ_NO_CACHE};
    for (unsigned i = 0; i < SOME; i++)
        assert_true((movable[i] = deckle_alloc_request(d, &past)) >= 0);
    struct trips before = trips(d);
    for (unsigned i = 0; i < MANY; i++)
        assert_true((kernel[i] = deckle_alloc(d, DECKLE_GFP_KERNEL, 0)) >= 0);
    uint64_t refills = trips(d).refills - before.refills;
    before = trips(d);
    for (unsigned i = 0; i < SOME; i++)
        assert_int_equal(deckle_free(d, (uint64_t)movable[i], 0), DECKLE_OK);
    uint64_t drains = trips(d).drains - before.drains;
    printf("%s: %u allocations made %llu refills, %u frees of another type %llu drains\n", when,
           MANY, (unsigned long long)refills, SOME, (unsigned long long)drains);
    assert_true(refills < MANY / 4);
    assert_true(drains < SOME / 4);
    assert_int_equal(deckle_drain_all(d), DECKLE_OK);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(deckle_free(d, (uint64_t)kernel[i], 0), DECKLE_OK);
    assert_int_equal(deckle_drain_all(d), DECKLE_OK);
}

/* A list that was drained and then only allocates grows again; frees go in batches to a list that
 * has lost its size to another. */
static void check(uint32_t features)
{
    struct deckle *d = open_pool(features);
    round_of(d, "fresh");
    round_of(d, "after a drain");
    round_of(d, "after two");
    assert_int_equal(deckle_destroy(d), 0);
}

static void default_caches(void **state)
{
    (void)state;
    check(0);
}

static void cells(void **state)
{
    (void)state;
    check(DECKLE_FEATURE_CELLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(default_caches), cmocka_unit_test(cells)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
