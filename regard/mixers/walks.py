"""Neighbourhoods as sequences: each node reads what random walks from it meet, from afar to itself.

The tokens of Graph Mamba (Behrouz & Hashemi 2024): for each length, long walks first, what walks of that length end at;
then a mixer reads these few tokens, and what it says at the last, the node itself, is the node's. The paper draws
walks; here a token is what they give on average, Pᵏ x with P = D⁻¹A, so that nothing is left to chance.

Cost: time O(steps · (n + edges)), and what the mixer inside takes for steps + 1 positions; no state.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor

from regard.core.mixer import Mixer, MixerSpec
from regard.core.spec import Size
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError
from regard.mixers.beside import Composite
from regard.mixers.mamba import Mamba
from regard.mixers.neighbours import count_neighbours
from regard.parts.message import pass_messages


class Walks(MixerSpec):
    """How far walks go, and who reads what they meet."""

    kind: Literal["walks"] = "walks"
    steps: Size = 4
    """The longest walks have this many steps."""
    mixer: MixerSpec = Mamba()
    """This mixer reads the tokens of a node, the furthest first."""

    def forward_only(self) -> Self:
        raise SpecError("mix: walks go to all nodes, and a decoder must not see later positions", "mix=mamba")

    def keep_apart(self) -> Self:
        return self.forward_only()

    def build(self, width: int) -> Mixer:
        inner = self.mixer.forward_only().build(width)  # the node itself comes last, and has heard of all others
        if inner.recalls:
            raise SpecError(f"mixer: {self.mixer.kind} looks at a memory, and walks leave none", "mixer=mamba")
        return WalkReader(self, inner)


class WalkReader(Composite):
    names = ("tokens",)  # (rows, time, steps + 1, width): what walks meet, the furthest first
    causal = False
    connects = True
    reaches = False
    ordered = False
    packs = True  # an edge knows its places, whichever document they are in

    def __init__(self, spec: Walks, inner: Mixer) -> None:
        super().__init__([inner])
        self.steps_ahead = spec.steps
        inner.names = ()  # its positions are steps of walks, and not those of the model

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        now = x.flatten(0, 1)  # (nodes, width); places count through all rows
        share = 1 / count_neighbours(view, now[:, 0]).clamp(min=1)
        tokens = [now]
        for _ in range(self.steps_ahead):
            now = pass_messages(now, view, kinds=False) * share[:, None]
            tokens.insert(0, now)
        stacked = torch.stack(tokens, 1)  # (nodes, steps + 1, width)
        see = view.watcher(self.path, *self.names)
        if see:
            stacked = see("tokens", stacked.unflatten(0, x.shape[:2])).flatten(0, 1)
        inside = View.of(stacked)
        inside.dtype = view.dtype
        found: Tensor = self.members[0](stacked, inside)
        return found[:, -1].view_as(x)
