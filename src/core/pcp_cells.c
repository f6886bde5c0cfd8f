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
 * The hint (lh->head) says where the top of the stack should be and what the cell used last was
 * left with. It is stored without order after each operation and may be wrong: two threads of one
 * CPU may have been interleaved, or the thread has migrated. A wrong value makes a CAS fail, which
 * says the right one. A top too high: pop looks downwards, a few cells in the fast path, all in
 * dk_cells_pop_bulk. Too low: full cells lie at or above it; push passes over them and takes the
 * hint along, and until then drains reach them.
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
 * Shared pools. A cell says whose frame it holds. A client pops its own cells only and passes over
 * others; a drain takes over others' as well (pcp_steal.c). A cell in transit counts as emptied:
 * its frame is in the hands of who takes it over.
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

/* What the cell holds: as the hint has it, if it is about this cell, else read. */
DK_INLINE dk_word cell_value(dk_word hint, const dk_aword *cells, uint32_t nr)
{
#if DK_WORD_BITS == 64
    if (dk_likely((hint >> DK_HINT_SHIFT & DK_HINT_NR) == nr))
        return hint & ~((dk_word)DK_HINT_NR << DK_HINT_SHIFT);
#endif
    (void)hint;
    return dk_load_relaxed(&cells[nr]);
}

/* The same for the cell below the top, which a pop believes full and its client's own: the hint
 * does not say whose it is, so that is put in, and if it is wrong the CAS finds out. false: it is
 * not to be popped. */
DK_INLINE bool own_cell(dk_word hint, const dk_aword *cells, uint32_t nr, dk_word mine,
                        dk_word *cell)
{
#if DK_WORD_BITS == 64
    if (dk_likely((hint >> DK_HINT_SHIFT & DK_HINT_NR) == nr)) {
        *cell = (hint & ~((dk_word)DK_HINT_NR << DK_HINT_SHIFT)) | mine;
        return true;
    }
#endif
    (void)hint;
    *cell = dk_load_relaxed(&cells[nr]);
    return dk_cell_is(*cell, mine);
}

/* Take the frame out of a cell that is believed to hold *cell; false: it is empty, or another
 * client's. */
DK_INLINE bool empty_cell(dk_aword *at, dk_word *cell, dk_word mine)
{
    while (dk_likely(dk_cell_is(*cell, mine))) {
        if (dk_likely(dk_cas(at, cell, dk_cell_emptied(*cell))))
            return true;
    }
    return false;
}

/* Put a frame and its client into a cell that is believed to hold *cell, then what it holds; false:
 * it is full. */
DK_INLINE bool fill_cell(dk_aword *at, dk_word *cell, dk_word what)
{
    while (dk_likely(!(*cell & DK_CELL_FULL))) {
        dk_word filled = dk_cell_filled_with(*cell, what);
        if (dk_likely(dk_cas(at, cell, filled))) {
            *cell = filled;
            return true;
        }
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

/* The cell at the hint was not as expected: look at a few. */
static DK_NOINLINE uint32_t pop_near(struct dk_pcp_list_head *lh, uint32_t top, dk_word mine)
{
    dk_aword *cells = dk_pcp_slots(lh);
    for (unsigned probe = 0; probe < DK_CELL_PROBES && top; probe++) {
        dk_word cell = dk_load_relaxed(&cells[--top]);
        if (empty_cell(&cells[top], &cell, mine)) {
            dk_store_relaxed(&lh->head, dk_hint_make(top, dk_cell_emptied(cell)));
            return dk_cell_frame(cell);
        }
    }
    return DK_NONE;
}

static DK_NOINLINE bool push_near(struct dk_pcp_list_head *lh, uint32_t top, uint32_t high,
                                  dk_word what)
{
    dk_aword *cells = dk_pcp_slots(lh);
    for (unsigned probe = 0; probe < DK_CELL_PROBES && top < high; probe++, top++) {
        dk_word cell = dk_load_relaxed(&cells[top]);
        if (fill_cell(&cells[top], &cell, what)) {
            dk_store_relaxed(&lh->head, dk_hint_make(top, cell));
            return pushed(lh, &cells[top], cell);
        }
    }
    return false;
}

DK_INLINE uint32_t pop_on(const struct deckle *d, uint32_t zone, unsigned list, uint32_t cpu)
{
    if (dk_unlikely(cpu >= d->nr_cpus))
        return DK_NONE;
    struct dk_pcp_list_head *lh = dk_pcp_head(d, dk_set(d, zone, cpu), list);
    dk_aword *cells = dk_pcp_slots(lh);
    dk_word hint = dk_load_relaxed(&lh->head);
    uint32_t top = dk_hint_top(hint);
    if (dk_unlikely(top > d->slot_cap[list]))
        top = d->slot_cap[list];
    if (dk_unlikely(!top))
        return DK_NONE;
    dk_word mine = d->cell_mine, cell;
    if (dk_unlikely(!own_cell(hint, cells, top - 1, mine, &cell)))
        return pop_near(lh, top, mine);
    dk_word emptied = dk_cell_emptied(cell);
    if (dk_unlikely(!dk_cas(&cells[top - 1], &cell, emptied)))
        return pop_near(lh, top, mine);
    dk_store_relaxed(&lh->head, dk_hint_make(top - 1, emptied));
    return dk_cell_frame(cell);
}

DK_INLINE bool push_on(const struct deckle *d, uint32_t zone, unsigned list, uint32_t fi,
                       uint32_t cpu)
{
    if (dk_unlikely(cpu >= d->nr_cpus))
        return false;
    struct dk_pcp_list_head *lh = dk_pcp_head(d, dk_set(d, zone, cpu), list);
    dk_aword *cells = dk_pcp_slots(lh);
    uint32_t high = dk_pcp_high(lh);
    dk_word hint = dk_load_relaxed(&lh->head), what = d->cell_mine | fi;
    uint32_t top = dk_hint_top(hint);
    if (dk_unlikely(high > d->slot_cap[list]))
        high = d->slot_cap[list];
    if (dk_unlikely(top >= high))
        return false;
    dk_word cell = cell_value(hint, cells, top), filled = dk_cell_filled_with(cell, what);
    if (dk_unlikely((cell & DK_CELL_FULL) || !dk_cas(&cells[top], &cell, filled)))
        return push_near(lh, top, high, what);
    dk_store_relaxed(&lh->head, dk_hint_make(top, filled));
    return pushed(lh, &cells[top], filled);
}

/* Where the CPU must be asked of the host; apart, because a call costs the others their registers
 * and with them stores that the next locked operation waits for. */
static DK_NOINLINE uint32_t pop_asking(const struct deckle *d, uint32_t zone, unsigned list)
{
    return pop_on(d, zone, list, dk_pcp_cpu(d));
}

static DK_NOINLINE bool push_asking(const struct deckle *d, uint32_t zone, unsigned list,
                                    uint32_t fi)
{
    return push_on(d, zone, list, fi, dk_pcp_cpu(d));
}

uint32_t dk_cells_pop(const struct deckle *d, uint32_t zone, unsigned list)
{
    uint32_t cpu = dk_pcp_known_cpu(d);
    return dk_likely(cpu != DK_NONE) ? pop_on(d, zone, list, cpu) : pop_asking(d, zone, list);
}

bool dk_cells_push(const struct deckle *d, uint32_t zone, unsigned list, uint32_t fi)
{
    uint32_t cpu = dk_pcp_known_cpu(d);
    return dk_likely(cpu != DK_NONE) ? push_on(d, zone, list, fi, cpu)
                                     : push_asking(d, zone, list, fi);
}

/* ---- bulk ------------------------------------------------------------------------------------ */

unsigned dk_cells_pop_bulk(struct deckle *d, uint32_t zone, unsigned list,
                           uint32_t *fis, unsigned n, struct dk_pcp_list_head **own)
{
    uint32_t cpu = dk_pcp_cpu(d);
    if (cpu >= d->nr_cpus)
        return 0;
    struct dk_pcp_list_head *lh = dk_pcp_head(d, dk_set(d, zone, cpu), list);
    dk_aword *cells = dk_pcp_slots(lh);
    uint32_t top = dk_hint_top(dk_load_relaxed(&lh->head));
    unsigned got = 0;

    if (top > d->slot_cap[list])
        top = d->slot_cap[list];
    while (got < n && top) {
        dk_word cell = dk_load_relaxed(&cells[--top]);
        if (empty_cell(&cells[top], &cell, d->cell_mine))
            fis[got++] = dk_cell_frame(cell);
        if (got == n || !top)
            dk_store_relaxed(&lh->head, dk_hint_make(top, dk_cell_emptied(cell)));
    }
    *own = lh;
    return got;
}

unsigned dk_cells_push_bulk(struct deckle *d, uint32_t zone, unsigned list,
                            const uint32_t *fis, unsigned n, struct dk_pcp_list_head **own)
{
    uint32_t cpu = dk_pcp_cpu(d);
    if (cpu >= d->nr_cpus)
        return 0;
    struct dk_pcp_list_head *lh = dk_pcp_head(d, dk_set(d, zone, cpu), list);
    dk_aword *cells = dk_pcp_slots(lh);
    uint32_t top = dk_hint_top(dk_load_relaxed(&lh->head)), high = dk_pcp_high(lh);
    unsigned put = 0;

    if (high > d->slot_cap[list])
        high = d->slot_cap[list];
    for (; put < n && top < high; top++) {
        dk_word cell = dk_load_relaxed(&cells[top]);
        bool filled = fill_cell(&cells[top], &cell, d->cell_mine | fis[put]);
        if (filled && !pushed(lh, &cells[top], cell))
            break;
        put += filled;
        if (put == n || top + 1 == high)
            dk_store_relaxed(&lh->head, dk_hint_make(top, cell));
    }
    *own = lh;
    return put;
}

/* ---- drains ---------------------------------------------------------------------------------- */

/* Take everything. false: something is left that another client has. */
static bool sweep(struct deckle *d, struct dk_zone *zone, struct dk_pcp_set *set, unsigned list,
                  uint64_t *moved)
{
    struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
    dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, set, list));
    unsigned order = dk_list_order(list), n = 0;
    uint32_t fis[DK_REFILL_MAX];
    bool all = true;

    for (uint32_t i = 0; i < d->slot_cap[list]; i++) {
        dk_word cell = dk_load_seq(&cells[i]);
        if (empty_cell(&cells[i], &cell, d->cell_mine))
            fis[n++] = dk_cell_frame(cell);
        else if (cell & DK_CELL_FULL)
            all &= dk_cells_steal(d, zone, lh, list, &cells[i], cell, moved);
        if (n && (n == dk_pcp_step(order) || i + 1 == d->slot_cap[list])) {
            dk_counter_add(&lh->drained, n);
            dk_pcp_give(d, zone, list, fis, n);
            *moved += (uint64_t)n << order;
            n = 0;
        }
    }
    return all;
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
        if (!sweep(d, zone, set, list, moved))
            return DECKLE_ECONTENDED;
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
    uint32_t top = dk_hint_top(dk_load_relaxed(&lh->head));
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

static void each_cell_of(const struct deckle *d, const struct dk_zone *zone, uint32_t cpu,
                         void (*fn)(void *ctx, dk_aword *cell, const struct dk_zone *zone,
                                    unsigned list),
                         void *ctx)
{
    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        dk_aword *cells = dk_pcp_slots(dk_pcp_head(d, dk_set(d, zone->number, cpu), list));
        for (uint32_t i = 0; i < d->slot_cap[list]; i++)
            fn(ctx, &cells[i], zone, list);
    }
}

void dk_cells_for_each(const struct deckle *d,
                       void (*fn)(void *ctx, dk_aword *cell, const struct dk_zone *zone,
                                  unsigned list),
                       void *ctx)
{
    for (uint32_t z = 0; z < d->sb->nr_zones && d->kind == DK_PCP_CELLS; z++)
        for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
            each_cell_of(d, &d->zones[z], cpu, fn, ctx);
}
