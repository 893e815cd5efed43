"""Arrow and Feather: columns as they are in memory, in a file or as a stream of batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from regard.data.arrow import import_pyarrow, open_table
from regard.data.log import Log
from regard.data.sample import Form
from regard.data.sheet import Sheet
from regard.data.source import open_bytes
from regard.data.table import TableReader

MAGIC = b"ARROW1"  # of a file; a stream has none


class Arrow(TableReader):
    """Rows of Arrow files or streams, and of Feather's second version (extra `data`)."""

    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather", ".ipc")
    kind: Literal["arrow"] = "arrow"

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        return open_table(path, read_arrow(path), log)


def read_arrow(path: str) -> Iterator[Any]:
    """A file's schema and then its batches."""
    pyarrow = import_pyarrow(path)
    with open_bytes(path) as stream:
        if not stream.peek(len(MAGIC)).startswith(MAGIC):
            opened = pyarrow.ipc.open_stream(stream)
            yield opened.schema
            yield from opened
            return
        file = pyarrow.ipc.open_file(stream)
        yield file.schema
        yield from (file.get_batch(number) for number in range(file.num_record_batches))
