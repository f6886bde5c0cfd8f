/* SPDX-License-Identifier: MIT */
/*
 * What the tests of hazards need of a pool: any features, frames that may be mapped, a bad hook
 * that keeps the last report, and short forms of what every test does at its end.
 */
#ifndef DECKLE_TESTS_SUPPORT_HAZARD_H
#define DECKLE_TESTS_SUPPORT_HAZARD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pool.h"
#include "testing.h"

#define GFP_U DECKLE_GFP_KERNEL
#define GFP_M DECKLE_GFP_HIGHUSER_MOVABLE
#define GFP_R (DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE)

struct hazard_pool {
    struct test_pool p; /* first: the hooks of pool.h take it for their context */
    struct deckle *d;
    unsigned char *ram; /* frame 0 of the pool, NULL = cannot be mapped */
    uint64_t ram_pfn;
};

static inline void *hazard_map(void *ctx, uint64_t pfn)
{
    struct hazard_pool *h = ctx;
    return h->ram + ((pfn - h->ram_pfn) << deckle_page_shift(h->d));
}

/* Zone limits, marks and CPUs that a test does not name: one zone, no marks, two CPUs. */
static inline struct deckle_config hazard_config(const struct deckle_range *ranges, uint32_t nr)
{
    return (struct deckle_config){.size = sizeof(struct deckle_config),
                                  .nr_cpus = 2,
                                  .ranges = ranges,
                                  .nr_ranges = nr,
                                  .min_free_kbytes = UINT64_MAX,
                                  .dma_limit_pfn = UINT64_MAX,
                                  .dma32_limit_pfn = UINT64_MAX};
}

static inline void hazard_open(struct hazard_pool *h, const struct deckle_config *cfg, bool mapped)
{
    struct deckle_host host = {
        .size = sizeof(host), .ctx = h, .cpu = test_pool_cpu, .bad = test_pool_bad};
    memset(h, 0, sizeof(*h));
    if (mapped) {
        unsigned shift = cfg->page_shift ? cfg->page_shift : 12;
        host.map = hazard_map;
        h->ram_pfn = cfg->ranges[0].pfn;
        h->ram = malloc((size_t)cfg->ranges[0].nr << shift);
        assert_non_null(h->ram);
    }
    h->p.size = (deckle_metadata_size(cfg) + 4095) & ~(size_t)4095;
    assert_true(h->p.size > 0);
    h->p.memory = aligned_alloc(4096, h->p.size);
    assert_non_null(h->p.memory);
    memset(h->p.memory, 0, h->p.size);
    assert_int_equal(deckle_init(h->p.memory, h->p.size, cfg, &host, &h->d), DECKLE_OK);
    h->p.d = h->d;
    for (uint32_t i = 0; i < cfg->nr_ranges; i++)
        assert_int_equal(deckle_add_range(h->d, &cfg->ranges[i]), DECKLE_OK);
    assert_int_equal(deckle_online(h->d), DECKLE_OK);
}

/* One range [pfn, pfn + nr) with these features. */
static inline void hazard_open_simple(struct hazard_pool *h, uint64_t pfn, uint64_t nr,
                                      uint32_t features, bool mapped)
{
    struct deckle_range range = {.pfn = pfn, .nr = nr};
    struct deckle_config cfg = hazard_config(&range, 1);
    cfg.features = features;
    hazard_open(h, &cfg, mapped);
}

static inline void hazard_valid(struct hazard_pool *h)
{
    char text[512] = "";
    if (deckle_validate(h->d, text, sizeof(text)))
        fail_msg("%s", text);
}

static inline void hazard_close(struct hazard_pool *h)
{
    hazard_valid(h);
    free(h->p.memory);
    free(h->ram);
    memset(h, 0, sizeof(*h));
}

static inline struct deckle_zone_stat hazard_zone(struct hazard_pool *h, uint32_t zone)
{
    struct deckle_zone_stat z = {.size = sizeof(z)};
    assert_int_equal(deckle_get_zone_stat(h->d, zone, &z), DECKLE_OK);
    return z;
}

/* Free frames of all zones, caches not included. */
static inline uint64_t hazard_free_frames(struct hazard_pool *h)
{
    struct deckle_stat s = {.size = sizeof(s)};
    uint64_t sum = 0;
    assert_int_equal(deckle_get_stat(h->d, &s), DECKLE_OK);
    for (uint32_t z = 0; z < s.nr_zones; z++)
        sum += hazard_zone(h, z).free;
    return sum;
}

static inline uint64_t hazard_alloc(struct hazard_pool *h, uint32_t gfp, uint32_t order)
{
    int64_t pfn = deckle_alloc(h->d, gfp, order);
    if (pfn < 0)
        fail_msg("order %u with gfp 0x%x: %s", order, gfp, deckle_error_name((int)pfn));
    return (uint64_t)pfn;
}

/* The free was refused, the pool says why, and nothing changed. */
static inline void hazard_refused(struct hazard_pool *h, int error, enum deckle_bad what)
{
    assert_int_equal(error, DECKLE_EBADFREE);
    assert_int_equal(h->p.reports, 1);
    assert_int_equal(h->p.last.what, what);
    h->p.reports = 0;
}

#endif
