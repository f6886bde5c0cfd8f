/* SPDX-License-Identifier: MIT */
/*
 * Some hundred kills of clients at any instruction; see kill.h. By hand, with a number:
 *
 *     DECKLE_TEST_SEED=1 tests/test_shared_kill --kills 10000
 *
 * ctest: timeout=120 serial
 */
#include <stdlib.h>
#include <string.h>

#include "kill.h"
#include "testing.h"

int main(int argc, char **argv)
{
    uint64_t kills = test_effort(300);

    if (argc == 3 && !strcmp(argv[1], "--kills"))
        kills = strtoull(argv[2], NULL, 0);
    else if (argc != 1) {
        fprintf(stderr, "usage: %s [--kills N]\n", argv[0]);
        return 2;
    }
    return keeper_run(kills < MAX_LIVES - 10 ? kills : MAX_LIVES - 10, test_seed());
}
