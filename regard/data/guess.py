"""A corpus from nothing but files: which form their samples have, which reader takes them, which column is what.

Names go before content: an ending, a header, a field that is called `label`. What only the content can tell is told by
it: a column of texts that hardly ever come again, and one of few values that always do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from regard.data.cell import CellReader
from regard.data.encoding import UTF8, check_encoding
from regard.data.header import LANGUAGES, USUAL, WANTED, WORD, guess_fields
from regard.data.hunch import (
    TOLD,
    find_gallery,
    find_split_folders,
    guess_pictures,
    guess_speech,
    has_pictures,
    holds_captions,
    look_inside,
    names_pictures,
    tell_pictures,
)
from regard.data.lines import LONGEST, lines, rows
from regard.data.log import BAD, ENCODING, Log
from regard.data.packing import strip_packing
from regard.data.reader import Key, ReaderSpec, guess_kind
from regard.data.readers.dataset import ALIASES, find_splits
from regard.data.sample import Form
from regard.data.sheet import Sheet, SheetRow, reach
from regard.data.source import STANDARD_INPUT, find_files, list_folder
from regard.data.table import FIELDS, SHOWN, TableReader
from regard.errors import DataError, SpecError

FIRST, EVERY, LAST = 1000, 100, 100_000  # rows that are looked at: the first, then every so many, up to so many
MOSTLY = 0.8  # of the lines that must agree
FEW = 0.2  # of the rows: labels are fewer
# in the order in which they are thought of; those that a header may name
NAMED: tuple[Form, ...] = ("captions", "images", "tags", "labels", "pairs")
FORMS: tuple[Form, ...] = (*NAMED, "documents")
# what is made of something else, where two columns of texts have names that no one has listed
MADE = "summary title headline answer response completion translation target output highlights"
SECOND = {"premise": "hypothesis", "question": "sentence", "sentence1": "sentence2", "question1": "question2"}
SPEECH = {"prompts": "prompts", "conversations": "jsonl", "preferences": "jsonl"}  # readers, where no name tells one
FORM_FIELDS = (*FIELDS, "many")  # columns, and not of a format


@dataclass
class ColumnSample:
    """What the rows of a table have: names, if there are any, and values column by column."""

    keys: list[Key]
    values: list[list[Any]]

    @property
    def names(self) -> list[str]:
        return [key for key in self.keys if isinstance(key, str)]


def divide_files(paths: Sequence[str]) -> dict[str, list[str]]:
    """Files by the splits that their names tell, if one of them is for training; else all are."""
    found: dict[str, list[str]] = {}
    for path in paths:
        found.setdefault(name_split(path), []).append(path)
    told = "train" in found and "" not in found
    return {split: found[split] for split in ALIASES if split in found} if told else {"train": list(paths)}


def name_split(path: str) -> str:
    words = re.findall("[a-z]+", Path(strip_packing(path)).name.lower())
    return next((split for split, names in ALIASES.items() if any(word in names for word in words)), "")


def propose_corpus(paths: Sequence[str], form: Form | None = None, told: Mapping[str, Any] | None = None) -> Proposal:
    """A corpus of these files as a run file would describe it; `told`: settings of the reader that are known."""
    divided = divide_files(find_split_folders(paths, name_split) or paths)
    reader, found = _propose_reader(divided["train"], form, dict(told or {}))
    corpus = {split: _turn_to(reader, files) for split, files in divided.items()}
    corpus = {split: {**tree, **_propose_gallery(tree, found)} for split, tree in corpus.items()}
    return Proposal(found, {"kind": "files", **corpus})


def _propose_gallery(tree: Mapping[str, Any], form: Form) -> dict[str, Any]:
    """Where the pictures of a table lie, if that must be said."""
    kind, path = ReaderSpec.kinds[tree["kind"]], tree.get("path")
    if "pictures" in tree or not isinstance(path, str) or not issubclass(kind, TableReader) or not has_pictures(form):
        return {}
    columns = _read_columns(kind, find_files(path)[0], tree)
    key = tree.get("picture", columns.keys[0])
    named = columns.values[columns.keys.index(key)] if key in columns.keys else []
    gallery = find_gallery(path, next((value for value in named if isinstance(value, str)), ""))
    return {} if gallery is None else {"pictures": gallery}


@dataclass
class Proposal:
    """A corpus as a run file describes it, and the form of its samples."""

    form: Form
    corpus: dict[str, Any]


def _turn_to(reader: Mapping[str, Any], files: Sequence[str]) -> dict[str, Any]:
    if reader["kind"] == "text":
        half, odd = divmod(len(files), 2)
        if odd:
            raise DataError(f"{', '.join(files)}: a source and a target are wanted", "name both files of each split")
        return {"kind": "text", "source": _fold(files[:half]), "target": _fold(files[half:]), **reader}
    return {"kind": reader["kind"], "path": _fold(files), **reader}


def _fold(files: Sequence[str]) -> str | list[str]:
    return files[0] if len(files) == 1 else list(files)


def _propose_reader(files: Sequence[str], form: Form | None, told: dict[str, Any]) -> tuple[dict[str, Any], Form]:
    """The settings of a reader for some files, without their names, and the form of their samples."""
    if form in (None, "pairs") and len(files) == 2 and _are_sides(files, form):
        return {"kind": "text", **told}, "pairs"
    if len(files) == 1 and Path(files[0]).is_dir():
        return _propose_folder(files[0], form, told)
    kind = (
        told.pop("kind", None) or guess_kind(list(files)) or look_inside(files[0]) or _find_kind(files[0], form, told)
    )
    if kind not in ReaderSpec.kinds:
        raise SpecError(f"kind: no reader is called {kind!r}", f"known: {', '.join(sorted(ReaderSpec.kinds))}")
    bound = ReaderSpec.kinds[kind]
    if not issubclass(bound, TableReader):
        own, settings = bound.list_forms() if issubclass(bound, ReaderSpec) else (), {"kind": kind, **told}
        if form not in own:
            form = ReaderSpec.parse({"path": tuple(files), **settings}).guess_form() if has_pictures(own[0]) else own[0]
        return settings, form
    if files[0] == STANDARD_INPUT:  # it can be read once only, so nothing is looked up in it
        return {"kind": kind, **told}, form or "documents"
    path = find_files(files[0])[0]
    columns = _read_columns(bound, path, told)
    _insist_on_columns(path, columns, told)
    settings, found = _propose_columns(columns, form, told)
    return {"kind": kind, **settings}, found


def _propose_folder(folder: str, form: Form | None, told: dict[str, Any]) -> tuple[dict[str, Any], Form]:
    splits = find_splits(Path(folder))
    if not splits:
        if pictures := tell_pictures(list_folder(Path(folder))):
            reader = ReaderSpec.parse({"kind": pictures, "path": folder, **told})
            return {"kind": pictures, **told}, form or reader.guess_form()
        # a folder with texts, a document each
        return {"kind": "documents", **told}, "documents"
    files = [str(file) for file in splits.get("train", next(iter(splits.values())))]
    settings, found = _propose_reader(files[:1], form, told)
    return {**settings, "kind": "dataset"}, found


def _are_sides(files: Sequence[str], form: Form | None) -> bool:
    """Whether two files are a text and its translation: their names differ in what stands for a language."""
    if guess_kind(list(files)) is not None:
        return False
    if form == "pairs":
        return True
    one, other = (re.findall("[^\\W\\d_]+", Path(strip_packing(file)).name.lower()) for file in files)
    sides = {*LANGUAGES.split(), "source", "target", "src", "tgt", "trg"}
    differ = {word for both in zip(one, other, strict=False) if len(set(both)) == 2 for word in both}
    alike = len(one) == len(other) and bool(differ) and differ <= sides
    # `a.en` and `short.fr`: the endings say it, whatever else the files are called
    ends = {Path(strip_packing(file)).suffix.lower().removeprefix(".") for file in files}
    if not alike and not (len(ends) == 2 and ends <= sides):
        return False
    _insist_on_length(files)
    return True


def _insist_on_length(files: Sequence[str]) -> None:
    """Refuse two sides that haven't as many lines: nobody has said that they are sides, so they may be documents."""
    if not all(Path(file).is_file() for file in files):
        return
    one, other = (sum(1 for _ in rows(file, Log())) for file in files)
    if one != other:
        raise DataError(
            f"{files[0]} has {one} lines and {files[1]} has {other}: they can't be translations line by line",
            "check that both files are whole; or, if they are documents, name the task: regard data FILES --task "
            "language, or regard new language --data FILES",
        )


def _find_kind(path: str, form: Form | None, told: Mapping[str, Any]) -> str:
    """The kind of a file whose name doesn't tell it: tabs make columns, single words with a tag make sentences."""
    if path == STANDARD_INPUT:
        return {"pairs": "tsv", "labels": "labels", "tags": "columns", **SPEECH}.get(form or "", "documents")
    if form in SPEECH:
        return SPEECH[form]
    log, encoding = Log(), _find_encoding(told)
    first = list(islice(lines(find_files(path)[0], log, LONGEST, encoding), FIRST))
    _refuse_bytes(path, log, len(first), told)
    texts = [line.text for line in first if line.text is not None]
    whole = [text for text in texts if text.strip()]
    if not whole:
        raise DataError(f"{path}: there is no line of text in it", "check the file")
    cells = Counter(len(text.split()) for text in whole)
    # sentences end at an empty line, and each word has as many columns as the others
    width, agreed = cells.most_common(1)[0]
    if form in (None, "tags") and len(whole) < len(texts) and width > 1 and agreed >= MOSTLY * len(whole):
        return "columns"
    if sum("\t" in text for text in whole) >= MOSTLY * len(whole):
        return "tsv"
    for sign in (",", ";", "|"):
        counts = Counter(text.count(sign) for text in whole)
        number, agreed = counts.most_common(1)[0]
        if form != "documents" and number and agreed >= MOSTLY * len(whole) and len(whole) > 2:
            return "csv"
    return "tsv" if form in ("pairs", "labels") else "columns" if form == "tags" else "documents"


def _read_columns(kind: type[TableReader], path: str, told: Mapping[str, Any]) -> ColumnSample:
    """The values of a table's first rows, and of some later ones."""
    own = {name: value for name, value in told.items() if name not in ("header", *FORM_FIELDS)}
    reader = kind.parse({"path": path, **own})
    assert isinstance(reader, TableReader)
    log = Log()
    if isinstance(reader, CellReader):
        cut = list(_thin(reader.cut(path, log)))
        _refuse_bytes(path, log, len(cut), told)
        cells = [list(row.cells) for row in cut if row.cells and any(str(cell).strip() for cell in row.cells)]
        if not cells:
            raise DataError(f"{path}: no row can be read: {log.summary()}", "check the file")
        by_name = any(isinstance(told.get(name), str) for name in FORM_FIELDS)
        named = told.get("header") or (told.get("header") is None and (by_name or _is_header(cells[0])))
        width = len(cells[0]) if named else Counter(map(len, cells)).most_common(1)[0][0]
        body = [row for row in cells[bool(named) :] if len(row) == width]
        keys: list[Key] = [str(name).strip() for name in cells[0]] if named else list(range(width))
        return ColumnSample(keys, [[row[n] for row in body] for n in range(width)])
    table: Sheet = reader.open(path, "documents", log)
    found = list(_thin(table.rows))
    _refuse_bytes(path, log, len(found), told)
    objects = [row.cells for row in found if isinstance(row.cells, Mapping)]
    return ColumnSample([*table.fields], [[reach(row, name) for row in objects] for name in table.fields])


def _find_encoding(told: Mapping[str, Any]) -> str:
    """The encoding that is told, if text can be read in it."""
    encoding = str(told.get("encoding", UTF8))
    try:
        return check_encoding(encoding)
    except ValueError as error:
        raise SpecError(f"encoding: {encoding!r}: {error}", "encoding=latin-1") from None


def _refuse_bytes(path: str, log: Log, number: int, told: Mapping[str, Any]) -> None:
    """Refuse to guess from what is left of a file that is hardly UTF-8: that is a header at best."""
    bad = log.reasons[BAD]
    if "encoding" not in told and 2 * bad > number:
        shown = f"{bad:,} of the {number:,} that were looked at are skipped ({BAD} {bad:,})"
        raise DataError(f"{path}: its lines aren't UTF-8: {shown}", ENCODING)


def _thin(rows: Iterator[SheetRow]) -> Iterator[SheetRow]:
    """The first rows, and some of those that follow: a file may be sorted by its labels."""
    for number, row in enumerate(islice(rows, LAST)):
        if number < FIRST or number % EVERY == 0:
            yield row


def _is_header(cells: Sequence[Any]) -> bool:
    """Whether a first row is made of short names, among which those are that some form wants."""
    names = [str(cell).strip() for cell in cells]
    plain = all(WORD.fullmatch(name) and len(name.split()) < 4 for name in names)
    if not plain or len(set(names)) < len(names):
        return False
    # a text may well begin with such a word, so for a text alone the word must be all
    alone = any(name.lower() in USUAL["text"].split() for name in names)
    return alone or any(guess_fields(form, names) for form in NAMED)


def _propose_columns(columns: ColumnSample, form: Form | None, told: dict[str, Any]) -> tuple[dict[str, Any], Form]:
    """Which column is what, and the form that they make together."""
    asked = {name for name in told if name in FORM_FIELDS and name != "many"}
    if spoken := guess_speech(form, dict(zip(columns.keys, columns.values, strict=True)), asked):
        return told, spoken
    if asked:
        wanted = form or next((TOLD[name] for name in TOLD if name in asked), "documents")
        return {**_complete_columns(wanted, columns, told), **told}, wanted
    forms = FORMS if form is None else (form,)
    guesses: Iterable[tuple[Form, Mapping[str, Key]]] = chain(
        ((wanted, guess_fields(wanted, columns.names)) for wanted in forms),
        ((wanted, _guess_by_content(wanted, columns)) for wanted in forms),
    )
    for wanted, fields in guesses:
        if fields and (form is not None or _suits(wanted, fields, columns)):
            second = _find_second(wanted, fields, columns)
            return {**told, **_leave_usual(fields, columns), **second}, wanted
    return told, form or "documents"


def _insist_on_columns(path: str, columns: ColumnSample, told: Mapping[str, Any]) -> None:
    """Refuse a column that is told by a name which none here has."""
    for name in FORM_FIELDS:
        key = told.get(name)
        if isinstance(key, str) and columns.names and key not in columns.names:
            here = ", ".join(columns.names[:SHOWN]) + ", …" * (len(columns.names) > SHOWN)
            raise DataError(f"{path}: no field is called {key!r}; fields here: {here}", f"{name}=FIELD")


def _complete_columns(form: Form, columns: ColumnSample, told: Mapping[str, Any]) -> dict[str, Key]:
    """The columns that a form needs beside those that are told by their names, as far as they are clear."""
    missing = [name for name in WANTED.get(form, ()) if name not in told]
    taken = [told[name] for name in FORM_FIELDS if name in told]
    if not missing or not columns.names or not all(isinstance(key, str) for key in taken):
        return {}
    left = [n for n, key in enumerate(columns.keys) if key not in taken]
    rest = ColumnSample([columns.keys[n] for n in left], [columns.values[n] for n in left])
    if len(missing) == 1 and len(left) == 1:
        return {missing[0]: rest.keys[0]}
    # what a guess says of all of them holds only where it takes no column that is told
    by_name = guess_fields(form, columns.names)
    found: dict[str, Key] = {name: by_name[name] for name in missing if by_name.get(name) in rest.names}
    if "text" in missing and "text" not in found:
        found |= guess_fields("documents", rest.names) or _guess_by_content("documents", rest)
    return found


def _leave_usual(fields: Mapping[str, Key], columns: ColumnSample) -> dict[str, Key]:
    """The columns that must be told: not those that stand where they are looked for without a word."""
    usual = dict(zip(fields, range(len(fields)), strict=True))
    alone = fields == usual and len(columns.keys) == len(usual)
    return {} if alone else dict(fields)


def _find_second(form: Form, fields: Mapping[str, Key], columns: ColumnSample) -> dict[str, Key]:
    """Another text beside the first, which is judged together with it: by its name, or the only other one."""
    if form != "labels":
        return {}
    if (other := SECOND.get(str(fields["text"]))) in columns.names:
        return {"second": other}
    texts = [key for key, values in zip(columns.keys, columns.values, strict=True) if _is_text(values)]
    alone = not columns.names and len(texts) == 2 and len(columns.keys) == 3
    return {"second": texts[1]} if alone and fields["text"] == texts[0] else {}


def _suits(form: Form, fields: Mapping[str, Key], columns: ColumnSample) -> bool:
    """Whether the columns that names point to hold what such a form needs."""
    values = {name: columns.values[columns.keys.index(key)] for name, key in fields.items()}
    if form == "tags":
        lists = [value for name in values for value in values[name]]
        return bool(lists) and all(isinstance(value, list) for value in lists)
    if "picture" in values and not names_pictures(values["picture"]):
        return False
    if form in ("labels", "images"):
        return _is_label(values["label"])
    if form == "captions":
        return holds_captions(values["texts"])
    return all(_is_text(values[name]) for name in values)


def _guess_by_content(form: Form, columns: ColumnSample) -> dict[str, Key]:
    """ColumnSample by what they hold; nothing where that isn't clear."""
    stats = list(zip(columns.keys, columns.values, strict=True))
    texts: list[Key] = [key for key, values in stats if _is_text(values) and not names_pictures(values)]
    if has_pictures(form):
        return guess_pictures(form, stats, _is_label)
    if form == "pairs" and len(texts) == 2:
        made = isinstance(texts[0], str) and texts[0].lower() in MADE.split()
        return {"source": texts[made], "target": texts[not made]}
    labels = sorted((len(set(map(str, values))), n) for n, (_, values) in enumerate(stats) if _is_label(values))
    if form == "labels" and texts and labels:
        words = {key: _count_words(columns.values[columns.keys.index(key)]) for key in texts}
        # of two that are about as long, the first
        longest = next(key for key in texts if words[key] > max(words.values()) / 2)
        return {"text": longest, "label": columns.keys[labels[0][1]]}
    return {"text": texts[0]} if form == "documents" and len(texts) == 1 else {}


def _is_text(values: Sequence[Any]) -> bool:
    """Whether a column holds texts: several words, or words that hardly ever come again and aren't numbers of rows."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    if not texts or len(texts) < MOSTLY * len(values):
        return False
    words = sum(re.search(r"\d", text) is None for text in texts) > len(texts) / 2
    return _count_words(texts) >= 2 * len(texts) or (words and len(set(texts)) > len(texts) / 2)


def _count_words(values: Sequence[Any]) -> int:
    return sum(len(str(value).split()) for value in values)


def _is_label(values: Sequence[Any]) -> bool:
    """Whether a column holds labels: two at least, few of them, in every row."""
    plain = [value for value in values if isinstance(value, str | int | float) and str(value).strip()]
    different = len(set(plain))
    short = _count_words(plain) <= 3 * len(plain)
    return len(plain) == len(values) and short and 2 <= different <= max(2, FEW * len(plain))
