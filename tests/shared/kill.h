/* SPDX-License-Identifier: MIT */
/*
 * Clients of a shared pool are killed at any instant, by the thousand.
 *
 * The keeper, a client as well, has NR_WORKERS others at work: they allocate and free blocks of
 * orders 0 to 10 one by one and in bulk, split them, give them to each other, reap, and do the same
 * in signal handlers that timers start, two deep. The keeper kills one of them, after a random time
 * or after a random number of instructions inside a call (ptrace), and puts another in its place.
 * Every few kills all stop: what the dead held is reaped, the pool is validated, and what each of
 * the living has is compared with what the pool says that it has.
 *
 * Frames given out twice are found by stamps: whoever gets a frame writes the number of its life
 * into it, and must find nobody's, or that of somebody who has been killed.
 */
#ifndef DECKLE_TESTS_SHARED_KILL_H
#define DECKLE_TESTS_SHARED_KILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <deckle/linux.h>

#define NR_WORKERS 4u
#define NR_FRAMES  8192u
#define MAX_LIVES  65536u
#define NR_LETTERS 64u /* of the keeper to one worker */

/* A block on its way: 0 = none. */
typedef _Atomic uint64_t letter;

static inline uint64_t letter_make(uint64_t life, uint64_t pfn, uint32_t order)
{
    return life << 40 | pfn << 8 | (order + 1);
}

struct worker {
    _Atomic uint32_t life;       /* 0 = none; a number that nobody had before */
    _Atomic uint32_t client;     /* 0 = not open yet */
    _Atomic uint32_t in_call;
    _Atomic uint32_t resting;    /* the pause that it has seen */
    _Atomic uint32_t repeats[2]; /* of the request that it is at, and of its handler's */
    _Atomic uint32_t frames;     /* that it has, while resting */
    letter from[NR_WORKERS];     /* letters to this worker */
    letter from_keeper[NR_LETTERS];
    letter giving;               /* what it is about to give, and to whom: */
    _Atomic uint32_t giving_to;
};

/* Memory of all. */
struct board {
    _Atomic uint32_t pause;      /* a number, 0 = go on */
    _Atomic uint64_t calls, handler_calls, failures, transfers, reaps;
    _Atomic uint64_t doubled, refused;
    _Atomic uint64_t most_repeats; /* of one request because of DECKLE_ECONTENDED */
    _Atomic uint64_t given_up;     /* requests that were repeated for too long */
    _Atomic uint64_t longest_ns;   /* of processor time, of one call */
    struct worker workers[NR_WORKERS];
    _Atomic uint8_t doomed[MAX_LIVES]; /* will be killed, or was */
};

/* Becomes a client of the pool in fd, works until it is killed. Does not return. */
void worker_run(struct board *board, unsigned slot, uint32_t life, int fd, uint64_t seed);

/* So many kills; every third one by ptrace, where that is allowed. Status of a test. */
int keeper_run(uint64_t kills, uint64_t seed);

#endif
