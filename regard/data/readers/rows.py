"""Rows that a Python program has in its hands: any iterable of dicts, a frame of pandas or polars, a table of Arrow, a
data set of Hugging Face. They are known by what they can do; none of these libraries is imported.

A run file can't hold them. It says what they were, and the run keeps them as numbers, so it goes on without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from itertools import islice
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from regard.core.spec import show_value
from regard.data.arrow import list_schema, read_classes
from regard.data.log import Log
from regard.data.sample import TEXT, Form, FormSpec
from regard.data.sheet import Sheet, SheetRow, list_fields
from regard.data.table import TableReader
from regard.errors import DataError


@runtime_checkable
class PandasFrame(Protocol):
    """A DataFrame of pandas."""

    columns: Iterable[Any]

    def itertuples(self, index: bool, name: None) -> Iterable[Sequence[Any]]: ...


@runtime_checkable
class PolarsFrame(Protocol):
    """A DataFrame of polars."""

    columns: Iterable[Any]

    def iter_rows(self, *, named: bool) -> Iterable[Mapping[str, Any]]: ...


@runtime_checkable
class ArrowTable(Protocol):
    """A Sheet of pyarrow."""

    schema: Any

    def to_batches(self) -> Iterable[Any]: ...


@runtime_checkable
class HuggingFaceDataset(Protocol):
    """A Dataset or an IterableDataset of Hugging Face."""

    features: Any
    column_names: Any

    def __iter__(self) -> Iterator[Mapping[str, Any]]: ...


class HandedRows(str):
    """What rows were, as a run file says it; with the rows themselves in the process that was handed them."""

    __slots__ = ("rows",)
    rows: Any  # None: only the run file is left of them

    def __new__(cls, what: str, rows: Any = None) -> HandedRows:
        made = super().__new__(cls, what)
        made.rows = rows
        return made

    @classmethod
    def read(cls, value: Any) -> HandedRows:
        """What stands for rows in a tree of settings."""
        if isinstance(value, str):
            return value if isinstance(value, cls) else cls(value)
        frame = isinstance(value, PandasFrame | PolarsFrame | ArrowTable)
        if not frame and (isinstance(value, Mapping | bytes) or not isinstance(value, Iterable)):
            kind = type(value).__name__
            raise ValueError(f"rows are an iterable of dicts or a frame, and {show_value(value)} is of type {kind}")
        return cls(describe_rows(value), value)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(cls.read)


class PythonRows(TableReader):
    """Rows from Python; a run file that has such a reader says what they were, and can't read them again."""

    files: ClassVar[tuple[str, ...]] = ()
    kind: Literal["rows"] = "rows"
    path: None = None  # type: ignore[assignment]
    """There is no file."""
    rows: HandedRows
    """The rows in Python; in a run file, what they were."""

    def tables(self, form: Form, log: Log) -> Iterator[Sheet]:
        if self.rows.rows is None:
            raise DataError(
                f"{self.rows}: these rows were handed in from Python, and aren't in any file",
                "regard.fit(…, data=ROWS) hands them in; regard resume RUN goes on with a run that kept them",
            )
        yield make_table(self.rows.rows, form)

    def find_pictures(self, table: Sheet) -> None:
        """Names of pictures are paths, as they are for whoever wrote them."""


def describe_rows(rows: Any) -> str:
    """What rows were, for the run file: their type, how many they were and their names, as far as that is known."""
    kind = f"{type(rows).__module__.partition('.')[0]}.{type(rows).__name__}".removeprefix("builtins.")
    count = f", {len(rows):,} rows" if isinstance(rows, Sized) else ""
    names: Iterable[Any] = ()
    if isinstance(rows, HuggingFaceDataset):
        names = rows.column_names or ()
    elif isinstance(rows, PandasFrame | PolarsFrame):
        names = rows.columns
    elif isinstance(rows, Sequence) and isinstance(rows[:1], list | tuple):
        names = [name for first in rows[:1] if isinstance(first, Mapping) for name in list_fields(first)]
    shown = [str(name) for name in islice(names, 20)]
    return f"{kind}{count}{': ' if shown else ''}{', '.join(shown)}"


def make_table(rows: Any, form: Form) -> Sheet:
    """Rows as a table, whatever they are; `form`: what they are to be, for whoever must be shown."""
    if isinstance(rows, PandasFrame):
        names = [str(name) for name in rows.columns]
        found: Iterable[Any] = (dict(zip(names, row, strict=True)) for row in rows.itertuples(index=False, name=None))
        return Sheet.of_objects("rows", number(found, form))
    if isinstance(rows, PolarsFrame):
        return Sheet.of_objects("rows", number(rows.iter_rows(named=True), form))
    if isinstance(rows, ArrowTable) and not isinstance(rows, HuggingFaceDataset):
        found = (row for batch in rows.to_batches() for row in batch.to_pylist())
        table = Sheet("rows", list_schema(rows.schema), number(found, form), read_classes(rows.schema.metadata))
        return table
    table = Sheet.of_objects("rows", number(rows, form))
    if isinstance(rows, HuggingFaceDataset):
        table.classes = read_features(rows.features)
    return table


def number(rows: Iterable[Any], form: Form) -> Iterator[SheetRow]:
    """Objects as rows; what isn't an object is rejected where it is used."""
    for count, cells in enumerate(rows, 1):
        if not isinstance(cells, Mapping):
            raise DataError(f"rows:{count}: a row is a dict of cells, and {show_value(cells)} isn't", spell_rows(form))
        yield SheetRow(f"rows:{count}", cells)


def spell_rows(form: Form) -> str:
    """Rows of a form as one types them: `[{"text": "…", "label": "…"}, …]`."""
    fields = FormSpec.parse(form).holds.items()
    cells = ", ".join(f'"{name}": ' + ('"…"' if field == TEXT else "[…]") for name, field in fields)
    return f"[{{{cells}}}, …]"


def read_features(features: Any) -> dict[str, list[str]]:
    """The names of classes by column, as a data set's features have them."""
    found = {}
    for name, feature in (features or {}).items():
        inner = feature
        while not isinstance(inner, NamedFeature) and isinstance(inner, NestedFeature):
            inner = inner.feature
        if isinstance(inner, NamedFeature) and inner.names:
            found[name] = list(inner.names)
    return found


@runtime_checkable
class NamedFeature(Protocol):
    """A feature whose numbers have names."""

    names: Sequence[str]


@runtime_checkable
class NestedFeature(Protocol):
    """A feature that is a list of another."""

    feature: Any
