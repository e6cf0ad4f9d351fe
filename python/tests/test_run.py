"""Runs, comparisons and predictions give what the program gives."""

import json
import os
import signal
import struct
import subprocess
import sysconfig
import threading
from pathlib import Path

import paceline
import polars
import pyarrow
import pyarrow.compute as compute
import pytest

PROGRAM = Path(sysconfig.get_path("scripts")) / "paceline"


def test_five_lines_give_a_frame_of_flows(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    run = paceline.run("examples/edge.toml", "captures/edge.pcap")
    flows = run.flows.to_polars()
    assert flows["packets"].sum() > 0
    assert flows.columns[:5] == ["protocol", "source", "source_port", "destination", "destination_port"]


@pytest.mark.parametrize("strategy", ["single", "rss", "rsspp", "scr", "auto"])
def test_a_run_is_the_programs(edge: Path, capture: Path, strategy: str) -> None:
    cores = 1 if strategy == "single" else 2
    run = paceline.run(edge, capture, strategy=strategy, cores=cores, seed=1)
    command = [PROGRAM, "run", edge, "--pcap", capture, "--strategy", strategy, "--cores", str(cores), "--seed", "1", "--json", "-"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert run.report.digest == said["digest"]
    assert run.report.drops == said["drops"]
    assert vars(run.report.verdicts) == said["verdicts"]
    assert [function.name for function in run.functions] == [function["name"] for function in said["functions"]]


def test_tables_add_up_to_the_report(edge: Path, capture: Path) -> None:
    run = paceline.run(edge, capture, strategy="rss", cores=2)
    verdicts, flows, drops = (table.to_pyarrow() for table in (run.verdicts, run.flows, run.drops))
    assert len(verdicts) == run.report.packets
    counts = compute.value_counts(verdicts["verdict"].combine_chunks().dictionary_decode())
    counted = {row["values"]: row["counts"] for row in counts.to_pylist()}
    assert counted == {name: count for name, count in vars(run.report.verdicts).items() if count}
    by_reason: dict[str, int] = {}
    for row in drops.to_pylist():
        by_reason[f"{row['dropped_by']}/{row['reason']}"] = by_reason.get(f"{row['dropped_by']}/{row['reason']}", 0) + 1
        number = row.pop("number")
        assert {name: verdicts[name][number].as_py() for name in row} == row
    assert by_reason == run.report.drops
    of_flows = verdicts.filter(compute.is_valid(verdicts["flow"]))
    assert compute.sum(flows["packets"]).as_py() == len(of_flows)
    assert compute.sum(flows["bytes"]).as_py() == compute.sum(of_flows["length"]).as_py()
    assert sum(compute.sum(flows[name]).as_py() for name in ("forward", "drop", "transmit_back", "host")) == len(of_flows)
    assert compute.max(flows["last"]).as_py() <= verdicts["time"][-1].as_py()


def test_flows_are_of_what_came_in(root: Path) -> None:
    """A NAT rewrites addresses: flows have those ahead of it, and packets say that they were edited."""
    chain = root / "examples/nat.toml"
    inside = paceline.run(chain, root / "captures/edge.pcap")
    plain = paceline.run(root / "examples/edge.toml", root / "captures/edge.pcap")
    of = ["protocol", "source", "source_port", "destination", "destination_port", "packets"]
    assert inside.flows.to_polars().select(of).equals(plain.flows.to_polars().select(of))
    assert inside.verdicts.to_polars()["edited"].any()


def test_every_strategy_has_the_same_tables(edge: Path, capture: Path) -> None:
    one = paceline.run(edge, capture, seed=7)
    for strategy in ("rss", "scr"):
        many = paceline.run(edge, capture, strategy=strategy, cores=3, seed=7)
        for name in ("verdicts", "flows", "drops"):
            assert getattr(many, name).to_polars().equals(getattr(one, name).to_polars()), (strategy, name)


def test_a_flood_of_flows_is_one_row_each(edge: Path, tmp_path: Path) -> None:
    """Each packet has a source of its own, as a spoofed flood: tables grow with the capture, and the chain's do not."""
    flood, packets = tmp_path / "flood.pcap", 50_000
    header = bytes.fromhex("02000000000102000000000208004500001c00000000401100000a000000c0000201") + bytes.fromhex("0400003500080000")
    with flood.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(packets):
            frame = header[:26] + struct.pack(">I", 0x0B000000 + number) + header[30:]
            file.write(struct.pack("<IIII", 1, number, len(frame), len(frame)) + frame)
    run = paceline.run(edge, flood, flows=1000)
    assert len(run.flows) == len(run.verdicts) == packets
    assert run.flows.to_polars()["packets"].max() == 1


def test_all_libraries_take_tables(edge: Path, capture: Path) -> None:
    flows = paceline.run(edge, capture).flows
    rows = len(flows)
    assert rows > 0 and pyarrow.table(flows).num_rows == rows
    assert polars.DataFrame(flows).height == rows
    assert len(flows.to_pandas()) == rows
    assert pyarrow.schema(flows).names == flows.columns
    assert f"{rows} rows" in repr(flows)


def test_verify_finds_no_difference(edge: Path, capture: Path) -> None:
    report = paceline.verify(edge, capture, strategy="rss", cores=2)
    assert report.holds and report.packets > 0
    assert report.outcome is paceline.reports.verify.Outcome.equal


def test_verify_of_a_simulation_says_its_seed(edge: Path, capture: Path) -> None:
    assert paceline.verify(edge, capture, strategy="rss", cores=2, simulate=5).simulated == 5


def test_plan_and_compare_measure(edge: Path, capture: Path) -> None:
    forecast = paceline.plan(edge, capture, cores=4, packets=2000, rounds=1)
    assert len(forecast.points) == 4 and forecast.advice.sentences
    comparison = paceline.compare(edge, capture, strategies=["rss"], cores=[1], searches=1, latency=[], packets=4096)
    assert [series.strategy for series in comparison.series] == ["rss"]
    assert comparison.series[0].points[0].mpps > 0


def test_ctrl_c_ends_a_call(edge: Path, capture: Path) -> None:
    """The signal comes while the call measures for minutes, or ahead of it: either way it ends."""
    import _thread

    # A shell has its background jobs ignore Ctrl-C, and Python then takes none.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threading.Thread(target=_thread.interrupt_main).start()
            paceline.plan(edge, capture, rounds=1000, packets=1 << 22)
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_go_on_meanwhile(edge: Path, capture: Path) -> None:
    begun = threading.Event()

    def work() -> None:
        begun.set()
        paceline.plan(edge, capture, cores=2, rounds=1)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    turns = 0
    while thread.is_alive():
        turns += 1
        os.sched_yield()
    assert turns > 100


def test_two_threads_may_run_at_once(edge: Path, capture: Path) -> None:
    digests: list[str] = []
    threads = [threading.Thread(target=lambda: digests.append(paceline.run(edge, capture, seed=3).report.digest)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 2 and len(set(digests)) == 1
