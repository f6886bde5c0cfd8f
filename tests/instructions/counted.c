/* SPDX-License-Identifier: MIT */
/*
 * What tests/instructions/run counts the instructions of: calls
 * of the library in well-defined situations, each after some that warmed it up. One thread, on
 * what the pool takes for CPU 0. Only what happens inside the library's calls is collected, so that
 * the loops here do not matter.
 *
 * Valgrind knows no restartable sequences, and none is needed here: the pool is given a struct rseq
 * of this program's, in which the kernel never looks. As nothing else runs, no sequence has to be
 * interrupted, and membarrier has nothing to do.
 */
#include <deckle.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#define HAVE_CALLGRIND
#endif
#endif

#ifdef HAVE_CALLGRIND

#define FIRST_PFN UINT64_C(0x100000)
#define FRAMES    (UINT64_C(1) << 18) /* 1 GiB */
#define PAIRS     1000u
#define BATCH     16384u /* far above what a cache holds */
#define BULK      64u
#define BULKS     100u

/* ---- a host that has rseq -------------------------------------------------------------------- */

struct rseq_area {
    uint32_t cpu_id_start, cpu_id;
    uint64_t rseq_cs;
    uint64_t rest[2];
};
static _Thread_local struct rseq_area rseq_area __attribute__((aligned(32)));

static int64_t rseq_offset(void)
{
    uintptr_t self = 0;

#if defined(__x86_64__)
    __asm__("movq %%fs:0, %0" : "=r"(self));
#elif defined(__aarch64__)
    __asm__("mrs %0, tpidr_el0" : "=r"(self));
#endif
    return (int64_t)((uintptr_t)&rseq_area - self);
}

static int membarrier(void *ctx)
{
    (void)ctx;
    return 0;
}

static struct deckle *make_pool(uint32_t features)
{
    struct deckle_range range = {.pfn = FIRST_PFN, .nr = FRAMES};
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = features,
                                .nr_cpus = 1,
                                .ranges = &range,
                                .nr_ranges = 1,
                                .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = UINT64_MAX};
    struct deckle_host host = {.size = sizeof(host),
                               .membarrier = membarrier,
                               .rseq_offset = rseq_offset(),
                               .rseq_usable = 1};
    size_t size = deckle_metadata_size(&cfg);
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    struct deckle *d = NULL;

    if (memory != NULL)
        for (size_t i = 0; i < size; i++)
            ((volatile char *)memory)[i] = 0;
    if (memory == NULL || deckle_init(memory, size, &cfg, &host, &d) != 0 ||
        deckle_add_range(d, &range) != 0 || deckle_online(d) != 0) {
        fprintf(stderr, "counted: cannot make a pool\n");
        exit(3);
    }
    return d;
}

/* ---- what is counted ------------------------------------------------------------------------- */

static uint64_t pfns[BATCH];

static void stop(const char *what, int64_t result)
{
    fprintf(stderr, "counted: %s: %s\n", what, deckle_strerror((int)result));
    exit(1);
}

static void pairs(struct deckle *d, uint32_t gfp, uint32_t order)
{
    for (unsigned i = 0; i < PAIRS; i++) {
        int64_t pfn = deckle_alloc(d, gfp, order);

        if (pfn < 0)
            stop("a pair", pfn);
        deckle_free(d, (uint64_t)pfn, order);
    }
}

static void take(struct deckle *d, uint32_t order, unsigned nr)
{
    for (unsigned i = 0; i < nr; i++) {
        int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, order);

        if (pfn < 0)
            stop("a batch", pfn);
        pfns[i] = (uint64_t)pfn;
    }
}

static void give(struct deckle *d, uint32_t order, unsigned nr)
{
    for (unsigned i = 0; i < nr; i++)
        deckle_free(d, pfns[i], order);
}

static void bulks(struct deckle *d)
{
    for (unsigned round = 0; round < BULKS; round++) {
        for (unsigned i = 0; i < BULK; i++)
            pfns[i] = DECKLE_NO_PFN;
        if (deckle_alloc_bulk(d, DECKLE_GFP_KERNEL, pfns, BULK) != BULK)
            stop("a bulk request", DECKLE_ENOMEM);
        deckle_free_bulk(d, pfns, BULK);
    }
}

/* Pieces of four frames are all that is free. */
static void failures(struct deckle *d)
{
    for (unsigned i = 0; i < PAIRS; i++)
        if (deckle_alloc(d, DECKLE_GFP_KERNEL, 3) >= 0)
            stop("a request that should fail", DECKLE_OK);
}

/* Callgrind writes what it has collected since the last time, under this name. */
#define COUNT(name_and_calls, statement)                                                           \
    do {                                                                                           \
        CALLGRIND_DUMP_STATS_AT("-");                                                              \
        statement;                                                                                 \
        CALLGRIND_DUMP_STATS_AT(name_and_calls);                                                   \
    } while (0)

static void fail_order3(void)
{
    struct deckle *d = make_pool(0);

    while (deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_MEMALLOC, 2) >= 0)
        continue;
    for (uint64_t pfn = FIRST_PFN; pfn < FIRST_PFN + FRAMES; pfn += 8)
        deckle_free(d, pfn, 2);
    deckle_drain_all(d);
    COUNT("failure 1000", failures(d));
}

int main(void)
{
    struct deckle *d = make_pool(0), *cells = make_pool(DECKLE_FEATURE_CELLS);

    if (deckle_cache_kind(d)[0] != 'r') {
        fprintf(stderr, "counted: no restartable sequences in this build\n");
        return 3;
    }
    pairs(d, DECKLE_GFP_KERNEL, 0);
    pairs(d, DECKLE_GFP_HIGHUSER_MOVABLE, 0);
    pairs(d, DECKLE_GFP_KERNEL, 3);
    pairs(d, DECKLE_GFP_KERNEL, 10);
    pairs(cells, DECKLE_GFP_KERNEL, 0);
    COUNT("pair_order0 1000", pairs(d, DECKLE_GFP_KERNEL, 0));
    COUNT("pair_movable 1000", pairs(d, DECKLE_GFP_HIGHUSER_MOVABLE, 0));
    COUNT("pair_order3 1000", pairs(d, DECKLE_GFP_KERNEL, 3));
    COUNT("pair_order10 1000", pairs(d, DECKLE_GFP_KERNEL, 10));
    COUNT("pair_compound 1000", pairs(d, DECKLE_GFP_KERNEL | DECKLE_GFP_COMP, 0));
    COUNT("pair_cells 1000", pairs(cells, DECKLE_GFP_KERNEL, 0));
    for (unsigned i = 0; i < 4; i++) { /* lists have grown to their size after that */
        take(d, 0, BATCH), give(d, 0, BATCH);
        take(d, 3, BATCH), give(d, 3, BATCH);
        take(cells, 0, BATCH), give(cells, 0, BATCH);
    }
    COUNT("batch_order0 16384", (take(d, 0, BATCH), give(d, 0, BATCH)));
    COUNT("batch_order3 16384", (take(d, 3, BATCH), give(d, 3, BATCH)));
    COUNT("batch_cells 16384", (take(cells, 0, BATCH), give(cells, 0, BATCH)));
    COUNT("bulk_64 6400", bulks(d));
    fail_order3();
    return 0;
}

#else /* !HAVE_CALLGRIND */

int main(void)
{
    puts("skipped: built without valgrind/callgrind.h");
    return 77;
}

#endif
