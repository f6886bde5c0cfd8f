/* SPDX-License-Identifier: MIT */
/*
 * Request flags as traces spell them: names joined by "|", numbers, or both. Bits are those of
 * Linux 6.12 (DECKLE_GFP_…). Numbers are taken to be of that numbering, which has been stable for
 * the bits that matter since 6.2; names hold for every kernel. Names of flags that later kernels
 * dropped are known: either they got a successor (__GFP_REPEAT) or they mean nothing now
 * (__GFP_COLD).
 */
#ifndef DECKLE_TOOLS_TRACE_GFP_H
#define DECKLE_TOOLS_TRACE_GFP_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads flags from text of the given length into *gfp. What is not known, a name or the unknown
 * bits of a number, goes to unknown(context, text, length) and is left out; unknown may be NULL.
 */
void trace_gfp_parse(const char *text, size_t length, uint32_t *gfp,
                     void (*unknown)(void *context, const char *text, size_t length),
                     void *context);

#define TRACE_GFP_TEXT 512u

/* Writes flags the way the kernel does, combinations first; to has TRACE_GFP_TEXT bytes. */
void trace_gfp_format(uint32_t gfp, char *to);

#endif
