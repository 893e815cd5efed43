"""What the experiment on one vector concludes, and the sizes of its models."""

from __future__ import annotations

import pytest

import regard
from regard.lab.apparatus.experiment import Tables
from regard.lab.bottleneck import ATTENTION, MEAN, MODELS, NONE, QUALITY, Bottleneck, describe_model
from regard.runs.demo import LENGTHS


def make_tables(narrow: list[float], wide: list[float]) -> Tables:
    shares = dict.fromkeys(MODELS, wide) | {NONE: narrow, MEAN: narrow}
    return {
        QUALITY: [
            {"model": name, "parameters": 480_000, "loss": 0.5, "exact": sum(each) / 4}
            | dict(zip(LENGTHS, each, strict=True))
            for name, each in shares.items()
        ]
    }


def test_a_lead_that_grows_with_length_is_a_bottleneck() -> None:
    found = Bottleneck().conclude(make_tables([0.6, 0.3, 0.1, 0.0], [0.9, 0.9, 0.8, 0.7]))
    assert found.shown
    assert "60% of the sentences with 1-6 words" in found.sentence
    assert "from 30 to 70 points" in found.sentence


@pytest.mark.parametrize("wide", [[0.9, 0.6, 0.3, 0.1], [0.5, 0.2, 0.0, 0.0]])
def test_a_lead_that_shrinks_or_is_none_shows_nothing(wide: list[float]) -> None:
    assert not Bottleneck().conclude(make_tables([0.6, 0.3, 0.1, 0.0], wide)).shown


def test_every_model_is_a_series_over_the_lengths() -> None:
    (plot,) = Bottleneck().draw(make_tables([0.6, 0.3, 0.1, 0.0], [0.9, 0.9, 0.8, 0.7]))
    assert list(plot.series) == list(MODELS)
    assert [point.place for point in plot.series[ATTENTION]] == list(LENGTHS)


def test_all_models_have_nearly_as_many_parameters() -> None:
    counts = []
    for name in MODELS:
        settings = describe_model(name)
        counts.append(regard.preset(settings.pop("kind"), vocabulary=2000, **settings).build().parameter_count())
    assert max(counts) < 1.05 * min(counts)
