/* SPDX-License-Identifier: MIT */
/* Hints to the compiler, and nothing else. */
#ifndef DK_BASE_COMPILER_H
#define DK_BASE_COMPILER_H

#define dk_likely(x)   __builtin_expect(!!(x), 1)
#define dk_unlikely(x) __builtin_expect(!!(x), 0)
#define DK_INLINE      static inline __attribute__((always_inline))
#define DK_NOINLINE    __attribute__((noinline))
#define DK_COLD        __attribute__((noinline, cold))
#define DK_CALLER()    __builtin_return_address(0)
/* In one arm of a branch: keeps the compiler from computing both arms and choosing (a data
 * dependency). */
#define dk_keep_branch(variable) __asm__("" : "+r"(variable))
#define DK_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
