"""A run's folder: it takes only a place that is free, changes only what it may, and deletes only what is its own."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from regard.errors import CheckpointError, RegardError, SpecError
from regard.host.files import write
from regard.runs.demo import recipe, run_demo
from regard.runs.folder import MADE, Run, _digest
from regard.runs.resolve import PREPARING, resolve
from regard.runs.train import resume, train
from tests.train.small import begun, document, trainer


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, to the byte."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["data/train.en", "data/data.json", "start/notes", "lock", "run.json", "mine.txt"])
def test_a_folder_with_files_of_others_is_left_as_it_is(name: str, tmp_path: Path) -> None:
    file = tmp_path / "exp" / name
    file.parent.mkdir(parents=True)
    file.write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(RegardError, match="isn't a run") as refused:
        begun(tmp_path / "exp")
    assert str(tmp_path / "exp/run") in refused.value.hint
    assert contents(tmp_path) == before


def test_a_mistake_leaves_an_empty_folder_empty_and_no_new_one(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with pytest.raises(RegardError):
            begun(tmp_path / name, "corpus.kind=files", "corpus.train={kind: tsv, path: nothing.tsv}")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert not list((tmp_path / "there").iterdir())


def test_what_a_killed_preparation_left_is_cleared(tmp_path: Path) -> None:
    whole = begun(tmp_path / "whole")
    half = tmp_path / "half"
    shutil.copytree(whole.folder / "data", half / "data")
    (half / PREPARING).write_text(MADE)
    (half / "lock").write_text("process 1")
    (half / "run.json").write_text("{")
    assert contents(begun(half).folder / "data") == contents(whole.folder / "data")
    assert not (half / PREPARING).exists()


def test_what_others_put_among_it_stays(tmp_path: Path) -> None:
    half = tmp_path / "half"
    (half / "data").mkdir(parents=True)
    (half / "data/files.json").write_text('["train.jsonl", "data.json"]')
    (half / "data/train.jsonl").write_text("{}\n")
    for name in ("notes.txt", "train.en", "train.fr", "tokenizer.json"):
        (half / "data" / name).write_text("mine")
    (half / PREPARING).write_text(MADE)
    with pytest.raises(RegardError, match=r"half/data: files that aren't a run's"):
        begun(half)
    assert set(contents(half / "data").values()) == {b"mine"}


@pytest.mark.parametrize("name", ["run.json.tmp-77", "run.yaml.tmp-77", "preparing.tmp-77"])
def test_what_was_being_written_when_a_preparation_was_killed_is_no_obstacle(name: str, tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / name).write_text("{")
    if not name.startswith("preparing"):
        (tmp_path / "half" / PREPARING).write_text(MADE)
    assert begun(tmp_path / "half").prepared()


def test_a_place_that_cannot_be_written_has_a_hint_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RegardError) as refused:
        begun(tmp_path / "file" / "run")
    assert "make room" not in str(refused.value)


def test_a_run_is_deleted_but_for_what_others_put_into_it(tmp_path: Path) -> None:
    run = begun(tmp_path / "run")
    trainer(run).run()
    others = {
        "notes.txt",
        "data/raw.txt",
        "data/train.en",
        "metrics.jsonl.tmp-old",
        "checkpoints/mine",
        "checkpoints/step-12/why.txt",
        "average/x",
    }
    for name in others:
        (run.folder / name).parent.mkdir(exist_ok=True)
        (run.folder / name).write_text("mine")
    assert not run.discard()
    assert set(contents(run.folder)) == others
    again = begun(tmp_path / "again")
    trainer(again).run()
    assert again.discard()
    assert not again.folder.exists()


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("model.width=32", "model.width"),
        ("model=luong", "model.kind"),
        ("task.smoothing=0.2", "task.smoothing"),
        ("tokenizer.vocabulary=400", "tokenizer.vocabulary"),
        ("corpus.train=400", "corpus.train"),
        ("corpus.seed=3", "corpus.seed"),
        ("batches.tokens=64", "batches.tokens"),
        ("seed=2", "seed"),
        ("data=elsewhere", "data"),
        ("train.optimizer=sgd", "train.optimizer.kind"),
        ("train.nothing=1", "train.nothing"),
    ],
)
def test_what_cannot_change_is_refused_by_name_and_the_run_stays_as_it_was(
    word: str, name: str, tmp_path: Path
) -> None:
    train(document(tmp_path / "run", "train.evaluate=0"), lambda _: None)
    before = (tmp_path / "run/run.yaml").read_bytes()
    with pytest.raises(RegardError, match=name):
        resume(tmp_path / "run", [word, "train.steps=20"])
    assert (tmp_path / "run/run.yaml").read_bytes() == before
    assert resume(tmp_path / "run", ["train.steps=13"], lambda _: None).report.moment.step == 13


def test_what_may_change_is_written_once_it_is_sure(tmp_path: Path) -> None:
    train(document(tmp_path / "run", "train.evaluate=0"), lambda _: None)
    words = ["train.steps=14", "train.optimizer.rate=0.002", "train.ema=0.9", "task.search.beam=2", "device=cpu"]
    assert resume(tmp_path / "run", words, lambda _: None).report.moment.step == 14
    spec = Run.open(tmp_path / "run").spec
    assert (spec.train.ema, spec.train.optimizer.rate, spec.train.steps) == (0.9, 0.002, 14)
    newest = Run.open(tmp_path / "run").store.latest()
    assert newest is not None and (newest.path / "average.safetensors").exists()


def test_a_run_file_that_was_edited_into_another_run_is_refused(tmp_path: Path) -> None:
    train(document(tmp_path / "run", "train.evaluate=0"), lambda _: None)
    path = tmp_path / "run/run.yaml"
    tree = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump(tree | {"seed": 9}))
    with pytest.raises(SpecError, match=r"seed: 1 -> 9"):
        resume(tmp_path / "run", report=lambda _: None)


def test_a_checkpoint_of_other_data_is_refused(tmp_path: Path) -> None:
    for name, seed in (("run", 1), ("other", 2)):
        train(document(tmp_path / name, "train.evaluate=0", f"corpus.seed={seed}"), lambda _: None)
    shutil.rmtree(tmp_path / "run/data")
    shutil.copytree(tmp_path / "other/data", tmp_path / "run/data")
    with pytest.raises((CheckpointError, SpecError), match="other data"):
        resume(tmp_path / "run", report=lambda _: None)


def test_the_demo_deletes_its_own_runs_alone(tmp_path: Path) -> None:
    from regard.runs.demo import _clear

    mine, own = tmp_path / "novel", Run.begin(recipe("transformer", tmp_path, 1000))
    mine.mkdir()
    (mine / "chapter.txt").write_text("once")
    (tmp_path / "notes.txt").write_text("mine")
    kept = {"novel/chapter.txt": b"once", "notes.txt": b"mine"}
    file = own.folder / "run.yaml"  # a run from before a setting was known
    tree = {name: value for name, value in yaml.safe_load(file.read_text()).items() if name != "device"}
    file.write_text(yaml.safe_dump(tree))
    noted = own.folder / "run.json"
    noted.write_text(json.dumps(json.loads(noted.read_text()) | {"config": _digest(tree)}))
    _clear(tmp_path, 2000)
    assert contents(tmp_path) == kept
    assert not own.folder.exists()


@pytest.mark.parametrize("word", ["train.tokens=null train.steps=5", "seed=2", "corpus.train=2000"])
def test_the_demo_leaves_a_run_that_somebody_changed(word: str, tmp_path: Path) -> None:
    from regard.runs.demo import _clear

    run = Run.begin(recipe("transformer", tmp_path, 1000).change(word.split()))
    before = contents(run.folder)
    with pytest.raises(RegardError, match="so it stays"):
        _clear(tmp_path, 1000)
    assert contents(run.folder) == before


def test_the_demo_measures_while_it_gives_way_to_neighbours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*given: Any) -> None:
        raise RegardError(", ".join(thread.name for thread in threading.enumerate()))

    monkeypatch.setattr(
        "regard.runs.demo.evaluate_translator", stop
    )  # where measuring begins, which would take its time
    with pytest.raises(RegardError, match="give way"):
        next(run_demo(tmp_path, 500, lambda line: None))


def test_the_demo_leaves_pictures_that_it_did_not_make(tmp_path: Path) -> None:
    from regard.runs.demo import _clear

    write(tmp_path / "curves.png", b"mine")
    with pytest.raises(RegardError, match=r"curves\.png: is there already"):
        _clear(tmp_path, 1000)
    (tmp_path / "demo.json").write_text(json.dumps([]))
    _clear(tmp_path, 1000)
    assert (tmp_path / "curves.png").exists() and os.listdir(tmp_path)


def test_a_path_with_an_at_sign_can_be_a_run(tmp_path: Path) -> None:
    folder = tmp_path / "me@home" / "run@best"
    train(document(folder, "train.evaluate=0"), lambda _: None)
    assert resolve(str(folder)).path.parent.parent == folder
    assert resolve(f"{folder}@latest").step == 12
    for noun in (f"{folder}@nothing", str(tmp_path / "me@home"), f"{tmp_path}/me@home/other@best"):
        with pytest.raises(RegardError, match=r"nothing|me@home"):
            resolve(noun)
