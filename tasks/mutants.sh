# shellcheck shell=bash
# ./x mutants and ./x fuzz: what finds what tests do not.

# --- mutants -----------------------------------------------------------------------------------

mutants_version=27.1.0
# Crates whose tests are measured: those whose mutants take the least time first. Of `engine` it is `verify`, and a sample.
mutated=(ring sequencer strategy recovery control table nf wire engine)

# docs/mutants.md has the scores, and says what they count.
x_mutants() { # [crate]
    local crates=("${mutated[@]}") crate
    if [ $# != 0 ]; then
        [[ " ${mutated[*]} " = *" $1 "* ]] || fail "no mutants of '$1'; there are those of: ${mutated[*]}"
        crates=("$1")
    fi
    set_up
    crate_program cargo-mutants "$mutants_version" cargo mutants
    for crate in "${crates[@]}"; do mutate "$crate"; done
    for crate in "${crates[@]}"; do score "$crate"; done
    say "on $(machine)"
}

# Each bug is planted in a copy of the sources, and the crate's own tests are to find it. Of a crate with many of them a sample is
# planted: each so many-th, from a seed on. PACELINE_MUTANTS says how many they are to be, or `all`.
mutate() { # crate
    local out=$build/mutants/$1 status=0 all shards=1 about=${PACELINE_MUTANTS:-150} options=(--cargo-arg=--tests) test=()
    rm -rf "$out" && mkdir -p "$out"
    case $1 in
        # Of random cases an eighth or a sixteenth: some properties would take a minute for each mutant.
        sequencer | wire) local -x PROPTEST_CASES=32 ;;
        control) local -x PROPTEST_CASES=16 ;;
        recovery) local -x PACELINE_RUNS=250 ;;
        engine)
            options=(--file 'crates/engine/src/verify/**' --test-package paceline-engine --test-package paceline-conformance)
            test=(-- --lib --test all -- verify)
            # cargo-mutants would try the sources without a mutant on `engine` alone, which has no program `all`.
            shown cargo test --workspace "${test[@]:1}" || fail "tests fail without a mutant"
            options+=(--baseline skip --timeout 600)
            about=${PACELINE_MUTANTS:-100}
            ;;
    esac
    all=$(cargo mutants -p "paceline-$1" "${options[@]}" --list | wc -l)
    if [ "$about" != all ]; then
        [[ $about =~ ^[1-9][0-9]*$ ]] || fail "PACELINE_MUTANTS=$about is neither a number from 1 on nor 'all'"
        # Fewer than twice as many are planted whole: half of them would save little.
        [ "$all" -lt $((2 * about)) ] || shards=$(((all + about / 2) / about))
        options+=(--sharding round-robin --shard "$((${PACELINE_SEED:-0} % shards))/$shards")
    fi
    echo "$all $shards" >"$out/listed"
    # One build folder for all copies: what no mutant changes is built once. Nobody debugs them. One failure is enough to know.
    local -x CARGO_PROFILE_DEV_DEBUG=false PROPTEST_FAILURE_PERSISTENCE=off PROPTEST_MAX_SHRINK_ITERS=0 PACELINE_PATIENCE=8
    CARGO_TARGET_DIR=$(realpath "$build")/mutants/build RUST_BACKTRACE=0 shown env -u PACELINE_SEED \
        nice -n 10 cargo mutants -p "paceline-$1" --output "$out" --colors never "${options[@]}" "${test[@]}" || status=$?
    # 2: some were missed; 3: some took too long.
    case $status in 0 | 2 | 3) ;; *) fail "the mutants of $1 could not be counted, see above" ;; esac
}

# What is missed, and what takes too long, is no less a mutant: but for those that do not compile all count.
score() { # crate
    local out=$build/mutants/$1 caught missed late unviable all listed shards of=''
    read -r listed shards <"$out/listed"
    out+=/mutants.out
    caught=$(wc -l <"$out/caught.txt") missed=$(wc -l <"$out/missed.txt")
    late=$(wc -l <"$out/timeout.txt") unviable=$(wc -l <"$out/unviable.txt")
    all=$((caught + missed + late))
    [ "$shards" = 1 ] || of=" (a sample: $((all + unviable)) of $listed, PACELINE_SEED=$((${PACELINE_SEED:-0} % shards)))"
    say "$1: $((all ? 100 * caught / all : 0))%: caught $caught of $all; missed $missed, $late took too long;" \
        "$unviable do not compile$of: $out"
}

# --- fuzz --------------------------------------------------------------------------------------

x_fuzz() {
    local targets=() target seconds=60
    for target in fuzz/fuzz_targets/*.rs; do targets+=("$(basename "$target" .rs)"); done
    if [[ ${1:-} =~ ^[a-z] ]]; then
        [ -f "fuzz/fuzz_targets/$1.rs" ] || fail "no fuzz target '$1'; there are: ${targets[*]}"
        targets=("$1")
        shift
    fi
    seconds=${1:-60}
    [[ $seconds =~ ^[0-9]+$ ]] || fail "'$seconds' is not a number of seconds"
    set_up
    have rustup || fail "fuzzing takes a nightly Rust, and that takes rustup"
    have c++ || install_packages "g++: builds the fuzzer's runtime" g++
    # The fuzzer's instrumentation takes a nightly Rust; cargo-fuzz drives it.
    rustup run nightly rustc --version >/dev/null 2>&1 ||
        shown rustup toolchain install nightly --profile minimal --no-self-update ||
        fail "a nightly Rust could not be installed, see above"
    have cargo-fuzz || shown cargo install cargo-fuzz --locked || fail "cargo-fuzz could not be installed, see above"
    # What its samples are made of is checked by tests.
    [[ " ${targets[*]} " != *" capture_read "* ]] ||
        shown cargo test -p paceline-io --test capture "${locked[@]}" -- --ignored --exact samples::seeds ||
        fail "the seeds could not be written, see above"
    for target in "${targets[@]}"; do
        shown cargo +nightly fuzz run "$target" -- -max_total_time="$seconds"
    done
    say "fuzzed ${targets[*]} for $seconds s each: nothing found"
}
