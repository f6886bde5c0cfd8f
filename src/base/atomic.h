/* SPDX-License-Identifier: MIT */
/*
 * The one atomic layer: the only file of the library that knows <stdatomic.h>.
 *
 * Every shared access of the core goes through a function of this file, so that a simulated machine
 * can make each of them a scheduling point (DK_SIM_POINT) without a change to the shipped code, and
 * so that a reader finds every memory order in the name of the call. No atomic is wider than the
 * machine word: dk_word has 64 bits where pointers have, else 32, and both are lock-free (asserted
 * below).
 *
 * Types: dk_aword (machine word), dk_a32, dk_a8. Orders: _relaxed, _acquire, _release, _seq. A
 * read-modify-write without suffix is seq_cst: the protocols need a store-load barrier at nearly
 * all of them and x86 gives it for nothing.
 */
#ifndef DK_BASE_ATOMIC_H
#define DK_BASE_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if UINTPTR_MAX > 0xffffffffu
typedef uint64_t dk_word;
#define DK_WORD_BITS 64u
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics must be lock-free");
#else
typedef uint32_t dk_word;
#define DK_WORD_BITS 32u
_Static_assert(ATOMIC_INT_LOCK_FREE == 2, "32-bit atomics must be lock-free");
#endif

typedef _Atomic dk_word dk_aword;
typedef _Atomic uint32_t dk_a32;
typedef _Atomic uint8_t dk_a8;

/* Kinds of scheduling points; a simulated machine defines DK_SIM_POINT(address, kind). */
enum dk_point { DK_POINT_LOAD, DK_POINT_STORE, DK_POINT_RMW, DK_POINT_FENCE, DK_POINT_HOOK };
#ifndef DK_SIM_POINT
#define DK_SIM_POINT(address, kind) ((void)(address))
#endif

#define DK_DEFINE_ATOMIC_ACCESS(name, atype, type)                                                 \
    static inline type dk_##name##load_relaxed(const atype *p)                                     \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_LOAD);                                                            \
        return atomic_load_explicit((atype *)(uintptr_t)p, memory_order_relaxed);                  \
    }                                                                                              \
    static inline type dk_##name##load_acquire(const atype *p)                                     \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_LOAD);                                                            \
        return atomic_load_explicit((atype *)(uintptr_t)p, memory_order_acquire);                  \
    }                                                                                              \
    static inline type dk_##name##load_seq(const atype *p)                                         \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_LOAD);                                                            \
        return atomic_load_explicit((atype *)(uintptr_t)p, memory_order_seq_cst);                  \
    }                                                                                              \
    static inline void dk_##name##store_relaxed(atype *p, type v)                                  \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_STORE);                                                           \
        atomic_store_explicit(p, v, memory_order_relaxed);                                         \
    }                                                                                              \
    static inline void dk_##name##store_release(atype *p, type v)                                  \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_STORE);                                                           \
        atomic_store_explicit(p, v, memory_order_release);                                         \
    }

#define DK_DEFINE_ATOMIC_UPDATE(name, atype, type)                                                 \
    static inline type dk_##name##exchange(atype *p, type v)                                       \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_RMW);                                                             \
        return atomic_exchange_explicit(p, v, memory_order_seq_cst);                               \
    }                                                                                              \
    static inline bool dk_##name##cas(atype *p, type *expected, type desired)                      \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_RMW);                                                             \
        return atomic_compare_exchange_strong_explicit(p, expected, desired, memory_order_seq_cst, \
                                                       memory_order_seq_cst);                      \
    }                                                                                              \
    static inline type dk_##name##or(atype *p, type v)                                             \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_RMW);                                                             \
        return atomic_fetch_or_explicit(p, v, memory_order_seq_cst);                               \
    }                                                                                              \
    static inline type dk_##name##and(atype *p, type v)                                            \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_RMW);                                                             \
        return atomic_fetch_and_explicit(p, v, memory_order_seq_cst);                              \
    }                                                                                              \
    static inline type dk_##name##add_relaxed(atype *p, type v)                                    \
    {                                                                                              \
        DK_SIM_POINT(p, DK_POINT_RMW);                                                             \
        return atomic_fetch_add_explicit(p, v, memory_order_relaxed);                              \
    }

DK_DEFINE_ATOMIC_ACCESS(, dk_aword, dk_word)
DK_DEFINE_ATOMIC_UPDATE(, dk_aword, dk_word)
DK_DEFINE_ATOMIC_ACCESS(a32_, dk_a32, uint32_t)
DK_DEFINE_ATOMIC_UPDATE(a32_, dk_a32, uint32_t)
DK_DEFINE_ATOMIC_ACCESS(a8_, dk_a8, uint8_t)

#if ATOMIC_CHAR_LOCK_FREE == 2 && !defined(DK_BYTES_BY_CAS)
DK_DEFINE_ATOMIC_UPDATE(a8_, dk_a8, uint8_t)
#else
/*
 * Machines without byte updates (RISC-V before Zabha, where the compiler would call libatomic): a
 * CAS on the 32-bit word around the byte. It rewrites the neighbours with their own values, so it
 * is atomic for them too; it repeats only when one of them changed meanwhile. Byte arrays start and
 * end on 4-byte boundaries. DK_BYTES_BY_CAS forces this form where the test of it runs.
 */
typedef _Atomic uint32_t __attribute__((may_alias)) dk_a32_around;

static inline bool dk_a8_cas(dk_a8 *p, uint8_t *expected, uint8_t desired)
{
    dk_a32_around *word = (dk_a32_around *)((uintptr_t)p & ~(uintptr_t)3);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    unsigned shift = 24u - 8u * (unsigned)((uintptr_t)p & 3u);
#else
    unsigned shift = 8u * (unsigned)((uintptr_t)p & 3u);
#endif
    uint32_t old;

    DK_SIM_POINT(p, DK_POINT_RMW);
    old = atomic_load_explicit(word, memory_order_seq_cst);
    for (;;) {
        uint8_t now = (uint8_t)(old >> shift);
        uint32_t changed = (old & ~((uint32_t)0xff << shift)) | (uint32_t)desired << shift;

        if (now != *expected) {
            *expected = now;
            return false;
        }
        if (atomic_compare_exchange_weak_explicit(word, &old, changed, memory_order_seq_cst,
                                                  memory_order_seq_cst))
            return true;
    }
}

#define DK_DEFINE_A8_BY_CAS(name, value)                                                           \
    static inline uint8_t dk_a8_##name(dk_a8 *p, uint8_t v)                                        \
    {                                                                                              \
        uint8_t old = dk_a8_load_relaxed(p);                                                       \
        while (!dk_a8_cas(p, &old, (uint8_t)(value)))                                              \
            continue;                                                                              \
        return old;                                                                                \
    }
DK_DEFINE_A8_BY_CAS(exchange, v)
DK_DEFINE_A8_BY_CAS(or, old | v)
DK_DEFINE_A8_BY_CAS(and, old &v)
DK_DEFINE_A8_BY_CAS(add_relaxed, old + v)
#endif

/*
 * A store that is no scheduling point: the last step of a restartable sequence on the simulated
 * machine, where nothing may come between the question whether the sequence still runs and the
 * store.
 */
static inline void dk_store_unseen(dk_aword *p, dk_word v)
{
    atomic_store_explicit(p, v, memory_order_relaxed);
}

static inline void dk_fence_seq(void)
{
    DK_SIM_POINT((void *)0, DK_POINT_FENCE);
    atomic_thread_fence(memory_order_seq_cst);
}

/* Only orders the compiler: pairs with code on the same CPU (a restartable sequence, a signal). */
static inline void dk_fence_compiler(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Event counters of 64 bits from machine words. On 64-bit machines one relaxed add. On 32-bit
 * machines the low half carries into the high half; a reader takes high, low, high until both highs
 * agree, so a count is exact once the adders are quiet.
 */
typedef struct {
    dk_aword lo;
#if DK_WORD_BITS == 32
    dk_aword hi;
#endif
} dk_counter;

static inline void dk_counter_add(dk_counter *c, uint32_t n)
{
#if DK_WORD_BITS == 64
    dk_add_relaxed(&c->lo, n);
#else
    dk_word old = dk_add_relaxed(&c->lo, n);
    if ((dk_word)(old + n) < old)
        dk_add_relaxed(&c->hi, 1);
#endif
}

static inline uint64_t dk_counter_read(const dk_counter *c)
{
#if DK_WORD_BITS == 64
    return dk_load_relaxed(&c->lo);
#else
    for (unsigned tries = 0;; tries++) {
        dk_word hi = dk_load_relaxed(&c->hi);
        dk_word lo = dk_load_relaxed(&c->lo);
        if (tries == 8 || dk_load_relaxed(&c->hi) == hi)
            return (uint64_t)hi << 32 | lo;
    }
#endif
}

#endif
