/* SPDX-License-Identifier: MIT */
/*
 * deckle_create_shared: a pool is made in a file that has no name yet, or an empty one of the
 * caller's; then the header is written, which makes it a pool; then it gets its name.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/linux/shared.h"

#define KNOWN_FLAGS (DECKLE_CREATE_POPULATE | DECKLE_CREATE_QUIET)

struct making {
    struct deckle_shared_options o;
    struct pool_why why;
    int fd, lock_fd;
    char *temporary; /* name of the file until it is complete; NULL: it has none */
    struct pool_header header;
    uint64_t step;   /* huge page of the file, 0 = none */
    struct topology topology;
    struct deckle_range range;
    struct deckle_config config;
};

/* ---- options --------------------------------------------------------------------------------- */

static int read_options(struct making *m, const struct deckle_shared_options *options)
{
    struct deckle_shared_options *o = &m->o;

    if (!options || options->size != sizeof(*options))
        return DECKLE_EINVAL;
    *o = *options;
    m->why = (struct pool_why){o->why, o->why_size};
    pool_refuse(&m->why, 0, "%s", "");
    o->page_shift = o->page_shift ? o->page_shift : 12;
    o->max_order = o->max_order ? o->max_order : DECKLE_DEFAULT_MAX_ORDER;
    o->max_clients = o->max_clients ? o->max_clients : DECKLE_DEFAULT_CLIENTS;
    o->mode = o->mode ? o->mode : 0600;
    o->features |= DECKLE_FEATURE_SHARED;
    if (sizeof(size_t) < 8)
        return pool_refuse(&m->why, DECKLE_ENOTSUP, "shared pools need a machine of 64 bits");
    if (o->flags & ~KNOWN_FLAGS)
        return pool_refuse(&m->why, DECKLE_EINVAL, "flags must be of POPULATE and QUIET");
    if (o->page_shift < 10 || o->page_shift > 30)
        return pool_refuse(&m->why, DECKLE_EINVAL, "page_shift must be 0 (12) or 10 to 30");
    if (o->max_order < DECKLE_PAGEBLOCK_ORDER || o->max_order > DECKLE_MAX_ORDER_LIMIT)
        return pool_refuse(&m->why, DECKLE_EINVAL, "max_order must be 0 (10) or 9 to 18");
    if (!o->bytes == !o->frames)
        return pool_refuse(&m->why, DECKLE_EINVAL, "exactly one of bytes and frames must not be 0");
    if (o->mode > 07777)
        return pool_refuse(&m->why, DECKLE_EINVAL, "mode must be permissions, 0 to 07777");
    return DECKLE_OK;
}

static int plan_config(struct making *m)
{
    const struct deckle_shared_options *o = &m->o;
    const char *reason = NULL;
    int error;

    m->range = (struct deckle_range){.nr = m->header.nr_frames};
    m->config = (struct deckle_config){
        .size = sizeof(m->config),
        .features = o->features,
        .page_shift = o->page_shift,
        .max_order = o->max_order,
        .max_clients = o->max_clients,
        .nr_cpus = m->topology.nr_cpus,
        .dma_limit_pfn = UINT64_MAX, /* pfns say nothing about devices */
        .dma32_limit_pfn = UINT64_MAX,
        .ranges = &m->range,
        .nr_ranges = 1,
        .grow_ranges = 1,
        .min_free_kbytes = o->min_free_kbytes,
        .watermark_scale_factor = o->watermark_scale_factor,
        .pcp_capacity = o->pcp_capacity,
    };
    error = deckle_config_check(&m->config, &reason);
    return error ? pool_refuse(&m->why, error, "%s", reason) : DECKLE_OK;
}

static int plan(struct making *m)
{
    const struct deckle_shared_options *o = &m->o;
    struct pool_header *h = &m->header;
    uint64_t frame = UINT64_C(1) << o->page_shift;
    int error = hosted_topology(&m->topology, false);

    *h = (struct pool_header){.byte_order = POOL_BYTE_ORDER, .version = POOL_VERSION,
                              .word_bits = sizeof(size_t) * 8, .page_shift = o->page_shift,
                              .max_order = o->max_order, .max_clients = o->max_clients};
    h->nr_frames = o->frames ? o->frames : o->bytes / frame + (o->bytes % frame != 0);
    if (m->step > frame && o->bytes && h->nr_frames <= UINT64_MAX / 2 / frame) {
        uint64_t step = m->step / frame; /* all of the last huge page */
        h->nr_frames = (h->nr_frames + step - 1) / step * step;
    }
    if (!error)
        error = plan_config(m);
    if (error)
        return error;
    h->metadata_bytes = deckle_metadata_size(&m->config);
    h->metadata_bytes = (h->metadata_bytes + 63) / 64 * 64;
    if (pool_layout(h, m->step))
        return pool_refuse(&m->why, DECKLE_E2BIG, "more memory than a pool's file can have");
    h->checksum = 0;
    return DECKLE_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Without O_TMPFILE a name that nobody looks for; what a killed process leaves there is no pool. */
static int open_temporary(struct making *m)
{
    size_t size = strlen(m->o.path) + 32;

    m->temporary = malloc(size);
    if (!m->temporary)
        return -1;
    snprintf(m->temporary, size, "%s.%ld.new", m->o.path, (long)getpid());
    return open(m->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, m->o.mode);
}

static int open_unnamed(struct making *m)
{
    const char *slash = strrchr(m->o.path, '/');
    char *folder = slash ? strndup(m->o.path, slash == m->o.path ? 1 : (size_t)(slash - m->o.path))
                         : strdup(".");
    int fd;

    if (!folder)
        return -1;
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, m->o.mode);
    if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL))
        fd = open_temporary(m);
    free(folder);
    return fd;
}

static int open_file(struct making *m)
{
    struct stat st;

    if (m->o.path && !lstat(m->o.path, &st))
        return pool_refuse(&m->why, DECKLE_EEXIST, "exists already");
    m->fd = m->o.path ? open_unnamed(m) : pool_reopen(m->o.fd, O_RDWR);
    if (m->fd < 0)
        return pool_refuse_errno(&m->why, m->o.path ? "cannot be made" : "cannot be opened");
    m->lock_fd = pool_reopen(m->fd, O_RDWR);
    if (m->lock_fd < 0)
        return pool_refuse_errno(&m->why, "no second descriptor (through /proc/self/fd)");
    m->step = pool_huge_page(m->fd);
    return pool_enter(m->lock_fd, true, &m->why);
}

/* Room for what must not fail later. A file system that cannot reserve it is taken as it is. */
static int size_file(struct making *m)
{
    const struct pool_header *h = &m->header;
    uint64_t room = m->o.flags & DECKLE_CREATE_POPULATE ? h->file_bytes - h->frames_offset : 0;
    uint64_t head = POOL_HEADER_BYTES + h->metadata_bytes;
    struct stat st;

    if (fstat(m->fd, &st))
        return pool_refuse_errno(&m->why, "cannot be looked at");
    if (!S_ISREG(st.st_mode))
        return pool_refuse(&m->why, DECKLE_EINVAL, "no ordinary file");
    if (st.st_size)
        return pool_refuse(&m->why, DECKLE_EEXIST, "not empty: it has %lld bytes",
                           (long long)st.st_size);
    if (ftruncate(m->fd, (off_t)h->file_bytes))
        return pool_refuse_errno(&m->why, "cannot be made as long as the pool");
    if ((fallocate(m->fd, 0, 0, (off_t)head) ||
         (room && fallocate(m->fd, 0, (off_t)h->frames_offset, (off_t)room))) &&
        errno != EOPNOTSUPP && errno != ENOSYS) {
        int error = pool_refuse_errno(&m->why, "no room for the pool");

        return ftruncate(m->fd, 0) ? DECKLE_EBACKING : error;
    }
    return DECKLE_OK;
}

/* ---- the pool -------------------------------------------------------------------------------- */

static int set_up(const struct making *m, void *metadata)
{
    struct deckle *d;
    int error = deckle_init(metadata, (size_t)m->header.metadata_bytes, &m->config, NULL, &d);

    if (!error)
        error = deckle_add_range(d, &m->range);
    if (!error)
        error = deckle_online(d);
    return error ? error : deckle_publish(d);
}

/*
 * The metadata are on the disk before the header is: a machine that goes down leaves no header, or
 * a header with sound tables behind it.
 */
static int fill_file(struct making *m)
{
    struct pool_header *h = &m->header;
    uint64_t step = m->step > POOL_PAGE ? m->step : POOL_PAGE;
    size_t bytes = (size_t)((POOL_HEADER_BYTES + h->metadata_bytes + step - 1) / step * step);
    char *head = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, 0);
    int error;

    if (head == MAP_FAILED)
        return pool_refuse_errno(&m->why, "cannot be mapped");
    error = set_up(m, head + h->metadata_offset);
    if (error)
        pool_refuse(&m->why, error, "%s", deckle_strerror(error));
    else if (msync(head, bytes, MS_SYNC) && errno != EINVAL)
        error = pool_refuse_errno(&m->why, "cannot be written");
    if (!error) {
        h->magic = POOL_MAGIC;
        h->checksum = pool_checksum(h);
        memcpy(head, h, sizeof(*h));
        if (msync(head, bytes, MS_SYNC) && errno != EINVAL)
            error = pool_refuse_errno(&m->why, "cannot be written");
    }
    munmap(head, bytes);
    return error;
}

static int give_name(struct making *m)
{
    char from[48];
    int result;

    if (!m->o.path)
        return DECKLE_OK;
    snprintf(from, sizeof(from), "/proc/self/fd/%d", m->fd);
    if (m->temporary)
        result = link(m->temporary, m->o.path);
    else
        result = linkat(AT_FDCWD, from, AT_FDCWD, m->o.path, AT_SYMLINK_FOLLOW);
    if (result)
        return errno == EEXIST ? pool_refuse(&m->why, DECKLE_EEXIST, "exists already")
                               : pool_refuse_errno(&m->why, "cannot get its name");
    return DECKLE_OK;
}

/* By descriptor of the file, which need not have a name yet. */
static int open_made(struct making *m, struct deckle **out)
{
    struct deckle_open_options o = {.size = sizeof(o), .fd = m->fd, .bad = m->o.bad,
                                    .ctx = m->o.ctx, .why = m->o.why, .why_size = m->o.why_size};

    o.flags = m->o.flags & DECKLE_CREATE_QUIET ? DECKLE_OPEN_QUIET : 0;
    return deckle_open_shared(&o, out);
}

static int make(struct making *m, struct deckle **out)
{
    struct deckle *d = NULL;
    int error = open_file(m);

    if (!error)
        error = plan(m);
    if (error)
        return error;
    error = size_file(m);
    if (error)
        return error;
    error = fill_file(m);
    pool_leave(m->lock_fd);
    if (!error && out)
        error = open_made(m, &d);
    if (!error)
        error = give_name(m);
    if (error) {
        deckle_destroy(d);
        if (!m->o.path && ftruncate(m->fd, 0))
            pool_refuse_errno(&m->why, "cannot be made empty again");
    }
    if (!error && out)
        *out = d;
    return error;
}

int deckle_create_shared(const struct deckle_shared_options *options, struct deckle **out)
{
    struct making *m = calloc(1, sizeof(*m)); /* tables of a large machine: not for the stack */
    int error, saved;

    if (!m)
        return DECKLE_EBACKING;
    m->fd = m->lock_fd = -1;
    error = read_options(m, options);
    if (!error)
        error = make(m, out);
    saved = errno;
    if (m->temporary)
        unlink(m->temporary);
    if (m->lock_fd >= 0)
        close(m->lock_fd);
    if (m->fd >= 0)
        close(m->fd);
    free(m->temporary);
    free(m);
    errno = saved;
    return error;
}
