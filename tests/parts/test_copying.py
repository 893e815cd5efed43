"""Copying: the head against the equations of See et al. 2017, words without vectors, and coverage."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.factors import ScoreTable
from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.probe import Record
from regard.core.state import State
from regard.errors import SpecError
from regard.models import preset
from regard.parts.copying import Copying
from regard.tasks.entropy import cross_entropy, losses

SIZE = 9  # words of the vocabulary; sources have words 9, 10, … beyond it
SOURCE = torch.tensor([[4, 9, 5, 10, 9, 3], [9, 4, 3, 0, 0, 0]])
VALID = torch.tensor([[True] * 6, [True] * 3 + [False] * 3])
TARGET = torch.tensor([[2, 9, 10, 4], [2, 4, 9, 5]])


def copier(name: str = "luong", **settings: Any) -> ModelSpec:
    """A model of words with a head that copies, as the task makes it."""
    spec = preset(name, width=12, depth=1, vocabulary=SIZE)
    assert spec.encoder is not None and spec.decoder is not None and spec.head is not None
    return spec.replace(
        encoder=spec.encoder.replace(embedding=spec.encoder.embedding.read_unknown(1)),
        decoder=spec.decoder.replace(embedding=spec.decoder.embedding.read_unknown(1)),
        head=Copying(words=spec.head, **settings),
    )


def learned(spec: ModelSpec) -> Model:
    torch.manual_seed(0)
    model = spec.build().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=0.5)
    return model


def expect(model: Model, covers: bool = False) -> tuple[Tensor, float]:
    """P(w) and Σ min(a, c) a word by equations 8 to 13 of the paper, position by position, in double precision."""
    memory = model.encode(SOURCE, VALID)
    assert memory is not None and model.head is not None
    features = model.features(Inputs(TARGET, memory=memory))
    named = dict(model.head.named_parameters())
    query, bias = named["score.query.weight"], named["score.query.bias"]
    key, out = named["score.key.weight"], named["score.score.weight"]
    written = model.head.words(features, None).softmax(-1)  # type: ignore[operator]
    found, repeated = torch.zeros(2, 4, 11, dtype=torch.float64), 0.0
    for row, count in ((0, 6), (1, 3)):
        looked = torch.zeros(count, dtype=torch.float64)
        for step in range(4):
            scores = []
            for place in range(count):
                inner = key @ memory.states[row, place] + query @ features[row, step] + bias
                inner = inner + named["count.weight"][:, 0] * looked[place] if covers else inner
                scores.append((out @ torch.tanh(inner))[0])
            weights = torch.stack(scores).softmax(0)
            repeated += float(torch.minimum(weights, looked).sum())
            looked = looked + weights
            context = weights @ memory.states[row, :count]
            switch = torch.sigmoid(
                named["switch.weight"][0] @ torch.cat((features[row, step], context)) + named["switch.bias"][0]
            )
            found[row, step, :SIZE] = switch * written[row, step]
            for place in range(count):
                found[row, step, SOURCE[row, place]] += (1 - switch) * weights[place]
    return found, repeated / 8


@pytest.mark.parametrize("coverage", [0.0, 1.0])
@torch.no_grad()
def test_a_mixture_is_that_of_the_papers_equations(coverage: float) -> None:
    model = learned(copier(coverage=coverage)).double()
    record = Record("head.repeated") if coverage else None
    logs = model(TARGET, model.encode(SOURCE, VALID), probe=record)
    expected, repeated = expect(model, coverage > 0)
    torch.testing.assert_close(logs.exp(), expected, atol=1e-6, rtol=1e-5)  # the mixture is in single precision
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(2, 4, dtype=torch.float64), atol=1e-6, rtol=0)
    assert (logs[1, :, 10] == -torch.inf).all()  # a word of the other source
    if record is not None:
        assert float(record["head.repeated"]) == pytest.approx(repeated, abs=1e-6)
        assert model.head is not None and model.head.costs == {"repeated": 1.0}


@pytest.mark.parametrize("coverage", [0.0, 1.0])
@pytest.mark.parametrize("name", ["luong", "bahdanau", "transformer-tiny", "seq2seq"])
@torch.no_grad()
def test_steps_equal_the_whole_with_any_decoder(name: str, coverage: float) -> None:
    """Rows of a beam, rows that are re-ordered, and states that are joined remember each their own."""
    model = learned(copier(name, coverage=coverage))
    memory = model.encode(SOURCE, VALID)
    whole = model(TARGET, memory)
    beam = model.start(4, memory)
    for time in range(3):
        found = model.step(TARGET[:, time].repeat_interleave(2), beam)
        torch.testing.assert_close(found, whole[:, time].repeat_interleave(2, 0), atol=1e-4, rtol=1e-4)
    turned = beam.select(torch.tensor([2, 0]))
    found = model.step(TARGET[[1, 0], 3], turned)
    torch.testing.assert_close(found, whole[[1, 0], 3], atol=1e-4, rtol=1e-4)
    apart = [model.start(1, model.encode(SOURCE[row : row + 1, VALID[row]])) for row in (0, 1)]
    for row, state in enumerate(apart):
        model.step(TARGET[row : row + 1, :2], state)
    both = model.step(TARGET[:, 2], State.join(apart))
    torch.testing.assert_close(both, whole[:, 2], atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_pads_of_a_chunk_move_no_count() -> None:
    model = learned(copier(coverage=1.0))
    memory = model.encode(SOURCE, VALID)
    state, plain = model.start(2, memory), model.start(2, memory)
    chunk = torch.tensor([[2, 9, 0], [0, 2, 9]])
    padded = model.step(chunk, state, valid=torch.tensor([[True, True, False], [False, True, True]]))
    model.step(torch.tensor([2, 2]), plain)
    expected = model.step(torch.tensor([9, 9]), plain)
    torch.testing.assert_close(padded, expected, atol=1e-5, rtol=1e-5)
    after = [model.step(torch.tensor([4, 4]), one) for one in (state, plain)]
    torch.testing.assert_close(*after, atol=1e-5, rtol=1e-5)


def test_losses_of_a_mixture_are_smoothed_among_words_that_a_row_can_have() -> None:
    logs = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.1, 0.2, 0.3, 0.4]]).log()
    targets = torch.tensor([1, 3])
    table = ScoreTable(logs)
    assert losses(table, targets).tolist() == pytest.approx([-float(logs[0, 1]), -float(logs[1, 3])])
    even = -float(logs[0, :3].mean()), -float(logs[1].mean())
    wanted = 0.9 * -float(logs[0, 1] + logs[1, 3]) + 0.1 * sum(even)
    assert float(cross_entropy(table, targets, 0.1)) == pytest.approx(wanted)
    assert float(cross_entropy(table, targets)) == pytest.approx(-float(logs[0, 1] + logs[1, 3]))


@pytest.mark.parametrize("coverage", [0.0, 1.0])
def test_every_weight_learns_also_from_words_that_can_only_be_copied(coverage: float) -> None:
    model = copier(coverage=coverage).build()
    kept = torch.ones_like(TARGET, dtype=torch.bool)
    factors = model.factors(Inputs(TARGET, memory=Inputs(SOURCE, VALID)), kept)
    loss = cross_entropy(factors, torch.tensor([9, 10, 4, 5, 4, 9, 5, 3]))
    loss.backward()
    assert loss.isfinite()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.isfinite().all(), name
        assert weight.grad.any() or name.endswith("bias"), name


def test_what_cannot_copy_is_refused_with_a_way_out() -> None:
    with pytest.raises(SpecError, match="coverage: scaled has no place for it"):
        copier(coverage=1.0, score="scaled").build()
    with pytest.raises(SpecError, match="numbers can't read words"):
        copier().encoder.replace(embedding="numbers").embedding.read_unknown(1)  # type: ignore[union-attr]
