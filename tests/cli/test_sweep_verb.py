"""Recipes compared and settings swept from the command line: what is printed, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli.contest import contest, format_cost, format_measure, read_recipes, split_words
from regard.cli.sweep import read_axes, read_budget, sweep
from regard.errors import RegardError
from regard.tasks.measures import Measure
from tests.runs.recipes import DECODER, RECURRENT, make_recipe


@pytest.fixture
def recipes(tmp_path: Path) -> list[Path]:
    """Two run files."""
    paths = [tmp_path / "attention.yaml", tmp_path / "memory.yaml"]
    for path, model in zip(paths, (DECODER, RECURRENT), strict=True):
        path.write_text(json.dumps(make_recipe(model).tree))
    return paths


def test_a_comparison_is_a_table_a_sentence_and_json(
    recipes: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = (recipes, ["batches.rows=4"], 1, "tokens=100", "parameters", tmp_path / "out")
    contest(*asked, as_json=False)
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[1].split() == ["attention", "memory", "difference"]
    costs = ("parameters", "training tokens", "training time", "peak memory", "training FLOPs")
    assert lines[2].startswith("loss (goal)") and all(any(line.startswith(cost) for line in lines) for cost in costs)
    assert (
        "one seed shows no difference" in printed.out and "memory was sized to attention: model.width=" in printed.out
    )
    contest(*asked, as_json=True)
    first, second, pair = map(json.loads, capsys.readouterr().out.splitlines())
    assert abs(second["costs"]["parameters"] / first["costs"]["parameters"] - 1) <= 0.02
    assert first["costs"]["tokens"] == second["costs"]["tokens"] >= 100 and first["split"] == "validation"
    assert pair["against"] == "attention" and pair["differences"]["loss"][1] is None  # one seed has no interval


def test_a_sweep_prints_the_best_as_words_to_type(
    recipes: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train.optimizer.rate=0.0001,0.02", "batches.rows=4"]
    sweep(recipes[0], words, steps="3", out=tmp_path / "out")
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].split() == ["rank", "rate", "loss", "perplexity", "parameters", "tokens", "time"]
    assert "best  train.optimizer.rate=0.02" in printed.out
    assert f"run   {tmp_path}/out/rate=0.02,seed=1" in printed.out
    assert "batches.rows=4 train.optimizer.rate=0.02" in printed.err
    sweep(recipes[0], words, steps="3", out=tmp_path / "out", as_json=True)
    rows = list(map(json.loads, capsys.readouterr().out.splitlines()))
    assert [row["rank"] for row in rows] == [1, 2] and rows[0]["words"] == "train.optimizer.rate=0.02"
    assert rows[0]["value"] < rows[1]["value"] and rows[0]["split"] == "validation"


def test_nothing_is_ranked_on_test_data(recipes: list[Path]) -> None:
    with pytest.raises(RegardError, match="validation data alone"):
        sweep(recipes[0], ["model.depth=1,2"], split="test")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "no settings to try"),
        (["model.depth=2"], "one value each"),
        (["model.depth=2,3", "model.depth=4,5"], "set twice"),
        (["seed=1,2"], "a sweep sets that itself"),
        (["depth"], "is not a setting"),
    ],
)
def test_what_is_no_sweep_is_refused(words: list[str], told: str) -> None:
    with pytest.raises(RegardError, match=told):
        read_axes(words)


def test_a_sweep_over_what_is_measured_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    read_axes(["tokenizer.vocabulary=100,200"])
    assert "a rank says little" in capsys.readouterr().err


def test_one_budget_at_a_time() -> None:
    budget = read_budget(None, "2M", None)
    assert budget is not None and budget.spell()[2] == "train.tokens=2000000"
    assert read_budget(None, None, None) is None
    for given in ((1.0, "2M", None), (-1.0, None, None), (None, "0.5", None), (None, None, "many")):
        with pytest.raises(RegardError):
            read_budget(*given)


def test_recipes_and_words_are_told_apart(recipes: list[Path], tmp_path: Path) -> None:
    found = split_words([str(recipes[0]), "model.depth=2", str(recipes[1])])
    assert found == (recipes, ["model.depth=2"])
    with pytest.raises(RegardError, match="1 recipe: a comparison needs two"):
        read_recipes(recipes[:1], [])
    with pytest.raises(RegardError, match="the same recipe twice"):
        read_recipes([recipes[0], recipes[0]], [])
    other = tmp_path / "other" / "attention.yaml"
    other.parent.mkdir()
    other.write_text("{}")
    assert list(read_recipes([recipes[0], other], [])) == [f"{tmp_path.name}-attention", "other-attention"]
    with pytest.raises(RegardError, match="--match width"):
        contest(recipes, [], 1, "tokens=100", "width", tmp_path, as_json=False)


def test_means_have_as_many_digits_as_their_intervals() -> None:
    assert format_measure(Measure(41.2468, 40.6268, 41.8668)) == "41.25 ± 0.62"
    assert format_measure(Measure(1234.5, 1134.5, 1334.5)) == "1234 ± 100"
    assert format_measure(Measure(0.5, float("nan"), float("nan")), signed=True) == "+0.5"
    assert format_measure(Measure(0.0, 0.0, 0.0)) == "0 ± 0"
    assert [format_cost(*pair) for pair in (("flops", 4.14e8), ("seconds", 61), ("peak_memory", 2**20))] == [
        *("4.14e8", "1:01", "1 MB")
    ]
