"""Backwards: a mixer that reads from the last position to the first. Beside one that reads forwards, it makes both
directions of whatever has only one: `{kind: beside, mixers: [mamba, {kind: backward, mixer: mamba}]}`.

Cost: as the mixer's inside; no state, since the last position comes first.
"""

from __future__ import annotations

from typing import Literal, Self

from torch import Tensor

from regard.core.grid import Grid
from regard.core.mixer import Mixer, MixerSpec
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.beside import Composite
from regard.mixers.mamba import Mamba


class Backward(MixerSpec):
    """Who reads backwards."""

    kind: Literal["backward"] = "backward"
    mixer: MixerSpec = Mamba()
    """This mixer reads, the last position first."""

    def lie_on(self, grid: Grid | None) -> Self:
        if self.mixer.needs_grid:
            raise SpecError(f"mix: {self.mixer.kind} reads a picture's places, which can't be turned", "mix=mamba")
        return self

    def forward_only(self) -> Self:
        raise SpecError("mix: backward sees later positions, and a decoder must not", f"mix={self.mixer.kind}")

    def build(self, width: int) -> Mixer:
        inner = self.mixer.forward_only().build(width)  # who read both ways would gain nothing by being turned
        if inner.recalls:
            raise SpecError(f"mixer: {self.mixer.kind} looks at a memory, which has no direction here", "mixer=mamba")
        return Turned(inner)


class Turned(Composite):
    names = ("turned",)  # what comes out, in the order of the positions
    causal = False

    def __init__(self, inner: Mixer) -> None:
        super().__init__([inner])
        inner.names = ()  # what is inside stands the other way round, and would be misread

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        valid = view.mask.valid
        inside = View.of(x.flip(1), None if valid is None else valid.flip(1))
        inside.dtype, inside.bias = view.dtype, view.bias
        found: Tensor = self.members[0](x.flip(1), inside)
        return view.see(self.path, "turned", found.flip(1))
