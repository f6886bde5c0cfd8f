/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks compute and print, without measuring anything: statistics of samples, loop
 * counts, ratios, the text and the JSON of a table; and that the references give out what they own,
 * once.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench_refs.h"
#include "bench_stats.h"
#include "bench_table.h"
#include "testing.h"

static void check_near(double got, double want)
{
    if (!(fabs(got - want) < 1e-9))
        fail_msg("got %.12g, want %.12g", got, want);
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void minimum_and_median(void **state)
{
    struct bench_samples samples = {0};

    (void)state;
    assert_true(isnan(bench_samples_min(&samples)));
    assert_true(isnan(bench_samples_median(&samples)));

    bench_samples_add(&samples, 7);
    check_near(bench_samples_min(&samples), 7);
    check_near(bench_samples_median(&samples), 7);

    bench_samples_add(&samples, 3);
    check_near(bench_samples_min(&samples), 3);
    check_near(bench_samples_median(&samples), 5);

    bench_samples_add(&samples, 100);
    check_near(bench_samples_median(&samples), 7);
    check_near(samples.values[0], 7); /* taking the median sorts a copy */
}

static void strange_samples_are_dropped(void **state)
{
    struct bench_samples samples = {0};

    (void)state;
    bench_samples_add(&samples, NAN);
    bench_samples_add(&samples, -1);
    assert_int_equal(samples.nr, 0);
    for (unsigned i = 0; i < 2 * BENCH_MAX_SAMPLES; i++)
        bench_samples_add(&samples, i);
    assert_int_equal(samples.nr, BENCH_MAX_SAMPLES);
    check_near(samples.values[BENCH_MAX_SAMPLES - 1], BENCH_MAX_SAMPLES - 1);
}

static void ratios(void **state)
{
    (void)state;
    check_near(bench_ratio(6, 4), 1.5);
    assert_true(isnan(bench_ratio(6, 0)));
    assert_true(isnan(bench_ratio(6, NAN)));
    assert_true(isnan(bench_ratio(NAN, 2)));
}

static void loops_are_scaled(void **state)
{
    (void)state;
    assert_int_equal(bench_scale_loops(100, 1000, 5000, 1000000), 500);
    assert_int_equal(bench_scale_loops(100, 1000, 1, 1000000), 1);    /* never none */
    assert_int_equal(bench_scale_loops(100, 1000, 1e30, 4096), 4096); /* never more than asked */
    assert_int_equal(bench_scale_loops(100, 0, 1000, 4096), 4096);    /* too short to be seen */
}

static void overhead_is_subtracted(void **state)
{
    (void)state;
    check_near(bench_per_element(1000, 10, 20, 100), 8);
    check_near(bench_per_element(100, 10, 20, 100), 0); /* noise below the overhead */
    assert_true(isnan(bench_per_element(100, 1, 0, 0)));
}

/* ---- a table --------------------------------------------------------------------------------- */

static struct bench_table *sample_table(void)
{
    struct bench_table *table = bench_table_create("demo", "demo: cycles per pair");
    unsigned order, what, floor, deckle, scaling, row;

    order = bench_table_add_column(
        table, (struct bench_column){"order", BENCH_COLUMN_COUNT, 0, -1, 0, NULL});
    what = bench_table_add_column(table,
                                  (struct bench_column){"what", BENCH_COLUMN_TEXT, 0, -1, 0, NULL});
    floor = bench_table_add_column(
        table, (struct bench_column){"floor", BENCH_COLUMN_CYCLES, BENCH_SHOW_MEDIAN, -1, 0, NULL});
    deckle = bench_table_add_column(
        table, (struct bench_column){"deckle-rseq", BENCH_COLUMN_CYCLES,
                                     BENCH_SHOW_MEDIAN | BENCH_SHOW_NS | BENCH_SHOW_RATIO,
                                     (int)floor, 0, NULL});
    scaling = bench_table_add_column(
        table, (struct bench_column){"scaling", BENCH_COLUMN_NUMBER, 0, -1, 2, "x1"});

    row = bench_table_add_row(table);
    bench_table_set_count(table, row, order, 0);
    bench_table_set_text(table, row, what, "pair");
    bench_table_sample(table, row, floor, 4);
    bench_table_sample(table, row, floor, 5);
    bench_table_sample(table, row, deckle, 8);
    bench_table_sample(table, row, deckle, 120);
    bench_table_set_number(table, row, scaling, 1.985);

    row = bench_table_add_row(table);
    bench_table_set_count(table, row, order, 10);
    bench_table_set_text(table, row, what, "256 out");
    bench_table_sample(table, row, floor, 4);
    bench_table_set_number(table, row, scaling, NAN);
    bench_table_note(table, "%u threads: skipped", 2u);
    return table;
}

static void text_of_a_table(void **state)
{
    static const char want[] = "demo: cycles per pair\n"
                               "                    floor         deckle-rseq         \n"
                               "  order  what     min med  min  med  ns ratio  scaling\n"
                               "      0  pair     4.0 4.5  8.0 64.0 4.0  2.00     1.99\n"
                               "     10  256 out  4.0 4.0    -    -   -     -        -\n"
                               "  2 threads: skipped\n"
                               "\n";
    struct bench_table *table = sample_table();
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);

    (void)state;
    bench_table_print(table, to, 2.0);
    fclose(to);
    assert_string_equal(text, want);
    free(text);
    bench_table_destroy(table);
}

static void goals_of_a_table(void **state)
{
    static const char want[] = "demo: goals\n\n"
                               "  goal: order 3 / limit at most 1.25: 1.2, met\n"
                               "  goal: order 4 / limit at most 1.25: 1.5, NOT met\n"
                               "  goal: kept, % at least 97: 97, met\n"
                               "  goal: kept, % at least 97: 96.5, NOT met\n"
                               "  goal: two CPUs at most 1.05: not measured\n"
                               "\n";
    static const double met[] = {1, 0, 1, 0, -1};
    struct bench_table *table = bench_table_create("demo", "demo: goals");
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    cJSON *json;

    (void)state;
    bench_table_goal(table, BENCH_AT_MOST, 1.25, 1.2, "order %u / limit", 3u);
    bench_table_goal(table, BENCH_AT_MOST, 1.25, 1.5, "order %u / limit", 4u);
    bench_table_goal(table, BENCH_AT_LEAST, 97, 97, "kept, %%");
    bench_table_goal(table, BENCH_AT_LEAST, 97, 96.5, "kept, %%");
    bench_table_goal(table, BENCH_AT_MOST, 1.05, NAN, "two CPUs");
    bench_table_print(table, to, 2.0);
    fclose(to);
    assert_string_equal(text, want);
    free(text);

    json = bench_table_json(table, 2.0);
    for (int i = 0; i < 5; i++) {
        const cJSON *goal = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "goals"), i);
        const cJSON *is_met = cJSON_GetObjectItem(goal, "met");

        assert_true(cJSON_IsString(cJSON_GetObjectItem(goal, "goal")));
        assert_true(met[i] < 0 ? cJSON_IsNull(is_met)
                               : (met[i] > 0 ? cJSON_IsTrue(is_met) : cJSON_IsFalse(is_met)));
    }
    cJSON_Delete(json);
    bench_table_destroy(table);
}

static void the_worst_of_several(void **state)
{
    struct bench_worst worst = BENCH_WORST;

    (void)state;
    assert_true(isnan(worst.value));
    bench_worst_add(&worst, NAN, "nothing");
    assert_true(isnan(worst.value));
    bench_worst_add(&worst, 2, "order %u", 1u);
    bench_worst_add(&worst, 3, "order %u", 2u);
    bench_worst_add(&worst, 1, "order %u", 3u);
    check_near(worst.value, 3);
    assert_string_equal(worst.where, "order 2");
}

static double number_in(const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);

    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static void json_of_a_table(void **state)
{
    struct bench_table *table = sample_table();
    cJSON *json = bench_table_json(table, 2.0);
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(json, "rows");
    const cJSON *first = cJSON_GetArrayItem(rows, 0), *second = cJSON_GetArrayItem(rows, 1);
    const cJSON *deckle = cJSON_GetObjectItemCaseSensitive(first, "deckle_rseq");

    (void)state;
    assert_int_equal(cJSON_GetArraySize(rows), 2);
    check_near(number_in(deckle, "cycles_min"), 8);
    check_near(number_in(deckle, "cycles_median"), 64);
    check_near(number_in(deckle, "ns_min"), 4);
    check_near(number_in(deckle, "ns_median"), 32);
    check_near(number_in(deckle, "ratio"), 2);
    check_near(number_in(deckle, "samples"), 2);
    check_near(number_in(second, "order"), 10);
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(second, "deckle_rseq")));
    assert_true(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(second, "x1")));
    assert_null(cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(first, "floor"),
                                                 "ratio"));
    cJSON_Delete(json);
    bench_table_destroy(table);
}

static void a_table_grows(void **state)
{
    struct bench_table *table = bench_table_create("demo", "demo");
    unsigned column = bench_table_add_column(
        table, (struct bench_column){"n", BENCH_COLUMN_CYCLES, 0, -1, 0, NULL});

    (void)state;
    for (unsigned row = 0; row < 1000; row++) {
        assert_int_equal(bench_table_add_row(table), row);
        bench_table_sample(table, row, column, row);
    }
    for (unsigned row = 0; row < 1000; row++)
        check_near(bench_table_min(table, row, column), row);
    bench_table_destroy(table);
}

/* ---- the references -------------------------------------------------------------------------- */

typedef int64_t alloc_fn(void *, uint32_t, uint32_t);
typedef int free_fn(void *, uint64_t, uint32_t);

/* All blocks of an order come out, each once and aligned, then none; and all go back, twice over.
 */
static void gives_each_block_once(void *ctx, alloc_fn *alloc, free_fn *release, uint32_t order,
                                  unsigned blocks, uint64_t first, uint64_t last)
{
    uint64_t *taken = calloc(blocks, sizeof(*taken));

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < blocks; i++) {
            int64_t pfn = alloc(ctx, 0, order);

            assert_true(pfn >= (int64_t)first && pfn < (int64_t)last);
            for (unsigned j = 0; j < i; j++)
                assert_true(taken[j] != (uint64_t)pfn);
            taken[i] = (uint64_t)pfn;
        }
        assert_true(alloc(ctx, 0, order) < 0);
        for (unsigned i = 0; i < blocks; i++)
            assert_int_equal(release(ctx, taken[i], order), 0);
    }
    free(taken);
}

static const struct bench_stock stock = {.first_pfn = 1 << 20, .blocks = {700, 3, 0, 5}};

static void references_give_each_block_once(void **state)
{
    static const unsigned cpus[] = {3};
    uint64_t first = stock.first_pfn, last = first + bench_stock_frames(&stock, 1);

    (void)state;
    assert_int_equal(last - first, 700 + 3 * 2 + 5 * 8);
    bench_limit_attach(3);
    for (unsigned shared = 0; shared < 2; shared++) {
        struct bench_limit *limit = bench_limit_create(&stock, cpus, 1, shared != 0);

        assert_non_null(limit);
        for (uint32_t order = 0; order < 4; order++)
            gives_each_block_once(limit, bench_thread_alloc, bench_thread_free, order,
                                  stock.blocks[order], first, last);
        bench_limit_destroy(limit);
    }
    {
        struct bench_lock *lock = bench_lock_create(&stock, 1);

        assert_non_null(lock);
        for (uint32_t order = 0; order < 4; order++)
            gives_each_block_once(lock, bench_lock_alloc, bench_lock_free, order,
                                  stock.blocks[order], first, last);
        bench_lock_destroy(lock);
    }
}

/* Bound to a CPU, the rseq form must do exactly what the other does. Returns the CPU. */
static unsigned bind_to_one_cpu(void)
{
    cpu_set_t set;
    unsigned cpu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
    while (!CPU_ISSET(cpu, &set))
        cpu++;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
    return cpu;
}

static void rseq_reference_gives_each_block_once(void **state)
{
    unsigned cpu;

    (void)state;
    if (!bench_limit_has_rseq()) {
        print_message("skipped: no restartable sequences here\n");
        skip();
    }
    cpu = bind_to_one_cpu();
    for (unsigned shared = 0; shared < 2; shared++) {
        struct bench_limit *limit = bench_limit_create(&stock, &cpu, 1, shared != 0);

        assert_non_null(limit);
        for (uint32_t order = 0; order < 4; order++)
            gives_each_block_once(limit, bench_limit_alloc, bench_limit_free, order,
                                  stock.blocks[order], stock.first_pfn,
                                  stock.first_pfn + bench_stock_frames(&stock, 1));
        bench_limit_destroy(limit);
    }
}

/* By one and by many: the two see the same stacks, and copies of odd and even length arrive whole.
 */
typedef int64_t alloc_bulk_fn(void *, uint32_t, uint64_t *, size_t);
typedef size_t free_bulk_fn(void *, const uint64_t *, size_t);

#define MANY 1000u

static void moves_all(void *ctx, alloc_bulk_fn *alloc, free_bulk_fn *release)
{
    for (size_t nr = 1; nr <= 130; nr++) {
        uint64_t pfns[130];
        unsigned char seen[MANY] = {0};

        memset(pfns, 0xff, sizeof(pfns));
        assert_int_equal(alloc(ctx, 0, pfns, nr), nr);
        for (size_t i = 0; i < nr; i++) {
            assert_true(pfns[i] < MANY);
            assert_int_equal(seen[pfns[i]]++, 0);
        }
        if (nr < 130)
            assert_true(pfns[nr] == UINT64_MAX);
        assert_int_equal(release(ctx, pfns, nr), nr);
    }
}

static void bulk_calls_move_all(void **state)
{
    static const struct bench_stock many = {.first_pfn = 0, .blocks = {MANY}};
    unsigned cpu = bind_to_one_cpu();

    (void)state;
    bench_limit_attach(cpu);
    for (unsigned shared = 0; shared < 2; shared++) {
        struct bench_limit *limit = bench_limit_create(&many, &cpu, 1, shared != 0);

        assert_non_null(limit);
        moves_all(limit, bench_thread_alloc_bulk, bench_thread_free_bulk);
        if (bench_limit_has_rseq()) {
            moves_all(limit, bench_limit_alloc_bulk, bench_limit_free_bulk);
            gives_each_block_once(limit, bench_limit_alloc, bench_limit_free, 0, MANY, 0, MANY);
        }
        bench_limit_destroy(limit);
    }
    {
        struct bench_lock *lock = bench_lock_create(&many, 1);

        assert_non_null(lock);
        moves_all(lock, bench_lock_alloc_bulk, bench_lock_free_bulk);
        gives_each_block_once(lock, bench_lock_alloc, bench_lock_free, 0, MANY, 0, MANY);
        bench_lock_destroy(lock);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minimum_and_median),
        cmocka_unit_test(strange_samples_are_dropped),
        cmocka_unit_test(ratios),
        cmocka_unit_test(loops_are_scaled),
        cmocka_unit_test(overhead_is_subtracted),
        cmocka_unit_test(text_of_a_table),
        cmocka_unit_test(goals_of_a_table),
        cmocka_unit_test(the_worst_of_several),
        cmocka_unit_test(json_of_a_table),
        cmocka_unit_test(a_table_grows),
        cmocka_unit_test(references_give_each_block_once),
        cmocka_unit_test(rseq_reference_gives_each_block_once),
        cmocka_unit_test(bulk_calls_move_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
