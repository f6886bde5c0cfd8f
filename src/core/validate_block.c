/* SPDX-License-Identifier: MIT */
/*
 * Validation of pageblocks: W against the line of bits, both against the state bytes, W against the
 * index. The frames of a section are visited in order; `cover` is the allocated block that the walk
 * is inside of, so each frame is looked at once.
 *
 * Of the index only the missing direction is an error: a block whose class is not shown cannot be
 * found any more. Bits that show too much, and CLEARING marks, are left over by operations that
 * gave up clearing; finders put them right.
 */
#include "core/validate.h"

#include "core/block.h"
#include "core/check.h"
#include "core/client.h"
#include "core/index.h"
#include "core/stats.h"

struct walk {
    struct dk_check *check;
    const struct dk_section_view *section;
    const struct dk_span *span;
    struct dk_tally *tally;
    uint64_t cover_end; /* frames below it belong to the allocated block at cover_head */
    uint32_t cover_head;
    uint32_t cover_order;
    bool unsettled;    /* the pageblock was left in the middle of something (shared pools) */
    uint32_t free_run; /* pageblocks up to here that are free as a whole and merge */
};

/* ---- W and its line ------------------------------------------------------------------------ */

static bool check_flags(struct dk_check *c, uint32_t block, dk_word w)
{
    if (dk_w_used(w) > DK_BLOCK_FRAMES)
        return dk_bad_block(c, block, "W counts %u used frames of %u", dk_w_used(w),
                            DK_BLOCK_FRAMES);
    if (dk_w_type(w) > DECKLE_CMA)
        return dk_bad_block(c, block, "W has migratetype %u, the last one is %u", dk_w_type(w),
                            (unsigned)DECKLE_CMA);
    if (dk_w_run_code(w) > DK_RUN_NONE)
        return dk_bad_block(c, block, "W has run code %u, the last one is %u", dk_w_run_code(w),
                            DK_RUN_NONE);
    if ((w & DK_W_OWNED) && dk_w_type(w) >= DK_PCP_TYPES)
        return dk_bad_block(c, block, "a CPU owns it, but blocks of type %s have no owner",
                            dk_migratetype_name(dk_w_type(w)));
    if ((w & DK_W_OWNED) && !dk_w_used(w))
        return dk_bad_block(c, block, "a CPU owns it, but a free block has no owner");
    return true;
}

/* "none", or the order as text, for a run code. */
static void name_run(char name[8], unsigned code)
{
    struct dk_text t;

    dk_text_begin(&t, name, 8, NULL, NULL);
    if (code >= DK_RUN_NONE)
        dk_text_puts(&t, "none");
    else
        dk_text_printf(&t, "%u", DK_BLOCK_ORDER - code);
}

static bool check_run(struct dk_check *c, uint32_t block, dk_word w, unsigned used)
{
    unsigned said = dk_w_run_code(w);
    unsigned real = used ? dk_line_run_code(dk_line(c->d, block)) : 0;
    char said_name[8], real_name[8];

    name_run(said_name, said);
    name_run(real_name, real);
    if (said > real)
        return dk_bad_block(c, block,
                            "W hides a free run: its largest is said to be of order %s, but "
                            "one of order %s is there",
                            said_name, real_name);
    if (used && !said)
        return dk_bad_block(c, block, "W says a run of order %u, but %u frames are used",
                            DK_BLOCK_ORDER, used);
    return true;
}

/* All blocks are in the epoch of the pool, or in the one before while a reaper has not finished. */
static bool check_epoch(struct dk_check *c, uint32_t block, dk_word w)
{
    const struct dk_superblock *sb = c->d->sb;
    uint32_t epoch = dk_a32_load_relaxed(&sb->epoch);

    if (!c->d->tags || dk_w_epoch(w) == epoch % DK_EPOCHS ||
        (dk_a32_load_relaxed(&sb->epoch_settled) != epoch &&
         dk_w_epoch(w) == (epoch - 1) % DK_EPOCHS))
        return true;
    return dk_bad_block(c, block, "counted in epoch %u of four, the pool is in epoch %u",
                        dk_w_epoch(w), epoch % DK_EPOCHS);
}

static bool check_word(const struct walk *walk, uint32_t block, dk_word w)
{
    struct dk_check *c = walk->check;
    unsigned bits = dk_line_used(dk_line(c->d, block));

    if (!check_flags(c, block, w) || !check_epoch(c, block, w))
        return false;
    if (walk->unsettled)
        return true;
    if (!(w & DK_W_WHOLE)) {
        if (bits != dk_w_used(w))
            return dk_bad_block(c, block, "W counts %u used frames, its line has %u bits set",
                                dk_w_used(w), bits);
        return (w & DK_W_OFFLINE) || check_run(c, block, w, bits);
    }
    if (bits)
        return dk_bad_block(c, block, "allocated as a whole, but its line has %u bits set", bits);
    if (dk_w_used(w) != DK_BLOCK_FRAMES)
        return dk_bad_block(c, block, "allocated as a whole, but W counts %u used frames of %u",
                            dk_w_used(w), DK_BLOCK_FRAMES);
    if (dk_w_run_code(w) != DK_RUN_NONE)
        return dk_bad_block(c, block, "allocated as a whole, but W says a free run of order %u",
                            DK_BLOCK_ORDER - dk_w_run_code(w));
    if (w & (DK_W_OWNED | DK_W_OFFLINE))
        return dk_bad_block(c, block, "allocated as a whole, but also %s",
                            w & DK_W_OWNED ? "owned by a CPU" : "offline");
    return true;
}

/* ---- the index ----------------------------------------------------------------------------- */

static bool check_index(struct walk *walk, uint32_t block, dk_word w)
{
    const struct dk_span *span = walk->span;
    struct dk_check *c = walk->check;
    uint32_t class = dk_w_class(w);

    if (walk->unsettled) {
        walk->free_run = 0;
        return true;
    }
    if (class != DK_NONE && !dk_index_has(c->d, span, class, block - span->first_block))
        return dk_bad_block(c, block, "the index does not show it as %s with a run of order %u%s",
                            dk_migratetype_name(dk_w_type(w)), DK_BLOCK_ORDER - dk_w_run_code(w),
                            w & DK_W_OWNED ? ", owned" : "");

    walk->free_run = dk_w_is_groupable(w) ? walk->free_run + 1 : 0;
    for (unsigned order = DK_BLOCK_ORDER + 1; order <= c->d->max_order; order++) {
        unsigned shift = order - DK_BLOCK_ORDER;
        uint32_t group = block >> shift;

        /* Only the last block of a group can complete it. */
        if ((block + 1) >> shift == group || walk->free_run < 1u << shift)
            break;
        if (!dk_index_has(c->d, span, dk_group_class(order), group - (span->first_block >> shift)))
            return dk_bad_block(c, group << shift,
                                "the index does not show the free group of "
                                "order %u that begins here",
                                order);
    }
    return true;
}

/* ---- frames -------------------------------------------------------------------------------- */

/* Used frames have a holder, free ones have none; of a whole pageblock only the first does. */
static bool check_tag(struct walk *walk, uint64_t fi, bool used, dk_word w)
{
    struct dk_check *c = walk->check;
    const struct deckle *d = c->d;
    bool tagged = used && (!(w & DK_W_WHOLE) || fi % DK_BLOCK_FRAMES == 0);
    unsigned tag;

    if (!d->tags || walk->unsettled || dk_is_orphan(d, fi))
        return true;
    tag = dk_a8_load_relaxed(&d->tags[fi]);
    if (tag && !dk_client_is(d, tag, DK_CLIENT_LIVE))
        return dk_bad_frame(c, fi, "held by client %u, which there is not", tag);
    if (tagged != (tag != 0))
        return dk_bad_frame(c, fi,
                            tag ? "held by client %u, but free, or not the head of its pageblock"
                                : "in use, but held by client %u",
                            tag);
    return true;
}

static bool check_head(struct walk *walk, uint64_t fi, uint8_t state, dk_word w)
{
    const struct dk_section_view *s = walk->section;
    struct dk_check *c = walk->check;
    unsigned order = dk_state_order(state);
    uint64_t frames = (uint64_t)1 << order;

    if (order > c->d->max_order)
        return dk_bad_frame(c, fi, "head of a block of order %u, the largest is %u", order,
                            c->d->max_order);
    if (fi & (frames - 1))
        return dk_bad_frame(c, fi, "head of a block of order %u, but not a multiple of %llu", order,
                            DK_LLU(frames));
    if (fi + frames > s->first_fi + s->nr)
        return dk_bad_frame(c, fi,
                            "head of a block of order %u, but memory ends %llu frames after it",
                            order, DK_LLU(s->first_fi + s->nr - fi));
    if (dk_state_type(state) >= DK_PCP_TYPES)
        return dk_bad_frame(c, fi, "its state byte 0x%02x names cache type %u of %u", state,
                            dk_state_type(state), DK_PCP_TYPES);
    if ((order >= DK_BLOCK_ORDER) != ((w & DK_W_WHOLE) != 0))
        return dk_bad_frame(c, fi, "head of a block of order %u in a pageblock that is %s", order,
                            w & DK_W_WHOLE ? "allocated as a whole" : "divided");
    if (!check_tag(walk, fi, true, w))
        return false;
    walk->tally->allocated += frames;
    walk->cover_head = (uint32_t)fi;
    walk->cover_order = order;
    walk->cover_end = fi + frames;
    return true;
}

/* What an allocation leaves beside the state byte is gone when the frame is nobody's. */
static bool check_unowned(struct dk_check *c, uint64_t fi)
{
    const struct deckle *d = c->d;

    if (d->descriptors && dk_load_relaxed(&d->descriptors[fi]))
        return dk_bad_frame(c, fi, "not allocated, but with %llu references",
                            DK_LLU(dk_load_relaxed(&d->descriptors[fi])));
    if (d->owners && dk_a32_load_relaxed(&d->owners[fi]))
        return dk_bad_frame(c, fi, "not allocated, but with the owner tag %u",
                            dk_a32_load_relaxed(&d->owners[fi]));
    return true;
}

/* A used frame outside blocks that need not be in a cache either. */
static bool is_adrift(const struct walk *walk, uint64_t fi, dk_word w)
{
    const struct deckle *d = walk->check->d;
    uint64_t tagged = w & DK_W_WHOLE ? dk_align_down(fi, DK_BLOCK_FRAMES) : fi;

    return walk->unsettled || dk_is_orphan(d, tagged);
}

/* A frame that is no tail of an allocated block. */
static bool check_outside(struct walk *walk, uint64_t fi, uint8_t state, bool used, dk_word w)
{
    struct dk_check *c = walk->check;

    if (state == DK_STATE_HOLE || state == DK_STATE_RESERVED) {
        if (!used || (w & DK_W_WHOLE))
            return dk_bad_frame(c, fi, "%s, but its bit is clear",
                                state == DK_STATE_HOLE ? "a hole" : "reserved");
        if (state == DK_STATE_HOLE)
            walk->tally->holes++;
        else
            walk->tally->reserved++;
        return true;
    }
    if (dk_state_is_free(state)) {
        if (used && !is_adrift(walk, fi, w))
            dk_frame_set_add(&walk->tally->loose, fi);
        return check_unowned(c, fi) && check_tag(walk, fi, used, w);
    }
    if (!dk_state_is_head(state))
        return dk_bad_frame(c, fi, "its state byte 0x%02x means nothing", state);
    if (!used)
        return dk_bad_frame(c, fi, "head of a block of order %u, but the frame is free",
                            dk_state_order(state));
    return check_head(walk, fi, state, w);
}

static bool check_frame(struct walk *walk, uint64_t fi, uint8_t state, bool used, dk_word w)
{
    const struct dk_section_view *s = walk->section;
    struct dk_check *c = walk->check;

    if (fi - s->first_fi >= s->nr && state != DK_STATE_HOLE) /* below wraps to large */
        return dk_bad_block(c, (uint32_t)(fi / DK_BLOCK_FRAMES),
                            "its frame %u lies outside the "
                            "section, but its state byte is 0x%02x, not that of a hole",
                            (unsigned)(fi % DK_BLOCK_FRAMES), state);
    if (fi >= walk->cover_end)
        return check_outside(walk, fi, state, used, w);
    if (!dk_state_is_free(state) && !dk_is_orphan(c->d, walk->cover_head))
        return dk_bad_frame(c, fi,
                            "state byte 0x%02x inside the block of order %u at %llu frames "
                            "before it",
                            state, walk->cover_order, DK_LLU(fi - walk->cover_head));
    if (!used)
        return dk_bad_frame(c, fi,
                            "free, but inside the block of order %u at %llu frames before it",
                            walk->cover_order, DK_LLU(fi - walk->cover_head));
    return dk_is_orphan(c->d, walk->cover_head) || check_tag(walk, fi, true, w);
}

static bool check_frames(struct walk *walk, uint32_t block, dk_word w)
{
    const struct deckle *d = walk->check->d;
    const dk_aword *line = dk_line(d, block);
    uint64_t first = (uint64_t)block * DK_BLOCK_FRAMES;

    for (unsigned i = 0; i < DK_BLOCK_FRAMES; i++) {
        dk_word bits = dk_load_relaxed(&line[i / DK_WORD_BITS]);
        bool used = (w & DK_W_WHOLE) || (bits >> i % DK_WORD_BITS & 1);

        if (!check_frame(walk, first + i, dk_a8_load_relaxed(&d->state[first + i]), used, w))
            return false;
    }
    return true;
}

/* ---- together ------------------------------------------------------------------------------ */

static void tally_block(struct dk_tally *tally, dk_word w)
{
    unsigned free = dk_w_free(w);

    tally->open_blocks++;
    tally->highatomic_blocks += dk_w_type(w) == DECKLE_HIGHATOMIC;
    tally->cma_blocks += dk_w_type(w) == DECKLE_CMA;
    if (w & DK_W_ISOLATED) {
        tally->free_isolated += free;
        return;
    }
    tally->free += free;
    if (dk_w_type(w) == DECKLE_CMA)
        tally->free_cma += free;
    if (dk_w_type(w) == DECKLE_HIGHATOMIC)
        tally->free_highatomic += free;
}

bool dk_check_blocks(struct dk_check *c, const struct dk_section_view *s, uint32_t first,
                     uint32_t end, struct dk_tally *tally)
{
    struct walk walk = {.check = c, .section = s, .span = &c->d->spans[s->span], .tally = tally};
    uint64_t first_fi = (uint64_t)first * DK_BLOCK_FRAMES;

    /* The walk may begin inside an allocated block of several pageblocks. */
    if (first_fi > s->first_fi) {
        uint32_t head = dk_head_of(c->d, (uint32_t)first_fi);

        if (head != DK_NONE && head < first_fi) {
            walk.cover_head = head;
            walk.cover_order = dk_state_order(dk_a8_load_relaxed(&c->d->state[head]));
            walk.cover_end = head + ((uint64_t)1 << walk.cover_order);
            tally->allocated += walk.cover_end - first_fi;
        }
    }
    for (uint32_t block = first; block < end; block++) {
        dk_word w = dk_load_relaxed(&c->d->words[block]);

        walk.unsettled = dk_is_unsettled(c->d, block);
        if (!check_word(&walk, block, w))
            return false;
        if (walk.cover_end > (uint64_t)block * DK_BLOCK_FRAMES && !(w & DK_W_WHOLE))
            return dk_bad_block(c, block,
                                "divided, but part of the block of order %u that begins %llu "
                                "frames before it",
                                walk.cover_order,
                                DK_LLU((uint64_t)block * DK_BLOCK_FRAMES - walk.cover_head));
        if (!(w & DK_W_OFFLINE))
            tally_block(tally, w);
        if (!check_index(&walk, block, w) || !check_frames(&walk, block, w))
            return false;
    }
    /* It may end inside one too: only frames up to there are counted. */
    if (walk.cover_end > (uint64_t)end * DK_BLOCK_FRAMES)
        tally->allocated -= walk.cover_end - (uint64_t)end * DK_BLOCK_FRAMES;
    return true;
}

bool dk_frames_used(const struct deckle *d, uint32_t fi, unsigned order)
{
    uint64_t end = fi + ((uint64_t)1 << order);

    for (uint64_t f = fi; f < end; f++) {
        const dk_aword *line = dk_line(d, (uint32_t)(f / DK_BLOCK_FRAMES));
        dk_word bits = dk_load_relaxed(&line[f % DK_BLOCK_FRAMES / DK_WORD_BITS]);
        dk_word w = dk_load_relaxed(&d->words[f / DK_BLOCK_FRAMES]);

        if (!(w & DK_W_WHOLE) && !(bits >> f % DK_WORD_BITS & 1))
            return false;
    }
    return true;
}
