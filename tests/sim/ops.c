/* SPDX-License-Identifier: MIT */
/* What threads and handlers of a case can do. */
#include "case.h"

#include <string.h>

void sim_own(struct sim_actor *a, int64_t pfn, unsigned order)
{
    uint8_t me = (uint8_t)(a - sim_actor + 1);
    if (pfn < 0)
        return;
    if ((uint64_t)pfn + (1ull << order) > sim_frames || (pfn & ((1ll << order) - 1)))
        sim_fail("block %lld of order %u is not one of the pool", (long long)pfn, order);
    if (a->nr_held == SIM_HELD)
        sim_fail("the case needs a larger SIM_HELD");
    for (uint64_t p = (uint64_t)pfn; p < (uint64_t)pfn + (1ull << order); p++) {
        if (sim_owner[p])
            sim_fail("frame %llu of block %lld, order %u, given to %u: owned by %u",
                     (unsigned long long)p, (long long)pfn, order, me, sim_owner[p]);
        sim_owner[p] = me;
    }
    a->held[a->nr_held++] = (struct sim_held){(uint64_t)pfn, order};
}

struct sim_held sim_let_go(struct sim_actor *a, unsigned i)
{
    struct sim_held b = a->held[i];
    memmove(&a->held[i], &a->held[i + 1], (--a->nr_held - i) * sizeof(b));
    memset(sim_owner + b.pfn, 0, 1ull << b.order);
    a->last_freed = b.pfn << 8 | b.order;
    return b;
}

static void free_held(struct sim_actor *a, unsigned i)
{
    struct sim_held b = sim_let_go(a, i);
    sim_work_begin(a);
    a->result = deckle_free(sim_pool, b.pfn, b.order);
    sim_work_end(a, 0);
    if (a->result)
        sim_fail("free of block %llu, order %u, refused: %s", (unsigned long long)b.pfn, b.order,
                 deckle_error_name((int)a->result));
}

SIM_OP(sim_op_alloc)
{
    struct deckle_request r = {.size = sizeof(r), .gfp = (uint32_t)op->b,
                               .order = (uint32_t)op->a, .flags = op->c ? DECKLE_REQ_NO_CACHE : 0,
                               .limit_pfn = op->c > 1 ? op->c : 0};
    sim_ask_begin(a, r.order, r.gfp, r.limit_pfn);
    a->result = op->c ? deckle_alloc_request(sim_pool, &r)
                      : deckle_alloc(sim_pool, r.gfp, r.order);
    sim_own(a, a->result, r.order);
    sim_ask_end(a, a->result);
}

SIM_OP(sim_op_must)
{
    (void)op;
    if (a->result < 0)
        sim_fail("the request should have succeeded: %s", deckle_error_name((int)a->result));
}

SIM_OP(sim_op_free)
{
    if (op->a == 2)
        while (a->nr_held)
            free_held(a, a->nr_held - 1);
    else if (a->nr_held)
        free_held(a, op->a ? 0 : a->nr_held - 1);
}

SIM_OP(sim_op_free_at)
{
    for (unsigned i = 0; i < a->nr_held; i++) {
        if (a->held[i].pfn == op->a && a->held[i].order == op->b) {
            free_held(a, i);
            return;
        }
    }
}

/* Refused if nobody has got the frame meanwhile (contract rule 5). */
SIM_OP(sim_op_free_again)
{
    uint64_t pfn = a->last_freed >> 8;
    unsigned order = a->last_freed & 0xff, before = a->reports;
    (void)op;
    sim_work_begin(a);
    a->result = deckle_free(sim_pool, pfn, order);
    sim_work_end(a, 0);
    if (a->result != DECKLE_EBADFREE || a->reports != before + 1)
        sim_fail("the second free of block %llu: %s", (unsigned long long)pfn,
                 deckle_error_name((int)a->result));
    a->reports = before;
}

/* Strict mode: frees of one block at the same instant. The case counts those that were accepted;
 * nobody allocates it with this order again. */
SIM_OP(sim_op_race_free)
{
    if (sim_owner[op->a] == SIM_BASE)
        memset(sim_owner + op->a, 0, 1ull << op->b);
    sim_work_begin(a);
    a->result = deckle_free(sim_pool, op->a, (uint32_t)op->b);
    sim_work_end(a, 0);
    if (a->result && (a->result != DECKLE_EBADFREE || !a->reports))
        sim_fail("a double free: %s, %u reports", deckle_error_name((int)a->result), a->reports);
    a->reports = 0;
}

SIM_OP(sim_op_drain)
{
    (void)op;
    sim_work_begin(a);
    a->result = deckle_drain_all(sim_pool);
    sim_work_end(a, (int)a->result);
}

SIM_OP(sim_op_drain_cpu)
{
    sim_work_begin(a);
    a->result = deckle_drain_cpu(sim_pool, (uint32_t)op->a);
    sim_work_end(a, (int)a->result);
}

SIM_OP(sim_op_bulk)
{
    uint64_t pfns[64];
    size_t n = op->a < 64 ? op->a : 64;
    memset(pfns, 0xff, sizeof(pfns));
    sim_work_begin(a); /* it may return few without a reason: no claim of rule 6 */
    a->result = deckle_alloc_bulk(sim_pool, (uint32_t)op->b, pfns, n);
    for (int64_t i = 0; i < a->result; i++)
        sim_own(a, (int64_t)pfns[i], 0);
    sim_work_end(a, 0);
}

SIM_OP(sim_op_free_bulk)
{
    uint64_t pfns[SIM_HELD];
    size_t n = 0;
    (void)op;
    for (unsigned i = a->nr_held; i-- > 0;)
        if (!a->held[i].order)
            pfns[n++] = sim_let_go(a, i).pfn;
    sim_work_begin(a);
    a->result = (int64_t)deckle_free_bulk(sim_pool, pfns, n);
    sim_work_end(a, 0);
    if ((size_t)a->result != n)
        sim_fail("%lld of %zu frames were freed", (long long)a->result, n);
}

/* The pieces that an exact block is made of. */
static void own_pieces(struct sim_actor *a, int64_t pfn, uint64_t nr)
{
    for (uint64_t at = 0; pfn >= 0 && at < nr;) {
        uint64_t here = (uint64_t)pfn + at;
        unsigned order = 11;
        while ((1ull << order) > nr - at || (here & ((1ull << order) - 1)))
            order--;
        sim_own(a, (int64_t)here, order);
        at += 1ull << order;
    }
}

SIM_OP(sim_op_exact)
{
    unsigned order = 0;
    while ((1ull << order) < op->a)
        order++;
    sim_ask_begin(a, order, (uint32_t)op->b, 0);
    a->result = deckle_alloc_exact(sim_pool, (uint32_t)op->b, op->a);
    own_pieces(a, a->result, op->a);
    sim_ask_end(a, a->result);
}

/* Looks at places one after the other, so it may miss what moves: no claim of rule 6. */
SIM_OP(sim_op_contig)
{
    sim_work_begin(a);
    a->result = deckle_alloc_contig(sim_pool, (uint32_t)op->b, op->a, 0, 0, 0);
    own_pieces(a, a->result, op->a);
    sim_work_end(a, 0);
}

SIM_OP(sim_op_at)
{
    sim_work_begin(a);
    a->result = deckle_alloc_at(sim_pool, U, op->a, (uint32_t)op->b);
    if (a->result == DECKLE_OK)
        sim_own(a, (int64_t)op->a, (unsigned)op->b);
    sim_work_end(a, 0);
}

SIM_OP(sim_op_split)
{
    for (unsigned i = 0; i < a->nr_held; i++) {
        struct sim_held b = a->held[i];
        if (b.order <= op->a || a->nr_held + (1u << (b.order - op->a)) > SIM_HELD)
            continue;
        sim_work_begin(a);
        a->result = deckle_split(sim_pool, b.pfn, b.order, (uint32_t)op->a);
        sim_work_end(a, 0);
        if (a->result)
            sim_fail("split of %llu refused", (unsigned long long)b.pfn);
        memmove(&a->held[i], &a->held[i + 1], (--a->nr_held - i) * sizeof(b));
        for (uint64_t p = b.pfn; p < b.pfn + (1ull << b.order); p += 1ull << op->a)
            a->held[a->nr_held++] = (struct sim_held){p, (unsigned)op->a};
        return;
    }
}

SIM_OP(sim_op_type)
{
    sim_work_begin(a);
    a->result = deckle_set_pageblock_type(sim_pool, op->a * 512, (enum deckle_migratetype)op->b);
    sim_work_end(a, 0);
    if (a->result && a->result != DECKLE_EBUSY)
        sim_fail("set type: %s", deckle_error_name((int)a->result));
}

/* What is removed comes back, so that the pool at the end is the one of the beginning. */
SIM_OP(sim_op_remove)
{
    struct deckle_range range = {.pfn = op->a * 512, .nr = op->b * 512};
    sim_work_begin(a);
    a->result = deckle_remove_range(sim_pool, range.pfn, range.nr);
    if (!a->result) {
        for (uint64_t p = range.pfn; p < range.pfn + range.nr; p++)
            if (sim_owner[p])
                sim_fail("frame %llu was removed while it had an owner", (unsigned long long)p);
        if (deckle_add_range(sim_pool, &range) || deckle_online(sim_pool))
            sim_fail("what was removed does not come back");
    } else if (a->result != DECKLE_EBUSY && a->result != DECKLE_ENOENT) {
        sim_fail("remove: %s", deckle_error_name((int)a->result));
    }
    sim_work_end(a, 0);
}
