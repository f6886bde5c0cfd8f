/* SPDX-License-Identifier: MIT */
/*
 * What the commands for shared pools have in common: their one FILE, opening it, the words for what
 * went wrong, and who its clients are.
 */
#ifndef DECKLE_TOOLS_SHARED_POOL_H
#define DECKLE_TOOLS_SHARED_POOL_H

#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>

#include <deckle/linux.h>

#include "json_out.h"

/* Values of long options that no command has letters for. */
enum { SHARED_JSON = 256, SHARED_HELP, SHARED_OTHER };

/* Prepares argv[0] for the messages of getopt_long. */
void shared_name(char **argv);

/* The one FILE behind the options; NULL after a message. */
const char *shared_file(const char *command, int argc, char **argv);

/*
 * Opens the pool with DECKLE_OPEN_… and DECKLE_OPEN_QUIET. DECKLE_OK, or the library's error after
 * a message that names the file and what can be done about it. A file that is cut off while it is
 * mapped ends the command with a message and UI_BAD_INPUT.
 */
int shared_open(const char *file, uint32_t flags, struct deckle **pool);

/* The message for a library's error and its sentence. */
void shared_refuse(const char *file, int error, const char *why);

/* From here on a fault of the file's mapping ends the command with a message. */
void shared_guard(const char *file);

struct shared_clients {
    uint32_t living, dead;
};

struct shared_clients shared_count_clients(const struct deckle *pool);

/* "alive", "dead" or "gone" of a client. */
const char *shared_state(const struct deckle *pool, const struct deckle_client_info *info);

#endif
