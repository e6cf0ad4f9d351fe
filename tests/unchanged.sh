#!/usr/bin/env bash
# Runs a test program, unless it passed before and nothing that it depends on has changed since. Then it repeats the
# counts of that run, and which tests were skipped. `./x test` has cargo call it with each test program. usage: unchanged.sh PROGRAM [ARGUMENT...]
#
# What a program depends on: itself, its arguments, `paceline` where it starts that, and INPUTS, a digest of all files that
# are read at run time, of the kernel and of the user. PASSED is the folder of what passed, BUILD that of the programs.
set -uo pipefail
program=$1

case $program in
    */tidy-*) exec "$@" ;;     # It reads the sources of all crates.
    "$BUILD"/*) ;;
    *) exec "$@" ;;            # A documentation test, compiled under another name each time.
esac

digest() {
    echo "$INPUTS" "${@:2}"
    sha256sum <"$program"
    # Cargo compiles the path of what a test starts into the test.
    ! grep -qaF "$BUILD/debug/paceline" "$program" || sha256sum <"$BUILD/debug/paceline"
}
note=$PASSED/$(digest "$@" | sha256sum | cut -c 1-32)

if [ -e "$note" ]; then
    echo "unchanged since it passed: ${program##*/}"
    sed 's/^test result: ok\./test result: unchanged./' "$note"
    exit 0
fi
"$@" | tee "$note.$$"
status=${PIPESTATUS[0]}
if [ "$status" = 0 ] && grep -q '^test result: ok\.' "$note.$$"; then
    grep -E '^(test result: ok\.|skipped: )' "$note.$$" >"$note.found" && mv "$note.found" "$note"
fi
rm -f "$note.$$" "$note.found"
exit "$status"
