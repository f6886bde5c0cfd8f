/* SPDX-License-Identifier: MIT */
/*
 * Switches at run time (deckle_set_debug) that trade speed for detection. Included by deckle.h.
 *
 * Without any of them a wrong free is already detected and refused: double, misaligned, wrong
 * order, tail, reserved, foreign. docs/limits.md says exactly what is found when; the switches add
 * to that.
 *
 * Any thread may be allocating and freeing while a switch changes. A request that is under way
 * finishes under the old or the new set. What a free block holds is recorded with the block, not
 * concluded from the switches: a block that was freed before POISON was set is not verified, one
 * that was filled before POISON was cleared is not verified any more, and both are handed out as
 * any other.
 *
 * Cost: while all switches have always been off, one test of a word that every request reads
 * anyway. Once a switch was on, requests take the general path (some ten instructions more) even
 * after it is off again, since blocks may still be marked.
 *
 * POISON, ZERO_ON_ALLOC and ZERO_ON_FREE touch the frames, through the host's map hook only; a pool
 * without that hook refuses them with DECKLE_ENOTSUP. A frame that the hook cannot map (it returns
 * NULL) is left alone: it is neither filled nor verified.
 */
#ifndef DECKLE_DEBUG_H
#define DECKLE_DEBUG_H

#include <stdint.h>

/*
 * STRICT: state bytes change by atomic compare-and-exchange. Of two frees of one block that happen
 * at the same instant exactly one succeeds; the other is refused and reported as
 * DECKLE_BAD_DOUBLE_FREE before the block can have two owners. Without it such a pair is usually
 * found at once, and else when the second copy comes out of a cache. Cost: one locked operation at
 * each allocation and each free.
 */
#define DECKLE_DEBUG_STRICT (UINT32_C(1) << 0)

/*
 * POISON: a freed block is filled with DECKLE_POISON_BYTE; the fill is verified when the block is
 * given out again. A difference is reported as DECKLE_BAD_POISON with the byte offset and value of
 * the first one and whether it is a single flipped bit (bad memory) or more (a write after free).
 * The damaged block is never given out: it stays allocated to nobody, and the request goes on with
 * another. Cost: writing and reading every byte.
 */
#define DECKLE_DEBUG_POISON (UINT32_C(1) << 1)
#define DECKLE_POISON_BYTE  UINT32_C(0xAA)

/*
 * ZERO_ON_ALLOC: every block is given out cleared, as if each request had DECKLE_GFP_ZERO.
 * ZERO_ON_FREE: every block is cleared when it is freed; a request with DECKLE_GFP_ZERO, or
 * ZERO_ON_ALLOC, does not clear such a block again. Neither goes together with POISON
 * (DECKLE_EINVAL): the fills exclude each other, and which one wins should be said, not guessed.
 * Cost: writing every byte once.
 */
#define DECKLE_DEBUG_ZERO_ON_ALLOC (UINT32_C(1) << 2)
#define DECKLE_DEBUG_ZERO_ON_FREE  (UINT32_C(1) << 3)

#endif
