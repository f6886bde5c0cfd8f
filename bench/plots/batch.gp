# SPDX-License-Identifier: MIT
# N blocks of order 0 one by one, then freed; both halves. Wants: data, out.
set terminal svg size 860,480 font "sans-serif,14" background rgb "white"
set output out
set title "alloc-odr0-N (solid) and free-odr0-N (dashed): N frames one by one"
set xlabel "N"
set ylabel "cycles per frame (ticks of the clock)"
set logscale x 2
set logscale y 2
set yrange [2:]
set grid ytics lc rgb "#dddddd"
set key outside right
set datafile missing "?"
a = data."/batch-alloc-odr0.dat"
f = data."/batch-free-odr0.dat"
set style data linespoints
plot a using "n":"lock" title "one lock" lc rgb "#999999" pt 4, \
     a using "n":"deckle_cells" title "Deckle, cells" lc rgb "#7fb0e0" pt 6, \
     f using "n":"deckle_cells" notitle lc rgb "#7fb0e0" pt 6 dt 2, \
     a using "n":"deckle_rseq" title "Deckle" lc rgb "#1060b0" lw 2 pt 7, \
     f using "n":"deckle_rseq" notitle lc rgb "#1060b0" lw 2 pt 7 dt 2, \
     a using "n":"limit_shared" title "limit-shared" lc rgb "#d07020" pt 5, \
     f using "n":"limit_shared" notitle lc rgb "#d07020" pt 5 dt 2, \
     a using "n":"floor" title "floor" lc rgb "#aaaaaa" pt 2
