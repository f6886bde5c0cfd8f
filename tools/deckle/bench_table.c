/* SPDX-License-Identifier: MIT */
/*
 * Tables of results (bench_table.h).
 *
 * Printing works on text: every cell of a column becomes up to four strings, the widths follow from
 * all of them, and the same function that made the strings prints them. Numbers below 100 have one
 * decimal, larger ones none: the third digit of a figure is noise.
 */
#include "bench_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ui.h"

#define MAX_PARTS 5u
#define PART_SIZE 48u

struct bench_cell {
    bool set;
    uint64_t count;
    double number;
    char *text;
    struct bench_samples *samples;
};

struct bench_goal {
    char *text;
    enum bench_bound bound;
    double wanted, value;
};

struct bench_table {
    char *name, *caption;
    unsigned nr_columns, nr_rows, room;
    struct bench_column columns[BENCH_MAX_COLUMNS];
    struct bench_cell *cells; /* room x BENCH_MAX_COLUMNS */
    char **notes;
    unsigned nr_notes;
    struct bench_goal *goals;
    unsigned nr_goals;
};

void *bench_zalloc(size_t n)
{
    void *memory = calloc(1, n > 0 ? n : 1);

    if (memory == NULL) {
        ui_error("bench: no memory for %zu bytes", n);
        exit(UI_MISSING);
    }
    return memory;
}

static char *copy_text(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = bench_zalloc(size);

    memcpy(copy, text, size);
    return copy;
}

static struct bench_cell *cell_at(const struct bench_table *table, unsigned row, unsigned column)
{
    return &table->cells[(size_t)row * BENCH_MAX_COLUMNS + column];
}

/* ---- filling --------------------------------------------------------------------------------- */

struct bench_table *bench_table_create(const char *name, const char *caption)
{
    struct bench_table *table = bench_zalloc(sizeof(*table));

    table->name = copy_text(name);
    table->caption = copy_text(caption);
    return table;
}

void bench_table_destroy(struct bench_table *table)
{
    if (table == NULL)
        return;
    for (unsigned row = 0; row < table->nr_rows; row++) {
        for (unsigned column = 0; column < table->nr_columns; column++) {
            free(cell_at(table, row, column)->text);
            free(cell_at(table, row, column)->samples);
        }
    }
    for (unsigned i = 0; i < table->nr_notes; i++)
        free(table->notes[i]);
    free(table->notes);
    for (unsigned i = 0; i < table->nr_goals; i++)
        free(table->goals[i].text);
    free(table->goals);
    free(table->cells);
    free(table->caption);
    free(table->name);
    free(table);
}

unsigned bench_table_add_column(struct bench_table *table, struct bench_column column)
{
    if (table->nr_columns == BENCH_MAX_COLUMNS)
        abort();
    table->columns[table->nr_columns] = column;
    return table->nr_columns++;
}

unsigned bench_table_add_row(struct bench_table *table)
{
    if (table->nr_rows == table->room) {
        unsigned room = table->room > 0 ? 2 * table->room : 16;
        size_t row_bytes = BENCH_MAX_COLUMNS * sizeof(struct bench_cell);
        struct bench_cell *cells = bench_zalloc(room * row_bytes);

        if (table->nr_rows > 0)
            memcpy(cells, table->cells, table->nr_rows * row_bytes);
        free(table->cells);
        table->cells = cells;
        table->room = room;
    }
    return table->nr_rows++;
}

unsigned bench_table_rows(const struct bench_table *table)
{
    return table->nr_rows;
}

void bench_table_set_count(struct bench_table *table, unsigned row, unsigned column, uint64_t count)
{
    struct bench_cell *cell = cell_at(table, row, column);

    cell->set = true;
    cell->count = count;
}

void bench_table_set_number(struct bench_table *table, unsigned row, unsigned column, double number)
{
    struct bench_cell *cell = cell_at(table, row, column);

    cell->set = !isnan(number);
    cell->number = number;
}

void bench_table_set_text(struct bench_table *table, unsigned row, unsigned column,
                          const char *text)
{
    struct bench_cell *cell = cell_at(table, row, column);

    free(cell->text);
    cell->set = true;
    cell->text = copy_text(text);
}

void bench_table_sample(struct bench_table *table, unsigned row, unsigned column, double cycles)
{
    struct bench_cell *cell = cell_at(table, row, column);

    if (cell->samples == NULL)
        cell->samples = bench_zalloc(sizeof(*cell->samples));
    bench_samples_add(cell->samples, cycles);
    cell->set = cell->samples->nr > 0;
}

double bench_table_min(const struct bench_table *table, unsigned row, unsigned column)
{
    const struct bench_cell *cell = cell_at(table, row, column);

    return cell->samples != NULL ? bench_samples_min(cell->samples) : NAN;
}

void bench_table_note(struct bench_table *table, const char *format, ...)
{
    char **notes = bench_zalloc((table->nr_notes + 1) * sizeof(*notes));
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (table->nr_notes > 0)
        memcpy(notes, table->notes, table->nr_notes * sizeof(*notes));
    free(table->notes);
    table->notes = notes;
    table->notes[table->nr_notes++] = copy_text(line);
}

/* ---- goals ----------------------------------------------------------------------------------- */

void bench_table_goal(struct bench_table *table, enum bench_bound bound, double wanted,
                      double value, const char *format, ...)
{
    size_t bytes = (table->nr_goals + 1) * sizeof(*table->goals);
    struct bench_goal *goals = bench_zalloc(bytes);
    char text[256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (table->nr_goals > 0)
        memcpy(goals, table->goals, table->nr_goals * sizeof(*goals));
    free(table->goals);
    table->goals = goals;
    goals[table->nr_goals++] = (struct bench_goal){copy_text(text), bound, wanted, value};
}

void bench_worst_add(struct bench_worst *worst, double value, const char *format, ...)
{
    va_list args;

    if (isnan(value) || value <= worst->value) /* nothing compares with NaN */
        return;
    worst->value = value;
    va_start(args, format);
    vsnprintf(worst->where, sizeof(worst->where), format, args);
    va_end(args);
}

static bool goal_met(const struct bench_goal *goal)
{
    return goal->bound == BENCH_AT_MOST ? goal->value <= goal->wanted : goal->value >= goal->wanted;
}

static void print_goals(const struct bench_table *table, FILE *to)
{
    for (unsigned i = 0; i < table->nr_goals; i++) {
        const struct bench_goal *goal = &table->goals[i];

        fprintf(to, "  goal: %s %s %.5g: ", goal->text,
                goal->bound == BENCH_AT_MOST ? "at most" : "at least", goal->wanted);
        if (isnan(goal->value))
            fprintf(to, "not measured\n");
        else
            fprintf(to, "%.4g, %s\n", goal->value, goal_met(goal) ? "met" : "NOT met");
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

static void format_number(char part[PART_SIZE], double number, unsigned decimals)
{
    if (isnan(number))
        snprintf(part, PART_SIZE, "-");
    else
        snprintf(part, PART_SIZE, "%.*f", (int)decimals, number);
}

static void format_figure(char part[PART_SIZE], double number)
{
    format_number(part, number, number < 99.95 ? 1 : 0);
}

/* The headers of a column's parts; returns how many parts it has. */
static unsigned part_names(const struct bench_column *column, const char *names[MAX_PARTS])
{
    unsigned nr = 0;

    if (column->kind != BENCH_COLUMN_CYCLES) {
        names[0] = column->name;
        return 1;
    }
    names[nr++] = "min";
    if (column->show & BENCH_SHOW_MEDIAN)
        names[nr++] = "med";
    if (column->show & BENCH_SHOW_NS)
        names[nr++] = "ns";
    if (column->show & BENCH_SHOW_NS_MED)
        names[nr++] = "med";
    if (column->show & BENCH_SHOW_RATIO)
        names[nr++] = "ratio";
    return nr;
}

static void format_cycles(const struct bench_table *table, unsigned row, unsigned index, double ghz,
                          char parts[MAX_PARTS][PART_SIZE])
{
    const struct bench_column *column = &table->columns[index];
    const struct bench_cell *cell = cell_at(table, row, index);
    double least = bench_table_min(table, row, index);
    double median = cell->samples != NULL ? bench_samples_median(cell->samples) : NAN;
    unsigned nr = 0;

    format_figure(parts[nr++], least);
    if (column->show & BENCH_SHOW_MEDIAN)
        format_figure(parts[nr++], median);
    if (column->show & BENCH_SHOW_NS)
        format_figure(parts[nr++], least / ghz);
    if (column->show & BENCH_SHOW_NS_MED)
        format_figure(parts[nr++], median / ghz);
    if (column->show & BENCH_SHOW_RATIO) {
        double base =
            column->ratio_to >= 0 ? bench_table_min(table, row, (unsigned)column->ratio_to) : NAN;

        format_number(parts[nr], bench_ratio(least, base), 2);
    }
}

static void format_cell(const struct bench_table *table, unsigned row, unsigned index, double ghz,
                        char parts[MAX_PARTS][PART_SIZE])
{
    const struct bench_cell *cell = cell_at(table, row, index);

    switch (table->columns[index].kind) {
    case BENCH_COLUMN_CYCLES:
        format_cycles(table, row, index, ghz, parts);
        return;
    case BENCH_COLUMN_COUNT:
        if (cell->set)
            snprintf(parts[0], PART_SIZE, "%" PRIu64, cell->count);
        else
            snprintf(parts[0], PART_SIZE, "-");
        return;
    case BENCH_COLUMN_BYTES:
        if (cell->set)
            ui_bytes(parts[0], cell->count);
        else
            snprintf(parts[0], PART_SIZE, "-");
        return;
    case BENCH_COLUMN_NUMBER:
        format_number(parts[0], cell->set ? cell->number : NAN, table->columns[index].decimals);
        return;
    case BENCH_COLUMN_TEXT:
        snprintf(parts[0], PART_SIZE, "%s", cell->set ? cell->text : "-");
        return;
    }
}

static void measure_column(const struct bench_table *table, unsigned index, double ghz,
                           unsigned widths[MAX_PARTS])
{
    const struct bench_column *column = &table->columns[index];
    const char *names[MAX_PARTS];
    unsigned nr = part_names(column, names), total = 0;

    for (unsigned part = 0; part < nr; part++)
        widths[part] = (unsigned)strlen(names[part]);
    for (unsigned row = 0; row < table->nr_rows; row++) {
        char parts[MAX_PARTS][PART_SIZE];

        format_cell(table, row, index, ghz, parts);
        for (unsigned part = 0; part < nr; part++)
            if (strlen(parts[part]) > widths[part])
                widths[part] = (unsigned)strlen(parts[part]);
    }
    for (unsigned part = 0; part < nr; part++)
        total += widths[part] + (part > 0 ? 1 : 0);
    if (total < strlen(column->name)) /* the group's name stands above its parts */
        widths[0] += (unsigned)strlen(column->name) - total;
}

/* Columns are two spaces apart, the parts of one column a single space. */
static void print_part(FILE *to, const struct bench_column *column, unsigned part, unsigned width,
                       const char *text)
{
    fputs(part > 0 ? " " : "  ", to);
    if (column->kind == BENCH_COLUMN_TEXT)
        fprintf(to, "%-*s", (int)width, text);
    else
        fprintf(to, "%*s", (int)width, text);
}

static void print_head(const struct bench_table *table, FILE *to,
                       unsigned widths[BENCH_MAX_COLUMNS][MAX_PARTS])
{
    bool groups = false;

    for (unsigned index = 0; index < table->nr_columns; index++)
        groups = groups || table->columns[index].kind == BENCH_COLUMN_CYCLES;
    for (unsigned line = groups ? 0 : 1; line < 2; line++) {
        for (unsigned index = 0; index < table->nr_columns; index++) {
            const struct bench_column *column = &table->columns[index];
            const char *names[MAX_PARTS];
            unsigned nr = part_names(column, names), total = 0;

            for (unsigned part = 0; part < nr; part++)
                total += widths[index][part] + (part > 0 ? 1 : 0);
            if (line == 0)
                fprintf(to, "  %*s", (int)total,
                        column->kind == BENCH_COLUMN_CYCLES ? column->name : "");
            for (unsigned part = 0; line == 1 && part < nr; part++)
                print_part(to, column, part, widths[index][part], names[part]);
        }
        fputc('\n', to);
    }
}

void bench_table_print(const struct bench_table *table, FILE *to, double ghz)
{
    unsigned widths[BENCH_MAX_COLUMNS][MAX_PARTS];

    for (unsigned index = 0; index < table->nr_columns; index++)
        measure_column(table, index, ghz, widths[index]);
    fprintf(to, "%s\n", table->caption);
    print_head(table, to, widths);
    for (unsigned row = 0; row < table->nr_rows; row++) {
        for (unsigned index = 0; index < table->nr_columns; index++) {
            const struct bench_column *column = &table->columns[index];
            const char *names[MAX_PARTS];
            unsigned nr = part_names(column, names);
            char parts[MAX_PARTS][PART_SIZE];

            format_cell(table, row, index, ghz, parts);
            for (unsigned part = 0; part < nr; part++)
                print_part(to, column, part, widths[index][part], parts[part]);
        }
        fputc('\n', to);
    }
    for (unsigned i = 0; i < table->nr_notes; i++)
        fprintf(to, "  %s\n", table->notes[i]);
    print_goals(table, to);
    fputc('\n', to);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void add_number(cJSON *object, const char *key, double number)
{
    if (isnan(number))
        cJSON_AddNullToObject(object, key);
    else /* digits beyond a thousandth of a cycle are noise that would make files differ */
        cJSON_AddNumberToObject(object, key, round(number * 1000) / 1000);
}

static cJSON *cycles_json(const struct bench_table *table, unsigned row, unsigned index, double ghz)
{
    const struct bench_column *column = &table->columns[index];
    const struct bench_cell *cell = cell_at(table, row, index);
    double least = bench_table_min(table, row, index), median;
    cJSON *object;

    if (!cell->set)
        return cJSON_CreateNull();
    median = bench_samples_median(cell->samples);
    object = cJSON_CreateObject();
    add_number(object, "cycles_min", least);
    add_number(object, "cycles_median", median);
    add_number(object, "ns_min", least / ghz);
    add_number(object, "ns_median", median / ghz);
    if (column->ratio_to >= 0) {
        unsigned base = (unsigned)column->ratio_to;

        add_number(object, "ratio", bench_ratio(least, bench_table_min(table, row, base)));
    }
    cJSON_AddNumberToObject(object, "samples", cell->samples->nr);
    return object;
}

static const char *column_key(const struct bench_column *column, char buffer[PART_SIZE])
{
    if (column->key != NULL)
        return column->key;
    snprintf(buffer, PART_SIZE, "%s", column->name);
    for (char *c = buffer; *c != '\0'; c++)
        if (*c == '-' || *c == ' ')
            *c = '_';
    return buffer;
}

static cJSON *cell_json(const struct bench_table *table, unsigned row, unsigned index, double ghz)
{
    const struct bench_cell *cell = cell_at(table, row, index);

    if (!cell->set)
        return cJSON_CreateNull();
    switch (table->columns[index].kind) {
    case BENCH_COLUMN_COUNT:
    case BENCH_COLUMN_BYTES:
        return cJSON_CreateNumber((double)cell->count);
    case BENCH_COLUMN_NUMBER:
        return cJSON_CreateNumber(round(cell->number * 1e6) / 1e6);
    case BENCH_COLUMN_TEXT:
        return cJSON_CreateString(cell->text);
    case BENCH_COLUMN_CYCLES:
        break;
    }
    return cycles_json(table, row, index, ghz);
}

static void add_goals(const struct bench_table *table, cJSON *object)
{
    cJSON *goals = cJSON_AddArrayToObject(object, "goals");

    for (unsigned i = 0; i < table->nr_goals; i++) {
        const struct bench_goal *goal = &table->goals[i];
        cJSON *item = cJSON_CreateObject();

        cJSON_AddStringToObject(item, "goal", goal->text);
        cJSON_AddStringToObject(item, "bound",
                                goal->bound == BENCH_AT_MOST ? "at most" : "at least");
        cJSON_AddNumberToObject(item, "wanted", goal->wanted);
        add_number(item, "value", goal->value);
        cJSON_AddItemToObject(item, "met",
                              isnan(goal->value) ? cJSON_CreateNull()
                                                 : cJSON_CreateBool(goal_met(goal)));
        cJSON_AddItemToArray(goals, item);
    }
}

cJSON *bench_table_json(const struct bench_table *table, double ghz)
{
    cJSON *object = cJSON_CreateObject();
    cJSON *rows, *notes;

    cJSON_AddStringToObject(object, "name", table->name);
    cJSON_AddStringToObject(object, "caption", table->caption);
    rows = cJSON_AddArrayToObject(object, "rows");
    for (unsigned row = 0; row < table->nr_rows; row++) {
        cJSON *line = cJSON_CreateObject();

        for (unsigned index = 0; index < table->nr_columns; index++) {
            char key[PART_SIZE];

            cJSON_AddItemToObject(line, column_key(&table->columns[index], key),
                                  cell_json(table, row, index, ghz));
        }
        cJSON_AddItemToArray(rows, line);
    }
    notes = cJSON_AddArrayToObject(object, "notes");
    for (unsigned i = 0; i < table->nr_notes; i++)
        cJSON_AddItemToArray(notes, cJSON_CreateString(table->notes[i]));
    add_goals(table, object);
    return object;
}
