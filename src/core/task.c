/* SPDX-License-Identifier: MIT */
/*
 * Who asks: scopes, contexts, cpusets of a task, and the mark that it is reclaiming (reference: 3.1
 * scopes, 3.4 reserves, 3.12 cpusets).
 *
 * mems_allowed is read while others may change it. The cookie is odd during a change and advances
 * with it; a reader does not wait: it uses what it finds, and if its request fails it compares
 * cookies and starts again (slowpath.c). A changer that is stopped half-way delays nobody.
 */
#include "base/mem.h"
#include "core/pressure.h"
#include "policy/gfp.h"

/* Fields of the public struct that several threads touch, as atomics of the same layout. */
static dk_a32 *cookie_of(const struct deckle_task *task)
{
    return (dk_a32 *)(uintptr_t)&task->mems_cookie;
}

static uint64_t load_mask(const uint64_t *mask)
{
    const dk_aword *word = (const dk_aword *)(uintptr_t)mask;
#if DK_WORD_BITS == 64
    return dk_load_relaxed(word);
#else
    uint64_t v;
    dk_word half[2] = {dk_load_relaxed(&word[0]), dk_load_relaxed(&word[1])};
    memcpy(&v, half, sizeof(v)); /* whichever half is first on this machine */
    return v;
#endif
}

static void store_mask(uint64_t *mask, uint64_t v)
{
    dk_aword *word = (dk_aword *)(uintptr_t)mask;
#if DK_WORD_BITS == 64
    dk_store_relaxed(word, v);
#else
    dk_word half[2];
    memcpy(half, &v, sizeof(v));
    dk_store_relaxed(&word[0], half[0]);
    dk_store_relaxed(&word[1], half[1]);
#endif
}

void deckle_task_set_mems(struct deckle_task *task, uint64_t allowed, uint64_t ancestor)
{
    dk_a32 *cookie = cookie_of(task);
    uint32_t was = dk_a32_load_relaxed(cookie);

    while (!dk_a32_cas(cookie, &was, was | 1))
        continue;
    store_mask(&task->mems_allowed, allowed);
    store_mask(&task->mems_ancestor, ancestor);
    dk_a32_exchange(cookie, (was | 1) + 1);
}

uint32_t dk_task_cookie(const struct deckle_task *task)
{
    return task ? dk_a32_load_seq(cookie_of(task)) : 0;
}

struct dk_requester dk_task_requester(const struct deckle_task *task, bool oom_victim)
{
    uint32_t flags = dk_task_flags(task), context = dk_task_context(task);
    return (struct dk_requester){
        .context = context >= DECKLE_CONTEXT_INTERRUPT ? DK_CONTEXT_INTERRUPT
                   : context                           ? DK_CONTEXT_SOFTIRQ
                                                       : DK_CONTEXT_TASK,
        .realtime = flags & DECKLE_TASK_REALTIME,
        .memalloc = flags & (DECKLE_TASK_MEMALLOC | DECKLE_TASK_RECLAIM),
        .oom_victim = oom_victim || (flags & DECKLE_TASK_OOM_VICTIM),
    };
}

/* Only a task can sleep. */
uint32_t dk_task_gfp(const struct deckle *d, const struct deckle_task *task, uint32_t gfp)
{
    uint32_t flags = dk_task_flags(task), mask = ~dk_a32_load_relaxed(&d->gfp_denied);
    unsigned scopes = (flags & DECKLE_TASK_NOIO ? DK_SCOPE_NOIO : 0) |
                      (flags & DECKLE_TASK_NOFS ? DK_SCOPE_NOFS : 0) |
                      (flags & DECKLE_TASK_PIN ? DK_SCOPE_PIN : 0);

    if (dk_task_context(task) != DECKLE_CONTEXT_TASK)
        mask &= ~DECKLE_GFP_DIRECT_RECLAIM;
    return dk_gfp_mask_scopes(gfp, scopes, mask);
}

/* Reference 3.12: interrupts and victims anywhere; the own set; with HARDWALL nothing else; exiting
 * tasks anywhere; the ancestor's set. */
static uint64_t allowed_nodes(const struct deckle_task *task, uint32_t gfp, bool hardwall)
{
    uint64_t own = task ? load_mask(&task->mems_allowed) : 0;
    uint32_t flags = dk_task_flags(task);

    if (!own || dk_task_context(task) >= DECKLE_CONTEXT_INTERRUPT)
        return UINT64_MAX;
    if (hardwall)
        return own;
    if (flags & DECKLE_TASK_OOM_VICTIM)
        return UINT64_MAX;
    if (gfp & DECKLE_GFP_HARDWALL)
        return own;
    return flags & DECKLE_TASK_EXITING ? UINT64_MAX : own | load_mask(&task->mems_ancestor);
}

bool dk_task_nodes(const struct deckle_task *task, uint32_t gfp, uint64_t nodemask, bool hardwall,
                   uint64_t *nodes)
{
    uint64_t both = (nodemask ? nodemask : UINT64_MAX) & allowed_nodes(task, gfp, hardwall);

    *nodes = both == UINT64_MAX ? 0 : both;
    return both != 0;
}

bool dk_reclaim_enter(struct deckle *d, struct deckle_task *task, struct dk_reclaim_scope *scope)
{
    scope->task = task;
    if (!task) {
        uint32_t n = dk_a32_load_relaxed(&d->anonymous);
        do {
            if (n >= DECKLE_ANONYMOUS_RECLAIMERS)
                return false;
        } while (!dk_a32_cas(&d->anonymous, &n, n + 1));
        scope->anonymous = (struct deckle_task){.size = sizeof(scope->anonymous)};
        scope->anonymous.flags = DECKLE_TASK_RECLAIM;
        scope->task = &scope->anonymous;
        return true;
    }
    if (task->flags & DECKLE_TASK_RECLAIM)
        return false;
    task->flags |= DECKLE_TASK_RECLAIM;
    return true;
}

void dk_reclaim_leave(struct deckle *d, struct dk_reclaim_scope *scope)
{
    if (scope->task == &scope->anonymous)
        dk_a32_add_relaxed(&d->anonymous, (uint32_t)-1);
    else
        scope->task->flags &= ~DECKLE_TASK_RECLAIM;
}

void dk_wait(const struct deckle *d, enum deckle_wait why, uint64_t ns)
{
    const struct deckle_pressure_hooks *hooks = dk_hooks(d);

    if (hooks && hooks->wait)
        hooks->wait(hooks->ctx, why, ns);
    else
        dk_fence_seq();
}

/* ---- what the host supplies -------- */

uint32_t deckle_set_gfp_allowed_mask(struct deckle *d, uint32_t mask)
{
    uint32_t was = dk_a32_load_relaxed(&d->gfp_denied);

    while (!dk_a32_cas(&d->gfp_denied, &was, ~mask & DECKLE_GFP_ALL))
        continue;
    return ~was;
}
