/* SPDX-License-Identifier: MIT */
/*
 * Which frames are free, told to AddressSanitizer and Valgrind. Their functions are found at run
 * time (weak references; a probe of the processor), so that one build of the library serves plain
 * programs, which pay nothing, and checked ones.
 */
#include "host/linux/hosted.h"

#if defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#endif
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_MAKE_MEM_NOACCESS(address, bytes) ((void)(address), (void)(bytes))
#define VALGRIND_MAKE_MEM_UNDEFINED(address, bytes) ((void)(address), (void)(bytes))
#define VALGRIND_MAKE_MEM_DEFINED(address, bytes)  ((void)(address), (void)(bytes))
#endif

void __asan_poison_memory_region(void const volatile *address, size_t bytes)
    __attribute__((weak));
void __asan_unpoison_memory_region(void const volatile *address, size_t bytes)
    __attribute__((weak));

static bool have_asan(void)
{
    return __asan_poison_memory_region && __asan_unpoison_memory_region;
}

static void close_memory(const void *address, size_t bytes)
{
    if (have_asan())
        __asan_poison_memory_region(address, bytes);
    VALGRIND_MAKE_MEM_NOACCESS(address, bytes);
}

static void given_out(void *ctx, uint64_t pfn, uint32_t order)
{
    const struct hosted *h = ctx;
    void *address = hosted_address(h, pfn);
    size_t bytes = (size_t)1 << (order + h->page_shift);

    if (have_asan())
        __asan_unpoison_memory_region(address, bytes);
    VALGRIND_MAKE_MEM_UNDEFINED(address, bytes);
}

static void came_back(void *ctx, uint64_t pfn, uint32_t order)
{
    const struct hosted *h = ctx;

    close_memory(hosted_address(h, pfn), (size_t)1 << (order + h->page_shift));
}

/* Frames that are addresses only (DECKLE_CREATE_RESERVE) are left out: touching them faults anyway,
 * and marking terabytes would write hundreds of gigabytes of shadow. */
void hosted_annotate(struct hosted *h, struct deckle_host *host)
{
    if ((!have_asan() && !RUNNING_ON_VALGRIND) || (h->flags & DECKLE_CREATE_RESERVE))
        return;
    host->on_alloc = given_out;
    host->on_free = came_back;
    close_memory(h->frames, h->frame_bytes);
}

void hosted_annotate_end(struct hosted *h)
{
    if (h->flags & DECKLE_CREATE_RESERVE)
        return;
    if (have_asan())
        __asan_unpoison_memory_region(h->frames, h->frame_bytes);
    VALGRIND_MAKE_MEM_DEFINED(h->frames, h->frame_bytes);
}
