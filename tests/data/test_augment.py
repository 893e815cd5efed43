"""Changes of pictures: against loops over pictures and pixels, against Pillow, and by their place in the order."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import regard.data.augment  # noqa: F401  enters every kind
from regard.data.augment.blend import Cutmix, Either, Mixup, Repeat
from regard.data.augment.colour import LUMA, Colour
from regard.data.augment.move import Crop, Cutout, Flip
from regard.data.augment.operation import MOVES, Operation, operate
from regard.data.augment.prints import AugmentSpec, Prints, augment
from regard.data.augment.random import RandomOperations
from regard.data.canvas import Canvas
from regard.errors import SpecError

ROWS, HEIGHT, WIDTH = 6, 9, 12
KINDS = ["flip", "crop", "cutout", "colour", "random", "mixup", "cutmix", "repeat", {"kind": "either", "of": ["mixup"]}]


def draw(channels: int = 3, dtype: str = "uint8") -> Prints:
    luck = np.random.default_rng(0)
    shape = (ROWS, HEIGHT, WIDTH, channels)
    bytes_, reals = luck.integers(0, 256, shape, np.uint8), luck.standard_normal(shape, np.float32)
    canvas = Canvas(HEIGHT, WIDTH, channels, dtype, (0.25,) * channels, (0.5,) * channels)  # type: ignore[arg-type]
    shares = np.eye(3, dtype=np.float32)[np.arange(ROWS) % 3]
    return Prints(bytes_ if dtype == "uint8" else reals, canvas, shares)


def luck() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
def test_chance_follows_from_the_place_alone(kind: Any, channels: int) -> None:
    """The same place gives the same pictures, another one others; what is given isn't written to."""
    prints, change = draw(channels), AugmentSpec.parse(kind)
    before = prints.pictures.copy()
    prints.pictures.flags.writeable = False  # as in a mapped file
    one, same, other = (augment(prints, (change,), Random(seed)) for seed in ("1/0/5", "1/0/5", "1/0/6"))
    assert np.array_equal(one.pictures, same.pictures)
    assert kind == "repeat" or not np.array_equal(one.pictures, other.pictures)
    assert np.array_equal(prints.pictures, before)
    assert one.pictures.dtype == np.uint8
    assert one.shares is not None
    assert same.shares is not None
    assert np.array_equal(one.shares, same.shares)
    assert np.allclose(one.shares.sum(1), 1)


def test_flipping_mirrors_some() -> None:
    prints = draw()
    chosen = luck().random(ROWS) < 0.5
    for direction, mirror in (("horizontal", np.fliplr), ("vertical", np.flipud)):
        found = Flip(direction=direction).apply(prints, luck()).pictures
        for n in range(ROWS):
            assert np.array_equal(found[n], mirror(prints.pictures[n]) if chosen[n] else prints.pictures[n])
    assert 0 < chosen.sum() < ROWS


@pytest.mark.parametrize("padding", ["zero", "reflect"])
def test_a_crop_is_a_shift(padding: Any) -> None:
    prints = draw()
    places = luck().integers(0, 7, (ROWS, 2))
    found = Crop(pixels=3, padding=padding).apply(prints, luck()).pictures
    for n, y, x in np.ndindex(ROWS, HEIGHT, WIDTH):
        down, right = y + places[n, 0] - 3, x + places[n, 1] - 3
        if padding == "reflect":
            down, right = _reflect(down, HEIGHT), _reflect(right, WIDTH)
        inside = 0 <= down < HEIGHT and 0 <= right < WIDTH
        assert np.array_equal(found[n, y, x], prints.pictures[n, down, right] if inside else [0, 0, 0])


def _reflect(place: int, size: int) -> int:
    return -place if place < 0 else 2 * (size - 1) - place if place >= size else place


@pytest.mark.parametrize(("fill", "value"), [("mean", 64), ("black", 0)])
def test_cutout_hides_squares(fill: Any, value: int) -> None:
    prints, chance = draw(), luck()
    top, left = chance.integers(0, HEIGHT, (ROWS, 2)) - 2, chance.integers(0, WIDTH, (ROWS, 2)) - 2
    found = Cutout(pixels=5, count=2, fill=fill).apply(prints, luck()).pictures
    for n, y, x in np.ndindex(ROWS, HEIGHT, WIDTH):
        squares = zip(top[n], left[n], strict=True)
        hidden = any(down <= y < down + 5 and right <= x < right + 5 for down, right in squares)
        assert np.array_equal(found[n, y, x], [value] * 3 if hidden else prints.pictures[n, y, x])


def test_colour_changes_brightness_contrast_and_saturation() -> None:
    prints, chance = draw(), luck()
    bright, contrast, saturation = (chance.uniform(1 - span, 1 + span, ROWS) for span in (0.4, 0.3, 0.5))
    found = Colour(brightness=0.4, contrast=0.3, saturation=0.5).apply(prints, luck()).pictures
    for n in range(ROWS):
        x = prints.pictures[n] * bright[n]
        mean = np.mean([pixel @ LUMA for pixel in x.reshape(-1, 3)])
        x = mean + (x - mean) * contrast[n]
        greys = np.stack([x @ LUMA] * 3, -1)
        wanted = np.clip(greys + (x - greys) * saturation[n], 0, 255)
        assert np.abs(found[n] - wanted).max() < 0.51  # rounded


def test_no_change_of_colour_is_none() -> None:
    for channels in (1, 3):
        prints = draw(channels)
        found = Colour(brightness=0, contrast=0, saturation=0).apply(prints, luck())
        assert np.array_equal(found.pictures, prints.pictures)


def test_mixup_adds_pictures_and_classes() -> None:
    prints, chance = draw(), luck()
    own = chance.beta(0.5, 0.5, ROWS)
    own[chance.random(ROWS) >= 0.7] = 1
    other = chance.permutation(ROWS)
    found = Mixup(alpha=0.5, rate=0.7).apply(prints, luck())
    assert found.shares is not None
    assert prints.shares is not None
    assert 0 < (own < 1).sum() < ROWS
    for n in range(ROWS):
        mixed = own[n] * prints.pictures[n].astype(float) + (1 - own[n]) * prints.pictures[other[n]]
        assert np.abs(found.pictures[n] - mixed).max() < 0.51
        assert np.allclose(found.shares[n], own[n] * prints.shares[n] + (1 - own[n]) * prints.shares[other[n]])


def test_cutmix_shares_classes_by_the_pixels() -> None:
    """Pictures of one value each, so that every pixel tells whose it is."""
    prints = draw()
    flat = np.broadcast_to(np.arange(ROWS, dtype=np.uint8)[:, None, None, None], prints.pictures.shape)
    shares = np.eye(ROWS, dtype=np.float32)
    found = Cutmix().apply(Prints(flat, prints.canvas, shares), luck())
    assert found.shares is not None
    for n in range(ROWS):
        counts = np.bincount(found.pictures[n, :, :, 0].ravel(), minlength=ROWS) / (HEIGHT * WIDTH)
        assert np.allclose(found.shares[n], counts, atol=1e-6)
        foreign = np.argwhere(found.pictures[n, :, :, 0] != n)
        if len(foreign):  # a rectangle, whole
            tall, wide = np.ptp(foreign, 0) + 1
            assert len(foreign) == tall * wide
    assert (found.shares.max(1) < 1).any()


def test_repeated_pictures_are_changed_each_by_itself() -> None:
    prints = draw()
    found = augment(prints, (Repeat(times=4), RandomOperations()), Random(0))
    assert len(found) == 4 * ROWS
    assert found.shares is not None
    assert np.array_equal(found.shares.argmax(1), np.repeat(np.arange(ROWS) % 3, 4))
    assert not np.array_equal(found.pictures[0], found.pictures[1])


def test_either_makes_one_of_several() -> None:
    prints, change = draw(), Either(of=(Flip(rate=1.0), Flip(rate=1.0, direction="vertical")))
    ways = [change.apply(prints, np.random.default_rng(seed)).pictures for seed in range(9)]
    wanted = [prints.pictures[:, :, ::-1], prints.pictures[:, ::-1]]
    assert {next(n for n, way in enumerate(wanted) if np.array_equal(way, each)) for each in ways} == {0, 1}
    assert not change.blends
    assert Either(of=(Flip(), Mixup())).blends
    assert Either(of=(Flip(), Repeat())).repeats and not change.repeats
    with pytest.raises(SpecError, match="no change in the list"):
        Either(of=())


@pytest.mark.parametrize("name", get_args(Operation))
@pytest.mark.parametrize("channels", [1, 3])
def test_operations_on_many_are_those_on_each(name: Operation, channels: int) -> None:
    pictures = draw(channels).pictures
    strength = np.linspace(0.1, 1, ROWS, dtype=np.float32)
    mean = np.full(channels, 9, np.uint8)
    whole = operate(name, pictures, strength, mean)
    assert whole.dtype == np.uint8
    for n in range(ROWS):
        assert np.array_equal(whole[n : n + 1], operate(name, pictures[n : n + 1], strength[n : n + 1], mean))


@pytest.mark.parametrize("strength", [-1, -0.3, 0.3, 1])
def test_grey_pictures_have_no_colour_to_change(strength: float) -> None:
    pictures = draw(1).pictures
    found = operate("colour", pictures, np.full(ROWS, strength, np.float32), np.zeros(1, np.uint8))
    assert np.array_equal(found, pictures)


@pytest.mark.parametrize("name", MOVES)
def test_moves_take_each_pixel_from_its_place(name: Operation) -> None:
    """Moved there and back by hand: each pixel's own source, or the mean where it is outside."""
    pictures, strength = draw().pictures, np.linspace(-1, 1, ROWS, dtype=np.float32)
    found = operate(name, pictures, strength, np.full(3, 9, np.uint8))
    matrices = MOVES[name](strength)
    for n, y, x in np.ndindex(ROWS, HEIGHT, WIDTH):
        from_middle = np.array([y - (HEIGHT - 1) / 2, x - (WIDTH - 1) / 2], np.float32)
        place = matrices[n, :, :2] @ from_middle + matrices[n, :, 2] * (HEIGHT, WIDTH)
        exact = place + np.array([(HEIGHT - 1) / 2, (WIDTH - 1) / 2])
        if np.abs(exact % 1 - 0.5).min() < 1e-3:
            continue  # halfway between two pixels, where rounding decides
        down, right = np.rint(exact).astype(int)
        inside = 0 <= down < HEIGHT and 0 <= right < WIDTH
        assert np.array_equal(found[n, y, x], pictures[n, down, right] if inside else [9, 9, 9])


def _pillow(name: str, strength: float) -> tuple[Callable[[Any], Any], int]:
    from PIL import ImageEnhance, ImageOps

    enhance = {
        "colour": ImageEnhance.Color,
        "contrast": ImageEnhance.Contrast,
        "brightness": ImageEnhance.Brightness,
        "sharpness": ImageEnhance.Sharpness,
    }
    if name in enhance:
        return lambda image: enhance[name](image).enhance(1 + 0.9 * strength), 2  # it rounds on its way
    plain: dict[str, Callable[[Any], Any]] = {
        "autocontrast": ImageOps.autocontrast,
        "equalize": ImageOps.equalize,
        "posterize": lambda image: ImageOps.posterize(image, 8 - round(4 * strength)),
        "solarize": lambda image: ImageOps.solarize(image, int(256 * (1 - strength))),
    }
    return plain[name], 1 if name == "autocontrast" else 0


@pytest.mark.parametrize("name", ["autocontrast", "equalize", "posterize", "solarize", "colour", "contrast"])
def test_operations_are_pillows(name: Operation) -> None:
    _compare_with_pillow(name)


@pytest.mark.parametrize("name", ["brightness", "sharpness"])
def test_light_and_sharpness_are_pillows(name: Operation) -> None:
    _compare_with_pillow(name)


def _compare_with_pillow(name: Operation) -> None:
    image = pytest.importorskip("PIL.Image")
    luck = np.random.default_rng(1)
    pictures = (luck.beta(2, 5, (4, 40, 40, 3)) * 255).astype(np.uint8)  # many pixels, of some values more than others
    for strength in (0.25, 0.75):
        change, slack = _pillow(name, strength)
        found = operate(name, pictures, np.full(4, strength, np.float32), np.zeros(3, np.uint8))
        theirs = np.stack([np.asarray(change(image.fromarray(picture))) for picture in pictures])
        assert np.abs(found.astype(int) - theirs).max() <= slack


def test_maps_are_moved_and_not_coloured() -> None:
    prints = draw(5, "float32")
    changes: tuple[AugmentSpec, ...] = (Flip(), Crop(pixels=2), Cutout(pixels=3), Cutout(fill="noise"), Mixup())
    found = augment(prints, changes, Random(1))
    assert found.pictures.dtype == np.float32
    for change in (Colour(), RandomOperations()):
        with pytest.raises(SpecError, match="maps of 5 real numbers"):
            change.insist(prints.canvas)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(SpecError, match="shifts by 9 pixels, and a picture's side has 9"):
        Crop(pixels=9).insist(draw().canvas)
    with pytest.raises(SpecError, match="no operation"):
        RandomOperations(of=())
    with pytest.raises(SpecError, match="rotat"):
        AugmentSpec.parse({"kind": "random", "of": ["rotat"]})


def test_a_strength_of_nothing_changes_next_to_nothing() -> None:
    pictures: NDArray[np.uint8] = draw().pictures
    for name in get_args(Operation):
        if name not in ("autocontrast", "equalize"):  # which have no strength
            found = operate(name, pictures, np.zeros(ROWS, np.float32), np.zeros(3, np.uint8))
            assert np.array_equal(found, pictures), name
