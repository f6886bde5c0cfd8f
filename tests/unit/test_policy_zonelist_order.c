/* SPDX-License-Identifier: MIT */
/* Order of nodes and zones: machines with known answers, and properties of random ones. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "policy/zonelist_order.h"
#include "testing.h"

#define MAX_NODES 64u

struct machine {
    unsigned nr;
    uint8_t distance[MAX_NODES][MAX_NODES];
    bool memory[MAX_NODES], cpus[MAX_NODES];
    uint32_t load[MAX_NODES + 1];
};

/* One more view follows the machine's: nearest of all, and not to be looked at or written. */
static unsigned order_for(struct machine *m, unsigned node, uint16_t *order)
{
    struct dk_node_view view[MAX_NODES + 1];
    bool mark = node & 1;
    unsigned nr;

    for (unsigned id = 0; id < m->nr; id++)
        view[id] = (struct dk_node_view){m->distance[node][id], m->memory[id], m->cpus[id], true};
    view[m->nr] = (struct dk_node_view){0, true, false, mark};
    nr = dk_node_order(node, m->nr, view, m->load, order);
    assert_int_equal(view[m->nr].used, mark);
    return nr;
}

static void expect(struct machine *m, unsigned node, unsigned nr, const uint16_t *want)
{
    uint16_t order[MAX_NODES];

    assert_int_equal(order_for(m, node, order), nr);
    for (unsigned i = 0; i < nr; i++)
        if (order[i] != want[i])
            fail_msg("from node %u: place %u is node %u, want %u", node, i, order[i], want[i]);
}

static struct machine machine_flat(unsigned nr)
{
    struct machine m;

    memset(&m, 0, sizeof(m));
    m.nr = nr;
    for (unsigned a = 0; a < nr; a++) {
        for (unsigned b = 0; b < nr; b++)
            m.distance[a][b] = a == b ? 10 : 20;
        m.memory[a] = m.cpus[a] = true;
    }
    return m;
}

static void test_single(void **state)
{
    struct machine m = machine_flat(1);
    (void)state;

    expect(&m, 0, 1, (const uint16_t[]){0});
    assert_int_equal(m.load[0], 0);
    m.memory[0] = false;
    expect(&m, 0, 0, NULL);
}

/*
 * Four equal nodes. From 0: 1 is first at distance 20 and its load rises. From 1: node 0 has a
 * lower id (21 against 20), so 2. From 2: 3, then 0 and 1 at 21: load 1 puts 1 behind 0. From 3:
 * all lower: loads are {0, 1, 1, 1}, so 0 first.
 */
static void test_equal_distances(void **state)
{
    struct machine m = machine_flat(4);
    (void)state;

    expect(&m, 0, 4, (const uint16_t[]){0, 1, 2, 3});
    expect(&m, 1, 4, (const uint16_t[]){1, 2, 3, 0});
    expect(&m, 2, 4, (const uint16_t[]){2, 3, 0, 1});
    expect(&m, 3, 4, (const uint16_t[]){3, 0, 1, 2});
    assert_int_equal(m.load[0], 1);
    assert_int_equal(m.load[1], 1);
    assert_int_equal(m.load[2], 1);
    assert_int_equal(m.load[3], 1);
    /* Once more without a reset: the loads are equal, ids decide. */
    expect(&m, 0, 4, (const uint16_t[]){0, 1, 2, 3});
}

/* Two sockets of two nodes: near neighbours first, then the far socket; each step in distance
 * loads. */
static void test_two_sockets(void **state)
{
    static const uint8_t distance[4][4] = {
        {10, 12, 32, 32}, {12, 10, 32, 32}, {32, 32, 10, 12}, {32, 32, 12, 10}};
    struct machine m = machine_flat(4);
    (void)state;

    for (unsigned a = 0; a < 4; a++)
        memcpy(m.distance[a], distance[a], 4);
    expect(&m, 0, 4, (const uint16_t[]){0, 1, 2, 3}); /* loads: 1 and 2 */
    expect(&m, 1, 4, (const uint16_t[]){1, 0, 3, 2}); /* 0 and 3: node 2 is loaded */
    expect(&m, 2, 4, (const uint16_t[]){2, 3, 0, 1}); /* 3 and 0: both of load 1, id decides */
    expect(&m, 3, 4, (const uint16_t[]){3, 2, 1, 0}); /* 0 has load 2 by now */
    assert_int_equal(m.load[0], 2);
    assert_int_equal(m.load[1], 2);
    assert_int_equal(m.load[2], 2);
    assert_int_equal(m.load[3], 2);
}

/* A node of memory alone is preferred to an equal one with CPUs; a distance of 1 outweighs that
 * not. */
static void test_memory_and_cpu_nodes(void **state)
{
    struct machine m = machine_flat(3);
    (void)state;

    m.cpus[2] = false;
    expect(&m, 0, 3, (const uint16_t[]){0, 2, 1});
    m = machine_flat(3);
    m.cpus[2] = false;
    m.distance[0][2] = 22;
    expect(&m, 0, 3, (const uint16_t[]){0, 1, 2});

    /* A node with CPUs and no memory appears in nobody's list, and finds the nearest. */
    m = machine_flat(3);
    m.memory[1] = false;
    expect(&m, 0, 2, (const uint16_t[]){0, 2});
    expect(&m, 1, 2, (const uint16_t[]){2, 0}); /* 0 has the lower id */
    assert_int_equal(m.load[0], 0);             /* same distance as the node before it */
    assert_int_equal(m.load[2], 2);
}

/* Every list has each node with memory once, and never a nearer one (by 3 or more) after a farther.
 */
static void test_random_machines(void **state)
{
    uint64_t seed = test_seed();
    (void)state;

    for (uint64_t n = test_effort(300); n; n--) {
        struct machine m = machine_flat(1 + (unsigned)test_random_below(&seed, MAX_NODES));
        unsigned with_memory = 0;

        for (unsigned a = 0; a < m.nr; a++) {
            for (unsigned b = 0; b < a; b++)
                m.distance[a][b] = m.distance[b][a] =
                    (uint8_t)(11 + test_random_below(&seed, 6) * 40);
            m.memory[a] = test_random_below(&seed, 4) != 0;
            m.cpus[a] = test_random_below(&seed, 4) != 0;
            with_memory += m.memory[a];
        }
        for (unsigned node = 0; node < m.nr; node++) {
            uint16_t order[MAX_NODES];
            unsigned nr = order_for(&m, node, order);
            uint64_t seen = 0;

            assert_int_equal(nr, with_memory);
            for (unsigned i = 0; i < nr; i++) {
                assert_true(m.memory[order[i]]);
                assert_false((seen >> order[i]) & 1);
                seen |= UINT64_C(1) << order[i];
                if (i)
                    assert_true(m.distance[node][order[i - 1]] <= m.distance[node][order[i]]);
                assert_true(m.load[order[i]] < m.nr);
            }
            if (m.memory[node])
                assert_int_equal(order[0], node);
        }
    }
}

static void test_zonelists(void **state)
{
    /* node 0: DMA, DMA32, Normal; node 1: Normal, Movable; node 2: empty; node 3: all five */
    static const uint8_t populated[] = {0x07, 0x14, 0x00, 0x1f};
    static const uint16_t order[] = {1, 0, 2, 3};
    static const struct dk_zoneref want[] = {{1, 4}, {1, 2}, {0, 2}, {0, 1}, {0, 0},
                                             {3, 4}, {3, 3}, {3, 2}, {3, 1}, {3, 0}};
    struct dk_zoneref list[4 * DECKLE_NR_ZONE_TYPES];
    (void)state;

    assert_int_equal(dk_zonelist_fallback(order, 4, populated, list), 10);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(list[i].node, want[i].node);
        assert_int_equal(list[i].zone, want[i].zone);
    }
    assert_int_equal(dk_zonelist_fallback(order, 0, populated, list), 0);
    assert_int_equal(dk_zonelist_nofallback(2, populated, list), 0);
    assert_int_equal(dk_zonelist_nofallback(1, populated, list), 2);
    assert_int_equal(list[0].node, 1);
    assert_int_equal(list[0].zone, DECKLE_ZONE_MOVABLE);
    assert_int_equal(list[1].zone, DECKLE_ZONE_NORMAL);
}

static void test_collapse(void **state)
{
    (void)state;

    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_MOVABLE, 0x1f), DECKLE_ZONE_MOVABLE);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_MOVABLE, 0x0f), DECKLE_ZONE_HIGHMEM);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_MOVABLE, 0x07), DECKLE_ZONE_NORMAL);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_HIGHMEM, 0x11), DECKLE_ZONE_DMA);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_DMA32, 0x04), -1);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_DMA, 0x1e), -1);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_DMA, 0x01), DECKLE_ZONE_DMA);
    assert_int_equal(dk_zone_collapse(DECKLE_ZONE_MOVABLE, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_single),          cmocka_unit_test(test_equal_distances),
        cmocka_unit_test(test_two_sockets),     cmocka_unit_test(test_memory_and_cpu_nodes),
        cmocka_unit_test(test_random_machines), cmocka_unit_test(test_zonelists),
        cmocka_unit_test(test_collapse),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
