/* SPDX-License-Identifier: MIT */
/*
 * A line is DK_LINE_WORDS words; frame f is bit f mod DK_WORD_BITS of word f / DK_WORD_BITS.
 *
 * Memory order. Claiming is a CAS from the value that was scanned, so two claimers never get one
 * bit. Clearing is a seq_cst fetch-and followed by a scan with seq_cst loads: of two frees that
 * complete a run over several words at least one sees the whole run, because each clears before it
 * loads (the store-load pair on both sides). Claims and clears pair with each other: what the last
 * owner of a frame wrote to it happens before the next owner's claim.
 *
 * A run above DK_WORD_ORDER takes its words in ascending order, each from all-clear to all-set. If
 * one is lost, those taken are cleared again; while they were set, another thread may have lowered
 * W's run, so the caller is told (rolled_back) and performs a full give.
 */
#include "core/block.h"

#include "core/ablation.h"

/* All bits of the runs that begin at the set bits of starts. */
static dk_word runs_mask(dk_word starts, unsigned order)
{
    for (unsigned k = 0; k < order; k++)
        starts |= starts << (1u << k);
    return starts;
}

/* The lowest n set bits of starts (n >= 1). */
static dk_word lowest(dk_word starts, unsigned n)
{
    dk_word rest = starts;
    while (rest && n--)
        rest &= rest - 1;
    return starts & ~rest;
}

static unsigned claim_in_word(dk_aword *word, unsigned base, unsigned order, dk_word allowed,
                              uint16_t *out, unsigned want)
{
    dk_word w = dk_load_seq(word);
    for (;;) {
        dk_word starts = dk_run_starts(~w & allowed, order);
        if (!starts)
            return 0;
        starts = lowest(starts, want);
        if (dk_cas(word, &w, w | runs_mask(starts, order))) {
            unsigned n = 0;
            for (; starts; starts &= starts - 1)
                out[n++] = (uint16_t)(base + dk_ctz(starts));
            return n;
        }
    }
}

static bool claim_words(dk_aword *line, unsigned first, unsigned n, bool *rolled_back)
{
    for (unsigned i = 0; i < n; i++) {
        dk_word clear = 0;
        if (dk_cas(&line[first + i], &clear, ~(dk_word)0))
            continue;
        while (i-- > 0) {
            dk_and(&line[first + i], 0);
            *rolled_back = true;
        }
        return false;
    }
    return true;
}

static bool words_clear(const dk_aword *line, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (dk_load_seq(&line[first + i]))
            return false;
    return true;
}

unsigned dk_line_claim(dk_aword *line, unsigned order, unsigned limit, uint16_t *out, unsigned want,
                       bool *rolled_back)
{
    unsigned got = 0;
    if (order <= DK_WORD_ORDER) {
        for (unsigned i = 0; i < DK_LINE_WORDS && got < want; i++) {
            unsigned base = i * DK_WORD_BITS;
            if (base >= limit)
                break;
            dk_word allowed = dk_mask(limit - base);
            unsigned n, most = DK_CLAIMS_WORDS ? want : 1;
            do
                got += n = claim_in_word(&line[i], base, order, allowed, out + got,
                                         want - got < most ? want - got : most);
            while (!DK_CLAIMS_WORDS && n && got < want);
        }
        return got;
    }
    unsigned n = 1u << (order - DK_WORD_ORDER);
    for (unsigned i = 0; i + n <= DK_LINE_WORDS && got < want; i += n) {
        if ((i + n) * DK_WORD_BITS > limit)
            break;
        if (words_clear(line, i, n) && claim_words(line, i, n, rolled_back))
            out[got++] = (uint16_t)(i * DK_WORD_BITS);
        if (*rolled_back)
            break;
    }
    return got;
}

bool dk_line_claim_at(dk_aword *line, unsigned offset, unsigned order, bool *rolled_back)
{
    unsigned i = offset / DK_WORD_BITS;
    if (order > DK_WORD_ORDER) {
        unsigned n = 1u << (order - DK_WORD_ORDER);
        return words_clear(line, i, n) && claim_words(line, i, n, rolled_back);
    }
    dk_word mask = dk_mask(1u << order) << offset % DK_WORD_BITS;
    dk_word w = dk_load_seq(&line[i]);
    do {
        if (w & mask)
            return false;
    } while (!dk_cas(&line[i], &w, w | mask));
    return true;
}

static unsigned release_words(dk_aword *line, unsigned order, uint32_t fi)
{
    unsigned set = 0, i = fi % DK_BLOCK_FRAMES / DK_WORD_BITS;
    for (unsigned n = 1u << (order - DK_WORD_ORDER); n; n--, i++)
        set += dk_popcount(dk_and(&line[i], 0));
    return set;
}

/* Neighbours in fis are often neighbours in the line: their bits are collected as long as the word
 * is the same. A run named twice is cleared once, so the count shows it. */
unsigned dk_line_release(dk_aword *line, unsigned order, const uint32_t *fis, unsigned n)
{
    unsigned set = 0;
    for (unsigned i = 0; i < n;) {
        if (order > DK_WORD_ORDER) {
            set += release_words(line, order, fis[i++]);
            continue;
        }
        uint32_t word = fis[i] / DK_WORD_BITS;
        dk_word run = dk_mask(1u << order), mask = 0;
        for (; i < n && fis[i] / DK_WORD_BITS == word; i++)
            mask |= run << fis[i] % DK_WORD_BITS;
        set += dk_popcount(dk_and(&line[word % DK_LINE_WORDS], ~mask) & mask);
    }
    return set;
}

/*
 * Fold all words at once: after step k a bit says that an aligned run of 2^(k+1) starts there. The
 * largest run is found at the first step that leaves nothing.
 */
static unsigned run_code_of(dk_word free[DK_LINE_WORDS])
{
    dk_word any = 0;
    unsigned whole = 0; /* bit per word that is entirely free */
    for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
        any |= free[i];
        whole |= (unsigned)(free[i] == ~(dk_word)0) << i;
    }
    if (!any)
        return DK_RUN_NONE;
    if (whole) {
        unsigned order = DK_WORD_ORDER;
        for (; order < DK_BLOCK_ORDER - 1; order++) {
            unsigned n = 1u << (order - DK_WORD_ORDER);
            whole &= whole >> n;
            whole &= order == DK_WORD_ORDER       ? 0x5555u
                     : order == DK_WORD_ORDER + 1 ? 0x1111u
                                                  : 0x0101u;
            if (!whole)
                break;
        }
        return DK_BLOCK_ORDER - order;
    }
    unsigned order = 0;
    for (; order < DK_WORD_ORDER - 1; order++) {
        any = 0;
        for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
            free[i] &= free[i] >> (1u << order) & dk_aligned_starts(order + 1);
            any |= free[i];
        }
        if (!any)
            break;
    }
    return DK_BLOCK_ORDER - order;
}

unsigned dk_line_run_code(const dk_aword *line)
{
    dk_word free[DK_LINE_WORDS];
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        free[i] = ~dk_load_seq(&line[i]);
    return run_code_of(free);
}

unsigned dk_line_run_code_below(const dk_aword *line, unsigned limit)
{
    dk_word free[DK_LINE_WORDS];
    for (unsigned i = 0; i < DK_LINE_WORDS; i++) {
        unsigned base = i * DK_WORD_BITS;
        free[i] = base >= limit ? 0 : ~dk_load_seq(&line[i]) & dk_mask(limit - base);
    }
    return run_code_of(free);
}

unsigned dk_line_used(const dk_aword *line)
{
    unsigned used = 0;
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        used += dk_popcount(dk_load_relaxed(&line[i]));
    return used;
}
