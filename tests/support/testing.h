/* SPDX-License-Identifier: MIT */
/*
 * What every test asks of its surroundings. ctest passes the answers in the environment, a person
 * may set them by hand:
 *
 *   DECKLE_TEST_SEED        seed of all randomness; printed, so that a failure can be repeated
 *   DECKLE_TEST_EFFORT      percent of the usual amount of work: 100 in `make test`, more in long
 *                           runs, less under emulation and sanitizers
 *   DECKLE_TEST_EMULATED    1 under an emulator of user programs, which keeps books on every page
 *   DECKLE_TEST_PAGE_SHIFT  12, 14 or 16; tests that call test_page_shift() are run with each
 *
 * Header only, so that it also serves tests that link nothing of Deckle.
 */
#ifndef DECKLE_TESTS_SUPPORT_TESTING_H
#define DECKLE_TESTS_SUPPORT_TESTING_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TEST_SKIPPED 77 /* exit status of a test that cannot run here, after saying why */

static inline uint64_t test_environment_number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    char *end;
    uint64_t value;

    if (text == NULL || *text == '\0')
        return otherwise;
    value = strtoull(text, &end, 0);
    if (*end != '\0') {
        fprintf(stderr, "%s=%s: want a number\n", name, text);
        exit(2);
    }
    return value;
}

/* The seed of this run; prints it. Without the variable it is fixed: `make test` repeats itself. */
static inline uint64_t test_seed(void)
{
    uint64_t seed = test_environment_number("DECKLE_TEST_SEED", 0x6465636b6c65);

    printf("seed: DECKLE_TEST_SEED=0x%" PRIx64 "\n", seed);
    return seed;
}

/* COUNT repetitions scaled by the effort of this run, at least one. */
static inline uint64_t test_effort(uint64_t count)
{
    uint64_t scaled = count * test_environment_number("DECKLE_TEST_EFFORT", 100) / 100;

    return scaled > 0 ? scaled : 1;
}

static inline unsigned int test_page_shift(void)
{
    return (unsigned int)test_environment_number("DECKLE_TEST_PAGE_SHIFT", 12);
}

/* Under an emulator terabytes of addresses cost gigabytes of memory and minutes. */
static inline int test_emulated(void)
{
    return test_environment_number("DECKLE_TEST_EMULATED", 0) != 0;
}

/* splitmix64: good enough for tests, any seed, one word of state. */
static inline uint64_t test_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* A number in [0, bound); the bias of the remainder does not matter here. */
static inline uint64_t test_random_below(uint64_t *state, uint64_t bound)
{
    return test_random(state) % bound;
}

#endif
