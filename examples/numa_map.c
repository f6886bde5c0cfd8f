/* SPDX-License-Identifier: MIT */
/*
 * A NUMA map: three nodes, one of them without memory. Requests fall back to the nearest node, stay
 * on one node, or are kept to a mask; the counters say what happened.
 */
#include <deckle.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t this_cpu; /* what the cpu hook answers */

static uint32_t cpu(void *ctx)
{
    (void)ctx;
    return this_cpu;
}

static void show(const char *what, int64_t pfn)
{
    if (pfn < 0)
        printf("%-34s %s\n", what, deckle_error_name((int)pfn));
    else
        printf("%-34s frame 0x%" PRIx64 " of node %s\n", what, (uint64_t)pfn,
               pfn < 0x200000 ? "0" : "2");
}

int main(void)
{
    const struct deckle_range ranges[] = {
        {.pfn = 0x100000, .nr = 0x4000, .node = DECKLE_NODE(0)},
        {.pfn = 0x200000, .nr = 0x4000, .node = DECKLE_NODE(2)},
    };
    const uint8_t distances[] = {10, 20, 30, /* from node 0 */
                                 20, 10, 15, /* from node 1, which has CPUs and no memory */
                                 30, 15, 10};
    const uint8_t cpu_nodes[] = {0, 1};
    const struct deckle_config config = {.size = sizeof(config),
                                         .nr_cpus = 2,
                                         .nr_nodes = 3,
                                         .ranges = ranges,
                                         .nr_ranges = 2,
                                         .distances = distances,
                                         .cpu_nodes = cpu_nodes};
    const struct deckle_host host = {.size = sizeof(host), .cpu = cpu};
    struct deckle *d;
    size_t bytes = (deckle_metadata_size(&config) + 63) & ~(size_t)63;
    void *metadata = aligned_alloc(64, bytes);
    memset(metadata, 0, bytes);
    if (deckle_init(metadata, bytes, &config, &host, &d) || deckle_add_range(d, &ranges[0]) ||
        deckle_add_range(d, &ranges[1]) || deckle_online(d))
        return 1;

    show("on CPU 0", deckle_alloc(d, DECKLE_GFP_KERNEL, 0));
    this_cpu = 1; /* nearest to node 1 is node 2 */
    show("on CPU 1, node without memory", deckle_alloc(d, DECKLE_GFP_KERNEL, 0));
    struct deckle_request r = {.size = sizeof(r), .gfp = DECKLE_GFP_KERNEL, .node = DECKLE_NODE(0)};
    show("node 0 preferred", deckle_alloc_request(d, &r));
    r.node = DECKLE_NODE(1);
    r.gfp = DECKLE_GFP_KERNEL | DECKLE_GFP_THISNODE;
    show("node 1 and no other", deckle_alloc_request(d, &r));
    r = (struct deckle_request){
        .size = sizeof(r), .gfp = DECKLE_GFP_KERNEL, .nodemask = 1u << 0};
    show("only node 0, asked on CPU 1", deckle_alloc_request(d, &r));

    struct deckle_stat stat = {.size = sizeof(stat)};
    deckle_get_stat(d, &stat);
    for (uint32_t z = 0; z < stat.nr_zones; z++) {
        struct deckle_zone_stat s = {.size = sizeof(s)};
        deckle_get_zone_stat(d, z, &s);
        if (s.populated)
            printf("node %" PRIu32 ": hit %" PRIu64 " miss %" PRIu64 " local %" PRIu64
                   " other %" PRIu64 "\n",
                   s.node, s.numa_hit, s.numa_miss, s.numa_local, s.numa_other);
    }
    uint64_t leaked = deckle_exit(d, NULL);
    printf("%" PRIu64 " frames were still allocated\n", leaked);
    free(metadata);
    return leaked != 4;
}
