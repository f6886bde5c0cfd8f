/* SPDX-License-Identifier: MIT */
/*
 * Validation of what only shared pools have: clients, slots, epochs, tags. Frames of clients that
 * are dead and not reaped may be anywhere; pageblocks that their slots name, and those in
 * quarantine, need not agree with themselves. Everything else must, and no live client may be in
 * the middle of something: validation is for quiet pools.
 */
#include "core/client.h"
#include "core/intent.h"
#include "core/validate.h"

#include "core/blockinfo.h"

bool dk_is_orphan(const struct deckle *d, uint64_t fi)
{
    return d->tags && dk_client_is(d, dk_a8_load_relaxed(&d->tags[fi]), DK_CLIENT_DEAD);
}

bool dk_is_unsettled(const struct deckle *d, uint32_t block)
{
    if (!d->tags)
        return false;
    if (dk_load_relaxed(&d->words[block]) & DK_W_QUARANTINE)
        return true;
    if (!dk_a32_load_relaxed(&d->sb->counts_wrong))
        return false; /* set before a block is closed, and by nothing but reaping cleared */
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_relaxed(&d->intents[i]);
        if (slot && dk_intent_block(slot) == block)
            return true;
    }
    return false;
}

static bool check_slot(struct dk_check *c, uint32_t i)
{
    dk_word slot = dk_load_relaxed(&c->d->intents[i]);
    uint32_t client = dk_intent_client(slot);

    if (!slot)
        return true;
    if (dk_client_is(c->d, client, DK_CLIENT_LIVE))
        return dk_bad_pool(c,
                           "client %u is in the middle of an operation (slot %u): the pool is not "
                           "quiet, or the client is dead and was not reaped",
                           client, i);
    if (!dk_client_is(c->d, client, DK_CLIENT_DEAD))
        return dk_bad_pool(c, "slot %u belongs to client %u, which there is not", i, client);
    return true;
}

static bool check_client(struct dk_check *c, uint32_t number)
{
    const struct dk_client *client = dk_client_at(c->d, number);
    dk_word word = dk_load_relaxed(&client->word);

    if (dk_client_state(word) > DK_CLIENT_DEAD)
        return dk_bad_pool(c, "client %u is in state %u", number, (unsigned)dk_client_state(word));
    if (dk_client_state(word) != DK_CLIENT_NONE && !dk_load_relaxed(&client->identity))
        return dk_bad_pool(c, "client %u has no identity", number);
    return true;
}

bool dk_check_sharing(struct dk_check *c)
{
    const struct dk_superblock *sb = c->d->sb;

    if (!c->d->clients)
        return true;
    for (uint32_t n = 1; n <= sb->max_clients; n++)
        if (!check_client(c, n))
            return false;
    for (uint32_t i = 0; i < sb->nr_intents; i++)
        if (!check_slot(c, i))
            return false;
    if (dk_a32_load_relaxed(&sb->reaper) % DK_CLIENT_GENERATION > sb->max_clients)
        return dk_bad_pool(c, "the reaper is client %u of %u",
                           dk_a32_load_relaxed(&sb->reaper) % 256, sb->max_clients);
    return true;
}
