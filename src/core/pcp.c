/* SPDX-License-Identifier: MIT */
/*
 * Per-CPU caches: the entry points behind the fast paths, the same for both kinds. Which list an
 * entry is in, what an emptied list means and what is counted is settled in pcp_rseq.c and
 * pcp_cells.c; sizes in pcp_tune.c.
 */
#include "core/pcp_internal.h"

#include "core/ablation.h"
#include "core/check.h"

/* ---- either kind ----------------------------------------------------------------------------- */

unsigned dk_pcp_take(struct deckle *d, uint32_t zone, unsigned list, uint32_t *fis, unsigned n,
                     struct dk_pcp_list_head **lh)
{
#ifdef DK_HAVE_RSEQ
    if (d->kind == DK_PCP_RSEQ)
        return dk_stack_pop_bulk(d, zone, list, fis, n, lh);
#endif
    return d->kind == DK_PCP_CELLS ? dk_cells_pop_bulk(d, zone, list, fis, n, lh) : 0;
}

unsigned dk_pcp_put(struct deckle *d, uint32_t zone, unsigned list, const uint32_t *fis, unsigned n,
                    struct dk_pcp_list_head **lh)
{
#ifdef DK_HAVE_RSEQ
    if (d->kind == DK_PCP_RSEQ)
        return dk_stack_push_bulk(d, zone, list, fis, n, lh);
#endif
    return d->kind == DK_PCP_CELLS ? dk_cells_push_bulk(d, zone, list, fis, n, lh) : 0;
}

static int drain(struct deckle *d, struct dk_zone *zone, uint32_t cpu, bool force, uint64_t *moved)
{
#ifdef DK_HAVE_RSEQ
    if (d->kind == DK_PCP_RSEQ)
        return dk_stack_drain(d, zone, cpu, DK_ALL_LISTS, force, moved);
#endif
    if (d->kind == DK_PCP_CELLS)
        return dk_cells_drain(d, zone, cpu, DK_ALL_LISTS, force, moved);
    return DECKLE_OK;
}

/* Checks put off until frames enter (in) or leave the caches; see ablation.h. */
static void check_moved(struct deckle *d, unsigned list, const uint32_t *fis, unsigned n, bool in)
{
    uint8_t given = dk_state_make(dk_list_order(list), list % DK_PCP_TYPES, false);

    for (unsigned i = 0; i < n; i++) {
        dk_a8 *state = &d->state[fis[i]];
        if (dk_a8_load_relaxed(state) != (in ? 0 : given))
            dk_bad_state(d, fis[i], dk_list_order(list));
        dk_a8_store_relaxed(state, in ? given : 0);
    }
}

void dk_pcp_give(struct deckle *d, struct dk_zone *zone, unsigned list, const uint32_t *fis,
                 unsigned n)
{
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    unsigned order = dk_list_order(list);

    if (DK_CHECKS == DK_CHECKS_DEFERRED)
        check_moved(d, list, fis, n, false);
    dk_counter_add(&set->drains, 1);
    dk_counter_add(&set->drain_frames, n << order);
    dk_zone_give(d, zone, set, order, fis, n);
}

unsigned dk_pcp_drain_own(struct deckle *d, struct dk_zone *zone, unsigned list, unsigned n)
{
    unsigned step = dk_pcp_step(dk_list_order(list)), total = 0;
    struct dk_pcp_list_head *lh;
    uint32_t fis[DK_REFILL_MAX];

    while (total < n) {
        unsigned ask = n - total < step ? n - total : step;
        unsigned got = dk_pcp_take(d, zone->number, list, fis, ask, &lh);
        if (!got)
            break;
        if (d->kind == DK_PCP_RSEQ)
            dk_counter_add(&lh->adjust, got);
        dk_counter_add(&lh->drained, got);
        dk_pcp_give(d, zone, list, fis, got);
        total += got;
        if (got < ask)
            break;
    }
    return total;
}

/* ---- allocation and free --------------------------------------------------------------------- */

unsigned dk_pcp_pop_bulk(struct deckle *d, uint32_t zone, unsigned list, uint32_t *fis, unsigned n)
{
    struct dk_pcp_list_head *lh;
    unsigned total = 0;

    while (total < n) {
        unsigned ask = n - total < DK_REFILL_MAX ? n - total : DK_REFILL_MAX;
        unsigned got = dk_pcp_take(d, zone, list, fis + total, ask, &lh);
        total += got;
        if (got < ask)
            break;
    }
    return total;
}

unsigned dk_pcp_push_bulk(struct deckle *d, uint32_t zone, unsigned list, const uint32_t *fis,
                          unsigned n)
{
    struct dk_pcp_list_head *lh;
    unsigned total = 0;

    while (total < n) {
        unsigned ask = n - total < DK_REFILL_MAX ? n - total : DK_REFILL_MAX;
        unsigned put = dk_pcp_put(d, zone, list, fis + total, ask, &lh);
        total += put;
        if (put < ask)
            break;
    }
    return total;
}

void dk_pcp_free_slow(struct deckle *d, struct dk_zone *zone, unsigned list, uint32_t fi)
{
    struct dk_pcp_list_head *lh;
    unsigned order = dk_list_order(list);

    if (dk_pcp_make_room(d, zone, dk_pcp_cpu(d), list) &&
        dk_pcp_put(d, zone->number, list, &fi, 1, &lh))
        return;
    dk_counter_add(&dk_stat_set(d, zone->number)->direct_frees[order], 1);
    dk_pcp_give(d, zone, list, &fi, 1);
}

void dk_pcp_put_surplus(struct deckle *d, struct dk_zone *zone, unsigned list, const uint32_t *fis,
                        unsigned n)
{
    struct dk_pcp_list_head *lh = NULL;
    uint32_t turned[DK_REFILL_MAX];
    unsigned put = 0;

    if (!n)
        return;
    if (DK_CHECKS == DK_CHECKS_DEFERRED)
        check_moved(d, list, fis, n, true);
    for (unsigned i = 0; i < n; i++)
        turned[i] = fis[n - 1 - i];
    put = dk_pcp_put(d, zone->number, list, turned, n, &lh);
    if (put) {
        dk_counter_add(&lh->refilled, put);
        dk_pcp_mark_seen(d, lh);
    }
    if (put < n)
        dk_pcp_give(d, zone, list, fis, n - put);
}

/* ---- drains ---------------------------------------------------------------------------------- */

int dk_pcp_drain_cpu(struct deckle *d, struct dk_zone *zone, uint32_t cpu, uint64_t *moved)
{
    uint64_t frames = 0;

    /* What this CPU has it can take without stopping anybody. */
    if (cpu == dk_pcp_cpu(d)) {
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            unsigned n = dk_pcp_drain_own(d, zone, list, d->slot_cap[list]);
            frames += (uint64_t)n << dk_list_order(list);
        }
    }
    int r = drain(d, zone, cpu, false, &frames);
    if (moved)
        *moved += frames;
    return r;
}

int dk_pcp_drain_zone(struct deckle *d, struct dk_zone *zone, uint64_t *moved)
{
    int result = DECKLE_OK;

    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        int r = dk_pcp_drain_cpu(d, zone, cpu, moved);
        if (r)
            result = r;
    }
    return result;
}

void dk_pcp_close(struct deckle *d, struct dk_zone *zone)
{
    uint64_t moved = 0;

    dk_a32_add_relaxed(&zone->stopped, 1);
    dk_fence_seq();
    if (d->kind == DK_PCP_NONE)
        return;
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        for (unsigned list = 0; list < DK_PCP_LISTS; list++)
            dk_pcp_shut_list(d, dk_set(d, zone->number, cpu), list);
    }
    /* Pops only help; so all that can disturb is another drain, which empties the lists as well. */
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        unsigned tries = 0;
        while (drain(d, zone, cpu, true, &moved) == DECKLE_ECONTENDED && tries++ < DK_PCP_TRIES)
            continue;
    }
}

void dk_pcp_open(struct deckle *d, struct dk_zone *zone)
{
    if (dk_a32_add_relaxed(&zone->stopped, (uint32_t)-1) != 1 || d->kind == DK_PCP_NONE)
        return;
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
        dk_pcp_rest_set(d, zone, dk_set(d, zone->number, cpu));
}

/* ---- looking --------------------------------------------------------------------------------- */

uint64_t dk_pcp_versions(const struct deckle *d, const struct dk_zone *zone, uint64_t *cached)
{
    uint64_t sum = 0;

    *cached = 0;
    if (d->kind == DK_PCP_NONE)
        return 0;
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            uint32_t held;
#ifdef DK_HAVE_RSEQ
            if (d->kind == DK_PCP_RSEQ)
                sum += dk_stack_version(dk_pcp_head(d, set, list), &held);
            else
#endif
                sum += dk_cells_version(dk_pcp_head(d, set, list), &held);
            *cached += (uint64_t)held << dk_list_order(list);
        }
    }
    return sum;
}

/* One line a list, and little else: requests that must cost nothing come through here. */
static bool list_empty(const struct dk_pcp_list_head *lh, bool cells, uint64_t *version)
{
#ifdef DK_HAVE_RSEQ
    if (!cells) {
        dk_word head = dk_load_seq(&lh->head);
        *version += dk_rseq_pops(head);
        return !dk_rseq_index(head);
    }
#endif
    (void)cells;
    uint32_t live = dk_a32_load_seq(&lh->live);
    *version += live / DK_LIVE_VERSION;
    return !(live & DK_LIVE);
}

bool dk_pcp_lists_empty(const struct deckle *d, const struct dk_zone *zone, unsigned order,
                        uint64_t *version)
{
    bool cells = d->kind == DK_PCP_CELLS, empty = true;
    uint64_t sum = 0;

    if (d->kind == DK_PCP_NONE || order > DK_PCP_MAX_ORDER)
        return true;
    for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
        for (unsigned list = order * DK_PCP_TYPES; list < DK_PCP_LISTS; list++)
            empty &= list_empty(dk_pcp_head(d, set, list), cells, &sum);
    }
    *version += sum;
    return empty;
}

void dk_pcp_list_stat(const struct deckle *d, uint32_t zone, uint32_t cpu, unsigned list,
                      struct dk_pcp_list_stat *out)
{
    const struct dk_pcp_set *set = dk_set(d, zone, cpu);

    *out = (struct dk_pcp_list_stat){0};
    out->high = dk_pcp_high(dk_pcp_head(d, set, list));
    out->capacity = d->slot_cap[list];
#ifdef DK_HAVE_RSEQ
    if (d->kind == DK_PCP_RSEQ)
        dk_stack_stat(dk_pcp_head(d, set, list), out);
#endif
    if (d->kind == DK_PCP_CELLS)
        dk_cells_stat(d, set, list, out);
}

void dk_pcp_for_each(const struct deckle *d, const struct dk_zone *zone,
                     void (*fn)(void *ctx, uint32_t fi, unsigned order), void *ctx)
{
    for (uint32_t cpu = 0; cpu < d->nr_cpus && d->kind != DK_PCP_NONE; cpu++) {
        const struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            const void *slots = dk_pcp_slots(dk_pcp_head(d, set, list));
            uint32_t held = dk_pcp_count_racy(d, dk_pcp_head(d, set, list));
            unsigned order = dk_list_order(list);
            if (d->kind == DK_PCP_RSEQ) {
                for (uint32_t i = 0; i < held && i < d->slot_cap[list]; i++)
                    fn(ctx, dk_a32_load_relaxed((const dk_a32 *)slots + i), order);
                continue;
            }
            for (uint32_t i = 0; i < d->slot_cap[list]; i++) {
                dk_word cell = dk_load_relaxed((const dk_aword *)slots + i);
                if (cell & DK_CELL_FULL)
                    fn(ctx, dk_cell_frame(cell), order);
            }
        }
    }
}
