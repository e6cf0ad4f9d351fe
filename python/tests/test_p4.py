"""Programs in P4 give what the program gives: the reference, and models of pipelines."""

import json
import subprocess
import sysconfig
from pathlib import Path

import paceline
import pytest

PROGRAM = Path(sysconfig.get_path("scripts")) / "paceline"


@pytest.mark.parametrize("name", ["port_knocking", "token_bucket", "nat_lb"])
def test_test_files_are_met(root: Path, name: str) -> None:
    program = root / f"examples/p4/{name}.p4"
    report = paceline.p4.run(program, stf=program.with_suffix(".stf"))
    assert report.stf is not None and report.stf.expectations > 0 and report.stf.failures == []


def test_a_test_file_that_is_not_met_is_no_error(root: Path, tmp_path: Path) -> None:
    program = root / "examples/p4/port_knocking.p4"
    stf = tmp_path / "wrong.stf"
    stf.write_text(program.with_suffix(".stf").read_text() + "\nexpect 3 FFFFFFFFFFFF\n")
    report = paceline.p4.run(program, stf=stf)
    assert report.stf is not None and len(report.stf.failures) == 1


def test_a_capture_leaves_the_state_that_the_program_says(root: Path, capture: Path) -> None:
    program = root / "examples/p4/port_knocking.p4"
    report = paceline.p4.run(program, capture)
    command = [PROGRAM, "p4", "run", program, "--pcap", capture, "--json", "-"]
    said = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert (report.packets, report.dropped) == (said["packets"], said["dropped"])
    assert [table.name for table in report.state.mu_tables] == [table["name"] for table in said["state"]["mu_tables"]]
    assert len(report.state.mu_tables[0].entries) == len(said["state"]["mu_tables"][0]["entries"])


def test_packets_one_by_one(root: Path) -> None:
    frame = bytes(12) + b"\x08\x06" + bytes(46)
    report = paceline.p4.run(root / "examples/p4/port_knocking.p4", packets=[frame], port=3)
    assert report.sent[0].port == 3 and bytes.fromhex(report.sent[0].bytes) == frame


def test_rapid_gives_what_the_reference_gives(root: Path, capture: Path) -> None:
    emulation = paceline.p4.emulate(root / "examples/p4/port_knocking.p4", capture, check=True, packets=2000)
    assert emulation.check is not None and emulation.check.first is None and emulation.packets_in == 2000


def test_a_synthetic_program(capture: Path) -> None:
    emulation = paceline.p4.emulate("synthetic", traffic="zipf", packets=2000, stages=4, update_rate=30, load_percent=60)
    assert emulation.stages == 4 and emulation.throughput > 0


def test_mistakes_have_their_place(tmp_path: Path) -> None:
    program = tmp_path / "wrong.p4"
    program.write_text("header h_t { bit<8> a; }\nnonsense here;\n")
    with pytest.raises(paceline.Error) as caught:
        paceline.p4.run(program, packets=[bytes(14)])
    assert caught.value.status == 2 and caught.value.place == f"{program}:1:1"
    assert "main" in caught.value.message and "expected `(`" in str(caught.value)


def test_a_cut_capture_is_said(root: Path, capture: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(capture.read_bytes()[:-5])
    with pytest.warns(paceline.IncompleteWarning, match="cut.pcap"):
        assert not paceline.p4.run(root / "examples/p4/port_knocking.p4", cut).complete
