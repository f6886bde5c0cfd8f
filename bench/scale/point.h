/* SPDX-License-Identifier: MIT */
/*
 * Included in front of every source of the core that is linked into the model (-include): each
 * access to shared memory is reported, then made. Restartable sequences are those of the simulated
 * machine: C whose accesses are reported as well.
 */
#ifndef DECKLE_BENCH_SCALE_POINT_H
#define DECKLE_BENCH_SCALE_POINT_H

enum scale_access { SCALE_LOAD, SCALE_STORE, SCALE_UPDATE };

void scale_point(const volatile void *p, enum scale_access access);

#define DK_SIM 1
#define DK_ATOMIC_LOAD(p, order)                                                                   \
    (scale_point((p), SCALE_LOAD), atomic_load_explicit((p), memory_order_relaxed))
#define DK_ATOMIC_STORE(p, v, order)                                                               \
    (scale_point((p), SCALE_STORE), atomic_store_explicit((p), (v), memory_order_relaxed))
#define DK_ATOMIC_CAS(p, e, v)                                                                     \
    (scale_point((p), SCALE_UPDATE), atomic_compare_exchange_strong((p), (e), (v)))
#define DK_ATOMIC_RMW(op, p, v, order)                                                             \
    (scale_point((p), SCALE_UPDATE), atomic_##op##_explicit((p), (v), memory_order_relaxed))
#define DK_ATOMIC_FENCE() ((void)0)

#endif
