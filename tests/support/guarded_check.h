/* SPDX-License-Identifier: MIT */
/* What tests of set-up share beside guarded.h: the plainest configuration, checks, frames by name.
 */
#ifndef DECKLE_TESTS_SUPPORT_GUARDED_CHECK_H
#define DECKLE_TESTS_SUPPORT_GUARDED_CHECK_H

#include "guarded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Two CPUs, no marks, pageblocks as the largest blocks. */
static inline struct deckle_config plain_config(const struct deckle_range *ranges, uint32_t nr)
{
    return (struct deckle_config){.size = sizeof(struct deckle_config), .nr_cpus = 2,
                                  .ranges = ranges, .nr_ranges = nr, .grow_ranges = 64,
                                  .max_order = 9, .min_free_kbytes = UINT64_MAX};
}

static inline void assert_valid(struct deckle *d)
{
    char why[256];
    int error = deckle_validate(d, why, sizeof(why));

    if (error)
        fail_msg("%s: %s", deckle_error_name(error), why);
}

/* Free and cached frames of all zones; the counters of each must agree. */
static inline uint64_t sum_free(struct deckle *d)
{
    struct deckle_stat s = {.size = sizeof(s)};
    struct deckle_zone_stat z = {.size = sizeof(z)};
    uint64_t sum = 0;

    assert_int_equal(deckle_get_stat(d, &s), DECKLE_OK);
    for (uint32_t i = 0; i < s.nr_zones; i++) {
        assert_int_equal(deckle_get_zone_stat(d, i, &z), DECKLE_OK);
        assert_true(z.managed + z.reserved == z.present);
        assert_true(z.free + z.cached <= z.managed);
        assert_true(z.present <= z.spanned);
        sum += z.free + z.cached;
    }
    return sum;
}

/* Everything that can be allocated, frame by frame, each at most once; returns how many. */
static inline uint64_t allocate_all(struct deckle *d, uint64_t base, uint8_t *seen, uint64_t nr)
{
    uint64_t count = 0;
    int64_t pfn;

    memset(seen, 0, nr);
    while ((pfn = deckle_alloc(d, DECKLE_GFP_HIGHUSER_MOVABLE, 0)) >= 0) {
        assert_in_range((uint64_t)pfn - base, 0, nr - 1);
        assert_int_equal(seen[(uint64_t)pfn - base]++, 0);
        count++;
    }
    return count;
}

/* Runs call and asserts that it fails with error and leaves not one bit of the metadata different.
 * */
#define ASSERT_REFUSED(g, error, call)                                                             \
    do {                                                                                           \
        unsigned char *before_ = malloc((g)->size);                                                \
        assert_non_null(before_);                                                                  \
        memcpy(before_, (g)->memory, (g)->size);                                                   \
        assert_int_equal(call, error);                                                             \
        assert_memory_equal(before_, (g)->memory, (g)->size);                                      \
        free(before_);                                                                             \
    } while (0)

#endif
