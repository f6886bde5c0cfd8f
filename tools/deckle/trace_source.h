/* SPDX-License-Identifier: MIT */
/*
 * Bytes of a trace file, decompressed, as a stream with a look-ahead and as lines. Compression is
 * known by its first bytes: .xz (several streams, padding), .gz (several members) or none.
 *
 * Memory is bounded whatever the file holds: two buffers of fixed size and the decompressor's own,
 * which is limited to 256 MiB. Work is bounded by max_text and max_ratio.
 */
#ifndef DECKLE_TOOLS_TRACE_SOURCE_H
#define DECKLE_TOOLS_TRACE_SOURCE_H

#include "trace.h"

#define TRACE_SOURCE_PEEK 65536u /* bytes that trace_source_peek can show */

struct trace_source;

/* "-" is standard input. Returns NULL with the reason in why (TRACE_MESSAGE bytes), without path.
 */
struct trace_source *trace_source_open(const char *path, const struct trace_options *options,
                                       char *why);
/* The bytes must outlive the source. */
struct trace_source *trace_source_memory(const void *bytes, size_t size,
                                         const struct trace_options *options, char *why);

/* The next bytes without taking them: TRACE_SOURCE_PEEK of them or all that are left. *size is 0 at
 * the end and after an error. */
const unsigned char *trace_source_peek(struct trace_source *s, size_t *size);

/* Takes up to size bytes; returns how many, fewer only at the end, or -1 (trace_source_why). */
int64_t trace_source_read(struct trace_source *s, void *to, size_t size);

/*
 * The next line, ended by NUL in place of LF or CR LF; valid until the next call. 1, 0 at the end,
 * -1 on an error. *ended is false for a last line without LF. A line may hold NUL bytes: compare
 * its length with strlen.
 */
int trace_source_line(struct trace_source *s, char **line, size_t *length, bool *ended);

const char *trace_source_why(const struct trace_source *s);
enum trace_compression trace_source_compression(const struct trace_source *s);
uint64_t trace_source_file_bytes(const struct trace_source *s); /* taken from the file so far */
uint64_t trace_source_file_size(const struct trace_source *s);  /* 0 = not known */
uint64_t trace_source_text_bytes(const struct trace_source *s); /* handed out so far */

void trace_source_close(struct trace_source *s);

#endif
