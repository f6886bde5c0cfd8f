/* SPDX-License-Identifier: MIT */
/* What a place in a pool's metadata is, as far as the model tells places apart. */
#ifndef DECKLE_BENCH_SCALE_WORDS_H
#define DECKLE_BENCH_SCALE_WORDS_H

#include <deckle.h>

enum scale_word {
    SCALE_HANDLE,
    SCALE_SUPERBLOCK,
    SCALE_ZONE,     /* limits and marks */
    SCALE_FREE,     /* the zone's line of counters */
    SCALE_COUNTERS, /* a CPU's counters and what it works in */
    SCALE_HEAD,     /* of a list */
    SCALE_SLOT,     /* of a list */
    SCALE_W,        /* a pageblock's word */
    SCALE_BITS,     /* a pageblock's line */
    SCALE_LEAF,     /* of the index */
    SCALE_INNER,
    SCALE_ROOT,
    SCALE_STATE, /* state bytes */
    SCALE_OTHER,
    SCALE_NR_WORDS
};

enum scale_word scale_word_of(const struct deckle *d, const volatile void *p);
const char *scale_word_name(enum scale_word word);

#endif
