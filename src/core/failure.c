/* SPDX-License-Identifier: MIT */
/*
 * The host's hooks are set here, and what it is told of failures (reference: 3.11 step 10): once in
 * 10 s, not with NOWARN; the text is Linux's, without what has no meaning here.
 */
#include "core/alloc.h"
#include "core/pressure.h"
#include "core/setup.h"
#include "core/text.h"
#include "core/zone.h"

#define REPORT_SECONDS 10u
#define NS_PER_SECOND  UINT64_C(1000000000)

int deckle_set_pressure_hooks(struct deckle *d, const struct deckle_pressure_hooks *hooks)
{
    if (!d || (hooks && (hooks->size != sizeof(*hooks) || (hooks->flags & ~DECKLE_HOOKS_RESTRICT))))
        return DECKLE_EINVAL;
    if (dk_a32_load_relaxed(&d->slow) & DK_SLOW_STRANGER)
        return DECKLE_EPERM;
    dk_exchange(&d->hooks, (dk_word)(uintptr_t)hooks);
    /* Whoever was woken before may be gone. */
    for (uint32_t node = 0; node < d->sb->nr_nodes; node++) {
        dk_a32_store_release(&d->sb->daemons[node].kswapd_awake, 0);
        dk_a32_store_release(&d->sb->daemons[node].kcompactd_awake, 0);
    }
    dk_update_boost_factor(d);
    dk_update_slow(d);
    return DECKLE_OK;
}

/* ---- reports --------------------------------------------------------------------------------- */

/* True for one thread each time the seconds are over, and always without a clock. */
static bool may_report(struct deckle *d, const struct deckle_pressure_hooks *hooks)
{
    uint32_t last = dk_a32_load_relaxed(&d->last_report), now;
    if (!hooks->now)
        return true;
    now = (uint32_t)dk_div64(hooks->now(hooks->ctx), NS_PER_SECOND) + 1;
    return (!last || now - last >= REPORT_SECONDS) && dk_a32_cas(&d->last_report, &last, now);
}

void dk_report_failure(struct dk_request *r, int error)
{
    struct deckle *d = r->d;
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);
    struct deckle_failure f = {.size = sizeof(f), .gfp = r->ask.gfp, .order = r->ask.order,
                               .node = r->node, .nodemask = r->ask.nodemask, .error = error,
                               .caller = r->caller, .d = d};
    if (!hooks || !hooks->failure || (r->ask.gfp & DECKLE_GFP_NOWARN) ||
        dk_task_context(r->ask.task) == DECKLE_CONTEXT_NMI)
        return;
    if (!may_report(d, hooks)) {
        dk_a32_add_relaxed(&d->suppressed, 1);
        return;
    }
    f.suppressed = dk_a32_exchange(&d->suppressed, 0);
    dk_task_nodes(r->ask.task, DECKLE_GFP_HARDWALL, 0, true, &f.mems_allowed);
    dk_count(d, DK_EVENT_FAILURE_REPORT, 1);
    hooks->failure(hooks->ctx, &f);
}

/* ---- text ------------------------------------------------------------------------------------ */

static const struct {
    uint32_t gfp;
    const char *name;
} gfp_names[] = {
    /* Combinations first, the larger ones before their parts. */
    {DECKLE_GFP_TRANSHUGE, "GFP_TRANSHUGE"},
    {DECKLE_GFP_TRANSHUGE_LIGHT, "GFP_TRANSHUGE_LIGHT"},
    {DECKLE_GFP_HIGHUSER_MOVABLE, "GFP_HIGHUSER_MOVABLE"},
    {DECKLE_GFP_HIGHUSER, "GFP_HIGHUSER"},
    {DECKLE_GFP_USER, "GFP_USER"},
    {DECKLE_GFP_KERNEL_ACCOUNT, "GFP_KERNEL_ACCOUNT"},
    {DECKLE_GFP_KERNEL, "GFP_KERNEL"},
    {DECKLE_GFP_NOFS, "GFP_NOFS"},
    {DECKLE_GFP_ATOMIC, "GFP_ATOMIC"},
    {DECKLE_GFP_NOIO, "GFP_NOIO"},
    {DECKLE_GFP_NOWAIT, "GFP_NOWAIT"},
    {DECKLE_GFP_DMA, "GFP_DMA"},
    {DECKLE_GFP_HIGHMEM, "__GFP_HIGHMEM"},
    {DECKLE_GFP_DMA32, "GFP_DMA32"},
    {DECKLE_GFP_MOVABLE, "__GFP_MOVABLE"},
    {DECKLE_GFP_RECLAIMABLE, "__GFP_RECLAIMABLE"},
    {DECKLE_GFP_HIGH, "__GFP_HIGH"},
    {DECKLE_GFP_IO, "__GFP_IO"},
    {DECKLE_GFP_FS, "__GFP_FS"},
    {DECKLE_GFP_ZERO, "__GFP_ZERO"},
    {DECKLE_GFP_DIRECT_RECLAIM, "__GFP_DIRECT_RECLAIM"},
    {DECKLE_GFP_KSWAPD_RECLAIM, "__GFP_KSWAPD_RECLAIM"},
    {DECKLE_GFP_WRITE, "__GFP_WRITE"},
    {DECKLE_GFP_NOWARN, "__GFP_NOWARN"},
    {DECKLE_GFP_RETRY_MAYFAIL, "__GFP_RETRY_MAYFAIL"},
    {DECKLE_GFP_NOFAIL, "__GFP_NOFAIL"},
    {DECKLE_GFP_NORETRY, "__GFP_NORETRY"},
    {DECKLE_GFP_MEMALLOC, "__GFP_MEMALLOC"},
    {DECKLE_GFP_COMP, "__GFP_COMP"},
    {DECKLE_GFP_NOMEMALLOC, "__GFP_NOMEMALLOC"},
    {DECKLE_GFP_HARDWALL, "__GFP_HARDWALL"},
    {DECKLE_GFP_THISNODE, "__GFP_THISNODE"},
    {DECKLE_GFP_ACCOUNT, "__GFP_ACCOUNT"},
    {DECKLE_GFP_ZEROTAGS, "__GFP_ZEROTAGS"},
    {DECKLE_GFP_SKIP_ZERO, "__GFP_SKIP_ZERO"},
    {DECKLE_GFP_SKIP_KASAN, "__GFP_SKIP_KASAN"},
    {DECKLE_GFP_NOLOCKDEP, "__GFP_NOLOCKDEP"},
    {DECKLE_GFP_NO_OBJ_EXT, "__GFP_NO_OBJ_EXT"},
};

static void put_gfp(struct dk_text *t, uint32_t gfp)
{
    const char *bar = "";
    dk_text_printf(t, "0x%x(", gfp);
    for (size_t i = 0; i < DK_ARRAY_LEN(gfp_names); i++) {
        if ((gfp & gfp_names[i].gfp) != gfp_names[i].gfp)
            continue;
        dk_text_printf(t, "%s%s", bar, gfp_names[i].name);
        gfp &= ~gfp_names[i].gfp;
        bar = "|";
    }
    dk_text_puts(t, *bar ? ")" : "0)");
}

static void put_nodes(struct dk_text *t, const struct deckle *d, uint64_t mask)
{
    const char *comma = "";
    if (!mask) {
        dk_text_puts(t, "(null)");
        return;
    }
    for (uint32_t node = 0; node < d->sb->nr_nodes; node++) {
        if (!(mask >> node & 1))
            continue;
        dk_text_printf(t, "%s%u", comma, node);
        comma = ",";
    }
}

static void put_kilobytes(struct dk_text *t, const struct deckle *d, const char *name,
                          uint64_t frames)
{
    dk_text_printf(t, " %s:%llukB", name, DK_LLU(frames << (d->sb->page_shift - 10)));
}

static void put_zone(struct dk_text *t, const struct deckle *d, const struct dk_zone *z)
{
    dk_text_printf(t, "Node %u %s", z->node, dk_zone_type_name(z->type));
    put_kilobytes(t, d, "free", dk_zone_free_exact(d, z));
    put_kilobytes(t, d, "boost", dk_load_relaxed(&z->boost));
    put_kilobytes(t, d, "min", dk_load_relaxed(&z->min));
    put_kilobytes(t, d, "low", dk_load_relaxed(&z->low));
    put_kilobytes(t, d, "high", dk_load_relaxed(&z->high));
    put_kilobytes(t, d, "reserved_highatomic", dk_zone_count(d, z, DK_COUNT_HIGHATOMIC));
    put_kilobytes(t, d, "managed", dk_load_relaxed(&z->managed));
    put_kilobytes(t, d, "free_cma", dk_zone_count(d, z, DK_COUNT_FREE_CMA));
    dk_text_puts(t, "\nlowmem_reserve[]:");
    for (unsigned i = 0; i < DECKLE_NR_ZONE_TYPES; i++)
        dk_text_printf(t, " %llu", DK_LLU(dk_load_relaxed(&z->lowmem_reserve[i])));
    dk_text_puts(t, "\n");
}

static void put_blocks(struct dk_text *t, const struct deckle *d, const struct dk_zone *z)
{
    uint64_t blocks[DK_NR_ORDERS];
    dk_zone_free_blocks(d, z, DK_ANY_TYPE, blocks);
    dk_text_printf(t, "Node %u %s:", z->node, dk_zone_type_name(z->type));
    for (unsigned order = 0; order <= d->max_order; order++)
        dk_text_printf(t, " %llu*%llukB", DK_LLU(blocks[order]),
                       DK_LLU(UINT64_C(1) << (order + d->sb->page_shift - 10)));
    dk_text_puts(t, "\n");
}

void deckle_print_failure(const struct deckle_failure *failure, deckle_emit_fn emit, void *ctx)
{
    char buf[DK_TEXT_BUFFER];
    const struct deckle *d = failure->d;
    const struct dk_zone *z;
    uint32_t position = 0;
    struct dk_text t;

    dk_text_begin(&t, buf, sizeof(buf), emit, ctx);
    if (failure->suppressed)
        dk_text_printf(&t, "page allocation failure: %u callbacks suppressed\n",
                       failure->suppressed);
    dk_text_printf(&t, "page allocation failure: order:%u, mode:", failure->order);
    put_gfp(&t, failure->gfp);
    dk_text_puts(&t, ", nodemask=");
    put_nodes(&t, d, failure->nodemask);
    dk_text_puts(&t, ",mems_allowed=");
    put_nodes(&t, d, failure->mems_allowed);
    dk_text_printf(&t, ": %s\nMem-Info:\n", deckle_error_name(failure->error));
    while ((z = dk_text_next_zone(d, &position, true)))
        put_zone(&t, d, z);
    position = 0;
    while ((z = dk_text_next_zone(d, &position, true)))
        put_blocks(&t, d, z);
    dk_text_end(&t);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* Linux's names in /proc/vmstat; those with deckle_ have no counterpart there. */
static const char *const event_names[DK_NR_EVENTS] = {
    [DK_EVENT_ALLOCSTALL] = "allocstall",
    [DK_EVENT_PGSCAN_DIRECT] = "pgscan_direct",
    [DK_EVENT_PGSTEAL_DIRECT] = "pgsteal_direct",
    [DK_EVENT_PGSCAN_KSWAPD] = "pgscan_kswapd",
    [DK_EVENT_PGSTEAL_KSWAPD] = "pgsteal_kswapd",
    [DK_EVENT_PAGEOUTRUN] = "pageoutrun",
    [DK_EVENT_KSWAPD_WAKE] = "deckle_kswapd_wake",
    [DK_EVENT_KSWAPD_HOPELESS] = "deckle_kswapd_hopeless",
    [DK_EVENT_OOM_KILL] = "oom_kill",
    [DK_EVENT_ZONE_RECLAIM_SUCCESS] = "zone_reclaim_success",
    [DK_EVENT_ZONE_RECLAIM_FAILED] = "zone_reclaim_failed",
    [DK_EVENT_COMPACT_STALL] = "compact_stall",
    [DK_EVENT_COMPACT_FAIL] = "compact_fail",
    [DK_EVENT_COMPACT_SUCCESS] = "compact_success",
    [DK_EVENT_COMPACT_DEFERRED] = "deckle_compact_deferred",
    [DK_EVENT_COMPACT_MIGRATE_SCANNED] = "compact_migrate_scanned",
    [DK_EVENT_COMPACT_FREE_SCANNED] = "compact_free_scanned",
    [DK_EVENT_COMPACT_ISOLATED] = "compact_isolated",
    [DK_EVENT_COMPACT_CAPTURED] = "deckle_compact_captured",
    [DK_EVENT_COMPACT_DAEMON_WAKE] = "compact_daemon_wake",
    [DK_EVENT_COMPACT_DAEMON_PROACTIVE] = "deckle_compact_proactive",
    [DK_EVENT_PGMIGRATE_SUCCESS] = "pgmigrate_success",
    [DK_EVENT_PGMIGRATE_FAIL] = "pgmigrate_fail",
    [DK_EVENT_HIGHATOMIC_RELEASE] = "deckle_highatomic_release",
    [DK_EVENT_PFMEMALLOC] = "deckle_pfmemalloc",
    [DK_EVENT_NOFAIL_WAIT] = "deckle_nofail_wait",
    [DK_EVENT_CHEAP_FAIL] = "deckle_cheap_fail",
    [DK_EVENT_FAILURE_REPORT] = "deckle_failure_report",
};

int deckle_vmstat(const struct deckle *d, uint32_t index, const char **name, uint64_t *value)
{
    if (index >= DK_NR_EVENTS)
        return DECKLE_ENOENT;
    if (name)
        *name = event_names[index];
    if (value)
        *value = dk_counter_read(&d->sb->events[index]);
    return DECKLE_OK;
}
