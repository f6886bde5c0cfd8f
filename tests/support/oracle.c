/* SPDX-License-Identifier: MIT */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"

static char complaint[256];

static const char *wrong(const char *what, uint64_t pfn, int64_t got)
{
    snprintf(complaint, sizeof(complaint), "%s (pfn 0x%llx, result %lld %s)", what,
             (unsigned long long)pfn, (long long)got, got < 0 ? deckle_error_name((int)got) : "");
    return complaint;
}

/* ---- maps
 * -------------------------------------------------------------------------------------- */

void oracle_map_random(struct oracle_map *map, uint64_t *random, unsigned page_shift)
{
    memset(map, 0, sizeof(*map));
    uint64_t pfn = test_random_below(random, 4) ? test_random_below(random, 5000) : 0;
    map->nr_ranges = 1 + (uint32_t)test_random_below(random, 4);
    for (uint32_t i = 0; i < map->nr_ranges; i++) {
        uint64_t nr = 1 + test_random_below(random, test_random_below(random, 2) ? 3000 : 600);
        map->ranges[i] = (struct deckle_range){.pfn = pfn, .nr = nr};
        pfn += nr;
        if (test_random_below(random, 3))
            pfn += test_random_below(random, 1200); /* a hole; sometimes none */
    }
    /* Add them in any order. */
    for (uint32_t i = map->nr_ranges; i-- > 1;) {
        uint32_t j = (uint32_t)test_random_below(random, i + 1);
        struct deckle_range r = map->ranges[i];
        map->ranges[i] = map->ranges[j];
        map->ranges[j] = r;
    }
    map->nr_reserved = (uint32_t)test_random_below(random, 5);
    for (uint32_t i = 0; i < map->nr_reserved; i++) {
        map->reserved[i].pfn = test_random_below(random, pfn);
        map->reserved[i].nr = 1 + test_random_below(random, 200);
    }
    map->cfg = (struct deckle_config){
        .size = sizeof(map->cfg),
        .page_shift = page_shift,
        .nr_cpus = 1 + (uint32_t)test_random_below(random, 3),
        .max_order = 9 + (uint32_t)test_random_below(random, 4),
        .min_free_kbytes = UINT64_MAX, /* no marks: a failure must mean that nothing fits */
        .features = (test_random_below(random, 4) ? 0 : DECKLE_FEATURE_NO_CACHES) |
                    (test_random_below(random, 3) ? 0 : DECKLE_FEATURE_DESCRIPTORS) |
                    (test_random_below(random, 3) ? 0 : DECKLE_FEATURE_OWNER_TAGS),
        .ranges = map->ranges,
        .nr_ranges = map->nr_ranges,
        .dma_limit_pfn =
            test_random_below(random, 2) ? 1 + test_random_below(random, 2000) : UINT64_MAX,
        .dma32_limit_pfn = UINT64_MAX,
    };
}

void oracle_map_print(const struct oracle_map *map)
{
    printf("map: page_shift %u max_order %u cpus %u features 0x%x dma_limit 0x%llx\n",
           map->cfg.page_shift, map->cfg.max_order, map->cfg.nr_cpus, map->cfg.features,
           (unsigned long long)map->cfg.dma_limit_pfn);
    for (uint32_t i = 0; i < map->nr_ranges; i++)
        printf("  range 0x%llx + 0x%llx\n", (unsigned long long)map->ranges[i].pfn,
               (unsigned long long)map->ranges[i].nr);
    for (uint32_t i = 0; i < map->nr_reserved; i++)
        printf("  reserved 0x%llx + 0x%llx\n", (unsigned long long)map->reserved[i].pfn,
               (unsigned long long)map->reserved[i].nr);
}

struct oracle *oracle_new(const struct oracle_map *map)
{
    struct oracle *o = calloc(1, sizeof(*o));
    uint64_t end = 0;
    for (uint32_t i = 0; i < map->nr_ranges; i++)
        if (map->ranges[i].pfn + map->ranges[i].nr > end)
            end = map->ranges[i].pfn + map->ranges[i].nr;
    o->nr = end;
    o->max_order = map->cfg.max_order;
    o->frame = calloc(end, 1);
    o->order = calloc(end, 1);
    o->zone = calloc(end, 1);
    o->live = calloc(end, sizeof(*o->live));
    for (uint64_t p = 0; p < end; p++) /* holes too: they have a block, which has a zone */
        o->zone[p] = map->cfg.dma_limit_pfn != UINT64_MAX && p < map->cfg.dma_limit_pfn
                         ? DECKLE_ZONE_DMA
                         : DECKLE_ZONE_NORMAL;
    for (uint32_t i = 0; i < map->nr_ranges; i++)
        for (uint64_t p = map->ranges[i].pfn; p < map->ranges[i].pfn + map->ranges[i].nr; p++)
            o->frame[p] = ORACLE_FREE;
    for (uint32_t i = 0; i < map->nr_reserved; i++)
        for (uint64_t p = map->reserved[i].pfn; p < map->reserved[i].pfn + map->reserved[i].nr; p++)
            if (p < end && o->frame[p] == ORACLE_FREE)
                o->frame[p] = ORACLE_RESERVED;
    return o;
}

void oracle_delete(struct oracle *o)
{
    free(o->frame);
    free(o->order);
    free(o->zone);
    free(o->live);
    free(o);
}

struct deckle *pool_new(const struct oracle_map *map, const struct deckle_host *host, void **memory)
{
    struct deckle *d;
    size_t size = deckle_metadata_size(&map->cfg);
    if (!size) {
        const char *reason = "";
        deckle_config_check(&map->cfg, &reason);
        printf("configuration refused: %s\n", reason);
        return NULL;
    }
    size = (size + 4095) & ~(size_t)4095;
    *memory = aligned_alloc(4096, size);
    memset(*memory, 0, size);
    int err = deckle_init(*memory, size, &map->cfg, host, &d);
    for (uint32_t i = 0; !err && i < map->nr_ranges; i++)
        err = deckle_add_range(d, &map->ranges[i]);
    for (uint32_t i = 0; !err && i < map->nr_reserved; i++)
        err = deckle_reserve_range(d, map->reserved[i].pfn, map->reserved[i].nr);
    if (!err)
        err = deckle_online(d);
    if (err) {
        printf("set-up failed: %s\n", deckle_error_name(err));
        free(*memory);
        return NULL;
    }
    return d;
}

/* ---- the oracle's own view
 * ------------------------------------------------------------------------ */

static bool run_is(const struct oracle *o, uint64_t pfn, uint64_t nr, enum oracle_frame state)
{
    if (pfn >= o->nr || nr > o->nr - pfn)
        return false;
    for (uint64_t p = pfn; p < pfn + nr; p++)
        if (o->frame[p] != state || o->zone[p] != o->zone[pfn])
            return false;
    return true;
}

static bool some_block_free(const struct oracle *o, unsigned order, uint64_t limit)
{
    uint64_t n = 1ull << order;
    for (uint64_t p = 0; p + n <= o->nr && (!limit || p + n <= limit); p += n)
        if (run_is(o, p, n, ORACLE_FREE))
            return true;
    return false;
}

static bool some_range_free(const struct oracle *o, uint64_t nr, uint64_t align, uint64_t min,
                            uint64_t max)
{
    uint64_t run = 0;
    for (uint64_t p = min; p < o->nr && (!max || p < max); p++) {
        bool joins = run && o->zone[p] == o->zone[p - 1];
        run = o->frame[p] != ORACLE_FREE ? 0 : joins ? run + 1 : 1;
        if (run >= nr) {
            uint64_t first = (p + 1 - run + align - 1) / align * align;
            if (p + 1 >= first + nr)
                return true;
        }
    }
    return false;
}

static const char *give_out(struct oracle *o, uint64_t pfn, unsigned order)
{
    uint64_t n = 1ull << order;
    if (pfn & (n - 1))
        return wrong("misaligned block given out", pfn, order);
    if (!run_is(o, pfn, n, ORACLE_FREE))
        return wrong("block given out that is not free", pfn, order);
    memset(o->frame + pfn, ORACLE_TAIL, n);
    o->frame[pfn] = ORACLE_HEAD;
    o->order[pfn] = (uint8_t)order;
    o->live[o->nr_live++] = pfn;
    return NULL;
}

static void take_back(struct oracle *o, uint32_t index)
{
    uint64_t pfn = o->live[index];
    memset(o->frame + pfn, ORACLE_FREE, 1ull << o->order[pfn]);
    o->live[index] = o->live[--o->nr_live];
}

static unsigned piece_order(uint64_t pfn, uint64_t left, unsigned max)
{
    unsigned k = 0;
    while (k < max && !(pfn & (1ull << k)) && left >= 2ull << k)
        k++;
    return k;
}

static const char *give_out_pieces(struct oracle *o, uint64_t pfn, uint64_t nr)
{
    for (uint64_t at = 0; at < nr;) {
        unsigned k = piece_order(pfn + at, nr - at, o->max_order);
        const char *bad = give_out(o, pfn + at, k);
        if (bad)
            return bad;
        at += 1ull << k;
    }
    return NULL;
}

/* ---- operations
 * ------------------------------------------------------------------------------------ */

static const uint32_t gfps[] = {
    DECKLE_GFP_KERNEL, DECKLE_GFP_HIGHUSER_MOVABLE, DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE,
    DECKLE_GFP_NOWAIT, DECKLE_GFP_KERNEL | DECKLE_GFP_COMP};

static uint32_t gfp_of(uint32_t n)
{
    return gfps[n % (sizeof(gfps) / sizeof(gfps[0]))];
}

static const char *op_alloc(struct deckle *d, struct oracle *o, const struct op *op, uint64_t limit)
{
    unsigned order = op->a % (o->max_order + 1);
    struct deckle_request r = {
        .size = sizeof(r), .gfp = gfp_of(op->b), .order = order, .limit_pfn = limit};
    int64_t pfn = limit ? deckle_alloc_request(d, &r) : deckle_alloc(d, gfp_of(op->b), order);
    if (pfn >= 0) {
        if (limit && (uint64_t)pfn + (1ull << order) > limit)
            return wrong("block above the limit", (uint64_t)pfn, (int64_t)limit);
        return give_out(o, (uint64_t)pfn, order);
    }
    if (some_block_free(o, order, limit))
        return wrong("failure although a block is free; order in pfn", order, pfn);
    return NULL;
}

static const char *op_free(struct deckle *d, struct oracle *o, const struct op *op)
{
    if (!o->nr_live)
        return NULL;
    uint32_t i = op->a % o->nr_live;
    uint64_t pfn = o->live[i];
    int err = deckle_free(d, pfn, o->order[pfn]);
    if (err)
        return wrong("free refused", pfn, err);
    take_back(o, i);
    return NULL;
}

static const char *op_bulk(struct deckle *d, struct oracle *o, const struct op *op)
{
    uint64_t pfns[300];
    uint32_t n = 1 + op->a % 300;
    for (uint32_t i = 0; i < n; i++)
        pfns[i] = DECKLE_NO_PFN;
    int64_t got = deckle_alloc_bulk(d, gfp_of(op->b & 3), pfns, n);
    if (got < 0)
        return wrong("bulk refused", n, got);
    for (uint32_t i = 0; i < n; i++) {
        if ((pfns[i] != DECKLE_NO_PFN) != (i < (uint32_t)got))
            return wrong("bulk count does not match the array", i, got);
        const char *bad = i < (uint32_t)got ? give_out(o, pfns[i], 0) : NULL;
        if (bad)
            return bad;
    }
    return !got && some_block_free(o, 0, 0) ? wrong("bulk got nothing", n, got) : NULL;
}

static const char *op_free_bulk(struct deckle *d, struct oracle *o, const struct op *op)
{
    uint64_t pfns[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < o->nr_live && n < 1 + op->a % 64;) {
        if (o->order[o->live[i]] || (i + op->b) % 3) {
            i++;
            continue;
        }
        pfns[n++] = o->live[i];
        take_back(o, i);
    }
    size_t freed = deckle_free_bulk(d, pfns, n);
    return freed == n ? NULL : wrong("bulk free refused some", n, (int64_t)freed);
}

static const char *op_exact(struct deckle *d, struct oracle *o, const struct op *op)
{
    uint64_t nr = 1 + op->a % (op->c & 1 ? 1ull << o->max_order : 40);
    int64_t pfn = deckle_alloc_exact(d, gfp_of(op->b & 3), nr);
    if (pfn >= 0)
        return give_out_pieces(o, (uint64_t)pfn, nr);
    unsigned order = 0;
    while (1ull << order < nr)
        order++;
    return some_block_free(o, order, 0) ? wrong("exact failed", nr, pfn) : NULL;
}

static const char *op_at(struct deckle *d, struct oracle *o, const struct op *op)
{
    unsigned order = op->a % (o->max_order + 1);
    uint64_t pfn = op->b % o->nr & ~((1ull << order) - 1);
    bool can = run_is(o, pfn, 1ull << order, ORACLE_FREE);
    int err = deckle_alloc_at(d, DECKLE_GFP_KERNEL, pfn, order);
    if ((err == DECKLE_OK) != can)
        return wrong(can ? "free block at a place refused" : "block given that is not free", pfn,
                     err);
    return can ? give_out(o, pfn, order) : NULL;
}

static const char *op_contig(struct deckle *d, struct oracle *o, const struct op *op)
{
    uint64_t nr = 1 + op->a % 1500, align = 1ull << (op->b % 8), min = op->c % o->nr,
             max = op->c & 1 ? 0 : min + 1 + op->b % (2 * o->nr);
    int64_t pfn = deckle_alloc_contig(d, DECKLE_GFP_HIGHUSER_MOVABLE, nr, align, min, max);
    if (pfn < 0)
        return some_range_free(o, nr, align, min, max)
                   ? wrong("contig failed; min in pfn", min, pfn)
                   : NULL;
    if ((uint64_t)pfn % align || (uint64_t)pfn < min || (max && (uint64_t)pfn + nr > max))
        return wrong("contig out of bounds", (uint64_t)pfn, (int64_t)nr);
    return give_out_pieces(o, (uint64_t)pfn, nr);
}

static const char *op_split(struct deckle *d, struct oracle *o, const struct op *op)
{
    if (!o->nr_live)
        return NULL;
    uint32_t i = op->a % o->nr_live;
    uint64_t pfn = o->live[i];
    unsigned order = o->order[pfn], to = op->b % (order + 1);
    int err = deckle_split(d, pfn, order, to);
    if (err == DECKLE_EBUSY)
        return NULL; /* compound */
    if (err)
        return wrong("split refused", pfn, err);
    take_back(o, i);
    for (uint64_t at = 0; at < 1ull << order; at += 1ull << to)
        give_out(o, pfn + at, to);
    return NULL;
}

/* A free that the oracle knows to be wrong must be refused. */
static const char *op_wrong_free(struct deckle *d, struct oracle *o, const struct op *op)
{
    uint64_t pfn = op->a % (o->nr + 100);
    unsigned order = op->b % (o->max_order + 3);
    bool right = pfn < o->nr && o->frame[pfn] == ORACLE_HEAD && o->order[pfn] == order;
    if (right)
        return NULL;
    int err = deckle_free(d, pfn, order);
    return err ? NULL : wrong("wrong free accepted; order as result", pfn, order);
}

static const char *op_isolate(struct deckle *d, struct oracle *o, const struct op *op)
{
    uint64_t pfn = op->a % o->nr;
    int type = deckle_pageblock_type(d, pfn);
    if (type < 0 || type == DECKLE_ISOLATE)
        return NULL;
    if (deckle_set_pageblock_type(d, pfn, DECKLE_ISOLATE))
        return wrong("isolation refused", pfn, type);
    if (deckle_pageblock_type(d, pfn) != DECKLE_ISOLATE)
        return wrong("not isolated", pfn, type);
    int64_t got = deckle_alloc(d, DECKLE_GFP_KERNEL, 0);
    if (got >= 0 && (uint64_t)got >> 9 == pfn >> 9 && o->zone[got] == o->zone[pfn])
        return wrong("frame of an isolated block given out", (uint64_t)got, type);
    if (got >= 0)
        deckle_free(d, (uint64_t)got, 0);
    if (deckle_set_pageblock_type(d, pfn, (enum deckle_migratetype)(op->b % 3)))
        return wrong("end of isolation refused", pfn, type);
    return NULL;
}

const char *op_run(struct deckle *d, struct oracle *o, const struct op *op)
{
    switch (op->kind) {
    case OP_ALLOC: return op_alloc(d, o, op, 0);
    case OP_LIMIT: return op_alloc(d, o, op, 1 + op->c % o->nr);
    case OP_FREE: return op_free(d, o, op);
    case OP_BULK: return op_bulk(d, o, op);
    case OP_FREE_BULK: return op_free_bulk(d, o, op);
    case OP_EXACT: return op_exact(d, o, op);
    case OP_AT: return op_at(d, o, op);
    case OP_CONTIG: return op_contig(d, o, op);
    case OP_SPLIT: return op_split(d, o, op);
    case OP_WRONG_FREE: return op_wrong_free(d, o, op);
    case OP_ISOLATE: return op_isolate(d, o, op);
    case OP_DRAIN: return deckle_drain_all(d) ? "drain failed" : NULL;
    default: return "unknown operation";
    }
}

struct op op_random(uint64_t *random, uint32_t kinds)
{
    struct op op;
    do {
        uint64_t r = test_random_below(random, 100);
        op.kind = r < 30   ? OP_ALLOC
                  : r < 65 ? OP_FREE
                           : (uint32_t)test_random_below(random, OP_KINDS);
    } while (!(kinds >> op.kind & 1));
    op.a = (uint32_t)test_random(random);
    op.b = (uint32_t)test_random(random);
    op.c = (uint32_t)test_random(random);
    if (op.kind == OP_ALLOC && test_random_below(random, 3))
        op.a = 0; /* single frames are the common case */
    return op;
}

void op_print(const struct op *op)
{
    static const char *const names[OP_KINDS] = {
        "OP_ALLOC",  "OP_FREE",  "OP_BULK",  "OP_FREE_BULK",  "OP_EXACT",   "OP_AT",
        "OP_CONTIG", "OP_SPLIT", "OP_DRAIN", "OP_WRONG_FREE", "OP_ISOLATE", "OP_LIMIT"};
    printf("    {%s, 0x%xu, 0x%xu, 0x%xu},\n", names[op->kind], op->a, op->b, op->c);
}
