/* SPDX-License-Identifier: MIT */
/*
 * Work in a process of its own that just ends: closing a pool reads all of its metadata, and that
 * of 16 TiB takes seconds; and what one piece of work leaves in memory does not reach the next.
 */
#ifndef DECKLE_TOOLS_BENCH_CHILD_H
#define DECKLE_TOOLS_BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>

/* Runs in the child, where there are no other threads; returns an exit status. wish is what the
 * caller handed over, figures what he gets back. */
typedef int bench_child_fn(const void *wish, void *figures);

/* 0, or the child's exit status, or one after a message. *figures (bytes, at most 64 KiB) is filled
 * if it is 0. name: for messages. */
int bench_child_run(const char *name, bench_child_fn *work, const void *wish, void *figures,
                    size_t bytes);

/* Binds the calling thread to a CPU. */
bool bench_bind(unsigned cpu);

#endif
