"""Tables: rows of cells with names or numbers, from which samples of any form are filled.

A format (`readers/csv.py`, `readers/parquet.py`, …) only says how a file becomes a `Sheet` (`sheet.py`). Which cell is
the source, the text or the label is the same question for all of them, and is answered here, by name (`translation.en`
reaches into a cell) or by number; how cells become conversations is told by `transcription.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from pydantic import model_validator

from regard.core.spec import FileName
from regard.data.header import check_labels, check_tags, guess_fields, spell_settings
from regard.data.illustration import Illustration
from regard.data.lines import Line, clean
from regard.data.log import Log, Unusable
from regard.data.picture import MOST, Pixels
from regard.data.reader import Key, ReaderSpec, choose_reader
from regard.data.sample import TEXTS, Form, FormSpec, Sample
from regard.data.sheet import Sheet, SheetRow, as_text, as_texts, plain
from regard.data.source import Paths, place_in, split_member
from regard.data.transcription import change_texts, describe_columns, find_columns, number_columns, transcribe
from regard.errors import DataError, Doubt

FIELDS = (
    *("source", "target", "text", "second", "label", "words", "tags", "picture", "texts"),
    *("messages", "prompt", "answer", "chosen", "rejected", "margin", "system", "context"),
)
SHOWN = 30  # fields that a message lists
TASKS = {"labels": "classification", "tags": "tagging", "pairs": "translation"}  # what mostly learns from such samples


class TableReader(ReaderSpec):
    """Rows of named or numbered cells. What isn't told is looked for by its own name, or in the first columns."""

    gives: ClassVar[tuple[Form, ...]] = (
        *("pairs", "documents", "labels", "tags", "images", "captions", "pictures"),
        *("conversations", "preferences", "prompts"),
    )
    path: Paths
    source: Key | None = None
    """The column of the source text, by name or by number from 0; unless given, `source`, or the first."""
    target: Key | None = None
    """The column of the target text; unless given, `target`, or the second."""
    text: Key | None = None
    """The column of the text of a document or of a sample with a label; unless given, `text`, or the first."""
    second: Key | None = None
    """The column of a second text, where a sample with a label has two."""
    label: Key | None = None
    """The column of the label; unless given, `label`, or the second."""
    words: Key | None = None
    """The column of a sentence's words, a list or a text that spaces divide; unless given, `words`, or the first."""
    tags: Key | None = None
    """The column of its tags, one for each word; unless given, `tags`, or the second."""
    picture: Key | None = None
    """The column of a picture's file; unless given, `picture`, or the first."""
    texts: Key | None = None
    """The column of a caption, or of a list of them; rows of one picture are one sample. Unless given, `texts`."""
    messages: Key | None = None
    """The column of conversations: lists of messages with role and content, or with from and value."""
    prompt: Key | None = None
    """The column of what is asked: a text, or a list of messages; unless given, `prompt`, `instruction` or the like."""
    answer: Key | None = None
    """The column of the answer to a prompt; unless given, `answer`, `response`, `completion` or the like."""
    chosen: Key | None = None
    """The column of the better answer: a text, or a conversation that ends with it; unless given, `chosen`."""
    rejected: Key | None = None
    """The column of the worse answer; unless given, `rejected`."""
    margin: Key | None = None
    """The column that says by how much the chosen answer is better; unless given, `margin`, if there is one."""
    system: Key | None = None
    """The column of what the system says before a conversation; unless given, `system`, if there is one."""
    context: Key | None = None
    """The column of what a prompt speaks of, which follows it; unless given, `input` beside an `instruction`."""
    pictures: FileName | None = None
    """Pictures lie here: a folder, a zip or a tar; unless given, beside the table."""
    pixels: Pixels = MOST
    many: bool = False
    """Nearly every text may have a label of its own, or there may be more tags than words; else that is refused."""

    @model_validator(mode="after")
    def check(self) -> Self:
        if not self.forms():
            raise ValueError(f"{', '.join(self.told())}: no sample has these together")
        return self

    @classmethod
    def take(cls, names: Sequence[str], form: Form) -> Self | None:
        # of two files with pairs, one is the source and the other the target
        return super().take(names, form) if form != "pairs" or len(names) == 1 else None

    def told(self) -> dict[str, Key]:
        """The columns that are named."""
        own = self.fields()
        return {name: own[name] for name in FIELDS if own[name] is not None}

    def forms(self) -> tuple[Form, ...]:
        """Those that have a place for every column that is named."""
        told, specs = set(self.told()), {form: FormSpec.parse(form) for form in self.gives}
        fitting = (form for form, spec in specs.items() if told <= {*(spec.parts or spec.list_fields())})
        return tuple(form for form in fitting if self.pictures is None or specs[form].list_pictures())

    def under(self, folder: Path) -> Self:
        placed = super().under(folder)
        return placed if self.pictures is None else placed.replace(pictures=place_in(folder, self.pictures))

    def turn_to(self, names: Sequence[str], form: Form) -> ReaderSpec | None:
        """Other files, with the same columns; another kind of table keeps those that have names."""
        asked = choose_reader(form, names)
        if asked.kind == self.kind:
            return self.replace(path=tuple(names))
        if not isinstance(asked, TableReader):
            return None
        return asked.replace(**{name: key for name, key in self.told().items() if isinstance(key, str)})

    def tables(self, form: Form, log: Log) -> Iterator[Sheet]:
        """Each file as a table."""
        for path in self.find(self.path):
            yield self.open(path, form, log)

    def open(self, path: str, form: Form, log: Log) -> Sheet:
        """A file as a table."""
        raise NotImplementedError

    def samples(self, log: Log) -> Iterator[Sample]:
        return self.read(self.forms()[0], log)

    def read(self, form: Form, log: Log, by: Key | None = None) -> Iterator[Sample]:
        tables = self.tables(form, log)
        if not FormSpec.parse(form).list_pictures():
            yield from (sample for table in tables for sample in self.fill(table, form, log, by))
        elif self.pictures is not None:  # one place for the pictures of all tables
            rows = (row for table in tables for row in self.fill(table, form, log, by))
            yield from Illustration(form, self.pictures, log, self.pixels, thorough=True)(rows)
        else:
            for table in tables:
                beside = Illustration(form, self.find_pictures(table), log, self.pixels)
                yield from beside(self.fill(table, form, log, by))

    def find_pictures(self, table: Sheet) -> str | None:
        """Where the pictures of a table lie if nobody says so: in its folder, or in the archive that it stands in."""
        archive, member = split_member(table.name)
        return archive if member else str(Path(archive).parent)

    def check_samples(self, samples: Iterator[Sample], form: Form) -> Iterator[Sample]:
        told = self.told()
        if form == "tags":
            return check_tags(samples, self.many, {"words": told.get("tags", 1), "tags": told.get("words", 0)})
        if form in ("labels", "images"):
            asked = "text" if form == "labels" else "picture"
            swapped = {asked: told.get("label", 1), "label": told.get(asked, 0)}
            return check_labels(samples, self.many, swapped, self.is_headless())
        return samples

    def is_headless(self) -> bool:
        """Whether nobody has said if a first line names the columns, and it may be so."""
        return False

    def keys(self, table: Sheet, form: Form) -> dict[str, Key]:
        """Where each field of a sample stands in a table."""
        told, usual = self.told(), list(FormSpec.parse(form).holds)
        if FormSpec.parse(form).parts:
            return {**number_columns(form), **told} if not table.fields else find_columns(form, table.fields, told)
        named = {name: name for name in usual}
        # an old rule first: a header that says nothing of ours leaves the columns their numbers
        by_number = not table.fields or (
            table.numbered
            and all(isinstance(key, int) for key in told.values())
            and not (all(map(table.has, named)) and not told)
        )
        rest: dict[str, Key] = {name: n for n, name in enumerate(usual)} if by_number else {**named}
        return {**rest, **told}

    def fill(self, table: Sheet, form: Form, log: Log, by: Key | None) -> Iterator[Sample]:
        """The samples of a table."""
        spec, keys = FormSpec.parse(form), self.keys(table, form)
        wanted = {**({} if spec.parts else keys), **({} if by is None else {"by": by})}
        insist_on_fields(table, form, wanted)
        if not keys:
            raise _miss_columns(table, form)
        most = max((key for key in keys.values() if isinstance(key, int)), default=-1) + 1
        maker = (Transcriber if spec.parts else SampleMaker)(table, keys, spec, log)
        for row in table.rows:
            if row.cells is None or (whole := self.check_width(row, most, form, log)).cells is None:
                log.drop()
            elif found := maker.fill(whole):
                sample, repaired = found
                if by is not None and (group := plain(table.get(row.cells, by))) is None:
                    log.skip(row.place, f"no value: {by!r}")
                    continue
                log.keep(repaired)
                yield sample if by is None else {**sample, "group": str(group)}

    def check_width(self, row: SheetRow, most: int, form: Form, log: Log) -> SheetRow:
        """The row, if it has as many cells as are wanted; without cells where it hasn't."""
        return row


def insist_on_fields(table: Sheet, form: Form, wanted: Mapping[str, Key]) -> None:
    """Refuse a table that hasn't the fields which are looked for, and say how those are named that it has."""
    missing = [str(key) for key in wanted.values() if not table.has(key)]
    if table.numbered and not table.fields and (named := [key for key in wanted.values() if isinstance(key, str)]):
        raise DataError(f"{table.name}: its columns have no names, and {named[0]!r} is one", "header: true")
    if not table.fields or not missing:
        return
    here, guess = ", ".join(table.fields[:SHOWN]), guess_fields(form, table.fields)
    more = f" and {len(table.fields) - SHOWN} more" if len(table.fields) > SHOWN else ""
    settings = guess or {name: "FIELD" for name, key in wanted.items() if not table.has(key)}
    hint = spell_settings(settings)
    if not guess and (fitting := next((other for other in TASKS if _has_fields_of(table, other)), None)):
        hint = f"task: {TASKS[fitting]}, which learns from such fields; or {hint}"
    raise Doubt(
        f"{table.name}: fields here: {here}{more}; looked for: {', '.join(missing)}",
        hint,
        {spell_settings(guess): guess} if guess else {},
    )


def _miss_columns(table: Sheet, form: Form) -> DataError:
    """What to say of a table that has no column with what was said."""
    here = ", ".join(table.fields[:SHOWN])
    parts = ", ".join(f"{part}: FIELD" for part in number_columns(form))
    return DataError(f"{table.name}: fields here: {here}; looked for: {describe_columns(form)}", parts)


def _has_fields_of(table: Sheet, form: Form) -> bool:
    """Whether a table names its fields just as a form does."""
    return all(name in table.fields for name in FormSpec.parse(form).holds)


class SampleMaker:
    """What makes samples of a table's rows."""

    def __init__(self, table: Sheet, keys: Mapping[str, Key], spec: FormSpec, log: Log) -> None:
        fields = spec.list_fields()
        self.table, self.keys, self.spec, self.log = table, keys, spec, log
        self.lists = {name for name in keys if fields.get(name) == TEXTS}
        self.pictures = set(spec.list_pictures())

    def fill(self, row: SheetRow) -> tuple[Sample, bool] | None:
        """A row as a sample, and whether it was repaired; None where it isn't one, and the log says why."""
        assert row.cells is not None
        sample: Sample = {"place": row.place}
        repaired, loose = row.repaired, self.spec.loose
        for name, key in self.keys.items():
            value = self.table.get(row.cells, key)
            if name in self.pictures and not isinstance(plain(value), str | int | None):
                sample[name] = value  # a picture itself, and not its name
                continue
            if name in self.lists and isinstance(value, str) and not self.spec.spaced:
                value = [value]
            named = loose or name in self.pictures  # a picture may be called by a number
            found = as_texts(value, loose) if name in self.lists else as_text(value, named)
            if found is None:
                self.log.skip(row.place, f"no {'list' if name in self.lists else 'text'}: {key!r}")
                return None
            if not self.table.numbered:  # lines have been cleaned before they were cut into cells
                lines = [clean(text, row.place, self.log) for text in (found if isinstance(found, list) else [found])]
                texts = [line.text for line in lines if line.text is not None]
                if len(texts) < len(lines):
                    self.log.drop()
                    return None
                repaired = repaired or any(line.repaired for line in lines)
                found = texts if name in self.lists else texts[0]
            trim = str.strip if self.spec.trimmed else str
            sample[name] = trim(found) if isinstance(found, str) else found if self.spec.spaced else [*map(trim, found)]
        if fault := self._find_fault(sample):
            self.log.skip(row.place, fault)
            return None
        return sample, repaired

    def _find_fault(self, sample: Sample) -> str:
        for name in self.keys:
            if name in self.pictures and not isinstance(sample[name], str):
                continue
            texts = [sample[name]] if name not in self.lists else sample[name]
            if not texts or not all(text and not text.isspace() for text in texts):
                return f"empty: {name}"
        return self.spec.find_fault(sample) if self.spec.aligned else ""


class Transcriber(SampleMaker):
    """What makes conversations of a table's rows."""

    def fill(self, row: SheetRow) -> tuple[Sample, bool] | None:
        assert row.cells is not None
        cells = {part: self.table.get(row.cells, key) for part, key in self.keys.items()}
        try:
            sample = transcribe(cells, self.spec.kind)
        except Unusable as error:
            self.log.skip(row.place, error.message)
            return None
        lines: list[Line] = []

        def mend(text: str) -> str:
            lines.append(clean(text, row.place, self.log))
            return lines[-1].text or ""

        mended = change_texts(sample, mend)
        if any(line.text is None for line in lines):
            self.log.drop()
            return None
        return {"place": row.place, **mended}, row.repaired or any(line.repaired for line in lines)
