/* SPDX-License-Identifier: MIT */
/*
 * Does this run count, and where was it made?
 *
 * Every ratio of the benchmarks has `limit` below the line. On a disturbed machine limit can be
 * slow for the whole time of a table, and everything would look good beside it; so before a table
 * is measured and again before it is published, limit has to show that it costs at most 1.4 times
 * the empty loop. The minimum of a few short measurements decides, and there are several attempts:
 * the rule is about the machine as it is, not about one interrupt.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "bench_clock.h"

#define GATE_RATIO    1.4
#define GATE_ATTEMPTS 6u
#define GATE_RUNS     9u
#define GATE_PAIRS    50000u

static int gate_measure(const struct bench *bench, const struct bench_set *set, double least[2])
{
    static const struct bench_shape shape = {.kind = BENCH_PAIRS, .threads = 1, .nr = 1};

    least[0] = least[1] = INFINITY;
    for (unsigned run = 0; run < GATE_RUNS; run++) {
        for (unsigned i = 0; i < 2; i++) {
            double values[BENCH_MAX_VALUES], ticks;
            int error = bench_run_shape(bench, &set->lanes[i], &shape, GATE_PAIRS, values, &ticks);

            if (error != 0)
                return error;
            least[i] = fmin(least[i], values[0]);
        }
    }
    return 0;
}

static void pause_a_little(void)
{
    struct timespec pause = {.tv_nsec = 200000000};

    nanosleep(&pause, NULL);
}

bool bench_gate(struct bench *bench)
{
    struct bench_wish wish = {.lanes = BENCH_LANE(BENCH_LANE_FLOOR) | BENCH_LANE(BENCH_LANE_LIMIT),
                              .nr_cpus = 1,
                              .stock = {.blocks = {16}}};
    double least[2] = {0, 0};
    struct bench_set set;
    bool good = false;

    if (bench_set_open(bench, &wish, &set) != 0)
        return false;
    for (unsigned attempt = 0; attempt < GATE_ATTEMPTS && !good && !ui_interrupted(); attempt++) {
        if (attempt > 0)
            pause_a_little();
        if (gate_measure(bench, &set, least) != 0)
            break;
        good = least[1] <= GATE_RATIO * least[0];
        if (!good)
            ui_note("bench: limit takes %.1f cycles, %.2f times floor (%.1f): the machine is "
                    "disturbed",
                    least[1], least[1] / least[0], least[0]);
    }
    bench_set_close(&set);
    if (good && (bench->floor == 0 || least[0] < bench->floor))
        bench->floor = least[0];
    if (!good && !ui_interrupted())
        ui_error("bench: refused: a run counts only if limit is at most %.1f times floor; wait for "
                 "a quieter machine",
                 GATE_RATIO);
    return good;
}

/* ---- the machine ----------------------------------------------------------------------------- */

/* The first line of a file that begins with key, behind ": "; or the first line without a key. */
static void add_line(cJSON *object, const char *name, const char *path, const char *key)
{
    FILE *from = fopen(path, "r");
    char line[512];

    while (from != NULL && fgets(line, sizeof(line), from) != NULL) {
        char *value = line;

        line[strcspn(line, "\n")] = '\0';
        if (key != NULL) {
            if (strncmp(line, key, strlen(key)) != 0)
                continue;
            value = strchr(line, ':');
            value = value != NULL ? value + 1 + strspn(value + 1, " \t") : line;
        }
        cJSON_AddStringToObject(object, name, value);
        break;
    }
    if (from != NULL)
        fclose(from);
}

static const char *compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}

cJSON *bench_machine(const struct bench *bench, int argc, char **argv)
{
    cJSON *object = cJSON_CreateObject(), *command, *cpus;
    struct utsname system;

    add_line(object, "cpu", "/proc/cpuinfo", "model name");
    if (uname(&system) == 0) {
        cJSON_AddStringToObject(object, "kernel", system.release);
        cJSON_AddStringToObject(object, "architecture", system.machine);
    }
    cpus = cJSON_AddArrayToObject(object, "cpus");
    for (unsigned i = 0; i < bench->nr_cpus; i++)
        cJSON_AddItemToArray(cpus, cJSON_CreateNumber(bench->cpus[i]));
    add_line(object, "memory", "/proc/meminfo", "MemTotal");
    add_line(object, "transparent_hugepage", "/sys/kernel/mm/transparent_hugepage/enabled", NULL);
    cJSON_AddStringToObject(object, "clock", bench_clock_name());
    cJSON_AddNumberToObject(object, "clock_ghz", round(bench->ghz * 1e6) / 1e6);
    cJSON_AddNumberToObject(object, "clock_overhead_cycles", round(bench->overhead));
    cJSON_AddStringToObject(object, "limit", bench_limit_has_rseq() ? "rseq" : "thread");
    cJSON_AddStringToObject(object, "compiler", compiler());
    cJSON_AddStringToObject(object, "deckle", deckle_version());
    command = cJSON_AddArrayToObject(object, "command");
    cJSON_AddItemToArray(command, cJSON_CreateString("deckle"));
    for (int i = 0; i < argc; i++)
        cJSON_AddItemToArray(command, cJSON_CreateString(argv[i]));
    return object;
}
