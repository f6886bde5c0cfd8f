/* SPDX-License-Identifier: MIT */
/* Names of places and values in a trace. */
#include "case.h"

#include <stdio.h>
#include <string.h>

#include "core/blockinfo.h"
#include "core/index.h"
#include "core/pcp_internal.h"

#define OFFSET(p, base) ((size_t)((uintptr_t)(p) - (uintptr_t)(base)))

static bool index_place(char *buf, size_t size, const volatile void *p)
{
    const struct deckle *d = sim_pool;
    for (uint32_t s = 0; s < dk_a32_load_relaxed(&d->sb->nr_spans); s++) {
        const struct dk_span *span = &d->spans[s];
        uint64_t word = OFFSET(p, d->index) / sizeof(dk_word) - span->index_word;
        if (OFFSET(p, d->index) / sizeof(dk_word) < span->index_word || word >= span->index_words)
            continue;
        if (word < d->sb->nr_trees) {
            snprintf(buf, size, "index tree %u root", (unsigned)word);
            return true;
        }
        uint32_t tree = 0;
        while (tree + 1 < d->sb->nr_trees && span->tree_word[tree + 1] <= word)
            tree++;
        uint32_t kind = tree < DK_GROUP_BASE ? 0 : tree - DK_GROUP_BASE + 1;
        const struct dk_shape *shape = &span->shape[kind];
        uint32_t at = (uint32_t)word - span->tree_word[tree], level = 0;
        while (level + 2 < shape->levels && shape->offset[level + 1] <= at)
            level++;
        snprintf(buf, size, "index tree %u %s%u word %u", tree, level ? "level " : "leaf ", level,
                 at - shape->offset[level]);
        return true;
    }
    return false;
}

static void list_place(char *buf, size_t size, unsigned cpu, size_t off)
{
    static const struct {
        size_t at;
        const char *name;
    } fields[] = {{offsetof(struct dk_pcp_list_head, head), "head"},
                  {offsetof(struct dk_pcp_list_head, high), "high"},
                  {offsetof(struct dk_pcp_list_head, high_base), "high_base"},
                  {offsetof(struct dk_pcp_list_head, alloc_factor), "alloc_factor"},
                  {offsetof(struct dk_pcp_list_head, free_count), "free_count"},
                  {offsetof(struct dk_pcp_list_head, live), "live"},
                  {offsetof(struct dk_pcp_list_head, seen), "seen"},
                  {offsetof(struct dk_pcp_list_head, adjust), "adjust"},
                  {offsetof(struct dk_pcp_list_head, refilled), "refilled"},
                  {offsetof(struct dk_pcp_list_head, drained), "drained"}};
    unsigned list = DK_PCP_LISTS;
    while (list-- > 0 && off < sim_pool->list_off[list])
        continue;
    if (list >= DK_PCP_LISTS) {
        if (off == offsetof(struct dk_pcp_set, free_delta))
            snprintf(buf, size, "free_delta of cpu %u", cpu);
        else if (off >= offsetof(struct dk_pcp_set, current_block) &&
                 off < offsetof(struct dk_pcp_set, stage))
            snprintf(buf, size, "current block of cpu %u", cpu);
        else
            snprintf(buf, size, "counters of cpu %u +%zu", cpu, off);
        return;
    }
    off -= sim_pool->list_off[list];
    if (off >= DK_LINE_BYTES) {
        size_t slot = sim_pool->kind == DK_PCP_RSEQ ? 4 : sizeof(dk_word);
        snprintf(buf, size, "%s %zu of cpu %u list %u", slot == 4 ? "slot" : "cell",
                 (off - DK_LINE_BYTES) / slot, cpu, list);
        return;
    }
    for (unsigned i = sizeof(fields) / sizeof(fields[0]); i-- > 0;) {
        if (off >= fields[i].at) {
            snprintf(buf, size, "%s of cpu %u list %u", fields[i].name, cpu, list);
            return;
        }
    }
}

void sim_place(char *buf, size_t size, const volatile void *p)
{
    const struct deckle *d = sim_pool;
    size_t blocks = (size_t)(sim_frames / 512), at;
    if ((at = OFFSET(p, d->words)) < blocks * sizeof(dk_word))
        snprintf(buf, size, "W of block %zu", at / sizeof(dk_word));
    else if ((at = OFFSET(p, d->lines)) < blocks * DK_LINE_BYTES)
        snprintf(buf, size, "line word %zu of block %zu", at % DK_LINE_BYTES / sizeof(dk_word),
                 at / DK_LINE_BYTES);
    else if ((at = OFFSET(p, d->state)) < sim_frames)
        snprintf(buf, size, "state of frame %zu", at);
    else if (d->pcp && (at = OFFSET(p, dk_set(d, d->main_zone, 0))) <
                           (size_t)d->set_bytes * d->nr_cpus)
        list_place(buf, size, (unsigned)(at / d->set_bytes), at % d->set_bytes);
    else if ((at = OFFSET(p, d->zones)) < d->sb->nr_zones * sizeof(struct dk_zone))
        snprintf(buf, size, "zone %zu +%zu", at / sizeof(struct dk_zone),
                 at % sizeof(struct dk_zone));
    else if ((at = OFFSET(p, d)) < sizeof(*d))
        snprintf(buf, size, "handle +%zu", at);
    else if (!index_place(buf, size, p))
        snprintf(buf, size, "superblock +%zu", OFFSET(p, d->sb));
}

/* W is written out; index words and live as children and version; the rest in hexadecimal. */
void sim_value(char *buf, size_t size, const volatile void *p, uint64_t v)
{
    const struct deckle *d = sim_pool;
    size_t blocks = (size_t)(sim_frames / 512);
    if (OFFSET(p, d->words) >= blocks * sizeof(dk_word)) {
        snprintf(buf, size, "%#llx", (unsigned long long)v);
        return;
    }
    dk_word w = (dk_word)v;
    snprintf(buf, size, "{%u used, type %u, run %d%s%s%s%s, v%llu}", dk_w_used(w), dk_w_type(w),
             9 - (int)dk_w_run_code(w), w & DK_W_OWNED ? ", owned" : "",
             w & DK_W_WHOLE ? ", whole" : "", w & DK_W_ISOLATED ? ", isolated" : "",
             w & DK_W_OFFLINE ? ", offline" : "", (unsigned long long)(w / DK_W_VERSION_ONE));
}

void sim_print_event(const struct sim_event *e)
{
    static const char *const kinds[] = {"load", "store", "update", "fence", "hook", "cpu"};
    static const char *const orders[] = {"relaxed", "acquire", "release", "seq"};
    char place[80] = "", old[100], new[100];
    printf("%6u  thread %u%s cpu %u  ", e->step, e->thread,
           e->depth ? e->depth > 1 ? " handler 2" : " handler" : "", e->cpu);
    if (e->kind == SIM_NOTE) {
        printf("-- %s\n", e->note);
        return;
    }
    if (e->size)
        sim_place(place, sizeof(place), e->p);
    sim_value(old, sizeof(old), e->p, e->old);
    sim_value(new, sizeof(new), e->p, e->new);
    printf("%-6s %-7s  %-28s ", kinds[e->kind],
           e->order == SIM_CAS_FAILED ? "fails" : orders[e->order & 3], place);
    if (e->size)
        printf(e->old == e->new ? "%s" : "%s -> %s", old, new);
    printf("%s%s\n", e->note ? "  " : "", e->note ? e->note : "");
}
