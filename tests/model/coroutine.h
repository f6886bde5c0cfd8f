/* SPDX-License-Identifier: MIT */
/*
 * Threads of a model as functions that stop before each access to shared memory. A function returns
 * false when it has stopped and true when it has finished; where it stopped is a byte of its thread
 * (pc), so a state is plain data. Local variables do not survive a stop.
 *
 *   CO_AT(pc, n)          stop here; the step goes on from here. n: any number not used twice
 *   CO_CALL(pc, n, call)  run another function with its own pc until it has finished
 */
#ifndef MODEL_COROUTINE_H
#define MODEL_COROUTINE_H

#define CO_BEGIN(pc)                                                                               \
    switch (pc) {                                                                                  \
    case 0:

#define CO_AT(pc, n)                                                                               \
    do {                                                                                           \
        (pc) = (n);                                                                                \
        return false;                                                                              \
    case (n):;                                                                                     \
    } while (0)

#define CO_CALL(pc, n, call)                                                                       \
    do {                                                                                           \
        (pc) = (n);                                                                                \
        __attribute__((fallthrough));                                                              \
    case (n):                                                                                      \
        if (!(call))                                                                               \
            return false;                                                                          \
    } while (0)

#define CO_RETURN(pc)                                                                              \
    do {                                                                                           \
        (pc) = 0;                                                                                  \
        return true;                                                                               \
    } while (0)

#define CO_END(pc)                                                                                 \
    }                                                                                              \
    (pc) = 0;                                                                                      \
    return true

#endif
