"""Samples: what a corpus is made of. Its form says which texts a sample has; all of it is plain JSON.

`pairs` have `source` and `target`; `documents` a `text`; `labels` a `text`, perhaps a `second` one, and a `label`;
`tags` have `words` and `tags`; `series` have `values`, `marks` and a `target`. A sample may say its `place`, as
`file:line`, for errors that are found later, and its `size`, for accuracy by size.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Form = str
Sample = dict[str, Any]


TEXTS: dict[Form, tuple[str, ...]] = {
    "pairs": ("source", "target"),
    "documents": ("text",),
    "labels": ("text", "label"),
    "tags": (),
    "series": (),
}
LISTS: dict[Form, dict[str, type | tuple[type, ...]]] = {
    "tags": {"words": str, "tags": str},
    "series": {"values": (int, float), "marks": int},
}


def whole(sample: Any, form: Form) -> bool:
    """Whether it is a sample of that form: a guard against files that were changed."""
    if not isinstance(sample, dict) or not all(isinstance(sample.get(name), str) for name in TEXTS[form]):
        return False
    if not isinstance(sample.get("second", ""), str) or type(sample.get("size", 0)) is not int:
        return False
    lists = LISTS.get(form, {})
    if form == "series" and not isinstance(sample.get("target"), int | float):
        return False
    for name, kind in lists.items():
        if not isinstance(sample.get(name), list) or not all(isinstance(item, kind) for item in sample[name]):
            return False
    return len({len(sample[name]) for name in lists}) <= 1


def place(sample: Sample, split: str, number: int) -> str:
    """Where a sample stands."""
    return str(sample.get("place", f"{split}:sample {number}"))


def vocabulary(words: Iterable[str]) -> list[str]:
    """Each once, in an order that doesn't depend on theirs."""
    return sorted(set(words))
