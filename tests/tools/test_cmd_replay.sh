#!/bin/sh
# SPDX-License-Identifier: MIT
#
# deckle replay as a person types it: what it prints against golden files (times, and figures that depend
# on the number of CPUs, masked), the JSON, exit statuses, messages, several files, interruption.
# DECKLE_UPDATE_GOLDEN=1 writes the golden files of tests/golden/replay instead of comparing.
#
# ctest: timeout=120

set -u
export LC_ALL=C
unset NO_COLOR TERM
data=$DECKLE_SOURCE_DIR/tests/data/traces
golden=$DECKLE_SOURCE_DIR/tests/golden/replay
traces=$DECKLE_SOURCE_DIR/traces
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0
passed=0

bad() {
    echo "FAILED $name: $*"
    failed=$((failed + 1))
}

# run STATUS ARGUMENT...
run() {
    want=$1
    shift
    (cd "$work" && "$DECKLE" replay "$@") >"$work/stdout" 2>"$work/stderr"
    status=$?
    if [ "$status" -ne "$want" ]; then
        bad "status $status, want $want"
        cat "$work/stdout" "$work/stderr"
    else
        passed=$((passed + 1))
    fi
}

# Numbers that are the machine's affair become N: all of them but those of the events.
masked() {
    {
        cat "$work/stdout"
        echo "--- stderr"
        cat "$work/stderr"
    } | sed -e "s|$DECKLE_SOURCE_DIR/||g" |
        awk '/^(Nanoseconds|Shared|Free blocks)/ { mask = 1 }
             /^(Memory|Events|Check|--- )/ || /: .* events? of / { mask = 0 }
             / thread.* on .* CPU/ || /^  (metadata|waits|live at most)/ || mask {
                 if (mask && /^  (  of order|--)/) next
                 gsub(/[0-9][0-9,.]*/, "N"); gsub(/ (ns|us|ms|s)$/, " T")
                 gsub(/caches: [a-z]+/, "caches: KIND"); gsub(/CPUs/, "CPU"); gsub(/  +/, "  ")
             }
             { print }'
}

same_as_golden() {
    masked >"$work/masked"
    if [ -n "${DECKLE_UPDATE_GOLDEN:-}" ]; then
        cp "$work/masked" "$golden/$1.txt"
    elif ! diff -u "$golden/$1.txt" "$work/masked"; then
        bad "differs from $golden/$1.txt"
    fi
}

says() {
    grep -q -- "$1" "$work/stderr" || {
        bad "no \"$1\" in the messages:"
        cat "$work/stderr"
    }
}

prints() {
    grep -q -- "$1" "$work/stdout" || {
        bad "no \"$1\" in the output:"
        cat "$work/stdout"
    }
}

# json SECTION KEY VALUE: the first field KEY behind the first SECTION.
json() {
    value=$(awk -v section="\"$1\":" -v key="\"$2\":" '
        $1 == section { inside = 1 }
        inside && $1 == key { sub(/^[^:]*:[ \t]*/, ""); sub(/,$/, ""); print; exit }' "$work/$json")
    [ "$value" = "$3" ] || bad "$2 of $1 is ${value:-missing}, want $3"
}

# --- traces: alloc CPU PFN ORDER GFP, free CPU PFN ORDER, other lines as they are -------------------

trace() {
    awk 'BEGIN { print "# tracer: nop\n#" }
         { t = sprintf("  task-1  [%03d] ..... %d.%06d: ", $2, NR / 1000, NR % 1000) }
         $1 == "alloc" { type = $5 ~ /MOVABLE/ ? 1 : 0
             printf "%smm_page_alloc: page=00000000dead%04x pfn=%s order=%s migratetype=%d gfp_flags=%s\n",
                    t, NR, $3, $4, type, $5; next }
         $1 == "free" { printf "%smm_page_free: page=00000000dead%04x pfn=%s order=%s\n", t, NR, $3, $4
             next }
         $1 == "failed" { printf "%smm_page_alloc: page=0000000000000000 pfn=0x0 order=%s migratetype=0 gfp_flags=%s\n",
                    t, $4, $5; next }
         $1 == "locked" { printf "%smm_page_alloc_zone_locked: page=00000000dead%04x pfn=%s order=%s migratetype=1 percpu_refill=1\n",
                    t, NR, $3, $4; next }
         { print t $0 }'
}

trace >"$work/all-kinds.trace" <<'END'
alloc 0 0x1000 0 GFP_KERNEL
alloc 1 0x1001 0 GFP_HIGHUSER_MOVABLE|__GFP_ZERO
locked 1 0x1002 0
locked 1 0x1003 0
alloc 0 0x1200 9 GFP_TRANSHUGE
free 1 0x1000 0
free 0 0x7000 3
free 1 0x1208 0
free 1 0x1209 0
alloc 0 0x1800 1 GFP_KERNEL|GFP_DMA32
alloc 0 0x1802 0 GFP_KERNEL
free 0 0x1800 2
alloc 1 0x1900 2 GFP_KERNEL
alloc 1 0x1901 0 GFP_KERNEL
alloc 1 0x1a00 3 GFP_ATOMIC|__GFP_NOFAIL
free 1 0x1a00 3
failed 1 0x0 4 GFP_NOWAIT
END

trace >"$work/small.trace" <<'END'
alloc 0 0x1000 0 GFP_KERNEL
free 0 0x1000 0
END

awk 'BEGIN { for (i = 0; i < 600; i++) print "alloc", i % 2, sprintf("0x%x", 4096 + i), 0, "GFP_KERNEL" }' |
    trace >"$work/six-hundred.trace"

# --- what is printed --------------------------------------------------------------------------------

name=help
run 0 --help
same_as_golden help
(cd "$work" && "$DECKLE" help replay) | cmp -s - "$work/stdout" || bad "deckle help replay differs"

name=all-kinds
run 0 all-kinds.trace
same_as_golden all-kinds
run 0 --free-running --cells --nodes 2 --repeat 2 all-kinds.trace
same_as_golden all-kinds-options
run 0 --zero all-kinds.trace
prints 'zeroed frames were zero'

name=one-page
run 0 "$traces/c-build.deckle"
[ "$(wc -l <"$work/stdout")" -le 60 ] || bad "more than 60 lines"
awk 'length > 100 { exit 1 }' "$work/stdout" || bad "a line of more than 100 columns"

name=several-files
run 0 small.trace all-kinds.trace "$traces/network-order3.deckle"
[ "$(grep -c '^Check: no frame' "$work/stdout")" -eq 3 ] || bad "not three reports"
prints '^network-order3: '
(cd "$work" && "$DECKLE" replay -q - <small.trace) || bad "standard input"
if command -v xz >/dev/null 2>&1 && command -v gzip >/dev/null 2>&1; then
    xz -k "$work/small.trace"
    gzip -k "$work/small.trace"
    run 0 small.trace.xz small.trace.gz
fi
run 0 -q small.trace
[ ! -s "$work/stdout" ] || bad "-q prints"

# --- JSON -------------------------------------------------------------------------------------------

name=json
json=out.json
run 0 --json out.json --repeat 2 all-kinds.trace
prints '^Check: '
json schema schema '"deckle.replay"'
json version version 1
json how order '"file"'
json how rounds 2
while read -r key value; do
    json played "$key" "$value"
done <<'END'
events 28
allocs 16
frees 18
splits 2
remote_frees 6
adopted_frees 4
adopted_blocks 2
piece_frees 4
several_frees 6
lost_frees 2
frees_of_nothing 2
illegal_requests 1
zone_bits_dropped 1
type_differs 1
made_plain 1
END
json failures DECKLE_EINVAL 2
json model failed_allocs 1
json checks clean true
json checks contradiction null
run 0 --json - small.trace all-kinds.trace
[ "$(head -c 1 "$work/stdout")" = "{" ] || bad "--json - prints other things"
if command -v python3 >/dev/null 2>&1; then
    run 0 --json out.json --zero "$traces/thp.deckle" all-kinds.trace
    (cd "$work" && python3 - <<'END') || bad "the JSON contradicts itself"
import json
runs = json.load(open("out.json"))["runs"]
assert [r["trace"]["source"] for r in runs] == ["thp", "all-kinds.trace"], runs[1]["trace"]
for r in runs:
    e, t, m = r["played"], r["times"], r["memory"]
    assert t["alloc"]["calls"] == e["allocs"] - sum(r["failures"].values())
    assert t["free"]["calls"] == e["frees"] - e["frees_of_nothing"]
    for what in "alloc", "free":
        of = t[what]
        assert 0 <= of["min_ns"] <= of["median_ns"] <= of["p99_ns"] <= of["p999_ns"] <= of["max_ns"]
        assert sum(o["calls"] for o in of["by_order"].values()) == of["calls"]
    f = r["free"]
    frames = sum(n << order for order, n in enumerate(f["blocks_after_by_order"]))
    assert frames == f["free_frames"] == m["managed_frames"] - m["live_frames"]
    assert f["unusable_by_order"] == sorted(f["unusable_by_order"]) and f["unusable_by_order"][0] == 0
    assert f["huge_blocks"] <= f["huge_blocks_possible"]
    assert m["peak_frames_of_run"] == m["peak_frames"]
END
else
    echo "no python3: the JSON's sums were not checked"
fi

# --- faults -----------------------------------------------------------------------------------------

name=too-small
run 1 --size 1M six-hundred.trace
prints '^Check: FAULTY'
prints 'that Linux served failed'
prints 'DECKLE_EWATERMARK\|DECKLE_ENOMEM'
run 1 --size 1M --json out.json six-hundred.trace small.trace
json checks clean false
json checks contradiction null
prints '^small.trace: '

# --- what is refused --------------------------------------------------------------------------------

name=bad-input
for file in "$data"/bad-*.trace "$data"/no-*.trace "$data"/nul.trace; do
    run 2 "$file"
    says "^deckle: $file:"
done
run 2 nosuch
says 'nosuch: cannot be opened: No such file or directory'
: >"$work/empty"
run 2 empty
says 'is empty'
head -c 100000 "$traces/thp.deckle" >"$work/cut.deckle"
run 2 cut.deckle
says 'ends too early'
run 2 "$data/only-heading.trace"
run 2 nosuch small.trace
prints '^Check: no frame'
run 0 -k "$data/bad-order.trace"
says 'warning'

name=usage
run 2
says 'no input'
run 2 --frobnicate x
says "Try 'deckle replay --help'"
run 2 --nodes 0 small.trace
says 'option --nodes: "0" is no number from 1 to 64'
run 2 --nodes 65 small.trace
says 'option --nodes'
run 2 --repeat many small.trace
says 'option --repeat: "many" is no number'
run 2 --size 1X small.trace
says 'option --size: "1X" is no size'
run 2 --size 4095 small.trace
says 'option --size'
run 2 --size 4K --nodes 3 small.trace
says 'a pool of 1 frames: want 3'
run 2 --pfn-base 12 small.trace
says 'want 10 or 16'
run 2 --json nosuch/out.json small.trace
says 'nosuch/out.json: cannot be written'

name=cannot-write
if [ -w /dev/full ]; then
    (cd "$work" && "$DECKLE" replay small.trace >/dev/full) 2>"$work/stderr"
    [ $? -eq 1 ] || bad "a full device gives no fault"
    says 'cannot be written'
fi

# SIGTERM, because a shell lets its jobs in the background ignore SIGINT.
name=interrupted
for options in "" --free-running; do
    rm -f "$work/out.json"
    # shellcheck disable=SC2086
    (cd "$work" && exec "$DECKLE" replay $options --repeat 100000 --json out.json \
        "$traces/c-build.deckle" small.trace) >"$work/stdout" 2>"$work/stderr" &
    pid=$!
    sleep 1
    kill -TERM $pid 2>/dev/null
    wait $pid
    status=$?
    [ $status -eq 130 ] || bad "status $status, want 130"
    prints '(interrupted)'
    prints '^Check: no frame'
    ! grep -q '^small.trace' "$work/stdout" || bad "went on with the next file"
    json how interrupted true
    json checks clean true
done

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
