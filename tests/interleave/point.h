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
#define DK_SIM_POINT(address, kind)                                                                \
    dk_test_point((const volatile void *)(__UINTPTR_TYPE__)(address), (int)(kind))

#endif
