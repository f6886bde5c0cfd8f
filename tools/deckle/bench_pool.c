/* SPDX-License-Identifier: MIT */
/* A pool of Deckle for a benchmark (bench_pool.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench_rseq.h"
#include "ui.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

/* ---- the host's hooks ------------------------------------------------------------------------ */

static uint32_t pool_cpu(void *ctx)
{
    int cpu = sched_getcpu();

    (void)ctx;
    return cpu < 0 ? UINT32_MAX : (uint32_t)cpu;
}

static void *pool_map(void *ctx, uint64_t pfn)
{
    const struct bench_pool *pool = ctx;

    return pool->memory + ((pfn - pool->first_pfn) << BENCH_PAGE_SHIFT);
}

static void pool_bad(void *ctx, const struct deckle_bad_report *report)
{
    struct bench_pool *pool = ctx;

    pool->bad++;
    ui_error("bench: %s: frame %" PRIu64 ", order %" PRIu32, deckle_bad_name(report->what),
             report->pfn, report->order);
}

#if BENCH_HAVE_RSEQ

static int membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

static int pool_membarrier(void *ctx)
{
    (void)ctx;
    return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
}

static void use_rseq(struct deckle_host *host)
{
    if (__rseq_size == 0 || membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) != 0)
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

/* ---- memory ---------------------------------------------------------------------------------- */

char *bench_pool_map(size_t bytes, enum bench_backing backing)
{
    size_t room = bytes + HUGE_PAGE;
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    char *aligned;

    if (at == MAP_FAILED)
        return NULL;
    aligned = at + (-(uintptr_t)at & (HUGE_PAGE - 1));
    if (aligned > at)
        munmap(at, (size_t)(aligned - at));
    munmap(aligned + bytes, (size_t)(at + room - (aligned + bytes)));
    if (backing != BENCH_BACKING_NONE) {
        madvise(aligned, bytes, backing == BENCH_BACKING_2M ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        memset(aligned, 1, bytes);
    }
    return aligned;
}

static int pool_failed(const char *what, int error)
{
    ui_error("bench: cannot make a pool: %s: %s", what, deckle_strerror(error));
    return error == DECKLE_ENOTSUP ? UI_MISSING : UI_FAULT;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int pool_init(struct bench_pool *pool, const struct deckle_config *cfg)
{
    struct deckle_host host = {.size = sizeof(host),
                               .ctx = pool,
                               .cpu = pool_cpu,
                               .map = pool->memory != NULL ? pool_map : NULL,
                               .bad = pool_bad};
    const char *reason = "configuration";
    struct timespec began, ended;
    int error = deckle_config_check(cfg, &reason);

    if (error != DECKLE_OK)
        return pool_failed(reason, error);
    pool->metadata_bytes = deckle_metadata_size(cfg);
    pool->metadata = bench_pool_map(pool->metadata_bytes, BENCH_BACKING_NONE);
    if (pool->metadata == NULL) {
        ui_error("bench: cannot map %zu bytes of metadata: %s", pool->metadata_bytes,
                 strerror(errno));
        return UI_MISSING;
    }
    use_rseq(&host);
    clock_gettime(CLOCK_MONOTONIC, &began);
    error = deckle_init(pool->metadata, pool->metadata_bytes, cfg, &host, &pool->d);
    if (error != DECKLE_OK)
        return pool_failed("deckle_init", error);
    error = deckle_add_range(pool->d, cfg->ranges);
    if (error != DECKLE_OK)
        return pool_failed("deckle_add_range", error);
    error = deckle_online(pool->d);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    pool->create_ns =
        (double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec);
    return error == DECKLE_OK ? 0 : pool_failed("deckle_online", error);
}

int bench_pool_open(struct bench_pool *pool, uint64_t bytes, uint32_t features, unsigned nr_cpus,
                    enum bench_backing backing)
{
    struct deckle_range range = {.pfn = BENCH_FIRST_PFN, .nr = bytes >> BENCH_PAGE_SHIFT};
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = features,
                                .page_shift = BENCH_PAGE_SHIFT,
                                .nr_cpus = nr_cpus,
                                .ranges = &range,
                                .nr_ranges = 1};
    int status;

    memset(pool, 0, sizeof(*pool));
    pool->first_pfn = BENCH_FIRST_PFN;
    if (backing != BENCH_BACKING_NONE) {
        pool->memory_bytes = (size_t)bytes;
        pool->memory = bench_pool_map(pool->memory_bytes, backing);
        if (pool->memory == NULL) {
            ui_error("bench: cannot map %zu bytes: %s", pool->memory_bytes, strerror(errno));
            return UI_MISSING;
        }
    }
    status = pool_init(pool, &cfg);
    if (status != 0)
        bench_pool_drop(pool);
    return status;
}

int bench_pool_close(struct bench_pool *pool, const char *name)
{
    char text[256];
    int status = 0;

    if (pool->d != NULL) {
        uint64_t left;

        if (deckle_validate(pool->d, text, sizeof(text)) != DECKLE_OK) {
            ui_error("bench: %s: the metadata is wrong: %s", name, text);
            status = UI_FAULT;
        }
        left = deckle_exit(pool->d, NULL);
        if (left > 0 || pool->bad > 0) {
            ui_error("bench: %s: %" PRIu64 " frames left over, %" PRIu64 " bad frees", name, left,
                     pool->bad);
            status = UI_FAULT;
        }
    }
    bench_pool_drop(pool);
    return status;
}

void bench_pool_drop(struct bench_pool *pool)
{
    if (pool->metadata != NULL)
        munmap(pool->metadata, pool->metadata_bytes);
    if (pool->memory != NULL)
        munmap(pool->memory, pool->memory_bytes);
    memset(pool, 0, sizeof(*pool));
}

uint64_t bench_pool_touched(const struct bench_pool *pool)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), nr = (pool->metadata_bytes + page - 1) / page;
    unsigned char *resident = calloc(nr, 1);
    uint64_t touched = 0;

    if (resident == NULL)
        return 0;
    if (mincore(pool->metadata, pool->metadata_bytes, resident) == 0)
        for (size_t i = 0; i < nr; i++)
            touched += resident[i] & 1 ? page : 0;
    free(resident);
    return touched;
}
