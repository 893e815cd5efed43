"""Models that read graphs. All have one make: nodes as vectors, blocks that mix them, and a head that gathers them.

`gcn` (Kipf & Welling 2017) and `gin` (Xu et al. 2019) pass messages along edges. Both have norms before each sublayer
and a stream, where the papers norm over a batch and go without. A model that never sees an edge is `gin mix=none`.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import NodeOrder
from regard.core.spec import Count, Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.neighbours import Neighbours
from regard.models import Family, Settings
from regard.parts.feedforward import Activation, FeedForward
from regard.parts.graph import Nodes
from regard.parts.head import Classes, Pool
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm


class GraphModel(Settings):
    kind: Literal["graph"] = "graph"
    width: Size = 64
    depth: Depth = 5
    messages: Literal["gcn", "gin", "gated"] = "gin"
    """Neighbours are heard in this way."""
    hidden: Size | None = None
    """The feed-forward, or gin's own network, has this many hidden units; unless given, twice the width."""
    feed: bool = False
    """A feed-forward follows the messages in each block; gin has a network of its own."""
    categories: tuple[Size, ...] = (256,)
    """A node has a category of each sort, and there are this many of each; in a run, the data says how many."""
    laplacian: Count = 0
    """Nodes know their places by this many eigenvectors of the graph's Laplacian."""
    walks: Count = 0
    """Nodes know how likely a random walk is to be back after each of this many steps."""
    order: NodeOrder = "given"
    """Nodes come in this order, for mixers that see one."""
    pool: Pool = "sum"
    """A graph's vector is the sum, the mean or the maximum of its nodes', or a learned mean (sequence)."""
    layered: bool = True
    """What is gathered is a learned mix of all layers, instead of the last layer."""
    classes: Size = 2
    """There are this many classes; in a run, the data says how many."""
    activation: Activation = "relu"
    dropout: Rate = 0.0


def compose(s: GraphModel) -> ModelSpec:
    norm = LayerNorm()
    block = BlockSpec(
        mix=choose_mixer(s),
        ffn=FeedForward(hidden=s.hidden or 2 * s.width, activation=s.activation) if s.feed else None,
        norm=norm,
        dropout=s.dropout,
    )
    embedding = Nodes(categories=s.categories, laplacian=s.laplacian, walks=s.walks, order=s.order)
    stack = StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,), norm=norm, blend=s.layered)
    head = Classes(classes=s.classes, pool=s.pool, dense=True, activation=s.activation)
    return ModelSpec(encoder=stack, head=head, init=Xavier())


def choose_mixer(s: GraphModel) -> MixerSpec:
    return Neighbours(way=s.messages, hidden=s.hidden or 2 * s.width, activation=s.activation)


family = Family(
    GraphModel,
    compose,
    {
        "gin": {},
        "gcn": {"messages": "gcn", "width": 128},
    },
)
