/* SPDX-License-Identifier: MIT */
/*
 * Tasks of the table `fault` that are processes. Each child makes its own allocators and memory, so
 * that nothing is shared but the machine (and, in the kernel's lane, the kernel). They go through
 * the lanes and repetitions in step: a barrier in shared memory before each measurement.
 *
 * A child that cannot go on sets `abandoned`, which every barrier looks at; nobody waits for ever.
 * Children ignore interrupts; the parent, which sees them, sets the flag.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "bench_fault.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_clock.h"

#define TASK_LOOPS 4u /* rounds of a measurement; one of the kernel's is long enough */

/* Ticks per page: of a lane, repetition and task, at [(lane * runs + run) * tasks + task]. */
struct fork_shared {
    _Alignas(64) atomic_uint arrived;  /* at barriers, counted up for ever */
    _Alignas(64) atomic_int abandoned; /* an exit status */
    _Alignas(64) double ticks[];
};

struct fork_job {
    const struct bench *bench;
    const struct bench_row *row;
    enum bench_backing backing;
    struct fork_shared *shared;
    size_t shared_bytes;
    unsigned nr_tasks;
};

static bool wait_for_all(const struct fork_job *job, unsigned *barriers)
{
    struct fork_shared *shared = job->shared;
    unsigned wanted = ++*barriers * job->nr_tasks, spins = 0;

    atomic_fetch_add(&shared->arrived, 1);
    while (atomic_load(&shared->arrived) < wanted) {
        if (atomic_load(&shared->abandoned) != 0)
            return false;
        if (++spins % 100000 == 0)
            sched_yield();
    }
    return true;
}

/* ---- a child --------------------------------------------------------------------------------- */

static int child_measure(const struct fork_job *job, const struct bench_lane *lane, unsigned task,
                         unsigned *barriers, double *ticks)
{
    const struct bench_shape *shape = &job->row->shape;
    struct bench_job loop = {.ctx = lane->ctx,
                             .gfp = shape->gfp | lane->gfp,
                             .pfns = job->bench->pfns[task],
                             .nr = shape->nr,
                             .loops = 1,
                             .memory = lane->memory,
                             .first_pfn = lane->first_pfn,
                             .page_shift = BENCH_PAGE_SHIFT};
    uint64_t began;
    int error = lane->ops->touch(&loop);

    if (error != 0)
        return error;
    loop.loops = lane->kind == BENCH_LANE_KERNEL ? 1 : TASK_LOOPS;
    if (!wait_for_all(job, barriers))
        return DECKLE_EBUSY;
    began = bench_clock_start();
    error = lane->ops->touch(&loop);
    *ticks = bench_per_element(bench_clock_stop() - began, 1, job->bench->overhead,
                               loop.loops * loop.nr);
    return error;
}

static int child_run(const struct fork_job *job, const struct bench_set *set, unsigned task)
{
    unsigned barriers = 0, runs = job->bench->runs;

    for (unsigned run = 0; run < runs; run++) {
        for (unsigned i = 0; i < job->row->nr; i++) {
            const struct bench_lane *lane = bench_set_lane(set, job->row->lanes[i].lane->kind);
            size_t at = ((size_t)i * runs + run) * job->nr_tasks + task;
            int error = child_measure(job, lane, task, &barriers, &job->shared->ticks[at]);

            if (error == DECKLE_EBUSY)
                return UI_OK; /* another one has said why */
            if (error != 0) {
                ui_error("bench: fault: %s in a process: %s", lane->name, deckle_strerror(error));
                return UI_FAULT;
            }
        }
    }
    return UI_OK;
}

static _Noreturn void child(const struct fork_job *job, unsigned task)
{
    unsigned cpu = job->bench->cpus[task];
    struct bench mine = *job->bench; /* as it would be on a machine of this one CPU */
    struct bench_set set;
    cpu_set_t cpus;
    int status;

    signal(SIGINT, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    CPU_ZERO(&cpus);
    CPU_SET(cpu, &cpus);
    sched_setaffinity(0, sizeof(cpus), &cpus);
    bench_limit_attach(cpu);
    mine.cpus[0] = cpu;
    mine.nr_cpus = 1;
    status = bench_fault_open(&mine, 1, job->backing, &set);
    if (status == UI_OK) {
        status = child_run(job, &set, task);
        if (bench_fault_close(&set) != UI_OK)
            status = UI_FAULT;
    }
    if (status != UI_OK)
        atomic_store(&job->shared->abandoned, status);
    _exit(status);
}

/* ---- the parent ------------------------------------------------------------------------------ */

/* Waits for the children; an interrupt makes them stop at their next barrier. */
static int wait_for_children(const struct fork_job *job, const pid_t *children, unsigned nr)
{
    int worst = UI_OK;

    for (unsigned i = 0; i < nr; i++) {
        int status = 0;

        while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
            if (ui_interrupted())
                atomic_store(&job->shared->abandoned, UI_INTERRUPTED);
        if (!WIFEXITED(status)) {
            ui_error("bench: fault: a process was ended by signal %d", WTERMSIG(status));
            atomic_store(&job->shared->abandoned, UI_FAULT);
            worst = UI_FAULT;
        } else if (WEXITSTATUS(status) != UI_OK) {
            worst = WEXITSTATUS(status);
        }
    }
    return worst;
}

static int run_children(const struct fork_job *job)
{
    pid_t *children = bench_zalloc(job->nr_tasks * sizeof(*children));
    unsigned nr = 0;
    int status = UI_OK;

    fflush(NULL);
    for (; nr < job->nr_tasks; nr++) {
        children[nr] = fork();
        if (children[nr] == 0)
            child(job, nr);
        if (children[nr] < 0) {
            ui_error("bench: fault: fork: %s", strerror(errno));
            atomic_store(&job->shared->abandoned, UI_MISSING);
            status = UI_MISSING;
            break;
        }
    }
    if (wait_for_children(job, children, nr) != UI_OK && status == UI_OK)
        status = UI_FAULT;
    free(children);
    return status;
}

/* The mean over the tasks is a sample, as with threads. */
static void take_samples(const struct fork_job *job)
{
    unsigned runs = job->bench->runs;

    for (unsigned i = 0; i < job->row->nr; i++) {
        const struct bench_target *target = &job->row->lanes[i].targets[0];

        for (unsigned run = 0; run < runs; run++) {
            const double *ticks = &job->shared->ticks[((size_t)i * runs + run) * job->nr_tasks];
            double sum = 0;

            for (unsigned task = 0; task < job->nr_tasks; task++)
                sum += ticks[task];
            bench_table_sample(target->table, target->row, target->column, sum / job->nr_tasks);
        }
    }
}

int bench_fault_processes(const struct bench *bench, const struct bench_row *row,
                          enum bench_backing backing)
{
    struct fork_job job = {
        .bench = bench, .row = row, .backing = backing, .nr_tasks = row->shape.threads};
    int status;

    job.shared_bytes = sizeof(*job.shared) +
                       (size_t)row->nr * bench->runs * job.nr_tasks * sizeof(job.shared->ticks[0]);
    job.shared =
        mmap(NULL, job.shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job.shared == MAP_FAILED) {
        ui_error("bench: cannot map shared memory: %s", strerror(errno));
        return UI_MISSING;
    }
    status = run_children(&job);
    if (status == UI_OK && atomic_load(&job.shared->abandoned) == 0)
        take_samples(&job);
    munmap(job.shared, job.shared_bytes);
    return status;
}
