/* SPDX-License-Identifier: MIT */
/*
 * One pool, several processes. A worker opens the pool, fills a few blocks, hands one of them to
 * its parent, and is killed in the middle of its work. The parent keeps what it was given and reaps
 * the rest.
 */
#define _POSIX_C_SOURCE 200809L
#include <deckle/linux.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char pool[64]; /* the file */

/* The same pfns as in the parent, at addresses of its own. Says which block it has given away. */
static void work(uint32_t parent, int tell)
{
    struct deckle_open_options options = {.size = sizeof(options), .path = pool};
    struct deckle *d;

    if (deckle_open_shared(&options, &d))
        _exit(1);
    int64_t pfn = deckle_alloc(d, DECKLE_GFP_KERNEL | DECKLE_GFP_ZERO, 3);
    if (pfn < 0)
        _exit(1);
    strcpy(deckle_address(d, (uint64_t)pfn), "survives its giver");
    if (deckle_transfer(d, (uint64_t)pfn, 3, parent))
        _exit(1);
    if (write(tell, &pfn, sizeof(pfn)) != sizeof(pfn))
        _exit(1);
    for (;;) /* until it is killed, wherever that is */
        if (deckle_alloc(d, DECKLE_GFP_KERNEL, 0) < 0)
            deckle_drain_all(d);
}

/* A worker that was killed after it had given a block away: its process id, *pfn the block. */
static pid_t run_worker(uint32_t parent, int64_t *pfn)
{
    int pipes[2];

    if (pipe(pipes))
        return -1;
    pid_t pid = fork(); /* the child's copy of the handle can only look; it opens its own */
    if (pid == 0)
        work(parent, pipes[1]);
    close(pipes[1]);
    if (pid > 0 && read(pipes[0], pfn, sizeof(*pfn)) != sizeof(*pfn))
        *pfn = -1;
    close(pipes[0]);
    if (pid > 0) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    return pid;
}

int main(void)
{
    char why[200] = "";
    struct deckle_shared_options options = {.size = sizeof(options), .path = pool,
                                            .bytes = 64 << 20, .why = why,
                                            .why_size = sizeof(why)};
    struct deckle_reap_report report = {.size = sizeof(report)};
    struct deckle *d;
    int64_t pfn = -1;

    snprintf(pool, sizeof(pool), "/tmp/deckle-example-%ld", (long)getpid());
    int error = deckle_create_shared(&options, &d);
    if (error == DECKLE_ENOTSUP) {
        printf("no shared pools here: %s\n", why);
        return 77;
    }
    if (error) {
        fprintf(stderr, "%s: %s\n", pool, why);
        return 1;
    }
    if (run_worker(deckle_client(d), &pfn) < 0 || pfn < 0)
        return 1;
    printf("frame %" PRId64 ": \"%s\"\n", pfn, (char *)deckle_address(d, (uint64_t)pfn));

    int dead = deckle_reap_dead(d, &report);
    printf("%d dead client: %" PRIu64 " frames in use, %" PRIu64 " in caches, %" PRIu64
           " half-way\n",
           dead, report.in_use, report.cached, report.in_flight);

    int freed = deckle_free(d, (uint64_t)pfn, 3);
    uint64_t left = deckle_destroy(d);
    unlink(pool);
    return dead != 1 || freed || left;
}
