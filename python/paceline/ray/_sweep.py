"""A sweep whose comparisons are Ray tasks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from paceline._calls import Path
from paceline._sweep import LOST, Cell, Kept, Question, Sweep, SweepRow, arguments, compare
from paceline.ray._cluster import connected

RETRIES = 3
"""How often a task is run again that lost its worker."""

AHEAD = 4
"""Tasks that wait for each processor of the cluster: enough that none idles, and few enough that a large sweep has bounded memory."""

PART_EVERY_S = 2.0
"""How long rows wait at most before they are kept."""


def sweep(
    chains: Path | Sequence[Path],
    captures: Path | Sequence[Path],
    *,
    out: Path,
    resume: bool = False,
    address: str = "local",
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
    """Makes the comparisons of `paceline.sweep` on a Ray cluster: equal rows, in equal order.

    Chains and captures have to be on the cluster's machines by the same names; captures in object stores are fetched by the machine
    that compares them, with the keys in its environment. Rows that are done are kept in `out`, so that a
    sweep that was ended can go on. Other arguments are those of `paceline.sweep`.

    Args:
        out: The folder for rows; `runs.parquet` in it is the table.
        resume: Go on with the sweep in `out`: what is done is not made again.
        address: The cluster, as `connected` takes it. Where `ray.init` was called already, that cluster is used.

    Raises:
        Error: As `paceline.sweep`; the cluster does not answer; `out` is another sweep's.
    """
    args = arguments(
        chains, captures, strategies, cores, flows, table_full, move_every, loss, mutate, packets, simulate, seed, time_limit
    )
    with connected(address):
        return spread(Question.of(args), out, resume, each or (lambda row: None))


def spread(question: Question, out: Path, resume: bool, each: Callable[[SweepRow], None]) -> Sweep:
    """Makes what is not done of a sweep, on the cluster that this program is connected to. Rows done before are shown, too."""
    kept = Kept(out, resume)
    try:
        known = {cell.key: kept.rows[cell.key] for cell in question.cells if cell.key in kept.rows}
        for row in known.values():
            each(row)
        missing = [cell for cell in question.cells if cell.key not in known]
        fresh: list[SweepRow] = []
        due = time.monotonic() + PART_EVERY_S
        try:
            for row in done(question.args, missing):
                known[row.key] = row
                fresh.append(row)
                each(row)
                if time.monotonic() > due:
                    kept.add(fresh)
                    fresh, due = [], time.monotonic() + PART_EVERY_S
        finally:
            # Also where Ctrl-C ends it.
            kept.add(fresh)
        rows = [known[cell.key] for cell in question.cells]
        kept.finish(rows)
        return Sweep(rows)
    finally:
        kept.close()


def done(args: list[str], cells: Sequence[Cell]) -> Iterator[SweepRow]:
    """Rows as they are done, in no order."""
    # Not all of Ray has types.
    cluster: Any = ray
    task: Any = ray.remote(num_cpus=1, max_retries=RETRIES)(paceline_cell)
    shared = ray.put(args)
    rest = iter(cells)
    running: dict[Any, Cell] = {}
    try:
        while True:
            # Machines come and go.
            room = AHEAD * max(1, int(cluster.cluster_resources().get("CPU", 1))) - len(running)
            for _, cell in zip(range(room), rest):
                running[task.remote(shared, cell)] = cell
            if not running:
                return
            ready, _ = ray.wait(list(running), num_returns=1, timeout=1.0)
            for reference in ready:
                yield row(reference, running.pop(reference))
    finally:
        for reference in running:
            ray.cancel(reference, force=False)


def row(reference: Any, cell: Cell) -> SweepRow:
    """What a task returned; what it raised, if that is an error of the user; else that it is lost."""
    try:
        made = ray.get(reference)
        assert isinstance(made, SweepRow)
        return made
    except RayTaskError as error:
        raise error.cause if isinstance(error.cause, Exception) else error
    except TaskCancelledError:
        raise
    except RayError as error:
        return cell.failed(LOST, f"{type(error).__name__} after {RETRIES + 1} tries: {str(error).splitlines()[0]}")


def paceline_cell(args: list[str], cell: Cell) -> SweepRow:
    """The task. Its name is that of its worker's process meanwhile."""
    return compare(args, cell)
