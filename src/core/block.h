/* SPDX-License-Identifier: MIT */
/*
 * One pageblock's line of 512 bits, a set bit = used: find, claim and release aligned runs. Knows
 * nothing of W, the index or counters; zone.c reserves before it claims and adds after it clears.
 */
#ifndef DK_CORE_BLOCK_H
#define DK_CORE_BLOCK_H

#include "core/blockinfo.h"
#include "core/layout.h"

/* Largest order that fits a word of the line: 6 or 5. */
#define DK_WORD_ORDER (DK_WORD_BITS == 64 ? 6u : 5u)

/*
 * Claim up to want free runs of 2^order frames (order 0 … 8), lowest first, that end at or below
 * frame `limit` of the line (512 = no limit). Offsets of the first frames go to out. Returns how
 * many. *rolled_back is set when a run of several words was lost half-way and its words were
 * cleared again: the caller owes W a full give (blockinfo.h) even if it has nothing to return.
 */
unsigned dk_line_claim(dk_aword *line, unsigned order, unsigned limit, uint16_t *out, unsigned want,
                       bool *rolled_back);

/* Claim just the run at offset: true, or false with nothing claimed. */
bool dk_line_claim_at(dk_aword *line, unsigned offset, unsigned order, bool *rolled_back);

/* Clear n runs of one order that lie in this line (offsets are fis modulo 512), one atomic a word;
 * returns how many of their bits were set. */
unsigned dk_line_release(dk_aword *line, unsigned order, const uint32_t *fis, unsigned n);

/* 9 - order of the largest aligned free run, at least 1 (order 8): order 9 is said by W alone; 10 =
 * none. */
unsigned dk_line_run_code(const dk_aword *line);
/* The same below frame `limit`. */
unsigned dk_line_run_code_below(const dk_aword *line, unsigned limit);
unsigned dk_line_used(const dk_aword *line);

#endif
