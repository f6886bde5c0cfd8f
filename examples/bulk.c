/* SPDX-License-Identifier: MIT */
/*
 * Bulk: an RPC server's array of pages. Requests use some entries; before the next one the holes
 * are filled in one call, and what came back is freed in one call.
 */
#include <deckle/linux.h>
#include <inttypes.h>
#include <stdio.h>

#define ENTRIES 259u

/* Fill the holes; deckle_alloc_bulk says how many leading entries are filled, so ask until all
 * are. */
static int refill(struct deckle *d, uint64_t *pages)
{
    for (int tries = 0; tries < 16; tries++) {
        int64_t filled = deckle_alloc_bulk(d, DECKLE_GFP_KERNEL, pages, ENTRIES);
        if (filled < 0)
            return (int)filled;
        if (filled == (int64_t)ENTRIES)
            return 0;
    }
    return DECKLE_ENOMEM;
}

int main(void)
{
    struct deckle_create_options options = {.size = sizeof(options), .bytes = 32 << 20};
    uint64_t pages[ENTRIES], sent[ENTRIES];
    struct deckle *d;

    if (deckle_create(&options, &d))
        return 1;
    for (unsigned i = 0; i < ENTRIES; i++)
        pages[i] = DECKLE_NO_PFN;
    for (unsigned request = 0; request < 1000; request++) {
        size_t n = 0;
        if (refill(d, pages))
            return 1;
        /* Every third page leaves with the answer. */
        for (unsigned i = request % 3; i < ENTRIES; i += 3) {
            sent[n++] = pages[i];
            pages[i] = DECKLE_NO_PFN;
        }
        if (deckle_free_bulk(d, sent, n) != n)
            return 1;
    }
    deckle_free_bulk(d, pages, ENTRIES); /* holes are skipped */

    struct deckle_zone_stat s = {.size = sizeof(s)};
    struct deckle_stat all = {.size = sizeof(all)};
    deckle_get_stat(d, &all);
    for (uint32_t z = 0; z < all.nr_zones; z++) {
        deckle_get_zone_stat(d, z, &s);
        if (s.populated)
            printf("%" PRIu64 " pages given out with %" PRIu64 " entries into the shared level\n",
                   s.allocs[0], s.refills);
    }
    return deckle_destroy(d) != 0;
}
