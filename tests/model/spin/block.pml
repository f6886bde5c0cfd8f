/* SPDX-License-Identifier: MIT */
/*
 * One pageblock (src/core/zone.c) for spin: four frames, W = { used, run, version }, takers of one
 * frame and of a pair. The line is one word here; a give clears, scans and then adds, a take reserves,
 * claims, settles, and undoes what it did not get.
 *
 * Shown: a frame has one owner; when all are done W counts exactly the frames that are used, and its
 * run is not smaller than the largest free run. With -DNO_VERSION, -DCOUNT_FIRST or -DSCAN_FIRST
 * (simpler forms) spin finds otherwise.
 */
byte line;           /* bit = used */
byte used, version;
byte best = 2;       /* run: 0 none, 1 a frame, 2 a pair */
byte owner[4];
byte working = 3;

#ifdef NO_VERSION
#define NEXT(v) (v)
#else
#define NEXT(v) ((v) + 1)
#endif

#define SCAN(x) (((x) & 3) == 0 || ((x) & 12) == 0 -> 2 : ((x) == 15 -> 0 : 1))
#define LOAD d_step { u = used; r = best; v = version }
#define CAS(nu, nr, nv)                                                                            \
    d_step {                                                                                       \
        ok = (used == u && best == r && version == v);                                             \
        if                                                                                         \
        :: ok -> used = nu; best = nr; version = nv                                                \
        :: else -> u = used; r = best; v = version                                                 \
        fi                                                                                         \
    }

inline add(n)
{
#ifndef SCAN_FIRST
    scan = SCAN(line);
#endif
    LOAD;
    do
    :: CAS((u - n), (scan > r -> scan : r), NEXT(v));
        if
        :: ok -> break
        :: else
        fi
    od
}

inline give(m, n)
{
#ifdef SCAN_FIRST
    scan = SCAN(line);
#endif
#ifdef COUNT_FIRST
    add(n);
    skip;
    d_step { line = line & (15 - (m)) }
#else
    d_step { line = line & (15 - (m)) }
    add(n);
#endif
}

inline settle()
{
    LOAD;
    scan = SCAN(line);
    if
    :: scan < r && u != 0 -> CAS(u, scan, v)
    :: else
    fi
}

/* n frames: one, or a pair. got: their mask. */
inline take(n)
{
    got = 0;
    LOAD;
    do
    :: r < n || 4 - u < n -> break
    :: else ->
        CAS((u + n), r, v);
        if
        :: ok ->
            do
            :: x = line;
                if
                :: n == 1 -> m = (!(x & 1) -> 1 : (!(x & 2) -> 2 : (!(x & 4) -> 4 : (!(x & 8) -> 8 : 0))))
                :: n == 2 -> m = (!(x & 3) -> 3 : (!(x & 12) -> 12 : 0))
                fi;
                if
                :: m == 0 -> break
                :: else ->
                    d_step {
                        ok = (line == x);
                        if
                        :: ok -> line = line | m; got = m
                        :: else
                        fi
                    }
                    if
                    :: ok -> break
                    :: else
                    fi
                fi
            od;
            settle();
            if
            :: got == 0 ->
                add(n)
            :: else
            fi;
            break
        :: else
        fi
    od
}

inline own(who)
{
    d_step {
        i = 0;
        do
        :: i == 4 -> break
        :: i < 4 ->
            if
            :: got & (1 << i) -> assert(owner[i] == 0); owner[i] = who
            :: else
            fi;
            i++
        od
    }
}

inline disown()
{
    d_step {
        i = 0;
        do
        :: i == 4 -> break
        :: i < 4 ->
            if
            :: got & (1 << i) -> owner[i] = 0
            :: else
            fi;
            i++
        od
    }
}

proctype user(byte who; byte n; bit keeps)
{
    byte u, r, v, scan, got, m, x, i;
    bit ok;
    take(n);
    own(who);
    if
    :: got != 0 && !keeps ->
        disown();
        m = got;
        give(m, n)
    :: else
    fi;
    working--
}

/* Frames 0 and 1 are given back by their owner, one after the other. */
proctype giver()
{
    byte u, r, v, scan, got;
    byte i;
    bit ok;
    got = 1;
    disown();
    give(1, 1);
    got = 2;
    disown();
    give(2, 1);
    working--
}

proctype invariant()
{
    working == 0 ->
    assert(used == (line & 1) + (line / 2 & 1) + (line / 4 & 1) + (line / 8 & 1) &&
           best >= SCAN(line))
}

init
{
    atomic {
        line = 3;
        used = 2;
        owner[0] = 9;
        owner[1] = 9;
        run giver();
        run user(1, 2, 0);
        run user(2, 1, 1);
        run invariant()
    }
}
