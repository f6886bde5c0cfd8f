/* SPDX-License-Identifier: MIT */
/*
 * deckle.h - the whole stable interface of Deckle, a page-frame allocator.
 *
 * A pool manages page frames (pfns) that the caller names; it never touches them. All metadata
 * lives in memory that the caller provides, zeroed. A pool's life:
 *
 *     size = deckle_metadata_size(&cfg);            how much memory the pool needs
 *     deckle_init(mem, size, &cfg, &host, &d);      mem: zeroed, 64-byte aligned
 *     deckle_add_range(d, &range); …                which frames exist (any order, holes allowed)
 *     deckle_reserve_range(d, pfn, nr); …           which of them are never given out
 *     deckle_online(d);                             now they can be allocated
 *     pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);  use
 *     deckle_free(d, pfn, 0);
 *     deckle_exit(d, NULL);                         what is still allocated is reported
 *
 * On Linux deckle_create() (deckle/linux.h) does the first five in one call and maps the memory.
 *
 * Units: a pfn is a 64-bit frame number on every machine, an order is log2 of a number of frames,
 * "nr" counts frames; bytes appear only where the name says so. Alignment is that of the absolute
 * pfn: a block of order k starts at a multiple of 2^k.
 *
 * Results: functions that return a frame return int64_t, the pfn when >= 0 (frame 0 is a valid
 * frame) and a negative DECKLE_E… otherwise; functions that return int return DECKLE_OK or a
 * negative DECKLE_E…. deckle_strerror() explains each. A failing call changes nothing.
 *
 * Calling context: unless a function says "set-up", it is lock-free and may be called from any
 * context: thread, interrupt, NMI, signal handler, on any CPU, with or without preemption. A thread
 * stopped at any instruction delays nobody. "Set-up" functions must not run concurrently with each
 * other on one pool, but may run while other threads allocate and free, unless they say otherwise.
 *
 * Cost is given as steps of the machine: "cache" means a handful of instructions on per-CPU memory,
 * "shared" a few atomic operations on shared lines and a search that is logarithmic in the memory.
 */
#ifndef DECKLE_H
#define DECKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <deckle/debug.h>
#include <deckle/gfp.h>
#include <deckle/types.h>

#define DECKLE_VERSION_MAJOR 0
#define DECKLE_VERSION_MINOR 1
#define DECKLE_VERSION_PATCH 0
#define DECKLE_VERSION_STRING "0.1.0"

/* Symbols that the shared library exports; everything else is hidden. */
#if defined(__GNUC__)
#define DECKLE_API __attribute__((visibility("default")))
#else
#define DECKLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A pool, seen from one address space. Opaque; lives at the start of the caller's metadata. */
struct deckle;

/* ---------------------------------------------------------------------------------------------
 * Configuration
 */

/* Features fixed when the pool is made (deckle_config.features). */
#define DECKLE_FEATURE_CELLS       (1u << 0) /* atomic-cell caches even where rseq is available */
#define DECKLE_FEATURE_DESCRIPTORS (1u << 1) /* 8 bytes a frame: reference counts, compound data */
#define DECKLE_FEATURE_OWNER_TAGS  (1u << 2) /* 4 bytes a frame: who allocated it */
#define DECKLE_FEATURE_NO_CACHES   (1u << 3) /* no per-CPU caches: every request is shared */
#define DECKLE_FEATURE_HIGHMEM     (1u << 4) /* ranges may be of zone HIGHMEM */
#define DECKLE_FEATURE_SHARED      (1u << 5) /* used by several processes: deckle/shared.h */

/* Nodes are named 1 + id in requests and ranges, so that zero can mean "any". */
#define DECKLE_NODE(id)   ((uint32_t)(id) + 1u)
#define DECKLE_MAX_NODES  64u
#define DECKLE_MAX_CPUS   4096u
#define DECKLE_MAX_ZONES  (DECKLE_MAX_NODES * DECKLE_NR_ZONE_TYPES)
/* Frames that one pool can hold: 2^32 where the machine word has 64 bits, else 2^22. */

/* Zone of a range: chosen by pfn against the zone limits of the configuration. */
#define DECKLE_ZONE_BY_PFN 0u
#define DECKLE_ZONE(type)  ((uint32_t)(type) + 1u)

/* Range flags. */
#define DECKLE_RANGE_CMA   (1u << 0) /* whole blocks of it become migratetype CMA */
#define DECKLE_RANGE_ZEROED (1u << 1) /* the frames are known to hold zeroes */

/* A range of frames. Zero in node and zone means node 0 and "by pfn". */
struct deckle_range {
    uint64_t pfn;
    uint64_t nr;
    uint32_t node;  /* DECKLE_NODE(id), 0 = node 0 */
    uint32_t zone;  /* DECKLE_ZONE(type), 0 = by pfn */
    uint32_t flags; /* DECKLE_RANGE_… */
    uint32_t pad;
};

/* What a pool is. Zero in every field but size, nr_cpus and the ranges is a sensible default. */
struct deckle_config {
    uint32_t size;         /* sizeof(struct deckle_config) */
    uint32_t features;     /* DECKLE_FEATURE_… */
    uint32_t page_shift;   /* 0 = 12; 10 to 30 */
    uint32_t max_order;    /* 0 = 10; 9 to 18 */
    uint32_t nr_cpus;      /* CPU ids 0 … nr_cpus-1 have caches; higher ids use the shared level */
    uint32_t nr_nodes;     /* 0 = 1 */
    /* The ranges that will be added: they size the metadata. deckle_init does not add them. */
    const struct deckle_range *ranges;
    uint32_t nr_ranges;
    uint32_t grow_ranges;  /* further ranges and reservations that may be added later; 0 = 16 */
    /* Further frames that may be added later, to zones of the ranges above or to Normal and Movable
     * of any node. Also what memory needs that is removed and comes again in another zone. */
    uint64_t grow_pages;
    /* First pfn above DMA and above DMA32; 0 = 16 MiB and 4 GiB; ~0 = the zone does not exist. */
    uint64_t dma_limit_pfn;
    uint64_t dma32_limit_pfn;
    /* Distances, nr_nodes x nr_nodes, row = from (ACPI SLIT: 10 = local); NULL = 10 and 20. */
    const uint8_t *distances;
    /* Node of each CPU (nr_cpus entries), NULL = node 0. */
    const uint8_t *cpu_nodes;
    uint64_t min_free_kbytes; /* 0 = by the formula of the watermarks; ~0 = no watermarks at all */
    uint32_t watermark_scale_factor; /* 0 = 10; 1 to 3000, of 10000 */
    uint32_t pcp_capacity;    /* entries of an order-0 cache list; 0 = 512; 16 to 4096 */
    uint32_t max_clients;     /* with DECKLE_FEATURE_SHARED; 0 = 64; 1 to 255 */
    uint32_t pad;
};

/* ---------------------------------------------------------------------------------------------
 * The host: what an embedder supplies. Every hook may be NULL where its comment says so.
 */

/* What a report is about. */
enum deckle_bad {
    DECKLE_BAD_DOUBLE_FREE = 1, /* the frame is not allocated */
    DECKLE_BAD_WRONG_ORDER,     /* allocated with another order */
    DECKLE_BAD_MISALIGNED,      /* the pfn is not a multiple of 2^order */
    DECKLE_BAD_TAIL,            /* inside an allocated block, not its head */
    DECKLE_BAD_RESERVED,        /* a reserved frame */
    DECKLE_BAD_FOREIGN,         /* no frame of this pool */
    DECKLE_BAD_OWNER,           /* allocated by another owner */
    DECKLE_BAD_REFCOUNT,        /* underflow, overflow, or freed while referenced */
    DECKLE_BAD_POISON,          /* a freed frame was written to */
    DECKLE_BAD_STATE            /* metadata contradicts itself */
};

struct deckle_bad_report {
    uint32_t size; /* sizeof(struct deckle_bad_report) */
    enum deckle_bad what;
    uint64_t pfn;
    uint32_t order;       /* what was asked */
    uint32_t found_order; /* order of the block found there; ~0u = none */
    uint32_t state;       /* the frame's state byte */
    uint32_t owner;       /* owner tag found, 0 = none */
    uint64_t offset;      /* POISON: byte offset of the first difference in the block */
    uint32_t value;       /* POISON: the value there */
    uint32_t single_bit;  /* POISON: 1 if exactly one bit of one byte differs */
    const void *caller;   /* return address of the public call, NULL if unknown */
};

struct deckle_host {
    uint32_t size; /* sizeof(struct deckle_host) */
    uint32_t pad;
    void *ctx;     /* handed to every hook */
    /* CPU the caller runs on. NULL = CPU 0. May be stale at once; any value is tolerated. */
    uint32_t (*cpu)(void *ctx);
    /* Address through which the CPU may access the frame (page size bytes), NULL = none. Needed for
     * DECKLE_GFP_ZERO, poison and zeroing; without it those are refused with DECKLE_ENOTSUP. */
    void *(*map)(void *ctx, uint64_t pfn);
    void (*unmap)(void *ctx, uint64_t pfn, void *address); /* NULL = nothing to undo */
    /* A refused free or found corruption; NULL = counted only. Called with nothing held. */
    void (*bad)(void *ctx, const struct deckle_bad_report *report);
    /* Interrupt the restartable sequences of all threads of this process. Returns 0 or an error.
     * Only used with rseq caches. */
    int (*membarrier)(void *ctx);
    /* Offset of the thread's struct rseq from the thread pointer (glibc: __rseq_offset), and
     * whether it may be used. 0 = rseq is not available: the pool uses atomic cells. */
    int64_t rseq_offset;
    uint32_t rseq_usable;
    uint32_t pad2;
    /* Sanitizer annotations: a block was given out / came back. NULL = none. */
    void (*on_alloc)(void *ctx, uint64_t pfn, uint32_t order);
    void (*on_free)(void *ctx, uint64_t pfn, uint32_t order);
    /* Shared pools: does the process still run that registered as this client with this identity?
     * 0 = no. NULL = whoever calls deckle_reap knows. */
    int (*client_alive)(void *ctx, uint32_t client, uint64_t identity);
};

/* ---------------------------------------------------------------------------------------------
 * Life. All set-up.
 */

/* Bytes of metadata that deckle_init needs for cfg; 0 if cfg is not valid (deckle_config_check says
 * why). Pure. */
DECKLE_API size_t deckle_metadata_size(const struct deckle_config *cfg);

/* Why cfg is not valid: DECKLE_OK, or DECKLE_EINVAL / DECKLE_E2BIG / DECKLE_ENOTSUP (not on this
 * machine) with *reason (may be NULL) set to a static sentence that names the field and its
 * bounds. */
DECKLE_API int deckle_config_check(const struct deckle_config *cfg, const char **reason);

/* Make a pool in mem (zeroed, aligned to 64 bytes, kept by the caller until deckle_exit). host may
 * be NULL (no hooks, atomic cells, CPU 0). Errors: EINVAL, E2BIG, ENOSPC (mem_size too small).
 * Writes only the first few KiB. */
DECKLE_API int deckle_init(void *mem, size_t mem_size, const struct deckle_config *cfg,
                           const struct deckle_host *host, struct deckle **out);

/* Announce frames; they become allocatable with deckle_online. Any order, adjacent, with holes, pfn
 * 0, a single page. A range that crosses a zone limit is divided there. Errors: EINVAL (empty, past
 * 2^52, bad node or zone, inside a pageblock that another zone has), EEXIST (overlaps an added
 * range; nothing changes), ENOSPC (more ranges or frames than configured). */
DECKLE_API int deckle_add_range(struct deckle *d, const struct deckle_range *range);

/* Take frames out of use for ever. Before deckle_online of the frames: set subtraction, in any
 * order and number, overlaps allowed, frames that do not exist are ignored. Later: the existing
 * frames of the range must all be free, else EBUSY and nothing changes. Errors: EINVAL, ENOSPC,
 * EBUSY. */
DECKLE_API int deckle_reserve_range(struct deckle *d, uint64_t pfn, uint64_t nr);

/* Make all announced ranges allocatable; recomputes zonelists and watermarks. Touches metadata only
 * at the edges of ranges and for reserved frames. Errors: ENOSPC, EINVAL (nothing announced). */
DECKLE_API int deckle_online(struct deckle *d);

/* Take the frames [pfn, pfn+nr) out of the pool: they must be exactly one or more added ranges and
 * all free or reserved (caches are drained first), else EBUSY and nothing changes. Errors: ENOENT.
 * */
DECKLE_API int deckle_remove_range(struct deckle *d, uint64_t pfn, uint64_t nr);

/* One allocated block as deckle_exit and deckle_for_each_allocated report it. */
struct deckle_allocated {
    uint64_t pfn;
    uint32_t order;
    uint32_t owner; /* 0 without owner tags */
};

/* End of a pool: drains the caches, calls leak for every block still allocated (leak may be NULL),
 * and makes the handle unusable. Returns the number of frames still allocated. No other call on the
 * pool may run or follow. Linear in the memory. */
DECKLE_API uint64_t deckle_exit(struct deckle *d,
                                void (*leak)(void *ctx, const struct deckle_allocated *block));

/* ---------------------------------------------------------------------------------------------
 * Allocation
 */

/* Request flags beyond gfp (deckle_request.flags). */
#define DECKLE_REQ_INTERLEAVE (1u << 0) /* count numa_interleave if the preferred node serves */
#define DECKLE_REQ_OOM        (1u << 1) /* the requester is an OOM victim: may use that reserve */
#define DECKLE_REQ_NO_CACHE   (1u << 2) /* take from the shared level */
#define DECKLE_REQ_CHEAP      (1u << 3) /* a large block only if it costs nothing: wakes nobody,
                                         * does not reclaim, compact, or empty caches of smaller
                                         * orders. For those who do as well with single frames */

struct deckle_task; /* deckle/pressure.h */

/* A request with everything that can be said. Zero in a field means "any" or "default". */
struct deckle_request {
    uint32_t size;     /* sizeof(struct deckle_request) */
    uint32_t gfp;      /* DECKLE_GFP_… */
    uint32_t order;
    uint32_t node;     /* DECKLE_NODE(id): preferred node; 0 = the node of this CPU */
    uint64_t nodemask; /* bit per node id; 0 = all */
    uint64_t limit_pfn; /* the block must lie below; 0 = no limit */
    uint32_t flags;    /* DECKLE_REQ_… */
    uint32_t owner;    /* owner tag to record, 0 = none */
    struct deckle_task *task; /* who asks (deckle/pressure.h); NULL = as the task hook says */
};

/* Allocate a block of 2^order frames on the node of this CPU or the nearest that has memory.
 * Returns its first pfn or an error: EINVAL (illegal gfp), E2BIG, ENODEV (no zone fits the gfp),
 * EWATERMARK, EFRAGMENTED, ENOMEM, ECONSTRAINED, ECONTENDED, ENOTSUP (ZERO without map hook).
 * Any context. Cost: cache; shared once in a batch. In a pool with hooks or shrinkers a request
 * with DECKLE_GFP_DIRECT_RECLAIM that finds nothing calls them and may wait (deckle/pressure.h):
 * not in interrupts then. */
DECKLE_API int64_t deckle_alloc(struct deckle *d, uint32_t gfp, uint32_t order);

/* The same with every condition spelled out. Further errors: EINVAL (size, flags), ENODEV (no such
 * node). */
DECKLE_API int64_t deckle_alloc_request(struct deckle *d, const struct deckle_request *req);

/* Free a block given out with this order. A wrong free is refused, reported through the bad hook
 * and counted; see docs/limits.md for what is detected when. Errors: EBADFREE, E2BIG. Any context.
 * Cost: cache; shared once in a batch. */
DECKLE_API int deckle_free(struct deckle *d, uint64_t pfn, uint32_t order);

/* Free with the owner tag that the block must carry (pools with owner tags). */
DECKLE_API int deckle_free_owned(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t owner);

/* Why gfp with this order is illegal, NULL if it is not. Pure. */
DECKLE_API const char *deckle_gfp_reason(uint32_t gfp, uint32_t order, uint32_t max_order);

/* Fill the holes (DECKLE_NO_PFN) of pfns[0 … nr) with single frames. Entries that hold a frame are
 * left alone and counted. Returns how many leading entries are filled, as the array form of the
 * Linux bulk allocator; it takes frames from the preferred zone only and uses the single-frame path
 * when that yields nothing. A negative error only for illegal arguments. */
#define DECKLE_NO_PFN UINT64_MAX
DECKLE_API int64_t deckle_alloc_bulk(struct deckle *d, uint32_t gfp, uint64_t *pfns, size_t nr);
DECKLE_API int64_t deckle_alloc_bulk_request(struct deckle *d, const struct deckle_request *req,
                                             uint64_t *pfns, size_t nr);

/* Free nr single frames. Every entry is attempted; returns how many were freed (the others were
 * refused and reported). Entries equal to DECKLE_NO_PFN are skipped. */
DECKLE_API size_t deckle_free_bulk(struct deckle *d, const uint64_t *pfns, size_t nr);

/* Exactly nr contiguous frames (1 … 2^max_order); the tail of the block is given back at once. Free
 * with deckle_free_exact. Errors as deckle_alloc. */
DECKLE_API int64_t deckle_alloc_exact(struct deckle *d, uint32_t gfp, uint64_t nr);
DECKLE_API int deckle_free_exact(struct deckle *d, uint64_t pfn, uint64_t nr);

/* The block of this order at pfn. Errors: EBUSY (not entirely free, or its poison damaged), ENOENT
 * (not in the pool), EINVAL (misaligned), E2BIG. Shared cost; cached frames are drained before
 * EBUSY. */
DECKLE_API int deckle_alloc_at(struct deckle *d, uint32_t gfp, uint64_t pfn, uint32_t order);

/* nr contiguous frames of any number, the first a multiple of align (a power of two; 0 = 1), inside
 * [min_pfn, max_pfn) (max_pfn 0 = no bound). Takes what is free, moves nothing. Also takes CMA
 * frames. Free with deckle_free_exact, whole or piece by piece: a piece is the largest aligned
 * block, of at most max_order, that begins where the one before ends and fits what is left. Errors:
 * EINVAL, ENOMEM, EFRAGMENTED, ECONSTRAINED. Cost: linear in the number of pageblocks searched. */
DECKLE_API int64_t deckle_alloc_contig(struct deckle *d, uint32_t gfp, uint64_t nr, uint64_t align,
                                       uint64_t min_pfn, uint64_t max_pfn);

/* Divide an allocated block into blocks of new_order, each to be freed by itself. Errors: EBADFREE
 * (no block of this order there; reported), EINVAL (new_order > order), EBUSY (compound, or its
 * reference count is not 1). The caller must own the block. Writes one byte a piece. */
DECKLE_API int deckle_split(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t new_order);

/* Order of the allocated block whose head is pfn; EBADFREE if there is none, ENOENT if the frame is
 * not in the pool. */
DECKLE_API int deckle_block_order(const struct deckle *d, uint64_t pfn);

/* Head of the allocated block that contains pfn; EBADFREE, ENOENT as above. At most max_order+1
 * byte reads. */
DECKLE_API int64_t deckle_block_head(const struct deckle *d, uint64_t pfn);

/* Reference counts of blocks (DECKLE_FEATURE_DESCRIPTORS; else ENOTSUP). An allocation has one
 * reference. deckle_put drops one and frees the block with the last; deckle_get on a count of zero
 * or of UINT32_MAX and deckle_put on zero are refused and reported. pfn may be any frame of a
 * compound block, else the head. deckle_refcount returns the count. */
DECKLE_API int deckle_get(struct deckle *d, uint64_t pfn);
DECKLE_API int deckle_put(struct deckle *d, uint64_t pfn);
DECKLE_API int64_t deckle_refcount(const struct deckle *d, uint64_t pfn);

/* ---------------------------------------------------------------------------------------------
 * Caches, pageblocks
 */

/* Give back everything the caches of all CPUs hold. ECONTENDED if some cache could not be emptied
 * because it was in use throughout. Any context but an NMI when the membarrier hook may not be
 * called there. */
DECKLE_API int deckle_drain_all(struct deckle *d);
DECKLE_API int deckle_drain_cpu(struct deckle *d, uint32_t cpu);

/* Type of the pageblock of pfn (enum deckle_migratetype, DECKLE_ISOLATE while isolated) or ENOENT.
 * */
DECKLE_API int deckle_pageblock_type(const struct deckle *d, uint64_t pfn);
/* Change it; DECKLE_ISOLATE isolates, any other type ends isolation. Set-up. */
DECKLE_API int deckle_set_pageblock_type(struct deckle *d, uint64_t pfn,
                                         enum deckle_migratetype type);

/* ---------------------------------------------------------------------------------------------
 * Switches at run time (deckle/debug.h explains each). Set-up.
 */
/* Set switches (DECKLE_DEBUG_…), clear the others. Returns the previous set; ENOTSUP if the map
 * hook is missing, EINVAL for unknown bits, and for POISON together with ZERO_ON_… (the reference
 * gives poison precedence: say which you want). */
DECKLE_API int deckle_set_debug(struct deckle *d, uint32_t switches);

/* ---------------------------------------------------------------------------------------------
 * Looking: statistics, text, validation. Reading needs no quiescence unless said; figures of
 * running pools are each exact at some instant of the call, not all at the same one.
 */

struct deckle_zone_stat {
    uint32_t size; /* sizeof(struct deckle_zone_stat), set by the caller */
    uint32_t node;
    enum deckle_zone_type type;
    uint32_t populated;
    uint64_t start_pfn, spanned, present, managed, reserved, cma;
    uint64_t free, free_cma, free_highatomic, free_isolated, cached;
    uint64_t min, low, high, promo, boost;
    uint64_t lowmem_reserve[DECKLE_NR_ZONE_TYPES];
    uint64_t numa_hit, numa_miss, numa_foreign, numa_local, numa_other, numa_interleave;
    uint64_t allocs[DECKLE_MAX_ORDER_LIMIT + 1]; /* blocks given out, by order */
    uint64_t frees[DECKLE_MAX_ORDER_LIMIT + 1];
    uint64_t refills, refill_frames;      /* entries into the shared level, and frames moved */
    uint64_t drains, drain_frames;
    uint64_t direct_allocs, direct_frees; /* blocks that went past the caches */
    uint64_t fallback_claims, fallback_steals;
    uint64_t free_blocks[DECKLE_MAX_ORDER_LIMIT + 1]; /* buddyinfo; linear in the zone */
};

struct deckle_stat {
    uint32_t size;
    uint32_t nr_zones; /* zones that deckle_zone_stat accepts: 0 … nr_zones-1 */
    uint64_t failures[32]; /* by -error */
    uint64_t bad[16];      /* by enum deckle_bad */
    uint64_t split_blocks, remote_drains, drain_retries;
    uint64_t metadata_bytes, nr_frames;
};

DECKLE_API int deckle_get_stat(const struct deckle *d, struct deckle_stat *out);
DECKLE_API int deckle_get_zone_stat(const struct deckle *d, uint32_t zone,
                                    struct deckle_zone_stat *out);

/* Where text goes: called with pieces, in order. */
typedef void (*deckle_emit_fn)(void *ctx, const char *text, size_t len);

/* /proc/buddyinfo, /proc/pagetypeinfo, /proc/zoneinfo as Linux spells them (docs/formats/text.md
 * lists the lines left out), everything as JSON (docs/formats/stat.md), and the unusable-free-space
 * and fragmentation index tables (extfrag). Linear in the zones. */
DECKLE_API void deckle_print_buddyinfo(const struct deckle *d, deckle_emit_fn emit, void *ctx);
DECKLE_API void deckle_print_pagetypeinfo(const struct deckle *d, deckle_emit_fn emit, void *ctx);
DECKLE_API void deckle_print_zoneinfo(const struct deckle *d, deckle_emit_fn emit, void *ctx);
DECKLE_API void deckle_print_extfrag(const struct deckle *d, deckle_emit_fn emit, void *ctx);
DECKLE_API void deckle_print_json(const struct deckle *d, deckle_emit_fn emit, void *ctx);

/* Recount everything and compare. Quiescent: no other call may run. Returns DECKLE_OK or
 * DECKLE_ECORRUPT with the first contradiction as text in buf (NUL-terminated, may be NULL).
 * deckle_validate_range looks only at the pageblocks of [pfn, pfn+nr): what it finds is local, so
 * counters of the zone are not compared. */
DECKLE_API int deckle_validate(const struct deckle *d, char *buf, size_t buf_size);
DECKLE_API int deckle_validate_range(const struct deckle *d, uint64_t pfn, uint64_t nr, char *buf,
                                     size_t buf_size);

/* Calls fn for every allocated block, in pfn order. Linear. Quiescent. */
DECKLE_API void deckle_for_each_allocated(const struct deckle *d,
                                          void (*fn)(void *ctx, const struct deckle_allocated *),
                                          void *ctx);
/* Calls fn for every maximal run of free frames (caches not included), in pfn order. Linear. */
DECKLE_API void deckle_for_each_free(const struct deckle *d,
                                     void (*fn)(void *ctx, uint64_t pfn, uint64_t nr), void *ctx);

/* ---------------------------------------------------------------------------------------------
 * Small things
 */
DECKLE_API const char *deckle_strerror(int error);      /* static text, never NULL */
DECKLE_API const char *deckle_error_name(int error);    /* "DECKLE_ENOMEM" */
DECKLE_API const char *deckle_bad_name(enum deckle_bad what); /* "double free", … */
DECKLE_API uint32_t deckle_page_shift(const struct deckle *d);
DECKLE_API uint32_t deckle_max_order(const struct deckle *d);
DECKLE_API const char *deckle_cache_kind(const struct deckle *d); /* "rseq", "cells", "none" */
DECKLE_API const char *deckle_version(void);
/* Bytes to frames, rounding up; 0 when it does not fit a block (checked, never wraps). */
DECKLE_API uint64_t deckle_bytes_to_pages(const struct deckle *d, uint64_t bytes);
/* The whole frames inside [address, address + bytes), as firmware lists memory: the start rounds
 * up, the end down, so that no part of a frame that belongs to somebody else is taken in. Sets pfn
 * and nr of *range, nr to 0 if there is no whole frame. page_shift 0 = 12. EINVAL: page_shift.
 * Pure. */
DECKLE_API int deckle_range_of_bytes(uint64_t address, uint64_t bytes, uint32_t page_shift,
                                     struct deckle_range *range);
/* Smallest order that holds nr frames; DECKLE_E2BIG above max_order, EINVAL for 0. */
DECKLE_API int deckle_order_for(const struct deckle *d, uint64_t nr);

#ifdef __cplusplus
}
#endif
#endif
