"""What `verify` reports. Made from docs/verify.schema.json by `./x python reports`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class Allocated:
    """A function that takes header fields from a pool, which each core has of its own."""
    fields: list[str]
    """The fields."""
    function: str
    """What the chain calls the function."""


@dataclass(frozen=True)
class AnsweredPackets:
    """Packets that were answered under the strategy."""
    answered: int
    """Answers to packets that went out, in the endpoints that they had then, or to a backend."""
    left_out: int
    """Packets of the capture for external addresses, or from backends, which were left out."""
    unsent: int
    """Answers that there were not, since their packets did not go out: a frame without meaning stands for each."""


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
class CountedEvent:
    """How often an event was counted that depends on what was taken from a pool, such as ports of the other parity."""
    event: str
    """The event."""
    function: str
    """What the chain calls the function."""
    other: int
    """How often under the other strategy."""
    single: int
    """How often under `single`."""


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
class Different:
    """A packet with two answers."""
    other: str
    """What the other strategy answers."""
    packet: int
    """Its number in the capture, from 1."""
    single: str
    """What `single` answers, in words."""
    flow: str | None = None
    """Its flow; null if it is not IP or is malformed."""


@dataclass(frozen=True)
class Digests:
    """Hashes of a function's live flows, hexadecimal."""
    function: str
    """What the chain calls the function."""
    other: str
    """Under the other strategy."""
    single: str
    """Under `single`."""


@dataclass(frozen=True)
class HistoryVerified:
    """What was lost of packets that came with history."""
    cores: list[CoreHistory]
    """Each core."""
    diverged: int
    """Packets that some replica missed and another did not, each as often as it was missed."""
    lost: int
    """Packets and flushes that were lost on purpose, between sequencer and cores."""
    lost_to_all: int
    """Packets that no core got, neither themselves nor in another's history."""
    recovery: bool
    """Whether cores got from each other what they lost."""
    rejected: dict[str, int]
    """
    Packets that were dropped because their history could not be taken, by reason as `docs/history-format.md` has
    them; they are not among `packets`. Reasons that dropped nothing are left out.
    """


@dataclass(frozen=True)
class JudgedFunction:
    """A function that takes header fields from a pool, and what its judge found in each run."""
    alone: int
    """
    Packets that mean another allocation in the other run, or none: of the capture, for an external endpoint which is another's,
    or nobody's, there; answers of a backend to which the same client has a connection of its own. The judge of each run alone
    says whether its answer is right.
    """
    function: str
    """What the chain calls the function."""
    in_flight: int
    """Packets that were not compared, since the order in which cores came to packets in flight decides."""
    refused: int
    """Packets that one run alone refused, since its pool was empty."""
    renamed: int
    """Packets that have the same answer but for what was taken."""
    touched: int
    """Packets that were not compared, since packets judged alone had come for the same inside end."""
    unattributed: int
    """Packets that may have ended before they came to the function: they were not judged."""
    wrong: list[str]
    """What a judge found wrong, in sentences."""
    not_judged: str | None = None
    """Why it was not judged; null if it was."""


@dataclass(frozen=True)
class LeftOut:
    """A strategy that could not take part."""
    strategy: str
    """Its name."""
    why: str
    """Why."""


class Outcome(Enum):
    """How the comparison ended."""

    equal = 'equal'
    """Every answer and every state is the same, over the whole input. Exit status 0."""

    equal_up_to = 'equal-up-to'
    """Everything that has to be the same is, over the whole input; `up_to` says what need not be. Exit status 0."""

    different = 'different'
    """Something differs that has to be the same. Exit status 1."""

    nothing_compared = 'nothing-compared'
    """The input has no packets, or the strategy promises nothing of this chain. Exit status 3."""

    cut_short = 'cut-short'
    """The input ends in the middle of a packet. What came before is the same. Exit status 4."""

    interrupted = 'interrupted'
    """Stopped by a signal before the end. Exit status 130."""


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
class SeedReport:
    """What functions drew from: a run with the same seed draws the same again."""
    functions: list[str]
    """The functions that draw from it, by their names in the chain."""
    is_drawn: bool
    """Whether it was drawn from the system, since neither gave one."""
    value: int
    """`seed` in a chain file, or `--seed`."""


@dataclass(frozen=True)
class Shared:
    """A function whose states all cores share."""
    function: str
    """What the chain calls the function."""
    promise: str
    """What it promises, in words; or that it was not compared, and why."""
    excused: str | None = None
    """Why that does not hold where it need not, since the function's table was full; else null."""
    failure: str | None = None
    """Why that does not hold; null if it does."""


@dataclass(frozen=True)
class ChangesReport:
    """What ran the chain, under a strategy that has others run it."""
    left_out: list[LeftOut]
    """Strategies that could not take part."""
    phases: list[PhaseReport]
    """One after the other."""


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
class VerifyReport:
    """What `verify` found, as JSON: `docs/verify.schema.json`."""
    allocated: list[Allocated]
    """Functions that take header fields from a pool and have no judge: answers are compared without those."""
    allocation_events: list[CountedEvent]
    """Events that count what was taken from a pool, and differ. They are no difference."""
    broken: list[str]
    """What must hold between a function's flows and does not."""
    chain: str
    """Name of the chain."""
    cores: int
    """Its cores."""
    counters: dict[str, int]
    """What the strategy counts of its own, each by its name."""
    different: int
    """Packets with another verdict or other bytes."""
    digests: list[Digests]
    """Each function's state at the end, less those whose states cores share."""
    exact: bool
    """
    Whether every answer, byte and state was compared, and none left out or excused: given what full tables and empty pools
    turned away.
    """
    exhausted: list[str]
    """Functions whose pool was empty at some time, such as a NAT that ran out of ports."""
    filled: list[str]
    """Functions whose table was full at some time."""
    holds: bool
    """Whether everything that has to be the same is, over the whole input, which has packets."""
    judged: list[JudgedFunction]
    """Functions that take header fields from a pool, before a judge of each run: packets are compared with those renamed."""
    moves: int
    """Moves of what the strategy moves with its flows: entries of the indirection table, shards, values of the hash."""
    oddities: list[str]
    """What is odd about the input, in sentences."""
    outcome: Outcome
    """How it ended. The exit status says the same."""
    paceline: str
    """Version of Paceline."""
    packets: int
    """Packets compared."""
    reloads: list[ReloadReport]
    """Where another chain took over, and what it went on with in both runs; all else is told of the last chain."""
    same: bool
    """Whether all that was compared is the same: of an input that is cut short, up to there."""
    seed: SeedReport
    """What functions drew from, in both runs."""
    shared: list[Shared]
    """
    Functions whose states all cores share, and what was checked of them instead; with those that see edits
    that nobody can tell.
    """
    strategy: str
    """The strategy compared with `single`."""
    told: bool
    """Whether `single` had no full tables and empty pools of its own, but turned away what the strategy's turned away."""
    uncompared: list[str]
    """Functions whose states differ and need not be the same, since packets judged alone came to them."""
    up_to: list[str]
    """What need not be the same, in words; empty if everything has to be, or something differs."""
    answered: AnsweredPackets | None = None
    """Packets that were answered as each run sent them, with `--answer`; else null. They are numbered with the answers."""
    changes: ChangesReport | None = None
    """What ran the chain; null unless the strategy has others run it."""
    error: str | None = None
    """Why the input was not processed to its end, if so."""
    first: Different | None = None
    """The first of them."""
    history: HistoryVerified | None = None
    """What became of packets because of their history; null unless they came with one."""
    out_of_order: int | None = None
    """Packets that left after a later one of their flow; null where the strategy promises no order."""
    simulated: int | None = None
    """The seed of a simulation, in which the cores took turns on one thread; null where each had a thread."""
