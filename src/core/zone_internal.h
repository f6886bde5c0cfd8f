/* SPDX-License-Identifier: MIT */
/*
 * What the files of the shared level share: zone.c (orders inside a pageblock), group.c (whole
 * pageblocks and groups), zone_set.c (types, isolation, given frames); set-up (online.c, offline.c)
 * uses it for blocks that come and go. Nobody else includes it.
 */
#ifndef DK_CORE_ZONE_INTERNAL_H
#define DK_CORE_ZONE_INTERNAL_H

#include "core/block.h"
#include "core/index.h"
#include "core/intent.h"
#include "core/section.h"
#include "core/zone.h"

/* One call on the shared level: where it works and what for. */
struct dk_call {
    struct deckle *d;
    struct dk_zone *zone;
    struct dk_pcp_set *set;
    const struct dk_take *take;
    dk_aword *intent; /* shared pools: the call's slot (intent.h) */
};

/* Iterate the spans of a zone. */
static inline struct dk_span *dk_span_at(const struct deckle *d, uint32_t number_plus_1)
{
    return number_plus_1 ? &d->spans[number_plus_1 - 1] : NULL;
}
#define DK_FOR_EACH_SPAN(d, zone, span)                                                            \
    for (struct dk_span *span = dk_span_at(d, dk_a32_load_acquire(&(zone)->first_span)); span;     \
         span = dk_span_at(d, dk_a32_load_acquire(&span->next_in_zone)))

struct dk_span *dk_span_of_block(const struct deckle *d, const struct dk_zone *zone,
                                 uint32_t block);

/* Count what a change of W did to the zone; or to an epoch of it, in shared pools. */
void dk_zone_account(struct dk_call *c, dk_word from, dk_word to);
void dk_zone_account_in(const struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set,
                        unsigned epoch, dk_word from, dk_word to);

/* n frames of the block came back and their bits are clear: add them, raise the run, show the
 * block. n may be 0: what a rolled-back claim owes. */
void dk_block_give(struct dk_call *c, const struct dk_span *span, uint32_t block, unsigned n);

/* Up to want runs of c->take->order (below a pageblock) of just this pageblock, whatever its type.
 */
unsigned dk_block_take(struct dk_call *c, const struct dk_span *span, uint32_t block, uint32_t *fis,
                       unsigned want);
/* Name the block in the call's slot, if it has one. false: a shared pool, and no slot was free. */
static inline bool dk_intent_named(struct dk_call *c, uint32_t block)
{
    dk_intent_begin(c->intent, block);
    return c->intent || !c->d->intents;
}

/* A give that found no slot for its intent: the frames lose their tags and the block is closed
 * until somebody counts it again (reap.c), who finds them free. */
void dk_block_abandon(struct dk_call *c, const struct dk_span *span, uint32_t block, unsigned order,
                      const uint32_t *fis, unsigned n);
/* Close a block to takers until it is counted again. */
void dk_block_quarantine(struct deckle *d, const struct dk_span *span, uint32_t block);

/* Does a block that the address limit cuts have a run below it? Asked before anything is reserved:
 * a reservation that is undone advances the version, and may have changed the type, for nothing. */
static inline bool dk_runs_below(const struct dk_call *c, uint32_t block, unsigned limit)
{
    return dk_line_run_code_below(dk_line(c->d, block), limit) + c->take->order <= DK_BLOCK_ORDER;
}

/* zone_empty.c: at one instant of the call no block that fits lay outside unfinished operations
 * (contract rule 6). */
bool dk_zone_was_empty(struct dk_call *c);

/* The block as a whole: from free to allocated with this type (DK_NONE = its own; false if it may
 * not have it), and back. isolated: take it although it is isolated. */
bool dk_block_take_whole(struct dk_call *c, const struct dk_span *span, uint32_t block,
                         uint32_t type, bool isolated);
void dk_block_give_whole(struct dk_call *c, const struct dk_span *span, uint32_t block);

/* Orders above a pageblock: as dk_zone_take, one search. */
unsigned dk_group_take(struct dk_call *c, uint32_t *fis, unsigned want);

/*
 * The stretches of a zone that a request may use, one after the other: whole spans, or with an
 * address limit the sections below it. Items first … whole-1 may be used entirely; of item `whole`
 * the frames below `partial` (0 = none of it).
 */
struct dk_window {
    const struct dk_span *span;
    uint32_t first, whole;
    unsigned partial;
    uint64_t next; /* pfn from which to look for the next section */
};
bool dk_window_next(const struct dk_call *c, struct dk_window *w);
#define DK_FOR_EACH_WINDOW(c, w) for (struct dk_window w = {0}; dk_window_next(c, &w);)

#endif
