/* SPDX-License-Identifier: MIT */
/* A stranger's program: knows only what is installed. Makes a pool, allocates, frees, ends it. */
#include <deckle.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    struct deckle_range range = {.pfn = 0, .nr = 4096};
    struct deckle_config cfg = {
        .size = sizeof(cfg), .nr_cpus = 1, .ranges = &range, .nr_ranges = 1};
    struct deckle *pool = NULL;
    size_t size = deckle_metadata_size(&cfg);
    void *memory = aligned_alloc(64, (size + 63) / 64 * 64);
    int64_t pfn;

    if (size == 0 || memory == NULL)
        return 1;
    memset(memory, 0, size);
    if (deckle_init(memory, size, &cfg, NULL, &pool) != DECKLE_OK)
        return 1;
    if (deckle_add_range(pool, &range) != DECKLE_OK || deckle_online(pool) != DECKLE_OK)
        return 1;
    pfn = deckle_alloc(pool, DECKLE_GFP_KERNEL, 3);
    if (pfn < 0 || deckle_free(pool, (uint64_t)pfn, 3) != DECKLE_OK)
        return 1;
    if (deckle_exit(pool, NULL) != 0 || strcmp(deckle_version(), DECKLE_VERSION_STRING) != 0)
        return 1;
    printf("C consumer: Deckle %s\n", deckle_version());
    free(memory);
    return 0;
}
