# SPDX-License-Identifier: MIT
# Two CPUs against one, by order. Wants: data, out.
set terminal svg size 860,480 font "sans-serif,14" background rgb "white"
set output out
file = data."/pair.dat"
set title "Pairs per second of two CPUs against one (2 is perfect)"
set xlabel "order"
set ylabel "times one CPU"
set xrange [-0.5:10.5]
set yrange [0:2.5]
set xtics 1
set grid ytics lc rgb "#dddddd"
set key outside right
set datafile missing NaN
two(n, c) = (column("threads") == 2 && column("outstanding") == n) ? column(c) : NaN
set style data linespoints
plot 2 notitle lc rgb "#aaaaaa" dt 2, \
     file using "order":(two(1, "scaling_rseq")) title "Deckle" lc rgb "#1060b0" lw 2 pt 7, \
     file using "order":(two(256, "scaling_rseq")) title "256 outstanding" lc rgb "#1060b0" pt 6 dt 2, \
     file using "order":(two(1, "scaling_cells")) title "Deckle, cells" lc rgb "#d07020" pt 5, \
     file using "order":(two(256, "scaling_cells")) title "256 outstanding" lc rgb "#d07020" pt 4 dt 2
