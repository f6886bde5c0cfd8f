/* SPDX-License-Identifier: MIT */
/*
 * deckle_recover_file: nobody has the pool open, and the gate keeps it so. A file that was cut off
 * becomes as long as it was; what is missing then reads as zeroes, like pages that were lost. A dry
 * run does the same to a copy of the metadata in memory.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/linux/shared.h"

/* ---- the file, or a copy --------------------------------------------------------------------- */

static int lengthen(struct opening *p)
{
    if (p->found >= p->header.file_bytes)
        return DECKLE_OK;
    if (ftruncate(p->fd, (off_t)p->header.file_bytes))
        return pool_refuse_errno(&p->why, "cannot be made as long as it was");
    p->found = p->header.file_bytes;
    return DECKLE_OK;
}

static int read_copy(struct opening *p, char *to, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t n = pread(p->fd, to + at, bytes - at, (off_t)at);
        if (n < 0 && errno != EINTR)
            return pool_refuse_errno(&p->why, "cannot be read");
        if (!n)
            break; /* cut off */
        at += n > 0 ? (size_t)n : 0;
    }
    return DECKLE_OK;
}

/* Frames are not touched: none are mapped. */
static int copy_head(struct opening *p)
{
    size_t bytes = (size_t)(p->header.metadata_offset + p->header.metadata_bytes);
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (copy == MAP_FAILED)
        return pool_refuse_errno(&p->why, "no memory for a copy of the metadata");
    p->h->file_head = copy;
    p->h->file_head_bytes = bytes;
    p->h->page_shift = p->header.page_shift;
    return read_copy(p, copy, bytes);
}

/* ---- recovery -------------------------------------------------------------------------------- */

static int enter(struct opening *p)
{
    if (!(p->o.flags & DECKLE_OPEN_DRY_RUN))
        return pool_enter(p->h->lock_fd, true, &p->why);
    if (pool_is_entered(p->h->lock_fd))
        return pool_refuse(&p->why, DECKLE_EBUSY,
                           "clients use the pool, or somebody makes or recovers it");
    return DECKLE_OK;
}

static int recover_pool(struct opening *p, struct deckle_recover_report *report)
{
    int error = pool_attach(p, DECKLE_ATTACH_RECOVER);

    if (error)
        return error;
    error = deckle_recover(p->d, report);
    return error ? pool_refuse(&p->why, error, "%s", deckle_strerror(error)) : DECKLE_OK;
}

static int recover(struct opening *p, struct deckle_recover_file_report *r)
{
    bool dry = p->o.flags & DECKLE_OPEN_DRY_RUN;
    int error = pool_make_handle(p);

    if (!error)
        error = enter(p);
    if (!error)
        error = pool_read_header(p->fd, &p->header, &p->found, &p->why);
    if (error)
        return error;
    r->bytes_found = p->found;
    r->bytes = p->header.file_bytes;
    error = dry ? copy_head(p) : lengthen(p);
    if (!error && !dry)
        error = pool_map(p);
    if (!error)
        error = recover_pool(p, &r->pool);
    if (!error && !dry && msync(p->h->file_head, p->h->file_head_bytes, MS_SYNC) &&
        errno != EINVAL)
        error = pool_refuse_errno(&p->why, "cannot be written");
    if (error && !dry && r->bytes_found < p->found && ftruncate(p->fd, (off_t)r->bytes_found))
        pool_refuse_errno(&p->why, "cannot be cut off again");
    return error;
}

int deckle_recover_file(const struct deckle_open_options *options,
                        struct deckle_recover_file_report *report)
{
    struct deckle_recover_file_report r = {.size = sizeof(r), .pool = {.size = sizeof(r.pool)}};
    struct opening p;
    int error;

    if (report && report->size != sizeof(*report))
        return DECKLE_EINVAL;
    error = pool_begin(&p, options, DECKLE_OPEN_QUIET | DECKLE_OPEN_DRY_RUN);
    if (!error)
        error = recover(&p, &r);
    if (!error && report)
        *report = r;
    pool_abandon(&p);
    return error;
}
