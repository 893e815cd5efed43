"""A decoder alone as a translator: the source is its prompt, and the search begins after the separator."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding
from regard.core.probe import Probe
from regard.core.state import Progress


@dataclass
class Prompt:
    """The sources of a batch, pads last."""

    tokens: Tensor  # (sentences, time)
    valid: Padding


@dataclass
class Prompted:
    """A scorer that reads the source before the first token of the target."""

    model: Model

    @property
    def alignments(self) -> tuple[str, ...]:
        """None: there is no memory to look at."""
        return ()

    def names(self) -> tuple[str, ...]:
        return self.model.names()

    @property
    def device(self) -> torch.device:
        return self.model.device

    @property
    def limit(self) -> int | None:
        """Positions for source and target together; None: no table of positions."""
        return self.model.limit

    def encode(self, tokens: Tensor | Inputs, valid: Tensor | None = None) -> Prompt:
        """The sources without their ends, which are the separator's business."""
        inputs = Inputs.of(tokens, valid=valid)
        known = inputs.valid if isinstance(inputs.valid, Padding) else Padding.read(inputs.real)
        shorter = Padding([length - 1 for length in known.lengths]).to(inputs.tokens.device)
        return Prompt(inputs.tokens[:, : shorter.time], shorter)

    def start(self, rows: int, memory: Prompt | None = None, *, room: int = 0) -> Progress:
        """The state after the sources, once for each of a sentence's rows."""
        assert memory is not None
        sentences = len(memory.tokens)
        state = self.model.start(sentences, room=memory.tokens.shape[1] + room + 1)  # one more, for pads
        self.model.step(memory.tokens, state, valid=memory.valid)
        fan = torch.arange(sentences, device=self.device).repeat_interleave(rows // sentences)
        return state.select(fan)

    def step(self, tokens: Tensor, state: Progress, *, probe: Probe | None = None) -> Tensor:
        return self.model.step(tokens, state, probe=probe)
