"""Errors are exceptions with the program's text, the place and what to do; a defect does not end Python."""

import pickle
import subprocess
import sysconfig
from pathlib import Path

import paceline
import pytest
from paceline import _native

PROGRAM = Path(sysconfig.get_path("scripts")) / "paceline"


def test_a_mistake_in_a_chain_has_its_place(tmp_path: Path, capture: Path) -> None:
    chain = tmp_path / "chain.toml"
    chain.write_text('[[function]]\nuse = "conntrak"\n')
    with pytest.raises(paceline.Error) as caught:
        paceline.run(chain, capture)
    error = caught.value
    assert error.place == f"{chain}:2:7" and error.status == 2 and error.code == "chain-file"
    assert "conntrak" in error.message and error.help and "conntrack" in str(error)
    said = subprocess.run([PROGRAM, "run", chain, "--pcap", capture], capture_output=True, text=True)
    assert said.returncode == 2 and " ".join(error.message.split()) in " ".join(said.stderr.split())


def test_missing_files(edge: Path, capture: Path, tmp_path: Path) -> None:
    for call in (
        lambda: paceline.run(tmp_path / "no.toml", capture),
        lambda: paceline.run(edge, tmp_path / "no.pcap"),
        lambda: paceline.verify(edge, tmp_path / "no.pcap"),
        lambda: paceline.plan(edge, tmp_path / "no.pcap"),
        lambda: paceline.compare(edge, tmp_path / "no.pcap"),
        lambda: paceline.read_capture(tmp_path / "no.pcap"),
    ):
        with pytest.raises(paceline.Error, match="no\\.(toml|pcap)") as caught:
            call()
        assert caught.value.status == 2 and caught.value.place is None


def test_what_is_no_capture(edge: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "text.pcap").write_text("This is text, and no capture.\n")
    for path in (tmp_path / "empty.pcap", tmp_path / "text.pcap", tmp_path, edge):
        with pytest.raises(paceline.Error):
            paceline.run(edge, path)
        with pytest.raises(paceline.Error):
            paceline.read_capture(path)


def test_wrong_options_say_what_was_meant(edge: Path, capture: Path) -> None:
    with pytest.raises(paceline.Error, match="rsp") as caught:
        paceline.run(edge, capture, strategy="rsp")
    assert caught.value.help and "rss" in caught.value.help
    with pytest.raises(paceline.Error, match="--cores"):
        paceline.run(edge, capture, strategy="rss", cores=-1)
    with pytest.raises(paceline.Error, match="--strategy"):
        paceline.run(edge, capture, strategy="--json")
    with pytest.raises(TypeError, match="core"):
        paceline.run(edge, capture, core=2)  # type: ignore[call-arg]


def test_a_pipe_is_refused(edge: Path, tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe")
    for path in (Path("-"), tmp_path / "pipe"):
        with pytest.raises(paceline.Error, match="twice"):
            paceline.run(edge, path)


def test_a_capture_that_is_cut_short(edge: Path, capture: Path, tmp_path: Path) -> None:
    whole = paceline.run(edge, capture)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(capture.read_bytes()[:-5])
    with pytest.warns(paceline.IncompleteWarning, match="cut.pcap"):
        run = paceline.run(edge, cut)
    assert not run.report.complete and run.report.error and len(run.verdicts) == len(whole.verdicts) - 1
    with pytest.warns(paceline.IncompleteWarning):
        assert not paceline.verify(edge, cut).holds


def test_a_defect_is_an_error_and_ends_nothing(edge: Path, capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(paceline.Error, match="a defect that was asked for") as caught:
        _native.defect()
    assert caught.value.status == 101 and "report it" in (caught.value.help or "")
    assert len(paceline.run(edge, capture).verdicts) > 0


def test_an_error_can_be_pickled(edge: Path) -> None:
    with pytest.raises(paceline.Error) as caught:
        paceline.run(edge, "no.pcap")
    again = pickle.loads(pickle.dumps(caught.value))
    assert vars(again) == vars(caught.value) and str(again) == str(caught.value)
