/* SPDX-License-Identifier: MIT */
/*
 * One pool, several processes: the end of set-up, handles of others, blocks that change hands.
 *
 * What deckle_attach finds was written by somebody else and may be damaged, or made up. Before any
 * of it is followed the superblock's numbers and offsets are checked against the size, then all
 * tables that set-up writes (validate_table.c). They do not change after deckle_publish, so what
 * was found sound stays so, unless somebody overwrites the metadata while they are used, which
 * nothing helps against. What does change is checked where it is read: frames in cells, blocks in
 * slots, hints, client numbers.
 */
#include "base/mem.h"
#include "core/check.h"
#include "core/client.h"
#include "core/config.h"
#include "core/setup.h"
#include "core/validate.h"
#include "core/zonelist.h"

#include <deckle/shared.h>

/* ---- publishing ------------------------------------------------------------------------------ */

static void fold_free(struct deckle *d, struct dk_zone *zone)
{
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        dk_add_relaxed(&zone->counts[0].of[DK_COUNT_FREE],
                       dk_exchange(&dk_set(d, zone->number, cpu)->free_delta, 0));
}

int deckle_publish(struct deckle *d)
{
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !(d->sb->features & DECKLE_FEATURE_SHARED) ||
        d->tags || dk_a32_load_relaxed(&d->sb->published) ||
        !dk_a32_load_relaxed(&d->sb->nr_sections))
        return DECKLE_EINVAL;
    for (uint32_t z = 0; z < d->sb->nr_zones; z++)
        fold_free(d, &d->zones[z]);
    d->handle_magic = 0;
    dk_a32_exchange(&d->sb->published, DK_PUBLISHED);
    return DECKLE_OK;
}

/* ---- attaching ------------------------------------------------------------------------------- */

#define REASON_BYTES  256u
#define HANDLE_BYTES  ((sizeof(struct deckle) + 63u) & ~(size_t)63u)
#define MAGIC_SWAPPED UINT64_C(0x6465636b6c650000) /* of a machine with the other byte order */

size_t deckle_handle_size(void)
{
    return HANDLE_BYTES + REASON_BYTES;
}

static int refuse(int error, const char **reason, const char *why)
{
    if (reason)
        *reason = why;
    return error;
}

static int check_head(const struct dk_superblock *sb, uint64_t bytes, uint32_t flags,
                      const char **reason)
{
    uint32_t published;
    if (sb->magic != DK_META_MAGIC)
        return sb->magic == MAGIC_SWAPPED
                   ? refuse(DECKLE_EVERSION, reason, "made on a machine with the other byte order")
                   : refuse(DECKLE_ECORRUPT, reason, "the superblock does not begin as one does");
    if (sb->version != DK_META_VERSION)
        return refuse(DECKLE_EVERSION, reason, "the metadata are of another version of Deckle");
    if (sb->word_bits != DK_WORD_BITS)
        return refuse(DECKLE_EVERSION, reason, "made on a machine with another word size");
    if (!(sb->features & DECKLE_FEATURE_SHARED))
        return refuse(DECKLE_EINVAL, reason, "the pool was not made to be shared");
    if (sb->total_bytes > bytes)
        return refuse(DECKLE_ENOSPC, reason, "the metadata are cut off");
    published = dk_a32_load_acquire(&sb->published);
    if (published == DK_BEING_MADE)
        return refuse(DECKLE_EBUSY, reason, "its maker has not published the pool");
    if (published != DK_PUBLISHED && !(flags & DECKLE_ATTACH_RECOVER))
        return refuse(DECKLE_ECORRUPT, reason, "a recovery of the pool has begun and not ended");
    return DECKLE_OK;
}

static void point_at_sharing(struct deckle *d, uint32_t flags)
{
    unsigned char *base = (unsigned char *)d->sb;
    d->tags = (void *)(base + d->sb->at.tags);
    d->intents = (void *)(base + d->sb->at.intents);
    d->clients = (void *)(base + d->sb->at.clients);
    d->read_only = (flags & DECKLE_ATTACH_READ_ONLY) != 0;
}

static int check_tables(const struct deckle *d, char *text, const char **reason)
{
    struct dk_check c = {.d = d};
    dk_text_begin(&c.text, text, REASON_BYTES, NULL, NULL);
    return dk_check_superblock(&c) && dk_check_tables(&c) ? DECKLE_OK
                                                          : refuse(DECKLE_ECORRUPT, reason, text);
}

int deckle_attach(void *handle, size_t handle_size, void *metadata, size_t size,
                  const struct deckle_host *host, uint32_t flags, const char **reason,
                  struct deckle **out)
{
    const uint32_t known = DECKLE_ATTACH_READ_ONLY | DECKLE_ATTACH_RECOVER;
    struct deckle *d = handle;
    if (!handle || !metadata || !out || (flags & ~known) || flags == known ||
        (uintptr_t)handle % 64 || (uintptr_t)metadata % DK_LINE_BYTES ||
        handle_size < deckle_handle_size())
        return refuse(DECKLE_EINVAL, reason,
                      "handle (deckle_handle_size() bytes) and metadata must begin at multiples of "
                      "64, and flags be one of DECKLE_ATTACH_…");
    if (size < DK_HANDLE_BYTES + sizeof(struct dk_superblock))
        return refuse(DECKLE_ENOSPC, reason, "the metadata are cut off");
    struct dk_superblock *sb = (void *)((unsigned char *)metadata + DK_HANDLE_BYTES);
    int error = check_head(sb, size - DK_HANDLE_BYTES, flags, reason);
    if (error)
        return error;
    error = dk_handle_attach(d, sb, size - DK_HANDLE_BYTES, host);
    if (error)
        return refuse(error, reason, "the numbers of the superblock contradict each other");
    point_at_sharing(d, flags);
    error = check_tables(d, (char *)handle + HANDLE_BYTES, reason);
    if (error) {
        d->handle_magic = 0;
        return error;
    }
    dk_section_update_main(d);
    dk_zonelists_follow(d);
    *out = d;
    return DECKLE_OK;
}

/* ---- transfer -------------------------------------------------------------------------------- */

/* Tags of all of an allocated block but its head: its frames, or the pageblocks that it is. */
static void tag_tails(const struct deckle *d, uint32_t fi, unsigned order, uint32_t client)
{
    uint32_t step = order < DK_BLOCK_ORDER ? 1 : DK_BLOCK_FRAMES;
    for (uint32_t i = step; i < 1u << order; i += step)
        dk_a8_store_release(&d->tags[fi + i], (uint8_t)client);
}

static int find_own(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t *fi,
                    const void *caller)
{
    uint32_t zone;
    if (!dk_pfn_to_fi(d, pfn, fi, &zone)) {
        dk_report(d, DECKLE_BAD_FOREIGN, pfn, order, caller);
        return DECKLE_EBADFREE;
    }
    uint8_t s = dk_a8_load_relaxed(&d->state[*fi]);
    if (order > d->max_order || !dk_state_is_head(s) || dk_state_order(s) != order) {
        dk_report(d, dk_why_bad(d, pfn, order), pfn, order, caller);
        return DECKLE_EBADFREE;
    }
    return dk_holds(d, *fi) ? DECKLE_OK : DECKLE_EPERM;
}

/*
 * The head's tag decides, so it is written last. Then the receiver is looked at again: its reaper
 * marks it dead before it looks at tags, so either that reaper finds the block, or the giver sees
 * the death and takes the block back; the CAS of the head says which.
 */
int deckle_transfer(struct deckle *d, uint64_t pfn, uint32_t order, uint32_t client)
{
    uint32_t fi;
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients)
        return DECKLE_EINVAL;
    if (!dk_is_client(d))
        return DECKLE_EPERM;
    const struct dk_client *to = dk_client_at(d, client);
    dk_word word = to ? dk_load_seq(&to->word) : 0;
    if (dk_client_state(word) != DK_CLIENT_LIVE)
        return DECKLE_ENOENT;
    int err = find_own(d, pfn, order, &fi, DK_CALLER());
    if (err || client == d->client)
        return err;
    tag_tails(d, fi, order, client);
    dk_a8_exchange(&d->tags[fi], (uint8_t)client);
    uint8_t tag = (uint8_t)client;
    if (dk_load_seq(&to->word) == word || !dk_a8_cas(&d->tags[fi], &tag, (uint8_t)d->client))
        return DECKLE_OK;
    tag_tails(d, fi, order, d->client);
    return DECKLE_ENOENT;
}
