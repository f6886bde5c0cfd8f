/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU caches without a pool around them: one zone of frames 0 … nr-1, cache sets, and a shared
 * level that is a bitmap with a stamp for every frame. Tests of the caches include it; it stands in
 * for zone.c, so it defines the two functions of zone.h that the caches call.
 *
 * CPUs are those that the test says (fixture_cpu), or the real ones: the stacks then use the
 * thread's real struct rseq as libc registered it. In the first case they are pointed at a struct
 * rseq of the test's own, so that one thread can be any CPU, also where no kernel restarts
 * sequences (emulators).
 */
#ifndef DECKLE_TESTS_SUPPORT_PCP_FIXTURE_H
#define DECKLE_TESTS_SUPPORT_PCP_FIXTURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/pcp.h"
#include "core/pcp_internal.h"

struct fixture {
    struct deckle d;
    struct dk_superblock sb;
    struct dk_zone zone;
    uint8_t cpu_nodes[1024];
    uint32_t nr_frames;
    dk_a8 *out;          /* 1 = not in the shared level */
    dk_a32 shared_free;
    dk_a32 calls;        /* entries into the shared level */
    dk_a32 next;         /* where take looks first */
    void (*on_give)(struct fixture *f); /* called by dk_zone_give after it is done */
    int (*on_membarrier)(struct fixture *f);
    void *sets;
};

/* Not inside struct fixture: dk_zone_give is handed the pool only. */
static inline struct fixture *fixture_of(const struct deckle *d)
{
    return (struct fixture *)((uintptr_t)d - offsetof(struct fixture, d));
}

static inline _Noreturn void fixture_fault(const char *what, uint32_t fi)
{
    fprintf(stderr, "frame %u: %s\n", fi, what);
    abort();
}

/* ---- the shared level ------------------------------------------------------------------------ */

void dk_zone_give(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned order,
                  const uint32_t *fis, unsigned n)
{
    struct fixture *f = fixture_of(d);

    (void)set;
    if (zone != &f->zone || n == 0 || n > DK_REFILL_MAX)
        fixture_fault("given to another zone, or too many at once", n);
    dk_a32_add_relaxed(&f->calls, 1);
    for (unsigned i = 0; i < n; i++) {
        if (fis[i] % (1u << order) || fis[i] + (1u << order) > f->nr_frames)
            fixture_fault("given back, but no block of this order", fis[i]);
        for (uint32_t fi = fis[i]; fi < fis[i] + (1u << order); fi++) {
            if (dk_a8_exchange(&f->out[fi], 0) != 1)
                fixture_fault("given back twice", fi);
        }
    }
    dk_a32_add_relaxed(&f->shared_free, n << order);
    dk_add_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], n << order);
    if (f->on_give)
        f->on_give(f);
}

uint64_t dk_zone_free_racy(const struct deckle *d, const struct dk_zone *zone)
{
    (void)d;
    return dk_load_relaxed(&zone->counts[0].of[DK_COUNT_FREE]);
}

static inline bool fixture_take_block(struct fixture *f, uint32_t fi, unsigned order)
{
    for (uint32_t i = fi; i < fi + (1u << order); i++) {
        uint8_t expected = 0;
        if (!dk_a8_cas(&f->out[i], &expected, 1)) {
            while (i-- > fi)
                dk_a8_store_release(&f->out[i], 0);
            return false;
        }
    }
    return true;
}

/* Up to want blocks out of the shared level. */
static __attribute__((noinline, unused)) unsigned fixture_take(struct fixture *f, unsigned order,
                                                               uint32_t *fis, unsigned want)
{
    uint32_t blocks = f->nr_frames >> order, at = dk_a32_load_relaxed(&f->next) >> order;
    unsigned got = 0;

    dk_a32_add_relaxed(&f->calls, 1);
    for (uint32_t i = 0; i < blocks && got < want; i++, at++) {
        uint32_t fi = (at % blocks) << order;
        if (!dk_a8_load_relaxed(&f->out[fi]) && fixture_take_block(f, fi, order))
            fis[got++] = fi;
    }
    dk_a32_store_relaxed(&f->next, at << order);
    dk_a32_add_relaxed(&f->shared_free, (uint32_t)0 - (got << order));
    dk_add_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], (dk_word)0 - ((dk_word)got << order));
    return got;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

static struct fixture_rseq {
    _Alignas(32) uint32_t cpu_id_start;
    uint32_t cpu_id;
    uint64_t rseq_cs;
    uint32_t flags, rest[11];
} fixture_rseq;

static inline void fixture_cpu(uint32_t cpu)
{
    fixture_rseq.cpu_id = cpu;
}

static inline uint32_t fixture_cpu_hook(void *ctx)
{
    (void)ctx;
    return fixture_rseq.cpu_id;
}

static inline int fixture_membarrier_hook(void *ctx)
{
    struct fixture *f = ctx;
    return f->on_membarrier ? f->on_membarrier(f) : 0;
}

/* From the thread pointer to the test's own struct rseq; right for the calling thread only. */
static inline int64_t fixture_rseq_offset(void)
{
    uintptr_t thread = 0;
#if defined(__x86_64__)
    __asm__("movq %%fs:0, %0" : "=r"(thread));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(thread));
#endif
    return (int64_t)((uintptr_t)&fixture_rseq - thread);
}

static inline bool fixture_has(enum dk_pcp_kind kind)
{
#ifdef DK_HAVE_RSEQ
    return kind != DK_PCP_NONE;
#else
    return kind == DK_PCP_CELLS;
#endif
}

/* ---- life ------------------------------------------------------------------------------------ */

/* A zone of nr frames that are all free, seen by CPUs 0 … cpus-1. Marks: low = nr / 400, high = nr
 * / 350. */
static inline struct fixture *fixture_make(enum dk_pcp_kind kind, uint32_t nr, uint32_t cpus)
{
    struct fixture *f = aligned_alloc(64, sizeof *f);
    struct dk_pcp_shape shape = {kind, 512, 10, 12};

    memset(f, 0, sizeof *f);
    f->nr_frames = nr;
    f->out = calloc(nr, 1);
    f->d.sb = &f->sb;
    f->d.zones = &f->zone;
    f->d.nr_cpus = cpus;
    f->d.kind = kind;
    f->d.cell_mine = DK_CELL_FULL;
    f->d.max_order = 10;
    f->d.cpu_nodes = f->cpu_nodes;
    f->d.set_bytes = (uint32_t)dk_pcp_set_bytes(&shape, f->d.list_off, f->d.slot_cap);
    f->d.rseq_offset = kind == DK_PCP_RSEQ ? fixture_rseq_offset() : 0;
    f->d.host.ctx = f;
    f->d.host.cpu = fixture_cpu_hook;
    f->d.host.membarrier = fixture_membarrier_hook;
    f->d.host.rseq_offset = f->d.rseq_offset;
    f->d.host.rseq_usable = kind == DK_PCP_RSEQ;
    f->sets = aligned_alloc(64, (size_t)f->d.set_bytes * cpus);
    memset(f->sets, 0, (size_t)f->d.set_bytes * cpus);
    f->d.pcp = f->sets;
    f->sb.page_shift = 12;
    dk_store_relaxed(&f->zone.managed, nr);
    dk_store_relaxed(&f->zone.counts[0].of[DK_COUNT_FREE], nr);
    dk_store_relaxed(&f->zone.low, nr / 400);
    dk_store_relaxed(&f->zone.high, nr / 350);
    dk_a32_store_relaxed(&f->shared_free, nr);
    fixture_cpu(0);
    dk_pcp_resize(&f->d, &f->zone);
    return f;
}

static inline void fixture_free(struct fixture *f)
{
    free(f->out);
    free(f->sets);
    free(f);
}

/* ---- what alloc.c and free.c do with the caches -----------------------------------------------
 */

/* A block, or DK_NONE. *direct is raised if it did not come out of a list. */
static inline uint32_t fixture_alloc(struct fixture *f, unsigned list, uint64_t *direct)
{
    uint32_t fis[DK_REFILL_MAX], fi;
    unsigned order = list / DK_PCP_TYPES;

    if (dk_pcp_pop(&f->d, 0, list, &fi) || dk_pcp_pop_bulk(&f->d, 0, list, &fi, 1))
        return fi;
    unsigned want = dk_pcp_refill_want(&f->d, &f->zone, dk_pcp_cpu(&f->d), list);
    unsigned got = fixture_take(f, order, fis, want);
    if (!got)
        return DK_NONE;
    if (got > 1)
        dk_pcp_put_surplus(&f->d, &f->zone, list, fis + 1, got - 1);
    *direct += 1;
    return fis[0];
}

static inline void fixture_release(struct fixture *f, unsigned list, uint32_t fi)
{
    if (!dk_pcp_push(&f->d, 0, list, fi))
        dk_pcp_free_slow(&f->d, &f->zone, list, fi);
}

#endif
