#!/usr/bin/env bash
# How long packets take through live forwarders: half, 99% and 99.9% of them, at 50% and 90% of the rate that each forwarder takes
# without loss. All take turns, in network namespaces of their own.
# usage: latency.sh PACELINE EXAMPLES FOLDER [ROUNDS [SECONDS [FLOWS]]]
# PACELINE is the program, EXAMPLES the folder with xdp_source, xdp_sink and xdp_forward; FOLDER takes each run's output.
# `./x bench latency` calls it. Needs root. Frames have 60 bytes, and say when they were sent; a program at the far end reads it.
set -euo pipefail

fail() { echo "latency.sh: $*" >&2 && exit 1; }
[ $# -ge 3 ] || fail "usage: latency.sh PACELINE EXAMPLES FOLDER [ROUNDS [SECONDS [FLOWS]]]"
paceline=$(realpath "$1") examples=$(realpath "$2") folder=$3 rounds=${4:-3} seconds=${5:-3} flows=${6:-1000}
# The search ends when its bounds are so near, packets a second, and begins with this upper bound.
near=40000 most=1000000
# What is lost at most at a rate that counts as loss-free, in millionths: a machine with other work loses a few now and then.
loss=${LATENCY_LOSS:-1000}
# shellcheck source=bench/live/common.sh
. "$(dirname "$0")/common.sh"

# Sends at a rate, and prints: offered, the rate that it came to, arrived, p50, p99, p99.9, longest.
send() { # rate seconds
    local sink offered counted
    mkfifo "$folder/end"
    ip netns exec "$right" taskset -c 0 "$examples/xdp_sink" r0 600 <"$folder/end" >"$folder/sink.log" 2>&1 &
    sink=$!
    exec 9>"$folder/end"
    rm "$folder/end"
    until grep -q counting "$folder/sink.log"; do
        kill -0 $sink 2>/dev/null || fail "the sink does not run: $(cat "$folder/sink.log")"
        sleep 0.05
    done
    offered=$(ip netns exec "$left" taskset -c 1 "$examples/xdp_source" l0 "$2" "$1" "$flows" 60 stamped 9>&- |
        sed 's/.*offered \([0-9]*\) .* \([0-9]*\) a second/\1 \2/')
    sleep 0.3
    exec 9>&-
    wait $sink
    counted=$(tail -n 1 "$folder/sink.log")
    echo "$offered $counted"
}

is_loss_free() { # rate
    send "$1" 1 | awk -v rate="$1" -v loss="$loss" '{ exit !($2 >= rate * 0.9 && $1 - $3 <= $1 * loss / 1000000) }'
}

# The highest rate without loss, by halving; no higher than the source sends.
search() {
    local low=0 high=$most middle_rate
    while [ $((high - low)) -gt $near ]; do
        middle_rate=$(((low + high) / 2))
        # Twice: a machine with other work may lose packets once.
        if is_loss_free $middle_rate || is_loss_free $middle_rate; then low=$middle_rate; else high=$middle_rate; fi
    done
    echo "$low"
}

measure() { # name
    local name=$1 rate share
    rate=$(search)
    echo "$rate" >>"$folder/$name.loss-free"
    [ "$rate" -gt 2000 ] || return 0
    for share in 50 90; do
        send $((rate * share / 100)) "$seconds" >>"$folder/$name.$share"
    done
}

with() { # name, command
    start "$@"
    measure "$1"
    stop
}

kernel() { # name, rules
    start_kernel "$2"
    measure "$1"
    stop_kernel
}

rm -f "$folder"/*.loss-free "$folder"/*.50 "$folder"/*.90
for ((round = 1; round <= rounds; round++)); do
    with bare "$examples/xdp_forward" m0 m1 6000
    with bridge "$paceline" run "$folder/none.toml" "${bridge[@]}"
    with nat "$paceline" run "$folder/nat.toml" "${route[@]}"
    kernel kernel-nat "$masquerade"
    with conntrack "$paceline" run "$folder/track.toml" "${route[@]}"
    kernel kernel-conntrack "$tracked"
    echo "round $round of $rounds done"
done

median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '%-18s %10s %6s %10s %10s %10s\n' forwarder loss-free at p50 p99 p99.9
for name in bare bridge nat kernel-nat conntrack kernel-conntrack; do
    [ -s "$folder/$name.50" ] ||
        echo "$name: no rate without loss that the source reached: this machine does too much else"
    for share in 50 90; do
        [ -s "$folder/$name.$share" ] || continue
        printf '%-18s %10s %5s%%' "$name" "$(median <"$folder/$name.loss-free")" "$share"
        for column in 4 5 6; do printf ' %7s us' "$(cut -d ' ' -f $column "$folder/$name.$share" | median)"; done
        echo
    done
done
