/* SPDX-License-Identifier: MIT */
/*
 * Measuring one row: every lane (allocator) in turn within each repetition, so that what disturbs
 * the machine for longer than a repetition disturbs all of them and ratios survive it.
 *
 * Before that each lane is calibrated: rounds are doubled until they last an eighth of the target,
 * which also warms up caches, branch predictors and the allocator, then scaled. Every measurement
 * repeats a tenth of its work before the start, because the lanes evict each other.
 *
 * With several threads all CPUs are first kept busy until they run at full speed. Each thread then
 * measures the same work and goes on, unmeasured, until the last one has finished: nobody measures
 * an idle machine at the end.
 */
#include "bench.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "bench_clock.h"
#include "bench_peer.h"

#define ATTEMPTS       3u /* at a row of pairs that was disturbed */
#define HURRY_RUNS     2u
#define GATE_RATIO     1.4
#define COMPANY_RATIO  1.3
#define WAKE_NS        10e6
#define WAKE_ATTEMPTS  50u
#define WAKE_QUICK     15u
#define START_ATTEMPTS 10u
#define START_HURRY    3u
#define COMPANY_BLOCKS 1024u
#define WARM_BLOCKS    4096u /* rounds that are longer are warm after the calibration */

/* ---- one measurement ------------------------------------------------------------------------- */

struct shape_thread {
    _Alignas(64) uint64_t began, ticks; /* of the whole loop */
    struct bench_split split;
    int error;
};

struct shape_run {
    const struct bench *bench;
    const struct bench_lane *lane;
    const struct bench_shape *shape;
    uint64_t loops;
    struct shape_thread *threads;
    _Alignas(64) atomic_uint finished;
};

static int call_loop(const struct bench_ops *ops, const struct bench_shape *shape,
                     const struct bench_job *job, struct bench_split *split, unsigned thread)
{
    switch (shape->kind) {
    case BENCH_PAIRS:
        return ops->pairs(job);
    case BENCH_ROUNDS:
        return ops->rounds(job);
    case BENCH_BATCH:
        return ops->batch(job, split);
    case BENCH_BATCH_COMPAT:
        return ops->batch_compat(job, split);
    case BENCH_BULK:
        return ops->bulk(job, split);
    case BENCH_BULK_SINGLY:
        return ops->bulk_singly(job, split);
    case BENCH_TOUCH:
        return ops->touch(job);
    case BENCH_HANDOFF:
        return thread == 0 ? ops->produce(job) : ops->consume(job);
    case BENCH_HANDOFF_BULK:
        return thread == 0 ? ops->produce_bulk(job) : ops->consume_bulk(job);
    case BENCH_REPLACE:
        return ops->replace(job);
    }
    return DECKLE_EINVAL;
}

static bool is_handoff(const struct bench_shape *shape)
{
    return shape->kind == BENCH_HANDOFF || shape->kind == BENCH_HANDOFF_BULK;
}

/* The others still measure: keep the machine as busy as it was. The two sides of a hand-off end
 * together. */
static void keep_company(struct shape_run *run, struct bench_job *job, unsigned thread, int *error)
{
    struct bench_split unused = {0, 0};

    if (is_handoff(run->shape))
        return;
    job->loops = run->loops / 64 + 1;
    if (job->nr > COMPANY_BLOCKS)
        job->nr = COMPANY_BLOCKS;
    atomic_fetch_add(&run->finished, 1);
    while (atomic_load(&run->finished) < run->shape->threads && *error == 0)
        *error = call_loop(run->lane->ops, run->shape, job, &unused, thread);
}

static void shape_work(void *arg, unsigned thread, struct bench_barrier *start)
{
    struct shape_run *run = arg;
    const struct bench_lane *lane = run->lane;
    struct shape_thread *mine = &run->threads[thread];
    struct bench_split unused = {0, 0};
    uint64_t random = UINT64_C(0x9e3779b97f4a7c15) * (thread + 1);
    struct bench_job job = {.ctx = lane->ctx,
                            .gfp = run->shape->gfp | lane->gfp,
                            .order = run->shape->order,
                            .pfns = run->bench->pfns[thread],
                            .nr = run->shape->nr,
                            .loops = run->loops / 10,
                            .memory = lane->memory,
                            .first_pfn = lane->first_pfn,
                            .page_shift = BENCH_PAGE_SHIFT,
                            .ring = run->bench->ring,
                            .random = &random};
    struct bench_job table = job;

    if (job.loops == 0 && job.nr <= WARM_BLOCKS)
        job.loops = 1;
    mine->split = unused;
    mine->error = run->shape->kind == BENCH_REPLACE ? lane->ops->fill(&table) : 0;
    if (mine->error == 0)
        mine->error = call_loop(lane->ops, run->shape, &job, &unused, thread);
    job.loops = run->loops;
    bench_barrier_wait(start);
    mine->began = bench_clock_start();
    if (mine->error == 0)
        mine->error = call_loop(lane->ops, run->shape, &job, &mine->split, thread);
    mine->ticks = bench_clock_stop() - mine->began;
    keep_company(run, &job, thread, &mine->error);
    if (run->shape->kind == BENCH_REPLACE) {
        int error = lane->ops->empty(&table);

        mine->error = mine->error == 0 ? error : mine->error;
    }
}

/* Did all threads start within a twentieth of the time that the fastest took? When the system or a
 * hypervisor holds one of them back, the others measure an idle machine, and the minimum over the
 * repetitions would pick just that. */
static bool started_together(const struct shape_run *run)
{
    uint64_t first = UINT64_MAX, last = 0, shortest = UINT64_MAX;

    for (unsigned i = 0; i < run->shape->threads; i++) {
        const struct shape_thread *thread = &run->threads[i];

        first = thread->began < first ? thread->began : first;
        last = thread->began > last ? thread->began : last;
        shortest = thread->ticks < shortest ? thread->ticks : shortest;
    }
    return last - first <= shortest / 20;
}

static unsigned values_of(const struct bench_shape *shape)
{
    return shape->kind == BENCH_BATCH || shape->kind == BENCH_BATCH_COMPAT ||
                   shape->kind == BENCH_BULK
               ? 2
               : 1;
}

/* The values of one thread, added to the sums. */
static void add_values(const struct shape_run *run, const struct shape_thread *thread,
                       double values[BENCH_MAX_VALUES])
{
    const struct bench_shape *shape = run->shape;
    uint64_t elements = shape->kind == BENCH_REPLACE ? run->loops : run->loops * shape->nr;
    double overhead = shape->kind == BENCH_BATCH_COMPAT ? 0 : run->bench->overhead;

    if (shape->kind == BENCH_BULK_SINGLY) {
        values[0] += bench_per_element(thread->split.alloc + thread->split.free, 2 * run->loops,
                                       overhead, elements);
        return;
    }
    if (values_of(shape) == 1) {
        values[0] += bench_per_element(thread->ticks, 1, overhead, elements);
        return;
    }
    values[0] += bench_per_element(thread->split.alloc, run->loops, overhead, elements);
    values[1] += bench_per_element(thread->split.free, run->loops, overhead, elements);
}

int bench_run_shape(const struct bench *bench, const struct bench_lane *lane,
                    const struct bench_shape *shape, uint64_t loops,
                    double values[BENCH_MAX_VALUES], double *ticks)
{
    struct shape_thread threads[BENCH_MAX_CPUS];
    struct shape_run run = {
        .bench = bench, .lane = lane, .shape = shape, .loops = loops, .threads = threads};
    unsigned attempts = 0;
    bool together;

    if (lane->peer != NULL)
        return bench_peer_run(lane->peer, bench, shape, loops, values, ticks);
    do {
        atomic_init(&run.finished, 0);
        if (is_handoff(shape))
            memset(bench->ring, 0, sizeof(*bench->ring));
        bench_crew_run(bench->crew, shape->threads, shape_work, &run);
        together = started_together(&run);
    } while (!together && ++attempts < (bench_hurries(bench) ? START_HURRY : START_ATTEMPTS));
    *ticks = 0;
    for (unsigned i = 0; i < BENCH_MAX_VALUES; i++)
        values[i] = 0;
    for (unsigned i = 0; i < shape->threads; i++) {
        if (threads[i].error != 0)
            return threads[i].error;
        add_values(&run, &threads[i], values);
        *ticks = fmax(*ticks, (double)threads[i].ticks);
    }
    for (unsigned i = 0; i < BENCH_MAX_VALUES; i++)
        values[i] = together ? values[i] / shape->threads : NAN;
    return 0;
}

/* ---- a row --------------------------------------------------------------------------------- */

struct bench_row bench_row_for(const struct bench_set *set, struct bench_shape shape,
                               struct bench_table *table, unsigned row,
                               const struct bench_columns *columns)
{
    struct bench_row result = {.shape = shape};

    for (unsigned i = 0; i < set->nr; i++) {
        const struct bench_lane *lane = &set->lanes[i];
        struct bench_row_lane *mine = &result.lanes[result.nr];

        if (columns->of[lane->kind] < 0)
            continue;
        mine->lane = lane;
        mine->targets[0] = (struct bench_target){table, row, (unsigned)columns->of[lane->kind]};
        result.nr++;
    }
    return result;
}

void bench_row_second(struct bench_row *row, struct bench_table *table)
{
    for (unsigned i = 0; i < row->nr; i++) {
        row->lanes[i].targets[1] = row->lanes[i].targets[0];
        row->lanes[i].targets[1].table = table;
    }
}

struct lane_state {
    uint64_t loops;
    bool failed;
};

static void lane_failed(const struct bench_row *row, unsigned index, struct lane_state *state,
                        int error)
{
    const struct bench_row_lane *lane = &row->lanes[index];
    const struct bench_shape *shape = &row->shape;

    state->failed = true;
    for (unsigned i = 0; i < BENCH_MAX_VALUES; i++) {
        if (lane->targets[i].table == NULL)
            continue;
        bench_table_note(
            lane->targets[i].table, "%s, order %u, %zu blocks, %u thread%s: not measured: %s (%s)",
            lane->lane->name, shape->order, shape->nr, shape->threads,
            shape->threads == 1 ? "" : "s", deckle_strerror(error), deckle_error_name(error));
        return; /* once is enough */
    }
}

static void calibrate(const struct bench *bench, const struct bench_row *row, unsigned index,
                      struct lane_state *state)
{
    const struct bench_shape *shape = &row->shape;
    uint64_t most = shape->most_loops > 0 ? shape->most_loops : UINT64_C(1) << 32;
    double values[BENCH_MAX_VALUES], ticks;

    for (state->loops = 1;; state->loops *= 2) {
        int error =
            bench_run_shape(bench, row->lanes[index].lane, shape, state->loops, values, &ticks);

        if (error != 0) {
            lane_failed(row, index, state, error);
            return;
        }
        if (ticks > bench->target / 8 || state->loops * 2 > most)
            break;
    }
    state->loops = bench_scale_loops(state->loops, ticks, bench->target, most);
}

static void repeat(const struct bench *bench, const struct bench_row *row,
                   struct lane_state states[BENCH_MAX_LANES])
{
    for (unsigned i = 0; i < row->nr && !ui_interrupted(); i++) {
        const struct bench_row_lane *lane = &row->lanes[i];
        double values[BENCH_MAX_VALUES], ticks;
        int error;

        if (states[i].failed)
            continue;
        error = bench_run_shape(bench, lane->lane, &row->shape, states[i].loops, values, &ticks);
        if (error != 0) {
            lane_failed(row, i, &states[i], error);
            continue;
        }
        for (unsigned v = 0; v < values_of(&row->shape); v++)
            if (lane->targets[v].table != NULL)
                bench_table_sample(lane->targets[v].table, lane->targets[v].row,
                                   lane->targets[v].column, values[v]);
    }
}

static double lane_min(const struct bench_row *row, enum bench_lane_kind kind)
{
    for (unsigned i = 0; i < row->nr; i++) {
        const struct bench_target *target = &row->lanes[i].targets[0];

        if (row->lanes[i].lane->kind == kind && target->table != NULL)
            return bench_table_min(target->table, target->row, target->column);
    }
    return NAN;
}

/* A slow reference flatters, and CPUs that get in each other's way (a hypervisor may put two of
 * them on one core for a while) slow everything down: a row of pairs that shows either is measured
 * again. */
static bool was_disturbed(const struct bench *bench, const struct bench_row *row)
{
    double floor = lane_min(row, BENCH_LANE_FLOOR);

    return row->shape.kind == BENCH_PAIRS &&
           (bench_ratio(lane_min(row, BENCH_LANE_LIMIT), floor) > GATE_RATIO ||
            bench_ratio(floor, bench->floor) > COMPANY_RATIO);
}

/* CPUs that have just been idle: keep all of them busy until the loop runs on each as fast as it
 * does on one, for at most half a second (0.15 s with --quick). */
static void wake_cpus(struct bench *bench, unsigned threads)
{
    static const struct bench_lane lane = {.name = "floor", .ops = &bench_floor_ops};
    struct bench_shape shape = {.kind = BENCH_PAIRS, .threads = threads, .nr = 1};
    uint64_t loops = (uint64_t)(WAKE_NS * bench->ghz / bench->floor);
    double values[BENCH_MAX_VALUES], ticks;
    unsigned attempts = bench->quick ? WAKE_QUICK : WAKE_ATTEMPTS;

    if (bench->shared_cpus || bench_hurries(bench)) /* it was in vain before; there is no time */
        attempts = 1;
    bench->shared_cpus = true;
    for (unsigned attempt = 0; attempt < attempts && !ui_interrupted(); attempt++) {
        bench_run_shape(bench, &lane, &shape, loops, values, &ticks);
        if (values[0] <= COMPANY_RATIO * bench->floor) {
            bench->shared_cpus = false;
            break;
        }
    }
}

/* Samples whose threads did not run together do not count; a lane may be left without any. */
static void note_missing(const struct bench_row *row, const struct lane_state states[])
{
    for (unsigned i = 0; i < row->nr; i++) {
        const struct bench_target *target = &row->lanes[i].targets[0];

        if (states[i].failed || target->table == NULL ||
            !isnan(bench_table_min(target->table, target->row, target->column)))
            continue;
        bench_table_note(
            target->table,
            "%s, order %u, %zu blocks, %u threads: not measured: the threads never ran "
            "together",
            row->lanes[i].lane->name, row->shape.order, row->shape.nr, row->shape.threads);
    }
}

void bench_measure_row(struct bench *bench, const struct bench_row *row)
{
    struct lane_state states[BENCH_MAX_LANES];

    memset(states, 0, sizeof(states));
    if (row->shape.threads > 1)
        wake_cpus(bench, row->shape.threads);
    for (unsigned i = 0; i < row->nr && !ui_interrupted(); i++)
        calibrate(bench, row, i, &states[i]);
    for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
        for (unsigned run = 0; run < bench->runs && !ui_interrupted(); run++) {
            if (run >= HURRY_RUNS && bench_hurries(bench))
                break;
            repeat(bench, row, states);
        }
        if (!was_disturbed(bench, row) || ui_interrupted() || bench_hurries(bench))
            break;
    }
    if (!ui_interrupted())
        note_missing(row, states);
}
