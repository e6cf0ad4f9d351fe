#!/usr/bin/env bash
# Records captures/gateway.pcap: what an office's gateway receives, from the office and from outside, while the
# gateway is a Linux router that masquerades. About 20 seconds. Nothing leaves the namespaces.
#
#   office 10.0.0.0/24 --(recorded)-- gate --(recorded)-- isp ---- server 198.51.100.10
#   .10 .11 .12              10.0.0.1      203.0.113.1     |       MTU 1,400
#                                                          +------ stranger 192.0.2.66
#
# usage: sudo captures/gateway.sh [OUT]       OUT: captures/gateway.pcap unless given
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath "${1:-$here/gateway.pcap}")
net=plgate$$                      # prefix of this run's namespaces
hosts=(office gate isp server stranger)
gate4=203.0.113.1 server4=198.51.100.10 stranger4=192.0.2.66

main() {
    check_machine
    work=$(mktemp -d)
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    say "building the network"
    build_network
    start_servers
    start_recording
    say "playing the traffic (about 20 s)"
    play
    stop_recording
    check_ports
    summarise
}

check_machine() {
    [ "$(uname -s)" = Linux ] || fail "network namespaces need Linux"
    [ "$(id -u)" = 0 ] || fail "making network namespaces needs root: sudo $0"
    local tool missing=()
    for tool in ip:iproute2 tc:iproute2 sysctl:procps ethtool:ethtool tcpdump:tcpdump nft:nftables \
        conntrack:conntrack ping:iputils-ping traceroute:traceroute curl:curl dig:dnsutils \
        dnsmasq:dnsmasq-base nc:netcat-openbsd nmap:nmap python3:python3; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    [ ${#missing[@]} = 0 ] || fail "missing tools: apt-get install ${missing[*]}"
}

# --- the network -----------------------------------------------------------------------------

build_network() {
    local host
    for host in "${hosts[@]}"; do
        ip netns add "$net-$host"
        ip -n "$net-$host" link set lo up
    done
    in_ns gate sysctl -qw net.ipv4.ip_forward=1
    in_ns isp sysctl -qw net.ipv4.ip_forward=1
    in_ns server sysctl -qw net.ipv4.tcp_synack_retries=2

    cable office up gate inside 1
    cable gate outside isp gate 2
    cable isp server server up 3
    cable isp stranger stranger up 4
    address office up 10.0.0.10/24 10.0.0.11/24 10.0.0.12/24
    address gate inside 10.0.0.1/24
    address gate outside $gate4/24
    address isp gate 203.0.113.254/24
    address isp server 198.51.100.1/24
    address isp stranger 192.0.2.1/24
    address server up $server4/24
    address stranger up $stranger4/24
    # A path with a narrow link in it: path MTU discovery has to get through.
    ip -n "$net-isp" route add $server4/32 dev server mtu lock 1400
    ip -n "$net-office" route add default via 10.0.0.1
    ip -n "$net-gate" route add default via 203.0.113.254
    ip -n "$net-server" route add default via 198.51.100.1
    ip -n "$net-stranger" route add default via 192.0.2.1
    # So that a stranger can knock at inside addresses, too.
    ip -n "$net-isp" route add 10.0.0.0/24 via $gate4

    in_ns gate nft -f - <<'RULES'
table ip gate {
    chain after {
        type nat hook postrouting priority srcnat
        oifname "outside" masquerade
    }
    chain through {
        type filter hook forward priority filter
        iifname "outside" ct state new,invalid drop
    }
    chain to {
        type filter hook input priority filter
        iifname "outside" ct state new,invalid drop
    }
}
RULES
    # 20 Mbit/s each way, so that flows share a queue and interleave.
    in_ns gate tc qdisc add dev inside root tbf rate 20mbit burst 16kb latency 50ms
    in_ns office tc qdisc add dev up root tbf rate 20mbit burst 16kb latency 50ms
}

cable() { # host, device, host, device, number (last octet of its MAC addresses)
    ip link add "$net-a" netns "$net-$1" address "02:00:00:00:02:0$5" type veth \
        peer name "$net-b" netns "$net-$3" address "02:00:00:00:03:0$5"
    ip -n "$net-$1" link set "$net-a" name "$2" up
    ip -n "$net-$3" link set "$net-b" name "$4" up
    # Frames as on a wire: not larger than the MTU, checksums filled in.
    in_ns "$1" ethtool -K "$2" tx off sg off tso off gso off gro off >/dev/null
    in_ns "$3" ethtool -K "$4" tx off sg off tso off gso off gro off >/dev/null
}

address() { # host, device, addresses
    local host=$1 device=$2 address
    shift 2
    for address in "$@"; do
        ip -n "$net-$host" address add "$address" dev "$device"
    done
}

# --- who answers -----------------------------------------------------------------------------

start_servers() {
    local number
    mkdir "$work/pages"
    for number in {1..8}; do
        repeat "page $number of the recorded site; " $((300 * number)) >"$work/pages/page$number.html"
        repeat "picture $number, which is text too; " 24576 >"$work/pages/picture$number.txt"
    done
    repeat "a letter to the outside; " 30000 >"$work/letter.txt"
    repeat "a long film; " 60000 >"$work/pages/film.txt"
    start server python3 "$here/servers.py" "$work/pages"
    start server dnsmasq --no-daemon --user=root --conf-file=/dev/null --no-resolv --no-hosts \
        --local=/example/ --pid-file= --host-record=www.gateway.example,$server4 2>/dev/null
    start server nc -lk 2525 >/dev/null
    local try
    for try in {1..50}; do
        ! in_ns office curl -s -o /dev/null --max-time 1 "http://$server4/" || return 0
        sleep 0.1
    done
    fail "the office cannot reach the server"
}

repeat() { # text, bytes
    local text=$1
    while [ ${#text} -lt "$2" ]; do text+=$text; done
    printf '%s' "${text:0:$2}"
}

# --- the recording ---------------------------------------------------------------------------

# What the gateway receives, on either side: packets as they arrive, before they are translated.
start_recording() {
    local side try host
    sleep 1                                             # what was asked above is over
    in_ns gate conntrack -F 2>/dev/null
    for host in "${hosts[@]}"; do
        ip -n "$net-$host" neighbour flush all 2>/dev/null || true
    done
    ip -n "$net-office" route flush cache
    in_ns gate conntrack -E -p tcp -o id >"$work/events.txt" 2>/dev/null & events=$!
    for side in inside outside; do
        start gate tcpdump -i $side -Q in -n -s 262144 -B 8192 -Z root --time-stamp-precision=nano \
            -w "$work/$side.pcap" "not ip6" 2>"$work/$side.log"
        recorders+=($!)
        for try in {1..50}; do
            ! grep -q 'listening on' "$work/$side.log" || break
            [ "$try" != 50 ] || fail "tcpdump does not start: $(cat "$work/$side.log")"
            sleep 0.1
        done
    done
}

stop_recording() {
    local recorder
    sleep 0.5
    for recorder in "${recorders[@]}"; do
        kill "$recorder"
        wait "$recorder" || fail "tcpdump: $(cat "$work"/*.log)"
    done
    kill "$events"
    python3 "$here/merge.py" "$out" "$work/inside.pcap" "$work/outside.pcap"
    chmod 644 "$out"
}

# --- the traffic -----------------------------------------------------------------------------

# Every program has a count or a time limit. Failures of single programs (what the gateway refuses) are part of the
# traffic.
play() {
    local background=()
    office ping -q -c 12 -I 10.0.0.10 $server4 & background+=($!)
    office ping -q -c 6 -i 2 -I 10.0.0.12 $server4 & background+=($!)
    names & background+=($!)
    browse & background+=($!)
    sleep 1
    film & background+=($!)
    sleep 1
    office curl -sZ --parallel-immediate --interface 10.0.0.11 -o /dev/null "http://$server4/picture[1-6].txt"
    office curl -s --interface 10.0.0.12 -o /dev/null "http://$server4/picture[7-8].txt"
    letter
    errors
    office ping -q -c 3 -i 0.3 -s 2000 $server4         # fragments
    strangers
    wait "${background[@]}"
}

office() { timeout 30 ip netns exec "$net-office" "$@" >/dev/null 2>&1 || true; }
stranger() { timeout 30 ip netns exec "$net-stranger" "$@" >/dev/null 2>&1 || true; }

names() {
    local round
    for round in {1..8}; do
        office dig +tries=1 +time=1 -b 10.0.0.10 @$server4 www.gateway.example A
        office dig +tries=1 +time=1 -b 10.0.0.11 @$server4 "absent$round.gateway.example" A
        sleep 1
    done
    office dig +tcp @$server4 www.gateway.example A
}

# Keep-alive: one connection, several requests, from three hosts; four rounds.
browse() {
    local round host
    for round in {1..4}; do
        for host in 10 11 12; do
            office curl -s --interface 10.0.0.$host -o /dev/null "http://$server4/page[1-8].html?round=$round" &
        done
        wait
        sleep 2
    done
}

# A slow download from a port that a stranger guesses.
film() {
    office curl -s --interface 10.0.0.10 --local-port 40404 --limit-rate 8k -o /dev/null "http://$server4/film.txt"
}

# Large segments towards the narrow link, which says that they need fragmentation.
letter() {
    office nc -N -w 3 -s 10.0.0.11 $server4 2525 <"$work/letter.txt"
}

# ICMP errors from the path and from the end of it.
errors() {
    office traceroute -n -q 1 -w 1 -m 4 $server4
    office traceroute -n -T -p 80 -q 1 -w 1 -m 4 $server4
    office dig +tries=1 +time=1 -p 5353 @$server4 www.gateway.example A
    office nc -z -w 1 $server4 81
}

strangers() {
    stranger nmap -sS -Pn -n --max-retries 0 --min-rate 200 -p 1-60,8080 $gate4
    stranger nmap -sS -Pn -n --max-retries 0 --min-rate 200 -p 40400-40410 $gate4
    stranger nmap -sA -Pn -n --max-retries 0 -p 40404 $gate4
    stranger nc -z -w 1 10.0.0.10 22
    stranger nc -z -u -w 1 $gate4 53
    stranger ping -q -c 2 -i 0.3 $gate4
    stranger ping -q -c 2 -i 0.3 10.0.0.11
}

# --- what came of it -------------------------------------------------------------------------

# Masquerading keeps a port where it is free: then the same gateway elsewhere can do so as well.
check_ports() {
    local moved
    moved=$(sed -nE 's/.*src=10\.0\.0\.[0-9]+ dst=[0-9.]+ sport=([0-9]+) .* dst=203\.0\.113\.1 sport=[0-9]+ dport=([0-9]+).*/\1 \2/p' \
        "$work/events.txt" | awk '$1 != $2' | wc -l)
    [ "$moved" = 0 ] || fail "$moved connections got another port outside; record again"
}

summarise() {
    local bytes
    bytes=$(stat -c %s "$out")
    [ "$bytes" -lt 1000000 ] || fail "$out has $bytes bytes; it is to stay below 1 MB"
    say "recorded $out, $bytes bytes; $(grep -h dropped "$work"/*.log | sort -u | tr '\n' ';')"
    say "TCP connections that the gateway saw established: $(grep -c '\[UPDATE\].* ESTABLISHED ' "$work/events.txt")"
}

# --- helpers ---------------------------------------------------------------------------------

in_ns() {
    local host=$1
    shift
    ip netns exec "$net-$host" "$@"
}

# Starts a program that runs until the end; `$!` is its process.
start() {
    local host=$1
    shift
    ip netns exec "$net-$host" "$@" &
}

say() { echo "gateway: $*"; }
fail() {
    echo "gateway: $*" >&2
    exit 1
}

# What runs in our namespaces was started by this script.
clean_up() {
    local host pid
    trap - EXIT
    exec 2>/dev/null        # the shell would tell of each program that ends here
    for host in "${hosts[@]}"; do
        for pid in $(ip netns pids "$net-$host" 2>/dev/null); do
            kill "$pid" 2>/dev/null || true
        done
    done
    wait 2>/dev/null || true
    for host in "${hosts[@]}"; do
        ip netns delete "$net-$host" 2>/dev/null || true
    done
    rm -rf "$work"
}

recorders=()
main
