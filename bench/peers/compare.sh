#!/usr/bin/env bash
# Runs a peer and `paceline bench table` in turns, so that a change in the machine's load meets both,
# and prints medians. usage: compare.sh RTE_HASH PACELINE FOLDER [ROUNDS [ENTRIES,...]]
# RTE_HASH and PACELINE are the programs; FOLDER takes the figures of each run. `./x bench peers` calls it.
set -euo pipefail

fail() { echo "compare.sh: $*" >&2 && exit 1; }
[ $# -ge 3 ] || fail "usage: compare.sh RTE_HASH PACELINE FOLDER [ROUNDS [ENTRIES,...]]"
rte_hash=$1 paceline=$2 folder=$3 rounds=${4:-5} sizes=${5:-}
[[ $rounds =~ ^([3-9]|[1-9][0-9]{1,2})$ ]] || fail "'$rounds' is not a number of rounds from 3 to 999"
if [ -z "$sizes" ]; then
    sizes=131072,1048576,4194304
    # 16 Mi entries take about 3 GiB, in either program.
    available_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\).*/\1/p' /proc/meminfo)
    if [ "${available_kib:-0}" -ge $((5 << 20)) ]; then
        sizes+=,16777216
    else
        echo "not measured: 16777216 entries, which take 5 GiB of free memory"
    fi
fi

# One core for both, and not the first, which has most of the interrupts.
cores=$(taskset -cp $$) || fail "taskset does not say which cores there are"
core=${cores##*[, -]}

# Rows of either program's JSON: "entries batch operation variant mops".
rows() {
    awk -F'[:,]' '
        { gsub(/[ "]/, "") }
        $1 == "entries" { entries = $2; variant = "-" }
        $1 == "batch" { batch = $2 }
        $1 == "operation" { operation = $2 }
        $1 == "hash" { variant = $2 }
        $1 == "call" { variant = variant "/" $2 }
        $1 == "mops" { print entries, batch, operation, variant, $2 }' "$1"
}

# Others on the core take their part of its time; on other cores, of cache and memory.
busy() { # our own load
    awk -v own="$1" '$1 >= own + 0.5 {
        print "attention: other programs are running (load " $1 "), and the figures suffer from it" }' /proc/loadavg
}

mkdir -p "$folder"
busy 0
: >"$folder/rte_hash.rows"
: >"$folder/paceline.rows"
IFS=, read -ra each <<<"$sizes"
for ((round = 1; round <= rounds; round++)); do
    for entries in "${each[@]}"; do
        taskset -c "$core" "$rte_hash" --rounds 1 --entries "$entries" --json "$folder/rte_hash.json" >/dev/null ||
            fail "rte_hash failed at '$entries' entries, see above"
        rows "$folder/rte_hash.json" >>"$folder/rte_hash.rows"
        taskset -c "$core" "$paceline" bench table --rounds 1 --entries "$entries" --json "$folder/paceline.json" \
            >/dev/null || fail "paceline failed at '$entries' entries, see above"
        rows "$folder/paceline.json" >>"$folder/paceline.rows"
    done
    echo "round $round of $rounds done"
done

busy 1

field() { sed -n "s/.*\"$1\": *\"\{0,1\}\([^\",]*\).*/\1/p" "$folder/rte_hash.json" | sed 1q; }
echo
echo "million look-ups per second, 16 byte keys, 64 bytes of state, random order, core $core; medians of"
echo "$rounds rounds in turns, lowest to highest; rte_hash ($(field version)) by its fastest hash and call;"
echo "ratio of medians, and of the highest figures, which other programs disturb least"
echo "rte_hash had $(($(field huge_pages_kib) >> 10)) of $(($(field resident_kib) >> 10)) MiB on transparent huge" \
    "pages at the last size; paceline asks for them in the same way"
echo
# Medians first; of rte_hash's variants the one with the best median.
awk '
    FNR == 1 { side++ }
    side == 2 && !(($1, $2, $3) in best) { next }
    { row = $1 SUBSEP $2 SUBSEP $3; key = side SUBSEP row SUBSEP $4; figures[key, ++n[key]] = $5
      if (side == 1 && !(row in best)) { order[++count] = row; best[row] = "" }
      if (side == 1 && !((row, $4) in seen)) { seen[row, $4] = 1; variants[row] = variants[row] " " $4 } }
    function median(key,   i, j, x) {
        for (i = 2; i <= n[key]; i++) {
            x = figures[key, i]
            for (j = i - 1; j > 0 && figures[key, j] > x; j--) figures[key, j + 1] = figures[key, j]
            figures[key, j + 1] = x
        }
        return figures[key, int(n[key] / 2) + 1]
    }
    function range(key) { return sprintf("%.1f to %.1f", figures[key, 1], figures[key, n[key]]) }
    END {
        printf "    entries | batch |    operation | rte_hash |           range | hash and call        | paceline |           range | ratio | of highest\n"
        printf " -----------+-------+--------------+----------+-----------------+----------------------+----------+-----------------+-------+------------\n"
        for (r = 1; r <= count; r++) {
            row = order[r]; split(row, part, SUBSEP); top = -1
            many = split(variants[row], variant, " "); highest = 0
            for (v = 1; v <= many; v++) {
                key = 1 SUBSEP row SUBSEP variant[v]
                m = median(key)
                if (figures[key, n[key]] > highest) highest = figures[key, n[key]]
                if (m > top) { top = m; best[row] = variant[v] }
            }
            ours = 2 SUBSEP row SUBSEP "-"
            mine = median(ours)
            printf " %10d | %5d | %12s | %8.1f | %15s | %-20s | %8.1f | %15s | %5.2f | %10.2f\n", part[1], part[2], part[3],
                top, range(1 SUBSEP row SUBSEP best[row]), best[row], mine, range(ours), mine / top,
                figures[ours, n[ours]] / highest
        }
    }' "$folder/rte_hash.rows" "$folder/paceline.rows"
