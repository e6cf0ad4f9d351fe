"""Parquet files that are there whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def write(path: str | os.PathLike[str], table: pyarrow.Table) -> None:
    """Writes a table, zstd. A file that was there before is replaced when the new one is whole and on disk; an error leaves it."""
    import pyarrow.parquet

    half = f"{os.fspath(path)}.half"
    try:
        with open(half, "wb") as file:
            pyarrow.parquet.write_table(table, file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        os.replace(half, path)
    except BaseException:
        if os.path.exists(half):
            os.unlink(half)
        raise
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
