#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deckle bench --peers: the process of a peer greets and answers until its input ends, one that is not
# there says so, and the table names those that are left out. ctest: timeout=120 serial

set -u
bad() {
    echo "$1"
    exit 1
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

"$DECKLE" bench --list | grep -q '^ *peers ' || bad 'the table peers is not listed'
"$DECKLE" bench --help | grep -q -- --peers || bad 'the option is not in the help'

"$DECKLE" bench --serve-peer glibc </dev/null >"$work/glibc" || bad 'the C library is no peer'
[ -s "$work/glibc" ] || bad 'a peer that is there does not greet'
"$DECKLE" bench --serve-peer nothing </dev/null >"$work/nothing"
[ $? -eq 3 ] || bad 'a peer that is not there ends with another status than 3'
grep -qa 'there is no peer "nothing"' "$work/nothing" || bad 'it does not say what is missing'

# A machine that is not quiet may refuse (3); then the table is not printed.
"$DECKLE" bench --quick --runs 1 peers >"$work/table" 2>"$work/errors"
status=$?
case $status in
0)
    grep -q 'glibc' "$work/table" || bad 'the C library has no column'
    grep -q 'goal: order-0 pair / that of the fastest malloc' "$work/table" || bad 'no goal'
    for peer in mimalloc jemalloc tcmalloc mempool; do
        grep -qE "^ .* $peer( |\$)|$peer: left out: " "$work/table" ||
            bad "$peer has no column and is not said to be left out"
    done
    ;;
3) grep -q refused "$work/errors" || bad "status 3 without a refusal: $(cat "$work/errors")" ;;
*) bad "status $status: $(cat "$work/errors")" ;;
esac
