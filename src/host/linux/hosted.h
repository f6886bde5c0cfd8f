/* SPDX-License-Identifier: MIT */
/* What the files of the Linux host share. */
#ifndef DK_HOST_LINUX_HOSTED_H
#define DK_HOST_LINUX_HOSTED_H

#include <deckle/linux.h>
#include <deckle/pressure.h>

#include "base/atomic.h"

/*
 * What deckle_create and deckle_open_shared know of a pool. It lies in front of the handle, in the
 * same mapping, so that the functions that are given a handle find it; the hooks get it as their
 * context.
 */
struct hosted {
    uint64_t magic;
    uint64_t first_pfn, nr_frames;
    uint32_t page_shift;
    uint32_t flags;
    void *frames;          /* mapping of the frames */
    size_t frame_bytes;
    size_t metadata_bytes; /* mapping that this struct begins: the handle, and of a private pool
                            * the metadata */
    void (*bad)(void *ctx, const struct deckle_bad_report *report);
    void (*leak)(void *ctx, const struct deckle_allocated *block);
    void *ctx;
    uint64_t leaks;        /* blocks that deckle_destroy has met */
    dk_a32 report_minute;  /* reports of refused frees are limited by the minute */
    dk_a32 reports;
    struct daemons *daemons;            /* NULL: no background threads */
    struct deckle_pressure_hooks user;  /* as given; size 0 = none */
    struct deckle_pressure_hooks hooks; /* with what the host adds */
    /* Shared pools (shared.h) alone: */
    void *file_head;       /* mapping of the file's header and metadata; NULL = a private pool */
    size_t file_head_bytes;
    uint64_t identity;     /* of this client, 0 = none */
    int lock_fd;           /* never mapped: see pool_lock.c */
};

/* hosted.flags beside DECKLE_CREATE_… */
#define HOSTED_READ_ONLY (1u << 31)

#define HOSTED_MAGIC UINT64_C(0x64656b636c652b6c)
#define HOSTED_BYTES 4096u

_Static_assert(sizeof(struct hosted) <= HOSTED_BYTES, "it has a page of its own");

static inline struct hosted *hosted_of(const struct deckle *d)
{
    return (struct hosted *)((uintptr_t)d - HOSTED_BYTES);
}

static inline void *hosted_address(const struct hosted *h, uint64_t pfn)
{
    return (char *)h->frames + ((pfn - h->first_pfn) << h->page_shift);
}

/* ---- hooks.c ------------------------------------------------------------------------------- */

/* Fill the hooks of h's pool: what this process, C library and kernel have. */
void hosted_hooks(struct hosted *h, struct deckle_host *host);

/* Of frames that go back when their client leaves a shared pool. */
void hosted_left(struct hosted *h, uint64_t frames);

/* A line for a block that is still allocated. */
void hosted_leak(void *ctx, const struct deckle_allocated *block);

/* ---- annotate.c ---------------------------------------------------------------------------- */

/* Sanitizer hooks, NULL where nobody listens; all frames are made known as free. */
void hosted_annotate(struct hosted *h, struct deckle_host *host);

/* All frames may be touched again by whoever gets their addresses next. */
void hosted_annotate_end(struct hosted *h);

/* ---- daemons.c ----------------------------------------------------------------------------- */

/* Set the pool's hooks under pressure and start its background threads, as far as they were asked
 * for. nodes: bit per node with memory. DECKLE_OK or DECKLE_EBACKING, with nothing started. */
int hosted_start_daemons(struct hosted *h, struct deckle *d, uint64_t nodes);
/* They have ended when it returns. */
void hosted_stop_daemons(struct hosted *h);

/* ---- map.c --------------------------------------------------------------------------------- */

/*
 * Map the frames: bytes at an address that is a multiple of align (a power of two). DECKLE_OK or
 * DECKLE_EBACKING; h->frames and h->frame_bytes are set.
 */
int hosted_map_frames(struct hosted *h, size_t bytes, size_t align, enum deckle_pages pages);
int hosted_populate(struct hosted *h);
void hosted_unmap_frames(struct hosted *h);

/* bytes of address space without access, at a multiple of align (a power of two); NULL and errno if
 * there is none. */
char *hosted_reserve(size_t bytes, size_t align);

/* ---- shared.c ------------------------------------------------------------------------------ */

/* deckle_destroy of a shared pool's handle. */
uint64_t hosted_leave(struct deckle *d);

/* ---- topology.c ---------------------------------------------------------------------------- */

/* The machine, as far as a pool wants to know it. */
struct topology {
    uint32_t nr_cpus;                  /* highest possible CPU number + 1 */
    uint32_t nr_nodes;                 /* highest node number + 1; 1 without NUMA */
    uint64_t memory_nodes;             /* bit per node that has memory we may use */
    uint8_t cpu_nodes[DECKLE_MAX_CPUS];
    uint8_t distances[DECKLE_MAX_NODES * DECKLE_MAX_NODES];
};

/* DECKLE_OK, or DECKLE_ENOTSUP when nodes are asked for and cannot be had. */
int hosted_topology(struct topology *t, bool numa);

/* From now on the pages of this memory come from the node; false: refused. */
bool hosted_bind(void *address, size_t bytes, uint32_t node);

#endif
