/* SPDX-License-Identifier: MIT */
/*
 * Reaping: all that a dead client of a shared pool held goes back, while the others go on. What
 * each step relies on is at the head of recount.c (blocks), pcp_steal.c (cells) and client.h
 * (tags); docs/design/shared.md puts them together.
 *
 * There is one reaper at a time, named by a word of the superblock. Only reapers compete for it,
 * and a dead one loses it to the next. Every step may be done again from its start: whatever a
 * reaper that died had in its hands carries its own number, and is found when it is reaped itself.
 *
 *   1  blocks that the dead client's intents name are closed, and counted again once no live intent
 *      names them
 *   2  its cells, and cells that were on their way to any dead client (pcp_steal.c says why)
 *   3  frames with its tag: CAS to the reaper's own tag, then given back as the reaper's own
 *   4  counters: a new epoch
 *   5  its number is free, unless something had to be left for later
 *
 * Epochs. W changes before the counters do; who dies in between leaves them wrong, and by how much
 * nobody can tell while others go on. So each counter that follows W exists once for each of four
 * epochs, W says in which its block is counted, and a change of W is counted in the epoch of the W
 * that it replaced. A new epoch begins with counters of zero; each block is moved by a CAS of W and
 * added to them. Then the old counters are forgotten, with what was wrong in them. Somebody may
 * still be about to add to those: so the counters of an epoch are used again, three epochs later,
 * only when every live intent has begun in the last epoch or the one before it. (A thread adds to
 * the counters of epoch e if it replaced a W of epoch e; then its intent began before the move to
 * e + 1 was complete, so it says e + 1 at most.)
 */
#include "core/client.h"
#include "core/intent.h"
#include "core/pcp_internal.h"
#include "core/reap.h"
#include "core/recount.h"
#include "core/section.h"
#include "core/setup.h"

#include <deckle/shared.h>

struct reap {
    struct deckle *d;
    uint32_t dead;
    uint32_t self; /* == dead for a client that leaves, whose word still says LIVE; else 0 */
    bool deferred; /* something has to be done again later */
    bool types;    /* it was changing types of pageblocks */
    struct deckle_reap_report report;
    uint32_t fis[DK_REFILL_MAX]; /* frames of one pageblock, on their way back */
    uint32_t nr;
};

/* ---- the reaper ------------------------------------------------------------------------------ */

/*
 * A number may be given out again at any time. So whoever is declared dead is so by a CAS of the
 * very word, with its generation, that was read before the host was asked; and the reaper's word
 * has its number in bits 0-7 and the generation above, as the client's word has it.
 */
static uint32_t reaper_word(uint32_t client, dk_word word)
{
    return client | ((uint32_t)word & ~(uint32_t)(DK_CLIENT_GENERATION - 1));
}

static bool host_says_alive(const struct deckle *d, uint32_t client)
{
    const struct dk_client *c = dk_client_at(d, client);
    return d->host.client_alive &&
           d->host.client_alive(d->host.ctx, client, dk_load_seq(&c->identity));
}

/* False: it is not as word says any more, nor dead. */
static bool declare_dead(struct dk_client *c, dk_word word)
{
    return dk_client_state(word) == DK_CLIENT_DEAD ||
           dk_cas(&c->word, &word, (word & ~DK_CLIENT_STATE) | DK_CLIENT_DEAD) ||
           dk_client_state(word) == DK_CLIENT_DEAD;
}

/* From a reaper that died nothing is taken over: what it had in its hands is found when it is
 * reaped itself, and where it was does not matter. */
static bool become_reaper(struct deckle *d)
{
    uint32_t me = reaper_word(d->client, d->client_word);
    uint32_t other = dk_a32_load_seq(&d->sb->reaper);
    for (;;) {
        uint32_t number = other & (DK_CLIENT_GENERATION - 1);
        struct dk_client *c = dk_client_at(d, number);
        dk_word word = c ? dk_load_seq(&c->word) : 0;
        if (dk_client_state(word) == DK_CLIENT_LIVE && reaper_word(number, word) == other) {
            if (other == me || !d->host.client_alive || host_says_alive(d, number))
                return false;
            declare_dead(c, word); /* or somebody else has: it is not alive in any case */
        }
        if (dk_a32_cas(&d->sb->reaper, &other, me))
            return true;
    }
}

static void stop_reaping(struct deckle *d)
{
    uint32_t me = reaper_word(d->client, d->client_word);
    dk_a32_cas(&d->sb->reaper, &me, 0);
}

/* ---- 1: blocks ------------------------------------------------------------------------------- */

static bool is_of_dead(const struct reap *r, dk_word slot)
{
    return slot && dk_intent_client(slot) == r->dead;
}

static void close_named_blocks(struct reap *r)
{
    struct deckle *d = r->d;
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_seq(&d->intents[i]);
        struct dk_zone *zone;
        if (!is_of_dead(r, slot))
            continue;
        dk_a32_store_release(&d->sb->counts_wrong, 1);
        r->types |= dk_intent_from(slot) == r->dead;
        struct dk_span *span = dk_span_of_any(d, dk_intent_block(slot), &zone);
        if (span)
            dk_block_quarantine(d, span, dk_intent_block(slot));
    }
}

static void recount_named_blocks(struct reap *r)
{
    struct deckle *d = r->d;
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_seq(&d->intents[i]);
        if (!is_of_dead(r, slot) || dk_intent_block(slot) == DK_NONE)
            continue;
        if (!dk_block_recount(d, dk_intent_block(slot), r->self)) {
            r->report.deferred++;
            r->deferred = true;
            continue;
        }
        r->report.recounted++;
        dk_cas(&d->intents[i], &slot, dk_intent_from(slot) ? slot | ~DK_INTENT_BELOW : 0);
    }
}

/* What its other slots said has been done: cells taken over, types counted. */
static void free_slots(struct reap *r)
{
    struct deckle *d = r->d;
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_seq(&d->intents[i]);
        if (is_of_dead(r, slot) && dk_intent_block(slot) == DK_NONE)
            dk_cas(&d->intents[i], &slot, 0);
    }
}

/* ---- 2: cells -------------------------------------------------------------------------------- */

static void reap_cell(void *ctx, dk_aword *at, const struct dk_zone *zone, unsigned list)
{
    struct reap *r = ctx;
    struct deckle *d = r->d;
    dk_word cell = dk_load_seq(at);
    while (cell & DK_CELL_FULL) {
        uint32_t client = dk_cell_client(cell), from = dk_cell_from(cell);
        bool lost = client == r->dead || (from && !dk_client_is(d, client, DK_CLIENT_LIVE));
        if (!lost || !dk_cell_is_sound(d, zone, dk_list_order(list), cell))
            return;
        dk_word mine = dk_cell_with_whose(cell, d->client, from ? from : client);
        if (!dk_cas(at, &cell, mine))
            continue;
        r->report.cached +=
            dk_cells_finish_transit(d, &d->zones[zone->number], list, at, mine, NULL);
        return;
    }
}

/* ---- 3: frames ------------------------------------------------------------------------------- */

static void give_back(struct reap *r, unsigned order, const uint32_t *fis, unsigned n)
{
    struct deckle *d = r->d;
    struct dk_zone *zone = &d->zones[dk_zone_of_block(d, fis[0] / DK_BLOCK_FRAMES)];
    dk_zone_give(d, zone, dk_stat_set(d, zone->number), order, fis, n);
}

static void flush(struct reap *r)
{
    if (r->nr)
        give_back(r, 0, r->fis, r->nr);
    r->nr = 0;
}

static void add_frame(struct reap *r, uint32_t fi)
{
    if (r->nr && (r->nr == DK_REFILL_MAX || r->fis[0] / DK_BLOCK_FRAMES != fi / DK_BLOCK_FRAMES))
        flush(r);
    r->fis[r->nr++] = fi;
}

static bool is_whole(const struct deckle *d, uint64_t fi)
{
    return dk_load_seq(&d->words[fi / DK_BLOCK_FRAMES]) & DK_W_WHOLE;
}

/* The dead may have been dividing a pageblock: what of its line and tags was set already. */
static void undo_division(const struct deckle *d, uint32_t first)
{
    for (unsigned i = 0; i < DK_LINE_WORDS; i++)
        dk_store_release(&dk_line(d, first / DK_BLOCK_FRAMES)[i], 0);
    for (uint32_t i = 1; i < DK_BLOCK_FRAMES; i++)
        dk_a8_store_release(&d->tags[first + i], 0);
}

/* All tags of the block are the reaper's: the tails may have been another's, if the dead was giving
 * the block away. */
static void tag_all(const struct deckle *d, uint64_t fi, uint64_t end)
{
    while (fi < end) {
        bool whole = fi % DK_BLOCK_FRAMES == 0 && is_whole(d, fi);
        if (whole)
            undo_division(d, (uint32_t)fi);
        dk_a8_store_release(&d->tags[fi], (uint8_t)d->client);
        fi += whole ? DK_BLOCK_FRAMES : 1;
    }
}

/* The head last: who dies before leaves a block in use. Inside there are more heads if the dead was
 * dividing it. */
static void clear_states(const struct deckle *d, uint64_t fi, uint64_t end)
{
    while (end-- > fi) {
        if (dk_a8_load_relaxed(&d->state[end]))
            dk_a8_store_release(&d->state[end], 0);
        if (d->owners && dk_a32_load_relaxed(&d->owners[end]))
            dk_a32_store_relaxed(&d->owners[end], 0);
    }
}

/* Frames of the reaper that no state byte covers. */
static void give_range(struct reap *r, uint64_t fi, uint64_t end)
{
    while (fi < end) {
        uint32_t first = (uint32_t)fi;
        if (fi % DK_BLOCK_FRAMES == 0 && is_whole(r->d, fi)) {
            flush(r);
            give_back(r, DK_BLOCK_ORDER, &first, 1);
            fi += DK_BLOCK_FRAMES;
        } else {
            add_frame(r, first);
            fi++;
        }
    }
    flush(r);
}

static bool win(const struct reap *r, uint64_t fi)
{
    uint8_t tag = (uint8_t)r->dead;
    return dk_a8_load_relaxed(&r->d->tags[fi]) == tag &&
           dk_a8_cas(&r->d->tags[fi], &tag, (uint8_t)r->d->client);
}

static void reap_block(struct reap *r, uint64_t fi, uint64_t end)
{
    if (!win(r, fi))
        return;
    flush(r);
    tag_all(r->d, fi, end);
    clear_states(r->d, fi, end);
    give_range(r, fi, end);
    r->report.in_use += end - fi;
}

static void reap_whole(struct reap *r, uint32_t first)
{
    if (!win(r, first))
        return;
    flush(r);
    undo_division(r->d, first);
    give_back(r, DK_BLOCK_ORDER, &first, 1);
    r->report.in_flight += DK_BLOCK_FRAMES;
}

/* Blocks that were closed and that no slot of the dead names: by a give without intent, or left by
 * an earlier reaping. */
static void look_at_block(struct reap *r, uint32_t block)
{
    if (!(dk_load_seq(&r->d->words[block]) & DK_W_QUARANTINE))
        return;
    flush(r);
    if (dk_block_recount(r->d, block, r->self))
        r->report.recounted++;
    else
        r->deferred = true;
}

/* From fi on: a block in use, whoever's; a pageblock; or a frame. Returns where to go on. */
static uint64_t reap_at(struct reap *r, uint64_t fi, uint64_t end)
{
    struct deckle *d = r->d;
    uint8_t state = dk_a8_load_relaxed(&d->state[fi]);
    if (dk_state_is_head(state)) {
        uint64_t frames = (uint64_t)1 << dk_state_order(state);
        if (!(fi & (frames - 1)) && frames <= end - fi) {
            reap_block(r, fi, fi + frames);
            return fi + frames;
        }
    }
    if (fi % DK_BLOCK_FRAMES == 0) {
        dk_word w = dk_load_seq(&d->words[fi / DK_BLOCK_FRAMES]);
        if (w & DK_W_WHOLE)
            reap_whole(r, (uint32_t)fi);
        if ((w & DK_W_WHOLE) || !dk_w_used(w))
            return fi + DK_BLOCK_FRAMES;
    }
    if (win(r, fi)) {
        r->report.in_flight++;
        add_frame(r, (uint32_t)fi);
    }
    return fi + 1;
}

static void reap_frames(struct reap *r)
{
    struct dk_section_view s;
    for (uint64_t pfn = 0; dk_section_from(r->d, pfn, &s); pfn = s.pfn + s.nr) {
        uint64_t fi = s.first_fi, end = s.first_fi + s.nr;
        for (uint32_t b = dk_section_first_block(&s); b < dk_section_end_block(&s); b++)
            look_at_block(r, b);
        while (fi < end)
            fi = reap_at(r, fi, end);
        flush(r);
    }
}

/* ---- types ----------------------------------------------------------------------------------- */

/* The dead was isolating blocks, or ending that. Nobody else may meanwhile (set-up), so what keeps
 * the caches of a zone closed is its isolated blocks. */
static void count_isolated(struct deckle *d, struct dk_zone *zone)
{
    uint32_t isolated = 0, stopped = dk_a32_load_seq(&zone->stopped);
    DK_FOR_EACH_SPAN(d, zone, span)
    for (uint32_t b = 0; b < span->nr_blocks; b++)
        isolated += (dk_load_relaxed(&d->words[span->first_block + b]) & DK_W_ISOLATED) != 0;
    if (stopped < isolated) {
        dk_a32_store_release(&zone->stopped, isolated - 1);
        dk_pcp_close(d, zone);
    } else if (stopped > isolated) {
        dk_a32_store_release(&zone->stopped, isolated + 1);
        dk_pcp_open(d, zone);
    }
}

/* What it was about to let a list grow by is lost to the others. */
static void count_budgets(struct deckle *d)
{
    for (uint32_t z = 0; z < d->sb->nr_zones && d->kind != DK_PCP_NONE; z++)
        for (uint32_t cpu = 0; cpu < d->nr_cpus; cpu++)
            dk_pcp_recount_high(d, dk_set(d, z, cpu));
}

/* ---- 4: counters ----------------------------------------------------------------------------- */

#define NOTHING_COUNTED DK_W_OFFLINE /* a W that counts as nothing */

static void move_block(struct deckle *d, struct dk_zone *zone, uint32_t block, unsigned epoch)
{
    struct dk_pcp_set *set = dk_stat_set(d, zone->number);
    dk_word w = dk_load_seq(&d->words[block]), from;
    do {
        from = w;
        if (dk_w_epoch(w) == epoch)
            return;
    } while (!dk_cas(&d->words[block], &w, dk_w_with_epoch(w, epoch)));
    dk_zone_account_in(d, zone, set, epoch, NOTHING_COUNTED, from);
    dk_zone_account_in(d, zone, set, dk_w_epoch(from), from, NOTHING_COUNTED);
}

static void move_blocks(struct deckle *d, uint32_t epoch)
{
    for (uint32_t z = 0; z < d->sb->nr_zones; z++)
        DK_FOR_EACH_SPAN(d, &d->zones[z], span)
    for (uint32_t b = 0; b < span->nr_blocks; b++)
        move_block(d, &d->zones[z], span->first_block + b, epoch % DK_EPOCHS);
}

static bool has_old_intents(const struct deckle *d, uint32_t epoch, uint32_t self)
{
    for (uint32_t i = 0; i < d->sb->nr_intents; i++) {
        dk_word slot = dk_load_seq(&d->intents[i]);
        if (slot && !dk_intents_dead(d, dk_intent_client(slot), self) &&
            ((epoch - dk_intent_epoch(slot)) & 0xffffu) > 1)
            return true;
    }
    return false;
}

/* false: an operation that began long ago may still count in the counters that come next. */
static bool begin_epoch(struct deckle *d, uint32_t self)
{
    uint32_t epoch = dk_a32_load_seq(&d->sb->epoch);
    move_blocks(d, epoch); /* a reaper may have died over this */
    if (has_old_intents(d, epoch, self))
        return false;
    for (uint32_t z = 0; z < d->sb->nr_zones; z++)
        for (unsigned i = 0; i < DK_NR_COUNTS; i++)
            dk_store_release(&d->zones[z].counts[(epoch + 1) % DK_EPOCHS].of[i], 0);
    dk_a32_store_release(&d->sb->epoch_settled, epoch);
    dk_a32_exchange(&d->sb->epoch, epoch + 1);
    move_blocks(d, epoch + 1);
    dk_a32_exchange(&d->sb->epoch_settled, epoch + 1);
    dk_a32_store_release(&d->sb->counts_wrong, 0);
    return true;
}

/* ---- together -------------------------------------------------------------------------------- */

/* Does a live operation still mean this client when it says "from"? */
static bool is_still_named(const struct reap *r)
{
    for (uint32_t i = 0; i < r->d->sb->nr_intents; i++) {
        dk_word slot = dk_load_seq(&r->d->intents[i]);
        if (slot && dk_intent_from(slot) == r->dead &&
            !dk_intents_dead(r->d, dk_intent_client(slot), r->self))
            return true;
    }
    return false;
}

static void reap_all(struct reap *r)
{
    struct deckle *d = r->d;
    dk_a32_add_relaxed(&d->sb->deaths, 1);
    close_named_blocks(r);
    recount_named_blocks(r);
    dk_cells_for_each(d, reap_cell, r);
    dk_a32_store_release(&d->sb->abandoned, 0);
    reap_frames(r);
    for (uint32_t z = 0; r->types && z < d->sb->nr_zones; z++)
        count_isolated(d, &d->zones[z]);
    count_budgets(d);
    free_slots(r);
    if (dk_a32_load_seq(&d->sb->counts_wrong) && !begin_epoch(d, r->self))
        r->deferred = true;
    if (is_still_named(r))
        r->deferred = true;
}

static void free_number(struct dk_client *c)
{
    dk_word word = dk_load_seq(&c->word);
    dk_cas(&c->word, &word, word & ~DK_CLIENT_STATE);
    dk_store_release(&c->identity, 0);
}

static bool may_report(const struct deckle_reap_report *report)
{
    return !report || report->size >= sizeof *report;
}

static void tell(struct deckle_reap_report *report, const struct reap *r)
{
    if (!report)
        return;
    uint32_t size = report->size;
    *report = r->report;
    report->size = size;
}

int deckle_reap(struct deckle *d, uint32_t client, struct deckle_reap_report *report)
{
    struct reap r = {.d = d, .dead = client};
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients || !may_report(report))
        return DECKLE_EINVAL;
    if (!dk_is_client(d))
        return DECKLE_EPERM;
    struct dk_client *c = dk_client_at(d, client);
    dk_word word = c ? dk_load_seq(&c->word) : 0;
    if (!c || !dk_load_seq(&c->identity))
        return DECKLE_ENOENT;
    if (client == d->client ||
        (dk_client_state(word) != DK_CLIENT_DEAD && host_says_alive(d, client)))
        return DECKLE_EBUSY;
    if (!declare_dead(c, word))
        return DECKLE_ENOENT; /* another has reaped it */
    if (!become_reaper(d))
        return DECKLE_EBUSY;
    /* Another may have finished meanwhile. */
    if (dk_client_is(d, client, DK_CLIENT_DEAD)) {
        reap_all(&r);
        if (!r.deferred)
            free_number(c);
    }
    stop_reaping(d);
    tell(report, &r);
    return r.deferred ? DECKLE_ECONTENDED : DECKLE_OK;
}

static void forget_client(struct deckle *d)
{
    d->handle_magic = 0;
    d->client = 0;
    dk_update_slow(d);
}

int64_t deckle_detach(struct deckle *d)
{
    struct reap r = {.d = d};
    if (!d || d->handle_magic != DK_HANDLE_MAGIC || !d->clients)
        return DECKLE_EINVAL;
    if (!dk_is_client(d)) {
        forget_client(d);
        return 0;
    }
    r.dead = r.self = d->client;
    if (!become_reaper(d))
        return DECKLE_EBUSY;
    reap_all(&r);
    stop_reaping(d);
    if (r.deferred)
        declare_dead(dk_client_at(d, d->client), d->client_word); /* for others to reap again */
    else
        free_number(dk_client_at(d, d->client));
    forget_client(d);
    return (int64_t)r.report.in_use;
}

/* ---- blocks without a dead client --------------------------------------------------------------
 * Gives that found no slot have closed them. */

void dk_recount_abandoned(struct deckle *d)
{
    struct reap r = {.d = d};
    if (!dk_a32_load_relaxed(&d->sb->abandoned) || !become_reaper(d))
        return;
    dk_a32_store_release(&d->sb->abandoned, 0);
    for (uint32_t z = 0; z < d->sb->nr_zones; z++)
        DK_FOR_EACH_SPAN(d, &d->zones[z], span)
    for (uint32_t b = 0; b < span->nr_blocks; b++)
        look_at_block(&r, span->first_block + b);
    if (r.deferred)
        dk_a32_store_release(&d->sb->abandoned, 1);
    stop_reaping(d);
}
