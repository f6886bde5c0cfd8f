/* SPDX-License-Identifier: MIT */
/* Reaping: deckle_reap and deckle_detach are in reap.c. */
#ifndef DK_CORE_REAP_H
#define DK_CORE_REAP_H

#include "core/layout.h"

/* Count again the blocks that gives without intent have closed, if there are any. */
void dk_recount_abandoned(struct deckle *d);

#endif
