/* SPDX-License-Identifier: MIT */
/* What the victims do; see kill.h. Only async-signal-safe functions where handlers come. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "kill.h"
#include "testing.h"

#define MOST_FRAMES  2200u /* of one worker: together more than there are */
#define MOST_REPEATS 10000u /* then a request has failed */
#define TIME_TO_REAP 100u   /* repeats: what is missing may be a dead client's … */
#define MOST_OF_HANDLERS 20u /* … for which a handler does not wait: the next one is due */
#define NR_HELD      16u   /* blocks that a level of handlers keeps */
#define NR_LEVELS    2u
#define BULK         48u

struct block {
    uint32_t pfn, order;
};

/* A thread of execution: the main one, or a level of handlers. */
struct actor {
    uint64_t random;
    struct block held[NR_HELD];
    uint32_t nr;
};

static struct board *board;
static struct worker *me;
static struct deckle *d;
static uint32_t life, slot;
static uint8_t order_of[NR_FRAMES]; /* 1 + order of blocks of this worker, by head */
static struct block blocks[NR_FRAMES];
static uint32_t nr_blocks;
static _Atomic uint32_t nr_frames;
static struct actor actors[NR_LEVELS];
static uint64_t randomness;

/* ---- stamps ---------------------------------------------------------------------------------- */

static _Atomic uint64_t *stamp_of(uint64_t pfn)
{
    return deckle_address(d, pfn);
}

static void complain(const char *what, uint64_t pfn, uint64_t other)
{
    static _Atomic uint32_t complaints;
    char line[160];
    int n;

    if (complaints++ >= 20) /* the first tell */
        return;
    n = snprintf(line, sizeof(line), "worker %u, life %u: %s: frame %llu, life %llu\n", slot,
                     life, what, (unsigned long long)pfn, (unsigned long long)other);

    if (write(STDOUT_FILENO, line, (size_t)n) != n)
        _exit(1);
}

static void take(uint64_t pfn, uint32_t order)
{
    for (uint64_t i = pfn; i < pfn + (UINT64_C(1) << order); i++) {
        uint64_t old = atomic_exchange(stamp_of(i), life);

        if (old && (old >= MAX_LIVES || !board->doomed[old])) {
            board->doubled++;
            complain("got a frame of another", i, old);
        }
    }
    order_of[pfn] = (uint8_t)(order + 1);
    nr_frames += 1u << order;
}

static void let_go(uint64_t pfn, uint32_t order)
{
    order_of[pfn] = 0;
    nr_frames -= 1u << order;
    for (uint64_t i = pfn; i < pfn + (UINT64_C(1) << order); i++) {
        uint64_t old = life;

        if (!atomic_compare_exchange_strong(stamp_of(i), &old, 0)) {
            board->doubled++;
            complain("its frame was given to another", i, old);
        }
    }
}

/* ---- calls ----------------------------------------------------------------------------------- */

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void raise_to(_Atomic uint64_t *most, uint64_t value)
{
    uint64_t seen = *most;

    while (seen < value && !atomic_compare_exchange_weak(most, &seen, value))
        ;
}

/* One call in sixteen is measured. */
static uint64_t begin(struct actor *a)
{
    me->in_call++;
    return test_random_below(a ? &a->random : &randomness, 16) ? 0 : cpu_ns();
}

static void end(uint64_t began)
{
    if (began)
        raise_to(&board->longest_ns, cpu_ns() - began);
    me->in_call--;
}

static void reap(void)
{
    int n;

    me->in_call++;
    n = deckle_reap_dead(d, NULL);
    me->in_call--;
    if (n > 0)
        board->reaps += (uint64_t)n;
}

static int64_t allocate(struct actor *a, uint32_t gfp, uint32_t order)
{
    uint64_t began = begin(a), repeats = 0, most = a ? MOST_OF_HANDLERS : MOST_REPEATS;
    int64_t pfn;

    while ((pfn = deckle_alloc(d, gfp, order)) == DECKLE_ECONTENDED && repeats < most) {
        me->repeats[a ? 1 : 0] = (uint32_t)++repeats;
        if (!a && repeats % TIME_TO_REAP == 0)
            reap();
    }
    end(began);
    if (repeats) {
        raise_to(&board->most_repeats, repeats);
        me->repeats[a ? 1 : 0] = 0;
    }
    board->given_up += repeats == MOST_REPEATS;
    if (pfn >= 0)
        take((uint64_t)pfn, order);
    else
        board->failures++;
    return pfn;
}

static void give_back(struct actor *a, uint64_t pfn, uint32_t order)
{
    uint64_t began;
    int error;

    let_go(pfn, order);
    began = begin(a);
    error = deckle_free(d, pfn, order);
    end(began);
    if (error) {
        board->refused++;
        complain(deckle_error_name(error), pfn, order);
    }
}

static uint32_t any_order(uint64_t *random)
{
    uint64_t r = test_random_below(random, 100);

    if (r < 60)
        return 0;
    return r < 90 ? 1 + (uint32_t)test_random_below(random, 3)
                  : 4 + (uint32_t)test_random_below(random, 7);
}

static uint32_t any_gfp(uint64_t *random)
{
    return test_random_below(random, 3) ? DECKLE_GFP_KERNEL : DECKLE_GFP_HIGHUSER_MOVABLE;
}

/* ---- handlers -------------------------------------------------------------------------------- */

static void handle(int signal_number)
{
    struct actor *a = &actors[signal_number == SIGALRM ? 0 : 1];

    board->handler_calls++;
    for (unsigned i = 0; i < 3; i++) {
        if (a->nr < NR_HELD && test_random_below(&a->random, 2)) {
            uint32_t order = (uint32_t)test_random_below(&a->random, 4);
            int64_t pfn = allocate(a, any_gfp(&a->random), order);

            if (pfn >= 0)
                a->held[a->nr++] = (struct block){(uint32_t)pfn, order};
        } else if (a->nr) {
            struct block b = a->held[--a->nr];

            give_back(a, b.pfn, b.order);
        }
    }
}

/* Two timers of real time: SIGALRM, and SIGUSR1, which interrupts the handler of the other. */
static void start_timers(void)
{
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    struct itimerspec often = {{0, 700000}, {0, 300000}}, seldom = {{0, 1100000}, {0, 500000}};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL};
    timer_t timer;

    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGALRM, &action, NULL);
    event.sigev_signo = SIGALRM;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL))
        _exit(3);
    event.sigev_signo = SIGUSR1;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &seldom, NULL))
        _exit(3);
}

/* ---- the main loop --------------------------------------------------------------------------- */

static void add(uint64_t pfn, uint32_t order)
{
    blocks[nr_blocks++] = (struct block){(uint32_t)pfn, order};
}

static struct block pick(void)
{
    uint32_t i = (uint32_t)test_random_below(&randomness, nr_blocks);
    struct block b = blocks[i];

    blocks[i] = blocks[--nr_blocks];
    return b;
}

static void alloc_one(void)
{
    uint32_t order = any_order(&randomness);
    int64_t pfn;

    if (nr_frames + (1u << order) > MOST_FRAMES)
        return;
    pfn = allocate(NULL, any_gfp(&randomness), order);
    if (pfn >= 0)
        add((uint64_t)pfn, order);
}

static void free_one(void)
{
    if (nr_blocks) {
        struct block b = pick();

        give_back(NULL, b.pfn, b.order);
    }
}

static void bulk(void)
{
    uint64_t pfns[BULK], n = 1 + test_random_below(&randomness, BULK), began;
    int64_t got;

    if (nr_frames + n > MOST_FRAMES)
        return;
    for (uint64_t i = 0; i < n; i++)
        pfns[i] = DECKLE_NO_PFN;
    began = begin(NULL);
    got = deckle_alloc_bulk(d, any_gfp(&randomness), pfns, n);
    end(began);
    for (int64_t i = 0; i < got; i++)
        take(pfns[i], 0);
    if (got > 0 && test_random_below(&randomness, 2)) {
        for (int64_t i = 0; i < got; i++)
            let_go(pfns[i], 0);
        began = begin(NULL);
        board->refused += (uint64_t)got - deckle_free_bulk(d, pfns, (size_t)got);
        end(began);
        return;
    }
    for (int64_t i = 0; i < got; i++)
        add(pfns[i], 0);
}

static void split_one(void)
{
    struct block b;
    int error;

    if (!nr_blocks)
        return;
    b = pick();
    if (!b.order || b.order > 4) {
        add(b.pfn, b.order);
        return;
    }
    me->in_call++;
    error = deckle_split(d, b.pfn, b.order, 0);
    me->in_call--;
    if (error) {
        board->refused++;
        complain(deckle_error_name(error), b.pfn, b.order);
        return;
    }
    for (uint32_t i = 0; i < 1u << b.order; i++) {
        order_of[b.pfn + i] = 1;
        add(b.pfn + i, 0);
    }
}

/* ---- giving and getting ---------------------------------------------------------------------- */

/* From the entry in `giving` until the letter is written the block may be the other's already. If
 * this worker dies in between, the keeper writes the letter. */
static void give_away(void)
{
    uint32_t step = 1 + (uint32_t)test_random_below(&randomness, NR_WORKERS - 1);
    uint32_t to = (slot + step) % NR_WORKERS;
    struct worker *other = &board->workers[to];
    uint32_t other_life = other->life, client = other->client;
    struct block b;
    int error;

    if (!nr_blocks || !other_life || !client || other->from[slot] || board->doomed[other_life])
        return;
    b = pick();
    let_go(b.pfn, b.order);
    me->giving_to = to;
    me->giving = letter_make(other_life, b.pfn, b.order);
    me->in_call++;
    error = deckle_transfer(d, b.pfn, b.order, client);
    me->in_call--;
    if (!error) {
        other->from[slot] = me->giving;
        board->transfers++;
    } else if (error != DECKLE_ENOENT) {
        board->refused++;
        complain(deckle_error_name(error), b.pfn, b.order);
    }
    me->giving = 0;
    if (error) {
        take(b.pfn, b.order);
        add(b.pfn, b.order);
    }
}

static bool read_letter(letter *from, struct block *b)
{
    uint64_t l = atomic_exchange(from, 0);

    *b = (struct block){(uint32_t)(l >> 8), (uint32_t)(l & 255) - 1};
    return l && l >> 40 == life;
}

static void receive(void)
{
    struct block b;

    for (unsigned i = 0; i < NR_WORKERS; i++)
        if (me->from[i] && read_letter(&me->from[i], &b)) {
            take(b.pfn, b.order);
            add(b.pfn, b.order);
        }
}

/* Letters of the keeper tell of blocks that may have been given, and may have come by the giver's
 * own letter as well. What is ours and not in our books is freed, the rest refused. */
static void receive_doubtful(void)
{
    struct block b;

    for (unsigned i = 0; i < NR_LETTERS; i++)
        if (me->from_keeper[i] && read_letter(&me->from_keeper[i], &b) && !order_of[b.pfn])
            deckle_free(d, b.pfn, b.order);
}

/* Twice in each pause: when the first has come to rest, others may still be giving it something. */
static void rest(void)
{
    struct timespec t = {0, 200000};
    sigset_t all, before;
    uint32_t pause;

    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    while ((pause = board->pause) != 0) {
        if (me->resting != pause) {
            receive();
            receive_doubtful();
            me->frames = nr_frames;
            me->resting = pause;
        }
        nanosleep(&t, NULL);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void work(void)
{
    uint64_t r = test_random_below(&randomness, 1000);

    if (r < 400)
        alloc_one();
    else if (r < 800)
        free_one();
    else if (r < 880)
        bulk();
    else if (r < 920)
        split_one();
    else if (r < 960)
        give_away();
    else if (r < 990)
        receive();
    else if (r < 994)
        reap();
    else if (r == 999)
        deckle_drain_all(d);
    board->calls++;
}

static void ignore_bad(void *ctx, const struct deckle_bad_report *report)
{
    (void)ctx;
    (void)report;
}

void worker_run(struct board *b, unsigned number, uint32_t my_life, int fd, uint64_t seed)
{
    char why[256];
    struct deckle_open_options o = {.size = sizeof(o), .fd = fd, .bad = ignore_bad, .why = why,
                                    .why_size = sizeof(why)};
    int error;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    board = b;
    slot = number;
    life = my_life;
    me = &b->workers[slot];
    randomness = seed;
    for (unsigned i = 0; i < NR_LEVELS; i++)
        actors[i].random = seed + 1 + i;
    me->in_call++;
    error = deckle_open_shared(&o, &d);
    me->in_call--;
    if (error) {
        printf("worker %u cannot open the pool: %s: %s\n", slot, deckle_error_name(error), why);
        fflush(stdout);
        _exit(1);
    }
    me->client = deckle_client(d);
    start_timers();
    for (;;) {
        if (board->pause)
            rest();
        work();
    }
}
