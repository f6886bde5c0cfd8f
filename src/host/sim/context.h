/* SPDX-License-Identifier: MIT */
/*
 * Contexts of one OS thread that call each other like functions: a stack and what a call preserves.
 * x86-64 has a switch of its own, about two nanoseconds; elsewhere it is ucontext, whose system
 * calls make it a hundred times slower.
 */
#ifndef DK_HOST_SIM_CONTEXT_H
#define DK_HOST_SIM_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__) && defined(__LP64__) && !defined(DK_SIM_UCONTEXT)
#define DK_SIM_OWN_SWITCH 1
#else
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define DK_SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DK_SIM_ASAN 1
#endif
#endif

struct sim_context {
#ifdef DK_SIM_OWN_SWITCH
    void *sp;
#else
    ucontext_t uc;
#endif
    void *stack; /* NULL: the stack that the program began with */
    size_t stack_size;
    void *fake; /* AddressSanitizer's own */
};

/* Reserve a stack. false: no memory. */
bool sim_context_make(struct sim_context *c, size_t stack_size);
void sim_context_free(struct sim_context *c);

/* The next switch to c calls entry, which must not return. Whatever c was doing is forgotten. */
void sim_context_start(struct sim_context *c, void (*entry)(void));

/* Leave `from`, go on in `to`. */
void sim_context_switch(struct sim_context *from, struct sim_context *to);

/* First thing in an entry function. */
void sim_context_entered(void);

#endif
