/* SPDX-License-Identifier: MIT */
/*
 * The packed form of a trace (docs/formats/packed-trace.md): everything that a replay and the
 * figures of "what Linux did" need, in about a tenth of what xz makes of the text. Independent of
 * the machine's byte order. The writer takes a stream of events; readers go through trace_open.
 */
#ifndef DECKLE_TOOLS_PACKED_H
#define DECKLE_TOOLS_PACKED_H

#include <stdio.h>

#include "trace.h"
#include "trace_source.h"

#define PACKED_VERSION    1u
#define PACKED_MAGIC_SIZE 8u
#define PACKED_MAX_EVENTS (UINT32_C(1) << 20) /* events of one chunk */
#define PACKED_MAX_RAW    (UINT32_C(1) << 26) /* bytes of one chunk once decompressed */
#define PACKED_MAX_KINDS  65536u              /* combinations of type, cpu, order … in one file */
#define PACKED_MAX_TICK   UINT32_C(1000000000) /* ns */
#define PACKED_MEMORY     (UINT64_C(4) << 30)

#define PACKED_BURST_START 1u /* flag of a kind */

extern const unsigned char packed_magic[PACKED_MAGIC_SIZE];

/* What the END chunk calls the number of the kernel's events of each type. */
extern const char *const packed_event_keys[TRACE_NR_TYPES];

/* Chunks, in this order: one INFO, any number of EVENTS, one END. */
enum packed_tag { PACKED_INFO = 'I', PACKED_EVENTS = 'E', PACKED_END = 'Z' };

/* The byte strings of an EVENTS chunk. */
enum packed_column {
    COLUMN_KIND,    /* per event: index into the table of kinds */
    COLUMN_TIME,    /* per event: zigzag ticks since the one before */
    COLUMN_GUESSED, /* per ALLOC: 1 = the pfn that the model guesses, 0 = the next column has it */
    COLUMN_ALLOC_PFN, /* zigzag difference to the pfn behind the last one of this CPU and order */
    COLUMN_FREED,     /* per FREE: 1 + zigzag difference to the number behind the last one freed by
                         this CPU, 0 = the next column has the pfn */
    COLUMN_FREE_PFN,  /* zigzag difference to the pfn behind the last one written so by this CPU */
    COLUMN_OTHER,     /* per burst: events, frames; per EXTFRAG: pfn */
    NR_COLUMNS
};

/* --- writing --------------------------------------------------------------------------------- */

struct packed_writer;

/*
 * Writes to a stream opened in binary mode, which stays the caller's. source is the recording's
 * name. tick_ns: times are rounded down to its multiples; 0 keeps them exact. NULL when memory runs
 * out.
 */
struct packed_writer *packed_writer_new(FILE *to, const char *source, uint32_t tick_ns);

/* Each returns false after an error, which stays; packed_writer_why says what it was. */
bool packed_write(struct packed_writer *w, const struct trace_event *event);
bool packed_finish(struct packed_writer *w, const struct trace_facts *facts);

const char *packed_writer_why(const struct packed_writer *w);
uint64_t packed_writer_bytes(const struct packed_writer *w); /* of the file so far */
void packed_writer_free(struct packed_writer *w);

/* --- reading (trace.c) ----------------------------------------------------------------------- */

struct packed_reader;

/* Takes over nothing; source and facts must outlive it. NULL with why set (TRACE_MESSAGE bytes). */
struct packed_reader *packed_reader_new(struct trace_source *source,
                                        const struct trace_options *options,
                                        struct trace_facts *facts, char *why);
enum trace_status packed_next(struct packed_reader *r, struct trace_event *event, char *why);
void packed_reader_free(struct packed_reader *r);

#endif
