/* SPDX-License-Identifier: MIT */
/*
 * Page events of a Linux kernel, read as a stream: one trace_event after another, whatever the file
 * is. Read are the text of ftrace ("trace"), of trace-cmd report and of perf script, and Deckle's
 * packed form (docs/formats/packed-trace.md), each plain or inside .xz or .gz, from a file or from
 * standard input. What a file is gets decided by its first bytes, never by its name.
 *
 * Rules for what is not as it should be:
 *   - A line of a known event that cannot be understood ends the reading with a message that names
 *     file, line and field; with keep_going it is counted and left out instead.
 *   - A last line without an end-of-line that cannot be understood is taken for a recording cut
 *     short: counted (truncated), never an error.
 *   - Time that goes backwards is counted; events keep the order of the file.
 *   - Lines of other events, comments and call chains are counted and left out.
 *   - Unknown names in gfp_flags= are counted, and the request keeps the flags that are known.
 *   - Integers with 0x are hexadecimal. A pfn without 0x is decimal, as kernels before 5.15 print
 *     it, unless more than half of those in the first 64 KiB of text have a letter a-f: then all
 *     are hexadecimal. pfn_base overrides this.
 *
 * A trace belongs to one thread. Nothing here is global.
 */
#ifndef DECKLE_TOOLS_TRACE_H
#define DECKLE_TOOLS_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_MAX_CPUS        4096u /* CPU numbers are 0 … 4095 */
#define TRACE_MAX_ORDER       20u   /* orders are 0 … 20 */
#define TRACE_NR_ORDERS       (TRACE_MAX_ORDER + 1u)
#define TRACE_MAX_MIGRATETYPE 15u
#define TRACE_MAX_PFN         (UINT64_C(1) << 52) /* pfns are below */
#define TRACE_MAX_LINE        65536u              /* bytes of one line, its end not counted */
#define TRACE_MESSAGE         512u                /* bytes that hold any message of this module */

enum trace_type {
    TRACE_ALLOC,        /* mm_page_alloc: time, cpu, pfn, order, migratetype, gfp */
    TRACE_ALLOC_FAILED, /* mm_page_alloc without a page: time, cpu, order, migratetype, gfp */
    TRACE_FREE,         /* mm_page_free: time, cpu, pfn, order */
    TRACE_FREE_BATCHED, /* mm_page_free_batched: announces a TRACE_FREE, changes nothing */
    TRACE_ZONE_LOCKED,  /* mm_page_alloc_zone_locked: events, frames; see burst_start */
    TRACE_PCPU_DRAIN,   /* mm_page_pcpu_drain: events, frames; see burst_start */
    TRACE_EXTFRAG,      /* mm_page_alloc_extfrag: pfn, order, migratetype, and fallback_… */
    TRACE_NR_TYPES
};

/*
 * One event. Text gives one event a line: events = 1, frames = 2^order. The packed form gives one
 * event a burst for ZONE_LOCKED and PCPU_DRAIN: events and frames are sums, order, pfn and
 * migratetype are 0. In both, burst_start marks where a burst begins: the last event before it on
 * the same CPU, among the six that are read, is of another kind. So frames and bursts come out the
 * same from both.
 */
struct trace_event {
    uint64_t time_ns; /* of the recording's clock; for clocks that count ticks, the ticks */
    uint64_t pfn;
    uint64_t line;   /* from 1; in a packed file the number of the event, from 1 */
    uint32_t cpu;    /* 0 … TRACE_MAX_CPUS-1 */
    uint32_t gfp;    /* DECKLE_GFP_… */
    uint32_t events; /* lines of the kernel's that this event stands for */
    uint32_t frames;
    uint8_t type;  /* enum trace_type */
    uint8_t order; /* 0 … TRACE_MAX_ORDER; of EXTFRAG the order asked for */
    uint8_t migratetype;
    uint8_t fallback_order;       /* EXTFRAG: order of the block taken */
    uint8_t fallback_migratetype; /* EXTFRAG: type it was taken from */
    bool burst_start;             /* ZONE_LOCKED and PCPU_DRAIN */
};

enum trace_format {
    TRACE_FORMAT_UNKNOWN,
    TRACE_FORMAT_FTRACE,    /* /sys/kernel/tracing/trace */
    TRACE_FORMAT_TRACE_CMD, /* trace-cmd report */
    TRACE_FORMAT_PERF,      /* perf script */
    TRACE_FORMAT_PACKED,    /* deckle pack */
};

enum trace_compression { TRACE_PLAIN, TRACE_XZ, TRACE_GZ };

#define TRACE_UNKNOWN_NAMES 8u
#define TRACE_NAME          64u

/* What a recording is, and what was met while reading it. Complete once trace_next said TRACE_END.
 */
struct trace_facts {
    char source[TRACE_NAME];  /* name of the recording: the file's, or what a packed file says */
    enum trace_format format; /* of this file */
    enum trace_format recorded_format; /* of the text it was packed from */
    enum trace_compression compression;
    uint64_t file_bytes; /* as stored */
    uint64_t text_bytes; /* as text, or of the packed form once decompressed */
    uint64_t lines;      /* of the text it was packed from, where it is packed */

    uint64_t
        events[TRACE_NR_TYPES]; /* the kernel's events, so a burst counts each of its frames' */
    uint64_t other_lines;       /* lines of other events, call chains, headings */
    uint64_t comments;
    uint64_t bad_lines; /* left out because of keep_going */
    bool truncated;     /* the last line was cut and left out */

    uint64_t lost_events; /* that the recorder says it lost, where it says how many */
    uint64_t lost_marks;  /* places where it says so */
    uint64_t overwritten; /* events that the ring buffer dropped before the first one shown */
    uint64_t unknown_gfp; /* names and bits in gfp_flags= that are not known */
    char unknown_gfp_names[TRACE_UNKNOWN_NAMES][TRACE_NAME];

    uint64_t time_backwards;          /* events earlier than the one before */
    uint64_t backwards_ns;            /* the largest such step */
    uint64_t first_ns, last_ns;       /* earliest and latest time */
    bool ticks;                       /* the clock counts something that is not ns */
    uint32_t tick_ns;                 /* times were rounded down to multiples of this */
    uint32_t online_cpus;             /* as the recorder says, 0 = it does not */
    uint32_t nr_cpus;                 /* CPUs with events */
    uint8_t cpus[TRACE_MAX_CPUS / 8]; /* bit (cpu % 8) of byte cpu / 8: that CPU has events */
};

struct trace_options {
    uint32_t pfn_base;       /* 0 = decided as above, 10 or 16 */
    bool keep_going;         /* leave bad lines out instead of stopping */
    uint64_t max_text_bytes; /* 0 = none; stop with an error beyond */
    uint64_t max_memory;     /* 0 = 4 GiB; for the state of a packed file's decoder */
    uint32_t max_ratio;      /* 0 = 1000; text of more than this times the file is refused, once
                                it is more than 64 MiB */
    /* Called for each bad line left out, with the message; may be NULL. */
    void (*left_out)(void *context, const char *message);
    void *context;
};

enum trace_status { TRACE_ERROR = -1, TRACE_END = 0, TRACE_EVENT = 1 };

struct trace;

/*
 * Opens PATH ("-" is standard input). options may be NULL. On failure returns NULL and puts a
 * message of the form "PATH: why" into message (at least TRACE_MESSAGE bytes). The caller closes.
 */
struct trace *trace_open(const char *path, const struct trace_options *options, char *message);

/* The same for bytes in memory, which must outlive the trace; name stands for the path. */
struct trace *trace_open_memory(const void *bytes, size_t size, const char *name,
                                const struct trace_options *options, char *message);

/* The next event, the end, or an error that stays (trace_message). */
enum trace_status trace_next(struct trace *t, struct trace_event *event);

/* "PATH:LINE: why" of the error; "" before one. Lives as long as the trace. */
const char *trace_message(const struct trace *t);

const struct trace_facts *trace_facts(const struct trace *t);

/* How far the reading is, in bytes of the file; *total is 0 where it is not known (a pipe). */
void trace_progress(const struct trace *t, uint64_t *done, uint64_t *total);

void trace_close(struct trace *t);

/* "mm_page_alloc" and so on, as the kernel writes it; NULL for a type that is none. */
const char *trace_type_name(uint8_t type);
const char *trace_format_name(enum trace_format format);
const char *trace_compression_name(enum trace_compression compression);

/* Whether events of this type change which frames are allocated. */
static inline bool trace_changes_state(uint8_t type)
{
    return type == TRACE_ALLOC || type == TRACE_FREE;
}

#endif
