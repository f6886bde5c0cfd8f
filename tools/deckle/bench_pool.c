/* SPDX-License-Identifier: MIT */
/* A pool of Deckle for a benchmark (bench_pool.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_pool.h"

#include <deckle/linux.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ui.h"

#define HUGE_PAGE (UINT64_C(2) << 20)

static void pool_bad(void *ctx, const struct deckle_bad_report *report)
{
    struct bench_pool *pool = ctx;

    pool->bad++;
    ui_error("bench: %s: frame %" PRIu64 ", order %" PRIu32, deckle_bad_name(report->what),
             report->pfn, report->order);
}

static int timed_create(struct bench_pool *pool, const struct deckle_create_options *options)
{
    struct timespec began, ended;
    int error;

    clock_gettime(CLOCK_MONOTONIC, &began);
    error = deckle_create(options, &pool->d);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    pool->create_ns =
        (double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec);
    return error;
}

int bench_pool_open(struct bench_pool *pool, uint64_t bytes, uint32_t features,
                    enum bench_backing backing)
{
    static const struct deckle_create_options nothing;

    return bench_pool_open_with(pool, bytes, features, backing, &nothing);
}

int bench_pool_open_with(struct bench_pool *pool, uint64_t bytes, uint32_t features,
                         enum bench_backing backing, const struct deckle_create_options *more)
{
    static const uint32_t flags[] = {[BENCH_BACKING_NONE] = DECKLE_CREATE_RESERVE,
                                     [BENCH_BACKING_4K] = DECKLE_CREATE_POPULATE,
                                     [BENCH_BACKING_2M] = DECKLE_CREATE_POPULATE};
    static const uint32_t pages[] = {[BENCH_BACKING_NONE] = DECKLE_PAGES_DEFAULT,
                                     [BENCH_BACKING_4K] = DECKLE_PAGES_SMALL,
                                     [BENCH_BACKING_2M] = DECKLE_PAGES_THP};
    struct deckle_stat stat = {.size = sizeof(stat)};
    const char *reason = NULL;
    struct deckle_create_options options = {.size = sizeof(options),
                                            .flags = flags[backing],
                                            .bytes = bytes,
                                            .page_shift = BENCH_PAGE_SHIFT,
                                            .features = features,
                                            .pages = pages[backing],
                                            .max_order = more->max_order,
                                            .min_free_kbytes = more->min_free_kbytes,
                                            .pcp_capacity = more->pcp_capacity,
                                            .bad = pool_bad,
                                            .ctx = pool,
                                            .reason = &reason};
    char size[UI_NUMBER];
    int error;

    memset(pool, 0, sizeof(*pool));
    error = timed_create(pool, &options);
    if (error != DECKLE_OK) {
        ui_error("bench: cannot make a pool of %s: %s%s%s", ui_bytes(size, bytes),
                 reason != NULL ? reason : deckle_strerror(error),
                 error == DECKLE_EBACKING ? ": " : "",
                 error == DECKLE_EBACKING ? strerror(errno) : "");
        return error == DECKLE_EBACKING ? UI_MISSING : UI_FAULT;
    }
    pool->first_pfn = (uint64_t)deckle_pfn(pool->d, deckle_base(pool->d, NULL));
    if (backing != BENCH_BACKING_NONE)
        pool->memory = deckle_base(pool->d, NULL);
    deckle_get_stat(pool->d, &stat);
    pool->metadata_bytes = stat.metadata_bytes;
    return UI_OK;
}

int bench_pool_close(struct bench_pool *pool, const char *name)
{
    char text[256];
    uint64_t left;
    int status = UI_OK;

    if (pool->d == NULL)
        return UI_OK;
    if (deckle_validate(pool->d, text, sizeof(text)) != DECKLE_OK) {
        ui_error("bench: %s: the metadata is wrong: %s", name, text);
        status = UI_FAULT;
    }
    left = deckle_destroy(pool->d);
    if (left > 0 || pool->bad > 0) {
        ui_error("bench: %s: %" PRIu64 " frames left over, %" PRIu64 " bad frees", name, left,
                 pool->bad);
        status = UI_FAULT;
    }
    pool->d = NULL;
    return status;
}

uint64_t bench_pool_touched(const struct bench_pool *pool)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t offset = (uintptr_t)pool->d % page; /* the handle is where the metadata begins */
    size_t bytes = (size_t)pool->metadata_bytes + offset, nr = (bytes + page - 1) / page;
    unsigned char *resident = calloc(nr, 1);
    uint64_t touched = 0;

    if (resident == NULL)
        return 0;
    if (mincore((char *)pool->d - offset, bytes, resident) == 0)
        for (size_t i = 0; i < nr; i++)
            touched += (resident[i] & 1) != 0 ? page : 0;
    free(resident);
    return touched;
}

char *bench_map(size_t bytes, enum bench_backing backing)
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
    if (at + room > aligned + bytes)
        munmap(aligned + bytes, (size_t)(at + room - (aligned + bytes)));
    madvise(aligned, bytes, backing == BENCH_BACKING_2M ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(aligned, 1, bytes);
    return aligned;
}
