/* SPDX-License-Identifier: MIT */
/* deckle clients: who uses a shared pool, and what they hold. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>

#include "shared_pool.h"
#include "ui.h"

int cmd_clients(int argc, char **argv);

static void help(void)
{
    puts("Usage: deckle clients [OPTION]... FILE\n"
         "List the clients of the shared pool in FILE: processes that have opened it, and dead "
         "ones\n"
         "that have not been reaped. FILE is only read.\n\n"
         "      --json    print the list as JSON\n"
         "      --help    print this");
}

static const struct option options[] = {
    {"json", no_argument, NULL, SHARED_JSON},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

static void add_row(struct ui_table *table, const struct deckle_client_info *info,
                    const char *state)
{
    char number[UI_NUMBER], pid[UI_NUMBER], frames[UI_NUMBER], cached[UI_NUMBER], ops[UI_NUMBER];

    snprintf(number, sizeof(number), "%u", info->client);
    snprintf(pid, sizeof(pid), "%u", DECKLE_IDENTITY_PID(info->identity));
    ui_table_row(table, number, pid, state, ui_count(frames, info->frames - info->cached),
                 ui_count(cached, info->cached), ui_count(ops, info->operations));
}

static void add_json(cJSON *list, const struct deckle_client_info *info, const char *state)
{
    cJSON *client = cJSON_CreateObject();

    cJSON_AddItemToArray(list, client);
    json_add_u64(client, "client", info->client);
    json_add_u64(client, "pid", DECKLE_IDENTITY_PID(info->identity));
    cJSON_AddStringToObject(client, "state", state);
    json_add_u64(client, "generation", info->generation);
    json_add_u64(client, "in_use_frames", info->frames - info->cached);
    json_add_u64(client, "cached_frames", info->cached);
    json_add_u64(client, "operations", info->operations);
}

static int list(const char *file, bool json)
{
    struct ui_table *table = ui_table_new("rrlrrr");
    cJSON *document = json_document("clients", 1), *array;
    struct deckle *d = NULL;
    uint32_t n = 0;

    cJSON_AddStringToObject(document, "file", file);
    array = cJSON_AddArrayToObject(document, "clients");
    if (shared_open(file, DECKLE_OPEN_READ_ONLY, &d)) {
        cJSON_Delete(document);
        ui_table_free(table);
        return UI_BAD_INPUT;
    }
    ui_table_row(table, "client", "process", "state", "frames", "cached", "operations");
    for (uint32_t client = 1; client <= DECKLE_MAX_CLIENTS; client++) {
        struct deckle_client_info info = {.size = sizeof(info)};

        if (deckle_get_client(d, client, &info))
            continue;
        /* Its caches may have been filled between the two counts. */
        info.cached = info.cached < info.frames ? info.cached : info.frames;
        add_row(table, &info, shared_state(d, &info));
        add_json(array, &info, shared_state(d, &info));
        n++;
    }
    if (json)
        json_write(document, "-");
    else if (n)
        ui_table_print(table, stdout, 0, true);
    else
        printf("%s: no clients\n", file);
    cJSON_Delete(document);
    ui_table_free(table);
    deckle_destroy(d);
    return UI_OK;
}

int cmd_clients(int argc, char **argv)
{
    const char *file;
    bool json = false;
    int option;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        }
        if (option != SHARED_JSON)
            return ui_usage("clients");
        json = true;
    }
    file = shared_file("clients", argc, argv);
    return file ? list(file, json) : UI_BAD_INPUT;
}
