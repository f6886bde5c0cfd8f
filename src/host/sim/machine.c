/* SPDX-License-Identifier: MIT */
/*
 * Threads, CPUs and processes of the simulated machine, and how a run follows its choices. What can
 * be chosen: sim.h; how it is chosen: search.c.
 */
#include "host/sim/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rseq.h"

#define STACK_BYTES ((size_t)256 * 1024)

struct sim_machine sim;

/* ---- what threads ask ------------------------------------------------------------------------ */

bool sim_running(void)
{
    return sim.running;
}
unsigned sim_self(void)
{
    return sim.running ? sim.running->number : SIM_THREADS;
}
unsigned sim_depth(void)
{
    return sim.running ? sim.running->depth : 0;
}
uint32_t sim_cpu(void)
{
    return sim.running ? sim.running->cpu : 0;
}
bool sim_killed(unsigned thread)
{
    return sim.thread[thread].state == SIM_KILLED;
}
uint64_t sim_steps(void)
{
    return sim.step;
}
uint64_t sim_changes(void)
{
    return sim.now;
}
unsigned sim_op_number(unsigned thread)
{
    const struct sim_thread *t = &sim.thread[thread];
    return t->state == SIM_READY && t->in_op[0] ? t->ops : 0;
}
void sim_state_mix(uint64_t value)
{
    sim.state = sim_mix(sim.state, value);
}
uint64_t sim_state(void)
{
    return sim.state;
}
uint64_t sim_trace(void)
{
    return sim.trace;
}

static void note(const char *text)
{
    if (sim_on_event && sim.running) {
        struct sim_event e = {.thread = sim.running->number, .depth = sim.running->depth,
                              .cpu = sim.running->cpu, .step = sim.step, .kind = SIM_NOTE,
                              .note = text};
        sim_on_event(&e);
    }
}

#define SAY(format, name)                                                                          \
    char name[200] = "";                                                                           \
    if (sim_on_event) {                                                                            \
        va_list args;                                                                              \
        va_start(args, format);                                                                    \
        vsnprintf(name, sizeof(name), format, args);                                               \
        va_end(args);                                                                              \
    }

void sim_op_begin(const char *format, ...)
{
    struct sim_thread *t = sim.running;
    SAY(format, text)
    if (!t)
        return;
    t->op_steps[t->depth] = 0;
    t->in_op[t->depth] = true;
    t->ops += !t->depth;
    note(text);
}

void sim_op_end(const char *format, ...)
{
    struct sim_thread *t = sim.running;
    SAY(format, text)
    if (!t)
        return;
    if (t->op_steps[t->depth] > sim.longest_op)
        sim.longest_op = t->op_steps[t->depth];
    t->in_op[t->depth] = false;
    note(text);
}

void sim_fail(const char *format, ...)
{
    va_list args;
    if (!sim.failed) {
        va_start(args, format);
        vsnprintf(sim.failure, sizeof(sim.failure), format, args);
        va_end(args);
        note(sim.failure);
    }
    sim.failed = true;
    struct sim_thread *t = sim.running;
    if (t) {
        sim.running = NULL;
        sim_context_switch(&t->context, &sim.outside);
    }
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

static void interrupt_sequence(struct sim_thread *t)
{
    t->sequence_dead |= t->in_sequence;
}

/* The thread runs on its CPU now; who was there before has been preempted. */
static void enter_cpu(struct sim_thread *t)
{
    unsigned *last = &sim.last_on_cpu[t->cpu % 64];
    if (*last == t->number + 1)
        return;
    if (*last) {
        struct sim_thread *other = &sim.thread[*last - 1];
        interrupt_sequence(other);
        sim_drain(other);
    }
    interrupt_sequence(t);
    sim_sync(t);
    *last = t->number + 1;
}

static void migrate(struct sim_thread *t, uint32_t cpu)
{
    interrupt_sequence(t);
    sim_drain(t);
    t->cpu = cpu;
    enter_cpu(t);
    sim_sync(t);
}

static void run_handler(struct sim_thread *t)
{
    bool in_sequence = t->in_sequence;
    interrupt_sequence(t);
    bool dead = t->sequence_dead;
    t->in_sequence = t->sequence_dead = false;
    sim.handlers_left--;
    t->depth++;
    sim.program.handler(t->number, t->depth);
    t->depth--;
    t->in_sequence = in_sequence;
    t->sequence_dead = dead;
}

void sim_hook(const char *name)
{
    struct sim_thread *t = sim.running;
    if (!t)
        return;
    uint32_t step = sim_point(t, SIM_HOOK, NULL);
    sim.trace = sim_mix(sim.trace, step);
    note(name);
}

void sim_membarrier(void)
{
    struct sim_thread *t = sim.running;
    if (!t)
        return;
    sim_drain(t);
    for (unsigned i = 0; i < sim.program.nr_threads; i++) {
        struct sim_thread *other = &sim.thread[i];
        if (other == t || other->state != SIM_READY)
            continue;
        sim_hook("membarrier reaches the next CPU");
        interrupt_sequence(other);
        sim_drain(other);
        sim_sync(other);
    }
    sim_sync(t);
}

#ifdef DK_HAVE_RSEQ
uint32_t dk_sim_cpu_id(void)
{
    if (sim.running)
        sim_point(sim.running, SIM_CPU, NULL);
    return sim_cpu();
}

uint32_t dk_sim_rseq_begin(void)
{
    struct sim_thread *t = sim.running;
    if (t) {
        sim_point(t, SIM_CPU, NULL);
        t->in_sequence = true;
        t->sequence_dead = false;
    }
    return sim_cpu();
}

void dk_sim_rseq_end(void)
{
    if (sim.running)
        sim.running->in_sequence = false;
}
#endif

/* ---- switching ------------------------------------------------------------------------------- */

static void go_to(struct sim_thread *t)
{
    sim.running = t;
    enter_cpu(t);
}

/* From the running thread to another one. */
static void switch_to(unsigned number)
{
    struct sim_thread *from = sim.running;
    go_to(&sim.thread[number]);
    sim_context_switch(&from->context, &sim.running->context);
}

static void log_choice(struct sim_choice c)
{
    if (sim.nr_log == SIM_CHOICES)
        sim_fail("more than %u choices", SIM_CHOICES);
    else
        sim.log[sim.nr_log++] = c;
}

static bool is_next_fixed(uint32_t step)
{
    return sim.next_fixed < sim.nr_fixed && sim.fixed[sim.next_fixed].step == step;
}

static void list(uint32_t step, uint8_t kind, unsigned arg, uint8_t cost)
{
    if (sim.nr_options < SIM_OPTIONS)
        sim.options[sim.nr_options++] = (struct sim_choice){step, kind, (uint8_t)arg, cost};
}

static bool listing(void)
{
    return sim.mode == SIM_LISTING && sim.next_fixed == sim.nr_fixed;
}

/* Who goes on when a thread has ended? The lowest number, if nothing else is said. NULL: nobody. */
static struct sim_thread *choose_next(void)
{
    unsigned ready[SIM_THREADS], n = 0, pick = 0;
    for (unsigned i = 0; i < sim.program.nr_threads; i++)
        if (sim.thread[i].state == SIM_READY)
            ready[n++] = i;
    if (!n)
        return NULL;
    if (is_next_fixed(sim.step) && sim.fixed[sim.next_fixed].kind == '=') {
        unsigned wanted = sim.fixed[sim.next_fixed++].arg;
        for (unsigned i = 0; i < n; i++)
            pick = ready[i] == wanted ? i : pick;
    } else if (listing()) {
        for (unsigned i = 1; i < n; i++)
            list(sim.step, '=', ready[i], 0);
    } else if (sim.mode == SIM_RANDOM) {
        pick = (unsigned)(sim_random() % n);
    } else if (sim.mode == SIM_PCT) {
        for (unsigned i = 1; i < n; i++)
            if (sim.priority[ready[i]] > sim.priority[ready[pick]])
                pick = i;
    }
    if (pick)
        log_choice((struct sim_choice){sim.step, '=', (uint8_t)ready[pick], 0});
    return &sim.thread[ready[pick]];
}

static void leave_for_good(struct sim_thread *t)
{
    struct sim_thread *next = choose_next();
    if (next)
        go_to(next);
    else
        sim.running = NULL;
    sim_context_switch(&t->context, next ? &next->context : &sim.outside);
}

static void life(void)
{
    sim_context_entered();
    struct sim_thread *t = sim.running;
    sim.program.thread(t->number);
    sim_drain(t);
    t->state = SIM_DONE;
    leave_for_good(t);
}

static void kill_process(unsigned process)
{
    struct sim_thread *t = sim.running;
    sim.may_kill = false;
    for (unsigned i = 0; i < sim.program.nr_threads; i++) {
        if (sim.program.process[i] != process || sim.thread[i].state != SIM_READY)
            continue;
        sim_drain(&sim.thread[i]);
        sim.thread[i].state = SIM_KILLED;
    }
    if (t->state == SIM_KILLED)
        leave_for_good(t);
}

/* ---- choices before an access ---------------------------------------------------------------- */

static void apply(struct sim_thread *t, const struct sim_choice *c)
{
    char text[40];
    log_choice(*c);
    if (sim_on_event) {
        sim_print_choices(text, sizeof(text), c, 1);
        note(text);
    }
    switch (c->kind) {
    case '>':
        if (c->arg < sim.program.nr_threads && sim.thread[c->arg].state == SIM_READY &&
            c->arg != t->number)
            switch_to(c->arg);
        break;
    case '@':
        migrate(t, c->arg);
        break;
    case '!':
        if (sim.handlers_left && t->depth + 1 < SIM_DEPTH)
            run_handler(t);
        break;
    case 'f':
        if (c->arg / 16 < sim.program.nr_threads &&
            sim_flushable(&sim.thread[c->arg / 16], c->arg % 16))
            sim_flush(&sim.thread[c->arg / 16], c->arg % 16);
        break;
    case 'x':
        if (sim.may_kill)
            kill_process(c->arg);
        break;
    default:
        break;
    }
}

/* Is this a place where a migration differs from one a moment later? */
static bool migration_matters(const struct sim_thread *t, enum sim_access kind)
{
    return sim.program.migrate && (kind == SIM_CPU || (t->in_sequence && !t->sequence_dead));
}

static bool can_interrupt(const struct sim_thread *t)
{
    return sim.handlers_left && t->depth + 1 < SIM_DEPTH;
}

/* What could be done before this access, in bounded searches. Accesses that no other thread has to
 * do with are passed over: a switch there is the same as one before the next that has. */
static void list_options(struct sim_thread *t, uint32_t step, enum sim_access kind, bool shared)
{
    if (migration_matters(t, kind))
        for (unsigned cpu = 0; cpu < sim.program.nr_cpus; cpu++)
            if (cpu != t->cpu)
                list(step, '@', cpu, 1);
    if (sim.may_kill && kind != SIM_LOAD)
        list(step, 'x', sim.program.process[t->number], 1);
    if (!shared && kind != SIM_HOOK)
        return;
    for (unsigned i = 0; i < sim.program.nr_threads; i++)
        if (i != t->number && sim.thread[i].state == SIM_READY)
            list(step, '>', i, 1);
    if (can_interrupt(t))
        list(step, '!', 0, 1);
}

static unsigned other_thread(const struct sim_thread *t)
{
    unsigned others[SIM_THREADS], n = 0;
    for (unsigned i = 0; i < sim.program.nr_threads; i++)
        if (i != t->number && sim.thread[i].state == SIM_READY)
            others[n++] = i;
    return n ? others[sim_random() % n] : SIM_THREADS;
}

static unsigned best_thread(void)
{
    unsigned best = SIM_THREADS;
    for (unsigned i = 0; i < sim.program.nr_threads; i++)
        if (sim.thread[i].state == SIM_READY &&
            (best == SIM_THREADS || sim.priority[i] > sim.priority[best]))
            best = i;
    return best;
}

/* What is rare: migrations, handlers, kills, stores that leave a buffer. */
static bool odd_choice(const struct sim_thread *t, struct sim_choice *c)
{
    for (unsigned i = 0; i < sim.program.nr_threads; i++) {
        unsigned n = sim.thread[i].nr_buffered;
        if (n && sim_one_in(8)) {
            unsigned k = (unsigned)(sim_random() % n);
            c->kind = 'f';
            c->arg = (uint8_t)(i * 16 + k);
            if (sim_flushable(&sim.thread[i], k))
                return true;
        }
    }
    if (!sim_one_in(sim.odd_one_in))
        return false;
    c->kind = (uint8_t)"@!x"[sim_random() % 3];
    if (c->kind == '@' && sim.program.migrate) {
        c->arg = (uint8_t)(sim_random() % sim.program.nr_cpus);
        return c->arg != t->cpu;
    }
    c->arg = c->kind == 'x' ? (uint8_t)sim.program.process[t->number] : 0;
    return c->kind == '!' ? can_interrupt(t) : c->kind == 'x' && sim.may_kill && sim_one_in(4);
}

static bool random_choice(const struct sim_thread *t, uint32_t step, struct sim_choice *c)
{
    unsigned number = SIM_THREADS;
    *c = (struct sim_choice){.step = step, .kind = '>', .cost = 1};
    if (odd_choice(t, c))
        return true;
    if (sim.mode == SIM_RANDOM) {
        if (sim_one_in(sim.switch_one_in))
            number = other_thread(t);
    } else {
        for (unsigned i = 0; i < sim.nr_changes; i++)
            if (sim.change_at[i] == step)
                sim.priority[t->number] = sim.nr_changes - i;
        number = best_thread();
    }
    c->kind = '>';
    c->arg = (uint8_t)number;
    return number != SIM_THREADS && number != t->number;
}

static bool is_access_choice(uint8_t kind)
{
    return kind == 'h' || kind == 's' || kind == '=';
}

uint32_t sim_point(struct sim_thread *t, enum sim_access kind, const volatile void *p)
{
    uint32_t step = ++sim.step;
    struct sim_choice c;
    if (++t->op_steps[t->depth] > sim.program.step_limit)
        sim_fail("an operation does not end: %llu accesses",
                 (unsigned long long)t->op_steps[t->depth]);
    bool shared = p && sim_shared(t, kind, p), made = false;
    while (is_next_fixed(step) && !is_access_choice(sim.fixed[sim.next_fixed].kind)) {
        c = sim.fixed[sim.next_fixed++];
        apply(t, &c);
        made = true;
    }
    if (sim.mode == SIM_FIXED || made)
        return step;
    if (listing())
        list_options(t, step, kind, shared);
    else if (sim.mode >= SIM_RANDOM)
        while (random_choice(t, step, &c)) {
            apply(t, &c);
            if (c.kind == '>')
                break;
        }
    return step;
}

unsigned sim_choose(struct sim_thread *t, uint32_t step, uint8_t kind, unsigned options)
{
    unsigned which = 0;
    if (is_next_fixed(step) && sim.fixed[sim.next_fixed].kind == kind) {
        which = sim.fixed[sim.next_fixed++].arg;
        if (kind == 'h' || which > options)
            which = kind == 'h' ? 1 : options;
    } else if (listing()) {
        for (unsigned i = 1; i <= options; i++)
            list(step, kind, i, 1);
    } else if (sim.mode >= SIM_RANDOM && sim_one_in(4)) {
        which = 1 + (unsigned)(sim_random() % options);
    }
    if (which)
        log_choice((struct sim_choice){step, kind, (uint8_t)which, 1});
    (void)t;
    return which;
}

/* ---- runs ------------------------------------------------------------------------------------ */

bool sim_load(const struct sim_program *program)
{
    bool ok = true;
    sim = (struct sim_machine){.program = *program};
    sim.users = calloc(program->memory_size, sizeof(*sim.users));
    sim.log = malloc(SIM_CHOICES * sizeof(*sim.log));
    sim.options = malloc(SIM_OPTIONS * sizeof(*sim.options));
    for (unsigned i = 0; i < program->nr_threads; i++)
        ok &= sim_context_make(&sim.thread[i].context, STACK_BYTES);
    return ok && sim.users && sim.log && sim.options;
}

void sim_unload(void)
{
    for (unsigned i = 0; i < sim.program.nr_threads; i++)
        sim_context_free(&sim.thread[i].context);
    free(sim.undo);
    free(sim.users);
    free(sim.log);
    free(sim.options);
    sim = (struct sim_machine){.running = NULL};
}

static void begin_run(void)
{
    sim_restore();
    sim.step = 0;
    sim.next_fixed = sim.nr_log = sim.nr_options = 0;
    sim.failed = false;
    sim.handlers_left = sim.program.handlers;
    sim.may_kill = sim.program.kill;
    memset(sim.last_on_cpu, 0, sizeof(sim.last_on_cpu));
    sim_memory_begin();
    sim.program.reset();
    sim.trace = sim.state = 0;
    for (unsigned i = 0; i < sim.program.nr_threads; i++) {
        struct sim_thread *t = &sim.thread[i];
        struct sim_context context = t->context;
        *t = (struct sim_thread){.number = i, .cpu = sim.program.cpu[i], .synced = sim.now};
        t->context = context;
        sim_context_start(&t->context, life);
    }
}

const char *sim_run(void)
{
    begin_run();
    struct sim_thread *first = choose_next();
    if (first) {
        go_to(first);
        sim_context_switch(&sim.outside, &first->context);
    }
    sim.running = NULL;
    if (!sim.failed) {
        const char *bad = sim.program.judge();
        if (bad)
            sim_fail("%s", bad);
    }
    return sim.failed ? sim.failure : NULL;
}

const char *sim_replay(const struct sim_choice *choices, unsigned nr)
{
    sim.mode = SIM_FIXED;
    sim.fixed = choices;
    sim.nr_fixed = nr;
    return sim_run();
}

const struct sim_choice *sim_log(unsigned *nr)
{
    *nr = sim.nr_log;
    return sim.log;
}
