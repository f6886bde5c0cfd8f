/* SPDX-License-Identifier: MIT */
/*
 * Text without libc: the part of printf that statistics and reports need.
 *
 * A dk_text is a buffer of the caller, with or without somebody behind it. With an emit function
 * the buffer is handed on each time it is full and by dk_text_end(), so text of any length needs
 * only the caller's few bytes. Without one the buffer keeps the beginning of the text,
 * NUL-terminated after every call, and `lost` counts what did not fit.
 *
 * Directives: %% %c %s %d %i %u %x, with the flags '-' and '0', a width and a precision as digits
 * or
 * '*' (precision: longest part of a %s to print, fewest digits of a number), and the sizes l, ll
 * and z. The compiler checks the arguments as for printf. Anything else in a format is printed as
 * it stands and takes no argument.
 *
 * No allocation, no global, about 200 bytes of stack; linear in the text.
 */
#ifndef DK_BASE_FORMAT_H
#define DK_BASE_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*dk_text_emit)(void *ctx, const char *text, size_t len);

struct dk_text {
    char *buf;
    size_t capacity;   /* characters of text that buf holds */
    size_t len;        /* characters in buf that were not handed on */
    uint64_t lost;     /* characters that did not fit (no emit) */
    dk_text_emit emit; /* NULL: keep the beginning */
    void *ctx;
};

/* Start a text in buf. With emit size is at least 1. Without it size may be 0: all text is lost and
 * buf, which may be NULL, is not touched. */
void dk_text_begin(struct dk_text *t, char *buf, size_t size, dk_text_emit emit, void *ctx);

/* Hand on what is still in the buffer; without emit nothing is left to do. */
void dk_text_end(struct dk_text *t);

void dk_text_put(struct dk_text *t, const char *text, size_t len);
void dk_text_puts(struct dk_text *t, const char *text);

#define DK_PRINTF(format_at, args_at) __attribute__((format(printf, format_at, args_at)))
void dk_text_printf(struct dk_text *t, const char *format, ...) DK_PRINTF(2, 3);
void dk_text_vprintf(struct dk_text *t, const char *format, va_list args) DK_PRINTF(2, 0);

/* A uint64_t as %llu wants it. */
#define DK_LLU(v) ((unsigned long long)(v))

#endif
