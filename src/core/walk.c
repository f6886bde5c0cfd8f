/* SPDX-License-Identifier: MIT */
/* Walks in pfn order: see walk.h. */
#include "core/walk.h"

#include "core/section.h"

#include "core/section.h"

unsigned dk_line_next(const dk_aword *line, unsigned from, bool used)
{
    dk_word flip = used ? 0 : ~(dk_word)0;

    while (from < DK_BLOCK_FRAMES) {
        dk_word w = dk_load_relaxed(&line[from / DK_WORD_BITS]) ^ flip;

        w &= ~dk_mask(from % DK_WORD_BITS);
        if (w)
            return (unsigned)dk_align_down(from, DK_WORD_BITS) + dk_ctz(w);
        from = (unsigned)dk_align_down(from, DK_WORD_BITS) + DK_WORD_BITS;
    }
    return DK_BLOCK_FRAMES;
}

void dk_free_walk_begin(struct dk_free_walk *w, const struct deckle *d, uint32_t zone)
{
    *w = (struct dk_free_walk){.d = d, .zone = zone};
}

static bool next_section(struct dk_free_walk *w)
{
    struct dk_section_view s;

    while (dk_section_from(w->d, w->next_pfn, &s)) {
        w->next_pfn = s.pfn + s.nr;
        if (w->zone != DK_NONE && s.zone != w->zone)
            continue;
        w->block = dk_section_first_block(&s);
        w->end = dk_section_end_block(&s);
        w->offset = 0;
        return true;
    }
    return false;
}

/* Pageblocks from w->block on that are free as a whole and merge. */
static uint32_t free_whole_blocks(const struct dk_free_walk *w, dk_word first)
{
    uint32_t n = 1;

    if (!dk_w_is_groupable(first))
        return 1;
    while (w->block + n < w->end && dk_w_is_groupable(dk_load_relaxed(&w->d->words[w->block + n])))
        n++;
    return n;
}

/* The next run of free frames that may be cut into blocks: inside a pageblock, or whole pageblocks.
 */
static bool next_run(struct dk_free_walk *w)
{
    for (;;) {
        if (w->block == w->end && !next_section(w))
            return false;

        uint64_t first_fi = (uint64_t)w->block * DK_BLOCK_FRAMES;
        dk_word word = dk_load_relaxed(&w->d->words[w->block]);

        w->type = dk_w_shown_type(word);
        if (word & (DK_W_OFFLINE | DK_W_WHOLE) || !dk_w_free(word)) {
            w->block++;
            w->offset = 0;
            continue;
        }
        if (!dk_w_used(word) && !w->offset) {
            w->fi = first_fi;
            w->block += free_whole_blocks(w, word);
            w->run_end = (uint64_t)w->block * DK_BLOCK_FRAMES;
            return true;
        }
        const dk_aword *line = dk_line(w->d, w->block);
        unsigned start = dk_line_next(line, w->offset, false);
        unsigned end = dk_line_next(line, start, true);

        w->offset = end;
        if (end == DK_BLOCK_FRAMES) {
            w->block++;
            w->offset = 0;
        }
        if (start == end) /* the end of the block, or taken between the two looks */
            continue;
        w->fi = first_fi + start;
        w->run_end = first_fi + end;
        return true;
    }
}

/* The largest aligned block at the start of the run: cut so, a run falls into the blocks that are
 * part of no larger one. */
bool dk_free_walk_next(struct dk_free_walk *w, struct dk_free_block *out)
{
    unsigned order;

    if (w->fi == w->run_end && !next_run(w))
        return false;
    order = w->d->max_order;
    while ((w->fi & (((uint64_t)1 << order) - 1)) || (uint64_t)1 << order > w->run_end - w->fi)
        order--;
    out->fi = (uint32_t)w->fi;
    out->order = order;
    out->type = w->type;
    if (order >= DK_BLOCK_ORDER)
        out->type = dk_w_shown_type(dk_load_relaxed(&w->d->words[w->fi >> DK_BLOCK_ORDER]));
    w->fi += (uint64_t)1 << order;
    return true;
}
