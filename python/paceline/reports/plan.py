"""What `plan` reports. Made from docs/plan.schema.json by `./x python reports`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Check:
    """A number of cores under `scr`, predicted and measured, with the dispatch that was measured and no other."""
    cores: int
    """How many."""
    is_fitted: bool
    """Whether the model was fitted to what was measured there."""
    measured_mpps: float
    """With all packets there from the beginning, on virtual cores, million packets per second."""
    predicted_mpps: float
    """The model's answer, million packets per second."""


@dataclass(frozen=True)
class Costs:
    """What a packet costs a core, ns."""
    carry_ns: float
    """
    What a core spends more on each packet of its own once there are others to step as well: it receives and sends
    fewer at a time. The paper's model has no such term.
    """
    compute_ns: float
    """Taking it through the chain: *c1*."""
    dispatch_ns: float
    """Receiving, parsing and sending it: the paper's *d*."""
    replay_ns: float
    """Stepping it on a core that does not have it, from its item of history: *c2*."""
    sequencer_ns: float | None = 0.0
    """
    Its time at the sequencer, a core in front of the others: what all packets pass one after the other. 0 where a
    sequencer is no bound, as the paper's, which is hardware.
    """


@dataclass(frozen=True)
class Fastest:
    """A strategy and its rate."""
    cores: int
    """On how many cores."""
    mpps: float
    """The rate predicted for it, million packets per second."""
    strategy: str
    """The strategy, as command lines have it."""


@dataclass(frozen=True)
class ForecastPoint:
    """One number of cores. Rates are predictions, million packets per second, absent where a strategy cannot run."""
    cores: int
    """How many."""
    history_bytes: int
    """Bytes of history that a packet carries under `scr`, its header included; 0 on one core."""
    replica_bytes: int
    """Bytes of all replicas of the state under `scr`, at most."""
    rss_mpps: float | None = None
    """Under `rss`."""
    rsspp_mpps: float | None = None
    """Under `rsspp`, once entries are where they should be: moving them costs nothing here."""
    scr_mpps: float | None = None
    """Under `scr`."""


@dataclass(frozen=True)
class RefusedStrategy:
    """A strategy that cannot run the chain."""
    reason: str
    """Why, in words."""
    strategy: str
    """Its name."""


@dataclass(frozen=True)
class Spread:
    """The median of several measurements, with the least and the most."""
    highest: float
    """The most."""
    lowest: float
    """The least."""
    median: float
    """The one in the middle."""


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
class Advice:
    """What to use."""
    cores: int
    """On how many cores."""
    mpps: float
    """The rate predicted for it, million packets per second."""
    sentences: list[str]
    """What to use, why, and where it ends, in whole sentences."""
    strategy: str
    """The strategy, as command lines have it."""
    caveats: list[str] | None = field(default_factory=list)
    """
    How far to rely on the predictions, in whole sentences, which are the last of `sentences`; empty where they held and
    rounds were alike.
    """
    fastest: Fastest | None = None
    """
    The highest rate predicted of any strategy on all cores asked about, whatever it costs; absent where that is one core, or no
    strategy can run on several.
    """
    reason: str | None = None
    """Why this strategy and no other; null where the first sentence says it."""


@dataclass(frozen=True)
class CoreTime:
    """Time that a core takes for a packet of its own, with those of other cores that it steps before."""
    cores: int
    """Cores that share the packets."""
    is_fitted: bool
    """Whether *c2* was taken from it, and not from others alone."""
    ns: Spread
    """Its time, ns."""
    sequencer_ns: Spread | None = None
    """The sequencer's time for a packet of any core, ns; absent where there is none."""


@dataclass(frozen=True)
class MeasuredCosts:
    """What was measured."""
    compute_ns: Spread
    """*c1*, ns: the chain on one core, less *d*."""
    costs: Costs
    """The medians."""
    dispatch_ns: Spread
    """*d*, ns: an empty chain over the same packets."""
    packet_ns: list[CoreTime]
    """Time for a packet of a core's own, by number of cores, one first."""
    carry_ns: Spread | None = None
    """What a core spends more on a packet of its own once it steps those of others, ns; absent as *c2* is."""
    replay_ns: Spread | None = None
    """
    *c2*, ns: how a core's time for a packet of its own grows with the cores that share the packets. Absent where
    the chain cannot be replicated.
    """
    sequencer_ns: Spread | None = None
    """
    What the sequencer spends on a packet, a core in front of the others, ns: the medians on each number of cores;
    absent as *c2* is.
    """


@dataclass(frozen=True)
class Forecast:
    """A chain over a trace: what it costs here, and what follows for more cores than were measured."""
    added_dispatch_ns: float
    """Dispatch beside what was measured, ns: that of another backend."""
    advice: Advice
    """What to use."""
    chain: str
    """Name of the chain."""
    checks: list[Check]
    """Prediction against measurement, under `scr` on virtual cores."""
    command: str
    """The command line, to be run again."""
    costs: Costs
    """What is predicted from: the medians, with the added dispatch."""
    functions: list[str]
    """The functions' names in the order of the chain."""
    item_bytes: int
    """Bytes of an item of history, its time stamp included."""
    machine: str
    """Processor, logical cores, operating system, in one line."""
    measured: MeasuredCosts
    """What was measured."""
    paceline: str
    """Version of Paceline."""
    points: list[ForecastPoint]
    """By number of cores, from 1 on."""
    refused: list[RefusedStrategy]
    """Strategies that cannot run the chain on several cores."""
    shared: list[str]
    """Functions whose states all cores share where packets are sharded, since no hash keeps them on one core."""
    state_bytes: int
    """Bytes of one core's tables as far as the trace's flows fill them, at most."""
    trace: TraceSummary
    """What was replayed."""
    auto: Fastest | None = None
    """
    Where `auto` comes to rest once it has measured these costs, if traffic stays like this: or at what is less than 5%
    below.
    """
    cache_bytes: int | None = None
    """Bytes of the last-level cache; absent where the system does not say."""
    choices: list[Fastest] | None = field(default_factory=list)
    """What `auto` expects of each strategy on each number of cores, by the same costs."""
