/* SPDX-License-Identifier: MIT */
/*
 * Included in front of every source of the allocator that is compiled for the simulated machine
 * (-include, see tests/sim): supplies the atomics of base/atomic.h and the sequences of
 * base/rseq.h, so that the sources themselves are the shipped ones. Implemented in memory.c and
 * machine.c.
 */
#ifndef DK_HOST_SIM_HOOKS_H
#define DK_HOST_SIM_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#ifndef DK_SIM
#define DK_SIM 1
#endif

enum dk_sim_order {
    DK_SIM_relaxed,
    DK_SIM_acquire,
    DK_SIM_release,
    DK_SIM_seq_cst
};

enum dk_sim_update {
    DK_SIM_exchange,
    DK_SIM_fetch_or,
    DK_SIM_fetch_and,
    DK_SIM_fetch_add
};

/* size: bytes, 1, 4 or 8. */
uint64_t dk_sim_load(const volatile void *p, unsigned size, enum dk_sim_order order);
void dk_sim_store(volatile void *p, unsigned size, uint64_t v, enum dk_sim_order order);
bool dk_sim_cas(volatile void *p, unsigned size, void *expected, uint64_t desired);
uint64_t dk_sim_rmw(volatile void *p, unsigned size, enum dk_sim_update op, uint64_t v,
                    enum dk_sim_order order);
void dk_sim_fence(void);

#define DK_ATOMIC_LOAD(p, order)     dk_sim_load((p), sizeof(*(p)), DK_SIM_##order)
#define DK_ATOMIC_STORE(p, v, order) dk_sim_store((p), sizeof(*(p)), (v), DK_SIM_##order)
#define DK_ATOMIC_CAS(p, e, v)       dk_sim_cas((p), sizeof(*(p)), (e), (v))
#define DK_ATOMIC_RMW(op, p, v, order)                                                             \
    dk_sim_rmw((p), sizeof(*(p)), DK_SIM_##op, (v), DK_SIM_##order)
#define DK_ATOMIC_FENCE() dk_sim_fence()

#endif
