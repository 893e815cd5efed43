"""Sheets of pictures."""

from __future__ import annotations

import numpy as np
import pytest

from regard.data.picture import decode_picture
from regard.host.png import encode_png
from regard.lens.sheet import arrange, choose_scale, draw_blocks


@pytest.mark.parametrize("channels", [1, 3])
def test_every_picture_stands_in_its_place_and_a_png_keeps_it(channels: int) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (5, 3, 4, channels), np.uint8)
    sheet = decode_picture(encode_png(arrange(list(pictures), 3, scale=2))).picture
    assert sheet.shape == (2 * 6 + 1, 3 * 8 + 2, channels)
    for number, picture in enumerate(pictures):
        top, left = 7 * (number // 3), 9 * (number % 3)
        for row in range(2):
            assert (sheet[top + row : top + 6 : 2, left + row : left + 8 : 2] == picture).all()
    assert (sheet[7:, 18:] == 96).all()  # an empty place


def test_a_sheet_is_large_enough_to_be_looked_at() -> None:
    assert choose_scale((28, 28, 1), 8, 8) == 3
    assert choose_scale((512, 512, 3), 8, 8) == 1


def test_blocks_have_two_rows_a_line() -> None:
    picture = np.array([[0, 255, 255], [0, 0, 255], [255, 0, 0]], np.uint8)[:, :, None]
    assert draw_blocks(picture, color=False).split("\n") == [" ▀█", "▀"]
    coloured = draw_blocks(picture, color=True)
    assert coloured.count("▀") == 6
    assert coloured.startswith("\x1b[38;5;16;48;5;16m▀\x1b[38;5;231;48;5;16m▀")
    red = np.full((2, 1, 3), (255, 0, 0), np.uint8)
    assert draw_blocks(red, color=True) == "\x1b[38;5;196;48;5;196m▀\x1b[0m"
    grey = np.full((2, 1, 1), 128, np.uint8)
    assert draw_blocks(grey, color=True) == "\x1b[38;5;244;48;5;244m▀\x1b[0m"
