/* SPDX-License-Identifier: MIT */
/*
 * Every place of a pool's file damaged in turn, and the file cut off at every page: all commands
 * end well; see hostile_pool.h. In make test some of the places, with an effort of 10000 and more
 * all of them. With an offset and a value: that one alone.
 *
 * ctest: timeout=240
 */
#define _GNU_SOURCE

#include <inttypes.h>
#include <signal.h>

#include "hostile_pool.h"
#include "testing.h"

#define SUPERBLOCK 32768u /* bytes of the beginning that are looked at byte by byte */

static struct hostile_pool pool;
static char place[128]; /* what is being tried */
static uint64_t tried, seen[3];

static void on_death(int signal_number)
{
    dprintf(pool.out, "signal %d with %s\n", signal_number, place);
    unlink(pool.path);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static bool try_image(const uint8_t *image, size_t length)
{
    int statuses;

    if (!hostile_write(&pool, image, length)) {
        printf("%s cannot be written\n", pool.path);
        return false;
    }
    statuses = hostile_run(&pool);
    tried++;
    if (statuses < 0) {
        printf("with %s: a command ended with another status than 0, 1 or 2, or what was "
               "recovered is not sound\n",
               place);
        return false;
    }
    for (unsigned i = 0; i < 3; i++)
        seen[i] += statuses >> i & 1;
    return true;
}

/* size bytes of value at this place; in the header with a right checksum as well. */
static bool try_place(size_t at, size_t size, uint64_t value)
{
    uint8_t *image = malloc(pool.head);
    bool well = true;

    memcpy(image, pool.image, pool.head);
    memcpy(image + at, &value, size);
    snprintf(place, sizeof(place), "0x%zx 0x%" PRIx64 " (%zu bytes)", at, value, size);
    if (memcmp(image, pool.image, pool.head))
        well = try_image(image, pool.size);
    if (well && at < 72) {
        hostile_sum(image);
        well = try_image(image, pool.size);
    }
    free(image);
    return well;
}

static bool try_values(size_t at, size_t size, uint64_t *random)
{
    uint64_t was = 0, ones = size == 8 ? UINT64_MAX : 0xff;

    memcpy(&was, pool.image + at, size);
    return try_place(at, size, 0) && try_place(at, size, ones) &&
           try_place(at, size, was ^ UINT64_C(1) << test_random_below(random, size * 8)) &&
           (size < 8 || try_place(at, size, was + 1)) &&
           (size < 8 || try_place(at, size, test_random(random)));
}

static bool try_lengths(uint64_t *random, bool all)
{
    for (size_t length = 0; length <= pool.size; length += 4096) {
        if (!all && length > 65536 && length < pool.head - 8192 && test_random_below(random, 4))
            continue;
        if (length > pool.head + 65536 && length < pool.size - 8192)
            continue; /* all the same */
        snprintf(place, sizeof(place), "%zu of %zu bytes", length, pool.size);
        if (!try_image(pool.image, length))
            return false;
    }
    return true;
}

static bool try_all(uint64_t *random)
{
    uint64_t effort = test_effort(100);
    bool all = effort >= 10000;

    for (size_t at = 0; at < 96; at++)
        if (!try_values(at, 1, random))
            return false;
    for (size_t at = 0; at + 8 <= pool.head; at += 8) {
        if (at >= 96 && at < 4096)
            continue; /* nobody reads it */
        if (!all && test_random_below(random, at < SUPERBLOCK ? 2000 : 20000) >= effort)
            continue;
        if (!try_values(at, 8, random))
            return false;
        for (size_t i = 0; all && at < SUPERBLOCK && i < 8; i++)
            if (!try_values(at + i, 1, random))
                return false;
    }
    return try_lengths(random, all);
}

int main(int argc, char **argv)
{
    uint64_t random = test_seed();
    int status = hostile_begin(&pool);
    bool well;

    if (status)
        return status;
    signal(SIGALRM, on_death);
    signal(SIGABRT, on_death);
    signal(SIGSEGV, on_death);
    if (argc == 3)
        well = try_place(strtoul(argv[1], NULL, 0), 8, strtoull(argv[2], NULL, 0));
    else
        well = try_all(&random);
    printf("%" PRIu64 " damaged files of %zu bytes before the frames: %" PRIu64 " times all was "
           "well for some command, %" PRIu64 " times a fault found, %" PRIu64 " times refused\n",
           tried, pool.head, seen[0], seen[1], seen[2]);
    hostile_end(&pool);
    return well ? 0 : 1;
}
