/* SPDX-License-Identifier: MIT */
/*
 * Clients of a shared pool, and the tags that say which client holds a frame.
 *
 * A client's word is {state in bits 0-1, generation from bit 8 on}. A number is taken by a CAS of
 * its identity from 0; then the word goes from NONE to LIVE with the next generation. Who dies
 * between the two leaves an identity and nothing else, and is reaped like others.
 *
 * Tags. Held frames carry the number of their holder, free ones 0; of a pageblock that is allocated
 * as a whole only the first frame does. They are written by the holder under an intent, or by CAS
 * where a reaper may take the frame as well (pcp_cells.c, reap.c).
 */
#ifndef DK_CORE_CLIENT_H
#define DK_CORE_CLIENT_H

#include "core/layout.h"

enum dk_client_state { DK_CLIENT_NONE, DK_CLIENT_LIVE, DK_CLIENT_DEAD };

#define DK_CLIENT_STATE      ((dk_word)3)
#define DK_CLIENT_GENERATION ((dk_word)1 << 8)

/* NULL if there is no such number. */
static inline struct dk_client *dk_client_at(const struct deckle *d, uint32_t client)
{
    return d->clients && client && client <= d->sb->max_clients ? &d->clients[client - 1] : NULL;
}
static inline enum dk_client_state dk_client_state(dk_word word)
{
    return (enum dk_client_state)(word & DK_CLIENT_STATE);
}
/* Numbers that do not exist are nobody's, not dead. */
static inline bool dk_client_is(const struct deckle *d, uint32_t client, enum dk_client_state state)
{
    const struct dk_client *c = dk_client_at(d, client);
    return c && dk_client_state(dk_load_seq(&c->word)) == state;
}

/* Is this handle that of a client that nobody has declared dead? */
static inline bool dk_is_client(const struct deckle *d)
{
    const struct dk_client *c = dk_client_at(d, d->client);
    return c && dk_load_acquire(&c->word) == d->client_word;
}
/* The first question of every call that changes the pool: may it? Private pools: yes. */
static inline bool dk_may_change(const struct deckle *d)
{
    return !(dk_a32_load_relaxed(&d->slow) & DK_SLOW_STRANGER);
}

/* Tags of the blocks of one order at fis, all of them held by the caller; nothing in private pools.
 * Whole pageblocks have one each. */
void dk_tag_blocks(const struct deckle *d, unsigned order, const uint32_t *fis, unsigned n,
                   uint32_t client);
static inline void dk_tag(const struct deckle *d, unsigned order, const uint32_t *fis, unsigned n)
{
    if (d->tags)
        dk_tag_blocks(d, order, fis, n, d->client);
}
static inline void dk_untag(const struct deckle *d, unsigned order, const uint32_t *fis, unsigned n)
{
    if (d->tags)
        dk_tag_blocks(d, order, fis, n, 0);
}

/* May this client free or divide the allocated block at fi? */
static inline bool dk_holds(const struct deckle *d, uint32_t fi)
{
    return !d->tags || dk_a8_load_relaxed(&d->tags[fi]) == d->client;
}

#endif
