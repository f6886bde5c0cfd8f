/* SPDX-License-Identifier: MIT */
/*
 * Intents: who is at work in which pageblock of a shared pool. From before the first change of a
 * block's W until its tags, its bits, the counters and the index agree with it again, the thread
 * has a slot that names the block; if the client dies, the reaper knows from it which blocks to
 * count again (reap.c). Private pools have no slots, and pay one test of a pointer.
 *
 * A slot belongs to one call on the shared level, which names its blocks in it one after the other.
 * A handler that interrupts the thread takes another. A slot is
 *
 *   bits  0-7   client, 0 = free
 *   bits  8-15  what beside blocks: the client whose cached frames are being taken over, or the
 *               client itself for a change of types and isolation
 *   bits 16-31  the pool's epoch when the slot was taken
 *   bits 32-63  pageblock, DK_NONE = none now
 *
 * Order. A slot is taken by a CAS, and a block named by an exchange, both seq_cst, before W is
 * read; the reaper closes a block by a CAS of W and reads the slots afterwards. So a taker that
 * reserved before the block was closed is seen in its slot. A block is un-named by a release store
 * after the last change.
 */
#ifndef DK_CORE_INTENT_H
#define DK_CORE_INTENT_H

#include "core/layout.h"

#define DK_INTENT_CLIENT      ((dk_word)0xff)
#define DK_INTENT_FROM_SHIFT  8u
#define DK_INTENT_EPOCH_SHIFT 16u
#define DK_INTENT_BLOCK_SHIFT (DK_WORD_BITS / 2)
#define DK_INTENT_BELOW       (((dk_word)1 << DK_INTENT_BLOCK_SHIFT) - 1)

static inline uint32_t dk_intent_client(dk_word slot)
{
    return (uint32_t)(slot & DK_INTENT_CLIENT);
}
static inline uint32_t dk_intent_from(dk_word slot)
{
    return (uint32_t)(slot >> DK_INTENT_FROM_SHIFT) & 0xffu;
}
static inline uint32_t dk_intent_epoch(dk_word slot)
{
    return (uint32_t)(slot >> DK_INTENT_EPOCH_SHIFT) & 0xffffu;
}
static inline uint32_t dk_intent_block(dk_word slot)
{
    return (uint32_t)(slot >> DK_INTENT_BLOCK_SHIFT);
}

/* Take a slot for client `client`; NULL if none of them is free. Bounded by their number. */
dk_aword *dk_intent_take(const struct deckle *d, uint32_t client, uint32_t from);

/* The start of a call on the shared level. false: no slot is free, nothing may be changed. */
static inline bool dk_intent_open(const struct deckle *d, dk_aword **slot)
{
    *slot = NULL;
    if (!d->intents)
        return true;
    *slot = dk_intent_take(d, d->client, 0);
    return *slot != NULL;
}
/* The same for a call that takes over cached frames of client `from`, or, with the own number,
 * changes types. */
static inline bool dk_intent_open_for(const struct deckle *d, dk_aword **slot, uint32_t from)
{
    *slot = NULL;
    if (!d->intents)
        return true;
    *slot = dk_intent_take(d, d->client, from);
    return *slot != NULL;
}
static inline void dk_intent_begin(dk_aword *slot, uint32_t block)
{
#if DK_WORD_BITS == 64
    if (slot)
        dk_exchange(slot, (dk_load_relaxed(slot) & DK_INTENT_BELOW) | (dk_word)block
                                                                          << DK_INTENT_BLOCK_SHIFT);
#else
    (void)slot, (void)block;
#endif
}
static inline void dk_intent_end(dk_aword *slot)
{
    if (slot)
        dk_store_release(slot, dk_load_relaxed(slot) | ~DK_INTENT_BELOW);
}
static inline void dk_intent_close(dk_aword *slot)
{
    if (slot)
        dk_store_release(slot, 0);
}

#endif
