# shellcheck shell=bash
# ./x test and ./x lint: steps that go on after a failure, and what they found.

failed=() beside=
x_test() { # [--all|--extended|--long]
    case ${1:-} in
        '' | --all) usual_tests "$@" ;;
        --extended) extended ;;
        --long) long ;;
        *) fail "'$1' is not an option of test; there are --all, --extended and --long" ;;
    esac
}

usual_tests() { # [--all]
    set_up
    step "format" cargo fmt --all --check
    mkdir -p "$build/passed"
    if [ "${CI:-}" = true ] || [ -n "${1:-}" ] || ! digests; then inputs=''; fi
    lint_rtl
    step "tests" all_tests
    step "tshark's counts" env PACELINE="$build/debug/paceline" tests/tshark-agrees.sh
    summary test "$(counts "$build/x-test.log")"
}

# What a change has to pass as well, and what takes longer than one waits for between two edits.
extended() {
    local log=$build/x-extended.log
    set_up
    mkdir -p "$build/passed"
    # Tests wait for packets and for each other, and a count of instructions is the same beside them. Its build has a
    # folder of its own (release), so that neither cargo waits for the other.
    if have valgrind && have gungraun-runner; then beside hot_counts; fi
    lint_steps
    of_workspace --no-run 2>&1 | tee "$log" || fail "the tests could not be built, see above"
    if have verilator; then step "hardware" rtl/rtl.sh demo "$build/debug/paceline" "$build/rtl"; fi
    if have yosys; then
        step "proofs of hardware" rtl/rtl.sh formal "$build/rtl" short
    else
        say "skipped: proofs of hardware, which take Yosys (./x rtl formal installs it)"
    fi
    step "models and long tests" extended_tests "$log"
    step "documentation's tests" documentation_tests "$log"
    if [ -n "$beside" ]; then
        step "hot counts" ended
    else
        say "hot counts: not checked; ./x bench instructions check installs what that takes"
    fi
    if have python3; then
        step "several boxes" python3 lab/several_boxes.py --flows 1500
    fi
    # From nothing it takes ten minutes, most of them for the same crates with other features.
    if [ -x "$build/python/venv/bin/maturin" ]; then
        step "Python" python/x.sh "$build" test
        step "notebooks" python/x.sh "$build" notebooks
        step "a sweep over Ray" python/x.sh "$build" cluster 120
    else
        say "Python: not checked; ./x python installs what that takes"
    fi
    if has_dependency_tools; then
        dependency_steps
    else
        say "skipped: licences and origins of dependencies, and what the program is made of (./x dependencies installs what that takes)"
    fi
    step "documentation" env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps "${locked[@]}"
    summary "test --extended" "$(counts "$log")"
}
extended_tests() { # log
    local names
    read -rd '' -a names < <(long_tests) || true
    # Those of models are in modules of that name: lock-free protocols in every order of their threads, with loom.
    both_kinds "$1" "$build/x-extended-program.log" model:: "${names[@]}"
}
# Of the models' crates none: outside of the model checker they do not run. Without these dependencies are built with other features.
documentation_tests() { of_workspace --doc --exclude 'paceline-*-model' 2>&1 | tee -a "$1"; } # log

# Tests that `./x test` leaves to `./x test --extended`, by name.
long_tests() { sed 's/ .*//' tests/extended.txt; }

# For a night. Tests that are marked `ignore`, but for those that are none: `seeds` writes samples and is run by fuzz, the others measure
# and are run by `bench tests`.
long() {
    local log=$build/x-long.log
    set_up
    set_up_miri
    of_workspace --no-run 2>&1 | tee "$log" || fail "the tests could not be built, see above"
    step "ignored tests" ignored_tests "$log"
    step "Miri" miri
    set_up_python
    step "Python" python/x.sh "$build" test
    step "notebooks" python/x.sh "$build" notebooks
    step "a sweep over Ray" python/x.sh "$build" cluster
    # As they would be published: each crate has what it is built from.
    step "packaged crates" cargo publish --dry-run --workspace --allow-dirty --quiet
    step "fuzzing" x_fuzz
    step "mutants" env PACELINE_MUTANTS="${PACELINE_MUTANTS:-20}" ./x mutants
    summary "test --long" "$(counts "$log")"
}
ignored_tests() { # log
    of_workspace --lib --bins --tests -- --ignored --show-output --skip samples::seeds --skip forward_cost --skip virtual_rates \
        --skip list_costs 2>&1 |
        quietly | tee -a "$1"
}

# "test result: ok. 12 passed; 0 failed; 1 ignored; ..." of each test program, added up; and how many of those that passed were
# skipped, for which reasons.
counts() { # log
    awk '/test result:/ { for (i = 2; i <= NF; i++) n[$i] += $(i - 1) }
        /test result: unchanged/ { before += $4 }
        /^skipped: / { skipped++; why = substr($0, 10); if (length(why) > 60) why = substr(why, 1, 57) "..."; reasons[why]++ }
        END {
            printf "%d tests passed, %d failed, %d ignored", n["passed;"], n["failed;"], n["ignored;"]
            if (before) printf "; %d of them passed before, and what they depend on has not changed", before
            if (skipped) {
                printf "; %d that passed were skipped on this machine: ", skipped
                for (why in reasons) { printf "%s%s (%d)", comma, why, reasons[why]; comma = ", " }
            } else printf "; none skipped"
            print ""
        }' "$1"
}

# Of what tests that pass print (--show-output), nothing but why one was skipped, once for each test.
quietly() {
    awk '/^successes:$/ { is_inside = 1 } /^(failures:$|test result:)/ { is_inside = 0 }
        is_inside && /^---- .* stdout ----$/ { said = 0 }
        is_inside && !(/^skipped: / && !said++) { next }
        { print; fflush() }'
}

x_lint() { set_up; lint_steps; summary lint ""; }

lint_steps() {
    step "format" cargo fmt --all --check
    step "lints" cargo clippy --workspace --all-targets "${locked[@]}" -- -D warnings
    if have shellcheck; then
        step "shell scripts" shellcheck -x x .ci/run bench/live/*.sh bench/peers/*.sh captures/*.sh lab/*.sh packaging/*.sh packaging/deb/* python/*.sh rtl/*.sh tests/*.sh
    else
        say "shell scripts: not checked; that takes shellcheck (apt-get install shellcheck)"
    fi
}

# Unit, property and conformance tests. The log is for the totals.
all_tests() {
    local log=$build/x-test.log build_path name later=(--skip model::)
    for name in $(long_tests); do later+=(--skip "$name"); done
    if [ -n "$inputs" ]; then
        build_path=$(realpath "$build")
        local -x BUILD=$build_path INPUTS=$inputs PASSED=$build_path/passed
        local -x "CARGO_TARGET_$(rustc -vV | sed -n 's/^host: //p' | tr a-z- A-Z_)_RUNNER=$PWD/tests/unchanged.sh"
    fi
    of_workspace --no-run 2>&1 | tee "$log" || return
    both_kinds "$log" "$build/x-test-program.log" "${later[@]}"
}
# Tests of the program as users meet it mostly wait, for packets and for seconds to pass: the others run beside them, on what they leave
# of the processors.
both_kinds() { # log, log of the program's, arguments of tests...
    local log=$1 program=$2 status=0
    of_workspace --test program -- --show-output "${@:3}" 2>&1 </dev/null | quietly >"$program" &
    nice -n 10 env -- "${cargo_test[@]}" "${locked[@]}" --lib --bins --example own_port --test '[!p]*' -- --show-output "${@:3}" 2>&1 |
        quietly | tee -a "$log" || status=1
    wait $! || status=1
    tee -a "$log" <"$program"
    return $status
}
cargo_test=(cargo test --workspace --no-fail-fast)
of_workspace() { "${cargo_test[@]}" "${locked[@]}" "$@"; }

# Pools, rings, logs, tables and the memory below them, by an interpreter that finds what no test sees: what is read beyond
# its bounds, or before it was written, and what two threads reach at once. Its tests are small (`cfg!(miri)`).
miri() {
    local tests
    for tests in "memory --lib" "ring --lib" "io --lib pool:: replay::arena::" "table --lib" "live --lib xdp::ring::"; do
        read -ra tests <<<"$tests"
        shown env MIRIFLAGS=-Zmiri-disable-isolation \
            cargo +nightly miri test "${locked[@]}" -p "paceline-${tests[0]}" "${tests[1]}" -- "${tests[@]:2}" || return
    done
}

set_up_miri() {
    cargo +nightly miri --version >/dev/null 2>&1 && return
    say "installing a nightly Rust with Miri, for this user alone"
    rustup toolchain install nightly --profile minimal -c miri -c rust-src --no-self-update ||
        fail "a nightly Rust with Miri could not be installed, see above"
}

# Leaves in `inputs` a digest of all files that are not compiled: what a test program depends on beside itself. Fails where no git says
# which files there are.
inputs=''
digests() {
    local files machine
    machine=$(uname -srm; id -u; rustc --version; ls -l ../shared/captures 2>/dev/null)
    files=$(git ls-files -z --cached --others --exclude-standard | xargs -0 sha256sum 2>/dev/null) || [ -n "$files" ] || return
    inputs=$(sha256sum <<<"$machine $(grep -v '\.rs$' <<<"$files")" | cut -c 1-32)
}

# Goes on after a failure: a misformatted line is not to hide a failing test.
step() { # name, command
    local name=$1 from=$SECONDS outcome=ok
    shift
    say "$name: $*"
    "$@" || { outcome=FAILED; failed+=("$name"); }
    say "$name: $outcome, $((SECONDS - from)) s"
}

# Has a command run beside the steps that follow, on what these leave of the processors.
beside() { # command
    say "beside what follows: $*"
    # In a process group of its own, which ends with x.
    set -m
    (renice -n 19 -p "$BASHPID" >/dev/null 2>&1 || true; "$@") >"$build/x-beside.log" 2>&1 </dev/null &
    set +m
    beside=$!
    trap 'kill -- -"$beside" 2>/dev/null || true' EXIT
    trap 'exit 130' INT TERM
}

# Waits for it; shows what it printed, and fails as it did.
ended() {
    local status=0
    wait "$beside" || status=$?
    trap - EXIT INT TERM
    cat "$build/x-beside.log"
    return $status
}

summary() { # command, result
    [ ${#failed[@]} = 0 ] || fail "$1 FAILED after $SECONDS s: $(IFS=,; echo "${failed[*]}")${2:+; $2}"
    say "$1 ok in $SECONDS s${2:+: $2}"
}
