#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deckle pack and deckle unpack as a person types them: output against golden files, exit statuses,
# messages, pipes, and what is left behind when something goes wrong. DECKLE_UPDATE_GOLDEN=1 writes the
# golden files of tests/golden/pack instead of comparing.
#
# ctest: timeout=120

set -u
export LC_ALL=C
unset NO_COLOR TERM
data=$DECKLE_SOURCE_DIR/tests/data/traces
golden=$DECKLE_SOURCE_DIR/tests/golden/pack
traces=$DECKLE_SOURCE_DIR/traces
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
passed=0

bad() {
    echo "FAILED $name: $*"
    failed=$((failed + 1))
}

# run STATUS ARGUMENT...: stdout and stderr go to $work/out, with the command's own paths left out.
run() {
    want=$1
    shift
    (cd "$work" && "$DECKLE" "$@") >"$work/stdout" 2>"$work/stderr"
    status=$?
    {
        sed "s|$DECKLE_SOURCE_DIR/||g" "$work/stdout"
        echo "--- stderr"
        sed "s|$DECKLE_SOURCE_DIR/||g" "$work/stderr"
    } >"$work/out"
    if [ "$status" -ne "$want" ]; then
        bad "status $status, want $want"
        cat "$work/out"
    else
        passed=$((passed + 1))
    fi
}

# The last run's output is that of the golden file.
same_as_golden() {
    if [ -n "${DECKLE_UPDATE_GOLDEN:-}" ]; then
        cp "$work/out" "$golden/$1.txt"
    elif ! diff -u "$golden/$1.txt" "$work/out"; then
        bad "differs from $golden/$1.txt"
    fi
}

says() {
    grep -q -- "$1" "$work/stderr" || {
        bad "no \"$1\" in the messages:"
        cat "$work/stderr"
    }
}

# --- summaries and forms ------------------------------------------------------------------------

name=help
run 0 help pack
same_as_golden help-pack
run 0 unpack --help
same_as_golden help-unpack

name=summary
for trace in c-build sqlite network-order3 thp; do
    run 0 pack "$traces/$trace.deckle" --tick 1000000 -o out.deckle
    grep -v '^out.deckle: ' "$work/out" >"$work/out.kept" # its size is liblzma's affair
    mv "$work/out.kept" "$work/out"
    same_as_golden "summary-$trace"
done

name=json
run 0 pack "$data/ftrace.trace" --json -o out.deckle
grep -v '"output_bytes"' "$work/out" >"$work/out.kept"
mv "$work/out.kept" "$work/out"
same_as_golden json

name=text
run 0 pack "$data/ftrace.trace" -q -o out.deckle
run 0 unpack out.deckle
same_as_golden text

name=round-trip
run 0 pack "$traces/thp.deckle" --text -q -o one.txt
run 0 pack one.txt -q -o two.deckle
run 0 unpack two.deckle -q -o two.txt
cmp "$work/one.txt" "$work/two.txt" || bad "text differs after packing"
head -c 4 "$work/two.deckle" | od -An -tx1 | grep -q '89 44 4b 54' || bad "no magic"

name=pipe
(cd "$work" && "$DECKLE" pack -q - -o - <one.txt | "$DECKLE" unpack -q - >three.txt) || bad "status"
cmp "$work/one.txt" "$work/three.txt" || bad "text differs after pipes"
if command -v xz >/dev/null 2>&1 && command -v gzip >/dev/null 2>&1; then
    head -20000 "$work/one.txt" >"$work/part.txt"
    xz -0 -k "$work/part.txt"
    gzip -k "$work/part.txt"
    for file in part.txt.xz part.txt.gz; do
        run 0 unpack -q $file -o again.txt
        cmp "$work/part.txt" "$work/again.txt" || bad "text differs after $file"
        "$DECKLE" unpack -q - <"$work/$file" | cmp - "$work/part.txt" || bad "$file by a pipe"
    done
fi

name=name
run 0 pack "$data/ftrace.trace" -q --name 'a b' -o out.deckle
run 0 unpack out.deckle
grep -q '^# deckle: source a b$' "$work/out" || bad "the name is lost"

# --- warnings -------------------------------------------------------------------------------------

name=warnings
for trace in lost-and-backwards cut-last-line ftrace-old-kernel ftrace-ticks ftrace perf; do
    run 0 pack "$data/$trace.trace" -q -o out.deckle
    same_as_golden "warnings-$trace"
done
run 0 pack "$data/bad-order.trace" -k -q -o out.deckle
same_as_golden warnings-keep-going

# --- what is refused -------------------------------------------------------------------------------

name=bad-input
rm -f "$work"/*.deckle "$work"/*.partial
for trace in "$data"/bad-*.trace "$data"/no-*.trace "$data"/nul.trace; do
    run 2 pack "$trace" -o out.deckle
    says "^deckle: $trace:"
done
run 2 pack "$work/nosuch" -o out.deckle
says 'nosuch: cannot be opened: No such file or directory'
run 2 pack "$work" -o out.deckle
says 'Is a directory'
: >"$work/empty"
run 2 pack empty -o out.deckle
says 'is empty'
head -c 100000 "$traces/thp.deckle" >"$work/cut.deckle"
run 2 unpack cut.deckle -o out.txt
says 'ends too early: the packed file is cut'
rm -f "$work/cut.deckle"
for file in "$work"/out.deckle "$work"/out.txt "$work"/*.partial; do
    [ ! -e "$file" ] || bad "$file was left behind"
done

name=usage
run 2 pack
says 'no input'
run 2 pack a b -o c
says 'more than one input'
run 2 pack "$data/ftrace.trace"
says 'no output'
run 2 pack "$data/ftrace.trace" -o - --json
says 'standard output'
run 2 pack --frobnicate
says "Try 'deckle pack --help'"
run 2 pack --tick 0 x -o y
says 'option --tick: "0" is no number from 1 to 1000000000'
run 2 pack --pfn-base 12 x -o y
says 'want 10 or 16'
run 2 pack --name "$(printf 'a\nb')" x -o y
says 'one line'
run 2 frobnicate
says '"frobnicate" is no command'

name=cannot-write
run 2 pack "$data/ftrace.trace" -o nosuch/out.deckle
says 'nosuch/out.deckle.partial: cannot be written'
if [ -w /dev/full ]; then
    (cd "$work" && "$DECKLE" unpack -q "$traces/thp.deckle" >/dev/full) 2>"$work/stderr"
    [ $? -eq 1 ] || bad "a full device gives no fault"
    says 'cannot be written'
fi

# SIGTERM, because a shell lets its jobs in the background ignore SIGINT. It may come before it is
# caught or after all is done, but never leaves half a file.
name=interrupted
for delay in 0 0 0.01 0.03 0.1; do
    rm -f "$work/long.txt"
    (cd "$work" && exec "$DECKLE" pack "$traces/thp.deckle" --text -q -o long.txt) 2>"$work/stderr" &
    pid=$!
    sleep "$delay"
    kill -TERM $pid 2>/dev/null
    wait $pid
    status=$?
    case $status in
    0) [ -s "$work/long.txt" ] || bad "done without a file" ;;
    130) [ ! -e "$work/long.txt" ] || bad "interrupted with a file" ;;
    143) [ ! -e "$work/long.txt" ] || bad "ended with a file" ;;
    *) bad "status $status" ;;
    esac
    [ ! -e "$work/long.txt.partial" ] || bad "a partial file is left"
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
