"""What the experiment on alignment concludes, and the diagonal that it compares with."""

from __future__ import annotations

from typing import Any

import pytest

from regard.lab.alignment import CUTS, DIAGONAL, LEARNING, RECURRENT, TRANSFORMER, WHOLE, Alignment, link_diagonal
from regard.lab.apparatus.experiment import Tables


def make_row(model: str, step: int | None, error: float) -> dict[str, Any]:
    tokens = None if step is None else 500 * step
    row = {"model": model, "step": step, "tokens": tokens, "loss": 1.0, "exact": 0.5}
    return row | {"AER": error, "low": error - 0.02, "high": error + 0.02}


def make_tables(ended: float, losses: dict[str, float]) -> Tables:
    learning = [
        make_row(name, step, error) for name in (RECURRENT, TRANSFORMER) for step, error in ((80, 0.8), (160, ended))
    ]
    cuts: list[dict[str, Any]] = [{"cut": WHOLE, "AER": None, "loss": 0.1, "exact": 0.9}]
    errors = {"0.0": 0.2, "0.1": 0.6}
    cuts += [{"cut": cut, "AER": errors[cut], "loss": loss, "exact": 0.9 - loss} for cut, loss in losses.items()]
    return {LEARNING: [*learning, make_row(DIAGONAL, None, 0.6)], CUTS: cuts}


def test_free_links_and_another_head_that_is_needed_more() -> None:
    found = Alignment().conclude(make_tables(0.25, {"0.0": 0.1, "0.1": 0.3}))
    assert found.shown
    assert "from 80% to 25% in the recurrent network" in found.sentence
    assert "(0.0, 20%) costs 10 points of exact match, while head 0.1, with an error of 60%, costs 30" in found.sentence


@pytest.mark.parametrize("ended,losses", [(0.7, {"0.0": 0.1, "0.1": 0.3}), (0.25, {"0.0": 0.3, "0.1": 0.1})])
def test_bad_links_or_a_best_head_that_is_needed_most(ended: float, losses: dict[str, float]) -> None:
    assert not Alignment().conclude(make_tables(ended, losses)).shown


def test_plots_have_the_diagonal_as_a_guide() -> None:
    errors, cuts = Alignment().draw(make_tables(0.25, {"0.0": 0.1, "0.1": 0.3}))
    assert list(errors.series) == [RECURRENT, TRANSFORMER]
    assert {point.value for point in errors.guides[DIAGONAL]} == {0.6}
    assert [point.place for point in next(iter(cuts.series.values()))] == [WHOLE, "0.0", "0.1"]


def test_a_diagonal_links_each_target_word_to_the_same_share_of_the_source() -> None:
    assert link_diagonal(3, 3) == {(0, 0), (1, 1), (2, 2)}
    assert link_diagonal(2, 4) == {(0, 0), (0, 1), (1, 2), (1, 3)}
    assert link_diagonal(4, 2) == {(1, 0), (3, 1)}
    assert link_diagonal(1, 3) == {(0, 0), (0, 1), (0, 2)}
