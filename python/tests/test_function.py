"""Functions written in Python are run and judged like any other."""

import struct
from pathlib import Path

import paceline
import polars
import pytest

CHAIN = '[[function]]\nuse = "{use}"\nobject = "quota"\n'


class Quota:
    """Lets each flow send so many packets, and drops the rest."""

    def __init__(self, packets: int) -> None:
        self.packets = packets

    def step(self, state: bytes | None, packet: paceline.Packet) -> tuple[bytes | None, paceline.Verdict]:
        sent = struct.unpack("<Q", state)[0] if state else 0
        if sent == self.packets:
            return state, "drop"
        return struct.pack("<Q", sent + 1), "forward"


class Shared:
    """Keeps what it counts outside of the flow's state: what it answers depends on how cores take turns."""

    def __init__(self) -> None:
        self.packets = 0

    def step(self, state: bytes | None, packet: paceline.Packet) -> tuple[bytes | None, paceline.Verdict]:
        self.packets += 1
        return b"", "drop" if self.packets % 7 == 0 else "forward"


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN.format(use="python-five-tuple"))
    return path


def test_it_decides(chain: Path, capture: Path) -> None:
    """As plain polars has it: the packets of a flow past the third are dropped."""
    run = paceline.run(chain, capture, functions={"quota": Quota(3)})
    verdicts = run.verdicts.to_polars()
    expected = verdicts.with_columns(polars.int_range(polars.len()).over("flow").alias("nth"))
    is_dropped = expected["flow"].is_not_null() & (expected["nth"] >= 3)
    assert is_dropped.any() and (is_dropped == (expected["verdict"] == "drop")).all()
    assert run.report.drops == {"python-five-tuple/dropped": is_dropped.sum()}
    assert run.functions[0].name == "python-five-tuple"


@pytest.mark.parametrize("use", ["python-five-tuple", "python-connection", "python-source"])
@pytest.mark.parametrize("strategy", ["rss", "rsspp", "scr"])
def test_many_cores_give_the_answer_of_one(tmp_path: Path, capture: Path, use: str, strategy: str) -> None:
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN.format(use=use))
    report = paceline.verify(path, capture, strategy=strategy, cores=2, functions={"quota": Quota(3)})
    assert report.holds and report.exact and report.packets > 0


def test_state_outside_of_the_flow_is_found(chain: Path, capture: Path) -> None:
    report = paceline.verify(chain, capture, strategy="rss", cores=2, functions={"quota": Shared()})
    assert not report.holds and report.different > 0


def test_it_sees_the_packet(chain: Path, capture: Path) -> None:
    seen = []

    class Look:
        def step(self, state: bytes | None, packet: paceline.Packet) -> tuple[bytes | None, paceline.Verdict]:
            seen.append((packet.source, packet.source_port, packet.destination, packet.destination_port, packet.protocol))
            return None, "forward"

    run = paceline.run(chain, capture, functions={"quota": Look()})
    flows = run.flows.to_polars().with_row_index("flow")
    packets = run.verdicts.to_polars().filter(polars.col("flow").is_not_null()).join(flows, on="flow", maintain_order="left")
    of = ["source", "source_port", "destination", "destination_port", "protocol"]
    assert seen == packets.select(of).rows()


def test_what_it_raises_is_raised(chain: Path, capture: Path) -> None:
    class Wrong:
        def __init__(self, returns: object) -> None:
            self.returns = returns

        def step(self, state: bytes | None, packet: paceline.Packet) -> object:
            if isinstance(self.returns, Exception):
                raise self.returns
            return self.returns

    for returns, error, what in [
        (KeyError("mine"), KeyError, "mine"),
        ("forward", TypeError, "returns the state"),
        ((None, "pass"), ValueError, "'pass'"),
        ((bytes(64), "forward"), ValueError, "63 at most"),
    ]:
        for cores in (1, 2):
            with pytest.raises(error, match=what):
                paceline.run(chain, capture, strategy="rss", cores=cores, functions={"quota": Wrong(returns)})  # type: ignore[dict-item]
    with pytest.raises(AttributeError, match="step"):
        paceline.verify(chain, capture, functions={"quota": object()})  # type: ignore[dict-item]


def test_a_chain_names_objects_of_the_call(chain: Path, capture: Path) -> None:
    with pytest.raises(paceline.Error, match="has none"):
        paceline.run(chain, capture)
    with pytest.raises(paceline.Error, match="which are: other") as caught:
        paceline.run(chain, capture, functions={"other": Quota(1)})
    assert caught.value.place and caught.value.place.startswith(str(chain))
