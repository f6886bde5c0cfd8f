#!/bin/sh
# SPDX-License-Identifier: MIT
#
# The plots of make bench, drawn from data as deckle bench --data and deckle_scale write it: each becomes
# an SVG with curves in it, without a word from gnuplot.

set -u
command -v gnuplot >/dev/null 2>&1 || {
    echo 'skipped: no gnuplot'
    exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$DECKLE_SOURCE_DIR/bench/plots" || exit 1

{
    echo 'order outstanding threads floor limit lock deckle_rseq deckle_cells scaling_rseq scaling_cells'
    for order in 0 1 2 3; do
        for out in 1 256; do
            echo "$order $out 1 5 6 28 8.5 40 ? ?"
            echo "$order $out 2 5 6 300 8.5 ? 1.98 2"
        done
    done
} >"$work/pair.dat"
for half in alloc free; do
    {
        echo 'n floor limit limit_shared lock deckle_rseq deckle_cells mmtests'
        for n in 1 64 1024 131072; do echo "$n 3 4 4.5 15 6 20 7"; done
    } >"$work/batch-$half-odr0.dat"
done
{
    echo 'threads round kept_percent'
    for threads in 1 2; do for round in 0 50 100; do echo "$threads $round $round"; done; done
} >"$work/fragment-kept.dat"
{
    echo 'order calls floor limit_shared lock deckle_rseq deckle_cells'
    echo '0 "single" 3.5 6.6 87 20 45'
    echo '3 "single" 3.5 7.2 ? 99 132'
} >"$work/handoff.dat"
{
    echo '# rseq'
    echo 'cpus parallel0 parallel9 batch0 batch3 batch9 handoff0 handoff3 random remote'
    for cpus in 2 16 512; do echo "$cpus 0 0 0.05 1.3 1.9 0.07 2.2 0.9 2"; done
} >"$work/scale.dat"

bad=0
for script in *.gp; do
    name=${script%.gp}
    gnuplot -e "data='$work'; out='$work/$name.svg'" "$script" >"$work/said" 2>&1
    status=$?
    if [ $status -ne 0 ] || [ -s "$work/said" ]; then
        echo "$script: status $status: $(cat "$work/said")"
        bad=1
    elif [ "$(grep -cE '<path|<use' "$work/$name.svg")" -lt 20 ]; then
        echo "$script draws hardly anything"
        bad=1
    fi
done
exit $bad
