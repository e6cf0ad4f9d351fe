#!/usr/bin/env bash
# Forwarders in turns, in network namespaces of their own: how many packets of a second's flood arrive behind each.
# usage: compare.sh PACELINE EXAMPLES FOLDER [ROUNDS [SECONDS [FLOWS]]]
# PACELINE is the program, EXAMPLES the folder with xdp_forward and xdp_source; FOLDER takes each run's output.
# `./x bench live` calls it. Needs root. Frames have 60 bytes, go one way, and take turns by flow.
set -euo pipefail

fail() { echo "compare.sh: $*" >&2 && exit 1; }
[ $# -ge 3 ] || fail "usage: compare.sh PACELINE EXAMPLES FOLDER [ROUNDS [SECONDS [FLOWS]]]"
paceline=$(realpath "$1") examples=$(realpath "$2") folder=$3 rounds=${4:-5} seconds=${5:-3} flows=${6:-1000}
# shellcheck source=bench/live/common.sh
. "$(dirname "$0")/common.sh"

arrived() { ip -n "$right" -s -j link show dev r0 | sed 's/.*"rx":{"bytes":[0-9]*,"packets":\([0-9]*\).*/\1/'; }

# Floods, and writes down what arrived: packets a second.
flood() { # name [flows]
    local before after
    before=$(arrived)
    ip netns exec "$left" taskset -c 1 "$examples/xdp_source" l0 "$seconds" 0 "${2:-$flows}" 60 >"$folder/source.log"
    after=$(arrived)
    echo $(((after - before) / seconds)) >>"$folder/$1.rates"
}

with() { # name, command
    start "$@"
    flood "$1"
    stop
}

# The forwarder does the driver's work itself: the interfaces leave it that for 200 us after it has asked.
with_driver() { # name, command
    leave_to_forwarder 2 200000
    with "$@"
    leave_to_forwarder 0 0
}

leave_to_forwarder() { # turns without an interrupt, ns until one
    local interface
    for interface in m0 m1; do
        ip netns exec "$middle" sh -c "echo $1 >/sys/class/net/$interface/napi_defer_hard_irqs
            echo $2 >/sys/class/net/$interface/gro_flush_timeout"
    done
}

# One flow, on as many processors as there are.
with_one_flow() { # name, command
    local name=$1
    shift
    start "$name" taskset -c "0-$(($(nproc) - 1))" "$@"
    flood "$name" 1
    stop
}

# On two cores, on as many processors as there are: one thread in front of them, or sockets of their own.
with_two_cores() { # name, command
    local name=$1
    shift
    start "$name" taskset -c "0-$(($(nproc) - 1))" "$@" --strategy rss --cores 2
    flood "$name"
    stop
}

kernel() { # name, rules
    start_kernel "$2"
    flood "$1"
    stop_kernel
}

rm -f "$folder"/*.rates
for ((round = 1; round <= rounds; round++)); do
    with bare "$examples/xdp_forward" m0 m1 600
    with bridge "$paceline" run "$folder/none.toml" "${bridge[@]}"
    with_driver bridge-driver "$paceline" run "$folder/none.toml" "${bridge[@]/busy/driver}"
    with_two_cores bridge-front-2 "$paceline" run "$folder/track.toml" "${bridge[@]}" --front
    with_two_cores bridge-own-2 "$paceline" run "$folder/track.toml" "${bridge[@]}"
    with_two_cores route-front-2 "$paceline" run "$folder/track.toml" "${route[@]}" --front
    with_two_cores route-own-2 "$paceline" run "$folder/track.toml" "${route[@]}"
    with stats-lb "$paceline" run "$folder/stats-lb.toml" "${bridge[@]}"
    with nat "$paceline" run "$folder/nat.toml" "${route[@]}"
    kernel kernel-nat "$masquerade"
    with conntrack "$paceline" run "$folder/track.toml" "${route[@]}"
    kernel kernel-conntrack "$tracked"
    with_one_flow one-flow "$paceline" run "$folder/track.toml" "${bridge[@]}"
    with_one_flow one-flow-scr-1 "$paceline" run "$folder/track.toml" "${bridge[@]}" --strategy scr --cores 1
    with_one_flow one-flow-scr-2 "$paceline" run "$folder/track.toml" "${bridge[@]}" --strategy scr --cores 2
    with_one_flow one-flow-turns-2 "$paceline" run "$folder/track.toml" "${bridge[@]}" --strategy scr-turns --cores 2 \
        --egress as-ready
    echo "round $round of $rounds done"
done

median() { sort -n "$folder/$1.rates" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
printf '%-18s %12s %24s   %s\n' forwarder "median pps" "least to most" "beside"
row() { # name, what, beside
    local rates ratio=""
    rates=$(sort -n "$folder/$1.rates")
    [ -z "${3:-}" ] || ratio=$(awk -v a="$(median "$1")" -v b="$(median "$3")" -v of="$3" \
        'BEGIN { if (b > 0) printf "%.2f times %s", a / b, of }')
    printf '%-18s %12s %24s   %s\n' "$1" "$(median "$1")" "$(head -1 <<<"$rates") to $(tail -1 <<<"$rates")" "$ratio"
}
row bare
row bridge "" bare
row bridge-driver "" bridge
row bridge-front-2
row bridge-own-2 "" bridge-front-2
row route-front-2
row route-own-2 "" route-front-2
row stats-lb "" bridge
row nat "" kernel-nat
row kernel-nat
row conntrack "" kernel-conntrack
row kernel-conntrack
row one-flow
row one-flow-scr-1 "" one-flow
row one-flow-scr-2 "" one-flow
row one-flow-turns-2 "" one-flow
