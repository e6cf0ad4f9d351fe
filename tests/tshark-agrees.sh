#!/usr/bin/env bash
# Holds `paceline inspect` against tshark: both count the packets, bytes, flows and protocols of the
# captures, and must agree on every number. usage:
#   tests/tshark-agrees.sh [CAPTURE...]     the recorded capture, also without Ethernet: as raw IP, BSD loopback and Linux
#                                           cooked captures; and the large one where it is there
#   PACELINE=path tests/tshark-agrees.sh    with this program instead of a release build
#
# Exit status: 0 they agree, or there was nothing to compare; 1 they disagree; 2 it could not be done.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

main() {
    command -v tshark >/dev/null || { echo "skipped: tshark is not here (apt-get install tshark)"; exit 0; }
    [ -n "${PACELINE:-}" ] || build
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    if [ $# = 0 ]; then
        reframe_all "$root/captures/edge.pcap"
        set -- "$root/captures/edge.pcap" "$work"/link-*.pcap "$root/../shared/captures/apps-mix.pcap.gz"
    fi
    local capture agree=0
    for capture; do
        if [ -f "$capture" ]; then compare "$capture" || agree=1; else echo "skipped: $capture is not here"; fi
    done
    exit $agree
}

build() {
    (cd "$root" && cargo build --quiet --release -p paceline) || fail "the build failed"
    local target=${CARGO_TARGET_DIR:-target}
    PACELINE=$(cd "$root" && realpath "$target")/release/paceline
}

# Writes the packets with other link headers, to a file for each number of a link type.
reframe_all() { # capture
    local link
    for link in 0 101 108 113 276; do
        reframe "$1" "$link" >"$work/link-$link.pcap" || fail "$1 cannot be written with link type $link"
    done
}

# A little-endian pcap of Ethernet frames, written with another link type. What that cannot carry is left out.
reframe() { # capture link
    od -An -v -tx1 -w1 "$1" | awk -v link="$2" '
        BEGIN { for (i = 0; i < 256; i++) value[sprintf("%02x", i)] = i }
        { byte[NR - 1] = $1 }
        function number(at) {
            return value[byte[at]] + 256 * (value[byte[at + 1]] + 256 * (value[byte[at + 2]] + 256 * value[byte[at + 3]]))
        }
        function little(n) { return sprintf("%02x%02x%02x%02x", n % 256, n / 256 % 256, n / 65536 % 256, n / 16777216) }
        function bytes(from, to,    text) { for (text = ""; from < to; from++) text = text byte[from]; return text }
        # What stands before a packet of an EtherType.
        function header(type) {
            if (link == 113) return "0000000100060200000000010000" type
            if (link == 276) return type "0000000000010001000602000000000100" "00"
            if (type != "0800" && type != "86dd") return "none"
            if (link == 101) return ""
            if (link == 108) return type == "0800" ? "00000002" : "00000018"
            return type == "0800" ? "02000000" : "1e000000"
        }
        END {
            print bytes(0, 20) little(link)
            for (at = 24; at < NR; at += 16 + captured) {
                captured = number(at + 8)
                if (captured < 14) continue
                before = header(byte[at + 28] byte[at + 29])
                if (before == "none") continue
                longer = length(before) / 2 - 14
                print bytes(at, at + 8) little(captured + longer) little(number(at + 12) + longer) before
                print bytes(at + 30, at + 16 + captured)
            }
        }' | xxd -r -p
}

compare() { # capture
    "$PACELINE" inspect --pcap "$1" --json "$work/inspect.json" >/dev/null || fail "paceline inspect $1 failed"
    dissect "$1" >"$work/packets"
    count_packets <"$work/packets" >"$work/tshark"
    realpath "$1"
    printf ' %-16s %12s %12s\n' "" paceline tshark
    local what key theirs ours verdict agree=0
    while read -r what key theirs; do
        ours=$(field "$key")
        verdict=agree
        [ "$ours" = "$theirs" ] || { verdict=DISAGREE; agree=1; }
        printf ' %-16s %12s %12s  %s\n' "$what" "${ours:-none}" "$theirs" "$verdict"
    done <"$work/tshark"
    return $agree
}

# A number of the report: "packets", or in an object "flows.five_tuple". Each stands on its own line.
field() { # key
    local object=${1%.*} name=${1##*.}
    if [ "$object" = "$name" ]; then
        sed -n "s/^  \"$name\": \([0-9]*\),*$/\1/p" "$work/inspect.json"
    else
        sed -n "/^  \"$object\": {/,/^  }/s/^    \"$name\": \([0-9]*\),*$/\1/p" "$work/inspect.json"
    fi
}

# What tshark is asked for; of fields that occur again in an inner packet (tunnels, ICMP errors), the
# first, which is the outer one.
asked=(frame.len frame.cap_len frame.protocols frame.encap_type
    ip.src ip.dst ip.proto ip.hdr_len ip.len ip.frag_offset ip.flags.mf
    ipv6.src ipv6.dst ipv6.nxt ipv6.plen ipv6.fraghdr.offset ipv6.fraghdr.more
    ipv6.hopopts.nxt ipv6.routing.nxt ipv6.fraghdr.nxt ipv6.dstopts.nxt ah.next_header
    tcp.srcport tcp.dstport tcp.hdr_len udp.srcport udp.dstport udp.length
    sctp.srcport sctp.dstport dccp.srcport dccp.dstport icmp.type icmp.ident icmpv6.type)

# One line a packet. Nothing is put together from fragments or segments, as Paceline does not.
dissect() { # capture
    local field columns=()
    for field in "${asked[@]}"; do columns+=(-e "$field"); done
    WIRESHARK_CONFIG_DIR="$work/no-profile" tshark -n -r "$1" \
        -o ip.defragment:FALSE -o ipv6.defragment:FALSE -o tcp.desegment_tcp_streams:FALSE \
        -T fields -E separator=/t -E occurrence=f "${columns[@]}" \
        2>"$work/complaints" || { cat "$work/complaints" >&2; fail "tshark could not read $1"; }
}

# tshark's packets, counted: lines of "what, key of the report, number".
count_packets() {
    awk -F'\t' "$(names) $(cat <<'AWK'
    { count["packets"]++; count["bytes"] += $frame_len; outer_headers(); next }

    # By Wireshark's number of the link type: raw IP, BSD loopback, Linux cooked of version 1 and 2.
    BEGIN { link_bytes[7] = link_bytes[129] = link_bytes[130] = 0; link_bytes[15] = link_bytes[174] = 4; link_bytes[25] = 16; link_bytes[210] = 20 }

    # frame.protocols is the chain of dissectors. What counts is its head: tshark goes on into tunnels and
    # into the packets that ICMP errors quote, where Paceline stops.
    function outer_headers(    parts, n, i, tags, offset) {
        n = split($frame_protocols, parts, ":")
        for (i = 1; i <= n && parts[i] ~ /^(eth|sll|null|raw|ethertype|vlan|ieee8021ad)$/; i++) {
            # An Ethernet header inside another is a tunnel (Cisco FabricPath): not IP, to Paceline.
            if (i > 1 && parts[i] == "eth") { count["not_ip"]++; return }
            if (parts[i] ~ /^(vlan|ieee8021ad)$/) tags++
        }
        if (tags > 0) count["vlan"]++
        if (tags > 1) count["qinq"]++
        offset = ($frame_encap_type in link_bytes ? link_bytes[$frame_encap_type] : 14) + 4 * tags
        # A frame shorter than its link header has no dissector after Ethernet.
        if ($frame_cap_len < offset) count["malformed"]++
        else if (parts[i] == "ip") ipv4(parts[i + 1], $frame_len - offset)
        else if (parts[i] == "ipv6") ipv6(parts, i + 1, $frame_len - offset)
        else count["not_ip"]++
    }

    function ipv4(transport, on_wire,    fragment_offset, len) {
        # tshark shows no addresses where the version or the header length cannot be; it shows the rest
        # of a packet whose length goes past the frame or, put together, past 65,535: malformed here.
        len = $ip_len == 0 ? on_wire : $ip_len
        fragment_offset = $ip_frag_offset * 8
        if ($ip_src == "" || len > on_wire || len < $ip_hdr_len ||
            fragment_offset > 0 && fragment_offset + len > 65535) { count["malformed"]++; return }
        packet("ipv4", $ip_src, $ip_dst, $ip_proto, transport, len - $ip_hdr_len, fragment_offset, $ip_flags_mf)
    }

    function ipv6(parts, i, on_wire,    protocol, len, fragment_offset) {
        if ($ipv6_src == "" || $ipv6_plen + 40 > on_wire) { count["malformed"]++; return }
        len = $ipv6_plen == 0 ? on_wire - 40 : $ipv6_plen
        protocol = $ipv6_nxt
        for (; parts[i] in next_header; i++) protocol = $next_header[parts[i]]
        # The length is that with extension headers: an upper bound is enough for what is judged by it.
        fragment_offset = $ipv6_fraghdr_offset * 8
        packet("ipv6", $ipv6_src, $ipv6_dst, protocol, parts[i], len, fragment_offset, $ipv6_fraghdr_more)
    }

    function packet(network, src, dst, protocol, transport, len, fragment_offset, more,    ports) {
        ports = "0 0"
        if (fragment_offset > 0) transport = "later fragment"
        else if (protocol == 6) { transport = "tcp"; ports = $tcp_srcport " " $tcp_dstport }
        else if (protocol == 17) { transport = "udp"; ports = $udp_srcport " " $udp_dstport }
        else if (protocol == 132) ports = $sctp_srcport " " $sctp_dstport
        else if (protocol == 33) ports = $dccp_srcport " " $dccp_dstport
        else if (protocol == 1 && network == "ipv4") ports = icmp_ports()
        else if (protocol == 58 && network == "ipv6" && $icmpv6_type ~ /^[1-4]$/) ports = quoted_ports("0 0")
        if (is_malformed(transport, len, more)) { count["malformed"]++; return }
        count[network]++
        count[transport ~ /^(tcp|udp|icmp|icmpv6|later fragment)$/ ? transport : "other"]++
        if (fragment_offset > 0 || more == 1) count["fragments"]++
        pairs[src, dst]
        flows[src, dst, ports, protocol]
    }

    # Identifiers of queries, and what errors quote (RFC 5508, RFC 4443): tshark has no ports of its own for these packets.
    function icmp_ports() {
        if ($icmp_type ~ /^(8|13)$/) return ($icmp_ident + 0) " 0"
        if ($icmp_type ~ /^(0|14)$/) return "0 " ($icmp_ident + 0)
        if ($icmp_type !~ /^(3|4|11|12)$/) return "0 0"
        return quoted_ports("0 " ($icmp_ident + 0))
    }

    # Of the packet that an error quotes, the other way round.
    function quoted_ports(others) {
        if ($tcp_srcport != "") return $tcp_dstport " " $tcp_srcport
        if ($udp_srcport != "") return $udp_dstport " " $udp_srcport
        return others
    }

    # Lengths that tshark remarks on and goes past.
    function is_malformed(transport, len, more) {
        if (transport == "tcp") return $tcp_hdr_len < 20 || $tcp_hdr_len > len
        # Of a first fragment, UDP's length is that of the whole datagram.
        if (transport == "udp") return $udp_length < 8 || $udp_length > len && more != 1
        return transport ~ /^icmp/ && len < 8
    }

    END {
        for (flow in flows) count["flows"]++
        for (pair in pairs) count["pairs"]++
        row("packets", "packets"); row("bytes", "bytes")
        row("5-tuples", "flows.five_tuple", "flows"); row("address-pairs", "flows.address_pair", "pairs")
        row("IPv4", "protocols.ipv4", "ipv4"); row("IPv6", "protocols.ipv6", "ipv6")
        row("not-IP", "protocols.not_ip", "not_ip"); row("malformed", "protocols.malformed", "malformed")
        row("TCP", "protocols.tcp", "tcp"); row("UDP", "protocols.udp", "udp")
        row("ICMP", "protocols.icmp", "icmp"); row("ICMPv6", "protocols.icmpv6", "icmpv6")
        row("other-transport", "protocols.other", "other")
        row("fragments", "protocols.fragments", "fragments")
        row("later-fragments", "protocols.later_fragments", "later fragment")
        row("VLAN", "protocols.vlan", "vlan"); row("QinQ", "protocols.qinq", "qinq")
    }
    function row(what, key, counted) { print what, key, count[counted == "" ? key : counted] + 0 }
AWK
)"
}

# Names for awk's columns: frame.len is $frame_len. And where each IPv6 extension says what follows it.
names() {
    local number=0 field
    echo 'BEGIN {'
    for field in "${asked[@]}"; do echo "${field//./_} = $((++number))"; done
    for field in ipv6.hopopts ipv6.routing ipv6.fraghdr ipv6.dstopts; do
        echo "next_header[\"$field\"] = ${field//./_}_nxt"
    done
    echo 'next_header["ah"] = ah_next_header }'
}

fail() {
    echo "tests/tshark-agrees.sh: $*" >&2
    exit 2
}

main "$@"
