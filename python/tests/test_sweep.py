"""Sweeps in this process, and the folder that keeps their rows."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from conftest import Swept

import paceline
from paceline._sweep import Kept


def test_a_row_for_each_comparison(swept: Swept) -> None:
    found = paceline.sweep(swept.chain, swept.captures, **swept.settings)
    # Four whole ones and a broken one, under two strategies, one of which refuses a chain with such tables or not.
    assert [row.capture for row in found.rows] == sorted(row.capture for row in found.rows)
    assert len(found.rows) == 2 * (swept.number + 1) and len({row.key for row in found.rows}) == len(found.rows)
    broken = [row for row in found.rows if row.outcome == "unreadable"]
    assert {Path(row.capture).name for row in broken} == {"broken.pcap"} and len(broken) == 2
    assert all("broken.pcap" in row.about for row in broken)
    assert found.outcomes["equal"] + found.outcomes.get("equal-up-to", 0) == 2 * swept.number
    assert not found.findings and {row.strategy for row in found.rows} == {"rss", "scr"}
    assert found.to_pyarrow().to_pylist() == [vars(row) for row in found.rows]
    # As patterns and one by one.
    pattern = paceline.sweep([swept.chain], f"{swept.captures}/*.pcap", **swept.settings)
    assert pattern.rows == found.rows


def test_it_is_the_sweep_of_the_program(swept: Swept, tmp_path: Path) -> None:
    program = Path(sys.executable).with_name("paceline")
    options = ["--strategies=rss,scr", "--cores=2", "--flows=default", "--loss=none", "--packets=200", "--simulate"]
    sweep = [program, "sweep", "--chains", swept.chain, *options, "--out", tmp_path / "out", "--", swept.captures]
    subprocess.run(sweep, check=True, capture_output=True)
    keys = {line.split('"')[3] for line in (tmp_path / "out/runs.jsonl").read_text().splitlines()}
    found = paceline.sweep(swept.chain, swept.captures, **swept.settings)
    # What cannot be read has one line there, and a row for each comparison here.
    assert keys <= {row.key for row in found.rows}
    assert len(keys) == len(found.rows) - found.outcomes["unreadable"] + 1


def test_what_cannot_be_swept_is_an_error(swept: Swept, tmp_path: Path) -> None:
    with pytest.raises(paceline.Error, match="no file matches"):
        paceline.sweep(swept.chain, tmp_path / "*.pcap")
    with pytest.raises(paceline.Error, match="cannot read"):
        paceline.sweep(swept.chain, tmp_path / "gone.pcap")
    with pytest.raises(paceline.Error) as raised:
        paceline.sweep(swept.chain, swept.captures, strategies=["rs"])
    assert raised.value.status == 2


def test_half_a_file_is_never_taken_for_whole(swept: Swept, tmp_path: Path) -> None:
    rows = paceline.sweep(swept.chain, swept.captures, **swept.settings).rows
    kept = Kept(tmp_path, resume=False)
    kept.add(rows[:3])
    kept.close()
    (part,) = (tmp_path / "parts").glob("*.parquet")
    # What a process leaves that ends in the middle of a write.
    for half in (tmp_path / "parts/x.parquet.half", tmp_path / "runs.parquet.half"):
        half.write_bytes(part.read_bytes()[:100])
    kept = Kept(tmp_path, resume=True)
    assert list(kept.rows.values()) == rows[:3] and not list(tmp_path.rglob("*.half"))
    # What is lost is tried again.
    kept.add([replace(rows[3], outcome="lost")])
    assert len(kept.rows) == 3
    kept.finish(rows)
    kept.close()
    assert pyarrow.parquet.read_table(tmp_path / "runs.parquet").to_pylist() == [vars(row) for row in rows]
    assert not list((tmp_path / "parts").iterdir())


def test_a_folder_is_one_sweeps(swept: Swept, tmp_path: Path) -> None:
    rows = paceline.sweep(swept.chain, swept.captures, **swept.settings).rows
    kept = Kept(tmp_path, resume=False)
    with pytest.raises(paceline.Error, match="another sweep writes"):
        Kept(tmp_path, resume=True)
    kept.finish(rows)
    kept.close()
    with pytest.raises(paceline.Error, match="there already"):
        Kept(tmp_path, resume=False)
    (tmp_path / "runs.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(paceline.Error, match=r"cannot read .*runs\.parquet"):
        Kept(tmp_path, resume=True)


def test_tables_are_written_whole(edge: Path, capture: Path, tmp_path: Path) -> None:
    flows = paceline.run(edge, capture).flows
    flows.to_parquet(tmp_path / "flows.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "flows.parquet").equals(flows.to_pyarrow())
    with pytest.raises(OSError):
        flows.to_parquet(tmp_path / "no/flows.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["flows.parquet"]
