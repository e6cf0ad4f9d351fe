"""What `compare` reports. Made from docs/bench-compare.schema.json by `./x python reports`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Clock(Enum):
    """Whose time a figure is of."""

    measured = 'measured'
    """Real threads on real processors."""

    virtual = 'virtual'
    """Cores run in turn on one processor, each with a clock of its own."""


@dataclass(frozen=True)
class Conditions:
    """What the system did while something was measured."""
    slow_batches: int
    """Batches that took so long that the system must have run something else."""
    off_processor_share: float | None = None
    """
    Share of the time in which the measuring threads had no processor, since the system ran others or a quota was
    used up, 0 to 1; absent where the system does not say.
    """
    steal_share: float | None = None
    """
    Share of all processors' time that a hypervisor gave to other machines (steal), 0 to 1; absent where the system
    does not say.
    """


@dataclass(frozen=True)
class CoreLoad:
    """What one core did."""
    busy: float
    """Share of the time in which it worked on packets, 0 to 1."""
    loss: float
    """Packets dropped because its queue was full, over those that came to it."""
    share: float
    """Share of the trial's packets that came to its queue, 0 to 1."""


@dataclass(frozen=True)
class LatencyPoint:
    """Latency at one offered rate: from a packet's arrival at the card to its leaving, microseconds."""
    load: float
    """Share of the rate found, 0 to 1."""
    max_us: float
    """The longest."""
    offered_mpps: float
    """What was offered, million packets per second."""
    p50_us: float
    """Median."""
    p90_us: float
    """90 of 100 packets are below."""
    p999_us: float
    """999 of 1000."""
    p99_us: float
    """99 of 100."""


@dataclass(frozen=True)
class Refused:
    """What could not run."""
    cores: int
    """Cores."""
    reason: str
    """Why, in words."""
    strategy: str
    """The strategy."""


@dataclass(frozen=True)
class SequencerLoad:
    """
    What the core did that takes all packets from the card, writes their history, and passes each on to another core. It is
    not among the cores of a point.
    """
    busy: float
    """Share of the time in which it worked on packets, 0 to 1. Waiting for a core whose queue is full is not in it."""
    loss: float
    """Packets dropped because its queue was full, over those that came to it: all that the trial lost."""
    packet_ns: float
    """Its time for a packet, ns: parsing, choosing a core, writing the history, passing it on."""


@dataclass(frozen=True)
class TopKey:
    """
    The heaviest value of the header fields that a card hashes for a chain. Both directions of a connection have the same
    hash and count as one.
    """
    share: float
    """Its share of the packets, 0 to 1."""
    what: str
    """What such a value is: `connection`, `pair of addresses`, `source address`."""


@dataclass(frozen=True)
class TraceSummary:
    """What was replayed."""
    digest: str
    """A hash of all bytes and times, hexadecimal: the same for the same seed and command."""
    flows: int
    """Flows by 5-tuple, directed."""
    mean_bytes: float
    """Mean length on the wire, bytes."""
    packets: int
    """Packets."""
    source: str
    """The file, or the model that it was generated from with its options."""
    top10_share: float
    """Share of the packets of the ten biggest flows, 0 to 1."""
    top1_share: float
    """Share of the packets of the biggest flow, 0 to 1."""
    top_entry_share: float
    """Share of the packets of the fullest entry of the indirection table, 0 to 1."""
    top_key: TopKey | None = None
    """
    The packets that no hash of the chain can spread over several cores; absent where no hash serves the chain, and
    in comparisons of older versions.
    """


@dataclass(frozen=True)
class Point:
    """One strategy on one number of cores."""
    clock: Clock
    """Whose time it is."""
    cores: int
    """Cores."""
    found_mpps: list[float]
    """What each search found, in order."""
    latency: list[LatencyPoint]
    """Latency at given shares of the rate found; empty where it was not asked for."""
    loads: list[CoreLoad]
    """Each core in that trial."""
    loss: float
    """Share of the packets lost at that rate, 0 to 1."""
    moves: int
    """
    Entries that went from core to core, with their flows, from the warm-up to the last trial. Once loads are even,
    hardly any does: most belong to the first trials.
    """
    mpps: float
    """The highest rate found with a loss within the limit, million packets per second: the median of `found_mpps`."""
    conditions: Conditions | None = None
    """What else the system did meanwhile; absent in comparisons of older versions."""
    notes: list[str] | None = field(default_factory=list)
    """Why the rate is not to be relied on, a sentence for each reason; empty if it is."""
    sequencer: SequencerLoad | None = None
    """The core in front of these in that trial; absent where the strategy has none, and in comparisons of older versions."""


@dataclass(frozen=True)
class Series:
    """One strategy."""
    points: list[Point]
    """By number of cores, ascending."""
    strategy: str
    """Its name, as command lines have it."""


@dataclass(frozen=True)
class Comparison:
    """One chain over one trace, under several strategies on several numbers of cores."""
    chain: str
    """Name of the chain."""
    command: str
    """The command line, to be run again."""
    descriptors: int
    """Receive descriptors of each queue."""
    findings: list[str]
    """What the figures say, in whole sentences."""
    functions: list[str]
    """The functions' names in the order of the chain."""
    loss_limit: float
    """Share of the packets that may be lost at the rates found, 0 to 1."""
    machine: str
    """Processor, logical cores, operating system, in one line."""
    paceline: str
    """Version of Paceline."""
    refused: list[Refused]
    """What could not run, and why."""
    searches: int
    """Searches of which each point is the median."""
    series: list[Series]
    """The strategies in the order asked for."""
    trace: TraceSummary
    """What was replayed."""
    complete: bool | None = True
    """
    Whether all that was asked for was done; not so after an interruption: points are missing then, and the last one may
    be of fewer searches. A file of an older version does not say, and is taken for complete.
    """
