"""`regard report` as a stranger types it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from regard.errors import CheckpointError, InputError, SpecError
from tests.cli.test_cli import regard
from tests.cli.test_verbs import told, typed

KEPT = Path(__file__).parent.parent / "fixtures" / "0.1"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run of an earlier version, to write beside."""
    return Path(shutil.copytree(KEPT / "classification", tmp_path / "runs/labels"))


def test_a_page_is_written_and_named(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = regard("report", str(run), "--samples", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "report.html\n" and "next: open report.html in a browser" in done.stderr
    page = (tmp_path / "report.html").read_text()
    assert page.startswith("<!doctype html>") and "<title>labels</title>" in page
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["report.html"]


def test_json_is_one_object_and_no_page_unless_asked(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (found,) = told(regard("report", str(run), "--json", "--no-model"))
    assert found["runs"][0]["facts"]["task"] == "classification" and found["runs"][0]["asked"] == {}
    assert not (tmp_path / "report.html").exists()
    (found,) = told(regard("report", str(run), "--json", "--samples", "1", "--out", "deep/down/page.html"))
    assert len(found["runs"][0]["asked"]["examples"]) == 1
    assert (tmp_path / "deep/down/page.html").stat().st_size > 10_000


def test_texts_are_typed_or_lines_of_a_file(run: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines.txt"
    lines.write_text("the dog sings\n\nthe cat sleeps\n")
    words = ["report", str(run), "--json", "--samples", "0", "--text", "a cat", "--file", str(lines)]
    (found,) = told(regard(*words))
    given = [example["given"] for example in found["runs"][0]["asked"]["examples"]]
    assert given == [["a cat"], ["the dog sings"], ["the cat sleeps"]]
    (found,) = told(typed("one\ntwo\n", "report", str(run), "--json", "--samples", "0", "--file", "-"))
    assert len(found["runs"][0]["asked"]["examples"]) == 2


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["RUN", "--out", "page.pdf"], SpecError.status, "--out page.html"),
        (["RUN", "--out", "."], InputError.status, "is a folder"),
        (["RUN", "--out", "RUN/run.yaml/page.html"], InputError.status, "is a file, not a folder"),
        (["RUN", "RUN"], InputError.status, "twice"),
        (["RUN", "RUN/nothing"], CheckpointError.status, "no such folder"),
        (["RUN/.."], CheckpointError.status, "regard report"),
        (["RUN", "--no-model", "--text", "x"], SpecError.status, "which?"),
        (["RUN", "--file", "nowhere.txt"], InputError.status, "nowhere.txt"),
        ([], SpecError.status, "RUN"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_written(
    words: list[str], status: int, message: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = regard("report", *(word.replace("RUN", str(run)) for word in words))
    assert done.returncode == status, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr and done.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_recorded_evaluation_is_part_of_the_report(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    (measured,) = told(regard("eval", str(run), "--record", str(page), "--json"))
    with (run / "evaluations.jsonl").open("a") as file:
        file.write('{"step": 1, "measu')  # a line that a crash cut short is passed over
    assert regard("eval", str(run), "--record", str(page), "--split", "validation").returncode == 0
    (found,) = told(regard("report", str(run), "--json", "--no-model"))
    first, second = found["runs"][0]["tests"]
    assert first["measures"] == measured and first["data"] == "test" and second["data"] == "validation"
    assert json.loads((run / "evaluations.jsonl").read_text().splitlines()[0])["step"] == first["step"] > 0
    assert regard("rm", str(run), "--yes").returncode == 0
    assert not run.exists()  # the run wrote that file, so it goes with it
