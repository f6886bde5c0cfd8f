/* SPDX-License-Identifier: MIT */
/* Messages, interruption, numbers and progress; see ui.h. */
#define _POSIX_C_SOURCE 200809L

#include "ui.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* --- messages -------------------------------------------------------------------------------- */

static bool colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    return (no == NULL || *no == '\0') && term != NULL && strcmp(term, "dumb") != 0 &&
           isatty(STDERR_FILENO);
}

static void say(const char *kind, const char *code, const char *format, va_list arguments)
{
    bool coloured = *kind != '\0' && colour();

    fflush(stdout);
    fprintf(stderr, "deckle: %s%s%s", coloured ? code : "", kind, coloured ? "\033[0m" : "");
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void ui_error(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("", "", format, arguments);
    va_end(arguments);
}

void ui_warn(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("warning: ", "\033[33m", format, arguments);
    va_end(arguments);
}

void ui_note(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    say("note: ", "\033[36m", format, arguments);
    va_end(arguments);
}

void ui_error_at(const char *file, uint64_t line, const char *format, ...)
{
    va_list arguments;

    fflush(stdout);
    if (line > 0)
        fprintf(stderr, "deckle: %s:%" PRIu64 ": ", file, line);
    else
        fprintf(stderr, "deckle: %s: ", file);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

int ui_usage(const char *command)
{
    if (command != NULL)
        fprintf(stderr, "Try 'deckle %s --help'.\n", command);
    else
        fprintf(stderr, "Try 'deckle help'.\n");
    return UI_BAD_INPUT;
}

int ui_finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        ui_error("standard output cannot be written: %s", strerror(errno));
        return UI_FAULT;
    }
    return status;
}

/* --- interruption ---------------------------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

/* A signal that is ignored from the start (a job in the background, nohup) stays ignored. */
static void catch_one(int signal_number, const struct sigaction *action)
{
    struct sigaction before;

    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal_number, action, NULL);
}

void ui_catch_interrupt(void)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_interrupt;
    action.sa_flags = (int)SA_RESETHAND;
    sigemptyset(&action.sa_mask);
    catch_one(SIGINT, &action);
    catch_one(SIGTERM, &action);
}

bool ui_interrupted(void)
{
    return interrupted != 0;
}

/* --- options --------------------------------------------------------------------------------- */

/* Digits at the beginning of text; *rest is behind them. */
static bool leading_number(const char *text, uint64_t *value, const char **rest)
{
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *value = strtoull(text, &end, text[0] == '0' && (text[1] | 0x20) == 'x' ? 16 : 10);
    *rest = end;
    return errno == 0;
}

bool ui_option_u64(const char *option, const char *text, uint64_t min, uint64_t max,
                   uint64_t *value)
{
    const char *rest;

    if (leading_number(text, value, &rest) && *rest == '\0' && *value >= min && *value <= max)
        return true;
    ui_error("option %s: \"%s\" is no number from %" PRIu64 " to %" PRIu64, option, text, min, max);
    return false;
}

bool ui_option_bytes(const char *option, const char *text, uint64_t min, uint64_t max,
                     uint64_t *value)
{
    static const char units[] = "KMGT";
    const char *rest, *unit;
    char low[UI_NUMBER], high[UI_NUMBER];

    if (leading_number(text, value, &rest)) {
        unsigned int shift = 0;

        unit = *rest != '\0' ? strchr(units, *rest & ~0x20) : NULL;
        if (unit != NULL && *unit != '\0') {
            shift = 10u * (unsigned int)(unit - units + 1);
            rest++;
            rest += strncmp(rest, "iB", 2) == 0 ? 2 : 0;
        }
        if (*rest == '\0' && *value <= UINT64_MAX >> shift && *value << shift >= min &&
            *value << shift <= max) {
            *value <<= shift;
            return true;
        }
    }
    ui_error("option %s: \"%s\" is no size from %s to %s; want a number, or one with K, M, G or T",
             option, text, ui_bytes(low, min), ui_bytes(high, max));
    return false;
}

/* --- numbers --------------------------------------------------------------------------------- */

const char *ui_count(char *buffer, uint64_t value)
{
    char digits[UI_NUMBER];
    int n = snprintf(digits, sizeof(digits), "%" PRIu64, value);
    char *to = buffer;

    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0)
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = '\0';
    return buffer;
}

/* Three digits that matter. */
static void three_digits(char *buffer, double value, const char *unit)
{
    int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

    snprintf(buffer, UI_NUMBER, "%.*f %s", decimals, value, unit);
}

const char *ui_bytes(char *buffer, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    unsigned int unit = 0;

    if (bytes < 1024) {
        snprintf(buffer, UI_NUMBER, "%" PRIu64 " B", bytes);
        return buffer;
    }
    for (; value >= 1024 && unit < 5; unit++)
        value /= 1024;
    if (value == (double)(uint64_t)value && value < 1024)
        snprintf(buffer, UI_NUMBER, "%" PRIu64 " %s", (uint64_t)value, units[unit]);
    else
        three_digits(buffer, value, units[unit]);
    return buffer;
}

const char *ui_duration(char *buffer, uint64_t ns)
{
    if (ns < 1000)
        snprintf(buffer, UI_NUMBER, "%" PRIu64 " ns", ns);
    else if (ns < UINT64_C(1000000))
        three_digits(buffer, (double)ns / 1e3, "us");
    else if (ns < UINT64_C(1000000000))
        three_digits(buffer, (double)ns / 1e6, "ms");
    else
        three_digits(buffer, (double)ns / 1e9, "s");
    return buffer;
}

const char *ui_percent(char *buffer, uint64_t part, uint64_t whole)
{
    if (whole == 0)
        snprintf(buffer, UI_NUMBER, "-");
    else
        snprintf(buffer, UI_NUMBER, "%.1f %%", 100.0 * (double)part / (double)whole);
    return buffer;
}

/* --- progress -------------------------------------------------------------------------------- */

#define BAR 30u

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void ui_progress_start(struct ui_progress *p, const char *label)
{
    const char *term = getenv("TERM");

    p->label = label;
    p->shown_ns = now_ns(); /* nothing is drawn for what is done in a tenth of a second */
    p->drawn = false;
    p->active = isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
}

void ui_progress_show(struct ui_progress *p, uint64_t done, uint64_t total)
{
    char bar[BAR + 1], number[UI_NUMBER];
    uint64_t now;
    unsigned int full;

    if (!p->active)
        return;
    now = now_ns();
    if (now - p->shown_ns < UINT64_C(100000000))
        return;
    p->shown_ns = now;
    p->drawn = true;
    if (total == 0) {
        fprintf(stderr, "\r%s %s\033[K", p->label, ui_count(number, done));
        return;
    }
    if (done > total)
        done = total;
    full = (unsigned int)((double)done / (double)total * BAR);
    memset(bar, '#', full);
    memset(bar + full, '.', BAR - full);
    bar[BAR] = '\0';
    fprintf(stderr, "\r%s [%s] %3u %%\033[K", p->label, bar,
            (unsigned int)((double)done / (double)total * 100));
}

void ui_progress_end(struct ui_progress *p)
{
    if (p->drawn)
        fprintf(stderr, "\r\033[K");
    p->active = p->drawn = false;
}
