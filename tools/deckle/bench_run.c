/* SPDX-License-Identifier: MIT */
/*
 * Pinned threads (bench_run.h). The crew lives as long as the benchmark, so that neither creating
 * threads nor the first touch of their stacks is ever measured. Between runs the threads sleep; the
 * start itself is a spin, as a wake-up would let one thread run alone for microseconds.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_run.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench_clock.h"
#include "bench_refs.h"
#include "ui.h"

struct crew_thread {
    struct bench_crew *crew;
    pthread_t id;
    unsigned index, cpu;
};

struct bench_crew {
    pthread_mutex_t mutex;
    pthread_cond_t posted, finished;
    uint64_t generation; /* of the job */
    bench_work_fn *work; /* NULL = go home */
    void *arg;
    unsigned nr_threads, wanted, running;
    struct bench_barrier start;
    struct crew_thread threads[];
};

void bench_barrier_wait(struct bench_barrier *barrier)
{
    unsigned spins = 0;

    atomic_fetch_add_explicit(&barrier->arrived, 1, memory_order_acq_rel);
    while (atomic_load_explicit(&barrier->arrived, memory_order_acquire) < barrier->expected)
        if (++spins % 100000 == 0) /* another process may have the CPU that we wait for */
            sched_yield();
}

unsigned bench_allowed_cpus(unsigned *cpus, unsigned most)
{
    cpu_set_t set;
    unsigned nr = 0;

    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return 0;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && nr < most; cpu++)
        if (CPU_ISSET(cpu, &set))
            cpus[nr++] = cpu;
    return nr;
}

static void bind_to(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0)
        ui_warn("bench: cannot bind a thread to CPU %u: figures will be noisy", cpu);
}

static void *crew_main(void *arg)
{
    struct crew_thread *me = arg;
    struct bench_crew *crew = me->crew;
    uint64_t seen = 0;

    bind_to(me->cpu);
    bench_limit_attach(me->cpu);
    pthread_mutex_lock(&crew->mutex);
    for (;;) {
        while (crew->generation == seen)
            pthread_cond_wait(&crew->posted, &crew->mutex);
        seen = crew->generation;
        if (crew->work == NULL)
            break;
        if (me->index >= crew->wanted)
            continue;
        pthread_mutex_unlock(&crew->mutex);
        crew->work(crew->arg, me->index, &crew->start);
        pthread_mutex_lock(&crew->mutex);
        if (--crew->running == 0)
            pthread_cond_signal(&crew->finished);
    }
    pthread_mutex_unlock(&crew->mutex);
    return NULL;
}

struct bench_crew *bench_crew_create(const unsigned *cpus, unsigned nr_cpus)
{
    size_t bytes = sizeof(struct bench_crew) + nr_cpus * sizeof(struct crew_thread);
    struct bench_crew *crew = aligned_alloc(_Alignof(struct bench_crew), (bytes + 63) / 64 * 64);

    if (crew == NULL)
        return NULL;
    memset(crew, 0, bytes);
    pthread_mutex_init(&crew->mutex, NULL);
    pthread_cond_init(&crew->posted, NULL);
    pthread_cond_init(&crew->finished, NULL);
    for (unsigned i = 0; i < nr_cpus; i++) {
        struct crew_thread *thread = &crew->threads[i];
        int error;

        *thread = (struct crew_thread){.crew = crew, .index = i, .cpu = cpus[i]};
        error = pthread_create(&thread->id, NULL, crew_main, thread);
        if (error != 0) {
            ui_error("bench: cannot create thread %u: %s", i, strerror(error));
            bench_crew_destroy(crew);
            return NULL;
        }
        crew->nr_threads++;
    }
    return crew;
}

static void crew_post(struct bench_crew *crew, unsigned nr_threads, bench_work_fn *work, void *arg)
{
    crew->work = work;
    crew->arg = arg;
    crew->wanted = crew->running = nr_threads;
    crew->start.expected = nr_threads;
    atomic_store_explicit(&crew->start.arrived, 0, memory_order_relaxed);
    crew->generation++;
    pthread_cond_broadcast(&crew->posted);
}

void bench_crew_run(struct bench_crew *crew, unsigned nr_threads, bench_work_fn *work, void *arg)
{
    pthread_mutex_lock(&crew->mutex);
    crew_post(crew, nr_threads, work, arg);
    while (crew->running > 0)
        pthread_cond_wait(&crew->finished, &crew->mutex);
    pthread_mutex_unlock(&crew->mutex);
}

void bench_crew_destroy(struct bench_crew *crew)
{
    if (crew == NULL)
        return;
    pthread_mutex_lock(&crew->mutex);
    crew_post(crew, 0, NULL, NULL);
    pthread_mutex_unlock(&crew->mutex);
    for (unsigned i = 0; i < crew->nr_threads; i++)
        pthread_join(crew->threads[i].id, NULL);
    pthread_cond_destroy(&crew->finished);
    pthread_cond_destroy(&crew->posted);
    pthread_mutex_destroy(&crew->mutex);
    free(crew);
}

/* ---- a line between two CPUs ----------------------------------------------------------------- */

#define HOP_ROUNDS 2000u
#define HOP_RUNS   7u

struct hop {
    _Alignas(64) atomic_uint ball; /* even: the first thread's turn */
    _Alignas(64) uint64_t ticks;
};

static void hop_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct hop *hop = arg;
    uint64_t began;

    bench_barrier_wait(start);
    began = bench_clock_start();
    for (unsigned round = 0; round < HOP_ROUNDS; round++) {
        while (atomic_load_explicit(&hop->ball, memory_order_acquire) != 2 * round + thread)
            continue;
        atomic_store_explicit(&hop->ball, 2 * round + thread + 1, memory_order_release);
    }
    if (thread == 0)
        hop->ticks = bench_clock_stop() - began;
}

double bench_crew_hop(struct bench_crew *crew)
{
    double least = 0;

    for (unsigned run = 0; run < HOP_RUNS; run++) {
        struct hop hop;
        double ticks;

        atomic_init(&hop.ball, 0);
        bench_crew_run(crew, 2, hop_work, &hop);
        ticks = (double)hop.ticks / (2.0 * HOP_ROUNDS);
        if (run == 0 || ticks < least)
            least = ticks;
    }
    return least;
}
