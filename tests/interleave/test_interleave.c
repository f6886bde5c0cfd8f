/* SPDX-License-Identifier: MIT */
/* ctest: timeout=300 */
/*
 * Operations of two or three actors, interleaved at chosen accesses to shared memory. The core is
 * compiled so that every access calls dk_test_point(); an actor is a coroutine that can be left at
 * any of them.
 *
 *   inside    at the n-th access of A run B from beginning to end, then go on with A: for every n
 *   crossed   A up to its n-th access, B up to its m-th, the rest of A, of B: n and m random
 *   stalled   A stopped at its n-th access for good; what others do meanwhile must succeed
 *   shuffled  three actors of several operations each, left at random accesses
 *
 * After each run the pool must validate and no frame may have two owners. In "inside" a request
 * must not fail as long as some block that fits was free all the time (contract rule 6: B is not an
 * unfinished operation there). At the end everything is freed and drained, and all of the pool must
 * be free again. Sequentially consistent: what weaker memory could do is not seen here.
 *
 * A failure prints pool, operations and accesses; DECKLE_TEST_SEED repeats it.
 */
#include "actors.h"
#include "core/blockinfo.h"

/* ---- judging --------------------------------------------------------------------------------- */

static bool fits_throughout(unsigned order)
{
    uint64_t n = 1ull << order;
    for (uint64_t pfn = 0; pfn < nr_frames; pfn += n) {
        uint64_t p = pfn;
        while (p < pfn + n && !owner[p] && !owner_at_start[p])
            p++;
        if (p == pfn + n)
            return true;
    }
    return false;
}

static const char *validated(void)
{
    static char text[400];
    return deckle_validate(pool, text, sizeof(text)) ? text : NULL;
}

static const char *judge(void)
{
    if (cma_stays && deckle_pageblock_type(pool, 0) != DECKLE_CMA)
        return "a request has changed the type of a CMA block";
    if (faults)
        return "a frame with two owners, or a refused free";
    if (reports)
        return "a report of the bad hook";
    return validated();
}

/* Free everything, also what was there before; the pool must be whole again. */
static const char *clean_up(void)
{
    for (unsigned i = 0; i < ACTORS; i++)
        give_all(&actors[i]);
    for (uint64_t pfn = 0; pfn < nr_frames; pfn++) {
        int order = owner[pfn] ? deckle_block_order(pool, pfn) : -1;
        if (order >= 0 && deckle_free(pool, pfn, (unsigned)order))
            return "a block of the scene cannot be freed";
    }
    if (deckle_drain_all(pool))
        return "the last drain failed";
    const char *bad = judge();
    if (cma_stays)
        deckle_set_pageblock_type(pool, 0, DECKLE_MOVABLE);
    cma_stays = false;
    if (bad)
        return bad;
    for (uint64_t pfn = 0; pfn < nr_frames; pfn += 2048)
        if (deckle_alloc(pool, GFP_U, 11) < 0)
            return "the pool is not whole again";
    return deckle_alloc(pool, GFP_U, 0) >= 0 ? "more frames than there are" : NULL;
}

static struct actor actors_at_start[ACTORS];

static void save_start(void)
{
    memcpy(snapshot, memory, memory_size);
    memcpy(owner_at_start, owner, sizeof(owner));
    memcpy(actors_at_start, actors, sizeof(actors));
}

static void restore_start(void)
{
    memcpy(memory, snapshot, memory_size);
    memcpy(owner, owner_at_start, sizeof(owner));
    for (unsigned i = 0; i < ACTORS; i++) {
        memcpy(actors[i].held, actors_at_start[i].held, sizeof(actors[i].held));
        actors[i].nr_held = actors_at_start[i].nr_held;
    }
    faults = reports = 0;
    cma_stays = false;
}

static const char *kind_name;

static void complain(const char *what, enum scene scene, unsigned a, unsigned b, uint64_t n,
                     uint64_t m)
{
    printf("%s, scene %s: %s left before access %lld, %s before access %lld: %s\n", kind_name,
           scene_names[scene], scripts[a].name, (long long)n, scripts[b].name, (long long)m, what);
    fail_msg("%s", what);
}

/* ---- schedules ------------------------------------------------------------------------------- */

/* A up to n, B up to m, rest of A, rest of B; how many accesses A made. */
static uint64_t cross(unsigned a, unsigned b, uint32_t cpu_b, uint64_t n, uint64_t m)
{
    restore_start();
    actor_begin(0, scripts[a].ops, 0);
    actor_begin(1, scripts[b].ops, cpu_b);
    actors[2].cpu = UINT32_MAX;
    actors[0].stop_at = n;
    actors[1].stop_at = m;
    actor_run(0);
    if (!actors[0].finished) {
        actor_run(1);
        actor_run(0);
    }
    if (!actors[1].finished)
        actor_run(1);
    return actors[0].points;
}

static void judge_inside(enum scene scene, unsigned a, unsigned b, uint64_t n)
{
    const char *bad = judge();
    if (!bad && actors[0].failed && fits_throughout(actors[0].asked) && a < NR_OPS &&
        ops[a].fn != take_limit && !is_setup(b))
        bad = "a request failed although a block was free all the time";
    if (!bad && n % 8 == 0)
        bad = clean_up();
    if (bad)
        complain(bad, scene, a, b, n, NEVER);
}

static void pair(enum scene scene, unsigned a, unsigned b, uint64_t crossings)
{
    uint64_t length = 0, most = 400, step;
    for (uint32_t cpu_b = 0; cpu_b < 2; cpu_b++) {
        length = cross(a, b, cpu_b, NEVER, NEVER);
        /* Very long operations (failures, drains) are sampled. */
        step = length > most ? length / most + 1 : 1;
        uint64_t first = step > 1 ? test_random_below(&random_state, step) : 0;
        for (uint64_t n = first; n < length; n += step) {
            cross(a, b, cpu_b, n, NEVER);
            judge_inside(scene, a, b, n);
        }
    }
    for (uint64_t i = 0; i < crossings && length; i++) {
        uint64_t n = test_random_below(&random_state, length);
        uint64_t m = test_random_below(&random_state, length + 40);
        cross(a, b, (uint32_t)(i & 1), n, m);
        const char *bad = judge();
        if (!bad && i % 8 == 0)
            bad = clean_up();
        if (bad)
            complain(bad, scene, a, b, n, m);
    }
}

static unsigned script_of(const char *name)
{
    for (unsigned i = 0; i < nr_scripts; i++)
        if (!strcmp(scripts[i].name, name))
            return i;
    fail_msg("no script %s", name);
    return 0;
}

/* Every n with every m (but `thin` of them) of two scripts. */
static void cross_all(enum scene scene, const char *first, const char *second, uint64_t thin)
{
    unsigned a = script_of(first), b = script_of(second);
    uint64_t length = cross(a, b, 1, NEVER, NEVER);
    for (uint64_t n = 0; n < length; n++) {
        bool left = true; /* B, before m */
        for (uint64_t m = n % thin; left; m += thin) {
            cross(a, b, 1, n, m);
            left = actors[1].points > m;
            const char *bad = judge();
            if (bad)
                complain(bad, scene, a, b, n, m);
        }
    }
}

/*
 * A is stopped in a free and stays there; B frees something and is done; then a request of the
 * third must get what B freed: a stopped thread withholds the frames of its own operation, no
 * others.
 */
static void stalled(enum scene scene, unsigned a, unsigned b, unsigned c)
{
    static uint8_t owner_of_a[MOST_FRAMES];
    uint64_t length = cross(a, b, 1, NEVER, NEVER);
    for (uint64_t n = 0; n < length; n++) {
        restore_start();
        memcpy(owner_of_a, owner, sizeof(owner));
        actor_begin(0, scripts[a].ops, 0);
        actor_begin(1, scripts[b].ops, 1);
        actor_begin(2, scripts[c].ops, 1);
        actors[0].stop_at = n;
        actor_run(0);
        actor_run(1);
        for (uint64_t pfn = 0; pfn < nr_frames; pfn++) /* what B gave; A's frames count as taken */
            owner_at_start[pfn] = owner_of_a[pfn] == 1 ? 1 : owner[pfn];
        actor_run(2);
        bool withheld = actors[2].failed && fits_throughout(actors[2].asked);
        memcpy(owner_at_start, owner_of_a, sizeof(owner));
        if (!actors[0].finished)
            actor_run(0);
        const char *bad = judge();
        if (!bad && withheld)
            bad = "frames of another one's free are withheld by a thread that is stopped";
        if (bad) {
            printf("third actor: %s\n", scripts[c].name);
            complain(bad, scene, a, b, n, NEVER);
        }
    }
}

/* The same for a request that is stopped in a block with room for both. */
static void stall_requests(void)
{
    static const char *const takes[] = {"take0_shared", "take1_shared", "take3", "take7",
                                        "nine_then_zero"};
    for (unsigned a = 0; a < 4; a++) {
        for (unsigned c = 0; c < 5; c++) {
            unsigned first = script_of(takes[a]), third = script_of(takes[c]);
            uint64_t length = cross(first, third, 1, NEVER, NEVER);
            for (uint64_t n = 0; n < length; n++) {
                cross(first, third, 1, n, NEVER);
                const char *bad = judge();
                if (!bad && actors[1].failed && !actors[1].nr_held)
                    bad = "a stopped request withholds the rest of a block";
                if (bad)
                    complain(bad, ONE, first, third, n, NEVER);
            }
        }
    }
}

static bool nothing_used(void)
{
    return !dk_w_used(atomic_load(&pool->words[0]));
}

/*
 * A request finds that the run is overstated while another has reserved all; before it can lower
 * the run, everything comes back. Then it is stopped, and the block must be there for a third.
 */
static void lower_too_late(void)
{
    unsigned first = script_of("halves"), second = script_of("take8");
    unsigned third = script_of("take9_shared");
    uint64_t lowering = 512 / (8 * sizeof(dk_word)) + 2; /* W, the line, W */
    uint64_t length_a = cross(first, second, 1, NEVER, NEVER);
    uint64_t length_b = cross(second, first, 1, NEVER, NEVER);
    for (uint64_t n = 0; n < length_a; n++) {
        for (uint64_t i = 0; i < 2 * length_b * 12; i++) {
            uint64_t m = i / 12;
            restore_start();
            actor_begin(0, scripts[first].ops, 0);
            actor_begin(1, scripts[second].ops, 1);
            actor_begin(2, scripts[third].ops, 1);
            actors[0].stop_at = n;
            actors[1].stop_at = m;
            actor_run(0);
            actor_run(1);
            actors[0].stop_at = NEVER;
            if (actors[0].finished || actors[1].finished)
                break;
            actor_run(0);
            if (!nothing_used()) {
                i += 11 - i % 12;
                continue;
            }
            actors[1].stop_at = m + lowering + i % 12;
            actor_run(1);
            if (!nothing_used())
                continue;
            actor_run(2);
            if (actors[2].failed) {
                printf("third actor: %s\n", scripts[third].name);
                complain("a free block is not found", ONE, first, second, n, m);
            }
        }
    }
}

static void stall_all(enum scene scene)
{
    static const char *const gives[] = {"give_first", "give_last", "give_two", "give_all"};
    static const char *const takes[] = {"take0_shared", "take1_shared", "take7", "take8",
                                        "take9_shared", "take10"};
    for (unsigned a = 0; a < 4; a++)
        for (unsigned b = 0; b < 4; b++)
            for (unsigned c = 0; c < 6; c++)
                stalled(scene, script_of(gives[a]), script_of(gives[b]), script_of(takes[c]));
}

/* Three actors, left at random, each with a script of its own. */
static void shuffled(enum scene scene)
{
    unsigned chosen[ACTORS];
    restore_start();
    for (unsigned i = 0; i < ACTORS; i++) {
        do
            chosen[i] = (unsigned)test_random_below(&random_state, nr_scripts);
        while (i && is_setup(chosen[i]));
        actor_begin(i, scripts[chosen[i]].ops, (uint32_t)test_random_below(&random_state, 3));
    }
    shuffle = true;
    for (unsigned left = ACTORS; left;) {
        unsigned i = (unsigned)test_random_below(&random_state, ACTORS);
        if (actors[i].finished)
            continue;
        actor_run(i);
        left -= actors[i].finished;
    }
    shuffle = false;
    const char *bad = judge();
    if (!bad)
        bad = clean_up();
    if (bad) {
        printf("third actor: %s\n", scripts[chosen[2]].name);
        complain(bad, scene, chosen[0], chosen[1], 0, 0);
    }
}

static void set_up(enum scene scene, const char *kind, uint32_t blocks, uint32_t features,
                   bool rseq)
{
    kind_name = kind;
    memset(owner, 0, sizeof(owner));
    for (unsigned i = 0; i < ACTORS; i++)
        actors[i].nr_held = 0;
    make_pool(blocks, features, rseq);
    assert_string_equal(deckle_cache_kind(pool), kind);
    make_scene(scene);
    save_start();
    if (validated())
        fail_msg("scene %s: %s", scene_names[scene], validated());
}

static void tear_down(void)
{
    free(memory);
    free(snapshot);
}

static void explore(const char *kind, uint32_t features, bool rseq)
{
    uint64_t effort = test_effort(100);
    for (unsigned scene = 0; scene < SCENES; scene++) {
        set_up((enum scene)scene, kind, 8, features, rseq);
        for (unsigned a = 0; a < nr_scripts; a++) {
            for (unsigned b = 0; b < nr_scripts; b++) {
                bool both = is_setup(a) && is_setup(b);
                if (!both && test_random_below(&random_state, 100) < effort / 8 + 1)
                    pair((enum scene)scene, a, b, 20);
            }
        }
        for (uint64_t i = 0; i < 20 * effort; i++)
            shuffled((enum scene)scene);
        if (features & DECKLE_FEATURE_NO_CACHES)
            stall_all((enum scene)scene);
        if (scene == SINGLES)
            cross_all(SINGLES, "take1_shared", "swap_pair", 1);
        if (scene == ONE && (features & DECKLE_FEATURE_NO_CACHES))
            stall_requests(), lower_too_late();
        if (scene == ONE) {
            pair(ONE, script_of("take9_shared"), script_of("to_cma"), 0);
            pair(ONE, script_of("at_half"), script_of("take0_shared"), 0);
        }
        tear_down();
    }
}

/* An index of two levels: a stopped free may have set the leaf, and nothing above it. */
static void two_levels(void **state)
{
    (void)state;
    set_up(FULL, "none", 40, DECKLE_FEATURE_NO_CACHES, false);
    stall_all(FULL);
    cross_all(FULL, "give_two", "take0_shared", 100 / test_effort(100) + 1);
    tear_down();
}

static unsigned frees_done;

static void free_twice(struct actor *a)
{
    (void)a;
    frees_done += deckle_free(pool, 8, 3) == DECKLE_OK;
}

/* Two frees of one block, one inside the other: with STRICT one of them is refused. */
static void strict_frees(void **state)
{
    static op_fn const once[] = {free_twice, NULL};
    static const uint32_t kinds[] = {DECKLE_FEATURE_NO_CACHES, DECKLE_FEATURE_CELLS};
    (void)state;
    for (unsigned k = 0; k < 2; k++) {
        set_up(FRESH, k ? "cells" : "none", 1, kinds[k], false);
        base_at(8, 3);
        assert_int_equal(deckle_set_debug(pool, DECKLE_DEBUG_STRICT), 0);
        save_start();
        for (uint64_t n = 0, length = 1; n < length; n++) {
            restore_start();
            frees_done = 0;
            reports = 1; /* only the first is printed */
            actor_begin(0, once, 0);
            actor_begin(1, once, 1);
            actors[0].stop_at = n;
            actor_run(0);
            actor_run(1);
            if (!actors[0].finished)
                actor_run(0);
            length = actors[0].points;
            assert_int_equal(frees_done, 1);
            assert_int_equal(reports, 2);
            assert_null(validated());
        }
        tear_down();
    }
    reports = 0;
}

static void no_caches(void **state)
{
    (void)state;
    explore("none", DECKLE_FEATURE_NO_CACHES, false);
}

static void cells(void **state)
{
    (void)state;
    explore("cells", DECKLE_FEATURE_CELLS, false);
}

static void rseq_stacks(void **state)
{
    (void)state;
    if (sizeof(void *) < 8)
        skip();
    explore("rseq", 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(two_levels), cmocka_unit_test(strict_frees),
                                       cmocka_unit_test(no_caches), cmocka_unit_test(cells),
                                       cmocka_unit_test(rseq_stacks)};
    setvbuf(stdout, NULL, _IONBF, 0);
    random_state = test_seed();
    make_scripts();
    for (unsigned i = 0; i < ACTORS; i++)
        actors[i].stack = malloc(256 * 1024);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
