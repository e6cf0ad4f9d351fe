"""Captures in an object store: a server that speaks S3 (moto), on loopback."""

import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Swept

import paceline
from paceline import _objects

pytest.importorskip("obstore", reason="obstore is not installed: pip install paceline[objects]")
pytest.importorskip("moto", reason="moto is not installed: pip install moto[server]")
import obstore
from obstore.store import from_url

BEGIN = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def bucket(swept: Swept, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A bucket with the captures of `swept`, and with a text that is none."""
    server = subprocess.Popen([sys.executable, "-W", "ignore", "-c", BEGIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdout is not None
    endpoint = f"http://127.0.0.1:{int(server.stdout.readline())}"
    for name, value in {
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
    }.items():
        monkeypatch.setenv(name, value)
    answers(endpoint)
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/captures", method="PUT"), timeout=60).close()
    store: Any = from_url("s3://captures")
    for file in swept.captures.iterdir():
        obstore.put(store, f"day/{file.name}", file)
    obstore.put(store, "day/README.txt", b"no capture")
    yield "s3://captures"
    _objects.Fetched.last = None
    server.communicate(timeout=60)


def answers(endpoint: str) -> None:
    """Waits until a server answers."""
    until = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(f"{endpoint}/moto-api/data.json", timeout=60).close()
            return
        except (urllib.error.URLError, ConnectionError):
            assert time.monotonic() < until
            time.sleep(0.05)


def test_objects_are_compared_as_files_are(bucket: str, swept: Swept) -> None:
    files = paceline.sweep(swept.chain, swept.captures, **swept.settings)
    objects = paceline.sweep(swept.chain, f"{bucket}/day/", **swept.settings)

    def told(row: paceline.SweepRow) -> paceline.SweepRow:
        # Names differ, and what comes of them: seeds, and why a file cannot be read.
        about = "" if row.outcome == "unreadable" else row.about
        return replace(row, key="", seed=0, capture=row.capture.rpartition("/")[2], about=about)

    assert list(map(told, objects.rows)) == list(map(told, files.rows))
    assert {row.capture for row in objects.rows} == {f"{bucket}/day/{file.name}" for file in swept.captures.iterdir()}
    # A pattern names some, and an object itself.
    some = paceline.sweep(swept.chain, f"{bucket}/d?y/00*.pcap", **swept.settings)
    one = paceline.sweep(swept.chain, f"{bucket}/day/000.pcap", **swept.settings)
    assert some.rows == [row for row in objects.rows if "/00" in row.capture] and one.rows == some.rows[: len(one.rows)]


def test_what_is_not_there_is_said(bucket: str, swept: Swept, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(paceline.Error, match="no capture at s3://captures/night/"):
        paceline.sweep(swept.chain, f"{bucket}/night/")
    with pytest.raises(paceline.Error, match="cannot list s3://elsewhere/"):
        paceline.sweep(swept.chain, "s3://elsewhere/")
    gone = paceline.sweep(swept.chain, f"{bucket}/day/gone.pcap", **swept.settings)
    assert {(row.outcome, row.about) for row in gone.rows} == {("unreadable", f"no object {bucket}/day/gone.pcap")}
    # A store that does not answer is no property of the capture: the comparison is to be made again.
    monkeypatch.setenv("AWS_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(_objects.WAITS, "max_retries", 0)
    lost = paceline.sweep(swept.chain, f"{bucket}/day/000.pcap", **swept.settings)
    assert lost.outcomes == {"lost": len(lost.rows)} and "cannot read" in lost.rows[0].about


def test_the_program_names_who_reads_objects(swept: Swept) -> None:
    program = Path(sys.executable).with_name("paceline")
    done = subprocess.run([program, "sweep", "s3://captures/day/", "--chains", swept.chain], capture_output=True, text=True)
    assert done.returncode == 2 and "--ray" in done.stderr, done.stderr
