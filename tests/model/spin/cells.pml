/* SPDX-License-Identifier: MIT */
/*
 * The word `live` above a list of cells (src/core/pcp_cells.c) for spin: two cells, pushers, a popper
 * and drainers. A push fills a cell, then reads live; a drain marks live, sweeps the cells and clears
 * exactly the word that it marked.
 *
 * Shown: when LIVE is clear no completed push is in the list. With -DNO_VERSION, -DIGNORE_CLEAR,
 * -DNO_MARK, -DANNOUNCE_FIRST or -DNO_COMPARE (simpler forms) spin finds one.
 */
#define LIVE  1
#define CLEAR 2

byte flags, version;
byte filled[2];  /* 0, or who has filled it */
bit complete[2]; /* ghost: the push into this cell has completed and nobody has popped it */

#ifdef NO_VERSION
#define NEXT(v) (v)
#else
#define NEXT(v) ((v) + 1)
#endif

#define LOAD d_step { f = flags; v = version }
#define CAS(nf, nv)                                                                                \
    d_step {                                                                                       \
        ok = (flags == f && version == v);                                                         \
        if                                                                                         \
        :: ok -> flags = nf; version = nv                                                          \
        :: else -> f = flags; v = version                                                          \
        fi                                                                                         \
    }

#ifdef IGNORE_CLEAR
#define PLAINLY_LIVE (f & LIVE)
#else
#define PLAINLY_LIVE (f == LIVE)
#endif

inline announce()
{
    LOAD;
    do
    :: PLAINLY_LIVE -> break
    :: else ->
        CAS(LIVE, NEXT(v));
        if
        :: ok -> break
        :: else
        fi
    od;
    skip
}

proctype push(byte i)
{
    byte f, v;
    bit ok;
#ifdef ANNOUNCE_FIRST
    announce();
#endif
    d_step {
        ok = !filled[i];
        filled[i] = (ok -> _pid : filled[i])
    }
    if
    :: !ok -> goto end
    :: else
    fi;
#ifndef ANNOUNCE_FIRST
    announce();
#endif
    d_step { complete[i] = complete[i] || filled[i] == _pid }
end:
    skip
}

inline take_out(i)
{
    d_step {
        filled[i] = 0;
        complete[i] = 0
    }
}

proctype drain()
{
    byte f, v;
    bit ok;
    LOAD;
    if
    :: !(f & LIVE) -> goto end
    :: else
    fi;
#ifndef NO_MARK
    CAS((LIVE | CLEAR), NEXT(v));
    if
    :: !ok -> goto end
    :: else
    fi;
    f = LIVE | CLEAR;
    v = NEXT(v);
#endif
    take_out(0);
    take_out(1);
#ifdef NO_COMPARE
    d_step { flags = 0; version = v }
#else
    CAS(0, v);
#endif
end:
    skip
}

proctype pop(byte i)
{
    take_out(i)
}

/* A popped frame goes back into the same cell. */
proctype pop_push(byte i)
{
    byte f, v;
    bit ok;
    take_out(i);
    d_step {
        ok = !filled[i];
        filled[i] = (ok -> _pid : filled[i])
    }
    if
    :: !ok -> goto end
    :: else
    fi;
    announce();
    d_step { complete[i] = complete[i] || filled[i] == _pid }
end:
    skip
}

proctype invariant()
{
    assert((flags & LIVE) || (!complete[0] && !complete[1]))
}

init
{
    atomic {
        run push(0);
        run push(1);
        run pop_push(0);
        run drain();
        run drain();
        run invariant()
    }
}
