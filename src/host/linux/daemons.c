/* SPDX-License-Identifier: MIT */
/*
 * Background reclaim and compaction on Linux: two threads for each node with memory, named as the
 * kernel's; and the hooks that the host adds to those of the user.
 *
 * A thread sleeps on a semaphore, which the wake hook posts: that may happen in a signal handler,
 * where sem_post is allowed. The threads take no signals. They end with the pool; after fork they
 * exist in the parent alone, and the child's pool has no background work.
 *
 * A thread's task lies in thread-local storage: that of a library that is loaded with the program,
 * so that its first use, which may be in a signal handler, allocates nothing.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "host/linux/hosted.h"

#define PROACTIVE_MS 500

struct daemon {
    struct hosted *h;
    struct deckle *d;
    pthread_t thread;
    sem_t wake;
    uint32_t node;
    enum deckle_daemon kind;
    bool started;
};

struct daemons {
    pid_t pid;
    uint32_t nr;      /* nodes */
    dk_a32 stop;
    struct daemon each[][2]; /* by node, kind */
};

static _Thread_local __attribute__((tls_model("initial-exec"))) struct deckle_task own_task = {
    .size = sizeof(struct deckle_task)};

struct deckle_task *deckle_current_task(void)
{
    return &own_task;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static struct deckle_task *task(void *ctx)
{
    const struct hosted *h = ctx;
    return h->user.task ? h->user.task(h->user.ctx) : &own_task;
}

static uint64_t now(void *ctx)
{
    const struct hosted *h = ctx;
    struct timespec t = {0};

    if (h->user.now)
        return h->user.now(h->user.ctx);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void wait(void *ctx, enum deckle_wait why, uint64_t ns)
{
    const struct hosted *h = ctx;
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    int error = errno;

    if (h->user.wait)
        h->user.wait(h->user.ctx, why, ns);
    else if (ns)
        nanosleep(&t, NULL);
    else
        sched_yield();
    errno = error;
}

static void wake(void *ctx, uint32_t node, enum deckle_daemon kind)
{
    const struct hosted *h = ctx;
    struct daemons *all = h->daemons;
    int error = errno;

    if (!all && h->user.wake)
        h->user.wake(h->user.ctx, node, kind);
    else if (all && node < all->nr && all->each[node][kind].started)
        sem_post(&all->each[node][kind].wake);
    errno = error;
}

static int oom(void *ctx, const struct deckle_oom *info)
{
    const struct hosted *h = ctx;
    return h->user.oom(h->user.ctx, info);
}

static bool dirty_ok(void *ctx, uint32_t node)
{
    const struct hosted *h = ctx;
    return h->user.dirty_ok(h->user.ctx, node);
}

static int migrate(void *ctx, const struct deckle_migration *migration)
{
    const struct hosted *h = ctx;
    return h->user.migrate(h->user.ctx, migration);
}

static void emit(void *ctx, const char *text, size_t len)
{
    (void)ctx;
    while (len) {
        ssize_t n = write(STDERR_FILENO, text, len);
        if (n <= 0)
            return;
        text += n;
        len -= (size_t)n;
    }
}

static void failure(void *ctx, const struct deckle_failure *f)
{
    const struct hosted *h = ctx;
    int error = errno;

    if (h->user.failure)
        h->user.failure(h->user.ctx, f);
    else if (!(h->flags & DECKLE_CREATE_QUIET))
        deckle_print_failure(f, emit, NULL);
    errno = error;
}

/* What the user left out the host supplies; what only he can do stays out if he left it out. */
static void combine(struct hosted *h)
{
    h->hooks = (struct deckle_pressure_hooks){
        .size = sizeof(h->hooks), .ctx = h, .flags = h->user.flags, .task = task, .now = now,
        .wait = wait, .failure = failure,
        .wake = h->daemons || h->user.wake ? wake : NULL,
        .oom = h->user.oom ? oom : NULL,
        .dirty_ok = h->user.dirty_ok ? dirty_ok : NULL,
        .migrate = h->user.migrate ? migrate : NULL};
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Until it is woken; background compaction also looks every half second by itself. */
static void sleep_until_woken(struct daemon *me)
{
    struct timespec until;

    if (me->kind == DECKLE_KSWAPD) {
        while (sem_wait(&me->wake) && errno == EINTR)
            continue;
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += PROACTIVE_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (sem_timedwait(&me->wake, &until) && errno == EINTR)
        continue;
}

static void *run(void *arg)
{
    struct daemon *me = arg;
    struct daemons *all = me->h->daemons;

    while (!dk_a32_load_acquire(&all->stop)) {
        int more = me->kind == DECKLE_KSWAPD ? deckle_reclaim_step(me->d, me->node, &own_task)
                                             : deckle_compact_step(me->d, me->node, &own_task);
        if (more <= 0)
            sleep_until_woken(me);
        else
            sched_yield();
    }
    return NULL;
}

static bool start_one(struct daemon *me)
{
    static const char *const names[] = {[DECKLE_KSWAPD] = "kswapd",
                                        [DECKLE_KCOMPACTD] = "kcompactd"};
    char name[16];
    struct dk_text t;

    if (sem_init(&me->wake, 0, 0))
        return false;
    if (pthread_create(&me->thread, NULL, run, me)) {
        sem_destroy(&me->wake);
        return false;
    }
    dk_text_begin(&t, name, sizeof(name), NULL, NULL);
    dk_text_printf(&t, "%s%u", names[me->kind], me->node);
    pthread_setname_np(me->thread, name);
    me->started = true;
    return true;
}

static bool start_all(struct hosted *h, struct deckle *d, uint64_t nodes)
{
    struct daemons *all = h->daemons;
    sigset_t every, before;
    bool ok = true;

    sigfillset(&every);
    pthread_sigmask(SIG_SETMASK, &every, &before);
    for (uint32_t i = 0; i < 2 * all->nr && ok; i++) {
        struct daemon *me = &all->each[i / 2][i % 2];
        *me = (struct daemon){.h = h, .d = d, .node = i / 2, .kind = (enum deckle_daemon)(i % 2)};
        ok = !(nodes >> me->node & 1) || start_one(me);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

void hosted_stop_daemons(struct hosted *h)
{
    struct daemons *all = h->daemons;

    if (!all)
        return;
    dk_a32_store_release(&all->stop, 1);
    for (uint32_t i = 0; i < 2 * all->nr && all->pid == getpid(); i++) {
        struct daemon *me = &all->each[i / 2][i % 2];
        if (!me->started)
            continue;
        sem_post(&me->wake);
        pthread_join(me->thread, NULL);
        me->started = false;
        sem_destroy(&me->wake);
    }
    h->daemons = NULL;
    free(all);
}

int hosted_start_daemons(struct hosted *h, struct deckle *d, uint64_t nodes)
{
    bool threads = h->flags & DECKLE_CREATE_BACKGROUND;

    if (threads) {
        uint32_t nr = 0;
        while (nr < DECKLE_MAX_NODES && nodes >> nr)
            nr++;
        h->daemons = calloc(1, sizeof(struct daemons) + nr * sizeof(h->daemons->each[0]));
        if (!h->daemons)
            return DECKLE_EBACKING;
        h->daemons->nr = nr;
        h->daemons->pid = getpid();
    }
    if (!threads && !h->user.size)
        return DECKLE_OK;
    combine(h);
    deckle_set_pressure_hooks(d, &h->hooks);
    if (!threads || start_all(h, d, nodes))
        return DECKLE_OK;
    hosted_stop_daemons(h);
    return DECKLE_EBACKING;
}
