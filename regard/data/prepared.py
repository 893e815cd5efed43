"""A corpus made ready: read once, cut into tokens once, and kept on disk, so that memory doesn't grow with it.

Each column that the task wants is a file of numbers, one sample after another, and beside it a file says where every
sample ends: `train.source`, `train.source.ends`. The other splits stay text, one JSON object a line. `data.json` is
written last: it has the counts, the digest of the text and the digests of the files, so a folder without it isn't ready
and a damaged one is found out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Protocol, overload

import numpy as np

from regard.core.model import ModelSpec
from regard.data.corpus import SPLITS, CorpusSpec, Split
from regard.data.lexicon import APART, NAME, SHARED, Lexicon
from regard.data.log import Log
from regard.data.sample import TEXTS, Form, Sample, place, vocabulary, whole
from regard.data.tokenizer import TokenizerSpec
from regard.errors import CheckpointError, DataError
from regard.host.files import ASIDE, aside, remove, replace

LIST, DATA = "files.json", "data.json"  # which files are ours, written first; and what they hold, written last
REPORT = "rejected.txt"  # every line that was left out or mended, and why
PIECE = 2**20  # of a file that is looked at at once
GROUP = 1000  # samples that are cut into tokens together
Row = Mapping[str, Sequence[int]]  # a sample as numbers, column by column
TOKEN, PLACE = np.dtype("<u4"), np.dtype("<i8")


class Wants(Protocol):
    """What a task wants of a corpus."""

    form: ClassVar[Form]

    @property
    def kind(self) -> str:
        """What it is called."""

    @property
    def special(self) -> tuple[str, ...]:
        """Tokens that it needs beside the usual ones."""

    def texts(self, sample: Sample) -> Sequence[str]:
        """What its tokenizer learns from; two texts where there are two languages."""

    def labels(self, sample: Sample) -> Sequence[str]:
        """The labels in it."""

    def letters(self, sample: Sample) -> Iterable[str]:
        """The letters in it, if words are to be spelled."""

    def columns(self, lexicon: Lexicon) -> Mapping[str, int]:
        """Its columns, and what all numbers in each are below."""

    def encode(self, samples: Sequence[Sample], lexicon: Lexicon) -> Sequence[Mapping[str, Sequence[int]]]:
        """Each sample as numbers, column by column."""

    def size(self, row: Mapping[str, Sequence[int]]) -> int:
        """How many tokens of it count against the most that there may be."""

    def places(self, row: Mapping[str, Sequence[int]]) -> Mapping[str, int]:
        """How many positions it takes of an encoder and of a decoder."""


class Column:
    """Samples as numbers in a file."""

    def __init__(self, path: Path) -> None:
        self._tokens = os.open(path, os.O_RDONLY)
        self._ends = os.open(path.with_name(f"{path.name}.ends"), os.O_RDONLY)
        self._count = os.fstat(self._ends).st_size // PLACE.itemsize

    def __len__(self) -> int:
        return self._count

    def __del__(self) -> None:
        for file in (self.__dict__.get("_tokens"), self.__dict__.get("_ends")):
            if file is not None:
                os.close(file)

    def whole(self, most: int) -> bool:
        """Whether samples end in order, at the end of the file at last, and hold only numbers below the most."""
        size, last = os.fstat(self._tokens).st_size, 0
        if os.fstat(self._ends).st_size % PLACE.itemsize or size % TOKEN.itemsize:
            return False
        for first in range(0, len(self), PIECE):
            ends = np.frombuffer(os.pread(self._ends, PIECE * PLACE.itemsize, first * PLACE.itemsize), PLACE)
            if ends[0] < last or (ends[1:] < ends[:-1]).any():
                return False
            last = int(ends[-1])
        pieces = (os.pread(self._tokens, PIECE, place) for place in range(0, size, PIECE))
        return last * TOKEN.itemsize == size and all(np.frombuffer(p, TOKEN).max() < most for p in pieces)

    def bounds(self, first: int, last: int) -> list[int]:
        """Where samples begin, from the first to the last, and where that one ends."""
        size = PLACE.itemsize
        before = max(0, first - 1)
        ends = np.frombuffer(os.pread(self._ends, (last - before) * size, before * size), PLACE).tolist()
        return ends if first else [0, *ends]

    def __getitem__(self, n: int) -> list[int]:
        return self.part(n, 0, None)

    def part(self, n: int, first: int, last: int | None) -> list[int]:
        """Some of a sample's numbers."""
        begin, end = self.bounds(n, n + 1)
        begin, end = begin + first, end if last is None else min(end, begin + last)
        size = TOKEN.itemsize
        found: list[int] = np.frombuffer(
            os.pread(self._tokens, max(0, end - begin) * size, begin * size), TOKEN
        ).tolist()
        return found


class ColumnSet(dict[str, Column]):
    """The columns of a corpus by name."""

    def __init__(self, folder: Path, columns: Mapping[str, Column]) -> None:
        super().__init__(columns)
        self.folder = folder

    def __missing__(self, name: str) -> Column:
        raise CheckpointError(f"{self.folder}: it has no column {name!r}, so it was made ready for another task")


@contextmanager
def write_column(path: Path) -> Iterator[Callable[[Sequence[int]], None]]:
    """A column's file, and the function that adds a sample to it."""
    total = 0
    with path.open("wb") as tokens, path.with_name(f"{path.name}.ends").open("wb") as ends:

        def add(sentence: Sequence[int]) -> None:
            nonlocal total
            total += len(sentence)
            tokens.write(np.asarray(sentence, TOKEN).tobytes())
            ends.write(PLACE.type(total).tobytes())

        yield add


class Lengths(Sequence[tuple[int, ...]]):
    """The length of every sample in some columns, read when asked for."""

    def __init__(self, *columns: Column) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> tuple[int, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, ...]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        if isinstance(index, int):
            return self[index : index + 1][0]
        first, last, _ = index.indices(len(self))
        sides = [np.diff(column.bounds(first, last)).tolist() for column in self.columns]
        return list(zip(*sides, strict=True))


@dataclass
class Prepared:
    """A corpus that is ready to train on."""

    folder: Path
    facts: dict[str, Any]  # what data.json says
    columns: ColumnSet  # of the training split
    lexicon: Lexicon

    def __len__(self) -> int:
        """How many samples there are to train on."""
        return len(next(iter(self.columns.values())))

    def lengths(self, *names: str) -> Lengths:
        return Lengths(*(self.columns[name] for name in names))

    @property
    def digest(self) -> str:
        return str(self.facts["digest"])

    @property
    def limits(self) -> dict[str, int]:
        """Positions of the stacks of the model that it was made ready for, as it is trained."""
        return dict(self.facts["limits"][0])

    def suits(self, model: ModelSpec) -> bool:
        """Whether it was made ready for a model with as many positions."""
        return bool(self.facts["limits"] == _limits(model))

    def has(self, split: Split) -> bool:
        return split in self.facts["samples"]

    def samples(self, split: Split) -> list[Sample]:
        """The samples of a small split, as text."""
        if split == "train" or not self.has(split):
            there = ", ".join(name for name in self.facts["samples"] if name != "train") or "none"
            raise DataError(f"this run keeps no texts for {split!r}; there are: {there}", "--data FILE")
        return list(_read_spool(self.folder, split, self.facts["form"]))

    @classmethod
    def load(cls, folder: Path, dropout: float = 0.0) -> Prepared:
        """What `prepare` left in a folder, once its files are what they were."""
        facts = _facts(folder)
        for name, wanted in facts["files"].items():
            if digest(folder / name) != wanted:
                raise CheckpointError(f"{folder / name}: damaged, its digest isn't the one it was written with")
        lexicon = Lexicon.read(lambda name: content(folder, name), str(folder), dropout)
        columns = ColumnSet(folder, {name: Column(folder / f"train.{name}") for name in facts["columns"]})
        for name, column in columns.items():
            if len(column) != facts["samples"]["train"] or not column.whole(facts["columns"][name]):
                raise CheckpointError(f"{folder}/train.{name}: damaged, its numbers aren't samples of this corpus")
        return cls(folder, facts, columns, lexicon)


def discard(folder: Path) -> bool:
    """Delete what `prepare` left in a folder, whole or not, and the folder if that was all; whether it is gone."""
    return remove(folder, ours(folder))


def ours(folder: Path) -> Callable[[str], bool]:
    """Which names in a folder `prepare` has written, or was about to write when it was killed."""
    names = {LIST}
    for listed in (LIST, DATA):
        try:
            found = json.loads((folder / listed).read_bytes())
            names |= {listed, *(found if isinstance(found, list) else (*found["files"], REPORT))}
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # it isn't there, or was cut short
    return lambda name: name in names or bool((match := ASIDE.fullmatch(name)) and match["name"] in names)


def content(folder: Path, name: str) -> bytes | None:
    """A file's bytes, or None where there is none."""
    try:
        return (folder / name).read_bytes() if (folder / name).is_file() else None
    except OSError as error:
        raise CheckpointError(f"{folder / name}: {error.strerror}") from None


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / DATA
    try:
        facts = json.loads(path.read_bytes())
        types = (("digest", str), ("files", dict), ("columns", dict), ("samples", dict))
        names = [*facts["files"], *facts["columns"], *facts["samples"]]
        sound = all(isinstance(facts[key], kind) for key, kind in types) and facts["form"] in TEXTS
        sound = sound and all(re.fullmatch(r"[\w-]+(\.[\w-]+)*", name, re.ASCII) for name in names)
        sound = sound and all(type(most) is int for most in facts["columns"].values())
        sound = sound and set(_files(facts["columns"])) <= set(facts["files"]) and bool(facts["columns"])
        sound = sound and "train" in facts["samples"]
        facts.setdefault("limits", [{}, {}])  # of a corpus that was made ready before there were any
        sound = sound and len(facts["limits"]) == 2
        sound = sound and all(type(most) is int for part in facts["limits"] for most in part.values())
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}", "train again: the corpus was never made ready") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise CheckpointError(f"{path}: damaged")
    return dict(facts)


def _files(columns: Iterable[str]) -> list[str]:
    return [f"train.{name}{end}" for name in columns for end in ("", ".ends")]


def digest(path: Path) -> str:
    """A file's sha256, read piece by piece."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None


def prepare(
    corpus: CorpusSpec,
    wants: Wants,
    tokenizer: TokenizerSpec,
    longest: int,
    root: Path,
    folder: Path,
    known: Lexicon | None = None,
    model: Callable[[Lexicon], ModelSpec] | None = None,
) -> tuple[Prepared, Log]:
    """Read a corpus, learn its tokens, and write both to a folder; the log says what became of every line.

    `root`: where the corpus's files are; `known`: a lexicon whose tokenizers are taken instead of learning them;
    `longest`: tokens of a sample to train on; `model`: the one that will read such tokens, if its positions end.
    """
    corpus.must_give(wants.form, wants.kind)
    folder.mkdir(parents=True, exist_ok=True)
    # the list comes first, so that a killed process leaves nothing whose owner isn't known
    names = [*(f"{split}.jsonl" for split in corpus.splits()), *SHARED, *APART, NAME, REPORT, DATA]
    replace(folder / LIST, json.dumps(names).encode())
    log = Log(corpus.policy, folder / REPORT)
    try:
        hashed, counts = _spool(corpus, wants.form, root, folder, log)
        lexicon = _lexicon(wants, tokenizer, folder, known)
        for split in counts:
            if split != "train":
                check(_read_spool(folder, split, wants.form), wants, lexicon, split)
        replace(folder / LIST, json.dumps([*names, *_files(wants.columns(lexicon))]).encode())
        sieve = Sieve(wants, lexicon, longest, [{}, {}] if model is None else _limits(model(lexicon)), log)
        _encode(folder, sieve, tokenizer if known is None else None)
        for split in counts:
            if split != "train":
                _trim(folder, split, sieve)
    finally:
        log.close()
    (folder / "train.jsonl").unlink()
    files = lexicon.files()
    for name, bytes_of in files.items():
        (folder / name).write_bytes(bytes_of)
    columns = dict(wants.columns(lexicon))
    kept = [*files, *_files(columns), *(f"{split}.jsonl" for split in counts if split != "train")]
    facts = {
        "digest": hashed,
        "form": wants.form,
        "samples": {split: sieve.passed[split] for split in counts},
        "columns": columns,
        "limits": sieve.limits,
        "lines": {"kept": log.kept, "repaired": log.repaired, "skipped": log.skipped},
        "files": {name: digest(folder / name) for name in kept},
    }
    replace(folder / DATA, json.dumps(facts, indent=1).encode())
    return Prepared.load(folder, tokenizer.dropout), log


def _spool(corpus: CorpusSpec, form: Form, root: Path, folder: Path, log: Log) -> tuple[str, dict[Split, int]]:
    """Write each split as JSON lines, whatever it came from; the digest of it all, and how many samples there are.

    One reading, so that standard input will do, and a generator isn't run twice.
    """
    hashed = hashlib.sha256()
    counts: dict[Split, int] = {}
    for split in SPLITS:
        if split not in corpus.splits():
            continue
        counts[split] = 0
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for sample in corpus.samples(form, split, root, log):
                # where a sample stood is no part of what it says
                said = {name: value for name, value in sample.items() if name != "place"}
                hashed.update(json.dumps(said, ensure_ascii=False).encode())
                file.write(json.dumps(sample, ensure_ascii=False) + "\n")
                counts[split] += 1
        if not counts[split]:
            raise DataError(f"{split}: no sample can be used: {log.summary()}", "check the corpus's files")
    return hashed.hexdigest(), counts


def _read_spool(folder: Path, split: Split, form: Form) -> Iterator[Sample]:
    path = folder / f"{split}.jsonl"
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                sample = json.loads(line)
            except (ValueError, RecursionError):
                sample = None
            if not whole(sample, form):
                raise DataError(f"{path}:{number}: damaged, it isn't a sample of {form}")
            yield sample


def _lexicon(wants: Wants, spec: TokenizerSpec, folder: Path, known: Lexicon | None) -> Lexicon:
    """Learn one tokenizer for all texts of a sample, or one for each; and collect labels and letters."""
    sides = len(wants.texts(next(_read_spool(folder, "train", wants.form))))
    if not sides:  # numbers need no words
        spec = TokenizerSpec(pieces="byte")
    if known is None:
        shared = spec.shared or sides < 2
        texts = [slice(None)] if shared else [slice(side, side + 1) for side in range(sides)]
        learned = [
            spec.train(
                (text for sample in _read_spool(folder, "train", wants.form) for text in wants.texts(sample)[part]),
                wants.special,
            )
            for part in texts
        ]
        known = Lexicon((learned[0], learned[-1]))
    else:
        for part in known.tokenizers:
            part.extend(wants.special)
    labels, letters = set[str](), set[str]()
    for sample in _read_spool(folder, "train", wants.form):
        labels.update(wants.labels(sample))
        letters.update(wants.letters(sample))
    # letters that are known keep their numbers, and new ones follow
    spelled = [*known.letters, *vocabulary(letters - set(known.letters))] if letters else []
    return Lexicon(known.tokenizers, vocabulary(labels), spelled, known.foreign)


def check(samples: Iterable[Sample], wants: Wants, lexicon: Lexicon, split: str) -> None:
    """Insist that training has seen every label."""
    labels = set(lexicon.labels)
    for number, sample in enumerate(samples, 1):
        for label in wants.labels(sample):
            if label not in labels:
                shown = ", ".join(lexicon.labels[:20])
                raise DataError(
                    f"{place(sample, split, number)}: label {label!r} never occurs in training", f"known: {shown}"
                )


def _limits(model: ModelSpec) -> list[dict[str, int]]:
    return [model.limits(training=True), model.limits()]


@dataclass
class Sieve:
    """What lets samples through that the model has positions for, and says which it doesn't."""

    wants: Wants
    lexicon: Lexicon
    longest: int  # tokens of a sample to train on; others may be longer
    limits: list[dict[str, int]]  # positions of the model's stacks while it is trained, and while it is used
    log: Log
    passed: Counter[str] = field(default_factory=Counter)  # samples by split

    def __call__(self, samples: Iterator[Sample], split: Split) -> Iterator[tuple[Sample, Row]]:
        """The samples of a split with their numbers; if none is short enough, an error with both lengths."""
        number, nearest = 0, (0, "")
        while group := list(islice(samples, GROUP)):
            for sample, row in zip(group, self.wants.encode(group, self.lexicon), strict=True):
                number += 1
                size, reason = self._excess(row, split)
                if reason:
                    nearest = min(nearest, (size, reason)) if nearest[1] else (size, reason)
                    self.log.skip(place(sample, split, number), reason)
                    self.log.kept -= 1
                    continue
                self.passed[split] += 1
                yield sample, row
        if not self.passed[split]:
            hint = "shorter texts, a model with more positions, or batches.longest=…"
            raise DataError(f"{split}: none of its {number} samples fits, and the shortest has {nearest[1]}", hint)

    def _excess(self, row: Row, split: Split) -> tuple[int, str]:
        """How long a sample is and why that is too long, if it is."""
        size = self.wants.size(row)
        if split == "train" and size > self.longest:
            return size, f"too many tokens: {size}, and {self.longest} are the most"
        for side, taken in self.wants.places(row).items():
            most = self.limits[split != "train"].get(side)
            if most is not None and taken > most:
                return taken, f"too many tokens for the model: {taken}, and its {side} has positions for {most}"
        return size, ""


def _encode(folder: Path, sieve: Sieve, learned: TokenizerSpec | None) -> None:
    """Write the training samples as numbers; `learned`: how tokens were, to say which texts they alter."""
    wants = sieve.wants
    with ExitStack() as stack:
        write = {
            name: stack.enter_context(write_column(folder / f"train.{name}")) for name in wants.columns(sieve.lexicon)
        }
        for sample, row in sieve(_read_spool(folder, "train", wants.form), "train"):
            for name, numbers in row.items():
                write[name](numbers)
            altered = (learned.alters(text) for text in wants.texts(sample)) if learned is not None else ()
            if reason := next(filter(None, altered), None):
                sieve.log.remark(place(sample, "train", sieve.passed["train"]), reason)


def _trim(folder: Path, split: Split, sieve: Sieve) -> None:
    """Leave out what is too long of a split that stays text."""
    path = folder / f"{split}.jsonl"
    beside = aside(path)
    with beside.open("w", encoding="utf-8") as file:
        for sample, _ in sieve(_read_spool(folder, split, sieve.wants.form), split):
            file.write(json.dumps(sample, ensure_ascii=False) + "\n")
    beside.replace(path)
