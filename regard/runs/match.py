"""Two models of one size: the width of a recipe's model is chosen so that it has as many weights as another's."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from regard.config import Document
from regard.data.lexicon import Lexicon
from regard.errors import SpecError
from regard.runs.assembly import Assembly
from regard.runs.spec import RunSpec

CLOSE = 0.02  # how far apart two counts may be
STRIDES = (1, 2, 4, 8, 16, 32, 64)  # a width may have to be even, or to be divided into heads of such a size
LARGEST = 2**14
Count = Callable[[int], int | None]


@dataclass
class Sizing:
    """A recipe's model at other sizes, and how many weights each of them has."""

    document: Document
    lexicon: Lexicon
    tried: dict[tuple[str, ...], int] = field(default_factory=dict)  # by the words that set the sizes

    def count(self, *words: str) -> int | None:
        """The weights with such settings; None where no model has them."""
        try:
            found = count_weights(self.document.change(words), self.lexicon)
        except SpecError:
            return None
        self.tried[words] = found
        return found

    def rank(self, target: int) -> list[tuple[str, ...]]:
        """What was tried, the nearest first."""
        return sorted(self.tried, key=lambda words: abs(self.tried[words] - target))


def count_weights(document: Document, lexicon: Lexicon) -> int:
    """How many weights the model of a run file has with such tokens; no memory is taken for it."""
    spec = RunSpec.parse(document.tree, document.where)
    return Assembly.make(spec).with_words(lexicon).model.build("meta").parameter_count()


def match_parameters(name: str, document: Document, lexicon: Lexicon, target: int) -> Document:
    """The same recipe with a model of so many weights, within 2 %; `name`: what the recipe is called."""
    settings = _list_settings(name, document)
    sizing = Sizing(document, lexicon)
    own = sizing.count()
    if own is not None and _is_close(own, target):
        return document
    heads = math.lcm(*_list_heads(settings))
    for stride in STRIDES:
        if _search(lambda width: sizing.count(f"model.width={width}"), heads * stride, target):
            break  # finer strides had sizes that can't be built, and coarser ones say no more
    widths = [words for words in sizing.rank(target) if words]
    if "hidden" in settings and widths and not _is_close(sizing.tried[widths[0]], target):
        for words in widths[:2]:
            _search(lambda hidden, words=words: sizing.count(*words, f"model.hidden={hidden}"), 1, target)  # type: ignore[misc]
    best = sizing.rank(target)
    if best and _is_close(sizing.tried[best[0]], target):
        return document.change(best[0])
    listed = " and ".join(
        f"{' '.join(words) or 'as it is'} has {sizing.tried[words]:,} ({sizing.tried[words] / target - 1:+.1%})"
        for words in best[:2]
    )
    raise SpecError(
        f"--match parameters: no width of {name}'s model comes within {CLOSE:.0%} of {target:,} parameters; {listed}",
        "another depth or number of heads, or leave --match out",
    )


def _list_settings(name: str, document: Document) -> dict[str, Any]:
    """What the family of a recipe's model lets one choose."""
    choice = RunSpec.parse(document.tree, document.where).model
    family = None if choice is None else choice.family
    settings = {} if family is None else family.model_dump(mode="json")
    if "width" not in settings:
        reason = "it goes on from a trained model" if choice is None else f"{choice.name} has no setting `width`"
        raise SpecError(f"--match parameters: {name} can't be sized, {reason}", "leave --match out")
    return settings


def _list_heads(tree: Mapping[str, Any]) -> Iterator[int]:
    """Every number of heads, which must divide the width."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _list_heads(value)
        elif key == "heads" and isinstance(value, int):
            yield value


def _search(count: Count, stride: int, target: int) -> bool:
    """Try multiples of a stride around the one that meets a target; False: some of them can't be built."""
    low, high = 0, 1
    while high * stride <= LARGEST:
        found = count(high * stride)
        if found is None:
            return False
        if found >= target:
            break
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        found = count(middle * stride)
        if found is None:
            return False
        low, high = (middle, high) if found < target else (low, middle)
    return True


def _is_close(count: int, target: int) -> bool:
    return abs(count - target) <= CLOSE * target
