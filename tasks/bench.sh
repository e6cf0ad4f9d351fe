# shellcheck shell=bash
# ./x bench and ./x figures: what is measured, and the tables of the pages that are made from it.

# --- bench -------------------------------------------------------------------------------------

x_bench() {
    local capture
    set_up
    case ${1:-} in
        '') ;;
        peers) bench_peers "${@:2}"; return ;;
        live) bench_live compare "${@:2}"; return ;;
        latency) bench_live latency "${@:2}"; return ;;
        pauses) bench_live pauses "${@:2}"; return ;;
        instructions) count_instructions "${2:-*}"; return ;;
        tests) bench_tests; return ;;
        *) fail "no bench '$1'; there are: bench, and bench with peers, live, latency, pauses, instructions, tests" ;;
    esac
    shown cargo build --release -p paceline "${locked[@]}"
    mkdir -p "$build/bench"
    for capture in captures/edge.pcap ../shared/captures/apps-mix.pcap.gz; do
        if [ -f "$capture" ]; then measure "$capture"; else say "not measured: $capture is not here"; fi
    done
}

# The two strategies take turns, so that a change in the machine's load meets both.
measure() { # capture
    local strategy cores && rm -f "$build"/bench/*.mpps
    for _ in 1 2 3 4 5; do
        for strategy in single rss; do
            cores=$([ $strategy = single ] && echo 1 || echo 2)
            "$build/release/paceline" run examples/edge.toml --pcap "$1" --strategy $strategy \
                --cores "$cores" --json - >"$build/bench/report.json" || fail "the run over $1 failed, see above"
            sed -n 's/.*"mpps": *\([0-9.eE+-]*\).*/\1/p' "$build/bench/report.json" | sed 1q \
                >>"$build/bench/$strategy.mpps"
        done
    done
    say "measured: examples/edge.toml over $1, 5 runs each, taking turns; the last took" \
        "$(sed -n 's/.*"seconds": *\([0-9.eE+-]*\).*/\1/p' "$build/bench/report.json" | sed 1q) s" \
        "(below 0.1, start-up counts)"
    for strategy in single rss; do
        sort -g "$build/bench/$strategy.mpps" | awk -v name=$strategy '{ v[NR] = $1 }
            END { printf "  %-7s median %.3f Mpps, %.3f to %.3f\n", name, v[3], v[1], v[NR] }'
    done
    say "on $(machine)"
}

bench_live() { # compare|latency|pauses [rounds [seconds [flows]]]
    have nft || install_packages "nftables: the kernel's NAT and tracker are the peers" nftables
    have python3 || install_packages "python3: reads the reports" python3
    have ethtool || install_packages "ethtool: lets the kernel take frames of another namespace" ethtool
    shown cargo build --release -p paceline "${locked[@]}"
    # In a folder of their own: with their features the program would be built anew, and once more by the next command.
    shown cargo build --release -p paceline-live --example 'xdp_*' --target-dir "$build/bench/examples" "${locked[@]}"
    "bench/live/$1.sh" "$build/release/paceline" "$build/bench/examples/release/examples" "$build/bench/live" "${@:2}"
    say "on $(machine)"
}

bench_tests() {
    shown cargo test --release -p paceline-live -p paceline-measure --lib "${locked[@]}" -- \
        --ignored --nocapture forward_cost virtual_rates || fail "a measurement failed, see above"
    shown cargo test --release -p paceline-conformance --test all "${locked[@]}" -- \
        --ignored --nocapture list_costs || fail "a measurement failed, see above"
    say "on $(machine)"
}

# bench/peers/README.md says what is compared.
bench_peers() { # [rounds [sizes]]
    local packages=() flags
    have pkg-config || packages+=(pkg-config)
    pkg-config --exists libdpdk 2>/dev/null || packages+=(libdpdk-dev)
    [ ${#packages[@]} = 0 ] || install_packages "DPDK's rte_hash is the peer; pkg-config finds it" "${packages[@]}"
    shown cargo build --release -p paceline "${locked[@]}"
    mkdir -p "$build/bench"
    # For this processor: the package's own flags are for one of 2008, and the last one counts.
    read -ra flags <<<"$(pkg-config --cflags --libs-only-L libdpdk) -lrte_hash -lrte_eal -march=native"
    shown cc -std=gnu17 -O3 -Wall -Wextra -Werror bench/peers/rte_hash.c -o "$build/bench/rte_hash" "${flags[@]}" ||
        fail "bench/peers/rte_hash.c could not be built, see above; it is written for DPDK 22.11, this is
    $(pkg-config --modversion libdpdk)"
    bench/peers/compare.sh "$build/bench/rte_hash" "$build/release/paceline" "$build/bench" "$@"
    say "on $(machine)"
}

# In a shell of its own, which a failure ends.
hot_counts() { (count_instructions check); }

# Gungraun's output, as a table of instructions and of its estimate of cycles, per packet.
count_instructions() { # which benchmarks, or "check", or "record"
    local version which=$1 counts="$build/instructions.txt"
    case $which in check | record) which='*' ;; esac
    # The runner has to be of the version that the benchmarks are built with.
    version=$(sed -n '/^name = "gungraun"$/{n;s/^version = "\(.*\)"/\1/p}' Cargo.lock)
    have valgrind || install_packages "valgrind: counts the instructions" valgrind
    crate_program gungraun-runner "$version" gungraun-runner
    mkdir -p "$build"
    shown cargo bench -p paceline-bench --bench instructions "${locked[@]}" -- "$which" >"$build/x-bench.log" ||
        { cat "$build/x-bench.log" && fail "the benchmarks failed, see above"; }
    awk '/^instructions::/ { sub(/^instructions::/, ""); sub(/:\(.*/, ""); name = $0 }
        $1 == "Instructions:" { sub(/\|.*/, "", $2); count = $2 }
        $1 == "Estimated" { sub(/\|.*/, "", $3); printf "%s\t%.1f\t%.1f\n", name, count / 128, $3 / 128; n++ }
        END { exit !n }' "$build/x-bench.log" >"$counts" || fail "no benchmark matches '$which'; try '*parse*'"
    if [ "$1" = record ]; then
        cut -f 1,2 "$counts" >bench/instructions.txt
        say "bench/instructions.txt has the counts of $(wc -l <bench/instructions.txt) benchmarks"
        return
    fi
    # Beside those on record: a count that is 3% higher, and by an instruction at least, is too high.
    awk -F '\t' 'FNR == NR { before[$1] = $2; next }
        FNR == 1 { printf "  %-56s %12s %12s %12s\n", "per packet", "instructions", "on record", "cycles, est." }
        { is_higher = $1 in before && $2 > before[$1] * 1.03 && $2 > before[$1] + 1; higher += is_higher
          printf "  %-56s %12s %12s %12s%s\n", $1, $2, before[$1], $3, is_higher ? "  higher" : "" }
        END { exit higher > 0 }' bench/instructions.txt "$counts" || {
        [ "$1" != check ] || fail "hot counts rose by more than 3%; if it has to be: ./x bench instructions record"
    }
    say "$(rustc --version) for $(uname -m); load and clock do not matter"
}

# --- figures -----------------------------------------------------------------------------------

# Each table of the pages that is made from what the program reports has a script in bench/figures/.
x_figures() { # [page [table]]
    local page=${1:-scr}
    set_up
    [ -f "bench/figures/$page.py" ] || fail "no figures of '$page'; there are: $(basename -s .py bench/figures/*.py)"
    have python3 || install_packages "python3: makes tables of reports" python3
    shown cargo build --release -p paceline "${locked[@]}"
    shown "bench/figures/$page.py" "$build/release/paceline" "$build/figures" "${@:2}"
    say "on $(machine)"
}
