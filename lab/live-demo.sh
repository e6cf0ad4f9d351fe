#!/usr/bin/env bash
# The live part of ./x demo: real packets through paceline in the lab, and the report. Where something is missing it says what,
# and that is no failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${CARGO_TARGET_DIR:-target}
paceline=$build/release/paceline
mkdir -p "$build/demo"
report=$build/demo/live-report.txt
said=$build/demo/live-said.txt
pid=""

main() {
    [ "$(id -u)" = 0 ] || skip "network namespaces need root: sudo ./x demo"
    command -v ip >/dev/null || skip "it takes \`ip\`: apt-get install iproute2"
    command -v ping >/dev/null || skip "it takes \`ping\`: apt-get install iputils-ping"
    # A lab that is in use stays as it is.
    ! lab/lab.sh status >/dev/null 2>&1 || skip "the lab is up already, and may be in use: ./x lab down"
    trap clean_up EXIT
    echo "live: two hosts with a gateway between them, in network namespaces; the chain stands in the gateway"
    lab/lab.sh up >"$said" 2>&1 || skip "the lab could not be made: $(cat "$said")"
    lab/lab.sh serve 60 >"$said" 2>&1 || skip "there is no server in the lab: $(cat "$said")"
    # It ends by itself, whatever becomes of this script.
    echo "+ paceline run examples/edge.toml --inside eth1 --outside eth0"
    ip netns exec paceline-lab-gateway "$paceline" run examples/edge.toml --inside eth1 --outside eth0 --duration 60 \
        >"$report" 2>"$said" &
    pid=$!
    await_start
    inside ping -n -c 3 -i 0.2 -W 2 192.0.2.2
    fetch
    kill -TERM "$pid" 2>/dev/null || true
    wait "$pid" || fail "paceline ended with status $?: $(cat "$said")"
    pid=""
    cat "$report"
}

await_start() {
    for _ in $(seq 100); do
        ! grep -q 'Ctrl-C ends it' "$said" || { grep -v 'Ctrl-C ends it' "$said" || true; return; }
        kill -0 "$pid" 2>/dev/null || fail "paceline did not start: $(cat "$said")"
        sleep 0.1
    done
    fail "paceline did not start within 10 s: $(cat "$said")"
}

inside() { # command
    echo "+ (in inside) $*"
    ip netns exec paceline-lab-inside "$@" || fail "inside did not reach outside through paceline"
}

# A megabyte, through the policer's 10 Mbit/s.
fetch() {
    if command -v curl >/dev/null; then
        inside curl -sS -m 30 -o /dev/null -w '%{size_download} bytes in %{time_total} s\n' http://192.0.2.2/1MB
    else
        # shellcheck disable=SC2016
        inside timeout 30 bash -c 'exec 3<>/dev/tcp/192.0.2.2/80
            printf "GET /1MB HTTP/1.0\r\n\r\n" >&3
            echo "$(wc -c <&3) bytes, headers included"'
    fi
}

clean_up() {
    [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
    lab/lab.sh down >/dev/null 2>&1 || true
}

skip() { echo "live: not shown: $*" && exit 0; }
fail() { echo "live: $*" >&2 && exit 1; }

main "$@"
