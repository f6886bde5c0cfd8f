/* SPDX-License-Identifier: MIT */
/*
 * Which CPU wrote a cache line last, and which have used it since: for every line of one area of
 * memory. What is counted is a *move*: a CPU uses a line (reads or writes) that another one has
 * written, for the first time since. That is what has to travel between the caches of a real
 * machine, whatever its protocol; first uses of a line that nobody has written are not counted, nor
 * is the invalidation of copies that were only read.
 */
#ifndef DECKLE_BENCH_SCALE_LINES_H
#define DECKLE_BENCH_SCALE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCALE_CPUS       512u
#define SCALE_LINE_BYTES 64u

struct scale_lines;

/* For the area [base, base + bytes). NULL: no memory. */
struct scale_lines *scale_lines_make(const void *base, size_t bytes);
void scale_lines_free(struct scale_lines *lines);

/* cpu uses the line of p; true if that is a move. Outside of the area nothing is counted. */
bool scale_lines_use(struct scale_lines *lines, const volatile void *p, unsigned cpu, bool writes);

/* The line that has moved most often since scale_lines_reset; its address, and how often. */
const void *scale_lines_hottest(const struct scale_lines *lines, uint64_t *moves);
void scale_lines_reset(struct scale_lines *lines);

#endif
