/* SPDX-License-Identifier: MIT */
/* Clients of a shared pool: registering, who they are, what they hold. See client.h. */
#include "core/client.h"

#include "base/mem.h"
#include "core/blockinfo.h"
#include "core/intent.h"
#include "core/pcp.h"
#include "core/section.h"
#include "core/setup.h"

#include <deckle/shared.h>

/* ---- tags ------------------------------------------------------------------------------------ */

void dk_tag_blocks(const struct deckle *d, unsigned order, const uint32_t *fis, unsigned n,
                   uint32_t client)
{
    unsigned step = order < DK_BLOCK_ORDER ? 0 : DK_BLOCK_ORDER;
    for (unsigned i = 0; i < n; i++)
        for (uint32_t k = 0; k < 1u << (order - step); k++)
            dk_a8_store_release(&d->tags[fis[i] + (k << step)], (uint8_t)client);
}

/* ---- registering ----------------------------------------------------------------------------- */

/* The number becomes this client's: its identity first, which nobody else can do then. */
static bool try_number(struct deckle *d, uint32_t number, uint64_t identity)
{
    struct dk_client *c = dk_client_at(d, number);
    dk_word nobody = 0, word, live;
    if (!dk_cas(&c->identity, &nobody, (dk_word)identity))
        return false;
    word = dk_load_seq(&c->word);
    live = ((word & ~DK_CLIENT_STATE) + DK_CLIENT_GENERATION) | DK_CLIENT_LIVE;
    if (dk_client_state(word) != DK_CLIENT_NONE || !dk_cas(&c->word, &word, live))
        return false; /* somebody took us for dead: the number is to be reaped */
    d->client_word = live;
    return true;
}

int deckle_register(struct deckle *d, uint64_t identity, uint32_t *client)
{
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients || !identity)
        return DECKLE_EINVAL;
    if (d->read_only)
        return DECKLE_EPERM;
    if (d->client)
        return DECKLE_EEXIST;
    if (dk_a32_load_acquire(&d->sb->published) != DK_PUBLISHED)
        return DECKLE_EBUSY;
    for (uint32_t number = 1; number <= d->sb->max_clients; number++) {
        if (dk_load_relaxed(&dk_client_at(d, number)->identity) || !try_number(d, number, identity))
            continue;
        d->cell_mine = dk_cell_with_whose(DK_CELL_FULL, number, 0);
        d->client = number;
        dk_update_slow(d);
        if (client)
            *client = number;
        return DECKLE_OK;
    }
    return DECKLE_ENOSPC;
}

uint32_t deckle_client(const struct deckle *d)
{
    return d ? d->client : 0;
}

void deckle_disown(struct deckle *d)
{
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients)
        return;
    d->client = 0;
    d->client_word = 0;
    d->cell_mine = 0;
    d->read_only = 1;
    dk_update_slow(d);
}

/* ---- what it holds --------------------------------------------------------------------------- */

static uint64_t frames_in_section(const struct deckle *d, const struct dk_section_view *s,
                                  uint32_t client)
{
    uint64_t fi = s->first_fi, end = s->first_fi + s->nr, frames = 0;
    while (fi < end) {
        dk_word w = dk_load_relaxed(&d->words[fi / DK_BLOCK_FRAMES]);
        bool mine = dk_a8_load_relaxed(&d->tags[fi]) == client;
        if (fi % DK_BLOCK_FRAMES == 0 && ((w & DK_W_WHOLE) || !dk_w_used(w))) {
            frames += mine ? DK_BLOCK_FRAMES : 0;
            fi += DK_BLOCK_FRAMES;
            continue;
        }
        frames += mine;
        fi++;
    }
    return frames;
}

static uint64_t frames_held(const struct deckle *d, uint32_t client)
{
    struct dk_section_view s;
    uint64_t frames = 0;
    for (uint64_t pfn = 0; dk_section_from(d, pfn, &s); pfn = s.pfn + s.nr)
        frames += frames_in_section(d, &s, client);
    return frames;
}

struct cached {
    const struct deckle *d;
    uint32_t client;
    uint64_t frames;
};

static void count_cell(void *ctx, dk_aword *cell, const struct dk_zone *zone, unsigned list)
{
    struct cached *c = ctx;
    dk_word value = dk_load_relaxed(cell);
    (void)zone;
    if ((value & DK_CELL_FULL) && dk_cell_client(value) == c->client)
        c->frames += (uint64_t)1 << list / DK_PCP_TYPES;
}

static uint32_t operations_of(const struct deckle *d, uint32_t client)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_relaxed(&d->intents[i]);
        n += slot && dk_intent_client(slot) == client;
    }
    return n;
}

int deckle_get_client(const struct deckle *d, uint32_t client, struct deckle_client_info *out)
{
    const struct dk_client *c;
    struct cached cached = {d, client, 0};
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients || !out || out->size < sizeof *out)
        return DECKLE_EINVAL;
    c = dk_client_at(d, client);
    if (!c || !dk_load_acquire(&c->identity))
        return DECKLE_ENOENT;
    memset((unsigned char *)out + sizeof out->size, 0, out->size - sizeof out->size);
    dk_word word = dk_load_acquire(&c->word);
    out->client = client;
    out->state = dk_client_state(word) == DK_CLIENT_DEAD ? DECKLE_CLIENT_DEAD : DECKLE_CLIENT_LIVE;
    out->generation = (uint32_t)(word / DK_CLIENT_GENERATION);
    out->identity = dk_load_relaxed(&c->identity);
    out->frames = frames_held(d, client);
    dk_cells_for_each(d, count_cell, &cached);
    out->cached = cached.frames;
    out->operations = operations_of(d, client);
    return DECKLE_OK;
}
