#!/usr/bin/env bash
# shellcheck disable=SC2034
# What the measurements of live forwarders have in common: sourced, with `paceline`, `examples` and `folder` set. It makes
# three network namespaces, and chains; they are gone when the shell ends.
#
#   source ── l0 ═ m0 ── forwarder ── m1 ═ r0 ── counted here

[ "$(id -u)" = 0 ] || fail "network namespaces need root"
[ "$(nproc)" -ge 2 ] || fail "the source takes one processor and the forwarder another: this machine has one"
mkdir -p "$folder"
folder=$(realpath "$folder")
left=paceline-bench-$$-l middle=paceline-bench-$$-m right=paceline-bench-$$-r
running=
end() {
    [ -z "$running" ] || kill "$running" 2>/dev/null || true
    for namespace in "$left" "$middle" "$right"; do ip netns del "$namespace" 2>/dev/null || true; done
}
trap end EXIT

for namespace in "$left" "$middle" "$right"; do ip netns add "$namespace"; done
ip link add l0 netns "$left" type veth peer name m0 netns "$middle"
ip link add m1 netns "$middle" type veth peer name r0 netns "$right"
# The source sends to this Ethernet address; nothing else is to be heard on the links.
ip -n "$middle" link set m0 address 02:00:00:00:00:99
for end in "$left/l0" "$middle/m0" "$middle/m1" "$right/r0"; do
    ip netns exec "${end%/*}" sysctl -qw "net.ipv6.conf.${end#*/}.disable_ipv6=1"
    ip -n "${end%/*}" link set "${end#*/}" up
done
ip -n "$left" addr add 198.51.100.1/24 dev l0
ip -n "$middle" addr add 198.51.100.254/24 dev m0
ip -n "$middle" addr add 203.0.113.254/24 dev m1
ip -n "$right" addr add 203.0.113.1/24 dev r0
# A neighbour with an Ethernet address that nobody has: what arrives is counted, and costs its receiver nothing more.
ip -n "$middle" neigh add 203.0.113.1 dev m1 lladdr 02:00:00:00:00:98
# The kernel forwards on the processor where the others do, and not on the source's; a frame of another
# namespace's program is taken by veth only with GRO on or a program there.
ip netns exec "$middle" ethtool -K m0 gro on >/dev/null
ip netns exec "$middle" sh -c 'echo 1 >/sys/class/net/m0/queues/rx-0/rps_cpus'

# Starts a forwarder on processor 0, and waits until it runs.
start() { # name, command
    local name=$1 tries=0
    shift
    ip netns exec "$middle" taskset -c 0 "$@" >"$folder/$name.log" 2>&1 &
    running=$!
    until ip -n "$middle" link show m0 | grep -q xdp; do
        tries=$((tries + 1))
        if [ $tries -gt 200 ] || ! kill -0 $running 2>/dev/null; then
            fail "$name does not run: $(cat "$folder/$name.log")"
        fi
        sleep 0.05
    done
    sleep 0.3
}

stop() {
    kill -TERM "$running" 2>/dev/null || true
    wait "$running" || true
    running=
}

# The kernel as the forwarder.
start_kernel() { # rules
    ip netns exec "$middle" sysctl -qw net.ipv4.ip_forward=1
    ip netns exec "$middle" nft flush ruleset
    ip netns exec "$middle" nft -f - <<<"$1"
}

stop_kernel() {
    ip netns exec "$middle" nft flush ruleset
    ip netns exec "$middle" sysctl -qw net.ipv4.ip_forward=0
}

cat >"$folder/none.toml" <<'TOML'
name = "none"
[[function]]
use = "synthetic"
accesses = 1
TOML
cat >"$folder/nat.toml" <<'TOML'
name = "nat"
[[function]]
use = "nat"
flows = 65536
inside = ["198.51.100.0/24"]
external = ["203.0.113.254"]
TOML
cat >"$folder/stats-lb.toml" <<'TOML'
name = "stats-lb"
[[function]]
use = "flow-statistics"
flows = 65536
[[function]]
use = "load-balancer"
flows = 65536
policy = "maglev"
[[function.services]]
vip = "0.0.0.0/0"
port = "any"
protocol = "udp"
backends = [{ address = "203.0.113.1" }, { address = "203.0.113.2" }, { address = "203.0.113.3" }]
TOML
cat >"$folder/track.toml" <<'TOML'
name = "track"
[[function]]
use = "conntrack"
flows = 65536
TOML
bridge=(--inside m0 --outside m1 --mode bridge --socket xdp --poll busy)
route=(--inside m0 --outside m1 --mode route --socket xdp --poll busy)
masquerade='table ip nat {
  chain post { type nat hook postrouting priority 100; oifname "m1" masquerade; }
}'
flowtable='table ip fast {
  flowtable f { hook ingress priority 0; devices = { m0, m1 }; }
  chain forward { type filter hook forward priority 0; ip protocol udp flow add @f; }
}'
if ip netns exec "$middle" nft -c -f - <<<"$flowtable" 2>/dev/null; then
    masquerade+=$'\n'$flowtable
    echo "kernel-nat: masquerade with a flowtable"
else
    echo "kernel-nat: masquerade without a flowtable, which this kernel has not"
fi
tracked='table ip filter {
  chain forward { type filter hook forward priority 0; ct state invalid drop; ct state new,established accept; }
}'

