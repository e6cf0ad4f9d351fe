"""Commands of the program as calls."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from paceline import _native
from paceline._errors import IncompleteWarning
from paceline._load import load
from paceline._table import Table
from paceline.reports.compare import Comparison
from paceline.reports.plan import Forecast
from paceline.reports.run import FunctionSummary, RunReport
from paceline.reports.verify import VerifyReport

Path = str | os.PathLike[str]
TableFull = Literal["reject", "evict-oldest"]
Verdict = Literal["forward", "drop", "transmit_back", "host"]


class Function(Protocol):
    """A function written in Python, for trying ideas: `use = "python-five-tuple"`, `python-connection` or `python-source` in a
    chain, which say what selects the state, with `object = "NAME"`.
    """

    def step(self, state: bytes | None, packet: _native.Packet) -> tuple[bytes | None, Verdict]:
        """Takes a packet, and the state of its flow: None if it has none yet, or it has expired. Returns the new state, 63 bytes
        at most, or None to forget the flow; and the verdict. What it returns may depend on nothing else.
        """
        ...


@dataclass(frozen=True)
class Run:
    """What became of the packets of a capture."""

    report: RunReport
    """Counts of all of it: what `paceline run --json` writes."""
    verdicts: Table
    """A row for each packet, in the order of the capture.

    | column | what it is |
    |---|---|
    | `time` | when it came in, by the capture; never less than the packet's before |
    | `length` | bytes on the wire |
    | `verdict` | `forward`, `drop`, `transmit_back` or `host` |
    | `dropped_by` | the function that dropped it, or `malformed` or `engine`; null of others |
    | `reason` | its reason; null of others |
    | `edited` | whether it came out with other bytes |
    | `flow` | the row of its flow in `flows`; null of what is not IP, or malformed |
    """
    flows: Table
    """A row for each 5-tuple as packets came in, in the order of their first packets; the two directions of a connection are
    two flows. Beside the 5-tuple: `first` and `last` packet's time, `packets`, `bytes` on the wire, and packets by verdict.
    """
    drops: Table
    """A row for each dropped packet: its `number` in the capture, from 0, and then as in `verdicts`."""

    @property
    def functions(self) -> list[FunctionSummary]:
        """What each function of the chain counted, in its order."""
        return self.report.functions


def run(
    chain: Path,
    capture: Path,
    *,
    strategy: str = "single",
    cores: int | None = None,
    seed: int | None = None,
    inside_interface: str | None = None,
    flows: int | None = None,
    table_full: TableFull | None = None,
    table_seed: int | None = None,
    rebalance_ms: float | None = None,
    move_every: int | None = None,
    functions: Mapping[str, Function] | None = None,
) -> Run:
    """Runs a chain over a capture.

    Arguments are the options of `paceline run`. Memory grows with the capture: some 140 bytes a packet and 320 a flow. The
    capture is read twice, so it must be a file.

    Args:
        chain: The chain of functions, TOML.
        capture: pcap or pcapng, plain, gzip or zstd.
        strategy: How packets are spread over cores: `single`, `rss`, `rsspp`, `scr`, `auto` and others.
        cores: How many cores; 1 for `single`, else all processors.
        seed: What functions draw from, in place of the chain's `seed`.
        inside_interface: The interface of a pcapng capture that the hosts inside are on, by its name or number.
        flows: Flows that each core's table holds, for every function, in place of what the chain says.
        table_full: What a full table does, for every function.
        table_seed: What the tables' hashes begin with.
        rebalance_ms: How often strategies that move flows look at loads, in the packets' own time.
        move_every: Have a quarter of the flows move every so many packets, drawn at random.
        functions: Functions written in Python, by the names that `object` has for them in the chain.

    Raises:
        Error: The chain has a mistake, the strategy cannot run it, or nothing can be read of the capture.
        Exception: What a function of `functions` raised first.
    """
    args = [os.fspath(chain)] + options(
        pcap=os.fspath(capture),
        strategy=strategy,
        cores=cores,
        seed=seed,
        inside_interface=inside_interface,
        flows=flows,
        table_full=table_full,
        table_seed=table_seed,
        rebalance_ms=rebalance_ms,
        move_every=move_every,
    )
    text, *tables = _native.run(capture, args, functions or {})
    report = load(RunReport, json.loads(text))
    warn(report.complete, report.error)
    return Run(report, *(Table(table) for table in tables))


def verify(
    chain: Path,
    capture: Path,
    *,
    strategy: str = "rss",
    cores: int | None = None,
    seed: int | None = None,
    simulate: int | None = None,
    answer: bool = False,
    inside_interface: str | None = None,
    flows: int | None = None,
    table_full: TableFull | None = None,
    table_seed: int | None = None,
    rebalance_ms: float | None = None,
    move_every: int | None = None,
    functions: Mapping[str, Function] | None = None,
) -> VerifyReport:
    """Compares a strategy on many cores with a single core: every packet, and every flow at the end.

    `holds` of the result says whether everything that has to be the same is. A difference is no error: it is in the result.
    Arguments are those of `run`, and:

    Args:
        simulate: Simulate the cores on one thread, in an order that this seed draws and that is the same each time.
        answer: Answer what goes out through a NAT or to a balancer's backends, in place of the capture's answers.

    Raises:
        Error: As `run`.
    """
    args = [os.fspath(chain)] + options(
        pcap=os.fspath(capture),
        strategy=strategy,
        cores=cores,
        seed=seed,
        simulate=simulate,
        answer=answer,
        inside_interface=inside_interface,
        flows=flows,
        table_full=table_full,
        table_seed=table_seed,
        rebalance_ms=rebalance_ms,
        move_every=move_every,
    )
    report = load(VerifyReport, json.loads(_native.call("verify", args, functions or {})))
    cut = report.outcome.value == "cut-short"
    warn(not cut, "the input is cut short; what was compared is of the whole packets before that")
    return report


def plan(
    chain: Path,
    capture: Path | None = None,
    *,
    traffic: str | None = None,
    cores: int | None = None,
    dispatch_ns: int | None = None,
    packets: int | None = None,
    rounds: int | None = None,
) -> Forecast:
    """Measures what a packet costs on this machine, and predicts which strategy to use on how many cores.

    Args:
        chain: The chain of functions, TOML.
        capture: What is replayed through it.
        traffic: A model of traffic in its place, such as `university:packets=2000000`.
        cores: Predict up to so many cores.
        dispatch_ns: Time that receiving and sending a packet takes beside what it takes here, from memory.
        packets: Packets of each measurement.
        rounds: How often each is measured; medians count.

    Raises:
        Error: The chain has a mistake, or nothing can be read of the capture.
    """
    given = options(
        pcap=None if capture is None else os.fspath(capture),
        traffic=traffic,
        cores=cores,
        dispatch_ns=dispatch_ns,
        packets=packets,
        rounds=rounds,
    )
    return load(Forecast, json.loads(_native.call("plan", [os.fspath(chain)] + given, {})))


def compare(
    chain: Path,
    capture: Path | None = None,
    *,
    traffic: str | None = None,
    strategies: Sequence[str] = (),
    cores: Sequence[int] = (),
    virtual: bool = False,
    searches: int | None = None,
    packets: int | None = None,
    latency: Sequence[float] | None = None,
) -> Comparison:
    """Measures strategies side by side: the highest rate of each at which little is lost, and latency below it.

    Args:
        chain: The chain of functions, TOML.
        capture: What is replayed through it.
        traffic: A model of traffic in its place.
        strategies: Which; by default all but `auto`.
        cores: Numbers of cores; virtual ones beyond the machine's processors, where the strategy allows.
        virtual: Use virtual cores wherever the strategy allows: all figures have one clock.
        searches: Searches for each point, of which the median is shown.
        packets: Packets of each trial.
        latency: Measure latency at these shares of the rate found; none for an empty list.

    Raises:
        Error: The chain has a mistake, or nothing can be compared.
    """
    given = options(
        pcap=None if capture is None else os.fspath(capture),
        traffic=traffic,
        strategies=",".join(strategies) or None,
        cores=",".join(map(str, cores)) or None,
        virtual=virtual,
        searches=searches,
        packets=packets,
        latency=None if latency is None else ",".join(map(str, latency)),
    )
    return load(Comparison, json.loads(_native.call("bench", ["compare", os.fspath(chain)] + given, {})))


def options(**given: str | int | float | None) -> list[str]:
    """Options as on a command line; those that are None or False are left out."""
    words: list[str] = []
    for name, value in given.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            words.append(option)
        elif value is not None and value is not False:
            # In one word: a value may begin with a hyphen.
            words.append(f"{option}={value}")
    return words


def warn(complete: bool, why: str | None) -> None:
    """Warns the caller's caller of an input that was not read to its end."""
    if not complete:
        warnings.warn(why or "the input was not read to its end", IncompleteWarning, stacklevel=3)
