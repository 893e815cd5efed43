"""Pointing as a task: what counts as right, what is refused, and a model that learns it."""

from __future__ import annotations

import math
from itertools import islice
from typing import Any

import pytest
import torch

from regard.data.corpora.points import SortPoints
from regard.data.log import Unusable
from regard.decode.pointing import PointSelector, lay_points
from regard.decode.search import Search
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.runs.evaluate import TestSet, read_samples
from regard.tasks.pointing import PointingTaskSpec, is_right, make_batch, price


def selector(once: bool = True, **search: int) -> PointSelector:
    torch.manual_seed(1)
    spec = PointingTaskSpec().fit_model(preset("pointer-network", width=16), None)  # type: ignore[arg-type]
    return PointSelector(spec.build().eval(), Search(**search), once)


FOUR = [[0.1, 0.1], [0.9, 0.2], [0.5, 0.4], [0.4, 0.9]]


def test_a_ring_is_right_wherever_it_begins_and_in_one_direction() -> None:
    ring = {"points": FOUR, "target": [1, 2, 4], "ring": True}
    assert all(is_right(ring, answer) for answer in ([1, 2, 4], [2, 4, 1], [4, 1, 2]))
    assert not any(is_right(ring, answer) for answer in ([4, 2, 1], [1, 2], [1, 2, 4, 3], [], [3, 2, 4]))
    assert is_right({"points": FOUR, "target": [1, 2]}, [1, 2]) and not is_right({"target": [1, 2]}, [2, 1])


@torch.no_grad()
def test_the_loss_is_that_of_each_pointing_and_of_the_stop() -> None:
    model = selector().model
    batch = make_batch([FOUR, FOUR[:3]], [[1, 2, 4], [2]])
    found = price(model, batch)
    for row, (points, target) in enumerate(((FOUR, [1, 2, 4]), (FOUR[:3], [2]))):
        logs = model(torch.tensor([[0, *target]]), model.encode(lay_points([points])))[0]
        expected = -logs[range(len(target) + 1), [*target, 0]]
        torch.testing.assert_close(found[row, : len(expected)], expected, atol=1e-5, rtol=1e-5)
        assert not found[row, len(expected) :].any()
    assert batch.tokens == 6


def test_a_point_is_chosen_once_and_a_hull_has_three_corners() -> None:
    for beam in (1, 3):
        orders = [answer.order for answer in selector(min_tokens=3, beam=beam).point([FOUR, FOUR[:3], FOUR * 3])]  # type: ignore[union-attr]
        assert all(len(set(order)) == len(order) >= 3 for order in orders)
    assert any(
        len(set(answer.order)) < len(answer.order)
        for answer in selector(once=False, min_tokens=4).point([FOUR, FOUR[:3]])  # type: ignore[union-attr]
    )
    chosen = selector(min_tokens=3).point(FOUR)
    assert not isinstance(chosen, list)
    assert chosen.points == [tuple(FOUR[place - 1]) for place in chosen.order]
    assert len(chosen.log_probabilities) == len(chosen.order) + 1 and chosen.as_json()["order"] == chosen.order


def test_a_wide_beam_finds_the_best_of_all_orders() -> None:
    from itertools import permutations

    pipeline = selector()
    every = [[*order, 0] for size in range(4) for order in permutations((1, 2, 3), size)]
    memory = lay_points([FOUR[:3]])
    with torch.no_grad():
        logs = [pipeline.model(torch.tensor([[0, *order[:-1]]]), pipeline.model.encode(memory))[0] for order in every]
    sums = [float(log[range(len(order)), order].sum()) for log, order in zip(logs, every, strict=True)]
    [[best]] = pipeline.find([FOUR[:3]], Search(beam=16, length="none"))
    assert best.tokens == every[sums.index(max(sums))] and math.isclose(best.score, max(sums), abs_tol=1e-4)


def test_what_cannot_be_learned_or_asked_is_told() -> None:
    task = PointingTaskSpec()
    with pytest.raises(Unusable, match=r"\[1.5, 0\] isn't in the unit square"):
        task.receive({"points": [[1.5, 0]], "target": [1]})
    with pytest.raises(Unusable, match="places from 1 to 1"):
        task.receive({"points": [[0.5, 0]], "target": [2]})
    with pytest.raises(InputError, match="unit square"):
        selector().point([[2.0, 0.1]])
    with pytest.raises(InputError, match="isn't a list of points"):
        selector().lay_out("here")
    strangers: list[Any] = [[[]], 5, [5], "ab", [["a", "b"]], [[0.1]], [[0.1, 0.2], 5], {"x": 1}]
    for strange in strangers:
        with pytest.raises(InputError, match="points are pairs of numbers") as told:
            selector().point(strange)
        assert "[[0.1, 0.2], [0.5, 0.4]]" in str(told.value)
    assert selector().point([]) == []
    with pytest.raises(SpecError, match="once is about pieces"):
        selector().point(FOUR, filters=["once"])


def test_a_reading_names_the_points_and_what_is_pointed_at() -> None:
    reading = selector().lay_out("0.1 0.1, 0.9 0.2, 0.5 0.4", "1 3")
    assert reading.source is not None and reading.source.pieces == ("⇐", "0.1 0.1", "0.9 0.2", "0.5 0.4")
    assert reading.tokens.pieces == ("⇒", "1", "3") and reading.targets == {0: 1, 1: 3, 2: 0}


def test_a_small_network_learns_to_sort_three_points() -> None:
    torch.manual_seed(0)
    samples = list(islice(SortPoints(sizes=(2, 3)).stream("points", "train"), 1600))
    spec = PointingTaskSpec().fit_model(preset("pointer-network", width=32), None)  # type: ignore[arg-type]
    model = spec.build()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for step in range(100):
        part = samples[(step * 64) % 1536 :][:64]
        batch = make_batch([sample["points"] for sample in part], [sample["target"] for sample in part])
        loss = price(model, batch).sum() / batch.tokens
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    measured = PointingTaskSpec().measure(PointSelector(model.eval()), samples[1536:])
    assert measured["exact"] > 0.8 and set(measured["by_size"]) == {2, 3}


def test_a_model_is_measured_on_a_corpus_that_is_made_for_it() -> None:
    """Other sizes than those that a run was tested on, without training again."""
    wanted = TestSet(["{kind: hull, test: 3, test_sizes: [7, 7]}"])
    assert [len(sample["points"]) for sample in read_samples(None, PointingTaskSpec(), wanted)] == [7, 7, 7]
    with pytest.raises(SpecError, match=r"copy has pairs .*, and pointing needs points"):
        read_samples(None, PointingTaskSpec(), TestSet(["{kind: copy, test: 3}"]))
