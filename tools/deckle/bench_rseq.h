/* SPDX-License-Identifier: MIT */
/*
 * Restartable sequences of the reference `limit`: pop and push on the stack of the CPU on which the
 * thread happens to run, by one and by many. x86-64 and glibc's registration only; elsewhere
 * BENCH_HAVE_RSEQ is 0 and nothing else is defined.
 *
 * A stack is a count followed by the entries. The only store that others can see is that of the
 * count, the last instruction of each sequence; when the kernel moves or interrupts the thread
 * before it, the thread resumes at the abort label and nothing has happened.
 */
#ifndef DECKLE_TOOLS_BENCH_RSEQ_H
#define DECKLE_TOOLS_BENCH_RSEQ_H

#include <stdint.h>

#if defined(__x86_64__) && defined(__linux__) && defined(__has_include)
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define BENCH_HAVE_RSEQ 1
#endif
#endif
#ifndef BENCH_HAVE_RSEQ
#define BENCH_HAVE_RSEQ 0
#endif

#if BENCH_HAVE_RSEQ

enum bench_rseq_result {
    BENCH_RSEQ_DONE,
    BENCH_RSEQ_AGAIN, /* aborted */
    BENCH_RSEQ_END    /* too few entries, or no room */
};

/* Where the stacks are: of CPU c, at base + c * stride. offset: of struct rseq from the thread
 * pointer. */
struct bench_rseq_stacks {
    char *base;
    uint64_t stride;
    int64_t offset;
};

/* cpu_id is at byte 4 of struct rseq, rseq_cs at byte 8. The descriptor: version, flags, start,
 * length, abort address; the abort handler is preceded by the signature glibc registered, which
 * here is the operand of an undefined instruction. */
#define BENCH_RSEQ_BEGIN                                                                           \
    ".pushsection __rseq_cs, \"aw\"\n"                                                             \
    ".balign 32\n"                                                                                 \
    "3: .long 0, 0\n"                                                                              \
    ".quad 1f, 2f - 1f, 4f\n"                                                                      \
    ".popsection\n"                                                                                \
    ".pushsection __rseq_failure, \"ax\"\n"                                                        \
    ".byte 0x0f, 0xb9, 0x3d\n"                                                                     \
    ".long 0x53053053\n"                                                                           \
    "4: jmp %l[again]\n"                                                                           \
    ".popsection\n"                                                                                \
    "leaq 3b(%%rip), %%rax\n"                                                                      \
    "movq %%rax, %%fs:8(%[offset])\n"                                                              \
    "1:\n"

/* rax = the stack of this CPU, count = what it holds. */
#define BENCH_RSEQ_LOAD                                                                            \
    "movl %%fs:4(%[offset]), %%eax\n"                                                              \
    "imulq %[stride], %%rax\n"                                                                     \
    "addq %[base], %%rax\n"                                                                        \
    "movq (%%rax), %[count]\n"

#define BENCH_RSEQ_COMMIT                                                                          \
    "movq %[count], (%%rax)\n"                                                                     \
    "2:\n"

/* Copy n > 0 entries from (from) to (to); changes all three. */
#define BENCH_RSEQ_COPY                                                                            \
    "testq $1, %[n]\n"                                                                             \
    "jz 5f\n"                                                                                      \
    "movsq\n"                                                                                      \
    "5: shrq $1, %[n]\n"                                                                           \
    "jz 7f\n"                                                                                      \
    "6: movups (%%rsi), %%xmm0\n"                                                                  \
    "movups %%xmm0, (%%rdi)\n"                                                                     \
    "addq $16, %%rsi\n"                                                                            \
    "addq $16, %%rdi\n"                                                                            \
    "decq %[n]\n"                                                                                  \
    "jnz 6b\n"                                                                                     \
    "7:\n"

static inline __attribute__((always_inline)) enum bench_rseq_result
bench_rseq_pop(const struct bench_rseq_stacks *s, uint64_t *entry)
{
    uint64_t value, count;

    __asm__ volatile goto(BENCH_RSEQ_BEGIN BENCH_RSEQ_LOAD
                          "subq $1, %[count]\n"
                          "jc %l[end]\n"
                          "movq 8(%%rax, %[count], 8), %[value]\n" BENCH_RSEQ_COMMIT
                          : [value] "=&r"(value), [count] "=&r"(count)
                          : [offset] "r"(s->offset), [stride] "r"(s->stride), [base] "r"(s->base)
                          : "rax", "memory", "cc"
                          : again, end);
    *entry = value;
    return BENCH_RSEQ_DONE;
again:
    return BENCH_RSEQ_AGAIN;
end:
    return BENCH_RSEQ_END;
}

/* Refused when the stack holds high entries or more. */
static inline __attribute__((always_inline)) enum bench_rseq_result
bench_rseq_push(const struct bench_rseq_stacks *s, uint64_t entry, uint64_t high)
{
    uint64_t count;

    __asm__ volatile goto(BENCH_RSEQ_BEGIN BENCH_RSEQ_LOAD "cmpq %[high], %[count]\n"
                                                           "jae %l[end]\n"
                                                           "movq %[value], 8(%%rax, %[count], 8)\n"
                                                           "incq %[count]\n" BENCH_RSEQ_COMMIT
                          : [count] "=&r"(count)
                          : [offset] "r"(s->offset), [stride] "r"(s->stride), [base] "r"(s->base),
                            [value] "r"(entry), [high] "r"(high)
                          : "rax", "memory", "cc"
                          : again, end);
    return BENCH_RSEQ_DONE;
again:
    return BENCH_RSEQ_AGAIN;
end:
    return BENCH_RSEQ_END;
}

/* nr entries or none. nr > 0. */
static inline __attribute__((always_inline)) enum bench_rseq_result
bench_rseq_pop_bulk(const struct bench_rseq_stacks *s, uint64_t *entries, uint64_t nr)
{
    uint64_t count, n = nr;

    __asm__ volatile goto(
        BENCH_RSEQ_BEGIN BENCH_RSEQ_LOAD "subq %[n], %[count]\n"
                                         "jc %l[end]\n"
                                         "leaq 8(%%rax, %[count], 8), %%rsi\n"
                                         "movq %[to], %%rdi\n" BENCH_RSEQ_COPY BENCH_RSEQ_COMMIT
        : [count] "=&r"(count), [n] "+&r"(n)
        : [offset] "r"(s->offset), [stride] "r"(s->stride), [base] "r"(s->base), [to] "r"(entries)
        : "rax", "rsi", "rdi", "xmm0", "memory", "cc"
        : again, end);
    return BENCH_RSEQ_DONE;
again:
    return BENCH_RSEQ_AGAIN;
end:
    return BENCH_RSEQ_END;
}

/* nr entries or none; refused when the stack would hold more than high. nr > 0. */
static inline __attribute__((always_inline)) enum bench_rseq_result
bench_rseq_push_bulk(const struct bench_rseq_stacks *s, const uint64_t *entries, uint64_t nr,
                     uint64_t high)
{
    uint64_t count, n = nr;

    __asm__ volatile goto(BENCH_RSEQ_BEGIN BENCH_RSEQ_LOAD
                          "leaq 8(%%rax, %[count], 8), %%rdi\n"
                          "addq %[n], %[count]\n"
                          "cmpq %[high], %[count]\n"
                          "ja %l[end]\n"
                          "movq %[from], %%rsi\n" BENCH_RSEQ_COPY BENCH_RSEQ_COMMIT
                          : [count] "=&r"(count), [n] "+&r"(n)
                          : [offset] "r"(s->offset), [stride] "r"(s->stride), [base] "r"(s->base),
                            [from] "r"(entries), [high] "r"(high)
                          : "rax", "rsi", "rdi", "xmm0", "memory", "cc"
                          : again, end);
    return BENCH_RSEQ_DONE;
again:
    return BENCH_RSEQ_AGAIN;
end:
    return BENCH_RSEQ_END;
}

#endif /* BENCH_HAVE_RSEQ */
#endif
