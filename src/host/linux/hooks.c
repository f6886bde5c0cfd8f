/* SPDX-License-Identifier: MIT */
/*
 * The hooks: which CPU, where a frame is, a barrier for restartable sequences, what to say of a
 * refused free. All may run in any context: no lock, no allocation, no stdio; errno is kept.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/format.h"
#include "base/rseq.h"
#include "host/linux/hosted.h"

#define REPORTS_A_MINUTE 60u
#define LEAKS_SHOWN      16u

/* ---- CPU, barrier -------------------------------------------------------------------------- */

static uint32_t cpu_of_kernel(void *ctx)
{
    int cpu = sched_getcpu();

    (void)ctx;
    return cpu < 0 ? UINT32_MAX : (uint32_t)cpu; /* at or above nr_cpus: the shared level */
}

#ifdef DK_HAVE_RSEQ

/* glibc 2.35 and later; weak, so that the library links and runs with any other. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

/* The number is negative on a thread that is not registered. */
static uint32_t cpu_of_rseq(void *ctx)
{
    uint32_t cpu = dk_rseq_cpu_id(__rseq_offset);

    return cpu >> 31 ? cpu_of_kernel(ctx) : cpu;
}

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

static bool register_barrier(void)
{
    return !membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ);
}

static int barrier(void *ctx)
{
    int error = errno;
    long result = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);

    (void)ctx;
    if (result && errno == EPERM && register_barrier())
        result = membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
    errno = error;
    return result ? DECKLE_EBACKING : DECKLE_OK;
}

static void use_rseq(struct deckle_host *host)
{
    if (!&__rseq_size || !&__rseq_offset || !__rseq_size)
        return;
    host->cpu = cpu_of_rseq;
    if (!register_barrier())
        return;
    host->membarrier = barrier;
    host->rseq_offset = __rseq_offset;
    host->rseq_usable = 1;
}

#else

static void use_rseq(struct deckle_host *host)
{
    (void)host;
}

#endif

/* ---- frames -------------------------------------------------------------------------------- */

static void *map(void *ctx, uint64_t pfn)
{
    const struct hosted *h = ctx;

    return pfn - h->first_pfn < h->nr_frames ? hosted_address(h, pfn) : NULL;
}

/* ---- reports ------------------------------------------------------------------------------- */

/* A line is written at once, so that those of several threads do not mix. */
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

/* May one more report be written in this minute? *missed: reports that the last minute left out. */
static bool may_report(struct hosted *h, uint32_t *missed)
{
    struct timespec now = {0};
    uint32_t minute, seen, n;

    clock_gettime(CLOCK_MONOTONIC, &now);
    minute = (uint32_t)(now.tv_sec / 60) + 1;
    seen = dk_a32_load_relaxed(&h->report_minute);
    *missed = 0;
    if (seen != minute && dk_a32_cas(&h->report_minute, &seen, minute)) {
        n = dk_a32_exchange(&h->reports, 0);
        *missed = n > REPORTS_A_MINUTE ? n - REPORTS_A_MINUTE : 0;
    }
    return dk_a32_add_relaxed(&h->reports, 1) < REPORTS_A_MINUTE;
}

static void print_report(struct dk_text *t, const struct deckle_bad_report *r)
{
    dk_text_printf(t, "deckle: %s: frame 0x%llx, order %u",
                   r->what == DECKLE_BAD_POISON || r->what == DECKLE_BAD_STATE ? "bad frame"
                                                                               : "bad free",
                   DK_LLU(r->pfn), r->order);
    dk_text_printf(t, " (%s", deckle_bad_name(r->what));
    if (r->found_order != UINT32_MAX)
        dk_text_printf(t, ", found order %u", r->found_order);
    if (r->what == DECKLE_BAD_POISON)
        dk_text_printf(t, ", %s at byte %llu: 0x%x", r->single_bit ? "one bit" : "value",
                       DK_LLU(r->offset), r->value);
    if (r->owner)
        dk_text_printf(t, ", owner %u", r->owner);
    dk_text_printf(t, ", state 0x%x)", r->state);
    if (r->caller)
        dk_text_printf(t, ", called from 0x%llx", DK_LLU((uintptr_t)r->caller));
    dk_text_puts(t, "\n");
}

static void bad(void *ctx, const struct deckle_bad_report *report)
{
    struct hosted *h = ctx;
    char line[256];
    struct dk_text t;
    uint32_t missed;
    int error = errno;

    if (h->bad) {
        h->bad(h->ctx, report);
        return;
    }
    if (h->flags & DECKLE_CREATE_QUIET)
        return;
    dk_text_begin(&t, line, sizeof(line), emit, NULL);
    if (may_report(h, &missed))
        print_report(&t, report);
    if (missed)
        dk_text_printf(&t, "deckle: %u more reports in the last minute\n", missed);
    dk_text_end(&t);
    errno = error;
}

void hosted_leak(void *ctx, const struct deckle_allocated *block)
{
    struct hosted *h = ctx;
    char line[128];
    struct dk_text t;

    if (h->leak) {
        h->leak(h->ctx, block);
        return;
    }
    if ((h->flags & DECKLE_CREATE_QUIET) || h->leaks++ > LEAKS_SHOWN)
        return;
    dk_text_begin(&t, line, sizeof(line), emit, NULL);
    if (h->leaks > LEAKS_SHOWN)
        dk_text_puts(&t, "deckle: still allocated: and more");
    else
        dk_text_printf(&t, "deckle: still allocated: frame 0x%llx, order %u", DK_LLU(block->pfn),
                       block->order);
    if (h->leaks <= LEAKS_SHOWN && block->owner)
        dk_text_printf(&t, ", owner %u", block->owner);
    dk_text_puts(&t, "\n");
    dk_text_end(&t);
}

void hosted_left(struct hosted *h, uint64_t frames)
{
    char line[128];
    struct dk_text t;

    if ((h->flags & DECKLE_CREATE_QUIET) || !frames)
        return;
    dk_text_begin(&t, line, sizeof(line), emit, NULL);
    dk_text_printf(&t, "deckle: still allocated, and given back: %llu frames\n", DK_LLU(frames));
    dk_text_end(&t);
}

void hosted_hooks(struct hosted *h, struct deckle_host *host)
{
    *host = (struct deckle_host){.size = sizeof(*host), .ctx = h, .cpu = cpu_of_kernel, .bad = bad};
    if (!(h->flags & DECKLE_CREATE_RESERVE))
        host->map = map;
    use_rseq(host);
}
