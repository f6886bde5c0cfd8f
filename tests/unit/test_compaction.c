/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * Compaction: what it makes of memory in pieces, who owns what on the way, and when it is not even
 * tried.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "machine.h"

#define PLAIN (DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY)
#define HUNT  ((DECKLE_GFP_TRANSHUGE & ~DECKLE_GFP_COMP) | DECKLE_GFP_RETRY_MAYFAIL)

/* Every frame taken, then `keep` of 100 kept at random; pinned_blocks of 100 pageblocks hold one
 * frame that cannot move. */
static void scatter(struct machine *m, unsigned keep, unsigned pinned_blocks, uint64_t *random)
{
    for (uint64_t i = 0; i < m->nr; i++)
        assert_true(machine_alloc(m, GFP_M, 0) >= 0);
    for (uint64_t i = 0; i < m->nr; i++)
        if (test_random_below(random, 100) >= keep)
            machine_free(m, MACHINE_BASE + i);
    for (uint64_t b = 0; b < m->nr; b += 512)
        if (test_random_below(random, 100) < pinned_blocks)
            for (uint64_t i = b; i < b + 512; i++)
                if (m->stamp[i]) {
                    m->pinned[i] = 1;
                    break;
                }
    machine_free_frames(m);
}

/* Pageblocks that moving frames could yield: all that moves is packed into the free frames of the
 * pageblocks with something pinned first. */
static uint64_t possible_blocks(const struct machine *m)
{
    uint64_t stuck_free = 0, movable = 0, clean = 0;
    for (uint64_t b = 0; b < m->nr; b += 512) {
        uint64_t used = 0;
        bool pinned = false;
        for (uint64_t i = b; i < b + 512; i++) {
            used += m->stamp[i] != 0;
            pinned |= m->stamp[i] && m->pinned[i];
        }
        if (pinned) {
            stuck_free += 512 - used;
        } else {
            movable += used;
            clean++;
        }
    }
    movable = movable > stuck_free ? movable - stuck_free : 0;
    return clean - (movable + 511) / 512;
}

/* Ask for huge blocks until there are none; every one is whole and nobody else's. */
static void the_hunt_yields_what_moving_can(void **state)
{
    static const struct {
        unsigned keep, pinned;
        uint32_t features;
    } rows[] = {{50, 0, 0},  {30, 20, 0}, {80, 10, 0},
                {50, 50, 0}, {60, 10, DECKLE_FEATURE_OWNER_TAGS | DECKLE_FEATURE_DESCRIPTORS}};
    uint64_t random = test_seed();
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct machine m;
        uint64_t got = 0, possible;
        machine_open(&m, 64 * 512, 0, rows[i].features);
        scatter(&m, rows[i].keep, rows[i].pinned, &random);
        possible = possible_blocks(&m);
        machine_start(&m);
        while (machine_alloc(&m, HUNT | DECKLE_GFP_NOWARN, 9) >= 0)
            got++;
        printf("%u %% used, %u %% of blocks pinned: %llu of %llu blocks\n", rows[i].keep,
               rows[i].pinned, (unsigned long long)got, (unsigned long long)possible);
        assert_true(got <= possible);
        assert_true(got * 10 >= possible * 9);
        machine_close(&m);
    }
}

/* All of a zone at once, and again: nothing is left to do. */
static void compacting_a_zone(void **state)
{
    struct machine m;
    uint64_t random = test_seed(), possible;
    (void)state;
    machine_open(&m, 64 * 512, 0, 0);
    scatter(&m, 40, 15, &random);
    possible = possible_blocks(&m);
    assert_int_equal(deckle_compact_zone(m.d, 0, NULL), DECKLE_ENOTSUP);
    machine_start(&m);
    assert_int_equal(deckle_compact_zone(m.d, 9, NULL), DECKLE_ENODEV);
    assert_int_equal(deckle_compact_node(m.d, 1, NULL), DECKLE_ENODEV);
    uint64_t got = (uint64_t)deckle_compact_node(m.d, 0, NULL);
    assert_in_range(got, possible * 9 / 10, possible);
    struct deckle_zone_stat z = hazard_zone(&m.h, 0);
    assert_true(z.free_blocks[9] + 2 * z.free_blocks[10] >= got);
    machine_close(&m);
}

/* Blocks of several orders move as they are, with their owner tags. */
static void blocks_of_all_orders_move(void **state)
{
    struct machine m;
    uint64_t random = test_seed();
    (void)state;
    machine_open(&m, 64 * 512, 0, DECKLE_FEATURE_OWNER_TAGS);
    for (uint32_t n = 0;; n++) {
        struct deckle_request ask = {.size = sizeof(ask), .gfp = GFP_M | DECKLE_GFP_COMP,
                                     .order = (uint32_t)test_random_below(&random, 6),
                                     .owner = n % 1000 + 1};
        int64_t pfn = deckle_alloc_request(m.d, &ask);
        if (pfn < 0)
            break;
        machine_own(&m, (uint64_t)pfn, ask.order, false);
    }
    for (uint64_t i = 0; i < m.nr; i++)
        if (m.stamp[i] && test_random_below(&random, 2))
            machine_free(&m, MACHINE_BASE + i);
    machine_free_frames(&m);
    machine_start(&m);
    assert_true(deckle_compact_node(m.d, 0, NULL) > 0);
    assert_true(m.last_move.owner > 0 && m.last_move.compound == 1);
    machine_close(&m);
}

/* A hook that refuses, moves only sometimes, or lies in wait: nothing is lost, and what the owner
 * frees meanwhile stays freed. */
static uint64_t victim;

static void owner_frees_it(struct machine *m)
{
    uint64_t i = m->last_move.from - MACHINE_BASE;
    if (m->moves % 3 == 0 && m->stamp[i] && !m->pinned[i]) {
        machine_free(m, m->last_move.from);
        victim++;
        /* Somebody else may get it at once, as something that cannot move. */
        if (m->moves % 2)
            machine_alloc(m, DECKLE_GFP_KERNEL | DECKLE_GFP_NOWARN, 0);
    }
}

static void the_owner_frees_while_it_moves(void **state)
{
    uint64_t random = test_seed();
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        struct machine m;
        machine_open(&m, 32 * 512, 0, round ? DECKLE_FEATURE_NO_CACHES : 0);
        scatter(&m, 50, 5, &random);
        m.inside = owner_frees_it;
        victim = 0;
        machine_start(&m);
        deckle_compact_node(m.d, 0, NULL);
        assert_true(victim > 10);
        m.inside = NULL;
        machine_check(&m);
        assert_true(deckle_compact_node(m.d, 0, NULL) >= 0);
        machine_close(&m);
    }
}

static void refused_moves_change_nothing(void **state)
{
    struct machine m;
    uint64_t random = test_seed();
    (void)state;
    machine_open(&m, 32 * 512, 0, 0);
    scatter(&m, 50, 0, &random);
    m.busy_every = 1;
    machine_start(&m);
    uint64_t free = machine_free_frames(&m);
    assert_int_equal(deckle_compact_node(m.d, 0, NULL), 0);
    assert_true(m.moves > 0);
    assert_int_equal(machine_free_frames(&m), free);
    assert_true(machine_alloc(&m, HUNT, 9) < 0);
    machine_close(&m);
}

/* A wrong OK: the frame was freed, yet the hook says it moved it. It is found and reported. */
static int lies(void *ctx, const struct deckle_migration *move)
{
    struct machine *m = ctx;
    if (m->moves++ == 3) {
        machine_free(m, move->from);
        machine_own(m, move->to, move->order, false);
        return DECKLE_OK;
    }
    return DECKLE_EBUSY;
}

static void a_wrong_ok_is_reported(void **state)
{
    struct machine m;
    uint64_t random = test_seed();
    (void)state;
    machine_open(&m, 8 * 512, 0, DECKLE_FEATURE_NO_CACHES);
    scatter(&m, 50, 0, &random);
    m.hooks.migrate = lies;
    machine_start(&m);
    deckle_compact_node(m.d, 0, NULL);
    assert_int_equal(m.h.p.reports, 1);
    assert_int_equal(m.h.p.last.what, DECKLE_BAD_DOUBLE_FREE);
    m.h.p.reports = 0;
    machine_close(&m);
}

/* References: who else holds a block keeps it where it is. */
static void referenced_blocks_stay(void **state)
{
    struct machine m;
    uint64_t random = test_seed();
    (void)state;
    machine_open(&m, 8 * 512, 0, DECKLE_FEATURE_DESCRIPTORS);
    scatter(&m, 50, 0, &random);
    for (uint64_t i = 0; i < m.nr; i++)
        if (m.stamp[i])
            assert_int_equal(deckle_get(m.d, MACHINE_BASE + i), DECKLE_OK);
    machine_start(&m);
    assert_int_equal(deckle_compact_node(m.d, 0, NULL), 0);
    assert_int_equal(m.moves, 0);
    for (uint64_t i = 0; i < m.nr; i++)
        if (m.stamp[i])
            assert_int_equal(deckle_put(m.d, MACHINE_BASE + i), DECKLE_OK);
    assert_true(deckle_compact_node(m.d, 0, NULL) > 0);
    machine_close(&m);
}

/* After failures attempts are left out: 2, 4, 8 … 64. */
static void failures_are_deferred(void **state)
{
    struct machine m;
    uint64_t random = test_seed();
    (void)state;
    machine_open(&m, 16 * 512, 0, DECKLE_FEATURE_NO_CACHES);
    scatter(&m, 50, 100, &random);
    machine_start(&m);
    for (unsigned i = 0; i < 40; i++)
        assert_true(machine_alloc(&m, HUNT | DECKLE_GFP_NOWARN, 9) < 0);
    uint64_t stalls = machine_event(&m, "compact_stall");
    assert_true(stalls < 30);
    assert_true(machine_event(&m, "deckle_compact_deferred") > stalls);
    machine_close(&m);
}

/* ---- background ------------------------------------------------------------------------------ */

static void proactive_by_score(void **state)
{
    struct machine m;
    uint64_t random = test_seed();
    static const uint64_t off = 0, all = 100;
    (void)state;
    machine_open(&m, 64 * 512, 0, 0);
    assert_int_equal(deckle_fragmentation_score(m.d, 0), 0);
    assert_int_equal(deckle_fragmentation_score(m.d, 1), DECKLE_ENODEV);
    scatter(&m, 30, 5, &random);
    assert_true(deckle_fragmentation_score(m.d, 0) > 90);
    machine_start(&m);
    deckle_tunable_set(m.d, "compaction_proactiveness", &off, 1);
    assert_int_equal(deckle_compact_step(m.d, 0, NULL), 0);
    assert_int_equal(m.moves, 0);
    deckle_tunable_set(m.d, "compaction_proactiveness", &all, 1);
    unsigned steps = 0;
    while (deckle_compact_step(m.d, 0, NULL) > 0)
        steps++;
    printf("%u steps, score %d\n", steps, deckle_fragmentation_score(m.d, 0));
    assert_in_range(steps, 1, 64);
    assert_true(deckle_fragmentation_score(m.d, 0) < 25);
    assert_int_equal(machine_event(&m, "deckle_compact_proactive"), 1);
    machine_close(&m);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Users with frames behind a lock of their own each, as the rules for hooks want it. */
#define USERS  2u
#define SLOTS  3000u

struct crowd {
    struct test_pool p;
    struct deckle *d;
    pthread_mutex_t lock;
    uint64_t pfn[USERS][SLOTS]; /* DECKLE_NO_PFN = none */
    uint32_t user_of[8192];     /* index + 1 by pfn - base */
    atomic_bool stop;
    atomic_ulong moved;
};

static int crowd_migrate(void *ctx, const struct deckle_migration *move)
{
    struct crowd *c = ctx;
    int result = DECKLE_EBUSY;
    pthread_mutex_lock(&c->lock);
    uint32_t who = c->user_of[move->from - MACHINE_BASE];
    if (who && !move->order) {
        c->user_of[move->from - MACHINE_BASE] = 0;
        c->user_of[move->to - MACHINE_BASE] = who;
        c->pfn[(who - 1) / SLOTS][(who - 1) % SLOTS] = move->to;
        atomic_fetch_add(&c->moved, 1);
        result = DECKLE_OK;
    }
    pthread_mutex_unlock(&c->lock);
    return result;
}

struct crowd_user {
    struct crowd *c;
    unsigned id;
    uint64_t random;
};

static void *crowd_use(void *arg)
{
    struct crowd_user *u = arg;
    struct crowd *c = u->c;
    for (uint64_t n = 0; n < test_effort(60000); n++) {
        uint32_t slot = (uint32_t)test_random_below(&u->random, SLOTS);
        uint64_t drop;
        pthread_mutex_lock(&c->lock);
        drop = c->pfn[u->id][slot];
        c->pfn[u->id][slot] = DECKLE_NO_PFN;
        if (drop != DECKLE_NO_PFN)
            c->user_of[drop - MACHINE_BASE] = 0;
        pthread_mutex_unlock(&c->lock);
        if (drop != DECKLE_NO_PFN) {
            assert_int_equal(deckle_free(c->d, drop, 0), DECKLE_OK);
            continue;
        }
        int64_t pfn = deckle_alloc(c->d, GFP_M, 0);
        if (pfn < 0)
            continue;
        pthread_mutex_lock(&c->lock);
        assert_int_equal(c->user_of[(uint64_t)pfn - MACHINE_BASE], 0);
        c->user_of[(uint64_t)pfn - MACHINE_BASE] = u->id * SLOTS + slot + 1;
        c->pfn[u->id][slot] = (uint64_t)pfn;
        pthread_mutex_unlock(&c->lock);
    }
    return NULL;
}

static void *crowd_compact(void *arg)
{
    struct crowd *c = arg;
    while (!atomic_load(&c->stop)) {
        deckle_compact_node(c->d, 0, NULL);
        int64_t pfn = deckle_alloc(c->d, HUNT | DECKLE_GFP_NOWARN, 9);
        if (pfn >= 0)
            assert_int_equal(deckle_free(c->d, (uint64_t)pfn, 9), DECKLE_OK);
    }
    return NULL;
}

static void users_and_compaction_at_once(void **state)
{
    static struct crowd c;
    struct deckle_range range = {.pfn = MACHINE_BASE, .nr = 8192};
    struct deckle_config cfg = hazard_config(&range, 1);
    struct deckle_pressure_hooks hooks = {.size = sizeof(hooks), .ctx = &c,
                                          .migrate = crowd_migrate};
    struct crowd_user users[USERS];
    pthread_t threads[USERS], compactor;
    char text[400] = "";
    uint64_t seed = test_seed();
    (void)state;
    memset(c.pfn, 0xff, sizeof(c.pfn));
    pthread_mutex_init(&c.lock, NULL);
    test_pool_open(&c.p, &cfg);
    c.d = c.p.d;
    assert_int_equal(deckle_set_pressure_hooks(c.d, &hooks), DECKLE_OK);
    for (unsigned i = 0; i < USERS; i++) {
        users[i] = (struct crowd_user){&c, i, seed + i};
        pthread_create(&threads[i], NULL, crowd_use, &users[i]);
    }
    pthread_create(&compactor, NULL, crowd_compact, &c);
    for (unsigned i = 0; i < USERS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&c.stop, true);
    pthread_join(compactor, NULL);
    printf("%lu moves at the same time\n", atomic_load(&c.moved));
    if (!atomic_load(&c.moved)) /* the users were done before the other thread began */
        deckle_compact_node(c.d, 0, NULL);
    assert_true(atomic_load(&c.moved) > 0);
    for (unsigned i = 0; i < USERS; i++)
        for (unsigned k = 0; k < SLOTS; k++)
            if (c.pfn[i][k] != DECKLE_NO_PFN)
                assert_int_equal(deckle_free(c.d, c.pfn[i][k], 0), DECKLE_OK);
    assert_int_equal(deckle_drain_all(c.d), DECKLE_OK);
    if (deckle_validate(c.d, text, sizeof(text)))
        fail_msg("%s", text);
    assert_int_equal(c.p.reports, 0);
    assert_true(deckle_alloc_contig(c.d, GFP_M, 8192, 1, 0, 0) >= 0);
    test_pool_free(&c.p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hunt_yields_what_moving_can),
        cmocka_unit_test(compacting_a_zone),
        cmocka_unit_test(blocks_of_all_orders_move),
        cmocka_unit_test(the_owner_frees_while_it_moves),
        cmocka_unit_test(refused_moves_change_nothing),
        cmocka_unit_test(a_wrong_ok_is_reported),
        cmocka_unit_test(referenced_blocks_stay),
        cmocka_unit_test(failures_are_deferred),
        cmocka_unit_test(proactive_by_score),
        cmocka_unit_test(users_and_compaction_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
