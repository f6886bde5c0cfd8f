/* SPDX-License-Identifier: MIT */
/*
 * Caches as arrays of atomic cells: for shared pools, kernels, 32-bit machines, and wherever
 * restartable sequences are missing. Anybody may push to and pop from anybody's list at any time,
 * an NMI too; the per-CPU hint only makes it likely that nobody else does.
 *
 * A cell is {frame, client, phase, full}. A pop is a CAS full -> empty on one cell, a push a CAS
 * empty -> full; either is complete with its CAS. There is no other agreement: cells are
 * independent of each other, so a frame is in exactly one cell or in one pair of hands, and an ABA
 * on a cell is harmless (a CAS that finds the value it expects takes the frame it saw, or fills a
 * cell that is empty).
 *
 * The hint (lh->head) is where the top of the stack should be. It is stored without order after
 * each operation and may be wrong: two threads of one CPU may have been interleaved, or the thread
 * has migrated. Too high, and pop looks downwards: a few cells in the fast path, all in
 * dk_cells_pop_bulk. Too low, and full cells lie at or above it: push passes over them and takes
 * the hint along; until then they are reached by drains.
 *
 * Emptiness. A list may only be reported empty if every completed push has been popped (contract
 * rule 6), and nobody wants to read all cells for that. So there is a word above the cells, with
 * the protocol of an index word (index.c): lh->live = {LIVE, CLEAR, version}.
 *   Push: CAS the cell, then load `live`. LIVE without CLEAR: done. Else CAS {LIVE, version + 1}.
 *   Drain: CAS {LIVE, CLEAR, version + 1}; look at all cells and take what is full; CAS that exact
 *   word to {0, same version}. If that fails, a push came, or another drain: start again.
 * With LIVE clear all completed pushes have been popped. Consider a push that found LIVE without
 * CLEAR: its load precedes the drain's mark in the single order of seq_cst operations, so its cell
 * CAS does, and the drain's look at the cell, which follows the mark, finds it full and takes it,
 * or popped. A push that found CLEAR or no LIVE has changed the word by the time it completes, and
 * the drain's last CAS fails. Equal versions and no LIVE at two moments mean that the list was
 * empty in between: setting LIVE advances the version. (It has 30 bits; that many pushes into a
 * list that was just emptied would have to happen between the two readings.)
 *
 * Closing. The closer sets `high` to 0 and then drains by force, marking lists that are not LIVE as
 * well. A push that had read the old high either completes before the mark, and is found, or meets
 * a `live` that is not plainly LIVE; then it reads high again, and if that is 0 takes its frame
 * back. No push completes after the closer is done.
 *
 * Statistics. The phase counts the pushes of its cell. When it wraps, the push adds what it stood
 * for to `adjust`: pushes of the list = adjust + sum of phases, exact when quiet, at the price of
 * one addition in 2^15 pushes (2^9 on 32-bit machines). Pops follow: pushes - held.
 */
#include "core/pcp_internal.h"

#define PHASES ((uint32_t)1 << DK_CELL_PHASE_BITS)

/* Take a frame out of a cell whose value was read as *cell; false: it is empty now. */
static bool empty_cell(dk_aword *at, dk_word *cell)
{
    while (*cell & DK_CELL_FULL) {
        if (dk_cas(at, cell, dk_cell_emptied(*cell)))
            return true;
    }
    return false;
}

/* Make the list live after a push into it. false: it is closed. */
static bool announce(struct dk_pcp_list_head *lh)
{
    uint32_t live = dk_a32_load_seq(&lh->live);
    while ((live & (DK_LIVE | DK_LIVE_CLEAR)) != DK_LIVE) {
        if (!(dk_a32_load_seq(&lh->high) & DK_HIGH_ENTRIES))
            return false;
        uint32_t set = ((live & ~(DK_LIVE | DK_LIVE_CLEAR)) | DK_LIVE) + DK_LIVE_VERSION;
        if (dk_a32_cas(&lh->live, &live, set))
            return true;
    }
    return true;
}

bool dk_cells_push_ends(struct dk_pcp_list_head *lh, dk_aword *cell, dk_word filled)
{
    if (!(filled & DK_CELL_PHASE))
        dk_counter_add(&lh->adjust, PHASES);
    if (announce(lh))
        return true;
    /* If the cell has changed somebody has popped the frame: the push took place. */
    if (!dk_cas(cell, &filled, dk_cell_emptied(filled)))
        return true;
    dk_counter_add(&lh->refilled, 1);
    dk_counter_add(&lh->drained, 1);
    return false;
}

static inline bool pushed(struct dk_pcp_list_head *lh, dk_aword *cell, dk_word filled)
{
    if (dk_likely(filled & DK_CELL_PHASE) &&
        dk_likely((dk_a32_load_seq(&lh->live) & (DK_LIVE | DK_LIVE_CLEAR)) == DK_LIVE))
        return true;
    return dk_cells_push_ends(lh, cell, filled);
}

/* ---- the fast paths -------------------------------------------------------------------------- */

uint32_t dk_cells_pop(const struct deckle *d, uint32_t zone, unsigned list)
{
    uint32_t cpu = dk_pcp_cpu(d);
    if (dk_unlikely(cpu >= d->nr_cpus))
        return DK_NONE;
    struct dk_pcp_list_head *lh = dk_pcp_head(d, dk_set(d, zone, cpu), list);
    dk_aword *cells = dk_pcp_slots(lh);
    dk_word top = dk_load_relaxed(&lh->head);
    if (dk_unlikely(top > d->slot_cap[list]))
        top = d->slot_cap[list];
    for (unsigned probe = 0; probe < DK_CELL_PROBES && top; probe++) {
        dk_word cell = dk_load_relaxed(&cells[--top]);
        if (dk_likely(cell & DK_CELL_FULL) &&
            dk_likely(dk_cas(&cells[top], &cell, dk_cell_emptied(cell)))) {
            dk_store_relaxed(&lh->head, top);
            return dk_cell_frame(cell);
        }
    }
    return DK_NONE;
}

bool dk_cells_push(const struct deckle *d, uint32_t zone, unsigned list, uint32_t fi)
{
    uint32_t cpu = dk_pcp_cpu(d);
    if (dk_unlikely(cpu >= d->nr_cpus))
        return false;
    struct dk_pcp_list_head *lh = dk_pcp_head(d, dk_set(d, zone, cpu), list);
    dk_aword *cells = dk_pcp_slots(lh);
    dk_word high = dk_a32_load_relaxed(&lh->high) & DK_HIGH_ENTRIES;
    dk_word top = dk_load_relaxed(&lh->head);
    if (dk_unlikely(high > d->slot_cap[list]))
        high = d->slot_cap[list];
    for (unsigned probe = 0; probe < DK_CELL_PROBES && top < high; probe++, top++) {
        dk_word cell = dk_load_relaxed(&cells[top]);
        dk_word filled = dk_cell_filled(cell, fi);
        if (dk_likely(!(cell & DK_CELL_FULL)) && dk_likely(dk_cas(&cells[top], &cell, filled))) {
            dk_store_relaxed(&lh->head, top + 1);
            return pushed(lh, &cells[top], filled);
        }
    }
    return false;
}

/* ---- bulk ------------------------------------------------------------------------------------ */

unsigned dk_cells_pop_bulk(struct deckle *d, uint32_t zone, unsigned list,
                           uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh)
{
    uint32_t cpu = dk_pcp_cpu(d);
    if (cpu >= d->nr_cpus)
        return 0;
    struct dk_pcp_set *set = dk_set(d, zone, cpu);
    struct dk_pcp_list_head *head = dk_pcp_head(d, set, list);
    dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, set, list));
    dk_word top = dk_load_relaxed(&head->head), from = top;
    unsigned got = 0;

    if (top > d->slot_cap[list])
        top = d->slot_cap[list];
    while (got < n && top) {
        dk_word cell = dk_load_relaxed(&cells[--top]);
        if (empty_cell(&cells[top], &cell))
            fis[got++] = dk_cell_frame(cell);
    }
    if (top != from)
        dk_store_relaxed(&head->head, top);
    *lh = head;
    return got;
}

unsigned dk_cells_push_bulk(struct deckle *d, uint32_t zone, unsigned list,
                            const uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh)
{
    uint32_t cpu = dk_pcp_cpu(d);
    if (cpu >= d->nr_cpus)
        return 0;
    struct dk_pcp_set *set = dk_set(d, zone, cpu);
    struct dk_pcp_list_head *head = dk_pcp_head(d, set, list);
    dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, set, list));
    dk_word top = dk_load_relaxed(&head->head), from = top, high = dk_pcp_high(head);
    unsigned put = 0;

    if (high > d->slot_cap[list])
        high = d->slot_cap[list];
    for (; put < n && top < high; top++) {
        dk_word cell = dk_load_relaxed(&cells[top]);
        dk_word filled = dk_cell_filled(cell, fis[put]);
        if ((cell & DK_CELL_FULL) || !dk_cas(&cells[top], &cell, filled))
            continue;
        if (!pushed(head, &cells[top], filled))
            break;
        put++;
    }
    if (top != from)
        dk_store_relaxed(&head->head, top);
    *lh = head;
    return put;
}

/* ---- drains ---------------------------------------------------------------------------------- */

/* Take everything. */
static void sweep(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned list,
                  uint64_t *moved)
{
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, set, list));
    unsigned order = dk_list_order(list), n = 0;
    uint32_t fis[DK_REFILL_MAX];

    for (uint32_t i = 0; i < d->slot_cap[list]; i++) {
        dk_word cell = dk_load_seq(&cells[i]);
        if (empty_cell(&cells[i], &cell))
            fis[n++] = dk_cell_frame(cell);
        if (n && (n == dk_pcp_step(order) || i + 1 == d->slot_cap[list])) {
            dk_counter_add(&lh->drained, n);
            dk_pcp_give(d, zone, list, fis, n);
            *moved += (uint64_t)n << order;
            n = 0;
        }
    }
}

static int drain_list(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned list,
                      bool force, uint64_t *moved)
{
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);

    for (unsigned round = 0; round < DK_PCP_ROUNDS; round++) {
        uint32_t live = dk_a32_load_seq(&lh->live);
        if (!(live & DK_LIVE) && !force)
            return DECKLE_OK;
        dk_counter_add(round ? &d->sb->drain_retries : &d->sb->remote_drains, 1);
        uint32_t mark = (live | DK_LIVE | DK_LIVE_CLEAR) + DK_LIVE_VERSION;
        if (!dk_a32_cas(&lh->live, &live, mark))
            continue;
        sweep(d, zone, set, list, moved);
        if (dk_a32_cas(&lh->live, &mark, mark & ~(DK_LIVE | DK_LIVE_CLEAR))) {
            dk_store_relaxed(&lh->head, 0);
            return DECKLE_OK;
        }
    }
    return DECKLE_ECONTENDED;
}

int dk_cells_drain(struct deckle *d, struct dk_zone *zone, uint32_t cpu, uint64_t lists, bool force,
                   uint64_t *moved)
{
    struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
    int result = DECKLE_OK;

    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        if (lists >> list & 1) {
            int r = drain_list(d, zone, set, list, force, moved);
            if (r)
                result = r;
        }
    }
    return result;
}

/* ---- looking --------------------------------------------------------------------------------- */

uint64_t dk_cells_version(const struct dk_pcp_list_head *lh, uint32_t *held)
{
    uint32_t live = dk_a32_load_seq(&lh->live);
    uint32_t top = dk_pcp_count_racy(lh);
    *held = !(live & DK_LIVE) ? 0 : top ? top : 1;
    return live / DK_LIVE_VERSION;
}

void dk_cells_stat(const struct deckle *d, const struct dk_pcp_set *set, unsigned list,
                   struct dk_pcp_list_stat *out)
{
    const struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    const dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, set, list));
    uint64_t pushes = dk_counter_read(&lh->adjust);

    out->held = 0;
    for (uint32_t i = 0; i < d->slot_cap[list]; i++) {
        dk_word cell = dk_load_acquire(&cells[i]);
        out->held += cell >> (DK_WORD_BITS - 1);
        pushes += (cell & DK_CELL_PHASE) >> DK_CELL_PHASE_SHIFT;
    }
    out->pops = pushes - out->held - dk_counter_read(&lh->drained);
    out->pushes = pushes - dk_counter_read(&lh->refilled);
}
