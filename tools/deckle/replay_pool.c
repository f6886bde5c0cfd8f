/* SPDX-License-Identifier: MIT */
/*
 * The pool of a replay. Its frames need no memory: Deckle never touches them, so they are numbers
 * from FIRST_PFN on, above all zone limits: one zone Normal a node. Only with --zero they are
 * mapped.
 *
 * Size. Managed is 1.1 times the peak and what the zones keep from ordinary requests: the high mark
 * of each, and its lowmem_reserve. Those depend on how much is managed, so a pool is made, asked
 * and made again until the number stays (the reserves grow slower than the memory, so it does).
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "replay.h"
#include "ui.h"

#define PAGE_SHIFT   12u
#define FIRST_PFN    (UINT64_C(1) << 24) /* 64 GiB: a multiple of every block */
#define LEAST_FRAMES UINT64_C(4096)
#define REPORTS      5u                  /* bad frees that are printed */
#define MOST_TRIES   16u                 /* until the size stays */
#define MOST_FRAMES  (UINT64_C(1) << 31) /* 8 TiB: metadata of 2.5 GiB */

/* --- hooks ----------------------------------------------------------------------------------- */

static uint32_t pool_cpu(void *ctx)
{
    int cpu = sched_getcpu();

    (void)ctx;
    return cpu < 0 ? UINT32_MAX : (uint32_t)cpu;
}

static void *pool_map(void *ctx, uint64_t pfn)
{
    const struct replay_pool *pool = ctx;

    return pool->memory + ((pfn - pool->first_pfn) << PAGE_SHIFT);
}

static void pool_bad(void *ctx, const struct deckle_bad_report *report)
{
    struct replay_pool *pool = ctx;

    if (atomic_fetch_add(&pool->bad, 1) < REPORTS)
        ui_error("replay: %s: frame 0x%" PRIx64 ", order %" PRIu32 ", state 0x%" PRIx32,
                 deckle_bad_name(report->what), report->pfn, report->order, report->state);
}

#if (defined(__x86_64__) || defined(__aarch64__)) && defined(SYS_membarrier)

/* glibc 2.35 and later; weak, so that the command runs with any other. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

enum { EXPEDITED_RSEQ = 1 << 7, REGISTER_EXPEDITED_RSEQ = 1 << 8 };

static int pool_membarrier(void *ctx)
{
    (void)ctx;
    return (int)syscall(SYS_membarrier, EXPEDITED_RSEQ, 0, 0);
}

static void use_rseq(struct deckle_host *host)
{
    if (&__rseq_size == NULL || &__rseq_offset == NULL || __rseq_size == 0 ||
        syscall(SYS_membarrier, REGISTER_EXPEDITED_RSEQ, 0, 0) != 0)
        return;
    host->membarrier = pool_membarrier;
    host->rseq_offset = __rseq_offset;
    host->rseq_usable = 1;
}

#else

static void use_rseq(struct deckle_host *host)
{
    (void)host;
}

#endif

/* --- CPUs ------------------------------------------------------------------------------------ */

/* The CPUs this process may use, as many as there are threads; the pool's CPU ids end with the
 * last. */
static bool choose_cpus(struct replay_pool *pool, uint32_t nr_threads)
{
    cpu_set_t allowed;
    uint32_t most = nr_threads < CPU_SETSIZE ? nr_threads : CPU_SETSIZE;

    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) == 0)
        CPU_SET(0, &allowed);
    pool->cpus = calloc(most, sizeof(*pool->cpus));
    pool->cpu_nodes = calloc(CPU_SETSIZE, sizeof(*pool->cpu_nodes));
    if (pool->cpus == NULL || pool->cpu_nodes == NULL)
        return false;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE && pool->nr_cpus < most; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        pool->cpu_nodes[cpu] = (uint8_t)(pool->nr_cpus % pool->nodes);
        pool->cpus[pool->nr_cpus++] = cpu;
        pool->nr_cpu_ids = cpu + 1;
    }
    return true;
}

/* --- one pool -------------------------------------------------------------------------------- */

static void drop(struct replay_pool *pool)
{
    if (pool->d != NULL)
        deckle_exit(pool->d, NULL);
    pool->d = NULL;
    if (pool->metadata != NULL)
        munmap(pool->metadata, pool->metadata_bytes);
    pool->metadata = NULL;
    if (pool->memory != NULL)
        munmap(pool->memory, pool->memory_bytes);
    pool->memory = NULL;
}

static int cannot(const char *what, const char *why)
{
    ui_error("replay: no pool: %s: %s", what, why);
    return UI_MISSING;
}

static uint64_t share_of(const struct replay_pool *pool, uint32_t node)
{
    return pool->managed / pool->nodes + (node < pool->managed % pool->nodes);
}

static void set_ranges(struct replay_pool *pool, struct deckle_range *ranges)
{
    uint64_t block = UINT64_C(1) << pool->max_order;

    pool->first_pfn = FIRST_PFN;
    /* A block of the largest order between two nodes, so that nothing spans them. */
    pool->stride = (share_of(pool, 0) / block + 2) * block;
    pool->span = pool->nodes * pool->stride;
    for (uint32_t n = 0; n < pool->nodes; n++)
        ranges[n] = (struct deckle_range){.pfn = pool->first_pfn + n * pool->stride,
                                          .nr = share_of(pool, n),
                                          .node = DECKLE_NODE(n)};
}

static int map_metadata(struct replay_pool *pool, const struct deckle_config *cfg)
{
    const char *reason = "";
    int error = deckle_config_check(cfg, &reason);

    if (error != DECKLE_OK)
        return cannot("configuration", reason);
    pool->metadata_bytes = deckle_metadata_size(cfg);
    pool->metadata = mmap(NULL, pool->metadata_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool->metadata != MAP_FAILED)
        return UI_OK;
    pool->metadata = NULL;
    return cannot("metadata", strerror(errno));
}

static int make(struct replay_pool *pool, const struct replay_options *options)
{
    struct deckle_host host = {.size = sizeof(host), .ctx = pool, .cpu = pool_cpu, .bad = pool_bad};
    struct deckle_range ranges[DECKLE_MAX_NODES];
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = options->cells ? DECKLE_FEATURE_CELLS : 0,
                                .page_shift = PAGE_SHIFT,
                                .max_order = pool->max_order,
                                .nr_cpus = pool->nr_cpu_ids,
                                .nr_nodes = pool->nodes,
                                .ranges = ranges,
                                .nr_ranges = pool->nodes,
                                .cpu_nodes = pool->cpu_nodes};
    struct deckle_stat stat = {.size = sizeof(stat)};
    int error, status;

    set_ranges(pool, ranges);
    status = map_metadata(pool, &cfg);
    if (status != UI_OK)
        return status;
    host.map = options->zero ? pool_map : NULL;
    if (!options->cells)
        use_rseq(&host);
    error = deckle_init(pool->metadata, pool->metadata_bytes, &cfg, &host, &pool->d);
    for (uint32_t n = 0; error == DECKLE_OK && n < pool->nodes; n++)
        error = deckle_add_range(pool->d, &ranges[n]);
    if (error == DECKLE_OK)
        error = deckle_online(pool->d);
    if (error == DECKLE_OK)
        error = deckle_get_stat(pool->d, &stat);
    pool->nr_zones = stat.nr_zones;
    return error == DECKLE_OK ? UI_OK : cannot("making it", deckle_strerror(error));
}

/* Frames that no ordinary request gets. */
static uint64_t reserves_of(const struct replay_pool *pool)
{
    struct deckle_zone_stat z = {.size = sizeof(z)};
    uint64_t sum = 0;

    for (uint32_t i = 0; i < pool->nr_zones; i++)
        if (deckle_get_zone_stat(pool->d, i, &z) == DECKLE_OK)
            sum += z.high + z.lowmem_reserve[DECKLE_NR_ZONE_TYPES - 1];
    return sum;
}

/*
 * 1.1 times the peak and the reserves. At least LEAST_FRAMES in all and two of the largest blocks a
 * node: in less than that a large block may find no place, however little is live, because CPUs and
 * migratetypes keep to pageblocks of their own.
 */
static uint64_t frames_wanted(const struct replay_pool *pool, uint64_t peak_frames)
{
    uint64_t frames = (peak_frames * 11 + 9) / 10 + pool->reserves;
    uint64_t least = pool->least_frames * pool->nodes;

    if (least < LEAST_FRAMES)
        least = LEAST_FRAMES;
    return frames > least ? frames : least;
}

static int size_and_make(struct replay_pool *pool, const struct replay_options *options,
                         uint64_t peak_frames)
{
    pool->managed = options->size_bytes > 0 ? options->size_bytes >> PAGE_SHIFT
                                            : frames_wanted(pool, peak_frames);
    for (unsigned int i = 0;; i++) {
        uint64_t wanted;
        int status;

        if (pool->managed > MOST_FRAMES || pool->managed < pool->nodes) {
            ui_error("replay: a pool of %" PRIu64 " frames: want %" PRIu32 " to %" PRIu64,
                     pool->managed, pool->nodes, MOST_FRAMES);
            return UI_BAD_INPUT;
        }
        status = make(pool, options);
        if (status != UI_OK)
            return status;
        pool->reserves = reserves_of(pool);
        wanted = frames_wanted(pool, peak_frames);
        /* Should it swing by a frame, the larger one is kept. */
        if (options->size_bytes > 0 || wanted == pool->managed ||
            (i >= MOST_TRIES && wanted < pool->managed))
            return UI_OK;
        pool->managed = wanted;
        drop(pool);
    }
}

/* The memory of the frames, touched, so that zeroing does not measure the kernel's page faults. */
static int map_memory(struct replay_pool *pool)
{
    pool->memory_bytes = (size_t)pool->span << PAGE_SHIFT;
    pool->memory = mmap(NULL, pool->memory_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool->memory == MAP_FAILED) {
        pool->memory = NULL;
        return cannot("memory of its frames", strerror(errno));
    }
    for (uint32_t n = 0; n < pool->nodes; n++)
        memset(pool->memory + ((n * pool->stride) << PAGE_SHIFT), 0xa5,
               share_of(pool, n) << PAGE_SHIFT);
    return UI_OK;
}

int replay_pool_open(struct replay_pool *pool, const struct replay_options *options,
                     uint64_t peak_frames, uint32_t max_order, uint32_t nr_threads)
{
    int status;

    memset(pool, 0, sizeof(*pool));
    pool->nodes = options->nodes;
    pool->max_order = max_order > DECKLE_DEFAULT_MAX_ORDER ? max_order : DECKLE_DEFAULT_MAX_ORDER;
    pool->least_frames =
        UINT64_C(2) << (max_order > DECKLE_PAGEBLOCK_ORDER ? max_order : DECKLE_PAGEBLOCK_ORDER);
    if (!choose_cpus(pool, nr_threads > 0 ? nr_threads : 1))
        status = cannot("CPUs", "not enough memory");
    else
        status = size_and_make(pool, options, peak_frames);
    if (status == UI_OK && options->zero)
        status = map_memory(pool);
    if (status != UI_OK)
        replay_pool_close(pool);
    return status;
}

void replay_pool_close(struct replay_pool *pool)
{
    drop(pool);
    free(pool->cpus);
    free(pool->cpu_nodes);
    pool->cpus = NULL;
    pool->cpu_nodes = NULL;
}

/* --- figures --------------------------------------------------------------------------------- */

void replay_pool_zones(const struct replay_pool *pool, struct replay_zones *sum)
{
    struct deckle_zone_stat z;

    memset(sum, 0, sizeof(*sum));
    for (uint32_t i = 0; i < pool->nr_zones; i++) {
        memset(&z, 0, sizeof(z));
        z.size = sizeof(z);
        if (deckle_get_zone_stat(pool->d, i, &z) != DECKLE_OK)
            continue;
        sum->free += z.free;
        sum->cached += z.cached;
        sum->managed += z.managed;
        sum->high += z.high;
        sum->refills += z.refills;
        sum->refill_frames += z.refill_frames;
        sum->drains += z.drains;
        sum->drain_frames += z.drain_frames;
        sum->claims += z.fallback_claims;
        sum->steals += z.fallback_steals;
        for (uint32_t o = 0; o < REPLAY_NR_ORDERS; o++)
            sum->blocks[o] += z.free_blocks[o];
    }
}
