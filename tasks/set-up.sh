# shellcheck shell=bash
# What every task needs: words for people, programs and packages, Rust.

# --- helpers -----------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

# Installs the program of a crate, unless it is there in this version.
crate_program() { # crate version command...
    local said
    said=$("${@:3}" --version 2>/dev/null) || said=none
    [[ $said = *" $2" || $said = *" v$2" ]] || shown cargo install "$1" --version "$2" --locked --force ||
        fail "$1 $2 could not be installed, see above"
}
say() { echo "x: $*"; }
shown() { # command
    echo "+ $*"
    "$@"
}
fail() { echo "x: $*" >&2 && exit 1; }

# What a figure was measured on.
machine() {
    local model
    model=$(lscpu 2>/dev/null | sed -n 's/^Model name: *//p' | sed 1q)
    echo "${model:-a $(uname -m) processor}, $(nproc) logical cores, Linux $(uname -r)"
}

# --- set-up ------------------------------------------------------------------------------------

set_up() {
    local packages=() why=""
    if ! can_link; then packages+=(gcc libc6-dev) why+="; gcc libc6-dev: Rust links with the C linker"; fi
    if ! have git; then packages+=(git) why+="; git: fetches and commits changes"; fi
    # Without clang all is built but AF_XDP: where there is no apt-get, that is said by the build.
    if have apt-get && ! have clang; then packages+=(clang) why+="; clang: compiles XDP programs"; fi
    [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] || {
        packages+=(ca-certificates) why+="; ca-certificates: downloads are checked against them"
    }
    [ ${#packages[@]} = 0 ] || install_packages "${why#; }" "${packages[@]}"
    set_up_rust
}

can_link() { echo 'int main(void) { return 0; }' | cc -x c -o /dev/null - >/dev/null 2>&1; }

# What tests in network namespaces take: a program and its package.
namespaces=(ip:iproute2 ping:iputils-ping)

programs() { # why, program:package...
    local why=$1 packages=() each
    shift
    for each in "$@"; do have "${each%:*}" || packages+=("${each#*:}"); done
    [ ${#packages[@]} = 0 ] || install_packages "$why" "${packages[@]}"
}

install_packages() { # why, packages
    local why=$1 sudo=()
    shift
    say "missing: $* ($why)"
    have apt-get || fail "packages are installed on Debian and Ubuntu only, and this is $(distribution).
    Install by hand what stands for: $*; then run ./x again."
    if [ "$(id -u)" != 0 ]; then
        have sudo || fail "installing needs root, and there is no sudo. As root: apt-get install $*"
        sudo=(sudo)
        [ -t 0 ] || sudo=(sudo -n)
    fi
    say "installing with ${sudo[*]:+${sudo[*]} }apt-get"
    "${sudo[@]}" apt-get update -qq || say "apt-get update failed; trying with the lists that are here"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        -o DPkg::Lock::Timeout=120 "$@" >/dev/null ||
        fail "apt-get could not install $*, see above. Without a network: install them from your
    distribution's media, then run ./x again."
}

# shellcheck disable=SC1091
distribution() { (. /etc/os-release && echo "${PRETTY_NAME:-$ID}") 2>/dev/null || uname -s; }

# Leaves in RUSTUP_TOOLCHAIN a toolchain that is known to work: the one of rust-toolchain.toml if
# it is here or can be fetched, else an installed one that is not older.
set_up_rust() {
    if ! have rustup && have cargo; then
        ! new_enough "$(rustc --version 2>/dev/null)" || { say "using $(rustc --version), without rustup"; return; }
        say "the installed $(rustc --version) is older than $sources_version, which the sources need"
    fi
    have rustup || install_rustup
    export RUSTUP_TOOLCHAIN=${RUSTUP_TOOLCHAIN:-$sources_version}
    ! complete "$RUSTUP_TOOLCHAIN" || return 0
    say "installing Rust $RUSTUP_TOOLCHAIN with rustfmt and clippy, for this user alone"
    ! rustup toolchain install "$RUSTUP_TOOLCHAIN" --profile minimal -c rustfmt -c clippy --no-self-update || return 0
    { new_enough "$(rustup run stable rustc --version 2>/dev/null)" && complete stable; } ||
        fail "Rust $RUSTUP_TOOLCHAIN could not be fetched, see above, and no stable Rust of at least
    $sources_version is installed. Is there a network? Run ./x again once there is: it goes on from here."
    export RUSTUP_TOOLCHAIN=stable
    say "Rust $sources_version could not be fetched: using $(rustup run stable rustc --version)"
}

complete() { # toolchain
    RUSTUP_AUTO_INSTALL=0 rustup run "$1" cargo clippy --version >/dev/null 2>&1 &&
        RUSTUP_AUTO_INSTALL=0 rustup run "$1" rustfmt --version >/dev/null 2>&1
}

new_enough() { # what rustc --version printed
    local version
    version=$(echo "$1" | sed -n 's/^rustc \([0-9.]*\).*/\1/p')
    [ -n "$version" ] && sorted "$sources_version" "$version"
}

install_rustup() {
    if have apt-get && ! have cargo && apt-cache policy rustup 2>/dev/null | grep -q 'Candidate: [0-9]'; then
        install_packages "rustup: fetches the Rust that rust-toolchain.toml names" rustup
        return
    fi
    have curl || install_packages "curl: fetches the Rust installer" curl
    say "installing rustup for this user alone, with the installer of rustup.rs; it asks nothing and
    leaves your shell's start-up files alone"
    local installer
    installer=$(mktemp)
    curl --proto '=https' --tlsv1.2 -sSf --retry 3 -o "$installer" https://sh.rustup.rs ||
        fail "the Rust installer could not be fetched. Without a network: install Rust $sources_version or
    newer by other means (see https://www.rust-lang.org/tools/install), then run ./x again."
    RUSTUP_INIT_SKIP_PATH_CHECK=yes sh "$installer" -y -q --no-modify-path --default-toolchain none ||
        fail "the Rust installer failed, see above"
    rm -f "$installer"
}
