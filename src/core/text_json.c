/* SPDX-License-Identifier: MIT */
/*
 * Everything that can be looked at as one JSON object: schema "deckle-stat", described in
 * docs/formats/stat.md. A field is never renamed or given another meaning within a version; new
 * fields may appear, so readers ignore what they do not know.
 */
#include "core/text.h"

#include "core/pcp.h"
#include "core/zone.h"
#include "policy/fragmentation.h"

#define SCHEMA_NAME    "deckle-stat"
#define SCHEMA_VERSION 1u

/* A text that knows whether the next member is the first of its object or array. */
struct json {
    struct dk_text t;
    bool first;
};

static void put_key(struct json *j, const char *key)
{
    if (!j->first)
        dk_text_puts(&j->t, ",");
    j->first = false;
    if (key)
        dk_text_printf(&j->t, "\"%s\":", key);
}

/* key NULL: an element of an array. bracket: '{' or '['. */
static void open_group(struct json *j, const char *key, char bracket)
{
    put_key(j, key);
    dk_text_put(&j->t, &bracket, 1);
    j->first = true;
}

static void close_group(struct json *j, char bracket)
{
    dk_text_put(&j->t, &bracket, 1);
    j->first = false;
}

static void put_number(struct json *j, const char *key, uint64_t value)
{
    put_key(j, key);
    dk_text_printf(&j->t, "%llu", DK_LLU(value));
}

/* Every string of the library is plain ASCII without quotes or backslashes: nothing to escape. */
static void put_string(struct json *j, const char *key, const char *text)
{
    put_key(j, key);
    dk_text_printf(&j->t, "\"%s\"", text);
}

/* ---- the pool ------------------------------------------------------------------------------ */

static void put_pool(struct json *j, const struct deckle *d)
{
    put_string(j, "schema", SCHEMA_NAME);
    put_number(j, "version", SCHEMA_VERSION);
    put_string(j, "library", deckle_version());
    put_number(j, "page_shift", d->sb->page_shift);
    put_number(j, "max_order", d->max_order);
    put_number(j, "pageblock_order", DK_BLOCK_ORDER);
    put_number(j, "nr_nodes", d->sb->nr_nodes);
    put_number(j, "nr_cpus", d->nr_cpus);
    put_string(j, "cache_kind", deckle_cache_kind(d));
    put_number(j, "nr_frames", dk_pool_frames(d));
    put_number(j, "metadata_bytes", dk_metadata_bytes(d));
}

static void put_pool_counters(struct json *j, const struct deckle *d)
{
    const struct dk_superblock *sb = d->sb;

    open_group(j, "failures", '{');
    for (int error = DECKLE_EINVAL; error >= DECKLE_EBACKING; error--)
        put_number(j, deckle_error_name(error), dk_counter_read(&sb->failures[-error]));
    close_group(j, '}');
    open_group(j, "bad", '{');
    for (int what = DECKLE_BAD_DOUBLE_FREE; what <= DECKLE_BAD_STATE; what++)
        put_number(j, deckle_bad_name((enum deckle_bad)what), dk_counter_read(&sb->bad[what]));
    close_group(j, '}');
    put_number(j, "split_blocks", dk_counter_read(&sb->split_blocks));
    put_number(j, "remote_drains", dk_counter_read(&sb->remote_drains));
    put_number(j, "drain_retries", dk_counter_read(&sb->drain_retries));
}

/* ---- a zone -------------------------------------------------------------------------------- */

static void put_frames(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    put_number(j, "start_pfn", dk_pfn_load(&zone->start_pfn));
    put_number(j, "spanned", dk_zone_spanned(zone));
    put_number(j, "present", dk_load_relaxed(&zone->present));
    put_number(j, "managed", dk_load_relaxed(&zone->managed));
    put_number(j, "reserved", dk_load_relaxed(&zone->reserved));
    put_number(j, "cma", dk_zone_count(d, zone, DK_COUNT_CMA));
    put_number(j, "free", dk_zone_free_exact(d, zone));
    put_number(j, "free_cma", dk_zone_count(d, zone, DK_COUNT_FREE_CMA));
    put_number(j, "free_highatomic", dk_zone_count(d, zone, DK_COUNT_FREE_HIGHATOMIC));
    put_number(j, "free_isolated", dk_zone_count(d, zone, DK_COUNT_FREE_ISOLATED));
    put_number(j, "cached", dk_zone_cached(d, zone));
}

static void put_marks(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    open_group(j, "watermarks", '{');
    put_number(j, "min", dk_load_relaxed(&zone->min));
    put_number(j, "low", dk_load_relaxed(&zone->low));
    put_number(j, "high", dk_load_relaxed(&zone->high));
    put_number(j, "promo", dk_load_relaxed(&zone->promo));
    put_number(j, "boost", dk_load_relaxed(&zone->boost));
    close_group(j, '}');
    open_group(j, "lowmem_reserve", '{');
    for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        if (dk_zone_type_shown(d, type))
            put_number(j, dk_zone_type_name(type), dk_load_relaxed(&zone->lowmem_reserve[type]));
    close_group(j, '}');
}

static void put_numa(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    struct dk_numa_stat numa;

    dk_zone_numa(d, zone, &numa);
    open_group(j, "numa", '{');
    put_number(j, "hit", numa.hit);
    put_number(j, "miss", numa.miss);
    put_number(j, "foreign", numa.foreign);
    put_number(j, "interleave", numa.interleave);
    put_number(j, "local", numa.local);
    put_number(j, "other", numa.other);
    close_group(j, '}');
}

static void put_blocks(struct json *j, const struct deckle *d, const char *key,
                       const uint64_t blocks[DK_NR_ORDERS])
{
    open_group(j, key, '[');
    for (unsigned order = 0; order <= d->max_order; order++)
        put_number(j, NULL, blocks[order]);
    close_group(j, ']');
}

/* Kept out of line: together their arrays would be too much for one frame of the stack. */
static DK_NOINLINE void put_flow(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t allocs[DK_NR_ORDERS], frees[DK_NR_ORDERS];

    dk_zone_flow(d, zone, allocs, frees);
    put_blocks(j, d, "allocs", allocs);
    put_blocks(j, d, "frees", frees);
}

static void put_traffic(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    struct dk_traffic_stat traffic;

    dk_zone_traffic(d, zone, &traffic);
    put_number(j, "refills", traffic.refills);
    put_number(j, "refill_frames", traffic.refill_frames);
    put_number(j, "drains", traffic.drains);
    put_number(j, "drain_frames", traffic.drain_frames);
    put_number(j, "direct_allocs", traffic.direct_allocs);
    put_number(j, "direct_frees", traffic.direct_frees);
    put_number(j, "fallback_claims", dk_counter_read(&zone->claims));
    put_number(j, "fallback_steals", dk_counter_read(&zone->steals));
}

static DK_NOINLINE void put_migratetypes(struct json *j, const struct deckle *d,
                                         const struct dk_zone *zone)
{
    uint64_t pageblocks[DECKLE_NR_MIGRATETYPES];
    uint64_t blocks[DK_NR_ORDERS];

    dk_zone_pageblocks(d, zone, pageblocks);
    open_group(j, "migratetypes", '{');
    for (unsigned type = 0; type < DECKLE_NR_MIGRATETYPES; type++) {
        open_group(j, dk_migratetype_name(type), '{');
        put_number(j, "pageblocks", pageblocks[type]);
        dk_zone_free_blocks(d, zone, type, blocks);
        put_blocks(j, d, "free_blocks", blocks);
        close_group(j, '}');
    }
    close_group(j, '}');
}

static void put_indices(struct json *j, const struct deckle *d, const uint64_t blocks[DK_NR_ORDERS])
{
    struct dk_free_summary free;

    open_group(j, "unusable_index", '[');
    for (unsigned order = 0; order <= d->max_order; order++) {
        free = dk_free_summarise(blocks, DK_NR_ORDERS, order);
        put_key(j, NULL);
        dk_text_thousandths(&j->t, 1, (int)dk_unusable_index(&free));
    }
    close_group(j, ']');
    open_group(j, "fragmentation_index", '[');
    for (unsigned order = 0; order <= d->max_order; order++) {
        free = dk_free_summarise(blocks, DK_NR_ORDERS, order);
        put_key(j, NULL);
        dk_text_thousandths(&j->t, 1, dk_fragmentation_index(&free));
    }
    close_group(j, ']');
}

static void put_cpus(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    open_group(j, "cpus", '[');
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        open_group(j, NULL, '{');
        put_number(j, "cpu", cpu);
        put_number(j, "node", dk_cpu_node(d, cpu));
        put_number(j, "count", dk_cpu_cached(d, zone, cpu));
        put_number(j, "high", dk_a32_load_relaxed(&dk_set(d, zone->number, cpu)->pages_high));
        close_group(j, '}');
    }
    close_group(j, ']');
}

static DK_NOINLINE void put_zone(struct json *j, const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t blocks[DK_NR_ORDERS];

    open_group(j, NULL, '{');
    put_number(j, "node", zone->node);
    put_string(j, "zone", dk_zone_type_name(zone->type));
    put_frames(j, d, zone);
    put_marks(j, d, zone);
    put_numa(j, d, zone);
    put_flow(j, d, zone);
    put_traffic(j, d, zone);
    dk_zone_free_blocks(d, zone, DK_ANY_TYPE, blocks);
    put_blocks(j, d, "free_blocks", blocks);
    put_indices(j, d, blocks);
    put_migratetypes(j, d, zone);
    put_cpus(j, d, zone);
    close_group(j, '}');
}

void deckle_print_json(const struct deckle *d, deckle_emit_fn emit, void *ctx)
{
    char buf[DK_TEXT_BUFFER];
    uint32_t position = 0;
    const struct dk_zone *zone;
    struct json j = {.first = true};

    dk_text_begin(&j.t, buf, sizeof(buf), emit, ctx);
    open_group(&j, NULL, '{');
    put_pool(&j, d);
    put_pool_counters(&j, d);
    open_group(&j, "zones", '[');
    while ((zone = dk_text_next_zone(d, &position, true)))
        put_zone(&j, d, zone);
    close_group(&j, ']');
    close_group(&j, '}');
    dk_text_puts(&j.t, "\n");
    dk_text_end(&j.t);
}
