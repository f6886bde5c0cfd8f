/* SPDX-License-Identifier: MIT */
/*
 * Opening a peer's library (bench_peer.h).
 *
 * RTLD_LOCAL: its malloc must not become everybody's. Some of these libraries want more static
 * thread-local storage than a program has left over for what is opened later; the parent asks the
 * loader for it (GLIBC_TUNABLES), which works only for a new program, hence exec.
 *
 * rte_mempool is used through macros and inline functions of its headers: those are compiled into a
 * module, deckle-peer-mempool.so beside the program, in builds that have them.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_module.h"
#include "bench_peer.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

struct library {
    const char *lane;
    const char *files[3]; /* in the order in which they are tried */
    const char *alloc, *release;
};

static const struct library libraries[] = {
    {"mimalloc",
     {"libmimalloc.so.2", "libmimalloc.so.3", "libmimalloc.so"},
     "mi_malloc",
     "mi_free"},
    {"jemalloc", {"libjemalloc.so.2", "libjemalloc.so"}, "malloc", "free"},
    {"tcmalloc", {"libtcmalloc_minimal.so.4", "libtcmalloc.so.4"}, "tc_malloc", "tc_free"},
};

#define NR_LIBRARIES (sizeof(libraries) / sizeof(libraries[0]))

static bool open_library(const struct library *library, struct bench_peer_calls *calls, char *why,
                         size_t size)
{
    void *opened = NULL;

    for (size_t i = 0; i < 3 && opened == NULL && library->files[i] != NULL; i++)
        opened = dlopen(library->files[i], RTLD_NOW | RTLD_LOCAL);
    if (opened == NULL) {
        snprintf(why, size, "%s is not installed", library->files[0]);
        return false;
    }
    if (!bench_module_find(opened, library->alloc, &calls->alloc) ||
        !bench_module_find(opened, library->release, &calls->release)) {
        snprintf(why, size, "%s has no %s", library->files[0], library->alloc);
        return false;
    }
    return true;
}

static bool open_mempool(struct bench_peer_calls *calls, char *why, size_t size)
{
    const char *(*start)(unsigned blocks) = NULL;
    const char *error;
    void *module = bench_module_open("deckle-peer-mempool.so");

    if (module == NULL || !bench_module_find(module, "deckle_peer_start", &start) ||
        !bench_module_find(module, "deckle_peer_alloc", &calls->alloc) ||
        !bench_module_find(module, "deckle_peer_free", &calls->release)) {
        snprintf(why, size, "this build has no rte_mempool (libdpdk-dev)");
        return false;
    }
    error = start(BENCH_PEER_BLOCKS);
    if (error != NULL)
        snprintf(why, size, "%s", error);
    return error == NULL;
}

bool bench_peer_open(const char *lane, struct bench_peer_calls *calls, char *why, size_t size)
{
    if (strcmp(lane, "mempool") == 0)
        return open_mempool(calls, why, size);
    if (strcmp(lane, "glibc") == 0) {
        *calls = (struct bench_peer_calls){malloc, free};
        return true;
    }
    for (size_t i = 0; i < NR_LIBRARIES; i++)
        if (strcmp(lane, libraries[i].lane) == 0)
            return open_library(&libraries[i], calls, why, size);
    snprintf(why, size, "there is no peer \"%s\"", lane);
    return false;
}
