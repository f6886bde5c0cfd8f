/* SPDX-License-Identifier: MIT */
/* The command deckle: finds the subcommand in the table and hands over. */
#include <stdio.h>
#include <string.h>

#include <deckle.h>

#include "ui.h"

#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
#include "commands.inc"
#undef COMMAND

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define COMMAND(name, summary) {#name, summary, cmd_##name},
#include "commands.inc"
#undef COMMAND
};

#define NR_COMMANDS (sizeof(commands) / sizeof(commands[0]))

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < NR_COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static void print_help(FILE *to)
{
    struct ui_table *table = ui_table_new("ll");

    fprintf(to, "Usage: deckle COMMAND [OPTION]... [FILE]...\n"
                "The page-frame allocator Deckle: measure it, and replay a Linux kernel's page "
                "events through it.\n\nCommands:\n");
    for (size_t i = 0; i < NR_COMMANDS; i++)
        ui_table_row(table, commands[i].name, commands[i].summary);
    ui_table_row(table, "help", "print this, or the help of a command");
    ui_table_print(table, to, 2, false);
    ui_table_free(table);
    fprintf(to, "\n'deckle help COMMAND' and 'deckle COMMAND --help' tell more. Exit status: 0 "
                "done, 1 a fault was\nfound, 2 bad input or usage, 3 something required is "
                "missing, 130 interrupted.\n");
}

static int help(int argc, char **argv)
{
    char option[] = "--help";
    const struct command *command;
    char *arguments[3];

    if (argc < 2) {
        print_help(stdout);
        return UI_OK;
    }
    command = find(argv[1]);
    if (command == NULL) {
        ui_error("\"%s\" is no command", argv[1]);
        return ui_usage(NULL);
    }
    arguments[0] = argv[1];
    arguments[1] = option;
    arguments[2] = NULL;
    return command->run(2, arguments);
}

int main(int argc, char **argv)
{
    const struct command *command;

    if (argc < 2) {
        print_help(stderr);
        return UI_BAD_INPUT;
    }
    if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "-h") == 0)
        return ui_finish(help(argc - 1, argv + 1));
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        printf("deckle %s\n", DECKLE_VERSION_STRING);
        return ui_finish(UI_OK);
    }
    command = find(argv[1]);
    if (command == NULL) {
        ui_error("\"%s\" is no command", argv[1]);
        return ui_usage(NULL);
    }
    return ui_finish(command->run(argc - 1, argv + 1));
}
