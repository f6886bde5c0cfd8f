/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a trace. Events that are read must be in range, keep the model's books balanced, and
 * come back the same from the packed form and from the text that unpack prints.
 *
 * ctest: timeout=120
 */
#define _POSIX_C_SOURCE 200809L

#include <string.h>

#include "fuzz.h"
#include "packed.h"
#include "trace.h"
#include "trace_model.h"
#include "trace_report.h"

const char *const fuzz_corpus[] = {DECKLE_SOURCE_DIR "/tests/data/traces",
                                   DECKLE_SOURCE_DIR "/tests/data/packed", NULL};
const uint64_t fuzz_inputs = 8000;

#define MAX_EVENTS 4096u

static struct trace_event events[MAX_EVENTS];
static size_t nr_events;

static void check_event(const struct trace_event *e)
{
    FUZZ_CHECK(e->type < TRACE_NR_TYPES);
    FUZZ_CHECK(e->cpu < TRACE_MAX_CPUS);
    FUZZ_CHECK(e->order <= TRACE_MAX_ORDER && e->fallback_order <= TRACE_MAX_ORDER);
    FUZZ_CHECK(e->migratetype <= TRACE_MAX_MIGRATETYPE);
    FUZZ_CHECK(e->pfn < TRACE_MAX_PFN);
    FUZZ_CHECK(e->line > 0);
    if (trace_changes_state(e->type))
        FUZZ_CHECK(e->frames == 1u << e->order && e->events == 1);
}

static void check_model(const struct trace_totals *t)
{
    uint64_t frames = 0, blocks = 0;

    for (unsigned int o = 0; o < TRACE_NR_ORDERS; o++) {
        blocks += t->live_by_order[o];
        frames += t->live_by_order[o] << o;
    }
    FUZZ_CHECK(frames == t->live_frames && blocks == t->live_blocks);
    FUZZ_CHECK(t->live_frames ==
               t->alloc_frames - t->lost_frames - (t->free_frames - t->adopted_frames));
    FUZZ_CHECK(t->peak_frames >= t->live_frames);
}

/* What the packed form keeps of an event. */
static struct trace_event kept(const struct trace_event *e)
{
    struct trace_event k = *e;

    k.line = 0;
    if (k.type == TRACE_ZONE_LOCKED || k.type == TRACE_PCPU_DRAIN) {
        k.pfn = 0;
        k.order = k.migratetype = 0;
    }
    return k;
}

static bool equal(const struct trace_event *a, const struct trace_event *b)
{
    return a->time_ns == b->time_ns && a->pfn == b->pfn && a->cpu == b->cpu && a->gfp == b->gfp &&
           a->events == b->events && a->frames == b->frames && a->type == b->type &&
           a->order == b->order && a->migratetype == b->migratetype &&
           a->fallback_order == b->fallback_order &&
           a->fallback_migratetype == b->fallback_migratetype && a->burst_start == b->burst_start;
}

/* Reads what was written and compares; bursts may have been joined, and are added up. */
static void compare(const char *bytes, size_t size)
{
    static struct trace_event sums[2][TRACE_NR_TYPES];
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open_memory(bytes, size, "again", NULL, message);
    struct trace_event e;
    enum trace_status status;
    size_t i = 0;

    FUZZ_CHECK(t != NULL);
    memset(sums, 0, sizeof(sums));
    while ((status = trace_next(t, &e)) == TRACE_EVENT) {
        struct trace_event want;

        if (e.type == TRACE_ZONE_LOCKED || e.type == TRACE_PCPU_DRAIN) {
            sums[0][e.type].time_ns += e.events;
            sums[0][e.type].pfn += e.frames;
            sums[0][e.type].line += e.burst_start;
            continue;
        }
        while (i < nr_events &&
               (events[i].type == TRACE_ZONE_LOCKED || events[i].type == TRACE_PCPU_DRAIN ||
                events[i].type == TRACE_FREE_BATCHED))
            i++;
        FUZZ_CHECK(i < nr_events);
        want = kept(&events[i++]);
        e = kept(&e);
        FUZZ_CHECK(equal(&e, &want));
    }
    if (status == TRACE_ERROR)
        fprintf(stderr, "%s\n", trace_message(t));
    FUZZ_CHECK(status == TRACE_END);
    for (i = 0; i < nr_events; i++) {
        sums[1][events[i].type].time_ns += events[i].events;
        sums[1][events[i].type].pfn += events[i].frames;
        sums[1][events[i].type].line += events[i].burst_start;
    }
    FUZZ_CHECK(
        memcmp(&sums[0][TRACE_ZONE_LOCKED], &sums[1][TRACE_ZONE_LOCKED], sizeof(sums[0][0])) == 0);
    FUZZ_CHECK(memcmp(&sums[0][TRACE_PCPU_DRAIN], &sums[1][TRACE_PCPU_DRAIN], sizeof(sums[0][0])) ==
               0);
    trace_close(t);
}

static void check_packed(const struct trace_facts *facts)
{
    char *bytes = NULL;
    size_t size;
    FILE *to = open_memstream(&bytes, &size);
    struct packed_writer *w = packed_writer_new(to, facts->source, 0);

    FUZZ_CHECK(to != NULL && w != NULL);
    for (size_t i = 0; i < nr_events; i++)
        FUZZ_CHECK(packed_write(w, &events[i]));
    FUZZ_CHECK(packed_finish(w, facts));
    fclose(to);
    packed_writer_free(w);
    compare(bytes, size);
    free(bytes);
}

static void check_text(const struct trace_facts *facts)
{
    char *bytes = NULL;
    size_t size;
    FILE *to = open_memstream(&bytes, &size);
    bool some = false;

    FUZZ_CHECK(to != NULL);
    trace_print_heading(to, facts);
    for (size_t i = 0; i < nr_events; i++)
        if (events[i].type != TRACE_FREE_BATCHED) {
            trace_print_event(to, &events[i], facts->ticks);
            some = true;
        }
    fclose(to);
    if (some)
        compare(bytes, size);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace_options options = {.max_text_bytes = 1 << 20, .max_memory = 16 << 20};
    struct trace_model *model = trace_model_new();
    struct trace *t;
    enum trace_status status;
    char message[TRACE_MESSAGE];

    FUZZ_CHECK(model != NULL);
    options.keep_going = size % 2 == 1;
    t = trace_open_memory(data, size, "input", &options, message);
    nr_events = 0;
    if (t == NULL) {
        trace_model_free(model);
        FUZZ_CHECK(strncmp(message, "input: ", 7) == 0 && strlen(message) > 7);
        return 0;
    }
    while (nr_events < MAX_EVENTS && (status = trace_next(t, &events[nr_events])) == TRACE_EVENT) {
        check_event(&events[nr_events]);
        FUZZ_CHECK(trace_model_event(model, &events[nr_events], NULL));
        nr_events++;
    }
    check_model(trace_model_totals(model));
    if (nr_events < MAX_EVENTS) {
        FUZZ_CHECK((status == TRACE_ERROR) == (trace_message(t)[0] != '\0'));
        /* The facts count what was read, so they hold only for a trace read to its end. */
        if (status == TRACE_END && nr_events > 0) {
            check_packed(trace_facts(t));
            if (!trace_facts(t)->ticks)
                check_text(trace_facts(t));
        }
    }
    trace_close(t);
    trace_model_free(model);
    return 0;
}
