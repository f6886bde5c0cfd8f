/* SPDX-License-Identifier: MIT */
/*
 * Decompression and line splitting for traces. Everything goes through one buffer "text": fill()
 * moves what is left to its front and lets the decoder write behind it; peek, read and line all
 * take from its front. The buffer is twice the longest line, so a line that does not fit is too
 * long.
 */
#define _POSIX_C_SOURCE 200809L

#include "trace_source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define PACKED_BYTES 65536u
#define TEXT_BYTES   (2u * TRACE_MAX_LINE)
#define LZMA_MEMORY  (UINT64_C(256) << 20)
#define RATIO_APPLIES                                                                              \
    (UINT64_C(64) << 20) /* below, even empty lines compressed well are harmless */

struct trace_source {
    int fd;                      /* -1: memory */
    bool owns_fd;                /* close it */
    const unsigned char *memory; /* what is left of it */
    size_t memory_left;

    enum trace_compression compression;
    lzma_stream lzma;
    z_stream gz;
    bool decoder_ready;

    unsigned char packed[PACKED_BYTES]; /* as stored */
    size_t packed_at, packed_end;
    bool packed_eof;

    unsigned char text[TEXT_BYTES + 1]; /* + 1: room for the NUL of a last line without LF */
    size_t text_at, text_end;
    bool text_eof;

    bool failed;
    uint64_t file_bytes, file_size, made_bytes, taken_bytes;
    uint64_t max_text;
    uint32_t max_ratio;
    char why[TRACE_MESSAGE];
};

/* --- bytes as stored ------------------------------------------------------------------------- */

static bool fail(struct trace_source *s, const char *why)
{
    s->failed = true;
    s->text_eof = true;
    snprintf(s->why, sizeof(s->why), "%s", why);
    return false;
}

/* The same from a decoder, whose error is -1. */
static int64_t broken(struct trace_source *s, const char *why)
{
    fail(s, why);
    return -1;
}

static ssize_t raw_read(struct trace_source *s, unsigned char *to, size_t size)
{
    ssize_t got;

    if (s->fd < 0) {
        size_t n = size < s->memory_left ? size : s->memory_left;

        if (n > 0)
            memcpy(to, s->memory, n);
        s->memory += n;
        s->memory_left -= n;
        return (ssize_t)n;
    }
    do
        got = read(s->fd, to, size);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Appends to the packed buffer; false on an error. */
static bool fill_packed(struct trace_source *s)
{
    ssize_t got;

    if (s->packed_at > 0) {
        memmove(s->packed, s->packed + s->packed_at, s->packed_end - s->packed_at);
        s->packed_end -= s->packed_at;
        s->packed_at = 0;
    }
    if (s->packed_eof || s->packed_end == sizeof(s->packed))
        return true;
    got = raw_read(s, s->packed + s->packed_end, sizeof(s->packed) - s->packed_end);
    if (got < 0) {
        char why[128];

        snprintf(why, sizeof(why), "cannot be read: %s", strerror(errno));
        return fail(s, why);
    }
    if (got == 0)
        s->packed_eof = true;
    s->packed_end += (size_t)got;
    s->file_bytes += (uint64_t)got;
    return true;
}

/* --- decoders: packed -> room bytes at to; how many, or -1 ----------------------------------- */

static int64_t decode_plain(struct trace_source *s, unsigned char *to, size_t room)
{
    size_t n = s->packed_end - s->packed_at;

    if (n > room)
        n = room;
    memcpy(to, s->packed + s->packed_at, n);
    s->packed_at += n;
    if (s->packed_eof && s->packed_at == s->packed_end)
        s->text_eof = true;
    return (int64_t)n;
}

static const char *lzma_why(lzma_ret ret)
{
    switch (ret) {
    case LZMA_MEM_ERROR:
        return "not enough memory to decompress .xz";
    case LZMA_MEMLIMIT_ERROR:
        return "its .xz dictionary needs more than 256 MiB; recompress it with xz -9 or less";
    case LZMA_FORMAT_ERROR:
        return "begins like .xz but is none";
    case LZMA_OPTIONS_ERROR:
        return "uses .xz filters that this liblzma does not know";
    case LZMA_BUF_ERROR:
        return "its .xz data end too early: the file is cut";
    default:
        return "its .xz data are damaged";
    }
}

static int64_t decode_xz(struct trace_source *s, unsigned char *to, size_t room)
{
    lzma_ret ret;

    s->lzma.next_in = s->packed + s->packed_at;
    s->lzma.avail_in = s->packed_end - s->packed_at;
    s->lzma.next_out = to;
    s->lzma.avail_out = room;
    ret = lzma_code(&s->lzma, s->packed_eof ? LZMA_FINISH : LZMA_RUN);
    s->packed_at = s->packed_end - s->lzma.avail_in;
    if (ret == LZMA_STREAM_END)
        s->text_eof = true;
    else if (ret != LZMA_OK && !(ret == LZMA_BUF_ERROR && !s->packed_eof))
        return broken(s, lzma_why(ret));
    return (int64_t)(room - s->lzma.avail_out);
}

static int64_t decode_gz(struct trace_source *s, unsigned char *to, size_t room)
{
    int ret;

    s->gz.next_in = s->packed + s->packed_at;
    s->gz.avail_in = (uInt)(s->packed_end - s->packed_at);
    s->gz.next_out = to;
    s->gz.avail_out = (uInt)room;
    ret = inflate(&s->gz, Z_NO_FLUSH);
    s->packed_at = s->packed_end - s->gz.avail_in;
    if (ret == Z_STREAM_END) {
        /* A further member may follow at once. */
        if (!fill_packed(s))
            return -1;
        if (s->packed_at == s->packed_end)
            s->text_eof = true;
        else if (inflateReset(&s->gz) != Z_OK)
            return broken(s, "zlib cannot start the next .gz member");
    } else if (ret == Z_BUF_ERROR && s->packed_eof && s->gz.avail_out == room) {
        return broken(s, "its .gz data end too early: the file is cut");
    } else if (ret != Z_OK && ret != Z_BUF_ERROR) {
        return broken(s, ret == Z_MEM_ERROR ? "not enough memory to decompress .gz"
                                            : "its .gz data are damaged");
    }
    return (int64_t)(room - s->gz.avail_out);
}

/* --- the text buffer ------------------------------------------------------------------------- */

static bool within_limits(struct trace_source *s)
{
    char why[TRACE_MESSAGE];

    if (s->max_text > 0 && s->made_bytes > s->max_text) {
        snprintf(why, sizeof(why), "holds more than the %" PRIu64 " bytes of text allowed",
                 s->max_text);
        return fail(s, why);
    }
    if (s->compression != TRACE_PLAIN && s->made_bytes > RATIO_APPLIES &&
        s->made_bytes / s->max_ratio > s->file_bytes) {
        snprintf(why, sizeof(why),
                 "decompresses to more than %" PRIu32 " times its size: that is no trace",
                 s->max_ratio);
        return fail(s, why);
    }
    return true;
}

/* Gets more text behind what is there; false at the end, on an error or when the buffer is full. */
static bool fill(struct trace_source *s)
{
    int64_t made = 0;

    if (s->text_at > 0) {
        memmove(s->text, s->text + s->text_at, s->text_end - s->text_at);
        s->text_end -= s->text_at;
        s->text_at = 0;
    }
    while (made == 0 && !s->text_eof && s->text_end < TEXT_BYTES) {
        unsigned char *to = s->text + s->text_end;
        size_t room = TEXT_BYTES - s->text_end;

        if (s->packed_at == s->packed_end && !fill_packed(s))
            return false;
        if (s->compression == TRACE_XZ)
            made = decode_xz(s, to, room);
        else if (s->compression == TRACE_GZ)
            made = decode_gz(s, to, room);
        else
            made = decode_plain(s, to, room);
        if (made < 0)
            return false;
        s->made_bytes += (uint64_t)made;
        s->text_end += (size_t)made;
        if (!within_limits(s))
            return false;
    }
    return made > 0;
}

const unsigned char *trace_source_peek(struct trace_source *s, size_t *size)
{
    while (s->text_end - s->text_at < TRACE_SOURCE_PEEK && fill(s))
        ;
    *size = s->text_end - s->text_at;
    return s->text + s->text_at;
}

int64_t trace_source_read(struct trace_source *s, void *to, size_t size)
{
    unsigned char *out = to;
    size_t done = 0;

    while (done < size) {
        size_t n = s->text_end - s->text_at;

        if (n == 0) {
            if (fill(s))
                continue;
            if (s->failed)
                return -1;
            break;
        }
        if (n > size - done)
            n = size - done;
        memcpy(out + done, s->text + s->text_at, n);
        s->text_at += n;
        s->taken_bytes += n;
        done += n;
    }
    return (int64_t)done;
}

int trace_source_line(struct trace_source *s, char **line, size_t *length, bool *ended)
{
    size_t looked = 0;
    unsigned char *end;

    for (;;) {
        unsigned char *begin = s->text + s->text_at;
        size_t there = s->text_end - s->text_at;

        end = there > looked ? memchr(begin + looked, '\n', there - looked) : NULL;
        if (end != NULL || there > TRACE_MAX_LINE)
            break;
        looked = there;
        if (!fill(s)) {
            if (s->failed)
                return -1;
            break;
        }
    }

    *line = (char *)s->text + s->text_at;
    *ended = end != NULL;
    *length = end != NULL ? (size_t)(end - (s->text + s->text_at)) : s->text_end - s->text_at;
    if (*length > TRACE_MAX_LINE) {
        fail(s, "the line is longer than 65536 bytes; no trace has such lines");
        return -1;
    }
    if (*length == 0 && end == NULL)
        return 0;
    s->text_at += *length + (end != NULL);
    s->taken_bytes += *length + (end != NULL);
    if (*length > 0 && (*line)[*length - 1] == '\r')
        (*length)--;
    (*line)[*length] = '\0';
    return 1;
}

/* --- opening --------------------------------------------------------------------------------- */

static const struct {
    const char *bytes;
    size_t size;
    const char *why;
} refused[] = {
    {"\x28\xb5\x2f\xfd", 4, "is compressed by zstd; use: zstd -dc FILE | deckle … -"},
    {"BZh", 3, "is compressed by bzip2; use: bzip2 -dc FILE | deckle … -"},
    {"\x04\x22\x4d\x18", 4, "is compressed by lz4; use: lz4 -dc FILE | deckle … -"},
    {"PK\x03\x04", 4, "is a .zip archive; unpack it first"},
    {"\x17\x08\x44tracing", 10,
     "is a trace.dat of trace-cmd; use: trace-cmd report -i FILE | deckle … -"},
    {"PERFILE2", 8, "is a perf.data; use: perf script -i FILE | deckle … -"},
    {"\xff\xfe", 2, "is UTF-16 text; want plain ASCII as the kernel prints it"},
};

static bool start_decoder(struct trace_source *s)
{
    static const unsigned char xz[6] = {0xfd, '7', 'z', 'X', 'Z', 0};
    static const unsigned char gz[2] = {0x1f, 0x8b};

    while (s->packed_end < 16 && !s->packed_eof)
        if (!fill_packed(s))
            return false;
    if (s->packed_end == 0)
        return fail(s, "is empty; want the text of kmem page events");
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
        if (s->packed_end >= refused[i].size &&
            memcmp(s->packed, refused[i].bytes, refused[i].size) == 0)
            return fail(s, refused[i].why);

    if (s->packed_end >= sizeof(xz) && memcmp(s->packed, xz, sizeof(xz)) == 0) {
        s->compression = TRACE_XZ;
        s->decoder_ready = lzma_stream_decoder(&s->lzma, LZMA_MEMORY, LZMA_CONCATENATED) == LZMA_OK;
    } else if (s->packed_end >= sizeof(gz) && memcmp(s->packed, gz, sizeof(gz)) == 0) {
        s->compression = TRACE_GZ;
        s->decoder_ready = inflateInit2(&s->gz, 15 + 16) == Z_OK;
    } else {
        return true;
    }
    return s->decoder_ready || fail(s, "not enough memory to decompress");
}

static struct trace_source *source_new(const struct trace_options *options, char *why)
{
    struct trace_source *s = calloc(1, sizeof(*s));

    if (s == NULL) {
        snprintf(why, TRACE_MESSAGE, "not enough memory");
        return NULL;
    }
    s->fd = -1;
    s->lzma = (lzma_stream)LZMA_STREAM_INIT;
    s->max_ratio = 1000;
    if (options != NULL) {
        s->max_text = options->max_text_bytes;
        if (options->max_ratio > 0)
            s->max_ratio = options->max_ratio;
    }
    return s;
}

static struct trace_source *source_started(struct trace_source *s, char *why)
{
    if (start_decoder(s))
        return s;
    snprintf(why, TRACE_MESSAGE, "%s", s->why);
    trace_source_close(s);
    return NULL;
}

struct trace_source *trace_source_open(const char *path, const struct trace_options *options,
                                       char *why)
{
    struct trace_source *s = source_new(options, why);
    struct stat st;

    if (s == NULL)
        return NULL;
    if (strcmp(path, "-") == 0) {
        s->fd = STDIN_FILENO;
    } else {
        s->fd = open(path, O_RDONLY | O_CLOEXEC);
        s->owns_fd = true;
    }
    if (s->fd < 0) {
        snprintf(why, TRACE_MESSAGE, "cannot be opened: %s", strerror(errno));
        trace_source_close(s);
        return NULL;
    }
    if (fstat(s->fd, &st) == 0 && S_ISREG(st.st_mode))
        s->file_size = (uint64_t)st.st_size;
    return source_started(s, why);
}

struct trace_source *trace_source_memory(const void *bytes, size_t size,
                                         const struct trace_options *options, char *why)
{
    struct trace_source *s = source_new(options, why);

    if (s == NULL)
        return NULL;
    s->memory = bytes;
    s->memory_left = size;
    s->file_size = size;
    return source_started(s, why);
}

void trace_source_close(struct trace_source *s)
{
    if (s == NULL)
        return;
    if (s->compression == TRACE_GZ && s->decoder_ready)
        inflateEnd(&s->gz);
    lzma_end(&s->lzma);
    if (s->owns_fd && s->fd >= 0)
        close(s->fd);
    free(s);
}

const char *trace_source_why(const struct trace_source *s)
{
    return s->why;
}

enum trace_compression trace_source_compression(const struct trace_source *s)
{
    return s->compression;
}

uint64_t trace_source_file_bytes(const struct trace_source *s)
{
    return s->file_bytes;
}

uint64_t trace_source_file_size(const struct trace_source *s)
{
    return s->file_size;
}

uint64_t trace_source_text_bytes(const struct trace_source *s)
{
    return s->taken_bytes;
}
