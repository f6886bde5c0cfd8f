/* SPDX-License-Identifier: MIT */
/*
 * Tunables by their Linux names (reference: 3.15): one table of what each is called, means and may
 * be; reading and writing go by its kind. Those of the reference that are missing here have nothing
 * to act on: there are no page lists to age, no statistics that could be left out, and one order of
 * nodes.
 *
 * A write checks all values before the first is stored, then lets follow what depends on it: marks,
 * reserves, caches.
 */
#include "base/div64.h"
#include "base/mem.h"
#include "core/pressure.h"
#include "core/setup.h"
#include "policy/fragmentation.h"
#include "policy/pcp_size.h"
#include "policy/reclaim.h"
#include "policy/watermark_setup.h"

enum kind { WORD, MIN_FREE, SCALE, BOOST, FRACTION, COMPACT, DROP };

struct row {
    const char *name, *unit, *what;
    uint64_t min, max, initial;
    size_t offset; /* of the first value in struct dk_tunables */
    uint8_t kind, nr;
};

#define AT(field) offsetof(struct dk_tunables, field)

static const struct row rows[] = {
    {"min_free_kbytes", "KiB", "Memory that the min marks of all zones keep free; 0 = by formula.",
     0, UINT64_MAX >> 11, 0, 0, MIN_FREE, 1},
    {"watermark_scale_factor", "of 10000 of a zone", "Distance between the marks of a zone.", 1,
     DK_SCALE_FACTOR_MOST, DK_SCALE_FACTOR_DEFAULT, 0, SCALE, 1},
    {"watermark_boost_factor", "of 10000 of the high mark",
     "How far marks rise when pageblocks of several types mix; 0 = never. Without background "
     "reclaim they never do.",
     0, INT32_MAX, DK_BOOST_FACTOR_DEFAULT, AT(watermark_boost_factor), BOOST, 1},
    {"lowmem_reserve_ratio", "1 of so many", "What a zone keeps from requests that could do with "
     "a higher one, by zone: a part of the frames above it; 0 = nothing.",
     0, UINT32_MAX, 0, AT(lowmem_reserve_ratio), WORD, DECKLE_NR_ZONE_TYPES},
    {"percpu_pagelist_high_fraction", "1 of so many",
     "Share of a zone that the caches of all its CPUs may hold; 0 = by the marks and by use.", 0,
     UINT32_MAX, 0, AT(percpu_pagelist_high_fraction), FRACTION, 1},
    {"zone_reclaim_mode", "bits", "Reclaim a node before requests leave it: 1 on, 2 with I/O, 4 "
     "with unmapping.",
     0, 7, 0, AT(zone_reclaim_mode), WORD, 1},
    {"min_unmapped_ratio", "% of a node", "Node reclaim needs more reclaimable frames than this "
     "outside slab caches, or …", 0, 100, 1, AT(min_unmapped_ratio), WORD, 1},
    {"min_slab_ratio", "% of a node", "… more than this in slab caches.", 0, 100, 5,
     AT(min_slab_ratio), WORD, 1},
    {"compaction_proactiveness", "0 to 100", "How much fragmentation background compaction does "
     "not wait to be asked for; 0 = any.",
     0, 100, DK_PROACTIVENESS_DEFAULT, AT(compaction_proactiveness), WORD, 1},
    {"extfrag_threshold", "fragmentation index", "Large requests compact a zone above this index "
     "and reclaim below it.",
     0, 1000, DK_EXTFRAG_THRESHOLD_DEFAULT, AT(extfrag_threshold), WORD, 1},
    {"defrag_mode", "0 or 1", "Reclaim and compact rather than mix types in a pageblock.", 0, 1, 0,
     AT(defrag_mode), WORD, 1},
    {"compact_memory", "1", "Writing 1 compacts all zones.", 1, 1, 0, 0, COMPACT, 1},
    {"drop_caches", "bits", "Writing has shrinkers free all they can: 1 pages, 2 slab caches.", 1,
     3, 0, 0, DROP, 1},
};

static dk_a32 *word_of(const struct deckle *d, const struct row *row, uint32_t i)
{
    return (dk_a32 *)(void *)((unsigned char *)&d->sb->vm + row->offset) + i;
}

static uint64_t initial_of(const struct row *row, uint32_t i)
{
    return row->offset == AT(lowmem_reserve_ratio) && row->nr > 1
               ? dk_lowmem_reserve_ratio_default[i]
               : row->initial;
}

void dk_tunables_init(struct dk_superblock *sb)
{
    struct dk_tunables *vm = &sb->vm;
    for (unsigned i = 0; i < DECKLE_NR_ZONE_TYPES; i++)
        dk_a32_store_relaxed(&vm->lowmem_reserve_ratio[i], dk_lowmem_reserve_ratio_default[i]);
    dk_a32_store_relaxed(&vm->watermark_boost_factor, DK_BOOST_FACTOR_DEFAULT);
    dk_a32_store_relaxed(&vm->min_unmapped_ratio, 1);
    dk_a32_store_relaxed(&vm->min_slab_ratio, 5);
    dk_a32_store_relaxed(&vm->compaction_proactiveness, DK_PROACTIVENESS_DEFAULT);
    dk_a32_store_relaxed(&vm->extfrag_threshold, DK_EXTFRAG_THRESHOLD_DEFAULT);
}

void dk_update_boost_factor(struct deckle *d)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    bool ends = hooks && hooks->wake;
    dk_a32_store_relaxed(&d->sb->boost_factor,
                         ends ? dk_a32_load_relaxed(&d->sb->vm.watermark_boost_factor) : 0);
    for (uint32_t i = 0; i < d->sb->nr_zones && !ends; i++)
        dk_store_relaxed(&d->zones[i].boost, 0);
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

static const struct row *find(const char *name)
{
    for (size_t i = 0; name && i < DK_ARRAY_LEN(rows); i++)
        if (same(rows[i].name, name))
            return &rows[i];
    return NULL;
}

int deckle_tunable_info(uint32_t index, struct deckle_tunable *out)
{
    const struct row *row;
    if (!out || out->size < sizeof(*out))
        return DECKLE_EINVAL;
    if (index >= DK_ARRAY_LEN(rows))
        return DECKLE_ENOENT;
    row = &rows[index];
    *out = (struct deckle_tunable){.size = out->size,
                                   .flags = row->kind >= COMPACT ? DECKLE_TUNABLE_WRITE_ONLY : 0,
                                   .name = row->name, .unit = row->unit, .what = row->what,
                                   .nr_values = row->nr, .min = row->min, .max = row->max};
    for (uint32_t i = 0; i < row->nr; i++)
        out->initial[i] = initial_of(row, i);
    return DECKLE_OK;
}

/* What holds now: the larger of what was configured and the formula. */
static uint64_t min_free_kbytes(const struct deckle *d)
{
    uint64_t frames = 0;
    for (uint32_t i = 0; i < d->sb->nr_zones; i++)
        if (!dk_zone_is_highmem_or_movable((enum deckle_zone_type)d->zones[i].type))
            frames += dk_load_relaxed(&d->zones[i].min);
    return dk_max64(d->sb->no_watermarks ? 0 : d->sb->min_free_kbytes,
                    frames << (d->sb->page_shift - 10));
}

int deckle_tunable_get(const struct deckle *d, const char *name, uint64_t *values, uint32_t nr)
{
    const struct row *row = find(name);
    if (!row)
        return DECKLE_ENOENT;
    if (row->kind >= COMPACT)
        return DECKLE_ENOTSUP;
    if (!d || !values || nr < row->nr)
        return DECKLE_EINVAL;
    if (row->kind == MIN_FREE)
        values[0] = min_free_kbytes(d);
    else if (row->kind == SCALE)
        values[0] = d->sb->watermark_scale_factor;
    else
        for (uint32_t i = 0; i < row->nr; i++)
            values[i] = dk_a32_load_relaxed(word_of(d, row, i));
    return row->nr;
}

/* ---- changing -------------------------------------------------------------------------------- */

static bool in_range(const struct row *row, const uint64_t *values)
{
    for (uint32_t i = 0; i < row->nr; i++)
        if (values[i] < row->min || values[i] > row->max)
            return false;
    return row->kind != FRACTION || !values[0] || values[0] >= DK_PCP_FRACTION_LEAST;
}

static int compact_everything(struct deckle *d)
{
    for (uint32_t i = 0; i < d->sb->nr_zones; i++) {
        int64_t n = deckle_compact_zone(d, i, NULL);
        if (n < 0)
            return (int)n;
    }
    return DECKLE_OK;
}

#define DROP_ROUNDS 100u

/* As long as a round over all nodes frees something, and not for ever. */
static int drop_caches(struct deckle *d, uint64_t which)
{
    struct dk_reclaim_scope scope;
    struct dk_shrink_call call = {.d = d, .gfp = DECKLE_GFP_KERNEL,
                                  .highest = DECKLE_ZONE_MOVABLE,
                                  .deny = which & 2 ? 0 : DECKLE_SHRINKER_SLAB};
    uint64_t freed = 1;
    if (!dk_reclaim_enter(d, dk_current_task(d), &scope))
        return DECKLE_EBUSY;
    call.task = scope.task;
    call.only_slab = which == 2;
    for (unsigned round = 0; round < DROP_ROUNDS && freed; round++) {
        freed = 0;
        for (uint32_t node = 0; node < d->sb->nr_nodes; node++)
            freed += dk_shrink_node(&call, node, 0, UINT64_MAX);
    }
    dk_reclaim_leave(d, &scope);
    return DECKLE_OK;
}

static void store(struct deckle *d, const struct row *row, const uint64_t *values)
{
    if (row->kind == MIN_FREE) {
        d->sb->min_free_kbytes = values[0];
        d->sb->no_watermarks = 0;
    } else if (row->kind == SCALE) {
        d->sb->watermark_scale_factor = (uint32_t)values[0];
    } else {
        for (uint32_t i = 0; i < row->nr; i++)
            dk_a32_store_relaxed(word_of(d, row, i), (uint32_t)values[i]);
    }
}

int deckle_tunable_set(struct deckle *d, const char *name, const uint64_t *values, uint32_t nr)
{
    const struct row *row = find(name);
    if (!row)
        return DECKLE_ENOENT;
    if (!d || !values || nr != row->nr || !in_range(row, values))
        return DECKLE_EINVAL;
    if (dk_a32_load_relaxed(&d->slow) & DK_SLOW_STRANGER)
        return DECKLE_EPERM;
    if (row->kind == COMPACT)
        return compact_everything(d);
    if (row->kind == DROP)
        return drop_caches(d, values[0]);
    store(d, row, values);
    if (row->kind == BOOST)
        dk_update_boost_factor(d);
    dk_update_marks(d);
    return DECKLE_OK;
}
