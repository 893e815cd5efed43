"""Painters against brute force: all pictures of two by two, each with its probability."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import regard
from regard.core.model import Model
from regard.core.order import Order
from regard.data.pixel import Binarisation, PixelCoder
from regard.decode.painter import Painter
from regard.errors import InputError

ORDERS = get_args(Order)
PRESETS = ("pixel-gpt", "pixel-lstm", "pixel-mamba", "pixelcnn", "pixelrnn-row", "pixelrnn-diagonal")
# planes are mixed row by row, and a task refuses other orders
CASES = [(name, order) for name in PRESETS for order in ORDERS if order == "raster" or name in PRESETS[:3]]


def make_model(
    name: str = "pixel-gpt",
    height: int = 2,
    width: int = 2,
    channels: int = 1,
    levels: int = 2,
    order: Order = "raster",
) -> Model:
    torch.manual_seed(0)
    wide = 24 if channels == 3 else 16
    sizes = {"width": wide, "depth": 2, "image": (height, width), "channels": channels, "levels": levels}
    spec = regard.preset(name, **sizes)
    stack = spec.main.replace(embedding=spec.main.embedding.reorder(order))
    model = spec.replace(decoder=stack).build().eval()
    with torch.no_grad():
        for weight in model.parameters():  # far from even, so that pictures differ in probability
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def list_pictures(height: int, width: int, channels: int = 1) -> np.ndarray:
    bits = list(itertools.product((0, 255), repeat=height * width * channels))
    return np.array(bits, np.uint8).reshape(-1, height, width, channels)


@pytest.mark.parametrize(("name", "order"), CASES)
def test_the_probabilities_of_all_pictures_sum_to_one(name: str, order: Order) -> None:
    painter = Painter(make_model(name, order=order), PixelCoder(2, 2, 1, order=order))
    nats = painter.score_all(list_pictures(2, 2))
    assert math.isclose(np.exp(-nats).sum(), 1, abs_tol=1e-6)
    assert nats.std() > 0.1


def test_they_sum_to_one_with_channels() -> None:
    painter = Painter(make_model(height=1, width=2, channels=3), PixelCoder(1, 2, 3, order="random", seed=4))
    assert math.isclose(np.exp(-painter.score_all(list_pictures(1, 2, 3))).sum(), 1, abs_tol=1e-6)


def test_nats_are_those_of_an_independent_computation() -> None:
    """One pixel after the other, each from the logits of a call of its own on what comes before it."""
    model, coder = make_model(height=3, width=2, levels=7), PixelCoder(3, 2, 1, levels=7, order="hilbert")
    picture = np.array([[[0], [255]], [[90], [40]], [[200], [130]]], np.uint8)
    values = [int(value) * 7 // 256 for value in picture.reshape(-1)]
    read, total = [7], 0.0
    for place in (0, 1, 3, 5, 4, 2):  # Hilbert's way through three rows of two
        logits = model(torch.tensor([read])).detach()[0, -1]
        total -= float(F.log_softmax(logits, -1)[values[place]])
        read.append(values[place])
    assert coder.places.tolist() == [0, 1, 3, 5, 4, 2]
    assert math.isclose(Painter(model, coder).score(picture), total, abs_tol=1e-5)


@pytest.mark.parametrize("order", ["raster", "random"])
def test_samples_come_as_often_as_they_are_likely(order: Order) -> None:
    painter = Painter(make_model(), PixelCoder(2, 2, 1, order=order, seed=1))
    every = list_pictures(2, 2)
    wanted = np.exp(-painter.score_all(every))
    count = 4000
    drawn = np.stack([drawing.picture for drawing in painter.sample(count, seed=3)])
    numbers = (drawn.reshape(count, -1) > 0) @ np.array([8, 4, 2, 1])
    share = np.bincount(numbers, minlength=16) / count
    # five standard errors
    assert (np.abs(share - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / count) + 1e-3).all()


@pytest.mark.parametrize("name", PRESETS)
def test_what_was_drawn_with_the_state_is_as_likely_when_it_is_computed_again(name: str) -> None:
    model = make_model(name, 4, 3, 3, levels=5)
    painter = Painter(model, PixelCoder(4, 3, 3, levels=5))
    for drawing in painter.sample(3, seed=1):
        # from 0 to 255 and back to the levels, which lie where they were
        assert math.isclose(painter.score(drawing.picture), drawing.nats, abs_tol=1e-5 * 36)


def test_neighbours_and_seeds() -> None:
    painter = Painter(make_model(height=4, width=4), PixelCoder(4, 4, 1))
    many, few, other = painter.sample(5, seed=2), painter.sample(2, seed=2), painter.sample(5, seed=3)
    assert all((one.picture == two.picture).all() for one, two in zip(few, many, strict=False))
    assert any((one.picture != two.picture).any() for one, two in zip(other, many, strict=True))
    assert any((one.picture != many[0].picture).any() for one in many)


def test_without_temperature_every_pixel_is_the_likeliest() -> None:
    painter = Painter(make_model(height=3, width=3), PixelCoder(3, 3, 1))
    one, two = painter.sample(2, temperature=0)
    assert (one.picture == two.picture).all()
    assert one.nats < min(drawing.nats for drawing in painter.sample(20, temperature=3, seed=1))


@pytest.mark.parametrize("order", ["raster", "s-curve"])
def test_a_completion_keeps_the_rows_that_are_given(order: Order) -> None:
    painter = Painter(make_model(height=4, width=3), PixelCoder(4, 3, 1, order=order))
    picture = (np.random.default_rng(0).integers(0, 2, (4, 3, 1)) * 255).astype(np.uint8)
    told: list[int] = []
    drawn = painter.complete(picture, 2, count=6, seed=1, advance=told.append)
    assert all((drawing.picture[:2] == picture[:2]).all() for drawing in drawn)
    assert any((drawing.picture[2:] != picture[2:]).any() for drawing in drawn)
    assert sum(told) == 6 * 6
    for drawing in drawn[:2]:  # what is given costs nothing
        tokens = painter.coder.encode(drawing.picture[None])
        read = torch.tensor([[2, *tokens[0, :-1]]])
        logs = painter.model(read).detach().log_softmax(-1)[0].gather(1, torch.from_numpy(tokens[0])[:, None])[:, 0]
        assert math.isclose(-float(logs[6:].sum()), drawing.nats, abs_tol=1e-4)


def test_other_orders_are_completed_by_their_first_pixels() -> None:
    painter = Painter(make_model(height=4, width=4), PixelCoder(4, 4, 1, order="hilbert"))
    picture = np.full((4, 4, 1), 255, np.uint8)
    with pytest.raises(InputError, match="hilbert"):
        painter.complete(picture, 2)
    drawn = painter.complete(picture, pixels=12, count=2)
    assert all((drawing.picture.reshape(-1)[painter.coder.places[:12]] == 255).all() for drawing in drawn)


@pytest.mark.parametrize("given", [None, [[0, 255], [255, 0]], b"no picture", "bad.png"])
def test_what_is_no_picture_is_refused(given: Any, tmp_path: Path) -> None:
    painter = Painter(make_model(height=4, width=4), PixelCoder(4, 4, 1))
    if given == "bad.png":
        given = tmp_path / given
        given.write_bytes(b"no picture")
    for ask in (painter.complete, painter.score):
        with pytest.raises(InputError, match="bad.png: " if isinstance(given, Path) else "picture"):
            ask(given)


@pytest.mark.parametrize("binarise", ["threshold", "static", "dynamic"])
def test_bits_are_not_taken_for_black(binarise: Binarisation) -> None:
    bits = np.ones((4, 4, 1), np.uint8)
    painter = Painter(make_model(height=4, width=4), PixelCoder(4, 4, 1, binarise=binarise))
    with pytest.raises(InputError, match="its largest value is 1"):
        painter.read(bits)
    assert (painter.read(255 * bits) == 255).all() and not painter.read(0 * bits).any()
    assert (Painter(painter.model, PixelCoder(4, 4, 1)).read(bits) == 1).all()


def test_greys_are_refused_where_pictures_come_in_black_and_white() -> None:
    painter = Painter(make_model(height=4, width=4), PixelCoder(4, 4, 1))
    picture = np.zeros((4, 4, 1), np.uint8)
    picture[2, 1] = 90
    for ask in (painter.complete, painter.score):
        with pytest.raises(InputError, match="a value of it is 90, and the model knows black and white alone") as error:
            ask(picture)
        assert "task." not in error.value.hint  # nobody trains again to complete a picture


@pytest.mark.parametrize("wrong", [{"rows": 4}, {"rows": -1}, {"pixels": 16}, {"rows": 1, "pixels": 1}, {"count": 0}])
def test_what_can_not_be_drawn_is_refused(wrong: dict[str, int]) -> None:
    painter = Painter(make_model(height=4, width=4), PixelCoder(4, 4, 1))
    with pytest.raises(InputError):
        painter.complete(np.zeros((4, 4, 1), np.uint8), **wrong)  # type: ignore[arg-type]
