"""Parquet: columns on disk, read one group of rows after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from regard.data.arrow import GROUP, import_pyarrow, list_readable, open_table
from regard.data.log import Log
from regard.data.sample import Form
from regard.data.sheet import Sheet
from regard.data.source import open_bytes
from regard.data.table import TableReader
from regard.errors import DataError


class Parquet(TableReader):
    """Rows of Parquet files (extra `data`); fields by name, `translation.en` for one within another."""

    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    kind: Literal["parquet"] = "parquet"

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        return open_table(path, read_parquet(path), log)


def read_parquet(path: str) -> Iterator[Any]:
    """A file's schema and then its batches; its end says where its columns are, so it can't be a stream."""
    import_pyarrow(path)
    from pyarrow import parquet

    with open_bytes(path) as stream:
        if not stream.seekable():
            raise DataError(f"{path}: Parquet can't be read as a stream", "save it to a file first")
        file = parquet.ParquetFile(stream)
        yield file.schema_arrow
        yield from file.iter_batches(GROUP, columns=list_readable(file.schema_arrow))
