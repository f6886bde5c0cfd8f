/* SPDX-License-Identifier: MIT */
/* A page of Markdown, and data for plots (bench_report.h). */
#include "bench_report.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ui.h"

#define MOST_ROWS 48u /* of a table of the page; of longer ones every so manieth is shown */

static const cJSON *member(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

static const char *text_of(const cJSON *object, const char *key)
{
    const cJSON *item = member(object, key);

    return cJSON_IsString(item) ? item->valuestring : "?";
}

static FILE *create(const char *path)
{
    FILE *to = fopen(path, "w");

    if (to == NULL)
        ui_error("bench: cannot write \"%s\": %s", path, strerror(errno));
    return to;
}

static bool finish(FILE *to, const char *path)
{
    bool good = ferror(to) == 0;

    good = fclose(to) == 0 && good;
    if (!good)
        ui_error("bench: cannot write \"%s\": %s", path, strerror(errno));
    return good;
}

/* The figure of a cell: a number, or the minimum of a lane; NULL if there is none. */
static const cJSON *figure_of(const cJSON *cell)
{
    if (cJSON_IsObject(cell))
        cell = member(cell, "cycles_min");
    return cJSON_IsNumber(cell) ? cell : NULL;
}

/* ---- data for plots -------------------------------------------------------------------------- */

static void write_columns(const cJSON *table, FILE *to)
{
    const cJSON *row, *cell;
    bool first = true;

    cJSON_ArrayForEach(row, member(table, "rows"))
    {
        if (first)
            cJSON_ArrayForEach(cell, row) fprintf(to, "%s ", cell->string);
        first = false;
        fputc('\n', to);
        cJSON_ArrayForEach(cell, row)
        {
            if (cJSON_IsString(cell))
                fprintf(to, "\"%s\" ", cell->valuestring);
            else if (figure_of(cell) != NULL)
                fprintf(to, "%.6g ", figure_of(cell)->valuedouble);
            else
                fputs("? ", to);
        }
    }
    fputc('\n', to);
}

bool bench_write_data(const cJSON *document, const char *folder)
{
    const cJSON *table;

    cJSON_ArrayForEach(table, member(document, "tables"))
    {
        char path[4096];
        FILE *to;

        snprintf(path, sizeof(path), "%s/%s.dat", folder, text_of(table, "name"));
        to = create(path);
        if (to == NULL)
            return false;
        write_columns(table, to);
        if (!finish(to, path))
            return false;
    }
    return true;
}

/* ---- the page -------------------------------------------------------------------------------- */

static void write_machine(const cJSON *document, FILE *to)
{
    const cJSON *machine = member(document, "machine"), *word;
    double ghz = 0;

    if (cJSON_IsNumber(member(machine, "clock_ghz")))
        ghz = member(machine, "clock_ghz")->valuedouble;
    fprintf(to, "# Results of `deckle bench`\n\n");
    fprintf(to, "%s, %d CPUs, %s; Linux %s %s; Deckle %s, %s.\n", text_of(machine, "cpu"),
            cJSON_GetArraySize(member(machine, "cpus")), text_of(machine, "memory"),
            text_of(machine, "kernel"), text_of(machine, "architecture"),
            text_of(machine, "deckle"), text_of(machine, "compiler"));
    fprintf(to, "A cycle is a tick of %s at %.3f GHz; figures are minima of the repetitions.\n",
            text_of(machine, "clock"), ghz);
    fprintf(to, "Command: `");
    cJSON_ArrayForEach(word, member(machine, "command"))
        fprintf(to, "%s%s", word->prev->next != NULL ? " " : "", word->valuestring);
    fprintf(to, "`\n\nWhat the shapes and columns mean: docs/performance.md.\n");
}

static void write_goals(const cJSON *document, FILE *to)
{
    const cJSON *table, *goal;

    fprintf(to, "\n## Goals\n\n| table | figure | goal | measured | |\n|---|---|---|---|---|\n");
    cJSON_ArrayForEach(table, member(document, "tables"))
    {
        cJSON_ArrayForEach(goal, member(table, "goals"))
        {
            const cJSON *value = member(goal, "value"), *wanted = member(goal, "wanted");

            fprintf(to, "| %s | %s | %s %.5g | ", text_of(table, "name"), text_of(goal, "goal"),
                    text_of(goal, "bound"), wanted != NULL ? wanted->valuedouble : 0);
            if (cJSON_IsNumber(value))
                fprintf(to, "%.4g | %s |\n", value->valuedouble,
                        cJSON_IsTrue(member(goal, "met")) ? "met" : "**not met**");
            else
                fprintf(to, "- | not measured |\n");
        }
    }
}

static void write_cell(const cJSON *cell, FILE *to)
{
    const cJSON *figure = figure_of(cell);

    if (cJSON_IsString(cell))
        fprintf(to, " %s |", cell->valuestring);
    else if (figure == NULL)
        fprintf(to, " - |");
    else if (!cJSON_IsObject(cell))
        fprintf(to, fabs(figure->valuedouble) < 1e4 ? " %.4g |" : " %.0f |", figure->valuedouble);
    else if (figure->valuedouble >= 99.95)
        fprintf(to, " %.0f |", figure->valuedouble);
    else
        fprintf(to, " %.1f |", figure->valuedouble);
}

static void write_table(const cJSON *table, FILE *to)
{
    unsigned nr = (unsigned)cJSON_GetArraySize(member(table, "rows")), at = 0;
    unsigned step = (nr + MOST_ROWS - 1) / MOST_ROWS;
    const cJSON *row, *cell, *note;

    if (nr == 0)
        return;
    fprintf(to, "\n## %s\n\n%s.\n\n|", text_of(table, "name"), text_of(table, "caption"));
    row = cJSON_GetArrayItem(member(table, "rows"), 0);
    cJSON_ArrayForEach(cell, row) fprintf(to, " %s |", cell->string);
    fprintf(to, "\n|");
    cJSON_ArrayForEach(cell, row) fprintf(to, "---|");
    fputc('\n', to);
    cJSON_ArrayForEach(row, member(table, "rows"))
    {
        if (at++ % step != 0 && at != nr)
            continue;
        fputc('|', to);
        cJSON_ArrayForEach(cell, row) write_cell(cell, to);
        fputc('\n', to);
    }
    fputc('\n', to);
    cJSON_ArrayForEach(note, member(table, "notes")) fprintf(to, "%s.\n", note->valuestring);
}

/* The others say the same of other orders, or are better as a plot: they are in the JSON. */
static bool is_on_page(const char *name)
{
    static const char *const shown[] = {"pair",
                                        "batch-alloc-odr0",
                                        "batch-free-odr0",
                                        "bulk-alloc",
                                        "bulk-free",
                                        "handoff",
                                        "random-table",
                                        "random-free",
                                        "fragment-requests",
                                        "fragment-order3",
                                        "fault",
                                        "memory",
                                        "create",
                                        "ablation",
                                        "peers-pair",
                                        "peers-batch-alloc",
                                        "peers-batch-free",
                                        "peers-mixed"};

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        if (strcmp(name, shown[i]) == 0)
            return true;
    return false;
}

bool bench_write_page(const cJSON *document, const char *path)
{
    FILE *to = create(path);
    const cJSON *table;

    if (to == NULL)
        return false;
    write_machine(document, to);
    write_goals(document, to);
    cJSON_ArrayForEach(table, member(document, "tables"))
    {
        if (is_on_page(text_of(table, "name")))
            write_table(table, to);
    }
    return finish(to, path);
}
