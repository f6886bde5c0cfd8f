/* SPDX-License-Identifier: MIT */
/* Slots for intents: see intent.h. */
#include "core/intent.h"

/* Clients, and CPUs of a client, begin to look at different places; 8 slots share a line. */
static uint32_t first_slot(const struct deckle *d, uint32_t client)
{
    return (client * 61u + dk_cpu(d) * 8u) % d->sb->nr_intents;
}

dk_aword *dk_intent_take(const struct deckle *d, uint32_t client, uint32_t from)
{
    uint32_t nr = d->sb->nr_intents, at = first_slot(d, client);
    dk_word named = client | (dk_word)from << DK_INTENT_FROM_SHIFT |
                    (dk_word)(dk_a32_load_seq(&d->sb->epoch) & 0xffffu) << DK_INTENT_EPOCH_SHIFT |
                    ~DK_INTENT_BELOW;

    for (uint32_t i = 0; i < nr; i++, at = at + 1 < nr ? at + 1 : 0) {
        dk_word none = 0;
        if (!dk_load_relaxed(&d->intents[at]) && dk_cas(&d->intents[at], &none, named))
            return &d->intents[at];
    }
    return NULL;
}
