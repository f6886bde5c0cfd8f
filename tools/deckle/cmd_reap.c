/* SPDX-License-Identifier: MIT */
/* deckle reap: what dead clients of a shared pool held goes back to the others. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "shared_pool.h"
#include "ui.h"

#define TRIES 20u /* while others are in the middle of something */

int cmd_reap(int argc, char **argv);

struct job {
    const char *file;
    uint64_t client; /* 0 = all that are dead */
    bool json;
    cJSON *list;
    uint32_t reaped, unfinished;
};

static void help(void)
{
    puts("Usage: deckle reap [OPTION]... FILE\n"
         "Give back everything that dead clients of the shared pool in FILE held. The living\n"
         "go on meanwhile.\n\n"
         "      --client N   only this one; it must be dead\n"
         "      --json       print what was found as JSON\n"
         "      --help       print this\n\n"
         "Exit status: 0 done; 1 something had to be left, try again later; 2 a bad file or "
         "option, or\n"
         "the client lives.");
}

enum { OPTION_CLIENT = SHARED_OTHER };

static const struct option options[] = {
    {"client", required_argument, NULL, OPTION_CLIENT},
    {"json", no_argument, NULL, SHARED_JSON},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

static void tell(struct job *j, const struct deckle_client_info *info,
                 const struct deckle_reap_report *r)
{
    char a[UI_NUMBER], b[UI_NUMBER], c[UI_NUMBER];

    if (j->json) {
        cJSON *client = cJSON_CreateObject();

        cJSON_AddItemToArray(j->list, client);
        json_add_u64(client, "client", info->client);
        json_add_u64(client, "pid", DECKLE_IDENTITY_PID(info->identity));
        json_add_u64(client, "in_use_frames", r->in_use);
        json_add_u64(client, "cached_frames", r->cached);
        json_add_u64(client, "in_flight_frames", r->in_flight);
        json_add_u64(client, "recounted_blocks", r->recounted);
        json_add_u64(client, "deferred_blocks", r->deferred);
        return;
    }
    printf("client %u (process %u): %s frames in use, %s in caches, %s half-way; %u pageblocks "
           "counted again\n",
           info->client, DECKLE_IDENTITY_PID(info->identity), ui_count(a, r->in_use),
           ui_count(b, r->cached), ui_count(c, r->in_flight), r->recounted);
}

/* What operations of the living keep from it is asked for again. Sums of all tries in *r. */
static int reap_client(struct deckle *d, uint32_t client, struct deckle_reap_report *r)
{
    struct timespec pause = {0, 10000000};
    int error = DECKLE_ECONTENDED;

    for (unsigned i = 0; i < TRIES && (error == DECKLE_ECONTENDED || error == DECKLE_EBUSY); i++) {
        struct deckle_reap_report one = {.size = sizeof(one)};

        if (i)
            nanosleep(&pause, NULL);
        error = deckle_reap(d, client, &one);
        r->in_use += one.in_use;
        r->cached += one.cached;
        r->in_flight += one.in_flight;
        r->recounted += one.recounted;
        r->deferred = one.deferred;
    }
    return error;
}

static void reap_dead(struct job *j, struct deckle *d, uint32_t client)
{
    struct deckle_client_info info = {.size = sizeof(info)};
    struct deckle_reap_report r = {.size = sizeof(r)};
    int error;

    if (deckle_client_alive(d, client) != 0 || deckle_get_client(d, client, &info))
        return;
    error = reap_client(d, client, &r);
    if (error == DECKLE_ENOENT)
        return; /* somebody else was faster */
    tell(j, &info, &r);
    if (error) {
        j->unfinished++;
        ui_warn("%s: client %u: %s", j->file, client,
                error == DECKLE_EBUSY ? "another process is reaping"
                                      : "operations of the living keep some of it; try again");
    } else {
        j->reaped++;
    }
}

static int reap_all(struct job *j, struct deckle *d)
{
    uint32_t first = j->client ? (uint32_t)j->client : 1;
    uint32_t last = j->client ? (uint32_t)j->client : DECKLE_MAX_CLIENTS;

    if (j->client) {
        int alive = deckle_client_alive(d, first);

        if (alive != 0) {
            ui_error_at(j->file, 0, "client %u %s; 'deckle clients' lists them", first,
                        alive == 1 ? "is alive" : "does not exist");
            return UI_BAD_INPUT;
        }
    }
    for (uint32_t client = first; client <= last; client++)
        reap_dead(j, d, client);
    return j->unfinished ? UI_FAULT : UI_OK;
}

static int reap(struct job *j)
{
    struct deckle *d = NULL;
    cJSON *document;
    int status;

    if (shared_open(j->file, 0, &d))
        return UI_BAD_INPUT;
    document = json_document("reap", 1);
    cJSON_AddStringToObject(document, "file", j->file);
    j->list = cJSON_AddArrayToObject(document, "reaped");
    status = reap_all(j, d);
    if (j->json && status != UI_BAD_INPUT)
        json_write(document, "-");
    else if (status == UI_OK && !j->reaped)
        printf("%s: no dead clients\n", j->file);
    cJSON_Delete(document);
    deckle_destroy(d);
    return status;
}

int cmd_reap(int argc, char **argv)
{
    struct job j = {.file = NULL};
    int option;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        } else if (option == SHARED_JSON) {
            j.json = true;
        } else if (option != OPTION_CLIENT ||
                   !ui_option_u64("--client", optarg, 1, DECKLE_MAX_CLIENTS, &j.client)) {
            return ui_usage("reap");
        }
    }
    j.file = shared_file("reap", argc, argv);
    return j.file ? reap(&j) : UI_BAD_INPUT;
}
