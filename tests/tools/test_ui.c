/* SPDX-License-Identifier: MIT */
/* Numbers, options and tables as people see them, and JSON that keeps numbers exact. */
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json_out.h"
#include "testing.h"
#include "ui.h"

static void test_count(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } cases[] = {
        {0, "0"},
        {999, "999"},
        {1000, "1,000"},
        {123456, "123,456"},
        {1234567, "1,234,567"},
        {UINT64_MAX, "18,446,744,073,709,551,615"},
    };
    char buffer[UI_NUMBER];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(ui_count(buffer, cases[i].value), cases[i].text);
}

static void test_units(void **state)
{
    char b[UI_NUMBER];

    (void)state;
    assert_string_equal(ui_bytes(b, 0), "0 B");
    assert_string_equal(ui_bytes(b, 1023), "1023 B");
    assert_string_equal(ui_bytes(b, 1024), "1 KiB");
    assert_string_equal(ui_bytes(b, 1536), "1.50 KiB");
    assert_string_equal(ui_bytes(b, 200 * 1024 + 1), "200 KiB");
    assert_string_equal(ui_bytes(b, UINT64_C(3) << 40), "3 TiB");
    assert_string_equal(ui_bytes(b, UINT64_MAX), "16 EiB");
    assert_string_equal(ui_duration(b, 0), "0 ns");
    assert_string_equal(ui_duration(b, 999), "999 ns");
    assert_string_equal(ui_duration(b, 1250), "1.25 us");
    assert_string_equal(ui_duration(b, 45600000), "45.6 ms");
    assert_string_equal(ui_duration(b, UINT64_C(4797133000)), "4.80 s");
    assert_string_equal(ui_percent(b, 1, 8), "12.5 %");
    assert_string_equal(ui_percent(b, 1, 0), "-");
}

/* Messages of refused options go to standard error; they are not looked at here. */
static void test_options(void **state)
{
    static const char *const bad[] = {"",   "-1", "+1", " 1",
                                      "1 ", "x",  "1x", "99999999999999999999"};
    uint64_t v;

    (void)state;
    assert_true(ui_option_u64("--x", "42", 0, 42, &v) && v == 42);
    assert_true(ui_option_u64("--x", "0x2a", 0, 42, &v) && v == 42);
    assert_true(ui_option_u64("--x", "18446744073709551615", 0, UINT64_MAX, &v) && v == UINT64_MAX);
    assert_false(ui_option_u64("--x", "43", 0, 42, &v));
    assert_false(ui_option_u64("--x", "3", 4, 42, &v));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(ui_option_u64("--x", bad[i], 0, UINT64_MAX, &v));
        assert_false(ui_option_bytes("--x", bad[i], 0, UINT64_MAX, &v));
    }
    assert_true(ui_option_bytes("--x", "4096", 0, UINT64_MAX, &v) && v == 4096);
    assert_true(ui_option_bytes("--x", "4K", 0, UINT64_MAX, &v) && v == 4096);
    assert_true(ui_option_bytes("--x", "4KiB", 0, UINT64_MAX, &v) && v == 4096);
    assert_true(ui_option_bytes("--x", "2m", 0, UINT64_MAX, &v) && v == 2 << 20);
    assert_true(ui_option_bytes("--x", "3G", 0, UINT64_MAX, &v) && v == UINT64_C(3) << 30);
    assert_true(ui_option_bytes("--x", "16T", 0, UINT64_MAX, &v) && v == UINT64_C(16) << 40);
    assert_false(ui_option_bytes("--x", "16777216T", 0, UINT64_MAX, &v)); /* 2^64 */
    assert_false(ui_option_bytes("--x", "4KB", 0, UINT64_MAX, &v));
    assert_false(ui_option_bytes("--x", "K", 0, UINT64_MAX, &v));
    assert_false(ui_option_bytes("--x", "1G", 0, UINT64_C(1) << 29, &v));
}

static char *print_table(const struct ui_table *t, unsigned int indent, bool head)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);

    assert_non_null(to);
    ui_table_print(t, to, indent, head);
    fclose(to);
    return text;
}

static void test_table(void **state)
{
    struct ui_table *t = ui_table_new("lrl");
    char *text;

    (void)state;
    ui_table_row(t, "name", "n", "what");
    ui_table_row(t, "a", "1,000", "first");
    ui_table_row(t,
                 "gr\xc3\xb6\xc3\x9f"
                 "er",
                 "7", "");
    text = print_table(t, 2, true);
    assert_string_equal(text, "  name        n  what\n"
                              "  ------  -----  -----\n"
                              "  a       1,000  first\n"
                              "  gr\xc3\xb6\xc3\x9f"
                              "er      7\n");
    free(text);
    ui_table_free(t);
    ui_table_free(NULL);
}

/* Many rows: the table grows. */
static void test_large_table(void **state)
{
    struct ui_table *t = ui_table_new("r");
    char number[UI_NUMBER], *text;

    (void)state;
    for (unsigned int i = 0; i < 1000; i++)
        ui_table_row(t, ui_count(number, i));
    text = print_table(t, 0, false);
    assert_int_equal(strlen(text), 1000 * 4);
    assert_int_equal(strncmp(text, "  0\n  1\n", 8), 0);
    free(text);
    ui_table_free(t);
}

static void test_interrupt(void **state)
{
    (void)state;
    signal(SIGINT, SIG_IGN); /* a job in the background */
    ui_catch_interrupt();
    raise(SIGINT);
    assert_false(ui_interrupted());
    signal(SIGINT, SIG_DFL);
    ui_catch_interrupt();
    assert_false(ui_interrupted());
    assert_int_equal(raise(SIGINT), 0);
    assert_true(ui_interrupted());
}

static void test_json(void **state)
{
    cJSON *document = json_document("test", 3), *part = json_add_object(document, "part");
    char *text;

    (void)state;
    json_add_u64(part, "large", UINT64_MAX);
    text = cJSON_PrintUnformatted(document);
    assert_string_equal(text, "{\"schema\":\"deckle.test\",\"version\":3,"
                              "\"part\":{\"large\":18446744073709551615}}");
    free(text);
    cJSON_Delete(document);
    assert_false(json_write(NULL, "-"));
    document = json_document("test", 1);
    assert_false(json_write(document, "/nonexistent/x"));
    cJSON_Delete(document);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),       cmocka_unit_test(test_units),
        cmocka_unit_test(test_options),     cmocka_unit_test(test_table),
        cmocka_unit_test(test_large_table), cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_json),
    };

    return cmocka_run_group_tests_name("ui", tests, NULL, NULL);
}
