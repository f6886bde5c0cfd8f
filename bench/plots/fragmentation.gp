# SPDX-License-Identifier: MIT
# Huge blocks kept while single frames come and go. Wants: data, out.
set terminal svg size 860,480 font "sans-serif,14" background rgb "white"
set output out
file = data."/fragment-kept.dat"
set title "Free huge blocks of those possible: 90 % filled, half freed, 100 times a tenth replaced"
set xlabel "round"
set ylabel "%"
set yrange [0:100]
set grid ytics lc rgb "#dddddd"
set key bottom right
on(n) = column("threads") == n ? column("kept_percent") : NaN
set datafile missing NaN
set style data linespoints
plot file using "round":(on(1)) title "one thread" lc rgb "#1060b0" lw 2 pt 7, \
     file using "round":(on(2)) title "two threads" lc rgb "#d07020" pt 5, \
     94 title "LLFree, published" lc rgb "#777777" dt 2, \
     15 title "Linux, published" lc rgb "#777777" dt 3
