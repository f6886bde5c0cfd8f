/* SPDX-License-Identifier: MIT */
/*
 * A kernel stub: what a kernel does at boot, with a made-up memory map. In a real kernel the
 * metadata is mapped where the kernel says, current_cpu() reads a per-CPU register, and
 * direct_map() adds an offset. No lock is taken anywhere, so interrupt handlers may call
 * page_alloc() at any instruction.
 */
#include <deckle.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NR_CPUS 4u

/* The firmware's map: start and length in bytes, not rounded to pages. */
struct entry {
    uint64_t start, bytes;
    int usable;
};
static const struct entry firmware[] = {
    {0x0, 0x9fc00, 1},          {0x9fc00, 0x60400, 0},  {0x100000, 0x7ee0000, 1},
    {0x7fe0000, 0x20000, 0},    {0x8000000, 0x4000000, 1},
};
static const uint64_t kernel_start = 0x200000, kernel_end = 0x6f1234;

static struct deckle *frames;
static _Alignas(64) unsigned char metadata[1 << 20];   /* a kernel finds room for it in the map */
static unsigned char machine_memory[1 << 20];          /* stands for the direct map */

static uint32_t current_cpu(void *ctx)
{
    (void)ctx;
    return 0;
}

static void *direct_map(void *ctx, uint64_t pfn)
{
    (void)ctx;
    return machine_memory + pfn % 256 * 4096;
}

static void bad_page(void *ctx, const struct deckle_bad_report *report)
{
    (void)ctx;
    printf("BUG: bad page state: %s, pfn %" PRIx64 " order %" PRIu32 "\n",
           deckle_bad_name(report->what), report->pfn, report->order);
}

/* Whole pages inside an entry; a reservation takes in the pages that it touches. */
static struct deckle_range pages_of(const struct entry *e)
{
    uint64_t first = (e->start + 4095) >> 12, end = (e->start + e->bytes) >> 12;
    return (struct deckle_range){.pfn = first, .nr = end > first ? end - first : 0};
}

static int page_init(void)
{
    const unsigned n = sizeof(firmware) / sizeof(firmware[0]);
    struct deckle_range map[sizeof(firmware) / sizeof(firmware[0])];
    uint32_t nr = 0;
    for (unsigned i = 0; i < n; i++)
        if (firmware[i].usable && pages_of(&firmware[i]).nr)
            map[nr++] = pages_of(&firmware[i]);
    const struct deckle_config config = {
        .size = sizeof(config), .nr_cpus = NR_CPUS, .ranges = map, .nr_ranges = nr};
    const struct deckle_host host = {
        .size = sizeof(host), .cpu = current_cpu, .map = direct_map, .bad = bad_page};
    if (deckle_metadata_size(&config) > sizeof(metadata))
        return DECKLE_ENOSPC;
    int err = deckle_init(metadata, sizeof(metadata), &config, &host, &frames);
    for (uint32_t i = 0; !err && i < nr; i++)
        err = deckle_add_range(frames, &map[i]);
    if (!err) /* page 0, the kernel image; a real kernel adds boot modules and its metadata */
        err = deckle_reserve_range(frames, 0, 1);
    if (!err)
        err = deckle_reserve_range(frames, kernel_start >> 12,
                                   ((kernel_end + 4095) >> 12) - (kernel_start >> 12));
    return err ? err : deckle_online(frames);
}

static void emit(void *ctx, const char *text, size_t length)
{
    (void)ctx;
    fwrite(text, 1, length, stdout);
}

int main(void)
{
    int err = page_init();
    if (err) {
        printf("page_init: %s\n", deckle_strerror(err));
        return 1;
    }
    deckle_print_buddyinfo(frames, emit, NULL);
    int64_t table = deckle_alloc(frames, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, 0);
    int64_t stack = deckle_alloc(frames, DECKLE_GFP_KERNEL, 2);
    int64_t dma = deckle_alloc(frames, DECKLE_GFP_ATOMIC | DECKLE_GFP_DMA, 4);
    printf("page table %" PRIx64 ", stack %" PRIx64 ", DMA buffer %" PRIx64 "\n", (uint64_t)table,
           (uint64_t)stack, (uint64_t)dma);
    deckle_free(frames, (uint64_t)stack, 1); /* wrong order: refused */
    return table < 0 || stack < 0 || dma < 0 || deckle_free(frames, (uint64_t)stack, 2);
}
