/* SPDX-License-Identifier: MIT */
/*
 * A scripted machine for tests under pressure: a pool whose host has a clock that only the test and
 * waiting advance, a cache of frames that can be given up at a given rate, users whose frames can
 * be moved, and a record of who was called in which order. One letter a call, repeated calls once:
 *
 *   w k   wake of background reclaim, of background compaction      s   scan of the shrinker
 *   m     a block is to be moved                                    o   somebody is to be killed
 *   t     waiting                                                   f   a failure report
 *
 * Every frame that the machine allocates carries a stamp; moving takes it along, so that a lost,
 * doubled or mixed-up frame is found when the machine is closed.
 */
#ifndef DECKLE_TESTS_SUPPORT_MACHINE_H
#define DECKLE_TESTS_SUPPORT_MACHINE_H

#include <deckle/pressure.h>

#include "hazard.h"

#define MACHINE_BASE 1024u /* first pfn */
#define MACHINE_MS   UINT64_C(1000000)

struct machine {
    struct hazard_pool h; /* first */
    struct deckle *d;
    uint64_t nr;              /* frames */
    char log[256];
    uint64_t clock;           /* ns */
    struct deckle_task task;
    struct deckle_pressure_hooks hooks;
    struct deckle_shrinker shrinker;
    /* What users have: a stamp for each block's head, 0 = not theirs; and whether it can move. */
    uint32_t *stamp;
    uint8_t *order, *pinned;
    uint32_t next_stamp;
    uint64_t live;            /* frames that users have */
    /* The cache: frames that can be given up, oldest first. */
    uint64_t *cache;
    size_t nr_cache, cache_at;
    uint64_t period;          /* ns for one frame; 0 = any number at once */
    uint64_t next_free;       /* when the next one may be freed */
    unsigned scans, moves, kills, waits, failures, wakes;
    unsigned busy_every;      /* every n-th move is refused; 0 = none */
    unsigned calls, fail_at;  /* the fail_at-th call of a hook fails */
    uint64_t kill_frees;      /* frames of the cache that the OOM hook frees; 0 = nobody to kill */
    void (*inside)(struct machine *m); /* called inside scan, move and kill */
    struct deckle_task *seen_task;
    struct deckle_shrink last_shrink;
    struct deckle_migration last_move;
    struct deckle_failure last_failure;
    struct deckle_oom last_oom;
};

static inline void machine_note(struct machine *m, char what)
{
    size_t n = strlen(m->log);
    if ((!n || m->log[n - 1] != what) && n + 1 < sizeof(m->log))
        m->log[n] = what;
}

static inline void machine_forget(struct machine *m)
{
    memset(m->log, 0, sizeof(m->log));
    m->scans = m->moves = m->kills = m->waits = m->failures = m->wakes = 0;
}

static inline bool machine_fails(struct machine *m)
{
    return ++m->calls == m->fail_at;
}

/* ---- frames of users ------------------------------------------------------------------------- */

static inline void machine_own(struct machine *m, uint64_t pfn, uint32_t order, bool pinned)
{
    uint64_t i = pfn - MACHINE_BASE;
    assert_true(i < m->nr && !m->stamp[i]);
    m->stamp[i] = ++m->next_stamp;
    m->order[i] = (uint8_t)order;
    m->pinned[i] = pinned;
    m->live += UINT64_C(1) << order;
}

static inline void machine_disown(struct machine *m, uint64_t pfn)
{
    uint64_t i = pfn - MACHINE_BASE;
    assert_true(i < m->nr && m->stamp[i]);
    m->stamp[i] = 0;
    m->live -= UINT64_C(1) << m->order[i];
}

/* Allocate for a user; the pfn or the error. */
static inline int64_t machine_alloc(struct machine *m, uint32_t gfp, uint32_t order)
{
    int64_t pfn = deckle_alloc(m->d, gfp, order);
    if (pfn >= 0)
        machine_own(m, (uint64_t)pfn, order, !(gfp & DECKLE_GFP_MOVABLE));
    return pfn;
}

static inline void machine_free(struct machine *m, uint64_t pfn)
{
    uint32_t order = m->order[pfn - MACHINE_BASE];
    machine_disown(m, pfn);
    assert_int_equal(deckle_free(m->d, pfn, order), DECKLE_OK);
}

/* As many single frames as there are for such requests. */
static inline uint64_t machine_exhaust(struct machine *m, uint32_t gfp)
{
    uint64_t n = 0;
    while (machine_alloc(m, gfp | DECKLE_GFP_NOWARN, 0) >= 0)
        n++;
    return n;
}

/* A user's frame becomes one of the cache, which may be given up; it can still be moved. */
static inline void machine_cache(struct machine *m, uint64_t pfn)
{
    assert_true(m->nr_cache < m->nr);
    m->cache[m->nr_cache++] = pfn;
}

static inline void machine_fill_cache(struct machine *m, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        int64_t pfn = machine_alloc(m, GFP_M | DECKLE_GFP_NORETRY, 0);
        assert_true(pfn >= 0);
        machine_cache(m, (uint64_t)pfn);
    }
}

static inline bool machine_drop_one(struct machine *m)
{
    while (m->cache_at < m->nr_cache) {
        uint64_t pfn = m->cache[m->cache_at++];
        machine_free(m, pfn);
        return true;
    }
    return false;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static inline struct deckle_task *machine_task(void *ctx)
{
    struct machine *m = ctx;
    return &m->task;
}

static inline uint64_t machine_now(void *ctx)
{
    struct machine *m = ctx;
    return m->clock;
}

static inline void machine_wait(void *ctx, enum deckle_wait why, uint64_t ns)
{
    struct machine *m = ctx;
    (void)why;
    machine_note(m, 't');
    m->waits++;
    m->clock += ns;
}

static inline void machine_wake(void *ctx, uint32_t node, enum deckle_daemon daemon)
{
    struct machine *m = ctx;
    (void)node;
    machine_note(m, daemon == DECKLE_KSWAPD ? 'w' : 'k');
    m->wakes++;
}

static inline int machine_oom(void *ctx, const struct deckle_oom *oom)
{
    struct machine *m = ctx;
    machine_note(m, 'o');
    m->kills++;
    m->last_oom = *oom;
    m->seen_task = oom->task;
    if (m->inside)
        m->inside(m);
    if (machine_fails(m))
        return 0;
    for (uint64_t i = 0; i < m->kill_frees; i++)
        if (!machine_drop_one(m))
            return i > 0;
    return m->kill_frees > 0;
}

static inline void machine_failure(void *ctx, const struct deckle_failure *failure)
{
    struct machine *m = ctx;
    machine_note(m, 'f');
    m->failures++;
    m->last_failure = *failure;
}

/* The machine's own books decide: is it ours, of this order, and not pinned? */
static inline int machine_migrate(void *ctx, const struct deckle_migration *move)
{
    struct machine *m = ctx;
    uint64_t from = move->from - MACHINE_BASE, to = move->to - MACHINE_BASE;
    machine_note(m, 'm');
    m->moves++;
    m->last_move = *move;
    m->seen_task = move->task;
    if (m->inside)
        m->inside(m);
    if (machine_fails(m) || (m->busy_every && m->moves % m->busy_every == 0))
        return DECKLE_EBUSY;
    assert_true(from < m->nr && to < m->nr && from != to);
    if (!m->stamp[from] || m->order[from] != move->order || m->pinned[from])
        return DECKLE_EBUSY;
    assert_int_equal(m->stamp[to], 0);
    m->stamp[to] = m->stamp[from];
    m->order[to] = m->order[from];
    m->pinned[to] = 0;
    m->stamp[from] = 0;
    for (size_t i = m->cache_at; i < m->nr_cache; i++)
        if (m->cache[i] == move->from)
            m->cache[i] = move->to;
    return DECKLE_OK;
}

static inline uint64_t machine_count(void *ctx, const struct deckle_shrink *shrink)
{
    struct machine *m = ctx;
    assert_int_equal(shrink->size, sizeof(*shrink));
    return m->nr_cache - m->cache_at;
}

static inline int64_t machine_scan(void *ctx, const struct deckle_shrink *shrink)
{
    struct machine *m = ctx;
    int64_t n = 0;
    machine_note(m, 's');
    m->scans++;
    m->last_shrink = *shrink;
    m->seen_task = shrink->task;
    if (m->inside)
        m->inside(m);
    if (machine_fails(m))
        return DECKLE_EBUSY;
    for (uint64_t i = 0; i < shrink->nr_to_scan; i++) {
        if (m->period && m->clock < m->next_free)
            break;
        if (!machine_drop_one(m))
            break;
        m->next_free = m->clock + m->period;
        n++;
    }
    return n;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* nr frames of one zone Normal; min_kbytes 0 = no marks. The hooks are not set yet. */
static inline void machine_open_with(struct machine *m, const struct deckle_config *cfg)
{
    memset(m, 0, sizeof(*m));
    for (uint32_t i = 0; i < cfg->nr_ranges; i++)
        m->nr = cfg->ranges[i].pfn + cfg->ranges[i].nr - MACHINE_BASE;
    hazard_open(&m->h, cfg, false);
    m->d = m->h.d;
    m->stamp = calloc(m->nr, sizeof(*m->stamp));
    m->order = calloc(m->nr, 1);
    m->pinned = calloc(m->nr, 1);
    m->cache = calloc(m->nr, sizeof(*m->cache));
    assert_true(m->stamp && m->order && m->pinned && m->cache);
    m->task.size = sizeof(m->task);
    m->hooks = (struct deckle_pressure_hooks){
        .size = sizeof(m->hooks), .ctx = m, .task = machine_task, .now = machine_now,
        .wait = machine_wait, .wake = machine_wake, .oom = machine_oom,
        .migrate = machine_migrate, .failure = machine_failure};
    m->shrinker = (struct deckle_shrinker){.size = sizeof(m->shrinker), .ctx = m,
                                           .count = machine_count, .scan = machine_scan};
}

static inline void machine_open(struct machine *m, uint64_t nr, uint64_t min_kbytes,
                                uint32_t features)
{
    struct deckle_range range = {.pfn = MACHINE_BASE, .nr = nr};
    struct deckle_config cfg = hazard_config(&range, 1);
    cfg.features = features;
    cfg.min_free_kbytes = min_kbytes ? min_kbytes : UINT64_MAX;
    machine_open_with(m, &cfg);
}

static inline void machine_start(struct machine *m)
{
    assert_int_equal(deckle_set_pressure_hooks(m->d, &m->hooks), DECKLE_OK);
    assert_int_equal(deckle_register_shrinker(m->d, &m->shrinker), DECKLE_OK);
    machine_forget(m);
}

static inline uint64_t machine_free_frames(struct machine *m)
{
    assert_int_equal(deckle_drain_all(m->d), DECKLE_OK);
    return hazard_free_frames(&m->h);
}

/* The pool has allocated just what the users have. */
struct machine_audit {
    struct machine *m;
    uint64_t frames;
};

static inline void machine_audit_block(void *ctx, const struct deckle_allocated *block)
{
    struct machine_audit *audit = ctx;
    uint64_t i = block->pfn - MACHINE_BASE;
    assert_true(i < audit->m->nr && audit->m->stamp[i]);
    assert_int_equal(audit->m->order[i], block->order);
    audit->frames += UINT64_C(1) << block->order;
}

static inline void machine_check(struct machine *m)
{
    struct machine_audit audit = {m, 0};
    hazard_valid(&m->h);
    deckle_for_each_allocated(m->d, machine_audit_block, &audit);
    assert_int_equal(audit.frames, m->live);
}

static inline void machine_close(struct machine *m)
{
    machine_check(m);
    deckle_unregister_shrinker(m->d, &m->shrinker);
    assert_int_equal(deckle_set_pressure_hooks(m->d, NULL), DECKLE_OK);
    assert_int_equal(m->h.p.reports, 0);
    hazard_close(&m->h);
    free(m->stamp);
    free(m->order);
    free(m->pinned);
    free(m->cache);
}

static inline uint64_t machine_event(struct machine *m, const char *name)
{
    const char *found;
    uint64_t value;
    for (uint32_t i = 0; deckle_vmstat(m->d, i, &found, &value) == DECKLE_OK; i++)
        if (!strcmp(found, name))
            return value;
    fail_msg("no event %s", name);
    return 0;
}

#endif
