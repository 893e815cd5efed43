"""Language models without attention, or with little of it: Mamba (Gu & Dao 2023), hybrids, and S4D (Gu et al. 2022).

`hybrid` puts attention into every n-th block (Lieber et al. 2024, Jamba).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from regard.core.block import BlockSpec
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.errors import CheckpointError
from regard.mixers.attention import Attention
from regard.mixers.mamba import Mamba
from regard.models import Family, Settings, head_count
from regard.models.layout import Config, Head, Key, Layout, Tree
from regard.parts.embedding import Tokens
from regard.parts.head import Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import RMSNorm


class StateSpace(Settings):
    kind: Literal["mamba"] = "mamba"
    width: Size = 768
    depth: Depth = 24
    vocabulary: Size = 50280
    every: Size | None = None
    """One block in this many is attention; none: no block is."""
    heads: Size | None = None
    """Attention, where there is any, has this many heads; unless given, one for each 64 channels."""
    eps: Positive = 1e-5
    tied: bool = True
    dropout: Rate = 0.0


def compose(s: StateSpace) -> ModelSpec:
    norm = RMSNorm(eps=s.eps)

    def block(mix: MixerSpec) -> BlockSpec:
        return BlockSpec(mix=mix, norm=norm, dropout=s.dropout)

    blocks: tuple[BlockSpec, ...] = (block(Mamba()),)
    if s.every is not None:
        attention = Attention(heads=head_count(s.width, s.heads, 64), causal=True, bias=False)
        blocks = (*blocks * (s.every - 1), block(attention))
    return ModelSpec(
        decoder=StackSpec(
            width=s.width,
            depth=s.depth,
            embedding=Tokens(vocabulary=s.vocabulary, dropout=s.dropout),
            blocks=blocks,
            norm=norm,
        ),
        head=Vocabulary(tied=s.tied, size=s.vocabulary),
        init=Normal(residual=True),
    )


ROWS = """
backbone.embeddings                  -> decoder.embedding.tokens
backbone.layers.{i}.norm             -> decoder.blocks.{i}.mix.norm
backbone.layers.{i}.mixer.in_proj    -> decoder.blocks.{i}.mix.inner.input
backbone.layers.{i}.mixer.conv1d     -> decoder.blocks.{i}.mix.inner.convolution
backbone.layers.{i}.mixer.x_proj     -> decoder.blocks.{i}.mix.inner.select
backbone.layers.{i}.mixer.dt_proj    -> decoder.blocks.{i}.mix.inner.delta
backbone.layers.{i}.mixer.A_log      -> decoder.blocks.{i}.mix.inner.decay
backbone.layers.{i}.mixer.D          -> decoder.blocks.{i}.mix.inner.skip
backbone.layers.{i}.mixer.out_proj   -> decoder.blocks.{i}.mix.inner.output
backbone.norm_f                      -> decoder.norm
"""


def read(config: Config, names: Collection[str]) -> Tree:
    rank = config.get("time_step_rank", "auto")
    return {
        "mix": {
            "kind": "mamba",
            "states": config.get("state_size", 16),
            "expand": config.get("expand", 2),
            "convolution": config.get("conv_kernel", 4),
            "rank": None if rank == "auto" else rank,
            "bias": config.get("use_bias", False),
        }
    }


def write(s: StateSpace) -> Tree:
    said: dict[str, Any] = {"kind": s.mix} if isinstance(s.mix, str) else dict(s.mix or {})
    if said.setdefault("kind", "mamba") != "mamba":
        raise CheckpointError(f"mix: {said['kind']} isn't what this layout holds")
    mix = Mamba.parse(said)
    return {
        "state_size": mix.states,
        "expand": mix.expand,
        "conv_kernel": mix.convolution,
        "time_step_rank": mix.rank or "auto",
        "use_bias": mix.bias,
        "intermediate_size": mix.expand * s.width,
    }


layout = Layout(
    ROWS,
    {
        "width": Key("hidden_size"),
        "depth": Key("num_hidden_layers"),
        "vocabulary": Key("vocab_size"),
        "eps": Key("layer_norm_epsilon", 1e-5),
        "tied": Key("tie_word_embeddings", True),
    },
    {"MambaForCausalLM": Head()},
    spare="lm_head -> head.words",
    copies={"lm_head.weight": "backbone.embeddings.weight"},
    prefix="backbone.",
    fixed={"use_conv_bias": True, "hidden_act": "silu"},
    read=read,
    write=write,
)
family = Family(
    StateSpace,
    compose,
    {
        "mamba-130m": {},
        "mamba-2.8b": {"width": 2560, "depth": 64},
        "hybrid": {"width": 256, "depth": 8, "every": 4, "vocabulary": 8000, "ffn": "feedforward"},
        "ssm": {"width": 256, "depth": 6, "mix": "ssm", "vocabulary": 8000},
    },
    {"mamba": layout},
)
