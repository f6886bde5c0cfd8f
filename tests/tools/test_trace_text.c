/* SPDX-License-Identifier: MIT */
/*
 * Every file of tests/data/traces is read and described; the description must be the golden one of
 * tests/golden/traces. DECKLE_UPDATE_GOLDEN=1 writes the golden files instead: look at the
 * difference before committing it. Files whose name begins with "bad-" must be refused with a word
 * about a field; what is left of them with keep_going is in the golden file, too.
 */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing.h"
#include "trace.h"
#include "trace_describe.h"

#define DATA   DECKLE_SOURCE_DIR "/tests/data/traces"
#define GOLDEN DECKLE_SOURCE_DIR "/tests/golden/traces"

static char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *bytes;
    long end;

    if (f == NULL)
        return NULL;
    fseek(f, 0, SEEK_END);
    end = ftell(f);
    rewind(f);
    bytes = malloc((size_t)end + 1);
    assert_non_null(bytes);
    *size = fread(bytes, 1, (size_t)end, f);
    bytes[*size] = '\0';
    fclose(f);
    return bytes;
}

/* The file under its bare name, so that messages do not depend on where the tree lies. */
static void describe(FILE *to, const char *name, const char *bytes, size_t size, bool keep_going)
{
    struct trace_options options = {.keep_going = keep_going};
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open_memory(bytes, size, name, &options, message);

    if (t == NULL) {
        fprintf(to, "%s\n", message);
        return;
    }
    describe_trace(to, t);
    trace_close(t);
}

static void check_file(const char *name)
{
    char path[512], *bytes, *want, *got = NULL;
    size_t size, want_size, got_size;
    FILE *to = open_memstream(&got, &got_size);

    assert_non_null(to);
    snprintf(path, sizeof(path), "%s/%s", DATA, name);
    bytes = read_file(path, &size);
    assert_non_null(bytes);
    describe(to, name, bytes, size, false);
    if (strncmp(name, "bad-", 4) == 0) {
        fprintf(to, "--- keep going\n");
        describe(to, name, bytes, size, true);
    }
    fclose(to);
    if (strncmp(name, "bad-", 4) == 0 && strstr(got, ": field ") == NULL)
        fail_msg("%s: no message about a field:\n%s", name, got);

    snprintf(path, sizeof(path), "%s/%.*s.txt", GOLDEN, (int)(strlen(name) - 6), name);
    if (test_environment_number("DECKLE_UPDATE_GOLDEN", 0) != 0) {
        FILE *f = fopen(path, "wb");

        assert_non_null(f);
        assert_int_equal(fwrite(got, 1, got_size, f), got_size);
        assert_int_equal(fclose(f), 0);
    }
    want = read_file(path, &want_size);
    if (want == NULL)
        fail_msg("%s: no golden file %s", name, path);
    if (got_size != want_size || memcmp(got, want, got_size) != 0)
        fail_msg("%s: got\n%s\nwant\n%s", name, got, want);
    free(bytes);
    free(want);
    free(got);
}

static void test_golden(void **state)
{
    DIR *folder = opendir(DATA);
    struct dirent *entry;
    unsigned int n = 0;

    (void)state;
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        size_t length = strlen(entry->d_name);

        if (length < 7 || strcmp(entry->d_name + length - 6, ".trace") != 0)
            continue;
        check_file(entry->d_name);
        n++;
    }
    closedir(folder);
    printf("%u files\n", n);
    assert_true(n >= 40);
}

/* --- single rules ---------------------------------------------------------------------------- */

/* Reads one line, with LF added; returns the status, *e and the message. */
static enum trace_status one_line(const char *line, const struct trace_options *options,
                                  struct trace_event *e, char *message)
{
    char *text = malloc(strlen(line) + 2);
    enum trace_status status;
    struct trace *t;

    assert_non_null(text);
    sprintf(text, "%s\n", line);
    t = trace_open_memory(text, strlen(text), "line", options, message);
    assert_non_null(t);
    status = trace_next(t, e);
    snprintf(message, TRACE_MESSAGE, "%.500s", trace_message(t));
    trace_close(t);
    free(text);
    return status;
}

#define FREE_LINE "x-1 [002] ..... 5.000001: mm_page_free: page=1 order=0 "

static void test_pfn_base(void **state)
{
    struct trace_options ten = {.pfn_base = 10}, sixteen = {.pfn_base = 16};
    char message[TRACE_MESSAGE];
    struct trace_event e;

    (void)state;
    assert_int_equal(one_line(FREE_LINE "pfn=100", NULL, &e, message), TRACE_EVENT);
    assert_int_equal(e.pfn, 100);
    assert_int_equal(one_line(FREE_LINE "pfn=0x100", NULL, &e, message), TRACE_EVENT);
    assert_int_equal(e.pfn, 0x100);
    assert_int_equal(one_line(FREE_LINE "pfn=1f0", NULL, &e, message), TRACE_EVENT);
    assert_int_equal(e.pfn, 0x1f0);
    assert_int_equal(one_line(FREE_LINE "pfn=100", &sixteen, &e, message), TRACE_EVENT);
    assert_int_equal(e.pfn, 0x100);
    assert_int_equal(one_line(FREE_LINE "pfn=0x100", &ten, &e, message), TRACE_EVENT);
    assert_int_equal(e.pfn, 0x100);
    assert_int_equal(one_line(FREE_LINE "pfn=1f0", &ten, &e, message), TRACE_ERROR);
    assert_non_null(strstr(message, "--pfn-base 16"));
}

static void test_limits(void **state)
{
    char message[TRACE_MESSAGE], line[256];
    struct trace_event e;

    (void)state;
    snprintf(line, sizeof(line), FREE_LINE "pfn=%" PRIu64, TRACE_MAX_PFN - 1);
    assert_int_equal(one_line(line, NULL, &e, message), TRACE_EVENT);
    assert_true(e.pfn == TRACE_MAX_PFN - 1);
    snprintf(line, sizeof(line), FREE_LINE "pfn=%" PRIu64, TRACE_MAX_PFN);
    assert_int_equal(one_line(line, NULL, &e, message), TRACE_ERROR);

    for (unsigned int order = 0; order <= TRACE_MAX_ORDER + 1; order++) {
        snprintf(line, sizeof(line), "x-1 [001] 1.5: mm_page_free: pfn=0x0 order=%u", order);
        if (order <= TRACE_MAX_ORDER) {
            assert_int_equal(one_line(line, NULL, &e, message), TRACE_EVENT);
            assert_int_equal(e.frames, 1u << order);
        } else {
            assert_int_equal(one_line(line, NULL, &e, message), TRACE_ERROR);
        }
    }
    for (unsigned int cpu = TRACE_MAX_CPUS - 2; cpu <= TRACE_MAX_CPUS; cpu++) {
        snprintf(line, sizeof(line), "x-1 [%u] 1.5: mm_page_free: pfn=0x0 order=0", cpu);
        assert_int_equal(one_line(line, NULL, &e, message),
                         cpu < TRACE_MAX_CPUS ? TRACE_EVENT : TRACE_ERROR);
    }
}

static void test_times(void **state)
{
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {
        {"0.0", 0},
        {"0.000001", 1000},
        {"1.5", UINT64_C(1500000000)},
        {"1184.535885", UINT64_C(1184535885000)},
        {"7325.985976476", UINT64_C(7325985976476)},
        {"18446744072.999999999", UINT64_C(18446744072999999999)},
        {"12us", 12000},
        {"12us+", 12000},
        {"12", 12},
    };
    static const char *const bad[] = {
        "",      ".",     ".5", "5.", "5.0000000001", "5.5.5", "-5.5", "5e3", "18446744073.5",
        "5us++", "0x5.5", "us"};
    char message[TRACE_MESSAGE], line[256];
    struct trace_event e;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(line, sizeof(line), "x-1 [001] %s: mm_page_free: pfn=0x0 order=0", good[i].text);
        assert_int_equal(one_line(line, NULL, &e, message), TRACE_EVENT);
        assert_true(e.time_ns == good[i].ns);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(line, sizeof(line), "x-1 [001] %s: mm_page_free: pfn=0x0 order=0", bad[i]);
        if (one_line(line, NULL, &e, message) != TRACE_ERROR)
            fail_msg("time \"%s\" is taken", bad[i]);
        assert_non_null(strstr(message, "field TIMESTAMP"));
    }
}

/* The bursts of a text in which two CPUs alternate. */
static void test_bursts(void **state)
{
    static const char text[] =
        "a-1 [000] 1.0: mm_page_pcpu_drain: pfn=0x1 order=0 migratetype=0\n"
        "a-1 [001] 1.0: mm_page_pcpu_drain: pfn=0x2 order=0 migratetype=0\n"
        "a-1 [000] 1.0: mm_page_pcpu_drain: pfn=0x4 order=1 migratetype=0\n"
        "a-1 [001] 1.0: mm_page_free_batched: pfn=0x3 order=0\n"
        "a-1 [001] 1.0: mm_page_pcpu_drain: pfn=0x6 order=0 migratetype=0\n"
        "a-1 [000] 1.0: sched_switch: prev_comm=a\n"
        "a-1 [000] 1.0: mm_page_pcpu_drain: pfn=0x7 order=0 migratetype=0\n"
        "a-1 [000] 1.0: mm_page_alloc_zone_locked: pfn=0x8 order=0 migratetype=0\n"
        "a-1 [000] 1.0: mm_page_pcpu_drain: pfn=0x9 order=0 migratetype=0\n";
    static const bool start[] = {true, true, false, false, true, false, true, true};
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open_memory(text, sizeof(text) - 1, "bursts", NULL, message);
    struct trace_event e;

    (void)state;
    assert_non_null(t);
    for (size_t i = 0; i < sizeof(start) / sizeof(start[0]); i++) {
        assert_int_equal(trace_next(t, &e), TRACE_EVENT);
        assert_int_equal(e.burst_start, start[i]);
    }
    assert_int_equal(trace_next(t, &e), TRACE_END);
    assert_int_equal(trace_next(t, &e), TRACE_END);
    trace_close(t);
}

static void count_left_out(void *context, const char *message)
{
    assert_non_null(strstr(message, "mixed:2: field order"));
    ++*(unsigned int *)context;
}

static void test_keep_going(void **state)
{
    static const char text[] = "a-1 [000] 1.0: mm_page_free: pfn=0x1 order=0\n"
                               "a-1 [000] 1.0: mm_page_free: pfn=0x1 order=x\n"
                               "a-1 [000] 1.0: mm_page_free: pfn=0x2 order=0\n";
    unsigned int calls = 0;
    struct trace_options options = {
        .keep_going = true, .left_out = count_left_out, .context = &calls};
    char message[TRACE_MESSAGE];
    struct trace *t = trace_open_memory(text, sizeof(text) - 1, "mixed", &options, message);
    struct trace_event e;

    (void)state;
    assert_non_null(t);
    assert_int_equal(trace_next(t, &e), TRACE_EVENT);
    assert_int_equal(trace_next(t, &e), TRACE_EVENT);
    assert_int_equal(e.line, 3);
    assert_int_equal(trace_next(t, &e), TRACE_END);
    assert_int_equal(calls, 1);
    assert_int_equal(trace_facts(t)->bad_lines, 1);
    trace_close(t);

    /* Without it the error stays. */
    t = trace_open_memory(text, sizeof(text) - 1, "mixed", NULL, message);
    assert_non_null(t);
    assert_int_equal(trace_next(t, &e), TRACE_EVENT);
    assert_int_equal(trace_next(t, &e), TRACE_ERROR);
    assert_int_equal(trace_next(t, &e), TRACE_ERROR);
    trace_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden), cmocka_unit_test(test_pfn_base),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_times),
        cmocka_unit_test(test_bursts), cmocka_unit_test(test_keep_going),
    };

    return cmocka_run_group_tests_name("trace_text", tests, NULL, NULL);
}
