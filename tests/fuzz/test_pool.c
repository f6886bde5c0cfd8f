/* SPDX-License-Identifier: MIT */
/*
 * Several changes at once to the header and metadata of a shared pool, whose checksum is made right
 * again; see hostile_pool.h. tests/tools/test_damaged_pool.c makes one at a time, everywhere.
 *
 * ctest: timeout=240
 */
#define _GNU_SOURCE

#include <string.h>

#include "fuzz.h"
#include "hostile_pool.h"

const char *const fuzz_corpus[] = {DECKLE_SOURCE_DIR "/tests/data/pools", NULL};
const uint64_t fuzz_inputs = 2000;

#define CHANGE 12u /* bytes: where, what */

static struct hostile_pool pool;

static void end(void)
{
    hostile_end(&pool);
}

static void begin(void)
{
    int status = hostile_begin(&pool);

    if (status)
        exit(status);
    atexit(end);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *image;

    if (!pool.image)
        begin();
    image = malloc(pool.head);
    FUZZ_CHECK(image != NULL);
    memcpy(image, pool.image, pool.head);
    for (; size >= CHANGE; data += CHANGE, size -= CHANGE) {
        uint32_t at;

        memcpy(&at, data, sizeof(at));
        memcpy(image + at % (pool.head - 8), data + 4, 8);
    }
    hostile_sum(image);
    FUZZ_CHECK(hostile_write(&pool, image, pool.size));
    FUZZ_CHECK(hostile_run(&pool) >= 0);
    free(image);
    return 0;
}
