/* SPDX-License-Identifier: MIT */
/* ctest: timeout=300 */
/*
 * Clients of a shared pool that are killed before each of their accesses to shared memory. The core
 * is compiled so that every access calls dk_test_point(); a killed client is a coroutine that is
 * left there for ever.
 *
 *   one      A dies at its n-th access, for every n and each kind of operation. B goes on at once,
 *            and then R reaps
 *   reaper   A dies; R dies at its n-th access while it reaps A; Q reaps both, in either order
 *   chain    three reapers die one after the other, the fourth one reaps them all
 *   deferred A dies at its n-th access; L stands still at its m-th in the same blocks while R
 *            reaps, and goes on afterwards; R reaps again
 *   crossed  A dies; an operation of L and the reaping are left once each, at any access
 *   lives    L stands still at its m-th access; A comes, works, dies and is reaped several times,
 *            so that its number and the epochs of the counters are used again; L goes on
 *   crowd    A dies, B and L work and R reaps, left at random accesses
 *
 * After each run only what the dead had is gone: the pool validates, exactly the blocks of the
 * living are in use, and when those are freed the pool is whole.
 */
#define _GNU_SOURCE
#include "victims.h"

#include "core/pcp.h"

/* ---- reaping --------------------------------------------------------------------------------- */

static struct deckle_reap_report reaped;

/* From now on the frames of the dead may go to others. */
static void forget(enum who who)
{
    struct actor *a = &actors[who];
    for (unsigned i = 0; i < a->nr_held; i++)
        memset(owner + a->held[i].pfn, 0, 1ull << a->held[i].order);
    a->nr_held = 0;
}

static void reap(struct actor *a, enum who dead)
{
    reaped.size = sizeof(reaped);
    a->result = deckle_reap(handle_of(a), number_of(dead), &reaped);
}
static void reap_a(struct actor *a)
{
    reap(a, A);
}
static void reap_r(struct actor *a)
{
    reap(a, R);
}

/* ---- scenes ---------------------------------------------------------------------------------- */

enum scene { FRESH, TIGHT, WHOLES, CACHED, SCENES };
static const char *const scene_names[] = {"fresh", "tight", "wholes", "cached"};

static void hold_at(enum who who, uint64_t pfn, unsigned order)
{
    assert_int_equal(deckle_alloc_at(shared.client[who].d, GFP_U, pfn, order), DECKLE_OK);
    own(&actors[who], (int64_t)pfn, order);
}

static void fill_above(unsigned first)
{
    for (unsigned b = first; b < BLOCKS; b++)
        hold_at(Q, b * 512ull, 9);
}

static void make_scene(enum scene scene)
{
    switch (scene) {
    case TIGHT: /* one block, half in use, by everybody */
        fill_above(1);
        hold_at(Q, 256, 8);
        for (unsigned i = A; i <= L; i++) {
            hold_at((enum who)i, 64 + 16 * i, 3);
            hold_at((enum who)i, 16 + 4 * i, 0);
            hold_at((enum who)i, 17 + 4 * i, 0);
        }
        break;
    case WHOLES:
        fill_above(6);
        hold_at(A, 0, 10);
        hold_at(A, 1024, 9);
        hold_at(B, 1536, 8);
        hold_at(A, 1792, 8);
        break;
    case CACHED: /* what is free lies in caches, of several clients on both CPUs */
        fill_above(1);
        hold_at(Q, 256, 8);
        hold_at(Q, 128, 7);
        for (unsigned i = A; i <= L; i++) {
            hold_at((enum who)i, 96 + 8 * i, 3);
            for (unsigned k = 0; k < 20; k++)
                hold_at((enum who)i, i * 32 + k, 0);
            for (unsigned k = 0; k < 12; k++) {
                shared.client[i].cpu = k & 1;
                give(&actors[i], actors[i].nr_held - 1);
            }
            give(&actors[i], 0);
            shared.client[i].cpu = 0;
        }
        break;
    default:
        hold_at(A, 1, 0);
        hold_at(A, 4, 2);
        hold_at(B, 2048, 9);
        /* The CPU works in a block of which A has nothing, and which a request of order 8 makes
         * it leave. */
        take_past(&actors[B], GFP_U, 7);
        take_past(&actors[L], GFP_U, 8);
        break;
    }
}

static void save_start(void)
{
    memcpy(snapshot, shared.map[0], shared.size);
    for (unsigned i = 0; i < ACTORS; i++)
        memcpy(handles + i * handle_size, shared.client[i].memory, handle_size);
    memcpy(owner_at_start, owner, sizeof(owner));
    memcpy(actors_at_start, actors, sizeof(actors));
}

static void restore_start(void)
{
    memcpy(shared.map[0], snapshot, shared.size);
    for (unsigned i = 0; i < ACTORS; i++)
        memcpy(shared.client[i].memory, handles + i * handle_size, handle_size);
    memcpy(owner, owner_at_start, sizeof(owner));
    for (unsigned i = 0; i < ACTORS; i++) {
        memcpy(actors[i].held, actors_at_start[i].held, sizeof(actors[i].held));
        actors[i].nr_held = actors_at_start[i].nr_held;
        shared.client[i].cpu = 0;
    }
    for (unsigned i = 0; i < ACTORS; i++)
        shared.alive |= UINT64_C(1) << number_of((enum who)i);
    fault = NULL;
}

static void set_up(enum scene scene, uint32_t features)
{
    static const struct deckle_range range = {.pfn = 0, .nr = FRAMES};
    struct deckle_config cfg = {.size = sizeof(cfg),
                                .features = features | DECKLE_FEATURE_SHARED,
                                .nr_cpus = 2,
                                .ranges = &range,
                                .nr_ranges = 1,
                                .pcp_capacity = 16,
                                .max_order = 11,
                                .min_free_kbytes = UINT64_MAX,
                                .dma_limit_pfn = UINT64_MAX,
                                .dma32_limit_pfn = UINT64_MAX,
                                .max_clients = 6};
    struct deckle *d = shared_pool_make(&shared, &cfg);

    memset(owner, 0, sizeof(owner));
    assert_int_equal(deckle_publish(d), DECKLE_OK);
    shared.asks = true;
    for (unsigned i = 0; i < ACTORS; i++) {
        actors[i].nr_held = 0;
        shared_join(&shared, i);
    }
    handle_size = deckle_handle_size();
    snapshot = malloc(shared.size);
    handles = malloc(ACTORS * handle_size);
    fault = NULL;
    make_scene(scene);
    save_start();
    char text[300];
    if (deckle_validate(shared.client[Q].d, text, sizeof(text)))
        fail_msg("scene %s: %s", scene_names[scene], text);
}

static void tear_down(void)
{
    shared_pool_end(&shared);
    free(snapshot);
    free(handles);
}

/* ---- judging --------------------------------------------------------------------------------- */

static uint64_t in_use;

static void see_block(void *ctx, const struct deckle_allocated *b)
{
    (void)ctx;
    for (uint64_t p = b->pfn; p < b->pfn + (1ull << b->order); p++) {
        in_use++;
        if (p >= FRAMES || !owner[p])
            complain_of("in use, but of nobody who lives", p);
    }
}

/* Only the living have something, and the pool agrees with itself. */
static void judge(struct deckle *d)
{
    uint64_t owned = 0;
    if (!fault && deckle_validate(d, message, sizeof(message)))
        fault = message;
    in_use = 0;
    deckle_for_each_allocated(d, see_block, NULL);
    for (unsigned p = 0; p < FRAMES; p++)
        owned += owner[p] != 0;
    if (owned != in_use)
        complain_of("frames of the living are gone", owned - in_use);
    for (unsigned i = 0; i < ACTORS; i++) {
        if (shared.client[i].reports)
            complain_of("a report of the bad hook", shared.client[i].last);
        shared.client[i].reports = 0;
    }
}

/* The living free what they have: all of the pool is there again. */
static void clean_up(enum who last)
{
    struct deckle *d = shared.client[last].d;
    for (unsigned i = B; i < ACTORS; i++)
        if (shared.alive >> number_of((enum who)i) & 1)
            give_all(&actors[i]);
    /* Types that the dead has changed stay so: what it did is not undone. */
    if (deckle_set_pageblock_type(d, 0, DECKLE_MOVABLE))
        complain_of("a type could not be changed", 0);
    if (deckle_drain_all(d))
        complain_of("the last drain failed", 0);
    judge(d);
    for (uint64_t pfn = 0; pfn < FRAMES && !fault; pfn += 2048)
        if (deckle_alloc(d, GFP_U, 11) < 0)
            complain_of("the pool is not whole again", pfn);
    if (!fault && deckle_alloc(d, GFP_U, 0) >= 0)
        complain_of("more frames than there are", 0);
}

static void report(const char *test, enum scene scene, const char *op, uint64_t n, uint64_t m)
{
    if (!fault)
        return;
    printf("%s, scene %s: %s died at access %lld, %lld: %s\n", test, scene_names[scene], op,
           (long long)n, (long long)m, fault);
    fail_msg("%s", fault);
}

static void die(enum who who)
{
    shared.alive &= ~(UINT64_C(1) << number_of(who));
}

/* A block that A was giving to L is L's or A's; nobody was told. */
static void settle_transfer(void)
{
    struct actor *a = &actors[A], *l = &actors[L];
    struct deckle_client_info info = {.size = sizeof(info)};
    uint64_t frames = 0;
    if (a->op != transfer || a->finished || !a->nr_held)
        return;
    for (unsigned i = 0; i < l->nr_held; i++)
        frames += 1ull << l->held[i].order;
    struct block b = a->held[a->nr_held - 1];
    assert_int_equal(deckle_get_client(shared.client[R].d, number_of(L), &info), DECKLE_OK);
    if (deckle_block_order(shared.client[R].d, b.pfn) != (int)b.order ||
        info.frames - info.cached < frames + (1ull << b.order))
        return;
    a->nr_held--;
    l->held[l->nr_held++] = b;
    memset(owner + b.pfn, L + 1, 1ull << b.order);
}

/* ---- one ------------------------------------------------------------------------------------- */

static uint64_t longest_wait;

/* B works while nobody has reaped yet: it needs no help, and no unbounded number of steps. */
static void others_work(void)
{
    run(B, take0_past);
    run(B, take3);
    run(B, give_all);
    run(B, drain);
    if (actors[B].points > longest_wait)
        longest_wait = actors[B].points;
}

static bool reap_until_done(enum who who, void (*op)(struct actor *))
{
    run(who, op);
    return actors[who].result == DECKLE_OK;
}

static uint64_t kill_at(unsigned op, uint64_t n)
{
    restore_start();
    begin(A, ops[op].fn, n);
    go(A);
    return actors[A].points;
}

static void one(enum scene scene)
{
    for (unsigned op = 0; op < NR_OPS; op++) {
        uint64_t length = kill_at(op, NEVER), step = length / test_effort(400) + 1;
        if (fault)
            report("one", scene, ops[op].name, NEVER, 0);
        for (uint64_t n = test_random_below(&random_state, step); n < length; n += step) {
            kill_at(op, n);
            die(A);
            if (n & 1) /* they also repair what they find wrong in the index */
                others_work();
            settle_transfer();
            forget(A);
            if (!reap_until_done(R, reap_a) && actors[R].result != DECKLE_ENOENT)
                complain_of("reaping did not end", (uint64_t)-actors[R].result);
            judge(shared.client[R].d);
            report("one", scene, ops[op].name, n, 0);
            clean_up(R);
            report("one, freed", scene, ops[op].name, n, 0);
        }
    }
}

/* ---- the reaper dies ------------------------------------------------------------------------- */

static void second_reaper(enum scene scene, unsigned op, uint64_t n, uint64_t m, bool first_r)
{
    kill_at(op, n);
    die(A);
    begin(R, reap_a, m);
    settle_transfer();
    forget(A);
    go(R);
    if (actors[R].finished)
        return;
    die(R);
    forget(R);
    /* L lives, and takes what has come back so far. */
    run(L, m & 2 ? bulk : take0);
    run(L, m & 4 ? give_drain : take0m);
    if (first_r)
        run(B, reap_r);
    for (unsigned tries = 0; tries < 3; tries++) {
        run(L, m & 8 ? take0m : give_first);
        run(B, reap_a);
        if (actors[B].result == DECKLE_OK || actors[B].result == DECKLE_ENOENT)
            break;
        run(B, reap_r);
    }
    if (!first_r)
        run(B, reap_r);
    if (actors[B].result && actors[B].result != DECKLE_ENOENT)
        complain_of("the second reaper did not end", (uint64_t)-actors[B].result);
    judge(shared.client[B].d);
    report(first_r ? "reaper first" : "reaper last", scene, ops[op].name, n, m);
    clean_up(B);
    report("reaper, freed", scene, ops[op].name, n, m);
}

static void reapers(enum scene scene)
{
    uint64_t pairs = test_effort(60);
    for (unsigned op = 0; op < NR_OPS; op++) {
        uint64_t length = kill_at(op, NEVER);
        for (uint64_t i = 0; i < pairs / 10 + 1; i++) {
            uint64_t n = test_random_below(&random_state, length + 1);
            kill_at(op, n);
            die(A);
            run(R, reap_a);
            uint64_t reaping = actors[R].points;
            for (uint64_t k = 0; k < 10; k++)
                second_reaper(scene, op, n, test_random_below(&random_state, reaping), k & 1);
        }
    }
}

/* ---- a transit taken over -------------------------------------------------------------------- */

static uint32_t transit_of;

static void find_transit(void *ctx, dk_aword *cell, const struct dk_zone *zone, unsigned list)
{
    dk_word value = dk_load_relaxed(cell);
    (void)ctx, (void)zone, (void)list;
    if ((value & DK_CELL_FULL) && dk_cell_from(value))
        transit_of = dk_cell_client(value);
}

/* To which client is a cell in transit? 0 = none is. */
static uint32_t client_in_transit(void)
{
    transit_of = 0;
    dk_cells_for_each(shared.client[Q].d, find_transit, NULL);
    return transit_of;
}

/*
 * A dies while it takes over a block that L has in its caches, and has won some of its frames; R
 * dies while it does the rest. A is reaped before R is; then L, which lives, has frames of the
 * block again, and R's reaper must not take them for what R was about to win.
 */
static void work_hungrily(void)
{
    run(L, take0);
    for (unsigned i = 0; i < 4; i++)
        run(L, bulk);
}

/* L gets hold of what has come back before anybody reaps. */
static void second_hand(uint64_t n)
{
    kill_at(DRAIN, n);
    die(A);
    forget(A);
    work_hungrily();
    run(R, reap_a);
    judge(shared.client[R].d);
    report("second hand", CACHED, "drain", n, 0);
    clean_up(R);
    report("second hand, freed", CACHED, "drain", n, 0);
}

static void third_hand(uint64_t n, uint64_t m)
{
    kill_at(DRAIN, n);
    die(A);
    forget(A);
    begin(R, reap_a, m);
    go(R);
    die(R);
    run(B, reap_a);
    work_hungrily();
    run(B, reap_r);
    judge(shared.client[B].d);
    report("third hand", CACHED, "drain", n, m);
    clean_up(B);
    report("third hand, freed", CACHED, "drain", n, m);
}

static void transits_are_finished_by_third_hands(void **state)
{
    uint64_t transits = 0, taken_over = 0;
    (void)state;
    if (!shared_is_possible())
        skip();
    set_up(CACHED, 0);
    uint64_t length = kill_at(DRAIN, NEVER);
    for (uint64_t n = 0; n < length; n++) {
        kill_at(DRAIN, n);
        if (client_in_transit() != number_of(A))
            continue;
        transits++;
        second_hand(n);
        kill_at(DRAIN, n);
        die(A);
        begin(R, reap_a, 0);
        uint64_t first = 0, last = 0;
        while (!actors[R].finished) {
            go(R);
            if (client_in_transit() == number_of(R))
                first = first ? first : actors[R].stop_at, last = actors[R].stop_at;
            actors[R].stop_at = actors[R].points;
        }
        for (uint64_t m = first; first && m <= last; m++, taken_over++)
            third_hand(n, m);
    }
    printf("%llu transits, %llu taken over and left\n", (unsigned long long)transits,
           (unsigned long long)taken_over);
    assert_true(taken_over > 20);
    tear_down();
}

/* Reapers that die one after the other, of whom none has finished: the last one reaps all. */
static void reap_every(struct actor *a)
{
    static const enum who order[] = {A, R, B, L};
    for (unsigned i = 0; i < 4; i++) {
        if (shared.alive >> number_of(order[i]) & 1)
            continue;
        reap(a, order[i]);
        if (a->result && a->result != DECKLE_ENOENT)
            return;
    }
}

static void go_until_it_moves(enum who who)
{
    const struct dk_superblock *sb = shared.client[Q].d->sb;
    struct actor *a = &actors[who];
    uint32_t epoch = dk_a32_load_relaxed(&sb->epoch);
    a->stop_at = 0;
    go(who);
    while (!a->finished && dk_a32_load_relaxed(&sb->epoch) == epoch) {
        a->stop_at = a->points;
        go(who);
    }
    a->stop_at = a->points + test_random_below(&random_state, 40);
    if (!a->finished)
        go(who);
}

static void chains(enum scene scene)
{
    static const enum who reapers[] = {R, B, L};
    for (uint64_t i = 0; i < test_effort(400); i++) {
        unsigned op = (unsigned)test_random_below(&random_state, NR_OPS);
        uint64_t n = test_random_below(&random_state, 100);
        if (ops[op].fn == transfer)
            continue;
        kill_at(op, n);
        die(A);
        forget(A);
        run(R, reap_every);
        uint64_t reaping = actors[R].points;
        kill_at(op, n);
        die(A);
        forget(A);
        for (unsigned k = 0; k < 3; k++) {
            begin(reapers[k], reap_every, test_random_below(&random_state, reaping));
            if (i & 1) /* while it moves blocks to another epoch */
                go_until_it_moves(reapers[k]);
            else
                go(reapers[k]);
            die(reapers[k]);
            forget(reapers[k]);
        }
        run(Q, reap_every);
        if (actors[Q].result && actors[Q].result != DECKLE_ENOENT)
            complain_of("the last reaper did not end", (uint64_t)-actors[Q].result);
        judge(shared.client[Q].d);
        report("chain", scene, ops[op].name, n, reaping);
        clean_up(Q);
        report("chain, freed", scene, ops[op].name, n, reaping);
    }
}

/* ---- live intents ---------------------------------------------------------------------------- */

static void deferred(enum scene scene)
{
    for (uint64_t i = 0; i < test_effort(1500); i++) {
        unsigned op = (unsigned)test_random_below(&random_state, NR_OPS);
        unsigned other = (unsigned)test_random_below(&random_state, NR_COMMON - 1);
        uint64_t n, m;
        restore_start();
        begin(A, ops[op].fn, n = test_random_below(&random_state, 120));
        begin(L, ops[other].fn, m = test_random_below(&random_state, 120));
        go(i & 1 ? A : L);
        go(i & 1 ? L : A);
        if (actors[A].finished || (ops[op].fn == transfer && actors[L].points))
            continue;
        die(A);
        settle_transfer();
        forget(A);
        run(R, reap_a);
        others_work();
        if (!actors[L].finished)
            go(L);
        if (actors[R].result == DECKLE_ECONTENDED)
            run(R, reap_a);
        if (actors[R].result)
            complain_of("reaping did not end", (uint64_t)-actors[R].result);
        judge(shared.client[R].d);
        report(ops[other].name, scene, ops[op].name, n, m);
        clean_up(R);
        report("deferred, freed", scene, ops[op].name, n, m);
    }
}

/* ---- crossed --------------------------------------------------------------------------------- */

/* What L does in a block that A has left half-done, against one reaping: L up to m, R up to k, the
 * rest of L, of R; or R up to k, L up to m, the rest of R, of L. */
static void crossed(enum scene scene)
{
    for (uint64_t i = 0; i < test_effort(3000); i++) {
        unsigned op = (unsigned)test_random_below(&random_state, NR_OPS);
        unsigned other = (unsigned)test_random_below(&random_state, NR_COMMON - 1);
        uint64_t m = test_random_below(&random_state, 80), k;
        uint64_t n = test_random_below(&random_state, 60);
        enum who first = i & 1 ? L : R, second = i & 1 ? R : L;
        kill_at(op, n);
        if (actors[A].finished || ops[op].fn == transfer)
            continue;
        die(A);
        forget(A);
        k = test_random_below(&random_state, 2500);
        begin(L, ops[other].fn, m);
        begin(R, reap_a, k);
        go(first);
        go(second);
        if (!actors[first].finished)
            go(first);
        if (!actors[second].finished)
            go(second);
        if (actors[R].result == DECKLE_ECONTENDED)
            run(R, reap_a);
        if (actors[R].result)
            complain_of("reaping did not end", (uint64_t)-actors[R].result);
        judge(shared.client[R].d);
        report(ops[other].name, scene, ops[op].name, n, m);
        clean_up(R);
        report("crossed, freed", scene, ops[op].name, n, m);
    }
}

/* ---- lives ----------------------------------------------------------------------------------- */

static void come_again(void)
{
    struct actor *a = &actors[A];
    shared.alive |= UINT64_C(1) << number_of(A);
    if (shared_attach(&shared, A, 0, NULL) ||
        deckle_register(shared.client[A].d, 77, &shared.client[A].number))
        complain_of("a client could not come again", 0);
    shared.alive |= UINT64_C(1) << number_of(A);
    a->nr_held = 0;
}

static void live_and_die(unsigned op)
{
    run(A, take0);
    run(A, take0m);
    run(A, bulk);
    shared.client[A].cpu ^= 1;
    run(A, give_first);
    begin(A, ops[op].fn, test_random_below(&random_state, 200));
    go(A);
    die(A);
    forget(A);
    run(R, reap_a);
}

static void lives(enum scene scene)
{
    for (uint64_t i = 0; i < test_effort(600); i++) {
        /* Half of the time L takes over what others have cached. */
        unsigned other = i & 1 ? DRAIN : (unsigned)test_random_below(&random_state, NR_COMMON - 1);
        unsigned op = 0;
        restore_start();
        shared.client[L].cpu = i >> 1 & 1;
        run(L, ops[other].fn);
        uint64_t m = test_random_below(&random_state, actors[L].points + 1);
        restore_start();
        shared.client[L].cpu = i >> 1 & 1;
        begin(L, ops[other].fn, m);
        go(L);
        for (unsigned life = 0; life < 9 && !fault; life++) {
            do
                op = (unsigned)test_random_below(&random_state, NR_COMMON - 1);
            while (ops[op].fn == leave);
            if (shared.alive >> number_of(A) & 1)
                live_and_die(op);
            else
                run(R, reap_a); /* another epoch, if something has to wait for L */
            if (actors[R].result == DECKLE_OK)
                come_again();
        }
        bool lives_again = shared.alive >> number_of(A) & 1;
        if (lives_again) {
            run(A, bulk);
            run(A, take0);
        }
        if (!actors[L].finished)
            go(L);
        if (lives_again)
            run(A, leave);
        else
            run(R, reap_a);
        if (actors[R].result)
            complain_of("reaping did not end", (uint64_t)-actors[R].result);
        judge(shared.client[R].d);
        report(ops[other].name, scene, ops[op].name, m, i);
        clean_up(R);
        report("lives, freed", scene, ops[op].name, m, i);
    }
}

/* ---- crowd ----------------------------------------------------------------------------------- */

/* Anything but transfers; who has much gives it back. */
static void (*any_op(enum who who))(struct actor *)
{
    if (actors[who].nr_held > MOST_GOT / 2)
        return give_all;
    return ops[test_random_below(&random_state, NR_COMMON - 1)].fn;
}

static void crowd(enum scene scene)
{
    for (uint64_t i = 0; i < test_effort(1500); i++) {
        unsigned op = (unsigned)test_random_below(&random_state, NR_OPS);
        uint64_t n = test_random_below(&random_state, 150);
        if (ops[op].fn == transfer)
            continue;
        kill_at(op, n);
        if (actors[A].finished)
            continue;
        die(A);
        forget(A);
        begin(B, any_op(B), NEVER);
        begin(L, any_op(L), NEVER);
        begin(R, reap_a, NEVER);
        shared.client[L].cpu = (uint32_t)(i & 1);
        shuffle = true;
        while (!(actors[B].finished && actors[L].finished && actors[R].finished)) {
            enum who who = (enum who)(B + test_random_below(&random_state, 3));
            if (!actors[who].finished)
                go(who);
            else if (who != R)
                begin(who, any_op(who), NEVER), actors[who].finished = actors[R].finished;
        }
        shuffle = false;
        for (unsigned tries = 0; tries < 2 && actors[R].result == DECKLE_ECONTENDED; tries++)
            run(R, reap_a);
        if (actors[R].result)
            complain_of("reaping did not end", (uint64_t)-actors[R].result);
        judge(shared.client[R].d);
        report("crowd", scene, ops[op].name, n, 0);
        clean_up(R);
        report("crowd, freed", scene, ops[op].name, n, 0);
    }
}

/* ---- all ------------------------------------------------------------------------------------- */

static void each_scene(void (*test)(enum scene))
{
    if (!shared_is_possible())
        skip();
    for (unsigned scene = 0; scene < SCENES; scene++) {
        set_up((enum scene)scene, 0);
        test((enum scene)scene);
        tear_down();
        if (scene == CACHED)
            continue;
        set_up((enum scene)scene, DECKLE_FEATURE_NO_CACHES);
        test((enum scene)scene);
        tear_down();
    }
}

static void killed_at_every_access(void **state)
{
    (void)state;
    each_scene(one);
    printf("longest operation beside the dead: %llu accesses\n", (unsigned long long)longest_wait);
}
static void reaper_killed(void **state)
{
    (void)state;
    each_scene(reapers);
}
static void reapers_killed_in_a_row(void **state)
{
    (void)state;
    each_scene(chains);
}
static void live_intents_defer(void **state)
{
    (void)state;
    each_scene(deferred);
}
static void one_operation_against_one_reaping(void **state)
{
    (void)state;
    each_scene(crossed);
}
static void numbers_and_epochs_come_again(void **state)
{
    (void)state;
    each_scene(lives);
}
static void others_work_during_reaping(void **state)
{
    (void)state;
    each_scene(crowd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_every_access),
                                       cmocka_unit_test(reaper_killed),
                                       cmocka_unit_test(transits_are_finished_by_third_hands),
                                       cmocka_unit_test(reapers_killed_in_a_row),
                                       cmocka_unit_test(live_intents_defer),
                                       cmocka_unit_test(one_operation_against_one_reaping),
                                       cmocka_unit_test(numbers_and_epochs_come_again),
                                       cmocka_unit_test(others_work_during_reaping)};
    setvbuf(stdout, NULL, _IONBF, 0);
    random_state = test_seed();
    for (unsigned i = 0; i < ACTORS; i++)
        actors[i].stack = malloc(256 * 1024);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
