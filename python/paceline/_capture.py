"""Captures as tables."""

from __future__ import annotations

import os
import warnings

from paceline import _native
from paceline._errors import Error, IncompleteWarning
from paceline._table import Table


class Capture(Table):
    """The packets of a capture, a row for each, in the order of the file.

    | column | type | what it is |
    |---|---|---|
    | `time` | timestamp in ns, UTC | when the packet was captured; 2262 at most |
    | `length` | uint32 | bytes on the wire |
    | `link_type` | uint16 | what the bytes begin with, by its number in pcap files: 1 is Ethernet |
    | `packet` | binary view | captured bytes |

    Attributes:
        is_mapped: Whether the bytes of packets lie in the mapped file. If not, they were copied.
        error: Why the file ended behind the last whole packet, or None if it ended as it should.
    """

    def __init__(self, native: _native.Table, is_mapped: bool, error: Error | None) -> None:
        super().__init__(native)
        self.is_mapped = is_mapped
        self.error = error


def read_capture(path: str | os.PathLike[str], *, copy: bool = False) -> Capture:
    """Reads a capture: pcap or pcapng, plain, gzip or zstd.

    The bytes of packets are not copied: they lie in the mapped file, which stays mapped as long as anything uses the table or
    what was made of it. So the file must stay as it is that long: packets change with it, and where another process cuts it
    short, reading them ends this one (SIGBUS). `copy=True` reads such files. Packed files are unpacked into memory.

    Of a file that is cut short or damaged, the whole packets before that are given, and `IncompleteWarning` says why.

    Raises:
        Error: The file cannot be opened, is no capture, or has no whole packet.
    """
    native, is_mapped, error = _native.read_capture(path, copy)
    if error is not None:
        warnings.warn(str(error), IncompleteWarning, stacklevel=2)
    return Capture(native, is_mapped, error)
