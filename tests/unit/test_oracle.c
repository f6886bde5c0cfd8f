/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * Random operations on random maps against the oracle, with deckle_validate() after each step. A
 * failure prints the map's seed and its operations as C.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "oracle.c"
#include "oracle.h"
#include "testing.h"

#define MOST_OPS 4000u

struct run {
    struct oracle_map map;
    struct op ops[MOST_OPS];
    uint32_t nr_ops;
};

static uint32_t test_cpu;

static uint32_t cpu_hook(void *ctx)
{
    (void)ctx;
    return test_cpu;
}

static const char *validate(struct deckle *d)
{
    static char text[512];
    return deckle_validate(d, text, sizeof(text)) ? text : NULL;
}

/* Free everything; then the pool must be as empty as it was. */
static const char *finish(struct deckle *d, struct oracle *o)
{
    const struct op free_first = {OP_FREE, 0, 0, 0};
    const char *bad = NULL;
    while (!bad && o->nr_live)
        bad = op_run(d, o, &free_first);
    if (!bad && deckle_drain_all(d))
        bad = "drain failed at the end";
    if (!bad)
        bad = validate(d);
    return !bad && deckle_exit(d, NULL) ? "frames still allocated at the end" : bad;
}

static const char *play(struct run *run, uint64_t *random, uint32_t kinds)
{
    struct deckle_host host = {.size = sizeof(host), .cpu = cpu_hook};
    void *memory;
    struct deckle *d = pool_new(&run->map, &host, &memory);
    struct oracle *o = oracle_new(&run->map);
    const char *bad = d ? validate(d) : "no pool";
    for (run->nr_ops = 0; !bad && run->nr_ops < MOST_OPS; run->nr_ops++) {
        run->ops[run->nr_ops] = op_random(random, kinds);
        /* Any CPU, also one beyond the configured. */
        test_cpu = (uint32_t)test_random_below(random, run->map.cfg.nr_cpus + 1);
        bad = op_run(d, o, &run->ops[run->nr_ops]);
        if (!bad)
            bad = validate(d);
    }
    if (!bad)
        bad = finish(d, o);
    oracle_delete(o);
    if (d)
        free(memory);
    return bad;
}

static void check_many(uint64_t seed, uint64_t maps, uint32_t kinds)
{
    static struct run run;
    for (uint64_t m = 0; m < maps; m++) {
        uint64_t start = seed + m, random = start;
        oracle_map_random(&run.map, &random, test_page_shift());
        const char *bad = play(&run, &random, kinds);
        if (!bad)
            continue;
        printf("seed of the map 0x%llx: %s\n", (unsigned long long)start, bad);
        oracle_map_print(&run.map);
        uint32_t from = run.nr_ops > 40 ? run.nr_ops - 40 : 0;
        for (uint32_t i = from; i < run.nr_ops; i++)
            op_print(&run.ops[i]);
        fail_msg("%s", bad);
    }
}

static void single_frames(void **state)
{
    (void)state;
    check_many(test_seed(), test_effort(20), 1u << OP_ALLOC | 1u << OP_FREE | 1u << OP_DRAIN);
}

static void everything(void **state)
{
    (void)state;
    check_many(test_seed() ^ 0x1000000, test_effort(60), (1u << OP_KINDS) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(single_frames),
                                       cmocka_unit_test(everything)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
