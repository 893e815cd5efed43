"""Every preset in the folder, at a tiny size: it builds, learns, steps as it runs, and can be searched."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.model import Model, ModelSpec
from regard.models import preset, presets

WORDS = 4
SMALL: dict[str, Any] = {
    "width": 16,
    "depth": 3,
    "heads": 2,
    "kv_heads": 1,
    "hidden": 24,
    "vocabulary": WORDS,
    "context": 24,
    "window": 4,
    "band": 3,
    "local": 4,
    "every": 3,
    "image": 8,
    "patch": 4,
    "channels": 1,
    "levels": WORDS,
    "classes": 5,
    "experts": 4,
    "top": 2,
    "groups": 2,
    "top_groups": 1,
    "expert_hidden": 8,
    "dense": 1,
    "rank": 8,
    "query_rank": 8,
    "size": 8,
    "rotary": 4,
    "value": 8,
    "slots": 6,
}


def tiny(name: str) -> ModelSpec:
    """A preset with every size that it has made small; switches that it leaves off stay off."""
    family = presets()[name]
    chosen = family.settings.parse(family.presets[name])
    given = chosen.fields()
    off = {"band", "every", "window", "kv_heads", "query_rank"}
    sizes = {key: value for key, value in SMALL.items() if key in given and not (key in off and given[key] is None)}
    return preset(name, **sizes)


TABLED = ("neural-programmer", "neural-programmer-2015")  # they read a table beside: test_programmers.py


@pytest.fixture(params=sorted(set(presets()) - set(TABLED)))
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    torch.manual_seed(0)
    return tiny(request.param)


def ready(spec: ModelSpec) -> Model:
    """Weights large enough that no two words tie, and nothing random."""
    model = spec.build().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("tokens.weight", "words.weight")):
                weight.normal_()
    return model


def source(spec: ModelSpec, rows: int = 3, time: int = 7) -> Tensor:
    """What the first stack reads: pictures, or words."""
    if spec.encoder and spec.encoder.embedding.picture is not None:
        height, width, channels = spec.encoder.embedding.picture
        return torch.randn(rows, channels, height, width, generator=torch.Generator().manual_seed(5))
    return target(rows, time)


def target(rows: int = 3, time: int = 7) -> Tensor:
    """What a decoder reads."""
    return torch.randint(WORDS, (rows, time), generator=torch.Generator().manual_seed(5))


def read_as(inputs: Tensor, dtype: torch.dtype) -> Tensor:
    """Pictures in a model's own type; words as they are."""
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def given(spec: ModelSpec, rows: int = 3, time: int = 7) -> Tensor:
    """What the stack that answers reads."""
    return source(spec, rows, time) if spec.decoder is None else target(rows, time)


def test_it_learns_in_one_step(spec: ModelSpec) -> None:
    """Forward, backward: a loss, finite gradients for every weight, and a lower loss after a step along them."""
    model = spec.build()
    inputs = source(spec)
    memory = model.encode(inputs) if spec.encoder and spec.decoder else None

    def loss() -> Tensor:
        torch.manual_seed(1)
        again = model.encode(inputs) if memory is not None else None
        out = model(given(spec), again)
        return out.log_softmax(-1)[..., 0].neg().mean()

    before = loss()
    before.backward()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            assert weight.grad is not None, f"{name} got no gradient"
            assert weight.grad.isfinite().all(), name
            weight.sub_(0.01 * weight.grad)
    assert loss() < before


def test_the_spec_survives_json(spec: ModelSpec) -> None:
    assert ModelSpec.parse(json.loads(spec.model_dump_json())) == spec


@torch.no_grad()
def test_steps_equal_the_whole(spec: ModelSpec) -> None:
    if spec.decoder is None:
        return
    model, tokens = ready(spec), target()
    memory = model.encode(source(spec))
    whole = model(tokens, memory)
    state = model.start(3, memory)
    for time in range(tokens.shape[1]):
        torch.testing.assert_close(model.step(tokens[:, time], state), whole[:, time], atol=1e-4, rtol=1e-4)
    assert state.length == tokens.shape[1]
    assert state.nbytes > 0


@torch.no_grad()
def test_a_padded_batch_is_each_row_alone(spec: ModelSpec) -> None:
    if spec.encoder and spec.encoder.embedding.picture is not None:
        return
    model, tokens = ready(spec), source(spec)
    if spec.head is not None and spec.head.answers == "positions":
        tokens = tokens % 2  # the shortest source has two positions to point at
    valid = torch.tensor([[True] * 4 + [False] * 3, [True] * 7, [False] * 5 + [True] * 2])
    if spec.decoder is None:
        found = model(tokens, valid=valid)
        for row in range(3):
            alone = model(tokens[row : row + 1, valid[row]])
            mine = found[row][valid[row]] if found.dim() > 2 else found[row]
            torch.testing.assert_close(mine, alone[0], atol=1e-4, rtol=1e-4)
        return
    state = model.start(3, model.encode(tokens, valid))
    found = model.step(tokens, state, valid=valid)
    again = model.step(found.argmax(-1), state)
    for row in range(3):
        mine = tokens[row : row + 1, valid[row]]
        alone = model.start(1, model.encode(mine))
        first = model.step(mine, alone)
        # a head that points has as many answers as the longest source has positions
        torch.testing.assert_close(found[row, : first.shape[1]], first[0], atol=1e-4, rtol=1e-4)
        second = model.step(first.argmax(-1), alone)
        torch.testing.assert_close(again[row, : second.shape[1]], second[0], atol=1e-4, rtol=1e-4)


def test_it_runs_in_half_precision(spec: ModelSpec) -> None:
    """Under autocast with gradients, and with all weights in bfloat16: near the single-precision answer."""
    model, inputs = ready(spec), source(spec)

    def answer() -> Tensor:
        if not spec.decoder:
            return model(inputs).float()
        memory, tokens = model.encode(inputs), target()
        out = model(tokens, memory)
        valid = torch.ones_like(tokens, dtype=torch.bool)
        valid[0, :3] = False
        state = model.start(3, memory)
        model.step(tokens, state, valid=valid)
        out = torch.cat((out, model.step(tokens[:, 0], state)[:, None]), 1)
        return out.float()

    expected = answer()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = answer()
    found.square().mean().backward()
    model.to(torch.bfloat16)
    inputs = read_as(inputs, torch.bfloat16)
    for name, half in (("autocast", found), ("bfloat16", answer())):
        error = (half - expected).square().mean().sqrt() / expected.square().mean().sqrt()
        assert error < 0.2, f"{name}: {float(error):.3f}"


def beam(model: Model, memory: Any, width: int, steps: int) -> tuple[list[int], float]:
    """The plain beam that any architecture must serve: `step` and `select`, and nothing else."""
    state = model.start(1, memory)
    tokens, scores = torch.zeros(1, 1, dtype=torch.long), torch.zeros(1)
    for _ in range(steps):
        words = model.step(tokens[:, -1], state).log_softmax(-1) + scores[:, None]
        scores, best = words.flatten().topk(min(width, words.numel()))
        rows = best // WORDS
        state = state.select(rows)
        tokens = torch.cat((tokens[rows], (best % WORDS)[:, None]), 1)
    return tokens[0, 1:].tolist(), float(scores[0])


@torch.no_grad()
def test_a_plain_beam_finds_the_best_of_all_sentences(spec: ModelSpec) -> None:
    if spec.decoder is None:
        return
    model, steps = ready(spec), 3
    memory = model.encode(source(spec, rows=1, time=WORDS))  # as many positions as words, for a head that points
    found, score = beam(model, memory, WORDS ** (steps - 1), steps)
    every = torch.tensor(list(itertools.product(range(WORDS), repeat=steps)))
    inputs = torch.cat((torch.zeros(len(every), 1, dtype=torch.long), every[:, :-1]), 1)
    logits = model(inputs, memory).log_softmax(-1)
    scores = logits.gather(2, every[..., None]).sum((1, 2))
    assert found == every[scores.argmax()].tolist()
    assert score == pytest.approx(float(scores.max()), abs=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_what_is_remembered_has_the_type_of_the_weights(spec: ModelSpec, dtype: torch.dtype) -> None:
    model = spec.build().eval()
    assert model.dtype == torch.float32
    model = model.to(dtype)
    assert model.dtype == dtype
    if model.decoder is None:
        return
    with torch.no_grad():
        memory = None if model.encoder is None else model.encode(read_as(source(spec, rows=2), dtype))
        state = model.start(2, memory)
        logits = model.step(torch.zeros(2, dtype=torch.long), state)
    types = set()
    state.map(lambda tensor: types.add(tensor.dtype) or tensor)  # type: ignore[func-returns-value]
    precise = torch.promote_types(dtype, torch.float32)
    assert logits.dtype == dtype
    assert types <= {dtype, precise, precise.to_complex(), torch.bool, torch.long}
    assert dtype in types or not any(kind.is_floating_point for kind in types)
