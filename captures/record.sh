#!/usr/bin/env bash
# Records captures/edge.pcap: real programs in network namespaces, seen on the inside link of an
# edge router. About 30 seconds. Nothing leaves the namespaces.
#
#   client    192.0.2.0/24    2001:db8:1::/64 --+
#                                               +-- edge ==(recorded)== server 198.51.100.0/24
#   attacker  203.0.113.0/24  2001:db8:3::/64 --+                 |            2001:db8:2::/64
#                                                                 +---- office 10.0.100.0/24
#                                                                   VLAN 100   2001:db8:64::/64
#
# usage: sudo captures/record.sh [OUT]       OUT: captures/edge.pcap unless given
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath "${1:-$here/edge.pcap}")
net=plrec$$                       # prefix of this run's namespaces
hosts=(client attacker edge server office)
server4=198.51.100.10 server6=2001:db8:2::10
web4=192.0.2.80 web6=2001:db8:1::80

main() {
    check_machine
    work=$(mktemp -d)
    trap clean_up EXIT
    trap 'exit 130' INT TERM
    say "building the network"
    build_network
    make_pages
    start_servers
    start_recording
    say "playing the traffic (about 30 s)"
    play
    stop_recording
    check_size
    summarise
}

check_machine() {
    [ "$(uname -s)" = Linux ] || fail "network namespaces need Linux"
    [ "$(id -u)" = 0 ] || fail "making network namespaces needs root: sudo $0"
    local tool missing=()
    for tool in ip:iproute2 tc:iproute2 sysctl:procps ethtool:ethtool tcpdump:tcpdump ping:iputils-ping \
        curl:curl openssl:openssl dig:dnsutils dnsmasq:dnsmasq-base iperf3:iperf3 nc:netcat-openbsd \
        nmap:nmap hping3:hping3 python3:python3; do
        command -v "${tool%%:*}" >/dev/null || missing+=("${tool##*:}")
    done
    [ ${#missing[@]} = 0 ] || fail "missing tools: apt-get install ${missing[*]}"
    [ -c /dev/net/tun ] || fail "the VLAN needs /dev/net/tun: modprobe tun"
}

# --- the network -----------------------------------------------------------------------------

build_network() {
    local host
    for host in "${hosts[@]}"; do
        ip netns add "$net-$host"
        in_ns "$host" sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0
        ip -n "$net-$host" link set lo up
    done
    in_ns edge sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    in_ns server sysctl -qw net.ipv4.tcp_synack_retries=2

    link client 1
    link attacker 3
    link server 2
    vlan server office       # office hangs off the server's switch port, VLAN 100
    vlan edge edge

    address client up 192.0.2.10/24 192.0.2.11/24 192.0.2.30/24 192.0.2.31/24 $web4/24 \
        2001:db8:1::10/64 $web6/64
    address attacker up 203.0.113.66/24 2001:db8:3::66/64
    address server up $server4/24 $server6/64
    address office vlan100 10.0.100.20/24 10.0.100.21/24 2001:db8:64::20/64
    address edge client 192.0.2.1/24 2001:db8:1::1/64
    address edge attacker 203.0.113.1/24 2001:db8:3::1/64
    address edge server 198.51.100.1/24 2001:db8:2::1/64
    address edge vlan100 10.0.100.1/24 2001:db8:64::1/64
    route client 192.0.2.1 2001:db8:1::1
    route attacker 203.0.113.1 2001:db8:3::1
    route server 198.51.100.1 2001:db8:2::1
    route office 10.0.100.1 2001:db8:64::1

    # 20 Mbit/s to and from the outside, so that flows share a queue and interleave.
    in_ns edge tc qdisc add dev client root tbf rate 20mbit burst 16kb latency 50ms
    in_ns client tc qdisc add dev up root tbf rate 20mbit burst 16kb latency 50ms
}

# A cable: `up` at the host, named after the host at the edge.
link() { # host, number (last octet of its MAC addresses)
    ip link add "$net-a" netns "$net-edge" address "02:00:00:00:00:0$2" type veth \
        peer name "$net-b" netns "$net-$1" address "02:00:00:00:01:0$2"
    ip -n "$net-edge" link set "$net-a" name "$1" up
    ip -n "$net-$1" link set "$net-b" name up up
    # Frames as on a wire: not larger than the MTU, checksums filled in.
    offload_off edge "$1"
    offload_off "$1" up
}

offload_off() { # host, device
    in_ns "$1" ethtool -K "$2" tx off sg off tso off gso off gro off txvlan off rxvlan off >/dev/null
}

# VLAN 100 on the recorded link, as device `vlan100` in another host or the same one.
vlan() { # host that has the cable, host that gets the device
    local device=up try
    [ "$1" != edge ] || device=server
    start "$1" python3 "$here/vlan.py" $device 100 vlan100
    for try in {1..50}; do
        ! ip -n "$net-$1" link show vlan100 >/dev/null 2>&1 || break
        [ "$try" != 50 ] || fail "vlan.py made no device"
        sleep 0.1
    done
    [ "$1" = "$2" ] || ip -n "$net-$1" link set vlan100 netns "$net-$2"
    ip -n "$net-$2" link set vlan100 up
}

address() { # host, device, addresses
    local host=$1 device=$2 address
    shift 2
    for address in "$@"; do
        ip -n "$net-$host" address add "$address" dev "$device"
    done
}

route() { # host, gateways
    ip -n "$net-$1" route add default via "$2"
    ip -n "$net-$1" route add default via "$3"
}

# --- who answers -----------------------------------------------------------------------------

make_pages() {
    local number
    mkdir "$work/pages"
    for number in {1..12}; do
        repeat "page $number of the recorded site; " $((300 * number)) >"$work/pages/page$number.html"
        repeat "picture $number, which is text too; " 32768 >"$work/pages/picture$number.txt"
    done
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
        -subj /CN=www.edge.example -keyout "$work/key.pem" -out "$work/cert.pem" 2>/dev/null
}

repeat() { # text, bytes
    local text=$1
    while [ ${#text} -lt "$2" ]; do text+=$text; done
    printf '%s' "${text:0:$2}"
}

start_servers() {
    start server python3 "$here/servers.py" "$work/pages"
    start client python3 "$here/servers.py" "$work/pages"
    cd "$work/pages"         # openssl serves the folder it stands in
    start client openssl s_server -quiet -WWW -accept 443 \
        -cert "$work/cert.pem" -key "$work/key.pem" >/dev/null 2>&1
    cd "$here"
    start server iperf3 -s >/dev/null 2>&1
    start server iperf3 -s -p 5202 >/dev/null 2>&1
    # A TXT record of 2,400 bytes and EDNS answers of up to 4,096: DNS in UDP fragments.
    local text
    text=$(repeat "a long text record " 240)
    start server dnsmasq --no-daemon --user=root --conf-file=/dev/null --no-resolv --no-hosts \
        --edns-packet-max=4096 --local=/example/ --pid-file= \
        --host-record=www.edge.example,$server4,$server6 --host-record=mail.edge.example,198.51.100.25 \
        --cname=shop.edge.example,www.edge.example \
        --txt-record="long.edge.example,$text,$text,$text,$text,$text,$text,$text,$text,$text,$text" 2>/dev/null

    answers client "http://$server4/"
    answers client "http://[$server6]/"
    answers office "http://$web4/"
    answers office "http://[$web6]/"
}

answers() { # host, address
    local try
    for try in {1..50}; do
        ! in_ns "$1" curl -s -o /dev/null --max-time 1 "$2" || return 0
        sleep 0.1
    done
    fail "$1 cannot reach $2"
}

# --- the recording ---------------------------------------------------------------------------

start_recording() {
    local host try
    for host in "${hosts[@]}"; do
        ip -n "$net-$host" neighbour flush all     # so that ARP and NDP are recorded too
    done
    start edge tcpdump -i server -n -s 262144 -B 16384 -Z root --time-stamp-precision=nano \
        -w "$work/edge.pcap" 2>"$work/tcpdump.log"
    recorder=$!
    for try in {1..50}; do
        ! grep -q 'listening on' "$work/tcpdump.log" || return 0
        sleep 0.1
    done
    fail "tcpdump does not start: $(cat "$work/tcpdump.log")"
}

stop_recording() {
    sleep 0.5
    kill "$recorder"
    wait "$recorder" || fail "tcpdump: $(cat "$work/tcpdump.log")"
    mv "$work/edge.pcap" "$out"
    chmod 644 "$out"
}

# --- the traffic -----------------------------------------------------------------------------

# Every program has a count or a time limit. Failures of single programs (a filtered port, a lost
# answer) are part of the traffic.
play() {
    local background=()
    client ping -q -c 27 $server4 & background+=($!)
    client ping -q -6 -c 27 $server6 & background+=($!)
    office ping -q -c 12 -i 2 $web4 & background+=($!)
    names & background+=($!)
    sleep 1
    browse & background+=($!)
    sleep 2
    downloads
    office_traffic
    client iperf3 -u -p 5202 -c $server4 -b 69k -l 172 -t 8 & background+=($!)    # like a voice call
    sleep 0.5
    client iperf3 -c $server4 -n 300K -R
    client iperf3 -6 -c $server6 -n 200K
    fragments
    knocks
    scan
    syn_flood
    wait "${background[@]}"
}

client() { timeout 40 ip netns exec "$net-client" "$@" >/dev/null 2>&1 || true; }
office() { timeout 40 ip netns exec "$net-office" "$@" >/dev/null 2>&1 || true; }
attacker() { timeout 40 ip netns exec "$net-attacker" "$@" >/dev/null 2>&1 || true; }

names() {
    local round
    for round in {1..12}; do
        client dig +tries=1 +time=1 @$server4 www.edge.example A
        client dig +tries=1 +time=1 @$server6 www.edge.example AAAA
        client dig +tries=1 +time=1 @$server4 "shop.edge.example" AAAA
        client dig +tries=1 +time=1 @$server4 "absent$round.edge.example" A
        sleep 1.5
    done
    client dig +tcp @$server4 long.edge.example TXT
}

# Keep-alive: one connection, a dozen requests, from two addresses and over IPv6; four rounds.
browse() {
    local round
    for round in {1..4}; do
        client curl -s --interface 192.0.2.10 -o /dev/null "http://$server4/page[1-12].html" &
        client curl -s --interface 192.0.2.11 -o /dev/null "http://$server4/page[3-9].html?round=$round" &
        client curl -s -o /dev/null "http://[$server6]/page[1-6].html" &
        wait
        sleep 4
    done
}

downloads() {
    client curl -sZ --parallel-immediate -o /dev/null "http://$server4/picture[1-8].txt"
    client curl -sZ --parallel-immediate -o /dev/null "http://[$server6]/picture[1-5].txt"
}

# From the VLAN to the outside: web over both IP versions, TLS, and packets whose TTL ends at the edge.
office_traffic() {
    office curl -s --interface 10.0.100.20 -o /dev/null "http://$web4/page[1-8].html" &
    office curl -sZ --interface 10.0.100.21 -o /dev/null "http://$web4/picture[1-3].txt" &
    office curl -s -o /dev/null "http://[$web6]/page[1-8].html" &
    wait $!
    office curl -sk -o /dev/null "https://$web4/page[4-8].html"
    office ping -q -c 3 -i 0.2 -t 1 $web4
}

fragments() {
    client ping -q -c 6 -i 0.2 -s 4000 $server4
    client ping -q -6 -c 6 -i 0.2 -s 4000 $server6
    office ping -q -c 3 -i 0.2 -s 4000 $web4
    client dig +bufsize=4096 +ignore +tries=1 +time=1 @$server4 long.edge.example TXT
    client dig +bufsize=4096 +ignore +tries=1 +time=1 @$server6 long.edge.example TXT
}

# The edge records and filters nothing, so both clients get in; a port-knocking function in
# front of port 22 admits the first connection and not the second.
knocks() {
    local port
    for port in 7000 8000 9000; do
        client nc -z -w 1 -s 192.0.2.30 $server4 $port
        sleep 0.2
    done
    login 192.0.2.30
    for port in 7000 9000 8000; do
        client nc -z -w 1 -s 192.0.2.31 $server4 $port
        sleep 0.2
    done
    login 192.0.2.31
}

login() { printf 'hello\nwho\nbye\n' | client nc -N -w 2 -s "$1" $server4 22; }

scan() {
    attacker nmap -sS -Pn -n --max-retries 0 --min-rate 200 -p 1-250,443,3306,5432,8080,8443 $server4
    attacker nmap -6 -sS -Pn -n --max-retries 0 --min-rate 200 -p 20-60 $server6
    attacker nmap -sU -Pn -n --max-retries 0 --min-rate 50 -p 53,69,123,161,500,1900,5353,11211 $server4
    attacker curl -s --path-as-is --max-time 2 -o /dev/null "http://$server4/../../../../etc/passwd"
}

# 1,000 packets per second and source: hping3 --flood would go on past its count.
syn_flood() {
    local last_octet flood=()
    attacker hping3 -q -n -S -p 80 -i u1000 -c 160 $server4 & flood+=($!)
    for last_octet in {100..107}; do
        attacker hping3 -q -n -S -p 80 -i u1000 -c 40 -a "203.0.113.$last_octet" $server4 & flood+=($!)
    done
    client curl -s -o /dev/null "http://$server4/page[1-12].html"      # served all the same
    wait "${flood[@]}"
}

# --- what came of it -------------------------------------------------------------------------

check_size() {
    local bytes
    bytes=$(stat -c %s "$out")
    [ "$bytes" -lt 3000000 ] || fail "$out has $bytes bytes; it is to stay below 3 MB"
}

summarise() {
    say "recorded $out, $(stat -c %s "$out") bytes; $(grep dropped "$work/tcpdump.log")"
    command -v tshark >/dev/null || { say "for a table of what is in it: apt-get install tshark"; return 0; }
    printf '| %-44s | packets |\n|%s|--------:|\n' kind "$(printf -- '-%.0s' {1..46})"
    count "all" ""
    count "HTTP over IPv4, untagged" "tcp.port==80 && ip && !vlan && !ip.addr==203.0.113.0/24"
    count "HTTP over IPv6, untagged" "tcp.port==80 && ipv6 && !vlan"
    count "VLAN 100 (web, TLS, ping of the office)" "vlan.id==100"
    count "TLS connections, in VLAN 100" "tcp.port==443 && vlan"
    count "DNS over UDP" "udp.port==53"
    count "DNS over TCP" "tcp.port==53 && !ip.addr==203.0.113.0/24"
    count "bulk TCP (iperf3), IPv4 and IPv6" "tcp.port==5201"
    count "UDP stream (iperf3)" "udp.port==5202"
    count "ping, IPv4" "icmp.type==8 || icmp.type==0"
    count "ping, IPv6" "icmpv6.type==128 || icmpv6.type==129"
    count "ICMP errors (unreachable, TTL exceeded)" "icmp.type==3 || icmp.type==11"
    count "IPv4 fragments" "ip.flags.mf==1 || ip.frag_offset>0"
    count "IPv6 fragments" "ipv6.fraghdr"
    count "port knocks and logins, right order" "ip.addr==192.0.2.30"
    count "port knocks and login, wrong order" "ip.addr==192.0.2.31"
    count "port scan (TCP, IPv4, not port 80)" \
        "tcp && ip.addr==203.0.113.66 && tcp.port!=80"
    count "port scan (TCP, IPv6)" "tcp && ipv6.addr==2001:db8:3::66"
    count "port scan (UDP)" "udp && ip.addr==203.0.113.66"
    count "SYN flood, SYNs from the host's own address" \
        "ip.src==203.0.113.66 && tcp.dstport==80 && tcp.flags.syn==1"
    count "SYN flood, SYNs from eight spoofed addresses" \
        "ip.src>=203.0.113.100 && ip.src<=203.0.113.107 && tcp.flags.syn==1"
    count "ARP and neighbour discovery" "arp || icmpv6.type>=133"
    count "wrong checksums" "ip.checksum.status==0 || tcp.checksum.status==0 || udp.checksum.status==0 || \
icmp.checksum.status==0 || icmpv6.checksum.status==0"
}

count() { # kind, display filter; ICMP errors quote packets, so a filter may match what they quote
    printf '| %-44s | %7d |\n' "$1" "$(tshark -n -r "$out" -o ip.check_checksum:TRUE \
        -o tcp.check_checksum:TRUE -o udp.check_checksum:TRUE -o ip.defragment:TRUE -Y "$2" 2>/dev/null | wc -l)"
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

say() { echo "record: $*"; }
fail() {
    echo "record: $*" >&2
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

main
