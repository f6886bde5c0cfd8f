/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences on a per-CPU stack of 32-bit values: pop, push, their bulk forms and the
 * folding of the pop count. Knows the stack and the kernel's interface, nothing of pages; what a
 * remote CPU may do to a stack, and why this is correct, is told at the head of core/pcp_rseq.c.
 *
 * A stack of one CPU is a header (struct dk_rseq_stack, one line) and the slots behind it. The
 * stacks of the CPUs lie `stride` bytes apart, so a sequence finds its own with the CPU number that
 * it reads inside itself. The header word:
 *   bits  0-14     index: entries bits 15 and 63 STOP, always both: somebody else has the stack, or
 *   wants it; every sequence fails.
 *                  With bit 15 the low half is above every index and every `high`, with bit 63 the
 *                  word is negative: so pop and push test it for nothing.
 *   bits 16-62     pops: entries popped
 * A pop stores head - 1 + 2^16, a push head + 1. A pop that would carry into bit 63 fails until
 * dk_rseq_fold has made room. The one store commits; all other stores of a sequence go where nobody
 * looks before it. If the thread is preempted, migrated, interrupted by a signal or by
 * membarrier(RSEQ) between the first instruction and that store, the kernel sends it to the abort
 * handler, and the sequence has done nothing.
 *
 * The kernel finds a sequence by the descriptor (struct rseq_cs: start, length, abort address)
 * whose address the thread stores in its struct rseq: a field that need not be cleared after the
 * sequence. The word before the abort handler is the signature with which libc registered the
 * thread.
 *
 * DK_HAVE_RSEQ is defined where sequences exist: x86-64 and little-endian aarch64 with 64-bit
 * pointers, and the simulated machine, whose form of them is C that can be interrupted at every
 * access.
 */
#ifndef DK_BASE_RSEQ_H
#define DK_BASE_RSEQ_H

#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/compiler.h"

#if DK_WORD_BITS == 64
#if defined(DK_SIM)
#define DK_HAVE_RSEQ 1
#elif defined(__linux__) && defined(__x86_64__) && defined(__LP64__)
#define DK_HAVE_RSEQ 1
#elif defined(__linux__) && defined(__aarch64__) && defined(__LP64__) && defined(__AARCH64EL__)
#define DK_HAVE_RSEQ 1
#endif
#endif

#ifdef DK_HAVE_RSEQ

struct dk_rseq_stack {
    dk_aword head;
    dk_a32 high; /* bits 0-15: entries at which a push fails; the rest is the owner's business */
};

#define DK_RSEQ_INDEX   ((dk_word)0x7fff)
#define DK_RSEQ_STOP    ((dk_word)1 << 63 | (dk_word)1 << 15)
#define DK_RSEQ_POP_ONE ((dk_word)1 << 16)
#define DK_RSEQ_FOLD    ((dk_word)1 << 62) /* what a fold takes out: 2^46 pops */
#define DK_RSEQ_SLOTS   64u                /* bytes from the header to the first slot */

/* Where a sequence works: everything that does not depend on the CPU. All but base are read inside
 * the sequence, which saves registers: so the fast paths need no stack. */
struct dk_rseq_at {
    const int64_t *rseq_offset; /* struct rseq of the thread, from the thread pointer */
    const uint32_t *nr_cpus;    /* CPU numbers at or above fail */
    const uint32_t *stride;     /* bytes from one CPU's stack to the next; all lie within 4 GiB */
    unsigned char *base;        /* header of CPU 0's stack */
};

static inline bool dk_rseq_is_stopped(dk_word head)
{
    return head >> 15 & 1;
}
static inline uint32_t dk_rseq_index(dk_word head)
{
    return (uint32_t)(head & DK_RSEQ_INDEX);
}
static inline uint64_t dk_rseq_pops(dk_word head)
{
    return (head & ~DK_RSEQ_STOP) / DK_RSEQ_POP_ONE;
}

/* pop and push return true if it is done; they do not say why not. The others do. */
enum dk_rseq_result {
    DK_RSEQ_DONE,
    DK_RSEQ_ABORT, /* interrupted: nothing happened, try again */
    DK_RSEQ_FAIL   /* empty, full, stopped, no room for a pop, or no such CPU: nothing happened */
};

/* Fields of the kernel's struct rseq. */
#define DK_RSEQ_CPU_ID 4
#define DK_RSEQ_CS     8

#if defined(DK_SIM)

/*
 * The simulated machine. dk_sim_rseq_begin starts a sequence of the running simulated thread and
 * returns the CPU it runs on. Until dk_sim_rseq_end, or the one store of dk_sim_rseq_commit, a
 * preemption, migration, signal or membarrier kills it: its later stores do nothing, and commit is
 * false.
 */
uint32_t dk_sim_rseq_begin(void);
void dk_sim_rseq_end(void);
bool dk_sim_rseq_commit(dk_aword *head, dk_word value);
uint32_t dk_sim_cpu_id(void);

DK_INLINE uint32_t dk_rseq_cpu_id(int64_t rseq_offset)
{
    (void)rseq_offset;
    return dk_sim_cpu_id();
}

static inline enum dk_rseq_result dk_rseq_fails(void)
{
    dk_sim_rseq_end();
    return DK_RSEQ_FAIL;
}

static inline enum dk_rseq_result dk_rseq_commit(struct dk_rseq_stack *stack, dk_word head)
{
    return dk_sim_rseq_commit(&stack->head, head) ? DK_RSEQ_DONE : DK_RSEQ_ABORT;
}

static inline struct dk_rseq_stack *dk_rseq_own(const struct dk_rseq_at *at)
{
    uint32_t cpu = dk_sim_rseq_begin();
    if (cpu >= *at->nr_cpus)
        return NULL;
    return (struct dk_rseq_stack *)(void *)(at->base + cpu * *at->stride);
}

static inline dk_a32 *dk_rseq_slots(struct dk_rseq_stack *stack)
{
    return (dk_a32 *)(void *)((unsigned char *)stack + DK_RSEQ_SLOTS);
}

static inline enum dk_rseq_result dk_rseq_popn(const struct dk_rseq_at *at, uint32_t *out,
                                               uint32_t n, uint32_t *done,
                                               struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack = dk_rseq_own(at);
    if (!stack)
        return dk_rseq_fails();
    dk_word head = dk_load_relaxed(&stack->head);
    uint32_t index = dk_rseq_index(head);
    *own = stack;
    *done = n < index ? n : index;
    dk_word less = head + *done * (DK_RSEQ_POP_ONE - 1);
    if (!index || less >> 63)
        return dk_rseq_fails();
    for (uint32_t i = 0; i < *done; i++)
        out[i] = dk_a32_load_relaxed(&dk_rseq_slots(stack)[index - 1 - i]);
    return dk_rseq_commit(stack, less);
}

static inline enum dk_rseq_result dk_rseq_pushn(const struct dk_rseq_at *at, const uint32_t *in,
                                                uint32_t n, uint32_t *done,
                                                struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack = dk_rseq_own(at);
    if (!stack)
        return dk_rseq_fails();
    dk_word head = dk_load_relaxed(&stack->head);
    uint32_t index = (uint32_t)(head & 0xffff);
    uint32_t high = dk_a32_load_relaxed(&stack->high) & 0xffff;
    if (index >= high)
        return dk_rseq_fails();
    *own = stack;
    *done = n < high - index ? n : high - index;
    for (uint32_t i = 0; i < *done; i++)
        dk_a32_store_relaxed(&dk_rseq_slots(stack)[index + i], in[i]);
    return dk_rseq_commit(stack, head + *done);
}

DK_INLINE bool dk_rseq_pop(const struct dk_rseq_at *at, uint32_t *out)
{
    struct dk_rseq_stack *own;
    uint32_t done;
    return dk_rseq_popn(at, out, 1, &done, &own) == DK_RSEQ_DONE;
}

DK_INLINE bool dk_rseq_push(const struct dk_rseq_at *at, uint32_t value)
{
    struct dk_rseq_stack *own;
    uint32_t done;
    return dk_rseq_pushn(at, &value, 1, &done, &own) == DK_RSEQ_DONE;
}

static inline enum dk_rseq_result dk_rseq_fold(const struct dk_rseq_at *at,
                                               struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack = dk_rseq_own(at);
    if (!stack)
        return dk_rseq_fails();
    dk_word head = dk_load_relaxed(&stack->head);
    if (!(head & DK_RSEQ_FOLD) || dk_rseq_is_stopped(head))
        return dk_rseq_fails();
    *own = stack;
    return dk_rseq_commit(stack, head - DK_RSEQ_FOLD);
}

#else /* !DK_SIM */

#if defined(__x86_64__)
#include "base/rseq_x86_64.h"
#else
#include "base/rseq_aarch64.h"
#endif

#endif /* !DK_SIM */
#endif /* DK_HAVE_RSEQ */
#endif
