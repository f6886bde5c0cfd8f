/* SPDX-License-Identifier: MIT */
/*
 * deckle/pressure.h - what happens when memory is short or in pieces, and what the host can do
 * about it.
 *
 * A pool without hooks and shrinkers fails a request as soon as nothing that fits is free. With
 * them it goes the way of the Linux page allocator: it wakes background reclaim, compacts, reclaims
 * by itself, drains, retries, has somebody killed, and only then fails (docs/design/pressure.md has
 * the order). The allocator decides when; the host does it:
 *
 *     shrinkers   free frames that a cache can do without
 *     migrate     moves the contents of a Movable block to another frame
 *     wake, wait, now, oom, failure, dirty_ok, task      the host's scheduler, clock and policy
 *
 *     static const struct deckle_shrinker cache = {.size = sizeof(cache), .count = …, .scan = …};
 *     static const struct deckle_pressure_hooks hooks = {.size = sizeof(hooks), .wake = …};
 *     deckle_set_pressure_hooks(d, &hooks);
 *     deckle_register_shrinker(d, &cache);
 *
 * Nothing is held while a hook or shrinker runs: no lock, no block of anybody else, nothing that
 * another thread could wait for. It may allocate, free, fail, take its time, or never return; the
 * other threads go on. It may be called by several threads at once. Of the allocator itself a
 * thread inside a hook withholds its own operation: a migration the two blocks and the area that is
 * being emptied (at most 2^max_order frames).
 *
 * A request made inside a shrinker or a migrate or oom hook comes from a thread that is freeing
 * memory: it may use all reserves and never reclaims again. The allocator knows it by the task: the
 * one that the task hook returns, or the one that is handed to the callback (pass it on in
 * deckle_request.task). A host that does neither is safe from endless recursion all the same: at
 * most DECKLE_ANONYMOUS_RECLAIMERS requests without a task reclaim or compact at a time, the others
 * find nothing reclaimable.
 *
 * Context. Only requests with DECKLE_GFP_DIRECT_RECLAIM from task context call shrinkers, migrate,
 * wait and oom. task, dirty_ok, wake and failure may be called from wherever the host allocates,
 * but wake and failure not in an NMI.
 */
#ifndef DECKLE_PRESSURE_H
#define DECKLE_PRESSURE_H

#include <deckle.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------------------
 * Who asks
 */

/* deckle_task.flags. The task's own thread changes them, nobody else. */
#define DECKLE_TASK_MEMALLOC   (1u << 0) /* is freeing memory: may ignore watermarks, does not
                                          * reclaim itself */
#define DECKLE_TASK_NOIO       (1u << 1) /* its requests act as if without IO and FS */
#define DECKLE_TASK_NOFS       (1u << 2) /* its requests act as if without FS */
#define DECKLE_TASK_PIN        (1u << 3) /* frames will be pinned: not MOVABLE */
#define DECKLE_TASK_REALTIME   (1u << 4) /* real-time or deadline: half of the min mark */
#define DECKLE_TASK_OOM_VICTIM (1u << 5) /* being killed to free memory: that reserve */
#define DECKLE_TASK_DUMPING    (1u << 6) /* writes a core dump: nobody is killed for it */
#define DECKLE_TASK_EXITING    (1u << 7) /* not bound by mems_allowed, but for HARDWALL */
#define DECKLE_TASK_RECLAIM    (1u << 8) /* set by the allocator while it reclaims for the task */

/* Where it asks from (deckle_task.context). */
enum deckle_context {
    DECKLE_CONTEXT_TASK = 0,
    DECKLE_CONTEXT_SOFTIRQ,   /* deferred work on top of a task: cannot sleep */
    DECKLE_CONTEXT_INTERRUPT, /* hard interrupt, signal handler: cannot sleep, not bound by
                               * mems_allowed, without the rights of the task it interrupts */
    DECKLE_CONTEXT_NMI        /* the same, and no hook but task and dirty_ok is called */
};

/*
 * A requester. One per thread, owned by it; all-zero but size means unrestricted. mems_allowed is
 * changed with deckle_task_set_mems alone, by anybody: a request that is about to fail looks at the
 * cookie and starts again if it moved.
 */
struct deckle_task {
    uint32_t size;          /* sizeof(struct deckle_task) */
    uint32_t flags;         /* DECKLE_TASK_… */
    uint32_t context;       /* enum deckle_context */
    uint32_t mems_cookie;   /* advances when mems_allowed changes */
    uint64_t mems_allowed;  /* bit per node id: the task's cpuset; 0 = all nodes */
    uint64_t mems_ancestor; /* what requests without HARDWALL may use beside it: the set of the
                             * nearest exclusive or hardwall ancestor; 0 = nothing more */
};

/* Change a task's nodes. Any thread, but one at a time for one task. */
DECKLE_API void deckle_task_set_mems(struct deckle_task *task, uint64_t allowed, uint64_t ancestor);

/* Begin and end a scope, as memalloc_*_save() and _restore() of Linux; they nest. save returns what
 * restore needs. Only the task's thread; a handful of instructions. */
static inline uint32_t deckle_task_scope_save(struct deckle_task *task, uint32_t flag)
{
    uint32_t was = task->flags & flag;
    task->flags |= flag;
    return was;
}
static inline void deckle_task_scope_restore(struct deckle_task *task, uint32_t flag, uint32_t was)
{
    task->flags = (task->flags & ~flag) | was;
}
#define DECKLE_DEFINE_SCOPE(name, flag)                                                            \
    static inline uint32_t deckle_memalloc_##name##_save(struct deckle_task *task)                 \
    {                                                                                              \
        return deckle_task_scope_save(task, flag);                                                 \
    }                                                                                              \
    static inline void deckle_memalloc_##name##_restore(struct deckle_task *task, uint32_t was)    \
    {                                                                                              \
        deckle_task_scope_restore(task, flag, was);                                                \
    }
DECKLE_DEFINE_SCOPE(noreclaim, DECKLE_TASK_MEMALLOC)
DECKLE_DEFINE_SCOPE(noio, DECKLE_TASK_NOIO)
DECKLE_DEFINE_SCOPE(nofs, DECKLE_TASK_NOFS)
DECKLE_DEFINE_SCOPE(pin, DECKLE_TASK_PIN)
#undef DECKLE_DEFINE_SCOPE

/* ---------------------------------------------------------------------------------------------
 * Shrinkers
 */

#define DECKLE_MAX_SHRINKERS        32u
#define DECKLE_ANONYMOUS_RECLAIMERS 4u

/* deckle_shrinker.flags: what kind of cache, and what scanning it needs. */
#define DECKLE_SHRINKER_SLAB  (1u << 0) /* kernel objects: counts for min_slab_ratio */
#define DECKLE_SHRINKER_IO    (1u << 1) /* starts I/O: not for requests without IO */
#define DECKLE_SHRINKER_FS    (1u << 2) /* enters file systems: not for requests without FS */
#define DECKLE_SHRINKER_UNMAP (1u << 3) /* unmaps: node reclaim only with zone_reclaim_mode 4 */

/* What a shrinker is asked for. */
struct deckle_shrink {
    uint32_t size;             /* sizeof(struct deckle_shrink) */
    uint32_t gfp;              /* of the request; DECKLE_GFP_KERNEL for background reclaim */
    uint32_t order;            /* of the request */
    uint32_t node;             /* node id: frames elsewhere do not help */
    enum deckle_zone_type zone; /* frames above this zone do not help */
    uint32_t priority;         /* 12 at first, falls to 0: how hard to try */
    uint64_t nr_to_scan;       /* scan: frames to look at; count: 0 */
    struct deckle *d;
    struct deckle_task *task;  /* who reclaims: for requests of the shrinker itself */
};

/*
 * A cache that can be shrunk. Both functions may be called by several threads at once, in task
 * context, may allocate, free, and call any function of Deckle but deckle_exit.
 */
struct deckle_shrinker {
    uint32_t size;   /* sizeof(struct deckle_shrinker) */
    uint32_t flags;  /* DECKLE_SHRINKER_… */
    uint32_t batch;  /* most frames to scan in one call, 0 = 128 */
    uint32_t pad;
    void *ctx;
    /* Frames that scan could free now under these terms; 0 = none. A guess is good enough. */
    uint64_t (*count)(void *ctx, const struct deckle_shrink *shrink);
    /* Look at up to nr_to_scan frames and free those that can be; returns how many were freed. A
     * negative result, any DECKLE_E…, means that it cannot go on now: it is not asked again in this
     * round. */
    int64_t (*scan)(void *ctx, const struct deckle_shrink *shrink);
};

/* Register; the caller keeps *shrinker unchanged until it is unregistered. Errors: EINVAL (size, a
 * function missing), EEXIST, ENOSPC (DECKLE_MAX_SHRINKERS). Any thread. */
DECKLE_API int deckle_register_shrinker(struct deckle *d, const struct deckle_shrinker *shrinker);

/* Unregister: from now on it is not called any more. EBUSY: a call that began before is still
 * running; ask again before the memory of *shrinker ends. ENOENT: not registered. Never waits. */
DECKLE_API int deckle_unregister_shrinker(struct deckle *d, const struct deckle_shrinker *shrinker);

/* ---------------------------------------------------------------------------------------------
 * Hooks
 */

enum deckle_daemon {
    DECKLE_KSWAPD,    /* deckle_reclaim_step has work */
    DECKLE_KCOMPACTD  /* deckle_compact_step has work */
};

enum deckle_wait {
    DECKLE_WAIT_OOM,      /* another thread is having somebody killed */
    DECKLE_WAIT_NOFAIL,   /* a request that must not fail, and nothing can be done now */
    DECKLE_WAIT_RECLAIM   /* reclaim goes on, but slowly */
};

/* How hard a migration may try. */
enum deckle_migrate_mode {
    DECKLE_MIGRATE_ASYNC,      /* must not wait for anything */
    DECKLE_MIGRATE_SYNC_LIGHT, /* may wait for locks, not for I/O */
    DECKLE_MIGRATE_SYNC        /* may wait for I/O too */
};

/*
 * A move of one allocated Movable block. `to` is allocated already, with the order, owner tag,
 * compound mark and a reference like `from`; its contents are undefined.
 *
 * The hook decides, under its own rules, whether its user has `from` allocated as a block of just
 * this order (and owner and compound mark) and can do without it now. The allocator has only looked
 * at the metadata: by the time of the call the owner may have freed the block, and it may have been
 * given to somebody else.
 *
 *   DECKLE_OK     the contents are in `to`, nobody will use or free `from` any more. `to` belongs
 *                 to the user of `from` from the moment on that the hook lets him know it, before
 *                 it returns, and may be freed at once. `from` belongs to the allocator.
 *   DECKLE_EBUSY  (or any other error) nothing has changed: `from` belongs to whom it belonged to
 *                 (perhaps nobody), `to` was shown to nobody and belongs to the allocator.
 *
 * So whoever frees frames that can be moved must agree with his own hook about it: a free of `from`
 * that the hook did not see is a double free if the hook said OK, and is refused as such.
 */
struct deckle_migration {
    uint32_t size;      /* sizeof(struct deckle_migration) */
    uint32_t order;
    uint64_t from, to;  /* pfns */
    enum deckle_migrate_mode mode;
    uint32_t owner;     /* owner tag of `from`; 0 without */
    uint32_t compound;  /* 1 if it is a compound block */
    uint32_t node;      /* node id of both */
    struct deckle *d;
    struct deckle_task *task;
};

/* A request for which somebody may be killed. */
struct deckle_oom {
    uint32_t size;      /* sizeof(struct deckle_oom) */
    uint32_t gfp;
    uint32_t order;
    uint32_t node;      /* node id that the request prefers */
    uint64_t nodemask;  /* nodes that it may use; not all: a constrained failure, which killing
                         * somebody elsewhere does not cure */
    struct deckle *d;
    struct deckle_task *task;
};

/* A request that failed. */
struct deckle_failure {
    uint32_t size;         /* sizeof(struct deckle_failure) */
    uint32_t gfp;
    uint32_t order;
    uint32_t node;         /* node id that the request preferred */
    uint64_t nodemask;     /* as asked; 0 = all */
    uint64_t mems_allowed; /* of the task; 0 = all */
    int error;             /* DECKLE_E… */
    uint32_t suppressed;   /* failures that were not reported since the last report */
    const void *caller;    /* return address of the public call, NULL if unknown */
    const struct deckle *d;
};

/* deckle_pressure_hooks.flags */
#define DECKLE_HOOKS_RESTRICT (1u << 0) /* tasks may have mems_allowed or PIN scopes: every request
                                         * asks the task hook first, at the price of the general
                                         * path. Without it the two have no effect */

/* Every hook may be NULL. */
struct deckle_pressure_hooks {
    uint32_t size;  /* sizeof(struct deckle_pressure_hooks) */
    uint32_t flags; /* DECKLE_HOOKS_… */
    void *ctx;      /* handed to every hook */
    /* The calling thread's task; NULL = unrestricted. Must be cheap. */
    struct deckle_task *(*task)(void *ctx);
    /* A monotonic clock in nanoseconds. NULL: failure reports are not limited. */
    uint64_t (*now)(void *ctx);
    /* Let other threads run, for about ns nanoseconds; may return early. NULL: spin. */
    void (*wait)(void *ctx, enum deckle_wait why, uint64_t ns);
    /* A background thread of the node has work; called once until that thread's step says that it
     * is done. NULL: the pool has no background reclaim, nor a watermark boost. */
    void (*wake)(void *ctx, uint32_t node, enum deckle_daemon daemon);
    /* Free memory by force. > 0: frames will come; 0: nobody can be killed. One thread at a time.
     * NULL: as if 0. */
    int (*oom)(void *ctx, const struct deckle_oom *oom);
    /* May more frames of this node be dirtied? NULL: always. */
    bool (*dirty_ok)(void *ctx, uint32_t node);
    /* Move a block. NULL: nothing is movable, there is no compaction; nor in pools that processes
     * share (deckle/shared.h). */
    int (*migrate)(void *ctx, const struct deckle_migration *migration);
    /* A request without NOWARN failed; at most once in 10 s. NULL: counted only. */
    void (*failure)(void *ctx, const struct deckle_failure *failure);
};

/* Set or replace the hooks of this handle; NULL takes them away. The caller keeps *hooks unchanged
 * as long as calls that began before a change may run. EINVAL: size, flags; EPERM: a shared pool of
 * which the caller is no client. Set-up. */
DECKLE_API int deckle_set_pressure_hooks(struct deckle *d,
                                         const struct deckle_pressure_hooks *hooks);

/* Text of a failure as Linux writes it: mode, order, masks, then the memory state: marks and free
 * frames of each zone, free blocks by order. Linear in the memory. */
DECKLE_API void deckle_print_failure(const struct deckle_failure *failure, deckle_emit_fn emit,
                                     void *ctx);

/* Flags that all requests of this handle may use; the others act as if they were not given: while
 * booting nobody can reclaim, while suspending there is no I/O. Returns the mask before; ~0 = all.
 * Set-up. */
DECKLE_API uint32_t deckle_set_gfp_allowed_mask(struct deckle *d, uint32_t mask);

/* ---------------------------------------------------------------------------------------------
 * Background work: one thread of the embedder per node and daemon, or one for all
 */

/*
 * One bounded step of background reclaim for a node (kswapd): reclaims at most about 1024 frames,
 * then returns. > 0: there is more to do; 0: every zone is above its high mark (or nothing can be
 * reclaimed): call again when woken. task: the thread's own, may be NULL. ENODEV: no such node.
 * Task context; several threads may step the same node.
 */
DECKLE_API int deckle_reclaim_step(struct deckle *d, uint32_t node, struct deckle_task *task);

/*
 * One bounded step of background compaction for a node (kcompactd): what was asked for by reclaim
 * or by requests, else proactive compaction while the node's fragmentation score is above its mark.
 * Evacuates at most 32 pageblocks. Results as above; call it when woken and, for proactive
 * compaction, every 500 ms.
 */
DECKLE_API int deckle_compact_step(struct deckle *d, uint32_t node, struct deckle_task *task);

/* Compact a zone (as deckle_zone_stat numbers them) or all zones of a node once, entirely, whatever
 * deferral says. Returns how many pageblocks were emptied, 0 or above, or ENODEV, ENOTSUP (no
 * migrate hook), EBUSY (the task is reclaiming already). Task context. Linear in the memory. */
DECKLE_API int64_t deckle_compact_zone(struct deckle *d, uint32_t zone, struct deckle_task *task);
DECKLE_API int64_t deckle_compact_node(struct deckle *d, uint32_t node, struct deckle_task *task);

/* 0 (free memory is in whole pageblocks) … 100 (none of it): share of the free frames that no
 * request of a pageblock's order can use, zones weighted by their size. Linear. ENODEV. */
DECKLE_API int deckle_fragmentation_score(const struct deckle *d, uint32_t node);

/* ---------------------------------------------------------------------------------------------
 * Tunables: the sysctl vm.* of Linux that have a meaning here, by their Linux names
 */

#define DECKLE_TUNABLE_MAX_VALUES 5u
#define DECKLE_TUNABLE_WRITE_ONLY (1u << 0) /* writing does something; there is nothing to read */

struct deckle_tunable {
    uint32_t size;        /* sizeof(struct deckle_tunable), set by the caller */
    uint32_t flags;       /* DECKLE_TUNABLE_… */
    const char *name;     /* static text, as under /proc/sys/vm */
    const char *unit;     /* static text: "KiB", "of 10000", … */
    const char *what;     /* static text: one sentence */
    uint32_t nr_values;   /* 1, or one for each zone type */
    uint64_t min, max;    /* of each value */
    uint64_t initial[DECKLE_TUNABLE_MAX_VALUES];
};

/* The tunable number `index`, from 0; ENOENT behind the last. EINVAL: size. */
DECKLE_API int deckle_tunable_info(uint32_t index, struct deckle_tunable *out);

/* Read into values[0 … nr). Returns how many values it has, or ENOENT (no such name), EINVAL (nr
 * too small), ENOTSUP (write only). */
DECKLE_API int deckle_tunable_get(const struct deckle *d, const char *name, uint64_t *values,
                                  uint32_t nr);

/* Write. Errors: ENOENT, EINVAL (number of values, or out of range; nothing changes), ENOTSUP
 * (compact_memory without a migrate hook), EBUSY (compact_memory, drop_caches: the task is
 * reclaiming already), EPERM (a shared pool of which the caller is no client). Marks, caches and
 * reserves follow at once. Set-up. */
DECKLE_API int deckle_tunable_set(struct deckle *d, const char *name, const uint64_t *values,
                                  uint32_t nr);

/* Event counter number `index`, from 0, by its name in /proc/vmstat (or Deckle's own where Linux
 * has none). ENOENT behind the last. */
DECKLE_API int deckle_vmstat(const struct deckle *d, uint32_t index, const char **name,
                             uint64_t *value);

#ifdef __cplusplus
}
#endif
#endif
