/* SPDX-License-Identifier: MIT */
/*
 * Strategies of the simulated machine.
 *
 * Bounded: all runs with at most K choices that cost (preemptions, migrations, handlers, kills,
 * late stores, early loads), depth first. A run is its list of choices; the run that follows the
 * list and then chooses nothing lists what could have been chosen after the last one, and each of
 * those, appended, is a longer list. A thread that ends is followed by any other at no cost.
 * Preemptions are listed before accesses that take part in what others do; that set is learned, and
 * when it has grown the search is made again. (Musuvathi and Qadeer, "Iterative context bounding",
 * PLDI 2007.)
 *
 * Random: every access is followed by a switch with a probability that each run draws anew.
 *
 * PCT: threads have random priorities; the highest runs, and before each of d random accesses the
 * running one falls below all others. A fault that needs d ordered switches is found with
 * probability at least 1 / (n k^(d-1)) a run. (Burckhardt, Kothari, Musuvathi, Nagarakatte: "A
 * randomized scheduler with probabilistic guarantees of finding bugs", ASPLOS 2010.)
 */
#include "host/sim/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- sets of hashes -------------------------------------------------------------------------- */

/* Open addressing; 0 marks an empty place, so it stands for itself. */
struct sim_set {
    uint64_t *place;
    uint64_t size, used;
    bool has_zero;
};

struct sim_set *sim_set_make(void)
{
    struct sim_set *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->size = 1u << 16;
    s->place = calloc(s->size, sizeof(*s->place));
    return s;
}

static bool insert(struct sim_set *s, uint64_t value)
{
    uint64_t i = (value * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    for (;; i++) {
        uint64_t *p = &s->place[i & (s->size - 1)];
        if (*p == value)
            return false;
        if (!*p) {
            *p = value;
            return true;
        }
    }
}

static void grow(struct sim_set *s)
{
    uint64_t *old = s->place, size = s->size;
    s->size *= 2;
    s->place = calloc(s->size, sizeof(*s->place));
    if (!s->place) {
        fprintf(stderr, "no memory for %llu hashes\n", (unsigned long long)s->size);
        exit(3);
    }
    for (uint64_t i = 0; i < size; i++)
        if (old[i])
            insert(s, old[i]);
    free(old);
}

bool sim_set_add(struct sim_set *s, uint64_t value)
{
    if (!value) {
        bool new = !s->has_zero;
        s->has_zero = true;
        return new;
    }
    if (!insert(s, value))
        return false;
    if (++s->used > s->size / 2)
        grow(s);
    return true;
}

bool sim_set_has(const struct sim_set *s, uint64_t value)
{
    uint64_t i = (value * UINT64_C(0x9e3779b97f4a7c15)) >> 20;
    while (value && s->place[i & (s->size - 1)] && s->place[i & (s->size - 1)] != value)
        i++;
    return value ? s->place[i & (s->size - 1)] == value : s->has_zero;
}

uint64_t sim_set_size(const struct sim_set *s)
{
    return s->used + s->has_zero;
}

void sim_set_free(struct sim_set *s)
{
    if (s)
        free(s->place);
    free(s);
}

/* ---- one run of a search --------------------------------------------------------------------- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double deadline;

static bool is_over(const struct sim_search *s)
{
    if (s->failure || (s->stop && *s->stop))
        return true;
    if ((s->max_runs && s->runs >= s->max_runs) ||
        (s->max_distinct && s->distinct >= s->max_distinct))
        return true;
    return s->max_seconds > 0 && !(s->runs & 63) && now() > deadline;
}

static void begin(struct sim_search *s)
{
    deadline = now() + s->max_seconds;
    s->runs = s->distinct = s->longest_run = 0;
    s->complete = false;
    s->failure = NULL;
    sim.longest_op = 0;
}

static void one(struct sim_search *s)
{
    const char *bad = sim_run();
    s->runs++;
    if (sim_set_add(s->seen, sim_trace()))
        s->distinct++;
    if (sim.step > s->longest_run)
        s->longest_run = sim.step;
    if (sim.longest_op > s->longest_op)
        s->longest_op = sim.longest_op;
    s->failure = bad;
}

/* ---- bounded --------------------------------------------------------------------------------- */

struct frame {
    struct sim_choice *options;
    unsigned nr, next, left; /* left: what may still be spent after it */
};

/* Run the first nr choices of `plan`; the options after them that can be paid for are the next
 * frame. */
static bool descend(struct sim_search *s, struct frame *f, const struct sim_choice *plan,
                    unsigned nr, unsigned left)
{
    sim.mode = SIM_LISTING;
    sim.fixed = plan;
    sim.nr_fixed = nr;
    one(s);
    f->nr = f->next = 0;
    f->left = left;
    f->options = malloc((sim.nr_options + 1) * sizeof(*f->options));
    if (!f->options)
        return false;
    for (unsigned i = 0; i < sim.nr_options; i++)
        if (sim.options[i].cost <= left)
            f->options[f->nr++] = sim.options[i];
    return true;
}

static bool bounded_once(struct sim_search *s, unsigned bound)
{
    enum { DEPTH = 40 };
    struct frame frames[DEPTH];
    struct sim_choice plan[DEPTH] = {{0}};
    unsigned depth = 0;
    bool complete = true;
    if (!descend(s, &frames[0], plan, 0, bound))
        return false;
    for (;;) {
        struct frame *f = &frames[depth];
        if (is_over(s)) {
            complete = false;
            break;
        }
        if (f->next == f->nr) {
            free(f->options);
            if (!depth)
                return complete;
            depth--;
            continue;
        }
        struct sim_choice c = f->options[f->next++];
        if (depth + 1 == DEPTH) {
            complete = false;
            continue;
        }
        plan[depth] = c;
        if (!descend(s, &frames[depth + 1], plan, depth + 1, f->left - c.cost)) {
            complete = false;
            break;
        }
        depth++;
    }
    for (unsigned i = 0; i <= depth; i++)
        free(frames[i].options);
    return complete;
}

void sim_search_bounded(struct sim_search *s, unsigned bound)
{
    begin(s);
    do {
        sim.users_grew = false;
        s->complete = bounded_once(s, bound);
    } while (s->complete && sim.users_grew);
}

/* ---- random ---------------------------------------------------------------------------------- */

static void draw_priorities(unsigned depth, uint64_t length)
{
    for (unsigned i = 0; i < SIM_THREADS; i++)
        sim.priority[i] = depth + 1 + i;
    for (unsigned i = sim.program.nr_threads; i-- > 1;) {
        unsigned j = (unsigned)(sim_random() % (i + 1)), p = sim.priority[i];
        sim.priority[i] = sim.priority[j];
        sim.priority[j] = p;
    }
    sim.nr_changes = depth;
    for (unsigned i = 0; i < depth; i++)
        sim.change_at[i] = (uint32_t)(1 + sim_random() % (length ? length : 1));
}

void sim_search_random(struct sim_search *s, uint64_t seed, unsigned depth)
{
    static const unsigned often[] = {2, 5, 12, 30, 80}, odd[] = {0, 30, 200};
    begin(s);
    if (depth > 8)
        depth = 8;
    sim.fixed = NULL;
    sim.nr_fixed = 0;
    do {
        s->seed = seed;
        sim.random = seed++;
        sim.mode = depth ? SIM_PCT : SIM_RANDOM;
        sim.switch_one_in = often[sim_random() % 5];
        sim.odd_one_in = odd[sim_random() % 3];
        if (depth)
            draw_priorities(depth, s->longest_run ? s->longest_run : 200);
        one(s);
    } while (!is_over(s));
}

/* ---- a failing run --------------------------------------------------------------------------- */

unsigned sim_minimise(struct sim_choice *choices, unsigned nr)
{
    struct sim_choice *trial = malloc((nr + 1) * sizeof(*trial));
    if (!trial)
        return nr;
    /* Leaving one out moves all later accesses, so what is left need not mean what it did; what
     * fails is kept. Halves first, then single ones. */
    for (unsigned chunk = nr ? (nr + 1) / 2 : 0; chunk; chunk = chunk > 1 ? (chunk + 1) / 2 : 0) {
        for (unsigned at = 0; at < nr;) {
            unsigned n = at + chunk < nr ? chunk : nr - at;
            memcpy(trial, choices, at * sizeof(*trial));
            memcpy(trial + at, choices + at + n, (nr - at - n) * sizeof(*trial));
            if (sim_replay(trial, nr - n)) {
                nr -= n;
                memcpy(choices, trial, nr * sizeof(*trial));
            } else {
                at += n;
            }
        }
    }
    free(trial);
    sim_replay(choices, nr);
    return nr;
}

void sim_print_choices(char *buf, size_t size, const struct sim_choice *choices, unsigned nr)
{
    size_t at = 0;
    if (size)
        *buf = '\0';
    for (unsigned i = 0; i < nr && at < size; i++) {
        int n = snprintf(buf + at, size - at, "%s%u%c%u", i ? " " : "", choices[i].step,
                         choices[i].kind, choices[i].arg);
        at += n > 0 ? (size_t)n : 0;
    }
}

int sim_parse_choices(const char *text, struct sim_choice *choices, const char **bad)
{
    int nr = 0;
    for (;;) {
        char *end;
        while (*text == ' ')
            text++;
        *bad = text;
        if (!*text)
            return nr;
        unsigned long step = strtoul(text, &end, 10), arg;
        if (end == text || !*end || !strchr(">=@!hfsx", *end) || nr == (int)SIM_CHOICES)
            return -1;
        uint8_t kind = (uint8_t)*end;
        arg = strtoul(end + 1, &end, 10);
        if ((*end && *end != ' ') || arg > 255 || step > UINT32_MAX)
            return -1;
        choices[nr++] = (struct sim_choice){(uint32_t)step, kind, (uint8_t)arg,
                                            kind != '=' && kind != 'f'};
        text = end;
    }
}
