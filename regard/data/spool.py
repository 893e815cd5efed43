"""Samples on disk as they came, one JSON object a line: every split while it is made ready, and small ones for good."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from regard.data.corpus import SPLITS, CorpusSpec, Split
from regard.data.log import Log
from regard.data.sample import Form, Sample, whole
from regard.errors import DataError


def write_spool(corpus: CorpusSpec, form: Form, root: Path, folder: Path, log: Log) -> tuple[str, dict[Split, int]]:
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


def read_spool(folder: Path, split: Split, form: Form) -> Iterator[Sample]:
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
