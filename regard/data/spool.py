"""Samples on disk as they came, one JSON object a line: every split while it is made ready, and small ones for good.

What JSON doesn't know, an array, stands in a file beside the lines, and its line says where.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from regard.data.array import ArrayFile, store_arrays
from regard.data.corpus import SPLITS, CorpusSpec, Split
from regard.data.log import Log
from regard.data.receipt import Receipt
from regard.data.sample import Form, FormSpec, Sample
from regard.errors import DataError
from regard.host.files import aside
from regard.host.meter import Advance, ignore

Put = Callable[..., None]  # a sample, and how JSON spells what it says, where somebody knows that
SPELL = json.JSONEncoder(ensure_ascii=False).encode  # made once, where `json.dumps` would make one for each sample


def spool_files(split: Split, form: Form) -> list[str]:
    """The files that hold a split: its lines, and its arrays where samples have any."""
    return [f"{split}.jsonl", *([f"{split}.arrays"] if FormSpec.parse(form).list_arrays() else [])]


def write_spool(
    corpus: CorpusSpec, receipt: Receipt, root: Path, folder: Path, log: Log, advance: Advance = ignore
) -> tuple[str, dict[Split, int]]:
    """Write each split as JSON lines, whatever it came from; the digest of it all, and how many samples there are.

    One reading, so that standard input will do, and a generator isn't run twice.
    """
    form = receipt.form
    hashed, spec, kept = hashlib.sha256(), FormSpec.parse(form), corpus.keeps_back()
    counts: dict[Split, int] = {split: 0 for split in SPLITS if split in corpus.splits()}
    seen = dict.fromkeys(counts, 0)
    with ExitStack() as stack:
        puts = {split: stack.enter_context(_open_spool(folder, split, form, "w")) for split in counts}
        for split, sample in corpus.deal(form, root, log):
            seen[split] += 1
            if fault := spec.find_fault(sample):
                raise DataError(f"{corpus.kind}: sample {seen[split]} of {split} isn't one of {form}: {fault}")
            received = receipt.take(sample, split, seen[split], log)
            if received is None:
                continue
            counts[split] += 1
            # where a sample stood is no part of what it says; where it went is, if that was decided here
            said = {name: value for name, value in spec.condense(received).items() if name != "place"}
            spelled = SPELL(said)
            hashed.update((SPELL([split, said]) if kept else spelled).encode())
            puts[split](received, spelled)
            advance()
    for split, count in counts.items():
        if not count and not kept:
            raise DataError(f"{split}: no sample can be used: {log.summary()}", log.advise())
    return hashed.hexdigest(), counts


def read_spool(folder: Path, split: Split, form: Form, mapped: bool = False) -> Iterator[Sample]:
    """The samples of a split, one after the other; `mapped`: their arrays stay in the file until they are looked at."""
    path, spec, arrays = folder / f"{split}.jsonl", FormSpec.parse(form), ArrayFile(folder / f"{split}.arrays", mapped)
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            sample = spec.unpack(line, arrays.load)
            if sample is None:
                raise DataError(f"{path}:{number}: damaged, it isn't a sample of {form}")
            yield sample


def replace_spool(folder: Path, split: Split, form: Form, samples: Iterable[Sample]) -> None:
    """Put other samples in the place of a split's; they may be made from those."""
    with _open_spool(folder, split, form, "w", aside) as put:
        for sample in samples:
            put(sample)
    for name in spool_files(split, form):
        aside(folder / name).replace(folder / name)


@contextmanager
def extend_spool(folder: Path, split: Split, form: Form) -> Iterator[Put]:
    """What puts further samples behind a split's."""
    with _open_spool(folder, split, form, "a") as put:
        yield put


@contextmanager
def _open_spool(
    folder: Path, split: Split, form: Form, mode: Literal["w", "a"], place: Callable[[Path], Path] = Path
) -> Iterator[Put]:
    """What writes samples to a split's files; `place`: where those stand as long as they are written."""
    spec = FormSpec.parse(form)
    lines, *arrays = (place(folder / name) for name in spool_files(split, form))
    with ExitStack() as stack:
        file = stack.enter_context(lines.open(mode, encoding="utf-8"))
        store = stack.enter_context(store_arrays(arrays[0], "wb" if mode == "w" else "ab")) if arrays else None

        def put(sample: Sample, said: str = "") -> None:
            if said and store is None:
                where = f', "place": {SPELL(sample["place"])}' if "place" in sample else ""
                file.write(f"{said[:-1]}{where}}}\n")
            else:
                file.write(SPELL(sample if store is None else spec.pack(sample, store)) + "\n")

        yield put
