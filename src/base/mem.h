/* SPDX-License-Identifier: MIT */
/* The four functions that a freestanding C implementation must supply anyway (C11 4p6, GCC
 * manual). */
#ifndef DK_BASE_MEM_H
#define DK_BASE_MEM_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);

#endif
