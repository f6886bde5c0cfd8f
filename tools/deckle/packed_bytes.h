/* SPDX-License-Identifier: MIT */
/*
 * Byte strings that grow, and numbers in them: varints of 7 bits a byte, lowest first, the top bit
 * saying that more follow; zigzag for signed ones (0, -1, 1, -2 … become 0, 1, 2, 3 …). Neither
 * depends on the machine's byte order or word size.
 */
#ifndef DECKLE_TOOLS_PACKED_BYTES_H
#define DECKLE_TOOLS_PACKED_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    unsigned char *at;
    size_t size, room;
    bool failed; /* memory ran out; what was added since is lost */
};

void bytes_add(struct bytes *b, const void *from, size_t size);
void bytes_add_byte(struct bytes *b, unsigned int byte);
void bytes_add_varint(struct bytes *b, uint64_t value);
void bytes_add_zigzag(struct bytes *b, int64_t value);
void bytes_clear(struct bytes *b); /* empty, memory kept */
void bytes_free(struct bytes *b);

/* What is still to be read of a byte string. Each get is false, and changes nothing, where the
 * string ends too early or a varint does not fit 64 bits. */
struct bytes_view {
    const unsigned char *at, *end;
};

bool bytes_get_byte(struct bytes_view *v, uint8_t *byte);
bool bytes_get_varint(struct bytes_view *v, uint64_t *value);
bool bytes_get_zigzag(struct bytes_view *v, int64_t *value);
/* The next size bytes as a view of their own. */
bool bytes_get_view(struct bytes_view *v, uint64_t size, struct bytes_view *part);

#endif
