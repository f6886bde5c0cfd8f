#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deckle tune as a person types it: what it prints and sets, and what it refuses without setting anything.
#
# ctest: timeout=60

set -u
export LC_ALL=C
unset NO_COLOR TERM
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
pool=$work/pool
failed=0

# run STATUS ARGUMENT...
run() {
    want=$1
    shift
    what="deckle $*"
    "$DECKLE" "$@" >"$work/out" 2>"$work/err"
    status=$?
    [ "$status" -eq "$want" ] || bad "status $status, want $want"
}
bad() {
    echo "FAILED: $what: $*"
    cat "$work/out" "$work/err"
    failed=$((failed + 1))
}
prints() { grep -q -- "$1" "$work/out" || bad "does not print \"$1\""; }
refuses() { # refuses MESSAGE ARGUMENT...
    message=$1
    shift
    before=$(cksum <"$pool")
    run 2 tune "$@"
    [ ! -s "$work/out" ] || bad "prints something"
    grep -q -- "$message" "$work/err" || bad "no \"$message\" among the messages"
    [ "$(grep -c '^deckle: ' "$work/err")" -eq 1 ] || bad "not one message"
    [ "$(cksum <"$pool")" = "$before" ] || bad "the file has changed"
}

run 0 tune --help
prints "^Usage: deckle tune FILE"
run 0 tune --list
prints "^watermark_scale_factor  *1 to 3000  *10 "
run 0 tune --list --json
prints '"write_only":'
run 0 create "$pool" --size 64M --quiet

run 0 tune "$pool"
prints '^watermark_scale_factor = 10$'
prints '^lowmem_reserve_ratio = 256,256,32,0,0$'
run 0 tune "$pool" watermark_scale_factor=300 min_free_kbytes=4096 lowmem_reserve_ratio=1,2,3,4,5
prints '^min_free_kbytes = 4096$'
run 0 tune "$pool" lowmem_reserve_ratio watermark_scale_factor --json
tr -d '\n\t ' <"$work/out" >"$work/flat"
grep -q '"lowmem_reserve_ratio":\[1,2,3,4,5\],"watermark_scale_factor":\[300\]' "$work/flat" ||
    bad "the values are not those that were set"
run 0 inspect --zoneinfo "$pool"
prints '^ *min *1024$'
run 0 check "$pool"

refuses 'nope: no such tunable' "$pool" nope
refuses 'nope: no such tunable' "$pool" min_free_kbytes=1 nope=1
refuses 'watermark_scale_factor=0: want a number from 1 to 3000' "$pool" watermark_scale_factor=0
refuses 'want a number from 0' "$pool" min_free_kbytes=
refuses 'want a number from 0' "$pool" min_free_kbytes=12k
refuses 'want a number from 0' "$pool" min_free_kbytes=99999999999999999999
refuses 'lowmem_reserve_ratio takes 5 values' "$pool" lowmem_reserve_ratio=1,2
refuses 'takes 5 values' "$pool" lowmem_reserve_ratio=1,2,3,4,5,6
refuses 'min_free_kbytes takes 1 value$' "$pool" min_free_kbytes=1,
run 2 tune "$pool" compact_memory=1
grep -q 'compact_memory: not available' "$work/err" || bad "does not say why"
refuses "$pool.none" "$pool.none"
refuses '--list takes no file' --list "$pool"
refuses 'want the FILE'

[ "$failed" -eq 0 ] || exit 1
echo "deckle tune: everything as expected"
