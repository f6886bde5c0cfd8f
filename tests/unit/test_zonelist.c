/* SPDX-License-Identifier: MIT */
/*
 * Nodes and zonelists as a pool has them: which zones a request visits, from which node, in which
 * order; nodes without memory or CPUs, sparse numbers, masks; lists that are rebuilt while others
 * walk.
 *
 * ctest: timeout=120
 */
#include "guarded_check.h"
#include "testing.h"

#include <pthread.h>

#include "core/node.h"
#include "core/zonelist.h"

enum { DMA = DECKLE_ZONE_DMA, DMA32 = DECKLE_ZONE_DMA32, NORMAL = DECKLE_ZONE_NORMAL,
       HIGHMEM = DECKLE_ZONE_HIGHMEM, MOVABLE = DECKLE_ZONE_MOVABLE };

/* The zones of a list as text, "node.type node.type …". */
static const char *list_text(const struct deckle *d, uint32_t node, enum dk_zonelist_kind kind,
                             uint32_t highest, uint64_t mask)
{
    static char text[2048];
    size_t len = 0;
    struct dk_zonelist_walk w;
    struct dk_zone *z = dk_zonelist_first(d, dk_zonelist(d, node, kind), highest, mask, &w);

    text[0] = '\0';
    for (; z; z = dk_zonelist_next(d, &w))
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%u.%u", len ? " " : "", z->node,
                                z->type);
    return text;
}

static struct deckle_range at(uint32_t node, uint32_t slot, uint32_t zone)
{
    return (struct deckle_range){.pfn = (UINT64_C(1) << 20) + 4096 * (uint64_t)slot, .nr = 2048,
                                 .node = DECKLE_NODE(node), .zone = zone};
}

/* ---- order --------------------------------------------------------------------------------- */

static void zones_of_a_node_from_the_highest(void **state)
{
    struct deckle_range r[] = {
        {.pfn = 0, .nr = 4096}, {.pfn = 8192, .nr = 4096}, at(0, 0, 0),
        at(0, 1, DECKLE_ZONE(HIGHMEM)), at(0, 2, DECKLE_ZONE(MOVABLE)),
    };
    struct deckle_config cfg = plain_config(r, 5);
    struct guarded g;
    (void)state;

    cfg.features = DECKLE_FEATURE_HIGHMEM;
    guarded_open(&g, &cfg);
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, MOVABLE, 0), "0.4 0.3 0.2 0.1 0.0");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_NOFALLBACK, HIGHMEM, 0), "0.3 0.2 0.1 0.0");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, NORMAL, 0), "0.2 0.1 0.0");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, DMA, 0), "0.0");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, MOVABLE, 2), "");
    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        assert_int_equal(g.d->zones[dk_a32_load_relaxed(&g.d->fast_zone[type])].type, type);
    guarded_close(&g);
}

static void nodes_by_distance_and_in_turns(void **state)
{
    /* Two pairs: 0-1 and 2-3 are near each other, the pairs far; all have CPUs. */
    static const uint8_t distances[16] = {
        10, 15, 30, 30,
        15, 10, 30, 30,
        30, 30, 10, 15,
        30, 30, 15, 10,
    };
    static const uint8_t cpu_nodes[4] = {0, 1, 2, 3};
    struct deckle_range r[] = {at(0, 0, 0), at(1, 1, 0), at(2, 2, 0), at(3, 3, 0),
                               at(2, 4, DECKLE_ZONE(MOVABLE))};
    struct deckle_config cfg = plain_config(r, 5);
    struct guarded g;
    (void)state;

    cfg.nr_nodes = cfg.nr_cpus = 4;
    cfg.distances = distances;
    cfg.cpu_nodes = cpu_nodes;
    guarded_open(&g, &cfg);
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, NORMAL, 0), "0.2 1.2 2.2 3.2");
    /* Node 2 was first among the far ones for node 0: now it is node 3's turn. */
    assert_string_equal(list_text(g.d, 1, DK_ZONELIST_FALLBACK, NORMAL, 0), "1.2 0.2 3.2 2.2");
    assert_string_equal(list_text(g.d, 2, DK_ZONELIST_FALLBACK, MOVABLE, 0), "2.4 2.2 3.2 0.2 1.2");
    assert_string_equal(list_text(g.d, 3, DK_ZONELIST_NOFALLBACK, MOVABLE, 0), "3.2");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, MOVABLE, 0xc), "2.4 2.2 3.2");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, MOVABLE, 0xa), "1.2 3.2");
    for (uint32_t type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        assert_int_equal(dk_a32_load_relaxed(&g.d->fast_zone[type]), DK_NONE);
    assert_true(dk_a32_load_relaxed(&g.d->slow) & DK_SLOW_NUMA);
    guarded_close(&g);
}

/* ---- 85, 87: odd topologies ---------------------------------------------------------------- */

static void request_from(struct deckle *d, uint32_t node, uint64_t mask, uint32_t expect)
{
    struct deckle_request req = {.size = sizeof(req), .gfp = DECKLE_GFP_KERNEL, .node = node,
                                 .nodemask = mask};
    int64_t pfn = deckle_alloc_request(d, &req);
    uint32_t fi, zone;

    assert_true(pfn >= 0);
    assert_true(dk_pfn_to_fi(d, (uint64_t)pfn, &fi, &zone));
    assert_int_equal(d->zones[zone].node, expect);
    assert_int_equal(deckle_free(d, (uint64_t)pfn, 0), DECKLE_OK);
}

/* Node 0 has CPUs only, node 1 memory only, node 2 neither, node 63 both. */
static void h085_nodes_without_memory_or_cpus(void **state)
{
    static uint8_t distances[64 * 64];
    static const uint8_t cpu_nodes[3] = {0, 63, 0};
    struct deckle_range r[] = {at(1, 0, 0), at(63, 1, 0)};
    struct deckle_config cfg = plain_config(r, 2);
    struct deckle_request only = {.size = sizeof(only),
                                  .gfp = DECKLE_GFP_KERNEL | DECKLE_GFP_THISNODE};
    struct guarded g;
    (void)state;

    for (unsigned i = 0; i < 64 * 64; i++)
        distances[i] = i % 65 ? 20 : 10;
    distances[63] = 15; /* node 0 is nearer to 63 than to 1 */
    cfg.nr_nodes = 64;
    cfg.nr_cpus = 3;
    cfg.distances = distances;
    cfg.cpu_nodes = cpu_nodes;
    guarded_open(&g, &cfg);
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, NORMAL, 0), "63.2 1.2");
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_NOFALLBACK, NORMAL, 0), "");
    assert_string_equal(list_text(g.d, 1, DK_ZONELIST_FALLBACK, NORMAL, 0), "1.2 63.2");
    assert_string_equal(list_text(g.d, 2, DK_ZONELIST_FALLBACK, NORMAL, 0), "1.2 63.2");
    assert_true(dk_nodes_with_memory(g.d) == (UINT64_C(1) << 63 | 2));
    assert_true(dk_nodes_with_cpus(g.d) == (UINT64_C(1) << 63 | 1));
    assert_int_equal(dk_node_cpus(g.d, 0), 2);
    assert_true(dk_node_managed(g.d, 2) == 0 && dk_node_managed(g.d, 63) == 2048);
    request_from(g.d, 0, 0, 63); /* CPU 0 is on node 0, whose nearest memory is node 63's */
    request_from(g.d, DECKLE_NODE(0), 0, 63);
    request_from(g.d, DECKLE_NODE(1), 0, 1);
    request_from(g.d, DECKLE_NODE(2), 0, 1);
    request_from(g.d, DECKLE_NODE(63), 2, 1);
    only.node = DECKLE_NODE(2);
    assert_true(deckle_alloc_request(g.d, &only) < 0);
    only.node = DECKLE_NODE(64);
    assert_true(deckle_alloc_request(g.d, &only) == DECKLE_ENODEV);
    assert_valid(g.d);
    guarded_close(&g);
}

static void h087_any_node_is_the_zero_value(void **state)
{
    struct deckle_range r[] = {at(5, 0, 0)};
    struct deckle_config cfg = plain_config(r, 1);
    struct guarded g;
    (void)state;

    cfg.nr_nodes = 9;
    guarded_open(&g, &cfg);
    request_from(g.d, 0, 0, 5);
    for (uint32_t node = 0; node < 9; node++)
        request_from(g.d, DECKLE_NODE(node), 0, 5);
    assert_true(deckle_alloc(g.d, DECKLE_GFP_KERNEL, 3) >= 0);
    guarded_close(&g);
}

/* ---- 89 to 95 ------------------------------------------------------------------------------ */

static unsigned hook_calls;

static void *count_map(void *ctx, uint64_t pfn)
{
    (void)pfn;
    hook_calls++;
    return ctx;
}

/* A node that is empty costs a request a look, and no call to anybody. */
static void h089_falling_back_calls_nobody(void **state)
{
    struct deckle_range r[] = {at(0, 0, 0), at(1, 1, 0)};
    struct deckle_config cfg = plain_config(r, 2);
    struct deckle_host host = {.size = sizeof(host), .map = count_map};
    struct deckle_request req = {.size = sizeof(req),
                                 .gfp = DECKLE_GFP_KERNEL | DECKLE_GFP_THISNODE,
                                 .node = DECKLE_NODE(0)};
    struct guarded g;
    struct deckle *d;
    (void)state;

    cfg.nr_nodes = 2;
    guarded_map(&g, deckle_metadata_size(&cfg));
    assert_int_equal(deckle_init(g.memory, g.size, &cfg, &host, &d), DECKLE_OK);
    assert_int_equal(deckle_add_range(d, &r[0]), DECKLE_OK);
    assert_int_equal(deckle_add_range(d, &r[1]), DECKLE_OK);
    assert_int_equal(deckle_online(d), DECKLE_OK);
    while (deckle_alloc_request(d, &req) >= 0)
        ;
    for (unsigned i = 0; i < 1000; i++)
        request_from(d, DECKLE_NODE(0), 0, 1);
    assert_int_equal(hook_calls, 0);
    assert_valid(d);
    guarded_close(&g);
}

static void h091_a_mask_is_named_as_the_reason(void **state)
{
    struct deckle_range r[] = {at(0, 0, 0), at(1, 1, 0)};
    struct deckle_config cfg = plain_config(r, 2);
    struct deckle_request req = {.size = sizeof(req), .gfp = DECKLE_GFP_KERNEL, .nodemask = 2};
    struct guarded g;
    (void)state;

    cfg.nr_nodes = 2;
    guarded_open(&g, &cfg);
    while (deckle_alloc_request(g.d, &req) >= 0)
        ;
    assert_true(deckle_alloc_request(g.d, &req) == DECKLE_ECONSTRAINED);
    req.nodemask = 0;
    assert_true(deckle_alloc_request(g.d, &req) >= 0);
    while (deckle_alloc_request(g.d, &req) >= 0)
        ;
    assert_true(deckle_alloc_request(g.d, &req) == DECKLE_ENOMEM);
    guarded_close(&g);
}

/* Ordinary requests leave the small zone its reserve, for those who can use nothing else. */
static void h093_low_memory_keeps_its_reserve(void **state)
{
    struct deckle_range r[] = {{.pfn = 0, .nr = 4096}, {.pfn = 1 << 20, .nr = 200000}};
    struct deckle_config cfg = plain_config(r, 2);
    struct deckle_zone_stat z = {.size = sizeof(z)};
    uint64_t dma = 0, from_dma = 0;
    struct guarded g;
    int64_t pfn;
    (void)state;

    cfg.min_free_kbytes = 0;
    guarded_open(&g, &cfg);
    assert_int_equal(deckle_get_zone_stat(g.d, 0, &z), DECKLE_OK);
    assert_int_equal(z.type, DECKLE_ZONE_DMA);
    uint64_t reserve = z.lowmem_reserve[DECKLE_ZONE_NORMAL];
    assert_true(reserve == 200000 / 256);
    assert_true(z.lowmem_reserve[DECKLE_ZONE_DMA] == 0);
    while ((pfn = deckle_alloc(g.d, DECKLE_GFP_KERNEL, 0)) >= 0)
        from_dma += pfn < 4096;
    /* The mark is tested when a cache is filled: one filling per CPU may go below it. */
    assert_in_range(from_dma, 1, 4096 - reserve + DK_REFILL_MAX);
    assert_int_equal(deckle_get_zone_stat(g.d, 0, &z), DECKLE_OK);
    assert_true(z.free + z.cached + DK_REFILL_MAX >= reserve);
    while (deckle_alloc(g.d, DECKLE_GFP_KERNEL | DECKLE_GFP_DMA, 0) >= 0)
        dma++;
    assert_true(dma + DK_REFILL_MAX >= reserve);
    guarded_close(&g);
}

static void h095_zones_divide_all_memory(void **state)
{
    static uint8_t seen[40000];
    struct deckle_range r[] = {{.pfn = 0, .nr = 20000},
                               {.pfn = 20000, .nr = 20000, .node = DECKLE_NODE(1)}};
    struct deckle_config cfg = plain_config(r, 2);
    struct deckle_stat s = {.size = sizeof(s)};
    struct deckle_zone_stat z = {.size = sizeof(z)};
    struct guarded g;
    uint64_t sum = 0;
    (void)state;

    cfg.nr_nodes = 2;
    cfg.dma32_limit_pfn = 33333;
    guarded_open(&g, &cfg);
    assert_int_equal(deckle_get_stat(g.d, &s), DECKLE_OK);
    for (uint32_t i = 0; i < s.nr_zones; i++) {
        assert_int_equal(deckle_get_zone_stat(g.d, i, &z), DECKLE_OK);
        sum += z.managed;
    }
    assert_true(sum == 40000 && s.nr_zones == 4);
    assert_true(allocate_all(g.d, 0, seen, 40000) == 40000);
    guarded_close(&g);
}

/* ---- rebuilding while others walk ---------------------------------------------------------- */

enum { WALKERS = 3 };

static dk_a32 stop_walking;

/* Node 1 always has memory: every walk of every node meets its zone, or set-up finished two
 * rebuilds. */
static void *walk_all_the_time(void *arg)
{
    const struct deckle *d = arg;

    while (!dk_a32_load_relaxed(&stop_walking)) {
        for (uint32_t node = 0; node < 3; node++) {
            uint32_t epoch = dk_zonelist_epoch(d);
            struct dk_zonelist_walk w;
            struct dk_zone *z = dk_zonelist_first(d, dk_zonelist(d, node, DK_ZONELIST_FALLBACK),
                                                  MOVABLE, 0, &w);
            bool seen = false;
            for (; z; z = dk_zonelist_next(d, &w))
                seen |= z->node == 1;
            if (!seen && dk_zonelist_epoch(d) - epoch < 2)
                return "a zone that stays was not met";
        }
    }
    return NULL;
}

static void lists_are_rebuilt_under_walkers(void **state)
{
    struct deckle_range r[] = {at(0, 0, 0), at(1, 1, 0), at(2, 2, 0),
                               at(0, 3, DECKLE_ZONE(MOVABLE))};
    struct deckle_config cfg = plain_config(r, 4);
    pthread_t threads[WALKERS];
    const char *wrong[WALKERS];
    struct guarded g;
    (void)state;

    cfg.nr_nodes = 3;
    guarded_open(&g, &cfg);
    for (unsigned i = 0; i < WALKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, walk_all_the_time, g.d), 0);
    uint64_t random = test_seed();
    for (uint64_t n = test_effort(2000); n > 0; n--) {
        static const unsigned moving[3] = {0, 2, 3};
        const struct deckle_range *one = &r[moving[test_random_below(&random, 3)]];
        assert_int_equal(deckle_remove_range(g.d, one->pfn, one->nr), DECKLE_OK);
        assert_int_equal(deckle_add_range(g.d, one), DECKLE_OK);
        assert_int_equal(deckle_online(g.d), DECKLE_OK);
    }
    dk_a32_store_relaxed(&stop_walking, 1);
    for (unsigned i = 0; i < WALKERS; i++)
        pthread_join(threads[i], (void **)&wrong[i]);
    for (unsigned i = 0; i < WALKERS; i++)
        if (wrong[i])
            fail_msg("%s", wrong[i]);
    assert_string_equal(list_text(g.d, 0, DK_ZONELIST_FALLBACK, MOVABLE, 0), "0.4 0.2 1.2 2.2");
    assert_valid(g.d);
    guarded_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_of_a_node_from_the_highest),
        cmocka_unit_test(nodes_by_distance_and_in_turns),
        cmocka_unit_test(h085_nodes_without_memory_or_cpus),
        cmocka_unit_test(h087_any_node_is_the_zero_value),
        cmocka_unit_test(h089_falling_back_calls_nobody),
        cmocka_unit_test(h091_a_mask_is_named_as_the_reason),
        cmocka_unit_test(h093_low_memory_keeps_its_reserve),
        cmocka_unit_test(h095_zones_divide_all_memory),
        cmocka_unit_test(lists_are_rebuilt_under_walkers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
