/* SPDX-License-Identifier: MIT */
/* Tables of text, as wide as their widest cells. Widths count characters of UTF-8, not bytes. */
#include "ui.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 32u

struct ui_table {
    char align[MAX_COLUMNS + 1];
    unsigned int nr_columns;
    size_t nr_rows, room;
    char **cells; /* row by row */
    size_t width[MAX_COLUMNS];
    bool failed; /* memory ran out; the table is printed without what came later */
};

static size_t characters(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

struct ui_table *ui_table_new(const char *columns)
{
    struct ui_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    snprintf(t->align, sizeof(t->align), "%s", columns);
    t->nr_columns = (unsigned int)strlen(t->align);
    return t;
}

static bool grow(struct ui_table *t)
{
    size_t room = t->room > 0 ? t->room * 2 : 16;
    char **cells = realloc(t->cells, room * t->nr_columns * sizeof(*cells));

    if (cells == NULL)
        return false;
    t->cells = cells;
    t->room = room;
    return true;
}

void ui_table_cells(struct ui_table *t, const char *const *cells)
{
    char **row;

    if (t == NULL || t->failed)
        return;
    if (t->nr_rows == t->room && !grow(t)) {
        t->failed = true;
        return;
    }
    row = t->cells + t->nr_rows * t->nr_columns;
    for (unsigned int c = 0; c < t->nr_columns; c++) {
        size_t size = strlen(cells[c]) + 1, width = characters(cells[c]);

        row[c] = malloc(size);
        if (row[c] == NULL) {
            while (c > 0)
                free(row[--c]);
            t->failed = true;
            return;
        }
        memcpy(row[c], cells[c], size);
        if (width > t->width[c])
            t->width[c] = width;
    }
    t->nr_rows++;
}

void ui_table_row(struct ui_table *t, ...)
{
    const char *cells[MAX_COLUMNS];
    va_list arguments;

    if (t == NULL)
        return;
    va_start(arguments, t);
    for (unsigned int c = 0; c < t->nr_columns; c++)
        cells[c] = va_arg(arguments, const char *);
    va_end(arguments);
    ui_table_cells(t, cells);
}

static void fill(FILE *to, char with, size_t n)
{
    for (; n > 0; n--)
        fputc(with, to);
}

static void print_row(const struct ui_table *t, FILE *to, unsigned int indent, size_t r)
{
    char **cells = t->cells + r * t->nr_columns;
    unsigned int nr = t->nr_columns;

    while (nr > 0 && cells[nr - 1][0] == '\0')
        nr--; /* no blanks at the end of a line */
    fill(to, ' ', nr > 0 ? indent : 0);
    for (unsigned int c = 0; c < nr; c++) {
        const char *cell = cells[c];
        size_t blanks = t->width[c] - characters(cell);
        bool last = c + 1 == nr;

        if (t->align[c] == 'r')
            fill(to, ' ', blanks);
        fputs(cell, to);
        if (t->align[c] != 'r' && !last)
            fill(to, ' ', blanks);
        if (!last)
            fputs("  ", to);
    }
    fputc('\n', to);
}

void ui_table_print(const struct ui_table *t, FILE *to, unsigned int indent, bool head)
{
    if (t == NULL)
        return;
    for (size_t r = 0; r < t->nr_rows; r++) {
        print_row(t, to, indent, r);
        if (r > 0 || !head)
            continue;
        fill(to, ' ', indent);
        for (unsigned int c = 0; c < t->nr_columns; c++) {
            fill(to, '-', t->width[c]);
            if (c + 1 < t->nr_columns)
                fputs("  ", to);
        }
        fputc('\n', to);
    }
}

void ui_table_free(struct ui_table *t)
{
    if (t == NULL)
        return;
    for (size_t i = 0; i < t->nr_rows * t->nr_columns; i++)
        free(t->cells[i]);
    free(t->cells);
    free(t);
}
