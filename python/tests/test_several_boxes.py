"""What docs/guides/several-boxes.md says of balancers: boxes that never saw a connection's beginning know its backend."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

VIP = bytes([198, 51, 100, 10])
FIRST_BACKEND = 21


def chain(backends: int, drained: int = 0) -> str:
    """A balancer with so many equal backends, of which the last ones are drained."""
    states = [', state = "drain"' * (number >= backends - drained) for number in range(backends)]
    lines = [f'  {{ address = "198.51.100.{FIRST_BACKEND + number}", port = 8080{state} }},' for number, state in enumerate(states)]
    services = '[[function.services]]\nvip = "198.51.100.10"\nport = 80\nprotocol = "tcp"\nbackends = [\n'
    return 'name = "box"\n[[function]]\nuse = "load-balancer"\npolicy = "maglev"\n' + services + "\n".join(lines) + "\n]\n"


def records(capture: bytes) -> list[bytes]:
    """Packets of a pcap, with their headers."""
    at, found = 24, []
    while at < len(capture):
        (length,) = struct.unpack_from("<I", capture, at + 8)
        found.append(capture[at : at + 16 + length])
        at += 16 + length
    return found


class Box:
    """A box of its own, with the chain that all have."""

    def __init__(self, folder: Path, text: str) -> None:
        self.folder = folder
        (folder / "box.toml").write_text(text)

    def backends(self, capture: bytes) -> dict[bytes, int]:
        """The backend that each client's connection was sent to; a connection has one."""
        (self.folder / "in.pcap").write_bytes(capture)
        program = Path(sys.executable).with_name("paceline")
        run = [program, "run", "box.toml", "--pcap", "in.pcap", "--out", "out.pcap"]
        subprocess.run(run, cwd=self.folder, check=True, capture_output=True)
        found: dict[bytes, int] = {}
        for record in records((self.folder / "out.pcap").read_bytes()):
            frame = record[16:]
            is_tcp = frame[12:14] == b"\x08\x00" and frame[23] == 6 and frame[14] == 0x45
            is_to_backend = frame[30:33] == VIP[:3] and frame[33] >= FIRST_BACKEND and frame[36:38] == (8080).to_bytes(2, "big")
            if is_tcp and is_to_backend:
                client = frame[26:30] + frame[34:36]
                assert found.setdefault(client, frame[33]) == frame[33], "a connection has one backend"
        return found


@pytest.fixture
def whole(capture: Path) -> bytes:
    return capture.read_bytes()


def test_a_box_that_saw_no_beginning_knows_the_backend(whole: bytes, tmp_path: Path) -> None:
    begun = Box(tmp_path, chain(10)).backends(whole)
    packets = records(whole)
    for share in (0.3, 0.5, 0.7):
        # The router sent it what was left of connections when another box went.
        late = Box(tmp_path, chain(10)).backends(whole[:24] + b"".join(packets[int(share * len(packets)) :]))
        assert len(late) > 50 and late == {client: begun[client] for client in late}
    # A box with other backends does not: the fault that this is to catch.
    other = Box(tmp_path, chain(10, drained=5)).backends(whole)
    assert other != begun


@pytest.mark.parametrize("backends", [3, 5, 10])
def test_a_backend_less_moves_few_others(whole: bytes, tmp_path: Path, backends: int) -> None:
    before = Box(tmp_path, chain(backends)).backends(whole)
    after = Box(tmp_path, chain(backends, drained=1)).backends(whole)
    gone = FIRST_BACKEND + backends - 1
    assert gone not in after.values() and len(before) == len(after) > 400
    stayed = [client for client in before if before[client] != gone]
    moved = sum(before[client] != after[client] for client in stayed) / len(stayed)
    by_modulo = 1 - 1 / (backends - 1)
    print(f"{backends} backends, one drained: {moved:.1%} of {len(stayed)} connections of others move; mod N: {by_modulo:.1%}")
    assert moved < 0.01


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="it takes root and `ip`")
@pytest.mark.parametrize(("policy", "status"), [("1", 0), ("0", 1)])
def test_a_router_moves_what_the_arithmetic_says(root: Path, policy: str, status: int) -> None:
    """A router that hashes addresses alone has the one client on one box: the script has to say so."""
    script = [sys.executable, root / "lab/several_boxes.py", "--flows", "1000", "--hash-policy", policy]
    done = subprocess.run(script, capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
