"""What attention passes on through all layers: rollout and flow (Abnar & Zuidema 2020).

Both take a stack's attention for a network from its last layer down to its tokens, each layer's weights averaged over
the heads, half of each position's capacity being its residual connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from regard.errors import InputError
from regard.lens.finding import Finding
from regard.lens.look import Look

NOTHING = 1e-12  # what is left of a capacity that is used up, but for rounding


@dataclass(frozen=True)
class Rollout(Finding):
    """How much of each token is in each position, layer by layer."""

    tokens: list[str]
    shares: Tensor  # (layers, positions, tokens); rows sum to 1


@dataclass(frozen=True)
class Flow(Finding):
    """The most that can flow from positions after the last layer down to each token."""

    tokens: list[str]
    positions: list[int]
    capacities: Tensor  # (positions, tokens); between 0 and 1

    @property
    def shares(self) -> Tensor:
        """The same with rows that sum to 1, as the authors draw it."""
        return self.capacities / self.capacities.sum(-1, keepdim=True)


def attention_rollout(look: Look, stack: Literal["encoder", "decoder"] | None = None) -> Rollout:
    """Multiply the layers' attention: how positions mix by the weights alone (Abnar & Zuidema 2020).

    It tells how much of each token could be in a vector if attention only moved vectors. What values and feed-forward
    layers make of them, it can't tell, nor what a head does with what it gets; a decoder's looks at its memory are left
    out. `stack`: the one that answers, unless the other is asked for.
    """
    tokens, layers = mix_layers(look, stack)
    return Rollout(tokens, roll_out(layers))


def attention_flow(
    look: Look, positions: Sequence[int] | None = None, stack: Literal["encoder", "decoder"] | None = None
) -> Flow:
    """Take attention weights for pipes: the maximum flow from each position to each token (Abnar & Zuidema 2020).

    Unlike rollout it doesn't thin out with depth, since many narrow ways add up to a wide one. It too knows the weights
    alone: what the model could have used, not what it used. Flows to two tokens share their pipes, so a row is no
    division of anything. It is exact, and slower than rollout: a position of 20 tokens and 6 layers takes a twentieth
    of a second, one of 32 tokens and 12 layers half of one; so ask for the `positions` that matter. Without them, all.
    """
    tokens, layers = mix_layers(look, stack)
    chosen = range(len(tokens)) if positions is None else positions
    strange = [place for place in chosen if not 0 <= place < len(tokens)]
    if strange:
        raise InputError(f"there are {len(tokens)} positions, counted from 0, and {strange[0]} is asked for")
    pipes = Pipes(layers.tolist())
    flows = [[pipes.max_flow(place, token) for token in range(len(tokens))] for place in chosen]
    return Flow(tokens, list(chosen), torch.tensor(flows))


def roll_out(layers: Tensor) -> Tensor:
    """The product of all layers up to each: (layers, queries, keys) to the same."""
    rolled = [layers[0]]
    for layer in layers[1:]:
        rolled.append(layer @ rolled[-1])
    return torch.stack(rolled)


def add_residual(weights: Tensor, residual: Sequence[bool]) -> Tensor:
    """Half of what a position has comes from itself, where the input is added back: rows still sum to 1."""
    same = torch.eye(weights.shape[-1], dtype=weights.dtype, device=weights.device)
    halves = torch.tensor(list(residual), device=weights.device)[:, None, None]
    return torch.where(halves, (weights + same) / 2, weights)


def mix_layers(look: Look, stack: Literal["encoder", "decoder"] | None = None) -> tuple[list[str], Tensor]:
    """A stack's tokens, and its attention averaged over heads, with the residual: (layers, positions, positions)."""
    spec = look.model.spec
    name = stack or ("decoder" if spec.decoder is not None else "encoder")
    chosen = spec.decoder if name == "decoder" else spec.encoder
    if chosen is None:
        raise InputError(f"this model has no {name}", "leave the stack out")
    layout = chosen.layout()
    names = [f"{name}.blocks.{number}.mix.weights" for number in range(len(layout))]
    known = set(look.model.names()) - set(look.model.alignments)  # what looks at a memory leads out of the stack
    for each, block in zip(names, layout, strict=True):
        if each not in known:
            kind = (
                "there is no mixer" if block.mix is None else f"{block.mix.kind} has no weights among its own positions"
            )
            raise InputError(f"{each}: {kind}, and one such layer breaks the chain", "a stack whose blocks all attend")
    weights = torch.stack([look.weights(each)[each].mean(0) for each in names])
    place = look.place(names[0])
    return look.label(place.rows), add_residual(weights, [block.residual for block in layout])


class Pipes:
    """A network of pipes, each with a capacity, in which the maximum flow can be found (Dinic 1970).

    `capacities`: (layers, queries, keys), from each position after a layer to each before it; the first layer stands
    over the tokens.
    """

    def __init__(self, capacities: Sequence[Sequence[Sequence[float]]]) -> None:
        self.depth, self.width = len(capacities), len(capacities[0])
        # nodes are counted from the tokens up: node = layer * width + position
        self.ways: list[list[int]] = [[] for _ in range((self.depth + 1) * self.width)]  # pipes that leave each node
        self.heads: list[int] = []  # where each pipe leads; the one that leads back stands beside it: 0 and 1, 2 and 3
        self.capacities: list[float] = []
        for layer, table in enumerate(capacities):
            for query, row in enumerate(table):
                for key, capacity in enumerate(row):
                    if capacity > 0:
                        self._connect((layer + 1) * self.width + query, layer * self.width + key, capacity)

    def _connect(self, one: int, other: int, capacity: float) -> None:
        for node, head, room in ((one, other, capacity), (other, one, 0.0)):
            self.ways[node].append(len(self.heads))
            self.heads.append(head)
            self.capacities.append(room)

    def max_flow(self, position: int, token: int) -> float:
        """The most that flows from a position after the last layer down to a token."""
        start, end = self.depth * self.width + position, token
        room, total = list(self.capacities), 0.0
        while (levels := self._measure(start, end, room)) is not None:
            tried = [0] * len(self.ways)  # pipes of each node that are full or lead nowhere: none is tried twice
            while (way := self._find(start, end, room, levels, tried)) is not None:
                flow = min(room[pipe] for pipe in way)
                total += flow
                for pipe in way:
                    room[pipe] -= flow
                    room[pipe ^ 1] += flow
        return total

    def _measure(self, start: int, end: int, room: list[float]) -> list[int] | None:
        """How many pipes lead to each node on the shortest way; None: none leads to the end any more."""
        levels = [-1] * len(self.ways)
        levels[start] = 0
        front = [start]
        while front and levels[end] < 0:
            reached = []
            for node in front:
                for pipe in self.ways[node]:
                    head = self.heads[pipe]
                    if levels[head] < 0 and room[pipe] > NOTHING:
                        levels[head] = levels[node] + 1
                        reached.append(head)
            front = reached
        return levels if levels[end] >= 0 else None

    def _find(self, start: int, end: int, room: list[float], levels: list[int], tried: list[int]) -> list[int] | None:
        """A way of pipes with room, each a level on; None: there is none."""
        way: list[int] = []
        node = start
        while node != end:
            for pipe in self.ways[node][tried[node] :]:
                head = self.heads[pipe]
                if (
                    room[pipe] > NOTHING
                    and levels[head] == levels[node] + 1
                    and (head == end or levels[head] < levels[end])
                ):
                    way.append(pipe)
                    node = head
                    break
                tried[node] += 1
            else:
                if not way:
                    return None
                node = self.heads[way.pop() ^ 1]
                tried[node] += 1
        return way
