"""Arrow tables, for the libraries that take them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from paceline import _native, _parquet

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class Table:
    """A table in Arrow's memory format. What knows Arrow's PyCapsule interface takes it as it is, without a copy:
    `polars.DataFrame(table)`, `pyarrow.table(table)`, `duckdb`, `pandas.DataFrame.from_arrow(table)`.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {kind}" for name, kind in self._native.columns())
        return f"<{type(self).__name__} of {len(self)} rows: {columns}>"

    @property
    def columns(self) -> list[str]:
        """Names of columns."""
        return [name for name, _ in self._native.columns()]

    def to_polars(self) -> polars.DataFrame:
        """A polars DataFrame with the same rows. It takes polars."""
        import polars

        frame = polars.DataFrame(self)
        return frame

    def to_pyarrow(self) -> pyarrow.Table:
        """A pyarrow Table with the same rows. It takes pyarrow."""
        import pyarrow

        return pyarrow.table(self)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes the rows as Parquet, zstd. A file that was there before is replaced when the new one is whole. It takes pyarrow."""
        _parquet.write(path, self.to_pyarrow())

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with the same rows. It takes pandas and pyarrow; pandas copies columns that are not Arrow's."""
        import pandas

        return pandas.DataFrame(self.to_pyarrow().to_pandas())
