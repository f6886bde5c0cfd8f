/* SPDX-License-Identifier: MIT */
/*
 * Request flags ("get free pages"): what a caller wants of an allocation and what it permits. The
 * names and bit numbers are those of Linux 6.12. A DECKLE_GFP_x that names one bit stands for
 * Linux's __GFP_x, one that names a combination for GFP_x.
 *
 * Flags about reclaim act where the pool has hooks or shrinkers (deckle/pressure.h); they are
 * always accepted, and DIRECT_RECLAIM always decides which reserves a request may use. Combinations
 * that are not legal are refused with DECKLE_EINVAL; deckle_gfp_reason() names the rule.
 */
#ifndef DECKLE_GFP_H
#define DECKLE_GFP_H

#include <stdint.h>

/* ---- where: the highest zone allowed; at most one of DMA, DMA32 and HIGHMEM ------------------ */

#define DECKLE_GFP_DMA     (UINT32_C(1) << 0) /* no zone above DMA */
#define DECKLE_GFP_HIGHMEM (UINT32_C(1) << 1) /* up to HighMem; with MOVABLE up to Movable */
#define DECKLE_GFP_DMA32   (UINT32_C(1) << 2) /* no zone above DMA32 */

/* ---- what: the migratetype; at most one, neither means Unmovable ----------------------------- */

#define DECKLE_GFP_MOVABLE     (UINT32_C(1) << 3) /* can be migrated or reclaimed later */
#define DECKLE_GFP_RECLAIMABLE (UINT32_C(1) << 4) /* a cache that can be shrunk on demand */

/* ---- how hard, and what may happen on the way ------------------------------------------------ */

#define DECKLE_GFP_HIGH           (UINT32_C(1) << 5)  /* urgent: may use half of the min mark */
#define DECKLE_GFP_IO             (UINT32_C(1) << 6)  /* reclaim may start I/O */
#define DECKLE_GFP_FS             (UINT32_C(1) << 7)  /* reclaim may call into file systems */
#define DECKLE_GFP_ZERO           (UINT32_C(1) << 8)  /* hand the frames out cleared */
#define DECKLE_GFP_DIRECT_RECLAIM (UINT32_C(1) << 10) /* the caller may sleep and reclaim itself   \
                                                       */
#define DECKLE_GFP_KSWAPD_RECLAIM (UINT32_C(1) << 11) /* wake background reclaim below low */
#define DECKLE_GFP_WRITE          (UINT32_C(1) << 12) /* will be dirtied: heed dirty limits */
#define DECKLE_GFP_NOWARN         (UINT32_C(1) << 13) /* do not report a failure */
#define DECKLE_GFP_RETRY_MAYFAIL  (UINT32_C(1) << 14) /* try hard, also large orders; may fail */
#define DECKLE_GFP_NOFAIL         (UINT32_C(1) << 15) /* never fail; direct reclaim, order <= 1 */
#define DECKLE_GFP_NORETRY        (UINT32_C(1) << 16) /* one light attempt at reclaim, then fail */
#define DECKLE_GFP_MEMALLOC       (UINT32_C(1) << 17) /* ignore watermarks: will free memory soon */
#define DECKLE_GFP_COMP           (UINT32_C(1) << 18) /* make a compound block */
#define DECKLE_GFP_NOMEMALLOC     (UINT32_C(1) << 19) /* never use reserves; beats MEMALLOC */
#define DECKLE_GFP_HARDWALL       (UINT32_C(1) << 20) /* the cpuset is a hard limit */
#define DECKLE_GFP_THISNODE       (UINT32_C(1) << 21) /* only the zones of the given node */
#define DECKLE_GFP_ACCOUNT        (UINT32_C(1) << 22) /* charge to the caller's memory group */

/* Hints of memory tagging and lock checking: accepted, without effect in Deckle. */
#define DECKLE_GFP_ZEROTAGS   (UINT32_C(1) << 23) /* clear memory tags together with the frame */
#define DECKLE_GFP_SKIP_ZERO  (UINT32_C(1) << 24) /* tagging need not clear */
#define DECKLE_GFP_SKIP_KASAN (UINT32_C(1) << 25) /* tagging need not colour */
#define DECKLE_GFP_NOLOCKDEP  (UINT32_C(1) << 26) /* no lock-order tracking of reclaim */
#define DECKLE_GFP_NO_OBJ_EXT (UINT32_C(1) << 27) /* no slab extension object for the caller */

#define DECKLE_GFP_ALL (UINT32_C(0x0fffffff) & ~(UINT32_C(1) << 9)) /* every bit with a meaning */

/* ---- combinations ---------------------------------------------------------------------------- */

/* Both ways of reclaim. */
#define DECKLE_GFP_RECLAIM (DECKLE_GFP_DIRECT_RECLAIM | DECKLE_GFP_KSWAPD_RECLAIM)
/* Cannot sleep and is urgent: interrupt handlers. */
#define DECKLE_GFP_ATOMIC (DECKLE_GFP_HIGH | DECKLE_GFP_KSWAPD_RECLAIM)
/* Cannot sleep and has a way out: fails early and silently. */
#define DECKLE_GFP_NOWAIT (DECKLE_GFP_KSWAPD_RECLAIM | DECKLE_GFP_NOWARN)
/* May reclaim, but without starting I/O. */
#define DECKLE_GFP_NOIO (DECKLE_GFP_RECLAIM)
/* May reclaim and start I/O, but not enter file systems. */
#define DECKLE_GFP_NOFS (DECKLE_GFP_RECLAIM | DECKLE_GFP_IO)
/* The ordinary request of a kernel or library for itself. */
#define DECKLE_GFP_KERNEL (DECKLE_GFP_RECLAIM | DECKLE_GFP_IO | DECKLE_GFP_FS)
/* The same, charged to the caller's memory group. */
#define DECKLE_GFP_KERNEL_ACCOUNT (DECKLE_GFP_KERNEL | DECKLE_GFP_ACCOUNT)
/* For user space, but the kernel needs direct access too. */
#define DECKLE_GFP_USER (DECKLE_GFP_KERNEL | DECKLE_GFP_HARDWALL)
/* For user space; may lie in HighMem; cannot be moved. */
#define DECKLE_GFP_HIGHUSER (DECKLE_GFP_USER | DECKLE_GFP_HIGHMEM)
/* For user space, anywhere, can be moved: anonymous memory and page cache. */
#define DECKLE_GFP_HIGHUSER_MOVABLE                                                                \
    (DECKLE_GFP_HIGHUSER | DECKLE_GFP_MOVABLE | DECKLE_GFP_SKIP_KASAN)
/* A huge page that is welcome only if it costs nothing. */
#define DECKLE_GFP_TRANSHUGE_LIGHT                                                                 \
    ((DECKLE_GFP_HIGHUSER_MOVABLE | DECKLE_GFP_COMP | DECKLE_GFP_NOMEMALLOC | DECKLE_GFP_NOWARN) & \
     ~DECKLE_GFP_RECLAIM)
/* A huge page that is worth direct reclaim and compaction. */
#define DECKLE_GFP_TRANSHUGE (DECKLE_GFP_TRANSHUGE_LIGHT | DECKLE_GFP_DIRECT_RECLAIM)

/* ---- masks ----------------------------------------------------------------------------------- */

#define DECKLE_GFP_ZONEMASK                                                                        \
    (DECKLE_GFP_DMA | DECKLE_GFP_HIGHMEM | DECKLE_GFP_DMA32 | DECKLE_GFP_MOVABLE)
#define DECKLE_GFP_MOVABLE_MASK (DECKLE_GFP_MOVABLE | DECKLE_GFP_RECLAIMABLE)

#endif
