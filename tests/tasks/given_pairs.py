"""Preferences that a test has in its hands, as a corpus; and runs on them that take a second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

from regard.data.corpus import CorpusSpec, Split
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import TokenizerSpec
from regard.tasks.task import TaskSpec

WORDS = ["red", "green", "blue", "cat", "dog", "bird", "runs", "sleeps", "sings"]


class GivenPairs(CorpusSpec):
    """Samples as they are given."""

    gives: ClassVar[tuple[Form, ...]] = ("preferences",)
    kind: Literal["given-pairs"] = "given-pairs"
    pairs: tuple[dict[str, Any], ...]
    held: tuple[dict[str, Any], ...]

    def splits(self) -> tuple[Split, ...]:
        return ("train", "validation")

    def samples(self, form: Form, split: Split, folder: Path, log: Log) -> Iterator[Sample]:
        for number, sample in enumerate(self.pairs if split == "train" else self.held, 1):
            log.keep()
            yield {**sample, "place": f"{split}.jsonl:{number}"}


del CorpusSpec.kinds["given-pairs"]  # only the tests that ask for it know it


@contextmanager
def know_pairs() -> Iterator[None]:
    """Within it, this corpus is known."""
    before = dict(CorpusSpec.kinds)
    CorpusSpec.kinds["given-pairs"] = GivenPairs
    try:
        yield
    finally:
        CorpusSpec.kinds.clear()
        CorpusSpec.kinds.update(before)


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def draw_pairs(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Answers of some words, of which the one that says `please` was chosen."""
    random, found = Random(seed), []
    for _ in range(count):
        words = [random.choices(WORDS, k=random.randint(1, 4)) for _ in range(2)]
        words[0].insert(random.randint(0, len(words[0])), "please")
        sides = [" ".join(side) for side in words]
        found.append({"prompt": ask(random.choice(WORDS)), "chosen": sides[0], "rejected": sides[1]})
    return found


def make_ready(task: TaskSpec, folder: Path, pairs: Sequence[Sample], held: Sequence[Sample] = ()) -> Prepared:
    return make_log(task, folder, pairs, held)[0]


def make_log(
    task: TaskSpec, folder: Path, pairs: Sequence[Sample], held: Sequence[Sample] = ()
) -> tuple[Prepared, Log]:
    with know_pairs():
        corpus = GivenPairs(pairs=tuple(pairs), held=tuple(held or pairs[:8]))
    return prepare(corpus, task, TokenizerSpec(pieces="character"), 64, folder, folder / "data")
