/* SPDX-License-Identifier: MIT */
/*
 * What people are told about a trace: its facts in text and in JSON, what is wrong with the
 * recording, and its events as ftrace text.
 */
#ifndef DECKLE_TOOLS_TRACE_REPORT_H
#define DECKLE_TOOLS_TRACE_REPORT_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "trace.h"
#include "trace_model.h"

/* Warnings on standard error about events lost, lines left out, unknown flags and time that goes
 * backwards. Nothing for a sound recording. */
void trace_warn(const struct trace_facts *facts);

/* The table that deckle pack prints. */
void trace_print_facts(FILE *to, const struct trace_facts *facts,
                       const struct trace_totals *totals);

/* The same as fields "trace" and "model" of an object. */
void trace_json_facts(cJSON *object, const struct trace_facts *facts,
                      const struct trace_totals *totals);

/* Text that trace_open reads back as the same events. */
void trace_print_heading(FILE *to, const struct trace_facts *facts);
void trace_print_event(FILE *to, const struct trace_event *event, bool ticks);

#endif
