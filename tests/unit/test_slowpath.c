/* SPDX-License-Identifier: MIT */
/*
 * The slow path on a scripted machine: for each rule of the reference's order (3.11) and of the
 * reserves (3.3, 3.4) the state, the request, the calls in order and the result.
 */
#include "machine.h"

#define MIN_KBYTES 1600u /* more than the formula: min 400, low 500, high 600 frames */
#define MIN_FRAMES 400u
#define DRIFT      8u
#define PLAIN      (DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY)

/* ---- reserves -------------------------------------------------------------------------------- */

struct reserve_row {
    const char *who;
    uint32_t gfp, task_flags, context, req_flags;
    uint64_t frames; /* below min, of MIN_FRAMES */
};

/* Each gets the part of min that the reference gives him, no more. */
static const struct reserve_row reserves[] = {
    {"ordinary", DECKLE_GFP_KERNEL, 0, DECKLE_CONTEXT_TASK, 0, 0},
    {"cannot wait", DECKLE_GFP_NOWAIT, 0, DECKLE_CONTEXT_TASK, 0, 0},
    {"urgent", DECKLE_GFP_KERNEL | DECKLE_GFP_HIGH, 0, DECKLE_CONTEXT_TASK, 0, 200},
    {"atomic", DECKLE_GFP_ATOMIC, 0, DECKLE_CONTEXT_TASK, 0, 250},
    {"atomic in an interrupt", DECKLE_GFP_ATOMIC, 0, DECKLE_CONTEXT_INTERRUPT, 0, 250},
    {"atomic, no reserves", DECKLE_GFP_ATOMIC | DECKLE_GFP_NOMEMALLOC, 0, DECKLE_CONTEXT_TASK, 0,
     200},
    {"real-time", DECKLE_GFP_KERNEL, DECKLE_TASK_REALTIME, DECKLE_CONTEXT_TASK, 0, 200},
    {"real-time in an interrupt", DECKLE_GFP_KERNEL, DECKLE_TASK_REALTIME,
     DECKLE_CONTEXT_INTERRUPT, 0, 0},
    {"victim", DECKLE_GFP_KERNEL, DECKLE_TASK_OOM_VICTIM, DECKLE_CONTEXT_TASK, 0, 200},
    {"victim by the request", DECKLE_GFP_KERNEL, 0, DECKLE_CONTEXT_TASK, DECKLE_REQ_OOM, 200},
    {"victim, no reserves", DECKLE_GFP_KERNEL | DECKLE_GFP_NOMEMALLOC, DECKLE_TASK_OOM_VICTIM,
     DECKLE_CONTEXT_TASK, 0, 0},
    {"memalloc task", DECKLE_GFP_KERNEL, DECKLE_TASK_MEMALLOC, DECKLE_CONTEXT_TASK, 0, 400},
    {"memalloc task in softirq", DECKLE_GFP_ATOMIC, DECKLE_TASK_MEMALLOC, DECKLE_CONTEXT_SOFTIRQ,
     0, 400},
    {"memalloc task in an interrupt", DECKLE_GFP_ATOMIC, DECKLE_TASK_MEMALLOC,
     DECKLE_CONTEXT_INTERRUPT, 0, 250},
    {"memalloc request", DECKLE_GFP_KERNEL | DECKLE_GFP_MEMALLOC, 0, DECKLE_CONTEXT_TASK, 0, 400},
    {"memalloc request, no reserves", DECKLE_GFP_KERNEL | DECKLE_GFP_MEMALLOC |
     DECKLE_GFP_NOMEMALLOC, DECKLE_TASK_MEMALLOC, DECKLE_CONTEXT_TASK, 0, 0},
};

static void each_gets_its_reserve(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(reserves) / sizeof(reserves[0]); i++) {
        const struct reserve_row *row = &reserves[i];
        struct machine m;
        uint64_t left, want = MIN_FRAMES - row->frames;
        machine_open(&m, 8192, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
        machine_exhaust(&m, PLAIN);
        m.hooks.migrate = NULL;
        machine_start(&m);
        m.task.flags = row->task_flags;
        m.task.context = row->context;
        for (;;) {
            struct deckle_request ask = {.size = sizeof(ask), .gfp = row->gfp,
                                         .flags = row->req_flags};
            int64_t pfn = deckle_alloc_request(m.d, &ask);
            if (pfn < 0)
                break;
            machine_own(&m, (uint64_t)pfn, 0, true);
        }
        /* Counts of the two CPUs may be apart by their thresholds. */
        left = machine_free_frames(&m);
        if (left > want || left + DRIFT < want)
            fail_msg("%s: left %llu frames, is to leave %llu", row->who,
                     (unsigned long long)left, (unsigned long long)want);
        machine_close(&m);
    }
}

/* ---- the order of calls ---------------------------------------------------------------------- */

enum memory {
    EMPTY,     /* at min, nothing to reclaim */
    CACHE,     /* at min, a cache of 1000 frames */
    PIECES,    /* every second frame is free, the others can be moved */
    STUCK      /* every second frame is free, the others cannot be moved */
};

struct call_row {
    const char *rule; /* step of 3.11 */
    enum memory memory;
    uint32_t gfp, order, task_flags;
    uint64_t kill_frees;
    const char *calls;
    int result; /* DECKLE_OK = a frame */
};

#define KERNEL DECKLE_GFP_KERNEL
#define MAYFAIL (DECKLE_GFP_KERNEL | DECKLE_GFP_RETRY_MAYFAIL)
#define NORETRY (DECKLE_GFP_KERNEL | DECKLE_GFP_NORETRY)
#define NOFAIL (DECKLE_GFP_KERNEL | DECKLE_GFP_NOFAIL)
#define MOVABLE GFP_M
#define LOW DECKLE_EWATERMARK
#define FRAG DECKLE_EFRAGMENTED

static const struct call_row calls[] = {
    {"2: nobody is woken without KSWAPD", EMPTY, DECKLE_GFP_DIRECT_RECLAIM | DECKLE_GFP_NORETRY, 0,
     0, 0, "f", LOW},
    {"4: no direct reclaim: woken, then it fails", CACHE, DECKLE_GFP_ATOMIC & ~DECKLE_GFP_HIGH, 0,
     0, 0, "wf", LOW},
    {"4: NOWAIT says nothing", CACHE, DECKLE_GFP_NOWAIT, 0, 0, 0, "w", LOW},
    {"4: a task in reclaim does not reclaim", CACHE, KERNEL | DECKLE_GFP_NOMEMALLOC, 0,
     DECKLE_TASK_MEMALLOC, 0, "wf", LOW},
    {"5: direct reclaim", CACHE, KERNEL, 0, 0, 0, "ws", DECKLE_OK},
    {"5: NOIO leaves out nothing here", CACHE, DECKLE_GFP_NOIO, 0, 0, 0, "ws", DECKLE_OK},
    {"5: with NORETRY too", CACHE, NORETRY, 0, 0, 0, "ws", DECKLE_OK},
    {"6: NORETRY fails after one round", EMPTY, NORETRY, 0, 0, 40, "wf", LOW},
    {"9: somebody is killed", CACHE, KERNEL, 0, 0, 40, "ws", DECKLE_OK},
    {"9: nobody to kill", EMPTY, KERNEL, 0, 0, 0, "wof", LOW},
    {"9: not for RETRY_MAYFAIL", EMPTY, MAYFAIL, 0, 0, 0, "wf", LOW},
    {"9: not for THISNODE", EMPTY, KERNEL | DECKLE_GFP_THISNODE, 0, 0, 0, "wf", LOW},
    {"9: not for costly orders", EMPTY, KERNEL, 4, 0, 0, "wf", LOW},
    {"9: not while dumping core", EMPTY, KERNEL, 0, DECKLE_TASK_DUMPING, 0, "wf", LOW},
    {"10: NOWARN", EMPTY, KERNEL | DECKLE_GFP_NOWARN, 0, 0, 0, "wo", LOW},
    {"9: NOFAIL without watermarks", EMPTY, NOFAIL, 0, 0, 0, "wo", DECKLE_OK},
    {"3: unmovable order 3 compacts before it reclaims", PIECES, KERNEL, 3, 0, 0, "wm", DECKLE_OK},
    {"3: movable order 3 does not", PIECES, MOVABLE, 3, 0, 0, "wm", DECKLE_OK},
    {"3: costly orders do", PIECES, MOVABLE, 5, 0, 0, "wm", DECKLE_OK},
    {"3: whole blocks", PIECES, MOVABLE | DECKLE_GFP_NORETRY, 9, 0, 0, "wm", DECKLE_OK},
    {"3: above a block", PIECES, MOVABLE, 10, 0, 0, "wm", DECKLE_OK},
    {"3: not without IO", PIECES, DECKLE_GFP_NOIO | DECKLE_GFP_MOVABLE, 4, 0, 0, "wf", FRAG},
    {"3: not for who frees memory", PIECES, KERNEL, 3, DECKLE_TASK_MEMALLOC, 0, "wf", FRAG},
    {"4: nor who cannot wait", PIECES, DECKLE_GFP_ATOMIC, 3, 0, 0, "wf", FRAG},
    {"6: costly, given up after compaction", STUCK, MOVABLE, 5, 0, 0, "wmf", FRAG},
    {"9: order 3 goes on to the end", STUCK, KERNEL, 3, 0, 0, "wmof", FRAG},
};

static void make_memory(struct machine *m, enum memory memory)
{
    if (memory == CACHE)
        machine_fill_cache(m, 1000);
    if (memory == EMPTY || memory == CACHE) {
        machine_exhaust(m, PLAIN);
        return;
    }
    for (uint64_t i = 0; i < m->nr; i++)
        assert_true(machine_alloc(m, GFP_M | DECKLE_GFP_MEMALLOC, 0) >= 0);
    for (uint64_t i = 0; i < m->nr; i += 2)
        machine_free(m, MACHINE_BASE + i);
    for (uint64_t i = 1; i < m->nr && memory == STUCK; i += 2)
        m->pinned[i] = 1;
}

static void calls_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        const struct call_row *row = &calls[i];
        struct machine m;
        machine_open(&m, 8192, MIN_KBYTES, DECKLE_FEATURE_NO_CACHES);
        make_memory(&m, row->memory);
        machine_start(&m);
        m.kill_frees = row->kill_frees;
        m.task.flags = row->task_flags;
        int64_t pfn = machine_alloc(&m, row->gfp, row->order);
        if (strcmp(m.log, row->calls) || (pfn < 0 ? (int)pfn : DECKLE_OK) != row->result)
            fail_msg("%s: calls \"%s\", wants \"%s\"; result %s, wants %s", row->rule, m.log,
                     row->calls, pfn < 0 ? deckle_error_name((int)pfn) : "a frame",
                     deckle_error_name(row->result));
        machine_close(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gets_its_reserve),
        cmocka_unit_test(calls_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
