/* SPDX-License-Identifier: MIT */
/*
 * Thousands of kills; see kill.h.
 *
 * ctest: timeout=600 labels=long serial
 */
#include "kill.h"
#include "testing.h"

int main(void)
{
    uint64_t kills = test_effort(3000);

    return keeper_run(kills < MAX_LIVES / 2 ? kills : MAX_LIVES / 2, test_seed());
}
