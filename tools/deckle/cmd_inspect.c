/* SPDX-License-Identifier: MIT */
/* deckle inspect: the tables of a shared pool that others use, once or again and again. */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "shared_pool.h"
#include "ui.h"

int cmd_inspect(int argc, char **argv);

typedef void (*print_fn)(const struct deckle *d, deckle_emit_fn emit, void *ctx);

#define NR_TABLES 4u

struct job {
    const char *file;
    bool table[NR_TABLES], json;
    uint64_t seconds; /* 0 = once */
    struct deckle *pool;
    uint64_t length;  /* of the file, when it was opened */
};

static const struct {
    const char *name;
    print_fn print;
} tables[NR_TABLES] = {
    {"buddyinfo", deckle_print_buddyinfo},
    {"pagetypeinfo", deckle_print_pagetypeinfo},
    {"zoneinfo", deckle_print_zoneinfo},
    {"extfrag", deckle_print_extfrag},
};

static void help(void)
{
    puts("Usage: deckle inspect [OPTION]... FILE\n"
         "Show the state of the shared pool in FILE, which others may be using: a summary and\n"
         "buddyinfo, or the tables that are named. FILE is only read.\n\n"
         "      --buddyinfo        free blocks by order, as /proc/buddyinfo\n"
         "      --pagetypeinfo     and by migratetype, as /proc/pagetypeinfo\n"
         "      --zoneinfo         watermarks, counters, caches, as /proc/zoneinfo\n"
         "      --extfrag          indexes of fragmentation\n"
         "      --json             everything as JSON\n"
         "      --watch SECONDS    again every so many seconds, until it is interrupted\n"
         "      --help             print this");
}

enum { OPTION_TABLE = SHARED_OTHER, OPTION_WATCH = OPTION_TABLE + (int)NR_TABLES };

static const struct option options[] = {
    {"buddyinfo", no_argument, NULL, OPTION_TABLE},
    {"pagetypeinfo", no_argument, NULL, OPTION_TABLE + 1},
    {"zoneinfo", no_argument, NULL, OPTION_TABLE + 2},
    {"extfrag", no_argument, NULL, OPTION_TABLE + 3},
    {"json", no_argument, NULL, SHARED_JSON},
    {"watch", required_argument, NULL, OPTION_WATCH},
    {"help", no_argument, NULL, SHARED_HELP},
    {NULL, 0, NULL, 0},
};

static void emit(void *ctx, const char *text, size_t len)
{
    fwrite(text, 1, len, ctx);
}

static void print_summary(const struct job *j)
{
    struct deckle_stat all = {.size = sizeof(all)};
    struct shared_clients clients = shared_count_clients(j->pool);
    char memory[UI_NUMBER], a[UI_NUMBER], b[UI_NUMBER], c[UI_NUMBER];
    uint64_t free = 0, cached = 0, managed = 0;
    uint32_t shift = deckle_page_shift(j->pool);

    deckle_get_stat(j->pool, &all);
    for (uint32_t z = 0; z < all.nr_zones; z++) {
        struct deckle_zone_stat zone = {.size = sizeof(zone)};

        if (deckle_get_zone_stat(j->pool, z, &zone))
            continue;
        free += zone.free;
        cached += zone.cached;
        managed += zone.managed;
    }
    printf("%s: %s, %s frames: %s free", j->file, ui_bytes(memory, all.nr_frames << shift),
           ui_count(a, all.nr_frames), ui_count(b, free));
    printf(", %s in caches, %s in use\n", ui_count(a, cached),
           ui_count(c, managed > free + cached ? managed - free - cached : 0));
    printf("clients: %u alive, %u dead%s\n", clients.living, clients.dead,
           clients.dead ? "; 'deckle reap' gives back what the dead held" : "");
}

static void print_once(const struct job *j)
{
    bool any = false;

    if (j->json) {
        deckle_print_json(j->pool, emit, stdout);
        return;
    }
    for (unsigned i = 0; i < NR_TABLES; i++)
        if (j->table[i]) {
            if (any)
                putchar('\n');
            tables[i].print(j->pool, emit, stdout);
            any = true;
        }
    if (!any) {
        print_summary(j);
        deckle_print_buddyinfo(j->pool, emit, stdout);
    }
}

/* Asked before each look: what is mapped may be gone. */
static bool is_whole(const struct job *j)
{
    struct stat st;

    return stat(j->file, &st) || (uint64_t)st.st_size >= j->length;
}

static int watch(const struct job *j)
{
    struct timespec pause = {(time_t)j->seconds, 0};
    bool screen = isatty(STDOUT_FILENO);
    bool first = true;

    ui_catch_interrupt();
    while (!ui_interrupted()) {
        if (!is_whole(j)) {
            ui_error_at(j->file, 0, "was cut off");
            return UI_BAD_INPUT;
        }
        if (screen)
            printf("\033[H\033[2J");
        else if (!first)
            putchar('\n');
        first = false;
        print_once(j);
        if (fflush(stdout))
            return UI_FAULT;
        nanosleep(&pause, NULL);
    }
    return UI_INTERRUPTED;
}

static int inspect(struct job *j)
{
    struct stat st;
    int status = UI_OK;

    if (shared_open(j->file, DECKLE_OPEN_READ_ONLY, &j->pool))
        return UI_BAD_INPUT;
    if (!stat(j->file, &st))
        j->length = (uint64_t)st.st_size;
    if (j->seconds)
        status = watch(j);
    else
        print_once(j);
    deckle_destroy(j->pool);
    return status;
}

int cmd_inspect(int argc, char **argv)
{
    struct job j = {.file = NULL};
    bool named = false;
    int option;

    shared_name(argv);
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == SHARED_HELP) {
            help();
            return UI_OK;
        } else if (option == SHARED_JSON) {
            j.json = true;
        } else if (option == OPTION_WATCH) {
            if (!ui_option_u64("--watch", optarg, 1, 86400, &j.seconds))
                return ui_usage("inspect");
        } else if (option >= OPTION_TABLE && option < OPTION_WATCH) {
            named = j.table[option - OPTION_TABLE] = true;
        } else {
            return ui_usage("inspect");
        }
    }
    if (j.json && named) {
        ui_error("--json prints everything; give no table with it");
        return ui_usage("inspect");
    }
    j.file = shared_file("inspect", argc, argv);
    return j.file ? inspect(&j) : UI_BAD_INPUT;
}
