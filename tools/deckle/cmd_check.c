/* SPDX-License-Identifier: MIT */
/*
 * deckle check: is the pool in FILE sound? Everything is counted again from the metadata. A pool at
 * work changes meanwhile; what is found there is looked at again before it is believed.
 */
#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "shared_pool.h"
#include "ui.h"

#define LOOKS 20u /* at a pool in use */
#define SHOWN 16u /* contradictions of single pageblocks */

int cmd_check(int argc, char **argv);

struct job {
    const char *file;
    bool json, quiet;
    struct shared_clients clients;
    cJSON *document, *found;
    uint32_t nr;
};

static void help(void)
{
    puts("Usage: deckle check [OPTION]... FILE\n"
         "Say whether the shared pool in FILE is sound, and if not, what contradicts what. FILE\n"
         "is only read. A pool in use is looked at several times, since operations under way\n"
         "may look like faults.\n\n"
         "      --json    print the result as JSON\n"
         "  -q, --quiet   print nothing but faults\n"
         "      --help    print this\n\n"
         "Exit status: 0 sound; 1 not, or cut off; 2 no pool, or one of another version.");
}

static const struct option options[] = {
    {"json", no_argument, NULL, SHARED_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

static void tell(struct job *j, const char *text)
{
    j->nr++;
    if (j->json)
        cJSON_AddItemToArray(j->found, cJSON_CreateString(text));
    else
        printf("%s: %s\n", j->file, text);
}

/* Further contradictions, one of each pageblock that has any; first is known already. */
static void look_closely(struct job *j, const struct deckle *d, const char *first)
{
    uint64_t bytes, nr; /* of the mapping: counters may be what is wrong */
    char text[256];

    deckle_base(d, &bytes);
    nr = bytes >> deckle_page_shift(d);
    for (uint64_t pfn = 0; pfn < nr && j->nr < SHOWN; pfn += DECKLE_PAGEBLOCK_PAGES) {
        if (deckle_validate_range(d, pfn, DECKLE_PAGEBLOCK_PAGES, text, sizeof(text)) &&
            strcmp(text, first))
            tell(j, text);
    }
}

static void look(struct job *j, const struct deckle *d)
{
    struct timespec pause = {0, 50000000};
    char text[256];

    for (unsigned i = 0; deckle_validate(d, text, sizeof(text)); i++) {
        j->clients = shared_count_clients(d);
        if (i + 1 == LOOKS || !j->clients.living) {
            tell(j, text);
            look_closely(j, d, text);
            return;
        }
        nanosleep(&pause, NULL);
    }
}

static int report(struct job *j)
{
    if (j->json) {
        cJSON_AddBoolToObject(j->document, "sound", j->nr == 0);
        json_add_u64(j->document, "clients_alive", j->clients.living);
        json_add_u64(j->document, "clients_dead", j->clients.dead);
        json_write(j->document, "-");
    } else if (!j->nr && !j->quiet) {
        printf("%s: sound; clients: %u alive, %u dead\n", j->file, j->clients.living,
               j->clients.dead);
    }
    if (j->nr && j->clients.living)
        ui_note("%s: in use by %u clients; what they are at may look like a fault", j->file,
                j->clients.living);
    else if (j->nr && j->clients.dead)
        ui_note("%s: %u dead clients have left it; 'deckle recover' repairs it", j->file,
                j->clients.dead);
    else if (j->nr)
        ui_note("%s: 'deckle recover' repairs it", j->file);
    return j->nr ? UI_FAULT : UI_OK;
}

static int check(struct job *j)
{
    struct deckle *d = NULL;
    int error = shared_open(j->file, DECKLE_OPEN_READ_ONLY, &d), status;

    if (error)
        return error == DECKLE_ECORRUPT || error == DECKLE_ENOSPC ? UI_FAULT : UI_BAD_INPUT;
    if (j->json) {
        j->document = json_document("check", 1);
        cJSON_AddStringToObject(j->document, "file", j->file);
        j->found = cJSON_AddArrayToObject(j->document, "faults");
    }
    j->clients = shared_count_clients(d);
    look(j, d);
    status = report(j);
    cJSON_Delete(j->document);
    deckle_destroy(d);
    return status;
}

int cmd_check(int argc, char **argv)
{
    struct job j = {.file = NULL};
    int option;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "q", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        }
        if (option != SHARED_JSON && option != 'q')
            return ui_usage("check");
        j.json = j.json || option == SHARED_JSON;
        j.quiet = j.quiet || option == 'q';
    }
    j.file = shared_file("check", argc, argv);
    return j.file ? check(&j) : UI_BAD_INPUT;
}
