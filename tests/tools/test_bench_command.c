/* SPDX-License-Identifier: MIT */
/*
 * `deckle bench` as a command: arguments, exit statuses, the JSON file, an interrupt. Nothing here
 * depends on how fast the machine is: the table that is run whole is `memory`, which times nothing
 * that is judged, and an interrupted run may also have been refused.
 *
 * ctest: timeout=120 serial
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench.h"

#define OUTPUT_SIZE 65536u

struct outcome {
    int status; /* exit status, or 1000 + signal */
    char output[OUTPUT_SIZE];
};

/* Runs the command in a child, because it catches signals and keeps threads; both outputs together.
 * interrupt_ms 0: not interrupted. */
static struct outcome *run(unsigned interrupt_ms, const char *arguments)
{
    struct outcome *outcome = calloc(1, sizeof(*outcome));
    char copy[512], *argv[16] = {NULL};
    int pipes[2], argc = 0, status;
    size_t size = 0;
    ssize_t got;
    pid_t child;

    snprintf(copy, sizeof(copy), "bench %s", arguments);
    for (char *word = strtok(copy, " "); word != NULL && argc < 15; word = strtok(NULL, " "))
        argv[argc++] = word;
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        status = cmd_bench(argc, argv);
        fflush(NULL);
        _exit(status);
    }
    close(pipes[1]);
    if (interrupt_ms > 0) {
        struct timespec pause = {interrupt_ms / 1000, (long)(interrupt_ms % 1000) * 1000000};

        nanosleep(&pause, NULL);
        kill(child, SIGINT);
    }
    while (size < OUTPUT_SIZE - 1 &&
           (got = read(pipes[0], outcome->output + size, OUTPUT_SIZE - 1 - size)) > 0)
        size += (size_t)got;
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    outcome->status = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
    return outcome;
}

/* Status, and a text that the output contains. */
static void check(const char *arguments, int status, const char *text)
{
    struct outcome *outcome = run(0, arguments);

    if (outcome->status != status || strstr(outcome->output, text) == NULL)
        fail_msg("deckle bench %s: status %d (want %d), want \"%s\" in:\n%s", arguments,
                 outcome->status, status, text, outcome->output);
    free(outcome);
}

static void lists_its_tables(void **state)
{
    static const char *const names[] = {"pair",    "batch",  "parallel", "bulk",
                                        "handoff", "random", "fragment", "fault",
                                        "memory",  "create", "ablation", "peers"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        check("--list", UI_OK, names[i]);
        check("--help", UI_OK, names[i]);
    }
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    check("pairs", UI_BAD_INPUT, "\"pairs\"");
    check("pairs", UI_BAD_INPUT, "parallel"); /* what there is instead */
    check("memory nothing", UI_BAD_INPUT, "\"nothing\"");
    check("--runs 0 memory", UI_BAD_INPUT, "--runs");
    check("--runs 65 memory", UI_BAD_INPUT, "--runs");
    check("--runs x memory", UI_BAD_INPUT, "\"x\"");
    check("--runs", UI_BAD_INPUT, "deckle bench --help");
    check("--slow", UI_BAD_INPUT, "slow");
    check("memory --json", UI_BAD_INPUT, "json");
    check("memory --json /nonexistent/x.json", UI_BAD_INPUT, "/nonexistent/x.json");
    check("memory --page /nonexistent/x.md", UI_BAD_INPUT, "/nonexistent/x.md");
}

static const cJSON *member(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    if (item == NULL)
        fail_msg("no \"%s\" in the JSON", key);
    return item;
}

static void writes_json(void **state)
{
    char path[] = "/tmp/deckle-bench-XXXXXX", arguments[128], text[OUTPUT_SIZE] = "";
    int file = mkstemp(path);
    const cJSON *table, *row;
    cJSON *json;

    (void)state;
    assert_true(file >= 0);
    snprintf(arguments, sizeof(arguments), "--quick memory --json %s", path);
    check(arguments, UI_OK, "memory: ");
    assert_true(read(file, text, sizeof(text) - 1) > 0);
    close(file);
    unlink(path);

    json = cJSON_Parse(text);
    assert_non_null(json);
    assert_string_equal(member(json, "schema")->valuestring, "deckle.bench");
    assert_int_equal(member(json, "version")->valueint, 1);
    assert_true(cJSON_IsTrue(member(json, "complete")));
    assert_true(cJSON_IsTrue(member(json, "quick")));
    assert_true(cJSON_GetArraySize(member(member(json, "machine"), "cpus")) > 0);
    assert_true(member(member(json, "machine"), "clock_ghz")->valuedouble > 0);
    table = cJSON_GetArrayItem(member(json, "tables"), 0);
    assert_string_equal(member(table, "name")->valuestring, "memory");
    row = cJSON_GetArrayItem(member(table, "rows"), 2);
    assert_true(member(row, "pool_bytes")->valuedouble == 16.0 * (1 << 30));
    assert_true(member(row, "metadata_bytes")->valuedouble > 0);
    /* A byte and a bit per frame, and the lists of the CPUs. */
    assert_true(member(row, "metadata_bytes")->valuedouble <
                1.25 * (4 << 20) + (double)sysconf(_SC_NPROCESSORS_CONF) * (128 << 10));
    cJSON_Delete(json);
}

/* create times a call, but its goals leave a machine ten times slower than any that we saw. */
static void goals_stand_below_the_table(void **state)
{
    (void)state;
    check("--runs 2 create", UI_OK, "goal: 16 TiB created, MiB touched at most 1: ");
    check("--quick memory", UI_OK, "goal: default pool of 16 GiB, % of it at most 0.03: ");
}

static void contains(const char *folder, const char *file, const char *text)
{
    char path[128], got[OUTPUT_SIZE] = "";
    FILE *from;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    from = fopen(path, "r");
    if (from == NULL)
        fail_msg("%s was not written", path);
    got[fread(got, 1, sizeof(got) - 1, from)] = '\0';
    fclose(from);
    unlink(path);
    if (strstr(got, text) == NULL)
        fail_msg("%s lacks \"%s\":\n%s", path, text, got);
}

static void writes_a_page_and_data(void **state)
{
    char folder[] = "/tmp/deckle-bench-XXXXXX", arguments[256];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(arguments, sizeof(arguments), "--quick memory --page %s/page.md --data %s", folder,
             folder);
    check(arguments, UI_OK, "memory: ");
    contains(folder, "page.md", "| memory | default pool of 16 GiB, % of it | at most 0.03 | ");
    contains(folder, "memory.dat", "pool_bytes features metadata_bytes");
    assert_int_equal(rmdir(folder), 0);
    snprintf(arguments, sizeof(arguments), "--quick memory --data %s", folder);
    check(arguments, UI_BAD_INPUT, folder);
}

static void an_interrupt_keeps_what_is_measured(void **state)
{
    struct outcome *outcome = run(1500, "--runs 64 pair");
    bool refused = outcome->status == UI_MISSING && strstr(outcome->output, "refused") != NULL;

    (void)state;
    if (!refused && (outcome->status != UI_INTERRUPTED || strstr(outcome->output, "order") == NULL))
        fail_msg("status %d, output:\n%s", outcome->status, outcome->output);
    free(outcome);
    if (refused) {
        print_message("skipped: the machine is too disturbed to start a benchmark\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_its_tables),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(writes_json),
        cmocka_unit_test(writes_a_page_and_data),
        cmocka_unit_test(goals_stand_below_the_table),
        cmocka_unit_test(an_interrupt_keeps_what_is_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
