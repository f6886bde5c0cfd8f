/* SPDX-License-Identifier: MIT */
/*
 * Under pressure: a page cache that takes all memory, gives it up when others need it, and lets its
 * pages be moved so that huge blocks can be had. One thread here; the lock is what several would
 * need.
 */
#include <deckle/linux.h>
#include <deckle/pressure.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct deckle *pool;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *cached; /* by frame: 1 = a page of the cache */
static uint64_t base, frames, in_cache, hand;

static void set(uint64_t pfn, unsigned char is)
{
    pthread_mutex_lock(&lock);
    cached[pfn - base] = is;
    in_cache += is;
    pthread_mutex_unlock(&lock);
}

static uint64_t count(void *ctx, const struct deckle_shrink *shrink)
{
    (void)ctx, (void)shrink;
    pthread_mutex_lock(&lock);
    uint64_t n = in_cache;
    pthread_mutex_unlock(&lock);
    return n;
}

/* The next pages of the cache. Freed outside the lock; in it would be as good: nobody waits. */
static int64_t scan(void *ctx, const struct deckle_shrink *shrink)
{
    int64_t freed = 0;
    (void)ctx;
    for (uint64_t i = 0; i < frames && freed < (int64_t)shrink->nr_to_scan; i++) {
        pthread_mutex_lock(&lock);
        uint64_t at = hand++ % frames;
        int mine = cached[at];
        cached[at] = 0;
        in_cache -= mine;
        pthread_mutex_unlock(&lock);
        if (mine && !deckle_free(pool, base + at, 0))
            freed++;
    }
    return freed;
}

/* Under the lock the page is ours or not; if it is, contents and books move. */
static int migrate(void *ctx, const struct deckle_migration *m)
{
    int result = DECKLE_EBUSY;
    (void)ctx;
    pthread_mutex_lock(&lock);
    if (m->order == 0 && cached[m->from - base]) {
        memcpy(deckle_address(pool, m->to), deckle_address(pool, m->from), 4096);
        cached[m->from - base] = 0;
        cached[m->to - base] = 1;
        result = DECKLE_OK;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static const struct deckle_pressure_hooks hooks = {.size = sizeof(hooks), .migrate = migrate};
static const struct deckle_shrinker page_cache = {
    .size = sizeof(page_cache), .count = count, .scan = scan};

static void fill_cache(void)
{
    const uint32_t gfp = DECKLE_GFP_HIGHUSER_MOVABLE & ~DECKLE_GFP_RECLAIM;
    int64_t pfn;
    while ((pfn = deckle_alloc(pool, gfp | DECKLE_GFP_NOWARN, 0)) >= 0)
        set((uint64_t)pfn, 1);
}

int main(void)
{
    struct deckle_create_options o = {.size = sizeof(o), .bytes = 64 << 20, .pressure = &hooks,
                                      .flags = DECKLE_CREATE_BACKGROUND};
    const uint32_t hard = DECKLE_GFP_HIGHUSER_MOVABLE | DECKLE_GFP_RETRY_MAYFAIL;
    uint64_t huge[4], bytes;

    if (deckle_create(&o, &pool))
        return 1;
    base = (uint64_t)deckle_pfn(pool, deckle_base(pool, &bytes));
    frames = bytes / 4096;
    cached = calloc(frames, 1);
    if (!cached || deckle_register_shrinker(pool, &page_cache))
        return 1;
    fill_cache();
    for (unsigned i = 0; i < 4; i++) {
        int64_t pfn = deckle_alloc(pool, hard, 9);
        if (pfn < 0)
            return 1;
        huge[i] = (uint64_t)pfn;
        fill_cache();
    }
    for (unsigned i = 0; i < 4; i++)
        deckle_free(pool, huge[i], 9);
    const uint64_t pages = 1;
    deckle_tunable_set(pool, "drop_caches", &pages, 1);
    while (deckle_unregister_shrinker(pool, &page_cache) == DECKLE_EBUSY)
        continue; /* the background thread is in it */
    deckle_set_pressure_hooks(pool, NULL);
    const char *name;
    uint64_t value;
    for (uint32_t i = 0; !deckle_vmstat(pool, i, &name, &value); i++)
        if (value)
            printf("%s %" PRIu64 "\n", name, value);
    free(cached);
    return deckle_destroy(pool) != 0;
}
