/* SPDX-License-Identifier: MIT */
/*
 * Order of work, from the reference (3.10). Free: checks of state, owner and references; state to
 * free (strict mode: by CAS, so of two simultaneous frees one is refused); owner and descriptor
 * cleared; poison or zero; hooks. Alloc: the state byte first, for a block whose state is not free
 * is somebody else's and must not be touched; hooks (a sanitizer lets us in), verify poison, zero,
 * owner, reference.
 *
 * What a free frame holds is written in its own state byte (POISONED, ZEROED), not concluded from
 * the switches: so poison is verified only where it was filled in, and frames known to be zero are
 * not cleared again. A frame of an allocated block carries no mark. While marks may exist
 * (DK_SLOW_DEBUG stays set once a switch was on) all requests come through here.
 */
#include "core/prepare.h"

#include "core/ablation.h"
#include "base/mem.h"
#include "core/check.h"
#include "core/client.h"
#include "core/compound.h"
#include "core/fast.h"

static uint32_t debug(const struct deckle *d)
{
    return dk_a32_load_relaxed(&d->sb->debug);
}

static size_t page_bytes(const struct deckle *d)
{
    return (size_t)1 << d->sb->page_shift;
}

/* Find the first byte that is not poison, and whether exactly one bit of one byte differs. */
static bool poison_intact(const unsigned char *page, size_t n, struct deckle_bad_report *r)
{
    size_t bad = 0;
    for (size_t i = 0; i < n; i++) {
        if (page[i] == DECKLE_POISON_BYTE)
            continue;
        if (bad++)
            continue;
        unsigned diff = page[i] ^ DECKLE_POISON_BYTE;
        r->offset = i;
        r->value = page[i];
        r->single_bit = dk_is_power_of_two(diff);
    }
    if (bad > 1)
        r->single_bit = 0;
    return !bad;
}

static unsigned char *map(struct deckle *d, uint64_t pfn)
{
    return d->host.map ? d->host.map(d->host.ctx, pfn) : NULL;
}

static void unmap(struct deckle *d, uint64_t pfn, void *page)
{
    if (d->host.unmap)
        d->host.unmap(d->host.ctx, pfn, page);
}

/* Fill a block that is nobody's and mark its frames. Frames that cannot be mapped get no mark. */
static void fill(struct deckle *d, uint32_t fi, uint64_t pfn, unsigned order, int byte,
                 uint8_t mark)
{
    for (uint32_t i = 0; i < 1u << order; i++) {
        unsigned char *page = map(d, pfn + i);
        if (!page)
            continue;
        memset(page, byte, page_bytes(d));
        unmap(d, pfn + i, page);
        dk_a8_store_relaxed(&d->state[fi + i], mark);
    }
}

/* One frame of a block that is being given out: hold is its mark. */
static bool ready_frame(struct deckle *d, uint64_t pfn, uint8_t mark, bool zero,
                        struct deckle_bad_report *r)
{
    bool check = mark == DK_STATE_POISONED && (debug(d) & DECKLE_DEBUG_POISON);
    if (!check && !(zero && mark != DK_STATE_ZEROED))
        return true;
    unsigned char *page = map(d, pfn);
    if (!page)
        return true;
    bool ok = !check || poison_intact(page, page_bytes(d), r);
    if (zero)
        memset(page, 0, page_bytes(d));
    unmap(d, pfn, page);
    return ok;
}

int dk_prepare_check(const struct deckle *d, uint32_t gfp)
{
    return (gfp & DECKLE_GFP_ZERO) && !d->host.map ? DECKLE_ENOTSUP : DECKLE_OK;
}

/* The head's state: from free to `to`; *from is what it was. */
static bool set_state(struct deckle *d, uint32_t fi, uint8_t to, uint8_t *from)
{
    *from = dk_a8_load_relaxed(&d->state[fi]);
    if (DK_CHECKS == DK_CHECKS_ALWAYS && !dk_state_is_free(*from))
        return false;
    if (debug(d) & DECKLE_DEBUG_STRICT)
        return dk_a8_cas(&d->state[fi], from, to);
    dk_a8_store_relaxed(&d->state[fi], to);
    return true;
}

/* Verify and clear every frame as its mark says, and take the marks away. */
static bool ready(struct deckle *d, uint32_t fi, uint64_t pfn, unsigned order, uint8_t head_mark,
                  bool zero, const void *caller)
{
    struct deckle_bad_report r = {
        .what = DECKLE_BAD_POISON, .pfn = pfn, .order = order, .caller = caller};
    bool intact = true;
    for (uint32_t i = 0; i < 1u << order; i++) {
        uint8_t mark = i ? dk_a8_load_relaxed(&d->state[fi + i]) : head_mark;
        if (i && mark)
            dk_a8_store_relaxed(&d->state[fi + i], 0);
        if (!intact || ready_frame(d, pfn + i, mark, zero, &r))
            continue;
        r.offset += i * page_bytes(d);
        intact = false;
    }
    if (!intact)
        dk_report_full(d, &r);
    return intact;
}

bool dk_prepare_alloc(struct deckle *d, uint32_t fi, unsigned order, uint32_t gfp,
                      unsigned pcp_type, uint32_t owner, const void *caller)
{
    uint64_t pfn = 0;
    uint8_t mark;
    if (!dk_fi_to_pfn(d, fi, &pfn) ||
        !set_state(d, fi, dk_state_make(order, pcp_type, gfp & DECKLE_GFP_COMP), &mark)) {
        dk_bad_state(d, fi, order);
        return false;
    }
    if (d->host.on_alloc)
        d->host.on_alloc(d->host.ctx, pfn, order);
    bool zero = (gfp & DECKLE_GFP_ZERO) || (debug(d) & DECKLE_DEBUG_ZERO_ON_ALLOC);
    bool marks = dk_a32_load_relaxed(&d->slow) & DK_SLOW_DEBUG;
    if ((zero || marks) && !ready(d, fi, pfn, order, mark, zero, caller))
        return false; /* stays allocated to nobody: like the reference, a damaged block is leaked */
    if (d->owners)
        dk_a32_store_relaxed(&d->owners[fi], owner);
    if (d->descriptors)
        dk_descriptor_init(d, fi);
    return true;
}

static bool clear_state(struct deckle *d, uint32_t fi, uint8_t from)
{
    if (debug(d) & DECKLE_DEBUG_STRICT)
        return dk_a8_cas(&d->state[fi], &from, 0);
    dk_a8_store_relaxed(&d->state[fi], 0);
    return true;
}

/* s: the state byte, read once: strict mode replaces just the value that was judged. */
static enum deckle_bad free_fault(struct deckle *d, uint32_t fi, uint8_t s, uint64_t pfn,
                                  unsigned order, uint32_t owner)
{
    if (order > d->max_order || !dk_state_is_head(s) || dk_state_order(s) != order)
        return dk_why_bad(d, pfn, order);
    if (!dk_holds(d, fi) ||
        (owner && d->owners && dk_a32_load_relaxed(&d->owners[fi]) != owner))
        return DECKLE_BAD_OWNER;
    if (d->descriptors && !dk_descriptor_may_free(d, fi))
        return DECKLE_BAD_REFCOUNT;
    return (enum deckle_bad)0;
}

int dk_prepare_free(struct deckle *d, uint64_t pfn, unsigned order, uint32_t owner,
                    const void *caller, uint32_t *fi, uint32_t *zone, unsigned *pcp_type)
{
    if (!dk_pfn_to_fi(d, pfn, fi, zone)) {
        dk_report(d, DECKLE_BAD_FOREIGN, pfn, order, caller);
        return order > d->max_order ? DECKLE_E2BIG : DECKLE_EBADFREE;
    }
    uint8_t s = dk_a8_load_relaxed(&d->state[*fi]);
    enum deckle_bad fault = free_fault(d, *fi, s, pfn, order, owner);
    if (!fault && !clear_state(d, *fi, s))
        fault = DECKLE_BAD_DOUBLE_FREE;
    if (fault) {
        dk_report(d, fault, pfn, order, caller);
        return order > d->max_order ? DECKLE_E2BIG : DECKLE_EBADFREE;
    }
    *pcp_type = dk_state_type(s);
    if (d->owners)
        dk_a32_store_relaxed(&d->owners[*fi], 0);
    if (d->descriptors)
        dk_descriptor_clear(d, *fi);
    if (debug(d) & DECKLE_DEBUG_POISON)
        fill(d, *fi, pfn, order, DECKLE_POISON_BYTE, DK_STATE_POISONED);
    else if (debug(d) & DECKLE_DEBUG_ZERO_ON_FREE)
        fill(d, *fi, pfn, order, 0, DK_STATE_ZEROED);
    if (d->host.on_free)
        d->host.on_free(d->host.ctx, pfn, order);
    return DECKLE_OK;
}

int deckle_set_debug(struct deckle *d, uint32_t switches)
{
    const uint32_t fills = DECKLE_DEBUG_POISON | DECKLE_DEBUG_ZERO_ON_ALLOC |
                           DECKLE_DEBUG_ZERO_ON_FREE;
    if (switches & ~(fills | DECKLE_DEBUG_STRICT))
        return DECKLE_EINVAL;
    if (dk_a32_load_acquire(&d->sb->published))
        return DECKLE_ENOTSUP; /* other handles would not know */
    if ((switches & DECKLE_DEBUG_POISON) && (switches & fills & ~DECKLE_DEBUG_POISON))
        return DECKLE_EINVAL;
    if ((switches & fills) && !d->host.map)
        return DECKLE_ENOTSUP;
    if (switches) {
        dk_a32_or(&d->slow, DK_SLOW_DEBUG);
        dk_fast_update(d);
    }
    return (int)dk_a32_exchange(&d->sb->debug, switches);
}
