/* SPDX-License-Identifier: MIT */
/* deckle tune: the tunables of a shared pool, by their Linux names. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <deckle/pressure.h>

#include "shared_pool.h"
#include "ui.h"

int cmd_tune(int argc, char **argv);

enum { OPTION_LIST = SHARED_OTHER };

static void help(void)
{
    puts("Usage: deckle tune FILE [NAME | NAME=VALUE[,VALUE]...]...\n"
         "   or: deckle tune --list\n"
         "Print the tunables of the shared pool in FILE, or those named, and set those with a "
         "value.\n"
         "Names and units are those of vm.* under Linux. All values are checked before the first "
         "is set.\n\n"
         "      --list    what there is to tune: ranges, defaults, meanings\n"
         "      --json    print as JSON\n"
         "      --help    print this");
}

static const struct option options[] = {
    {"list", no_argument, NULL, OPTION_LIST},
    {"json", no_argument, NULL, SHARED_JSON},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

/* What one argument asks for. nr 0: only to be printed. */
struct wish {
    struct deckle_tunable what;
    uint64_t values[DECKLE_TUNABLE_MAX_VALUES];
    uint32_t nr;
};

/* ---- arguments ------------------------------------------------------------------------------- */

static bool find(const char *name, size_t length, struct deckle_tunable *out)
{
    for (uint32_t i = 0;; i++) {
        *out = (struct deckle_tunable){.size = sizeof(*out)};
        if (deckle_tunable_info(i, out))
            break;
        if (strlen(out->name) == length && !memcmp(out->name, name, length))
            return true;
    }
    ui_error("%.*s: no such tunable; deckle tune --list names them", (int)length, name);
    return false;
}

/* One number at *at, which is moved behind it. */
static bool read_value(const struct deckle_tunable *what, const char **at, uint64_t *value)
{
    char *end;

    errno = 0;
    *value = **at >= '0' && **at <= '9' ? strtoull(*at, &end, 10) : 0;
    if (**at < '0' || **at > '9' || errno || (*end && *end != ',') || *value < what->min ||
        *value > what->max) {
        ui_error("%s=%s: want a number from %" PRIu64 " to %" PRIu64, what->name, *at, what->min,
                 what->max);
        return false;
    }
    *at = *end ? end + 1 : end;
    return true;
}

static bool read_values(const char *at, struct wish *wish)
{
    bool more = true;

    for (wish->nr = 0; more && wish->nr < wish->what.nr_values; wish->nr++) {
        if (!read_value(&wish->what, &at, &wish->values[wish->nr]))
            return false;
        more = *at || at[-1] == ',';
    }
    if (!more && wish->nr == wish->what.nr_values)
        return true;
    ui_error("%s takes %" PRIu32 " value%s", wish->what.name, wish->what.nr_values,
             wish->what.nr_values == 1 ? "" : "s, with commas between");
    return false;
}

static bool read_wish(const char *text, struct wish *wish)
{
    const char *value = strchr(text, '=');

    wish->nr = 0;
    return find(text, value ? (size_t)(value - text) : strlen(text), &wish->what) &&
           (!value || read_values(value + 1, wish));
}

/* ---- printing -------------------------------------------------------------------------------- */

static void add_numbers(cJSON *object, const char *key, const uint64_t *values, uint32_t nr)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);

    for (uint32_t i = 0; i < nr; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)values[i]));
}

static void print_values(const char *name, const uint64_t *values, uint32_t nr)
{
    printf("%s =", name);
    for (uint32_t i = 0; i < nr; i++)
        printf("%c%" PRIu64, i ? ',' : ' ', values[i]);
    putchar('\n');
}

static void show(const struct deckle *d, const struct deckle_tunable *what, cJSON *list)
{
    uint64_t values[DECKLE_TUNABLE_MAX_VALUES];
    int nr = deckle_tunable_get(d, what->name, values, DECKLE_TUNABLE_MAX_VALUES);

    if (nr < 0)
        return; /* write only */
    if (list)
        add_numbers(list, what->name, values, (uint32_t)nr);
    else
        print_values(what->name, values, (uint32_t)nr);
}

static int list_all(bool json)
{
    cJSON *document = json_document("tunables", 1), *array;
    struct ui_table *table = ui_table_new("lrrl");

    array = cJSON_AddArrayToObject(document, "tunables");
    ui_table_row(table, "name", "range", "default", "meaning");
    for (uint32_t i = 0;; i++) {
        struct deckle_tunable t = {.size = sizeof(t)};
        char range[64], initial[64] = "-", meaning[200];
        cJSON *object;

        if (deckle_tunable_info(i, &t))
            break;
        snprintf(range, sizeof(range), "%" PRIu64 " to %" PRIu64, t.min, t.max);
        if (!(t.flags & DECKLE_TUNABLE_WRITE_ONLY))
            snprintf(initial, sizeof(initial), "%" PRIu64 "%s", t.initial[0],
                     t.nr_values > 1 ? ", …" : "");
        snprintf(meaning, sizeof(meaning), "%s (%s)", t.what, t.unit);
        ui_table_row(table, t.name, range, initial, meaning);
        cJSON_AddItemToArray(array, object = cJSON_CreateObject());
        cJSON_AddStringToObject(object, "name", t.name);
        cJSON_AddStringToObject(object, "unit", t.unit);
        cJSON_AddStringToObject(object, "what", t.what);
        json_add_u64(object, "values", t.nr_values);
        json_add_u64(object, "min", t.min);
        json_add_u64(object, "max", t.max);
        cJSON_AddBoolToObject(object, "write_only", t.flags & DECKLE_TUNABLE_WRITE_ONLY);
        add_numbers(object, "default", t.initial, t.nr_values);
    }
    if (json)
        json_write(document, "-");
    else
        ui_table_print(table, stdout, 0, true);
    cJSON_Delete(document);
    ui_table_free(table);
    return UI_OK;
}

/* ---- a pool ---------------------------------------------------------------------------------- */

static int set_all(struct deckle *d, const struct wish *wishes, int nr)
{
    for (int i = 0; i < nr; i++) {
        const struct wish *w = &wishes[i];
        int error = w->nr ? deckle_tunable_set(d, w->what.name, w->values, w->nr) : DECKLE_OK;

        if (error) {
            ui_error("%s: %s; what stands before it has been set", w->what.name,
                     deckle_strerror(error));
            return UI_BAD_INPUT;
        }
    }
    return UI_OK;
}

static void show_all(const struct deckle *d, const struct wish *wishes, int nr, cJSON *list)
{
    struct deckle_tunable t = {.size = sizeof(t)};

    for (uint32_t i = 0; !nr && !deckle_tunable_info(i, &t); i++)
        show(d, &t, list);
    for (int i = 0; i < nr; i++)
        show(d, &wishes[i].what, list);
}

static int tune(const char *file, const struct wish *wishes, int nr, bool json)
{
    struct deckle *d = NULL;
    cJSON *document, *list = NULL;
    bool write = false;
    int status;

    for (int i = 0; i < nr; i++)
        write |= wishes[i].nr != 0;
    if (shared_open(file, write ? 0 : DECKLE_OPEN_READ_ONLY, &d))
        return UI_BAD_INPUT;
    document = json_document("tune", 1);
    cJSON_AddStringToObject(document, "file", file);
    if (json)
        list = json_add_object(document, "values");
    status = set_all(d, wishes, nr);
    if (status == UI_OK)
        show_all(d, wishes, nr, list);
    if (json && status == UI_OK)
        json_write(document, "-");
    cJSON_Delete(document);
    deckle_destroy(d);
    return status;
}

int cmd_tune(int argc, char **argv)
{
    bool json = false, list = false;
    struct wish *wishes;
    int option, nr, status = UI_BAD_INPUT;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        }
        if (option != SHARED_JSON && option != OPTION_LIST)
            return ui_usage("tune");
        json |= option == SHARED_JSON;
        list |= option == OPTION_LIST;
    }
    if (list && optind == argc)
        return list_all(json);
    if (list || optind == argc) {
        ui_error(list ? "--list takes no file" : "want the FILE of a shared pool, or --list");
        return ui_usage("tune");
    }
    nr = argc - optind - 1;
    wishes = calloc((size_t)nr + 1, sizeof(*wishes));
    if (!wishes) {
        ui_error("no memory for %d arguments", nr);
        return UI_BAD_INPUT;
    }
    for (int i = 0; i <= nr; i++)
        if (i == nr)
            status = tune(argv[optind], wishes, nr, json);
        else if (!read_wish(argv[optind + 1 + i], &wishes[i]))
            break;
    free(wishes);
    return status;
}
