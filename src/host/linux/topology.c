/* SPDX-License-Identifier: MIT */
/*
 * CPUs and nodes of the machine. CPUs from sysfs: all possible ones, since CPU numbers are used as
 * they are and CPUs may come later. Nodes from libnuma, whose functions are referred to weakly: a
 * program that links libdeckle.a without -lnuma has no DECKLE_CREATE_NUMA, and all else.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host/linux/hosted.h"

#if defined(__has_include)
#if __has_include(<numa.h>)
#define HAVE_NUMA 1
#endif
#endif

/* Highest number in a list such as "0-3,8-11"; 0 if there is none. */
static unsigned long last_of_list(const char *text)
{
    unsigned long last = 0;

    while (*text) {
        char *end = (char *)text + 1;

        if (*text >= '0' && *text <= '9') { /* strtoul would take the dash for a sign */
            unsigned long n = strtoul(text, &end, 10);
            last = n > last ? n : last;
        }
        text = end;
    }
    return last;
}

static uint32_t possible_cpus(void)
{
    char text[1024];
    int fd = open("/sys/devices/system/cpu/possible", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    unsigned long cpus;

    if (fd >= 0)
        close(fd);
    if (n > 0) {
        text[n] = '\0';
        cpus = last_of_list(text) + 1;
    } else {
        long configured = sysconf(_SC_NPROCESSORS_CONF);
        cpus = configured > 0 ? (unsigned long)configured : 1;
    }
    return cpus < DECKLE_MAX_CPUS ? (uint32_t)cpus : DECKLE_MAX_CPUS;
}

#ifdef HAVE_NUMA

#include <numa.h>

#pragma weak numa_available
#pragma weak numa_bitmask_isbitset
#pragma weak numa_bitmask_free
#pragma weak numa_distance
#pragma weak numa_get_mems_allowed
#pragma weak numa_max_node
#pragma weak numa_node_of_cpu
#pragma weak numa_node_size64
#pragma weak numa_tonode_memory

static bool have_numa(void)
{
    return numa_available && numa_tonode_memory && numa_available() >= 0 &&
           numa_max_node() < (int)DECKLE_MAX_NODES;
}

static void read_nodes(struct topology *t)
{
    struct bitmask *allowed = numa_get_mems_allowed();

    t->nr_nodes = (uint32_t)numa_max_node() + 1;
    t->memory_nodes = 0;
    for (uint32_t node = 0; node < t->nr_nodes; node++)
        if (numa_node_size64((int)node, NULL) > 0 && numa_bitmask_isbitset(allowed, node))
            t->memory_nodes |= UINT64_C(1) << node;
    numa_bitmask_free(allowed);
    for (uint32_t i = 0; i < t->nr_nodes * t->nr_nodes; i++) {
        uint32_t from = i / t->nr_nodes, to = i % t->nr_nodes;
        int distance = numa_distance((int)from, (int)to);

        if (from == to)
            distance = 10;
        else if (distance < 10 || distance > 255)
            distance = 20;
        t->distances[i] = (uint8_t)distance;
    }
    for (uint32_t cpu = 0; cpu < t->nr_cpus; cpu++) {
        int node = numa_node_of_cpu((int)cpu);
        t->cpu_nodes[cpu] = node >= 0 && node < (int)t->nr_nodes ? (uint8_t)node : 0;
    }
}

bool hosted_bind(void *address, size_t bytes, uint32_t node)
{
    numa_tonode_memory(address, bytes, (int)node);
    return true;
}

#else

static bool have_numa(void)
{
    return false;
}

static void read_nodes(struct topology *t)
{
    (void)t;
}

bool hosted_bind(void *address, size_t bytes, uint32_t node)
{
    (void)address;
    (void)bytes;
    (void)node;
    return false;
}

#endif

int hosted_topology(struct topology *t, bool numa)
{
    memset(t, 0, sizeof(*t));
    t->nr_cpus = possible_cpus();
    t->nr_nodes = 1;
    t->memory_nodes = 1;
    t->distances[0] = 10;
    if (!numa)
        return DECKLE_OK;
    if (!have_numa())
        return DECKLE_ENOTSUP;
    read_nodes(t);
    return t->memory_nodes ? DECKLE_OK : DECKLE_ENOTSUP;
}
