/* SPDX-License-Identifier: MIT */
/* Calls that look after a pool rather than allocate: caches, types of pageblocks, small
 * questions. */
#include "core/blockinfo.h"
#include "core/client.h"
#include "core/intent.h"
#include "core/pcp.h"
#include "core/reap.h"
#include "core/recount.h"
#include "core/zone.h"

/* ---- caches ---------------------------------------------------------------------------------- */

int deckle_drain_all(struct deckle *d)
{
    int result = DECKLE_OK;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (d->tags)
        dk_recount_abandoned(d);
    for (uint32_t z = 0; z < d->sb->nr_zones; z++) {
        int err = dk_pcp_drain_zone(d, &d->zones[z], NULL);
        if (err)
            result = err;
    }
    return result;
}

int deckle_drain_cpu(struct deckle *d, uint32_t cpu)
{
    int result = DECKLE_OK;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (cpu >= d->nr_cpus)
        return DECKLE_EINVAL;
    for (uint32_t z = 0; z < d->sb->nr_zones; z++) {
        int err = dk_pcp_drain_cpu(d, &d->zones[z], cpu, NULL);
        if (err)
            result = err;
    }
    return result;
}

const char *deckle_cache_kind(const struct deckle *d)
{
    static const char *const names[] = {"none", "cells", "rseq"};
    return names[d->kind];
}

/* ---- pageblocks ------------------------------------------------------------------------------ */

static bool find_block(const struct deckle *d, uint64_t pfn, uint32_t *block, uint32_t *zone)
{
    uint32_t fi;
    if (!dk_pfn_to_fi(d, pfn, &fi, zone))
        return false;
    *block = fi / DK_BLOCK_FRAMES;
    return true;
}

int deckle_pageblock_type(const struct deckle *d, uint64_t pfn)
{
    uint32_t block, zone;
    if (!find_block(d, pfn, &block, &zone))
        return DECKLE_ENOENT;
    dk_word w = dk_load_relaxed(&d->words[block]);
    return w & DK_W_ISOLATED ? DECKLE_ISOLATE : (int)dk_w_type(w);
}

/*
 * Isolation closes the caches of the zone, so that frees of the block do not end in one, and drains
 * them. Which blocks are isolated is written in the blocks; the zone counts how many keep its
 * caches closed.
 */
static int change_type(struct deckle *d, struct dk_zone *zone, uint32_t block,
                       enum deckle_migratetype type)
{
    if (type == DECKLE_ISOLATE) {
        dk_pcp_close(d, zone);
        if (dk_zone_isolate(d, zone, block, true))
            return DECKLE_OK;
        dk_pcp_open(d, zone);
        return DECKLE_EBUSY;
    }
    if (!dk_zone_set_type(d, zone, block, type))
        return DECKLE_EBUSY;
    if (dk_zone_isolate(d, zone, block, false))
        dk_pcp_open(d, zone);
    return DECKLE_OK;
}

/* In a shared pool a slot says meanwhile that this client changes types: if it dies, its reaper
 * counts again how many blocks keep the caches closed. */
int deckle_set_pageblock_type(struct deckle *d, uint64_t pfn, enum deckle_migratetype type)
{
    uint32_t block, number;
    dk_aword *intent;
    if ((unsigned)type >= DECKLE_NR_MIGRATETYPES)
        return DECKLE_EINVAL;
    if (!dk_may_change(d))
        return DECKLE_EPERM;
    if (!find_block(d, pfn, &block, &number))
        return DECKLE_ENOENT;
    if (!dk_intent_open_for(d, &intent, d->client))
        return DECKLE_ECONTENDED;
    int err = change_type(d, &d->zones[number], block, type);
    dk_intent_close(intent);
    return err;
}

/* ---- small questions
 * -------------------------------------------------------------------------- */

uint32_t deckle_page_shift(const struct deckle *d)
{
    return d->sb->page_shift;
}

uint32_t deckle_max_order(const struct deckle *d)
{
    return d->max_order;
}

uint64_t deckle_bytes_to_pages(const struct deckle *d, uint64_t bytes)
{
    uint64_t pages = (bytes >> d->sb->page_shift) +
                     ((bytes & (((uint64_t)1 << d->sb->page_shift) - 1)) != 0);
    return pages <= (uint64_t)1 << d->max_order ? pages : 0;
}

int deckle_order_for(const struct deckle *d, uint64_t nr)
{
    if (!nr)
        return DECKLE_EINVAL;
    unsigned order = nr > 1 ? dk_fls64(nr - 1) + 1 : 0;
    return order <= d->max_order ? (int)order : DECKLE_E2BIG;
}
