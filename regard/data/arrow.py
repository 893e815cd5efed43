"""Columns in Arrow's memory format, as Parquet and Arrow files hold them: batches of rows, one after the other.

`pyarrow` is an extra (`regard[data]`), so it is imported where a file is opened. What `datasets` of Hugging Face notes
in a file's schema is read too: the names of the classes that numbers in a column stand for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from regard.data.log import Log
from regard.data.sheet import Sheet, SheetRow
from regard.errors import DataError, MissingPackage

GROUP = 1000  # rows that are turned into Python's objects together
NOTE = b"huggingface"  # the key of a schema's metadata


def import_pyarrow(path: str) -> Any:
    """The library, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise MissingPackage(f"{path}: reading it", "pyarrow", "data") from None
    return pyarrow


def list_readable(schema: Any) -> list[str]:
    """The columns that can hold text; images and sounds are left where they are."""
    return [column.name for column in schema if "binary" not in str(column.type)]


def list_schema(schema: Any) -> tuple[str, ...]:
    """The names of a schema's fields; those within one with its own before them."""
    return tuple(name for column in schema for name in _list_column(column.name, column.type))


def _list_column(name: str, kind: Any) -> Iterator[str]:
    """A struct has fields of its own, which are known by their flattened names."""
    if kind.num_fields and str(kind).startswith("struct<"):
        for inner in kind:
            yield from (f"{name}.{part}" for part in _list_column(inner.name, inner.type))
    else:
        yield name


def read_classes(metadata: Mapping[bytes, bytes] | None) -> dict[str, list[str]]:
    """The names of classes by column, as a note in the schema has them."""
    try:
        noted = json.loads((metadata or {}).get(NOTE, b"{}"))
        return find_classes(noted["info"]["features"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}  # not noted, or by another program


def find_classes(features: Mapping[str, Any]) -> dict[str, list[str]]:
    """The names of classes by column, where a column is numbers of classes or lists of them."""
    found = {}
    for name, feature in features.items():
        # lists were written as `Sequence` with a feature, and by older versions as a list of one
        inner = feature[0] if isinstance(feature, list) and feature else feature
        while isinstance(inner, Mapping) and "names" not in inner and isinstance(inner.get("feature"), Mapping):
            inner = inner["feature"]
        names = inner.get("names") if isinstance(inner, Mapping) else None
        if isinstance(names, list) and all(isinstance(one, str) for one in names):
            found[name] = names
    return found


def open_table(path: str, opened: Iterator[Any], log: Log) -> Sheet:
    """A table from a generator that gives a file's schema first, and then its batches.

    The file is open for as long as the generator lives, so that a stream is read once.
    """
    damage = (import_pyarrow(path).ArrowException, OSError, ValueError)
    try:
        schema = next(opened)
    except damage as error:
        raise DataError(f"{path}: it can't be opened: {_shorten(error)}", "check that the file is whole") from None
    rows = read_batches(opened, path, damage, log)
    return Sheet(path, list_schema(schema), rows, read_classes(schema.metadata))


def read_batches(
    batches: Iterable[Any], path: str, damage: tuple[type[Exception], ...], log: Log
) -> Iterator[SheetRow]:
    """The rows of batches, each at its number in the file; what comes after damage is lost, and told."""
    number = 0
    try:
        for batch in batches:
            for start in range(0, batch.num_rows, GROUP):
                for cells in batch.slice(start, GROUP).to_pylist():
                    number += 1
                    yield SheetRow(f"{path}:{number}", cells)
    except damage as error:
        log.skip(f"{path}:{number + 1}", f"damaged file: {_shorten(error)}")


def _shorten(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
