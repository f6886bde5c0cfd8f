/* SPDX-License-Identifier: MIT */
/* What machine.c (threads, choices), memory.c (accesses) and search.c (strategies) share. */
#ifndef DK_HOST_SIM_INTERNAL_H
#define DK_HOST_SIM_INTERNAL_H

#include "host/sim/context.h"
#include "host/sim/hooks.h"
#include "host/sim/sim.h"

#define SIM_BUFFER  16u /* stores that a CPU holds back */
#define SIM_PAST    64u /* changes that an early load may precede; a power of two */
#define SIM_SEEN    8u
#define SIM_OPTIONS (1u << 20)

enum sim_mode {
    SIM_FIXED,  /* the given choices, then none */
    SIM_LISTING, /* the same, and what else could have been chosen after them is listed */
    SIM_RANDOM, /* at every access */
    SIM_PCT     /* priorities that change at a few accesses */
};

enum sim_thread_state { SIM_READY, SIM_DONE, SIM_KILLED };

struct sim_store {
    volatile void *p;
    uint64_t value;
    unsigned size;
    bool release;
};

struct sim_thread {
    struct sim_context context;
    unsigned number;
    uint32_t cpu;
    enum sim_thread_state state;
    bool in_sequence, sequence_dead;
    unsigned depth;
    /* memory.c */
    struct sim_store buffer[SIM_BUFFER];
    unsigned nr_buffered;
    uint64_t synced; /* changes up to here have been seen by all its loads to come */
    struct {
        const volatile void *p;
        uint64_t time;
    } seen[SIM_SEEN];
    unsigned nr_seen;
    /* operations */
    uint64_t op_steps[SIM_DEPTH];
    bool in_op[SIM_DEPTH];
    unsigned ops;
};

struct sim_change {
    const volatile void *p;
    uint64_t old;
    unsigned writer;
};

struct sim_undo {
    volatile void *p;
    uint64_t old;
    unsigned size;
};

struct sim_machine {
    struct sim_program program;
    struct sim_thread thread[SIM_THREADS];
    struct sim_thread *running; /* NULL: the program outside of a run */
    struct sim_context outside;
    uint32_t step;
    uint64_t trace, state;
    unsigned handlers_left;
    bool may_kill;
    unsigned last_on_cpu[64];   /* thread + 1 */
    /* memory.c */
    struct sim_change past[SIM_PAST];
    uint64_t now;               /* changes made */
    struct sim_undo *undo;
    size_t nr_undo, undo_size;
    uint16_t *users;            /* of each byte: readers, and writers in the upper half */
    bool users_grew;
    /* choices */
    enum sim_mode mode;
    const struct sim_choice *fixed;
    unsigned nr_fixed, next_fixed;
    struct sim_choice *log;
    unsigned nr_log;
    struct sim_choice *options; /* listing: what could have been chosen */
    unsigned nr_options;
    uint64_t random;
    unsigned switch_one_in, odd_one_in;
    unsigned priority[SIM_THREADS];
    uint32_t change_at[8];
    unsigned nr_changes;
    /* results */
    uint64_t longest_op;
    bool failed;
    char failure[400];
};

extern struct sim_machine sim;

/* One scheduling point; returns the number of the access. */
uint32_t sim_point(struct sim_thread *t, enum sim_access kind, const volatile void *p);

/* At access `step`: is one of so many options of this kind chosen? 0 or which. */
unsigned sim_choose(struct sim_thread *t, uint32_t step, uint8_t kind, unsigned options);

/* memory.c */
void sim_drain(struct sim_thread *t);
void sim_sync(struct sim_thread *t);
unsigned sim_flushable(const struct sim_thread *t, unsigned n);
void sim_flush(struct sim_thread *t, unsigned n);
void sim_memory_begin(void);
bool sim_shared(struct sim_thread *t, enum sim_access kind, const volatile void *p);

static inline uint64_t sim_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    return x * UINT64_C(0xbf58476d1ce4e5b9) + b;
}

static inline uint64_t sim_random(void)
{
    uint64_t z = (sim.random += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline bool sim_one_in(unsigned n)
{
    return n && !(sim_random() % n);
}

const char *sim_run(void);

#endif
