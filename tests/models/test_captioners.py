"""Models that caption pictures: they read pictures and maps of any size, and are searched as translators are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.core.grid import Grid
from regard.core.inputs import Inputs
from regard.core.model import Model, ModelSpec
from regard.core.probe import Record
from regard.decode.ensemble import Ensemble
from regard.errors import SpecError
from regard.models import preset
from regard.runs.assembly import insist_on_vocabulary
from regard.runs.spec import ModelChoice

NAMES = ["show-attend-tell", "show-attend-tell-hard", "show-attend-tell-features", "captioner", "captioner-features"]
BEGIN, END = 1, 2


def small(name: str, **settings: Any) -> ModelSpec:
    torch.manual_seed(0)
    return preset(name, width=16, vocabulary=9, dropout=0.0, **settings)


def ready(spec: ModelSpec) -> Model:
    model = spec.build().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(torch.randn_like(weight), alpha=0.3)
    return model


def show(model: Model, rows: int = 3) -> Tensor:
    assert model.spec.encoder is not None and model.spec.encoder.embedding.picture is not None
    height, width, channels = model.spec.encoder.embedding.picture
    return torch.randn(rows, channels, height, width, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [*NAMES, "captioner-patches"])
def test_they_are_small(name: str) -> None:
    assert 1e6 < preset(name).build("meta").parameter_count() < 3e6


@pytest.mark.parametrize(("side", "places"), [(48, 6), (64, 8), (32, 4)])
def test_a_map_follows_the_picture(side: int, places: int) -> None:
    for name in ("show-attend-tell", "captioner", "captioner-patches"):
        assert (encoder := small(name).encoder) is not None
        assert encoder.embedding.redraw(side, side, 1).grid == Grid(places, places)


@pytest.mark.parametrize("halving", ["pool", "stride"])
def test_sides_are_halved_by_pooling_or_by_strides(halving: str) -> None:
    spec = small("show-attend-tell", halving=halving, narrowest=24)
    assert spec.encoder is not None and spec.encoder.embedding.grid == Grid(6, 6)
    model = ready(spec)
    sizes = [tuple(weight.shape[:2]) for name, weight in model.named_parameters() if "convolution.weight" in name]
    assert sizes == [(24, 3), (48, 24), (16, 48)]  # twice as many each time, and the last has the width
    memory = model.encode(show(model))
    assert memory is not None and memory.states.shape == (3, 36, 16)


def test_a_map_of_features_is_read_place_by_place() -> None:
    spec = small("show-attend-tell-features")
    assert spec.encoder is not None
    spec = spec.replace(encoder=spec.encoder.replace(embedding=spec.encoder.embedding.redraw(6, 4, 20)))
    model = ready(spec)
    features = show(model, 2)
    memory = model.encode(features)
    assert memory is not None and memory.states.shape == (2, 24, 16)
    changed = features.clone()
    changed[:, :, 1, 2] += 1  # the seventh place, row by row
    other = model.encode(changed)
    assert other is not None
    assert (other.states != memory.states).any(-1).any(0).nonzero()[:, 0].tolist() == [6]


@pytest.mark.parametrize("name", NAMES)
def test_words_are_resized_and_the_picture_stays(name: str) -> None:
    spec = small(name)
    for changed in (spec.resize(30, 30), spec.resize(40, 30), spec.grow(30, 30)):
        assert changed.decoder is not None and changed.decoder.embedding.token_count == 30
        assert changed.encoder == spec.encoder
        assert ready(changed)(torch.tensor([[29]]), Inputs(show(ready(changed), 1))).shape == (1, 1, 30)
    assert spec.grow(5, 5) is spec  # the encoder has no words to make room for


def test_a_model_of_ones_own_needs_as_many_words_as_there_are() -> None:
    choice = ModelChoice.read(small("captioner").model_dump())
    insist_on_vocabulary(choice, 9, 9)
    insist_on_vocabulary(choice, 5, 9)
    with pytest.raises(SpecError, match=r"decoder.embedding.vocabulary: 9, and the tokenizer has 8"):
        insist_on_vocabulary(choice, 8, 8)


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
def test_they_are_searched_as_translators_are(name: str) -> None:
    model = ready(small(name))
    pictures = show(model)
    greedy = model.generate(pictures, begin=BEGIN, end=END, max_tokens=6)
    # greedy by hand, each picture alone
    for row, written in enumerate(greedy):
        tokens = [BEGIN]
        while len(tokens) <= 6 and tokens[-1] != END:
            logits = model(torch.tensor([tokens]), Inputs(pictures[row : row + 1]))
            tokens.append(int(logits[0, -1].argmax()))
        assert written[: len(tokens) - 1] == tokens[1:]
    settings = regard.Search(beam=4, best=2, max_tokens=6)
    memory = model.encode(pictures)
    found = regard.beam_search(model, memory, 3, BEGIN, END, settings, attention=True)
    assert all(len(best) == 2 for best in found)
    for row, (best, _) in enumerate(found):
        inputs = torch.tensor([[BEGIN, *best.tokens[:-1]]])
        look = Record(*model.alignments)
        logs = model(inputs, Inputs(pictures[row : row + 1]), probe=look).log_softmax(-1)[0]
        again = logs.gather(1, torch.tensor(best.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(best.log_probabilities), again, atol=1e-4, rtol=1e-4)
        assert model.spec.encoder is not None and model.spec.encoder.embedding.grid is not None
        assert best.attention is not None and best.attention.shape[1] == model.spec.encoder.embedding.grid.count
        assert look[model.alignments[0]].shape[2:] == best.attention.shape


@torch.no_grad()
def test_a_recurrent_and_an_attentive_model_caption_together() -> None:
    one, other = ready(small("show-attend-tell")), ready(small("captioner"))
    both, pictures = Ensemble([one, other]), show(one)
    settings = regard.Search(beam=3, max_tokens=5)
    for row, (best, *_) in enumerate(regard.beam_search(both, both.encode(pictures), 3, BEGIN, END, settings)):
        inputs, seen = torch.tensor([[BEGIN, *best.tokens[:-1]]]), Inputs(pictures[row : row + 1])
        mean = torch.stack([model(inputs, seen).softmax(-1)[0] for model in (one, other)]).mean(0)
        logs = mean.log().gather(1, torch.tensor(best.tokens)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(best.log_probabilities), logs, atol=1e-4, rtol=1e-4)


def test_a_map_has_no_slots_but_positions() -> None:
    spec = small("show-attend-tell", mix={"cell": "gru"}, position="sinusoidal")
    assert spec.encoder is not None and spec.encoder.depth == 0
    assert spec.encoder.embedding.absolute is not None and spec.encoder.embedding.absolute.kind == "sinusoidal"
