# shellcheck shell=bash
# ./x package, python, book and web: what people install and read.

# --- package -----------------------------------------------------------------------------------

cargo_deb_version=3.8.0
x_package() { # deb|static|image|wheel|try
    local what=${1:-}
    case $what in deb | static | image | wheel | try) ;; *) fail "'$what' is no package; there are deb, static, image and wheel, and try" ;; esac
    set_up
    case $what in
        deb)
            have dpkg-deb || fail "a Debian package is made on Debian or Ubuntu"
            [ "$(cargo deb --version 2>/dev/null)" = "$cargo_deb_version" ] ||
                shown cargo install cargo-deb --version "$cargo_deb_version" --locked --force ||
                fail "cargo-deb $cargo_deb_version could not be installed, see above"
            ;;
        static | image)
            have musl-gcc || install_packages "musl: a C library that is linked into the program" musl-tools
            shown rustup target add "$(uname -m)-unknown-linux-musl" ||
                fail "Rust's library for musl could not be installed, see above"
            [ "$what" = static ] || programs "builds the image" buildah:buildah
            ;;
        wheel) set_up_python ;;
        try) programs "clean roots to install in" mmdebstrap:mmdebstrap ;;
    esac
    shown packaging/package.sh "$build" "$what" || fail "package $what failed, see above"
}

# --- python ------------------------------------------------------------------------------------

x_python() { # [test|notebooks|cluster|reports]
    set_up
    set_up_python
    shown python/x.sh "$build" "${1:-test}" "${@:2}" || fail "the Python package is not as it should be, see above"
}
# Packages of PyPI are installed in a folder of the build.
set_up_python() {
    can_build_python || install_packages "python3-venv: what the Python package is built with" python3 python3-venv
    mkdir -p "$build"
}
can_build_python() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

# --- book --------------------------------------------------------------------------------------

mdbook_version=0.5.4
# Draws timing and formats: tasks/drawings.py.
wavedrom=wavedrom==2.0.3.post3
# docs/SUMMARY.md is its table of contents; a test holds it to the pages that there are.
x_book() {
    local python="$build/book-python"
    set_up
    set_up_python
    crate_program mdbook "$mdbook_version" mdbook
    { python3 -m venv "$python" && "$python/bin/pip" install -q "$wavedrom"; } || fail "$wavedrom of PyPI could not be installed, see above"
    PATH=$(realpath "$python")/bin:$PATH
    shown mdbook build --dest-dir "$(realpath "$build")/book" || fail "the book could not be built, see above"
    say "the book is $build/book/index.html"
}

# --- web ---------------------------------------------------------------------------------------

# What is built is checked in: nobody else needs Node.js.
x_web() {
    programs "node and npm: build the page" node:nodejs npm:npm
    (cd web && shown npm ci --ignore-scripts --no-audit --no-fund && shown npm run build) ||
        fail "the page could not be built, see above"
    say "the page is crates/dashboard/src/page.html, its policy page.csp beside it"
}
