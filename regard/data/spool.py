"""Samples on disk as they came, one JSON object a line: every split while it is made ready, and small ones for good.

What JSON doesn't know, an array, stands in its line with type, shape and bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from regard.data.corpus import SPLITS, CorpusSpec, Split
from regard.data.log import Log
from regard.data.sample import Form, FormSpec, Sample
from regard.errors import DataError
from regard.host.files import aside
from regard.host.meter import Advance, ignore


def write_spool(
    corpus: CorpusSpec, form: Form, root: Path, folder: Path, log: Log, advance: Advance = ignore
) -> tuple[str, dict[Split, int]]:
    """Write each split as JSON lines, whatever it came from; the digest of it all, and how many samples there are.

    One reading, so that standard input will do, and a generator isn't run twice.
    """
    hashed, spec, kept = hashlib.sha256(), FormSpec.parse(form), corpus.keeps_back()
    counts: dict[Split, int] = {split: 0 for split in SPLITS if split in corpus.splits()}
    with ExitStack() as stack:
        paths = {split: folder / f"{split}.jsonl" for split in counts}
        files = {split: stack.enter_context(path.open("w", encoding="utf-8")) for split, path in paths.items()}
        for split, sample in corpus.deal(form, root, log):
            counts[split] += 1
            if fault := spec.find_fault(sample):
                raise DataError(f"{corpus.kind}: sample {counts[split]} of {split} isn't one of {form}: {fault}")
            packed = spec.pack(sample)
            # where a sample stood is no part of what it says; where it went is, if that was decided here
            said = {name: value for name, value in packed.items() if name != "place"}
            hashed.update(json.dumps([split, said] if kept else said, ensure_ascii=False).encode())
            files[split].write(json.dumps(packed, ensure_ascii=False) + "\n")
            advance()
    for split, count in counts.items():
        if not count and not kept:
            raise DataError(f"{split}: no sample can be used: {log.summary()}", log.advise())
    return hashed.hexdigest(), counts


def read_spool(folder: Path, split: Split, form: Form) -> Iterator[Sample]:
    """The samples of a split, one after the other."""
    path, spec = folder / f"{split}.jsonl", FormSpec.parse(form)
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            sample = spec.unpack(line)
            if sample is None:
                raise DataError(f"{path}:{number}: damaged, it isn't a sample of {form}")
            yield sample


def replace_spool(folder: Path, split: Split, form: Form, samples: Iterable[Sample]) -> None:
    """Put other samples in the place of a split's; they may be made from those."""
    path, spec = folder / f"{split}.jsonl", FormSpec.parse(form)
    beside = aside(path)
    with beside.open("w", encoding="utf-8") as file:
        for sample in samples:
            file.write(json.dumps(spec.pack(sample), ensure_ascii=False) + "\n")
    beside.replace(path)


@contextmanager
def extend_spool(folder: Path, split: Split, form: Form) -> Iterator[Callable[[Sample], None]]:
    """What puts further samples behind a split's."""
    spec = FormSpec.parse(form)
    with (folder / f"{split}.jsonl").open("a", encoding="utf-8") as file:

        def put(sample: Sample) -> None:
            file.write(json.dumps(spec.pack(sample), ensure_ascii=False) + "\n")

        yield put
