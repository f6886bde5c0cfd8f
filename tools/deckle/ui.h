/* SPDX-License-Identifier: MIT */
/*
 * How the command talks to people: messages, progress, numbers and tables.
 *
 * Results go to standard output, everything else to standard error. Colour is used on a terminal
 * only, and not where NO_COLOR is set or TERM is "dumb". Progress is shown on a terminal only.
 */
#ifndef DECKLE_TOOLS_UI_H
#define DECKLE_TOOLS_UI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses of every command. */
enum ui_exit {
    UI_OK = 0,
    UI_FAULT = 1,     /* the work found a fault */
    UI_BAD_INPUT = 2, /* bad input or usage */
    UI_MISSING = 3,   /* something required is missing */
    UI_INTERRUPTED = 130
};

#if defined(__GNUC__)
#define UI_PRINTF(string, rest) __attribute__((format(printf, string, rest)))
#else
#define UI_PRINTF(string, rest)
#endif

/* --- messages: "deckle: …" on standard error ------------------------------------------------- */

void ui_error(const char *format, ...) UI_PRINTF(1, 2);
void ui_warn(const char *format, ...) UI_PRINTF(1, 2); /* "deckle: warning: …" */
void ui_note(const char *format, ...) UI_PRINTF(1, 2); /* "deckle: note: …" */

/* "deckle: FILE:LINE: …"; line 0 leaves the line out. */
void ui_error_at(const char *file, uint64_t line, const char *format, ...) UI_PRINTF(3, 4);

/* For the end of a command whose options are wrong: points at its help; returns UI_BAD_INPUT. */
int ui_usage(const char *command);

/* Checks that everything written to standard output has arrived; says so if not and returns
 * UI_FAULT, else status. */
int ui_finish(int status);

/* --- interruption ---------------------------------------------------------------------------- */

/* From here on the first SIGINT or SIGTERM only sets a flag; the second one ends the process.
 * Signals that are ignored stay so. */
void ui_catch_interrupt(void);
bool ui_interrupted(void);

/* --- options that hold numbers: false with a message that names the option ------------------- */

/* A whole number from min to max; 0x is understood. */
bool ui_option_u64(const char *option, const char *text, uint64_t min, uint64_t max,
                   uint64_t *value);
/* Bytes with an optional K, M, G or T (powers of 1024). */
bool ui_option_bytes(const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *value);

/* --- numbers for people; each returns buffer ------------------------------------------------- */

#define UI_NUMBER 32u /* bytes of a buffer */

const char *ui_count(char *buffer, uint64_t value);                  /* 1,234,567 */
const char *ui_bytes(char *buffer, uint64_t bytes);                  /* 512 B, 1.5 KiB, 23 MiB */
const char *ui_duration(char *buffer, uint64_t ns);                  /* 870 ns, 1.25 us, 4.80 s */
const char *ui_percent(char *buffer, uint64_t part, uint64_t whole); /* 12.5 %, "-" of nothing */

/* --- progress -------------------------------------------------------------------------------- */

struct ui_progress {
    const char *label;
    uint64_t shown_ns; /* when it was drawn last */
    bool active, drawn;
};

void ui_progress_start(struct ui_progress *p, const char *label);
/* total 0: not known, a count is shown instead of a bar. Cheap; draws ten times a second. */
void ui_progress_show(struct ui_progress *p, uint64_t done, uint64_t total);
void ui_progress_end(struct ui_progress *p); /* wipes it */

/* --- tables ---------------------------------------------------------------------------------- */

struct ui_table;

/* columns: one letter each, 'l' left or 'r' right; at most 32. NULL when memory runs out. */
struct ui_table *ui_table_new(const char *columns);
/* One row; takes as many strings as there are columns and copies them. */
void ui_table_row(struct ui_table *t, ...);
/* The same with the cells in an array. */
void ui_table_cells(struct ui_table *t, const char *const *cells);
/* Prints with two blanks between columns, indented by indent blanks. A heading row is underlined
 * when head is true: the first row is the heading. */
void ui_table_print(const struct ui_table *t, FILE *to, unsigned int indent, bool head);
void ui_table_free(struct ui_table *t);

#endif
