"""Several models as one: the mean of their probabilities, token by token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding
from regard.core.probe import Probe
from regard.core.state import Group, Memory, Progress
from regard.errors import SpecError


@dataclass
class Memories:
    """What each model's encoder left."""

    parts: tuple[Memory | None, ...]


class Ensemble:
    """Models with one vocabulary, asked as one: a search takes it wherever it takes a model.

    >>> import regard, torch
    >>> spec = regard.preset("transformer-tiny", width=32, depth=1, heads=2, vocabulary=100)
    >>> both = regard.Ensemble([spec.build().eval(), spec.build().eval()])
    >>> memory = both.encode(torch.tensor([[5, 6, 7]]))
    >>> [best] = regard.beam_search(both, memory, 1, begin=2, end=3, settings=regard.Search(beam=4, max_tokens=9))
    >>> len(best)
    1
    """

    def __init__(self, models: Sequence[Model]) -> None:
        if not models:
            raise SpecError("an ensemble needs at least one model")
        self.models = tuple(models)

    @property
    def alignments(self) -> tuple[str, ...]:
        return self.models[0].alignments

    def names(self) -> tuple[str, ...]:
        """What a probe can see: the first model."""
        return self.models[0].names()

    def parameter_count(self) -> int:
        """Weights of all the models."""
        return sum(model.parameter_count() for model in self.models)

    @property
    def device(self) -> torch.device:
        return self.models[0].device

    @property
    def limit(self) -> int | None:
        """Positions that all of the models have vectors for; None: no table of positions."""
        return min((model.limit for model in self.models if model.limit is not None), default=None)

    def encode(self, tokens: Tensor | Inputs, valid: Tensor | Padding | None = None) -> Memories:
        return Memories(tuple(model.encode(tokens, valid) for model in self.models))

    def start(self, rows: int, memory: Any = None, *, room: int = 0) -> Group:
        """`memory`: what `encode` returned; None for models that need none."""
        parts = memory.parts if isinstance(memory, Memories) else (None,) * len(self.models)
        pairs = zip(self.models, parts, strict=True)
        return Group(parts=tuple(model.start(rows, part, room=room) for model, part in pairs))

    def step(self, tokens: Tensor, state: Group, *, probe: Probe | None = None) -> Tensor:
        """Log-probabilities of the mean; a probe sees the first model."""
        scores = []
        for number, (model, part) in enumerate(zip(self.models, state.parts, strict=True)):
            assert isinstance(part, Progress)
            logits = model.step(tokens, part, probe=None if number else probe)
            scores.append(logits.float().log_softmax(-1))
        if len({score.shape[-1] for score in scores}) > 1:
            sizes = ", ".join(str(score.shape[-1]) for score in scores)
            raise SpecError(f"the models of an ensemble share a vocabulary, and these have {sizes} words")
        return torch.stack(scores).logsumexp(0) - math.log(len(scores))
