/* SPDX-License-Identifier: MIT */
/*
 * A small pool in a file that somebody has damaged, and every command that may be given it. Its
 * clients died in the middle of their work, so that tables, intents and caches are not empty.
 * Whatever the file says, a command ends with status 0, 1 or 2, and soon; nothing that it reads
 * leads it out of the mapping. Header only; for tests that link the command.
 */
#ifndef DECKLE_TESTS_SUPPORT_HOSTILE_POOL_H
#define DECKLE_TESTS_SUPPORT_HOSTILE_POOL_H

#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deckle/linux.h>

#define HOSTILE_SECONDS 20u /* for all commands on one file */

#define COMMAND(name, summary) int cmd_##name(int argc, char **argv);
COMMAND(check, 0)
COMMAND(clients, 0)
COMMAND(inspect, 0)
COMMAND(reap, 0)
COMMAND(recover, 0)
#undef COMMAND

struct hostile_pool {
    char path[64];
    uint8_t *image;    /* header and metadata */
    size_t head, size; /* bytes of these, and of the file */
    int out, null;     /* where messages went, and go */
};

/* What the header's checksum must be (docs/formats/pool.md). */
static inline void hostile_sum(uint8_t *image)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < 72; i++)
        sum = (sum ^ image[i]) * UINT64_C(0x100000001b3);
    memcpy(image + 72, &sum, sizeof(sum));
}

/* A client that leaves frames in use, in caches, and its entry in the table. */
static inline void hostile_client(const char *path)
{
    struct deckle_open_options o = {.size = sizeof(o), .path = path};
    struct deckle *d;
    pid_t pid = fork();

    if (pid) {
        waitpid(pid, NULL, 0);
        return;
    }
    if (deckle_open_shared(&o, &d))
        _exit(1);
    for (uint32_t order = 0; order < 8; order++) {
        int64_t a = deckle_alloc(d, DECKLE_GFP_KERNEL, order);

        if (deckle_alloc(d, DECKLE_GFP_HIGHUSER_MOVABLE, order) >= 0 && a >= 0)
            deckle_free(d, (uint64_t)a, order);
    }
    _exit(0);
}

/* 0, or the status for the test to end with. */
static inline int hostile_begin(struct hostile_pool *p)
{
    char why[256] = "";
    struct deckle_shared_options o = {.size = sizeof(o), .bytes = 4 << 20, .max_order = 9,
                                      .pcp_capacity = 16, .max_clients = 4, .why = why,
                                      .why_size = sizeof(why), .path = p->path};
    uint64_t field;
    struct stat st;
    int fd;

    snprintf(p->path, sizeof(p->path), "%s/deckle-hostile-%ld",
             access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm", (long)getpid());
    if (deckle_create_shared(&o, NULL)) {
        printf("no pool: %s\n", why);
        return 77;
    }
    hostile_client(p->path);
    hostile_client(p->path);
    fd = open(p->path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) || pread(fd, &field, sizeof(field), 40) != sizeof(field))
        return 1;
    p->head = 4096 + (size_t)field;
    p->size = (size_t)st.st_size;
    p->image = malloc(p->head);
    if (!p->image || pread(fd, p->image, p->head, 0) != (ssize_t)p->head)
        return 1;
    close(fd);
    p->null = open("/dev/null", O_WRONLY);
    p->out = dup(STDOUT_FILENO);
    return 0;
}

static inline void hostile_end(struct hostile_pool *p)
{
    unlink(p->path);
    free(p->image);
    close(p->null);
    close(p->out);
}

/* The file becomes image, cut off after length bytes (of p->size). */
static inline bool hostile_write(const struct hostile_pool *p, const uint8_t *image, size_t length)
{
    size_t n = p->head < length ? p->head : length;
    int fd = open(p->path, O_WRONLY | O_TRUNC);
    bool well = fd >= 0 && pwrite(fd, image, n, 0) == (ssize_t)n && !ftruncate(fd, (off_t)length);

    if (fd >= 0)
        close(fd);
    return well;
}

static inline int hostile_command(const struct hostile_pool *p, int (*run)(int, char **),
                                  const char *option)
{
    char name[] = "deckle", path[64], words[32];
    char *argv[] = {name, path, NULL, NULL};
    int status;

    snprintf(path, sizeof(path), "%s", p->path);
    if (option) {
        snprintf(words, sizeof(words), "%s", option);
        argv[1] = words;
        argv[2] = path;
    }
    optind = 0; /* glibc: getopt begins anew */
    status = run(option ? 3 : 2, argv);
    fflush(stdout);
    return status;
}

/* A client of a pool that only looks right: it gets errors or frames, and comes back. */
static inline void hostile_use(const struct hostile_pool *p)
{
    struct deckle_open_options o = {.size = sizeof(o), .path = p->path,
                                    .flags = DECKLE_OPEN_QUIET};
    struct deckle *d = NULL;

    if (deckle_open_shared(&o, &d))
        return;
    for (uint32_t order = 0; order <= 9; order++) {
        int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, order);
        char *at = pfn >= 0 ? deckle_address(d, (uint64_t)pfn) : NULL;

        if (at)
            at[0] = 1;
        if (pfn >= 0)
            deckle_free(d, (uint64_t)pfn, order);
        deckle_free(d, order * 64, order);
    }
    deckle_drain_all(d);
    deckle_destroy(d);
}

/* Every command on the file as it is; the statuses' bits, or -1 for one that must not be. */
static inline int hostile_run(const struct hostile_pool *p)
{
    static const char *const looks[] = {"--buddyinfo", "--pagetypeinfo", "--zoneinfo", "--extfrag",
                                        "--json", NULL};
    int seen = 0, recovered, error = dup(STDERR_FILENO);

    fflush(stdout);
    dup2(p->null, STDOUT_FILENO);
    dup2(p->null, STDERR_FILENO);
    alarm(HOSTILE_SECONDS);
    for (unsigned i = 0; i < sizeof(looks) / sizeof(looks[0]); i++)
        seen |= 1 << hostile_command(p, cmd_inspect, looks[i]);
    seen |= 1 << hostile_command(p, cmd_check, NULL);
    seen |= 1 << hostile_command(p, cmd_clients, NULL);
    seen |= 1 << hostile_command(p, cmd_recover, "--dry-run");
    hostile_use(p);
    seen |= 1 << hostile_command(p, cmd_reap, NULL);
    recovered = hostile_command(p, cmd_recover, NULL);
    seen |= 1 << recovered;
    if (recovered == 0 && hostile_command(p, cmd_check, NULL))
        seen = -1; /* what was recovered is sound */
    hostile_use(p);
    alarm(0);
    dup2(p->out, STDOUT_FILENO);
    dup2(error, STDERR_FILENO);
    close(error);
    return seen >= 0 && !(seen & ~7) ? seen : -1;
}

#endif
