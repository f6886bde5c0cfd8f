/* SPDX-License-Identifier: MIT */
/* Names and sentences for errors and reports; the version. Never NULL, whatever is asked. */
#include <deckle.h>

struct error_text {
    const char *name;
    const char *sentence;
};

#define ERROR_TEXT(error, sentence) [-(error)] = {#error, sentence}

static const struct error_text error_texts[] = {
    ERROR_TEXT(DECKLE_OK, "no error"),
    ERROR_TEXT(DECKLE_EINVAL, "an argument, or a combination of arguments, is not legal"),
    ERROR_TEXT(DECKLE_E2BIG, "order or count above the maximum"),
    ERROR_TEXT(DECKLE_ENODEV, "no such node or zone"),
    ERROR_TEXT(DECKLE_ECONSTRAINED,
               "memory is free, but node mask, THISNODE or address limit exclude it"),
    ERROR_TEXT(DECKLE_EWATERMARK, "memory is free, but only below the mark this request may use"),
    ERROR_TEXT(DECKLE_EFRAGMENTED, "enough frames are free, but no run of them is long enough"),
    ERROR_TEXT(DECKLE_ENOMEM, "no memory is free"),
    ERROR_TEXT(DECKLE_ECONTENDED,
               "other operations held what would have fitted; trying again makes sense"),
    ERROR_TEXT(DECKLE_EEXIST, "already there"),
    ERROR_TEXT(DECKLE_ENOENT, "not there"),
    ERROR_TEXT(DECKLE_EBUSY, "in use"),
    ERROR_TEXT(DECKLE_ENOSPC, "the metadata area or one of its tables is full"),
    ERROR_TEXT(DECKLE_EVERSION, "metadata of another version or word size"),
    ERROR_TEXT(DECKLE_ECORRUPT, "metadata that contradicts itself"),
    ERROR_TEXT(DECKLE_EBADFREE, "a free that was refused"),
    ERROR_TEXT(DECKLE_EOVERFLOW, "a count that would not fit"),
    ERROR_TEXT(DECKLE_EPERM, "not allowed to this caller"),
    ERROR_TEXT(DECKLE_ENOTSUP, "not available in this pool or build, or a hook is missing"),
    ERROR_TEXT(DECKLE_EBACKING, "a hook of the host failed"),
};

static const char *const bad_names[] = {
    [DECKLE_BAD_DOUBLE_FREE] = "double free",
    [DECKLE_BAD_WRONG_ORDER] = "wrong order",
    [DECKLE_BAD_MISALIGNED] = "misaligned",
    [DECKLE_BAD_TAIL] = "tail of a block",
    [DECKLE_BAD_RESERVED] = "reserved frame",
    [DECKLE_BAD_FOREIGN] = "foreign frame",
    [DECKLE_BAD_OWNER] = "wrong owner",
    [DECKLE_BAD_REFCOUNT] = "reference count",
    [DECKLE_BAD_POISON] = "poison overwritten",
    [DECKLE_BAD_STATE] = "corrupt metadata",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct error_text *find_text(int error)
{
    static const struct error_text unknown = {"DECKLE_E?", "unknown error"};

    if (error > 0 || error <= -(int)COUNT(error_texts))
        return &unknown;
    return &error_texts[-error];
}

const char *deckle_strerror(int error)
{
    return find_text(error)->sentence;
}

const char *deckle_error_name(int error)
{
    return find_text(error)->name;
}

const char *deckle_bad_name(enum deckle_bad what)
{
    unsigned i = (unsigned)what;

    return i < COUNT(bad_names) && bad_names[i] ? bad_names[i] : "unknown";
}

const char *deckle_version(void)
{
    return DECKLE_VERSION_STRING;
}
