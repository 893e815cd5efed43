"""A corpus made ready: read once, cut into tokens once, and kept on disk, so that memory doesn't grow with it.

`train.source` and `train.target` hold token numbers one after another, and beside each a file says where every sentence
ends. The other splits stay text, one JSON object a line. `data.json` is written last: it has the counts, the digest of
the text and the digests of the files, so a folder without it isn't ready and a damaged one is found out.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, overload

import numpy as np

from regard.data.corpus import SPLITS, CorpusSpec, Split
from regard.data.log import Log
from regard.data.readers import JSONL, Pair
from regard.data.tokenizer import Tokenizer, TokenizerSpec
from regard.errors import CheckpointError, DataError

REPORT = "rejected.txt"  # every line that was left out or mended, and why
PIECE = 2**20  # of a file that is looked at at once
COLUMNS = ("train.source", "train.source.ends", "train.target", "train.target.ends")
TOKEN, PLACE = np.dtype("<u4"), np.dtype("<i8")


class Column:
    """Sentences as token numbers in a file."""

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

    def whole(self, vocabulary: int) -> bool:
        """Whether sentences end in order, at the end of the file at last, and hold no token that isn't known."""
        size, last = os.fstat(self._tokens).st_size, 0
        if os.fstat(self._ends).st_size % PLACE.itemsize or size % TOKEN.itemsize:
            return False
        for first in range(0, len(self), PIECE):
            ends = np.frombuffer(os.pread(self._ends, PIECE * PLACE.itemsize, first * PLACE.itemsize), PLACE)
            if ends[0] < last or (ends[1:] < ends[:-1]).any():
                return False
            last = int(ends[-1])
        pieces = (os.pread(self._tokens, PIECE, place) for place in range(0, size, PIECE))
        return last * TOKEN.itemsize == size and all(np.frombuffer(p, TOKEN).max() < vocabulary for p in pieces)

    def bounds(self, first: int, last: int) -> list[int]:
        """Where sentences begin, from the first to the last, and where that one ends."""
        size = PLACE.itemsize
        before = max(0, first - 1)
        ends = np.frombuffer(os.pread(self._ends, (last - before) * size, before * size), PLACE).tolist()
        return ends if first else [0, *ends]

    def __getitem__(self, n: int) -> list[int]:
        begin, end = self.bounds(n, n + 1)
        size = TOKEN.itemsize
        found: list[int] = np.frombuffer(os.pread(self._tokens, (end - begin) * size, begin * size), TOKEN).tolist()
        return found


@contextmanager
def written(path: Path) -> Iterator[Callable[[Sequence[int]], None]]:
    """A column's file, and the function that adds a sentence to it."""
    total = 0
    with path.open("wb") as tokens, path.with_name(f"{path.name}.ends").open("wb") as ends:

        def add(sentence: Sequence[int]) -> None:
            nonlocal total
            total += len(sentence)
            tokens.write(np.asarray(sentence, TOKEN).tobytes())
            ends.write(PLACE.type(total).tobytes())

        yield add


class Lengths(Sequence[tuple[int, int]]):
    """Source and target lengths, read when asked for."""

    def __init__(self, source: Column, target: Column) -> None:
        self.columns = source, target

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, index: int) -> tuple[int, int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[int, int]]: ...

    def __getitem__(self, index: int | slice) -> tuple[int, int] | list[tuple[int, int]]:
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
    source: Column
    target: Column
    tokenizers: tuple[Tokenizer, Tokenizer]  # of the source and of the target; one and the same if shared

    @property
    def lengths(self) -> Lengths:
        return Lengths(self.source, self.target)

    @property
    def digest(self) -> str:
        return str(self.facts["digest"])

    def has(self, split: Split) -> bool:
        return split in self.facts["pairs"]

    def texts(self, split: Split) -> list[Pair]:
        """The pairs of a small split, as text."""
        if split == "train" or not self.has(split):
            there = ", ".join(name for name in self.facts["pairs"] if name != "train") or "none"
            raise DataError(f"this run keeps no texts for {split!r}; there are: {there}", "--data FILE")
        return list(JSONL(path=str(self.folder / f"{split}.jsonl")).pairs(Log("stop")))

    @classmethod
    def load(cls, folder: Path, dropout: float = 0.0) -> Prepared:
        """What `prepare` left in a folder, once its files are what they were."""
        facts = _facts(folder)
        for name, wanted in facts["files"].items():
            if digest(folder / name) != wanted:
                raise CheckpointError(f"{folder / name}: damaged, its digest isn't the one it was written with")
        names = facts["tokenizers"]
        found = [Tokenizer.load(folder / name, dropout) for name in names]
        source, target = Column(folder / "train.source"), Column(folder / "train.target")
        for name, column, tokenizer in (("source", source, found[0]), ("target", target, found[-1])):
            if len(column) != len(source) or not column.whole(len(tokenizer)):
                raise CheckpointError(f"{folder}/train.{name}: damaged, its tokens aren't sentences of this vocabulary")
        return cls(folder, facts, source, target, (found[0], found[-1]))


def _facts(folder: Path) -> dict[str, Any]:
    path = folder / "data.json"
    try:
        facts = json.loads(path.read_bytes())
        types = (("digest", str), ("files", dict), ("tokenizers", list), ("pairs", dict))
        whole = all(isinstance(facts[key], kind) for key, kind in types) and all(
            re.fullmatch(r"[\w-]+(\.[\w-]+)*", name, re.ASCII)
            for name in [*facts["files"], *facts["tokenizers"], *facts["pairs"]]
        )
        whole = whole and {*facts["tokenizers"], *COLUMNS} <= set(facts["files"])
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}", "train again: the corpus was never made ready") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole or not facts["tokenizers"]:
        raise CheckpointError(f"{path}: damaged")
    return dict(facts)


def digest(path: Path) -> str:
    """A file's sha256, read piece by piece."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None


def prepare(
    corpus: CorpusSpec, tokenizer: TokenizerSpec, longest: int, root: Path, folder: Path, vocabulary: Path | None = None
) -> tuple[Prepared, Log]:
    """Read a corpus, learn its tokens, and write both to a folder; the log says what became of every line.

    `root`: where the corpus's files are; `vocabulary`: a folder with tokenizers to take instead of learning them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = Log(corpus.policy, folder / REPORT)
    try:
        hashed, counts = _spool(corpus, root, folder, log)
        names = _tokenizers(tokenizer, folder, vocabulary)
        left_out = _encode(folder, names, longest, log)
    finally:
        log.close()
    counts["train"] -= left_out
    if not counts["train"]:
        raise DataError(f"no pair has at most {longest} tokens", "batches.longest=…")
    (folder / "train.jsonl").unlink()
    kept = [*names, *COLUMNS]
    kept += [f"{split}.jsonl" for split in counts if split != "train"]
    facts = {
        "digest": hashed,
        "pairs": counts,
        "tokenizers": names,
        "lines": {"kept": log.kept, "repaired": log.repaired, "skipped": log.skipped},
        "files": {name: digest(folder / name) for name in kept},
    }
    (folder / "data.json").write_text(json.dumps(facts, indent=1))
    return Prepared.load(folder, tokenizer.dropout), log


def _spool(corpus: CorpusSpec, root: Path, folder: Path, log: Log) -> tuple[str, dict[str, int]]:
    """Write each split as JSON lines, whatever it came from; the digest of it all, and how many pairs there are.

    One reading, so that standard input will do, and a generator isn't run twice.
    """
    hashed = hashlib.sha256()
    counts: dict[str, int] = {}
    for split in SPLITS:
        if split not in corpus.splits():
            continue
        counts[split] = 0
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for source, target in corpus.pairs(split, root, log):
                line = json.dumps({"source": source, "target": target}, ensure_ascii=False)
                hashed.update(line.encode())
                file.write(line + "\n")
                counts[split] += 1
        if not counts[split]:
            raise DataError(f"{split}: no pair of texts can be used: {log.summary()}", "check the corpus's files")
    return hashed.hexdigest(), counts


def _spooled(folder: Path) -> Iterator[Pair]:
    return JSONL(path=str(folder / "train.jsonl"), longest=2**24).pairs(Log("stop"))


def _tokenizers(spec: TokenizerSpec, folder: Path, vocabulary: Path | None) -> list[str]:
    """Learn one tokenizer for both languages, or one for each; their files."""
    names = ["tokenizer.json"] if spec.shared else ["tokenizer.source.json", "tokenizer.target.json"]
    for side, name in enumerate(names):
        if vocabulary is not None:
            Tokenizer.load(vocabulary / name).save(folder / name)
            continue
        texts = (text for pair in _spooled(folder) for text in (pair if spec.shared else pair[side : side + 1]))
        spec.train(texts).save(folder / name)
    return names


def _encode(folder: Path, names: list[str], longest: int, log: Log) -> int:
    """Write the training pairs as numbers; how many were left out because they are too long."""
    found = [Tokenizer.load(folder / name) for name in names]
    pairs, number, dropped = _spooled(folder), 0, 0
    with written(folder / "train.source") as write_source, written(folder / "train.target") as write_target:
        while group := list(islice(pairs, 1000)):
            sources = found[0].encode([pair[0] for pair in group])
            targets = found[-1].encode([pair[1] for pair in group])
            for source, target in zip(sources, targets, strict=True):
                number += 1
                size = max(len(source), len(target))
                if size <= longest:
                    write_source(source)
                    write_target(target)
                    continue
                log.skip(f"train:pair {number}", f"too many tokens: {size}, and {longest} are the most")
                log.kept -= 1
                dropped += 1
    return dropped
