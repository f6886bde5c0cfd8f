/* SPDX-License-Identifier: MIT */
/* Opening of a pool's file in steps, as deckle_open_shared and deckle_recover_file take them. */
#ifndef DK_HOST_LINUX_SHARED_H
#define DK_HOST_LINUX_SHARED_H

#include "host/linux/pool_file.h"

/* A pool on its way to be opened. Whatever is set is undone by pool_abandon. */
struct opening {
    struct deckle_open_options o;
    struct pool_why why;
    int fd;                /* of the file, for mapping; -1 */
    struct pool_header header;
    uint64_t found;        /* length of the file */
    struct hosted *h;      /* and the room for the handle behind it */
    struct deckle *d;      /* attached */
};

/* The options, and the file, which is opened. */
int pool_begin(struct opening *p, const struct deckle_open_options *options, uint32_t flags);

/* Memory for the handle, and the descriptor for locks. */
int pool_make_handle(struct opening *p);

/* Both mappings, of a file that is long enough. */
int pool_map(struct opening *p);

/* Attach to the metadata at p->h->file_head. */
int pool_attach(struct opening *p, uint32_t flags);

/* All that was done is undone, as far as it was. */
void pool_abandon(struct opening *p);

#endif
