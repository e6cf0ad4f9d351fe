"""What `emulate` reports. Made from docs/emulate.schema.json by `./x python reports`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Compared:
    """
    What differs from the reference, which takes one packet after the other. Of a packet that was lost it takes what that
    had changed by then.
    """
    differ: int
    """Those of which the reference sends something else."""
    packets: int
    """Packets that were compared."""
    first: str | None = None
    """The first difference, in words."""
    state: str | None = None
    """The first state that differs, in words."""


@dataclass(frozen=True)
class Latency:
    """Latencies in cycles; of packets that came out."""
    max: int
    """All took at most this."""
    mean: float
    """Mean."""
    p50: int
    """Half of the packets took at most this."""
    p99: int
    """99% took at most this."""


@dataclass(frozen=True)
class Place:
    """A table that packets read and write."""
    consistency: str
    """`strict`, `bs1` and so on for bounded staleness, `weak`."""
    name: str
    """Its name in the program."""
    reads: int
    """The stage that reads it, from 1."""
    size: int
    """Entries at most."""
    writes: int
    """The last stage that writes it."""


@dataclass(frozen=True)
class Step:
    """A step of the cumulative distribution."""
    cycles: int
    """Cycles from arrival to departure."""
    share: float
    """Share of the packets that came out that took at most as many."""


@dataclass(frozen=True)
class Emulation:
    """
    The JSON of `paceline emulate --json`. Documented by `docs/emulate.schema.json`; fields are added, never renamed
    or removed.
    """
    buffer_sizes: dict[str, int]
    """
    The sizes of the buffers in `occupancy_max`, by the same names: packets of `rb`, `pb`, `flow_queue`,
    `from_pipeline` and `from_ring`, flows of the others.
    """
    command: str
    """What was asked for."""
    copies_sent: int
    """What ports get: one copy of a packet for each of its ports."""
    cycles: int
    """From the first packet in to the last packet out."""
    cycles_per_second: float
    """Simulated cycles per second of the machine's time."""
    cycles_simulated: int
    """Cycles that were computed one by one: all but those in which the pipeline was empty."""
    drops: dict[str, int]
    """Lost packets, by cause; causes that did not occur are absent."""
    latency_cycles: Latency
    """Cycles from a packet's arrival to its departure."""
    latency_distribution: list[Step]
    """How the latencies of the packets that came out are distributed: some 200 steps at most, in ascending order."""
    lost_after_write: dict[str, int]
    """Lost packets that had already changed the state of a table, by table; absent where none had."""
    model: str
    """`rapid`, `blocking`, `flowblaze`, `banzai`, `pisa`."""
    occupancy_max: dict[str, int]
    """By buffer, the most that it held: `FUNCTION.BUFFER`, or `ring.NODE.BUFFER`."""
    offered: float
    """Packets per cycle that were offered: as long as they arrived, and had nothing ever stalled."""
    paceline: str
    """Version of Paceline."""
    packets_dropped_by_program: int
    """Packets that it sends to no port."""
    packets_in: int
    """Packets that were taken in."""
    packets_out: int
    """Packets that came out."""
    packets_sent: int
    """Packets that it sends to a port or to several."""
    program: str
    """Name of the program."""
    resubmissions: int
    """Times that a packet was sent back through the ring."""
    ring_utilisation: float
    """
    Share of ring nodes and cycles in which a packet or a control signal was sent; heartbeats alone do not
    count. 0 without a ring.
    """
    source: str
    """What arrived: the capture or the model of traffic."""
    stage_cycles: int
    """Cycles that a packet spends in each."""
    stages: int
    """Stages of the pipeline."""
    stalls: int
    """Cycles in which the first stage could not advance."""
    states_refused: dict[str, int]
    """New keys that a full state table refused, by table; absent where none was."""
    tables: list[Place]
    """Where the program keeps state."""
    throughput: float
    """Packets out per cycle."""
    writebacks: int
    """New states written to the tables of functions."""
    check: Compared | None = None
    """How that compares with the reference, if it was asked for."""
