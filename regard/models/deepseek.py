"""DeepSeek-V3: latent attention and many small experts, balanced by a bias instead of a loss (DeepSeek-AI 2024).

The published count of 671B is the main model; the extra layers that predict a second token are left out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import torch
from torch import Tensor

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.role import FeedSpec
from regard.core.spec import Count, Depth, Layers, Positive, Size
from regard.core.stack import StackSpec
from regard.mixers.latent import Latent
from regard.models import Family, Settings
from regard.models.layout import Change, Config, Head, Key, Layout, Match, Tree, read_rotary, write_rotary
from regard.parts.embedding import Tokens
from regard.parts.experts import Experts
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm
from regard.parts.position import Rotary, YarnScaling


class DeepSeek(Settings):
    kind: Literal["deepseek"] = "deepseek"
    width: Size = 7168
    depth: Depth = 61
    dense: Layers = 3
    """This many layers come before the experts begin."""
    heads: Size = 128
    rank: Size = 512
    """Keys and values are rebuilt from a latent vector of this size."""
    query_rank: Size | None = 1536
    """Queries are rebuilt from a latent vector of this size; none: they come straight from the input."""
    size: Size = 128
    """The content part of a head has this many channels."""
    rotary: Size = 64
    """The position part of a head has this many channels."""
    value: Size = 128
    """A head's value has this many channels."""
    hidden: Size = 18432
    """A dense layer has this many hidden units."""
    expert_hidden: Size = 2048
    """An expert has this many hidden units."""
    experts: Size = 256
    top: Size = 8
    shared: Count = 1
    """Every token passes through this many experts."""
    groups: Size = 8
    """The experts are divided into this many groups."""
    top_groups: Size = 4
    """A token's experts come from this many groups."""
    scale: Positive = 2.5
    """The experts' answers are multiplied by this."""
    normalise: bool = True
    """The chosen experts' weights sum to 1 before they are scaled."""
    eps: Positive = 1e-6
    """The blocks' norms add this to the variance; the latents' own add 1e-6."""
    vocabulary: Size = 129280
    base: Positive = 10000.0
    scaling: YarnScaling | None = YarnScaling(factor=40.0, context=4096, mscale=1.0, mscale_all=1.0)


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

ROWS = """
model.embed_tokens                                    -> decoder.embedding.tokens
model.layers.{i}.input_layernorm                      -> decoder.blocks.{i}.mix.norm
model.layers.{i}.self_attn.q_a_proj                   -> decoder.blocks.{i}.mix.inner.query_latent
model.layers.{i}.self_attn.q_a_layernorm              -> decoder.blocks.{i}.mix.inner.query_norm
model.layers.{i}.self_attn.kv_a_proj_with_mqa     -key-> decoder.blocks.{i}.mix.inner.latent | turn
model.layers.{i}.self_attn.kv_a_layernorm             -> decoder.blocks.{i}.mix.inner.latent_norm
model.layers.{i}.self_attn.kv_b_proj                  -> decoder.blocks.{i}.mix.inner.expand
model.layers.{i}.self_attn.o_proj                     -> decoder.blocks.{i}.mix.inner.output
model.layers.{i}.post_attention_layernorm             -> decoder.blocks.{i}.ffn.norm
model.layers.{i}.mlp.gate_proj                        -> decoder.blocks.{i}.ffn.inner.gate
model.layers.{i}.mlp.up_proj                          -> decoder.blocks.{i}.ffn.inner.up
model.layers.{i}.mlp.down_proj                        -> decoder.blocks.{i}.ffn.inner.down
model.layers.{i}.mlp.gate                             -> decoder.blocks.{i}.ffn.inner.router
model.layers.{i}.mlp.gate.e_score_correction_bias     -> decoder.blocks.{i}.ffn.inner.bias
model.layers.{i}.mlp.experts.{e}.gate_proj.weight     -> decoder.blocks.{i}.ffn.inner.gate
model.layers.{i}.mlp.experts.{e}.up_proj.weight       -> decoder.blocks.{i}.ffn.inner.up
model.layers.{i}.mlp.experts.{e}.down_proj.weight     -> decoder.blocks.{i}.ffn.inner.down
model.layers.{i}.mlp.shared_experts.gate_proj         -> decoder.blocks.{i}.ffn.inner.shared.gate
model.layers.{i}.mlp.shared_experts.up_proj           -> decoder.blocks.{i}.ffn.inner.shared.up
model.layers.{i}.mlp.shared_experts.down_proj         -> decoder.blocks.{i}.ffn.inner.shared.down
model.norm                                            -> decoder.norm
lm_head                                               -> head.words
"""


def queries(s: DeepSeek) -> str:
    """Queries come from a latent of their own, or straight from the input."""
    theirs = "q_b_proj" if s.query_rank else "q_proj"
    return f"model.layers.{{i}}.self_attn.{theirs} -queries-> decoder.blocks.{{i}}.mix.inner.query"


def halves(x: Tensor, plan: Match, back: bool) -> Tensor:
    """Bring rotary pairs (0, 1), (2, 3), … into two halves, or back; `x`: (…, rotary, inputs)."""
    if not plan.config.get("rope_interleave", True):
        return x
    return x.unflatten(-2, (2, -1) if back else (-1, 2)).transpose(-2, -3).flatten(-3, -2)


def turn(x: Tensor, plan: Match, back: bool, heads: int) -> Tensor:
    """The same for the last rows of each head."""
    rows, rotary = x.unflatten(0, (heads, -1)), plan.settings.rotary
    return torch.cat((rows[:, :-rotary], halves(rows[:, -rotary:], plan, back)), 1).flatten(0, 1)


CHANGES = {
    "key": Change(lambda x, plan: turn(x, plan, False, 1), lambda x, plan: turn(x, plan, True, 1)),
    "queries": Change(
        lambda x, plan: turn(x, plan, False, plan.settings.heads),
        lambda x, plan: turn(x, plan, True, plan.settings.heads),
    ),
}


def read(config: Config, names: Collection[str]) -> Tree:
    return read_rotary(config, 10000.0)


def write(s: DeepSeek) -> Tree:
    sizes = {"num_key_value_heads": s.heads, "qk_head_dim": s.size + s.rotary, "head_dim": s.rotary}
    return sizes | {"num_mtp_layers": 0, "num_nextn_predict_layers": 0} | write_rotary(s.base, s.scaling, 4096)


layout = Layout(
    ROWS,
    {
        "width": Key("hidden_size"),
        "depth": Key("num_hidden_layers"),
        "dense": Key("first_k_dense_replace", 3),
        "heads": Key("num_attention_heads"),
        "rank": Key("kv_lora_rank", 512),
        "query_rank": Key("q_lora_rank", 1536),
        "size": Key("qk_nope_head_dim", 128),
        "rotary": Key("qk_rope_head_dim", 64),
        "value": Key("v_head_dim", 128),
        "hidden": Key("intermediate_size"),
        "expert_hidden": Key("moe_intermediate_size"),
        "experts": Key("n_routed_experts", 256),
        "top": Key("num_experts_per_tok", 8),
        "shared": Key("n_shared_experts", 1),
        "groups": Key("n_group", 8),
        "top_groups": Key("topk_group", 4),
        "scale": Key("routed_scaling_factor", 2.5),
        "normalise": Key("norm_topk_prob", True),
        "eps": Key("rms_norm_eps", 1e-6),
        "vocabulary": Key("vocab_size"),
    },
    {"DeepseekV3ForCausalLM": Head()},
    prefix="model.",
    fixed={"attention_bias": False, "hidden_act": "silu", "tie_word_embeddings": False},
    read=read,
    write=write,
    changes=CHANGES,
    more=queries,
)
family = Family(DeepSeek, compose, {"deepseek-tiny": TINY, "deepseek-v3": {}}, {"deepseek_v3": layout})
