#!/usr/bin/env python3
"""Checks a software bill of materials: it has each crate that Cargo says the program links, by version, with a licence."""

import json
import re
import subprocess
import sys


def linked() -> set[tuple[str, str]]:
    """Crates that are linked into the program on this system, as Cargo says."""
    command = ["cargo", "tree", "-p", "paceline", "--edges", "normal", "--prefix", "none", "--format", "{p}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = (re.match(r"(\S+) v(\S+)", line) for line in lines)
    return {(match[1], match[2]) for match in found if match}


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        bill = json.load(file)
    parts = bill["components"] + [bill["metadata"]["component"]]
    listed = {(part["name"], part["version"]) for part in parts}
    wanted = {crate for crate in linked()}
    missing = sorted(wanted - listed)
    unlicensed = sorted(part["name"] for part in bill["components"] if not part.get("licenses"))
    if missing or unlicensed:
        sys.exit(f"{sys.argv[1]}: not listed: {missing}; without a licence: {unlicensed}")
    print(f"{len(wanted)} crates are linked, and {len(listed)} listed, each with version and licence")


if __name__ == "__main__":
    main()
