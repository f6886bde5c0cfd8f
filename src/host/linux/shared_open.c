/* SPDX-License-Identifier: MIT */
/*
 * deckle_open_shared: a pool's file is opened, checked and mapped, and this process becomes a
 * client; and the way out. The steps are in the order in which they exclude others: first the
 * locks, then what they protect.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/linux/shared.h"

#define LEAVE_TRIES 1000u

/* ---- the file -------------------------------------------------------------------------------- */

static int open_file(struct opening *p)
{
    bool looks = p->o.flags & (DECKLE_OPEN_READ_ONLY | DECKLE_OPEN_DRY_RUN);
    int flags = (looks ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

    p->fd = p->o.path ? open(p->o.path, flags) : pool_reopen(p->o.fd, flags);
    if (p->fd >= 0)
        return DECKLE_OK;
    if (!p->o.path && errno == ENOENT && access("/proc/self/fd", F_OK))
        return pool_refuse(&p->why, DECKLE_ENOTSUP, "needs /proc, which is not mounted");
    return pool_refuse_errno(&p->why, "cannot be opened");
}

int pool_begin(struct opening *p, const struct deckle_open_options *options, uint32_t flags)
{
    *p = (struct opening){.fd = -1};
    if (!options || options->size != sizeof(*options))
        return DECKLE_EINVAL;
    p->o = *options;
    p->why = (struct pool_why){options->why, options->why_size};
    pool_refuse(&p->why, 0, "%s", "");
    if (sizeof(size_t) < 8)
        return pool_refuse(&p->why, DECKLE_ENOTSUP, "shared pools need a machine of 64 bits");
    if (p->o.flags & ~flags)
        return pool_refuse(&p->why, DECKLE_EINVAL, "flags has bits that do not belong here");
    return open_file(p);
}

int pool_make_handle(struct opening *p)
{
    size_t bytes = HOSTED_BYTES + deckle_handle_size();
    struct hosted *h = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                            0);

    if (h == MAP_FAILED)
        return pool_refuse_errno(&p->why, "no memory for the handle");
    p->h = h;
    *h = (struct hosted){.magic = HOSTED_MAGIC, .metadata_bytes = bytes, .lock_fd = -1,
                         .bad = p->o.bad, .ctx = p->o.ctx};
    if (p->o.flags & DECKLE_OPEN_QUIET)
        h->flags |= DECKLE_CREATE_QUIET;
    if (p->o.flags & (DECKLE_OPEN_READ_ONLY | DECKLE_OPEN_DRY_RUN))
        h->flags |= HOSTED_READ_ONLY;
    if (!pool_open_lock(h, p->fd))
        return pool_refuse_errno(&p->why, "no second descriptor (through /proc/self/fd)");
    return DECKLE_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *map_head(const struct opening *p, int protection)
{
    uint64_t bytes = POOL_HEADER_BYTES + p->header.metadata_bytes;
    uint64_t step = pool_huge_page(p->fd);

    step = step > POOL_PAGE ? step : POOL_PAGE;
    p->h->file_head_bytes = (size_t)((bytes + step - 1) / step * step);
    return mmap(NULL, p->h->file_head_bytes, protection, MAP_SHARED, p->fd, 0);
}

static int map_frames(struct opening *p, int protection)
{
    const struct pool_header *f = &p->header;
    size_t bytes = (size_t)(f->file_bytes - f->frames_offset);
    size_t align = (size_t)1 << (f->max_order + f->page_shift);
    size_t step = (size_t)pool_huge_page(p->fd);
    char *at;

    align = align > step ? align : step;
    align = align > POOL_PAGE ? align : POOL_PAGE;
    at = hosted_reserve(bytes, align);
    if (!at)
        return pool_refuse_errno(&p->why, "no addresses for the frames");
    p->h->frames = at;
    p->h->frame_bytes = bytes;
    if (mmap(at, bytes, protection, MAP_SHARED | MAP_FIXED, p->fd, (off_t)f->frames_offset) ==
        MAP_FAILED)
        return pool_refuse_errno(&p->why, "its frames cannot be mapped");
    return DECKLE_OK;
}

int pool_map(struct opening *p)
{
    int protection = p->o.flags & DECKLE_OPEN_READ_ONLY ? PROT_READ : PROT_READ | PROT_WRITE;
    void *head;

    if (p->found < p->header.file_bytes)
        return pool_refuse(&p->why, DECKLE_ENOSPC,
                           "cut off: it has %llu bytes and must have %llu; it can be recovered",
                           (unsigned long long)p->found, (unsigned long long)p->header.file_bytes);
    head = map_head(p, protection);
    if (head == MAP_FAILED)
        return pool_refuse_errno(&p->why, "cannot be mapped");
    p->h->file_head = head;
    p->h->page_shift = p->header.page_shift;
    p->h->nr_frames = p->header.nr_frames;
    return map_frames(p, protection);
}

/* ---- attaching ------------------------------------------------------------------------------- */

static int client_alive(void *ctx, uint32_t client, uint64_t identity)
{
    const struct hosted *h = ctx;

    (void)client;
    return identity == h->identity || h->lock_fd < 0 ||
           pool_identity_alive(h->lock_fd, identity);
}

int pool_attach(struct opening *p, uint32_t flags)
{
    char *handle = (char *)p->h + HOSTED_BYTES;
    const char *reason = NULL;
    struct deckle_host host;
    int error;

    hosted_hooks(p->h, &host);
    host.rseq_usable = 0;
    host.client_alive = client_alive;
    error = deckle_attach(handle, p->h->metadata_bytes - HOSTED_BYTES,
                          (char *)p->h->file_head + p->header.metadata_offset,
                          (size_t)p->header.metadata_bytes, &host, flags, &reason, &p->d);
    if (error)
        return pool_refuse(&p->why, error, "%s", reason ? reason : deckle_strerror(error));
    if (deckle_page_shift(p->d) != p->header.page_shift ||
        deckle_max_order(p->d) != p->header.max_order)
        return pool_refuse(&p->why, DECKLE_ECORRUPT,
                           "header and metadata differ in the size of frames or blocks");
    return DECKLE_OK;
}

static void unmap(struct hosted *h)
{
    hosted_unmap_frames(h);
    if (h->file_head)
        munmap(h->file_head, h->file_head_bytes);
    pool_close_lock(h);
    munmap(h, h->metadata_bytes);
}

void pool_abandon(struct opening *p)
{
    int error = errno;

    if (p->d)
        deckle_detach(p->d);
    if (p->h)
        unmap(p->h);
    if (p->fd >= 0)
        close(p->fd);
    errno = error;
}

/* ---- open ------------------------------------------------------------------------------------ */

static int become_client(struct opening *p)
{
    int error;

    p->h->identity = pool_lock_identity(p->h->lock_fd);
    if (!p->h->identity)
        return pool_refuse_errno(&p->why, "its file system has no locks of open files");
    error = deckle_register(p->d, p->h->identity, NULL);
    if (error == DECKLE_ENOSPC)
        return pool_refuse(&p->why, error,
                           "all %u client numbers are taken; those of the dead are free again "
                           "when a living client reaps them, or after recovery when none lives",
                           p->header.max_clients);
    return error ? pool_refuse(&p->why, error, "%s", deckle_strerror(error)) : DECKLE_OK;
}

static int open_pool(struct opening *p)
{
    bool looks = p->o.flags & DECKLE_OPEN_READ_ONLY;
    int error = pool_make_handle(p);

    if (!error && !looks)
        error = pool_enter(p->h->lock_fd, false, &p->why);
    if (!error)
        error = pool_read_header(p->fd, &p->header, &p->found, &p->why);
    if (!error)
        error = pool_map(p);
    if (!error)
        error = pool_attach(p, looks ? DECKLE_ATTACH_READ_ONLY : 0);
    if (!error && !looks)
        error = become_client(p);
    return error;
}

int deckle_open_shared(const struct deckle_open_options *options, struct deckle **out)
{
    struct opening p;
    int error;

    if (!out)
        return DECKLE_EINVAL;
    error = pool_begin(&p, options, DECKLE_OPEN_READ_ONLY | DECKLE_OPEN_QUIET);
    if (!error)
        error = open_pool(&p);
    if (error) {
        pool_abandon(&p);
        return error;
    }
    close(p.fd);
    *out = p.d;
    return DECKLE_OK;
}

/* A reaper that stays away is not waited for: it, or another, will find us dead. */
uint64_t hosted_leave(struct deckle *d)
{
    struct hosted *h = hosted_of(d);
    int64_t frames = deckle_detach(d);

    for (unsigned i = 0; i < LEAVE_TRIES && frames == DECKLE_EBUSY; i++) {
        sched_yield();
        frames = deckle_detach(d);
    }
    if (frames > 0)
        hosted_left(h, (uint64_t)frames);
    h->magic = 0;
    unmap(h);
    return frames > 0 ? (uint64_t)frames : 0;
}

/* ---- the dead -------------------------------------------------------------------------------- */

int deckle_client_alive(const struct deckle *d, uint32_t client)
{
    struct deckle_client_info info = {.size = sizeof(info)};
    const struct hosted *h = d ? hosted_of(d) : NULL;
    int error;

    if (!h || h->magic != HOSTED_MAGIC || !h->file_head)
        return DECKLE_EINVAL;
    error = deckle_get_client(d, client, &info);
    return error ? error : client_alive(hosted_of(d), client, info.identity);
}

int deckle_reap_dead(struct deckle *d, struct deckle_reap_report *report)
{
    struct deckle_reap_report sum = {.size = sizeof(sum)}, one;
    int reaped = 0, error;

    if (!d || hosted_of(d)->magic != HOSTED_MAGIC || (report && report->size != sizeof(*report)))
        return DECKLE_EINVAL;
    for (uint32_t client = 1; client <= DECKLE_MAX_CLIENTS; client++) {
        one = (struct deckle_reap_report){.size = sizeof(one)};
        error = deckle_reap(d, client, &one);
        if (error == DECKLE_EINVAL || error == DECKLE_EPERM)
            return error;
        if (error && error != DECKLE_ECONTENDED)
            continue;
        reaped++;
        sum.recounted += one.recounted;
        sum.in_use += one.in_use;
        sum.cached += one.cached;
        sum.in_flight += one.in_flight;
        sum.deferred += one.deferred;
    }
    if (report)
        *report = sum;
    return reaped;
}
