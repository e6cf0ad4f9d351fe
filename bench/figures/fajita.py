#!/usr/bin/env python3
"""The tables of docs/fajita.md: what each principle of FAJITA (CoNEXT'24) is worth here. usage: fajita.py PACELINE FOLDER [NUMBER...]

NUMBER is a figure of the paper: 9, 10, 11, 12, 14, 15, 16, 17. Each cell is the median of ROUNDS runs of PACELINE, in turns with the
others of its row; the JSON of each stays in FOLDER. Prints Markdown; progress goes to stderr.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys

from program import run

ROUNDS = 3
SECONDS = "1"

# How packets go: a batch looked up together with lines asked for ahead, without asking, and packet by packet.
BATCHED = ("a batch, lines asked for", [], {})
UNASKED = ("a batch, none asked for", [], {"PACELINE_PREFETCH": "off"})
ONE_BY_ONE = ("packet by packet", ["--batch", "1"], {"PACELINE_PREFETCH": "off"})
WAYS = [ONE_BY_ONE, UNASKED, BATCHED]

STATISTICS = '[[function]]\nuse = "flow-statistics"\nflows = {flows}\n'
SERVICE = """[[function.services]]
vip = "0.0.0.0/0"
port = "any"
protocol = "{protocol}"
backends = [{{ address = "203.0.113.1" }}, {{ address = "203.0.113.2" }}, {{ address = "203.0.113.3" }}]
"""
BALANCER = ('[[function]]\nuse = "load-balancer"\nflows = {flows}\npolicy = "round-robin"\n'
            + SERVICE.replace("{protocol}", "udp") + SERVICE.replace("{protocol}", "tcp"))
# Limits that nothing exceeds, so that no packet is spared the functions behind.
LIMIT = "rate_packets_per_s = 100000000\nburst_packets = 100000000\n"
LIMITER = '[[function]]\nuse = "rate-limiter"\nflows = {flows}\n' + LIMIT
SOURCES = '[[function]]\nuse = "source-statistics"\nflows = {flows}\n'
POLICER = '[[function]]\nuse = "destination-policer"\nflows = {flows}\nrate_bytes_per_s = 10000000000\nburst_bytes = 10000000000\n'
# The paper's chain of three: who is behind a balancer sees other addresses, so it is the last.
THREE = [STATISTICS, LIMITER, BALANCER]
# What stands before the balancer in longer and longer chains.
BEFORE = [STATISTICS, LIMITER, STATISTICS, LIMITER]


class Figures:
    """Runs the program, and keeps what it reports in a folder."""

    def __init__(self, paceline, folder):
        self.paceline, self.folder, self.machine, self.runs = paceline, folder, "", 0

    def chain(self, name, functions, flows=2097152):
        """A chain file of functions with room for so many flows."""
        path = os.path.join(self.folder, name + ".toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f'name = "{name}"\n' + "".join(function.format(flows=flows) for function in functions))
        return path

    def bench(self, chain, options, environment):
        """What one run of `bench chain` reports."""
        self.runs += 1
        report = run(self.paceline, self.folder, f"chain-{self.runs}",
                     ["bench", "chain", chain, *options, "--seconds", SECONDS], environment)
        machine = report["machine"]
        self.machine = f"{machine['processor']}, {machine['processors']} processors, Linux {machine['kernel']}"
        return report

    def in_turns(self, cells):
        """Medians of the rates of several runs, Mpps, measured in turns: a cell is a chain, options and an environment."""
        rates = [[] for _ in cells]
        for _ in range(ROUNDS):
            for rate, cell in zip(rates, cells):
                report = self.bench(*cell)
                assert sum(report["drop_reasons"].values()) == report["drops"]
                # Of processor time where the system says it: others' work on a shared machine does not count.
                ns = report["processor_ns_per_packet"] or report["ns_per_packet"]
                rate.append(report["cores"] * 1000 / ns)
        return [statistics.median(rate) for rate in rates]

    def table(self, title, head, rows):
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
        print(f"{title}\n\nMachine: {self.machine}. Commit {commit.stdout.strip()}. Load at the end {os.getloadavg()[0]:.1f}.\n")
        for row in [head, ["---"] * len(head), *rows]:
            print("| " + " | ".join(row) + " |")
        print(flush=True)


def uniform(flows, frame_bytes=60):
    """Packets of so many flows, each as likely; as many packets as give all of them a few."""
    packets = max(1048576, 2 * flows)
    return ["--flows", str(flows), "--uniform", "--packets", str(packets), "--frame-bytes", str(frame_bytes)]


def human(flows):
    return f"{flows // 1048576} M" if flows >= 1048576 else f"{flows // 1024} k"


def figure_14(figures):
    """What each principle is worth: statistics alone."""
    chain = figures.chain("statistics", [STATISTICS])
    rows = []
    for flows in [1024, 131072, 1048576]:
        rates = figures.in_turns([(chain, uniform(flows) + options, environment) for _, options, environment in WAYS])
        rows.append([human(flows)] + [f"{rate:.1f}" for rate in rates]
                    + [f"{rates[1] / rates[0]:.2f}, {rates[2] / rates[1]:.2f}"])
    figures.table("Figure 14, Mpps of one core: statistics alone", ["flows", *[way[0] for way in WAYS],
                  "what the batch gives, and what asking gives"], rows)


def figure_15(figures):
    """Flows and last-level misses."""
    chain = figures.chain("statistics", [STATISTICS], flows=8388608)
    rows = []
    for flows in [1024, 16384, 131072, 1048576, 4194304]:
        options = uniform(flows)
        rates = figures.in_turns([(chain, options + way[1], way[2]) for way in WAYS])
        # A run under cachegrind has few packets: more flows than it replays would say nothing.
        counted = [misses(figures, chain, options + way[1], way[2]) if flows <= 1048576 else "" for way in (ONE_BY_ONE, BATCHED)]
        rows.append([human(flows)] + [f"{rate:.1f}" for rate in rates] + counted)
    figures.table("Figure 15, Mpps of one core, and last-level misses a packet (cachegrind): statistics alone",
                  ["flows", *[way[0] for way in WAYS], "misses, packet by packet", "misses, a batch"], rows)


def misses(figures, chain, options, environment):
    """Data misses of the last level, a packet, by cachegrind: of a longer run less a shorter one, so that what is done
    before the first packet and while flows begin is left out."""
    if not shutil.which("valgrind"):
        return "no valgrind"
    counts = []
    for seconds in ["4", "12"]:
        path = os.path.join(figures.folder, "cachegrind.json")
        command = ["valgrind", "--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null", figures.paceline,
                   "bench", "chain", chain, *options, "--seconds", seconds, "--json", path]
        print(" ".join(command), file=sys.stderr)
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **environment})
        missed = next(line for line in done.stderr.splitlines() if "LLd misses" in line)
        with open(path, encoding="utf-8") as report:
            counts.append((int(missed.split(":")[1].split("(")[0].replace(",", "")), json.load(report)["packets"]))
    (less, few), (more, many) = counts
    return f"{(more - less) / (many - few):.2f}"


def figure_16(figures):
    """Workloads: statistics, balancer and limiter."""
    chain = figures.chain("three", THREE)
    packets = "packets=1000000,sizes=fixed:60"
    models = [("1 M flows, evenly", f"uniform:flows=1048576,{packets}"), ("1 M flows, Zipf 1.1", f"zipf:flows=1048576,a=1.1,{packets}"),
              ("`backbone`", f"backbone:{packets}"), ("`datacenter`", f"datacenter:{packets}"), ("`university`", f"university:{packets}")]
    rows = []
    for name, model in models:
        rates = figures.in_turns([(chain, ["--traffic", model] + options, environment) for _, options, environment in WAYS])
        rows.append([name] + [f"{rate:.1f}" for rate in rates] + [f"{rates[2] / rates[0]:.2f}"])
    figures.table("Figure 16, Mpps of one core: statistics, balancer, limiter",
                  ["traffic", *[way[0] for way in WAYS], "the last over the first"], rows)


def figure_17(figures):
    """Prefetches of states that lie elsewhere: chains of synthetic functions with one access each."""
    rows = []
    for functions in [1, 2, 4, 6, 8]:
        chains = []
        for asks in ["false", "true"]:
            text = [f'[[function]]\nuse = "synthetic"\nflows = {{flows}}\naccesses = 1\n'
                    f'bytes = 67108864\nseed = {number + 1}\nprefetch = {asks}\n' for number in range(functions)]
            chains.append(figures.chain(f"synthetic-{functions}-{asks}", text, flows=262144))
        rates = figures.in_turns([(chain, uniform(131072), {}) for chain in chains])
        rows.append([str(functions)] + [f"{rate:.1f}" for rate in rates] + [f"{rates[1] / rates[0]:.2f}"])
    figures.table("Figure 17, Mpps of one core: functions that each read one line of 64 MiB",
                  ["functions", "lines not asked for", "asked for", "times"], rows)


def figure_9(figures):
    """States that cores share, without and with auxiliary tables, and their misses (Figure 18)."""
    chain = figures.chain("mixed-keys", [SOURCES, POLICER, BALANCER], flows=1048576)
    rows = []
    for flows in [1024, 131072, 1048576]:
        for cores in [1, 2]:
            options = uniform(flows) + ["--cores", str(cores)]
            ways = [(chain, options + ["--without-auxiliary-tables"], {}), (chain, options, {})]
            rates = figures.in_turns(ways)
            counted = [misses(figures, *way) if cores == 1 else "" for way in ways]
            rows.append([human(flows), str(cores)] + [f"{rate:.2f}" for rate in rates] + [f"{rates[1] / rates[0]:.2f}"] + counted)
    figures.table("Figures 9 and 18, Mpps, and last-level misses a packet (cachegrind): statistics of sources, policer of destinations, balancer",
                  ["flows", "cores", "without auxiliary tables", "with", "times", "misses without", "with"], rows)


def figure_10(figures):
    """Chains of one to five functions, on real and virtual cores."""
    rows = []
    traffic = "backbone:packets=500000,sizes=fixed:60"
    for functions in range(1, 6):
        chain = figures.chain(f"chain-{functions}", BEFORE[: functions - 1] + [BALANCER], flows=262144)
        real = figures.in_turns([(chain, ["--traffic", traffic, "--cores", str(cores)], {}) for cores in [1, 2]])
        report = run(figures.paceline, figures.folder, f"virtual-{functions}",
                     ["bench", "compare", chain, "--traffic", traffic, "--strategies", "rss", "--cores", "1,4,8,16", "--virtual",
                      "--searches", "1", "--latency", ""])
        points = [point["mpps"] for point in report["series"][0]["points"]]
        rows.append([str(functions)] + [f"{rate:.1f}" for rate in real] + [f"{rate:.1f}" for rate in points]
                    + [f"{points[-1] / points[0]:.1f}"])
    figures.table("Figure 10, Mpps over `backbone`, two real cores, and virtual cores behind a simulated card",
                  ["functions", "1 core", "2", "virtual 1", "4", "8", "16", "16 over 1"], rows)


def figure_11(figures):
    """Frame sizes: statistics, balancer and limiter."""
    chain = figures.chain("three", THREE)
    rows = []
    for length in [60, 124, 252, 508, 1020, 1514]:
        rates = figures.in_turns([(chain, uniform(131072, length) + options, environment) for _, options, environment in WAYS])
        rows.append([f"{length}"] + [f"{rate:.1f} ({rate * (length + 24) * 8 / 1000:.0f})" for rate in rates])
    figures.table("Figure 11, Mpps of one core (Gbit/s on the wire): statistics, balancer, limiter, 128 k flows",
                  ["bytes of a frame", *[way[0] for way in WAYS]], rows)


def figure_12(figures):
    """Load imbalance by RSS and what it costs, beside Dyssect: eight virtual cores."""
    chain = figures.chain("statistics-alone", [STATISTICS], flows=65536)
    rows = []
    for flows in [16, 32, 100, 300, 1000, 10000]:
        report = run(figures.paceline, figures.folder, f"imbalance-{flows}",
                     ["bench", "compare", chain, "--traffic", f"uniform:flows={flows},packets=200000,sizes=fixed:60",
                      "--strategies", "rss,dyssect", "--cores", "8", "--virtual", "--searches", "1", "--latency", "", "--loss", "0.01"])
        points = {series["strategy"]: series["points"][-1] for series in report["series"]}

        def imbalance(point):
            shares = [load["share"] for load in point["loads"]]
            return f"{1 - min(shares) / max(shares):.0%}"

        rss, dyssect = points["rss"], points["dyssect"]
        rows.append([str(flows), f"{rss['mpps']:.1f}", imbalance(rss), f"{dyssect['mpps']:.1f}", imbalance(dyssect)])
    figures.table("Figures 12 and 13, Mpps of 8 virtual cores with less than 1% lost: statistics alone",
                  ["flows", "`rss`", "fullest core over emptiest", "`dyssect`", "fullest over emptiest"], rows)


FIGURES = {"14": figure_14, "15": figure_15, "16": figure_16, "17": figure_17, "9": figure_9, "10": figure_10, "11": figure_11,
           "12": figure_12}


def main():
    paceline, folder, *numbers = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    figures = Figures(os.path.abspath(paceline), folder)
    for number in numbers:
        if number not in FIGURES:
            sys.exit(f"no figure {number}; there are {', '.join(FIGURES)} (18 is with 9, 13 with 12)")
    for number, make in FIGURES.items():
        if not numbers or number in numbers:
            make(figures)


main()
