"""A table of weights as a small map of shades, and a picture in colours, for a terminal."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.canvas import Picture
from regard.lens.grid import FLOORS, LEVELS

CUBE, LEVEL = 16, 5  # terminals share a cube of 6 × 6 × 6 colours, which begins at number 16


def draw_small(table: Tensor, color: bool, largest: float | None = None) -> list[str]:
    """Two rows a line: half blocks where there is color, else the darker shade of both; `largest`: what is darkest."""
    largest = largest or float(table.max()) or 1.0
    ranks = torch.bucketize((table / largest).contiguous(), torch.tensor(FLOORS), right=True) - 1
    if len(ranks) % 2:
        ranks = F.pad(ranks, (0, 0, 0, 1))
    lines = []
    for upper, lower in zip(ranks[::2].tolist(), ranks[1::2].tolist(), strict=True):
        cells = zip(upper, lower, strict=True)
        if color:
            lines.append(
                "".join(f"\x1b[38;5;{LEVELS[up][2]};48;5;{LEVELS[down][2]}m▀" for up, down in cells) + "\x1b[0m"
            )
        else:
            lines.append("".join(LEVELS[max(up, down)][1] for up, down in cells))
    return lines


def draw_picture(picture: Picture, across: int) -> list[str]:
    """A picture of so many columns, two rows a line, in half blocks of the colours that all terminals have."""
    height, width, _ = picture.shape
    down = max(2, 2 * round(height * across / width / 2))
    planes = torch.from_numpy(picture).permute(2, 0, 1).float()
    # an enlarged pixel stays one, a shrunken picture is a mean of its pixels
    small = F.adaptive_avg_pool2d(planes, (down, across)) / 255  # (channels, rows, columns)
    red, green, blue = (small * LEVEL).round().int().expand(3, -1, -1)  # grey is all three
    numbers = (CUBE + 36 * red + 6 * green + blue).tolist()
    return [
        "".join(f"\x1b[38;5;{up};48;5;{low}m▀" for up, low in zip(upper, lower, strict=True)) + "\x1b[0m"
        for upper, lower in zip(numbers[::2], numbers[1::2], strict=True)
    ]
