/* SPDX-License-Identifier: MIT */
/*
 * The reader of packed traces: chunk by chunk, event by event, through the same model as the
 * writer. Nothing of the file is trusted: sizes have limits before memory is taken, every number is
 * checked before it indexes or becomes part of an event, and the END chunk must agree with what was
 * read.
 */
#include "packed.h"

#include <inttypes.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include "packed_bytes.h"
#include "packed_model.h"

#define LZMA_MEMORY (UINT64_C(192) << 20)

struct packed_reader {
    struct trace_source *source;
    struct trace_facts *facts;
    struct packed_model *model;
    uint64_t crc;
    uint64_t nr; /* events handed out */
    bool ended;

    unsigned char *raw; /* the chunk, PACKED_MAX_RAW bytes at most */
    struct bytes_view columns[NR_COLUMNS];
    uint64_t left; /* events of the chunk still to come */
    uint64_t tick, time_ns;

    struct trace_event *kinds; /* without time, pfn and sums */
    uint32_t nr_kinds, room_kinds;
};

static enum trace_status fail(char *why, const char *what)
{
    snprintf(why, TRACE_MESSAGE, "%s", what);
    return TRACE_ERROR;
}

static enum trace_status damaged(char *why, const char *what)
{
    snprintf(why, TRACE_MESSAGE, "%s; the packed file is damaged", what);
    return TRACE_ERROR;
}

/* --- chunks out of the file ------------------------------------------------------------------ */

static bool take(struct packed_reader *r, void *to, size_t size, char *why)
{
    int64_t got = trace_source_read(r->source, to, size);

    if (got < 0) {
        fail(why, trace_source_why(r->source));
        return false;
    }
    if ((size_t)got < size) {
        fail(why, "ends too early: the packed file is cut");
        return false;
    }
    r->crc = lzma_crc64(to, size, r->crc);
    return true;
}

static bool take_varint(struct packed_reader *r, uint64_t *value, char *why)
{
    unsigned char text[10];
    struct bytes_view view = {text, text};

    for (size_t n = 0; n < sizeof(text); n++) {
        if (!take(r, text + n, 1, why))
            return false;
        if ((text[n] & 0x80) == 0) {
            view.end = text + n + 1;
            break;
        }
    }
    if (bytes_get_varint(&view, value))
        return true;
    damaged(why, "a number has more than 64 bits");
    return false;
}

/* The next chunk into r->raw; *size is that of its content. */
static bool take_chunk(struct packed_reader *r, uint8_t *tag, size_t *size, char *why)
{
    uint64_t raw_size, packed_size, memory = LZMA_MEMORY;
    unsigned char *packed;
    size_t in = 0, out = 0;
    lzma_ret ret;

    if (!take(r, tag, 1, why) || !take_varint(r, &raw_size, why) ||
        !take_varint(r, &packed_size, why))
        return false;
    if ((*tag != PACKED_INFO && *tag != PACKED_EVENTS && *tag != PACKED_END) || raw_size == 0 ||
        raw_size > PACKED_MAX_RAW || packed_size == 0 ||
        packed_size > lzma_stream_buffer_bound(PACKED_MAX_RAW)) {
        damaged(why, "a chunk has an unknown tag or a size out of range");
        return false;
    }
    free(r->raw);
    r->raw = malloc((size_t)raw_size);
    packed = malloc((size_t)packed_size);
    if (r->raw == NULL || packed == NULL) {
        free(packed);
        fail(why, "not enough memory");
        return false;
    }
    if (!take(r, packed, (size_t)packed_size, why)) {
        free(packed);
        return false;
    }
    ret = lzma_stream_buffer_decode(&memory, 0, NULL, packed, &in, (size_t)packed_size, r->raw,
                                    &out, (size_t)raw_size);
    free(packed);
    if (ret == LZMA_MEM_ERROR) {
        fail(why, "not enough memory");
        return false;
    }
    if (ret != LZMA_OK || in != packed_size || out != raw_size) {
        damaged(why, "a chunk does not decompress to what it should");
        return false;
    }
    *size = out;
    return true;
}

/* --- INFO and END: lines "key value" --------------------------------------------------------- */

/* The value of a key, copied to value; false if it is not there. */
static bool text_value(const unsigned char *text, size_t size, const char *key, char *value,
                       size_t room)
{
    size_t n = strlen(key), at = 0;

    while (at < size) {
        const unsigned char *end = memchr(text + at, '\n', size - at);
        size_t length = end != NULL ? (size_t)(end - text) - at : size - at;

        if (length > n + 1 && memcmp(text + at, key, n) == 0 && text[at + n] == ' ') {
            size_t m = length - n - 1 < room - 1 ? length - n - 1 : room - 1;

            for (size_t i = 0; i < m; i++) {
                unsigned char c = text[at + n + 1 + i];

                value[i] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
            }
            value[m] = '\0';
            return true;
        }
        at += length + 1;
    }
    return false;
}

static uint64_t number_value(const struct packed_reader *r, size_t size, const char *key)
{
    char text[32];

    return text_value(r->raw, size, key, text, sizeof(text)) ? strtoull(text, NULL, 10) : 0;
}

static bool take_info(struct packed_reader *r, char *why)
{
    unsigned char magic[PACKED_MAGIC_SIZE];
    uint64_t version;
    uint8_t tag;
    size_t size;

    if (!take(r, magic, sizeof(magic), why))
        return false;
    if (memcmp(magic, packed_magic, sizeof(magic)) != 0) {
        damaged(why, "its first bytes are not those of a packed trace");
        return false;
    }
    if (!take_varint(r, &version, why))
        return false;
    if (version != PACKED_VERSION) {
        snprintf(why, TRACE_MESSAGE,
                 "is a packed trace of version %" PRIu64 "; this deckle reads version %u", version,
                 PACKED_VERSION);
        return false;
    }
    if (!take_chunk(r, &tag, &size, why))
        return false;
    if (tag != PACKED_INFO) {
        damaged(why, "its first chunk is not INFO");
        return false;
    }
    text_value(r->raw, size, "source", r->facts->source, sizeof(r->facts->source));
    return true;
}

static enum trace_format format_named(const char *name)
{
    for (int f = TRACE_FORMAT_UNKNOWN; f <= TRACE_FORMAT_PACKED; f++)
        if (strcmp(name, trace_format_name((enum trace_format)f)) == 0)
            return (enum trace_format)f;
    return TRACE_FORMAT_UNKNOWN;
}

static enum trace_status take_end(struct packed_reader *r, size_t size, uint64_t crc, char *why)
{
    struct trace_facts *facts = r->facts;
    char text[32], want[32];
    unsigned char more;

    snprintf(want, sizeof(want), "%016" PRIx64, crc);
    if (!text_value(r->raw, size, "crc64", text, sizeof(text)) || strcmp(text, want) != 0)
        return damaged(why, "its check sum is wrong");
    for (unsigned int type = 0; type < TRACE_NR_TYPES; type++) {
        uint64_t said = number_value(r, size, packed_event_keys[type]);

        if (type == TRACE_FREE_BATCHED)
            facts->events[type] = said;
        else if (facts->events[type] != said)
            return damaged(why, "its END chunk counts other events than it holds");
    }
    if (trace_source_read(r->source, &more, 1) != 0)
        return damaged(why, "something follows its END chunk");
    if (text_value(r->raw, size, "recorded-format", text, sizeof(text)))
        facts->recorded_format = format_named(text);
    facts->lines = number_value(r, size, "lines");
    facts->other_lines = number_value(r, size, "other-lines");
    facts->bad_lines = number_value(r, size, "bad-lines");
    facts->truncated = number_value(r, size, "truncated") != 0;
    facts->lost_events = number_value(r, size, "lost-events");
    facts->lost_marks = number_value(r, size, "lost-marks");
    facts->overwritten = number_value(r, size, "overwritten");
    facts->unknown_gfp = number_value(r, size, "unknown-gfp");
    facts->time_backwards = number_value(r, size, "time-backwards");
    facts->backwards_ns = number_value(r, size, "backwards-ns");
    facts->ticks = number_value(r, size, "ticks") != 0;
    facts->tick_ns = (uint32_t)number_value(r, size, "tick-ns");
    facts->online_cpus = (uint32_t)number_value(r, size, "online-cpus");
    r->ended = true;
    return TRACE_END;
}

/* --- EVENTS ---------------------------------------------------------------------------------- */

static bool take_kind(struct packed_reader *r, struct bytes_view *v)
{
    struct trace_event *kind;
    uint64_t cpu, gfp;
    uint8_t flags;

    if (r->nr_kinds == r->room_kinds) {
        uint32_t room = r->room_kinds > 0 ? r->room_kinds * 2 : 64;
        struct trace_event *grown = realloc(r->kinds, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        r->kinds = grown;
        r->room_kinds = room;
    }
    kind = &r->kinds[r->nr_kinds];
    memset(kind, 0, sizeof(*kind));
    if (!bytes_get_byte(v, &kind->type) || !bytes_get_byte(v, &flags) ||
        !bytes_get_varint(v, &cpu) || !bytes_get_varint(v, &gfp) ||
        !bytes_get_byte(v, &kind->order) || !bytes_get_byte(v, &kind->migratetype) ||
        !bytes_get_byte(v, &kind->fallback_order) ||
        !bytes_get_byte(v, &kind->fallback_migratetype))
        return false;
    if (kind->type >= TRACE_NR_TYPES || kind->type == TRACE_FREE_BATCHED ||
        flags > PACKED_BURST_START || cpu >= TRACE_MAX_CPUS || gfp > UINT32_MAX ||
        kind->order > TRACE_MAX_ORDER || kind->migratetype > TRACE_MAX_MIGRATETYPE ||
        kind->fallback_order > TRACE_MAX_ORDER ||
        kind->fallback_migratetype > TRACE_MAX_MIGRATETYPE)
        return false;
    kind->cpu = (uint32_t)cpu;
    kind->gfp = (uint32_t)gfp;
    kind->burst_start = flags == PACKED_BURST_START;
    kind->events = 1;
    if (kind->type != TRACE_ALLOC_FAILED)
        kind->frames = UINT32_C(1) << kind->order;
    r->nr_kinds++;
    return true;
}

static bool start_chunk(struct packed_reader *r, size_t size, char *why)
{
    struct bytes_view v = {r->raw, r->raw + size};
    uint64_t nr_kinds, sizes[NR_COLUMNS];

    if (!bytes_get_varint(&v, &r->tick) || r->tick == 0 || r->tick > PACKED_MAX_TICK ||
        !bytes_get_varint(&v, &r->left) || r->left == 0 || r->left > PACKED_MAX_EVENTS ||
        !bytes_get_varint(&v, &nr_kinds) || nr_kinds > PACKED_MAX_KINDS - r->nr_kinds) {
        damaged(why, "the head of an EVENTS chunk is out of range");
        return false;
    }
    for (; nr_kinds > 0; nr_kinds--)
        if (!take_kind(r, &v)) {
            damaged(why, "the table of an EVENTS chunk is out of range");
            return false;
        }
    for (unsigned int c = 0; c < NR_COLUMNS; c++)
        if (!bytes_get_varint(&v, &sizes[c]))
            sizes[c] = UINT64_MAX;
    for (unsigned int c = 0; c < NR_COLUMNS; c++)
        if (!bytes_get_view(&v, sizes[c], &r->columns[c])) {
            damaged(why, "the columns of an EVENTS chunk are longer than it");
            return false;
        }
    return true;
}

/* base + the next difference of the column, as a pfn. */
static bool get_pfn(struct packed_reader *r, enum packed_column column, uint64_t base,
                    uint64_t *pfn)
{
    int64_t difference;

    if (!bytes_get_zigzag(&r->columns[column], &difference))
        return false;
    *pfn = base + (uint64_t)difference;
    return *pfn < TRACE_MAX_PFN;
}

static bool decode_alloc(struct packed_reader *r, struct trace_event *e)
{
    uint8_t guessed;

    if (!bytes_get_byte(&r->columns[COLUMN_GUESSED], &guessed) || guessed > 1)
        return false;
    /* Always asked, as the writer does: asking drops stale entries. */
    if (!packed_model_guess(r->model, e->cpu, e->order, e->migratetype, &e->pfn) && guessed != 0)
        return false;
    if (guessed == 0 &&
        !get_pfn(r, COLUMN_ALLOC_PFN, packed_model_next_alloc(r->model, e->cpu, e->order), &e->pfn))
        return false;
    return packed_model_alloc(r->model, e->cpu, e->order, e->migratetype, e->pfn);
}

static bool decode_free(struct packed_reader *r, struct trace_event *e)
{
    uint64_t symbol, number = 0;

    if (!bytes_get_varint(&r->columns[COLUMN_FREED], &symbol))
        return false;
    if (symbol > 0) {
        uint64_t twice = symbol - 1;
        uint64_t step = (twice & 1) != 0 ? ~(twice >> 1) : twice >> 1;

        number = packed_model_next_number(r->model, e->cpu) + step;
        if (!packed_model_block(r->model, number, &e->pfn))
            return false;
    } else if (!get_pfn(r, COLUMN_FREE_PFN, packed_model_next_free(r->model, e->cpu), &e->pfn)) {
        return false;
    }
    return packed_model_freed(r->model, e->cpu, e->order, e->pfn, symbol > 0, number);
}

static bool decode_other(struct packed_reader *r, struct trace_event *e)
{
    struct bytes_view *v = &r->columns[COLUMN_OTHER];
    uint64_t events, frames;

    if (e->type == TRACE_ALLOC_FAILED)
        return true;
    if (e->type == TRACE_EXTFRAG)
        return bytes_get_varint(v, &e->pfn) && e->pfn < TRACE_MAX_PFN;
    if (!bytes_get_varint(v, &events) || !bytes_get_varint(v, &frames) || events == 0 ||
        events > UINT32_MAX || frames > UINT32_MAX)
        return false;
    e->events = (uint32_t)events;
    e->frames = (uint32_t)frames;
    return true;
}

static bool decode(struct packed_reader *r, struct trace_event *e)
{
    uint64_t kind;
    int64_t ticks;

    r->nr++;
    if (!bytes_get_varint(&r->columns[COLUMN_KIND], &kind) || kind >= r->nr_kinds ||
        !bytes_get_zigzag(&r->columns[COLUMN_TIME], &ticks))
        return false;
    *e = r->kinds[kind];
    ticks = (int64_t)((uint64_t)ticks + r->time_ns / r->tick);
    if ((uint64_t)ticks > UINT64_MAX / r->tick)
        return false;
    e->time_ns = r->time_ns = (uint64_t)ticks * r->tick;
    e->line = r->nr;
    if (e->type == TRACE_ALLOC)
        return decode_alloc(r, e);
    if (e->type == TRACE_FREE)
        return decode_free(r, e);
    return decode_other(r, e);
}

enum trace_status packed_next(struct packed_reader *r, struct trace_event *event, char *why)
{
    while (r->left == 0) {
        uint64_t crc = r->crc;
        uint8_t tag;
        size_t size;

        if (r->ended)
            return TRACE_END;
        if (!take_chunk(r, &tag, &size, why))
            return TRACE_ERROR;
        if (tag == PACKED_END)
            return take_end(r, size, crc, why);
        if (tag != PACKED_EVENTS)
            return damaged(why, "a second INFO chunk");
        if (!start_chunk(r, size, why))
            return TRACE_ERROR;
    }
    if (!decode(r, event)) {
        char what[64];

        if (packed_model_failed(r->model))
            return fail(why, "needs more memory than allowed to be unpacked");
        snprintf(what, sizeof(what), "event %" PRIu64 " is out of range", r->nr);
        return damaged(why, what);
    }
    r->left--;
    if (r->left == 0)
        for (unsigned int c = 0; c < NR_COLUMNS; c++)
            if (r->columns[c].at != r->columns[c].end)
                return damaged(why, "an EVENTS chunk holds more than its events");
    return TRACE_EVENT;
}

struct packed_reader *packed_reader_new(struct trace_source *source,
                                        const struct trace_options *options,
                                        struct trace_facts *facts, char *why)
{
    struct packed_reader *r = calloc(1, sizeof(*r));

    if (r == NULL) {
        fail(why, "not enough memory");
        return NULL;
    }
    r->source = source;
    r->facts = facts;
    facts->format = TRACE_FORMAT_PACKED;
    r->model = packed_model_new(options->max_memory > 0 ? options->max_memory : PACKED_MEMORY);
    if (r->model == NULL || !take_info(r, why)) {
        if (r->model == NULL)
            fail(why, "not enough memory");
        packed_reader_free(r);
        return NULL;
    }
    return r;
}

void packed_reader_free(struct packed_reader *r)
{
    if (r == NULL)
        return;
    packed_model_free(r->model);
    free(r->raw);
    free(r->kinds);
    free(r);
}
