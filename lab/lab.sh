#!/usr/bin/env bash
# A lab in network namespaces: two hosts with a gateway between them, and a LAN with servers. `./x lab` calls this. usage:
#   ./x lab up                      make it; nothing if it is there
#   ./x lab enter NAME [COMMAND]    run a command, or a shell, in inside, gateway, outside, client, web1, web2 or web3
#   ./x lab serve [SECONDS]         small web servers in outside and web1 to web3, for 600 s if nothing else is said
#   ./x lab status                  what there is; exit status 1 if there is none
#   ./x lab down                    remove all of it
#
# All names begin with paceline-lab-. No interface outside these namespaces is touched. Needs root and iproute2.
set -eEuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prefix=paceline-lab-
hosts=(inside gateway outside client web1 web2 web3)
all=("${hosts[@]}" lan)
# Files of the servers, and their process numbers.
state=/run/paceline-lab
build=${CARGO_TARGET_DIR:-target}

main() {
    local command=${1:-help}
    [ $# = 0 ] || shift
    case $command in
        up | down | enter | serve | status) needs_root "$command" && "lab_$command" "$@" ;;
        help | -h | --help) sed -n '2,/^set -e/{/^#/s/^# \{0,1\}//p;}' lab/lab.sh ;;
        *) fail "no command 'lab $command'; ./x lab help lists them" ;;
    esac
}

needs_root() { # command
    [ "$(id -u)" = 0 ] || fail "network namespaces need root: sudo ./x lab $1"
    command -v ip >/dev/null || fail "network namespaces need \`ip\`: apt-get install iproute2"
}

# --- up --------------------------------------------------------------------------------------

lab_up() {
    ! is_up || { say "the lab is up already; ./x lab status shows it"; return; }
    remove_namespaces # what an attempt that failed left
    trap 'trap - ERR; remove_namespaces; fail "the lab could not be made, see above; nothing of it is left"' ERR
    mkdir -p $state
    local name
    for name in "${all[@]}"; do
        ip netns add $prefix"$name"
        quiet "$name"
        in_ip "$name" link set lo up
    done
    line_of_hosts
    lan
    silence_gateway
    trap - ERR
    touch $state/up
    picture
    say "made 8 network namespaces, ${prefix}*; ./x lab down removes them"
    say "the kernel does not forward packets in gateway: until paceline runs there, inside and outside are apart"
}

# No packets but those that are asked for; and what a packet is dropped for shall be Paceline's reason, not the kernel's.
quiet() { # namespace
    set_in "$1" ipv4/ip_forward 0
    set_in "$1" ipv4/conf/all/rp_filter 0
    set_in "$1" ipv4/conf/default/rp_filter 0
    set_in "$1" ipv6/conf/all/forwarding 0
    set_in "$1" ipv6/conf/default/accept_ra 0
    set_in "$1" ipv6/conf/default/accept_dad 0
    # A router needs link-local addresses: the kernel asks for neighbours from there.
    [ "$1" = gateway ] || set_in "$1" ipv6/conf/default/addr_gen_mode 1
}

line_of_hosts() {
    pair inside eth0 gateway eth1
    pair outside eth0 gateway eth0
    # As if on one link, for bridge mode; these are no networks of the gateway's.
    address inside eth0 192.0.2.1/24 2001:db8::1/64
    address outside eth0 192.0.2.2/24 2001:db8::2/64
    # With a router in between, for route mode and for the NAT of examples/gateway.toml.
    address inside eth0 10.0.0.10/24 2001:db8:a::10/64
    address gateway eth1 10.0.0.1/24 2001:db8:a::1/64
    address gateway eth0 203.0.113.1/24 2001:db8:b::1/64
    address outside eth0 203.0.113.2/24 2001:db8:b::2/64
    route inside default 10.0.0.1 2001:db8:a::1
    route outside default 203.0.113.1 2001:db8:b::1
}

# The NAT's external address is the gateway's own. Where its stack sees packets beside Paceline (AF_PACKET), it would reset
# connections that it does not know. Paceline sees packets ahead of this rule.
silence_gateway() {
    if command -v nft >/dev/null; then
        ip netns exec ${prefix}gateway nft 'table inet paceline {
            chain input {
                type filter hook input priority filter
                iifname "eth0" tcp dport 1024-65535 drop
                iifname "eth0" udp dport 1024-65535 drop
            }
        }'
    else
        say "no nft here: with AF_PACKET sockets gateway's stack will reset connections of the NAT (apt-get install nftables)"
    fi
}

# For examples/balance.toml. The gateway has one leg here. Clients and servers are in different networks, so both ways lead
# through it.
lan() {
    local name number
    in_ip lan link add br0 type bridge
    in_ip lan link set br0 up
    for name in gateway client web1 web2 web3; do
        pair "$name" "$([ "$name" = gateway ] && echo eth2 || echo eth0)" lan "$name"
        in_ip lan link set "$name" master br0
    done
    address gateway eth2 198.51.100.1/24 2001:db8:2::1/64
    address gateway eth2 10.0.100.1/24 2001:db8:3::1/64
    address client eth0 10.0.100.21/24 2001:db8:3::21/64
    route client default 10.0.100.1 2001:db8:3::1
    for number in 1 2 3; do
        address web$number eth0 198.51.100.2$number/24 2001:db8:2::2$number/64
        route web$number default 198.51.100.1 2001:db8:2::1
    done
    in_ip web1 addr add 198.51.100.31/24 dev eth0
    in_ip web2 addr add 198.51.100.32/24 dev eth0
}

picture() {
    cat <<'END'

   inside eth0 ─────────── eth1 gateway eth0 ─────────── eth0 outside
     192.0.2.1    for bridge mode: as if on one link       192.0.2.2
     10.0.0.10    10.0.0.1           203.0.113.1           203.0.113.2
                                eth2
                                 │  198.51.100.1, 10.0.100.1
                   ┌─────────────┼──────────────┬──────────────┐
                 client         web1           web2           web3
                 10.0.100.21    198.51.100.21  198.51.100.22  198.51.100.23

END
}

pair() { # host, interface, host, interface
    ip link add "$2" netns $prefix"$1" type veth peer name "$4" netns $prefix"$3"
    in_ip "$1" link set "$2" up
    in_ip "$3" link set "$4" up
}

address() { # host, interface, addresses
    local address
    for address in "${@:3}"; do
        case $address in
            *:*) in_ip "$1" addr add "$address" dev "$2" nodad ;;
            *) in_ip "$1" addr add "$address" dev "$2" ;;
        esac
    done
}

route() { # host, destination, by IPv4, by IPv6
    in_ip "$1" route add "$2" via "$3"
    in_ip "$1" -6 route add "$2" via "$4"
}

in_ip() { ip -n $prefix"$1" "${@:2}"; }
set_in() { # namespace, setting, value
    ip netns exec $prefix"$1" sh -c "! [ -e /proc/sys/net/$2 ] || echo $3 >/proc/sys/net/$2"
}

# --- enter -----------------------------------------------------------------------------------

lab_enter() {
    local name=${1:-} known=" ${all[*]} "
    [[ -n $name && $known == *" $name "* ]] || fail "enter which of them? ${all[*]}"
    is_up || fail "the lab is not up: ./x lab up"
    shift
    # What `./x demo` built, for sudo leaves ~/.cargo/bin of the user behind.
    [ ! -x "$build/release/paceline" ] || PATH=$(cd "$build/release" && pwd):$PATH
    [ $# != 0 ] || { say "a shell in $name; exit leaves it" && set -- "${SHELL:-bash}"; }
    [ "$1" != paceline ] || command -v paceline >/dev/null ||
        fail "paceline is not built yet: cargo build --release -p paceline, or ./x demo"
    exec ip netns exec $prefix"$name" "$@"
}

# --- serve -----------------------------------------------------------------------------------

lab_serve() {
    local seconds=${1:-600} name
    [[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "'$seconds' is not a number of seconds"
    is_up || fail "the lab is not up: ./x lab up"
    end_servers
    for name in outside web1 web2 web3; do
        mkdir -p $state/$name
        echo "this is $name" >$state/$name/index.html
        server $name "$([ $name = outside ] && echo 80 || echo 8080)" "$seconds"
    done
    truncate -s 1M $state/outside/1MB
    truncate -s 100M $state/outside/100MB
    # The next client gets an answer.
    for name in outside web1 web2 web3; do await $name; done
    say "for $seconds s there are web servers: outside, port 80, with the files 1MB and 100MB; web1, web2 and web3, port 8080"
}

server() { # host, port, seconds
    local program
    if command -v python3 >/dev/null; then
        program=(python3 -m http.server "$2" --bind :: --directory "$state/$1")
    elif command -v perl >/dev/null; then
        program=(perl lab/serve.pl "$2" "$state/$1")
    else
        fail "a server takes python3 or perl: apt-get install python3"
    fi
    # `ip` becomes the program itself. Nothing waits for it, and it ends in time even if nobody takes the lab down.
    ip netns exec $prefix"$1" timeout "$3" "${program[@]}" </dev/null >$state/"$1".log 2>&1 &
    echo $! >$state/"$1".pid
}

await() { # host
    local port
    port=$([ "$1" = outside ] && echo 80 || echo 8080)
    for _ in $(seq 100); do
        ! ip netns exec $prefix"$1" bash -c "exec 3<>/dev/tcp/127.0.0.1/$port" 2>/dev/null || return 0
        sleep 0.1
    done
    cat $state/"$1".log >&2
    fail "the server in $1 did not start, see above"
}

end_servers() {
    local file pid name
    for file in "$state"/*.pid; do
        [ -e "$file" ] || continue
        pid=$(cat "$file") name=$(basename "$file" .pid)
        # Its number may be another process's by now: only one in the namespace is ours.
        if ip netns pids $prefix"$name" 2>/dev/null | grep -qx "$pid"; then kill "$pid" || true; fi
        rm -f "$file"
    done
}

# --- status and down -------------------------------------------------------------------------

is_up() {
    local name
    [ -e $state/up ] || return 1
    for name in "${all[@]}"; do [ -e /run/netns/$prefix"$name" ] || return 1; done
}

lab_status() {
    local name pids
    is_up || fail "the lab is not up: ./x lab up"
    picture
    for name in "${hosts[@]}"; do
        pids=$(ip netns pids $prefix"$name" | tr '\n' ' ')
        printf '%s:%s\n' "$name" "${pids:+ runs $(names_of "$pids")}"
        in_ip "$name" -brief address show | grep -v '^lo ' | sed 's/@[^ ]*//; s/^/  /'
    done
}

names_of() { # process numbers
    local pid
    for pid in $1; do echo -n "$(cat "/proc/$pid/comm" 2>/dev/null || echo gone) ($pid) "; done
}

lab_down() {
    local name pids
    [ -n "$(compgen -G "/run/netns/$prefix*")" ] || { say "there is no lab"; return; }
    end_servers
    for name in "${all[@]}"; do
        [ -e /run/netns/$prefix"$name" ] || continue
        pids=$(ip netns pids $prefix"$name" | tr '\n' ' ')
        [ -z "$pids" ] || say "in $name there still runs $(names_of "$pids")- it keeps its namespace until it ends"
    done
    remove_namespaces
    say "the lab is removed"
}

remove_namespaces() {
    local name
    for name in "${all[@]}"; do
        [ ! -e /run/netns/$prefix"$name" ] || ip netns del $prefix"$name"
    done
    rm -rf $state
}

say() { echo "lab: $*"; }
fail() { echo "lab: $*" >&2 && exit 1; }

main "$@"
