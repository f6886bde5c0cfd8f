/* SPDX-License-Identifier: MIT */
/* See trace_describe.h. */
#include "trace_describe.h"

#include <inttypes.h>

void describe_event(FILE *to, const struct trace_event *e)
{
    fprintf(to, "%" PRIu64 ": %s%s cpu=%" PRIu32 " ns=%" PRIu64, e->line, trace_type_name(e->type),
            e->type == TRACE_ALLOC_FAILED ? "(failed)" : "", e->cpu, e->time_ns);
    if (e->pfn != 0)
        fprintf(to, " pfn=0x%" PRIx64, e->pfn);
    fprintf(to, " order=%u type=%u", e->order, e->migratetype);
    if (e->gfp != 0)
        fprintf(to, " gfp=0x%" PRIx32, e->gfp);
    if (e->type == TRACE_EXTFRAG)
        fprintf(to, " fallback order=%u type=%u", e->fallback_order, e->fallback_migratetype);
    fprintf(to, " events=%" PRIu32 " frames=%" PRIu32 "%s\n", e->events, e->frames,
            e->burst_start ? " burst" : "");
}

static void fact(FILE *to, const char *name, uint64_t value)
{
    if (value != 0)
        fprintf(to, "%s: %" PRIu64 "\n", name, value);
}

void describe_trace(FILE *to, struct trace *t)
{
    const struct trace_facts *f = trace_facts(t);
    enum trace_status status;
    struct trace_event event;

    while ((status = trace_next(t, &event)) == TRACE_EVENT)
        describe_event(to, &event);
    fprintf(to, "%s\n", status == TRACE_END ? "end" : trace_message(t));
    fprintf(to, "format: %s\n", trace_format_name(f->format));
    fact(to, "lines", f->lines);
    fact(to, "other lines", f->other_lines);
    fact(to, "comments", f->comments);
    fact(to, "bad lines", f->bad_lines);
    fact(to, "truncated", f->truncated);
    fact(to, "lost events", f->lost_events);
    fact(to, "lost marks", f->lost_marks);
    fact(to, "overwritten", f->overwritten);
    fact(to, "unknown gfp", f->unknown_gfp);
    for (unsigned int i = 0; i < TRACE_UNKNOWN_NAMES; i++)
        if (f->unknown_gfp_names[i][0] != '\0')
            fprintf(to, "unknown gfp name: %s\n", f->unknown_gfp_names[i]);
    fact(to, "time backwards", f->time_backwards);
    fact(to, "largest step", f->backwards_ns);
    fact(to, "ticks", f->ticks);
    fact(to, "online cpus", f->online_cpus);
    fact(to, "cpus", f->nr_cpus);
    fact(to, "first", f->first_ns);
    fact(to, "last", f->last_ns);
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    return hash * UINT64_C(0xff51afd7ed558ccd);
}

uint64_t hash_trace(struct trace *t, uint64_t *events)
{
    struct trace_event e;
    enum trace_status status;
    uint64_t hash = 1;

    *events = 0;
    while ((status = trace_next(t, &e)) == TRACE_EVENT) {
        if (e.type != TRACE_ALLOC && e.type != TRACE_ALLOC_FAILED && e.type != TRACE_FREE &&
            e.type != TRACE_EXTFRAG)
            continue;
        hash = mix(hash, e.type | (uint64_t)e.order << 8 | (uint64_t)e.migratetype << 16 |
                             (uint64_t)e.fallback_order << 24 |
                             (uint64_t)e.fallback_migratetype << 32);
        hash = mix(hash, e.pfn);
        hash = mix(hash, e.time_ns);
        hash = mix(hash, (uint64_t)e.cpu << 32 | e.gfp);
        ++*events;
    }
    if (status == TRACE_ERROR)
        fprintf(stderr, "%s\n", trace_message(t));
    return status == TRACE_ERROR ? 0 : hash;
}
