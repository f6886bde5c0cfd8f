/* SPDX-License-Identifier: MIT */
/* A replay as JSON: docs/formats/replay.md describes each field. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "json_out.h"
#include "replay.h"
#include "trace_report.h"

static void add_array(cJSON *object, const char *key, const uint64_t *values, unsigned int nr)
{
    cJSON *array = cJSON_AddArrayToObject(object, key);
    char text[24];

    for (unsigned int i = 0; i < nr; i++) {
        snprintf(text, sizeof(text), "%" PRIu64, values[i]);
        cJSON_AddItemToArray(array, cJSON_CreateRaw(text));
    }
}

static void add_how(cJSON *run, const struct replay_report *r)
{
    cJSON *o = json_add_object(run, "how");

    cJSON_AddStringToObject(o, "order", r->options->free_running ? "free-running" : "file");
    json_add_u64(o, "threads", r->result->threads);
    json_add_u64(o, "cpus", r->pool->nr_cpus);
    json_add_u64(o, "nodes", r->pool->nodes);
    json_add_u64(o, "repeat", r->options->repeat);
    json_add_u64(o, "rounds", r->result->rounds);
    cJSON_AddBoolToObject(o, "zero", r->options->zero);
    cJSON_AddStringToObject(o, "caches", deckle_cache_kind(r->pool->d));
    cJSON_AddBoolToObject(o, "interrupted", r->result->interrupted);
    json_add_u64(o, "elapsed_ns", r->result->elapsed_ns);
}

static void add_memory(cJSON *run, const struct replay_report *r)
{
    cJSON *o = json_add_object(run, "memory");

    json_add_u64(o, "managed_frames", r->pool->managed);
    json_add_u64(o, "reserve_frames", r->pool->reserves);
    json_add_u64(o, "peak_frames", r->plan->counts.peak_frames);
    json_add_u64(o, "adopted_frames", r->plan->counts.adopted_frames);
    json_add_u64(o, "peak_frames_of_run", r->result->counts.peak_frames);
    json_add_u64(o, "metadata_bytes", r->pool->metadata_bytes);
    json_add_u64(o, "live_frames", r->result->live_frames);
    json_add_u64(o, "live_blocks", r->result->live_blocks);
}

static void add_events(cJSON *run, const struct replay_report *r)
{
    const struct replay_counts *c = &r->result->counts;
    const struct replay_plan_counts *p = &r->plan->counts;
    cJSON *o = json_add_object(run, "played");

    json_add_u64(o, "events", c->events);
    json_add_u64(o, "allocs", c->allocs);
    json_add_u64(o, "frees", c->frees);
    json_add_u64(o, "splits", c->splits);
    json_add_u64(o, "remote_frees", c->remote);
    json_add_u64(o, "adopted_frees", c->adopted);
    json_add_u64(o, "adopted_blocks", p->adopted_blocks);
    json_add_u64(o, "piece_frees", c->pieces);
    json_add_u64(o, "several_frees", c->several);
    json_add_u64(o, "lost_frees", c->lost);
    json_add_u64(o, "frees_of_nothing", c->nothing_to_free);
    json_add_u64(o, "waits_for_block", c->waits_block);
    json_add_u64(o, "waits_for_memory", c->waits_memory);
    json_add_u64(o, "left_node", c->left_node);
    json_add_u64(o, "illegal_requests", p->illegal);
    json_add_u64(o, "zone_bits_dropped", p->zone_bits);
    json_add_u64(o, "unknown_bits_dropped", p->unknown_bits);
    json_add_u64(o, "type_differs", p->type_differs);
    json_add_u64(o, "made_plain", p->dissolved);
    json_add_u64(o, "misplaced", p->misplaced);
}

static void add_failures(cJSON *run, const struct replay_report *r)
{
    cJSON *o = json_add_object(run, "failures");

    for (int e = 1; e < 32; e++)
        if (r->result->counts.failures[e] > 0)
            json_add_u64(o, deckle_error_name(-e), r->result->counts.failures[e]);
}

static void add_times_of(cJSON *object, const char *key, const struct replay_report *r,
                         const struct histogram *h)
{
    cJSON *o = json_add_object(object, key);
    double ns = 1 / r->result->ticks_per_ns;

    json_add_u64(o, "calls", h->count);
    if (h->count == 0)
        return;
    cJSON_AddNumberToObject(o, "min_ns", (double)h->least * ns);
    cJSON_AddNumberToObject(o, "mean_ns", (double)h->sum / (double)h->count * ns);
    cJSON_AddNumberToObject(o, "median_ns", (double)histogram_quantile(h, 1, 2) * ns);
    cJSON_AddNumberToObject(o, "p99_ns", (double)histogram_quantile(h, 99, 100) * ns);
    cJSON_AddNumberToObject(o, "p999_ns", (double)histogram_quantile(h, 999, 1000) * ns);
    cJSON_AddNumberToObject(o, "max_ns", (double)h->most * ns);
}

static void add_times(cJSON *object, const char *key, const struct replay_report *r,
                      const struct histogram of[REPLAY_NR_ORDERS])
{
    struct histogram all;
    cJSON *orders;

    replay_merge_orders(&all, of);
    add_times_of(object, key, r, &all);
    orders = json_add_object(cJSON_GetObjectItem(object, key), "by_order");
    for (uint32_t i = 0; i < REPLAY_NR_ORDERS; i++) {
        char order[16];

        if (of[i].count == 0)
            continue;
        snprintf(order, sizeof(order), "%" PRIu32, i);
        add_times_of(orders, order, r, &of[i]);
    }
}

static void add_shared(cJSON *run, const struct replay_report *r)
{
    const struct replay_zones *z = &r->result->after;
    cJSON *o = json_add_object(run, "shared_level");

    json_add_u64(o, "refills", z->refills);
    json_add_u64(o, "refill_frames", z->refill_frames);
    json_add_u64(o, "drains", z->drains);
    json_add_u64(o, "drain_frames", z->drain_frames);
    json_add_u64(o, "fallback_claims", z->claims);
    json_add_u64(o, "fallback_steals", z->steals);
    json_add_u64(o, "cached_frames", z->cached);
}

static void add_free(cJSON *run, const struct replay_report *r)
{
    const struct replay_zones *z = &r->result->drained;
    uint32_t nr = r->pool->max_order + 1;
    cJSON *o = json_add_object(run, "free"), *unusable;

    add_array(o, "blocks_before_by_order", r->result->before.blocks, nr);
    add_array(o, "blocks_after_by_order", z->blocks, nr);
    unusable = cJSON_AddArrayToObject(o, "unusable_by_order");
    for (uint32_t i = 0; i < nr; i++)
        cJSON_AddItemToArray(unusable, cJSON_CreateNumber(replay_unusable(z, i) / 10000.0));
    json_add_u64(o, "free_frames", z->free);
    json_add_u64(o, "huge_blocks", replay_free_huge(z));
    json_add_u64(o, "huge_blocks_possible", z->free / 512);
}

static void add_checks(cJSON *run, const struct replay_report *r)
{
    const struct replay_counts *c = &r->result->counts;
    cJSON *o = json_add_object(run, "checks");

    cJSON_AddBoolToObject(o, "clean", !replay_faulty(r));
    json_add_u64(o, "failed_allocs", replay_failures(r));
    json_add_u64(o, "failed_adoptions", r->result->adopt_failures);
    json_add_u64(o, "refused_frees", c->refused);
    json_add_u64(o, "reports", r->pool->bad);
    json_add_u64(o, "frames_with_two_owners", c->two_owners);
    json_add_u64(o, "frames_not_zero", c->not_zero);
    json_add_u64(o, "first_fault_line", c->fault_line);
    json_add_u64(o, "first_failure_line", c->failure_line);
    if (r->result->invalid[0] != '\0')
        cJSON_AddStringToObject(o, "contradiction", r->result->invalid);
    else
        cJSON_AddNullToObject(o, "contradiction");
}

cJSON *replay_json(const struct replay_report *r)
{
    cJSON *run = cJSON_CreateObject(), *times;

    trace_json_facts(run, r->facts, r->totals);
    add_how(run, r);
    add_memory(run, r);
    add_events(run, r);
    add_failures(run, r);
    times = json_add_object(run, "times");
    add_times(times, "alloc", r, r->result->allocs);
    add_times(times, "free", r, r->result->frees);
    cJSON_AddNumberToObject(times, "clock_ns", r->result->clock_ticks / r->result->ticks_per_ns);
    cJSON_AddNumberToObject(times, "clock_step_ns",
                            (double)r->result->clock_step / r->result->ticks_per_ns);
    add_shared(run, r);
    add_free(run, r);
    add_checks(run, r);
    return run;
}
