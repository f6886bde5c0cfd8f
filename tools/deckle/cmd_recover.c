/* SPDX-License-Identifier: MIT */
/* deckle recover: a pool whose users are all dead is made usable again. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>

#include "shared_pool.h"
#include "ui.h"

int cmd_recover(int argc, char **argv);

static void help(void)
{
    puts("Usage: deckle recover [OPTION]... FILE\n"
         "Make the shared pool in FILE usable again after its last user has died, or the machine\n"
         "went down, or the file was cut off. All its frames are free afterwards. Nobody may have "
         "it\n"
         "open: while others live, 'deckle reap' gives back what the dead held.\n\n"
         "  -n, --dry-run   say what would be found and done; FILE is only read\n"
         "      --json      print it as JSON\n"
         "      --help      print this\n\n"
         "Exit status: 0 done; 1 what cannot be rebuilt is damaged; 2 a bad file or option, or a\n"
         "client lives.");
}

static const struct option options[] = {
    {"dry-run", no_argument, NULL, 'n'},
    {"json", no_argument, NULL, SHARED_JSON},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

static void print_json(const char *file, bool dry, const struct deckle_recover_file_report *r)
{
    cJSON *document = json_document("recover", 1);

    cJSON_AddStringToObject(document, "file", file);
    cJSON_AddBoolToObject(document, "dry_run", dry);
    json_add_u64(document, "found_bytes", r->bytes_found);
    json_add_u64(document, "file_bytes", r->bytes);
    json_add_u64(document, "clients", r->pool.clients);
    json_add_u64(document, "operations", r->pool.operations);
    json_add_u64(document, "allocated_frames", r->pool.frames);
    json_add_u64(document, "cached_frames", r->pool.cached);
    json_add_u64(document, "blocks", r->pool.blocks);
    json_add_u64(document, "damaged_state_bytes", r->pool.state_bytes);
    json_add_u64(document, "hidden_blocks", r->pool.index);
    json_add_u64(document, "wrong_counters", r->pool.counters);
    json_write(document, "-");
    cJSON_Delete(document);
}

/* A line for each kind of thing that was found. */
static void line(uint64_t n, const char *what, const char *done)
{
    char number[UI_NUMBER];

    if (n)
        printf("  %s %s: %s\n", ui_count(number, n), what, done);
}

static void print_text(const char *file, bool dry, const struct deckle_recover_file_report *r)
{
    const struct deckle_recover_report *p = &r->pool;
    char a[UI_NUMBER], b[UI_NUMBER];
    bool nothing = r->bytes_found >= r->bytes && !p->clients && !p->operations && !p->frames &&
                   !p->cached && !p->blocks && !p->state_bytes && !p->index && !p->counters;

    if (nothing) {
        printf("%s: nothing to do\n", file);
        return;
    }
    printf("%s: %s\n", file, dry ? "would be recovered; found" : "recovered; found");
    if (r->bytes_found < r->bytes)
        printf("  cut off after %s of %s: the rest is zeroes\n", ui_bytes(a, r->bytes_found),
               ui_bytes(b, r->bytes));
    line(p->clients, "clients, all dead", "forgotten");
    line(p->operations, "unfinished operations", "forgotten");
    line(p->frames, "allocated frames", "freed");
    line(p->cached, "frames in caches", "freed");
    line(p->blocks, "pageblocks in use", "counted again");
    line(p->state_bytes, "damaged state bytes", "set right");
    line(p->index, "pageblocks that the index did not show", "shown");
    line(p->counters, "wrong counters of zones", "set right");
}

static int recover(const char *file, bool dry, bool json)
{
    struct deckle_recover_file_report r = {.size = sizeof(r)};
    char why[256] = "";
    struct deckle_open_options o = {.size = sizeof(o), .path = file, .why = why,
                                    .why_size = sizeof(why)};
    int error;

    o.flags = DECKLE_OPEN_QUIET | (dry ? DECKLE_OPEN_DRY_RUN : 0);
    shared_guard(file);
    error = deckle_recover_file(&o, &r);
    if (error == DECKLE_EBUSY) {
        ui_error_at(file, 0, "%s; 'deckle clients' lists them, 'deckle reap' reaps the dead", why);
        return UI_BAD_INPUT;
    }
    if (error) {
        ui_error_at(file, 0, "cannot be recovered: %s", why[0] ? why : deckle_strerror(error));
        return error == DECKLE_ECORRUPT || error == DECKLE_ENOSPC ? UI_FAULT : UI_BAD_INPUT;
    }
    if (json)
        print_json(file, dry, &r);
    else
        print_text(file, dry, &r);
    return UI_OK;
}

int cmd_recover(int argc, char **argv)
{
    bool dry = false, json = false;
    const char *file;
    int option;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "n", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        }
        if (option != SHARED_JSON && option != 'n')
            return ui_usage("recover");
        dry = dry || option == 'n';
        json = json || option == SHARED_JSON;
    }
    file = shared_file("recover", argc, argv);
    return file ? recover(file, dry, json) : UI_BAD_INPUT;
}
