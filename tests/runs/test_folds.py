"""Folds: each trains its own model, chooses on its own validation part, and is measured on its own test part."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from regard.errors import Divergence, RegardError
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.folder import Run
from regard.runs.folds import FoldResult, FoldRow, Folds, choose_figure, count_folds, record_folds
from regard.runs.results import read_notes
from regard.runs.standing import Standing, read_standing
from regard.runs.sweep import Axis
from regard.train.goal import Goal
from tests.runs.folded import FOLDS, make_folded


def make_result(*figures: float, **test: Any) -> FoldResult:
    """A result that was never measured."""
    standing = Standing({"accuracy": 0.5}, 2, 2, 10, 1.0, 0, 100)
    rows = [FoldRow(n, {}, f"fold-{n}", standing, {"accuracy": f, **test}) for n, f in enumerate(figures, 1)]
    return FoldResult(Goal("accuracy", True), "accuracy", rows, 0)


def test_every_fold_is_measured_on_its_own_test_part_and_found_again(tmp_path: Path) -> None:
    recipe = make_folded(tmp_path)
    result = Folds(recipe, tmp_path / "out").conduct()
    assert [row.fold for row in result.rows] == [1, 2, 3] and result.found == 0 and result.measure == "accuracy"
    for row in result.rows:
        run = Run.open(tmp_path / "out" / f"fold-{row.fold}")
        places = {sample["place"] for sample in run.prepared().samples("test")}
        assert len(places) == 8 == row.test["count"]
        told = run.spec.corpus.model_dump()
        assert told["train"]["fold"] == told["test"]["fold"] == row.fold
        assert row.test == evaluate([row.run], TestSet(split="test"), {}).measures
    figures = [row.test["accuracy"] for row in result.rows]
    assert result.mean == pytest.approx(sum(figures) / 3)
    assert result.deviation == pytest.approx(math.sqrt(sum((f - result.mean) ** 2 for f in figures) / 3))

    shutil.rmtree(tmp_path / "out" / "fold-2")
    again = Folds(recipe, tmp_path / "out").conduct()
    assert again.found == 2 and again.list_figures() == figures


def test_settings_are_chosen_inside_each_fold_on_validation(tmp_path: Path) -> None:
    recipe = make_folded(tmp_path, "train.clip=null")
    axes = [Axis.read("train.optimizer.rate=0.0001,0.05,1e30"), Axis.read("model.width=8,16")]
    result = Folds(recipe, tmp_path / "out", 2, axes).conduct()
    assert len(result.rows) == 2 and len(list((tmp_path / "out").glob("fold-*/*"))) == 12
    for row in result.rows:
        assert set(row.point) == {"train.optimizer.rate", "model.width"} and row.point["train.optimizer.rate"] < 1
        assert len(row.diverged) == 2 and all("1e30" in words for words in row.diverged)
        runs = [Run.open(path) for path in (tmp_path / "out" / f"fold-{row.fold}").iterdir()]
        tame = [run for run in runs if run.spec.train.optimizer.rate < 1]
        reached = [read_standing(run, result.goal).measures["accuracy"] for run in tame]
        assert row.standing.measures["accuracy"] == max(reached)
        assert Run.open(Path(row.run)).spec.train.optimizer.rate == row.point["train.optimizer.rate"]


def test_a_fold_in_which_nothing_can_be_trained_is_told(tmp_path: Path) -> None:
    recipe = make_folded(tmp_path, "train.clip=null")
    with pytest.raises(Divergence, match="fold 1: all 2 settings diverged"):
        Folds(recipe, tmp_path / "out", 1, [Axis.read("train.optimizer.rate=1e29,1e30")]).conduct()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["corpus.test=null"], r"corpus\.test: no folds are named"),
        (["corpus.train.folds=null", "corpus.train.fold=null"], r"corpus\.train: no folds are named"),
        (["corpus={kind: trees}", "task.answer=node-labels"], r"corpus\.train: no folds are named"),
        (["corpus.test.part=train"], r"corpus\.test reads what corpus\.train reads"),
        (["corpus.split.validation=0"], "no validation data"),
    ],
)
def test_a_recipe_without_folds_is_refused_with_a_way_out(tmp_path: Path, words: list[str], told: str) -> None:
    recipe = make_folded(tmp_path)
    if words[0].startswith("corpus={"):
        recipe.tree["corpus"] = {}
    with pytest.raises(RegardError, match=told) as refused:
        Folds(recipe.change(words), tmp_path / "out").conduct()
    assert "corpus." in refused.value.hint and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("count", "tries", "told"),
    [
        (4, [], "--folds 4: the data set has 3"),
        (0, [], "--folds 0"),
        (None, ["train.optimizer.rate=0.001..0.1"], "a range has no end"),
        (None, ["corpus.split.validation=0.1,0.2"], "measured on the same samples"),
        (None, ["model.width=8,16", "model.width=32,64"], "there twice"),
    ],
)
def test_what_folds_cannot_do_is_refused(tmp_path: Path, count: int | None, tries: list[str], told: str) -> None:
    with pytest.raises(RegardError, match=told):
        Folds(make_folded(tmp_path), tmp_path / "out", count, [Axis.read(word) for word in tries]).conduct()


@pytest.mark.parametrize("text", ["[1, 2]", "{}", "not JSON", '{"one": {"train": []}}'])
def test_a_file_of_folds_is_told_what_it_should_be(tmp_path: Path, text: str) -> None:
    recipe = make_folded(tmp_path)
    spec = Run.begin(recipe.change([f"out={tmp_path / 'run'}"])).spec
    assert count_folds(spec) == FOLDS
    (tmp_path / "folds.json").write_text(text)
    with pytest.raises(RegardError, match="not folds that count from 1 on"):
        count_folds(spec)


def test_a_deviation_takes_two_folds_and_a_spread_takes_orders() -> None:
    one, two = make_result(0.5), make_result(0.5, 0.7, orders=5, order_spread=0.02)
    assert math.isnan(one.deviation) and "in one fold" in one.conclude() and one.order_spread is None
    assert two.conclude() == "test accuracy 0.6000 ± 0.1000 (standard deviation over 2 folds)"
    assert two.order_spread == 0.02 and make_result(0.5, orders=1, order_spread=0.0).order_spread is None


def test_a_goal_of_training_alone_leaves_the_first_measure() -> None:
    assert choose_figure(Goal("loss", False), {"accuracy": 0.5, "count": 3}) == "accuracy"
    assert choose_figure(Goal("macro_f1", True), {"accuracy": 0.5, "macro_f1": 0.4}) == "macro_f1"


def test_a_row_is_recorded_and_each_run_keeps_its_own(tmp_path: Path) -> None:
    result = Folds(make_folded(tmp_path), tmp_path / "out", 2).conduct()
    for _ in range(2):
        record_folds(tmp_path / "page.md", result, tmp_path / "out", "regard folds a.yaml")
    page = (tmp_path / "page.md").read_text()
    assert "## Graphs by folds: graphs\n" in page and page.count("| gin (out) |") == 1
    assert f"{result.mean:.4f} ± {result.deviation:.4f}" in page and "`regard folds a.yaml`" in page
    (kept, *_) = read_notes(tmp_path / "out" / "fold-2")
    assert kept["data"] == "test" and kept["measures"]["accuracy"] == result.rows[1].test["accuracy"]
    assert json.dumps(kept["measures"])
