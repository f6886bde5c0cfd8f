/* SPDX-License-Identifier: MIT */
/*
 * deckle/shared.h - one pool used by several processes: attaching, clients, reaping.
 *
 * A pool made with DECKLE_FEATURE_SHARED has its metadata in memory that several processes map,
 * each at an address of its own. Its life:
 *
 *     deckle_init(metadata, …), deckle_add_range, deckle_online     one process, as for any pool
 *     deckle_publish(d)                                             set-up ends, for ever
 *     deckle_attach(handle, …, metadata, …, &d)                     each process, for itself
 *     deckle_register(d, identity, &client)                         who wants more than to look
 *     deckle_alloc, deckle_free, …                                  use
 *     deckle_reap(d, client, &report)                               after another's death
 *     deckle_detach(d)                                              leave
 *
 * On Linux deckle_create_shared() and deckle_open_shared() (deckle/linux.h) do all of this around a
 * file, and know which clients are dead.
 *
 * A client is a process with all its threads and handlers. A frame belongs to the client that
 * allocated it, until it is freed, transferred, or the client is reaped; a free by another client
 * is refused and reported as DECKLE_BAD_OWNER. What a client holds in the caches is its own as
 * well, and goes back to everybody when memory is short. A client that is killed at any instruction
 * delays nobody; what it held is missing until somebody calls deckle_reap.
 *
 * fork: a handle is its process's alone. The child's copy must be disowned (on Linux that happens
 * by itself): it can look, as a read-only one, and changes nothing; the child attaches and
 * registers for itself.
 *
 * After deckle_publish the set-up functions deckle_add_range, deckle_online, deckle_reserve_range,
 * deckle_remove_range and deckle_set_debug answer DECKLE_ENOTSUP, and deckle_exit does nothing. A
 * handle that is not a client's gets DECKLE_EPERM from whatever would change the pool. Shared pools
 * need 64-bit machines, use atomic cells (or no caches) and have neither descriptors nor reference
 * counts. The design is in docs/design/shared.md.
 */
#ifndef DECKLE_SHARED_H
#define DECKLE_SHARED_H

#include <deckle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Clients are numbered from 1. deckle_config.max_clients: 0 = DECKLE_DEFAULT_CLIENTS. */
#define DECKLE_MAX_CLIENTS     255u
#define DECKLE_DEFAULT_CLIENTS 64u

/* Bytes of memory of its own that a process needs for deckle_attach, aligned to 64. */
DECKLE_API size_t deckle_handle_size(void);

/* deckle_attach: flags */
#define DECKLE_ATTACH_READ_ONLY (1u << 0) /* metadata are mapped for reading; nothing is written */
#define DECKLE_ATTACH_RECOVER   (1u << 1) /* for deckle_recover: a recovery was cut off before */

/* Set-up of a shared pool has ended. d may not be used afterwards, by any call. EINVAL if the pool
 * is not shared or nothing is online. Set-up. */
DECKLE_API int deckle_publish(struct deckle *d);

/* Look at published metadata through a handle of the caller's (deckle_handle_size bytes). metadata
 * is what deckle_init got, wherever it is mapped now, and size its size; everything read from it is
 * checked before it is followed. The handle can look (statistics, text, validation) but not
 * allocate (EPERM) before deckle_register. host as for deckle_init. Errors: EINVAL, EVERSION (other
 * version, word size or byte order), ENOSPC (metadata cut off), ECORRUPT (contradicts itself;
 * *reason, if not NULL, says where, and lives as long as the handle's memory), EBUSY (not
 * published: its maker has not finished, or died). The handle ends with deckle_detach. */
DECKLE_API int deckle_attach(void *handle, size_t handle_size, void *metadata, size_t size,
                             const struct deckle_host *host, uint32_t flags, const char **reason,
                             struct deckle **out);

/* Become a client. identity is the caller's business, not 0, and shown by deckle_get_client (a
 * process id, say). Errors: EINVAL, ENOSPC (max_clients are registered), EPERM (read-only), EEXIST
 * (already). */
DECKLE_API int deckle_register(struct deckle *d, uint64_t identity, uint32_t *client);

/* Number of the client that d is, 0 = none. */
DECKLE_API uint32_t deckle_client(const struct deckle *d);

enum deckle_client_state {
    DECKLE_CLIENT_NONE = 0, /* the number is free */
    DECKLE_CLIENT_LIVE,
    DECKLE_CLIENT_DEAD      /* being reaped, or to be reaped again */
};

struct deckle_client_info {
    uint32_t size; /* sizeof(struct deckle_client_info), set by the caller */
    uint32_t client;
    enum deckle_client_state state;
    uint32_t generation; /* times the number was given out */
    uint64_t identity;
    uint64_t frames;     /* that it holds, in use and in caches; linear in the memory */
    uint64_t cached;     /* of these in caches */
    uint32_t operations; /* under way, or left unfinished */
    uint32_t pad;
};

/* Errors: EINVAL, ENOENT (no such number). Exact for a client that is at rest. */
DECKLE_API int deckle_get_client(const struct deckle *d, uint32_t client,
                                 struct deckle_client_info *out);

struct deckle_reap_report {
    uint32_t size;       /* sizeof(struct deckle_reap_report), set by the caller */
    uint32_t recounted;  /* pageblocks in which an operation had been left unfinished */
    uint64_t in_use;     /* frames that it had allocated */
    uint64_t cached;     /* frames that it had in caches */
    uint64_t in_flight;  /* frames that were neither: taken, popped or freed half-way */
    uint32_t deferred;   /* pageblocks that live operations kept from being recounted */
    uint32_t pad;
};

/*
 * Give back everything that a dead client held. The caller answers for its death: no thread of it
 * may run any more (where the host has a client_alive hook it is asked first). May be called again,
 * and by several; nobody else waits for it. report may be NULL. Errors: ENOENT (no such client),
 * EBUSY (it is alive, or another live client is reaping), ECONTENDED (done but for what report says
 * is deferred: call again), EPERM (the caller is not registered), EINVAL. Linear in the memory.
 */
DECKLE_API int deckle_reap(struct deckle *d, uint32_t client, struct deckle_reap_report *report);

/* Give an allocated block of one's own to another live client. When it returns the block is the
 * other's, and survives the giver. Errors: ENOENT (no such live client), EBADFREE (no block of this
 * order there; reported), EPERM (not the caller's). */
DECKLE_API int deckle_transfer(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t client);

/* Leave: all that the client holds goes back, caches and blocks in use. Returns how many frames
 * were in use, 0 if the handle is no client's, or a negative error (EBUSY: somebody is reaping; try
 * again). No other call on this handle may run or follow. */
DECKLE_API int64_t deckle_detach(struct deckle *d);

/* In the child of a fork, before anything else: its copy of the handle stops being the parent's
 * client, and becomes one that looks. Writes the handle only. deckle_detach ends it. */
DECKLE_API void deckle_disown(struct deckle *d);

struct deckle_recover_report {
    uint32_t size;        /* sizeof(struct deckle_recover_report), set by the caller */
    uint32_t clients;     /* that were registered */
    uint32_t operations;  /* that were under way */
    uint32_t pad;
    uint64_t frames;      /* in allocated blocks, as their state bytes said */
    uint64_t cached;      /* frames in caches */
    uint64_t blocks;      /* pageblocks whose summary was not that of a free block */
    uint64_t state_bytes; /* that were neither right nor left by an allocation: damage */
    uint64_t index;       /* pageblocks with free frames that the index did not show */
    uint64_t counters;    /* of zones that were wrong: damage */
};

/*
 * Make a pool usable again whose users are all dead: killed together, or with the machine, which
 * may have lost any page of the metadata that was written after deckle_publish. Everything that
 * they held is free afterwards; ranges, reservations, types of pageblocks and isolation stay.
 * Statistics begin anew. d was attached, with DECKLE_ATTACH_RECOVER if a recovery may have been cut
 * off, and is no client; nobody else may use the pool meanwhile. report may be NULL. Errors: EINVAL
 * (d is a client), EPERM (read-only), EBUSY (the host's client_alive hook knows of a live client).
 * Linear in the memory.
 */
DECKLE_API int deckle_recover(struct deckle *d, struct deckle_recover_report *report);

#ifdef __cplusplus
}
#endif
#endif
