"""A table of weights as a small map of shades, for a terminal."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.lens.grid import FLOORS, LEVELS


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
