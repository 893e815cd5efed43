"""A sweep tries what it is told, ranks on validation data, and goes on where it was stopped."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.data.prepared import digest
from regard.errors import RegardError
from regard.runs.budget import Budget
from regard.runs.demo import recipe
from regard.runs.folder import Run
from regard.runs.sweep import Axis, Sweep, SweepRow, choose_points, name_point, split_values
from regard.tasks.measures import Measure
from regard.train.goal import Goal
from tests.runs.recipes import DECODER, make_recipe

RATES = "train.optimizer.rate=0.001,0.02,1e30"


def read(*words: str) -> list[Axis]:
    return [Axis.read(word) for word in words]


def test_a_grid_is_ranked_and_what_diverged_comes_last(tmp_path: Path) -> None:
    recipe = make_recipe(DECODER, "train.clip=null", "train.minutes=9")
    asked: dict[str, Any] = {"axes": read(RATES, "model.depth=1,2"), "out": tmp_path, "budget": Budget("steps", 4)}
    first = Sweep(recipe, **asked)
    rows = first.conduct()
    assert first.goal == Goal("loss", False) and first.found == 0 and len(rows) == 6
    values = [row.value.value for row in rows if row.value is not None]
    assert values == sorted(values) and len(values) == 4
    assert all("loss nan" in row.failure for row in rows[4:])
    best = Run.open(Path(rows[0].find_run(first.goal)))
    assert (best.spec.train.steps, best.spec.train.minutes) == (4, None)
    again = recipe.change(["out=x", *rows[0].spell().split()])
    assert again.tree["train"]["optimizer"]["rate"] == best.spec.train.optimizer.rate

    shutil.rmtree(rows[0].runs[0])
    second = Sweep(recipe, **asked)
    assert [row.runs for row in second.conduct()] == [row.runs for row in rows]
    assert second.found == 5  # what diverged isn't tried again either


def test_seeds_are_averaged(tmp_path: Path) -> None:
    axes = read("train.optimizer.rate=0.001,0.02")
    rows = Sweep(make_recipe(DECODER), axes, tmp_path, 2, Budget("steps", 2)).conduct()
    for row in rows:
        losses = [standing.measures["loss"] for standing in row.standings]
        assert row.value is not None and row.value.value == pytest.approx(sum(losses) / 2)
        assert row.value.low < row.value.value < row.value.high and losses[0] != losses[1]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["model.depth=1,2", "model.heads=2,3"], "model.depth=1 model.heads=3: .*not divisible by heads 3"),
        (["model.depht=1,2"], "model.depht=1: .*depht"),
        (["corpus.validation=0,1"], "no validation data"),
    ],
)
def test_a_mistake_is_told_before_anything_is_trained(words: list[str], told: str, tmp_path: Path) -> None:
    place = tmp_path / "out"
    with pytest.raises(RegardError, match=told):
        Sweep(make_recipe(DECODER), read(*words), place).conduct()
    assert not place.exists()


def test_values_are_parted_by_commas_and_lists_stand_in_brackets() -> None:
    assert split_values("1,2") == ["1", "2"]
    assert split_values("[1,2],[3]") == ["[1,2]", "[3]"]
    assert split_values('"a,b",{kind: x, n: 1}') == ['"a,b"', "{kind: x, n: 1}"]
    assert Axis.read("a.b=[1,2],null,x").values == ([1, 2], None, "x")
    assert Axis.read("data=../a,../b").values == ("../a", "../b")


@pytest.mark.parametrize("word", ["depth", "=1", "depth=1,1", "rate=0..1", "rate=2..1", "rate=-1..1"])
def test_what_is_no_list_of_values_is_refused(word: str) -> None:
    with pytest.raises(RegardError):
        Axis.read(word)


def test_chance_draws_no_point_twice_and_more_begin_with_the_same() -> None:
    axes = read("a=1,2,3,4", "b=1,2,3,4")
    few, many = choose_points(axes, 5, 1), choose_points(axes, 9, 1)
    assert many[:5] == few and len({str(point) for point in many}) == 9
    assert choose_points(axes, 5, 2) != few
    everything = choose_points(axes, 100, 1)
    assert sorted(map(str, everything)) == sorted(map(str, choose_points(axes, None, 1))) and len(everything) == 16


def test_a_range_is_drawn_evenly_by_logarithm() -> None:
    points = choose_points(read("rate=1e-4..1", "width=4..64"), 400, 1)
    rates = [point["rate"] for point in points]
    assert len(points) == 400 and all(1e-4 <= rate <= 1 for rate in rates)
    for low in (1e-4, 1e-3, 1e-2, 1e-1):  # a quarter of them in each decade
        assert 0.18 < sum(low <= rate < 10 * low for rate in rates) / 400 < 0.32
    assert all(isinstance(point["width"], int) and 4 <= point["width"] <= 64 for point in points)
    with pytest.raises(RegardError, match="--random 10"):
        choose_points(read("rate=1e-4..1"), None, 1)


def test_too_large_a_grid_and_too_few_points_are_refused() -> None:
    with pytest.raises(RegardError, match="combinations are more than"):
        choose_points(read(*(f"k{n}=1,2,3,4" for n in range(6))), None, 1)
    with pytest.raises(RegardError, match="--random 0"):
        choose_points(read("a=1,2"), 0, 1)


def test_names_tell_points_apart() -> None:
    assert name_point({"train.optimizer.rate": 0.001, "model.depth": 2}) == "rate=0.001,depth=2"
    assert name_point({"a.rate": 1, "b.rate": 2}) == "a.rate=1,b.rate=2"
    odd = [name_point({"data": place}) for place in ("a/b", "a b", "a_b", "x" * 200, "x" * 201)]
    assert len(set(odd)) == 5 and all(len(name) < 100 and "/" not in name for name in odd)


def test_what_is_not_finite_comes_last() -> None:
    rows = [
        SweepRow({"n": n}, None if value is None else Measure(value, value, value), [], [])
        for n, value in enumerate((1.0, float("nan"), None, 3.0))
    ]
    sweep = Sweep(make_recipe(DECODER), [], Path(), goal=Goal("score", True))
    assert [row.point["n"] for row in sweep.rank(rows)] == [3, 0, 1, 2]


def test_the_demo_trains_on_the_same_sentences_with_and_without_validation(tmp_path: Path) -> None:
    """So a setting can be chosen on validation sentences, and the figures on test sentences stay what they were."""
    document = recipe("transformer", tmp_path, 1000)
    told = {"with": document, "without": document.change(["corpus.validation=0"])}
    runs = {name: Run.begin(other.change([f"out={tmp_path}/{name}"])) for name, other in told.items()}
    assert len(runs["with"].prepared().samples("validation")) == 300 and not runs["without"].prepared().has(
        "validation"
    )
    assert runs["with"].prepared().samples("test") == runs["without"].prepared().samples("test")
    files = [
        name for name in runs["with"].prepared().facts["files"] if name in runs["without"].prepared().facts["files"]
    ]
    trained = [name for name in files if not name.startswith(("test", "combinations"))]
    assert len(trained) >= 4
    for name in trained:
        assert len({digest(run.folder / "data" / name) for run in runs.values()}) == 1, name
