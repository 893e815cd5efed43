"""Marian: the paper's Transformer as OPUS-MT trains it, with a bias on the words (Junczys-Dowmunt et al. 2018)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from regard.core.model import ModelSpec
from regard.core.spec import AbsoluteSpec, Size
from regard.errors import CheckpointError
from regard.layout import Change, Head, Key, Layout, Plan, Tree, activation
from regard.models import Family, head_count
from regard.models.transformer import Transformer
from regard.models.transformer import compose as composed
from regard.parts.feedforward import Activation
from regard.parts.head import Vocabulary
from regard.parts.position import Sinusoidal


class Marian(Transformer):
    kind: Literal["marian"] = "marian"  # type: ignore[assignment]
    depth: Size = 6
    vocabulary: Size = 65001
    activation: Activation = "silu"
    position: AbsoluteSpec | None = Sinusoidal(halves=True)


def compose(s: Marian) -> ModelSpec:
    return composed(s).replace(head=Vocabulary(tied=s.tied, size=s.vocabulary, bias=True))


def rows(stack: str, sublayers: dict[str, str]) -> str:
    """The rows of one stack."""
    lines = [f"model.{stack}.embed_positions -> nothing", f"model.{stack}.embed_tokens -> nothing"]
    there, here = f"model.{stack}.layers.{{i}}", f"{stack}.blocks.{{i}}"
    for ours, theirs in sublayers.items():
        parts = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "out_proj": "output"}
        lines += [f"{there}.{theirs}.{name} -> {here}.{ours}.inner.{part}" for name, part in parts.items()]
        lines.append(f"{there}.{theirs}_layer_norm -> {here}.{ours}.norm")
    feed = {"fc1": "ffn.inner.up", "fc2": "ffn.inner.down", "final_layer_norm": "ffn.norm"}
    return "\n".join([*lines, *(f"{there}.{name} -> {here}.{part}" for name, part in feed.items())]) + "\n"


WORDS = """
model.shared        -> decoder.embedding.tokens
final_logits_bias -row-> head.bias
"""


def flat(x: Tensor, plan: Plan) -> Tensor:
    return x[0]


def row(x: Tensor, plan: Plan) -> Tensor:
    return x[None]


def write(s: Marian) -> Tree:
    if s.place != "post" or s.mix or s.cross or s.source_vocabulary:
        raise CheckpointError("this layout holds post-norm attention with one vocabulary")
    heads, hidden = head_count(s.width, s.heads, 64), s.hidden or 4 * s.width
    return {
        **{f"{stack}_attention_heads": heads for stack in ("encoder", "decoder")},
        **{f"{stack}_ffn_dim": hidden for stack in ("encoder", "decoder")},
        "decoder_layers": s.decoder_depth or s.depth,
        "decoder_vocab_size": s.vocabulary,
        "is_encoder_decoder": True,
        "pad_token_id": 0,
    }


layout = Layout(
    WORDS + rows("encoder", {"mix": "self_attn"}) + rows("decoder", {"mix": "self_attn", "cross": "encoder_attn"}),
    {
        "width": Key("d_model"),
        "depth": Key("encoder_layers"),
        "decoder_depth": Key("decoder_layers"),
        "heads": Key("encoder_attention_heads"),
        "hidden": Key("encoder_ffn_dim"),
        "vocabulary": Key("vocab_size"),
        "activation": activation("activation_function", "gelu"),
        "dropout": Key("dropout", 0.1),
        "attention_dropout": Key("attention_dropout", 0.0),
    },
    {"MarianMTModel": Head()},
    spare="lm_head -> nothing",
    fixed={
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
    },
    write=write,
    changes={"row": Change(flat, row)},
)
family = Family(Marian, compose, {"marian-base": {}}, {"marian": layout})
