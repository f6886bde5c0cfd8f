/* SPDX-License-Identifier: MIT */
/*
 * Every allocated block, every run of free frames, and the end of a pool. Linear; quiescent. A
 * pageblock whose W is zero was never touched and is passed over without a look at its frames, so a
 * large pool of which little was used is walked quickly.
 */
#include "core/pcp.h"
#include "core/section.h"
#include "core/setup.h"
#include "core/walk.h"

typedef void allocated_fn(void *ctx, const struct deckle_allocated *block);

static dk_word word_at(const struct deckle *d, uint64_t fi)
{
    return dk_load_relaxed(&d->words[fi >> DK_BLOCK_ORDER]);
}

/* Calls fn (may be NULL) for each block of the section; returns their frames. */
static uint64_t each_allocated(const struct deckle *d, const struct dk_section_view *s,
                               allocated_fn *fn, void *ctx)
{
    uint64_t fi = s->first_fi, end = fi + s->nr, frames = 0;

    while (fi < end) {
        if (fi % DK_BLOCK_FRAMES == 0 && !dk_w_used(word_at(d, fi))) {
            fi += DK_BLOCK_FRAMES;
            continue;
        }
        uint8_t state = dk_a8_load_relaxed(&d->state[fi]);
        if (!dk_state_is_head(state)) {
            fi++;
            continue;
        }
        struct deckle_allocated block = {
            .pfn = s->pfn + (fi - s->first_fi),
            .order = dk_state_order(state),
            .owner = d->owners ? dk_a32_load_relaxed(&d->owners[fi]) : 0,
        };
        if (fn)
            fn(ctx, &block);
        fi += (uint64_t)1 << block.order;
        frames += (uint64_t)1 << block.order;
    }
    return frames;
}

static uint64_t every_allocated(const struct deckle *d, allocated_fn *fn, void *ctx)
{
    struct dk_section_view s;
    uint64_t frames = 0;

    for (uint32_t n = 0; dk_section_nth(d, n, &s); n++)
        frames += each_allocated(d, &s, fn, ctx);
    return frames;
}

void deckle_for_each_allocated(const struct deckle *d,
                               void (*fn)(void *ctx, const struct deckle_allocated *), void *ctx)
{
    if (d && fn)
        every_allocated(d, fn, ctx);
}

/* A run that is being collected, and who wants it. */
struct free_run {
    void (*fn)(void *ctx, uint64_t pfn, uint64_t nr);
    void *ctx;
    uint64_t pfn, nr;
};

static void extend(struct free_run *run, uint64_t pfn, uint64_t nr)
{
    if (run->nr && run->pfn + run->nr == pfn) {
        run->nr += nr;
        return;
    }
    if (run->nr)
        run->fn(run->ctx, run->pfn, run->nr);
    run->pfn = pfn;
    run->nr = nr;
}

static void each_free_in_block(const struct deckle *d, uint32_t block, uint64_t pfn,
                               struct free_run *run)
{
    dk_word w = dk_load_relaxed(&d->words[block]);
    const dk_aword *line = dk_line(d, block);
    unsigned from = 0, stop;

    if ((w & DK_W_SHUT) || dk_w_used(w) == DK_BLOCK_FRAMES)
        return;
    while ((from = dk_line_next(line, from, false)) < DK_BLOCK_FRAMES) {
        stop = dk_line_next(line, from, true);
        extend(run, pfn + from, stop - from);
        from = stop;
    }
}

/* Not isolated ones: they cannot be allocated, and the zone does not count them as free. Frames
 * outside the section that share its outer blocks are holes: their bits are set. */
void deckle_for_each_free(const struct deckle *d, void (*fn)(void *ctx, uint64_t pfn, uint64_t nr),
                          void *ctx)
{
    struct free_run run = {fn, ctx, 0, 0};
    struct dk_section_view s;

    if (!d || !fn)
        return;
    for (uint32_t n = 0; dk_section_nth(d, n, &s); n++) {
        uint64_t pfn = dk_align_down(s.pfn, DK_BLOCK_FRAMES);
        uint32_t block = dk_section_first_block(&s), end = dk_section_end_block(&s);
        for (; block < end; block++, pfn += DK_BLOCK_FRAMES)
            each_free_in_block(d, block, pfn, &run);
    }
    if (run.nr)
        fn(ctx, run.pfn, run.nr);
}

uint64_t deckle_exit(struct deckle *d,
                     void (*leak)(void *ctx, const struct deckle_allocated *block))
{
    if (!d || d->handle_magic != DK_HANDLE_MAGIC)
        return 0;
    if (d->tags)
        return 0; /* a shared pool does not end with one of its handles: deckle_detach */
    for (uint32_t i = 0; i < d->sb->nr_zones && d->kind != DK_PCP_NONE; i++)
        dk_pcp_drain_zone(d, &d->zones[i], NULL);
    uint64_t frames = every_allocated(d, leak, d->host.ctx);
    d->handle_magic = 0;
    return frames;
}
