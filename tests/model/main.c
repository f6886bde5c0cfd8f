/* SPDX-License-Identifier: MIT */
/*
 * The protocols of the pageblocks, the index and the per-CPU caches, explored exhaustively in small
 * (checker.h says how, docs/design/protocols.md what it means).
 *
 *   test_model                   every case, then every planted bug in the case that must refuse it
 *   test_model --long            the large cases too
 *   test_model --list            what there is
 *   test_model CASE [BUG]        one case, or one with the bug of this number; prints the shortest
 * way to the forbidden state
 *
 * Exit status: 0 all cases hold and all harmful bugs are found; 1 not so; 2 usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cells.h"
#include "rseq.h"
#include "zone.h"

enum family { ZONE, RSEQ, CELLS, FAMILIES };

static unsigned case_count(enum family f)
{
    return f == ZONE ? zone_case_count : f == RSEQ ? rseq_case_count : cells_case_count;
}

static unsigned plant_count(enum family f)
{
    return f == ZONE ? zone_plant_count : f == RSEQ ? rseq_plant_count : cells_plant_count;
}

static const struct plant *plants(enum family f)
{
    return f == ZONE ? zone_plants : f == RSEQ ? rseq_plants : cells_plants;
}

static const char *case_name(enum family f, unsigned i)
{
    return f == ZONE ? zone_cases[i].name : f == RSEQ ? rseq_cases[i].name : cells_cases[i].name;
}

static const char *case_says(enum family f, unsigned i)
{
    return f == ZONE ? zone_cases[i].says : f == RSEQ ? rseq_cases[i].says : cells_cases[i].says;
}

static void set_up(enum family f, unsigned i, unsigned bug, struct model *m)
{
    if (f == ZONE)
        zone_setup(&zone_cases[i], (enum zone_bug)bug, m);
    else if (f == RSEQ)
        rseq_setup(&rseq_cases[i], (enum rseq_bug)bug, m);
    else
        cells_setup(&cells_cases[i], (enum cells_bug)bug, m);
}

static bool is_long(const char *name)
{
    return !strncmp(name, "long.", 5);
}

static bool find_case(const char *name, enum family *f, unsigned *i)
{
    for (*f = ZONE; *f < FAMILIES; (*f)++)
        for (*i = 0; *i < case_count(*f); (*i)++)
            if (!strcmp(case_name(*f, *i), name))
                return true;
    return false;
}

/* Each prints one line; true when the result is the wanted one. */
static bool run_case(enum family f, unsigned i, unsigned bug, bool trace)
{
    struct model m;
    struct outcome o;
    clock_t start = clock();
    set_up(f, i, bug, &m);
    model_explore(&m, &o, trace);
    printf("%-14s %8u states %9llu steps  depth %3u  %5.2f s  %s%s%s\n", case_name(f, i), o.states,
           (unsigned long long)o.steps, o.depth, (double)(clock() - start) / CLOCKS_PER_SEC,
           o.full    ? "TOO MANY STATES"
           : o.found ? "FORBIDDEN: "
                     : "holds",
           o.message, o.found && !trace ? " (run this case alone to see how)" : "");
    fflush(stdout);
    return !o.found && !o.full;
}

static bool run_plant(enum family f, const struct plant *p)
{
    enum family in;
    unsigned i;
    struct model m;
    struct outcome o;
    if (!find_case(p->in, &in, &i) || in != f) {
        printf("planted bug \"%s\": no case %s\n", p->name, p->in);
        return false;
    }
    set_up(f, i, p->bug, &m);
    model_explore(&m, &o, false);
    bool right = !o.full && o.found == p->harmful;
    printf("%-14s %-50s %s\n", p->in, p->name,
           !right    ? "NOT AS EXPECTED"
           : o.found ? o.message
                     : "holds, as it should");
    fflush(stdout);
    return right;
}

static int run_all(bool long_too)
{
    unsigned failed = 0, cases = 0, bugs = 0;
    for (enum family f = ZONE; f < FAMILIES; f++)
        for (unsigned i = 0; i < case_count(f); i++) {
            if (is_long(case_name(f, i)) && !long_too)
                continue;
            cases++;
            failed += !run_case(f, i, 0, false);
        }
    printf("\nSimpler protocols, and how each fails:\n");
    for (enum family f = ZONE; f < FAMILIES; f++)
        for (unsigned i = 0; i < plant_count(f); i++) {
            bugs++;
            failed += !run_plant(f, &plants(f)[i]);
        }
    printf("\n%u cases, %u variants, %u not as expected\n", cases, bugs, failed);
    return failed != 0;
}

static int list(void)
{
    for (enum family f = ZONE; f < FAMILIES; f++) {
        for (unsigned i = 0; i < case_count(f); i++)
            printf("%-14s %s\n", case_name(f, i), case_says(f, i));
        for (unsigned i = 0; i < plant_count(f); i++)
            printf("  %s %u: %s%s\n", plants(f)[i].in, plants(f)[i].bug, plants(f)[i].name,
                   plants(f)[i].harmful ? "" : " (holds)");
    }
    return 0;
}

int main(int argc, char **argv)
{
    enum family f;
    unsigned i;
    if (argc == 1)
        return run_all(false);
    if (argc == 2 && !strcmp(argv[1], "--long"))
        return run_all(true);
    if (argc == 2 && !strcmp(argv[1], "--list"))
        return list();
    if (argc > 3 || !find_case(argv[1], &f, &i)) {
        fprintf(stderr,
                "usage: test_model [--long | --list | CASE [BUG]]\n"
                "test_model: %s is no case; --list shows them\n",
                argv[1]);
        return 2;
    }
    return !run_case(f, i, argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0, true);
}
