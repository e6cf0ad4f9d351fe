#!/usr/bin/env bash
# Builds the Python package and tries it. `./x python` installs what that takes, and runs this.
#   python/x.sh BUILD test      the wheel, built for tests; its tests, types and what `auditwheel` says of it
#   python/x.sh BUILD notebooks the notebooks, in the environment that `test` left
#   python/x.sh BUILD cluster   a sweep of 500 captures over two Ray workers, of which one is killed, in the environment that `test` left
#   python/x.sh BUILD wheel     BUILD/packages/paceline-VERSION-cp310-abi3-PLATFORM.whl, optimised, with the program in it
#   python/x.sh BUILD reports   python/paceline/reports/*.py anew, from docs/*.schema.json
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "$1")
venv=$build/python/venv
# What the package is built and checked with. What it is tried with may be any version.
tools=(maturin==1.16.0 auditwheel==6.8.2 datamodel-code-generator==0.89.0)
users=(pytest mypy pyarrow pyarrow-stubs polars pandas pandas-stubs nbclient ipykernel ray tqdm types-tqdm duckdb obstore 'moto[server]')

say() { echo "python: $*"; }

environment() {
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    [ "$(cat "$venv/installed" 2>/dev/null)" = "${tools[*]} ${users[*]}" ] && return
    say "from PyPI, into $venv: ${tools[*]} ${users[*]}"
    "$venv/bin/pip" install -q --disable-pip-version-check "${tools[@]}" "${users[@]}"
    echo "${tools[*]} ${users[*]}" >"$venv/installed"
}

# A wheel of the library, and of the program beside it.
wheel() { # folder, maturin's options...
    local folder=$1 profile=debug option=() locked=()
    [ "${2:-}" != --release ] || profile=release option=(--release)
    [ "${CI:-}" != true ] || locked=(--locked)
    cargo build -p paceline "${option[@]}" "${locked[@]}"
    mkdir -p python/paceline.data/scripts "$folder"
    install -m 755 "$build/$profile/paceline" python/paceline.data/scripts/paceline
    [ $profile = release ] || strip --strip-debug python/paceline.data/scripts/paceline
    rm -f "$folder"/paceline-*.whl
    (cd python && PYO3_PYTHON=$venv/bin/python "$venv/bin/maturin" build "${option[@]}" "${locked[@]}" --strip \
        --interpreter "$venv/bin/python" --out "$folder")
    rm -rf python/paceline.data
    say "$(ls "$folder"/paceline-*.whl), $(($(stat -c %s "$folder"/paceline-*.whl) / 1000000)) MB"
}

audit() { # folder
    local said
    said=$("$venv/bin/auditwheel" show "$1"/paceline-*.whl | tr -s ' \n' ' ')
    say "auditwheel: $said"
    # A wheel that needs more than every Linux has is bound to this one.
    [[ $said == *'"manylinux_'* ]] || { say "the wheel is bound to this system, see above" && return 1; }
}

# Modules of dataclasses, each with the schema that it is made from.
modules=(run:run verify:verify plan:plan compare:bench-compare p4_run:p4-run emulate:emulate)
reports() { # folder
    local each name schema
    mkdir -p "$1"
    for each in "${modules[@]}"; do
        name=${each%:*} schema=docs/${each#*:}.schema.json
        "$venv/bin/python" -W ignore -m datamodel_code_generator --input "$schema" --input-file-type jsonschema \
            --output "$1/$name.py" --output-model-type dataclasses.dataclass --frozen-dataclasses \
            --target-python-version 3.10 --use-schema-description --use-field-description --use-inline-field-description \
            --use-union-operator --use-standard-collections --disable-timestamp --formatters builtin \
            --custom-file-header "\"\"\"What \`$name\` reports. Made from $schema by \`./x python reports\`.\"\"\""
        # A sentence on a line of its own has its quotes there, too.
        perl -0pi -e 's/"""\n +([^\n]+)\n +"""/"""$1"""/g; s/\n\n(    \w+: )/\n$1/g' "$1/$name.py"
    done
}

case ${2:-test} in
    test)
        environment
        wheel "$build/python/wheel"
        audit "$build/python/wheel"
        "$venv/bin/pip" install -q --disable-pip-version-check --force-reinstall --no-deps "$build"/python/wheel/paceline-*.whl
        reports "$build/python/reports"
        for name in "${modules[@]%:*}"; do
            cmp "$build/python/reports/$name.py" "python/paceline/reports/$name.py" ||
                { say "$name.py is not what the schema says: ./x python reports" && exit 1; }
        done
        # From the folder of the tests, so that the wheel is imported and not the sources.
        (cd python/tests && "$venv/bin/python" -m pytest -q -p no:cacheprovider --rootdir .. --config-file ../pyproject.toml .)
        (cd python/tests && "$venv/bin/mypy" --config-file ../pyproject.toml --cache-dir "$build/python/mypy" typed.py)
        # The stub says what the compiled part has, and nothing else.
        (cd python/tests && "$venv/bin/stubtest" paceline._native --mypy-config-file ../pyproject.toml)
        "$venv/bin/mypy" --config-file python/pyproject.toml --cache-dir "$build/python/mypy" -p paceline
        ;;
    notebooks)
        [ -x "$venv/bin/jupyter-execute" ] || { say "nothing is built yet: ./x python" && exit 1; }
        for notebook in python/notebooks/*.ipynb; do
            "$venv/bin/python" - "$notebook" <<'RUN'
import sys, nbformat, nbclient
notebook = nbformat.read(sys.argv[1], as_version=4)
nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": "."}}).execute()
RUN
            say "$notebook runs"
        done
        ;;
    cluster)
        [ -x "$venv/bin/paceline" ] || { say "nothing is built yet: ./x python" && exit 1; }
        (cd python/tests && PACELINE_SWEPT=${3:-500} "$venv/bin/python" -m pytest -q -s -p no:cacheprovider --rootdir .. \
            --config-file ../pyproject.toml test_ray.py -k lost_cost)
        ;;
    wheel)
        environment
        wheel "$build/packages" --release
        audit "$build/packages"
        ;;
    reports) environment && reports python/paceline/reports ;;
    *) say "no '$2'; there are test, notebooks, cluster, wheel and reports" && exit 1 ;;
esac
