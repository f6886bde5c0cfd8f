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
 * fork of a private pool (deckle_create). The child has a copy of the pool, as of all private
 * memory: both go on with their own, and neither sees the other's. Threads that were inside a call
 * when another forked do not exist in the child, nor do background threads; what their operation
 * held, at most one refill or one block each (a compaction: the area it was emptying), is lost to
 * the child's pool, and deckle_validate may find it. No handler is needed around fork.
 *
 * One pool for several processes lies in a file: deckle_create_shared() and deckle_open_shared()
 * below; what clients are is explained in deckle/shared.h.
 */
#ifndef DECKLE_LINUX_H
#define DECKLE_LINUX_H

#include <deckle.h>
#include <deckle/pressure.h>
#include <deckle/shared.h>

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

/* ---------------------------------------------------------------------------------------------
 * Shared pools
 *
 * A pool in one file: of any file system, of hugetlbfs, or a memfd; docs/formats/pool.md describes
 * it. pfn 0 is its first frame: pfns are the same for every process, addresses are not. A block of
 * order k lies at an address that is a multiple of its size in each of them.
 *
 * Who is alive. Each client holds a lock on a byte of the file beyond its end (F_OFD_SETLK), which
 * the kernel takes back when the process has ended, whatever ended it. The lock belongs to a
 * descriptor of the library's; a program that closes all descriptors that it does not know leaves
 * its pools by that, and others will reap it while it runs. Close pools first.
 *
 * fork of a shared pool. The parent stays the client. In the child the handle can look and change
 * nothing (DECKLE_EPERM), its descriptor is closed, so that a child does not keep a dead parent
 * alive, and its metadata are mapped for reading. The frames stay mapped at their addresses: the
 * child can read and write those that the parent knows of. deckle_destroy unmaps the child's
 * mappings. To do more the child opens the pool for itself. A signal handler that forks while it
 * interrupts a call must not return in the child: exec or _exit. vfork, posix_spawn and exec need
 * no care. A child made by the system call clone without the C library's fork must not use the
 * handle, and keeps the parent alive until it ends.
 *
 * Machines. Metadata may be lost when the machine goes down while a pool lies on a disk; then and
 * after any other end of all clients deckle_recover_file() makes the pool usable.
 */

/* deckle_shared_options.flags: DECKLE_CREATE_POPULATE (room for every frame is reserved in the
 * file, so that no write to a frame ever fails for want of it; without it only for the metadata)
 * and DECKLE_CREATE_QUIET. Zero in every field but size, path or fd, and one of bytes and frames is
 * a sensible default. */
struct deckle_shared_options {
    uint32_t size;       /* sizeof(struct deckle_shared_options) */
    uint32_t flags;
    const char *path;    /* file to make, which does not exist yet; NULL: fd is meant */
    int32_t fd;          /* an empty file, open for reading and writing; it stays the caller's */
    uint32_t mode;       /* permissions of the new file, before the umask; 0 = 0600 */
    uint64_t bytes;      /* memory of the pool, rounded up to whole frames (and huge pages) … */
    uint64_t frames;     /* … or its number of frames; one of the two is 0 */
    uint32_t page_shift; /* 0 = 12; 10 to 30 */
    uint32_t max_order;  /* 0 = 10; 9 to 18 */
    uint32_t features;   /* DECKLE_FEATURE_…; SHARED is implied */
    uint32_t max_clients; /* 0 = 64; 1 to 255 */
    uint64_t min_free_kbytes;     /* as in deckle_config: 0 = by formula, ~0 = no watermarks */
    uint32_t pcp_capacity;        /* as in deckle_config */
    uint32_t watermark_scale_factor;
    /* Called instead of a line on standard error, with ctx, for a refused free (any context). */
    void (*bad)(void *ctx, const struct deckle_bad_report *report);
    void *ctx;
    char *why;           /* if not NULL: gets a sentence when the call fails, NUL-terminated */
    size_t why_size;
};

/*
 * Make a pool in a file and, unless out is NULL, open it. The file gets its name when the pool is
 * complete; by descriptor, the header is written last: a process that is killed on the way leaves
 * nothing that opens. Errors: EINVAL, E2BIG (an option), EEXIST (the path exists, the file is not
 * empty), EBACKING (the kernel refused: errno says why), ENOTSUP (locks or this machine). Set-up.
 */
DECKLE_API int deckle_create_shared(const struct deckle_shared_options *options,
                                    struct deckle **out);

/* deckle_open_options.flags */
#define DECKLE_OPEN_READ_ONLY (1u << 0) /* no client: can look, and change nothing */
#define DECKLE_OPEN_QUIET     (1u << 1) /* nothing on standard error */
#define DECKLE_OPEN_DRY_RUN   (1u << 2) /* deckle_recover_file: on a copy of it */

struct deckle_open_options {
    uint32_t size;    /* sizeof(struct deckle_open_options) */
    uint32_t flags;   /* DECKLE_OPEN_… */
    const char *path; /* NULL: fd is meant */
    int32_t fd;       /* open for what the flags want; it stays the caller's */
    uint32_t pad;
    void (*bad)(void *ctx, const struct deckle_bad_report *report); /* as above */
    void *ctx;
    char *why;        /* as in deckle_shared_options */
    size_t why_size;
};

/*
 * Open a pool, and become a client of it unless READ_ONLY. Everything in the file is checked before
 * it is followed. deckle_address, deckle_pfn and deckle_base work as for private pools;
 * deckle_destroy leaves the pool: what the client still holds goes back to the others and its
 * memory is unmapped, the file stays. Errors: EINVAL (an option, no pool, no ordinary file), ENOENT
 * (no such file), EPERM (permissions), EVERSION (another format, version, word size or byte order),
 * ENOSPC (the file is cut off, or max_clients are registered), ECORRUPT (it contradicts itself),
 * EBUSY (not complete, or being recovered), ENOTSUP (locks, this machine, no /proc), EBACKING
 * (errno). Set-up.
 */
DECKLE_API int deckle_open_shared(const struct deckle_open_options *options, struct deckle **out);

/* Does the process run that is this client? 1 or 0; ENOENT (no such client), EINVAL. */
DECKLE_API int deckle_client_alive(const struct deckle *d, uint32_t client);

/* Process id in a client's identity (deckle_client_info), as its process knew it. */
#define DECKLE_IDENTITY_PID(identity) ((uint32_t)(identity))

/*
 * deckle_reap for every client that is dead. Returns how many were; *report (may be NULL) is the
 * sum of all. Some of their frames may have to wait for operations of the living
 * (report->deferred): call again. Those that another client is reaping are left to it. Errors:
 * EINVAL, EPERM (not a client).
 */
DECKLE_API int deckle_reap_dead(struct deckle *d, struct deckle_reap_report *report);

struct deckle_recover_file_report {
    uint32_t size;        /* sizeof(struct deckle_recover_file_report), set by the caller */
    uint32_t pad;
    uint64_t bytes_found; /* length of the file */
    uint64_t bytes;       /* what it should be, and is afterwards */
    struct deckle_recover_report pool;
};

/*
 * deckle_recover for a pool in a file that nobody has open. A file that was cut off is made as long
 * as it was, with zeroes (and without taking room). Errors: as deckle_open_shared, and EBUSY (a
 * client lives). A failing call changes nothing. Set-up.
 */
DECKLE_API int deckle_recover_file(const struct deckle_open_options *options,
                                   struct deckle_recover_file_report *report);

#ifdef __cplusplus
}
#endif
#endif
