"""Models for CTranslate2, by its own specification classes: attention and feed-forwards, with an encoder or without.

They are written from the blocks, whatever the family: what a block has and CTranslate2 hasn't is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard.core.block import Block
from regard.core.mask import Mask
from regard.core.model import Model
from regard.core.stack import Stack, StackSpec
from regard.core.view import View
from regard.data.tokenizer import Tokenizer
from regard.errors import MissingPackage, RegardError
from regard.hub.save import fill_aside
from regard.hub.targets.target import TargetSpec
from regard.mixers.attention import Attention
from regard.parts.embedding import Tokens
from regard.parts.feedforward import FeedForward
from regard.parts.head import Vocabulary
from regard.parts.norm import RMSNorm
from regard.parts.position import Learned, Rotary, Sinusoidal
from regard.tasks.bundle import Bundle

LONGEST = 1024  # positions that sinusoids are written out for
ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH", "tanh": "Tanh"}


class CTranslate2(TargetSpec):
    """Translators and generators."""

    kind: Literal["ctranslate2"] = "ctranslate2"

    def write(self, given: Bundle, noun: str, place: Path) -> list[Path]:
        if given.lexicon is None:
            raise RegardError(f"{noun}: there is no tokenizer in it, and CTranslate2 wants the words")
        came = {} if given.origin is None else given.origin.terms()
        return convert(given.model, *given.lexicon.tokenizers, place, came)


def convert(
    model: Model, source: Tokenizer | None, target: Tokenizer, folder: Path, files: Mapping[str, bytes]
) -> list[Path]:
    """Write a folder that CTranslate2 loads: a Translator with a source, a Generator without. `files`: more in it."""
    try:
        import ctranslate2  # noqa: F401
        from ctranslate2.specs import TransformerSpec
        from ctranslate2.specs.transformer_spec import TransformerDecoderModelSpec
    except ImportError:
        raise MissingPackage("writing for CTranslate2", "ctranslate2", "ctranslate2") from None
    if model.decoder is None or model.spec.decoder is None:
        raise RegardError("an encoder alone has nothing to generate", "--to onnx")
    decoder = _decoder(model)
    names = _names(target, model.decoder)
    for number in (target.begin, target.end):
        if number >= len(names):
            raise RegardError(f"token {number} begins or ends a text, and the tokenizer has {len(names)} pieces")
    spec: Any
    if model.encoder is None or model.spec.encoder is None:
        spec = TransformerDecoderModelSpec(decoder)
        spec.register_vocabulary(names)
    else:
        assert source is not None
        spec = TransformerSpec(_encoder(model.encoder, model.spec.encoder), decoder)
        spec.register_source_vocabulary(_names(source, model.encoder))
        spec.register_target_vocabulary(names)
        spec.config.decoder_start_token = names[target.begin]
        spec.config.add_source_eos = False
    spec.config.bos_token, spec.config.eos_token = names[target.begin], names[target.end]
    spec.config.unk_token = names[target.unknown]
    spec.config.layer_norm_epsilon = _norm(model.spec.decoder).eps
    with fill_aside(folder) as place:
        spec.validate()
        spec.optimize()
        spec.save(str(place))
        for name, content in files.items():
            (place / name).write_bytes(content)
    return sorted(folder.iterdir())


def _names(tokenizer: Tokenizer, stack: Stack) -> list[str]:
    """A name for each row of a stack's table: tables of others often have more rows than there are pieces."""
    lookup: Any = stack.embedding
    size = lookup.table.num_embeddings
    known = tokenizer.engine.get_vocab()
    beyond = sorted((number, piece) for piece, number in known.items() if number >= size)
    if beyond:
        number, piece = beyond[0]
        raise RegardError(f"the tokenizer's piece {piece!r} is number {number}, and the model's table has {size} rows")
    pieces = {number: piece for piece, number in known.items()}
    spare = (name for n in count() if (name := f"<unused {n}>") not in known)
    return [pieces[number] if number in pieces else next(spare) for number in range(size)]


def _encoder(stack: Stack, spec: StackSpec) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerEncoderSpec

    made = TransformerEncoderSpec(spec.depth, _mix(spec).heads, **_shape(spec))
    _fill(made, stack, spec)
    return made


def _decoder(model: Model) -> Any:
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec

    stack, spec, head = model.decoder, model.spec.decoder, model.spec.head
    assert stack is not None and spec is not None and model.head is not None
    if not isinstance(head, Vocabulary) or head.transform or head.scale or head.directions > 1:
        raise RegardError("head: CTranslate2 has words and nothing else there")
    cross = spec.blocks[0].cross is not None
    made = TransformerDecoderSpec(spec.depth, _mix(spec).heads, with_encoder_attention=cross, **_shape(spec))
    _fill(made, stack, spec)
    factors = model.head.factors(torch.zeros(1, spec.width))  # type: ignore[operator]
    made.projection.weight = _array(factors.words)
    if factors.bias is not None:
        made.projection.bias = _array(factors.bias)
    return made


def _mix(spec: StackSpec) -> Attention:
    """The attention that all blocks share; anything else is refused."""
    if len({block.model_dump_json() for block in (*spec.blocks, *spec.first)}) > 1 or spec.bias is not None:
        raise RegardError("CTranslate2 has one kind of block in a stack, and no bias that its layers share")
    block = spec.blocks[0]
    mix, feed = block.mix, block.ffn
    if not isinstance(mix, Attention) or not isinstance(feed, FeedForward):
        kinds = " and ".join(part.kind if part else "nothing" for part in (mix, feed))
        raise RegardError(f"CTranslate2 has attention and feed-forwards, and here are {kinds}")
    if block.cross is not None and not isinstance(block.cross, Attention):
        raise RegardError(f"cross: CTranslate2 has attention there, and here is {block.cross.kind}")
    if block.cross is not None and (block.cross.hard or block.cross.temperature):
        raise RegardError("cross: CTranslate2 has soft weights at one temperature, and here are hard or learned ones")
    strange = mix.window or mix.norm or mix.scale or mix.hard or mix.temperature or not mix.itself
    if strange or block.place not in ("pre", "post") or block.bare or not block.residual:
        raise RegardError(
            "CTranslate2's plain blocks have no window, head norms, scale, temperature, hard weights, masked diagonal "
            "or other order of norms"
        )
    return mix


def _norm(spec: StackSpec) -> Any:
    norm = spec.blocks[0].norm
    if norm is None:
        raise RegardError("norm: CTranslate2's blocks have one")
    return norm


def _shape(spec: StackSpec) -> dict[str, Any]:
    """What both stacks' classes are told."""
    from ctranslate2.specs import Activation

    mix, block = _mix(spec), spec.blocks[0]
    feed = block.ffn
    assert isinstance(feed, FeedForward)
    told: dict[str, Any] = {
        "pre_norm": block.place == "pre",
        "activation": getattr(Activation, ACTIVATIONS[feed.activation]),
        "ffn_glu": feed.gated,
        "rms_norm": isinstance(_norm(spec), RMSNorm),
        "num_heads_kv": mix.kv_heads if mix.kv_heads not in (None, mix.heads) else None,
    }
    if mix.size is not None:
        told["head_dim"] = mix.size
    if mix.position is None:
        return told
    if not isinstance(mix.position, Rotary) or mix.position.scaling is not None:
        raise RegardError("position: only plain rotations can be written for CTranslate2")
    return told | {"rotary_dim": 0, "rotary_interleave": False, "rotary_base": mix.position.base}


def _fill(made: Any, stack: Stack, spec: StackSpec) -> None:
    """A stack's weights: embedding, blocks, last norm."""
    embedding = spec.embedding
    lookup: Any = stack.embedding
    if not isinstance(embedding, Tokens) or embedding.norm or embedding.segments or embedding.size:
        raise RegardError("embedding: CTranslate2 has plain tokens and positions there")
    words = made.embeddings[0] if isinstance(made.embeddings, list) else made.embeddings
    words.weight = _array(lookup.table.weight)
    made.scale_embeddings = math.sqrt(spec.width) if embedding.scale else False
    rotary = _mix(spec).position is not None
    if embedding.position is not None and embedding.position.join != "add":
        raise RegardError("position: CTranslate2 adds positions, and here they are concatenated")
    if isinstance(embedding.position, Sinusoidal | Learned) and not rotary:
        count = embedding.position.limit if isinstance(embedding.position, Learned) else LONGEST
        view = View(Mask(1, count))
        made.position_encodings.encodings = _array(lookup.position(view)[0])
    elif embedding.position is not None or not rotary:
        raise RegardError("position: CTranslate2 has added positions or rotations, one of the two")
    for layer, block in zip(made.layer, stack.layers(), strict=True):
        _block(layer, block)
    if stack.norm is not None:
        _norms(made.layer_norm, stack.norm)


def _block(layer: Any, block: Block) -> None:
    assert block.mix is not None and block.ffn is not None
    mix, feed = block.mix.inner, block.ffn.inner
    _norms(layer.self_attention.layer_norm, block.mix.norm)
    _linear(layer.self_attention.linear[0], mix.query, mix.key, mix.value)
    _linear(layer.self_attention.linear[1], mix.output)
    if block.cross is not None:
        cross = block.cross.inner
        _norms(layer.attention.layer_norm, block.cross.norm)
        _linear(layer.attention.linear[0], cross.query)
        _linear(layer.attention.linear[1], cross.key, cross.value)
        _linear(layer.attention.linear[2], cross.output)
    _norms(layer.ffn.layer_norm, block.ffn.norm)
    _linear(layer.ffn.linear_0, feed.up if feed.gate is None else feed.gate)
    if feed.gate is not None:
        _linear(layer.ffn.linear_0_noact, feed.up)
    _linear(layer.ffn.linear_1, feed.down)


def _norms(made: Any, norm: Any) -> None:
    made.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        made.beta = _array(torch.zeros_like(norm.weight) if norm.bias is None else norm.bias)


def _linear(made: Any, *parts: Any) -> None:
    """One matrix of several, one below the other."""
    made.weight = _array(torch.cat([part.weight for part in parts]))
    if parts[0].bias is not None:
        made.bias = _array(torch.cat([part.bias for part in parts]))


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().contiguous().numpy()
