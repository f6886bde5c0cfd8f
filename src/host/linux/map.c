/* SPDX-License-Identifier: MIT */
/*
 * The frames' memory. Address space is reserved first, more than needed, so that an aligned part
 * can be kept and the rest given back; the frames are then mapped into it. That way alignment does
 * not depend on what they are made of, and hugetlb pages are asked for once, exactly.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/linux/hosted.h"

#ifndef MAP_HUGE_SHIFT
#define MAP_HUGE_SHIFT 26
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define RESERVE_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

char *hosted_reserve(size_t bytes, size_t align)
{
    size_t room = bytes + align;
    char *at, *start;

    if (room < bytes) {
        errno = ENOMEM;
        return NULL;
    }
    at = mmap(NULL, room, PROT_NONE, RESERVE_FLAGS, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    start = at + (-(uintptr_t)at & (align - 1));
    if (start > at)
        munmap(at, (size_t)(start - at));
    if (start + bytes < at + room)
        munmap(start + bytes, (size_t)(at + room - (start + bytes)));
    return start;
}

static int map_hugetlb(char *start, size_t bytes, unsigned shift)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB |
                (int)(shift << MAP_HUGE_SHIFT);

    return mmap(start, bytes, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED ? -1 : 0;
}

static int give_access(char *start, size_t bytes, enum deckle_pages pages)
{
    if (pages == DECKLE_PAGES_2M)
        return map_hugetlb(start, bytes, 21);
    if (pages == DECKLE_PAGES_1G)
        return map_hugetlb(start, bytes, 30);
    if (mprotect(start, bytes, PROT_READ | PROT_WRITE))
        return -1;
    /* Advice: a kernel without transparent huge pages refuses it, and has none. */
    if (pages == DECKLE_PAGES_THP)
        madvise(start, bytes, MADV_HUGEPAGE);
    else if (pages == DECKLE_PAGES_SMALL)
        madvise(start, bytes, MADV_NOHUGEPAGE);
    return 0;
}

int hosted_map_frames(struct hosted *h, size_t bytes, size_t align, enum deckle_pages pages)
{
    char *start = hosted_reserve(bytes, align);

    if (!start)
        return DECKLE_EBACKING;
    h->frames = start;
    h->frame_bytes = bytes;
    if (!(h->flags & DECKLE_CREATE_RESERVE) && give_access(start, bytes, pages)) {
        int error = errno;
        hosted_unmap_frames(h);
        errno = error;
        return DECKLE_EBACKING;
    }
    return DECKLE_OK;
}

int hosted_populate(struct hosted *h)
{
    volatile char *at = h->frames;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    if (!madvise(h->frames, h->frame_bytes, MADV_POPULATE_WRITE))
        return DECKLE_OK;
    if (errno != EINVAL)
        return DECKLE_EBACKING;
    for (size_t i = 0; i < h->frame_bytes; i += page) /* before Linux 5.14 */
        at[i] = 0;
    return DECKLE_OK;
}

void hosted_unmap_frames(struct hosted *h)
{
    if (h->frames)
        munmap(h->frames, h->frame_bytes);
    h->frames = NULL;
}
