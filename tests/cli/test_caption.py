"""The verb that captions, as a stranger types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from regard.config import Document
from regard.runs.train import train
from tests.cli.test_cli import regard


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A captioner that has seen two batches."""
    folder = tmp_path_factory.mktemp("caption")
    tree = {
        "task": "captioning",
        "corpus": {"kind": "scenes", "train": 20, "validation": 4, "test": 4, "combinations": 4},
        "tokenizer": {"pieces": "word"},
        "batches": {"rows": 10},
        "model": {"kind": "show-attend-tell", "width": 16},
        "train": {"steps": 2},
        "device": "cpu",
        "out": str(folder / "run"),
    }
    train(Document(tree))
    return str(folder / "run")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Pictures as arrays, which need no other package: two of the run's size, one of another, one that is none."""
    for name, side in (("a", 48), ("b", 48), ("c", 60)):
        np.save(tmp_path / f"{name}.npy", np.full((side, side, 3), 99, np.uint8))
    (tmp_path / "d.npy").write_text("no picture")
    return tmp_path


def test_a_picture_has_a_line_and_several_have_their_names(run: str, pictures: Path) -> None:
    a, b = str(pictures / "a.npy"), str(pictures / "b.npy")
    one = regard("caption", run, a, "--set", "max_tokens=4")
    assert one.returncode == 0 and one.stdout.count("\n") == 1 and a not in one.stdout
    several = regard("caption", run, a, b, "--beam", "2", "--nbest", "2", "--set", "max_tokens=4")
    assert several.returncode == 0, several.stderr
    assert [line.split("\t")[0] for line in several.stdout.splitlines()] == [a, a, b, b]


def test_json_has_the_captions_tokens_and_the_next_best(run: str, pictures: Path) -> None:
    done = regard("caption", run, str(pictures / "a.npy"), "--json", "--nbest", "3", "--set", "max_tokens=4")
    found = json.loads(done.stdout)
    assert found["picture"].endswith("a.npy") and len(found["alternatives"]) == 2
    assert len(found["tokens"]) == len(found["log_probabilities"])


def test_what_cannot_be_read_is_told_and_loses_no_other(run: str, pictures: Path) -> None:
    done = regard("caption", run, str(pictures), "--set", "max_tokens=4")
    assert done.returncode == 3 and len(done.stdout.splitlines()) == 4
    assert "another size: 60 × 60, and 48 × 48" in done.stderr and "d.npy" in done.stderr
    fitted = regard("caption", run, str(pictures / "a.npy"), "--fit", "stretch")
    assert fitted.returncode == 2 and "no way to fit a picture" in fitted.stderr


def test_a_captioner_is_measured_by_a_search_that_is_told(run: str) -> None:
    done = regard("eval", run, "--beam", "2", "--set", "max_tokens=4", "--json")
    found = json.loads(done.stdout)
    assert found["pictures"] == 4 and found["cut"] >= 0 and "bleu4_low" in found
    other = regard("translate", run, "a text")
    assert "it is a captioner" in other.stderr and f"regard caption {run}" in other.stderr


def test_a_look_is_written_for_one_picture(run: str, pictures: Path, tmp_path: Path) -> None:
    done = regard(
        "caption", run, str(pictures / "a.npy"), "--set", "max_tokens=4", "--out", str(tmp_path / "look.json")
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "look.json").read_text())
    page = tmp_path / "look.html"
    done = regard("caption", run, str(pictures / "a.npy"), "--set", "max_tokens=4", "--out", str(page))
    assert page.exists() and f"next: open {page} in a browser" in done.stderr
    several = regard("caption", run, str(pictures), "--out", str(tmp_path / "look.json"))
    assert several.returncode == 2 and "one picture" in several.stderr


def test_a_look_that_cannot_be_written_is_refused_before_a_model_is_loaded(pictures: Path) -> None:
    for place, told in (("look.foo", "what is it to be?"), (str(pictures / "a.npy" / "look.html"), "a.npy")):
        done = regard("caption", "no-run", str(pictures / "a.npy"), "--out", place)
        assert done.returncode != 0 and told in done.stderr and "no-run" not in done.stderr


def test_a_picture_of_another_size_is_fitted_where_it_is_looked_at_and_measured(
    run: str, pictures: Path, tmp_path: Path
) -> None:
    other = str(pictures / "c.npy")
    told = regard("inspect", run, "--image", other, "--json")
    assert told.returncode != 0 and "--fit resize" in told.stderr
    assert regard("inspect", run, "--image", other, "--fit", "resize", "--json").returncode == 0
    place = str(tmp_path / "look.json")
    done = regard("caption", run, other, "--fit", "pad", "--set", "max_tokens=4", "--out", place)
    assert done.returncode == 0 and Path(place).exists(), done.stderr
    (pictures / "test.tsv").write_text("a.npy\ta red square\nc.npy\ta blue circle\nb.npy\t\n", encoding="utf-8")
    how = ["eval", run, "--data", str(pictures / "test.tsv"), "--set", "max_tokens=4", "--json"]
    stopped = regard(*how)
    assert stopped.returncode == 3 and "test.tsv:" in stopped.stderr and "--policy skip" in stopped.stderr
    skipped = regard(*how, "--policy", "skip")
    assert json.loads(skipped.stdout)["pictures"] == 1 and "2 skipped" in skipped.stderr, skipped.stderr
    fitted = regard(*how, "--policy", "skip", "--fit", "resize")
    assert json.loads(fitted.stdout)["pictures"] == 2 and "1 skipped" in fitted.stderr, fitted.stderr
    alone = regard("eval", run, "--policy", "skip")
    assert alone.returncode != 0 and "--policy is for files" in alone.stderr
