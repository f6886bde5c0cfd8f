#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deckle bench ablation: with copies of the library beside the command every part has its row, without
# them the table says so. ctest: timeout=120 serial

set -u
copy=$(dirname "$DECKLE")/deckle-ablation-none.so
if [ -f "$copy" ] && [ -n "$(find "$DECKLE" -newer "$copy")" ]; then
    echo 'skipped: the copies are older than the command; the target deckle_ablations renews them'
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

"$DECKLE" bench --quick --runs 1 ablation >"$work/table" 2>"$work/errors"
status=$?
if [ $status -eq 3 ] && grep -q refused "$work/errors"; then
    echo 'skipped: the machine is too disturbed for a benchmark'
    exit 77
elif [ $status -ne 0 ]; then
    echo "status $status:"
    cat "$work/errors"
    exit 1
fi
if [ ! -f "$copy" ]; then
    grep -q 'left out: there are no copies of the library' "$work/table" && exit 0
    echo 'there are no copies, and the table does not say so:'
else
    rows=$(grep -cE '^  .*(pair|of order 0), ' "$work/table")
    if [ "$rows" -ge 15 ] && ! grep -q 'not measured' "$work/table"; then exit 0; fi
    echo "$rows rows, and what was not measured:"
fi
cat "$work/table"
exit 1
