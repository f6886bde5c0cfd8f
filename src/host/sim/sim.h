/* SPDX-License-Identifier: MIT */
/*
 * The simulated machine: a few CPUs, threads and processes as coroutines of one OS thread, and a
 * scheduler that may change its mind at every access to shared memory. It knows nothing of pages: a
 * program gives it threads, memory and a judgement (struct sim_program); it runs them under many
 * schedules and prints one that fails in a form that runs again.
 *
 * What it decides, each of them at any access (a run is determined by its choices):
 *
 *   12>1   before access 12 another thread goes on, number 1
 *   12=1   thread 1 goes on after the one before has ended (access 12 was the last; 0=1: begins)
 *   12@3   the thread is moved to CPU 3
 *   12!0   a handler (interrupt, NMI, signal) runs on top of it from beginning to end
 *   12h0   the store stays in the CPU's store buffer
 *   12f17  thread 1's buffered store number 1 becomes visible (16 * thread + number)
 *   12s1   the load sees the value before the last change of the place, 2: the one before that
 *   12x1   process 1 is killed: its threads never go on
 *
 * Memory. Program order of one CPU, seq_cst operations in one order, and between them what MCA
 * machines (x86, ARMv8, RISC-V) and C11 agree on: a relaxed or release store may stay in a buffer
 * until a seq_cst update or fence of its thread, a preemption, a membarrier; buffered stores leave
 * in any order, but those to one place in theirs and a release store after all before it; a load
 * may be satisfied early, back to the last acquire or seq_cst operation of its thread, as far as
 * the last 64 changes of memory go. Coherence of each place is kept. Not simulated: loads satisfied
 * late (a value from the future of a store after it), and relaxed updates that others see late.
 *
 * CPUs. Threads on different CPUs overlap at every access. A thread of the same CPU preempts:
 * restartable sequences of the other die and its stores become visible. Migration, signals and
 * membarrier kill them too.
 */
#ifndef DK_HOST_SIM_SIM_H
#define DK_HOST_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_THREADS 4u   /* at most */
#define SIM_DEPTH   3u   /* the thread itself and handlers on top of each other */
#define SIM_CHOICES 16384u /* of one run */

struct sim_choice {
    uint32_t step; /* number of the access before which, or at which, it is made */
    uint8_t kind;  /* one of > = @ ! h f s x */
    uint8_t arg;
    uint8_t cost;  /* what it counts in a bounded search: 0 or 1 */
};

struct sim_program {
    unsigned nr_threads;
    unsigned nr_cpus; /* numbers that a migration may choose */
    uint32_t cpu[SIM_THREADS];
    unsigned process[SIM_THREADS];
    bool weak;         /* store buffers and early loads */
    bool migrate;      /* threads may change their CPU */
    bool kill;         /* one process may be killed */
    unsigned handlers; /* handlers that one run may have */
    uint64_t step_limit; /* accesses of one operation; more: it does not end */
    void *memory;      /* what is shared; accesses elsewhere are faults */
    size_t memory_size;
    void (*reset)(void);                            /* before each run; memory is restored */
    void (*thread)(unsigned thread);                /* a thread's life */
    void (*handler)(unsigned thread, unsigned depth);
    const char *(*judge)(void);                     /* after each run; NULL: all is well */
};

/* ---- for programs: what a thread may ask and say --------------------------------------------- */

bool sim_running(void);       /* is a simulated thread running? */
unsigned sim_self(void);      /* which */
unsigned sim_depth(void);     /* 0: the thread itself, else a handler */
uint32_t sim_cpu(void);
bool sim_killed(unsigned thread);
uint64_t sim_steps(void);     /* accesses so far, of all */
uint64_t sim_changes(void);   /* changes of memory so far */
unsigned sim_op_number(unsigned thread); /* operations the thread has begun, 0: is in none */

/* The running thread begins and ends an operation; name: for the trace, format as printf. */
void sim_op_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_op_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The run has failed. Does not return to a simulated thread. */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A hook of the host as a scheduling point; kind of access in traces: "hook". */
void sim_hook(const char *name);
/* As membarrier(PRIVATE_EXPEDITED_RSEQ): one thread after the other is restarted and serialised. */
void sim_membarrier(void);

/* Something that belongs to the state at the end beside memory: see sim_state(). */
void sim_state_mix(uint64_t value);
/* Hash of all that changed since the start of the run: equal memory, equal value. */
uint64_t sim_state(void);
/* Hash of who did what in which order: two runs with different values were different. */
uint64_t sim_trace(void);

/* ---- runs ------------------------------------------------------------------------------------ */

/* Called for each change of memory while it is set: place, and who. */
extern void (*sim_on_change)(const volatile void *p);

enum sim_access { SIM_LOAD, SIM_STORE, SIM_UPDATE, SIM_FENCE, SIM_HOOK, SIM_CPU, SIM_NOTE };

/* One line of a trace. */
struct sim_event {
    unsigned thread, depth;
    uint32_t cpu, step;
    enum sim_access kind;
    unsigned order; /* enum dk_sim_order, SIM_CAS_FAILED of an update */
    const volatile void *p;
    unsigned size;
    uint64_t old, new;
    const char *note;
};
#define SIM_CAS_FAILED 16u
extern void (*sim_on_event)(const struct sim_event *e);

/* Take a program. Memory must stand as each run shall find it. false: no memory for stacks. */
bool sim_load(const struct sim_program *program);
void sim_unload(void);

/* Changes of memory that are made from now on are undone before the next run, also those of
 * `reset` and `judge`; put memory back to where sim_load found it. */
void sim_restore(void);

/* One run with these choices and otherwise none. NULL: all is well; else what was wrong. */
const char *sim_replay(const struct sim_choice *choices, unsigned nr);

/* The choices of the last run. */
const struct sim_choice *sim_log(unsigned *nr);
/* "12>1 40h0", as at the head of this file; parse: how many, or -1 and *bad is where. */
void sim_print_choices(char *buf, size_t size, const struct sim_choice *choices, unsigned nr);
int sim_parse_choices(const char *text, struct sim_choice *choices, const char **bad);

/* ---- searches -------------------------------------------------------------------------------- */

struct sim_search {
    uint64_t max_runs;      /* stop after so many, 0 = no limit */
    uint64_t max_distinct;  /* stop when the set below has so many more, 0 = no limit */
    double max_seconds;     /* 0 = no limit */
    volatile const int *stop; /* an interruption */
    struct sim_set *seen;   /* traces, over all searches */
    /* out */
    uint64_t runs, distinct;
    uint64_t longest_run, longest_op; /* accesses */
    bool complete;          /* exhaustive: nothing was left out */
    const char *failure;    /* NULL, or what was wrong with the run in sim_log() */
    uint64_t seed;          /* of that run */
};

/* All runs with at most `bound` choices that cost. */
void sim_search_bounded(struct sim_search *s, unsigned bound);
/* Random schedules; depth 0: random at every access, else PCT with so many changes of priority. */
void sim_search_random(struct sim_search *s, uint64_t seed, unsigned depth);
/* Leave out choices of a failing run as long as it fails. Returns how many are left. */
unsigned sim_minimise(struct sim_choice *choices, unsigned nr);

/* A set of 64-bit values. */
struct sim_set;
struct sim_set *sim_set_make(void);
bool sim_set_add(struct sim_set *s, uint64_t value); /* true: it is new */
bool sim_set_has(const struct sim_set *s, uint64_t value);
uint64_t sim_set_size(const struct sim_set *s);
void sim_set_free(struct sim_set *s);

#endif
