#!/usr/bin/env bash
# What is lost while strategies take over from each other: a flood at fixed rates, through `auto` with another strategy drawn at random every
# 20,000 packets, and through `rss`, which never pauses. They take turns, in network namespaces of their own.
# usage: pauses.sh PACELINE EXAMPLES FOLDER [ROUNDS [SECONDS [FLOWS]]]
# PACELINE is the program, EXAMPLES the folder with xdp_source; FOLDER takes each run's output.
# `./x bench pauses` calls it. Needs root. Frames have 60 bytes, go one way, and take turns by flow; the chain is examples/edge.toml.
set -euo pipefail

fail() { echo "pauses.sh: $*" >&2 && exit 1; }
[ $# -ge 3 ] || fail "usage: pauses.sh PACELINE EXAMPLES FOLDER [ROUNDS [SECONDS [FLOWS]]]"
paceline=$(realpath "$1") examples=$(realpath "$2") folder=$3 rounds=${4:-3} seconds=${5:-5} flows=${6:-1000}
here=$(dirname "$0")
# shellcheck source=bench/live/common.sh
. "$here/common.sh"

through() { # strategy, rate, options
    local strategy=$1 rate=$2 name=$1-$2
    shift 2
    start "$name" taskset -c "0-$(($(nproc) - 1))" "$paceline" run "$here/../../examples/edge.toml" "${bridge[@]}" \
        --strategy "$strategy" --cores 2 --json "$folder/$name.json" "$@"
    ip netns exec "$left" taskset -c 1 "$examples/xdp_source" l0 "$seconds" "$rate" "$flows" 60 >"$folder/source.log"
    sleep 0.3
    stop
    python3 - "$folder/$name.json" "$strategy" "$rate" <<'PYTHON'
import json
import statistics
import sys

path, strategy, rate = sys.argv[1:]
with open(path) as file:
    report = json.load(file)
received = sum(interface["received"] for interface in report["interfaces"])
lost = sum(count for interface in report["interfaces"] for count in interface["lost"].values())
changes = (report["changes"] or {"phases": []})["phases"][1:]
pauses = [1e3 * change["pause_seconds"] for change in changes] or [0]
print(
    f"{strategy:10}{int(rate):>10,}{received:>12,}{lost:>10,}{100 * lost / max(received + lost, 1):>8.2f}%"
    f"{len(changes):>9}{statistics.median(pauses):>11.1f}{max(pauses):>11.1f}"
)
PYTHON
}

echo "$flows flows, $seconds seconds, 2 cores, pauses in ms"
echo "strategy   a second    received      lost    share  changes  pause p50    longest"
for _ in $(seq "$rounds"); do
    for rate in 100000 200000 300000 400000; do
        through rss $rate
        through auto $rate --move-every 20000
    done
done
