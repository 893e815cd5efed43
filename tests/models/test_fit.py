"""What a user puts into a family's slots, and what its place makes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from regard.core.block import BlockSpec
from regard.core.model import ModelSpec
from regard.errors import SpecError
from regard.mixers.attention import Attention
from regard.mixers.mamba import Mamba
from regard.mixers.recurrent import Recurrent
from regard.models import families, preset, presets
from regard.parts.position import Bucketed, Learned


def block(spec: ModelSpec, stack: str = "decoder", number: int = 0) -> BlockSpec:
    found = getattr(spec, stack)
    assert found is not None
    blocks: list[BlockSpec] = found.layout()
    return blocks[number]


def mix(name: str, said: Any = None, stack: str = "decoder", number: int = 0, **more: Any) -> Any:
    return block(preset(name, mix=said, **more), stack, number).mix


@pytest.mark.parametrize("name", sorted(presets()))
def test_what_is_not_said_leaves_a_preset_as_its_family_has_it(name: str) -> None:
    family = presets()[name]
    settings = family.settings.parse(family.presets[name])
    if all(settings.fields()[slot] == type(settings).model_fields[slot].default for slot in ("mix", "cross", "ffn")):
        assert family.compose(settings) == family.compose_own(settings)


@pytest.mark.parametrize("name", sorted(presets()))
def test_settings_with_slots_survive_json(name: str) -> None:
    family = presets()[name]
    settings = family.settings.parse({**family.presets[name], "norm": {"kind": "layernorm", "eps": 0.5}})
    again = family.settings.parse(json.loads(settings.model_dump_json()))
    assert again == settings
    if name != "elmo":
        assert family.compose(again) == family.compose(settings)


def test_the_place_decides_which_way_a_mixer_looks() -> None:
    for name in ("gpt2", "transformer-tiny", "rnn"):
        assert mix(name, "attention", cross=None).causal
    assert mix("rnn", "pool").causal and mix("gpt2", "convolution").causal
    assert not mix("bert-tiny", "pool", "encoder").causal
    assert mix("bert-tiny", "recurrent", "encoder").direction == "both"
    assert mix("t5-small", "recurrent", "encoder").direction == "both"
    assert mix("t5-small", "recurrent").direction == "forward"
    assert mix("tutorial", {"cell": "lstm"}, "encoder").direction == "forward"  # as the family has it
    crossing = block(preset("luong", mix="mamba", cross="attention")).cross
    assert isinstance(crossing, Attention) and crossing.over == "memory"


def test_heads_and_the_like_follow_from_the_family() -> None:
    assert mix("gpt2", "latent").heads == 12
    assert mix("gpt2", "latent", heads=6).heads == 6
    assert mix("gpt2", {"kind": "latent", "heads": 3}).heads == 3
    assert mix("rnn", "attention").heads == 8  # one for each 64 channels
    assert mix("luong", "recurrent").start == "final"
    assert mix("luong", "recurrent", cell="gru").cell == "gru"
    experts: Any = block(preset("t5-small", ffn="experts")).ffn
    assert (experts.kind, experts.hidden, experts.activation) == ("experts", 2048, "relu")
    norm: Any = block(preset("llama-tiny", norm="layernorm", eps=1e-3)).norm
    assert (norm.kind, norm.eps) == ("layernorm", 1e-3)


def test_settings_without_a_kind_change_what_the_family_has() -> None:
    assert mix("gpt2", {"window": 64}) == Attention(heads=12, causal=True, window=64)
    assert mix("llama-tiny", {"window": 64}).position is not None
    assert mix("luong", {"cell": "gru"}).cell == "gru" == mix("luong", {"cell": "gru"}, "encoder").cell
    assert mix("luong", {"score": "dot"}).score.kind == "dot"  # the encoder has no score, and stays
    table = preset("gpt2", position={"context": 77}).decoder
    assert table is not None and table.limit() == 77


def test_the_same_said_twice_is_the_same() -> None:
    assert preset("gpt2", mix="attention") == preset("gpt2")
    assert preset("gpt2", mix=Mamba(states=8)) == preset("gpt2", mix={"kind": "mamba", "states": 8})
    assert preset("bert-tiny", norm="layernorm") == preset("bert-tiny")


def test_every_so_manieth_block_stays_what_it_is() -> None:
    kinds = [each.mix.kind for each in preset("hybrid", mix="ssm").decoder.layout() if each.mix]  # type: ignore[union-attr]
    assert kinds == ["ssm", "ssm", "ssm", "attention"] * 2
    kinds = [each.mix.kind for each in preset("gpt3-small", mix="ssm").decoder.layout() if each.mix]  # type: ignore[union-attr]
    assert set(kinds) == {"ssm"}  # dense and banded are one kind


def test_layers_inside_a_mixer_become_blocks_where_another_has_none() -> None:
    spec = preset("luong", depth=3, mix="mamba", cross="attention")
    assert spec.encoder is not None and spec.decoder is not None
    assert (spec.encoder.depth, spec.decoder.depth) == (3, 3)


@pytest.mark.parametrize("name", ["gpt2", "llama-tiny", "t5-small", "transformer-tiny", "vit-tiny", "bert-tiny"])
def test_positions_stand_where_their_kind_stands(name: str) -> None:
    for kind in ("rotary", "sinusoidal", "learned", "none"):
        spec = preset(name, position=kind)
        for stack in (spec.encoder, spec.decoder):
            if stack is not None:
                first = stack.layout()[0].mix
                assert first is not None and stack.bias is None
                assert (first.relative is not None) == (kind == "rotary")
                assert (stack.embedding.absolute is not None) == (kind in ("sinusoidal", "learned"))


def test_learned_positions_are_as_many_as_the_family_says() -> None:
    spec = preset("decoder-tiny", position="learned", context=96).decoder
    assert spec is not None and spec.limit() == 96
    for name, limit in {"bert-tiny": 512, "llama-tiny": 1024, "vit-tiny": 17}.items():
        assert preset(name, position="learned").main.limit() == limit
    assert Learned().limit == 1024


def test_biases_on_distances_know_both_sides_in_an_encoder() -> None:
    for stack, both in (("encoder", True), ("decoder", False)):
        position = mix("transformer-tiny", None, stack, position="bucketed").position
        assert isinstance(position, Bucketed) and position.both == both


def test_a_shared_bias_goes_with_the_heads_that_it_serves() -> None:
    for said, heads in (({"heads": 4}, 4), ("attention", 8)):
        decoder = preset("t5-small", mix=said).decoder
        assert decoder is not None and decoder.bias is not None and decoder.bias.shared_heads == heads
    bare = preset("t5-small", mix="mamba").decoder
    assert bare is not None and bare.bias is None


def test_a_mixer_that_looks_at_a_memory_stands_in_the_decoder_alone() -> None:
    assert mix("transformer-tiny", "attentive").kind == "attentive"
    assert mix("transformer-tiny", "attentive", "encoder").kind == "attention"


def test_a_block_without_a_stream_gets_one_for_its_cross() -> None:
    assert not block(preset("luong")).residual
    assert block(preset("luong", cross="attention")).residual


def test_no_norm_stands_before_a_mean_that_asks_nothing() -> None:
    assert block(preset("transformer-tiny", cross="pool")).bare == ("cross",)
    assert block(preset("mean-pool", cross="attention")).bare == ()


def test_slots_can_be_left_empty() -> None:
    assert block(preset("gpt2", ffn="none")).ffn is None
    assert block(preset("gpt2", mix="none")).mix is None
    spec = preset("bert-tiny", norm="none").encoder
    assert spec is not None and spec.norm is None and spec.blocks[0].norm is None
    assert "norm" not in dict(preset("bert-tiny", norm="none", width=16, depth=1).build().encoder.named_children())  # type: ignore[union-attr]


REFUSED = [
    ("bert-tiny", {"mix": "turing"}, "turing sees only what came before, and bert reads both ways", "attention"),
    ("bert-tiny", {"mix": {"kind": "attention", "causal": True}}, "mix.causal: True can't stand in bert", "leave"),
    ("gpt2", {"mix": {"causal": False}}, "mix.causal: False can't stand in gpt2, whose decoder needs True", "leave"),
    ("gpt2", {"mix": "attentive"}, "attentive looks at a memory, and gpt2 has no encoder", "mix=recurrent"),
    ("gpt2", {"cross": "attention"}, "gpt2 has one stack, so there is no memory", "transformer-tiny"),
    ("t5-small", {"cross": "latent"}, "latent looks at its own sequence", "cross=attention"),
    ("t5-small", {"cross": "none"}, "nothing in t5's decoder looks at the source", "cross=attention"),
    ("luong", {"mix": "mamba"}, "nothing in seq2seq's decoder looks at the source any more", "cross=attention"),
    ("mamba-130m", {"position": "rotary"}, "rotary acts between queries and keys, and mamba has none", "sinusoidal"),
    ("deepseek-tiny", {"position": "none"}, "latent attention scores positions by rotations", "position=rotary"),
    ("elmo", {"mix": "attention"}, "attention would let the two directions meet", "mix=recurrent"),
    ("elmo", {"ffn": "feedforward"}, "elmo's two directions must never meet", "ffn=none"),
    ("rnn", {"mix": "none"}, "mix: the block has nothing else", "ffn=feedforward"),
    ("rnn", {"ffn": {"hidden": 8}}, "ffn: rnn has none, so which kind", "ffn.kind=feedforward"),
    ("vit-tiny", {"position": {"context": 9}}, "an image has 17 places, and not 9", "leave"),
]


@pytest.mark.parametrize(("name", "said", "reason", "way"), REFUSED, ids=str)
def test_what_cannot_stand_is_refused_with_a_way_out(name: str, said: dict[str, Any], reason: str, way: str) -> None:
    with pytest.raises(SpecError) as caught:
        preset(name, **said).build("meta")
    assert reason in caught.value.message
    assert way in caught.value.hint


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"mix": "mmaba"}, "mix: unknown kind 'mmaba'; did you mean 'mamba'"),
        ({"mix": {"windw": 4}}, "mix.windw: unknown setting; did you mean 'window'"),
        ({"mix": {"kind": "mamba", "stats": 4}}, "mix.stats: unknown setting; did you mean 'states'"),
        ({"mix": {"window": -1}}, "mix.window: .*greater than or equal to 1"),
        ({"position": "rotry"}, "position: unknown kind 'rotry'; did you mean 'rotary'"),
        ({"norm": 3}, "norm: a kind, or settings, and not 3"),
        ({"ffn": {"kind": 3}}, "ffn: unknown kind 3"),
    ],
    ids=str,
)
def test_a_slip_of_the_pen_is_told_at_its_slot(said: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        preset("gpt2", **said)


def test_earlier_runs_say_none_for_a_transformer_without_positions() -> None:
    spec = preset("transformer-tiny", position=None)
    assert spec == preset("transformer-tiny", position="none")
    assert spec.encoder is not None and spec.encoder.embedding.absolute is None


def test_positions_that_were_said_of_the_mixer_stay() -> None:
    for position, added in ((None, False), ("none", False), ("sinusoidal", True)):
        spec = preset("transformer-tiny", position=position, mix={"kind": "attention", "position": "rotary"})
        assert block(spec).mix.relative is not None and block(spec, "encoder").mix.relative is not None  # type: ignore[union-attr]
        assert (spec.main.embedding.absolute is not None) == added


def test_earlier_runs_hold_every_setting_of_a_slot() -> None:
    full = Recurrent().model_dump()
    assert preset("transformer-tiny", mix=full) == preset("transformer-tiny", mix="recurrent")
    family = families()["mamba"]
    said = {**family.presets["hybrid"], "mix": Mamba().model_dump(), "ffn": {"kind": "feedforward", "hidden": None}}
    assert family.compose(family.settings.parse(said)) == preset("hybrid")


@torch.no_grad()
def test_an_image_model_takes_other_positions() -> None:
    x = torch.randn(2, 1, 8, 8)
    for position in ("none", "sinusoidal", "rotary", {"join": "concatenate", "size": 4}):
        model = preset("vit-tiny", position=position, depth=1).build().eval()
        assert model(x).shape == (2, 10)
