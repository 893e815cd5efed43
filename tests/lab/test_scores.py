"""What the experiment on attention's scores concludes."""

from __future__ import annotations

import pytest

import regard
from regard.lab.apparatus.experiment import Tables
from regard.lab.scores import CELLS, TABLE, AttentionScores, beats, describe_model, tell_cell
from regard.mixers.attentive import Attentive

Cell = tuple[str, str, bool]


def make_tables(exact: dict[Cell, float], speed: float = 900.0) -> Tables:
    rows = []
    for cell in CELLS:
        share = exact.get(cell, 0.7)
        row = dict(zip(("score", "when", "feed"), cell, strict=True))
        row |= {"loss": 0.5, "exact": share, "low": share - 0.03, "high": share + 0.03, "AER": 0.3}
        rows.append(row | {"tokens/s": speed if cell[0] == "additive" else 1000.0})
    return {TABLE: rows}


LOCATION, FED = ("location", "after", False), ("multiplicative", "after", True)


def test_all_four_parts_of_the_claim_are_needed() -> None:
    tables = make_tables({LOCATION: 0.3, FED: 0.8})
    found = AttentionScores().conclude(tables)
    assert found.shown
    assert "the best of all is multiplicative with feeding with 80%" in found.sentence
    assert "+10 points after the cell and by +0 before" in found.sentence


@pytest.mark.parametrize(
    "exact,speed",
    [
        ({LOCATION: 0.68, FED: 0.8}, 900.0),  # location is as good
        ({LOCATION: 0.3, FED: 0.72}, 900.0),  # feeding doesn't help by more than chance
        ({LOCATION: 0.3, FED: 0.8}, 1100.0),  # the additive score is quicker
        ({LOCATION: 0.3, FED: 0.8, ("additive", "after", False): 0.8}, 900.0),  # and better
    ],
)
def test_without_one_of_them_it_is_not_shown(exact: dict[Cell, float], speed: float) -> None:
    assert not AttentionScores().conclude(make_tables(exact, speed)).shown


def test_intervals_that_meet_tell_nothing() -> None:
    assert beats({"low": 0.6, "high": 0.7}, {"low": 0.4, "high": 0.5})
    assert not beats({"low": 0.6, "high": 0.7}, {"low": 0.5, "high": 0.6})


def test_plots_have_a_bar_for_each_cell() -> None:
    for plot in AttentionScores().draw(make_tables({})):
        (points,) = plot.series.values()
        assert len({point.place for point in points}) == len(CELLS)


@pytest.mark.parametrize("cell", CELLS)
def test_models_differ_in_their_attention_alone(cell: Cell) -> None:
    settings = describe_model(*cell)
    decoder = regard.preset(settings.pop("kind"), vocabulary=50, **settings).decoder
    assert decoder is not None
    mix = decoder.blocks[0].mix
    assert isinstance(mix, Attentive)
    assert (mix.score.kind, mix.when, mix.feed) == cell


def test_a_way_is_told_where_it_is_not_the_usual_one() -> None:
    told = [tell_cell(dict(zip(("score", "when", "feed"), cell, strict=True))) for cell in CELLS]
    assert told[0] == "dot"
    assert told[-1] == "multiplicative before the cell with feeding"
