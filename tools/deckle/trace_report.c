/* SPDX-License-Identifier: MIT */
/* Facts and events of a trace for people; see trace_report.h. */
#include "trace_report.h"

#include <inttypes.h>
#include <string.h>

#include "json_out.h"
#include "trace_gfp.h"
#include "ui.h"

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

void trace_warn(const struct trace_facts *f)
{
    char a[UI_NUMBER], b[UI_NUMBER];

    if (f->lost_marks > 0)
        ui_warn("%s: the recorder lost %s events in %s place%s; blocks may seem allocated twice or "
                "never freed",
                f->source,
                f->lost_events > 0 ? ui_count(a, f->lost_events) : "an unknown number of",
                ui_count(b, f->lost_marks), plural(f->lost_marks));
    if (f->overwritten > 0)
        ui_warn("%s: the ring buffer dropped %s event%s before the first one shown", f->source,
                ui_count(a, f->overwritten), plural(f->overwritten));
    if (f->truncated)
        ui_warn("%s: the last line is cut and was left out", f->source);
    if (f->bad_lines > 0)
        ui_warn("%s: %s line%s left out that could not be understood", f->source,
                ui_count(a, f->bad_lines), plural(f->bad_lines));
    if (f->unknown_gfp > 0)
        ui_warn("%s: %s unknown name%s left out of gfp_flags, for example \"%s\"", f->source,
                ui_count(a, f->unknown_gfp), plural(f->unknown_gfp),
                f->unknown_gfp_names[0][0] != '\0' ? f->unknown_gfp_names[0] : "?");
    if (f->time_backwards > 0)
        ui_warn("%s: time goes backwards %s time%s, by up to %s; the order of the file counts",
                f->source, ui_count(a, f->time_backwards), plural(f->time_backwards),
                ui_duration(b, f->backwards_ns));
    if (f->ticks)
        ui_warn("%s: its clock counts ticks of unknown length; they are taken for nanoseconds",
                f->source);
}

/* --- the table ------------------------------------------------------------------------------- */

static void row_count(struct ui_table *t, const char *name, uint64_t value)
{
    char number[UI_NUMBER];

    ui_table_row(t, name, ui_count(number, value), "");
}

static void row_shared(struct ui_table *t, const char *name, const struct trace_shared *s)
{
    char number[UI_NUMBER], frames[UI_NUMBER], text[UI_NUMBER * 2];

    if (!s->recorded) {
        ui_table_row(t, name, "-", "not recorded");
        return;
    }
    snprintf(text, sizeof(text), "frames in %s bursts", ui_count(number, s->bursts));
    ui_table_row(t, name, ui_count(frames, s->frames), text);
}

void trace_print_facts(FILE *to, const struct trace_facts *f, const struct trace_totals *m)
{
    struct ui_table *t = ui_table_new("lrl");
    char a[UI_NUMBER], b[UI_NUMBER], text[UI_NUMBER * 4];

    snprintf(text, sizeof(text), "%s%s%s",
             trace_format_name(f->format == TRACE_FORMAT_PACKED ? f->recorded_format : f->format),
             f->format == TRACE_FORMAT_PACKED ? ", packed" : "",
             f->compression == TRACE_PLAIN ? ""
             : f->compression == TRACE_XZ  ? ", xz"
                                           : ", gz");
    fprintf(to, "%s: %s, %s CPUs, %s\n", f->source, text, ui_count(a, f->nr_cpus),
            ui_duration(b, f->last_ns - f->first_ns));
    row_count(t, "allocations", m->allocs);
    row_count(t, "  failed", m->failed);
    row_count(t, "frees", m->frees);
    ui_table_row(t, "  adopted", ui_count(a, m->adopted_frees),
                 "of frames from before the recording");
    snprintf(text, sizeof(text), "of %s blocks that were split", ui_count(b, m->split_blocks));
    ui_table_row(t, "  in pieces", ui_count(a, m->piece_frees), text);
    ui_table_row(t, "  remote", ui_count(a, m->remote_frees), "on another CPU than allocated");
    ui_table_row(t, "peak", ui_count(a, m->peak_frames), "frames live");
    ui_table_row(t, "live at the end", ui_count(a, m->live_frames), "frames");
    ui_table_row(t, "allocated twice", ui_count(a, m->double_allocs),
                 m->double_allocs > 0 ? "frees are missing" : "");
    row_shared(t, "refills", &m->refill);
    row_shared(t, "drains", &m->drain);
    row_count(t, "fallbacks", m->fallbacks);
    row_count(t, "other lines", f->other_lines);
    ui_table_print(t, to, 2, false);
    ui_table_free(t);
}

/* --- JSON ------------------------------------------------------------------------------------ */

static void json_orders(cJSON *object, const char *key, const uint64_t orders[TRACE_NR_ORDERS])
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    unsigned int nr = TRACE_NR_ORDERS;

    while (nr > 1 && orders[nr - 1] == 0)
        nr--;
    for (unsigned int o = 0; o < nr; o++) {
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, orders[o]);
        cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
    }
}

static void json_shared(cJSON *object, const char *key, const struct trace_shared *s)
{
    cJSON *part;

    if (!s->recorded) {
        cJSON_AddNullToObject(object, key);
        return;
    }
    part = json_add_object(object, key);
    json_add_u64(part, "events", s->events);
    json_add_u64(part, "frames", s->frames);
    json_add_u64(part, "bursts", s->bursts);
}

static void json_trace(cJSON *t, const struct trace_facts *f)
{
    bool packed = f->format == TRACE_FORMAT_PACKED;

    cJSON_AddStringToObject(t, "source", f->source);
    cJSON_AddStringToObject(t, "format", trace_format_name(f->format));
    cJSON_AddStringToObject(t, "recorded_format",
                            trace_format_name(packed ? f->recorded_format : f->format));
    cJSON_AddStringToObject(t, "compression", trace_compression_name(f->compression));
    json_add_u64(t, "file_bytes", f->file_bytes);
    json_add_u64(t, "lines", f->lines);
    json_add_u64(t, "other_lines", f->other_lines);
    json_add_u64(t, "bad_lines", f->bad_lines);
    cJSON_AddBoolToObject(t, "truncated", f->truncated);
    json_add_u64(t, "lost_events", f->lost_events);
    json_add_u64(t, "lost_marks", f->lost_marks);
    json_add_u64(t, "overwritten", f->overwritten);
    json_add_u64(t, "unknown_gfp", f->unknown_gfp);
    json_add_u64(t, "time_backwards", f->time_backwards);
    json_add_u64(t, "duration_ns", f->last_ns - f->first_ns);
    json_add_u64(t, "tick_ns", f->tick_ns);
    cJSON_AddBoolToObject(t, "clock_is_ns", !f->ticks);
    json_add_u64(t, "cpus", f->nr_cpus);
    json_add_u64(t, "batched_frees", f->events[TRACE_FREE_BATCHED]);
}

void trace_json_facts(cJSON *object, const struct trace_facts *f, const struct trace_totals *m)
{
    cJSON *part;

    json_trace(json_add_object(object, "trace"), f);
    part = json_add_object(object, "model");
    json_add_u64(part, "allocs", m->allocs);
    json_add_u64(part, "failed_allocs", m->failed);
    json_add_u64(part, "frees", m->frees);
    json_add_u64(part, "alloc_frames", m->alloc_frames);
    json_add_u64(part, "free_frames", m->free_frames);
    json_orders(part, "allocs_by_order", m->allocs_by_order);
    json_orders(part, "frees_by_order", m->frees_by_order);
    json_add_u64(part, "peak_frames", m->peak_frames);
    json_add_u64(part, "peak_line", m->peak_line);
    json_orders(part, "peak_blocks_by_order", m->peak_by_order);
    json_add_u64(part, "live_frames", m->live_frames);
    json_add_u64(part, "adopted_frees", m->adopted_frees);
    json_add_u64(part, "adopted_frames", m->adopted_frames);
    json_add_u64(part, "split_blocks", m->split_blocks);
    json_add_u64(part, "piece_frees", m->piece_frees);
    json_add_u64(part, "several_frees", m->several_frees);
    json_add_u64(part, "double_allocs", m->double_allocs);
    json_add_u64(part, "lost_frames", m->lost_frames);
    json_add_u64(part, "misaligned", m->misaligned);
    json_add_u64(part, "remote_frees", m->remote_frees);
    json_shared(part, "refill", &m->refill);
    json_shared(part, "drain", &m->drain);
    json_add_u64(part, "fallbacks", m->fallbacks);
    json_add_u64(part, "fallbacks_whole", m->fallbacks_whole);
}

/* --- events as text -------------------------------------------------------------------------- */

void trace_print_heading(FILE *to, const struct trace_facts *f)
{
    fprintf(to, "# tracer: nop\n#\n# deckle: source %s\n#\n", f->source);
    fprintf(to, "#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION\n"
                "#              | |         |   |||||     |         |\n");
}

/* Page pointers are synthetic: never null, whatever the pfn. */
static void print_page(FILE *to, const struct trace_event *e)
{
    fprintf(to, " page=%016" PRIx64 " pfn=0x%" PRIx64,
            UINT64_C(0xffffea0000000000) | e->pfn * UINT64_C(64), e->pfn);
}

static void print_prefix(FILE *to, const struct trace_event *e, bool ticks)
{
    uint64_t seconds = e->time_ns / UINT64_C(1000000000);
    uint64_t ns = e->time_ns % UINT64_C(1000000000);

    fprintf(to, "           <...>-0       [%03" PRIu32 "] ..... ", e->cpu);
    if (ticks)
        fprintf(to, "%" PRIu64 ":", e->time_ns);
    else if (ns % 1000 == 0)
        fprintf(to, "%5" PRIu64 ".%06" PRIu64 ":", seconds, ns / 1000);
    else
        fprintf(to, "%5" PRIu64 ".%09" PRIu64 ":", seconds, ns);
}

void trace_print_event(FILE *to, const struct trace_event *e, bool ticks)
{
    bool burst = e->type == TRACE_ZONE_LOCKED || e->type == TRACE_PCPU_DRAIN;
    char gfp[TRACE_GFP_TEXT];

    print_prefix(to, e, ticks);
    fprintf(to, " %s:", burst ? "deckle_burst" : trace_type_name(e->type));
    switch (e->type) {
    case TRACE_ALLOC:
    case TRACE_ALLOC_FAILED:
        if (e->type == TRACE_ALLOC)
            print_page(to, e);
        else
            fprintf(to, " page=%016x pfn=0x0", 0u);
        trace_gfp_format(e->gfp, gfp);
        fprintf(to, " order=%u migratetype=%u gfp_flags=%s\n", e->order, e->migratetype, gfp);
        break;
    case TRACE_EXTFRAG:
        print_page(to, e);
        fprintf(to,
                " alloc_order=%u fallback_order=%u alloc_migratetype=%u fallback_migratetype=%u\n",
                e->order, e->fallback_order, e->migratetype, e->fallback_migratetype);
        break;
    case TRACE_ZONE_LOCKED:
    case TRACE_PCPU_DRAIN:
        fprintf(to, " kind=%s events=%" PRIu32 " frames=%" PRIu32 " start=%d\n",
                e->type == TRACE_ZONE_LOCKED ? "zone_locked" : "pcpu_drain", e->events, e->frames,
                e->burst_start);
        break;
    default: /* free and its announcement */
        print_page(to, e);
        fprintf(to, " order=%u\n", e->order);
        break;
    }
}
