"""What tests of the package share: files of the repository."""

from pathlib import Path

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
