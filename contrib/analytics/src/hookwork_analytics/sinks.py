"""Where rows go: JSON Lines, or Parquet files. A sink of your own needs two methods.

BigQuery has a module of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hookwork.errors import ConfigurationError
from hookwork.platform import new_uuid, now
from hookwork_analytics.arrow import flat, schema
from hookwork_analytics.rows import Row


class Sink(Protocol):
    """Takes rows. Both methods are called one at a time, in a worker thread."""

    def write(self, rows: Sequence[Row]) -> None:
        """Keep rows; a raise means that none of them was kept, and they are given again."""

    def close(self) -> None:
        """No rows come any more."""


class JsonLinesSink:
    """Appends rows to a file, one JSON object a line, in one write for each batch."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, rows: Sequence[Row]) -> None:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(lines.encode())

    def close(self) -> None:
        """Nothing is held open."""


class ParquetSink:
    """Writes Parquet files into a folder: one for every ``rows_per_file`` rows, and one with the rest at the end.

    Needs pyarrow: ``pip install hookwork-analytics[parquet]``.

    Raises:
        ConfigurationError: pyarrow is not installed.
    """

    def __init__(self, folder: str | os.PathLike[str], *, rows_per_file: int = 10_000) -> None:
        try:
            import pyarrow.parquet  # type: ignore[import-untyped] # noqa: F401
        except ImportError as error:
            raise ConfigurationError(
                "Parquet files need pyarrow; try: pip install 'hookwork-analytics[parquet]'"
            ) from error
        self.folder = Path(folder)
        self._rows_per_file = rows_per_file
        self._rows: list[Row] = []

    def write(self, rows: Sequence[Row]) -> None:
        waiting = [*self._rows, *rows]
        while len(waiting) >= self._rows_per_file:
            self._write_file(waiting[: self._rows_per_file])
            waiting = waiting[self._rows_per_file :]
        self._rows = waiting

    def close(self) -> None:
        """Write the rest."""
        if self._rows:
            self._write_file(self._rows)
            self._rows = []

    def _write_file(self, rows: Sequence[Row]) -> None:
        import pyarrow
        from pyarrow import parquet

        table = pyarrow.Table.from_pylist([flat(row) for row in rows], schema=schema(pyarrow))
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"events-{now():%Y%m%dT%H%M%S}-{new_uuid()}.parquet"
        # Under another name until it is whole: readers take every *.parquet of a folder.
        unfinished = self.folder / f"{name}.part"
        parquet.write_table(table, unfinished)
        unfinished.rename(self.folder / name)
