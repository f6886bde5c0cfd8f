/* SPDX-License-Identifier: MIT */
/*
 * Own memory: you say which frames exist and where the metadata lives. Frames are numbers here
 * (they could be on a device); Deckle never touches them.
 */
#include <deckle.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    const struct deckle_range ranges[] = {
        {.pfn = 0x100, .nr = 0x9f00},     /* a hole follows */
        {.pfn = 0x100000, .nr = 0x10000}, /* 256 MiB above 4 GiB */
    };
    const struct deckle_config config = {
        .size = sizeof(config), .nr_cpus = 1, .ranges = ranges, .nr_ranges = 2};
    const char *reason;
    struct deckle *d;
    char text[256];

    size_t bytes = deckle_metadata_size(&config);
    if (!bytes) {
        deckle_config_check(&config, &reason);
        fprintf(stderr, "configuration: %s\n", reason);
        return 1;
    }
    bytes = (bytes + 63) & ~(size_t)63;
    void *metadata = aligned_alloc(64, bytes);
    memset(metadata, 0, bytes);
    if (deckle_init(metadata, bytes, &config, NULL, &d))
        return 1;
    for (size_t i = 0; i < 2; i++)
        if (deckle_add_range(d, &ranges[i]))
            return 1;
    deckle_reserve_range(d, 0x1000, 0x800); /* firmware, a kernel image: never given out */
    if (deckle_online(d))
        return 1;
    printf("%zu bytes of metadata for %d frames\n", bytes, 0x9f00 + 0x10000);

    int64_t anywhere = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);
    int64_t low = deckle_alloc(d, DECKLE_GFP_DMA, 0); /* below 16 MiB */
    struct deckle_request request = {.size = sizeof(request),
                                     .gfp = DECKLE_GFP_KERNEL,
                                     .order = 9,
                                     .limit_pfn = 0x8000}; /* a device that sees 128 MiB */
    int64_t limited = deckle_alloc_request(d, &request);
    int64_t wide = deckle_alloc_contig(d, DECKLE_GFP_KERNEL, 3000, 1, 0, 0);
    if (anywhere < 0 || low < 0 || limited < 0 || wide < 0)
        return 1;
    printf("anywhere 0x%" PRIx64 ", DMA 0x%" PRIx64 ", 2 MiB below 128 MiB 0x%" PRIx64
           ", 3000 in a row 0x%" PRIx64 "\n",
           (uint64_t)anywhere, (uint64_t)low, (uint64_t)limited, (uint64_t)wide);
    deckle_free(d, (uint64_t)anywhere, 0);
    deckle_free(d, (uint64_t)low, 0);
    deckle_free(d, (uint64_t)limited, 9);
    deckle_free_exact(d, (uint64_t)wide, 3000);
    if (deckle_validate(d, text, sizeof(text))) {
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    uint64_t leaked = deckle_exit(d, NULL);
    free(metadata);
    return leaked != 0;
}
