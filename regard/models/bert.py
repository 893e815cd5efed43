"""BERT: an encoder that reads both ways at once (Devlin et al. 2019), and MiniLM, which was distilled from it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from regard.core.activation import Activation
from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.core.role import HeadSpec
from regard.core.spec import Count, Depth, Positive, Rate, Size
from regard.core.stack import StackSpec
from regard.mixers.attention import Attention
from regard.models import Family, Settings, head_count
from regard.models.layout import Config, Head, Key, Layout, Tree, activation, describe_labels, labels
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Classes, Pooler, Tags, Vocabulary
from regard.parts.initial import Normal
from regard.parts.norm import LayerNorm
from regard.parts.position import Learned


class Bert(Settings):
    kind: Literal["bert"] = "bert"
    width: Size = 768
    depth: Depth = 12
    heads: Size | None = None
    """There are this many heads; unless given, one for each 64 channels."""
    hidden: Size | None = None
    """The feed-forward has this many hidden units; unless given, four times the width."""
    vocabulary: Size = 30522
    context: Size = 512
    segments: Count = 2
    """There are vectors for this many segments, as for two texts."""
    activation: Activation = "gelu"
    eps: Positive = 1e-12
    dropout: Rate = 0.1
    attention_dropout: Rate = 0.1
    head: Literal["pooler", "masking"] | HeadSpec | None = "pooler"
    """The model ends in BERT's pooler, in its head that guesses words (masking), or in any head."""


def compose(s: Bert) -> ModelSpec:
    norm = LayerNorm(eps=s.eps)
    block = BlockSpec(
        mix=Attention(heads=head_count(s.width, s.heads, 64), dropout=s.attention_dropout),
        ffn=FeedForward(hidden=s.hidden or 4 * s.width, activation=s.activation),
        norm=norm,
        place="post",
        dropout=s.dropout,
    )
    embedding = Tokens(
        vocabulary=s.vocabulary,
        position=Learned(context=s.context),
        segments=s.segments,
        norm=norm,
        dropout=s.dropout,
    )
    named: dict[object, HeadSpec] = {"pooler": Pooler(), "masking": words(s)}
    return ModelSpec(
        encoder=StackSpec(width=s.width, depth=s.depth, embedding=embedding, blocks=(block,)),
        head=named[s.head] if isinstance(s.head, str) else s.head,
        init=Normal(),
    )


def words(s: Bert) -> HeadSpec:
    """The scores of hidden words."""
    return Vocabulary(bias=True, transform=s.activation, norm=LayerNorm(eps=s.eps))


ROWS = """
bert.embeddings.word_embeddings                   -> encoder.embedding.tokens
bert.embeddings.position_embeddings               -> encoder.embedding.position.table
bert.embeddings.token_type_embeddings             -> encoder.embedding.segments
bert.embeddings.LayerNorm                         -> encoder.embedding.norm
bert.embeddings.position_ids                      -> nothing
bert.encoder.layer.{i}.attention.self.query       -> encoder.blocks.{i}.mix.inner.query
bert.encoder.layer.{i}.attention.self.key         -> encoder.blocks.{i}.mix.inner.key
bert.encoder.layer.{i}.attention.self.value       -> encoder.blocks.{i}.mix.inner.value
bert.encoder.layer.{i}.attention.output.dense     -> encoder.blocks.{i}.mix.inner.output
bert.encoder.layer.{i}.attention.output.LayerNorm -> encoder.blocks.{i}.mix.norm
bert.encoder.layer.{i}.intermediate.dense         -> encoder.blocks.{i}.ffn.inner.up
bert.encoder.layer.{i}.output.dense               -> encoder.blocks.{i}.ffn.inner.down
bert.encoder.layer.{i}.output.LayerNorm           -> encoder.blocks.{i}.ffn.norm
"""
POOLER = "bert.pooler.dense -> head.dense"
MASKING = """
cls.predictions.transform.dense                   -> head.dense
cls.predictions.transform.LayerNorm               -> head.norm
cls.predictions.bias                              -> head.bias
"""
SPARE = """
cls.predictions.decoder                           -> nothing
cls.seq_relationship                              -> nothing
"""
COPIES = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
CLASSES = """
bert.pooler.dense                                 -> head.pooler.dense
classifier                                        -> head.classes
"""


def classes(config: Config) -> Tree:
    return {"kind": "classes", "classes": labels(config), "dense": True, "dropout": _classifier_dropout(config)}


def tags(config: Config) -> Tree:
    return {"kind": "tags", "tags": labels(config), "dropout": _classifier_dropout(config)}


def _classifier_dropout(config: Config) -> float:
    told = config.get("classifier_dropout")
    return float(config.get("hidden_dropout_prob", 0.1) if told is None else told)


def read(config: Config, names: Collection[str]) -> Tree:
    """A bare encoder may have been saved without its pooler: only the file tells."""
    bare = (config.get("architectures") or ["BertModel"])[0] == "BertModel"
    lacks = names and not any("pooler." in name for name in names)
    return {"head": None} if bare and lacks else {}


def write(s: Bert) -> Tree:
    told: Tree = {"num_attention_heads": head_count(s.width, s.heads, 64), "intermediate_size": s.hidden or 4 * s.width}
    if isinstance(s.head, Classes):
        return told | describe_labels(s.head.classes) | {"classifier_dropout": s.head.dropout}
    if isinstance(s.head, Tags):
        return told | describe_labels(s.head.tags) | {"classifier_dropout": s.head.dropout}
    return told


layout = Layout(
    ROWS,
    {
        "width": Key("hidden_size"),
        "depth": Key("num_hidden_layers"),
        "heads": Key("num_attention_heads"),
        "hidden": Key("intermediate_size"),
        "vocabulary": Key("vocab_size"),
        "context": Key("max_position_embeddings"),
        "segments": Key("type_vocab_size", 2),
        "activation": activation("hidden_act", "gelu"),
        "eps": Key("layer_norm_eps", 1e-12),
        "dropout": Key("hidden_dropout_prob", 0.1),
        "attention_dropout": Key("attention_probs_dropout_prob", 0.1),
    },
    {
        "BertModel": Head({"head": "pooler"}, POOLER, bare=True),
        "BertForMaskedLM": Head({"head": "masking"}, MASKING),
        "BertForPreTraining": Head({"head": "masking"}, MASKING),
        "BertForSequenceClassification": Head({"head": classes}, CLASSES),
        "BertForTokenClassification": Head({"head": tags}, "classifier -> head.tags"),
    },
    spare=SPARE,
    copies=COPIES,
    prefix="bert.",
    fixed={"is_decoder": False, "add_cross_attention": False, "tie_word_embeddings": True},
    read=read,
    write=write,
)
family = Family(
    Bert,
    compose,
    {
        "bert-tiny": {"width": 128, "depth": 2},
        "bert-base": {},
        "bert-large": {"width": 1024, "depth": 24},
        "minilm-l6": {"width": 384, "depth": 6, "heads": 12},
    },
    {"bert": layout},
    {"words": words, "classes": lambda _: Classes(classes=1, dense=True)},
)
