#!/usr/bin/env python3
"""For docs/auto.md: what `auto` comes to rest at, beside the best strategy and number of cores by hindsight.

usage: auto.py PACELINE FOLDER [CAPTURE...]

Each row is three runs of PACELINE, whose JSON stays in FOLDER. Prints Markdown; progress goes to stderr. Rates are those of virtual
cores (`paceline bench compare --virtual`). What `auto` predicts from is what `paceline plan` measures; where it tries a strategy that
moves or promotes flows, it learns from that how far it falls short, as `control::Chooser` does.
"""
import functools
import os
import sys

from program import run

CHAIN = "examples/edge.toml"
CORES = 7
PACKETS = 150_000
MODELS = ["uniform", "zipf", "elephant", "datacenter", "backbone", "university", "single-flow", "syn-flood", "port-scan"]
COMMON = ["--dispatch-ns", "105"]
# As in `control::Chooser`.
GAIN, LASTING, CORE, LOST, FORGOTTEN = 1.05, 3, 0.995, 0.01, 0.01
# A minute of those of 100 ms. The second half counts.
EPOCHS = 600
# What may take part: all but `shared`, as in a run of `auto`.
STRATEGIES = ["single", "rss", "rsspp", "dyssect", "scr", "scr-turns", "hybrid"]
# The highest of many searches is high by luck, too: the first so many of them, and the choice, are measured again, with so many searches in turns.
FIRST, SEARCHES = 3, 5
# Those that move or promote flows: what is predicted of them holds if flows are where they should be.
MOVING = ["rsspp", "dyssect", "hybrid"]


def restlessness(strategy, point, packet_us, balanced):
    """How much longer the busiest core is busy than the model predicts."""
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


def epochs(predicted, factor):
    """What runs in each of `EPOCHS`, and what is expected of a choice at their end."""
    now, restless, ahead, ran = ("rss", CORES), {}, (None, 0), []
    # What `rss` loses others are expected to lose as long as they have not run.
    usual = lambda: restless.get("rss", 1.0)
    rate = lambda choice: predicted[choice] / restless.get(choice[0], usual())
    worth = lambda choice: rate(choice) * CORE ** (choice[1] - 1)
    for _ in range(EPOCHS):
        ran.append(now)
        of_rss, known = usual(), restless.get(now[0], usual())
        for strategy in restless:
            restless[strategy] += ((1.0 if strategy == "rss" else of_rss) - restless[strategy]) * FORGOTTEN
        restless[now[0]] = (known + factor(now)) / 2
        best = max(predicted, key=worth)
        if worth(best) < GAIN * worth(now):
            ahead = (None, 0)
            continue
        ahead = (best[0], ahead[1] + 1 if ahead[0] == best[0] else 1)
        if ahead[1] == LASTING:
            now, ahead = best, (None, 0)
    return ran, rate


def points_of(comparison):
    return {(series["strategy"], point["cores"]): point for series in comparison["series"] for point in series["points"]}


def row(paceline, folder, name, packets):
    plan = run(paceline, folder, f"auto-{name}-plan", [
        "plan", CHAIN, *packets, *COMMON, "--cores", str(CORES), "--rounds", "5",
    ])
    measure = lambda of_what, cores, strategies, searches: points_of(run(paceline, folder, f"auto-{name}-{of_what}", [
        "bench", "compare", CHAIN, *packets, *COMMON, "--virtual", "--cores", ",".join(map(str, sorted(cores))),
        "--strategies", ",".join(strategies), "--rebalance-ms", "1", "--packets", str(PACKETS),
        "--searches", str(searches), "--latency", "",
    ]))
    points = measure("compare", range(1, CORES + 1), STRATEGIES, 1)
    predicted = {
        (choice["strategy"], choice["cores"]): choice["mpps"]
        for choice in plan["choices"]
        if choice["strategy"] in STRATEGIES
    }
    packet_us, single = 1 / points["single", 1]["mpps"], predicted["single", 1]
    factor = lambda choice: restlessness(choice[0], points[choice], packet_us, single / predicted[choice])
    ran, rate = epochs(predicted, functools.cache(factor))
    settled = ran[EPOCHS // 2 :]
    now = max(settled, key=settled.count)
    first = sorted(points, key=lambda choice: points[choice]["mpps"])[-FIRST:] + [now]
    strategies, cores = zip(*first)
    again = measure("again", set(cores), [strategy for strategy in STRATEGIES if strategy in strategies], SEARCHES)
    hindsight = max(again, key=lambda choice: again[choice]["mpps"])
    best = again[hindsight]["mpps"]
    mean = sum((again if choice in again else points)[choice]["mpps"] for choice in settled) / len(settled)
    text = lambda choice: f"`{choice[0]}` on {choice[1]}"
    print(
        f"| `{name}` | {text(hindsight)} | {best:.1f} | {text(now)} | {rate(now):.1f} | {mean:.1f} | {mean / best:.2f} |",
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
