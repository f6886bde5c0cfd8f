/* SPDX-License-Identifier: MIT */
/* Traces as text, for comparison with golden files and with each other. */
#ifndef DECKLE_TESTS_TOOLS_TRACE_DESCRIBE_H
#define DECKLE_TESTS_TOOLS_TRACE_DESCRIBE_H

#include <stdio.h>

#include "trace.h"

/* One event on one line. */
void describe_event(FILE *to, const struct trace_event *event);

/* Reads the trace to its end: each event, then "end" or the message, then facts that are not 0. */
void describe_trace(FILE *to, struct trace *t);

/* A hash of the events that a packed file keeps exactly, and their number; 0 and a message on
 * standard error if the trace cannot be read. */
uint64_t hash_trace(struct trace *t, uint64_t *events);

#endif
