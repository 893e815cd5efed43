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
from regard.data.canvas import Picture
from regard.data.corpus import CorpusSpec, Generated, Split
from regard.data.encoders.encoder import EncoderSpec
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import TokenizerSpec
from regard.decode.captioner import Captioner
from regard.errors import InputError, SpecError
from regard.models import preset
from regard.runs.evaluate import evaluate
from regard.runs.load import load
from regard.runs.train import resume, train
from regard.tasks.captioning import CaptioningTask, CaptioningTaskSpec, likelihood
from regard.tasks.task import TaskSpec
from regard.train.listener import Listener, Step
from regard.train.moment import Moment

COLOURS = {"red": (220, 30, 30), "blue": (30, 30, 220)}
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

    def insist_installed(self) -> None: ...

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
        "model": {"kind": "show-attend-tell", "width": 32, "patch": 4, "dropout": 0.0, "position": "sinusoidal"},
        "train": {"steps": 60, "save": 20, "evaluate": 60, "optimizer": {"rate": 0.02}, "goal": "exact"},
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


def made(folder: Path, task: TaskSpec, shows: str = "pictures") -> Prepared:
    corpus = CorpusSpec.parse({"kind": "sides", "shows": shows})
    return prepare(corpus, task, TokenizerSpec(pieces="word"), 256, folder, folder / "data")[0]


@pytest.mark.parametrize("model", ["show-attend-tell", "captioner"])
def test_four_scenes_are_learned_to_the_letter_and_looked_at(model: str, tmp_path: Path) -> None:
    told: list[str] = []
    ended = train(write(tmp_path, model__kind=model), told.append)
    assert ended.report.measures is not None and ended.report.measures["exact"] == 1.0
    assert ended.report.measures["pictures"] == 4 and ended.report.measures["distinct"] == 4
    captioner = load(tmp_path / "run", kind=Captioner)
    picture = draw("blue", "right", "pictures")
    found = captioner.caption(picture, beam=2, best=2, attention=True)
    assert found.text in ("blue on the right", "the right is blue") and len(found.alternatives) == 1
    assert found.attention is not None and len(found.attention) == len(found.tokens)
    assert [sum(row) for row in found.attention] == pytest.approx([1.0] * len(found.tokens), abs=1e-4)
    assert captioner.caption([picture, draw("red", "left", "pictures")])[0].text == captioner.caption(picture).text
    assert evaluate([str(tmp_path / "run")], [], {}).measures["exact"] == 1.0
    look = captioner.look(picture, "blue on the right")
    assert look.source_tokens == ["0,0", "0,1", "1,0", "1,1"]
    [weights] = [w for name, w in look.weights().items() if look.place(name).columns == "source"][:1]
    assert weights.shape[-2:] == (len(look.tokens), 4)
    assert [guess.rank for guess in look.predictions()][1:] == [1] * (len(look.tokens) - 1)
