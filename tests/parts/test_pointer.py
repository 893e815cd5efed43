"""Pointing: the head against the paper's equations, and the embedding against what was read."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.probe import Edit, Record
from regard.core.state import State
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.parts.pointer import Pointer
from regard.tasks.pointing import PointingTaskSpec

POINTERS = [
    preset("pointer-network", width=12, vocabulary=9),
    preset("pointer-network", width=12, vocabulary=9, score="scaled", cell="gru", direction="both"),
]


def point(name: str, **settings: Any) -> ModelSpec:
    """A model of words, as the task makes it point at points."""
    return PointingTaskSpec().fit_model(preset(name, width=16, depth=1, **settings), None)  # type: ignore[arg-type]


def learned(spec: ModelSpec) -> Model:
    torch.manual_seed(0)
    return spec.build().eval()


def points(rows: int = 3, time: int = 6) -> Tensor:
    return torch.rand(rows, time, 3, generator=torch.Generator().manual_seed(3))


@torch.no_grad()
def test_a_pointer_is_the_softmax_of_the_papers_equation() -> None:
    """u_j = v · tanh(W₁ e_j + W₂ d), p = softmax(u), of Vinyals et al. 2015, equation 3, in double precision."""
    model = learned(POINTERS[0]).double()
    tokens, places = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([[0, 3, 1]])
    memory = model.encode(tokens)
    assert memory is not None
    states = model.features(Inputs(places, memory=memory))
    weights = {name.removeprefix("score."): weight for name, weight in model.head.named_parameters()}  # type: ignore[union-attr]
    for step in range(3):
        from_state = weights["query.weight"] @ states[0, step] + weights["query.bias"]
        scores = torch.stack(
            [
                weights["score.weight"][0] @ torch.tanh(weights["key.weight"] @ state + from_state)
                for state in memory.states[0]
            ]
        )
        expected = scores - scores.exp().sum().log()
        torch.testing.assert_close(model(places, memory)[0, step], expected)


@torch.no_grad()
def test_the_decoder_reads_what_it_pointed_at() -> None:
    """Sources that have the same at the chosen position give the decoder the same, and others don't."""
    model = learned(POINTERS[0])
    record = Record("decoder.embedded")
    tokens = torch.tensor([[4, 5, 6, 7], [8, 5, 3, 3]])
    model(torch.tensor([[1], [1]]), model.encode(tokens), probe=record)
    table: Any = model.get_parameter("decoder.embedding.of.tokens.weight")
    torch.testing.assert_close(record["decoder.embedded"][:, 0], table[[5, 5]])


@pytest.mark.parametrize("name", ["luong", "transformer-tiny", "bahdanau", "seq2seq"])
@torch.no_grad()
def test_any_decoder_can_point(name: str) -> None:
    """Step by step as in one piece, for several rows of one source, with sources of different lengths side by side."""
    spec = point(name)
    assert ModelSpec.parse(spec.model_dump(mode="json")) == spec
    model = learned(spec)
    valid = torch.tensor([[True] * 6, [True] * 3 + [False] * 3, [False] * 2 + [True] * 4])
    places = torch.tensor([[0, 2, 1], [0, 1, 2], [0, 3, 1]])
    memory = model.encode(points(), valid)
    whole = model(places, memory)
    state = model.start(3, memory)
    for time in range(3):
        torch.testing.assert_close(model.step(places[:, time], state), whole[:, time], atol=1e-5, rtol=1e-5)
    assert (whole.exp().sum(-1) - 1).abs().max() < 1e-5
    assert (whole[1, :, 3:] == -torch.inf).all() and (whole[2, :, 4:] == -torch.inf).all()
    for row in range(3):
        alone = model(places[row : row + 1], model.encode(points()[row : row + 1, valid[row]]))
        torch.testing.assert_close(whole[row, :, : alone.shape[-1]], alone[0], atol=1e-5, rtol=1e-5)
    beam = model.start(6, memory)  # two rows of each source
    twice = model.step(places[:, 0].repeat_interleave(2), beam)
    torch.testing.assert_close(twice, whole[:, 0].repeat_interleave(2, 0), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_sources_of_several_lengths_join_in_one_state() -> None:
    model = learned(point("transformer-tiny"))
    short, long = (model.encode(points(1, time)) for time in (3, 6))
    states = [model.start(1, memory) for memory in (short, long)]
    first = [model.step(torch.tensor([0]), state) for state in states]
    joined = State.join(states)
    again = [model.step(torch.tensor([1]), state) for state in states]
    both = model.step(torch.tensor([1, 1]), joined)
    assert [len(scores[0]) for scores in first] == [3, 6]
    for row, scores in enumerate(again):
        torch.testing.assert_close(both[row, : scores.shape[1]], scores[0], atol=1e-5, rtol=1e-5)
    assert (both[0, 3:] == -torch.inf).all()


@torch.no_grad()
def test_who_watches_sees_the_weights_and_may_change_them() -> None:
    model, tokens, places = learned(POINTERS[1]), torch.tensor([[4, 5, 6]]), torch.tensor([[0, 2]])
    memory, record = model.encode(tokens), Record("head.weights")
    plain = model(places, memory)
    assert torch.equal(model(places, memory, probe=record), plain)
    torch.testing.assert_close(record["head.weights"][:, 0], plain.exp())
    assert model.alignments == ("head.weights",)
    even = Edit({"head.weights": lambda weights: torch.full_like(weights, 1 / 3)})
    torch.testing.assert_close(model(places, memory, probe=even).exp(), torch.full((1, 2, 3), 1 / 3))


def test_what_cannot_point_is_refused_with_a_way_out() -> None:
    with pytest.raises(SpecError, match="head reads a memory of width 8, and the encoder leaves one of 12"):
        POINTERS[0].replace(head=Pointer(memory=8))
    with pytest.raises(SpecError, match="head reads a memory of width 16, and there is none"):
        preset("gpt2", width=16, depth=1, heads=2, vocabulary=9).replace(head="pointer")
    with pytest.raises(SpecError, match="pointing needs an encoder"):
        point("gpt2", heads=2)
    with pytest.raises(SpecError, match="vocabulary answers with words"):
        PointingTaskSpec(head="vocabulary").fit_model(preset("luong"), None)  # type: ignore[arg-type]
    model = learned(point("seq2seq"))
    with pytest.raises(InputError, match="positions of a source are integers"):
        model(points(), model.encode(points()))
