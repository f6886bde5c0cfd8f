/* SPDX-License-Identifier: MIT */
/*
 * The simulated machine as a program: runs cases under many schedules, prints what fails in a form
 * that runs again.
 *
 *   sim                          every case, for a few seconds each
 *   sim --list                   names
 *   sim [--case NAME]... [--bound K] [--runs N] [--seconds S] [--count N] [--seed S] [--hunt]
 *   sim --case NAME --replay "12>1 40h0"
 *
 * For each case: all runs with at most K choices that cost (K = 0, 1, … up to the bound, each at
 * most 60 % of what may be spent), then random schedules and PCT in turns until it is spent. Limits
 * are for each case. DECKLE_TEST_SEED and DECKLE_TEST_EFFORT as in tests/support/testing.h.
 *
 * Exit status: 0 no violation, 1 one was found, 2 usage, 3 no memory, 130 interrupted.
 */
#include "case.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testing.h"

extern const struct sim_case sim_cases_block[], sim_cases_index[], sim_cases_cache[],
    sim_cases_setup[], sim_cases_pressure[], sim_cases_narrow[];

static const struct sim_case *const tables[] = {
#ifdef SIM_NARROW
    sim_cases_narrow,
#else
    sim_cases_block, sim_cases_index, sim_cases_cache, sim_cases_setup, sim_cases_pressure,
#endif
};

#define MOST_NAMES 64u

static struct {
    const char *names[MOST_NAMES];
    unsigned nr_names;
    unsigned bound;
    bool has_bound, list, quick, hunt;
    uint64_t runs, count, seed;
    double seconds;
    const char *replay;
} options;

static volatile sig_atomic_t interrupted_signal;
static volatile int interrupted;

static void on_signal(int number)
{
    interrupted_signal = number;
    interrupted = 1;
}

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- a failure ------------------------------------------------------------------------------- */

static void print_failure(const struct sim_case *c, const char *strategy, uint64_t seed,
                          const char *what)
{
    static struct sim_choice choices[SIM_CHOICES];
    static char text[SIM_CHOICES * 16];
    char why[400];
    unsigned nr;
    snprintf(why, sizeof(why), "%s", what);
    const struct sim_choice *log = sim_log(&nr);
    memcpy(choices, log, nr * sizeof(*choices));
    nr = sim_minimise(choices, nr);
    sim_print_choices(text, sizeof(text), choices, nr);
    printf("\nVIOLATION in case %s (%s), found by %s, seed %#" PRIx64 "\n  %s\n", c->name, c->what,
           strategy, seed, why);
    printf("  again: --case %s --replay \"%s\"\n\n", c->name, text);
    sim_on_event = sim_print_event;
    const char *bad = sim_replay(choices, nr);
    sim_on_event = NULL;
    printf("  %s\n", bad ? bad : "the replay does not fail: the machine is not deterministic");
}

static int replay(const struct sim_case *c)
{
    static struct sim_choice choices[SIM_CHOICES];
    const char *bad;
    int nr = sim_parse_choices(options.replay, choices, &bad);
    if (nr < 0) {
        fprintf(stderr, "--replay: want choices like 12>1 or 40h0, not: %s\n", bad);
        return 2;
    }
    if (!sim_case_load(c))
        return 3;
    sim_on_event = sim_print_event;
    const char *what = sim_replay(choices, (unsigned)nr);
    sim_on_event = NULL;
    printf("  %s\n", what ? what : "no violation");
    sim_case_unload();
    return what ? 1 : 0;
}

/* ---- one case -------------------------------------------------------------------------------- */

struct totals {
    uint64_t runs, distinct, longest_run, longest_op;
    double seconds;
};

/* Adds up what a search did; true: it has failed. */
static bool took(struct totals *t, const struct sim_case *c, const struct sim_search *s,
                 const char *strategy)
{
    t->runs += s->runs;
    t->distinct += s->distinct;
    if (s->longest_run > t->longest_run)
        t->longest_run = s->longest_run;
    if (s->longest_op > t->longest_op)
        t->longest_op = s->longest_op;
    if (s->failure)
        print_failure(c, strategy, s->seed, s->failure);
    return s->failure;
}

static bool spent(const struct totals *t, double start, const struct sim_search *s)
{
    return interrupted || (options.runs && t->runs >= options.runs) ||
           (options.count && t->distinct >= options.count) ||
           (options.seconds > 0 && clock_now() - start >= options.seconds) || s->failure;
}

static void limit(struct sim_search *s, const struct totals *t, double start, uint64_t runs)
{
    s->max_runs = options.runs && options.runs - t->runs < runs ? options.runs - t->runs : runs;
    s->max_distinct = options.count ? options.count - t->distinct : 0;
    s->max_seconds = options.seconds > 0 ? options.seconds - (clock_now() - start) : 0;
}

/*
 * Bounds 0, 1, … first, each at most a share of what is to be spent; then random schedules and PCT
 * in turns until it is spent.
 */
static bool explore(const struct sim_case *c, struct totals *t, char *proven, size_t size)
{
    unsigned bound = options.has_bound ? options.bound : c->bound ? c->bound : 3;
    double start = clock_now();
    struct sim_search s = {.stop = &interrupted, .seen = sim_set_make()};
    bool failed = !s.seen;
    uint64_t seed = options.seed;
    snprintf(proven, size, "-");
    limit(&s, t, start, 50); /* learn which places are shared */
    sim_search_random(&s, seed, 3);
    failed |= took(t, c, &s, "PCT, depth 3");
    for (unsigned k = 0; k <= bound && !failed && !spent(t, start, &s); k++) {
        char name[40];
        snprintf(name, sizeof(name), "all runs of bound %u", k);
        limit(&s, t, start, UINT64_MAX);
        if (s.max_seconds > 0)
            s.max_seconds *= 0.6;
        if (options.count)
            s.max_distinct = s.max_distinct * 6 / 10 + 1;
        if (options.runs)
            s.max_runs = s.max_runs * 6 / 10 + 1;
        sim_search_bounded(&s, k);
        failed = took(t, c, &s, name);
        if (s.complete)
            snprintf(proven, size, "%u", k);
        else
            break;
    }
    bool limited = options.runs || options.count || options.seconds > 0;
    while (limited && !failed && !spent(t, start, &s)) {
        static const unsigned depths[] = {0, 3, 0, 4, 0, 5};
        uint64_t before = t->distinct;
        for (unsigned i = 0; i < 6 && !failed && !spent(t, start, &s); i++) {
            char name[40];
            snprintf(name, sizeof(name), depths[i] ? "PCT, depth %u" : "random schedules",
                     depths[i]);
            limit(&s, t, start, 500);
            seed += 1000;
            sim_search_random(&s, seed, depths[i]);
            failed = took(t, c, &s, name);
        }
        if (t->distinct == before) /* there are no others */
            break;
    }
    t->seconds = clock_now() - start;
    sim_set_free(s.seen);
    return !failed;
}

static int run_case(const struct sim_case *c, struct totals *all)
{
    struct totals t = {0};
    char proven[8];
    if (!sim_case_load(c))
        return 3;
    printf("%-32s", c->name);
    fflush(stdout);
    bool ok = explore(c, &t, proven, sizeof(proven));
    sim_case_unload();
    printf("%10" PRIu64 " runs %10" PRIu64 " distinct %7.1f s  bound %s  longest run %6" PRIu64
           ", operation %6" PRIu64 "%s\n",
           t.runs, t.distinct, t.seconds, proven, t.longest_run, t.longest_op,
           ok ? "" : "  FAILED");
    fflush(stdout);
    all->runs += t.runs;
    all->distinct += t.distinct;
    all->seconds += t.seconds;
    if (t.longest_op > all->longest_op)
        all->longest_op = t.longest_op;
    return ok ? 0 : 1;
}

/* ---- many ------------------------------------------------------------------------------------ */

static bool wanted(const struct sim_case *c)
{
    if (!options.nr_names)
        return true;
    for (unsigned i = 0; i < options.nr_names; i++) {
        size_t n = strlen(options.names[i]);
        if (!strcmp(options.names[i], c->name) ||
            (n && options.names[i][n - 1] == '*' && !strncmp(options.names[i], c->name, n - 1)))
            return true;
    }
    return false;
}

static int for_all(void)
{
    struct totals all = {0};
    unsigned nr = 0;
    int status = 0;
    for (unsigned i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        for (const struct sim_case *c = tables[i]; c->name && !interrupted; c++) {
            if (!wanted(c))
                continue;
            nr++;
            if (options.list)
                printf("%-32s %s\n", c->name, c->what);
            else if (options.replay)
                return replay(c);
            else {
                int r = run_case(c, &all);
                status = r ? r : status;
                if (r && options.hunt)
                    return r;
            }
        }
    }
    if (!nr) {
        fprintf(stderr, "no such case; --list shows them\n");
        return 2;
    }
    if (!options.list)
        printf("%-32s%10" PRIu64 " runs %10" PRIu64 " distinct %7.1f s; longest operation %" PRIu64
               " accesses\n",
               "all", all.runs, all.distinct, all.seconds, all.longest_op);
    return interrupted ? 130 : status;
}

static uint64_t number(const char *option, const char *text)
{
    char *end;
    uint64_t v = text ? strtoull(text, &end, 0) : 0;
    if (!text || end == text || *end) {
        fprintf(stderr, "%s: want a number, not \"%s\"\n", option, text ? text : "");
        exit(2);
    }
    return v;
}

static void parse(int argc, char **argv)
{
    bool has_seed = false;
    for (int i = 1; i < argc; i++) {
        const char *o = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(o, "--list")) {
            options.list = true;
            continue;
        }
        if (!strcmp(o, "--hunt")) { /* stop at the first violation */
            options.hunt = true;
            continue;
        }
        i++;
        if (!strcmp(o, "--case") && v && options.nr_names < MOST_NAMES)
            options.names[options.nr_names++] = v;
        else if (!strcmp(o, "--bound")) {
            options.bound = (unsigned)number(o, v);
            options.has_bound = true;
        } else if (!strcmp(o, "--runs"))
            options.runs = test_effort(number(o, v));
        else if (!strcmp(o, "--count"))
            options.count = number(o, v);
        else if (!strcmp(o, "--seed"))
            options.seed = number(o, v), has_seed = true;
        else if (!strcmp(o, "--seconds"))
            options.seconds = (double)number(o, v);
        else if (!strcmp(o, "--replay") && v)
            options.replay = v;
        else {
            fprintf(stderr, "%s: unknown. Options: --list --case NAME --bound K --runs N --count N "
                            "--seconds S --seed S --hunt --replay CHOICES\n", o);
            exit(2);
        }
    }
    if (!options.runs && !options.count && options.seconds <= 0 && !options.has_bound)
        options.seconds = 3;
    if (!has_seed && !options.list)
        options.seed = test_seed();
}

int main(int argc, char **argv)
{
    parse(argc, argv);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    return for_all();
}
