/* SPDX-License-Identifier: MIT */
/*
 * What the fast paths of deckle_alloc and deckle_free look up in the handle: tables that say where
 * a request or a frame finds its list, so that everything that could send it to the general path (a
 * run-time switch, several nodes, no such zone, illegal placement flags) is one test of one word.
 */
#ifndef DK_CORE_FAST_H
#define DK_CORE_FAST_H

#include "core/layout.h"

/* Fill the tables anew, after a change of d->slow, fast_zone or main_nr. Set-up. */
void dk_fast_update(struct deckle *d);

#endif
