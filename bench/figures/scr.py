#!/usr/bin/env python3
"""The table of docs/scr.md (compare), and what each program costs (plan). usage: scr.py PACELINE FOLDER [plan|compare]

Each row is one run of PACELINE, whose JSON stays in FOLDER. Prints Markdown; progress goes to stderr.
"""

import os
import subprocess
import sys

from program import run

CONNECTIONS = "datacenter:packets={packets},flows={flows},concurrent={flows},sizes=fixed:60"
WORKLOADS = [
    ("one flow", "single-flow:packets=50000,sizes=fixed:60"),
    ("10 flows", CONNECTIONS.format(packets=50000, flows=10)),
    ("1,000 flows", CONNECTIONS.format(packets=100000, flows=1000)),
    ("`university`", "university:packets=200000,sizes=fixed:60"),
]
# With t / c2 of the paper's Table 4, ns.
PROGRAMS = [
    ("ddos", "126 / 13"),
    ("heavy-hitters", "138 / 17"),
    ("policer", "153 / 22"),
    ("port-knock", "128 / 15"),
    ("conntrack", "140 / 39"),
]
CORES = [2, 4, 7]
# What is added to the dispatch of packets from memory, ns: so that it is some 105 in all, as AF_XDP's copy takes.
ADDED = 90
# With what is added to dispatch in each.
COMPARED = [
    ("ddos", "`university`", WORKLOADS[3][1], [0, ADDED]),
    ("heavy-hitters", "`university`", WORKLOADS[3][1], [ADDED]),
    ("policer", "`university`", WORKLOADS[3][1], [ADDED]),
    ("port-knock", "`university`", WORKLOADS[3][1], [ADDED]),
    ("conntrack", "`university`", WORKLOADS[3][1], [0, ADDED]),
    ("ddos", "one connection", WORKLOADS[0][1], [0, ADDED]),
]


def chain(folder, program):
    """A chain file with one function."""
    path = os.path.join(folder, program + ".toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'[[function]]\nuse = "{program}"\nflows = 131072\n')
    return path


def costs(paceline, folder):
    """What a packet and an item of history cost, and the rates that this leaves."""
    rows, machine = [], ""
    for program, paper in PROGRAMS:
        for number, (workload, model) in enumerate(WORKLOADS):
            arguments = ["plan", chain(folder, program), "--traffic", model, "--rounds", "9", "--packets", "100000"]
            report = run(paceline, folder, f"plan-{program}-{number}", arguments)
            measured, machine = report["measured"], report["machine"]
            replay = measured["replay_ns"]
            alone = measured["dispatch_ns"]["median"] + measured["compute_ns"]["median"]
            rates = {check["cores"]: check["measured_mpps"] for check in report["checks"]}
            rates = [1000 / alone] + [rates[cores] for cores in CORES]
            rows.append([
                program if number == 0 else "",
                workload,
                f"{alone:.0f}",
                f"{replay['median']:.1f} ({replay['lowest']:.1f} to {replay['highest']:.1f})",
                f"{alone / replay['median']:.1f}",
                f"{measured['carry_ns']['median']:.0f}",
                f"{measured['sequencer_ns']['median']:.0f}",
                " / ".join(f"{rate:.1f}" for rate in rates),
                paper if number == 0 else "",
            ])
    head = ["program", "workload", "*t*", "*c2*", "*t* / *c2*", "carry", "sequencer",
            "Mpps on 1 / 2 / 4 / 7 cores", "paper: *t* / *c2*"]
    table(head, rows, machine)


def rates(paceline, folder):
    """The highest rates beside `rss`."""
    rows, machine = [], ""
    for program, name, model, dispatches in COMPARED:
        for dispatch in dispatches:
            arguments = ["bench", "compare", chain(folder, program), "--traffic", model,
                         "--strategies", "single,rss,scr,scr-turns", "--cores", ",".join(map(str, CORES)), "--virtual",
                         "--searches", "3", "--packets", "200000", "--latency", "", "--dispatch-ns", str(dispatch)]
            report = run(paceline, folder, f"compare-{program}-{len(rows)}", arguments)
            machine = report["machine"]
            points = {series["strategy"]: series["points"] for series in report["series"]}
            one = points["single"][0]["mpps"]
            last = points["scr"][-1]["sequencer"]

            def over_one(strategy):
                return " / ".join(f"{rate(point)} ({point['mpps'] / one:.1f})" for point in points[strategy])

            rows.append([
                f"{program} over {name}" if dispatch == dispatches[0] else "",
                "memory" if dispatch == 0 else f"{dispatch} ns more",
                rate(points["single"][0]),
                over_one("rss"),
                over_one("scr"),
                over_one("scr-turns"),
                f"{last['busy']:.0%}, {last['packet_ns']:.0f}",
            ])
    head = ["program over traffic", "dispatch", "one core", "`rss` on 2 / 4 / 7", "`scr` on 2 / 4 / 7",
            "`scr-turns` on 2 / 4 / 7", "sequencer on 7: busy, ns a packet"]
    table(head, rows, machine)


def rate(point):
    """With a mark where the program says that it is not to be relied on."""
    return f"{point['mpps']:.1f}" + ("*" if point["notes"] else "")


def table(head, rows, machine):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
    load = os.getloadavg()[0]
    print(f"Machine: {machine}. Commit {commit.stdout.strip()}. Load at the end {load:.1f}.\n")
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")
    print()


def main():
    paceline, folder, *parts = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    for part, make in [("plan", costs), ("compare", rates)]:
        if not parts or part in parts:
            make(paceline, folder)


main()
