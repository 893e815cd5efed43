"""Folds from the command line: what is printed, what is recorded, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from regard.cli.folds import folds
from regard.errors import RegardError
from tests.cli.test_cli import regard
from tests.runs.folded import make_folded


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(make_folded(tmp_path).tree))
    return path


def test_folds_print_a_table_a_mean_and_json(recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folds(recipe, ["batches.rows=4"], out=tmp_path / "out", page=tmp_path / "page.md")
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[1].split("  ") == ["fold", "validation accuracy", "test accuracy"]
    assert [line.split()[0] for line in lines[2:5]] == ["1", "2", "3"]
    assert "(standard deviation over 3 folds)" in lines[6]
    assert f"`regard folds {recipe} batches.rows=4`" in (tmp_path / "page.md").read_text()
    folds(recipe, ["batches.rows=4"], out=tmp_path / "out", as_json=True)
    printed = capsys.readouterr()
    *rows, whole = map(json.loads, printed.out.splitlines())
    assert [row["fold"] for row in rows] == [1, 2, 3] and whole["folds"] == 3 and whole["split"] == "test"
    assert whole["mean"] == pytest.approx(sum(row["test"]["accuracy"] for row in rows) / 3)
    assert "3 runs were there already" in printed.err


def test_what_was_chosen_is_told_with_its_spread_over_orders(recipe: Path, tmp_path: Path) -> None:
    words = ("model.kind=graph-mamba", "model.walks=2", "--folds", "1", "--try", "model.width=8,16")
    done = regard("folds", str(recipe), *words, "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "spread over node orders" in lines[1] and "chosen on validation" in lines[1]
    assert "model.width=" in lines[2] and "in one fold" in done.stdout and "Each fold chose" in done.stdout


def test_a_folder_for_all_is_an_option(recipe: Path) -> None:
    with pytest.raises(RegardError, match="a folder for each fold"):
        folds(recipe, ["out=runs/one"])
