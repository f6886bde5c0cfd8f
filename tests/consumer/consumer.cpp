/* SPDX-License-Identifier: MIT */
/* The same stranger in C++: every public header is C++, and its functions link. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <deckle.h>

int main()
{
    struct deckle_range range = {};
    struct deckle_config cfg = {};
    struct deckle *pool = nullptr;

    range.nr = 4096;
    cfg.size = sizeof(cfg);
    cfg.nr_cpus = 1;
    cfg.ranges = &range;
    cfg.nr_ranges = 1;
    std::size_t size = deckle_metadata_size(&cfg);
    void *memory = std::aligned_alloc(64, (size + 63) / 64 * 64);
    if (size == 0 || memory == nullptr)
        return 1;
    std::memset(memory, 0, size);
    if (deckle_init(memory, size, &cfg, nullptr, &pool) != DECKLE_OK ||
        deckle_add_range(pool, &range) != DECKLE_OK || deckle_online(pool) != DECKLE_OK)
        return 1;
    std::int64_t pfn = deckle_alloc(pool, DECKLE_GFP_KERNEL, 0);
    if (pfn < 0 || deckle_free(pool, static_cast<std::uint64_t>(pfn), 0) != DECKLE_OK)
        return 1;
    if (deckle_exit(pool, nullptr) != 0)
        return 1;
    std::printf("C++ consumer: Deckle %s\n", deckle_version());
    std::free(memory);
    return 0;
}
