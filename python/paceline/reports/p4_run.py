"""What `p4_run` reports. Made from docs/p4-run.schema.json by `./x python reports`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Copied:
    """A packet that leaves."""
    bytes: str
    """Its bytes, in hexadecimal."""
    port: int
    """By which port."""


Value: TypeAlias = int


@dataclass(frozen=True)
class DumpedArray:
    """Places of an array."""
    name: str
    """Its name."""
    values: list[tuple[Value, str]]
    """Where, and what is there."""


@dataclass(frozen=True)
class DumpedEntry:
    """An entry, in hexadecimal."""
    keys: list[str]
    """Its keys."""
    values: list[str]
    """Its values."""


@dataclass(frozen=True)
class DumpedTable:
    """A muTable's entries."""
    entries: list[DumpedEntry]
    """In the order of their keys."""
    name: str
    """Its name."""
    refused_writes: int
    """Writes that found the table full."""


@dataclass(frozen=True)
class Sent:
    """A packet of `--packet`, and what became of it."""
    bytes: str
    """Its bytes, in hexadecimal."""
    out: list[Copied]
    """What left; nothing if the program dropped it."""
    port: int
    """The port that it came in by."""


@dataclass(frozen=True)
class StfFailure:
    """What was not as it should be."""
    line: int
    """The line, from 1, that expected it; or that sent the packet that nobody expected."""
    message: str
    """What was expected, and what was found."""


@dataclass(frozen=True)
class StfReport:
    """What a test file gave."""
    expectations: int
    """Things that were expected: packets and checks."""
    failures: list[StfFailure]
    """Those that were not met, and packets that nobody expected."""
    packets: int
    """Packets in."""
    packets_out: int
    """Packets out."""


@dataclass(frozen=True)
class Dump:
    """State that packets have changed."""
    counters: list[DumpedArray]
    """Counters, where they have counted."""
    mu_tables: list[DumpedTable]
    """muTables with their entries."""
    registers: list[DumpedArray]
    """Registers, where they are not 0."""


@dataclass(frozen=True)
class P4Run:
    """
    The JSON of `paceline p4 run --json`. Documented by `docs/p4-run.schema.json`; fields are added, never renamed
    or removed.
    """
    complete: bool
    """Whether the whole capture was read."""
    dropped: int
    """Packets of which nothing left."""
    paceline: str
    """Version of Paceline."""
    packets: int
    """Packets of the capture."""
    packets_out: int
    """Packets that left."""
    program: str
    """The program's file."""
    sent: list[Sent]
    """Packets given one by one."""
    state: Dump
    """What the packets have left behind."""
    error: str | None = None
    """Why it was not, if so."""
    stf: StfReport | None = None
    """What the test file gave, if there was one."""
