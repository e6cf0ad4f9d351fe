# shellcheck shell=bash
# ./x demo, soak, mice, linux-differential, scr-xdp and p4: whole runs, most of them in network namespaces of their own.

# --- demo --------------------------------------------------------------------------------------

x_demo() {
    set_up
    shown cargo build --release -p paceline "${locked[@]}"
    mkdir -p "$build/demo"
    shown "$build/release/paceline" run examples/edge.toml --pcap captures/edge.pcap \
        --strategy rss --cores 2 --out "$build/demo/edge-out.pcap"
    shown "$build/release/paceline" verify examples/edge.toml --pcap captures/edge.pcap \
        --strategy rss --cores 2
    # Where they cannot be installed it is not shown, and that is no failure.
    [ "$(id -u)" != 0 ] || (programs "the demo is shown live, too" "${namespaces[@]}") || true
    lab/live-demo.sh
}

# --- soak --------------------------------------------------------------------------------------

# The gateway and all traffic are in network namespaces of the test's own.
x_soak() { # [seconds]
    local seconds=${1:-3600} name=soak::a_gateway_stays_as_it_is
    [[ $seconds =~ ^[0-9]+$ && $seconds -ge 6 ]] || fail "'$seconds' is not a number of seconds from 6 on"
    [ "$(id -u)" = 0 ] || fail "network namespaces need root: sudo ./x soak"
    set_up
    programs "the soak's hosts and gateway" "${namespaces[@]}"
    shown env PACELINE_SOAK_SECONDS="$seconds" cargo test -p paceline --test program "${locked[@]}" -- --exact --nocapture $name 2>&1 |
        tee "$build/x-soak.log" || fail "the soak FAILED, see above"
    ! grep -q '^skipped: ' "$build/x-soak.log" || fail "the soak was not done, see above"
    say "soaked for $seconds s: memory flat, no frame lost, counters add up"
}

# --- mice --------------------------------------------------------------------------------------

# Gateway and hosts are in network namespaces of the test's own.
x_mice() {
    [ "$(id -u)" = 0 ] || fail "network namespaces need root: sudo ./x mice"
    set_up
    programs "mice and their elephant" "${namespaces[@]}" iperf3:iperf3 curl:curl nft:nftables
    shown cargo test -p paceline --test program "${locked[@]}" -- --exact --nocapture mice::an_elephant_beside_a_thousand_mice 2>&1 |
        tee "$build/x-mice.log" || fail "it FAILED, see above"
    ! grep -q '^skipped: ' "$build/x-mice.log" || fail "it was not done, see above"
    say "nothing lost, and TCP sent no more again than through the kernel, by 2% at most"
}

# --- beside Linux ------------------------------------------------------------------------------

# The kernel forwards in a network namespace of the test's own, between two tun devices.
x_linux_differential() { # [packets [seed]]
    local packets=${1:-10000000} seed=${2:-1} number
    for number in "$packets" "$seed"; do
        [[ $number =~ ^[0-9]{1,12}$ ]] || fail "'$number' is no number; usage: ./x linux-differential [PACKETS] [SEED]"
    done
    [ "$(id -u)" = 0 ] || fail "network namespaces need root: sudo ./x linux-differential"
    set_up
    programs "the kernel's rules" "${namespaces[@]}" nft:nftables
    shown env PACELINE_LINUX_PACKETS="$packets" PACELINE_LINUX_SEED="$seed" \
        cargo test -p paceline --test program "${locked[@]}" -- --exact --nocapture linux::packets_fare_alike 2>&1 |
        tee "$build/x-linux.log" || fail "they differ, see above: docs/linux.md says what is known to"
    ! grep -q '^skipped: ' "$build/x-linux.log" || fail "it was not done, see above"
    say "no difference among $packets packets that docs/linux.md does not explain"
}

# --- scr in the kernel -------------------------------------------------------------------------

# Both ends and what is between them are in network namespaces of its own.
x_scr_xdp() { # demo [packets [queue]], or figures
    local what=${1:-}
    [ "$what" = demo ] || [ "$*" = figures ] || fail "usage: ./x scr-xdp demo [PACKETS [QUEUE]], or ./x scr-xdp figures"
    shift
    [ "$(id -u)" = 0 ] || fail "network namespaces and BPF programs need root: sudo ./x scr-xdp $what"
    set_up
    if [ "$what" = figures ]; then
        machine
        shown cargo run -q -p paceline-xdp --example xdp_cost "${locked[@]}"
        shown cargo run -q -p paceline-xdp --example xdp_rates "${locked[@]}"
        return
    fi
    programs "the demo's namespaces" "${namespaces[@]}"
    shown cargo run -q -p paceline-xdp --example scr_demo "${locked[@]}" -- examples/p4/port_knocking.p4 "$@" ||
        fail "it does not equal the reference, or could not run: see above"
}

# Programs with a test file beside them. Without root the kernel is left out, and the table says so.
x_p4() { # matrix [option...]
    local tests=(examples/p4/*.stf examples/p4/scr/*.stf)
    [ "${1:-}" = matrix ] || fail "usage: ./x p4 matrix [OPTION...]; paceline p4 matrix --help lists the options"
    shift
    set_up
    echo "$(machine); commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    shown cargo run -q -p paceline "${locked[@]}" -- p4 matrix "${tests[@]/%.stf/.p4}" "$@"
}
