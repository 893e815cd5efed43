"""Samples: what a corpus is made of. Its form says which fields a sample has and what each holds.

`pairs` have `source` and `target`; `documents` a `text`; `labels` a `text`, perhaps a `second` one, and a `label`;
`tags` have `words` and `tags`; `series` have `values`, `marks` and a `target`; `vectors` have `vectors` and `answers`;
`points` have `points` and a `target` that is some of them in order; `graphs` have `nodes` and `edges`, and what is
known of them; `questions` have a `question`, a table's `names` and `cells`, and an answer; `pictures` have a `picture`,
`images` a `label` beside it, `captions` one or several `texts`; `conversations` have `messages`, `prompts` a `prompt`
of messages, `preferences` the answers `chosen` and `rejected` beside it. Another form is another subclass of
`FormSpec`, wherever it is defined; its fields may be arrays. A sample may say its `place`, as `file:line`, for errors
that are found later, its `size` and the `part` of the corpus that it belongs to, for accuracy by either, and its
`group`, which stays on one side of a split.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import Any, ClassVar, Literal, Protocol

from regard.core.registry import Kinds
from regard.core.spec import Spec
from regard.data.array import Array, ArrayField, Load, Store, condense, describe, embed, extract
from regard.data.canvas import PictureField
from regard.data.graph import EdgeField, NodeField

Form = str  # the kind of a FormSpec
Sample = dict[str, Any]


class Field(Protocol):
    """What a field of a sample may hold."""

    def fits(self, value: object) -> bool:
        """Whether a value is such."""


@dataclass(frozen=True)
class Plain:
    """A field that JSON keeps as it is: a text or a number, or a list of them."""

    types: tuple[type, ...]
    listed: bool = False

    def __str__(self) -> str:
        names = " or ".join(kind.__name__ for kind in self.types)
        return f"a list of {names}" if self.listed else names

    def fits(self, value: object) -> bool:
        if not self.listed:
            return isinstance(value, self.types)
        return isinstance(value, list) and all(isinstance(item, self.types) for item in value)


@dataclass(frozen=True)
class Messages:
    """A field that holds what was said, in order: each has a role and its content, and both are texts."""

    def __str__(self) -> str:
        return "a list of messages, each with a role and a content"

    def fits(self, value: object) -> bool:
        return isinstance(value, list) and bool(value) and all(map(self._is_message, value))

    def _is_message(self, value: object) -> bool:
        return (
            isinstance(value, dict)
            and value.keys() == {"role", "content"}
            and all(isinstance(text, str) for text in value.values())
        )


@dataclass(frozen=True)
class Points:
    """A field that holds points of the plane: pairs of numbers."""

    def __str__(self) -> str:
        return "a list of points, each of two numbers"

    def fits(self, value: object) -> bool:
        return isinstance(value, list) and bool(value) and all(map(self._is_point, value))

    def _is_point(self, value: object) -> bool:
        return isinstance(value, list) and len(value) == 2 and all(type(number) in (int, float) for number in value)


TEXT, NUMBER = Plain((str,)), Plain((int, float))
PICTURE = PictureField()
TEXTS, NUMBERS, INTEGERS = Plain((str,), True), Plain((int, float), True), Plain((int,), True)


class FormSpec(Spec):
    """What samples of one form have."""

    kinds: ClassVar[Kinds[type[Spec]]] = Kinds()
    holds: ClassVar[Mapping[str, Field]] = {}  # the fields that every sample has
    may_hold: ClassVar[Mapping[str, Field]] = {}  # those that it may have
    aligned: ClassVar[tuple[str, ...]] = ()  # the fields that are equally long
    asks: ClassVar[tuple[str, ...]] = ()  # the fields that a model is given, where others are what it must answer
    trimmed: ClassVar[bool] = True  # whether spaces around a text are no part of it
    spaced: ClassVar[bool] = True  # whether a text in the place of a list is words that spaces divide
    loose: ClassVar[bool] = False  # whether a number will do for a text, as it does for a label
    parts: ClassVar[tuple[str, ...]] = ()  # columns of a table that its fields are made of, where not those themselves

    def find_fault(self, sample: Any) -> str:
        """Why something isn't a sample of this form; nothing where it is one."""
        if not isinstance(sample, dict):
            return f"it is {describe(sample)}, not a table of fields"
        for name, field in self.holds.items():
            if name not in sample or not field.fits(sample[name]):
                known = name in sample
                return f"{name} is {describe(sample[name])}, and must be {field}" if known else f"it has no {name}"
        if odd := [name for name, field in self.may_hold.items() if name in sample and not field.fits(sample[name])]:
            return f"{odd[0]} is {describe(sample[odd[0]])}, and must be {self.may_hold[odd[0]]}"
        if type(sample.get("size", 0)) is not int or type(sample.get("part", "")) is not str:
            return "size isn't a whole number, or part isn't a text"
        if self.aligned and len({len(sample[name]) for name in self.aligned}) > 1:
            return f"{' and '.join(self.aligned)} aren't equally long"
        return ""

    def pack(self, sample: Sample, store: Store = embed) -> Sample:
        """A sample that JSON keeps to the bit; `store`: what becomes of its arrays."""
        return {**sample, **{name: store(sample[name]) for name in self.list_arrays() if name in sample}}

    def unpack(self, line: str, load: Load = extract) -> Sample | None:
        """A sample from a line of JSON; None where it isn't one: files may have been changed."""
        try:
            sample = json.loads(line)
        except (ValueError, RecursionError):
            return None
        if isinstance(sample, dict) and (arrays := self.list_arrays()):
            sample |= {name: load(sample[name]) for name in arrays if name in sample}
        return None if self.find_fault(sample) else sample

    def condense(self, sample: Sample) -> Sample:
        """A sample with a short text for each array: it may be compared and shown, and not be learned from."""
        arrays = self.list_arrays()
        return {**sample, **{name: condense(sample[name]) for name in arrays if name in sample}} if arrays else sample

    def identify(self, sample: Sample) -> str:
        """What a model is asked by a sample: equal for those that must not stand on both sides of a split."""
        condensed = self.condense({name: sample[name] for name in self.asks or self.holds if name in sample})
        asked = list(condensed.values())
        return asked[0] if len(asked) == 1 and isinstance(asked[0], str) else json.dumps(asked, ensure_ascii=False)

    def find_group(self, sample: Sample) -> str:
        """What a sample's side of a split depends on: the group that it belongs to, or else what it asks."""
        return str(sample["group"]) if "group" in sample else self.identify(sample)

    def measure_vectors(self, sample: Sample) -> tuple[int, int] | None:
        """How many numbers it has at each position, and how many answers; None: its positions are no vectors."""
        return None

    def list_arrays(self) -> tuple[str, ...]:
        """The fields that hold arrays; it is asked of every sample, so they are found once."""
        return find_arrays(type(self))

    def list_fields(self) -> dict[str, Field]:
        """The fields that a sample has or may have."""
        return {**self.holds, **self.may_hold}

    def list_pictures(self) -> list[str]:
        """The fields that hold pictures."""
        return [name for name, field in self.list_fields().items() if isinstance(field, PictureField)]


@cache
def find_arrays(form: type[FormSpec]) -> tuple[str, ...]:
    return tuple(name for name, field in {**form.holds, **form.may_hold}.items() if isinstance(field, ArrayField))


class PairForm(FormSpec):
    kind: Literal["pairs"] = "pairs"
    holds: ClassVar[Mapping[str, Field]] = {"source": TEXT, "target": TEXT}
    asks: ClassVar[tuple[str, ...]] = ("source",)


class DocumentForm(FormSpec):
    kind: Literal["documents"] = "documents"
    holds: ClassVar[Mapping[str, Field]] = {"text": TEXT}
    trimmed: ClassVar[bool] = False


class LabelForm(FormSpec):
    kind: Literal["labels"] = "labels"
    holds: ClassVar[Mapping[str, Field]] = {"text": TEXT, "label": TEXT}
    may_hold: ClassVar[Mapping[str, Field]] = {"second": TEXT}
    asks: ClassVar[tuple[str, ...]] = ("text", "second")
    loose: ClassVar[bool] = True


class TagForm(FormSpec):
    kind: Literal["tags"] = "tags"
    holds: ClassVar[Mapping[str, Field]] = {"words": TEXTS, "tags": TEXTS}
    aligned: ClassVar[tuple[str, ...]] = ("words", "tags")
    asks: ClassVar[tuple[str, ...]] = ("words",)
    loose: ClassVar[bool] = True


class SeriesForm(FormSpec):
    kind: Literal["series"] = "series"
    holds: ClassVar[Mapping[str, Field]] = {"values": NUMBERS, "marks": INTEGERS, "target": NUMBER}
    aligned: ClassVar[tuple[str, ...]] = ("values", "marks")
    asks: ClassVar[tuple[str, ...]] = ("values", "marks")


class PointForm(FormSpec):
    """`target`: places among the points, from 1 upwards; `ring`: whether it is the same wherever it begins."""

    kind: Literal["points"] = "points"
    holds: ClassVar[Mapping[str, Field]] = {"points": Points(), "target": INTEGERS}
    may_hold: ClassVar[Mapping[str, Field]] = {"ring": Plain((bool,))}
    asks: ClassVar[tuple[str, ...]] = ("points",)


class VectorForm(FormSpec):
    """`vectors`: (positions, numbers). `answers`: a text a position, several answers divided by spaces, or nothing."""

    kind: Literal["vectors"] = "vectors"
    holds: ClassVar[Mapping[str, Field]] = {"vectors": Array("float32", 2), "answers": TEXTS}
    aligned: ClassVar[tuple[str, ...]] = ("vectors", "answers")
    asks: ClassVar[tuple[str, ...]] = ("vectors",)

    def measure_vectors(self, sample: Sample) -> tuple[int, int] | None:
        return sample["vectors"].shape[1], max(len(answer.split()) for answer in sample["answers"])


class PictureForm(FormSpec):
    kind: Literal["pictures"] = "pictures"
    holds: ClassVar[Mapping[str, Field]] = {"picture": PICTURE}


class ImageForm(FormSpec):
    kind: Literal["images"] = "images"
    holds: ClassVar[Mapping[str, Field]] = {"picture": PICTURE, "label": TEXT}
    asks: ClassVar[tuple[str, ...]] = ("picture",)
    loose: ClassVar[bool] = True


class CaptionForm(FormSpec):
    kind: Literal["captions"] = "captions"
    holds: ClassVar[Mapping[str, Field]] = {"picture": PICTURE, "texts": TEXTS}
    spaced: ClassVar[bool] = False
    asks: ClassVar[tuple[str, ...]] = ("picture",)


class ConversationForm(FormSpec):
    kind: Literal["conversations"] = "conversations"
    holds: ClassVar[Mapping[str, Field]] = {"messages": Messages()}
    parts: ClassVar[tuple[str, ...]] = ("messages", "prompt", "answer", "system", "context")

    def identify(self, sample: Sample) -> str:
        # conversations that begin with the same question stand on one side of a split, whatever is answered
        asked = takewhile(lambda message: message["role"] != "assistant", sample["messages"])
        return json.dumps(list(asked) or sample["messages"], ensure_ascii=False)


class PromptForm(FormSpec):
    """`answer`: what would be right, for rewards that know it."""

    kind: Literal["prompts"] = "prompts"
    holds: ClassVar[Mapping[str, Field]] = {"prompt": Messages()}
    may_hold: ClassVar[Mapping[str, Field]] = {"answer": TEXT}
    parts: ClassVar[tuple[str, ...]] = ("messages", "prompt", "answer", "system", "context")
    asks: ClassVar[tuple[str, ...]] = ("prompt",)
    trimmed: ClassVar[bool] = False


class QuestionForm(FormSpec):
    """A table is its columns' `names` and its `cells`, row by row. The answer is a `number`, or cells that are
    `chosen`; `template`: what kind of question it is; `unseen`: no such question was trained.
    """

    kind: Literal["questions"] = "questions"
    holds: ClassVar[Mapping[str, Field]] = {"question": TEXT, "names": TEXTS, "cells": TEXTS}
    may_hold: ClassVar[Mapping[str, Field]] = {
        "number": NUMBER,
        "chosen": INTEGERS,
        "template": TEXT,
        "unseen": Plain((bool,)),
    }
    asks: ClassVar[tuple[str, ...]] = ("question", "names", "cells")

    def find_fault(self, sample: Any) -> str:
        fault = super().find_fault(sample)
        if fault:
            return fault
        columns, cells, chosen = len(sample["names"]), len(sample["cells"]), sample.get("chosen", [])
        if not columns or not cells or cells % columns:
            return f"{cells} cells aren't whole rows of {columns} columns"
        if ("number" in sample) == ("chosen" in sample):
            return "its answer must be a number, or the cells that are chosen"
        beyond = [place for place in chosen if not 0 <= place < cells]
        return f"chosen: there are {cells} cells, and {beyond[0]} is none of them" if beyond else ""


class PreferenceForm(FormSpec):
    """`margin`: by how much the chosen answer is better, if somebody said so; `unfinished`: which of both were cut."""

    kind: Literal["preferences"] = "preferences"
    holds: ClassVar[Mapping[str, Field]] = {"prompt": Messages(), "chosen": TEXT, "rejected": TEXT}
    may_hold: ClassVar[Mapping[str, Field]] = {"margin": NUMBER, "unfinished": TEXTS}
    parts: ClassVar[tuple[str, ...]] = (
        "messages",
        "prompt",
        "chosen",
        "rejected",
        "margin",
        "unfinished",
        "system",
        "context",
    )
    asks: ClassVar[tuple[str, ...]] = ("prompt",)
    trimmed: ClassVar[bool] = False


class GraphForm(FormSpec):
    """What is known of a graph is a `label`, several `labels` (as a list, perhaps empty), a `number`, or a label
    or a number for each node (`node_labels`, `node_numbers`)."""

    kind: Literal["graphs"] = "graphs"
    holds: ClassVar[Mapping[str, Field]] = {"nodes": NodeField(), "edges": EdgeField(2)}
    may_hold: ClassVar[Mapping[str, Field]] = {
        "edge_kinds": EdgeField(),
        "label": TEXT,
        "labels": TEXTS,
        "number": NUMBER,
        "node_labels": TEXTS,
        "node_numbers": NUMBERS,
    }
    asks: ClassVar[tuple[str, ...]] = ("nodes", "edges", "edge_kinds")

    def find_fault(self, sample: Any) -> str:
        fault = super().find_fault(sample)
        if fault:
            return fault
        nodes, edges = sample["nodes"], sample["edges"]
        if edges.size and not 0 <= edges.min() <= edges.max() < len(nodes):
            return f"edges name node {edges.max()}, and there are {len(nodes)}"
        if "edge_kinds" in sample and len(sample["edge_kinds"]) != len(edges):
            return "edges and edge_kinds aren't equally long"
        wrong = [name for name in ("node_labels", "node_numbers") if len(sample.get(name, nodes)) != len(nodes)]
        return f"nodes and {wrong[0]} aren't equally long" if wrong else ""


def place(sample: Sample, split: str, number: int) -> str:
    """Where a sample stands."""
    return str(sample.get("place", f"{split}:sample {number}"))


def vocabulary(words: Iterable[str]) -> list[str]:
    """Each once, in an order that doesn't depend on theirs."""
    return sorted(set(words))
