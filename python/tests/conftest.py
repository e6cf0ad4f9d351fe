"""What tests of the package share: files of the repository."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def edge() -> Path:
    """A chain of several functions."""
    return ROOT / "examples/edge.toml"


@pytest.fixture
def capture() -> Path:
    """A capture that the chain was written for."""
    return ROOT / "captures/edge.pcap"


@pytest.fixture
def root() -> Path:
    """The repository."""
    return ROOT


@dataclass(frozen=True)
class Swept:
    """What sweeps are tried with."""

    chain: Path
    captures: Path
    """A folder with captures that were generated, of which no two are equal, and with one that is broken."""
    number: int
    """How many were generated."""
    settings: dict[str, Any] = field(
        default_factory=lambda: {
            "strategies": ["rss", "scr"],
            "cores": [2],
            "flows": ["default"],
            "loss": ["none"],
            "packets": 200,
            "simulate": True,
        }
    )


@pytest.fixture(scope="session")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Some captures; as many as PACELINE_SWEPT says."""
    folder = tmp_path_factory.mktemp("swept")
    number = int(os.environ.get("PACELINE_SWEPT", "40"))
    program = Path(sys.executable).with_name("paceline")
    for seed in range(number):
        model = f"university:packets=200,seed={seed}"
        subprocess.run([program, "generate", model, "--out", folder / f"{seed:03}.pcap"], check=True, capture_output=True)
    (folder / "broken.pcap").write_bytes(b"no capture")
    return Swept(ROOT / "examples/stats-limiter.toml", folder, number)
