"""A lexicon: the tokens, labels and letters that a model knows. It goes wherever the model's weights go."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regard.data.canvas import Canvas
from regard.data.graph import Schema
from regard.data.tokenizer import Tokenizer, parse_engine
from regard.errors import DataError, InputError

NAME = "lexicon.json"
SHARED, APART = ("tokenizer.json",), ("tokenizer.source.json", "tokenizer.target.json")
LARGEST = 2**16  # numbers at a position
NUMBERS = ("pad", "unknown", "begin", "end", "separator", "mask")


@dataclass
class Lexicon:
    """What numbers stand for."""

    words: tuple[Tokenizer, Tokenizer] | None  # of the source and of the target, perhaps the same; None: no words
    labels: list[str] = field(default_factory=list)  # classes or tags
    letters: list[str] = field(default_factory=list)  # that words are spelled with; 0 is for those that aren't here
    foreign: bool = False  # the tokenizers came with a model from elsewhere
    canvas: Canvas | None = None  # the pictures that it reads, if it reads any
    vectors: tuple[int, int] | None = None  # the numbers at each position and the answers there, if it reads vectors
    graphs: Schema | None = None  # what the graphs that it reads are made of, if it reads any

    @property
    def tokenizers(self) -> tuple[Tokenizer, Tokenizer]:
        """Of the source and of the target; one and the same if shared."""
        if self.words is None:
            raise InputError("there is no tokenizer: this task reads and writes no words")
        return self.words

    @property
    def tokenizer(self) -> Tokenizer:
        """The one, for tasks with one language."""
        return self.tokenizers[0]

    def files(self) -> dict[str, bytes]:
        """All of it as files."""
        facts: dict[str, Any] = {"labels": self.labels, "letters": self.letters, "numbers": None}
        if self.canvas is not None:
            facts["canvas"] = self.canvas.to_fact()
        if self.vectors is not None:
            facts["vectors"] = list(self.vectors)
        if self.graphs is not None:
            facts["graphs"] = self.graphs.to_fact()
        if self.words is None:
            return {NAME: json.dumps(facts | {"words": False}, ensure_ascii=False).encode()}
        source, target = self.words
        names, parts = (SHARED, (source,)) if source is target else (APART, (source, target))
        found = {name: part.engine.to_str(pretty=True).encode() for name, part in zip(names, parts, strict=True)}
        facts["numbers"] = [part_numbers(part) for part in parts] if self.foreign else None
        return found | {NAME: json.dumps(facts, ensure_ascii=False).encode()}

    @classmethod
    def read(cls, file: Callable[[str], bytes | None], where: str, dropout: float = 0.0) -> Lexicon:
        """From files, each given by its name as bytes, or as None where there is none."""
        facts = _facts(file(NAME), f"{where}/{NAME}")
        told = facts.get("canvas")
        canvas = None if told is None else Canvas.of_fact(told, f"{where}/{NAME}")
        if facts.get("words") is False:
            vectors = _read_vectors(facts.get("vectors"), f"{where}/{NAME}")
            made = facts.get("graphs")
            graphs = None if made is None else Schema.of_fact(made, f"{where}/{NAME}")
            return cls(None, facts["labels"], facts["letters"], canvas=canvas, vectors=vectors, graphs=graphs)
        names = SHARED if file(SHARED[0]) is not None else APART
        parts = []
        for side, name in enumerate(names):
            content = file(name)
            if content is None:
                raise DataError(f"{where}/{name}: there is no tokenizer")
            if facts["numbers"] is None:
                parts.append(Tokenizer.parse(content, f"{where}/{name}", dropout))
            else:
                parts.append(_number_tokens(content, f"{where}/{name}", facts["numbers"], side))
        return cls((parts[0], parts[-1]), facts["labels"], facts["letters"], facts["numbers"] is not None, canvas)


def part_numbers(tokenizer: Tokenizer) -> dict[str, Any]:
    """What the special tokens of a tokenizer of others are."""
    return {name: getattr(tokenizer, name) for name in NUMBERS} | {"further": list(tokenizer.further)}


def _facts(content: bytes | None, where: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {"labels": [], "letters": [], "numbers": None}
    if content is None:
        return nothing
    try:
        found = nothing | json.loads(content)
    except (ValueError, TypeError, RecursionError):
        raise DataError(f"{where}: damaged, it isn't a JSON object") from None
    for name in ("labels", "letters"):
        listed = found[name]
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise DataError(f"{where}: {name} isn't a list of texts")
        if len(set(listed)) != len(listed):
            raise DataError(f"{where}: {name} has one of them twice")
    return found


def _read_vectors(told: Any, where: str) -> tuple[int, int] | None:
    """How many numbers and answers a position has; None: nothing is said of any."""
    if told is None:
        return None
    sizes = told if isinstance(told, list) else []
    if len(sizes) != 2 or not all(type(size) is int and 1 <= size <= LARGEST for size in sizes):
        raise DataError(f"{where}: vectors is {told!r}, and must be two sizes, from 1 to {LARGEST}")
    return sizes[0], sizes[1]


def _number_tokens(content: bytes, where: str, told: Any, side: int) -> Tokenizer:
    """A tokenizer of others, with the numbers that its special tokens have."""
    engine = parse_engine(content, where)
    engine.no_padding()
    engine.no_truncation()
    numbers = told[side] if isinstance(told, list) and side < len(told) and isinstance(told[side], dict) else {}
    size = engine.get_vocab_size()
    given: dict[str, Any] = {name: numbers.get(name) for name in NUMBERS}
    for name, number in given.items():
        spare = name in ("separator", "mask") and number is None
        if not spare and not (type(number) is int and 0 <= number < max(size, 1)):
            raise DataError(f"{where}: {name} is {number!r}, and that isn't a token of {size}")
    further = numbers.get("further", [])  # which older files don't have
    if not isinstance(further, list) or not all(type(token) is int and 0 <= token < size for token in further):
        raise DataError(f"{where}: further is {further!r}, and those aren't tokens of {size}")
    return Tokenizer(engine, 0.0, **given, further=tuple(further))
