/* SPDX-License-Identifier: MIT */
/* The switch between contexts; what it is for: context.h. */
#define _GNU_SOURCE 1
#include "host/sim/context.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#ifdef DK_SIM_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

bool sim_context_make(struct sim_context *c, size_t stack_size)
{
    const int private = MAP_PRIVATE | MAP_ANONYMOUS;
    void *stack = mmap(NULL, stack_size, PROT_READ | PROT_WRITE, private, -1, 0);
    *c = (struct sim_context){.stack_size = stack_size};
    if (stack == MAP_FAILED)
        return false;
    c->stack = stack;
    return true;
}

void sim_context_free(struct sim_context *c)
{
    if (c->stack)
        munmap(c->stack, c->stack_size);
    c->stack = NULL;
}

#ifdef DK_SIM_OWN_SWITCH

void dk_sim_switch(void **from, void *to);

/* What a call preserves under the System V ABI: rbx, rbp, r12 to r15 and the stack pointer. The
 * control words of the floating-point units are never changed here. */
__asm__(".text\n"
        ".p2align 4\n"
        ".type dk_sim_switch, @function\n"
        ".globl dk_sim_switch\n"
        ".hidden dk_sim_switch\n"
        "dk_sim_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size dk_sim_switch, . - dk_sim_switch\n");

static void prepare(struct sim_context *c, void (*entry)(void))
{
    /* Six registers, the address to return to, and nothing above it: as if entry was called. */
    uintptr_t *top = (uintptr_t *)((unsigned char *)c->stack + c->stack_size) - 8;
    memset(top, 0, 8 * sizeof(*top));
    top[6] = (uintptr_t)entry;
    c->sp = top;
}

static void change(struct sim_context *from, struct sim_context *to)
{
    dk_sim_switch(&from->sp, to->sp);
}

#else

static void prepare(struct sim_context *c, void (*entry)(void))
{
    getcontext(&c->uc);
    c->uc.uc_stack.ss_sp = c->stack;
    c->uc.uc_stack.ss_size = c->stack_size;
    c->uc.uc_link = NULL;
    makecontext(&c->uc, entry, 0);
}

static void change(struct sim_context *from, struct sim_context *to)
{
    swapcontext(&from->uc, &to->uc);
}

#endif

#ifdef DK_SIM_ASAN

static struct sim_context *left; /* by the last switch */

static void arrived(void *fake)
{
    const void *bottom;
    size_t size;
    __sanitizer_finish_switch_fiber(fake, &bottom, &size);
    if (!left->stack) { /* the first stack is known from here on */
        left->stack = (void *)(uintptr_t)bottom;
        left->stack_size = size;
    }
}

void sim_context_start(struct sim_context *c, void (*entry)(void))
{
    __asan_unpoison_memory_region(c->stack, c->stack_size);
    c->fake = NULL;
    prepare(c, entry);
}

void sim_context_switch(struct sim_context *from, struct sim_context *to)
{
    left = from;
    __sanitizer_start_switch_fiber(&from->fake, to->stack, to->stack_size);
    change(from, to);
    arrived(from->fake);
}

void sim_context_entered(void)
{
    arrived(NULL);
}

#else

void sim_context_start(struct sim_context *c, void (*entry)(void))
{
    prepare(c, entry);
}

void sim_context_switch(struct sim_context *from, struct sim_context *to)
{
    change(from, to);
}

void sim_context_entered(void)
{
}

#endif
