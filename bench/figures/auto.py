#!/usr/bin/env python3
"""The table of docs/auto.md: what `auto` comes to rest at, beside the best strategy and number of cores by hindsight.

usage: auto.py PACELINE FOLDER [CAPTURE...]

Each row is two runs of PACELINE, whose JSON stays in FOLDER. Prints Markdown; progress goes to stderr. Rates are those of virtual
cores (`paceline bench compare --virtual`). What `auto` predicts from is what `paceline plan` measures; where it tries a strategy that
moves or promotes flows, it learns from that how far it falls short, as `control::Chooser` does.
"""
import os
import sys

from program import run

CHAIN = "examples/edge.toml"
CORES = 7
PACKETS = 150_000
MODELS = ["uniform", "zipf", "elephant", "datacenter", "backbone", "university", "single-flow", "syn-flood", "port-scan"]
COMMON = ["--dispatch-ns", "105"]
# As in `control::Chooser`.
GAIN, CORE, LOST = 1.05, 0.995, 0.01
# What may take part: all but `shared`, as in a run of `auto`.
STRATEGIES = ["single", "rss", "rsspp", "dyssect", "scr", "scr-turns", "hybrid"]
# Those that move or promote flows: what is predicted of them holds if flows are where they should be.
MOVING = ["rsspp", "dyssect", "hybrid"]


def restlessness(strategy, point, packet_us, balanced):
    """How much longer the busiest core is busy than the model has it."""
    if point["loss"] > LOST:
        # While packets are lost cores count as busy all the time.
        busy = 1.0
    elif strategy not in MOVING:
        return 1.0
    elif strategy == "rsspp":
        loads = [load for load in point["loads"] if 4 * len(point["loads"]) * load["share"] >= 1]
        each = min(load["busy"] / (load["share"] * (1 - load["loss"])) for load in loads)
        busy = max(load["share"] for load in loads) * each
    else:
        # Shares are of queues there, and cores step packets of others, too.
        busy = max(load["busy"] for load in point["loads"])
    return max(1.0, busy / point["mpps"] / (balanced * packet_us))


def row(paceline, folder, name, packets):
    plan = run(paceline, folder, f"auto-{name}-plan", [
        "plan", CHAIN, *packets, *COMMON, "--cores", str(CORES), "--rounds", "5",
    ])
    cores = ",".join(str(cores) for cores in range(1, CORES + 1))
    found = run(paceline, folder, f"auto-{name}-compare", [
        "bench", "compare", CHAIN, *packets, *COMMON, "--virtual", "--cores", cores,
        "--strategies", ",".join(STRATEGIES), "--rebalance-ms", "1", "--packets", str(PACKETS),
        "--searches", "1", "--latency", "",
    ])
    points = {(series["strategy"], point["cores"]): point for series in found["series"] for point in series["points"]}
    predicted = {
        (choice["strategy"], choice["cores"]): choice["mpps"]
        for choice in plan["choices"]
        if choice["strategy"] in STRATEGIES
    }
    single = predicted["single", 1]
    now, restless, tried = ("rss", CORES), {}, []
    # What `rss` loses others are expected to lose as long as they have not run.
    rate = lambda choice: predicted[choice] / restless.get(choice[0], restless.get("rss", 1.0))
    worth = lambda choice: rate(choice) * CORE ** (choice[1] - 1)
    packet_us = 1 / points["single", 1]["mpps"]
    while now not in tried:
        tried.append(now)
        restless[now[0]] = restlessness(now[0], points[now], packet_us, single / predicted[now])
        if worth(best := max(predicted, key=worth)) >= GAIN * worth(now):
            now = best
    mpps = {choice: point["mpps"] for choice, point in points.items()}
    hindsight = max(mpps, key=mpps.get)
    text = lambda choice: f"`{choice[0]}` on {choice[1]}"
    print(
        f"| `{name}` | {text(hindsight)} | {mpps[hindsight]:.1f} | {text(now)} | {rate(now):.1f} | {mpps[now]:.1f} |"
        f" {mpps[now] / mpps[hindsight]:.2f} |",
        flush=True,
    )


def main():
    paceline, folder, *captures = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    print("| traffic | best by hindsight | Mpps | `auto` comes to rest at | predicted | measured | of the best |")
    print("|---|---|---|---|---|---|---|")
    for model in MODELS:
        row(paceline, folder, model, ["--traffic", f"{model}:packets={PACKETS}"])
    for capture in captures:
        row(paceline, folder, capture.rsplit("/")[-1], ["--pcap", capture])


main()
