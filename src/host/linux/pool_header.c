/* SPDX-License-Identifier: MIT */
/* The first page of a pool's file: made, read, and not believed before it is checked. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "host/linux/pool_file.h"

#define HUGETLBFS UINT32_C(0x958458f6) /* statfs.f_type */
#define MOST      (UINT64_C(1) << 46)  /* bytes of a file: below what addresses allow everywhere */

/* ---- why ------------------------------------------------------------------------------------- */

int pool_refuse(const struct pool_why *why, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    if (why->text && why->size)
        vsnprintf(why->text, why->size, format, arguments);
    va_end(arguments);
    return error;
}

static int error_of_errno(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return DECKLE_ENOENT;
    case EACCES:
    case EPERM:
    case EROFS:
        return DECKLE_EPERM;
    case EEXIST:
        return DECKLE_EEXIST;
    case EISDIR:
    case EBADF:
    case ENXIO:
        return DECKLE_EINVAL;
    default:
        return DECKLE_EBACKING;
    }
}

int pool_refuse_errno(const struct pool_why *why, const char *what)
{
    int error = errno, result;

    result = pool_refuse(why, error_of_errno(error), "%s: %s", what, strerror(error));
    errno = error;
    return result;
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* FNV-1a: against damage, not against malice; every field is checked besides. */
uint64_t pool_checksum(const struct pool_header *h)
{
    const unsigned char *bytes = (const unsigned char *)h;
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < offsetof(struct pool_header, checksum); i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum;
}

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
    return (bytes + step - 1) / step * step;
}

int pool_layout(struct pool_header *h, uint64_t step)
{
    uint64_t block = UINT64_C(1) << (h->max_order + h->page_shift);

    step = step > POOL_PAGE ? step : POOL_PAGE;
    if (h->nr_frames > MOST >> h->page_shift || h->metadata_bytes > MOST || block > MOST)
        return DECKLE_E2BIG;
    h->metadata_offset = POOL_HEADER_BYTES;
    h->frames_offset = round_up(POOL_HEADER_BYTES + h->metadata_bytes, block > step ? block : step);
    h->file_bytes = h->frames_offset + round_up(h->nr_frames << h->page_shift, step);
    return h->file_bytes > MOST ? DECKLE_E2BIG : DECKLE_OK;
}

uint64_t pool_huge_page(int fd)
{
    struct statfs s;

    if (fstatfs(fd, &s) || (uint32_t)s.f_type != HUGETLBFS)
        return 0;
    return (uint64_t)s.f_bsize;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int check_form(const struct pool_header *h, const struct pool_why *why)
{
    if (h->magic != POOL_MAGIC) {
        if (h->magic == __builtin_bswap64(POOL_MAGIC))
            return pool_refuse(why, DECKLE_EVERSION,
                               "made on a machine with the other byte order");
        if (!h->magic)
            return pool_refuse(why, DECKLE_EBUSY, "its header is empty: whoever makes the pool has "
                                                  "not finished, or was killed, or it is no pool");
        return pool_refuse(why, DECKLE_EINVAL, "no pool: it does not begin as one does");
    }
    if (h->version != POOL_VERSION)
        return pool_refuse(why, DECKLE_EVERSION,
                           "its format has version %u; this library knows version %u", h->version,
                           POOL_VERSION);
    if (h->byte_order != POOL_BYTE_ORDER)
        return pool_refuse(why, DECKLE_ECORRUPT, "the header is damaged: byte order 0x%08x",
                           h->byte_order);
    if (h->checksum != pool_checksum(h))
        return pool_refuse(why, DECKLE_ECORRUPT,
                           "the header is damaged: its checksum is %016llx, not %016llx",
                           (unsigned long long)h->checksum, (unsigned long long)pool_checksum(h));
    if (h->word_bits != sizeof(size_t) * 8)
        return pool_refuse(why, DECKLE_EVERSION, "made by a machine of %u bits; this one has %u",
                           h->word_bits, (unsigned)(sizeof(size_t) * 8));
    return DECKLE_OK;
}

/* A right checksum says nothing of a file that was made up. The layout is one that pool_layout
 * could have made: frames_offset is only known to be far enough away, since it depends on the
 * file. */
static int check_numbers(const struct pool_header *h, const struct pool_why *why)
{
    struct pool_header least = *h;
    uint64_t block;

    if (h->page_shift < 10 || h->page_shift > 30 || h->max_order < DECKLE_PAGEBLOCK_ORDER ||
        h->max_order > DECKLE_MAX_ORDER_LIMIT)
        return pool_refuse(why, DECKLE_ECORRUPT, "the header is damaged: page_shift %u, order %u",
                           h->page_shift, h->max_order);
    if (!h->nr_frames || !h->metadata_bytes || pool_layout(&least, 0))
        return pool_refuse(why, DECKLE_ECORRUPT,
                           "the header is damaged: %llu frames, %llu bytes of metadata",
                           (unsigned long long)h->nr_frames, (unsigned long long)h->metadata_bytes);
    block = UINT64_C(1) << (h->max_order + h->page_shift);
    if (h->metadata_offset != least.metadata_offset || h->frames_offset < least.frames_offset ||
        h->frames_offset % block || h->frames_offset % POOL_PAGE || h->frames_offset > MOST ||
        h->file_bytes < h->frames_offset + (h->nr_frames << h->page_shift) || h->file_bytes > MOST)
        return pool_refuse(why, DECKLE_ECORRUPT,
                           "the header is damaged: metadata at %llu, frames at %llu of %llu bytes",
                           (unsigned long long)h->metadata_offset,
                           (unsigned long long)h->frames_offset,
                           (unsigned long long)h->file_bytes);
    return DECKLE_OK;
}

int pool_read_header(int fd, struct pool_header *h, uint64_t *found, const struct pool_why *why)
{
    struct stat st;
    ssize_t n;
    int error;

    if (fstat(fd, &st))
        return pool_refuse_errno(why, "cannot be looked at");
    if (!S_ISREG(st.st_mode))
        return pool_refuse(why, DECKLE_EINVAL, "no ordinary file, as a pool is");
    *found = (uint64_t)st.st_size;
    if (!*found)
        return pool_refuse(why, DECKLE_EBUSY, "empty: whoever makes the pool has not begun");
    memset(h, 0, sizeof(*h));
    n = pread(fd, h, sizeof(*h), 0);
    if (n < 0)
        return pool_refuse_errno(why, "cannot be read");
    if ((size_t)n < sizeof(*h))
        return pool_refuse(why, DECKLE_EINVAL, "no pool: it has only %llu bytes",
                           (unsigned long long)*found);
    error = check_form(h, why);
    return error ? error : check_numbers(h, why);
}
