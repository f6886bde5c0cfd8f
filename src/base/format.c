/* SPDX-License-Identifier: MIT */
/* printf's common part on a caller's buffer: see format.h. */
#include "base/format.h"

#include <stdbool.h>

#include "base/div64.h"

void dk_text_begin(struct dk_text *t, char *buf, size_t size, dk_text_emit emit, void *ctx)
{
    t->buf = buf;
    t->capacity = emit ? size : size ? size - 1 : 0; /* a kept text ends with a NUL */
    t->len = 0;
    t->lost = 0;
    t->emit = emit;
    t->ctx = ctx;
    if (size)
        buf[0] = '\0';
}

void dk_text_end(struct dk_text *t)
{
    if (!t->emit || !t->len)
        return;
    t->emit(t->ctx, t->buf, t->len);
    t->len = 0;
}

static void put_char(struct dk_text *t, char c)
{
    if (t->len == t->capacity) {
        if (!t->emit) {
            t->lost++;
            return;
        }
        dk_text_end(t);
    }
    t->buf[t->len++] = c;
    if (!t->emit)
        t->buf[t->len] = '\0';
}

static void put_repeated(struct dk_text *t, char c, size_t n)
{
    while (n--)
        put_char(t, c);
}

void dk_text_put(struct dk_text *t, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put_char(t, text[i]);
}

void dk_text_puts(struct dk_text *t, const char *text)
{
    while (*text)
        put_char(t, *text++);
}

/* One directive: %[-0][width][.precision][l|ll|z]conversion */
struct directive {
    bool left, zeros;
    bool has_precision;
    size_t width, precision;
    char size; /* 'i' int, 'l' long, 'L' long long, 'z' size_t */
    char conversion;
};

/* Digits, or '*' and the next argument. */
static const char *parse_number(const char *format, va_list *args, int *out)
{
    int n = 0;

    if (*format == '*') {
        *out = va_arg(*args, int);
        return format + 1;
    }
    for (; *format >= '0' && *format <= '9' && n < 1000; format++)
        n = n * 10 + (*format - '0');
    *out = n;
    return format;
}

/* What follows a '%'. Returns the first character after the directive. */
static const char *parse_directive(const char *format, va_list *args, struct directive *d)
{
    int number;

    *d = (struct directive){.size = 'i'};
    for (; *format == '-' || *format == '0'; format++) {
        d->left |= *format == '-';
        d->zeros |= *format == '0';
    }
    format = parse_number(format, args, &number);
    d->left |= number < 0;
    d->width = number < 0 ? (size_t)-number : (size_t)number;
    if (*format == '.') {
        format = parse_number(format + 1, args, &number);
        d->has_precision = number >= 0;
        d->precision = d->has_precision ? (size_t)number : 0;
    }
    if (*format == 'z') {
        d->size = 'z';
        format++;
    } else if (*format == 'l') {
        d->size = format[1] == 'l' ? 'L' : 'l';
        format += d->size == 'L' ? 2 : 1;
    }
    d->conversion = *format;
    return *format ? format + 1 : format;
}

static uint64_t unsigned_argument(va_list *args, char size)
{
    switch (size) {
    case 'L':
        return va_arg(*args, unsigned long long);
    case 'l':
        return va_arg(*args, unsigned long);
    case 'z':
        return va_arg(*args, size_t);
    default:
        return va_arg(*args, unsigned int);
    }
}

static int64_t signed_argument(va_list *args, char size)
{
    switch (size) {
    case 'L':
        return va_arg(*args, long long);
    case 'l':
        return va_arg(*args, long);
    case 'z':
        return va_arg(*args, ptrdiff_t); /* the signed type of size_t's width */
    default:
        return va_arg(*args, int);
    }
}

/* sign, zeros and digits (lowest first) in the field that d asks for */
static void put_number(struct dk_text *t, const struct directive *d, bool negative,
                       const char *digits, size_t nr_digits)
{
    size_t zeros = d->precision > nr_digits ? d->precision - nr_digits : 0;
    size_t len = nr_digits + zeros + (negative ? 1 : 0);
    size_t padding = d->width > len ? d->width - len : 0;

    if (padding && d->zeros && !d->left && !d->has_precision) {
        zeros += padding;
        padding = 0;
    }
    if (!d->left)
        put_repeated(t, ' ', padding);
    if (negative)
        put_char(t, '-');
    put_repeated(t, '0', zeros);
    while (nr_digits--)
        put_char(t, digits[nr_digits]);
    if (d->left)
        put_repeated(t, ' ', padding);
}

static void put_unsigned(struct dk_text *t, const struct directive *d, bool negative,
                         uint64_t value, unsigned base)
{
    char digits[20]; /* of 2^64 - 1 */
    size_t n = 0;

    while (value || (n == 0 && !(d->has_precision && d->precision == 0))) {
        uint64_t digit;

        value = dk_divmod64(value, base, &digit);
        digits[n++] = "0123456789abcdef"[digit];
    }
    put_number(t, d, negative, digits, n);
}

static void put_string(struct dk_text *t, const struct directive *d, const char *text)
{
    size_t len = 0;
    size_t padding;

    while ((!d->has_precision || len < d->precision) && text[len])
        len++;
    padding = d->width > len ? d->width - len : 0;
    if (!d->left)
        put_repeated(t, ' ', padding);
    dk_text_put(t, text, len);
    if (d->left)
        put_repeated(t, ' ', padding);
}

/* Print the argument of d; false if there is no such conversion. */
static bool put_directive(struct dk_text *t, const struct directive *d, va_list *args)
{
    struct directive one = {
        .left = d->left, .width = d->width, .has_precision = true, .precision = 1};
    int64_t value;
    char c;

    switch (d->conversion) {
    case '%':
        put_char(t, '%');
        return true;
    case 'c':
        c = (char)va_arg(*args, int);
        put_string(t, &one, &c);
        return true;
    case 's':
        put_string(t, d, va_arg(*args, const char *));
        return true;
    case 'd':
    case 'i':
        value = signed_argument(args, d->size);
        put_unsigned(t, d, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 10);
        return true;
    case 'u':
        put_unsigned(t, d, false, unsigned_argument(args, d->size), 10);
        return true;
    case 'x':
        put_unsigned(t, d, false, unsigned_argument(args, d->size), 16);
        return true;
    default:
        return false;
    }
}

void dk_text_vprintf(struct dk_text *t, const char *format, va_list args)
{
    va_list rest; /* its address can be passed on, which that of a parameter cannot portably */

    va_copy(rest, args);
    while (*format) {
        const char *start = format;
        struct directive d;

        if (*format != '%') {
            put_char(t, *format++);
            continue;
        }
        format = parse_directive(format + 1, &rest, &d);
        if (!put_directive(t, &d, &rest))
            dk_text_put(t, start, (size_t)(format - start));
    }
    va_end(rest);
}

void dk_text_printf(struct dk_text *t, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    dk_text_vprintf(t, format, args);
    va_end(args);
}
