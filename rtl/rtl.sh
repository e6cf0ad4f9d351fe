#!/usr/bin/env bash
# What ./x rtl does once the tools are there; run it by that. usage:
#   rtl/rtl.sh lint                  the modules as Verilator reads them, with all its warnings; seconds. Those of rtl/rapid with the
#                                    program rtl/tests/rapid_program.sv, which `paceline p4 rtl` wrote
#   rtl/rtl.sh demo PACELINE OUT     captures/edge.pcap through the sequencer in hardware, and then `paceline verify`; and port knocking in
#                                    hardware beside the model, cycle by cycle
#   rtl/rtl.sh test PACELINE OUT     the sequencer beside `paceline sequence`, byte by byte, RAPID's pipeline beside its model, and both with
#                                    planted faults; minutes
#   rtl/rtl.sh area PACELINE OUT [DESIGN...]
#                                    look-up tables, flip-flops, block RAMs and clock on an ECP5, for rings of 16, 32, 64 and 128 rows, the
#                                    sequencer with 16, and parts of RAPID's pipeline; rtl/area/measure.py says what a DESIGN is. Yosys, and
#                                    then nextpnr, have AREA_SECONDS of processor time for each (900 if not set); hours
#   rtl/rtl.sh formal OUT [short]    proofs of rtl/formal with yosys-abc, and where z3 is there with yosys-smtbmc too, and their planted faults;
#                                    minutes
# PACELINE is the program, OUT a folder for what is built and written.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

main() {
    local command=${1:-}
    case $command in
        lint | demo | area | formal) "$command" "${@:2}" ;;
        test) whole "${@:2}" ;;
        *) fail "no command '$command'; the head of rtl/rtl.sh lists them" ;;
    esac
}

lint() {
    local width cores rows
    for width in 64 128; do
        for cores in 1 2 64; do
            for rows in 0 1; do
                verilator --lint-only -Wall rtl/lint.vlt -f rtl/sequencer/files.f --top-module sequencer -GWIDTH=$width -GCORES=$cores \
                    -GHAS_ETHERNET=$((cores & 1)) -GROWS_IN_RAM=$rows || return
            done
        done
    done
    for width in 64 128; do
        verilator --lint-only -Wall rtl/lint.vlt rtl/sequencer/statistics.sv --top-module statistics -GWIDTH=$width || return
    done
    verilator --lint-only -Wall rtl/lint.vlt "${unrolled[@]}" rtl/tests/rapid_program.sv -f rtl/rapid/files.f --top-module rapid
}
# Verilator leaves loops of more turns as they are, which makes its C++ shorter.
unrolled=(--unroll-count 8)

demo() { # paceline out
    paceline=$1 out=$2
    build knock examples/knock.toml 4 512 "" -DCOUNTED || fail "the hardware could not be built"
    through knock captures/edge.pcap --gaps 20 --stalls 20
    echo "+ $paceline verify examples/knock.toml --strategy scr --sequencer external --pcap-dir $out/knock.out"
    "$paceline" verify examples/knock.toml --strategy scr --sequencer external --pcap-dir "$out/knock.out"
    c++ -O1 -std=c++17 -Wall -Wextra -o "$out/knocks" rtl/tests/knocks.cpp
    "$out/knocks" "$out/knocks.pcap" 1 6000 300 60
    local knocking=(examples/p4/port_knocking.p4 --dtable 32)
    pipeline knocking "" "${knocking[@]}" || fail "the pipeline could not be built"
    held knocking captures/edge.pcap --check "${knocking[@]}" || fail "the pipeline is not the model"
    held knocking "$out/knocks.pcap" --check --pacing every-cycle "${knocking[@]}" || fail "the pipeline is not the model"
}

# Each line of hardware is held to the program over captures and over random frames, of which half have a defect somewhere; with
# gaps where frames come in, and stalls where packets go out.
whole() { # paceline out
    paceline=$1 out=$2
    local chain=rtl/tests/headers.toml capture random=() failed=0 seed
    mkdir -p "$out"
    c++ -O1 -std=c++17 -Wall -Wextra -o "$out/frames" rtl/tests/frames.cpp
    c++ -O1 -std=c++17 -Wall -Wextra -o "$out/knocks" rtl/tests/knocks.cpp
    "$out/knocks" "$out/knocks.pcap" 1 12000 300 60
    for seed in 1 2 3; do
        "$out/frames" "$out/random-$seed.pcap" $seed 20000
        random+=("$out/random-$seed.pcap")
    done

    build knock examples/knock.toml 8 512 "" -DCOUNTED || failed=1
    # Every frame fits into the buffer, the longest too.
    build headers $chain 5 1024 --ethernet -GBUFFER=2048 || failed=1
    # Frames hardly ever fit: they leave while they come in.
    build small $chain 1 512 "" -GBUFFER=16 -GFRAMES=2 || failed=1
    # Rows in memories; items of `headers` are longer than a beat, and lie in up to three words.
    build memory examples/knock.toml 8 512 "" -GBUFFER=2048 -GROWS_IN_RAM=1 || failed=1
    build wide $chain 5 512 --ethernet -GBUFFER=2048 -GROWS_IN_RAM=1 || failed=1
    build pair examples/knock.toml 2 1024 "" -GROWS_IN_RAM=2 || failed=1
    [ $failed = 0 ] || fail "the hardware could not be built, see above"

    equal knock examples/knock.toml 8 "" captures/edge.pcap || failed=1
    says knock " 0 cycles without a beat" || failed=1
    equal knock examples/knock.toml 8 "" captures/edge.pcap --gaps 50 --stalls 10 --seed 1 || failed=1
    says knock " 0 within a packet" || failed=1
    equal knock examples/knock.toml 8 "" captures/edge.pcap --gaps 5 --stalls 60 --seed 2 || failed=1
    says_equals knock examples/knock.toml || failed=1
    equal memory examples/knock.toml 8 "" captures/edge.pcap || failed=1
    says memory " 0 cycles without a beat" || failed=1
    # A packet is a beat there, mostly.
    equal pair examples/knock.toml 2 "" captures/edge.pcap || failed=1
    says pair " 0 cycles without a beat" || failed=1
    equal pair examples/knock.toml 2 "" captures/edge.pcap --gaps 5 --stalls 40 --seed 5 || failed=1
    # Short frames are in it; and longer ones than the buffer, whose bytes differ.
    through knock "${random[0]}" --gaps 5 --stalls 5 || failed=1
    for capture in captures/*.pcap; do
        equal headers $chain 5 --ethernet "$capture" --gaps 10 --stalls 10 || failed=1
        equal small $chain 1 "" "$capture" --gaps 30 --stalls 30 || failed=1
    done
    for capture in "${random[@]}"; do
        equal headers $chain 5 --ethernet "$capture" || failed=1
        equal headers $chain 5 --ethernet "$capture" --gaps 40 --stalls 5 --seed 3 || failed=1
        equal headers $chain 5 --ethernet "$capture" --gaps 5 --stalls 40 --seed 4 || failed=1
        equal memory examples/knock.toml 8 "" "$capture" --gaps 20 --stalls 20 --seed 5 || failed=1
        equal wide $chain 5 --ethernet "$capture" --gaps 5 --stalls 40 --seed 6 || failed=1
    done
    says_equals headers $chain || failed=1

    # Planted faults have to be found, by the bytes and by the verdict.
    build slot examples/knock.toml 8 512 "" -DFAULT_SLOT || failed=1
    if equal slot examples/knock.toml 8 "" captures/edge.pcap >/dev/null; then missed FAULT_SLOT "its bytes"; fi
    if says_equals slot examples/knock.toml; then missed FAULT_SLOT verify; fi
    build ports examples/knock.toml 8 512 "" -DFAULT_PORTS || failed=1
    if equal ports examples/knock.toml 8 "" captures/edge.pcap >/dev/null; then missed FAULT_PORTS "its bytes"; fi
    if says_equals ports examples/knock.toml; then missed FAULT_PORTS verify; fi
    build option $chain 5 1024 --ethernet -GBUFFER=2048 -DFAULT_OPTION || failed=1
    if equal option $chain 5 --ethernet "${random[0]}" >/dev/null; then missed FAULT_OPTION "its bytes"; fi
    build late examples/knock.toml 8 512 "" -GROWS_IN_RAM=1 -DFAULT_LATE || failed=1
    if equal late examples/knock.toml 8 "" captures/edge.pcap >/dev/null; then missed FAULT_LATE "its bytes"; fi
    build spill $chain 5 512 --ethernet -GBUFFER=2048 -GROWS_IN_RAM=1 -DFAULT_SPILL || failed=1
    if equal spill $chain 5 --ethernet "${random[0]}" >/dev/null; then missed FAULT_SPILL "its bytes"; fi
    build stalled examples/knock.toml 8 512 "" -DCOUNTED -DFAULT_STALLED || failed=1
    if through stalled captures/edge.pcap --stalls 20; then missed FAULT_STALLED "its registers"; fi
    programs || failed=1
    pipelines || failed=1
    [ $failed = 0 ] || fail "a check failed, see above"
    echo "all equal; planted faults were found"
}
missed() { # fault, by what
    echo "FAILED: the planted fault $1 is not seen in $2"
    failed=1
}

# The hardware for a chain, with the harness that drives it.
build() { # name chain cores bits flags-of-paceline arguments-of-verilator...
    local name=$1 chain=$2 cores=$3 bits=$4 flags=() counted=() ports=() flushes=(-GFLUSH_CYCLES=1000) log=$out/$1.log top
    [ -z "$5" ] || flags+=("$5")
    [[ "$chain" != *.p4 ]] || ports=(-CFLAGS -DPORTS) flushes=()
    mkdir -p "$out"
    "$paceline" rtl sequencer "$chain" --cores "$cores" --width "$bits" "${flags[@]}" --out "$out/$name.sv" || return
    top=$(sed -n 's/^module \([^ ]*\).*/\1/p' "$out/$name.sv" | tail -1)
    # With `statistics` beside it.
    if [[ " ${*:6} " = *" -DCOUNTED "* ]]; then top=counted counted=(-GCORES="$cores" rtl/tests/counted.sv -CFLAGS -DCOUNTED); fi
    echo "+ verilator: $out/$name.sv ${*:6}"
    verilator --cc --exe --build -j 0 -O3 --x-assign unique --x-initial unique rtl/lint.vlt -f rtl/sequencer/files.f "$out/$name.sv" \
        "${counted[@]}" --top-module "$top" --prefix Vsequencer --Mdir "$out/$name.build" \
        -CFLAGS "-O1 -std=c++17 -DCORES=$cores -DBYTES=$((bits / 8))" "${ports[@]}" "${flushes[@]}" "${@:6}" \
        "$PWD/rtl/tests/sequencer.cpp" >"$log" 2>&1 || { cat "$log"; return 1; }
}

# A capture through the hardware `name`, into the folder `name`.out.
through() { # name capture arguments-of-the-harness...
    rm -rf "$out/$1.out"
    echo "+ $1: $2 ${*:3}"
    "$out/$1.build/Vsequencer" "$2" "$out/$1.out" "${@:3}" | tee "$out/$1.said"
}

equal() { # name chain cores flags-of-paceline capture arguments-of-the-harness...
    local name=$1 chain=$2 cores=$3 capture=$5 flags=() file
    [ -z "$4" ] || flags+=("$4")
    through "$name" "$capture" "${@:6}" || return
    rm -rf "$out/$name.expected"
    "$paceline" sequence "$chain" --pcap "$capture" --cores "$cores" --history-version 1 "${flags[@]}" \
        --out-dir "$out/$name.expected" >/dev/null || return
    for file in "$out/$name.expected"/*; do
        cmp "$file" "$out/$name.out/${file##*/}" || { echo "FAILED: $name, $capture: other bytes"; return 1; }
    done
}

# The hardware for a program beside the version 3 of the page, over captures and random frames; and with planted faults.
programs() {
    local knock=examples/p4/port_knocking.p4 bucket=examples/p4/scr/token_bucket.p4 fields=rtl/tests/fields.p4 failed=0 capture
    local knock_item=(hdr.ipv4.src_addr:32 hdr.ipv4.dst_addr:32 "hdr.tcp.\$valid:1" hdr.tcp.dst_port:16)
    local bucket_item=("hdr.ipv4.\$valid:1" hdr.ipv4.protocol:8 hdr.ipv4.src_addr:32 hdr.ipv4.dst_addr:32 "hdr.tcp.\$valid:1" hdr.tcp.src_port:16
        hdr.tcp.dst_port:16 hdr.udp.src_port:16 hdr.udp.dst_port:16 standard_metadata.ingress_global_timestamp:48)
    local fields_item=(hdr.word.rest:12 hdr.tag.id:13 hdr.long.second:8 hdr.other.rest:12 standard_metadata.ingress_port:9
        standard_metadata.packet_length:32 standard_metadata.parser_error:8)
    build program $knock 8 512 "" || return
    build timed $bucket 5 1024 "" -GROWS_IN_RAM=1 || return
    build fields $fields 16 512 "" -GROWS_IN_RAM=2 || return
    build alone $bucket 1 512 "" -GBUFFER=16 -GFRAMES=2 || return
    as_page headers program 8 captures/edge.pcap "${knock_item[*]}" || failed=1
    says program " 0 cycles without a beat" || failed=1
    for capture in captures/*.pcap "${random[@]}"; do
        as_page headers program 8 "$capture" "${knock_item[*]}" --gaps 10 --stalls 10 || failed=1
        as_page headers timed 5 "$capture" "${bucket_item[*]}" --gaps 5 --stalls 40 --seed 2 || failed=1
        as_page fields fields 16 "$capture" "${fields_item[*]}" --gaps 20 --stalls 20 --seed 4 || failed=1
        as_page headers alone 1 "$capture" "${bucket_item[*]}" --gaps 30 --stalls 30 --seed 3 || failed=1
    done
    build short $knock 8 512 "" -DFAULT_LENGTH || return
    if as_page headers short 8 "${random[0]}" "${knock_item[*]}" >/dev/null; then missed FAULT_LENGTH "its bytes"; fi
    build micros $bucket 5 512 "" -DFAULT_MICROS || return
    if as_page headers micros 5 captures/edge.pcap "${bucket_item[*]}" >/dev/null; then missed FAULT_MICROS "its bytes"; fi
    return $failed
}
as_page() { # parser name cores capture item arguments-of-the-harness...
    local name=$2 cores=$3 capture=$4 item file
    read -ra item <<<"$5"
    through "$name" "$capture" "${@:6}" || return
    rm -rf "$out/$name.expected"
    python3 rtl/tests/version3.py "$1" "$capture" "$out/$name.expected" "$cores" "${item[@]}" || return
    for file in "$out/$name.expected"/*; do
        cmp "$file" "$out/$name.out/${file##*/}" || { echo "FAILED: $name, $capture: other bytes"; return 1; }
    done
}

# RAPID's pipeline beside the model: levels of consistency, spans, small buffers; and planted faults, each of which has to be found.
pipelines() {
    local groups=(rtl/tests/groups.p4 --stages 6 --stage-cycles 3 --dtable 6 --rb 3 --pb 5 --ring-buffer 2) failed=0 fault
    local stale=(--consistency bs2 --blocking-threshold 0)
    "$out/knocks" "$out/few.pcap" 2 12000 8 60
    pipeline knocking "" examples/p4/port_knocking.p4 || return
    held knocking captures/edge.pcap --check examples/p4/port_knocking.p4 || failed=1
    held knocking "$out/knocks.pcap" --check --pacing every-cycle examples/p4/port_knocking.p4 || failed=1
    pipeline groups "" "${groups[@]}" || return
    held groups captures/edge.pcap --check --pacing every-cycle "${groups[@]}" || failed=1
    held groups "$out/few.pcap" --check --pacing every-cycle "${groups[@]}" || failed=1
    pipeline stale "" "${groups[@]}" "${stale[@]}" || return
    held stale "$out/few.pcap" --pacing every-cycle "${groups[@]}" "${stale[@]}" || failed=1
    pipeline weak "" "${groups[@]}" --consistency weak || return
    held weak "$out/few.pcap" --pacing every-cycle "${groups[@]}" --consistency weak || failed=1
    for fault in FAULT_STALE FAULT_CANCEL FAULT_TIMER; do
        pipeline fault -D$fault "${groups[@]}" || return
        if held fault "$out/few.pcap" --pacing every-cycle "${groups[@]}"; then missed $fault "its registers"; fi
    done
    several_functions || failed=1
    shared_ring || failed=1
    return $failed
}

# Three functions on one ring: each level of consistency for all of them, a level of its own for each, and buffers that are full at
# times; and faults in what they share.
several_functions() {
    local small=(--stage-cycles 5 --dtable 6 --rb 3 --pb 5 --ring-buffer 2) failed=0 fault
    local functions=(rtl/tests/functions.p4 --stages 8) mixed=("$out/mixed.p4" --stages 8 "${small[@]}")
    pipeline functions "" "${functions[@]}" || return
    held functions captures/edge.pcap --check --pacing every-cycle "${functions[@]}" || failed=1
    # Its 40 keys of `ports` are more than the 32 entries: which of them a full table takes depends on when packets come, so that the
    # interpreter may have others.
    held functions "$out/few.pcap" --pacing every-cycle "${functions[@]}" || failed=1
    functions+=("${small[@]}")
    pipeline full "" "${functions[@]}" || return
    held full "$out/few.pcap" --check --pacing every-cycle "${functions[@]}" || failed=1
    pipeline full_stale "" "${functions[@]}" --consistency bs2 --blocking-threshold 0 || return
    held full_stale "$out/few.pcap" --pacing every-cycle "${functions[@]}" --consistency bs2 --blocking-threshold 0 || failed=1
    pipeline full_weak "" "${functions[@]}" --consistency weak || return
    held full_weak "$out/few.pcap" --pacing every-cycle "${functions[@]}" --consistency weak || failed=1
    sed -e "s|\"../../|\"$PWD/|" -e "/muTable sources/,/size/s/STRICT/BS(3)/" -e "/muTable ports/,/size/s/STRICT/WEAK/" \
        rtl/tests/functions.p4 >"$out/mixed.p4"
    pipeline mixed "" "${mixed[@]}" || return
    held mixed "$out/few.pcap" --pacing every-cycle "${mixed[@]}" || failed=1
    for fault in FAULT_SLOT FAULT_DIRTY FAULT_WAY; do
        pipeline fault -D$fault "${functions[@]}" || return
        if held fault "$out/few.pcap" --pacing every-cycle "${functions[@]}"; then missed $fault "its registers"; fi
    done
    return $failed
}

# Two pipelines on one ring, each with packets of its own: port knocking, and three functions with buffers that are full at times.
shared_ring() {
    local knocking=(examples/p4/port_knocking.p4 --pipelines 2) failed=0
    local functions=(rtl/tests/functions.p4 --pipelines 2 --stages 8 --stage-cycles 9 --dtable 6 --rb 3 --pb 5 --ring-buffer 2)
    pipeline shared "" "${knocking[@]}" || return
    held shared captures/edge.pcap --check --port-of 192.0.2.0/24=1 "${knocking[@]}" || failed=1
    held shared "$out/knocks.pcap" --check --pacing every-cycle --port-of 10.0.0.0/25=1 "${knocking[@]}" || failed=1
    pipeline shared_full "" "${functions[@]}" || return
    held shared_full "$out/few.pcap" --check --pacing every-cycle --port-of 10.0.0.0/30=1 "${functions[@]}" || failed=1
    pipeline fault -DFAULT_RING "${knocking[@]}" || return
    if held fault "$out/knocks.pcap" --pacing every-cycle --port-of 10.0.0.0/25=1 "${knocking[@]}"; then missed FAULT_RING "its registers"; fi
    return $failed
}

# RAPID's pipeline in hardware for a program, with the harness that holds it to the model.
pipeline() { # name define-or-nothing arguments-of-p4-rtl...
    local name=$1 log=$out/$1.log defines=()
    [ -z "$2" ] || defines=("$2")
    mkdir -p "$out/$name.program"
    "$paceline" p4 rtl "${@:3}" --out "$out/$name.program/rapid_program.sv" || return
    echo "+ verilator: ${*:3} $2"
    verilator --cc --exe --build -j 0 -O3 --vpi --public-flat-rw "${unrolled[@]}" --x-assign unique --x-initial unique rtl/lint.vlt \
        "$out/$name.program/rapid_program.sv" -f rtl/rapid/files.f --top-module rapid --prefix Vrapid --Mdir "$out/$name.build" \
        -CFLAGS -std=c++17 -MAKEFLAGS OPT_FAST=-O0 "${defines[@]}" "$PWD/rtl/tests/rapid.cpp" >"$log" 2>&1 || { cat "$log"; return 1; }
}
# What the model does over a capture, and the hardware `name` beside it.
held() { # name capture arguments-of-emulate...
    echo "+ $1: $2"
    "$paceline" emulate "${@:3}" --pcap "$2" --trace-registers "$out/$1.trace" >"$out/$1.model" || return
    sed -n '/^check/p' "$out/$1.model"
    "$out/$1.build/Vrapid" "$out/$1.program/rapid_program.sv" "$out/$1.trace"
}

# What the harness said of the run before.
says() { # name text
    grep -q "$2" "$out/$1.said" || { echo "FAILED: $1 should say '$2'"; return 1; }
}

# `verify` over what the hardware wrote last.
says_equals() { # name chain
    "$paceline" verify "$2" --strategy scr --sequencer external --pcap-dir "$out/$1.out" >"$out/$1.verify" 2>&1 || return
    head -1 "$out/$1.verify"
    grep -q " EQUALS " "$out/$1.verify" && ! grep "^Dropped for their history" "$out/$1.verify"
}

# The rows of Table 2 of the SCR paper, and parts of Tables 2 and 3 of the RAPID paper, on another part of another maker. Without nextpnr
# areas are counted, and no clock.
area() { # paceline out [designs...]
    local paceline=$1 out=$2 designs=("${@:3}") flows
    mkdir -p "$out"
    for flows in 4 16 64; do
        "$paceline" p4 rtl examples/p4/port_knocking.p4 --dtable $flows --rb 16 --pb 32 --out "$out/dtable_$flows.sv" ||
            fail "port knocking could not be written as hardware"
    done
    local wide="$out/dtable_64.sv"
    [ ${#designs[@]} != 0 ] || designs=(ring:{16,32,64,128} ring:{16,32,64,128}:{1,2} sequencer "stage:$wide" "packet_queue:$wide" "ring_node:$wide"
        "wr_sched:$out/dtable_16.sv" "wr_sched:$wide" "rd_sched:$out/dtable_4.sv" "rd_sched:$out/dtable_16.sv" "rd_sched:$wide")
    nice python3 rtl/area/measure.py "$out" "${AREA_SECONDS:-900}" "${designs[@]}"
}

# By yosys-abc: for any number of cycles, and RAPID's pipeline for those that a failed speculation takes from its read until its second one has
# left, the sequencer for those in which two packets leave. By yosys-smtbmc, another way to the same: the queue for 12 cycles, what goes before frames for 10.
formal() { # out [short]
    out=$1
    local ring=(rtl/formal/small_program.sv rtl/rapid/packet_queue.sv rtl/rapid/ring_node.sv) rapid fault module rows=() sequencer=(rtl/sequencer/parsed.sv
        rtl/formal/any_parser.sv)
    for module in history prepend row_memory rows; do rows+=("rtl/sequencer/$module.sv"); done
    for module in fifo item micros dispatch sequencer; do sequencer+=("rtl/sequencer/$module.sv"); done
    sequencer+=("${rows[@]}")
    mapfile -t rapid <rtl/rapid/files.f
    rapid=(rtl/formal/small_program.sv "${rapid[@]}")
    mkdir -p "$out"
    always fifo "" rtl/sequencer/fifo.sv
    always prepend "" rtl/sequencer/prepend.sv
    always statistics "" rtl/sequencer/statistics.sv
    always ring_node "-DLONG_SPAN" "${ring[@]}"
    within 12 fifo -DFAULT_FULL rtl/sequencer/fifo.sv && unseen FAULT_FULL
    within 12 prepend -DFAULT_CARRY rtl/sequencer/prepend.sv && unseen FAULT_CARRY
    within 12 statistics -DFAULT_UPPER rtl/sequencer/statistics.sv && unseen FAULT_UPPER
    for fault in FAULT_ROOM FAULT_QUEUE FAULT_WAY; do
        within 12 ring_node "-DLONG_SPAN -D$fault" "${ring[@]}" && unseen $fault
    done
    if [ "${2:-}" = short ]; then
        echo "all proved; planted faults were found; left out: the whole sequencer and RAPID's pipeline (./x rtl formal)"
        return
    fi
    within 20 rows "" "${rows[@]}" || fail "the proof of rows failed, see $out/rows.proof"
    for fault in FAULT_LATE FAULT_SPILL; do
        within 20 rows -D$fault "${rows[@]}" && unseen $fault
    done
    within 14 sequencer "" "${sequencer[@]}" || fail "the proof of sequencer failed, see $out/sequencer.proof"
    within 17 rapid "" "${rapid[@]}" || fail "the proof of rapid failed, see $out/rapid.proof"
    for fault in FAULT_FRAMES FAULT_FULL FAULT_CARRY; do
        within 14 sequencer -D$fault "${sequencer[@]}" && unseen $fault
    done
    for fault in FAULT_STALE FAULT_TIMER FAULT_RB; do
        within 17 rapid -D$fault "${rapid[@]}" && unseen $fault
    done
    if command -v z3 >/dev/null; then
        proved fifo 12 "" || fail "the proof of fifo failed, see $out/fifo.proof"
        proved prepend 10 "" || fail "the proof of prepend failed, see $out/prepend.proof"
        proved fifo 12 FAULT_FULL && unseen FAULT_FULL
        proved prepend 10 FAULT_CARRY && unseen FAULT_CARRY
    else
        echo "skipped: yosys-smtbmc, which takes z3 (./x rtl formal installs it)"
    fi
    echo "all proved; planted faults were found"
}
unseen() { fail "the planted fault $1 is not found"; }

# What a proof asserts as logic of gates, and what yosys-abc says of it. `memory_map` and `opt` leave nothing that it cannot read.
always() { # module defines sources...
    echo "+ yosys-abc: rtl/formal/$1_proof.sv, any number of cycles"
    gates "$@"
    yosys-abc -c "read_aiger $out/$1.aig; fold; scorr; pdr" >"$out/$1.proof" 2>&1
    grep -q "^Property proved" "$out/$1.proof" || fail "the proof of $1 failed, see $out/$1.proof"
}
within() { # cycles module defines sources...
    local cycles=$1
    shift
    echo "+ yosys-abc: rtl/formal/$1_proof.sv, $cycles cycles ${2:+with ${2//-D/}}"
    gates "$@"
    # Cycle 0 is the reset.
    yosys-abc -c "read_aiger $out/$1.aig; fold; scorr; bmc3 -F $((cycles + 1))" >"$out/$1.proof" 2>&1
    grep "was asserted" "$out/$1.proof" && return 1
    grep -q "^No output asserted in $((cycles + 1)) frames" "$out/$1.proof" || fail "yosys-abc came to no end, see $out/$1.proof"
}
gates() { # module defines sources...
    # shellcheck disable=SC2086
    yosys -q -l "$out/$1.log" -p "read_verilog -sv -formal $2 ${*:3} rtl/formal/$1_proof.sv; chformal -cover -remove;
        prep -flatten -top $1_proof; memory_map; opt -full; async2sync; dffunmap; setundef -undriven -anyseq; simplemap; techmap; opt -full; abc -g AND -fast; opt_clean;
        dfflegalize -cell \$_DFF_P_ 01; opt_clean; abc -g AND -fast; write_aiger -zinit $out/$1.aig" >"$out/$1.said" 2>&1 ||
        { cat "$out/$1.said"; fail "Yosys failed"; }
}
proved() { # module cycles define
    echo "+ yosys-smtbmc: rtl/formal/$1_proof.sv, $2 cycles ${3:+with $3}"
    yosys -q -p "read_verilog -sv -formal ${3:+-D$3} rtl/sequencer/$1.sv rtl/formal/$1_proof.sv; prep -top $1_proof; memory_map; async2sync;
        dffunmap; write_smt2 -wires $out/$1.smt2" || fail "Yosys failed"
    yosys-smtbmc --noprogr -s z3 -t "$2" "$out/$1.smt2" >"$out/$1.proof" 2>&1 || { grep "Assert failed" "$out/$1.proof"; return 1; }
}

fail() { echo "rtl: $*" >&2 && exit 1; }

main "$@"
