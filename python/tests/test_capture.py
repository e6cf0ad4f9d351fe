"""Captures as Arrow: the packets lie in the mapped file, and are those that are in it."""

import gc
import gzip
import signal
import struct
import subprocess
import sys
from pathlib import Path

import paceline
import polars
import pyarrow
import pytest


def packets_of(data: bytes) -> list[tuple[int, int, bytes]]:
    """Reads a little-endian pcap with plain code: of each packet its time, its length on the wire, its bytes."""
    unit = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[struct.unpack_from("<I", data)[0]]
    at, found = 24, []
    while at < len(data):
        seconds, fraction, captured, length = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 10**9 + fraction * unit, length, data[at + 16 : at + 16 + captured]))
        at += 16 + captured
    return found


def rows(table: paceline.Capture) -> list[tuple[int, int, bytes]]:
    arrow = table.to_pyarrow()
    times = arrow["time"].cast(pyarrow.int64())
    return list(zip(times.to_pylist(), arrow["length"].to_pylist(), arrow["packet"].to_pylist(), strict=True))


def mappings(path: Path) -> list[tuple[int, int]]:
    """Where this process has a file mapped: first address, and the one behind the last."""
    found = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith(str(path)):
            first, last = line.split()[0].split("-")
            found.append((int(first, 16), int(last, 16)))
    return found


def data_buffers(arrow: pyarrow.Table) -> list[pyarrow.Buffer]:
    """Buffers with bytes of packets: behind validity and views."""
    return [buffer for chunk in arrow["packet"].chunks for buffer in chunk.buffers()[2:]]


@pytest.mark.parametrize("name", ["edge.pcap", "gateway.pcap"])
def test_rows_are_the_packets_of_the_file(root: Path, name: str) -> None:
    path = root / "captures" / name
    assert rows(paceline.read_capture(path)) == packets_of(path.read_bytes())


def test_nothing_is_copied(capture: Path) -> None:
    table = paceline.read_capture(capture)
    assert table.is_mapped and table.error is None
    arrow = table.to_pyarrow()
    ((first, last),) = mappings(capture)
    buffers = data_buffers(arrow)
    assert buffers
    for buffer in buffers:
        assert first <= buffer.address and buffer.address + buffer.size <= last
    assert pyarrow.total_allocated_bytes() < capture.stat().st_size, "pyarrow made no memory of its own for them"


def test_that_nothing_is_copied_can_be_seen(capture: Path) -> None:
    """What is copied lies in no mapping of the file: the check above can fail."""
    table = paceline.read_capture(capture, copy=True)
    assert not table.is_mapped and data_buffers(table.to_pyarrow()) and not mappings(capture)


def test_a_copy_outlives_its_file(capture: Path, tmp_path: Path) -> None:
    file = tmp_path / "file.pcap"
    file.write_bytes(capture.read_bytes())
    table = paceline.read_capture(file, copy=True)
    file.write_bytes(b"")
    assert rows(table) == packets_of(capture.read_bytes())


def test_a_mapped_file_that_is_cut_ends_its_reader(capture: Path, tmp_path: Path) -> None:
    """As the page of `read_capture` says. This holds what is said there."""
    file = tmp_path / "file.pcap"
    file.write_bytes(capture.read_bytes())
    code = f"import paceline; t = paceline.read_capture({str(file)!r}); open({str(file)!r}, 'wb'); t.to_pyarrow()['packet'].to_pylist()"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGBUS


def test_the_mapping_lives_as_long_as_what_was_made_of_it(capture: Path) -> None:
    table = paceline.read_capture(capture)
    column = table.to_pyarrow()["packet"]
    frame = table.to_polars()
    del table
    gc.collect()
    expected = [packet for _, _, packet in packets_of(capture.read_bytes())]
    assert mappings(capture) and column.to_pylist() == expected
    del column
    gc.collect()
    assert mappings(capture) and frame["packet"].to_list() == expected
    del frame
    gc.collect()
    assert not mappings(capture), "nobody uses it any longer"


def test_a_capsule_that_nobody_takes_leaves_nothing(capture: Path) -> None:
    table = paceline.read_capture(capture)
    table.__arrow_c_stream__()
    del table
    gc.collect()
    assert not mappings(capture)


def test_all_libraries_take_it(capture: Path) -> None:
    table = paceline.read_capture(capture)
    frame = polars.DataFrame(table)
    assert frame.schema["packet"] == polars.Binary
    assert frame.height == len(table) == len(table.to_pandas())
    assert bytes(table.to_pandas()["packet"][0]) == frame["packet"][0]


@pytest.mark.parametrize("copy", [False, True])
def test_packed_files_and_copies_have_the_same_rows(capture: Path, tmp_path: Path, copy: bool) -> None:
    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    table = paceline.read_capture(packed, copy=copy)
    assert not table.is_mapped and not mappings(packed)
    assert rows(table) == rows(paceline.read_capture(capture, copy=True)) == rows(paceline.read_capture(capture))


def test_every_cut_gives_the_whole_packets(capture: Path, tmp_path: Path) -> None:
    data = capture.read_bytes()[:4000]
    borders = [24]
    while borders[-1] + 16 <= len(data):
        borders.append(borders[-1] + 16 + struct.unpack_from("<I", data, borders[-1] + 8)[0])
    cut = tmp_path / "cut.pcap"
    for length in range(borders[1], len(data), 7):
        cut.write_bytes(data[:length])
        whole = max(border for border in borders if border <= length)
        if whole == length:
            table = paceline.read_capture(cut)
        else:
            with pytest.warns(paceline.IncompleteWarning, match="cut.pcap"):
                table = paceline.read_capture(cut)
        assert rows(table) == packets_of(data[:whole])
        assert (table.error is None) == (whole == length)


def test_a_damaged_length_is_said(capture: Path, tmp_path: Path) -> None:
    data = bytearray(capture.read_bytes())
    second = 24 + 16 + struct.unpack_from("<I", data, 24 + 8)[0]
    struct.pack_into("<I", data, second + 8, 0x7FFFFFFF)
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(data)
    with pytest.warns(paceline.IncompleteWarning, match="2147483647"):
        table = paceline.read_capture(damaged)
    assert len(table) == 1 and table.error is not None and table.error.status == 4


def test_no_packets_are_no_rows(capture: Path, tmp_path: Path) -> None:
    empty = tmp_path / "none.pcap"
    empty.write_bytes(capture.read_bytes()[:24])
    table = paceline.read_capture(empty)
    assert len(table) == 0 and table.to_polars().height == 0 and len(table.to_pandas()) == 0


def test_importing_takes_no_other_library() -> None:
    code = "import sys, paceline; print([name for name in ('polars', 'pandas', 'pyarrow', 'numpy') if name in sys.modules])"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.strip() == "[]"
