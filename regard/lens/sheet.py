"""A sheet of pictures: many in one, side by side, as a PNG or drawn in a terminal, two pixels a letter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.data.canvas import Picture

GAP, SHADE = 1, 96  # pixels between two pictures, and how bright they are
LARGE = 800  # pixels that a sheet's longer side comes near to, unless told
BLOCKS = " ▄▀█"  # lower half and upper half: dark or bright


def arrange(pictures: Sequence[Picture], columns: int, scale: int = 1) -> Picture:
    """All pictures on one sheet, row by row, each pixel a square with sides of `scale`; (height, width, 1 or 3)."""
    height, width, channels = (size * scale for size in pictures[0].shape)
    channels //= scale
    rows = -(-len(pictures) // columns)
    sheet = np.full((rows * (height + GAP) - GAP, columns * (width + GAP) - GAP, channels), SHADE, np.uint8)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, columns)
        top, left = row * (height + GAP), column * (width + GAP)
        sheet[top : top + height, left : left + width] = picture.repeat(scale, 0).repeat(scale, 1)
    return sheet


def choose_scale(shape: tuple[int, ...], rows: int, columns: int) -> int:
    """How large a pixel is drawn so that a sheet of such pictures can be looked at."""
    return max(1, LARGE // max(rows * (shape[0] + GAP), columns * (shape[1] + GAP)))


def draw_blocks(picture: Picture, color: bool) -> str:
    """A picture as half blocks, two rows of it a line; without colour, dark or bright."""
    even = np.pad(picture, ((0, len(picture) % 2), (0, 0), (0, 0)))
    if not color:
        bright = (even.mean(2) >= 128).astype(int)
        lines = (2 * bright[::2] + bright[1::2]).tolist()
        return "\n".join("".join(BLOCKS[cell] for cell in line).rstrip() for line in lines)
    numbers = _number_colors(np.broadcast_to(even, (*even.shape[:2], 3)))
    return "\n".join(
        "".join(f"\x1b[38;5;{up};48;5;{down}m▀" for up, down in zip(*pair, strict=True)) + "\x1b[0m"
        for pair in zip(numbers[::2].tolist(), numbers[1::2].tolist(), strict=True)
    )


def _number_colors(colors: Picture) -> Picture:
    """The nearest of a terminal's 256 colours: a cube of 6 × 6 × 6, and 24 greys for what has no colour."""
    cube = (colors.astype(int) + 25) // 51
    numbers = 16 + cube @ np.array([36, 6, 1])
    grey = colors.mean(2)
    ramp = 232 + np.clip((grey - 3) / 10, 0, 23).astype(int)
    plain = (np.ptp(colors.astype(int), 2) == 0) & (grey > 3) & (grey < 243)  # black and white are in the cube
    return np.where(plain, ramp, numbers)
