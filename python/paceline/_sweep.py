"""A sweep's comparisons: which they are, their rows, and the file that keeps rows while a sweep goes on."""

from __future__ import annotations

import fcntl
import glob
import json
import os
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path as Folder
from typing import TYPE_CHECKING, Any, Literal

from paceline import _native, _objects, _parquet
from paceline._calls import Path, options
from paceline._errors import Error

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

LOST = "lost"
"""The outcome of a comparison whose worker went away each time that it was tried."""

DEFECT = 101
"""The status of an error that is a defect of Paceline."""

FINDINGS = ("different", "panicked", "timed-out")
"""Outcomes that are defects to look into."""


@dataclass(frozen=True)
class SweepRow:
    """One comparison of a strategy on many cores with a single core."""

    key: str
    """Everything that decides it, as one number: capture, mutation, chain, setting, seed and version."""
    capture: str
    """The capture's file."""
    mutation: int
    """The mutation of it; 0 is the capture itself."""
    chain: str
    """The chain's file."""
    strategy: str
    cores: int
    flows: int | None
    """Flows that each core's table holds; None: as the chain says."""
    table_full: str | None
    """What a full table does; None: as the chain says."""
    move_every: int | None
    """Packets from one forced move to the next; None: moves as the loads ask for, or none."""
    loss: str | None
    """Share of the packets that are lost behind a sequencer outside; None: there is none."""
    simulated: bool
    """Whether the cores took turns on one thread."""
    seed: int
    """What tables' hashes, losses and turns were drawn from."""
    packets: int
    """Packets compared."""
    cut_short: str | None
    """Why the capture could not be read to its end; the packets before were compared."""
    exact: bool
    """Whether every answer, byte and state was compared, and all had to be the same."""
    outcome: str
    """`equal`, `equal-up-to`, `nothing-compared`, `refused`, `unreadable`, `different`, `panicked` or `timed-out`, as `paceline sweep
    --help` has them; `lost` where the worker went away each time.
    """
    about: str
    """What the outcome is about: what differs, why it was refused, why the capture cannot be read."""
    different_packets: int | None
    """Packets with another answer, of what is `different`."""
    first_different: int | None
    """The first of them, from 1."""

    @property
    def is_done(self) -> bool:
        """Whether it says something: what is lost is tried again when the sweep goes on."""
        return self.outcome != LOST


@dataclass(frozen=True)
class Cell:
    """One comparison that is to be made."""

    key: str
    capture: str
    number: int
    """Its number among the comparisons of its capture."""

    def failed(self, outcome: str, why: str) -> SweepRow:
        """A row for a comparison that came to no end: what is known of it."""
        nothing = {"str": "", "int": 0, "bool": False}
        row: dict[str, Any] = {one.name: nothing.get(str(one.type)) for one in fields(SweepRow)}
        return SweepRow(**{**row, "key": self.key, "capture": self.capture, "outcome": outcome, "about": why})


@dataclass(frozen=True)
class Question:
    """A sweep as its arguments say: those of `paceline sweep`."""

    args: list[str]
    cells: list[Cell]
    out: str
    resume: bool
    address: str | None
    """The Ray cluster, where the arguments name one."""

    @staticmethod
    def of(args: list[str]) -> Question:
        """What these arguments ask for."""
        args = [name for arg in args for name in (_objects.listed(arg) if _objects.is_url(arg) else [arg])]
        said = json.loads(_native.sweep_cells(args))
        cells = [Cell(**cell) for cell in said["cells"]]
        return Question(args, cells, said["out"], said["resume"], said["ray"])


def compare(args: list[str], cell: Cell) -> SweepRow:
    """Makes one comparison. A capture that cannot be read is a row, and no error.

    Raises:
        Error: A chain has a mistake, or is another than where the sweep began.
    """
    try:
        with _objects.fetched(cell.capture) if _objects.is_url(cell.capture) else nullcontext() as file:
            said: dict[str, Any] = json.loads(_native.sweep_cell(args, cell.capture, file, cell.number))
    except _objects.Gone as error:
        return cell.failed("unreadable", str(error))
    except _objects.Unanswered as error:
        return cell.failed(LOST, str(error))
    except Error as error:
        if error.status != DEFECT:
            raise
        return cell.failed("panicked", error.message)
    if said["key"] != cell.key:
        text = f"a chain or the version of Paceline is another here than where the sweep began: {said['chain']}"
        raise Error(text, text, None, "Have the same files and the same version on all machines.", 2)
    about = said.get("what", said.get("why", ""))
    first = said.get("first")
    known = {one.name: said.get(one.name) for one in fields(SweepRow)}
    return SweepRow(**{**known, "about": about, "first_different": first})


class Sweep:
    """What a sweep found: a row for each comparison, captures in the order of their names."""

    def __init__(self, rows: Sequence[SweepRow]) -> None:
        self.rows: list[SweepRow] = list(rows)

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.rows)} comparisons: {', '.join(f'{runs} {kind}' for kind, runs in self.outcomes.items())}>"

    @property
    def outcomes(self) -> dict[str, int]:
        """How many comparisons have each outcome."""
        return dict(Counter(row.outcome for row in self.rows))

    @property
    def findings(self) -> list[SweepRow]:
        """Defects: what differs, panicked, or did not end in time."""
        return [row for row in self.rows if row.outcome in FINDINGS]

    def to_pyarrow(self) -> pyarrow.Table:
        """A pyarrow Table with the same rows. It takes pyarrow."""
        return table(self.rows)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with the same rows. It takes pandas and pyarrow."""
        import pandas

        return pandas.DataFrame(self.to_pyarrow().to_pandas())

    def to_polars(self) -> polars.DataFrame:
        """A polars DataFrame with the same rows. It takes polars and pyarrow."""
        import polars

        frame = polars.from_arrow(self.to_pyarrow())
        assert isinstance(frame, polars.DataFrame)
        return frame


def sweep(
    chains: Path | Sequence[Path],
    captures: Path | Sequence[Path],
    *,
    strategies: Sequence[str] = (),
    cores: Sequence[int] = (),
    flows: Sequence[int | Literal["default"]] = (),
    table_full: Literal["both", "reject", "evict-oldest"] | None = None,
    move_every: Sequence[int | Literal["loads"]] = (),
    loss: Sequence[float | Literal["none"]] = (),
    mutate: int | None = None,
    packets: int | None = None,
    simulate: bool = False,
    seed: int | None = None,
    time_limit: int | None = None,
    each: Callable[[SweepRow], None] | None = None,
) -> Sweep:
    """Compares each strategy with a single core, under each setting, over each capture; one comparison after another, in this
    process. `paceline.ray.sweep` spreads the same comparisons over a cluster.

    Arguments are the options of `paceline sweep`, with its defaults. A capture that cannot be read is a row with the outcome
    `unreadable`, and a chain that cannot run so is `refused`.

    Args:
        chains: The chains of functions, TOML.
        captures: Captures, folders with captures, and patterns such as `captures/*.pcap`; URLs of object stores, such as
            `s3://bucket/captures/`.
        strategies: The strategies to compare with a single core.
        cores: Numbers of cores.
        flows: Flows that each core's table holds; `default` is what the chain says.
        table_full: What full tables do, where `flows` gives their size.
        move_every: Packets from one forced move to the next; `loads` is moves as the loads ask for.
        loss: Shares of the packets that get lost between an external sequencer and the cores of `scr`; `none` is without one.
        mutate: Mutations of each capture.
        packets: The most packets of each capture.
        simulate: Simulate the cores: they take turns on one thread, in an order that is the same each time.
        seed: What mutations, losses, tables' hashes and turns are drawn from.
        time_limit: The longest that a comparison may take, in seconds.
        each: Is shown each row when it is done.

    Raises:
        Error: A chain has a mistake, or a capture or folder that is named is not there.
    """
    args = arguments(
        chains, captures, strategies, cores, flows, table_full, move_every, loss, mutate, packets, simulate, seed, time_limit
    )
    rows = []
    for cell in Question.of(args).cells:
        rows.append(compare(args, cell))
        if each is not None:
            each(rows[-1])
    return Sweep(rows)


def arguments(
    chains: Path | Sequence[Path],
    captures: Path | Sequence[Path],
    strategies: Sequence[str],
    cores: Sequence[int],
    flows: Sequence[int | str],
    table_full: str | None,
    move_every: Sequence[int | str],
    loss: Sequence[float | str],
    mutate: int | None,
    packets: int | None,
    simulate: bool,
    seed: int | None,
    time_limit: int | None,
) -> list[str]:
    """The arguments of `paceline sweep` that ask for the same."""
    given = options(
        strategies=commas(strategies),
        cores=commas(cores),
        flows=commas(flows),
        table_full=table_full,
        move_every=commas(move_every),
        loss=commas(loss),
        mutate=mutate,
        packets=packets,
        simulate=simulate,
        seed=seed,
        time_limit=time_limit,
    )
    return ["--chains", *paths(chains), *given, "--", *found(paths(captures))]


def commas(values: Sequence[str | int | float]) -> str | None:
    return ",".join(map(str, values)) or None


def paths(given: Path | Sequence[Path]) -> list[str]:
    return [os.fspath(given)] if isinstance(given, (str, os.PathLike)) else [os.fspath(path) for path in given]


def found(patterns: list[str]) -> list[str]:
    """Files of patterns; what is a file or a folder stands for itself."""
    names: list[str] = []
    for pattern in patterns:
        if _objects.is_url(pattern) or not glob.has_magic(pattern) or os.path.exists(pattern):
            names.append(pattern)
            continue
        files = sorted(glob.glob(pattern, recursive=True))
        if not files:
            text = f"no file matches {pattern}"
            raise Error(text, text, None, "Name captures, folders with captures, or a pattern of them.", 2)
        names += files
    return names


def schema() -> pyarrow.Schema:
    """Columns of the table: fields of `SweepRow`."""
    import pyarrow

    kinds = {"int": pyarrow.uint64(), "bool": pyarrow.bool_(), "str": pyarrow.string()}
    columns = [(one.name, str(one.type)) for one in fields(SweepRow)]
    return pyarrow.schema([pyarrow.field(name, kinds[kind.removesuffix(" | None")], kind.endswith("None")) for name, kind in columns])


def table(rows: Iterable[SweepRow]) -> pyarrow.Table:
    """Rows as a table."""
    import pyarrow

    kept = list(rows)
    columns = {one.name: [getattr(row, one.name) for row in kept] for one in fields(SweepRow)}
    return pyarrow.table(columns, schema=schema())


class Kept:
    """A folder with the rows of a sweep: `runs.parquet` when it is done, and `parts/*.parquet` while it goes on.

    A file is written beside its place, and gets its name when it is whole and on disk; so a sweep that is ended at any time
    leaves whole files alone. One sweep at a time uses a folder.
    """

    def __init__(self, folder: Path, resume: bool) -> None:
        self.folder = Folder(folder)
        self.path = self.folder / "runs.parquet"
        self.parts = self.folder / "parts"
        self.parts.mkdir(parents=True, exist_ok=True)
        # Held as long as the object is; the system lets go of it when the process ends, however it does.
        self.lock = open(self.folder / "lock", "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as held:
            self.lock.close()
            raise failed(f"another sweep writes to {self.folder}", "Wait for it, or name another folder.") from held
        files = [self.path] * self.path.exists() + sorted(self.parts.glob("*.parquet"))
        if files and not resume:
            self.close()
            raise failed(f"{files[0]} is there already", "Go on with that sweep (resume), or name another folder.")
        for half in [*self.folder.glob("*.half"), *self.parts.glob("*.half")]:
            half.unlink()
        self.rows = {row.key: row for file in files for row in self.read(file)}

    def read(self, file: Folder) -> Iterator[SweepRow]:
        """Rows of a file."""
        import pyarrow
        import pyarrow.parquet

        try:
            read = pyarrow.parquet.read_table(file, schema=schema())
        except (pyarrow.ArrowException, OSError, ValueError) as error:
            self.close()
            text = f"cannot read {file}: {error}"
            raise failed(text, "It was not written by a sweep of this version; name another folder.") from error
        return (SweepRow(**row) for row in read.to_pylist())

    def add(self, rows: Sequence[SweepRow]) -> None:
        """Keeps more rows."""
        done = [row for row in rows if row.is_done]
        if done:
            _parquet.write(self.parts / f"{uuid.uuid4().hex}.parquet", table(done))
            self.rows |= {row.key: row for row in done}

    def finish(self, rows: Sequence[SweepRow]) -> None:
        """Keeps these rows as the table of all that is done; rows of other sweeps in this folder stay behind them."""
        asked = {row.key for row in rows}
        others = [row for key, row in self.rows.items() if key not in asked]
        _parquet.write(self.path, table([*(row for row in rows if row.is_done), *others]))
        # What they have is in the table now; if this is cut off, rows are in both, and count once.
        for part in self.parts.glob("*.parquet"):
            part.unlink()

    def close(self) -> None:
        """Lets another sweep use the folder."""
        self.lock.close()


def failed(message: str, help: str) -> Error:
    """An error of a user."""
    return Error(f"{message}\n{help}", message, None, help, 2)
