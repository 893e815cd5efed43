"""Samples on disk as they came, one JSON object a line: every split while it is made ready, and small ones for good.

What JSON doesn't know, an array, stands in its line with type, shape and bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
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
    hashed, spec = hashlib.sha256(), FormSpec.parse(form)
    counts: dict[Split, int] = {}
    for split in SPLITS:
        if split not in corpus.splits():
            continue
        counts[split] = 0
        with (folder / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for number, sample in enumerate(corpus.samples(form, split, root, log), 1):
                if fault := spec.find_fault(sample):
                    raise DataError(f"{corpus.kind}: sample {number} of {split} isn't one of {form}: {fault}")
                packed = spec.pack(sample)
                # where a sample stood is no part of what it says
                said = {name: value for name, value in packed.items() if name != "place"}
                hashed.update(json.dumps(said, ensure_ascii=False).encode())
                file.write(json.dumps(packed, ensure_ascii=False) + "\n")
                counts[split] += 1
                advance()
        if not counts[split]:
            raise DataError(f"{split}: no sample can be used: {log.summary()}", "check the corpus's files")
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
