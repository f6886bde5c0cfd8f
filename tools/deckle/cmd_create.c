/* SPDX-License-Identifier: MIT */
/* deckle create: a pool for several processes, in a file. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "shared_pool.h"
#include "ui.h"

#define MOST_BYTES (UINT64_C(1) << 45)

int cmd_create(int argc, char **argv);

struct job {
    struct deckle_shared_options o;
    bool json, quiet;
};

static void help(void)
{
    puts("Usage: deckle create [OPTION]... FILE --size BYTES\n"
         "Make a pool of page frames for several processes in FILE, which must not exist.\n\n"
         "      --size BYTES       memory of the pool; K, M, G, T are understood\n"
         "      --max-order N      largest block: 2^N frames (default 10; 9 to 18)\n"
         "      --page-size BYTES  size of a frame, a power of two (default 4K; 1K to 1G)\n"
         "      --clients N        processes that may use it at once (default 64; 1 to 255)\n"
         "      --mode OCTAL       permissions of FILE (default 600)\n"
         "      --populate         reserve room for every frame now\n"
         "      --no-caches        no caches in front: every request is shared\n"
         "      --json             print what was made as JSON\n"
         "  -q, --quiet            print nothing but errors\n"
         "      --help             print this\n\n"
         "FILE may lie in any file system; in /dev/shm it is memory, in a hugetlbfs huge pages.\n"
         "Frames that were never written take no room, but with --populate.");
}

enum {
    OPTION_SIZE = SHARED_OTHER,
    OPTION_MAX_ORDER,
    OPTION_PAGE_SIZE,
    OPTION_CLIENTS,
    OPTION_MODE,
    OPTION_POPULATE,
    OPTION_NO_CACHES
};

static const struct option options[] = {
    {"size", required_argument, NULL, OPTION_SIZE},
    {"max-order", required_argument, NULL, OPTION_MAX_ORDER},
    {"page-size", required_argument, NULL, OPTION_PAGE_SIZE},
    {"clients", required_argument, NULL, OPTION_CLIENTS},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"populate", no_argument, NULL, OPTION_POPULATE},
    {"no-caches", no_argument, NULL, OPTION_NO_CACHES},
    {"json", no_argument, NULL, SHARED_JSON},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

static bool take_page_size(uint32_t *shift)
{
    uint64_t bytes;

    if (!ui_option_bytes("--page-size", optarg, 1024, UINT64_C(1) << 30, &bytes))
        return false;
    if (bytes & (bytes - 1)) {
        ui_error("option --page-size: \"%s\" is no power of two", optarg);
        return false;
    }
    for (*shift = 0; bytes > 1; bytes >>= 1)
        ++*shift;
    return true;
}

static bool take_mode(uint32_t *mode)
{
    char *end;
    unsigned long value = strtoul(optarg, &end, 8);

    if (optarg[0] < '0' || optarg[0] > '7' || *end || value > 0777 || (value & 0600) != 0600) {
        ui_error("option --mode: \"%s\" is no octal number from 600 to 777 that lets the owner "
                 "read and write",
                 optarg);
        return false;
    }
    *mode = (uint32_t)value;
    return true;
}

static bool take_number(const char *option, uint64_t min, uint64_t max, uint32_t *value)
{
    uint64_t number;

    if (!ui_option_u64(option, optarg, min, max, &number))
        return false;
    *value = (uint32_t)number;
    return true;
}

static bool take_option(struct job *j, int option)
{
    switch (option) {
    case OPTION_SIZE:
        return ui_option_bytes("--size", optarg, 4096, MOST_BYTES, &j->o.bytes);
    case OPTION_MAX_ORDER:
        return take_number("--max-order", DECKLE_PAGEBLOCK_ORDER, DECKLE_MAX_ORDER_LIMIT,
                           &j->o.max_order);
    case OPTION_PAGE_SIZE:
        return take_page_size(&j->o.page_shift);
    case OPTION_CLIENTS:
        return take_number("--clients", 1, DECKLE_MAX_CLIENTS, &j->o.max_clients);
    case OPTION_MODE:
        return take_mode(&j->o.mode);
    case OPTION_POPULATE:
        j->o.flags |= DECKLE_CREATE_POPULATE;
        return true;
    case OPTION_NO_CACHES:
        j->o.features |= DECKLE_FEATURE_NO_CACHES;
        return true;
    case SHARED_JSON:
        return j->json = true;
    case 'q':
        return j->quiet = true;
    default:
        return false; /* getopt_long has said what is wrong */
    }
}

static int report(const struct job *j)
{
    struct deckle_stat stat_of = {.size = sizeof(stat_of)};
    char memory[UI_NUMBER], frames[UI_NUMBER], metadata[UI_NUMBER], length[UI_NUMBER];
    struct deckle *d = NULL;
    struct stat st;
    uint32_t shift, clients = j->o.max_clients ? j->o.max_clients : DECKLE_DEFAULT_CLIENTS;

    if (shared_open(j->o.path, DECKLE_OPEN_READ_ONLY, &d) || stat(j->o.path, &st))
        return UI_FAULT;
    deckle_get_stat(d, &stat_of);
    shift = deckle_page_shift(d);
    if (j->json) {
        cJSON *document = json_document("create", 1);

        cJSON_AddStringToObject(document, "file", j->o.path);
        json_add_u64(document, "file_bytes", (uint64_t)st.st_size);
        json_add_u64(document, "nr_frames", stat_of.nr_frames);
        json_add_u64(document, "frame_bytes", UINT64_C(1) << shift);
        json_add_u64(document, "max_order", deckle_max_order(d));
        json_add_u64(document, "max_clients", clients);
        json_add_u64(document, "metadata_bytes", stat_of.metadata_bytes);
        json_write(document, "-");
        cJSON_Delete(document);
    } else if (!j->quiet) {
        printf("%s: %s, %s frames of %" PRIu64 " bytes in blocks of up to 2^%u, for %u clients\n",
               j->o.path, ui_bytes(memory, stat_of.nr_frames << shift),
               ui_count(frames, stat_of.nr_frames), UINT64_C(1) << shift, deckle_max_order(d),
               clients);
        printf("metadata %s, file %s\n", ui_bytes(metadata, stat_of.metadata_bytes),
               ui_bytes(length, (uint64_t)st.st_size));
    }
    deckle_destroy(d);
    return UI_OK;
}

static int create(struct job *j)
{
    char why[256] = "";
    int error;

    j->o.why = why;
    j->o.why_size = sizeof(why);
    error = deckle_create_shared(&j->o, NULL);
    if (!error)
        return report(j);
    ui_error_at(j->o.path, 0, "%s", why[0] ? why : deckle_strerror(error));
    return error == DECKLE_ENOTSUP ? UI_MISSING : UI_BAD_INPUT;
}

int cmd_create(int argc, char **argv)
{
    struct job j = {.o = {.size = sizeof(j.o), .flags = DECKLE_CREATE_QUIET}};
    int option;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "q", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        }
        if (!take_option(&j, option))
            return ui_usage("create");
    }
    j.o.path = shared_file("create", argc, argv);
    if (!j.o.path)
        return UI_BAD_INPUT;
    if (!j.o.bytes) {
        ui_error("no size; give --size BYTES");
        return ui_usage("create");
    }
    return create(&j);
}
