/* SPDX-License-Identifier: MIT */
/*
 * The sequences of rseq.h in x86-64 instructions. Only rseq.h includes this file.
 *
 * No asm goto: with outputs gcc before 12.4 and 13.3 loses their values in places (its bug 113921),
 * and without outputs the value would go through memory. Instead pop and push leave their result in
 * the carry flag, as their last comparison set it; the others in a register.
 */
#ifndef DK_BASE_RSEQ_X86_64_H
#define DK_BASE_RSEQ_X86_64_H

/* The kernel's own view of where the thread runs; negative (so: huge) while it is not registered.
 */
DK_INLINE uint32_t dk_rseq_cpu_id(int64_t rseq_offset)
{
    uint32_t cpu;
    __asm__ __volatile__("movl %%fs:4(%[rseq]), %[cpu]"
                         : [cpu] "=r"(cpu)
                         : [rseq] "r"(rseq_offset));
    return cpu;
}

/*
 * Descriptor (label 3) and start (1): rax = this CPU's header; rcx is lost. The sequence ends at
 * label 2, right after the store that commits; the kernel aborts it to label 4; label 6 is where it
 * gives up by itself.
 */
#define DK_RSEQ_BEGIN                                                                              \
    ".pushsection __rseq_cs, \"aw\"\n\t"                                                           \
    ".balign 32\n\t"                                                                               \
    "3:\n\t"                                                                                       \
    ".long 0, 0\n\t"                                                                               \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "movq %[rseq], %%rcx\n\t"                                                                      \
    "leaq 3b(%%rip), %%rax\n\t"                                                                    \
    "movq %%rax, %%fs:8(%%rcx)\n\t"                                                                \
    "1:\n\t"                                                                                       \
    "movl %%fs:4(%%rcx), %%eax\n\t"                                                                \
    "cmpl %[cpus], %%eax\n\t"                                                                      \
    "jae 6f\n\t"                                                                                   \
    "imull %[stride], %%eax\n\t"                                                                   \
    "addq %[base], %%rax\n\t"

/* The abort handler stands behind its signature, which is the operand of an undefined instruction
 * so that nothing can run into it. Then what to do for an abort, and for a failure. */
#define DK_RSEQ_END(aborted, failed)                                                               \
    "2:\n\t"                                                                                       \
    ".pushsection __rseq_failure, \"ax\"\n\t"                                                      \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n\t"                                                                         \
    "4:\n\t" aborted "6:\n\t" failed "jmp 2b\n\t"                                                  \
    ".popsection\n\t"

#define DK_RSEQ_RESULTS DK_RSEQ_END("movl $1, %k[result]\n\tjmp 2b\n\t", "movl $2, %k[result]\n\t")

#define DK_RSEQ_AT(at)                                                                             \
    [rseq] "m"(*(at)->rseq_offset), [cpus] "m"(*(at)->nr_cpus), [stride] "m"(*(at)->stride),       \
        [base] "r"((at)->base)

/* rcx = head, rdx = index - 1; fails on index 0. */
#define DK_RSEQ_POP_HEAD                                                                           \
    "movq (%%rax), %%rcx\n\t"                                                                      \
    "movzwl %%cx, %%edx\n\t"                                                                       \
    "subl $1, %%edx\n\t"                                                                           \
    "jb 6f\n\t"

/* Stopped, or no room in pops: the new head is negative. The addition leaves the carry clear. */
DK_INLINE bool dk_rseq_pop(const struct dk_rseq_at *at, uint32_t *out)
{
    uint64_t value; /* first the index of its slot */
    bool failed;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "movq (%%rax), %%rcx\n\t"
                         "movzwl %%cx, %k[value]\n\t"
                         "subl $1, %k[value]\n\t"
                         "jb 6f\n\t"
                         "addq $0xffff, %%rcx\n\t"
                         "js 6f\n\t"
                         "movl 64(%%rax, %q[value], 4), %k[value]\n\t"
                         "movq %%rcx, (%%rax)\n\t" DK_RSEQ_END("", "stc\n\t")
                         : [value] "=&r"(value), "=@ccc"(failed)
                         : DK_RSEQ_AT(at)
                         : "rax", "rcx", "memory");
    *out = (uint32_t)value;
    return !failed;
}

/* With STOP the low half of the head is 0x8000 or more: above every high. The comparison leaves the
 * carry set if there is room. */
DK_INLINE bool dk_rseq_push(const struct dk_rseq_at *at, uint32_t value)
{
    uint64_t index;
    bool done;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "movq (%%rax), %%rcx\n\t"
                         "cmpw 8(%%rax), %%cx\n\t"
                         "jae 6f\n\t"
                         "movzwl %%cx, %k[index]\n\t"
                         "movl %[value], 64(%%rax, %q[index], 4)\n\t"
                         "incq %%rcx\n\t"
                         "movq %%rcx, (%%rax)\n\t" DK_RSEQ_END("", "clc\n\t")
                         : [index] "=&r"(index), "=@ccc"(done)
                         : DK_RSEQ_AT(at), [value] "r"(value)
                         : "rax", "rcx", "memory");
    return done;
}

/* Up to n (1 … 64) entries, the top first; *done = how many, *own = the stack they came from. */
static inline enum dk_rseq_result dk_rseq_popn(const struct dk_rseq_at *at, uint32_t *out,
                                               uint32_t n, uint32_t *done,
                                               struct dk_rseq_stack **own)
{
    uint64_t count, result = DK_RSEQ_DONE;
    __asm__ __volatile__(DK_RSEQ_BEGIN DK_RSEQ_POP_HEAD
                         "leal 1(%%rdx), %%esi\n\t"
                         "movl %[n], %k[count]\n\t"
                         "cmpl %%esi, %k[count]\n\t"
                         "cmoval %%esi, %k[count]\n\t"
                         "imulq $0xffff, %[count], %%rsi\n\t"
                         "addq %%rsi, %%rcx\n\t"
                         "js 6f\n\t"
                         "leaq 64(%%rax, %%rdx, 4), %%rsi\n\t"
                         "xorl %%edx, %%edx\n\t"
                         "5:\n\t"
                         "movl (%%rsi), %%edi\n\t"
                         "movl %%edi, (%[out], %%rdx, 4)\n\t"
                         "subq $4, %%rsi\n\t"
                         "incl %%edx\n\t"
                         "cmpl %k[count], %%edx\n\t"
                         "jb 5b\n\t"
                         "movq %%rcx, (%%rax)\n\t" DK_RSEQ_RESULTS
                         : [stack] "=&a"(*own), [count] "=&r"(count), [result] "+&r"(result)
                         : DK_RSEQ_AT(at), [n] "r"(n), [out] "r"(out)
                         : "rcx", "rdx", "rsi", "rdi", "memory", "cc");
    *done = (uint32_t)count;
    return (enum dk_rseq_result)result;
}

/* The first values of in[0 … n) (n 1 … 64) that fit below high, in order; the last ends on top. */
static inline enum dk_rseq_result dk_rseq_pushn(const struct dk_rseq_at *at, const uint32_t *in,
                                                uint32_t n, uint32_t *done,
                                                struct dk_rseq_stack **own)
{
    uint64_t count, result = DK_RSEQ_DONE;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "movq (%%rax), %%rcx\n\t"
                         "movzwl %%cx, %%edx\n\t"
                         "movzwl 8(%%rax), %%esi\n\t"
                         "subl %%edx, %%esi\n\t"
                         "jbe 6f\n\t"
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
                         "movq %%rcx, (%%rax)\n\t" DK_RSEQ_RESULTS
                         : [stack] "=&a"(*own), [count] "=&r"(count), [result] "+&r"(result)
                         : DK_RSEQ_AT(at), [n] "r"(n), [in] "r"(in)
                         : "rcx", "rdx", "rsi", "rdi", "memory", "cc");
    *done = (uint32_t)count;
    return (enum dk_rseq_result)result;
}

/* Take DK_RSEQ_FOLD out of the pops of *own, where they are that many; the caller counts them. */
static inline enum dk_rseq_result dk_rseq_fold(const struct dk_rseq_at *at,
                                               struct dk_rseq_stack **own)
{
    uint64_t result = DK_RSEQ_DONE;
    __asm__ __volatile__(DK_RSEQ_BEGIN
                         "movq (%%rax), %%rcx\n\t"
                         "testl $0x8000, %%ecx\n\t"
                         "jnz 6f\n\t"
                         "btrq $62, %%rcx\n\t"
                         "jnc 6f\n\t"
                         "movq %%rcx, (%%rax)\n\t" DK_RSEQ_RESULTS
                         : [stack] "=&a"(*own), [result] "+&r"(result)
                         : DK_RSEQ_AT(at)
                         : "rcx", "memory", "cc");
    return (enum dk_rseq_result)result;
}

#undef DK_RSEQ_BEGIN
#undef DK_RSEQ_END
#undef DK_RSEQ_RESULTS
#undef DK_RSEQ_POP_HEAD
#undef DK_RSEQ_AT
#endif
