"""A look: one text in one model, and all that can be seen there.

Nothing is computed before it is asked for. The first pass keeps what enters each block, so that what is asked for later
runs the blocks that it is in, and no other; only where attention's weights are wanted is a softmax computed openly.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.probe import Record, insist
from regard.core.state import Memory
from regard.decode.pipeline import Pipeline
from regard.decode.reading import Output, Reading, Strip
from regard.errors import InputError
from regard.lens.grid import join_pieces, words

if TYPE_CHECKING:
    from regard.lens.page import Figure

BLOCK = re.compile(r"(encoder|decoder)\.blocks\.(\d+)\.")
ROUND = re.compile(r"\.rounds\.(\d+)\.blocks\.(\d+)\.")
HEAD = "head.weights"  # of a head that points at the source, or copies from it
KEPT = ("*.embedded", "*.stream", "*.features", "head.logits")  # what the first pass keeps whatever is asked for
Axis = str  # source, target, written, slots, or one that the reading names


@dataclass(frozen=True)
class Prediction:
    """What the model says at one position, and of what is right there if that is known."""

    position: int | None  # None: the answer is of the whole text
    token: str  # what is right there, or else what the model finds best
    log_probability: float
    rank: int  # 1: nothing is likelier
    entropy: float  # of all answers, in nats
    alternatives: list[tuple[str, float]]  # the likeliest answers, with their probabilities


@dataclass(frozen=True)
class AttentionMap:
    """Where a set of weights belongs."""

    name: str
    stack: str
    part: str  # mix, cross or head
    what: str  # weights, read_weights, write_weights
    layer: int
    rows: Axis
    columns: Axis


def look(pipeline: Pipeline, text: Any, target: str | None = None, *, names: str | Sequence[str] = "*") -> Look:
    """What a pipeline's model computes on a text, or on a picture, to be looked at.

    >>> import regard
    >>> found = regard.look(regard.load("runs/text"), "the cat", names="*.mix.weights")
    >>> list(found.weights())
    ['decoder.blocks.0.mix.weights']
    """
    reading = pipeline.lay_out(text, target)
    return Look(cast(Model, pipeline.model), reading, names, repr(pipeline).strip("<>"))


class Look:
    """One text in one model, to be looked at; `names`: patterns of what it is about.

    >>> import regard
    >>> look = regard.load("runs/en-fr").look("the cat sleeps", "le chat dort")
    >>> weights = look.weights("decoder.blocks.0.cross.weights")["decoder.blocks.0.cross.weights"]
    >>> weights.shape == (2, len(look.tokens), len(look.source_tokens))  # heads, target, source
    True
    >>> len(look.predictions()) == len(look.tokens)  # each with its log-probability, rank, entropy and alternatives
    True
    """

    def __init__(self, model: Model, reading: Reading, names: str | Sequence[str] = "*", made_by: str = "") -> None:
        self.model, self.reading, self.made_by = model, reading, made_by
        self.patterns = (names,) if isinstance(names, str) else tuple(names)
        insist(self.patterns, model.names())
        self.inputs: Inputs = reading.inputs.to(model.device)
        self._values: dict[str, Tensor] = {}
        self._memory: Memory | None = None

    @property
    def targets(self) -> Mapping[int, int | None]:
        """The positions that answer, each with the number of what is right there; None: nobody knows."""
        return self.reading.targets

    @property
    def tokens(self) -> list[str]:
        """What the stack that answers reads."""
        return self.label("target")

    @property
    def source_tokens(self) -> list[str] | None:
        """What the encoder reads, where a decoder looks at it."""
        return None if self.reading.source is None else self.label("source")

    @property
    def words(self) -> list[str]:
        """The words of what the stack that answers reads."""
        return merge_pieces(self.reading.tokens)

    @property
    def source_words(self) -> list[str] | None:
        """The words that the encoder reads, where a decoder looks at them."""
        return None if self.reading.source is None else merge_pieces(self.reading.source)

    def names(self, pattern: str = "*") -> list[str]:
        """What can be seen here, among what the look is about."""
        known = [name for name in self.model.names() if any(fnmatchcase(name, each) for each in self.patterns)]
        insist([pattern], known)
        return [name for name in known if fnmatchcase(name, pattern)]

    def values(self, pattern: str = "*") -> dict[str, Tensor]:
        """Values by their names, as the model reports them for this text, without the axis of rows."""
        wanted = self.names(pattern)
        self._compute(wanted)
        return {name: self._values[name] for name in wanted}

    def weights(self, pattern: str = "*") -> dict[str, Tensor]:
        """Attention weights by their names: (heads, queries, keys); each row sums to 1."""
        found = [name for name in self.names(pattern) if name.endswith("weights")]
        if not found:
            some = [name for name in self.model.names() if name.endswith("weights")]
            hint = f"those that do: {', '.join(some[:3])}, …" if some else "nothing in this model attends"
            raise InputError(f"{pattern}: none of these are attention weights", hint)
        self._compute(found)
        return {name: self._values[name].float() for name in found}

    @cached_property
    def logits(self) -> Tensor:
        """The scores of all answers: (positions, answers), or (answers,) where the whole text has one."""
        if "head.logits" not in self.model.names():
            raise InputError("this model has no head, so it answers nothing", "its features: look.values('*.features')")
        self._compute(["head.logits"])
        return self._values["head.logits"].float()

    def predictions(self, best: int = 5) -> list[Prediction]:
        """What the model says where it answers: log-probability, rank and entropy, and its likeliest answers."""
        reading = self.reading
        if not reading.targets or self.model.head is None or reading.output == "none" or self.logits.dim() > 2:
            return []
        single = self.logits.dim() == 1
        logits = self.logits[None] if single else self.logits[sorted(reading.targets)]
        logs = logits.log_softmax(-1) if reading.output == "softmax" else torch.nn.functional.logsigmoid(logits)
        entropies = measure_entropy(logits, reading.output).tolist()
        top = logs.topk(min(best, logs.shape[-1]), -1)
        found = []
        for n, position in enumerate(sorted(reading.targets)):
            right = reading.targets[position]
            answer = int(top.indices[n, 0]) if right is None else right
            names = reading.spell([answer, *top.indices[n].tolist()])
            log = float(logs[n, answer])
            rank = 1 + int((logs[n] > logs[n, answer]).sum())
            shares = list(zip(names[1:], top.values[n].exp().tolist(), strict=True))
            found.append(Prediction(None if single else position, names[0], log, rank, entropies[n], shares))
        return found

    def by_word(self) -> WordLook:
        """The same by words: a word's pieces are summed over keys and averaged over queries, so rows still sum to 1."""
        return WordLook(self)

    def maps(self) -> list[AttentionMap]:
        """All weights that the look is about, in the order of stacks and layers."""
        found = [name for name in self.names() if name.endswith("weights")]
        return [self.place(name) for name in found if BLOCK.match(name) or name == HEAD or name in self.reading.maps]

    def place(self, name: str) -> AttentionMap:
        """Where weights belong, and what their rows and columns stand for."""
        if name in self.reading.maps:
            stack, _, what = name.partition(".")
            rows, columns = self.reading.maps[name]
            return AttentionMap(name, stack, f"{rows} × {columns}", what, 0, rows, columns)
        match = BLOCK.match(name)
        if match is None and name != HEAD:
            raise InputError(f"{name} belongs to no block of the encoder or the decoder")
        stack, layer = ("decoder", 0) if match is None else (match.group(1), int(match.group(2)))
        part, what = name.rpartition(".")[0].rpartition(".")[2], name.rpartition(".")[2]
        if inner := ROUND.search(name):  # blocks that run over and over: each time they are a layer more
            others = filter(None, map(ROUND.search, self.model.names()))
            blocks = 1 + max(int(each.group(2)) for each in others if each.group(1) == inner.group(1))
            layer += int(inner.group(1)) * blocks + int(inner.group(2))
        reads_memory = name in self.model.alignments or part == "cross"
        own = self.read_by(name)
        rows = "written" if reads_memory and self.reading.written is not None else own
        columns = "source" if reads_memory else own if what == "weights" else "slots"
        return AttentionMap(name, stack, part, what, layer, rows, columns)

    def read_by(self, name: str) -> Axis:
        """The tokens that the stack reads which a name belongs to."""
        return "source" if name.startswith("encoder.") and self.reading.source is not None else "target"

    def strip(self, axis: Axis) -> Strip | None:
        """The tokens along an axis; None: it has numbers."""
        if axis == "slots":
            return None
        if axis in self.reading.axes:
            return self.reading.axes[axis]
        return {"source": self.reading.source, "target": self.reading.tokens, "written": self.reading.written}[axis]

    def label(self, axis: Axis, size: int = 0) -> list[str]:
        """What stands along an axis."""
        strip = self.strip(axis)
        return [str(n) for n in range(size)] if strip is None else list(strip.pieces)

    def save(self, path: str | Path, best: int = 5) -> Path:
        """Write it, by the ending of the path: .html (the viewer), .json, .npz (exact), .csv, .png or .svg."""
        from regard.lens.keep import keep

        return keep(self, Path(path), best)

    def figure(self, best: int = 5) -> Figure:
        """What the viewer draws."""
        from regard.lens.keep import make_figure

        return make_figure(self, best)

    def _repr_html_(self) -> str:
        """The viewer, in a notebook."""
        from regard.lens.keep import make_html
        from regard.lens.page import embed_page

        return embed_page(make_html(self))

    def __repr__(self) -> str:
        text = self.reading.text if len(self.reading.text) <= 40 else f"{self.reading.text[:40]}…"
        return f"<Look at {text!r} in {self.made_by or 'a model'}: {len(self.reading.tokens)} tokens>"

    @torch.no_grad()
    def _compute(self, names: Iterable[str]) -> None:
        """Run what is missing: once the whole model, later only the blocks that are asked about."""
        missing = [name for name in names if name not in self._values]
        if not missing:
            return
        if not self._values:
            self._pass([*missing, *KEPT])
            missing = [name for name in names if name not in self._values]
        blocks: dict[tuple[str, int], list[str]] = defaultdict(list)
        for name in missing:
            match = BLOCK.match(name)
            if match is not None:
                blocks[match.group(1), int(match.group(2))].append(name)
        for (stack, number), wanted in blocks.items():
            self._rerun(cast(Literal["encoder", "decoder"], stack), number, wanted)
        rest = [name for name in missing if name not in self._values]
        if rest:  # within an embedding: there is no block to begin with
            self._pass(rest)

    def _pass(self, patterns: Sequence[str]) -> None:
        """The whole model, once."""
        known = self.model.names()
        record = Record(*(each for each in patterns if any(fnmatchcase(name, each) for name in known)))
        inputs = self.inputs
        with evaluating(self.model):
            if isinstance(inputs.memory, Inputs):
                if self._memory is None or any(pattern.startswith("encoder.embedding.") for pattern in patterns):
                    self._memory = self.model.encode(replace(inputs.memory, probe=record))
                inputs = replace(inputs, memory=self._memory)
            self.model(replace(inputs, probe=record))
        self._keep(record)

    def _rerun(self, stack: Literal["encoder", "decoder"], number: int, names: list[str]) -> None:
        """One block from what entered it, with these names watched."""
        entered = f"{stack}.embedded" if number == 0 else f"{stack}.blocks.{number - 1}.stream"
        record = Record(*names)
        inputs = self.inputs
        if stack == "encoder" and isinstance(inputs.memory, Inputs):
            inputs = inputs.memory
        elif isinstance(inputs.memory, Inputs):
            inputs = replace(inputs, memory=self._memory)
        with evaluating(self.model):
            self.model.rerun(stack, number, self._values[entered][None], replace(inputs, probe=record))
        self._keep(record)

    def _keep(self, record: Record) -> None:
        rows = self.inputs.tokens.shape[0]
        for name in record:
            value = record[name]
            # a load or a balance has no rows, and a stack within an embedding has rows of its own
            self._values[name] = value[0] if value.dim() > 1 and value.shape[0] == rows == 1 else value


class WordLook(Look):
    """A look by words. Predictions are of tokens, so it has none."""

    def __init__(self, whole: Look) -> None:
        super().__init__(whole.model, whole.reading, whole.patterns, whole.made_by)
        self.whole = whole

    def _compute(self, names: Iterable[str]) -> None:
        self.whole._compute(names)
        self._values = self.whole._values

    def weights(self, pattern: str = "*") -> dict[str, Tensor]:
        found = self.whole.weights(pattern)
        return {name: self._merge(self.place(name), weights) for name, weights in found.items()}

    def _merge(self, place: AttentionMap, weights: Tensor) -> Tensor:
        down, across = self.spans(place.rows, weights.shape[1]), self.spans(place.columns, weights.shape[2])
        keys = torch.stack([weights[..., first:last].sum(-1) for first, last in across], -1)
        return torch.stack([keys[..., first:last, :].mean(-2) for first, last in down], -2)

    def spans(self, axis: Axis, size: int) -> list[tuple[int, int]]:
        """Where each word begins among the tokens along an axis, and where it ends."""
        strip = self.strip(axis)
        return [(n, n + 1) for n in range(size)] if strip is None else words(strip.pieces, strip.special, strip.spaced)

    def label(self, axis: Axis, size: int = 0) -> list[str]:
        strip = self.strip(axis)
        return super().label(axis, size) if strip is None else merge_pieces(strip)

    def predictions(self, best: int = 5) -> list[Prediction]:
        return []

    def by_word(self) -> WordLook:
        return self


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Nothing is dropped while one looks; a model that is being trained goes on as it was."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def measure_entropy(logits: Tensor, output: Output) -> Tensor:
    """Of all answers, in nats: (…, answers) -> (…); where each stands by itself, the sum of theirs."""
    if output == "softmax":
        return torch.special.entr(logits.softmax(-1)).sum(-1)
    shares = logits.sigmoid()
    return (torch.special.entr(shares) + torch.special.entr(1 - shares)).sum(-1)


def merge_pieces(strip: Strip) -> list[str]:
    """The words that pieces make."""
    return join_pieces(strip.pieces, words(strip.pieces, strip.special, strip.spaced))


def as_plain(prediction: Prediction) -> dict[str, Any]:
    """A prediction as data."""
    return {**vars(prediction), "alternatives": [list(each) for each in prediction.alternatives]}
