"""Attention for captions: the equations of Show, Attend and Tell, its doubly stochastic term, drawn places."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from regard.core.inputs import Inputs
from regard.core.model import Model
from regard.core.padding import Padding
from regard.core.probe import Record
from regard.data.batches import make_batch
from regard.errors import SpecError
from regard.mixers.attentive import Attentive, AttentiveRecurrence
from regard.models import preset
from regard.parts.score import draw_places
from regard.train.costs import Costs

PATH = "decoder.blocks.0.mix"
SIZES = {"map": "patches", "width": 8, "image": 8, "patch": 4, "channels": 1, "vocabulary": 7, "dropout": 0.0}


def build(name: str = "show-attend-tell", **settings: object) -> Model:
    torch.manual_seed(0)
    model = preset(name, **SIZES, **settings).build()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    return model.eval()


def mixer(model: Model) -> AttentiveRecurrence:
    assert model.decoder is not None
    found = model.decoder.layers()[0].mixer
    assert isinstance(found, AttentiveRecurrence)
    return found


def pictures(rows: int) -> Tensor:
    return torch.randn(rows, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def words(lengths: list[int]) -> Inputs:
    generator = torch.Generator().manual_seed(2)
    return Inputs.pad([torch.randint(7, (size,), generator=generator).tolist() for size in lengths], 0)


@torch.no_grad()
def test_it_computes_the_equations_of_show_attend_and_tell() -> None:
    model = build()
    part, tokens = mixer(model), torch.tensor([[1, 4, 2], [3, 3, 5]])
    assert model.encoder is not None and model.decoder is not None and model.head is not None
    places = model.encode(pictures(2)).states  # type: ignore[union-attr]
    first = torch.tanh(part.bridge.dense(places.mean(1)))  # type: ignore[misc]
    h, c = first.chunk(2, -1)  # a layer each: h first
    cell = torch.nn.LSTMCell(16, 8)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, getattr(part.cell.fused, f"{name}_l0"))
    reader: Any = model.decoder.embedding
    found = []
    for time in range(3):
        y = reader.table(tokens[:, time])
        score = part.score
        e = score.score(torch.tanh(score.query(h)[:, None] + score.key(places)))[..., 0]  # type: ignore[operator]
        alpha = e.softmax(-1)
        beta = torch.sigmoid(part.gate(h))  # type: ignore[misc]
        assert beta.shape == (2, 1)
        z = beta * (alpha[..., None] * places).sum(1)
        h, c = cell(torch.cat((y, z), -1), (h, c))
        deep = y + part.output(torch.cat((h, z), -1))
        found.append(model.head.words.score(deep, model.head.bias))  # type: ignore[union-attr, operator]
    torch.testing.assert_close(model(tokens, model.encode(pictures(2))), torch.stack(found, 1))


def test_a_deep_output_reads_the_input_before_the_cell_only() -> None:
    with pytest.raises(SpecError, match="when=before"):
        Attentive(readout="deep", when="after")


def reckon(model: Model, given: Inputs, places: Tensor) -> float:
    """Σ over rows and locations of (1 - Σ over the row's own words of α)², row by row and word by word."""
    total = 0.0
    for row, length in enumerate(given.real.sum(1).tolist()):
        look = Record(f"{PATH}.weights")
        model(given.tokens[row : row + 1, :length], model.encode(places[row : row + 1]), probe=look)
        for place in look[f"{PATH}.weights"][0, 0].T.tolist():
            total += (1 - sum(place)) ** 2
    return total


def test_the_doubly_stochastic_term_is_summed_over_locations_and_pads_are_masked() -> None:
    model, given, places = build(doubly=0.7), words([2, 5, 3]), pictures(3)
    costs = Costs(model)
    with costs.watch():
        model(Inputs(given.tokens, given.valid, memory=Inputs(places)))
    size = int(given.real.sum())
    expected = reckon(model, given, places)
    # beside a loss that is a sum over rows, it is the sum over rows, times its weight
    assert float(costs.charge(torch.zeros(()), size).detach()) == pytest.approx(0.7 * expected, rel=1e-5)
    assert costs.settle() == {"doubly": pytest.approx(expected / size, rel=1e-5)}


def test_batches_of_any_size_add_up_to_one() -> None:
    model, places = build(doubly=1.0), pictures(4)
    given = words([2, 5, 3, 4])
    lengths = given.real.sum(1).tolist()

    def gradients(groups: list[list[int]]) -> list[Tensor]:
        model.zero_grad()
        costs = Costs(model)
        for rows in groups:
            padding = Padding([lengths[row] for row in rows])
            with costs.watch():
                model(Inputs(given.tokens[rows, : padding.time], padding, memory=Inputs(places[rows])))
            costs.charge(torch.zeros(()), sum(padding.lengths)).backward()
        return [weight.grad for weight in model.parameters() if weight.grad is not None]

    for one, other in zip(gradients([[0, 1, 2, 3]]), gradients([[0], [1, 2, 3]]), strict=True):
        torch.testing.assert_close(one, other)


def test_without_a_weight_nothing_is_computed_for_it() -> None:
    model = build(doubly=0.0)
    assert not Costs(model).parts
    assert f"{PATH}.doubly" not in model.names()


@torch.no_grad()
def test_what_is_drawn_follows_the_weights() -> None:
    torch.manual_seed(3)
    weights = torch.tensor([0.5, 0.2, 0.0, 0.3])
    drawn = draw_places(weights.expand(20_000, 4))
    assert set(drawn.weights.sum(-1).tolist()) == {1.0}
    torch.testing.assert_close(drawn.weights.mean(0), weights, atol=0.012, rtol=0)
    torch.testing.assert_close(drawn.log_probabilities, (drawn.weights @ weights).log())
    assert draw_places(torch.zeros(1, 3)).weights.sum() == 0  # where there is nothing to look at


@torch.no_grad()
def test_places_are_drawn_in_training_and_expected_in_use() -> None:
    model = build("show-attend-tell-hard")
    soft = build(hard=False)
    given, places = words([4] * 40).tokens, pictures(1).expand(40, -1, -1, -1)
    torch.testing.assert_close(model(given, model.encode(places)), soft(given, soft.encode(places)))
    look = Record(f"{PATH}.weights", f"{PATH}.choices", f"{PATH}.entropy")
    torch.manual_seed(4)
    model.train()(given, model.encode(places), probe=look)
    weights, choices = look[f"{PATH}.weights"][:, 0], look[f"{PATH}.choices"][..., 0]
    drawn = (weights.amax(-1) == 1).all(1)
    assert 8 < int(drawn.sum()) < 32  # a coin for each row
    assert ((choices < 0).all(1) == drawn).all() and ((choices == 0).all(1) == ~drawn).all()
    assert (look[f"{PATH}.entropy"] > 0).all()
    torch.manual_seed(4)
    again = Record(f"{PATH}.weights")
    model(given, model.encode(places), probe=again)  # who hears less changes nothing, and chance is torch's own
    assert torch.equal(again[f"{PATH}.weights"][:, 0], weights)


def test_what_a_decoder_reads_is_what_it_predicts() -> None:
    """So a cost over real words is one over predictions: the end of a short row predicts nothing, and isn't read."""
    batch = make_batch([[5], [5, 6]], [[7], [7, 8, 9]], 0, 1, 2)
    read = batch.target.without_last()
    assert int(read.real.sum()) == batch.tokens == 6
    assert read.tokens[read.real].tolist() == [1, 7, 1, 7, 8, 9]
