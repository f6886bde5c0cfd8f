/* SPDX-License-Identifier: MIT */
/*
 * The index protocol of src/core/index.c for spin: one leaf word with two children below a root, two
 * owners whose blocks come (and one of which goes and comes again), who else shows it, and a finder that clears what it meets empty. A word is
 * { children, CLEARING, version }; W of a block is whether it can serve.
 *
 * Shown: from the end of a set on, as long as the block's W says so, its bit is in the leaf and the
 * leaf's in the root. With -DNO_VERSION, -DIGNORE_CLEARING, -DTRUST_SET_BIT or -DCHILD_FIRST (simpler
 * forms) spin finds a way to lose a block.
 */
typedef word {
    byte bits;
    bit clearing;
    byte version;
}

word node[2];  /* 0 the leaf, 1 the root */
bit W[2];
bit shown[2];  /* ghost: a set of this block has ended, W has not changed since it began */
byte changes;  /* ghost: of W of block 0 */

#ifdef NO_VERSION
#define NEXT(v) (v)
#else
#define NEXT(v) ((v) + 1)
#endif

#define LOAD(l) d_step { b = node[l].bits; c = node[l].clearing; v = node[l].version }
#define CAS(l, nb, nc, nv)                                                                         \
    d_step {                                                                                       \
        ok = (node[l].bits == b && node[l].clearing == c && node[l].version == v);                 \
        if                                                                                         \
        :: ok -> node[l].bits = nb; node[l].clearing = nc; node[l].version = nv                    \
        :: else -> b = node[l].bits; c = node[l].clearing; v = node[l].version                     \
        fi                                                                                         \
    }

#ifdef IGNORE_CLEARING
#define IS_SET(mask) ((b & (mask)) != 0)
#else
#define IS_SET(mask) ((b & (mask)) != 0 && !c)
#endif

inline set(i)
{
    l = 0;
    do
    :: l == 2 -> break
    :: l < 2 ->
        mask = (l == 0 -> (1 << i) : 1);
        LOAD(l);
        do
        :: IS_SET(mask) ->
#ifdef TRUST_SET_BIT
            l = 1;
#endif
            break
        :: else ->
            CAS(l, (b | mask), 0, NEXT(v));
            if
            :: ok -> break
            :: else
            fi
        od;
        l++
    od
}

/* One try: a clearer whose last CAS fails leaves the bit to the next finder. */
inline clear(i)
{
    l = 0;
    do
    :: l == 2 -> break
    :: l < 2 ->
        mask = (l == 0 -> (1 << i) : 1);
        LOAD(l);
        if
        :: (b & mask) == 0 -> break
        :: else
        fi;
#ifdef CHILD_FIRST
        there = (l == 0 -> W[i] : node[0].bits != 0);
#endif
        CAS(l, b, 1, NEXT(v));
        if
        :: !ok -> break
        :: else
        fi;
        c = 1;
        v = NEXT(v);
#ifndef CHILD_FIRST
        there = (l == 0 -> W[i] : node[0].bits != 0);
#endif
        if
        :: there -> break
        :: else
        fi;
        CAS(l, (b & (255 - mask)), 0, v);
        if
        :: !ok || (b & (255 - mask)) != 0 -> break
        :: else
        fi;
        l++
    od
}

proctype owner(byte i; byte rounds)
{
    byte l, mask, b, v, n;
    bit c, ok, there;
    do
    :: n == rounds -> break
    :: n < rounds ->
        W[i] = 1;
        set(i);
        skip;
        shown[i] = 1;
        d_step { shown[i] = 0; W[i] = 0; changes = changes + (i == 0) }
        clear(i);
        n++
    od;
    W[i] = 1;
    set(i);
    shown[i] = 1
}

/* Whoever frees to a block whose class stays as it is shows it too: its owner may be stopped. */
proctype shower()
{
    byte l, mask, b, v, before;
    bit c, ok;
    d_step { ok = W[0]; before = changes }
    if
    :: ok ->
        set(0);
        skip;
        d_step { shown[0] = shown[0] || (W[0] && before == changes) }
    :: else
    fi
}

proctype finder(byte i)
{
    byte l, mask, b, v;
    bit c, ok, there;
    clear(i)
}

proctype invariant()
{
    assert((!shown[0] || ((node[0].bits & 1) && node[1].bits)) &&
           (!shown[1] || ((node[0].bits & 2) && node[1].bits)))
}

init
{
    atomic {
        run owner(0, 1);
        run owner(1, 0);
        run shower();
        run finder(0);
        run invariant()
    }
}
