"""What the experiment on one vector concludes, and the sizes of its models."""

from __future__ import annotations

import pytest

import regard
from regard.lab.apparatus.experiment import Tables
from regard.lab.bottleneck import ATTENTION, LOSS, MEAN, MODELS, NONE, QUALITY, Bottleneck, describe_model
from regard.runs.demo import LENGTHS


def make_tables(behind: list[float], wide: list[float]) -> Tables:
    """One vector's loss above attention's by length, and what attention gets right."""
    model = {"parameters": 480_000}
    shares = dict.fromkeys(MODELS, wide) | {name: [0.2, 0.1, 0.1, 0.0] for name in (NONE, MEAN)}
    losses = dict.fromkeys(MODELS, [0.5] * 4) | {NONE: [0.5 + each for each in behind]}
    return {
        QUALITY: [
            {"model": name, **model, "exact": sum(each) / 4} | dict(zip(LENGTHS, each, strict=True))
            for name, each in shares.items()
        ],
        LOSS: [
            {"model": name, **model, "loss": sum(each) / 4} | dict(zip(LENGTHS, each, strict=True))
            for name, each in losses.items()
        ],
    }


WIDE = [0.9, 0.9, 0.8, 0.7]


def test_falling_behind_with_length_is_a_bottleneck() -> None:
    found = Bottleneck().conclude(make_tables([0.6, 0.8, 1.0, 1.5], WIDE))
    assert found.shown
    assert "20% of the sentences with 1-6 words" in found.sentence
    assert "0.60 nats a token behind in the former and 1.50 in the latter" in found.sentence
    assert "the mean of all states gets 10%" in found.sentence


@pytest.mark.parametrize(
    "behind,wide", [([0.6, 0.6, 0.6, 0.5], WIDE), ([-0.5, -0.4, -0.3, -0.1], WIDE), ([0.6, 0.8, 1.0, 1.5], [0.0] * 4)]
)
def test_a_lead_that_shrinks_or_is_none_shows_nothing(behind: list[float], wide: list[float]) -> None:
    assert not Bottleneck().conclude(make_tables(behind, wide)).shown


def test_every_model_is_a_series_over_the_lengths() -> None:
    for plot in Bottleneck().draw(make_tables([0.6, 0.8, 1.0, 1.5], WIDE)):
        assert list(plot.series) == list(MODELS)
        assert [point.place for point in plot.series[ATTENTION]] == list(LENGTHS)


def test_all_models_have_nearly_as_many_parameters() -> None:
    counts = []
    for name in MODELS:
        settings = describe_model(name)
        counts.append(regard.preset(settings.pop("kind"), vocabulary=2000, **settings).build().parameter_count())
    assert max(counts) < 1.05 * min(counts)
