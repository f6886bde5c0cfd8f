/* SPDX-License-Identifier: MIT */
/*
 * The byte operations that base/atomic.h builds from a CAS on the word around the byte, forced
 * here on every machine (big-endian ones included): they return and store what the native ones
 * would, leave the neighbours alone, and lose no update when threads work on bytes of one word. And
 * the 64-bit counters, whose low half carries on 32-bit machines.
 *
 * ctest: timeout=120 labels=threads
 */
#define DK_BYTES_BY_CAS
#include "base/atomic.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "testing.h"

static _Alignas(4) dk_a8 bytes[8];

static void fill_bytes(void)
{
    for (unsigned i = 0; i < 8; i++)
        dk_a8_store_relaxed(&bytes[i], (uint8_t)(0x10 + i));
}

static void assert_neighbours(unsigned except)
{
    for (unsigned i = 0; i < 8; i++)
        if (i != except)
            assert_int_equal(dk_a8_load_relaxed(&bytes[i]), 0x10 + i);
}

static void every_position(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        uint8_t expected = 0x77;

        fill_bytes();
        assert_int_equal(dk_a8_exchange(&bytes[i], 0xf0), 0x10 + i);
        assert_int_equal(dk_a8_or(&bytes[i], 0x0f), 0xf0);
        assert_int_equal(dk_a8_and(&bytes[i], 0x3c), 0xff);
        assert_int_equal(dk_a8_add_relaxed(&bytes[i], 0xff), 0x3c);
        assert_int_equal(dk_a8_load_acquire(&bytes[i]), 0x3b);
        assert_false(dk_a8_cas(&bytes[i], &expected, 1));
        assert_int_equal(expected, 0x3b);
        assert_true(dk_a8_cas(&bytes[i], &expected, 1));
        assert_int_equal(dk_a8_load_seq(&bytes[i]), 1);
        assert_neighbours(i);
    }
}

#define THREADS 4
static uint64_t rounds;
static dk_counter counter;

/* Thread i adds to byte i, sets and clears its own bit of byte 4 and takes part in the counter. */
static void *worker(void *argument)
{
    unsigned me = (unsigned)(uintptr_t)argument;
    uint8_t bit = (uint8_t)(1u << me);
    uintptr_t wrong = 0;

    for (uint64_t i = 0; i < rounds; i++) {
        dk_a8_add_relaxed(&bytes[me], 1);
        wrong += (dk_a8_or(&bytes[4], bit) & bit) != 0;
        wrong += (dk_a8_and(&bytes[4], (uint8_t)~bit) & bit) == 0;
        dk_counter_add(&counter, 0xc0000000u);
    }
    return (void *)wrong;
}

static void no_update_is_lost(void **state)
{
    pthread_t threads[THREADS];

    (void)state;
    rounds = test_effort(200000);
    for (unsigned i = 0; i < 8; i++)
        dk_a8_store_relaxed(&bytes[i], 0);
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, worker, (void *)i), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        void *wrong;

        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(dk_a8_load_relaxed(&bytes[i]), (uint8_t)rounds);
    assert_int_equal(dk_a8_load_relaxed(&bytes[4]), 0);
    assert_true(dk_counter_read(&counter) == THREADS * rounds * UINT64_C(0xc0000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_position),
        cmocka_unit_test(no_update_is_lost),
    };

    return cmocka_run_group_tests_name("atomic", tests, NULL, NULL);
}
