"""What all analyses share: what they find, what they ask a model about, and how they run it.

An analysis says what a model does with a text, not why. It asks about answers: at each position that answers, what is
right there; where nobody knows that, what the model itself finds best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.probe import Probe, Record, Sight, insist
from regard.errors import InputError
from regard.lens.look import BLOCK, Look, evaluating

ROWS = 32  # of the same text that are run at once, each changed in another way
Answers = Mapping[int, int]  # the answer that is asked about at each position


@dataclass(frozen=True)
class Finding:
    """What an analysis found: numbers, and names for their axes."""

    def as_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return {item.name: _plain(getattr(self, item.name)) for item in fields(self)}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


class Tap(Probe):
    """Keep the values that match the patterns, in the graph: a gradient by each can be asked for afterwards."""

    def __init__(self, *patterns: str) -> None:
        self.patterns = patterns
        self.record = Record(*patterns)

    def begin(self, sight: Sight) -> None:
        self.record.begin(sight)

    def wants(self, name: str) -> bool:
        return self.record.wants(name)

    def __call__(self, name: str, value: Tensor) -> Tensor:
        if not value.requires_grad:  # it depends on no weight that learns: an impulse, a frozen model's values
            value.requires_grad_()
        return self.record(name, value)

    def gradients(self, score: Tensor) -> dict[str, list[tuple[Tensor, Tensor]]]:
        """Each value with the gradient of a score by it, piece by piece where a loop reported it so."""
        pieces = [(name, piece) for name in self.record for piece in self.record.pieces[name]]
        found = torch.autograd.grad(score, [piece for _, piece in pieces], materialize_grads=True)
        gradients: dict[str, list[tuple[Tensor, Tensor]]] = {name: [] for name in self.record}
        for (name, piece), gradient in zip(pieces, found, strict=True):
            gradients[name].append((piece.detach(), gradient))
        return gradients


def choose_answers(look: Look, positions: Sequence[int] | None = None) -> dict[int, int]:
    """What to ask about: what is right at each position that answers; where nothing is known, what the model says."""
    head = look.model.spec.head
    answers = head is not None and head.answers != "vectors" and look.reading.output != "none"
    if not look.targets or not answers or look.logits.dim() > 2:
        raise InputError("this model has no single answer to ask about at any position", "look.values('*')")
    strange = [place for place in positions or () if place not in look.targets]
    if strange:
        known = ", ".join(str(place) for place in sorted(look.targets))
        raise InputError(f"position {strange[0]} answers nothing here", f"one of {known}")
    right = {place: answer for place, answer in look.targets.items() if answer is not None}
    if positions is None and right:
        return right
    scores = look.logits[None].expand(max(look.targets) + 1, -1) if look.logits.dim() == 1 else look.logits
    chosen = sorted(look.targets) if positions is None else positions
    return {place: right.get(place, int(scores[place].argmax())) for place in chosen}


def score_answers(look: Look, logits: Tensor, answers: Answers) -> Tensor:
    """The log-probability of each answer, in the order of `answers`: (rows, time, answers) -> (rows, asked)."""
    logs = F.logsigmoid(logits) if look.reading.output == "sigmoid" else logits.log_softmax(-1)
    if logs.dim() == 2:  # one answer for the whole text
        return logs[:, list(answers.values())]
    return logs[:, list(answers), list(answers.values())]


def measure_loss(look: Look, logits: Tensor, answers: Answers) -> Tensor:
    """The mean of -log p over the answers: (rows,)."""
    return -score_answers(look, logits, answers).mean(-1)


def ask(look: Look, probe: Probe | None = None, rows: int = 1, inputs: Inputs | None = None) -> Tensor:
    """The logits of a look's text under a probe, in so many equal rows; gradients flow where they are on.

    `inputs`: what to read in the place of the text.
    """
    with evaluating(look.model), nullcontext() if probe is None else look.model.watch(probe):
        logits: Tensor = look.model(repeat_row(look.inputs if inputs is None else inputs, rows))
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def repeat_row(inputs: Inputs, rows: int) -> Inputs:
    """The one row of a look so many times, so that each can be changed in another way."""
    if rows == 1:
        return inputs
    real = inputs.real
    memory = inputs.memory
    return replace(
        inputs,
        tokens=inputs.tokens.expand(rows, *inputs.tokens.shape[1:]),
        valid=None if bool(real.all()) else real.expand(rows, -1),
        memory=repeat_row(memory, rows) if isinstance(memory, Inputs) else memory,
        # a table of spellings has a row for each word, and not for each text
        extras={
            name: value.expand(rows, *value.shape[1:]) if value.shape[0] == 1 else value
            for name, value in inputs.extras.items()
        },
    )


@torch.no_grad()
def record(look: Look, *names: str) -> dict[str, Tensor]:
    """What the model computes on a look's text, whatever the look itself is about; without the axis of rows."""
    seen = Record(*names)
    ask(look, seen)
    return {name: seen[name][0] for name in seen}


def find_names(look: Look, pattern: str) -> list[str]:
    """The names that a pattern has in the blocks of a look's model."""
    insist([pattern], look.model.names())
    found = [name for name in look.model.names() if fnmatchcase(name, pattern) and BLOCK.match(name)]
    if not found:
        raise InputError(f"{pattern} belongs to no block of the encoder or the decoder", "model.names() lists all")
    return found


def gather_looks(looks: Look | Sequence[Look]) -> list[Look]:
    """One look or several, all of one model."""
    found = [looks] if isinstance(looks, Look) else list(looks)
    if not found:
        raise InputError("there is no text to look at", "one look at least")
    if any(look.model is not found[0].model for look in found):
        raise InputError("these looks are of several models, and their numbers don't belong together", "one model")
    return found
