"""A mixer of one's own: what it must say before a decoder takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from torch import Tensor

from regard.core.block import BlockSpec
from regard.core.mixer import Mixer, MixerSpec
from regard.core.model import ModelSpec
from regard.core.stack import StackSpec
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier


class Summing(Mixer):
    """The sum of all positions so far, without a state."""

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        return x.cumsum(1)


class Absent(Summing):
    def start(self, rows: int, view: View) -> State | None:
        return None


class Doubling(Mixer):
    alone = True

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        return 2 * x


@dataclass
class Total(State):
    total: Tensor


class Remembering(Mixer):
    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        found = x.cumsum(1)
        if isinstance(state, Total):
            found = found + state.total[:, None]
            state.total = found[:, -1]
            state.advance(view.mask)
        return found

    def start(self, rows: int, view: View) -> State:
        return Total(torch.zeros(rows, 8))


MIXERS: dict[str, type[Mixer]] = {
    "summing": Summing,
    "absent": Absent,
    "doubling": Doubling,
    "remembering": Remembering,
}


@pytest.fixture
def own() -> Iterator[type[MixerSpec]]:
    """A kind that is known only here."""

    class Own(MixerSpec):
        kind: Literal["own-mixer"] = "own-mixer"
        which: str

        def build(self, width: int) -> Mixer:
            return MIXERS[self.which]()

    yield Own
    del MixerSpec.kinds["own-mixer"]


def spec_of(mixer: MixerSpec, side: str = "decoder") -> ModelSpec:
    stack = StackSpec(width=8, depth=1, embedding=Tokens(vocabulary=9), blocks=(BlockSpec(mix=mixer),))
    return ModelSpec.parse({side: stack, "head": Vocabulary(), "init": Xavier()})


def test_a_causal_mixer_without_a_state_is_refused_when_it_is_built(own: type[MixerSpec]) -> None:
    spec = spec_of(own.parse({"which": "summing"}))
    with pytest.raises(SpecError, match=r"decoder\.blocks\.0\.mix: Summing starts without a state") as refused:
        spec.build("meta")
    assert "`start`" in refused.value.hint and "alone = True" in refused.value.hint


def test_a_causal_mixer_whose_start_gives_nothing_is_refused_before_a_step(own: type[MixerSpec]) -> None:
    model = spec_of(own.parse({"which": "absent"})).build()
    with pytest.raises(SpecError, match=r"decoder\.blocks\.0\.mix: Absent starts without a state"):
        model.start(2)


@pytest.mark.parametrize("which", ["doubling", "remembering"])
@torch.no_grad()
def test_a_mixer_that_remembers_or_never_mixes_steps_as_it_runs(which: str, own: type[MixerSpec]) -> None:
    torch.manual_seed(0)
    model = spec_of(own.parse({"which": which})).build().eval()
    tokens = torch.randint(9, (2, 5))
    state = model.start(2)
    steps = [model.step(column, state) for column in tokens.T]
    torch.testing.assert_close(torch.stack(steps, 1), model(tokens))


def test_an_encoder_never_steps_so_its_mixers_need_no_state(own: type[MixerSpec]) -> None:
    spec_of(own.parse({"which": "summing"}), "encoder").build("meta")
