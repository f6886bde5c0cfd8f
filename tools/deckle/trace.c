/* SPDX-License-Identifier: MIT */
/*
 * The reader's front: decides what the file is, hands events on from the line parser or from the
 * packed reader, finds where bursts begin, and keeps the facts.
 */
#include "trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packed.h"
#include "trace_source.h"
#include "trace_text.h"

#define NO_TYPE 0xffu

struct trace {
    struct trace_source *source;
    struct trace_options options;
    struct trace_facts facts;
    struct trace_text text;
    struct packed_reader *packed; /* NULL: text */
    uint64_t previous_ns;
    uint64_t nr_events;
    uint8_t last_type[TRACE_MAX_CPUS]; /* of the CPU's last event, NO_TYPE before it */
    enum trace_status state;           /* TRACE_EVENT while there may be more */
    char message[TRACE_MESSAGE * 2];
    char path[];
};

const char *trace_type_name(uint8_t type)
{
    static const char *const names[TRACE_NR_TYPES] = {
        [TRACE_ALLOC] = "mm_page_alloc",
        [TRACE_ALLOC_FAILED] = "mm_page_alloc",
        [TRACE_FREE] = "mm_page_free",
        [TRACE_FREE_BATCHED] = "mm_page_free_batched",
        [TRACE_ZONE_LOCKED] = "mm_page_alloc_zone_locked",
        [TRACE_PCPU_DRAIN] = "mm_page_pcpu_drain",
        [TRACE_EXTFRAG] = "mm_page_alloc_extfrag",
    };

    return type < TRACE_NR_TYPES ? names[type] : NULL;
}

const char *trace_format_name(enum trace_format format)
{
    switch (format) {
    case TRACE_FORMAT_FTRACE:
        return "ftrace";
    case TRACE_FORMAT_TRACE_CMD:
        return "trace-cmd";
    case TRACE_FORMAT_PERF:
        return "perf";
    case TRACE_FORMAT_PACKED:
        return "packed";
    default:
        return "unknown";
    }
}

const char *trace_compression_name(enum trace_compression compression)
{
    return compression == TRACE_XZ ? "xz" : compression == TRACE_GZ ? "gz" : "none";
}

/* --- opening and closing --------------------------------------------------------------------- */

/* The file's name without folders, as the name of the recording. */
static void name_source(struct trace_facts *facts, const char *path)
{
    const char *slash = strrchr(path, '/');

    snprintf(facts->source, sizeof(facts->source), "%s", slash != NULL ? slash + 1 : path);
}

static struct trace *start(struct trace_source *source, const char *path,
                           const struct trace_options *options, char *message)
{
    struct trace *t = calloc(1, sizeof(*t) + strlen(path) + 1);
    char why[TRACE_MESSAGE] = "not enough memory";
    const unsigned char *begin;
    size_t size;

    if (t == NULL)
        goto failed;
    strcpy(t->path, path);
    t->source = source;
    t->state = TRACE_EVENT;
    if (options != NULL)
        t->options = *options;
    memset(t->last_type, NO_TYPE, sizeof(t->last_type));
    name_source(&t->facts, path);
    t->facts.compression = trace_source_compression(source);

    begin = trace_source_peek(source, &size);
    if (size >= PACKED_MAGIC_SIZE && memcmp(begin, packed_magic, PACKED_MAGIC_SIZE) == 0) {
        t->packed = packed_reader_new(source, &t->options, &t->facts, why);
        if (t->packed == NULL)
            goto failed;
    } else {
        trace_text_init(&t->text, &t->options, begin, size, &t->facts);
    }
    return t;

failed:
    snprintf(message, TRACE_MESSAGE, "%.200s: %.300s", path, why);
    trace_source_close(source);
    free(t);
    return NULL;
}

struct trace *trace_open(const char *path, const struct trace_options *options, char *message)
{
    char why[TRACE_MESSAGE];
    struct trace_source *source = trace_source_open(path, options, why);

    if (source == NULL) {
        snprintf(message, TRACE_MESSAGE, "%.200s: %.300s",
                 strcmp(path, "-") == 0 ? "standard input" : path, why);
        return NULL;
    }
    return start(source, strcmp(path, "-") == 0 ? "standard input" : path, options, message);
}

struct trace *trace_open_memory(const void *bytes, size_t size, const char *name,
                                const struct trace_options *options, char *message)
{
    char why[TRACE_MESSAGE];
    struct trace_source *source = trace_source_memory(bytes, size, options, why);

    if (source == NULL) {
        snprintf(message, TRACE_MESSAGE, "%.200s: %.300s", name, why);
        return NULL;
    }
    return start(source, name, options, message);
}

void trace_close(struct trace *t)
{
    if (t == NULL)
        return;
    packed_reader_free(t->packed);
    trace_source_close(t->source);
    free(t);
}

/* --- events ---------------------------------------------------------------------------------- */

/* Messages show pieces of the file: nothing of it may act on a terminal. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
}

static enum trace_status failed(struct trace *t, uint64_t line, const char *why)
{
    if (line > 0)
        snprintf(t->message, sizeof(t->message), "%.200s:%" PRIu64 ": %s", t->path, line, why);
    else
        snprintf(t->message, sizeof(t->message), "%.200s: %s", t->path, why);
    make_printable(t->message);
    return t->state = TRACE_ERROR;
}

/* A line left out because of keep_going. */
static void left_out(struct trace *t, const char *why)
{
    char message[TRACE_MESSAGE * 2];

    t->facts.bad_lines++;
    if (t->options.left_out == NULL)
        return;
    snprintf(message, sizeof(message), "%.200s:%" PRIu64 ": %s", t->path, t->facts.lines, why);
    make_printable(message);
    t->options.left_out(t->options.context, message);
}

static enum trace_status text_end(struct trace *t)
{
    if (t->nr_events > 0 || t->facts.bad_lines > 0)
        return TRACE_END;
    return failed(t, 0,
                  "holds no kmem page events; want lines with mm_page_alloc: and mm_page_free: as "
                  "trace, trace-cmd report or perf script print them");
}

static enum trace_status next_text(struct trace *t, struct trace_event *event)
{
    char why[TRACE_MESSAGE], *line;
    size_t length;
    bool ended;
    int got;

    while ((got = trace_source_line(t->source, &line, &length, &ended)) > 0) {
        enum trace_text_kind kind;

        t->facts.lines++;
        kind = trace_text_line(&t->text, line, length, event, why);
        if (kind == TRACE_TEXT_EVENT) {
            event->line = t->facts.lines;
            return TRACE_EVENT;
        }
        if (kind == TRACE_TEXT_NOTHING)
            continue;
        if (!ended)
            t->facts.truncated = true;
        else if (t->options.keep_going)
            left_out(t, why);
        else
            return failed(t, t->facts.lines, why);
    }
    if (got < 0)
        return failed(t, t->facts.lines + 1, trace_source_why(t->source));
    return text_end(t);
}

/* Whether the event begins a burst; see struct trace_event. */
static void mark_burst(struct trace *t, struct trace_event *e)
{
    uint8_t *last = &t->last_type[e->cpu];
    bool burst = e->type == TRACE_ZONE_LOCKED || e->type == TRACE_PCPU_DRAIN;

    if (burst && t->packed == NULL)
        e->burst_start = e->burst_start || *last != e->type;
    *last = e->type;
}

static void count(struct trace *t, const struct trace_event *e)
{
    struct trace_facts *facts = &t->facts;
    uint8_t bit = (uint8_t)(1u << (e->cpu % 8));

    facts->events[e->type] += e->events;
    if ((facts->cpus[e->cpu / 8] & bit) == 0) {
        facts->cpus[e->cpu / 8] |= bit;
        facts->nr_cpus++;
    }
    if (t->nr_events++ == 0) {
        facts->first_ns = facts->last_ns = e->time_ns;
    } else if (e->time_ns < t->previous_ns) {
        uint64_t step = t->previous_ns - e->time_ns;

        facts->time_backwards++;
        if (step > facts->backwards_ns)
            facts->backwards_ns = step;
    }
    t->previous_ns = e->time_ns;
    if (e->time_ns < facts->first_ns)
        facts->first_ns = e->time_ns;
    if (e->time_ns > facts->last_ns)
        facts->last_ns = e->time_ns;
}

enum trace_status trace_next(struct trace *t, struct trace_event *event)
{
    enum trace_status status;
    char why[TRACE_MESSAGE];

    if (t->state != TRACE_EVENT)
        return t->state;
    if (t->packed != NULL) {
        status = packed_next(t->packed, event, why);
        if (status == TRACE_ERROR)
            failed(t, 0, why);
    } else {
        status = next_text(t, event);
    }
    if (status == TRACE_EVENT) {
        mark_burst(t, event);
        count(t, event);
    } else {
        make_printable(t->facts.source);
        for (unsigned int i = 0; i < TRACE_UNKNOWN_NAMES; i++)
            make_printable(t->facts.unknown_gfp_names[i]);
        t->facts.file_bytes = trace_source_file_bytes(t->source);
        t->facts.text_bytes = trace_source_text_bytes(t->source);
    }
    return t->state = status;
}

const char *trace_message(const struct trace *t)
{
    return t->message;
}

const struct trace_facts *trace_facts(const struct trace *t)
{
    return &t->facts;
}

void trace_progress(const struct trace *t, uint64_t *done, uint64_t *total)
{
    *done = trace_source_file_bytes(t->source);
    *total = trace_source_file_size(t->source);
}
