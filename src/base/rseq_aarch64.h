/* SPDX-License-Identifier: MIT */
/* The sequences of rseq.h in aarch64 instructions. Only rseq.h includes this file. No asm goto: see
 * rseq_x86_64.h; all leave their result in a register. */
#ifndef DK_BASE_RSEQ_AARCH64_H
#define DK_BASE_RSEQ_AARCH64_H

/* The kernel's own view of where the thread runs; negative (so: huge) while it is not registered.
 */
DK_INLINE uint32_t dk_rseq_cpu_id(int64_t rseq_offset)
{
    uint32_t cpu;
    __asm__ __volatile__("mrs x9, tpidr_el0\n\t"
                         "add x9, x9, %[rseq]\n\t"
                         "ldr %w[cpu], [x9, #4]\n\t"
                         : [cpu] "=r"(cpu)
                         : [rseq] "r"(rseq_offset)
                         : "x9");
    return cpu;
}

/*
 * Descriptor (label 3) and start (1): x9 = this CPU's header. The sequence ends at label 2, right
 * after the store that commits; the kernel aborts it to label 4, behind the signature; label 6 is
 * where it gives up by itself. The committing store is plain: a remote CPU looks behind it only
 * after membarrier, which orders this CPU's stores.
 */
#define DK_RSEQ_BEGIN                                                                              \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3:\n\t"                                                                                       \
    ".long 0, 0\n\t"                                                                               \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "mrs x10, tpidr_el0\n\t"                                                                       \
    "add x10, x10, %[rseq]\n\t"                                                                    \
    "adrp x9, 3b\n\t"                                                                              \
    "add x9, x9, :lo12:3b\n\t"                                                                     \
    "str x9, [x10, #8]\n\t"                                                                        \
    "1:\n\t"                                                                                       \
    "ldr w9, [x10, #4]\n\t"                                                                        \
    "ldr w11, %[cpus]\n\t"                                                                         \
    "cmp w9, w11\n\t"                                                                              \
    "b.hs 6f\n\t"                                                                                  \
    "ldr w11, %[stride]\n\t"                                                                       \
    "madd x9, x9, x11, %[base]\n\t"

#define DK_RSEQ_END                                                                                \
    "2:\n\t"                                                                                       \
    "mov %w[result], #0\n\t"                                                                       \
    "7:\n\t"                                                                                       \
    ".subsection 1\n\t"                                                                            \
    ".long 0xd428bc00\n\t"                                                                         \
    "4:\n\t"                                                                                       \
    "mov %w[result], #1\n\t"                                                                       \
    "b 7b\n\t"                                                                                     \
    "6:\n\t"                                                                                       \
    "mov %w[result], #2\n\t"                                                                       \
    "b 7b\n\t"                                                                                     \
    ".previous\n\t"

#define DK_RSEQ_AT(at)                                                                             \
    [rseq] "r"(*(at)->rseq_offset), [cpus] "m"(*(at)->nr_cpus), [stride] "m"(*(at)->stride),       \
        [base] "r"((at)->base)

/* x10 = head, x11 = index - 1; fails on index 0. */
#define DK_RSEQ_POP_HEAD                                                                           \
    "ldr x10, [x9]\n\t"                                                                            \
    "and w11, w10, #0xffff\n\t"                                                                    \
    "subs w11, w11, #1\n\t"                                                                        \
    "b.lo 6f\n\t"

/* Stopped, or no room in pops: the new head is negative. */
DK_INLINE bool dk_rseq_pop(const struct dk_rseq_at *at, uint32_t *out)
{
    uint32_t value, result;
    __asm__ __volatile__(DK_RSEQ_BEGIN DK_RSEQ_POP_HEAD
                         "mov w13, #0xffff\n\t"
                         "adds x10, x10, x13\n\t"
                         "b.mi 6f\n\t"
                         "add x12, x9, #64\n\t"
                         "ldr %w[value], [x12, x11, lsl #2]\n\t"
                         "str x10, [x9]\n\t" DK_RSEQ_END
                         : [value] "=&r"(value), [result] "=&r"(result)
                         : DK_RSEQ_AT(at)
                         : "x9", "x10", "x11", "x12", "x13", "memory", "cc");
    *out = value;
    return result == DK_RSEQ_DONE;
}

/* With STOP the low half of the head is 0x8000 or more: above every high. */
DK_INLINE bool dk_rseq_push(const struct dk_rseq_at *at, uint32_t value)
{
    uint32_t result;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "ldr x10, [x9]\n\t"
                         "and w11, w10, #0xffff\n\t"
                         "ldrh w12, [x9, #8]\n\t"
                         "cmp w11, w12\n\t"
                         "b.hs 6f\n\t"
                         "add x12, x9, #64\n\t"
                         "str %w[value], [x12, x11, lsl #2]\n\t"
                         "add x10, x10, #1\n\t"
                         "str x10, [x9]\n\t" DK_RSEQ_END
                         : [result] "=&r"(result)
                         : DK_RSEQ_AT(at), [value] "r"(value)
                         : "x9", "x10", "x11", "x12", "memory", "cc");
    return result == DK_RSEQ_DONE;
}

/* Up to n (1 … 64) entries, the top first; *done = how many, *own = the stack they came from. */
static inline enum dk_rseq_result dk_rseq_popn(const struct dk_rseq_at *at, uint32_t *out,
                                               uint32_t n, uint32_t *done,
                                               struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack;
    uint64_t count;
    uint32_t result;
    __asm__ __volatile__(DK_RSEQ_BEGIN DK_RSEQ_POP_HEAD
                         "add w12, w11, #1\n\t"
                         "cmp %w[n], w12\n\t"
                         "csel %w[count], %w[n], w12, lo\n\t"
                         "mov w13, #0xffff\n\t"
                         "mul x13, %[count], x13\n\t"
                         "adds x10, x10, x13\n\t"
                         "b.mi 6f\n\t"
                         "add x12, x9, #64\n\t"
                         "add x12, x12, x11, lsl #2\n\t"
                         "mov x11, #0\n\t"
                         "5:\n\t"
                         "ldr w13, [x12], #-4\n\t"
                         "str w13, [%[out], x11, lsl #2]\n\t"
                         "add x11, x11, #1\n\t"
                         "cmp x11, %[count]\n\t"
                         "b.lo 5b\n\t"
                         "str x10, [x9]\n\t" DK_RSEQ_END
                         "mov %[stack], x9\n\t"
                         : [stack] "=&r"(stack), [count] "=&r"(count), [result] "=&r"(result)
                         : DK_RSEQ_AT(at), [n] "r"(n), [out] "r"(out)
                         : "x9", "x10", "x11", "x12", "x13", "memory", "cc");
    *done = (uint32_t)count;
    *own = stack;
    return (enum dk_rseq_result)result;
}

/* The first values of in[0 … n) (n 1 … 64) that fit below high, in order; the last ends on top. */
static inline enum dk_rseq_result dk_rseq_pushn(const struct dk_rseq_at *at, const uint32_t *in,
                                                uint32_t n, uint32_t *done,
                                                struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack;
    uint64_t count;
    uint32_t result;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "ldr x10, [x9]\n\t"
                         "and w11, w10, #0xffff\n\t"
                         "ldrh w12, [x9, #8]\n\t"
                         "subs w12, w12, w11\n\t"
                         "b.ls 6f\n\t"
                         "cmp %w[n], w12\n\t"
                         "csel %w[count], %w[n], w12, lo\n\t"
                         "add x12, x9, #64\n\t"
                         "add x12, x12, x11, lsl #2\n\t"
                         "mov x11, #0\n\t"
                         "5:\n\t"
                         "ldr w13, [%[in], x11, lsl #2]\n\t"
                         "str w13, [x12, x11, lsl #2]\n\t"
                         "add x11, x11, #1\n\t"
                         "cmp x11, %[count]\n\t"
                         "b.lo 5b\n\t"
                         "add x10, x10, x11\n\t"
                         "str x10, [x9]\n\t" DK_RSEQ_END
                         "mov %[stack], x9\n\t"
                         : [stack] "=&r"(stack), [count] "=&r"(count), [result] "=&r"(result)
                         : DK_RSEQ_AT(at), [n] "r"(n), [in] "r"(in)
                         : "x9", "x10", "x11", "x12", "x13", "memory", "cc");
    *done = (uint32_t)count;
    *own = stack;
    return (enum dk_rseq_result)result;
}

/* Take DK_RSEQ_FOLD out of the pops of *own, where they are that many; the caller counts them. */
static inline enum dk_rseq_result dk_rseq_fold(const struct dk_rseq_at *at,
                                               struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack;
    uint32_t result;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "ldr x10, [x9]\n\t"
                         "tst x10, #0x8000\n\t"
                         "b.ne 6f\n\t"
                         "tst x10, #0x4000000000000000\n\t"
                         "b.eq 6f\n\t"
                         "and x10, x10, #0xbfffffffffffffff\n\t"
                         "str x10, [x9]\n\t" DK_RSEQ_END
                         "mov %[stack], x9\n\t"
                         : [stack] "=&r"(stack), [result] "=&r"(result)
                         : DK_RSEQ_AT(at)
                         : "x9", "x10", "x11", "memory", "cc");
    *own = stack;
    return (enum dk_rseq_result)result;
}

#undef DK_RSEQ_BEGIN
#undef DK_RSEQ_END
#undef DK_RSEQ_POP_HEAD
#undef DK_RSEQ_AT
#endif
