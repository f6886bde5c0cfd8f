/* SPDX-License-Identifier: MIT */
/*
 * Statistics against a model that counts every call: allocations and frees by order, NUMA counters,
 * free blocks from a bitmap of its own, and the identities of docs/formats/stat.md.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <pthread.h>
#include <cmocka.h>

#include "core/stats.h"
#include "core/walk.h"
#include "pool.h"
#include "testing.h"

#define MAX_ORDER 11u
#define MAX_LIVE  4096u

/* ---- runs in a line, and the walk ---------------------------------------------------------- */

static void test_line_next(void **state)
{
    uint64_t seed = test_seed();
    dk_aword line[DK_LINE_WORDS];

    (void)state;
    for (uint64_t round = 0; round < test_effort(300); round++) {
        bool used[DK_BLOCK_FRAMES];
        unsigned density = (unsigned)test_random_below(&seed, 101);

        memset(line, 0, sizeof(line));
        for (unsigned f = 0; f < DK_BLOCK_FRAMES; f++) {
            used[f] = test_random_below(&seed, 100) < density;
            if (used[f])
                dk_or(&line[f / DK_WORD_BITS], (dk_word)1 << f % DK_WORD_BITS);
        }
        for (unsigned want = 0; want < 2; want++) {
            unsigned next = DK_BLOCK_FRAMES;

            assert_int_equal(dk_line_next(line, DK_BLOCK_FRAMES, want), DK_BLOCK_FRAMES);
            for (unsigned f = DK_BLOCK_FRAMES; f-- > 0;) {
                next = used[f] == (bool)want ? f : next;
                assert_int_equal(dk_line_next(line, f, want), next);
            }
        }
    }
}

/* ---- a pool and what is known of it -------------------------------------------------------- */

#define NR_RANGES 4u
#define NR_ZONES  3u /* DMA32 and Normal of node 0, Normal of node 1 */

/* Node 0 has DMA32 and Normal; node 1 has Normal with a hole, a reservation and odd ends; node 2
 * has no memory and is nearer to node 1. CPUs 0 and 1 are on node 0, 2 on node 1, 3 on node 2. */
static const struct deckle_range ranges[NR_RANGES] = {
    {.pfn = 0x0f0000, .nr = 0x4000, .node = DECKLE_NODE(0)},
    {.pfn = 0x100000, .nr = 0x4000, .node = DECKLE_NODE(0)},
    {.pfn = 0x200403, .nr = 0x3a11, .node = DECKLE_NODE(1)},
    {.pfn = 0x204000, .nr = 0x2000, .node = DECKLE_NODE(1)},
};
static const uint32_t range_zone[NR_RANGES] = {0, 1, 2, 2};
static const uint32_t nearest_normal[] = {1, 2,
                                          2}; /* zone that a request of the node begins with */
static const uint8_t cpu_nodes[] = {0, 0, 1, 2};
static const uint8_t distances[] = {10, 20, 30, 20, 10, 20, 30, 20, 10};
#define RESERVED_PFN 0x201234u
#define RESERVED_NR  77u

struct live {
    uint64_t pfn;
    uint32_t order;
};

struct model {
    struct test_pool pool;
    struct live live[MAX_LIVE];
    unsigned nr_live;
    uint64_t live_frames[NR_ZONES];
    uint64_t allocs[NR_ZONES][DK_NR_ORDERS], frees[NR_ZONES][DK_NR_ORDERS];
    struct dk_numa_stat numa[NR_ZONES];
    uint64_t failures[32];
};

static void open_model(struct model *m, uint32_t features)
{
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = features,
                                .nr_cpus = 4,
                                .nr_nodes = 3,
                                .max_order = MAX_ORDER,
                                .ranges = ranges,
                                .nr_ranges = NR_RANGES,
                                .cpu_nodes = cpu_nodes,
                                .distances = distances,
                                .page_shift = test_page_shift(),
                                .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = 0x100000,
                                .min_free_kbytes = UINT64_MAX};

    memset(m, 0, sizeof(*m));
    test_pool_init(&m->pool, &cfg);
    for (unsigned i = 0; i < NR_RANGES; i++)
        assert_int_equal(deckle_add_range(m->pool.d, &ranges[i]), DECKLE_OK);
    assert_int_equal(deckle_reserve_range(m->pool.d, RESERVED_PFN, RESERVED_NR), DECKLE_OK);
    assert_int_equal(deckle_online(m->pool.d), DECKLE_OK);
    assert_int_equal(m->pool.d->sb->nr_zones, NR_ZONES);
}

static uint32_t zone_of(uint64_t pfn)
{
    for (unsigned i = 0; i < NR_RANGES; i++)
        if (pfn - ranges[i].pfn < ranges[i].nr)
            return range_zone[i];
    fail_msg("pfn %" PRIx64 " is in no range", pfn);
    return 0;
}

static void model_alloc(struct model *m, uint64_t pfn, uint32_t order, uint32_t preferred,
                        bool interleave)
{
    uint32_t zone = zone_of(pfn), node = zone == 2, preferred_node = preferred == 2;

    m->allocs[zone][order]++;
    m->live_frames[zone] += (uint64_t)1 << order;
    if (node == preferred_node) {
        m->numa[zone].hit++;
        m->numa[zone].interleave += interleave;
    } else {
        m->numa[zone].miss++;
        m->numa[preferred].foreign++;
    }
    if (node == cpu_nodes[m->pool.cpu])
        m->numa[zone].local++;
    else
        m->numa[zone].other++;
    m->live[m->nr_live++] = (struct live){pfn, order};
}

static void random_alloc(struct model *m, uint64_t *seed)
{
    static const uint32_t gfps[] = {DECKLE_GFP_KERNEL, DECKLE_GFP_HIGHUSER_MOVABLE,
                                    DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE,
                                    DECKLE_GFP_KERNEL | DECKLE_GFP_COMP};
    struct deckle_request req = {.size = sizeof(req)};
    uint32_t node = (uint32_t)test_random_below(seed, 3);
    bool plain = test_random_below(seed, 2);
    int64_t pfn;

    req.gfp = gfps[test_random_below(seed, 4)];
    /* The square favours small orders. */
    req.order = (uint32_t)test_random_below(seed, 1 + test_random_below(seed, MAX_ORDER + 1));
    req.node = DECKLE_NODE(node);
    req.flags = test_random_below(seed, 4) ? 0 : DECKLE_REQ_INTERLEAVE;
    req.flags |= test_random_below(seed, 8) ? 0 : DECKLE_REQ_NO_CACHE;
    if (plain)
        node = cpu_nodes[m->pool.cpu];
    pfn =
        plain ? deckle_alloc(m->pool.d, req.gfp, req.order) : deckle_alloc_request(m->pool.d, &req);
    if (pfn < 0)
        m->failures[-pfn]++;
    else
        model_alloc(m, (uint64_t)pfn, req.order, nearest_normal[node],
                    !plain && (req.flags & DECKLE_REQ_INTERLEAVE) && node < 2);
}

static void random_free(struct model *m, uint64_t *seed)
{
    unsigned i = (unsigned)test_random_below(seed, m->nr_live);
    struct live block = m->live[i];

    assert_int_equal(deckle_free(m->pool.d, block.pfn, block.order), DECKLE_OK);
    m->frees[zone_of(block.pfn)][block.order]++;
    m->live_frames[zone_of(block.pfn)] -= (uint64_t)1 << block.order;
    m->live[i] = m->live[--m->nr_live];
}

/* ---- free blocks, counted the slow way ------------------------------------------------------ */

static bool *used_frames; /* of one range, by pfn - first */

static bool block_is_free(const struct deckle_range *r, uint64_t pfn, unsigned order)
{
    for (uint64_t p = pfn; p < pfn + ((uint64_t)1 << order); p++)
        if (p < r->pfn || p >= r->pfn + r->nr || used_frames[p - r->pfn])
            return false;
    return true;
}

/* Count the free blocks of a range into blocks, largest first; what is counted becomes used. */
static void count_free_blocks(const struct model *m, const struct deckle_range *r,
                              uint64_t blocks[DK_NR_ORDERS])
{
    used_frames = calloc(r->nr, sizeof(bool));
    assert_non_null(used_frames);
    for (uint64_t p = RESERVED_PFN; p < RESERVED_PFN + RESERVED_NR; p++)
        if (p - r->pfn < r->nr)
            used_frames[p - r->pfn] = true;
    for (unsigned i = 0; i < m->nr_live; i++)
        for (uint64_t f = 0; f < (uint64_t)1 << m->live[i].order; f++)
            if (m->live[i].pfn + f - r->pfn < r->nr)
                used_frames[m->live[i].pfn + f - r->pfn] = true;
    for (unsigned order = MAX_ORDER + 1; order-- > 0;) {
        uint64_t step = (uint64_t)1 << order;

        for (uint64_t p = r->pfn & ~(step - 1); p < r->pfn + r->nr; p += step) {
            if (!block_is_free(r, p, order))
                continue;
            blocks[order]++;
            memset(&used_frames[p - r->pfn], true, step);
        }
    }
    free(used_frames);
}

/* ---- comparison ----------------------------------------------------------------------------- */

static void check_zone(const struct model *m, uint32_t zone, const struct deckle_zone_stat *s)
{
    uint64_t allocs = 0, live = 0, free_frames = 0;

    for (unsigned order = 0; order < DK_NR_ORDERS; order++) {
        assert_int_equal(s->allocs[order], m->allocs[zone][order]);
        assert_int_equal(s->frees[order], m->frees[zone][order]);
        allocs += s->allocs[order];
        live += (s->allocs[order] - s->frees[order]) << order;
        free_frames += s->free_blocks[order] << order;
    }
    assert_int_equal(live, m->live_frames[zone]);
    assert_int_equal(s->numa_hit, m->numa[zone].hit);
    assert_int_equal(s->numa_miss, m->numa[zone].miss);
    assert_int_equal(s->numa_foreign, m->numa[zone].foreign);
    assert_int_equal(s->numa_local, m->numa[zone].local);
    assert_int_equal(s->numa_other, m->numa[zone].other);
    assert_int_equal(s->numa_interleave, m->numa[zone].interleave);
    assert_int_equal(s->numa_hit + s->numa_miss, allocs);
    assert_int_equal(s->free, free_frames);
    assert_int_equal(s->managed, s->free + s->cached + live);
    assert_int_equal(s->managed, s->present - s->reserved);
    /* What left the shared level and did not come back is with callers and in caches. */
    assert_int_equal(s->refill_frames - s->drain_frames, s->cached + live);
}

static void check_all(const struct model *m)
{
    struct deckle_stat all = {.size = sizeof(all)};
    char why[256] = "";
    uint64_t present = 0;

    if (deckle_validate(m->pool.d, why, sizeof(why)))
        fail_msg("%s", why);

    for (uint32_t zone = 0; zone < NR_ZONES; zone++) {
        struct deckle_zone_stat s = {.size = sizeof(s)};

        assert_int_equal(deckle_get_zone_stat(m->pool.d, zone, &s), DECKLE_OK);
        check_zone(m, zone, &s);
        present += s.present;
    }
    assert_int_equal(deckle_get_stat(m->pool.d, &all), DECKLE_OK);
    assert_int_equal(all.nr_zones, NR_ZONES);
    assert_int_equal(all.nr_frames, present);
    assert_int_equal(all.metadata_bytes, m->pool.size);
    assert_memory_equal(all.failures, m->failures, sizeof(m->failures));
}

/* With empty caches the free blocks are what is neither allocated nor reserved. */
static void check_free_blocks(const struct model *m)
{
    assert_int_equal(deckle_drain_all(m->pool.d), DECKLE_OK);
    for (uint32_t zone = 0; zone < NR_ZONES; zone++) {
        uint64_t want[DK_NR_ORDERS] = {0};
        struct deckle_zone_stat s = {.size = sizeof(s)};

        for (unsigned i = 0; i < NR_RANGES; i++)
            if (range_zone[i] == zone)
                count_free_blocks(m, &ranges[i], want);
        assert_int_equal(deckle_get_zone_stat(m->pool.d, zone, &s), DECKLE_OK);
        assert_int_equal(s.cached, 0);
        assert_memory_equal(s.free_blocks, want, sizeof(want));
    }
}

static void run_model(uint32_t features)
{
    uint64_t seed = test_seed(), steps = test_effort(30000);
    static struct model m;

    open_model(&m, features);
    check_all(&m);
    check_free_blocks(&m);
    for (uint64_t step = 0; step < steps; step++) {
        /* Phases that fill and phases that empty. */
        bool filling = (step / 1500) % 3 != 2;

        m.pool.cpu = (uint32_t)test_random_below(&seed, 4);
        if (!m.nr_live ||
            (m.nr_live < MAX_LIVE && test_random_below(&seed, 10) < (filling ? 6 : 3)))
            random_alloc(&m, &seed);
        else
            random_free(&m, &seed);
        if (step % 500 == 0)
            check_all(&m);
        if (step % 3000 == 0)
            check_free_blocks(&m);
    }
    while (m.nr_live)
        random_free(&m, &seed);
    check_free_blocks(&m);
    check_all(&m);
    assert_int_equal(m.pool.reports, 0);
    test_pool_free(&m.pool);
}

static void test_model_cells(void **state)
{
    (void)state;
    run_model(DECKLE_FEATURE_CELLS);
}

static void test_model_no_caches(void **state)
{
    (void)state;
    run_model(DECKLE_FEATURE_NO_CACHES);
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* Requests that fall back to another node: miss there, foreign here, until nothing is left. */
static void test_numa_exhaustion(void **state)
{
    static struct model m;
    struct deckle_request req = {
        .size = sizeof(req), .gfp = DECKLE_GFP_KERNEL, .order = 5, .node = DECKLE_NODE(0)};
    int64_t pfn;

    (void)state;
    open_model(&m, 0);
    while ((pfn = deckle_alloc_request(m.pool.d, &req)) >= 0)
        model_alloc(&m, (uint64_t)pfn, req.order, nearest_normal[0], false);
    m.failures[-pfn]++;
    assert_true(m.numa[2].miss > 100);
    check_all(&m);
    test_pool_free(&m.pool);
}

/* An isolated block is counted as Isolate, outside the free frames, and merges with nothing. */
static void test_isolated(void **state)
{
    static struct model m;
    struct deckle_zone_stat before = {.size = sizeof(before)}, after = before;
    uint64_t blocks[DK_NR_ORDERS], types[DECKLE_NR_MIGRATETYPES];
    const struct dk_zone *zone;

    (void)state;
    open_model(&m, 0);
    zone = &m.pool.d->zones[1];
    assert_int_equal(deckle_get_zone_stat(m.pool.d, 1, &before), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(m.pool.d, 0x100200, DECKLE_ISOLATE), DECKLE_OK);
    assert_int_equal(deckle_get_zone_stat(m.pool.d, 1, &after), DECKLE_OK);
    assert_int_equal(after.free, before.free - 512);
    assert_int_equal(after.free_isolated, 512);
    assert_int_equal(after.free_blocks[11], before.free_blocks[11] - 1);
    assert_int_equal(after.free_blocks[10], before.free_blocks[10] + 1);
    assert_int_equal(after.free_blocks[9], before.free_blocks[9] + 2);
    dk_zone_free_blocks(m.pool.d, zone, DECKLE_ISOLATE, blocks);
    assert_int_equal(blocks[9], 1);
    dk_zone_pageblocks(m.pool.d, zone, types);
    assert_int_equal(types[DECKLE_ISOLATE], 1);
    assert_int_equal(types[DECKLE_MOVABLE], 31);
    test_pool_free(&m.pool);
}

/* A group that mixes types is one block, in the row of its first pageblock's type. */
static void test_mixed_group(void **state)
{
    static struct model m;
    uint64_t blocks[DK_NR_ORDERS];
    const struct dk_zone *zone;

    (void)state;
    open_model(&m, 0);
    zone = &m.pool.d->zones[1];
    assert_int_equal(deckle_set_pageblock_type(m.pool.d, 0x100000, DECKLE_UNMOVABLE), DECKLE_OK);
    assert_int_equal(deckle_set_pageblock_type(m.pool.d, 0x100a00, DECKLE_RECLAIMABLE), DECKLE_OK);
    dk_zone_free_blocks(m.pool.d, zone, DECKLE_UNMOVABLE, blocks);
    assert_int_equal(blocks[11], 1);
    dk_zone_free_blocks(m.pool.d, zone, DECKLE_RECLAIMABLE, blocks);
    assert_int_equal(blocks[11], 0);
    dk_zone_free_blocks(m.pool.d, zone, DK_ANY_TYPE, blocks);
    assert_int_equal(blocks[11], 8);
    test_pool_free(&m.pool);
}

static void test_bad_counts(void **state)
{
    static struct model m;
    struct deckle_stat s = {.size = sizeof(s)};
    int64_t pfn;

    (void)state;
    open_model(&m, 0);
    pfn = deckle_alloc(m.pool.d, DECKLE_GFP_KERNEL, 2);
    assert_true(pfn >= 0);
    assert_int_equal(deckle_free(m.pool.d, (uint64_t)pfn, 1), DECKLE_EBADFREE);
    assert_int_equal(deckle_free(m.pool.d, (uint64_t)pfn, 2), DECKLE_OK);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(deckle_free(m.pool.d, (uint64_t)pfn, 2), DECKLE_EBADFREE);
    assert_int_equal(deckle_free(m.pool.d, 0x900000, 0), DECKLE_EBADFREE);
    assert_int_equal(deckle_get_stat(m.pool.d, &s), DECKLE_OK);
    assert_int_equal(s.bad[DECKLE_BAD_WRONG_ORDER], 1);
    assert_int_equal(s.bad[DECKLE_BAD_DOUBLE_FREE], 3);
    assert_int_equal(s.bad[DECKLE_BAD_FOREIGN], 1);
    test_pool_free(&m.pool);
}

static void test_arguments(void **state)
{
    static struct model m;
    struct {
        struct deckle_zone_stat stat;
        uint64_t beyond[4];
    } longer;
    struct deckle_stat s = {.size = sizeof(s) - 1};
    struct deckle_zone_stat z = {.size = 0};

    (void)state;
    open_model(&m, 0);
    assert_int_equal(deckle_get_stat(m.pool.d, &s), DECKLE_EINVAL);
    assert_int_equal(deckle_get_stat(m.pool.d, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_get_stat(NULL, &s), DECKLE_EINVAL);
    assert_int_equal(deckle_get_zone_stat(m.pool.d, 0, &z), DECKLE_EINVAL);
    z.size = sizeof(z);
    assert_int_equal(deckle_get_zone_stat(m.pool.d, NR_ZONES, &z), DECKLE_ENODEV);
    assert_int_equal(deckle_get_zone_stat(m.pool.d, 0, NULL), DECKLE_EINVAL);
    assert_int_equal(deckle_get_zone_stat(m.pool.d, 2, &z), DECKLE_OK);
    assert_int_equal(z.node, 1);
    assert_int_equal(z.type, DECKLE_ZONE_NORMAL);
    assert_int_equal(z.populated, 1);
    assert_int_equal(z.start_pfn, 0x200403);
    assert_int_equal(z.spanned, 0x206000 - 0x200403);
    assert_int_equal(z.reserved, RESERVED_NR);

    /* A caller of a later version: what this one does not know reads as zero. */
    memset(&longer, 0xff, sizeof(longer));
    longer.stat.size = sizeof(longer);
    assert_int_equal(deckle_get_zone_stat(m.pool.d, 2, &longer.stat), DECKLE_OK);
    assert_int_equal(longer.stat.size, sizeof(longer));
    assert_int_equal(longer.stat.present, z.present);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(longer.beyond[i], 0);
    test_pool_free(&m.pool);
}

/* ---- looking at a pool that works ----------------------------------------------------------- */

struct worker {
    struct deckle *d;
    uint64_t seed, steps;
    bool failed;
};

static void *work(void *ctx)
{
    struct worker *w = ctx;
    struct live live[64];
    unsigned nr = 0;

    for (uint64_t i = 0; i < w->steps; i++) {
        uint32_t order = (uint32_t)test_random_below(&w->seed, 4);
        int64_t pfn = nr < 64 ? deckle_alloc(w->d, DECKLE_GFP_KERNEL, order) : -1;

        if (pfn >= 0) {
            live[nr++] = (struct live){(uint64_t)pfn, order};
        } else {
            nr--;
            w->failed |= deckle_free(w->d, live[nr].pfn, live[nr].order) != DECKLE_OK;
        }
    }
    while (nr--)
        w->failed |= deckle_free(w->d, live[nr].pfn, live[nr].order) != DECKLE_OK;
    return NULL;
}

static void count_bytes(void *ctx, const char *text, size_t len)
{
    (void)text;
    *(size_t *)ctx += len;
}

/* Figures of a pool at work are sane one by one, and exact when it rests. */
static void test_running_pool(void **state)
{
    static struct model m;
    struct worker workers[2];
    pthread_t threads[2];
    uint64_t seed = test_seed();

    (void)state;
    open_model(&m, DECKLE_FEATURE_CELLS);
    for (unsigned i = 0; i < 2; i++) {
        workers[i] = (struct worker){m.pool.d, test_random(&seed), test_effort(100000), false};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (uint64_t i = 0; i < test_effort(40); i++) {
        struct deckle_zone_stat s = {.size = sizeof(s)};
        size_t bytes = 0;

        assert_int_equal(deckle_get_zone_stat(m.pool.d, 1, &s), DECKLE_OK);
        /* A share of a CPU that is being folded may be seen twice or not at all. */
        assert_in_range(s.free, 1, s.managed + 1024);
        assert_in_range(s.cached, 0, s.managed);
        assert_int_equal(s.managed, 0x4000);
        deckle_print_json(m.pool.d, count_bytes, &bytes);
        deckle_print_pagetypeinfo(m.pool.d, count_bytes, &bytes);
        deckle_print_zoneinfo(m.pool.d, count_bytes, &bytes);
        assert_in_range(bytes, 5000, 100000);
    }
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(workers[i].failed);
    }
    if (deckle_validate(m.pool.d, NULL, 0))
        fail_msg("the pool contradicts itself");
    check_free_blocks(&m);
    test_pool_free(&m.pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_next),       cmocka_unit_test(test_model_cells),
        cmocka_unit_test(test_model_no_caches), cmocka_unit_test(test_numa_exhaustion),
        cmocka_unit_test(test_isolated),        cmocka_unit_test(test_mixed_group),
        cmocka_unit_test(test_bad_counts),      cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_running_pool),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
