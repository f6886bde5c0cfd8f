/* SPDX-License-Identifier: MIT */
/* What a replay tells people. Every line says what it counts, so that none needs the manual. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "replay.h"
#include "ui.h"

#define HUGE_ORDER   9u
#define SHOWN_ORDERS 11u /* columns of the table of free blocks; the last one sums those above */
#define NOTE         160u

/* What trace_event.line counts. */
static const char *place(const struct replay_report *r)
{
    return r->facts->format == TRACE_FORMAT_PACKED ? "event" : "line";
}

static const char *s(uint64_t n)
{
    return n == 1 ? "" : "s";
}

/* --- figures --------------------------------------------------------------------------------- */

uint64_t replay_failures(const struct replay_report *r)
{
    uint64_t sum = 0;

    for (int e = 0; e < 32; e++)
        if (-e != DECKLE_EINVAL && -e != DECKLE_E2BIG)
            sum += r->result->counts.failures[e];
    return sum;
}

bool replay_faulty(const struct replay_report *r)
{
    const struct replay_counts *c = &r->result->counts;

    return replay_failures(r) > 0 || r->result->adopt_failures > 0 || c->refused > 0 ||
           c->two_owners > 0 || c->not_zero > 0 || r->pool->bad > 0 ||
           r->result->invalid[0] != '\0';
}

uint32_t replay_unusable(const struct replay_zones *zones, uint32_t order)
{
    uint64_t usable = 0;

    for (uint32_t o = order; o < REPLAY_NR_ORDERS; o++)
        usable += zones->blocks[o] << o;
    if (zones->free == 0 || usable >= zones->free)
        return 0;
    return (uint32_t)((zones->free - usable) * 10000 / zones->free);
}

uint64_t replay_free_huge(const struct replay_zones *zones)
{
    uint64_t huge = 0;

    for (uint32_t o = HUGE_ORDER; o < REPLAY_NR_ORDERS; o++)
        huge += zones->blocks[o] << (o - HUGE_ORDER);
    return huge;
}

void replay_merge_orders(struct histogram *into, const struct histogram of[REPLAY_NR_ORDERS])
{
    memset(into, 0, sizeof(*into));
    for (uint32_t o = 0; o < REPLAY_NR_ORDERS; o++)
        histogram_merge(into, &of[o]);
}

/* --- rows ------------------------------------------------------------------------------------ */

static void row(struct ui_table *t, const char *name, uint64_t value, const char *note)
{
    char number[UI_NUMBER];

    ui_table_row(t, name, ui_count(number, value), note);
}

/* Only where there is something to say. */
static void row_some(struct ui_table *t, const char *name, uint64_t value, const char *note)
{
    if (value > 0)
        row(t, name, value, note);
}

static void print_head(FILE *to, const struct replay_report *r)
{
    const struct replay_result *x = r->result;
    char a[UI_NUMBER], b[UI_NUMBER];
    uint64_t times = r->options->repeat;

    fprintf(to, "%s: %s events of %" PRIu32 " CPU%s in %s of Linux\n", r->facts->source,
            ui_count(a, r->plan->counts.events), r->facts->nr_cpus, s(r->facts->nr_cpus),
            ui_duration(b, r->facts->last_ns - r->facts->first_ns));
    fprintf(to, "replayed %s by %" PRIu32 " thread%s on %" PRIu32 " CPU%s%s in %s%s\n",
            r->options->free_running ? "free-running" : "in the order of the file", x->threads,
            s(x->threads), r->pool->nr_cpus, s(r->pool->nr_cpus), times > 1 ? ", repeatedly," : "",
            ui_duration(b, x->elapsed_ns), x->interrupted ? " (interrupted)" : "");
    if (times > 1)
        fprintf(to, "%" PRIu32 " of %" PRIu64 " times completed; all counts are of all times\n",
                x->rounds, times);
}

static void print_memory(FILE *to, const struct replay_report *r)
{
    const struct replay_pool *pool = r->pool;
    const struct replay_plan_counts *c = &r->plan->counts;
    struct ui_table *t = ui_table_new("lrl");
    char a[UI_NUMBER], b[UI_NUMBER], e[UI_NUMBER], note[NOTE];

    if (r->options->size_bytes > 0)
        snprintf(note, sizeof(note), "frames, as --size says (%s); %s of them are kept in reserve",
                 ui_bytes(a, pool->managed << 12), ui_count(b, pool->reserves));
    else
        snprintf(note, sizeof(note), "frames (%s): 1.1 x peak and %s in reserve",
                 ui_bytes(a, pool->managed << 12), ui_count(b, pool->reserves));
    fprintf(to, "\nMemory\n");
    row(t, "managed", pool->managed, note);
    snprintf(note, sizeof(note), "frames live at once%s%s%s",
             c->adopted_frames > 0 ? ", with " : "",
             c->adopted_frames > 0 ? ui_count(a, c->adopted_frames) : "",
             c->adopted_frames > 0 ? " from before the recording" : "");
    row(t, "peak", c->peak_frames, note);
    snprintf(note, sizeof(note), "bytes for it, %.2f a frame; per-CPU caches: %s%s%s%s",
             (double)pool->metadata_bytes / (double)pool->managed, deckle_cache_kind(pool->d),
             pool->nodes > 1 ? "; " : "", pool->nodes > 1 ? ui_count(e, pool->nodes) : "",
             pool->nodes > 1 ? " nodes" : "");
    row(t, "metadata", pool->metadata_bytes, note);
    ui_table_print(t, to, 2, false);
    ui_table_free(t);
}

/* --- events ---------------------------------------------------------------------------------- */

static void rows_of_failures(struct ui_table *t, const struct replay_report *r)
{
    const struct replay_counts *c = &r->result->counts;
    const struct replay_plan_counts *p = &r->plan->counts;
    char note[NOTE], name[64];

    for (int e = 1; e < 32; e++) {
        bool illegal = -e == DECKLE_EINVAL || -e == DECKLE_E2BIG;

        if (c->failures[e] == 0)
            continue;
        snprintf(note, sizeof(note), "%s; first in %s %" PRIu32,
                 illegal && p->illegal_why != NULL ? p->illegal_why : deckle_strerror(-e), place(r),
                 illegal ? p->illegal_line : c->failure_line);
        snprintf(name, sizeof(name), "    %s", deckle_error_name(-e));
        row(t, name, c->failures[e], note);
    }
}

static void rows_of_allocs(struct ui_table *t, const struct replay_report *r)
{
    const struct replay_plan_counts *p = &r->plan->counts;
    const struct replay_counts *c = &r->result->counts;
    uint64_t failed = 0;

    for (int e = 1; e < 32; e++)
        failed += c->failures[e];
    row(t, "allocations", c->allocs, "");
    row(t, "  failed", failed, failed > 0 ? "by reason:" : "");
    rows_of_failures(t, r);
    row_some(t, "  failed in Linux", r->totals->failed, "not replayed");
    row_some(t, "  left the node", c->left_node,
             "asked for one node alone; then tried on all, as Linux does");
    row_some(t, "  made plain", p->dissolved, "compound blocks that the trace frees in pieces");
    row_some(t, "  zone dropped", p->zone_bits, "asked for DMA or DMA32 memory; got any");
    row_some(t, "  flags dropped", p->unknown_bits, "had gfp bits that Deckle does not know");
    row_some(t, "  other type", p->type_differs,
             "Linux says another migratetype than their gfp flags");
    row_some(t, "  misplaced", p->misplaced, "their frame is no multiple of their size");
}

static void rows_of_frees(struct ui_table *t, const struct replay_report *r)
{
    const struct replay_counts *c = &r->result->counts;
    char a[UI_NUMBER], note[NOTE];

    row(t, "frees", c->frees, "");
    row(t, "  remote", c->remote, "on another CPU than allocated");
    row(t, "  adopted", c->adopted,
        "of blocks from before the recording, allocated before the start");
    snprintf(note, sizeof(note), "of blocks that were split first, in %s split%s",
             ui_count(a, c->splits), s(c->splits));
    row(t, "  in pieces", c->pieces, note);
    row_some(t, "  several", c->several, "one event of Linux freed more than one block");
    row_some(t, "  not in the trace", c->lost, "their frames are allocated again without a free");
    row_some(t, "  of nothing", c->nothing_to_free, "their allocation had failed");
    row_some(t, "  refused", c->refused, "by Deckle, or a split was");
}

static void print_events(FILE *to, const struct replay_report *r)
{
    const struct replay_counts *c = &r->result->counts;
    struct ui_table *t = ui_table_new("lrl");
    char a[UI_NUMBER], note[NOTE];

    fprintf(to, "\nEvents\n");
    rows_of_allocs(t, r);
    rows_of_frees(t, r);
    snprintf(note, sizeof(note), "frames in %s block%s", ui_count(a, r->result->live_blocks),
             s(r->result->live_blocks));
    row(t, "live at the end", r->result->live_frames, note);
    if (r->options->free_running) {
        row(t, "live at most", c->peak_frames, "frames at once, in the order that this run had");
        row(t, "waits for a block", c->waits_block,
            "frees that waited for another thread's allocation");
        row(t, "waits for memory", c->waits_memory,
            "allocations that waited because their thread was far ahead");
    }
    ui_table_print(t, to, 2, false);
    ui_table_free(t);
}

/* --- times ----------------------------------------------------------------------------------- */

/* Nanoseconds; with a decimal where that is more than the clock's noise. */
static const char *ns_text(char *buffer, const struct replay_report *r, uint64_t ticks)
{
    double ns = (double)ticks / r->result->ticks_per_ns;

    if (ns < 99.95)
        snprintf(buffer, UI_NUMBER, "%.1f", ns);
    else
        ui_count(buffer, (uint64_t)(ns + 0.5));
    return buffer;
}

static void row_of_times(struct ui_table *t, const struct replay_report *r, const char *name,
                         const struct histogram *h)
{
    char calls[UI_NUMBER], at[4][UI_NUMBER];

    if (h->count == 0) {
        ui_table_row(t, name, "0", "-", "-", "-", "-");
        return;
    }
    ui_table_row(t, name, ui_count(calls, h->count), ns_text(at[0], r, histogram_quantile(h, 1, 2)),
                 ns_text(at[1], r, histogram_quantile(h, 99, 100)),
                 ns_text(at[2], r, histogram_quantile(h, 999, 1000)), ns_text(at[3], r, h->most));
}

static void rows_by_order(struct ui_table *t, const struct replay_report *r,
                          const struct histogram of[REPLAY_NR_ORDERS], uint64_t all)
{
    for (uint32_t o = 0; o < REPLAY_NR_ORDERS; o++) {
        char name[64];

        /* Orders that are everything, or less than a hundredth of it, say nothing of their own. */
        if (of[o].count == 0 || of[o].count == all || of[o].count < all / 100)
            continue;
        snprintf(name, sizeof(name), "  of order %" PRIu32, o);
        row_of_times(t, r, name, &of[o]);
    }
}

static void print_times(FILE *to, const struct replay_report *r)
{
    struct ui_table *t = ui_table_new("lrrrrr");
    struct histogram all;
    char cost[UI_NUMBER], step[UI_NUMBER];

    fprintf(to, "\nNanoseconds of one call\n");
    ui_table_row(t, "", "calls", "median", "p99", "p99.9", "max");
    replay_merge_orders(&all, r->result->allocs);
    row_of_times(t, r, "allocation", &all);
    rows_by_order(t, r, r->result->allocs, all.count);
    replay_merge_orders(&all, r->result->frees);
    row_of_times(t, r, "free", &all);
    rows_by_order(t, r, r->result->frees, all.count);
    ui_table_print(t, to, 2, true);
    ui_table_free(t);
    fprintf(
        to,
        "  Reading the clock (%s ns) is subtracted; it advances in steps of %s ns. p99: 99 of 100\n"
        "  calls took at most this. Long times are mostly those of other programs on the CPU.\n",
        ns_text(cost, r, (uint64_t)r->result->clock_ticks),
        ns_text(step, r, r->result->clock_step));
}

/* --- the shared level ------------------------------------------------------------------------ */

static void row_of_shared(struct ui_table *t, const char *name, uint64_t entries, uint64_t frames,
                          const struct trace_shared *linux_side, uint64_t times)
{
    char a[UI_NUMBER], b[UI_NUMBER], c[UI_NUMBER], e[UI_NUMBER];

    if (!linux_side->recorded) {
        ui_table_row(t, name, ui_count(a, entries), ui_count(b, frames), "not recorded", "");
        return;
    }
    ui_table_row(t, name, ui_count(a, entries), ui_count(b, frames),
                 ui_count(c, linux_side->bursts * times), ui_count(e, linux_side->frames * times));
}

static void print_shared(FILE *to, const struct replay_report *r)
{
    const struct replay_zones *z = &r->result->after;
    struct ui_table *t = ui_table_new("lrrrr");
    uint64_t times = r->result->rounds > 0 ? r->result->rounds : 1;
    char a[UI_NUMBER], b[UI_NUMBER], c[UI_NUMBER];

    fprintf(to, "\nShared level: trips from a CPU's cache to the memory of all CPUs%s\n",
            r->result->interrupted ? " (Linux: complete)"
            : times > 1            ? " (Linux: as often)"
                                   : "");
    ui_table_row(t, "", "Deckle: trips", "frames", "Linux: trips", "frames");
    row_of_shared(t, "to fetch", z->refills, z->refill_frames, &r->totals->refill, times);
    row_of_shared(t, "to give back", z->drains, z->drain_frames, &r->totals->drain, times);
    ui_table_row(t, "took from another type", ui_count(a, z->claims + z->steals), "",
                 ui_count(b, r->totals->fallbacks * times), "");
    ui_table_print(t, to, 2, true);
    ui_table_free(t);
    fprintf(
        to,
        "  %s frames were in caches at the end. Caches are sized after the memory, which was far\n"
        "  more where Linux was recorded: --size gives as much here.\n",
        ui_count(c, z->cached));
}

/* --- free memory ----------------------------------------------------------------------------- */

static void row_of_blocks(struct ui_table *t, const char *name, const struct replay_zones *z)
{
    char cells[SHOWN_ORDERS][UI_NUMBER];
    const char *row_cells[SHOWN_ORDERS + 1] = {name};

    for (uint32_t o = 0; o < SHOWN_ORDERS; o++) {
        uint64_t blocks = z->blocks[o];

        for (uint32_t above = SHOWN_ORDERS; o == SHOWN_ORDERS - 1 && above < REPLAY_NR_ORDERS;
             above++)
            blocks += z->blocks[above] << (above - o);
        row_cells[o + 1] = ui_count(cells[o], blocks);
    }
    ui_table_cells(t, row_cells);
}

static void row_of_unusable(struct ui_table *t, const struct replay_zones *z)
{
    char cells[SHOWN_ORDERS][UI_NUMBER];
    const char *row_cells[SHOWN_ORDERS + 1] = {"unusable, %"};

    for (uint32_t o = 0; o < SHOWN_ORDERS; o++) {
        snprintf(cells[o], sizeof(cells[o]), "%.1f", replay_unusable(z, o) / 100.0);
        row_cells[o + 1] = cells[o];
    }
    ui_table_cells(t, row_cells);
}

static void print_free(FILE *to, const struct replay_report *r)
{
    const struct replay_result *x = r->result;
    struct ui_table *t = ui_table_new("lrrrrrrrrrrr");
    char a[UI_NUMBER], b[UI_NUMBER], c[UI_NUMBER];
    uint64_t possible = x->drained.free >> HUGE_ORDER;

    fprintf(to, "\nFree blocks by order (2^order frames), as /proc/buddyinfo counts them\n");
    ui_table_row(t, "order", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10");
    row_of_blocks(t, "at the start", &x->before);
    row_of_blocks(t, "at the end, caches drained", &x->drained);
    row_of_unusable(t, &x->drained);
    ui_table_print(t, to, 2, true);
    ui_table_free(t);
    fprintf(to,
            "  unusable: share of the free memory that lies in blocks too small for the order\n"
            "  free huge blocks (512 frames): %s of the %s that %s free frames could be\n",
            ui_count(a, replay_free_huge(&x->drained)), ui_count(b, possible),
            ui_count(c, x->drained.free));
}

/* --- the end --------------------------------------------------------------------------------- */

static void print_faults(FILE *to, const struct replay_report *r)
{
    const struct replay_result *x = r->result;
    const struct replay_counts *c = &x->counts;
    char a[UI_NUMBER];

    if (replay_failures(r) > 0)
        fprintf(to, "  %s allocation%s that Linux served failed\n", ui_count(a, replay_failures(r)),
                s(replay_failures(r)));
    if (x->adopt_failures > 0)
        fprintf(to, "  %s block%s from before the recording found no memory\n",
                ui_count(a, x->adopt_failures), s(x->adopt_failures));
    if (c->refused > 0 || r->pool->bad > 0)
        fprintf(to, "  %s free%s of an allocated block refused or reported\n",
                ui_count(a, c->refused > r->pool->bad ? c->refused : r->pool->bad), s(c->refused));
    if (c->two_owners > 0)
        fprintf(to, "  %s frame%s had two owners, or none\n", ui_count(a, c->two_owners),
                s(c->two_owners));
    if (c->not_zero > 0)
        fprintf(to, "  %s frame%s asked for zeroed were not\n", ui_count(a, c->not_zero),
                s(c->not_zero));
    if (c->fault_line > 0)
        fprintf(to, "  the first fault is that of %s %" PRIu32 "\n", place(r), c->fault_line);
    if (x->invalid[0] != '\0')
        fprintf(to, "  the metadata: %s\n", x->invalid);
}

void replay_print(FILE *to, const struct replay_report *r)
{
    print_head(to, r);
    print_memory(to, r);
    print_events(to, r);
    print_times(to, r);
    print_shared(to, r);
    print_free(to, r);
    fprintf(to, "\n");
    if (replay_faulty(r)) {
        fprintf(to, "Check: FAULTY\n");
        print_faults(to, r);
    } else {
        fprintf(to, "Check: no frame had two owners, all came back, the metadata is right%s\n",
                r->options->zero ? ", zeroed frames were zero" : "");
    }
}
