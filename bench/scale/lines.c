/* SPDX-License-Identifier: MIT */
/* Who has used which line (lines.h). */
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#define WORDS (SCALE_CPUS / 64)

struct line {
    uint64_t users[WORDS]; /* since the last write by another CPU, the writer among them */
    uint32_t writer;       /* cpu + 1, 0 = nobody */
    uint32_t moves;
};

struct scale_lines {
    uintptr_t first; /* line number of the area */
    size_t nr;
    struct line lines[];
};

struct scale_lines *scale_lines_make(const void *base, size_t bytes)
{
    uintptr_t first = (uintptr_t)base / SCALE_LINE_BYTES;
    size_t nr = ((uintptr_t)base + bytes - 1) / SCALE_LINE_BYTES - first + 1;
    struct scale_lines *lines = calloc(1, sizeof(*lines) + nr * sizeof(lines->lines[0]));

    if (lines == NULL)
        return NULL;
    lines->first = first;
    lines->nr = nr;
    return lines;
}

void scale_lines_free(struct scale_lines *lines)
{
    free(lines);
}

bool scale_lines_use(struct scale_lines *lines, const volatile void *p, unsigned cpu, bool writes)
{
    size_t at = (uintptr_t)p / SCALE_LINE_BYTES - lines->first;
    uint64_t bit = UINT64_C(1) << cpu % 64;
    struct line *line;
    bool used, moved;

    if (at >= lines->nr)
        return false;
    line = &lines->lines[at];
    used = (line->users[cpu / 64] & bit) != 0;
    moved = line->writer != 0 && line->writer != cpu + 1 && !used;
    if (writes) {
        memset(line->users, 0, sizeof(line->users)); /* copies of others are gone */
        line->writer = cpu + 1;
    }
    line->users[cpu / 64] |= bit;
    line->moves += moved;
    return moved;
}

const void *scale_lines_hottest(const struct scale_lines *lines, uint64_t *moves)
{
    size_t hottest = 0;

    for (size_t i = 1; i < lines->nr; i++)
        if (lines->lines[i].moves > lines->lines[hottest].moves)
            hottest = i;
    *moves = lines->lines[hottest].moves;
    return (const void *)((lines->first + hottest) * SCALE_LINE_BYTES);
}

void scale_lines_reset(struct scale_lines *lines)
{
    for (size_t i = 0; i < lines->nr; i++)
        lines->lines[i].moves = 0;
}
