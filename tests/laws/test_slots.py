"""The grammar's promise: whatever mixes positions, and every kind of position, stands in every family, or is refused
with the reason.

What stands learns: a step gives a finite loss and a gradient to every weight. What has a decoder steps as it runs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

from regard.core.mixer import MixerSpec
from regard.core.model import Model, ModelSpec
from regard.core.role import AbsoluteSpec, FeedSpec, NormSpec, RelativeSpec
from regard.errors import SpecError
from regard.models import families, preset, presets
from tests.models.test_presets import SMALL, TABLED, given, ready, source, target

TINY: dict[str, dict[str, Any]] = {  # the mixers' own sizes, where the usual ones are large
    "latent": {"rank": 8, "size": 6, "rotary": 4, "value": 5},
    "turing": {"slots": 4, "size": 3},
    "mamba": {"states": 2},
    "ssm": {"states": 2},
}
POSITIONS = ["none", *AbsoluteSpec.kinds, *RelativeSpec.kinds]
# one of each family, and of families whose presets have other stacks or blocks, those too
NAMES = sorted(
    ({next(iter(family.presets)) for family in families().values()} | {"luong", "bilstm", "hybrid", "conv-lm"})
    - set(TABLED)
)
MIXERS = sorted(MixerSpec.kinds)


def sizes(name: str) -> dict[str, Any]:
    family = presets()[name]
    told = family.settings.parse(family.presets[name]).fields()
    off = {"band", "every", "window", "kv_heads", "query_rank"}  # switches that stay off
    small = {key: value for key, value in SMALL.items() if key in told and not (key in off and told[key] is None)}
    return small | {"depth": 4 if told.get("every") else 2}


def choice(kind: str) -> Any:
    return {"kind": kind, **TINY[kind]} if kind in TINY else kind


@cache
def try_out(name: str, slot: str, kind: str, beside: str = "") -> ModelSpec | SpecError:
    """The model with that in a slot, or why it can't be."""
    more = {beside: "attention"} if beside else {}
    try:
        spec = preset(name, **sizes(name), **{slot: choice(kind)}, **more)
        spec.build("meta")
    except SpecError as error:
        return error
    return spec


def learn(spec: ModelSpec) -> None:
    model: Model = spec.build()
    memory = model.encode(source(spec, rows=2, time=5)) if spec.decoder is not None else None
    found = model(given(spec, rows=2, time=5), memory)
    loss = found.float().log_softmax(-1)[..., 0].neg().mean()
    assert loss.isfinite()
    loss.backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, f"{name} got no gradient"
        assert weight.grad.isfinite().all(), name


@torch.no_grad()
def step(spec: ModelSpec) -> None:
    if spec.decoder is None:
        return
    model, tokens = ready(spec), target(rows=2, time=5)
    memory = model.encode(source(spec, rows=2, time=5))
    whole = model(tokens, memory)
    state = model.start(2, memory)
    for time in range(tokens.shape[1]):
        torch.testing.assert_close(model.step(tokens[:, time], state), whole[:, time], atol=1e-4, rtol=1e-4)


def hold(found: ModelSpec | SpecError) -> None:
    torch.manual_seed(0)
    if isinstance(found, SpecError):
        assert found.code == "spec"
        assert len(found.message) > 20
        assert found.hint, found.message
        return
    learn(found)
    step(found)


@pytest.mark.parametrize("kind", MIXERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_mixer_stands_in_a_family_or_is_refused(name: str, kind: str) -> None:
    found = try_out(name, "mix", kind)
    hold(found)
    if isinstance(found, SpecError) and "looks at the source" in found.message:
        hold(seen := try_out(name, "mix", kind, "cross"))  # what the hint says
        assert isinstance(seen, ModelSpec)


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("name", NAMES)
def test_a_position_stands_in_a_family_or_is_refused(name: str, kind: str) -> None:
    found = try_out(name, "position", kind)
    hold(found)
    if isinstance(found, ModelSpec):
        assert positions(found) == ({kind} - {"none"})


@pytest.mark.parametrize("kind", list(AbsoluteSpec.kinds))
def test_positions_stand_beside_the_words_too(kind: str) -> None:
    pictures = "vit-tiny", "vit-lite", "cct-2-3x2"
    planar = AbsoluteSpec.parse(kind).planar
    for name in pictures if planar else ("gpt2", "bert-tiny", "t5-small", "luong", "vit-tiny", "elmo", "conv-lm"):
        spec = preset(name, **sizes(name), position={"kind": kind, "join": "concatenate", "size": 8})
        assert spec.main.embedding.absolute is not None and spec.main.embedding.absolute.join == "concatenate"
        hold(spec)


def positions(spec: ModelSpec) -> set[str]:
    """Every kind of position that a model has, wherever it stands."""
    found: set[str] = set()
    for stack in (spec.encoder, spec.decoder):
        if stack is not None:
            inside = [block.mix.relative for block in stack.layout() if block.mix is not None]
            found |= {part.kind for part in (stack.embedding.absolute, stack.bias, *inside) if part is not None}
    return found


@pytest.mark.parametrize("kind", MIXERS)
def test_a_cross_stands_wherever_there_is_a_memory_or_is_refused(kind: str) -> None:
    for name in ("transformer-tiny", "t5-small", "luong", "seq2seq", "convs2s-tiny", "mean-pool", "captioner"):
        hold(try_out(name, "cross", kind))
    for name in ("gpt2", "bert-tiny", "rnn"):
        found = try_out(name, "cross", kind)
        assert isinstance(found, SpecError) and "no memory" in found.message
        hold(found)


@pytest.mark.parametrize(
    ("slot", "kind"), [*(("ffn", kind) for kind in FeedSpec.kinds), *(("norm", kind) for kind in NormSpec.kinds)]
)
@pytest.mark.parametrize("name", ["gpt2", "bert-tiny", "t5-small", "luong", "rnn", "mamba-130m", "vit-tiny", "elmo"])
def test_a_feed_forward_and_a_norm_stand_too(name: str, slot: str, kind: str) -> None:
    found = try_out(name, slot, kind)
    if slot == "ffn" and kind == "experts" and isinstance(found, ModelSpec):
        step(found)  # experts that no token of so few chose have learned nothing
        return
    hold(found)
    assert isinstance(found, SpecError) == (name == "elmo")
