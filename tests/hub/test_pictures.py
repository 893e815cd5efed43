"""Pictures of models from elsewhere: prepared as their own files say, and their labels as transformers gives them."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.core.model import Model
from regard.data.canvas import Canvas
from regard.data.lexicon import Lexicon
from regard.data.processor import NAME, Processor, write_processor
from regard.errors import RegardWarning
from regard.hub.targets.hf import HuggingFace
from regard.models import preset
from regard.runs.convert import bring
from regard.runs.load import load_bundle
from regard.runs.start import adopt
from regard.tasks.bundle import Bundle
from regard.tasks.images import ImageClassifier, ImageTaskSpec

hf = pytest.importorskip("transformers")
PLAIN: dict[str, Any] = {
    "do_resize": True,
    "size": {"height": 12, "width": 12},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.25, 0.3],
}
PICTURE = (12, 12, 3)


def make_folder(folder: Path, processor: dict[str, Any]) -> Any:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    names = {0: "cat", 1: "dog", 2: "cow"}
    config = hf.ViTConfig(**sizes, image_size=12, patch_size=4, id2label=names, label2id={})
    theirs = hf.ViTForImageClassification(config).eval()
    with torch.no_grad():
        theirs.classifier.weight.normal_()
    theirs.save_pretrained(folder)
    (folder / NAME).write_text(json.dumps(processor))
    return theirs


def draw(count: int, height: int = 12, width: int = 12) -> list[Any]:
    chance = np.random.default_rng(0)
    return [chance.integers(0, 256, (height, width, 3), dtype=np.uint8) for _ in range(count)]


@torch.no_grad()
def test_a_picture_gets_the_label_and_the_share_that_transformers_gives(tmp_path: Path) -> None:
    theirs = make_folder(tmp_path / "theirs", PLAIN)
    bring(str(tmp_path / "theirs"), tmp_path / "kept", check=False)
    pictures = draw(4)
    x = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(PLAIN[key]).view(3, 1, 1) for key in ("image_mean", "image_std"))
    shares, best = theirs(pixel_values=(x - mean) / std).logits.softmax(-1).max(-1)
    for noun in ("theirs", "kept"):
        classifier = regard.load(tmp_path / noun, "cpu")
        assert isinstance(classifier, ImageClassifier)
        found = classifier.classify(pictures)
        assert [verdict.label for verdict in found] == [("cat", "dog", "cow")[n] for n in best.tolist()]
        assert [verdict.probability for verdict in found] == pytest.approx(shares.tolist(), abs=1e-4)
        assert classifier.classify(draw(1, 20, 30)[0]).label in ("cat", "dog", "cow")  # resized, as its file says


@pytest.mark.parametrize(
    ("change", "fit", "told"),
    [
        ({}, "resize", ""),
        ({"do_resize": False}, None, ""),
        ({"size": 12}, "resize", ""),
        ({"resample": 3}, "resize", "bicubic there, and bilinear here"),
        ({"do_center_crop": True, "size": {"shortest_edge": 12}, "crop_size": 12}, "crop", ""),
        ({"do_center_crop": True, "size": 16, "crop_size": 12}, "resize", "become 16 × 16 there before 12 × 12"),
        (
            {"do_center_crop": True, "size": {"shortest_edge": 16}, "crop_size": 12},
            "crop",
            "become 16 at the shorter side there",
        ),
    ],
)
def test_what_differs_here_is_told(change: dict[str, Any], fit: str | None, told: str) -> None:
    found = Processor.read(PLAIN | change, PICTURE)
    assert found.canvas == Canvas(12, 12, 3, "uint8", (0.5, 0.4, 0.3), (0.2, 0.25, 0.3))
    assert found.fit == fit
    assert (told in found.told[0]) if told else not found.told


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"size": 16}, "makes pictures of 16 × 16, and the model reads 12 × 12"),
        ({"size": {"shortest_edge": 12}}, "12 at the shorter side"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order is True"),
        ({"image_mean": [0.5]}, "3 channels a number each"),
        ({"image_std": [0.5, 0.0, 1.0]}, "3 channels a number each"),
        ({"image_mean": None}, "3 channels a number each"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(change: dict[str, Any], told: str) -> None:
    found = Processor.read(PLAIN | change, PICTURE)
    assert found.canvas is None and told in found.told[0]


def test_bytes_that_are_not_rescaled_are_subtracted_from_as_they_are() -> None:
    found = Processor.read(PLAIN | {"do_rescale": False, "image_mean": [51.0] * 3, "image_std": [255.0] * 3}, PICTURE)
    assert found.canvas is not None
    assert found.canvas.mean == pytest.approx((0.2,) * 3) and found.canvas.spread == pytest.approx((1.0,) * 3)
    plain = Processor.read(PLAIN | {"do_normalize": False}, PICTURE)
    assert plain.canvas is not None and plain.canvas.mean == (0.0,) * 3


def test_a_canvas_that_goes_out_comes_in_again(tmp_path: Path) -> None:
    canvas = Canvas(8, 8, 1, "uint8", (0.25,), (0.5,))
    for fit in (None, "resize", "crop"):
        tree, told = write_processor(canvas, fit)
        assert not told
        assert Processor.read(tree, (8, 8, 1)) == Processor(canvas, fit or "resize")
    assert "fitted by pad" in write_processor(canvas, "pad")[1][0]


def bundle_of(model: Model, labels: list[str], task: ImageTaskSpec) -> Bundle:
    canvas = Canvas(8, 8, 1, "uint8", (0.25,), (0.5,))
    return Bundle(model, Lexicon(None, labels, canvas=canvas), task, family=model.spec.family)


def test_a_model_that_was_trained_here_goes_out_with_its_pictures(tmp_path: Path) -> None:
    model, labels = preset("vit-tiny", width=16, depth=1, heads=2, classes=3).build().eval(), ["a", "b", "c"]
    HuggingFace().write(bundle_of(model, labels, ImageTaskSpec()), "it", tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["id2label"] == {"0": "a", "1": "b", "2": "c"}
    picture = np.random.default_rng(0).integers(0, 256, (8, 8, 1), dtype=np.uint8)
    back = regard.load(tmp_path / "out", "cpu")
    here = ImageClassifier(model, bundle_of(model, labels, ImageTaskSpec()).lexicon)  # type: ignore[arg-type]
    assert isinstance(back, ImageClassifier)
    assert back.classify(picture).probability == pytest.approx(here.classify(picture).probability, abs=1e-5)
    theirs = hf.AutoImageProcessor.from_pretrained(tmp_path / "out", use_fast=False)
    values = theirs(picture, return_tensors="pt", input_data_format="channels_last")["pixel_values"]
    assert here.lexicon.canvas is not None
    torch.testing.assert_close(values, here.lexicon.canvas.normalise(picture[None]), atol=1e-5, rtol=0)


def test_a_change_of_the_processor_is_told_when_it_is_loaded(tmp_path: Path) -> None:
    make_folder(tmp_path / "theirs", PLAIN | {"resample": 3})
    with pytest.warns(RegardWarning, match="bicubic there"):
        assert load_bundle(str(tmp_path / "theirs"), "cpu").lexicon is not None
    (tmp_path / "theirs" / NAME).unlink()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = load_bundle(str(tmp_path / "theirs"), "cpu").lexicon
    assert found is not None and found.canvas is None and found.labels == ["cat", "dog", "cow"]


def test_a_start_from_another_size_keeps_what_was_learned(tmp_path: Path) -> None:
    """What fine-tuning on larger pictures begins with: the same weights, places interpolated, a head of its own."""
    origin = bundle_of(preset("vit-tiny", depth=1).build(), ["a", "b"], ImageTaskSpec())
    assert origin.lexicon is not None
    larger = preset("vit-tiny", depth=1, image=(12, 16)).build()
    fresh = adopt(larger, origin, Lexicon(None, ["x"] * 10, canvas=origin.lexicon.canvas))
    assert set(fresh.whole) == {"head.classes.weight", "head.classes.bias"}
    beside = {"kind": "learned", "join": "concatenate", "context": 17}
    tables = bundle_of(preset("vit-tiny", depth=1, position=beside).build(), ["a", "b"], ImageTaskSpec())
    wider = regard.redraw(tables.model, 16, 16)
    assert not adopt(wider, tables, Lexicon(None, ["a", "b"])).rows  # places are no tokens that others follow
    expected = regard.redraw(origin.model, 12, 16).state_dict()
    for name, weight in larger.state_dict().items():
        assert name.startswith("head.") or torch.equal(weight, expected[name])
