/* SPDX-License-Identifier: MIT */
/*
 * One line of a text trace, understood. The forms (docs/formats/text-traces.md has examples):
 *
 *   TASK-PID [(TGID)] [CPU] [FLAGS] SECONDS: [(+DIFF)] [kmem:]EVENT: field=value …
 *   TASK-PID CPUFLAGS TIMEus[mark]: EVENT: …     (latency format; SECONDS with trace-cmd report -l)
 *   TASK PID [CPU] SECONDS: kmem:EVENT: …         (perf script)
 *
 * A line is read from the event's name outwards, because a task's name may hold anything, also
 * spaces, dashes, brackets and names of events: the name counts only where a time stands before it
 * and a CPU before that. Fields are found by name, so their order and further ones do not matter.
 */
#ifndef DECKLE_TOOLS_TRACE_TEXT_H
#define DECKLE_TOOLS_TRACE_TEXT_H

#include "trace.h"

enum trace_text_kind {
    TRACE_TEXT_EVENT,   /* *event is filled, but for line and burst_start */
    TRACE_TEXT_NOTHING, /* counted in the facts */
    TRACE_TEXT_BAD      /* why says what is wrong */
};

struct trace_text {
    uint32_t pfn_base; /* of a pfn without 0x */
    struct trace_facts *facts;
    char gfp_text[TRACE_NAME * 4]; /* the last gfp_flags= and what it means: most lines repeat it */
    size_t gfp_length;
    uint32_t gfp;
    uint64_t gfp_unknown;
};

/* Decides the base of pfns by the first bytes of the text; facts are counted into *facts. */
void trace_text_init(struct trace_text *p, const struct trace_options *options,
                     const unsigned char *begin, size_t size, struct trace_facts *facts);

/* line is ended by NUL and may be changed; why has TRACE_MESSAGE bytes. */
enum trace_text_kind trace_text_line(struct trace_text *p, char *line, size_t length,
                                     struct trace_event *event, char *why);

#endif
