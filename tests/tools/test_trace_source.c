/* SPDX-License-Identifier: MIT */
/*
 * Files as they come: compressed, in several pieces, cut at every byte, with every byte damaged,
 * bombs, lines at and beyond the limit, what is no trace at all. Everything is made here.
 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "testing.h"
#include "trace.h"
#include "trace_source.h"

struct blob {
    unsigned char *at;
    size_t size;
};

static struct blob make_xz(const void *text, size_t size)
{
    struct blob b = {malloc(lzma_stream_buffer_bound(size)), 0};

    assert_non_null(b.at);
    assert_int_equal(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, text, size, b.at, &b.size,
                                             lzma_stream_buffer_bound(size)),
                     LZMA_OK);
    return b;
}

static struct blob make_gz(const void *text, size_t size)
{
    z_stream z;
    struct blob b;

    memset(&z, 0, sizeof(z));
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    b.size = deflateBound(&z, size) + 32;
    b.at = malloc(b.size);
    assert_non_null(b.at);
    z.next_in = (Bytef *)(uintptr_t)text;
    z.avail_in = (uInt)size;
    z.next_out = b.at;
    z.avail_out = (uInt)b.size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    b.size -= z.avail_out;
    deflateEnd(&z);
    return b;
}

static struct blob join(struct blob a, struct blob b)
{
    struct blob both = {malloc(a.size + b.size), a.size + b.size};

    assert_non_null(both.at);
    memcpy(both.at, a.at, a.size);
    memcpy(both.at + a.size, b.at, b.size);
    free(a.at);
    free(b.at);
    return both;
}

/* lines events, text of about 70 bytes each. */
static struct blob make_text(unsigned int lines)
{
    struct blob b;
    char *text = NULL;
    FILE *to = open_memstream(&text, &b.size);

    assert_non_null(to);
    for (unsigned int i = 0; i < lines; i++)
        fprintf(to, "x-1 [00%u] ..... %u.%06u: mm_page_free: page=1 pfn=0x%x order=%u\n", i % 2,
                i / 1000, i * 7919 % 1000000, i * 2654435761u >> 8, i % 4);
    fclose(to);
    b.at = (unsigned char *)text;
    return b;
}

/* Reads all events; returns their number or -1, with the message. */
static long read_all(const struct blob *b, const struct trace_options *options, char *message)
{
    struct trace *t = trace_open_memory(b->at, b->size, "blob", options, message);
    struct trace_event e;
    enum trace_status status;
    long n = 0;

    if (t == NULL)
        return -1;
    while ((status = trace_next(t, &e)) == TRACE_EVENT)
        n++;
    if (status == TRACE_ERROR)
        snprintf(message, TRACE_MESSAGE, "%.500s", trace_message(t));
    trace_close(t);
    return status == TRACE_END ? n : -1;
}

static void check_error(const struct blob *b, const char *want)
{
    char message[TRACE_MESSAGE] = "";

    assert_int_equal(read_all(b, NULL, message), -1);
    if (strstr(message, want) == NULL)
        fail_msg("message \"%s\" lacks \"%s\"", message, want);
}

/* --- good ------------------------------------------------------------------------------------ */

static void test_compressed(void **state)
{
    struct blob text = make_text(20000);
    struct blob xz = make_xz(text.at, text.size), gz = make_gz(text.at, text.size);
    char message[TRACE_MESSAGE];

    (void)state;
    assert_int_equal(read_all(&text, NULL, message), 20000);
    assert_int_equal(read_all(&xz, NULL, message), 20000);
    assert_int_equal(read_all(&gz, NULL, message), 20000);

    /* Several streams and members, also cut in the middle of a line. */
    free(xz.at);
    free(gz.at);
    xz = join(make_xz(text.at, 1000), make_xz(text.at + 1000, text.size - 1000));
    gz = join(make_gz(text.at, 1000), make_gz(text.at + 1000, text.size - 1000));
    assert_int_equal(read_all(&xz, NULL, message), 20000);
    assert_int_equal(read_all(&gz, NULL, message), 20000);
    free(xz.at);
    free(gz.at);
    free(text.at);
}

static void test_facts(void **state)
{
    struct blob text = make_text(10), gz = make_gz(text.at, text.size);
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open_memory(gz.at, gz.size, "dir/x.gz", NULL, message);
    struct trace_event e;
    uint64_t done, total;

    (void)state;
    assert_non_null(t);
    while (trace_next(t, &e) == TRACE_EVENT)
        ;
    assert_string_equal(trace_facts(t)->source, "x.gz");
    assert_int_equal(trace_facts(t)->compression, TRACE_GZ);
    assert_int_equal(trace_facts(t)->file_bytes, gz.size);
    assert_int_equal(trace_facts(t)->text_bytes, text.size);
    assert_int_equal(trace_facts(t)->nr_cpus, 2);
    trace_progress(t, &done, &total);
    assert_int_equal(done, gz.size);
    assert_int_equal(total, gz.size);
    trace_close(t);
    free(text.at);
    free(gz.at);
}

/* A file and standard input, each through the real descriptors. */
static void test_descriptors(void **state)
{
    char path[] = "/tmp/deckle-trace-XXXXXX", message[TRACE_MESSAGE];
    struct blob text = make_text(1000), xz = make_xz(text.at, text.size);
    int fd = mkstemp(path), standard = dup(STDIN_FILENO);
    struct trace_event e;
    struct trace *t;
    unsigned int n;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(write(fd, xz.at, xz.size), (ssize_t)xz.size);
    t = trace_open(path, NULL, message);
    assert_non_null(t);
    for (n = 0; trace_next(t, &e) == TRACE_EVENT; n++)
        ;
    assert_int_equal(n, 1000);
    trace_close(t);

    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    dup2(fd, STDIN_FILENO);
    t = trace_open("-", NULL, message);
    assert_non_null(t);
    for (n = 0; trace_next(t, &e) == TRACE_EVENT; n++)
        ;
    assert_int_equal(n, 1000);
    assert_string_equal(trace_facts(t)->source, "standard input");
    trace_close(t);
    if (standard >= 0) {
        dup2(standard, STDIN_FILENO);
        close(standard);
    }
    close(fd);
    unlink(path);
    free(text.at);
    free(xz.at);
}

static void test_cannot_open(void **state)
{
    char message[TRACE_MESSAGE];

    (void)state;
    assert_null(trace_open("/nonexistent/x", NULL, message));
    assert_string_equal(message, "/nonexistent/x: cannot be opened: No such file or directory");
    assert_null(trace_open("/tmp", NULL, message));
    assert_string_equal(message, "/tmp: cannot be read: Is a directory");
}

/* --- bad ------------------------------------------------------------------------------------- */

/* Cut at each byte: an error, or, where the cut lies behind the last event, all events. */
static void check_cuts(struct blob whole, const char *name)
{
    char message[TRACE_MESSAGE];

    for (size_t size = 0; size < whole.size; size++) {
        struct blob cut = {malloc(size > 0 ? size : 1), size};
        long n;

        assert_non_null(cut.at);
        memcpy(cut.at, whole.at, size);
        n = read_all(&cut, NULL, message);
        if (n != -1)
            fail_msg("%s cut at %zu of %zu reads as %ld events", name, size, whole.size, n);
        free(cut.at);
    }
}

static void check_damage(struct blob whole, const char *name, long events, uint64_t *seed)
{
    char message[TRACE_MESSAGE];

    for (size_t i = 0; i < whole.size; i++) {
        unsigned char kept = whole.at[i];
        long n;

        whole.at[i] ^= (unsigned char)(1 + test_random_below(seed, 255));
        n = read_all(&whole, NULL, message);
        /* Headers have bytes without a meaning (the time in .gz), so the text may be whole. */
        if (n != -1 && n != events)
            fail_msg("%s damaged at %zu reads as %ld events", name, i, n);
        whole.at[i] = kept;
    }
}

static void test_cut_and_damaged(void **state)
{
    uint64_t seed = test_seed();
    struct blob text = make_text(40);
    struct blob xz = make_xz(text.at, text.size), gz = make_gz(text.at, text.size);

    (void)state;
    check_cuts(xz, "xz");
    check_cuts(gz, "gz");
    check_damage(xz, "xz", 40, &seed);
    check_damage(gz, "gz", 40, &seed);
    free(text.at);
    free(xz.at);
    free(gz.at);
}

static void test_cut_message(void **state)
{
    struct blob text = make_text(20000);
    struct blob xz = make_xz(text.at, text.size), gz = make_gz(text.at, text.size);

    (void)state;
    xz.size /= 2;
    gz.size /= 2;
    check_error(&xz, ".xz data end too early: the file is cut");
    check_error(&gz, ".gz data end too early: the file is cut");
    check_error(&xz, "blob:"); /* and the line */
    free(text.at);
    free(xz.at);
    free(gz.at);
}

static void test_behind_the_end(void **state)
{
    struct blob text = make_text(10), tail = {malloc(16), 16};
    struct blob xz;

    (void)state;
    assert_non_null(tail.at);
    memcpy(tail.at, "this is no .xz!!", 16);
    xz = join(make_xz(text.at, text.size), tail);
    check_error(&xz, ".xz data are damaged");
    free(xz.at);
    free(text.at);
}

/* 80 MiB of one byte are 12 KiB as .xz and 80 KiB as .gz. */
static void test_bombs(void **state)
{
    size_t size = (size_t)80 << 20;
    struct blob text = {malloc(size), size}, xz, gz;
    struct trace_options patient = {.max_ratio = 1000000};
    char message[TRACE_MESSAGE];

    (void)state;
    assert_non_null(text.at);
    memset(text.at, '\n', size);
    xz = make_xz(text.at, size);
    gz = make_gz(text.at, size);
    check_error(&xz, "decompresses to more than 1000 times its size");
    check_error(&gz, "decompresses to more than 1000 times its size");
    assert_int_equal(read_all(&xz, &patient, message), -1);
    assert_non_null(strstr(message, "holds no kmem page events"));
    free(xz.at);
    memset(text.at, 0, size);
    xz = make_xz(text.at, size);
    check_error(&xz, "longer than 65536 bytes");
    free(xz.at);
    free(gz.at);
    free(text.at);
}

static void test_max_text(void **state)
{
    struct blob text = make_text(5000);
    struct trace_options options = {.max_text_bytes = text.size - 1};
    char message[TRACE_MESSAGE];

    (void)state;
    assert_int_equal(read_all(&text, &options, message), -1);
    assert_non_null(strstr(message, "bytes of text allowed"));
    options.max_text_bytes = text.size;
    assert_int_equal(read_all(&text, &options, message), 5000);
    free(text.at);
}

/* A line that ends after exactly length bytes, with or without LF. */
static long long_line(size_t length, const char *end, char *message)
{
    static const char tail[] = "x-1 [000] 1.0: mm_page_free: pfn=0x1 order=0";
    struct blob b = {malloc(length + 2), length + strlen(end)};
    long n;

    assert_non_null(b.at);
    memset(b.at, 'c', length);
    memcpy(b.at + length - strlen(tail), tail, strlen(tail));
    memcpy(b.at + length, end, strlen(end));
    n = read_all(&b, NULL, message);
    free(b.at);
    return n;
}

static void test_long_lines(void **state)
{
    char message[TRACE_MESSAGE];

    (void)state;
    assert_int_equal(long_line(TRACE_MAX_LINE, "\n", message), 1);
    assert_int_equal(long_line(TRACE_MAX_LINE - 1, "\r\n", message), 1);
    assert_int_equal(long_line(TRACE_MAX_LINE, "", message), 1);
    assert_int_equal(long_line(TRACE_MAX_LINE + 1, "\n", message), -1);
    assert_non_null(strstr(message, "blob:1: the line is longer than 65536 bytes"));
    assert_int_equal(long_line(TRACE_MAX_LINE + 1, "", message), -1);
    assert_int_equal(long_line(3 * TRACE_MAX_LINE, "\n", message), -1);
}

static void test_other_files(void **state)
{
    static const struct {
        const char *bytes;
        size_t size;
        const char *want;
    } cases[] = {
        {"", 0, "is empty"},
        {"\x28\xb5\x2f\xfd rest", 9, "zstd"},
        {"BZh91AY", 7, "bzip2"},
        {"\x17\x08\x44tracing6\0", 12, "trace-cmd report"},
        {"PERFILE2\x68", 9, "perf script"},
        {"\xff\xfe#\0 \0", 6, "UTF-16"},
        {"\x7f"
         "ELF\x02\x01\x01\0\0\0\n",
         11, "NUL byte"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct blob b = {(unsigned char *)(uintptr_t)cases[i].bytes, cases[i].size};

        check_error(&b, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compressed),      cmocka_unit_test(test_facts),
        cmocka_unit_test(test_descriptors),     cmocka_unit_test(test_cannot_open),
        cmocka_unit_test(test_cut_and_damaged), cmocka_unit_test(test_cut_message),
        cmocka_unit_test(test_behind_the_end),  cmocka_unit_test(test_bombs),
        cmocka_unit_test(test_max_text),        cmocka_unit_test(test_long_lines),
        cmocka_unit_test(test_other_files),
    };

    return cmocka_run_group_tests_name("trace_source", tests, NULL, NULL);
}
