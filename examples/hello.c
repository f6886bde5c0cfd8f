/* SPDX-License-Identifier: MIT */
/* Hello: a pool of 64 MiB on Linux, a block of eight frames, a wrong free that is refused. */
#include <deckle/linux.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void refused(void *ctx, const struct deckle_bad_report *report)
{
    (void)ctx;
    printf("refused: %s of frame 0x%" PRIx64 "\n", deckle_bad_name(report->what), report->pfn);
}

int main(void)
{
    struct deckle_create_options options = {
        .size = sizeof(options), .bytes = 64 << 20, .bad = refused};
    struct deckle *d;
    int err = deckle_create(&options, &d);
    if (err) {
        fprintf(stderr, "deckle_create: %s\n", deckle_strerror(err));
        return 1;
    }
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL, 3);
    if (pfn < 0) {
        fprintf(stderr, "deckle_alloc: %s\n", deckle_strerror((int)pfn));
        return 1;
    }
    memset(deckle_address(d, (uint64_t)pfn), 0x42, 8 * 4096);
    printf("eight frames at pfn 0x%" PRIx64 ", caches: %s\n", (uint64_t)pfn, deckle_cache_kind(d));

    deckle_free(d, (uint64_t)pfn, 3);
    deckle_free(d, (uint64_t)pfn, 3); /* once too often */
    return deckle_destroy(d) != 0;
}
