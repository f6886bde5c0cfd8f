#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deckle create, inspect, check, clients, reap and recover as a person types them: what they print, exit
# statuses, messages, and that those that only look change nothing.
#
# ctest: timeout=120

set -u
export LC_ALL=C
unset NO_COLOR TERM
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
pool=$work/pool
failed=0
passed=0

bad() {
    echo "FAILED: $*"
    cat "$work/out" "$work/err"
    failed=$((failed + 1))
}

# run STATUS ARGUMENT...
run() {
    want=$1
    shift
    what="deckle $*"
    "$DECKLE" "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$status" -ne "$want" ]; then
        bad "$what: status $status, want $want"
    else
        passed=$((passed + 1))
    fi
}
prints() { grep -q -- "$1" "$work/out" || bad "$what: does not print \"$1\""; }
says() { grep -q -- "$1" "$work/err" || bad "$what: no \"$1\" among the messages"; }
silent() { [ ! -s "$work/out" ] || bad "$what: prints something"; }

# unchanged ARGUMENT...: the command ends well and leaves every byte as it is.
unchanged() {
    before=$(cksum <"$pool")
    run 0 "$@" "$pool"
    [ "$(cksum <"$pool")" = "$before" ] || bad "$what: the file has changed"
}

for command in create inspect check clients reap recover; do
    run 0 $command --help
    prints "^Usage: deckle $command "
    run 2 $command
    says "deckle $command --help"
    run 2 $command --nonsense "$pool"
    run 2 $command "$pool" "$pool"
done

run 2 create "$pool"
says "give --size"
run 2 create --size 12x "$pool"
run 2 create --size 16M --max-order 8 "$pool"
run 2 create --size 16M --page-size 5000 "$pool"
says "no power of two"
run 2 create --size 16M --clients 256 "$pool"
run 2 create --size 16M --mode 400 "$pool"
run 2 create --size 16M "$work/nowhere/pool"
says "$work/nowhere/pool: "
[ ! -e "$pool" ] || bad "a refused run has left a file"

run 0 create --size 16M --clients 3 --mode 640 "$pool"
status=$?
prints "16 MiB, 4,096 frames of 4096 bytes in blocks of up to 2^10, for 3 clients"
[ "$(stat -c %a "$pool")" = 640 ] || bad "the mode is $(stat -c %a "$pool")"
run 2 create --size 16M "$pool"
says "$pool: exists already"
run 0 create --json --size 64M --page-size 16K "$work/second"
prints '"schema":.*"deckle.create"'
prints '"nr_frames":.4096'
run 0 create -q --size 1M "$work/third"
silent

unchanged inspect
prints "4,096 frames: 4,096 free, 0 in caches, 0 in use"
prints "clients: 0 alive, 0 dead"
prints "^Node 0, zone   Normal      0      0 .*      4 $"
unchanged inspect --pagetypeinfo --zoneinfo
prints "^Page block order"
prints "nr_free_pages"
unchanged inspect --extfrag
unchanged inspect --json
prints '"schema":"deckle-stat"'
run 2 inspect --json --zoneinfo "$pool"
run 2 inspect --watch 0 "$pool"
unchanged check
prints "$pool: sound; clients: 0 alive, 0 dead"
unchanged check --json
prints '"sound":.true'
unchanged check -q
silent
unchanged clients
prints "no clients"
unchanged clients --json
prints '"clients":.\[\]'
run 0 reap "$pool"
prints "no dead clients"
run 0 reap --json "$pool"
prints '"reaped":.\[\]'
run 2 reap --client 2 "$pool"
says "client 2 does not exist"
run 2 reap --client 0 "$pool"
unchanged recover --dry-run
prints "nothing to do"
run 0 recover "$pool"

# Watching ends when it is interrupted.
"$DECKLE" inspect --watch 1 "$pool" >"$work/out" 2>"$work/err" &
watcher=$!
sleep 1
kill -TERM $watcher
wait $watcher
status=$?
what="deckle inspect --watch"
[ $status -eq 130 ] || bad "$what: status $status, want 130"
prints "4,096 free"

# A file that was cut off is not sound, is refused, and is recovered.
size=$(stat -c %s "$pool")
truncate -s 300000 "$pool"
run 1 check "$pool"
says "$pool: cut off: it has 300000 bytes and must have $size"
run 2 inspect "$pool"
says "deckle recover"
run 2 clients "$pool"
run 2 reap "$pool"
before=$(cksum <"$pool")
run 0 recover --dry-run "$pool"
prints "cut off after"
[ "$(cksum <"$pool")" = "$before" ] || bad "a dry run has changed the file"
run 0 recover --json "$pool"
prints '"found_bytes":.300000'
[ "$(stat -c %s "$pool")" = "$size" ] || bad "the length is $(stat -c %s "$pool"), not $size"
run 0 check "$pool"

# What cannot be rebuilt.
truncate -s 4096 "$pool"
run 1 recover "$pool"
says "cannot be recovered"
[ "$(stat -c %s "$pool")" = 4096 ] || bad "a refused recovery has changed the length"
head -c 65536 /dev/zero >"$work/zeroes"
run 2 check "$work/zeroes"
says "header is empty"
run 2 recover "$work/zeroes"
head -c 65536 "$DECKLE" >"$work/other"
for command in inspect check clients reap recover; do
    run 2 $command "$work/other"
    says "$work/other: .*no pool"
    run 2 $command "$work"
    run 2 $command "$work/nothing"
    says "$work/nothing: .*No such file"
done

[ $failed -eq 0 ] || {
    echo "$failed failed"
    exit 1
}
echo "$passed runs of the commands: all as they should be"
