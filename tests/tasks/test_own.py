"""Samples of any kind: tasks on arrays, defined outside the package, are trained, measured, resumed and loaded."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import Document
from regard.core.model import ModelSpec
from regard.data.batches import BatchSpec
from regard.data.corpus import CorpusSpec
from regard.data.lexicon import Lexicon
from regard.data.log import Log
from regard.data.preparation import prepare
from regard.data.prepared import Prepared, discard
from regard.data.sample import FormSpec
from regard.data.tokenizer import TokenizerSpec
from regard.errors import CheckpointError, DataError, InputError, SpecError
from regard.models import preset
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.folder import Run
from regard.runs.load import load, load_model
from regard.runs.plan import plan
from regard.runs.train import resume, train
from regard.runs.verify import verify
from regard.tasks.task import TaskSpec
from regard.train.checkpoint import Checkpoint, Store
from regard.train.listener import Listener, Step
from regard.train.moment import Moment
from regard.train.spec import TrainSpec
from regard.train.trainer import Archive, Trainer


@pytest.fixture(scope="module")
def own() -> Iterator[ModuleType]:
    """The user's file; what it entered is gone again for the tests of others."""
    module = importlib.import_module("tests.tasks.own")
    yield module
    for role in (FormSpec, CorpusSpec, TaskSpec):
        for name in [name for name, kind in role.kinds.items() if kind.__module__ == module.__name__]:
            del role.kinds[name]


@dataclass
class Case:
    """A task, its corpus and its model."""

    task: TaskSpec
    corpus: CorpusSpec
    model: ModelSpec

    def prepare(self, folder: Path) -> Prepared:
        return prepare(self.corpus, self.task, TokenizerSpec(), 256, folder, folder / "data")[0]


@pytest.fixture(params=["picture-labels", "signal-means"])
def case(own: ModuleType, request: pytest.FixtureRequest) -> Case:
    pictures = request.param == "picture-labels"
    model = preset("vit-tiny") if pictures else preset("gru", width=16, depth=1)
    corpus = {"kind": "halves" if pictures else "signals"}
    return Case(TaskSpec.parse(request.param), CorpusSpec.parse(corpus), model)


class Losses(Listener):
    """Every loss, to the last bit; perhaps a break after a step."""

    def __init__(self, stop: int | None = None) -> None:
        self.found: list[str] = []
        self.stop = stop

    def on_step(self, step: Step, moment: Moment) -> None:
        self.found.append(step.loss.hex())

    def on_save(self, path: Path) -> None:
        if len(self.found) == self.stop:
            raise KeyboardInterrupt


def trainer(case: Case, folder: Path, store: Path, listener: Listener, steps: int = 8) -> Trainer:
    """A trainer that knows nothing but what is on the disk."""
    prepared = Prepared.load(folder / "data")
    torch.manual_seed(1)
    model = case.task.fit_model(case.model, prepared.lexicon).build()
    spec = TrainSpec.parse({"steps": steps, "save": 4, "evaluate": 4, "optimizer": {"kind": "adamw", "rate": 0.003}})
    learner = case.task.build(prepared, BatchSpec(tokens=32), 1)
    archive = Archive(Store(store), prepared.lexicon.files(), {"task": case.task.model_dump()})
    return Trainer(model, learner, spec, [listener], archive)


def newest(store: Path) -> Checkpoint:
    found = Store(store).latest()
    assert found is not None
    return found


def test_it_is_trained_measured_and_resumed_to_the_bit(case: Case, tmp_path: Path) -> None:
    case.prepare(tmp_path)
    straight, broken, resumed = Losses(), Losses(stop=4), Losses()
    report = trainer(case, tmp_path, tmp_path / "straight", straight).run()
    assert report.measures is not None and len(straight.found) == 8
    with pytest.raises(KeyboardInterrupt):
        trainer(case, tmp_path, tmp_path / "resumed", broken).run()
    again = trainer(case, tmp_path, tmp_path / "resumed", resumed)
    again.restore(newest(tmp_path / "resumed"))
    assert again.run().measures == report.measures
    assert [*broken.found, *resumed.found] == straight.found
    one, other = newest(tmp_path / "straight"), newest(tmp_path / "resumed")
    for name in ("model", "optimizer"):
        tensors = other.tensors(name)
        assert all(torch.equal(tensor, tensors[key]) for key, tensor in one.tensors(name).items())


def test_it_is_loaded_and_answers_as_it_did(case: Case, tmp_path: Path) -> None:
    prepared = case.prepare(tmp_path)
    report = trainer(case, tmp_path, tmp_path / "checkpoints", Losses()).run()
    checkpoint = newest(tmp_path / "checkpoints")
    assert not list(checkpoint.path.glob("tokenizer*"))
    lexicon = Lexicon.read(checkpoint.read, str(checkpoint.path))
    assert lexicon == prepared.lexicon
    task = TaskSpec.parse(checkpoint.json("state")["task"])
    pipeline = task.pipeline(load_model(checkpoint), lexicon)
    assert task.measure(pipeline, prepared.samples("validation")) == report.measures
    assert task.measure(pipeline, prepared.samples("test"))


def test_pictures_are_learned(own: ModuleType, tmp_path: Path) -> None:
    case = Case(TaskSpec.parse("picture-labels"), CorpusSpec.parse("halves"), preset("vit-tiny"))
    case.prepare(tmp_path)
    report = trainer(case, tmp_path, tmp_path / "checkpoints", Losses(), steps=40).run()
    assert report.measures is not None and report.measures["accuracy"] > 0.9  # chance is 1/4


def test_samples_are_kept_to_the_bit(case: Case, tmp_path: Path) -> None:
    prepared = case.prepare(tmp_path)
    stream = case.corpus.samples(case.task.form, "validation", tmp_path, Log())
    for found, made in zip(prepared.samples("validation"), stream, strict=True):
        assert found.keys() == made.keys()
        for name, value in made.items():
            assert same(found[name], value)
    rows = case.task.encode(list(case.corpus.samples(case.task.form, "train", tmp_path, Log())), prepared.lexicon)
    for n, row in enumerate(rows):
        for name, value in row.items():
            assert same(prepared.columns[name].read(n).reshape(np.shape(value)), np.asarray(value))


def same(one: Any, other: Any) -> bool:
    if not isinstance(other, np.ndarray):
        return bool(one == other)
    return one.shape == other.shape and np.array_equal(one, other) and one.dtype in (other.dtype, "u4")


def test_there_are_no_words_and_nobody_asks_for_any(case: Case, tmp_path: Path) -> None:
    prepared = case.prepare(tmp_path)
    assert prepared.lexicon.words is None
    assert not list((tmp_path / "data").glob("tokenizer*"))
    with pytest.raises(InputError, match="no tokenizer: this task reads and writes no words"):
        _ = prepared.lexicon.tokenizer
    assert prepared.lexicon.labels == (["bottom", "left", "right", "top"] if case.task.kind == "picture-labels" else [])


def test_the_same_corpus_has_the_same_digest_and_another_has_another(case: Case, tmp_path: Path) -> None:
    first, second = case.prepare(tmp_path / "a"), case.prepare(tmp_path / "b")
    assert first.facts == second.facts
    case.corpus = case.corpus.replace(seed=1)
    assert case.prepare(tmp_path / "c").digest != first.digest


def test_only_its_own_files_are_deleted(case: Case, tmp_path: Path) -> None:
    case.prepare(tmp_path)
    (tmp_path / "data" / "mine.txt").write_text("mine")
    assert not discard(tmp_path / "data")
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (np.zeros((8, 8, 1), np.float32), r"image is float32 \(8, 8, 1\), and must be an array of uint8 with 3 axes"),
        (np.zeros((8, 8), np.uint8), r"image is uint8 \(8, 8\), and must be"),
        ([[0]], "image is list, and must be"),
        (None, "image is NoneType, and must be"),
    ],
)
def test_a_corpus_that_gives_another_thing_is_told_so(own: ModuleType, tmp_path: Path, image: Any, reason: str) -> None:
    class Odd(own.Halves):  # type: ignore[misc, name-defined]
        kind: str = "odd"

        def stream(self, form: str, split: str) -> Iterator[dict[str, Any]]:
            while True:
                yield {"image": image, "label": "left"}

    with pytest.raises(DataError, match=f"odd: sample 1 of train isn't one of bright: {reason}"):
        prepare(Odd(), own.PictureTaskSpec(), TokenizerSpec(), 256, tmp_path, tmp_path / "data")


@pytest.mark.parametrize(
    ("image", "reason"),
    [
        (np.zeros((4, 8, 1), np.uint8), r"image has uint8 \(4, 8, 1\), and uint8 \(8, 8, 1\) is wanted"),
        (np.full((8, 8, 1), 255, np.uint8), r"image has numbers .* not below 224"),
    ],
)
def test_what_a_column_cannot_hold_is_told_with_its_place(
    own: ModuleType, tmp_path: Path, image: Any, reason: str
) -> None:
    class Large(own.Halves):  # type: ignore[misc, name-defined]
        kind: str = "large"

        def stream(self, form: str, split: str) -> Iterator[dict[str, Any]]:
            while True:
                yield {"image": image, "label": "left", "place": "here:1"}

    with pytest.raises(DataError, match=f"here:1: {reason}"):
        prepare(Large(), own.PictureTaskSpec(), TokenizerSpec(), 256, tmp_path, tmp_path / "data")


def test_a_form_that_nobody_knows_is_told_by_its_name(own: ModuleType, tmp_path: Path) -> None:
    case = Case(TaskSpec.parse("signal-means"), CorpusSpec.parse("signals"), preset("gru"))
    case.prepare(tmp_path)
    kept = FormSpec.kinds.pop("signals")
    try:
        with pytest.raises(CheckpointError, match="its samples are signals, and that form isn't known here"):
            Prepared.load(tmp_path / "data")
    finally:
        FormSpec.kinds["signals"] = kept


def test_a_corpus_of_another_form_is_refused_with_those_that_give_it(own: ModuleType, tmp_path: Path) -> None:
    task, where = TaskSpec.parse("picture-labels"), (tmp_path, tmp_path / "data")
    with pytest.raises(SpecError, match="picture-labels needs bright") as error:
        prepare(CorpusSpec.parse("copy"), task, TokenizerSpec(), 256, *where)
    assert "bright come from halves" in str(error.value)


def run_file(case: Case, folder: Path) -> Document:
    """The same case as a run file, without a word about tokens."""
    model = {"kind": "vit-tiny"} if case.task.kind == "picture-labels" else {"kind": "gru", "width": 16, "depth": 1}
    return Document(
        {
            "task": case.task.kind,
            "corpus": case.corpus.kind,
            "batches": {"tokens": 32},
            "model": model,
            "train": {"steps": 8, "save": 4, "evaluate": 4},
            "device": "cpu",
            "out": str(folder / "run"),
        }
    )


def test_a_run_file_trains_it_and_its_run_is_resumed_verified_loaded_and_measured(case: Case, tmp_path: Path) -> None:
    told: list[str] = []
    ended = train(run_file(case, tmp_path), told.append)
    assert not any("token" in line or "vocabulary" in line for line in told)
    run = Run.open(tmp_path / "run")
    pipeline = load(f"{run.folder}@latest")
    assert type(pipeline) is case.task.choose_pipeline(case.model)
    found = case.task.measure(pipeline, run.prepared().samples("validation"))
    assert found == ended.report.measures
    assert evaluate([str(run.folder)], TestSet(), {}).measures.keys() == found.keys()
    assert verify(run.folder, 4).exact
    assert resume(run.folder, ["train.steps=12"]).report.moment.step == 12
    assert not list(run.folder.rglob("tokenizer*"))


def test_it_is_forecast_and_trained_further_from_its_own_run(case: Case, tmp_path: Path) -> None:
    document = run_file(case, tmp_path)
    assert plan(document).parameters > 0
    train(document)
    further = {**document.tree, "model": None, "start": str(tmp_path / "run"), "out": str(tmp_path / "further")}
    told: list[str] = []
    assert train(Document(further), told.append).report.moment.step == 8
    assert not any("new weights" in line or "token" in line for line in told)
