/* SPDX-License-Identifier: MIT */
/* Modules and copies of the library (bench_module.h). */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void *bench_module_open(const char *file)
{
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *name;

    if (length <= 0)
        return NULL;
    path[length] = '\0';
    name = strrchr(path, '/');
    if (name == NULL || strlen(file) + 1 >= sizeof(path) - (size_t)(name - path))
        return NULL;
    strcpy(name + 1, file);
    return access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Function pointers come as object pointers. */
bool bench_module_find(void *module, const char *symbol, void *to)
{
    void *found = dlsym(module, symbol);

    memcpy(to, &found, sizeof(found));
    return found != NULL;
}

static int set_aside(struct bench_copy *copy)
{
    for (; copy->nr_aside < BENCH_ASIDE; copy->nr_aside++) {
        int64_t pfn = copy->alloc(copy->d, DECKLE_GFP_KERNEL, 0);

        if (pfn < 0)
            return (int)pfn;
        copy->aside[copy->nr_aside] = (uint64_t)pfn;
    }
    return DECKLE_OK;
}

int bench_copy_open(struct bench_copy *copy, const char *name,
                    const struct deckle_create_options *options, uint32_t debug)
{
    int (*create)(const struct deckle_create_options *options, struct deckle **out);
    int (*set_debug)(struct deckle * d, uint32_t switches);
    char file[64];
    void *module;
    int error;

    snprintf(file, sizeof(file), "deckle-ablation-%s.so", name);
    memset(copy, 0, sizeof(*copy));
    module = bench_module_open(file);
    if (module == NULL || !bench_module_find(module, "deckle_alloc", &copy->alloc) ||
        !bench_module_find(module, "deckle_free", &copy->release) ||
        !bench_module_find(module, "deckle_alloc_request", &copy->request) ||
        !bench_module_find(module, "deckle_destroy", &copy->destroy) ||
        !bench_module_find(module, "deckle_create", &create) ||
        !bench_module_find(module, "deckle_set_debug", &set_debug))
        return DECKLE_ENOENT;
    copy->ask.size = sizeof(copy->ask);
    error = create(options, &copy->d);
    if (error == DECKLE_OK && debug != 0) {
        error = set_debug(copy->d, debug);
        error = error > 0 ? DECKLE_OK : error;
    }
    return error == DECKLE_OK ? set_aside(copy) : error;
}

void bench_copy_close(struct bench_copy *copy)
{
    while (copy->nr_aside > 0)
        copy->release(copy->d, copy->aside[--copy->nr_aside], 0);
    if (copy->d != NULL)
        copy->destroy(copy->d);
    copy->d = NULL;
}
