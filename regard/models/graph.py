"""Models that read graphs. All have one make: nodes as vectors, blocks that mix them, and a head that gathers them.

`gcn` (Kipf & Welling 2017) and `gin` (Xu et al. 2019) pass messages along edges. `graph-gps` (Rampášek et al. 2022) has
attention over all nodes beside gated messages. `graph-mamba` (Wang et al. 2024) has Mamba in attention's place, over
nodes sorted by degree with chance among equals, the important last; answers are averaged over several such orders.
`graph-mamba-walks` (Behrouz & Hashemi 2024) first reads each node's neighbourhood as a sequence, and then all nodes in
both directions. Norms stand before each sublayer, and what is computed is added to a stream, where the papers norm over
a batch. `deep-sets` (Zaheer et al. 2017) never sees an edge: the control that says what edges are worth.
"""

from __future__ import annotations

from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.role import NodeOrder
from regard.core.spec import Count, Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.mixers.backward import Backward
from regard.mixers.beside import Beside
from regard.mixers.mamba import Mamba
from regard.mixers.neighbours import Neighbours
from regard.mixers.walks import Walks
from regard.models import Family, Settings
from regard.parts.feedforward import FeedForward
from regard.parts.graph import Nodes
from regard.parts.head import Classes, Pool
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm


class GraphModel(Settings):
    kind: Literal["graph"] = "graph"
    width: Size = 64
    depth: Depth = 5
    messages: Literal["none", "gcn", "gin", "gated"] = "gin"
    """Neighbours are heard in this way; none: no edge is seen."""
    beside: Literal["none", "attention", "mamba", "both"] = "none"
    """All nodes are mixed by this beside the messages: attention, Mamba in the order of the nodes, or both of its ways.
    """
    heads: Size = 4
    steps: Count = 0
    """The first block reads each node's neighbourhood as a sequence, walks of this many steps first; at 0 there is no
    such block."""
    hidden: Size | None = None
    """The feed-forward, or gin's own network, has this many hidden units; unless given, twice the width."""
    feed: bool = False
    """A feed-forward follows in each block; gin has a network of its own."""
    residual: bool = False
    """What a block computes is added to what entered it; with a feed-forward it always is."""
    categories: tuple[Size, ...] = (256,)
    """A node has a category of each sort, and there are this many of each; in a run, the data says how many."""
    edge_vectors: bool = True
    """Messages hear of what kind their edge is, where edges are of several."""
    laplacian: Count = 0
    """Nodes know their places by this many eigenvectors of the graph's Laplacian."""
    walks: Count = 0
    """Nodes know how likely a random walk is to be back after each of this many steps."""
    order: NodeOrder = "given"
    """Nodes come in this order, for mixers that see one."""
    pool: Pool = "mean"
    """A graph's vector is the sum, the mean or the maximum of its nodes', or a learned mean (sequence)."""
    layered: bool = True
    """What is gathered is a learned mix of all layers, instead of the last layer."""
    classes: Size = 2
    """There are this many classes; in a run, the data says how many."""
    activation: Activation = "relu"
    dropout: Rate = 0.0


def compose(s: GraphModel) -> ModelSpec:
    norm = LayerNorm()
    feed = FeedForward(hidden=s.hidden or 2 * s.width, activation=s.activation)
    block = BlockSpec(
        mix=choose_mixer(s),
        ffn=feed if s.feed else None,
        norm=norm if s.feed else None,
        residual=s.feed or s.residual,
        dropout=s.dropout,
    )
    first = (BlockSpec(mix=Walks(steps=s.steps), norm=norm, dropout=s.dropout),) if s.steps else ()
    embedding = Nodes(
        categories=s.categories, edge_vectors=s.edge_vectors, laplacian=s.laplacian, walks=s.walks, order=s.order
    )
    stack = StackSpec(
        width=s.width,
        depth=s.depth,
        embedding=embedding,
        blocks=(block,),
        first=first,
        norm=norm if s.feed else None,
        blend=s.layered,
    )
    head = Classes(classes=s.classes, pool=s.pool, dense=True, activation=s.activation)
    return ModelSpec(encoder=stack, head=head, init=Xavier())


def choose_mixer(s: GraphModel) -> MixerSpec | None:
    """Messages alone, or what mixes all nodes beside them."""
    local: tuple[MixerSpec, ...] = ()
    if s.messages != "none":
        local = (Neighbours(way=s.messages, hidden=s.hidden or 2 * s.width, activation=s.activation),)
    everywhere: dict[str, tuple[MixerSpec, ...]] = {
        "none": (),
        "attention": (Attention(heads=s.heads),),
        "mamba": (Mamba(),),
        "both": (Mamba(), Backward(mixer=Mamba())),
    }
    mixers = (*local, *everywhere[s.beside])
    return Beside(mixers=mixers) if len(mixers) > 1 else next(iter(mixers), None)


family = Family(
    GraphModel,
    compose,
    {
        "gin": {"pool": "sum"},
        "deep-sets": {"messages": "none", "feed": True, "depth": 2, "pool": "sum"},
        "gcn": {"messages": "gcn", "width": 128},
        "graph-gps": {"messages": "gated", "beside": "attention", "feed": True, "walks": 16},
        "graph-mamba": {
            "messages": "gated",
            "beside": "mamba",
            "feed": True,
            "walks": 16,
            "order": "degree",
        },
        "graph-mamba-walks": {
            "messages": "gated",
            "beside": "both",
            "steps": 4,
            "feed": True,
            "order": "degree",
        },
    },
)
