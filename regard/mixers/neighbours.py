"""Message passing: a node hears its neighbours along the edges of a graph, and takes them for a set.

Three ways. `gcn` (Kipf & Welling 2017): a mean of the node and its neighbours, weighted by their degrees, then a layer.
`gin` (Xu et al. 2019): their sum, which tells multisets apart, then a small network. `gated` (Bresson & Laurent 2017):
a gate on every edge and channel says how much of a neighbour is let in. Where edges are of several kinds, a message is
relu(neighbour + edge), as in GINE (Hu et al. 2020), and the gates see the edge; edges have no stream of their own.

Without edges every position is alone. Two positions that change places change answers, and nothing else.

Cost: time O(n + edges); no state, since all neighbours must be there.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
from torch import Tensor, nn

from regard.core.activation import ACTIVATIONS, Activation
from regard.core.dense import Dense
from regard.core.mixer import Mixer, MixerSpec
from regard.core.probe import See
from regard.core.spec import Size
from regard.core.state import State
from regard.core.view import View
from regard.errors import SpecError
from regard.parts.message import pass_messages
from regard.parts.statistics import BatchNorm

EPS = 1e-6  # what the gates of a node without neighbours are divided by


class Neighbours(MixerSpec):
    """How a node puts together what its neighbours say."""

    kind: Literal["neighbours"] = "neighbours"
    way: Literal["gcn", "gin", "gated"] = "gin"
    """A mean weighted by degrees (gcn), a sum and a small network (gin), or a gate on every edge (gated)."""
    hidden: Size | None = None
    """The network of gin has this many hidden units; unless given, the width."""
    activation: Activation = "relu"
    """The activation inside gin's network, and at the end of all three."""
    bias: bool = True
    """The projections have a bias."""
    batch: bool = True
    """What is computed is normed over all nodes of a batch, as in the papers, and the activation follows."""

    def forward_only(self) -> Self:
        raise SpecError(
            "mix: neighbours hears all nodes that it has edges to, and a decoder must not see later positions",
            "mix=attention, or a model that reads graphs: gin",
        )

    def keep_apart(self) -> Self:
        return self.forward_only()

    def build(self, width: int) -> Mixer:
        return {"gcn": GraphConvolution, "gin": Isomorphism, "gated": GatedMessages}[self.way](self, width)


class MessagePassing(Mixer):
    """What the three ways share: along which edges, and what is said there."""

    causal = False
    connects = True
    reaches = False
    ordered = False
    packs = True  # an edge knows its places, whichever document they are in

    def __init__(self, spec: Neighbours, width: int) -> None:
        super().__init__()
        self.spec, self.width = spec, width
        self.activation = ACTIVATIONS[spec.activation]
        self.norm = BatchNorm(width) if spec.batch else None

    def forward(self, x: Tensor, view: View, state: State | None = None) -> Tensor:
        flat = x.flatten(0, 1)  # (rows · time, width); places count through all rows
        see = view.watcher(self.path, *self.names)
        y = self.hear(flat, view, see)
        y = y if self.norm is None else self.norm(y, list_real(view), not view.again)
        return self.activation(y).view_as(x)

    def hear(self, x: Tensor, view: View, see: See | None) -> Tensor:
        """What every node makes of its neighbours: (nodes, width)."""
        raise NotImplementedError


def list_real(view: View) -> Tensor | None:
    """The places that are real, counting through all rows: (real,); None: all are."""
    valid = view.mask.valid
    return None if valid is None else view.once("real places", lambda: valid.flatten().nonzero()[:, 0])


def collect(messages: Tensor, view: View, nodes: int) -> Tensor:
    """The sum of what comes to each node: (nodes, width)."""
    return messages.new_zeros(nodes, messages.shape[-1]).index_add(0, view.links[1], messages)


def count_neighbours(view: View, like: Tensor) -> Tensor:
    """How many edges lead to each node: (nodes,)."""
    ends = view.links[1]
    return view.once("degrees", lambda: like.new_zeros(len(like)).index_add(0, ends, like.new_ones(len(ends))))


class GraphConvolution(MessagePassing):
    """W Σ_j x_j / √(d_i d_j), where i is its own neighbour too, and d counts it."""

    names = ("gathered",)  # the weighted sum, before the layer

    def __init__(self, spec: Neighbours, width: int) -> None:
        super().__init__(spec, width)
        self.output = Dense(width, width, bias=spec.bias)

    def hear(self, x: Tensor, view: View, see: See | None) -> Tensor:
        scale = (count_neighbours(view, x[:, 0]) + 1).rsqrt()
        source, target = view.links
        sums = pass_messages(x, view, scale[source] * scale[target]) + x * (scale * scale)[:, None]
        return self.output(report(sums, "gathered", view, see))


class Isomorphism(MessagePassing):
    """MLP((1 + ε) x_i + Σ_j x_j): as strong as the Weisfeiler-Lehman test, if the network is large enough."""

    names = ("gathered",)

    def __init__(self, spec: Neighbours, width: int) -> None:
        super().__init__(spec, width)
        hidden = spec.hidden or width
        self.epsilon = nn.Parameter(torch.zeros(1))
        self.up = Dense(width, hidden, bias=spec.bias)
        self.inner_norm = BatchNorm(hidden) if spec.batch else None
        self.down = Dense(hidden, width, bias=spec.bias)

    def reset(self) -> None:
        nn.init.zeros_(self.epsilon)

    def hear(self, x: Tensor, view: View, see: See | None) -> Tensor:
        sums = (1 + self.epsilon) * x + pass_messages(x, view)
        hidden = self.up(report(sums, "gathered", view, see))
        hidden = hidden if self.inner_norm is None else self.inner_norm(hidden, list_real(view), not view.again)
        return self.down(self.activation(hidden))


class GatedMessages(MessagePassing):
    """U x_i + Σ_j η_ij ⊙ V x_j, η_ij = σ_ij / (Σ_j σ_ij + ε), σ_ij = sigmoid(A x_i + B x_j + C e_ij)."""

    names = ("gathered",)

    def __init__(self, spec: Neighbours, width: int) -> None:
        super().__init__(spec, width)
        self.own, self.value = Dense(width, width, bias=spec.bias), Dense(width, width, bias=spec.bias)
        self.here, self.there = Dense(width, width, bias=spec.bias), Dense(width, width, bias=False)

    def hear(self, x: Tensor, view: View, see: See | None) -> Tensor:
        source, target = view.links
        gates = self.here(x).index_select(0, target) + self.there(x).index_select(0, source)
        vectors = None if view.edges is None else view.edges.vectors
        gates = torch.sigmoid(gates if vectors is None else gates + vectors)
        values = self.value(x).index_select(0, source)
        sums = collect(gates * values, view, len(x)) / (collect(gates, view, len(x)) + EPS)
        return self.own(x) + report(sums, "gathered", view, see)


def report(sums: Tensor, name: str, view: View, see: See | None) -> Tensor:
    """Show what nodes heard, laid out in rows again: (rows, time, width)."""
    if see is None:
        return sums
    return see(name, sums.unflatten(0, (view.mask.rows, view.mask.time))).flatten(0, 1)
