/* SPDX-License-Identifier: MIT */
/*
 * The index: hierarchical bitmaps with DK_FANOUT children a word, O(log blocks) to set, clear and
 * find.
 *
 * What a bit means. Leaf bit i of the tree of class c: block i may be of class c (its W decides). A
 * bit above: the word below may show something. Bits may be set for nothing (a hint that costs
 * time), but once the operation that changed W is finished, the bit of the block's class is set in
 * the leaf and in every word above it. A group tree is the same with "all blocks of the group are
 * free whole and of a cached type" in the place of the class.
 *
 * Setting (child changed to non-empty before, by a seq_cst operation). At every level, from the
 * leaf to the root: read the word; if the bit is set and CLEARING is not, go up; else CAS {bit set,
 * CLEARING off, version + 1}. The walk goes on to the root even if the bit was set already: whoever
 * set it may be stopped half-way.
 *
 * Clearing. CAS the word to {CLEARING, version + 1}; then read the child; only if it is empty CAS
 * exactly that word to {bit off, CLEARING off}. If the word is empty now, go on one level up.
 *
 * Why a set is never lost. The setter changes the child, then loads the word; the clearer marks the
 * word, then loads the child; all four are seq_cst, so either the clearer sees the child and gives
 * up, or the setter sees the mark (or a later word) and its CAS changes the word, so that the
 * clearer's last CAS fails. A mark that stays behind (clearer stopped, child found non-empty) costs
 * the next setter one CAS. The version makes two marks differ: without it a clearer that slept
 * through "set, cleared by another, marked by a third" would hit the third one's mark and hide what
 * was set in between.
 *
 * Rule 6. The version of a word advances whenever one of its bits goes from clear to set. All words
 * that bound a search read empty, twice, with the same versions: nothing was shown at any instant
 * between.
 *
 * Polarity. Trees that must show a fresh, untouched span (class 0: Movable, order 9, and the
 * groups) keep their child bits inverted, so that zeroed memory means "everything is there".
 *
 * Layout of a span's words: all roots side by side (one look at a failure reads a few lines), then
 * per tree the lower levels, leaves first.
 */
#include "core/index.h"

#define CLEAR_TRIES 4u

struct tree {
    const struct dk_shape *shape;
    dk_aword *lower; /* all levels but the root */
    dk_aword *root;
    dk_word invert;  /* all child bits, or none */
    uint32_t id;
};

static bool is_group(uint32_t tree)
{
    return tree >= DK_GROUP_BASE;
}
static unsigned group_shift(uint32_t tree)
{
    return tree - DK_GROUP_BASE + 1;
}

uint32_t dk_index_items(const struct dk_span *span, uint32_t tree)
{
    if (!is_group(tree))
        return span->nr_blocks;
    unsigned j = group_shift(tree);
    return ((span->first_block + span->nr_blocks - 1) >> j) - (span->first_block >> j) + 1;
}

static uint32_t words_above(uint32_t items)
{
    return (uint32_t)(((uint64_t)items + DK_FANOUT - 1) >> DK_FANOUT_SHIFT);
}

/* Words of a tree below its root. */
static uint64_t lower_words(uint32_t items)
{
    uint64_t sum = 0;
    for (items = words_above(items); items > 1; items = words_above(items))
        sum += items;
    return sum;
}

uint64_t dk_index_words(uint32_t nr_blocks, uint32_t nr_trees)
{
    uint64_t sum = nr_trees + DK_GROUP_BASE * lower_words(nr_blocks);
    for (uint32_t t = DK_GROUP_BASE; t < nr_trees; t++)
        sum += lower_words((nr_blocks >> group_shift(t)) + 2);
    return sum;
}

static struct tree open_tree(const struct deckle *d, const struct dk_span *span, uint32_t id)
{
    dk_aword *base = d->index + span->index_word;
    return (struct tree){
        .shape = &span->shape[is_group(id) ? group_shift(id) : 0],
        .lower = base + span->tree_word[id],
        .root = base + id,
        .invert = id == 0 || is_group(id) ? DK_IX_CHILDREN : 0,
        .id = id,
    };
}

static inline dk_aword *word_at(const struct tree *t, uint32_t level, uint32_t n)
{
    return level + 1 == t->shape->levels ? t->root : t->lower + t->shape->offset[level] + n;
}

static void make_shape(struct dk_shape *shape, uint32_t items)
{
    uint32_t offset = 0, n = items;
    shape->items = items;
    shape->levels = 0;
    for (;;) {
        shape->count[shape->levels] = n;
        shape->offset[shape->levels++] = offset;
        n = words_above(n);
        if (n <= 1)
            return;
        offset += n;
    }
}

static dk_word children(const struct tree *t, dk_word w)
{
    return (w ^ t->invert) & DK_IX_CHILDREN;
}

static bool group_is_free(const struct deckle *d, const struct dk_span *span, uint32_t tree,
                          uint32_t item)
{
    unsigned j = group_shift(tree);
    uint32_t first = ((span->first_block >> j) + item) << j;
    if (first < span->first_block || (1u << j) > span->nr_blocks ||
        first - span->first_block > span->nr_blocks - (1u << j))
        return false;
    for (uint32_t b = first; b < first + (1u << j); b++)
        if (!dk_w_is_groupable(dk_load_seq(&d->words[b])))
            return false;
    return true;
}

/* Is the item what the tree says? The child of a leaf bit. */
static bool item_is(const struct deckle *d, const struct dk_span *span, uint32_t tree,
                    uint32_t item)
{
    if (is_group(tree))
        return group_is_free(d, span, tree, item);
    return dk_w_class(dk_load_seq(&d->words[span->first_block + item])) == tree;
}

static void set_item(const struct tree *t, uint32_t item)
{
    for (uint32_t l = 0; l < t->shape->levels; l++) {
        dk_aword *word = word_at(t, l, item >> DK_FANOUT_SHIFT);
        dk_word bit = (dk_word)1 << (item & (DK_FANOUT - 1));
        dk_word w = dk_load_seq(word);
        while (!(children(t, w) & bit) || (w & DK_IX_CLEARING)) {
            dk_word shown = t->invert ? w & ~bit : w | bit;
            if (dk_cas(word, &w, (shown & ~DK_IX_CLEARING) + DK_IX_VERSION))
                break;
        }
        item >>= DK_FANOUT_SHIFT;
    }
}

/* Clear the bit of child `item` of level l if the child is empty; true if the word is empty
 * after. */
static bool clear_at(const struct deckle *d, const struct dk_span *span, const struct tree *t,
                     uint32_t l, uint32_t item)
{
    dk_aword *word = word_at(t, l, item >> DK_FANOUT_SHIFT);
    dk_word bit = (dk_word)1 << (item & (DK_FANOUT - 1));
    for (unsigned tries = 0; tries < CLEAR_TRIES; tries++) {
        dk_word w = dk_load_seq(word);
        if (!(children(t, w) & bit))
            return false;
        dk_word marked = (w | DK_IX_CLEARING) + DK_IX_VERSION;
        if (!dk_cas(word, &w, marked))
            continue;
        bool full = l ? children(t, dk_load_seq(word_at(t, l - 1, item))) != 0
                      : item_is(d, span, t->id, item);
        if (full)
            return false;
        dk_word hidden = (t->invert ? marked | bit : marked & ~bit) & ~DK_IX_CLEARING;
        if (dk_cas(word, &marked, hidden))
            return children(t, hidden) == 0;
    }
    return false;
}

static void clear_item(const struct deckle *d, const struct dk_span *span, const struct tree *t,
                       uint32_t item)
{
    for (uint32_t l = 0; l < t->shape->levels && clear_at(d, span, t, l, item); l++)
        item >>= DK_FANOUT_SHIFT;
}

static void move_groups(struct deckle *d, const struct dk_span *span, uint32_t block, bool free_now)
{
    for (uint32_t id = DK_GROUP_BASE; id < d->sb->nr_trees; id++) {
        unsigned j = group_shift(id);
        uint32_t item = (block >> j) - (span->first_block >> j);
        struct tree t = open_tree(d, span, id);
        if (free_now) {
            if (!group_is_free(d, span, id, item))
                return;
            set_item(&t, item);
        } else {
            clear_item(d, span, &t, item);
        }
    }
}

void dk_index_move(struct deckle *d, const struct dk_span *span, uint32_t block, dk_word from,
                   dk_word to)
{
    uint32_t hide = dk_w_class(from), show = dk_w_class(to);
    bool was_group = dk_w_is_groupable(from), is_group_now = dk_w_is_groupable(to);
    if (hide != show) {
        uint32_t item = block - span->first_block;
        if (show != DK_NONE) {
            struct tree t = open_tree(d, span, show);
            set_item(&t, item);
        }
        if (hide != DK_NONE) {
            struct tree t = open_tree(d, span, hide);
            clear_item(d, span, &t, item);
        }
    }
    if (was_group != is_group_now)
        move_groups(d, span, block, is_group_now);
}

void dk_index_show(struct deckle *d, const struct dk_span *span, uint32_t block, dk_word w)
{
    uint32_t show = dk_w_class(w);
    if (show == DK_NONE)
        return;
    struct tree t = open_tree(d, span, show);
    set_item(&t, block - span->first_block);
}

void dk_index_repair(struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t item)
{
    struct tree t = open_tree(d, span, tree);
    if (!is_group(tree)) {
        uint32_t now = dk_w_class(dk_load_seq(&d->words[span->first_block + item]));
        if (now == tree)
            return;
        if (now != DK_NONE) {
            struct tree right = open_tree(d, span, now);
            set_item(&right, item);
        }
    }
    clear_item(d, span, &t, item);
}

/*
 * Walk up from the leaf of `start` until a word shows something at or after the position, then down
 * to the first item. `p` is a child number of level l and never moves back, so the walk ends.
 */
uint32_t dk_index_find(struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t start,
                       uint32_t limit)
{
    struct tree t = open_tree(d, span, tree);
    if (limit > t.shape->items)
        limit = t.shape->items;
    uint32_t l = 0;
    uint64_t p = start;
    bool descended = false;
    while (p << (DK_FANOUT_SHIFT * l) < limit) {
        dk_aword *word = word_at(&t, l, (uint32_t)(p >> DK_FANOUT_SHIFT));
        unsigned within = (unsigned)p & (DK_FANOUT - 1);
        dk_word shown = children(&t, dk_load_acquire(word)) & ~dk_mask(within);
        if (shown) {
            p = (p - within) + dk_ctz(shown);
            if (l == 0)
                return p < limit ? (uint32_t)p : DK_NONE;
            p <<= DK_FANOUT_SHIFT;
            l--;
            descended = true;
            continue;
        }
        uint32_t child = (uint32_t)(p >> DK_FANOUT_SHIFT);
        if (++l == t.shape->levels)
            return DK_NONE;
        if (descended && !within && clear_at(d, span, &t, l, child)) {
            uint32_t up = child >> DK_FANOUT_SHIFT;
            for (uint32_t k = l + 1; k < t.shape->levels && clear_at(d, span, &t, k, up); k++)
                up >>= DK_FANOUT_SHIFT;
        }
        p = (uint64_t)child + 1;
        if (p >= t.shape->count[l])
            return DK_NONE;
        /* The next child may begin another word, whose own parent has not been asked: ask it. */
        while (l + 1 < t.shape->levels && !(p & (DK_FANOUT - 1))) {
            p >>= DK_FANOUT_SHIFT;
            l++;
        }
    }
    return DK_NONE;
}

/* Of the children of word w of a level those in [from, to), as a mask. */
static dk_word within_word(uint32_t w, uint32_t from, uint32_t to)
{
    uint32_t base = w << DK_FANOUT_SHIFT;
    uint32_t a = from > base ? from - base : 0, b = to > base ? to - base : 0;
    if (b > DK_FANOUT)
        b = DK_FANOUT;
    return a < b ? dk_mask(b) & ~dk_mask(a) : 0;
}

/*
 * From the root down along both ends of the range: at each level the children that lie inside it
 * entirely must be clear; the one or two that an end cuts are looked into.
 */
bool dk_index_empty(const struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t lo,
                    uint32_t hi, uint64_t *version)
{
    struct tree t = open_tree(d, span, tree);
    bool all = !lo && hi >= t.shape->items;
    for (uint32_t l = t.shape->levels; l-- > 0;) {
        unsigned shift = DK_FANOUT_SHIFT * l;
        uint32_t from = lo >> shift, to = all ? t.shape->count[l] : hi >> shift;
        uint32_t first = from >> DK_FANOUT_SHIFT, last = to >> DK_FANOUT_SHIFT;
        if (l && !all)
            from++;
        if (last >= words_above(t.shape->count[l]))
            last = words_above(t.shape->count[l]) - 1;
        for (uint32_t w = first; w <= last; w += last > first ? last - first : 1) {
            dk_word v = dk_load_seq(word_at(&t, l, w));
            *version += v / DK_IX_VERSION;
            if (children(&t, v) & within_word(w, from, to))
                return false;
        }
        if (all)
            return true;
    }
    return true;
}

bool dk_index_has(const struct deckle *d, const struct dk_span *span, uint32_t tree, uint32_t item)
{
    struct tree t = open_tree(d, span, tree);
    for (uint32_t l = 0; l < t.shape->levels; l++) {
        dk_word w = dk_load_seq(word_at(&t, l, item >> DK_FANOUT_SHIFT));
        if (!(children(&t, w) >> (item & (DK_FANOUT - 1)) & 1))
            return false;
        item >>= DK_FANOUT_SHIFT;
    }
    return true;
}

/* In an inverted tree the children that do not exist must be written as hidden. */
static void hide_tail(const struct tree *t)
{
    uint32_t n = t->shape->items;
    for (uint32_t l = 0; l < t->shape->levels; l++) {
        unsigned used = n & (DK_FANOUT - 1);
        if (used && t->invert)
            dk_store_relaxed(word_at(t, l, n >> DK_FANOUT_SHIFT), DK_IX_CHILDREN & ~dk_mask(used));
        n = words_above(n);
    }
}

void dk_index_init_span(struct deckle *d, struct dk_span *span)
{
    uint64_t next = d->sb->nr_trees;
    make_shape(&span->shape[0], dk_index_items(span, 0));
    for (uint32_t id = DK_GROUP_BASE; id < d->sb->nr_trees; id++)
        make_shape(&span->shape[group_shift(id)], dk_index_items(span, id));
    for (uint32_t id = 0; id < d->sb->nr_trees; id++) {
        span->tree_word[id] = (uint32_t)next;
        next += lower_words(dk_index_items(span, id));
    }
    span->index_words = next;
    for (uint32_t id = 0; id < d->sb->nr_trees; id++) {
        struct tree t = open_tree(d, span, id);
        hide_tail(&t);
        if (!is_group(id))
            continue;
        /* Groups that the ends of the span cut are no groups. */
        if (!group_is_free(d, span, id, 0))
            clear_item(d, span, &t, 0);
        if (t.shape->items > 1 && !group_is_free(d, span, id, t.shape->items - 1))
            clear_item(d, span, &t, t.shape->items - 1);
    }
}

static bool is_shape_of(const struct dk_shape *shape, uint32_t items)
{
    struct dk_shape right = {0};
    make_shape(&right, items);
    if (shape->items != right.items || shape->levels != right.levels)
        return false;
    for (uint32_t l = 0; l < right.levels; l++)
        if (shape->count[l] != right.count[l] || shape->offset[l] != right.offset[l])
            return false;
    return true;
}

bool dk_index_layout_is_right(const struct deckle *d, const struct dk_span *span)
{
    uint64_t next = d->sb->nr_trees;
    for (uint32_t id = 0; id < d->sb->nr_trees; id++) {
        uint32_t items = dk_index_items(span, id);
        if (span->tree_word[id] != next ||
            !is_shape_of(&span->shape[is_group(id) ? group_shift(id) : 0], items))
            return false;
        next += lower_words(items);
    }
    return span->index_words == next;
}
