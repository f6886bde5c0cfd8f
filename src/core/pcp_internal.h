/* SPDX-License-Identifier: MIT */
/*
 * What the files of the per-CPU caches share: pcp.c (entry points), pcp_size.c (how large lists
 * are), pcp_rseq.c and pcp_cells.c (the two kinds). Nobody else includes it.
 */
#ifndef DK_CORE_PCP_INTERNAL_H
#define DK_CORE_PCP_INTERNAL_H

#include "core/pcp.h"
#include "core/zone.h"
#include "policy/pcp_size.h"

/* Rounds in which somebody who empties a list may be disturbed before he reports CONTENDED. */
#define DK_PCP_ROUNDS 16u

#define DK_ALL_LISTS (((uint64_t)1 << DK_PCP_LISTS) - 1)

static inline unsigned dk_list_order(unsigned list)
{
    return list / DK_PCP_TYPES;
}

/* Entries that one step of a drain or refill moves at most: what a stopped thread may withhold. */
static inline unsigned dk_pcp_step(unsigned order)
{
    return order <= 6 ? DK_REFILL_MAX : DK_REFILL_MAX >> (order - 6);
}

/* Give entries taken from a list back to the shared level and count it as one drain. */
void dk_pcp_give(struct deckle *d, struct dk_zone *zone, unsigned list, const uint32_t *fis,
                 unsigned n);

/*
 * The two kinds, with one meaning. pop and push work on the list of the CPU they find themselves on
 * and move 1 … DK_REFILL_MAX entries, as many as there are or fit; *lh = the list they worked on,
 * if they moved any. drain empties the lists of one CPU named by a mask, by whomever it is called;
 * forced lists are stopped even if they look empty, so that operations in flight end before it
 * returns.
 */
unsigned dk_stack_pop_bulk(struct deckle *d, uint32_t zone, unsigned list,
                           uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh);
unsigned dk_stack_push_bulk(struct deckle *d, uint32_t zone, unsigned list,
                            const uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh);
int dk_stack_drain(struct deckle *d, struct dk_zone *zone, uint32_t cpu, uint64_t lists, bool force,
                   uint64_t *moved);
uint64_t dk_stack_version(const struct dk_pcp_list_head *lh, uint32_t *held);
void dk_stack_stat(const struct dk_pcp_list_head *lh, struct dk_pcp_list_stat *out);

unsigned dk_cells_pop_bulk(struct deckle *d, uint32_t zone, unsigned list,
                           uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh);
unsigned dk_cells_push_bulk(struct deckle *d, uint32_t zone, unsigned list,
                            const uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh);
/* The end of a push whose phase wrapped or that met a list not plainly live. false: the list is
 * closed and the frame is back in the caller's hands. */
bool dk_cells_push_ends(struct dk_pcp_list_head *lh, dk_aword *cell, dk_word filled);
int dk_cells_drain(struct deckle *d, struct dk_zone *zone, uint32_t cpu, uint64_t lists, bool force,
                   uint64_t *moved);
uint64_t dk_cells_version(const struct dk_pcp_list_head *lh, uint32_t *held);
void dk_cells_stat(const struct deckle *d, const struct dk_pcp_set *set, unsigned list,
                   struct dk_pcp_list_stat *out);

/* pcp_steal.c: a full cell that is not this client's. false: it could not be taken over now. */
bool dk_cells_steal(struct deckle *d, struct dk_zone *zone, struct dk_pcp_list_head *lh,
                    unsigned list, dk_aword *at, dk_word cell, uint64_t *moved);
/* The rest of it, for a cell in transit to this client; closes the intent. Frames won. */
uint64_t dk_cells_finish_transit(struct deckle *d, struct dk_zone *zone, unsigned list,
                                 dk_aword *at, dk_word transit, dk_aword *intent);
/* Does the cell name a client and a block that exist? */
bool dk_cell_is_sound(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                      dk_word cell);

/* Either kind, for callers that do not care. */
unsigned dk_pcp_take(struct deckle *d, uint32_t zone, unsigned list, uint32_t *fis, unsigned n,
                     struct dk_pcp_list_head **lh);
unsigned dk_pcp_put(struct deckle *d, uint32_t zone, unsigned list, const uint32_t *fis, unsigned n,
                    struct dk_pcp_list_head **lh);

/* Up to n entries of the list of this CPU go to the shared level; returns how many. */
unsigned dk_pcp_drain_own(struct deckle *d, struct dk_zone *zone, unsigned list, unsigned n);

/* pcp_tune.c: a free found the list of this CPU full. true: it is worth another try. */
bool dk_pcp_make_room(struct deckle *d, struct dk_zone *zone, uint32_t cpu, unsigned list);
/* The list has just been filled or emptied by other hands than the fast paths'. */
void dk_pcp_mark_seen(const struct deckle *d, struct dk_pcp_list_head *lh);
/* high = 0, in a way that stands against whoever is raising it now. After zone->stopped was raised.
 */
void dk_pcp_shut_list(const struct deckle *d, struct dk_pcp_set *set, unsigned list);
/* Shared pools: what a dead client had reserved of the budget and not given to a list. */
void dk_pcp_recount_high(const struct deckle *d, struct dk_pcp_set *set);
/* All lists of the set to their base size, as far as the budget goes and unless the zone is closed.
 */
void dk_pcp_rest_set(const struct deckle *d, const struct dk_zone *zone, struct dk_pcp_set *set);

/* Entries in the list, as its head says: racy, and for cells a guess. */
static inline uint32_t dk_pcp_count_racy(const struct deckle *d, const struct dk_pcp_list_head *lh)
{
    dk_word head = dk_load_relaxed(&lh->head);
    return d->kind == DK_PCP_CELLS ? dk_hint_top(head) & 0x7fff : (uint32_t)(head & 0x7fff);
}
static inline uint32_t dk_pcp_high(const struct dk_pcp_list_head *lh)
{
    return dk_a32_load_relaxed(&lh->high) & DK_HIGH_ENTRIES;
}

#endif
