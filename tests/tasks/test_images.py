"""Pictures and their labels: what is learned, measured and asked, from files to the command line."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import Document
from regard.data.canvas import Picture
from regard.data.given import GivenPicture
from regard.decode.pipeline import Pipeline
from regard.errors import InputError, SpecError
from regard.hub.save import match_model
from regard.runs.folder import Run
from regard.runs.load import load
from regard.runs.train import resume, train
from regard.runs.verify import verify
from regard.tasks.images import ImageBatch, ImageClassifier, ImageTask
from regard.tasks.measures import measure_probabilities
from regard.train.listener import Listener, history
from tests.cli.test_cli import regard

SIDES = ("bottom", "left", "right", "top")
AUGMENT: list[Any] = [
    "repeat",
    {"kind": "crop", "pixels": 1},
    "random",
    "colour",
    {"kind": "cutout", "pixels": 2},
    {"kind": "either", "of": ["mixup", "cutmix"]},
]


def draw(count: int, seed: int) -> Iterator[tuple[str, Picture]]:
    """Pictures of noise, one half of each brighter."""
    luck = np.random.default_rng(seed)
    for n in range(count):
        picture = luck.integers(0, 64, (8, 8, 1), np.uint8)
        picture[(np.s_[4:], np.s_[:, :4], np.s_[:, 4:], np.s_[:4])[n % 4]] += 160
        yield SIDES[n % 4], picture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each label, and in it some pictures."""
    image = pytest.importorskip("PIL.Image")
    place = tmp_path_factory.mktemp("pictures")
    for split, count, seed in (("train", 120, 1), ("test", 20, 2)):
        for n, (label, picture) in enumerate(draw(count, seed)):
            (place / split / label).mkdir(parents=True, exist_ok=True)
            image.fromarray(picture[:, :, 0]).save(place / split / label / f"{n:03}.png")
    return place


def describe(folder: Path, out: Path, **changes: Any) -> Document:
    readers = {split: {"kind": "folders", "path": str(folder / split)} for split in ("train", "test")}
    tree = {
        "task": {"kind": "images", "smoothing": 0.1},
        "corpus": {"kind": "files", **readers, "validation": readers["test"]},
        "model": {"kind": "cct-2-3x2", "width": 16, "hidden": 16},
        "batches": {"rows": 24},
        "train": {"steps": 20, "evaluate": 10, "save": 10, "optimizer": {"rate": 0.01}},
        "device": "cpu",
        "out": str(out),
    }
    return Document({**tree, **changes})


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that has learned it."""
    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("runs") / "run"
    train(describe(folder, place))
    return place


@pytest.fixture(scope="module")
def classifier(run: Path) -> ImageClassifier:
    return load(run, kind=ImageClassifier)


@pytest.fixture(scope="module")
def shaken(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One whose pictures chance changes in every way, before it is trained."""
    place = tmp_path_factory.mktemp("runs") / "shaken"
    return Run.begin(describe(folder, place, task={"kind": "images", "augment": AUGMENT, "smoothing": 0.1}))


def test_sides_are_learned(run: Path) -> None:
    evaluations = [line for line in history(run / "metrics.jsonl") if line["event"] == "evaluation"]
    assert evaluations[-1]["accuracy"] > 0.9
    assert {"top5", "macro_f1", "loss", "calibration", "calibration_low"} <= evaluations[-1].keys()


def test_the_journal_tells_how_long_batches_were_waited_for(run: Path) -> None:
    shares = [line["waiting"] for line in history(run / "metrics.jsonl") if line["event"] == "step"]
    assert len(shares) == 20
    assert all(0 <= share < 1 for share in shares)


def test_a_shaken_run_goes_on_to_the_bit(shaken: Run) -> None:
    proof = verify(shaken.folder, steps=6)
    assert proof.exact, (proof.straight, proof.resumed)


class Stopper(Listener):
    """A break in the middle of training."""

    def on_save(self, path: Path) -> None:
        raise KeyboardInterrupt


def test_a_run_that_was_moved_goes_on_to_the_bit_without_the_pictures_files(folder: Path, tmp_path: Path) -> None:
    files = shutil.copytree(folder, tmp_path / "files")
    task = {"kind": "images", "augment": AUGMENT}
    few = {"steps": 6, "save": 3, "evaluate": 6}
    straight = train(describe(files, tmp_path / "straight", task=task, train=few))
    with pytest.raises(KeyboardInterrupt):
        train(describe(files, tmp_path / "run", task=task, train=few), listeners=[Stopper()])
    shutil.rmtree(files)
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    moved = resume(tmp_path / "elsewhere")
    assert moved.report.measures == straight.report.measures
    weights = [load(tmp_path / name, kind=ImageClassifier).model.state_dict() for name in ("straight", "elsewhere")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def take(run: Run, position: int, count: int) -> list[ImageBatch]:
    task = run.trainer().task
    places = task.batches(0, position)
    try:
        return [place.batch for place in islice(places, count)]
    finally:
        places.close()


def test_a_batch_follows_from_its_place_alone(shaken: Run) -> None:
    straight, later = take(shaken, 0, 4), take(shaken, 2, 2)
    for one, other in zip(straight[2:], later, strict=True):
        assert torch.equal(one.inputs.tokens, other.inputs.tokens)
        assert torch.equal(one.targets, other.targets)
    assert not torch.equal(straight[0].inputs.tokens[0], straight[1].inputs.tokens[0])
    assert all(len(batch.targets) == 3 * 24 for batch in straight)  # repeated
    assert any((batch.targets.max(1).values < 0.99).any() for batch in straight)  # blended
    assert all(torch.allclose(batch.targets.sum(1), torch.ones(72)) for batch in straight)


def test_nothing_is_changed_in_an_evaluation(shaken: Run, run: Path) -> None:
    """The same weights measure the same, whatever chance does while training."""
    model = load(run, kind=ImageClassifier).model
    plain, changed = Run.open(run).trainer().task, shaken.trainer().task
    assert plain.measure(model, lambda: None) == changed.measure(model, lambda: None)


def test_the_loss_takes_shares_of_classes(shaken: Run) -> None:
    trainer, batch = shaken.trainer(), take(shaken, 0, 1)[0]
    task, model = trainer.task, trainer.model.eval()
    assert isinstance(task, ImageTask)
    logs = model(batch.inputs).detach().log_softmax(-1)
    smooth = 0.9 * batch.targets + 0.1 / 4
    wanted = -sum(
        float(smooth[n, label] * logs[n, label]) for n in range(len(batch.targets)) for label in range(len(SIDES))
    )
    assert float(task.loss(model, batch).detach()) == pytest.approx(wanted, rel=1e-5)
    assert task.size(batch) == 72


def test_probabilities_are_measured_as_by_hand() -> None:
    luck = np.random.default_rng(0)
    scores = luck.normal(0, 2, (200, 9))
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    gold = luck.integers(0, 9, 200).tolist()
    found = measure_probabilities(gold, logs)
    loss, top, bins = 0.0, 0, [[0.0, 0.0, 0] for _ in range(15)]
    for row, label in zip(logs, gold, strict=True):
        loss -= row[label]
        top += label in np.argsort(-row)[:5]
        certain = float(np.exp(row.max()))
        place = bins[min(int(certain * 15), 14)]
        place[0] += certain
        place[1] += int(row.argmax()) == label
        place[2] += 1
    error = sum(count / 200 * abs(sure / count - right / count) for sure, right, count in bins if count)
    assert found["loss"] == pytest.approx(loss / 200)
    assert found["top5"] == pytest.approx(top / 200)
    assert found["calibration"] == pytest.approx(error)
    for name in ("loss", "top5", "calibration"):
        assert found[f"{name}_low"] <= found[name] <= found[f"{name}_high"]
    same = measure_probabilities([0, 1], np.full((2, 9), np.log(1 / 9)))  # nothing is told apart
    assert same["top5"] == 0


def test_a_picture_is_asked_by_path_bytes_or_array(classifier: ImageClassifier, folder: Path) -> None:
    path = folder / "test/left/001.png"
    (label, picture), *_ = (pair for pair in draw(20, 2) if pair[0] == "left")
    ways: list[GivenPicture] = [str(path), path, path.read_bytes(), picture, picture[:, :, 0], np.repeat(picture, 3, 2)]
    verdicts = classifier.classify(ways)
    assert {verdict.label for verdict in verdicts} == {label}
    assert classifier.classify(path).scores == pytest.approx(verdicts[0].scores, abs=1e-5)
    assert sum(verdicts[0].probabilities.values()) == pytest.approx(1)
    assert next(iter(verdicts[0].rank(2))) == "left"
    assert isinstance(classifier, Pipeline)
    assert classifier.reads == "pictures"


@pytest.mark.parametrize("given", [None, 7, [None], [[0, 1], [1, 0]], "pillow"])
def test_what_is_no_picture_is_refused_by_its_type(classifier: ImageClassifier, given: Any) -> None:
    if given == "pillow":
        given = pytest.importorskip("PIL.Image").fromarray(np.zeros((8, 8), np.uint8))
    with pytest.raises(InputError, match="a picture is a path, a file's bytes, or an array"):
        classifier.classify(given)


def test_other_sizes_are_fitted_when_it_is_said(classifier: ImageClassifier) -> None:
    large = np.kron(dict(draw(4, 5))["top"][:, :, 0], np.ones((3, 3), np.uint8))[:, :, None]
    with pytest.raises(InputError, match="another size: 24 × 24, and 8 × 8 is wanted"):
        classifier.classify(large)
    assert classifier.classify(large, fit="resize").label == "top"
    with pytest.raises(InputError, match="float32"):
        classifier.classify(np.zeros((8, 8, 1), np.float32))
    with pytest.raises(InputError, match="this is a int"):
        classifier.classify([3])  # type: ignore[list-item]


def test_places_of_a_picture_are_laid_out(classifier: ImageClassifier, folder: Path) -> None:
    look = classifier.look(str(folder / "test/left/001.png"))
    grid = classifier.model.spec.main.embedding.grid
    assert grid is not None
    assert len(look.tokens) == grid.count
    assert look.reading.tokens.pieces[:2] == ("0,0", "0,1")
    assert look.maps()


def test_pictures_are_classified_by_the_command_line(run: Path, folder: Path, tmp_path: Path) -> None:
    shutil.make_archive(str(tmp_path / "all"), "gztar", folder / "test")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted((folder / "test").rglob("*.png")):
            archive.write(path, path.relative_to(folder / "test"))
    whole = regard("classify", str(run), str(folder / "test"))
    assert whole.returncode == 0, whole.stderr
    lines = [line.split("\t") for line in whole.stdout.splitlines()]
    assert len(lines) == 20
    assert sum(Path(file).parent.name == label for label, _, file in lines) >= 18
    for name in ("all.zip", "all.tar.gz"):
        done = regard("classify", str(run), str(tmp_path / name))
        assert sorted(line.split("\t")[:2] for line in done.stdout.splitlines()) == sorted(line[:2] for line in lines)
    one = regard("classify", str(run), f"{tmp_path}/all.zip:left/001.png", "--json", "--best", "2")
    told = json.loads(one.stdout)
    assert (told["label"], len(told["probabilities"])) == ("left", 2)


def test_bad_pictures_lose_no_others(run: Path, folder: Path, tmp_path: Path) -> None:
    good = folder / "test/left/001.png"
    (tmp_path / "cut.png").write_bytes(good.read_bytes()[:60])
    (tmp_path / "text.png").write_text("hello")
    words = [str(good), str(tmp_path / "cut.png"), str(tmp_path / "text.png"), str(tmp_path / "none.png"), str(good)]
    done = regard("classify", str(run), *words)
    assert done.returncode == 3
    answers = done.stdout.splitlines()
    assert answers[0] == answers[-1] != ""
    assert answers[1:-1] == ["", "", ""]
    assert f"{tmp_path}/cut.png: damaged picture" in done.stderr
    assert f"{tmp_path}/text.png: not a picture" in done.stderr
    assert f"{tmp_path}/none.png: No such file" in done.stderr
    assert "no answer for 3 of the pictures" in done.stderr
    alone = regard("classify", str(run), str(tmp_path / "text.png"))
    assert (alone.returncode, alone.stdout) == (3, "")
    assert f"{tmp_path}/text.png: not a picture" in alone.stderr


def test_formats_that_are_not_read_are_told_in_folders_too(run: Path, folder: Path, tmp_path: Path) -> None:
    shutil.copy(folder / "test/left/001.png", tmp_path / "a.png")
    (tmp_path / "b.gif").write_bytes(b"GIF89a")
    (tmp_path / "notes.txt").write_text("no picture, and not meant for one")
    done = regard("classify", str(run), str(tmp_path))
    assert (done.returncode, len(done.stdout.splitlines())) == (3, 2)
    assert f"{tmp_path}/b.gif: not a picture" in done.stderr
    assert "no answer for 1 of the pictures" in done.stderr


def test_all_heads_and_what_layers_pass_on_are_drawn_over_the_places(run: Path, folder: Path) -> None:
    words = ("inspect", str(run), "--image", str(folder / "test/left/001.png"))
    sheet = regard(*words, "--all").stdout
    assert sheet.count("(2 × 2 places, 2 heads)") == 2, sheet
    assert regard(*words, "--head", "rollout").stdout.startswith("encoder, rollout of 2 layers\nmean\n")


def test_a_classifier_is_given_no_caption(run: Path, folder: Path) -> None:
    done = regard("inspect", str(run), "--image", str(folder / "test/left/001.png"), "--text", "a red square")
    assert done.returncode == 3
    assert "this ImageClassifier reads one picture, and a target is given too" in done.stderr


def test_what_is_no_question_to_pictures_is_refused(run: Path, folder: Path) -> None:
    for words, told in (
        ((), "which pictures?"),
        (("--file", "list.txt"), "--file list.txt: is for lines of text"),
        ((str(folder), "--fit", "resise"), "did you mean 'resize'"),
    ):
        done = regard("classify", str(run), *words)
        assert done.returncode == 2
        assert told in done.stderr
    done = regard("classify", str(run), str(run / "data"))
    assert done.returncode == 3
    assert "no .png" in done.stderr


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"model": "bert-tiny"}, "it reads words, and this task has pictures"),
        ({"model": {"kind": "vit-tiny", "image": 16}}, "model.image: it reads pictures of 16 × 16 × 1"),
        ({"model": {"kind": "vit-tiny", "channels": 3}}, "model.channels: it reads pictures of 8 × 8 × 3"),
        ({"batches": {"tokens": 40}}, "batches.tokens: 40, and a batch of pictures is so many pictures"),
        ({"task": {"kind": "images", "fit": "crop"}}, "crop to which size"),
        ({"task": {"kind": "images", "augment": [{"kind": "crop", "pixels": 8}]}}, "a picture's side has 8"),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        train(describe(folder, tmp_path / "run", **changes))


@pytest.mark.parametrize("task", [{"size": 12, "fit": "resize"}, {"size": [6, 8], "fit": "pad", "channels": 3}])
def test_a_model_is_made_for_the_pictures(folder: Path, tmp_path: Path, task: dict[str, Any]) -> None:
    run = Run.begin(describe(folder, tmp_path / "run", task={"kind": "images", **task}))
    size = task["size"]
    height, width = (size, size) if isinstance(size, int) else size
    canvas = run.prepared().lexicon.canvas
    assert canvas is not None
    assert canvas.shape == (height, width, task.get("channels", 1))
    assert run.assembly().model.main.embedding.picture == canvas.shape
    assert run.assembly().family is not None
    run.trainer().task.loss(run.trainer().model, take(run, 0, 1)[0])


@pytest.mark.parametrize("model", ["vit-tiny", "cct-2-3x2"])
def test_a_family_tells_the_classes_that_its_head_has(folder: Path, tmp_path: Path, model: str) -> None:
    assembly = Run.begin(describe(folder, tmp_path / "run", model=model)).assembly()
    assert assembly.family is not None and assembly.family["classes"] == 4
    if model == "vit-tiny":  # so others can be told what it is
        assert match_model(assembly.model, assembly.family, "run").config["image_size"] == 8
