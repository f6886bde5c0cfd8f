/* SPDX-License-Identifier: MIT */
/*
 * An explicit-state checker: visits every state that a small model of a protocol can reach, breadth
 * first, and asks of each whether it is allowed.
 *
 * A model is a state of constant size and a number of movers (threads, store buffers). One step of
 * a mover is one access to shared memory with the private work after it. Where a step has several
 * outcomes (a scan may begin anywhere, a sequence may be aborted) it asks model_choose(), and every
 * answer is explored. The shortest way to the first forbidden state is kept and can be printed.
 *
 * Visited states are remembered by 128 bits of hash. Two of 10^7 states fall together with a
 * probability below 10^-24: what is reported as exhaustive is exhaustive.
 *
 * Lock-freedom. Operations of a model are finite scripts, so an execution without end is a cycle in
 * the graph of states, or an infinite number of states (the limit is met). A model that asks for it
 * is checked for cycles: none means that no schedule whatever keeps operations from completing.
 */
#ifndef MODEL_CHECKER_H
#define MODEL_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model {
    size_t size; /* bytes of a state; no padding inside that steps do not control */
    unsigned movers;
    bool acyclic;   /* look for cycles */
    uint32_t limit; /* states; more is a failure of the test */
    void (*init)(void *state);
    /* One step; false when the mover has nothing to do. */
    bool (*step)(void *state, unsigned mover);
    /* Calls model_forbid() when the state is forbidden. */
    void (*check)(const void *state);
    /* The same for what threads can do alone from here; last = mover whose first choice led here,
     * or movers. May be NULL. */
    void (*alone)(const void *state, unsigned last);
    void (*print)(const void *state);
};

/* A simpler protocol, planted into a case: it must fail there (harmful), or is known to hold. */
struct plant {
    unsigned bug;
    const char *name, *in;
    bool harmful;
};

struct outcome {
    bool found; /* a forbidden state */
    bool full;  /* the limit was met: nothing is proved */
    char message[160];
    uint32_t states;
    uint64_t steps;
    uint32_t depth; /* of the forbidden state, or of the deepest */
};

void model_explore(const struct model *m, struct outcome *out, bool trace);

/* Inside a step: a number below n, every one of which is explored. At most once per step. */
unsigned model_choose(unsigned n);

/* Inside step, check or alone: this state is forbidden. The first message counts. */
void model_forbid(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Inside a step: what it does, for traces. */
void model_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
