/* SPDX-License-Identifier: MIT */
/* The sequences of rseq.h in x86-64 instructions. Only rseq.h includes this file. */
#ifndef DK_BASE_RSEQ_X86_64_H
#define DK_BASE_RSEQ_X86_64_H

/* The kernel's own view of where the thread runs; negative (so: huge) while it is not registered. */
DK_INLINE uint32_t dk_rseq_cpu_id(int64_t rseq_offset)
{
    uint32_t cpu;
    __asm__ __volatile__("movl %%fs:4(%[rseq]), %[cpu]" : [cpu] "=r"(cpu) : [rseq] "r"(rseq_offset));
    return cpu;
}

/*
 * Descriptor (label 3), abort handler behind its signature (4; the signature is the operand of an
 * undefined instruction, so that nothing can run into it), and the start (1): rax = this CPU's header.
 * The sequence ends at label 2, right after the store that commits.
 */
#define DK_RSEQ_BEGIN                                                                              \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3:\n\t"                                                                                       \
    ".long 0, 0\n\t"                                                                               \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    ".pushsection __rseq_failure, \"ax\"\n\t"                                                      \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n\t"                                                                         \
    "4:\n\t"                                                                                       \
    "jmp %l[abort]\n\t"                                                                            \
    ".popsection\n\t"                                                                              \
    "leaq 3b(%%rip), %%rax\n\t"                                                                    \
    "movq %%rax, %%fs:8(%[rseq])\n\t"                                                              \
    "1:\n\t"                                                                                       \
    "movl %%fs:4(%[rseq]), %%eax\n\t"                                                              \
    "cmpl %[cpus], %%eax\n\t"                                                                      \
    "jae %l[fail]\n\t"                                                                             \
    "imull %[stride], %%eax\n\t"                                                                   \
    "addq %[base], %%rax\n\t"

#define DK_RSEQ_AT(at)                                                                             \
    [rseq] "r"((at)->rseq_offset), [cpus] "m"(*(at)->nr_cpus), [stride] "m"(*(at)->stride),        \
        [base] "r"((at)->base)

/* rcx = head, rdx = index - 1; fails on index 0. */
#define DK_RSEQ_POP_HEAD                                                                           \
    "movq (%%rax), %%rcx\n\t"                                                                      \
    "movzwl %%cx, %%edx\n\t"                                                                       \
    "subl $1, %%edx\n\t"                                                                           \
    "jb %l[fail]\n\t"

/* Stopped, or no room in pops: the new head is negative. */
DK_INLINE enum dk_rseq_result dk_rseq_pop(const struct dk_rseq_at *at, uint32_t *out)
{
    uint32_t value;
    __asm__ __volatile__ goto(DK_RSEQ_BEGIN DK_RSEQ_POP_HEAD
                              "addq $0xffff, %%rcx\n\t"
                              "js %l[fail]\n\t"
                              "movl 64(%%rax, %%rdx, 4), %[value]\n\t"
                              "movq %%rcx, (%%rax)\n\t"
                              "2:\n\t"
                              : [value] "=&r"(value)
                              : DK_RSEQ_AT(at)
                              : "rax", "rcx", "rdx", "memory", "cc"
                              : abort, fail);
    *out = value;
    return DK_RSEQ_DONE;
abort:
    return DK_RSEQ_ABORT;
fail:
    return DK_RSEQ_FAIL;
}

/* With STOP the low half of the head is 0x8000 or more: above every high. */
DK_INLINE enum dk_rseq_result dk_rseq_push(const struct dk_rseq_at *at, uint32_t value)
{
    __asm__ __volatile__ goto(DK_RSEQ_BEGIN
                              "movq (%%rax), %%rcx\n\t"
                              "cmpw 8(%%rax), %%cx\n\t"
                              "jae %l[fail]\n\t"
                              "movzwl %%cx, %%edx\n\t"
                              "movl %[value], 64(%%rax, %%rdx, 4)\n\t"
                              "incq %%rcx\n\t"
                              "movq %%rcx, (%%rax)\n\t"
                              "2:\n\t"
                              :
                              : DK_RSEQ_AT(at), [value] "r"(value)
                              : "rax", "rcx", "rdx", "memory", "cc"
                              : abort, fail);
    return DK_RSEQ_DONE;
abort:
    return DK_RSEQ_ABORT;
fail:
    return DK_RSEQ_FAIL;
}

/* Up to n (1 … 64) entries, the top first; *done = how many, *own = the stack they came from. */
static inline enum dk_rseq_result dk_rseq_popn(const struct dk_rseq_at *at, uint32_t *out, uint32_t n,
                                               uint32_t *done, struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack;
    uint64_t count;
    __asm__ __volatile__ goto(DK_RSEQ_BEGIN DK_RSEQ_POP_HEAD
                              "leal 1(%%rdx), %%esi\n\t"
                              "movl %[n], %k[count]\n\t"
                              "cmpl %%esi, %k[count]\n\t"
                              "cmoval %%esi, %k[count]\n\t"
                              "imulq $0xffff, %q[count], %%rsi\n\t"
                              "addq %%rsi, %%rcx\n\t"
                              "js %l[fail]\n\t"
                              "leaq 64(%%rax, %%rdx, 4), %%rsi\n\t"
                              "xorl %%edx, %%edx\n\t"
                              "5:\n\t"
                              "movl (%%rsi), %%edi\n\t"
                              "movl %%edi, (%[out], %%rdx, 4)\n\t"
                              "subq $4, %%rsi\n\t"
                              "incl %%edx\n\t"
                              "cmpl %k[count], %%edx\n\t"
                              "jb 5b\n\t"
                              "movq %%rcx, (%%rax)\n\t"
                              "2:\n\t"
                              : [stack] "=&a"(stack), [count] "=&r"(count)
                              : DK_RSEQ_AT(at), [n] "r"(n), [out] "r"(out)
                              : "rcx", "rdx", "rsi", "rdi", "memory", "cc"
                              : abort, fail);
    *done = (uint32_t)count;
    *own = stack;
    return DK_RSEQ_DONE;
abort:
    return DK_RSEQ_ABORT;
fail:
    return DK_RSEQ_FAIL;
}

/* The first values of in[0 … n) (n 1 … 64) that fit below high, in order; the last ends on top. */
static inline enum dk_rseq_result dk_rseq_pushn(const struct dk_rseq_at *at, const uint32_t *in,
                                                uint32_t n, uint32_t *done,
                                                struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack;
    uint64_t count;
    __asm__ __volatile__ goto(DK_RSEQ_BEGIN
                              "movq (%%rax), %%rcx\n\t"
                              "movzwl %%cx, %%edx\n\t"
                              "movzwl 8(%%rax), %%esi\n\t"
                              "subl %%edx, %%esi\n\t"
                              "jbe %l[fail]\n\t"
                              "movl %[n], %k[count]\n\t"
                              "cmpl %%esi, %k[count]\n\t"
                              "cmoval %%esi, %k[count]\n\t"
                              "leaq 64(%%rax, %%rdx, 4), %%rsi\n\t"
                              "xorl %%edx, %%edx\n\t"
                              "5:\n\t"
                              "movl (%[in], %%rdx, 4), %%edi\n\t"
                              "movl %%edi, (%%rsi, %%rdx, 4)\n\t"
                              "incl %%edx\n\t"
                              "cmpl %k[count], %%edx\n\t"
                              "jb 5b\n\t"
                              "addq %%rdx, %%rcx\n\t"
                              "movq %%rcx, (%%rax)\n\t"
                              "2:\n\t"
                              : [stack] "=&a"(stack), [count] "=&r"(count)
                              : DK_RSEQ_AT(at), [n] "r"(n), [in] "r"(in)
                              : "rcx", "rdx", "rsi", "rdi", "memory", "cc"
                              : abort, fail);
    *done = (uint32_t)count;
    *own = stack;
    return DK_RSEQ_DONE;
abort:
    return DK_RSEQ_ABORT;
fail:
    return DK_RSEQ_FAIL;
}

/* Take DK_RSEQ_FOLD out of the pops of *own, where they are that many; the caller counts them. */
static inline enum dk_rseq_result dk_rseq_fold(const struct dk_rseq_at *at,
                                               struct dk_rseq_stack **own)
{
    struct dk_rseq_stack *stack;
    __asm__ __volatile__ goto(DK_RSEQ_BEGIN
                              "movq (%%rax), %%rcx\n\t"
                              "testl $0x8000, %%ecx\n\t"
                              "jnz %l[fail]\n\t"
                              "btrq $62, %%rcx\n\t"
                              "jnc %l[fail]\n\t"
                              "movq %%rcx, (%%rax)\n\t"
                              "2:\n\t"
                              : [stack] "=&a"(stack)
                              : DK_RSEQ_AT(at)
                              : "rcx", "memory", "cc"
                              : abort, fail);
    *own = stack;
    return DK_RSEQ_DONE;
abort:
    return DK_RSEQ_ABORT;
fail:
    return DK_RSEQ_FAIL;
}

#undef DK_RSEQ_BEGIN
#undef DK_RSEQ_POP_HEAD
#undef DK_RSEQ_AT
#endif
