/* SPDX-License-Identifier: MIT */
/*
 * A pool whose metadata lies between pages without access, flush with the one behind it: touching a
 * byte outside ends the test. The memory is mapped lazily, so its resident pages say what was
 * touched.
 */
#ifndef DECKLE_TESTS_SUPPORT_GUARDED_H
#define DECKLE_TESTS_SUPPORT_GUARDED_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <deckle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct guarded {
    struct deckle *d;
    unsigned char *memory; /* of size bytes */
    size_t size;
    void *mapping;
    size_t mapped;
    unsigned reports; /* calls of the bad hook */
    struct deckle_bad_report last;
};

static inline void guarded_bad(void *ctx, const struct deckle_bad_report *report)
{
    struct guarded *g = ctx;

    g->reports++;
    g->last = *report;
}

/* size bytes, zero, with a page without access before and behind. Ends the test if that fails. */
static inline void guarded_map(struct guarded *g, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), inner = (size + page - 1) / page * page;

    memset(g, 0, sizeof(*g));
    g->mapped = inner + 2 * page;
    g->mapping =
        mmap(NULL, g->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->mapping == MAP_FAILED ||
        mprotect((char *)g->mapping + page, inner, PROT_READ | PROT_WRITE)) {
        perror("guarded memory");
        exit(2);
    }
    g->memory = (unsigned char *)g->mapping + page + (inner - size);
    g->size = size;
}

/* Metadata and deckle_init with atomic cells; no range is added. */
static inline void guarded_init(struct guarded *g, const struct deckle_config *cfg)
{
    struct deckle_host host = {.size = sizeof(host), .ctx = g};
    const char *reason = NULL;
    int error = deckle_config_check(cfg, &reason);

    host.bad = guarded_bad;
    if (!error) {
        guarded_map(g, deckle_metadata_size(cfg));
        error = deckle_init(g->memory, g->size, cfg, &host, &g->d);
    }
    if (error) {
        fprintf(stderr, "pool refused: %s%s%s\n", deckle_strerror(error), reason ? ": " : "",
                reason ? reason : "");
        exit(2);
    }
}

/* The ranges of cfg added and brought online, too. */
static inline void guarded_open(struct guarded *g, const struct deckle_config *cfg)
{
    int error = DECKLE_OK;

    guarded_init(g, cfg);
    for (uint32_t i = 0; i < cfg->nr_ranges && !error; i++)
        error = deckle_add_range(g->d, &cfg->ranges[i]);
    if (!error)
        error = deckle_online(g->d);
    if (error) {
        fprintf(stderr, "ranges refused: %s\n", deckle_strerror(error));
        exit(2);
    }
}

static inline void guarded_close(struct guarded *g)
{
    munmap(g->mapping, g->mapped);
    memset(g, 0, sizeof(*g));
}

/* Bytes of the mapping that are resident: what was read or written since it was mapped. */
static inline size_t guarded_touched(const struct guarded *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = g->mapped / page - 2, touched = 0;
    enum { STEP = 1 << 16 };
    static unsigned char there[STEP];

    for (size_t at = 0; at < pages; at += STEP) {
        size_t n = pages - at < STEP ? pages - at : STEP;
        if (mincore((char *)g->mapping + (at + 1) * page, n * page, there)) {
            perror("mincore");
            exit(2);
        }
        for (size_t i = 0; i < n; i++)
            touched += there[i] & 1;
    }
    return touched * page;
}

#endif
