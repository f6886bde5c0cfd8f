# SPDX-License-Identifier: MIT
# A block allocated and freed, by order, nothing outstanding. Wants: data (folder), out (file).
set terminal svg size 860,480 font "sans-serif,14" background rgb "white"
set output out
file = data."/pair.dat"
set title "One block allocated and freed, nothing outstanding, one CPU"
set xlabel "order"
set ylabel "cycles per pair (ticks of the clock)"
set logscale y 2
set xrange [-0.5:10.5]
set xtics 1
set grid ytics lc rgb "#dddddd"
set key outside right
one(c) = (column("threads") == 1 && column("outstanding") == 1) ? column(c) : NaN
set datafile missing NaN
set style data linespoints
plot file using "order":(one("lock")) title "one lock" lc rgb "#999999" pt 4, \
     file using "order":(one("deckle_cells")) title "Deckle, cells" lc rgb "#7fb0e0" pt 6, \
     file using "order":(one("deckle_rseq")) title "Deckle" lc rgb "#1060b0" lw 2 pt 7, \
     file using "order":(one("limit")) title "limit" lc rgb "#d07020" pt 5, \
     file using "order":(one("floor")) title "floor" lc rgb "#aaaaaa" pt 2
