/* SPDX-License-Identifier: MIT */
/*
 * The table of flag names and the two directions over it. Its order is the order of printing:
 * combinations from the largest down, each taken when all its bits are still to be said, then
 * single bits. A name that is only read has print = false.
 */
#include "trace_gfp.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <deckle/gfp.h>

struct gfp_name {
    const char *name;
    uint32_t bits;
    bool print;
};

#define PAIR(x)                                                                                    \
    {                                                                                              \
        "GFP_" #x, DECKLE_GFP_##x, true                                                            \
    }
#define BIT(x)                                                                                     \
    {                                                                                              \
        "__GFP_" #x, DECKLE_GFP_##x, true                                                          \
    }
#define OLD(name, bits)                                                                            \
    {                                                                                              \
        name, bits, false                                                                          \
    }

static const struct gfp_name names[] = {
    PAIR(TRANSHUGE),
    PAIR(TRANSHUGE_LIGHT),
    PAIR(HIGHUSER_MOVABLE),
    PAIR(HIGHUSER),
    PAIR(USER),
    PAIR(KERNEL_ACCOUNT),
    PAIR(KERNEL),
    PAIR(NOFS),
    PAIR(ATOMIC),
    PAIR(NOIO),
    PAIR(NOWAIT),
    {"GFP_DMA", DECKLE_GFP_DMA, false},
    {"GFP_DMA32", DECKLE_GFP_DMA32, false},
    BIT(DMA),
    BIT(HIGHMEM),
    BIT(DMA32),
    BIT(MOVABLE),
    BIT(RECLAIMABLE),
    BIT(HIGH),
    BIT(IO),
    BIT(FS),
    BIT(ZERO),
    BIT(DIRECT_RECLAIM),
    BIT(KSWAPD_RECLAIM),
    {"__GFP_RECLAIM", DECKLE_GFP_RECLAIM, false},
    BIT(WRITE),
    BIT(NOWARN),
    BIT(RETRY_MAYFAIL),
    BIT(NOFAIL),
    BIT(NORETRY),
    BIT(MEMALLOC),
    BIT(COMP),
    BIT(NOMEMALLOC),
    BIT(HARDWALL),
    BIT(THISNODE),
    BIT(ACCOUNT),
    BIT(ZEROTAGS),
    BIT(SKIP_ZERO),
    BIT(SKIP_KASAN),
    BIT(NOLOCKDEP),
    BIT(NO_OBJ_EXT),

    OLD("none", 0),
    OLD("__GFP_ATOMIC", DECKLE_GFP_HIGH),          /* until 6.2: on top of __GFP_HIGH */
    OLD("__GFP_REPEAT", DECKLE_GFP_RETRY_MAYFAIL), /* until 4.12 */
    OLD("__GFP_WAIT", DECKLE_GFP_RECLAIM),         /* until 4.3 */
    OLD("GFP_WAIT", DECKLE_GFP_RECLAIM),           /* spelling of the tracer until 4.5 */
    OLD("GFP_TEMPORARY", DECKLE_GFP_KERNEL | DECKLE_GFP_RECLAIMABLE), /* until 4.13 */
    OLD("GFP_THISNODE", DECKLE_GFP_THISNODE),
    OLD("GFP_HIGH", DECKLE_GFP_HIGH),
    OLD("GFP_IO", DECKLE_GFP_IO),
    OLD("GFP_COLD", 0),
    OLD("GFP_NOWARN", DECKLE_GFP_NOWARN),
    OLD("GFP_REPEAT", DECKLE_GFP_RETRY_MAYFAIL),
    OLD("GFP_NOFAIL", DECKLE_GFP_NOFAIL),
    OLD("GFP_NORETRY", DECKLE_GFP_NORETRY),
    OLD("GFP_COMP", DECKLE_GFP_COMP),
    OLD("GFP_ZERO", DECKLE_GFP_ZERO),
    OLD("GFP_NOMEMALLOC", DECKLE_GFP_NOMEMALLOC),
    OLD("GFP_MEMALLOC", DECKLE_GFP_MEMALLOC),
    OLD("GFP_HARDWALL", DECKLE_GFP_HARDWALL),
    OLD("GFP_RECLAIMABLE", DECKLE_GFP_RECLAIMABLE),
    OLD("GFP_MOVABLE", DECKLE_GFP_MOVABLE),
    OLD("GFP_NOTRACK", 0),
    OLD("GFP_NO_KSWAPD", 0),
    OLD("GFP_OTHER_NODE", 0),
    OLD("__GFP_COLD", 0),                                  /* until 4.14 */
    OLD("__GFP_NOTRACK", 0),                               /* until 4.14 */
    OLD("__GFP_OTHER_NODE", 0),                            /* until 4.9 */
    OLD("__GFP_SKIP_KASAN_POISON", DECKLE_GFP_SKIP_KASAN), /* until 6.3 */
    OLD("__GFP_SKIP_KASAN_UNPOISON", DECKLE_GFP_SKIP_KASAN),
};

#define NR_NAMES (sizeof(names) / sizeof(names[0]))

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* A number with 0x, or of eight hexadecimal digits as some tools print a gfp mask; else false. */
static bool parse_number(const char *text, size_t length, uint64_t *value)
{
    size_t i = 0;

    if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        i = 2;
    else if (length != 8 && !(length == 1 && text[0] == '0'))
        return false;
    if (length - i > 16)
        return false;
    *value = 0;
    for (; i < length; i++) {
        int digit = hex_digit(text[i]);

        if (digit < 0)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return true;
}

static const struct gfp_name *find_name(const char *text, size_t length)
{
    for (size_t i = 0; i < NR_NAMES; i++)
        if (strncmp(names[i].name, text, length) == 0 && names[i].name[length] == '\0')
            return &names[i];
    return NULL;
}

void trace_gfp_parse(const char *text, size_t length, uint32_t *gfp,
                     void (*unknown)(void *context, const char *text, size_t length), void *context)
{
    const char *end = text + length;

    *gfp = 0;
    while (text < end) {
        const char *bar = memchr(text, '|', (size_t)(end - text));
        size_t n = (size_t)((bar != NULL ? bar : end) - text);
        const struct gfp_name *name = find_name(text, n);
        uint64_t number;

        if (name != NULL) {
            *gfp |= name->bits;
        } else if (parse_number(text, n, &number)) {
            *gfp |= (uint32_t)number & DECKLE_GFP_ALL;
            if ((number & ~(uint64_t)DECKLE_GFP_ALL) != 0 && unknown != NULL)
                unknown(context, text, n);
        } else if (unknown != NULL) {
            unknown(context, text, n);
        }
        text += n + (bar != NULL);
    }
}

void trace_gfp_format(uint32_t gfp, char *to)
{
    size_t at = 0;

    to[0] = '\0';
    for (size_t i = 0; i < NR_NAMES && gfp != 0; i++) {
        if (!names[i].print || (gfp & names[i].bits) != names[i].bits)
            continue;
        gfp &= ~names[i].bits;
        at += (size_t)snprintf(to + at, TRACE_GFP_TEXT - at, "%s%s", at > 0 ? "|" : "",
                               names[i].name);
    }
    if (gfp != 0)
        snprintf(to + at, TRACE_GFP_TEXT - at, "%s0x%x", at > 0 ? "|" : "", (unsigned int)gfp);
    else if (at == 0)
        snprintf(to, TRACE_GFP_TEXT, "none");
}
