/* SPDX-License-Identifier: MIT */
/* Common parts of the commands for shared pools; see shared_pool.h. */
#define _POSIX_C_SOURCE 200809L

#include "shared_pool.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ui.h"

void shared_name(char **argv)
{
    static char name[] = "deckle";

    argv[0] = name;
}

const char *shared_file(const char *command, int argc, char **argv)
{
    if (argc - optind == 1)
        return argv[optind];
    ui_error(argc == optind ? "no pool; give the FILE that it is in" : "give one FILE only");
    ui_usage(command);
    return NULL;
}

/* What can be done, where the library's sentence does not say it. */
static const char *advice(int error)
{
    switch (error) {
    case DECKLE_ENOENT:
        return "; 'deckle create' makes a pool";
    case DECKLE_ENOSPC:
        return " ('deckle recover')";
    case DECKLE_ECORRUPT:
        return "; try 'deckle recover'";
    case DECKLE_EVERSION:
        return "; use the Deckle that made it, or make it anew";
    default:
        return "";
    }
}

void shared_refuse(const char *file, int error, const char *why)
{
    ui_error_at(file, 0, "%s%s", why[0] ? why : deckle_strerror(error), advice(error));
}

/* --- a file that is cut off under us --------------------------------------------------------- */

static const char *guarded;

static void on_fault(int signal_number)
{
    static const char begin[] = "deckle: ", end[] = ": was cut off, or cannot be read any more\n";

    (void)signal_number;
    if (write(STDERR_FILENO, begin, sizeof(begin) - 1) < 0 ||
        write(STDERR_FILENO, guarded, strlen(guarded)) < 0 ||
        write(STDERR_FILENO, end, sizeof(end) - 1) < 0)
        _exit(UI_FAULT);
    _exit(UI_BAD_INPUT);
}

void shared_guard(const char *file)
{
    struct sigaction action;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_fault;
    guarded = file;
    sigaction(SIGBUS, &action, NULL);
}

int shared_open(const char *file, uint32_t flags, struct deckle **pool)
{
    char why[256] = "";
    struct deckle_open_options o = {.size = sizeof(o), .flags = flags | DECKLE_OPEN_QUIET,
                                    .path = file, .why = why, .why_size = sizeof(why)};
    int error;

    shared_guard(file);
    error = deckle_open_shared(&o, pool);
    if (error)
        shared_refuse(file, error, why);
    return error;
}

/* --- clients --------------------------------------------------------------------------------- */

struct shared_clients shared_count_clients(const struct deckle *pool)
{
    struct shared_clients n = {0, 0};

    for (uint32_t client = 1; client <= DECKLE_MAX_CLIENTS; client++) {
        int alive = deckle_client_alive(pool, client);

        n.living += alive == 1;
        n.dead += alive == 0;
    }
    return n;
}

const char *shared_state(const struct deckle *pool, const struct deckle_client_info *info)
{
    int alive = deckle_client_alive(pool, info->client);

    return alive == 1 ? "alive" : alive == 0 ? "dead" : "gone";
}
