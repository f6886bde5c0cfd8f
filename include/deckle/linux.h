/* SPDX-License-Identifier: MIT */
/*
 * deckle/linux.h - a pool in one call on Linux: memory, metadata and hooks are made for you.
 *
 *     struct deckle_create_options options = {.size = sizeof(options), .bytes = 64 << 20};
 *     deckle_create(&options, &d);
 *     pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);
 *     memory = deckle_address(d, pfn);
 *     deckle_destroy(d);
 *
 * A frame's pfn is its address divided by the frame size, so a block of order k lies at an address
 * that is a multiple of its size, up to max_order. Memory is private and mapped lazily: frames that
 * were never used take no memory, nor does their metadata (about 1.2 bytes a frame of address
 * space).
 *
 * Hooks. CPU numbers come from the kernel's rseq area, else from sched_getcpu(). The caches are
 * rseq stacks where glibc (2.35 or later) has registered its threads and the kernel has the
 * membarrier command that goes with them (5.10 or later), on x86-64 and aarch64; else atomic cells.
 * Refused frees are reported on standard error. Programs built with AddressSanitizer, and programs
 * under Valgrind, are told which frames are free.
 *
 * fork. The child has a copy of the pool, as of all private memory: both go on with their own, and
 * neither sees the other's. Threads that were inside a call when another forked do not exist in the
 * child, nor do background threads; what their operation held, at most one refill or one block each
 * (a compaction: the area it was emptying), is lost to the child's pool, and deckle_validate may
 * find it. No handler is needed around fork.
 */
#ifndef DECKLE_LINUX_H
#define DECKLE_LINUX_H

#include <deckle.h>
#include <deckle/pressure.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the frames are made of (deckle_create_options.pages). */
enum deckle_pages {
    DECKLE_PAGES_DEFAULT = 0, /* as the system is set up */
    DECKLE_PAGES_SMALL,       /* no transparent huge pages */
    DECKLE_PAGES_THP,         /* transparent huge pages, where the system lets the program ask */
    DECKLE_PAGES_2M,          /* hugetlb pages of 2 MiB; none free: DECKLE_EBACKING */
    DECKLE_PAGES_1G           /* of 1 GiB */
};

/* deckle_create_options.flags */
#define DECKLE_CREATE_NUMA     (1u << 0) /* divide the memory over the machine's nodes */
#define DECKLE_CREATE_POPULATE (1u << 1) /* touch every frame now, not at its first use */
#define DECKLE_CREATE_RESERVE  (1u << 2) /* addresses only: no frame can be read or written until
                                          * the caller maps it; ZERO and poison: ENOTSUP */
#define DECKLE_CREATE_QUIET    (1u << 3) /* nothing on standard error */
#define DECKLE_CREATE_BACKGROUND (1u << 4) /* threads kswapdN and kcompactdN for each node: reclaim
                                            * and compaction in the background */

/* Zero in every field but size and one of bytes and frames is a sensible default. */
struct deckle_create_options {
    uint32_t size;       /* sizeof(struct deckle_create_options) */
    uint32_t flags;      /* DECKLE_CREATE_… */
    uint64_t bytes;      /* memory of the pool, rounded up to whole frames (and huge pages) … */
    uint64_t frames;     /* … or its number of frames; one of the two is 0 */
    uint32_t page_shift; /* 0 = 12; 10 to 30 */
    uint32_t max_order;  /* 0 = 10; 9 to 18 */
    uint32_t features;   /* DECKLE_FEATURE_… */
    uint32_t pages;      /* enum deckle_pages */
    uint64_t min_free_kbytes;     /* as in deckle_config: 0 = by formula, ~0 = no watermarks */
    uint32_t pcp_capacity;        /* as in deckle_config */
    uint32_t watermark_scale_factor;
    /* Called instead of a line on standard error, with ctx: for a refused free or found corruption
     * (any context), and by deckle_destroy for each block still allocated. */
    void (*bad)(void *ctx, const struct deckle_bad_report *report);
    void (*leak)(void *ctx, const struct deckle_allocated *block);
    void *ctx;
    /* Hooks under pressure (deckle/pressure.h), NULL = none; copied. What they leave out the host
     * supplies as far as it can: task (deckle_current_task), now, wait, failure (a report on
     * standard error), and with BACKGROUND wake. */
    const struct deckle_pressure_hooks *pressure;
    const char **reason; /* if not NULL: a static sentence when deckle_create fails */
};

/*
 * Make a pool. Errors: EINVAL and E2BIG (an option; *reason says which), ENOTSUP (NUMA asked for in
 * a build or on a machine without), EBACKING (the kernel refused memory; errno says why). Set-up.
 */
DECKLE_API int deckle_create(const struct deckle_create_options *options, struct deckle **out);

/*
 * End a pool that deckle_create made, and unmap its memory. Returns the number of frames that were
 * still allocated, after a line for each of the first blocks on standard error (or the leak hook
 * for all). No other call on the pool may run or follow. NULL is allowed.
 */
DECKLE_API uint64_t deckle_destroy(struct deckle *d);

/* The calling thread's task, for its scopes: deckle_memalloc_noio_save() and the like. Pools with
 * BACKGROUND or hooks that leave out task ask for it. Any context. */
DECKLE_API struct deckle_task *deckle_current_task(void);

/* Address of a frame; NULL if the pool has no such frame. For pools that deckle_create made, as the
 * functions below. Any context. */
DECKLE_API void *deckle_address(const struct deckle *d, uint64_t pfn);

/* The frame that contains the address, which may lie anywhere in it; DECKLE_ENOENT if none does. */
DECKLE_API int64_t deckle_pfn(const struct deckle *d, const void *address);

/* Address of the first frame, and *bytes (may be NULL): the size of all. */
DECKLE_API void *deckle_base(const struct deckle *d, uint64_t *bytes);

#ifdef __cplusplus
}
#endif
#endif
