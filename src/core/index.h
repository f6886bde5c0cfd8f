/* SPDX-License-Identifier: MIT */
/*
 * The index of a span: which pageblocks can serve. One tree for each class of block (dk_w_class),
 * and one for each order above a pageblock whose bits stand for aligned groups of free pageblocks.
 * Protocol, proof and bounds: index.c.
 */
#ifndef DK_CORE_INDEX_H
#define DK_CORE_INDEX_H

#include "core/blockinfo.h"
#include "core/layout.h"

/* An index word: children in the low half, then CLEARING, then a version. The trees that show
 * fresh blocks (class 0 and the groups) store their child bits inverted, so that zero means "all
 * there". */
#define DK_IX_CHILDREN  (((dk_word)1 << DK_FANOUT) - 1)
#define DK_IX_CLEARING  ((dk_word)1 << DK_FANOUT)
#define DK_IX_VERSION   ((dk_word)1 << (DK_FANOUT + 1))

/* Words that the trees of a span of nr_blocks need (nr_trees as in the superblock). Pure. */
uint64_t dk_index_words(uint32_t nr_blocks, uint32_t nr_trees);

/* Fill span->shape, tree_word and index_words from span->nr_blocks, and write the words
 * that the ends of the trees need; the span's index words must be zero. Set-up. */
void dk_index_init_span(struct deckle *d, struct dk_span *span);

/* Are shape, tree_word and index_words of the span those that its blocks need? */
bool dk_index_layout_is_right(const struct deckle *d, const struct dk_span *span);

/* Children of tree t (blocks, or groups) in this span. */
uint32_t dk_index_items(const struct dk_span *span, uint32_t tree);

/* After the W of `block` went from `from` to `to`: show it where it belongs now, then hide it where
 * it was. Any of the two may be of class DK_NONE. Also keeps the group trees. */
void dk_index_move(struct deckle *d, const struct dk_span *span, uint32_t block, dk_word from,
                   dk_word to);

/* A give that left the class as it was: whoever made the block be of it may be stopped before he
 * showed it, so the giver sees to it that his frames can be found. */
void dk_index_show(struct deckle *d, const struct dk_span *span, uint32_t block, dk_word w);

/* A block below `limit` (block numbers, span-relative items), at or after `start`, that the tree
 * shows; DK_NONE if none. Helps to clear what it finds empty on the way. The item is a hint: W
 * decides. */
uint32_t dk_index_find(struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t start,
                       uint32_t limit);

/* What a finder does with an item whose W does not fit: put the bits right. */
void dk_index_repair(struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t item);

/* Does the root of the tree show anything? A hint, one load. */
static inline bool dk_index_root_shows(const struct deckle *d, const struct dk_span *span,
                                       uint32_t tree)
{
    dk_word w = dk_load_acquire(&d->index[span->index_word + tree]);
    return ((tree == 0 || tree >= DK_GROUP_BASE ? ~w : w) & DK_IX_CHILDREN) != 0;
}

/* Does any of the roots of `nr` (>= 1) block trees from `tree` on? They lie side by side. */
static inline bool dk_index_roots_show(const struct deckle *d, const struct dk_span *span,
                                       uint32_t tree, uint32_t nr)
{
    const dk_aword *root = &d->index[span->index_word + tree];
    dk_word any = dk_load_acquire(root);
    if (tree == 0)
        any = ~any;
    for (uint32_t i = 1; i < nr; i++)
        any |= dk_load_acquire(&root[i]);
    return (any & DK_IX_CHILDREN) != 0;
}

/* Do the roots of `nr` trees from `tree` on show nothing? As dk_index_empty of all their items. */
static inline bool dk_index_roots_empty(const struct deckle *d, const struct dk_span *span,
                                        uint32_t tree, uint32_t nr, uint64_t *version)
{
    const dk_aword *root = &d->index[span->index_word + tree];
    uint64_t sum = 0;
    for (uint32_t i = 0; i < nr; i++) {
        dk_word w = dk_load_seq(&root[i]);
        bool inverted = tree + i == 0 || tree + i >= DK_GROUP_BASE;
        sum += w / DK_IX_VERSION;
        if ((inverted ? ~w : w) & DK_IX_CHILDREN)
            return false;
    }
    *version += sum;
    return true;
}

/* Is nothing shown of the items lo … hi-1? *version += the versions of the words that bound the
 * answer. */
bool dk_index_empty(const struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t lo,
                    uint32_t hi, uint64_t *version);

/* Is the item's bit set in the leaf and in every word above it? For validation. */
bool dk_index_has(const struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t item);

#endif
