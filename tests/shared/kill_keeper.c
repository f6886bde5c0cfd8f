/* SPDX-License-Identifier: MIT */
/* The keeper: kills, replaces, reaps, and looks whether all is there; see kill.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kill.h"
#include "testing.h"

#define ROUND      25u    /* kills between two looks */
#define WAIT_TRIES 100000u /* of 0.2 ms and more, for all to rest */
#define MOST_STEPS 3000u

struct keeper {
    struct board *board;
    struct deckle *d;
    int fd;
    uint64_t random;
    uint32_t lives, rounds;
    pid_t pids[NR_WORKERS];
    uint64_t by_time, by_step, inside, reaped, deferred, steps;
    bool no_ptrace;
    bool failed;
};

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number)
{
    interrupted = signal_number;
}

static void fail(struct keeper *k, const char *what, const char *detail)
{
    printf("round %u: %s%s%s\n", k->rounds, what, detail ? ": " : "", detail ? detail : "");
    k->failed = true;
}

/* ---- workers --------------------------------------------------------------------------------- */

static bool start_worker(struct keeper *k, unsigned slot)
{
    struct worker *w = &k->board->workers[slot];
    uint32_t life = ++k->lives;

    memset(w, 0, sizeof(*w));
    w->life = life;
    fflush(stdout);
    k->pids[slot] = fork();
    if (!k->pids[slot]) {
        deckle_destroy(k->d); /* this child's copy */
        worker_run(k->board, slot, life, k->fd, k->random ^ (uint64_t)life << 32);
    }
    if (k->pids[slot] < 0)
        fail(k, "no process", strerror(errno));
    return k->pids[slot] > 0;
}

/* What the dead was about to give may have arrived: the receiver, if it lives, is told. */
static void forward_letter(struct keeper *k, unsigned slot)
{
    uint64_t l = k->board->workers[slot].giving;
    struct worker *to = &k->board->workers[k->board->workers[slot].giving_to % NR_WORKERS];

    if (!l || to->life != l >> 40)
        return;
    for (unsigned i = 0; i < NR_LETTERS; i++)
        if (!to->from_keeper[i]) {
            to->from_keeper[i] = l;
            return;
        }
    fail(k, "too many letters", NULL);
}

static void bury(struct keeper *k, unsigned slot)
{
    int status;

    if (waitpid(k->pids[slot], &status, 0) != k->pids[slot] || !WIFSIGNALED(status) ||
        WTERMSIG(status) != SIGKILL) {
        char text[64];

        snprintf(text, sizeof(text), "worker %u, status 0x%x", slot, status);
        fail(k, "a worker ended by itself", text);
    }
    k->inside += k->board->workers[slot].in_call != 0;
    forward_letter(k, slot);
}

/* ---- killing --------------------------------------------------------------------------------- */

static void kill_by_time(struct keeper *k, unsigned slot)
{
    struct timespec t = {0, (long)test_random_below(&k->random, 3000000)};
    uint64_t spin = test_random_below(&k->random, 20000);

    nanosleep(&t, NULL);
    while (spin--)
        atomic_signal_fence(memory_order_seq_cst);
    k->board->doomed[k->board->workers[slot].life] = 1;
    kill(k->pids[slot], SIGKILL);
    k->by_time++;
}

/* One instruction, with the signal that is due. False: it has ended. */
static bool step(struct keeper *k, pid_t pid, int *signal_number)
{
    int status;

    if (ptrace(PTRACE_SINGLESTEP, pid, 0, *signal_number))
        return false;
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status))
        return false;
    *signal_number = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
    k->steps++;
    return true;
}

/* Stopped anywhere, it is led into a call and some instructions further, and killed there. */
static void kill_by_step(struct keeper *k, unsigned slot)
{
    uint64_t n = test_random_below(&k->random, 1 + test_random_below(&k->random, MOST_STEPS));
    struct timespec t = {0, (long)test_random_below(&k->random, 1000000)};
    pid_t pid = k->pids[slot];
    int status, signal_number = 0;
    bool alive;

    nanosleep(&t, NULL);
    if (ptrace(PTRACE_SEIZE, pid, 0, 0)) {
        k->no_ptrace = true;
        printf("no ptrace here (%s): clients are killed by time alone\n", strerror(errno));
        return;
    }
    alive = !ptrace(PTRACE_INTERRUPT, pid, 0, 0) && waitpid(pid, &status, __WALL) == pid &&
            WIFSTOPPED(status);
    for (unsigned i = 0; alive && i < MOST_STEPS && !k->board->workers[slot].in_call; i++)
        alive = step(k, pid, &signal_number);
    for (uint64_t i = 0; alive && i < n; i++)
        alive = step(k, pid, &signal_number);
    k->board->doomed[k->board->workers[slot].life] = 1;
    kill(pid, SIGKILL);
    k->by_step++;
}

static void kill_one(struct keeper *k, uint64_t number)
{
    unsigned slot = (unsigned)test_random_below(&k->random, NR_WORKERS);

    if (number % 3 == 0 && !k->no_ptrace)
        kill_by_step(k, slot);
    else
        kill_by_time(k, slot);
    if (!k->board->doomed[k->board->workers[slot].life])
        return;
    bury(k, slot);
    /* Now and then several dead lie around, and workers reap as well. */
    if (test_random_below(&k->random, 4)) {
        int n = deckle_reap_dead(k->d, NULL);
        k->reaped += n > 0 ? (uint64_t)n : 0;
    }
    start_worker(k, slot);
}

/* ---- looking --------------------------------------------------------------------------------- */

static bool all_rest(struct keeper *k, uint32_t number)
{
    struct timespec t = {0, 200000};

    k->board->pause = number;
    for (unsigned tries = 0; tries < WAIT_TRIES; tries++) {
        unsigned n = 0;

        for (unsigned i = 0; i < NR_WORKERS; i++)
            n += k->board->workers[i].resting == k->board->pause;
        if (n == NR_WORKERS)
            return true;
        nanosleep(&t, NULL);
    }
    for (unsigned i = 0; i < NR_WORKERS; i++) {
        const struct worker *w = &k->board->workers[i];

        if (w->resting != k->board->pause)
            printf("worker %u (process %ld, client %u) is in %u calls, repeats %u and %u\n", i,
                   (long)k->pids[i], w->client, w->in_call, w->repeats[0], w->repeats[1]);
    }
    fail(k, "a worker does not come to rest", NULL);
    if (getenv("DECKLE_TEST_KEEP"))
        pause(); /* for a debugger */
    return false;
}

/* Nobody is at work: nothing may be left to be done later. */
static void reap_all(struct keeper *k)
{
    struct deckle_reap_report r = {.size = sizeof(r)};

    for (unsigned i = 0; i < 8; i++) {
        int n = deckle_reap_dead(k->d, &r);

        if (n < 0)
            fail(k, "reaping", deckle_error_name(n));
        if (n <= 0)
            break;
        k->reaped += (uint64_t)n;
        k->deferred += r.deferred;
    }
    for (uint32_t client = 1; client <= DECKLE_MAX_CLIENTS; client++)
        if (deckle_client_alive(k->d, client) == 0) {
            char text[64];

            snprintf(text, sizeof(text), "client %u", client);
            fail(k, "a dead client is left after reaping", text);
        }
}

static uint64_t in_use(const struct keeper *k, uint32_t client)
{
    struct deckle_client_info info = {.size = sizeof(info)};

    return deckle_get_client(k->d, client, &info) ? UINT64_MAX : info.frames - info.cached;
}

static void compare(struct keeper *k)
{
    for (unsigned i = 0; i < NR_WORKERS; i++) {
        const struct worker *w = &k->board->workers[i];
        uint64_t says = in_use(k, w->client);
        char text[128];

        if (says == w->frames)
            continue;
        snprintf(text, sizeof(text), "worker %u (client %u) has %u frames, the pool says %lld", i,
                 w->client, w->frames, (long long)says);
        fail(k, "lost or doubled", text);
    }
}

static void look(struct keeper *k)
{
    char text[256];

    k->rounds++;
    if (all_rest(k, 2 * k->rounds) && all_rest(k, 2 * k->rounds + 1)) {
        reap_all(k);
        if (deckle_validate(k->d, text, sizeof(text)))
            fail(k, "not valid", text);
        compare(k);
    }
    if (k->board->doubled || k->board->refused)
        fail(k, "frames were doubled, or frees refused", NULL);
    k->board->pause = 0;
}

/* All but the keeper are killed: every frame must be free again. */
static void look_at_the_end(struct keeper *k)
{
    struct deckle_stat s = {.size = sizeof(s)};
    uint64_t free = 0, managed = 0;
    char text[256];

    for (unsigned i = 0; i < NR_WORKERS; i++) {
        k->board->doomed[k->board->workers[i].life] = 1;
        kill(k->pids[i], SIGKILL);
        bury(k, i);
    }
    reap_all(k);
    deckle_drain_all(k->d);
    if (deckle_validate(k->d, text, sizeof(text)))
        fail(k, "not valid at the end", text);
    deckle_get_stat(k->d, &s);
    for (uint32_t z = 0; z < s.nr_zones; z++) {
        struct deckle_zone_stat zone = {.size = sizeof(zone)};

        deckle_get_zone_stat(k->d, z, &zone);
        free += zone.free + zone.cached;
        managed += zone.managed;
    }
    printf("at the end %llu of %llu frames are free\n", (unsigned long long)free,
           (unsigned long long)managed);
    if (free != NR_FRAMES || managed != NR_FRAMES)
        fail(k, "frames are lost", NULL);
    for (unsigned order = 0; order <= 10; order++) {
        int64_t pfn = deckle_alloc(k->d, DECKLE_GFP_KERNEL, order);

        if (pfn < 0 || deckle_free(k->d, (uint64_t)pfn, order))
            fail(k, "a block cannot be had", deckle_error_name((int)pfn));
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static int set_up(struct keeper *k)
{
    char why[256] = "";
    struct deckle_shared_options o = {.size = sizeof(o), .frames = NR_FRAMES, .why = why,
                                      .why_size = sizeof(why), .min_free_kbytes = UINT64_MAX};
    struct sigaction action = {.sa_handler = on_interrupt};
    int error;

    k->fd = o.fd = memfd_create("pool", MFD_CLOEXEC);
    error = deckle_create_shared(&o, &k->d);
    if (error) {
        printf("no pool: %s: %s\n", deckle_error_name(error), why);
        return error == DECKLE_ENOTSUP ? TEST_SKIPPED : 1;
    }
    k->board = mmap(NULL, sizeof(*k->board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                    0);
    if (k->board == MAP_FAILED)
        return 1;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (unsigned i = 0; i < NR_WORKERS; i++)
        if (!start_worker(k, i))
            return 1;
    return 0;
}

static void report(const struct keeper *k)
{
    const struct board *b = k->board;

    printf("kills: %llu by time, %llu after single steps (%llu steps); %llu of them "
           "inside a call\n",
           (unsigned long long)k->by_time, (unsigned long long)k->by_step,
           (unsigned long long)k->steps, (unsigned long long)k->inside);
    printf("survivors: %llu rounds of work, %llu handlers, %llu transfers, %llu failed requests\n",
           (unsigned long long)b->calls, (unsigned long long)b->handler_calls,
           (unsigned long long)b->transfers, (unsigned long long)b->failures);
    printf("reaped: %llu by the keeper, %llu by workers; %llu blocks had to wait\n",
           (unsigned long long)k->reaped, (unsigned long long)b->reaps,
           (unsigned long long)k->deferred);
    printf("longest wait of a survivor: %llu repeats of one request (%llu gave up); %llu us of "
           "processor time in one measured request\n",
           (unsigned long long)b->most_repeats, (unsigned long long)b->given_up,
           (unsigned long long)b->longest_ns / 1000);
    printf("%u rounds: %s\n", k->rounds,
           k->failed ? "FAILED" : "0 frames lost, 0 doubled, every validation clean");
}

int keeper_run(uint64_t kills, uint64_t seed)
{
    static struct keeper k;
    uint64_t done = 0;
    int progress = isatty(STDERR_FILENO), status;

    setvbuf(stdout, NULL, _IOLBF, 0); /* what is found is seen at once, in a file too */
    k.random = seed;
    status = set_up(&k);
    if (status)
        return status;
    for (; done < kills && !k.failed && !interrupted; done++) {
        kill_one(&k, done);
        if (done % ROUND == ROUND - 1)
            look(&k);
        if (progress && done % 10 == 0)
            fprintf(stderr, "\r%llu of %llu kills", (unsigned long long)done,
                    (unsigned long long)kills);
    }
    if (progress)
        fprintf(stderr, "\r\033[K");
    if (!k.failed)
        look(&k);
    look_at_the_end(&k);
    report(&k);
    deckle_destroy(k.d);
    return k.failed ? 1 : interrupted ? 130 : 0;
}
