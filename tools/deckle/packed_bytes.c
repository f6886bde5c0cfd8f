/* SPDX-License-Identifier: MIT */
/* Growing byte strings and varints; see packed_bytes.h. */
#include "packed_bytes.h"

#include <stdlib.h>
#include <string.h>

void bytes_add(struct bytes *b, const void *from, size_t size)
{
    if (b->failed)
        return;
    if (size > b->room - b->size) {
        size_t room = b->room > 0 ? b->room : 256;
        unsigned char *grown;

        while (room - b->size < size && room <= SIZE_MAX / 2)
            room *= 2;
        grown = room - b->size < size ? NULL : realloc(b->at, room);
        if (grown == NULL) {
            b->failed = true;
            return;
        }
        b->at = grown;
        b->room = room;
    }
    if (size > 0)
        memcpy(b->at + b->size, from, size);
    b->size += size;
}

void bytes_add_byte(struct bytes *b, unsigned int byte)
{
    unsigned char one = (unsigned char)byte;

    bytes_add(b, &one, 1);
}

void bytes_add_varint(struct bytes *b, uint64_t value)
{
    unsigned char text[10];
    size_t n = 0;

    while (value >= 0x80) {
        text[n++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    text[n++] = (unsigned char)value;
    bytes_add(b, text, n);
}

void bytes_add_zigzag(struct bytes *b, int64_t value)
{
    uint64_t twice = (uint64_t)value << 1;

    bytes_add_varint(b, value < 0 ? ~twice : twice);
}

void bytes_clear(struct bytes *b)
{
    b->size = 0;
}

void bytes_free(struct bytes *b)
{
    free(b->at);
    memset(b, 0, sizeof(*b));
}

bool bytes_get_byte(struct bytes_view *v, uint8_t *byte)
{
    if (v->at == v->end)
        return false;
    *byte = *v->at++;
    return true;
}

bool bytes_get_varint(struct bytes_view *v, uint64_t *value)
{
    const unsigned char *at = v->at;
    uint64_t result = 0;

    for (unsigned int shift = 0; shift < 64 && at < v->end; shift += 7) {
        uint64_t bits = *at & 0x7fu;

        if (shift == 63 && bits > 1)
            return false;
        result |= bits << shift;
        if ((*at++ & 0x80) == 0) {
            v->at = at;
            *value = result;
            return true;
        }
    }
    return false;
}

bool bytes_get_zigzag(struct bytes_view *v, int64_t *value)
{
    uint64_t twice;

    if (!bytes_get_varint(v, &twice))
        return false;
    *value = (int64_t)(twice >> 1);
    if ((twice & 1) != 0)
        *value = -*value - 1;
    return true;
}

bool bytes_get_view(struct bytes_view *v, uint64_t size, struct bytes_view *part)
{
    if (size > (uint64_t)(v->end - v->at))
        return false;
    part->at = v->at;
    part->end = v->at + size;
    v->at = part->end;
    return true;
}
