"""Pictures as tokens and back."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from regard.core.order import Order
from regard.data.pixel import PixelCoder, draw
from regard.errors import DataError, InputError

ORDERS = get_args(Order)
GREY = np.random.default_rng(0).integers(0, 256, (6, 5, 4, 3), np.uint8)


@pytest.mark.parametrize("order", ORDERS)
def test_what_was_read_can_be_drawn_again(order: Order) -> None:
    coder = PixelCoder(5, 4, 3, levels=256, order=order)
    assert (coder.decode(coder.encode(GREY)) == GREY).all()
    assert (coder.places[coder.turns] == np.arange(60)).all()
    assert (coder.turns[coder.places] == np.arange(60)).all()


def test_tokens_stand_in_the_order_and_channels_of_a_pixel_follow_each_other() -> None:
    picture = np.arange(12, dtype=np.uint8).reshape(1, 2, 2, 3)
    assert PixelCoder(2, 2, 3, 256).encode(picture)[0].tolist() == list(range(12))
    curve = PixelCoder(2, 2, 3, 256, order="s-curve").encode(picture)[0].tolist()
    assert curve == [0, 1, 2, 3, 4, 5, 9, 10, 11, 6, 7, 8]


@pytest.mark.parametrize("levels", [3, 16, 200])
def test_levels_are_equal_parts_of_the_values(levels: int) -> None:
    every = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    counts = np.bincount(PixelCoder(16, 16, 1, levels).encode(every)[0])
    assert len(counts) == levels and counts.max() - counts.min() <= 1
    drawn = PixelCoder(16, 16, 1, levels).decode(PixelCoder(16, 16, 1, levels).encode(every))
    assert (drawn.min(), drawn.max()) == (0, 255)


def test_what_was_drawn_is_read_as_it_was_drawn() -> None:
    for levels in range(2, 257):
        coder = PixelCoder(16, 16, 1, levels)
        tokens = np.arange(256)[None] % levels
        assert (coder.encode(coder.decode(tokens)) == tokens).all(), levels


def test_two_values_are_taken_as_they_are_however_they_are_binarised() -> None:
    bits = (GREY > 100).astype(np.uint8)
    wanted = PixelCoder(5, 4, 3).encode(bits)
    assert (PixelCoder(5, 4, 3).encode(bits * 255) == wanted).all()
    for way in ("threshold", "static", "dynamic"):
        assert (PixelCoder(5, 4, 3, binarise=way).encode(bits * 255, chance=7) == wanted).all()


def test_grey_pictures_are_not_made_black_and_white_in_silence() -> None:
    with pytest.raises(DataError, match="more than two values") as error:
        PixelCoder(5, 4, 3).encode(GREY)
    assert "task.binarise" in error.value.hint


def test_a_static_draw_follows_from_the_picture_and_the_seed() -> None:
    coder = PixelCoder(5, 4, 3, binarise="static")
    drawn = coder.encode(GREY)
    assert (coder.encode(GREY[2:4], chance=9) == drawn[2:4]).all()  # whoever stands beside it
    assert (replace(coder, seed=1).encode(GREY) != drawn).any()


def test_a_dynamic_draw_follows_from_chance_and_without_it_stays() -> None:
    coder = PixelCoder(5, 4, 3, binarise="dynamic")
    assert (coder.encode(GREY, 1) == coder.encode(GREY, 1)).all()
    assert (coder.encode(GREY, 1) != coder.encode(GREY, 2)).any()
    assert (coder.encode(GREY) == replace(coder, binarise="static").encode(GREY)).all()


def test_brightness_is_the_probability_of_white() -> None:
    grey = np.repeat(np.array([[0, 51, 128, 204, 255]], np.uint8), 20_000, 0)
    share = (draw(3, grey.size).reshape(grey.shape) < grey).mean(0)
    assert np.abs(share - grey[0] / 255).max() < 0.012
    assert (share[0], share[-1]) == (0, 1)


def test_a_draw_is_the_same_in_years_to_come() -> None:
    assert draw(2**100 + 5, 6).tolist() == [145, 96, 154, 47, 229, 27]


def test_rows_are_whole_only_in_orders_that_go_by_rows() -> None:
    assert PixelCoder(5, 4, 3, order="s-curve").count_given(2) == 24
    for order in ("hilbert", "random"):
        with pytest.raises(InputError, match=order):
            PixelCoder(5, 4, 3, order=order).count_given(2)


def test_pictures_of_another_size_are_refused_with_both() -> None:
    with pytest.raises(DataError, match=r"\(5, 4, 3\).*4×4×3"):
        PixelCoder(4, 4, 3).encode(GREY)
