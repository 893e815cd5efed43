"""The task of pixels: trained, measured and resumed to the bit; what it can't learn is refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
import torch

from regard.config import Document
from regard.data.batches import BatchSpec
from regard.data.canvas import Canvas
from regard.data.corpus import CorpusSpec, Generated, Split
from regard.data.lexicon import Lexicon
from regard.data.preparation import prepare
from regard.data.prepared import Prepared
from regard.data.sample import Form, Sample
from regard.data.tokenizer import TokenizerSpec
from regard.decode.painter import Painter
from regard.errors import CheckpointError, DataError, SpecError
from regard.models import preset
from regard.runs.evaluate import TestSet, evaluate
from regard.runs.load import load
from regard.runs.train import resume, train
from regard.runs.verify import verify
from regard.tasks.pixels import PixelTask, PixelTaskSpec
from regard.tasks.task import TaskSpec


@pytest.fixture(scope="module", autouse=True)
def strokes() -> Iterator[None]:
    """A corpus of small pictures, each with a bright bar somewhere; gone again for the tests of others."""

    class Strokes(Generated):
        gives: ClassVar[tuple[Form, ...]] = ("pictures",)
        kind: Literal["strokes"] = "strokes"
        train: int = 120
        validation: int = 20
        test: int = 10
        values: tuple[int, int] = (0, 255)

        def forms(self) -> tuple[Form, ...]:
            return self.gives

        def stream(self, form: Form, split: Split) -> Iterator[Sample]:
            chance = np.random.default_rng([ord(letter) for letter in split])
            low, high = self.values
            while True:
                picture = np.full((4, 6, 1), low, np.uint8)
                picture[:, int(chance.integers(6))] = high
                yield {"picture": picture}

    yield
    del CorpusSpec.kinds["strokes"]


def make_ready(task: PixelTaskSpec, folder: Path, values: tuple[int, int] = (20, 230)) -> Prepared:
    corpus = CorpusSpec.parse({"kind": "strokes", "values": list(values)})
    return prepare(corpus, task, TokenizerSpec(), 256, folder, folder / "data")[0]


def write_run(folder: Path, **task: Any) -> Document:
    return Document(
        {
            "task": {"kind": "pixels", **task},
            "corpus": {"kind": "strokes", "values": [20, 230]},
            "model": {"kind": "pixel-gpt", "width": 16, "depth": 1},
            "batches": {"rows": 8},
            "train": {"steps": 8, "save": 4, "evaluate": 4},
            "device": "cpu",
            "out": str(folder / "run"),
        }
    )


@pytest.mark.parametrize("order", ["raster", "hilbert"])
def test_a_run_with_dynamic_binarisation_is_measured_verified_and_resumed_to_the_bit(
    order: str, tmp_path: Path
) -> None:
    ended = train(write_run(tmp_path, binarise="dynamic", order=order))
    folder = tmp_path / "run"
    painter = load(f"{folder}@latest", kind=Painter)
    assert (painter.model.spec.main.embedding.picture, painter.coder.shape) == ((4, 6, 1), (4, 6, 1))
    found = evaluate([f"{folder}@latest"], TestSet(split="validation"), {}).measures
    assert found == ended.report.measures
    assert found["order"] == order and found["binarisation"].startswith("dynamic")
    assert math.isclose(found["bits"], found["nats"] / math.log(2) / 24)
    assert found["nats_low"] <= found["nats"] <= found["nats_high"]
    assert verify(folder, 4).exact
    assert resume(folder, ["train.steps=12"]).report.moment.step == 12
    assert evaluate([str(folder)], TestSet(), {}).measures["pictures"] == 10


def test_an_evaluation_is_the_mean_over_all_pictures(tmp_path: Path) -> None:
    """By the logits of one call for each picture."""
    task = PixelTaskSpec(binarise="static", order="s-curve", seed=3)
    prepared = make_ready(task, tmp_path)
    torch.manual_seed(0)
    model = task.fit_model(preset("pixel-lstm", width=8, depth=1), prepared.lexicon).build().eval()
    learner = task.build(prepared, BatchSpec(), 1)
    found, total = learner.measure(model, lambda: None), 0.0
    for sample in prepared.samples("validation"):
        bits = learner.coder.reduce(sample["picture"][None])[0, :, :, 0]
        bits[1::2] = bits[1::2, ::-1].copy()
        tokens = torch.tensor(bits.reshape(-1).tolist())
        read = torch.cat((torch.tensor([2]), tokens[:-1]))
        total -= float(model(read[None]).detach()[0].log_softmax(-1).gather(1, tokens[:, None]).sum())
    assert math.isclose(found["nats"], total / 20, rel_tol=1e-5)
    assert found["binarisation"] == "static, seed 3"
    part = task.replace(validate_on=7).build(prepared, BatchSpec(), 1).measure(model, lambda: None)
    assert part["pictures"] == 7 and part["nats"] != found["nats"]


def test_the_loss_of_a_batch_is_what_its_pictures_cost(tmp_path: Path) -> None:
    task = PixelTaskSpec(levels=16)
    prepared = make_ready(task, tmp_path)
    model = task.fit_model(preset("pixel-gpt", width=16, depth=1), prepared.lexicon).build().eval()
    learner: PixelTask = task.build(prepared, BatchSpec(rows=5), 1)
    place = next(learner.batches(0, 0))
    painter = task.pipeline(model, prepared.lexicon)
    # values of 16 levels lie where they were when they are made bytes and levels again
    pictures = painter.coder.decode(place.batch.numpy())
    assert math.isclose(
        float(learner.loss(model, place.batch).detach()), painter.score_all(pictures).sum(), rel_tol=1e-5
    )
    assert learner.size(place.batch) == 5 * 24


def test_dynamic_draws_differ_from_epoch_to_epoch_and_static_ones_never(tmp_path: Path) -> None:
    prepared = make_ready(PixelTaskSpec(binarise="dynamic"), tmp_path)

    def draw(way: str, epoch: int) -> set[bytes]:
        learner = PixelTaskSpec(binarise=way).build(prepared, BatchSpec(rows=120), 1)
        return {row.numpy().tobytes() for row in next(learner.batches(epoch, 0)).batch}

    assert draw("static", 0) == draw("static", 1)
    assert draw("dynamic", 0) == draw("dynamic", 0) != draw("dynamic", 1)


def test_pixels_are_learned(tmp_path: Path) -> None:
    document = write_run(tmp_path, binarise="threshold")
    document.tree["model"] = {"kind": "pixel-gpt", "width": 32, "depth": 1}
    document.tree["train"] = {"steps": 150, "evaluate": 150, "optimizer": {"kind": "adamw", "rate": 0.01}}
    measures = train(document).report.measures
    assert measures is not None
    # pixels by themselves cost 10.8 nats, white ones being one in six, and the six pictures that there are ln 6 = 1.8
    assert math.log(6) - 0.3 < measures["nats"] < 8
    assert measures["binarisation"] == "threshold"


def test_grey_pictures_are_left_out_and_counted_where_two_values_are_wanted(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"grey .task.binarise makes it black or white. 150"):
        make_ready(PixelTaskSpec(levels=2), tmp_path)
    prepared = make_ready(PixelTaskSpec(levels=2), tmp_path, (0, 1))
    assert prepared.lexicon.canvas is not None
    with pytest.raises(DataError, match=r"bits already .*task\.levels=2"):
        make_ready(PixelTaskSpec(binarise="static"), tmp_path, (0, 1))


def test_levels_and_binarisation_must_agree() -> None:
    assert [PixelTaskSpec(binarise="static").level_count, PixelTaskSpec().level_count] == [2, 256]
    with pytest.raises(SpecError, match="levels: 16, and binarise=static leaves 2"):
        PixelTaskSpec(binarise="static", levels=16)


def test_a_model_that_reads_no_pixels_is_refused() -> None:
    lexicon = Lexicon(None, canvas=Canvas(4, 6, 1, "uint8", (0.5,), (0.5,)))
    for name in ("gpt2", "vit-tiny"):
        with pytest.raises(SpecError, match="doesn't read pictures pixel by pixel"):
            PixelTaskSpec().fit_model(preset(name), lexicon)
    with pytest.raises(SpecError, match="an encoder and a decoder"):
        PixelTaskSpec().fit_model(preset("transformer-tiny"), lexicon)


def test_a_model_of_other_pictures_draws_nothing() -> None:
    model = preset("pixel-lstm", image=4, width=8, depth=1).build()
    for canvas in (Canvas(4, 6, 1, "uint8", (0.5,), (0.5,)), Canvas(4, 4, 1, "uint8", (0.5,), (0.5,))):
        with pytest.raises(CheckpointError, match=r"its model reads pictures of \(4, 4, 1\) with 3 tokens"):
            PixelTaskSpec(levels=3).pipeline(model, Lexicon(None, canvas=canvas))


@pytest.mark.parametrize("name", ["pixelcnn", "pixelrnn-row", "pixelrnn-diagonal"])
def test_a_model_of_planes_reads_a_raster_and_no_other_order(name: str) -> None:
    lexicon, model = Lexicon(None, canvas=Canvas(3, 6, 1, "uint8", (0.5,), (0.5,))), preset(name, depth=1)
    fitted = PixelTaskSpec(levels=4).fit_model(model, lexicon)
    assert fitted.build()(torch.full((1, 18), 4)).shape == (1, 18, 4)
    with pytest.raises(SpecError, match=r"task\.order: hilbert, and masked mixes a picture as a plane") as error:
        PixelTaskSpec(levels=4, order="hilbert").fit_model(model, lexicon)
    assert "task.order=raster" in error.value.hint


@pytest.mark.parametrize("levels", [2, 4, 256])
@pytest.mark.parametrize("name", ["pixelcnn", "pixelrnn-row", "pixelrnn-diagonal", "pixel-gpt"])
def test_a_fitted_model_is_the_preset_of_as_many_levels(name: str, levels: int) -> None:
    canvas = Canvas(4, 6, 1, "uint8", (0.5,), (0.5,))
    wanted = preset(name, image=(4, 6), levels=levels)
    for usual in (2, 4, 256):
        fitted = PixelTaskSpec(levels=levels).fit_model(preset(name, levels=usual), Lexicon(None, canvas=canvas))
        assert fitted == wanted


def test_a_first_convolution_that_somebody_narrowed_stays_so() -> None:
    canvas, model = Canvas(4, 6, 1, "uint8", (0.5,), (0.5,)), preset("pixelcnn")
    assert model.decoder is not None
    [block] = model.decoder.first
    assert block.mix is not None
    narrow = block.replace(mix=block.mix.replace(inputs=5))
    own = model.replace(decoder=model.decoder.replace(first=(narrow,)))
    fitted = PixelTaskSpec(levels=256).fit_model(own, Lexicon(None, canvas=canvas))
    assert fitted.decoder is not None
    assert fitted.decoder.first == (narrow,)


def test_the_task_survives_a_run_file() -> None:
    task = PixelTaskSpec(levels=8, order="random", seed=3, size=(4, 6), fit="pad")
    assert TaskSpec.parse(task.model_dump(mode="json")) == task
