"""DeepSeek-V3: latent attention and many small experts, balanced by a bias instead of a loss (DeepSeek-AI 2024).

The published count of 671B is the main model; the extra layers that predict a second token are left out.
"""

from __future__ import annotations

from typing import Literal

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.spec import Count, Depth, FeedSpec, Layers, Positive, Size
from regard.core.stack import StackSpec
from regard.mixers.latent import Latent
from regard.models import Family, Settings
from regard.parts.embedding import Tokens
from regard.parts.experts import Experts
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.position import Rotary, Yarn


class DeepSeek(Settings):
    kind: Literal["deepseek"] = "deepseek"
    width: Size = 7168
    depth: Depth = 61
    dense: Layers = 3  # layers before the experts begin
    heads: Size = 128
    rank: Size = 512
    query_rank: Size | None = 1536
    size: Size = 128
    rotary: Size = 64
    value: Size = 128
    hidden: Size = 18432  # of a dense layer
    expert_hidden: Size = 2048
    experts: Size = 256
    top: Size = 8
    shared: Count = 1
    groups: Size = 8
    top_groups: Size = 4
    scale: Positive = 2.5
    normalise: bool = True  # the chosen experts' weights sum to 1 before they are scaled
    eps: Positive = 1e-6  # of the blocks' norms; the latents' own stay at 1e-6
    vocabulary: Size = 129280
    base: Positive = 10000.0
    scaling: Yarn | None = Yarn(factor=40.0, context=4096, mscale=1.0, mscale_all=1.0)


def compose(s: DeepSeek) -> ModelSpec:
    norm = RMSNorm(eps=s.eps)
    sharper = s.scaling.temper(s.scaling.mscale_all) ** 2 if s.scaling and s.scaling.mscale_all else 1.0
    mix = Latent(
        heads=s.heads,
        rank=s.rank,
        query_rank=s.query_rank,
        size=s.size,
        rotary=s.rotary,
        value=s.value,
        position=Rotary(base=s.base, scaling=s.scaling),
        scale=(s.size + s.rotary) ** -0.5 * sharper,
    )
    experts = Experts(
        hidden=s.expert_hidden,
        experts=s.experts,
        top=s.top,
        shared=s.shared,
        score="sigmoid",
        balance="bias",
        groups=s.groups,
        top_groups=s.top_groups,
        scale=s.scale,
        normalise=s.normalise,
    )

    def block(ffn: FeedSpec) -> BlockSpec:
        return BlockSpec(mix=mix, ffn=ffn, norm=norm)

    plain = block(FeedForward(hidden=s.hidden, activation="silu", gated=True, bias=False))
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth,
            embedding=Tokens(vocabulary=s.vocabulary),
            blocks=(block(experts),),
            first=(plain,) * s.dense,
            norm=norm,
        ),
        head=Vocabulary(tied=False, size=s.vocabulary),
        init=Normal(std=0.006),
    )


TINY = {
    "width": 128,
    "depth": 4,
    "dense": 1,
    "heads": 4,
    "rank": 32,
    "query_rank": 64,
    "size": 32,
    "rotary": 16,
    "value": 32,
    "hidden": 344,
    "expert_hidden": 64,
    "experts": 16,
    "top": 4,
    "groups": 4,
    "top_groups": 2,
    "vocabulary": 8000,
    "scaling": None,
}

family = Family(DeepSeek, compose, {"deepseek-tiny": TINY, "deepseek-v3": {}}, hf=("deepseek_v3",))
