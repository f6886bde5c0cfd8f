/* SPDX-License-Identifier: MIT */
/*
 * Work counted in accesses to shared memory, not in time: a free, a take and a failure cost the
 * same number in a small pool and in a large one, up to the levels of the index (hazard 131).
 */
#include "point.h"

#include "base/rseq.h"

#include "hazard.h"


static uint64_t accesses;

void dk_test_point(const volatile void *address, int kind)
{
    (void)address;
    (void)kind;
    accesses++;
}

/* For machines without sequences, where base/rseq.h does not declare them. */
uint32_t dk_sim_cpu_id(void);
uint32_t dk_sim_rseq_begin(void);
void dk_sim_rseq_end(void);
bool dk_sim_rseq_commit(dk_aword *head, dk_word value);

uint32_t dk_sim_rseq_begin(void)
{
    return 0;
}
void dk_sim_rseq_end(void)
{
}
bool dk_sim_rseq_commit(dk_aword *head, dk_word value)
{
    atomic_store(head, value);
    return true;
}
uint32_t dk_sim_cpu_id(void)
{
    return 0;
}

struct cost {
    uint64_t free, take, fail;
};

static uint64_t max64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The dearest of many, in a pool whose free frames are scattered singles. */
static struct cost measure(uint64_t blocks, unsigned order)
{
    struct hazard_pool h;
    struct cost c = {0, 0, 0};
    uint64_t random = test_seed(), nr = blocks * 512;
    hazard_open_simple(&h, 0, nr, DECKLE_FEATURE_NO_CACHES, false);
    for (uint64_t b = 0; b < blocks; b++)
        hazard_alloc(&h, GFP_M, 9);
    for (uint64_t b = 0; b < blocks; b++)
        assert_int_equal(deckle_split(h.d, b * 512, 9, order), DECKLE_OK);
    /* In the first half of each block only: no block becomes whole. */
    for (unsigned n = 0; n < 300; n++) {
        uint64_t pfn = test_random_below(&random, nr) & ~((1ull << order) - 1) & ~256ull;
        accesses = 0;
        if (deckle_free(h.d, pfn, order))
            continue;
        c.free = max64(c.free, accesses);
    }
    accesses = 0;
    assert_true(deckle_alloc(h.d, GFP_M, 10) < 0);
    c.fail = accesses;
    for (unsigned n = 0; n < 20; n++) {
        accesses = 0;
        hazard_alloc(&h, GFP_M, order);
        c.take = max64(c.take, accesses);
    }
    hazard_close(&h);
    return c;
}

static void h131_work_does_not_grow_with_memory(void **state)
{
    (void)state;
    for (unsigned order = 0; order <= 6; order += 3) {
        struct cost small = measure(8, order), large = measure(1200, order);
        printf("order %u: free %llu and %llu accesses, take %llu and %llu, failure %llu and %llu\n",
               order, (unsigned long long)small.free, (unsigned long long)large.free,
               (unsigned long long)small.take, (unsigned long long)large.take,
               (unsigned long long)small.fail, (unsigned long long)large.fail);
        /* 150 times the memory: two more levels of index, of which each costs a few accesses. */
        assert_true(large.free <= 120 && large.free <= 3 * small.free + 20);
        assert_true(large.take <= 3 * small.take + 60);
        assert_true(large.fail <= 3 * small.fail + 60);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(h131_work_does_not_grow_with_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
