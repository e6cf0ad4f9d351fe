# shellcheck shell=bash
# ./x dependencies and release: what a release is made of, and what it changes for users of the crates.

cargo_deny_version=0.20.2
cargo_cyclonedx_version=0.5.9
cargo_semver_checks_version=0.51.0

# --- dependencies ------------------------------------------------------------------------------

# Licences, versions, origins and advisories of all crates, and what the program is made of as a list.
x_dependencies() {
    set_up
    crate_program cargo-deny "$cargo_deny_version" cargo deny
    crate_program cargo-cyclonedx "$cargo_cyclonedx_version" cargo cyclonedx
    dependency_steps
    summary dependencies ""
}

has_dependency_tools() {
    [[ $(cargo deny --version 2>/dev/null) = *" $cargo_deny_version" &&
        $(cargo cyclonedx --version 2>/dev/null) = *" $cargo_cyclonedx_version" ]]
}

dependency_steps() {
    step "licences, versions and origins" cargo deny --offline --locked check --hide-inclusion-graph licenses bans sources
    if timeout 60 cargo deny fetch db >/dev/null 2>&1; then
        step "advisories" cargo deny --offline --locked check advisories
    else
        say "skipped: advisories, whose database could not be fetched: is there a network that reaches it?"
    fi
    step "what the program is made of" bill_of_materials
}

# A software bill of materials in CycloneDX: each crate that the program links, with version, licence and checksum.
bill_of_materials() {
    local name=paceline-sbom made=crates/cli/paceline-sbom.json
    mkdir -p "$build/packages"
    # Beside each crate's manifest one is made; the program's is kept.
    cargo cyclonedx --manifest-path crates/cli/Cargo.toml --format json --spec-version 1.5 --no-build-deps \
        --target "$(rustc -vV | sed -n 's/^host: //p')" --override-filename "$name" --quiet || return
    find crates tests bench -maxdepth 3 -name "$name*.json" ! -path "$made" -delete
    # Crates of these sources are told by their paths, without the place where these lie.
    sed "s|$PWD/||g" "$made" >"$build/packages/paceline.cdx.json" && rm "$made" || return
    tests/sbom-is-whole.py "$build/packages/paceline.cdx.json" || return
    say "the list is $build/packages/paceline.cdx.json"
}

# --- release -----------------------------------------------------------------------------------

# Whether all crates can be published, and whether what others use of them is what it was in the release before.
x_release() { # [commit or tag before]
    local before=${1:-}
    set_up
    [ -n "$before" ] || before=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
    # As they would be published: each crate has what it is built from.
    step "packaged crates" cargo publish --dry-run --workspace --allow-dirty --quiet
    if [ -z "$before" ]; then
        say "skipped: changes of the crates' interfaces: there is no release before (./x release COMMIT compares with a commit)"
    else
        crate_program cargo-semver-checks "$cargo_semver_checks_version" cargo semver-checks
        step "interfaces since $before" interfaces "$before"
    fi
    summary release ""
}

# Crates whose users are outside: those that functions, strategies and programs of one's own are written with.
interfaces() { # commit or tag
    local crate options=()
    for crate in ${PACELINE_CRATES:-wire nf engine paceline}; do
        options+=(-p "$([ "$crate" = paceline ] || echo paceline-)$crate")
    done
    CARGO_TARGET_DIR="$build/semver" cargo semver-checks "${options[@]}" --baseline-rev "$1"
}
