"""A corpus of prompts for tests, as a user's own file would define it, and runs on it that take a second."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

from regard.config import Document
from regard.data.corpus import Generated, Split
from regard.data.sample import Form, Sample
from regard.runs.folder import Run

LETTERS = "abcd"


class Firsts(Generated):
    """Words of a few letters; the right answer is the first of them."""

    gives: ClassVar[tuple[Form, ...]] = ("prompts",)
    kind: Literal["firsts"] = "firsts"
    train: int = 24
    validation: int = 6
    test: int = 0

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        chance = Random(f"{split}/{self.seed}")
        while True:
            word = "".join(chance.choices(LETTERS, k=chance.randint(1, 4)))
            yield {"prompt": [{"role": "user", "content": word}], "answer": word[0]}


TREE: dict[str, Any] = {
    "task": {"kind": "policy", "reward": "right", "samples": 3, "most": 4, "format": "plain"},
    "corpus": "firsts",
    "tokenizer": {"pieces": "character"},
    "batches": {"rows": 4},
    "model": {"kind": "gpt2", "width": 16, "depth": 1, "heads": 2, "context": 24, "dropout": 0.1},
    "train": {
        "steps": 12,
        "optimizer": {"kind": "adamw", "rate": 0.01},
        "schedule": {"kind": "constant", "warmup": 0},
        "evaluate": 0,
        "save": 100,
    },
}


def begin(out: Path, **changes: Any) -> Run:
    """A run on the corpus; `task` and `train` change the usual ones."""
    tree = {
        **TREE,
        "out": str(out),
        **{name: value for name, value in changes.items() if name not in ("task", "train")},
    }
    for name in ("task", "train"):
        tree[name] = {**TREE[name], **changes.get(name, {})}
    if "start" in changes:
        del tree["model"]
    return Run.begin(Document(tree))
