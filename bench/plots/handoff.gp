# SPDX-License-Identifier: MIT
# One CPU allocates, the other frees: ratios to limit-shared. Wants: data, out.
set terminal svg size 860,480 font "sans-serif,14" background rgb "white"
set output out
file = data."/handoff.dat"
set title "Hand-off from one CPU to another, batches of 64: times limit-shared"
set ylabel "times limit-shared"
set yrange [0:]
set style data histograms
set style histogram clustered gap 1
set style fill solid 0.9
set boxwidth 0.9
set grid ytics lc rgb "#dddddd"
set key outside right
set datafile missing "?"
label(x) = "order ".strcol("order").", ".strcol("calls")." calls"
plot file using (column("deckle_rseq") / column("limit_shared")):xtic(label(0)) \
         title "Deckle" lc rgb "#1060b0", \
     file using (column("deckle_cells") / column("limit_shared")) title "Deckle, cells" lc rgb "#7fb0e0", \
     file using (column("lock") / column("limit_shared")) title "one lock" lc rgb "#999999"
