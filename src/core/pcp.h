/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU page lists of every order (DK_PCP_LISTS lists per CPU and zone): what alloc.c and free.c
 * see of them. Two kinds with one meaning, chosen when the pool is made: restartable-sequence
 * stacks (pcp_rseq.c) and atomic cells (pcp_cells.c). Protocols and proofs are at the head of those
 * files.
 *
 * A frame in a list is used in the bits and in W, and its state byte is 0.
 */
#ifndef DK_CORE_PCP_H
#define DK_CORE_PCP_H

#include "core/layout.h"

/* What the size of a cache set depends on. Apart from the superblock, which is too large for the
 * stack of a size query. */
struct dk_pcp_shape {
    uint32_t kind;     /* enum dk_pcp_kind */
    uint32_t capacity; /* entries of an order-0 list */
    uint32_t max_order, page_shift;
};

/* Bytes of one cache set with its lists (a multiple of 64), where they begin and what they can
 * hold. Pure. */
size_t dk_pcp_set_bytes(const struct dk_pcp_shape *shape, uint32_t list_off[DK_PCP_LISTS],
                        uint32_t slot_cap[DK_PCP_LISTS]);

/* After the managed frames or the marks of a zone changed: its batch, high_min and high_max, and
 * the sizes of its lists on all CPUs. Set-up. */
void dk_pcp_resize(struct deckle *d, struct dk_zone *zone);

/* The fast paths, on the CPU the caller runs on. false: take the slow path (empty or full list,
 * STOP, CPU beyond the configured, kind not usable on this thread). */
DK_INLINE bool dk_pcp_pop(struct deckle *d, uint32_t zone, unsigned list, uint32_t *fi);
DK_INLINE bool dk_pcp_push(struct deckle *d, uint32_t zone, unsigned list, uint32_t fi);

/* Pop up to n entries, the top first; how many were there. With n = 1 it is what an allocation
 * tries when the fast path failed, before it asks the shared level: it looks further than the fast
 * path does. */
unsigned dk_pcp_pop_bulk(struct deckle *d, uint32_t zone, unsigned list, uint32_t *fis, unsigned n);
/* Push the first of n entries that fit below the list's high; how many. They count as frees. */
unsigned dk_pcp_push_bulk(struct deckle *d, uint32_t zone, unsigned list, const uint32_t *fis,
                          unsigned n);

/* How many blocks an allocation that found the list empty should take from the shared level, itself
 * included (1 … DK_REFILL_MAX); applies the growth rules of policy/pcp_size.h and the hysteresis of
 * the watermarks (below low: 1 and the lists hold nothing; below high: lists shrink). The caller
 * counts the refill; what of it goes to the requester is a direct allocation, the rest is for
 * dk_pcp_put_surplus. */
unsigned dk_pcp_refill_want(struct deckle *d, struct dk_zone *zone, uint32_t cpu, unsigned list);

/* A free that found the list full (or refused): puts fi into the list or the shared level, drains
 * what the policy says. Counts the free. */
void dk_pcp_free_slow(struct deckle *d, struct dk_zone *zone, unsigned list, uint32_t fi);

/* Surplus of a refill: into the list as far as it takes them, so that fis[0] is popped first; the
 * rest goes back to the shared level. */
void dk_pcp_put_surplus(struct deckle *d, struct dk_zone *zone, unsigned list, const uint32_t *fis,
                        unsigned n);

/* Empty the lists of one CPU, or of all, for a zone. Returns DECKLE_OK when at some instant of the
 * call each list was empty, DECKLE_ECONTENDED when a list could not be stopped within bounded
 * retries, DECKLE_EBACKING when membarrier failed. *moved (may be NULL) += frames given back. */
int dk_pcp_drain_cpu(struct deckle *d, struct dk_zone *zone, uint32_t cpu, uint64_t *moved);
int dk_pcp_drain_zone(struct deckle *d, struct dk_zone *zone, uint64_t *moved);

/*
 * For the failure rule (contract rule 6): the sum of all list versions of the zone. *cached == 0 if
 * each list was empty when it was looked at, else about how many frames they hold. Two equal sums
 * with *cached == 0 in both prove that all lists were empty at every instant between the calls. One
 * line a list is read.
 */
uint64_t dk_pcp_versions(const struct deckle *d, const struct dk_zone *zone, uint64_t *cached);
/* The same for the lists of this order and above, and only whether they were all empty. */
bool dk_pcp_lists_empty(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                        uint64_t *version);

/* Keep the caches of a zone closed (pushes and pops go to the shared level), or open them again.
 * Counts. Set-up. */
void dk_pcp_close(struct deckle *d, struct dk_zone *zone);
void dk_pcp_open(struct deckle *d, struct dk_zone *zone);

/* Statistics of one list, exact when quiet: blocks popped by allocations, blocks pushed by frees,
 * blocks held. */
struct dk_pcp_list_stat {
    uint64_t pops, pushes, held;
    uint32_t high, capacity;
};
void dk_pcp_list_stat(const struct deckle *d, uint32_t zone, uint32_t cpu, unsigned list,
                      struct dk_pcp_list_stat *out);

/* Calls fn for each entry. Quiescent. */
void dk_pcp_for_each(const struct deckle *d, const struct dk_zone *zone,
                     void (*fn)(void *ctx, uint32_t fi, unsigned order), void *ctx);

/* Calls fn for each cell of all zones, full or not (pools with cells; else for none). */
void dk_cells_for_each(const struct deckle *d,
                       void (*fn)(void *ctx, dk_aword *cell, const struct dk_zone *zone,
                                  unsigned list),
                       void *ctx);

#include "core/pcp_inline.h"

#endif
