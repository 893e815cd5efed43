"""Captioning: trained, resumed, measured by what it writes, asked and looked at; with pictures, maps, and blind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

from regard.config import Document
from regard.core.model import Model
from regard.core.spec import Spec
from regard.data.batches import BatchSpec
from regard.data.canvas import Canvas, Picture
from regard.data.corpus import CorpusSpec, Generated, Split
from regard.data.encoders.encoder import EncoderSpec
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import TokenizerSpec
from regard.decode.captioner import Captioner
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.load import load
from regard.runs.train import resume, train
from regard.tasks.captioning import CaptioningTask, CaptioningTaskSpec, add_losses
from regard.tasks.task import TaskSpec
from regard.train.listener import Listener, Step
from regard.train.moment import Moment

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}
FEW = {"steps": 8, "save": 4, "evaluate": 4, "optimizer": {"rate": 0.01}}  # of training
PLACES = {"left": np.s_[:, :4], "right": np.s_[:, 4:]}


def draw(colour: str, place: str, kind: str) -> Picture:
    picture = np.full((8, 8, 3), 200, np.uint8)
    picture[PLACES[place]] = COLOURS[colour]
    return picture if kind == "pictures" else picture.astype(np.float32)[::2, ::2] / 50


class Sides(Generated):
    """A coloured half of a picture, and two sentences that say which."""

    gives: ClassVar[tuple[Form, ...]] = ("captions",)
    kind: Literal["sides"] = "sides"
    shows: Literal["pictures", "maps"] = "pictures"
    train: int = 4
    validation: int = 4
    test: int = 4

    def stream(self, form: Form, split: Split) -> Iterator[Sample]:
        for n in range(4):
            colour, place = list(COLOURS)[n % 2], list(PLACES)[n // 2]
            texts = [f"{colour} on the {place}", f"the {place} is {colour}"][: 1 + n % 2]
            yield {"picture": draw(colour, place, self.shows), "texts": texts}


class Halving(EncoderSpec):
    """A stand-in for a network from elsewhere: the mean of every two by two pixels."""

    kind: Literal["halving"] = "halving"

    def map_pictures(self, pictures: Any) -> list[Picture]:
        return [each.astype(np.float32).reshape(4, 2, 4, 2, 3).mean((1, 3)) / 50 for each in pictures]


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    yield
    roles: tuple[tuple[type[Spec], str], ...] = ((CorpusSpec, "sides"), (EncoderSpec, "halving"))
    for role, name in roles:
        role.kinds.pop(name, None)


def write(folder: Path, **changes: Any) -> Document:
    tree: dict[str, Any] = {
        "task": {"kind": "captioning", "smoothing": 0.0},
        "corpus": {"kind": "sides"},
        "tokenizer": {"pieces": "word"},
        "batches": {"rows": 3},
        "model": {
            "kind": "show-attend-tell",
            "map": "patches",
            "width": 32,
            "patch": 4,
            "depth": 1,
            "dropout": 0.0,
        },
        "train": {"steps": 150, "save": 50, "evaluate": 150, "optimizer": {"rate": 0.01}, "goal": "exact"},
        "device": "cpu",
        "out": str(folder / "run"),
    }
    for name, value in changes.items():
        place, _, key = name.rpartition("__")
        (tree[place] if place else tree)[key] = value
    return Document(tree)


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


def make_ready(folder: Path, task: TaskSpec, shows: str = "pictures") -> Prepared:
    corpus = CorpusSpec.parse({"kind": "sides", "shows": shows})
    return prepare(corpus, task, TokenizerSpec(pieces="word"), 256, folder, folder / "data")[0]


def build(task: TaskSpec, prepared: Prepared) -> Model:
    torch.manual_seed(1)
    spec = preset("show-attend-tell", map="patches", width=16, patch=4, vocabulary=len(prepared.lexicon.tokenizer))
    return task.fit_model(spec, prepared.lexicon).build().eval()


@pytest.mark.parametrize("model", ["show-attend-tell", "captioner"])
def test_four_scenes_are_learned_to_the_letter_and_looked_at(model: str, tmp_path: Path) -> None:
    told: list[str] = []
    ended = train(write(tmp_path, model__kind=model), told.append)
    assert ended.report.measures is not None and ended.report.measures["exact"] == 1.0
    assert ended.report.measures["pictures"] == 4 and ended.report.measures["distinct"] == 4
    assert [line.split(":")[1] for line in told if "tokens of" in line] == [" tokens of captions"]
    captioner = load(tmp_path / "run", kind=Captioner)
    picture = draw("blue", "right", "pictures")
    found = captioner.caption(picture, beam=2, best=2, attention=True)
    assert found.text in ("blue on the right", "the right is blue") and len(found.alternatives) == 1
    assert found.attention is not None and len(found.attention) == len(found.tokens)
    assert [sum(row) for row in found.attention] == pytest.approx([1.0] * len(found.tokens), abs=1e-4)
    assert captioner.caption([picture, draw("red", "left", "pictures")])[0].text == captioner.caption(picture).text
    assert evaluate([str(tmp_path / "run")], TestSet(), {}).measures["exact"] == 1.0
    look = captioner.look(picture, "blue on the right")
    assert look.source_tokens == ["0,0", "0,1", "1,0", "1,1"]
    weights = look.weights(captioner.model.alignments[0])[captioner.model.alignments[0]]
    assert weights.shape[-2:] == (len(look.tokens), 4)
    assert [guess.rank for guess in look.predictions()][1:] == [1] * (len(look.tokens) - 1)


def test_every_pair_comes_once_an_epoch_with_its_own_picture(tmp_path: Path) -> None:
    task = CaptioningTaskSpec()
    prepared = make_ready(tmp_path, task)
    learner = task.build(prepared, BatchSpec(rows=2), 1)
    assert len(learner.pairs) == 6
    seen: list[str] = []
    for place in learner.batches(0, 0):
        if place.epoch:
            break
        target, pixels = place.batch.target, place.batch.source.tokens
        for row, length in zip(target.tokens.tolist(), target.real.sum(1).tolist(), strict=True):
            number = len(seen) % 2
            text = learner.tokenizer.decode([row[1:length]])[0]
            colour, side = ("red" in text and "red") or "blue", ("left" in text and "left") or "right"
            wanted = learner.canvas.normalise(draw(colour, side, "pictures")[None])[0]
            assert torch.equal(pixels[number], wanted), text
            seen.append(text)
    assert sorted(seen) == sorted(text for sample in prepared.samples("validation") for text in sample["texts"])


def test_batches_keep_to_tokens_where_they_are_told(tmp_path: Path) -> None:
    task = CaptioningTaskSpec()
    prepared = make_ready(tmp_path, task)
    for batches, most in ((BatchSpec(tokens=8), 2), (BatchSpec(tokens=8, rows=3), 3), (BatchSpec(), 6)):
        counts = [len(rows) for rows, _ in task.build(prepared, batches, 1).order(0)]
        assert max(counts) == most and sum(counts) == 6


@pytest.mark.parametrize("hard", [False, "sampled"])
def test_it_goes_on_to_the_bit(hard: bool | str, tmp_path: Path) -> None:
    flip = {"kind": "captioning", "augment": ["flip", {"kind": "crop", "pixels": 1}]}
    straight, broken, resumed = Losses(), Losses(stop=4), Losses()
    said: dict[str, Any] = {"train": FEW, "task": flip, "model__dropout": 0.2, "model__hard": hard}
    whole = train(write(tmp_path / "a", **said), listeners=[straight])
    with pytest.raises(KeyboardInterrupt):
        train(write(tmp_path / "b", **said), listeners=[broken])
    gone_on = resume(tmp_path / "b" / "run", listeners=[resumed])
    assert broken.found + resumed.found == straight.found
    assert gone_on.report.measures == whole.report.measures


def test_the_blind_control_says_the_same_of_every_picture(tmp_path: Path) -> None:
    task = {"kind": "captioning", "blind": True}
    short = {"steps": 30, "save": 30, "evaluate": 30, "optimizer": {"rate": 0.01}}
    measures = train(write(tmp_path, task=task, train=short)).report.measures
    assert measures is not None and measures["distinct"] == 1 and measures["exact"] <= 0.25
    captioner = load(tmp_path / "run", kind=Captioner)
    assert captioner.blind
    found = captioner.caption([draw("red", "left", "pictures"), draw("blue", "right", "pictures")])
    assert found[0].log_probabilities == pytest.approx(found[1].log_probabilities, abs=1e-5)


def test_maps_of_features_are_read_as_pictures_are(tmp_path: Path) -> None:
    train(write(tmp_path, corpus={"kind": "sides", "shows": "maps"}, model__map="features", train=FEW))
    captioner, whole = load(tmp_path / "run", kind=Captioner), draw("red", "right", "maps")
    np.save(tmp_path / "map.npy", whole)
    found, other = captioner.caption([tmp_path / "map.npy", draw("blue", "left", "maps")])
    alone = captioner.caption(whole)
    assert found.text == alone.text
    assert found.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-5)  # sums of two rows, and of one
    assert found.log_probabilities != pytest.approx(other.log_probabilities, abs=1e-5)
    with pytest.raises(InputError, match="float32"):
        captioner.caption(draw("red", "right", "pictures"))


@pytest.mark.parametrize("model", ["show-attend-tell", "captioner"])
def test_convolutions_read_no_maps_of_features(model: str, tmp_path: Path) -> None:
    task = CaptioningTaskSpec()
    lexicon = make_ready(tmp_path, task, "maps").lexicon
    with pytest.raises(SpecError, match=r"model\.map: its convolutions would shrink a map of features") as error:
        task.fit_model(preset(model), lexicon)
    assert "model.map=features" in error.value.hint
    fitted = task.fit_model(preset(f"{model}-features"), lexicon)
    assert fitted.encoder is not None and fitted.encoder.embedding.grid is not None
    assert fitted.encoder.embedding.grid.count == 16


def test_an_encoder_looks_once_and_then_maps_are_kept(tmp_path: Path) -> None:
    train(write(tmp_path, task={"kind": "captioning", "encoder": "halving"}, model__map="features", train=FEW))
    captioner, picture = load(tmp_path / "run", kind=Captioner), draw("red", "right", "pictures")
    assert captioner.canvas.shape == (4, 4, 3) and captioner.canvas.dtype == "float32"
    [whole] = Halving().map_pictures([picture])
    assert captioner.caption(picture) == captioner.caption(whole)
    assert captioner.caption(picture[:, :, :1].repeat(3, 2)).text  # a grey picture has three equal colours
    pictured = captioner.lay_out(picture).pictured
    assert pictured is not None and np.array_equal(pictured.picture, picture) and pictured.grid.count == 16
    assert captioner.lay_out(whole).pictured is None  # nobody can see what a map was made of
    nothing: list[Any] = [None, [None]]
    for each in nothing:
        with pytest.raises(InputError, match="a picture is a path, a file's bytes, or an array"):
            captioner.caption(each)
    with pytest.raises(InputError, match=r"a map of \(2, 2, 3\)"):
        captioner.caption(whole[:2, :2])


@torch.no_grad()
def test_the_likelihood_is_that_of_one_caption_after_another(tmp_path: Path) -> None:
    task = CaptioningTaskSpec()
    prepared = make_ready(tmp_path, task)
    captioner = task.pipeline(build(task, prepared), prepared.lexicon)
    samples = prepared.samples("validation")
    found = list(add_losses(captioner, [s["picture"] for s in samples], [s["texts"] for s in samples]))
    for sample, (nats, count) in zip(samples, found, strict=True):
        logs: list[float] = []
        for text in sample["texts"]:
            [row] = captioner.tokenizer.encode([text])
            wanted = [*row, captioner.tokenizer.end]
            tokens = torch.tensor([[captioner.tokenizer.begin, *row]])
            logits = captioner.model(tokens, captioner.model.encode(captioner.look_at([sample["picture"]])))
            logs += logits.log_softmax(-1)[0, range(len(wanted)), wanted].tolist()
        assert nats == pytest.approx(-sum(logs), abs=1e-4) and count == len(logs)


def test_validation_captions_some_pictures_and_says_how_many(tmp_path: Path) -> None:
    task = CaptioningTaskSpec(validation=3)
    prepared = make_ready(tmp_path, task)
    learner: CaptioningTask = task.build(prepared, BatchSpec(), 1)
    found = learner.evaluate(build(task, prepared), lambda: None)
    assert found is not None and found["pictures"] == 3 and "decoding_seconds" not in found
    assert set(task.known_measures()) <= set(found)


def test_what_cannot_caption_is_refused_by_name(tmp_path: Path) -> None:
    task = CaptioningTaskSpec()
    lexicon = make_ready(tmp_path, task).lexicon
    for model in ("transformer-tiny", "gpt2", "vit-tiny"):
        with pytest.raises(SpecError, match="an encoder that reads pictures and a decoder that writes") as error:
            task.fit_model(preset(model), lexicon)
        assert "show-attend-tell" in str(error.value)
    with pytest.raises(SpecError, match="mixup puts pictures together"):
        CaptioningTaskSpec(augment=("mixup",))
    with pytest.raises(SpecError, match="either puts pictures together or repeats them"):
        CaptioningTaskSpec.parse({"augment": [{"kind": "either", "of": ["flip", "repeat"]}]})
    with pytest.raises(SpecError, match="reads colours"):
        CaptioningTaskSpec(encoder="halving", channels=1)


def test_pictures_that_come_later_are_like_those_of_training_and_maps_stay_maps() -> None:
    bytes_, maps = (Canvas(8, 6, n, kind, (0.0,) * n, (1.0,) * n) for n, kind in ((3, "uint8"), (40, "float32")))  # type: ignore[arg-type]
    taken = CaptioningTaskSpec().take_like(bytes_, "pad")
    assert (taken.size, taken.fit, taken.channels) == ((8, 6), "pad", 3)
    assert CaptioningTaskSpec().take_like(maps, None) == CaptioningTaskSpec()
