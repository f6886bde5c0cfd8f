/* SPDX-License-Identifier: MIT */
/*
 * Included in front of every source of the core that is linked into tests/interleave: each access
 * to shared memory tells the test first, and restartable sequences are those of the simulated
 * machine.
 */
#ifndef DECKLE_TESTS_INTERLEAVE_POINT_H
#define DECKLE_TESTS_INTERLEAVE_POINT_H

void dk_test_point(const volatile void *address, int kind);

#define DK_SIM 1
#define DK_TEST_POINT(p, kind) dk_test_point((const volatile void *)(p), (kind))
#define DK_ATOMIC_LOAD(p, order)                                                                   \
    (DK_TEST_POINT(p, 0), atomic_load_explicit((p), memory_order_##order))
#define DK_ATOMIC_STORE(p, v, order)                                                               \
    (DK_TEST_POINT(p, 1), atomic_store_explicit((p), (v), memory_order_##order))
#define DK_ATOMIC_CAS(p, e, v)                                                                     \
    (DK_TEST_POINT(p, 2),                                                                          \
     atomic_compare_exchange_strong_explicit((p), (e), (v), memory_order_seq_cst,                  \
                                             memory_order_seq_cst))
#define DK_ATOMIC_RMW(op, p, v, order)                                                             \
    (DK_TEST_POINT(p, 2), atomic_##op##_explicit((p), (v), memory_order_##order))
#define DK_ATOMIC_FENCE() (DK_TEST_POINT(0, 3), atomic_thread_fence(memory_order_seq_cst))

#endif
