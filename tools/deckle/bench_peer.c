/* SPDX-License-Identifier: MIT */
/*
 * Peers: the process that asks and the process that answers (bench_peer.h). Requests and answers
 * are structs of this very program, over two pipes; the answering process is the same program,
 * started with a hidden option.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_peer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct peer_request {
    struct bench_shape shape;
    uint64_t loops;
    double floor; /* ticks of a pair of floor, which the parent knows */
};

struct peer_answer {
    int error;
    double values[BENCH_MAX_VALUES];
    double ticks;
};

/* The first thing that a peer says. */
struct peer_greeting {
    bool ready;
    char text[160]; /* why not */
};

struct bench_peer {
    pid_t pid;
    int to, from;
    char name[32];
};

static bool transfer(int fd, void *bytes, size_t nr, bool out)
{
    char *at = bytes;

    while (nr > 0) {
        ssize_t done = out ? write(fd, at, nr) : read(fd, at, nr);

        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        at += done;
        nr -= (size_t)done;
    }
    return true;
}

/* ---- the process that asks ------------------------------------------------------------------- */

static _Noreturn void become_peer(const char *lane, int requests, int answers)
{
    dup2(requests, STDIN_FILENO);
    dup2(answers, STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN); /* the parent sees it, and ends us */
    setenv("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536", 1);
    execl("/proc/self/exe", "deckle", "bench", "--serve-peer", lane, (char *)NULL);
    _exit(UI_MISSING);
}

static bool make_pipes(int to[2], int from[2])
{
    if (pipe2(to, O_CLOEXEC) != 0)
        return false;
    if (pipe2(from, O_CLOEXEC) == 0)
        return true;
    close(to[0]);
    close(to[1]);
    return false;
}

static struct bench_peer *start(const char *lane)
{
    struct bench_peer *peer = bench_zalloc(sizeof(*peer));
    int to[2], from[2];

    snprintf(peer->name, sizeof(peer->name), "%s", lane);
    if (!make_pipes(to, from)) {
        free(peer);
        return NULL;
    }
    fflush(NULL);
    peer->pid = fork();
    if (peer->pid == 0)
        become_peer(lane, to[0], from[1]);
    close(to[0]);
    close(from[1]);
    peer->to = to[1];
    peer->from = from[0];
    if (peer->pid < 0) {
        bench_peer_stop(peer);
        return NULL;
    }
    return peer;
}

struct bench_peer *bench_peer_start(enum bench_lane_kind kind, const char **why)
{
    static struct peer_greeting greeting;
    struct bench_peer *peer;

    signal(SIGPIPE, SIG_IGN); /* a peer that dies is noticed by what it does not answer */
    peer = start(bench_lane_name(kind));
    *why = "no process could be made";
    if (peer == NULL)
        return NULL;
    *why = "its process ended at once";
    if (!transfer(peer->from, &greeting, sizeof(greeting), false) || !greeting.ready) {
        if (greeting.text[0] != '\0')
            *why = greeting.text;
        bench_peer_stop(peer);
        return NULL;
    }
    return peer;
}

void bench_peer_stop(struct bench_peer *peer)
{
    if (peer == NULL)
        return;
    close(peer->to);
    close(peer->from);
    if (peer->pid > 0) {
        kill(peer->pid, SIGKILL); /* nothing of it is needed any more */
        while (waitpid(peer->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    free(peer);
}

int bench_peer_run(struct bench_peer *peer, const struct bench *bench,
                   const struct bench_shape *shape, uint64_t loops, double values[BENCH_MAX_VALUES],
                   double *ticks)
{
    struct peer_request request = {.shape = *shape, .loops = loops, .floor = bench->floor};
    struct peer_answer answer;

    if (!transfer(peer->to, &request, sizeof(request), true) ||
        !transfer(peer->from, &answer, sizeof(answer), false))
        return DECKLE_EBACKING; /* it has died */
    memcpy(values, answer.values, sizeof(answer.values));
    *ticks = answer.ticks;
    return answer.error;
}

/* ---- the process that answers ---------------------------------------------------------------- */

int bench_peer_serve(struct bench *bench, const char *name)
{
    struct bench_peer_calls calls = {NULL, NULL};
    struct bench_lane lane = {.name = name, .ops = &bench_peer_ops, .ctx = &calls};
    struct peer_greeting greeting = {.ready = false};
    struct peer_request request;
    int answers = dup(STDOUT_FILENO);

    dup2(STDERR_FILENO, STDOUT_FILENO); /* libraries may print */
    greeting.ready = bench_peer_open(name, &calls, greeting.text, sizeof(greeting.text));
    if (!transfer(answers, &greeting, sizeof(greeting), true) || !greeting.ready)
        return UI_MISSING;
    while (transfer(STDIN_FILENO, &request, sizeof(request), false)) {
        struct peer_answer answer = {.error = 0};

        bench->floor = request.floor;
        answer.error = bench_run_shape(bench, &lane, &request.shape, request.loops, answer.values,
                                       &answer.ticks);
        if (!transfer(answers, &answer, sizeof(answer), true))
            break;
    }
    return UI_OK;
}
