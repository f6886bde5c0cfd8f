/* SPDX-License-Identifier: MIT */
/*
 * The writer. Events are collected until a chunk is full or the trace ends; then they go through
 * the model once, in order, into columns, and the columns through liblzma. Bursts are summed up
 * while they are collected, so that a burst is one event wherever it does not cross chunks.
 */
#include "packed.h"

#include <inttypes.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>

#include <deckle.h>

#include "packed_bytes.h"
#include "packed_model.h"

const unsigned char packed_magic[PACKED_MAGIC_SIZE] = {0x89, 'D', 'K', 'T', '\r', '\n', 0x1a, '\n'};

const char *const packed_event_keys[TRACE_NR_TYPES] = {
    [TRACE_ALLOC] = "allocs",
    [TRACE_ALLOC_FAILED] = "failed-allocs",
    [TRACE_FREE] = "frees",
    [TRACE_FREE_BATCHED] = "batched-frees",
    [TRACE_ZONE_LOCKED] = "zone-locked",
    [TRACE_PCPU_DRAIN] = "pcpu-drain",
    [TRACE_EXTFRAG] = "extfrag",
};

/* An event without time, pfn and sums; the table of kinds holds each combination once. */
struct kind {
    uint32_t cpu, gfp;
    uint8_t type, order, migratetype, fallback_order, fallback_migratetype, flags;
};

struct packed_writer {
    FILE *to;
    uint32_t tick_ns; /* 0 = exact */
    uint64_t previous_ns;
    uint64_t bytes, crc;
    struct packed_model *model;

    struct trace_event *events; /* of the chunk that is being collected */
    uint32_t nr_events, room_events;
    uint32_t *open_burst; /* per CPU: 1 + index of the burst that a further event may join */

    struct kind *kinds;
    uint32_t nr_kinds, room_kinds, written_kinds;
    uint32_t *kind_slots; /* open addressing: 1 + index; PACKED_MAX_KINDS * 2 slots */

    struct bytes columns[NR_COLUMNS], raw, packed;
    char why[TRACE_MESSAGE];
};

static bool fail(struct packed_writer *w, const char *why)
{
    if (w->why[0] == '\0')
        snprintf(w->why, sizeof(w->why), "%s", why);
    return false;
}

/* --- chunks into the file -------------------------------------------------------------------- */

static bool put(struct packed_writer *w, const void *from, size_t size)
{
    if (fwrite(from, 1, size, w->to) != size)
        return fail(w, "cannot be written: no space left or an error of the device");
    w->crc = lzma_crc64(from, size, w->crc);
    w->bytes += size;
    return true;
}

/* w->raw as one .xz stream into w->packed. The dictionary covers the chunk and no more. */
static bool compress_raw(struct packed_writer *w)
{
    lzma_options_lzma options;
    lzma_filter filters[2] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, NULL}};
    size_t bound = lzma_stream_buffer_bound(w->raw.size), size = 0;
    uint32_t dictionary = LZMA_DICT_SIZE_MIN;
    unsigned char *out = malloc(bound);
    lzma_ret ret;

    if (out == NULL)
        return fail(w, "not enough memory");
    if (lzma_lzma_preset(&options, 9 | LZMA_PRESET_EXTREME)) {
        free(out);
        return fail(w, "this liblzma lacks its preset 9");
    }
    while (dictionary < w->raw.size)
        dictionary *= 2;
    options.dict_size = dictionary;
    options.lc = 3;
    options.lp = 0;
    options.pb = 0; /* columns are of bytes: no alignment to find */
    ret = lzma_stream_buffer_encode(filters, LZMA_CHECK_CRC64, NULL, w->raw.at, w->raw.size, out,
                                    &size, bound);
    if (ret == LZMA_OK) {
        bytes_clear(&w->packed);
        bytes_add(&w->packed, out, size);
    }
    free(out);
    if (ret != LZMA_OK || w->packed.failed)
        return fail(w, ret == LZMA_MEM_ERROR || ret == LZMA_OK ? "not enough memory"
                                                               : "liblzma cannot compress");
    return true;
}

static bool put_chunk(struct packed_writer *w, enum packed_tag tag)
{
    struct bytes head = {0};
    bool done;

    if (w->raw.failed)
        return fail(w, "not enough memory");
    if (!compress_raw(w))
        return false;
    bytes_add_byte(&head, (unsigned int)tag);
    bytes_add_varint(&head, w->raw.size);
    bytes_add_varint(&head, w->packed.size);
    done = !head.failed && put(w, head.at, head.size) && put(w, w->packed.at, w->packed.size);
    bytes_free(&head);
    return done || fail(w, "not enough memory");
}

static void add_line(struct bytes *b, const char *key, const char *value)
{
    bytes_add(b, key, strlen(key));
    bytes_add(b, " ", 1);
    bytes_add(b, value, strlen(value));
    bytes_add(b, "\n", 1);
}

static void add_number(struct bytes *b, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    add_line(b, key, text);
}

struct packed_writer *packed_writer_new(FILE *to, const char *source, uint32_t tick_ns)
{
    struct packed_writer *w = calloc(1, sizeof(*w));
    unsigned char version = PACKED_VERSION;

    if (w == NULL)
        return NULL;
    w->to = to;
    w->tick_ns = tick_ns;
    w->model = packed_model_new(PACKED_MEMORY);
    w->open_burst = calloc(TRACE_MAX_CPUS, sizeof(*w->open_burst));
    w->kind_slots = calloc(PACKED_MAX_KINDS * 2, sizeof(*w->kind_slots));
    if (w->model == NULL || w->open_burst == NULL || w->kind_slots == NULL) {
        packed_writer_free(w);
        return NULL;
    }
    if (put(w, packed_magic, sizeof(packed_magic)) && put(w, &version, 1)) {
        add_line(&w->raw, "source", source);
        add_line(&w->raw, "packed-by", "deckle " DECKLE_VERSION_STRING);
        put_chunk(w, PACKED_INFO);
    }
    return w;
}

void packed_writer_free(struct packed_writer *w)
{
    if (w == NULL)
        return;
    packed_model_free(w->model);
    free(w->events);
    free(w->open_burst);
    free(w->kinds);
    free(w->kind_slots);
    for (unsigned int c = 0; c < NR_COLUMNS; c++)
        bytes_free(&w->columns[c]);
    bytes_free(&w->raw);
    bytes_free(&w->packed);
    free(w);
}

const char *packed_writer_why(const struct packed_writer *w)
{
    return w->why;
}

uint64_t packed_writer_bytes(const struct packed_writer *w)
{
    return w->bytes;
}

/* --- kinds ----------------------------------------------------------------------------------- */

static struct kind kind_of(const struct trace_event *e)
{
    struct kind k;

    memset(&k, 0, sizeof(k)); /* padding too: kinds are compared as bytes */
    k.cpu = e->cpu;
    k.gfp = e->gfp;
    k.type = e->type;
    if (e->type != TRACE_ZONE_LOCKED && e->type != TRACE_PCPU_DRAIN) {
        k.order = e->order;
        k.migratetype = e->migratetype;
    }
    k.fallback_order = e->fallback_order;
    k.fallback_migratetype = e->fallback_migratetype;
    k.flags = e->burst_start ? PACKED_BURST_START : 0;
    return k;
}

/* Index of the kind, which is added where it is new; PACKED_MAX_KINDS when there is no room. */
static uint32_t kind_index(struct packed_writer *w, const struct kind *k)
{
    uint32_t mask = PACKED_MAX_KINDS * 2 - 1;
    uint32_t slot = (uint32_t)(lzma_crc32((const uint8_t *)k, sizeof(*k), 0)) & mask;

    for (; w->kind_slots[slot] != 0; slot = (slot + 1) & mask)
        if (memcmp(&w->kinds[w->kind_slots[slot] - 1], k, sizeof(*k)) == 0)
            return w->kind_slots[slot] - 1;
    if (w->nr_kinds == PACKED_MAX_KINDS)
        return PACKED_MAX_KINDS;
    if (w->nr_kinds == w->room_kinds) {
        uint32_t room = w->room_kinds > 0 ? w->room_kinds * 2 : 64;
        struct kind *grown = realloc(w->kinds, room * sizeof(*grown));

        if (grown == NULL)
            return PACKED_MAX_KINDS;
        w->kinds = grown;
        w->room_kinds = room;
    }
    w->kinds[w->nr_kinds] = *k;
    w->kind_slots[slot] = ++w->nr_kinds;
    return w->nr_kinds - 1;
}

static void add_new_kinds(struct packed_writer *w)
{
    bytes_add_varint(&w->raw, w->nr_kinds - w->written_kinds);
    for (; w->written_kinds < w->nr_kinds; w->written_kinds++) {
        const struct kind *k = &w->kinds[w->written_kinds];

        bytes_add_byte(&w->raw, k->type);
        bytes_add_byte(&w->raw, k->flags);
        bytes_add_varint(&w->raw, k->cpu);
        bytes_add_varint(&w->raw, k->gfp);
        bytes_add_byte(&w->raw, k->order);
        bytes_add_byte(&w->raw, k->migratetype);
        bytes_add_byte(&w->raw, k->fallback_order);
        bytes_add_byte(&w->raw, k->fallback_migratetype);
    }
}

/* --- events into columns --------------------------------------------------------------------- */

static void add_difference(struct bytes *column, uint64_t value, uint64_t from)
{
    bytes_add_zigzag(column, (int64_t)(value - from));
}

static void encode_alloc(struct packed_writer *w, const struct trace_event *e)
{
    uint64_t guess;
    bool right =
        packed_model_guess(w->model, e->cpu, e->order, e->migratetype, &guess) && guess == e->pfn;

    bytes_add_byte(&w->columns[COLUMN_GUESSED], right);
    if (!right)
        add_difference(&w->columns[COLUMN_ALLOC_PFN], e->pfn,
                       packed_model_next_alloc(w->model, e->cpu, e->order));
    packed_model_alloc(w->model, e->cpu, e->order, e->migratetype, e->pfn);
}

static void encode_free(struct packed_writer *w, const struct trace_event *e)
{
    uint64_t number = 0;
    bool named = packed_model_number(w->model, e->pfn, &number);

    if (named) {
        int64_t step = (int64_t)(number - packed_model_next_number(w->model, e->cpu));
        uint64_t twice = (uint64_t)step << 1;

        bytes_add_varint(&w->columns[COLUMN_FREED], 1 + (step < 0 ? ~twice : twice));
    } else {
        bytes_add_varint(&w->columns[COLUMN_FREED], 0);
        add_difference(&w->columns[COLUMN_FREE_PFN], e->pfn,
                       packed_model_next_free(w->model, e->cpu));
    }
    packed_model_freed(w->model, e->cpu, e->order, e->pfn, named, number);
}

static bool encode(struct packed_writer *w, const struct trace_event *e, uint64_t tick)
{
    struct kind k = kind_of(e);
    uint32_t index = kind_index(w, &k);

    if (index == PACKED_MAX_KINDS)
        return fail(w,
                    "has too many combinations of CPU, order, type and flags, or memory ran out");
    bytes_add_varint(&w->columns[COLUMN_KIND], index);
    add_difference(&w->columns[COLUMN_TIME], e->time_ns / tick, w->previous_ns / tick);
    w->previous_ns = e->time_ns;
    if (e->type == TRACE_ALLOC) {
        encode_alloc(w, e);
    } else if (e->type == TRACE_FREE) {
        encode_free(w, e);
    } else if (e->type == TRACE_EXTFRAG) {
        bytes_add_varint(&w->columns[COLUMN_OTHER], e->pfn);
    } else if (e->type != TRACE_ALLOC_FAILED) {
        bytes_add_varint(&w->columns[COLUMN_OTHER], e->events);
        bytes_add_varint(&w->columns[COLUMN_OTHER], e->frames);
    }
    return !packed_model_failed(w->model) ||
           fail(w, "needs more than 4 GiB of memory to be packed");
}

/* 1000 where all times of the chunk are whole microseconds, as text mostly has them. */
static uint64_t chunk_tick(const struct packed_writer *w)
{
    if (w->tick_ns > 0)
        return w->tick_ns;
    for (uint32_t i = 0; i < w->nr_events; i++)
        if (w->events[i].time_ns % 1000 != 0)
            return 1;
    return 1000;
}

static bool flush_chunk(struct packed_writer *w)
{
    uint64_t tick = chunk_tick(w);

    if (w->nr_events == 0)
        return true;
    for (unsigned int c = 0; c < NR_COLUMNS; c++)
        bytes_clear(&w->columns[c]);
    for (uint32_t i = 0; i < w->nr_events; i++)
        if (!encode(w, &w->events[i], tick))
            return false;

    bytes_clear(&w->raw);
    bytes_add_varint(&w->raw, tick);
    bytes_add_varint(&w->raw, w->nr_events);
    add_new_kinds(w);
    for (unsigned int c = 0; c < NR_COLUMNS; c++)
        bytes_add_varint(&w->raw, w->columns[c].size);
    for (unsigned int c = 0; c < NR_COLUMNS; c++) {
        bytes_add(&w->raw, w->columns[c].at, w->columns[c].size);
        w->raw.failed |= w->columns[c].failed;
    }
    w->nr_events = 0;
    memset(w->open_burst, 0, TRACE_MAX_CPUS * sizeof(*w->open_burst));
    return put_chunk(w, PACKED_EVENTS);
}

/* --- collecting ------------------------------------------------------------------------------ */

/* Adds the event to the burst before it on its CPU, where it continues that. */
static bool join_burst(struct packed_writer *w, const struct trace_event *e)
{
    struct trace_event *burst;

    if (e->burst_start || w->open_burst[e->cpu] == 0)
        return false;
    burst = &w->events[w->open_burst[e->cpu] - 1];
    if (burst->type != e->type || burst->events > UINT32_MAX - e->events ||
        burst->frames > UINT32_MAX - e->frames)
        return false;
    burst->events += e->events;
    burst->frames += e->frames;
    return true;
}

bool packed_write(struct packed_writer *w, const struct trace_event *event)
{
    bool burst = event->type == TRACE_ZONE_LOCKED || event->type == TRACE_PCPU_DRAIN;

    if (w->why[0] != '\0')
        return false;
    if (event->type == TRACE_FREE_BATCHED || (burst && join_burst(w, event)))
        return true;
    if (w->nr_events == PACKED_MAX_EVENTS && !flush_chunk(w))
        return false;
    if (w->nr_events == w->room_events) {
        uint32_t room = w->room_events > 0 ? w->room_events * 2 : 1024;
        struct trace_event *grown = realloc(w->events, room * sizeof(*grown));

        if (grown == NULL)
            return fail(w, "not enough memory");
        w->events = grown;
        w->room_events = room;
    }
    w->events[w->nr_events++] = *event;
    if (burst)
        w->open_burst[event->cpu] = w->nr_events;
    return true;
}

bool packed_finish(struct packed_writer *w, const struct trace_facts *facts)
{
    char crc[17];

    if (w->why[0] != '\0' || !flush_chunk(w))
        return false;
    snprintf(crc, sizeof(crc), "%016" PRIx64, w->crc);
    bytes_clear(&w->raw);
    add_line(&w->raw, "crc64", crc);
    add_line(&w->raw, "recorded-format",
             trace_format_name(facts->format == TRACE_FORMAT_PACKED ? facts->recorded_format
                                                                    : facts->format));
    add_number(&w->raw, "lines", facts->lines);
    for (uint8_t type = 0; type < TRACE_NR_TYPES; type++)
        add_number(&w->raw, packed_event_keys[type], facts->events[type]);
    add_number(&w->raw, "other-lines", facts->other_lines);
    add_number(&w->raw, "bad-lines", facts->bad_lines);
    add_number(&w->raw, "truncated", facts->truncated);
    add_number(&w->raw, "lost-events", facts->lost_events);
    add_number(&w->raw, "lost-marks", facts->lost_marks);
    add_number(&w->raw, "overwritten", facts->overwritten);
    add_number(&w->raw, "unknown-gfp", facts->unknown_gfp);
    add_number(&w->raw, "time-backwards", facts->time_backwards);
    add_number(&w->raw, "backwards-ns", facts->backwards_ns);
    add_number(&w->raw, "ticks", facts->ticks);
    add_number(&w->raw, "tick-ns", w->tick_ns > 0 ? w->tick_ns : facts->tick_ns);
    add_number(&w->raw, "online-cpus", facts->online_cpus);
    if (!put_chunk(w, PACKED_END))
        return false;
    return fflush(w->to) == 0 || fail(w, "cannot be written: no space left");
}
