/* SPDX-License-Identifier: MIT */
/*
 * DPDK's rte_mempool as a peer of `deckle bench --peers`: a module of its own, because its calls
 * are inline functions of its headers and its libraries are of no use to anybody else. One pool of
 * blocks of 64 bytes stands for blocks of any order: the pool never looks into them. Cache of 512
 * per thread, backed by a ring for several producers and consumers.
 */
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_mempool.h>
#include <stddef.h>

#define API __attribute__((visibility("default")))

API const char *deckle_peer_start(unsigned blocks);
API void *deckle_peer_alloc(size_t bytes);
API void deckle_peer_free(void *block);

static struct rte_mempool *pool;

/* NULL, or why not. */
const char *deckle_peer_start(unsigned blocks)
{
    char program[] = "deckle", no_huge[] = "--no-huge", memory[] = "-m", megabytes[] = "512",
         no_pci[] = "--no-pci", quiet[] = "--log-level=error", alone[] = "--no-shconf",
         no_telemetry[] = "--no-telemetry", one[] = "--lcores=0";
    char *arguments[] = {program, no_huge, memory, megabytes,    no_pci,
                         quiet,   alone,   one,    no_telemetry, NULL};

    if (rte_eal_init(9, arguments) < 0)
        return "rte_eal_init fails";
    pool = rte_mempool_create("deckle", blocks, 64, RTE_MEMPOOL_CACHE_MAX_SIZE, 0, NULL, NULL, NULL,
                              NULL, SOCKET_ID_ANY, 0);
    return pool == NULL ? "rte_mempool_create fails" : NULL;
}

/* A thread that DPDK does not know has no cache. */
static __attribute__((noinline)) void join(void)
{
    rte_thread_register();
}

void *deckle_peer_alloc(size_t bytes)
{
    void *block;

    (void)bytes;
    if (__builtin_expect(rte_lcore_id() == LCORE_ID_ANY, 0))
        join();
    return rte_mempool_get(pool, &block) == 0 ? block : NULL;
}

void deckle_peer_free(void *block)
{
    if (__builtin_expect(rte_lcore_id() == LCORE_ID_ANY, 0))
        join();
    rte_mempool_put(pool, block);
}
