/* SPDX-License-Identifier: MIT */
/*
 * Caches as per-CPU stacks that are entered by restartable sequences (base/rseq.h), and how another
 * CPU empties them. For pools of one process.
 *
 * The head word H = {index, STOP, pops}. Who changes it, and to what:
 *   pop      {i, p}        -> {i-1, p+1}        owner CPU, plain store that ends a sequence
 *   push     {i, p}        -> {i+1, p}          the same
 *   fold     {i, p}        -> {i, p-2^46}       the same, only if p >= 2^46
 *   stop     sets STOP                          anybody, atomic OR
 *   take n   {i, STOP, p}  -> {i-n, STOP, p+n}  a drainer that is exclusive, CAS
 *   un-stop  {0, STOP, p}  -> {0, p+1}          a drainer that is exclusive, CAS
 * Sequences fail on STOP, so with STOP set and no sequence in flight only drainers change H.
 *
 * A drainer makes itself exclusive: (1) OR STOP into H and remember H1, the value with STOP; (2)
 * membarrier, which restarts every sequence in flight and orders memory with every CPU; (3) read H
 * again. It is exclusive if H == H1, else it starts again, a bounded number of times. Several
 * drainers may be exclusive at once; their CASes arbitrate. (A CAS that expects H1 makes the test
 * by itself; the read saves reading slots for nothing.)
 *
 * Why H == H1 after the membarrier means that no sequence can still commit. Every sequence that was
 * in flight at (2) has committed or been restarted. One that commits stores a value computed from
 * an H that it loaded without STOP, so it removes STOP from H. If H then equals H1 again, somebody
 * has set STOP after that commit, and H has gone through H1 -> (without STOP) -> H1. That is
 * impossible:
 *   A value cannot recur. Pop, take and un-stop raise pops, push leaves pops and raises the index,
 *   STOP alone changes neither: so (pops, index) grows lexicographically, with two reservations.
 *   First, a sequence stores over whatever happened to H since it loaded it. Between its load of
 *   {i, p} and its store, H can only be {i, p} or {i, STOP, p}: take and un-stop need a drainer
 *   that saw {i, STOP, p}, called membarrier and saw it again. That membarrier came after the load
 *   of the sequence (had it come before, the sequence would have loaded a value without STOP in
 *   between, and the drainer, by induction over the changes of H, would not have seen its own value
 *   again), so it restarted the sequence. So a commit undoes at most a STOP. Second, pops has 47
 *   bits and is folded: a value recurs after at least 2^46 pops of one list, while one drainer
 *   stands between (1) and (3) or before its CAS.
 * The argument needs all three parts: a drainer that meets STOP set by another one must call
 * membarrier itself and compare itself (the other may not have come to (2) yet); a plain store by a
 * drainer, or an un-stop that leaves pops alone, would let a stalled drainer's CAS succeed on a
 * list that has been opened and stopped again.
 *
 * Taking: the drainer reads n slots, then CASes H1 -> {i-n, STOP, p+n}. Slots below the index are
 * written only by pushes, and none can commit while H == H1, so a CAS that succeeds took what it
 * read. (A sequence that will be restarted may write slots at or above the index; those are free.)
 * Ordering: the pusher's slot store precedes its commit on its CPU, and the membarrier orders both
 * before (3).
 *
 * What a stopped thread withholds. A drainer stopped with STOP set withholds nothing: whoever needs
 * the frames makes himself exclusive and takes them. A drainer holds at most one step (dk_pcp_step)
 * in its hands, which it gives to the shared level before it takes more. The owner CPU never waits:
 * it meets STOP and goes to the shared level. Nor is a list left stopped for ever: of the drainers
 * whose rounds fail, the one whose change of H was the last is exclusive with the value it wrote
 * and continues. Only a membarrier hook that fails leaves STOP behind, until a later drain: nothing
 * but a membarrier can tell that the list may be opened.
 *
 * An empty list without STOP is left alone: its head, read once, says that it was empty then, and
 * costs no membarrier. A caller that needs more (no push may complete after it returns: closed
 * zones) sets `high` to 0 and forces the stop; sequences that had read the old `high` end with the
 * membarrier.
 *
 * Statistics cost the fast path nothing. pops counts all pops; `adjust` counts those that were
 * drains or un-stops, less what was folded or wrapped, so blocks popped by allocations = pops -
 * adjust (mod 2^64). Conservation gives the rest: pushes by frees = allocations + drained + held -
 * refilled.
 */
#include "core/pcp_internal.h"

#ifdef DK_HAVE_RSEQ

/* Pops that do not fit the head's count. */
#define POPS_LIMIT ((uint64_t)1 << 47)

/* This CPU's list fails pops for want of room in its count: count some of them elsewhere. */
static bool fold(const struct dk_rseq_at *at)
{
    struct dk_rseq_stack *own;
    enum dk_rseq_result r = DK_RSEQ_ABORT;
    for (unsigned tries = 0; r == DK_RSEQ_ABORT && tries < DK_PCP_TRIES; tries++)
        r = dk_rseq_fold(at, &own);
    if (r != DK_RSEQ_DONE)
        return false;
    struct dk_pcp_list_head *lh = (struct dk_pcp_list_head *)own;
    dk_add_relaxed(&lh->adjust.lo, (dk_word)0 - DK_RSEQ_FOLD / DK_RSEQ_POP_ONE);
    return true;
}

unsigned dk_stack_pop_bulk(struct deckle *d, uint32_t zone, unsigned list,
                           uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh)
{
    struct dk_rseq_at at = dk_stack_at(d, zone, list);
    struct dk_rseq_stack *own;
    uint32_t done;
    for (unsigned tries = 0; tries < DK_PCP_TRIES; tries++) {
        enum dk_rseq_result r = dk_rseq_popn(&at, fis, n, &done, &own);
        if (r == DK_RSEQ_DONE) {
            *lh = (struct dk_pcp_list_head *)own;
            return done;
        }
        if (r == DK_RSEQ_FAIL && !fold(&at))
            return 0;
    }
    return 0;
}

unsigned dk_stack_push_bulk(struct deckle *d, uint32_t zone, unsigned list,
                            const uint32_t *fis, unsigned n, struct dk_pcp_list_head **lh)
{
    struct dk_rseq_at at = dk_stack_at(d, zone, list);
    struct dk_rseq_stack *own;
    uint32_t done;
    for (unsigned tries = 0; tries < DK_PCP_TRIES; tries++) {
        enum dk_rseq_result r = dk_rseq_pushn(&at, fis, n, &done, &own);
        if (r == DK_RSEQ_DONE) {
            *lh = (struct dk_pcp_list_head *)own;
            return done;
        }
        if (r == DK_RSEQ_FAIL)
            return 0;
    }
    return 0;
}

/* ---- drains ---------------------------------------------------------------------------------- */

/* Change *head, which has STOP, to this index with STOP or without, and n pops more that were no
 * allocations. What the count of pops cannot hold goes to `adjust`. false: another drainer was
 * faster. */
static bool advance(struct dk_pcp_list_head *lh, dk_word *head, uint32_t index, dk_word stop,
                    uint32_t n)
{
    uint64_t pops = dk_rseq_pops(*head) + n, wrapped = pops & POPS_LIMIT;
    dk_word to = (pops - wrapped) * DK_RSEQ_POP_ONE | stop | index;
    if (!dk_cas(&lh->head, head, to))
        return false;
    *head = to;
    dk_add_relaxed(&lh->adjust.lo, n - wrapped);
    return true;
}

/* One list whose head had STOP and was the same before and after a membarrier: empty it and open
 * it. false: another drainer was faster somewhere. */
static bool drain_exclusive(struct deckle *d, struct dk_zone *zone, struct dk_pcp_list_head *lh,
                            unsigned list, dk_word head, uint64_t *moved)
{
    const dk_a32 *slots = dk_pcp_slots(lh);
    uint32_t fis[DK_REFILL_MAX], index;

    while ((index = dk_rseq_index(head)) != 0) {
        uint32_t n = dk_pcp_step(dk_list_order(list));
        if (n > index)
            n = index;
        for (uint32_t i = 0; i < n; i++)
            fis[i] = dk_a32_load_relaxed(&slots[index - n + i]);
        if (!advance(lh, &head, index - n, DK_RSEQ_STOP, n))
            return false;
        dk_counter_add(&lh->drained, n);
        dk_pcp_give(d, zone, list, fis, n);
        *moved += (uint64_t)n << dk_list_order(list);
    }
    return advance(lh, &head, 0, 0, 1);
}

/* Set STOP on the lists that hold something; seen[list] = the head with STOP. Returns those lists.
 */
static uint64_t stop(const struct deckle *d, struct dk_pcp_set *set, uint64_t lists, bool force,
                     dk_word seen[DK_PCP_LISTS])
{
    uint64_t stopped = 0;
    for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
        struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
        if (!(lists >> list & 1))
            continue;
        dk_word head = dk_load_acquire(&lh->head);
        if (!force && !dk_rseq_index(head) && !dk_rseq_is_stopped(head))
            continue;
        seen[list] = dk_or(&lh->head, DK_RSEQ_STOP) | DK_RSEQ_STOP;
        stopped |= (uint64_t)1 << list;
    }
    return stopped;
}

int dk_stack_drain(struct deckle *d, struct dk_zone *zone, uint32_t cpu, uint64_t lists, bool force,
                   uint64_t *moved)
{
    struct dk_pcp_set *set = dk_set(d, zone->number, cpu);
    dk_word seen[DK_PCP_LISTS];

    for (unsigned round = 0; round < DK_PCP_ROUNDS; round++) {
        lists = stop(d, set, lists, force, seen);
        if (!lists)
            return DECKLE_OK;
        dk_counter_add(round ? &d->sb->drain_retries : &d->sb->remote_drains, 1);
        if (!d->host.membarrier || d->host.membarrier(d->host.ctx))
            return DECKLE_EBACKING;
        for (unsigned list = 0; list < DK_PCP_LISTS; list++) {
            struct dk_pcp_list_head *lh = dk_pcp_head(d, set, list);
            if ((lists >> list & 1) && dk_load_seq(&lh->head) == seen[list] &&
                drain_exclusive(d, zone, lh, list, seen[list], moved))
                lists &= ~((uint64_t)1 << list);
        }
    }
    return lists ? DECKLE_ECONTENDED : DECKLE_OK;
}

/* ---- looking --------------------------------------------------------------------------------- */

uint64_t dk_stack_version(const struct dk_pcp_list_head *lh, uint32_t *held)
{
    dk_word head = dk_load_seq(&lh->head);
    *held = dk_rseq_index(head);
    return dk_rseq_pops(head);
}

void dk_stack_stat(const struct dk_pcp_list_head *lh, struct dk_pcp_list_stat *out)
{
    dk_word head = dk_load_acquire(&lh->head);
    out->held = dk_rseq_index(head);
    out->pops = dk_rseq_pops(head) - dk_counter_read(&lh->adjust);
    out->pushes = out->pops + dk_counter_read(&lh->drained) + out->held -
                  dk_counter_read(&lh->refilled);
}

#endif
