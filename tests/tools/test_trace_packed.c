/* SPDX-License-Identifier: MIT */
/*
 * The packed form: what goes in comes out, for real and for random events of every kind; the four
 * recordings of the tree hold what traces/README.md says; damage of any byte, a cut at any byte and
 * every limit are noticed.
 *
 * ctest: timeout=120
 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "packed.h"
#include "packed_bytes.h"
#include "packed_model.h"
#include "testing.h"
#include "trace.h"
#include "trace_describe.h"
#include "trace_model.h"

struct blob {
    char *at;
    size_t size;
};

/* Packs events, of which nr are to be counted in the facts. */
static struct blob pack(const struct trace_event *events, size_t nr, uint32_t tick)
{
    struct trace_facts *facts = calloc(1, sizeof(*facts));
    struct blob b = {NULL, 0};
    FILE *to = open_memstream(&b.at, &b.size);
    struct packed_writer *w = packed_writer_new(to, "made up", tick);

    assert_non_null(facts);
    assert_non_null(to);
    assert_non_null(w);
    facts->format = TRACE_FORMAT_PERF;
    facts->lines = nr;
    for (size_t i = 0; i < nr; i++) {
        assert_true(packed_write(w, &events[i]));
        facts->events[events[i].type] += events[i].events;
    }
    if (!packed_finish(w, facts))
        fail_msg("%s", packed_writer_why(w));
    assert_int_equal(fclose(to), 0);
    assert_int_equal(packed_writer_bytes(w), b.size);
    packed_writer_free(w);
    free(facts);
    return b;
}

static enum trace_status read_blob(const struct blob *b, const struct trace_options *options,
                                   uint64_t *events, char *message)
{
    struct trace *t = trace_open_memory(b->at, b->size, "blob", options, message);
    struct trace_event e;
    enum trace_status status;

    *events = 0;
    if (t == NULL)
        return TRACE_ERROR;
    while ((status = trace_next(t, &e)) == TRACE_EVENT)
        ++*events;
    snprintf(message, TRACE_MESSAGE, "%.500s", trace_message(t));
    trace_close(t);
    return status;
}

static bool same(const struct trace_event *a, const struct trace_event *b)
{
    return a->time_ns == b->time_ns && a->pfn == b->pfn && a->cpu == b->cpu && a->gfp == b->gfp &&
           a->events == b->events && a->frames == b->frames && a->type == b->type &&
           a->order == b->order && a->migratetype == b->migratetype &&
           a->fallback_order == b->fallback_order &&
           a->fallback_migratetype == b->fallback_migratetype && a->burst_start == b->burst_start;
}

static void check_same(const struct blob *b, const struct trace_event *want, size_t nr)
{
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open_memory(b->at, b->size, "blob", NULL, message);
    struct trace_event e;

    assert_non_null(t);
    for (size_t i = 0; i < nr; i++) {
        if (trace_next(t, &e) != TRACE_EVENT)
            fail_msg("event %zu: %s", i, trace_message(t));
        assert_int_equal(e.line, i + 1);
        if (!same(&e, &want[i])) {
            describe_event(stderr, &want[i]);
            describe_event(stderr, &e);
            fail_msg("event %zu differs", i);
        }
    }
    if (trace_next(t, &e) != TRACE_END)
        fail_msg("at the end: %s", trace_message(t));
    assert_string_equal(trace_facts(t)->source, "made up");
    assert_int_equal(trace_facts(t)->recorded_format, TRACE_FORMAT_PERF);
    assert_int_equal(trace_facts(t)->lines, nr);
    trace_close(t);
}

/* --- random events --------------------------------------------------------------------------- */

/* Somewhat like an allocator: few pfns, so that blocks are often seen again; any order and type. */
static struct trace_event random_event(uint64_t *seed, uint64_t nr_pfns, uint64_t *time)
{
    static const uint8_t types[] = {
        TRACE_ALLOC, TRACE_ALLOC,        TRACE_ALLOC,       TRACE_FREE,       TRACE_FREE,
        TRACE_FREE,  TRACE_ALLOC_FAILED, TRACE_ZONE_LOCKED, TRACE_PCPU_DRAIN, TRACE_EXTFRAG};
    struct trace_event e;

    memset(&e, 0, sizeof(e));
    e.type = types[test_random_below(seed, sizeof(types))];
    e.cpu = (uint32_t)(test_random_below(seed, 50) == 0 ? test_random_below(seed, TRACE_MAX_CPUS)
                                                        : test_random_below(seed, 3));
    *time += test_random_below(seed, 4) == 0 ? test_random_below(seed, 1000000) : 0;
    if (test_random_below(seed, 100) == 0)
        *time -= test_random_below(seed, *time + 1);
    e.time_ns = *time;
    e.events = 1;
    if (e.type == TRACE_ZONE_LOCKED || e.type == TRACE_PCPU_DRAIN) {
        e.burst_start = true; /* so that no two are joined */
        e.events = (uint32_t)test_random_below(seed, 1000) + 1;
        e.frames = (uint32_t)test_random(seed);
        return e;
    }
    e.order =
        (uint8_t)(test_random_below(seed, 3) == 0 ? test_random_below(seed, TRACE_NR_ORDERS) : 0);
    e.migratetype = (uint8_t)test_random_below(seed, TRACE_MAX_MIGRATETYPE + 1);
    e.gfp = (uint32_t)test_random_below(seed, 4) * 0x40000001u;
    if (e.type == TRACE_FREE)
        e.gfp = e.migratetype = 0;
    if (e.type == TRACE_ALLOC_FAILED)
        return e;
    e.frames = 1u << e.order;
    e.pfn = test_random_below(seed, nr_pfns);
    if (test_random_below(seed, 20) == 0)
        e.pfn = TRACE_MAX_PFN - 1 - e.pfn;
    if (e.type == TRACE_EXTFRAG) {
        e.gfp = 0;
        e.fallback_order = (uint8_t)test_random_below(seed, TRACE_NR_ORDERS);
        e.fallback_migratetype = (uint8_t)test_random_below(seed, TRACE_MAX_MIGRATETYPE + 1);
    }
    return e;
}

static struct trace_event *random_events(uint64_t *seed, size_t nr, uint64_t nr_pfns)
{
    struct trace_event *events = calloc(nr > 0 ? nr : 1, sizeof(*events));
    uint64_t time = test_random_below(seed, UINT64_C(1000000000000));

    assert_non_null(events);
    for (size_t i = 0; i < nr; i++)
        events[i] = random_event(seed, nr_pfns, &time);
    return events;
}

static void test_random_events(void **state)
{
    static const size_t sizes[] = {0, 1, 2, 10, 1000, 20000};
    uint64_t seed = test_seed();

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (uint64_t pfns = 1; pfns <= 100000; pfns *= 100) {
            struct trace_event *events = random_events(&seed, sizes[i], pfns);
            struct blob b = pack(events, sizes[i], 0);

            check_same(&b, events, sizes[i]);
            free(events);
            free(b.at);
        }
}

/* More events than a chunk holds; a burst goes on across the border of two chunks. */
static void test_chunks(void **state)
{
    size_t nr = PACKED_MAX_EVENTS + 100;
    struct trace_event *events = calloc(nr, sizeof(*events));
    struct blob b;

    (void)state;
    assert_non_null(events);
    for (size_t i = 0; i < nr; i++) {
        struct trace_event *e = &events[i];

        e->type = i % 2 == 0 ? TRACE_ALLOC : TRACE_FREE;
        e->pfn = i / 2 % 1000;
        e->cpu = (uint32_t)(i / 2 % 2);
        e->time_ns = i * 1000 + (i > nr - 10);
        e->events = e->frames = 1;
    }
    /* CPU 5 drains in the last place of the first chunk and in two of the second. */
    for (size_t i = PACKED_MAX_EVENTS - 1; i <= PACKED_MAX_EVENTS + 2; i++) {
        struct trace_event *e = &events[i];
        uint64_t time = e->time_ns;

        if (i == PACKED_MAX_EVENTS)
            continue;
        memset(e, 0, sizeof(*e));
        e->time_ns = time;
        e->type = TRACE_PCPU_DRAIN;
        e->cpu = 5;
        e->events = 1;
        e->frames = 1;
        e->burst_start = i == PACKED_MAX_EVENTS - 1;
    }
    b = pack(events, nr, 0);
    /* What must come out: the two in the second chunk joined, and not the beginning of a burst. */
    events[PACKED_MAX_EVENTS + 1].events = 2;
    events[PACKED_MAX_EVENTS + 1].frames = 2;
    memmove(&events[PACKED_MAX_EVENTS + 2], &events[PACKED_MAX_EVENTS + 3],
            (nr - PACKED_MAX_EVENTS - 3) * sizeof(*events));
    {
        char message[TRACE_MESSAGE];
        struct trace *t = trace_open_memory(b.at, b.size, "blob", NULL, message);
        struct trace_event e;

        assert_non_null(t);
        for (size_t i = 0; i < nr - 1; i++) {
            if (trace_next(t, &e) != TRACE_EVENT)
                fail_msg("event %zu: %s", i, trace_message(t));
            if (!same(&e, &events[i])) {
                describe_event(stderr, &events[i]);
                describe_event(stderr, &e);
                fail_msg("event %zu differs", i);
            }
        }
        assert_int_equal(trace_next(t, &e), TRACE_END);
        assert_int_equal(trace_facts(t)->events[TRACE_PCPU_DRAIN], 3);
        trace_close(t);
    }
    free(events);
    free(b.at);
}

static void test_bursts_are_joined(void **state)
{
    struct trace_event in[6], out[3];
    struct blob b;

    (void)state;
    memset(in, 0, sizeof(in));
    memset(out, 0, sizeof(out));
    for (unsigned int i = 0; i < 6; i++) {
        in[i].type = TRACE_ZONE_LOCKED;
        in[i].cpu = i % 2; /* two CPUs take turns */
        in[i].order = (uint8_t)i;
        in[i].pfn = 64 * i;
        in[i].events = 1;
        in[i].frames = 1u << i;
        in[i].time_ns = 1000 * i;
        in[i].burst_start = i < 2 || i == 4;
    }
    b = pack(in, 6, 0);
    for (unsigned int i = 0; i < 3; i++) {
        out[i].type = TRACE_ZONE_LOCKED;
        out[i].burst_start = true;
        out[i].cpu = i % 2;
    }
    out[0].events = 2;
    out[0].frames = 1 + 4;
    out[1].time_ns = 1000;
    out[1].events = 3;
    out[1].frames = 2 + 8 + 32;
    out[2].time_ns = 4000;
    out[2].events = 1;
    out[2].frames = 16;
    {
        char message[TRACE_MESSAGE];
        struct trace *t = trace_open_memory(b.at, b.size, "blob", NULL, message);
        struct trace_event e;

        assert_non_null(t);
        for (unsigned int i = 0; i < 3; i++) {
            assert_int_equal(trace_next(t, &e), TRACE_EVENT);
            assert_true(same(&e, &out[i]));
        }
        assert_int_equal(trace_next(t, &e), TRACE_END);
        trace_close(t);
    }
    free(b.at);
}

static void test_tick(void **state)
{
    uint64_t seed = test_seed();
    struct trace_event *events = random_events(&seed, 3000, 100);
    struct blob b = pack(events, 3000, 12345);

    (void)state;
    for (size_t i = 0; i < 3000; i++)
        events[i].time_ns -= events[i].time_ns % 12345;
    check_same(&b, events, 3000);
    free(events);
    free(b.at);
}

/* --- the recordings -------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint64_t allocs, frees, peak, adopted, split, pieces, zone, zone_bursts, drain, drain_bursts;
    bool recorded;
} recordings[] = {
    {"c-build", 123811, 140853, 11331, 17507, 0, 0, 0, 0, 0, 0, false},
    {"sqlite", 154751, 154453, 151976, 223, 0, 0, 135152, 90, 75336, 42, true},
    {"network-order3", 125694, 126208, 3530, 757, 0, 0, 12589, 1728, 12618, 39, true},
    {"thp", 163074, 308972, 82859, 300, 300, 153600, 61906, 604, 37703, 184, true},
};

#define NR_RECORDINGS (sizeof(recordings) / sizeof(recordings[0]))

static struct trace *open_recording(size_t i, char *path)
{
    char message[TRACE_MESSAGE];
    struct trace *t;

    snprintf(path, 512, "%s/traces/%s.deckle", DECKLE_SOURCE_DIR, recordings[i].name);
    t = trace_open(path, NULL, message);
    if (t == NULL)
        fail_msg("%s", message);
    return t;
}

static void test_recordings(void **state)
{
    char path[512], message[TRACE_MESSAGE * 2];
    struct stat st;

    (void)state;
    for (size_t i = 0; i < NR_RECORDINGS; i++) {
        struct trace *t = open_recording(i, path);
        struct trace_list list = {0};
        struct trace_model *m = trace_model_new();
        const struct trace_totals *totals = trace_model_totals(m);

        assert_int_equal(stat(path, &st), 0);
        assert_true(st.st_size <= 200 * 1024);
        assert_int_equal(trace_read_all(t, &list, m, NULL, NULL, message), TRACE_END);
        assert_string_equal(trace_facts(t)->source, recordings[i].name);
        assert_int_equal(trace_facts(t)->recorded_format, TRACE_FORMAT_FTRACE);
        assert_int_equal(trace_facts(t)->lost_marks, 0);
        assert_int_equal(list.nr, recordings[i].allocs + recordings[i].frees);
        assert_int_equal(list.nr_cpus, 2);
        assert_int_equal(list.cpus[0].nr + list.cpus[1].nr, list.nr);
        assert_int_equal(totals->allocs, recordings[i].allocs);
        assert_int_equal(totals->frees, recordings[i].frees);
        assert_int_equal(totals->failed, 0);
        assert_int_equal(totals->peak_frames, recordings[i].peak);
        assert_int_equal(totals->adopted_frees, recordings[i].adopted);
        assert_int_equal(totals->split_blocks, recordings[i].split);
        assert_int_equal(totals->piece_frees, recordings[i].pieces);
        assert_int_equal(totals->double_allocs, 0);
        assert_int_equal(totals->several_frees, 0);
        assert_int_equal(totals->misaligned, 0);
        assert_int_equal(totals->refill.recorded, recordings[i].recorded);
        assert_int_equal(totals->refill.events, recordings[i].zone);
        assert_int_equal(totals->refill.bursts, recordings[i].zone_bursts);
        assert_int_equal(totals->drain.recorded, recordings[i].recorded);
        assert_int_equal(totals->drain.events, recordings[i].drain);
        assert_int_equal(totals->drain.bursts, recordings[i].drain_bursts);
        trace_model_free(m);
        trace_list_free(&list);
        trace_close(t);
    }
}

/* Each recording, packed again in smaller steps of time or none, gives the same events. */
static void test_repack(void **state)
{
    char path[512], message[TRACE_MESSAGE];
    uint64_t want, got, nr, nr_again;

    (void)state;
    for (size_t i = 0; i < NR_RECORDINGS; i++) {
        struct trace *t = open_recording(i, path);
        struct blob b = {NULL, 0};
        FILE *to = open_memstream(&b.at, &b.size);
        struct packed_writer *w = packed_writer_new(to, "again", 1);
        struct trace_event e;

        assert_non_null(w);
        while (trace_next(t, &e) == TRACE_EVENT)
            assert_true(packed_write(w, &e));
        assert_true(packed_finish(w, trace_facts(t)));
        fclose(to);
        packed_writer_free(w);
        trace_close(t);

        t = open_recording(i, path);
        want = hash_trace(t, &nr);
        trace_close(t);
        t = trace_open_memory(b.at, b.size, "again", NULL, message);
        assert_non_null(t);
        got = hash_trace(t, &nr_again);
        trace_close(t);
        assert_true(got == want && nr == nr_again && got != 0);
        free(b.at);
    }
}

/* --- damage ---------------------------------------------------------------------------------- */

static void test_cut(void **state)
{
    uint64_t seed = test_seed(), events;
    struct trace_event *made = random_events(&seed, 300, 50);
    struct blob whole = pack(made, 300, 0);
    char message[TRACE_MESSAGE];

    (void)state;
    for (size_t size = 0; size < whole.size; size++) {
        struct blob cut = {malloc(size > 0 ? size : 1), size};

        assert_non_null(cut.at);
        memcpy(cut.at, whole.at, size);
        if (read_blob(&cut, NULL, &events, message) != TRACE_ERROR)
            fail_msg("cut at %zu of %zu is not noticed", size, whole.size);
        free(cut.at);
    }
    free(whole.at);
    free(made);
}

static void test_damage(void **state)
{
    uint64_t seed = test_seed(), events;
    struct trace_event *made = random_events(&seed, 300, 50);
    struct blob whole = pack(made, 300, 0);
    char message[TRACE_MESSAGE];

    (void)state;
    for (size_t i = 0; i < whole.size; i++)
        for (unsigned int n = 0; n < 3; n++) {
            char kept = whole.at[i];

            whole.at[i] ^= (char)(1 + test_random_below(&seed, 255));
            if (read_blob(&whole, NULL, &events, message) != TRACE_ERROR)
                fail_msg("damage at %zu of %zu is not noticed", i, whole.size);
            whole.at[i] = kept;
        }
    assert_int_equal(read_blob(&whole, NULL, &events, message), TRACE_END);
    free(whole.at);
    free(made);
}

static void test_messages(void **state)
{
    struct trace_event none = {0};
    struct blob b = pack(&none, 0, 0), longer;
    char message[TRACE_MESSAGE];
    uint64_t events;

    (void)state;
    b.at[PACKED_MAGIC_SIZE] = 7;
    assert_int_equal(read_blob(&b, NULL, &events, message), TRACE_ERROR);
    assert_string_equal(message,
                        "blob: is a packed trace of version 7; this deckle reads version 1");
    b.at[PACKED_MAGIC_SIZE] = 1;
    assert_int_equal(read_blob(&b, NULL, &events, message), TRACE_END);
    longer.size = b.size + 1;
    longer.at = malloc(longer.size);
    assert_non_null(longer.at);
    memcpy(longer.at, b.at, b.size);
    longer.at[b.size] = '\n';
    assert_int_equal(read_blob(&longer, NULL, &events, message), TRACE_ERROR);
    assert_non_null(strstr(message, "something follows its END chunk"));
    b.size -= 1;
    assert_int_equal(read_blob(&b, NULL, &events, message), TRACE_ERROR);
    assert_string_equal(message, "blob: ends too early: the packed file is cut");
    free(longer.at);
    free(b.at);
}

static void test_memory_limit(void **state)
{
    uint64_t seed = test_seed(), events;
    struct trace_event *made = random_events(&seed, 20000, 1000000);
    struct blob b = pack(made, 20000, 0);
    struct trace_options options = {.max_memory = 100000};
    char message[TRACE_MESSAGE];

    (void)state;
    assert_int_equal(read_blob(&b, &options, &events, message), TRACE_ERROR);
    assert_non_null(strstr(message, "needs more memory than allowed"));
    options.max_memory = UINT64_C(64) << 20;
    assert_int_equal(read_blob(&b, &options, &events, message), TRACE_END);
    free(b.at);
    free(made);
}

/* --- hand-made chunks: right in every check sum, wrong inside -------------------------------- */

static void add_chunk(struct bytes *file, char tag, const void *content, size_t size)
{
    size_t room = lzma_stream_buffer_bound(size), packed = 0;
    unsigned char *out = malloc(room);

    assert_non_null(out);
    assert_int_equal(
        lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, NULL, content, size, out, &packed, room),
        LZMA_OK);
    bytes_add_byte(file, (unsigned char)tag);
    bytes_add_varint(file, size);
    bytes_add_varint(file, packed);
    bytes_add(file, out, packed);
    free(out);
}

/* What the END chunk of such a file says. */
static uint64_t crc_error;
static unsigned int said_allocs = 1;

/* A file of one EVENTS chunk; returns what reading it says. */
static const char *read_chunk(const struct bytes *chunk, char *message)
{
    struct bytes file = {0};
    struct blob b;
    uint64_t events;
    char end[64];

    bytes_add(&file, packed_magic, PACKED_MAGIC_SIZE);
    bytes_add_byte(&file, PACKED_VERSION);
    add_chunk(&file, 'I', "source x\n", 9);
    add_chunk(&file, 'E', chunk->at, chunk->size);
    snprintf(end, sizeof(end), "crc64 %016llx\nallocs %u\n",
             (unsigned long long)(lzma_crc64(file.at, file.size, 0) ^ crc_error), said_allocs);
    add_chunk(&file, 'Z', end, strlen(end));
    b.at = (char *)file.at;
    b.size = file.size;
    if (read_blob(&b, NULL, &events, message) == TRACE_END)
        strcpy(message, "good");
    bytes_free(&file);
    return message;
}

/* One alloc; each part can be replaced. */
struct parts {
    uint64_t tick, events, kinds, type, flags, cpu, gfp, order, migratetype, fallback, kind, time;
    uint64_t guessed, pfn, extra;
};

static const char *read_parts(const struct parts *p, char *message)
{
    struct bytes c = {0}, columns[NR_COLUMNS];

    memset(columns, 0, sizeof(columns));
    bytes_add_varint(&columns[COLUMN_KIND], p->kind);
    bytes_add_varint(&columns[COLUMN_TIME], p->time);
    bytes_add_byte(&columns[COLUMN_GUESSED], (unsigned int)p->guessed);
    bytes_add_varint(&columns[COLUMN_ALLOC_PFN], p->pfn);
    if (p->extra)
        bytes_add_byte(&columns[COLUMN_OTHER], 0);
    bytes_add_varint(&c, p->tick);
    bytes_add_varint(&c, p->events);
    bytes_add_varint(&c, p->kinds);
    bytes_add_byte(&c, (unsigned int)p->type);
    bytes_add_byte(&c, (unsigned int)p->flags);
    bytes_add_varint(&c, p->cpu);
    bytes_add_varint(&c, p->gfp);
    bytes_add_byte(&c, (unsigned int)p->order);
    bytes_add_byte(&c, (unsigned int)p->migratetype);
    bytes_add_byte(&c, (unsigned int)p->fallback);
    bytes_add_byte(&c, (unsigned int)p->fallback);
    for (unsigned int i = 0; i < NR_COLUMNS; i++)
        bytes_add_varint(&c, columns[i].size);
    for (unsigned int i = 0; i < NR_COLUMNS; i++) {
        bytes_add(&c, columns[i].at, columns[i].size);
        bytes_free(&columns[i]);
    }
    read_chunk(&c, message);
    bytes_free(&c);
    return message;
}

static void test_ranges(void **state)
{
    static const struct parts good = {.tick = 1, .events = 1, .kinds = 1, .pfn = 2};
    char message[TRACE_MESSAGE];

#define BAD(field, value, want)                                                                    \
    do {                                                                                           \
        struct parts p = good;                                                                     \
        p.field = value;                                                                           \
        read_parts(&p, message);                                                                   \
        if (strstr(message, want) == NULL)                                                         \
            fail_msg("%s = %s: \"%s\" lacks \"%s\"", #field, #value, message, want);               \
    } while (0)

    (void)state;
    assert_string_equal(read_parts(&good, message), "good");
    BAD(tick, 0, "head");
    BAD(tick, PACKED_MAX_TICK + 1, "head");
    BAD(events, 0, "head");
    BAD(events, PACKED_MAX_EVENTS + 1, "head");
    BAD(events, 2, "event 2 is out of range");
    BAD(kinds, PACKED_MAX_KINDS + 1, "head");
    BAD(kinds, 0, "");
    BAD(kinds, 2, "");
    BAD(type, TRACE_FREE_BATCHED, "table");
    BAD(type, TRACE_NR_TYPES, "table");
    BAD(type, TRACE_FREE, "event 1 is out of range");
    BAD(type, TRACE_PCPU_DRAIN, "event 1 is out of range");
    BAD(flags, 2, "table");
    BAD(cpu, TRACE_MAX_CPUS, "table");
    BAD(cpu, UINT64_MAX, "table");
    BAD(gfp, UINT64_C(1) << 32, "table");
    BAD(order, TRACE_MAX_ORDER + 1, "table");
    BAD(migratetype, TRACE_MAX_MIGRATETYPE + 1, "table");
    BAD(fallback, TRACE_MAX_ORDER + 1, "table");
    BAD(kind, 1, "event 1 is out of range");
    BAD(kind, UINT64_MAX, "event 1 is out of range");
    BAD(guessed, 1, "event 1 is out of range");
    BAD(guessed, 2, "event 1 is out of range");
    BAD(pfn, 1, "event 1 is out of range");
    BAD(pfn, TRACE_MAX_PFN * 2, "event 1 is out of range");
    BAD(extra, 1, "holds more than its events");
    BAD(type, TRACE_ALLOC_FAILED, "holds more than its events");
#undef BAD
}

/* One alloc, then frees and allocs, each given by its one symbol; all on CPU 0 with order 0. */
static const char *read_symbols(const char *kinds, const uint8_t *symbols, char *message)
{
    struct bytes c = {0}, columns[NR_COLUMNS];
    size_t nr = strlen(kinds);

    memset(columns, 0, sizeof(columns));
    for (size_t i = 0; i < nr; i++) {
        bytes_add_byte(&columns[COLUMN_KIND], kinds[i] == 'f');
        bytes_add_byte(&columns[COLUMN_TIME], 0);
        bytes_add_byte(&columns[kinds[i] == 'f' ? COLUMN_FREED : COLUMN_GUESSED], symbols[i]);
    }
    bytes_add_byte(&columns[COLUMN_ALLOC_PFN], 8); /* of the first, guessed = 0 */
    bytes_add_varint(&c, 1);
    bytes_add_varint(&c, nr);
    bytes_add_varint(&c, 2);
    bytes_add(&c, "\0\0\0\0\0\0\0\0", 8); /* kind 0: an alloc */
    bytes_add(&c, "\2\0\0\0\0\0\0\0", 8); /* kind 1: a free */
    for (unsigned int i = 0; i < NR_COLUMNS; i++)
        bytes_add_varint(&c, columns[i].size);
    for (unsigned int i = 0; i < NR_COLUMNS; i++) {
        bytes_add(&c, columns[i].at, columns[i].size);
        bytes_free(&columns[i]);
    }
    read_chunk(&c, message);
    bytes_free(&c);
    return message;
}

/* A free may name an allocation only while its block is live; a guess is 0 or 1. */
static void test_names(void **state)
{
    static const uint8_t once[] = {0, 1}, twice[] = {0, 1, 2}, next[] = {0, 3}, again[] = {0, 1, 1},
                         two[] = {0, 1, 2};
    char message[TRACE_MESSAGE];

    (void)state;
    /* Good but for what END counts: one alloc and no frees. */
    assert_non_null(strstr(read_symbols("af", once, message), "counts other events"));
    assert_non_null(strstr(read_symbols("afa", again, message), "counts other events"));
    assert_non_null(strstr(read_symbols("aff", twice, message), "event 3 is out of range"));
    assert_non_null(strstr(read_symbols("af", next, message), "event 2 is out of range"));
    assert_non_null(strstr(read_symbols("afa", two, message), "event 3 is out of range"));
}

/* Blocks allocated longer ago than the window are freed by their pfn. */
static void test_window(void **state)
{
    size_t allocs = PACKED_WINDOW + 5, nr = allocs + 10;
    struct trace_event *events = calloc(nr, sizeof(*events));
    struct blob b;

    (void)state;
    assert_non_null(events);
    for (size_t i = 0; i < nr; i++) {
        events[i].type = i < allocs ? TRACE_ALLOC : TRACE_FREE;
        events[i].pfn = i % allocs;
        events[i].events = events[i].frames = 1;
    }
    b = pack(events, nr, 0);
    check_same(&b, events, nr);
    free(events);
    free(b.at);
}

static void test_end(void **state)
{
    static const struct parts good = {.tick = 1, .events = 1, .kinds = 1, .pfn = 2};
    char message[TRACE_MESSAGE];

    (void)state;
    crc_error = 1;
    assert_non_null(strstr(read_parts(&good, message), "check sum"));
    crc_error = 0;
    said_allocs = 2;
    assert_non_null(strstr(read_parts(&good, message), "counts other events"));
    said_allocs = 1;
    assert_string_equal(read_parts(&good, message), "good");
}

static void test_varints(void **state)
{
    struct bytes b = {0};
    struct bytes_view v;
    uint64_t u;
    int64_t s;
    static const unsigned char too_long[] = {0x80, 0x80, 0x80, 0x80, 0x80,
                                             0x80, 0x80, 0x80, 0x80, 0x02};

    (void)state;
    for (unsigned int shift = 0; shift < 64; shift++)
        for (int d = -1; d <= 1; d++) {
            uint64_t value = (UINT64_C(1) << shift) + (uint64_t)(int64_t)d;

            bytes_clear(&b);
            bytes_add_varint(&b, value);
            bytes_add_zigzag(&b, (int64_t)value);
            bytes_add_zigzag(&b, (int64_t)(0 - value));
            v = (struct bytes_view){b.at, b.at + b.size};
            assert_true(bytes_get_varint(&v, &u) && u == value);
            assert_true(bytes_get_zigzag(&v, &s) && s == (int64_t)value);
            assert_true(bytes_get_zigzag(&v, &s) && s == (int64_t)(0 - value));
            assert_true(v.at == v.end);
            assert_false(bytes_get_varint(&v, &u));
        }
    v = (struct bytes_view){too_long, too_long + sizeof(too_long)};
    assert_false(bytes_get_varint(&v, &u));
    assert_true(v.at == too_long);
    v.end--;
    assert_false(bytes_get_varint(&v, &u));
    bytes_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_varints),      cmocka_unit_test(test_random_events),
        cmocka_unit_test(test_chunks),       cmocka_unit_test(test_bursts_are_joined),
        cmocka_unit_test(test_tick),         cmocka_unit_test(test_recordings),
        cmocka_unit_test(test_repack),       cmocka_unit_test(test_cut),
        cmocka_unit_test(test_damage),       cmocka_unit_test(test_messages),
        cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_end),          cmocka_unit_test(test_names),
        cmocka_unit_test(test_window),
    };

    return cmocka_run_group_tests_name("trace_packed", tests, NULL, NULL);
}
