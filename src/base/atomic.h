/* SPDX-License-Identifier: MIT */
/*
 * The one atomic layer: the only file of the library that knows <stdatomic.h>.
 *
 * Every shared access of the core goes through a function of this file, so that a simulated machine
 * can supply all of them (DK_ATOMIC_…) without a change to the shipped code, and so that a reader
 * finds every memory order in the name of the call. No atomic is wider than the
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

/*
 * What the functions below are made of. The simulated machine (host/sim/hooks.h) supplies its own:
 * it decides at each of them who goes on, which stores are visible yet and which value a load sees.
 */
#ifndef DK_ATOMIC_LOAD
#define DK_ATOMIC_LOAD(p, order)     atomic_load_explicit((p), memory_order_##order)
#define DK_ATOMIC_STORE(p, v, order) atomic_store_explicit((p), (v), memory_order_##order)
#define DK_ATOMIC_CAS(p, expected, desired)                                                        \
    atomic_compare_exchange_strong_explicit((p), (expected), (desired), memory_order_seq_cst,      \
                                            memory_order_seq_cst)
/* op: exchange, fetch_or, fetch_and, fetch_add */
#define DK_ATOMIC_RMW(op, p, v, order) atomic_##op##_explicit((p), (v), memory_order_##order)
#define DK_ATOMIC_FENCE()              atomic_thread_fence(memory_order_seq_cst)
#endif

#define DK_DEFINE_ATOMIC_ACCESS(name, atype, type)                                                 \
    static inline type dk_##name##load_relaxed(const atype *p)                                     \
    {                                                                                              \
        return (type)DK_ATOMIC_LOAD((atype *)(uintptr_t)p, relaxed);                               \
    }                                                                                              \
    static inline type dk_##name##load_acquire(const atype *p)                                     \
    {                                                                                              \
        return (type)DK_ATOMIC_LOAD((atype *)(uintptr_t)p, acquire);                               \
    }                                                                                              \
    static inline type dk_##name##load_seq(const atype *p)                                         \
    {                                                                                              \
        return (type)DK_ATOMIC_LOAD((atype *)(uintptr_t)p, seq_cst);                               \
    }                                                                                              \
    static inline void dk_##name##store_relaxed(atype *p, type v)                                  \
    {                                                                                              \
        DK_ATOMIC_STORE(p, v, relaxed);                                                            \
    }                                                                                              \
    static inline void dk_##name##store_release(atype *p, type v)                                  \
    {                                                                                              \
        DK_ATOMIC_STORE(p, v, release);                                                            \
    }

#define DK_DEFINE_ATOMIC_UPDATE(name, atype, type)                                                 \
    static inline type dk_##name##exchange(atype *p, type v)                                       \
    {                                                                                              \
        return (type)DK_ATOMIC_RMW(exchange, p, v, seq_cst);                                       \
    }                                                                                              \
    static inline bool dk_##name##cas(atype *p, type *expected, type desired)                      \
    {                                                                                              \
        return DK_ATOMIC_CAS(p, expected, desired);                                                \
    }                                                                                              \
    static inline type dk_##name##or(atype *p, type v)                                             \
    {                                                                                              \
        return (type)DK_ATOMIC_RMW(fetch_or, p, v, seq_cst);                                       \
    }                                                                                              \
    static inline type dk_##name##and(atype *p, type v)                                            \
    {                                                                                              \
        return (type)DK_ATOMIC_RMW(fetch_and, p, v, seq_cst);                                      \
    }                                                                                              \
    static inline type dk_##name##add_relaxed(atype *p, type v)                                    \
    {                                                                                              \
        return (type)DK_ATOMIC_RMW(fetch_add, p, v, relaxed);                                      \
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

static inline void dk_fence_seq(void)
{
    DK_ATOMIC_FENCE();
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

/* 0: nothing is counted, to see what that costs. */
#ifndef DK_COUNTERS
#define DK_COUNTERS 1
#endif

static inline void dk_counter_add(dk_counter *c, uint32_t n)
{
#if !DK_COUNTERS
    (void)c, (void)n;
#elif DK_WORD_BITS == 64
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
