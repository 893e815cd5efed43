"""Corpora of points: every hull is checked by brute force."""

from __future__ import annotations

from itertools import islice, permutations
from random import Random

import pytest

from regard.data.corpora.points import Hull, PointSpec, SortPoints, find_hull
from regard.data.sample import FormSpec, Sample
from regard.errors import SpecError

Whole = tuple[int, int]


def some(corpus: PointSpec, count: int = 60, split: str = "train") -> list[Sample]:
    return list(islice(corpus.stream("points", split), count))  # type: ignore[arg-type]


def list_edges(points: list[Whole]) -> set[tuple[Whole, Whole]]:
    """Every ordered pair such that all other points lie strictly to its left, or between the two."""

    def is_edge(a: Whole, b: Whole) -> bool:
        for c in points:
            side = (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
            between = min(a[0], b[0]) <= c[0] <= max(a[0], b[0]) and min(a[1], b[1]) <= c[1] <= max(a[1], b[1])
            if side < 0 or (side == 0 and not between):
                return False
        return True

    return {(a, b) for a, b in permutations(dict.fromkeys(points), 2) if is_edge(a, b)}


def check_hull(points: list[Whole], ring: list[int]) -> None:
    corners = [points[place] for place in ring]
    assert set(zip(corners, corners[1:] + corners[:1], strict=True)) == list_edges(points)
    assert corners[0] == min(points)


@pytest.mark.parametrize("seed", range(40))
def test_a_hull_has_the_edges_that_all_points_lie_to_the_left_of(seed: int) -> None:
    chance = Random(seed)
    side = 10_000 if seed % 2 else 4  # a small grid has points that are equal, and many on one line
    points = [(chance.randrange(side), chance.randrange(side)) for _ in range(chance.randint(3, 14))]
    if len(list_edges(points)) < 3:
        points += [(0, 0), (side, 0), (0, side)]
    check_hull(points, find_hull([(x / 10_000, y / 10_000) for x, y in points]))


def test_a_corpus_has_points_of_its_sizes_and_their_hulls() -> None:
    for sample in some(Hull(sizes=(3, 20))):
        assert not FormSpec.parse("points").find_fault(sample)
        assert 3 <= len(sample["points"]) == sample["size"] <= 20
        whole = [(round(x * 10_000), round(y * 10_000)) for x, y in sample["points"]]
        check_hull(whole, [place - 1 for place in sample["target"]])


def test_a_hull_may_begin_with_the_corner_that_was_given_first() -> None:
    for left, given in zip(some(Hull()), some(Hull(begins="given")), strict=True):
        assert left["points"] == given["points"] and given["target"][0] == min(given["target"])
        place = left["target"].index(given["target"][0])
        assert left["target"][place:] + left["target"][:place] == given["target"]


def test_sorted_points_go_from_left_to_right() -> None:
    for sample in some(SortPoints()):
        xs = [sample["points"][place - 1][0] for place in sample["target"]]
        assert xs == sorted(xs) and sorted(sample["target"]) == list(range(1, len(sample["points"]) + 1))


def test_splits_and_seeds_differ_and_tests_may_be_larger() -> None:
    corpus = Hull(sizes=(5, 6), test_sizes=(9, 9))
    assert some(corpus) == some(corpus) != some(corpus.replace(seed=1))
    assert {len(sample["points"]) for sample in some(corpus, split="test")} == {9}
    assert not {str(sample["points"]) for sample in some(corpus)} & {
        str(sample["points"]) for sample in some(corpus, split="validation")
    }
    with pytest.raises(SpecError, match="hull: 2 to 5 points"):
        some(Hull(sizes=(2, 5)))
