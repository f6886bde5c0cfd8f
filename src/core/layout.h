/* SPDX-License-Identifier: MIT */
/*
 * What a pool is made of: the layout of its metadata and of the handle that looks at it.
 *
 * Metadata is one area of memory that holds no pointer, only offsets from its start and indexes, so
 * it can be mapped at another address, by several processes at once. The handle (struct deckle) is
 * local to one address space: it caches absolute addresses of the arrays, and the host's hooks.
 * deckle_init puts a handle in front of the metadata in the caller's memory.
 *
 *   handle | superblock | ranges | sections | spans | zones | zonelists | cpus | caches
 *          | block words W | lines of bits | index | state bytes | [descriptors] [owner tags]
 *          | [clients] [intents] [client tags]
 *
 * Three numberings, each dense in the one before it:
 *   pfn      what the user says; 64 bits, sparse.
 *   fi       frame index, 32 bits: position of the frame in the per-frame arrays.
 *   block    fi >> 9: pageblock number, position in the per-block arrays.
 * A *section* maps a contiguous stretch of pfns of one zone to frame indexes: fi and pfn differ by
 * a constant and agree modulo 2^max_order, so alignment may be tested on either. It begins and ends
 * with a frame of a range; ranges of a zone that were brought online together are one section where
 * they touch or share a pageblock. No two sections contain the same pfn or share a pageblock, and
 * the groups of 2^(max_order-9) blocks that a section touches are its own (or of what a removal
 * left of the section that it was part of): blocks of them outside are OFFLINE, frames of its first
 * and last block outside it are holes (bits set, state HOLE), and so are gaps inside it, which are
 * smaller than a pageblock. A *span* is a stretch of whole groups of one zone with an index of its
 * own. It is made by the online that needed it and stays with its zone for ever: memory that is
 * removed leaves OFFLINE blocks, which later memory of the same zone uses again.
 *
 * All-zero metadata means fresh, free, Movable and online, so bringing memory online writes only
 * the edges. Sizes: 1 byte of state a frame, 1/8 byte of bits, 8/512 of W, 21/512 of index.
 */
#ifndef DK_CORE_LAYOUT_H
#define DK_CORE_LAYOUT_H

#include <deckle.h>
#include <deckle/pressure.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/compiler.h"
#include "policy/zonelist_order.h"

#define DK_BLOCK_ORDER  DECKLE_PAGEBLOCK_ORDER
#define DK_BLOCK_FRAMES DECKLE_PAGEBLOCK_PAGES
#define DK_LINE_WORDS   (DK_BLOCK_FRAMES / DK_WORD_BITS)
#define DK_LINE_BYTES   64u

#define DK_META_MAGIC   0x656c6b636564u /* "deckle" */
#define DK_META_VERSION 2u

#define DK_MAX_FRAMES   (DK_WORD_BITS == 64 ? (uint64_t)1 << 32 : (uint64_t)1 << 22)
#define DK_PFN_LIMIT    ((uint64_t)1 << 52)
#define DK_NONE         0xffffffffu /* no block, no frame index, no zone */

/* ---- caches ------------------------------------------------------------------------------- */

#ifndef DK_PCP_MAX_ORDER /* less only to see what lists of the larger orders are worth */
#define DK_PCP_MAX_ORDER 10u
#endif
#define DK_PCP_TYPES     DECKLE_NR_PCP_TYPES
#define DK_PCP_LISTS     ((DK_PCP_MAX_ORDER + 1) * DK_PCP_TYPES)
#define DK_REFILL_MAX    64u /* entries that one refill or drain step moves at most */

enum dk_pcp_kind { DK_PCP_NONE, DK_PCP_CELLS, DK_PCP_RSEQ };

static inline unsigned dk_pcp_list(unsigned order, unsigned type)
{
    return order * DK_PCP_TYPES + type;
}

/*
 * One cache list: a stack of frame indexes, or cells that are used like one. The slots follow the
 * head. It is one line, so that lists of different orders do not share one; another CPU writes it
 * only to drain. Protocols: pcp_rseq.c, pcp_cells.c; sizes: pcp_tune.c.
 */
struct dk_pcp_list_head {
    dk_aword head;       /* stacks: index, STOP, pops (base/rseq.h); cells: where the top is */
#if DK_WORD_BITS == 32
    uint32_t pad0;
#endif
    dk_a32 high;         /* bits 0-15: entries at which a push goes slow, 0 = holds nothing;
                          * bits 16-31: times the list was closed */
    dk_a32 high_base;    /* entries: the size this list starts from and shrinks to */
    dk_a32 alloc_factor; /* consecutive refills, see policy/pcp_size.h */
    dk_a32 free_count;   /* frames freed since the last allocation */
    dk_a32 live;         /* cells: may the list hold something, and a version */
    dk_a32 seen;         /* what the list looked like when sizes were last compared */
    dk_counter adjust;   /* stacks: pops that were drains or un-stops; cells: pushes that
                          * the phases of the cells no longer show */
    dk_counter refilled; /* entries pushed by refills */
    dk_counter drained;  /* entries taken by drains */
};
_Static_assert(sizeof(struct dk_pcp_list_head) <= 64, "a list head is one line");

/* Per CPU and zone: the cache set and this CPU's share of the zone's counters. */
struct dk_pcp_set {
    /* the zone's counters: this CPU's part */
    dk_aword free_delta;     /* frames, two's complement: not yet folded into the zone's */
    dk_counter refills, refill_frames, drains, drain_frames;
    dk_counter numa_miss, numa_foreign, numa_interleave;
    dk_a32 current_block[DK_PCP_TYPES][2]; /* block + 1 it owns, by type, for orders 0-3, 4-8 */
    dk_a32 stage;            /* fallback stage that worked last (policy/fallback.h) */
    dk_a32 pages_high;       /* frames that the lists' highs add up to */
    dk_a32 pcp_mode;         /* enum dk_pcp_mode: how pressed the zone was when last asked */
    _Alignas(64) dk_counter direct_allocs[DECKLE_MAX_ORDER_LIMIT + 1];
    dk_counter direct_frees[DECKLE_MAX_ORDER_LIMIT + 1];
    /* then the lists, each a head and its slots: u32 each (stacks) or dk_aword each (cells) */
};

/* ---- the index ---------------------------------------------------------------------------- */

/* Children of an index word. The simulated machine has a build with fewer: deeper trees. */
#ifndef DK_FANOUT_SHIFT
#define DK_FANOUT       (DK_WORD_BITS / 2)
#define DK_FANOUT_SHIFT (DK_WORD_BITS == 64 ? 5u : 4u)
#else
#define DK_FANOUT       (1u << DK_FANOUT_SHIFT)
#endif
#define DK_MAX_LEVELS   6u
#define DK_RUNS         10u /* largest free run of a block: order 9 down to 0 */
#define DK_OWNED_BASE   (5u * DK_RUNS)                        /* classes of owned blocks */
#define DK_GROUP_BASE   (DK_OWNED_BASE + DK_PCP_TYPES * DK_RUNS) /* orders 10 … 18 */
#define DK_MAX_TREES    (DK_GROUP_BASE + DECKLE_MAX_ORDER_LIMIT - DK_BLOCK_ORDER)

/* ---- tables in the metadata ---------------------------------------------------------------- */

/* A pfn that set-up writes and anybody reads: in words, so that no machine needs wider atomics.
 * Halves may be read from different values; who cannot bear that has a version to compare
 * (sections). */
struct dk_pfn {
    dk_aword word[64 / DK_WORD_BITS];
};

static inline uint64_t dk_pfn_load(const struct dk_pfn *p)
{
#if DK_WORD_BITS == 64
    return dk_load_acquire(&p->word[0]);
#else
    uint64_t high = dk_load_acquire(&p->word[1]);
    return high << 32 | dk_load_acquire(&p->word[0]);
#endif
}
static inline void dk_pfn_store(struct dk_pfn *p, uint64_t pfn)
{
    dk_store_release(&p->word[0], (dk_word)pfn);
#if DK_WORD_BITS == 32
    dk_store_release(&p->word[1], (dk_word)(pfn >> 32));
#endif
}

/* An added range, kept as the user said it (after division at zone limits); sorted by pfn. Only
 * set-up reads and writes ranges and reservations. */
struct dk_range {
    uint64_t pfn, nr;
    uint32_t zone;    /* zone number */
    uint32_t flags;   /* DECKLE_RANGE_… */
    uint32_t online;
    uint32_t block;   /* scratch of deckle_online: where its section goes; DK_NONE at rest */
};

/* Sorted by pfn, neither overlapping nor touching. Frames outside all ranges are allowed. */
struct dk_reservation {
    uint64_t pfn, nr;
};

/* A slot of the section table (section.c). Its fields change only while `version` is odd; an odd
 * version that stands still is a slot without section. */
struct dk_section {
    dk_a32 version;
    dk_a32 first_fi;
    struct dk_pfn pfn;
    dk_a32 last;          /* frames - 1 */
    dk_a32 zone;
    dk_a32 span;
    dk_a32 flags;         /* DECKLE_RANGE_ZEROED if it holds for all of it */
};

/* The same sections sorted by pfn and by frame index, to search in: hints, the slot decides. */
struct dk_section_key {
    struct dk_pfn key;
    dk_a32 slot;
    uint32_t pad;
};

/* What trees of one kind have in common (index.c). */
#define DK_SHAPES (1u + DECKLE_MAX_ORDER_LIMIT - DK_BLOCK_ORDER)
struct dk_shape {
    uint32_t items;
    uint32_t levels;                /* 1 … DK_MAX_LEVELS, the last is the root */
    uint32_t count[DK_MAX_LEVELS];  /* children at each level, 0 = leaves */
    uint32_t offset[DK_MAX_LEVELS]; /* first word of each level but the root, in the tree */
};

struct dk_span {
    uint32_t zone;
    uint32_t first_block;
    uint32_t nr_blocks;
    struct dk_shape shape[DK_SHAPES];      /* of block trees, and of the trees of orders 10 … 18 */
    dk_a32 next_in_zone;                   /* span number + 1; 0 = last */
    uint32_t pad;
    uint64_t index_word;                   /* first word of the span's trees in the index array */
    uint64_t index_words;
    uint32_t tree_word[DK_MAX_TREES];      /* first word of a tree, relative to index_word */
};

/* What compaction remembers of a zone (compact.c). Hints but for the deferral. */
struct dk_compact_memory {
    dk_a32 deferral;      /* packed struct dk_compact_deferral */
    dk_a32 migrate_block; /* block where the migration scanner goes on; 0 = at the start */
    dk_a32 stuck[16];     /* blocks + 1 that could not be emptied in this pass */
};

/* Counters that follow W, in frames: each is a sum over the zone's blocks (zone.c). */
enum dk_count {
    DK_COUNT_FREE,       /* private pools: without the per-CPU deltas */
    DK_COUNT_FREE_CMA,
    DK_COUNT_FREE_HIGHATOMIC,
    DK_COUNT_FREE_ISOLATED,
    DK_COUNT_HIGHATOMIC, /* frames in HighAtomic blocks */
    DK_COUNT_CMA,        /* frames in CMA blocks, holes among them included */
    DK_NR_COUNTS
};
#define DK_EPOCHS 4u
struct dk_zone_counts {
    _Alignas(64) dk_aword of[DK_NR_COUNTS];
};

struct dk_zone {
    uint32_t node;
    uint32_t type;       /* enum deckle_zone_type */
    dk_a32 first_span;   /* span number + 1; 0 = never had memory */
    uint32_t number;
    struct dk_pfn start_pfn, end_pfn;         /* first, and the one after the last; 0, 0 = none */
    dk_aword present, managed, reserved;      /* frames; set-up writes; present 0 = unpopulated */
    dk_aword min, low, high, promo;           /* frames */
    dk_aword boost;
    dk_aword lowmem_reserve[DECKLE_NR_ZONE_TYPES];
    dk_aword total_reserve;                   /* largest lowmem_reserve + high, at most managed */
    dk_aword stat_threshold;                  /* |free_delta| folded above it */
    dk_aword drift_mark;                      /* below it sum the deltas; 0 = never */
    dk_a32 batch, high_min, high_max;         /* frames; policy/pcp_size.h */
    dk_a32 stopped;                           /* reasons that keep the caches of the zone closed */
    dk_a32 boosted;                           /* 1: boost was raised and nobody was woken for it */
    struct dk_compact_memory compact;
    dk_aword cheap_failure;                   /* the last one that was established (fail.c) */
    struct dk_zone_counts counts[DK_EPOCHS];  /* by the epoch of W; private pools use the first */
    dk_counter claims, steals;
};

/* A zonelist: zone numbers, best first. Zone type and node are in the zone. There are two copies of
 * all lists; bit 0 of the superblock's zonelist_epoch says which is current (zonelist.h). */
struct dk_zonelist {
    dk_a32 nr;
    dk_a32 zone[DECKLE_MAX_ZONES];
};

/* Where the arrays are: bytes from the superblock; 0 = the pool has no such array. */
struct dk_offsets {
    uint64_t ranges, reservations, sections, by_pfn, by_fi, spans, zones, zonelists, distances,
        cpu_nodes;
    uint64_t pcp, words, lines, index, state, descriptors, owners;
    uint64_t clients, intents, tags; /* of pools that processes share: docs/design/shared.md */
};

/* Tunables that are not in the superblock already (tunables.c has their meaning and bounds). */
struct dk_tunables {
    dk_a32 lowmem_reserve_ratio[DECKLE_NR_ZONE_TYPES];
    dk_a32 watermark_boost_factor; /* what was set; boost_factor is what holds */
    dk_a32 percpu_pagelist_high_fraction;
    dk_a32 zone_reclaim_mode;
    dk_a32 min_unmapped_ratio, min_slab_ratio;
    dk_a32 compaction_proactiveness;
    dk_a32 extfrag_threshold;
    dk_a32 defrag_mode;
};

/* What the background threads of a node have been asked for (reclaim.c, compact_daemon.c). */
struct dk_node_daemons {
    dk_a32 kswapd_awake;      /* woken, and not yet done */
    dk_a32 kswapd_order;      /* largest order asked for */
    dk_a32 kswapd_highest;    /* highest zone type asked for + 1 */
    dk_a32 kswapd_priority;   /* of the next step; 0 = begin */
    dk_a32 kswapd_reclaimed;  /* frames since it was woken */
    dk_a32 kswapd_failures;   /* rounds without progress in a row */
    dk_a32 kcompactd_awake;
    dk_a32 kcompactd_order;   /* largest order asked for + 1 */
    dk_a32 kcompactd_highest; /* highest zone type asked for + 1 */
    dk_a32 proactive;         /* 1: proactive compaction is under way */
    dk_a32 proactive_rest;    /* steps to leave out after one that did not help */
};

/* Events counted for the whole pool; names: vmstat.c. */
enum dk_event {
    DK_EVENT_ALLOCSTALL,
    DK_EVENT_PGSCAN_DIRECT,
    DK_EVENT_PGSTEAL_DIRECT,
    DK_EVENT_PGSCAN_KSWAPD,
    DK_EVENT_PGSTEAL_KSWAPD,
    DK_EVENT_PAGEOUTRUN,
    DK_EVENT_KSWAPD_WAKE,
    DK_EVENT_KSWAPD_HOPELESS,
    DK_EVENT_OOM_KILL,
    DK_EVENT_ZONE_RECLAIM_SUCCESS,
    DK_EVENT_ZONE_RECLAIM_FAILED,
    DK_EVENT_COMPACT_STALL,
    DK_EVENT_COMPACT_FAIL,
    DK_EVENT_COMPACT_SUCCESS,
    DK_EVENT_COMPACT_DEFERRED,
    DK_EVENT_COMPACT_MIGRATE_SCANNED,
    DK_EVENT_COMPACT_FREE_SCANNED,
    DK_EVENT_COMPACT_ISOLATED,
    DK_EVENT_COMPACT_CAPTURED,
    DK_EVENT_COMPACT_DAEMON_WAKE,
    DK_EVENT_COMPACT_DAEMON_PROACTIVE,
    DK_EVENT_PGMIGRATE_SUCCESS,
    DK_EVENT_PGMIGRATE_FAIL,
    DK_EVENT_HIGHATOMIC_RELEASE,
    DK_EVENT_PFMEMALLOC,
    DK_EVENT_NOFAIL_WAIT,
    DK_EVENT_CHEAP_FAIL,
    DK_EVENT_FAILURE_REPORT,
    DK_NR_EVENTS
};

struct dk_superblock {
    uint64_t magic;
    uint32_t version;
    uint32_t word_bits;
    uint64_t total_bytes;     /* metadata, handle not included */
    uint32_t features;
    uint32_t page_shift, max_order, nr_cpus, nr_nodes;
    uint32_t kind;            /* enum dk_pcp_kind */
    uint32_t nr_trees;
    uint32_t pcp_capacity;    /* entries of an order-0 list */
    uint32_t max_blocks, max_ranges, max_reservations, max_sections, max_spans, max_zones;
    uint32_t nr_ranges, nr_reservations;
    uint32_t nr_zones;        /* all are made with the pool; == max_zones */
    dk_a32 nr_spans;
    dk_a32 nr_sections;       /* live sections == entries of the sorted keys */
    dk_a32 section_epoch;     /* odd while the section table changes */
    dk_a32 zonelist_epoch;    /* times the zonelists were rebuilt */
    uint32_t next_block;      /* blocks from here on were never in a span */
    uint64_t next_index_word; /* index words from here on belong to no span */
    uint32_t watermark_scale_factor;
    uint32_t no_watermarks;
    dk_a32 boost_factor;      /* watermark_boost_factor, of 10000. 0 = off, as long as the pool
                               * has no background reclaim: only that ends a boost */
    struct dk_tunables vm;
    uint64_t min_free_kbytes; /* as configured, 0 = formula */
    uint64_t dma_limit_pfn, dma32_limit_pfn;
    uint64_t index_capacity;  /* words */
    uint64_t slot_bytes;      /* bytes of one cache set, slots included */
    struct dk_offsets at;
    uint32_t zone_of[DECKLE_MAX_NODES][DECKLE_NR_ZONE_TYPES]; /* zone number + 1, 0 = none */
    /* what has been counted for the whole pool */
    _Alignas(64) dk_counter failures[32];
    dk_counter bad[16];
    dk_counter split_blocks, remote_drains, drain_retries;
    dk_a32 debug;             /* DECKLE_DEBUG_… */
    /* scratch of dk_zonelists_rebuild, too large for the stack */
    struct dk_node_view node_view[DECKLE_MAX_NODES];
    uint32_t node_load[DECKLE_MAX_NODES];
    dk_a32 grouping_off;      /* too small to group by mobility (policy/fallback.h) */
    /* shared pools */
    uint32_t max_clients;
    uint32_t nr_intents;
    dk_a32 published;         /* enum dk_publication */
    dk_a32 reaper;            /* the client that reaps now (reap.c), 0 = none */
    dk_a32 epoch;             /* its two lowest bits are those of W (reap.c) */
    dk_a32 epoch_settled;     /* == epoch: all blocks are in it */
    dk_a32 counts_wrong;      /* somebody died between a change of W and its counting */
    dk_a32 deaths;            /* clients reaped: counters of events do not agree any more */
    dk_a32 abandoned;         /* blocks may wait for a recount that no dead client's intent names */
    struct dk_node_daemons daemons[DECKLE_MAX_NODES];
    dk_counter events[DK_NR_EVENTS];
};

enum dk_publication { DK_BEING_MADE, DK_PUBLISHED, DK_BEING_RECOVERED };

/* A client of a shared pool (client.h). */
struct dk_client {
    _Alignas(64) dk_aword word; /* state, generation */
    dk_aword identity;          /* 0 = the number is free */
};

/* ---- the handle ---------------------------------------------------------------------------- */

/* A registered shrinker (reclaim.c). */
struct dk_shrinker_slot {
    dk_aword owner;    /* address of the shrinker that has the slot; 0 = free */
    dk_aword shrinker; /* the same while it may be called, else 0 */
    dk_aword users;    /* calls that are running */
};
/* Rows of fast_list: zone type x cache type, and one that is always 0. */
#define DK_FAST_ROWS (DECKLE_NR_ZONE_TYPES * DK_PCP_TYPES + 1u)

struct deckle {
    /* What one allocation and one free read. */
    dk_a8 *state;             /* state byte of frame fi */
    /* The largest section of the first online: first pfn, frames, first fi, zone. All but main_nr
     * are written before main_nr is first set and never again. */
    uint64_t main_pfn;
    dk_aword main_nr;
    uint32_t main_fi;
    uint32_t main_zone;
    unsigned char *pcp;       /* set of (zone, cpu): pcp + (zone * nr_cpus + cpu) * set_bytes */
    uint32_t set_bytes;
    uint32_t nr_cpus;
    int64_t rseq_offset;
    dk_a32 slow;              /* DK_SLOW_…: anything here sends requests past the fast path */
    uint32_t kind;            /* enum dk_pcp_kind */
    uint32_t max_order;
    /* The fast paths (fast.c): addresses of CPU 0's lists, 0 where the general path has to serve.
     * For allocations by the placement flags of the request, which name a row of fast_list; for
     * frees of frames of the main section, of which fast_nr are open to it. */
    dk_aword fast_nr;
    dk_aword main_list[DK_PCP_TYPES][DK_PCP_MAX_ORDER + 1];
    const dk_aword *fast_row[32];
    dk_aword fast_list[DK_FAST_ROWS][DK_PCP_MAX_ORDER + 1];
    /* The preferred zone by highest zone type, on pools of one node, or DK_NONE. */
    dk_a32 fast_zone[8];
    uint32_t list_off[DK_PCP_LISTS];          /* bytes from the set to the list's head */
    uint32_t slot_cap[DK_PCP_LISTS];          /* entries */
    /* Shared pools, from deckle_attach on; a private pool is client 0 and has no arrays. */
    dk_word cell_mine;        /* a full cell of this client, but for frame and phase */
    dk_a8 *tags;              /* client that holds frame fi; NULL = not shared */
    uint32_t client;          /* 0 = none: looks only */
    uint32_t read_only;
    dk_aword *intents;
    struct dk_client *clients;
    dk_word client_word;      /* what clients[client - 1].word is while this client lives */
    /* The rest. */
    struct dk_superblock *sb;
    dk_aword *words;          /* W of each block */
    dk_aword *lines;          /* DK_LINE_WORDS of each block */
    dk_aword *index;
    dk_aword *descriptors;    /* NULL without the feature: see compound.c */
    dk_a32 *owners;           /* NULL without the feature */
    struct dk_range *ranges;
    struct dk_reservation *reservations;
    struct dk_section *sections;
    struct dk_section_key *by_pfn, *by_fi;
    struct dk_span *spans;
    struct dk_zone *zones;
    struct dk_zonelist *zonelists; /* [copy][node][0 = fallback, 1 = nofallback] */
    const uint8_t *distances;
    const uint8_t *cpu_nodes;
    struct deckle_host host;
    uint64_t handle_magic;
    /* Under pressure: what belongs to this process. */
    dk_aword hooks;           /* address of the struct deckle_pressure_hooks; 0 = none */
    dk_a32 gfp_denied;        /* flags that requests act as if they had not given */
    dk_a32 oom_lock;          /* 1: somebody is in the oom hook */
    dk_a32 anonymous;         /* requests without a task that reclaim or compact now */
    dk_a32 suppressed;        /* failures not reported since the last report */
    dk_a32 last_report;       /* second of it + 1; 0 = none yet */
    dk_a32 nr_shrinkers;      /* slots from here on were never used */
    struct dk_shrinker_slot shrinkers[DECKLE_MAX_SHRINKERS];
};

/* Why requests leave the fast path (deckle.slow). */
#define DK_SLOW_DEBUG       (1u << 0) /* a run-time switch is on */
#define DK_SLOW_DESCRIPTORS (1u << 1)
#define DK_SLOW_OWNERS      (1u << 2)
#define DK_SLOW_HOOKS       (1u << 3) /* on_alloc / on_free */
#define DK_SLOW_NUMA        (1u << 4) /* more than one node: fast_zone depends on the CPU */
#define DK_SLOW_GROUPING    (1u << 5) /* grouping by mobility is off */
#define DK_SLOW_SHARED      (1u << 6) /* frees compare the client tag; the fast paths of cells do */
#define DK_SLOW_STRANGER    (1u << 7) /* a shared pool, and not a client of it: may only look */
#define DK_SLOW_TASK        (1u << 8) /* tasks may restrict where their requests go */
#define DK_SLOW_FREE                                                                               \
    (~(DK_SLOW_GROUPING | DK_SLOW_NUMA | DK_SLOW_TASK)) /* what a free cares for */

/* ---- the state byte ------------------------------------------------------------------------
 * 0: the frame heads no allocated block (it is free, in a cache, or a tail).
 * Else the head of a block: order + 1 in bits 0-4, cache type in bits 5-6 as the mobility flags of
 * gfp say it (none, MOVABLE, RECLAIMABLE), compound in bit 7.
 * Two values lie outside: reserved frames and holes. Two more belong to free frames, tails as well,
 * while the run-time switches are or were on: what the frame holds is known (prepare.c).
 */
#define DK_STATE_ORDER    0x1fu
#define DK_STATE_TYPE     0x60u
#define DK_STATE_COMPOUND 0x80u
#define DK_STATE_HOLE     0xfeu
#define DK_STATE_RESERVED 0xffu
#define DK_STATE_POISONED 0x80u /* free, filled with poison */
#define DK_STATE_ZEROED   0xa0u /* free, filled with zeroes */

/* From a cache type to the mobility flags, and back: 0 and 1 change places. */
static inline unsigned dk_state_swap(unsigned type)
{
    _Static_assert(DECKLE_MOVABLE == 0 && DECKLE_UNMOVABLE == 1 && DECKLE_RECLAIMABLE == 2, "");
    return 0xe1u >> 2 * (type & 3) & 3;
}
static inline uint8_t dk_state_make(unsigned order, unsigned pcp_type, bool compound)
{
    return (uint8_t)((order + 1) | dk_state_swap(pcp_type) << 5 |
                     (compound ? DK_STATE_COMPOUND : 0));
}
static inline bool dk_state_is_head(uint8_t s)
{
    return (uint8_t)((s & DK_STATE_ORDER) - 1) <= DECKLE_MAX_ORDER_LIMIT;
}
static inline bool dk_state_is_free(uint8_t s)
{
    return !s || s == DK_STATE_POISONED || s == DK_STATE_ZEROED;
}
static inline unsigned dk_state_order(uint8_t s)
{
    return (s & DK_STATE_ORDER) - 1u;
}
static inline unsigned dk_state_type(uint8_t s)
{
    return dk_state_swap((s & DK_STATE_TYPE) >> 5);
}

/* ---- addresses ------------------------------------------------------------------------------ */

static inline struct dk_pcp_set *dk_set(const struct deckle *d, uint32_t zone, uint32_t cpu)
{
    return (struct dk_pcp_set *)(void *)(d->pcp +
                                         ((size_t)zone * d->nr_cpus + cpu) * d->set_bytes);
}
static inline dk_aword *dk_line(const struct deckle *d, uint32_t block)
{
    return d->lines + (size_t)block * DK_LINE_WORDS;
}
static inline bool dk_grouping(const struct deckle *d)
{
    return !dk_a32_load_relaxed(&d->sb->grouping_off);
}
static inline uint32_t dk_cpu(const struct deckle *d)
{
    return d->host.cpu ? d->host.cpu(d->host.ctx) : 0;
}
/* A counter that follows W. While a reaper moves the blocks from one epoch to the next, both count
 * (reap.c); exact when quiet. */
static inline dk_word dk_zone_count(const struct deckle *d, const struct dk_zone *zone,
                                    enum dk_count which)
{
    uint32_t epoch = 0;
    dk_word before = 0;
    if (d->tags) {
        epoch = dk_a32_load_acquire(&d->sb->epoch);
        if (dk_a32_load_acquire(&d->sb->epoch_settled) != epoch)
            before = dk_load_relaxed(&zone->counts[(epoch - 1) % DK_EPOCHS].of[which]);
    }
    return before + dk_load_relaxed(&zone->counts[epoch % DK_EPOCHS].of[which]);
}
/* The set whose counters this call should use: any CPU's is correct, its own is fast. */
static inline struct dk_pcp_set *dk_stat_set(const struct deckle *d, uint32_t zone)
{
    uint32_t cpu = dk_cpu(d);
    return dk_set(d, zone, cpu < d->nr_cpus ? cpu : cpu % d->nr_cpus);
}

/* section.c: pfn -> fi and back; false / DK_NONE when the pool has no such frame. Gaps inside a
 * section are found: their state byte says HOLE. */
bool dk_pfn_to_fi_slow(const struct deckle *d, uint64_t pfn, uint32_t *fi, uint32_t *zone);
bool dk_fi_to_pfn_slow(const struct deckle *d, uint32_t fi, uint64_t *pfn);
uint32_t dk_zone_of_block(const struct deckle *d, uint32_t block);

DK_INLINE bool dk_pfn_to_fi(const struct deckle *d, uint64_t pfn, uint32_t *fi, uint32_t *zone)
{
    dk_word nr = dk_load_acquire(&d->main_nr);
    uint64_t rel = pfn - d->main_pfn;
    if (dk_likely(rel < nr)) {
        *fi = (uint32_t)rel + d->main_fi;
        *zone = d->main_zone;
        return true;
    }
    return dk_pfn_to_fi_slow(d, pfn, fi, zone);
}

DK_INLINE bool dk_fi_to_pfn(const struct deckle *d, uint32_t fi, uint64_t *pfn)
{
    dk_word nr = dk_load_acquire(&d->main_nr);
    uint32_t rel = fi - d->main_fi;
    if (dk_likely(rel < nr)) {
        *pfn = d->main_pfn + rel;
        return true;
    }
    return dk_fi_to_pfn_slow(d, fi, pfn);
}

#endif
