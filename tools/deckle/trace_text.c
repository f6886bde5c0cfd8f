/* SPDX-License-Identifier: MIT */
/*
 * The line parser. See trace_text.h for the forms; everything is checked against its range before
 * it reaches the event, so that no later part meets a CPU, an order or a pfn that it cannot hold.
 */
#include "trace_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace_gfp.h"

struct span {
    const char *at; /* NULL: absent */
    size_t length;
};

/* --- small pieces ---------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

static bool span_is(struct span s, const char *text)
{
    return s.at != NULL && strncmp(s.at, text, s.length) == 0 && text[s.length] == '\0';
}

/* What of a span is shown in a message: at most 40 bytes. */
static int shown(struct span s)
{
    return s.length < 40 ? (int)s.length : 40;
}

/* All of the span as a number; 0x means base 16. False if it is none or does not fit 64 bits. */
static bool parse_u64(struct span s, unsigned int base, uint64_t *value)
{
    size_t i = 0;
    uint64_t v = 0;

    if (s.length > 2 && s.at[0] == '0' && (s.at[1] == 'x' || s.at[1] == 'X')) {
        base = 16;
        i = 2;
    }
    if (i == s.length)
        return false;
    for (; i < s.length; i++) {
        unsigned int digit = (unsigned int)digit_value(s.at[i]);

        if (digit >= base || v > (UINT64_MAX - digit) / base)
            return false;
        v = v * base + digit;
    }
    *value = v;
    return true;
}

/* Hexadecimal digits without 0x, one of them a letter. */
static bool is_hex_word(struct span s)
{
    bool letter = false;

    for (size_t i = 0; i < s.length; i++) {
        if (digit_value(s.at[i]) > 15)
            return false;
        letter = letter || digit_value(s.at[i]) > 9;
    }
    return letter;
}

/* The last blank-separated token before *end, which moves to its beginning. */
static struct span token_before(const char *begin, const char **end)
{
    const char *to = *end;
    struct span s = {NULL, 0};

    while (to > begin && is_space(to[-1]))
        to--;
    *end = to;
    while (*end > begin && !is_space((*end)[-1]))
        (*end)--;
    if (to > *end) {
        s.at = *end;
        s.length = (size_t)(to - *end);
    }
    return s;
}

/* --- what stands before the event's name ----------------------------------------------------- */

enum prefix { PREFIX_OK, PREFIX_NO_TIME, PREFIX_BAD };

/* "SECONDS.FRACTION", "TICKS" or, in the latency format, "MICROSECONDSus" and a mark. */
static bool parse_time(struct span s, struct trace_event *event, bool *ticks)
{
    uint64_t whole = 0, fraction = 0, scale = UINT64_C(1000000000);
    size_t i = 0, digits;

    while (i < s.length && is_digit(s.at[i])) {
        if (whole > UINT64_MAX / 10 - 1)
            return false;
        whole = whole * 10 + (uint64_t)(s.at[i++] - '0');
    }
    digits = i;
    *ticks = false;
    if (digits > 0 && i < s.length && s.at[i] == '.') {
        for (i++; i < s.length && is_digit(s.at[i]) && scale > 1; i++) {
            scale /= 10;
            fraction += (uint64_t)(s.at[i] - '0') * scale;
        }
        if (i != s.length || scale == UINT64_C(1000000000) ||
            whole > UINT64_MAX / UINT64_C(1000000000) - 1)
            return false;
        event->time_ns = whole * UINT64_C(1000000000) + fraction;
        return true;
    }
    if (digits > 0 && s.length - i >= 2 && s.at[i] == 'u' && s.at[i + 1] == 's' &&
        s.length - i <= 3) {
        if (whole > UINT64_MAX / 1000)
            return false;
        event->time_ns = whole * 1000;
        return true;
    }
    *ticks = true;
    event->time_ns = whole;
    return digits > 0 && i == s.length;
}

/* The token that holds the time, without its colon; what may stand between it and the name is left
 * out: "(+DIFF)" of trace-cmd, a sample period of perf. */
static struct span time_token(const char *begin, const char **end)
{
    struct span s = token_before(begin, end);
    bool between =
        s.length > 0 && (s.at[0] == '(' || is_digit(s.at[0])) && s.at[s.length - 1] != ':';

    if (between)
        s = token_before(begin, end);
    if (s.length == 1 && s.at[0] == ':' && !between)
        return token_before(begin, end); /* "38092us :" */
    if (s.length > 1 && s.at[s.length - 1] == ':')
        s.length--;
    else
        s.at = NULL;
    return s;
}

/* "[003]", or "3d..1." where glued is true. */
static bool cpu_token(struct span s, bool glued, struct span *cpu)
{
    size_t n = 0;

    if (!glued && (s.length < 3 || s.at[0] != '[' || s.at[s.length - 1] != ']'))
        return false;
    *cpu = s;
    if (!glued) {
        cpu->at++;
        cpu->length -= 2;
        return true;
    }
    while (n < s.length && is_digit(s.at[n]))
        n++;
    cpu->length = n;
    return n > 0 && n < s.length;
}

static enum prefix parse_prefix(struct trace_text *p, const char *begin, const char *end,
                                struct trace_event *event, char *why)
{
    struct span time = time_token(begin, &end), near, far, cpu;
    uint64_t number;
    bool ticks;

    if (time.at == NULL || !parse_time(time, event, &ticks))
        return PREFIX_NO_TIME;
    near = token_before(begin, &end);
    far = token_before(begin, &end);
    if (near.at == NULL ||
        !(cpu_token(near, false, &cpu) || (far.at != NULL && cpu_token(far, false, &cpu)) ||
          cpu_token(near, true, &cpu))) {
        snprintf(why, TRACE_MESSAGE,
                 "field CPU: none before the time; want [NNN] as trace, trace-cmd report and perf "
                 "script (-F +cpu) print it");
        return PREFIX_BAD;
    }
    if (!parse_u64(cpu, 10, &number) || number >= TRACE_MAX_CPUS) {
        snprintf(why, TRACE_MESSAGE, "field CPU: \"%.*s\" is no CPU number; want 0 to %u",
                 shown(cpu), cpu.at, TRACE_MAX_CPUS - 1);
        return PREFIX_BAD;
    }
    event->cpu = (uint32_t)number;
    p->facts->ticks |= ticks;
    return PREFIX_OK;
}

/* --- what stands behind it ------------------------------------------------------------------- */

enum field {
    FIELD_PAGE,
    FIELD_PFN,
    FIELD_ORDER,
    FIELD_MIGRATETYPE,
    FIELD_GFP,
    FIELD_ALLOC_ORDER,
    FIELD_FALLBACK_ORDER,
    FIELD_ALLOC_MIGRATETYPE,
    FIELD_FALLBACK_MIGRATETYPE,
    FIELD_KIND,
    FIELD_EVENTS,
    FIELD_FRAMES,
    FIELD_START,
    NR_FIELDS
};

static const char *const field_names[NR_FIELDS] = {
    [FIELD_PAGE] = "page",
    [FIELD_PFN] = "pfn",
    [FIELD_ORDER] = "order",
    [FIELD_MIGRATETYPE] = "migratetype",
    [FIELD_GFP] = "gfp_flags",
    [FIELD_ALLOC_ORDER] = "alloc_order",
    [FIELD_FALLBACK_ORDER] = "fallback_order",
    [FIELD_ALLOC_MIGRATETYPE] = "alloc_migratetype",
    [FIELD_FALLBACK_MIGRATETYPE] = "fallback_migratetype",
    [FIELD_KIND] = "kind",
    [FIELD_EVENTS] = "events",
    [FIELD_FRAMES] = "frames",
    [FIELD_START] = "start",
};

/* Takes the body apart; of a field given twice the first counts. */
static void find_fields(const char *body, struct span fields[NR_FIELDS])
{
    memset(fields, 0, NR_FIELDS * sizeof(fields[0]));
    while (*body != '\0') {
        size_t n, key;

        while (is_space(*body))
            body++;
        n = strcspn(body, " \t");
        key = strcspn(body, "= \t");
        if (key < n) {
            struct span name = {body, key};

            for (unsigned int f = 0; f < NR_FIELDS; f++)
                if (fields[f].at == NULL && span_is(name, field_names[f])) {
                    fields[f].at = body + key + 1;
                    fields[f].length = n - key - 1;
                    break;
                }
        }
        body += n;
    }
}

/* A number from 0 to max out of a field that must be there. */
static bool number_field(const struct span fields[NR_FIELDS], enum field f, unsigned int base,
                         uint64_t max, uint64_t *value, char *why)
{
    if (fields[f].at == NULL) {
        snprintf(why, TRACE_MESSAGE, "field %s: missing; the line is cut or not a kmem event",
                 field_names[f]);
        return false;
    }
    if (!parse_u64(fields[f], base, value) || *value > max) {
        bool hex = base == 10 && is_hex_word(fields[f]);

        snprintf(why, TRACE_MESSAGE, "field %s: \"%.*s\" is no %snumber from 0 to %" PRIu64 "%s",
                 field_names[f], shown(fields[f]), fields[f].at, hex ? "decimal " : "", max,
                 f == FIELD_PFN && hex
                     ? "; where pfns are hexadecimal without 0x, say --pfn-base 16"
                     : "");
        return false;
    }
    return true;
}

static bool small_field(const struct span fields[NR_FIELDS], enum field f, uint64_t max,
                        uint8_t *value, char *why)
{
    uint64_t number;

    if (!number_field(fields, f, 10, max, &number, why))
        return false;
    *value = (uint8_t)number;
    return true;
}

/* Whether the event is about no page: page= says null or pfn= is -1. */
static bool no_page(const struct span fields[NR_FIELDS])
{
    struct span page = fields[FIELD_PAGE], pfn = fields[FIELD_PFN];
    uint64_t number;

    if (page.at != NULL && page.length > 0) {
        if (span_is(page, "(null)") || span_is(page, "(nil)") || span_is(page, "NULL"))
            return true;
        if (parse_u64(page, 16, &number) && number == 0)
            return true;
    }
    if (span_is(pfn, "-1"))
        return true;
    return pfn.at != NULL && (parse_u64(pfn, 10, &number) || parse_u64(pfn, 16, &number)) &&
           number == UINT64_MAX;
}

static void unknown_gfp(void *context, const char *text, size_t length)
{
    struct trace_text *p = context;
    struct trace_facts *facts = p->facts;
    size_t n = length < TRACE_NAME - 1 ? length : TRACE_NAME - 1;

    p->gfp_unknown++;
    if (n == 0)
        return;
    for (unsigned int i = 0; i < TRACE_UNKNOWN_NAMES; i++) {
        char *name = facts->unknown_gfp_names[i];

        if (name[0] == '\0') {
            memcpy(name, text, n);
            name[n] = '\0';
            return;
        }
        if (strncmp(name, text, n) == 0 && name[n] == '\0')
            return;
    }
}

static uint32_t gfp_of(struct trace_text *p, struct span s)
{
    if (s.length != p->gfp_length || memcmp(s.at, p->gfp_text, s.length) != 0) {
        p->gfp_unknown = 0;
        trace_gfp_parse(s.at, s.length, &p->gfp, unknown_gfp, p);
        p->gfp_length = SIZE_MAX;
        if (s.length <= sizeof(p->gfp_text)) {
            memcpy(p->gfp_text, s.at, s.length);
            p->gfp_length = s.length;
        }
    }
    p->facts->unknown_gfp += p->gfp_unknown;
    return p->gfp;
}

static bool pfn_and_order(struct trace_text *p, const struct span fields[NR_FIELDS],
                          enum field order, struct trace_event *e, char *why)
{
    if (!number_field(fields, FIELD_PFN, p->pfn_base, TRACE_MAX_PFN - 1, &e->pfn, why) ||
        !small_field(fields, order, TRACE_MAX_ORDER, &e->order, why))
        return false;
    e->frames = UINT32_C(1) << e->order;
    return true;
}

static bool alloc_body(struct trace_text *p, const struct span fields[NR_FIELDS],
                       struct trace_event *e, char *why)
{
    if (no_page(fields)) {
        e->type = TRACE_ALLOC_FAILED;
        if (!small_field(fields, FIELD_ORDER, TRACE_MAX_ORDER, &e->order, why))
            return false;
    } else if (!pfn_and_order(p, fields, FIELD_ORDER, e, why)) {
        return false;
    }
    if (fields[FIELD_GFP].at == NULL) {
        snprintf(why, TRACE_MESSAGE,
                 "field gfp_flags: missing; the line is cut or not a kmem event");
        return false;
    }
    e->gfp = gfp_of(p, fields[FIELD_GFP]);
    return small_field(fields, FIELD_MIGRATETYPE, TRACE_MAX_MIGRATETYPE, &e->migratetype, why);
}

static bool extfrag_body(struct trace_text *p, const struct span fields[NR_FIELDS],
                         struct trace_event *e, char *why)
{
    return pfn_and_order(p, fields, FIELD_ALLOC_ORDER, e, why) &&
           small_field(fields, FIELD_FALLBACK_ORDER, TRACE_MAX_ORDER, &e->fallback_order, why) &&
           small_field(fields, FIELD_ALLOC_MIGRATETYPE, TRACE_MAX_MIGRATETYPE, &e->migratetype,
                       why) &&
           small_field(fields, FIELD_FALLBACK_MIGRATETYPE, TRACE_MAX_MIGRATETYPE,
                       &e->fallback_migratetype, why);
}

/* deckle_burst: what deckle unpack prints for a burst, whose single frames a packed file forgets.
 */
static bool burst_body(const struct span fields[NR_FIELDS], struct trace_event *e, char *why)
{
    uint64_t events, frames, start;

    if (span_is(fields[FIELD_KIND], "zone_locked")) {
        e->type = TRACE_ZONE_LOCKED;
    } else if (span_is(fields[FIELD_KIND], "pcpu_drain")) {
        e->type = TRACE_PCPU_DRAIN;
    } else {
        snprintf(why, TRACE_MESSAGE, "field kind: want zone_locked or pcpu_drain");
        return false;
    }
    if (!number_field(fields, FIELD_EVENTS, 10, UINT32_MAX, &events, why) ||
        !number_field(fields, FIELD_FRAMES, 10, UINT32_MAX, &frames, why) ||
        !number_field(fields, FIELD_START, 10, 1, &start, why))
        return false;
    if (events == 0) {
        snprintf(why, TRACE_MESSAGE, "field events: a burst has at least one event");
        return false;
    }
    e->events = (uint32_t)events;
    e->frames = (uint32_t)frames;
    e->burst_start = start != 0;
    return true;
}

/* --- the line -------------------------------------------------------------------------------- */

static const struct {
    const char *name; /* with the colon that ends it */
    uint8_t type;
} event_names[] = {
    {"mm_page_alloc:", TRACE_ALLOC},
    {"mm_page_free:", TRACE_FREE},
    {"mm_page_free_batched:", TRACE_FREE_BATCHED},
    {"mm_page_alloc_zone_locked:", TRACE_ZONE_LOCKED},
    {"mm_page_pcpu_drain:", TRACE_PCPU_DRAIN},
    {"mm_page_alloc_extfrag:", TRACE_EXTFRAG},
    {"deckle_burst:", TRACE_NR_TYPES},
};

/* The next place in text where one of the names stands; *type and *body belong to it. */
static const char *find_name(const char *text, uint8_t *type, const char **body)
{
    const char *stem = "mm_page_";
    const char *at = strstr(text, stem);

    if (at == NULL)
        at = strstr(text, stem = "deckle_burst:");
    for (; at != NULL; at = strstr(at + 1, stem))
        for (size_t i = 0; i < sizeof(event_names) / sizeof(event_names[0]); i++) {
            size_t n = strlen(event_names[i].name);

            if (strncmp(at, event_names[i].name, n) == 0) {
                *type = event_names[i].type;
                *body = at + n;
                return at;
            }
        }
    return NULL;
}

static bool parse_body(struct trace_text *p, const char *body, struct trace_event *e, char *why)
{
    struct span fields[NR_FIELDS];

    if (e->type == TRACE_FREE_BATCHED)
        return true;
    find_fields(body, fields);
    switch (e->type) {
    case TRACE_ALLOC:
        return alloc_body(p, fields, e, why);
    case TRACE_ZONE_LOCKED:
    case TRACE_PCPU_DRAIN:
    case TRACE_FREE:
        return pfn_and_order(p, fields, FIELD_ORDER, e, why);
    case TRACE_EXTFRAG:
        return extfrag_body(p, fields, e, why);
    default:
        return burst_body(fields, e, why);
    }
}

static void note_format(struct trace_facts *facts, bool perf, const char *body)
{
    if (facts->format != TRACE_FORMAT_UNKNOWN)
        return;
    if (perf)
        facts->format = TRACE_FORMAT_PERF;
    else
        facts->format =
            is_space(body[0]) && is_space(body[1]) ? TRACE_FORMAT_TRACE_CMD : TRACE_FORMAT_FTRACE;
}

static enum trace_text_kind parse_event(struct trace_text *p, const char *line,
                                        struct trace_event *e, char *why)
{
    const char *body, *name;
    bool pfn_follows = false, bad = false;
    uint8_t type;

    for (const char *from = line; (name = find_name(from, &type, &body)) != NULL; from = name + 1) {
        const char *end = name;
        bool perf = end - line >= 5 && strncmp(end - 5, "kmem:", 5) == 0;
        enum prefix prefix;

        if (perf)
            end -= 5;
        if (end > line && !is_space(end[-1]))
            continue;
        pfn_follows = pfn_follows || strstr(body, "pfn=") != NULL;
        memset(e, 0, sizeof(*e));
        e->type = type;
        e->events = 1;
        prefix = parse_prefix(p, line, end, e, why);
        if (prefix == PREFIX_OK) {
            note_format(p->facts, perf, body);
            return parse_body(p, body, e, why) ? TRACE_TEXT_EVENT : TRACE_TEXT_BAD;
        }
        bad = bad || prefix == PREFIX_BAD;
    }
    if (bad)
        return TRACE_TEXT_BAD;
    if (pfn_follows) {
        snprintf(why, TRACE_MESSAGE,
                 "field TIMESTAMP: none before the event; want \"SECONDS.MICROSECONDS:\" (trace "
                 "options context-info on, verbose off)");
        return TRACE_TEXT_BAD;
    }
    p->facts->other_lines++;
    return TRACE_TEXT_NOTHING;
}

/* Where text has the label, moves *at behind it and reads the number there. */
static bool number_after(const char **at, const char *label, uint64_t *number)
{
    const char *found = strstr(*at, label);
    char *end;

    if (found == NULL)
        return false;
    found += strlen(label);
    found += strspn(found, " \t");
    if (!is_digit(*found))
        return false;
    *number = strtoull(found, &end, 10);
    *at = end;
    return true;
}

static void note_cpus(struct trace_facts *facts, uint64_t cpus)
{
    if (cpus <= TRACE_MAX_CPUS)
        facts->online_cpus = (uint32_t)cpus;
}

/* Headings say how much was recorded on how many CPUs. */
static void parse_comment(struct trace_facts *facts, const char *line)
{
    const char *at = line;
    uint64_t in_buffer, written, cpus;

    facts->comments++;
    if (number_after(&at, "entries-in-buffer/entries-written:", &in_buffer)) {
        if (number_after(&at, "/", &written) && written > in_buffer)
            facts->overwritten = written - in_buffer;
        if (number_after(&at, "#P:", &cpus))
            note_cpus(facts, cpus);
        return;
    }
    if (number_after(&at, "# nrcpus online :", &cpus))
        note_cpus(facts, cpus);
    if (strncmp(line, "# deckle: source ", 17) == 0 && line[17] != '\0')
        snprintf(facts->source, sizeof(facts->source), "%.*s", (int)sizeof(facts->source) - 1,
                 line + 17);
}

/* "CPU:1 [LOST 12 EVENTS]" of ftrace, "CPU:1 [12 EVENTS DROPPED]" of trace-cmd, the records of
 * perf. */
static bool parse_lost(struct trace_facts *facts, const char *line)
{
    const char *at = NULL;

    if (strncmp(line, "CPU:", 4) == 0 && strstr(line, "EVENTS") != NULL)
        at = strchr(line, '[');
    else if ((at = strstr(line, "PERF_RECORD_LOST")) != NULL)
        at = strstr(at, " lost");
    if (at == NULL)
        return false;
    facts->lost_marks++;
    at += strcspn(at, "0123456789");
    if (*at != '\0') {
        uint64_t lost = strtoull(at, NULL, 10);

        facts->lost_events += lost < UINT64_MAX - facts->lost_events ? lost : 0;
    }
    return true;
}

enum trace_text_kind trace_text_line(struct trace_text *p, char *line, size_t length,
                                     struct trace_event *event, char *why)
{
    const char *at = line, *heading;
    uint64_t cpus;

    if (strlen(line) != length) {
        snprintf(why, TRACE_MESSAGE, "has a NUL byte at column %zu; the file is damaged",
                 strlen(line) + 1);
        return TRACE_TEXT_BAD;
    }
    if (p->facts->lines <= 1 && strncmp(at, "\xef\xbb\xbf", 3) == 0)
        at += 3;
    while (is_space(*at))
        at++;
    if (*at == '\0')
        return TRACE_TEXT_NOTHING;
    if (*at == '#') {
        parse_comment(p->facts, at);
        return TRACE_TEXT_NOTHING;
    }
    if (parse_lost(p->facts, at))
        return TRACE_TEXT_NOTHING;
    heading = at;
    if (strncmp(at, "cpus=", 5) == 0 && number_after(&heading, "cpus=", &cpus)) {
        note_cpus(p->facts, cpus);
        p->facts->format = TRACE_FORMAT_TRACE_CMD;
    }
    return parse_event(p, at, event, why);
}

void trace_text_init(struct trace_text *p, const struct trace_options *options,
                     const unsigned char *begin, size_t size, struct trace_facts *facts)
{
    size_t plain = 0, letters = 0; /* pfns without 0x, and those of them with a letter */

    memset(p, 0, sizeof(*p));
    p->facts = facts;
    p->gfp_length = SIZE_MAX;
    p->pfn_base = options->pfn_base != 0 ? options->pfn_base : 10;
    if (options->pfn_base != 0)
        return;
    for (size_t i = 0; i + 4 < size; i++) {
        bool letter = false;

        if (begin[i] != 'p' || memcmp(begin + i, "pfn=", 4) != 0)
            continue;
        for (i += 4; i < size && digit_value((char)begin[i]) < 16; i++)
            letter = letter || digit_value((char)begin[i]) > 9;
        if (i < size && begin[i] <= ' ') {
            plain++;
            letters += letter;
        }
    }
    /* Nine of ten hexadecimal pfns of five digits have a letter; one is a damaged decimal. */
    if (letters * 2 > plain)
        p->pfn_base = 16;
}
