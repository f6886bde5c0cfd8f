/* SPDX-License-Identifier: MIT */
/*
 * What a fuzz target gives its driver. Two drivers exist: fuzz_driver.c, which mutates the corpus a
 * bounded number of times and so runs as an ordinary test, and libFuzzer (README.md).
 */
#ifndef DECKLE_TESTS_FUZZ_H
#define DECKLE_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Takes any bytes and returns 0; what must not be ends the process through FUZZ_CHECK. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Folders of seeds, ended by NULL, and how many inputs make up a test. */
extern const char *const fuzz_corpus[];
extern const uint64_t fuzz_inputs;

#define FUZZ_CHECK(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
