#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The four recordings of traces/, replayed at 1.1 times their peak: in order and free-running, with both
# kinds of caches, on one node and on several. No allocation may fail, no frame may have two owners, the
# metadata must be right, and the counts must be those of the recording.
#
# ctest: timeout=300 labels=threads

set -u
export LC_ALL=C
traces=$DECKLE_SOURCE_DIR/traces
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
passed=0

# number SECTION KEY: the first number KEY behind the first SECTION of the JSON.
number() {
    awk -v section="\"$1\":" -v key="\"$2\":" '
        $1 == section { inside = 1 }
        inside && $1 == key { sub(/^[^:]*:[ \t]*/, ""); sub(/,$/, ""); print; exit }' "$work/json"
}

# want SECTION KEY VALUE
want() {
    value=$(number "$1" "$2")
    if [ "$value" != "$3" ]; then
        echo "FAILED $name: $2 of $1 is ${value:-missing}, want $3"
        failed=$((failed + 1))
    fi
}

# replay KIND OPTION...: the trace, which must be clean; KIND of caches, or any.
replay() {
    kind=$1
    shift
    name="$trace $*"
    "$DECKLE" replay -q --json "$work/json" "$@" "$traces/$trace.deckle" 2>"$work/stderr"
    status=$?
    if [ $status -ne 0 ] || ! grep -q '"clean":[[:space:]]*true' "$work/json"; then
        echo "FAILED $name: status $status"
        cat "$work/stderr"
        "$DECKLE" replay "$@" "$traces/$trace.deckle" | sed -n '/^Events/,/^Nano/p;/^Check/,$p'
        failed=$((failed + 1))
        return
    fi
    if [ "$kind" != any ] && ! grep -q "\"caches\":[[:space:]]*\"$kind\"" "$work/json"; then
        echo "FAILED $name: the caches are not $kind"
        failed=$((failed + 1))
    fi
    passed=$((passed + 1))
}

# What this machine offers without a wish; printed, since it decides what was tested.
trace=c-build
replay any
default=$(sed -n 's/.*"caches":[[:space:]]*"\([a-z]*\)".*/\1/p' "$work/json")
echo "caches without --cells: $default"

for trace in c-build sqlite network-order3 thp; do
    for order in "" --free-running; do
        for caches in "" --cells; do
            kind=$default
            [ -z "$caches" ] || kind=cells
            # shellcheck disable=SC2086
            replay "$kind" $order $caches
        done
        # shellcheck disable=SC2086
        replay "$default" $order --nodes 3
    done
    replay "$default" --repeat 3 --free-running
done

# Counts of the recordings, in the order of the file: they do not depend on the machine.
trace=c-build
replay any
want memory peak_frames_of_run 23760
want played adopted_blocks 17507
want played remote_frees 2948
want played events 264664
trace=thp
replay any --zero
want played splits 300
want played piece_frees 153600
want played adopted_frees 300
want memory live_frames 8249
want memory peak_frames_of_run 82859
trace=network-order3
replay any
want played remote_frees 17439
peak=$(number memory peak_frames_of_run)
want memory managed_frames $(((peak * 11 + 9) / 10 + $(number memory reserve_frames)))

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
