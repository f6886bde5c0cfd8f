/* SPDX-License-Identifier: MIT */
/* Places in the metadata by name (words.h). */
#include "words.h"

#include "core/layout.h"

#define OFFSET(p, base) ((size_t)((uintptr_t)(p) - (uintptr_t)(base)))

static enum scale_word in_index(const struct deckle *d, size_t word)
{
    for (uint32_t s = 0; s < d->sb->nr_spans; s++) {
        const struct dk_span *span = &d->spans[s];
        uint64_t at = word - span->index_word;
        uint32_t tree = 0;
        if (word < span->index_word || at >= span->index_words)
            continue;
        if (at < d->sb->nr_trees)
            return SCALE_ROOT;
        while (tree + 1 < d->sb->nr_trees && span->tree_word[tree + 1] <= at)
            tree++;
        const struct dk_shape *shape =
            &span->shape[tree < DK_GROUP_BASE ? 0 : tree - DK_GROUP_BASE + 1];
        bool leaf = shape->levels < 3 || at - span->tree_word[tree] < shape->offset[1];
        return leaf ? SCALE_LEAF : SCALE_INNER;
    }
    return SCALE_OTHER;
}

static enum scale_word in_set(const struct deckle *d, size_t off)
{
    for (unsigned list = DK_PCP_LISTS; list-- > 0;)
        if (off >= d->list_off[list])
            return off - d->list_off[list] < DK_LINE_BYTES ? SCALE_HEAD : SCALE_SLOT;
    return SCALE_COUNTERS;
}

enum scale_word scale_word_of(const struct deckle *d, const volatile void *p)
{
    size_t sets = (size_t)d->set_bytes * d->nr_cpus * d->sb->nr_zones;
    size_t blocks = d->sb->max_blocks, frames = blocks * DK_BLOCK_FRAMES, at;

    if (OFFSET(p, d->state) < frames)
        return SCALE_STATE;
    if (d->pcp != NULL && (at = OFFSET(p, d->pcp)) < sets)
        return in_set(d, at % d->set_bytes);
    if (OFFSET(p, d->words) < blocks * sizeof(dk_word))
        return SCALE_W;
    if (OFFSET(p, d->lines) < blocks * DK_LINE_BYTES)
        return SCALE_BITS;
    if ((at = OFFSET(p, d->index) / sizeof(dk_word)) < d->sb->index_capacity)
        return in_index(d, at);
    if ((at = OFFSET(p, d->zones)) < d->sb->nr_zones * sizeof(struct dk_zone))
        return at % sizeof(struct dk_zone) < offsetof(struct dk_zone, counts) ? SCALE_ZONE
                                                                              : SCALE_FREE;
    if (OFFSET(p, d) < sizeof(*d))
        return SCALE_HANDLE;
    return OFFSET(p, d->sb) < sizeof(*d->sb) ? SCALE_SUPERBLOCK : SCALE_OTHER;
}

const char *scale_word_name(enum scale_word word)
{
    static const char *const names[SCALE_NR_WORDS] = {
        [SCALE_HANDLE] = "handle",
        [SCALE_SUPERBLOCK] = "superblock",
        [SCALE_ZONE] = "zone, limits",
        [SCALE_FREE] = "zone, free count",
        [SCALE_COUNTERS] = "counters of a CPU",
        [SCALE_HEAD] = "list head",
        [SCALE_SLOT] = "list slots",
        [SCALE_W] = "word of a block",
        [SCALE_BITS] = "bits of a block",
        [SCALE_LEAF] = "index, leaves",
        [SCALE_INNER] = "index, inner",
        [SCALE_ROOT] = "index, roots",
        [SCALE_STATE] = "state bytes",
        [SCALE_OTHER] = "other tables",
    };

    return names[word];
}
