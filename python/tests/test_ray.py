"""Sweeps over Ray: what workers that go away cost, and what it says of clusters that do not answer."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from conftest import Swept

import paceline

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install paceline[ray]")
cluster_utils = pytest.importorskip("ray.cluster_utils")

import paceline.ray
from paceline._sweep import SweepRow
from paceline.ray import _sweep as spread

# Ray's own.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def two_workers() -> Iterator[object]:
    """A cluster of three machines on this one: a head that runs no tasks, and two with one processor each."""
    small = {"object_store_memory": 80 << 20}
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **small})
    cluster.workers = [cluster.add_node(num_cpus=1, **small) for _ in range(2)]
    cluster.wait_for_nodes()
    with paceline.ray.connected(cluster.address, log_to_driver=False):
        yield cluster
    cluster.shutdown()


def processes_at_work() -> list[psutil.Process]:
    """Processes of Ray workers, started by this one, that are in the middle of a comparison."""
    children = psutil.Process().children(recursive=True)
    return [child for child in children if child.is_running() and "paceline_cell" in "".join(child.cmdline())]


def machines_at_work() -> int:
    """Machines of the cluster that run tasks and are alive, as its head knows."""
    return sum(node["Alive"] and node["Resources"].get("CPU", 0) > 0 for node in ray.nodes())


class Killer:
    """Is shown rows, and kills when the middle has passed."""

    def __init__(self, rows: int, kill: object) -> None:
        self.left = rows // 2
        self.kill = kill
        self.seen: list[SweepRow] = []

    def __call__(self, row: SweepRow) -> None:
        self.seen.append(row)
        self.left -= 1
        if self.left <= 0 and self.kill is not None and self.kill():  # type: ignore[operator]
            self.kill = None


def kill_a_process() -> bool:
    for process in processes_at_work():
        process.kill()
        return True
    return False


def test_a_machine_and_a_process_that_are_lost_cost_nothing(two_workers: object, swept: Swept, tmp_path: Path) -> None:
    alone = paceline.sweep(swept.chain, swept.captures, **swept.settings)

    def kill_a_machine() -> bool:
        kill_a_process()
        two_workers.remove_node(two_workers.workers.pop(), allow_graceful=False)  # type: ignore[attr-defined]
        return True

    killer = Killer(len(alone.rows), kill_a_machine)
    begin = time.monotonic()
    spread_out = paceline.ray.sweep(swept.chain, swept.captures, out=tmp_path / "out", each=killer, **swept.settings)
    took = time.monotonic() - begin
    assert killer.kill is None, "a machine was lost"
    print(f"{len(alone.rows)} comparisons of {swept.number + 1} captures, two machines, of which one was killed: {took:.1f} s")
    # The head hears of it later than the tasks do.
    until = time.monotonic() + 60
    while machines_at_work() != 1 and time.monotonic() < until:
        time.sleep(0.1)
    assert machines_at_work() == 1
    assert spread_out.rows == alone.rows
    assert len(killer.seen) == len(alone.rows)

    # All is done: nothing is made again, and the file has the table.
    def none(*_: object) -> None:
        raise AssertionError("made again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread, "paceline_cell", none)
        again = paceline.ray.sweep(swept.chain, swept.captures, out=tmp_path / "out", resume=True, **swept.settings)
    assert again.rows == alone.rows
    import pyarrow.parquet

    assert pyarrow.parquet.read_table(tmp_path / "out/runs.parquet").equals(alone.to_pyarrow())


def test_without_retries_a_lost_worker_is_seen(
    two_workers: object, swept: Swept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault that the test above would catch, planted; and what a sweep says that cannot do better."""
    monkeypatch.setattr(spread, "RETRIES", 0)
    alone = paceline.sweep(swept.chain, swept.captures, **swept.settings)
    killer = Killer(len(alone.rows), kill_a_process)
    found = paceline.ray.sweep(swept.chain, swept.captures, out=tmp_path / "out", each=killer, **swept.settings)
    lost = [row for row in found.rows if row.outcome == "lost"]
    assert len(lost) >= 1 and found.rows != alone.rows and len(found.rows) == len(alone.rows)
    # What is lost is not done: going on makes it.
    again = paceline.ray.sweep(swept.chain, swept.captures, out=tmp_path / "out", resume=True, **swept.settings)
    assert again.rows == alone.rows


def program(*args: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    """`paceline sweep`, with the `python3` of this environment."""
    folder = Path(sys.executable).parent
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **environment}
    return subprocess.run([folder / "paceline", "sweep", *map(str, args)], env=env, capture_output=True, text=True, timeout=120)


def test_the_program_hands_over(swept: Swept, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["--chains", swept.chain, "--strategies=rss", "--cores=2", "--flows=default", "--packets=100", "--simulate"]
    done = program(swept.captures, *options, "--ray=local", f"--out={out}")
    assert done.returncode == 0, done.stderr
    assert f"{swept.number + 1} comparisons" in done.stdout and "unreadable" in done.stdout
    assert (out / "runs.parquet").exists()
    # Once more into a folder that has a sweep.
    refused = program(swept.captures, *options, "--ray=local", f"--out={out}")
    assert refused.returncode == 2 and "there already" in refused.stderr, refused.stderr
    # A Python without the package.
    (tmp_path / "python3").write_text("#!/bin/sh\nexec /usr/bin/env -i PYTHONPATH= " + sys.executable + ' -S -E "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    without = program(swept.captures, *options, "--ray=local", PATH=str(tmp_path))
    assert without.returncode == 2 and "pip install 'paceline[ray]'" in without.stderr, without.stderr
    absent = program(swept.captures, *options, "--ray=local", PATH="")
    assert absent.returncode == 2 and "python3" in absent.stderr, absent.stderr


def test_an_address_that_does_not_answer_is_an_error_in_bounded_time(
    swept: Swept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paceline.ray._cluster, "ANSWERS_WITHIN_S", 4)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        taken = silent.getsockname()[1]
        with pytest.raises(paceline.Error, match="within 4 s"), paceline.ray.connected(f"127.0.0.1:{taken}"):
            pass
    with pytest.raises(paceline.Error, match="no Ray cluster answers"), paceline.ray.connected(f"127.0.0.1:{taken}"):
        pass
    with pytest.raises(paceline.Error, match="no Ray cluster answers"), paceline.ray.connected("nonsense"):
        pass
