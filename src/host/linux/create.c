/* SPDX-License-Identifier: MIT */
/*
 * deckle_create and deckle_destroy: a pool with everything around it.
 *
 * The frames begin at a multiple of the largest block, and a pfn is an address divided by the frame
 * size: alignment of frames and of addresses is the same, and each follows from the other by a
 * shift. With DECKLE_CREATE_NUMA every node with memory gets an equal stretch, whole largest
 * blocks.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "host/linux/hosted.h"

#define KNOWN_FLAGS                                                                                \
    (DECKLE_CREATE_NUMA | DECKLE_CREATE_POPULATE | DECKLE_CREATE_RESERVE |                         \
     DECKLE_CREATE_QUIET | DECKLE_CREATE_BACKGROUND)

/* Options with their defaults filled in, and what follows from them. */
struct plan {
    struct deckle_create_options o;
    uint64_t frames;
    size_t bytes, align; /* of the frames' mapping */
    struct topology topology;
    struct deckle_range ranges[DECKLE_MAX_NODES];
    struct deckle_config config;
};

static int refuse(int error, const struct plan *p, const char *why)
{
    if (p->o.reason)
        *p->o.reason = why;
    return error;
}

/* ---- options ------------------------------------------------------------------------------- */

static int read_options(struct plan *p, const struct deckle_create_options *options)
{
    struct deckle_create_options *o = &p->o;

    if (!options || options->size != sizeof(*options))
        return DECKLE_EINVAL;
    *o = *options;
    if (o->reason)
        *o->reason = NULL;
    o->page_shift = o->page_shift ? o->page_shift : 12;
    o->max_order = o->max_order ? o->max_order : DECKLE_DEFAULT_MAX_ORDER;
    if (o->pressure && (o->pressure->size != sizeof(*o->pressure) ||
                        (o->pressure->flags & ~DECKLE_HOOKS_RESTRICT)))
        return refuse(DECKLE_EINVAL, p, "pressure must be a struct deckle_pressure_hooks");
    if (o->flags & ~KNOWN_FLAGS)
        return refuse(DECKLE_EINVAL, p, "flags has bits other than DECKLE_CREATE_…");
    if (o->page_shift < 10 || o->page_shift > 30)
        return refuse(DECKLE_EINVAL, p, "page_shift must be 0 (12) or 10 to 30");
    if (o->max_order < DECKLE_PAGEBLOCK_ORDER || o->max_order > DECKLE_MAX_ORDER_LIMIT)
        return refuse(DECKLE_EINVAL, p, "max_order must be 0 (10) or 9 to 18");
    if (o->pages > DECKLE_PAGES_1G)
        return refuse(DECKLE_EINVAL, p, "pages must be one of enum deckle_pages");
    if (!o->bytes == !o->frames)
        return refuse(DECKLE_EINVAL, p, "exactly one of bytes and frames must not be 0");
    if ((o->flags & DECKLE_CREATE_RESERVE) &&
        (o->pages != DECKLE_PAGES_DEFAULT || (o->flags & DECKLE_CREATE_POPULATE)))
        return refuse(DECKLE_EINVAL, p, "RESERVE maps no frames: no pages and no POPULATE with it");
    return DECKLE_OK;
}

/* What the mapping's size must be a multiple of. */
static size_t granule(const struct plan *p)
{
    size_t frame = (size_t)1 << p->o.page_shift;
    size_t page = p->o.pages == DECKLE_PAGES_2M   ? (size_t)2 << 20
                  : p->o.pages == DECKLE_PAGES_1G ? (size_t)1 << 30
                                                  : (size_t)65536; /* the largest page size */

    return frame > page ? frame : page;
}

/* Frames, bytes and alignment; every step is checked, so that no size wraps to a small one. */
static int plan_sizes(struct plan *p)
{
    const struct deckle_create_options *o = &p->o;
    uint64_t mask = (UINT64_C(1) << o->page_shift) - 1, most = SIZE_MAX / 4, bytes;
    size_t step = granule(p);

    p->frames = o->frames ? o->frames : (o->bytes >> o->page_shift) + ((o->bytes & mask) != 0);
    if (o->pages >= DECKLE_PAGES_2M && o->bytes) { /* all of the last huge page */
        uint64_t frames = step >> o->page_shift;
        p->frames = (p->frames / frames + (p->frames % frames != 0)) * frames;
    }
    if (p->frames > most >> o->page_shift)
        return refuse(DECKLE_E2BIG, p, "more memory than this machine has addresses for");
    bytes = p->frames << o->page_shift;
    p->bytes = (size_t)((bytes + step - 1) / step * step);
    if (o->max_order + o->page_shift >= sizeof(size_t) * 8 - 2)
        return refuse(DECKLE_E2BIG, p, "a block of max_order is larger than the address space");
    p->align = (size_t)1 << (o->max_order + o->page_shift);
    p->align = p->align > step ? p->align : step;
    return DECKLE_OK;
}

/* ---- ranges -------------------------------------------------------------------------------- */

/* Equal stretches of whole largest blocks for the nodes with memory; the last one has the rest. */
static void plan_ranges(struct plan *p, uint64_t first_pfn)
{
    uint64_t nodes = p->topology.memory_nodes, left = p->frames, pfn = first_pfn;
    uint64_t group = (uint64_t)p->align >> p->o.page_shift, share;
    uint32_t count = 0, nr = 0;

    for (uint64_t mask = nodes; mask; mask &= mask - 1)
        count++;
    share = (p->frames / count + group - 1) / group * group;
    for (uint32_t node = 0; node < DECKLE_MAX_NODES && left; node++) {
        if (!(nodes >> node & 1))
            continue;
        bool last = !(nodes >> node >> 1);
        uint64_t n = last || share > left ? left : share;
        p->ranges[nr++] = (struct deckle_range){.pfn = pfn, .nr = n, .node = DECKLE_NODE(node)};
        pfn += n;
        left -= n;
    }
    p->config.ranges = p->ranges;
    p->config.nr_ranges = nr;
}

static void plan_config(struct plan *p, uint64_t first_pfn)
{
    const struct deckle_create_options *o = &p->o;

    p->config = (struct deckle_config){
        .size = sizeof(p->config),
        .features = o->features,
        .page_shift = o->page_shift,
        .max_order = o->max_order,
        .nr_cpus = p->topology.nr_cpus,
        .nr_nodes = p->topology.nr_nodes,
        .dma_limit_pfn = UINT64_MAX, /* addresses of a process say nothing about devices */
        .dma32_limit_pfn = UINT64_MAX,
        .distances = p->topology.distances,
        .cpu_nodes = p->topology.cpu_nodes,
        .min_free_kbytes = o->min_free_kbytes,
        .watermark_scale_factor = o->watermark_scale_factor,
        .pcp_capacity = o->pcp_capacity,
    };
    plan_ranges(p, first_pfn);
}

/* ---- create -------------------------------------------------------------------------------- */

/* The metadata, with struct hosted in front; NULL and errno if the kernel has no room. */
static struct hosted *map_metadata(const struct hosted *frames, size_t size)
{
    size_t bytes = HOSTED_BYTES + size;
    struct hosted *h = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (h == MAP_FAILED)
        return NULL;
    *h = *frames;
    h->metadata_bytes = bytes;
    return h;
}

static int open_pool(struct plan *p, struct hosted *h, struct deckle **out)
{
    struct deckle_host host;
    int error;

    hosted_hooks(h, &host);
    hosted_annotate(h, &host);
    error = deckle_init((char *)h + HOSTED_BYTES, h->metadata_bytes - HOSTED_BYTES, &p->config,
                        &host, out);
    for (uint32_t i = 0; i < p->config.nr_ranges && !error; i++)
        error = deckle_add_range(*out, &p->ranges[i]);
    return error ? error : deckle_online(*out);
}

static void bind_ranges(const struct plan *p)
{
    for (uint32_t i = 0; i < p->config.nr_ranges; i++) {
        const struct deckle_range *r = &p->ranges[i];
        hosted_bind((void *)(uintptr_t)(r->pfn << p->o.page_shift),
                    (size_t)(r->nr << p->o.page_shift), r->node - 1);
    }
}

/* Frames are mapped already and described in *frames. */
static int create_around(struct plan *p, struct hosted *frames, struct deckle **out)
{
    struct hosted *h;
    int error;

    plan_config(p, frames->first_pfn);
    if (p->o.flags & DECKLE_CREATE_NUMA)
        bind_ranges(p);
    if ((p->o.flags & DECKLE_CREATE_POPULATE) && hosted_populate(frames))
        return refuse(DECKLE_EBACKING, p, "the kernel has no memory to populate the frames with");
    h = map_metadata(frames, deckle_metadata_size(&p->config));
    if (!h)
        return refuse(DECKLE_EBACKING, p, "no address space for the metadata");
    error = open_pool(p, h, out);
    if (!error)
        error = hosted_start_daemons(h, *out, p->topology.memory_nodes);
    if (error) {
        hosted_annotate_end(h);
        munmap(h, h->metadata_bytes);
        return refuse(error, p, deckle_strerror(error));
    }
    return DECKLE_OK;
}

/* Would a pool of this size be accepted? Asked before anything is mapped, for the lowest address
 * that the frames could get: only its alignment matters. */
static int check_plan(struct plan *p)
{
    const char *reason = NULL;
    int error;

    plan_config(p, p->align >> p->o.page_shift);
    error = deckle_config_check(&p->config, &reason);
    return error ? refuse(error, p, reason) : DECKLE_OK;
}

static int create(struct plan *p, struct deckle **out)
{
    struct hosted frames = {.magic = HOSTED_MAGIC, .page_shift = p->o.page_shift,
                            .flags = p->o.flags, .bad = p->o.bad, .leak = p->o.leak,
                            .ctx = p->o.ctx};
    int error = plan_sizes(p);

    if (p->o.pressure)
        frames.user = *p->o.pressure;

    if (error)
        return error;
    if (hosted_topology(&p->topology, p->o.flags & DECKLE_CREATE_NUMA))
        return refuse(DECKLE_ENOTSUP, p, "NUMA needs libnuma and a kernel with nodes");
    error = check_plan(p);
    if (error)
        return error;
    error = hosted_map_frames(&frames, p->bytes, p->align, (enum deckle_pages)p->o.pages);
    if (error)
        return refuse(error, p, "the kernel refused the memory of the frames");
    frames.first_pfn = (uint64_t)(uintptr_t)frames.frames >> p->o.page_shift;
    frames.nr_frames = p->frames;
    error = create_around(p, &frames, out);
    if (error) {
        int saved = errno;
        hosted_unmap_frames(&frames);
        errno = saved;
    }
    return error;
}

int deckle_create(const struct deckle_create_options *options, struct deckle **out)
{
    struct plan *p;
    int error;

    if (!out)
        return DECKLE_EINVAL;
    p = calloc(1, sizeof(*p)); /* the tables of a large machine are too much for some stacks */
    if (!p)
        return DECKLE_EBACKING;
    error = read_options(p, options);
    if (!error)
        error = create(p, out);
    free(p);
    return error;
}

/* ---- the pool's addresses and its end ------------------------------------------------------ */

uint64_t deckle_destroy(struct deckle *d)
{
    struct hosted *h;
    uint64_t frames;

    if (!d)
        return 0;
    h = hosted_of(d);
    if (h->magic != HOSTED_MAGIC)
        return 0;
    hosted_stop_daemons(h);
    if (h->file_head)
        return hosted_leave(d);
    frames = deckle_exit(d, hosted_leak);
    hosted_annotate_end(h);
    hosted_unmap_frames(h);
    h->magic = 0;
    munmap(h, h->metadata_bytes);
    return frames;
}

void *deckle_address(const struct deckle *d, uint64_t pfn)
{
    const struct hosted *h = d ? hosted_of(d) : NULL;

    return h && pfn - h->first_pfn < h->nr_frames ? hosted_address(h, pfn) : NULL;
}

int64_t deckle_pfn(const struct deckle *d, const void *address)
{
    const struct hosted *h = d ? hosted_of(d) : NULL;
    uint64_t pfn;

    if (!h)
        return DECKLE_EINVAL;
    if (h->magic != HOSTED_MAGIC)
        return DECKLE_EINVAL;
    pfn = ((uint64_t)(uintptr_t)address - (uint64_t)(uintptr_t)h->frames) >> h->page_shift;
    return pfn < h->nr_frames ? (int64_t)(h->first_pfn + pfn) : DECKLE_ENOENT;
}

void *deckle_base(const struct deckle *d, uint64_t *bytes)
{
    const struct hosted *h = d ? hosted_of(d) : NULL;

    if (bytes)
        *bytes = h ? h->nr_frames << h->page_shift : 0;
    return h ? h->frames : NULL;
}
