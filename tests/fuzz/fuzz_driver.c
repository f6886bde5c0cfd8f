/* SPDX-License-Identifier: MIT */
/*
 * The driver for builds without libFuzzer. Without arguments: a bounded number of mutated seeds.
 * With files: each of them once, to see what one does. When an input ends the process, it is left
 * in the file that the last line names.
 */
#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"
#include "testing.h"

#define MAX_INPUT 65536u
#define MAX_SEEDS 512u

struct seed {
    uint8_t *bytes;
    size_t size;
};

static struct seed seeds[MAX_SEEDS];
static size_t nr_seeds;
static uint8_t input[MAX_INPUT];
static size_t input_size;
static char crash_file[64];

/* Only async-signal-safe calls. */
static void keep_input(int signal_number)
{
    int fd = open(crash_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd >= 0 && write(fd, input, input_size) >= 0 &&
        write(STDERR_FILENO, crash_file, strlen(crash_file)) >= 0 && write(STDERR_FILENO, "\n", 1))
        close(fd);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static bool load(const char *path)
{
    FILE *f = fopen(path, "rb");
    struct seed *s = &seeds[nr_seeds];

    if (f == NULL || nr_seeds == MAX_SEEDS) {
        fprintf(stderr, "%s: cannot be read\n", path);
        return false;
    }
    s->bytes = malloc(MAX_INPUT);
    if (s->bytes != NULL) {
        s->size = fread(s->bytes, 1, MAX_INPUT, f);
        nr_seeds++;
    }
    fclose(f);
    return s->bytes != NULL;
}

static bool load_folder(const char *name)
{
    char path[1024];
    struct dirent *entry;
    DIR *folder;
    bool good = true;

    folder = opendir(name);
    if (folder == NULL) {
        fprintf(stderr, "%s: cannot be read\n", name);
        return false;
    }
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", name, entry->d_name);
        good = load(path) && good;
    }
    closedir(folder);
    return good;
}

/* readdir has no order; without one a run could not be repeated. */
static int compare(const void *a, const void *b)
{
    const struct seed *x = a, *y = b;
    int d = memcmp(x->bytes, y->bytes, x->size < y->size ? x->size : y->size);

    return d != 0 ? d : (x->size > y->size) - (x->size < y->size);
}

/* --- mutations ------------------------------------------------------------------------------- */

static void move_tail(size_t at, size_t from)
{
    size_t n = input_size - from;

    if (at + n > MAX_INPUT)
        n = MAX_INPUT - at;
    memmove(input + at, input + from, n);
    input_size = at + n;
}

static void mutate(uint64_t *state)
{
    static const uint8_t bytes[] = {0,   1,   0x7f, 0x80, 0xff, '\n', ' ',
                                    ':', '[', '=',  '0',  '9',  'x'};
    size_t at = test_random_below(state, input_size + 1);
    size_t n = 1 + test_random_below(state, test_random_below(state, 8) == 0 ? 200 : 8);
    const struct seed *other = &seeds[test_random_below(state, nr_seeds)];

    if (n > input_size - at)
        n = input_size - at;
    switch (test_random_below(state, 8)) {
    case 0: /* a bit */
        if (at < input_size)
            input[at] ^= (uint8_t)(1u << test_random_below(state, 8));
        break;
    case 1: /* an interesting byte */
        if (at < input_size)
            input[at] = bytes[test_random_below(state, sizeof(bytes))];
        break;
    case 2: /* any bytes */
        for (size_t i = 0; i < n; i++)
            input[at + i] = (uint8_t)test_random(state);
        break;
    case 3: /* less */
        move_tail(at, at + n);
        break;
    case 4: /* something twice */
        move_tail(at + n, at);
        break;
    case 5: /* the end missing */
        if (test_random_below(state, 4) == 0)
            input_size = at;
        break;
    case 6: /* a piece of another seed over this one */
        if (other->size > 0) {
            size_t from = test_random_below(state, other->size);

            if (n > other->size - from)
                n = other->size - from;
            memcpy(input + at, other->bytes + from, n);
        }
        break;
    default: /* a piece moved within */
        if (n > 0)
            memmove(input + test_random_below(state, input_size - n + 1), input + at, n);
        break;
    }
}

static void run_mutations(uint64_t *state, uint64_t inputs)
{
    for (uint64_t i = 0; i < inputs; i++) {
        const struct seed *s = &seeds[test_random_below(state, nr_seeds)];
        uint64_t n = i < nr_seeds ? 0 : 1 + test_random_below(state, 6);

        if (i < nr_seeds)
            s = &seeds[i]; /* first each as it is */
        memcpy(input, s->bytes, s->size);
        input_size = s->size;
        for (; n > 0; n--)
            mutate(state);
        LLVMFuzzerTestOneInput(input, input_size);
    }
    printf("%" PRIu64 " inputs from %zu seeds\n", inputs, nr_seeds);
}

int main(int argc, char **argv)
{
    uint64_t state = test_seed();

    snprintf(crash_file, sizeof(crash_file), "crash-%ld", (long)getpid());
    signal(SIGABRT, keep_input);
    signal(SIGSEGV, keep_input);
    for (int i = 1; i < argc; i++)
        if (!load(argv[i]))
            return 2;
    for (const char *const *folder = fuzz_corpus; argc == 1 && *folder != NULL; folder++)
        if (!load_folder(*folder))
            return 2;
    if (nr_seeds == 0)
        return 2;
    qsort(seeds, nr_seeds, sizeof(seeds[0]), compare);
    run_mutations(&state, argc > 1 ? nr_seeds : test_effort(fuzz_inputs) + nr_seeds);
    for (size_t i = 0; i < nr_seeds; i++)
        free(seeds[i].bytes);
    return 0;
}
