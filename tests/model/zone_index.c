/* SPDX-License-Identifier: MIT */
/*
 * The index of the model: set, clear, move, find and the proof of emptiness, as in
 * src/core/index.c.
 *
 * A load followed by a CAS from the loaded value is one step here: the CAS succeeds only where the
 * load would have given the same answer, and a CAS that fails changes nothing. The last CAS of a
 * clear is a step of its own, because the child was read in between.
 */
#include "coroutine.h"
#include "zone.h"

static void advance(uint16_t *word)
{
    if (zone_bug != BUG_NO_INDEX_VERSION)
        *word = (uint16_t)(*word + IX_VERSION);
}

static bool must_set(uint16_t word, unsigned child)
{
    if (!(word & index_bit(child)))
        return true;
    return (word & IX_CLEARING) && zone_bug != BUG_SET_IGNORES_MARK;
}

static void set_bit(uint16_t *word, unsigned child)
{
    *word = (uint16_t)((*word | index_bit(child)) & ~IX_CLEARING);
    advance(word);
}

static void begin_set(struct thread *t, unsigned tree, unsigned child)
{
    t->x_tree = (uint8_t)tree;
    t->x_child = (uint8_t)child;
    t->x_level = 0;
    t->x_early = 0;
}

static uint16_t *word_at(struct world *s, struct thread *t)
{
    return index_word(s, t->x_tree, t->x_level, t->x_child);
}

/* BUG_SET_PARENT_EARLY: the parent is read before the CAS on the child, which the parent's turn
 * then uses. */
static bool reads_ahead(const struct thread *t)
{
    return zone_bug == BUG_SET_PARENT_EARLY && t->x_level + 1 < zs.tree[t->x_tree].levels;
}

static bool co_set(struct world *s, struct thread *t)
{
    uint16_t *word;
    CO_BEGIN(t->pc_index);
    for (; t->x_level < zs.tree[t->x_tree].levels; t->x_level++, t->x_child /= zc->fanout) {
        if (t->x_early) {
            t->x_early = 0;
            if (!must_set(t->x_ahead, t->x_child))
                continue;
        }
        if (reads_ahead(t)) {
            CO_AT(t->pc_index, 1);
            t->x_early = 1;
            t->x_ahead = *index_word(s, t->x_tree, t->x_level + 1u, t->x_child / zc->fanout);
        }
        CO_AT(t->pc_index, 2);
        word = word_at(s, t);
        if (must_set(*word, t->x_child)) {
            set_bit(word, t->x_child);
            model_say("sets child %u of tree %u level %u", t->x_child, t->x_tree, t->x_level);
        } else {
            model_say("finds child %u of tree %u level %u set", t->x_child, t->x_tree, t->x_level);
            t->x_early = 0;
            if (zone_bug == BUG_SET_STOPS)
                CO_RETURN(t->pc_index);
        }
    }
    CO_END(t->pc_index);
}

static void begin_clear(struct thread *t, unsigned tree, unsigned level, unsigned child)
{
    t->x_tree = (uint8_t)tree;
    t->x_level = (uint8_t)level;
    t->x_child = (uint8_t)child;
}

/* Is there something behind the child? -> x_full */
static bool co_child(struct world *s, struct thread *t)
{
    unsigned order = zs.order, j = t->x_tree > order ? t->x_tree - order : 0;
    CO_BEGIN(t->pc_child);
    if (t->x_level) {
        CO_AT(t->pc_child, 1);
        t->x_full = (*index_word(s, t->x_tree, t->x_level - 1u, t->x_child * zc->fanout) &
                     IX_CHILDREN) != 0;
    } else if (!j) {
        CO_AT(t->pc_child, 2);
        t->x_full = w_class(s->W[t->x_child]) == t->x_tree;
    } else {
        t->x_full = 1;
        for (t->x_i = 0; t->x_full && t->x_i < 1u << j; t->x_i++) {
            CO_AT(t->pc_child, 3);
            t->x_full = w_groupable(s->W[(t->x_child << j) + t->x_i]);
        }
    }
    model_say("finds child %u of tree %u level %u %s", t->x_child, t->x_tree, t->x_level,
              t->x_full ? "in use" : "empty");
    CO_END(t->pc_child);
}

/* The simpler protocol that fails: no mark, look once more after the bit was cleared. */
static bool co_clear_without_mark(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_index);
    for (; t->x_level < zs.tree[t->x_tree].levels; t->x_level++, t->x_child /= zc->fanout) {
        CO_CALL(t->pc_index, 1, co_child(s, t));
        if (t->x_full)
            CO_RETURN(t->pc_index);
        CO_AT(t->pc_index, 2);
        *word_at(s, t) &= (uint16_t)~index_bit(t->x_child);
        model_say("clears child %u of tree %u level %u", t->x_child, t->x_tree, t->x_level);
        t->x_word = *word_at(s, t);
        CO_CALL(t->pc_index, 3, co_child(s, t));
        if (t->x_full) {
            CO_AT(t->pc_index, 4);
            *word_at(s, t) |= (uint16_t)index_bit(t->x_child);
            CO_RETURN(t->pc_index);
        }
        if (t->x_word & IX_CHILDREN)
            CO_RETURN(t->pc_index);
    }
    CO_END(t->pc_index);
}

static bool mark(struct world *s, struct thread *t)
{
    uint16_t *word = word_at(s, t);
    if (!(*word & index_bit(t->x_child)))
        return false;
    *word |= IX_CLEARING;
    if (zone_bug != BUG_MARK_NO_VERSION)
        advance(word);
    t->x_word = *word;
    model_say("marks tree %u level %u for child %u", t->x_tree, t->x_level, t->x_child);
    return true;
}

static bool hide(struct world *s, struct thread *t)
{
    uint16_t *word = word_at(s, t);
    if (*word != t->x_word && zone_bug != BUG_CLEAR_ONE_BIT)
        return false;
    *word = (uint16_t)(*word & ~index_bit(t->x_child) & ~IX_CLEARING);
    t->x_word = *word;
    model_say("clears child %u of tree %u level %u", t->x_child, t->x_tree, t->x_level);
    return true;
}

static bool co_clear(struct world *s, struct thread *t)
{
    if (zone_bug == BUG_CLEAR_WITHOUT_MARK)
        return co_clear_without_mark(s, t);
    CO_BEGIN(t->pc_index);
    for (; t->x_level < zs.tree[t->x_tree].levels; t->x_level++, t->x_child /= zc->fanout) {
        for (t->x_tries = 0;; t->x_tries++) {
            if (t->x_tries == zc->remark)
                CO_RETURN(t->pc_index);
            if (zone_bug == BUG_CLEAR_CHILD_EARLY)
                CO_CALL(t->pc_index, 1, co_child(s, t));
            CO_AT(t->pc_index, 2);
            if (!mark(s, t))
                CO_RETURN(t->pc_index);
            if (zone_bug != BUG_CLEAR_CHILD_EARLY)
                CO_CALL(t->pc_index, 3, co_child(s, t));
            if (t->x_full)
                CO_RETURN(t->pc_index);
            CO_AT(t->pc_index, 4);
            if (hide(s, t))
                break;
            model_say("finds the word changed");
        }
        if (t->x_word & IX_CHILDREN)
            CO_RETURN(t->pc_index);
    }
    CO_END(t->pc_index);
}

/* ---- move ------------------------------------------------------------------------------------ */

void begin_move(struct thread *t, unsigned block, struct w from, struct w to)
{
    t->m_block = (uint8_t)block;
    t->m_from = from;
    t->m_to = to;
}

static bool look_at_others(struct world *s, const struct thread *t)
{
    unsigned b = ((unsigned)(t->m_block >> t->m_j) << t->m_j) + t->m_i;
    if (zone_bug == BUG_GROUP_LOOK_EARLY && b != t->m_block)
        return t->m_others >> b & 1;
    return w_groupable(s->W[b]);
}

/* -> m_i == members when all blocks of the group are free whole */
static bool co_look_at_group(struct world *s, struct thread *t)
{
    CO_BEGIN(t->pc_child);
    for (t->m_i = 0; t->m_i < 1u << t->m_j; t->m_i++) {
        CO_AT(t->pc_child, 9);
        model_say("looks at member %u of group %u", t->m_i, t->m_block >> t->m_j);
        if (!look_at_others(s, t)) {
            model_say("sees that group %u of order %u is not free", t->m_block >> t->m_j, t->m_j);
            CO_RETURN(t->pc_child);
        }
    }
    CO_END(t->pc_child);
}

bool co_move(struct world *s, struct thread *t)
{
    unsigned from = w_class(t->m_from), to = w_class(t->m_to);
    bool was = w_groupable(t->m_from), is = w_groupable(t->m_to);
    CO_BEGIN(t->pc_move);
    if (!zc->fanout)
        CO_RETURN(t->pc_move);
    if (from != to && to != NOTHING) {
        begin_set(t, to, t->m_block);
        CO_CALL(t->pc_move, 1, co_set(s, t));
    }
    if (from != to && from != NOTHING) {
        begin_clear(t, from, 0, t->m_block);
        CO_CALL(t->pc_move, 2, co_clear(s, t));
    }
    if (was == is)
        CO_RETURN(t->pc_move);
    for (t->m_j = 1; t->m_j <= zc->groups; t->m_j++) {
        if (t->m_block >> t->m_j >= zs.tree[zs.order + t->m_j].items)
            continue;
        if (is) {
            CO_CALL(t->pc_move, 3, co_look_at_group(s, t));
            if (t->m_i < 1u << t->m_j)
                CO_RETURN(t->pc_move);
            begin_set(t, zs.order + t->m_j, t->m_block >> t->m_j);
            CO_CALL(t->pc_move, 4, co_set(s, t));
        } else {
            begin_clear(t, zs.order + t->m_j, 0, t->m_block >> t->m_j);
            CO_CALL(t->pc_move, 5, co_clear(s, t));
        }
    }
    CO_END(t->pc_move);
}

bool co_repair(struct world *s, struct thread *t)
{
    unsigned now;
    CO_BEGIN(t->pc_find);
    if (t->tree <= zs.order) {
        CO_AT(t->pc_find, 11);
        now = w_class(s->W[t->item]);
        if (now == t->tree)
            CO_RETURN(t->pc_find);
        model_say("finds block %u under the wrong class", t->item);
        if (now != NOTHING) {
            begin_set(t, now, t->item);
            CO_CALL(t->pc_find, 12, co_set(s, t));
        }
    }
    begin_clear(t, t->tree, 0, t->item);
    CO_CALL(t->pc_find, 13, co_clear(s, t));
    CO_END(t->pc_find);
}

/* ---- find ------------------------------------------------------------------------------------ */

static unsigned lowest_bit(unsigned v)
{
    unsigned n = 0;
    while (!(v >> n & 1))
        n++;
    return n;
}

/* Up from where nothing was shown, over to the next child; false at the end of the tree. */
static bool next_child(struct thread *t)
{
    const struct tree_shape *shape = &zs.tree[t->tree];
    if (++t->f_pos >= shape->count[t->f_level])
        return false;
    while (t->f_level + 1 < shape->levels && t->f_pos % zc->fanout == 0) {
        t->f_pos /= zc->fanout;
        t->f_level++;
    }
    return true;
}

bool co_find(struct world *s, struct thread *t)
{
    const struct tree_shape *shape = &zs.tree[t->tree];
    unsigned shown;
    CO_BEGIN(t->pc_find);
    t->item = NOTHING;
    CO_AT(t->pc_find, 1);
    if (!(*index_word(s, t->tree, shape->levels - 1u, 0) & IX_CHILDREN)) {
        model_say("sees the root of tree %u empty", t->tree);
        CO_RETURN(t->pc_find);
    }
    t->f_level = t->f_descended = 0;
    t->f_pos = t->start;
    while (t->f_pos < shape->count[t->f_level]) {
        CO_AT(t->pc_find, 2);
        t->f_within = t->f_pos % zc->fanout;
        shown = *index_word(s, t->tree, t->f_level, t->f_pos) & IX_CHILDREN;
        shown = shown >> t->f_within << t->f_within;
        model_say("reads tree %u level %u at %u", t->tree, t->f_level, t->f_pos);
        if (shown) {
            t->f_pos = (uint8_t)(t->f_pos - t->f_within + lowest_bit(shown));
            if (!t->f_level) {
                t->item = t->f_pos;
                CO_RETURN(t->pc_find);
            }
            t->f_pos = (uint8_t)(t->f_pos * zc->fanout);
            t->f_level--;
            t->f_descended = 1;
            continue;
        }
        t->f_pos /= zc->fanout;
        if (++t->f_level == shape->levels)
            CO_RETURN(t->pc_find);
        if (t->f_descended && !t->f_within) {
            begin_clear(t, t->tree, t->f_level, t->f_pos);
            CO_CALL(t->pc_find, 3, co_clear(s, t));
        }
        if (!next_child(t))
            CO_RETURN(t->pc_find);
    }
    CO_END(t->pc_find);
}

/* ---- the proof of emptiness ------------------------------------------------------------------ */

bool co_was_empty(struct world *s, struct thread *t, unsigned order)
{
    unsigned last = order > zs.order ? order : zs.order,
             passes = zone_bug == BUG_ROOTS_ONCE ? 1 : 2;
    uint16_t word;
    CO_BEGIN(t->pc_find);
    t->sum[0] = t->sum[1] = 0;
    for (t->pass = 0; t->pass < passes; t->pass++) {
        for (t->tree = (uint8_t)order; t->tree <= last; t->tree++) {
            CO_AT(t->pc_find, 21);
            word = *index_word(s, t->tree, zs.tree[t->tree].levels - 1u, 0);
            model_say("root of tree %u: %u", t->tree, word & IX_CHILDREN);
            t->shown = (word & IX_CHILDREN) != 0;
            if (t->shown)
                CO_RETURN(t->pc_find);
            t->sum[t->pass] = (uint8_t)(t->sum[t->pass] + word / IX_VERSION);
        }
    }
    t->shown = passes == 2 && zone_bug != BUG_ROOTS_TWICE_BARE && t->sum[0] != t->sum[1];
    CO_END(t->pc_find);
}
