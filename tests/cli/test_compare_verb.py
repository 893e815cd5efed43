"""`regard compare` as a stranger types it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from regard.cli import run as run_program
from tests.cli.test_cli import regard
from tests.cli.test_verbs import told
from tests.runs.test_comparison import train


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("runs")
    one = train(folder, "classification", "one")
    return [
        one,
        train(folder, "classification", "two", model={"kind": "bert-tiny", "width": 8, "depth": 1, "heads": 1}),
    ]


def test_a_terminal_of_eighty_columns_shows_all_of_it(
    runs: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    page = tmp_path / "compare.html"
    monkeypatch.setattr("sys.argv", ["regard", "compare", *runs, "--out", str(page)])
    with pytest.raises(SystemExit) as stop:
        run_program()
    assert not stop.value.code
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert max(map(len, lines)) <= 80
    for words in (
        "accuracy ↑",
        "one against two",
        "p Holm",
        "parameters",
        "accuracy by words of the text",
        "answering",
    ):
        assert any(words in line for line in lines), words
    assert any("accuracy by how often labels are in training" in line for line in lines)
    assert "compare.html in a browser" in shown.err and page.read_text().startswith("<!doctype html>")


def test_json_is_one_object(runs: list[str]) -> None:
    (found,) = told(regard("compare", *runs, "--json", "--split", "validation"))
    assert [run["run"] for run in found["runs"]] == ["one", "two"] and found["data"] == "validation"
    assert {pair["measure"] for pair in found["pairs"]} == {"accuracy", "macro_f1", "loss"}


def test_wrong_use_is_told_with_a_way_out(runs: list[str], tmp_path: Path) -> None:
    done = regard("compare", runs[0])
    assert done.returncode and "two runs at least" in done.stderr and "regard report RUN" in done.stderr
    done = regard("compare", runs[0], runs[0])
    assert done.returncode and "there twice" in done.stderr
    done = regard("compare", *runs, "--out", str(tmp_path / "page.pdf"))
    assert done.returncode and "page.html" in done.stderr
    done = regard("compare", *runs, "--split", "tset")
    assert done.returncode and "test" in done.stderr
    broken = Path(shutil.copytree(runs[0], tmp_path / "broken"))
    shutil.rmtree(broken / "checkpoints")
    done = regard("compare", runs[1], str(broken))
    assert done.returncode and "broken" in done.stderr and "Traceback" not in done.stderr
