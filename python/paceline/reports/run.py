"""What `run` reports. Made from docs/run.schema.json by `./x python reports`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class AnswersReport:
    """What the senders of rejected packets were told. Over a capture: what --out has."""
    icmp_errors: int
    """ICMP and ICMPv6 errors sent: administratively prohibited."""
    limited: int
    """Packets without an answer, as their interface had sent as many as it may."""
    resets: int
    """TCP resets sent."""
    unanswerable: int
    """Packets that are not to be answered, such as resets, errors, later fragments, and those to groups."""


@dataclass(frozen=True)
class CoreHistory:
    """What one core did with histories."""
    core: int
    """Its number, from 0."""
    flushes: int
    """Flushes that it got."""
    lost_to_all: int
    """With recovery: packets that all cores lost, and none stepped."""
    missed: int
    """Without recovery: packets that it knows nothing of. If another core does, the replicas differ."""
    overtaken: int
    """Its own packets among them that came: dropped without a verdict, and not among `packets`."""
    rebuilt: int
    """With recovery: how often it lagged by more than the others' logs hold, and went on with the state of another."""
    recovered: int
    """With recovery: packets that it lost and got from another core."""
    rejected: int
    """Packets dropped because of their history."""
    replayed: int
    """Packets of other cores that it stepped."""
    skipped: int
    """Packets that it did not step itself, since that state had them."""


@dataclass(frozen=True)
class CorePeriod:
    """What a core did in a period."""
    busy_seconds: float
    """Time that it spent on them."""
    packets: int
    """Packets that it received."""


class DecidedBy(Enum):
    """Who decided whether checksums are verified."""

    chain = 'chain'
    """The chain file; on interfaces its default is not to."""

    capture = 'capture'
    """The first packets of the capture."""

    sequencer = 'sequencer'
    """Who put history before the packets. It says which ones are wrong, and not whether it verified."""


@dataclass(frozen=True)
class DecisionReport:
    """What a decision rests on."""
    before_mpps: float
    """The rate predicted for what ran before, million packets per second."""
    busiest_share: float
    """Share of the busiest core's packets if a hash spreads them over so many cores, 0 to 1."""
    packet_ns: float
    """What a packet costs its core, ns."""
    predicted_mpps: float
    """The rate predicted for it, million packets per second."""
    replay_measured: bool
    """Whether that was measured, and not guessed."""
    replay_ns: float
    """What a packet of another core costs a replica, ns."""


@dataclass(frozen=True)
class Flows:
    """The flows of one function, over all cores."""
    capacity_per_core: int
    """What each core's table holds; of `shared_functions`, what all cores' holds."""
    created: int
    """Created."""
    evicted: int
    """Ended to make room."""
    expired: int
    """Ended by time."""
    live: int
    """Alive at the last packet's time."""
    load: float
    """Live flows of the fullest core over `capacity_per_core`, 0 to 1."""
    rejected: int
    """Refused because the table was full."""
    removed: int
    """Ended by a packet."""


class Fragments(Enum):
    """What becomes of fragments. Atomic fragments of IPv6 are whole packets (RFC 6946)."""

    pass_ = 'pass'
    """They go on, each for itself."""

    drop = 'drop'
    """They are malformed."""

    track = 'track'
    """A [`FragmentTracker`](crate::FragmentTracker) says which are malformed."""

    follow = 'follow'
    """As [`Fragments::Track`]; besides, later ones have what their first said of their flow."""


@dataclass(frozen=True)
class HistoryReport:
    """What became of packets that came with their history from a sequencer outside."""
    cores: list[CoreHistory]
    """Each core."""
    lost: int
    """Packets and flushes that were lost on purpose, between sequencer and cores."""
    recovery: bool
    """Whether cores got from each other what they lost."""
    rejected: dict[str, int]
    """
    Packets that were dropped because their history could not be taken, by reason as `docs/history-format.md` has
    them; they are not among `packets`. Reasons that dropped nothing are left out.
    """


@dataclass(frozen=True)
class InterfaceReport:
    """A network interface."""
    completed: int
    """
    Received packets of which a checksum was left to a card, and was computed here; each segment counts where a packet was
    segmented.
    """
    lost: dict[str, int]
    """Packets that were not received, or not sent, by reason. Reasons that lost nothing are left out."""
    name: str
    """Its name."""
    received: int
    """Packets received."""
    received_bytes: int
    """Their bytes, without the check sequence."""
    sent: int
    """Packets sent."""
    sent_bytes: int
    """Their bytes."""
    socket: str
    """The kind of socket, and what was chosen."""


@dataclass(frozen=True)
class LeftOut:
    """A strategy that could not take part."""
    strategy: str
    """Its name."""
    why: str
    """Why."""


@dataclass(frozen=True)
class MemoryReport:
    """Memory of this program, MiB."""
    huge_pages_mib: int | None = None
    """
    The part of `resident_mib` that is on huge pages, as tables ask for: random access to small ones costs a
    page walk each.
    """
    resident_mib: int | None = None
    """What it has; absent where the system does not say."""


@dataclass(frozen=True)
class ObjectiveTally:
    """How an objective was kept, period by period."""
    fewest: int
    """The fewest cores that were used."""
    kept: int
    """Those at whose end it was kept, as measured, or where packets bring their times along by the model."""
    mean: float
    """In the mean."""
    most: int
    """The most."""
    periods: int
    """Periods in which it was known how long packets take."""


@dataclass(frozen=True)
class ObjectiveTold:
    """The objective of the chain file, and how far the model is from it."""
    most: float
    """The most that one may be."""
    p99_us: float
    """How long 99 in 100 packets may wait, µs; where there are classes, of those with priority, as in all that follows."""
    service_ns: float
    """What a packet takes in the mean, ns."""
    so_far: ObjectiveTally
    """Over the whole run."""
    used: int
    """Cores that are used."""
    utilisation: float
    """The share of its time that the busiest core is used, where there are classes of those with shards."""
    measured_p99_us: float | None = None
    """
    How long 99 in 100 packets of the last period waited at most from their stamp until their core began with their batch, µs, of all classes;
    null where packets bring their times along, as those of a capture.
    """
    predicted_p99_us: float | None = None
    """How long they wait on the busiest core by the model that decides (M/M/1), µs; null where that has no end."""


@dataclass(frozen=True)
class PhaseReport:
    """Packets that one strategy ran."""
    after: int
    """Packets that came before it."""
    cores: int
    """On how many cores."""
    packets: int
    """Its packets."""
    pause_seconds: float
    """For how long no packet was received while cores worked off those that they had, and flows went to their cores."""
    strategy: str
    """The strategy."""
    why: str
    """Why it began: `first`, `drawn` at random, or `better`."""
    decision: DecisionReport | None = None
    """What it promised; null unless it was better."""
    measured_mpps: float | None = None
    """
    The rate of its first epoch if the busiest core had had no pause, million packets per second; null where it was not
    measured.
    """


@dataclass(frozen=True)
class ReloadedFunction:
    """A function of a chain that took over."""
    function: str
    """What the chain calls it."""
    kept_flows: int | None = None
    """How many flows it went on with; null if it began anew."""
    why: str | None = None
    """Why it began anew; null if it went on."""


@dataclass(frozen=True)
class ReorderingReport:
    """How far packets left out of order, by the metrics of RFC 4737. Those are counted that leave: forwarded, or sent back."""
    extent_at_least: int
    """Packets whose extent may be larger than it was counted; 0 for all packets that come from a capture."""
    extent_max: int
    """The largest."""
    extent_p50: int
    """
    Reordering extent (section 4.2.2): from the first packet that overtook a reordered one to that, in packets that
    left. Half of the reordered packets have at most this one, to three digits.
    """
    extent_p99: int
    """99 of 100 have at most this one, to three digits."""
    n_reordered: list[int]
    """
    For n of 1, 2, and so on: packets that are n-reordered, the n that left just before having come later (section 5).
    A TCP sender takes packets of its flow for lost from n = 3 on.
    """
    packets: int
    """Packets that left."""
    ratio: float
    """Their share of all that left, 0 to 1 (section 4.1)."""
    reordered: int
    """Packets that left after one that had come later (section 3.3)."""
    reordered_in_flow: int
    """Packets that left after one of their own flow that had come later; flows by the 5-tuple with which packets leave."""


@dataclass(frozen=True)
class Report:
    """A small table."""
    columns: list[str]
    """Column names, units last."""
    rows: list[list[str]]
    """Rows as long as `columns`."""
    title: str
    """Its title."""


@dataclass(frozen=True)
class RoutingReport:
    """What a router did with packets that the chain forwarded."""
    dropped: dict[str, int]
    """Packets dropped, by reason. Reasons that dropped nothing are left out."""
    hairpins: int
    """Packets among `sent` that left by the interface that they came by."""
    host: int
    """Packets for the host itself."""
    icmp_errors: int
    """ICMP errors sent about dropped packets."""
    icmp_errors_limited: int
    """ICMP errors that a rate limit held back."""
    sent: int
    """Packets sent on."""


@dataclass(frozen=True)
class SeedReport:
    """What functions drew from: a run with the same seed draws the same again."""
    functions: list[str]
    """The functions that draw from it, by their names in the chain."""
    is_drawn: bool
    """Whether it was drawn from the system, since neither gave one."""
    value: int
    """`seed` in a chain file, or `--seed`."""


@dataclass(frozen=True)
class SharedFunction:
    """A function whose states all cores shared."""
    function: str
    """What the chain calls it."""
    promise: str
    """
    What holds of it all the same: `totals`, its records add up as on one core; `bound`, no key gets
    more than the function allows; `none`, nothing but that each step is whole.
    """


@dataclass(frozen=True)
class SidesReport:
    """The two sides of a chain."""
    inside: str
    """Prefixes of the hosts inside, as a list with commas."""
    packets_from_outside: int
    """Packets from outside, which met the functions in reverse; all others came from inside."""


@dataclass(frozen=True)
class SolverTold:
    """A solver on a thread of its own, and how it did: it is asked once a period."""
    answers: int
    """Placements that it found and that came into force."""
    missed: int
    """Questions without an answer by the deadline, or with none at all: the old placement stayed in force."""
    name: str
    """Its name."""
    overtaken: int
    """Answers to questions that had been overtaken: cores had been parked, or shards moved or pinned by hand."""
    refused: int
    """Answers that cannot be carried out: a fault of the solver."""


@dataclass(frozen=True)
class TimePeriod:
    """A period."""
    changes: int
    """Changes of strategy or number of cores."""
    cores: list[CorePeriod]
    """Each core."""
    cores_in_use: int
    """Cores that got packets in it."""
    moves: int
    """Entries or shards that were given to other cores."""
    promotions: int
    """Promotions and demotions."""
    seconds: float
    """How long it was."""
    strategy: str
    """What spread packets at its end."""
    until_seconds: float
    """When it ended, since the run began."""
    measured_p99_us: float | None = None
    """How long they waited until their core began with them, as it was measured last, µs; null where packets bring their times along."""
    predicted_p99_us: float | None = None
    """How long they wait by the model that decides, µs; null where it does not say, or the core has too much to do."""
    slo_p99_us: float | None = None
    """The objective of the chain file: how long 99 in 100 packets may wait, µs."""


@dataclass(frozen=True)
class TimeRanBack:
    """How far arrival times ran back."""
    furthest_seconds: float
    """The furthest of them."""
    packets: int
    """Packets behind an earlier one's time."""
    ahead_packet: int | None = None
    """The number, from 1, of the packet that it lies so far behind; null if there is none."""


@dataclass(frozen=True)
class TimelineReport:
    """A run over time."""
    period_seconds: float
    """How long a period is. It grows with the run, so that there are never more than 512."""
    periods: list[TimePeriod]
    """One after the other; the last one may be shorter."""


@dataclass(frozen=True)
class Verdicts:
    """Packets by verdict."""
    drop: int
    """Dropped."""
    forward: int
    """Forwarded."""
    host: int
    """Passed to the host's network stack."""
    transmit_back: int
    """Sent back out of the port they came from."""


@dataclass(frozen=True)
class ChangesReport:
    """What ran the chain, under a strategy that has others run it."""
    left_out: list[LeftOut]
    """Strategies that could not take part."""
    phases: list[PhaseReport]
    """One after the other."""


@dataclass(frozen=True)
class ChecksumReport:
    """Whether checksums were verified, why, and what came of it."""
    decided_by: DecidedBy
    """Who decided."""
    left_to_card: int
    """
    Packets among the wrong ones of which a checksum was left to the sender's network card: the transport's, or
    that of the IPv4 header.
    """
    refused: int
    """Packets with wrong checksums, which are among the malformed; 0 unless they were verified."""
    right: int
    """Packets among those sampled whose checksums are all here and right."""
    sampled: int
    """Packets looked at; 0 where others decide."""
    unverifiable: int
    """Packets that passed although their checksums could not be verified: the capture cut them, or they are fragments."""
    verified: bool
    """Whether packets with wrong checksums count as malformed."""
    wrong: int
    """Packets with a wrong one."""


@dataclass(frozen=True)
class CoreReport:
    """One core."""
    busy_seconds: float
    """Time spent on packets, without waiting for them; by the clock on the wall."""
    bytes: int
    """Their bytes on the wire."""
    core: int
    """Its number, from 0."""
    flows: int
    """Live flows over all functions, less those whose states cores shared."""
    packets: int
    """Packets received."""
    share: float
    """The core's share of all packets, 0 to 1."""
    verdicts: Verdicts
    """Packets by verdict."""


@dataclass(frozen=True)
class EgressReport:
    """How packets left."""
    blocked_batches: int
    """
    Batches that had to wait on their core since the way out was full: for an earlier packet of another core, where
    packets leave in order, or for the thread that takes packets.
    """
    order: str
    """In which order: `ordered`, as they came; `as-ready`, as cores were done with them."""
    reordering: ReorderingReport | None = None
    """How far packets left out of the order in which they came; null where they were put into it."""


@dataclass(frozen=True)
class FragmentReport:
    """What became of fragments."""
    policy: Fragments
    """What the chain file says."""
    refused: int
    """Fragments that are among the malformed for being what they are."""


@dataclass(frozen=True)
class FunctionSummary:
    """One function of the chain, over all cores."""
    digest: str
    """Hash of its live flows, hexadecimal."""
    drops: dict[str, int]
    """Its drops by reason."""
    events: dict[str, int]
    """What it counted."""
    flows: Flows
    """Its flows."""
    name: str
    """What the chain calls it."""
    packets: int
    """Packets that were its business and reached it."""
    reports: list[Report]
    """What else it has to tell."""
    verdicts: Verdicts
    """These packets by verdict."""
    hint: str | None = None
    """What its counts suggest to do otherwise, if anything."""


@dataclass(frozen=True)
class MovesReport:
    """What went from core to core while a run lasted. Properties beside these are what the strategy counts of its own, by name."""
    moves: int
    """How often."""
    waited_packets: int
    """Packets that waited for their flows, each counted once."""
    what: str
    """
    What moved with its flows: an `entry` of the indirection table or a `shard` to another core, a `hash` (a value of it) to all cores and
    back; under `auto` an `entry, shard or hash`.
    """
    objective: ObjectiveTold | None = None
    """The objective of the chain file, and how it was kept; null where there is none, or no period was over."""
    priority_packets: int | None = None
    """Packets with priority, which the core of their shard stepped; null where the chain has no classes."""
    solver: SolverTold | None = None
    """Under `dyssect`: the solver that decided in place of the greedy one, if one did."""


@dataclass(frozen=True)
class ReloadReport:
    """Another chain took over."""
    after: int
    """Packets that came before it."""
    chain: str
    """The chain's name."""
    functions: list[ReloadedFunction]
    """Each of its functions, in order."""
    pause_seconds: float
    """For how long no packet was worked on, in a run on interfaces; packets waited meanwhile."""
    removed_flows: int | None = None
    """
    How many flows were removed by hand (`ctl flows --kill`): the chain took over from itself without them. Absent of any other
    reload.
    """


@dataclass(frozen=True)
class RunReport:
    """A run of a chain over packets."""
    bytes: int
    """Their bytes on the wire."""
    chain: str
    """Name of the chain."""
    checksums: ChecksumReport
    """Whether packets with wrong checksums counted as malformed."""
    complete: bool
    """Whether the whole input was processed."""
    cores: list[CoreReport]
    """Each core."""
    digest: str
    """
    Hash of all functions' live flows at the last packet's time, hexadecimal: the same under
    every strategy, unless there are `shared_functions`.
    """
    drops: dict[str, int]
    """
    Dropped packets by reason: `function/reason`, `malformed/reason`, `engine/no-room`. Reasons
    that dropped nothing are left out.
    """
    egress: EgressReport
    """How packets left."""
    fragments: FragmentReport
    """Which fragments counted as malformed."""
    functions: list[FunctionSummary]
    """Each function, all cores together, in the order of the chain."""
    has_ip: bool
    """Whether any packet is IP, or malformed."""
    hash_fields: list[str]
    """Header fields that picked the core; empty where none did."""
    interfaces: list[InterfaceReport]
    """Each interface, of a run on interfaces."""
    malformed: dict[str, int]
    """Malformed packets by reason, dropped or not. Reasons that did not occur are left out."""
    memory: MemoryReport
    """The program's memory while the tables were there."""
    mpps: float
    """Million packets per second of that time."""
    oddities: list[str]
    """What is odd about the input, in sentences."""
    paceline: str
    """Version of Paceline."""
    packets: int
    """Packets processed."""
    reloads: list[ReloadReport]
    """
    Where another chain took over; all else is told of the last chain, whose functions' counters begin with it unless
    they went on.
    """
    seconds: float
    """From the first packet in to the last packet out, reading and writing files included."""
    seed: SeedReport
    """What functions drew from; of the last chain, where others took over."""
    shared_functions: list[SharedFunction]
    """
    Functions whose states all cores shared: under `shared` all that have any; else those whose keys no hash
    keeps on one core, mostly none.
    """
    skipped: dict[str, int]
    """Packets that were skipped since their link type is not supported, by its name."""
    strategy: str
    """How packets were spread: `single`, `rss`, `shared`."""
    time_ran_back: TimeRanBack
    """Packets whose own time lay before an earlier packet's; their stamps have the earlier time."""
    verdicts: Verdicts
    """Packets by verdict; they add up to `packets`."""
    answers: AnswersReport | None = None
    """What the senders of rejected packets were told; null where no packet was rejected."""
    changes: ChangesReport | None = None
    """What ran the chain; null unless the strategy has others run it."""
    error: str | None = None
    """Why it was not, if so."""
    history: HistoryReport | None = None
    """What became of packets because of their history; null unless they came with one."""
    moves: MovesReport | None = None
    """What went from core to core; null where flows stay."""
    routing: RoutingReport | None = None
    """What became of forwarded packets by routes; null unless the run was a router."""
    sides: SidesReport | None = None
    """The two sides of the chain; null if it has one direction."""
    timeline: TimelineReport | None = None
    """How the run went on; null unless a page of it was asked for."""
