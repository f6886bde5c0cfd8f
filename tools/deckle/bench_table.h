/* SPDX-License-Identifier: MIT */
/*
 * A table of results: filled row by row while it is measured, printed for people and written as
 * JSON from the same cells, so that the two cannot differ.
 *
 * Columns are added first. A column of cycles holds samples and unfolds into up to five printed
 * columns; what is not measured (skipped, failed, interrupted) prints as "-" and is null in JSON.
 */
#ifndef DECKLE_TOOLS_BENCH_TABLE_H
#define DECKLE_TOOLS_BENCH_TABLE_H

#include <cjson/cJSON.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "bench_stats.h"

#define BENCH_MAX_COLUMNS 24u

enum bench_column_kind {
    BENCH_COLUMN_COUNT, /* a whole number */
    BENCH_COLUMN_BYTES, /* one that is printed with a unit */
    BENCH_COLUMN_TEXT,
    BENCH_COLUMN_NUMBER, /* a number with decimals */
    BENCH_COLUMN_CYCLES  /* samples, in cycles per element */
};

/* What of a column of cycles is printed beside its minimum. */
#define BENCH_SHOW_MEDIAN (1u << 0)
#define BENCH_SHOW_NS     (1u << 1) /* the minimum in nanoseconds */
#define BENCH_SHOW_RATIO  (1u << 2) /* minimum / minimum of the column ratio_to */
#define BENCH_SHOW_NS_MED (1u << 3) /* the median in nanoseconds */

struct bench_column {
    const char *name; /* header */
    enum bench_column_kind kind;
    unsigned show;     /* CYCLES */
    int ratio_to;      /* CYCLES: column, -1 = none */
    unsigned decimals; /* NUMBER */
    const char *key;   /* JSON; NULL = name with every '-' and ' ' as '_' */
};

struct bench_table;

/* name: JSON; caption: one line that says shape and unit. Both are copied. */
struct bench_table *bench_table_create(const char *name, const char *caption);
void bench_table_destroy(struct bench_table *table);

/* The index of the new column. The name is not copied. */
unsigned bench_table_add_column(struct bench_table *table, struct bench_column column);
unsigned bench_table_add_row(struct bench_table *table);
unsigned bench_table_rows(const struct bench_table *table);

void bench_table_set_count(struct bench_table *table, unsigned row, unsigned column,
                           uint64_t count);
void bench_table_set_number(struct bench_table *table, unsigned row, unsigned column,
                            double number);
void bench_table_set_text(struct bench_table *table, unsigned row, unsigned column,
                          const char *text);
/* One more sample. */
void bench_table_sample(struct bench_table *table, unsigned row, unsigned column, double cycles);
/* NaN where nothing was measured. */
double bench_table_min(const struct bench_table *table, unsigned row, unsigned column);

/* A line below the table. */
void bench_table_note(struct bench_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What the figure should be: a line below the table that says whether it is. The text names the
 * figure and its unit; a value of NaN was not measured. */
enum bench_bound { BENCH_AT_MOST, BENCH_AT_LEAST };
void bench_table_goal(struct bench_table *table, enum bench_bound bound, double wanted,
                      double value, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The largest of several figures, and where it was: for goals that hold for every row. */
struct bench_worst {
    double value; /* NaN until there is one */
    char where[64];
};
#define BENCH_WORST                                                                                \
    {                                                                                              \
        .value = NAN                                                                               \
    }
void bench_worst_add(struct bench_worst *worst, double value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ghz: cycles per nanosecond. */
void bench_table_print(const struct bench_table *table, FILE *to, double ghz);
cJSON *bench_table_json(const struct bench_table *table, double ghz);

/* n bytes of zeroes; ends the process with a message when there are none. */
void *bench_zalloc(size_t n);

#endif
