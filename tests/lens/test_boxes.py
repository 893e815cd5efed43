"""Attention against gold boxes: cases that are computed by hand."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.grid import Grid
from regard.data.corpora.scenes import Scenes
from regard.errors import InputError
from regard.lens.boxes import ALL, WatchedCaption, cover_places, measure_boxes, points_into, spread_map

FOUR = Grid(2, 2)


def test_a_place_counts_by_its_area_in_the_box() -> None:
    """A picture of 4 × 8 pixels in 2 × 2 places of 2 × 4; the box takes rows 1 to 3 and columns 2 to 7."""
    assert cover_places((1, 2, 4, 8), FOUR, 4, 8).tolist() == [[0.25, 0.5], [0.5, 1.0]]
    thirds = cover_places((0, 0, 2, 4), Grid(3, 1), 4, 4)  # places 4/3 of a pixel high
    assert thirds[:, 0] == pytest.approx([1, 0.5, 0])


def test_places_that_stand_further_up_are_measured_there() -> None:
    """Half a place up and left, as convolutions have it that begin at the edge: rows end at 1, columns at 2."""
    moved = Grid(2, 2, offset=-0.5)
    assert cover_places((0, 0, 1, 2), moved, 4, 8).tolist() == [[1, 0], [0, 0]]
    assert cover_places((1, 0, 3, 8), moved, 4, 8).tolist() == [[0, 0], [2 / 3, 2 / 3]]
    last = np.array([[0.0, 0.0], [0.0, 1.0]])  # its middle: row 2, column 4
    assert points_into(last, (2, 4, 3, 5), moved, 4, 8) and not points_into(last, (3, 6, 4, 8), moved, 4, 8)
    alike = WatchedCaption(np.ones((1, 4)), [(0, 0, 1, 2)], [None], 4, 8)
    assert measure_boxes([alike], moved)[ALL].gain == pytest.approx(1)


def test_shares_pointing_and_chance_are_as_computed_by_hand() -> None:
    maps = np.array([[0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    box = (1, 2, 4, 8)
    caption = WatchedCaption(maps, [box, box, None], ["colour", "shape", None], 4, 8)
    scores = measure_boxes([caption], FOUR)
    assert list(scores) == [ALL, "colour", "shape"]
    assert scores["colour"].inside.value == pytest.approx(0.1 * 0.25 + 0.2 * 0.5 + 0.3 * 0.5 + 0.4)
    assert scores["shape"].inside.value == pytest.approx(0.25)
    assert scores[ALL].inside.value == pytest.approx((0.675 + 0.25) / 2)
    assert scores[ALL].uniform == scores["shape"].uniform == 18 / 32
    assert (scores["colour"].pointing.value, scores["shape"].pointing.value) == (1, 1)  # centres (3, 6) and (1, 2)
    assert (scores[ALL].words, scores["shape"].words) == (2, 1)
    assert scores["shape"].gain == pytest.approx(0.25 / (18 / 32))
    assert scores[ALL].as_json()["inside"] == scores[ALL].inside.value


def test_a_centre_on_the_lower_border_is_outside() -> None:
    weights = np.array([[0.0, 0.0], [1.0, 0.0]])  # its centre: row 3, column 2
    assert points_into(weights, (3, 2, 4, 3), FOUR, 4, 8)
    assert not points_into(weights, (0, 0, 3, 8), FOUR, 4, 8)
    assert not points_into(weights, (0, 0, 4, 2), FOUR, 4, 8)


def test_attention_that_looks_everywhere_has_the_uniform_share() -> None:
    captions = [
        WatchedCaption(np.ones((len(boxed.words), 37)), boxed.boxes, boxed.kinds, 48, 48)
        for boxed in Scenes(train=30).list_boxes("train")
    ]
    scores = measure_boxes(captions, Grid(6, 6, first=1))
    assert set(scores) == {ALL, "size", "colour", "texture", "shape", "relation"}
    for score in scores.values():
        assert score.inside.value == pytest.approx(score.uniform) and score.gain == pytest.approx(1)
        assert score.inside.low <= score.inside.value <= score.inside.high
    assert scores["relation"].uniform > scores["shape"].uniform


def test_attention_on_the_box_alone_is_all_inside() -> None:
    captions = list[WatchedCaption]()
    grid = Grid(48, 48)
    for boxed in Scenes(train=10).list_boxes("train"):
        maps = [np.ones((48, 48)) if box is None else cover_places(box, grid, 48, 48) for box in boxed.boxes]
        captions.append(WatchedCaption(np.stack(maps), boxed.boxes, boxed.kinds, 48, 48))
    found = measure_boxes(captions, grid)[ALL]
    assert found.inside == (1, 1, 1) and found.pointing == (1, 1, 1) and found.gain > 3


def test_intervals_are_over_pictures() -> None:
    """Words of one picture that agree say no more than one of them; two pictures that differ say little."""
    box = (0, 0, 2, 4)
    right = WatchedCaption(np.array([[1.0, 0, 0, 0]] * 50), [box] * 50, ["shape"] * 50, 4, 8)
    wrong = WatchedCaption(np.array([[0, 0, 0, 1.0]] * 50), [box] * 50, ["shape"] * 50, 4, 8)
    assert measure_boxes([right, wrong], FOUR)[ALL].inside == (0.5, 0, 1)


@pytest.mark.parametrize(
    ("weights", "grid", "told"),
    [
        (np.ones(5), FOUR, "5 weights"),
        (np.zeros(4), FOUR, "not 0 everywhere"),
        (np.array([1, np.nan, 0, 0]), FOUR, "finite"),
        (np.array([2.0, -1, 0, 0]), FOUR, "not below 0"),
        (np.ones(12), Grid(2, 2, 3), "3 positions a place"),
    ],
)
def test_what_is_no_map_is_refused(weights: np.ndarray, grid: Grid, told: str) -> None:
    with pytest.raises(InputError, match=told):
        spread_map(weights, grid)


def test_a_box_outside_of_the_picture_is_refused() -> None:
    with pytest.raises(InputError, match=r"\(0, 0, 5, 4\)"):
        cover_places((0, 0, 5, 4), FOUR, 4, 8)
    with pytest.raises(InputError, match="no word has a box"):
        measure_boxes([WatchedCaption(np.ones((1, 4)), [None], [None], 4, 8)], FOUR)
    with pytest.raises(InputError, match="one a word"):
        measure_boxes([WatchedCaption(np.ones((2, 4)), [None], [None], 4, 8)], FOUR)
