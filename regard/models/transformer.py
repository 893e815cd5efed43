"""The Transformer of 2017 (Vaswani et al.), and the same with another mixer in its blocks.

`transformer-tiny` puts its norms first; base and big are the paper's: post-norm, sinusoids, one table for both
vocabularies and the softmax. The paper gives them 65M and 213M parameters; with a vocabulary of 37,000 and every bias
its formula makes 63,082,496 and 214,245,376, which is what these have. `mean-pool` is the same again with every weight
of its attention equal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import torch
from pydantic import field_validator
from torch import Tensor

from regard.core.activation import Activation
from regard.core.block import BlockSpec, Place, Slot
from regard.core.mixer import MixerSpec
from regard.core.model import ModelSpec
from regard.core.spec import Depth, Rate, Size
from regard.core.stack import StackSpec
from regard.errors import CheckpointError
from regard.mixers.attention import Attention
from regard.models import Family, PositionSlot, Settings, head_count
from regard.models.layout import Change, Config, Head, Key, Layout, Match, Tree, activation
from regard.models.slot import Choice
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.initial import Xavier
from regard.parts.norm import LayerNorm
from regard.parts.position import Sinusoidal

OWN: Choice = {"kind": "sinusoidal"}


class Transformer(Settings):
    kind: Literal["transformer"] = "transformer"
    width: Size = 512
    depth: Depth = 6
    """The encoder has this many blocks, and so has the decoder unless it is given."""
    decoder_depth: Depth | None = None
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 37000
    source_vocabulary: Size | None = None
    activation: Activation = "relu"
    place: Place = "post"
    """The norm stands before a sublayer (pre), after its residual sum (post), or before and behind it (sandwich)."""
    bare: tuple[Slot, ...] = ()
    """These sublayers have no norm."""
    position: PositionSlot = OWN
    """Positions are known by this; none: they aren't."""
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.0
    share: bool = True
    tied: bool = True
    bias: bool = False
    """The words' scores have a bias."""

    @field_validator("position", mode="before")
    @classmethod
    def read_none(cls, value: Any) -> Any:
        return "none" if value is None else value  # as runs of earlier versions say it


def compose(s: Transformer) -> ModelSpec:
    attention = Attention(heads=head_count(s.width, s.heads, 64), dropout=s.attention_dropout)
    ffn = FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation)
    norm = LayerNorm()
    position = Sinusoidal.parse(type(s).model_fields["position"].default)  # Marian's are in another order

    def stack(mixer: MixerSpec, over: MixerSpec | None) -> StackSpec:
        words = s.vocabulary if over else s.source_vocabulary or s.vocabulary
        embedding = Tokens(vocabulary=words, scale=True, position=position, dropout=s.dropout)
        block = BlockSpec(mix=mixer, cross=over, ffn=ffn, norm=norm, place=s.place, dropout=s.dropout, bare=s.bare)
        closing = None if s.place == "post" else norm
        depth = s.depth if over is None else s.decoder_depth or s.depth
        return StackSpec(width=s.width, depth=depth, embedding=embedding, blocks=(block,), norm=closing)

    return ModelSpec(
        encoder=stack(attention, None),
        decoder=stack(attention.replace(causal=True), attention.replace(over="memory")),
        head=Vocabulary(tied=s.tied, size=s.vocabulary, bias=s.bias),
        share=s.share and s.source_vocabulary is None,
        init=Xavier(),
    )


TINY = {"width": 128, "depth": 4, "heads": 4, "hidden": 256, "vocabulary": 8000, "place": "pre"}

ATTENTION = {"q_proj": "query", "k_proj": "key", "v_proj": "value"}


def rows(stack: str, sublayers: dict[str, str]) -> str:
    """The rows of one stack, as BART and its kin name it; `-in->` and `-out->` touch the stream's channels."""
    lines = [f"model.{stack}.embed_positions -> nothing", f"model.{stack}.embed_tokens -> nothing"]
    there, here = f"model.{stack}.layers.{{i}}", f"{stack}.blocks.{{i}}"
    for ours, theirs in sublayers.items():
        lines += [f"{there}.{theirs}.{name} -in-> {here}.{ours}.inner.{part}" for name, part in ATTENTION.items()]
        lines.append(f"{there}.{theirs}.out_proj -out-> {here}.{ours}.inner.output")
        lines.append(f"{there}.{theirs}_layer_norm -out-> {here}.{ours}.norm")
    lines.append(f"{there}.fc1 -in-> {here}.ffn.inner.up")
    lines.append(f"{there}.fc2 -out-> {here}.ffn.inner.down")
    lines.append(f"{there}.final_layer_norm -out-> {here}.ffn.norm")
    return "\n".join(lines) + "\n"


ROWS = rows("encoder", {"mix": "self_attn"}) + rows("decoder", {"mix": "self_attn", "cross": "encoder_attn"})
WORDS = """
model.shared         -in-> decoder.embedding.tokens
final_logits_bias   -row-> head.bias
"""
COPIES = ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
NORMS = """
model.encoder.layer_norm -out-> encoder.norm
model.decoder.layer_norm -out-> decoder.norm
"""


def order(plan: Match, back: bool) -> Tensor | None:
    """Their channels are all sines, then all cosines. Where ours take turns, the whole stream is in another order."""
    position = plan.settings.position
    if position == "none" or position.get("kind") != "sinusoidal" or position.get("halves"):
        return None
    pairs = torch.arange(plan.settings.width).view((-1, 2) if back else (2, -1))
    return pairs.T.flatten()


def channels(first: bool, back: bool) -> Callable[[Tensor, Match], Tensor]:
    """Put the stream's channels in order: a tensor's first axis, or its last, which a bias doesn't have."""

    def change(x: Tensor, plan: Match) -> Tensor:
        found = order(plan, back)
        if found is None or (not first and x.dim() == 1):
            return x
        return x.index_select(0 if first else x.dim() - 1, found.to(x.device))

    return change


CHANGES = {
    "in": Change(channels(first=False, back=False), channels(first=False, back=True)),
    "out": Change(channels(first=True, back=False), channels(first=True, back=True)),
    "row": Change(lambda x, _: x[0], lambda x, _: x[None]),
}
KEYS = {
    "width": Key("d_model"),
    "depth": Key("encoder_layers"),
    "decoder_depth": Key("decoder_layers"),
    "heads": Key("encoder_attention_heads"),
    "hidden": Key("encoder_ffn_dim"),
    "vocabulary": Key("vocab_size"),
    "activation": activation("activation_function", "gelu"),
    "dropout": Key("dropout", 0.1),
    "attention_dropout": Key("attention_dropout", 0.0),
}


def layout(name: str, place: Place, more: str, fixed: Mapping[str, object]) -> Layout:
    """The layout of BART's kin whose positions are sinusoids: norms first, or last."""

    def read(config: Config, names: Collection[str]) -> Tree:
        for key in ("attention_heads", "ffn_dim"):
            if config.get(f"encoder_{key}") != config.get(f"decoder_{key}"):
                raise CheckpointError(f"config.json: {key}: encoder and decoder differ, and here they are alike")
        bias = not names or "final_logits_bias" in names
        return {"place": place, "position": Sinusoidal(halves=True), "bias": bias}

    def write(s: Transformer) -> Tree:
        heads, hidden = head_count(s.width, s.heads, 64), s.hidden or 4 * s.width
        return {
            **{f"{stack}_attention_heads": heads for stack in ("encoder", "decoder")},
            **{f"{stack}_ffn_dim": hidden for stack in ("encoder", "decoder")},
            "decoder_layers": s.decoder_depth or s.depth,
            "decoder_vocab_size": s.vocabulary,
            "is_encoder_decoder": True,
            "pad_token_id": 0,
        }

    return Layout(
        WORDS + ROWS + more,
        KEYS,
        {name: Head()},
        spare="lm_head -> nothing",
        copies=dict.fromkeys(COPIES, "model.shared.weight"),
        fixed={"scale_embedding": True, "tie_word_embeddings": True, **fixed},
        read=read,
        write=write,
        changes=CHANGES,
    )


family = Family(
    Transformer,
    compose,
    {
        "transformer-tiny": TINY,
        "transformer-base": {},
        "transformer-big": {"width": 1024, "dropout": 0.3},
        "mean-pool": {**TINY, "mix": "pool", "cross": "pool"},
    },
    {"pegasus": layout("PegasusForConditionalGeneration", "pre", NORMS, {})},
)
