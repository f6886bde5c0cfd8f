/* SPDX-License-Identifier: MIT */
/*
 * What must hold, seen from outside: contract rule 6 during a run, conservation at its end.
 *
 * Rule 6 is checked as it is written. While a request is under way, every change of memory is
 * followed by the question whether a fitting block lies outside unfinished operations now: free
 * bits of an open pageblock, or frames in caches, where no other unfinished operation has written
 * to the block's W or line or to the list. If there is an instant at which the answer is no, the
 * request may fail; if there is none, a failure that is not CONTENDED breaks the rule. The place
 * that answered yes last is asked first, so most changes cost one look.
 *
 * An operation counts as working on all that it has written to, until it ends: a stopped thread may
 * withhold one block, by the contract. The code withholds less; what more it promises is tested by
 * tests/interleave ("stalled").
 *
 * The end. What a run has left behind is judged once: the state is hashed as it changes
 * (sim_state), and a state that was judged before is not judged again.
 */
#include "case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/blockinfo.h"
#include "core/block.h"
#include "core/pcp_internal.h"
#include "core/zone.h"

#define MOST_BLOCKS 2048u
#define MOST_LISTS  (4u * DK_PCP_LISTS)

/* What an actor has under way. */
struct work {
    bool active, asks;
    unsigned order;
    bool movable, saw_nothing, disturbed;
    uint64_t limit;
    uint64_t blocks[MOST_BLOCKS / 64], lists[(MOST_LISTS + 63) / 64];
    bool touched;
    /* where a fitting block was last: frames free in the bits */
    uint32_t witness; /* frame index, DK_NONE */
};

static struct work work[SIM_ACTORS];
static struct sim_set *judged;
static uint32_t nr_blocks, nr_lists;

/* ---- who works where ------------------------------------------------------------------------- */

static unsigned me(void)
{
    return (unsigned)(sim_me() - sim_actor);
}

static bool others_work(unsigned who)
{
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        if (i != who && work[i].active)
            return true;
    return false;
}

static bool block_is_busy(unsigned who, uint32_t block)
{
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        if (i != who && work[i].active && work[i].touched &&
            (work[i].blocks[block / 64] >> block % 64 & 1))
            return true;
    return false;
}

static bool list_is_busy(unsigned who, uint32_t list)
{
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        if (i != who && work[i].active && work[i].touched &&
            (work[i].lists[list / 64] >> list % 64 & 1))
            return true;
    return false;
}

/* ---- does anything fit now? ------------------------------------------------------------------ */

static bool may_serve(const struct work *w, dk_word word)
{
    unsigned type = dk_w_type(word);
    if (word & (DK_W_ISOLATED | DK_W_OFFLINE | DK_W_WHOLE))
        return false;
    return type < DECKLE_NR_PCP_TYPES || (type == DECKLE_CMA && w->movable);
}

static bool run_is_free(uint32_t fi, unsigned order)
{
    const dk_aword *line = dk_line(sim_pool, fi / DK_BLOCK_FRAMES);
    for (uint32_t f = fi % DK_BLOCK_FRAMES, n = 1u << order; n;) {
        uint32_t at = f % DK_WORD_BITS, here = DK_WORD_BITS - at < n ? DK_WORD_BITS - at : n;
        if (dk_load_relaxed(&line[f / DK_WORD_BITS]) & (dk_mask(here) << at))
            return false;
        f += here;
        n -= here;
    }
    return true;
}

static bool witness_holds(unsigned who)
{
    struct work *w = &work[who];
    uint32_t block = w->witness / DK_BLOCK_FRAMES;
    return w->witness != DK_NONE && w->order < DK_BLOCK_ORDER &&
           may_serve(w, dk_load_relaxed(&sim_pool->words[block])) && !block_is_busy(who, block) &&
           run_is_free(w->witness, w->order);
}

static bool whole_blocks_fit(unsigned who)
{
    uint32_t n = 1u << (work[who].order - DK_BLOCK_ORDER), run = 0;
    uint64_t limit = work[who].limit ? work[who].limit / 512 : nr_blocks;
    for (uint32_t b = 0; b < nr_blocks && b < limit; b++) {
        dk_word w = dk_load_relaxed(&sim_pool->words[b]);
        run = dk_w_is_groupable(w) && !block_is_busy(who, b) ? run + 1 : 0;
        if (run >= n && !((b + 1 - n) & (n - 1)))
            return true;
        if (!((b + 1) & (n - 1)))
            run = 0;
    }
    return false;
}

/* Frames that lie in lists at rest. */
static void mark_cached(unsigned who, uint8_t *cached)
{
    memset(cached, 0, sim_frames);
    for (uint32_t l = 0; l < nr_lists; l++) {
        struct dk_pcp_set *set = dk_set(sim_pool, sim_pool->main_zone, l / DK_PCP_LISTS);
        unsigned list = l % DK_PCP_LISTS, order = dk_list_order(list);
        struct dk_pcp_list_head *lh = dk_pcp_head(sim_pool, set, list);
        const void *slots = dk_pcp_slots(lh);
        uint32_t held = sim_pool->kind == DK_PCP_RSEQ ? dk_pcp_count_racy(sim_pool, lh)
                                                       : sim_pool->slot_cap[list];
        for (uint32_t i = 0; i < held && !list_is_busy(who, l); i++) {
            dk_word cell = sim_pool->kind == DK_PCP_RSEQ
                               ? dk_a32_load_relaxed((const dk_a32 *)slots + i) | DK_CELL_FULL
                               : dk_load_relaxed((const dk_aword *)slots + i);
            if ((cell & DK_CELL_FULL) && dk_cell_frame(cell) + (1u << order) <= sim_frames)
                memset(cached + dk_cell_frame(cell), 1, 1u << order);
        }
    }
}

static bool runs_fit(unsigned who, const uint8_t *cached)
{
    struct work *w = &work[who];
    uint64_t limit = w->limit && w->limit < sim_frames ? w->limit : sim_frames;
    for (uint32_t b = 0; b < nr_blocks && b * 512ull < limit; b++) {
        if (!may_serve(w, dk_load_relaxed(&sim_pool->words[b])) || block_is_busy(who, b))
            continue;
        for (uint32_t f = b * 512; f < (b + 1) * 512; f += 1u << w->order) {
            uint32_t i = 0;
            while (i < 1u << w->order && (run_is_free(f + i, 0) || (cached && cached[f + i])))
                i++;
            if (i < 1u << w->order || f + i > limit)
                continue;
            w->witness = run_is_free(f, w->order) ? f : DK_NONE;
            return true;
        }
    }
    return false;
}

static bool fits(unsigned who)
{
    static uint8_t *cached;
    static uint64_t size;
    if (work[who].order >= DK_BLOCK_ORDER)
        return whole_blocks_fit(who);
    if (witness_holds(who))
        return true;
    work[who].witness = DK_NONE;
    if (sim_pool->kind == DK_PCP_NONE)
        return runs_fit(who, NULL);
    if (size < sim_frames) {
        free(cached);
        cached = malloc(sim_frames);
        size = cached ? sim_frames : 0;
    }
    if (!cached)
        return true;
    mark_cached(who, cached);
    return runs_fit(who, cached);
}

/* ---- during a run ---------------------------------------------------------------------------- */

static bool within(const volatile void *p, const volatile void *array, size_t bytes, size_t *at)
{
    *at = (size_t)((uintptr_t)p - (uintptr_t)array);
    return *at < bytes;
}

static void touch(struct work *w, const volatile void *p)
{
    size_t at, block = nr_blocks;
    const struct deckle *d = sim_pool;
    if (within(p, d->words, nr_blocks * sizeof(dk_word), &at))
        block = at / sizeof(dk_word);
    else if (within(p, d->lines, (size_t)nr_blocks * DK_LINE_BYTES, &at))
        block = at / DK_LINE_BYTES;
    else if (within(p, dk_set(d, d->main_zone, 0), (size_t)d->set_bytes * d->nr_cpus, &at)) {
        size_t cpu = at / d->set_bytes, off = at % d->set_bytes;
        unsigned list = DK_PCP_LISTS;
        while (list-- > 0 && off < d->list_off[list])
            continue;
        size_t l = cpu * DK_PCP_LISTS + list;
        if (list < DK_PCP_LISTS && l < MOST_LISTS) {
            w->lists[l / 64] |= 1ull << l % 64;
            w->touched = true;
        }
    }
    if (block < nr_blocks) {
        w->blocks[block / 64] |= 1ull << block % 64;
        w->touched = true;
    }
}

static void on_change(const volatile void *p)
{
    if (!sim_running())
        return;
    unsigned self = me();
    if (work[self].active)
        touch(&work[self], p);
    for (unsigned i = 0; i < SIM_ACTORS; i++) {
        if (!work[i].active)
            continue;
        work[i].disturbed |= i != self;
        if (work[i].asks && !work[i].saw_nothing && !fits(i))
            work[i].saw_nothing = true;
    }
}

static struct work *begin(struct sim_actor *a)
{
    struct work *w = &work[a - sim_actor];
    if (w->touched) {
        memset(w->blocks, 0, (nr_blocks + 63) / 64 * 8);
        memset(w->lists, 0, sizeof(w->lists));
    }
    w->touched = w->asks = w->saw_nothing = false;
    w->active = true;
    w->disturbed = others_work((unsigned)(a - sim_actor));
    w->witness = DK_NONE;
    return w;
}

static void mark_disturbed(void)
{
    unsigned self = me();
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        work[i].disturbed |= i != self;
}

void sim_work_begin(struct sim_actor *a)
{
    begin(a);
    mark_disturbed();
}

void sim_ask_begin(struct sim_actor *a, unsigned order, uint32_t gfp, uint64_t limit)
{
    struct work *w = begin(a);
    mark_disturbed();
    w->order = order;
    w->movable = (gfp & DECKLE_GFP_MOVABLE) != 0;
    w->limit = limit > 1 ? limit : 0;
    w->saw_nothing = !fits((unsigned)(a - sim_actor));
    w->asks = true;
}

void sim_ask_end(struct sim_actor *a, int64_t result)
{
    struct work *w = &work[a - sim_actor];
    w->active = w->asks = false;
    if (result >= 0)
        return;
    if (result == DECKLE_ECONTENDED) {
        if (!w->disturbed)
            sim_fail("CONTENDED, and nobody disturbed the request");
    } else if (result == DECKLE_ENOMEM || result == DECKLE_EFRAGMENTED ||
               result == DECKLE_EWATERMARK || result == DECKLE_ECONSTRAINED) {
        if (!w->saw_nothing)
            sim_fail("a request of order %u failed (%s) although at every instant something that "
                     "fits lay outside unfinished operations", w->order,
                     deckle_error_name((int)result));
    } else {
        sim_fail("a request of order %u: %s", w->order, deckle_error_name((int)result));
    }
}

void sim_work_end(struct sim_actor *a, int result)
{
    struct work *w = &work[a - sim_actor];
    w->active = false;
    if (result == DECKLE_ECONTENDED && !w->disturbed)
        sim_fail("CONTENDED, and nobody disturbed the operation");
    else if (result && result != DECKLE_ECONTENDED)
        sim_fail("a drain: %s", deckle_error_name(result));
}

/* ---- the end --------------------------------------------------------------------------------- */

static void count_cached(void *ctx, uint32_t fi, unsigned order)
{
    (void)fi;
    *(uint64_t *)ctx += 1ull << order;
}

/* Free, cached and owned frames are all frames that there are. */
static const char *balance(bool cached_too)
{
    static char text[120];
    uint64_t cached = 0, owned = 0, free_frames = 0, isolated = 0;
    for (uint32_t z = 0; z < sim_pool->sb->nr_zones; z++) {
        const struct dk_zone *zone = &sim_pool->zones[z];
        free_frames += dk_zone_free_exact(sim_pool, zone);
        isolated += dk_zone_count(sim_pool, zone, DK_COUNT_FREE_ISOLATED);
        dk_pcp_for_each(sim_pool, zone, count_cached, &cached);
    }
    for (uint64_t p = 0; p < sim_frames; p++)
        owned += sim_owner[p] != 0;
    if (free_frames + isolated + cached + owned == sim_frames && (cached_too || !cached))
        return NULL;
    snprintf(text, sizeof(text), "%llu free, %llu isolated, %llu cached, %llu owned of %llu frames",
             (unsigned long long)free_frames, (unsigned long long)isolated,
             (unsigned long long)cached, (unsigned long long)owned,
             (unsigned long long)sim_frames);
    return text;
}

static const char *validate(void)
{
    static char text[400];
    return deckle_validate(sim_pool, text, sizeof(text)) ? text : NULL;
}

/* All that the actors hold goes back; the base keeps its own. */
static const char *give_back(void)
{
    for (unsigned i = 0; i < SIM_ACTORS; i++) {
        while (sim_actor[i].nr_held) {
            struct sim_held b = sim_let_go(&sim_actor[i], sim_actor[i].nr_held - 1);
            if (deckle_free(sim_pool, b.pfn, b.order))
                return "a block that an actor holds cannot be freed";
        }
    }
    return deckle_drain_all(sim_pool) ? "the last drain failed" : NULL;
}

static uint64_t end_state(void)
{
    uint64_t h = sim_state();
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        for (unsigned k = 0; k < sim_actor[i].nr_held; k++)
            h ^= (sim_actor[i].held[k].pfn * 64 + sim_actor[i].held[k].order + 1) *
                 UINT64_C(0x9e3779b97f4a7c15) * (i * 2 + 3);
    return h;
}

static unsigned reports(void)
{
    unsigned n = 0;
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        n += sim_actor[i].reports;
    return n;
}

const char *sim_judge(void)
{
    const char *bad;
    if (reports())
        return "a report of the bad hook";
    if (sim_now->judge && (bad = sim_now->judge()))
        return bad;
    for (unsigned t = 0; t < SIM_THREADS; t++)
        if (sim_now->any_end || (sim_now->thread[t] && sim_killed(t)))
            return NULL;
    uint64_t state = end_state();
    if (sim_set_has(judged, state))
        return NULL;
    if ((bad = validate()) || (bad = balance(true)) || (bad = give_back()) || (bad = validate()) ||
        (bad = balance(false)))
        return bad;
    if (reports())
        return "a report of the bad hook";
    sim_set_add(judged, state);
    return NULL;
}

void sim_oracle_reset(void)
{
    for (unsigned i = 0; i < SIM_ACTORS; i++)
        work[i].active = work[i].asks = false;
}

void sim_oracle_load(void)
{
    nr_blocks = (uint32_t)(sim_frames / 512);
    nr_lists = sim_pool->kind == DK_PCP_NONE ? 0 : sim_pool->nr_cpus * DK_PCP_LISTS;
    judged = sim_set_make();
    memset(work, 0, sizeof(work));
    sim_on_change = on_change;
    if (nr_blocks > MOST_BLOCKS || nr_lists > MOST_LISTS) {
        fprintf(stderr, "case %s: too large for the oracle\n", sim_now->name);
        exit(2);
    }
}

void sim_oracle_unload(void)
{
    sim_on_change = NULL;
    sim_set_free(judged);
    judged = NULL;
}
