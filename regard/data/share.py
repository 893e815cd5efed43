"""What is kept back of the training data, once all of it has been read and shared out by hashes.

Only now it is known how many samples there are. Too many are given back to training, and so is what has a label that
training would never see. Where whole documents are too few to be shared out, each gives its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from regard.data.corpus import KeptBack, Split
from regard.data.log import Log
from regard.data.sample import Form, FormSpec, Sample
from regard.data.split import TOP, hash_text
from regard.data.spool import extend_spool, read_spool, replace_spool, spool_files
from regard.errors import DataError

Labels = Callable[[Sample], Sequence[str]]


def settle_shares(
    folder: Path, form: Form, kept: Mapping[Split, KeptBack], labels: Labels, counts: dict[Split, int], log: Log
) -> None:
    """Give back what training needs more, and tell what was kept; a split that comes to nothing is gone."""
    if not sum(counts.values()):
        raise DataError(f"train: no sample can be used: {log.summary()}", log.advise())
    for split, back in kept.items():
        before = counts[split]
        _give_back(folder, form, split, back, labels, counts)
        if back.most is None and counts[split] < before:
            log.notes.append(f"given back by {split}: {before - counts[split]:,} samples, whose labels only they have")
    whole = counts["train"] + sum(counts[split] for split in kept)
    ends = [split for split in kept if form == "documents" and not counts[split]]
    if ends:
        _cut_ends(folder, form, {split: kept[split].share for split in ends}, counts)
    for split, back in kept.items():
        if not counts[split]:
            _leave_out(folder, form, split, back, counts, log)
            continue
        much = f"{counts[split]:,} of {whole:,} samples"
        much = "the end of each document, as there are few" if split in ends else much
        usual = f" (corpus.split.{split}=0: none)" if back.most is not None else ""
        log.notes.append(f"kept back for {split}: {much}{usual}")


def _give_back(
    folder: Path, form: Form, split: Split, back: KeptBack, labels: Labels, counts: dict[Split, int]
) -> None:
    """Move samples of a split to training: those beyond the most, and those whose labels training hasn't."""
    spec = FormSpec.parse(form)

    def rank(sample: Sample) -> int:
        return hash_text(spec.find_group(sample))

    last = TOP
    if back.most is not None and counts[split] > back.most:
        # hashes, not samples: eight bytes for each of a twentieth of the corpus
        ranks = np.fromiter(map(rank, read_spool(folder, split, form)), np.uint64)
        last = int(np.partition(ranks, back.most - 1)[back.most - 1])
    known = {label for sample in read_spool(folder, "train", form) for label in labels(sample)}
    alone = not counts["train"]  # there must be something to train on
    # the others of a group would stand on both sides if one went alone
    strange = {
        rank(sample)
        for sample in read_spool(folder, split, form)
        if not all(label in known for label in labels(sample))
    }

    def divide(give: Callable[[Sample], None]) -> Iterator[Sample]:
        for sample in read_spool(folder, split, form):
            if alone or rank(sample) > last or rank(sample) in strange:
                give(sample)
                counts["train"] += 1
                counts[split] -= 1
            else:
                yield sample

    with extend_spool(folder, "train", form) as give:
        replace_spool(folder, split, form, divide(give))


def _cut_ends(folder: Path, form: Form, wanted: Mapping[Split, float], counts: dict[Split, int]) -> None:
    """Take the end of each document for splits that have none: a book is one document, and has a last chapter."""
    with ExitStack() as stack:
        give = {split: stack.enter_context(extend_spool(folder, split, form)) for split in wanted}

        def shorten() -> Iterator[Sample]:
            for sample in read_spool(folder, "train", form):
                text, end = sample["text"], len(sample["text"])
                for split, share in reversed(list(wanted.items())):
                    begin = end - int(len(text) * share)
                    if text[begin:end].strip():
                        give[split]({**sample, "text": text[begin:end]})
                        counts[split] += 1
                    end = begin
                yield {**sample, "text": text[:end]}

        replace_spool(folder, "train", form, shorten())


def _leave_out(folder: Path, form: Form, split: Split, back: KeptBack, counts: dict[Split, int], log: Log) -> None:
    if back.most is None:
        raise DataError(
            f"split.{split}: {back.share} of {sum(counts.values()):,} samples came to none",
            f"split.{split}=0.5, or files",
        )
    log.notes.append(f"too few samples to keep any back for {split}")
    for name in spool_files(split, form):
        (folder / name).unlink()
    del counts[split]


class Overlap:
    """Samples that training and another split have in common: a measure on such a split flatters."""

    def __init__(self, folder: Path, form: Form, splits: Iterable[Split]) -> None:
        self.spec, self.asked = FormSpec.parse(form), dict[Split, Counter[int]]()
        for split in splits:
            self.asked[split] = Counter(map(self._key, read_spool(folder, split, form)))
        self.found: Counter[Split] = Counter()

    def see(self, sample: Sample) -> None:
        """Look at a sample that is trained on."""
        if not self.asked:
            return
        key = self._key(sample)
        for split, asked in self.asked.items():
            self.found[split] += asked.pop(key, 0)  # however often it is trained on

    def notes(self, counts: Mapping[Split, int]) -> list[str]:
        """What to tell of it, if there is anything to tell."""
        return [
            f"{count:,} of {counts[split]:,} samples of {split} are trained on too"
            for split, count in self.found.items()
            if count
        ]

    def _key(self, sample: Sample) -> int:
        return hash_text(self.spec.identify(sample))
