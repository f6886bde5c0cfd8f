/* SPDX-License-Identifier: MIT */
/*
 * The shared level of one zone: takes free frames out of pageblocks and gives them back. The only
 * place that changes W, the bits and the index together; the caches in front are pcp.c, the policy
 * of which zone may serve whom is alloc.c. The protocols and their proof: zone.c, index.c,
 * docs/design/.
 *
 * Everything here is lock-free and may run in any context. Counters: `set` is the calling CPU's set
 * of the same zone (dk_stat_set); the zone's free count follows every take and give.
 */
#ifndef DK_CORE_ZONE_H
#define DK_CORE_ZONE_H

#include "core/layout.h"
#include "policy/alloc_flags.h"

struct dk_take {
    uint32_t order;
    uint32_t type;      /* enum deckle_migratetype, one of the three cached types */
    uint32_t flags;     /* DK_ALLOC_…: CMA, NOFRAGMENT, HIGHATOMIC; who may use its reserve last */
    uint32_t cpu;       /* calling CPU; >= nr_cpus: owns no block */
    uint64_t limit_pfn; /* blocks must end at or below; 0 = no limit */
};

/* Why the last take came back short (dk_take_result.why). */
enum dk_short { DK_SHORT_NONE, DK_SHORT_EMPTY, DK_SHORT_CONTENDED };

/*
 * Up to want (1 … DK_REFILL_MAX) blocks of take->order; their first frames go to fis, in rising
 * order within a pageblock. Returns how many; fewer than want only when one pageblock did not hold
 * more (one call works on one pageblock when order < 9) or nothing was found. 0: *why is EMPTY when
 * at one instant of the call no fitting block lay outside unfinished operations, else CONTENDED.
 * State bytes are not touched: they are 0 before and after.
 */
unsigned dk_zone_take(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                      const struct dk_take *take, uint32_t *fis, unsigned want, enum dk_short *why);

/* Does nothing that fits lie at the shared level of this zone, as the index shows it now? *version
 * += versions of what was read: two passes over any number of zones that both say yes with equal
 * sums prove that nothing was shown at any instant between them (contract rule 6). */
bool dk_zone_shows_nothing(struct deckle *d, struct dk_zone *zone, const struct dk_take *take,
                           uint64_t *version);

/* Give back n blocks of one order. Their state bytes are 0 and nobody else knows them. Groups those
 * that share a pageblock when they are neighbours in fis. */
void dk_zone_give(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned order,
                  const uint32_t *fis, unsigned n);

/* The block of this order at fi: DECKLE_OK, or DECKLE_EBUSY when not all of it is free. type: the
 * type that whole pageblocks get, DK_NONE = unchanged. */
int dk_zone_take_at(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, uint32_t fi,
                    unsigned order, uint32_t type);

/* An allocated block (order >= 9 among its pageblocks) will be freed in pieces below a pageblock:
 * turn the pageblock that holds fi from "whole" to bits. Only the owner of the block calls it. */
void dk_zone_split_whole(struct deckle *d, uint32_t fi);

/* Frames free now, deltas of the CPUs left out (racy) or summed (exact when quiet). Never below
 * 0. */
uint64_t dk_zone_free_racy(const struct deckle *d, const struct dk_zone *zone);
uint64_t dk_zone_free_exact(const struct deckle *d, const struct dk_zone *zone);

/* Does a free run of >= order exist in a pageblock of these migratetypes (a bit each), as the roots
 * of the index see it? suitable: of which types. */
bool dk_zone_has_run(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                     uint32_t types);
uint32_t dk_zone_suitable(const struct deckle *d, const struct dk_zone *zone, unsigned order);

/* Change the type of a pageblock (not Isolate), its free frames move with it; isolate or end
 * isolation; mark it offline (only from free, isolated blocks). Set-up; false: the block is in a
 * state that does not allow it. */
bool dk_zone_set_type(struct deckle *d, struct dk_zone *zone, uint32_t block, unsigned type);
bool dk_zone_isolate(struct deckle *d, struct dk_zone *zone, uint32_t block, bool isolate);

/* For set-up, before a block can be reached: announce in the index what W says of a block whose W
 * was changed from fresh (0) to w by direct stores. */
void dk_zone_init_block(struct deckle *d, struct dk_span *span, uint32_t block, dk_word w);

#endif
