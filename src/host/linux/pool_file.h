/* SPDX-License-Identifier: MIT */
/*
 * A pool in a file: what its first page says, and the locks beyond its end. The layout is described
 * in docs/formats/pool.md:
 *
 *     header page | metadata | hole | frames, from a multiple of the largest block on
 *
 * The header is written once, when everything else is there, and never changes.
 */
#ifndef DK_HOST_LINUX_POOL_FILE_H
#define DK_HOST_LINUX_POOL_FILE_H

#include <stdarg.h>

#include "host/linux/hosted.h"

#define POOL_MAGIC        UINT64_C(0x6c6f6f70006b6364) /* "dck\0pool" in memory, little endian */
#define POOL_BYTE_ORDER   UINT32_C(0x01020304)
#define POOL_VERSION      1u
#define POOL_HEADER_BYTES 4096u
#define POOL_PAGE         65536u /* the largest page size: mapped sizes and offsets are multiples */

struct pool_header {
    uint64_t magic;
    uint32_t byte_order;
    uint32_t version;
    uint32_t word_bits;
    uint32_t page_shift;
    uint32_t max_order;
    uint32_t max_clients;
    uint64_t metadata_offset, metadata_bytes;
    uint64_t frames_offset, nr_frames;
    uint64_t file_bytes;
    uint64_t checksum; /* of all before it: pool_checksum() */
};

/* Where a failing call says why. */
struct pool_why {
    char *text; /* NULL: nobody asks */
    size_t size;
};

/* Returns error, after writing the sentence. */
int pool_refuse(const struct pool_why *why, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A system call failed: the error that its errno stands for, with the system's text. */
int pool_refuse_errno(const struct pool_why *why, const char *what);

/* ---- pool_header.c -------------------------------------------------------------------------- */

uint64_t pool_checksum(const struct pool_header *h);

/* Sizes and offsets from page_shift, max_order, nr_frames, metadata_bytes. step: the huge page of
 * the file, or 0. EINVAL-free: DECKLE_E2BIG if the file would be too long. */
int pool_layout(struct pool_header *h, uint64_t step);

/* The header of the file, if it is one that this library can follow; nothing in it exceeds the
 * machine's addresses. The file may still be shorter than it says: *found is its length. */
int pool_read_header(int fd, struct pool_header *h, uint64_t *found, const struct pool_why *why);

/* Size of the huge pages that the file consists of, 0 = none. */
uint64_t pool_huge_page(int fd);

/* ---- pool_lock.c ----------------------------------------------------------------------------- */

/* Another descriptor for the file that fd is open for, with its own locks; -1 and errno. */
int pool_reopen(int fd, int flags);

/* The gate is held shared by every client, and alone by whoever makes or recovers the pool. */
int pool_enter(int lock_fd, bool alone, const struct pool_why *why);
void pool_leave(int lock_fd);
bool pool_is_entered(int lock_fd);

/* Lock a byte that nobody else has, made of the process id; 0 and errno if locks do not work. */
uint64_t pool_lock_identity(int lock_fd);
bool pool_identity_alive(int lock_fd, uint64_t identity);

/* Give h the descriptor for its locks, another one for the file of fd, and see to it that a child
 * of fork does not have it, and only looks; false and errno. The other undoes both. */
bool pool_open_lock(struct hosted *h, int fd);
void pool_close_lock(struct hosted *h);

#endif
