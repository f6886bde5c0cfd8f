# SPDX-License-Identifier: MIT
# Lines moved between CPUs per operation, by the number of CPUs (deckle_scale). Wants: data, out.
set terminal svg size 860,480 font "sans-serif,14" background rgb "white"
set output out
file = data."/scale.dat"
set title "Model: cache lines moved between CPUs per operation, rseq caches"
set xlabel "CPUs"
set ylabel "lines per operation"
set logscale x 2
set yrange [-0.1:]
set xtics (2, 4, 8, 16, 32, 64, 128, 256, 512)
set xrange [2:512]
set grid ytics lc rgb "#dddddd"
set key outside right
set style data linespoints
plot for [c in "remote handoff3 batch9 batch3 random handoff0 batch0 parallel9 parallel0"] \
     file index 0 using "cpus":c title c
