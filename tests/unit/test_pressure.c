/* SPDX-License-Identifier: MIT */
/* ctest: timeout=120 */
/*
 * Under pressure: properties that hold whatever hooks do. Hooks that fail at their n-th call, call
 * back, or never succeed; requests that must not fail; the storm of large requests; cookies.
 */
#include "machine.h"

#define MIN_KBYTES 1600u
#define PLAIN      (DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY)

/* ---- NOFAIL ---------------------------------------------------------------------------------- */

/* Everything is taken, reserves too; a cache gives up one frame a second. */
static void nofail_waits_for_one_frame_a_second(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 4096, 0, 0);
    machine_fill_cache(&m, 1000);
    machine_exhaust(&m, PLAIN);
    assert_int_equal(machine_free_frames(&m), 0);
    m.period = 1000 * MACHINE_MS;
    m.next_free = 500 * MACHINE_MS;
    machine_start(&m);
    for (unsigned i = 0; i < 20; i++) {
        int64_t pfn = machine_alloc(&m, DECKLE_GFP_KERNEL | DECKLE_GFP_NOFAIL, 0);
        assert_true(pfn >= 0);
    }
    /* The 20th came with the 20th second, not earlier and not much later. */
    assert_in_range(m.clock / MACHINE_MS, 19500, 19700);
    assert_int_equal(m.failures, 0);
    machine_close(&m);
}

/* Nobody reclaims in the pool: nobody would end the wait. */
static void nofail_without_anybody_fails(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 1024, 0, 0);
    machine_exhaust(&m, PLAIN);
    assert_int_equal(deckle_alloc(m.d, DECKLE_GFP_KERNEL | DECKLE_GFP_NOFAIL, 0), DECKLE_ENOMEM);
    machine_close(&m);
}

/* ---- the storm ------------------------------------------------------------------------------- */

static int64_t cheap(struct machine *m, uint32_t order)
{
    struct deckle_request ask = {.size = sizeof(ask), .gfp = DECKLE_GFP_ATOMIC | DECKLE_GFP_COMP,
                                 .order = order, .flags = DECKLE_REQ_CHEAP};
    return deckle_alloc_request(m->d, &ask);
}

/* Many single frames free, no run of order 3: nobody is woken, nothing is drained, and it is the
 * truth; when a run comes it is found. */
static void a_storm_of_cheap_requests(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 131072, 0, 0);
    for (uint64_t i = 0; i < m.nr; i++)
        assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 0) >= 0);
    for (uint64_t i = 0; i < m.nr; i++)
        if (i % 4)
            machine_free(&m, MACHINE_BASE + i);
    assert_true(machine_free_frames(&m) > 98000);
    machine_start(&m);
    uint64_t cached = 0;
    for (unsigned i = 0; i < 10; i++)
        machine_alloc(&m, DECKLE_GFP_KERNEL, 0); /* a list that is in use */
    cached = hazard_zone(&m.h, 0).cached;
    assert_true(cached > 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(cheap(&m, 3), DECKLE_EFRAGMENTED);
    assert_string_equal(m.log, "");
    assert_int_equal(hazard_zone(&m.h, 0).cached, cached);
    assert_int_equal(machine_event(&m, "deckle_cheap_fail"), 1000);
    assert_int_equal(machine_event(&m, "deckle_kswapd_wake"), 0);
    /* One run comes back: the next request gets it. */
    for (uint64_t i = 0; i < m.nr; i += 4096)
        if (m.stamp[i] && m.stamp[i + 4]) {
            machine_free(&m, MACHINE_BASE + i);
            machine_free(&m, MACHINE_BASE + i + 4);
            break;
        }
    machine_free_frames(&m);
    int64_t pfn = cheap(&m, 3);
    assert_true(pfn >= 0);
    machine_own(&m, (uint64_t)pfn, 3, true);
    assert_int_equal(cheap(&m, 3), DECKLE_EFRAGMENTED);
    machine_close(&m);
}

/* ---- hooks that fail or call back ------------------------------------------------------------ */

/* A day in the life of the machine, always the same but for what fails. Returns the calls made. */
static unsigned one_day(unsigned fail_at, void (*inside)(struct machine *), uint32_t features)
{
    struct machine m;
    uint64_t random = 7;
    machine_open(&m, 8192, MIN_KBYTES, features);
    m.busy_every = 5;
    m.kill_frees = 50;
    machine_fill_cache(&m, 1500);
    for (unsigned i = 0; i < 3000; i++)
        assert_true(machine_alloc(&m, GFP_M, 0) >= 0);
    machine_exhaust(&m, PLAIN);
    for (uint64_t i = 0; i < m.nr; i++)
        if (m.stamp[i] && m.pinned[i] && !test_random_below(&random, 3))
            machine_free(&m, MACHINE_BASE + i);
    m.fail_at = fail_at;
    m.inside = inside;
    machine_start(&m);
    for (unsigned i = 0; i < 40; i++) {
        static const uint32_t gfps[] = {DECKLE_GFP_KERNEL, GFP_M,
                                        DECKLE_GFP_KERNEL | DECKLE_GFP_RETRY_MAYFAIL, GFP_R};
        machine_alloc(&m, gfps[i % 4], (uint32_t)test_random_below(&random, 10));
        while (i % 8 == 0 && deckle_reclaim_step(m.d, 0, NULL) > 0)
            continue;
        while (i % 8 == 4 && deckle_compact_step(m.d, 0, NULL) > 0)
            continue;
    }
    unsigned all = m.calls;
    machine_close(&m);
    return all;
}

static void nothing_is_lost_when_a_hook_fails(void **state)
{
    (void)state;
    unsigned all = one_day(0, NULL, 0);
    printf("%u calls of hooks\n", all);
    assert_true(all > 50);
    unsigned step = (unsigned)(all / test_effort(200) + 1);
    for (unsigned n = 1; n <= all + 1; n += step)
        one_day(n, NULL, n % 2 ? 0 : DECKLE_FEATURE_NO_CACHES);
    for (unsigned n = 1; n <= 30; n++)
        one_day(n, NULL, DECKLE_FEATURE_OWNER_TAGS | DECKLE_FEATURE_DESCRIPTORS);
}

/* Whatever may be called: allocate with and without reclaim, free, drain, register, compact. */
static void call_back(struct machine *m)
{
    struct deckle_shrinker other = m->shrinker;
    int64_t a = deckle_alloc(m->d, DECKLE_GFP_KERNEL, 0);
    int64_t b = deckle_alloc(m->d, GFP_M, 3);
    assert_true(m->task.flags & DECKLE_TASK_RECLAIM);
    assert_ptr_equal(m->seen_task, &m->task);
    if (b >= 0)
        assert_int_equal(deckle_free(m->d, (uint64_t)b, 3), DECKLE_OK);
    if (a >= 0)
        assert_int_equal(deckle_free(m->d, (uint64_t)a, 0), DECKLE_OK);
    if (m->calls % 16 == 0)
        deckle_drain_all(m->d);
    assert_int_equal(deckle_reclaim_step(m->d, 0, NULL), 0);
    assert_int_equal(deckle_compact_node(m->d, 0, NULL), DECKLE_EBUSY);
    assert_int_equal(deckle_register_shrinker(m->d, &other), DECKLE_OK);
    assert_int_equal(deckle_unregister_shrinker(m->d, &other), DECKLE_OK);
}

static void h075_hooks_call_back(void **state)
{
    (void)state;
    assert_true(one_day(0, call_back, 0) > 50);
    assert_true(one_day(0, call_back, DECKLE_FEATURE_NO_CACHES) > 50);
}

/* Without a task hook nobody knows that a callback calls back; the depth is bounded all the same.
 */
static unsigned depth, deepest;

static void dive(struct machine *m)
{
    if (++depth > deepest)
        deepest = depth;
    assert_true(depth <= DECKLE_ANONYMOUS_RECLAIMERS);
    int64_t pfn = deckle_alloc(m->d, DECKLE_GFP_KERNEL | DECKLE_GFP_NOWARN, 0);
    if (pfn >= 0)
        deckle_free(m->d, (uint64_t)pfn, 0);
    depth--;
}

static void h075_recursion_is_bounded(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 4096, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    machine_fill_cache(&m, 500);
    machine_exhaust(&m, PLAIN);
    m.hooks.task = NULL;
    m.inside = dive;
    m.period = 1000 * MACHINE_MS; /* so that the dive finds nothing either */
    machine_start(&m);
    depth = deepest = 0;
    machine_alloc(&m, DECKLE_GFP_KERNEL, 0);
    assert_int_equal(deepest, DECKLE_ANONYMOUS_RECLAIMERS);
    assert_ptr_not_equal(m.seen_task, NULL);
    m.inside = NULL;
    machine_close(&m);
}

/* ---- registering ----------------------------------------------------------------------------- */

static struct deckle_shrinker many[DECKLE_MAX_SHRINKERS + 1];

static void unregister_inside(struct machine *m)
{
    assert_int_equal(deckle_unregister_shrinker(m->d, &m->shrinker), DECKLE_EBUSY);
}

static void shrinkers_come_and_go(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 4096, MIN_KBYTES, 0);
    struct deckle_shrinker wrong = m.shrinker;
    wrong.count = NULL;
    assert_int_equal(deckle_register_shrinker(m.d, &wrong), DECKLE_EINVAL);
    wrong = m.shrinker;
    wrong.size--;
    assert_int_equal(deckle_register_shrinker(m.d, &wrong), DECKLE_EINVAL);
    assert_int_equal(deckle_unregister_shrinker(m.d, &wrong), DECKLE_ENOENT);
    for (unsigned i = 0; i <= DECKLE_MAX_SHRINKERS; i++) {
        many[i] = m.shrinker;
        assert_int_equal(deckle_register_shrinker(m.d, &many[i]),
                         i < DECKLE_MAX_SHRINKERS ? DECKLE_OK : DECKLE_ENOSPC);
    }
    assert_int_equal(deckle_register_shrinker(m.d, &many[3]), DECKLE_EEXIST);
    for (unsigned i = 0; i < DECKLE_MAX_SHRINKERS; i++)
        assert_int_equal(deckle_unregister_shrinker(m.d, &many[i]), DECKLE_OK);
    /* While it runs it stays; no new call begins. */
    machine_fill_cache(&m, 500);
    machine_exhaust(&m, PLAIN);
    machine_start(&m);
    m.inside = unregister_inside;
    machine_alloc(&m, DECKLE_GFP_KERNEL, 0);
    assert_true(m.scans > 0);
    unsigned scans = m.scans;
    machine_exhaust(&m, PLAIN);
    assert_int_equal(m.scans, scans);
    assert_int_equal(deckle_unregister_shrinker(m.d, &m.shrinker), DECKLE_OK);
    assert_int_equal(deckle_unregister_shrinker(m.d, &m.shrinker), DECKLE_ENOENT);
    machine_close(&m);
}

/* What kind of cache may be called for whom. */
static void shrinkers_are_told_and_spared(void **state)
{
    static const struct {
        uint32_t flags, gfp, task_flags;
        bool called;
    } rows[] = {
        {0, DECKLE_GFP_NOIO, 0, true},
        {DECKLE_SHRINKER_IO, DECKLE_GFP_NOIO, 0, false},
        {DECKLE_SHRINKER_IO, DECKLE_GFP_NOFS, 0, true},
        {DECKLE_SHRINKER_FS, DECKLE_GFP_NOFS, 0, false},
        {DECKLE_SHRINKER_FS, DECKLE_GFP_KERNEL, 0, true},
        {DECKLE_SHRINKER_FS, DECKLE_GFP_KERNEL, DECKLE_TASK_NOFS, false},
        {DECKLE_SHRINKER_IO, DECKLE_GFP_KERNEL, DECKLE_TASK_NOFS, true},
        {DECKLE_SHRINKER_IO, DECKLE_GFP_KERNEL, DECKLE_TASK_NOIO, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct machine m;
        machine_open(&m, 4096, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
        machine_fill_cache(&m, 500);
        machine_exhaust(&m, PLAIN);
        m.shrinker.flags = rows[i].flags;
        m.task.flags = rows[i].task_flags;
        machine_start(&m);
        machine_alloc(&m, rows[i].gfp | DECKLE_GFP_NORETRY, 0);
        assert_int_equal(m.scans > 0, rows[i].called);
        if (m.scans) {
            assert_int_equal(m.last_shrink.node, 0);
            assert_int_equal(m.last_shrink.zone, DECKLE_ZONE_NORMAL);
            assert_int_equal(m.last_shrink.order, 0);
            assert_ptr_equal(m.last_shrink.d, m.d);
        }
        machine_close(&m);
    }
}

static void two_nodes(struct machine *m)
{
    static const struct deckle_range ranges[2] = {
        {.pfn = MACHINE_BASE, .nr = 4096, .node = DECKLE_NODE(0)},
        {.pfn = MACHINE_BASE + 4096, .nr = 4096, .node = DECKLE_NODE(1)}};
    struct deckle_config cfg = hazard_config(ranges, 2);
    cfg.nr_nodes = 2;
    cfg.features = DECKLE_FEATURE_NO_CACHES;
    machine_open_with(m, &cfg);
}

/* ---- OOM ------------------------------------------------------------------------------------- */

static void try_again_inside(struct machine *m)
{
    /* The lock is taken: whoever comes second does not kill too. Here it is the same thread, which
     * is in reclaim and fails. */
    assert_true(deckle_alloc(m->d, PLAIN | DECKLE_GFP_NOMEMALLOC | DECKLE_GFP_NOWARN, 0) < 0);
    assert_int_equal(m->kills, 1);
}

static void killing_makes_progress(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 4096, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    machine_fill_cache(&m, 1000);
    machine_exhaust(&m, PLAIN);
    m.shrinker.flags = DECKLE_SHRINKER_FS; /* not for this request */
    m.kill_frees = 200;
    m.inside = try_again_inside;
    machine_start(&m);
    assert_true(machine_alloc(&m, DECKLE_GFP_NOFS, 0) >= 0);
    assert_string_equal(m.log, "wot");
    assert_int_equal(m.last_oom.gfp, DECKLE_GFP_NOFS);
    assert_int_equal(machine_event(&m, "oom_kill"), 1);
    machine_close(&m);
}

/* What fails for its nodes is no failure of the system: the hook is told which nodes they are. */
static void h091_oom_is_told_the_nodes(void **state)
{
    struct machine m;
    (void)state;
    two_nodes(&m);
    m.hooks.migrate = NULL;
    machine_start(&m);
    struct deckle_request ask = {.size = sizeof(ask), .gfp = DECKLE_GFP_KERNEL, .nodemask = 2};
    for (;;) {
        int64_t pfn = deckle_alloc_request(m.d, &ask);
        if (pfn < 0) {
            assert_int_equal(pfn, DECKLE_ECONSTRAINED);
            break;
        }
        machine_own(&m, (uint64_t)pfn, 0, true);
    }
    assert_int_equal(m.kills, 1);
    assert_true(m.last_oom.nodemask == 2 && m.last_oom.node == 1);
    assert_int_equal(hazard_zone(&m.h, 0).free, 4096);
    machine_close(&m);
}

/* ---- cpusets and cookies --------------------------------------------------------------------- */

static unsigned node_of(int64_t pfn)
{
    assert_true(pfn >= 0);
    return (uint64_t)pfn >= MACHINE_BASE + 4096;
}

static void tasks_stay_on_their_nodes(void **state)
{
    struct machine m;
    (void)state;
    two_nodes(&m);
    m.hooks.flags = DECKLE_HOOKS_RESTRICT;
    m.hooks.migrate = NULL;
    machine_start(&m);
    deckle_task_set_mems(&m.task, 2, 0);
    assert_int_equal(m.task.mems_cookie, 2);
    assert_int_equal(node_of(machine_alloc(&m, DECKLE_GFP_KERNEL, 0)), 1);
    assert_int_equal(node_of(machine_alloc(&m, GFP_M, 3)), 1);
    /* A pinned frame is not movable. */
    uint32_t was = deckle_memalloc_pin_save(&m.task);
    int64_t pinned = machine_alloc(&m, GFP_M, 0);
    deckle_memalloc_pin_restore(&m.task, was);
    assert_int_equal(deckle_pageblock_type(m.d, (uint64_t)pinned), DECKLE_UNMOVABLE);
    while (machine_alloc(&m, DECKLE_GFP_USER | DECKLE_GFP_NORETRY | DECKLE_GFP_NOWARN, 0) >= 0)
        continue;
    assert_int_equal(hazard_zone(&m.h, 1).free, 0);
    assert_int_equal(deckle_alloc(m.d, DECKLE_GFP_USER | DECKLE_GFP_NORETRY, 0),
                     DECKLE_ECONSTRAINED);
    assert_int_equal(m.last_failure.mems_allowed, 2);
    /* Without HARDWALL the ancestor's nodes; an interrupt and an urgent request anywhere. */
    assert_int_equal(deckle_alloc(m.d, DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY, 0),
                     DECKLE_ECONSTRAINED);
    deckle_task_set_mems(&m.task, 2, 3);
    assert_int_equal(node_of(machine_alloc(&m, DECKLE_GFP_KERNEL, 0)), 0);
    deckle_task_set_mems(&m.task, 2, 0);
    assert_int_equal(node_of(machine_alloc(&m, DECKLE_GFP_ATOMIC, 0)), 0);
    m.task.flags = DECKLE_TASK_EXITING;
    assert_int_equal(node_of(machine_alloc(&m, DECKLE_GFP_KERNEL, 0)), 0);
    assert_true(deckle_alloc(m.d, DECKLE_GFP_USER | DECKLE_GFP_NORETRY, 0) < 0);
    m.task.flags = 0;
    m.task.context = DECKLE_CONTEXT_INTERRUPT;
    m.task.mems_allowed = 2;
    assert_true(machine_alloc(&m, DECKLE_GFP_NOWAIT, 0) >= 0);
    machine_close(&m);
}

/* The request is about to fail when somebody gives its task another node. */
static void widen(struct machine *m)
{
    if (m->scans == 1)
        deckle_task_set_mems(&m->task, 3, 0);
}

static void a_moved_cookie_starts_again(void **state)
{
    struct machine m;
    (void)state;
    two_nodes(&m);
    m.hooks.flags = DECKLE_HOOKS_RESTRICT;
    m.hooks.migrate = NULL;
    machine_start(&m);
    deckle_task_set_mems(&m.task, 2, 0);
    machine_fill_cache(&m, 10);
    while (machine_alloc(&m, DECKLE_GFP_USER & ~DECKLE_GFP_DIRECT_RECLAIM, 0) >= 0)
        continue;
    m.period = 1000 * MACHINE_MS * 1000;
    m.next_free = UINT64_MAX; /* the cache cannot give up anything */
    m.inside = widen;
    machine_forget(&m);
    assert_int_equal(node_of(machine_alloc(&m, DECKLE_GFP_USER | DECKLE_GFP_NORETRY, 0)), 0);
    assert_true(m.scans > 0);
    m.inside = NULL;
    machine_close(&m);
}

/* ---- masks, dirty limits, node reclaim, reports ---------------------------------------------- */

static bool node_0_is_dirty(void *ctx, uint32_t node)
{
    struct machine *m = ctx;
    machine_note(m, 'd');
    return node != 0;
}

static void dirty_limits_spread_writes(void **state)
{
    struct machine m;
    (void)state;
    two_nodes(&m);
    m.hooks.dirty_ok = node_0_is_dirty;
    machine_start(&m);
    assert_int_equal(node_of(machine_alloc(&m, GFP_M | DECKLE_GFP_WRITE, 0)), 1);
    assert_int_equal(node_of(machine_alloc(&m, GFP_M, 0)), 0);
    /* Only a preference: when node 1 is empty node 0 serves. */
    while (hazard_zone(&m.h, 1).free)
        machine_alloc(&m, GFP_M | DECKLE_GFP_WRITE, 0);
    assert_int_equal(node_of(machine_alloc(&m, GFP_M | DECKLE_GFP_WRITE, 0)), 0);
    machine_close(&m);
}

/* Marks on two nodes: 4096 frames each, min 400 together. */
static void node_reclaim_before_leaving(void **state)
{
    static const uint64_t on = 1, off = 0;
    (void)state;
    for (unsigned mode = 0; mode < 2; mode++) {
        static const struct deckle_range ranges[2] = {
            {.pfn = MACHINE_BASE, .nr = 4096, .node = DECKLE_NODE(0)},
            {.pfn = MACHINE_BASE + 4096, .nr = 4096, .node = DECKLE_NODE(1)}};
        struct deckle_config cfg = hazard_config(ranges, 2);
        struct machine m;
        cfg.nr_nodes = 2;
        cfg.features = DECKLE_FEATURE_NO_CACHES;
        cfg.min_free_kbytes = MIN_KBYTES;
        machine_open_with(&m, &cfg);
        machine_fill_cache(&m, 1000);
        assert_int_equal(deckle_tunable_set(m.d, "zone_reclaim_mode", mode ? &on : &off, 1),
                         DECKLE_OK);
        while (hazard_zone(&m.h, 0).free + 8 > hazard_zone(&m.h, 0).low)
            assert_true(machine_alloc(&m, PLAIN | DECKLE_GFP_THISNODE, 0) >= 0);
        machine_start(&m);
        int64_t pfn = machine_alloc(&m, DECKLE_GFP_KERNEL, 0);
        assert_int_equal(node_of(pfn), mode ? 0 : 1);
        assert_string_equal(m.log, mode ? "s" : "");
        assert_int_equal(machine_event(&m, "zone_reclaim_success"), mode);
        machine_close(&m);
    }
}

static void failures_are_reported_now_and_then(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 4096, MIN_KBYTES, 0);
    machine_exhaust(&m, PLAIN);
    machine_start(&m);
    for (unsigned i = 0; i < 250; i++) {
        assert_true(deckle_alloc(m.d, DECKLE_GFP_ATOMIC & ~DECKLE_GFP_HIGH, 0) < 0);
        m.clock += 100 * MACHINE_MS;
    }
    assert_int_equal(m.failures, 3); /* 25 seconds: at 0, 10 and 20 */
    assert_int_equal(m.last_failure.suppressed, 99);
    assert_int_equal(m.last_failure.error, DECKLE_EWATERMARK);
    machine_close(&m);
}

static void append(void *ctx, const char *text, size_t len)
{
    char *all = ctx;
    if (strlen(all) + len < 4000)
        strncat(all, text, len);
}

static void a_report_says_mode_and_memory(void **state)
{
    struct machine m;
    char text[4096] = "";
    (void)state;
    machine_open(&m, 4096, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    machine_exhaust(&m, PLAIN);
    machine_start(&m);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL | DECKLE_GFP_COMP, 4) < 0);
    m.last_failure.suppressed = 0;
    deckle_print_failure(&m.last_failure, append, text);
    assert_non_null(strstr(text, "page allocation failure: order:4, mode:0x40cc0("
                                 "GFP_KERNEL|__GFP_COMP), nodemask=(null),mems_allowed=(null): "
                                 "DECKLE_EWATERMARK\nMem-Info:\nNode 0 Normal free:"));
    assert_non_null(strstr(text, " min:1600kB low:2000kB high:2400kB"));
    assert_non_null(strstr(text, "\nNode 0 Normal: "));
    machine_close(&m);
}

/* While suspending there is no I/O and nobody is killed; while booting nobody reclaims. */
static void the_allowed_mask(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 4096, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
    machine_fill_cache(&m, 500);
    machine_exhaust(&m, PLAIN);
    m.shrinker.flags = DECKLE_SHRINKER_IO;
    machine_start(&m);
    assert_int_equal(deckle_set_gfp_allowed_mask(m.d, ~(DECKLE_GFP_IO | DECKLE_GFP_FS)),
                     UINT32_MAX);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 0) < 0);
    assert_string_equal(m.log, "wf");
    deckle_set_gfp_allowed_mask(m.d, ~DECKLE_GFP_RECLAIM);
    machine_forget(&m);
    m.clock += 20000 * MACHINE_MS;
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 0) < 0);
    assert_string_equal(m.log, "f");
    deckle_set_gfp_allowed_mask(m.d, UINT32_MAX);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 0) >= 0);
    machine_close(&m);
}

/* HighAtomic: given back one block at a time, the last one only before somebody would be killed. */
static void the_highatomic_reserve_is_given_back(void **state)
{
    struct machine m;
    (void)state;
    machine_open(&m, 65536, 0, DECKLE_FEATURE_NO_CACHES);
    for (uint64_t i = 0; i < m.nr; i++)
        assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 0) >= 0);
    for (uint64_t i = 0; i < 512; i++)
        machine_free(&m, MACHINE_BASE + 512 * 10 + i);
    assert_int_equal(deckle_set_pageblock_type(m.d, MACHINE_BASE + 5120, DECKLE_HIGHATOMIC),
                     DECKLE_OK);
    m.hooks.oom = NULL;
    m.hooks.migrate = NULL;
    machine_start(&m);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY, 3) < 0);
    assert_int_equal(hazard_zone(&m.h, 0).free_highatomic, 512);
    assert_true(machine_alloc(&m, DECKLE_GFP_KERNEL, 3) >= 0);
    assert_int_equal(hazard_zone(&m.h, 0).free_highatomic, 0);
    assert_int_equal(machine_event(&m, "deckle_highatomic_release"), 1);
    machine_close(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nofail_waits_for_one_frame_a_second),
        cmocka_unit_test(nofail_without_anybody_fails),
        cmocka_unit_test(a_storm_of_cheap_requests),
        cmocka_unit_test(nothing_is_lost_when_a_hook_fails),
        cmocka_unit_test(h075_hooks_call_back),
        cmocka_unit_test(h075_recursion_is_bounded),
        cmocka_unit_test(shrinkers_come_and_go),
        cmocka_unit_test(shrinkers_are_told_and_spared),
        cmocka_unit_test(killing_makes_progress),
        cmocka_unit_test(h091_oom_is_told_the_nodes),
        cmocka_unit_test(tasks_stay_on_their_nodes),
        cmocka_unit_test(a_moved_cookie_starts_again),
        cmocka_unit_test(dirty_limits_spread_writes),
        cmocka_unit_test(node_reclaim_before_leaving),
        cmocka_unit_test(failures_are_reported_now_and_then),
        cmocka_unit_test(a_report_says_mode_and_memory),
        cmocka_unit_test(the_allowed_mask),
        cmocka_unit_test(the_highatomic_reserve_is_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
