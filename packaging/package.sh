#!/usr/bin/env bash
# Makes what people install, and tries it in a root of its own. `./x package` installs what that takes, and runs this.
#   packaging/package.sh BUILD deb       BUILD/packages/paceline_VERSION_ARCH.deb
#   packaging/package.sh BUILD static    BUILD/packages/paceline-static: one file that needs no library
#   packaging/package.sh BUILD image     BUILD/packages/paceline-image.tar: an OCI image with that file alone
#   packaging/package.sh BUILD wheel     BUILD/packages/paceline-VERSION-cp310-abi3-*.whl, for Python
#   packaging/package.sh BUILD try       each of them that is there: in a clean root, and `paceline self-test`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1 out=$1/packages
musl=$(uname -m)-unknown-linux-musl
mkdir -p "$out"

say() { echo "package: $*"; }

# The manual's pages and completions, written by the program that the package has.
pages() { # program
    rm -rf "$out/man" "$out/completions" && mkdir -p "$out/completions"
    "$1" man --out "$out/man"
    "$1" completions bash >"$out/completions/paceline"
    "$1" completions zsh >"$out/completions/_paceline"
    "$1" completions fish >"$out/completions/paceline.fish"
}

deb() {
    cargo build --release --locked -p paceline
    pages "$build/release/paceline"
    rm -f "$out"/*.deb
    cargo deb -p paceline --no-build --no-strip --output "$out/"
    say "$(ls "$out"/*.deb)"
}

static() {
    local CC_name=CC_${musl//-/_}
    env "$CC_name=musl-gcc" cargo build --release --locked --target "$musl" -p paceline
    install -m 755 "$build/$musl/release/paceline" "$out/paceline-static"
    # A file that needs a library has an interpreter.
    ! readelf -l "$out/paceline-static" | grep -q INTERP || { say "paceline-static needs libraries" && return 1; }
    say "$out/paceline-static, $(($(stat -c %s "$out/paceline-static") / 1000000)) MB"
}

image() {
    [ -e "$out/paceline-static" ] || static
    rm -rf "$out/context" "$out/paceline-image.tar" && mkdir "$out/context"
    cp "$out/paceline-static" "$out/context/paceline"
    buildah build --isolation chroot --tag paceline -f packaging/Containerfile "$out/context"
    buildah push -q paceline "oci-archive:$out/paceline-image.tar"
    say "$out/paceline-image.tar"
}

wheel() { python/x.sh "$build" wheel; }

# Runs the self-test in a root, with what the kernel shows of itself and its devices, as containers have them.
in_root() { # root, program
    mkdir -p "$1/proc" "$1/sys" "$1/dev" "$1/tmp"
    # shellcheck disable=SC2016
    unshare --mount --pid --fork bash -c '
        mount -t proc proc "$1/proc" && mount -t sysfs sysfs "$1/sys" && mount --bind /dev "$1/dev" && mount -t tmpfs tmpfs "$1/tmp" &&
            exec chroot "$1" "$2" self-test' _ "$1" "${2:-/usr/bin/paceline}"
}

try() {
    local root tried=0
    root=$(mktemp -d)
    # shellcheck disable=SC2064
    trap "rm -rf '$root'" EXIT
    [ "$(id -u)" = 0 ] || { say "a clean root takes root: sudo ./x package try" && return 1; }
    if compgen -G "$out/*.deb" >/dev/null; then
        say "the Debian package, in a Debian of nothing else"
        # shellcheck disable=SC1091
        mmdebstrap --quiet --variant=minbase --include=iproute2 "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root/deb"
        cp "$out"/*.deb "$root/deb/"
        chroot "$root/deb" sh -c 'dpkg -i /*.deb'
        in_root "$root/deb"
        chroot "$root/deb" sh -c 'test -s /etc/paceline/gateway.toml && test -s /usr/share/man/man1/paceline-run.1.gz &&
            paceline run /etc/paceline/gateway.toml --help >/dev/null && dpkg -r paceline && test ! -e /usr/bin/paceline'
        tried=1
    fi
    if [ -e "$out/paceline-static" ]; then
        say "the static program, in a root with nothing else"
        install -D -m 755 "$out/paceline-static" "$root/static/usr/bin/paceline"
        in_root "$root/static"
        tried=1
    fi
    if [ -e "$out/paceline-image.tar" ]; then
        say "the image, unpacked"
        local container
        container=$(buildah from "oci-archive:$out/paceline-image.tar")
        mkdir "$root/image"
        cp -a "$(buildah mount "$container")/." "$root/image/"
        buildah rm "$container" >/dev/null
        in_root "$root/image"
        tried=1
    fi
    if compgen -G "$out/paceline-*.whl" >/dev/null; then
        say "the wheel, in a Debian with Python; polars takes its tables"
        # shellcheck disable=SC1091
        mmdebstrap --quiet --variant=minbase --include=iproute2,python3,python3-venv \
            "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root/wheel"
        # The root reaches no network.
        mkdir "$root/wheel/wheels"
        cp "$out"/paceline-*.whl "$root/wheel/wheels/"
        "$build/python/venv/bin/pip" download -q --disable-pip-version-check --only-binary :all: -d "$root/wheel/wheels" polars
        cp -r examples captures "$root/wheel/root/"
        chroot "$root/wheel" sh -c 'python3 -m venv /venv && /venv/bin/pip install -q --no-index --find-links /wheels "paceline[polars]"'
        in_root "$root/wheel" /venv/bin/paceline
        chroot "$root/wheel" sh -c 'cd /root && /venv/bin/python -' <<'FIVE'
import paceline
run = paceline.run("examples/edge.toml", "captures/edge.pcap", strategy="rss", cores=2)
flows = run.flows.to_polars()
print(flows)
assert flows["packets"].sum() > 0
FIVE
        tried=1
    fi
    [ "$tried" = 1 ] || { say "there is nothing to try in $out: ./x package deb, static, image or wheel makes it" && return 1; }
}

"$2"
