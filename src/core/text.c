/* SPDX-License-Identifier: MIT */
/*
 * The texts of /proc/buddyinfo, /proc/pagetypeinfo, /proc/zoneinfo and debugfs' extfrag, in the
 * format and spelling of Linux, so that what reads those reads these. docs/formats/text.md lists
 * the lines that have no meaning here and are left out.
 */
#include "core/text.h"

#include "core/walk.h"
#include "core/zone.h"
#include "policy/fragmentation.h"

const struct dk_zone *dk_text_zone(const struct deckle *d, uint32_t node, unsigned type)
{
    uint32_t number = dk_zone_number(d, node, type);

    return number < d->sb->nr_zones ? &d->zones[number] : NULL;
}

const struct dk_zone *dk_text_next_zone(const struct deckle *d, uint32_t *position,
                                        bool populated_only)
{
    while (*position < d->sb->nr_nodes * DECKLE_NR_ZONE_TYPES) {
        const struct dk_zone *zone =
            dk_text_zone(d, *position / DECKLE_NR_ZONE_TYPES, *position % DECKLE_NR_ZONE_TYPES);
        (*position)++;
        if (zone && (!populated_only || dk_zone_is_populated(zone)))
            return zone;
    }
    return NULL;
}

void dk_text_thousandths(struct dk_text *t, int width, int thousandths)
{
    if (thousandths < 0)
        dk_text_printf(t, "-%d.%03d", -thousandths / 1000, -thousandths % 1000);
    else
        dk_text_printf(t, "%*d.%03d", width, thousandths / 1000, thousandths % 1000);
}

static void put_zone(struct dk_text *t, const struct dk_zone *zone)
{
    dk_text_printf(t, "Node %u, zone %8s", zone->node, dk_zone_type_name(zone->type));
}

static void put_orders(struct dk_text *t, const struct deckle *d,
                       const uint64_t blocks[DK_NR_ORDERS])
{
    for (unsigned order = 0; order <= d->max_order; order++)
        dk_text_printf(t, "%6llu ", DK_LLU(blocks[order]));
    dk_text_puts(t, "\n");
}

/* ---- buddyinfo ----------------------------------------------------------------------------- */

void deckle_print_buddyinfo(const struct deckle *d, deckle_emit_fn emit, void *ctx)
{
    char buf[DK_TEXT_BUFFER];
    uint64_t blocks[DK_NR_ORDERS];
    uint32_t position = 0;
    const struct dk_zone *zone;
    struct dk_text t;

    dk_text_begin(&t, buf, sizeof(buf), emit, ctx);
    while ((zone = dk_text_next_zone(d, &position, true))) {
        dk_zone_free_blocks(d, zone, DK_ANY_TYPE, blocks);
        put_zone(&t, zone);
        dk_text_puts(&t, " ");
        put_orders(&t, d, blocks);
    }
    dk_text_end(&t);
}

/* ---- pagetypeinfo -------------------------------------------------------------------------- */

/* Linux lists Unmovable first; its numbers differ from ours. */
static const uint8_t linux_type_order[DECKLE_NR_MIGRATETYPES] = {
    DECKLE_UNMOVABLE,  DECKLE_MOVABLE, DECKLE_RECLAIMABLE,
    DECKLE_HIGHATOMIC, DECKLE_CMA,     DECKLE_ISOLATE,
};

static void put_free_by_type(struct dk_text *t, const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t blocks[DK_NR_ORDERS];

    for (unsigned i = 0; i < DECKLE_NR_MIGRATETYPES; i++) {
        unsigned type = linux_type_order[i];

        dk_zone_free_blocks(d, zone, type, blocks);
        dk_text_printf(t, "Node %4u, zone %8s, type %12s ", zone->node,
                       dk_zone_type_name(zone->type), dk_migratetype_name(type));
        put_orders(t, d, blocks);
    }
}

static void put_pageblocks(struct dk_text *t, const struct deckle *d, const struct dk_zone *zone)
{
    uint64_t blocks[DECKLE_NR_MIGRATETYPES];

    dk_zone_pageblocks(d, zone, blocks);
    put_zone(t, zone);
    dk_text_puts(t, " ");
    for (unsigned i = 0; i < DECKLE_NR_MIGRATETYPES; i++)
        dk_text_printf(t, "%12llu ", DK_LLU(blocks[linux_type_order[i]]));
    dk_text_puts(t, "\n");
}

static void put_pagetypeinfo_node(struct dk_text *t, const struct deckle *d, uint32_t node)
{
    const struct dk_zone *zone;

    dk_text_printf(t, "Page block order: %u\nPages per block:  %u\n\n", DK_BLOCK_ORDER,
                   DK_BLOCK_FRAMES);
    dk_text_printf(t, "%-43s ", "Free pages count per migrate type at order");
    for (unsigned order = 0; order <= d->max_order; order++)
        dk_text_printf(t, "%6u ", order);
    dk_text_puts(t, "\n");
    for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        if ((zone = dk_text_zone(d, node, type)) && dk_zone_is_populated(zone))
            put_free_by_type(t, d, zone);

    dk_text_printf(t, "\n%-23s", "Number of blocks type ");
    for (unsigned i = 0; i < DECKLE_NR_MIGRATETYPES; i++)
        dk_text_printf(t, "%12s ", dk_migratetype_name(linux_type_order[i]));
    dk_text_puts(t, "\n");
    for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++)
        if ((zone = dk_text_zone(d, node, type)) && dk_zone_is_populated(zone))
            put_pageblocks(t, d, zone);
}

static bool node_has_memory(const struct deckle *d, uint32_t node)
{
    for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++) {
        const struct dk_zone *zone = dk_text_zone(d, node, type);

        if (zone && dk_zone_is_populated(zone))
            return true;
    }
    return false;
}

/* As in Linux the tables are made node by node, and a node without memory has none. */
void deckle_print_pagetypeinfo(const struct deckle *d, deckle_emit_fn emit, void *ctx)
{
    char buf[DK_TEXT_BUFFER];
    struct dk_text t;

    dk_text_begin(&t, buf, sizeof(buf), emit, ctx);
    for (uint32_t node = 0; node < d->sb->nr_nodes; node++)
        if (node_has_memory(d, node))
            put_pagetypeinfo_node(&t, d, node);
    dk_text_end(&t);
}

/* ---- zoneinfo ------------------------------------------------------------------------------ */

static void put_zone_marks(struct dk_text *t, const struct deckle *d, const struct dk_zone *zone)
{
    const char *separator = "";
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"  pages free     ", dk_zone_free_exact(d, zone)},
        {"        boost    ", dk_load_relaxed(&zone->boost)},
        {"        min      ", dk_load_relaxed(&zone->min)},
        {"        low      ", dk_load_relaxed(&zone->low)},
        {"        high     ", dk_load_relaxed(&zone->high)},
        {"        promo    ", dk_load_relaxed(&zone->promo)},
        {"        spanned  ", dk_zone_spanned(zone)},
        {"        present  ", dk_load_relaxed(&zone->present)},
        {"        managed  ", dk_load_relaxed(&zone->managed)},
        {"        cma      ", dk_zone_count(d, zone, DK_COUNT_CMA)},
    };

    for (unsigned i = 0; i < DK_ARRAY_LEN(lines); i++)
        dk_text_printf(t, "\n%s%llu", lines[i].name, DK_LLU(lines[i].value));
    dk_text_puts(t, "\n        protection: (");
    for (unsigned type = 0; type < DECKLE_NR_ZONE_TYPES; type++) {
        if (!dk_zone_type_shown(d, type))
            continue;
        dk_text_printf(t, "%s%llu", separator,
                       DK_LLU(dk_load_relaxed(&zone->lowmem_reserve[type])));
        separator = ", ";
    }
    dk_text_puts(t, ")");
}

static void put_zone_counters(struct dk_text *t, const struct deckle *d, const struct dk_zone *zone)
{
    struct dk_numa_stat numa;

    dk_zone_numa(d, zone, &numa);
    const struct {
        const char *name;
        uint64_t value;
    } lines[] = {
        {"nr_free_pages", dk_zone_free_exact(d, zone)},
        {"nr_free_cma", dk_zone_count(d, zone, DK_COUNT_FREE_CMA)},
        {"numa_hit", numa.hit},
        {"numa_miss", numa.miss},
        {"numa_foreign", numa.foreign},
        {"numa_interleave", numa.interleave},
        {"numa_local", numa.local},
        {"numa_other", numa.other},
    };

    for (unsigned i = 0; i < DK_ARRAY_LEN(lines); i++)
        dk_text_printf(t, "\n      %-12s %llu", lines[i].name, DK_LLU(lines[i].value));
}

static void put_zone_pagesets(struct dk_text *t, const struct deckle *d, const struct dk_zone *zone)
{
    dk_text_puts(t, "\n  pagesets");
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);

        dk_text_printf(t, "\n    cpu: %u", cpu);
        dk_text_printf(t, "\n              count:    %llu", DK_LLU(dk_cpu_cached(d, zone, cpu)));
        dk_text_printf(t, "\n              high:     %u", dk_a32_load_relaxed(&set->pages_high));
        dk_text_printf(t, "\n              batch:    %u", dk_a32_load_relaxed(&zone->batch));
        dk_text_printf(t, "\n              high_min: %u", dk_a32_load_relaxed(&zone->high_min));
        dk_text_printf(t, "\n              high_max: %u", dk_a32_load_relaxed(&zone->high_max));
        dk_text_printf(t, "\n  vm stats threshold: %llu",
                       DK_LLU(dk_load_relaxed(&zone->stat_threshold)));
    }
}

void deckle_print_zoneinfo(const struct deckle *d, deckle_emit_fn emit, void *ctx)
{
    char buf[DK_TEXT_BUFFER];
    uint32_t position = 0;
    const struct dk_zone *zone;
    struct dk_text t;

    dk_text_begin(&t, buf, sizeof(buf), emit, ctx);
    while ((zone = dk_text_next_zone(d, &position, false))) {
        put_zone(&t, zone);
        put_zone_marks(&t, d, zone);
        if (dk_zone_is_populated(zone)) {
            put_zone_counters(&t, d, zone);
            put_zone_pagesets(&t, d, zone);
            dk_text_printf(&t, "\n  start_pfn:           %llu",
                           DK_LLU(dk_pfn_load(&zone->start_pfn)));
        }
        dk_text_puts(&t, "\n");
    }
    dk_text_end(&t);
}

/* ---- extfrag ------------------------------------------------------------------------------- */

static void put_extfrag_zone(struct dk_text *t, const struct deckle *d, const struct dk_zone *zone,
                             bool fragmentation)
{
    uint64_t blocks[DK_NR_ORDERS];

    dk_zone_free_blocks(d, zone, DK_ANY_TYPE, blocks);
    put_zone(t, zone);
    dk_text_puts(t, " ");
    for (unsigned order = 0; order <= d->max_order; order++) {
        struct dk_free_summary free = dk_free_summarise(blocks, DK_NR_ORDERS, order);

        if (fragmentation)
            dk_text_thousandths(t, 2, dk_fragmentation_index(&free));
        else
            dk_text_thousandths(t, 1, (int)dk_unusable_index(&free));
        dk_text_puts(t, " ");
    }
    dk_text_puts(t, "\n");
}

/* The two files of debugfs, each below its name. */
void deckle_print_extfrag(const struct deckle *d, deckle_emit_fn emit, void *ctx)
{
    static const char *const names[] = {"unusable_index", "extfrag_index"};
    char buf[DK_TEXT_BUFFER];
    const struct dk_zone *zone;
    struct dk_text t;

    dk_text_begin(&t, buf, sizeof(buf), emit, ctx);
    for (unsigned table = 0; table < DK_ARRAY_LEN(names); table++) {
        uint32_t position = 0;

        dk_text_printf(&t, "%s\n", names[table]);
        while ((zone = dk_text_next_zone(d, &position, true)))
            put_extfrag_zone(&t, d, zone, table == 1);
    }
    dk_text_end(&t);
}
